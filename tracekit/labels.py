"""Names in little room: of names that are much alike, each keeps what distinguishes it from the others.

The page's timeline has the same rule, in report/html/labels.js; a test holds the two equal.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from math import log2
from typing import NamedTuple

from tracekit.units import short

_ASCII_WORDS = re.compile(r"[A-Za-z]+|[0-9]+")
# What every kernel of a library has: namespaces before its name, and its arguments behind.
_NAMESPACES = re.compile(r"(?:\w+::|\(anonymous namespace\)::|<unnamed>::)+", re.ASCII)
_NAMED = re.compile(r"[\w>]", re.ASCII)
# Letters of two code units, which JavaScript would cut in two.
_WIDE = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
# How much a number says, of what a word says that as few names have.
_WORTH = 0.7
# With less room than this there is no room for a name's beginning too, or none for a second word.
_LEAST_HALVES, _LEAST_TWO = 12, 16


class _Word(NamedTuple):
    """A run of letters or of digits, at [start, end) of a name."""

    text: str
    start: int
    end: int


def labels(names: Sequence[str], room: int) -> list[str]:
    """The names, which are shown together, each in at most `room` characters; of C++ kernels that are too long,
    namespaces and arguments go first."""
    distinct = [*dict.fromkeys(names)]
    known = {name: short(name, room) for name in distinct if len(name) <= room or _WIDE.search(name)}
    if len(known) < len(distinct):
        trimmed = {name: bare(name) for name in distinct}
        telling = _Telling([*trimmed.values()])
        known |= {name: _label(trimmed[name], telling, room) for name in distinct if name not in known}
    return [known[name] for name in names]


def bare(name: str) -> str:
    """A name without namespaces and arguments of C++."""
    text = short(name, max(len(name), 1))
    namespaces = _NAMESPACES.match(text)
    text = text[namespaces.end() :] if namespaces else text
    depth = 0
    for at in reversed(range(1, len(text))):
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            return text[:at] if text.endswith(")") and _NAMED.match(text[at - 1]) else text
    return text


class _Telling:
    """Which words of each of the names tell it from the others."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = [(name, frozenset(word.text for word in _words(name))) for name in names]
        self.count = Counter(word for _, words in self.names for word in words)

    def of(self, name: str) -> list[_Word]:
        """The word of `name` that fewest names have, none if all have the same; and where several have it, one that
        tells it from these, or where all of it does not, one that stands where theirs are others."""
        words = _words(name)
        first = _rarest(words, self.count, len(self.names))
        alike = [(other, its) for other, its in self.names if other != name and (first is None or first.text in its)]
        if first is None:
            placed, _ = _placed(words, [other for other, _ in alike])
            return [] if placed is None else [placed]
        if not alike:
            return [first]
        count = Counter(word for its in [*(its for _, its in alike), {word.text for word in words}] for word in its)
        second = _rarest(words, count, len(alike) + 1)
        left = len(alike) if second is None else count[second.text] - 1
        placed, left_by_place = _placed(words, [other for other, _ in alike]) if left else (None, 0)
        if placed is not None and left_by_place < left:
            second = placed
        return [first] if second is None or second == first else [first, second]


def _placed(words: Sequence[_Word], alike: Sequence[str]) -> tuple[_Word | None, int]:
    """The word at whose place fewest of the names that are `alike` have the same one, the first of equals, and how many
    these are; None where all have all."""
    best, fewest = None, len(alike)
    others = [_words(other) for other in alike]
    for at, word in enumerate(words):
        same = sum(at < len(its) and its[at].text == word.text for its in others)
        if same < fewest:
            best, fewest = word, same
    return best, fewest


@lru_cache(2**12)
def _words(name: str) -> tuple[_Word, ...]:
    """The runs of letters and of digits of a name."""
    if name.isascii():
        return tuple(_Word(match[0], *match.span()) for match in _ASCII_WORDS.finditer(name))
    words, start = [], 0
    for sort, letters in groupby(name, lambda letter: unicodedata.category(letter)[0]):
        text = "".join(letters)
        words += [_Word(text, start, start + len(text))] if sort in "LN" else []
        start += len(text)
    return tuple(words)


def _rarest(words: Sequence[_Word], count: Counter[str], names: int) -> _Word | None:
    """The word that says most: one that few of so many names have, the first of equals; None where all names have
    all."""

    def bits(word: _Word) -> float:
        return log2(names / count[word.text]) * (_WORTH if unicodedata.category(word.text[0])[0] == "N" else 1)

    return max((word for word in words if count[word.text] < names), key=bits, default=None)


def _label(name: str, telling: _Telling, room: int) -> str:
    if len(name) <= room:
        return name
    words = telling.of(name)
    if not words:
        return short(name, room)
    first, *second = words
    if not second or room < _LEAST_TWO:
        return _around(name, first, room)
    before, behind = sorted([first, *second], key=lambda word: word.start)
    end = min(behind.end, behind.start + room // 4)
    piece = name[behind.start : end] + ("…" if end < len(name) else "")
    head, space = name[: behind.start], room - len(piece)
    return (head if len(head) <= space else _around(head, before, space)) + piece


def _around(name: str, word: _Word, room: int) -> str:
    """`name` in `room` letters, fewer than it has, with that word."""
    halves = room >= _LEAST_HALVES
    head = room // 2 if halves else 0
    tail = room - head - 1
    if word.end <= head or len(name) - word.start <= tail:
        return f"{name[:head]}…{name[len(name) - tail :]}"
    # Another sign of what is cut behind it would cost a letter of what is left.
    more = "…" if halves else ""
    start = max(head - len(more), 0)
    space = room - start - 1 - len(more)
    identifier = word.start
    while identifier and (name[identifier - 1] == "_" or unicodedata.category(name[identifier - 1])[0] in "LN"):
        identifier -= 1
    begin = identifier if word.end - identifier <= space else word.start
    if begin <= start + 1:
        return f"{name[: room - 1]}…"
    return f"{name[:start]}…{name[begin : begin + space]}{more}"
