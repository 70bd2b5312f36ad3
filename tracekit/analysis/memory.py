"""How much memory of each device its allocators had in use, at the most when and for whom, and how much was left.

An allocator counts when the host asks it: memory is taken when work is launched, mostly before the device runs it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.columns import distinct, frame
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
    """The m > 0 allocation events of one device, by time, all (m,): `places` in `Trace.memory`.

    `allocator` numbers who wrote them. `size` of what an event allocates or releases is 0 where that is not known.
    `until` is the event that ends an allocation, the next at its address, else m. `total` is in use on the device from
    each event on, and `before` the first of them; `is_known` where it is not counted from nothing.
    """

    table: pd.DataFrame
    time: Column
    allocator: Column
    frees: NDArray[np.bool_]
    size: Column
    until: Column
    total: Column
    before: int
    is_known: bool

    @property
    def edges(self) -> tuple[Column, Column]:
        """The steps of the bytes in use: from each of these times on, (m + 1,); the first is that of the trace."""
        start = min(0, int(self.time[0]))
        return np.concatenate([[start], self.time]), np.concatenate([[self.before], self.total])


def memory(source: Source, windows: Windows | None = None) -> Memory:
    """The memory in use on each device, as far as allocation events tell it.

    Where events state what is in use, that counts; where they state only what was allocated and released (nsys), what
    is in use is the sum of it, without releases of what the trace does not show to be allocated. Of `windows` only the
    peak inside them counts.
    """
    timeline = timeline_of(source, windows)
    table = timeline.trace.memory
    device = table["device"].cat
    code, names = device.codes.to_numpy(), [str(name) for name in device.categories]
    present = [number for number in np.unique(code[code >= 0]).tolist() if is_known(names[number])]
    by_device, usage, at_peak = [], [], []
    for number in sorted(present, key=lambda number: natural(names[number])):
        events = _events(table.iloc[np.flatnonzero(code == number)])
        times, in_use = events.edges
        device_names = [names[number]] * len(times)
        usage.append(frame(USAGE_COLUMNS, {"device": device_names, "time_ps": times, "in_use_bytes": in_use}))
        peak = _peak(times, in_use, _windows(timeline, str(events.table["host"].iat[0])))
        if peak is None:
            continue
        edge, peak_ps = peak
        live = np.flatnonzero(~events.frees[:edge] & (events.until[:edge] >= edge))
        at_peak.append(_by_label(names[number], events.table["label"].iloc[live], events.size[live]))
        at = _Peak(names[number], peak_ps, int(in_use[edge]), edge, iv.sum_exactly(events.size[live]))
        by_device.append(_sizes(at, events, _memory_of(timeline, at.device)) | _meanwhile(timeline, at, events))
    columns = {name: [row[name] for row in by_device] for name in BY_DEVICE_COLUMNS}
    return Memory(
        frame(BY_DEVICE_COLUMNS, columns),
        pd.concat(usage, ignore_index=True) if usage else frame(USAGE_COLUMNS),
        pd.concat(at_peak, ignore_index=True) if at_peak else frame(AT_PEAK_COLUMNS),
        "" if by_device else _lacking(timeline),
    )


def _lacking(timeline: Timeline) -> str:
    """Why nothing is known of the memory of devices."""
    devices = timeline.rows.devices
    if len(timeline.trace.memory):
        return _OF_HOST
    return _CPU_ONLY if devices and all(type_of(device) == "cpu" for device in devices) else _NO_EVENTS


def _events(table: pd.DataFrame) -> _Events:
    """The events of one device, of which `table` has the rows of `Trace.memory`."""
    table = table.iloc[np.argsort(table["time_ps"].to_numpy(), kind="stable")]
    places = np.arange(len(table))
    allocator, _ = distinct(*(table[column].cat.codes.to_numpy() for column in ("host", "process", "allocator")))
    frees = table["frees"].to_numpy(bool)
    size = np.abs(table["delta_bytes"].to_numpy(np.int64, na_value=0))
    address = table["address"].to_numpy(np.int64, na_value=-1)
    order = np.lexsort((places, address, allocator))
    same = (np.diff(address[order]) == 0) & (np.diff(allocator[order]) == 0) & (address[order[1:]] >= 0)
    until, of = np.full(len(table), len(table)), np.full(len(table), -1)
    until[order[:-1][same]] = order[1:][same]
    pairs = same & ~frees[order[:-1]] & frees[order[1:]]
    of[order[1:][pairs]] = order[:-1][pairs]
    size = np.where(frees & (of >= 0) & table["delta_bytes"].isna().to_numpy(bool), size[of], size)
    change = np.where(frees, np.where(of >= 0, -size, 0), size)
    is_stated = table["in_use_bytes"].notna().to_numpy(bool)
    stated = table["in_use_bytes"].to_numpy(np.int64, na_value=0)
    before = 0
    for number in range(int(allocator.max()) + 1):
        own = np.flatnonzero((allocator == number) & is_stated)
        if len(own):
            first = int(stated[own[0]] + (size[own[0]] if frees[own[0]] else -size[own[0]]))
            change[own] = np.diff(stated[own], prepend=first)
            before += first
    return _Events(
        table=table,
        time=table["time_ps"].to_numpy(),
        allocator=allocator,
        frees=frees,
        size=size,
        until=until,
        total=before + np.cumsum(change),
        before=before,
        is_known=bool(is_stated.all()),
    )


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
    """The highest step of a device, where that begins, and how much of it was allocated by events of the trace;
    `edge` events have happened."""

    device: str
    time_ps: int
    in_use: int
    edge: int
    live: int


def _by_label(device: str, labels: pd.Series, sizes: Column) -> pd.DataFrame:
    """The allocations of a device by their label (AT_PEAK_COLUMNS)."""
    code, names = pd.factorize(labels.cat.codes.to_numpy())
    texts = [str(labels.cat.categories[name]) if name >= 0 else None for name in names.tolist()]
    rows = zip([device] * len(texts), texts, np.bincount(code).tolist(), iv.sums(sizes, code, len(texts)), strict=True)
    return frame(AT_PEAK_COLUMNS, sorted(rows, key=lambda row: -row[3])[:MOST_LABELS])


def _memory_of(timeline: Timeline, device: str) -> int | None:
    """The memory of a device, where the trace states it."""
    devices = timeline.trace.devices
    sizes = devices.loc[(devices["device"] == device).to_numpy(bool), "memory_bytes"].dropna()
    return int(sizes.iloc[0]) if len(sizes) else None


def _sizes(peak: _Peak, events: _Events, memory_bytes: int | None) -> dict[str, Any]:
    """The columns that say how much was in use, and how much was left."""
    table, several = events.table, int(events.allocator.max()) > 0
    stack, reserved = (_stated(events, column, peak.edge) for column in ("stack_bytes", "reserved_bytes"))
    before = peak.in_use - (stack or 0) - peak.live if events.is_known else None
    limits, peaks = table["limit_bytes"].dropna(), table["peak_bytes"].dropna()
    limit = int(limits.max()) if len(limits) and not several else memory_bytes
    headroom = None if limit is None or limit < peak.in_use else limit - peak.in_use
    reason = None
    if limit is None:
        reason = "neither the allocator nor the trace states how much memory the device has"
    elif headroom is None:
        reason = "more is in use than the stated limit"
    names = table["allocator"].cat.remove_unused_categories().cat.categories
    return {
        "device": peak.device,
        "events": len(table),
        "allocators": ", ".join(map(str, names)) or None,
        "peak_bytes": peak.in_use,
        "peak_ps": peak.time_ps,
        "at_least": not events.is_known,
        "stack_bytes": stack,
        "before_bytes": None if before is None or before < 0 else before,
        "reserved_bytes": reserved,
        "lifetime_peak_bytes": int(peaks.max()) if len(peaks) and not several else None,
        "limit_bytes": limit,
        "limit_of": None if limit is None else ALLOCATOR if len(limits) and not several else DEVICE,
        "headroom_bytes": headroom,
        "headroom_ratio": headroom / limit if headroom is not None and limit else None,
        "reason": reason,
    }


def _stated(events: _Events, column: str, edge: int) -> int | None:
    """The sum of what each allocator stated last in a column, before its first event what it stated there; None where
    any stated nothing."""
    values, total = events.table[column], 0
    for number in range(int(events.allocator.max()) + 1):
        own = np.flatnonzero(events.allocator == number)
        value = values.iloc[own[max(int(np.searchsorted(own, edge)) - 1, 0)]]
        if pd.isna(value):
            return None
        total += int(value)
    return total


def _meanwhile(timeline: Timeline, peak: _Peak, events: _Events) -> dict[str, Any]:
    """The columns that say what ran at the peak, and in which step and phase that was."""
    rows, error = timeline.whole.rows, timeline.clock_errors.get(peak.device)
    host = str(events.table["host"].iat[0])
    clock = timeline.clock_of_host.get(host, "")
    running, reason = None, None
    if error:
        reason = f"its times cannot be compared with those of its host: {error}"
    elif peak.device not in rows.devices:
        reason = "the trace holds no work of it"
    else:
        running = _running(rows, rows.devices.index(peak.device), peak.time_ps)
        reason = None if running else _idle(rows, rows.devices.index(peak.device), peak.time_ps)
    steps = timeline.steps.table
    labels = steps["step"].astype(object).where(steps["step"].notna(), steps["name"])
    on_clock = steps["clock"].fillna("").to_numpy(object) == clock
    spans = timeline.trace.spans
    phases = np.flatnonzero((spans["tracekit"] == "phase").to_numpy(bool))
    phases = phases[[timeline.clock_of_host.get(str(spans["host"].iat[at]), "") == clock for at in phases.tolist()]]
    spans = spans.iloc[phases]
    return {
        "running": running,
        "running_reason": reason,
        "step": _around(steps[on_clock], labels[on_clock], peak.time_ps),
        "phase": _around(spans, spans["name"], peak.time_ps),
    }


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
    names, ops = rows.labels("name"), [*rows.labels("hlo_op"), ""]
    return [ops[op] or names[name] for op, name in zip(rows.codes("hlo_op")[at], rows.codes("name")[at], strict=True)]


def _around(table: pd.DataFrame, labels: pd.Series, time_ps: int) -> str | None:
    """The label of the row of `table` that began last of those around a time; None for none."""
    start = table["start_ps"].to_numpy()
    at = np.flatnonzero((start <= time_ps) & (table["end_ps"].to_numpy() > time_ps))
    return str(labels.iloc[at[start[at].argmax()]]) if len(at) else None
