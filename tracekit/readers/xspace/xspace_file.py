"""XSpace files (`*.xplane.pb`) to columns, in one pass over the memory-mapped bytes.

Schema: tsl/profiler/protobuf/xplane.proto; field numbers are asserted in tests against jax's own serialiser. The event
loops at the end are in numba's subset of Python: plain on small files, compiled on large ones.
"""

import gzip
import mmap
import struct
import zlib
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tracekit import cores
from tracekit.columns import categorical, distinct
from tracekit.errors import TraceError
from tracekit.readers import protobuf_decoder as protobuf
from tracekit.readers.content import Content
from tracekit.readers.protobuf_decoder import Fields, Span
from tracekit.readers.xspace.planes import EventMetadata, Line, Plane, XSpace

SUFFIXES = (".xplane.pb", ".xplane.pb.gz")

# How a stat's value was written (XStat's field numbers); 0 = the event does not have the stat.
ABSENT, DOUBLE, UINT64, INT64, STR, BYTES, REF = 0, 2, 3, 4, 5, 6, 7

# The compiled loop holds no GIL, and each line writes rows of its own.
_MOST_THREADS = 4

# Stat ids below this are looked up in a table.
_TABLE = 4096

Keep = Callable[[str, str, int], bool]

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
    stat_names: dict[int, str]
    _buf: Any = field(repr=False)
    _event_spans: dict[int, Span] = field(repr=False)

    @property
    def event_ids(self) -> list[int]:
        """The ids of all event metadata in the plane, used by an event or not."""
        return list(self._event_spans)

    def event_metadata(self, event_id: int) -> EventMetadata:
        """The metadata of `event_id`, decoded now; an id without metadata gives empty strings."""
        if event_id not in self._event_spans:
            return EventMetadata()
        # `Fields` would take twice as long, and a TPU's plane has some thousands of these.
        name, display, stats = "", "", {}
        for number, _, start, end in protobuf.fields(self._buf, *self._event_spans[event_id]):
            if number == 2:
                name = protobuf.text(self._buf, start, end)
            elif number == 4:
                display = protobuf.text(self._buf, start, end)
            elif number == 5:
                key, value = _stat(self._buf, start, end, self.stat_names)
                stats[key] = value
        return EventMetadata(name, display, stats)

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
        return np.asarray(self._column(stat)[1] != ABSENT)

    def strings(self, stat: str) -> pd.Categorical:
        """The string stat of every event, shape (n,), null where absent; `str` and `ref` stats give the same text."""
        values, types = self._column(stat)
        label = np.zeros(len(self), np.int64)
        refs = types == REF
        places, stat_ids = pd.factorize(values[refs])
        labels = [None, *(self.stat_names.get(stat_id, "") for stat_id in stat_ids.tolist())]
        label[refs] = 1 + places
        inline = np.flatnonzero((types == STR) | (types == BYTES))
        if len(inline):
            which, first = self._distinct_strings(values[inline])
            label[inline] = len(labels) + which
            raws = map(self.bytes_at, values[inline[first]].tolist())
            labels += [protobuf.text(raw, 0, len(raw)) for raw in raws]
        return categorical(labels, label)

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
    begins with a line feed begins with the same byte, but not with the same third part.
    """
    head = content.head
    if not head or content.is_sqlite or content.is_json:
        return False
    if content.path.name.endswith((*SUFFIXES, ".pb") if sure else SUFFIXES):
        return True
    at = 1
    while at < min(len(head), 10) and head[at] & 0x80:
        at += 1
    part = head[at + 1 : at + 2]
    return head[:1] == b"\x0a" and part in (b"\x08", b"\x12", b"\x1a") and not content.printable(64)


def read(
    path: str | Path,
    stats: Sequence[str],
    keep: Keep = lambda plane, line, line_id: True,
    together: Sequence[str] = (),
) -> XSpace:
    """Decode the XSpace file at `path`, gzipped or not.

    `stats` names the event stats to keep; those `together` are kept of planes that know the first of them. Lines for
    which `keep(plane name, line name, line id)` is false are skipped whole. Raises TraceError, naming the file and
    the byte, if the file is empty, cut inside a plane or no XSpace.
    """
    path = Path(path)
    buf = _mapped(path)
    try:
        return _space(buf, _Stats(frozenset(stats), tuple(together)), keep)
    except protobuf.Broken as broken:
        raise error(path, broken) from None


def error(path: Path, broken: protobuf.Broken) -> TraceError:
    """What to tell the user of a file that holds bytes which are no message: the planes' metadata is decoded late."""
    return TraceError(
        f"{path} is corrupt or not an XSpace: the bytes at offset {broken.args[0]} are not a valid message. "
        "Copy the file again, in binary mode, or capture the trace again."
    )


def _mapped(path: Path) -> Any:
    """The file's bytes as a memory map, or unpacked if it is gzipped."""
    try:
        with path.open("rb") as file:
            head = file.read(2)
            if head == b"\x1f\x8b":
                file.seek(0)
                return gzip.decompress(file.read())
            if not head:
                raise TraceError(f"{path} is empty: the profiler wrote nothing to it. Capture the trace again.")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise TraceError(
            f"{path} cannot be decompressed: its gzip stream is cut or damaged. "
            "Copy the file again, in binary mode, or capture the trace again."
        ) from None
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}. Check the path and its permissions.") from None


class EventColumns(NamedTuple):
    """The events of a plane as columns for the loops to fill: `values` and `types` (k, n) for k stats, others (n,)."""

    metadata_id: NDArray[np.int64]
    offset_ps: NDArray[np.int64]
    duration_ps: NDArray[np.int64]
    occurrences: NDArray[np.int64]
    values: NDArray[np.int64]
    types: NDArray[np.uint8]


class StatRows(NamedTuple):
    """Which row of `values` and `types` a stat id has: `near` by the id, -1 for a stat that is not wanted; ids beyond
    it, since an id may be huge, are looked up in `far_ids`, their rows in `far_rows`."""

    near: NDArray[np.int64]
    far_ids: NDArray[np.int64]
    far_rows: NDArray[np.int64]


@dataclass(frozen=True)
class _Stats:
    """The event stats to keep: of every plane, and of one that knows the first of those `together`, these too."""

    always: frozenset[str]
    together: tuple[str, ...]

    def of(self, known: Collection[str]) -> frozenset[str]:
        """The stats to keep of a plane that knows these."""
        return self.always | set(self.together) if {*self.together[:1]} & set(known) else self.always


@dataclass(frozen=True)
class _File:
    """The bytes of a file, as they are and as the loops over its events take them, and these loops."""

    buf: Any
    view: Any
    count_events: Callable[..., int]
    decode_events: Callable[..., None]


def _space(buf: Any, stats: _Stats, keep: Keep) -> XSpace:
    space = Fields(buf, (0, len(buf)))
    if not space.messages(1):
        raise protobuf.Broken(0)
    file = _file(buf)
    planes: list[Plane] = [_plane(file, span, stats, keep) for span in space.messages(1)]
    return XSpace(planes, *(space.texts(number) for number in (2, 3, 4)))


def _plane(file: _File, span: Span, stats: _Stats, keep: Keep) -> ProtobufPlane:
    plane = Fields(file.buf, span)
    name = plane.text(2)
    stat_names = {
        key: Fields(file.buf, value).text(2) for key, value in (_entry(file.buf, *entry) for entry in plane.messages(5))
    }
    stat_rows, rows_by_id = _stat_rows(stat_names, stats.of(stat_names.values()))
    lines, spans, counts = [], [], []
    for start, end in plane.messages(3):
        where = np.full(16, -1, np.int64)
        count = file.count_events(file.view, start, end, where)
        line = _line(file.buf, end, where)
        if keep(name, line.name, line.id):
            lines.append(line)
            spans.append((start, end))
            counts.append(count)
    columns = _decoded(file, spans, counts, rows_by_id, len(stat_rows))
    own_stats = dict(_stat(file.buf, *stat, stat_names) for stat in plane.messages(6))
    event_spans = dict(_entry(file.buf, *entry) for entry in plane.messages(4))
    _release(file.buf, *span)
    return ProtobufPlane(
        name=name,
        lines=lines,
        line=np.repeat(np.arange(len(lines), dtype=np.int64), counts) if lines else np.empty(0, np.int64),
        stats=own_stats,
        **columns._asdict(),
        stat_rows=stat_rows,
        stat_names=stat_names,
        _buf=file.buf,
        _event_spans=event_spans,
    )


def _stat_rows(stat_names: dict[int, str], stats: frozenset[str]) -> tuple[dict[str, int], StatRows]:
    """The row of each of the `stats` that the plane knows, by name and by id; several ids may carry one name."""
    by_name = {stat: row for row, stat in enumerate(sorted(stats & set(stat_names.values())))}
    by_id = {key: by_name[stat] for key, stat in stat_names.items() if stat in by_name}
    near = np.full(max([key for key in by_id if 0 <= key < _TABLE], default=-1) + 1, -1, np.int64)
    far = [key for key in by_id if not 0 <= key < _TABLE]
    for key in by_id.keys() - far:
        near[key] = by_id[key]
    return by_name, StatRows(near, np.array(far, np.int64), np.array([by_id[key] for key in far], np.int64))


def _decoded(file: _File, lines: list[Span], counts: list[int], stat_rows: StatRows, stats: int) -> EventColumns:
    """The events of the `lines`, of which each has as many as `counts` says, with `stats` rows of stats."""
    n = sum(counts)
    metadata_id, offset_ps, duration_ps = np.zeros((3, n), np.int64)
    columns = EventColumns(
        metadata_id,
        offset_ps,
        duration_ps,
        occurrences=np.full(n, -1, np.int64),
        values=np.zeros((stats, n), np.int64),
        types=np.zeros((stats, n), np.uint8),
    )
    first_rows = np.cumsum([0, *counts])[:-1].tolist()
    jobs = [(file.view, *line, row, stat_rows, columns) for line, row in zip(lines, first_rows, strict=True)]
    if file.view is file.buf:  # the plain loop, which threads cannot share
        for job in jobs:
            file.decode_events(*job)
    else:
        with ThreadPoolExecutor(cores.threads(_MOST_THREADS)) as pool:
            list(pool.map(lambda job: file.decode_events(*job), jobs))  # list: the first line's error is raised
    return columns


def _release(buf: Any, start: int, end: int) -> None:
    """Let go of the pages of a map that lie in [start, end): what is asked for again comes from the file once more."""
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
    return entry.number(1), next(iter(entry.messages(2)), (end, end))


def _stat(buf: Any, start: int, end: int, stat_names: dict[int, str]) -> tuple[str, Any]:
    """Name and value of one XStat outside the event loop, with refs resolved."""
    key, value = 0, None
    for number, _, at, to in protobuf.fields(buf, start, end):
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
            value = stat_names.get(protobuf.varint(buf, at, to)[0], "")
    return stat_names.get(key, str(key)), value


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


def count_events(buf: Any, pos: int, end: int, where: NDArray[np.int64]) -> int:
    """Count the events of the line in [pos, end) and note where each other field's value stands."""
    count = 0
    while pos < end:
        tag, after = protobuf.varint(buf, pos, end)
        number = tag >> 3
        if number <= 0:
            raise protobuf.Broken(pos)
        if tag == 34:  # field 4, length-delimited: an event
            count += 1
        elif number < 16:
            where[number] = after
        pos = protobuf.skip(buf, after, end, tag & 7)
    return count


def decode_events(buf: Any, pos: int, end: int, row: int, stat_rows: StatRows, columns: EventColumns) -> None:
    """Write the events of the line in [pos, end) to the columns from `row` on.

    One loop in one function: with the stats in a function of their own it takes eight times as long when compiled.
    """
    near, far_ids, far_rows = stat_rows
    metadata_id, offset_ps, duration_ps, occurrences, values, types = columns
    while pos < end:
        tag, after = protobuf.varint(buf, pos, end)
        if tag != 34:  # not field 4, an event
            pos = protobuf.skip(buf, after, end, tag & 7)
            continue
        size, at = protobuf.varint(buf, after, end)
        if size < 0 or size > end - at:
            raise protobuf.Broken(after)
        pos = at + size
        while at < pos:
            # A tag is one byte; two are a field that is not known here.
            tag = buf[at] & 0xFF
            after = at + 1
            if tag > 127:
                tag, after = protobuf.varint(buf, at, pos)
            if tag == 8:
                metadata_id[row], at = protobuf.varint(buf, after, pos)
            elif tag == 16:
                offset_ps[row], at = protobuf.varint(buf, after, pos)
                occurrences[row] = -1
            elif tag == 24:
                duration_ps[row], at = protobuf.varint(buf, after, pos)
            elif tag == 40:  # a oneof: the offset is then not set
                occurrences[row], at = protobuf.varint(buf, after, pos)
                offset_ps[row] = 0
            elif tag == 34:  # field 4: a stat
                size, inner = protobuf.varint(buf, after, pos)
                if size < 0 or size > pos - inner:
                    raise protobuf.Broken(after)
                at = inner + size
                slot = near[0] if len(near) else -1  # an id of 0 is not written
                kind = 0
                value = 0
                while inner < at:
                    tag = buf[inner] & 0xFF
                    after = inner + 1
                    if tag > 127:
                        tag, after = protobuf.varint(buf, inner, at)
                    if tag == 8:
                        stat_id, inner = protobuf.varint(buf, after, at)
                        slot = -1
                        if 0 <= stat_id < len(near):
                            slot = near[stat_id]
                        else:
                            for far in range(len(far_ids)):
                                if far_ids[far] == stat_id:
                                    slot = far_rows[far]
                        if slot < 0:  # not wanted: its value need not be looked at
                            inner = at
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
                        raise protobuf.Broken(inner)
                    else:
                        inner = protobuf.skip(buf, after, at, tag & 7)
                if kind and slot >= 0:
                    values[slot, row] = value
                    types[slot, row] = kind
            elif tag <= 7:
                raise protobuf.Broken(at)
            else:
                at = protobuf.skip(buf, after, pos, tag & 7)
        row += 1


def _file(buf: Any) -> _File:
    """The bytes of a file with the loops over them: compiled if the file is large and numba is there."""
    loops = _compiled_loops() if len(buf) >= COMPILE_FROM_BYTES else None
    if loops is None:
        return _File(buf, buf, count_events, decode_events)
    return _File(buf, np.frombuffer(buf, np.uint8), *loops)


@lru_cache(maxsize=1)
def _compiled_loops() -> tuple[Any, Any] | None:
    try:
        import numba
        from numba.extending import register_jitable
    except ImportError:
        return None
    register_jitable(protobuf.varint)
    register_jitable(protobuf.skip)
    jit = numba.njit(cache=True, nogil=True)
    return jit(count_events), jit(decode_events)
