"""Did things run at the same time: the exact shares of each device's window, copies and collectives behind compute,
and devices beside each other.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import heap
from tracekit import intervals as iv
from tracekit.columns import frame
from tracekit.jit import loop
from tracekit.timeline.rows import CODE
from tracekit.timeline.timeline import Source, Timeline, Windows, rows_begin_inside, timeline_of
from tracekit.timeline.unions import CELLS, MergedDevices, Unions
from tracekit.vocabulary.kinds import Kind


@dataclass(frozen=True)
class Breakdown:
    """What ran, and what ran at once, in the whole trace or in the windows of one phase.

    `partition`, `overlap`, `pairs` and `concurrency` are what the functions `partition`, `overlap`, `device_pairs` and
    `concurrency` give. `name` is that of the phase, None for the whole trace. `waiting_ratio` is the part of the
    collectives begun in it that was spent waiting for a peer: the sum of their `wait_ps` over the sum of their
    durations, None where the trace shows no waits. `lacking`: why nothing is known, and all tables are empty; "" if
    something is.
    """

    name: str | None
    partition: pd.DataFrame
    overlap: pd.DataFrame
    pairs: pd.DataFrame
    concurrency: pd.DataFrame
    waiting_ratio: float | None
    lacking: str = ""

    @property
    def label(self) -> str:
        """What people read for its name."""
        return "whole trace" if self.name is None else self.name

    @property
    def parallelism(self) -> float | None:
        """Sum of the devices' busy times over the time in which any was busy; null if none ever was, or if that is not
        known, since their clocks are not aligned."""
        any_busy = int(self.concurrency["time_ps"][1:].sum())
        return int(self.partition["busy_ps"].sum()) / any_busy if any_busy else None


def partition(source: Source, windows: Windows | None = None) -> pd.DataFrame:
    """One row per device: `window_start_ps`, `window_ps`, `span_ps`, `busy_ps` and the cells in CELLS, int64
    picoseconds.

    A cell is the time in which exactly the kinds in its name ran, so exposed collective time is `collective` +
    `collective+memory`, and exposed memory time is `memory`. The cells sum to `window_ps`, which is checked here.
    `span_ps` is from the first start to the last end in the windows, also of rows that last no time, 0 without any.
    Devices on different clocks have windows of their own.
    """
    timeline = timeline_of(source, windows)
    unions, moments = timeline.unions, timeline.moments
    rows = []
    for name, device in unions.devices.items():
        windows = unions.windows[device.clock]
        window_ps = iv.total(windows)
        start = int(windows[0, 0]) if len(windows) else 0
        edges, code = device.cells
        cells = iv.sums(edges[1:] - edges[:-1], code, len(CELLS))
        busy = sum(cells[1:])
        # Idle is also what lies before the first work and after the last.
        cells[0] = window_ps - iv.sum_exactly(iv.within(device.busy, windows))
        if sum(cells) != window_ps:
            raise AssertionError(f"the cells of {name} sum to {sum(cells)} ps, the window is {window_ps} ps")
        extent = np.concatenate([edges[:1], edges[-1:], moments.get(name, edges[:0])])
        rows.append((name, start, window_ps, int(np.ptp(extent)) if len(extent) else 0, busy, *cells))
    numbers = ["window_start_ps", "window_ps", "span_ps", "busy_ps", *CELLS]
    return frame({"device": "str", **dict.fromkeys(numbers, "int64")}, rows)


OVERLAP_COLUMNS = {
    "device": "str",
    "what": "str",
    "behind": "str",
    "hidden_ps": "int64",
    "total_ps": "int64",
    "ratio": "Float64",
    "reason": "str",
}


# What the copies without the memsets are called where both are in a device's memory work.
COPIES = Kind.MEMCPY.value


def of_copies(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table of OVERLAP_COLUMNS that are of all copies of a device and of nothing else."""
    with_memsets = table.loc[table["what"] == COPIES, "device"]
    return table[(table["what"] == COPIES) | ((table["what"] == "memory") & ~table["device"].isin(with_memsets))]


def overlap(source: Source, windows: Windows | None = None) -> pd.DataFrame:
    """How much of each device's collective and memory time ran behind its own compute.

    One row per device and `what` (collective, memory, where memsets add to the copies memcpy, which is the copies
    alone, and each copy direction that occurs): `hidden_ps` = |what & compute|, `total_ps` = |what|, `ratio` = hidden /
    total in 0..1, null with a `reason` if there was none of it. Work whose device is unknown is set against the compute
    of any device of its host.
    """
    unions = timeline_of(source, windows).unions
    rows = []
    for name, device in chain(unions.devices.items(), unions.unplaced.items()):
        compute, behind = device.compute, "compute"
        if name in unions.unplaced:
            compute = iv.union(
                *(other_device.compute for other_device in unions.devices.values() if other_device.host == device.host)
            )
            behind = "compute of any device"
        alone = {COPIES: device.copies} if iv.total(device.copies) < iv.total(device.memory) else {}
        whats = {"collective": device.collective, "memory": device.memory, **alone, **device.directions}
        for what, spans in whats.items():
            if what == "collective" and name in unions.unplaced and not len(spans):
                continue
            total = iv.total(spans)
            hidden = iv.total(iv.intersection(spans, compute))
            ratio = hidden / total if total else None
            rows.append((name, what, behind, hidden, total, ratio, None if total else f"no {what} work in the window"))
    return frame(OVERLAP_COLUMNS, rows)


PAIR_COLUMNS = {
    "a": "str",
    "b": "str",
    "overlap_ps": "Int64",
    "ratio_min": "Float64",
    "ratio_union": "Float64",
    "reason": "str",
}


# More devices have too many pairs to count: 8,192 have 33 million.
ALL_PAIRED = 256
# Of so many devices XLA makes one CPU; more on one host are none of any machine.
MOST_OF_HOST = 1024
# Of so many intervals at once the sums of busy devices are made.
_MOST_AT_ONCE = 3 << 20
_Pair = tuple[str, str, int | None, float | None, float | None, str | None]


def device_pairs(source: Source, windows: Windows | None = None) -> pd.DataFrame:
    """How long each two devices were busy at the same time.

    One row per pair, of more than ALL_PAIRED devices only for those of one host, and of more than MOST_OF_HOST on one
    host none: `overlap_ps` = |Ba & Bb|, `ratio_min`
    = that over the shorter busy time, `ratio_union` = that over the time either was busy; null with a `reason` where a
    device did nothing. Where two devices are on clocks that were not compared, all three are null: their overlap is not
    known.
    """
    unions = timeline_of(source, windows).unions
    groups = [list(unions.devices)]
    if len(unions.devices) > ALL_PAIRED:
        hosts: dict[str, list[str]] = {}
        for name, device in unions.devices.items():
            hosts.setdefault(device.host, []).append(name)
        groups = [names for names in hosts.values() if len(names) <= MOST_OF_HOST]
    return frame(PAIR_COLUMNS, [row for names in groups for row in _pairs(unions, names)])


def _pairs(unions: Unions, names: Sequence[str]) -> list[_Pair]:
    """The rows of the pairs of some devices."""
    devices = [unions.devices[name] for name in names]
    sets = [device.busy for device in devices]
    lengths = {name: iv.total(busy) for name, busy in zip(names, sets, strict=True)}
    spans = np.concatenate([iv.EMPTY, *sets])
    # A step of the loop is short, and there are as many as intervals times devices.
    overlap_of = loop(shared_times, len(names) * len(spans) // 16)(np.cumsum([0, *map(len, sets)]), spans)
    rows: list[_Pair] = []
    for (place_a, a), (place_b, b) in combinations(enumerate(names), 2):
        if devices[place_a].clock != devices[place_b].clock:
            rows.append((a, b, None, None, None, "their hosts' clocks are not aligned"))
            continue
        overlap_ps = int(overlap_of[place_a, place_b])
        shorter = min(lengths[a], lengths[b])
        either = lengths[a] + lengths[b] - overlap_ps
        idle = [name for name in (a, b) if not lengths[name]]
        verb = "was" if len(idle) == 1 else "were"
        reason = f"{' and '.join(idle)} {verb} idle throughout the window" if idle else None
        rows.append(
            (
                a,
                b,
                overlap_ps,
                overlap_ps / shorter if shorter else None,
                overlap_ps / either if shorter else None,
                reason,
            )
        )
    return rows


def shared_times(offsets: NDArray[np.int64], spans: iv.Intervals) -> NDArray[np.int64]:
    """For how long each two of k merged sets, spans[offsets[k]:offsets[k + 1]], hold the same points, in ps: (k, k),
    only above the diagonal."""
    sets = len(offsets) - 1
    shared = np.zeros((sets, sets), np.int64)
    for a in range(sets):
        for b in range(a + 1, sets):
            i, j, time = offsets[a], offsets[b], 0
            while i < offsets[a + 1] and j < offsets[b + 1]:
                time += max(0, min(spans[i, 1], spans[j, 1]) - max(spans[i, 0], spans[j, 0]))
                if spans[i, 1] < spans[j, 1]:
                    i += 1
                else:
                    j += 1
            shared[a, b] = time
    return shared


CONCURRENCY_COLUMNS = {"devices": "int64", "time_ps": "int64"}


def concurrency(source: Source, windows: Windows | None = None) -> pd.DataFrame:
    """For how long exactly k devices were busy: `devices` = k from 0 to all of them, `time_ps`; they sum to the
    window.

    No rows where the devices are on several clocks: how many were busy at once is then not known.
    """
    timeline = timeline_of(source, windows)
    times = _together(timeline).times if len(timeline.unions.windows) < 2 else []
    return frame(CONCURRENCY_COLUMNS, {"devices": range(len(times)), "time_ps": times})


class _Together(NamedTuple):
    """For how long exactly k devices were busy, k from 0 on, in ps, and when several were; all on one clock."""

    times: list[int]
    several: iv.Intervals


def _together(timeline: Timeline) -> _Together:
    return timeline.once("busy together", lambda: _made_together(timeline.unions))


def _made_together(unions: Unions) -> _Together:
    times, several = [0] * (len(unions.devices) + 1), [iv.EMPTY]

    def of_part(part: tuple[NDArray[np.int64], NDArray[np.int32]]) -> tuple[list[int], iv.Intervals]:
        edges, count = part
        return iv.sums(edges[1:] - edges[:-1], count[:-1], len(times)), iv.of_cells(edges, count[:-1] > 1)

    for part_times, part_several in map(of_part, _depths(unions)):  # one part is held at once
        times = [sum_ps + part_ps for sum_ps, part_ps in zip(times, part_times, strict=True)]
        several.append(part_several)
    times[0] = sum(map(iv.total, unions.windows.values())) - sum(times[1:])
    return _Together(times, iv.union(*several))


def _depths(unions: Unions) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32]]]:
    """How many devices are busy at once, as `iv.depth` says it: of those whose compute is merged for one part of the
    time after the other, of others for all at once. All are on one clock."""
    devices = unions.devices
    if not isinstance(devices, MergedDevices):
        yield iv.depth(*(device.busy for device in devices.values()))
        return
    sets = [edges for edges in devices.busy_edges() if len(edges[0])]
    if not sets:
        return
    first, last = min(int(start[0]) for start, _ in sets), max(int(end[-1]) for _, end in sets)
    parts = 1 + sum(len(start) for start, _ in sets) // _MOST_AT_ONCE
    cuts = np.linspace(first, last, parts + 1).astype(np.int64)[1:-1]
    # Where each part begins in the starts of each set, and in its ends.
    places = np.zeros((2, len(sets), parts + 1), np.int64)
    for number, its in enumerate(sets):
        for of, edges in enumerate(its):
            places[of, number, 1:-1], places[of, number, -1] = np.searchsorted(edges, cuts), len(edges)
    depth, last_edge = 0, first
    for part in range(parts):
        start, end = (
            np.concatenate([its[of][low:high] for its, (low, high) in zip(sets, at.tolist(), strict=True)])
            for of, at in enumerate(places[:, :, part : part + 2])
        )
        start.sort()
        end.sort()
        edges, count = iv.depth_of_edges(start, end, depth)
        del start, end
        if not len(edges):
            continue
        # What the part before ended with lasts until the first edge of this one.
        yield _inside(np.array([last_edge, edges[0]]), np.array([depth, 0], np.int32), devices.window_of)
        last_edge, depth = int(edges[-1]), int(count[-1])
        yield _inside(edges, count, devices.window_of)
        del edges, count


def _inside(
    edges: NDArray[np.int64], count: NDArray[np.int32], window_of: Mapping[str, iv.Intervals] | None
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """A step function inside some windows, and 0 outside of them; None are all of the time."""
    if window_of is None:
        return edges, count
    windows = iv.union(*window_of.values()).ravel()
    points = np.union1d(edges, windows[(windows >= edges[0]) & (windows <= edges[-1])])
    is_inside = np.searchsorted(windows, points, side="right") % 2 == 1
    return points, np.where(is_inside, count[np.searchsorted(edges, points, side="right") - 1], np.int32(0))


SHARED_COLUMNS = {
    "scope": "str",
    "part": "str",
    "unit": "int64",
    "a": "str",
    "b": "str",
    "shared_ps": "int64",
    "window_ps": "int64",
}
MOST_PAIRED = 4
"""Of more devices than this `shared_busy` tells no pairs."""


def shared_busy(timeline: Timeline, windows: Mapping[tuple[str, str], iv.Intervals]) -> pd.DataFrame:
    """How long devices were busy at the same time in each of the windows, shape (n, 2) in ps, of each scope and part.

    One row (SHARED_COLUMNS) per window, whose place among those of its part is `unit`: `window_ps` is its length,
    `shared_ps` the time in which at least two devices were busy, `a` and `b` are null. Of up to MOST_PAIRED devices
    each pair has such rows too. No rows of one device, or where the devices are on several clocks.
    """
    devices = timeline.unions.devices
    tables = []
    if len(devices) > 1 and len(timeline.unions.windows) == 1:
        sets: list[tuple[str | None, str | None, iv.Intervals]] = [(None, None, _together(timeline).several)]
        if len(devices) <= MOST_PAIRED:
            for (a, one), (b, other) in combinations(devices.items(), 2):
                sets.append((a, b, iv.intersection(one.busy, other.busy)))
        for (scope, part), at in windows.items():
            for one_name, other_name, spans in sets:
                about = {"scope": scope, "part": part, "unit": np.arange(len(at)), "a": one_name, "b": other_name}
                times = {"shared_ps": iv.within(spans, at), "window_ps": at[:, 1] - at[:, 0]}
                tables.append(frame(SHARED_COLUMNS, pd.DataFrame(about | times, index=range(len(at)))))
    return pd.concat(tables, ignore_index=True) if tables else frame(SHARED_COLUMNS)


def breakdown(timeline: Timeline, name: str | None = None) -> Breakdown:
    """What ran in the windows of a timeline: of the phase called `name`, or the whole trace."""

    def of(table: Callable[[Timeline], pd.DataFrame]) -> pd.DataFrame:
        made = table(timeline)
        if timeline.left_out:  # each device is made again for each table: of 8,192 a gigabyte would stay
            heap.give_back()
        return made

    # First, as it holds most: the others leave little of what is free in one piece.
    busy_at_once = of(concurrency)
    return Breakdown(name, of(partition), of(overlap), of(device_pairs), busy_at_once, _waiting_ratio(timeline))


def _waiting_ratio(timeline: Timeline) -> float | None:
    """Of the collectives that begin in the windows, whole, what part was spent waiting."""
    rows = timeline.whole.rows
    wait, has_wait = rows.numbers("wait_ps")
    at = np.flatnonzero((rows.kind == CODE[Kind.COLLECTIVE]) & has_wait)
    at = at[rows_begin_inside(rows, at, timeline.unions.windows)]
    duration = iv.sum_exactly(rows.end[at] - rows.start[at])
    return iv.sum_exactly(wait[at]) / duration if duration else None
