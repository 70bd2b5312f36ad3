// All that can be done to the timeline, by name: each changes the state and asks for a new frame.
"use strict";
((tracekit) => {
  const { timeAt, tops } = tracekit.canvas;
  const { around, fitted, panned, zoomed } = tracekit.viewport;

  /** All that can be done, by name. */
  function actions(app) {
    const select = (row, { follow = true } = {}) => {
      app.selected = row;
      app.peers = row >= 0 ? tracekit.details.peersOf(app, row) : [];
      if (row >= 0 && follow) reveal(app, row);
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
    const beside = (by) => {
      if (app.selected < 0) return;
      const lane = tracekit.lanes.laneOf(app.index.lanes, app.selected);
      const next = app.selected + by;
      if (next >= lane.first && next < lane.last) select(next);
    };
    const lane = (by) => {
      if (app.selected < 0) return;
      const { number } = tracekit.lanes.laneOf(app.index.lanes, app.selected);
      const next = app.index.lanes[number + by];
      if (next) select(nearest(app, next, app.data.start[app.selected]));
    };
    const enter = () => {
      if (app.pointer) return select(tracekit.hits.hit(app, app.pointer), { follow: false });
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
      const all = app.index.groups.filter((group) => group.lanes.length > 1).map((group) => group.number);
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
      measure: () => mark(app, measure),
      unmeasure: () => measure(null),
      release: () => select(-1),
      help: () => app.dom.help.showModal(),
      escape: () => {
        tracekit.pointer.engage(app, false);
        if (app.anchor !== null) app.anchor = null;
        else if (app.range) measure(null);
        else if (app.selected >= 0) select(-1);
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
    const { data, view } = app;
    const [start, end] = [data.start[row], data.end[row]];
    const span = view.to - view.from;
    if (end < view.from || start > view.to) {
      const from = (start + Math.min(end, start + span)) / 2 - span / 2;
      app.view = tracekit.viewport.inside({ from, to: from + span }, app.whole);
    }
    const lane = tracekit.lanes.laneOf(app.index.lanes, row);
    scrollTo(app, (place) => place.lane === lane || (place.subject === lane.group && app.closed.has(lane.group.number)));
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
