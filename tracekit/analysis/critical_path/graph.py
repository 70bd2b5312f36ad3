"""The graph: rows of devices and calls of the host as nodes, and between them what the trace proves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import heap
from tracekit import intervals as iv
from tracekit.analysis.critical_path.dependencies import (
    Edges,
    QueueOrder,
    migration_edges,
    operand_edges,
    queue_order,
    resume_edges,
    turn_edges,
)
from tracekit.analysis.critical_path.host import (
    AWAKE_PS,
    END_COLUMNS,
    SILENCE_PS,
    STANDSTILL_PS,
    Calls,
    StepEnds,
    calls,
)
from tracekit.analysis.host_activity import unknown_waits
from tracekit.analysis.host_times import PROMPT_PS, HostTimes, slow_call_ps
from tracekit.columns import frame
from tracekit.jit import loop
from tracekit.timeline.instances import CollectiveInstances
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.step_boundaries import outlasting
from tracekit.timeline.syncs import BRIEF_PS, CLOCKS_PS
from tracekit.timeline.timeline import Timeline, begins_inside

Column = NDArray[np.int64]

# The kinds of nodes of the host, behind the kinds of rows: a call that launched rows, any other work.
CALL, WORK = len(CODE), len(CODE) + 1
# From so many rows that found their device idle on, the shortest delay of them is taken for its launch latency.
LATENCY_FROM_ROWS = 10
# A shortest delay of which more passes once the call has returned is a wait for something: it was 30 us in all on an
# MI300X, 40 to 80 us on CPU devices, and less on NVIDIA's GPUs (host_times.PROMPT_PS).
LONGEST_LATENCY_PS = 100_000_000
# Where each node stands in the order, and behind which place it is over.
Ranks = tuple[NDArray[np.int32], NDArray[np.int32]]
# About so many bytes of each call `calls` has held, and freed.
_OF_A_CALL = 100
EDGE_COLUMNS = {"edge": "str", "edges": "int64", "dropped": "int64"}


class Dependency(StrEnum):
    """The sorts of edges, as EDGE_COLUMNS and summary.json have them."""

    LAUNCH = "launch"
    QUEUE_ORDER = "queue_order"
    THREAD_ORDER = "thread_order"
    COLLECTIVE = "collective"
    ASYNC_DONE = "async_done"
    OPERAND = "operand"
    STREAM_WAIT = "stream_wait"
    THREAD_WAIT = "thread_wait"
    CALL_RETURN = "call_return"
    COPY_WAIT = "copy_wait"
    TURN = "turn"
    MIGRATION = "migration"
    DRAINED = "drained"


# The same for people.
DEPENDENCIES = {
    Dependency.LAUNCH: "launch",
    Dependency.QUEUE_ORDER: "order on a stream or device",
    Dependency.THREAD_ORDER: "order on a host thread",
    Dependency.COLLECTIVE: "members of a collective",
    Dependency.ASYNC_DONE: "done of an asynchronous pair",
    Dependency.OPERAND: "operand",
    Dependency.STREAM_WAIT: "stream waits for a stream",
    Dependency.THREAD_WAIT: "thread waits for a stream or device",
    Dependency.CALL_RETURN: "call returns after its work",
    Dependency.COPY_WAIT: "program waits for a copy",
    Dependency.TURN: "turn on a device",
    Dependency.MIGRATION: "unified memory is moved",
    Dependency.DRAINED: "thread goes on when its work is done",
}


@dataclass
class Graph:
    """N nodes and what each had to wait for; times in ps.

    The nodes are c launches, w waits of threads and, behind these, ends of steps on threads, r returns of calls that
    waited for their rows, n rows of devices and k dones of asynchronous pairs, in this order; `first` (6,) holds the
    number of the first node of each sort, then N. `start`, `end` (N,) are measured; a wait and a return start when the
    last that they are known to have waited for ended. `kind` (N,): that of the row, or CALL or WORK. `clock` (N,): the
    place in `clocks`, -1 if not told, or if the node stands in no order.

    `predecessor` (N,): what its queue or thread had to end before it; `lag_ps` (N,): the host's work between, or,
    negative, its lead; without a predecessor the host's work since the trace began. `launch` (N,): the call that had to
    begin before it, by `latency_ps` (d + 1,) of its `device` (N,), which is d for the host. `call_ps` (N,), or (0,) if
    it is 0 for all: for how long that call ran before its row started, if it was slow. `extra_to` (x,), in order: nodes
    that waited for further ones, and `extra_from` (x,): for which. -1: none.

    `instance` (N,): the collective that a row is a member of, -1 for none. Its transfer begins when its last member has
    started, at `gate` (m,) ps; `members` (m,) counts them, 1
    where others are not in the trace: then a still later one may have held them up.

    `order` (N,): the nodes in an order in which each stands behind all that it waits for. `edges` (EDGE_COLUMNS) counts
    what is proven, by sort, and what was dropped because the times contradict it. `blank_waits` counts the waits in
    the windows of which the trace does not tell what for. `pair` (k,): the row of each done; `returned` (r,): the
    launch of each return. `flow` (c + w + r,): the flow of threads of each node of the host, and `host_times` what each
    flow did. `ended` (e,): the step that each end of one ends, the last e of the w, as a row of the timeline's steps;
    `ended_after` (e,): the last node before it on its thread.
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
    call_ps: Column
    extra_to: NDArray[np.int32]
    extra_from: NDArray[np.int32]
    instance: NDArray[np.int32]
    gate: Column
    members: NDArray[np.int32]
    order: NDArray[np.int32]
    clocks: tuple[str, ...]
    edges: pd.DataFrame
    blank_waits: int
    pair: Column
    returned: Column
    flow: NDArray[np.int32]
    host_times: Mapping[int, HostTimes]
    ended: Column
    ended_after: NDArray[np.int32]

    @property
    def step_ends(self) -> slice:
        """The nodes that are ends of steps."""
        return slice(int(self.first[2]) - len(self.ended), int(self.first[2]))

    def forget_order(self) -> None:
        """Give up the order of the nodes: once there are runs, theirs stands in them."""
        self.clock, self.order = np.zeros(0, np.int16), np.zeros(0, np.int32)

    def forget_edges(self) -> None:
        """Give up what the nodes wait for: once there is a plan, it has that."""
        self.predecessor, self.launch, self.extra_to, self.extra_from = (np.zeros(0, np.int32) for _ in range(4))
        self.lag_ps, self.call_ps = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def source(self, node: int) -> tuple[str, int]:
        """Where a node comes from that is no end of a step: `launches` and its place, `syncs` and its place among the
        waits of threads, or `events` and its place in Rows."""
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
    rows, trace = timeline.rows, timeline.trace
    sources = _sources(timeline)
    heap.give_back(_OF_A_CALL * len(sources.host.start))
    host, queues, first = sources.host, sources.queues, sources.first
    waits, row_nodes = slice(int(first[1]), int(first[2])), slice(int(first[3]), int(first[4]))
    start, end = _times(sources)
    collective_of_row, gate, members, of_members = _collectives(rows, timeline.collectives)
    _outlast_gates(end[row_nodes], collective_of_row, gate)
    wait_start, sources = host.start[first[1] :].copy(), sources.without_times()
    host = sources.host
    drained = _drained_calls(sources, start, end)
    edges = _further_edges(sources, drained)
    has_end = _move_waits(start, end, edges[Dependency.THREAD_WAIT], waits)
    begins = start[: first[1]], wait_start, start[sources.returns], rows.start, queues.done_ps
    order = _node_order(start, end, begins)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    over = _rank_over(rank, row_nodes, collective_of_row)

    tally = _Tally()
    extra_to, extra_from = _valid_edges((start, end), (rank, over), edges, tally)
    ended_after = _thread_order(sources)[first[2] - len(host.mark) : first[2]]
    predecessor, lag_ps = _order_edges(sources, drained, (start, end), (rank, over), tally)
    _keep_begins(sources, edges[Dependency.THREAD_WAIT], wait_start, end, predecessor, lag_ps)
    del over
    sources = sources.without_order()
    host, queues = sources.host, sources.queues
    launch, instance = np.full(len(order), -1, np.int32), np.full(len(order), -1, np.int32)
    has_extra = np.zeros(len(rows), bool)
    has_extra[extra_to[(extra_to >= row_nodes.start) & (extra_to < row_nodes.stop)] - row_nodes.start] = True
    ranks = rank[: first[1]], rank[row_nodes]
    launch[row_nodes], latency_ps = _launch_edges(rows, timeline.timed_launch, trace.launches, ranks, has_extra, tally)
    call_ps = _slow_calls(launch[row_nodes], trace.launches, rows, row_nodes)
    tally.count(Dependency.COLLECTIVE, *of_members)
    instance[row_nodes] = collective_of_row
    device = np.full(len(order), len(rows.devices), np.int16)
    device[first[3] :] = np.append(rows.device, rows.device[queues.pair])
    kind = np.full(len(order), WORK, np.int8)
    kind[: first[1]][host.starts_rows] = CALL
    kind[first[2] : first[3]] = np.where(host.starts_rows[sources.returns], CALL, WORK)
    kind[first[3] :] = np.append(rows.kind, rows.kind[queues.pair])
    clocks, clock = _clocks(sources)
    clock[: len(host.blank)][host.blank] = -1  # nothing waits for what is out of the order
    is_blank = np.append(host.blank[: first[1]] & ~host.repeated, ~has_end[: len(sources.waiting)])
    begin = np.append(start[: first[1]], wait_start)[: len(is_blank)]
    blank_waits = int((is_blank & _begin_inside(sources, begin)).sum()) if is_blank.any() else 0
    return Graph(
        first, start, end, kind, clock, device, predecessor, lag_ps, launch, latency_ps, call_ps, extra_to, extra_from,
        instance, gate, members, order, clocks, tally.table(), blank_waits, queues.pair, sources.returns,
        np.append(host.flow, host.flow[sources.returns]).astype(np.int32), host.times,
        sources.marks["step"].to_numpy(), ended_after,
    )  # fmt: skip


@dataclass(frozen=True)
class _Sources:
    """What the nodes stand for: launches and rows of the `timeline`, waits of threads, returns, dones in `queues`.

    `waiting`: the places of the waits in its syncs; behind these nodes stand the ends of steps, `marks` (END_COLUMNS).
    `returns` (r,): the launches that returned behind their rows; which of them `is_early` (r,): a little before the end
    of the copy that they waited for. `first` is that of the Graph.
    """

    timeline: Timeline
    queues: QueueOrder
    host: Calls
    waiting: Column
    marks: pd.DataFrame
    returns: Column
    is_early: NDArray[np.bool_]
    first: Column

    def without_times(self) -> "_Sources":
        """The same without the times of calls, which those of the nodes tell: 16 bytes a call."""
        int64s = np.zeros(0, np.int64)
        return replace(self, host=replace(self.host, start=int64s, end=int64s))

    def without_order(self) -> "_Sources":
        """The same without the columns that only edges are made of, 44 bytes for a row and its call."""
        int32s, int64s = np.zeros(0, np.int32), np.zeros(0, np.int64)
        host = replace(
            self.host, predecessor=int32s, work_ps=int64s, awaited_row=int32s, drained_row=int32s, work_since_ps=int64s
        )
        return replace(self, host=host, queues=replace(self.queues, queue=int32s, predecessor=int32s, lead_ps=int64s))


def _sources(timeline: Timeline) -> _Sources:
    rows, trace = timeline.rows, timeline.trace
    queues = queue_order(rows)
    waiting = np.flatnonzero(trace.syncs["device"].isna().to_numpy(bool))
    unknown = unknown_waits(timeline)
    marks = _step_ends(timeline)
    host = calls(
        rows,
        timeline.timed_launch,
        trace.launches,
        (timeline.spans, trace.host_work),
        trace.syncs.iloc[waiting],
        replace(unknown, syncs=(np.searchsorted(waiting, unknown.syncs[0]), unknown.syncs[1])),
        StepEnds(marks, outlasting(rows, timeline.steps)),
    )
    marks = marks.iloc[host.mark]
    returns = np.flatnonzero(host.awaited_row >= 0)
    is_early = rows.end[host.awaited_row[returns]] > host.end[returns]
    c, w = len(trace.launches), len(waiting) + len(marks)
    first = np.cumsum([0, c, w, len(returns), len(rows), len(queues.pair)])
    return _Sources(timeline, queues, host, waiting, marks, returns, is_early, first)


def _step_ends(timeline: Timeline) -> pd.DataFrame:
    """When threads ended the steps of the timeline (END_COLUMNS)."""
    ends = timeline.steps.ends
    if not ends:
        return frame(END_COLUMNS)
    often = [len(steps) for steps, _ in ends.values()]
    columns = dict(zip(("host", "process", "thread"), zip(*ends, strict=True), strict=True))
    threads = {
        name: np.repeat(np.array([label or None for label in labels], object), often)
        for name, labels in columns.items()
    }
    steps, end_ps = (np.concatenate(column) for column in zip(*ends.values(), strict=True))
    return frame(END_COLUMNS, {**threads, "step": steps, "end_ps": end_ps})


def _begin_inside(sources: _Sources, start: Column) -> NDArray[np.bool_]:
    """Which of the launches and waits, with these starts, begin in the windows that count."""
    timeline = sources.timeline
    if timeline.windows is None:
        return np.ones(len(start), bool)
    trace, clock_of = timeline.trace, timeline.clock_of_host
    hosts = pd.concat([trace.launches["host"].astype(object), trace.syncs["host"].astype(object).iloc[sources.waiting]])
    return begins_inside(start, hosts.map(clock_of).to_numpy(object), timeline.unions.windows)


def _times(sources: _Sources) -> tuple[Column, Column]:
    """Start and end of every node; a call that waited for its rows has its length in its return."""
    rows, queues, host, returns = sources.timeline.rows, sources.queues, sources.host, sources.returns
    done_end = rows.end[queues.pair]
    done_start = np.where(queues.was_held_up, done_end, queues.done_ps)
    return_start = np.minimum(rows.end[host.awaited_row[returns]], host.end[returns])
    start = np.concatenate([host.start, return_start, rows.start, done_start])
    end = np.concatenate([host.end, host.end[returns], rows.end, done_end])
    call_end, row_end = end[: len(host.end)], end[sources.first[3] : sources.first[4]]
    call_end[returns] = host.start[returns]
    call_end[host.blank] = host.start[host.blank]
    # How long a pair was in flight is known only if its done was held up, and then that is when it landed.
    in_flight = queues.pair[~queues.was_held_up]
    row_end[in_flight] = rows.start[in_flight]
    _cut_to_waits(row_end, sources)
    return start, end


def _outlast_gates(row_end: Column, collective_of_row: NDArray[np.int32], gate: Column) -> None:
    """Let no member of a collective end before the last has started: not one of which nothing tells how long it was in
    flight, nor one cut to the return of a thread."""
    member = np.flatnonzero(collective_of_row >= 0)
    row_end[member] = np.maximum(row_end[member], gate[collective_of_row[member]])


def _drained_calls(sources: _Sources, start: Column, end: Column) -> Column:
    """The launches, and the ends of steps, before which their thread stood still, as far as is told, until all that it
    had launched was done.

    Nothing says so, but what else a thread of unknown work waits for would seldom end right after its devices.
    """
    host, waits = sources.host, slice(int(sources.first[1]), int(sources.first[1]) + len(sources.waiting))
    previous = _thread_order(sources)
    idle_ps = start[: len(previous)] - (end[previous] + host.work_ps)
    is_drained = (previous >= 0) & (host.drained_row >= 0) & (idle_ps > STANDSTILL_PS)
    is_drained[waits] = False
    # Where waits of a thread are recorded, a short rest between two launches is none: interpreters are busy so long.
    is_drained &= (idle_ps > SILENCE_PS) | ~np.isin(host.flow, host.flow[waits])
    return np.flatnonzero(is_drained)


def _thread_order(sources: _Sources) -> NDArray[np.int32]:
    """The node that ended last on its flow of threads before each call and each wait, -1 for none."""
    back = np.arange(sources.first[2], dtype=np.int32)
    back[sources.returns] = np.arange(sources.first[2], sources.first[3])
    return np.append(back, np.int32(-1))[sources.host.predecessor]


def _cut_to_waits(row_end: Column, sources: _Sources) -> None:
    """Let no row end after the return of a thread that waited for it, where only the clocks can have it so."""
    rows, syncs, table = sources.timeline.rows, sources.timeline.syncs, sources.timeline.trace.syncs
    end = table["end_ps"].to_numpy().copy()
    end[sources.waiting] = sources.host.end[sources.first[1] :][: len(sources.waiting)]
    wait_end = end[syncs.sync]
    early_ps = rows.end[syncs.row] - wait_end
    is_early = (early_ps > 0) & (early_ps <= CLOCKS_PS) & (wait_end >= rows.start[syncs.row])
    is_early &= table["device"].isna().to_numpy(bool)[syncs.sync]
    np.minimum.at(row_end, syncs.row[is_early], wait_end[is_early])


def _further_edges(sources: _Sources, drained: Column) -> dict[Dependency, Edges]:
    """What had to end before what, besides the order in queues and on threads, by sort; nodes by number."""
    timeline, queues, first = sources.timeline, sources.queues, sources.first
    rows, launch, trace, row = timeline.rows, timeline.timed_launch, timeline.trace, sources.first[3]
    syncs = timeline.syncs
    resumed_row = syncs.follower[syncs.sync]
    of_thread = trace.syncs["device"].isna().to_numpy(bool)[syncs.sync]
    waits = np.searchsorted(sources.waiting, syncs.sync[of_thread])
    held_up = np.flatnonzero(queues.was_held_up)
    operand_rows, reader_rows = operand_edges(rows, queues, trace.operands)
    copies, resumed = resume_edges(rows, launch, trace.launches, queues)
    ahead, behind = turn_edges(rows, launch, trace.launches, queues)
    ended, moved = migration_edges(rows)
    return {
        Dependency.STREAM_WAIT: (
            np.append(syncs.row[resumed_row >= 0], syncs.resumed_after) + row,
            np.append(resumed_row[resumed_row >= 0], syncs.resumed) + row,
        ),
        Dependency.THREAD_WAIT: (syncs.row[of_thread] + row, waits + first[1]),
        Dependency.THREAD_ORDER: (_thread_order(sources)[drained], drained),
        Dependency.CALL_RETURN: _return_edges(sources),
        Dependency.ASYNC_DONE: (queues.pair[held_up] + row, held_up + first[4]),
        Dependency.OPERAND: (operand_rows + row, reader_rows + row),
        Dependency.COPY_WAIT: (copies + row, resumed + row),
        Dependency.TURN: (ahead + row, behind + row),
        Dependency.MIGRATION: (ended + row, moved + row),
    }


def _return_edges(sources: _Sources) -> Edges:
    """What each call waited for that returned behind its rows; one that returned early follows its row with a lead, so
    here it only follows its begin."""
    awaited_node = sources.host.awaited_row[sources.returns] + sources.first[3]
    return np.where(sources.is_early, sources.returns, awaited_node), np.arange(sources.first[2], sources.first[3])


def _move_waits(start: Column, end: Column, edges: Edges, waits: slice) -> NDArray[np.bool_]:
    """Move the starts of `waits` to the end of the last that each waited for; of which of them that is known (w,).

    A wait of which it is not known gets no length, but one so short that it waited for nothing.
    """
    awaited_node, wait_node = edges
    ended_before = end[awaited_node] <= end[wait_node]
    has_end = end[waits] - start[waits] <= BRIEF_PS
    has_end[wait_node[ended_before] - waits.start] = True
    np.maximum.at(start, wait_node[ended_before], end[awaited_node[ended_before]])
    start[waits] = np.where(has_end, start[waits], end[waits])
    return has_end


def _node_order(start: Column, end: Column, begins: Sequence[Column]) -> NDArray[np.int32]:
    """The nodes by start, those without length first; among those at one moment, what had begun first: `begins` of
    each sort of nodes."""
    order = np.argsort(start, kind="stable").astype(np.int32)
    in_order = start[order]
    tied = in_order[1:] == in_order[:-1]
    tied_places = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
    del in_order, tied
    tied_nodes = order[tied_places]
    lasts = end[tied_nodes] > start[tied_nodes]
    begin, first = np.zeros(len(tied_nodes), np.int64), 0
    for column in begins:
        of_sort = np.flatnonzero(~lasts & (tied_nodes >= first) & (tied_nodes < first + len(column)))
        begin[of_sort] = column[tied_nodes[of_sort] - first]  # those that last stay as they stand
        first += len(column)
    order[tied_places] = tied_nodes[np.lexsort((tied_nodes, begin, lasts, start[tied_nodes]))]
    return order


def _rank_over(rank: NDArray[np.int32], row_nodes: slice, collective_of_row: NDArray[np.int32]) -> NDArray[np.int32]:
    """Behind which place in the order a node is over: its own, or, as a collective ends for all its members together,
    that of the last of them."""
    member = np.flatnonzero(collective_of_row >= 0)
    if len(member) == 0:
        return rank
    collective, over = collective_of_row[member], rank.copy()
    last = np.zeros(int(collective.max()) + 1, np.int32)
    np.maximum.at(last, collective, rank[row_nodes][member])
    over[row_nodes][member] = last[collective]
    return over


class _Tally:
    """Counts edges by sort, those that hold and those that the times contradict."""

    def __init__(self) -> None:
        self._counts: dict[Dependency, tuple[int, int]] = {}

    def count(self, edge: Dependency, edges: int, valid: int) -> None:
        """Count `edges` of one sort, of which `valid` are kept."""
        if edges:
            valid_before, dropped_before = self._counts.get(edge, (0, 0))
            self._counts[edge] = valid_before + valid, dropped_before + edges - valid

    def table(self) -> pd.DataFrame:
        """What was counted, as EDGE_COLUMNS."""
        return frame(EDGE_COLUMNS, [(edge.value, *counts) for edge, counts in self._counts.items()])


def _valid_edges(
    times: tuple[Column, Column], ranks: Ranks, edges: dict[Dependency, Edges], tally: _Tally
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The nodes that wait for further ones, in order, and these."""
    (start, end), (rank, over) = times, ranks
    preds, nodes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for name, (pred, node) in edges.items():
        valid = (end[pred] <= start[node]) & (over[pred] < rank[node])
        tally.count(name, len(valid), int(valid.sum()))
        preds.append(pred[valid])
        nodes.append(node[valid])
    pred, node = np.concatenate(preds), np.concatenate(nodes)
    by_node = np.argsort(node, kind="stable")
    return node[by_node].astype(np.int32), pred[by_node].astype(np.int32)


def _order_edges(
    sources: _Sources, drained: Column, times: tuple[Column, Column], ranks: Ranks, tally: _Tally
) -> tuple[NDArray[np.int32], Column]:
    """What its queue or thread had to end before each node, -1 for none, and the work or (negative) lead between."""
    (start, end), (rank, over) = times, ranks
    host, queues, returns, first = sources.host, sources.queues, sources.returns, sources.first
    predecessor = np.full(len(start), -1, np.int32)
    predecessor[: first[2]] = _thread_order(sources)
    awaited_node = host.awaited_row[returns] + first[3]
    is_early = sources.is_early & (over[awaited_node] < rank[first[2] : first[3]])
    predecessor[first[2] : first[3]] = np.where(is_early, awaited_node, returns)
    predecessor[first[3] :] = queues.predecessor
    predecessor[first[3] :][queues.predecessor >= 0] += first[3]
    lag = np.zeros(len(start), np.int64)
    lag[: first[2]] = host.work_ps
    lag[first[2] : first[3]] = np.where(is_early, np.minimum(end[first[2] : first[3]] - end[awaited_node], 0), 0)
    early = np.flatnonzero(queues.lead_ps)  # memory that is not written takes none
    lag[first[3] + early] = -queues.lead_ps[early]
    predecessor[drained] = host.drained_row[drained] + first[3]
    lag[drained] = host.work_since_ps[drained]
    tally.count(Dependency.DRAINED, len(drained), len(drained))
    for name, low, high in (
        (Dependency.THREAD_ORDER, 0, first[2]),
        (Dependency.QUEUE_ORDER, first[3], first[5]),
    ):
        check = loop(drop_contradicted, high - low)
        count, valid = check(*times, *ranks, predecessor, lag, int(low), int(high))
        tally.count(name, count, valid)
    return predecessor, lag


def _keep_begins(
    sources: _Sources,
    edges: Edges,
    wait_start: Column,
    end: Column,
    predecessor: NDArray[np.int32],
    lag_ps: Column,
) -> None:
    """Let no thread begin a known wait sooner, whatever becomes of what it waited for: all its time before that is work
    in `lag_ps`, but for other waits. Of (w,) waits, the begins are `wait_start`.

    A wait that begins right after what it was for had ended may follow another one, of which there is no record. The
    time before a launch stays the delay that it is: a launch waits for nothing else.
    """
    host, launches = sources.host, int(sources.first[1])
    waits = np.unique(edges[1])
    awaited_end = np.full(int(waits.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(awaited_end, edges[1], end[edges[0]])
    since_ps = wait_start[waits - launches] - awaited_end[waits]
    waits = waits[(predecessor[waits] >= 0) & ((since_ps < 0) | (since_ps > AWAKE_PS))]
    begin, before = wait_start[waits - launches], end[predecessor[waits]]
    flow, idle_ps = host.flow[waits], np.maximum(begin - before, 0)
    for number in np.unique(flow).tolist():
        at = np.flatnonzero((flow == number) & (idle_ps > 0))
        idle_ps[at] -= iv.within(host.times[number].waiting, iv.intervals(before[at], begin[at]))
    lag_ps[waits] = np.maximum(lag_ps[waits], idle_ps)


def drop_contradicted(
    start: Column,
    end: Column,
    rank: NDArray[np.int32],
    over: NDArray[np.int32],
    predecessor: NDArray[np.int32],
    lag: Column,
    low: int,
    high: int,
) -> tuple[int, int]:
    """Take from `predecessor` and `lag` what the times contradict; how many of low:high had a predecessor and have
    one."""
    count, valid = 0, 0
    for i in range(low, high):
        x = predecessor[i]
        if x < 0:
            continue
        count += 1
        if end[x] + lag[i] <= start[i] and over[x] < rank[i]:
            valid += 1
        else:
            predecessor[i], lag[i] = -1, 0
    return count, valid


def _launch_edges(
    rows: Rows,
    launch: Column,
    launches: pd.DataFrame,
    ranks: tuple[NDArray[np.int32], NDArray[np.int32]],
    waits: NDArray[np.bool_],
    tally: _Tally,
) -> tuple[NDArray[np.int32], Column]:
    """The call that launched each row, -1 for none (n,), and the latency of each device and of the host (d + 1,).

    `ranks`: where calls and rows stand in the order; a row before its launch has none.

    The latency is the shortest delay between the begin of a launch and the start of its row, of those rows of a device
    that found it idle, do not wait (`waits`) for another and started within LONGEST_LATENCY_PS of the call's return, if
    they are LATENCY_FROM_ROWS or more; else 0. Where all of a device's rows wait for another device, and nothing tells
    so, the shortest delay is a wait of milliseconds, and no latency.
    """
    call, latency = launch.astype(np.int32), np.zeros(len(rows.devices) + 1, np.int64)
    call_starts, call_ends = (launches[edge].to_numpy() for edge in ("start_ps", "end_ps"))
    for device in range(len(rows.devices)):
        device_rows = rows.of(device)
        launched_rows = np.flatnonzero(call[device_rows] >= 0)
        if len(launched_rows) == 0:
            continue
        called_at, returned_at = (times[call[device_rows][launched_rows]] for times in (call_starts, call_ends))
        started_at = rows.start[device_rows][launched_rows]
        delay = started_at - called_at
        stands_behind = ranks[0][call[device_rows][launched_rows]] < ranks[1][device_rows][launched_rows]
        valid = (delay >= 0) & stands_behind
        tally.count(Dependency.LAUNCH, len(launched_rows), int(valid.sum()))
        call[device_rows][launched_rows[~valid]] = -1
        reach = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(rows.end[device_rows])[:-1])
        idle = (reach[launched_rows] <= called_at) & valid & ~waits[device_rows][launched_rows]
        idle &= started_at - returned_at <= LONGEST_LATENCY_PS
        if int(idle.sum()) >= LATENCY_FROM_ROWS:
            latency[device] = delay[idle].min()
    return call, latency


def _slow_calls(launch: NDArray[np.int32], launches: pd.DataFrame, rows: Rows, row_nodes: slice) -> Column:
    """See `Graph.call_ps`; `launch` (n,) is that of the rows."""
    length = (launches["end_ps"] - launches["start_ps"]).to_numpy()
    # The others are not slow: columns of 1.7 million calls took 55 MB.
    slow = np.flatnonzero(np.append(length > PROMPT_PS, False)[launch])
    call_start, call_end = (launches[edge].to_numpy()[launch[slow]] for edge in ("start_ps", "end_ps"))
    slow_ps = slow_call_ps(call_start, call_end, rows.start[slow])
    if not slow_ps.any():
        return np.zeros(0, np.int64)
    call_ps = np.zeros(row_nodes.start + len(launch), np.int64)
    call_ps[row_nodes.start + slow] = slow_ps
    return call_ps


def _collectives(
    rows: Rows, instances: CollectiveInstances
) -> tuple[NDArray[np.int32], Column, NDArray[np.int32], tuple[int, int]]:
    """The collective of each row (n,), and of each collective the last start and how many members it has, 1 where the
    trace does not hold all. At last how many rows have other members, and of how many of these the times allow it.

    No member can end before the last has started; where one did, its rows are no collective.
    """
    instance = instances.instance
    member_rows = np.flatnonzero(instance >= 0)
    collective = instance[member_rows]
    count = int(collective.max(initial=-1)) + 1
    gate = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(gate, collective, rows.start[member_rows])
    members = np.bincount(collective, minlength=count).astype(np.int32)
    is_wrong = np.zeros(count, bool)
    is_wrong[collective[rows.end[member_rows] <= gate[collective]]] = True
    is_wrong &= members > 1
    in_several = collective[members[collective] > 1]
    collective_of_row = np.maximum(instance, -1).astype(np.int32)
    collective_of_row[member_rows[is_wrong[collective]]] = -1
    edges = len(in_several), int((~is_wrong[in_several]).sum())
    return collective_of_row, gate, np.where(instances.complete, members, 1).astype(np.int32), edges


def _clocks(sources: _Sources) -> tuple[tuple[str, ...], NDArray[np.int16]]:
    """The clocks of the rows, and the one of each node; -1 for the host of a machine that ran no row."""
    rows, trace = sources.timeline.rows, sources.timeline.trace
    clocks = tuple(dict.fromkeys(rows.clocks))
    of_host = dict(zip(rows.hosts, map(clocks.index, rows.clocks), strict=True))

    def of(table: pd.DataFrame) -> NDArray[np.int16]:
        clock_of_code = np.array(
            [of_host.get(str(host), -1) for host in table["host"].cat.categories] or [-1], np.int16
        )
        clock_of_row: NDArray[np.int16] = clock_of_code[table["host"].cat.codes.to_numpy()]
        return clock_of_row

    call, wait = of(trace.launches), np.append(of(trace.syncs.iloc[sources.waiting]), of(sources.marks))
    row = np.array([clocks.index(clock) for clock in rows.clocks] or [-1], np.int16)[rows.device]
    return clocks, np.concatenate([call, wait, call[sources.returns], row, row[sources.queues.pair]])
