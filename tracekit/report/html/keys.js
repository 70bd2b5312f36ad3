// The keyboard: over the plot, in the list of lanes, in the search, and from anywhere on the page.
"use strict";
((tracekit) => {
  const KEYS = {
    j: "below",
    k: "above",
    w: "in",
    s: "out",
    a: "left",
    d: "right",
    W: "in",
    S: "out",
    A: "left",
    D: "right",
    "+": "in",
    "=": "in",
    "-": "out",
    ArrowLeft: "left",
    ArrowRight: "right",
    0: "whole",
    Home: "whole",
    f: "fit",
    F: "fit",
    m: "measure",
    M: "measure",
    l: "launch",
    ",": "before",
    ".": "after",
    n: "next",
    N: "previous",
    "?": "help",
    Escape: "escape",
  };

  function keys(app, act) {
    app.dom.plot.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "ArrowUp" || event.key === "ArrowDown") {
        const before = app.dom.lanes.scrollTop;
        app.dom.lanes.scrollTop += event.key === "ArrowUp" ? -40 : 40;
        // At the end of the lanes the page scrolls on.
        if (app.dom.lanes.scrollTop === before) return;
      } else if (event.key === "Enter") act.enter();
      else if (KEYS[event.key]) act[KEYS[event.key]]();
      else return;
      event.preventDefault();
    });
    // From anywhere on the page but a field: search, help and clear.
    document.addEventListener("keydown", (event) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.closest?.("input, textarea, select, dialog")) return;
      if (event.key === "/") {
        app.dom.search.focus();
        app.dom.search.select();
      } else if (event.key === "?") act.help();
      else if (event.key === "Escape") act.escape();
      else return;
      event.preventDefault();
    });
    app.dom.search.addEventListener("input", () => act.find(app.dom.search.value));
    app.dom.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") act[event.shiftKey ? "previous" : "next"]();
      else if (event.key === "Escape") {
        act.find("");
        app.dom.plot.focus();
      } else return;
      event.preventDefault();
    });
  }

  /** The list of lanes: clicks fold and pin, keys walk. */
  function tree(app, act) {
    const rowOf = (element) => [...app.rows.pinned, ...app.rows.rest].find(({ key }) => key === element.dataset.key);
    const group = (element) => {
      const row = rowOf(element);
      return row.folds && !row.pinned ? row.group.number : null;
    };
    /** Selects the peak of a memory lane; whether the row is one. */
    const peak = (element) => {
      const row = rowOf(element);
      if (row.memory) act.peak(row.group);
      return Boolean(row.memory);
    };
    app.dom.side.addEventListener("click", (event) => {
      const row = event.target.closest(".tl-row");
      if (!row) return;
      app.current = row.dataset.key;
      if (event.target.closest(".tl-pin")) act.pin(row.dataset.key);
      else if (!peak(row) && group(row) !== null) act.toggle(group(row));
    });
    app.dom.side.addEventListener("keydown", (event) => {
      const row = event.target.closest(".tl-row");
      if (!row) return;
      const number = group(row);
      const closed = app.closed.has(number);
      if (event.key === "ArrowDown") tracekit.laneTree.move(app, row, 1);
      else if (event.key === "ArrowUp") tracekit.laneTree.move(app, row, -1);
      else if (event.key === "p") act.pin(row.dataset.key);
      else if (
        number !== null &&
        (event.key === "Enter" || event.key === " " || event.key === (closed ? "ArrowRight" : "ArrowLeft"))
      )
        act.toggle(number);
      else if ((event.key !== "Enter" && event.key !== " ") || !peak(row)) return;
      event.preventDefault();
    });
  }

  tracekit.keys = { keys, tree };
})((globalThis.tracekit ??= {}));
