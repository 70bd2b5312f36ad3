// What a search matches: a regular expression where its text is /…/ (with flags), else any part, whatever its case.
"use strict";
((tracekit) => {
  /** A test of names; throws where the text is no regular expression. */
  function matcher(text) {
    const pattern = /^\/(.+)\/([imsu]*)$/s.exec(text);
    if (pattern) {
      const expression = new RegExp(pattern[1], pattern[2]);
      return (name) => expression.test(name);
    }
    const part = text.toLowerCase();
    return (name) => name.toLowerCase().includes(part);
  }

  tracekit.matcher = matcher;
})((globalThis.tracekit ??= {}));
