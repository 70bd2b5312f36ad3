"""The graph: rows of devices and calls of the host as nodes, and between them what the trace proves."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.analysis.critical_path.edges import Tally, further, in_order, launched, met, predecessors
from tracekit.analysis.critical_path.host import Calls, calls
from tracekit.analysis.critical_path.queues import Queued, queued
from tracekit.analysis.critical_path.waits import Edges, operands, resumed, synchronised
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

    `before` (N,): what its queue or thread had to end before it; `lag_ps` (N,): the host's work between, or, negative,
    its lead; without a predecessor the host's work since the trace began. `launch` (N,): the call that had to begin
    before it, by `latency_ps` (d + 1,) of its `device` (N,), which is d for the host. `extra`: further nodes that had
    to end, those of node i in extra[extra_first[i]:extra_first[i + 1]]. -1: none.

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
    before: NDArray[np.int32]
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

    def bare(self) -> "Graph":
        """The nodes without what they wait for: what is left to know of them once there is a plan."""
        short, number, time = np.zeros(0, np.int16), np.zeros(0, np.int32), np.zeros(0, np.int64)
        return replace(
            self, clock=short, device=short, before=number, lag_ps=time, launch=number, extra_first=number,
            extra=number, order=number,
        )  # fmt: skip

    def source(self, node: int) -> tuple[str, int]:
        """Where a node comes from: `launches` and its place, `syncs` and its place among the waits of threads, or
        `events` and its place in Rows."""
        sort = int(np.searchsorted(self.first, node, side="right")) - 1
        nth = node - int(self.first[sort])
        if sort == 2:
            return "launches", int(self.returned[nth])
        if sort == 4:
            return "events", int(self.pair[nth])
        return ("launches", "syncs", "", "events")[sort], nth


def graph(timeline: Timeline) -> Graph:
    """The graph of a trace.

    An edge that the measured times contradict (a row that started before its launch, a lane that did not wait) is
    dropped and counted, so no node starts before what it waits for has ended.
    """
    rows, launch, trace = timeline.rows, timeline.launch, timeline.trace
    queues = queued(rows)
    waiting = np.flatnonzero(trace.syncs["device"].isna().to_numpy(bool))
    host = calls(rows, launch, trace.launches, trace.spans, trace.syncs.iloc[waiting])
    returns = np.flatnonzero(host.held_by >= 0)
    first = np.cumsum([0, len(trace.launches), len(waiting), len(returns), len(rows), len(queues.pair)])
    nodes, mine = int(first[5]), slice(int(first[3]), int(first[4]))
    start, end = _times(rows, queues, host, returns)
    edges = _edges(rows, launch, trace, queues, host, returns, waiting, first)
    start, known = _awaited(start, end, edges["a thread waits for a lane"], slice(int(first[1]), int(first[2])))
    ordered = in_order(start, end, np.concatenate([host.start, host.start[returns], rows.start, queues.done_ps]))
    rank = np.empty(nodes, np.int32)
    rank[ordered] = np.arange(nodes, dtype=np.int32)

    tally = Tally()
    extra_first, extras = further(start, end, rank, edges, tally)
    predecessor, lag = predecessors(start, end, rank, queues, host, returns, first, tally)
    call, member = np.full(nodes, -1, np.int32), np.full(nodes, -1, np.int32)
    waits = extra_first[mine] < extra_first[mine.start + 1 : mine.stop + 1]
    call[mine], latency = launched(rows, launch, trace.launches, waits, tally)
    member[mine], gate, last, members = met(rows, timeline.collectives.instance, tally)
    device = np.full(nodes, len(rows.devices), np.int16)
    device[first[3] :] = np.append(rows.device, rows.device[queues.pair])
    kind = np.full(nodes, WORK, np.int8)
    kind[: first[1]][host.starts_rows] = CALL
    kind[first[2] : first[3]] = CALL
    kind[first[3] :] = np.append(rows.kind, rows.kind[queues.pair])
    clocks, clock = _clocks(rows, trace, waiting, returns, queues)
    blank = int((host.blank[: first[1]] & ~host.again).sum()) + int((~known).sum())
    return Graph(
        first, start, end, kind, clock, device, predecessor, lag, call, latency, extra_first, extras, member, gate,
        last + np.int32(first[3]), members, ordered, clocks, tally.table(), blank, queues.pair, returns,
    )  # fmt: skip


def _edges(
    rows: Rows, launch: Column, trace: Trace, queues: Queued, host: Calls, returns: Column, waiting: Column,
    first: Column,
) -> dict[str, Edges]:  # fmt: skip
    """What had to end before what, besides the order in queues and on threads, by sort; nodes by number."""
    row = first[3]
    lanes, threads = synchronised(rows, launch, trace.launches, trace.syncs)
    landed = np.flatnonzero(queues.waited)
    needed, read = operands(rows, queues, trace.operands)
    copied, began = resumed(rows, launch, trace.launches, queues)
    return {
        "a lane waits for a lane": (lanes[0] + row, lanes[1] + row),
        "a thread waits for a lane": (threads[0] + row, np.searchsorted(waiting, threads[1]) + first[1]),
        "a call returns behind its rows": (host.held_by[returns] + row, np.arange(first[2], row)),
        "an asynchronous pair's done": (queues.pair[landed] + row, landed + first[4]),
        "an operand": (needed + row, read + row),
        "a copy that a program waited for": (copied + row, began + row),
    }


def _times(rows: Rows, queues: Queued, host: Calls, returns: Column) -> tuple[Column, Column]:
    """Start and end of every node; a call that waited for its rows has its length in its return."""
    ended = host.end.copy()
    ended[returns] = host.start[returns]
    ended[host.blank] = host.start[host.blank]
    # How long a pair was in flight is known only if its done was held up, and then that is when it landed.
    row_end = rows.end.copy()
    free = queues.pair[~queues.waited]
    row_end[free] = rows.start[free]
    done_end = rows.end[queues.pair]
    done = np.where(queues.waited, done_end, queues.done_ps)
    start = np.concatenate([host.start, rows.end[host.held_by[returns]], rows.start, done])
    return start, np.concatenate([ended, host.end[returns], row_end, done_end])


def _awaited(start: Column, end: Column, edges: Edges, waits: slice) -> tuple[Column, NDArray[np.bool_]]:
    """The starts, those of `waits` moved to the end of the last that each waited for, and of which that is known (w,).

    A wait of which it is not known gets no length.
    """
    awaited, wait = edges
    good = end[awaited] <= end[wait]
    known = np.zeros(waits.stop - waits.start, bool)
    known[wait[good] - waits.start] = True
    moved = start.copy()
    np.maximum.at(moved, wait[good], end[awaited[good]])
    moved[waits] = np.where(known, moved[waits], end[waits])
    return moved, known


def _clocks(
    rows: Rows, trace: Trace, waiting: Column, returns: Column, queues: Queued
) -> tuple[tuple[str, ...], NDArray[np.int16]]:
    """The clocks of the rows, and the one of each node; -1 for the host of a machine that ran no row."""
    clocks = tuple(dict.fromkeys(rows.clocks))
    of_host = dict(zip(rows.hosts, map(clocks.index, rows.clocks), strict=True))

    def of(table: pd.DataFrame) -> NDArray[np.int16]:
        known = np.array([of_host.get(str(host), -1) for host in table["host"].cat.categories] or [-1], np.int16)
        found: NDArray[np.int16] = known[table["host"].cat.codes.to_numpy()]
        return found

    calls = of(trace.launches)
    row = np.array([clocks.index(clock) for clock in rows.clocks] or [-1], np.int16)[rows.device]
    return clocks, np.concatenate([calls, of(trace.syncs.iloc[waiting]), calls[returns], row, row[queues.pair]])
