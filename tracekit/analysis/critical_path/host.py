"""What the threads of the host did that launch work: their calls, and the time between two of them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.analysis.critical_path.queues import previous
from tracekit.analysis.critical_path.threads import flows, named_waiting, numbered, numbers, work
from tracekit.jit import loop
from tracekit.timeline.rows import CODE, Rows
from tracekit.vocabulary.kinds import Kind

Column = NDArray[np.int64]


@dataclass(frozen=True)
class Calls:
    """The calls of all threads that launch work: the c launches, then the w waits of threads.

    `start`, `end` (c + w,) in ps. `before` (c + w,): the call that was last to end on its flow of threads before each
    began, -1 for none. `work_ps` (c + w,): of the time since that call (or, without one, since the trace began), how
    long spans of the flow prove it at work. `starts_rows` (c,): whether it launched rows. `blank` (c + w,): calls that
    are out of this order, since they waited for something that the trace does not name, or, `again` (c,), are also
    waits. `held_by` (c + w,): the row that a call ended behind: a copy that was done when its call returned, or what
    the call ran on its own thread; -1 for calls that did not wait for their rows.
    """

    start: Column
    end: Column
    before: Column
    work_ps: Column
    starts_rows: NDArray[np.bool_]
    blank: NDArray[np.bool_]
    again: NDArray[np.bool_]
    held_by: Column


def calls(rows: Rows, launch: Column, launches: pd.DataFrame, spans: pd.DataFrame, waits: pd.DataFrame) -> Calls:
    """The calls of `launches` (LAUNCH_COLUMNS) and `waits` (SYNC_COLUMNS, those of threads), in order on their threads.

    `launch` (len(rows),) is what `links.launch_of` gives.
    """
    c = len(launches)
    start = np.append(launches["start_ps"].to_numpy(), waits["start_ps"].to_numpy())
    end = np.append(launches["end_ps"].to_numpy(), waits["end_ps"].to_numpy())
    names = numbered(launches, waits)
    thread = np.append(numbers(launches, names), numbers(waits, names))
    launching = np.zeros(len(start), bool)
    launching[launch[launch >= 0]] = True
    again = _again(thread, start, end, c) & ~launching[:c]
    blank = np.zeros(len(start), bool)
    blank[:c] = named_waiting(launches) & ~launching[:c] | again
    flow = flows(names, (thread, start, end), launching)[thread] if len(names) else thread
    # A call that stands in the waits again is known by that: it is out of the order.
    order = np.flatnonzero(~blank)
    order = order[np.argsort(start[order], kind="stable")]
    order = order[np.argsort(flow[order].astype(np.min_scalar_type(-len(names))), kind="stable")]
    before = np.full(len(start), -1)
    found, _ = loop(previous, len(order))(flow[order], start[order], end[order], np.zeros(len(order), bool))
    before[order] = np.where(found >= 0, order[found] if len(order) else found, -1)

    idle = [(thread[some], start[some], end[some]) for some in (blank, np.arange(len(start)) >= c)]
    if set(rows.labels("lane")) & {name for _, name in names}:
        idle.append((numbers(rows.events, names, "lane")[rows.at], rows.start, rows.end))
    called = np.bincount(launches["name"].cat.codes.to_numpy(), minlength=len(launches["name"].cat.categories))
    own = {str(launches["name"].cat.categories[one]) for one in np.flatnonzero(called).tolist()}
    at_work = work(names, thread, flow, spans, own, (start, end, launching), idle)
    work_ps = np.zeros(len(start), np.int64)
    for one, inside in at_work.items():
        mine = order[flow[order] == one]
        since = np.where(before[mine] >= 0, end[before[mine]], -(2**62))
        work_ps[mine] = iv.within(inside, iv.intervals(since, np.maximum(since, start[mine])))
    held_by = np.append(_held(rows, launch, launches), np.full(len(waits), -1))
    return Calls(start, end, before, work_ps, launching[:c], blank, again, held_by)


def _again(thread: Column, start: Column, end: Column, c: int) -> NDArray[np.bool_]:
    """Which of the first `c` calls are among the others too: the same thread and times."""
    found = np.zeros(c, bool)
    likely = np.flatnonzero(np.isin(start[:c], start[c:]))
    others = set(zip(thread[c:].tolist(), start[c:].tolist(), end[c:].tolist(), strict=True))
    at = zip(thread[likely].tolist(), start[likely].tolist(), end[likely].tolist(), strict=True)
    found[likely] = [one in others for one in at]
    return found


def _held(rows: Rows, launch: Column, launches: pd.DataFrame) -> Column:
    """The row, last to end, that each launch waited for before it returned, -1 for none.

    Copies from or to memory that is not pinned are done when their call returns, and others may be by chance; a CPU
    device may run a program on the thread that called it. A call that returned before its last row ended waited for
    none (https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html).
    """
    held = np.full(len(launches), -1)
    lane = rows.events["lane"].cat.categories.astype(str)
    of_thread = lane.get_indexer(launches["thread"].cat.categories.astype(str))
    likely = rows.kind == CODE[Kind.MEMCPY]
    if (of_thread >= 0).any():
        likely = likely | np.isin(rows.codes("lane"), of_thread)
    some = np.flatnonzero(likely & (launch >= 0))
    call = launch[some]
    same = of_thread[launches["thread"].cat.codes.to_numpy()[call]] == rows.codes("lane")[some]
    inside = (rows.start[some] >= launches["start_ps"].to_numpy()[call]) & (
        rows.end[some] <= launches["end_ps"].to_numpy()[call]
    )
    waits = inside & (same | (rows.kind[some] == CODE[Kind.MEMCPY]))
    # All rows that the call launched must be among them.
    wanted = np.bincount(call[waits], minlength=len(launches))
    held_up = (wanted > 0) & (wanted == np.bincount(launch[launch >= 0], minlength=len(launches)))
    at = np.flatnonzero(waits & held_up[call])
    at = at[np.argsort(rows.end[some[at]], kind="stable")]
    held[call[at]] = some[at]  # the last to end is written last
    return held
