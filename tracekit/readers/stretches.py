"""Stretches of a JSON file in which nothing stands: zeros, or more blanks than its writer leaves anywhere.

A bad block of a disk, or a write that was lost, leaves them. The file may be valid JSON all the same: blanks that begin
and end within strings are a string of many blanks, which begins in one event and ends in another.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tracekit.readers.losses import Lost
from tracekit.vocabulary.losses import Loss

# Writers indent by less, and texts are padded to less.
_LEAST, _LEAST_IN_TEXT = 512, 4096
# Of a run that long seven samples in a row are empty, wherever it begins; of other text hardly any seven are.
_STEP = 64
_EMPTY = b"\0\t\n\r "
_RUN = re.compile(rb"[\0\t\n\r ]*+")
# What one writer leaves at so many places, and such a part of the events, is how it writes.
_USUAL, _USUAL_PART = 8, 0.01
# So far apart no two events begin, but where one of them holds a long text.
FAR_BYTES = 1 << 13
# Between what stand before and behind it a run replaces nothing: before the first event, and behind the last.
_BEFORE, _OPENING, _CLOSING = b"{[,:", b'{["', (b"]]", b"]}", b"}}")
# What texts and numbers do not end with, but for a part of them.
_OUTSIDE = frozenset(b'{}[],:"')
ZEROS, BLANKS = "zeros in place of what stood there", "blanks in place of what stood there"
NO_EVENT = "in stretches that hold no event"
FIT = "about as many as fit into the bytes that are lost"


@dataclass
class Stretches:
    """What of a file's text is empty, while its pieces are seen one after the other.

    `mark`: a key that every event has, in its quotes. `size`: how many bytes were seen. Zeros and blanks that the file
    begins or ends with count as none. `runs`: in how many places others are. `gaps`: how far apart two marks are, where
    that is FAR_BYTES or more; `marked`: where the last one is, -1 without any.
    """

    mark: bytes
    size: int = 0
    runs: int = 0
    gaps: list[int] = field(default_factory=list)
    marked: int = -1
    _zeros: int = 0
    _runs: dict[bytes, list[int]] = field(default_factory=dict)
    _open: int = 0
    _open_zeros: int = 0
    _last: bytes = b""
    _begun: bool = False

    def see(self, piece: bytes) -> None:
        """Look through the next piece of the text."""
        self._see_marks(piece)
        self.size += len(piece)
        zeros = piece.count(0) if 0 in piece else 0  # to look for one is ten times cheaper
        self._zeros += zeros
        size = len(piece)
        begin, end = _edges(piece)
        self._open += begin
        self._open_zeros += piece.count(0, 0, begin) if zeros else 0
        if begin == size:
            return
        if not self._last:
            self._zeros -= self._open_zeros
        elif self._open >= _LEAST:
            self._add(self._open, self._open_zeros, self._last + piece[begin : begin + 1])
        for first, last in _runs(piece):
            if begin < first and last < end:
                self._begun = self._begun or piece.find(self.mark, 0, first) >= 0
                pair = piece[first - 1 : first] + piece[last : last + 1]
                self._add(last - first, piece.count(0, first, last), pair)
        self._begun = self._begun or self.mark in piece
        self._open, self._open_zeros = size - end, piece.count(0, end)
        self._last = piece[end - 1 : end]

    def _see_marks(self, piece: bytes) -> None:
        at = piece.find(self.mark)
        while at >= 0:
            gap = self.size + at - self.marked
            if gap >= FAR_BYTES and self.marked >= 0:
                self.gaps.append(gap)
            at = piece.rfind(self.mark, at, at + FAR_BYTES)  # of those so near, the last one alone is looked for
            self.marked = self.size + at
            at = piece.find(self.mark, at + 1)

    def _add(self, size: int, zeros: int, pair: bytes) -> None:
        """Count a run between the two bytes `pair`; its zeros are counted without it."""
        self.runs += 1
        is_outside = not self._begun and pair[:1] in _BEFORE and pair[1:] in _OPENING
        least = _LEAST if _OUTSIDE.intersection(pair) else _LEAST_IN_TEXT
        if size - zeros >= least and not is_outside and pair not in _CLOSING:
            counted = self._runs.setdefault(pair, [0, 0])
            counted[0] += 1
            counted[1] += size - zeros

    @property
    def zeros(self) -> int:
        """How many bytes of 0 are in the text."""
        return self._zeros - self._open_zeros

    def blanks(self, events: int) -> int:
        """How many blanks of the text, which holds so many events, stand in place of something."""
        return sum(size for count, size in self._runs.values() if count < usual(events))

    def lost(self, events: int, more: int = 0) -> list[Lost]:
        """What is lost of a text of which so many events were read, and `more` bytes that are no event."""
        zeros, blanks = self.zeros, self.blanks(events)
        reasons = {ZEROS: zeros, BLANKS: blanks, NO_EVENT: more}
        lost = [Lost(Loss.BYTES, count, self.size, reason) for reason, count in reasons.items() if count]
        if fit := round(sum(reasons.values()) / self.mean(events, more)):
            lost.append(Lost(Loss.EVENTS, fit, None, FIT))
        return lost

    def mean(self, events: int, more: int = 0) -> float:
        """How many bytes one of so many events takes, without what is empty and `more`."""
        return max(self.size - self.zeros - self.blanks(events) - more, 1) / max(events, 1)


def usual(events: int) -> float:
    """At how many places a writer leaves what is how it writes, in a text of so many events."""
    return max(_USUAL, _USUAL_PART * events)


def empty(text: bytes) -> int:
    """How many bytes of a text are in stretches in which nothing stands."""
    return sum(end - begin for begin, end in _runs(text))


def _edges(text: bytes) -> tuple[int, int]:
    """Where what is not empty begins in a text, and where it ends; its length for both where all is."""
    match = _RUN.match(text)
    begin = end = match.end() if match else 0
    size, step = len(text), _STEP
    while end == begin < size:  # the text is not copied as a rule
        tail = text[max(size - step, begin) :]
        end = size - len(tail) + len(tail.rstrip(_EMPTY)) if tail.rstrip(_EMPTY) else begin
        step *= 16
    return begin, end


def _runs(text: bytes) -> Iterator[tuple[int, int]]:
    """Where in a text nothing stands for _LEAST bytes or more. One byte in _STEP is looked at, and those around where
    many in a row are empty."""
    sampled = np.frombuffer(text, np.uint8)[::_STEP] <= ord(" ")
    if np.count_nonzero(sampled) < 7:
        return
    two = sampled[:-1] & sampled[1:]
    four = two[:-2] & two[2:]
    seven = four[:-3] & four[3:]
    done = 0
    for place in (np.flatnonzero(seven) * _STEP).tolist():
        if place < done:
            continue
        before = text[max(place - _STEP, done) : place]
        begin = place - len(before) + len(before.rstrip(_EMPTY))
        match = _RUN.match(text, place)
        done = match.end() if match else place
        if done - begin >= _LEAST:
            yield begin, done
