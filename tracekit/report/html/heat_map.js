// The heat map of a fleet: all ranks over all steps in one picture, and below it a list of groups that open, with the same
// cells row by row.
"use strict";
((tracekit) => {
  const { WAYS, REACHES, range, groupsOf, rowsOf, edges, cell, stepsOf } = tracekit.heatCells;
  const { time, count } = tracekit.units;
  const FONT = "11px system-ui, sans-serif";
  // In CSS pixels: a row of the list, the axis, the picture of all ranks, and the list.
  const ROW = 20;
  const AXIS = 20;
  const [LEAST_ALL, MOST_ALL] = [192, 256];
  const MOST_LIST = 320;
  const TICK = 64;
  const [PAPER_WIDTH, PAPER_SCALE, REST_MS] = [680, 2, 600];

  /** An element with text, classes and attributes; text is text whatever it holds. */
  function element(tag, { text, className, ...attributes } = {}, ...children) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    node.append(...children);
    return node;
  }

  /** 256 colours of the scale as packed pixels, and as CSS. */
  function ramp(stops) {
    const parts = stops.map((stop) => [1, 3, 5].map((at) => parseInt(stop.slice(at, at + 2), 16)));
    return Array.from({ length: 256 }, (_, at) => {
      const place = (at / 255) * (parts.length - 1);
      const low = Math.min(Math.floor(place), parts.length - 2);
      return parts[low].map((part, i) => Math.round(part + (parts[low + 1][i] - part) * (place - low)));
    });
  }

  const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;

  /** The place of a value among the colours; -1 where nothing is known. */
  function shade(value, { low, high }) {
    if (Number.isNaN(value)) return -1;
    return high > low ? Math.min(Math.max(Math.round(((value - low) / (high - low)) * 255), 0), 255) : 128;
  }

  const measureOf = (app) => app.data.measures[app.measure];
  const wayWords = (app) => `the ${WAYS.find(([key]) => key === app.way)[1]}`;

  /** What each row of the picture of all ranks stands for: ranks that follow each other in the order of their groups. */
  function allRows(app, height) {
    const order = groupsOf(app.data, app.grouping, measureOf(app), "named").flatMap(({ ranks }) => ranks);
    const rows = Math.min(order.length, height);
    return Array.from({ length: rows }, (_, at) =>
      order.slice(Math.floor((at * order.length) / rows), Math.floor(((at + 1) * order.length) / rows)),
    );
  }

  /** How high the picture of all ranks is: of few ranks each has several pixels, of many one pixel stands for several. */
  function allHeight(ranks) {
    return ranks >= LEAST_ALL ? Math.min(ranks, MOST_ALL) : ranks * Math.max(Math.round(LEAST_ALL / ranks), 1);
  }

  /** Lays out anew: which rows there are, and how wide everything is. */
  function relay(app) {
    const { dom, data } = app;
    app.groups = groupsOf(data, app.grouping, measureOf(app), app.order);
    app.rows = rowsOf(app.groups, app.open, data.ranks);
    app.cursor.row = Math.min(app.cursor.row, app.rows.length - 1);
    app.range = range(data.known[app.measure], app.reach) ?? { low: 0, high: 0 };
    dom.list.style.height = `${Math.min(app.rows.length * ROW, MOST_LIST)}px`;
    dom.spacer.style.height = `${app.rows.length * ROW}px`;
    const scale = Math.max(window.devicePixelRatio || 1, 1);
    const width = Math.max(dom.list.clientWidth, 1);
    const label = Math.round(Math.min(184, width * 0.32));
    const columns = Math.max(Math.min(data.bins.length, Math.floor(width - label)), 1);
    app.size = { width, label, plot: width - label, scale, list: dom.list.clientHeight, all: allHeight(data.ranks.length) };
    app.edges = edges(data.bins.length, columns);
    app.allRows = allRows(app, app.size.all);
    app.cells = new Map();
    for (const [canvas, height] of [
      [dom.all, AXIS + app.size.all + 1],
      [dom.rows, app.size.list],
    ]) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    words(app);
    app.update();
    preparePaper(app);
  }

  /** The cells of some ranks, column by column; computed once. */
  function cellsOf(app, key, ranks) {
    if (!app.cells.has(key)) {
      const at = app.edges.slice(0, -1).map((from, i) => cell(app.data, measureOf(app), ranks, from, app.edges[i + 1], app.way));
      app.cells.set(key, at);
    }
    return app.cells.get(key);
  }

  /** Rows of cells as pixels, one each, on a canvas of their own. */
  function pixels(app, rows, none) {
    const columns = app.edges.length - 1;
    const canvas = document.createElement("canvas");
    canvas.width = columns;
    canvas.height = rows.length;
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows.length);
    const packed = new Uint32Array(image.data.buffer);
    const tones = app.ramp.map(([r, g, b]) => r + g * 256 + b * 65536 + 255 * 16777216);
    rows.forEach((cells, y) =>
      cells.forEach(({ value }, x) => {
        const at = shade(value, app.range);
        packed[y * columns + x] = at < 0 ? none : tones[at];
      }),
    );
    context.putImageData(image, 0, 0);
    return canvas;
  }

  /** The page's colours: of text, and packed as a pixel that of cells of which nothing is known. */
  function coloursOf(app) {
    const style = getComputedStyle(app.dom.box);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    const grey = of("idle");
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(grey.slice(at, at + 2), 16));
    return { ink: of("ink"), grey: of("grey"), accent: of("accent"), none: r + g * 256 + b * 65536 + 255 * 16777216 };
  }

  /** A text that is no wider than `space`; of a longer one the end is kept, which tells a rank from its neighbours. */
  function fitting(context, text, space) {
    let shown = text;
    for (let keep = text.length - 1; context.measureText(shown).width > space && keep > 1; keep--) {
      shown = `…${text.slice(text.length - keep)}`;
    }
    return shown;
  }

  function drawAxis(app, context, colours, { label, plot }) {
    const columns = app.edges.length - 1;
    const every = Math.max(Math.ceil((TICK * columns) / plot), 1);
    context.fillStyle = colours.grey;
    context.font = FONT;
    context.textBaseline = "alphabetic";
    context.textAlign = "right";
    context.fillText("step", label - 8, AXIS - 7);
    context.textAlign = "left";
    for (let at = 0; at < columns; at += every) {
      const x = label + (at / columns) * plot;
      context.fillRect(Math.round(x), AXIS - 5, 1, 5);
      const bin = app.data.bins[app.edges[at]];
      context.fillText(String(bin.first ?? app.edges[at]), x + 3, AXIS - 7);
    }
  }

  function drawAll(app, context, colours, size) {
    const { label, plot, all } = size;
    drawAxis(app, context, colours, size);
    app.allImage ??= pixels(app, app.allRows.map((ranks, y) => cellsOf(app, `all ${y}`, ranks)), colours.none);
    context.imageSmoothingEnabled = false;
    context.drawImage(app.allImage, label, AXIS, plot, all);
    context.fillStyle = colours.ink;
    context.textAlign = "right";
    context.textBaseline = "middle";
    const each = app.data.ranks.length / app.allRows.length;
    const lines = [`all ${count(app.data.ranks.length)} ranks`];
    if (each > 1) lines.push(`${Math.floor(each)}${each > Math.floor(each) ? ` or ${Math.ceil(each)}` : ""} a line:`, app.way === "furthest" ? "the furthest" : wayWords(app));
    lines.forEach((text, at) => context.fillText(text, label - 8, AXIS + all / 2 + 15 * (at - (lines.length - 1) / 2)));
  }

  function drawList(app, context, colours) {
    const { label, plot, list } = app.size;
    const top = app.dom.list.scrollTop;
    const first = Math.floor(top / ROW);
    const shown = app.rows.slice(first, Math.ceil((top + list) / ROW));
    context.imageSmoothingEnabled = false;
    context.textBaseline = "middle";
    shown.forEach((row, at) => {
      const y = (first + at) * ROW - top;
      const isGroup = row.level === 1;
      const image = pixels(app, [cellsOf(app, keyOf(row), row.ranks)], colours.none);
      context.drawImage(image, label, y + (isGroup ? 2 : 0), plot, ROW - (isGroup ? 2 : 0));
      context.font = isGroup ? `600 ${FONT}` : FONT;
      context.fillStyle = isGroup ? colours.ink : colours.grey;
      context.textAlign = "left";
      if (isGroup) context.fillText(row.open ? "▾" : "▸", 6, y + ROW / 2);
      context.fillText(fitting(context, row.name, label - 28), isGroup ? 20 : 24, y + ROW / 2);
    });
  }

  const keyOf = (row) => (row.level === 1 ? `group ${row.group.number}` : `rank ${row.ranks[0]}`);

  /** Outlines a cell; on any of its colours one of both lines can be seen. */
  function outline(context, colours, x, y, width, height) {
    context.lineWidth = 3;
    context.strokeStyle = "#000";
    context.strokeRect(x - 0.5, y - 0.5, width + 1, height + 1);
    context.lineWidth = 1;
    context.strokeStyle = "#fff";
    context.strokeRect(x - 0.5, y - 0.5, width + 1, height + 1);
  }

  function columnBox(app, column) {
    const columns = app.edges.length - 1;
    const [from, to] = [column, column + 1].map((at) => app.size.label + (at / columns) * app.size.plot);
    return { x: from, width: to - from };
  }

  function draw(app) {
    const { dom, size } = app;
    const colours = coloursOf(app);
    for (const canvas of [dom.all, dom.rows]) {
      const context = canvas.getContext("2d");
      context.setTransform(size.scale, 0, 0, size.scale, 0, 0);
      context.clearRect(0, 0, size.width, canvas.height);
      (canvas === dom.all ? drawAll : drawList)(app, context, colours, size);
      const at = app.pointed;
      if (!at || (at.on === "all") !== (canvas === dom.all)) continue;
      const { x, width } = columnBox(app, at.column);
      if (at.on === "all") {
        const line = size.all / app.allRows.length;
        outline(context, colours, x, AXIS + at.row * line, width, line);
      } else outline(context, colours, x, at.row * ROW - dom.list.scrollTop, width, ROW - 1);
    }
    app.frames++;
  }

  /** The cell that a place on the picture ("all") or the list ("list") points at; null beside the cells. */
  function pointedAt(app, on, x, y) {
    const { label, plot, all } = app.size;
    if (x < label || x >= label + plot) return null;
    const column = Math.min(Math.floor(((x - label) / plot) * (app.edges.length - 1)), app.edges.length - 2);
    const rows = on === "all" ? app.allRows.length : app.rows.length;
    const row = on === "all" ? Math.floor(((y - AXIS) / all) * rows) : Math.floor((y + app.dom.list.scrollTop) / ROW);
    return row >= 0 && row < rows ? { on, row, column } : null;
  }

  /** What a cell is and shows: [[what, words]], the measure that is drawn first. */
  function told(app, { on, row, column }) {
    const { data } = app;
    const ranks = on === "all" ? app.allRows[row] : app.rows[row].ranks;
    const key = on === "all" ? `all ${row}` : keyOf(app.rows[row]);
    const shown = cellsOf(app, key, ranks)[column];
    const steps = stepsOf(data, app.edges[column], app.edges[column + 1]);
    const title = measureOf(app).title;
    const said = (value) => (Number.isNaN(value) ? "not known" : time(value));
    const mean = steps.count > 1 ? `, mean of ${count(steps.count)} steps` : "";
    if (shown.rank < 0 || ranks.length > 1) {
      const group = on === "list" ? [["group", app.rows[row].name]] : [];
      const of = ranks.length > 1 ? `${count(ranks.length)} ranks` : `${count(shown.cells)} columns`;
      const best = shown.rank < 0 ? [] : [["rank", data.ranks[shown.rank]], ["host", data.hosts[shown.rank]]];
      const span = on === "all" && ranks.length > 1 ? [["from", data.ranks[ranks[0]]], ["to", data.ranks[ranks.at(-1)]]] : [];
      return [...group, ...span, ["step", steps.words + mean], [title, `${said(shown.value)}, of ${of} ${wayWords(app)}`], ...best].filter(
        ([, text]) => text,
      );
    }
    const at = (measure) => measure.values[shown.rank * data.bins.length + shown.bin];
    const others = data.measures.filter((measure) => measure !== measureOf(app));
    return [
      ["rank", data.ranks[shown.rank]],
      ["host", data.hosts[shown.rank]],
      ["step", steps.words + mean],
      ...[measureOf(app), ...others].map((measure) => [measure.title, said(at(measure))]),
    ].filter(([, text]) => text);
  }

  function tip(app, place) {
    const { tip: box, frame } = app.dom;
    box.hidden = !app.pointed;
    if (!app.pointed) return;
    const rows = told(app, app.pointed).flatMap(([what, text]) => [
      element("dt", { text: what }),
      element("dd", { text }),
    ]);
    box.replaceChildren(element("dl", {}, ...rows));
    const around = frame.getBoundingClientRect();
    const [x, y] = [place.x - around.left, place.y - around.top];
    const right = x + 16 + box.offsetWidth > around.width;
    box.style.left = `${right ? Math.max(x - 16 - box.offsetWidth, 0) : x + 16}px`;
    box.style.top = `${y + 16}px`;
  }

  /** Points with the keyboard at the cell of the cursor, and says it. */
  function focusCell(app) {
    const { list, live } = app.dom;
    const { row, column } = app.cursor;
    const top = row * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + ROW > list.scrollTop + app.size.list) list.scrollTop = top + ROW - app.size.list;
    app.pointed = { on: "list", row, column };
    const around = list.getBoundingClientRect();
    const { x, width } = columnBox(app, column);
    tip(app, { x: around.left + x + width, y: around.top + top - list.scrollTop + ROW });
    const here = app.rows[row];
    const fold = here.level === 1 ? `, ${here.open ? "open" : "closed"}` : "";
    live.textContent = told(app, app.pointed).map((pair) => pair.join(" ")).join(", ") + fold;
    app.update();
  }

  function toggle(app, group, open = !app.open.has(group.number)) {
    if (open) app.open.add(group.number);
    else app.open.delete(group.number);
    relay(app);
  }

  /** Opens the group of a rank in the list, and goes to it. */
  function reveal(app, rank, column) {
    const group = app.groups.find(({ ranks }) => ranks.includes(rank));
    toggle(app, group, true);
    app.cursor = { row: app.rows.findIndex((row) => row.level === 2 && row.ranks[0] === rank), column };
    app.dom.list.scrollTop = (app.rows.findIndex((row) => row.group === group) - 1) * ROW;
    app.dom.list.focus({ preventScroll: true });
    focusCell(app);
  }

  function keys(app) {
    app.dom.list.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const { cursor, rows } = app;
      const page = Math.floor(app.size.list / ROW) - 1;
      const columns = app.edges.length - 1;
      const move = {
        ArrowUp: [-1, 0],
        ArrowDown: [1, 0],
        ArrowLeft: [0, -1],
        ArrowRight: [0, 1],
        PageUp: [-page, 0],
        PageDown: [page, 0],
        Home: [0, -columns],
        End: [0, columns],
      }[event.key];
      if (move) {
        cursor.row = Math.min(Math.max(cursor.row + move[0], 0), rows.length - 1);
        cursor.column = Math.min(Math.max(cursor.column + move[1], 0), columns - 1);
      } else if (event.key === "Enter" || event.key === " ") {
        const { group } = rows[cursor.row];
        toggle(app, group);
        cursor.row = app.rows.findIndex((row) => row.group === app.groups.find(({ number }) => number === group.number));
      } else if (event.key === "Escape") {
        leave(app);
        return;
      } else return;
      event.preventDefault();
      focusCell(app);
    });
    app.dom.list.addEventListener("focus", () => app.dom.list.matches(":focus-visible") && focusCell(app));
    app.dom.list.addEventListener("blur", () => leave(app));
  }

  function leave(app) {
    app.pointed = null;
    tip(app);
    app.update();
  }

  function pointer(app) {
    const { all, rows, list } = app.dom;
    for (const [on, canvas] of [
      ["all", all],
      ["list", rows],
    ]) {
      const at = (event) => {
        const around = canvas.getBoundingClientRect();
        return { x: event.clientX - around.left, y: event.clientY - around.top };
      };
      canvas.addEventListener("pointermove", (event) => {
        const { x, y } = at(event);
        app.pointed = pointedAt(app, on, x, y);
        tip(app, { x: event.clientX, y: event.clientY });
        app.update();
      });
      canvas.addEventListener("pointerleave", () => leave(app));
      canvas.addEventListener("click", (event) => {
        const { x, y } = at(event);
        const place = pointedAt(app, on, Math.max(x, app.size.label), y);
        if (!place) return;
        if (on === "all") {
          const ranks = app.allRows[place.row];
          const shown = cellsOf(app, `all ${place.row}`, ranks)[place.column];
          reveal(app, shown.rank < 0 ? ranks[0] : shown.rank, place.column);
          return;
        }
        app.cursor = { row: place.row, column: place.column };
        if (app.rows[place.row].level === 1) toggle(app, app.rows[place.row].group);
      });
    }
    list.addEventListener("scroll", () => app.update());
  }

  /** The picture that is printed: that of all ranks, in the colours for paper, ready before anyone prints. */
  function preparePaper(app) {
    clearTimeout(app.preparing);
    app.preparing = setTimeout(() => {
      const canvas = element("canvas");
      const label = 120;
      canvas.width = PAPER_WIDTH * PAPER_SCALE;
      canvas.height = (AXIS + app.size.all) * PAPER_SCALE;
      const context = canvas.getContext("2d");
      context.scale(PAPER_SCALE, PAPER_SCALE);
      const colours = { ...coloursOf(app), ink: "#000", grey: "#404040" };
      drawAll(app, context, colours, { ...app.size, label, plot: PAPER_WIDTH - label });
      app.dom.paper.src = canvas.toDataURL("image/png");
    }, REST_MS);
  }

  /** The words around the picture: its legend, how to read it, and what a screen reader hears. */
  function words(app) {
    const { data, dom } = app;
    const { low, high, below, above } = app.range;
    const title = measureOf(app).title;
    dom.title.textContent = `${title[0].toUpperCase()}${title.slice(1)} of each rank and step`;
    dom.low.textContent = `${below ? "≤ " : ""}${time(low)}`;
    dom.high.textContent = `${above ? "≥ " : ""}${time(high)}`;
    dom.ramp.style.background = `linear-gradient(to right, ${app.ramp.filter((_, at) => at % 15 === 0).map(css).join(", ")})`;
    dom.none.hidden = data.known[app.measure].length === data.ranks.length * data.bins.length;
    const columns = app.edges.length - 1;
    const steps = data.bins.reduce((sum, bin) => sum + bin.steps, 0);
    const parts = [];
    const most = Math.max(...data.bins.map((bin) => bin.steps));
    if (most > 1) parts.push(`Of ${count(steps)} steps up to ${count(most)} in a row share a column, which shows their mean.`);
    if (columns < data.bins.length) parts.push(`Where several columns share one for lack of room, it shows ${wayWords(app)}.`);
    const shown = app.way === "furthest" ? "the one furthest from the median of its step" : `the ${app.way}`;
    parts.push(`A line that stands for several ranks shows ${shown}.`);
    const unit = measureOf(app).unit_ps;
    if (unit > 1) parts.push(`Times are rounded to ${time(unit)}.`);
    dom.about.textContent = parts.join(" ");
    const where = data.groupings[app.grouping] ? `, ${count(app.groups.length)} groups by ${data.groupings[app.grouping].by}` : "";
    const label = `Heat map of ${title}: ${count(data.ranks.length)} ranks${where}, ${count(steps)} steps; from ${time(data.known[app.measure][0] ?? 0)} to ${time(data.known[app.measure].at(-1) ?? 0)}`;
    dom.list.setAttribute("aria-label", `${label}. Arrow keys walk, Enter opens and closes a group.`);
    dom.paper.alt = label;
    for (const [at, button] of dom.measures.entries()) button.setAttribute("aria-pressed", String(at === app.measure));
    const isOpen = app.groups.every(({ number }) => app.open.has(number));
    dom.fold.textContent = isOpen ? "Close all" : "Open all";
  }

  /** A choice, with its name before it. */
  function choice(name, options, chosen, change) {
    const select = element("select", {}, ...options.map(([key, text]) => new Option(text, key, key === chosen, key === chosen)));
    select.addEventListener("change", () => change(select.value));
    return element("label", {}, `${name} `, select);
  }

  function build(app, root) {
    const { data } = app;
    const again = () => {
      app.allImage = null;
      relay(app);
    };
    const measures = data.measures.map(({ title }, at) => {
      const button = element("button", { type: "button", text: title });
      button.addEventListener("click", () => {
        app.measure = at;
        again();
      });
      return button;
    });
    const fold = element("button", { type: "button" });
    fold.addEventListener("click", () => {
      const isOpen = app.groups.every(({ number }) => app.open.has(number));
      app.open = new Set(isOpen ? [] : app.groups.map(({ number }) => number));
      relay(app);
    });
    const orders = [
      ["furthest", "furthest first"],
      ["named", "by name"],
    ];
    const set = (key) => (value) => {
      app[key] = value;
      again();
    };
    const byGroup = (value) => {
      app.grouping = Number(value);
      app.open = new Set();
      again();
    };
    const groups = data.groupings.map(({ by, names }, at) => [String(at), `${by} (${count(names.length)})`]);
    const bar = element(
      "div",
      { className: "hm-bar", role: "group", "aria-label": "Heat map" },
      element("div", { className: "hm-measures", role: "group", "aria-label": "Measure" }, ...measures),
      choice("Colours", REACHES, app.reach, set("reach")),
      choice("Of several", WAYS, app.way, set("way")),
      ...(groups.length ? [choice("Group by", groups, "0", byGroup)] : []),
      choice("List", orders, app.order, set("order")),
      fold,
    );
    const [title, low, high] = [element("b"), element("span"), element("span")];
    const scale = element("span", { className: "hm-ramp", "aria-hidden": "true" });
    const none = element("span", { className: "hm-none" }, element("i", { "aria-hidden": "true" }), "not known");
    const all = element("canvas", { className: "hm-all", "aria-hidden": "true" });
    const rows = element("canvas", { className: "hm-rows", "aria-hidden": "true" });
    const spacer = element("div", { className: "hm-spacer", "aria-hidden": "true" }, rows);
    const list = element(
      "div",
      { className: "hm-list", tabindex: "0", role: "application", "aria-roledescription": "heat map" },
      spacer,
    );
    const box = element("div", { className: "hm" });
    const about = element("p", { className: "about" });
    const live = element("p", { className: "sr", role: "status", "aria-live": "polite" });
    const tooltip = element("div", { className: "hm-tip", role: "tooltip", hidden: "" });
    const paper = element("img", { className: "hm-paper", alt: "" });
    const legend = element("p", { className: "hm-legend" }, title, low, scale, high, none);
    const frame = element("div", { className: "hm-frame" }, all, list, tooltip);
    box.append(bar, legend, frame, paper, about, live);
    root.append(box);
    app.dom = { box, all, rows, list, spacer, frame, about, live, tip: tooltip, title, low, high, ramp: scale, none, paper, measures, fold };
  }

  async function start() {
    const root = document.getElementById("heat-map");
    if (!root || !document.getElementById("fleet-header")) return;
    if (!tracekit.decode.able()) {
      root.append(
        element("p", { className: "about", text: "This browser cannot unpack the heat map (it lacks DecompressionStream): any browser from 2023 or later can." }),
      );
      return;
    }
    const data = await tracekit.heatCells.load(document);
    const app = {
      data,
      measure: Math.max(data.measures.findIndex(({ key }) => key === data.first), 0),
      reach: "all",
      way: "furthest",
      grouping: 0,
      order: "furthest",
      open: new Set(),
      cursor: { row: 0, column: 0 },
      pointed: null,
      allImage: null,
      ramp: ramp(data.colours),
      frames: 0,
    };
    // The group that is furthest from the others is open at first.
    const [first] = groupsOf(data, app.grouping, data.measures[app.measure], app.order);
    app.open.add(first.number);
    let pending = false;
    app.update = () => {
      if (pending) return;
      pending = true;
      requestAnimationFrame(() => {
        pending = false;
        draw(app);
      });
    };
    build(app, root);
    relay(app);
    keys(app);
    pointer(app);
    const fit = () => {
      if (app.dom.list.clientWidth && app.dom.list.clientWidth !== app.size.width) {
        app.allImage = null;
        relay(app);
      }
    };
    new ResizeObserver(fit).observe(app.dom.list);
    const recolour = () => {
      app.allImage = null;
      app.update();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
    new MutationObserver(recolour).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    draw(app);
    tracekit.heat = { app, told, reveal };
    root.dataset.ready = "";
  }

  tracekit.heatStarted = start();
})((globalThis.tracekit ??= {}));
