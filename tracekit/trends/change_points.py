"""Where a series changed its level, and how sure that is: ranks of the stretch that differs most, against permutations.

The stretch is that of circular binary segmentation (Olshen et al. 2004, https://doi.org/10.1093/biostatistics/kxh008).
"""

from itertools import pairwise
from math import comb, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# A level has so many values at least; of fewer than FEWEST no change of level could be told from chance.
_SEGMENT, FEWEST = 3, 10
# Chance gives so many series without a change one, and is tried so often; the same numbers each time.
LEVEL = 0.01
_PERMUTATIONS, _SEED = 999, 0
# Of the interval of a shift.
COVERAGE, _Z = 0.95, 1.96

Series = NDArray[np.float64]


class ChangePoint(NamedTuple):
    """From the value `at` on, the level is another; `p` is how often chance parts a series as clearly."""

    at: int
    p: float


def change_points(values: Series) -> tuple[ChangePoint, ...]:
    """The changes of level of a series (n,), in order, each of a p of LEVEL or less in its own stretch.

    Ranks are compared, so that single outliers are no change. Deterministic. In fewer than FEWEST values none is found.
    """
    return tuple(sorted(_parted(np.asarray(values, float), 0)))


def shift_interval(before: Series, after: Series) -> tuple[float, float] | None:
    """By how much the level of `after` (m,) lies above that of `before` (n,), with a confidence of COVERAGE.

    From the ranks of the differences of all pairs (Hodges and Lehmann 1963, https://doi.org/10.1214/aoms/1177704172),
    so that outliers do not widen it. None where so few values, as three and four, have no such interval.
    """
    n, m = len(before), len(after)
    if 2 / comb(n + m, n) > 1 - COVERAGE:
        return None
    differences = np.sort(np.subtract.outer(after, before), axis=None)
    outside = max(int(n * m / 2 - _Z * sqrt(n * m * (n + m + 1) / 12)), 1)
    return float(differences[outside - 1]), float(differences[-outside])


def _parted(values: Series, first: int) -> list[ChangePoint]:
    n = len(values)
    if n < FEWEST:
        return []
    ranks = _ranks(values)
    clearness, start, end = _clearest(ranks[None])
    if _p(_clearest(_shuffled(ranks))[0], float(clearness[0])) > LEVEL:
        return []
    edges = [0, *sorted({int(start[0]), int(end[0])} - {0, n}), n]
    # Of a stretch with two ends one may be chance: each is held against its own two sides.
    found = [
        ChangePoint(at, p)
        for before, at, after in zip(edges, edges[1:], edges[2:], strict=False)
        if (p := _p_of_edge(_ranks(values[before:after]), at - before)) <= LEVEL
    ]
    bounds = [0, *(point.at for point in found), n]
    inner = [point for low, high in pairwise(bounds) if found for point in _parted(values[low:high], first + low)]
    return [*(ChangePoint(first + point.at, point.p) for point in found), *inner]


def _ranks(values: Series) -> Series:
    """The ranks (n,) about their mean, equal values alike."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Series = (np.cumsum(count) - (count + len(values)) / 2)[place]
    return ranks


def _shuffled(ranks: Series) -> Series:
    return np.random.default_rng(_SEED).permuted(np.tile(ranks, (_PERMUTATIONS, 1)), axis=1)


def _p(by_chance: Series, measured: float) -> float:
    return (1 + int((by_chance >= measured - 1e-9).sum())) / (1 + len(by_chance))


def _p_of_edge(ranks: Series, at: int) -> float:
    """How often chance parts a series (n,) as clearly at this one place."""
    return _p(np.abs(_shuffled(ranks)[:, :at].sum(axis=1)), abs(float(ranks[:at].sum())))


def _clearest(ranks: Series) -> tuple[Series, NDArray[np.int64], NDArray[np.int64]]:
    """Of series (m, n) of sum 0 the stretch that differs most from the rest: how clearly, its start and its end."""
    m, n = ranks.shape
    sums = np.concatenate([np.zeros((m, 1)), np.cumsum(ranks, axis=1)], axis=1)
    best, start, end = np.full(m, -1.0), np.zeros(m, np.int64), np.zeros(m, np.int64)
    for low in [0, *range(_SEGMENT, n - _SEGMENT + 1)]:
        highs = np.array([*range(low + _SEGMENT, n - _SEGMENT + 1), *([n] if low else [])])
        if not len(highs):
            continue
        length = highs - low
        clearness = np.abs(sums[:, highs] - sums[:, [low]]) * np.sqrt(n / (length * (n - length)))
        at = clearness.argmax(axis=1)
        value = clearness[np.arange(m), at]
        is_better = value > best
        best, start = np.where(is_better, value, best), np.where(is_better, low, start)
        end = np.where(is_better, highs[at], end)
    return best, start, end
