"""Which rows are equal, found with whole columns at a time: no Python object a row."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray


def distinct(*columns: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which distinct combination of the columns (each (n,)) every row has, shape (n,), and the first row of each."""
    which = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes, values = pd.factorize(column)
        which = pd.factorize(which * len(values) + codes)[0]
    first = np.zeros(which.max(initial=-1) + 1, np.int64)
    first[which[::-1]] = np.arange(len(which))[::-1]
    return which, first


def distinct_bytes(
    buf: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same for the byte strings buf[start : start + size] of each row (starts and sizes (n,), inside `buf`)."""
    which = np.zeros(len(starts), np.int64)
    firsts: list[NDArray[np.int64]] = []
    count = 0
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        # Eight bytes are compared at once, the last of them padded with zeros: all of one size, so that is exact.
        padded = np.zeros((len(rows), max(-(-size // 8), 1) * 8), np.uint8)
        if size:
            padded[:, :size] = sliding_window_view(buf, size)[starts[rows]]
        codes, first = distinct(*np.ascontiguousarray(padded.view(np.uint64).T))
        which[rows] = codes + count
        count += len(first)
        firsts.append(rows[first])
    return which, np.concatenate(firsts) if firsts else np.zeros(0, np.int64)
