// Lanes and devices as merged sets by mask of classes, so that any range is measured exactly.
"use strict";
((tracekit) => {
  const { cells, mergedSet, union, uniteAll } = tracekit.intervals;

  /** The sets of each class among the rows first..last of one lane. */
  function byClass(data, first, last, accepts) {
    const count = new Int32Array(data.classes.length);
    for (let row = first; row < last; row++) count[data.kind[row]]++;
    return data.classes.map((_, kind) => {
      if (!count[kind]) return tracekit.intervals.EMPTY;
      const alone = count[kind] === last - first && !accepts;
      return union(
        data.start,
        data.end,
        first,
        last,
        alone ? null : (row) => data.kind[row] === kind && (!accepts || accepts(row)),
      );
    });
  }

  /** The latest end among the rows up to each one of a lane: rows that overlap are found by walking back. */
  function reaches(end, first, last) {
    const reach = new Float64Array(last - first);
    let far = -Infinity;
    for (let row = first; row < last; row++) reach[row - first] = far = Math.max(far, end[row]);
    return reach;
  }

  /**
   * The index of the data: `lanes` {number, group, name, first, last, sets, cells, reach} and `groups` {number, name,
   * host, clock, kind, lanes, sets, cells, busy} and, where it has one, its lane of `memory`. `sets` are by class, `cells`
   * disjoint by mask of classes; `windows` are by clock what counts of its time, none of a clock without device work.
   */
  function index(data) {
    const groups = data.groups.map((group, number) => ({ ...group, number, lanes: [] }));
    let row = 0;
    const lanes = data.lanes.map(([group, name, rows], number) => {
      const sets = byClass(data, row, row + rows);
      const lane = { number, group: groups[group], name, first: row, last: row + rows, sets, cells: cells(sets) };
      lane.reach = reaches(data.end, row, row + rows);
      groups[group].lanes.push(lane);
      row += rows;
      return lane;
    });
    for (const memory of data.memory) groups[memory.group].memory = { ...memory, cells: [] };
    for (const group of groups) {
      group.sets = data.classes.map((_, kind) =>
        uniteAll(group.lanes.map((lane) => lane.sets[kind]).filter((set) => set.length)),
      );
      group.cells = group.lanes.length === 1 ? group.lanes[0].cells : cells(group.sets);
      group.busy = uniteAll(group.sets.filter((set) => set.length));
    }
    return { lanes, groups, windows: data.windows.map(([start, end]) => mergedSet(start, end)) };
  }

  /** The row of a lane that runs at `time`, the latest begun if several do; -1 for none. */
  function rowAt(data, lane, time) {
    for (let row = lane.first + countUntil(data, lane, time) - 1; row >= lane.first; row--) {
      if (data.end[row] > time) return row;
      if (lane.reach[row - lane.first] <= time) break;
    }
    return -1;
  }

  /** How many rows of a lane start at or before `time`. */
  function countUntil(data, lane, time) {
    let low = lane.first;
    let high = lane.last;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (data.start[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low - lane.first;
  }

  /** The lane of a row. */
  function laneOf(lanes, row) {
    let low = 0;
    let high = lanes.length - 1;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (lanes[middle].last <= row) low = middle + 1;
      else high = middle;
    }
    return lanes[low];
  }

  /** Names of lanes, shortened where only the long number of a thread makes them long. */
  function short(names) {
    const parts = names.map((name) => /^(?:tf_)?(.+?)\/(-?\d{6,})$/.exec(name));
    const bases = names.map((name, at) => (parts[at] ? parts[at][1] : name));
    return bases.map((base, at) => {
      const same = bases.filter((other) => other === base).length;
      return parts[at] && same > 1 ? `${base} …${parts[at][2].slice(-4)}` : base;
    });
  }

  tracekit.lanes = { index, byClass, rowAt, countUntil, laneOf, short };
})((globalThis.tracekit ??= {}));
