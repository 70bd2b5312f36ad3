"""What the threads of the host did that launch work: their calls, and the time between two of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.analysis.blocking_copies import memory_of
from tracekit.analysis.critical_path.dependencies import Places, find_predecessors
from tracekit.analysis.host_activity import UnknownWaits, dispatchers
from tracekit.analysis.host_times import HostTimes
from tracekit.columns import by_label, categorical, distinct, numbered, order_by, places_of, rising
from tracekit.intervals import Intervals
from tracekit.jit import loop
from tracekit.readers.step_spans import ROUNDING_PS
from tracekit.timeline.rows import CODE, Rows, processes
from tracekit.timeline.syncs import CLOCKS_PS
from tracekit.vocabulary.host_calls import (
    Activity,
    activity_of,
    allocates,
    asks_if_done,
    calls_program,
    copies_synchronously,
    copies_to_host,
    says_waiting,
    serves_runtime,
    waits_for_device,
)
from tracekit.vocabulary.kinds import Kind

Column = NDArray[np.int64]
# Process and name of a thread, and its number.
Names = dict[tuple[str, str], int]
# Thread, start and end, all (n,).
Times = tuple[Column, Column, Column]
# What is told of the time between calls: spans and other work of the host.
HostTables = tuple[pd.DataFrame, pd.DataFrame]

# A thread that stood still for longer than this without a reason is taken to have waited for what it had launched.
STANDSTILL_PS = 10_000_000
SILENCE_PS, AWAKE_PS = 100_000_000, 50_000_000
# Threads that change places after three calls or more on average take turns; those that work beside each other mix.
_CALLS_A_TURN = 3
# Of more threads of one process that launch, none take turns: each pair is compared.
_MOST_TURNING = 200
# A thread that launched so often while another one stood still may be what that one waited for, if all such times but
# one of so many agree.
_LAUNCHES_MEANWHILE, _DISAGREES_IN = 3, 5
# What a thread does by itself, by the names of its spans.
_OWN_WORK = (Activity.LOWERING, Activity.COMPILING, Activity.INSTALLING, Activity.LOADING)
# A copy may end after the call that waits for it: by no more than this part of it, and so much unless it is of pageable
# memory.
_EARLY_PS, _EARLY_PART = 100_000_000, 10


class StepEnds(NamedTuple):
    """When threads ended steps: `marks` (END_COLUMNS); and the rows that outlast theirs, `outlasts` (n,)."""

    marks: pd.DataFrame
    outlasts: NDArray[np.bool_]


END_COLUMNS = {"host": "category", "process": "category", "thread": "category", "step": "int64", "end_ps": "int64"}


@dataclass(frozen=True)
class Calls:
    """The h calls of all threads that launch work: the c launches, then the w waits of threads, then the e ends of
    steps, which take no time, and before which no later call has to wait.

    `start`, `end` (h,) in ps. `predecessor` (h,): the call that was last to end on its flow of threads before each
    began, -1 for none. `work_ps` (h,): of the time since that call (or, without one, since the trace began), how long
    spans of the flow prove it at work. `starts_rows` (c,): whether it launched rows. `blank` (h,): calls that are out
    of this order, since they waited for something that the trace does not name, or, `repeated` (c,), are also waits;
    and ends of steps of which it is not known what the thread had waited for. `awaited_row` (h,): the row that a call
    ended behind: a copy that was done when its call returned, or what the call ran on its own thread; -1 for calls that
    did not wait for their rows. `drained_row` (h,): the last row of the flow to end between the call before and this
    one, -1 for none; `work_since_ps` (h,): of the time since it ended, how long the flow was at work, for calls that
    have one. `mark` (e,): the place of each end of a step in StepEnds.
    """

    start: Column
    end: Column
    predecessor: Places
    work_ps: Column
    starts_rows: NDArray[np.bool_]
    blank: NDArray[np.bool_]
    repeated: NDArray[np.bool_]
    awaited_row: Places
    drained_row: Places
    work_since_ps: Column
    flow: Places
    times: Mapping[int, HostTimes]
    mark: Column


def calls(
    rows: Rows,
    launch: Column,
    launches: pd.DataFrame,
    host_times: HostTables,
    waits: pd.DataFrame,
    unknown: UnknownWaits,
    ends: StepEnds,
) -> Calls:
    """The calls of `launches` (LAUNCH_COLUMNS) and `waits` (SYNC_COLUMNS, those of threads), in order on their threads.

    `launch` (len(rows),) is that of the Timeline, `host_times` its spans (SPAN_COLUMNS) and its work of the host
    (HOST_WORK_COLUMNS); `unknown`: which of these calls, waits and spans are waits of unknown purpose. A thread
    is not taken to have waited for rows that outlast their step, unless it says so; ends of steps count on threads that
    launch rows.
    """
    c = len(launches)
    start = np.append(launches["start_ps"].to_numpy(), waits["start_ps"].to_numpy())
    end = np.append(launches["end_ps"].to_numpy(), waits["end_ps"].to_numpy())
    names = _thread_numbers(launches, waits)
    thread = np.append(_numbers_of_threads(launches, names), _numbers_of_threads(waits, names))
    end = _cut_to_next(thread, start, end)
    device = np.full(len(start), -1)
    device[launch[launch >= 0]] = rows.device[launch >= 0]
    launching = device >= 0
    repeated = _repeated_as_wait(thread, start, end, c) & ~launching[:c]
    repeated |= _in_query_loops(launches["name"], waits["name"], (thread, start, end))
    blank = np.zeros(len(start), bool)
    blank[:c] = _waits_by_name(launches) & ~launching[:c] | repeated
    flow_of_thread = _control_flows(names, (thread, start, end), device)
    flow = flow_of_thread[thread] if len(names) else np.zeros(0, np.int32)
    # A call that stands in the waits again is known by that: it is out of the order.
    order = np.flatnonzero(~blank)
    order = order[order_by(flow[order], start[order])]

    idle = [(thread[mask], start[mask], end[mask]) for mask in (blank, np.arange(len(start)) >= c)]
    if set(rows.labels("lane")) & {name for _, name in names}:
        idle.append((_numbers_of_threads(rows.events, names, "lane")[rows.at], rows.start, rows.end))
    call_names = {str(name) for name in launches["name"].unique()}
    evidence = _evidence(names, *host_times, call_names)
    at_work = _work_times(names, thread, flow, evidence, (start, end, device), idle)
    back = np.full(len(names) + 1, -1)
    back[thread] = flow
    dispatched = _dispatched(names, back, host_times[0])
    del device, idle  # of what is not needed on, columns of millions would stand beside what comes
    flow_of_call, in_order = flow, order
    mark, flow_of_mark = _marks_of(ends.marks, names, flow_of_thread, flow[launching])
    if len(mark):
        moments = ends.marks["end_ps"].to_numpy()[mark]
        start, end, flow = np.append(start, moments), np.append(end, moments), np.append(flow, flow_of_mark)
        blank = np.append(blank, np.zeros(len(mark), bool))
        # Before a call of the same moment, which launches for the next step.
        in_order = np.append(np.arange(len(blank) - len(mark), len(blank)), order)
        in_order = in_order[order_by(flow[in_order], start[in_order])]
    predecessor, _ = find_predecessors(in_order, flow, start, end, np.arange(len(start)) >= c + len(waits))
    awaitable = np.where(ends.outlasts, -1, launch) if ends.outlasts.any() else launch
    drained_row = _drained_rows(rows, awaitable, in_order, flow, (np.append(start[:c], end[c:]), end, predecessor))
    row_end = np.append(rows.end, -(2**62))[drained_row]
    calls_of, evidence_of = places_of(flow[order], len(names)), places_of(back[evidence[0][0]], len(names))
    for flow_number, work_set in at_work.items():
        flow_calls, of_evidence = order[calls_of[flow_number]], evidence_of[flow_number]
        edges = [np.append(evidence[0][edge][of_evidence], (start, end)[edge - 1][flow_calls]) for edge in (1, 2)]
        drained = row_end[flow_calls][drained_row[flow_calls] >= 0]
        standstills = _standstills(_sorted(edges[0]), _sorted(edges[1]), rising(drained))
        at_work[flow_number] = iv.difference(work_set, standstills)
    for dispatcher, pools, copied in dispatched:
        for flow_number in {dispatcher, *pools} if len(copied) else ():
            at_work[flow_number] = iv.union(at_work.get(flow_number, iv.EMPTY), copied)
    work_ps, work_since_ps = np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    calls_of = places_of(flow[in_order], len(names)) if len(mark) else calls_of
    for flow_number, work_set in at_work.items():
        flow_calls = in_order[calls_of[flow_number]]
        is_busy = _lies_in(work_set, row_end[flow_calls] - CLOCKS_PS, row_end[flow_calls])
        drained_row[flow_calls[is_busy]] = -1  # who works when the devices are done does not wait for them
        previous_end = np.where(predecessor[flow_calls] >= 0, end[predecessor[flow_calls]], -(2**62))
        begin = start[flow_calls]
        work_ps[flow_calls] = iv.within(work_set, iv.intervals(previous_end, np.maximum(previous_end, begin)))
        drained_calls = flow_calls[drained_row[flow_calls] >= 0]
        begin = start[drained_calls]
        since = iv.intervals(np.minimum(row_end[drained_calls], begin), begin)
        work_since_ps[drained_calls] = iv.within(work_set, since)
    del row_end, thread, calls_of, evidence_of
    awaited_row = np.append(_awaited_row(rows, launch, launches), np.full(len(start) - c, -1, np.int32))
    of_calls = np.append(unknown.launches[0], unknown.syncs[0] + c)
    spans = host_times[0].iloc[unknown.spans[0]].assign(end_ps=unknown.spans[1])
    flow_of_wait = np.append(flow[of_calls], back[_numbers_of_threads(spans, names)])
    wait_start = np.append(start[of_calls], spans["start_ps"].to_numpy())
    wait_end = np.concatenate([unknown.launches[1], unknown.syncs[1], unknown.spans[1]])
    waits_of = places_of(flow_of_wait, len(names))
    waiting_times = {
        number: iv.union(iv.intervals(wait_start[waits_of[number]], wait_end[waits_of[number]]))
        for number in np.flatnonzero(np.bincount(flow)).tolist()
    }
    for number, times_of_dispatcher in _dispatchers_waits(
        flow_of_call, (launches, waits), host_times[0], spans
    ).items():
        waiting_times[number] = iv.union(waiting_times[number], times_of_dispatcher)
    for dispatcher, pools, copied in dispatched:
        for number in {dispatcher, *pools}:
            waiting_times[number] = iv.difference(waiting_times[number], copied)
    outer = _calls_around_others(flow, start, end, order[order < c])
    times = {
        number: HostTimes(waiting, outer.get(number, iv.EMPTY), at_work.get(number, iv.EMPTY))
        for number, waiting in waiting_times.items()
    }
    of_marks = np.arange(len(start) - len(mark), len(start))
    since = np.maximum(
        np.append(end, -(2**62))[predecessor[of_marks]], np.append(rows.end, -(2**62))[drained_row[of_marks]]
    )
    blank[of_marks] = _waited_since(since, start[of_marks], flow[of_marks], times) | (predecessor[of_marks] < 0)
    return Calls(
        start, end, predecessor, work_ps, launching[:c], blank, repeated, awaited_row, drained_row, work_since_ps,
        flow, times, mark,
    )  # fmt: skip


def _marks_of(marks: pd.DataFrame, names: Names, flow_of_thread: Places, launching: Places) -> tuple[Column, Places]:
    """The places of the `marks` (END_COLUMNS) that are of flows that launch rows, those `launching`, and their flows.

    A thread that launches nothing may have ended a step with what another one did, and nothing tells what that was.
    """
    flow = np.append(flow_of_thread, np.int32(-1))[_numbers_of_threads(marks, names)]
    launches = np.zeros(len(names) + 1, bool)
    launches[launching] = True
    places = np.flatnonzero(launches[flow])
    return places, flow[places]


def _waited_since(since: Column, until: Column, flow: Places, times: Mapping[int, HostTimes]) -> NDArray[np.bool_]:
    """Whether each flow was in a wait of unknown purpose at any time from `since` until then, (k,) all."""
    waited = np.zeros(len(since), bool)
    for number in np.unique(flow).tolist():
        own = np.flatnonzero(flow == number)
        stretches = iv.intervals(np.minimum(since[own], until[own]), until[own])
        waited[own] = iv.within(times[number].waiting, stretches) > 0
    return waited


def _cut_to_next(thread: Column, start: Column, end: Column) -> Column:
    """The ends of the calls, those cut to the begin of a later call of their thread that overlap it by rounding alone.

    A call in which the other one lies keeps its end.
    """
    order = order_by(thread, start)
    overlaps = (end[order[:-1]] > start[order[1:]]) & (thread[order[:-1]] == thread[order[1:]])
    if not overlaps.any():
        return end
    cut_end = end.copy()
    starts, threads, places = start[order], thread[order], np.flatnonzero(overlaps)
    for number in np.unique(threads[places]).tolist():
        low, high = np.searchsorted(threads, [number, number + 1]).tolist()
        call = order[places[slice(*np.searchsorted(places, [low, high]))]]
        earliest = np.maximum(end[call] - ROUNDING_PS, start[call] + 1)
        following = low + np.searchsorted(starts[low:high], earliest)
        next_call = order[np.minimum(following, high - 1)]
        is_cut = (following < high) & (start[next_call] < end[call]) & (end[next_call] >= end[call])
        cut_end[call[is_cut]] = start[next_call[is_cut]]
    return cut_end


def _dispatched(names: Names, back: Column, spans: pd.DataFrame) -> list[tuple[int, set[int], Intervals]]:
    """The flow of each thread that alone calls the programs of its host, the flows of XLA's pools there, and when that
    thread copied a result to the host, or another one did while it waited for it.

    What a thread of a pool launches that one dispatched: while it prepares a copy, the pool has nothing to launch.
    Other work of it proves nothing of a pool, which may be behind; a program's call may be held up by the device.
    `back` (len(names) + 1,) is the flow of each thread, -1 of one without calls.
    """
    numbers, labels = _numbers_of_threads(spans, names), list(names)
    pools_of: dict[str, set[int]] = {}
    for at, (process, thread) in enumerate(labels):
        if back[at] >= 0 and serves_runtime(thread):
            pools_of.setdefault(process, set()).add(int(back[at]))
    calls_of_programs, waiting, copying = (
        by_label(spans["name"].array, test).astype(bool) for test in (calls_program, says_waiting, copies_to_host)
    )
    start, end = (spans[edge].to_numpy() for edge in ("start_ps", "end_ps"))
    places = places_of(spans["host"].cat.codes.to_numpy(), len(spans["host"].cat.categories))
    own_dispatchers = dispatchers(spans)
    dispatched = []
    for host, own in zip(spans["host"].cat.categories, places, strict=True):
        number = int(numbers[own[calls_of_programs[own]]][0]) if host in own_dispatchers else -1
        flow = int(back[number])
        if flow < 0:
            continue
        is_own = numbers[own] == number
        parts = waiting[own] & is_own, copying[own] & ~is_own, copying[own] & is_own
        waits, of_others, itself = (iv.union(iv.intervals(start[own[each]], end[own[each]])) for each in parts)
        copied = iv.union(itself, iv.intersection(waits, of_others))
        dispatched.append((flow, pools_of.get(labels[number][0], set()) - {flow}, copied))
    return dispatched


def _dispatchers_waits(
    flow: Places, calls: tuple[pd.DataFrame, pd.DataFrame], spans: pd.DataFrame, waiting: pd.DataFrame
) -> dict[int, Intervals]:
    """When the thread waited that alone calls the programs of a flow's host, by flow; `flow` is that of the `calls`.

    The threads of a pool launch what that one dispatched, so while it waits they have nothing to launch. `waiting`:
    those of the spans that are waits of unknown purpose.
    """
    thread_of = dispatchers(spans)
    if not thread_of:
        return {}
    times_of = {}
    for name, (_, _, thread) in thread_of.items():
        of_thread = ((waiting["host"] == name) & (waiting["thread"] == thread)).to_numpy(bool)
        edges = (waiting[edge].to_numpy()[of_thread] for edge in ("start_ps", "end_ps"))
        times_of[name] = iv.union(iv.intervals(*edges))
    last = np.full(int(flow.max(initial=-1)) + 1, -1)
    last[flow] = np.arange(len(flow))
    c = len(calls[0])
    host_of = {
        number: str(calls[0]["host"].iat[at] if at < c else calls[1]["host"].iat[at - c])
        for number, at in enumerate(last.tolist())
        if at >= 0
    }
    return {number: times_of[name] for number, name in host_of.items() if name in times_of}


def _calls_around_others(flow: Places, start: Column, end: Column, order: Column) -> dict[int, Intervals]:
    """By flow: the times, merged, of the calls in which another one of it began; `order`: calls by flow and start.

    Between two calls of a flow no other one is going on.
    """
    same_flow = flow[order[1:]] == flow[order[:-1]]
    outer = order[:-1][same_flow & (end[order[:-1]] > start[order[1:]])]
    by_flow = places_of(flow[outer], int(flow.max(initial=-1)) + 1)
    return {
        number: iv.union(iv.intervals(start[outer[places]], end[outer[places]]))
        for number, places in enumerate(by_flow)
        if len(places)
    }


def _drained_rows(
    rows: Rows, launch: Column, order: Column, flow: Places, calls: tuple[Column, Column, Places]
) -> Places:
    """See `Calls.drained_row`; `order`: the calls by flow and start.

    `calls`: until when rows count for each, when it ended, and its predecessor.
    """
    until, end, predecessor = calls
    launched = np.flatnonzero(launch >= 0)
    launched = launched[np.argsort(rows.end[launched], kind="stable")]
    last_row = np.full(len(end), -1, np.int32)
    last_row[launch[launched]] = launched  # the last to end is written last
    del launched
    ends = np.append(rows.end, np.iinfo(np.int64).min)[last_row[order]]
    end_of_row = np.append(rows.end, np.iinfo(np.int64).max)
    drained_row = np.full(len(end), -1, np.int32)
    for calls_of_flow in np.split(np.arange(len(order)), np.flatnonzero(np.diff(flow[order])) + 1):
        if len(calls_of_flow) == 0:
            continue
        reach = np.maximum.accumulate(ends[calls_of_flow])
        newest = np.maximum.accumulate(np.where(ends[calls_of_flow] == reach, np.arange(len(reach)), 0))
        before = np.append(-1, newest[:-1])
        call = order[calls_of_flow]
        row = np.where(before >= 0, last_row[call][before], -1)
        previous_end = np.where(predecessor[call] >= 0, end[predecessor[call]], np.iinfo(np.int64).max)
        row_end = end_of_row[row]
        drained_row[call] = np.where((row_end <= until[call]) & (row_end > previous_end), row, -1)
    return drained_row


def _standstills(starts: Column, ends: Column, drained: Column) -> Intervals:
    """The times in which a thread did nothing but to be inside something larger, until its last row had ended.

    `starts` and `ends` are those of all that is known of the thread, `drained` (m,) the ends of such rows, all sorted.
    A frame of Python around a blocking call that left no event is no proof of work, if the thread was silent for
    SILENCE_PS or more and went on within AWAKE_PS of the end: kernels of 100 us and more of real runs of JAX on ROCm
    ended 32 to 45 us before their thread went on, while interpreters are busy between two calls for some 10 us.
    """
    if not len(drained):
        return iv.EMPTY
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    before = np.searchsorted(starts, drained, side="right"), np.searchsorted(ends, drained, side="right")
    last_start, last_end = np.append(low, starts)[before[0]], np.append(low, ends)[before[1]]
    next_start, next_end = np.append(starts, high)[before[0]], np.append(ends, high)[before[1]]
    is_silent = (last_end > last_start) & (next_start < next_end) & (drained - SILENCE_PS >= last_end)
    is_silent &= next_start - AWAKE_PS <= drained
    return iv.union(iv.intervals(last_end[is_silent], drained[is_silent]))


def _lies_in(times: Intervals, start: Column, end: Column) -> NDArray[np.bool_]:
    """Which stretches from `start` to `end` lie in one of the `times`."""
    around = np.append(times, [[-(2**62), -(2**62)]], axis=0)[np.searchsorted(times[:, 0], start, side="right") - 1]
    within: NDArray[np.bool_] = (around[:, 0] <= start) & (end <= around[:, 1])
    return within


def _repeated_as_wait(thread: Column, start: Column, end: Column, c: int) -> NDArray[np.bool_]:
    """Which of the first `c` calls are among the others too: the same thread and times."""
    repeated = np.zeros(c, bool)
    likely = np.flatnonzero(np.isin(start[:c], start[c:]))
    wait_keys = set(zip(thread[c:].tolist(), start[c:].tolist(), end[c:].tolist(), strict=True))
    call_keys = zip(thread[likely].tolist(), start[likely].tolist(), end[likely].tolist(), strict=True)
    repeated[likely] = [call in wait_keys for call in call_keys]
    return repeated


def _in_query_loops(names: pd.Series, wait_names: pd.Series, calls: Times) -> NDArray[np.bool_]:
    """Which of the c calls, called `names`, ask whether work is done in a loop that stands in the waits, behind them in
    `calls`."""
    thread, start, end = calls
    c, inside = len(names), np.zeros(len(names), bool)
    is_loop = by_label(wait_names.array, asks_if_done).astype(bool)
    if not is_loop.any():
        return inside
    loops, queries = c + np.flatnonzero(is_loop), np.flatnonzero(by_label(names.array, asks_if_done).astype(bool))
    for number in np.unique(thread[loops]).tolist():
        own, of_thread = loops[thread[loops] == number], queries[thread[queries] == number]
        spans = iv.union(iv.intervals(start[own], end[own]))
        inside[of_thread] = _lies_in(spans, start[of_thread], end[of_thread])
    return inside


def _awaited_row(rows: Rows, launch: Column, launches: pd.DataFrame) -> Places:
    """The row, last to end, that each launch waited for before it returned, -1 for none; and of calls that start
    none, those that wait for a device (`_held_by_device`).

    Copies from or to memory that is not pinned are done when their call returns, and others may be by chance; a CPU
    device may run a program on the thread that called it. A call that returned before its last row ended waited for
    none (https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html), but for `_returns_early`.
    """
    awaited_row = np.full(len(launches), -1, np.int32)
    lane = rows.events["lane"].cat.categories.astype(str)
    of_thread = lane.get_indexer(launches["thread"].cat.categories.astype(str))
    likely = rows.kind == CODE[Kind.MEMCPY]
    if (of_thread >= 0).any():
        likely = likely | np.isin(rows.codes("lane"), of_thread)
    candidates = np.flatnonzero(likely & (launch >= 0))
    call = launch[candidates]
    same_thread = of_thread[launches["thread"].cat.codes.to_numpy()[call]] == rows.codes("lane")[candidates]
    during_call = (rows.start[candidates] >= launches["start_ps"].to_numpy()[call]) & (
        rows.end[candidates] <= launches["end_ps"].to_numpy()[call]
    )
    waits = during_call & (same_thread | (rows.kind[candidates] == CODE[Kind.MEMCPY]))
    waits |= _returns_early(rows, candidates, call, launches)
    # All rows that the call launched must be among them.
    rows_waited_for = np.bincount(call[waits], minlength=len(launches))
    held_up = (rows_waited_for > 0) & (rows_waited_for == np.bincount(launch[launch >= 0], minlength=len(launches)))
    places = np.flatnonzero(waits & held_up[call])
    places = places[np.argsort(rows.end[candidates[places]], kind="stable")]
    awaited_row[call[places]] = candidates[places]  # the last to end is written last
    waiting, last = _held_by_device(rows, launch, launches)
    awaited_row[waiting] = last
    return awaited_row


def _held_by_device(rows: Rows, launch: Column, launches: pd.DataFrame) -> tuple[Column, Column]:
    """The k calls that waited for a device by what they do (`waits_for_device`), and the row that each waited for.

    It is the device that the thread launched on last before, and the row that ended last of all that the process had
    launched there before, while the call lasted. One that returned earlier did not wait, nor did one that began later.
    """
    none = np.zeros(0, np.int64)
    waiting = np.flatnonzero(by_label(launches["name"].array, waits_for_device).astype(bool))
    row = np.flatnonzero(launch >= 0)
    if not len(waiting) or not len(row):
        return none, none
    start, end = (launches[edge].to_numpy() for edge in ("start_ps", "end_ps"))
    (process,) = processes(launches)
    thread, _ = distinct(process, launches["thread"].cat.codes.to_numpy().astype(np.int64))
    row = row[np.argsort(start[launch[row]], kind="stable")]
    device = _last_before(
        (thread[launch[row]], start[launch[row]]), (thread[waiting], start[waiting]), rows.device[row]
    )
    place, _ = distinct(np.append(process[launch[row]], process[waiting]), np.append(rows.device[row], device))
    call, behind = [none], [none]
    for number in np.unique(place[len(row) :][device >= 0]).tolist():
        its = row[place[: len(row)] == number]
        calls_of = waiting[place[len(row) :] == number]
        before = np.searchsorted(start[launch[its]], start[calls_of])
        reach = np.maximum.accumulate(rows.end[its])
        newest = np.maximum.accumulate(np.where(rows.end[its] == reach, np.arange(len(its)), 0))
        last = its[newest[before - 1]]
        waited = (rows.end[last] > start[calls_of]) & (rows.end[last] <= end[calls_of])
        call.append(calls_of[waited])
        behind.append(last[waited])
    return np.concatenate(call), np.concatenate(behind)


def _last_before(known: tuple[Column, Column], asked: tuple[Column, Column], value: Column) -> Column:
    """The `value` (n,) of the last that was `known` of each thread before the moments `asked`, (m,), -1 for none; both
    are threads and moments, and those of the known ones rise."""
    last = np.full(len(asked[0]), -1)
    for number in np.unique(asked[0]).tolist():
        its, those = np.flatnonzero(known[0] == number), np.flatnonzero(asked[0] == number)
        place = np.searchsorted(known[1][its], asked[1][those]) - 1
        last[those[place >= 0]] = value[its[place[place >= 0]]]
    return last


def _returns_early(rows: Rows, row: Column, call: Column, launches: pd.DataFrame) -> NDArray[np.bool_]:
    """Which of the n copies `row` a `call` waited for that returned a little before their end.

    A copy from pageable memory goes through a buffer of the driver, piece by piece, and the call, be it called
    asynchronous or not, returns once the last piece is in the buffer (the same page of NVIDIA's), or the clocks are
    apart by that much. In a run of 18 ms copies the calls returned 30 us before their ends, in one of 104 ms 147 us.
    """
    is_synchronous = by_label(launches["name"].array, copies_synchronously).astype(bool)[call]
    is_pageable = np.equal(memory_of(rows, row), "pageable")
    is_copy = (rows.kind[row] == CODE[Kind.MEMCPY]) & (is_synchronous | is_pageable)
    call_start, call_end = (launches[edge].to_numpy()[call] for edge in ("start_ps", "end_ps"))
    early_ps = rows.end[row] - call_end
    part_ps = (rows.end[row] - rows.start[row]) // _EARLY_PART
    most_ps = np.where(is_pageable, part_ps, np.minimum(part_ps, _EARLY_PS))
    is_early: NDArray[np.bool_] = is_copy & (rows.start[row] >= call_start) & (early_ps > 0) & (early_ps <= most_ps)
    return is_early


def _thread_numbers(*tables: pd.DataFrame) -> Names:
    """A number for each thread that the tables hold."""
    numbers_of: Names = {}
    for table in tables:
        processes, threads = _processes(table), table["thread"].cat
        width = len(threads.categories) + 1
        keys = processes.codes.astype(np.int64) * width + threads.codes.to_numpy()
        for key in numbered(keys, len(processes.categories) * width)[1].tolist():
            name = str(processes.categories[key // width]), str(threads.categories[key % width])
            numbers_of.setdefault(name, len(numbers_of))
    return numbers_of


def _numbers_of_threads(table: pd.DataFrame, names: Names, column: str = "thread") -> Column:
    """The number of each row's thread, -1 where `names` lacks it."""
    processes, threads = _processes(table), table[column].cat
    process_names, thread_names = ([*map(str, each.categories), ""] for each in (processes, threads))
    which, first = distinct(processes.codes, threads.codes.to_numpy())
    pairs = zip(processes.codes[first].tolist(), threads.codes.to_numpy()[first].tolist(), strict=True)
    numbers = [
        names.get((process_names[process], thread_names[thread]), -1) if process >= 0 and thread >= 0 else -1
        for process, thread in pairs
    ]
    return np.array(numbers, np.int64)[which]


def _processes(table: pd.DataFrame) -> pd.Categorical:
    """The process of each row, by the name of its host and its own; by its host's where no process is told."""
    host = table["host"].array
    if "process" not in table or not (table["process"].cat.codes >= 0).any():
        return pd.Categorical(host)
    process = table["process"].array
    pair, first = distinct(host.codes, process.codes)
    labels = [str(host[at]) if process.codes[at] < 0 else f"{host[at]} {process[at]}" for at in first.tolist()]
    return categorical(labels, pair)


def _waits_by_name(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Whether the name of each row says that its thread waited."""
    is_waiting = np.array([says_waiting(str(name)) for name in table["name"].cat.categories] or [False])
    waits: NDArray[np.bool_] = is_waiting[table["name"].cat.codes.to_numpy()]
    return waits


def _control_flows(names: Names, calls: Times, device: Column) -> Places:
    """The number of the flow of control that each thread belongs to: threads that take turns are one flow.

    They do if both launch for one device, no call of one lies in a call of the other, and they change places seldom:
    PyTorch's main thread stands still while another one runs the backward pass. Threads that launch for devices of
    their own are ranks. `device` (n,): the one that each of the `calls` launched rows on, -1 for none.
    """
    devices = _devices_of(calls[0], device)
    flow = np.arange(len(names), dtype=np.int32)
    processes = [process for process, _ in names]
    threads = sorted(devices)
    if len({processes[thread] for thread in threads}) == len(threads):
        return flow
    times, threads_of = {}, dict[str, list[int]]()
    calls_of = places_of(calls[0], len(names))
    for thread in threads:
        thread_calls = calls_of[thread]
        if len(thread_calls) < _CALLS_A_TURN:  # to change places once takes as many
            continue
        thread_calls = thread_calls[np.argsort(calls[1][thread_calls], kind="stable")]
        times[thread] = calls[1][thread_calls], np.maximum.accumulate(calls[2][thread_calls])
        threads_of.setdefault(processes[thread], []).append(thread)
    few = [of_process for of_process in threads_of.values() if len(of_process) <= _MOST_TURNING]
    for a, b in chain.from_iterable(combinations(of_process, 2) for of_process in few):
        if flow[b] == b and devices[a] & devices[b]:
            fewer_calls = min(len(times[a][0]), len(times[b][0]))
            changes = loop(count_turns, fewer_calls)(*times[a], *times[b])
            if 0 <= changes * _CALLS_A_TURN <= fewer_calls:
                flow[b] = flow[a]
    return flow


def count_turns(start_a: Column, reach_a: Column, start_b: Column, reach_b: Column) -> int:
    """How often two threads change places, -1 if a call of one lies in a call of the other.

    `start`: when their calls begin, in order; `reach`: when the last so far has ended.
    """
    changes, i, j, last_thread = 0, 0, 0, -1
    while i < len(start_a) or j < len(start_b):
        a = j >= len(start_b) or (i < len(start_a) and start_a[i] <= start_b[j])
        if a:
            if j > 0 and reach_b[j - 1] > start_a[i]:
                return -1
            i += 1
        else:
            if i > 0 and reach_a[i - 1] > start_b[j]:
                return -1
            j += 1
        this_thread = 0 if a else 1
        if last_thread >= 0 and this_thread != last_thread:
            changes += 1
        last_thread = this_thread
    return changes


def _evidence(
    names: Names, spans: pd.DataFrame, host_work: pd.DataFrame, call_names: set[str]
) -> tuple[Times, NDArray[np.bool_], NDArray[np.bool_]]:
    """The times of threads that prove something of them, whether that is waiting, or work, and which is certain work.

    Spans and other work of a thread prove it at work. Not so steps and phases, which name a part of the program; the
    span of a call itself, which has one of the `call_names`; and spans whose name says that they wait. Certain work is
    that of allocating memory, of loading data and of compiling: no launches of other threads are waited for there.
    """
    mark = spans["step"].notna().to_numpy(bool) | spans["tracekit"].notna().to_numpy(bool)
    waiting = _waits_by_name(spans)
    is_own = np.array([str(name) in call_names for name in spans["name"].cat.categories] or [False])
    proving = np.flatnonzero(~mark & ~(is_own[spans["name"].cat.codes.to_numpy()] & ~waiting))
    of_work = _without_names(_numbers_of_threads(host_work, names), host_work)
    of_spans = (_numbers_of_threads(spans, names), spans["start_ps"].to_numpy(), spans["end_ps"].to_numpy())
    thread, start, end = (np.append(of_span[proving], of) for of_span, of in zip(of_spans, of_work, strict=True))
    nothing = np.zeros(len(of_work[0]), bool)
    is_certain = np.array([_is_work(str(name)) for name in spans["name"].cat.categories] or [False])
    certain = is_certain[spans["name"].cat.codes.to_numpy()][proving]
    return (thread, start, end), np.append(waiting[proving], nothing), np.append(certain, nothing)


def _without_names(thread: Column, host_work: pd.DataFrame) -> Times:
    """The times of host work (HOST_WORK_COLUMNS) on threads, merged where they touch: there the operator changes."""
    start, end = host_work["start_ps"].to_numpy(), host_work["end_ps"].to_numpy()
    touches = np.append(False, (np.diff(thread) == 0) & (start[1:] == end[:-1]))[: len(thread)]
    heads = np.flatnonzero(~touches)
    tails = np.append(heads[1:], len(thread))[: len(heads)] - 1
    return thread[heads], start[heads], end[tails]


def _is_work(name: str) -> bool:
    """Whether a span of this name is its thread's own work, whatever others do meanwhile."""
    return allocates(name) or activity_of(name) in _OWN_WORK


def _work_times(
    names: Names, thread: Column, flow: Places, evidence: tuple[Times, NDArray[np.bool_], NDArray[np.bool_]],
    calls: Times, idle: list[Times],
) -> dict[int, Intervals]:  # fmt: skip
    """When each flow is proven to have been at work, merged, for those that ever are.

    `thread` and `flow` (n,) are those of the `calls` (start, end, the device that it launched on or -1). What the
    `evidence` of a flow proves to be work is none where it proves waiting, and none in the times of `idle`, when a
    thread waited or ran a device's rows. Where another flow of the process launched while none of the evidence and no
    call of this one began or ended, it may have waited for that one (`_times_for_another`), unless its work is certain,
    or they launch for different devices: then they are ranks.
    """
    back = np.full(len(names) + 1, -1)
    back[thread] = flow
    (thread_of_evidence, *times_of_evidence), waiting, certain = evidence
    of_span = back[thread_of_evidence]
    times = times_of_evidence[0], times_of_evidence[1]
    process_of = {int(back[place]): process for place, (process, _) in enumerate(names)}
    flows_of: dict[str, set[int]] = {}
    for number, process in process_of.items():
        flows_of.setdefault(process, set()).add(number)
    work_of, devices = {}, _devices_of(flow, calls[2])
    spans_of, calls_of = places_of(of_span, len(names)), places_of(flow, len(names))
    idle_of = [(start, end, places_of(back[threads], len(names))) for threads, start, end in idle]
    for flow_number in rising(of_span[(of_span >= 0) & ~waiting]).tolist():
        flow_spans = spans_of[flow_number]
        work_time = iv.union(iv.intervals(*_taken(times, flow_spans[~waiting[flow_spans]])))
        not_work = [iv.intervals(*_taken(times, flow_spans[waiting[flow_spans]]))]
        not_work += [iv.intervals(*_taken((start, end), places[flow_number])) for start, end, places in idle_of]
        for other_flow in {
            number
            for number in flows_of[process_of[flow_number]] - {flow_number}
            if number in devices and (flow_number not in devices or devices[number] & devices[flow_number])
        }:
            other_calls, other_spans = calls_of[other_flow], spans_of[other_flow]
            points = np.sort(calls[0][other_calls[calls[2][other_calls] >= 0]])
            edges = [*_taken(times, flow_spans), *_taken(calls[:2], calls_of[flow_number])]
            of_other = _taken(calls[:2], other_calls), _taken(times, other_spans[~waiting[other_spans]])
            still = _times_for_another(edges, points, *map(np.concatenate, zip(*of_other, strict=True)))
            is_certain = iv.union(iv.intervals(*_taken(times, flow_spans[certain[flow_spans]])))
            not_work.append(iv.difference(still, is_certain))
        not_work = [excluded for excluded in not_work if len(excluded)]
        work_time = iv.difference(work_time, iv.union(*not_work)) if not_work else work_time
        if len(work_time):
            work_of[flow_number] = work_time
    return work_of


def _devices_of(owner: NDArray[np.integer[Any]], device: Column) -> dict[int, set[int]]:
    """The devices that the calls of each owner launched on, of those that launched; `device` (n,) is -1 for none."""
    devices: dict[int, set[int]] = {}
    count = int(device.max(initial=0)) + 1
    # One number a pair: unique rows of two columns take 40 times as long.
    launching = np.flatnonzero(device >= 0)
    for pair in rising(owner[launching].astype(np.int64) * count + device[launching]).tolist():
        devices.setdefault(pair // count, set()).add(pair % count)
    return devices


def _times_for_another(edges: list[Column], points: Column, start: Column, end: Column) -> Intervals:
    """The times between two `edges` of a thread in which it waited for another one, as far as that can be told.

    Many of the other one's launches, the sorted `points`, lie in such a time. It goes on within AWAKE_PS of the end of
    the last that the other did there, and nothing of that one (n records from `start` to `end`) lasts beyond either
    side. That must hold for most of the times with so many launches: a thread that prepares data works on when the
    other one has launched its step, which then waits for the data.
    """
    if len(points) < _LAUNCHES_MEANWHILE:
        return iv.EMPTY
    moments = _sorted(np.concatenate(edges))
    is_still = np.diff(np.searchsorted(points, moments)) >= _LAUNCHES_MEANWHILE
    if not is_still.any():
        return iv.EMPTY
    first, last = np.searchsorted(moments, start, side="right"), np.searchsorted(moments, end, side="left")
    is_crossed = np.zeros(len(moments) + 1, bool)
    is_crossed[first[first < last]] = is_crossed[last[first < last]] = True
    ends = _sorted(end)
    last_end = ends[np.maximum(np.searchsorted(ends, moments[1:], side="right") - 1, 0)]
    agrees = is_still & ~is_crossed[1:-1] & (moments[1:] - last_end <= AWAKE_PS)
    if (_DISAGREES_IN - 1) * np.count_nonzero(is_still) > _DISAGREES_IN * np.count_nonzero(agrees):
        return iv.EMPTY
    return iv.intervals(moments[:-1][agrees], moments[1:][agrees])


def _sorted(times: Column) -> Column:
    """The times in order: of a few runs that rise a stable sort takes a twentieth of the time."""
    return np.sort(times, kind="stable")


def _taken(times: tuple[Column, Column], places: Column) -> tuple[Column, Column]:
    return times[0][places], times[1][places]
