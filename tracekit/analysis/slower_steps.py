"""Steps that take longer and longer while a run goes on: a device that lowers its clocks, data that grows."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.analysis.steps import ALL_DEVICES, PARTS, Steps, blame, series
from tracekit.columns import frame

SLOWER_COLUMNS = {
    "clock": "str",
    "name": "str",
    "steps": "int64",
    "first_ps": "int64",
    "last_ps": "int64",
    "excess_ps": "int64",
    "devices": "int64",
    "part": "str",
    "device": "str",
    "grown_ps": "int64",
    "same_events": "bool",
}
# Thirds of fewer steps are too few to be told from chance.
FEWEST = 12
# The last third must take so much longer than the first, and so many of all pairs of a step of each must say so: the
# probability of superiority (Vargha and Delaney 2000, https://doi.org/10.3102/10769986025002101), which steps that
# alternate or scatter do not reach.
_GREW, _SUPERIOR = 1.05, 0.9


def slower_steps(steps: Steps) -> pd.DataFrame:
    """One row (SLOWER_COLUMNS) per clock and name whose `steps`, those that count, get slower.

    They do where the median of their last third is longer than that of the first by 5 % or more, that of the middle one
    lies between, and nine of ten pairs of a step of the first and one of the last third agree. `first_ps`, `last_ps`:
    these medians; `excess_ps`: how much longer the last two thirds took, by their medians, than if they had been like
    the first, on each of the `devices` that worked in them. The `part` (PARTS) grew most, on `device`, or ALL_DEVICES
    where it did on each by half of what the steps did, by `grown_ps`; `same_events`: whether there each third has as
    many events a step.
    """
    table, found = steps.table, []
    # Outliers too: of a run that is slow from two thirds on, all steps behind are some; medians heed no single ones.
    counts = table["left_out"].isna().to_numpy(bool)
    for members in series(table):
        members = members[counts[members]]
        members = members[np.argsort(table["start_ps"].to_numpy()[members], kind="stable")]
        thirds = np.array_split(members, 3)
        wall = table["wall_ps"].to_numpy()
        first, middle, last = (float(np.median(wall[third])) if len(third) else 0.0 for third in thirds)
        if len(members) < FEWEST or not first <= middle <= last or last < _GREW * first:
            continue
        if _superiority(wall[thirds[0]], wall[thirds[2]]) < _SUPERIOR:
            continue
        works = steps.by_device["place"].isin(members).to_numpy(bool) & (steps.by_device["rows"] > 0).to_numpy(bool)
        if not works.any():
            continue
        excess = sum(len(third) * (median - first) for third, median in zip(thirds, (first, middle, last), strict=True))
        about = table.iloc[members[0]]
        found.append(
            {
                "clock": about["clock"],
                "name": about["name"],
                "steps": len(members),
                "first_ps": round(first),
                "last_ps": round(last),
                "excess_ps": round(excess),
                **_grown(steps.by_device, thirds[0], thirds[2], last - first),
            }
        )
    return frame(SLOWER_COLUMNS, pd.DataFrame(found, columns=list(SLOWER_COLUMNS)))


def _superiority(first: NDArray[np.int64], last: NDArray[np.int64]) -> float:
    """The share of the pairs of one of each in which that of the last is larger, half of those that are equal."""
    first = np.sort(first)
    below, up_to = (np.searchsorted(first, last, side=side).sum() for side in ("left", "right"))
    return float(below + up_to) / (2 * len(first) * len(last))


def _grown(
    by_device: pd.DataFrame, first: NDArray[np.int64], last: NDArray[np.int64], grown_ps: float
) -> dict[str, object]:
    """The columns of SLOWER_COLUMNS from `devices` on, of steps whose `last` take `grown_ps` longer than the `first`.

    The part and the device are those to `blame` as for a single slow step.
    """
    of_steps = by_device[by_device["place"].isin(np.append(first, last))]
    is_last = of_steps["place"].isin(last).to_numpy()
    parts = pd.DataFrame({part: of_steps[cells].sum(axis=1) for part, cells in PARTS.items()})
    parts["rows"] = of_steps["rows"]
    middle = parts.groupby([of_steps["device"], is_last], sort=False).median().unstack()
    middle = middle.loc[np.atleast_1d(np.asarray(middle["rows"] > 0, bool).any(axis=1))]
    devices = list(map(str, middle.index))
    growth = np.stack([(middle[part][True] - middle[part][False]).to_numpy(np.float64) for part in PARTS])
    device, part, most = blame(growth, devices, grown_ps / 2)
    rows = middle["rows"].loc[devices if device == ALL_DEVICES else [device]]
    return {
        "devices": len(devices),
        "part": part,
        "device": device,
        "grown_ps": most,
        "same_events": bool((rows[True] == rows[False]).all()),
    }
