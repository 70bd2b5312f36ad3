"""Finds the chain that a step's length hangs on: its critical path."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tracekit.analysis.critical_path.graph import CALL, WORK, Graph
from tracekit.analysis.critical_path.replay import Arrays, Plan
from tracekit.jit import loop
from tracekit.timeline.rows import CODE
from tracekit.vocabulary.kinds import Kind

Column = NDArray[np.int64]


class Part(IntEnum):
    """What a piece of a critical path is; the first ones are the kinds of nodes."""

    COMPUTE = CODE[Kind.COMPUTE]
    COLLECTIVE = CODE[Kind.COLLECTIVE]
    MEMCPY = CODE[Kind.MEMCPY]
    MEMSET = CODE[Kind.MEMSET]
    HOST_LAUNCH = CALL
    HOST_WORK = WORK
    LAUNCH_LATENCY = WORK + 1
    ALONE_COLLECTIVE = WORK + 2
    UNEXPLAINED = WORK + 3


@dataclass(frozen=True)
class Paths:
    """The critical paths of m steps; times in ps.

    `parts` (m, len(Part)): how long each path was what; a row sums to the step's length, and without UNEXPLAINED to the
    length of its replay. `of_op`: how long each op itself was on a path, by its number. The q pieces of the steps that
    were asked for, each step's from the last to the first: `step`, `node` (-1: none), `part`, `start`, `end` (q,).
    """

    parts: Column
    of_op: Column
    step: NDArray[np.int32]
    node: NDArray[np.int32]
    part: NDArray[np.int8]
    start: Column
    end: Column


def find_paths(graph: Graph, steps: Plan, keeps: NDArray[np.bool_], op_of: NDArray[np.int32] | None = None) -> Paths:
    """The longest chain of each step in which every node waits for the one before; `keeps` (m,): whose to keep.

    `op_of` (N,): the number of each node's op, -1 for none.

    It is what determines the length of the step's replay. Where a node of the chain did not begin when the one before
    had ended, nothing explains the time between. Of chains of one length, that through a queue or a thread goes before
    that through another wait, and a launch comes last; work of a device ends a step rather than that of the host.
    """
    is_alone = np.zeros(len(graph.start), bool)
    member = graph.instance >= 0
    is_alone[member] = graph.members[graph.instance[member]] < 2
    is_alone |= ~member & (graph.kind == Part.COLLECTIVE)
    op = np.full(len(graph.start), -1, np.int32) if op_of is None else op_of
    walk = loop(walk_paths, len(steps.node))
    nodes = (graph.start, graph.end, graph.kind, graph.instance, graph.gate, is_alone, op)
    ops, largest = int(op.max(initial=-1)) + 1, int(np.diff(steps.first).max(initial=1))
    parts, of_op, piece_count, step, node, part, start, end = walk(tuple(steps), nodes, ops, keeps, largest, 0)
    if piece_count:
        _, _, _, step, node, part, start, end = walk(tuple(steps), nodes, ops, keeps, largest, piece_count)
    return Paths(parts, of_op, step, node, part, start, end)


def walk_paths(
    plan: Arrays, nodes: Arrays, ops: int, keeps: NDArray[np.bool_], largest: int, room: int
) -> tuple[Column, Column, int, NDArray[np.int32], NDArray[np.int32], NDArray[np.int8], Column, Column]:
    """See `find_paths`; with `room` for so many pieces as the third result says, only the wanted steps are walked.

    `largest`: the most nodes of a step.
    """
    begin, finish, first, node, predecessor, lag, launch, delay, length, edge_first, edge = plan
    start, end, kind, instance, gate, is_alone, op = nodes
    # The numbers of Part.
    host, working, latency, alone_collective, unexplained = 4, 5, 6, 7, 8
    parts = np.zeros((len(begin), unexplained + 1), np.int64)
    of_op = np.zeros(ops, np.int64)
    of_step, of_node, of_part = np.zeros(room, np.int32), np.zeros(room, np.int32), np.zeros(room, np.int8)
    starts, ends = np.zeros(room, np.int64), np.zeros(room, np.int64)
    piece_count = 0
    # Of each node of a step: when it began in the replay, what it waited for last, and how: 0 until that had ended, 1
    # until the call had begun, 2 for the host's work since the step's begin. Of each collective, who came last.
    replay_start, cause = np.zeros(largest, np.int64), np.zeros(largest, np.int64)
    cause_kind = np.zeros(largest, np.int8)
    gate_of, last_member = np.zeros(len(gate), np.int64), np.full(len(gate), -1, np.int64)
    step_of = np.full(len(gate), -1, np.int64)
    # The pieces of one turn: what, of which node, and down to when.
    part_of, owner, since = np.zeros(5, np.int64), np.zeros(5, np.int64), np.zeros(5, np.int64)
    for step in range(len(begin)):
        if room > 0 and not keeps[step]:
            continue
        s, e, base, count = begin[step], finish[step], first[step], first[step + 1] - first[step]
        # The replay, forward: when each node begins, and what it waited for last.
        for p in range(count):
            place = base + p
            ready, best, kind_of = (lag[place], -1, 2) if predecessor[place] < 0 and lag[place] > 0 else (0, -1, 0)
            for q in range(edge_first[place] - 1, edge_first[place + 1]):
                x = predecessor[place] if q < edge_first[place] else edge[q]
                if x >= 0:
                    m = instance[node[base + x]]
                    node_end = (gate_of[m] if m >= 0 else replay_start[x]) + length[base + x]
                    if q < edge_first[place]:
                        node_end += lag[place]
                    if node_end > ready:
                        ready, best, kind_of = node_end, x, 0
            x = launch[place]
            if x >= 0 and replay_start[x] + delay[place] > ready:
                ready, best, kind_of = replay_start[x] + delay[place], x, 1
            replay_start[p], cause[p], cause_kind[p] = ready, best, kind_of
            m = instance[node[place]]
            if m >= 0 and (step_of[m] != step or ready >= gate_of[m]):
                step_of[m], gate_of[m], last_member[m] = step, ready, p
        # What ends the step: the last to end, of several at once a row.
        p, longest = -1, -1
        for x in range(count):
            i = node[base + x]
            node_end = (gate_of[instance[i]] if instance[i] >= 0 else replay_start[x]) + length[base + x]
            if node_end > longest or (node_end == longest and kind[i] < host <= kind[node[base + p]]):
                p, longest = x, node_end
        # Back from there to the begin of the step, one node a turn, through what each waited for.
        t, at_end = e, True
        while True:
            moment, n, i = t, 0, node[base + p] if p >= 0 else -1
            if i >= 0 and at_end:
                node_end, m = min(end[i], e), instance[i]
                if node_end < moment:
                    part_of[n], owner[n], since[n] = unexplained, -1, node_end
                    moment, n = node_end, n + 1
                low = min(end[i], e) - length[base + p]
                if low < moment:
                    part_of[n], owner[n], since[n] = alone_collective if is_alone[i] else kind[i], i, low
                    moment, n = low, n + 1
                if m >= 0:
                    # It goes on with whoever came last in the replay; others may have come later, and nothing says why.
                    p = last_member[m]
                    i = node[base + p]
            if i >= 0:
                low = max(start[i], s)
                if low < moment:
                    part_of[n], owner[n], since[n] = unexplained, -1, low
                    moment, n = low, n + 1
            best, kind_of, work = (cause[p], cause_kind[p], lag[base + p]) if i >= 0 else (-1, 0, 0)
            if kind_of == 1:  # to the begin of the call
                call_start = max(start[node[base + best]], s)
                if call_start + delay[base + p] < moment:
                    part_of[n], owner[n], since[n] = unexplained, -1, call_start + delay[base + p]
                    moment, n = since[n], n + 1
                if call_start < moment:
                    part_of[n], owner[n], since[n] = latency, i, call_start
                    moment, n = call_start, n + 1
            elif (best >= 0 and best == predecessor[base + p] and work > 0) or kind_of == 2:
                # When the host worked between is not told; its work is put right before the call.
                part_of[n], owner[n], since[n] = working, i, moment - work
                moment, n = moment - work, n + 1
            if best < 0 and s < moment:
                part_of[n], owner[n], since[n] = unexplained, -1, s
                moment, n = s, n + 1
            for x in range(n):
                parts[step, part_of[x]] += t - since[x]
                if (
                    owner[x] >= 0
                    and op[owner[x]] >= 0
                    and (part_of[x] == kind[owner[x]] or part_of[x] == alone_collective)
                ):
                    of_op[op[owner[x]]] += t - since[x]
                if keeps[step]:
                    if piece_count < room:
                        of_step[piece_count], of_node[piece_count], of_part[piece_count] = step, owner[x], part_of[x]
                        starts[piece_count], ends[piece_count] = since[x], t
                    piece_count += 1
                t = since[x]
            p, at_end = best, kind_of != 1
            if p < 0:
                break
    return parts, of_op, piece_count, of_step, of_node, of_part, starts, ends
