"""Planes, lines and events as arrays, and the XSpace file made of them: fast, and without a protobuf class.

Schema: tsl/profiler/protobuf/xplane.proto.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

# XStat's fields and the tags they are written with.
_TAGS = {"double": 0x11, "uint64": 0x18, "int64": 0x20, "str": 0x2A, "bytes": 0x32, "ref": 0x38}

# A field of n events: its bytes, shape (n, w), or (1, w) where all are alike; and how many of them count, shape (n,).
_Piece = tuple[Bytes, Ints]


@dataclass(frozen=True)
class Stat:
    """One stat of a line's n events: numbers, or indices into `texts` (str, ref); `has` says which events have it."""

    name: str
    type: str
    values: NDArray[Any]
    texts: Sequence[str] = ()
    has: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Line:
    """One XLine and its n events, whose `name` indexes `names`."""

    id: int
    title: str
    timestamp_ns: int
    names: Sequence[str]
    name: Ints
    offset_ps: Ints
    duration_ps: Ints
    stats: Sequence[Stat] = ()
    display_name: str = ""


@dataclass(frozen=True)
class Plane:
    """One XPlane; `stats` are its own: (name, type, value); `blobs` are metadata of no event: (name, stat, bytes)."""

    id: int
    name: str
    lines: Sequence[Line] = ()
    stats: Sequence[tuple[str, str, Any]] = ()
    blobs: Sequence[tuple[str, str, bytes]] = ()


class _Ids(dict[str, int]):
    """Metadata ids by name, counted from 1 in order of appearance, as the profiler gives them."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self) + 1
        return self[name]

    def all(self, names: Sequence[str]) -> Ints:
        return np.array([self[name] for name in names], np.int64)


def encode(planes: Sequence[Plane], hostname: str) -> Iterator[bytes]:
    """The bytes of the XSpace file, plane by plane."""
    for plane in planes:
        yield message(1, _plane(plane))
    yield message(4, hostname)


def varint(value: int) -> bytes:
    """A number as a varint; negative ones take ten bytes."""
    value &= 0xFFFFFFFFFFFFFFFF
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def number(field: int, value: int) -> bytes:
    """An integer field."""
    return varint(field << 3) + varint(value)


def message(field: int, value: bytes | str) -> bytes:
    """A field that holds a message, a string or bytes."""
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def _plane(plane: Plane) -> bytes:
    """Fields in ascending order, as protobuf writes them: lines stand before the metadata they point at."""
    events, stats = _Ids(), _Ids()
    own = [_plane_stat(stats[name], stat_type, value) for name, stat_type, value in plane.stats]
    lines = [message(3, _line(line, events, stats)) for line in plane.lines]
    blobs = {name: message(5, number(1, stats[stat]) + message(6, value)) for name, stat, value in plane.blobs}
    metadata = [_entry(4, events[name], name, blobs.get(name, b"")) for name in [*events, *blobs]]
    metadata += [_entry(5, key, name) for name, key in stats.items()]
    return b"".join([number(1, plane.id), message(2, plane.name), *lines, *metadata, *own])


def _entry(field: int, key: int, name: str, more: bytes = b"") -> bytes:
    return message(field, number(1, key) + message(2, number(1, key) + message(2, name) + more))


def _plane_stat(stat_id: int, stat_type: str, value: Any) -> bytes:
    field = _TAGS[stat_type] >> 3
    return message(6, number(1, stat_id) + (message(field, value) if stat_type == "str" else number(field, value)))


def _line(line: Line, events: _Ids, stats: _Ids) -> bytes:
    head = number(1, line.id) + message(2, line.title) + number(3, line.timestamp_ns)
    tail = message(11, line.display_name) if line.display_name else b""
    return head + _events(line, events, stats).tobytes() + tail


def _events(line: Line, events: _Ids, stats: _Ids) -> Bytes:
    """All events of the line, each with its tag and length, written field by field."""
    n = len(line.name)
    pieces: list[_Piece] = []
    for field, values in enumerate((events.all(line.names)[line.name], line.offset_ps, line.duration_ps), start=1):
        pieces += [_constant(bytes([field << 3]), n), _varints(values)]
    for stat in line.stats:
        pieces += _stat(stat, stats, n)
    sizes = sum((lengths for _, lengths in pieces), np.zeros(n, np.int64))
    pieces = [_constant(b"\x22", n), _varints(sizes), *pieces]
    whole = sizes + pieces[0][1] + pieces[1][1]
    at = np.cumsum(whole) - whole
    out = np.empty(int(whole.sum()), np.uint8)
    for encoded, lengths in pieces:
        shortest = int(lengths.min(initial=0))
        for byte in range(int(lengths.max(initial=0))):
            rows = slice(None) if byte < shortest else np.flatnonzero(lengths > byte)
            out[at[rows] + byte] = encoded[rows, byte] if len(encoded) == n else encoded[0, byte]
        at = at + lengths
    return out


def _stat(stat: Stat, stats: _Ids, n: int) -> list[_Piece]:
    head = b"\x08" + varint(stats[stat.name]) + bytes([_TAGS[stat.type]])
    if stat.type == "ref":
        value = _varints(stats.all(stat.texts)[stat.values])
    elif stat.type == "str":
        texts = [varint(len(text.encode())) + text.encode() for text in stat.texts]
        width = max(map(len, texts))
        padded = np.frombuffer(b"".join(text.ljust(width) for text in texts), np.uint8).reshape(-1, width)
        value = padded[stat.values], np.array([len(text) for text in texts], np.int64)[stat.values]
    elif stat.type == "double":
        value = np.ascontiguousarray(stat.values, "<f8").view(np.uint8).reshape(-1, 8), np.full(n, 8)
    else:
        value = _varints(stat.values)
    pieces = [_constant(b"\x22", n), _varints(value[1] + len(head)), _constant(head, n), value]
    return pieces if stat.has is None else [(encoded, lengths * stat.has) for encoded, lengths in pieces]


def _constant(constant: bytes, n: int) -> _Piece:
    return np.frombuffer(constant, np.uint8).reshape(1, -1), np.full(n, len(constant))


def _varints(values: NDArray[Any]) -> _Piece:
    remaining = np.ascontiguousarray(values, np.int64).view(np.uint64)
    columns: list[Bytes] = []
    lengths = np.ones(len(remaining), np.int64)
    while True:
        byte = (remaining & np.uint64(0x7F)).astype(np.uint8)
        remaining = remaining >> np.uint64(7)
        more = remaining != 0
        columns.append(byte | more.view(np.uint8) << np.uint8(7))
        if not more.any():
            return np.stack(columns, axis=1), lengths
        lengths += more
