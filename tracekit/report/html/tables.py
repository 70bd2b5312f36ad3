"""Tables of the page: captions, scopes, columns of figures to the right, and long ones folded."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tracekit import units
from tracekit.report.html import markup
from tracekit.report.html.markup import Markup, join, tag
from tracekit.report.html.timeline_links import TimelineLinks
from tracekit.report.section import WORDS, AtLeast, Cell, Column, Instant, Missing, Table, Unit

# Up to so many more rows than shown are not worth folding.
_FEW_MORE = 3

_CELLS: Mapping[Unit, Callable[[Any], Markup]] = {
    Unit.TEXT: markup.text,
    Unit.NAME: markup.name,
    Unit.COUNT: markup.number,
    Unit.MEAN: lambda value: _data(units.mean(value), value),
    Unit.TIME: markup.picoseconds,
    Unit.RATIO: markup.share,
    Unit.CHANGE: lambda value: _data(units.change(value), value),
    Unit.FACTOR: markup.factor,
    Unit.BYTES: lambda value: _data(units.size(value), value),
    Unit.BYTES_PER_S: lambda value: _data(units.rate(value, "B/s"), value),
    Unit.FLOPS_PER_S: lambda value: _data(units.rate(value, "FLOP/s"), value),
}


def table(given: Table, links: TimelineLinks, shown: int = 12, shaded: bool = False) -> Markup:
    """A table whose first column names its rows; of more than `shown` + 3 rows the rest is folded below.

    Ratios stand on a ground the darker the larger they are where they are `shaded`.
    """
    rows = [[_cell(cell, column, row, links, shaded) for cell, column in _columns(given, row)] for row in given.rows]
    if len(rows) <= shown + _FEW_MORE:
        return _box(given.title, given.columns, rows, given.about)
    more = f"{len(rows) - shown:,} more"
    rest = _box(f"{given.title}: {more}", given.columns, rows[shown:])
    first = _box(given.title, given.columns, rows[:shown], given.about)
    return tag("div", first, tag("details", tag("summary", more), rest), class_="folded")


def _columns(given: Table, row: Sequence[Cell]) -> list[tuple[Cell, Column]]:
    return list(zip(row, given.columns, strict=True))


def _cell(cell: Cell, column: Column, row: Sequence[Cell], links: TimelineLinks, shaded: bool) -> Markup:
    if isinstance(cell, Missing):
        return markup.none(cell.reason or None)
    if isinstance(cell, AtLeast):
        return join([">=", _CELLS[column.unit](cell.value)])
    if isinstance(cell, Instant):
        return links.button(cell, next((name for name in row if isinstance(name, str)), "it"))
    if shaded and column.unit == Unit.RATIO:
        return heat(float(cell))
    return _CELLS[column.unit](cell)


def heat(ratio: float) -> Markup:
    """A ratio on a ground the darker the larger it is."""
    return tag("span", markup.share(ratio), class_="heat", style=f"--dark:{ratio:.3f}")


def _data(shown: str, value: float) -> Markup:
    return tag("data", shown, value=repr(value))


def _box(caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Markup]], about: str = "") -> Markup:
    """A table in a box of its own, which scrolls sideways where it is too wide, with the keyboard too."""
    sides = [None if column.unit in WORDS else "n" for column in columns]
    heads = [tag("th", column.head, scope="col", class_=side) for column, side in zip(columns, sides, strict=True)]
    body = [
        tag(
            "tr",
            *(
                tag("td", cell, class_=side) if at else tag("th", cell, scope="row", class_=side)
                for at, (cell, side) in enumerate(zip(row, sides, strict=True))
            ),
        )
        for row in rows
    ]
    title = tag("caption", tag("span", caption), tag("span", about, class_="about") if about else None)
    made = tag("table", title, tag("thead", tag("tr", *heads)), tag("tbody", *body))
    return tag("div", made, class_="wide", tabindex=0, role="group", aria_label=caption)
