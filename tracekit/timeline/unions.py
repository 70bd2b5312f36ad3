"""The merged unions per device and kind, which every analysis starts from, and the gaps between a device's rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.intervals import Intervals
from tracekit.jit import loop
from tracekit.timeline.rows import CODE, Rows
from tracekit.trace import DIRECTION_DTYPE
from tracekit.vocabulary.kinds import Kind

Column = NDArray[np.int64]

# The bits of a cell's code.
COMPUTE, COLLECTIVE, MEMORY = 1, 2, 4
# By the codes of `DeviceUnions.cells`: bit 0 = compute, bit 1 = collective, bit 2 = memory.
CELLS = (
    "idle",
    "compute",
    "collective",
    "compute+collective",
    "memory",
    "compute+memory",
    "collective+memory",
    "compute+collective+memory",
)


@dataclass(frozen=True)
class DeviceUnions:
    """What one device did, as merged interval sets in picoseconds: `compute`, `collective`, and `memory`, which is
    memcpy and memset.

    `copies` are its copies alone, `directions` the same by direction. `host` is the host of the device, and `clock`
    names the clock that its times are on, "" where the trace has only one.
    """

    host: str
    clock: str
    compute: Intervals
    collective: Intervals
    memory: Intervals
    copies: Intervals
    directions: Mapping[str, Intervals]

    @property
    def cells(self) -> tuple[Column, NDArray[np.int8]]:
        """What kinds ran at once, from first start to last end: `edges` (m + 1,) int64 in ps, and `code` (m,) int8.

        From edges[i] to edges[i + 1] exactly the kinds in code[i] ran, the sum of COMPUTE, COLLECTIVE and MEMORY, 0 for
        none. Codes beside each other differ; both arrays are empty if the device did nothing. Made anew whenever they
        are asked for: kept, they would be 18 bytes a row.
        """
        return iv.cells(self.compute, self.collective, self.memory)

    @cached_property
    def busy(self) -> Intervals:
        """Compute, collective or memory work."""
        return self.union_of(COMPUTE | COLLECTIVE | MEMORY)

    def inside(self, window: Intervals) -> Self:
        """What the device did inside a merged set of windows."""
        return replace(
            self,
            compute=iv.inside(self.compute, window),
            collective=iv.inside(self.collective, window),
            memory=iv.inside(self.memory, window),
            copies=iv.inside(self.copies, window),
            directions={name: iv.inside(spans, window) for name, spans in self.directions.items()},
        )

    def union_of(self, kinds: int) -> Intervals:
        """When any of `kinds` (COMPUTE, COLLECTIVE, MEMORY or a sum of them) ran."""
        sets = ((COMPUTE, self.compute), (COLLECTIVE, self.collective), (MEMORY, self.memory))
        return iv.union(*(spans for kind, spans in sets if kind & kinds and len(spans)))


@dataclass(frozen=True)
class Unions:
    """The devices of a trace inside `windows`: by clock a merged interval set (usually one interval), in picoseconds.

    Times on different clocks are never compared. Rows whose device the trace does not prove stand in `unplaced` (one
    DeviceUnions a host), apart from `devices`.
    """

    windows: Mapping[str, Intervals]
    devices: Mapping[str, DeviceUnions]
    unplaced: Mapping[str, DeviceUnions]

    def inside(self, windows: Intervals | Mapping[str, Intervals]) -> "Unions":
        """The same devices, seen only inside `windows`; an interval set counts on every clock, a mapping by clock."""
        if not isinstance(windows, Mapping):
            windows = dict.fromkeys(self.windows or [""], windows)
        window_of = {clock: iv.union(windows.get(clock, iv.EMPTY)) for clock in self.windows or windows}

        def cut(devices: Mapping[str, DeviceUnions]) -> dict[str, DeviceUnions]:
            return {name: device.inside(window_of[device.clock]) for name, device in devices.items()}

        devices = self.devices.inside(window_of) if isinstance(self.devices, MergedDevices) else cut(self.devices)
        return Unions(window_of, devices, cut(self.unplaced))


@dataclass(frozen=True)
class MergedDevices(Mapping[str, DeviceUnions]):
    """The devices of a trace of which rows were left out, with the compute that it tells merged.

    `devices` are what the rows that are left tell of them, which the compute of those at `places` holds: from the first
    to the second place of `start` and `end` (n,) in ps. `window_of` has by clock what counts, None for all. Each device
    is made anew whenever it is asked for: of a thousand hosts, all at once would take gigabytes.
    """

    devices: Mapping[str, DeviceUnions]
    places: Mapping[str, tuple[int, int]]
    start: Column
    end: Column
    window_of: Mapping[str, Intervals] | None = None

    def __getitem__(self, name: str) -> DeviceUnions:
        device = self.devices[name]
        window = None if self.window_of is None else self.window_of[device.clock]
        if name in self.places:
            start, end = (edges[slice(*self.places[name])] for edges in (self.start, self.end))
            if window is not None and len(window):
                those = slice(np.searchsorted(end, window[0, 0], side="right"), np.searchsorted(start, window[-1, 1]))
                start, end = start[those], end[those]
            device = replace(device, compute=iv.union(iv.intervals(start, end)))
        return device if window is None else device.inside(window)

    def __iter__(self) -> Iterator[str]:
        return iter(self.devices)

    def __len__(self) -> int:
        return len(self.devices)

    def busy_edges(self) -> Iterator[tuple[Column, Column]]:
        """The starts and the ends, both (k,) and rising, of sets of which at any time as many hold it as devices are
        busy, also outside of the windows: the compute of each device, and what else it did while it computed nothing.

        Of millions of intervals only these latter are copied.
        """
        for name, device in self.devices.items():
            if name not in self.places:
                yield device.busy[:, 0], device.busy[:, 1]
                continue
            start, end = (edges[slice(*self.places[name])] for edges in (self.start, self.end))
            yield start, end
            if len(others := device.union_of(COLLECTIVE | MEMORY)):
                beside = iv.difference(others, iv.intervals(start, end))
                yield beside[:, 0], beside[:, 1]

    def inside(self, window_of: Mapping[str, Intervals]) -> "MergedDevices":
        """The same devices, seen only inside the windows of their clocks."""
        if self.window_of is not None:
            window_of = {name: iv.intersection(window, self.window_of[name]) for name, window in window_of.items()}
        return replace(self, window_of=window_of)


def _merged_devices(devices: Mapping[str, DeviceUnions], merged: pd.DataFrame) -> MergedDevices:
    """`devices` with the compute of `merged` (MERGED_COLUMNS), in which the rows of each mostly stand together, and by
    start."""
    codes = merged["device"].cat.codes.to_numpy()  # as narrow as it is: of a thousand hosts, 50 million rows
    start, end = (merged[edge].to_numpy() for edge in ("start_ps", "end_ps"))
    heads = _heads(codes)
    falls = np.flatnonzero(start[1:] < start[:-1]) + 1
    if len(np.unique(codes[heads])) < len(heads) or not np.isin(falls, heads).all():
        sets = {code: iv.union(iv.intervals(start[codes == code], end[codes == code])) for code in np.unique(codes)}
        codes = np.repeat(list(sets), [len(spans) for spans in sets.values()])
        start, end = np.concatenate([*sets.values()]).T.copy()
        heads = _heads(codes)
    labels = map(str, merged["device"].cat.categories[codes[heads]])
    places = dict(zip(labels, pairwise([*heads.tolist(), len(codes)]), strict=True))
    return MergedDevices(devices, places, start, end)


def _heads(codes: NDArray[np.integer[Any]]) -> Column:
    """Where runs of one code begin."""
    return np.flatnonzero(np.append(np.ones(min(len(codes), 1), bool), codes[1:] != codes[:-1]))


def unions(rows: Rows, merged: pd.DataFrame | None = None, windows: Mapping[str, Intervals] | None = None) -> Unions:
    """The unions of all rows, and of the compute that is told `merged` (MERGED_COLUMNS) as its rows were left out.

    The `windows`, if they are not told by clock, are from first start to last end, on each clock its own, without rows
    none.
    """
    devices: dict[str, DeviceUnions] = {}
    unplaced: dict[str, DeviceUnions] = {}
    reach: dict[str, Intervals] = {}
    direction = rows.codes("direction")
    for number, (name, clock) in enumerate(zip(rows.devices, rows.clocks, strict=True)):
        (devices if rows.placed[number] else unplaced)[name] = _device(rows, number, direction[rows.of(number)])
        device_rows = rows.of(number)
        extent = iv.intervals([rows.start[device_rows][0]], [rows.end[device_rows].max()])
        reach[clock] = np.array([iv.span([extent, reach.get(clock, iv.EMPTY)])])
    windows = reach if windows is None else windows
    if merged is None or not len(merged):
        return Unions(windows, devices, unplaced)
    return Unions(windows, _merged_devices(devices, merged), unplaced)


def _device(rows: Rows, number: int, direction: Column) -> DeviceUnions:
    device_rows = rows.of(number)
    spans, kind = iv.intervals(rows.start[device_rows], rows.end[device_rows]), rows.kind[device_rows]

    def union_where(mask: NDArray[np.bool_]) -> Intervals:
        return iv.union(spans[np.flatnonzero(mask)])

    copy, memset = kind == CODE[Kind.MEMCPY], kind == CODE[Kind.MEMSET]
    memory = union_where(copy | memset)
    return DeviceUnions(
        rows.hosts[number],
        rows.clocks[number],
        union_where(kind == CODE[Kind.COMPUTE]),
        union_where(kind == CODE[Kind.COLLECTIVE]),
        memory,
        union_where(copy) if memset.any() else memory,
        {
            label: union_where(direction == code)
            for code, label in enumerate(DIRECTION_DTYPE.categories)
            if (direction == code).any()
        },
    )


def gaps(rows: Rows, device: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The rows around each idle interval between a device's first start and last end: `before` and `after`, both (m,).

    Device number `device` was idle from rows.end[before] to rows.start[after], and at no other time in between; both
    are places in `rows`, rising. `before` ended last of all rows until then. Rows that last no time end no gap.
    """
    places = np.arange(int(rows.first[device]), int(rows.first[device + 1]))
    start, end = rows.start[rows.of(device)], rows.end[rows.of(device)]
    lasting = end > start
    if not lasting.all():
        places, start, end = places[lasting], start[lasting], end[lasting]
    reach = np.maximum.accumulate(end)
    after = np.flatnonzero(start[1:] > reach[:-1]) + 1
    if len(after) == 0:
        return places[after].astype(np.int32), places[after].astype(np.int32)
    # The latest row that reached as far as any before it.
    furthest = np.flatnonzero(end == reach)
    before = furthest[np.searchsorted(furthest, after) - 1]
    return places[before].astype(np.int32), places[after].astype(np.int32)  # they are kept


def union_lengths(key: Column, count: int, start: Column, end: Column) -> Column:
    """The length of the union of the rows of each key 0..count-1, in ps; rows with a key below 0 do not count.

    The rows of a key stand in order of start.
    """
    length, reach = np.zeros(count, np.int64), np.full(count, np.iinfo(np.int64).min)
    loop(add_union_lengths, len(key))(key, start, end, length, reach)
    return length


def add_union_lengths(key: Column, start: Column, end: Column, length: Column, reach: Column) -> None:
    """Add to the `length` of each row's key what it holds past `reach`, where the rows of the key before it ended."""
    for row in range(len(key)):
        row_key = key[row]
        if row_key < 0:
            continue
        counted_from = max(start[row], reach[row_key])
        if end[row] > counted_from:
            length[row_key] += end[row] - counted_from
            reach[row_key] = end[row]


def first_coverage(key: Column, count: int, start: Column, end: Column) -> Column:
    """From where on each row covers what no row of its key before it did, in [start, end]: its share of their union is
    from there to its end, shape (n,); all keys are in 0..count-1.

    The rows of a key stand in order of start.
    """
    covered_from, reach = np.empty(len(key), np.int64), np.full(count, np.iinfo(np.int64).min)
    loop(add_first_coverage, len(key))(key, start, end, covered_from, reach)
    return covered_from


def add_first_coverage(key: Column, start: Column, end: Column, covered_from: Column, reach: Column) -> None:
    """Set `covered_from` of each row, and move the `reach` of its key to its end."""
    for row in range(len(key)):
        row_key = key[row]
        covered_from[row] = min(max(start[row], reach[row_key]), end[row])
        reach[row_key] = max(end[row], reach[row_key])
