// Names in little room: of names that are much alike, each keeps what distinguishes it from the others.
"use strict";
((tracekit) => {
  const WORDS = /\p{L}+|\p{N}+/gu;
  const IDENTIFIER = /[\p{L}\p{N}_]*$/u;
  // What every kernel of a library has: namespaces before its name, and its arguments behind.
  const NAMESPACES = /^(?:\w+::|\(anonymous namespace\)::)+/;
  // How much a number says, of what a word says that as few names have.
  const WORTH = 0.7;
  // With less room than this there is no room for its beginning too.
  const LEAST_HALVES = 12;

  /** A name without namespaces and arguments of C++. */
  function bare(name) {
    const text = tracekit.units.short(name, Infinity).replace(NAMESPACES, "");
    let depth = 0;
    for (let at = text.length - 1; at > 0; at--) {
      depth += text[at] === ")" ? 1 : text[at] === "(" ? -1 : 0;
      if (depth === 0) return text.endsWith(")") && /[\w>]/.test(text[at - 1]) ? text.slice(0, at) : text;
    }
    return text;
  }

  /** In how many of the names each word occurs. */
  function occurrences(names) {
    const count = new Map();
    for (const name of names) {
      for (const word of new Set(name.match(WORDS))) count.set(word, (count.get(word) ?? 0) + 1);
    }
    return count;
  }

  /** Where the word of a name that tells it best from all names begins and ends: one that few have. */
  function telling(name, count, all) {
    let best = { from: 0, to: 0, bits: -1 };
    for (const { 0: word, index } of name.matchAll(WORDS)) {
      const bits = Math.log2(all / count.get(word)) * (/^\p{N}/u.test(word) ? WORTH : 1);
      if (bits > best.bits) best = { from: index, to: index + word.length, bits };
    }
    return best;
  }

  /** `name` in `room` letters, fewer than it has, with the word at [from, to). */
  function around(name, { from, to }, room) {
    const halves = room >= LEAST_HALVES;
    const head = halves ? Math.floor(room / 2) : 0;
    const tail = room - head - 1;
    if (to <= head || name.length - from <= tail) return `${name.slice(0, head)}…${name.slice(-tail)}`;
    // Another sign of what is cut behind it would cost a letter of what is left.
    const more = halves ? "…" : "";
    const start = Math.max(head - more.length, 0);
    const space = room - start - 1 - more.length;
    const identifier = from - IDENTIFIER.exec(name.slice(0, from))[0].length;
    const begin = to - identifier <= space ? identifier : from;
    if (begin <= start + 1) return `${name.slice(0, room - 1)}…`;
    return `${name.slice(0, start)}…${name.slice(begin, begin + space)}${more}`;
  }

  /**
   * A function of a place in `names` and the room in letters: that name, no longer than the room. Names too long for it
   * are first `trimmed`.
   */
  function labels(names, trimmed = (name) => name) {
    const known = new Map();
    let shorter = null;
    let count = null;
    return (place, room) => {
      const name = names[place];
      // Letters of two code units are not to be cut.
      if (name.length <= room || /[\ud800-\udfff]/.test(name)) return tracekit.units.short(name, room);
      const key = `${place} ${room}`;
      if (!known.has(key)) {
        shorter ??= names.map(trimmed);
        count ??= occurrences(shorter);
        const text = shorter[place];
        known.set(key, text.length <= room ? text : around(text, telling(text, count, names.length), room));
      }
      return known.get(key);
    };
  }

  tracekit.labels = { bare, labels };
})((globalThis.tracekit ??= {}));
