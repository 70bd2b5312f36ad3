"""How the host's launches kept up with the devices: delays, queues, stretches bound by launches, and tiny kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.analysis.launches.distance import launch_intervals, quantiles
from tracekit.analysis.launches.queues import DEPTH_COLUMNS, queue
from tracekit.analysis.launches.tiny_kernels import costs_by_name, tiny_kernels
from tracekit.analysis.launches.work import Work
from tracekit.columns import frame
from tracekit.intervals import Intervals
from tracekit.timeline.timeline import Timeline

_DELAY = {"n": "int64", "negative": "int64", "median_ps": "Int64", "p90_ps": "Int64", "p99_ps": "Int64"}
BY_DEVICE_COLUMNS = {"device": "str", **_DELAY, "unlinked": "int64"}
BY_CALL_COLUMNS = {"call": "str", **_DELAY}
QUEUE_COLUMNS = {
    "device": "str",
    "span_ps": "int64",
    "mean": "Float64",
    "max": "int64",
    "empty_ps": "int64",
    "empty_ratio": "Float64",
    "starved_ps": "int64",
    "starved_ratio": "Float64",
}
BOUND_COLUMNS = {
    "device": "str",
    "start_ps": "int64",
    "end_ps": "int64",
    "launches": "int64",
    "starved_ps": "int64",
    "starved_ratio": "Float64",
}
THREAD_COLUMNS = {"host": "str", "thread": "str", "launches": "int64", "interval_ps": "Int64"}
TINY_COLUMNS = {"name": "str", "kernels": "int64", "time_ps": "int64", "cost_ps": "int64"}
TINY_BY_DEVICE_COLUMNS = {
    "device": "str",
    "kernels": "int64",
    "of_kernels_ratio": "Float64",
    "time_ps": "int64",
    "cost_ps": "int64",
    "cost_ratio": "Float64",
}


@dataclass(frozen=True)
class Launches:
    """How long launches took and whether they kept up; times in ps, one launch counts once per device.

    `by_device` (BY_DEVICE_COLUMNS), `by_call` (BY_CALL_COLUMNS): the delays from a call's begin to the start of the
    first row that it started on a device; `negative` ones show clocks that disagree and are in no quantile; `unlinked`
    rows have no launch. `queue` (QUEUE_COLUMNS): launches called but not started, over `span_ps` from a device's first
    start to its last end; `starved` is time in which the device was idle, too. `depth` (DEPTH_COLUMNS): the exact mean
    of the queue in SLOTS slots a device. `bound` (BOUND_COLUMNS): stretches bound by launches. `threads`
    (THREAD_COLUMNS): the median distance of successive launches of a thread. `tiny` (TINY_COLUMNS) by name and
    `tiny_by_device` (TINY_BY_DEVICE_COLUMNS; ratios of its launched kernels and of its span): kernels shorter than that
    distance, and what they cost. `lacking`: why there is nothing, else "".
    """

    by_device: pd.DataFrame
    by_call: pd.DataFrame
    queue: pd.DataFrame
    depth: pd.DataFrame
    bound: pd.DataFrame
    threads: pd.DataFrame
    tiny: pd.DataFrame
    tiny_by_device: pd.DataFrame
    lacking: str

    def __repr__(self) -> str:
        return notebook.line(self)

    def _repr_html_(self) -> str:
        return notebook.result(
            self,
            queue="device span_ps mean max empty_ratio starved_ratio",
            by_call="call n median_ps p90_ps p99_ps",
            tiny_by_device="",
        )


def launches(timeline: Timeline) -> Launches:
    """How the launches kept up with each device that the trace places.

    Queues are told of the timeline's windows, as far as they lie between a device's first start and last end. Quantiles
    are of the values themselves: the smallest that is at least as large as the stated share of them.
    """
    rows, launch, calls = timeline.rows, timeline.launch, timeline.trace.launches
    lacking = ""
    if len(calls) == 0:
        lacking = "The trace holds no host launches, so their delays and queues are not known."
    elif not (launch >= 0).any():
        lacking = "No work of a device is linked to a host launch, so delays and queues are not known."
    call_starts = calls["start_ps"].to_numpy()
    rows_of_launch = np.bincount(launch[launch >= 0], minlength=len(calls))
    interval, threads = launch_intervals(np.flatnonzero(rows_of_launch), calls)
    devices = [
        device for device, is_placed in enumerate(rows.placed) if is_placed and (launch[rows.of(device)] >= 0).any()
    ]
    queues, depth, bound, by_device, tiny_by_device = [], [], [], [], []
    delays, kernels = [], []
    for device in devices:
        work, reach = _first_rows(timeline, device, rows_of_launch, call_starts), _reach(timeline, device)
        unlinked = int((launch[rows.of(device)] < 0).sum())
        delays.append((work.launch, work.start - work.call_time))
        by_device.append((rows.devices[device], *_delays(delays[-1][1]), unlinked))
        line, means, stretches = queue(rows, device, work, reach)
        queues.append(line)
        depth.append(means)
        bound += stretches
        costs, line = tiny_kernels(rows, device, work, rows_of_launch, interval, reach)
        kernels.append(costs)
        tiny_by_device.append(line)
    return Launches(
        frame(BY_DEVICE_COLUMNS, by_device),
        frame(BY_CALL_COLUMNS, _by_call(calls, delays)),
        frame(QUEUE_COLUMNS, queues),
        pd.concat(depth, ignore_index=True) if depth else frame(DEPTH_COLUMNS),
        frame(BOUND_COLUMNS, bound),
        frame(THREAD_COLUMNS, threads),
        frame(TINY_COLUMNS, costs_by_name(rows, kernels)),
        frame(TINY_BY_DEVICE_COLUMNS, tiny_by_device),
        lacking,
    )


def _first_rows(
    timeline: Timeline, device: int, rows_of_launch: NDArray[np.int64], call_starts: NDArray[np.int64]
) -> Work:
    """The work of a device; `rows_of_launch` has the rows of each launch."""
    rows, launch = timeline.rows, timeline.launch
    device_rows = rows.of(device)
    row = np.flatnonzero(launch[device_rows] >= 0) + device_rows.start
    launch_of_row = launch[row]
    if rows_of_launch.max() > 1:
        first_row = np.full(len(call_starts), -1)
        # The last to be written stays, so the first row of each launch is written last.
        first_row[launch_of_row[::-1]] = row[::-1]
        row = row[first_row[launch_of_row] == row]
        launch_of_row = launch[row]
    return Work(row, rows.start[row], launch_of_row, call_starts[launch_of_row], *timeline.gaps(device))


def _reach(timeline: Timeline, device: int) -> Intervals:
    """The part of the windows between a device's first start and last end."""
    rows = timeline.rows
    device_rows = rows.of(device)
    reach = iv.intervals([rows.start[device_rows.start]], [rows.end[device_rows].max()])
    return iv.intersection(reach, timeline.unions.windows.get(rows.clocks[device], iv.EMPTY))


def _delays(delay: NDArray[np.int64]) -> tuple[int, int, int | None, int | None, int | None]:
    """How many delays, how many of them negative, and median, p90 and p99 of the rest, None if there is none."""
    nonnegative = delay[delay >= 0]
    if len(nonnegative) == 0:
        return len(delay), len(delay), None, None, None
    median, p90, p99 = quantiles(nonnegative, (50, 90, 99))
    return len(delay), len(delay) - len(nonnegative), median, p90, p99


def _by_call(
    launches: pd.DataFrame, delays: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]
) -> list[tuple[Any, ...]]:
    """The delays by name of the host call, the most frequent first; each device gives its launches and delays."""
    names = launches["name"].cat
    no_values = np.empty(0, np.int64)
    launch, delay = (
        (np.concatenate([no_values, *column]) for column in zip(*delays, strict=True)) if delays else (no_values,) * 2
    )
    code = names.codes.to_numpy()[launch]
    call_codes = np.flatnonzero(np.bincount(code)).tolist()
    table = [(str(names.categories[call]), *_delays(delay[code == call])) for call in call_codes]
    return sorted(table, key=lambda entry: (-entry[1], entry[0]))
