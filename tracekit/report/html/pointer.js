// Mouse, wheel and touch.
"use strict";
((tracekit) => {
  const { timeAt } = tracekit.canvas;
  const { bandAt, crowd, hit } = tracekit.hits;
  const { around, clamped, panned, zoomed } = tracekit.viewport;
  // A pointer that moved less than this has clicked.
  const STILL = 4;

  function at(app, event) {
    const box = app.dom.plot.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  function wheel(app, act) {
    app.dom.plot.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const lines = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
        const [x, y] = [event.deltaX * lines, event.deltaY * lines];
        if (event.shiftKey) app.dom.lanes.scrollTop += y || x;
        else if (Math.abs(x) > Math.abs(y)) act.show(panned(app.view, x / app.size.width, app.whole));
        else {
          app.pointer = at(app, event);
          act.show(
            zoomed(app.view, timeAt(app, app.pointer.x), Math.exp(y * (event.ctrlKey ? 0.01 : 0.0016)), app.whole),
          );
        }
      },
      { passive: false },
    );
    app.dom.lanes.addEventListener("scroll", () => {
      app.scroll = app.dom.lanes.scrollTop;
      app.update();
    });
  }

  /** Drags: one pointer pans, with Shift it measures, two pinch. */
  function pointers(app, act) {
    const { plot } = app.dom;
    const down = new Map();
    let drag = null;
    plot.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      plot.focus({ preventScroll: true });
      plot.setPointerCapture(event.pointerId);
      const here = at(app, event);
      down.set(event.pointerId, here);
      drag = { from: here, view: app.view, scroll: app.scroll, measuring: event.shiftKey, moved: false };
      if (down.size === 2) drag.pinch = [...down.values()].map(({ x }) => timeAt(app, x));
    });
    plot.addEventListener("pointermove", (event) => {
      const here = at(app, event);
      app.pointer = here;
      if (drag && down.has(event.pointerId)) {
        down.set(event.pointerId, here);
        move(app, act, drag, here, down);
      } else hover(app, here);
      app.update("over");
    });
    const up = (event) => {
      if (!down.delete(event.pointerId)) return;
      if (drag && !drag.moved && !drag.pinch && event.type === "pointerup") click(app, act, drag.from);
      if (drag?.measuring && app.range) act.settle();
      // A finger that stays goes on from where it is.
      const [rest] = down.values();
      drag = rest ? { from: rest, view: app.view, scroll: app.scroll, measuring: false, moved: true } : null;
    };
    plot.addEventListener("pointerup", up);
    plot.addEventListener("pointercancel", up);
    plot.addEventListener("pointerleave", () => {
      app.pointer = null;
      app.hover = -1;
      tracekit.panels.tip(app, -1, "");
      app.update("over");
    });
  }

  function move(app, act, drag, here, down) {
    if (Math.hypot(here.x - drag.from.x, here.y - drag.from.y) >= STILL) drag.moved = true;
    if (!drag.moved) return;
    app.hover = -1;
    tracekit.panels.tip(app, -1, "");
    const span = drag.view.to - drag.view.from;
    if (drag.pinch && down.size === 2) {
      const [a, b] = [...down.values()].map(({ x }) => x);
      if (Math.abs(a - b) < 8) return;
      const [timeA, timeB] = drag.pinch;
      const scale = (timeB - timeA) / (b - a);
      if (scale > 0)
        act.show(clamped({ from: timeA - a * scale, to: timeA + (app.size.width - a) * scale }, app.whole));
    } else if (drag.measuring) {
      const times = [drag.from.x, here.x].map((x) => Math.round(drag.view.from + (x / app.size.width) * span));
      const [from, to] = [Math.min(...times), Math.max(...times)];
      app.range = to > from ? { from, to } : null;
      app.dragging = true;
      app.update();
    } else {
      act.show(panned(drag.view, (drag.from.x - here.x) / app.size.width, app.whole));
      app.dom.lanes.scrollTop = drag.scroll + drag.from.y - here.y;
    }
  }

  function hover(app, here) {
    app.hover = hit(app, here);
    tracekit.panels.tip(app, app.hover, crowd(app, here));
    if (app.anchor !== null) {
      const time = timeAt(app, here.x);
      const [from, to] = [Math.min(app.anchor, time), Math.max(app.anchor, time)].map(Math.round);
      app.range = { from, to: Math.max(to, from + 1) };
      app.dragging = true;
      app.update();
    }
  }

  function click(app, act, here) {
    const band = bandAt(app, here);
    if (band) act.show(around(band.start, band.end, app.whole, 0.02));
    else act.select(hit(app, here), { follow: false });
  }

  tracekit.pointer = { wheel, pointers };
})((globalThis.tracekit ??= {}));
