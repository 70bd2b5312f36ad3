"""How much memory of each device its allocators had in use, at the most when and for whom, and how much was left.

An allocator counts when the host asks it: memory is taken when work is launched, mostly before the device runs it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.columns import by_label, distinct, frame, labels, places_of, rising, texts_at
from tracekit.devices import is_known, natural, type_of
from tracekit.intervals import Intervals
from tracekit.timeline.rows import Rows
from tracekit.timeline.timeline import Source, Timeline, Windows, timeline_of
from tracekit.units import short, time

# So many labels of a device are kept.
MOST_LABELS = 50
_MOST_RUNNING, _LONGEST = 3, 60

# Who states a limit.
ALLOCATOR, DEVICE = "allocator", "device"

BY_DEVICE_COLUMNS = {
    "device": "str",
    "events": "int64",
    "allocators": "str",
    "peak_bytes": "int64",
    "peak_ps": "int64",
    "at_least": "bool",
    "stack_bytes": "Int64",
    "before_bytes": "Int64",
    "reserved_bytes": "Int64",
    "lifetime_peak_bytes": "Int64",
    "limit_bytes": "Int64",
    "limit_of": "str",
    "headroom_bytes": "Int64",
    "headroom_ratio": "Float64",
    "reason": "str",
    "running": "str",
    "running_reason": "str",
    "step": "str",
    "phase": "str",
}
USAGE_COLUMNS = {"device": "str", "time_ps": "int64", "in_use_bytes": "int64"}
AT_PEAK_COLUMNS = {"device": "str", "label": "str", "allocations": "int64", "allocated_bytes": "int64"}

_NO_EVENTS = "The trace holds no allocation events, so the memory in use is not known."
_CPU_ONLY = (
    "The trace holds no allocation events, so the memory in use is not known: of CPU devices profilers record none."
)
_OF_HOST = "All allocation events of the trace are of the host's memory."

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class Memory(
    notebook.Result,
    by_device="device peak_bytes peak_ps limit_bytes headroom_bytes running",
    at_peak="",
):
    """The memory that the allocators of each device had in use; bytes, and times in ps since the trace began.

    `by_device` (BY_DEVICE_COLUMNS): the largest number of bytes in use, when that was first reached, and then: how much
    of it is reserved for `stack_bytes` of programs, was allocated `before_bytes` the first event of the trace, or by
    calls that it does not hold, and how many bytes the allocators held (`reserved_bytes`); what was `running` on the
    device, or why nothing is named; in which step and phase. `at_least`: what was in use before the first event is not
    known, and counts as nothing. `lifetime_peak_bytes` is the allocators' own peak, since they were made. The limit is
    that of the allocator, or else the memory of the device (`limit_of`), of which others may use a part; headroom is
    what the peak left of it, and `reason` why that is not known. `usage` (USAGE_COLUMNS): the steps of the bytes in use
    over time. `at_peak` (AT_PEAK_COLUMNS): whose allocations in the trace were live at the peak, by label (null where
    nothing tells), the largest first, at most MOST_LABELS a device. `lacking`: why there is nothing, else "".
    """

    by_device: pd.DataFrame
    usage: pd.DataFrame
    at_peak: pd.DataFrame
    lacking: str = ""


@dataclass(frozen=True)
class _Events:
    """The m allocation events of d known devices, by device in natural order, then by time; those of device k are
    `first[k]` to `first[k + 1]`.

    `devices` and `hosts` name each device and the host of its first event (d,). `device` numbers the device of each
    event, `at` is its place in `table`. `allocator` numbers who wrote them, each of one device (`device_of`). `size` of
    what an event allocates or releases is 0 where that is not known. `until` is the event that ends an allocation, the
    next at its address, else the end of those of its device. `total` is in use on the device from each event on, and
    `before` (d,) the first of them; `is_known` (d,) where it is not counted from nothing.
    """

    table: pd.DataFrame
    devices: list[str]
    hosts: list[str]
    first: Column
    at: Column
    device: Column
    time: Column
    allocator: Column
    device_of: Column
    frees: Mask
    size: Column
    until: Column
    total: Column
    before: Column
    is_known: Mask

    def edges(self, device: int) -> tuple[Column, Column]:
        """The steps of the bytes in use on a device: from each of these times on, one more than it has events. The
        first is that of the trace."""
        own = slice(int(self.first[device]), int(self.first[device + 1]))
        start = min(0, int(self.time[own.start]))
        return np.append(start, self.time[own]), np.append(self.before[device], self.total[own])

    def values(self, column: str) -> tuple[Column, Mask]:
        """What each event states in a column, and whether it states anything."""
        values = self.table[column].array
        return values.to_numpy(np.int64, na_value=0)[self.at], ~values.isna()[self.at]


def memory(source: Source, windows: Windows | None = None) -> Memory:
    """The memory in use on each device, as far as allocation events tell it.

    Where events state what is in use, that counts; where they state only what was allocated and released (nsys), what
    is in use is the sum of it, without releases of what the trace does not show to be allocated. Of `windows` only the
    peak inside them counts.
    """
    timeline = timeline_of(source, windows)
    return timeline.once("memory", lambda: _memory(timeline))


def steps_of_devices(result: Memory) -> dict[str, tuple[Column, Column]]:
    """The steps of `usage` by device: the times from which on a number of bytes was in use, and those numbers."""
    code, names = pd.factorize(result.usage["device"])
    times, in_use = (result.usage[column].to_numpy(np.int64) for column in ("time_ps", "in_use_bytes"))
    places = places_of(code, len(names))
    return {str(name): (times[at], in_use[at]) for name, at in zip(names, places, strict=True)}


def _memory(timeline: Timeline) -> Memory:
    events = _events(timeline.trace.memory)
    edges = [events.edges(device) for device in range(len(events.devices))]
    windows = {host: _windows(timeline, host) for host in dict.fromkeys(events.hosts)}
    peaks = []
    for device, (times, in_use) in enumerate(edges):
        peak = _peak(times, in_use, windows[events.hosts[device]])
        if peak is not None:
            peaks.append(_Peak(device, peak[1], int(in_use[peak[0]]), peak[0]))
    live = _live(events, peaks)
    sizes = _sizes(events, peaks, live, _memory_of_devices(timeline))
    rows = [size | then for size, then in zip(sizes, _meanwhile(timeline, events, peaks), strict=True)]
    columns = {name: [row[name] for row in rows] for name in BY_DEVICE_COLUMNS}
    names = np.array(events.devices, object).repeat([len(times) for times, _ in edges])
    times, in_use = (np.concatenate([np.zeros(0, np.int64), *(each[side] for each in edges)]) for side in (0, 1))
    return Memory(
        frame(BY_DEVICE_COLUMNS, columns),
        frame(USAGE_COLUMNS, {"device": names, "time_ps": times, "in_use_bytes": in_use}),
        _by_label(events, live),
        "" if peaks else _lacking(timeline),
    )


def _lacking(timeline: Timeline) -> str:
    """Why nothing is known of the memory of devices."""
    devices = timeline.rows.devices
    if len(timeline.trace.memory):
        return _OF_HOST
    return _CPU_ONLY if devices and all(type_of(device) == "cpu" for device in devices) else _NO_EVENTS


def _events(table: pd.DataFrame) -> _Events:
    """The events of all known devices of `Trace.memory`."""
    column = table["device"].cat
    code, names = column.codes.to_numpy(), [str(name) for name in column.categories]
    present = [number for number in np.unique(code[code >= 0]).tolist() if is_known(names[number])]
    present.sort(key=lambda number: natural(names[number]))
    rank = np.full(len(names) + 1, -1)  # the last one is of no device
    rank[present] = np.arange(len(present))
    time = table["time_ps"].to_numpy()
    at = np.lexsort((time, rank[code]))
    at = at[np.searchsorted(rank[code][at], 0) :]
    device = rank[code][at]
    first = np.searchsorted(device, np.arange(len(present) + 1))
    who = (table[name].cat.codes.to_numpy()[at] for name in ("host", "process", "allocator"))
    allocator, firsts = distinct(device, *who)
    frees, delta = table["frees"].to_numpy(bool)[at], table["delta_bytes"].array
    size = np.abs(delta.to_numpy(np.int64, na_value=0)[at])
    until, of = _pairs(table["address"].to_numpy(np.int64, na_value=-1)[at], allocator, frees, first[device + 1])
    size = np.where(frees & (of >= 0) & delta.isna()[at], size[of], size)
    change = np.where(frees, np.where(of >= 0, -size, 0), size)
    in_use = table["in_use_bytes"].array
    stated, is_stated = in_use.to_numpy(np.int64, na_value=0)[at], ~in_use.isna()[at]
    own = np.flatnonzero(is_stated)
    own = own[np.argsort(allocator[own], kind="stable")]
    is_first = np.append(True, np.diff(allocator[own]) != 0)[: len(own)]
    change[own] = np.diff(stated[own], prepend=0)
    of_first = own[is_first]
    change[of_first] = np.where(frees[of_first], -size[of_first], size[of_first])
    before = np.zeros(len(present), np.int64)
    np.add.at(before, device[of_first], stated[of_first] - change[of_first])
    so_far = np.cumsum(change)
    hosts = table["host"].array
    host_names = labels(hosts)
    return _Events(
        table=table,
        devices=[names[number] for number in present],
        hosts=[host_names[host] for host in hosts.codes[at[first[:-1]]].tolist()],
        first=first,
        at=at,
        device=device,
        time=time[at],
        allocator=allocator,
        device_of=device[firsts],
        frees=frees,
        size=size,
        until=until,
        total=so_far + (before - np.append(0, so_far)[first[:-1]])[device],
        before=before,
        is_known=np.bincount(device[~is_stated], minlength=len(present)) == 0,
    )


def _pairs(address: Column, allocator: Column, frees: Mask, end: Column) -> tuple[Column, Column]:
    """The event after each at the same address of its allocator, else its `end`; and the allocation that each releases,
    -1 where the trace holds none."""
    order = np.lexsort((address, allocator))
    same = (np.diff(address[order]) == 0) & (np.diff(allocator[order]) == 0) & (address[order[1:]] >= 0)
    until, of = end.copy(), np.full(len(address), -1)
    until[order[:-1][same]] = order[1:][same]
    pairs = same & ~frees[order[:-1]] & frees[order[1:]]
    of[order[1:][pairs]] = order[:-1][pairs]
    return until, of


def _windows(timeline: Timeline, host: str) -> Intervals | None:
    """The windows that count for a host, None where all of the trace does."""
    windows = timeline.windows
    if windows is None:
        return None
    own = windows[windows["clock"] == timeline.whole.clock_of_host.get(host, "")]
    return iv.union(own[["start_ps", "end_ps"]].to_numpy(np.int64))


def _peak(times: Column, in_use: Column, windows: Intervals | None) -> tuple[int, int] | None:
    """Which step is the highest inside the windows, of equal ones the first, and when it is first reached there; None
    where none lies inside."""
    if windows is None:
        edge = int(in_use.argmax())
        return edge, int(times[edge])
    until = np.maximum(np.append(times[1:], np.iinfo(np.int64).max), times + 1)
    window = np.searchsorted(windows[:, 1], times, side="right")
    starts = np.append(windows[:, 0], np.iinfo(np.int64).max)[window]
    inside = np.flatnonzero(starts < until)
    if not len(inside):
        return None
    edge = int(inside[in_use[inside].argmax()])
    return edge, max(int(times[edge]), int(starts[edge]))


@dataclass(frozen=True)
class _Peak:
    """The highest step of a device (its number), where that begins, and how much is in use; `edge` of its events have
    happened."""

    device: int
    time_ps: int
    in_use: int
    edge: int


def _live(events: _Events, peaks: Sequence[_Peak]) -> Column:
    """The allocations of the trace that were live at the peak of their device."""
    edge = np.zeros(len(events.devices), np.int64)
    for peak in peaks:
        edge[peak.device] = events.first[peak.device] + peak.edge
    edge = edge[events.device]
    return np.flatnonzero(~events.frees & (np.arange(len(edge)) < edge) & (events.until >= edge))


def _by_label(events: _Events, live: Column) -> pd.DataFrame:
    """The allocations of each device that are `live` by their label (AT_PEAK_COLUMNS)."""
    labels = events.table["label"].cat
    label = labels.codes.to_numpy()[events.at[live]]
    which, first = distinct(events.device[live], label)
    allocated = iv.sums(events.size[live], which, len(first))
    device = events.device[live][first].tolist()
    order = sorted(range(len(first)), key=lambda group: (device[group], -allocated[group]))
    heads = np.searchsorted(np.array(device, np.int64)[order], device).tolist()
    texts, counts = [*labels.categories.to_numpy(object).tolist(), None], np.bincount(which).tolist()
    label = label[first].tolist()
    rows = [
        (events.devices[device[group]], texts[label[group]], counts[group], allocated[group])
        for place, group in enumerate(order)
        if place - heads[group] < MOST_LABELS
    ]
    return frame(AT_PEAK_COLUMNS, rows)


def _memory_of_devices(timeline: Timeline) -> dict[str, int]:
    """The memory of each device of which the trace states it."""
    devices = timeline.trace.devices[["device", "memory_bytes"]].dropna().drop_duplicates("device")
    return {str(device): int(size) for device, size in zip(devices["device"], devices["memory_bytes"], strict=True)}


def _sizes(
    events: _Events, peaks: Sequence[_Peak], live: Column, memory_bytes: Mapping[str, int]
) -> list[dict[str, Any]]:
    """The columns that say how much was in use at each peak, and how much was left."""
    count = len(events.devices)
    several = np.bincount(events.device_of, minlength=count) > 1
    limits, most = (_largest(events, column) for column in ("limit_bytes", "peak_bytes"))
    stacks, reserved = (_stated(events, column, peaks) for column in ("stack_bytes", "reserved_bytes"))
    allocators, allocated = _allocators(events), iv.sums(events.size[live], events.device[live], count)
    rows = []
    for peak in peaks:
        at, name = peak.device, events.devices[peak.device]
        own_limit = None if several[at] else limits[at]
        limit = memory_bytes.get(name) if own_limit is None else own_limit
        before = peak.in_use - (stacks[at] or 0) - allocated[at] if events.is_known[at] else None
        headroom = None if limit is None or limit < peak.in_use else limit - peak.in_use
        reason = None
        if limit is None:
            reason = "neither the allocator nor the trace states how much memory the device has"
        elif headroom is None:
            reason = "more is in use than the stated limit"
        rows.append(
            {
                "device": name,
                "events": int(events.first[at + 1] - events.first[at]),
                "allocators": allocators[at],
                "peak_bytes": peak.in_use,
                "peak_ps": peak.time_ps,
                "at_least": not events.is_known[at],
                "stack_bytes": stacks[at],
                "before_bytes": None if before is None or before < 0 else before,
                "reserved_bytes": reserved[at],
                "lifetime_peak_bytes": None if several[at] else most[at],
                "limit_bytes": limit,
                "limit_of": None if limit is None else DEVICE if own_limit is None else ALLOCATOR,
                "headroom_bytes": headroom,
                "headroom_ratio": headroom / limit if headroom is not None and limit else None,
                "reason": reason,
            }
        )
    return rows


def _largest(events: _Events, column: str) -> list[int | None]:
    """The largest value of a column for each device, None where none is stated."""
    values, is_stated = events.values(column)
    largest = np.full(len(events.devices), np.iinfo(np.int64).min)
    np.maximum.at(largest, events.device[is_stated], values[is_stated])
    known = np.bincount(events.device[is_stated], minlength=len(largest)) > 0
    return [value if is_known else None for value, is_known in zip(largest.tolist(), known.tolist(), strict=True)]


def _allocators(events: _Events) -> list[str | None]:
    """The names of the allocators of each device, None without any."""
    column = events.table["allocator"].cat
    code, names = column.codes.to_numpy()[events.at].astype(np.int64), labels(events.table["allocator"].array)
    found: list[list[str]] = [[] for _ in events.devices]
    for pair in rising((events.device * (len(names) + 1) + code)[code >= 0]).tolist():
        found[pair // (len(names) + 1)].append(names[pair % (len(names) + 1)])
    return [", ".join(each) or None for each in found]


def _stated(events: _Events, column: str, peaks: Sequence[_Peak]) -> list[int | None]:
    """The sum, for each device, of what each allocator stated last in a column before the peak, before its first event
    what it stated there; None where any stated nothing."""
    values, is_stated = events.values(column)
    edge = np.zeros(len(events.devices), np.int64)
    for peak in peaks:
        edge[peak.device] = events.first[peak.device] + peak.edge
    has_happened = np.arange(len(values)) < edge[events.device]
    order = np.argsort(events.allocator, kind="stable")
    count = len(events.device_of)
    first = np.searchsorted(events.allocator[order], np.arange(count))
    last = order[first + np.maximum(np.bincount(events.allocator[has_happened], minlength=count) - 1, 0)]
    totals: list[int | None] = [0] * len(events.devices)
    known = zip(events.device_of.tolist(), values[last].tolist(), is_stated[last].tolist(), strict=True)
    for device, value, is_known_value in known:
        total = totals[device]
        totals[device] = total + value if is_known_value and total is not None else None
    return totals


def _meanwhile(timeline: Timeline, events: _Events, peaks: Sequence[_Peak]) -> list[dict[str, str | None]]:
    """The columns that say what ran at each peak, and in which step and phase that was."""
    rows, errors, clock_of = timeline.whole.rows, timeline.clock_errors, timeline.clock_of_host
    numbers = {name: number for number, name in enumerate(rows.devices)}
    clocks = [clock_of.get(events.hosts[peak.device], "") for peak in peaks]
    ranges = {clock: (_steps(timeline, clock), _phases(timeline, clock)) for clock in dict.fromkeys(clocks)}
    told: list[dict[str, str | None]] = []
    for peak, clock in zip(peaks, clocks, strict=True):
        name = events.devices[peak.device]
        running, reason, steps, phases = None, None, *ranges[clock]
        if name in errors:
            reason = f"its times cannot be compared with those of its host: {errors[name]}"
        elif name not in numbers:
            reason = "the trace holds no work of it"
        else:
            running = _running(rows, numbers[name], peak.time_ps)
            reason = None if running else _idle(rows, numbers[name], peak.time_ps)
        step, phase = steps.around(peak.time_ps), phases.around(peak.time_ps)
        told.append({"running": running, "running_reason": reason, "step": step, "phase": phase})
    return told


@dataclass(frozen=True)
class _Ranges:
    """The steps or phases of a clock: from `start` to `end`, both (n,) in ps, and what each is called."""

    start: Column
    end: Column
    labels: list[Any]

    def around(self, time_ps: int) -> str | None:
        """The label of what began last of those around a time; None for none."""
        at = np.flatnonzero((self.start <= time_ps) & (self.end > time_ps))
        return str(self.labels[at[self.start[at].argmax()]]) if len(at) else None


def _steps(timeline: Timeline, clock: str) -> _Ranges:
    """The steps of a clock."""
    steps = timeline.steps.table
    steps = steps[steps["clock"].fillna("").to_numpy(object) == clock]
    labels = steps["step"].astype(object).where(steps["step"].notna(), steps["name"])
    return _Ranges(steps["start_ps"].to_numpy(), steps["end_ps"].to_numpy(), labels.tolist())


def _phases(timeline: Timeline, clock: str) -> _Ranges:
    """The phases of the hosts of a clock."""
    spans = timeline.trace.spans
    spans = spans[(spans["tracekit"] == "phase").to_numpy(bool)]
    spans = spans[by_label(spans["host"].array, lambda host: timeline.clock_of_host.get(host, "") == clock)]
    return _Ranges(spans["start_ps"].to_numpy(), spans["end_ps"].to_numpy(), spans["name"].tolist())


def _running(rows: Rows, device: int, time_ps: int) -> str | None:
    """What ran on a device at a time, compute first; None for nothing."""
    own = rows.of(device)
    at = own.start + np.flatnonzero((rows.start[own] <= time_ps) & (rows.end[own] > time_ps))
    labels = list(dict.fromkeys(_names(rows, at[np.argsort(rows.kind[at], kind="stable")])))
    more = [f"{len(labels) - _MOST_RUNNING} more"] if len(labels) > _MOST_RUNNING else []
    return "; ".join([*labels[:_MOST_RUNNING], *more]) or None


def _idle(rows: Rows, device: int, time_ps: int) -> str:
    """That nothing ran, and what came next."""
    own = rows.of(device)
    following = own.start + int(np.searchsorted(rows.start[own], time_ps))
    if following == own.stop:
        return "it was idle, with no work to come"
    (name,) = _names(rows, np.array([following]))
    return f"it was idle; {short(name, _LONGEST)} began {time(rows.start[following] - time_ps)} later"


def _names(rows: Rows, at: Column) -> list[str]:
    """What some rows are called: their HLO op, else their name."""
    ops, names = (texts_at(rows.events[column].array, rows.at[at]) for column in ("hlo_op", "name"))
    return [op or name for op, name in zip(ops, names, strict=True)]
