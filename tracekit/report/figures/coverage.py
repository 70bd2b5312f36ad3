"""What a timeline shows: the lanes of each device, and the exact share of time in each pixel column; no drawing."""

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.devices import is_known, known_first, natural
from tracekit.report.figures.labels import short
from tracekit.timeline.rows import clock_of_hosts
from tracekit.trace import KIND_DTYPE
from tracekit.vocabulary.kinds import Kind


@dataclass(frozen=True)
class Layer:
    """A stretch set in which the same keys (kinds, or a number of busy devices) share the lane's height equally."""

    held: iv.Intervals
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


def layers(sets: Mapping[Hashable, iv.Intervals]) -> list[Layer]:
    """Disjoint layers of up to 8 merged sets: one for each combination of keys that ever hold the same point."""
    filled = {key: held for key, held in sets.items() if len(held)}
    if len(filled) == 1:
        return [Layer(held, (key,)) for key, held in filled.items()]
    points = np.concatenate([np.empty(0, np.int64), *[held.T.ravel() for held in filled.values()]])
    bits = np.concatenate(
        [
            np.empty(0, np.int16),
            *[np.repeat(np.array([1 << i, -1 << i], np.int16), len(held)) for i, held in enumerate(filled.values())],
        ]
    )
    order = np.argsort(points, kind="stable")
    points, mask = points[order], np.cumsum(bits[order])
    stretches = iv.intervals(points[:-1], points[1:])
    return [
        Layer(iv.union(stretches[mask[:-1] == code]), tuple(key for i, key in enumerate(filled) if code >> i & 1))
        for code in np.unique(mask).tolist()
        if code
    ]


def levels(sets: Sequence[iv.Intervals], bins: Sequence[tuple[int, int]]) -> list[Layer]:
    """One layer per (low, high) of `bins`: the time in which low <= number of sets that hold it <= high."""
    edges, count = iv.depth(*sets)
    stretches, count = iv.intervals(edges[:-1], edges[1:]), count[:-1]
    return [Layer(iv.union(stretches[(count >= low) & (count <= high)]), ((low, high),)) for low, high in bins]


def is_crowded(lane: Sequence[Layer], edges: NDArray[np.int64]) -> bool:
    """Whether the lane's stretches outnumber the pixel columns they stand in, so that single ones cannot be seen."""
    stood_in = sum((covered(layer.held, edges) for layer in lane), np.zeros(len(edges) - 1, np.int64))
    return sum(len(layer.held) for layer in lane) > int(np.count_nonzero(stood_in))


def boxes(
    lane: Sequence[Layer], keys: Sequence[Hashable], edges: NDArray[np.int64]
) -> dict[Hashable, NDArray[np.float64]]:
    """What to fill for each of `keys`: rows (x0, x1, y0, y1), x in ps from edges[0], y as a share of the lane's height.

    The filled area is the true share of time. A crowded lane gets one stack of boxes per pixel column, the first key
    lowest, whose heights are the shares of that column; any other lane gets its intervals as they are, at full height
    (keys that run at the same time divide it). The layers must be disjoint and inside the window that `edges` cut.
    """
    return _stacked(lane, keys, edges) if is_crowded(lane, edges) else _single(lane, keys, int(edges[0]))


def _single(lane: Sequence[Layer], keys: Sequence[Hashable], origin: int) -> dict[Hashable, NDArray[np.float64]]:
    made: dict[Hashable, list[NDArray[np.float64]]] = {key: [np.empty((0, 4))] for key in keys}
    for layer in lane:
        for i, key in enumerate(layer.keys):
            height = np.broadcast_to([i / len(layer.keys), (i + 1) / len(layer.keys)], (len(layer.held), 2))
            made[key].append(np.column_stack([layer.held - origin, height]))
    return {key: np.concatenate(parts) for key, parts in made.items()}


def _stacked(
    lane: Sequence[Layer], keys: Sequence[Hashable], edges: NDArray[np.int64]
) -> dict[Hashable, NDArray[np.float64]]:
    widths = np.maximum(np.diff(edges), 1)
    shares = {key: np.zeros(len(widths)) for key in keys}
    for layer in lane:
        for key in layer.keys:
            shares[key] += covered(layer.held, edges) / widths / len(layer.keys)
    return stacks(shares, edges)


def stacks(
    shares: Mapping[Hashable, NDArray[np.float64]], edges: NDArray[np.int64]
) -> dict[Hashable, NDArray[np.float64]]:
    """Boxes (x0, x1, y0, y1) for each key, x in ps from edges[0]: in each column the shares stand one on the other, the
    first key lowest."""
    made, bottom = {}, np.zeros(len(edges) - 1)
    for key in shares:
        top = bottom + shares[key]
        # Neighbours of one height become one box: a busy lane stays small in an SVG.
        ends = np.flatnonzero(np.append((np.diff(bottom) != 0) | (np.diff(top) != 0), True))
        starts = np.append(0, ends[:-1] + 1)
        rows = np.column_stack([edges[starts] - edges[0], edges[ends + 1] - edges[0], bottom[ends], top[ends]])
        made[key] = rows[rows[:, 3] > rows[:, 2]]
        bottom = top
    return made


@dataclass(frozen=True)
class Group:
    """A device on the timeline: its lanes in order (label, layers), and the merged union of all it did."""

    device: str
    lanes: list[tuple[str, list[Layer]]]
    busy: iv.Intervals


def lane_count(events: pd.DataFrame) -> int:
    """How many lanes all devices of `events` have together."""
    return len(np.unique(_lane_codes(events)))


def _lane_codes(events: pd.DataFrame) -> NDArray[np.int64]:
    device, lane = (events[column].cat.codes.to_numpy(np.int64) for column in ("device", "lane"))
    return device << 32 | lane


def groups(events: pd.DataFrame, windows: Mapping[str, iv.Intervals], merge: bool) -> list[Group]:
    """The devices of `events` in natural order, seen inside `windows` (by clock), which are laid end to end from 0.

    `merge` gives one lane per device. Lanes without any time in the windows are kept: that they are idle is what they
    show.
    """
    lane = _lane_codes(events) & (~0xFFFFFFFF if merge else -1)
    sets = _sets(lane, events)
    clocks = clock_of_hosts(events)
    hosts = _host_of_devices(events)
    found: dict[str, dict[str, dict[Hashable, iv.Intervals]]] = {}
    for code in np.unique(lane).tolist():
        device = str(events["device"].cat.categories[code >> 32])
        name = "" if merge else str(events["lane"].cat.categories[code & 0xFFFFFFFF])
        within = windows.get(clocks[hosts[code >> 32]], iv.EMPTY)
        found.setdefault(device, {})[name] = {kind: laid_out(held, within) for kind, held in sets.get(code, {}).items()}
    made = []
    # Copies of an unknown device stand last.
    for device in sorted(found, key=known_first):
        names = sorted(found[device], key=natural)
        kinds = [found[device][name] for name in names]
        busy = iv.union(*[held for lane_kinds in kinds for held in lane_kinds.values()])
        made.append(Group(device, list(zip(short(names), map(layers, kinds), strict=True)), busy))
    return made


def laid_out(held: iv.Intervals, windows: iv.Intervals) -> iv.Intervals:
    """What `held` holds inside the merged `windows`, laid end to end from 0: merged, in ps."""
    cut = iv.intersection(held, windows)
    lengths = windows[:, 1] - windows[:, 0]
    shift = np.cumsum(lengths) - lengths - windows[:, 0]
    moved = cut + shift[np.searchsorted(windows[:, 1], cut[:, 0], side="right")][:, None]
    return iv.union(moved)


def _host_of_devices(events: pd.DataFrame) -> dict[int, str]:
    """The host of each device code: a device has one."""
    device, host = (events[column].cat.codes.to_numpy(np.int64) for column in ("device", "host"))
    pairs = np.unique(device << 32 | host).tolist()
    return {pair >> 32: str(events["host"].cat.categories[pair & 0xFFFFFFFF]) for pair in pairs}


def _sets(lane: NDArray[np.int64], events: pd.DataFrame) -> dict[int, dict[Hashable, iv.Intervals]]:
    """The merged intervals of each lane code and kind, kinds in the order of KIND_DTYPE."""
    rows = iv.intervals(events["start_ps"], events["end_ps"])
    kinds = events["kind"].cat.codes.to_numpy(np.int64)
    filled = np.flatnonzero(rows[:, 1] > rows[:, 0])
    order = filled[np.lexsort((kinds[filled], lane[filled]))]
    rows, lane, kinds = rows[order], lane[order], kinds[order]
    changed = (np.diff(lane) != 0) | (np.diff(kinds) != 0)
    firsts = np.flatnonzero(np.append(True, changed)[: len(order)])
    made: dict[int, dict[Hashable, iv.Intervals]] = {}
    for first, last in itertools.pairwise([*firsts, len(order)]):
        made.setdefault(int(lane[first]), {})[Kind(KIND_DTYPE.categories[kinds[first]])] = iv.union(rows[first:last])
    return made


def bins(devices: int) -> list[tuple[int, int]]:
    """The bins (low, high) of the number of busy devices, fewest first; none for fewer than two devices.

    Up to 4 devices have one bin each; more have 1, two bins between, and all.
    """
    n = devices
    if n < 2:
        return []
    return [(k, k) for k in range(1, n + 1)] if n <= 4 else [(1, 1), (2, n // 2), (n // 2 + 1, n - 1), (n, n)]


def shared(groups: Sequence[Group]) -> tuple[list[Layer], list[tuple[int, int]]]:
    """The lane that shows how many devices are busy at once, and its bins of that number, fewest first.

    Copies of an unknown device do not count, and fewer than two devices share nothing: both lists are empty.
    """
    busy = [group.busy for group in groups if is_known(group.device)]
    found = bins(len(busy))
    return levels(busy, found) if found else [], found
