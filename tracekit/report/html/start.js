// Starts the timeline: reads the data, builds the elements, keeps state, and draws when something changed.
"use strict";
((tracekit) => {
  // With more lanes than this, devices are folded at first.
  const MOST_OPEN = 40;
  const REST_MS = 200;
  // What is more than this share of the whole opens as the whole.
  const MOST = 0.9;
  // Of the window's height, at first and once it is asked for.
  const SMALL = 0.42;
  const TALL = 0.85;

  /** Writes a sentence in place of the timeline. */
  function sentence(root, text) {
    root.append(tracekit.elements.element("p", { className: "tl-note", text }));
  }

  /** From the first start to the last end of rows, phases and steps, in units. */
  function workOf(data) {
    const edges = [...(data.whole ?? []), ...[...data.phases, ...data.steps].flatMap(({ start, end }) => [start, end])];
    const [from, to] = [Math.min(...edges), Math.max(...edges)];
    return { from, to: Math.max(to, from + 1) };
  }

  /** The same with all changes of the memory in use, which may lie before the first work and after the last. */
  function wholeOf(data, { from, to }) {
    const edges = data.memory.flatMap(({ time, steps }) => [time[Math.min(1, steps - 1)], time[steps - 1]]);
    return { from: Math.min(from, ...edges), to: Math.max(to, ...edges) };
  }

  /** What the timeline opens on, with its words: the work of devices too, where memory changes long before or after it. */
  function openingOf(data, work, whole) {
    if (data.opening || data.extent || work.to - work.from > MOST * (whole.to - whole.from)) return data.opening;
    return { words: "the work of the devices", ...work };
  }

  function stateOf(root, data) {
    const index = tracekit.lanes.index(data);
    const work = workOf(data);
    const whole = wholeOf(data, work);
    const many = index.lanes.length > MOST_OPEN;
    // Threads of a pool take whatever comes: what a reader looks for is their device.
    const isFolded = (group) => tracekit.layout.folds(group) && (many || group.kind === "host" || group.pool);
    const folded = index.groups.filter(isFolded);
    const shorts = new Map();
    for (const group of index.groups) {
      const names = tracekit.lanes.short(group.lanes.map(({ name }) => name));
      group.lanes.forEach((lane, at) => shorts.set(lane, names[at]));
    }
    const opening = openingOf(data, work, whole);
    const [from, to] = opening ? [opening.from, opening.to] : (data.extent ?? [work.from, work.to]);
    return {
      root,
      data,
      index,
      work,
      whole,
      shorts,
      nameIn: tracekit.labels.labels(data.names, tracekit.labels.bare),
      view: tracekit.viewport.around(from, to, whole, opening ? 0.05 : 0.01),
      opening,
      tall: false,
      closed: new Set(folded.map((group) => group.number)),
      pinned: new Set(),
      bands: tracekit.layout.bands(data),
      rows: { pinned: [], rest: [] },
      scroll: 0,
      pointer: null,
      hover: -1,
      selected: -1,
      memory: null,
      peers: [],
      range: null,
      measured: null,
      anchor: null,
      matches: null,
      dragging: false,
      engaged: false,
      current: null,
      size: { width: 0, height: 0, scale: 1 },
    };
  }

  /** Fits plot and canvases to the page: all lanes if they fit, else most of the window. */
  function resize(app) {
    const { plot, base, over, lanes, heads, pinned } = app.dom;
    const { AXIS, BAND, height } = tracekit.layout;
    const above = AXIS + app.bands.shown.length * BAND + 4;
    const top = height(app.rows.pinned) + (app.rows.pinned.length ? 5 : 0);
    const room = Math.max(200, window.innerHeight * (app.tall ? TALL : SMALL) - above - top);
    const body = Math.max(Math.min(height(app.rows.rest), room), 1);
    app.dom.taller.hidden = !app.tall && height(app.rows.rest) <= room;
    heads.style.height = `${above}px`;
    pinned.style.height = `${top}px`;
    lanes.style.height = `${body}px`;
    plot.style.height = `${above + top + body}px`;
    const scale = Math.max(window.devicePixelRatio || 1, 1);
    const width = Math.max(Math.round(plot.clientWidth), 1);
    app.size = { width, height: Math.round(above + top + body), scale };
    for (const canvas of [base, over]) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(app.size.height * scale);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${app.size.height}px`;
    }
    app.scroll = lanes.scrollTop;
    tracekit.laneTree.fit(app);
  }

  /** Draws now. */
  function draw(app, what) {
    if (what !== "over") tracekit.canvas.frame(app);
    if (app.dragging) tracekit.rangePanel.show(app, true);
    tracekit.overlay.frame(app);
  }

  /** Asks for one frame, however often it is called; what may wait follows when nothing changed for a while. */
  function scheduler(app) {
    let pending = null;
    let resting = 0;
    return (what = "all") => {
      if (pending === null) {
        requestAnimationFrame(() => {
          const what = pending;
          pending = null;
          draw(app, what);
          app.frames = (app.frames ?? 0) + 1;
        });
      }
      pending = pending === "all" ? pending : what;
      if (what === "over") return;
      clearTimeout(resting);
      resting = setTimeout(() => rest(app), REST_MS);
    };
  }

  function rest(app) {
    tracekit.laneTree.shares(app);
    tracekit.panels.announce(app);
    const { view, data } = app;
    const text = `Timeline of ${tracekit.units.count(data.device_rows)} events on ${app.index.groups.length} devices and hosts, ${tracekit.units.time((view.to - view.from) * data.unitPs)} in view; press question mark for its keys`;
    app.dom.plot.setAttribute("aria-label", text);
    const hash = tracekit.address.write(app);
    // Opening a page does not change its address.
    if (hash === app.opened) return;
    app.opened = null;
    if (hash !== window.location.hash) history.replaceState(null, "", hash);
  }

  /** Lays the rows out anew, after folding or pinning. */
  function relay(app) {
    app.rows = tracekit.layout.rows(app.index, app.closed, app.pinned);
    tracekit.laneTree.fill(app);
    resize(app);
    app.update();
    tracekit.printPicture.prepare(app);
  }

  /** Says which part of the trace is shown at first, with buttons for all of it and for more height. */
  function caption(app) {
    const { element } = tracekit.elements;
    const { data, opening } = app;
    const time = (from, to) => tracekit.units.time((to - from) * data.unitPs);
    const text = opening
      ? `Opens on ${opening.words}: ${time(opening.from, opening.to)}.`
      : "";
    const taller = element("button", { type: "button", text: "Taller", "aria-pressed": "false" });
    taller.addEventListener("click", () => {
      app.tall = !app.tall;
      taller.setAttribute("aria-pressed", String(app.tall));
      resize(app);
      app.update();
    });
    app.dom.taller = taller;
    const show = element("button", { type: "button", text: "Show all of it", "data-action": "whole" });
    app.dom.box.prepend(
      element("p", { className: "tl-opening" }, element("span", { text }), ...(opening ? [show] : []), taller),
    );
  }

  function recolour(app) {
    app.colours = tracekit.canvas.coloursOf(app.root);
    app.update();
  }

  /** Restores what an address holds; false if it holds nothing of the timeline. */
  function restore(app, act) {
    const state = tracekit.address.read(app, window.location.hash);
    if (!state) return false;
    if (state.view) app.view = tracekit.viewport.clamped(state.view, app.whole);
    app.closed = state.closed;
    app.pinned = state.pinned;
    relay(app);
    act.find(state.find);
    act.select(state.selected, { follow: false, memory: state.memory });
    act.range(state.range);
    return true;
  }

  function watch(app, act) {
    new ResizeObserver(() => {
      if (app.dom.plot.clientWidth === app.size.width) return;
      resize(app);
      app.update();
    }).observe(app.dom.plot);
    new ResizeObserver(() => tracekit.rangePanel.stops(app)).observe(app.dom.measured);
    window.addEventListener("resize", () => {
      resize(app);
      app.update();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => recolour(app));
    new MutationObserver(() => recolour(app)).observe(document.documentElement, {
      attributes: true,
      attributeFilter: ["data-theme", "class", "style"],
    });
    window.addEventListener("hashchange", () => restore(app, act));
  }

  async function start() {
    const root = document.getElementById("timeline");
    if (!root || !document.getElementById("timeline-header")) return;
    if (!tracekit.decode.able()) {
      sentence(
        root,
        "This browser cannot unpack the timeline (it lacks DecompressionStream): any browser from 2023 or later can. The rest of this page needs no timeline.",
      );
      return;
    }
    const progress = tracekit.elements.element("p", {
      className: "tl-note",
      role: "status",
      text: "Unpacking the timeline …",
    });
    root.append(progress);
    const data = await tracekit.decode.load(document);
    progress.remove();
    if (!data.rows && !data.phases.length && !data.steps.length) {
      sentence(root, "Nothing ran on a device here, so there is no timeline.");
      return;
    }
    const app = stateOf(root, data);
    app.dom = tracekit.elements.build(root, app);
    caption(app);
    app.update = scheduler(app);
    app.relay = () => relay(app);
    app.colours = tracekit.canvas.coloursOf(root);
    const act = tracekit.links.attach(app);
    relay(app);
    if (restore(app, act)) root.scrollIntoView();
    app.opened = tracekit.address.write(app);
    watch(app, act);
    draw(app, "all");
    tracekit.app = app;
    tracekit.act = act;
    root.dataset.ready = "";
    performance.mark("timeline drawn");
  }

  tracekit.started = start();
})((globalThis.tracekit ??= {}));
