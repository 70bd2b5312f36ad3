"""Why each device stood idle: every picosecond without work goes to exactly one cause, by what the trace proves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.analysis.idle.causes import CAUSE_CODE, CAUSES, Cause, causes, host_activity
from tracekit.analysis.idle.pieces import Pieces, clip, joined
from tracekit.columns import frame
from tracekit.intervals import Intervals
from tracekit.timeline.rows import Rows
from tracekit.timeline.timeline import Timeline
from tracekit.timeline.unions import Unions

LARGEST = 20

GAP_COLUMNS = {
    "device": "category",
    "start_ps": "int64",
    "end_ps": "int64",
    "cause": "category",
    "next": "Int64",
    "interval": "int64",
}
BY_DEVICE_COLUMNS = {"device": "str", "cause": "str", "gaps": "int64", "idle_ps": "int64", "ratio": "Float64"}
BY_CAUSE_COLUMNS = {"cause": "str", "gaps": "int64", "idle_ps": "int64", "ratio": "Float64"}
DEVICE_COLUMNS = {
    "device": "str",
    "window_ps": "int64",
    "idle_ps": "int64",
    "ratio": "Float64",
    "cause": "str",
    "cause_ratio": "Float64",
}
LARGEST_COLUMNS = {
    "device": "str",
    "start_ps": "int64",
    "end_ps": "int64",
    "idle_ps": "int64",
    "cause": "str",
    "cause_ratio": "Float64",
    "next": "Int64",
    "name": "str",
}


@dataclass(frozen=True)
class Idle:
    """The idle time of each device on a known place, by cause; times in ps.

    `gaps` (GAP_COLUMNS): pieces of idle intervals, by device and start, each with one cause; pieces with one `interval`
    number make up one idle interval, and `next` is the place in `events` of the row that ends it, null after the last.
    `by_device` (BY_DEVICE_COLUMNS): pieces and time by device and cause, `ratio` of the device's idle time, the largest
    first. `by_cause` (BY_CAUSE_COLUMNS): the same over all devices. `devices` (DEVICE_COLUMNS): window and idle time,
    `ratio` of the window, and the cause of most of it with its share. `largest` (LARGEST_COLUMNS): the longest
    intervals, with the cause of most of each. `lacking`: why nothing is explained, "" if something is.
    """

    gaps: pd.DataFrame
    by_device: pd.DataFrame
    by_cause: pd.DataFrame
    devices: pd.DataFrame
    largest: pd.DataFrame
    lacking: str

    def __repr__(self) -> str:
        return notebook.line(self)

    def _repr_html_(self) -> str:
        return notebook.result(
            self,
            by_cause="",
            devices="",
        )


def idle(timeline: Timeline) -> Idle:
    """Why each device stood idle inside its window; devices that the trace does not place are left out.

    An idle interval is cut where the cause changes, so that every picosecond has exactly one; the pieces of a device
    sum to its window less its busy time, which is checked here.
    """
    rows, seen = timeline.rows, timeline.unions
    placed = [device for device, good in enumerate(rows.placed) if good]
    found = _pieces(timeline, placed)
    lacking = _lacking(timeline, found)
    of_device = np.repeat(np.arange(len(placed)), [len(one) for one in found]).astype(np.int64)
    whole = joined(found)
    found.clear()  # 25 MB a million rows, which the tables need not stand beside
    return _result(rows, seen, placed, whole, of_device, lacking)


def _pieces(timeline: Timeline, placed: Sequence[int]) -> list[Pieces]:
    """The idle pieces of each device, checked against its window and its busy time."""
    rows, seen, known = timeline.rows, timeline.unions, host_activity(timeline)
    found = []
    for device in placed:
        name, windows = rows.devices[device], seen.windows[rows.clocks[device]]
        pieces = clip(_edged(causes(timeline, known, device), rows, device, windows), windows)
        length = iv.sum_exactly(pieces.end - pieces.start)
        wanted = iv.total(windows) - iv.total(seen.devices[name].busy)
        if length != wanted:
            raise AssertionError(f"the idle pieces of {name} sum to {length} ps, its idle time is {wanted} ps")
        found.append(pieces)
    return found


def _lacking(timeline: Timeline, found: Sequence[Pieces]) -> str:
    if not found:
        return "The trace holds no work of a device, so no device can have been idle."
    cause = np.concatenate([one.label for one in found])
    inner = cause[~np.isin(cause, (CAUSE_CODE[Cause.BEFORE], CAUSE_CODE[Cause.AFTER]))]
    if len(inner) == 0 or (inner != CAUSE_CODE[Cause.UNEXPLAINED]).any():
        return ""
    if len(timeline.trace.launches) == 0:
        return "The trace holds no host launches, so it does not show why the devices stood idle."
    if not (timeline.launch >= 0).any():
        return "No work of a device is linked to a host launch, so it does not show why the devices stood idle."
    return "No launch, wait or program of the trace explains any of the idle time."


def _edged(pieces: Pieces, rows: Rows, device: int, windows: Intervals) -> Pieces:
    """The pieces, with those before a device's first work and after its last; without work, all is before it.

    Only work that lasts counts, and the edges reach as far as the windows do.
    """
    of = rows.of(device)
    lasting = np.flatnonzero(rows.end[of] > rows.start[of]) + of.start
    low, high = (int(windows[0, 0]), int(windows[-1, 1])) if len(windows) else (0, 0)
    first = int(rows.start[lasting[0]]) if len(lasting) else high
    last = int(rows.end[lasting].max()) if len(lasting) else high
    edges = Pieces(
        np.array([low, last]),
        np.array([first, high]),
        np.array([CAUSE_CODE[Cause.BEFORE], CAUSE_CODE[Cause.AFTER]], np.int8),
        np.array([lasting[0] if len(lasting) else -1, -1]),
        np.array([0, int(pieces.interval[-1]) + 2 if len(pieces) else 1]),
    )
    inner = replace(pieces, interval=pieces.interval + 1)
    parts = [edges.take(slice(0, 1)), inner, edges.take(slice(1, 2))]
    return joined([one for one in parts if len(one) and one.end[0] > one.start[0]] or [inner])


def _result(
    rows: Rows, seen: Unions, placed: Sequence[int], whole: Pieces, of_device: NDArray[np.int64], lacking: str
) -> Idle:
    new = (np.diff(whole.interval) != 0) | (np.diff(of_device) != 0)
    whole = replace(whole, interval=np.append(0, np.cumsum(new))[: len(whole)])
    names = [rows.devices[device] for device in placed]
    length = whole.end - whole.start
    key = of_device * len(CAUSES) + whole.label
    groups = len(placed) * len(CAUSES)
    times, counts = iv.sums(length, key, groups), np.bincount(key, minlength=groups).tolist()
    idle_of = [sum(times[at : at + len(CAUSES)]) for at in range(0, groups, len(CAUSES))]
    by_device, by_cause, devices = [], [], []
    for number, name in enumerate(names):
        mine = [
            (str(cause), counts[at], times[at])
            for cause, at in zip(CAUSES, range(number * len(CAUSES), groups), strict=False)
            if counts[at]
        ]
        mine.sort(key=lambda one: -one[2])
        by_device += [(name, *one, one[2] / idle_of[number]) for one in mine]
        window = iv.total(seen.windows[rows.clocks[placed[number]]])
        most = (mine[0][0], mine[0][2] / idle_of[number]) if mine else (None, None)
        devices.append((name, window, idle_of[number], idle_of[number] / window if window else None, *most))
    for code, cause in enumerate(CAUSES):
        count, time = sum(counts[code :: len(CAUSES)]), sum(times[code :: len(CAUSES)])
        if count:
            by_cause.append((str(cause), count, time, time / sum(idle_of)))
    by_cause.sort(key=lambda one: -one[2])
    next_row = np.where(whole.next >= 0, rows.at[whole.next] if len(rows) else -1, -1)
    return Idle(
        pd.DataFrame(
            {
                "device": pd.Categorical.from_codes(of_device, categories=pd.Index(names, dtype="str")),
                "start_ps": whole.start,
                "end_ps": whole.end,
                "cause": pd.Categorical.from_codes(
                    whole.label, categories=pd.Index(list(map(str, CAUSES)), dtype="str")
                ),
                "next": pd.arrays.IntegerArray(next_row, whole.next < 0),
                "interval": whole.interval,
            },
            copy=False,
        ),
        frame(BY_DEVICE_COLUMNS, by_device),
        frame(BY_CAUSE_COLUMNS, by_cause),
        frame(DEVICE_COLUMNS, devices),
        _largest(rows, names, of_device, whole, next_row),
        lacking,
    )


def _largest(
    rows: Rows, names: Sequence[str], of_device: NDArray[np.int64], whole: Pieces, next_row: NDArray[np.int64]
) -> pd.DataFrame:
    """The LARGEST longest intervals (LARGEST_COLUMNS)."""
    first = np.flatnonzero(np.append(True, whole.interval[1:] != whole.interval[:-1])[: len(whole)])
    last = np.append(first[1:], len(whole)) - 1
    # Windows may hold only parts of an interval.
    length = np.add.reduceat(whole.end - whole.start, first) if len(first) else first
    # Of equals the earlier; only those that may be among the largest are sorted.
    least = np.partition(length, -LARGEST)[-LARGEST] if len(length) > LARGEST else 0
    order = np.flatnonzero(length >= least)
    order = order[np.argsort(-length[order], kind="stable")][:LARGEST]
    found = []
    for one in order.tolist():
        parts = slice(int(first[one]), int(last[one]) + 1)
        times = iv.sums(whole.end[parts] - whole.start[parts], whole.label[parts], len(CAUSES))
        most = max(range(len(CAUSES)), key=times.__getitem__)
        place = int(next_row[first[one]])
        found.append(
            (
                names[int(of_device[first[one]])],
                int(whole.start[first[one]]),
                int(whole.end[last[one]]),
                int(length[one]),
                str(CAUSES[most]),
                times[most] / int(length[one]),
                place if place >= 0 else pd.NA,
                str(rows.events["name"].iat[place]) if place >= 0 else None,
            )
        )
    return frame(LARGEST_COLUMNS, found)
