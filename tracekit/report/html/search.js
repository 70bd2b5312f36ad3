// Rows by their name: which match, how many, and the next one in time.
"use strict";
((tracekit) => {
  /**
   * What a search finds: `names` (1 for each that matches), `count` of device rows, and `cells` of a lane or
   * device, those of the rows that match (made when asked). Null for an empty text; {problem} for an expression that is none.
   */
  function find(data, text) {
    if (!text) return null;
    let matches;
    try {
      matches = tracekit.matcher(text);
    } catch (error) {
      return { text, problem: error.message, count: 0, cells: () => [] };
    }
    const names = Uint8Array.from(data.names, (name) => (matches(name) ? 1 : 0));
    let count = 0;
    for (let row = 0; row < data.device_rows; row++) count += names[data.name[row]];
    const known = new Map();
    const matching = (row) => names[data.name[row]] === 1;
    const cells = (subject) => {
      if (!known.has(subject)) {
        const lanes = subject.lanes ?? [subject];
        const sets = lanes.map((lane) => tracekit.lanes.byClass(data, lane.first, lane.last, matching));
        const united = data.classes.map((_, kind) =>
          tracekit.intervals.uniteAll(sets.map((byClass) => byClass[kind]).filter((set) => set.length)),
        );
        known.set(subject, tracekit.intervals.cells(united));
      }
      return known.get(subject);
    };
    return { text, names, count, cells };
  }

  /** The row that matches next after `row` (or before it) in time, from one end to the other; from `time` without row. */
  function next(data, matches, row, time, forward) {
    const at = row < 0 ? time : data.start[row];
    let best = -1;
    let wrap = -1;
    const ahead = (candidate, other) => {
      if (other < 0) return true;
      const order = data.start[candidate] - data.start[other] || candidate - other;
      return forward ? order < 0 : order > 0;
    };
    for (let candidate = 0; candidate < data.device_rows; candidate++) {
      if (!matches.names[data.name[candidate]]) continue;
      if (ahead(candidate, wrap)) wrap = candidate;
      const order = data.start[candidate] - at || (row < 0 ? 0 : candidate - row);
      if (row < 0 ? (forward ? order >= 0 : order <= 0) : forward ? order > 0 : order < 0)
        if (ahead(candidate, best)) best = candidate;
    }
    return best < 0 ? wrap : best;
  }

  /** How many matches there are up to `row` in time, itself among them. */
  function place(data, matches, row) {
    let before = 0;
    for (let other = 0; other < data.device_rows; other++) {
      if (!matches.names[data.name[other]]) continue;
      if (data.start[other] < data.start[row] || (data.start[other] === data.start[row] && other <= row)) before++;
    }
    return before;
  }

  tracekit.search = { find, next, place };
})((globalThis.tracekit ??= {}));
