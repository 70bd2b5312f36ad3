"""Literal frames for tests: one short row per interval or span."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tracekit.columns import frame
from tracekit.timeline.instances import CollectiveInstances
from tracekit.timeline.timeline import Timeline
from tracekit.trace import EVENT_COLUMNS, SPAN_COLUMNS, Trace


def events(*rows: tuple, host: str = "h", clock: str | None = None) -> pd.DataFrame:
    """Rows of (device, kind, start, end[, name[, direction]]) as an events frame; the lane is the kind."""
    full = [(*row, *("op", None)[len(row) - 4 :]) for row in rows]
    return frame(
        EVENT_COLUMNS,
        {
            "host": [host] * len(full),
            "device": [row[0] for row in full],
            "lane": [row[1] for row in full],
            "kind": [row[1] for row in full],
            "name": [row[4] for row in full],
            "start_ps": [row[2] for row in full],
            "end_ps": [row[3] for row in full],
            "direction": [row[5] for row in full],
            "clock": [clock] * len(full),
        },
    )


def spans(*rows: tuple, host: str = "h") -> pd.DataFrame:
    """Rows of (name, start, end[, alone[, baseline]]): phases as `tracekit.phase` writes them."""
    full = [(*row, *(None, None)[len(row) - 3 :]) for row in rows]
    return frame(
        SPAN_COLUMNS,
        {
            "host": [host] * len(full),
            "thread": ["python"] * len(full),
            "name": [row[0] for row in full],
            "start_ps": [row[1] for row in full],
            "end_ps": [row[2] for row in full],
            "tracekit": ["phase"] * len(full),
            "alone": [row[3] for row in full],
            "baseline": [row[4] for row in full],
        },
    )


def trace(rows: pd.DataFrame, marks: pd.DataFrame | None = None, **more) -> Trace:
    """A trace of an events frame and a spans frame."""
    return Trace(events=rows, spans=spans() if marks is None else marks, source="traces/test", format="xplane", **more)


def with_instances(timeline: Timeline, instance: ArrayLike) -> Timeline:
    """`timeline`, with the instance (n,) of a collective that each row is of, -1 for none, whatever its events say."""
    numbers, nothing = np.array(instance, np.int64), np.zeros(0, np.int64)
    complete = np.ones(int(numbers.max(initial=-1)) + 1, bool)
    timeline.once("collectives", lambda: CollectiveInstances(numbers, nothing, nothing, nothing, complete, (), ()))
    return timeline
