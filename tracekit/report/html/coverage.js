// How much of each pixel column a lane covers, and painting that share of the lane's height: ink is time, nothing else.
"use strict";
((tracekit) => {
  const { above, timeUntil } = tracekit.intervals;
  // By the kinds of classes; in a column they stand on each other in this order.
  const KINDS = ["compute", "collective", "memcpy", "memset", "host"];

  // A set of more intervals than this gets a grid of its time, so that wide columns need no search.
  const MANY = 8192;
  const GRID = 32768;
  // Columns of at least so many cells may end at the nearest one: that moves an edge by a sixteenth of a pixel at most.
  const FINE = 8;

  /** The time that `set` holds before each point of a grid over it, made when first asked for. */
  function gridOf(set) {
    if (set.grid === undefined) {
      const from = set.start[0];
      const cell = (set.end[set.length - 1] - from) / GRID;
      const until = new Float64Array(GRID + 1);
      for (let i = 0, k = 0; i <= GRID; i++) {
        k = above(set.end, from + i * cell, k);
        until[i] = timeUntil(set, from + i * cell, k);
      }
      set.grid = { from, cell, until };
    }
    return set.grid;
  }

  /** As `covered`, for columns that end at the nearest points of a grid: each has its own true share. */
  function coveredByGrid({ from: zero, cell, until }, from, step, columns, out, weight, pieces) {
    const last = until.length - 1;
    let left = Math.round((from - zero) / cell);
    for (let i = 0; i < columns; i++) {
      const right = Math.round((from + (i + 1) * step - zero) / cell);
      if (right > 0 && left < last) {
        const time = until[Math.min(right, last)] - until[Math.max(left, 0)];
        if (time > 0) {
          out[i] += time * weight * (step / ((right - left) * cell));
          pieces[i] = 2;
        }
      }
      left = right;
    }
  }

  /**
   * Adds to out[i] the time that `set` holds in column i of `columns`, [from + i step, from + (i + 1) step), and to
   * pieces[i] how many intervals that are, up to 2.
   */
  function covered(set, from, step, columns, out, weight = 1, pieces = null) {
    if (!set.length || !columns) return;
    let k = above(set.end, from);
    let i = 0;
    let ahead = 1;
    while (k < set.length && i < columns) {
      // Columns before the next interval hold nothing.
      if (set.start[k] >= from + (i + 1) * step) {
        i = Math.max(i + 1, Math.floor((set.start[k] - from) / step) - 1);
        while (i < columns && set.start[k] >= from + (i + 1) * step) i++;
        if (i >= columns) break;
      }
      const left = from + i * step;
      const right = from + (i + 1) * step;
      if (set.end[k] > right) {
        out[i] += (right - Math.max(left, set.start[k])) * weight;
        if (pieces !== null && pieces[i] < 2) pieces[i]++;
      } else {
        const next = above(set.end, right, k, k + ahead);
        ahead = next - k;
        out[i] += (timeUntil(set, right, next) - timeUntil(set, left, k)) * weight;
        if (pieces !== null) {
          const after = next < set.length && set.start[next] < right ? 1 : 0;
          pieces[i] = Math.min(2, pieces[i] + next - k + after);
        }
        k = next;
      }
      i++;
    }
  }

  /** As `covered`, fast where there are many intervals and wide columns. */
  function coveredFast(set, from, step, columns, out, weight, pieces) {
    const span = set.length > MANY ? set.end[set.length - 1] - set.start[0] : 0;
    const grid = span && (step * GRID) / span >= FINE ? gridOf(set) : null;
    if (grid) coveredByGrid(grid, from, step, columns, out, weight, pieces);
    else covered(set, from, step, columns, out, weight, pieces);
  }

  /** The kinds that a mask of classes has, as places in KINDS. */
  function kindsOf(classes, mask) {
    const kinds = new Set();
    for (let bit = 0; bit < classes.length; bit++) {
      if (Math.floor(mask / 2 ** bit) % 2 === 1) kinds.add(KINDS.indexOf(classes[bit][0]));
    }
    return [...kinds].toSorted((a, b) => a - b);
  }

  /**
   * The share of each column that each kind covers: arrays by kind; kinds that run at once share it. And `pieces`: 1
   * for columns in which just one interval of one kind is, 2 for more.
   */
  function shares(classes, cells, from, step, columns) {
    const kinds = KINDS.map(() => null);
    const pieces = new Uint8Array(columns);
    for (const { mask, set } of cells) {
      const [first, ...others] = kindsOf(classes, mask);
      const weight = 1 / (step * (1 + others.length));
      if (!others.length) coveredFast(set, from, step, columns, (kinds[first] ??= new Float64Array(columns)), weight, pieces);
      else {
        const part = new Float64Array(columns);
        coveredFast(set, from, step, columns, part, weight, pieces);
        for (let i = 0; i < columns; i++) if (part[i] > 0) pieces[i] = 2;
        for (const kind of [first, ...others]) {
          const sum = (kinds[kind] ??= new Float64Array(columns));
          for (let i = 0; i < columns; i++) sum[i] += part[i];
        }
      }
    }
    return { kinds, pieces };
  }

  /** One packed pixel with `share` of another colour over it; red and blue are mixed in one go. */
  function mixed(under, over, share) {
    const part = Math.round(share * 256);
    const rest = 256 - part;
    const outer = ((under & 0xff00ff) * rest + (over & 0xff00ff) * part) >>> 8;
    const inner = ((under >>> 8) & 255) * rest + ((over >>> 8) & 255) * part;
    return ((255 << 24) | (outer & 0xff00ff) | (inner & 0xff00)) >>> 0;
  }

  const FULL = 1 - 1e-9;
  // Every pattern repeats after this many pixels in both directions.
  const TILE = 60;
  /** Where the pattern of each kind has its second colour, so that kinds differ without their hue. */
  const PATTERNS = [
    null,
    (x, y) => (x + y) % 5 === 0,
    (x, y) => y % 4 === 1,
    (x, y) => (x % 3 === 0) === (y % 3 === 0),
    null,
  ].map(
    (second) =>
      second && Uint8Array.from({ length: TILE * TILE }, (_, at) => (second(at % TILE, Math.floor(at / TILE)) ? 1 : 0)),
  );

  /** What stands in a column from the foot up: {kind, share, less (share that stands elsewhere), full, second, match}. */
  function layersOf(parts, matches, colours) {
    const layers = [];
    const add = (kind, share, less, [full, second], match) => {
      if (share) layers.push({ kind, share, less, full: full[kind], second: second[kind], match });
    };
    const [bright, dim] = [
      [colours.full, colours.second],
      [colours.dim, colours.dim],
    ];
    if (matches) KINDS.forEach((_, kind) => add(kind, matches.kinds[kind], null, bright, true));
    KINDS.forEach((_, kind) =>
      add(kind, parts.kinds[kind], matches ? matches.kinds[kind] : null, matches ? dim : bright, false),
    );
    return layers;
  }

  /**
   * Paints the columns of one lane into `pixels` (32-bit, `width` a line), up from the line `foot`, `lines` for a full
   * column; only lines in `clip` change. The ink of a column is its share: in height, or in strength at the edges of
   * single intervals. What a search `matches` stands below in full colour, the rest is then dimmed. A column
   * that holds time but too little for half a line of ink gets a mark in the line `hint`, which is no ink of the
   * lane.
   */
  function paint(pixels, { width, foot, lines, hint, scale, clip }, parts, matches, colours) {
    // Lines count up from the foot; those outside the clip are left alone.
    const [lowest, highest] = [Math.max(0, foot - clip.last), foot - clip.first];
    const tile = Array.from({ length: lines }, (_, y) => (Math.floor(Math.max(foot - 1 - y, 0) / scale) % TILE) * TILE);
    const filled = new Float64Array(width);
    // 1 where a column holds time that does not match, 2 where it holds some that does.
    const marks = new Uint8Array(width);
    const { pieces } = parts;
    const column = new Uint8Array(width);
    for (let x = 0; x < width; x++) column[x] = Math.floor(x / scale) % TILE;
    // From which line to which a column is full of the layer's colour.
    const [from, to] = [new Int32Array(width), new Int32Array(width)];
    for (const { kind, share, less, full, second, match } of layersOf(parts, matches, colours)) {
      const pattern = PATTERNS[kind];
      const dab = (x, y, inked) => {
        if (y < lowest || y >= highest || inked <= 0) return;
        const at = (foot - 1 - y) * width + x;
        pixels[at] = mixed(pixels[at], pattern !== null && pattern[tile[y] + column[x]] ? second : full, inked);
      };
      for (let x = 0; x < width; x++) {
        const rest = less === null ? share[x] : share[x] - less[x];
        // A full column is full, whatever the last bit of a double says.
        const part = rest > FULL ? 1 : rest;
        from[x] = to[x] = 0;
        if (!(part > 0)) continue;
        marks[x] |= match ? 2 : 1;
        // The edge of a single interval is paler, of full height; what does not match counts as another piece.
        const whole = match ? rest === parts.kinds[kind][x] : less === null || less[x] === 0;
        if (pieces[x] === 1 && part < 1 && whole) {
          for (let y = 0; y < lines; y++) dab(x, y, part);
          filled[x] = part * lines;
          continue;
        }
        const base = filled[x];
        const top = (filled[x] = Math.min(base + part * lines, lines));
        from[x] = Math.ceil(base);
        to[x] = Math.floor(top);
        if (from[x] > to[x]) dab(x, to[x], top - base);
        else {
          dab(x, from[x] - 1, from[x] - base);
          if (to[x] < lines) dab(x, to[x], top - to[x]);
        }
      }
      // Up each column; many of one height beside each other, without a pattern, line by line in one go.
      for (let x = 0, next = 0; x < width; x = next) {
        next = x + 1;
        const low = Math.max(from[x], lowest);
        const high = Math.min(to[x], highest);
        if (low >= high) continue;
        const first = (foot - 1 - low) * width + x;
        if (pattern !== null) {
          for (let y = low, at = first; y < high; y++, at -= width) {
            pixels[at] = pattern[tile[y] + column[x]] ? second : full;
          }
          continue;
        }
        while (next < width && from[next] === from[x] && to[next] === to[x]) next++;
        if (next - x > 8) for (let y = low, at = first; y < high; y++, at -= width) pixels.fill(full, at, at + next - x);
        else {
          next = x + 1;
          for (let y = low, at = first; y < high; y++, at -= width) pixels[at] = full;
        }
      }
    }
    for (let x = 0; x < width; x++) {
      if (marks[x] < 2 && (marks[x] === 0 || filled[x] >= 0.5 * scale)) continue;
      for (let y = Math.max(hint, clip.first); y < Math.min(hint + scale, clip.last); y++) {
        pixels[y * width + x] = marks[x] < 2 ? colours.hint : colours.match;
      }
    }
  }

  tracekit.coverage = { KINDS, covered, kindsOf, shares, paint };
})((globalThis.tracekit ??= {}));
