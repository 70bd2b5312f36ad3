"""What a report shows of one question: sentences, findings, and tables whose cells are values with a unit.

No cell is text that was formatted before a face knew where it will stand: each face formats the values itself, in the
words of tracekit.units; those that print take them from `brief_text`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import pandas as pd

from tracekit import units
from tracekit.analysis.overlap import of_copies
from tracekit.columns import records
from tracekit.labels import labels

# Rows of a long table that a face without limits shows, and rows of a long list in summary.json.
MOST_ROWS, MOST_DATA = 40, 1000
# The kinds of work of a frame, in a sentence; `memory_words` says where memory work is no copies alone.
WORK = {"compute": "compute", "collective": "collectives", "memory": "copies"}


class Unit(StrEnum):
    """What the values of a column are: TEXT is tracekit's own words, a NAME may be long and hold anything; that of a
    DEVICE is left whole where other names are shortened."""

    TEXT = "text"
    NAME = "name"
    DEVICE = "device"
    COUNT = "count"
    MEAN = "mean"
    TIME = "time_ps"
    INSTANT = "instant"
    RATIO = "ratio"
    CHANGE = "change"
    FACTOR = "factor"
    BYTES = "bytes"
    BYTES_PER_S = "bytes_per_s"
    FLOPS_PER_S = "flops_per_s"


# Units whose cells are words and stand to the left; those of all others are figures.
WORDS = frozenset({Unit.TEXT, Unit.NAME, Unit.DEVICE})


@dataclass(frozen=True)
class Instant:
    """Where a row lies in the timeline: from `start_ps` to `end_ps` of the trace, on a `device`, or only a `clock`."""

    start_ps: int
    end_ps: int
    device: str | None = None
    clock: str = ""


@dataclass(frozen=True)
class AtLeast:
    """A `value` that the true one is not less than."""

    value: float


@dataclass(frozen=True)
class Missing:
    """A value that is not known, and why; the `reason` is empty where there is none to tell."""

    reason: str = ""


Cell = str | int | float | Instant | AtLeast | Missing


@dataclass(frozen=True)
class Column:
    """The `head` and the `unit` of a column; one that is not `brief` is left out where there is little room."""

    head: str
    unit: Unit
    brief: bool = True


@dataclass(frozen=True)
class Table:
    """A table: its `title`, `columns` and `rows`, each with a cell for every column; `key` names it within the report.

    `brief` are the places of the rows that a face with little room shows; where there are none, it leaves the table
    out. `about` is a sentence on how to read it, `extract` one on which rows are `brief` where that is not plain.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    brief: tuple[int, ...]
    about: str = ""
    extract: str = ""


@dataclass(frozen=True)
class Recommendation:
    """What a `rule` of the advice found: what is so in the `sentence`, and in `action` the next thing to try.

    `cost_ps` is the time it stands for, summed over the devices, and `share` that of the sum of their windows, both
    None where it stands for no time; `where` is the device or the phase that it is about, None for all of them.
    """

    rule: str
    sentence: str
    action: str
    cost_ps: int | None = None
    share: float | None = None
    where: str | None = None


@dataclass(frozen=True)
class Section:
    """One question as a report answers it, under a `title`.

    `key` names it in summary.json, whose value is `data`, plain data in integers of picoseconds and ratios in 0..1.
    `sentences` and `findings` stand before the `tables`. `result` is the answer in one line: by default the first
    finding or sentence. `share` is the part of the sum of the devices' windows for which it stands, None where it
    stands for no time, and `loss` what that time was lost to ("collectives", "copies", a cause of idle time), "" for
    none of these; `detail` is what more it says of that loss, for the entry that says how much is lost. `lacking` says
    why the trace has no evidence for it, and then there is nothing else.
    """

    key: str
    title: str
    sentences: tuple[str, ...] = ()
    findings: tuple[Recommendation, ...] = ()
    tables: tuple[Table, ...] = ()
    data: Any = None
    lacking: str = ""
    share: float | None = None
    loss: str = ""
    detail: str = ""
    result: str = ""

    @property
    def in_one_line(self) -> str:
        """The answer in one line; "" where only tables give it."""
        first = [finding.sentence for finding in self.findings[:1]]
        return self.result or next(iter([*first, *self.sentences]), "")


def table(
    key: str,
    title: str,
    columns: Iterable[Column],
    rows: Iterable[Sequence[Any]],
    brief: int | Sequence[int] = 8,
    about: str = "",
    extract: str = "",
) -> Table:
    """A table of values as the frames have them, nulls included; `brief` is how many rows, or which, are shown where
    there is little room."""
    cells = tuple(tuple(map(_cell, row)) for row in rows)
    places = range(min(brief, len(cells))) if isinstance(brief, int) else brief
    return Table(key, title, tuple(columns), cells, tuple(places), about, extract)


class Field(NamedTuple):
    """A column, and what a row has in it: the value under a key, or what a function makes of the row.

    A value that is null stands with the reason under the key `reason`, if there is one.
    """

    head: str
    unit: Unit
    value: str | Callable[[dict[str, Any]], Any]
    brief: bool = True
    reason: str = ""

    def of(self, row: dict[str, Any]) -> Any:
        """The cell of a row."""
        value = self.value(row) if callable(self.value) else row[self.value]
        return or_missing(value, row[self.reason]) if self.reason else value


def table_of(
    rows: pd.DataFrame | Sequence[dict[str, Any]],
    key: str,
    title: str,
    fields: Sequence[Field],
    brief: int | Sequence[int] = 8,
    about: str = "",
    extract: str = "",
) -> Table:
    """A table of the rows of a frame, or of rows as dicts."""
    by_row = records(rows) if isinstance(rows, pd.DataFrame) else rows
    cells = [[field.of(row) for field in fields] for row in by_row]
    columns = [Column(field.head, field.unit, field.brief) for field in fields]
    return table(key, title, columns, cells, brief, about, extract)


def or_missing(value: Any, reason: Any = None) -> Any:
    """`value`, or if it is null why it is not known."""
    return Missing("" if pd.isna(reason) else str(reason)) if pd.isna(value) else value


def instant(row: Any, device: str | None = None, clock: str = "") -> Instant:
    """Where a row with `start_ps` and `end_ps` lies."""
    return Instant(int(row["start_ps"]), int(row["end_ps"]), device, clock)


def memory_words(overlap: pd.DataFrame) -> str:
    """What the memory work of a table of overlaps is: copies, memsets, or both."""
    alone, memory = of_copies(overlap), overlap[overlap["what"] == "memory"]
    if alone["total_ps"].sum() == memory["total_ps"].sum():
        return WORK["memory"]
    return "copies and memsets" if alone["total_ps"].any() else "memsets"


def straggler_words(row: Mapping[str, Any]) -> str:
    """Who was last in how many collectives: a device, or the devices of a host."""
    times = f"in {row['last']} of {row['n']} collectives"
    if "host" in row:
        return f"The {units.quantity(row['devices'], 'device')} of {row['host']} were the stragglers {times}"
    return f"{row['device']} was the straggler {times}"


def gain_words(row: Mapping[str, Any]) -> str:
    """What it would save if a straggler came with the others; nothing where `gain_ps` does not say it."""
    if "gain_ps" not in row:
        return ""
    if "host" in row:
        return f"; on time, they would save {units.time(row['gain_ps'])}"
    return f"; on time, it alone would save {units.time(row['gain_ps'])}, as others come nearly as late"


def median_of(number: int) -> str:
    """What the one in the middle of so many lengths is, of an even number the shorter of both."""
    return "median" if number % 2 else "shorter" if number == 2 else "lower median"


def plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as plain data for JSON; null is None."""
    if table.empty:  # as most tables of a small trace are
        return []
    columns = [
        [None if missing else value for value, missing in zip(table[name].tolist(), table[name].isna(), strict=True)]
        for name in table.columns
    ]
    names = [str(name) for name in table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain_value(value: Any) -> Any:
    """A cell of a frame as plain data; null is None."""
    if isinstance(value, (str, int)):  # as most of a million cells are: pandas takes longer to say that none is null
        return value
    if pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value


def brief_text(
    table: Table, longest: int | Sequence[int], since: Callable[[Instant], tuple[int, int]]
) -> list[list[str]]:
    """The head and the rows of a table where there is little room, as text; names in at most `longest` characters, of
    all columns or of each, in which those of a column keep what differs. `since` gives the start and the end of an
    instant in ps, counted from time 0."""
    at = [place for place, column in enumerate(table.columns) if column.brief]
    most = [longest] * len(at) if isinstance(longest, int) else longest
    columns = [_column(table, place, size, since) for place, size in zip(at, most, strict=True)]
    return [*map(list, zip(*columns, strict=True))]


def _column(table: Table, place: int, longest: int, since: Callable[[Instant], tuple[int, int]]) -> list[str]:
    """The head of a column, and its cells in the brief rows as text."""
    head, unit = table.columns[place].head, table.columns[place].unit
    cells = [table.rows[row][place] for row in table.brief]
    if unit != Unit.NAME:
        return [head, *(_text(cell, unit, longest, since) for cell in cells)]
    names = iter(labels([cell for cell in cells if isinstance(cell, str)], longest))
    return [head, *(next(names) if isinstance(cell, str) else _text(cell, unit, longest, since) for cell in cells)]


def _cell(value: Any) -> Cell:
    if isinstance(value, (Instant, AtLeast, Missing)):
        return value
    plain: Cell | None = plain_value(value)
    return Missing() if plain is None else plain


# How a value of each unit reads, on every face.
FORMATS: Mapping[Unit, Callable[[Any], str]] = {
    Unit.TEXT: str,
    Unit.COUNT: units.count,
    Unit.MEAN: units.mean,
    Unit.TIME: units.time,
    Unit.RATIO: units.percent,
    Unit.CHANGE: units.change,
    Unit.FACTOR: units.factor,
    Unit.BYTES: units.size,
    Unit.BYTES_PER_S: lambda value: units.rate(value, "B/s"),
    Unit.FLOPS_PER_S: lambda value: units.rate(value, "FLOP/s"),
}


def _text(cell: Cell, unit: Unit, longest: int, since: Callable[[Instant], tuple[int, int]]) -> str:
    """A cell as text; a name in at most `longest` characters, an instant as the time from 0 to its start."""
    if isinstance(cell, Missing):
        return units.DASH
    if isinstance(cell, AtLeast):
        return f">={_text(cell.value, unit, longest, since)}"
    if isinstance(cell, Instant):
        return units.time(since(cell)[0])
    return units.short(cell, longest) if unit in (Unit.NAME, Unit.DEVICE) else FORMATS[unit](cell)
