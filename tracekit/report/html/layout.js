// Which rows the timeline shows and where: devices with their lanes, pinned ones on top; and the bands above them.
"use strict";
((tracekit) => {
  const GROUP = 24;
  const LANE = 20;
  const MEMORY = 30;
  const BAND = 18;
  const AXIS = 24;
  const MOST_BANDS = 8;

  /** The row of a device or host; one with a single lane is that lane. */
  function groupRow(group) {
    const lane = group.lanes.length === 1 ? group.lanes[0] : null;
    return { key: `g${group.number}`, group, lane, subject: lane ?? group, height: GROUP, level: 1, folds: folds(group) };
  }

  /** Whether a device or host has rows below its own. */
  function folds(group) {
    return group.lanes.length > 1 || Boolean(group.memory);
  }

  function laneRow(lane) {
    return { key: `l${lane.number}`, group: lane.group, lane, subject: lane, height: LANE, level: 2 };
  }

  /** The row of the memory in use on a device. */
  function memoryRow(group) {
    const { memory } = group;
    return { key: `m${group.number}`, group, lane: null, memory, subject: memory, height: MEMORY, level: 2 };
  }

  /** `rows` with their y one below the other. */
  function stacked(rows) {
    let y = 0;
    return rows.map((row) => {
      const placed = { ...row, y };
      y += row.height;
      return placed;
    });
  }

  /** The rows that are pinned, and all others: {pinned, rest}, each row {key, group, lane, subject, y, height, level}; keys
   * of pinned ones begin with ^, and `subject` is the lane or device that a row shows; that of a `memory` lane has it. */
  function rows(index, closed, pinned) {
    const rest = [];
    const top = [];
    for (const group of index.groups) {
      const head = groupRow(group);
      const lanes = group.lanes.length > 1 ? group.lanes.map(laneRow) : [];
      if (group.memory) lanes.push(memoryRow(group));
      // The head of lanes that are listed stays where it is, so that one knows whose they are.
      if (lanes.length || !pinned.has(head.key)) rest.push(head);
      if (!closed.has(group.number)) rest.push(...lanes.filter((row) => !pinned.has(row.key)));
      for (const row of [head, ...lanes]) {
        if (pinned.has(row.key)) top.push({ ...row, key: `^${row.key}`, level: 1, pinned: true });
      }
    }
    return { pinned: stacked(top), rest: stacked(rest) };
  }

  /** The height of rows one below the other. */
  function height(placed) {
    const last = placed[placed.length - 1];
    return last ? last.y + last.height : 0;
  }

  /** What a phase or step is called. */
  function label(item) {
    return item.what === "steps" && item.step !== null ? `${item.name} ${item.step}` : item.name;
  }

  /** Phases and steps as rows of bands {label, items, labelIn(place, room)}: those of one clock that overlap get their own. */
  function bands(data) {
    const rows = [];
    for (const [what, items] of [
      ["phases", data.phases],
      ["steps", data.steps],
    ]) {
      for (let clock = 0; clock < data.clocks.length; clock++) {
        const tiers = [];
        for (const item of items) {
          if (item.clock !== clock) continue;
          let tier = tiers.find((items) => items[items.length - 1].end <= item.start);
          if (!tier) tiers.push((tier = []));
          tier.push({ ...item, what });
        }
        const title = data.clocks.length > 1 ? `${what}, ${data.clocks[clock].name}` : what;
        for (const tier of tiers) {
          const labelIn = tracekit.labels.labels(tier.map(label));
          rows.push({ label: tier === tiers[0] ? title : "", items: tier, labelIn });
        }
      }
    }
    return { shown: rows.slice(0, MOST_BANDS), omitted: Math.max(rows.length - MOST_BANDS, 0) };
  }

  tracekit.layout = { BAND, AXIS, folds, rows, height, label, bands };
})((globalThis.tracekit ??= {}));
