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
    rows: Rows, device: int, work: Work, inside: Intervals
) -> tuple[tuple[Any, ...], pd.DataFrame, list[tuple[Any, ...]]]:
    """What analysis.launches tells of the queue of one device `inside` some time: its row of `queue`, its depth in
    SLOTS slots (DEPTH_COLUMNS), and its rows of `bound`."""
    name, of = rows.devices[device], rows.of(device)
    low, high = int(rows.start[of.start]), int(rows.end[of].max())
    good = work.start >= work.called
    start, called = work.start[good], work.called[good]
    begun = np.sort(called, kind="stable")  # linear where they are in order
    edges = np.append(np.arange(low, high, max(-(-(high - low) // SLOTS), 1)), high)
    held = np.diff(_integral(begun, edges) - _integral(start, edges))
    queued = iv.union(iv.intervals(called, start))
    idle = iv.union(iv.intervals(rows.end[work.before], rows.start[work.after]))
    starved = iv.intersection(iv.difference(idle, queued), inside)
    most = int(loop(deepest, len(rows))(begun, start, low, high))
    span, hungry = iv.total(inside), iv.total(starved)
    empty = span - iv.total(iv.intersection(queued, inside))
    waiting = np.diff(_integral(begun, inside.ravel()) - _integral(start, inside.ravel()))[::2]
    mean = iv.sum_exactly(waiting) / span if span else None
    ratios = (empty / span, hungry / span) if span else (None, None)
    row = (name, span, mean, most, empty, ratios[0], hungry, ratios[1])
    depth = frame(
        DEPTH_COLUMNS,
        {
            "device": [name] * (len(edges) - 1),
            "start_ps": edges[:-1],
            "end_ps": edges[1:],
            "mean": held / np.maximum(np.diff(edges), 1),
        },
    )
    return row, depth, _bound(name, edges, starved, start)


def deepest(begun: NDArray[np.int64], started: NDArray[np.int64], low: int, high: int) -> int:
    """The deepest queue that lasts for any time inside [low, high); both times rise, as many begin as start."""
    depth, deepest, i, j = 0, 0, 0, 0
    while j < len(started):
        now = started[j]
        if i < len(begun) and begun[i] < now:
            now = begun[i]
        # What happens at one moment leaves no time between.
        while i < len(begun) and begun[i] == now:
            depth += 1
            i += 1
        while j < len(started) and started[j] == now:
            depth -= 1
            j += 1
        if j < len(started):
            until = started[j]
            if i < len(begun) and begun[i] < until:
                until = begun[i]
            if depth > deepest and min(until, high) > max(now, low):
                deepest = depth
    return deepest


def _integral(moments: NDArray[np.int64], until: NDArray[np.int64]) -> NDArray[np.int64]:
    """The integral of "how many of the rising moments are past" up to each time, modulo 2^64.

    The sums may overflow; the difference of two of them that fits in int64 is exact all the same.
    """
    past = np.searchsorted(moments, until, "right")
    area: NDArray[np.int64] = past * until - np.append(0, np.cumsum(moments))[past]
    return area


def _bound(name: str, edges: NDArray[np.int64], starved: Intervals, start: NDArray[np.int64]) -> list[tuple[Any, ...]]:
    """The stretches of slots bound by launches in which BOUND_LAUNCHES launches or more started work."""
    slots = iv.intervals(edges[:-1], edges[1:])
    hungry = iv.within(starved, slots)
    share, whole = BOUND_SHARE
    some = iv.union(slots[(hungry * whole > np.diff(edges) * share) & (np.diff(np.searchsorted(start, edges)) > 0)])
    counts = np.searchsorted(start, some[:, 1]) - np.searchsorted(start, some[:, 0])
    times = iv.within(starved, some)
    return [
        (name, begin, end, count, time, time / (end - begin))
        for (begin, end), count, time in zip(some.tolist(), counts.tolist(), times.tolist(), strict=True)
        if count >= BOUND_LAUNCHES
    ]
