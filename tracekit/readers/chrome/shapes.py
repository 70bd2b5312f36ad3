"""Events that begin as one event and end as another: what a stretch of the file leaves that is not there any more.

A profiler writes the keys of events of a kind in one order, each once. Where what stood before and behind a stretch is
joined, an event has keys twice, in no order that others have, or those of two kinds. Most such is JSON, of which the
last of equal keys counts: so the text is looked through. What is frequent in the file tells how its events are written,
and what is rare is held against that; an event whose keys are those of others is not told from these.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from json import JSONDecoder
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracekit.readers.chrome import scanner
from tracekit.readers.json_repair import BROKEN

# Of a key the eight bytes before its colon are compared, of which the last is its quote, without what is no letter.
_WORD = 8
_ONES, _BYTE = np.uint64(0x0101010101010101), np.uint64(255)
_PHASE, _CATEGORY = (int.from_bytes(key, "little") for key in (b'"ph"', b'"cat"'))
_PHASE_BITS, _CATEGORY_BITS, _LETTER_BITS = np.uint64(32), np.uint64(24), np.uint64(6)
_QUOTE, _BACKSLASH = 34, 92
_LAST, _LAST_TWO, _HALF, _TOP = (np.uint64(bits) for bits in (56, 48, 32, 50))
_MIXER, _LINKER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_BUCKETS = 1 << 14
# How events are written of which there are so many is known; what there is no more of is held against that.
_KNOWN, _RARE = 8, 2
# So many kinds are kept, and so many bytes of their texts: where each event has keys of its own, none is told.
_MOST_KINDS, _MOST_BYTES, _MOST_OF_ONE = 4096, 1 << 24, 1 << 16
_AHEAD = 2
# Where more are frequent, as of annotations with arguments of the user's own, keys of two kinds prove nothing.
_MOST_FREQUENT = 64
# Of more that are no JSON each is lost: so they are written.
_MOST_BROKEN = 64
_BEGIN = re.compile(r"(?:\A|[\[,])\s*+\{")
_BETWEEN = re.compile(rb"\}\s*+,[\s,]*+\{")
_ANY_KEY = re.compile(rb'(?<!\\)"((?:[^"\\]|\\.){1,80}+)"\s*+:', re.DOTALL)
# What is as long may be what another writer put there.
_EMPTY = re.compile(rb"\0|\s{512}")
# What is open where an object ends, and what is begun in it there.
_OBJECT = (b"", b'"', b'"a"', b'"a":', b'"a":"', b'"a":1')
_ARRAY = (b"", b'"', b"1")
_STATES = (
    *((opened, _OBJECT) for opened in (b"{", b'{"a":{', b'{"a":{"a":{')),
    *((opened, _ARRAY) for opened in (b'{"a":[', b'{"a":{"a":[', b'{"a":{"a":[[')),
)
# So far before where a text is no JSON the place is looked for at which a part is missing.
_FARTHEST = 1024
# A quote in a name, or a number that begins with 0: no part is missing there.
_WRITTEN = re.compile(rb'."[^,:}\]\s]|[^\d.]0\d', re.DOTALL)
_DIGITS = re.compile(r"\d+")
_WHERE = re.compile(r"\(byte (\d+)\)")
_BLANKS = b", \t\r\n"
# What events of a phase have that have it at all; of others, as categories, other tools leave some out.
_CORE = frozenset({"name", "pid", "tid", "ts", "dur"})
JOINED = "an event begins as one and ends as another: what stood between is not there"


class Kind(NamedTuple):
    """What events of a kind are like: their phase and category, their keys, and those of their arguments, both with all
    numbers in them alike (`layer_12`); whether one of them stands twice."""

    phase: str
    category: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    is_twofold: bool

    @property
    def texts(self) -> tuple[str, ...]:
        """All keys in their order, those of the arguments behind theirs."""
        at = self.keys.index("args") + 1 if "args" in self.keys else len(self.keys)
        return (*self.keys[:at], *self.args, *self.keys[at:])


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of an object, in their order, with those that stand in it twice."""


_DECODER = JSONDecoder(object_pairs_hook=_Pairs, strict=False)


@dataclass
class Shapes:
    """The kinds of events of a file, while its pieces are seen one after the other, by a thread beside the others.

    A number that its keys, its phase and its category give stands for a kind; `_texts` are the first events of each.
    """

    _broken: list[tuple[bytes, bool]] = field(default_factory=list)
    _counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_BUCKETS, np.int64))
    _texts: dict[int, bytes] = field(default_factory=dict)
    _size: int = 0
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _under_way: deque[Future[None]] = field(default_factory=deque)

    def see(self, text: bytes, end: int) -> None:
        """Look through the events of a text up to where they end."""
        self._under_way.append(self._pool.submit(self._see, text, end))
        if len(self._under_way) > _AHEAD:
            self._under_way.popleft().result()

    def count(self, events: scanner.Events) -> None:
        """Count events that were scanned, of which each has a number."""
        for row in self._new(events.kinds):
            near = events.spans[:, max(row - 1, 0) : row + 2]
            begin, end = int(near[near > 0].min()), int(near.max())
            begin = begin if row else max(begin - _MOST_OF_ONE, 0)
            end = end if row + 1 < len(events) else end + _MOST_OF_ONE
            self._keep(int(events.kinds[row]), events.text[begin : min(end, begin + 2 * _MOST_OF_ONE)].tobytes())
        self._counts += np.bincount(events.kinds, minlength=_BUCKETS)

    def add_broken(self, text: bytes, is_repaired: bool) -> None:
        """Keep the text of an event that is no JSON, whether it can be repaired or not."""
        if len(self._broken) < _MOST_BROKEN and len(text) <= _MOST_OF_ONE and not _EMPTY.search(text):
            self._broken.append((text, is_repaired))

    def joined(self) -> int:
        """How many events of all that was seen begin as one and end as another."""
        for each in self._under_way:
            each.result()
        self._pool.shutdown()
        counts, rare = Counter[Kind](), dict[Kind, None]()
        for number, text in self._texts.items():
            kinds = [*_kinds(text)]
            counts.update(dict.fromkeys(kinds, 0))
            if kinds:
                counts[kinds[0]] += int(self._counts[number])
            if self._counts[number] <= _RARE:
                rare.update(dict.fromkeys(kinds))
        frequent = [kind for kind, count in counts.items() if count >= _KNOWN]
        known = _Known(frequent)
        joined = {kind for kind in rare if counts[kind] <= _RARE and known.is_joined(kind)}
        own = {kind.texts for kind in counts.keys() - joined}
        is_known = 0 < len(frequent) <= _MOST_FREQUENT and len(self._broken) < _MOST_BROKEN
        broken = self._broken if is_known else ()
        return len(joined) + sum(
            _has_other_keys(text, own) or (not is_repaired and _lacks_a_part(text.strip(_BLANKS)))
            for text, is_repaired in broken
        )

    def _see(self, text: bytes, end: int) -> None:
        begins, numbers = _numbers(text, end)
        for row in self._new(numbers):
            begin = int(begins[row - 1]) if row else max(int(begins[0]) - _MOST_OF_ONE, 0)
            last = int(begins[row + 2]) if row + 2 < len(begins) else end
            self._keep(int(numbers[row]), text[begin : min(last, begin + 2 * _MOST_OF_ONE)])
        self._counts += np.bincount(numbers, minlength=_BUCKETS)

    def _new(self, numbers: NDArray[np.integer[Any]]) -> list[int]:
        """Where numbers stand that were not there before, each once."""
        rows = np.flatnonzero(self._counts[numbers] == 0)
        return np.sort(rows[np.unique(numbers[rows], return_index=True)[1]]).tolist() if len(rows) else []

    def _keep(self, number: int, text: bytes) -> None:
        if len(self._texts) < _MOST_KINDS and self._size < _MOST_BYTES:
            self._texts[number] = text
            self._size += len(text)


def _numbers(text: bytes, end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where in a text, up to where it ends, each key of a phase stands, (n,), and a number for the keys from there to
    the next one, (n,)."""
    nothing = np.zeros(0, np.int64)
    if end < 2 * _WORD:
        return nothing, nothing
    at = np.flatnonzero(np.frombuffer(text, np.uint8, end) == ord(":"))
    at = at[: np.searchsorted(at, end - _WORD)]
    words = np.ndarray((end - _WORD + 1,), "<u8", text, strides=(1,))
    early = [int.from_bytes(text[:place].rjust(_WORD), "little") for place in at[at < _WORD].tolist()]
    keys = np.append(np.array(early, np.uint64), words[at[len(early) :] - _WORD])
    is_key = (keys >> _LAST == _QUOTE) & (keys >> _LAST_TWO & _BYTE != _BACKSLASH)
    at, keys = at[is_key], keys[is_key]
    is_phase = keys >> _PHASE_BITS == _PHASE
    begins = np.flatnonzero(is_phase)
    if not len(begins):
        return nothing, nothing
    # A short key has a part of the value before it in its word, of which digits tell nothing.
    keys &= (keys >> _LETTER_BITS & _ONES) * _BYTE
    keys[is_phase] = 0
    mixed = keys * _MIXER
    mixed[1:] ^= keys[:-1] * _LINKER
    valued = np.concatenate([begins, np.flatnonzero(keys >> _CATEGORY_BITS == _LETTERS_OF_CATEGORY)])
    values = words[at[valued] + 1]
    mixed[valued] += values & ((values >> _LETTER_BITS & _ONES) * _BYTE)
    mixed *= _MIXER
    mixed ^= mixed >> _HALF
    mixed[begins] *= _LINKER
    sums = np.add.reduceat(mixed, begins) * _MIXER
    return at[begins] - 4, (sums >> _TOP).astype(np.int64)


def _letters(text: bytes) -> int:
    return int.from_bytes(bytes(byte if byte & 64 else 0 for byte in text), "little")


_LETTERS_OF_CATEGORY = _letters(b'"cat"')


def _kinds(text: bytes) -> Iterator[Kind]:
    """The kinds of the whole events of a text, which may begin and end within others."""
    letters, done = text.decode("utf-8", "replace"), 0
    for match in _BEGIN.finditer(letters):
        begin = match.end() - 1
        if begin < done:
            continue
        try:
            pairs, end = _DECODER.raw_decode(letters, begin)
        except (ValueError, RecursionError):
            continue
        values = dict(pairs)
        if "ph" in values:
            done = end
            args = values.get("args")
            phase, category = (value if isinstance(value := values.get(key), str) else "" for key in ("ph", "cat"))
            keys, of_args = ([key for key, _ in each] for each in (pairs, args if isinstance(args, _Pairs) else ()))
            is_twofold = any(len({*each}) < len(each) for each in (keys, of_args))
            keys_of_kind, args_of_kind = (tuple(map(_without_numbers, each)) for each in (keys, of_args))
            yield Kind(phase, category, keys_of_kind, args_of_kind, is_twofold)


def _without_numbers(key: str) -> str:
    return _DIGITS.sub("0", key)


class _Known:
    """How the events of a file are written, by what is frequent in it."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = kinds

    def is_joined(self, kind: Kind) -> bool:
        """Whether an event of a kind of which there is hardly another one begins as one and ends as another."""
        if kind.is_twofold:
            return True
        if len(self._kinds) > _MOST_FREQUENT or kind in self._kinds or not self._has_two_parts(kind):
            return False
        alike = [each for each in self._kinds if each.phase == kind.phase]
        of_category = [each for each in alike if each.category == kind.category]
        if _is_in_no_order(kind, alike) or len(_of_all(each.keys for each in alike) & _CORE - {*kind.keys}) > 1:
            return True
        own = set[str]().union(*(each.args for each in of_category))
        is_foreign = bool(of_category) and not own >= {*kind.args}
        known = set[str]().union(*(each.texts for each in self._kinds))
        return (is_foreign and not _of_all(each.args for each in of_category) <= {*kind.args}) or not known >= {
            *kind.texts
        }

    def _has_two_parts(self, kind: Kind) -> bool:
        """Whether it begins as one of the kinds and ends as another, between two keys or within one."""
        texts = kind.texts
        places = [texts.index(key) if key in texts else len(texts) for key in ("ph", "cat")]
        begins, ends = defaultdict[int, set[str]](set), defaultdict[int, set[str]](set)
        for each in self._kinds:
            same, behind = _common(texts, each.texts), _common(texts[::-1], each.texts[::-1])
            # What it has of the first kind's own keys are the values of that.
            values = zip(places, kind[:2], each[:2], strict=True)
            if same and not any(at < same and value != other for at, value, other in values):
                begins[same].add(each.texts[same] if same < len(each.texts) else "")
            if behind < len(texts):
                ends[behind].add(each.texts[-behind - 1] if behind < len(each.texts) else "")
        if begins and ends and max(begins) + max(ends) >= len(texts):
            return True
        return any(
            _is_of_both(texts[same], begin, end)
            for same, firsts in begins.items()
            for begin in firsts
            for end in ends.get(len(texts) - 1 - same, ())
        )


def _is_of_both(key: str, begin: str, end: str) -> bool:
    """Whether a key begins as one and ends as another, each of which is another key."""
    if not begin or not end or key in (begin, end):
        return False
    return _common(key, begin) + _common(key[::-1], end[::-1]) >= len(key)


def _has_other_keys(text: bytes, kinds: Iterable[tuple[str, ...]]) -> bool:
    """Whether a text that is no JSON holds an event whose keys are not those of a kind of which one is damaged."""
    for part in _BETWEEN.split(text):
        keys = tuple(_without_numbers(match[1].decode("utf-8", "replace")) for match in _ANY_KEY.finditer(part))
        if keys and not any(_is_near(keys, own) for own in kinds):
            return True
    return False


def _lacks_a_part(text: bytes) -> bool:
    """Whether bytes that are left out somewhere would make a text JSON: what stands before and behind is each what an
    object may begin, or end, with. Where a profiler writes what is no JSON, as NaN, or a quote in a name, it is not."""
    if (wrong := _wrong(text)) is None:
        return False
    is_written = _WRITTEN.fullmatch(text, max(wrong - 2, 0), wrong + 1)
    for place in range(wrong - (2 if is_written else 0), max(wrong - _FARTHEST, 0), -1):
        behind = text[place:]
        if behind.strip(b" \t\r\n")[:1] in b",}]":  # the end of one value, which may be all that is missing
            continue
        if any(_wrong(opened + state + behind) is None for opened, states in _STATES for state in states):
            return True
    return False


def _wrong(text: bytes) -> int | None:
    """Where a text is no JSON, its length where it ends too early or is so for another reason; None if it is JSON."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except BROKEN as error:
        where = _WHERE.search(str(error))
        return int(where[1]) if where else len(text)
    return None


def _is_in_no_order(kind: Kind, alike: Sequence[Kind]) -> bool:
    """Whether two keys beside each other have the opposite order in all kinds `alike` that have both."""
    for first, second in pairwise(kind.keys):
        both = [each.keys for each in alike if {first, second} <= {*each.keys}]
        if both and all(keys.index(first) > keys.index(second) for keys in both):
            return True
    return False


def _of_all(keys: Iterable[tuple[str, ...]]) -> set[str]:
    """The keys that all have."""
    sets = [set(each) for each in keys]
    return set.intersection(*sets) if sets else set()


def _common(text: Sequence[str], other: Sequence[str]) -> int:
    """How many of their letters, or texts, two begin with alike."""
    differs = (at for at, pair in enumerate(zip(text, other, strict=False)) if pair[0] != pair[1])
    return next(differs, min(len(text), len(other)))


def _is_near(keys: Sequence[str], own: Sequence[str]) -> bool:
    """Whether keys are those of a kind, in their order, but for one that is missing and one that it has not."""
    if abs(len(keys) - len(own)) > 1:
        return False
    same = np.zeros(len(own) + 1, np.int64)  # how many are alike, in order, up to each
    for key in keys:
        longer = np.where([key == each for each in own], same[:-1] + 1, same[1:])
        same[1:] = np.maximum.accumulate(longer)
    return bool(same[-1] >= max(len(keys), len(own)) - 1)
