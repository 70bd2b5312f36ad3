"""Frames of collectives for tests: one short call per row."""

from typing import Any

import numpy as np
import pandas as pd

from tracekit.columns import frame
from tracekit.trace import EVENT_COLUMNS


def row(device: str, start: int, end: int, category: str | None = "all-reduce", **more: Any) -> dict[str, Any]:
    """One collective (or what `kind` says) of a device; `more` are columns of events."""
    return {
        "host": "h",
        "device": device,
        "lane": "stream 1",
        "kind": "collective",
        "name": category or "kernel",
        "start_ps": start,
        "end_ps": end,
        "category": category,
        "known_by": "opcode",
    } | more


def table(*records: dict[str, Any]) -> pd.DataFrame:
    """The events frame of such rows, in their order."""
    data = {}
    for name, dtype in EVENT_COLUMNS.items():
        values = [record.get(name) for record in records]
        if dtype in ("Int64", "Float64"):
            data[name] = pd.array(values, dtype)
        elif dtype == "int64":
            data[name] = np.array(values, np.int64)
        else:
            data[name] = pd.Categorical(values, categories=sorted({value for value in values if value is not None}))
    return frame(EVENT_COLUMNS, data)
