"""Regular events of a Chrome trace, found by a compiled loop: which bytes are the values of their fields.

Nothing is decoded, but all is checked: what passes is JSON that msgspec reads too, as events of the same fields. At
whatever else it meets (NaN, odd escapes, deep nesting, values between the events) the loop stops, and json_text goes on
from there.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit.jit import compiled, start, without_collection

FIELDS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")
# Their names as the loop compares them, as numbers.
_KEYS = np.array([int.from_bytes(field.encode(), "big") for field in FIELDS], np.int64)
_MOST_EVENTS = 1 << 13
# What is nested deeper, or a longer number, msgspec may refuse.
_DEEPEST = 60
_LONGEST_NUMBER = 30
# A 1 in each of eight bytes, the highest bit of each, and what ends the plain part of a string.
_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _SLASHES, _SPACES = (np.uint64(byte) * _ONES for byte in (34, 92, 32))
_ONE, _TOP_BYTE = np.uint64(1), np.uint64(56)
_MIXER, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
_LETTER_BITS, _BYTE, _TOP_BITS = np.uint64(6), np.uint64(255), np.uint64(50)
# Why the loop stopped: the text ended, maybe inside of an event; what comes is not regular; there is no room for more.
_END, _ODD, _FULL = range(3)


class Events(NamedTuple):
    """n events of `text`: `spans` (8, n, 2) say where there the value of each of FIELDS begins and ends, 0 for none.

    `words` are the eight bytes from each place in `text` on. `kinds` (n,): a number for the keys of each event
    and of its args, and for its phase and category.
    """

    text: NDArray[np.uint8]
    words: NDArray[np.uint64]
    spans: NDArray[np.int32]
    kinds: NDArray[np.uint16]

    def __len__(self) -> int:
        return int(self.spans.shape[1])

    def column(self, field: str) -> pa.Array:
        """The raw values of one field, as one Arrow array of bytes; what an event lacks is empty."""
        return self._column(self.spans[FIELDS.index(field)])

    def _column(self, spans: NDArray[np.int32]) -> pa.Array:
        ends = np.zeros(len(spans) + 1, np.int32)
        np.cumsum(spans[:, 1] - spans[:, 0], out=ends[1:])
        values = np.empty(int(ends[-1]), np.uint8)
        _loops().copy(self.text, self.words, spans, ends, values, _words(values))
        return pa.Array.from_buffers(pa.binary(), len(spans), [None, pa.py_buffer(ends), pa.py_buffer(values)])

    def dictionaries(self, fields: Sequence[str]) -> list[pa.DictionaryArray]:
        """The same of some fields with each value once, as Arrow's dictionary_encode gives it."""
        spans = self.spans[[FIELDS.index(field) for field in fields]]
        codes, first = np.empty((2, len(fields), len(self)), np.int32)
        slots, counts = np.full((len(fields), 2 * _MOST_EVENTS), -1, np.int32), np.zeros(len(fields), np.int32)
        _loops().distinct(self.words, spans, slots, codes, first, counts)
        return [
            pa.DictionaryArray.from_arrays(pa.array(codes[at]), self._column(spans[at, first[at, :count]]))
            for at, count in enumerate(counts.tolist())
        ]

    def times(self, field: str) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int8]]:
        """The picoseconds of a field of microseconds, high * 2**64 + low; and which is absent (0), which is known (1),
        and which is not, as it is no plain decimal number (2)."""
        high, low = np.zeros(len(self), np.int64), np.zeros(len(self), np.uint64)
        state = np.zeros(len(self), np.int8)
        _loops().times(self.text, self.spans[FIELDS.index(field)], high, low, state)
        return high, low, state


def _words(text: bytes | NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The eight bytes from each place in `text` on."""
    return np.ndarray((max(len(text) - 7, 0),), "<u8", text, strides=(1,))


class _Loops(NamedTuple):
    scan: Any
    copy: Any
    distinct: Any
    times: Any


@lru_cache(1)
def is_there() -> bool:
    """Whether there is numba to compile the loops: plain, they would take far longer than msgspec."""
    numba = start()
    return numba is not None and not numba.config.DISABLE_JIT


@lru_cache(1)
def _loops() -> _Loops:
    for function in (_letters, _is_blank, _field, _plain, _escape, _number, _word, _lowest):
        start().extending.register_jitable(function)
    loops = _Loops(compiled(_scan), compiled(_copy), compiled(_distinct), compiled(_times))
    with without_collection():  # the first that is called loads most of numba
        spans, kinds = np.zeros((len(FIELDS), 0, 2), np.int32), np.zeros(0, np.uint16)
        loops.scan(np.frombuffer(b"", np.uint8), _words(b""), 0, _KEYS, spans, kinds)
    return loops


def scan(text: bytes) -> tuple[list[Events], int, bool]:
    """The regular events that `text` begins with, where they end in it, and whether what comes then is irregular.

    The last event is left unless the next one has begun: what stands between the two may be irregular. So eight bytes
    of `text` can be read from the beginning and the end of any value.
    """
    view = np.frombuffer(text, np.uint8)
    words = _words(text)
    events, end, stop = [], 0, _FULL
    while stop == _FULL:
        spans = np.zeros((len(FIELDS), _MOST_EVENTS, 2), np.int32)
        kinds = np.zeros(_MOST_EVENTS, np.uint16)
        count, end, stop = _loops().scan(view, words, end, _KEYS, spans, kinds)
        if count:
            events.append(Events(view, words, spans[:, :count], kinds[:count]))
    if not text.isascii():
        try:
            str(memoryview(text)[:end], "utf-8")
        except UnicodeDecodeError:
            return [], 0, True
    return events, end, stop == _ODD


# What may come next; after a bracket that opened, the one that closes it too.
_VALUE, _KEY, _COLON, _NEXT, _FIRST_VALUE, _FIRST_KEY = range(6)


def _scan(text: Any, words: Any, at: int, keys: Any, spans: Any, kinds: Any) -> tuple[int, int, int]:
    """Write where the fields of the events in `text` from `at` on stand to `spans`, and the number of the kind of each
    to `kinds`; how many, where they end, and why.

    An event counts when the next one begins, eight bytes or more before the end of the text. `objects` has a bit for
    each open bracket, the innermost last, which says whether it is that of an object.
    """
    size = len(text)
    done = end = at
    count = row = depth = objects = opened = 0
    field = -1
    kind = np.uint64(0)
    wants = _VALUE
    while at < size and (text[at] == 44 or _is_blank(text[at])):
        at += 1
    while at < size:
        byte = text[at]
        if _is_blank(byte):
            at += 1
            continue
        begin = at
        if wants == _COLON:
            if byte != 58:
                return count, done, _ODD
            at += 1
            wants = _VALUE
            continue
        is_key = wants in (_KEY, _FIRST_KEY)
        # Strings are gone through in this one place, and no function that is called for every one takes an array: numba
        # would count references to it in each call, which is as much as a fifth of the time.
        if byte == 34 and wants != _NEXT and depth > 0:  # "
            at += 1
            while True:
                at = _plain(words, at)
                if at >= size:
                    return count, done, _END
                byte = text[at]
                at += 1
                if byte == 34:
                    break
                if byte == 92:  # \
                    at = _escape(text, at)
                    if at <= 0:
                        return count, done, -at
                elif byte < 32:
                    return count, done, _ODD
            if is_key:
                if depth < 3 and at >= 8:
                    kind = (kind ^ _letters(words[at - 8])) * _MIXER
                if depth == 1:
                    field = _field(text, begin + 1, at - 1, keys)
                    if field < -1:
                        return count, done, _ODD
                wants = _COLON
                continue
            wants = _NEXT
            if depth == 1 and field >= 0:
                spans[field, row, 0] = begin
                spans[field, row, 1] = at
            continue
        if is_key and not (wants == _FIRST_KEY and byte == 125):
            return count, done, _ODD
        if byte == 44:  # ,
            if wants != _NEXT:
                return count, done, _ODD
            at += 1
            wants = _KEY if objects & 1 else _VALUE
            continue
        if byte == 125 or byte == 93:  # } ]
            if depth == 0 or wants < _NEXT or (objects & 1 == 1) != (byte == 125):
                return count, done, _ODD
            at += 1
            objects >>= 1
            depth -= 1
            begin = opened
        elif wants != _VALUE and wants != _FIRST_VALUE:
            return count, done, _ODD
        elif byte == 123 or (byte == 91 and depth > 0):  # { [
            if depth == 0:
                if at >= len(words):
                    return count, done, _END
                count, done = row, end
                if row == spans.shape[1]:
                    return count, done, _FULL
            elif depth == 1:
                opened = at
            elif depth == _DEEPEST:
                return count, done, _ODD
            is_object = byte == 123
            objects = objects << 1 | is_object
            depth += 1
            at += 1
            wants = _FIRST_KEY if is_object else _FIRST_VALUE
            continue
        elif depth == 0:
            return count, done, _ODD
        else:
            at = _number(text, at) if byte < 58 else _word(text, at)
            if at <= 0:
                return count, done, -at
        wants = _NEXT
        if depth == 0:
            if spans[0, row, 1] == 0:  # without a phase it is no event: what is inside may be some
                return count, done, _ODD
            if at + 8 <= size:
                kind ^= _letters(words[spans[0, row, 0]]) * _MIXER ^ _letters(words[spans[1, row, 0]])
            kinds[row] = (kind ^ kind >> _HALF) * _MIXER >> _TOP_BITS
            kind = np.uint64(0)
            row += 1
            end = at
        elif depth == 1 and field >= 0:
            spans[field, row, 0] = begin
            spans[field, row, 1] = at
    return count, done, _END


def _letters(word: Any) -> Any:
    """The letters of eight bytes: a short key has a part of the value before it in its word, of which digits tell
    nothing."""
    return word & (word >> _LETTER_BITS & _ONES) * _BYTE


def _is_blank(byte: int) -> bool:
    return byte == 32 or byte == 10 or byte == 13 or byte == 9


def _field(text: Any, begin: int, end: int, keys: Any) -> Any:
    """Which of FIELDS the key in [begin, end) is, -1 if it is none, -2 if an escape hides what it is."""
    key = 0
    for at in range(begin, end):
        if text[at] == 92:
            return -2
        key = key << 8 | text[at]  # of a long key, the last eight bytes: no field has so many
    for field in range(len(keys)):
        if keys[field] == key:
            return field
    return -1


# Each of these returns where a token ends, -_END if the text ends before that is sure, -_ODD if it is not regular.


def _escape(text: Any, at: int) -> int:
    """Of an escape, of which `at` is behind the backslash."""
    size = len(text)
    if at == size:
        return -_END
    byte = text[at]
    at += 1
    if byte == 117:  # u
        for place in range(at, min(at + 4, size)):
            if not (48 <= text[place] <= 57 or 65 <= text[place] & 223 <= 70):
                return -_ODD
        if at + 1 < size and text[at] & 223 == 68 and text[at + 1] > 55:  # half of a character, as \ud83d is
            return -_ODD
        at += 4
    elif byte not in (34, 47, 92, 98, 102, 110, 114, 116):  # "/\bfnrt
        return -_ODD
    return at


def _plain(words: Any, at: int) -> Any:
    """Where the plain bytes of a string from `at` on end: a quote, a backslash or what is less than a space comes next.
    Close to the end of the text, `at` itself.

    Eight bytes at a time: https://graphics.stanford.edu/~seander/bithacks.html#HasLessInWord. Of the bits that are
    found the lowest is right.
    """
    while at < len(words):
        word = words[at]
        quote, slash = word ^ _QUOTES, word ^ _SLASHES
        found = ((quote - _ONES) & ~quote | (slash - _ONES) & ~slash | (word - _SPACES) & ~word) & _TOPS
        if found:
            lowest = found & (~found + _ONE)
            return at + np.int64(((lowest - _ONE) & _ONES) * _ONES >> _TOP_BYTE) - 1
        at += 8
    return at


def _number(text: Any, at: int) -> int:
    """Digits, with a sign, a point or an exponent, as JSON allows them.

    The loop over digits as a function of its own takes a tenth longer, of all of the reading.
    """
    begin, size = at, len(text)
    if text[at] == 45:
        at += 1
    first = at
    while at < size and 48 <= text[at] <= 57:
        at += 1
    if at == size:
        return -_END
    if at == first or (text[first] == 48 and at > first + 1):
        return -_ODD
    if text[at] == 46:
        first = at = at + 1
        while at < size and 48 <= text[at] <= 57:
            at += 1
        if at == size:
            return -_END
        if at == first:
            return -_ODD
    if text[at] == 101 or text[at] == 69:
        at += 1
        if at < size and (text[at] == 43 or text[at] == 45):
            at += 1
        first = at
        while at < size and 48 <= text[at] <= 57:
            at += 1
        if at == size:
            return -_END
        if at == first or at > first + 2:
            return -_ODD
    return at if at - begin <= _LONGEST_NUMBER else -_ODD


def _word(text: Any, at: int) -> int:
    for word in (b"true", b"false", b"null"):
        if text[at] == word[0]:
            if at + len(word) >= len(text):
                return -_END
            for place in range(len(word)):
                if text[at + place] != word[place]:
                    return -_ODD
            return at + len(word)
    return -_ODD


def _copy(text: Any, words: Any, spans: Any, ends: Any, values: Any, value_words: Any) -> None:
    """Copy the bytes of each of `spans` (n, 2) of `text` to where `ends` (n + 1) says that it stands in `values`."""
    for row in range(len(spans)):
        place, end = ends[row], ends[row + 1]
        shift = spans[row, 0] - place
        while place + 8 <= end:
            value_words[place] = words[place + shift]
            place += 8
        while place < end:
            values[place] = text[place + shift]
            place += 1


def _distinct(words: Any, spans: Any, slots: Any, codes: Any, first: Any, counts: Any) -> None:
    """Number the distinct values of each of k fields, which stand at `spans` (k, n, 2) of `text`: to `codes` (k, n)
    that of each row, to `first` (k, n) the first row of each, to `counts` (k,) how many there are. `slots` (k, m): hash
    tables of -1, m a power of two, larger than n.

    Row by row: an event is in the cache then for all its fields, which is half of the time of field by field.
    """
    for row in range(spans.shape[1]):
        for field in range(len(spans)):
            begin, end = spans[field, row, 0], spans[field, row, 1]
            size = end - begin
            key = np.uint64(size)
            at = begin
            while at + 8 <= end:
                key = (key ^ words[at]) * _MIXER
                key ^= key >> _HALF
                at += 8
            key = (key ^ _lowest(words[at], end - at)) * _MIXER
            slot = np.int64((key ^ key >> _HALF) & np.uint64(slots.shape[1] - 1))
            while True:
                code = slots[field, slot]
                if code < 0:
                    slots[field, slot] = code = counts[field]
                    first[field, code] = row
                    counts[field] += 1
                    break
                other = spans[field, first[field, code], 0]
                if spans[field, first[field, code], 1] - other == size:
                    at = begin
                    while at + 8 <= end and words[at] == words[other]:
                        at += 8
                        other += 8
                    if at + 8 > end and not _lowest(words[at] ^ words[other], end - at):
                        break
                slot = (slot + 1) & (slots.shape[1] - 1)
            codes[field, row] = code


def _lowest(word: Any, count: int) -> Any:
    """The first `count` of eight bytes, less than all."""
    return word & (_ONE << np.uint64(8 * count)) - _ONE


def _times(text: Any, spans: Any, high: Any, low: Any, state: Any) -> None:
    """See Events.times."""
    for row in range(len(spans)):
        at, end = spans[row, 0], spans[row, 1]
        if at == end:
            continue
        micros = picos = 0
        first = at
        while at < end and 48 <= text[at] <= 57:
            micros = micros * 10 + (text[at] - 48)
            at += 1
        is_plain = 1 <= at - first <= 18
        if at < end and text[at] == 46:
            first = at = at + 1
            while at < end and 48 <= text[at] <= 57:
                picos = picos * 10 + (text[at] - 48)
                at += 1
            is_plain = is_plain and 1 <= at - first <= 6
            for _ in range(first + 6 - at):
                picos *= 10
        if at < end or not is_plain:
            state[row] = 2
            continue
        part = (micros & 0xFFFFFFFF) * 1_000_000 + picos
        upper = (micros >> 32) * 1_000_000 + (part >> 32)
        high[row] = upper >> 32
        low[row] = np.uint64(upper) << np.uint64(32) | np.uint64(part & 0xFFFFFFFF)
        state[row] = 1
