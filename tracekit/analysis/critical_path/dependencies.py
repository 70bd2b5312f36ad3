"""What the work on devices has to wait for by itself: the order of its queue, copies that resume it, operands."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import distinct, numbered
from tracekit.devices import type_of
from tracekit.jit import loop
from tracekit.timeline.instances import DONE_PS
from tracekit.timeline.rows import CODE, Rows
from tracekit.vocabulary.kinds import Kind

Column = NDArray[np.int64]
# Numbers of nodes or rows, of which a graph holds many columns.
Places = NDArray[np.int32]
# Predecessors and what waits for them, both (e,).
Edges = tuple[Column, Column]

NONE: Edges = (np.zeros(0, np.int64), np.zeros(0, np.int64))
# Work of a GPU whose turn came begins so soon after the end of what ran before it: of 211 copies to or from a GPU that
# were ready while another one of their direction ran on another stream (five public profiles), 207 did, half of them
# within 4 us; no two copies of one direction overlap there, or in 32 other profiles.
_TURN_PS = 10_000_000
# What was called so shortly before may have waited for nothing but its own launch.
_LATENCY_PS, _NEVER_PS = 20_000_000, 1 << 62
# Clocks that are rounded to microseconds may let works overlap so much that ran one after the other.
_ROUNDED_PS = 1_000_000
# So many turns, and this share of those that were ready before, are no chance.
_FEWEST_TURNS, _MOST_TURNS = 2, 0.8


@dataclass(frozen=True)
class QueueOrder:
    """The queues of n rows, and the k asynchronous pairs among them, whose dones are works of the queue too.

    `queue` (n,): the queue of each row, -1 for rows whose device is unknown. `predecessor` (n + k,): what was last to
    end in the queue before each row and each done started, -1 for nothing: a row, or n + the place of a done. `lead_ps`
    (n + k,): how long before its predecessor ended it started, 0 or more. `pair` (k,): the row whose end each done
    waits for; `done_ps` (k,): when it began to. `was_held_up` (k,): whether it was held up; only then the pair's length
    is known.
    """

    queue: Places
    predecessor: Places
    lead_ps: Column
    pair: Column
    done_ps: Column
    was_held_up: NDArray[np.bool_]


def queue_order(rows: Rows) -> QueueOrder:
    """The order that the queues of the devices prove.

    A GPU runs the work of one stream in the order of its launches; a CPU or a TPU device is one queue. A row follows
    what ended last in its queue before it started. One that started while its predecessor still ran follows it all the
    same where that is less than half of either (programmatic dependent launch, rounded times): it keeps its lead.

    A row with `wait_ps` during which its queue ran other work is an asynchronous pair: in flight beside the queue from
    its start to its end, for which the queue waits at the pair's done, from end - wait_ps.
    """
    n = len(rows)
    queue = _queues(rows)
    wait, has_wait = rows.numbers("wait_ps")
    order = np.flatnonzero(queue >= 0)
    # Of numbers of at most two bytes, numpy finds a stable order in linear time.
    order = order[np.argsort(queue[order].astype(np.min_scalar_type(queue.max(initial=0))), kind="stable")]
    pair = _async_pairs(rows, queue, order, has_wait & (wait < rows.end - rows.start))
    done_start = rows.end[pair] - wait[pair]
    start, end = np.append(rows.start, done_start), np.append(rows.end, rows.end[pair])
    aside = np.zeros(n + len(pair), bool)
    aside[pair] = True
    if len(pair):
        queue = np.append(queue, queue[pair])
        order = np.append(order, np.arange(n, n + len(pair)))
        order = order[np.lexsort((end[order], start[order], queue[order]))]
    predecessor, lead = find_predecessors(order, queue, start, end, aside)
    return QueueOrder(queue[:n], predecessor, lead, pair, done_start, wait[pair] > DONE_PS)


def _queues(rows: Rows) -> Places:
    """The queue of each row: its lane on GPUs, its device elsewhere, -1 where the device is unknown."""
    gpu = np.array([type_of(name) == "gpu" for name in rows.devices] or [False])
    if not gpu.any():
        return np.where(rows.is_placed, rows.device, -1).astype(np.int32)
    lanes = len(rows.labels("lane")) + 1
    key = rows.device * lanes + np.where(gpu[rows.device], rows.codes("lane") + 1, 0)
    number, _ = numbered(key, len(rows.devices) * lanes)
    return np.where(rows.is_placed, number, -1).astype(np.int32)


def _async_pairs(rows: Rows, queue: Places, order: Column, has_wait: NDArray[np.bool_]) -> Column:
    """The rows, of those with a `has_wait` wait, during which other work of their queue ran."""
    if not has_wait[order].any():
        return np.zeros(0, np.int64)
    queue_of, start, end = queue[order], rows.start[order], rows.end[order]
    heads = np.append(True, queue_of[1:] != queue_of[:-1])
    # Times on from queue to queue, so that one running maximum does for all of them.
    base = (np.cumsum(heads) - 1) * (int(end.max()) - int(start.min()) + 1)
    reach = np.maximum.accumulate(end + base)
    overlaps = np.append(False, (reach[:-1] > (start + base)[1:]) & ~heads[1:])
    overlaps[:-1] |= (end[:-1] > start[1:]) & ~heads[1:]
    return order[overlaps & has_wait[order]]


def find_predecessors(
    order: Column, queue: Places, start: Column, end: Column, aside: NDArray[np.bool_]
) -> tuple[Places, Column]:
    """What ended last in its queue before each work started, -1 for nothing, and by how much it started before that.

    `queue`, `start`, `end`, `aside` and both results have shape (n,). `order`: the works that are in a queue, by queue,
    then start, then end. Works `aside` have a predecessor and are none.
    """
    predecessor, lead = np.full(len(queue), -1, np.int32), np.zeros(len(queue), np.int64)
    loop(predecessors, len(order))(order, queue, start, end, aside, predecessor, lead)
    return predecessor, lead


def predecessors(
    order: Column,
    queue: Places,
    start: Column,
    end: Column,
    aside: NDArray[np.bool_],
    predecessor: Places,
    lead: Column,
) -> None:
    """See `find_predecessors`; writes to `predecessor` and `lead`, which hold -1 and 0.

    Those that run are a heap of their places in the order, the first to end at its front: where thousands overlap, a
    look at all of them for each takes the square of their number.
    """
    n = len(order)
    running = np.empty(n, np.int32)
    count, latest, newest = 0, -1, -1
    for i in range(n):
        own = order[i]
        if i > 0 and queue[own] != queue[order[i - 1]]:
            count, latest, newest = 0, -1, -1
        while count > 0 and end[order[running[0]]] <= start[own]:
            latest = running[0]  # of those that end at once the last to begin
            count -= 1
            work, place, child = running[count], 0, 1
            work_end = end[order[work]]
            while child < count:
                child_end = end[order[running[child]]]
                other = child + 1
                if other < count:
                    other_end = end[order[running[other]]]
                    if (other_end, running[other]) < (child_end, running[child]):
                        child, child_end = other, other_end
                if (work_end, work) < (child_end, running[child]):
                    break
                running[place] = running[child]
                place, child = child, 2 * child + 1
            running[place] = work
        if latest >= 0:
            predecessor[own] = order[latest]
        if aside[own]:
            continue
        if newest >= 0 and end[order[newest]] > start[own]:
            last = order[newest]
            overlap = end[last] - start[own]
            if end[own] > end[last] and 2 * overlap < min(end[last] - start[last], end[own] - start[own]):
                predecessor[own] = last
                lead[own] = overlap
        place = count
        while place > 0 and end[own] < end[order[running[(place - 1) // 2]]]:
            running[place] = running[(place - 1) // 2]
            place = (place - 1) // 2
        running[place] = i
        count += 1
        newest = i


def resume_edges(rows: Rows, launch: Column, launches: pd.DataFrame, queues: QueueOrder) -> Edges:
    """What began on a CPU device when a copy had arrived, as (copy, row).

    PJRT's CPU client starts a program whose inputs are on their way from the thread that completes the last of them. So
    a row waited for the copy that its thread ran right before it, if it was launched after the copy but before that had
    ended, and nothing else held up its device.
    """
    cpu = np.array([type_of(name) == "cpu" for name in rows.devices] or [False])
    cpu_rows = np.flatnonzero(cpu[rows.device]) if len(rows) else np.zeros(0, np.int64)
    copies = rows.kind[cpu_rows] == CODE[Kind.MEMCPY]
    if not copies.any():
        return NONE
    thread = rows.codes("host")[cpu_rows] * (len(rows.labels("lane")) + 1) + rows.codes("lane")[cpu_rows]
    order = np.lexsort((rows.start[cpu_rows], thread))
    cpu_rows, thread, copies = cpu_rows[order], thread[order], copies[order]
    copy_places = np.flatnonzero(copies[:-1] & (thread[1:] == thread[:-1]))
    copy, row = cpu_rows[copy_places], cpu_rows[copy_places + 1]
    call_starts = np.append(launches["start_ps"].to_numpy(), np.iinfo(np.int64).max)
    ends = np.append(np.append(rows.end, rows.end[queues.pair]), np.iinfo(np.int64).min)
    # A copy without a launch is taken for launched when it started.
    launched_at = np.where(launch[copy] >= 0, call_starts[launch[copy]], rows.start[copy])
    resumes = (
        (launch[row] >= 0) & (launched_at < call_starts[launch[row]]) & (call_starts[launch[row]] < rows.end[copy])
    )
    resumes &= (rows.end[copy] <= rows.start[row]) & (ends[queues.predecessor[row]] <= rows.end[copy])
    return copy[resumes], row[resumes]


def turn_edges(rows: Rows, launch: Column, launches: pd.DataFrame, queues: QueueOrder) -> Edges:
    """What on a GPU had to wait for its turn behind the work of another stream, as (row before, row).

    A GPU has one engine for the copies of each direction, whatever streams they are on, and some (Windows') do all work
    of a process one after the other. So it is for the copies of one direction, or for all work of a GPU, where no two
    of them overlap in the trace: one that was launched, and whose stream was done, before the one ahead of it ended,
    waited for that if it began right after, as most of these do.
    """
    call_starts = np.append(launches["start_ps"].to_numpy(), _NEVER_PS)
    before, after = [NONE[0]], [NONE[1]]
    for device, name in enumerate(rows.devices):
        its = rows.of(device)
        if type_of(name) != "gpu" or (queues.queue[its] == queues.queue[its][:1]).all():
            continue
        ways = np.where(rows.kind[its] == CODE[Kind.MEMCPY], rows.codes_at("direction", its), -1)
        groups = [np.arange(its.start, its.stop)]
        groups += [its.start + np.flatnonzero(ways == way) for way in np.unique(ways[ways >= 0]).tolist()]
        for group in groups:
            # No row of the group ran while another one did.
            if (np.maximum.accumulate(rows.end[group])[:-1] - rows.start[group[1:]] <= _ROUNDED_PS).all():
                ahead, behind = _turns(rows, call_starts[launch[group]], queues, group)
                before.append(ahead)
                after.append(behind)
    pairs = np.unique(np.column_stack([np.concatenate(before), np.concatenate(after)]), axis=0)
    return pairs[:, 0], pairs[:, 1]


def migration_edges(rows: Rows) -> Edges:
    """What the driver moved of unified memory, which is in no order, behind the other work that had ended last on its
    GPU, as (row before, row): nothing tells what touched that memory, but it was not done before."""
    moved = rows.is_migration
    if not moved.any():
        return NONE
    before, after = [NONE[0]], [NONE[1]]
    for device in np.unique(rows.device[moved]).tolist():
        its = np.arange(*rows.of(device).indices(len(rows)))
        others, row = its[~moved[its]], its[moved[its]]
        others = others[np.argsort(rows.end[others], kind="stable")]
        place = np.searchsorted(rows.end[others], rows.start[row], side="right") - 1
        before.append(others[place[place >= 0]])
        after.append(row[place >= 0])
    return np.concatenate(before), np.concatenate(after)


def _turns(rows: Rows, called_at: Column, queues: QueueOrder, group: Column) -> Edges:
    """Of rows of a device that stand by start, called at `called_at`, what each waited for whose turn came after it;
    none where it may be chance."""
    ahead, behind = group[:-1], group[1:]
    predecessor = queues.predecessor[behind]
    was_free = (predecessor < 0) | ((predecessor < len(rows)) & (rows.end[predecessor % len(rows)] < rows.end[ahead]))
    was_called = called_at[1:] + _LATENCY_PS <= rows.end[ahead]
    was_ready = was_free & was_called & (queues.queue[ahead] != queues.queue[behind])
    is_prompt = was_ready & (rows.start[behind] - rows.end[ahead] <= _TURN_PS)
    count = np.count_nonzero(is_prompt)
    if count < _FEWEST_TURNS or count < _MOST_TURNS * np.count_nonzero(was_ready):
        return NONE
    return ahead[is_prompt], behind[is_prompt]


def operand_edges(rows: Rows, queues: QueueOrder, table: pd.DataFrame) -> Edges:
    """What needs the result of what by the program, as (row, row), where both ran in different queues of one device.

    `table` (OPERAND_COLUMNS) may lead through ops that left no row (a tuple, a bitcast). Of an op that ran more than
    once in an execution, its latest start before the reader's counts. In one queue the order says as much.
    """
    if len(table) == 0:
        return NONE
    op, has_op = rows.numbers("op")
    run, has_run = rows.numbers("run_id")
    op_rows = np.flatnonzero(has_op & has_run & (queues.queue >= 0))
    if len(op_rows) == 0:
        return NONE
    count = int(max(op[op_rows].max(), table.to_numpy().max())) + 1
    reads, needs = _between_rows(table, np.bincount(op[op_rows], minlength=count) > 0)
    # An op whose rows all ran in one queue has its number, others -2.
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(low, op[op_rows], queues.queue[op_rows])
    np.maximum.at(high, op[op_rows], queues.queue[op_rows])
    other_queue = (low[reads] != low[needs]) | (high[reads] != high[needs]) | (low[reads] != high[reads])
    reads, needs = reads[other_queue], needs[other_queue]
    if len(reads) == 0:
        return NONE
    execution, _ = distinct(rows.device[op_rows], run[op_rows])
    key = (execution * count + op[op_rows]) * len(rows) + op_rows
    order = np.argsort(key)
    key, by_key = key[order], op_rows[order]
    by_op = np.argsort(op[op_rows], kind="stable")
    pair, place = _matches(op[op_rows][by_op], reads)
    readers = by_op[place]
    reader = op_rows[readers]
    base = (execution[readers] * count + needs[pair]) * len(rows)
    place = np.searchsorted(key, base + reader, side="left") - 1
    has_producer = (place >= 0) & (key[place] >= base)
    return by_key[place[has_producer]], reader[has_producer]


def _between_rows(table: pd.DataFrame, has_row: NDArray[np.bool_]) -> Edges:
    """Which op with rows needs which other one, through any ops without rows between them."""
    reads, needs = table["op"].to_numpy(), table["operand"].to_numpy()
    hidden = ~has_row[needs]
    through = reads[~has_row[reads]], needs[~has_row[reads]]
    order = np.argsort(through[0], kind="stable")
    by_op, behind = through[0][order], through[1][order]
    pairs = np.column_stack([reads, needs])[has_row[reads]]
    direct = [pairs[~hidden[has_row[reads]]]]
    open_pairs = pairs[hidden[has_row[reads]]]
    for _ in range(len(has_row)):  # operands form no cycle in a program; in a broken file they may
        if len(open_pairs) == 0:
            break
        pair, edge = _matches(by_op, open_pairs[:, 1])
        open_pairs = np.unique(np.column_stack([open_pairs[pair, 0], behind[edge]]), axis=0)
        direct.append(open_pairs[has_row[open_pairs[:, 1]]])
        open_pairs = open_pairs[~has_row[open_pairs[:, 1]]]
    pairs_between = np.unique(np.concatenate(direct), axis=0)
    return pairs_between[:, 0], pairs_between[:, 1]


def _matches(values: Column, queries: Column) -> tuple[Column, Column]:
    """Every place of a query and place in the sorted `values` that are equal, query by query."""
    first, last = np.searchsorted(values, queries, side="left"), np.searchsorted(values, queries, side="right")
    times = last - first
    query = np.repeat(np.arange(len(queries)), times)
    return query, np.arange(len(query)) + np.repeat(first - np.cumsum(times) + times, times)
