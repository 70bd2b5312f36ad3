"""The threads of hosts with their spans and launches, which point at the rows of devices that they started."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.export import track_events, tracks
from tracekit.export.host_calls import HostCalls, host_calls
from tracekit.export.nesting import nested
from tracekit.export.protobuf import Ints
from tracekit.export.timeline import Timeline
from tracekit.export.track_events import Slices
from tracekit.export.tracks import Part

_PHASE, _STEP, _LAUNCH = 1, 2, 4
_TEXTS = ("alone", "baseline")


def threads(timeline: Timeline, clock: str, processes: Mapping[str, int], uuids: Iterator[int]) -> Part:
    """The threads of the hosts on one clock; `processes` are those hosts with their pids.

    Slices of one thread that overlap without nesting stand on further tracks beside it, named `<thread> (2)` and so on.
    """
    calls = host_calls(timeline.trace)
    here = np.array([host in processes for host, _ in calls.threads], bool)
    calls = calls.at(np.flatnonzero(here[calls.thread]) if len(calls) else calls.thread)
    layer, order = nested(calls.thread, calls.start, calls.end)
    made = [tracks.process(next(uuids), pid, host) for host, pid in processes.items()]
    pairs, place = np.unique(calls.thread * (int(layer.max(initial=0)) + 1) + layer, return_inverse=True)
    uuid: list[int] = []
    tids = iter(range(len(processes) + 1, 2**31))
    for pair in pairs.tolist():
        thread, beside = divmod(pair, int(layer.max(initial=0)) + 1)
        host, name = calls.threads[thread]
        if beside == 0:
            own = next(uuids)
            uuid.append(own)
            made.append(tracks.thread(own, processes[host], next(tids), name))
        else:
            uuid.append(next(uuids))
            made.append(tracks.track(uuid[-1], f"{name} ({beside + 1})", own))
    return Part(b"".join(made), _slices(timeline, calls, order, np.array(uuid, np.int64)[place]), calls.names)


def _slices(timeline: Timeline, calls: HostCalls, order: Ints, track: Ints) -> Slices:
    spans, launches = timeline.trace.spans, timeline.trace.launches
    step, has_step = _numbers(spans["step"], calls.span)
    correlation, called = _numbers(launches["correlation_id"], calls.launch)
    is_phase = _codes(spans["tracekit"], calls.span) >= 0
    bits = _PHASE * is_phase + _STEP * has_step + _LAUNCH * (calls.launch >= 0)
    first, started = _started(timeline, calls.launch)
    return Slices(
        order=order,
        track=track,
        name=calls.name,
        start=calls.start,
        end=calls.end,
        category=np.where(calls.span < 0, 8, bits),
        categories=[*map(_categories, range(8)), track_events.categories("launch")],
        numbers={"step": (step, has_step), "correlation_id": (correlation, called)},
        texts=[
            (
                [track_events.text(key, str(label)) for label in spans[key].cat.categories],
                _codes(spans[key], calls.span),
            )
            for key in _TEXTS
        ],
        first=first,
        started=started,
    )


def _categories(bits: int) -> bytes:
    of = {_PHASE: "phase", _STEP: "step", _LAUNCH: "launch"}
    return track_events.categories("span", *(label for bit, label in of.items() if bits & bit))


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
