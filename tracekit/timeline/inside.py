"""The rows and the host spans of a trace inside some stretches of it."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.intervals import Intervals, union
from tracekit.timeline.rows import clock_of_hosts


def events_inside(events: pd.DataFrame, windows: Mapping[str, Intervals]) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """The rows of `events` (EVENT_COLUMNS) in `windows`, interval sets by clock, each row cut to the window it is in;
    and the place in `events` of each.

    A row that reaches over several windows is there once in each. Rows on a clock without windows are left out, and so
    are rows that only touch a window; of rows without length, those that lie in [start, end) of one stay.
    """
    start, end = events["start_ps"].to_numpy(), events["end_ps"].to_numpy()
    clock = events["host"].map(clock_of_hosts(events)).to_numpy(object)
    places_by_window, starts, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for name, window_set in windows.items():
        window = union(window_set)
        rows = np.flatnonzero(clock == name)
        first_window = np.searchsorted(window[:, 1], start[rows], side="right")
        last_window = np.searchsorted(window[:, 0], np.maximum(end[rows], start[rows] + 1), side="left")
        counts = np.maximum(last_window - first_window, 0)
        places = np.repeat(rows, counts)
        number = (
            np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first_window, counts)
        )
        places_by_window.append(places)
        starts.append(np.maximum(start[places], window[number, 0]))
        ends.append(np.minimum(end[places], window[number, 1]))
    places, starts_inside, ends_inside = (np.concatenate(columns) for columns in (places_by_window, starts, ends))
    order = np.lexsort((starts_inside, places))
    events_inside = events.iloc[places[order]].reset_index(drop=True)
    return events_inside.assign(start_ps=starts_inside[order], end_ps=ends_inside[order]), places[order]


def spans_inside(spans: pd.DataFrame, windows: Mapping[str, Intervals], clocks: Mapping[str, str]) -> pd.DataFrame:
    """The spans (SPAN_COLUMNS) that begin in `windows`, whole; `clocks` names the clock of each host.

    A host without device rows is on the only clock there is, or on none.
    """
    only_clock = next(iter(windows)) if len(windows) == 1 else None
    clock = spans["host"].astype(object).map(lambda host: clocks.get(str(host), only_clock)).to_numpy(object)
    start = spans["start_ps"].to_numpy()
    in_windows = np.zeros(len(spans), bool)
    for name, window_set in windows.items():
        window = union(window_set)
        if len(window):
            window_before = np.searchsorted(window[:, 0], start, side="right") - 1
            in_windows |= (clock == name) & (window_before >= 0) & (start < window[window_before, 1])
    return spans[in_windows]
