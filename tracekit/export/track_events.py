"""Slices and counters on tracks, as TrackEvents.

Format: https://github.com/google/perfetto/blob/main/protos/perfetto/trace/track_event/track_event.proto. A slice is a
packet that opens it and one that closes it, so on one track slices must nest (nesting.py sees to that).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tracekit.export.correlation import CORRELATION, SUBMITTED
from tracekit.export.packets import TRACK_EVENT, Axis, chunks, packet, packets
from tracekit.export.protobuf import (
    Bytes,
    Ints,
    Pieces,
    constants,
    grouped,
    message,
    messages,
    number,
    numbers,
    only,
    repeated,
)

# Of TrackEvent.
_CATEGORY, _ANNOTATION, _TYPE, _NAME, _TRACK, _COUNTER = 3, 4, 9, 10, 11, 30
_NAME_TEXT = 23
_BEGIN, _END, _INSTANT, _COUNT = 1, 2, 3, 4
# Of DebugAnnotation.
_KEY_IID, _KEY, _INT, _TEXT = 1, 10, 4, 6
# Of InternedData.
EVENT_CATEGORIES, EVENT_NAMES, ANNOTATION_NAMES = 1, 2, 3
KEYS = ("step", "correlation_id", "instance", "devices", "start_ps", "end_ps", "rows")
CATEGORIES = ("span", "phase", "step", "launch", "collective")


@dataclass(frozen=True)
class Slices:
    """n slices and the order (2n,) in which they open (i) and close (~i); columns are (n,), times in ps.

    `track` is the uuid of each one's track, `name` the iid of its name, and `category` indexes `categories`, which are
    fields of the event. `numbers` are annotations by key, with where they are known; `texts` are fields of the event
    and their codes, -1 for none. Slice i started `started[first[i]:first[i + 1]]` of the device slices, by event id;
    `first` (n + 1,), or empty where none started any.
    """

    order: Ints
    track: Ints
    name: Ints
    start: Ints
    end: Ints
    category: Ints
    categories: Sequence[bytes]
    numbers: Mapping[str, tuple[Ints, NDArray[np.bool_]]]
    texts: Sequence[tuple[Sequence[bytes], Ints]] = ()
    first: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    started: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


def names(labels: Sequence[str], first: int = 1) -> list[bytes]:
    """The entries of interned data for the names of events; their iids count from `first`."""
    return [message(EVENT_NAMES, number(1, iid) + message(2, label)) for iid, label in enumerate(labels, first)]


def fixed_names() -> list[bytes]:
    """The entries of interned data for what every export has: categories, and keys of annotations."""
    return [
        message(kind, number(1, iid) + message(2, label))
        for kind, labels in ((EVENT_CATEGORIES, CATEGORIES), (ANNOTATION_NAMES, KEYS))
        for iid, label in enumerate(labels, 1)
    ]


def categories(*labels: str) -> bytes:
    """The field of an event that names its categories."""
    return b"".join(number(_CATEGORY, CATEGORIES.index(label) + 1) for label in labels)


def text(key: str, value: str) -> bytes:
    """A field of an event: an annotation that is a text."""
    return message(_ANNOTATION, message(_KEY, key) + message(_TEXT, value))


def written(slices: Slices, axis: Axis) -> Iterator[Bytes]:
    """The packets of the slices, two each.

    `start_ps` and `end_ps` stand on a slice where the time in whole nanoseconds does not say them exactly.
    """
    inexact = ~axis.exact(slices.start, slices.end)
    annotations = {**slices.numbers, "start_ps": (slices.start, inexact), "end_ps": (slices.end, inexact)}
    for chunk in chunks(len(slices.order)):
        order = slices.order[chunk]
        opens = order >= 0
        one = np.where(opens, order, ~order)
        pieces: list[Pieces] = []
        for key, (values, known) in annotations.items():
            there = known[one] & opens
            if there.any():
                iid = repeated(number(_KEY_IID, KEYS.index(key) + 1), len(one))
                pieces += only(messages(_ANNOTATION, [iid, *numbers(_INT, values[one])]), there)
        pieces += [constants(labels, np.where(opens, codes[one], -1)) for labels, codes in slices.texts]
        if len(slices.first):
            pieces += _started(slices, np.where(opens, one, -1))
        head = [
            constants([number(_TYPE, _BEGIN), number(_TYPE, _END)], np.where(opens, 0, 1)),
            *numbers(_TRACK, slices.track[one]),
            *only([*numbers(_NAME, slices.name[one])], opens),
            constants(slices.categories, np.where(opens, slices.category[one], -1)),
        ]
        times = axis.ns(np.where(opens, slices.start[one], slices.end[one]))
        yield packets(TRACK_EVENT, times, [*head, *pieces])


def _started(slices: Slices, one: Ints) -> list[Pieces]:
    """The columns of the flows from slices to what they started on devices; nothing where `one` is -1."""
    first = slices.first
    count = np.where(one >= 0, first[one + 1] - first[one], 0)
    if not count.any():
        return []
    ends = np.cumsum(count)
    at = np.repeat(first[one] - ends + count, count) + np.arange(ends[-1])
    return only(messages(CORRELATION, [grouped(numbers(SUBMITTED, slices.started[at]), count)]), count > 0)


def counter(track: int, edges: Ints, values: Ints, axis: Axis) -> Iterator[Bytes]:
    """The packets of a counter that is `values[i]` from `edges[i]` ps on; one each."""
    for chunk in chunks(len(edges)):
        n = len(edges[chunk])
        head = repeated(number(_TYPE, _COUNT) + number(_TRACK, track), n)
        yield packets(TRACK_EVENT, axis.ns(edges[chunk]), [head, *numbers(_COUNTER, values[chunk])])


def instant(track: int, name: str, texts: Mapping[str, str]) -> bytes:
    """The packet of a moment at the start of the trace, with annotations."""
    said = b"".join(text(key, value) for key, value in texts.items())
    return packet(TRACK_EVENT, number(_TYPE, _INSTANT) + number(_TRACK, track) + message(_NAME_TEXT, name) + said, 0)
