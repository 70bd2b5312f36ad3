"""Replays the steps: what each would take if everything began as soon as what it waits for had ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.analysis.critical_path.graph import WORK, Graph
from tracekit.jit import loop

Column = NDArray[np.int64]
# Columns that a compiled loop unpacks.
Arrays = tuple[NDArray[Any], ...]

# So many times are held at once, 8 bytes each: columns of a step's nodes beside each other are replayed together.
_ROOM = 5_000_000
# No node has this op; -1 is that of nodes without one.
_NO_OP = -2


class Plan(NamedTuple):
    """The p nodes that m steps hold, step by step in the order of the graph; times in ps, cut to the step.

    `start`, `end` (m,): the windows. `first` (m + 1,): the nodes of step k are first[k]:first[k + 1]; a node that
    reaches into several steps is in each. `node` (p,): its number in the graph. `predecessor`, `launch` (p,): the
    places, from the step's first, of what it waits for, -1 for none and for what was over when the step began;
    `lag_ps`, `delay_ps` (p,): what lies between. `length_ps` (p,): how long it worked; for a member of a collective,
    its transfer. `edge_first` (p + 1,), `edge`: the places of further nodes that had to end.
    """

    start: Column
    end: Column
    first: Column
    node: NDArray[np.int32]
    predecessor: NDArray[np.int32]
    lag_ps: Column
    launch: NDArray[np.int32]
    delay_ps: Column
    length_ps: Column
    edge_first: NDArray[np.int32]
    edge: NDArray[np.int32]


def plan(graph: Graph, start: Column, end: Column, clock: Column) -> Plan:
    """The plan of the windows [start, end) of a clock (a place in `graph.clocks`), all (m,).

    The windows of one clock stand in their order in time and do not overlap.
    """
    first, node = loop(nodes_of_steps, len(graph.order))(
        (graph.order, graph.start, graph.end, graph.clock), (start, end, clock), len(graph.clocks)
    )
    waits = (
        graph.predecessor, graph.lag_ps, graph.launch, graph.latency_ps, graph.device, graph.extra_first, graph.extra,
    )  # fmt: skip
    nodes = (graph.start, graph.end, graph.instance, graph.gate)
    columns = loop(plan_columns, len(node))((start, end, first, node), nodes, waits)
    return Plan(start, end, first, node, *columns)


def nodes_of_steps(nodes: Arrays, steps: Arrays, clocks: int) -> tuple[Column, NDArray[np.int32]]:
    """The first place of each step and its nodes, in order."""
    order, start, end, clock = nodes
    begin, finish, clock_of_step = steps
    # The windows of a clock are a list of their own; `at` is the first that is not over yet.
    windows = np.zeros((clocks + 1, len(begin) + 1), np.int64)
    windows_of_clock, current = np.zeros(clocks + 1, np.int64), np.zeros(clocks + 1, np.int64)
    for k in range(len(begin)):
        windows[clock_of_step[k], windows_of_clock[clock_of_step[k]]] = k
        windows_of_clock[clock_of_step[k]] += 1
    first = np.zeros(len(begin) + 1, np.int64)
    node = np.zeros(0, np.int32)
    for turn in range(2):
        current[:] = 0
        for i in order:
            c = clock[i]
            if c < 0:
                continue
            while current[c] < windows_of_clock[c] and finish[windows[c, current[c]]] <= start[i]:
                current[c] += 1
            j = current[c]
            while j < windows_of_clock[c]:
                k = windows[c, j]
                if begin[k] > start[i] and begin[k] >= end[i]:
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


def plan_columns(
    steps: Arrays, nodes: Arrays, waits: Arrays
) -> tuple[NDArray[np.int32], Column, NDArray[np.int32], Column, Column, NDArray[np.int32], NDArray[np.int32]]:
    """The columns of the plan from `predecessor` on; `steps` are those before."""
    begin, finish, first, node = steps
    start, end, instance, gate = nodes
    predecessor, lag, launch, latency, device, extra_first, extra = waits
    count, edges = len(node), 0
    place_before, place_launch = np.empty(count, np.int32), np.empty(count, np.int32)
    lag_in_step, delay, length = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    if len(extra) > 0:
        for p in range(count):
            edges += extra_first[node[p] + 1] - extra_first[node[p]]
    edge_first, edge = np.zeros(count + 1, np.int32), np.zeros(edges, np.int32)
    place = np.zeros(len(start), np.int32)
    edges = 0
    for step in range(len(begin)):
        s, e = begin[step], finish[step]
        for p in range(first[step], first[step + 1]):
            i = node[p]
            place[i] = p - first[step]
            low, high = max(start[i], s), min(end[i], e)
            if instance[i] >= 0:
                low = min(max(gate[instance[i]], low), high)
            length[p] = high - low
            place_before[p], lag_in_step[p], place_launch[p], delay[p] = -1, 0, -1, 0
            # What ran when the step began waits for nothing in it.
            if start[i] >= s:
                x = predecessor[i]
                if x >= 0 and (start[x] >= s or end[x] > s):
                    place_before[p], lag_in_step[p] = place[x], lag[i]
                else:
                    lag_in_step[p] = min(max(lag[i], 0), start[i] - s)
                x = launch[i]
                if x >= 0 and (start[x] >= s or end[x] > s):
                    place_launch[p] = place[x]
                    delay[p] = min(latency[device[i]], start[i] - max(start[x], s))
                if len(extra) > 0:
                    for q in range(extra_first[i], extra_first[i + 1]):
                        x = extra[q]
                        if start[x] >= s or end[x] > s:
                            edge[edges] = place[x]
                            edges += 1
            edge_first[p + 1] = edges
    return place_before, lag_in_step, place_launch, delay, length, edge_first, edge[:edges]


@dataclass(frozen=True)
class Without:
    """What takes no time in a replay: the nodes of some `kinds`, or the rows of one `op` (a number in `op_of`).

    `unsynchronised`: members of a collective do not wait for each other either. `prompt`: launches have no latency, and
    the host does nothing between its calls.
    """

    kinds: tuple[int, ...] = ()
    op: int = -1
    unsynchronised: bool = False
    prompt: bool = False


def replay(graph: Graph, steps: Plan, scenarios: Sequence[Without], op_of: NDArray[np.int32]) -> Column:
    """The length of each step if every node began as soon as all that it waits for had ended, shape (m, v), in ps.

    One column for each of the v entries of `scenarios`. `op_of` (N,): the number of each node's op, -1 for none.
    """
    if not scenarios:
        return np.zeros((len(steps.start), 0), np.int64)
    largest = int(np.diff(steps.first).max(initial=1))
    # As masks, all bits or none: a time that counts in an entry is `time & mask`.
    works = np.array([[0 if kind in scenario.kinds else -1 for scenario in scenarios] for kind in range(WORK + 1)])
    joint = np.array([0 if scenario.unsynchronised else -1 for scenario in scenarios])
    ops = np.array([scenario.op if scenario.op >= 0 else _NO_OP for scenario in scenarios])
    host = np.array([0 if scenario.prompt else -1 for scenario in scenarios])
    nodes = (graph.kind, graph.instance, op_of)
    columns = min(max(_ROOM // largest, 1), len(scenarios))
    lengths: Column = loop(replay_steps, len(steps.node))(
        tuple(steps), nodes, (works, ops, joint, host), len(graph.gate), largest, columns
    )
    return lengths


def replay_steps(plan: Arrays, nodes: Arrays, scenarios: Arrays, instances: int, largest: int, columns: int) -> Column:
    """See `replay`; times count from the step's begin, and so many `columns` are replayed at once.

    The end of a collective's member is its transfer behind the last start of the members: `end_of` holds the transfer,
    `last_start` the last start, which is complete before anything that waits for a member is looked at.
    """
    _, _, first, node, predecessor, lag, launch, delay, length, edge_first, edge = plan
    kind, instance, op = nodes
    works, ops, joint, host = scenarios
    lengths = np.zeros((len(first) - 1, len(ops)), np.int64)
    end_of = np.zeros((largest, columns), np.int64)
    last_start, longest = np.zeros((instances, columns), np.int64), np.zeros((instances, columns), np.int64)
    ready, step_length = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
    turn, turn_of = 0, np.zeros(instances, np.int64)
    for low in range(0, len(ops), columns):
        count = min(columns, len(ops) - low)
        # Of the columns low to low + many; the loops over them are innermost, so that each node is read once.
        works_, ops_, joint_, host_ = works[:, low:].copy(), ops[low:], joint[low:], host[low:]
        for step in range(len(first) - 1):
            base, turn = first[step], turn + 1
            step_length[:] = 0
            for p in range(base, first[step + 1]):
                gap, x = lag[p], predecessor[p]
                for v in range(count):
                    ready[v] = gap & host_[v] if gap > 0 else gap
                if x >= 0:
                    m = instance[node[base + x]]
                    for v in range(count):
                        ready[v] = max(ready[v] + end_of[x, v] + (last_start[m, v] & joint_[v] if m >= 0 else 0), 0)
                for q in range(edge_first[p], edge_first[p + 1]):
                    x = edge[q]
                    m = instance[node[base + x]]
                    for v in range(count):
                        ready[v] = max(ready[v], end_of[x, v] + (last_start[m, v] & joint_[v] if m >= 0 else 0))
                x = launch[p]
                if x >= 0:
                    k, call_length, delay_of_launch = kind[node[base + x]], length[base + x], delay[p]
                    for v in range(count):
                        ready[v] = max(
                            ready[v], end_of[x, v] - (call_length & works_[k, v]) + (delay_of_launch & host_[v])
                        )
                i = node[p]
                k, own_length, m = kind[i], length[p], instance[i]
                if m < 0:
                    for v in range(count):
                        end = ready[v] + (0 if op[i] == ops_[v] else own_length & works_[k, v])
                        end_of[p - base, v] = end
                        step_length[v] = max(step_length[v], end)
                    continue
                if turn_of[m] != turn:
                    turn_of[m] = turn
                    for v in range(count):
                        last_start[m, v], longest[m, v] = ready[v], 0
                for v in range(count):
                    transfer = 0 if op[i] == ops_[v] else own_length & works_[k, v]
                    last_start[m, v] = max(last_start[m, v], ready[v])
                    longest[m, v] = max(longest[m, v], transfer)
                    end_of[p - base, v] = transfer + (ready[v] & ~joint_[v])
                    end = last_start[m, v] + longest[m, v] if joint_[v] else ready[v] + transfer
                    step_length[v] = max(step_length[v], end)
            for v in range(count):
                lengths[step, low + v] = step_length[v]
    return lengths
