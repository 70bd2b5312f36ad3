"""Ranges of a thread that may lie inside one another: which of them is around a moment, and where each runs itself."""

import numpy as np
from numpy.typing import NDArray

from tracekit import intervals

Integers = NDArray[np.int64]


def innermost(at: Integers, thread: Integers, start: Integers, end: Integers, on: Integers) -> Integers:
    """For each moment the range around it that began last: a place in the ranges, -1 where there is none.

    Moments are `at` on `thread`, shape (m,), ranges half-open [start, end) on the thread `on`, shape (n,). Of ranges
    that begin together the shorter is the inner one. Exact also where ranges overlap without nesting.
    """
    if not len(start):
        return np.full(len(at), -1, np.int64)
    order = np.lexsort((-end, start, on))
    start, end, on = start[order], end[order], on[order]
    # What began before a range and ended before it too cannot enclose it: then whatever may enclose that one may. The
    # jumps double where ranges follow each other, and go up by one where they nest.
    parent = np.arange(-1, len(start) - 1)
    parent[np.flatnonzero(np.diff(on, prepend=on[:1] - 1))] = -1
    pending = np.flatnonzero(parent >= 0)
    while len(pending := pending[(parent[pending] >= 0) & (end[parent[pending]] <= start[pending])]):
        parent[pending] = parent[parent[pending]]
    place = np.full(len(at), -1, np.int64)
    for thread_number in np.unique(thread).tolist():
        first, last = np.searchsorted(on, (thread_number, thread_number + 1))
        moments = np.flatnonzero(thread == thread_number)
        before = np.searchsorted(start[first:last], at[moments], side="right") - 1
        place[moments] = np.where(before >= 0, first + before, -1)
    pending = np.arange(len(at))
    while len(pending := pending[(place[pending] >= 0) & (end[place[pending]] <= at[pending])]):
        place[pending] = parent[place[pending]]
    return np.where(place >= 0, order[place], -1)


def outermost(start: Integers, end: Integers) -> tuple[Integers, Integers, Integers]:
    """What the n ranges of one thread cover, each moment once: of k pieces, by time, the range, the start and the end.

    A piece is of the range that began first, of those that begin together of the longest. Where one begins in another
    and ends after it, as rounded times do, its rest is a piece.
    """
    order = np.lexsort((-end, start))
    start, end = start[order], end[order]
    covered = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(end))[:-1]
    begin = np.maximum(start, covered)
    is_piece = end > begin
    return order[is_piece], begin[is_piece], end[is_piece]


def leaves(
    start: NDArray[np.int64],
    closed: NDArray[np.int64],
    end: NDArray[np.int64],
    line: NDArray[np.int64],
    control: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """The rows (index, start, end), shape (m, 3), in which ops run that enclose no other op of their line.

    Control flow is dropped; another op that encloses ops is cut to the pieces in which no child runs. What encloses
    what is told by the events themselves, [start, closed): past that the thread may serve another device while `end` is
    open.
    """
    order = np.lexsort((-closed, start, line))
    s, c, e, on = start[order], closed[order], end[order], line[order]
    parent = np.zeros(len(order), bool)
    parent[:-1] = (on[1:] == on[:-1]) & (s[1:] < c[:-1]) & (c[1:] <= c[:-1])
    dropped = control[order]
    whole = ~parent & ~dropped
    pieces = [np.column_stack([order[whole], s[whole], e[whole]])]
    for at in np.flatnonzero(parent & ~dropped):
        stop = at + 1
        while stop < len(order) and on[stop] == on[at] and s[stop] < c[at]:
            stop += 1
        children = intervals.intervals(s[at + 1 : stop], e[at + 1 : stop])
        remainder = intervals.difference(intervals.intervals([s[at]], [e[at]]), children)
        pieces.append(np.column_stack([np.full(len(remainder), order[at]), remainder]))
    rows = np.concatenate(pieces).astype(np.int64)
    return rows[np.argsort(rows[:, 1], kind="stable")]


def own_times(start: Integers, end: Integers, on: Integers) -> tuple[Integers, Integers, Integers]:
    """Where each of the n ranges on the threads `on` runs itself, in no other that began in it: of k pieces, by thread
    and time, the range, the start and the end.

    What `leaves` gives of ranges of which none is control flow, for any number of them that hold others.
    """
    thread, time = np.concatenate([on, on]), np.concatenate([start, end])
    order = np.lexsort((time, thread))
    thread, time = thread[order], time[order]
    same = (thread[1:] == thread[:-1]) & (time[1:] > time[:-1])
    begin, until, of_thread = time[:-1][same], time[1:][same], thread[:-1][same]
    inner = innermost(begin, of_thread, start, end, on)
    inside = inner >= 0
    inner, begin, until = inner[inside], begin[inside], until[inside]
    # Ranges of no length, and ends of ranges that are none of these, cut no piece in two.
    goes_on = (inner[1:] == inner[:-1]) & (begin[1:] == until[:-1])
    first, last = (
        np.flatnonzero(np.append(True, ~goes_on)[: len(inner)]),
        np.flatnonzero(np.append(~goes_on, True)[: len(inner)]),
    )
    return inner[first], begin[first], until[last]
