"""How the kind of the work is known: what told it for which share of the busy time, and which names were guessed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.intervals import sum_exactly
from tracekit.kinds import KnownBy
from tracekit.trace import KIND_DTYPE, UNKNOWN_DEVICE_SUFFIX

# The most trustworthy first; from NAME on a kind is a guess.
LEVELS = tuple(KnownBy)
_GUESS = LEVELS.index(KnownBy.NAME)
_NUMBER = re.compile(r"(?<=[^.])(\.\d+)+$")


def known_by(events: pd.DataFrame) -> pd.DataFrame:
    """For how much of the busy time each level told what ran.

    One row per level in LEVELS: `level`, `busy_ps` (Python int) and `ratio`, its share of the busy times of all
    devices, null if there are none. Time in which rows of several levels ran on one device counts for the least
    trustworthy of them, so no share overstates what is known, and the levels sum to the busy time exactly. A row whose
    known_by is null or no level counts as NOTHING. Rows on unknown devices (`cpu:?`) count in no busy time.
    """
    rows = _rows(events)
    busy: list[int] = []
    for level in reversed(range(len(LEVELS))):
        # What ran at this level or at one less trustworthy, less what ran at those alone.
        busy.append(_busy(rows.take(rows.level >= level)) - sum(busy) if (rows.level == level).any() else 0)
    return _table({"level": [level.value for level in LEVELS], "busy_ps": busy[::-1]}, sum(busy))


def guessed(events: pd.DataFrame) -> pd.DataFrame:
    """The names whose kind was read from the name, or taken for compute since nothing told it; the longest first.

    One row per name (without the number that XLA gives it: `fusion.17` is `fusion`), kind and level (NAME or NOTHING):
    `name`, `kind`, `level`, `intervals` (how many), `device_time_ps` (the union of its intervals on each device, summed
    over the devices; Python int) and `ratio`, device_time_ps over the busy times of all devices. Names that run at once
    share that time, so the ratios may sum to more than 1.
    """
    rows = _rows(events)
    guesses = rows.take(rows.level >= _GUESS)
    kinds = KIND_DTYPE.categories
    name_of, names = pd.factorize(np.array([_NUMBER.sub("", name) for name in events["name"].cat.categories], object))
    what = name_of[events["name"].cat.codes.to_numpy()[guesses.at]] * len(kinds)
    what = (what + events["kind"].cat.codes.to_numpy()[guesses.at]) * len(LEVELS) + guesses.level
    which, found = pd.factorize(what)
    rest, level = np.divmod(found, len(LEVELS))
    name, kind = np.divmod(rest, len(kinds))
    # Stable, so the rows of one name on one device stay in order of start.
    order = _argsort(which)
    table = _table(
        {
            "name": names[name],
            "kind": kinds.to_numpy(object)[kind],
            "level": np.array([level.value for level in LEVELS], object)[level],
            "intervals": np.bincount(which, minlength=len(found)),
            "device_time_ps": _sums(which[order], _added(guesses.take(order), which[order]), len(found)),
        },
        _busy(rows),
    )
    return table.sort_values(["device_time_ps", "name"], ascending=[False, True], ignore_index=True)


@dataclass(frozen=True)
class _Rows:
    """Rows as columns of shape (n,); `at` is the place of each in the events frame."""

    at: NDArray[np.int64]
    device: NDArray[np.integer[Any]]
    level: NDArray[np.int8]
    start: NDArray[np.int64]
    end: NDArray[np.int64]

    def take(self, which: NDArray[Any]) -> "_Rows":
        if which.dtype == bool:
            if which.all():
                return self
            which = np.flatnonzero(which)
        return _Rows(self.at[which], self.device[which], self.level[which], self.start[which], self.end[which])


def _rows(events: pd.DataFrame) -> _Rows:
    """The rows on known devices, by device and start."""
    at = np.argsort(events["start_ps"].to_numpy(), kind="stable")
    at = at[_argsort(events["device"].cat.codes.to_numpy()[at])]
    device = events["device"].cat.codes.to_numpy()[at]
    told = events["known_by"].cat
    levels = [LEVELS.index(KnownBy(name)) if name in list(LEVELS) else len(LEVELS) - 1 for name in told.categories]
    level = np.array([*levels, len(LEVELS) - 1], np.int8)[told.codes.to_numpy()[at]]
    rows = _Rows(at, device, level, events["start_ps"].to_numpy()[at], events["end_ps"].to_numpy()[at])
    placed = [not str(name).endswith(UNKNOWN_DEVICE_SUFFIX) for name in events["device"].cat.categories]
    return rows if all(placed) else rows.take(np.array(placed)[device])


def _argsort(codes: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """A stable order of codes from 0 on; of at most two bytes, numpy finds it in linear time."""
    return np.argsort(codes.astype(np.min_scalar_type(codes.max(initial=0))), kind="stable")


def _busy(rows: _Rows) -> int:
    """The unions of the rows on each device, summed over the devices, in ps."""
    return sum_exactly(_added(rows))


def _added(rows: _Rows, which: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """What each row adds to the union of the rows before it of its device (and `which`), in ps, shape (n,).

    Rows that belong together stand together, in order of start; so the sum over them is the length of their union.
    """
    new = rows.device[1:] != rows.device[:-1]
    if which is not None:
        new |= which[1:] != which[:-1]
    before = np.concatenate([rows.start[:1], _reach(np.append(0, np.cumsum(new)), rows.end)[:-1]])
    before[1:][new] = rows.start[1:][new]
    added: NDArray[np.int64] = np.maximum(rows.end - np.maximum(rows.start, before), 0)
    return added


def _reach(group: NDArray[np.integer[Any]], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """The largest end so far in each row's group; equal groups stand together.

    Each pass doubles how far a row looks back; one that changes nothing is the last, mostly the first or second, since
    the ends of rows in order of start are nearly in order too.
    """
    reach, back = end.copy(), 1
    while back < len(end):
        earlier = np.where(group[back:] == group[:-back], reach[:-back], reach[back:])
        if (earlier <= reach[back:]).all():
            break
        reach[back:] = np.maximum(reach[back:], earlier)
        back *= 2
    return reach


def _sums(which: NDArray[np.int64], lengths: NDArray[np.int64], count: int) -> list[int]:
    """The sum of the lengths of each group 0..count-1, without overflow."""
    high, low = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.add.at(high, which, lengths >> 32)
    np.add.at(low, which, lengths & 0xFFFFFFFF)
    return [(int(a) << 32) + int(b) for a, b in zip(high, low, strict=True)]


def _table(columns: Mapping[str, Any], whole: int) -> pd.DataFrame:
    """A frame of the columns, the last of them a time in Python ints, and `ratio`, that time over the `whole`."""
    *_, time = columns
    made = pd.DataFrame({**columns, time: pd.Series(columns[time], dtype=object)})
    made["ratio"] = pd.array([part / whole if whole else None for part in columns[time]], "Float64")
    return made.astype({column: "str" for column in ("name", "kind", "level") if column in made})
