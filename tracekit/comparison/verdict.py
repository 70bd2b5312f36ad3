"""What may be said of a change: faster, slower, no difference larger than so much, inconclusive, or nothing yet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tracekit.comparison import statistics
from tracekit.comparison.means import MeanUnit, mean
from tracekit.comparison.statistics import LEVEL, Modes
from tracekit.units import percent, quantity

FEWEST_CAPTURES = 3
"""So many captures of each side, each by itself, say what differs between runs of one program."""
MARGIN = 0.05
"""No difference larger than X is a verdict where X is at most this, a share of the wall."""


class Change(StrEnum):
    """The verdict on a change; NOT_TESTED: the captures say nothing about noise between runs."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTED = "not tested"


@dataclass(frozen=True, eq=False)
class Control:
    """A phase that does the same work on both sides, by which the pace of each capture's machine is known.

    `name` is the phase's, `a` and `b` the walls of its rounds in each capture of both sides, in ps. `is_stated` where
    the user said so; else the traces show the same operations in it on both sides.
    """

    name: str
    a: Sequence[NDArray[np.int64]]
    b: Sequence[NDArray[np.int64]]
    is_stated: bool


@dataclass(frozen=True)
class Verdict:
    """What the walls of the units say.

    `outcome` is the verdict on the change: that on the typical unit, `of_typical`, for which `reason` is why, unless
    captures prove that the `mean` unit changed beyond it; slower where either is. `mean` (`a_ps`, `b_ps`, `ratio`,
    `is_proven`, its interval, and the `long` units of each side) is None where it differs as the typical one does, or
    by no more than the margin without proof. `a_ps` and `b_ps` are the typical times of a
    unit, `ratio` is that of b over that of a, and `low` to `high` the interval of the ratio, None where there is none:
    at the confidence `level`, over captures where there are enough of both, else `within` these runs only, widened by a
    stated floor. `captures` counts those of each side. `modes` are those of the times of each side, None where they
    have one; `statistic` says what the typical time then is: "median" or "mean of two modes". With a `control`, the
    name of a phase, all times are at one pace: those of each capture over the control's, times the control's median.
    """

    outcome: Change
    reason: str
    a_ps: int
    b_ps: int
    ratio: float
    low: float | None
    high: float | None
    level: float
    within: bool
    captures: tuple[int, int]
    modes: tuple[Modes | None, Modes | None]
    statistic: str
    of_typical: Change
    mean: MeanUnit | None = None
    control: str | None = None

    @property
    def no_larger_than(self) -> float | None:
        """The largest difference that the interval leaves possible, a share of the time of a."""
        return None if self.low is None or self.high is None else max(abs(self.low - 1), abs(self.high - 1))


def verdict(
    a: Sequence[NDArray[np.int64]],
    b: Sequence[NDArray[np.int64]],
    *,
    floor: float | None = None,
    margin: float = MARGIN,
    tests: int = 1,
    control: Control | None = None,
) -> Verdict:
    """The verdict on the walls of the units of each capture of both sides, in ps.

    `floor` is by how much two captures of one program are known to differ, a share; `tests` is how many verdicts are
    given side by side, between which the 5 % of false alarms are shared (Bonferroni). A `control` that is stated takes
    the pace of each capture's machine out of its walls; one that the traces show does so only where the walls alone are
    inconclusive, and only for a verdict of faster or slower.
    """
    walls = [[its.astype(float) for its in side] for side in (a, b)]
    if control is None:
        return _judged(walls, floor, margin, tests)
    own = None if control.is_stated else _judged(walls, floor, margin, tests)
    if own is not None and own.outcome is not Change.INCONCLUSIVE:
        return own
    of_control = [[its.astype(float) for its in side] for side in (control.a, control.b)]
    pace = float(np.median(np.concatenate([*of_control[0], *of_control[1]])))
    at_pace = [statistics.at_one_pace(*its, pace) for its in zip(walls, of_control, strict=True)]
    relative = replace(_judged(at_pace, floor, margin, tests), control=control.name)
    if own is None:
        return relative
    if relative.outcome not in (Change.FASTER, Change.SLOWER):
        return own
    return replace(
        relative,
        reason=f"The walls alone are inconclusive: captures of one variant differ. Phase {control.name} ran the same "
        "operations on both sides and shows the pace of each capture.",
    )


def _judged(sides: Sequence[Sequence[NDArray[np.float64]]], floor: float | None, margin: float, tests: int) -> Verdict:
    a, b = sides
    found = tuple(_of_side(side) for side in sides)
    of_modes = any(found)
    enough = min(len(a), len(b)) >= FEWEST_CAPTURES
    level = 1 - (1 - LEVEL) / tests if enough else LEVEL
    typical = [
        float(np.exp(np.mean([np.log(statistics.typical(walls, of_modes)) for walls in side]))) for side in sides
    ]
    ratio = typical[1] / typical[0]
    low: float | None
    high: float | None
    if enough:
        ratio, low, high = statistics.between_captures(sides[0], sides[1], of_modes, level)
    else:
        interval = statistics.within_runs(np.concatenate(sides[0]), np.concatenate(sides[1]), of_modes)
        low, high = interval or (None, None)
        if floor is not None:
            low, high = (low or ratio) * (1 - floor), (high or ratio) * (1 + floor)
    tested = enough or floor is not None
    outcome, reason = _outcome(low, high, ratio, floor, margin, tested, (len(a), len(b)))
    means = None
    if low is not None and high is not None and max(map(len, (*a, *b))) > 1:
        means = mean(a, b, (ratio, low, high), have_modes=all(found), are_enough=enough, margin=margin, tests=tests)
    if enough and low is not None and outcome is Change.INCONCLUSIVE:
        number = statistics.captures_for(margin, ratio / low, (len(a), len(b)), level)
        reason += f" About {quantity(number, 'capture')} of each would narrow that down to {percent(margin)}."
    return Verdict(
        _with_mean(outcome, means, enough),
        reason,
        round(typical[0]),
        round(typical[1]),
        ratio,
        low,
        high,
        level,
        not enough,
        (len(a), len(b)),
        (found[0], found[1]),
        "mean of two modes" if of_modes else "median",
        outcome,
        means,
    )


def _with_mean(typical: Change, its: MeanUnit | None, enough: bool) -> Change:
    """The verdict on the typical and the mean unit: slower where either is, since a run takes as long as its mean says;
    else inconclusive where the mean differs and captures are too few to judge it."""
    if its is None or typical is Change.NOT_TESTED:
        return typical
    of_mean = Change.SLOWER if its.is_longer else Change.FASTER
    if its.is_proven:
        return Change.SLOWER if Change.SLOWER in (typical, of_mean) else of_mean
    return typical if enough or typical in (of_mean, Change.SLOWER) else Change.INCONCLUSIVE


def _of_side(side: Sequence[NDArray[np.float64]]) -> Modes | None:
    """The modes of the capture with most units."""
    return statistics.modes(max(side, key=len))


def _outcome(
    low: float | None,
    high: float | None,
    ratio: float,
    floor: float | None,
    margin: float,
    tested: bool,
    captures: tuple[int, int],
) -> tuple[Change, str]:
    if not tested or low is None or high is None:
        runs = "One capture a side" if captures == (1, 1) else f"{captures[0]} and {quantity(captures[1], 'capture')}"
        return Change.NOT_TESTED, (
            f"{runs} cannot tell what the change did from what differs between runs: capture each variant "
            f"{FEWEST_CAPTURES} times (tracekit capture --repeat {FEWEST_CAPTURES}), or state by how much runs differ "
            "(--floor 2%)."
        )
    largest = max(abs(low - 1), abs(high - 1))
    is_small = floor is not None and abs(ratio - 1) <= floor
    if not low <= 1 <= high and not is_small:
        return (Change.FASTER if high < 1 else Change.SLOWER), "The interval does not hold 0."
    if largest <= margin:
        within = f", and the one found is within the stated floor of {percent(floor)}" if is_small else ""
        return Change.NO_DIFFERENCE, f"The interval holds no difference larger than {percent(largest)}{within}."
    return Change.INCONCLUSIVE, (f"Differences of up to {percent(largest)} remain possible.")
