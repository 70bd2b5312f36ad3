"""The memory in use on each device as the timeline shows it: its steps, its highest one, and what is known of that."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.analysis.memory import ALLOCATOR, Memory, memory, steps_of_devices
from tracekit.columns import records
from tracekit.report.html.lanes import Group
from tracekit.report.model import Report
from tracekit.timeline.timeline import Timeline
from tracekit.units import percent, quantity, short, size, time

# So many steps are in the page, those of all devices; a million bytes and a half at the most.
MOST_STEPS = 100_000
# In use where nothing is known: between the parts of a trace that are shown.
UNKNOWN = -1
_MOST_LABELS, _LONGEST = 3, 60
# What is in use last is so for a moment at least; the page is larger where times are no whole nanoseconds.
_NS = 1000

Column = NDArray[np.int64]


@dataclass(frozen=True)
class MemoryLane:
    """The n > 1 steps of the bytes in use on the device of `group`: from `time[i]` ps on `in_use[i]`, or UNKNOWN, until
    `time[i + 1]`; the last is UNKNOWN.

    `peak` is the place of the highest. Of each `stretch` ps some steps are left out; of none where that is 0. What is
    in use may be more where it is `at_least` so much. `error` says why times of the device cannot be compared with
    those of its allocators, else "". `facts` are terms and texts of the peak.
    """

    group: int
    time: Column
    in_use: Column
    peak: int
    stretch: int
    at_least: bool
    error: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MemoryLanes:
    """The lanes of all devices that have one, and `notes`: how to read them, and what they leave out."""

    lanes: tuple[MemoryLane, ...] = ()
    notes: tuple[str, ...] = ()


def memory_lanes(report: Report, timeline: Timeline, groups: tuple[Group, ...], most: int = MOST_STEPS) -> MemoryLanes:
    """The memory lanes of the devices among `groups`, with about `most` steps in all.

    A part of the trace shows the steps inside it, and its own peak. Of more steps those stay that are the lowest, the
    highest and the last of each of many equal stretches of time, so that no value is drawn more than a stretch away
    from where it was in use.
    """
    # Of compared phases the report tells the peak inside them; the timeline shows what is around them too.
    result = memory(timeline) if report.compared else report.explanation.memory
    if result.lacking:
        return MemoryLanes()
    of_device = {group.name: number for number, group in enumerate(groups) if group.kind == "device"}
    rows = {row["device"]: row for row in records(result.by_device)}
    errors, made = timeline.clock_errors, []
    shown = [device for device in rows if device in of_device]
    steps_of = steps_of_devices(result) if shown else {}
    for device in shown:
        number = of_device[device]
        times, values = steps_of[device]
        parts = _parts(times, values, _windows(report, timeline, groups[number].clock, times))
        room = most // len(shown) // len(parts)
        thinned = [_thinned(*part, room) for part in parts]
        at, in_use = (np.concatenate([part[column] for part in thinned]) for column in (0, 1))
        row = rows[device]
        made.append(
            MemoryLane(
                group=number,
                time=at,
                in_use=in_use,
                peak=int(in_use.argmax()),
                stretch=max(stretch for _, _, stretch in thinned),
                at_least=bool(row["at_least"]),
                error=errors.get(device, ""),
                facts=tuple(_facts(row, result)),
            )
        )
    return MemoryLanes(tuple(made), tuple(_notes(made, [name for name in rows if name not in of_device])))


def _windows(report: Report, timeline: Timeline, clock: str, times: Column) -> list[list[int]]:
    """What the timeline shows of a clock: its windows, else all of the trace, with the steps at these times."""
    work: list[list[int]] = report.windows[clock].tolist()
    if timeline.windows is not None:
        return work
    return [[int(times[0]), max(int(times[-1]) + _NS, *(end for _, end in work))]]


def _parts(times: Column, in_use: Column, windows: list[list[int]]) -> list[tuple[Column, Column]]:
    """The steps inside each of the windows, where they end, with a last one that is UNKNOWN."""
    parts = []
    for low, high in windows:
        # Of several steps at one time each was in use.
        first, last = np.searchsorted(times, [low, high], side="left").tolist()
        if first == len(times) or times[first] > low:
            first -= 1
        at = np.append(np.maximum(times[first:last], low), high)
        parts.append((at, np.append(in_use[first:last], UNKNOWN)))
    return parts


def _thinned(times: Column, in_use: Column, most: int) -> tuple[Column, Column, int]:
    """At most about `most` of the steps, and the length of the stretches of time of which each keeps its lowest, its
    highest (of equal ones the first) and its last; 0 where all are kept."""
    if len(times) <= most:
        return times, in_use, 0
    stretch = -(-(int(times[-1]) - int(times[0]) + 1) // max(most // 3, 1))
    place, number = np.arange(len(times)), (times - times[0]) // stretch
    order = np.lexsort((-place, in_use, number))
    first = np.flatnonzero(np.diff(number, prepend=-1))
    last = np.append(first[1:], len(times)) - 1
    kept = np.unique(np.concatenate([[0], order[first], order[last], last]))
    return times[kept], in_use[kept], stretch


def _facts(row: dict[str, Any], result: Memory) -> list[tuple[str, str]]:
    """What is known of a peak: for whom it was, and what it left."""
    facts = []
    labels = result.at_peak[(result.at_peak["device"] == row["device"]) & result.at_peak["label"].notna()]
    if len(labels):
        first = records(labels.head(_MOST_LABELS))
        texts = [f"{short(of['label'], _LONGEST)} {size(of['allocated_bytes'])}" for of in first]
        more = [f"{quantity(len(labels) - _MOST_LABELS, 'other')}"] if len(labels) > _MOST_LABELS else []
        facts.append(("allocated by", "; ".join([*texts, *more])))
    if pd.notna(row["stack_bytes"]) and row["stack_bytes"]:
        facts.append(("for the stack of programs", size(row["stack_bytes"])))
    if pd.notna(row["before_bytes"]) and row["before_bytes"]:
        facts.append(("from before the trace", size(row["before_bytes"])))
    if pd.isna(row["headroom_bytes"]):
        return [*facts, ("headroom", f"not known: {row['reason']}")]
    limit = "its allocator's limit" if row["limit_of"] == ALLOCATOR else "the device's memory"
    of = f"{percent(row['headroom_bytes'], row['limit_bytes'])} of {limit} of {size(row['limit_bytes'])}"
    up_to = "" if row["limit_of"] == ALLOCATOR and not row["at_least"] else "up to "
    return [*facts, ("headroom", f"{up_to}{size(row['headroom_bytes'])}, {of}")]


def _notes(lanes: list[MemoryLane], without: list[str]) -> list[str]:
    notes, coarsest = [], max((lane.stretch for lane in lanes), default=0)
    if lanes:
        notes.append(
            "Memory in use is drawn from 0 to the peak of its lane, which a line marks; where a pixel holds several "
            "values, the highest, and darker down to the lowest. Memory counts from when the host allocates it, mostly "
            "before the device runs what it is for."
        )
    if coarsest:
        notes.append(
            "The memory in use changes too often to keep every change: of each "
            f"{time(coarsest)} the lowest, the highest and the last value are kept."
        )
    if without:
        notes.append(f"Without work, and so without a lane for the memory in use: {', '.join(without)}.")
    return notes
