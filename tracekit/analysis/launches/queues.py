"""The queue of launches that are called but not started: its depth, and where an empty one left the device idle."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.analysis.launches.work import Work
from tracekit.columns import frame
from tracekit.intervals import Intervals
from tracekit.jit import loop
from tracekit.timeline.rows import Rows

# A queue is drawn, and bound stretches are found, in this many pieces of a device's time.
SLOTS = 1000
# A slot is bound by launches where the device was idle with an empty queue for more than half of it and yet launches
# started work in it: a long gap is no such slot. A stretch is of such slots, with at least this many launches.
BOUND_SHARE = (1, 2)
BOUND_LAUNCHES = 10

DEPTH_COLUMNS = {"device": "str", "start_ps": "int64", "end_ps": "int64", "mean": "Float64"}


def queue(
    rows: Rows, device: int, work: Work, windows: Intervals
) -> tuple[tuple[Any, ...], pd.DataFrame, list[tuple[Any, ...]]]:
    """What analysis.launches tells of the queue of one device inside `windows`: its row of `queue`, its depth in
    SLOTS slots (DEPTH_COLUMNS), and its rows of `bound`."""
    name, device_rows = rows.devices[device], rows.of(device)
    low, high = int(rows.start[device_rows.start]), int(rows.end[device_rows].max())
    is_valid = work.start >= work.call_time
    start, call_time = work.start[is_valid], work.call_time[is_valid]
    sorted_calls = np.sort(call_time, kind="stable")  # linear where they are in order
    edges = np.append(np.arange(low, high, max(-(-(high - low) // SLOTS), 1)), high)
    depth_sum = np.diff(_integral(sorted_calls, edges) - _integral(start, edges))
    queued = iv.union(iv.intervals(call_time, start))
    idle = iv.union(iv.intervals(rows.end[work.before], rows.start[work.after]))
    starved = iv.intersection(iv.difference(idle, queued), windows)
    deepest_depth = int(loop(deepest, len(rows))(sorted_calls, start, low, high))
    span, starved_ps = iv.total(windows), iv.total(starved)
    empty_ps = span - iv.total(iv.intersection(queued, windows))
    waiting = np.diff(_integral(sorted_calls, windows.ravel()) - _integral(start, windows.ravel()))[::2]
    mean = iv.sum_exactly(waiting) / span if span else None
    ratios = (empty_ps / span, starved_ps / span) if span else (None, None)
    row = (name, span, mean, deepest_depth, empty_ps, ratios[0], starved_ps, ratios[1])
    depth = frame(
        DEPTH_COLUMNS,
        {
            "device": [name] * (len(edges) - 1),
            "start_ps": edges[:-1],
            "end_ps": edges[1:],
            "mean": depth_sum / np.maximum(np.diff(edges), 1),
        },
    )
    return row, depth, _bound(name, edges, starved, start)


def deepest(calls: NDArray[np.int64], starts: NDArray[np.int64], low: int, high: int) -> int:
    """The deepest queue that lasts for any time inside [low, high); both times rise, as many begin as start."""
    depth, deepest, i, j = 0, 0, 0, 0
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
            if depth > deepest and min(next_moment, high) > max(moment, low):
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
    """The stretches of slots bound by launches in which BOUND_LAUNCHES launches or more started work."""
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
