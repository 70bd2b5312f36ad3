"""The text of a Chrome trace, piece by piece: its events as raw values, and the other keys of the file.

The events are decoded about a megabyte at a time, so that a file is never held as objects. A piece ends between two
events, which only its decoding proves, since `},{` may also stand inside of one. An event that is no JSON is repaired
where that is cheap, else left out; what stands before and after it is read all the same.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, repeat
from operator import attrgetter, is_
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec

from tracekit.errors import TraceError
from tracekit.files import opened
from tracekit.jit import pays
from tracekit.readers import unpacking
from tracekit.readers.chrome import scanner
from tracekit.readers.chrome.shapes import Shapes
from tracekit.readers.json_repair import BROKEN, repaired, shallow
from tracekit.readers.stretches import Stretches, empty

NOTHING = msgspec.Raw(b"")


class Event(msgspec.Struct, gc=False):
    """One event, nothing of it decoded yet; what it lacks is empty."""

    ph: msgspec.Raw = NOTHING
    cat: msgspec.Raw = NOTHING
    name: msgspec.Raw = NOTHING
    pid: msgspec.Raw = NOTHING
    tid: msgspec.Raw = NOTHING
    ts: msgspec.Raw = NOTHING
    dur: msgspec.Raw = NOTHING
    args: msgspec.Raw = NOTHING


_PIECE_BYTES = 1 << 20
# Of less text, the compiled loop gains less than the half second that numba takes to start.
SCAN_FROM_BYTES = 64 << 20
_OF_GZ = 10  # so many bytes, about, one of a packed file holds
_LONGEST_EVENT = 16 << 20  # of bytes; what goes on without an event's end for longer holds no more of them
# What is no JSON and shorter is an event that is damaged.
LONG_BYTES = 1024
_NEXT = "Give the file that the profiler itself wrote, *.json or *.json.gz."
# What is no object is no event, but legal JSON: it is counted, and costs no error.
_EVENTS = msgspec.json.Decoder(list[Event | bool | int | float | str | list[Any] | None])
_EVENT = msgspec.json.Decoder(Event)
_VALUES = msgspec.json.Decoder(list[msgspec.Raw])
_PHASE_OF = attrgetter("ph")

_NAME = "traceEvents"
_KEY, _PHASE_KEY = b'"traceEvents"', b'"ph"'
_EVENTS_KEY = re.compile(rb"(?<!\\)%b\s*:\s*\[" % _KEY)
# A string that does not end is one to the end, so that its quotes are looked through once.
_BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
# Behind a list of events in an object so many bytes are looked through for another one.
_FARTHEST = 1 << 28
# So many objects and arrays in each other are looked through for a list of events.
_DEEPEST = 8
# Possessive, as are those below, so that many blanks before what does not match are looked through once.
_UNFINISHED = re.compile(rb"\s*+:?+\s*+")
_BETWEEN = re.compile(rb"\}\s*+,[\s,]*+\{")
# What follows the array of events: more keys, or at the end of the file nothing.
_AFTER = rb'\s*+,\s*+"', rb'\s*+(?:,\s*+"|\}?+\s*+\Z)'
_ENDED = tuple(map(re.compile, _AFTER))
_LAST = tuple(re.compile(rb"\}[\s,]*+\](?=%b)" % after) for after in _AFTER)
# Another document, by how its first event or key begins.
_ANOTHER = re.compile(rb'\s*+(?:\}\s*+\{\s*+"|\[\s*+\{)')
_BLANKS = b", \t\r\n"
_LEADING = re.compile(rb"[, \t\r\n]*+")
# So many bytes are looked through in vain for where an event ends, which takes seconds.
_MOST_TRIED = 1 << 29
_TRIES = 8
_WHERE = re.compile(r"\(byte (\d+)\)")
# What is told of what an event is where it is no JSON: those of its fields that are whole, the first of each name.
_FIELD = rb'"%b"\s*+:\s*+("(?:[^"\\]|\\.)*+"|-?\d++(?=\s*+[,}]))'
_IDENTITY = tuple(re.compile(_FIELD % name, re.DOTALL) for name in (b"ph", b"cat", b"pid"))


class Skipped(NamedTuple):
    """What an event that is no JSON says of itself: phase, category and process as text, each None where it is not
    whole."""

    ph: str | None
    cat: str | None
    pid: str | None


@dataclass
class Text:
    """A file while it is read; all but `path` is complete when `events` is exhausted.

    `head`: the keys beside `traceEvents`, and `keyed` whether it stands in an object. `repaired`, `skipped`: how many
    events were no JSON and could be repaired, or not (by what they were); `others`: how many values among them are no
    objects, `nested`: how many events stand inside of those, or of objects that are none. `unread`: how many events
    stand in another list `traceEvents` than the one that was read, None if it is not known. `behind`: how many bytes
    stand behind the end of the JSON, `after` how many behind the list of events. `cut`: how the file ends too early, ""
    if it does not. `stretches`: the parts of the file that are empty. `odd`: how many bytes what was repaired or
    skipped takes beside those, where it is long, and `mended`: how much of it was repaired. `shapes`: how events are
    written, which tells those that are two halves.
    """

    path: Path
    head: dict[str, Any] = field(default_factory=dict)
    keyed: bool = False
    repaired: int = 0
    skipped: Counter[Skipped] = field(default_factory=Counter)
    others: int = 0
    unread: int | None = 0
    behind: int = 0
    after: int = 0
    cut: str = ""
    nested: int = 0
    stretches: Stretches = field(default_factory=lambda: Stretches(_PHASE_KEY))
    odd: list[int] = field(default_factory=list)
    mended: int = 0
    shapes: Shapes = field(default_factory=Shapes)
    _tried: int = 0
    _other: bytes = b""

    def events(self) -> Iterator[list[Event] | scanner.Events]:
        """The events of the file in its order, some thousands at a time; of a large file the regular ones are scanned.

        Of several lists `traceEvents` the first is read, or the last where that holds none. Raises TraceError if the
        file is empty, does not begin like JSON, or lacks `traceEvents`.
        """
        is_empty = True
        for events in self._first_list():
            is_empty = is_empty and not len(events)
            yield events
        if self._other and is_empty:
            yield self._last(self._other[1:]).events
        elif self._other and self.unread is not None:
            self.unread = len(msgspec.json.decode(self._other, type=list[msgspec.Raw]))

    def _first_list(self) -> Iterator[list[Event] | scanner.Events]:
        pieces = self._seen(self._pieces())
        text = next(pieces, b"").removeprefix(b"\xef\xbb\xbf").lstrip()
        if not text:
            raise TraceError(f"{self.path} is empty{f': {self.cut}' if self.cut else ''}. {_NEXT}")
        if text[:1] not in b"{[":
            raise TraceError(f"{self.path} is not a Chrome trace: it does not begin with {{ or [. {_NEXT}")
        begin = 1
        if text[:1] == b"{":
            text, (end, begin) = self._until_events(text, pieces)
            self.keyed = True
            self._keys(text[1:end] + b"}")
        elif len(text) >= _PIECE_BYTES and not self._mentions(_PHASE_KEY):
            yield []
            return
        text = text[begin:]
        rest: bytes | None = None
        rests: list[bytes] = []
        is_scanned = self._is_large() and scanner.is_there()
        for piece in pieces:
            is_odd = rest is None
            if is_scanned and rest is None:
                regular, end, is_odd = scanner.scan(text)
                for scanned in regular:
                    self.shapes.count(scanned)
                    yield scanned
                text = text[end:]
            for cut in islice(_cuts(text) if is_odd else (), 8):
                if run := self._decode(memoryview(text)[:cut], whole=False, final=False):
                    self.shapes.see(text, cut - len(run.unread))
                    yield run.events
                    text, rest = run.unread + text[cut:], run.rest
                    break
            text += piece
            if rest is not None:
                rests.append(text)
                text = b""
            elif len(text) > _LONGEST_EVENT:
                self.cut = f"more than {_LONGEST_EVENT >> 20} MiB of it hold no event"
                break
        if rest is None:
            run = self._last(text.rstrip(b"\0" + _BLANKS))
            yield run.events
            rest = run.rest or b""
        self._keys(self._own(b"".join([rest, *rests])))

    def _until_events(self, text: bytes, pieces: Iterator[bytes]) -> tuple[bytes, tuple[int, int]]:
        """`text` with so many more `pieces` that the list of events begins in it, and from where to where the key of
        the list and its bracket stand.

        That of an object inside is none, unless there is no other: then all is that object where the file is valid
        JSON, and else the quotes and brackets before it are damaged.
        """
        before, searched, counted, depth = bytearray(text), 0, 0, 0
        inner: tuple[int, int] | None = None
        while True:
            if key := _events_key(before, searched):
                depth += _nesting(before, counted, key.start())
                if depth == 1:
                    return bytes(before), key.span()
                inner, searched, counted = inner or key.span(), key.end(), key.start()
                continue
            piece = b"" if inner and len(before) - inner[1] > _FARTHEST else next(pieces, b"")
            if not piece and inner:
                holder = _holder(bytes(before))
                return self._until_events(holder, pieces) if holder else (bytes(before), inner)
            if not piece:
                raise TraceError(f"{self.path} is not a Chrome trace: it has no array `traceEvents`. {_NEXT}")
            begun = before.rfind(_KEY, searched)
            goes_on = begun >= 0 and _UNFINISHED.fullmatch(before, begun + len(_KEY))
            searched = begun if goes_on else max(len(before) - len(_KEY), searched)
            before += piece

    def _mentions(self, key: bytes) -> bool:
        """Whether the file holds these bytes; those of a trace stand in its first piece."""
        text = b""
        for piece in self._pieces():
            text = text[-len(key) :] + piece
            if key in text:
                return True
        return False

    def _is_large(self) -> bool:
        """Whether it pays to compile a loop for this file, and those that were read before."""
        with opened(self.path) as file:
            is_packed = file.read(2) == unpacking.GZIP
        size = self.path.stat().st_size * (_OF_GZ if is_packed else 1)
        return pays("Chrome JSON", size, SCAN_FROM_BYTES)

    def _pieces(self) -> Iterator[bytes]:
        """The bytes of the file, unpacked, each piece at least _PIECE_BYTES long but the last."""
        with opened(self.path) as file:
            packed = file.read(2) == unpacking.GZIP
            file.seek(0)
            parts: list[bytes] = []
            size = 0
            for part in self._unpacked(file) if packed else iter(lambda: file.read(_PIECE_BYTES), b""):
                parts.append(part)
                size += len(part)
                if size >= _PIECE_BYTES:
                    yield b"".join(parts)
                    parts, size = [], 0
            if size:
                yield b"".join(parts)

    def _seen(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.stretches.see(piece)
            yield piece

    def _unpacked(self, file: BinaryIO) -> Iterator[bytes]:
        """What the gzip members of `file` hold up to where they are damaged."""
        try:
            yield from unpacking.gunzipped(file, self.path)
        except (zlib.error, EOFError):
            self.cut = "its compressed stream ends early"

    def _last(self, text: bytes) -> "_Run":
        """The events of the end of the file, and what follows them."""
        self.shapes.see(text, len(text))
        run = self._decode(text, whole=True, final=True)
        if run is None:
            for cut in islice(_cuts(text), 1000):
                if run := self._decode(text[:cut], whole=False, final=True):
                    text = text[cut:]
                    break
            run = run or _Run([])
            try:
                run.events.append(_EVENT.decode(text.strip(_BLANKS)))
            except BROKEN:
                self.cut = self.cut or "it ends within an event"
        if run.rest is None:
            self.cut = self.cut or "its list of events is not closed"
        return run

    def _decode(self, text: bytes | memoryview, whole: bool, final: bool) -> "_Run | None":
        """The events that `text` begins with; None if it ends inside of one that is good so far.

        `whole`: whether the end of `text` is that of the file, else it is the end of an event. `final`: whether a
        broken event that nothing good follows is given up, else it is left for when more of the file is there.
        """
        run = bytearray(b"[")  # a megabyte, of which each copy takes as long as a tenth of the reading
        run += memoryview(text)[_LEADING.match(text).end() :]  # type: ignore[union-attr]
        end = len(run)
        run += b"]" * (not whole)
        events: list[Event] = []
        at = 0
        while True:
            run[at] = ord("[")
            try:
                return _Run(events + self._objects(memoryview(run)[at:]), rest=b"" if whole else None)
            except RecursionError:
                flat = shallow(bytes(run[at:]), self._nested)
                if flat == run[at:]:
                    return None
                run = run[:at] + flat  # of a new one: what was raised holds a view of the other
                end = len(run) - (not whole)
                continue
            except BROKEN as error:
                reason = str(error)
            if not (byte := _WHERE.search(reason)):
                return None
            where = at + int(byte[1])
            if "trailing characters" in reason and _is_end(run, where - 1, end, whole):
                return _Run(events + self._objects(memoryview(run)[at : where - 1]), rest=bytes(run[where - 1 : end]))
            if "trailing comma" in reason and run[where] == ord("]") and _is_end(run, where + 1, end, whole):
                run[run.rfind(b",", at, where)] = ord(" ")
                continue
            begin = self._until(events, run, at, where)
            if self._tried > _MOST_TRIED:
                self.cut = self.cut or "it is damaged in too many places"
                return _Run(events, rest=b"")
            ends = _ends(run, where, end, whole)
            good, may_go_on = self._repair_first(events, run, begin, ends)
            if good is None:
                if len(ends) < _TRIES and not final:
                    return _Run(events, unread=bytes(run[begin:end]))
                likely = _likely(run, ends, end, whole) if ends else None
                if len(ends) == _TRIES or not may_go_on or self._repair(events, run[begin:end]):
                    self._skip(run[begin : likely.stop if likely else end])
                if likely is None:
                    return _Run(events)
                good = likely
            after = good
            if after.ended:
                return _Run(events, rest=bytes(run[after.next : end]))
            at = after.next

    def _objects(self, text: memoryview) -> list[Event]:
        """The events in the array `text`."""
        values = _EVENTS.decode(text)
        others = len(values) - sum(map(is_, map(type, values), repeat(Event)))
        events = cast(list[Event], [value for value in values if type(value) is Event] if others else values)
        self.others += others
        # What an event without a phase lacks is shared, so that it is found at once.
        if others or any(map(is_, map(_PHASE_OF, events), repeat(NOTHING))):
            for value, raw in zip(values, _VALUES.decode(text), strict=True):
                if not isinstance(value, Event):
                    self.nested += max(bytes(raw).count(_PHASE_KEY) - 1, 0)  # beside the one that is counted
                elif value.ph is NOTHING:
                    self.nested += bytes(raw).count(_PHASE_KEY)
        return events

    def _until(self, events: list[Event], run: bytearray, at: int, where: int) -> int:
        """Append the events of `run` from the bracket `at` on that are whole before `where`; where they end."""
        for before in _cuts(run, where, at):
            byte = run[before]
            run[before] = ord("]")
            try:
                events += self._objects(memoryview(run)[at : before + 1])
                return before + 1
            except BROKEN:
                run[before] = byte
                self._tried += before - at
                if self._tried > _MOST_TRIED:
                    break
        return at + 1

    def _nested(self) -> None:
        self.repaired += 1

    def _repair_first(
        self, events: list[Event], run: bytearray, begin: int, ends: list["_End"]
    ) -> tuple["_End | None", bool]:
        """Append the event of `run` from `begin` to the first of `ends` with which it can be made one; that end, None
        without any, and whether the event may end later.

        Of an event that is wrong at some byte, and does not just end too early, a longer one is wrong there as well.
        """
        for place in ends:
            wrong = self._repair(events, run[begin : place.stop])
            if not wrong:
                return place, True
            if _WHERE.search(wrong):
                return None, False
        return None, True

    def _repair(self, events: list[Event], text: bytearray) -> str:
        """Append the event in `text` to `events`, if it can be made one, else what is wrong; "" if it could."""
        try:
            events.append(_EVENT.decode(repaired(bytes(text).strip(_BLANKS))))
        except BROKEN as error:
            return str(error)
        self.repaired += 1
        self.mended += self._add_odd(text)
        self.shapes.add_broken(bytes(text), is_repaired=True)
        return ""

    def _skip(self, text: bytearray) -> None:
        """Count the events in `text`, each by what it was, or one where none can be told."""
        parts = _BETWEEN.split(text)
        for part in [each for each in parts if _PHASE_KEY in each] or parts[:1]:
            self.skipped[_identity(part)] += max(part.count(_PHASE_KEY), 1)
        self._add_odd(text)
        self.shapes.add_broken(bytes(text), is_repaired=False)

    def _add_odd(self, text: bytearray) -> bool:
        """Keep how long a text is beside what is empty of it, where that is long; whether it is."""
        is_long = len(text) >= LONG_BYTES and (size := len(text) - empty(bytes(text))) >= LONG_BYTES
        if is_long:
            self.odd.append(size)
        return is_long

    def _own(self, text: bytes) -> bytes:
        """What follows the list of events and belongs to it; what stands behind is counted."""
        self.after = len(text)
        if self.keyed:
            text = b"{%b" % text.lstrip(_BLANKS)
            end = len(text)
            try:
                msgspec.json.decode(text, type=msgspec.Raw)
            except BROKEN as error:
                if "trailing characters" in str(error) and (byte := _WHERE.search(str(error))):
                    end = int(byte[1]) - 1
        else:
            end = len(text) if _ENDED[True].match(text) else 0
        self.behind = len(text[end:].strip(b"\0" + _BLANKS))
        return text[self.keyed : end]

    def _keys(self, text: bytes) -> None:
        """Add the keys in `text`, which ends with the closing brace of the file, to `head`."""
        keys = _parsed(text)
        self.head |= keys or {}
        other = self.head.pop(_NAME, b"")
        if other[:1] == b"[":
            self._other = other
            self.unread = None if text.count(_KEY) > 1 else 0
        if keys is None or other not in text:  # else the list is repaired
            self.cut = self.cut or "the keys beside its events are truncated or not valid JSON"


def _events_key(text: bytearray, begin: int) -> re.Match[bytes] | None:
    """The key of the events from `begin` on; of what holds none, its bytes alone are looked for in a tenth of the
    time."""
    at = text.find(_KEY, begin)
    return _EVENTS_KEY.search(text, at) if at >= 0 else None


def _holder(text: bytes) -> bytes | None:
    """The least deep of the objects inside the valid JSON `text` that has a list of events, an empty one only where no
    other has any; None without one."""
    texts, empty = [text], None
    try:
        for _ in range(_DEEPEST):
            inside: list[msgspec.Raw] = []
            for each in texts:
                values = msgspec.json.decode(each, type=dict[str, msgspec.Raw] | list[msgspec.Raw])
                events = b""
                if isinstance(values, dict) and len(each) < len(text):
                    events = bytes(values.get(_NAME, NOTHING))
                if events[:1] == b"[" and events[1:-1].strip():
                    return each
                empty = empty or (each if events else None)
                inside += values.values() if isinstance(values, dict) else values
            texts = [value for value in map(bytes, inside) if value[:1] in (b"{", b"[") and _KEY in value]
    except BROKEN:
        return None
    return empty


def _nesting(text: bytearray, begin: int, end: int) -> int:
    """How many objects and arrays more are open at `end` than at `begin`; neither stands in a string."""
    depth = 0
    for bracket in _BRACKET.finditer(text, begin, end):
        byte = text[bracket.start()]
        depth += (byte in b"{[") - (byte in b"}]")
    return depth


def _is_end(run: bytearray, at: int, end: int, whole: bool) -> bool:
    """Whether the array of events ends before `at`, where a bracket closes one: as it should, before another document,
    or at the end of a file (`whole`) that holds no event behind it."""
    if _ENDED[whole].match(run, at, end) or _ANOTHER.match(run, at, end):
        return True
    return whole and run.find(_PHASE_KEY, at, end) < 0


def _parsed(text: bytes) -> dict[str, Any] | None:
    """The keys in `text`, which ends with the closing brace of the file, `traceEvents` undecoded; None if it is no JSON
    and not repaired."""
    text = b"{%b}" % text.strip(_BLANKS).removesuffix(b"}").strip(_BLANKS)
    for attempt in (text, repaired(text), repaired(shallow(text))):
        try:
            values = msgspec.json.decode(attempt, type=dict[str, msgspec.Raw])
            return {key: bytes(raw) if key == _NAME else msgspec.json.decode(raw) for key, raw in values.items()}
        except BROKEN:
            continue
    return None


@dataclass
class _Run:
    """Events that were decoded together, text still `unread`, and what follows the array, if it ended."""

    events: list[Event]
    unread: bytes = b""
    rest: bytes | None = None


class _End(NamedTuple):
    """Where an event may stop, where the next run or what follows the array begins, and which of these it is."""

    stop: int
    next: int
    ended: bool


def _identity(text: bytes | bytearray) -> Skipped:
    """What the text of an event that is no JSON says of what it is."""
    found = [each.search(text) for each in _IDENTITY]
    return Skipped(*(match and match[1].strip(b'"').decode("utf-8", "replace") for match in found))


def _likely(run: bytearray, ends: list[_End], end: int, whole: bool) -> _End:
    """The first of `ends` with which an event may end that nothing repairs: the array's only if just keys follow."""
    for candidate in ends:
        if not candidate.ended or (whole and _parsed(bytes(run[candidate.next : end])) is not None):
            return candidate
    return ends[0]


def _ends(run: bytearray, where: int, end: int, whole: bool) -> list[_End]:
    """Where the event around `where` may end, the first _TRIES places."""
    # Before the brace of the next event there is a comma or a blank: the bracket's place.
    next_events = islice(_BETWEEN.finditer(run, where, end), _TRIES)
    ends = [_End(match.start() + 1, match.end() - 2, False) for match in next_events]
    stop = ends[-1].stop if len(ends) == _TRIES else end
    last = islice(_LAST[whole].finditer(run, where, stop), _TRIES)
    return sorted([*ends, *(_End(match.start() + 1, match.end(), True) for match in last)])[:_TRIES]


def _cuts(text: bytes | bytearray, end: int | None = None, begin: int = 0) -> Iterator[int]:
    """The ends of events that another seems to follow, the last first; only decoding tells whether they are."""
    end = len(text) if end is None else end
    for start in (max(end - 65536, begin), begin):
        for match in reversed(list(_BETWEEN.finditer(text, start, end))):
            yield match.start() + 1
