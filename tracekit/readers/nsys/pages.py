"""The pages of an SQLite database, as https://www.sqlite.org/fileformat2.html lays them out, where SQLite itself does
not tell: which pages a table has, and which rows belong into each of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# What a page of a table begins with: one of rows, and one of other pages.
ROWS, PAGES = 13, 5
INNER = (bytes([PAGES]), b"\2")  # of a table and of an index
DEEPEST = 20
FIRST, LAST = -(2**63), 2**63 - 1
_FILE_HEADER, _OF_ROWS, _OF_PAGES = 100, 8, 12
_NOTHING = np.zeros(0, np.int64)
# A row of a page of other pages begins with the number of that page.
_NUMBER = 4

Page = Callable[[int], bytes]


class Part(NamedTuple):
    """Those rows of a table that are in one page, or in one that cannot be read and in all below it: of these numbers,
    as the pages above it say, of which there are `depth`."""

    page: int
    first: int
    last: int
    depth: int


@dataclass(frozen=True)
class Tree:
    """The pages of a table: its parts in the order of the rows, and the pages above them, each with what is below it as
    a part. No page is in it twice."""

    parts: Sequence[Part]
    inner: Sequence[Part]

    @property
    def last_pages(self) -> set[int]:
        """The pages of which one that is damaged may hide rows behind all others."""
        return {part.page for part in (*self.parts, *self.inner) if part.last == LAST}

    @property
    def pages(self) -> set[int]:
        """All pages, but those in which long rows go on."""
        return {part.page for part in (*self.parts, *self.inner)}


def tree(page: Page, root: int) -> Tree:
    """The pages of the table whose pages begin at `root`."""
    parts: list[Part] = []
    inner: list[Part] = []
    seen: set[int] = set()
    # Each page that is not looked at yet; that of the first rows comes last.
    stack = [Part(root, FIRST, LAST, 0)]
    while stack:
        part = stack.pop()
        content = b"" if part.page in seen else page(part.page)
        seen.add(part.page)
        below_it = _parts_below(content, part) if part.depth < DEEPEST else []
        (inner if below_it else parts).append(part)
        stack += reversed(below_it)
    return Tree(parts, inner)


def _parts_below(content: bytes, part: Part) -> list[Part]:
    """What is below a page of other pages, none where its numbers of rows are not in order or not those of its part."""
    if content[:1] != bytes([PAGES]):
        return []
    below_it, cells = below(content, part.page).tolist(), number_at(content, 3, 2)
    places = [number_at(content, _OF_PAGES + 2 * cell, 2) for cell in range(min(cells, len(content) // 2))]
    lasts = [signed(varint(content, place + _NUMBER)[0]) for place in places]
    if len(below_it) != len(lasts) + 1 or any(place + _NUMBER >= len(content) for place in places):
        return []
    edges = [part.first - 1, *lasts, part.last]
    if any(last <= before for before, last in pairwise(edges[:-1])) or edges[-2] >= part.last:
        return []
    return [
        Part(number, before + 1, last, part.depth + 1)
        for number, before, last in zip(below_it, edges[:-1], edges[1:], strict=True)
    ]


def rows_in(content: bytes) -> int:
    """How many rows a page says that it has, 0 if it is none of rows."""
    return number_at(content, 3, 2) if content[:1] == bytes([ROWS]) else 0


def places_in(content: bytes) -> list[int]:
    """Where in a page of rows each of them begins."""
    return [place_of(content, cell) for cell in range(min(rows_in(content), len(content) // 2))]


def place_of(content: bytes, row: int) -> int:
    """Where in a page of rows that row of them begins."""
    return number_at(content, _OF_ROWS + 2 * row, 2)


def values_in(content: bytes) -> int | None:
    """How many values the shortest row in a page of rows has, None if that cannot be told."""
    return min(filter(None, (values_at(content, place) for place in places_in(content))), default=None)


def below(content: bytes, number: int) -> NDArray[np.int64]:
    """The pages below one of a table or an index, none below one of rows."""
    at = _FILE_HEADER if number == 1 else 0
    if content[at : at + 1] not in INNER:
        return _NOTHING
    cells = min(number_at(content, at + 3, 2), (len(content) - at - 12) // 2)
    places = np.frombuffer(content, ">u2", cells, at + 12).astype(np.int64)
    numbers = np.frombuffer(content, np.uint8)[np.minimum(places[:, None], len(content) - 4) + np.arange(4)]
    return np.append(numbers @ (1 << np.array([24, 16, 8, 0])), number_at(content, at + 8, 4))


def values_at(content: bytes, place: int) -> int | None:
    """How many values the row at a place of a page has, None if that is not in this page."""
    payload, at = varint(content, place)
    _, at = varint(content, at)
    length, first = varint(content, at)
    # What a row has at least of its own page, where it goes on in others.
    here = payload if payload <= len(content) - 35 else (len(content) - 12) * 32 // 255 - 23
    if not 0 < length <= here or at + length > len(content):
        return None
    return sum(byte < 0x80 for byte in content[first : at + length])


def size_at(content: bytes, place: int) -> int:
    """How many bytes of a page the row at a place of it takes at least, with the place itself."""
    payload, at = varint(content, place)
    _, at = varint(content, at)
    # Of a long row, which goes on in other pages, a part that is never shorter than this stays.
    return 2 + at - place + min(payload, (len(content) - 12) * 32 // 255 - 23)


def key_at(content: bytes, place: int) -> int:
    """The number of the row at a place of a page of rows."""
    _, at = varint(content, place)
    return signed(varint(content, at)[0])


def number_at(content: bytes, at: int, width: int) -> int:
    """A number of so many bytes at a place of a page."""
    return int.from_bytes(content[at : at + width], "big")


def varint(content: bytes, at: int) -> tuple[int, int]:
    """A number of 7 bits a byte at a place of a page, and the place behind it."""
    value = 0
    for byte in content[at : at + 8]:
        value, at = value << 7 | byte & 0x7F, at + 1
        if byte < 0x80:
            return value, at
    return value << 8 | number_at(content, at, 1), at + 1


def signed(number: int) -> int:
    """A number of 64 bits as SQLite means it."""
    return number - (1 << 64) if number >= 1 << 63 else number
