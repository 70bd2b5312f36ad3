// What ran in a range, as docs/concepts.md defines it: unions first, then lengths and ratios, in integers.
"use strict";
((tracekit) => {
  const { shared, uniteAll, within } = tracekit.intervals;
  const PARTS = { compute: ["compute"], collective: ["collective"], memory: ["memcpy", "memset"] };

  /** The classes for which `has` holds as a mask. */
  function maskOf(classes, has) {
    let mask = 0;
    classes.forEach((class_, bit) => {
      if (has(class_)) mask += 2 ** bit;
    });
    return mask;
  }

  /** Whether two masks share a bit; they have fewer than 31. */
  function meet(a, b) {
    return (a & b) !== 0;
  }

  /** The masks that are measured: {compute, collective, memory, H2D, ...}, and `hidden` those set against compute. */
  function masks(classes) {
    const masks = {};
    for (const [part, kinds] of Object.entries(PARTS)) masks[part] = maskOf(classes, ([kind]) => kinds.includes(kind));
    for (const [, way] of classes) if (way) masks[way] = maskOf(classes, ([, direction]) => direction === way);
    return masks;
  }

  /** One device in [from, to): times of each part, and of what ran behind its compute; in units. */
  function device(classes, group, from, to) {
    const parts = masks(classes);
    const time = Object.fromEntries(Object.keys(parts).map((part) => [part, 0]));
    const hidden = { ...time };
    let busy = 0;
    for (const { mask, set } of group.cells) {
      const length = within(set, from, to);
      if (!length) continue;
      busy += length;
      for (const part of Object.keys(parts)) {
        if (!meet(mask, parts[part])) continue;
        time[part] += length;
        if (meet(mask, parts.compute)) hidden[part] += length;
      }
    }
    return { group, busy, idle: to - from - busy, time, hidden, behind: "compute" };
  }

  /** Copies of a device that the trace does not prove, against the compute of any device of their host. */
  function unplaced(classes, groups, group, from, to) {
    const measured = device(classes, group, from, to);
    const bits = classes.map(([kind], bit) => (kind === "compute" ? bit : -1)).filter((bit) => bit >= 0);
    const beside = groups.filter((other) => other.kind === "device" && other.host === group.host);
    group.beside ??= uniteAll(beside.flatMap((other) => bits.map((bit) => other.sets[bit])));
    const parts = masks(classes);
    for (const part of Object.keys(parts)) {
      const sets = group.sets.filter((_, bit) => meet(2 ** bit, parts[part]));
      measured.hidden[part] = shared(uniteAll(sets.filter((set) => set.length)), group.beside, from, to);
    }
    return { ...measured, behind: "compute of any device" };
  }

  /** Each two devices on one clock: how long both were busy in [from, to). */
  function pairs(devices, from, to) {
    const pairs = [];
    for (let i = 0; i < devices.length; i++) {
      for (let j = i + 1; j < devices.length; j++) {
        const [a, b] = [devices[i], devices[j]];
        const aligned = a.group.clock === b.group.clock;
        pairs.push({ a, b, both: aligned ? shared(a.group.busy, b.group.busy, from, to) : null });
      }
    }
    return pairs;
  }

  /** How many intervals the devices have in [from, to), for each other device: what `pairs` would look at. */
  function effort(groups, from, to) {
    const { above } = tracekit.intervals;
    const rows = groups.reduce((sum, { busy }) => sum + above(busy.end, to) - above(busy.end, from), 0);
    return rows * Math.max(groups.length - 1, 0);
  }

  /** What ran in [from, to): {from, to, devices, pairs}; `light` leaves out the pairs, which cost most. */
  function range(data, index, from, to, light = false) {
    const placed = index.groups.filter((group) => group.kind === "device");
    const devices = placed.map((group) => device(data.classes, group, from, to));
    const others = index.groups
      .filter((group) => group.kind === "unplaced")
      .map((group) => unplaced(data.classes, index.groups, group, from, to));
    return { from, to, devices, unplaced: others, pairs: light ? null : pairs(devices, from, to) };
  }

  tracekit.measure = { masks, range, effort };
})((globalThis.tracekit ??= {}));
