// How numbers are shown: times with the unit that fits, shares, bytes.
"use strict";
((tracekit) => {
  const UNITS = [
    [1e12, "s"],
    [1e9, "ms"],
    [1e6, "us"],
    [1e3, "ns"],
    [1, "ps"],
  ];

  /** `ps` picoseconds with three or more significant digits: 1.23 ms. */
  function time(ps) {
    for (const [size, unit] of UNITS.slice(0, 4)) {
      if (Math.abs(ps) >= size) {
        const value = ps / size;
        return `${value.toFixed(Math.abs(value) < 100 ? 2 : 1)} ${unit}`;
      }
    }
    return `${ps.toFixed(0)} ps`;
  }

  /** A BigInt of picoseconds with every digit that it has: 1.079639 ms. */
  function exact(ps) {
    const size = ps < 0n ? -ps : ps;
    const [unit, name] = UNITS.find(([each]) => size >= BigInt(each)) ?? UNITS[4];
    const whole = size / BigInt(unit);
    const digits = String(unit).length - 1;
    const rest = digits
      ? String(size % BigInt(unit))
          .padStart(digits, "0")
          .replace(/0+$/, "")
      : "";
    return `${ps < 0n ? "-" : ""}${grouped(whole)}${rest ? `.${rest}` : ""} ${name}`;
  }

  /** An integer with its thousands apart. */
  function grouped(value) {
    return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
  }

  /** `part` of `whole` as a percentage that says 0 or 100 only where it is exactly that; a dash if there is no whole. */
  function percent(part, whole) {
    if (!whole) return "–";
    const value = (100 * part) / whole;
    if (part > 0 && value < 0.1) return "<0.1 %";
    if (part < whole && value > 99.9) return ">99.9 %";
    return `${part === 0 || part === whole ? value.toFixed(0) : value.toFixed(1)} %`;
  }

  /** A number of bytes: 4.19 MB (decimal, as GB/s are). */
  function bytes(count) {
    for (const [size, unit] of [
      [1e12, "TB"],
      [1e9, "GB"],
      [1e6, "MB"],
      [1e3, "kB"],
    ]) {
      if (count >= size) return `${(count / size).toPrecision(3)} ${unit}`;
    }
    return `${count} B`;
  }

  /** Steps of a time axis: at least `least` apart, 1, 2 or 5 times a power of ten. */
  function tick(least) {
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= least * (1 - 1e-9));
  }

  tracekit.units = { UNITS, time, exact, grouped, percent, bytes, tick };
})((globalThis.tracekit ??= {}));
