// All that is known of one row: its own facts, what ran beside it and for how long.
"use strict";
((tracekit) => {
  const { count, exact, percent, rate, size, time } = tracekit.units;
  const MOST_BESIDE = 6;

  /** Units as exact picoseconds. */
  function picoseconds(app, units) {
    return BigInt(units) * app.data.unit;
  }

  /** Units as the time that every face tells. */
  function told(app, units) {
    return time(units * app.data.unitPs);
  }

  /** The same with every digit behind it, where it has more. */
  function toldExactly(app, units) {
    const [short, whole] = [told(app, units), exact(picoseconds(app, units))];
    const [[figure, unit], [digits, of]] = [short.split(" "), whole.split(" ")];
    return (unit === of && Number(figure) === Number(digits)) || units === 0 ? short : `${short} (${whole})`;
  }

  /** What a class of rows is called: compute, memcpy H2D, host call. */
  function kindOf(app, row) {
    const [kind, way] = app.data.classes[app.data.kind[row]];
    return kind === "host" ? "host call" : way ? `${kind} ${way}` : kind;
  }

  /** Where a row ran: its device and lane. */
  function whereOf(app, row) {
    const lane = tracekit.lanes.laneOf(app.index.lanes, row);
    return { lane, place: [lane.group.name, lane.name].filter(Boolean).join(", ") };
  }

  /** The time of each kind in [from, to), from cells, longest first; as "compute 3.20 µs (40.0 %)". */
  function kindsIn(app, cells, from, to) {
    const times = new Map();
    for (const { mask, set } of cells) {
      const length = tracekit.intervals.within(set, from, to);
      for (const kind of tracekit.coverage.kindsOf(app.data.classes, mask))
        times.set(kind, (times.get(kind) ?? 0) + length);
    }
    const kinds = [...times].filter(([, length]) => length > 0).toSorted((a, b) => b[1] - a[1]);
    return {
      longest: kinds[0]?.[1] ?? 0,
      texts: kinds.map(
        ([kind, length]) =>
          `${tracekit.coverage.KINDS[kind]} ${time(length * app.data.unitPs)} (${percent(length, to - from)})`,
      ),
    };
  }

  /** What the other rows of its own lane hold while a row runs. */
  function inLane(app, lane, row) {
    const { data } = app;
    const first = lane.first + tracekit.intervals.above(lane.reach, data.start[row]);
    const last = lane.first + tracekit.lanes.countUntil(data, lane, data.end[row]);
    return { cells: tracekit.intervals.cells(tracekit.lanes.byClass(data, first, last, (other) => other !== row)) };
  }

  /** What overlaps a row in its lane, on the other lanes of its device and on other devices of its clock, the longest first. */
  function beside(app, row) {
    const { lane } = whereOf(app, row);
    const [from, to] = [app.data.start[row], app.data.end[row]];
    const lanes = lane.group.lanes.filter((other) => other !== lane).map((other) => [other.name, other]);
    const devices = app.index.groups
      .filter((other) => other !== lane.group && other.kind !== "host" && other.clock === lane.group.clock)
      .map((other) => [other.name, other]);
    const others = [
      ...(lane.group.kind === "host" ? [] : [["this lane", inLane(app, lane, row)], ...lanes]),
      ...devices,
    ];
    const overlaps = others
      .map(([name, { cells }]) => ({ name, ...kindsIn(app, cells, from, to) }))
      .filter((overlap) => overlap.longest > 0)
      .toSorted((a, b) => b.longest - a.longest);
    return { overlaps: overlaps.slice(0, MOST_BESIDE), more: Math.max(overlaps.length - MOST_BESIDE, 0) };
  }

  /** The rows that a host call started. */
  function startedBy(app, call) {
    const rows = [];
    for (let row = 0; row < app.data.device_rows; row++) if (app.data.launch[row] === call) rows.push(row);
    return rows;
  }

  /** The rows of the same collective on all devices, in the order of the lanes. */
  function peersOf(app, row) {
    const own = row < app.data.device_rows ? app.data.instance[row] : -1;
    if (own < 0) return [];
    const rows = [];
    for (let peer = 0; peer < app.data.device_rows; peer++) if (app.data.instance[peer] === own) rows.push(peer);
    return rows;
  }

  /** The facts of a device row, beyond its times. */
  function workFacts(app, row) {
    const { data } = app;
    const facts = [];
    const length = (data.end[row] - data.start[row]) * data.unitPs;
    if (!Number.isNaN(data.bytes[row])) {
      facts.push(["bytes", `${size(data.bytes[row])} (${count(data.bytes[row])} B)`]);
      if (data.classes[data.kind[row]][0] === "memcpy" && length > 0) {
        facts.push(["rate", rate(data.bytes[row] / (length / 1e12), "B/s")]);
      }
    }
    if (!Number.isNaN(data.wait[row])) facts.push(["waiting", time(data.wait[row] * data.unitPs)]);
    if (data.step[row] >= 0) {
      const step = data.steps[data.step[row]];
      facts.push(["step", `${step.name} ${step.step ?? ""}`.trim() + (step.left_out ? ` (${step.left_out})` : "")]);
    }
    if (data.launch[row] >= 0) {
      const call = data.launch[row];
      const { lane } = whereOf(app, call);
      const ahead = (data.start[row] - data.start[call]) * data.unitPs;
      const when = ahead < 0 ? `${time(-ahead)} after the start` : `${time(ahead)} before the start`;
      facts.push(["launched by", `${data.names[data.name[call]]}, ${when}, on ${lane.name}`]);
    }
    return facts;
  }

  /** All of a row: {name, kind, lane, facts: [[term, text]], beside: [{name, texts}], more}; `tell` puts its times. */
  function describe(app, row, tell = told) {
    const { data } = app;
    const { place, lane } = whereOf(app, row);
    const facts = [
      ["on", place],
      ["start", tell(app, data.start[row])],
      ["duration", tell(app, data.end[row] - data.start[row])],
    ];
    if (row < data.device_rows) facts.push(...workFacts(app, row));
    const { overlaps, more } = beside(app, row);
    const colour = data.classes[data.kind[row]][0];
    return { name: data.names[data.name[row]], kind: kindOf(app, row), colour, lane, facts, beside: overlaps, more };
  }

  tracekit.details = { picoseconds, told, toldExactly, whereOf, describe, peersOf, startedBy };
})((globalThis.tracekit ??= {}));
