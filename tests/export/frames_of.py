"""Frames for tests of exports, from dicts of what is not null."""

from typing import Any

import numpy as np
import pandas as pd

from tracekit.columns import frame
from tracekit.trace import EVENT_COLUMNS, LAUNCH_COLUMNS, SPAN_COLUMNS

_ROW = {"host": "h", "device": "gpu:0", "lane": "s", "kind": "compute", "name": "k"}
_CALL = {"host": "h", "thread": "t", "name": "f"}


def rows(*records: dict[str, Any]) -> pd.DataFrame:
    """Device rows; each says at least `start_ps` and `end_ps`."""
    return _frame(EVENT_COLUMNS, [_ROW | record for record in records])


def spans(*records: dict[str, Any]) -> pd.DataFrame:
    return _frame(SPAN_COLUMNS, [_CALL | record for record in records])


def launches(*records: dict[str, Any]) -> pd.DataFrame:
    return _frame(LAUNCH_COLUMNS, [_CALL | record for record in records])


def _frame(columns, records) -> pd.DataFrame:
    data = {}
    for name, dtype in columns.items():
        values = [record.get(name) for record in records]
        if dtype in ("Int64", "Float64"):
            data[name] = pd.array(values, dtype)
        elif dtype == "int64":
            data[name] = np.array(values, np.int64)
        else:
            # As objects, since pandas' own texts cannot hold a lone surrogate.
            labels = list(dict.fromkeys(value for value in values if value is not None))
            codes = [-1 if value is None else labels.index(value) for value in values]
            data[name] = pd.Categorical.from_codes(codes, categories=pd.Index(labels, dtype=object))
    return frame(columns, data)
