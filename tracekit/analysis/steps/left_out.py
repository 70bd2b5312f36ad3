"""Which steps count in no figure, and which of those that do are not like the others."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.timeline.rows import Rows

# Iglewicz and Hoaglin (1993): a modified z-score above 3.5 is an outlier, z = 0.6745 |x - median| / MAD
# (https://www.itl.nist.gov/div898/handbook/eda/section3/eda35h.htm). Steps of a machine can be so regular that this
# singles out a step 1 % longer, so it must differ by a tenth too; of fewer than five steps none stands out.
_Z, _PER_MAD, _DIFFERS = 3.5, 0.6745, 0.1
FEWEST = 5
# A step at the profile's edge that lacks more than a tenth of a device's usual rows was cut.
_CUT_BELOW = 0.9


def series(table: pd.DataFrame) -> list[NDArray[np.int64]]:
    """The rows of the table by clock and name."""
    return [its.index.to_numpy(np.int64) for _, its in table.groupby(["clock", "name"], sort=False)]


def outliers(wall: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the walls differ from the others, by Iglewicz and Hoaglin's rule and by a tenth; of few, none."""
    if len(wall) < FEWEST:
        return np.zeros(len(wall), bool)
    middle = np.median(wall)
    off = np.abs(wall - middle)
    found: NDArray[np.bool_] = (_PER_MAD * off > _Z * np.median(off)) & (off > _DIFFERS * middle)
    return found


def left_out(
    rows: Rows, table: pd.DataFrame, number: NDArray[np.int64]
) -> tuple[list[str | None], dict[tuple[str, str], str]]:
    """Why each step of `table` counts in no figure, None where it does; and what is to be said of a clock and name.

    "cut": at the profile's edge, and lacking rows of a device (or marks of a host) that the others have; the first
    annotated steps lack none, as an annotation begun before the profile is not in it. "compiles": a compiler ran in it,
    unless it did in more than half of the steps of that name. "warm-up": one of the first that are left, and an outlier
    to the long side. Where all steps of a name would be left out, none is. `number` (devices, steps) counts the rows.
    """
    why: list[str | None] = [None] * len(table)
    for place in _cut(rows, table, number):
        why[place] = "cut"
    notes: dict[tuple[str, str], str] = {}
    compiles, wall = table["compile_ps"].to_numpy() > 0, table["wall_ps"].to_numpy()
    for its in series(table):
        note = []
        often = int(compiles[its].sum())
        if 2 * often > len(its) > 1:
            note.append(f"a compiler ran in {often} of {len(its)} steps, so that these count")
        else:
            for place in its[compiles[its]]:
                why[place] = "compiles"
        left = its[[why[place] is None for place in its]]
        for place in left[: _first_ordinary(wall[left])]:
            why[place] = "warm-up"
        if all(why[place] for place in its):
            reasons = " or ".join(dict.fromkeys(str(why[place]) for place in its))
            note.append(f"each would be left out ({reasons}), so that all count")
            for place in its:
                why[place] = None
        if note:
            first = int(its[0])
            notes[str(table["clock"].iloc[first]), str(table["name"].iloc[first])] = "; ".join(note)
    return why, notes


def _first_ordinary(wall: NDArray[np.int64]) -> int:
    """The place of the first wall that is no outlier to the long side."""
    if len(wall) == 0:
        return 0
    slow = outliers(wall) & (wall > float(np.median(wall)))
    return int(np.argmin(np.append(slow, False)))


def _cut(rows: Rows, table: pd.DataFrame, number: NDArray[np.int64]) -> list[int]:
    """The steps at the edges of each clock's steps that lack rows of a device, or marks of a host."""
    usual = np.zeros(number.shape)
    for its in series(table):
        if len(its) > 2:
            usual[:, its] = np.median(number[:, its], axis=1, keepdims=True)
    usual[~np.array(rows.placed)] = 0
    hosts = table["hosts"].to_numpy(np.int64, na_value=0)
    short: NDArray[np.bool_] = np.any(number < _CUT_BELOW * usual, axis=0)
    annotated = table["hosts"].notna().to_numpy(bool)
    found: list[int] = []
    for _, mine in table.groupby("clock", sort=False):
        places = mine.index.to_numpy(np.int64)
        unmarked: NDArray[np.bool_] = hosts[places] < int(hosts[places].max())
        begun = np.flatnonzero(~(unmarked | short[places] & ~annotated[places]))
        ended = np.flatnonzero(~(unmarked | short[places]))
        if len(begun) and len(ended):
            found += [*places[: begun[0]].tolist(), *places[ended[-1] + 1 :].tolist()]
    return found
