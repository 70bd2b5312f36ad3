"""The part of a trace that its figures are best told of: the steady steps, where compiling and warm-up hide them."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from tracekit import intervals as iv
from tracekit.analysis.steps import reasons_of
from tracekit.intervals import Intervals
from tracekit.timeline.step_boundaries import compiler_times
from tracekit.timeline.timeline import Timeline

# What took a smaller share of the devices' time changes no share in a verdict by what is worth a word there.
WORTH_TELLING = 0.05


def steady(timeline: Timeline) -> Mapping[str, Intervals] | None:
    """By clock the time of the steps that count, where compiling and warm-up took WORTH_TELLING of the window or more.

    That is the time of the steps that are left out for either, and the time in which a compiler ran in no step. None
    where it took less, without steps, and where a compiler ran in steps that count, since then none is steady.
    """
    steps = timeline.steps.table
    if timeline.steps.lacking:
        return None
    reasons = reasons_of(timeline)[0]
    counts = np.array([reason is None for reason in reasons])
    aside = np.array([reason in ("compiles", "warm-up") for reason in reasons])
    if (steps["compile_ps"].to_numpy()[counts] > 0).any():
        return None
    aside_ps = iv.sum_exactly(steps["wall_ps"].to_numpy()[aside]) + sum(compiled_outside(timeline).values())
    if not hides(aside_ps, timeline):
        return None
    times, clock = steps[["start_ps", "end_ps"]].to_numpy(np.int64), steps["clock"].to_numpy(object)
    return {str(name): iv.union(times[counts & (clock == name)]) for name in dict.fromkeys(clock[counts])}


def counted_steps(timeline: Timeline) -> pd.DataFrame:
    """The steps of a timeline that has some, with why each is `left_out` of what counts, as `Steps.table` has them."""
    return timeline.steps.table.assign(left_out=pd.array(reasons_of(timeline)[0], "str"))


def compiled_outside(timeline: Timeline, parts: Mapping[str, Intervals] | None = None) -> Mapping[str, int]:
    """By clock for how long, in ps, a compiler ran in the devices' window but in none of the `parts` (by clock too), or
    without them in no step."""
    if parts is None:
        steps = timeline.steps.table
        times, clock_of = steps[["start_ps", "end_ps"]].to_numpy(np.int64), steps["clock"].to_numpy(object)
        parts = {str(clock): times[clock_of == clock] for clock in dict.fromkeys(clock_of)}
    outside = {}
    for clock, compiler in compiler_times(timeline.rows, timeline.spans).items():
        inside = iv.intersection(compiler, timeline.unions.windows.get(clock, iv.EMPTY))
        outside[clock] = iv.total(iv.difference(inside, iv.union(parts.get(clock, iv.EMPTY))))
    return outside


def hides(aside_ps: int, timeline: Timeline) -> bool:
    """Whether compiling or warm-up of this length, in ps, changes the shares of the devices' time by a word's worth."""
    return aside_ps >= WORTH_TELLING * sum(map(iv.total, timeline.unions.windows.values()))
