"""Where a device stood idle between two of its rows."""

import numpy as np
from numpy.typing import NDArray

from tracekit.timeline.rows import Rows


def gaps(rows: Rows, device: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows around each idle interval between a device's first start and last end: `before` and `after`, both (m,).

    Device number `device` was idle from rows.end[before] to rows.start[after], and at no other time in between; both
    are places in `rows`, rising. `before` ended last of all rows until then. Rows that last no time end no gap.
    """
    places = np.arange(int(rows.first[device]), int(rows.first[device + 1]))
    start, end = rows.start[rows.of(device)], rows.end[rows.of(device)]
    lasting = end > start
    if not lasting.all():
        places, start, end = places[lasting], start[lasting], end[lasting]
    reach = np.maximum.accumulate(end)
    after = np.flatnonzero(start[1:] > reach[:-1]) + 1
    if len(after) == 0:
        return places[after], places[after]
    # The latest row that reached as far as any before it.
    furthest = np.flatnonzero(end == reach)
    before = furthest[np.searchsorted(furthest, after) - 1]
    return places[before], places[after]
