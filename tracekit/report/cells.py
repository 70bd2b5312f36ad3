"""The cells of a table as text, for the faces that print."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tracekit import units
from tracekit.report.section import AtLeast, Cell, Instant, Missing, Table, Unit

_FORMATS: Mapping[Unit, Callable[[Any], str]] = {
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


def text(cell: Cell, unit: Unit, longest: int) -> str:
    """A cell as text; a name in at most `longest` characters, an instant as the time since the trace began."""
    if isinstance(cell, Missing):
        return units.DASH
    if isinstance(cell, AtLeast):
        return f">={text(cell.value, unit, longest)}"
    if isinstance(cell, Instant):
        return units.time(cell.start_ps)
    return units.short(cell, longest) if unit == Unit.NAME else _FORMATS[unit](cell)


def brief(table: Table, longest: int | Sequence[int]) -> list[list[str]]:
    """The head and the rows of a table where there is little room, as text; names in at most `longest` characters, of
    all columns or of each."""
    at = [place for place, column in enumerate(table.columns) if column.brief]
    most = [longest] * len(at) if isinstance(longest, int) else longest
    head = [table.columns[place].head for place in at]
    rows = [
        [text(table.rows[row][place], table.columns[place].unit, size) for place, size in zip(at, most, strict=True)]
        for row in table.brief
    ]
    return [head, *rows]
