"""The shares of a scope on both sides: what overlapped what, how much of the time, and how sure the difference is."""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import frame
from tracekit.comparison import statistics
from tracekit.comparison.scopes import ANY_TWO, CELLS, HIDDEN, Figures
from tracekit.comparison.verdict import FEWEST_CAPTURES

RATIO_COLUMNS = {
    "ratio": "str",
    "a": "Float64",
    "b": "Float64",
    "low": "Float64",
    "high": "Float64",
    "basis": "str",
    "reason": "str",
}
WITHIN, BETWEEN = "within runs", "between captures"
AT_ONCE = "two or more devices at once"
_KINDS = {"collectives behind compute": "collective", "copies behind compute": "memory"}

Times = NDArray[np.float64]


class _Share(NamedTuple):
    """A share of one side: `part` and `whole` of each unit, (n,) in ps, of each capture; (1,) where the units are not
    known by themselves. `reason` says why there is none."""

    part: tuple[Times, ...] = ()
    whole: tuple[Times, ...] = ()
    reason: str = ""

    @property
    def ratio(self) -> float | None:
        """The part of all units over the whole of them."""
        whole = float(np.concatenate(self.whole).sum()) if self.whole else 0.0
        return float(np.concatenate(self.part).sum()) / whole if whole else None


def ratios(a: Figures, b: Figures) -> pd.DataFrame:
    """What part of collectives and copies ran behind compute, of the time devices were busy, and at least two or each
    pair of them at once.

    One row (RATIO_COLUMNS) per share that a side has: null with a `reason` where the other has none. `low` to `high`
    is the 95 % interval of b less a, of which `basis` says whether it is between captures or only within these runs;
    null where there are too few of both.
    """
    rows = []
    for word, *sides in _shares(a, b):
        values = [side.ratio for side in sides]
        reasons = [f"{side.reason or 'none'} in {name}" for name, side in zip("AB", sides, strict=True)]
        absent = [reason for value, reason in zip(values, reasons, strict=True) if value is None]
        found = None if absent else _interval(*sides)
        rows.append((word, *values, *(found or (None, None, None)), "; ".join(absent) or None))
    return frame(RATIO_COLUMNS, rows)


def _shares(a: Figures, b: Figures) -> Iterator[tuple[str, _Share, _Share]]:
    """Each share, in words, of both sides; those that neither side can have are left out."""
    for word, kind in _KINDS.items():
        every = [cell for cell in CELLS if kind in cell]
        sides = _of_cells(a, HIDDEN[kind], every), _of_cells(b, HIDDEN[kind], every)
        if any(side.ratio is not None for side in sides):
            yield word, *sides
    busy = [cell for cell in CELLS if cell != "idle"]
    yield "busy", _of_cells(a, busy, CELLS), _of_cells(b, busy, CELLS)
    if len(a.devices) > 1 or len(b.devices) > 1:
        yield AT_ONCE, _at_once(a, ANY_TWO), _at_once(b, ANY_TWO)
    if len(a.devices) == len(b.devices):
        for pair in combinations(range(len(a.devices)), 2):
            sides = _at_once(a, pair), _at_once(b, pair)
            if any(side.ratio is not None for side in sides):
                yield f"{_names(a, b, pair)} at once", *sides


def _names(a: Figures, b: Figures, pair: tuple[int, int]) -> str:
    """Two devices by their names in a, and in b where these are others."""
    ours, theirs = (" and ".join(its.devices[place] for place in pair) for its in (a, b))
    return ours if ours == theirs else f"{ours} ({theirs})"


def _of_cells(figures: Figures, part: Sequence[str], whole: Sequence[str]) -> _Share:
    return _Share(tuple(_units(its, part) for its in figures.each), tuple(_units(its, whole) for its in figures.each))


def _units(figures: Figures, cells: Sequence[str]) -> Times:
    """The time in some cells of each unit, or of all where the units are not known by themselves: those of devices do
    not follow each other."""
    if figures.by_unit is not None:
        times: Times = figures.by_unit[[*cells]].to_numpy(np.int64).sum(axis=1).astype(float)
        return times
    return np.array([float(figures.cells[[*cells]].to_numpy(np.int64).sum())])


def _at_once(figures: Figures, pair: tuple[int, int]) -> _Share:
    captures = figures.each
    if reason := next((its.not_shared for its in captures if its.not_shared), ""):
        return _Share(reason=reason)
    tables = [its.shared[(its.shared["a"] == pair[0]) & (its.shared["b"] == pair[1])] for its in captures]
    if any(table.empty for table in tables):
        return _Share(reason="not known")
    part, whole = ([table[column].to_numpy(float) for table in tables] for column in ("shared_ps", "window_ps"))
    return _Share(tuple(part), tuple(whole))


def _interval(a: _Share, b: _Share) -> tuple[float, float, str] | None:
    """The interval of the difference of two shares, and what it rests on."""
    if min(len(a.whole), len(b.whole)) >= FEWEST_CAPTURES:
        return (*_between(a, b), BETWEEN) if all(whole.sum() for side in (a, b) for whole in side.whole) else None
    found = statistics.difference_of_means(*(_linear(np.concatenate(s.part), np.concatenate(s.whole)) for s in (a, b)))
    return (*found, WITHIN) if found else None


def _linear(part: Times, whole: Times) -> Times:
    """Values of the units whose mean is the ratio of the sums, and scatters as that does: a ratio of sums is no mean of
    ratios (the delta method; Cochran, Sampling Techniques, 1977, section 2.11)."""
    ratio = part.sum() / whole.sum()
    values: Times = ratio + (part - ratio * whole) / whole.mean()
    return values


def _between(a: _Share, b: _Share) -> tuple[float, float]:
    """Welch's interval over the shares of captures, each of which counts once; as those of times, no narrower than the
    units of a capture leave its share uncertain."""
    shares = [np.array([p.sum() / w.sum() for p, w in zip(s.part, s.whole, strict=True)]) for s in (a, b)]
    scatter = [max(float(np.var(its, ddof=1)), _within(side)) for its, side in zip(shares, (a, b), strict=True)]
    errors = [each / len(its) for each, its in zip(scatter, shares, strict=True)]
    difference, total = float(shares[1].mean() - shares[0].mean()), sum(errors)
    if not total:
        return difference, difference
    degrees = total**2 / sum(error**2 / (len(its) - 1) for error, its in zip(errors, shares, strict=True))
    reach = statistics.student_t(statistics.LEVEL, degrees) * math.sqrt(total)
    return difference - reach, difference + reach


def _within(side: _Share) -> float:
    """The mean variance of the share of a capture, as its units tell it."""
    enough = [
        _linear(part, whole)
        for part, whole in zip(side.part, side.whole, strict=True)
        if len(part) >= statistics.FEWEST_UNITS
    ]
    drawn = [np.var(statistics.resampled(it, statistics.means, statistics.draws_of(len(it)))) for it in enough]
    return float(np.mean(drawn)) if drawn else 0.0
