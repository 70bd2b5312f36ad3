"""The offset and the drift of a device's clock that lie between what launches and waits allow.

A profiler converts a device's timestamps to the host's clock, and may be off by microseconds or by far more. Two things
cannot be: that a row starts before the call that launched it begins, and that a wait returns before what it waits for
has ended. Each launch is a lower limit of what must be added to the device's times, each wait an upper one. Rows that
found their device idle, and waits that lasted, lie within microseconds of the true line; of clocks of networks such
limits tell the drift, too (Moon, Skelly and Towsley, "Estimation and removal of clock skew from network delay
measurements", INFOCOM 1999).
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]

_US = 10**6
# Traces that nobody doubts violate the limits by up to 8 us (waits on H100 and MI300X); others saw kernels 8.1 to
# 8.9 us outside of windows of the host (https://github.com/tile-ai/TileOPs/pull/1838).
TOLERANCE_PS = 10 * _US
# What passes from the begin of a launch to the start of its row on an idle device, and from an end to the return of
# what waits for it: on the devices of real traces a launch takes at least 2 to 10 us with CUDA, 10 to 26 with ROCm.
_LATENCY_PS = 5 * _US
# Limits that leave less than this leave little doubt: the offset is taken to be in their middle.
_NARROW_PS = 40 * _US
# Violations that agree within this, or this share of the offset, are no accident; so many must.
_ALIKE_PS, _ALIKE, _AGREEING = 100 * _US, 0.1, 3
# Where nothing fits, and no larger shares of launches and waits are violated, those are wrong: profilers garble single
# records (https://github.com/pytorch/pytorch/issues/192021).
_CHANCE = 0.01
# No clock drifts faster.
_STEEPEST = 500e-6
# A drift that no contradiction proves must show in each of so many segments, to within this.
_SEGMENTS, _TOUCH_PS = 4, 15 * _US
# Launches on idle devices take 2 to 30 us; so many rows that all start later than this after their launch, most of them
# within so little of the promptest, and after a gap of this length, tell of the clock.
_NO_LATENCY_PS, _LATE, _ALIKE_LATE_PS, _GAP_PS = 100 * _US, 20, 20 * _US, 50 * _US
# A wait that lasted so long was for work that still ran; a device that was idle for so long had no queue.
_LONG_PS, _IDLE_PS = 20 * _US, 5 * _US
_BINS = 2048


@dataclass(frozen=True)
class Limits:
    """What must be added to the times of one device at least, and what can be at most, in ps.

    `least` (r,): by the rows from `start` to `stop`, for their launches. `most` (w,): by the waits for what ended at
    `end`, which lasted `length`. All by the device's own clock, from `middle` on.
    """

    middle: int
    start: Column
    stop: Column
    least: Column
    end: Column
    most: Column
    length: Column

    def room(self, drift: float) -> tuple[float, float]:
        """The least and the most that can be added at the middle with a drift, infinite where nothing limits it."""
        least = (self.least - drift * self.start).max(initial=-np.inf)
        return float(least), float((self.most - drift * self.end).min(initial=np.inf))

    def width(self, drift: float) -> float:
        """How far the limits are apart, negative where they contradict each other."""
        least, most = self.room(drift)
        return most - least


@dataclass(frozen=True)
class ClockLine:
    """How the clock of a device fits its host's.

    `shift_ps` is to be added to its times at `middle_ps`, and `drift` of the time from there on besides; null where
    nothing lies between the limits. `least_ps` and `most_ps` are those limits, null for none. `launches` and `waits`:
    how many say so, and how many of them are violated as the times stand.
    """

    shift_ps: int | None
    drift: float
    middle_ps: int
    least_ps: int | None
    most_ps: int | None
    launches: tuple[int, int]
    waits: tuple[int, int]

    @property
    def is_identity(self) -> bool:
        """Whether nothing is added."""
        return not self.shift_ps and not self.drift

    def added(self, times: Column) -> Column:
        """What is added at `times`, (n,) ps."""
        drift = np.rint(self.drift * (times - self.middle_ps)).astype(np.int64) if self.drift else 0
        return np.full(len(times), self.shift_ps or 0) + drift


def clock_line(limits: Limits) -> ClockLine:
    """The line between the limits: no shift where nothing is violated by more than TOLERANCE_PS, or only by chance."""
    late, early = limits.least > TOLERANCE_PS, limits.most < -TOLERANCE_PS
    launches, waits = (len(late), int(late.sum())), (len(early), int(early.sum()))
    least, most = limits.room(0.0)
    unshifted = ClockLine(0, 0.0, limits.middle, _whole(least), _whole(most), launches, waits)
    if not launches[1] and not waits[1]:
        return unshifted
    drift = _drift(limits)
    if drift is not None and _is_supported(limits, drift, launches[1], waits[1]):
        least, most = limits.room(drift)
        return replace(
            unshifted,
            shift_ps=round(_between(limits, drift) / 1000) * 1000,
            drift=drift,
            least_ps=_whole(least),
            most_ps=_whole(most),
        )
    by_chance = launches[1] <= _CHANCE * launches[0] and waits[1] <= _CHANCE * waits[0]
    return unshifted if by_chance else replace(unshifted, shift_ps=None)


def late_start(limits: Limits) -> int | None:
    """How late a clock starts what found its device idle, in ps, where no launch takes so long and no wait says how
    late it may be; None where it does not.

    A host that runs ahead has rows long after their launch too, but those follow each other, and their delays differ.
    """
    if len(limits.most) or not len(limits.start):
        return None
    order = np.argsort(limits.start, kind="stable")
    start, delay = limits.start[order], -limits.least[order]
    busy_until = np.maximum.accumulate(limits.stop[order])[:-1]
    delay = delay[1:][start[1:] - busy_until >= _GAP_PS]
    if len(delay) < _LATE or delay.min() < _NO_LATENCY_PS:
        return None
    return int(delay.min()) if 2 * int((delay <= delay.min() + _ALIKE_LATE_PS).sum()) >= len(delay) else None


def _whole(limit: float) -> int | None:
    return round(limit) if np.isfinite(limit) else None


def _drift(limits: Limits) -> float | None:
    """The drift of a line between the limits, 0 where an offset fits and no drift shows; None where no line does."""
    outline = _outline(limits)
    constant = limits.width(0.0)
    if constant >= 0:
        return _evident_drift(limits, outline)
    slopes = [0.0, -_STEEPEST, _STEEPEST, *(slope for slope in _slopes(outline) if abs(slope) < _STEEPEST)]
    steep = max(slopes, key=outline.width)
    widest = limits.width(steep)
    if widest < -TOLERANCE_PS or (widest < 0 and constant >= -TOLERANCE_PS):
        return 0.0 if constant >= -TOLERANCE_PS else None
    # The least drift that leaves room for a launch and for the return of a wait, where any does.
    enough, flat = min(widest, 2 * _LATENCY_PS), 0.0
    for _ in range(40):
        middle = (flat + steep) / 2
        flat, steep = (flat, middle) if outline.width(middle) >= enough else (middle, steep)
    return steep


def _evident_drift(limits: Limits, outline: Limits) -> float:
    """The drift that the limits of one side show all along the trace, 0 where an offset shows as well."""
    span = float(np.ptp(limits.start)) if len(limits.start) else 0.0
    middle = len(outline.start) and float(np.median(limits.start))
    for (x, y), (next_x, next_y) in pairwise(zip(outline.start.tolist(), outline.least.tolist(), strict=True)):
        slope = (next_y - y) / (next_x - x)
        if x <= middle <= next_x and abs(slope) * span > 2 * _TOUCH_PS and abs(slope) < _STEEPEST:
            fits = limits.width(slope) >= 0 and _touches(limits, slope)
            return slope if fits and not _touches(limits, 0.0) else 0.0
    return 0.0


def _touches(limits: Limits, drift: float) -> bool:
    """Whether rows lie at the lower limit of a line in every segment of the trace."""
    above = limits.least - drift * limits.start
    edges = np.linspace(limits.start.min(), limits.start.max() + 1, _SEGMENTS + 1)
    segment = np.searchsorted(edges, limits.start, side="right") - 1
    highest = np.full(_SEGMENTS, -np.inf)
    np.maximum.at(highest, segment, above)
    return bool((highest >= above.max() - _TOUCH_PS).all())


def _is_supported(limits: Limits, drift: float, late: int, early: int) -> bool:
    """Whether both sides agree where the line is, or the violations do, which no accident explains then."""
    least, most = limits.room(drift)
    if most - least <= max(_ALIKE_PS, _ALIKE * min(abs(least), abs(most))):
        return True
    if late and not _agree(limits.least - drift * limits.start, late):
        return False
    # No record of a wait is known to be garbled: one of few counts where launches say how far the line may be.
    few = early < _AGREEING and early > _CHANCE * len(limits.most) and _is_dense(limits, drift)
    return not early or few or _agree(drift * limits.end - limits.most, early)


def _agree(excess: NDArray[np.floating], violations: int) -> bool:
    """Whether the largest of all excesses agree with each other, and are no fewer than it takes."""
    if violations < _AGREEING:
        return False
    largest = np.partition(excess, -_AGREEING)[-_AGREEING:]
    return bool(np.ptp(largest) <= max(_ALIKE_PS, _ALIKE * abs(largest.max())))


def _is_dense(limits: Limits, drift: float) -> bool:
    """Whether several rows started as promptly as the promptest one."""
    above = limits.least - drift * limits.start
    return len(above) >= _AGREEING and bool(np.ptp(np.partition(above, -_AGREEING)[-_AGREEING:]) <= _LATENCY_PS)


def _between(limits: Limits, drift: float) -> float:
    """The offset between the limits: in their middle, or near the one that something came close to."""
    least, most = limits.room(drift)
    if most - least <= _NARROW_PS:
        return (least + most) / 2
    if np.isinf(most):
        return least + _LATENCY_PS
    start = limits.start[(limits.least - drift * limits.start).argmax()]
    earlier = limits.stop[limits.start < start]
    was_idle = len(earlier) > 0 and int(earlier.max()) + _IDLE_PS <= start
    has_lasted = limits.length[(limits.most - drift * limits.end).argmin()] >= _LONG_PS
    is_prompt = was_idle or _is_dense(limits, drift)
    return most - _LATENCY_PS if has_lasted and not is_prompt else least + _LATENCY_PS


def _outline(limits: Limits) -> Limits:
    """The corners of the limits: those between which no other one limits a line more, of a few thousand."""
    upper = _corners(limits.start, limits.least)
    lower = _corners(limits.end, -limits.most)
    return replace(
        limits,
        start=limits.start[upper],
        least=limits.least[upper],
        stop=limits.stop[upper],
        end=limits.end[lower],
        most=limits.most[lower],
        length=limits.length[lower],
    )


def _corners(x: Column, y: Column) -> Column:
    """The places of the corners of the upper convex hull of the points (x, y), each (n,), from left to right.

    Of more than a few thousand points the highest of each piece of the axis counts.
    """
    if not len(x):
        return np.zeros(0, np.int64)
    bins = ((x - x.min()) * (_BINS / max(float(np.ptp(x)), 1))).astype(np.int64)
    order = np.lexsort((-y, bins))
    best = order[np.append(True, np.diff(bins[order]) > 0)]
    hull: list[int] = []
    points = dict(zip(best.tolist(), zip(x[best].tolist(), y[best].tolist(), strict=True), strict=True))
    for place, point in points.items():
        while len(hull) > 1 and _is_below(points[hull[-2]], points[hull[-1]], point):
            hull.pop()
        hull.append(place)
    return np.array(hull, np.int64)


def _is_below(before: tuple[int, int], point: tuple[int, int], after: tuple[int, int]) -> bool:
    """Whether a point lies on or below the line from its neighbour before to that after it."""
    return (point[1] - before[1]) * (after[0] - before[0]) <= (after[1] - before[1]) * (point[0] - before[0])


def _slopes(outline: Limits) -> list[float]:
    """The slopes of the edges of an outline."""
    return [
        (next_y - y) / (next_x - x)
        for xs, ys in ((outline.start, outline.least), (outline.end, outline.most))
        for (x, y), (next_x, next_y) in pairwise(zip(xs.tolist(), ys.tolist(), strict=True))
    ]
