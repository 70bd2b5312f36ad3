"""The graph: rows of devices and calls of the host as nodes, and between them what the trace proves."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.analysis.critical_path.edges import (
    Tally,
    collective_members,
    further_edges,
    launch_edges,
    node_order,
    order_edges,
)
from tracekit.analysis.critical_path.host import Calls, calls
from tracekit.analysis.critical_path.queues import QueueOrder, queue_order
from tracekit.analysis.critical_path.waits import Edges, operand_edges, resume_edges, sync_edges
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.timeline import Timeline
from tracekit.trace import Trace

Column = NDArray[np.int64]

# The kinds of nodes of the host, behind the kinds of rows: a call that launched rows, any other work.
CALL, WORK = len(CODE), len(CODE) + 1


@dataclass(frozen=True)
class Graph:
    """N nodes and what each had to wait for; times in ps.

    The nodes are c launches, w waits of threads, r returns of calls that waited for their rows, n rows of devices and k
    dones of asynchronous pairs, in this order; `first` (6,) holds the number of the first node of each sort, then N.
    `start`, `end` (N,) are measured; a wait and a return start when the last that they are known to have waited for
    ended. `kind` (N,): that of the row, or CALL or WORK. `clock` (N,): the place in `clocks`, -1 if not told.

    `predecessor` (N,): what its queue or thread had to end before it; `lag_ps` (N,): the host's work between, or,
    negative, its lead; without a predecessor the host's work since the trace began. `launch` (N,): the call that had to
    begin before it, by `latency_ps` (d + 1,) of its `device` (N,), which is d for the host. `extra`: further nodes that
    had to end, those of node i in extra[extra_first[i]:extra_first[i + 1]]. -1: none.

    `instance` (N,): the collective that a row is a member of, -1 for none. Its transfer begins when its `last` member
    (m,) has started, at `gate` (m,) ps; `members` (m,) counts them.

    `order` (N,): the nodes in an order in which each stands behind all that it waits for. `edges` (EDGE_COLUMNS) counts
    what is proven, by sort, and what was dropped because the times contradict it. `blank_waits` counts the waits of
    which the trace does not tell what for. `pair` (k,): the row of each done; `returned` (r,): the launch of each
    return.
    """

    first: Column
    start: Column
    end: Column
    kind: NDArray[np.int8]
    clock: NDArray[np.int16]
    device: NDArray[np.int16]
    predecessor: NDArray[np.int32]
    lag_ps: Column
    launch: NDArray[np.int32]
    latency_ps: Column
    extra_first: NDArray[np.int32]
    extra: NDArray[np.int32]
    instance: NDArray[np.int32]
    gate: Column
    last: NDArray[np.int32]
    members: NDArray[np.int32]
    order: NDArray[np.int32]
    clocks: tuple[str, ...]
    edges: pd.DataFrame
    blank_waits: int
    pair: Column
    returned: Column

    def without_edges(self) -> "Graph":
        """The nodes without what they wait for: what is left to know of them once there is a plan."""
        int16s, int32s, int64s = np.zeros(0, np.int16), np.zeros(0, np.int32), np.zeros(0, np.int64)
        return replace(
            self, clock=int16s, device=int16s, predecessor=int32s, lag_ps=int64s, launch=int32s, extra_first=int32s,
            extra=int32s, order=int32s,
        )  # fmt: skip

    def source(self, node: int) -> tuple[str, int]:
        """Where a node comes from: `launches` and its place, `syncs` and its place among the waits of threads, or
        `events` and its place in Rows."""
        sort_of_node = int(np.searchsorted(self.first, node, side="right")) - 1
        place = node - int(self.first[sort_of_node])
        if sort_of_node == 2:
            return "launches", int(self.returned[place])
        if sort_of_node == 4:
            return "events", int(self.pair[place])
        return ("launches", "syncs", "", "events")[sort_of_node], place


def graph(timeline: Timeline) -> Graph:
    """The graph of a trace.

    An edge that the measured times contradict (a row that started before its launch, a lane that did not wait) is
    dropped and counted, so no node starts before what it waits for has ended.
    """
    rows, launch, trace = timeline.rows, timeline.launch, timeline.trace
    queues = queue_order(rows)
    waiting = np.flatnonzero(trace.syncs["device"].isna().to_numpy(bool))
    host = calls(rows, launch, trace.launches, trace.spans, trace.syncs.iloc[waiting])
    returns = np.flatnonzero(host.held_by >= 0)
    first = np.cumsum([0, len(trace.launches), len(waiting), len(returns), len(rows), len(queues.pair)])
    nodes, row_nodes = int(first[5]), slice(int(first[3]), int(first[4]))
    start, end = _times(rows, queues, host, returns)
    edges = _edges(rows, launch, trace, queues, host, returns, waiting, first)
    start, has_end = _move_waits(start, end, edges["a thread waits for a lane"], slice(int(first[1]), int(first[2])))
    order = node_order(start, end, np.concatenate([host.start, host.start[returns], rows.start, queues.done_ps]))
    rank = np.empty(nodes, np.int32)
    rank[order] = np.arange(nodes, dtype=np.int32)

    tally = Tally()
    extra_first, extras = further_edges(start, end, rank, edges, tally)
    predecessor, lag = order_edges(start, end, rank, queues, host, returns, first, tally)
    call, member = np.full(nodes, -1, np.int32), np.full(nodes, -1, np.int32)
    waits = extra_first[row_nodes] < extra_first[row_nodes.start + 1 : row_nodes.stop + 1]
    call[row_nodes], latency = launch_edges(rows, launch, trace.launches, waits, tally)
    member[row_nodes], gate, last, members = collective_members(rows, timeline.collectives.instance, tally)
    device = np.full(nodes, len(rows.devices), np.int16)
    device[first[3] :] = np.append(rows.device, rows.device[queues.pair])
    kind = np.full(nodes, WORK, np.int8)
    kind[: first[1]][host.starts_rows] = CALL
    kind[first[2] : first[3]] = CALL
    kind[first[3] :] = np.append(rows.kind, rows.kind[queues.pair])
    clocks, clock = _clocks(rows, trace, waiting, returns, queues)
    blank = int((host.blank[: first[1]] & ~host.repeated).sum()) + int((~has_end).sum())
    return Graph(
        first, start, end, kind, clock, device, predecessor, lag, call, latency, extra_first, extras, member, gate,
        last + np.int32(first[3]), members, order, clocks, tally.table(), blank, queues.pair, returns,
    )  # fmt: skip


def _edges(
    rows: Rows, launch: Column, trace: Trace, queues: QueueOrder, host: Calls, returns: Column, waiting: Column,
    first: Column,
) -> dict[str, Edges]:  # fmt: skip
    """What had to end before what, besides the order in queues and on threads, by sort; nodes by number."""
    row = first[3]
    lanes, threads = sync_edges(rows, launch, trace.launches, trace.syncs)
    held_up = np.flatnonzero(queues.was_held_up)
    operand_rows, reader_rows = operand_edges(rows, queues, trace.operands)
    copies, resumed = resume_edges(rows, launch, trace.launches, queues)
    return {
        "a lane waits for a lane": (lanes[0] + row, lanes[1] + row),
        "a thread waits for a lane": (threads[0] + row, np.searchsorted(waiting, threads[1]) + first[1]),
        "a call returns behind its rows": (host.held_by[returns] + row, np.arange(first[2], row)),
        "an asynchronous pair's done": (queues.pair[held_up] + row, held_up + first[4]),
        "an operand": (operand_rows + row, reader_rows + row),
        "a copy that a program waited for": (copies + row, resumed + row),
    }


def _times(rows: Rows, queues: QueueOrder, host: Calls, returns: Column) -> tuple[Column, Column]:
    """Start and end of every node; a call that waited for its rows has its length in its return."""
    call_end = host.end.copy()
    call_end[returns] = host.start[returns]
    call_end[host.blank] = host.start[host.blank]
    # How long a pair was in flight is known only if its done was held up, and then that is when it landed.
    row_end = rows.end.copy()
    in_flight = queues.pair[~queues.was_held_up]
    row_end[in_flight] = rows.start[in_flight]
    done_end = rows.end[queues.pair]
    done_start = np.where(queues.was_held_up, done_end, queues.done_ps)
    start = np.concatenate([host.start, rows.end[host.held_by[returns]], rows.start, done_start])
    return start, np.concatenate([call_end, host.end[returns], row_end, done_end])


def _move_waits(start: Column, end: Column, edges: Edges, waits: slice) -> tuple[Column, NDArray[np.bool_]]:
    """The starts, those of `waits` moved to the end of the last that each waited for, and of which that is known (w,).

    A wait of which it is not known gets no length.
    """
    awaited_node, wait_node = edges
    ended_before = end[awaited_node] <= end[wait_node]
    has_end = np.zeros(waits.stop - waits.start, bool)
    has_end[wait_node[ended_before] - waits.start] = True
    start_moved = start.copy()
    np.maximum.at(start_moved, wait_node[ended_before], end[awaited_node[ended_before]])
    start_moved[waits] = np.where(has_end, start_moved[waits], end[waits])
    return start_moved, has_end


def _clocks(
    rows: Rows, trace: Trace, waiting: Column, returns: Column, queues: QueueOrder
) -> tuple[tuple[str, ...], NDArray[np.int16]]:
    """The clocks of the rows, and the one of each node; -1 for the host of a machine that ran no row."""
    clocks = tuple(dict.fromkeys(rows.clocks))
    of_host = dict(zip(rows.hosts, map(clocks.index, rows.clocks), strict=True))

    def of(table: pd.DataFrame) -> NDArray[np.int16]:
        clock_of_code = np.array(
            [of_host.get(str(host), -1) for host in table["host"].cat.categories] or [-1], np.int16
        )
        clock_of_row: NDArray[np.int16] = clock_of_code[table["host"].cat.codes.to_numpy()]
        return clock_of_row

    calls = of(trace.launches)
    row = np.array([clocks.index(clock) for clock in rows.clocks] or [-1], np.int16)[rows.device]
    return clocks, np.concatenate([calls, of(trace.syncs.iloc[waiting]), calls[returns], row, row[queues.pair]])
