"""What results show of themselves in a notebook: escaped HTML of sentences and small tables; elsewhere, one line.

Colours and fonts are the notebook's own, so that light and dark themes fit. Nothing here knows IPython, which asks any
object for `_repr_html_` (https://ipython.readthedocs.io/en/stable/config/integrating.html).
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import pandas as pd

from tracekit.units import count, counted, percent, rate, short, time

# What a notebook shows of a result, whose frames are there to be asked for the rest.
MOST_ROWS, MOST_NOTES, MOST_NAME = 5, 3, 60

# MathJax would take what stands between two dollar signs in a name for a formula.
_BLOCK = '<div class="tracekit tex2jax_ignore mathjax_ignore">\n{}\n</div>'
_LEFT, _RIGHT = ' style="text-align:left"', ' style="text-align:right"'
_RATIOS = {"ratio", "share", "spread", "efficiency"}


def block(*parts: str) -> str:
    """One output of a notebook, of parts that are HTML already; empty ones vanish."""
    return _BLOCK.format("\n".join(part for part in parts if part))


def heading(title: str, said: str = "") -> str:
    """What the output is, and a sentence about it."""
    return f"<p><strong>{_escaped(title)}</strong>{': ' if said else ''}{_escaped(said)}</p>"


def sentence(said: str) -> str:
    """A paragraph; nothing without a word in it."""
    return f"<p>{_escaped(said)}</p>" if said else ""


def listed(said: Sequence[str], numbered: bool = False) -> str:
    """Sentences below each other; nothing if there are none."""
    kind = "ol" if numbered else "ul"
    return f"<{kind}>{''.join(f'<li>{_escaped(one)}</li>' for one in said)}</{kind}>" if said else ""


def folded(summary: str, inside: str) -> str:
    """What a click on `summary`, a text, opens; `inside` is HTML already."""
    return f"<details><summary>{_escaped(summary)}</summary>\n{inside}\n</details>"


def noted(notes: Sequence[str]) -> str:
    """The first MOST_NOTES notes, the others folded."""
    told, rest = notes[:MOST_NOTES], notes[MOST_NOTES:]
    more = folded(f"{counted(len(rest), 'more note')}", listed(rest)) if rest else ""
    return listed([f"Note: {one}" for one in told]) + more


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool] = ()) -> str:
    """A table of texts; `right` says of each column whether it stands to the right, by default all but the first."""
    styles = [_RIGHT if one else _LEFT for one in right or [at > 0 for at in range(len(head))]]

    def line(tag: str, cells: Sequence[str]) -> str:
        made = (f"<{tag}{style}>{_escaped(cell)}</{tag}>" for style, cell in zip(styles, cells, strict=True))
        return f"<tr>{''.join(made)}</tr>"

    above = f"<p><em>{_escaped(title)}</em></p>\n" if title else ""
    body = "\n".join(line("td", row) for row in rows)
    return f"{above}<table>\n<thead>{line('th', head)}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def frame(name: str, whole: pd.DataFrame, columns: str = "") -> str:
    """The first MOST_ROWS rows of a frame, with all columns or those that are named, each value as `cell` writes it.

    The names of the columns are left as they are, units and all: they are what the next question needs.
    """
    shown = whole[columns.split() or list(whole.columns)].head(MOST_ROWS)
    said = counted(len(whole), "row") if len(shown) == len(whole) else f"first {len(shown)} of {len(whole):,} rows"
    if len(shown.columns) < len(whole.columns):
        said += f", {len(shown.columns)} of {len(whole.columns)} columns"
    head = [str(column) for column in shown.columns]
    held = [[cell(column, value) for value in shown[column].tolist()] for column in head]
    right = [pd.api.types.is_numeric_dtype(dtype) for dtype in shown.dtypes]
    return table(f"{name}: {said}", head, zip(*held, strict=True), right)


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
    return count(value) if isinstance(value, int) else f"{value:,.3g}"


def result(one: Any, **shown: str) -> str:
    """A result, which is a dataclass with frames in it: the frames that are `shown`, each with the columns named.

    Its other frames are named and its `notes` told. A result that is `lacking` evidence says why, and nothing else.
    """
    if _lacking(one):
        return block(heading(_title(one), _lacking(one)))
    held = {name: table for name, table in frames(one).items() if len(table)}
    more = [f"{name} ({counted(len(table), 'row')})" for name, table in held.items() if name not in shown]
    return block(
        heading(_title(one)),
        *(frame(name, held[name], columns) for name, columns in shown.items() if name in held),
        sentence(f"More in {', '.join(more)}." if more else ""),
        noted(getattr(one, "notes", ())),
    )


def results(title: str, said: str, parts: Mapping[str, Any], first: Mapping[str, tuple[str, str]]) -> str:
    """Several results, each folded behind what stands first in one of its frames; then why some lack evidence.

    `first` names that frame of each part, and the columns that tell it.
    """
    found = {name: one for name, one in parts.items() if not _lacking(one)}
    told = [folded(f"{name}: {_first(one, *first[name])}", one._repr_html_()) for name, one in found.items()]
    absent = [f"{name}: {_lacking(one)}" for name, one in parts.items() if name not in found]
    return block(heading(title, said), *told, listed(absent))


def line(one: Any, said: str = "") -> str:
    """A result in one line: what is `said`, by default why there is nothing, or how many rows its frames have."""
    held = ", ".join(f"{name} {len(table):,}" for name, table in frames(one).items())
    return f"<{type(one).__name__}: {visible(said or _lacking(one) or held)}>"


def frames(one: Any) -> dict[str, pd.DataFrame]:
    """The frames of a dataclass by name."""
    held = {field.name: getattr(one, field.name) for field in fields(one)}
    return {name: value for name, value in held.items() if isinstance(value, pd.DataFrame)}


def visible(text: str) -> str:
    """`text` with a box for each character that would not show, or would turn the text around."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def _first(one: Any, name: str, columns: str) -> str:
    """The first row of a frame in words: `cause host-bound, idle_ps 166.6 ms`."""
    held = getattr(one, name)
    if not len(held):
        return "nothing"
    return ", ".join(f"{column} {cell(column, held[column].tolist()[0])}" for column in columns.split())


def _title(one: Any) -> str:
    """`Critical path` of a CriticalPath."""
    return re.sub(r"(?<=[a-z])[A-Z]", lambda found: f" {found[0].lower()}", type(one).__name__)


def _lacking(one: Any) -> str:
    return str(getattr(one, "lacking", ""))


def _escaped(text: str) -> str:
    return html.escape(visible(text))
