"""Finds the chain that a step's length hangs on: its critical path."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tracekit.analysis.critical_path.graph import CALL, WORK, Graph
from tracekit.analysis.critical_path.plan import Plan
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
class Walked:
    """The critical paths of m steps; times in ps.

    `parts` (m, len(Part)): how long each path was what; a row sums to the step's length, and without UNEXPLAINED to the
    length of its replay. `of_op`: how long each op itself was on a path, by its number. The q pieces of the steps that
    were asked for, each step's from the last to the first: `step`, `node` (-1: none), `part`, `since`, `until` (q,).
    """

    parts: Column
    of_op: Column
    step: NDArray[np.int32]
    node: NDArray[np.int32]
    part: NDArray[np.int8]
    since: Column
    until: Column


def walk(graph: Graph, steps: Plan, wanted: NDArray[np.bool_], op_of: NDArray[np.int32] | None = None) -> Walked:
    """The longest chain of each step in which every node waits for the one before; `wanted` (m,): whose to keep.

    `op_of` (N,): the number of each node's op, -1 for none.

    It is what determines the length of the step's replay. Where a node of the chain did not begin when the one before
    had ended, nothing explains the time between. Of chains of one length, that through a queue or a thread goes before
    that through another wait, and a launch comes last; work of a device ends a step rather than that of the host.
    """
    alone = np.zeros(len(graph.start), bool)
    member = graph.instance >= 0
    alone[member] = graph.members[graph.instance[member]] < 2
    alone |= ~member & (graph.kind == Part.COLLECTIVE)
    op = np.full(len(graph.start), -1, np.int32) if op_of is None else op_of
    run = loop(walked, len(steps.node))
    arguments = (
        int(np.diff(steps.first).max(initial=1)), steps.start, steps.end, steps.first, steps.node, steps.before,
        steps.lag_ps, steps.launch, steps.delay_ps, steps.length_ps, steps.edge_first, steps.edge, graph.start,
        graph.end, graph.kind, graph.instance, graph.gate, alone, op, int(op.max(initial=-1)) + 1, wanted,
    )  # fmt: skip
    parts, of_op, kept, step, node, part, since, until = run(*arguments, 0)
    if kept:
        _, _, _, step, node, part, since, until = run(*arguments, kept)
    return Walked(parts, of_op, step, node, part, since, until)


def walked(
    largest: int, begin: Column, finish: Column, first: Column, node: NDArray[np.int32], before: NDArray[np.int32],
    lag: Column, launch: NDArray[np.int32], delay: Column, length: Column, edge_first: NDArray[np.int32],
    edge: NDArray[np.int32], start: Column, end: Column, kind: NDArray[np.int8], instance: NDArray[np.int32],
    gate: Column, alone: NDArray[np.bool_], op: NDArray[np.int32], ops: int, wanted: NDArray[np.bool_], room: int,
) -> tuple[
    Column, Column, int, NDArray[np.int32], NDArray[np.int32], NDArray[np.int8], Column, Column
]:  # fmt: skip
    """See `walk`; with `room` for so many pieces as the third result says, only the wanted steps are walked."""
    # The numbers of Part.
    host, working, latency, alone_collective, unexplained = 4, 5, 6, 7, 8
    parts = np.zeros((len(begin), unexplained + 1), np.int64)
    of_op = np.zeros(ops, np.int64)
    of_step, of_node, of_part = np.zeros(room, np.int32), np.zeros(room, np.int32), np.zeros(room, np.int8)
    since, until = np.zeros(room, np.int64), np.zeros(room, np.int64)
    kept = 0
    # Of each node of a step: when it began in the replay, what it waited for last, and how: 0 until that had ended, 1
    # until the call had begun, 2 for the host's work since the step's begin. Of each collective, who came last.
    begun, by, how = np.zeros(largest, np.int64), np.zeros(largest, np.int64), np.zeros(largest, np.int8)
    met, last = np.zeros(len(gate), np.int64), np.full(len(gate), -1, np.int64)
    step_of = np.full(len(gate), -1, np.int64)
    # The pieces of one turn: what, of which node, and down to when.
    part, who, down = np.zeros(5, np.int64), np.zeros(5, np.int64), np.zeros(5, np.int64)
    for step in range(len(begin)):
        if room > 0 and not wanted[step]:
            continue
        s, e, base, many = begin[step], finish[step], first[step], first[step + 1] - first[step]
        for p in range(many):
            at = base + p
            ready, chosen, kind_of = (lag[at], -1, 2) if before[at] < 0 and lag[at] > 0 else (0, -1, 0)
            for q in range(edge_first[at] - 1, edge_first[at + 1]):
                x = before[at] if q < edge_first[at] else edge[q]
                if x >= 0:
                    m = instance[node[base + x]]
                    done = (met[m] if m >= 0 else begun[x]) + length[base + x]
                    if q < edge_first[at]:
                        done += lag[at]
                    if done > ready:
                        ready, chosen, kind_of = done, x, 0
            x = launch[at]
            if x >= 0 and begun[x] + delay[at] > ready:
                ready, chosen, kind_of = begun[x] + delay[at], x, 1
            begun[p], by[p], how[p] = ready, chosen, kind_of
            m = instance[node[at]]
            if m >= 0 and (step_of[m] != step or ready >= met[m]):
                step_of[m], met[m], last[m] = step, ready, p
        p, longest = -1, -1
        for x in range(many):
            i = node[base + x]
            done = (met[instance[i]] if instance[i] >= 0 else begun[x]) + length[base + x]
            if done > longest or (done == longest and kind[i] < host <= kind[node[base + p]]):
                p, longest = x, done
        t, at_end = e, True
        while True:
            now, pieces, i = t, 0, node[base + p] if p >= 0 else -1
            if i >= 0 and at_end:
                ended, m = min(end[i], e), instance[i]
                if ended < now:
                    part[pieces], who[pieces], down[pieces] = unexplained, -1, ended
                    now, pieces = ended, pieces + 1
                low = min(end[i], e) - length[base + p]
                if low < now:
                    part[pieces], who[pieces], down[pieces] = alone_collective if alone[i] else kind[i], i, low
                    now, pieces = low, pieces + 1
                if m >= 0:
                    # It goes on with whoever came last in the replay; others may have come later, and nothing says why.
                    p = last[m]
                    i = node[base + p]
            if i >= 0:
                low = max(start[i], s)
                if low < now:
                    part[pieces], who[pieces], down[pieces] = unexplained, -1, low
                    now, pieces = low, pieces + 1
            chosen, kind_of, work = (by[p], how[p], lag[base + p]) if i >= 0 else (-1, 0, 0)
            if kind_of == 1:  # to the begin of the call
                called = max(start[node[base + chosen]], s)
                if called + delay[base + p] < now:
                    part[pieces], who[pieces], down[pieces] = unexplained, -1, called + delay[base + p]
                    now, pieces = down[pieces], pieces + 1
                if called < now:
                    part[pieces], who[pieces], down[pieces] = latency, i, called
                    now, pieces = called, pieces + 1
            elif (chosen >= 0 and chosen == before[base + p] and work > 0) or kind_of == 2:
                # When the host worked between is not told; its work is put right before the call.
                part[pieces], who[pieces], down[pieces] = working, i, now - work
                now, pieces = now - work, pieces + 1
            if chosen < 0 and s < now:
                part[pieces], who[pieces], down[pieces] = unexplained, -1, s
                now, pieces = s, pieces + 1
            for x in range(pieces):
                parts[step, part[x]] += t - down[x]
                if who[x] >= 0 and op[who[x]] >= 0 and (part[x] == kind[who[x]] or part[x] == alone_collective):
                    of_op[op[who[x]]] += t - down[x]
                if wanted[step]:
                    if kept < room:
                        of_step[kept], of_node[kept], of_part[kept] = step, who[x], part[x]
                        since[kept], until[kept] = down[x], t
                    kept += 1
                t = down[x]
            p, at_end = chosen, kind_of != 1
            if p < 0:
                break
    return parts, of_op, kept, of_step, of_node, of_part, since, until
