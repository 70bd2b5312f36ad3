// What is under the pointer: a row, a band, and how much else in that pixel.
"use strict";
((tracekit) => {
  const { inSight, timeAt } = tracekit.canvas;
  // A row narrower than a pixel is hit within this many.
  const NEAR = 2;

  /** The row of the plot under the pointer. */
  function rowUnder(app, y) {
    return inSight(app).find((row) => y >= Math.max(row.top, row.clip) && y < row.top + row.height) ?? null;
  }

  /** The row of the data under the pointer, the nearest within NEAR pixels; -1 for none. */
  function hit(app, { x, y }) {
    const row = rowUnder(app, y);
    if (!row || row.memory) return -1;
    const time = timeAt(app, x);
    const lanes = row.lane ? [row.lane] : row.group.lanes;
    const reach = timeAt(app, x + NEAR) - time;
    let best = -1;
    let distance = Infinity;
    for (const lane of lanes) {
      const inside = tracekit.lanes.rowAt(app.data, lane, time);
      if (inside >= 0) return inside;
      const after = lane.first + tracekit.lanes.countUntil(app.data, lane, time);
      for (const near of [after - 1, after]) {
        if (near < lane.first || near >= lane.last) continue;
        const away = Math.max(app.data.start[near] - time, time - app.data.end[near], 0);
        if (away <= reach && away < distance) [best, distance] = [near, away];
      }
    }
    return best;
  }

  /** What of the memory in use is under the pointer, as memory.under; null for nothing. */
  function memory(app, { x, y }) {
    const row = rowUnder(app, y);
    return row?.memory ? tracekit.memory.under(app, row.group, x) : null;
  }

  /** What else a pixel holds: more than one interval cannot be distinguished in it. */
  function crowd(app, { x, y }) {
    const row = rowUnder(app, y);
    if (!row) return bandUnder(app, { x, y });
    if (row.memory) {
      const changes = memory(app, { x, y })?.changes ?? 0;
      return changes > 1 ? `The highest of ${changes} values in this pixel: zoom in to distinguish them` : "";
    }
    const [from, to] = [timeAt(app, x), timeAt(app, x + 1)];
    const lanes = row.lane ? [row.lane] : row.group.lanes;
    const count = lanes.reduce(
      (sum, lane) => sum + tracekit.lanes.countUntil(app.data, lane, to) - tracekit.intervals.above(lane.reach, from),
      0,
    );
    if (count < 2) return "";
    const busy = row.subject.cells.reduce((sum, { set }) => sum + tracekit.intervals.within(set, from, to), 0);
    const share = app.data.partial ? "" : `, busy ${tracekit.units.percent(busy, to - from)} of it`;
    return `${count} events in this pixel${share}: zoom in to distinguish them`;
  }

  function bandAt(app, { x, y }) {
    const tier = app.bands.shown[Math.floor((y - tracekit.layout.AXIS) / tracekit.layout.BAND)];
    const time = timeAt(app, x);
    return tier?.items.find((item) => item.start <= time && time < item.end) ?? null;
  }

  function bandUnder(app, at) {
    const item = bandAt(app, at);
    if (!item) return "";
    const length = tracekit.details.told(app, item.end - item.start);
    return `${tracekit.layout.label(item)}: ${length}${item.left_out ? `, left out: ${item.left_out}` : ""}`;
  }

  /** The top and the bottom of what a tooltip at `y` tells of: a row of the plot, a row of bands, or the pointer alone. */
  function edges(app, { y }) {
    const row = rowUnder(app, y);
    if (row) return [Math.max(row.top, row.clip), Math.min(row.top + row.height, row.clipEnd)];
    const { AXIS, BAND } = tracekit.layout;
    const tier = Math.floor((y - AXIS) / BAND);
    return app.bands.shown[tier] ? [AXIS + tier * BAND, AXIS + (tier + 1) * BAND] : [y, y];
  }

  tracekit.hits = { hit, memory, crowd, bandAt, edges };
})((globalThis.tracekit ??= {}));
