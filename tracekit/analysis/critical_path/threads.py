"""The threads of the host: which of them take turns, and when they are proven to have been at work."""

from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.intervals import Intervals
from tracekit.jit import loop
from tracekit.vocabulary.host_calls import says_waiting

Column = NDArray[np.int64]
# Host and name of a thread, and its number.
Names = dict[tuple[str, str], int]
# Thread, start and end, all (n,).
Times = tuple[Column, Column, Column]

# Threads that change places after ten calls or more on average take turns; those that work beside each other mix.
_CALLS_A_TURN = 10
# A thread that launched so often while another one stood still may be what that one waited for.
_LAUNCHES_MEANWHILE = 3


def thread_numbers(*tables: pd.DataFrame) -> Names:
    """A number for each thread that the tables hold."""
    numbers_of: Names = {}
    for table in tables:
        hosts, threads = table["host"].cat, table["thread"].cat
        width = len(threads.categories) + 1
        keys = hosts.codes.to_numpy().astype(np.int64) * width + threads.codes.to_numpy()
        for key in np.flatnonzero(np.bincount(keys)).tolist():
            name = str(hosts.categories[key // width]), str(threads.categories[key % width])
            numbers_of.setdefault(name, len(numbers_of))
    return numbers_of


def numbers_of_threads(table: pd.DataFrame, names: Names, column: str = "thread") -> Column:
    """The number of each row's thread, -1 where `names` lacks it."""
    hosts, threads = table["host"].cat, table[column].cat
    grid = np.full((len(hosts.categories) + 1, len(threads.categories) + 1), -1)
    for row, host in enumerate(hosts.categories):
        for column_place, thread in enumerate(threads.categories):
            grid[row, column_place] = names.get((str(host), str(thread)), -1)
    numbers_of_rows: Column = grid[hosts.codes.to_numpy(), threads.codes.to_numpy()]
    return numbers_of_rows


def waits_by_name(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Whether the name of each row says that its thread waited."""
    is_waiting = np.array([says_waiting(str(name)) for name in table["name"].cat.categories] or [False])
    waits: NDArray[np.bool_] = is_waiting[table["name"].cat.codes.to_numpy()]
    return waits


def control_flows(names: Names, calls: Times, launching: NDArray[np.bool_]) -> Column:
    """The number of the flow of control that each thread belongs to: threads that take turns are one flow.

    They do if both launch, no call of one lies in a call of the other, and they change places seldom: PyTorch's main
    thread stands still while another one runs the backward pass. `launching` (n,): which of the `calls` launched rows.
    """
    flow = np.arange(len(names))
    hosts = [host for host, _ in names]
    threads = np.flatnonzero(np.bincount(calls[0][launching], minlength=len(names))).tolist()
    if len({hosts[thread] for thread in threads}) == len(threads):
        return flow
    times = {}
    for thread in threads:
        thread_calls = np.flatnonzero(calls[0] == thread)
        thread_calls = thread_calls[np.argsort(calls[1][thread_calls], kind="stable")]
        times[thread] = calls[1][thread_calls], np.maximum.accumulate(calls[2][thread_calls])
    for a, b in combinations(threads, 2):
        if hosts[a] == hosts[b] and flow[b] == b:
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


def work_times(
    names: Names, thread: Column, flow: Column, spans: pd.DataFrame, call_names: set[str],
    calls: tuple[Column, Column, NDArray[np.bool_]], idle: list[Times],
) -> dict[int, Intervals]:  # fmt: skip
    """When each flow is proven to have been at work, merged, for those that ever are.

    `thread` and `flow` (n,) are those of the `calls` (start, end, whether it launched). Spans of a flow prove it at
    work. Not so steps and phases, which name a stretch of the program; the span of a call itself, which has one of the
    `call_names`; spans whose name says that they wait; and the times in `idle`, when a thread waited or ran a device's
    rows. Where another flow of the host launched while no span and no call of this one began or ended, it may have
    waited for that one.
    """
    back = np.full(len(names) + 1, -1)
    back[thread] = flow
    mark = spans["step"].notna().to_numpy(bool) | spans["tracekit"].notna().to_numpy(bool)
    waiting = waits_by_name(spans)
    is_own = np.array([str(name) in call_names for name in spans["name"].cat.categories] or [False])
    proving = np.flatnonzero(~mark & ~(is_own[spans["name"].cat.codes.to_numpy()] & ~waiting))
    of_span = back[numbers_of_threads(spans, names)[proving]]
    times = spans["start_ps"].to_numpy()[proving], spans["end_ps"].to_numpy()[proving]
    waiting = waiting[proving]
    hosts = [host for host, _ in names]
    host_of = {int(back[place]): host for place, host in enumerate(hosts)}
    work_of = {}
    for flow_number in np.unique(of_span[(of_span >= 0) & ~waiting]).tolist():
        flow_spans = of_span == flow_number
        work_time = iv.union(_masked_intervals(times, flow_spans & ~waiting))
        not_work = [_masked_intervals(times, flow_spans & waiting)]
        not_work += [_masked_intervals((start, end), back[threads] == flow_number) for threads, start, end in idle]
        for other_flow in {
            number for number, host in host_of.items() if host == host_of[flow_number] and number != flow_number
        }:
            points = np.sort(calls[0][calls[2] & (flow == other_flow)])
            not_work.append(
                _still_stretches([*_edges(times, flow_spans), *_edges(calls[:2], flow == flow_number)], points)
            )
        not_work = [excluded for excluded in not_work if len(excluded)]
        work_time = iv.difference(work_time, iv.union(*not_work)) if not_work else work_time
        if len(work_time):
            work_of[flow_number] = work_time
    return work_of


def _still_stretches(edges: list[Column], points: Column) -> Intervals:
    """The stretches between two `edges` in which many of the sorted `points` lie."""
    if len(points) < _LAUNCHES_MEANWHILE:
        return iv.EMPTY
    moments = np.sort(np.concatenate(edges))
    is_still = np.diff(np.searchsorted(points, moments)) >= _LAUNCHES_MEANWHILE
    return iv.intervals(moments[:-1][is_still], moments[1:][is_still])


def _edges(times: tuple[Column, Column], mask: NDArray[np.bool_]) -> list[Column]:
    return [column[mask] for column in times]


def _masked_intervals(times: tuple[Column, Column], mask: NDArray[np.bool_]) -> Intervals:
    return iv.intervals(times[0][mask], times[1][mask])
