"""Which launch started which row of a device."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.rows import Rows


def launch_of(rows: Rows, launches: pd.DataFrame) -> NDArray[np.int64]:
    """The launch that started each row: the place in `launches` of the earliest call with its host and correlation id.

    Shape (len(rows),); -1 where the row has no id or no call has it. One call may start several rows (a CUDA graph).
    """
    found = np.full(len(rows), -1)
    ids, has_id = rows.numbers("correlation_id")
    called = launches["correlation_id"].notna().to_numpy(bool)
    call_ids = launches["correlation_id"].to_numpy(np.int64, na_value=0)
    starts = launches["start_ps"].to_numpy()
    host_of_row, host_of_call = rows.codes("host"), launches["host"].cat.codes.to_numpy()
    names = {str(name): code for code, name in enumerate(rows.events["host"].cat.categories)}
    for code, host in enumerate(launches["host"].cat.categories):
        calls = np.flatnonzero((host_of_call == code) & called)
        mine = np.flatnonzero((host_of_row == names.get(str(host), -2)) & has_id)
        if len(calls) == 0 or len(mine) == 0:
            continue
        # The earliest first among equal ids.
        calls = calls[np.lexsort((starts[calls], call_ids[calls]))]
        known = call_ids[calls]
        at = np.searchsorted(known, ids[mine])
        hit = (at < len(known)) & (known[np.minimum(at, len(known) - 1)] == ids[mine])
        found[mine[hit]] = calls[at[hit]]
    return found
