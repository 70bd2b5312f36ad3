"""How long each device waited in each collective, and for whom."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.timeline.rows import Rows

Column = NDArray[np.int64]


@dataclass(frozen=True)
class Waits:
    """The c rows of collectives by instance, then device; columns have shape (c,) unless said, times are in ps.

    `at` is the place of each in Rows. `first` (m,) is where the rows of each of the m instances begin, `size` how many
    the row's instance has. `wait` is the time from the row's own start to `last_start`, the last start in its instance,
    or to its own end where the device left before. `late` tells the rows that started last, `lates` how many those are.
    """

    at: Column
    first: Column
    size: Column
    device: Column
    start: Column
    end: Column
    last_start: Column
    wait: Column
    late: NDArray[np.bool_]
    lates: Column

    def __len__(self) -> int:
        return len(self.at)

    def over(self, function: np.ufunc, values: Column) -> Column:
        """`function` over the values (c,) of each instance, shape (m,)."""
        reduced: Column = function.reduceat(values, self.first)
        return reduced

    def each(self, values: NDArray[Any]) -> NDArray[Any]:
        """The value (m,) of its instance for every row."""
        return np.repeat(values, self.size[self.first])

    def cost(self, waits: Column) -> Column:
        """What the lateness of each row cost its instance: `waits` (c,), summed, for the row that started last.

        Rows that started last together share the sum equally, the first of them the odd picoseconds. So the costs are
        the waits, exactly.
        """
        sums = self.each(self.over(np.add, waits))
        lates_before: Column = np.cumsum(self.late) - self.late
        turn = lates_before - self.each(lates_before[self.first])
        return np.where(self.late, sums // self.lates + (turn < sums % self.lates), 0)


def waits(rows: Rows, instance: Column) -> Waits:
    """The waits in the collectives `instance` (len(rows),), -1 for rows that are none; at least one row is one."""
    at = np.flatnonzero(instance >= 0)
    order = np.argsort(instance[at], kind="stable")
    at = at[order]
    first = np.flatnonzero(np.diff(instance[at], prepend=-1))
    sizes = np.diff(first, append=len(at))
    start, end = rows.start[at], rows.end[at]
    last_start = np.repeat(np.maximum.reduceat(start, first), sizes)
    late = start == last_start
    return Waits(
        at=at,
        first=first,
        size=np.repeat(sizes, sizes),
        device=rows.device[at],
        start=start,
        end=end,
        last_start=last_start,
        wait=np.minimum(last_start, end) - start,
        late=late,
        lates=np.repeat(np.add.reduceat(late.astype(np.int64), first), sizes),
    )
