"""The nodes of each step, and what each of them waits for inside of it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.analysis.critical_path.graph import Graph
from tracekit.jit import loop

Column = NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
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
        graph.order, graph.start, graph.end, graph.clock, start, end, clock, len(graph.clocks)
    )
    columns = loop(plan_columns, len(node))(
        start, end, first, node, graph.start, graph.end, graph.predecessor, graph.lag_ps, graph.launch,
        graph.latency_ps, graph.device, graph.extra_first, graph.extra, graph.instance, graph.gate,
    )  # fmt: skip
    return Plan(start, end, first, node, *columns)


def nodes_of_steps(
    order: NDArray[np.int32], start: Column, end: Column, clock: NDArray[np.int16], begin: Column, finish: Column,
    clock_of_step: Column, clocks: int,
) -> tuple[Column, NDArray[np.int32]]:  # fmt: skip
    """The first place of each step and its nodes, in order."""
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
    begin: Column, finish: Column, first: Column, node: NDArray[np.int32], start: Column, end: Column,
    predecessor: NDArray[np.int32], lag: Column, launch: NDArray[np.int32], latency: Column, device: NDArray[np.int16],
    extra_first: NDArray[np.int32], extra: NDArray[np.int32], instance: NDArray[np.int32], gate: Column,
) -> tuple[
    NDArray[np.int32], Column, NDArray[np.int32], Column, Column, NDArray[np.int32], NDArray[np.int32]
]:  # fmt: skip
    """The columns of the plan from `predecessor` on."""
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
