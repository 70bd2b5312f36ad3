// Mouse, wheel and touch. The page scrolls wherever the pointer is: the wheel zooms only with Ctrl or after a click into
// the plot, and one finger that moves up or down moves the page (touch-action in timeline.css).
"use strict";
((tracekit) => {
  const { timeAt } = tracekit.canvas;
  const { bandAt, crowd, hit } = tracekit.hits;
  const { around, clamped, panned, zoomed } = tracekit.viewport;
  // A pointer that moved less than this has clicked.
  const STILL = 4;
  // Turns of the wheel with less between them are one.
  const PAUSE_MS = 400;
  // How far a notch of a wheel with Ctrl zooms, as a logarithm.
  const MOST_TURN = 0.2;
  const MODIFIER = /Mac|iP(hone|ad)/.test(navigator.platform) ? "⌘" : "Ctrl";

  function at(app, event) {
    const box = app.dom.plot.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  function wheel(app, act) {
    const { plot } = app.dom;
    // Whoever scrolls the page past the plot asks for nothing: only a turn that begins on it gets the hint.
    let last = -Infinity;
    let here = false;
    document.addEventListener(
      "wheel",
      (event) => {
        if (event.timeStamp - last > PAUSE_MS) here = plot.contains(event.target);
        last = event.timeStamp;
      },
      { passive: true, capture: true },
    );
    plot.addEventListener(
      "wheel",
      (event) => {
        // A turn that scrolls the page already goes on with it.
        if (!event.cancelable) return;
        const lines = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
        const [x, y] = [event.deltaX * lines, event.deltaY * lines];
        // A pinch on a trackpad is a wheel with Ctrl that turns in small steps.
        const pinched = event.ctrlKey || event.metaKey;
        const turn = pinched ? Math.min(Math.max(y * 0.01, -MOST_TURN), MOST_TURN) : y * 0.0016;
        if (event.shiftKey) app.dom.lanes.scrollTop += y || x;
        else if (Math.abs(x) > Math.abs(y)) act.show(panned(app.view, x / app.size.width, app.whole));
        else if (pinched || app.engaged) {
          app.pointer = at(app, event);
          act.show(zoomed(app.view, timeAt(app, app.pointer.x), Math.exp(turn), app.whole));
        } else {
          if (here) tracekit.panels.hint(app, `${MODIFIER} + wheel zooms, or click the timeline first`);
          return;
        }
        event.preventDefault();
      },
      { passive: false },
    );
    app.dom.lanes.addEventListener("scroll", () => {
      app.scroll = app.dom.lanes.scrollTop;
      app.update();
    });
  }

  /** Whether the wheel zooms without Ctrl: from a click into the plot until Escape or a click elsewhere. */
  function engage(app, on) {
    if (app.engaged === on) return;
    app.engaged = on;
    app.dom.plot.classList.toggle("tl-engaged", on);
    tracekit.panels.hint(app, on ? "The wheel now zooms, until Escape or a click outside" : "");
  }

  /** Drags: one pointer pans, with Shift it measures, two pinch. */
  function pointers(app, act) {
    const { plot, box } = app.dom;
    for (const type of ["pointerdown", "focusin"]) {
      document.addEventListener(type, (event) => {
        if (!box.contains(event.target)) engage(app, false);
      });
    }
    const down = new Map();
    let drag = null;
    plot.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const touch = event.pointerType === "touch";
      if (!touch) engage(app, true);
      plot.focus({ preventScroll: true });
      plot.setPointerCapture(event.pointerId);
      const here = at(app, event);
      down.set(event.pointerId, here);
      drag = { from: here, view: app.view, scroll: app.scroll, measuring: event.shiftKey, moved: false, touch };
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
      if (drag && !drag.moved && !drag.pinch && event.type === "pointerup") {
        click(app, act, drag.from);
        if (drag.touch) app.dom.selected.scrollIntoView({ block: "nearest", behavior: tracekit.links.smoothly() });
      }
      if (drag?.measuring && app.range) act.settle();
      // A finger that stays goes on from where it is.
      const [rest] = down.values();
      drag = rest ? { from: rest, view: app.view, scroll: app.scroll, measuring: false, moved: true, touch: true } : null;
    };
    plot.addEventListener("pointerup", up);
    plot.addEventListener("pointercancel", up);
    const leave = () => {
      app.pointer = null;
      app.hover = -1;
      tracekit.panels.tip(app, -1, "");
      app.update("over");
    };
    plot.addEventListener("pointerleave", leave);
    // What scrolls by has no tooltip of where it was.
    window.addEventListener("scroll", () => app.pointer && !drag && leave(), { passive: true });
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
      // A finger that goes up or down has the page scrolled, of which this is the beginning.
      drag.sideways ||= !drag.touch || Math.abs(here.x - drag.from.x) > Math.abs(here.y - drag.from.y);
      if (!drag.sideways) return;
      act.show(panned(drag.view, (drag.from.x - here.x) / app.size.width, app.whole));
      if (!drag.touch) app.dom.lanes.scrollTop = drag.scroll + drag.from.y - here.y;
    }
  }

  function hover(app, here) {
    app.hover = hit(app, here);
    tracekit.panels.tip(app, app.hover, crowd(app, here), tracekit.hits.memory(app, here));
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
    else act.point(here);
  }

  tracekit.pointer = { wheel, engage, pointers };
})((globalThis.tracekit ??= {}));
