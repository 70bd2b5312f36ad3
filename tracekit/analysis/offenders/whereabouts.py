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


def _values_at(column: pd.Series, places: NDArray[np.int64]) -> NDArray[Any]:
    """The values at these places; None where null or the place is -1."""
    if not len(column):
        return np.full(len(places), None)
    values: NDArray[Any] = column.iloc[np.maximum(places, 0)].astype(object).to_numpy(copy=True)
    values[(places < 0) | pd.isna(values)] = None
    return values


def locate(spots: Spots, rows: Rows, step_table: pd.DataFrame, ops: pd.DataFrame) -> dict[str, Any]:
    """The columns step, source, framework_op, next and bytes of each, null where not known.

    `step_table` has the columns clock, step, name, start_ps and end_ps; `ops` OP_COLUMNS. The source of a gap is that
    of the work after it, whose name (of the HLO op, or else of the kernel) is `next`.
    """
    work, event = spots.row >= 0, spots.after.copy()
    event[work] = rows.at[spots.row[work]]
    op = np.array(
        [-1 if op_number is None else op_number for op_number in _values_at(rows.events["op"], event)], np.int64
    )
    next_event = np.where(work, -1, event)
    hlo_op, name = _values_at(rows.events["hlo_op"], next_event), _values_at(rows.events["name"], next_event)
    return {
        "step": _step(spots, rows, step_table),
        "source": _values_at(ops["source"], op),
        "framework_op": _values_at(ops["framework_op"], op),
        "next": [hlo_name or kernel_name for hlo_name, kernel_name in zip(hlo_op, name, strict=True)],
        "bytes": pd.array(_values_at(rows.events["bytes"], np.where(work, event, -1)), "Int64"),
    }


def _step(spots: Spots, rows: Rows, step_table: pd.DataFrame) -> list[str | None]:
    """The number of the step in which each starts, or its name if it has none; of steps within steps the last begun."""
    step_names: list[str | None] = [None] * len(spots)
    clock = step_table["clock"].fillna("").to_numpy(object)
    label = step_table["step"].astype(object).where(step_table["step"].notna(), step_table["name"]).to_numpy(object)
    step_starts, step_ends = step_table["start_ps"].to_numpy(np.int64), step_table["end_ps"].to_numpy(np.int64)
    for clock_name in set(clock):
        steps = np.flatnonzero(clock == clock_name)
        steps = steps[np.argsort(step_starts[steps], kind="stable")]
        last_start = np.searchsorted(step_starts[steps], spots.start, side="right") - 1
        for place in np.flatnonzero(last_start >= 0).tolist():
            step = steps[last_start[place]]
            if rows.clocks[spots.device[place]] == clock_name and spots.start[place] < step_ends[step]:
                step_names[place] = str(label[step])
    return step_names


def last_arriver(spots: Spots, collectives_table: pd.DataFrame, instance: NDArray[np.int64]) -> dict[str, Any]:
    """The columns last, the device that came last to each collective, and wait_ps, how long it was waited for there.

    `instance` (n rows,) is each row's `instance` in `collectives_table`, -1 for none. Both are null for all else.
    """
    nulls: NDArray[Any] = np.full(len(spots), None)
    if not len(collectives_table):
        return {"last": nulls, "wait_ps": pd.array(nulls, "Int64")}
    numbers = collectives_table["instance"].to_numpy(np.int64)
    order = np.argsort(numbers)
    instances = np.where(spots.row >= 0, instance[np.maximum(spots.row, 0)], -1)
    table_rows = np.searchsorted(numbers[order], instances)
    table_rows = np.where(np.isin(instances, numbers), order[np.minimum(table_rows, len(order) - 1)], -1)
    last_starts = _values_at(collectives_table["last_start_ps"], table_rows)
    waits = [
        None if last_start is None else max(0, min(last_start, int(end)) - int(start))
        for last_start, start, end in zip(last_starts, spots.start, spots.end, strict=True)
    ]
    return {"last": _values_at(collectives_table["last"], table_rows), "wait_ps": pd.array(waits, "Int64")}
