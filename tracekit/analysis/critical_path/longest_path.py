"""Finds the chain that a step's length hangs on: its critical path."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tracekit.analysis.critical_path.graph import CALL, WORK, Graph
from tracekit.analysis.critical_path.replay import AFTER_BEGIN, QUEUED, Arrays, Plan
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
    QUEUE_GAP = WORK + 2
    ALONE_COLLECTIVE = WORK + 3
    UNEXPLAINED = WORK + 4


@dataclass(frozen=True)
class Paths:
    """The critical paths of m steps; times in ps.

    `parts` (m, len(Part)): how long each path was what; a row sums to the step's length. `of_host` (m,): how long of
    UNEXPLAINED it was the host that stood still. `of_op`: how long each op itself was on a path, by its number.

    The q pieces of the steps that were asked for, each step's from the last to the first: `step`, `node` (-1: none),
    `part`, `start`, `end` (q,); what nothing explains is of the node that it held up, or that had ended before it.
    """

    parts: Column
    of_host: Column
    of_op: Column
    step: NDArray[np.int32]
    node: NDArray[np.int32]
    part: NDArray[np.int8]
    start: Column
    end: Column


def find_paths(graph: Graph, runs: Plan, keeps: NDArray[np.bool_], op_of: NDArray[np.int32] | None = None) -> Paths:
    """The chain that ended each step, from what held its last work up back to its begin; `keeps` (m,): whose to keep.

    `op_of` (N,): the number of each node's op, -1 for none.

    Each node of the chain waited for the one before, which was the last to hold it up by the measured times. Of several
    at once, a queue or a thread goes before another wait, and a launch comes last; work of a device ends a step rather
    than that of the host.
    """
    is_alone = np.zeros(len(graph.start), bool)
    member = graph.instance >= 0
    is_alone[member] = graph.members[graph.instance[member]] < 2
    is_alone |= ~member & (graph.kind == Part.COLLECTIVE)
    op = np.full(len(graph.start), -1, np.int32) if op_of is None else op_of
    walk = loop(walk_paths, len(runs.node))
    nodes = (graph.start, graph.end, graph.kind, graph.instance, is_alone, op)
    ops = int(op.max(initial=-1)) + 1
    parts, of_host, of_op, piece_count, step, node, part, start, end = walk(tuple(runs), nodes, ops, keeps, 0)
    if piece_count:
        _, _, _, _, step, node, part, start, end = walk(tuple(runs), nodes, ops, keeps, piece_count)
    return Paths(parts, of_host, of_op, step, node, part, start, end)


def walk_paths(
    plan: Arrays, nodes: Arrays, ops: int, keeps: NDArray[np.bool_], room: int
) -> tuple[Column, Column, Column, int, NDArray[np.int32], NDArray[np.int32], NDArray[np.int8], Column, Column]:
    """See `find_paths`; there is `room` for so many pieces, the fourth result says how many there are."""
    begin, finish, first, first_step, step_end, node, step, predecessor, lag, _, delay, length, _, _ = plan[:14]
    cause, cause_kind, slack = plan[14:]
    start, end, kind, instance, is_alone, op = nodes
    # The numbers of Part.
    host, working, latency, in_queue, alone_collective, unexplained = 4, 5, 6, 7, 8, 9
    parts, of_host = np.zeros((len(step_end), unexplained + 1), np.int64), np.zeros(len(step_end), np.int64)
    of_op = np.zeros(ops, np.int64)
    of_step, of_node, of_part = np.zeros(room, np.int32), np.zeros(room, np.int32), np.zeros(room, np.int8)
    starts, ends = np.zeros(room, np.int64), np.zeros(room, np.int64)
    piece_count, part = 0, 0
    last_member = np.full(int(instance.max()) + 1 if len(instance) else 0, -1, np.int64)
    run_of = np.full(len(last_member), -1, np.int64)
    last_of = np.full(len(step_end), -1, np.int64)
    # The pieces of one turn: what, of which node, and from when on.
    part_of, owner, since = np.zeros(6, np.int64), np.zeros(6, np.int64), np.zeros(6, np.int64)
    for run in range(len(begin)):
        base = first[run]
        # What ends each step: the last to end, of several at once a row; and of each collective, who came last.
        for x in range(first[run + 1] - base):
            i, k, m = node[base + x], step[base + x], instance[node[base + x]]
            if k >= 0:
                j = node[base + last_of[k]]
                later = min(end[i], finish[run]) - min(end[j], finish[run])
                if last_of[k] < 0 or later > 0 or (later == 0 and kind[i] < host <= kind[j]):
                    last_of[k] = x
            if m >= 0 and (run_of[m] != run or start[i] >= start[node[base + last_member[m]]]):
                run_of[m], last_member[m] = run, x
        p = -1
        for k in range(first_step[run], first_step[run + 1]):
            s, e = step_end[k - 1] if k > first_step[run] else begin[run], step_end[k]
            if last_of[k] >= 0 and (p < 0 or end[node[base + last_of[k]]] >= end[node[base + p]]):
                p = last_of[k]
            # Back from there to the begin of the step, one node a turn, through what each waited for.
            x, t, at_end = p, e, True
            while t > s:
                moment, n, i = t, 0, node[base + x] if x >= 0 else -1
                if i >= 0 and at_end:
                    low = min(end[i], finish[run])
                    if low < moment:
                        part_of[n], owner[n], since[n] = unexplained, i, low
                        moment, n = low, n + 1
                    low -= length[base + x]
                    if low < moment:
                        part_of[n], owner[n], since[n] = alone_collective if is_alone[i] else kind[i], i, low
                        moment, n = low, n + 1
                    if instance[i] >= 0:  # on with whoever came last
                        x = last_member[instance[i]]
                        i = node[base + x]
                best, q = -1, base + x
                if i >= 0:
                    best, low, queued = cause[q], max(start[i], begin[run]), cause_kind[q] == QUEUED
                    if low < moment:
                        part_of[n], owner[n], since[n] = unexplained, i, low
                        moment, n = low, n + 1
                    low -= slack[q]
                    if low < moment:
                        part_of[n], owner[n], since[n] = (in_queue if queued else unexplained), i, low
                        moment, n = low, n + 1
                    if cause_kind[q] == AFTER_BEGIN:
                        part, low = latency, low - delay[q]
                    elif lag[q] > 0 and (best < 0 or best == predecessor[q]):
                        # When the host worked between is not told; its work is put right before the call.
                        part, low = working, low - lag[q]
                    if low < moment:
                        part_of[n], owner[n], since[n] = part, i, low
                        moment, n = low, n + 1
                if best < 0:
                    part_of[n], owner[n], since[n] = unexplained, i, s
                    n += 1
                for r in range(n):
                    low = max(since[r], s)
                    if low >= t:
                        continue
                    parts[k, part_of[r]] += t - low
                    if part_of[r] == unexplained and owner[r] >= 0 and kind[owner[r]] >= host:
                        of_host[k] += t - low
                    is_own = owner[r] >= 0 and (part_of[r] == kind[owner[r]] or part_of[r] == alone_collective)
                    if is_own and op[owner[r]] >= 0:
                        of_op[op[owner[r]]] += t - low
                    if keeps[k]:
                        if piece_count < room:
                            of_step[piece_count], of_node[piece_count], of_part[piece_count] = k, owner[r], part_of[r]
                            starts[piece_count], ends[piece_count] = low, t
                        piece_count += 1
                    t = low
                x, at_end = best, best < 0 or cause_kind[q] != AFTER_BEGIN
    return parts, of_host, of_op, piece_count, of_step, of_node, of_part, starts, ends
