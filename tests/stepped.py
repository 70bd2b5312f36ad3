"""Literal frames for tests of steps: annotations, and device rows with the times of their launches."""

import numpy as np
import pandas as pd

from tracekit.columns import frame
from tracekit.timeline.rows import rows
from tracekit.timeline.step_boundaries import StepBoundaries
from tracekit.timeline.timeline import Timeline, timeline_of
from tracekit.trace import EVENT_COLUMNS, LAUNCH_COLUMNS, SPAN_COLUMNS, Trace

# Columns of events whose categories are fixed.
_FIXED = {"kind", "direction"}


def annotations(*marks: tuple, host: str = "h", process: str | None = None, thread: str = "python") -> pd.DataFrame:
    """Rows of (name, step, start, end) as spans of one thread; `step` None is another span."""
    return frame(
        SPAN_COLUMNS,
        {
            "host": [host] * len(marks),
            "process": [process] * len(marks),
            "thread": [thread] * len(marks),
            "name": [mark[0] for mark in marks],
            "step": pd.array([mark[1] for mark in marks], "Int64"),
            "start_ps": [mark[2] for mark in marks],
            "end_ps": [mark[3] for mark in marks],
        },
    )


def work(
    *items: tuple,
    host: str = "h",
    clock: str | None = None,
    process: str | None = None,
    thread: str = "python",
    first_id: int = 0,
    **more,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of (device, kind, start, end[, launched]) as events and launches of one thread, whose ids count from
    `first_id`; `more` are columns of the events."""
    launched = [row[4] if len(row) > 4 else None for row in items]
    called = [number for number, at in enumerate(launched) if at is not None]
    events = frame(
        EVENT_COLUMNS,
        {
            "host": [host] * len(items),
            "device": [row[0] for row in items],
            "lane": [row[1] for row in items],
            "kind": [row[1] for row in items],
            "name": ["op"] * len(items),
            "start_ps": [row[2] for row in items],
            "end_ps": [row[3] for row in items],
            "correlation_id": pd.array(
                [None if at is None else first_id + n for n, at in enumerate(launched)], "Int64"
            ),
            "clock": [clock] * len(items),
            **{name: pd.array(values, EVENT_COLUMNS[name]) for name, values in more.items()},
        },
    )
    launches = frame(
        LAUNCH_COLUMNS,
        {
            "host": [host] * len(called),
            "process": [process] * len(called),
            "thread": [thread] * len(called),
            "name": ["launch"] * len(called),
            "start_ps": [launched[number] for number in called],
            "end_ps": [launched[number] + 1 for number in called],
            "correlation_id": [first_id + number for number in called],
        },
    )
    return events, launches


def join(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """The rows of several such frames, with categories again."""
    table = pd.concat(frames, ignore_index=True)
    texts = [name for name, dtype in frames[0].dtypes.items() if isinstance(dtype, pd.CategoricalDtype)]
    return table.astype(
        {**dict.fromkeys(texts, "category"), **{name: EVENT_COLUMNS[name] for name in _FIXED & {*table}}}
    )


def timeline(frames: tuple[pd.DataFrame, pd.DataFrame], spans: pd.DataFrame | None = None) -> Timeline:
    """Such work in order."""
    return timeline_of(Trace(frames[0], spans=annotations() if spans is None else spans, launches=frames[1]))


def boundaries(frames: tuple[pd.DataFrame, pd.DataFrame], spans: pd.DataFrame | None = None) -> StepBoundaries:
    """The boundaries of such work."""
    return timeline(frames, spans).steps


def table(step_boundaries: StepBoundaries, *columns: str) -> list[tuple]:
    """Some columns of the steps as tuples; null is None."""
    some = step_boundaries.table[list(columns)].astype(object)
    return list(some.where(some.notna(), None).itertuples(index=False, name=None))


def steps_of(step_boundaries: StepBoundaries, frames: tuple[pd.DataFrame, pd.DataFrame]) -> list[int]:
    """The step of each row, in the order of the events."""
    at = rows(frames[0]).at
    of = np.empty(len(at), np.int64)
    of[at] = step_boundaries.step_of
    return of.tolist()
