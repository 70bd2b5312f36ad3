"""The rows and the host spans of a trace inside some stretches of it."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.intervals import Intervals, union
from tracekit.timeline.rows import clock_of_hosts


def inside(events: pd.DataFrame, windows: Mapping[str, Intervals]) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """The rows of `events` (EVENT_COLUMNS) in `windows`, interval sets by clock, each row cut to the window it is in;
    and the place in `events` of each.

    A row that reaches over several windows is there once in each. Rows on a clock without windows are left out, and so
    are rows that only touch a window; of rows without length, those that lie in [start, end) of one stay.
    """
    start, end = events["start_ps"].to_numpy(), events["end_ps"].to_numpy()
    clock = events["host"].map(clock_of_hosts(events)).to_numpy(object)
    which, starts, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for name, given in windows.items():
        window = union(given)
        rows = np.flatnonzero(clock == name)
        first = np.searchsorted(window[:, 1], start[rows], side="right")
        last = np.searchsorted(window[:, 0], np.maximum(end[rows], start[rows] + 1), side="left")
        times = np.maximum(last - first, 0)
        at = np.repeat(rows, times)
        number = np.arange(len(at)) - np.repeat(np.cumsum(times) - times, times) + np.repeat(first, times)
        which.append(at)
        starts.append(np.maximum(start[at], window[number, 0]))
        ends.append(np.minimum(end[at], window[number, 1]))
    at, begun, done = (np.concatenate(parts) for parts in (which, starts, ends))
    order = np.lexsort((begun, at))
    kept = events.iloc[at[order]].reset_index(drop=True)
    return kept.assign(start_ps=begun[order], end_ps=done[order]), at[order]


def begun(spans: pd.DataFrame, windows: Mapping[str, Intervals], clocks: Mapping[str, str]) -> pd.DataFrame:
    """The spans (SPAN_COLUMNS) that begin in `windows`, whole; `clocks` names the clock of each host.

    A host without device rows is on the only clock there is, or on none.
    """
    only = next(iter(windows)) if len(windows) == 1 else None
    clock = spans["host"].astype(object).map(lambda host: clocks.get(str(host), only)).to_numpy(object)
    start = spans["start_ps"].to_numpy()
    kept = np.zeros(len(spans), bool)
    for name, given in windows.items():
        window = union(given)
        if len(window):
            at = np.searchsorted(window[:, 0], start, side="right") - 1
            kept |= (clock == name) & (at >= 0) & (start < window[at, 1])
    return spans[kept]
