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
    rows: Rows, seen: Unions, device: NDArray[np.int64], parts: Intervals, owner: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many other devices are on the clock of each `device` (n,), and the sum of their busy times in its parts.

    Row i of `parts` belongs to n = `owner[i]`; the parts of one are disjoint. Both results have shape (n,), in ps.
    """
    others, busy = np.zeros(len(device), np.int64), np.zeros(len(device), np.int64)
    clock = np.unique(np.array(rows.clocks, object).astype(str), return_inverse=True)[1]
    for number, name in enumerate(rows.devices):
        if name not in seen.devices:
            continue
        beside = (clock[device] == clock[number]) & (device != number)
        others += beside
        theirs = np.flatnonzero(beside[owner])
        np.add.at(busy, owner[theirs], iv.within(seen.devices[name].busy, parts[theirs]))
    return others, busy


def busiest_names(
    rows: Rows, seen: Unions, device: NDArray[np.int64], parts: Intervals, owner: NDArray[np.int64]
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
        if name not in seen.devices:
            continue
        mine = rows.of(number)
        reach = np.maximum.accumulate(rows.end[mine])
        for one, beside in enumerate(device.tolist()):
            held = parts[first[one] : first[one + 1]]
            if beside == number or rows.clocks[beside] != rows.clocks[number] or not len(held):
                continue
            # Rows before these have all ended, rows after them have not begun.
            begin = np.searchsorted(reach, held[0, 0], side="right")
            at = mine.start + np.arange(begin, np.searchsorted(rows.start[mine], held[-1, 1], side="left"))
            label = np.where(op_of[at] >= 0, op_of[at], len(labels) - len(rows.labels("name")) + name_of[at])
            which, found = np.unique(label, return_inverse=True)
            length = np.zeros(len(which), np.int64)
            np.add.at(length, found, iv.within(held, iv.intervals(rows.start[at], rows.end[at])))
            for code, ps in zip(which.tolist(), length.tolist(), strict=True):
                what = stem(labels[code])
                time[one][what] = time[one].get(what, 0) + ps
    best = [min(names.items(), key=lambda item: (-item[1], item[0]), default=("", 0)) for names in time]
    return [name if ps else None for name, ps in best]
