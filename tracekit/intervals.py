"""Set algebra on half-open integer intervals; it knows nothing of traces.

An interval set is an int64 array of shape (n, 2): rows [start, end), start <= end, in any order, overlapping or not.
Results are merged: sorted, disjoint, not touching and without empty rows, so that equal sets are equal arrays.
Touching intervals are one interval; an empty interval [a, a) holds nothing and vanishes.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tracekit.jit import loop

Intervals = NDArray[np.int64]

EMPTY: Intervals = np.empty((0, 2), dtype=np.int64)
# Fewer edges are sorted before the code of a loop is loaded. Each edge of sets that are merged is looked for among the
# next ones of all of them: of more sets, sorting is quicker.
_MERGED_FROM, _MOST_MERGED = 500_000, 32
# From so many rows on, one pass of a compiled loop is several times as quick as numpy's passes, and needs no columns
# beside the rows. Of two sets the shorter is looked up in the other, row by row, if that has so many times its length.
_LONG, _LOOKED_UP = 1 << 16, 32
_NEVER = np.iinfo(np.int64).max

F = TypeVar("F", bound=Callable[..., Any])


def intervals(starts: ArrayLike, ends: ArrayLike) -> Intervals:
    """Shape (n, 2) int64 from two columns of length n."""
    return np.column_stack([np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)]).reshape(-1, 2)


def union(*sets: Intervals) -> Intervals:
    """The merged union of any number of sets; a single set that is merged already is given back as it is."""
    rows = sets[0] if len(sets) == 1 else np.concatenate([EMPTY, *sets])
    if len(rows) >= _LONG and (merge := loop(merge_rows, len(rows), is_worth_starting=False)) is not merge_rows:
        return _union_of_many(rows, merge)
    if _merged(rows):
        return rows
    if not (rows[:, 1] > rows[:, 0]).all():
        rows = rows[rows[:, 1] > rows[:, 0]]
        if len(rows) == 0:
            return EMPTY
    if not (rows[1:, 0] >= rows[:-1, 0]).all():
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
    reach = np.maximum.accumulate(rows[:, 1])
    gap = np.flatnonzero(rows[1:, 0] > reach[:-1])
    return np.column_stack([rows[np.append(0, gap + 1), 0], reach[np.append(gap, len(rows) - 1)]])


def _union_of_many(rows: Intervals, merge: Callable[[Intervals, Intervals], int]) -> Intervals:
    count = merge(rows, EMPTY)
    if count < 0:
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        count = merge(rows, EMPTY)
    if count == len(rows):
        return rows
    merged = np.empty((count, 2), np.int64)
    merge(rows, merged)
    return merged


def merge_rows(rows: Intervals, merged: Intervals) -> int:
    """How many rows the union of `rows` has, which is written to `merged` if that has room; -1 where a row that is not
    empty starts before the one ahead of it."""
    count, since, reach = 0, 0, 0
    for i in range(len(rows)):
        start, end = rows[i, 0], rows[i, 1]
        if end <= start:
            continue
        if count > 0 and start < since:
            return -1
        if count == 0 or start > reach:
            reach = end
            if count < len(merged):
                merged[count, 0] = start
            count += 1
        since, reach = start, max(reach, end)
        if count <= len(merged):
            merged[count - 1, 1] = reach
    return count


def _merged(rows: Intervals) -> bool:
    """Whether the rows are sorted, disjoint, not touching and not empty: their edges, one after the other, grow."""
    if (is_merged := _quick(are_merged, rows)) is not are_merged:
        return bool(is_merged(rows))
    edges = rows.ravel()
    return bool((edges[1:] > edges[:-1]).all())


def are_merged(rows: Intervals) -> bool:
    """See `_merged`."""
    for i in range(len(rows)):  # noqa: SIM110 - numba knows no generator
        if rows[i, 1] <= rows[i, 0] or (i > 0 and rows[i, 0] <= rows[i - 1, 1]):
            return False
    return True


def _quick(function: F, *sets: Intervals) -> F:
    """A loop over sets, compiled if the code of loops is there already: of the short sets of thousands of devices each
    pass of numpy takes longer to begin than the loop to end. Itself for columns of another layout, for each of which it
    would be compiled anew."""
    are_usual = all(rows.flags.c_contiguous and rows.flags.writeable for rows in sets)
    return loop(function, sum(map(len, sets)), is_worth_starting=False) if are_usual else function


def cells(*sets: Intervals) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """The step function "which of the sets hold this point", of at most seven sets.

    Returns `edges` (m + 1,) and `code` (m,): bit k of `code[i]` tells whether set k holds [edges[i], edges[i + 1]).
    Codes beside each other differ; a gap between the sets is a cell of code 0. Both are empty if all sets are.
    """
    edges, code = _step_function([union(rows) for rows in sets], 1 << np.arange(len(sets), dtype=np.int32))
    return edges, code[:-1].astype(np.int8)


def of_cells(edges: NDArray[np.int64], holds: NDArray[np.bool_]) -> Intervals:
    """The merged set of the cells that it `holds` (m,): cell i lasts from edges[i] to edges[i + 1]."""
    inside = np.concatenate([[False], holds, [False]])
    return edges[np.flatnonzero(inside[1:] != inside[:-1])].reshape(-1, 2)


def depth(*sets: Intervals) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The step function "how many of the sets hold this point", each set merged first.

    Returns `edges` (m,) and `count` (m,): `count[i]` sets hold [edges[i], edges[i + 1]); the last count is 0.
    Both are empty if all sets are.
    """
    return _step_function([union(rows) for rows in sets], np.ones(len(sets), np.int32))


def depth_of_edges(
    start: NDArray[np.int64], end: NDArray[np.int64], before: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """`depth` of sets of which all starts (n,) and all ends (m,) are told, in order, if `before` of them hold what lies
    before."""
    edges, count = np.empty(len(start) + len(end), np.int64), np.empty(len(start) + len(end), np.int32)
    m = loop(merge_starts_and_ends, len(edges))(start, end, before, edges, count)
    return edges[:m], count[:m]


def merge_starts_and_ends(
    start: NDArray[np.int64], end: NDArray[np.int64], before: int, edges: NDArray[np.int64], count: NDArray[np.int32]
) -> int:
    """See `depth_of_edges`, which gives what is written to `edges` and `count`. How many edges there are."""
    i, j, m, depth = 0, 0, 0, before
    while i < len(start) or j < len(end):
        edge = min(start[i], end[j]) if i < len(start) and j < len(end) else start[i] if i < len(start) else end[j]
        while i < len(start) and start[i] == edge:
            i, depth = i + 1, depth + 1
        while j < len(end) and end[j] == edge:
            j, depth = j + 1, depth - 1
        edges[m], count[m], m = edge, depth, m + 1
    return m


def _step_function(
    merged: Sequence[Intervals], height: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The `edges` (m,) of merged sets, and from each of them to the next the sum (m,) of the heights of those that hold
    it; `height` has one a set."""
    edges = np.concatenate([EMPTY, *merged]).ravel()
    is_long = len(edges) >= _MERGED_FROM and len(merged) <= _MOST_MERGED
    merge = loop(merge_edges, len(edges), is_worth_starting=False) if is_long else merge_edges
    if merge is not merge_edges:
        ordered, total = np.empty(len(edges), np.int64), np.empty(len(edges), np.int32)
        m = merge(np.cumsum([0, *(2 * len(rows) for rows in merged)]), edges, height, ordered, total)
        return ordered[:m], total[:m]
    # The edges of each set grow, and a stable sort is linear on a few such runs.
    order = np.argsort(edges, kind="stable")
    change = np.repeat(height, [2 * len(rows) for rows in merged])
    change[1::2] *= -1
    total = np.cumsum(change[order], dtype=np.int32)
    edges = edges[order]
    last = np.append(edges[1:] != edges[:-1], np.ones(min(len(edges), 1), bool))
    return edges[last], total[last]


def merge_edges(
    offsets: NDArray[np.int64],
    edges: NDArray[np.int64],
    height: NDArray[np.int32],
    ordered: NDArray[np.int64],
    total: NDArray[np.int32],
) -> int:
    """See `_step_function`; the edges of set k are `edges[offsets[k]:offsets[k + 1]]`, and what it gives is written to
    `ordered` and `total`. How many edges there are. Half of the time and memory of sorting them."""
    place, ahead = offsets[:-1].copy(), np.empty(len(height), np.int64)
    for k in range(len(height)):
        ahead[k] = edges[place[k]] if place[k] < offsets[k + 1] else _NEVER
    count, sum_of = 0, 0
    for _ in range(len(edges)):
        first, edge = 0, ahead[0]
        for k in range(1, len(height)):
            if ahead[k] < edge:
                first, edge = k, ahead[k]
        is_start = (place[first] - offsets[first]) % 2 == 0
        sum_of += height[first] if is_start else -height[first]
        place[first] += 1
        ahead[first] = edges[place[first]] if place[first] < offsets[first + 1] else _NEVER
        if count == 0 or ordered[count - 1] != edge:
            ordered[count] = edge
            count += 1
        total[count - 1] = sum_of
    return count


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """What both sets hold, merged."""
    few, many = sorted((union(a), union(b)), key=len)
    if len(few) * _LOOKED_UP > len(many):
        intersect = _quick(intersect_rows, few, many)
        if intersect is not intersect_rows:
            both = np.empty((intersect(few, many, EMPTY), 2), np.int64)
            intersect(few, many, both)
            return both
    # Each of the few meets the many from the first that ends after its start to the last that starts before its end.
    first = np.searchsorted(many[:, 1], few[:, 0], side="right")
    met = np.searchsorted(many[:, 0], few[:, 1], side="left") - first
    at = np.repeat(np.arange(len(few)), met)
    other = ranges(first, met)
    return np.column_stack([np.maximum(few[at, 0], many[other, 0]), np.minimum(few[at, 1], many[other, 1])])


def intersect_rows(a: Intervals, b: Intervals, both: Intervals) -> int:
    """How many rows the intersection of two merged sets has, which is written to `both` if that has room."""
    i, j, count = 0, 0, 0
    while i < len(a) and j < len(b):
        start, end = max(a[i, 0], b[j, 0]), min(a[i, 1], b[j, 1])
        if start < end:
            if count < len(both):
                both[count, 0], both[count, 1] = start, end
            count += 1
        if a[i, 1] < b[j, 1]:
            i += 1
        else:
            j += 1
    return count


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
    if (measure := _quick(length_of_merged, a)) is not length_of_merged and (length := measure(a)) >= 0:
        return int(length)
    merged = union(a)
    return sum_exactly(merged[:, 1] - merged[:, 0])


def length_of_merged(rows: Intervals) -> int:
    """The length of rows that are merged; -1 where they are not, or begin below 0: it may be no int64 then."""
    length = 0
    for i in range(len(rows)):
        before = rows[i - 1, 1] if i > 0 else -1
        if rows[i, 1] <= rows[i, 0] or rows[i, 0] <= before:
            return -1
        length += rows[i, 1] - rows[i, 0]
    return length


def inside(a: Intervals, windows: Intervals) -> Intervals:
    """The merged intersection of merged sets, of which the second is mostly one window: then in a tenth of the time."""
    if not len(a) or len(windows) != 1:
        return intersection(a, windows) if len(a) else a
    start, end = windows[0]
    held = a[np.searchsorted(a[:, 1], start, side="right") : np.searchsorted(a[:, 0], end)]
    return np.clip(held, start, end) if len(held) and (held[0, 0] < start or held[-1, 1] > end) else held


def within(a: Intervals, windows: Intervals) -> NDArray[np.int64]:
    """The length of the union of `a` inside each row of `windows`, shape (len(windows),)."""
    if (measure := _quick(lengths_inside, a, windows)) is not lengths_inside:
        lengths = np.empty(len(windows), np.int64)
        if measure(a, windows, lengths):
            return lengths
    merged = union(a)
    if len(merged) == 0:
        return np.zeros(len(windows), np.int64)
    before = np.concatenate([[0], np.cumsum(merged[:, 1] - merged[:, 0])])

    def held_until(points: NDArray[np.int64]) -> NDArray[np.int64]:
        at = np.searchsorted(merged[:, 0], points, side="right")
        past = np.maximum(merged[np.maximum(at - 1, 0), 1] - points, 0)
        return before[at] - np.where(at > 0, past, 0)

    return held_until(np.maximum(windows[:, 1], windows[:, 0])) - held_until(windows[:, 0])


def lengths_inside(rows: Intervals, windows: Intervals, lengths: NDArray[np.int64]) -> bool:
    """Whether the rows are merged: then `lengths` (n,) are those that they have inside each of the `windows`."""
    before = np.zeros(len(rows) + 1, np.int64)
    for i in range(len(rows)):
        if rows[i, 1] <= rows[i, 0] or (i > 0 and rows[i, 0] <= rows[i - 1, 1]):
            return False
        before[i + 1] = before[i] + rows[i, 1] - rows[i, 0]
    for k in range(len(windows)):
        start, end = windows[k, 0], max(windows[k, 0], windows[k, 1])
        first = np.searchsorted(rows[:, 0], start, side="right")
        last = np.searchsorted(rows[:, 0], end, side="right")
        lengths[k] = before[last] - before[first]
        if first > 0:
            lengths[k] += max(rows[first - 1, 1] - start, 0)
        if last > 0:
            lengths[k] -= max(rows[last - 1, 1] - end, 0)
    return True


def ranges(first: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """The `count[i]` integers from `first[i]` on, one range after the other, shape (sum of `count`,)."""
    return np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())


def even_edges(window: tuple[int, int], pieces: int) -> NDArray[np.int64]:
    """The `pieces` + 1 edges that cut `window` = [start, end) into pieces whose lengths differ by at most 1."""
    start, end = window
    # Python ints: the product overflows int64 from about an hour on.
    return np.array([start + (end - start) * piece // pieces for piece in range(pieces + 1)], np.int64)


def sum_exactly(lengths: NDArray[np.int64]) -> int:
    """The sum of int64 values as a Python int, without overflow."""
    high, low = lengths >> 32, lengths & 0xFFFFFFFF
    return (int(high.sum()) << 32) + int(low.sum())


def sums(lengths: NDArray[np.int64], group: NDArray[np.integer[Any]], groups: int) -> list[int]:
    """The sum of the lengths, none below 0, of each group 0..groups-1 as Python ints, without overflow.

    `group` has one per length.
    """
    high, low = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    if int(lengths.max(initial=0)) * len(lengths) < 2**63:
        np.add.at(low, group, lengths)
    else:
        np.add.at(high, group, lengths >> 32)
        np.add.at(low, group, lengths & 0xFFFFFFFF)
    return [(above << 32) + rest for above, rest in zip(high.tolist(), low.tolist(), strict=True)]


def span(sets: Sequence[Intervals]) -> tuple[int, int] | None:
    """First start and last end over all `sets`, or None if they hold no row."""
    filled = [rows for rows in sets if len(rows)]
    if not filled:
        return None
    return min(int(rows[:, 0].min()) for rows in filled), max(int(rows[:, 1].max()) for rows in filled)


def quantiles(values: NDArray[np.int64], shares: Sequence[int]) -> Sequence[int]:
    """The smallest of the values that is at least as large as each of the shares of them, in %."""
    ranks = [-(-len(values) * share // 100) - 1 for share in shares]
    values_at: list[int] = np.partition(values, ranks)[ranks].tolist()
    return values_at
