"""Which spans with a step number are steps, and when each is over: what readers cut by, and timelines measure."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import places_of

THREAD = ["host", "process", "thread"]
"""What a thread is told by."""

_NEVER = np.iinfo(np.int64).min

# Spans of a thread that follow each other overlap by so much where their times are rounded, as some profilers write
# whole microseconds, if each lasts so many times as long.
ROUNDING_PS, _ROUNDED = 1_000_000, 10


def cut_to_next(spans: pd.DataFrame) -> pd.DataFrame:
    """The spans, those cut to the begin of the next one of their thread that overlap it by rounding alone: what is
    launched right then is of the next step."""
    thread, start, end = (
        np.asarray(spans.groupby(THREAD, sort=False).ngroup(), np.int64),
        *(spans[edge].to_numpy() for edge in ("start_ps", "end_ps")),
    )
    order = np.lexsort((start, thread))
    before, after = order[:-1], order[1:]
    over_ps = end[before] - start[after]
    is_cut = (thread[before] == thread[after]) & (start[before] < start[after]) & (end[before] <= end[after])
    is_cut &= (over_ps > 0) & (over_ps <= ROUNDING_PS)
    # Of short spans that much is a part of what they are.
    is_cut &= _ROUNDED * over_ps <= np.minimum(end[before] - start[before], end[after] - start[after])
    cut_end = end.copy()
    cut_end[before[is_cut]] = start[after[is_cut]]
    return spans.assign(end_ps=cut_end)


def inner(spans: pd.DataFrame) -> NDArray[np.bool_]:
    """Which spans are no step: those inside another of their thread, or of another name of their host, in one program;
    and a single one that wraps several such."""
    start, end = spans["start_ps"].to_numpy(), spans["end_ps"].to_numpy()
    host, thread = (
        np.asarray(spans.groupby(key, sort=False).ngroup(), np.int64) for key in (["host", "program"], THREAD)
    )
    name = np.asarray(pd.factorize(spans["name"])[0], np.int64)
    often = spans.groupby([*THREAD, "name"], sort=False)["name"].transform("size").to_numpy()
    is_inner = np.zeros(len(spans), bool)
    for places in places_of(host, int(host.max(initial=-1)) + 1):
        is_inner[places] = _inner_of_host(start[places], end[places], thread[places], name[places], often[places])
    return is_inner


def _inner_of_host(
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    thread: NDArray[np.int64],
    name: NDArray[np.int64],
    often: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """The same of the n spans of one host; `often` (n,): how many of its thread have its name."""
    order = np.lexsort((-end, start))
    wraps = np.zeros(len(start), bool)
    for place in np.flatnonzero(often == 1):
        first_place, last_place = np.searchsorted(start[order], [start[place], end[place]], side="left")
        around = order[first_place:last_place]
        beside = (thread[around] != thread[place]) & (name[around] == name[place])
        wraps[place] = ((end[around] <= end[place]) & ~beside).sum() > 2
    is_inner = wraps.copy()
    candidates = order[~wraps[order]]
    # The starts grow, so a span is inside another exactly if one before it reaches as far.
    for key, is_other in ((thread, np.equal), (name, np.not_equal)):
        for code in np.unique(key[candidates]).tolist():
            reach = np.maximum.accumulate(np.where(is_other(key[candidates], code), end[candidates], _NEVER))
            mine = np.flatnonzero(key[candidates[1:]] == code) + 1
            # An empty span where another ends is behind it.
            is_inside = (start[candidates[mine]] < reach[mine - 1]) & (end[candidates[mine]] <= reach[mine - 1])
            is_inner[candidates[mine]] |= is_inside
    return is_inner
