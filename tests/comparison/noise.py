"""Step times as machines give them: each capture a little off, steps that resemble the last, outliers, two modes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Noise:
    """How step times scatter, as shares of the time: `between` captures, and within one, where a step resembles the one
    before it by `follows`; `outliers` of the steps take up to twice as long; every `period`-th is of a mode that takes
    five times as long; `drift` is how much slower the last step is than the first; `tail` is the degrees of
    freedom of the scatter between captures, of Student's distribution (few: wild)."""

    between: float = 0.01
    within: float = 0.03
    follows: float = 0.5
    outliers: float = 0.05
    period: int = 0
    drift: float = 0.02
    tail: float = 30
    stalls: float = 0
    stall: float = 10


def captures(
    rng: np.random.Generator, number: int, noise: Noise, slower: float = 1.0, steps: int = 30
) -> list[NDArray[np.int64]]:
    """The step times in ps of so many captures of one program of 100 ms a step, times `slower`."""
    return [_capture(rng, noise, slower, steps) for _ in range(number)]


def _capture(rng: np.random.Generator, noise: Noise, slower: float, steps: int) -> NDArray[np.int64]:
    fresh = rng.normal(0, noise.within, steps)
    scatter = fresh.copy()
    for step in range(1, steps):
        scatter[step] = noise.follows * scatter[step - 1] + np.sqrt(1 - noise.follows**2) * fresh[step]
    walls = np.exp(scatter) * np.linspace(1, 1 + noise.drift, steps)
    walls *= 1 + (rng.random(steps) < noise.outliers) * rng.random(steps)
    if noise.period:
        walls *= 1 + 4 * (np.arange(steps) % noise.period == 0)
    if noise.stalls:
        walls[rng.permutation(steps)[: rng.poisson(noise.stalls)]] += noise.stall
    off = noise.between * rng.standard_t(noise.tail)
    times: NDArray[np.int64] = np.round(10**11 * slower * np.exp(off) * walls).astype(np.int64)
    return times
