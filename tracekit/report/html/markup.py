"""HTML that cannot be broken by what it shows: text is escaped unless this module made it.

Elements, figures that keep their exact values, names, times that lead into the timeline of the page, and tables.
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tracekit import units
from tracekit.labels import labels
from tracekit.report.section import FORMATS, WORDS, AtLeast, Cell, Instant, Missing, Table, Unit
from tracekit.report.time_zero import TimeZero

# What has no place in text, beside what `units.revealed` finds: controls, lone surrogates and noncharacters.
_NO_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_VOID = frozenset({"br", "meta"})
# Up to so many more rows than shown are not worth folding.
_FEW_MORE = 3
# Letters of a name that are shown.
_LONGEST = 48
# Where a name in a table may go on in the next line; and letters of a word that is left whole on paper.
_BREAKS = re.compile(r"(?<=[_./:,<>()-])(?=\w)")
_MOST_WHOLE = 16


class Markup(str):
    """A piece of HTML; any other string is text."""

    __slots__ = ()


def text(words: object) -> Markup:
    """`words` as HTML that shows just them; what cannot be seen becomes U+FFFD."""
    if type(words) is Markup:
        return words
    plain = str(words)
    if not (plain.isascii() and plain.isprintable()):  # which is quickly asked of the many that are
        plain = _NO_TEXT.sub("\ufffd", units.revealed(plain))
    return Markup(html.escape(plain))


def prose(words: str) -> Markup:
    """A sentence of the report as HTML, whose lines never end between a number and its unit."""
    return text(words if type(words) is Markup else units.unbroken(words))


def join(parts: Iterable[object], between: str = "") -> Markup:
    """The parts one after the other, with `between` between them; None is left out."""
    return Markup(text(between).join(text(part) for part in parts if part is not None))


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """An element: `tag("td", "a < b", class_="n", data_from=1)`.

    In names of attributes "_" stands for "-" and one at the end is dropped. None and False leave an attribute out, True
    leaves it without a value.
    """
    pairs = "".join(
        f" {_attribute(key)}" + ("" if value is True else f'="{text(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{pairs}>" + ("" if name in _VOID else f"{join(children)}</{name}>"))


@cache
def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def none(reason: str = "") -> Markup:
    """A figure that is missing, with the reason where one is known; a screen reader hears it too."""
    if not reason:
        return tag("span", "-", class_="none")
    return tag("span", "-", tag("span", f" {reason}", class_="sr"), class_="none", title=reason)


def figure(words: str, value: float, title: str | None = None) -> Markup:
    """A figure in words, which keeps its exact value."""
    return tag("data", words, value=repr(value), title=title)


def picoseconds(value: int) -> Markup:
    """A time that keeps its exact picoseconds, and shows them on hover."""
    return figure(units.time(value), value, f"{value:,} ps")


def name(words: str, longest: int = _LONGEST) -> Markup:
    """A name from the trace, kept apart from the direction of the text around it.

    Of a longer one both ends are shown, since templates of one kernel differ behind their first words; all of it is in
    its title.
    """
    return _name(_full(words), units.short(_full(words), longest))


def _full(words: str) -> str:
    return " ".join(words.split()) or "(no name)"


def _name(full: str, short: str) -> Markup:
    return tag("bdi", short, title=full if short != full else None)


def _in_pieces(full: str, short: str) -> Markup:
    """A name in a narrow column, which may go on in the next line behind the signs between its words, and inside of a
    word only where that is long."""
    pieces = _BREAKS.split(short)
    is_long = max(map(len, pieces)) > _MOST_WHOLE
    content = join(map(text, pieces), Markup("<wbr>"))
    return tag("bdi", content, title=full if short != full else None, class_="long" if is_long else None)


@dataclass(frozen=True)
class TimelineLinks:
    """How parts of the trace become links, whose times count from time `zero`.

    They `lead` nowhere on a page without a timeline: there they are times like all others.
    """

    zero: TimeZero
    lead: bool = True

    def button(self, instant: Instant, what: str) -> Markup:
        """A button that shows [start, end) in the timeline and is named after its start, counted from time 0 there;
        a screen reader hears `what` it shows."""
        start, end, on = self.place(instant)
        if not self.lead:
            return picoseconds(start)
        words = units.time(start)
        return tag(
            "button",
            words,
            type="button",
            class_="jump",
            data_from=start,
            data_to=end,
            data_device=on,
            aria_label=f"{words}: show {what} in the timeline",
            title=f"{start:,} ps",
        )

    def place(self, instant: Instant) -> tuple[int, int, str | None]:
        """Where it lies in the timeline: from, to, and the device to look at.

        The clock is that of the device, where there is one; on one of several clocks the first device on it is shown.
        """
        on = instant.device
        if on is None and len(self.zero.start_ps) > 1:
            on = next((name for name, its in self.zero.clock_of.items() if its == instant.clock), None)
        return *self.zero.since(instant), on


def table(
    source: Table,
    links: TimelineLinks,
    most_rows: int = 12,
    shaded: bool = False,
    order: str = "",
    **attributes: object,
) -> Markup:
    """A table whose first column names its rows, in a box with these `attributes`; of more than `most_rows` + 3 rows
    tables.js folds the rest.

    Ratios stand on a ground the darker the larger they are where they are `shaded`; `order` is the head of the column
    whose values fall from row to row. Of the names of a column each keeps what differs.
    """
    shown = [_names(source, at) for at in range(len(source.columns))]
    rows = [
        [
            _cell(cell, column.unit, row, links, shaded, names)
            for cell, column, names in zip(row, source.columns, shown, strict=True)
        ]
        for row in source.rows
    ]
    folded = most_rows if len(rows) > most_rows + _FEW_MORE else None
    content = _plain(source, rows, order, folded)
    return wide(content, source.title, **attributes)


def _names(source: Table, column: int) -> Mapping[str, str]:
    """The names of a column, and how each is shown."""
    if source.columns[column].unit != Unit.NAME:
        return {}
    cells = (row[column] for row in source.rows)
    full = [*dict.fromkeys(_full(cell) for cell in cells if isinstance(cell, str))]
    return dict(zip(full, labels(full, _LONGEST), strict=True))


def _cell(
    cell: Cell, unit: Unit, row: Sequence[Cell], links: TimelineLinks, shaded: bool, names: Mapping[str, str]
) -> Markup:
    if isinstance(cell, Missing):
        return none(cell.reason)
    if isinstance(cell, AtLeast):
        return join([">=", figure(FORMATS[unit](cell.value), cell.value)])
    if isinstance(cell, Instant):
        return links.button(cell, next((words for words in row if isinstance(words, str)), "it"))
    if isinstance(cell, str):
        if unit == Unit.NAME:
            return _in_pieces(_full(cell), names[_full(cell)])
        return name(cell) if unit == Unit.DEVICE else text(cell)
    value = figure(FORMATS[unit](cell), cell, f"{cell:,} ps" if unit == Unit.TIME else None)
    if shaded and unit == Unit.RATIO:
        return tag("span", value, class_="heat", style=f"--dark:{cell:.3f}")
    return value


def _plain(source: Table, rows: Sequence[Sequence[Markup]], order: str, folded: int | None) -> Markup:
    sides = [None if column.unit in WORDS else "n" for column in source.columns]
    heads = [
        tag("th", column.head, scope="col", class_=side, aria_sort="descending" if column.head == order else None)
        for column, side in zip(source.columns, sides, strict=True)
    ]
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
    about = tag("span", source.about, class_="about") if source.about else None
    title = tag("caption", tag("span", source.title), about)
    return tag("table", title, tag("thead", tag("tr", *heads)), tag("tbody", *body), data_rows=folded)


def wide(content: Markup, label: str, **attributes: object) -> Markup:
    """A box that scrolls sideways where its content is too wide, with the keyboard too."""
    return tag("div", content, class_="wide", tabindex=0, role="group", aria_label=label, **attributes)
