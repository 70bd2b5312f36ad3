"""How sure a difference of times is: within two runs by resampling their units, between captures by Student's t.

Units of one run (steps, rounds) follow each other, so whole blocks of them are resampled; captures are independent.
Nothing here is random: the same times give the same interval.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]

LEVEL = 0.95
FEWEST_UNITS = 4
"""Of fewer units no interval is given."""
_DRAWS, _MOST_DRAWN, _SEED = 4000, 4_000_000, 20_240_229
# A mode holds so many of the units, and lies so far from the other: over the lower one, and over the spread of both.
_FEWEST_IN_MODE, _LEAST_SHARE, _APART, _SPREADS = 3, 0.15, 0.2, 3.0
# Values further than so many deviations from the middle of their mode are brought back to there.
_CLIP, _MAD = 3.0, 1.4826


@dataclass(frozen=True)
class Modes:
    """Two modes of times that lie apart.

    `low_ps` and `high_ps` are the medians of the modes, `low_units` and `high_units` how many units each has, and
    `changes` how often the units change between them.
    """

    low_ps: int
    high_ps: int
    low_units: int
    high_units: int
    changes: int


def modes(times: Times) -> Modes | None:
    """The two modes of times in their order, None where they have one, or are too few to tell."""
    is_high = _is_high(times)
    if is_high is None:
        return None
    low, high = times[~is_high], times[is_high]
    changes = int((is_high[1:] != is_high[:-1]).sum())
    return Modes(round(float(np.median(low))), round(float(np.median(high))), len(low), len(high), changes)


def _is_high(times: Times) -> NDArray[np.bool_] | None:
    ordered = np.sort(times)
    least = max(_FEWEST_IN_MODE, math.ceil(_LEAST_SHARE * len(times)))
    if len(times) < 2 * least:
        return None
    gaps = np.diff(ordered)[least - 1 : len(times) - least]
    at = least + int(np.argmax(gaps))
    low, high, gap = ordered[:at], ordered[at:], float(gaps.max())
    spread = max(float(np.subtract(*np.quantile(part, [0.75, 0.25]))) for part in (low, high))
    is_apart = gap > _APART * float(np.median(low)) and gap > _SPREADS * spread
    return times >= ordered[at] if is_apart else None


def typical(times: Times, of_modes: bool = False) -> float:
    """The median, or with `of_modes` the mean without the outliers of each mode: where two modes alternate, the median
    lies in either by chance."""
    return float(np.mean(_clipped(times))) if of_modes else float(np.median(times))


def _clipped(times: Times) -> Times:
    is_high = _is_high(times)
    clipped = times.astype(float)
    for part in [np.ones(len(times), bool)] if is_high is None else [is_high, ~is_high]:
        middle, reach = _middle(clipped[part])
        clipped[part] = np.clip(clipped[part], middle - reach, middle + reach)
    return clipped


def _middle(times: Times) -> tuple[float, float]:
    """The median, and how far from it outliers are brought back to."""
    middle = float(np.median(times))
    return middle, _CLIP * _MAD * float(np.median(np.abs(times - middle)))


def block_length(times: Times) -> int:
    """How many units follow each other in a resampled block: Carlstein's rule for an autoregressive series of order 1
    (Annals of Statistics 14, 1986), at least 2 and at most a third of the units."""
    centred = times - times.mean()
    power = float((centred**2).sum())
    rho = min(max(float((centred[1:] * centred[:-1]).sum()) / power, 0.0), 0.97) if power else 0.0
    length = math.ceil(float((2 * rho / (1 - rho**2)) ** (2 / 3)) * float(len(times) ** (1 / 3)))
    return min(max(length, 2), max(len(times) // 3, 2))


def draws_of(units: int) -> int:
    """How often so many units are resampled: fewer times where they are many."""
    return min(max(_MOST_DRAWN // units, 200), _DRAWS)


def resampled(times: Times, statistic: Callable[[Times], Times], draws: int, seed: int = 0) -> Times:
    """`statistic` of each circular block resample of n times, which takes (draws, n) and gives (draws,)."""
    n, length = len(times), block_length(times)
    blocks = np.random.default_rng(_SEED + seed).integers(0, n, (draws, -(-n // length)))
    places = ((blocks[:, :, None] + np.arange(length)) % n).reshape(draws, -1)[:, :n]
    return statistic(times[places])


def medians(drawn: Times) -> Times:
    """The median of each row."""
    return np.asarray(np.median(drawn, axis=1), float)


def means(drawn: Times) -> Times:
    """The mean of each row."""
    return np.asarray(drawn.mean(axis=1), float)


def typical_resampled(times: Times, of_modes: bool, draws: int, seed: int = 0) -> Times:
    """`typical` of each resample."""
    if of_modes:
        return resampled(_clipped(times), means, draws, seed)
    return resampled(times.astype(float), medians, draws, seed)


def within_runs(a: Times, b: Times, of_modes: bool) -> tuple[float, float] | None:
    """The 95 % interval of the ratio of the typical times of b over a, each resampled for itself: what the units of
    these two runs say, and nothing about other runs. None with fewer than FEWEST_UNITS on a side."""
    if min(len(a), len(b)) < FEWEST_UNITS:
        return None
    draws = draws_of(max(len(a), len(b)))
    ratios = typical_resampled(b, of_modes, draws, 1) / typical_resampled(a, of_modes, draws, 0)
    low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def difference_of_means(a: Times, b: Times) -> tuple[float, float] | None:
    """The 95 % interval of the difference of means of b and a within two runs; None with too few units."""
    if min(len(a), len(b)) < FEWEST_UNITS:
        return None
    draws = draws_of(max(len(a), len(b)))
    differences = resampled(b, means, draws, 1) - resampled(a, means, draws, 0)
    low, high = np.quantile(differences, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def between_captures(
    a: Sequence[Times], b: Sequence[Times], of_modes: bool, level: float = LEVEL
) -> tuple[float, float, float]:
    """The ratio of b over a of captures, each with the times of its units, and its interval at `level`.

    Student's interval on the logarithms of each capture's typical time, so that a capture counts once however many
    units it has: with one variance of both sides where they have as many captures, which three of each are too few to
    tell apart, else Welch's. The variance is that between captures, and no less than that which their units have within
    them: three captures may agree by chance. With three a side no test by ranks or permutations could say anything at
    95 % (2 of 20 arrangements are as extreme), which is why the captures are taken to scatter like a normal variable.
    """
    logs = [np.log([typical(times, of_modes) for times in side]) for side in (a, b)]
    return _students(logs, [_within(side, of_modes) for side in (a, b)], level)


def means_between_captures(a: Sequence[Times], b: Sequence[Times], level: float) -> tuple[float, float, float]:
    """As `between_captures`, of the mean of all units of each capture, outliers and all.

    Of the variance within captures outliers are no part: how many of them a capture has the program decides, and where
    it does not, captures differ in it.
    """
    logs = [np.log([times.mean() for times in side]) for side in (a, b)]
    return _students(logs, [_within(side, of_modes=True) for side in (a, b)], level)


def chance_of_all_and_none(a: int, b: int) -> float:
    """The largest chance with which something that comes to some captures of a program, however seldom or often, is in
    all captures of one side and in none of the other, of so many each.

    It rests neither on what it is nor on how long it takes: Barnard's unconditional test of a 2x2 table (Biometrika 34,
    1947, https://doi.org/10.1093/biomet/34.1-2.123), of the most extreme table.
    """
    often = np.linspace(0, 1, 2001)
    return float((often**a * (1 - often) ** b + often**b * (1 - often) ** a).max())


def excess_of_long(times: Times, have_modes: bool, factor: float = 1 + _APART) -> Times:
    """By how much the units that take far longer than others exceed the median of these, (k,) in ps: they take `factor`
    times as long as what outliers are brought back to, in their own mode where both sides `have_modes`, else in the
    lower one."""
    is_high = _is_high(times)
    if is_high is None:
        return _excess(times, times, factor)
    if have_modes:
        return np.concatenate([_excess(part, part, factor) for part in (times[~is_high], times[is_high])])
    return _excess(times, times[~is_high], factor)


def _excess(times: Times, others: Times, factor: float) -> Times:
    middle, reach = _middle(others)
    excess: Times = (times - middle)[times > factor * (middle + reach)]
    return excess


def _students(logs: Sequence[Times], within: Sequence[float], level: float) -> tuple[float, float, float]:
    """The ratio of both sides and its interval, from logarithms of one value a capture and the variance `within`
    captures of each side."""
    difference = float(logs[1].mean() - logs[0].mean())
    counts = [len(side) for side in logs]
    between = [float(np.var(side, ddof=1)) for side in logs]
    if counts[0] == counts[1]:
        between, within = [float(np.mean(between))] * 2, [float(np.mean(within))] * 2
    shares = [max(its) / count for its, count in zip(zip(between, within, strict=True), counts, strict=True)]
    total = sum(shares)
    if total == 0:
        return math.exp(difference), math.exp(difference), math.exp(difference)
    degrees = total**2 / sum(share**2 / (count - 1) for share, count in zip(shares, counts, strict=True))
    reach = student_t(level, degrees) * math.sqrt(total)
    return math.exp(difference), math.exp(difference - reach), math.exp(difference + reach)


def captures_for(margin: float, reach: float, counts: tuple[int, int], level: float) -> int:
    """About how many captures of each side leave differences of at most `margin`, a share, where so many `counts` left
    an interval of the ratio that reaches up by the factor `reach`: captures would scatter as these did."""
    goal = math.log1p(max(margin, 1e-3))
    scatter = math.log(reach) / student_t(level, sum(counts) - 2) / math.sqrt(sum(1 / count for count in counts))
    # As many as would do if the scatter were known for certain, then more, as it is not.
    number = max(math.ceil(2 * (student_t(level, 10_000) * scatter / goal) ** 2), 2)
    while student_t(level, 2 * number - 2) * scatter * math.sqrt(2 / number) > goal:
        number += 1
    return number


def at_one_pace(captures: Sequence[Times], control: Sequence[Times], pace: float) -> list[Times]:
    """The times of each capture's units as if its machine had run the control in `pace`.

    A unit is taken over that of the control of the same place where both have as many, as they follow each other, so
    that load which comes and goes within a capture cancels too; else over the control's median.
    """
    return [
        times * pace / (slowed if len(slowed) == len(times) else float(np.median(slowed)))
        for times, slowed in zip(captures, control, strict=True)
    ]


def _within(side: Sequence[Times], of_modes: bool) -> float:
    """The mean variance of the logarithm of a capture's typical time, as its units tell it."""
    enough = [times for times in side if len(times) >= FEWEST_UNITS]
    drawn = [np.var(np.log(typical_resampled(_one_mode(times), of_modes, draws_of(len(times))))) for times in enough]
    return float(np.mean(drawn)) if drawn else 0.0


def _one_mode(times: Times) -> Times:
    """Times with the distance between their modes taken out: resampling would change how many units are of each, which
    the program decides; where it does not, captures differ in it."""
    is_high = _is_high(times)
    if is_high is None:
        return times
    middles = np.where(is_high, np.median(times[is_high]), np.median(times[~is_high]))
    same: Times = times - middles + middles.mean()
    return same


@cache
def student_t(level: float, degrees: float) -> float:
    """The t that a variable of Student's distribution exceeds on neither side with probability `level`.

    With t = sqrt(degrees) tan u, that probability is the integral of cos(u)^(degrees - 1) from 0 over that up to pi/2.
    """
    edges = np.linspace(0, math.pi / 2, 20_001)
    heights = np.cos(edges) ** (degrees - 1)
    area = np.append(0.0, np.cumsum((heights[1:] + heights[:-1]) / 2))
    angle = float(np.interp(level, area / area[-1], edges))
    return math.sqrt(degrees) * math.tan(angle)
