"""The Chrome trace container, JSON or gzipped JSON, as one `Document` of columns that every dialect reads.

The format is Chrome's Trace Event Format: an object with `traceEvents`, or a bare array of events whose last bracket
may be missing. `ts` and `dur` are microseconds with decimals, which a float rounds to 250 ns where they count from
1970: they are read from their text, exactly. A dialect decodes the `args` of those events only that it needs.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal, DecimalException
from functools import cached_property
from itertools import chain, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tracekit import heap
from tracekit.columns import by_label, categorical, texts_at
from tracekit.errors import TraceError
from tracekit.readers import losses
from tracekit.readers.chrome import overlong, scanner, shapes
from tracekit.readers.chrome.json_text import Event, Skipped, Text
from tracekit.readers.content import Content
from tracekit.readers.json_repair import BROKEN, repaired, shallow
from tracekit.readers.losses import Lost
from tracekit.trace import Trace
from tracekit.vocabulary.losses import Loss, damage

T = TypeVar("T")

_TEXTS = ("ph", "cat", "name", "pid", "tid")
# The phases of the Trace Event Format.
_PHASES = frozenset("BEXIiCbnestfPNODMVvRc(),")
# No profile is longer than a day: times further than this from the others are none.
_FAR_PS = 86_400 * 10**12
_PICOSECONDS = pa.decimal128(38, 6)
_EXACT = Context(prec=60)
_MOST_DIGITS = 38
# Args take an eighth of their text, where they take a twentieth with zstd; but they are packed in 3/5 of its time, and
# unpacked, for every question that a reader asks, in 2/5.
_CODEC = "lz4"
_MANY = 500_000  # events
NO_JSON, FAR = "not valid JSON", "their times are more than a day from the others"
_ANOTHER_LIST, _BEHIND = "in another list of events", "behind the end of its JSON"
_AHEAD = 2  # parts that are read before one must be made

# Keys that only traces have, of an object and of a bare array of events.
_OBJECT_KEYS = re.compile(rb'"(traceEvents|deviceProperties|distributedInfo)"\s*:')
_EVENT_KEYS = re.compile(rb'"ph"\s*:\s*"[A-Za-z]"')


@dataclass(frozen=True)
class Document:
    """The n events of a file, in its order, as columns.

    `head`: every top-level key but `traceEvents`; {} where the file is a bare array. `ph`, `cat`, `name`, `pid`, `tid`:
    shape (n,), text, null where absent; numbers stand as they are written, since ids may exceed int64.
    `start_ps`: shape (n,), picoseconds since `base_ps`, 0 where `timed` is False; `duration_ps`: shape (n,), 0 where
    absent, -1 where broken; `has_duration`: shape (n,), whether it is a number. `timed`: shape (n,), whether the event
    has a time; metadata (`ph` M) has none, whatever its `ts` says. `phaseless`: shape (n,), whether it has a `ts` and
    no phase that there is: what it was is lost, its time too. `far`: shape (n,), whether its time is none as it is far
    from all others, which `lost` counts. `base_ps`: the earliest time, on the file's own axis, which may count from
    1970 and exceed int64. `arguments`: the text of `args`, in pieces. `notes`: what was repaired or is missing, `lost`
    what is damaged. `skipped`: how many events that are no JSON, and are not among the n, say what of themselves.
    """

    head: dict[str, Any]
    ph: pd.Categorical
    cat: pd.Categorical
    name: pd.Categorical
    pid: pd.Categorical
    tid: pd.Categorical
    start_ps: NDArray[np.int64]
    duration_ps: NDArray[np.int64]
    has_duration: NDArray[np.bool_]
    timed: NDArray[np.bool_]
    phaseless: NDArray[np.bool_]
    far: NDArray[np.bool_]
    base_ps: int
    arguments: tuple["_Packed", ...]
    notes: tuple[str, ...]
    lost: tuple[Lost, ...] = ()
    skipped: Mapping[Skipped, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.start_ps)

    def of(self, *names: str) -> NDArray[np.bool_]:
        """Whether each event, shape (n,), is of one of the categories `names`, which are in lower case."""
        return by_label(self.cat, lambda category: category.lower() in names)

    def without_times(self, rows: NDArray[np.bool_]) -> "Document":
        """The document without the times of the events `rows`, (n,): others count from the first of them."""
        timed = self.timed & ~rows
        if not rows.any() or not timed.any():
            return self
        first = int(self.start_ps[timed].min())
        start_ps = np.where(timed, self.start_ps - first, 0)
        return replace(self, start_ps=start_ps, timed=timed, base_ps=self.base_ps + first)

    def lost_without(self, counts: Mapping[str, int]) -> list[Lost]:
        """What is damaged, without so many events of a reason: those that a reader counts beside others of their kind,
        of which there may be so few that each is much."""
        fewer = [
            each if each.lost is None else each._replace(lost=each.lost - counts.get(each.evidence or "", 0))
            for each in self.lost
        ]
        return [each for each in fewer if each.lost != 0]

    @cached_property
    def placeless(self) -> NDArray[np.bool_]:
        """Which events, shape (n,), ran from one time to another and do not say on which thread of which process."""
        complete: NDArray[np.bool_] = np.asarray(self.ph == "X") & self.timed
        return complete & np.asarray(self.pid.isna() | self.tid.isna())

    @cached_property
    def processes(self) -> dict[str, str]:
        """The name of each process by its `pid`, as the file's metadata has it, in the file's order."""
        rows = self._metadata("process_name")
        metadata = zip(self.pid[rows], self.args(rows, dict), strict=True)
        return {str(pid): str(args.get("name", "")) for pid, args in metadata}

    @cached_property
    def thread_names(self) -> dict[tuple[str | None, str | None], str]:
        """The name of each thread by its `pid` and `tid`, as the file's metadata has it."""
        rows = self._metadata("thread_name")
        metadata = zip(self.pid[rows], self.tid[rows], self.args(rows, dict), strict=True)
        return {(pid, tid): str(args["name"]) for pid, tid, args in metadata if args.get("name")}

    def _metadata(self, name: str) -> NDArray[np.int64]:
        """The rows of metadata of this name, of which pandas would look through a hash table of all names."""
        rows = np.flatnonzero(np.asarray(self.ph == "M"))
        is_called_so: NDArray[np.bool_] = np.asarray(texts_at(self.name, rows) == name, bool)
        return rows[is_called_so]

    def args(self, rows: NDArray[np.int64], kind: type[T]) -> list[T]:
        """The `args` of the events `rows`, in that order, each decoded as `kind`.

        `kind` is dict, or a msgspec.Struct whose fields have defaults; numbers may stand as strings. An event without
        args, or whose args do not fit `kind`, gives what `{}` gives.
        """
        if (np.diff(rows) < 0).any():  # then each piece would be unpacked more than once
            order = np.argsort(rows, kind="stable")
            by_row = self.args(rows[order], kind)
            return [by_row[place] for place in np.argsort(order).tolist()]
        return [args for part in self.args_by_part(rows, kind) for args in part]

    def args_by_part(self, rows: NDArray[np.int64], kind: type[T]) -> Iterator[list[T]]:
        """The same some thousands at a time, of `rows` that rise: where one field of a million is asked for, the others
        are not held."""
        for raw in self.raw_args(rows):
            yield decoded(raw, kind)

    def raw_args(self, rows: NDArray[np.int64]) -> Iterator[pa.Array]:
        """The text of the `args`, some thousands at a time, of `rows` that rise."""
        begins = np.cumsum([0, *map(len, self.arguments)])
        part = np.searchsorted(begins, rows, side="right") - 1
        edges = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(rows)]
        for first, last in pairwise(edges):
            if first < last:
                at = int(part[first])
                yield self.arguments[at].array().take(pa.array(rows[first:last] - begins[at]))


@dataclass(frozen=True)
class Dialect:
    """How one profiler writes the container: whether a document is of its making, the reader of it, which takes the
    file's path too, and how many ranks the document says that its job had (None if it does not)."""

    is_own: Callable[[Document], bool]
    read: Callable[[Document, Path], Trace]
    ranks: Callable[[Document], int | None] = lambda document: None


def is_trace(content: Content, sure: bool) -> bool:
    """Whether a file is JSON that looks like a trace; any JSON if the user named the file (`sure`)."""
    keys = _OBJECT_KEYS if content.text[:1] == b"{" else _EVENT_KEYS
    return content.is_json and (sure or keys.search(content.text) is not None)


def load(path: Path) -> Document:
    """The document in the file `path`, which may be gzipped; its content tells, not its name.

    An empty array `traceEvents` gives a document of no events. Raises TraceError if the file is empty, no JSON, or
    holds no trace events.
    """
    text = Text(path)
    columns = {name: _Texts() for name in _TEXTS}
    parts: list[_Part] = []

    def add(events: list[Event] | scanner.Events) -> None:
        part = _part(events)
        for name, column in columns.items():
            column.add(part.texts.pop(name))
        parts.append(part)

    with ThreadPoolExecutor(1) as pool:  # most of what makes columns of events holds no lock of Python
        making: deque[Future[None]] = deque()
        for events in chain(text.events(), ([],)):  # the last, empty one gives every column a part
            if events or not (parts or making):
                making.append(pool.submit(add, events))
            if len(making) > _AHEAD:
                making.popleft().result()
        for made in making:
            made.result()
    damaged = {
        "arguments that are no object": sum(part.odd_args for part in parts),
        "names, categories, processes or threads of another type": sum(
            column.count(_IS_ODD[name]) for name, column in columns.items() if name in _IS_ODD
        ),
    }
    longest = np.concatenate([part.longest for part in parts])
    names = list(columns["name"].places)
    quoted = sum(part.quoted for part in parts) + overlong.quoted(names)
    is_empty_list = text.keyed and not (text.cut or text.skipped)
    empty = is_empty_list and not any(len(part.args) for part in parts)
    if not empty and not any(columns["ph"].places):
        why = f": {text.cut}" if text.cut else ""
        raise TraceError(f"{path} contains no trace events{why}. Capture the trace again, or give another file.")
    texts = {name: column.joined() for name, column in columns.items()}
    # Each part loses what is joined, so that no column is held twice for longer.
    duration_ps, has_duration = (
        np.concatenate([part.times.pop(name) for part in parts]) for name in ("dur", "has_dur")
    )
    starts = _Words(*(np.concatenate([part.times.pop(word) for part in parts]) for word in _Words._fields))
    has_phase: NDArray[np.bool_] = by_label(texts["ph"], lambda phase: phase in _PHASES).astype(bool)
    phaseless = starts.there & ~has_phase
    times = starts.there & has_phase & (texts["ph"] != "M")
    start_ps, timed, base_ps = _rebased(starts, times)
    far = times & ~timed
    del starts, times
    if len(far) >= _MANY:  # of a million events 30 MB, on top of which a reader would stand
        heap.give_back()
    sizes = np.concatenate(
        [*(part.far for part in parts), overlong.of_names(texts["name"], max(map(len, names), default=0))]
    )
    lost = overlong.lost(text, len(far), longest, sizes, names)
    if text.shapes.joined():
        lost.append(Lost(Loss.EVENTS, None, None, shapes.JOINED))
    return Document(
        head=text.head,
        **texts,
        start_ps=start_ps,
        duration_ps=duration_ps,
        has_duration=has_duration,
        timed=timed,
        phaseless=phaseless,
        far=far,
        base_ps=base_ps,
        arguments=tuple(part.args for part in parts),
        notes=(
            *_notes(text, texts["ph"], int(far.sum()), damaged),
            *losses.notes(lost),
            *overlong.note(text, len(far), longest, quoted),
        ),
        lost=(*lost, *_lost(text, len(far), int(far.sum()), damaged)),
        skipped=text.skipped,
    )


def _lost(text: Text, events: int, far: int, damaged: Mapping[str, int]) -> tuple[Lost, ...]:
    """What of the file is damaged; `damaged`: how many events lack what."""
    lost = [Lost(Loss.BYTES, None, None, text.cut)] if text.cut else []
    if text.behind:
        lost.append(Lost(Loss.BYTES, text.behind, None, _BEHIND))
    if skipped := text.skipped.total():
        lost.append(Lost(Loss.EVENTS, skipped, events + skipped, NO_JSON))
    if text.others:
        lost.append(Lost(Loss.EVENTS, text.others, events + text.others, "values that are no events"))
    if text.unread != 0:
        total = None if text.unread is None else events + text.unread
        lost.append(Lost(Loss.EVENTS, text.unread, total, _ANOTHER_LIST))
    if far:
        lost.append(Lost(Loss.EVENTS, far, events, FAR))
    return (*lost, *(Lost(Loss.DETAILS, count, events, what) for what, count in damaged.items() if count))


def _notes(text: Text, ph: pd.Categorical, far: int, damaged: Mapping[str, int]) -> tuple[str, ...]:
    notes = []
    if text.cut:
        notes.append(f"The file is truncated: {text.cut}. Its {len(ph)} complete events were read.")
    if text.behind:
        notes.append(damage(Loss.BYTES, text.behind, None, _BEHIND))
    if text.repaired:
        notes.append(f"{text.repaired} events were not valid JSON (NaN, bad escapes or similar) and were repaired.")
    if text.skipped:
        notes.append(f"{text.skipped.total()} events were not valid JSON and could not be repaired: they were skipped.")
    if text.others:
        notes.append(f"{text.others} values among the events are no events: they were skipped.")
    if text.unread != 0:
        total = None if text.unread is None else len(ph) + text.unread
        notes.append(damage(Loss.EVENTS, text.unread, total, _ANOTHER_LIST))
    if far:
        notes.append(f"{far} events are more than a day from the others, so their times are wrong: they were skipped.")
    notes += [damage(Loss.DETAILS, count, len(ph), what) for what, count in damaged.items() if count]
    return tuple(notes)


def decoded(raw: pa.Array, kind: type[T]) -> list[T]:
    """Each of some args as `kind`, in one pass, and one by one only if one of them does not fit."""
    texts = [text or b"{}" for text in raw.to_pylist()]
    decoder = msgspec.json.Decoder(kind, strict=False)
    try:
        return msgspec.json.Decoder(list[kind], strict=False).decode(b"[%b]" % b",".join(texts))  # type: ignore[valid-type]
    except BROKEN:
        values = []
        for text in texts:
            try:
                values.append(decoder.decode(repaired(shallow(text))))
            except BROKEN:
                values.append(decoder.decode(b"{}"))
        return values


class _Packed(NamedTuple):
    """An Arrow array of bytes, compressed: args are half of the text of a file, and seldom looked at."""

    ends: pa.Buffer
    values: bytes
    size: int

    def __len__(self) -> int:
        return int(self.ends.size) // 4 - 1

    def array(self) -> pa.Array:
        """The array."""
        values = pa.decompress(self.values, self.size, _CODEC)
        return pa.Array.from_buffers(pa.binary(), len(self), [None, self.ends, values])


def _packed(array: pa.Array) -> _Packed:
    _, ends, values = array.buffers()
    return _Packed(ends, pa.compress(values, _CODEC, asbytes=True), values.size)


class _Part(NamedTuple):
    """Some of the events, as columns; `times`: the duration in picoseconds as `dur`, `has_dur`, and the words of the
    start; `odd_args`: how many args are no object; `longest`, `quoted` and `far`: sizes of the longest (overlong)."""

    texts: dict[str, pa.DictionaryArray]
    times: dict[str, NDArray[Any]]
    args: _Packed
    odd_args: int
    longest: NDArray[np.int64]
    quoted: int
    far: NDArray[np.int64]


def _part(events: list[Event] | scanner.Events) -> _Part:
    if isinstance(events, scanner.Events):
        texts = dict(zip(_TEXTS, events.dictionaries(_TEXTS), strict=True))
        (starts, durations), args = (_scanned_times(events, name) for name in ("ts", "dur")), events.column("args")
    else:
        texts = {name: _binary(events, name).dictionary_encode() for name in _TEXTS}
        starts, durations = (_words(_decimal(_binary(events, name))) for name in ("ts", "dur"))
        args = _binary(events, "args")
    is_short = durations.there & (durations.high == 0) & (durations.low < _FAR_PS)
    duration_ps = np.where(is_short, durations.low.view(np.int64), np.where(durations.there, -1, 0))
    times = {"dur": duration_ps, "has_dur": durations.there, **starts._replace(high=_narrowed(starts.high))._asdict()}
    return _Part(texts, times, _packed(args), _odd(args), *overlong.sizes(args, texts["ph"]))


def _narrowed(high: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """The same numbers, of one byte where that holds them all: those of times since 1970 are 92 or so."""
    narrow = high.astype(np.int8)
    return narrow if (narrow == high).all() else high


def _odd(args: pa.Array) -> int:
    """How many of the args are there and no object; null is none."""
    _, ends, values = args.buffers()
    ends = np.frombuffer(ends, np.int32)[: len(args) + 1]
    first = np.frombuffer(values, np.uint8)[ends[:-1][np.diff(ends) > 0]] if values else np.zeros(0, np.uint8)
    return int(np.count_nonzero((first != ord("{")) & (first != ord("n"))))


def _scanned_times(events: scanner.Events, name: str) -> "_Words":
    high, low, state = events.times(name)
    words = _Words(high, low, state == 1)
    rows = np.flatnonzero(state == 2)
    if len(rows):
        for column, values in zip(words, _words(_decimal(events.column(name).take(pa.array(rows)))), strict=True):
            column[rows] = values
    return words


def _binary(events: list[Event], name: str) -> pa.Array:
    """The raw values of one field, as one Arrow array of bytes."""
    raws = list(map(attrgetter(name), events))
    ends = np.zeros(len(raws) + 1, np.int32)
    # To ask each for its length takes longer than to join them and to look where each ends, but for long ones.
    is_short = name != "args" and len(raws) > 1
    text = b"\0".join(raws) if is_short else b""
    stops = np.flatnonzero(np.frombuffer(text, np.uint8) == 0)
    if is_short and len(stops) == len(raws) - 1:
        ends[1:-1] = stops - np.arange(len(stops))
        ends[-1] = len(text) - len(stops)
        values = text.translate(None, b"\0")
    else:
        np.cumsum(np.fromiter(map(len, raws), np.int32, len(raws)), out=ends[1:])
        values = b"".join(raws)
    return pa.Array.from_buffers(pa.binary(), len(raws), [None, pa.py_buffer(ends), pa.py_buffer(values)])


class _Texts:
    """A column of raw JSON values, as it grows: each value once, and of the narrowest integers what each event has."""

    def __init__(self) -> None:
        self.places: dict[bytes, int] = {}
        self._codes: list[NDArray[np.integer[Any]]] = []

    def add(self, part: pa.DictionaryArray) -> None:
        """Append the values of more events."""
        codes = [self.places.setdefault(raw, len(self.places)) for raw in part.dictionary.to_pylist()]
        self._codes.append(np.array(codes, np.min_scalar_type(len(self.places)))[part.indices.to_numpy()])

    def count(self, is_odd: Callable[[bytes], bool]) -> int:
        """How many events have a value of which `is_odd` is true."""
        odd = np.fromiter(map(is_odd, self.places), bool, len(self.places))
        return sum(int(odd[codes].sum()) for codes in self._codes) if odd.any() else 0

    def joined(self) -> pd.Categorical:
        """The column as text; a number is its own text, null and absent are null."""
        return categorical([*map(_text, self.places)], np.concatenate(self._codes))


# What names and categories are not, text, nor processes and threads, text or numbers; null is as absent.
_IS_ODD: Mapping[str, Callable[[bytes], bool]] = {
    **dict.fromkeys(("cat", "name"), lambda raw: raw[:1] not in (b"", b'"', b"n")),
    **dict.fromkeys(("pid", "tid"), lambda raw: raw[:1] in (b"[", b"{", b"t", b"f")),
}


def _text(raw: bytes) -> str | None:
    if raw in (b"", b"null"):
        return None
    if raw[:1] != b'"':
        return raw.decode("utf-8", "replace")
    try:
        return msgspec.json.decode(raw, type=str)
    except BROKEN:
        return msgspec.json.decode(repaired(raw), type=str)


def _decimal(column: pa.Array) -> pa.Array:
    """Decimal microseconds, exactly, to the picosecond; null where there is no number."""
    text = column.cast(pa.string(), safe=False)
    text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    # Of more digits Arrow makes another number, and says nothing.
    if (pc.max(pc.binary_length(text)).as_py() or 0) <= _MOST_DIGITS:
        with suppress(pa.ArrowInvalid):
            return pc.cast(text, _PICOSECONDS)
    # More decimals than picoseconds, numbers in quotes, or no numbers.
    codes = column.dictionary_encode()
    values = pa.array([_number(raw) for raw in codes.dictionary.to_pylist()], _PICOSECONDS)
    return values.take(codes.indices)


def _number(raw: bytes) -> Decimal | None:
    try:
        value = _EXACT.create_decimal(raw.decode("ascii", "replace").strip('"')).quantize(
            Decimal("0.000001"), context=_EXACT
        )
    except DecimalException:
        return None
    return value if value.is_finite() and abs(value) < 10**30 else None


class _Words(NamedTuple):
    """A column of 128-bit integers, high * 2**64 + low, and where it holds any."""

    high: NDArray[np.integer[Any]]
    low: NDArray[np.uint64]
    there: NDArray[np.bool_]


def _words(column: pa.Array) -> _Words:
    """The picoseconds of a column of decimals with six places."""
    halves = np.frombuffer(column.buffers()[1], "<i8").reshape(-1, 2)[column.offset :][: len(column)]
    there = column.is_valid().to_numpy(zero_copy_only=False)
    return _Words(halves[:, 1].copy(), halves[:, 0].copy().view(np.uint64), there)


def _rebased(times: _Words, there: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.bool_], int]:
    """The times that are `there` as int64 counted from the earliest, without those far away from all others."""
    if not there.any():
        return np.zeros(len(there), np.int64), there, 0
    # In place, as a column has millions of rows, and nothing of a document takes more memory than this.
    approximate = times.high * 2.0**64
    approximate += times.low
    middle = (np.count_nonzero(there) - 1) // 2  # that of one of them, where np.median may be between two
    by_size = approximate[there]
    by_size.partition(middle)
    approximate -= by_size[middle]
    del by_size
    near = there & (np.abs(approximate, out=approximate) < _FAR_PS)
    del approximate
    high = times.high[near].min()
    low = times.low[near & (times.high == high)].min()
    # Differences of the low words alone are right: they wrap as the high words would carry.
    rebased = (times.low - low).view(np.int64)
    rebased[~near] = 0
    return rebased, near, int(high) * 2**64 + int(low)
