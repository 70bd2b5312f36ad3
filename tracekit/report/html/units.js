// How figures and names read: as tracekit/units.py has it for every other face, which a test holds equal to this.
"use strict";
((tracekit) => {
  const TIMES = [
    ["ps", 1],
    ["ns", 1e3],
    ["µs", 1e6],
    ["ms", 1e9],
    ["s", 1e12],
  ];
  const BYTES = [
    ["B", 1],
    ["KiB", 2 ** 10],
    ["MiB", 2 ** 20],
    ["GiB", 2 ** 30],
    ["TiB", 2 ** 40],
  ];
  const PREFIXES = [
    ["", 1],
    ["k", 1e3],
    ["M", 1e6],
    ["G", 1e9],
    ["T", 1e12],
    ["P", 1e15],
  ];
  // How far apart the ticks of an axis may be, and how many digits they may have behind and before the point.
  const STEPS = Array.from({ length: 19 }, (_, power) => [1, 2, 5].map((digits) => digits * 10 ** power)).flat();
  const [MOST_DECIMALS, MOST_DIGITS] = [3, 5];
  // Of a shorter text than this only the beginning is kept: halves of it would say nothing.
  const LEAST_HALVES = 12;

  /** The nearest integer, of two the larger. */
  function nearest(value) {
    const low = Math.floor(value);
    return low + (value - low >= 0.5 ? 1 : 0);
  }

  /** An integer of so many digits behind the point. */
  function point(number, decimals) {
    const digits = String(number).padStart(decimals + 1, "0");
    return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
  }

  /** Picoseconds in the unit that fits, with two digits behind the point up to 100 of it and one beyond: 12.35 ms. */
  function time(ps) {
    const sign = ps < 0 ? "-" : "";
    const length = Math.abs(ps);
    if (nearest(length) < 1000) return `${nearest(length) ? sign : ""}${nearest(length)} ps`;
    for (const [symbol, size] of TIMES.slice(1)) {
      const decimals = nearest(length / (size / 100)) < 10_000 ? 2 : 1;
      const number = nearest(length / (size / 10 ** decimals));
      if (number < 1000 * 10 ** decimals || symbol === "s") return `${sign}${point(number, decimals)} ${symbol}`;
    }
  }

  /** The largest unit of time that is no longer than a length: [picoseconds, symbol]. */
  function timeUnit(length) {
    const [symbol, size] = TIMES.findLast((each) => each[1] <= length) ?? TIMES[0];
    return [size, symbol];
  }

  /**
   * How the ticks of an axis of time are told that shows a length up to a largest time, about `most` of them: [their
   * distance, picoseconds of their unit, its symbol, digits behind the point, whether times themselves fit].
   */
  function timeScale(length, largest, most) {
    let step = STEPS.find((each) => (length - (length % each)) / each < most);
    if (step > length) step = STEPS.findLast((each) => each <= length) ?? 1;
    let scale;
    for (const [size, symbol] of [timeUnit(Math.max(largest, 1)), timeUnit(Math.max(length, 1))]) {
      const decimals = [...Array(13).keys()].find((digits) => (step * 10 ** digits) % size === 0);
      const fits = decimals <= MOST_DECIMALS && largest / size < 10 ** MOST_DIGITS;
      scale = [step, size, symbol, decimals, fits];
      if (fits) break;
    }
    return scale;
  }

  /** Picoseconds in units of `size` ps, with so many digits behind the point and no unit. */
  function decimal(ps, size, decimals) {
    return ((ps || 0) / size).toFixed(decimals); // -0 would keep its sign
  }

  /** A BigInt of picoseconds with every digit, in the largest unit in which they have a whole part: 1.250000001 s. */
  function exact(ps) {
    if (ps === 0n) return "0 s";
    const length = ps < 0n ? -ps : ps;
    const [symbol, size] = TIMES.findLast((each) => BigInt(each[1]) <= length) ?? TIMES[0];
    const digits = String(size).length - 1;
    const rest = String(length % BigInt(size)).padStart(digits, "0");
    const behind = digits ? rest.replace(/0+$/, "") : "";
    return `${ps < 0n ? "-" : ""}${length / BigInt(size)}${behind && `.${behind}`} ${symbol}`;
  }

  /** A part of a whole as a percentage that says 0 or 100 only where it is exactly that; a dash if there is no whole. */
  function percent(part, whole = 1) {
    if (!whole) return "-";
    if (part === 0 || part === whole) return part ? "100 %" : "0 %";
    const ratio = part / whole;
    if (ratio > 0 && ratio < 0.001) return "<0.1 %";
    if (ratio > 0.999 && part < whole) return ">99.9 %";
    return `${ratio < 0 ? "-" : ""}${point(nearest(Math.abs(ratio) * 1000), 1)} %`;
  }

  /** Three digits, or more where there are more before the point. */
  function threeDigits(value) {
    const decimals = [2, 1].find((digits) => nearest(value * 10 ** digits) < 1000) ?? 0;
    const number = nearest(value * 10 ** decimals);
    return decimals ? point(number, decimals) : String(number);
  }

  /** Bytes in powers of 1024, as buffers have them, with three digits where they are no whole number: 64 MiB. */
  function size(value) {
    for (const [symbol, of] of BYTES) {
      const number = value % of === 0 ? String(value / of) : threeDigits(value / of);
      if (Number(number) < 1024 || symbol === "TiB") return `${number} ${symbol}`;
    }
  }

  /** A rate in powers of 1000, as datasheets have them, with three digits: 26.8 GB/s for the `unit` B/s. */
  function rate(perSecond, unit) {
    for (const [prefix, of] of PREFIXES) {
      const number = threeDigits(perSecond / of);
      if (Number(number) < 1000 || prefix === "P") return `${number} ${prefix}${unit}`;
    }
  }

  /** A count with its thousands apart: 1,234. */
  function count(number) {
    return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
  }

  /** A name of at most `most` characters, without its middle: templates of one kernel differ at both ends. */
  function short(name, most) {
    const text = name.split(/[ \t-\r]+/).filter(Boolean).join(" ").replace(/^void /, "");
    if (text.length <= most) return text;
    const letters = [...text];
    if (letters.length <= most) return text;
    const tail = most >= LEAST_HALVES ? most - Math.floor(most / 2) - 1 : 0;
    return `${letters.slice(0, most - 1 - tail).join("")}…${letters.slice(letters.length - tail).join("")}`;
  }

  tracekit.units = { time, timeUnit, timeScale, decimal, exact, percent, size, rate, count, short };
})((globalThis.tracekit ??= {}));
