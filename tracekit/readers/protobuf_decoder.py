"""The protobuf wire format, bounds-checked: what XSpace and HLO files are made of.

Format: https://protobuf.dev/programming-guides/encoding/. `varint` and `skip` are written in numba's subset of
Python, so that the same source runs plain on small files and compiled on large ones. They index `buf`, which may be
bytes, a memory map or a uint8 array, and raise `Broken` instead of reading past `end`.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
# Of a tag the C++ library takes 32 bits, of however many bytes: 8a 80 80 80 10 is field 1, as 0a is.
TAG_BITS = 0xFFFFFFFF
# Lines may be broken and indented in a text; no other of these characters stands in one.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_SHORT = 256  # bytes; what is kept of longer texts could be large

Span = tuple[int, int]


class Broken(Exception):
    """Bytes that are no valid message; `args[0]` is the offset in the buffer."""


def varint(buf: Any, pos: int, end: int) -> tuple[int, int]:
    """The varint at `pos` as a signed 64-bit value, and the offset after it."""
    value = 0
    shift = 0
    start = pos
    while pos < end and shift < 63:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
    # The tenth byte holds the sign alone. It stands outside the loop, which is seven times as fast without it when
    # compiled, and is added, because shifting it there would overflow int64.
    if pos == end or shift < 63 or buf[pos] > 1:
        raise Broken(start)
    return (value - 9223372036854775807 - 1, pos + 1) if buf[pos] else (value, pos + 1)


def skip(buf: Any, pos: int, end: int, wire_type: int) -> int:
    """The offset after the value of `wire_type` that stands at `pos`."""
    if wire_type == 0:
        return varint(buf, pos, end)[1]
    if wire_type == 2:
        size, start = varint(buf, pos, end)
        if size < 0 or size > end - start:
            raise Broken(pos)
        return start + size
    width = 8 if wire_type == 1 else 4
    if (wire_type != 1 and wire_type != 5) or end - pos < width:
        raise Broken(pos)
    return pos + width


def fields(buf: Any, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Each field of the message in [start, end): its number, wire type, and the [from, to) of its value.

    A length-delimited value is given without its length prefix. `buf` is bytes or a memory map.
    """
    pos = start
    while pos < end:
        # Tags and lengths are mostly one byte, and a call for each would take most of the time.
        tag, after = buf[pos], pos + 1
        if tag > 0x7F:
            tag, after = varint(buf, pos, end)
            tag &= TAG_BITS
        number, wire_type = tag >> 3, tag & 7
        if number <= 0:
            raise Broken(pos)
        if wire_type == LENGTH and after < end and buf[after] < 0x80:
            pos = after + 1 + buf[after]
            if pos > end:
                raise Broken(after)
            after += 1
        elif wire_type == VARINT and after < end and buf[after] < 0x80:
            pos = after + 1
        else:
            pos = skip(buf, after, end, wire_type)
            if wire_type == LENGTH:
                after = varint(buf, after, end)[1]
        yield number, wire_type, after, pos


def text(buf: Any, start: int, end: int) -> str:
    """The string in [start, end); bytes that are no UTF-8 stay visible as `\\xNN`."""
    return bytes(buf[start:end]).decode("utf-8", errors="backslashreplace")


def is_text(buf: Any, start: int, end: int) -> bool:
    """Whether the bytes in [start, end) are what a profiler writes as a text: UTF-8 without control characters."""
    try:
        text = bytes(buf[start:end]).decode()
    except UnicodeDecodeError:
        return False
    return text.isprintable() or not _CONTROL.search(text)


class Text(NamedTuple):
    """A string, and whether its bytes are what a profiler writes as a text (`is_text`)."""

    text: str
    is_whole: bool


def checked_text(buf: Any, start: int, end: int) -> Text:
    """The string in [start, end). Each plane of a file has some thousand names, most of which the others have too."""
    raw = bytes(buf[start:end])
    return _checked(raw) if len(raw) <= _SHORT else Text(text(raw, 0, len(raw)), is_text(raw, 0, len(raw)))


@lru_cache(1 << 13)
def _checked(raw: bytes) -> Text:
    return Text(text(raw, 0, len(raw)), is_text(raw, 0, len(raw)))


class Fields:
    """The fields of the message that fills a span of `buf`, bytes or a memory map, to be asked for by number."""

    def __init__(self, buf: Any, span: Span) -> None:
        self.buf = buf
        self._values: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for number, wire_type, start, end in fields(buf, *span):
            self._values[number].append((wire_type, start, end))

    def __contains__(self, number: int) -> bool:
        return number in self._values

    def numbers(self, number: int) -> list[int]:
        """The integers of a field, packed or not."""
        values = []
        for wire_type, at, end in self._values.get(number, ()):
            if wire_type not in (VARINT, LENGTH):
                continue
            while at < end:
                value, at = varint(self.buf, at, end)
                values.append(value)
        return values

    def number(self, number: int, absent: int = 0) -> int:
        """The integer of a field, `absent` if it is not written."""
        return next(iter(self.numbers(number)), absent)

    def messages(self, number: int) -> list[Span]:
        """The spans of a message or string field."""
        return [(start, end) for wire_type, start, end in self._values.get(number, ()) if wire_type == LENGTH]

    def of(self, number: int) -> "list[Fields]":
        """The fields of each message in a field."""
        return [Fields(self.buf, span) for span in self.messages(number)]

    def texts(self, number: int) -> list[str]:
        """The strings of a field."""
        return [text(self.buf, *span) for span in self.messages(number)]

    def text(self, number: int) -> str:
        """The string of a field, "" if it is not written."""
        return next((text(self.buf, *span) for span in self.messages(number)), "")
