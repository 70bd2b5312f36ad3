// The panels around the plot: tooltip, selected row, count of a search; and what is said aloud.
"use strict";
((tracekit) => {
  const { element } = tracekit.labels;
  const { percent, time } = tracekit.units;

  /** The facts of a row as elements. */
  function facts(told) {
    const rows = told.facts.flatMap(([term, words]) => [
      element("dt", { text: term }),
      element("dd", {}, element("bdi", { text: words })),
    ]);
    for (const { name, words } of told.beside) {
      rows.push(
        element("dt", {}, "beside ", element("bdi", { text: name })),
        element("dd", { text: words.join(", ") }),
      );
    }
    if (told.more)
      rows.push(element("dt", { text: "beside" }), element("dd", { text: `${told.more} more lanes and devices` }));
    return element("dl", {}, ...rows);
  }

  function head(told) {
    return element(
      "p",
      { className: "tl-name" },
      element("span", { className: `tl-square tl-${told.kind.split(" ")[0]}`, "aria-hidden": "true" }),
      element("b", {}, element("bdi", { text: told.name })),
      ` ${told.kind}`,
    );
  }

  /** Shows the tooltip of `row` beside the pointer; `more` says what else is in that pixel. */
  function tip(app, row, more) {
    const { tip: box, plot } = app.dom;
    if (row < 0 && !more) {
      box.hidden = true;
      return;
    }
    const parts = [];
    if (row >= 0) {
      const told = tracekit.details.describe(app, row);
      parts.push(head(told), facts(told));
    }
    if (more) parts.push(element("p", { className: "tl-more", text: more }));
    box.replaceChildren(...parts);
    box.hidden = false;
    const frame = plot.getBoundingClientRect();
    const { width, height } = box.getBoundingClientRect();
    const x = frame.left + app.pointer.x;
    const y = frame.top + app.pointer.y;
    box.style.left = `${Math.max(4, x + 16 + width > innerWidth ? x - width - 16 : x + 16)}px`;
    box.style.top = `${Math.max(4, y + 18 + height > innerHeight ? y - height - 12 : y + 18)}px`;
  }

  /** The panel of the selected row. */
  function selected(app) {
    const { selected: box } = app.dom;
    box.hidden = app.selected < 0;
    if (box.hidden) return;
    const told = tracekit.details.describe(app, app.selected);
    const buttons = [];
    const button = (text, action) => buttons.push(element("button", { type: "button", text, "data-action": action }));
    button("Fit", "fit-selected");
    if (app.data.launch[app.selected] >= 0) button("Go to its launch", "launch");
    if (app.peers.length > 1) {
      const last = app.peers.reduce((a, b) => (app.data.start[b] > app.data.start[a] ? b : a));
      const first = app.peers.reduce((a, b) => (app.data.start[b] < app.data.start[a] ? b : a));
      const skew = (app.data.start[last] - app.data.start[first]) * app.data.unitPs;
      const who = tracekit.details.whereOf(app, last).lane.group.name;
      told.facts.push([
        "collective",
        `on ${app.peers.length} devices; starts differ by ${time(skew)}${skew > 0 ? `, last came ${who}` : ""}`,
      ]);
      button(`Show all ${app.peers.length} devices`, "peers");
    }
    if (app.selected >= app.data.device_rows) {
      const rows = tracekit.details.startedBy(app, app.selected);
      const some = rows
        .slice(0, 3)
        .map((row) => `${app.data.names[app.data.name[row]]} on ${tracekit.details.whereOf(app, row).lane.group.name}`);
      told.facts.push(["launched", `${some.join(", ")}${rows.length > 3 ? ` and ${rows.length - 3} more` : ""}`]);
      if (rows.length) button("Go to what it launched", "launched");
    }
    button("Let go", "release");
    box.replaceChildren(
      element("h3", { text: "Selected" }),
      head(told),
      facts(told),
      element("p", { className: "tl-buttons" }, ...buttons),
    );
  }

  /** The search's count, and which of them is selected. */
  function count(app) {
    const { found, selected: row, dom } = app;
    if (!found) dom.count.textContent = "";
    else if (found.problem) dom.count.textContent = "no regular expression";
    else {
      const is = row >= 0 && row < app.data.device_rows && found.names[app.data.name[row]];
      const place = is ? `${tracekit.units.count(tracekit.search.place(app.data, found, row))} of ` : "";
      dom.count.textContent = `${place}${tracekit.units.count(found.count)} found`;
    }
  }

  /** What a screen reader is told: the view, the selection, the measurement. */
  function say(app) {
    const { view, data, dom } = app;
    const words = [
      `From ${time(view.from * data.unitPs)} to ${time(view.to * data.unitPs)}, ${time((view.to - view.from) * data.unitPs)} in view.`,
    ];
    if (app.selected >= 0) {
      const { name, kind, facts: told } = tracekit.details.describe(app, app.selected);
      words.push(
        `Selected: ${name}, ${kind}, ${told
          .slice(0, 3)
          .map((pair) => pair.join(" "))
          .join(", ")}.`,
      );
    }
    if (app.measured) {
      const { from, to, devices } = app.measured;
      const told = devices
        .slice(0, 4)
        .map(
          (one) =>
            `${one.group.name} ${percent(one.busy, to - from)} busy, memory ${percent(one.hidden.memory, one.time.memory)} hidden, collectives ${percent(one.hidden.collective, one.time.collective)} hidden`,
        );
      words.push(`Measured ${time((to - from) * data.unitPs)}: ${told.join("; ")}.`);
    }
    if (app.found) words.push(dom.count.textContent);
    dom.live.textContent = words.join(" ");
  }

  tracekit.panels = { tip, selected, count, say };
})((globalThis.tracekit ??= {}));
