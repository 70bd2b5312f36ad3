// The panel of the measured range: tables of what ran and how much of it at the same time.
"use strict";
((tracekit) => {
  const { element } = tracekit.labels;
  const { exact, percent, time } = tracekit.units;
  const MOST_DEVICES = 16;
  const MOST_PAIRS = 6;
  // Looking at more intervals than this takes longer than a frame.
  const LIGHT = 2e6;

  function table(caption, titles, rows) {
    const made = element("table", {}, element("caption", { text: caption }));
    made.append(
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
    made.append(element("tbody", {}, ...body));
    return element("div", { className: "wide" }, made);
  }

  /** What ran in the range, device by device, and how much of it behind compute. */
  function deviceTable(app, found) {
    const unit = app.data.unitPs;
    const ways = Object.keys(tracekit.measure.masks(app.data.classes)).slice(3);
    const all = [...found.devices, ...found.unplaced];
    const used = ways.filter((way) => all.some((one) => one.time[way] > 0));
    const titles = [
      "device",
      "busy",
      "of range",
      "compute",
      "collective",
      "memory",
      "collectives hidden",
      "memory hidden",
      ...used.map((way) => `${way} hidden`),
    ];
    const rows = all.slice(0, MOST_DEVICES).map((one) => {
      const hidden = (part) => percent(one.hidden[part], one.time[part]);
      const parts = ["compute", "collective", "memory"].map((part) =>
        one.time[part] ? time(one.time[part] * unit) : "-",
      );
      return [
        one.group.name,
        time(one.busy * unit),
        percent(one.busy, found.to - found.from),
        ...parts,
        hidden("collective"),
        hidden("memory"),
        ...used.map(hidden),
      ];
    });
    const more = all.length > MOST_DEVICES ? `, the first ${MOST_DEVICES} of ${all.length} devices` : "";
    return table(`What ran, and how much of it behind compute${more}`, titles, rows);
  }

  /** How long each two devices were busy at once; of many pairs those that overlap least and most. */
  function pairTable(app, found) {
    const unit = app.data.unitPs;
    const words = ({ a, b, both }) => {
      const either = a.busy + b.busy - both;
      const shorter = Math.min(a.busy, b.busy);
      const ratios = [percent(both, shorter), shorter ? percent(both, either) : "-"];
      return [`${a.group.name} & ${b.group.name}`, time(both * unit), ...ratios];
    };
    const ratio = ({ a, b, both }) => both / Math.max(Math.min(a.busy, b.busy), 1);
    const known = found.pairs.filter(({ both }) => both !== null);
    const many = known.length > MOST_PAIRS;
    const ordered = many ? known.toSorted((a, b) => ratio(a) - ratio(b)) : known;
    const shown = many ? [...ordered.slice(0, 3), ...ordered.slice(-3)] : ordered;
    const more = many ? `, the 3 least and the 3 most of ${known.length} pairs` : "";
    const titles = ["devices", "together", "of the shorter", "of either"];
    const made = [table(`Devices busy at the same time${more}`, titles, shown.map(words))];
    if (!known.length) made.pop();
    if (known.length < found.pairs.length) {
      const text = `${found.pairs.length - known.length} pairs of devices are on clocks that are not aligned: how long both were busy is not known.`;
      made.push(element("p", { text }));
    }
    return made;
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
    const placed = app.index.groups.filter((group) => group.kind === "device");
    const light = dragging && tracekit.measure.effort(placed, from, to) > LIGHT;
    const found = (app.measured = tracekit.measure.range(app.data, app.index, from, to, light));
    const words = `${exact(tracekit.details.picoseconds(app, to - from))}, from ${exact(tracekit.details.picoseconds(app, from))} to ${exact(tracekit.details.picoseconds(app, to))}`;
    const parts = [
      element("h3", { text: "Measured" }),
      element("p", { className: "tl-length", text: words }),
      deviceTable(app, found),
    ];
    if (found.devices.length > 1) {
      const later = "Pairs of devices follow when the range rests.";
      parts.push(...(found.pairs ? pairTable(app, found) : [element("p", { text: later })]));
    }
    const buttons = [
      ["Fit", "fit-range"],
      ["Let go", "unmeasure"],
    ].map(([text, action]) => element("button", { type: "button", text, "data-action": action }));
    box.replaceChildren(...parts, element("p", { className: "tl-buttons" }, ...buttons));
  }

  tracekit.measured = { show };
})((globalThis.tracekit ??= {}));
