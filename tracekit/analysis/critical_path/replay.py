"""Replays the steps: how long each would take if some of what held its work up took no time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit import heap
from tracekit.analysis.critical_path.graph import CALL, WORK, Graph
from tracekit.jit import loop

Column = NDArray[np.int64]
# Columns that a compiled loop unpacks.
Arrays = tuple[NDArray[Any], ...]

# So many times are held at once, 8 bytes each: of the nodes that others still wait for, so many columns beside each
# other are replayed together.
_ROOM = 5_000_000
# No node has this op; -1 is that of nodes without one.
_NO_OP = -2
# A queue takes up to so long from the end of one work to the start of the next that was launched in time: the gaps of
# such kernels on GPUs are 1 to 3 us, and a few more behind an event of another stream.
QUEUE_GAP_PS = 10_000_000
# How a node's last cause let it go on: by its end, by the begin of a call (a launch), by nothing, as there is none, or
# by its end, after which the queue took the node up promptly.
AFTER_END, AFTER_BEGIN, NO_CAUSE, QUEUED = 0, 1, 2, 3
# The step that needs a node: it is told by when the node ended; and there is none, whenever that was.
BY_TIME, OF_NONE = -1, -2
# A launch that was over when the run began.
OVER = -2


@dataclass(frozen=True)
class Runs:
    """r runs of steps that follow each other at once, on one clock each; times in ps.

    `start`, `end`, `clock` (r,): their windows, and the place of the clock in `Graph.clocks`; those of one clock stand
    in their order and do not overlap. `first_step` (r + 1,): the steps of run k are first_step[k]:first_step[k + 1].
    `step_end` (m,): when each step ended. `step_of` (N,): the step that needs each node of the graph; BY_TIME where
    that is not known: then it is the one during which the node ended; OF_NONE where none ends with it.
    """

    start: Column
    end: Column
    clock: Column
    first_step: Column
    step_end: Column
    step_of: NDArray[np.int32]


class Plan(NamedTuple):
    """The p nodes that r runs hold, run by run in the order of the graph; times in ps, cut to the run.

    `start`, `end` (r,): the windows. `first` (r + 1,): the nodes of run k are first[k]:first[k + 1]; a node that
    reaches into several runs is in each. `first_step` (r + 1,), `step_end` (m,): as in Runs. `node` (p,): its number in
    the graph. `step` (p,): the first step that needs it and did not end before it, -1 for
    none.

    `predecessor`, `launch` (p,): the places, from the run's first, of what it waits for, -1 for none; of what was over
    when the run began, -1 and OVER. `lag_ps`, `delay_ps` (p,): what lies between. `edge_to`, `edge_from` (e,): the
    nodes that waited for further ones, in order, and the places of these from the run's first. How long each worked is
    not kept, 8 bytes a node: it follows from its times, for a member of a collective from its transfer's.

    `cause` (p,): the place of that which held it up last, by the measured times, and `cause_kind` (p,) how. `slack_ps`
    (p,) is what was left until it started: the queue's gap if it is QUEUED, else nothing explains it.
    """

    start: Column
    end: Column
    first: Column
    first_step: Column
    step_end: Column
    node: NDArray[np.int32]
    step: NDArray[np.int32]
    predecessor: NDArray[np.int32]
    lag_ps: Column
    launch: NDArray[np.int32]
    edge_to: NDArray[np.int32]
    edge_from: NDArray[np.int32]
    delay_ps: Column
    cause: NDArray[np.int32]
    cause_kind: NDArray[np.int8]
    slack_ps: Column


def plan(graph: Graph, runs: Runs, *, is_last_use: bool = False) -> Plan:
    """The plan of runs of steps.

    With `is_last_use` the graph loses what its nodes wait for as soon as the plan has it: of a million rows, 50 MB less
    at once.
    """
    first, node = loop(nodes_of_runs, len(graph.order))(
        (graph.order, graph.start, graph.end, graph.clock),
        (runs.start, runs.end, runs.clock),
        len(graph.clocks),
        (graph.step_ends.start, graph.step_ends.stop),
    )
    if is_last_use:
        graph.forget_order()
    step = loop(steps_of_nodes, len(node))(
        (runs.end, runs.first_step, runs.step_end, runs.step_of), first, node, graph.end
    )
    runs = replace(runs, step_of=np.zeros(0, np.int32))
    edges = graph.predecessor, graph.lag_ps, graph.launch, graph.extra_to, graph.extra_from
    waits = loop(waits_of_nodes, len(node))((runs.start, first, node), (graph.start, graph.end), edges)
    freed, call_ps = sum(column.nbytes for column in edges), graph.call_ps
    del edges
    if is_last_use:
        graph.forget_edges()
        heap.give_back(freed)
    nodes = (
        graph.start, graph.end, graph.kind, graph.device, graph.latency_ps, call_ps,
    )  # fmt: skip
    causes = loop(causes_of_nodes, len(node))((runs.start, first, node), nodes, waits)
    return Plan(runs.start, runs.end, first, runs.first_step, runs.step_end, node, step, *waits, *causes)


def nodes_of_runs(
    nodes: Arrays, runs: Arrays, clocks: int, step_ends: tuple[int, int]
) -> tuple[Column, NDArray[np.int32]]:
    """The first place of each run and its nodes, in order. Where one run ends and another begins, what takes no time is
    of the later one, but for the ends of steps, the nodes from the first of `step_ends` to the second."""
    order, start, end, clock = nodes
    begin, finish, clock_of_run = runs
    # The windows of a clock are a list of their own; `at` is the first that is not over yet.
    windows = np.zeros((clocks + 1, len(begin) + 1), np.int64)
    windows_of_clock, current = np.zeros(clocks + 1, np.int64), np.zeros(clocks + 1, np.int64)
    for k in range(len(begin)):
        windows[clock_of_run[k], windows_of_clock[clock_of_run[k]]] = k
        windows_of_clock[clock_of_run[k]] += 1
    first = np.zeros(len(begin) + 1, np.int64)
    node = np.zeros(0, np.int32)
    for turn in range(2):
        current[:] = 0
        for i in order:
            c = clock[i]
            if c < 0:
                continue
            at = start[i] - 1 if step_ends[0] <= i < step_ends[1] else start[i]
            while current[c] < windows_of_clock[c] and finish[windows[c, current[c]]] <= at:
                current[c] += 1
            j = current[c]
            while j < windows_of_clock[c]:
                k = windows[c, j]
                if begin[k] > at and begin[k] >= end[i]:
                    break
                if turn == 1:
                    node[first[k]] = i
                first[k] += 1
                j += 1
        if turn == 0:  # from the counts to the first places
            total = 0
            for k in range(len(begin)):
                count = first[k]
                first[k] = total
                total += count
            node = np.zeros(total, np.int32)
    # Filling has moved each first place to the next one's.
    for k in range(len(begin), 0, -1):
        first[k] = first[k - 1]
    first[0] = 0
    return first, node


def steps_of_nodes(runs: Arrays, first: Column, node: NDArray[np.int32], end: Column) -> NDArray[np.int32]:
    """See `Plan.step`: the step that a node is of, or a later one, if it had not ended by then."""
    finish, first_step, step_end, step_of = runs
    step = np.full(len(node), -1, np.int32)
    for run in range(len(finish)):
        for p in range(first[run], first[run + 1]):
            own = step_of[node[p]]
            if own == OF_NONE:
                continue
            moment = end[node[p]] if own >= 0 else min(end[node[p]], finish[run])
            low, high = first_step[run], first_step[run + 1]
            while low < high:  # the first step that ends then or later
                middle = (low + high) // 2
                if step_end[middle] < moment:
                    low = middle + 1
                else:
                    high = middle
            if max(low, own) < first_step[run + 1]:
                step[p] = max(low, own)
    return step


def waits_of_nodes(
    runs: Arrays, nodes: Arrays, edges: Arrays
) -> tuple[NDArray[np.int32], Column, NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """The columns of the plan from `predecessor` to `edge_from`; `runs` holds start, first and node."""
    begin, first, node = runs
    start, end = nodes
    predecessor, lag, launch, extra_to, extra_from = edges
    count, total = len(node), 0
    place_before, place_launch = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    lag_in_run = np.zeros(count, np.int64)
    # The first further edge of each node, if there are any.
    head = np.full(len(start) if len(extra_to) > 0 else 0, len(extra_to), np.int32)
    for q in range(len(extra_to) - 1, -1, -1):
        head[extra_to[q]] = q
    for p in range(count if len(head) > 0 else 0):
        q = head[node[p]]
        while q < len(extra_to) and extra_to[q] == node[p]:
            q, total = q + 1, total + 1
    edge_to, edge_from = np.zeros(total, np.int32), np.zeros(total, np.int32)
    place = np.zeros(len(start), np.int32)
    total = 0
    for run in range(len(begin)):
        s = begin[run]
        for p in range(first[run], first[run + 1]):
            i = node[p]
            place[i] = p - first[run]
            x = launch[i]
            if x >= 0:
                place_launch[p] = OVER
            # What ran when the run began waits for nothing in it.
            if start[i] >= s:
                if x >= 0 and (start[x] >= s or end[x] > s):
                    place_launch[p] = place[x]
                x = predecessor[i]
                if x >= 0 and (start[x] >= s or end[x] > s):
                    place_before[p], lag_in_run[p] = place[x], lag[i]
                else:
                    lag_in_run[p] = min(max(lag[i], 0), start[i] - s)
                q = head[i] if len(head) > 0 else 0
                while q < len(extra_to) and extra_to[q] == i:
                    x, q = extra_from[q], q + 1
                    if start[x] >= s or end[x] > s:
                        edge_to[total], edge_from[total] = p, place[x]
                        total += 1
    return place_before, lag_in_run, place_launch, edge_to[:total], edge_from[:total]


def causes_of_nodes(
    runs: Arrays, nodes: Arrays, waits: Arrays
) -> tuple[Column, NDArray[np.int32], NDArray[np.int8], Column]:
    """The columns of the plan from `delay_ps` on; `runs` holds start, first and node, `waits` the columns before
    these."""
    begin, first, node = runs
    start, end, kind, device, latency, call = nodes
    predecessor, lag, launch, edge_to, edge_from = waits
    count, q = len(node), 0
    delay = np.zeros(count, np.int64)
    cause, cause_kind = np.full(count, -1, np.int32), np.full(count, NO_CAUSE, np.int8)
    slack = np.zeros(count, np.int64)
    for run in range(len(begin)):
        s, base = begin[run], first[run]
        for p in range(base, first[run + 1]):
            i = node[p]
            if start[i] < s:
                continue
            ready, is_queued, x = s, False, predecessor[p]
            if x < 0:
                ready += lag[p]
            elif end[node[base + x]] + lag[p] > ready:
                ready, cause[p], cause_kind[p] = end[node[base + x]] + lag[p], x, AFTER_END
                is_queued = kind[node[base + x]] < CALL
            while q < len(edge_to) and edge_to[q] == p:
                x, q = edge_from[q], q + 1
                if end[node[base + x]] > ready:
                    ready, cause[p], cause_kind[p] = end[node[base + x]], x, AFTER_END
                    is_queued = kind[node[base + x]] < CALL
            x = launch[p]
            if x >= 0:
                called = max(start[node[base + x]], s)
                delay[p] = min(latency[device[i]], start[i] - called)
                # What went on promptly behind its queue had been launched then, though the call went on.
                if len(call) > i and call[i] > 0 and not (is_queued and start[i] - ready <= QUEUE_GAP_PS):
                    submitted = max(start[node[base + x]] + call[i], s)
                    if submitted > ready:
                        delay[p] = min(submitted + latency[device[i]], start[i]) - called
                if called + delay[p] > ready:
                    ready, cause[p], cause_kind[p], is_queued = called + delay[p], x, AFTER_BEGIN, False
            slack[p] = start[i] - ready
            # A row that was launched before what it waits for had ended.
            if is_queued and x != -1 and kind[i] < CALL and slack[p] <= QUEUE_GAP_PS:
                cause_kind[p] = QUEUED
    return delay, cause, cause_kind, slack


@dataclass(frozen=True)
class Without:
    """What takes no time in a replay: the nodes of some `kinds`, or the rows of one `op` (a number in `op_of`).

    `unsynchronised`: members of a collective do not wait for each other either. `prompt`: launches have no latency, and
    the host does nothing between its calls, known or not. `slack`: nothing keeps a delay that nothing explains.
    """

    kinds: tuple[int, ...] = ()
    op: int = -1
    unsynchronised: bool = False
    prompt: bool = False
    slack: bool = False


def replay(graph: Graph, runs: Plan, scenarios: Sequence[Without], op_of: NDArray[np.int32]) -> Column:
    """The length of each step if nodes began as soon as all that they wait for had ended, shape (m, v), in ps.

    What nothing explains is kept as it was measured: a node begins so long after the last that held it up. So with
    everything the replay gives the measured times. The steps of a run follow each other without a cut: a step's length
    is that from the end of the step before to its own. One column for each of the v entries of `scenarios`. `op_of`
    (N,): the number of each node's op, -1 for none.
    """
    if not scenarios:
        return np.zeros((len(runs.step_end), 0), np.int64)
    slot, live = loop(slots_of_nodes, len(runs.node))(
        runs.first, runs.predecessor, runs.launch, runs.edge_to, runs.edge_from
    )
    # As masks, all bits or none: a time that counts in an entry is `time & mask`.
    works = np.array([[0 if kind in scenario.kinds else -1 for scenario in scenarios] for kind in range(WORK + 1)])
    joint = np.array([0 if scenario.unsynchronised else -1 for scenario in scenarios])
    ops = np.array([scenario.op if scenario.op >= 0 else _NO_OP for scenario in scenarios])
    host = np.array([0 if scenario.prompt else -1 for scenario in scenarios])
    slack = np.array([0 if scenario.slack else -1 for scenario in scenarios])
    nodes = (graph.start, graph.end, graph.kind, graph.instance, graph.gate, op_of)
    columns = min(max(_ROOM // live, 1), len(scenarios))
    # Each node is replayed once a scenario: 41,000 nodes in 20 take 1.1 s uncompiled, half of it saved by compiling.
    lengths: Column = loop(replay_runs, len(runs.node) * len(scenarios) // 8)(
        tuple(runs), nodes, (works, ops, joint, host, slack), (slot, live), columns
    )
    return lengths


def with_tails(runs: Plan, lengths: Column) -> Column:
    """The `lengths` (m, v) of `replay`, the first those with everything, if each step ends as long after its last node
    as it did: the first are then those that were measured."""
    ends = np.cumsum(lengths, axis=0)
    steps = np.diff(runs.first_step)
    ends -= np.repeat((ends - lengths)[runs.first_step[:-1][steps > 0]], steps[steps > 0], axis=0)
    ends += (runs.step_end - np.repeat(runs.start, steps) - ends[:, 0])[:, None]
    for low, high in zip(runs.first_step[:-1].tolist(), runs.first_step[1:].tolist(), strict=True):
        np.maximum.accumulate(ends[low:high], axis=0, out=ends[low:high])
        ends[low + 1 : high] -= ends[low : high - 1].copy()
    return ends


def slots_of_nodes(
    first: Column,
    predecessor: NDArray[np.int32],
    launch: NDArray[np.int32],
    edge_to: NDArray[np.int32],
    edge_from: NDArray[np.int32],
) -> tuple[NDArray[np.int32], int]:
    """Where a replay keeps the time of each node, shape (p,), and how many such slots there are.

    A slot is free again once the last node that waits for its holder has begun: a run of a million nodes then needs as
    many as its queues are deep, which stay in the processor's cache, and all scenarios are replayed in one pass.
    """
    last_reader = np.full(len(predecessor), -1, np.int32)
    slot, live, q = np.zeros(len(predecessor), np.int32), 1, 0
    free = np.empty(len(predecessor) + 1, np.int32)
    for run in range(len(first) - 1):
        base, last = first[run], q
        for p in range(base, first[run + 1]):
            if predecessor[p] >= 0:
                last_reader[base + predecessor[p]] = p
            if launch[p] >= 0:
                last_reader[base + launch[p]] = p
            while last < len(edge_to) and edge_to[last] == p:
                last_reader[base + edge_from[last]] = p
                last += 1
        # Slot 0 is that of all for which nothing waits.
        free_count, used = 0, 1
        for p in range(base, first[run + 1]):
            own = q
            while q < len(edge_to) and edge_to[q] == p:
                q += 1
            for r in range(own - 2, q):
                x = predecessor[p] if r == own - 2 else launch[p] if r == own - 1 else edge_from[r]
                if x >= 0 and last_reader[base + x] == p:
                    last_reader[base + x] = -1
                    free[free_count] = slot[base + x]
                    free_count += 1
            if last_reader[p] >= 0:
                if free_count > 0:
                    free_count -= 1
                    slot[p] = free[free_count]
                else:
                    slot[p] = used
                    used += 1
        live = max(live, used)
    return slot, live


def replay_runs(
    plan: Arrays, nodes: Arrays, scenarios: Arrays, slots: tuple[NDArray[np.int32], int], columns: int
) -> Column:
    """See `replay`; times count from the run's begin, and so many `columns` are replayed at once.

    The end of a collective's member is its transfer behind the last start of the members: `end_of` holds the transfer,
    `last_start` the last start, which is complete before anything that waits for a member is looked at. `slots` are
    those of `slots_of_nodes`.
    """
    slot, live = slots
    (
        begin, finish, first, first_step, step_end, node, step, predecessor, lag, launch, edge_to, edge_from, delay, _,
        cause_kind, slack,
    ) = plan  # fmt: skip
    start, end, kind, instance, gate, op = nodes
    works, ops, joint, host, kept = scenarios
    lengths = np.zeros((len(step_end), len(ops)), np.int64)
    end_of, ends_of_steps = np.zeros((live, columns), np.int64), np.zeros((len(step_end), columns), np.int64)
    last_start = np.zeros((len(gate), columns), np.int64)
    ready, ends = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
    turn, turn_of = 0, np.zeros(len(gate), np.int64)
    for low in range(0, len(ops), columns):
        count = min(columns, len(ops) - low)
        # Of the columns from low on; the loops over them are innermost, so that each node is read once.
        works_, ops_, joint_, host_ = works[:, low:].copy(), ops[low:], joint[low:], host[low:]
        kept_ = kept[low:]
        ends_of_steps[:], q = 0, 0
        for run in range(len(first) - 1):
            base, turn, s, e = first[run], turn + 1, begin[run], finish[run]
            for p in range(base, first[run + 1]):
                work, x = lag[p], predecessor[p]
                for v in range(count):
                    ready[v] = work & host_[v] if work > 0 else work
                if x >= 0:
                    m, x = instance[node[base + x]], slot[base + x]
                    for v in range(count):
                        ready[v] = max(ready[v] + end_of[x, v] + (last_start[m, v] & joint_[v] if m >= 0 else 0), 0)
                while q < len(edge_to) and edge_to[q] == p:
                    x, q = edge_from[q], q + 1
                    m, x = instance[node[base + x]], slot[base + x]
                    for v in range(count):
                        ready[v] = max(ready[v], end_of[x, v] + (last_start[m, v] & joint_[v] if m >= 0 else 0))
                x = launch[p]
                if x >= 0:
                    i, delay_of_launch = node[base + x], delay[p]
                    k, call_length = kind[i], min(end[i], e) - max(start[i], s)
                    x = slot[base + x]
                    for v in range(count):
                        ready[v] = max(
                            ready[v], end_of[x, v] - (call_length & works_[k, v]) + (delay_of_launch & host_[v])
                        )
                i, at_start, is_queued, x = node[p], slack[p], cause_kind[p] == QUEUED, slot[p]
                k, m, own_length = kind[i], instance[i], min(end[i], e)
                own_length -= max(start[i], s) if m < 0 else min(max(gate[m], start[i], s), own_length)
                for v in range(count):
                    ready[v] += at_start if is_queued else at_start & kept_[v] & (host_[v] if k >= CALL else -1)
                    ends[v] = 0 if op[i] == ops_[v] else own_length & works_[k, v]
                if m < 0:
                    for v in range(count):
                        ends[v] += ready[v]
                        end_of[x, v] = ends[v]
                else:
                    if turn_of[m] != turn:
                        turn_of[m] = turn
                        for v in range(count):  # as slices, it would take half as long to compile as all the rest
                            last_start[m, v] = ready[v]
                    for v in range(count):
                        last_start[m, v] = max(last_start[m, v], ready[v])
                        end_of[x, v] = ends[v] + (ready[v] & ~joint_[v])
                        ends[v] = 0 if joint_[v] else end_of[x, v]
                j = step[p]
                if j >= 0:
                    for v in range(count):
                        ends_of_steps[j, v] = max(ends_of_steps[j, v], ends[v])
            # When a member that waits ends is known only now: the last may have started in a later step.
            for p in range(base, first[run + 1]):
                m, j = instance[node[p]], step[p]
                if m >= 0 and j >= 0:
                    i, k, own_length = node[p], kind[node[p]], min(end[node[p]], e)
                    own_length -= min(max(gate[m], start[i], s), own_length)
                    for v in range(count):
                        if joint_[v]:
                            own = 0 if op[i] == ops_[v] else own_length & works_[k, v]
                            ends_of_steps[j, v] = max(ends_of_steps[j, v], last_start[m, v] + own)
            for v in range(count):
                end_before = 0
                for j in range(first_step[run], first_step[run + 1]):
                    end_of_step = max(ends_of_steps[j, v], end_before)
                    lengths[j, low + v] = end_of_step - end_before
                    end_before = end_of_step
    return lengths
