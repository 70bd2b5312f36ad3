"""Literal frames of launched work, spans and waits for tests; a time is a whole number of picoseconds."""

import pandas as pd

from tracekit.columns import frame
from tracekit.trace import EVENT_COLUMNS, LAUNCH_COLUMNS, SPAN_COLUMNS, SYNC_COLUMNS
from tracekit.vocabulary.kinds import Kind

_ROW = {"lane": "1", "kind": Kind.COMPUTE.value, "name": "op", "id": None, "run": None, "module": None, "clock": None}
_WAIT = {"host": "h", "thread": "main", "name": "wait", "device": None, "lane": None, "on_lane": None, "recorded": None}


def work(*rows: dict, host: str = "h") -> pd.DataFrame:
    """Rows of dicts with device, start and end; lane, kind, name, id (correlation), run, module, clock, host may be
    given."""
    full = [{"host": host, **_ROW, **row} for row in rows]
    columns = {"run_id": "run", "hlo_module": "module", "correlation_id": "id", "start_ps": "start", "end_ps": "end"}
    names = [*("host", "device", "lane", "kind", "name", "clock"), *columns]
    return frame(EVENT_COLUMNS, {name: [row[columns.get(name, name)] for row in full] for name in names})


def calls(*rows: tuple, host: str = "h") -> pd.DataFrame:
    """Rows of (id, start, end[, thread[, name]]) as launches."""
    full = [(*row, *("main", "launch")[len(row) - 3 :]) for row in rows]
    return frame(
        LAUNCH_COLUMNS,
        {
            "host": [host] * len(full),
            "thread": [row[3] for row in full],
            "name": [row[4] for row in full],
            "start_ps": [row[1] for row in full],
            "end_ps": [row[2] for row in full],
            "correlation_id": [row[0] for row in full],
        },
    )


def host_spans(*rows: tuple, host: str = "h") -> pd.DataFrame:
    """Rows of (name, start, end[, thread]) as spans."""
    full = [(*row, *("main",)[len(row) - 3 :]) for row in rows]
    return frame(
        SPAN_COLUMNS,
        {
            "host": [host] * len(full),
            "thread": [row[3] for row in full],
            "name": [row[0] for row in full],
            "start_ps": [row[1] for row in full],
            "end_ps": [row[2] for row in full],
        },
    )


def waits(*rows: dict) -> pd.DataFrame:
    """Rows of dicts with start, end and on_device; device and lane (which waits), thread, name, on_lane, recorded may
    be given."""
    full = [{**_WAIT, **row} for row in rows]
    columns = {"start_ps": "start", "end_ps": "end", "recorded_ps": "recorded"}
    names = [*("host", "thread", "name", "device", "lane", "on_device", "on_lane"), *columns]
    return frame(SYNC_COLUMNS, {name: [row[columns.get(name, name)] for row in full] for name in names})
