"""What the other devices did at some times of a device."""

import re

import numpy as np
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.intervals import Intervals
from tracekit.timeline.rows import Rows
from tracekit.timeline.unions import Unions

_NUMBER = re.compile(r"(?<=[^.])(\.\d+)+$")


def stem(name: str) -> str:
    """An op's name without the number that XLA gives it: `fusion` of `fusion.17`."""
    return _NUMBER.sub("", name)


def others_busy(
    rows: Rows, unions: Unions, device: NDArray[np.int64], parts: Intervals, owner: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many other devices are on the clock of each `device` (n,), and the sum of their busy times in its parts.

    Row i of `parts` belongs to n = `owner[i]`; the parts of one are disjoint. Both results have shape (n,), in ps.
    """
    other_count, busy_ps = np.zeros(len(device), np.int64), np.zeros(len(device), np.int64)
    clock = np.unique(np.array(rows.clocks, object).astype(str), return_inverse=True)[1]
    for number, name in enumerate(rows.devices):
        if name not in unions.devices:
            continue
        is_other = (clock[device] == clock[number]) & (device != number)
        other_count += is_other
        part_places = np.flatnonzero(is_other[owner])
        np.add.at(busy_ps, owner[part_places], iv.within(unions.devices[name].busy, parts[part_places]))
    return other_count, busy_ps


def busiest_names(
    rows: Rows, unions: Unions, device: NDArray[np.int64], parts: Intervals, owner: NDArray[np.int64]
) -> list[str | None]:
    """The name (stem of the HLO op, or else of the kernel) that ran longest on the other devices of each clock.

    As in `others_busy`, but `parts` stand by owner and start. A row of another device counts for what it holds of the
    parts, each row for itself; of equal names it is the first in the alphabet, None if there is none.
    """
    time: list[dict[str, int]] = [{} for _ in range(len(device))]
    labels = [*rows.labels("hlo_op"), *rows.labels("name")]
    op_of, name_of = rows.codes("hlo_op"), rows.codes("name")
    first = np.searchsorted(owner, np.arange(len(device) + 1))
    for number, name in enumerate(rows.devices):
        if name not in unions.devices:
            continue
        device_rows = rows.of(number)
        reach = np.maximum.accumulate(rows.end[device_rows])
        for place, other in enumerate(device.tolist()):
            own_parts = parts[first[place] : first[place + 1]]
            if other == number or rows.clocks[other] != rows.clocks[number] or not len(own_parts):
                continue
            # Rows before these have all ended, rows after them have not begun.
            begin = np.searchsorted(reach, own_parts[0, 0], side="right")
            rows_between = device_rows.start + np.arange(
                begin, np.searchsorted(rows.start[device_rows], own_parts[-1, 1], side="left")
            )
            label = np.where(
                op_of[rows_between] >= 0,
                op_of[rows_between],
                len(labels) - len(rows.labels("name")) + name_of[rows_between],
            )
            distinct_labels, label_of_row = np.unique(label, return_inverse=True)
            length = np.zeros(len(distinct_labels), np.int64)
            np.add.at(
                length,
                label_of_row,
                iv.within(own_parts, iv.intervals(rows.start[rows_between], rows.end[rows_between])),
            )
            for code, ps in zip(distinct_labels.tolist(), length.tolist(), strict=True):
                name_stem = stem(labels[code])
                time[place][name_stem] = time[place].get(name_stem, 0) + ps
    busiest = [min(names.items(), key=lambda item: (-item[1], item[0]), default=("", 0)) for names in time]
    return [name if ps else None for name, ps in busiest]
