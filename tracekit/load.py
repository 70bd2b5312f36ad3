"""Read a trace as a command asks for it: the run it names, and the user's own rules for what an operation is."""

from dataclasses import replace
from pathlib import Path

from tracekit.readers import read
from tracekit.trace import Trace
from tracekit.vocabulary import rules


def load(path: Path, run: str | None = None, kinds: Path | None = None) -> Trace:
    """The trace at `path` with the rules in the file `kinds` applied; a mistake in the rules is told before reading."""
    own = rules.read(kinds) if kinds else ()
    trace = read(path, run)
    if not own:
        return trace
    notes = (*trace.notes, *rules.unused(trace.events, own))
    return replace(trace, events=rules.apply(trace.events, own), notes=notes)
