"""Which launch started which row of a device."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.timeline.rows import Rows


def launch_of(rows: Rows, launches: pd.DataFrame) -> NDArray[np.int64]:
    """The launch that started each row: the place in `launches` of the earliest call with its host and correlation id.

    Shape (len(rows),); -1 where the row has no id or no call has it. One call may start several rows (a CUDA graph).
    """
    launch = np.full(len(rows), -1)
    ids, has_id = rows.numbers("correlation_id")
    has_call_id = launches["correlation_id"].notna().to_numpy(bool)
    call_ids = launches["correlation_id"].to_numpy(np.int64, na_value=0)
    starts = launches["start_ps"].to_numpy()
    host_of_row, host_of_call = rows.codes("host"), launches["host"].cat.codes.to_numpy()
    names = {str(name): code for code, name in enumerate(rows.events["host"].cat.categories)}
    for code, host in enumerate(launches["host"].cat.categories):
        calls = np.flatnonzero((host_of_call == code) & has_call_id)
        host_rows = np.flatnonzero((host_of_row == names.get(str(host), -2)) & has_id)
        if len(calls) == 0 or len(host_rows) == 0:
            continue
        launch[host_rows] = _of_id(calls, call_ids[calls], starts, ids[host_rows])
    return launch


def _of_id(
    calls: NDArray[np.int64], call_ids: NDArray[np.int64], starts: NDArray[np.int64], ids: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The call with each of `ids` (m,), the earliest of those with the same id, -1 for none."""
    low, high = int(call_ids.min()), int(call_ids.max())
    if high - low < 8 * len(calls):
        # Most profilers count their ids up: a table of them all is small, and needs no sorting.
        table = np.full(high - low + 2, -1)
        place = call_ids - low
        table[place] = calls
        if (table[place] == calls).all():  # no id stands twice
            return table[np.where((ids >= low) & (ids <= high), ids - low, -1)]
    order = np.lexsort((starts[calls], call_ids))
    calls, call_ids = calls[order], call_ids[order]
    index = np.minimum(np.searchsorted(call_ids, ids), len(calls) - 1)
    return np.where(call_ids[index] == ids, calls[index], -1)
