"""What fills a lane: the exact share of time in each pixel column, by kind or by how many devices are busy."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit import intervals as iv

# By key, boxes (x0, x1, y0, y1), shape (n, 4): x in ps from the first edge.
Boxes = dict[Hashable, NDArray[np.float64]]
# From so many to so many busy devices.
Bin = tuple[int, int]


@dataclass(frozen=True)
class Layer:
    """Merged intervals in which the same keys (kinds, or one bin of busy devices) share the lane's height equally."""

    intervals: iv.Intervals
    keys: tuple[Hashable, ...]


def pixel_edges(window: tuple[int, int], columns: int) -> NDArray[np.int64]:
    """The `columns` + 1 integer edges that cut `window` into columns whose lengths differ by at most 1 ps."""
    start, end = window
    # Python ints: (end - start) * columns overflows int64 from about an hour on.
    return np.array([start + (end - start) * column // columns for column in range(columns + 1)], dtype=np.int64)


def covered(merged: iv.Intervals, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """How much of each [edges[i], edges[i + 1]) the merged set holds: int64 ps, exact, shape (len(edges) - 1,)."""
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(merged[:, 1] - merged[:, 0])])
    begun = np.searchsorted(merged[:, 0], edges, side="left")
    last_end = np.concatenate([edges[:1], merged[:, 1]])[begun]
    before = sums[begun] - np.where(begun > 0, np.maximum(last_end - edges, 0), 0)
    return np.diff(before)


def laid_out(merged: iv.Intervals, windows: iv.Intervals) -> iv.Intervals:
    """What a set holds inside the merged `windows`, laid end to end from 0: merged, in ps."""
    cut = iv.intersection(merged, windows)
    lengths = windows[:, 1] - windows[:, 0]
    shift = np.cumsum(lengths) - lengths - windows[:, 0]
    moved = cut + shift[np.searchsorted(windows[:, 1], cut[:, 0], side="right")][:, None]
    return iv.union(moved)


def layers(sets: Mapping[Hashable, iv.Intervals]) -> list[Layer]:
    """Disjoint layers of up to 8 merged sets: one for each combination of keys that ever hold the same point."""
    filled = {key: merged for key, merged in sets.items() if len(merged)}
    if len(filled) == 1:
        return [Layer(merged, (key,)) for key, merged in filled.items()]
    points = np.concatenate([np.empty(0, np.int64), *[merged.T.ravel() for merged in filled.values()]])
    bits = np.concatenate(
        [
            np.empty(0, np.int16),
            *[np.repeat(np.array([1 << i, -1 << i], np.int16), len(of)) for i, of in enumerate(filled.values())],
        ]
    )
    order = np.argsort(points, kind="stable")
    points, mask = points[order], np.cumsum(bits[order])
    between = iv.intervals(points[:-1], points[1:])
    return [
        Layer(iv.union(between[mask[:-1] == code]), tuple(key for i, key in enumerate(filled) if code >> i & 1))
        for code in np.unique(mask).tolist()
        if code
    ]


def levels(sets: Sequence[iv.Intervals], bins: Sequence[Bin]) -> list[Layer]:
    """One layer per (low, high) of `bins`: the time in which low <= number of sets that hold it <= high."""
    edges, count = iv.depth(*sets)
    between, count = iv.intervals(edges[:-1], edges[1:]), count[:-1]
    return [Layer(iv.union(between[(count >= low) & (count <= high)]), ((low, high),)) for low, high in bins]


def bins(devices: int) -> list[Bin]:
    """The bins (low, high) of the number of busy devices, fewest first; none for fewer than two devices.

    Up to 4 devices have one bin each; more have 1, two bins between, and all.
    """
    n = devices
    if n < 2:
        return []
    return [(k, k) for k in range(1, n + 1)] if n <= 4 else [(1, 1), (2, n // 2), (n // 2 + 1, n - 1), (n, n)]


def bin_label(bin_: Bin, devices: int) -> str:
    """The words for a bin of the number of busy devices."""
    low, high = bin_
    if high == 1:
        return "1 device busy"
    if low == devices:
        return "both devices busy" if devices == 2 else f"all {devices} devices busy"
    return f"{low} busy" if low == high else f"{low}-{high} busy"


def bin_colours(colours: Mapping[str, str], bins: Sequence[Bin]) -> dict[Hashable, str]:
    """The colour of each bin, the fewest devices first."""
    more = (colours["few"], colours["many"], colours["all"])
    # The most devices are always "all".
    return dict(zip(bins, [colours["one"], *more[4 - len(bins) :]], strict=False))


def is_crowded(lane: Sequence[Layer], edges: NDArray[np.int64]) -> bool:
    """Whether the lane's intervals outnumber the pixel columns they stand in, so that single ones cannot be seen."""
    filled = sum((covered(layer.intervals, edges) for layer in lane), np.zeros(len(edges) - 1, np.int64))
    return sum(len(layer.intervals) for layer in lane) > int(np.count_nonzero(filled))


def boxes(lane: Sequence[Layer], keys: Sequence[Hashable], edges: NDArray[np.int64]) -> Boxes:
    """What to fill for each of `keys`; y is a share of the lane's height.

    The filled area is the true share of time. A crowded lane gets one stack of boxes per pixel column, the first key
    lowest, whose heights are the shares of that column; any other lane gets its intervals as they are, at full height
    (keys that run at the same time divide it). The layers must be disjoint and inside the window that `edges` cut.
    """
    return _stacked(lane, keys, edges) if is_crowded(lane, edges) else _single(lane, keys, int(edges[0]))


def _single(lane: Sequence[Layer], keys: Sequence[Hashable], origin: int) -> Boxes:
    parts: dict[Hashable, list[NDArray[np.float64]]] = {key: [np.empty((0, 4))] for key in keys}
    for layer in lane:
        for i, key in enumerate(layer.keys):
            height = np.broadcast_to([i / len(layer.keys), (i + 1) / len(layer.keys)], (len(layer.intervals), 2))
            parts[key].append(np.column_stack([layer.intervals - origin, height]))
    return {key: np.concatenate(of_key) for key, of_key in parts.items()}


def _stacked(lane: Sequence[Layer], keys: Sequence[Hashable], edges: NDArray[np.int64]) -> Boxes:
    widths = np.maximum(np.diff(edges), 1)
    shares = {key: np.zeros(len(widths)) for key in keys}
    for layer in lane:
        for key in layer.keys:
            shares[key] += covered(layer.intervals, edges) / widths / len(layer.keys)
    return stacks(shares, edges)


def stacks(shares: Mapping[Hashable, NDArray[np.float64]], edges: NDArray[np.int64]) -> Boxes:
    """Boxes for each key: in each pixel column the shares stand one on the other, the first key lowest."""
    stacked, bottom = {}, np.zeros(len(edges) - 1)
    for key in shares:
        top = bottom + shares[key]
        # Neighbours of one height become one box: a busy lane stays small in an SVG.
        ends = np.flatnonzero(np.append((np.diff(bottom) != 0) | (np.diff(top) != 0), True))
        starts = np.append(0, ends[:-1] + 1)
        rows = np.column_stack([edges[starts] - edges[0], edges[ends + 1] - edges[0], bottom[ends], top[ends]])
        stacked[key] = rows[rows[:, 3] > rows[:, 2]]
        bottom = top
    return stacked
