// The names beside the lanes: a tree that folds, pins and is walked with the keyboard.
"use strict";
((tracekit) => {
  const { element } = tracekit.elements;
  const { shared, within } = tracekit.intervals;

  /** The peak of a memory lane. */
  function peakOf({ memory }) {
    return `peak ${tracekit.memory.bytesOf(memory, memory.peak)}`;
  }

  /** What a row is called: a device, a host's calls, or a lane. */
  function titleOf(row) {
    if (row.memory) return `${row.group.name}: memory in use, ${peakOf(row)}`;
    if (row.level === 2) return row.lane.name;
    if (row.subject !== row.group && row.group.lanes.length > 1) return `${row.group.name}, ${row.lane.name}`;
    return row.group.kind === "host" ? `${row.group.name || "host"}: calls that launched work` : row.group.name;
  }

  /** Names one after the other, what they all begin with only once: stream 7, 22, 24. */
  function listed(names) {
    let length = 0;
    while (length < names[0].length && names.every((name) => name[length] === names[0][length])) length++;
    const common = names[0].slice(0, length).replace(/[\p{L}\p{N}]+$/u, "");
    return names.map((name, at) => (at ? name.slice(common.length) : name)).join(", ");
  }

  /** The short label of a row: of its device, and of its lane or of those folded into it. */
  function labelsOf(app, row) {
    const { group, lane } = row;
    if (row.memory) return [row.pinned ? group.name : "", "memory"];
    const host = group.kind === "host";
    const name = row.level === 2 ? "" : host ? `host ${group.name}`.trim() : group.name;
    if (lane) return [name, host && group.lanes.length === 1 ? "" : app.shorts.get(lane)];
    if (!app.closed.has(group.number) && !row.pinned) return [name, ""];
    if (host || group.pool) return [name, `${group.lanes.length} threads`];
    return [name, listed(group.lanes.map((each) => app.shorts.get(each)))];
  }

  /** The longest label of a place among names that is no wider than `space`. */
  function fitting(context, labelIn, names, place, space) {
    let text = names[place];
    for (let room = text.length; context.measureText(text).width > space && room > 2; ) text = labelIn(place, --room);
    return text;
  }

  /** Writes the names of devices and lanes as long as there is room for them. */
  function fit(app) {
    const { index, dom } = app;
    // On paper they stay as they were on the screen: there is no share and no button beside them.
    if (matchMedia("print").matches) return;
    const narrow = matchMedia("(max-width: 40rem)").matches;
    const rows = rowsByKey(app);
    const context = dom.over.getContext("2d");
    const font = `12px ${getComputedStyle(dom.box).fontFamily}`;
    app.sideNames ??= [
      index.groups.map((group) => `${group.kind === "host" ? "host " : ""}${group.name}`.trim()),
      index.lanes.map((lane) => app.shorts.get(lane)),
    ].map((names) => ({ names, labelIn: tracekit.labels.labels(names) }));
    const [devices, lanes] = app.sideNames;
    for (const node of dom.side.querySelectorAll(".tl-row")) {
      const row = rows.get(node.dataset.key);
      const [first, second] = [".tl-device", ".tl-lane"].map((part) => node.querySelector(part));
      const beside = first && second && !narrow;
      // What is left by paddings and gaps, by the busy share, and by the button that pins.
      const space = dom.side.clientWidth - (narrow ? 36 : 98);
      let rest = space;
      if (first) {
        context.font = font;
        const other = beside ? context.measureText(second.textContent).width + 6 : 0;
        context.font = `600 ${font}`;
        const most = Math.max(space - other, 0.8 * space);
        first.textContent = fitting(context, devices.labelIn, devices.names, row.group.number, most);
        if (beside) rest -= context.measureText(first.textContent).width + 6;
      }
      context.font = font;
      if (second && row.lane) second.textContent = fitting(context, lanes.labelIn, lanes.names, row.lane.number, rest);
    }
  }

  function rowsByKey(app) {
    return new Map([...app.rows.pinned, ...app.rows.rest].map((row) => [row.key, row]));
  }

  /** The element of one row. */
  function item(app, row) {
    const folds = row.folds;
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
    node.append(element("span", { className: "tl-busy", text: row.memory ? peakOf(row) : "" }));
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
    const [time, axis] = ["time ", app.data.clocks.length > 1 ? "since each clock's first device work" : "since the first device work"];
    heads.replaceChildren(
      element("div", { className: "tl-axis", title: time + axis }, element("span", { text: time }), axis),
    );
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

  /** Writes how busy each row is in the view, as far as that lies in the windows that the tables are of. */
  function shares(app) {
    const rows = rowsByKey(app);
    const { from, to } = app.view;
    for (const node of app.dom.side.querySelectorAll(".tl-row")) {
      const row = rows.get(node.dataset.key);
      if (row.memory) continue;
      const windows = app.index.windows[row.group.clock];
      const length = windows.length ? within(windows, from, to) : to - from;
      // The rows of devices lie in the windows, or are cut to them.
      const isCut = row.group.kind === "host" && windows.length;
      const busyIn = isCut ? (set) => shared(set, windows, from, to) : (set) => within(set, from, to);
      const busy = row.subject.cells.reduce((sum, { set }) => sum + busyIn(set), 0);
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

  tracekit.laneTree = { fill, fit, shares, move };
})((globalThis.tracekit ??= {}));
