"""Rows that stand in a file twice: one of them counts.

A stream does one thing at a time, and a thread makes one call at a time. So two rows of one that ran from one moment to
another, both the same, and have the same id and all else alike are one, which was written twice or copied by a tool.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tracekit.columns import distinct
from tracekit.readers.losses import Lost
from tracekit.vocabulary.losses import Loss

Integers = NDArray[np.integer]
Mask = NDArray[np.bool_]


def repeated(
    start: Integers,
    end: Integers,
    keys: Sequence[Integers],
    details: Callable[[NDArray[np.int64]], Sequence[Integers]],
) -> Mask:
    """Which rows (n,) equal one before them in start, end, all `keys`, each (n,), and all `details`, which are asked
    for of those rows alone that equal another in the rest. Rows of no length may be many at one moment: none is."""
    found = np.zeros(len(start), bool)
    ordered = np.sort(start)
    if not len(shared := ordered[1:][ordered[1:] == ordered[:-1]]):
        return found
    rows = np.flatnonzero(np.isin(start, shared) & (end > start))
    which, _ = distinct(*(column[rows] for column in (start, end, *keys)))
    several = np.bincount(which)[which] > 1 if len(rows) else np.zeros(0, bool)
    rows, which = rows[several], which[several]
    if len(rows):
        _, first = distinct(which, *details(rows))
        found[rows] = True
        found[rows[first]] = False
    return found


def lost(found: Mask, what: str) -> list[Lost]:
    """The loss of the rows that are repeated, of all that are called so."""
    count = int(np.count_nonzero(found))
    return (
        [Lost(Loss.DETAILS, count, len(found), f"{what} that stand in the file twice, of which one counts")]
        if count
        else []
    )
