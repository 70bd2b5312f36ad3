"""How far one clock is ahead of another, and how much faster it runs, told from times that both show.

Two clocks stand apart and run at different paces: quartz keeps some 10 ppm, and Linux steers a clock by at most 500 ppm
(`MAXFREQ` in its include/linux/timex.h). So the difference is a line in time. A line fits any two points, and an offset
any one, with no residual at all: only what agrees beyond that is evidence.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]

ENOUGH = 3
"""So many must agree on an offset: with two, each may be the wrong one."""
# So many must agree on a drift too, which takes one figure more: three of them are then free to contradict.
_ENOUGH_FOR_DRIFT = 5
# Of all that look shared, as ratio. With a third of them wrong, the rest are still told apart from them.
_MOST = 2 / 3
# On a drift more than half of those that are known to be shared: else some of the others, near to an offset by chance,
# outvote them.
_MOST_KNOWN = 0.55
# Two clocks, each steered by 500 ppm, run apart by no more.
_FASTEST = 1e-3
SKEW_PS = 5_000_000
"""By so much the ends of one collective may differ in the same order every time: as on 8 V100, up to 7 us, as the ring
reaches one rank after another. An offset below that is no property of a clock."""
ENDS_APART_PS = 10_000_000
"""Differences that are no larger agree, whatever their scatter."""
# Else what is within so many standard deviations agrees.
_DEVIATIONS = 4
# How often chance alone may bring unrelated times together as well.
_CHANCE = 1e-3
# The two-sided quantiles of Student's t by degrees of freedom: of 99 %, and of 99.99 %.
_FREEDOM = np.array([1, 2, 3, 4, 5, 6, 8, 10, 15, 30, 1000])
_QUANTILE = np.array([63.66, 9.92, 5.84, 4.60, 4.03, 3.71, 3.36, 3.17, 2.95, 2.75, 2.58])
_SURELY = np.array([6366.2, 99.99, 28.0, 15.54, 11.18, 9.08, 7.12, 6.21, 5.24, 4.48, 3.91])
# What a drift adds over all of the points is so many times their deviation from the line: many points make a smaller
# one significant, too, but it may be that of their scatter, which is not the same at all times, and changes nothing.
_FAR = 4
# So often what agrees is told by the line through what agreed before.
_PASSES = 6
# Slopes are taken from so many points at the most.
_POINTS = 48


@dataclass(frozen=True)
class Line:
    """What is added to the times of a clock: `shift_ps` at `at_ps` of its own time, less by `drift` (a ratio) later on.

    The drift of a clock that runs fast is above 0.
    """

    at_ps: int = 0
    shift_ps: int = 0
    drift: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.shift_ps or self.drift)

    def shifts(self, times_ps: Column) -> Column:
        """What is added to `times_ps` (n,), which keep their order: (n,)."""
        if not self.drift:
            return np.full(len(times_ps), self.shift_ps)
        shifts: Column = self.shift_ps - np.rint(self.drift * (times_ps - self.at_ps)).astype(np.int64)
        return shifts

    def shift(self, time_ps: int) -> int:
        """What is added to one time."""
        return self.shift_ps - round(self.drift * (time_ps - self.at_ps))

    def inverse(self, time_ps: int) -> int:
        """The time of the clock to which this line gives `time_ps`."""
        own = time_ps - self.shift_ps
        return self.at_ps + round((own - self.at_ps) / (1 - self.drift)) if self.drift else own

    def then(self, other: "Line") -> "Line":
        """This line, and then `other` on the times that it gives."""
        after = self.at_ps + self.shift_ps
        return Line(self.at_ps, self.shift_ps + other.shift(after), 1 - (1 - self.drift) * (1 - other.drift))

    def steady(self, at_ps: int) -> "Line":
        """The same at one of the clock's own times, and without a drift."""
        return Line(at_ps, self.shift(at_ps))

    def largest(self, first_ps: int, last_ps: int) -> int:
        """The largest amount that is added between two times."""
        return max(abs(self.shift(first_ps)), abs(self.shift(last_ps)))


UNCHANGED = Line()


@dataclass(frozen=True)
class Fit:
    """`line`: what is to be added to the second clock so that it shows what the first does.

    `agreeing` (n,): which points agree on it, and within `spread_ps`. `error_ps`: what they leave open of the shift
    where the line is anchored, `drift_error` of the drift, or of its absence; both at 99 %.
    """

    line: Line
    agreeing: Mask
    error_ps: float
    drift_error: float
    spread_ps: int

    def significant(self, first_ps: int, last_ps: int) -> bool:
        """Whether the clocks differ at all between two times, by more than what the fit leaves open."""
        distance = max(abs(first_ps - self.line.at_ps), abs(last_ps - self.line.at_ps)) if self.line.drift else 0
        return self.line.largest(first_ps, last_ps) > SKEW_PS + self.error_ps + self.drift_error * distance


def fit(times_ps: Column, ahead_ps: Column, resolution_ps: int, is_known: bool = False) -> Fit | None:
    """The line through points, of which some may be wrong; None if too few agree on one that a clock may follow.

    `times_ps` (n,): when, by the second clock; `ahead_ps` (n,): by how much it was ahead of the first; `is_known`:
    whether each surely compares one thing with itself. A drift is found only where the points prove that there is one.
    """
    n = len(times_ps)
    if n < ENOUGH:
        return None
    agreeing = _agreeing(ahead_ps, resolution_ps)
    if n >= _ENOUGH_FOR_DRIFT:
        on_line = _on_a_line(times_ps, ahead_ps, resolution_ps)
        with_drift = _line(times_ps, ahead_ps, resolution_ps, on_line)
        if with_drift and _enough(on_line, _MOST_KNOWN if is_known else _MOST):
            return with_drift
        if with_drift and _enough(on_line, 0.5):
            return None  # they surely drift, and too few agree on how much: an offset is what that leaves near to it
        # A drift that is not proven parts those that agree, too: what they leave open of an offset is the larger.
        agreeing = agreeing if _enough(agreeing) else on_line
    if not _enough(agreeing) or _line(times_ps, ahead_ps, resolution_ps, agreeing):
        return None
    inside = ahead_ps[agreeing]
    at = int(times_ps[0]) + int(np.median(times_ps - times_ps[0]))
    offset = int(inside[0]) + int(np.median(inside - inside[0]))
    deviation = max(float(np.std(inside - offset, ddof=1)), resolution_ps / 2)
    error = _quantile(len(inside) - 1) * deviation / math.sqrt(len(inside))
    length = float(np.std(times_ps[agreeing] - at)) * math.sqrt(len(inside))
    drift_error = _quantile(len(inside) - 2) * deviation / length if length else math.inf
    if not _holds(times_ps, ahead_ps, resolution_ps, agreeing):
        return None
    return Fit(Line(at, -offset), agreeing, error, drift_error, max(int(np.ptp(inside)), resolution_ps))


def _holds(times_ps: Column, ahead_ps: Column, resolution_ps: int, agreeing: Mask) -> bool:
    """Whether an offset holds at all of the times, not only where points agree on it: out to the others, a drift of
    these points, of which nobody knows whether it is one, changes no more than what agrees may differ by."""
    inside = times_ps[agreeing]
    beyond = max(int(inside.min() - times_ps.min()), int(times_ps.max() - inside.max()))
    if not beyond:
        return True
    line = _least_squares(times_ps[agreeing], ahead_ps[agreeing], resolution_ps)
    drift = min(abs(line.slope) + _quantile(line.freedom) * line.standard, _FASTEST)
    return drift * beyond <= max(ENDS_APART_PS, 2 * _DEVIATIONS * line.deviation)


def by_chance(spread_ps: int, apart_ps: int, agreeing: int, tries: int = 1) -> bool:
    """Whether times that have nothing to do with each other might agree as well, in one of `tries`.

    `agreeing` of them are within `spread_ps`, and they follow each other after `apart_ps`.
    """
    return tries * min(spread_ps / max(apart_ps, 1), 1.0) ** (agreeing - 1) > _CHANCE


def narrow(values_ps: Column, ratio: float, least: int = ENOUGH) -> tuple[int, int]:
    """The shortest [low, high] that holds a `ratio` of the values, and at least `least` of them if there are."""
    ordered = np.sort(values_ps)
    count = min(max(math.ceil(ratio * len(ordered)), least), len(ordered))
    widths = ordered[count - 1 :] - ordered[: len(ordered) - count + 1]
    first = int(widths.argmin())
    return int(ordered[first]), int(ordered[first + count - 1])


def median(values: NDArray[np.float64] | Column) -> float:
    """The median of a few values, for which numpy's own takes six times as long."""
    ordered = np.sort(values)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def detrended(times_ps: Column, ahead_ps: Column) -> Column:
    """`ahead_ps` (n,) without the drift that it shows, where there is enough to show one; a quick look."""
    n = len(times_ps)
    if n < _ENOUGH_FOR_DRIFT:
        return ahead_ps
    length = times_ps[n // 2 :] - times_ps[: n - n // 2]
    slope = median((ahead_ps[n // 2 :] - ahead_ps[: n - n // 2]) / np.maximum(length, 1))
    if abs(slope) > _FASTEST:
        return ahead_ps
    rest: Column = ahead_ps - np.rint(slope * (times_ps - times_ps[0])).astype(np.int64)
    return rest


def widths(times_ps: Column, ahead_ps: Column, counts: Column, ratio: float) -> Column:
    """How wide the `narrow` is that holds a `ratio` of each row, `detrended`: (k,), of rows (k, n) of which the first
    `counts` (k,), at least one, hold."""
    place, count = np.arange(times_ps.shape[1]), counts[:, None]
    half = count // 2
    pairs = count - half
    later = np.minimum(place + half, len(place) - 1)
    length = np.take_along_axis(times_ps, later, axis=1) - times_ps
    slopes = (np.take_along_axis(ahead_ps, later, axis=1) - ahead_ps) / np.maximum(length, 1)
    slopes = np.sort(np.where(place < pairs, slopes, np.inf), axis=1)
    slope = (np.take_along_axis(slopes, (pairs - 1) // 2, axis=1) + np.take_along_axis(slopes, pairs // 2, axis=1)) / 2
    slope = np.where((count < _ENOUGH_FOR_DRIFT) | (np.abs(slope) > _FASTEST), 0.0, slope)
    rest = ahead_ps - np.rint(slope * (times_ps - times_ps[:, :1])).astype(np.int64)
    ordered = np.sort(np.where(place < count, rest, np.iinfo(np.int64).max), axis=1)
    inside = np.minimum(np.maximum(np.ceil(ratio * count).astype(np.int64), ENOUGH), count)
    last = np.minimum(place + inside - 1, len(place) - 1)
    holds = place <= count - inside
    wide = np.take_along_axis(ordered, last, axis=1) - np.where(holds, ordered, 0)
    narrowest: Column = np.where(holds, wide, np.iinfo(np.int64).max).min(axis=1)
    return narrowest


def _slope(times_ps: Column, ahead_ps: Column) -> float:
    """The slope between two of the points that leaves half of them closest together (Rousseeuw's least median of
    squares, 1984), which nearly half of them may not move; 0 if no clock is as fast."""
    chosen = np.unique(np.linspace(0, len(times_ps) - 1, _POINTS).astype(np.int64))
    times, ahead = (times_ps - times_ps[0])[chosen], (ahead_ps - ahead_ps[0])[chosen]
    first, second = np.triu_indices(len(chosen), 1)
    length = times[second] - times[first]
    # Neighbours tell more of their scatter than of a drift.
    far = np.abs(length) * 4 >= np.ptp(times)
    far &= length != 0
    slopes = (ahead[second] - ahead[first])[far] / length[far]
    slopes = slopes[np.abs(slopes) <= _FASTEST]
    if not len(slopes):
        return 0.0
    rest = np.sort(ahead - slopes[:, None] * times, axis=1)
    half = (len(chosen) + 1) // 2
    widths = (rest[:, half - 1 :] - rest[:, : len(chosen) - half + 1]).min(axis=1)
    return float(slopes[widths.argmin()])


def _agreeing(rest_ps: Column, resolution_ps: int) -> Mask:
    """Which of the values are near to the densest half of them, as far as that scatters."""
    low, high = narrow(rest_ps, 0.5)
    deviation = max((high - low) / 1.35, resolution_ps)  # Half of what is normal lies within 1.35 deviations.
    reach = max(_DEVIATIONS * deviation, ENDS_APART_PS)
    middle = (high - low) // 2 + low
    near: Mask = np.abs(rest_ps - middle) <= reach
    return near


def _enough(agreeing: Mask, most: float = _MOST) -> bool:
    return bool(agreeing.sum() >= max(ENOUGH, most * len(agreeing)))


def _on_a_line(times_ps: Column, ahead_ps: Column, resolution_ps: int) -> Mask:
    """Which of the points agree on one line; none if too few for one."""
    x, y = (times_ps - times_ps[0]).astype(np.float64), (ahead_ps - ahead_ps[0]).astype(np.float64)
    slope = _slope(times_ps, ahead_ps)
    agreeing = np.zeros(len(x), bool)
    for _ in range(_PASSES):
        before, agreeing = agreeing, _agreeing((y - np.rint(slope * x)).astype(np.int64), resolution_ps)
        if (agreeing == before).all():
            break
        inside = x[agreeing] - x[agreeing].mean()
        square = float((inside**2).sum())
        if agreeing.sum() < _ENOUGH_FOR_DRIFT or not square:
            return np.zeros(len(x), bool)
        slope = float((inside * y[agreeing]).sum()) / square
    return agreeing


class _Regression(NamedTuple):
    """The line of least squares through some points: their mean time and mean value, its slope, and by `freedom`
    degrees the deviation of the points from it, and the standard error of the slope."""

    time_ps: int
    ahead_ps: int
    slope: float
    freedom: int
    deviation: float
    standard: float
    spread_ps: int


def _least_squares(times_ps: Column, ahead_ps: Column, resolution_ps: int) -> _Regression:
    """The line through at least three points, of several times or of one; then no slope is known."""
    at, base = int(times_ps[0]), int(ahead_ps[0])
    x, y = (times_ps - at).astype(np.float64), (ahead_ps - base).astype(np.float64)
    apart, middle, height = x - x.mean(), float(x.mean()), float(y.mean())
    square = float((apart**2).sum())
    slope = float((apart * y).sum()) / square if square else 0.0
    rest = y - height - slope * apart
    freedom = len(x) - 2
    deviation = max(math.sqrt(float((rest**2).sum()) / freedom), resolution_ps / 2)
    standard = deviation / math.sqrt(square) if square else math.inf
    spread_ps = max(round(float(np.ptp(rest))), resolution_ps)
    return _Regression(at + round(middle), base + round(height), slope, freedom, deviation, standard, spread_ps)


def _line(times_ps: Column, ahead_ps: Column, resolution_ps: int, agreeing: Mask) -> Fit | None:
    """The line of least squares through what agrees; None if its slope may be chance, or is none of a clock."""
    if agreeing.sum() < _ENOUGH_FOR_DRIFT:
        return None
    inside = times_ps[agreeing]
    found = _least_squares(inside, ahead_ps[agreeing], resolution_ps)
    if not (length := float(np.ptp(inside))):
        return None
    least = max(_quantile(found.freedom, _SURELY) * found.standard, _FAR * found.deviation / length)
    if not least < abs(found.slope) <= _FASTEST:
        return None
    # Shifted where that is known best. The line is asked by the clock's own time, to which it adds.
    line = Line(found.time_ps, -found.ahead_ps, found.slope)
    quantile = _quantile(found.freedom)
    error = quantile * found.deviation / math.sqrt(len(inside))
    return Fit(line, agreeing, error, quantile * found.standard, found.spread_ps)


def _quantile(freedom: int, of_table: NDArray[np.float64] = _QUANTILE) -> float:
    """How many standard errors hold what is true in 99 of 100 cases, or as many as another table says."""
    return float(np.exp(np.interp(math.log(max(freedom, 1)), np.log(_FREEDOM), np.log(of_table))))
