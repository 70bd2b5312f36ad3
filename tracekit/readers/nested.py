"""Which range of its thread a moment lies in, of many that may lie inside one another."""

import numpy as np
from numpy.typing import NDArray

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
    left = np.flatnonzero(parent >= 0)
    while len(left := left[(parent[left] >= 0) & (end[parent[left]] <= start[left])]):
        parent[left] = parent[parent[left]]
    found = np.full(len(at), -1, np.int64)
    for one in np.unique(thread).tolist():
        first, last = np.searchsorted(on, (one, one + 1))
        mine = np.flatnonzero(thread == one)
        before = np.searchsorted(start[first:last], at[mine], side="right") - 1
        found[mine] = np.where(before >= 0, first + before, -1)
    left = np.arange(len(at))
    while len(left := left[(found[left] >= 0) & (end[found[left]] <= at[left])]):
        found[left] = parent[found[left]]
    return np.where(found >= 0, order[found], -1)
