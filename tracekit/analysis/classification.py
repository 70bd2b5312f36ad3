"""How the kind of the work is known: what told it for which share of the busy time, and which names were guessed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import numbered
from tracekit.timeline.rows import Rows
from tracekit.timeline.timeline import Source, timeline_of
from tracekit.timeline.unions import union_lengths
from tracekit.trace import KIND_DTYPE
from tracekit.vocabulary.kinds import KnownBy, stem

# The most trustworthy first; from NAME on a kind is a guess.
LEVELS = tuple(KnownBy)
_GUESS = LEVELS.index(KnownBy.NAME)


def known_by(source: Source) -> pd.DataFrame:
    """For how much of the busy time each level told what ran.

    One row per level in LEVELS: `level`, `busy_ps` (Python int) and `ratio`, its share of the busy times of all
    devices, null if there are none. Time in which rows of several levels ran on one device counts for the least
    trustworthy of them, so no share overstates what is known, and the levels sum to the busy time exactly. A row whose
    known_by is null or no level counts as NOTHING. Rows on unknown devices (`cpu:?`) count in no busy time.
    """
    rows = timeline_of(source).rows
    level_of_row = _levels(rows)
    busy_ps: list[int] = []
    for level in reversed(range(len(LEVELS))):
        # What ran at this level or at one less trustworthy, less what ran at those alone.
        busy_ps.append(_busy_time(rows, level_of_row >= level) - sum(busy_ps) if (level_of_row == level).any() else 0)
    return _table({"level": [level.value for level in LEVELS], "busy_ps": busy_ps[::-1]}, sum(busy_ps))


def guessed(source: Source) -> pd.DataFrame:
    """The names whose kind was read from the name, or taken for compute since nothing told it; the longest first.

    One row per name (without the number that XLA gives it: `fusion.17` is `fusion`), kind and level (NAME or NOTHING):
    `name`, `kind`, `level`, `events` (how many), `device_time_ps` (their union on each device, summed
    over the devices; Python int) and `ratio`, device_time_ps over the busy times of all devices. Names that run at once
    share that time, so the ratios may sum to more than 1.
    """
    rows = timeline_of(source).rows
    level_of_row = _levels(rows)
    guess = level_of_row >= _GUESS
    kinds = KIND_DTYPE.categories
    name_of, names = pd.factorize(np.array([stem(name) for name in rows.labels("name")], object))
    keys = name_of[rows.codes("name")[guess]] * len(kinds)
    keys = (keys + rows.kind[guess]) * len(LEVELS) + level_of_row[guess]
    group_of_guess, group_keys = pd.factorize(keys)
    remainder, level = np.divmod(group_keys, len(LEVELS))
    name, kind = np.divmod(remainder, len(kinds))
    groups, devices = len(group_keys), len(rows.devices)
    key = np.full(len(rows), -1)
    key[guess], pair = numbered(rows.device[guess] * groups + group_of_guess, devices * groups)
    lengths = union_lengths(key, len(pair), rows.start, rows.end)
    table = _table(
        {
            "name": names[name],
            "kind": kinds.to_numpy(object)[kind],
            "level": np.array([level.value for level in LEVELS], object)[level],
            "events": np.bincount(group_of_guess, minlength=len(group_keys)),
            "device_time_ps": iv.sums(lengths, pair % max(groups, 1), groups),
        },
        _busy_time(rows, level_of_row >= 0),
    )
    return table.sort_values(["device_time_ps", "name"], ascending=[False, True], ignore_index=True)


def _levels(rows: Rows) -> NDArray[np.int64]:
    """The level that told each row's kind, a place in LEVELS, -1 on unknown devices; (n,)."""
    level = [
        LEVELS.index(KnownBy(name)) if name in list(LEVELS) else len(LEVELS) - 1 for name in rows.labels("known_by")
    ]
    level_of_row = np.array([*level, len(LEVELS) - 1])[rows.codes("known_by")]
    return level_of_row if all(rows.placed) else np.where(rows.is_placed, level_of_row, -1)


def _busy_time(rows: Rows, mask: NDArray[np.bool_]) -> int:
    """The unions of the rows in `mask` on each device, summed over the devices, in ps."""
    device = np.where(mask, rows.device, -1)
    return iv.sum_exactly(union_lengths(device, len(rows.devices), rows.start, rows.end))


def _table(columns: Mapping[str, Any], total_ps: int) -> pd.DataFrame:
    """A frame of the columns, the last of them a time in Python ints, and `ratio`, that time over the `total_ps`."""
    *_, time = columns
    table = pd.DataFrame({**columns, time: pd.Series(columns[time], dtype=object)})
    table["ratio"] = pd.array([time_ps / total_ps if total_ps else None for time_ps in columns[time]], "Float64")
    return table.astype({column: "str" for column in ("name", "kind", "level") if column in table})
