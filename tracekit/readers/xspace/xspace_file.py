"""XSpace files (`*.xplane.pb`) to columns, in one pass over the bytes.

Schema: tsl/profiler/protobuf/xplane.proto; field numbers are asserted in tests against jax's own serialiser. The event
loops at the end are in numba's subset of Python: plain on small files, compiled on large ones.
"""

import codecs
import errno
import mmap
import os
import re
import struct
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, islice, pairwise, starmap
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tracekit import cores
from tracekit.columns import categorical, distinct, many
from tracekit.errors import TraceError
from tracekit.files import opened
from tracekit.jit import compiled, pays, start, without_collection
from tracekit.readers import protobuf_decoder as protobuf
from tracekit.readers import unpacking
from tracekit.readers.content import Content
from tracekit.readers.losses import Lost
from tracekit.readers.protobuf_decoder import Fields, Span
from tracekit.readers.xspace.planes import NO_TEXT, EventMetadata, Line, Plane, XSpace
from tracekit.vocabulary.losses import Loss

S = TypeVar("S")
T = TypeVar("T")

_NO_TEXTS = pd.CategoricalDtype(pd.Index([], dtype="str"))

SUFFIXES = (".xplane.pb", ".xplane.pb.gz")

# How a stat's value was written (XStat's field numbers); 0 = the event does not have the stat.
ABSENT, DOUBLE, UINT64, INT64, STR, BYTES, REF = 0, 2, 3, 4, 5, 6, 7

_WIRE_TYPES = {
    **dict.fromkeys((1, UINT64, INT64, REF), protobuf.VARINT),
    **dict.fromkeys((STR, BYTES), protobuf.LENGTH),
    DOUBLE: protobuf.FIXED64,
}
_PIECE = 1 << 20
_READ_BYTES = 1 << 22
_LONGEST_HEAD = 7  # a tag of a field below 16, and a length
# How a plane begins in a file, with its length, its id and its name; and how what may follow it does.
_PLANE = re.compile(rb"\n([\x80-\xff]{0,4}[\0-\x7f])(?:\x08[\x80-\xff]{0,9}[\0-\x7f])?\x12[\1-\x7f]/(?:device|host):")
_TAGS = frozenset(number << 3 | protobuf.LENGTH for number in range(1, 5))
_LONGEST_NEXT = 30  # tag and length of the next field, or a value that is a number

# The compiled loop holds no GIL, and each line writes rows of its own.
_MOST_THREADS = 4
# Events are decoded while the names of the next planes are read; of so many, so that the bytes of a plane are given
# back before the columns of all are there.
_PLANES_AHEAD = 2

# Of a file made to take long, each plane costs as much as a thousand events, each line as much as forty.
_MOST_PLANES, _MOST_LINES = 10_000, 50_000
# The stats of this plane have the ids of scopes, and no names.
_OF_SCOPES = "/host:__ScopeRangeCallStack__"
# What the stats of an op's metadata are.
_TYPES_IN_METADATA: dict[str, type] = {
    **dict.fromkeys(("hlo_category", "source", "tf_op"), str),
    **dict.fromkeys(("flops", "model_flops", "bytes_accessed", "program_id"), int),
    "Hlo Proto": bytes,
}
_CUT = "its gzip stream ends early"
# The fields of a plane: its id, its name, its lines, and what they and it are told by.
_OF_PLANE = {1: protobuf.VARINT, **dict.fromkeys((2, 3, 4, 5, 6), protobuf.LENGTH)}

# So many names of stats are Python's at once.
_NAMES = 1 << 14

# Stat ids below this are looked up in a table.
_TABLE = 4096
# In place of a row: of a stat that is not asked for, of an id without a name. How such an id is counted.
_UNWANTED, _NAMELESS, _NAMELESS_ONE = -1, -2, 1 << 32

Keep = Callable[[str, str, int], bool]
Needed = Callable[[str, Collection[str]], Collection[str] | None]

# The columns of a table of map entries.
_KEY, _START, _END, _NAME_START, _NAME_END = range(5)

# Below this the plain loops (0.7 s a MB) are done before numba is imported and its code loaded (0.8 s, 3 s at first).
COMPILE_FROM_BYTES = 2_000_000


@dataclass(frozen=True)
class ProtobufPlane(Plane):
    """A plane over the bytes of its file.

    `values` and `types` have shape (k, n) for the k wanted stats in `stat_rows`: the type is one of the constants
    above (uint8), and the value is the number's 64 bits, a stat metadata id (REF) or the offset of a length prefix
    (STR, BYTES). Of a stat that stands twice on one event the last value counts, as protobuf has it for a field.
    """

    stat_rows: dict[str, int]
    values: NDArray[np.int64]
    types: NDArray[np.uint8]
    stat_names: "StatNames"
    _buf: Any = field(repr=False)
    _events: "_Entries" = field(repr=False)
    _damaged: set[Any] = field(default_factory=set, repr=False)
    _texts: dict[str, pd.Categorical] = field(default_factory=dict, repr=False)

    def only(self, kept: NDArray[np.bool_]) -> Self:
        """The plane without the events that are not `kept`, shape (n,)."""
        return replace(super().only(kept), values=self.values[:, kept], types=self.types[:, kept], _texts={})

    @property
    def event_ids(self) -> list[int]:
        """The ids of all event metadata in the plane, used by an event or not."""
        return self._events.in_order()

    def event_names(self, event_ids: NDArray[np.int64]) -> list[str | None] | pa.Array:
        """The name in the metadata of each of `event_ids`."""
        return many(map(self._event_name, event_ids.tolist()))

    def all_metadata(self, event_ids: Sequence[int]) -> Iterator[EventMetadata]:
        """The metadata of each of `event_ids`, decoded when it is asked for."""
        return map(self.event_metadata, event_ids)

    def _event_name(self, event_id: int) -> str:
        """The name in the metadata of `event_id`, without the rest of these where that is whole and cannot matter."""
        name = self._events.name(self._buf, event_id)
        if name is None:
            return self.event_metadata(event_id).name
        if not name.text or not name.is_whole:
            self._damaged.add(event_id)
        return name.text

    def event_metadata(self, event_id: int) -> EventMetadata:
        """The metadata of `event_id`, decoded now; an id without metadata gives empty strings, damaged metadata what
        stands before the damage, and both count as `damaged`."""
        span = self._events.span(event_id)
        if span is None:
            self._damaged.add(event_id)
            return EventMetadata()
        # `Fields` would take twice as long, and a TPU's plane has some thousands of these.
        name, display, stats = "", "", {}
        try:
            for number, wire_type, start, end in protobuf.fields(self._buf, *span):
                if wire_type != protobuf.LENGTH:
                    if number in (2, 4, 5):
                        self._damaged.add(event_id)
                elif number == 2:
                    name = protobuf.text(self._buf, start, end)
                elif number == 4:
                    display = protobuf.text(self._buf, start, end)
                elif number == 5:
                    key, value = _stat(self._buf, start, end, self.stat_names)
                    if key is not None and isinstance(value, _TYPES_IN_METADATA.get(key, object)) and value is not None:
                        stats[key] = value
                    else:
                        self._damaged.add(event_id)
                if number in (2, 4) and not protobuf.is_text(self._buf, start, end):
                    self._damaged.add(event_id)
        except protobuf.Broken:
            self._damaged.add(event_id)
        if not name:
            self._damaged.add(event_id)
        return EventMetadata(name, display, stats)

    @property
    def damaged(self) -> int:
        """How many of the metadata and texts that were asked for are damaged."""
        return len(self._damaged)

    def numbers(self, stat: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The integer stat of every event and whether it has one, both of shape (n,); uint64 keeps its 64 bits."""
        values, types = self._column(stat)
        return values, (types == INT64) | (types == UINT64)

    def reals(self, stat: str) -> NDArray[np.float64]:
        """The numeric stat of every event, shape (n,), nan where absent."""
        values, types = self._column(stat)
        numbers = np.where(types == DOUBLE, values.view(np.float64), values)
        numbers[types == UINT64] = values[types == UINT64].view(np.uint64)
        return np.where((types == DOUBLE) | (types == UINT64) | (types == INT64), numbers, np.nan)

    def has(self, stat: str) -> NDArray[np.bool_]:
        """Whether each event has the stat, in whatever type, shape (n,)."""
        if stat not in self.stat_rows:
            return np.zeros(len(self), np.bool_)
        return np.asarray(self._column(stat)[1] != ABSENT)

    def strings(self, stat: str) -> pd.Categorical:
        """The string stat of every event, shape (n,), null where absent; `str` and `ref` stats give the same text."""
        if stat not in self.stat_rows:
            return pd.Categorical.from_codes(np.full(len(self), -1, np.int8), dtype=_NO_TEXTS)
        if stat not in self._texts:
            self._texts[stat] = self._strings(stat)
        return self._texts[stat]

    def _strings(self, stat: str) -> pd.Categorical:
        values, types = self._column(stat)
        label = np.zeros(len(self), np.int64)
        refs = types == REF
        stat_ids = values[refs]
        places, first = distinct(stat_ids)
        texts: list[Iterable[str | None]] = [[None], self._referred(stat, stat_ids[first])]
        label[refs] = 1 + places
        inline = np.flatnonzero((types == STR) | (types == BYTES))
        if len(inline):
            which, first = self._distinct_strings(values[inline])
            label[inline] = 1 + int(places.max(initial=-1)) + 1 + which
            texts.append(map(self._inline_text, values[inline[first]].tolist()))
        return categorical(many(chain.from_iterable(texts)), label)

    def _referred(self, stat: str, stat_ids: NDArray[np.int64]) -> Iterator[str]:
        """What a stat that refers to each of `stat_ids` says; an op and its module have names, other texts may be
        empty."""
        for stat_id, name in zip(stat_ids.tolist(), self.stat_names.of(stat_ids), strict=True):
            if name is None or (not name and stat in ("hlo_op", "hlo_module")):
                self._damaged.add(("ref", stat_id))
            yield name or ""

    def _inline_text(self, offset: int) -> str:
        raw = self.bytes_at(offset)
        if not protobuf.is_text(raw, 0, len(raw)):
            self._damaged.add(("text", raw))
        return protobuf.text(raw, 0, len(raw))

    def _column(self, stat: str) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """The value and the type of a stat for every event; all ABSENT where the plane does not know it."""
        if stat not in self.stat_rows:
            return np.zeros(len(self), np.int64), np.zeros(len(self), np.uint8)
        return self.values[self.stat_rows[stat]], self.types[self.stat_rows[stat]]

    def _distinct_strings(self, offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which distinct string stands at each offset of a length prefix (n,), and the first row of each."""
        buf = np.frombuffer(self._buf, np.uint8)
        starts, sizes = offsets + 1, buf[offsets].astype(np.int64)
        for row in np.flatnonzero(sizes >= 0x80):  # a prefix of more than one byte
            sizes[row], starts[row] = protobuf.varint(self._buf, int(offsets[row]), len(self._buf))
        return distinct_strings(buf, starts, sizes)

    def bytes_at(self, offset: int) -> bytes:
        """The string or bytes whose length prefix stands at `offset` (a STR or BYTES value)."""
        size, start = protobuf.varint(self._buf, offset, len(self._buf))
        return bytes(self._buf[start : start + size])


def distinct_strings(
    buf: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which distinct byte string buf[start : start + size] every row has (starts and sizes (n,)), and the first row of
    each."""
    which = np.zeros(len(starts), np.int64)
    firsts: list[NDArray[np.int64]] = []
    count = 0
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        # Eight bytes are compared at once, the last of them padded with zeros: all of one size, so that is exact.
        padded = np.zeros((len(rows), max(-(-size // 8), 1) * 8), np.uint8)
        if size:
            padded[:, :size] = sliding_window_view(buf, size)[starts[rows]]
        codes, first = distinct(*np.ascontiguousarray(padded.view(np.uint64).T))
        which[rows] = codes + count
        count += len(first)
        firsts.append(rows[first])
    return which, np.concatenate(firsts) if firsts else np.zeros(0, np.int64)


def is_xspace(content: Content, sure: bool) -> bool:
    """Whether a file is an XSpace, by its name or its first bytes; any `.pb` is if the user named the file (`sure`).

    A protobuf has no magic. An XSpace begins with field 1, a length, then a plane's id, name or lines; a text that
    begins with a line feed begins with the same byte, but not with the same third part: so neither does JSON, though a
    length of 91 or 123 bytes is a bracket.
    """
    head = content.head
    at = 1
    while at < min(len(head), 10) and head[at] & 0x80:
        at += 1
    begins = head[:1] == b"\x0a" and head[at + 1 : at + 2] in (b"\x08", b"\x12", b"\x1a")
    if begins and not content.printable(64):
        return True
    if not head or content.is_sqlite or content.is_zip or content.is_json or content.is_pointer:
        return False
    return content.path.name.endswith((*SUFFIXES, ".pb") if sure else SUFFIXES)


def read(
    path: str | Path,
    stats: Sequence[str],
    keep: Keep = lambda plane, line, line_id: True,
    needed: Needed = lambda plane, known: None,
    texts: Collection[str] = (),
    reals: Collection[str] = (),
) -> XSpace:
    """Decode the XSpace file at `path`, gzipped or not.

    `stats` names the event stats to keep, of a plane only those that `needed(plane name, those of them that it knows)`
    gives, where that is not None. Those named in `texts` and `reals` are texts and numbers with decimals, all others
    integers. Lines for which `keep(plane name, line name, line id)` is false are skipped whole. What is damaged is left
    out and counted in `lost`. Raises TraceError, naming the file and the byte, if the file is empty, or if no plane of
    it is whole.
    """
    path = Path(path)
    wanted = _Stats(frozenset(stats), needed, frozenset(texts), frozenset(reals))
    with _content(path) as content:
        try:
            space = _space(content, wanted, keep)
        except protobuf.Broken as broken:
            raise (
                _not_unpacked(path) if content.is_cut else _cut_short(path, content) or error(path, broken)
            ) from None
    return replace(space, lost=[*space.lost, Lost(Loss.PLANES, None, None, _CUT)]) if content.is_cut else space


def error(path: Path, broken: protobuf.Broken) -> TraceError:
    """What to tell the user of a file that holds bytes which are no message: the planes' metadata is decoded late."""
    return TraceError(
        f"{path} is corrupt or not an XSpace: the bytes at offset {broken.args[0]} are not a valid message. "
        "Copy the file again, in binary mode, or capture the trace again."
    )


def _cut_short(path: Path, content: "_Content") -> TraceError | None:
    """What to tell the user of a file that ends within its first plane, None of any other: one that is damaged, or no
    XSpace, may seem to go on behind its end too, but does not hold the fields of a plane up to there, or is a text."""
    buf = content.buf
    content.until(len(buf))
    start = _after_varint(buf, 1)
    if buf[0] != 1 << 3 | protobuf.LENGTH or start >= len(buf):
        return None
    with suppress(UnicodeDecodeError):  # a copy as text left no other bytes
        codecs.getincrementaldecoder("utf-8")().decode(bytes(buf[:_PIECE]))
        return None
    with suppress(protobuf.Broken):
        missing = start + protobuf.varint(buf, 1, start)[0] - len(buf)
        at = start
        with suppress(protobuf.Broken):
            for number, wire_type, _, end in protobuf.fields(buf, start, len(buf)):
                if _OF_PLANE.get(number) != wire_type:
                    return None
                at = end
        is_field = at == len(buf) or _OF_PLANE.get(int(buf[at]) >> 3) == int(buf[at]) & 7
        if missing > 0 and at > start and is_field:
            return TraceError(
                f"{path} is cut short: it has {len(buf):,} bytes, and {missing:,} more of its first plane alone are "
                "missing. Copy the file again, or capture the trace again."
            )
    return None


@contextmanager
def _content(path: Path) -> Iterator["_Content"]:
    """The bytes of the file at `path` in memory, unpacked if it is gzipped; a thread reads them meanwhile. Raises
    MemoryError if they are more than fit."""
    try:
        with opened(path) as file, ThreadPoolExecutor(1) as reader:
            head = file.read(2)
            if not head:
                raise TraceError(f"{path} is empty: the profiler wrote nothing to it. Capture the trace again.")
            file.seek(0)
            if head == unpacking.GZIP:
                yield _Content(*_unpacked(file, path))
                return
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
            try:
                size = os.fstat(file.fileno()).st_size
                if not size:  # of what /proc holds, nobody knows where it ends
                    raise TraceError(
                        f"{path} has bytes but no size: it is no file on a disk, or was emptied while it was read. "
                        "Copy it when what writes it has finished, and give the copy."
                    )
                yield _held(path, file, size, reader)
            finally:
                reader.shutdown(cancel_futures=True)
    except zlib.error:  # what unpacks before is not checked, and may be wrong
        raise _not_unpacked(path) from None
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError from None
        raise TraceError(f"{path} cannot be read: {error.strerror}. Check the path and its permissions.") from None


def _unpacked(file: BinaryIO, path: Path) -> tuple[bytes, bool]:
    """What a gzipped file holds, and whether it ends early."""
    parts: list[bytes] = []
    try:
        for part in unpacking.gunzipped(file, path):
            parts.append(part)
    except EOFError:
        return b"".join(parts), True
    return b"".join(parts), False


def _not_unpacked(path: Path) -> TraceError:
    return TraceError(
        f"{path} cannot be decompressed: its gzip stream is cut or damaged. "
        "Copy the file again, in binary mode, or capture the trace again."
    )


@dataclass
class _Content:
    """The bytes of a file, all of them or as far as its `parts`, of _READ_BYTES each, are there; `is_cut` if they are
    those of a gzip stream that ends early."""

    buf: Any
    is_cut: bool = False
    parts: deque[Future[None]] = field(default_factory=deque)
    _read: int = 0

    def until(self, end: int) -> None:
        """Return when the bytes before `end` are there. Raises what went wrong when they were read."""
        while self.parts and self._read < end:
            self.parts.popleft().result()
            self._read += _READ_BYTES


def _held(path: Path, file: BinaryIO, size: int, reader: ThreadPoolExecutor) -> _Content:
    """The first `size` bytes of a file, which `reader` begins to read into memory of which parts can be given back.

    A map of the file itself would end the process (SIGBUS) where another cuts the file while it is read.
    """
    flags = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
    buf = mmap.mmap(-1, size, **flags)

    def read_part(at: int) -> None:
        end = min(at + _READ_BYTES, size)
        while at < end:
            with memoryview(buf) as view, view[at:end] as part:
                length = file.readinto(part)  # type: ignore[attr-defined]
            if not length:
                raise TraceError(f"{path} became shorter while it was read. Read it when what writes it has finished.")
            at += length

    return _Content(buf, parts=deque(reader.submit(read_part, at) for at in range(0, size, _READ_BYTES)))


class _CountedLine(NamedTuple):
    """Where a line stands, its header, and how many events it holds."""

    span: Span
    line: Line
    events: int


class _Entries(NamedTuple):
    """The entries of a `map<int64, message>` that are whole: the `keys` (k,), which rise, and the row of each in
    `table` (m, 5), whose columns are those of `read_entries`. A dict of 400,000 took 60 MB more."""

    keys: NDArray[np.int64]
    rows: NDArray[np.int64]
    table: NDArray[np.int64]

    def in_order(self) -> list[int]:
        """The keys as they stand in the file, each once."""
        return [*dict.fromkeys(self.table[self.table[:, _START] >= 0, _KEY].tolist())]

    def span(self, key: int) -> Span | None:
        """Where the message of a key stands, None if there is none."""
        at = self._row(key)
        return None if at is None else (self.table.item(at, _START), self.table.item(at, _END))

    def name(self, buf: Any, key: int) -> protobuf.Text | None:
        """The name in the message of a key; None where only the whole message tells it, or there is none."""
        at = self._row(key)
        return None if at is None else self.name_at(buf, at)

    def name_at(self, buf: Any, row: int) -> protobuf.Text | None:
        """The name in the message of a row of the table; None where only the whole message tells it."""
        start = self.table.item(row, _NAME_START)
        return None if start < 0 else protobuf.checked_text(buf, start, self.table.item(row, _NAME_END))

    def _row(self, key: int) -> int | None:
        at = _place(self.keys, key)
        return None if at is None else self.rows.item(at)


def _place(rising: NDArray[np.int64], value: int) -> int | None:
    """Where a value stands among others, None if it does not."""
    at = int(rising.searchsorted(value)) if -(1 << 63) <= value < 1 << 63 else len(rising)
    return at if at < len(rising) and rising.item(at) == value else None


class StatNames(Mapping[int, str]):
    """The names of a plane's stats by their ids, "" of one without. XLA writes texts that repeat as such, so that there
    may be many; of these, one that is asked for by itself is kept."""

    def __init__(self, ids: NDArray[np.int64], names: list[str | None] | pa.Array) -> None:
        self._ids = ids
        self._names = names if isinstance(names, pa.Array) else None
        self._asked = {} if self._names is not None else dict(zip(ids.tolist(), names, strict=True))

    def __getitem__(self, stat_id: int) -> str:
        name = self.get(stat_id)
        if name is None:
            raise KeyError(stat_id)
        return str(name)

    def get(self, stat_id: int, default: Any = None) -> Any:
        """The name of a stat."""
        if self._names is not None and stat_id not in self._asked:
            at = _place(self._ids, stat_id)
            self._asked[stat_id] = None if at is None else self._names[at].as_py()
        name = self._asked.get(stat_id)
        return default if name is None else name

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids.tolist())

    def __len__(self) -> int:
        return len(self._ids)

    def of(self, stat_ids: NDArray[np.int64]) -> Iterable[str | None]:
        """The name of each, None where there is none."""
        if self._names is None:
            return map(self._asked.get, stat_ids.tolist())
        at = np.searchsorted(self._ids, stat_ids)
        is_there = np.append(self._ids, 0)[at] == stat_ids
        is_there &= at < len(self._ids)
        names = self._names.take(pa.array(at, mask=~is_there))
        return chain.from_iterable(names.slice(part, _NAMES).to_pylist() for part in range(0, len(names), _NAMES))

    def named(self) -> NDArray[np.int64]:
        """The ids of stats that have a name."""
        if self._names is None:
            return np.array([stat_id for stat_id, name in self._asked.items() if name], np.int64)
        has_name: NDArray[np.bool_] = pc.not_equal(self._names, "").to_numpy(zero_copy_only=False)
        return self._ids[has_name]

    def ids_of(self, names: Collection[str]) -> dict[str, list[int]]:
        """The ids of each of the names that there are."""
        pairs: Iterable[tuple[int, str | None]] = self._asked.items()
        if self._names is not None:
            is_sought = pc.is_in(self._names, pa.array(sorted(names), pa.large_string()))
            sought = self._ids[is_sought.to_numpy(zero_copy_only=False)]
            pairs = zip(sought.tolist(), self._names.filter(is_sought).to_pylist(), strict=True)
        ids: dict[str, list[int]] = {}
        for stat_id, name in pairs:
            if name in names:
                ids.setdefault(str(name), []).append(stat_id)
        return ids


class EventColumns(NamedTuple):
    """The events of a plane as columns for the loops to fill: `values` and `types` (k, n) for k stats, others (n,)."""

    metadata_id: NDArray[np.int64]
    offset_ps: NDArray[np.int64]
    duration_ps: NDArray[np.int64]
    occurrences: NDArray[np.int64]
    values: NDArray[np.int64]
    types: NDArray[np.uint8]


class StatRows(NamedTuple):
    """Which row of `values` and `types` a stat id has, or _UNWANTED or _NAMELESS: `near` by the id; ids beyond it, as
    an id may be huge, are looked up in the rising `far_ids`, their rows in `far_rows`; all others have `outside`."""

    near: NDArray[np.int64]
    far_ids: NDArray[np.int64]
    far_rows: NDArray[np.int64]
    outside: int


@dataclass(frozen=True)
class _Stats:
    """The event stats to keep, `all` or those `needed` of a plane that knows some of them, and what they are."""

    all: frozenset[str]
    needed: Needed
    texts: frozenset[str]
    reals: frozenset[str]

    def of(self, plane: str, known: Collection[str]) -> frozenset[str]:
        """The stats to keep of a plane that knows these of all."""
        needed = self.needed(plane, known)
        return self.all if needed is None else self.all & set(needed)

    def of_another_type(self, stat_rows: dict[str, int], types: NDArray[np.uint8]) -> int:
        """How many values of stats that should be texts are numbers, and the other way round; `types` as a plane has
        them."""
        count = 0
        for stat, row in stat_rows.items():
            if stat in self.texts:
                count += int(np.count_nonzero(types[row] - np.uint8(DOUBLE) < STR - DOUBLE))
            else:
                count += int(np.count_nonzero(types[row] > INT64))
                count += 0 if stat in self.reals else int(np.count_nonzero(types[row] == DOUBLE))
        return count


@dataclass(frozen=True)
class _File:
    """The bytes of a file, as they are and as the loops over its events take them, these loops, and in `lines_left`
    how many more lines of it are read."""

    buf: Any
    view: Any
    loops: "_Loops"
    lines_left: list[int] = field(default_factory=lambda: [_MOST_LINES])


class _Loops(NamedTuple):
    """The loops over the bytes of a plane."""

    read_spans: Callable[..., int]
    read_entries: Callable[..., int]
    count_events: Callable[..., int]
    decode_events: Callable[..., int]


def _space(content: _Content, stats: _Stats, keep: Keep) -> XSpace:
    file = _file(content.buf)  # numba starts while the first bytes are read
    texts: dict[int, list[str]] = {2: [], 3: [], 4: []}
    planes: list[Plane] = []
    damaged: list[protobuf.Broken] = []
    lost: list[Lost] = []
    lost_of_planes: list[Lost] = []
    spans = _planes(content, texts, lost)
    with ThreadPoolExecutor(cores.threads(_MOST_THREADS)) as pool:
        begun = ((span, _begun(file, pool, span, stats, keep)) for span in islice(spans, _MOST_PLANES))
        for span, plane in _ahead(begun, _PLANES_AHEAD):
            if isinstance(plane, protobuf.Broken):
                damaged.append(plane)
                lost_of_planes.append(_lost_plane(content.buf, span, plane))
            else:
                whole, lost_of_plane = plane()
                planes.append(whole)
                lost_of_planes += lost_of_plane
    if behind := sum(1 for _ in spans):
        evidence = f"behind the first {_MOST_PLANES}, which are more than any machine has"
        lost.append(Lost(Loss.PLANES, behind, _MOST_PLANES + behind, evidence))
    if not planes:
        raise damaged[0] if damaged else protobuf.Broken(0)
    return XSpace(planes, texts[2], texts[3], texts[4], [*lost, *lost_of_planes])


def _ahead(values: Iterable[T], count: int) -> Iterator[T]:
    """The values, each when `count` more have been made."""
    waiting: deque[T] = deque()
    for value in values:
        waiting.append(value)
        if len(waiting) > count:
            yield waiting.popleft()
    yield from waiting


def _planes(content: _Content, texts: dict[int, list[str]], lost: list[Lost]) -> Iterator[Span]:
    """Where each plane of a file stands, when its bytes are there; the file's `texts` are added by their field, and to
    what is `lost` what is no message, and how it ends where that is none. Where it is none in between, or a plane is
    shorter or longer than it says, it goes on with the next one that is whole."""
    buf = content.buf
    is_first = True
    at = whole = plane = 0
    while True:
        try:
            content.until(at + _LONGEST_NEXT)
            for number, wire_type, start, end in protobuf.fields(buf, at, len(buf)):
                content.until(end + _LONGEST_NEXT)
                is_known = number == 1 or number in texts
                is_strange = not is_known and not _is_message(buf, wire_type, start, end)
                if is_strange and (next_plane := _next_plane(buf, whole, end)) is not None:
                    break
                if number == 1 and wire_type == protobuf.LENGTH:
                    if start < end or is_first:  # an empty one says nothing
                        yield start, end
                        is_first, plane = False, whole
                elif wire_type == protobuf.LENGTH and (name := _plane_name(buf, (start, end))):
                    what = Loss.PLANES if _has_work(name) else Loss.DETAILS
                    lost.append(Lost(what, 1, None, f"{name} stands where no plane does, in field {number}"))
                elif number in texts and wire_type == protobuf.LENGTH:
                    texts[number].append(protobuf.text(buf, start, end))
                elif is_known:
                    what = Loss.PLANES if number == 1 else Loss.DETAILS
                    lost.append(Lost(what, 1, None, f"no message at byte {start}"))
                whole = end
            else:
                return
        except protobuf.Broken as broken:
            content.until(len(buf))
            if (next_plane := _next_plane(buf, plane + (not is_first), len(buf))) is None:
                if is_first:
                    raise
                lost.append(_lost_end(buf, whole, broken))
                return
        if next_plane > whole:
            evidence = f"no message from byte {whole} to {next_plane}"
            lost.append(Lost(Loss.BYTES, next_plane - whole, len(buf), evidence))
        at = whole = plane = next_plane
        is_first = False


def _is_message(buf: Any, wire_type: int, start: int, end: int) -> bool:
    """Whether a value is a message, as one of a field that other versions have may be."""
    try:
        return wire_type == protobuf.LENGTH and all(protobuf.fields(buf, start, end))
    except protobuf.Broken:
        return False


def _next_plane(buf: Any, begin: int, end: int) -> int | None:
    """Where a plane of a device or a host begins first, of so many bytes that another message follows; None if none
    does."""
    for match in _PLANE.finditer(buf, begin, end):
        length, start = protobuf.varint(buf, match.start(1), len(buf))
        behind = start + length
        if behind == len(buf) or (behind < len(buf) and buf[behind] in _TAGS):
            return match.start()
    return None


def _lost_end(buf: Any, whole: int, broken: protobuf.Broken) -> Lost:
    """How a file ends that is no message behind the byte `whole`."""
    if buf[whole] == 1 << 3 | protobuf.LENGTH:
        return _lost_plane(buf, (_after_varint(buf, whole + 1), len(buf)), broken)
    zeros = all(not any(buf[at : at + _PIECE]) for at in range(whole, len(buf), _PIECE))
    evidence = f"{'zeros' if zeros else 'no message'} from byte {whole} on"
    return Lost(Loss.BYTES, len(buf) - whole, len(buf), evidence)


def _after_varint(buf: Any, at: int) -> int:
    """The offset after the varint at `at`, or the end of the file."""
    return next((place + 1 for place in range(at, len(buf)) if buf[place] < 0x80), len(buf))


def _lost_plane(buf: Any, span: Span, broken: protobuf.Broken) -> Lost:
    """A plane that is damaged or cut; one that holds no work is a detail."""
    name = _plane_name(buf, span, "")
    evidence = f"{name or 'a plane without a name'} is damaged at byte {broken.args[0]}"
    return Lost(Loss.PLANES if _has_work(name) else Loss.DETAILS, 1, None, evidence)


def _plane_name(buf: Any, span: Span, begin: str = "/") -> str:
    """The name of the plane at a span, as far as that is one, if it begins so; "" else."""
    with suppress(protobuf.Broken):
        for number, wire_type, start, end in protobuf.fields(buf, *span):
            if (number, wire_type) == (2, protobuf.LENGTH):
                name = protobuf.text(buf, start, end)
                return name if name.startswith(begin) else ""
    return ""


def _has_work(plane: str) -> bool:
    """Whether a plane of this name may hold work, as one may whose name is not known."""
    return not plane or plane.startswith(("/device:", "/host:CPU"))


def _whole(decode: Callable[[S], T], places: Sequence[S]) -> tuple[list[T], int]:
    """What `decode` gives of each message that is whole, told by its place, and how many are not."""
    decoded = []
    for place in places:
        with suppress(protobuf.Broken):
            decoded.append(decode(place))
    return decoded, len(places) - len(decoded)


def _begun(
    file: _File, pool: ThreadPoolExecutor, span: Span, stats: _Stats, keep: Keep
) -> Callable[[], tuple[ProtobufPlane, list[Lost]]] | protobuf.Broken:
    """What gives the plane at a span, and what of it is damaged, once its events are decoded, which the `pool` begins
    with; Broken where the plane's own fields are no message."""
    try:
        return _plane(file, pool, span, stats, keep)
    except protobuf.Broken as broken:
        return broken


def _plane(
    file: _File, pool: ThreadPoolExecutor, span: Span, stats: _Stats, keep: Keep
) -> Callable[[], tuple[ProtobufPlane, list[Lost]]]:
    """What `_begun` says; raises Broken."""
    buf = file.buf
    fields, bad_fields = _fields(file, span)
    if bad_fields[2]:
        raise protobuf.Broken(span[0])
    name = next((protobuf.text(buf, *field) for field in fields[2].tolist()), "")
    stat_entries, bad_names = _entries(file, fields[5])
    stat_names, bad_texts = _stat_names(buf, stat_entries)
    bad_names += bad_texts
    ids_of = stat_names.ids_of(stats.all)
    stat_rows, rows_by_id = _stat_rows(stat_names, ids_of, stats.of(name, ids_of.keys()))
    lines = _spans(fields[3])
    read, behind = lines[: file.lines_left[0]], max(len(lines) - file.lines_left[0], 0)
    file.lines_left[0] -= len(read)
    headers, bad_lines = _whole(lambda line: _counted(file, line), read)
    bad_lines += bad_fields[3]
    kept = [each for each in headers if keep(name, each.line.name, each.line.id)]
    decoded = _decoding(file, pool, kept, rows_by_id, len(stat_rows))
    own_stats, bad_stats = _whole(lambda stat: _stat(buf, *stat, stat_names), _spans(fields[6]))
    if name != _OF_SCOPES:
        bad_stats += sum(stat is None or value is None for stat, value in own_stats)
    bad_stats += bad_fields[4] + bad_fields[5] + bad_fields[6]
    event_entries, bad_events = _entries(file, fields[4])

    def whole() -> tuple[ProtobufPlane, list[Lost]]:
        (columns, bad, nameless), whole_lines = decoded(), kept
        if bad:
            whole_lines = [each for at, each in enumerate(kept) if at not in bad]
            columns, *_ = _decoding(file, pool, whole_lines, rows_by_id, len(stat_rows))()
        is_device = name.startswith("/device:")
        names = [each.line.name for each in whole_lines if each.events and not is_device]
        nameless_lines = sum(NO_TEXT.search(each) is not None for each in names)
        lost_stats = nameless + stats.of_another_type(stat_rows, columns.types)
        has_text = _have_texts(headers, whole_lines, columns)
        for first, last in _runs([each.span for each, has in zip(headers, has_text, strict=True) if not has]):
            _release(buf, first, last)
        least = name
        if events_of_bad := sum(kept[at].events for at in bad):
            least += f", with at least {events_of_bad:,} events"
        least += f"; a file of more than {_MOST_LINES:,} lines is none of a profiler" if behind else ""
        lost = [
            Lost(Loss.LINES, bad_lines + len(bad) + behind, len(lines) + bad_fields[3], least),
            Lost(
                Loss.DETAILS,
                bad_names + bad_stats + bad_events + lost_stats + nameless_lines,
                None,
                f"names and stats of {name}",
            ),
        ]
        events = np.array([each.events for each in whole_lines], np.int64)
        plane = ProtobufPlane(
            name=name,
            lines=[each.line for each in whole_lines],
            line=np.repeat(np.arange(len(events), dtype=np.int64), events),
            stats={stat: value for stat, value in own_stats if stat is not None and value is not None},
            **columns._asdict(),
            stat_rows=stat_rows,
            stat_names=stat_names,
            lost_stats=lost_stats,
            _buf=buf,
            _events=event_entries,
        )
        return plane, [each for each in lost if each.lost]

    return whole


def _counted(file: _File, span: Span) -> _CountedLine:
    where = np.full(16, -1, np.int64)
    count = file.loops.count_events(file.view, *span, where)
    return _CountedLine(span, _line(file.buf, span[1], where), count)


def _fields(file: _File, span: Span) -> tuple[dict[int, NDArray[np.int64]], list[int]]:
    """The spans (k, 2) of the messages and texts that a plane has in each of its fields, and how many values of each
    field are none. Raises Broken where the plane is no message."""
    spans = np.empty((file.loops.read_spans(file.view, *span, np.empty((0, 3), np.int64)), 3), np.int64)
    file.loops.read_spans(file.view, *span, spans)
    filled = spans[:, 1] < spans[:, 2]  # an empty message says nothing
    bad = np.bincount(spans[(spans[:, 0] <= 6) & (spans[:, 1] > spans[:, 2]), 0], minlength=7)
    return {number: spans[(spans[:, 0] == number) & filled, 1:] for number in range(1, 7)}, bad.tolist()


def _spans(table: NDArray[np.int64]) -> list[Span]:
    return [(start, end) for start, end in table.tolist()]


def _entries(file: _File, spans: NDArray[np.int64]) -> tuple[_Entries, int]:
    """The entries of a map at `spans` (m, 2), and how many are damaged or have a key that is not the id in them or of
    two; of equal keys the last counts."""
    table = np.full((len(spans), 5), -1, np.int64)
    strange = 0
    try:
        strange = file.loops.read_entries(file.view, spans, table)
    except protobuf.Broken:
        table[:] = -1  # one is damaged: each is looked at by itself
    is_whole = np.ones(len(spans), bool)
    for at in np.flatnonzero(table[:, _START] < 0).tolist():
        try:
            key, (start, end) = _entry(file.buf, *spans[at].tolist())
            table[at, :3] = key, start, end
            strange += Fields(file.buf, (start, end)).number(1, key) != key
        except protobuf.Broken:
            is_whole[at] = False
    rows = np.flatnonzero(is_whole)
    rows = rows[np.argsort(table[rows, _KEY], kind="stable")]
    keys = table[rows, _KEY]
    is_last = np.append(keys[1:] != keys[:-1], True)[: len(keys)]
    entries = _Entries(keys[is_last], rows[is_last], table)
    return entries, len(spans) - len(entries.keys) + strange


def _stat_names(buf: Any, entries: _Entries) -> tuple[StatNames, int]:
    """The name of each stat by its id, "" if it has none, and how many are damaged."""
    bad = 0
    lost = np.zeros(len(entries.keys), np.bool_)

    def name_of(at: int, row: int) -> str:
        nonlocal bad
        if name := entries.name_at(buf, row):
            bad += not name.is_whole
            return name.text
        try:
            return _stat_name(buf, (entries.table.item(row, _START), entries.table.item(row, _END)))
        except protobuf.Broken:
            bad += 1
            lost[at] = True
            return ""

    names = many(starmap(name_of, enumerate(entries.rows.tolist())))
    if lost.any():
        kept = np.flatnonzero(~lost)
        names = names.take(pa.array(kept)) if isinstance(names, pa.Array) else [names[at] for at in kept.tolist()]
        return StatNames(entries.keys[kept], names), bad
    return StatNames(entries.keys, names), bad


def _stat_name(buf: Any, span: Span) -> str:
    entry = Fields(buf, span)
    if 2 in entry and not entry.messages(2):
        raise protobuf.Broken(span[0])
    return entry.text(2)


def _stat_rows(
    stat_names: StatNames, ids_of: Mapping[str, Sequence[int]], stats: frozenset[str]
) -> tuple[dict[str, int], StatRows]:
    """The row of each of the `stats` that the plane knows, by name and by id; several ids may carry one name."""
    by_name = {stat: row for row, stat in enumerate(sorted(stats & ids_of.keys()))}
    by_id = {key: row for stat, row in by_name.items() for key in ids_of[stat]}
    named = stat_names.named()
    in_table = named[(named >= 0) & (named < _TABLE)]
    near = np.full(int(in_table.max(initial=-1)) + 1, _NAMELESS, np.int64)
    near[in_table] = [by_id.get(key, _UNWANTED) for key in in_table.tolist()]
    far = sorted(key for key in by_id if not 0 <= key < _TABLE)
    outside = _NAMELESS if len(in_table) == len(named) else _UNWANTED
    return by_name, StatRows(near, np.array(far, np.int64), np.array([by_id[key] for key in far], np.int64), outside)


def _decoding(
    file: _File, pool: ThreadPoolExecutor, lines: list[_CountedLine], stat_rows: StatRows, stats: int
) -> Callable[[], tuple[EventColumns, set[int], int]]:
    """What gives the events of the `lines` with `stats` rows of stats, which of the lines are damaged, and how many
    stats of the others have an id that has no name, once the `pool` has decoded them."""
    counts = [each.events for each in lines]
    n = sum(counts)
    metadata_id, offset_ps, duration_ps, occurrences = np.zeros((4, n), np.int64)
    values, types = np.zeros((stats, n), np.int64), np.zeros((stats, n), np.uint8)
    columns = EventColumns(metadata_id, offset_ps, duration_ps, occurrences, values, types)
    first_rows = np.cumsum([0, *counts])[:-1].tolist()
    jobs = [(file.view, *each.span, row, stat_rows, columns) for each, row in zip(lines, first_rows, strict=True)]

    def counts_of(job: tuple[Any, ...]) -> int:
        try:
            return file.loops.decode_events(*job)
        except protobuf.Broken:
            return -1

    # The plain loop, which threads cannot share, runs when it is asked for.
    decoded: Iterable[int] = map(counts_of, jobs) if file.view is file.buf else pool.map(counts_of, jobs)

    def ended() -> tuple[EventColumns, set[int], int]:
        counted = [*decoded]
        # As a rule no event is aggregated: then their column stays memory that was never written, and takes none.
        is_aggregated = any(count > 0 and count % _NAMELESS_ONE for count in counted)
        whole = ~occurrences if is_aggregated else np.broadcast_to(np.int64(-1), n)
        nameless = sum(count // _NAMELESS_ONE for count in counted if count > 0)
        return columns._replace(occurrences=whole), {at for at, count in enumerate(counted) if count < 0}, nameless

    return ended


def _have_texts(headers: list[_CountedLine], kept: list[_CountedLine], columns: EventColumns) -> list[bool]:
    """Whether the bytes of a line hold texts of its events, which are read when they are asked for."""
    has_text = np.zeros(len(columns.metadata_id), np.bool_)
    for types in columns.types:
        has_text |= (types == STR) | (types == BYTES)
    edges = np.cumsum([0, *(each.events for each in kept)]).tolist()
    spans = {each.span for each, rows in zip(kept, pairwise(edges), strict=True) if has_text[slice(*rows)].any()}
    return [each.span in spans for each in headers]


def _runs(spans: list[Span]) -> list[Span]:
    """Spans one after the other as one; between two there is only the tag and the length of the next."""
    runs: list[Span] = []
    for first, last in sorted(spans):
        if runs and first - runs[-1][1] < _LONGEST_HEAD:
            runs[-1] = runs[-1][0], last
        else:
            runs.append((first, last))
    return runs


def _release(buf: Any, start: int, end: int) -> None:
    """Give back the pages that lie in [start, end): nothing reads them again."""
    first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
    if last > first and isinstance(buf, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        buf.madvise(mmap.MADV_DONTNEED, first, last - first)


def _entry(buf: Any, start: int, end: int) -> tuple[int, Span]:
    """Key and value span of one `map<int64, message>` entry."""
    if start < end and buf[start] == 0x08:  # as every writer has it: key, value, nothing else
        key, at = protobuf.varint(buf, start + 1, end)
        if at < end and buf[at] == 0x12:
            size, at = protobuf.varint(buf, at + 1, end)
            if size == end - at:
                return key, (at, end)
    entry = Fields(buf, (start, end))
    if (1 in entry and not entry.numbers(1)) or (2 in entry and not entry.messages(2)):
        raise protobuf.Broken(start)
    return entry.number(1), next(iter(entry.messages(2)), (end, end))


def _stat(buf: Any, start: int, end: int, stat_names: StatNames) -> tuple[str | None, Any]:
    """Name and value of one XStat outside the event loop, with refs resolved; None of either that it does not tell."""
    key, value = 0, None
    for number, wire_type, at, to in protobuf.fields(buf, start, end):
        if wire_type != _WIRE_TYPES.get(number, wire_type):
            raise protobuf.Broken(at)
        if number == 1:
            key = protobuf.varint(buf, at, to)[0]
        elif number == DOUBLE:
            value = struct.unpack("<d", buf[at:to])[0]
        elif number == UINT64:
            value = protobuf.varint(buf, at, to)[0] & 0xFFFFFFFFFFFFFFFF
        elif number == INT64:
            value = protobuf.varint(buf, at, to)[0]
        elif number == STR:
            value = protobuf.text(buf, at, to)
        elif number == BYTES:
            value = bytes(buf[at:to])
        elif number == REF:
            value = stat_names.get(protobuf.varint(buf, at, to)[0])
        if number == STR and not protobuf.is_text(buf, at, to):
            raise protobuf.Broken(at)
    return stat_names.get(key) or None, value


def _line(buf: Any, end: int, where: NDArray[np.int64]) -> Line:
    """The header whose fields stand at the offsets `where`, indexed by field number (-1 = absent)."""

    def number(field_number: int) -> int:
        at = int(where[field_number])
        return protobuf.varint(buf, at, end)[0] if at >= 0 else 0

    def string(field_number: int) -> str:
        at = int(where[field_number])
        if at < 0:
            return ""
        size, start = protobuf.varint(buf, at, end)
        return protobuf.text(buf, start, start + size)

    return Line(number(1), string(2), string(11), number(3), number(9))


def read_spans(buf: Any, pos: int, end: int, spans: NDArray[np.int64]) -> int:
    """Count the length-delimited fields of the message in [pos, end), and write number, start and end of each to the
    rows of `spans` (m, 3), if there are any; so too fields 2 to 6 of another wire type, whose end is before their
    start."""
    count = 0
    while pos < end:
        tag, after = protobuf.varint(buf, pos, end)
        tag &= protobuf.TAG_BITS
        if tag >> 3 <= 0:
            wrong = pos  # numba before 0.66 raises with the first value that a variable had
            raise protobuf.Broken(wrong)
        pos = protobuf.skip(buf, after, end, tag & 7)
        if tag & 7 == 2:
            if len(spans):
                spans[count, 0] = tag >> 3
                spans[count, 1] = protobuf.varint(buf, after, end)[1]
                spans[count, 2] = pos
            count += 1
        elif 2 <= tag >> 3 <= 6:
            if len(spans):
                spans[count, 0] = tag >> 3
                spans[count, 1] = pos
                spans[count, 2] = after
            count += 1
    return count


def read_entries(buf: Any, spans: NDArray[np.int64], table: NDArray[np.int64]) -> int:
    """Write key, start and end of the message, start and end of its name (field 2) of each map entry at `spans` (m, 2)
    to the rows of `table` (m, 5), which hold -1.

    They stay -1 where an entry is not as every writer has it, key, value, nothing else; the name's where there are
    several, or texts of another wire type, or stats (field 5), which may be damaged. Without a name its span is empty.
    How many of the entries have a key that is not the id (field 1) of their message.
    """
    strange = 0
    for row in range(len(spans)):
        at = spans[row, 0]
        end = spans[row, 1]
        if at >= end or buf[at] != 8:
            continue
        key, at = protobuf.varint(buf, at + 1, end)
        if at >= end or buf[at] != 18:
            continue
        size, at = protobuf.varint(buf, at + 1, end)
        if size != end - at:
            continue
        table[row, 0] = key
        table[row, 1] = at
        table[row, 2] = end
        start = end
        stop = end
        names = 0
        own = 0
        while at < end:
            tag, after = protobuf.varint(buf, at, end)
            tag &= protobuf.TAG_BITS
            if tag >> 3 <= 0:
                wrong = at
                raise protobuf.Broken(wrong)
            at = protobuf.skip(buf, after, end, tag & 7)
            if tag == 18:
                start = protobuf.varint(buf, after, end)[1]
                stop = at
                names += 1
            elif tag == 8:
                own = protobuf.varint(buf, after, end)[0]
            elif tag >> 3 == 5 or tag >> 3 == 2 or (tag >> 3 == 4 and tag != 34):
                names = 2
        if own and own != key:  # who writes it by hand may leave it out
            strange += 1
        if names < 2:
            table[row, 3] = start
            table[row, 4] = stop
    return strange


def count_events(buf: Any, pos: int, end: int, where: NDArray[np.int64]) -> int:
    """Count the events of the line in [pos, end) and note where each other field's value stands. Raises Broken where
    one has another wire type than its own."""
    count = 0
    while pos < end:
        tag, after = protobuf.varint(buf, pos, end)
        tag &= protobuf.TAG_BITS
        number = tag >> 3
        if number <= 0:
            wrong = pos
            raise protobuf.Broken(wrong)
        if tag == 34:  # field 4, length-delimited: an event
            count += 1
        elif number < 16:
            if tag & 7 != (2 if number == 2 or number == 4 or number == 11 else 0) and not 5 <= number <= 8:
                wrong = pos
                raise protobuf.Broken(wrong)
            where[number] = after
        pos = protobuf.skip(buf, after, end, tag & 7)
    return count


def decode_events(buf: Any, pos: int, end: int, row: int, stat_rows: StatRows, columns: EventColumns) -> int:
    """Write the events of the line in [pos, end) to the columns, which hold zeros, from `row` on. How many of them are
    aggregated: only of these `occurrences` is written, and all its bits are turned over; plus _NAMELESS_ONE for each
    stat with an id that has no name, and each that is asked for and has no value.

    An event with a field of another wire type than its own is damaged: its duration is -1.

    One loop in one function: with the stats in a function of their own it takes eight times as long when compiled.
    """
    near, far_ids, far_rows, outside = stat_rows
    metadata_id, offset_ps, duration_ps, occurrences, values, types = columns
    aggregated = 0
    while pos < end:
        tag, after = protobuf.varint(buf, pos, end)
        if tag & protobuf.TAG_BITS != 34:  # not field 4, an event
            pos = protobuf.skip(buf, after, end, tag & 7)
            continue
        size, at = protobuf.varint(buf, after, end)
        if size < 0 or size > end - at:
            wrong = after
            raise protobuf.Broken(wrong)
        pos = at + size
        is_damaged = False
        while at < pos:
            # A tag is one byte; more are a field that is not known here, or bytes too many.
            tag = buf[at] & 0xFF
            after = at + 1
            if tag > 127:
                tag, after = protobuf.varint(buf, at, pos)
                tag &= protobuf.TAG_BITS
            if tag == 8:
                metadata_id[row], at = protobuf.varint(buf, after, pos)
            elif tag == 16:
                offset_ps[row], at = protobuf.varint(buf, after, pos)
                if aggregated:
                    occurrences[row] = 0
            elif tag == 24:
                duration_ps[row], at = protobuf.varint(buf, after, pos)
            elif tag == 40:  # a oneof: the offset is then not set
                times, at = protobuf.varint(buf, after, pos)
                occurrences[row] = ~times
                offset_ps[row] = 0
                aggregated += 1
            elif tag == 34:  # field 4: a stat
                if after < pos and buf[after] < 128:  # a seventh of the loop's time less
                    size = buf[after] & 0x7F
                    inner = after + 1
                else:
                    size, inner = protobuf.varint(buf, after, pos)
                if size < 0 or size > pos - inner:
                    wrong = after
                    raise protobuf.Broken(wrong)
                at = inner + size
                slot = near[0] if len(near) else outside  # an id of 0 is not written
                kind = 0
                value = 0
                while inner < at:
                    tag = buf[inner] & 0xFF
                    after = inner + 1
                    if tag > 127:
                        tag, after = protobuf.varint(buf, inner, at)
                        tag &= protobuf.TAG_BITS
                    if tag == 8:
                        stat_id, inner = protobuf.varint(buf, after, at)
                        slot = outside
                        if 0 <= stat_id < len(near):
                            slot = near[stat_id]
                        else:
                            low = 0
                            high = len(far_ids)
                            while low < high:
                                middle = (low + high) // 2
                                if far_ids[middle] < stat_id:
                                    low = middle + 1
                                else:
                                    high = middle
                            if low < len(far_ids) and far_ids[low] == stat_id:
                                slot = far_rows[low]
                        if slot < 0:  # not wanted: its value need not be looked at
                            inner = at
                            if slot == _NAMELESS:
                                aggregated += _NAMELESS_ONE
                    elif tag == 24 or tag == 32 or tag == 56:  # uint64, int64, ref
                        value, inner = protobuf.varint(buf, after, at)
                        kind = tag >> 3
                    elif tag == 42 or tag == 50:  # str, bytes
                        inner = protobuf.skip(buf, after, at, 2)
                        value = after
                        kind = tag >> 3
                    elif tag == 17:  # double
                        inner = protobuf.skip(buf, after, at, 1)
                        value = 0
                        for byte in range(7):
                            value |= (buf[after + byte] & 0xFF) << (8 * byte)
                        top = buf[after + 7] & 0xFF
                        # The top byte is added signed, so that compiled int64 arithmetic cannot overflow.
                        value += (top - 256 if top > 127 else top) * 72057594037927936
                        kind = 2
                    elif tag <= 7:
                        wrong = inner
                        raise protobuf.Broken(wrong)
                    else:
                        is_damaged = is_damaged or tag < 64
                        inner = protobuf.skip(buf, after, at, tag & 7)
                if slot >= 0:
                    if kind:
                        values[slot, row] = value
                        types[slot, row] = kind
                    else:
                        aggregated += _NAMELESS_ONE
                elif kind and slot == _NAMELESS:
                    aggregated += _NAMELESS_ONE
            elif tag <= 7:
                wrong = at
                raise protobuf.Broken(wrong)
            else:
                is_damaged = is_damaged or tag < 48
                at = protobuf.skip(buf, after, pos, tag & 7)
        if is_damaged:
            duration_ps[row] = -1
            occurrences[row] = 0
        row += 1
    return aggregated


def _file(buf: Any) -> _File:
    """The bytes of a file with the loops over them: compiled if there are many and numba is there."""
    loops = _compiled_loops() if pays("XSpace", len(buf), COMPILE_FROM_BYTES) else None
    if loops is None:
        return _File(buf, buf, _Loops(read_spans, read_entries, count_events, decode_events))
    return _File(buf, _view(buf), loops)


def _view(buf: Any) -> NDArray[np.uint8]:
    """The bytes as the loops take them; were some writable, the loops would be compiled for these too."""
    view = np.frombuffer(buf, np.uint8)
    view.flags.writeable = False
    return view


@lru_cache(maxsize=1)
def _compiled_loops() -> _Loops | None:
    numba = start()
    if numba is None:
        return None
    register_jitable = numba.extending.register_jitable
    register_jitable(protobuf.varint)
    register_jitable(protobuf.skip)
    loops = _Loops(compiled(read_spans), compiled(read_entries), compiled(count_events), compiled(decode_events))
    if loops.decode_events is decode_events:  # by NUMBA_DISABLE_JIT; numbers of numpy overflow where Python's do not
        return None
    nothing = _view(b"")
    with without_collection():  # the first that is called loads most of numba
        loops.read_spans(nothing, 0, 0, np.empty((0, 3), np.int64))
    return loops
