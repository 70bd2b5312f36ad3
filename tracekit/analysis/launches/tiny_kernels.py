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


def tiny_kernels(
    rows: Rows,
    device: int,
    work: Work,
    rows_of_launch: NDArray[np.int64],
    interval: NDArray[np.int64],
    windows: Intervals,
) -> tuple[tuple[NDArray[np.int64], ...], tuple[Any, ...]]:
    """The kernels of a device that are shorter than the host needs to launch one: the code of the name, the time and
    the cost of each, and the device's row of `tiny_by_device`.

    Only kernels with a launch of their own count (`rows_of_launch`: rows of each launch). Each costs the part of the
    idle interval that it ends in which it was not launched yet, but no more than one distance of launches: that is what
    not launching it would save at most.
    """
    start = int(rows.first[device])
    # The kernel that ends a gap costs the host's part of it.
    host_gap = np.zeros(int(rows.first[device + 1]) - start, np.int64)
    kernels = np.flatnonzero((rows.kind[work.row] == CODE[Kind.COMPUTE]) & (rows_of_launch[work.launch] == 1))
    row, launch_interval = work.row[kernels], interval[work.launch[kernels]]
    length = rows.end[row] - rows.start[row]
    is_tiny = np.flatnonzero(length < launch_interval)
    call_time = np.full(len(host_gap), np.iinfo(np.int64).min)
    call_time[row[is_tiny] - start] = work.call_time[kernels[is_tiny]]
    begin = rows.end[work.before]
    host_part = np.minimum(np.maximum(call_time[work.after - start], begin), rows.start[work.after]) - begin
    if len(windows) > 1:
        host_part = iv.within(windows, iv.intervals(begin, begin + host_part))
    host_gap[work.after - start] = host_part
    row, length = row[is_tiny], length[is_tiny]
    cost = np.minimum(host_gap[row - start], launch_interval[is_tiny])
    total, span = iv.sum_exactly(cost), iv.total(windows)
    share = len(is_tiny) / len(kernels) if len(kernels) else None
    times = iv.sum_exactly(length), total, total / span if span else None
    return (rows.codes("name")[row], length, cost), (rows.devices[device], len(is_tiny), share, *times)


def costs_by_name(rows: Rows, tiny: Sequence[tuple[NDArray[np.int64], ...]]) -> list[tuple[Any, ...]]:
    """The kernels that `tiny` found, by name, the costliest first."""
    no_values = np.empty(0, np.int64)
    code, time, cost = (np.concatenate(columns) for columns in zip((no_values,) * 3, *tiny, strict=True))
    labels = rows.labels("name")
    count = np.bincount(code, minlength=len(labels))
    codes = np.flatnonzero(count)
    group = (np.cumsum(count > 0) - 1)[code]
    sums = iv.sums(time, group, len(codes)), iv.sums(cost, group, len(codes))
    table = [
        (labels[code], int(count[code]), time_ps, cost_ps)
        for code, time_ps, cost_ps in zip(codes.tolist(), *sums, strict=True)
    ]
    return sorted(table, key=lambda entry: (-entry[3], -entry[2], entry[0]))
