"""Frames of results: exactly the columns and dtypes that an analysis promises, made column by column."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd


def typed(
    columns: Mapping[str, str], data: Mapping[str, Any] | pd.DataFrame | Sequence[Sequence[Any]] = ()
) -> pd.DataFrame:
    """A frame with exactly `columns`, in that order and of those dtypes.

    `data` are its rows, each with a value per column, or its columns by name, of one length; further ones are left out.
    None, NaN and NA are null. Raises ValueError or TypeError where a value is not of its column's dtype, or null where
    that has none.

    The values go straight to their dtype: DataFrame(rows).astype(columns) takes five times as long for a small frame,
    and rounds integers above 2**53 beside a None, which it takes for floats first.
    """
    if not isinstance(data, Mapping | pd.DataFrame):
        data = dict(zip(columns, zip(*data, strict=True) if data else [()] * len(columns), strict=True))
    return pd.DataFrame({name: _column(data[name], dtype) for name, dtype in columns.items()}, copy=False)


def _column(values: Any, name: str) -> Any:
    dtype = _dtype(name)
    values = values.array if isinstance(values, pd.Series) else values
    if isinstance(dtype, np.dtype):
        kept = not hasattr(values, "dtype") or (isinstance(values, np.ndarray) and values.dtype.kind in "iub")
        return np.asarray(values, dtype) if kept else pd.Series(values).astype(dtype).array
    return values if getattr(values, "dtype", None) == dtype else pd.array(values, dtype=dtype)


@cache
def _dtype(name: str) -> Any:
    return pd.api.types.pandas_dtype(name)
