// The cells of the heat map: each measure of each rank and step, the groups of ranks, and what stands for several cells.
"use strict";
((tracekit) => {
  const { bytesOf, inflate, numbers } = tracekit.decode;
  // What a cell that stands for several shows of them.
  const WAYS = [
    ["furthest", "furthest from the median"],
    ["largest", "largest"],
    ["median", "median"],
    ["smallest", "smallest"],
  ];
  // What the colours reach over: [key, words, share of the cells beyond either end].
  const REACHES = [
    ["all", "full range", 0],
    ["middle", "middle 98 %", 0.01],
  ];

  /** The data of the heat map: n ranks, m steps or bins of steps, and of each measure `values` (n * m) in ps, NaN where
   * nothing is known. */
  async function load(root) {
    const header = JSON.parse(root.getElementById("fleet-header").textContent);
    const packed = {};
    await Promise.all(
      [...root.querySelectorAll("script[data-heat]")].map(async (element) => {
        packed[element.dataset.heat] = await inflate(bytesOf(element.textContent));
        element.textContent = "";
      }),
    );
    const facts = JSON.parse(new TextDecoder().decode(packed.facts));
    const measures = header.measures.map((measure) => {
      const values = numbers(packed[measure.key], measure);
      for (let i = 0; i < values.length; i++) values[i] = values[i] ? (values[i] - 1) * measure.unit_ps : NaN;
      return { ...measure, values, medians: medians(values, facts.bins.length) };
    });
    const bins = facts.bins.map(([name, first, last, steps]) => ({ name, first, last, steps }));
    return { ...header, ...facts, bins, measures, known: measures.map(({ values }) => sorted(values)) };
  }

  /** What is known of values, from the smallest. */
  function sorted(values) {
    return Float64Array.from(values.filter((value) => !Number.isNaN(value))).toSorted();
  }

  /** The lower one in the middle of some numbers; NaN of none. */
  function median(values) {
    const ordered = sorted(values);
    return ordered.length ? ordered[(ordered.length - 1) >> 1] : NaN;
  }

  /** The median of what is known of each step or bin, of values rank by rank. */
  function medians(values, bins) {
    const of = (bin) => Float64Array.from({ length: values.length / bins }, (_, rank) => values[rank * bins + bin]);
    return Float64Array.from({ length: bins }, (_, bin) => median(of(bin)));
  }

  /** The ends of the colours over the cells of a measure, in ps; null where nothing is known. */
  function range(known, reach) {
    if (!known.length) return null;
    const share = REACHES.find(([key]) => key === reach)[2];
    const beyond = Math.floor(share * known.length);
    return {
      low: known[beyond],
      high: known[known.length - 1 - beyond],
      below: known[0] < known[beyond],
      above: known[known.length - 1] > known[known.length - 1 - beyond],
    };
  }

  /** The ranks of each group, or all as one; if `order` is "furthest", those first that are furthest from the median of
   * all: the groups, or of one group its ranks. */
  function groupsOf(data, grouping, measure, order) {
    const way = data.groupings[grouping];
    const groups = (way?.names ?? ["all ranks"]).map((name, number) => ({ name, ranks: [], number }));
    data.ranks.forEach((_, rank) => groups[way ? way.group_of[rank] : 0].ranks.push(rank));
    if (order !== "furthest") return groups;
    const means = data.ranks.map((_, rank) => mean(measure.values, rank * data.bins.length, data.bins.length));
    const middle = median(Float64Array.from(means));
    const off = means.map((value) => Math.abs(value - middle) || 0);
    if (!way) groups[0].ranks = groups[0].ranks.toSorted((a, b) => off[b] - off[a]);
    const far = groups.map(({ ranks }) => Math.max(...ranks.map((rank) => off[rank])));
    return groups.toSorted((a, b) => far[b.number] - far[a.number]);
  }

  /** The mean of what is known of so many values from one on. */
  function mean(values, from, count) {
    let [sum, known] = [0, 0];
    for (let i = from; i < from + count; i++) {
      if (Number.isNaN(values[i])) continue;
      sum += values[i];
      known++;
    }
    return known ? sum / known : NaN;
  }

  /** The rows of the list: a group, and if it is `open` its ranks. */
  function rowsOf(groups, open, ranks) {
    return groups.flatMap((group) => [
      { group, ranks: group.ranks, name: group.name, level: 1, open: open.has(group.number) },
      ...(open.has(group.number) ? group.ranks : []).map((rank) => ({ group, ranks: [rank], name: ranks[rank], level: 2 })),
    ]);
  }

  /** The bins that each of so many columns stands for: where the first begins, and where each ends. */
  function edges(bins, columns) {
    return Array.from({ length: columns + 1 }, (_, at) => Math.floor((at * bins) / columns));
  }

  /** What stands for the cells of some ranks in the bins [from, to): {value, rank, bin, cells}; the rank and the bin are
   * those of the one that is shown, -1 of a median of several. */
  function cell(data, measure, ranks, from, to, way) {
    const { values } = measure;
    const width = data.bins.length;
    if (way === "median") {
      const all = [];
      for (const rank of ranks) for (let bin = from; bin < to; bin++) all.push(values[rank * width + bin]);
      const alone = all.length === 1;
      const value = alone ? all[0] : median(Float64Array.from(all));
      return { value, rank: alone ? ranks[0] : -1, bin: alone ? from : -1, cells: all.length };
    }
    const weigh = {
      largest: (value) => value,
      smallest: (value) => -value,
      furthest: (value, bin) => Math.abs(value - measure.medians[bin]),
    }[way];
    let [value, most, best, place] = [NaN, -Infinity, -1, -1];
    for (const rank of ranks) {
      for (let bin = from; bin < to; bin++) {
        const here = values[rank * width + bin];
        const weight = weigh(here, bin);
        if (weight > most) [value, most, best, place] = [here, weight, rank, bin];
      }
    }
    return { value, rank: best, bin: place, cells: ranks.length * (to - from) };
  }

  /** What a column is called: its step, or the first and the last of several. */
  function stepsOf(data, from, to) {
    const [first, last] = [data.bins[from], data.bins[to - 1]];
    const count = data.bins.slice(from, to).reduce((sum, { steps }) => sum + steps, 0);
    const several = new Set(data.bins.map(({ name }) => name)).size > 1 ? `${first.name} ` : "";
    const number = (step, bin) => step ?? bin;
    if (count === 1) return { words: `${several}step ${number(first.first, from)}`, count };
    return { words: `${several}steps ${number(first.first, from)} to ${number(last.last, to - 1)}`, count };
  }

  tracekit.heatCells = { WAYS, REACHES, load, range, groupsOf, rowsOf, edges, cell, stepsOf };
})((globalThis.tracekit ??= {}));
