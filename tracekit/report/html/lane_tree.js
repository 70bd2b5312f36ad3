// The names beside the lanes: a tree that folds, pins and is walked with the keyboard.
"use strict";
((tracekit) => {
  const { element } = tracekit.elements;

  /** What a row is called: a device, a host's calls, or a lane. */
  function titleOf(row) {
    if (row.level === 2) return row.lane.name;
    if (row.subject !== row.group && row.group.lanes.length > 1) return `${row.group.name}, ${row.lane.name}`;
    return row.group.kind === "host" ? `${row.group.name || "host"}: calls that launched work` : row.group.name;
  }

  /** The short label of a row: of its device, and of its lane. */
  function labelsOf(app, row) {
    const lane = row.lane ? app.shorts.get(row.lane) : "";
    if (row.pinned && row.lane && row.group.lanes.length > 1) return [row.group.name, lane];
    if (row.level === 2) return ["", lane];
    const name = row.group.kind === "host" ? `host ${row.group.name}`.trim() : row.group.name;
    return [name, row.lane && row.group.kind !== "host" ? lane : ""];
  }

  /** The element of one row. */
  function item(app, row) {
    const folds = row.subject === row.group;
    const closed = app.closed.has(row.group.number);
    const pinned = app.pinned.has(row.key.replace("^", ""));
    const [name, lane] = labelsOf(app, row);
    const node = element("div", {
      className: `tl-row tl-level${row.level}`,
      role: "treeitem",
      tabindex: "-1",
      "aria-level": row.level,
      "aria-expanded": folds && !row.pinned ? String(!closed) : undefined,
      "aria-label": `${titleOf(row)}${pinned ? ", pinned" : ""}`,
      title: titleOf(row),
      "data-key": row.key,
    });
    node.style.height = `${row.height}px`;
    const fold = folds && !row.pinned ? (closed ? "▸" : "▾") : "";
    if (row.level === 1) node.append(element("span", { className: "tl-fold", text: fold, "aria-hidden": "true" }));
    if (name) node.append(element("bdi", { className: "tl-device", text: name }));
    if (lane) node.append(element("bdi", { className: "tl-lane", text: lane }));
    node.append(element("span", { className: "tl-busy" }));
    const pin = {
      className: "tl-pin",
      type: "button",
      tabindex: "-1",
      "aria-pressed": String(pinned),
      title: pinned ? "Unpin" : "Pin to the top",
    };
    node.append(element("button", { ...pin, "aria-label": `${pinned ? "Unpin" : "Pin"} ${titleOf(row)}`, text: "⚲" }));
    return node;
  }

  /** Fills the side with the names of bands and rows; the row `key` keeps the focus if it had it. */
  function fill(app) {
    const { heads, pinned, lanes } = app.dom;
    const key = document.activeElement?.closest?.(".tl-row")?.dataset.key;
    const axis = app.data.clocks.length > 1 ? "time since each clock's first work" : "time since the first work";
    heads.replaceChildren(element("div", { className: "tl-axis", text: axis }));
    for (const { label } of app.bands.shown) heads.append(element("div", { className: "tl-band", text: label }));
    pinned.replaceChildren(...app.rows.pinned.map((row) => item(app, row)));
    lanes.replaceChildren(...app.rows.rest.map((row) => item(app, row)));
    const rows = [...app.dom.side.querySelectorAll(".tl-row")];
    const current = rows.find((row) => row.dataset.key === (key ?? app.current)) ?? rows[0];
    if (current) {
      current.tabIndex = 0;
      if (key) current.focus({ preventScroll: true });
    }
    shares(app);
  }

  /** Writes how busy each row is in the view. */
  function shares(app) {
    const length = app.view.to - app.view.from;
    const rows = new Map([...app.rows.pinned, ...app.rows.rest].map((row) => [row.key, row]));
    for (const node of app.dom.side.querySelectorAll(".tl-row")) {
      const row = rows.get(node.dataset.key);
      const busy = row.subject.cells.reduce(
        (sum, { set }) => sum + tracekit.intervals.within(set, app.view.from, app.view.to),
        0,
      );
      node.querySelector(".tl-busy").textContent = app.data.partial ? "" : tracekit.units.percent(busy, length);
    }
  }

  /** Moves the focus among the rows. */
  function move(app, from, by) {
    const rows = [...app.dom.side.querySelectorAll(".tl-row")];
    const at = Math.min(Math.max(rows.indexOf(from) + by, 0), rows.length - 1);
    from.tabIndex = -1;
    rows[at].tabIndex = 0;
    app.current = rows[at].dataset.key;
    rows[at].focus();
  }

  tracekit.laneTree = { fill, shares, move };
})((globalThis.tracekit ??= {}));
