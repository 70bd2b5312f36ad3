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
    return [
        rows_of_series.index.to_numpy(np.int64) for _, rows_of_series in table.groupby(["clock", "name"], sort=False)
    ]


def outliers(wall: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the walls differ from the others, by Iglewicz and Hoaglin's rule and by a tenth; of few, none."""
    if len(wall) < FEWEST:
        return np.zeros(len(wall), bool)
    middle = np.median(wall)
    off = np.abs(wall - middle)
    is_outlier: NDArray[np.bool_] = (_PER_MAD * off > _Z * np.median(off)) & (off > _DIFFERS * middle)
    return is_outlier


def left_out(
    rows: Rows, table: pd.DataFrame, number: NDArray[np.int64]
) -> tuple[list[str | None], dict[tuple[str, str], str]]:
    """Why each step of `table` counts in no figure, None where it does; and what is to be said of a clock and name.

    "cut": at the profile's edge, and lacking rows of a device (or marks of a host) that the others have; the first
    annotated steps lack none, as an annotation begun before the profile is not in it. "compiles": a compiler ran in it,
    unless it did in more than half of the steps of that name. "warm-up": one of the first that are left, and an outlier
    to the long side. Where all steps of a name would be left out, none is. `number` (devices, steps) counts the rows.
    """
    reasons: list[str | None] = [None] * len(table)
    for place in _cut_steps(rows, table, number):
        reasons[place] = "cut"
    notes: dict[tuple[str, str], str] = {}
    compiles, wall = table["compile_ps"].to_numpy() > 0, table["wall_ps"].to_numpy()
    for members in series(table):
        note = []
        often = int(compiles[members].sum())
        if 2 * often > len(members) > 1:
            note.append(f"a compiler ran in {often} of {len(members)} steps, so that these count")
        else:
            for place in members[compiles[members]]:
                reasons[place] = "compiles"
        remaining = members[[reasons[place] is None for place in members]]
        for place in remaining[: _first_ordinary(wall[remaining])]:
            reasons[place] = "warm-up"
        if all(reasons[place] for place in members):
            listed_reasons = " or ".join(dict.fromkeys(str(reasons[place]) for place in members))
            note.append(f"each would be left out ({listed_reasons}), so that all count")
            for place in members:
                reasons[place] = None
        if note:
            first = int(members[0])
            notes[str(table["clock"].iloc[first]), str(table["name"].iloc[first])] = "; ".join(note)
    return reasons, notes


def _first_ordinary(wall: NDArray[np.int64]) -> int:
    """The place of the first wall that is no outlier to the long side."""
    if len(wall) == 0:
        return 0
    slow = outliers(wall) & (wall > float(np.median(wall)))
    return int(np.argmin(np.append(slow, False)))


def _cut_steps(rows: Rows, table: pd.DataFrame, number: NDArray[np.int64]) -> list[int]:
    """The steps at the edges of each clock's steps that lack rows of a device, or marks of a host."""
    usual = np.zeros(number.shape)
    for members in series(table):
        if len(members) > 2:
            usual[:, members] = np.median(number[:, members], axis=1, keepdims=True)
    usual[~np.array(rows.placed)] = 0
    hosts = table["hosts"].to_numpy(np.int64, na_value=0)
    lacks_rows: NDArray[np.bool_] = np.any(number < _CUT_BELOW * usual, axis=0)
    annotated = table["hosts"].notna().to_numpy(bool)
    cut_steps: list[int] = []
    for _, clock_steps in table.groupby("clock", sort=False):
        places = clock_steps.index.to_numpy(np.int64)
        unmarked: NDArray[np.bool_] = hosts[places] < int(hosts[places].max())
        whole_starts = np.flatnonzero(~(unmarked | lacks_rows[places] & ~annotated[places]))
        whole_ends = np.flatnonzero(~(unmarked | lacks_rows[places]))
        if len(whole_starts) and len(whole_ends):
            cut_steps += [*places[: whole_starts[0]].tolist(), *places[whole_ends[-1] + 1 :].tolist()]
    return cut_steps
