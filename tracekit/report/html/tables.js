// Tables: the head of a column sorts its rows, long ones are folded and searched, and of several on one question one is
// shown. Without this script, and but for the fold on paper, they are plain tables.
"use strict";
((tracekit) => {
  const ORDER = new Intl.Collator("en", { numeric: true });
  const OPPOSITE = { ascending: "descending", descending: "ascending" };

  /** An element with attributes, or properties that are no attributes, and children. */
  function element(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  function button(text, action, attributes = {}) {
    const node = element("button", { type: "button", ...attributes }, text);
    node.addEventListener("click", action);
    return node;
  }

  /** The words of a cell, a shortened name in full. */
  const words = (cell) => cell.querySelector("bdi[title]")?.title ?? cell.textContent.trim();

  /** What a cell is sorted by: an exact number, words, or null where it is missing. */
  function value(cell) {
    if (cell.querySelector(".none")) return null;
    const number = cell.querySelector("data")?.value ?? cell.querySelector(".jump")?.dataset.from;
    return number === undefined ? words(cell) : Number(number);
  }

  /** The rows by a column; those without a value last in either direction, equal ones as they stood at first. */
  function sorted(rows, column, direction) {
    const sign = direction === "ascending" ? 1 : -1;
    const keyed = rows.map((row) => ({ row, key: value(row.cells[column]) }));
    const order = (a, b) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === "number" && typeof b === "number" ? a - b : ORDER.compare(String(a), String(b)));
    };
    return keyed.toSorted((a, b) => order(a.key, b.key)).map(({ row }) => row);
  }

  /** Makes the heads of a table buttons: figures from the largest, words from a, then the opposite, then as at first. */
  function sortable(view) {
    const heads = [...view.table.tHead.rows[0].cells];
    const first = heads.map((head) => head.getAttribute("aria-sort"));
    const set = (column, direction) => {
      for (const [at, head] of heads.entries()) {
        const is = column === null ? first[at] : at === column ? direction : null;
        if (is) head.setAttribute("aria-sort", is);
        else head.removeAttribute("aria-sort");
      }
      view.rows = column === null ? view.original : sorted(view.original, column, direction);
      view.table.tBodies[0].append(...view.rows);
      view.show();
    };
    for (const [column, head] of heads.entries()) {
      const start = head.classList.contains("n") ? "descending" : "ascending";
      const next = () => {
        const now = head.getAttribute("aria-sort");
        if (!now) set(column, start);
        else if (now === start) set(column, OPPOSITE[start]);
        else set(null);
      };
      head.replaceChildren(button(head.textContent, next, { class: "sort" }));
    }
  }

  /** A table in its box: which rows are shown is what `text` matches on `device`; of many the first, unless `all`. */
  function viewOf(box) {
    const table = box.querySelector("table");
    const original = [...table.tBodies[0].rows];
    const view = { box, table, original, rows: original, text: "", device: "", all: false, told: () => {} };
    const most = Number(table.dataset.rows ?? original.length);
    const column = Number(box.dataset.column);
    view.show = () => {
      let matches;
      try {
        matches = tracekit.matcher(view.text);
      } catch (error) {
        view.told({ problem: error.message });
        return;
      }
      const there = view.rows.filter((row) => !view.device || words(row.cells[column]) === view.device);
      const found = there.filter((row) => !view.text || matches([...row.cells].map(words).join("\n")));
      const shown = new Set(view.all || view.text ? found : found.slice(0, most));
      for (const row of view.rows) row.hidden = !shown.has(row);
      view.told({ shown: shown.size, found: found.length, there: there.length, most });
    };
    if (original.length > 1) sortable(view);
    view.show();
    return view;
  }

  /** How many rows are shown, and of how many. */
  function counted({ problem, shown, found, there }, text) {
    if (problem) return problem;
    if (text && !found) return `None of ${there} rows matches`;
    return shown === there ? `${there} ${there === 1 ? "row" : "rows"}` : `${shown} of ${there} rows`;
  }

  /** The search over the table that `current` gives, the number of its rows, and the button that shows all. */
  function tools(label, current) {
    const search = element("input", {
      type: "search",
      placeholder: "Search, or /regexp/",
      "aria-label": `Search ${label}`,
      spellcheck: "false",
      autocomplete: "off",
    });
    const count = element("output");
    const all = button("", () => {
      current().all = !current().all;
      current().show();
    });
    const tell = (rows) => {
      count.textContent = counted(rows, search.value);
      all.hidden = Boolean(search.value) || rows.problem !== undefined || rows.there <= rows.most;
      all.textContent = current().all ? `Show the first ${rows.most}` : `Show all ${rows.there}`;
    };
    const show = () => {
      current().text = search.value;
      current().told = tell;
      current().show();
    };
    search.addEventListener("input", show);
    return { bar: element("div", { class: "tools" }, search, count, all), show };
  }

  /** A long table on its own. */
  function alone(view) {
    const { bar, show } = tools(view.box.getAttribute("aria-label"), () => view);
    view.box.before(bar);
    show();
  }

  /** Several tables on one question, by what they group its rows, some of them of each device too: one is shown. */
  function choice(group, views) {
    const ofDevices = views.filter(({ box }) => box.dataset.column);
    const ways = views.filter(({ box }) => !box.dataset.column);
    const ofEach = ({ box }) => ofDevices.find((view) => view.box.dataset.by === box.dataset.by);
    let way = ways[0];
    let device = "";
    const current = () => (device && ofEach(way)) || way;
    const { bar, show } = tools(group.dataset.choice, current);
    const buttons = ways.map((each) => {
      const choose = () => {
        way = each;
        update();
      };
      return button(each.box.dataset.by, choose);
    });
    const by = element("div", { class: "by", role: "group", "aria-label": "Group by" }, ...buttons);
    const select = element("select", { "aria-label": "Device" }, new Option("all devices", ""));
    select.addEventListener("change", () => {
      device = select.value;
      update();
    });
    const names = ofDevices.flatMap(({ box, original }) =>
      original.map((row) => words(row.cells[Number(box.dataset.column)])),
    );
    for (const name of new Set(names)) select.add(new Option(name));
    function update() {
      for (const [at, each] of ways.entries()) buttons[at].setAttribute("aria-pressed", String(each === way));
      select.hidden = !ofEach(way);
      for (const view of ofDevices) view.device = device;
      for (const view of views) view.box.classList.toggle("off", view !== current());
      show();
    }
    bar.prepend(by, select);
    group.prepend(bar);
    update();
  }

  const views = [...document.querySelectorAll("main .wide:has(> table:not(.matrix) > tbody)")].map(viewOf);
  const groups = [...document.querySelectorAll("main [data-choice]")];
  for (const group of groups) choice(group, views.filter(({ box }) => box.parentElement === group));
  for (const view of views) if (view.table.dataset.rows && !view.box.closest("[data-choice]")) alone(view);
})((globalThis.tracekit ??= {}));
