"""Protocol buffer messages written many at once, in numpy columns: https://protobuf.dev/programming-guides/encoding/.

A column of n pieces of bytes is a `Pieces`: piece i is `source[start[i]:start[i] + length[i]]`. Messages are columns of
pieces put side by side, so that the length that stands before each message is a sum, and every byte is copied once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

VARINT, FIXED64, LENGTH = 0, 1, 2  # wire types
_SEVEN = np.arange(7, 64, 7, dtype=np.uint64)
_LIMITS = np.left_shift(np.uint64(1), _SEVEN)


@dataclass(frozen=True)
class Pieces:
    """n pieces of `source`, each `length[i]` bytes from `start[i]`; both (n,)."""

    source: Bytes
    start: Ints
    length: Ints

    def __len__(self) -> int:
        return len(self.start)


def varint(value: int) -> bytes:
    """One unsigned number below 2^64; a negative one counts from 2^64 down, as int64 does on the wire."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field that holds one integer."""
    return varint(field << 3 | VARINT) + varint(value)


def message(field: int, content: bytes | str) -> bytes:
    """A field that holds bytes, a message, or a text."""
    content = content if isinstance(content, bytes) else utf8(content)
    return varint(field << 3 | LENGTH) + varint(len(content)) + content


def utf8(text: str) -> bytes:
    """A text of any trace as UTF-8.

    A lone surrogate, which has none, becomes its escape, such as `\\ud800`; and so does the character 0 (`\\x00`), at
    which databases end a text.
    """
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace")


def constants(texts: Sequence[bytes], code: NDArray[np.integer]) -> Pieces:
    """`texts[code]`, with nothing where `code` is negative; `code` (n,). Texts that no code names cost nothing."""
    here: Sequence[bytes] = [*texts, b""]
    if len(texts) > len(code):
        used, code = np.unique(code, return_inverse=True)
        here = [texts[place] if place >= 0 else b"" for place in used.tolist()]
    length = np.array([*map(len, here)], np.int64)
    # Code -1 is the last of `here`, which is empty.
    return Pieces(np.frombuffer(b"".join(here), np.uint8), (np.cumsum(length) - length)[code], length[code])


def repeated(text: bytes, n: int) -> Pieces:
    """`text` n times."""
    return Pieces(np.frombuffer(text, np.uint8), np.zeros(n, np.int64), np.full(n, len(text)))


def varints(values: NDArray[np.integer]) -> Pieces:
    """Each of `values` (n,) as a varint; negative ones take ten bytes, as int64 does on the wire."""
    rest = values.astype(np.int64).view(np.uint64)
    length = np.searchsorted(_LIMITS, rest, side="right") + 1
    widest = int(length.max(initial=1))
    groups = np.empty((len(rest), widest), np.uint8)
    for place in range(widest):
        groups[:, place] = rest & np.uint64(127)
        groups[:, place] |= (length > place + 1).view(np.uint8) << 7
        rest = rest >> np.uint64(7)
    return Pieces(groups.ravel(), np.arange(len(rest)) * widest, length)


def fixed64s(field: int, values: NDArray[np.integer]) -> list[Pieces]:
    """The columns of n fields that hold one integer in eight bytes each."""
    n = len(values)
    content = np.frombuffer(values.astype("<i8").tobytes(), np.uint8)
    return [
        repeated(varint(field << 3 | FIXED64), n),
        Pieces(content, np.arange(n, dtype=np.int64) * 8, np.full(n, 8, np.int64)),
    ]


def only(columns: Sequence[Pieces], there: NDArray[np.bool_]) -> list[Pieces]:
    """The columns, with nothing in the rows that are not `there` (n,)."""
    return [Pieces(column.source, column.start, np.where(there, column.length, 0)) for column in columns]


def grouped(columns: Sequence[Pieces], sizes: Ints) -> Pieces:
    """One piece for each group of rows that follow one another, of `sizes` rows: all that their columns hold."""
    ends = np.concatenate([[0], np.cumsum(lengths(columns))])[np.cumsum(np.concatenate([[0], sizes]))]
    return Pieces(join(columns), ends[:-1], np.diff(ends))


def lengths(columns: Sequence[Pieces]) -> Ints:
    """How many bytes the pieces of each row have together, shape (n,)."""
    total = columns[0].length.copy()
    for column in columns[1:]:
        total += column.length
    return total


def messages(field: int, columns: Sequence[Pieces]) -> list[Pieces]:
    """The columns of n messages, each a field of its own: its tag, its length, and what it holds."""
    size = lengths(columns)
    return [repeated(varint(field << 3 | LENGTH), len(size)), varints(size), *columns]


def numbers(field: int, values: NDArray[np.integer]) -> list[Pieces]:
    """The columns of n fields that hold one integer each."""
    return [repeated(varint(field << 3 | VARINT), len(values)), varints(values)]


def join(columns: Sequence[Pieces]) -> Bytes:
    """The bytes of all rows, one row after the other: of each the pieces of all columns in their order."""
    source = np.concatenate([column.source for column in columns])
    start, length = (np.empty((len(columns[0].start), len(columns)), np.int64) for _ in range(2))
    offset = 0
    for place, column in enumerate(columns):
        start[:, place], length[:, place] = column.start + offset, column.length
        offset += len(column.source)
    there = np.flatnonzero(length.ravel())
    start, length = start.ravel()[there], length.ravel()[there]
    total = int(length.sum())
    small = np.int32 if max(total, len(source)) < 2**31 else np.int64
    # Byte by byte where it comes from; a compiled loop is no faster than these calls, and costs its compilation.
    at = np.repeat((start - np.cumsum(length) + length).astype(small), length)
    at += np.arange(total, dtype=small)
    return source.take(at, mode="clip")
