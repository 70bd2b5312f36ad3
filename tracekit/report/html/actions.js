// All that can be done to the timeline, by name: each changes the state and asks for a new frame.
"use strict";
((tracekit) => {
  const { timeAt, tops } = tracekit.canvas;
  const { around, fitted, panned, zoomed } = tracekit.viewport;

  /** All that can be done, by name. */
  function actions(app) {
    const select = (row, { follow = true, memory = null } = {}) => {
      app.selected = row;
      app.memory = memory;
      app.peers = row >= 0 ? tracekit.details.peersOf(app, row) : [];
      if (row >= 0 && follow) reveal(app, row);
      if (memory && follow) revealMemory(app, memory);
      tracekit.panels.selected(app);
      tracekit.panels.count(app);
      app.update();
    };
    const show = (view) => {
      app.view = view;
      app.update();
    };
    const measure = (range) => {
      app.range = range && { from: Math.round(range.from), to: Math.round(range.to) };
      tracekit.rangePanel.show(app, false);
      app.update();
    };
    const fitRow = (row) => show(around(app.data.start[row], app.data.end[row], app.whole, 1));
    const memory = (group, place, how) => select(-1, { ...how, memory: { group, place } });
    const beside = (by) => {
      if (app.memory) {
        const { group, place } = app.memory;
        const next = tracekit.memory.known(group.memory, place + by, by);
        if (next >= 0) memory(group, next);
      }
      if (app.selected < 0) return;
      const lane = tracekit.lanes.laneOf(app.index.lanes, app.selected);
      const next = app.selected + by;
      if (next >= lane.first && next < lane.last) select(next);
    };
    const lane = (by) => {
      const here = app.memory?.group ?? (app.selected < 0 ? null : tracekit.lanes.laneOf(app.index.lanes, app.selected));
      if (!here) return;
      const time = app.memory ? here.memory.time[app.memory.place] : app.data.start[app.selected];
      // A group stands for its memory.
      const below = (group) => (group.memory && (group === here || !app.closed.has(group.number)) ? [group] : []);
      const all = app.index.groups.flatMap((group) => [...group.lanes, ...below(group)]);
      const next = all[all.indexOf(here) + by];
      if (next?.memory) memory(next, tracekit.memory.known(next.memory, tracekit.memory.placeAt(next.memory, time), -1));
      else if (next) select(nearest(app, next, time));
    };
    const point = (here) => {
      const under = tracekit.hits.memory(app, here);
      select(under ? -1 : tracekit.hits.hit(app, here), { follow: false, memory: under });
    };
    const enter = () => {
      if (app.pointer) return point(app.pointer);
      const first = app.index.lanes[0];
      return first ? select(nearest(app, first, app.view.from), { follow: false }) : null;
    };
    const find = (text) => {
      app.matches = tracekit.search.find(app.data, text);
      if (app.dom.search.value !== text) app.dom.search.value = text;
      tracekit.panels.count(app);
      app.update();
    };
    const next = (forward) => {
      if (!app.matches?.count) return;
      const from = app.selected >= 0 && app.selected < app.data.device_rows ? app.selected : -1;
      select(tracekit.search.next(app.data, app.matches, from, forward ? app.view.from : app.view.to, forward));
    };
    const fold = () => {
      const all = app.index.groups.filter(tracekit.layout.folds).map((group) => group.number);
      app.closed = new Set(app.closed.size < all.length ? all : []);
      app.relay();
    };
    const toggle = (number) => {
      if (!app.closed.delete(number)) app.closed.add(number);
      app.relay();
    };
    const pin = (key) => {
      const plain = key.replace("^", "");
      if (!app.pinned.delete(plain)) app.pinned.add(plain);
      app.relay();
    };
    return {
      select,
      memory,
      point,
      show,
      range: measure,
      find,
      fold,
      toggle,
      pin,
      next: () => next(true),
      previous: () => next(false),
      before: () => beside(-1),
      after: () => beside(1),
      above: () => lane(-1),
      below: () => lane(1),
      enter,
      in: () => show(zoomed(app.view, middle(app), 0.7, app.whole)),
      out: () => show(zoomed(app.view, middle(app), 1 / 0.7, app.whole)),
      left: () => show(panned(app.view, -0.12, app.whole)),
      right: () => show(panned(app.view, 0.12, app.whole)),
      whole: () => show(fitted(app.whole)),
      fit: () => {
        if (app.range) show(around(app.range.from, app.range.to, app.whole));
        else if (app.selected >= 0) fitRow(app.selected);
        else if (app.memory) {
          const { time } = app.memory.group.memory;
          show(around(time[app.memory.place], time[app.memory.place + 1], app.whole, 1));
        }
      },
      "fit-range": () => show(around(app.range.from, app.range.to, app.whole)),
      "fit-selected": () => fitRow(app.selected),
      launch: () => {
        const call = app.data.launch[app.selected];
        if (call >= 0) select(call);
      },
      launched: () => select(tracekit.details.startedBy(app, app.selected)[0]),
      peers: () => {
        const [from, to] = [
          Math.min(...app.peers.map((row) => app.data.start[row])),
          Math.max(...app.peers.map((row) => app.data.end[row])),
        ];
        show(around(from, to, app.whole, 0.3));
      },
      peak: (group = app.memory.group) => memory(group, group.memory.peak),
      measure: () => mark(app, measure),
      unmeasure: () => measure(null),
      release: () => select(-1),
      help: () => app.dom.help.showModal(),
      escape: () => {
        tracekit.pointer.engage(app, false);
        if (app.anchor !== null) app.anchor = null;
        else if (app.range) measure(null);
        else if (app.selected >= 0 || app.memory) select(-1);
        else if (app.matches) find("");
        app.update();
      },
    };
  }

  /** The row of a lane that runs at `time`, else the next one, else the last. */
  function nearest(app, lane, time) {
    const running = tracekit.lanes.rowAt(app.data, lane, time);
    if (running >= 0) return running;
    return Math.min(lane.first + tracekit.lanes.countUntil(app.data, lane, time), lane.last - 1);
  }

  /** The time that keys zoom at: under the pointer, else in the middle. */
  function middle(app) {
    return app.pointer ? timeAt(app, app.pointer.x) : (app.view.from + app.view.to) / 2;
  }

  /** A key's measurement: from the pointer to the pointer, or without one what is selected or in view. */
  function mark(app, measure) {
    const units = (from, to) => ({ from: Math.round(from), to: Math.max(Math.round(to), Math.round(from) + 1) });
    if (!app.pointer) {
      if (app.selected >= 0) measure(units(app.data.start[app.selected], app.data.end[app.selected]));
      else measure(units(app.view.from, app.view.to));
      return;
    }
    const time = middle(app);
    if (app.anchor === null) {
      app.anchor = time;
      measure(units(time, time));
    } else {
      measure(units(Math.min(app.anchor, time), Math.max(app.anchor, time)));
      app.anchor = null;
    }
  }

  /** Moves view and lanes so that `row` is in sight, and no further. */
  function reveal(app, row) {
    showTime(app, app.data.start[row], app.data.end[row]);
    const lane = tracekit.lanes.laneOf(app.index.lanes, row);
    scrollTo(app, (place) => place.lane === lane || (place.subject === lane.group && app.closed.has(lane.group.number)));
  }

  /** The same for a place of the memory in use on a device, as far as its lane is shown. */
  function revealMemory(app, { group, place }) {
    showTime(app, group.memory.time[place], group.memory.time[place]);
    scrollTo(app, (row) => row.memory === group.memory);
  }

  /** Moves the view as far as it must be to show the beginning of [start, end]. */
  function showTime(app, start, end) {
    const { view } = app;
    const span = view.to - view.from;
    if (end >= view.from && start <= view.to) return;
    const from = (start + Math.min(end, start + span)) / 2 - span / 2;
    app.view = tracekit.viewport.inside({ from, to: from + span }, app.whole);
  }

  /** Scrolls the lanes so that the first row for which `test` holds is in sight. */
  function scrollTo(app, test) {
    if (app.rows.pinned.some(test)) return;
    const row = app.rows.rest.find(test);
    if (!row) return;
    const room = app.size.height - tops(app).rest;
    if (row.y < app.scroll) app.dom.lanes.scrollTop = row.y;
    else if (row.y + row.height > app.scroll + room) app.dom.lanes.scrollTop = row.y + row.height - room;
    app.scroll = app.dom.lanes.scrollTop;
  }

  tracekit.actions = { actions, scrollTo };
})((globalThis.tracekit ??= {}));
