"""What a device did in each of many windows: the cells of the partition, exactly."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.intervals import Intervals
from tracekit.timeline.unions import COLLECTIVE, COMPUTE, MEMORY, DeviceUnions


@dataclass(frozen=True)
class TimeSpent:
    """What a device did in w windows, in ps: `cells` (8, w) by code, which sum to each window's length."""

    cells: NDArray[np.int64]

    @property
    def busy(self) -> NDArray[np.int64]:
        """Every cell but idle, shape (w,)."""
        return _total(self.cells[1:])

    def of(self, kinds: int) -> NDArray[np.int64]:
        """The time of all of `kinds` (a sum of codes) at once, with others or not, shape (w,)."""
        return _total(self.cells[[code for code in range(8) if code & kinds == kinds]])

    @property
    def exposed_collective(self) -> NDArray[np.int64]:
        """Collectives without compute, shape (w,)."""
        return self.of(COLLECTIVE) - self.of(COLLECTIVE | COMPUTE)

    @property
    def exposed_memory(self) -> NDArray[np.int64]:
        """Copies and memsets with nothing beside them, shape (w,)."""
        return _total(self.cells[[MEMORY]])


def time_spent(device: DeviceUnions, windows: Intervals) -> TimeSpent:
    """The cells of `device` in each row of `windows` (w, 2), start <= end; windows may overlap.

    Before its first and after its last work a device is idle. That the cells sum to the windows, and those but idle to
    the device's busy time in them, is checked here.
    """
    edges, code = device.cells
    cells = np.zeros((8, len(windows)), np.int64)
    if len(code):
        points = np.clip(windows, edges[0], edges[-1])
        cell = np.minimum(np.searchsorted(edges, points, side="right"), len(code)) - 1
        past = points - edges[cell]
        for cell_code in range(len(cells)):
            cells_of_code = np.flatnonzero(code == cell_code)
            # Up to each point: the cells of this code that end before it, and what is past of the one that holds it.
            ended_ps = np.append(0, np.cumsum(edges[cells_of_code + 1] - edges[cells_of_code]))
            elapsed = ended_ps[np.searchsorted(cells_of_code, cell)] + np.where(code[cell] == cell_code, past, 0)
            cells[cell_code] = elapsed[:, 1] - elapsed[:, 0]
    outside_ps = windows[:, 1] - windows[:, 0] - _total(cells)
    cells[0] += outside_ps
    spent_time = TimeSpent(cells)
    if (outside_ps < 0).any() or (spent_time.busy != iv.within(device.busy, windows)).any():
        raise AssertionError("the cells of a device do not sum to its busy time in the windows")
    return spent_time


def _total(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    summed: NDArray[np.int64] = cells.sum(axis=0)
    return summed
