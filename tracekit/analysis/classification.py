"""How the kind of the work is known: what told it for which share of the busy time, and which names were guessed."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.jit import loop
from tracekit.timeline.rows import Rows
from tracekit.timeline.timeline import Source, timeline_of
from tracekit.trace import KIND_DTYPE
from tracekit.vocabulary.kinds import KnownBy

# The most trustworthy first; from NAME on a kind is a guess.
LEVELS = tuple(KnownBy)
_GUESS = LEVELS.index(KnownBy.NAME)
_NUMBER = re.compile(r"(?<=[^.])(\.\d+)+$")


def known_by(source: Source) -> pd.DataFrame:
    """For how much of the busy time each level told what ran.

    One row per level in LEVELS: `level`, `busy_ps` (Python int) and `ratio`, its share of the busy times of all
    devices, null if there are none. Time in which rows of several levels ran on one device counts for the least
    trustworthy of them, so no share overstates what is known, and the levels sum to the busy time exactly. A row whose
    known_by is null or no level counts as NOTHING. Rows on unknown devices (`cpu:?`) count in no busy time.
    """
    rows = timeline_of(source).rows
    told = _told(rows)
    busy: list[int] = []
    for level in reversed(range(len(LEVELS))):
        # What ran at this level or at one less trustworthy, less what ran at those alone.
        busy.append(_busy(rows, told >= level) - sum(busy) if (told == level).any() else 0)
    return _table({"level": [level.value for level in LEVELS], "busy_ps": busy[::-1]}, sum(busy))


def guessed(source: Source) -> pd.DataFrame:
    """The names whose kind was read from the name, or taken for compute since nothing told it; the longest first.

    One row per name (without the number that XLA gives it: `fusion.17` is `fusion`), kind and level (NAME or NOTHING):
    `name`, `kind`, `level`, `intervals` (how many), `device_time_ps` (the union of its intervals on each device, summed
    over the devices; Python int) and `ratio`, device_time_ps over the busy times of all devices. Names that run at once
    share that time, so the ratios may sum to more than 1.
    """
    rows = timeline_of(source).rows
    told = _told(rows)
    guess = told >= _GUESS
    kinds = KIND_DTYPE.categories
    name_of, names = pd.factorize(np.array([_NUMBER.sub("", name) for name in rows.labels("name")], object))
    what = name_of[rows.codes("name")[guess]] * len(kinds)
    what = (what + rows.kind[guess]) * len(LEVELS) + told[guess]
    which, found = pd.factorize(what)
    rest, level = np.divmod(found, len(LEVELS))
    name, kind = np.divmod(rest, len(kinds))
    group = np.full(len(rows), -1)
    group[guess] = which
    table = _table(
        {
            "name": names[name],
            "kind": kinds.to_numpy(object)[kind],
            "level": np.array([level.value for level in LEVELS], object)[level],
            "intervals": np.bincount(which, minlength=len(found)),
            "device_time_ps": _times(rows, group, len(found)),
        },
        _busy(rows, told >= 0),
    )
    return table.sort_values(["device_time_ps", "name"], ascending=[False, True], ignore_index=True)


def _told(rows: Rows) -> NDArray[np.int64]:
    """The level that told each row's kind, a place in LEVELS, -1 on unknown devices; (n,)."""
    level = [
        LEVELS.index(KnownBy(name)) if name in list(LEVELS) else len(LEVELS) - 1 for name in rows.labels("known_by")
    ]
    told = np.array([*level, len(LEVELS) - 1])[rows.codes("known_by")]
    return told if all(rows.placed) else np.where(np.array(rows.placed)[rows.device], told, -1)


def _busy(rows: Rows, held: NDArray[np.bool_]) -> int:
    """The unions of the held rows on each device, summed over the devices, in ps."""
    (busy,) = _times(rows, held - 1, 1)
    return busy


def _times(rows: Rows, group: NDArray[np.int64], groups: int) -> list[int]:
    """The unions of the rows of each group on each device, summed over the devices, in ps; -1 is no group."""
    high, low = loop(union_times, len(rows))(rows.device, rows.start, rows.end, group, groups)
    return [(a << 32) + b for a, b in zip(high.tolist(), low.tolist(), strict=True)]


def union_times(
    device: NDArray[np.int64],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    group: NDArray[np.int64],
    groups: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The unions of the rows of each group on each device, summed over the devices: 2**32 ps and the rest, (groups,).

    Rows stand by device and start; those of group -1 do not count.
    """
    high, low = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    reach, on = np.zeros(groups, np.int64), np.full(groups, -1, np.int64)
    for row in range(len(group)):
        one = group[row]
        if one < 0:
            continue
        if on[one] != device[row]:
            on[one], reach[one] = device[row], start[row]
        added = end[row] - max(start[row], reach[one])
        if added > 0:
            high[one] += added >> 32
            low[one] += added & 0xFFFFFFFF
            reach[one] = end[row]
    return high, low


def _table(columns: Mapping[str, Any], whole: int) -> pd.DataFrame:
    """A frame of the columns, the last of them a time in Python ints, and `ratio`, that time over the `whole`."""
    *_, time = columns
    made = pd.DataFrame({**columns, time: pd.Series(columns[time], dtype=object)})
    made["ratio"] = pd.array([part / whole if whole else None for part in columns[time]], "Float64")
    return made.astype({column: "str" for column in ("name", "kind", "level") if column in made})
