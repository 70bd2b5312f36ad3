"""Why each device stood idle: every picosecond without work goes to exactly one cause, by what the trace proves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.analysis.idle.causes import CAUSE_CODE, CAUSES, Cause, causes, host_activity
from tracekit.analysis.idle.pieces import Pieces, clip, concatenate
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
    rows, unions = timeline.rows, timeline.unions
    devices = [device for device, is_placed in enumerate(rows.placed) if is_placed]
    pieces_of = _pieces_of_devices(timeline, devices)
    lacking = _lacking(timeline, pieces_of)
    of_device = np.repeat(np.arange(len(devices)), [len(pieces) for pieces in pieces_of]).astype(np.int64)
    all_pieces = concatenate(pieces_of)
    pieces_of.clear()  # 25 MB a million rows, which the tables need not stand beside
    return _result(rows, unions, devices, all_pieces, of_device, lacking)


def _pieces_of_devices(timeline: Timeline, devices: Sequence[int]) -> list[Pieces]:
    """The idle pieces of each device, checked against its window and its busy time."""
    rows, unions, host = timeline.rows, timeline.unions, host_activity(timeline)
    pieces_of = []
    for device in devices:
        name, windows = rows.devices[device], unions.windows[rows.clocks[device]]
        pieces = clip(_with_edges(causes(timeline, host, device), rows, device, windows), windows)
        length = iv.sum_exactly(pieces.end - pieces.start)
        expected = iv.total(windows) - iv.total(unions.devices[name].busy)
        if length != expected:
            raise AssertionError(f"the idle pieces of {name} sum to {length} ps, its idle time is {expected} ps")
        pieces_of.append(pieces)
    return pieces_of


def _lacking(timeline: Timeline, pieces_of: Sequence[Pieces]) -> str:
    if not pieces_of:
        return "The trace holds no work of a device, so no device can have been idle."
    cause = np.concatenate([pieces.label for pieces in pieces_of])
    inner = cause[~np.isin(cause, (CAUSE_CODE[Cause.BEFORE], CAUSE_CODE[Cause.AFTER]))]
    if len(inner) == 0 or (inner != CAUSE_CODE[Cause.UNEXPLAINED]).any():
        return ""
    if len(timeline.trace.launches) == 0:
        return "The trace holds no host launches, so it does not show why the devices stood idle."
    if not (timeline.launch >= 0).any():
        return "No work of a device is linked to a host launch, so it does not show why the devices stood idle."
    return "No launch, wait or program of the trace explains any of the idle time."


def _with_edges(pieces: Pieces, rows: Rows, device: int, windows: Intervals) -> Pieces:
    """The pieces, with those before a device's first work and after its last; without work, all is before it.

    Only work that lasts counts, and the edges reach as far as the windows do.
    """
    device_rows = rows.of(device)
    lasting = np.flatnonzero(rows.end[device_rows] > rows.start[device_rows]) + device_rows.start
    low, high = (int(windows[0, 0]), int(windows[-1, 1])) if len(windows) else (0, 0)
    first_start = int(rows.start[lasting[0]]) if len(lasting) else high
    last_end = int(rows.end[lasting].max()) if len(lasting) else high
    edges = Pieces(
        np.array([low, last_end]),
        np.array([first_start, high]),
        np.array([CAUSE_CODE[Cause.BEFORE], CAUSE_CODE[Cause.AFTER]], np.int8),
        np.array([lasting[0] if len(lasting) else -1, -1]),
        np.array([0, int(pieces.interval[-1]) + 2 if len(pieces) else 1]),
    )
    inner = replace(pieces, interval=pieces.interval + 1)
    sections = [edges.take(slice(0, 1)), inner, edges.take(slice(1, 2))]
    return concatenate([part for part in sections if len(part) and part.end[0] > part.start[0]] or [inner])


def _result(
    rows: Rows, unions: Unions, devices: Sequence[int], pieces: Pieces, of_device: NDArray[np.int64], lacking: str
) -> Idle:
    new = (np.diff(pieces.interval) != 0) | (np.diff(of_device) != 0)
    pieces = replace(pieces, interval=np.append(0, np.cumsum(new))[: len(pieces)])
    names = [rows.devices[device] for device in devices]
    length = pieces.end - pieces.start
    key = of_device * len(CAUSES) + pieces.label
    groups = len(devices) * len(CAUSES)
    times, counts = iv.sums(length, key, groups), np.bincount(key, minlength=groups).tolist()
    idle_of = [sum(times[offset : offset + len(CAUSES)]) for offset in range(0, groups, len(CAUSES))]
    by_device, by_cause, device_table = [], [], []
    for number, name in enumerate(names):
        causes_of_device = [
            (str(cause), counts[place], times[place])
            for cause, place in zip(CAUSES, range(number * len(CAUSES), groups), strict=False)
            if counts[place]
        ]
        causes_of_device.sort(key=lambda entry: -entry[2])
        by_device += [(name, *entry, entry[2] / idle_of[number]) for entry in causes_of_device]
        window = iv.total(unions.windows[rows.clocks[devices[number]]])
        main_cause = (
            (causes_of_device[0][0], causes_of_device[0][2] / idle_of[number]) if causes_of_device else (None, None)
        )
        device_table.append((name, window, idle_of[number], idle_of[number] / window if window else None, *main_cause))
    for code, cause in enumerate(CAUSES):
        count, time = sum(counts[code :: len(CAUSES)]), sum(times[code :: len(CAUSES)])
        if count:
            by_cause.append((str(cause), count, time, time / sum(idle_of)))
    by_cause.sort(key=lambda entry: -entry[2])
    next_row = np.where(pieces.next >= 0, rows.at[pieces.next] if len(rows) else -1, -1)
    return Idle(
        pd.DataFrame(
            {
                "device": pd.Categorical.from_codes(of_device, categories=pd.Index(names, dtype="str")),
                "start_ps": pieces.start,
                "end_ps": pieces.end,
                "cause": pd.Categorical.from_codes(
                    pieces.label, categories=pd.Index(list(map(str, CAUSES)), dtype="str")
                ),
                "next": pd.arrays.IntegerArray(next_row, pieces.next < 0),
                "interval": pieces.interval,
            },
            copy=False,
        ),
        frame(BY_DEVICE_COLUMNS, by_device),
        frame(BY_CAUSE_COLUMNS, by_cause),
        frame(DEVICE_COLUMNS, device_table),
        _largest(rows, names, of_device, pieces, next_row),
        lacking,
    )


def _largest(
    rows: Rows, names: Sequence[str], of_device: NDArray[np.int64], pieces: Pieces, next_row: NDArray[np.int64]
) -> pd.DataFrame:
    """The LARGEST longest intervals (LARGEST_COLUMNS)."""
    heads = np.flatnonzero(np.append(True, pieces.interval[1:] != pieces.interval[:-1])[: len(pieces)])
    tails = np.append(heads[1:], len(pieces)) - 1
    # Windows may hold only parts of an interval.
    length = np.add.reduceat(pieces.end - pieces.start, heads) if len(heads) else heads
    # Of equals the earlier; only those that may be among the largest are sorted.
    threshold = np.partition(length, -LARGEST)[-LARGEST] if len(length) > LARGEST else 0
    order = np.flatnonzero(length >= threshold)
    order = order[np.argsort(-length[order], kind="stable")][:LARGEST]
    intervals = []
    for place in order.tolist():
        interval_pieces = slice(int(heads[place]), int(tails[place]) + 1)
        times = iv.sums(
            pieces.end[interval_pieces] - pieces.start[interval_pieces], pieces.label[interval_pieces], len(CAUSES)
        )
        main_cause = max(range(len(CAUSES)), key=times.__getitem__)
        next_place = int(next_row[heads[place]])
        intervals.append(
            (
                names[int(of_device[heads[place]])],
                int(pieces.start[heads[place]]),
                int(pieces.end[tails[place]]),
                int(length[place]),
                str(CAUSES[main_cause]),
                times[main_cause] / int(length[place]),
                next_place if next_place >= 0 else pd.NA,
                str(rows.events["name"].iat[next_place]) if next_place >= 0 else None,
            )
        )
    return frame(LARGEST_COLUMNS, intervals)
