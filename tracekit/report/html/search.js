// Rows by their name: which match, how many, and the next one in time.
"use strict";
((tracekit) => {
  /** A test of names: a regular expression where `text` is /…/ (with flags), else any part, whatever its case. */
  function matcher(text) {
    const pattern = /^\/(.+)\/([imsu]*)$/s.exec(text);
    if (pattern) {
      const expression = new RegExp(pattern[1], pattern[2]);
      return (name) => expression.test(name);
    }
    const part = text.toLowerCase();
    return (name) => name.toLowerCase().includes(part);
  }

  /**
   * What a search finds: `names` (1 for each that matches), `count` of device rows, and by lane the cells of the rows
   * that match (made when asked). Null for an empty text; {problem} for an expression that is none.
   */
  function find(data, text) {
    if (!text) return null;
    let matches;
    try {
      matches = matcher(text);
    } catch (error) {
      return { text, problem: error.message, count: 0, cells: () => [] };
    }
    const names = Uint8Array.from(data.names, (name) => (matches(name) ? 1 : 0));
    let count = 0;
    for (let row = 0; row < data.device_rows; row++) count += names[data.name[row]];
    const known = new Map();
    const wanted = (row) => names[data.name[row]] === 1;
    const cells = (held) => {
      if (!known.has(held)) {
        const lanes = held.lanes ?? [held];
        const sets = lanes.map((lane) => tracekit.lanes.byClass(data, lane.first, lane.last, wanted));
        const united = data.classes.map((_, kind) =>
          tracekit.intervals.uniteAll(sets.map((one) => one[kind]).filter((one) => one.length)),
        );
        known.set(held, tracekit.intervals.cells(united));
      }
      return known.get(held);
    };
    return { text, names, count, cells };
  }

  /** The row that matches next after `row` (or before it) in time, from one end to the other; from `time` without row. */
  function next(data, found, row, time, forward) {
    const at = row < 0 ? time : data.start[row];
    let best = -1;
    let wrap = -1;
    const ahead = (one, other) => {
      if (other < 0) return true;
      const order = data.start[one] - data.start[other] || one - other;
      return forward ? order < 0 : order > 0;
    };
    for (let one = 0; one < data.device_rows; one++) {
      if (!found.names[data.name[one]]) continue;
      if (ahead(one, wrap)) wrap = one;
      const order = data.start[one] - at || (row < 0 ? 0 : one - row);
      if (row < 0 ? (forward ? order >= 0 : order <= 0) : forward ? order > 0 : order < 0)
        if (ahead(one, best)) best = one;
    }
    return best < 0 ? wrap : best;
  }

  /** How many matches there are up to `row` in time, itself among them. */
  function place(data, found, row) {
    let before = 0;
    for (let one = 0; one < data.device_rows; one++) {
      if (!found.names[data.name[one]]) continue;
      if (data.start[one] < data.start[row] || (data.start[one] === data.start[row] && one <= row)) before++;
    }
    return before;
  }

  tracekit.search = { find, next, place };
})((globalThis.tracekit ??= {}));
