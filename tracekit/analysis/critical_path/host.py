"""What the threads of the host did that launch work: their calls, and the time between two of them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.analysis.critical_path.queues import predecessors
from tracekit.analysis.critical_path.threads import (
    control_flows,
    numbers_of_threads,
    thread_numbers,
    waits_by_name,
    work_times,
)
from tracekit.jit import loop
from tracekit.timeline.rows import CODE, Rows
from tracekit.vocabulary.kinds import Kind

Column = NDArray[np.int64]


@dataclass(frozen=True)
class Calls:
    """The calls of all threads that launch work: the c launches, then the w waits of threads.

    `start`, `end` (c + w,) in ps. `predecessor` (c + w,): the call that was last to end on its flow of threads before
    each began, -1 for none. `work_ps` (c + w,): of the time since that call (or, without one, since the trace began),
    how long spans of the flow prove it at work. `starts_rows` (c,): whether it launched rows. `blank` (c + w,): calls
    that are out of this order, since they waited for something that the trace does not name, or, `repeated` (c,), are
    also waits. `held_by` (c + w,): the row that a call ended behind: a copy that was done when its call returned, or
    what the call ran on its own thread; -1 for calls that did not wait for their rows.
    """

    start: Column
    end: Column
    predecessor: Column
    work_ps: Column
    starts_rows: NDArray[np.bool_]
    blank: NDArray[np.bool_]
    repeated: NDArray[np.bool_]
    held_by: Column


def calls(rows: Rows, launch: Column, launches: pd.DataFrame, spans: pd.DataFrame, waits: pd.DataFrame) -> Calls:
    """The calls of `launches` (LAUNCH_COLUMNS) and `waits` (SYNC_COLUMNS, those of threads), in order on their threads.

    `launch` (len(rows),) is what `links.launch_of` gives.
    """
    c = len(launches)
    start = np.append(launches["start_ps"].to_numpy(), waits["start_ps"].to_numpy())
    end = np.append(launches["end_ps"].to_numpy(), waits["end_ps"].to_numpy())
    names = thread_numbers(launches, waits)
    thread = np.append(numbers_of_threads(launches, names), numbers_of_threads(waits, names))
    launching = np.zeros(len(start), bool)
    launching[launch[launch >= 0]] = True
    repeated = _repeated_as_wait(thread, start, end, c) & ~launching[:c]
    blank = np.zeros(len(start), bool)
    blank[:c] = waits_by_name(launches) & ~launching[:c] | repeated
    flow = control_flows(names, (thread, start, end), launching)[thread] if len(names) else thread
    # A call that stands in the waits again is known by that: it is out of the order.
    order = np.flatnonzero(~blank)
    order = order[np.argsort(start[order], kind="stable")]
    order = order[np.argsort(flow[order].astype(np.min_scalar_type(-len(names))), kind="stable")]
    predecessor = np.full(len(start), -1)
    predecessor_place, _ = loop(predecessors, len(order))(
        flow[order], start[order], end[order], np.zeros(len(order), bool)
    )
    predecessor[order] = np.where(
        predecessor_place >= 0, order[predecessor_place] if len(order) else predecessor_place, -1
    )

    idle = [(thread[mask], start[mask], end[mask]) for mask in (blank, np.arange(len(start)) >= c)]
    if set(rows.labels("lane")) & {name for _, name in names}:
        idle.append((numbers_of_threads(rows.events, names, "lane")[rows.at], rows.start, rows.end))
    name_counts = np.bincount(launches["name"].cat.codes.to_numpy(), minlength=len(launches["name"].cat.categories))
    call_names = {str(launches["name"].cat.categories[code]) for code in np.flatnonzero(name_counts).tolist()}
    at_work = work_times(names, thread, flow, spans, call_names, (start, end, launching), idle)
    work_ps = np.zeros(len(start), np.int64)
    for flow_number, work_set in at_work.items():
        flow_calls = order[flow[order] == flow_number]
        previous_end = np.where(predecessor[flow_calls] >= 0, end[predecessor[flow_calls]], -(2**62))
        work_ps[flow_calls] = iv.within(
            work_set, iv.intervals(previous_end, np.maximum(previous_end, start[flow_calls]))
        )
    held_by = np.append(_held_by(rows, launch, launches), np.full(len(waits), -1))
    return Calls(start, end, predecessor, work_ps, launching[:c], blank, repeated, held_by)


def _repeated_as_wait(thread: Column, start: Column, end: Column, c: int) -> NDArray[np.bool_]:
    """Which of the first `c` calls are among the others too: the same thread and times."""
    repeated = np.zeros(c, bool)
    likely = np.flatnonzero(np.isin(start[:c], start[c:]))
    wait_keys = set(zip(thread[c:].tolist(), start[c:].tolist(), end[c:].tolist(), strict=True))
    call_keys = zip(thread[likely].tolist(), start[likely].tolist(), end[likely].tolist(), strict=True)
    repeated[likely] = [call in wait_keys for call in call_keys]
    return repeated


def _held_by(rows: Rows, launch: Column, launches: pd.DataFrame) -> Column:
    """The row, last to end, that each launch waited for before it returned, -1 for none.

    Copies from or to memory that is not pinned are done when their call returns, and others may be by chance; a CPU
    device may run a program on the thread that called it. A call that returned before its last row ended waited for
    none (https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html).
    """
    held_by = np.full(len(launches), -1)
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
    # All rows that the call launched must be among them.
    rows_waited_for = np.bincount(call[waits], minlength=len(launches))
    held_up = (rows_waited_for > 0) & (rows_waited_for == np.bincount(launch[launch >= 0], minlength=len(launches)))
    places = np.flatnonzero(waits & held_up[call])
    places = places[np.argsort(rows.end[candidates[places]], kind="stable")]
    held_by[call[places]] = candidates[places]  # the last to end is written last
    return held_by
