"""The slices of host threads: spans and launches, which point at the rows of devices that they started.

A profiler often records one call as both, so a launch that stands among the spans too is one slice.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.export.protobuf_encoder import Ints
from tracekit.export.tracks import (
    ClockDomain,
    Slices,
    TrackGroup,
    category_field,
    named_track,
    nested,
    process_track,
    text_field,
    thread_track,
)
from tracekit.timeline.timeline import Timeline
from tracekit.trace import Trace

_PHASE, _STEP, _LAUNCH = 1, 2, 4
_TEXTS = ("alone", "baseline")


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


def host_slices(domain: ClockDomain) -> TrackGroup:
    """The threads of the hosts on one clock, with their slices.

    Slices of one thread that overlap without nesting stand on further tracks beside it, named `<thread> (2)` and so on.
    """
    calls, uuids, processes = host_calls(domain.timeline.trace), domain.uuids, domain.processes
    here = np.array([host in processes for host, _ in calls.threads], bool)
    calls = calls.at(np.flatnonzero(here[calls.thread]) if len(calls) else calls.thread)
    layer, order = nested(calls.thread, calls.start, calls.end)
    tracks = [process_track(next(uuids), pid, host) for host, pid in processes.items()]
    layers = int(layer.max(initial=0)) + 1
    pairs, place = np.unique(calls.thread * layers + layer, return_inverse=True)
    uuid: list[int] = []
    tids = iter(range(len(processes) + 1, 2**31))
    for pair in pairs.tolist():
        thread, beside = divmod(pair, layers)
        host, name = calls.threads[thread]
        uuid.append(next(uuids))
        if beside == 0:
            own = uuid[-1]
            tracks.append(thread_track(own, processes[host], next(tids), name))
        else:
            tracks.append(named_track(uuid[-1], f"{name} ({beside + 1})", own))
    slices = _slices(domain.timeline, calls, order, np.array(uuid, np.int64)[place])
    return TrackGroup(b"".join(tracks), slices, calls.names)


def host_calls(trace: Trace) -> HostCalls:
    """The slices of `trace`. Of equal ones the k-th span and the k-th launch are one."""
    spans, launches = trace.spans, trace.launches
    host, hosts = _shared_codes(spans["host"], launches["host"])
    line, lines = _shared_codes(spans["thread"], launches["thread"])
    name, names = _shared_codes(spans["name"], launches["name"])
    start, end = (
        np.concatenate([spans[column], launches[column]]).astype(np.int64) for column in ("start_ps", "end_ps")
    )
    used, thread = np.unique(host * max(len(lines), 1) + line, return_inverse=True)
    is_launch = np.arange(len(start)) >= len(spans)
    order = np.lexsort((is_launch, name, -end, start, thread))
    calls = HostCalls(
        [(hosts[pair // len(lines)], lines[pair % len(lines)]) for pair in used.tolist()],
        names,
        thread,
        name,
        start,
        end,
        np.where(is_launch, -1, np.arange(len(start))),
        np.where(is_launch, np.arange(len(start)) - len(spans), -1),
    ).at(order)
    return _paired(calls)


def _shared_codes(*columns: pd.Series) -> tuple[Ints, list[str]]:
    """The codes of categorical columns without nulls, one after the other, and what they stand for."""
    known: dict[str, int] = {}
    codes = []
    for column in columns:
        place = [known.setdefault(str(label), len(known)) for label in column.cat.categories]
        codes.append(np.array(place, np.int64)[column.cat.codes.to_numpy()])
    return np.concatenate(codes), list(known)


def _paired(calls: HostCalls) -> HostCalls:
    """Each launch that is a span too as one slice with it; equal slices stand beside each other, spans first."""
    same = np.ones(max(len(calls) - 1, 0), bool)
    for column in (calls.thread, calls.start, calls.end, calls.name):
        same &= column[1:] == column[:-1]
    first = np.append(True, ~same)[: len(calls)]
    group = np.cumsum(first) - 1
    is_launch = calls.launch >= 0
    begins = np.flatnonzero(first)
    spans = np.bincount(group[~is_launch], minlength=len(begins))
    partner = np.arange(len(calls)) - spans[group]
    pair = np.flatnonzero(is_launch & (partner < begins[group] + spans[group]))
    launch = calls.launch.copy()
    launch[partner[pair]] = calls.launch[pair]
    kept = np.ones(len(calls), bool)
    kept[pair] = False
    paired = HostCalls(calls.threads, calls.names, calls.thread, calls.name, calls.start, calls.end, calls.span, launch)
    return paired.at(np.flatnonzero(kept))


def _slices(timeline: Timeline, calls: HostCalls, order: Ints, track: Ints) -> Slices:
    spans, launches = timeline.trace.spans, timeline.trace.launches
    step, has_step = _numbers(spans["step"], calls.span)
    is_phase = _codes(spans["tracekit"], calls.span) >= 0
    bits = _PHASE * is_phase + _STEP * has_step + _LAUNCH * (calls.launch >= 0)
    first, started = _started(timeline, calls.launch)
    texts = []
    for key in _TEXTS:
        fields = [text_field(key, str(label)) for label in spans[key].cat.categories]
        texts.append((fields, _codes(spans[key], calls.span)))
    return Slices(
        order=order,
        track=track,
        name=calls.name,
        start=calls.start,
        end=calls.end,
        category=np.where(calls.span < 0, 8, bits),
        categories=[*map(_span_categories, range(8)), category_field("launch")],
        numbers={
            "step": (step, has_step),
            "correlation_id": _numbers(launches["correlation_id"], calls.launch),
        },
        texts=texts,
        first=first,
        started=started,
    )


def _span_categories(bits: int) -> bytes:
    of = {_PHASE: "phase", _STEP: "step", _LAUNCH: "launch"}
    return category_field("span", *(label for bit, label in of.items() if bits & bit))


def _numbers(column: pd.Series, at: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """The values of an Int64 column at some places, -1 for none; and which are known."""
    values = np.append(column.to_numpy(np.int64, na_value=0), 0)
    return values[at], np.append(column.notna().to_numpy(bool), False)[at]


def _codes(column: pd.Series, at: Ints) -> Ints:
    return np.append(column.cat.codes.to_numpy(), -1).astype(np.int64)[at]


def _started(timeline: Timeline, launch: Ints) -> tuple[Ints, Ints]:
    """The event ids of the rows that each of some launches (n,) started, one launch after the other, and where those
    of each begin, (n + 1,)."""
    of_row = timeline.launch
    rows = np.flatnonzero(of_row >= 0)
    rows = rows[np.argsort(of_row[rows], kind="stable")]
    count = np.append(np.bincount(of_row[rows], minlength=len(timeline.trace.launches)), 0)
    begin = np.cumsum(count) - count
    mine = count[launch]
    ends = np.cumsum(mine)
    at = np.repeat(begin[launch] - ends + mine, mine) + np.arange(int(mine.sum()))
    return np.append(0, ends), timeline.rows.at[rows[at]] + 1
