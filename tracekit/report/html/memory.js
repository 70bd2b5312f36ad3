// The memory in use on a device: what a pixel column holds of it, its lane, and what is known of one of its values.
"use strict";
((tracekit) => {
  const { percent, short, size, time } = tracekit.units;
  // In use where nothing is known.
  const UNKNOWN = -1;
  const MOST_RUNNING = 3;
  const LONGEST = 60;
  // This near to its mark a pointer means the peak, in CSS pixels.
  const NEAR = 3;

  /** The place of what is in use at a time, the last of several there; -1 before the first. */
  function placeAt({ time: times }, at) {
    return tracekit.intervals.above(times, at) - 1;
  }

  /** The first place from `place` on where it is known what is in use, with `by` = -1 backwards; -1 for none. */
  function known({ inUse }, place, by) {
    while (inUse[place] === UNKNOWN) place += by;
    return inUse[place] === undefined ? -1 : place;
  }

  /** Calls `take(place)` for all that is in use in [from, to), also for no time; `before` is the last place before `from`.
   * Returns that of `to`. */
  function visit({ time: times }, before, from, to, take) {
    let place = before;
    if (place >= 0 && times[place + 1] !== from) take(place);
    while (place + 1 < times.length && times[place + 1] < to) take(++place);
    return place;
  }

  /** The last place before a time. */
  function placeBefore(memory, at) {
    let place = placeAt(memory, at);
    while (place >= 0 && memory.time[place] === at) place--;
    return place;
  }

  /** The highest of what is in use in [from, to), the first of equal ones, and how many changes there are: {place, changes};
   * null where nothing is known. */
  function highest(memory, from, to) {
    const { inUse } = memory;
    let best = -1;
    const before = placeBefore(memory, from);
    const last = visit(memory, before, from, to, (place) => {
      if (inUse[place] !== UNKNOWN && (best < 0 || inUse[place] > inUse[best])) best = place;
    });
    return best < 0 ? null : { place: best, changes: last - before };
  }

  /** The lowest and the highest of what is in use in each of `columns` columns, [from + i step, from + (i + 1) step); UNKNOWN
   * where nothing is known. */
  function extremes(memory, from, step, columns) {
    const [low, high] = [new Float64Array(columns).fill(UNKNOWN), new Float64Array(columns).fill(UNKNOWN)];
    let before = placeBefore(memory, from);
    for (let i = 0; i < columns; i++) {
      before = visit(memory, before, from + i * step, from + (i + 1) * step, (place) => {
        const value = memory.inUse[place];
        if (value === UNKNOWN) return;
        if (low[i] === UNKNOWN || value < low[i]) low[i] = value;
        if (value > high[i]) high[i] = value;
      });
    }
    return { low, high };
  }

  /**
   * Paints a lane into `pixels` (32-bit, `width` a line), up from the line `foot`, `lines` for the peak: in a column the
   * highest value with its edge, and the edge's colour down to the lowest. Only lines in `clip` change.
   */
  function paint(pixels, { width, foot, lines, scale, clip }, memory, view, colours) {
    const { low, high } = extremes(memory, view.from, (view.to - view.from) / width, width);
    const peak = Math.max(memory.inUse[memory.peak], 1);
    const edge = Math.max(Math.round(scale), 1);
    const [lowest, highestLine] = [Math.max(0, foot - clip.last), foot - clip.first];
    for (let x = 0; x < width; x++) {
      if (high[x] === UNKNOWN) continue;
      const top = Math.max(Math.round((high[x] / peak) * lines), edge);
      const dark = Math.min(Math.round((low[x] / peak) * lines), top - edge);
      for (let y = lowest; y < Math.min(top, highestLine); y++) {
        pixels[(foot - 1 - y) * width + x] = y < dark ? colours.memory : colours.memoryEdge;
      }
    }
  }

  /** The bytes of a place as words: "at least" where what was in use before the trace is not known. */
  function bytesOf(memory, place) {
    return `${memory.at_least ? "≥ " : ""}${size(memory.inUse[place])}`;
  }

  /** Marks the peak of a lane at `x` with its value, on the side where there is room. */
  function mark(context, { x, top, height, width }, memory, colours) {
    if (x < -1 || x > width) return;
    context.fillStyle = colours.accent;
    context.fillRect(x - 1, top, 2, height);
    const text = bytesOf(memory, memory.peak);
    const wide = context.measureText(text).width;
    const left = x + 4 + wide + 2 < width ? x + 4 : x - 6 - wide;
    context.fillStyle = colours.label;
    context.fillRect(left - 2, top + 2, wide + 4, height - 4);
    context.fillStyle = colours.ink;
    context.textBaseline = "middle";
    context.fillText(text, left, top + height / 2 + 0.5);
  }

  /** The rows of a device that run at a time, by kind. */
  function rowsAt(data, group, at) {
    const rows = [];
    for (const lane of group.lanes) {
      const before = lane.first + tracekit.lanes.countUntil(data, lane, at) - 1;
      for (let row = before; row >= lane.first && lane.reach[row - lane.first] > at; row--) {
        if (data.end[row] > at) rows.push(row);
      }
    }
    return rows.toSorted((a, b) => data.kind[a] - data.kind[b] || data.start[a] - data.start[b]);
  }

  /** What runs on a device at a time, or what comes next there. */
  function running({ data }, group, at) {
    const nameOf = (row) => short(data.names[data.name[row]], LONGEST);
    const names = [...new Set(rowsAt(data, group, at).map(nameOf))];
    if (names.length > MOST_RUNNING) return `${names.slice(0, MOST_RUNNING).join("; ")}; ${names.length - MOST_RUNNING} more`;
    if (names.length) return names.join("; ");
    let next = -1;
    for (const lane of group.lanes) {
      const row = lane.first + tracekit.lanes.countUntil(data, lane, at);
      if (row < lane.last && (next < 0 || data.start[row] < data.start[next])) next = row;
    }
    if (next < 0) return "nothing, with no work to come";
    return `nothing; ${nameOf(next)} began ${time((data.start[next] - at) * data.unitPs)} later`;
  }

  /** All that is known of what a device has in use from a place of its lane on, told of the time `at` if it is later;
   * as details.describe. */
  function describe(app, { group, place, at = -Infinity }, tell = tracekit.details.told) {
    const { memory } = group;
    const now = Math.max(memory.time[place], at);
    const bytes = memory.inUse[place];
    const isPeak = place === memory.peak;
    const within = memory.stretch_ps && now !== memory.time[place] ? `, to within ${time(memory.stretch_ps)}` : "";
    const facts = [
      ["on", group.name],
      ["at", `${tell(app, Math.floor(now))}${within}`],
      ["in use", `${bytesOf(memory, place)} (${tracekit.units.count(bytes)} B)`],
    ];
    if (!isPeak) facts.push(["of its peak", percent(bytes, memory.inUse[memory.peak])]);
    facts.push(["running then", memory.error ? `not known: ${memory.error}` : running(app, group, now)]);
    if (isPeak) facts.push(...memory.facts);
    return { name: isPeak ? "peak of the memory in use" : "memory in use", kind: "", colour: "memory", facts, beside: [], more: 0 };
  }

  /** What of a device's memory is under the pointer on its lane: {group, place, at, changes}, null for nothing. */
  function under(app, group, x) {
    const { memory } = group;
    const [from, to] = [tracekit.canvas.timeAt(app, x), tracekit.canvas.timeAt(app, x + 1)];
    const peak = memory.time[memory.peak];
    if (Math.abs(tracekit.canvas.xOf(app, peak) - x) <= NEAR) return { group, place: memory.peak, at: peak, changes: 0 };
    const found = highest(memory, from, to);
    return found && { group, at: from, ...found };
  }

  tracekit.memory = { placeAt, known, highest, extremes, paint, mark, bytesOf, describe, under };
})((globalThis.tracekit ??= {}));
