"""What the host's threads did, and what they and the lanes of devices waited for, as far as the trace proves it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import distinct
from tracekit.intervals import Intervals
from tracekit.timeline.rows import CODE
from tracekit.timeline.step_boundaries import compiler_spans
from tracekit.timeline.syncs import BRIEF_PS, CLOCKS_PS, WAKE_PS
from tracekit.timeline.timeline import Timeline
from tracekit.vocabulary.host_calls import Activity, activity_of, calls_program, says_waiting
from tracekit.vocabulary.kinds import Kind

# Host, process ("" where it is not told) and name of a thread.
Thread = tuple[str, str, str]


@dataclass(frozen=True)
class HostActivity:
    """What the host's threads did while devices stood idle: the `times` of each activity by thread, which thread calls
    a host's programs, when each thread was `blocked` for a device (`blocked_times`), and when it was in a wait of which
    it is not known what for (`unknown`)."""

    times: Mapping[Thread, Mapping[Activity, Intervals]]
    dispatchers: Mapping[str, Thread]
    blocked: Mapping[int, Mapping[Thread, tuple[Intervals, Intervals]]]
    unknown: Mapping[Thread, Intervals]


def host_activity(timeline: Timeline) -> HostActivity:
    """What the host's threads did."""
    rows, launch, trace = timeline.rows, timeline.launch, timeline.trace
    copies = np.flatnonzero((rows.kind == CODE[Kind.MEMCPY]) & (launch >= 0))
    copies = copies[trace.launches["end_ps"].to_numpy()[launch[copies]] >= rows.end[copies]]
    waits = np.flatnonzero((timeline.syncs.awaited >= 0) & trace.syncs["device"].isna().to_numpy(bool))
    waits_of = _by_host(trace.syncs, waits, waits)
    copies_of = _by_host(trace.launches, launch[copies], copies)
    none = np.zeros(0, np.int64)
    blocked = {
        device: blocked_times(timeline, device, waits_of.get(host, none), copies_of.get(host, none))
        for device, (is_placed, host) in enumerate(zip(rows.placed, rows.hosts, strict=True))
        if is_placed
    }
    unknown = unknown_waits(timeline)
    tables = (trace.launches, unknown.launches), (trace.syncs, unknown.syncs), (timeline.spans, unknown.spans)
    times: dict[Thread, list[Intervals]] = {}
    for table, (places, until) in tables:
        waits = iv.intervals(table["start_ps"].to_numpy()[places], until)
        for thread, own in _places_by_thread(table, places).items():
            times.setdefault(thread, []).append(waits[own])
    return HostActivity(
        activity_times(trace.spans),
        dispatchers(trace.spans),
        blocked,
        {thread: iv.union(*waits) for thread, waits in times.items()},
    )


# Places in a frame, and until when each of these waits may have been for something unknown, in ps; both (k,).
Waits = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class UnknownWaits:
    """The waits of threads of which the trace does not tell what for: `launches`, `syncs` and `spans`."""

    launches: Waits
    syncs: Waits
    spans: Waits


def unknown_waits(timeline: Timeline) -> UnknownWaits:
    """The waits of which it is not known what for.

    A span whose name says that it waits is none if its thread was in a wait inside of it that is known, or one so brief
    that it waited for nothing; nor is a call that is among the waits too. Where such a span ended promptly
    after a row of a device of its host, the time since is the thread's, whatever it waited for.
    """
    rows, trace, awaited = timeline.rows, timeline.trace, timeline.syncs.awaited
    sync_start, sync_end = (trace.syncs[edge].to_numpy() for edge in ("start_ps", "end_ps"))
    of_thread = trace.syncs["device"].isna().to_numpy(bool)
    ends_in_time = np.append(rows.end, 0)[awaited] - CLOCKS_PS <= sync_end
    has_cause = (awaited >= 0) & ends_in_time | (sync_end - sync_start <= BRIEF_PS)
    calls = np.flatnonzero(_says_waiting(trace.launches))
    calls = calls[~np.isin(trace.launches["start_ps"].to_numpy()[calls], sync_start)]
    calls = calls[~np.isin(calls, timeline.launch)] if len(calls) else calls
    spans = timeline.spans
    mark = spans["step"].notna().to_numpy(bool) | spans["tracekit"].notna().to_numpy(bool)
    waiting = np.flatnonzero(_says_waiting(spans) & ~mark)
    times = _by_thread(trace.syncs, np.flatnonzero(of_thread & has_cause), merges=False)
    is_unknown = np.ones(len(waiting), bool)
    for thread, places in _places_by_thread(spans, waiting).items():
        starts = np.sort(times.get(thread, iv.EMPTY)[:, 0], kind="stable")
        edges = (np.searchsorted(starts, spans[edge].to_numpy()[waiting[places]]) for edge in ("start_ps", "end_ps"))
        first, last = edges
        is_unknown[places] = first == last

    def until_awake(table: pd.DataFrame, places: NDArray[np.int64]) -> Waits:
        start, end = (table[edge].to_numpy()[places] for edge in ("start_ps", "end_ps"))
        codes, names = table["host"].cat.codes.to_numpy()[places], table["host"].cat.categories
        awake = end.copy()
        for code in np.unique(codes).tolist():
            own = np.flatnonzero(codes == code)
            devices = [device for device, host in enumerate(rows.hosts) if host == names[code]]
            row_ends = np.sort(np.concatenate([*(rows.end[rows.of(device)] for device in devices), [2**62]]))
            last = row_ends[np.searchsorted(row_ends, end[own], side="right") - 1]
            is_prompt = (last <= end[own]) & (end[own] - last <= WAKE_PS) & (last > start[own])
            awake[own] = np.where(is_prompt, last, end[own])
        return places, awake

    return UnknownWaits(
        (calls, trace.launches["end_ps"].to_numpy()[calls]),
        (np.flatnonzero(of_thread & ~has_cause), sync_end[of_thread & ~has_cause]),
        until_awake(spans, waiting[is_unknown]),
    )


def _says_waiting(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Whether the name of each row says that its thread waited."""
    is_waiting = np.array([*(says_waiting(str(name)) for name in table["name"].cat.categories), False])
    if not is_waiting.any():
        return np.zeros(len(table), bool)
    waits: NDArray[np.bool_] = is_waiting[table["name"].cat.codes.to_numpy()]
    return waits


def activity_times(spans: pd.DataFrame) -> Mapping[Thread, Mapping[Activity, Intervals]]:
    """The times, merged, at which each thread was inside a span that proves what it did; `spans` as SPAN_COLUMNS."""
    of_name = [activity_of(str(name)) for name in spans["name"].cat.categories]
    kinds = np.array([-1 if activity is None else list(Activity).index(activity) for activity in of_name] or [-1])
    kind = kinds[spans["name"].cat.codes.to_numpy()]
    kind[kind == list(Activity).index(Activity.LOWERING)] = -1
    kind[compiler_spans(spans)] = list(Activity).index(Activity.COMPILING)
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
    timeline: Timeline, device: int, waits: NDArray[np.int64], copies: NDArray[np.int64]
) -> dict[Thread, tuple[Intervals, Intervals]]:
    """By thread of a device's host: when it stood in a call that waited for a copy, and in one that waited for a
    collective or another device; both merged.

    Such a call is a synchronising one that began before the awaited work ended, which is a copy, a collective, or any
    work of another device; or the call that started a copy, if it returned after the copy's end. A copy of another
    device is waited for from its own start on: before that, for what that device did. `waits` are the places
    in `trace.syncs` of the former calls of the device's host, `copies` the rows that the latter started. Computing of
    the device itself is none: when it is done, that the device idles is the host's doing.
    """
    rows, trace = timeline.rows, timeline.trace
    on_same_clock = rows.same_clock(device)
    awaited = timeline.syncs.awaited[waits]
    is_blocked = on_same_clock[rows.device[awaited]] & (trace.syncs["start_ps"].to_numpy()[waits] < rows.end[awaited])
    waits, awaited = waits[is_blocked], awaited[is_blocked]
    kind, own_work = rows.kind[awaited], rows.device[awaited] == device
    copy = kind == CODE[Kind.MEMCPY]
    other_work = ~copy & (~own_work | (kind == CODE[Kind.COLLECTIVE]))
    copies = copies[on_same_clock[rows.device[copies]]]
    for_copies, for_others = [], [_by_thread(trace.syncs, waits[other_work])]
    for table, calls, its_copies in (
        (trace.syncs, waits[copy], awaited[copy]),
        (trace.launches, timeline.launch[copies], copies),
    ):
        is_own, start = rows.device[its_copies] == device, rows.start[its_copies]
        begin, end = (table[edge].to_numpy()[calls] for edge in ("start_ps", "end_ps"))
        since = np.where(is_own, begin, np.clip(start, begin, end))
        for_copies.append(_by_thread(table, calls, times=iv.intervals(since, end)))
        for_others.append(_by_thread(table, calls, times=iv.intervals(begin, since)))
    threads = sorted({thread for times_by_thread in (*for_copies, *for_others) for thread in times_by_thread})

    def united(parts: Sequence[Mapping[Thread, Intervals]], thread: Thread) -> Intervals:
        return iv.union(*(times_by_thread.get(thread, iv.EMPTY) for times_by_thread in parts))

    return {thread: (united(for_copies, thread), united(for_others, thread)) for thread in threads}


def _by_host(
    calls: pd.DataFrame, places: NDArray[np.int64], values: NDArray[np.int64]
) -> Mapping[str, NDArray[np.int64]]:
    """The `values` (k,) of the calls in `places` (k,) by their host."""
    codes = calls["host"].cat.codes.to_numpy()[places]
    order = np.argsort(codes, kind="stable")
    heads = np.flatnonzero(np.diff(codes[order], prepend=-1))
    names = [str(calls["host"].cat.categories[code]) for code in codes[order][heads]]
    return dict(zip(names, np.split(values[order], heads[1:]), strict=True)) if len(places) else {}


def _by_thread(
    table: pd.DataFrame, places: NDArray[np.int64], merges: bool = True, times: Intervals | None = None
) -> dict[Thread, Intervals]:
    """The times of the rows `places` (k,) of a frame, or `times` (k, 2) in their place, by thread, merged if it
    `merges`."""
    if not len(places):
        return {}
    spans = times
    if spans is None:
        spans = iv.intervals(table["start_ps"].to_numpy()[places], table["end_ps"].to_numpy()[places])
    by_thread = _places_by_thread(table, places)
    return {thread: iv.union(spans[own]) if merges else spans[own] for thread, own in by_thread.items()}


def _places_by_thread(table: pd.DataFrame, places: NDArray[np.int64]) -> dict[Thread, NDArray[np.int64]]:
    """Which of the rows `places` of a frame are of each thread, as places in `places`."""
    if len(places) == 0:
        return {}
    key, first = distinct(*(table[column].cat.codes.to_numpy()[places] for column in ("host", "process", "thread")))
    order = np.argsort(key, kind="stable")
    heads = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    return dict(zip(threads_of(table, places[first]), np.split(order, heads[1:]), strict=True))


def numbered_threads(table: pd.DataFrame) -> tuple[NDArray[np.integer[Any]], list[Thread]]:
    """The number of the thread of each row of a table of calls or spans, (n,), and the thread of each number."""
    number, first = distinct(*(table[column].cat.codes.to_numpy() for column in ("host", "process", "thread")))
    return number.astype(np.min_scalar_type(len(first))), threads_of(table, first)


def threads_of(table: pd.DataFrame, places: NDArray[np.int64]) -> list[Thread]:
    """The threads of the rows `places` of a table of calls or spans."""
    labels = (_labels(table[column].array, places) for column in ("host", "process", "thread"))
    return list(zip(*labels, strict=True))


def _labels(column: pd.Categorical, places: NDArray[np.int64]) -> list[str]:
    """What stands in some places of a categorical column, "" where it is null: of a few, without a column of texts."""
    return ["" if code < 0 else str(column.categories[code]) for code in column.codes[places].tolist()]
