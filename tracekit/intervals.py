"""Set algebra on half-open integer intervals; it knows nothing of traces.

An interval set is an int64 array of shape (n, 2): rows [start, end), start <= end, in any order, overlapping or not.
Results are merged: sorted, disjoint, not touching and without empty rows, so that equal sets are equal arrays.
Touching intervals are one interval; an empty interval [a, a) holds nothing and vanishes.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Intervals = NDArray[np.int64]

EMPTY: Intervals = np.empty((0, 2), dtype=np.int64)


def intervals(starts: ArrayLike, ends: ArrayLike) -> Intervals:
    """Shape (n, 2) int64 from two columns of length n."""
    return np.column_stack([np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)]).reshape(-1, 2)


def union(*sets: Intervals) -> Intervals:
    """The merged union of any number of sets."""
    rows = sets[0] if len(sets) == 1 else np.concatenate([EMPTY, *sets])
    rows = rows[rows[:, 1] > rows[:, 0]]
    if len(rows) == 0:
        return EMPTY
    if not (rows[1:, 0] >= rows[:-1, 0]).all():
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
    reach = np.maximum.accumulate(rows[:, 1])
    first = np.concatenate([[True], rows[1:, 0] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.column_stack([rows[first, 0], reach[last]])


def depth(*sets: Intervals) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The step function "how many of the sets hold this point", each set merged first.

    Returns `edges` (m,) and `count` (m,): `count[i]` sets hold [edges[i], edges[i + 1]); the last count is 0.
    Both are empty if all sets are.
    """
    merged = [union(one) for one in sets]
    points = np.concatenate([np.empty(0, np.int64), *[one.T.ravel() for one in merged]])
    steps = np.concatenate(
        [np.empty(0, np.int64), *[np.repeat(np.array([1, -1], np.int64), len(one)) for one in merged]]
    )
    if len(points) == 0:
        return points, steps
    order = np.argsort(points, kind="stable")
    points, count = points[order], np.cumsum(steps[order])
    last = np.concatenate([points[1:] != points[:-1], [True]])
    return points[last], count[last]


def _where(edges: NDArray[np.int64], held: NDArray[np.bool_]) -> Intervals:
    """The merged set of the stretches after each edge for which `held` is true (the last is never held)."""
    inside = np.flatnonzero(held)
    return union(np.column_stack([edges[inside], edges[np.minimum(inside + 1, len(edges) - 1)]]))


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """What both sets hold, merged."""
    edges, count = depth(a, b)
    return _where(edges, count == 2)


def difference(a: Intervals, b: Intervals) -> Intervals:
    """What `a` holds and `b` does not, merged."""
    if len(a) == 0:
        return EMPTY
    whole = (int(a[:, 0].min()), int(a[:, 1].max()))
    return intersection(a, complement(b, whole))


def complement(a: Intervals, window: tuple[int, int]) -> Intervals:
    """What `window` = [start, end) holds and `a` does not, merged."""
    start, end = window
    inner = clip(union(a), window)
    return union(intervals(np.append(start, inner[:, 1]), np.append(inner[:, 0], max(start, end))))


def clip(a: Intervals, window: tuple[int, int]) -> Intervals:
    """The rows of `a` cut to `window` = [start, end), in their order and not merged; rows left empty are dropped."""
    cut = np.clip(a, *window) if window[1] > window[0] else EMPTY
    return cut[cut[:, 1] > cut[:, 0]]


def total(a: Intervals) -> int:
    """The length of the union of `a`: overlaps count once. A Python int, so sums over devices cannot overflow."""
    merged = union(a)
    return sum_exactly(merged[:, 1] - merged[:, 0])


def within(a: Intervals, windows: Intervals) -> NDArray[np.int64]:
    """The length of the union of `a` inside each row of `windows`, shape (len(windows),)."""
    merged = union(a)
    if len(merged) == 0:
        return np.zeros(len(windows), np.int64)
    before = np.concatenate([[0], np.cumsum(merged[:, 1] - merged[:, 0])])

    def held_until(points: NDArray[np.int64]) -> NDArray[np.int64]:
        at = np.searchsorted(merged[:, 0], points, side="right")
        past = np.maximum(merged[np.maximum(at - 1, 0), 1] - points, 0)
        return before[at] - np.where(at > 0, past, 0)

    return held_until(np.maximum(windows[:, 1], windows[:, 0])) - held_until(windows[:, 0])


def sum_exactly(lengths: NDArray[np.int64]) -> int:
    """The sum of int64 values as a Python int, without overflow."""
    high, low = lengths >> 32, lengths & 0xFFFFFFFF
    return (int(high.sum()) << 32) + int(low.sum())


def span(sets: Sequence[Intervals]) -> tuple[int, int] | None:
    """First start and last end over all `sets`, or None if they hold no row."""
    filled = [one for one in sets if len(one)]
    if not filled:
        return None
    return min(int(one[:, 0].min()) for one in filled), max(int(one[:, 1].max()) for one in filled)
