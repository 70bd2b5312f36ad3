// Links of the page into the timeline, and the buttons around it.
"use strict";
((tracekit) => {
  // What is shown on both sides of the peak of the memory in use, as a share of the work.
  const PEAK_ROOM = 0.03;
  const smoothly = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

  /** The event that is just [from, to), or that begins a collective which is, on `device` if one is given; -1 for none. */
  function eventOf(app, from, to, device) {
    const { data, index } = app;
    for (const lane of index.lanes) {
      if (device !== undefined && lane.group.name !== device) continue;
      let row = lane.first + tracekit.lanes.countUntil(data, lane, from) - 1;
      for (; row >= lane.first && data.start[row] === from; row--) {
        if (data.end[row] === to) return row;
        const peers = device === undefined ? tracekit.details.peersOf(app, row) : [];
        if (peers.length && Math.max(...peers.map((peer) => data.end[peer])) === to) return row;
      }
    }
    return -1;
  }

  /** The peak of the memory in use on `device`, if it is at a time; else null. */
  function peakOf(app, time, device) {
    const group = app.index.groups.find(({ name, memory }) => name === device && memory);
    return group?.memory.time[group.memory.peak] === time ? { group, place: group.memory.peak } : null;
  }

  /** Scrolls the page to the timeline, and on until the details below it are in sight, but not past what they tell of. */
  function scrollToDetails(app, device) {
    const { box, plot, selected, measured } = app.dom;
    const details = [selected, measured].find((panel) => !panel.hidden) ?? box;
    const above = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0;
    const lane = app.selected >= 0 ? tracekit.lanes.laneOf(app.index.lanes, app.selected) : null;
    const shows = (place) => {
      if (app.memory) return place.memory === app.memory.group.memory;
      return lane ? place.lane === lane || place.subject === lane.group : place.group.name === device;
    };
    const row = tracekit.canvas.inSight(app).find(shows);
    const until = details.getBoundingClientRect().bottom - window.innerHeight + 16;
    const limit = plot.getBoundingClientRect().top + (row?.top ?? 0) - above;
    const start = app.root.getBoundingClientRect().top - above;
    window.scrollBy({ top: Math.max(start, Math.min(until, limit)), behavior: smoothly() });
  }

  /** Links of the page into the timeline: data-from and data-to in ps, perhaps data-device and data-find. They select the
   * event that they show, or measure the range. */
  function links(app, act) {
    const go = (element) => {
      const { device } = element.dataset;
      const [from, to] = [element.dataset.from, element.dataset.to].map((ps) => tracekit.address.toUnits(app, ps));
      if (from === null || to === null) return;
      const peak = from === to ? peakOf(app, Math.floor(from), device) : null;
      const room = peak ? (app.work.to - app.work.from) * PEAK_ROOM : 0;
      app.view = tracekit.viewport.around(from - room, to + room, app.whole, 0.2);
      if (element.dataset.find !== undefined) act.find(element.dataset.find);
      if (device !== undefined) tracekit.actions.scrollTo(app, (row) => row.group.name === device);
      const row = peak ? -1 : eventOf(app, Math.floor(from), Math.floor(to), device);
      act.range(row < 0 && !peak ? { from, to: Math.max(to, from + 1) } : null);
      act.select(row, { memory: peak });
      // The focus tells keyboards where they are; it leaves the wheel to the page.
      app.dom.plot.focus({ preventScroll: true });
      scrollToDetails(app, device);
    };
    document.addEventListener("click", (event) => {
      const element = event.target.closest?.("[data-from][data-to]");
      if (!element) return;
      event.preventDefault();
      go(element);
    });
    document.addEventListener("keydown", (event) => {
      const element = event.target.closest?.("[data-from][data-to]");
      if (!element || element.matches("a, button") || (event.key !== "Enter" && event.key !== " ")) return;
      event.preventDefault();
      go(element);
    });
  }

  /** Makes the timeline react; returns the actions. */
  function attach(app) {
    const act = tracekit.actions.actions(app);
    act.settle = () => {
      app.dragging = false;
      tracekit.rangePanel.show(app, false);
      app.update();
    };
    tracekit.pointer.wheel(app, act);
    tracekit.pointer.pointers(app, act);
    tracekit.keys.keys(app, act);
    tracekit.keys.tree(app, act);
    links(app, act);
    app.dom.box.addEventListener("click", (event) => {
      const action = event.target.closest("[data-action]")?.dataset.action;
      if (action) act[action]();
    });
    return act;
  }

  tracekit.links = { attach, smoothly };
})((globalThis.tracekit ??= {}));
