"""HTML that cannot be broken by what it shows: text is escaped unless this module made it."""

import html
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import pandas as pd

from tracekit import units

# What has no place in text: controls, lone surrogates, noncharacters, and marks that turn the direction of what
# follows (https://trojansource.codes).
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_VOID = frozenset({"br", "meta"})


class Markup(str):
    """A piece of HTML; any other string is text."""

    __slots__ = ()


def text(words: object) -> Markup:
    """`words` as HTML that shows just them; what cannot be seen becomes U+FFFD."""
    if type(words) is Markup:
        return words
    plain = str(words)
    if not (plain.isascii() and plain.isprintable()):  # which is quickly asked of the many that are
        plain = _UNSEEN.sub("\ufffd", plain)
    return Markup(html.escape(plain))


def join(parts: Iterable[object]) -> Markup:
    """The parts one after the other; None is left out."""
    return Markup("".join(text(part) for part in parts if part is not None))


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """An element: `tag("td", "a < b", class_="n", data_from=1)`.

    In names of attributes "_" stands for "-" and one at the end is dropped. None and False leave an attribute out, True
    leaves it without a value.
    """
    told = "".join(
        f" {_attribute(key)}" + ("" if value is True else f'="{text(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{told}>" + ("" if name in _VOID else f"{join(children)}</{name}>"))


@cache
def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def hidden(words: str) -> Markup:
    """Words for a screen reader alone."""
    return tag("span", words, class_="sr")


def none(reason: Any = None) -> Markup:
    """A figure that is missing, with the reason where one is known."""
    if reason is None or pd.isna(reason):
        return tag("span", "-", class_="none")
    return tag("span", "-", hidden(f" {reason}"), class_="none", title=reason)


def picoseconds(value: Any, reason: Any = None) -> Markup:
    """A time that keeps its exact picoseconds."""
    if pd.isna(value):
        return none(reason)
    return tag("data", units.time(int(value)), value=int(value), title=f"{int(value):,} ps")


def share(ratio: Any, reason: Any = None) -> Markup:
    """A ratio in 0..1 as a percentage."""
    return none(reason) if pd.isna(ratio) else tag("data", units.percent(ratio), value=repr(float(ratio)))


def factor(value: Any, reason: Any = None) -> Markup:
    """A speedup or a stretch."""
    return none(reason) if pd.isna(value) else tag("data", units.factor(value), value=repr(float(value)))


def number(value: Any, reason: Any = None) -> Markup:
    """A count, with its thousands apart."""
    return none(reason) if pd.isna(value) else tag("data", units.count(value), value=int(value))


def name(words: Any, longest: int = 48) -> Markup:
    """A name from the trace, kept apart from the direction of the text around it; a dash if there is none.

    Of a longer one both ends are shown, since templates of one kernel differ behind their first words; all of it is in
    its title.
    """
    if words is None or pd.isna(words):
        return none()
    full = " ".join(str(words).split()) or "(no name)"
    shown = units.short(full, longest)
    return tag("bdi", shown, title=full if shown != full else None)
