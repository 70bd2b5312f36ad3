"""What the host's threads did, and what they and the lanes of devices waited for, as far as the trace proves it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import distinct
from tracekit.intervals import Intervals
from tracekit.timeline.rows import CODE
from tracekit.timeline.timeline import Timeline
from tracekit.vocabulary.host_calls import Activity, activity_of, calls_program
from tracekit.vocabulary.kinds import Kind

# Host, process ("" where it is not told) and name of a thread.
Thread = tuple[str, str, str]


@dataclass(frozen=True)
class HostActivity:
    """What the host's threads did while devices stood idle: the `times` of each activity by thread, which thread calls
    a host's programs, and when each thread was `blocked` for a device (`blocked_times`)."""

    times: Mapping[Thread, Mapping[Activity, Intervals]]
    dispatchers: Mapping[str, Thread]
    blocked: Mapping[int, Mapping[Thread, tuple[Intervals, Intervals]]]


def host_activity(timeline: Timeline) -> HostActivity:
    """What the host's threads did."""
    rows, launch, trace = timeline.rows, timeline.launch, timeline.trace
    copies = np.flatnonzero((rows.kind == CODE[Kind.MEMCPY]) & (launch >= 0))
    copies = copies[trace.launches["end_ps"].to_numpy()[launch[copies]] >= rows.end[copies]]
    blocked = {
        device: blocked_times(timeline, device, copies) for device, is_placed in enumerate(rows.placed) if is_placed
    }
    return HostActivity(activity_times(trace.spans), dispatchers(trace.spans), blocked)


def activity_times(spans: pd.DataFrame) -> Mapping[Thread, Mapping[Activity, Intervals]]:
    """The times, merged, at which each thread was inside a span that proves what it did; `spans` as SPAN_COLUMNS."""
    of_name = [activity_of(str(name)) for name in spans["name"].cat.categories]
    kinds = np.array([-1 if activity is None else list(Activity).index(activity) for activity in of_name] or [-1])
    kind = kinds[spans["name"].cat.codes.to_numpy()]
    times_of: dict[Thread, dict[Activity, Intervals]] = {}
    for code, activity in enumerate(Activity):
        for thread, times in _by_thread(spans, np.flatnonzero(kind == code)).items():
            times_of.setdefault(thread, {})[activity] = times
    return times_of


def dispatchers(spans: pd.DataFrame) -> dict[str, Thread]:
    """By host: the thread that called the jitted functions, where only one thread did."""
    calls = np.array([calls_program(str(name)) for name in spans["name"].cat.categories] or [False])
    threads = list(_by_thread(spans, np.flatnonzero(calls[spans["name"].cat.codes.to_numpy()])))
    hosts = [host for host, _, _ in threads]
    return {thread[0]: thread for thread in threads if hosts.count(thread[0]) == 1}


def blocked_times(
    timeline: Timeline, device: int, copies: NDArray[np.int64]
) -> dict[Thread, tuple[Intervals, Intervals]]:
    """By thread of a device's host: when it stood in a call that waited for a copy, and in one that waited for a
    collective or another device; both merged.

    Such a call is a synchronising one that began before the awaited work ended, which is a copy, a collective, or any
    work of another device; or the call that started a copy, if it returned after the copy's end: that is one of the
    rows `copies`. Computing of the device itself is none: when it is done, that the device idles is the host's doing.
    """
    rows, trace = timeline.rows, timeline.trace
    on_same_clock, host = rows.same_clock(device), rows.hosts[device]
    waits = np.flatnonzero((timeline.syncs.awaited >= 0) & trace.syncs["device"].isna().to_numpy(bool))
    awaited = timeline.syncs.awaited[waits]
    is_blocked = on_same_clock[rows.device[awaited]] & (trace.syncs["start_ps"].to_numpy()[waits] < rows.end[awaited])
    waits, awaited = waits[is_blocked], awaited[is_blocked]
    kind, own_work = rows.kind[awaited], rows.device[awaited] == device
    copy = kind == CODE[Kind.MEMCPY]
    other_work = ~copy & (~own_work | (kind == CODE[Kind.COLLECTIVE]))
    calls = timeline.launch[copies[on_same_clock[rows.device[copies]]]]
    for_copies = [_of_host(trace.syncs, waits[copy], host), _of_host(trace.launches, calls, host)]
    for_others = _of_host(trace.syncs, waits[other_work], host)
    threads = sorted({thread for times_by_thread in (*for_copies, for_others) for thread in times_by_thread})
    return {
        thread: (
            iv.union(*(times_by_thread.get(thread, iv.EMPTY) for times_by_thread in for_copies)),
            for_others.get(thread, iv.EMPTY),
        )
        for thread in threads
    }


def _of_host(calls: pd.DataFrame, places: NDArray[np.int64], host: str) -> Mapping[Thread, Intervals]:
    """By thread of a host: when it stood in one of the calls in `places`, merged."""
    is_host = np.array([*(str(name) == host for name in calls["host"].cat.categories), False])
    places = places[is_host[calls["host"].cat.codes.to_numpy()[places]]]
    return _by_thread(calls, places)


def _by_thread(table: pd.DataFrame, places: NDArray[np.int64]) -> dict[Thread, Intervals]:
    """The times of the rows `places` of a frame, merged, by thread."""
    if len(places) == 0:
        return {}
    key, first = distinct(*(table[column].cat.codes.to_numpy()[places] for column in ("host", "process", "thread")))
    order = np.argsort(key, kind="stable")
    heads = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    spans = iv.intervals(*(table[edge].to_numpy()[places[order]] for edge in ("start_ps", "end_ps")))
    times = [iv.union(part) for part in np.split(spans, heads[1:])]
    return dict(zip(threads_of(table, places[first]), times, strict=True))


def threads_of(table: pd.DataFrame, places: NDArray[np.int64]) -> list[Thread]:
    """The threads of the rows `places` of a table of calls or spans."""
    labels = (table[column].astype(object).to_numpy()[places].tolist() for column in ("host", "process", "thread"))
    return [
        (str(host), "" if pd.isna(process) else str(process), str(thread))
        for host, process, thread in zip(*labels, strict=True)
    ]
