"""Whether the mean unit changed where the typical one does not say so: rare long units move the mean alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracekit.comparison import statistics
from tracekit.comparison.statistics import LEVEL, Times

MEAN_LEVEL = 0.98
"""Of the interval of the mean, which is a second test beside that of the typical time: it seldom adds a false alarm."""


_STALLED = 2.0
"""So many times as long as its others a unit takes at least that is a stall."""


@dataclass(frozen=True)
class LongUnits:
    """The units of one side that take far longer than its others: `number` of so many `units`, on average longer by
    `excess_ps` than the median, in `captures_with` of so many `captures`."""

    number: int
    units: int
    excess_ps: int
    captures_with: int
    captures: int


@dataclass(frozen=True)
class MeanUnit:
    """The mean unit of both sides, where it differs by what the interval of the typical one does not hold.

    `a_ps` and `b_ps` are the time of all units over their number, `ratio` is that of b over that of a. Where it
    `is_proven`, either `low` to `high`, the interval of the ratio between captures at the confidence `level`, does not
    hold 1; or they are None, and every capture of one side has units of twice the length of its others and none of the
    other has, which chance gives in `by_chance` of comparisons at most. Too few captures to judge have neither. `long`
    are the long units of each side.
    """

    a_ps: int
    b_ps: int
    ratio: float
    is_proven: bool
    low: float | None
    high: float | None
    level: float
    by_chance: float | None
    long: tuple[LongUnits, LongUnits]

    @property
    def is_longer(self) -> bool:
        """Whether it is b whose mean unit takes longer."""
        return self.ratio > 1


def mean(
    a: Sequence[Times],
    b: Sequence[Times],
    typical: tuple[float, float, float],
    *,
    have_modes: bool,
    are_enough: bool,
    margin: float,
    tests: int,
) -> MeanUnit | None:
    """How the mean unit of b differs from that of a; None where the `typical` ratio (that, low, high) says as much, and
    where the difference is not proven and no more than `margin`, a share.

    Proof takes captures, which `are_enough` or not: that one of them met a stall may be chance. `have_modes`: both
    sides have two modes. `tests` is how many verdicts share the false alarms.
    """
    ratio, least, most = typical
    a_ps, b_ps = (float(np.concatenate(side).mean()) for side in (a, b))
    each = [float(np.exp(np.mean([np.log(times.mean()) for times in side]))) for side in (a, b)]
    ratios = b_ps / a_ps, each[1] / each[0]  # of all units, and of captures that count once each
    is_longer = min(ratios) > 1
    if not is_longer and max(ratios) >= 1:
        return None
    is_beyond, is_far = min(ratios) > most or max(ratios) < least, abs(ratios[0] - 1) > margin
    if not is_beyond and (not is_far or not least <= 1 <= most):  # the typical unit says as much
        return None
    is_told = is_beyond and abs(ratios[0] / ratio - 1) > margin
    level = 1 - (1 - MEAN_LEVEL) / tests
    long = _long(a, have_modes), _long(b, have_modes)
    found = MeanUnit(round(a_ps), round(b_ps), ratios[0], False, None, None, level, None, long)
    if not are_enough:
        return found if is_told else None
    _, low, high = statistics.means_between_captures(a, b, level)
    if not low <= 1 <= high:
        return replace(found, is_proven=True, low=low, high=high)
    chance = statistics.chance_of_all_and_none(len(a), len(b))
    if is_far and chance <= (1 - LEVEL) / tests and _is_all_and_none((a, b) if is_longer else (b, a), have_modes):
        return replace(found, is_proven=True, by_chance=chance)
    return replace(found, low=low, high=high) if is_told else None


def _is_all_and_none(sides: tuple[Sequence[Times], Sequence[Times]], have_modes: bool) -> bool:
    """Whether every capture of the second side has a stall, and none of the first."""
    first, second = ([len(statistics.excess_of_long(its, have_modes, _STALLED)) > 0 for its in side] for side in sides)
    return all(second) and not any(first)


def _long(side: Sequence[Times], have_modes: bool) -> LongUnits:
    excess = [statistics.excess_of_long(times, have_modes) for times in side]
    every = np.concatenate(excess)
    return LongUnits(
        len(every),
        sum(map(len, side)),
        round(float(every.mean())) if len(every) else 0,
        sum(map(bool, map(len, excess))),
        len(side),
    )
