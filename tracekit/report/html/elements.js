// The elements around the plot: tools, legend, notes, help, and empty boxes for the panels.
"use strict";
((tracekit) => {
  const KEYS = [
    ["Ctrl with wheel, w, s, + and −", "zoom at the pointer; after a click into the timeline the wheel alone zooms"],
    ["drag, a, d, ← and →", "move in time"],
    ["↑ and ↓, Shift with wheel", "scroll the lanes"],
    ["touch", "pinch to zoom, drag sideways to move in time; up and down scrolls the page"],
    [
      "click, Enter",
      "select what is under the pointer, with its launch and, of a collective, its other devices; without a pointer, the first in view",
    ],
    [", and . and j and k", "select what came before or after it in its lane, or ran in the lane below or above"],
    ["Enter on a memory lane in the list of lanes", "select its peak"],
    ["l", "go to the host call that launched the selected event"],
    [
      "Shift with drag; or m, and m again",
      "measure a range; without a pointer, m takes the selected event, or the view",
    ],
    ["f", "fit the measured range or the selected event"],
    ["0", "the whole trace"],
    [
      "/",
      "search a name, or a regular expression between slashes; Enter for the next, Shift and Enter for the one before",
    ],
    ["Escape", "give the wheel back to the page; clear the range, the selection, the search"],
    ["in the list of lanes", "↑ ↓ walk, ← → fold, p pins to the top"],
    ["?", "this help"],
  ];

  /** An element with text, classes and attributes; text is text whatever it holds. */
  function element(tag, { text, className, ...attributes } = {}, ...children) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    node.append(...children);
    return node;
  }

  /** Builds all elements in `root`; returns them by name. */
  function build(root, app) {
    const button = (text, title, action) => element("button", { type: "button", text, title, "data-action": action });
    const search = element("input", {
      type: "search",
      placeholder: "Search names, or /regexp/",
      "aria-label": "Search names",
      spellcheck: "false",
      autocomplete: "off",
    });
    const count = element("output", { className: "tl-count" });
    const bar = element(
      "div",
      { className: "tl-bar", role: "toolbar", "aria-label": "Timeline" },
      element(
        "span",
        { className: "tl-search" },
        search,
        button("↑", "Previous match (Shift Enter)", "previous"),
        button("↓", "Next match (Enter)", "next"),
      ),
      count,
      element("span", { className: "tl-space" }),
      button("−", "Zoom out (s)", "out"),
      button("+", "Zoom in (w)", "in"),
      button("Whole", "The whole trace (0)", "whole"),
      button("Fit", "Fit the measured range or the selection (f)", "fit"),
      button("Measure", "Measure the selection, or what is in view (m); Shift and drag for any range", "measure"),
      button("Fold", "Fold or unfold all devices", "fold"),
      button("?", "Keys (?)", "help"),
    );
    const base = element("canvas", { className: "tl-base", "aria-hidden": "true" });
    const over = element("canvas", { className: "tl-over", "aria-hidden": "true" });
    const print = tracekit.printPicture.holder();
    const plot = element(
      "div",
      {
        className: "tl-plot",
        tabindex: "0",
        role: "application",
        "aria-roledescription": "timeline",
        "aria-label": "Timeline",
      },
      base,
      over,
      print,
    );
    const heads = element("div", { className: "tl-heads" });
    const pinned = element("div", { className: "tl-pinned", role: "presentation" });
    const lanes = element("div", { className: "tl-lanes", role: "presentation" });
    const tree = element(
      "div",
      { role: "tree", "aria-label": "Devices and lanes" },
      pinned,
      lanes,
    );
    const side = element("div", { className: "tl-side" }, heads, tree);
    const tip = element("div", { className: "tl-tip", role: "tooltip", hidden: "" });
    // What it says of the wheel, the help says to all.
    const hint = element("div", { className: "tl-hint", hidden: "", "aria-hidden": "true" });
    const selected = element("div", { className: "tl-selected", hidden: "" });
    const measured = element("div", { className: "tl-measured", hidden: "" });
    const live = element("p", { className: "tl-live", role: "status", "aria-live": "polite" });
    const help = dialog();
    const box = element(
      "div",
      { className: "tl" },
      bar,
      legend(app),
      element("div", { className: "tl-frame" }, side, plot),
      ...notes(app),
      measured,
      selected,
      live,
      help,
      tip,
      hint,
    );
    root.append(box);
    return {
      box,
      bar,
      search,
      count,
      base,
      over,
      print,
      plot,
      side,
      heads,
      pinned,
      lanes,
      tip,
      hint,
      selected,
      measured,
      live,
      help,
    };
  }

  function legend(app) {
    const occurring = new Set(
      app.index.groups.flatMap(({ cells }) =>
        cells.flatMap(({ mask }) => tracekit.coverage.kindsOf(app.data.classes, mask)),
      ),
    );
    const list = element("ul", { className: "tl-legend", "aria-label": "Legend" });
    tracekit.coverage.KINDS.forEach((kind, at) => {
      if (!occurring.has(at)) return;
      const text = kind === "host" ? "host call" : kind;
      list.append(
        element("li", {}, element("span", { className: `tl-square tl-${kind}`, "aria-hidden": "true" }), text),
      );
    });
    if (app.data.memory.length) {
      const square = element("span", { className: "tl-square tl-memory", "aria-hidden": "true" });
      list.append(element("li", {}, square, "memory in use"));
    }
    list.append(
      element("li", {
        text: "A column is filled to its busy share; a dot below a lane marks events too short to draw.",
      }),
    );
    return list;
  }

  /** What a reader must know to read the picture right. */
  function notes(app) {
    const { data } = app;
    const sentences = [...data.notes];
    if (data.clocks.length > 1) {
      sentences.push(
        "Host clocks are not aligned: each starts at its own first event, so what is drawn above each other need not have run at the same time.",
      );
    }
    if (data.rounded)
      sentences.push(
        `Times are rounded down to whole ${tracekit.units.exact(data.unit)}: the trace is too long for exact ones.`,
      );
    if (app.bands.omitted) sentences.push(`${app.bands.omitted} more rows of phases or steps omitted.`);
    return sentences.map((text) => element("p", { className: "tl-note", text }));
  }

  function dialog() {
    const rows = KEYS.flatMap(([keys, what]) => [element("dt", { text: keys }), element("dd", { text: what })]);
    const close = element("form", { method: "dialog" }, element("button", { text: "Close", type: "submit" }));
    return element(
      "dialog",
      { className: "tl-help", "aria-labelledby": "tl-help-title" },
      element("h3", { id: "tl-help-title", text: "Keys" }),
      element("dl", {}, ...rows),
      close,
    );
  }

  tracekit.elements = { element, build };
})((globalThis.tracekit ??= {}));
