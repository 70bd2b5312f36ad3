// Names in little room, as tracekit/labels.py has it for every other face, which a test holds equal to this: of names
// that are much alike, each keeps what distinguishes it from the others.
"use strict";
((tracekit) => {
  const WORDS = /\p{L}+|\p{N}+/gu;
  const IDENTIFIER = /[\p{L}\p{N}_]*$/u;
  // What every kernel of a library has: namespaces before its name, and its arguments behind.
  const NAMESPACES = /^(?:\w+::|\(anonymous namespace\)::|<unnamed>::)+/;
  // How much a number says, of what a word says that as few names have.
  const WORTH = 0.7;
  // With less room than this there is no room for its beginning too, or none for a second word.
  const [LEAST_HALVES, LEAST_TWO] = [12, 16];

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

  /** How often each word occurs in sets of words. */
  function occurrences(sets) {
    const count = new Map();
    for (const words of sets) for (const word of words) count.set(word, (count.get(word) ?? 0) + 1);
    return count;
  }

  /** Where the word of a name begins and ends that says most: one that few of `all` names have; null if all have all. */
  function rarest(name, count, all) {
    let best = null;
    for (const { 0: text, index } of name.matchAll(WORDS)) {
      const bits = Math.log2(all / count.get(text)) * (/^\p{N}/u.test(text) ? WORTH : 1);
      if (bits > (best?.bits ?? 0)) best = { text, from: index, to: index + text.length, bits };
    }
    return best;
  }

  /** The word of a name at whose place fewest of those that are `alike` have the same one, and how many; null if all. */
  function placed(name, alike) {
    const others = alike.map((other) => other.match(WORDS) ?? []);
    let best = null;
    let at = 0;
    for (const { 0: text, index } of name.matchAll(WORDS)) {
      const same = others.filter((words) => words[at] === text).length;
      if (same < (best?.same ?? alike.length)) best = { text, from: index, to: index + text.length, same };
      at++;
    }
    return best;
  }

  /**
   * A function of a name: the word of it that fewest names have, none if all have the same; and where several have it, one
   * that tells it from these, or where all of it does not, one that stands where theirs are others.
   */
  function telling(names) {
    const sets = names.map((name) => new Set(name.match(WORDS)));
    const count = occurrences(sets);
    return (name) => {
      const first = rarest(name, count, names.length);
      const alike = names.flatMap((other, at) =>
        other !== name && (!first || sets[at].has(first.text)) ? [[other, sets[at]]] : [],
      );
      const others = alike.map(([other]) => other);
      if (!first) {
        const place = placed(name, others);
        return place ? [place] : [];
      }
      if (!alike.length) return [first];
      const among = occurrences([...alike.map(([, words]) => words), new Set(name.match(WORDS))]);
      let second = rarest(name, among, alike.length + 1);
      const left = second ? among.get(second.text) - 1 : alike.length;
      const place = left ? placed(name, others) : null;
      if (place && place.same < left) second = place;
      return second && second.from !== first.from ? [first, second] : [first];
    };
  }

  /** `name` in `room` letters, fewer than it has, with the word at [from, to). */
  function around(name, { from, to }, room) {
    const halves = room >= LEAST_HALVES;
    const head = halves ? Math.floor(room / 2) : 0;
    const tail = room - head - 1;
    if (to <= head || name.length - from <= tail) return `${name.slice(0, head)}…${name.slice(name.length - tail)}`;
    // Another sign of what is cut behind it would cost a letter of what is left.
    const more = halves ? "…" : "";
    const start = Math.max(head - more.length, 0);
    const space = room - start - 1 - more.length;
    const identifier = from - IDENTIFIER.exec(name.slice(0, from))[0].length;
    const begin = to - identifier <= space ? identifier : from;
    if (begin <= start + 1) return `${name.slice(0, room - 1)}…`;
    return `${name.slice(0, start)}…${name.slice(begin, begin + space)}${more}`;
  }

  /** `name` in `room` letters, fewer than it has, with the first of its telling words, and the second if there is room. */
  function label(name, [first, second], room) {
    if (!first) return tracekit.units.short(name, room);
    if (!second || room < LEAST_TWO) return around(name, first, room);
    const [before, behind] = [first, second].toSorted((a, b) => a.from - b.from);
    const to = Math.min(behind.to, behind.from + Math.floor(room / 4));
    const piece = `${name.slice(behind.from, to)}${to < name.length ? "…" : ""}`;
    const head = name.slice(0, behind.from);
    const space = room - piece.length;
    return `${head.length <= space ? head : around(head, before, space)}${piece}`;
  }

  /**
   * A function of a place in `names` and the room in letters: that name, no longer than the room. Names too long for it
   * are first `trimmed`.
   */
  function labels(names, trimmed = (name) => name) {
    const known = new Map();
    const words = new Map();
    let shorter = null;
    let tellingOf = null;
    return (place, room) => {
      const name = names[place];
      // Letters of two code units are not to be cut.
      if (name.length <= room || /[\ud800-\udfff]/.test(name)) return tracekit.units.short(name, room);
      const key = `${place} ${room}`;
      if (!known.has(key)) {
        shorter ??= names.map(trimmed);
        tellingOf ??= telling(shorter);
        const text = shorter[place];
        if (!words.has(place)) words.set(place, tellingOf(text));
        known.set(key, text.length <= room ? text : label(text, words.get(place), room));
      }
      return known.get(key);
    };
  }

  tracekit.labels = { bare, labels };
})((globalThis.tracekit ??= {}));
