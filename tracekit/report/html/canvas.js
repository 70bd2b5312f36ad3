// The canvas: time axis, bands of phases and steps, and each lane's coverage, column by column.
"use strict";
((tracekit) => {
  const { KINDS, paint, shares } = tracekit.coverage;
  const { AXIS, BAND, label } = tracekit.layout;
  const FONT = "11px system-ui, sans-serif";
  // Single rows get names and edges only where they are this few in view; more would be unreadable.
  const MOST_NAMED = 1500;
  // And where they are this wide, in CSS pixels.
  const LEAST_WIDE = 5;

  const mix = (a, b, share) => a.map((part, i) => Math.round(part + (b[i] - part) * share));
  const css = ([r, g, b], alpha = 1) => `rgb(${r} ${g} ${b} / ${alpha})`;
  const pixel = ([r, g, b]) => r + g * 256 + b * 65536 + 255 * 16777216;

  /** Colours as CSS, and packed as pixels for full, patterned and dimmed kinds; `colourOf` gives that of each name. */
  function colours(colourOf) {
    const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const read = (name) => {
      probe.fillStyle = "gray";
      probe.fillStyle = colourOf(name);
      probe.fillRect(0, 0, 1, 1);
      return Array.from(probe.getImageData(0, 0, 1, 1).data.subarray(0, 3));
    };
    const [paper, ink, grey, line, accent] = ["paper", "ink", "grey", "line", "accent"].map(read);
    const kinds = KINDS.map((kind) => (kind === "host" ? grey : read(kind)));
    return {
      paper: css(paper),
      ink: css(ink),
      grey: css(grey),
      line: css(line),
      accent: css(accent),
      accentSoft: css(accent, 0.14),
      label: css(paper, 0.85),
      band: css(mix(paper, ink, 0.09)),
      band2: css(mix(paper, ink, 0.04)),
      edge: css(ink, 0.28),
      kinds: kinds.map((kind) => css(kind)),
      on: KINDS.map((kind) => css(read(kind === "host" ? "on-grey" : `on-${kind}`))),
      ground: pixel(paper),
      track: pixel(mix(paper, ink, 0.055)),
      grid: pixel(mix(paper, ink, 0.13)),
      hint: pixel(mix(paper, ink, 0.45)),
      match: pixel(accent),
      memory: pixel(mix(paper, ink, 0.22)),
      memoryEdge: pixel(grey),
      full: kinds.map(pixel),
      second: kinds.map((kind, at) => pixel(at === 0 || at === 4 ? kind : mix(kind, paper, at === 3 ? 0.5 : 0.32))),
      dim: kinds.map((kind) => pixel(mix(kind, paper, 0.78))),
    };
  }

  /** The page's colours, its custom properties. */
  function coloursOf(root) {
    const style = getComputedStyle(root);
    return colours((name) => style.getPropertyValue(`--${name}`).trim() || "gray");
  }

  /** Where a time is on the plot, in CSS pixels, and which time is there. */
  function xOf(app, time) {
    return ((time - app.view.from) / (app.view.to - app.view.from)) * app.size.width;
  }

  function timeAt(app, x) {
    return app.view.from + (x / app.size.width) * (app.view.to - app.view.from);
  }

  /** Where the rows begin, and where those that scroll do: y in CSS pixels. */
  function tops(app) {
    const pinned = AXIS + app.bands.shown.length * BAND + 4;
    return { pinned, rest: pinned + tracekit.layout.height(app.rows.pinned) + (app.rows.pinned.length ? 5 : 0) };
  }

  /** The rows that are in sight, each with its `top` on the plot and the part [clip, clipEnd) in which it may draw. */
  function inSight(app) {
    const { pinned, rest } = tops(app);
    const bottom = app.size.height;
    const top = app.rows.pinned.map((row) => ({ ...row, top: pinned + row.y, clip: pinned, clipEnd: bottom }));
    const scrolled = app.rows.rest.map((row) => ({ ...row, top: rest + row.y - app.scroll, clip: rest, clipEnd: bottom }));
    return [...top, ...scrolled.filter((row) => row.top + row.height > rest && row.top < bottom)];
  }

  /** The bar of a row: what is ink in it. */
  function bar(row) {
    return { top: row.top + 2, height: row.height - 6 };
  }

  /** All lanes in sight as pixels. */
  function lanes(app, context) {
    const { scale } = app.size;
    const width = Math.round(app.size.width * scale);
    const height = Math.round(app.size.height * scale);
    if (!app.image || app.image.width !== width || app.image.height !== height) {
      app.image = context.createImageData(width, height);
      app.pixels = new Uint32Array(app.image.data.buffer);
    }
    const { pixels, colours: tones, data, view } = app;
    pixels.fill(tones.ground);
    const step = (view.to - view.from) / width;
    const sight = inSight(app);
    for (const row of sight) {
      const { top, height: tall } = bar(row);
      const foot = Math.round((top + tall) * scale);
      const lines = Math.round(tall * scale);
      const first = Math.max(foot - lines, Math.round(row.clip * scale));
      const last = Math.min(foot, height);
      for (let y = first; y < last; y++) pixels.fill(tones.track, y * width, (y + 1) * width);
    }
    grid(app, pixels, width, height);
    for (const row of sight) {
      const { top, height: tall } = bar(row);
      const foot = Math.round((top + tall) * scale);
      const lines = Math.round(tall * scale);
      const clip = { first: Math.round(row.clip * scale), last: height };
      if (row.memory) {
        tracekit.memory.paint(pixels, { width, foot, lines, scale, clip }, row.memory, view, tones);
        continue;
      }
      const parts = shares(data.classes, row.subject.cells, view.from, step, width);
      const cells = app.matches?.cells(row.subject);
      const matches = cells ? shares(data.classes, cells, view.from, step, width) : null;
      paint(pixels, { width, foot, lines, hint: foot + Math.ceil(scale), scale, clip }, parts, matches, tones);
    }
    context.putImageData(app.image, 0, 0);
  }

  /** Lines of the axis below the ink of the lanes. */
  function grid(app, pixels, width, height) {
    for (const { at } of ticks(app).labels) {
      const x = Math.round(xOf(app, at) * app.size.scale);
      if (x < 0 || x >= width) continue;
      for (let y = Math.round(AXIS * app.size.scale); y < height; y++) pixels[y * width + x] = app.colours.grid;
    }
  }

  /** The width of a letter, on average over what names are made of. */
  function letter(context) {
    const letters = "abcdefghijklmnopqrstuvwxyz_0123456789";
    return (context.measureText(letters).width / letters.length) * 1.02;
  }

  /** The rows in view of a lane, or of all lanes that are folded into one, as far as they are wide; none if they are many. */
  function wideRows(app, { lane, group, memory }) {
    const { data, view } = app;
    if (memory) return [];
    if (!lane && !app.closed.has(group.number)) return [];
    const lanes = lane ? [lane] : group.lanes;
    const spans = lanes.map((each) => [
      each.first + tracekit.intervals.above(each.reach, view.from),
      each.first + tracekit.lanes.countUntil(data, each, view.to),
    ]);
    if (spans.reduce((sum, [first, last]) => sum + last - first, 0) > MOST_NAMED) return [];
    const least = (LEAST_WIDE * (view.to - view.from)) / app.size.width;
    const rows = [];
    for (const [first, last] of spans) {
      for (let row = first; row < last; row++) if (data.end[row] - data.start[row] >= least) rows.push(row);
    }
    return lane ? rows : rows.toSorted((a, b) => data.start[a] - data.start[b]);
  }

  /** Edges and names of single rows, where there is room for them. */
  function names(app, context) {
    const { data, colours: tones, size } = app;
    const wide = letter(context);
    context.textBaseline = "middle";
    for (const row of inSight(app)) {
      const rows = wideRows(app, row);
      if (!rows.length) continue;
      const { top, height } = bar(row);
      context.save();
      context.beginPath();
      context.rect(0, row.clip, size.width, row.clipEnd - row.clip);
      context.clip();
      let labelled = -1;
      for (const at of rows) {
        const left = xOf(app, data.start[at]);
        const right = Math.min(xOf(app, data.end[at]), size.width);
        if (right - left < LEAST_WIDE) continue;
        context.fillStyle = tones.edge;
        if (left > 0) context.fillRect(left, top, 1, height);
        const from = Math.max(left, 0);
        const room = Math.floor((right - from - 8) / wide);
        // Rows of a lane may run at once: the name that began first stays readable.
        if (room < 3 || from < labelled) continue;
        const kind = KINDS.indexOf(data.classes[data.kind[at]][0]);
        const text = app.nameIn(data.name[at], room);
        labelled = from + text.length * wide + 4;
        const dimmed = app.matches && !app.matches.names?.[data.name[at]];
        if ((row.lane ? kind > 0 && kind < 4 : kind < 4) && !dimmed) {
          // A pattern is no ground for letters, and lanes folded into one may stand in halves.
          context.fillStyle = tones.kinds[kind];
          context.fillRect(from + 2, top + 1, Math.min(text.length * wide + 4, right - from - 2), height - 2);
        }
        context.fillStyle = dimmed ? tones.grey : tones.on[kind];
        context.fillText(text, from + 4, top + height / 2 + 0.5, right - from - 6);
      }
      context.restore();
    }
  }

  /** The peak of each memory lane in sight, and its value. */
  function peaks(app, context) {
    const { width } = app.size;
    for (const row of inSight(app)) {
      if (!row.memory) continue;
      context.save();
      context.beginPath();
      context.rect(0, row.clip, width, row.clipEnd - row.clip);
      context.clip();
      const x = xOf(app, row.memory.time[row.memory.peak]);
      tracekit.memory.mark(context, { x, ...bar(row), width }, row.memory, app.colours);
      context.restore();
    }
  }

  /** The labels of the axis: {at, text}, and the time they count from where they would be too long. */
  function ticks(app) {
    const { view, size } = app;
    const unit = app.data.unitPs;
    const [from, to] = [view.from * unit, view.to * unit];
    const largest = Math.max(Math.abs(from), Math.abs(to));
    const most = Math.max(size.width / 96, 2);
    const [step, of, symbol, digits, isAbsolute] = tracekit.units.timeScale(to - from, largest, most);
    // A multiple of the step, so that ticks move with what they stand at.
    const base = isAbsolute ? 0 : Math.floor(from / step) * step;
    const labels = [];
    for (let k = Math.ceil(from / step); k * step <= to; k++) {
      const text = `${isAbsolute ? "" : "+"}${tracekit.units.decimal(k * step - base, of, digits)} ${symbol}`;
      labels.push({ at: (k * step) / unit, text });
    }
    return { labels, base: isAbsolute ? null : BigInt(Math.round(base)) };
  }

  function axis(app, context) {
    const { colours: tones, size } = app;
    const { labels, base } = ticks(app);
    context.textBaseline = "alphabetic";
    const after = base === null ? 0 : context.measureText(tracekit.units.exact(base)).width + 12;
    for (const { at, text } of labels) {
      const x = Math.round(xOf(app, at)) + 0.5;
      context.strokeStyle = tones.line;
      context.beginPath();
      context.moveTo(x, AXIS - 6);
      context.lineTo(x, AXIS);
      context.stroke();
      context.fillStyle = tones.grey;
      const width = context.measureText(text).width;
      if (x - width / 2 > after && x + width / 2 < size.width) context.fillText(text, x - width / 2, AXIS - 9);
    }
    if (base !== null) {
      context.fillStyle = tones.ink;
      context.fillText(tracekit.units.exact(base), 2, AXIS - 9);
    }
  }

  /** Phases and steps, each at its true width; names where they fit. */
  function bands(app, context) {
    const { colours: tones, size, view } = app;
    const wide = letter(context);
    context.textBaseline = "middle";
    app.bands.shown.forEach(({ items, labelIn }, tier) => {
      const y = AXIS + tier * BAND;
      items.forEach((item, at) => {
        if (item.end < view.from || item.start > view.to) return;
        const left = Math.max(xOf(app, item.start), 0);
        const right = Math.min(xOf(app, item.end), size.width);
        context.fillStyle = at % 2 ? tones.band2 : tones.band;
        context.fillRect(left, y + 1, right - left, BAND - 2);
        if (right - left < 14) return;
        context.fillStyle = tones.line;
        if (left > 0) context.fillRect(left, y + 1, 1, BAND - 2);
        const full = label(item);
        const room = Math.floor((right - left - 8) / wide);
        const number = full.length > room && item.step !== null ? String(item.step) : "";
        if (room >= Math.min((number || full).length, 3)) {
          context.fillStyle = item.left_out ? tones.grey : tones.ink;
          const text = number ? tracekit.units.short(number, room) : labelIn(at, room);
          context.fillText(text, left + 4, y + BAND / 2 + 0.5);
        }
      });
    });
  }

  /** One frame of the plot. */
  function frame(app) {
    const context = app.dom.base.getContext("2d", { willReadFrequently: true });
    context.setTransform(1, 0, 0, 1, 0, 0);
    lanes(app, context);
    context.setTransform(app.size.scale, 0, 0, app.size.scale, 0, 0);
    context.font = FONT;
    context.lineWidth = 1;
    axis(app, context);
    bands(app, context);
    names(app, context);
    peaks(app, context);
    const { pinned, rest } = tops(app);
    context.fillStyle = app.colours.line;
    context.fillRect(0, pinned - 2, app.size.width, 1);
    if (rest > pinned) context.fillRect(0, rest - 3, app.size.width, 1);
  }

  tracekit.canvas = { FONT, colours, coloursOf, xOf, timeAt, tops, inSight, bar, frame };
})((globalThis.tracekit ??= {}));
