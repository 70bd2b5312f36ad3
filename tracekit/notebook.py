"""What results show of themselves in a notebook: escaped HTML of sentences and small tables; elsewhere, one line.

Colours and fonts are the notebook's own, so that light and dark themes fit. Nothing here knows IPython, which asks any
object for `_repr_html_` (https://ipython.readthedocs.io/en/stable/config/integrating.html).
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar

import pandas as pd

from tracekit.units import count, number, percent, quantity, rate, revealed, short, size, time

# What a notebook shows of a result, whose frames are there to be asked for the rest.
MOST_ROWS, MOST_NOTES, MOST_NAME = 5, 3, 60

# MathJax would take what stands between two dollar signs in a name for a formula.
_BLOCK = '<div class="tracekit tex2jax_ignore mathjax_ignore">\n{}\n</div>'
# Large figures side by side, as far as there is room; where styles are taken out, below each other.
_FIGURES = '<div style="display:flex;flex-wrap:wrap;gap:0.5em 2.5em">\n{}\n</div>'
_FIGURE = '<div style="max-width:16em"><div style="font-size:1.75em"><strong>{}</strong></div>{}</div>'
_LEFT, _RIGHT = ' style="text-align:left"', ' style="text-align:right"'
_RATIOS = {"ratio", "share", "spread", "efficiency"}


def block(*parts: str) -> str:
    """One output of a notebook, of parts that are HTML already; empty ones vanish."""
    return _BLOCK.format("\n".join(part for part in parts if part))


def heading(title: str, text: str = "") -> str:
    """What the output is, and a sentence about it."""
    return f"<p><strong>{_escaped(title)}</strong>{': ' if text else ''}{_escaped(text)}</p>"


def sentence(text: str) -> str:
    """A paragraph; nothing without a word in it."""
    return f"<p>{_escaped(text)}</p>" if text else ""


def bullets(sentences: Sequence[str], numbered: bool = False) -> str:
    """Sentences below each other; nothing if there are none."""
    kind = "ol" if numbered else "ul"
    return f"<{kind}>{''.join(f'<li>{_escaped(text)}</li>' for text in sentences)}</{kind}>" if sentences else ""


def large(figures: Sequence[tuple[str, str]]) -> str:
    """Figures that stand out, each with what it is; nothing if there are none."""
    each = [_FIGURE.format(_escaped(figure), _escaped(what)) for figure, what in figures]
    return _FIGURES.format("\n".join(each)) if each else ""


def folded(summary: str, inside: str) -> str:
    """What a click on `summary`, a text, opens; `inside` is HTML already."""
    return f"<details><summary>{_escaped(summary)}</summary>\n{inside}\n</details>"


def noted(notes: Sequence[str]) -> str:
    """The first MOST_NOTES notes, the others folded."""
    first, rest = notes[:MOST_NOTES], notes[MOST_NOTES:]
    more = folded(quantity(len(rest), "more note"), bullets(rest)) if rest else ""
    return bullets([f"Note: {note}" for note in first]) + more


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool] = ()) -> str:
    """A table of texts; `right` says of each column whether it stands to the right, by default all but the first."""
    styles = [_RIGHT if is_right else _LEFT for is_right in right or [at > 0 for at in range(len(head))]]

    def line(tag: str, cells: Sequence[str]) -> str:
        marked = (f"<{tag}{style}>{_escaped(cell)}</{tag}>" for style, cell in zip(styles, cells, strict=True))
        return f"<tr>{''.join(marked)}</tr>"

    above = f"<p><em>{_escaped(title)}</em></p>\n" if title else ""
    body = "\n".join(line("td", row) for row in rows)
    return f"{above}<table>\n<thead>{line('th', head)}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def frame(name: str, whole: pd.DataFrame, columns: str = "") -> str:
    """The first MOST_ROWS rows of a frame, with all columns or those that are named, each value as `cell` writes it.

    The names of the columns are left as they are, units and all: they are what the next question needs.
    """
    part = whole[columns.split() or list(whole.columns)].head(MOST_ROWS)
    extent = quantity(len(whole), "row") if len(part) == len(whole) else f"first {len(part)} of {len(whole):,} rows"
    if len(part.columns) < len(whole.columns):
        extent += f", {len(part.columns)} of {len(whole.columns)} columns"
    head = [str(column) for column in part.columns]
    texts = [[cell(column, value) for value in part[column].tolist()] for column in head]
    right = [pd.api.types.is_numeric_dtype(dtype) for dtype in part.dtypes]
    return table(f"{name}: {extent}", head, zip(*texts, strict=True), right)


def cell(column: str, value: Any) -> str:
    """A value as text, in the unit that the end of its column's name tells; a dash if it is null."""
    if not isinstance(value, Mapping) and pd.isna(value):
        return "-"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return short(value, MOST_NAME)
    if column.endswith("_ps"):
        return time(value)
    if column in _RATIOS or "ratio" in column.split("_"):
        return percent(value)
    if column.endswith("_per_s"):
        return rate(value, "")
    if column.endswith("_bytes"):
        return size(value)
    return count(value) if isinstance(value, int) else number(value)


class Result:
    """A dataclass with frames that shows itself: the frames that its class line names, each with these columns, "" for
    all.

    Of its other frames only the names follow, then its `notes`. A result that is `lacking` evidence says why, and
    nothing else.
    """

    _columns: ClassVar[Mapping[str, str]]

    def __init_subclass__(cls, **columns: str) -> None:
        cls._columns = columns

    def __repr__(self) -> str:
        return line(self)

    def _repr_html_(self) -> str:
        if _lacking(self):
            return block(heading(_title(self), _lacking(self)))
        filled = {name: table for name, table in frames(self).items() if len(table)}
        others = [(name, table) for name, table in filled.items() if name not in self._columns]
        more = ", ".join(f"{name} ({quantity(len(table), 'row')})" for name, table in others)
        return block(
            heading(_title(self)),
            *(frame(name, filled[name], names) for name, names in self._columns.items() if name in filled),
            sentence(f"More in {more}." if more else ""),
            noted(getattr(self, "notes", ())),
        )


def results(title: str, text: str, parts: Mapping[str, Any], first: Mapping[str, tuple[str, str]]) -> str:
    """Several results, each folded behind what stands first in one of its frames; then why some lack evidence.

    `first` names that frame of each part, and the columns that say it.
    """
    there = {name: part for name, part in parts.items() if not _lacking(part)}
    details = [folded(f"{name}: {_first(part, *first[name])}", part._repr_html_()) for name, part in there.items()]
    absent = [f"{name}: {_lacking(part)}" for name, part in parts.items() if name not in there]
    return block(heading(title, text), *details, bullets(absent))


def line(value: Any, text: str = "") -> str:
    """A result in one line: the `text`, by default why there is nothing, or how many rows its frames have."""
    sizes = ", ".join(f"{name} {len(table):,}" for name, table in frames(value).items())
    return f"<{type(value).__name__}: {visible(text or _lacking(value) or sizes)}>"


def frames(value: Any) -> dict[str, pd.DataFrame]:
    """The frames of a dataclass by name."""
    parts = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: part for name, part in parts.items() if isinstance(part, pd.DataFrame)}


def visible(text: str) -> str:
    """`text` with a box for each character that would not show, or would turn the text around."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in revealed(text))


def _first(value: Any, name: str, columns: str) -> str:
    """The first row of a frame in words: `cause host-bound, idle_ps 166.6 ms`."""
    table = getattr(value, name)
    if not len(table):
        return "nothing"
    return ", ".join(f"{column} {cell(column, table[column].tolist()[0])}" for column in columns.split())


def _title(value: Any) -> str:
    """`Critical path` of a CriticalPath."""
    return re.sub(r"(?<=[a-z])[A-Z]", lambda letter: f" {letter[0].lower()}", type(value).__name__)


def _lacking(value: Any) -> str:
    return str(getattr(value, "lacking", ""))


def _escaped(text: str) -> str:
    return html.escape(visible(text))
