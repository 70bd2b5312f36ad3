"""Kernels that are shorter than the host needs to launch one, and what they cost."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.analysis.launches.work import Work
from tracekit.intervals import Intervals
from tracekit.timeline.rows import CODE, Rows
from tracekit.vocabulary.kinds import Kind


def tiny(
    rows: Rows,
    device: int,
    work: Work,
    counts: NDArray[np.int64],
    interval: NDArray[np.int64],
    inside: Intervals,
) -> tuple[tuple[NDArray[np.int64], ...], tuple[Any, ...]]:
    """The kernels of a device that are shorter than the host needs to launch one: the code of the name, the time and
    the cost of each, and the device's row of `tiny_by_device`.

    Only kernels with a launch of their own count (`counts`: rows of each launch). Each costs the part of the idle
    interval that it ends in which it was not launched yet, but no more than one distance of launches: that is what not
    launching it would save at most.
    """
    start = int(rows.first[device])
    # The kernel that ends a gap costs the host's part of it.
    lost = np.zeros(int(rows.first[device + 1]) - start, np.int64)
    kernels = np.flatnonzero((rows.kind[work.row] == CODE[Kind.COMPUTE]) & (counts[work.launch] == 1))
    row, least = work.row[kernels], interval[work.launch[kernels]]
    lasted = rows.end[row] - rows.start[row]
    short = np.flatnonzero(lasted < least)
    called = np.full(len(lost), np.iinfo(np.int64).min)
    called[row[short] - start] = work.called[kernels[short]]
    begin = rows.end[work.before]
    late = np.minimum(np.maximum(called[work.after - start], begin), rows.start[work.after]) - begin
    if len(inside) > 1:
        late = iv.within(inside, iv.intervals(begin, begin + late))
    lost[work.after - start] = late
    row, lasted = row[short], lasted[short]
    cost = np.minimum(lost[row - start], least[short])
    total, span = iv.sum_exactly(cost), iv.total(inside)
    share = len(short) / len(kernels) if len(kernels) else None
    times = iv.sum_exactly(lasted), total, total / span if span else None
    return (rows.codes("name")[row], lasted, cost), (rows.devices[device], len(short), share, *times)


def by_name(rows: Rows, tiny: Sequence[tuple[NDArray[np.int64], ...]]) -> list[tuple[Any, ...]]:
    """The kernels that `tiny` found, by name, the costliest first."""
    empty = np.empty(0, np.int64)
    code, time, cost = (np.concatenate(columns) for columns in zip((empty,) * 3, *tiny, strict=True))
    labels = rows.labels("name")
    count = np.bincount(code, minlength=len(labels))
    some = np.flatnonzero(count)
    which = (np.cumsum(count > 0) - 1)[code]
    sums = iv.sums(time, which, len(some)), iv.sums(cost, which, len(some))
    table = [(labels[one], int(count[one]), spent, lost) for one, spent, lost in zip(some.tolist(), *sums, strict=True)]
    return sorted(table, key=lambda one: (-one[3], -one[2], one[0]))
