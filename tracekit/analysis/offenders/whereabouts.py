"""Where in the program some times of a device are: their step, their source line, and who came last."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.timeline.rows import Rows


@dataclass(frozen=True)
class Spots:
    """Rows or idle gaps of devices, as columns of shape (n,); times in ps.

    `device` is its number in Rows, `row` the place in Rows, -1 for a gap; `after` the place in the events of the work
    that came after a gap, else -1.
    """

    device: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    row: NDArray[np.int64]
    after: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.device)


def _picked(column: pd.Series, at: NDArray[np.int64]) -> NDArray[Any]:
    """The values at these places; None where null or the place is -1."""
    if not len(column):
        return np.full(len(at), None)
    values: NDArray[Any] = column.iloc[np.maximum(at, 0)].astype(object).to_numpy(copy=True)
    values[(at < 0) | pd.isna(values)] = None
    return values


def where(spots: Spots, rows: Rows, step_table: pd.DataFrame, ops: pd.DataFrame) -> dict[str, Any]:
    """The columns step, source, framework_op, next and bytes of each, null where not known.

    `step_table` has the columns clock, step, name, start_ps and end_ps; `ops` OP_COLUMNS. The source of a gap is that
    of the work after it, whose name (of the HLO op, or else of the kernel) is `next`.
    """
    work, event = spots.row >= 0, spots.after.copy()
    event[work] = rows.at[spots.row[work]]
    op = np.array([-1 if one is None else one for one in _picked(rows.events["op"], event)], np.int64)
    after = np.where(work, -1, event)
    hlo_op, name = _picked(rows.events["hlo_op"], after), _picked(rows.events["name"], after)
    return {
        "step": _step(spots, rows, step_table),
        "source": _picked(ops["source"], op),
        "framework_op": _picked(ops["framework_op"], op),
        "next": [one or other for one, other in zip(hlo_op, name, strict=True)],
        "bytes": pd.array(_picked(rows.events["bytes"], np.where(work, event, -1)), "Int64"),
    }


def _step(spots: Spots, rows: Rows, step_table: pd.DataFrame) -> list[str | None]:
    """The number of the step in which each starts, or its name if it has none; of steps within steps the last begun."""
    found: list[str | None] = [None] * len(spots)
    clock = step_table["clock"].fillna("").to_numpy(object)
    label = step_table["step"].astype(object).where(step_table["step"].notna(), step_table["name"]).to_numpy(object)
    begun, done = step_table["start_ps"].to_numpy(np.int64), step_table["end_ps"].to_numpy(np.int64)
    for one in set(clock):
        steps = np.flatnonzero(clock == one)
        steps = steps[np.argsort(begun[steps], kind="stable")]
        at = np.searchsorted(begun[steps], spots.start, side="right") - 1
        for place in np.flatnonzero(at >= 0).tolist():
            step = steps[at[place]]
            if rows.clocks[spots.device[place]] == one and spots.start[place] < done[step]:
                found[place] = str(label[step])
    return found


def last_arriver(spots: Spots, collectives_table: pd.DataFrame, instance: NDArray[np.int64]) -> dict[str, Any]:
    """The columns last, the device that came last to each collective, and wait_ps, how long it was waited for there.

    `instance` (n rows,) is each row's `instance` in `collectives_table`, -1 for none. Both are null for all else.
    """
    none: NDArray[Any] = np.full(len(spots), None)
    if not len(collectives_table):
        return {"last": none, "wait_ps": pd.array(none, "Int64")}
    numbers = collectives_table["instance"].to_numpy(np.int64)
    order = np.argsort(numbers)
    mine = np.where(spots.row >= 0, instance[np.maximum(spots.row, 0)], -1)
    at = np.searchsorted(numbers[order], mine)
    at = np.where(np.isin(mine, numbers), order[np.minimum(at, len(order) - 1)], -1)
    late = _picked(collectives_table["last_start_ps"], at)
    waits = [
        None if last is None else max(0, min(last, int(end)) - int(start))
        for last, start, end in zip(late, spots.start, spots.end, strict=True)
    ]
    return {"last": _picked(collectives_table["last"], at), "wait_ps": pd.array(waits, "Int64")}
