"""Tables of the page: captions, scopes, columns of figures to the right, and long ones folded."""

import re
from collections.abc import Sequence
from html import unescape

from tracekit.report.html.markup import Markup, join, tag
from tracekit.report.section import Titled

# A cell that is a figure, for the eye: "1.2 ms", "<0.1 %", ">=3.2", "3 of 8", "-".
_FIGURE = re.compile(r"(-|[<>=+~-]*\d[\d,.]*( ?[%A-Za-zµ/]{1,5})?( of [\d,]+)?)")
_TAGS = re.compile(r'<span class="sr">[^<]*</span>|<[^>]*>')

Row = Sequence[str]


def table(caption: str, head: Row, rows: Sequence[Row], shown: int = 12, about: str = "") -> Markup:
    """A table whose first column names its rows; of more than `shown` + 3 rows the rest is folded below.

    Cells are text, or Markup. A column in which every cell is a figure stands to the right. `about` is a sentence
    below the caption.
    """
    right = [all(_FIGURE.fullmatch(_seen(row[at])) for row in rows) for at in range(len(head))]
    if len(rows) <= shown + 3:
        return _box(caption, head, rows, right, about)
    more = f"{len(rows) - shown:,} more"
    rest = _box(f"{caption}: {more}", head, rows[shown:], right, "")
    first = _box(caption, head, rows[:shown], right, about)
    return tag("div", first, tag("details", tag("summary", more), rest), class_="folded")


def titled(given: Titled) -> Markup:
    """A table of text as sections hold them."""
    caption, head, rows = given
    return table(caption, head, [[cell.strip() for cell in row] for row in rows])


def _seen(cell: str) -> str:
    return unescape(_TAGS.sub("", cell)) if isinstance(cell, Markup) else cell


def _box(caption: str, head: Row, rows: Sequence[Row], right: Sequence[bool], about: str) -> Markup:
    """A table in a box of its own, which scrolls sideways where it is too wide, with the keyboard too."""
    sides = ["n" if side else None for side in right]
    heads = tag("tr", *(tag("th", cell, scope="col", class_=side) for cell, side in zip(head, sides, strict=True)))
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
    made = tag("table", title, tag("thead", heads), tag("tbody", *body))
    return tag("div", made, class_="wide", tabindex=0, role="group", aria_label=caption)


def sentences(said: Sequence[str]) -> Markup:
    """A sentence as a paragraph, several as a list."""
    if len(said) < 2:
        return join(tag("p", advised(one)) for one in said)
    return tag("ul", *(tag("li", advised(one)) for one in said))


def advised(said: str) -> Markup:
    """A sentence, with what to try about it on a line of its own."""
    found, mark, advice = said.partition(" Try: ")
    return join([found, tag("span", tag("b", mark), advice, class_="try") if mark else None])
