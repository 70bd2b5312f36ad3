"""The host's own slices: spans and launches, of which a profiler often records one call twice."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.trace import Trace

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class HostCalls:
    """n slices by thread, then start, the longest first; columns are (n,), times in ps.

    `threads` are pairs of host and thread, `names` the names. `span` and `launch` are places in `trace.spans` and
    `trace.launches`, -1 for none: a launch that stands among the spans too is one slice with both.
    """

    threads: list[tuple[str, str]]
    names: list[str]
    thread: Ints
    name: Ints
    start: Ints
    end: Ints
    span: Ints
    launch: Ints

    def __len__(self) -> int:
        return len(self.thread)

    def at(self, places: Ints) -> "HostCalls":
        """Some of the slices."""
        columns = (self.thread, self.name, self.start, self.end, self.span, self.launch)
        return HostCalls(self.threads, self.names, *(column[places] for column in columns))


def host_calls(trace: Trace) -> HostCalls:
    """The slices of `trace`. Of equal ones the k-th span and the k-th launch are one."""
    spans, launches = trace.spans, trace.launches
    host, hosts = _codes(spans["host"], launches["host"])
    line, lines = _codes(spans["thread"], launches["thread"])
    name, names = _codes(spans["name"], launches["name"])
    start, end = (
        np.concatenate([spans[column], launches[column]]).astype(np.int64) for column in ("start_ps", "end_ps")
    )
    used, thread = np.unique(host * max(len(lines), 1) + line, return_inverse=True)
    called = np.arange(len(start)) >= len(spans)
    order = np.lexsort((called, name, -end, start, thread))
    calls = HostCalls(
        [(hosts[one // len(lines)], lines[one % len(lines)]) for one in used.tolist()],
        names,
        thread,
        name,
        start,
        end,
        np.where(called, -1, np.arange(len(start))),
        np.where(called, np.arange(len(start)) - len(spans), -1),
    ).at(order)
    return _once(calls)


def _codes(*columns: pd.Series) -> tuple[Ints, list[str]]:
    """The codes of categorical columns without nulls, one after the other, and what they stand for."""
    known: dict[str, int] = {}
    codes = []
    for column in columns:
        place = [known.setdefault(str(label), len(known)) for label in column.cat.categories]
        codes.append(np.array(place, np.int64)[column.cat.codes.to_numpy()])
    return np.concatenate(codes), list(known)


def _once(calls: HostCalls) -> HostCalls:
    """Each launch that is a span too as one slice with it; equal slices stand beside each other, spans first."""
    same = np.ones(max(len(calls) - 1, 0), bool)
    for column in (calls.thread, calls.start, calls.end, calls.name):
        same &= column[1:] == column[:-1]
    first = np.append(True, ~same)[: len(calls)]
    group = np.cumsum(first) - 1
    called = calls.launch >= 0
    begins = np.flatnonzero(first)
    spans = np.bincount(group[~called], minlength=len(begins))
    partner = np.arange(len(calls)) - spans[group]
    pair = np.flatnonzero(called & (partner < begins[group] + spans[group]))
    launch = calls.launch.copy()
    launch[partner[pair]] = calls.launch[pair]
    kept = np.ones(len(calls), bool)
    kept[pair] = False
    joined = HostCalls(calls.threads, calls.names, calls.thread, calls.name, calls.start, calls.end, calls.span, launch)
    return joined.at(np.flatnonzero(kept))
