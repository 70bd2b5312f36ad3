// The view in the page's address: what follows `#timeline&` brings it back.
"use strict";
((tracekit) => {
  /** Units as picoseconds from time 0, and back; a view may stand between two units. */
  function toPs(app, units) {
    return String(BigInt(Math.round(units)) * app.data.unit);
  }

  function toUnits(app, ps) {
    if (!/^-?\d{1,24}$/.test(ps ?? "")) return null;
    const exact = BigInt(ps);
    return Number(exact / app.data.unit) + Number(exact % app.data.unit) / app.data.unitPs;
  }

  /** The address of the view and of what is selected, measured and searched in it. */
  function write(app) {
    const parts = [
      ["from", toPs(app, app.view.from)],
      ["to", toPs(app, app.view.to)],
    ];
    if (app.closed.size) parts.push(["closed", [...app.closed].toSorted((a, b) => a - b).join(".")]);
    if (app.pinned.size) parts.push(["pinned", [...app.pinned].join(".")]);
    if (app.selected >= 0) parts.push(["row", app.selected]);
    if (app.memory) parts.push(["memory", `${app.memory.group.number}.${app.memory.place}`]);
    if (app.range) parts.push(["a", toPs(app, app.range.from)], ["b", toPs(app, app.range.to)]);
    if (app.matches) parts.push(["find", encodeURIComponent(app.matches.text)]);
    return `#timeline&${parts.map((pair) => pair.join("=")).join("&")}`;
  }

  /** What an address says, as far as it makes sense here: {view, closed, pinned, selected, memory, range, find};
   * null for others. */
  function read(app, hash) {
    if (!hash.startsWith("#timeline&")) return null;
    const fields = new Map(
      hash
        .slice(10)
        .split("&")
        .map((part) => part.split("=")),
    );
    const numbers = (key) =>
      (fields.get(key) ?? "")
        .split(".")
        .filter((number) => /^\d+$/.test(number))
        .map(Number);
    const pair = (a, b) => {
      const [from, to] = [toUnits(app, fields.get(a)), toUnits(app, fields.get(b))];
      return from !== null && to !== null && to > from ? { from, to } : null;
    };
    const row = Number(fields.get("row") ?? -1);
    const [group, place] = numbers("memory");
    const owner = app.index.groups[group];
    const keys = new Set([
      ...app.data.memory.map((memory) => `m${memory.group}`),
      ...app.index.groups.map(({ number }) => `g${number}`),
      ...app.index.lanes.map(({ number }) => `l${number}`),
    ]);
    let find = "";
    try {
      find = decodeURIComponent(fields.get("find") ?? "");
    } catch {
      // A broken escape is no search.
    }
    const range = pair("a", "b");
    return {
      view: pair("from", "to"),
      closed: new Set(numbers("closed").filter((number) => number < app.index.groups.length)),
      pinned: new Set((fields.get("pinned") ?? "").split(".").filter((key) => keys.has(key))),
      selected: Number.isInteger(row) && row >= 0 && row < app.data.rows ? row : -1,
      memory: owner?.memory?.inUse[place] >= 0 ? { group: owner, place } : null,
      range: range && { from: Math.round(range.from), to: Math.round(range.to) },
      find,
    };
  }

  tracekit.address = { read, write, toUnits };
})((globalThis.tracekit ??= {}));
