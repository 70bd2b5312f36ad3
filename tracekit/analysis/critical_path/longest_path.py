"""Finds the chain that a step's length hangs on: its critical path."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tracekit.analysis.critical_path.graph import CALL, WORK, Graph
from tracekit.analysis.critical_path.replay import AFTER_BEGIN, QUEUED, Arrays, Plan
from tracekit.analysis.host_times import PROMPT_PS, Doing
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
    HOST_UNRECORDED = WORK + 4
    UNEXPLAINED = WORK + 5


# What a thread of the host did is this on a path. What it waited for is not known where the path leads to it in a wait.
_PART_OF = {
    Doing.WAITING: Part.UNEXPLAINED,
    Doing.CALLING: Part.HOST_LAUNCH,
    Doing.WORKING: Part.HOST_WORK,
    Doing.UNRECORDED: Part.HOST_UNRECORDED,
}


@dataclass(frozen=True)
class Paths:
    """The critical paths of m steps; times in ps.

    `parts` (m, len(Part)): how long each path was what; a row sums to the step's length. `of_op`: how long each op
    itself was on a path, by its number.

    The q pieces of the steps that were asked for, each step's from the last to the first: `step`, `node` (-1: none),
    `part`, `start`, `end` (q,); what nothing explains is of the node that it held up, or that had ended before it, and
    so is what the host did before a call, or after its last.
    """

    parts: Column
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
    latency_ps = graph.latency_ps, graph.device
    nodes = (graph.start, graph.end, graph.kind, graph.instance, graph.gate, is_alone, op, *latency_ps)
    ops = int(op.max(initial=-1)) + 1
    parts, of_op, piece_count, pieces = walk(tuple(runs), nodes, ops, keeps, 0)
    if piece_count:
        parts, of_op, piece_count, pieces = walk(tuple(runs), nodes, ops, keeps, piece_count)
    paths = _with_split_stretches(graph, Paths(parts, of_op, *pieces), keeps)
    # What a thread did until it ended a step is of its last call.
    is_end = (paths.node >= graph.step_ends.start) & (paths.node < graph.step_ends.stop)
    paths.node[is_end] = graph.ended_after[paths.node[is_end] - graph.step_ends.start]
    return paths


def walk_paths(
    plan: Arrays, nodes: Arrays, ops: int, keeps: NDArray[np.bool_], room: int
) -> tuple[
    Column, Column, int, tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int8], Column, Column]
]:  # fmt: skip
    """See `find_paths`; there is `room` for so many pieces, the third result says how many there are.

    What a thread of the host did in a stretch, before a call or after its last one in a step, is left open: such a
    piece is `unrecorded`, and stands among the pieces of each step, kept or not.
    """
    begin, finish, first, first_step, step_end, node, step, predecessor, lag, _, _, _, delay = plan[:13]
    cause, cause_kind, slack = plan[13:]
    start, end, kind, instance, gate, is_alone, op, latency_ps, device = nodes
    # The numbers of Part.
    host, latency, in_queue, alone_collective, unrecorded, unexplained = 4, 6, 7, 8, 9, 10
    parts = np.zeros((len(step_end), unexplained + 1), np.int64)
    of_op = np.zeros(ops, np.int64)
    of_step, of_node, of_part = np.zeros(room, np.int32), np.zeros(room, np.int32), np.zeros(room, np.int8)
    starts, ends = np.zeros(room, np.int64), np.zeros(room, np.int64)
    piece_count = 0
    instances = 0
    for m in instance:
        instances = max(instances, m + 1)
    last_member = np.full(instances, -1, np.int64)
    run_of = np.full(len(last_member), -1, np.int64)
    left_at = np.full(len(last_member), -(1 << 62), np.int64)
    last_of = np.full(len(step_end), -1, np.int64)
    # The pieces of one turn: what, of which node, and from when on.
    part_of, owner, since = np.zeros(8, np.int64), np.zeros(8, np.int64), np.zeros(8, np.int64)
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
                        part_of[n], owner[n], since[n] = (unexplained if kind[i] < host else unrecorded), i, low
                        moment, n = low, n + 1
                    m, high, low = instance[i], low, max(start[i], begin[run])
                    low = low if m < 0 else min(max(gate[m], low), high)
                    if low < moment:
                        part_of[n], owner[n], since[n] = alone_collective if is_alone[i] else kind[i], i, low
                        moment, n = low, n + 1
                    # On with whoever came last; but no time passed if that one waited for this one again.
                    if instance[i] >= 0 and left_at[instance[i]] != t:
                        left_at[instance[i]] = t
                        x = last_member[instance[i]]
                        i = node[base + x]
                best, q = -1, base + x
                if i >= 0:
                    best, low, queued = cause[q], max(start[i], begin[run]), cause_kind[q] == QUEUED
                    if low < moment:
                        part_of[n], owner[n], since[n] = unexplained, i, low
                        moment, n = low, n + 1
                    low -= slack[q]
                    of_host = kind[i] >= host
                    if of_host and best < 0:
                        low = s
                    elif of_host and lag[q] > 0 and best == predecessor[q]:
                        low -= lag[q]
                    # A launch that took longer than the shortest, but within what is usual.
                    is_prompt = cause_kind[q] == AFTER_BEGIN and start[i] - end[node[base + best]] <= PROMPT_PS
                    if low < moment:
                        part = latency if is_prompt else unexplained
                        part_of[n] = unrecorded if of_host else in_queue if queued else part
                        owner[n], since[n] = i, low
                        moment, n = low, n + 1
                    if cause_kind[q] == AFTER_BEGIN:
                        low -= min(delay[q], latency_ps[device[i]])
                    if low < moment:
                        part_of[n], owner[n], since[n] = latency, i, low
                        moment, n = low, n + 1
                    if cause_kind[q] == AFTER_BEGIN and delay[q] > latency_ps[device[i]]:
                        # A slow call: that it ran is what held its row up.
                        low -= delay[q] - latency_ps[device[i]]
                        part_of[n], owner[n], since[n] = host, node[base + best], low
                        moment, n = low, n + 1
                if best < 0:
                    part_of[n], owner[n], since[n] = unexplained, i, s
                    n += 1
                for r in range(n):
                    low = max(since[r], s)
                    if low >= t:
                        continue
                    parts[k, part_of[r]] += t - low
                    is_own = owner[r] >= 0 and (part_of[r] == kind[owner[r]] or part_of[r] == alone_collective)
                    if is_own and op[owner[r]] >= 0:
                        of_op[op[owner[r]]] += t - low
                    if keeps[k] or part_of[r] == unrecorded:
                        if piece_count < room:
                            of_step[piece_count], of_node[piece_count], of_part[piece_count] = k, owner[r], part_of[r]
                            starts[piece_count], ends[piece_count] = low, t
                        piece_count += 1
                    t = low
                x, at_end = best, best < 0 or cause_kind[q] != AFTER_BEGIN
    return parts, of_op, piece_count, (of_step, of_node, of_part, starts, ends)


def _with_split_stretches(graph: Graph, paths: Paths, keeps: NDArray[np.bool_]) -> Paths:
    """`paths` with the stretches of threads of the host told apart, in the parts and in the pieces.

    Of those, `paths` has the pieces of the steps in `keeps`, and the stretches of all, as HOST_UNRECORDED.
    """
    is_stretch = paths.part == Part.HOST_UNRECORDED
    stretches = np.flatnonzero(is_stretch)
    flow = graph.flow[paths.node[stretches]]
    part_of = np.array([_PART_OF[doing] for doing in Doing], np.int8)
    none = np.zeros(0, np.int64)
    splits = [(none, part_of[:0], none, none)]
    for number in np.unique(flow).tolist():
        places = stretches[flow == number]
        places = places[np.argsort(paths.start[places], kind="stable")]
        place, doing, start, end = graph.host_times[number].split(paths.start[places], paths.end[places])
        splits.append((places[place], part_of[doing], start, end))
    place, part, start, end = (np.concatenate(column) for column in zip(*splits, strict=True))
    del splits, flow, stretches  # of millions of pieces, few columns are held at once
    parts = paths.parts.copy()
    parts[:, Part.HOST_UNRECORDED] = 0
    np.add.at(parts, (paths.step[place], part), end - start)
    of_kept = keeps[paths.step[place]]
    if not of_kept.all():
        place, part, start, end = place[of_kept], part[of_kept], start[of_kept], end[of_kept]
    step = np.append(paths.step[~is_stretch], paths.step[place])
    start = np.append(paths.start[~is_stretch], start)
    order = np.lexsort((-start, step))
    return Paths(
        parts,
        paths.of_op,
        step[order],
        np.append(paths.node[~is_stretch], paths.node[place])[order],
        np.append(paths.part[~is_stretch], part)[order],
        start[order],
        np.append(paths.end[~is_stretch], end)[order],
    )
