// The panel of the measured range: tables of what ran and how much of it at the same time.
"use strict";
((tracekit) => {
  const { element } = tracekit.elements;
  const { exact, percent, time } = tracekit.units;
  const MOST_DEVICES = 16;
  const MOST_PAIRS = 6;
  // Looking at more intervals than this takes longer than a frame.
  const LIGHT = 2e6;

  function table(caption, titles, rows) {
    const box = element("table", {}, element("caption", { text: caption }));
    box.append(
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          ...titles.map((text, at) => element("th", { text, scope: "col", className: at ? "n" : undefined })),
        ),
      ),
    );
    const body = rows.map(([first, ...rest]) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, element("bdi", { text: first })),
        ...rest.map((text) => element("td", { text, className: "n" })),
      ),
    );
    box.append(element("tbody", {}, ...body));
    return element("div", { className: "wide", role: "group", "aria-label": caption }, box);
  }

  /** What ran in the range, device by device, and how much of it behind compute. */
  function deviceTable(app, measured) {
    const unit = app.data.unitPs;
    const directions = Object.keys(tracekit.measure.masks(app.data.classes)).slice(3);
    const all = [...measured.devices, ...measured.unplaced];
    const used = directions.filter((direction) => all.some(({ time: length }) => length[direction] > 0));
    const titles = [
      "device",
      "busy",
      "of range",
      "compute",
      "collective",
      "memory",
      "collectives hidden",
      "memory hidden",
      ...used.map((direction) => `${direction} hidden`),
      ...(app.data.memory.length ? ["most memory in use"] : []),
    ];
    const mostInUse = (memory) => {
      const most = memory && tracekit.memory.highest(memory, measured.from, measured.to);
      return most ? tracekit.memory.bytesOf(memory, most.place) : "-";
    };
    const rows = all.slice(0, MOST_DEVICES).map((device) => {
      const share = (part, whole) => (app.data.partial ? "-" : percent(part, whole));
      const hidden = (part) => share(device.hidden[part], device.time[part]);
      const parts = ["compute", "collective", "memory"].map((part) =>
        device.time[part] ? time(device.time[part] * unit) : "-",
      );
      return [
        device.group.name,
        time(device.busy * unit),
        share(device.busy, measured.to - measured.from),
        ...parts,
        hidden("collective"),
        hidden("memory"),
        ...used.map(hidden),
        ...(app.data.memory.length ? [mostInUse(device.group.memory)] : []),
      ];
    });
    const more = all.length > MOST_DEVICES ? `, the first ${MOST_DEVICES} of ${all.length} devices` : "";
    return table(`What ran, and how much of it behind compute${more}`, titles, rows);
  }

  /** How long each two devices were busy at the same time; of many pairs those that overlap least and most. */
  function pairTable(app, measured) {
    const unit = app.data.unitPs;
    const cells = ({ a, b, both }) => {
      const either = a.busy + b.busy - both;
      const shorter = Math.min(a.busy, b.busy);
      const ratios = app.data.partial ? ["-", "-"] : [percent(both, shorter), shorter ? percent(both, either) : "-"];
      return [`${a.group.name} & ${b.group.name}`, time(both * unit), ...ratios];
    };
    const ratio = ({ a, b, both }) => both / Math.max(Math.min(a.busy, b.busy), 1);
    const known = measured.pairs.filter(({ both }) => both !== null);
    const many = known.length > MOST_PAIRS;
    const ordered = many ? known.toSorted((a, b) => ratio(a) - ratio(b)) : known;
    const pairs = many ? [...ordered.slice(0, 3), ...ordered.slice(-3)] : ordered;
    const more = many ? `, the 3 least and the 3 most of ${known.length} pairs` : "";
    const titles = ["devices", "together", "of the shorter", "of either"];
    const parts = known.length ? [table(`Devices busy at the same time${more}`, titles, pairs.map(cells))] : [];
    if (known.length < measured.pairs.length) {
      const text = `${measured.pairs.length - known.length} pairs of devices are on clocks that are not aligned, so how long both were busy is unknown.`;
      parts.push(element("p", { text }));
    }
    return parts;
  }

  /** The panel of the measured range; while it is dragged over very much, pairs wait for its end. */
  function show(app, dragging) {
    const { measured: box } = app.dom;
    box.hidden = !app.range;
    if (!app.range) {
      app.measured = null;
      return;
    }
    const { from, to } = app.range;
    const devices = app.index.groups.filter((group) => group.kind === "device");
    const light = dragging && tracekit.measure.effort(devices, from, to) > LIGHT;
    const measured = tracekit.measure.range(app.data, app.index, from, to, light);
    app.measured = measured;
    const text = `${exact(tracekit.details.picoseconds(app, to - from))}, from ${exact(tracekit.details.picoseconds(app, from))} to ${exact(tracekit.details.picoseconds(app, to))}`;
    const parts = [
      element("h3", { text: "Measured" }),
      element("p", { className: "tl-length", text }),
      deviceTable(app, measured),
    ];
    if (measured.devices.length > 1) {
      const later = "Pairs of devices follow when the range no longer changes.";
      parts.push(...(measured.pairs ? pairTable(app, measured) : [element("p", { text: later })]));
    }
    const buttons = [
      ["Fit", "fit-range"],
      ["Clear", "unmeasure"],
    ].map(([text, action]) => element("button", { type: "button", text, "data-action": action }));
    box.replaceChildren(...parts, element("p", { className: "tl-buttons" }, ...buttons));
  }

  /** Makes the tables that scroll, and no others, a stop of the keyboard. */
  function stops(app) {
    for (const wide of app.dom.measured.querySelectorAll(".wide")) {
      wide.tabIndex = wide.scrollWidth > wide.clientWidth ? 0 : -1;
    }
  }

  tracekit.rangePanel = { show, stops };
})((globalThis.tracekit ??= {}));
