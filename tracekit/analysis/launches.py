"""How the host's launches kept up with the devices: delays, queues, launch-bound intervals, and tiny kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.columns import frame, numbered, places_of
from tracekit.intervals import Intervals
from tracekit.jit import loop
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.timeline import Timeline, rows_begin_inside
from tracekit.vocabulary.kinds import Kind

# A queue is drawn, and launch-bound intervals are found, in this many pieces of a device's time.
SLOTS = 1000
# The queues of all devices are drawn in no more pieces than this: 8 million of eight thousand devices took 370 MB.
MOST_DEPTHS = 1 << 18
# A slot is bound by launches where the device was idle with an empty queue for more than half of it and yet launches
# started work in it: a long gap is no such slot. An interval is of such slots, with at least this many launches.
BOUND_SHARE = (1, 2)
BOUND_LAUNCHES = 10

# The median distance of fewer launches says little about what a host needs for one.
LEAST_LAUNCHES = 20

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

DEPTH_COLUMNS = {"device": "str", "start_ps": "int64", "end_ps": "int64", "mean": "Float64"}
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


@dataclass(frozen=True, repr=False)
class Launches(
    notebook.Result,
    queue="device span_ps mean max empty_ratio starved_ratio",
    by_call="call n median_ps p90_ps p99_ps",
    tiny_by_device="",
):
    """How long launches took and whether they kept up; times in ps, one launch counts once per device.

    `by_device` (BY_DEVICE_COLUMNS), `by_call` (BY_CALL_COLUMNS): the delays from a call's begin to the start of the
    first row that it started on a device; `negative` ones show clocks that disagree and are in no quantile; `unlinked`
    rows have no launch. `queue` (QUEUE_COLUMNS): launches called but not started, over `span_ps` from a device's first
    start to its last end; `starved` is time in which the device was idle, too. `depth` (DEPTH_COLUMNS): the exact mean
    of the queue in SLOTS slots a device, of many in MOST_DEPTHS in all. `bound` (BOUND_COLUMNS): the launch-bound
    intervals. `threads` (THREAD_COLUMNS): the median distance of successive launches of a thread. `tiny` (TINY_COLUMNS)
    by name and `tiny_by_device` (TINY_BY_DEVICE_COLUMNS; ratios of its launched kernels and of its span): kernels
    shorter than that distance, and what they cost. `lacking`: why there is nothing, else "".

    Of a part of a trace, delays, distances and kernels are those of the rows that start in it, and `span_ps` is the
    part of it that lies in the device's span in the whole trace: a queue holds what starts after the part, too.
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


@dataclass(frozen=True)
class Work:
    """The first row of each launch on one device of a whole trace, by start, each column (m,): its place in Rows, when
    it started, and its launch with its begin; whether that start is `here`, in the windows; the rows around each gap of
    the device (`Timeline.gaps`); and the part of the windows between its first start and last end."""

    device: int
    row: NDArray[np.int64]
    start: NDArray[np.int64]
    launch: NDArray[np.int64]
    call_time: NDArray[np.int64]
    here: NDArray[np.bool_]
    before: NDArray[np.int32]
    after: NDArray[np.int32]
    windows: Intervals


def launches(timeline: Timeline) -> Launches:
    """How the launches kept up with each device that the trace places.

    Queues are told of the timeline's windows, as far as they lie between a device's first start and last end in the
    whole trace. Quantiles are of the values themselves: the smallest that is at least as large as the stated share of
    them.
    """
    # Rows that a window cuts would tell neither when they started nor what was queued at its end.
    whole, calls = timeline.whole, timeline.trace.launches
    rows, launch = whole.rows, whole.launch
    begins_here = np.ones(len(rows), bool)
    if timeline.windows is not None:
        begins_here = rows_begin_inside(rows, np.arange(len(rows)), timeline.unions.windows)
    is_linked = begins_here & (launch >= 0)
    devices = [
        device for device in range(len(rows.devices)) if rows.placed[device] and _is_told(whole, device, begins_here)
    ]
    lacking = ""
    if len(calls) == 0:
        lacking = "The trace holds no host launches, so their delays and queues are not known."
    elif not any(timeline.rows.placed) or not (devices or is_linked.any()):
        lacking = "No work of a device is linked to a host launch, so delays and queues are not known."
    errors = timeline.clock_errors
    call_starts, call_names = calls["start_ps"].to_numpy(), calls["name"].cat
    call_codes = call_names.codes.to_numpy()
    rows_of_launch = np.bincount(launch[launch >= 0], minlength=len(calls))
    start_several = bool((rows_of_launch > 1).any())
    launched = rows_of_launch if begins_here.all() else np.bincount(launch[is_linked], minlength=len(calls))
    interval, threads = launch_intervals(np.flatnonzero(launched), calls)
    if devices and all(rows.devices[device] in errors for device in devices):
        name = rows.devices[devices[0]]
        lacking = f"{name}: {errors[name]}, so delays and queues are not known."
    devices = [device for device in devices if rows.devices[device] not in errors]
    windows_of = {device: _windows(timeline, device) for device in devices}
    devices = [device for device in devices if len(windows_of[device]) or begins_here[rows.of(device)].any()]
    queues, depth, bound, by_device, tiny_by_device = [], [], [], [], []
    delays, kernels = [], []
    for device in devices:
        work = _work(whole, device, start_several, call_starts, begins_here, windows_of[device])
        unlinked = int(((launch[rows.of(device)] < 0) & begins_here[rows.of(device)]).sum())
        delays.append((call_codes[work.launch[work.here]], (work.start - work.call_time)[work.here]))
        by_device.append((rows.devices[device], *_delays(delays[-1][1]), unlinked))
        line, means, bound_of_device = queue(rows, work, min(SLOTS, max(MOST_DEPTHS // len(devices), 1)))
        queues.append(line)
        depth.append(means)
        bound += bound_of_device
        costs, line = tiny_kernels(rows, work, rows_of_launch, interval)
        kernels.append(costs)
        tiny_by_device.append(line)
    return Launches(
        frame(BY_DEVICE_COLUMNS, by_device),
        frame(BY_CALL_COLUMNS, _by_call(list(call_names.categories), delays)),
        frame(QUEUE_COLUMNS, queues),
        _depth(depth),
        frame(BOUND_COLUMNS, bound),
        frame(THREAD_COLUMNS, threads),
        frame(TINY_COLUMNS, costs_by_name(rows, kernels)),
        frame(TINY_BY_DEVICE_COLUMNS, tiny_by_device),
        lacking,
    )


def _is_told(whole: Timeline, device: int, begins_here: NDArray[np.bool_]) -> bool:
    """Whether launches tell the queue of a device: of rows of it that begin here, or of others where none does."""
    its = whole.rows.of(device)
    here, launch = begins_here[its], whole.launch[its]
    return bool((launch[here] >= 0).any() if here.any() else (launch >= 0).any())


def _windows(timeline: Timeline, device: int) -> Intervals:
    """The part of a timeline's windows between the first start and the last end of a device of the whole trace."""
    rows = timeline.whole.rows
    device_rows = rows.of(device)
    reach = iv.intervals([rows.start[device_rows.start]], [rows.end[device_rows].max()])
    return iv.intersection(reach, timeline.unions.windows.get(rows.clocks[device], iv.EMPTY))


def _work(
    whole: Timeline,
    device: int,
    start_several: bool,
    call_starts: NDArray[np.int64],
    begins_here: NDArray[np.bool_],
    windows: Intervals,
) -> Work:
    """The work of a device; whether some launches `start_several` rows, and which rows begin in the `windows`."""
    rows, launch = whole.rows, whole.launch
    device_rows = rows.of(device)
    row = np.flatnonzero(launch[device_rows] >= 0) + device_rows.start
    launch_of_row = launch[row]
    if start_several:
        row = row[np.sort(np.unique(launch_of_row, return_index=True)[1])]
        launch_of_row = launch[row]
    call_times = call_starts[launch_of_row]
    return Work(device, row, rows.start[row], launch_of_row, call_times, begins_here[row], *whole.gaps(device), windows)


def _delays(delay: NDArray[np.int64]) -> tuple[int, int, int | None, int | None, int | None]:
    """How many delays, how many of them negative, and median, p90 and p99 of the rest, None if there is none."""
    nonnegative = delay[delay >= 0]
    if len(nonnegative) == 0:
        return len(delay), len(delay), None, None, None
    median, p90, p99 = iv.quantiles(nonnegative, (50, 90, 99))
    return len(delay), len(delay) - len(nonnegative), median, p90, p99


def _by_call(
    names: Sequence[str], delays: Sequence[tuple[NDArray[np.integer[Any]], NDArray[np.int64]]]
) -> list[tuple[Any, ...]]:
    """The delays by name of the host call, the most frequent first; each device gives the codes of its launches' names
    and their delays."""
    if not delays:
        return []
    code, delay = (np.concatenate(column) for column in zip(*delays, strict=True))
    places = zip(names, places_of(code, len(names)), strict=True)
    table = [(str(name), *_delays(delay[of_call])) for name, of_call in places if len(of_call)]
    return sorted(table, key=lambda entry: (-entry[1], entry[0]))


def launch_intervals(
    starting_calls: NDArray[np.int64], launches: pd.DataFrame
) -> tuple[NDArray[np.int64], list[tuple[str, str, int, int | None]]]:
    """For each launch the median distance between successive launches of its thread, 0 where that is unknown; and the
    same by thread: host, name, launches, distance.

    Only `starting_calls` count, those that started work, and a thread needs LEAST_LAUNCHES of them.
    """
    hosts, threads = launches["host"].cat, launches["thread"].cat
    key = hosts.codes.to_numpy()[starting_calls].astype(np.int64) * max(len(threads.categories), 1)
    key += threads.codes.to_numpy()[starting_calls]
    number, kinds = numbered(key, len(hosts.categories) * max(len(threads.categories), 1))
    # Of numbers of at most two bytes, numpy finds a stable order in linear time.
    order = np.argsort(number.astype(np.min_scalar_type(len(kinds))), kind="stable")
    ends = np.cumsum(np.bincount(number))
    call_starts = launches["start_ps"].to_numpy()
    interval, rows = np.zeros(len(launches), np.int64), []
    for kind, begin, end in zip(kinds.tolist(), [0, *ends.tolist()], ends.tolist(), strict=False):
        thread_calls = starting_calls[order[begin:end]]
        # Sorting what is in order is linear if it is stable.
        intervals = np.diff(np.sort(call_starts[thread_calls], kind="stable"))
        median = iv.quantiles(intervals, (50,))[0] if len(thread_calls) >= LEAST_LAUNCHES else None
        interval[thread_calls] = median or 0
        host, name = divmod(kind, len(threads.categories))
        rows.append((str(hosts.categories[host]), str(threads.categories[name]), len(thread_calls), median))
    rows.sort(key=lambda row: -row[2])
    return interval, rows


# The edges (s + 1,) of the slots of a device, in ps, and the mean depth of its queue in each (s,).
_Depth = tuple[str, NDArray[np.int64], NDArray[np.float64]]


def _depth(depths: Sequence[_Depth]) -> pd.DataFrame:
    """The depths of the queues of all devices (DEPTH_COLUMNS)."""
    if not depths:
        return frame(DEPTH_COLUMNS)
    return frame(
        DEPTH_COLUMNS,
        {
            "device": pd.array([name for name, _, _ in depths], dtype="str").repeat([len(mean) for *_, mean in depths]),
            "start_ps": np.concatenate([edges[:-1] for _, edges, _ in depths]),
            "end_ps": np.concatenate([edges[1:] for _, edges, _ in depths]),
            "mean": np.concatenate([mean for _, _, mean in depths]),
        },
    )


def queue(rows: Rows, work: Work, slots: int) -> tuple[tuple[Any, ...], _Depth, list[tuple[Any, ...]]]:
    """The queue of one device inside its windows: its row of `queue`, its depth in so many `slots`, and its rows of
    `bound`."""
    name, windows = rows.devices[work.device], work.windows
    low, high = (int(windows[0, 0]), int(windows[-1, 1])) if len(windows) else (0, 0)
    is_valid = work.start >= work.call_time
    start, call_time = work.start[is_valid], work.call_time[is_valid]
    sorted_calls = np.sort(call_time, kind="stable")  # linear where they are in order
    edges = _edges(low, high, slots)
    depth_sum = np.diff(_integral(sorted_calls, edges) - _integral(start, edges))
    queued = iv.union(iv.intervals(call_time, start))
    idle = iv.union(iv.intervals(rows.end[work.before], rows.start[work.after]))
    starved = iv.intersection(iv.difference(idle, queued), windows)
    deepest_depth = int(loop(deepest, len(rows))(sorted_calls, start, windows))
    span, starved_ps = iv.total(windows), iv.total(starved)
    empty_ps = span - iv.total(iv.intersection(queued, windows))
    waiting = np.diff(_integral(sorted_calls, windows.ravel()) - _integral(start, windows.ravel()))[::2]
    mean = iv.sum_exactly(waiting) / span if span else None
    ratios = (empty_ps / span, starved_ps / span) if span else (None, None)
    row = (name, span, mean, deepest_depth, empty_ps, ratios[0], starved_ps, ratios[1])
    depth = (name, edges, depth_sum / np.maximum(np.diff(edges), 1))
    return row, depth, _bound(name, _edges(low, high, SLOTS), starved, start[work.here[is_valid]])


def _edges(low: int, high: int, slots: int) -> NDArray[np.int64]:
    """The edges of at most so many slots of [low, high), as long as each other but the last."""
    return np.append(np.arange(low, high, max(-(-(high - low) // slots), 1)), high)


def deepest(calls: NDArray[np.int64], starts: NDArray[np.int64], windows: Intervals) -> int:
    """The deepest queue that lasts for any time inside merged windows; both times rise, as many begin as start."""
    depth, deepest, i, j, window = 0, 0, 0, 0, 0
    while j < len(starts):
        moment = starts[j]
        if i < len(calls) and calls[i] < moment:
            moment = calls[i]
        # What happens at one moment leaves no time between.
        while i < len(calls) and calls[i] == moment:
            depth += 1
            i += 1
        while j < len(starts) and starts[j] == moment:
            depth -= 1
            j += 1
        if j < len(starts):
            next_moment = starts[j]
            if i < len(calls) and calls[i] < next_moment:
                next_moment = calls[i]
            while window < len(windows) and windows[window, 1] <= moment:
                window += 1
            if depth > deepest and window < len(windows) and windows[window, 0] < next_moment:
                deepest = depth
    return deepest


def _integral(moments: NDArray[np.int64], points: NDArray[np.int64]) -> NDArray[np.int64]:
    """The integral of "how many of the rising moments are past" up to each time, modulo 2^64.

    The sums may overflow; the difference of two of them that fits in int64 is exact all the same.
    """
    past = np.searchsorted(moments, points, "right")
    area: NDArray[np.int64] = past * points - np.append(0, np.cumsum(moments))[past]
    return area


def _bound(name: str, edges: NDArray[np.int64], starved: Intervals, start: NDArray[np.int64]) -> list[tuple[Any, ...]]:
    """The intervals of slots bound by launches in which BOUND_LAUNCHES launches or more started work."""
    slots = iv.intervals(edges[:-1], edges[1:])
    starved_ps = iv.within(starved, slots)
    share, share_of = BOUND_SHARE
    bound = iv.union(
        slots[(starved_ps * share_of > np.diff(edges) * share) & (np.diff(np.searchsorted(start, edges)) > 0)]
    )
    launch_counts = np.searchsorted(start, bound[:, 1]) - np.searchsorted(start, bound[:, 0])
    times = iv.within(starved, bound)
    return [
        (name, begin, end, count, time, time / (end - begin))
        for (begin, end), count, time in zip(bound.tolist(), launch_counts.tolist(), times.tolist(), strict=True)
        if count >= BOUND_LAUNCHES
    ]


def tiny_kernels(
    rows: Rows, work: Work, rows_of_launch: NDArray[np.int64], interval: NDArray[np.int64]
) -> tuple[tuple[NDArray[np.int64], ...], tuple[Any, ...]]:
    """The kernels of a device that are shorter than the host needs to launch one: the code of the name, the time and
    the cost of each, and the device's row of `tiny_by_device`.

    Only kernels with a launch of their own count (`rows_of_launch`: rows of each launch). Each costs the part of the
    idle interval that it ends in which it was not launched yet, but no more than one distance of launches: that is what
    not launching it would save at most.
    """
    device_rows, windows = rows.of(work.device), work.windows
    start = device_rows.start
    # The kernel that ends a gap costs the host's part of it.
    host_gap = np.zeros(device_rows.stop - start, np.int64)
    is_own = (rows.kind[work.row] == CODE[Kind.COMPUTE]) & (rows_of_launch[work.launch] == 1)
    kernels = np.flatnonzero(is_own & work.here)
    row, launch_interval = work.row[kernels], interval[work.launch[kernels]]
    length = rows.end[row] - rows.start[row]
    is_tiny = np.flatnonzero(length < launch_interval)
    call_time = np.full(len(host_gap), np.iinfo(np.int64).min)
    call_time[row[is_tiny] - start] = work.call_time[kernels[is_tiny]]
    begin, end = rows.end[work.before], rows.start[work.after]
    host_part = np.minimum(np.maximum(call_time[work.after - start], begin), end) - begin
    if len(begin) and (len(windows) != 1 or begin[0] < windows[0, 0] or windows[0, 1] < end[-1]):
        host_part = iv.within(windows, iv.intervals(begin, begin + host_part))
    host_gap[work.after - start] = host_part
    row, length = row[is_tiny], length[is_tiny]
    cost = np.minimum(host_gap[row - start], launch_interval[is_tiny])
    total, span = iv.sum_exactly(cost), iv.total(windows)
    share = len(is_tiny) / len(kernels) if len(kernels) else None
    times = iv.sum_exactly(length), total, total / span if span else None
    return (rows.codes_at("name", row), length, cost), (rows.devices[work.device], len(is_tiny), share, *times)


def costs_by_name(rows: Rows, tiny: Sequence[tuple[NDArray[np.int64], ...]]) -> list[tuple[Any, ...]]:
    """The kernels that `tiny` found, by name, the costliest first."""
    no_values = np.empty(0, np.int64)
    code, time, cost = (np.concatenate(columns) for columns in zip((no_values,) * 3, *tiny, strict=True))
    labels = rows.labels("name")
    count = np.bincount(code, minlength=len(labels))
    codes = np.flatnonzero(count)
    group = (np.cumsum(count > 0) - 1)[code]
    sums = iv.sums(time, group, len(codes)), iv.sums(cost, group, len(codes))
    table = [
        (labels[code], int(count[code]), time_ps, cost_ps)
        for code, time_ps, cost_ps in zip(codes.tolist(), *sums, strict=True)
    ]
    return sorted(table, key=lambda entry: (-entry[3], -entry[2], entry[0]))
