// The time in view: pure functions on {from, to}, doubles in units from time 0.
"use strict";
((tracekit) => {
  // Closer than this many units across the screen, nothing more is to be seen.
  const CLOSEST = 10;

  /** `view` no closer than CLOSEST, no wider than `whole` with a margin, and with its middle on it. */
  function clamped(view, whole) {
    const widest = Math.max((whole.to - whole.from) * 1.1, CLOSEST);
    const span = Math.min(Math.max(view.to - view.from, CLOSEST), widest);
    const middle = Math.min(Math.max((view.from + view.to) / 2, whole.from), whole.to);
    const from = span === view.to - view.from && middle === (view.from + view.to) / 2 ? view.from : middle - span / 2;
    return { from, to: from + span };
  }

  /** `view` made `factor` times as long, `time` staying where it is on the screen. */
  function zoomed(view, time, factor, whole) {
    const span = view.to - view.from;
    const next = Math.min(Math.max(span * factor, CLOSEST), Math.max((whole.to - whole.from) * 1.1, CLOSEST));
    const share = (time - view.from) / span;
    return clamped({ from: time - share * next, to: time + (1 - share) * next }, whole);
  }

  /** `view` moved by a share of its length. */
  function panned(view, share, whole) {
    const by = (view.to - view.from) * share;
    return clamped({ from: view.from + by, to: view.to + by }, whole);
  }

  /** A view of [from, to) with some room on both sides. */
  function around(from, to, whole, room = 0.1) {
    const by = Math.max(to - from, 1) * room;
    return clamped({ from: from - by, to: to + by }, whole);
  }

  /** `view` moved as far as it must be to show no more than a little beyond `whole`. */
  function inside(view, whole) {
    const span = view.to - view.from;
    const room = span * 0.02;
    const from = Math.max(Math.min(view.from, whole.to + room - span), whole.from - room);
    return clamped({ from, to: from + span }, whole);
  }

  /** All of `whole` with a narrow margin. */
  function fitted(whole) {
    return around(whole.from, whole.to, whole, 0.01);
  }

  tracekit.viewport = { clamped, zoomed, panned, around, inside, fitted };
})((globalThis.tracekit ??= {}));
