// The panels around the plot: tooltip, selected row, count of a search; and the text for screen readers.
"use strict";
((tracekit) => {
  const { element } = tracekit.elements;
  const { percent, time } = tracekit.units;
  // Between a tooltip and what it tells of, how far it may be from the pointer, and how long a hint stands.
  const APART = 6;
  const NEAR = 320;
  const HINT_MS = 1800;

  /** The facts of a row as elements. */
  function facts(row) {
    const rows = row.facts.flatMap(([term, text]) => [
      element("dt", { text: term }),
      element("dd", {}, element("bdi", { text })),
    ]);
    for (const { name, texts } of row.beside) {
      rows.push(
        element("dt", {}, "overlaps ", element("bdi", { text: name })),
        element("dd", { text: texts.join(", ") }),
      );
    }
    if (row.more)
      rows.push(element("dt", { text: "overlaps" }), element("dd", { text: `${row.more} more lanes and devices` }));
    return element("dl", {}, ...rows);
  }

  function head(row) {
    return element(
      "p",
      { className: "tl-name" },
      element("span", { className: `tl-square tl-${row.colour}`, "aria-hidden": "true" }),
      element("b", {}, element("bdi", { text: row.name })),
      element("span", { className: "tl-kind", text: ` ${row.kind}` }),
    );
  }

  /** Where a box has room beside a row and near the pointer, so that what overlaps the row can be seen; else null. */
  function besideRow(app, row, frame, width) {
    if (row < 0) return null;
    const [start, end] = [app.data.start[row], app.data.end[row]].map((time) => tracekit.canvas.xOf(app, time));
    const [left, right] = [frame.left + start - 2 * APART - width, frame.left + end + 2 * APART];
    if (end - app.pointer.x < NEAR && right + width + APART <= innerWidth) return right;
    return app.pointer.x - start < NEAR && left >= APART ? left : null;
  }

  /** The details of a row, or of what is in use of a memory, their times as `tell` has them; null for neither. */
  function detailsOf(app, row, memory, tell) {
    if (memory) return tracekit.memory.describe(app, memory, tell);
    return row >= 0 ? tracekit.details.describe(app, row, tell) : null;
  }

  /** Shows the tooltip of `row`, or of `memory` in use, below or above the lane under the pointer; `more` says what else
   * is in that pixel. */
  function tip(app, row, more, memory = null) {
    const { tip: box, plot } = app.dom;
    const details = detailsOf(app, row, memory);
    if (!details && !more) {
      box.hidden = true;
      return;
    }
    const parts = details ? [head(details), facts(details)] : [];
    if (more) parts.push(element("p", { className: "tl-more", text: more }));
    box.replaceChildren(...parts);
    box.hidden = false;
    box.style.maxHeight = "";
    const frame = plot.getBoundingClientRect();
    const { width, height } = box.getBoundingClientRect();
    const [top, bottom] = tracekit.hits.edges(app, app.pointer).map((y) => frame.top + y);
    const [above, below] = [top - 2 * APART, innerHeight - bottom - 2 * APART];
    const under = height <= below || below >= above;
    box.style.maxHeight = `${under ? below : above}px`;
    const left = besideRow(app, row, frame, width) ?? frame.left + app.pointer.x + 16;
    box.style.left = `${Math.max(APART, Math.min(left, innerWidth - width - APART))}px`;
    box.style.top = `${under ? bottom + APART : top - APART - Math.min(height, above)}px`;
  }

  /** Shows a short sentence at the foot of what can be seen of the plot, for a moment. */
  function hint(app, text) {
    const { hint: box, plot } = app.dom;
    clearTimeout(app.hinting);
    box.hidden = !text;
    if (!text) return;
    box.textContent = text;
    const frame = plot.getBoundingClientRect();
    box.style.left = `${frame.left + frame.width / 2}px`;
    box.style.top = `${Math.min(frame.bottom, innerHeight) - box.offsetHeight - 2 * APART}px`;
    app.hinting = setTimeout(() => (box.hidden = true), HINT_MS);
  }

  /** The panel of the selected row. */
  function selected(app) {
    const { selected: box } = app.dom;
    const details = detailsOf(app, app.selected, app.memory, tracekit.details.toldExactly);
    box.hidden = !details;
    if (!details) return;
    const buttons = [];
    const button = (text, action) => buttons.push(element("button", { type: "button", text, "data-action": action }));
    if (app.memory) {
      const { group, place } = app.memory;
      if (place !== group.memory.peak) button("Go to the peak", "peak");
    } else button("Fit", "fit-selected");
    if (app.data.launch[app.selected] >= 0) button("Go to its launch", "launch");
    if (app.peers.length > 1) {
      const last = app.peers.reduce((a, b) => (app.data.start[b] > app.data.start[a] ? b : a));
      const first = app.peers.reduce((a, b) => (app.data.start[b] < app.data.start[a] ? b : a));
      const skew = (app.data.start[last] - app.data.start[first]) * app.data.unitPs;
      const device = tracekit.details.whereOf(app, last).lane.group.name;
      details.facts.push([
        "collective",
        `on ${app.peers.length} devices; starts differ by ${time(skew)}${skew > 0 ? `, last to arrive ${device}` : ""}`,
      ]);
      button(`Show all ${app.peers.length} devices`, "peers");
    }
    if (app.selected >= app.data.device_rows) {
      const rows = tracekit.details.startedBy(app, app.selected);
      const some = rows
        .slice(0, 3)
        .map((row) => `${app.data.names[app.data.name[row]]} on ${tracekit.details.whereOf(app, row).lane.group.name}`);
      details.facts.push(["launched", `${some.join(", ")}${rows.length > 3 ? ` and ${rows.length - 3} more` : ""}`]);
      if (rows.length) button("Go to what it launched", "launched");
    }
    button("Clear", "release");
    box.replaceChildren(
      element("h3", { text: "Selected" }),
      head(details),
      facts(details),
      element("p", { className: "tl-buttons" }, ...buttons),
    );
  }

  /** The search's count, and which of them is selected. */
  function count(app) {
    const { matches, selected: row, dom } = app;
    if (!matches) dom.count.textContent = "";
    else if (matches.problem) dom.count.textContent = "invalid regular expression";
    else {
      const is = row >= 0 && row < app.data.device_rows && matches.names[app.data.name[row]];
      const place = is ? `${tracekit.units.count(tracekit.search.place(app.data, matches, row))} of ` : "";
      dom.count.textContent = `${place}${tracekit.units.count(matches.count)} found`;
    }
  }

  /** Writes the view, the selection and the measurement for screen readers. */
  function announce(app) {
    const { view, data, dom } = app;
    const sentences = [
      `From ${time(view.from * data.unitPs)} to ${time(view.to * data.unitPs)}, ${time((view.to - view.from) * data.unitPs)} in view.`,
    ];
    const row = detailsOf(app, app.selected, app.memory);
    if (row) {
      const texts = row.facts.slice(0, 3).map((pair) => pair.join(" "));
      sentences.push(`Selected: ${[row.name, row.kind, ...texts].filter(Boolean).join(", ")}.`);
    }
    if (app.measured) {
      const { from, to, devices } = app.measured;
      const texts = devices
        .slice(0, 4)
        .map(({ group, busy, hidden, time: length }) =>
          data.partial
            ? `${group.name} ${time(busy * data.unitPs)} recorded`
            : `${group.name} ${percent(busy, to - from)} busy, memory ${percent(hidden.memory, length.memory)} hidden, collectives ${percent(hidden.collective, length.collective)} hidden`,
        );
      sentences.push(`Measured ${time((to - from) * data.unitPs)}: ${texts.join("; ")}.`);
    }
    if (app.matches) sentences.push(dom.count.textContent);
    dom.live.textContent = sentences.join(" ");
  }

  tracekit.panels = { tip, hint, selected, count, announce };
})((globalThis.tracekit ??= {}));
