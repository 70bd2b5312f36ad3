"""The order of work on one queue: a stream of a GPU, the queue of a CPU or TPU device, a thread of the host."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.devices import type_of
from tracekit.jit import loop
from tracekit.timeline.rows import Rows

Column = NDArray[np.int64]

# A `-done` that had nothing to wait for took 1 to 4 ns on real TPUs; what waited longer than this was held up.
DONE_PS = 100_000


@dataclass(frozen=True)
class QueueOrder:
    """The queues of n rows, and the k asynchronous pairs among them, whose dones are works of the queue too.

    `queue` (n,): the queue of each row, -1 for rows whose device is unknown. `predecessor` (n + k,): what was last to
    end in the queue before each row and each done started, -1 for nothing: a row, or n + the place of a done. `lead_ps`
    (n + k,): how long before its predecessor ended it started, 0 or more. `pair` (k,): the row whose end each done
    waits for; `done_ps` (k,): when it began to. `was_held_up` (k,): whether it was held up; only then the pair's length
    is known.
    """

    queue: Column
    predecessor: Column
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
    before, lead = np.full(n + len(pair), -1), np.zeros(n + len(pair), np.int64)
    predecessor, lead[order] = loop(predecessors, n)(queue[order], start[order], end[order], aside[order])
    before[order] = np.where(predecessor >= 0, order[predecessor] if len(order) else predecessor, -1)
    return QueueOrder(queue[:n], before, lead, pair, done_start, wait[pair] > DONE_PS)


def _queues(rows: Rows) -> Column:
    """The queue of each row: its lane on GPUs, its device elsewhere, -1 where the device is unknown."""
    gpu = np.array([type_of(name) == "gpu" for name in rows.devices] or [False])
    placed = np.array([*rows.placed, False])
    if not gpu.any():
        return np.where(placed[rows.device], rows.device, -1)
    lanes = len(rows.labels("lane")) + 1
    key = rows.device * lanes + np.where(gpu[rows.device], rows.codes("lane") + 1, 0)
    keys = np.flatnonzero(np.bincount(key, minlength=1))
    number = np.zeros(int(keys[-1]) + 1, np.int64)
    number[keys] = np.arange(len(keys))
    return np.where(placed[rows.device], number[key], -1)


def _async_pairs(rows: Rows, queue: Column, order: Column, has_wait: NDArray[np.bool_]) -> Column:
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


def predecessors(queue: Column, start: Column, end: Column, aside: NDArray[np.bool_]) -> tuple[Column, Column]:
    """What ended last in its queue before each work started, and by how much each started before that; both (n,).

    The works stand by queue, then start, then end. -1: none. Works `aside` have a predecessor and are none.
    """
    n = len(queue)
    predecessor = np.full(n, -1, np.int64)
    lead = np.zeros(n, np.int64)
    running = np.empty(n, np.int64)
    count, latest, newest = 0, -1, -1
    for i in range(n):
        if i > 0 and queue[i] != queue[i - 1]:
            count, latest, newest = 0, -1, -1
        running_count = 0
        for j in range(count):
            work = running[j]
            if end[work] > start[i]:
                running[running_count] = work
                running_count += 1
            elif latest < 0 or end[work] >= end[latest]:
                latest = work
        count = running_count
        predecessor[i] = latest
        if aside[i]:
            continue
        if newest >= 0 and end[newest] > start[i]:
            overlap = end[newest] - start[i]
            if end[i] > end[newest] and 2 * overlap < min(end[newest] - start[newest], end[i] - start[i]):
                predecessor[i] = newest
                lead[i] = overlap
        running[count] = i
        count += 1
        newest = i
    return predecessor, lead
