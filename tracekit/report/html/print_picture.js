// The picture that is printed: the whole in the colours for paper, ready before anyone prints, since no canvas can be
// drawn anew while the browser lays out its sheets.
"use strict";
((tracekit) => {
  // Drawn this wide and then fitted, since no page knows how wide the sheet is.
  const WIDTH = 560;
  const SCALE = 2;
  // More rows than this are printed as far as they are in sight.
  const MOST_ROWS = 120;
  const REST_MS = 600;

  /** The picture of the whole as a data URL, and its height in CSS pixels. */
  function picture(app) {
    const { height } = tracekit.layout;
    const all = app.rows.rest.length <= MOST_ROWS;
    const body = all ? height(app.rows.rest) : app.size.height - tracekit.canvas.tops(app).rest;
    const size = { width: WIDTH, height: Math.round(tracekit.canvas.tops(app).rest + body), scale: SCALE };
    const base = document.createElement("canvas");
    base.width = WIDTH * SCALE;
    base.height = size.height * SCALE;
    const view = tracekit.viewport.fitted(app.work);
    const colours = tracekit.canvas.colours((name) => app.data.paper[name] ?? "gray");
    const scroll = all ? 0 : app.scroll;
    tracekit.canvas.frame({ ...app, size, view, colours, scroll, matches: null, image: null, dom: { base } });
    return { url: base.toDataURL("image/png"), height: size.height, all };
  }

  /** Makes the picture once the rows have stayed as they are for a moment. */
  function prepare(app) {
    clearTimeout(app.preparing);
    app.preparing = setTimeout(() => {
      const { print, box } = app.dom;
      const { url, height, all } = picture(app);
      print.firstChild.setAttribute("href", url);
      print.style.height = `${height}px`;
      box.classList.toggle("tl-all", all);
    }, REST_MS);
  }

  /** The element that holds the picture: SVG, which stretches it to the width of the sheet. */
  function holder() {
    const svg = (name, attributes) => {
      const node = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
      return node;
    };
    const box = svg("svg", { class: "tl-paper", role: "img", "aria-label": "The whole timeline" });
    box.append(svg("image", { width: "100%", height: "100%", preserveAspectRatio: "none" }));
    return box;
  }

  tracekit.printPicture = { holder, prepare };
})((globalThis.tracekit ??= {}));
