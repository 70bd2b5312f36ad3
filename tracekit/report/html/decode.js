// The payload's columns back into numbers. Times are doubles that hold integers below 2^53; no bit operator touches them.
"use strict";
((tracekit) => {
  /** Bytes of base64 text. */
  function bytesOf(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const plain = atob(text);
    const bytes = new Uint8Array(plain.length);
    for (let i = 0; i < plain.length; i++) bytes[i] = plain.charCodeAt(i);
    return bytes;
  }

  /** What zlib-compressed `bytes` hold. */
  async function inflate(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  /** Byte planes, lowest first, as doubles: each plane adds its byte times a power of 256. */
  function numbers(bytes, { length, planes, signed }) {
    const values = new Float64Array(length);
    // The lowest planes in one pass: adding a plane to what stands there takes longer.
    const [second, third] = [length, 2 * length];
    if (planes === 1) values.set(bytes);
    else if (planes === 2) {
      for (let i = 0; i < length; i++) values[i] = bytes[i] + bytes[second + i] * 256;
    } else if (planes > 2) {
      for (let i = 0; i < length; i++) values[i] = bytes[i] + bytes[second + i] * 256 + bytes[third + i] * 65536;
    }
    for (let plane = 3; plane < planes; plane++) {
      const weight = 256 ** plane;
      for (let i = 0, at = plane * length; i < length; i++) values[i] += bytes[at + i] * weight;
    }
    // The lowest bit of a signed number is its sign: 2 x, or -2 x - 1 below zero. The lowest byte has that bit.
    if (signed) for (let i = 0; i < length; i++) values[i] = bytes[i] % 2 ? -(values[i] + 1) / 2 : values[i] / 2;
    return values;
  }

  /** Each difference to the number before, summed up; small integers (places in tables). */
  function summed(differences) {
    const sums = new Int32Array(differences.length);
    let last = 0;
    for (let i = 0; i < sums.length; i++) sums[i] = last += differences[i];
    return sums;
  }

  /** `column` with `values` at the places that `has` marks. */
  function spread(has, values, column) {
    for (let i = 0, next = 0; i < has.length; i++) if (has[i]) column[i] = values[next++];
    return column;
  }

  /** Start and end of every row: `gap` is how long after the end of the row before it in its lane a row starts. */
  function times(lanes, gap, duration) {
    const start = gap;
    const end = duration;
    let row = 0;
    for (const [, , rows] of lanes) {
      let before = 0;
      for (const last = row + rows; row < last; row++) {
        start[row] += before;
        end[row] += start[row];
        before = end[row];
      }
    }
    return { start, end };
  }

  /** The memory lanes with their steps: `time[i]` is that from which on `inUse[i]` bytes are in use. */
  function memory(lanes, { memory_time: times, memory_in_use: bytes }) {
    let first = 0;
    return lanes.map((lane) => {
      const last = first + lane.steps;
      const [time, inUse] = [times, bytes].map((column) => column.subarray(first, last));
      for (let i = 1; i < lane.steps; i++) {
        time[i] += time[i - 1];
        inUse[i] += inUse[i - 1];
      }
      first = last;
      return { ...lane, time, inUse };
    });
  }

  /** Whether this browser can read the page's data. */
  function able() {
    return typeof DecompressionStream === "function";
  }

  /**
   * The data of the timeline: the header's fields, and n rows as columns. `start`, `end` in units from time 0 of their
   * clock; `name`, `kind` are places in `names`, `classes`. Of the first `device_rows` rows: `bytes`, `wait` (NaN where
   * not known), `step`, `launch` (a row), `instance` (-1 for none).
   */
  async function load(root) {
    const header = JSON.parse(root.getElementById("timeline-header").textContent);
    const columns = {};
    await Promise.all(
      [...root.querySelectorAll("script[data-column]")].map(async (element) => {
        const bytes = await inflate(bytesOf(element.textContent));
        element.textContent = "";
        const name = element.dataset.column;
        const format = header.columns[name];
        columns[name] = format ? numbers(bytes, format) : JSON.parse(new TextDecoder().decode(bytes));
      }),
    );
    const { named } = columns;
    const rows = header.device_rows;
    return {
      ...header,
      ...named,
      unit: BigInt(header.unit_ps),
      unitPs: Number(header.unit_ps),
      ...times(named.lanes, columns.gap, columns.duration),
      memory: memory(named.memory, columns),
      name: new Int32Array(columns.name),
      kind: new Uint8Array(columns.kind),
      bytes: spread(columns.has_bytes, columns.bytes, new Float64Array(rows).fill(NaN)),
      wait: spread(columns.has_wait, columns.wait, new Float64Array(rows).fill(NaN)),
      step: summed(columns.step),
      launch: summed(columns.launch),
      instance: spread(columns.has_instance, summed(columns.instance), new Int32Array(rows).fill(-1)),
    };
  }

  tracekit.decode = { able, bytesOf, inflate, load, numbers };
})((globalThis.tracekit ??= {}));
