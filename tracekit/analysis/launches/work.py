"""What launches started on a device."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Work:
    """The first row of each launch on one device, by start, each column (m,): its place in Rows, when it started, and
    its launch with its begin; and the rows around each gap of the device (idleness.gaps)."""

    row: NDArray[np.int64]
    start: NDArray[np.int64]
    launch: NDArray[np.int64]
    call_time: NDArray[np.int64]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
