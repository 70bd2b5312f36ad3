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

  /** The address of what is seen. */
  function write(app) {
    const parts = [
      ["from", toPs(app, app.view.from)],
      ["to", toPs(app, app.view.to)],
    ];
    if (app.closed.size) parts.push(["closed", [...app.closed].toSorted((a, b) => a - b).join(".")]);
    if (app.pinned.size) parts.push(["pinned", [...app.pinned].join(".")]);
    if (app.selected >= 0) parts.push(["row", app.selected]);
    if (app.range) parts.push(["a", toPs(app, app.range.from)], ["b", toPs(app, app.range.to)]);
    if (app.found) parts.push(["find", encodeURIComponent(app.found.text)]);
    return `#timeline&${parts.map((pair) => pair.join("=")).join("&")}`;
  }

  /** What an address says, as far as it makes sense here: {view, closed, pinned, selected, range, find}; null for others. */
  function read(app, hash) {
    if (!hash.startsWith("#timeline&")) return null;
    const told = new Map(
      hash
        .slice(10)
        .split("&")
        .map((part) => part.split("=")),
    );
    const numbers = (key) =>
      (told.get(key) ?? "")
        .split(".")
        .filter((one) => /^\d+$/.test(one))
        .map(Number);
    const pair = (a, b) => {
      const [from, to] = [toUnits(app, told.get(a)), toUnits(app, told.get(b))];
      return from !== null && to !== null && to > from ? { from, to } : null;
    };
    const row = Number(told.get("row") ?? -1);
    const keys = new Set([
      ...app.index.groups.map((one) => `g${one.number}`),
      ...app.index.lanes.map((one) => `l${one.number}`),
    ]);
    let find = "";
    try {
      find = decodeURIComponent(told.get("find") ?? "");
    } catch {
      // A broken escape is no search.
    }
    const range = pair("a", "b");
    return {
      view: pair("from", "to"),
      closed: new Set(numbers("closed").filter((one) => one < app.index.groups.length)),
      pinned: new Set((told.get("pinned") ?? "").split(".").filter((one) => keys.has(one))),
      selected: Number.isInteger(row) && row >= 0 && row < app.data.rows ? row : -1,
      range: range && { from: Math.round(range.from), to: Math.round(range.to) },
      find,
    };
  }

  tracekit.address = { read, write, toUnits };
})((globalThis.tracekit ??= {}));
