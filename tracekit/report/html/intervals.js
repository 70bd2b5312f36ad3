// Set algebra on merged intervals: sorted, disjoint, half-open; integers below 2^53, so that sums are exact.
"use strict";
((tracekit) => {
  /** A merged set from its starts and ends; `before[k]` is the time that the first k intervals hold. */
  function mergedSet(start, end) {
    const before = new Float64Array(start.length + 1);
    for (let i = 0; i < start.length; i++) before[i + 1] = before[i] + (end[i] - start[i]);
    return { start, end, before, length: start.length, total: before[start.length] };
  }

  const EMPTY = mergedSet(new Float64Array(0), new Float64Array(0));

  /** The union of the rows first..last, sorted by start, or of those that `accepts(row)` takes. */
  function union(start, end, first, last, accepts) {
    const starts = new Float64Array(last - first);
    const ends = new Float64Array(last - first);
    let n = 0;
    for (let row = first; row < last; row++) {
      if (end[row] <= start[row] || (accepts && !accepts(row))) continue;
      if (n && start[row] <= ends[n - 1]) {
        if (end[row] > ends[n - 1]) ends[n - 1] = end[row];
      } else {
        starts[n] = start[row];
        ends[n++] = end[row];
      }
    }
    return n ? mergedSet(starts.slice(0, n), ends.slice(0, n)) : EMPTY;
  }

  /** What either of two merged sets holds. */
  function unite(a, b) {
    if (!a.length) return b;
    if (!b.length) return a;
    const starts = new Float64Array(a.length + b.length);
    const ends = new Float64Array(a.length + b.length);
    let n = 0;
    for (let i = 0, j = 0; i < a.length || j < b.length;) {
      const fromA = j >= b.length || (i < a.length && a.start[i] <= b.start[j]);
      const start = fromA ? a.start[i] : b.start[j];
      const end = fromA ? a.end[i++] : b.end[j++];
      if (n && start <= ends[n - 1]) {
        if (end > ends[n - 1]) ends[n - 1] = end;
      } else {
        starts[n] = start;
        ends[n++] = end;
      }
    }
    return mergedSet(starts.slice(0, n), ends.slice(0, n));
  }

  /** The union of many merged sets, two by two, so that each interval is looked at few times. */
  function uniteAll(sets) {
    if (!sets.length) return EMPTY;
    let level = sets;
    while (level.length > 1) {
      const next = [];
      for (let i = 0; i < level.length; i += 2) {
        next.push(i + 1 < level.length ? unite(level[i], level[i + 1]) : level[i]);
      }
      level = next;
    }
    return level[0];
  }

  /**
   * Which of the sets hold each point: disjoint sets by mask, whose bit k says that sets[k] holds it. Time that no set
   * holds is in none.
   */
  function cells(sets) {
    const bits = sets.map((_, k) => k).filter((k) => sets[k].length);
    const filled = bits.map((k) => sets[k]);
    if (filled.length < 2) return filled.map((set, at) => ({ mask: 2 ** bits[at], set }));
    const most = 2 * filled.reduce((sum, set) => sum + set.length, 0);
    const [edges, masks] = [new Float64Array(most + 1), new Uint32Array(most + 1)];
    const at = new Int32Array(filled.length);
    let n = 0;
    for (let now = -Infinity; now < Infinity; n++) {
      let mask = 0;
      let next = Infinity;
      for (let k = 0; k < filled.length; k++) {
        const { start, end, length } = filled[k];
        if (at[k] < length && end[at[k]] <= now) at[k]++;
        if (at[k] === length) continue;
        if (start[at[k]] <= now) {
          mask += 2 ** bits[k];
          if (end[at[k]] < next) next = end[at[k]];
        } else if (start[at[k]] < next) next = start[at[k]];
      }
      edges[n] = now;
      masks[n] = mask;
      now = next;
    }
    edges[n] = Infinity;
    return byMask(edges, masks, n);
  }

  /** The sets of n pieces [edges[i], edges[i + 1]), one for each mask but 0. Masks beside each other differ. */
  function byMask(edges, masks, n) {
    const count = new Map();
    for (let i = 0; i < n; i++) count.set(masks[i], (count.get(masks[i]) ?? 0) + 1);
    count.delete(0);
    return [...count.keys()]
      .toSorted((a, b) => a - b)
      .map((mask) => {
        const [start, end] = [new Float64Array(count.get(mask)), new Float64Array(count.get(mask))];
        let to = 0;
        for (let i = 0; i < n; i++) {
          if (masks[i] !== mask) continue;
          start[to] = edges[i];
          end[to++] = edges[i + 1];
        }
        return { mask, set: mergedSet(start, end) };
      });
  }

  /**
   * The first place from `low` on whose value is above `x`, in sorted `values`; it is found fast near `guess`, since
   * what lies far apart in memory costs more to read than to compare.
   */
  function above(values, x, low = 0, guess = low) {
    let high = Math.min(Math.max(guess, low), values.length);
    if (high > low && values[high - 1] > x) {
      for (let step = 1, at = high - 1; at >= low; at -= step, step *= 2) {
        if (values[at] <= x) {
          low = at + 1;
          break;
        }
        high = at;
      }
    } else {
      low = high;
      for (let step = 1; high < values.length && values[high] <= x; step *= 2) {
        low = high + 1;
        high += step;
      }
      high = Math.min(high, values.length);
    }
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (values[middle] <= x) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The time that a merged set holds before `x`; `k` is the first interval that ends after `x`. */
  function timeUntil(set, x, k = above(set.end, x)) {
    return set.before[k] + (k < set.length && set.start[k] < x ? x - set.start[k] : 0);
  }

  /** The time that a merged set holds in [from, to). */
  function within(set, from, to) {
    return to > from ? timeUntil(set, to) - timeUntil(set, from) : 0;
  }

  /** The time in [from, to) that two merged sets both hold. */
  function shared(a, b, from, to) {
    let i = above(a.end, from);
    let j = above(b.end, from);
    let both = 0;
    while (i < a.length && j < b.length) {
      const start = Math.max(a.start[i], b.start[j], from);
      if (start >= to) break;
      const end = Math.min(a.end[i], b.end[j], to);
      if (end > start) both += end - start;
      if (a.end[i] < b.end[j]) i++;
      else j++;
    }
    return both;
  }

  tracekit.intervals = { EMPTY, mergedSet, union, uniteAll, cells, above, timeUntil, within, shared };
})((globalThis.tracekit ??= {}));
