"""The packets of a Perfetto trace: time, names that stand once, tracks, and what stands on them.

Field numbers: https://github.com/google/perfetto/tree/main/protos/perfetto/trace, trace_packet.proto and what it
imports, track_event/track_descriptor.proto and track_event.proto. Every packet is of one sequence; names stand once, in
the packets of interned data ahead of the others. A slice is a packet that opens it and one that closes it, so on one
track slices must nest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tracekit.export.protobuf_encoder import (
    Bytes,
    Ints,
    Pieces,
    constants,
    fixed64s,
    grouped,
    join,
    message,
    messages,
    number,
    numbers,
    only,
    repeated,
)
from tracekit.intervals import ranges
from tracekit.jit import loop

# Rows that are written at once: as many as stay in a processor's cache.
AT_ONCE = 8192
# Of TracePacket.
_TRACK_EVENT, _INTERNED, _TRACK_DESCRIPTOR = 11, 12, 60
_PACKET, _TIMESTAMP, _SEQUENCE, _FLAGS = 1, 8, 10, 13
_CLEARED, _NEEDS_STATE = 1, 2
_FIRST = number(_SEQUENCE, 1) + number(_FLAGS, _CLEARED)
_LATER = number(_SEQUENCE, 1) + number(_FLAGS, _NEEDS_STATE)
# A name as long as this has a packet of interned data to itself.
_LONG_BYTES = 2**20

# Of TrackDescriptor, ProcessDescriptor, ThreadDescriptor and CounterDescriptor.
_UUID, _TRACK_NAME, _PROCESS, _THREAD, _PARENT, _UNITS, _DESCRIPTION = 1, 2, 3, 4, 5, 8, 14
_CHILD_ORDER, _RANK, _BY_RANK = 11, 12, 3
_PID, _PROCESS_NAME, _TID, _THREAD_NAME = 1, 6, 2, 5
_UNIT_NAME = 6
# Of TrackEvent.
_CATEGORY, _ANNOTATION, _TYPE, _NAME, _TRACK, _NAME_TEXT, _COUNTER = 3, 4, 9, 10, 11, 23, 30
_FLOW, _LAST_OF_FLOW = 47, 48
_BEGIN, _END, _INSTANT, _COUNT = 1, 2, 3, 4
# Of DebugAnnotation.
_KEY_IID, _KEY, _INT, _TEXT = 1, 10, 4, 6
# Of InternedData.
_CATEGORIES, _NAMES, _KEYS = 1, 2, 3
_KEYS_OF_SLICES = (
    "step", "correlation_id", "instance", "devices", "start_ps", "end_ps", "rows", "row", "bytes", "wait_ps", "run_id",
    "flops", "waits_for_row",
)  # fmt: skip
_CATEGORIES_OF_SLICES = ("span", "phase", "step", "launch", "sync", "compute", "collective", "memcpy", "memset", "busy")


@dataclass(frozen=True)
class Axis:
    """The nanoseconds of a Perfetto trace: `zero_ns` of the trace's own axis is its 0, as it knows no negative time."""

    zero_ns: int

    def ns(self, times_ps: Ints) -> Ints:
        """Whole nanoseconds, rounded down: what did not overlap does not, since times keep their order."""
        return times_ps // 1000 - self.zero_ns

    def exact(self, *times_ps: Ints) -> NDArray[np.bool_]:
        """Where each of some columns of times is a thousand times what `ns` makes of it."""
        whole = np.full(len(times_ps[0]), self.zero_ns == 0)
        for times in times_ps:
            whole &= times % 1000 == 0
        return whole


@dataclass(frozen=True)
class Slices:
    """n slices and the order (2n,) in which they open (i) and close (~i); columns are (n,), times in ps.

    `track` is the uuid of each one's track, `name` the iid of its name, and `category` indexes `categories`, which are
    fields of the event. `numbers` are annotations by key, with where they are known; `texts` are fields of the event
    and their codes, -1 for none. Flows are arrows between slices, from each to the next in time. Those that begin at
    slice i are `begun[first[i]:first[i + 1]]`; `first` (n + 1,), or empty where none begin. `flow` (n,) leads through
    a slice and `last_of` (n,) ends there, -1 for none; both empty where there are none.
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
    begun: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    flow: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    last_of: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


def packets(kind: int, times_ns: Ints, columns: Sequence[Pieces]) -> Bytes:
    """The bytes of n packets that hold a message of `kind` each, made of `columns`, at a time each."""
    head = [*numbers(_TIMESTAMP, times_ns), repeated(_LATER, len(times_ns))]
    return join(messages(_PACKET, [*head, *messages(kind, columns)]))


def packet(kind: int, content: bytes, time_ns: int | None = None) -> bytes:
    """One packet that holds a message of `kind`."""
    time = b"" if time_ns is None else number(_TIMESTAMP, time_ns)
    return message(_PACKET, time + _LATER + message(kind, content))


def interned(entries: Iterable[bytes]) -> Iterator[bytes]:
    """The packets of the interned data; `entries` are fields of InternedData."""
    yield message(_PACKET, _FIRST)
    batch: list[bytes] = []
    for entry in entries:
        batch.append(entry)
        if len(entry) > _LONG_BYTES or len(batch) == AT_ONCE:
            yield packet(_INTERNED, b"".join(batch))
            batch = []
    if batch:
        yield packet(_INTERNED, b"".join(batch))


def chunks(n: int) -> Iterator[slice]:
    """The rows 0 to n in parts that are written at once."""
    for first in range(0, n, AT_ONCE):
        yield slice(first, min(first + AT_ONCE, n))


def process_track(uuid: int, pid: int, name: str) -> bytes:
    """The packet of a process's track."""
    return _track(uuid, message(_PROCESS, number(_PID, pid) + message(_PROCESS_NAME, name)))


def thread_track(uuid: int, pid: int, tid: int, name: str) -> bytes:
    """The packet of a thread's track."""
    return _track(uuid, message(_THREAD, number(_PID, pid) + number(_TID, tid) + message(_THREAD_NAME, name)))


def named_track(
    uuid: int, name: str, parent: int = 0, description: str = "", counter: bytes = b"", rank: int | None = None
) -> bytes:
    """The packet of a track of its own; below that of its parent, if any. `counter` makes it a counter's.

    Perfetto's UI shows a track without parent at once where it has children, and they stand by their `rank`.
    """
    label = message(_TRACK_NAME, name) + (number(_PARENT, parent) if parent else number(_CHILD_ORDER, _BY_RANK))
    order = b"" if rank is None else number(_RANK, rank)
    return _track(uuid, label + order + (message(_DESCRIPTION, description) if description else b"") + counter)


def counter_track(
    uuid: int, name: str, unit: str, parent: int = 0, description: str = "", rank: int | None = None
) -> bytes:
    """The packet of a counter's track; Perfetto writes SI prefixes before the unit."""
    return named_track(uuid, name, parent, description, message(_UNITS, message(_UNIT_NAME, unit)), rank)


def _track(uuid: int, content: bytes) -> bytes:
    return packet(_TRACK_DESCRIPTOR, number(_UUID, uuid) + content)


def name_entries(labels: Sequence[str], first: int = 1) -> list[bytes]:
    """The entries of interned data for the names of events; their iids count from `first`."""
    return [message(_NAMES, number(1, iid) + message(2, label)) for iid, label in enumerate(labels, first)]


def fixed_entries() -> list[bytes]:
    """The entries of interned data for what every export has: categories, and keys of annotations."""
    return [
        message(entry, number(1, iid) + message(2, label))
        for entry, labels in ((_CATEGORIES, _CATEGORIES_OF_SLICES), (_KEYS, _KEYS_OF_SLICES))
        for iid, label in enumerate(labels, 1)
    ]


def category_field(*labels: str) -> bytes:
    """The field of an event that names its categories."""
    return b"".join(number(_CATEGORY, _CATEGORIES_OF_SLICES.index(label) + 1) for label in labels)


def text_field(key: str, value: str) -> bytes:
    """A field of an event: an annotation that is a text."""
    return message(_ANNOTATION, message(_KEY, key) + message(_TEXT, value))


def slice_packets(slices: Slices, axis: Axis) -> Iterator[Bytes]:
    """The packets of the slices, two each.

    `start_ps` and `end_ps` stand on a slice where the time in whole nanoseconds does not say them exactly.
    """
    inexact = ~axis.exact(slices.start, slices.end)
    annotations = {**slices.numbers, "start_ps": (slices.start, inexact), "end_ps": (slices.end, inexact)}
    for chunk in chunks(len(slices.order)):
        order = slices.order[chunk]
        opens = order >= 0
        at = np.where(opens, order, ~order)
        pieces: list[Pieces] = []
        for key, (values, has_value) in annotations.items():
            there = has_value[at] & opens
            if there.any():
                iid = repeated(number(_KEY_IID, _KEYS_OF_SLICES.index(key) + 1), len(at))
                pieces += only(messages(_ANNOTATION, [iid, *numbers(_INT, values[at])]), there)
        pieces += [constants(labels, np.where(opens, codes[at], -1)) for labels, codes in slices.texts]
        if len(slices.first):
            pieces += _flows(slices, np.where(opens, at, -1))
        for kind, flows in ((_FLOW, slices.flow), (_LAST_OF_FLOW, slices.last_of)):
            if len(flows) and (here := opens & (flows[at] >= 0)).any():
                pieces += only(fixed64s(kind, flows[at]), here)
        head = [
            constants([number(_TYPE, _BEGIN), number(_TYPE, _END)], np.where(opens, 0, 1)),
            *numbers(_TRACK, slices.track[at]),
            *only([*numbers(_NAME, slices.name[at])], opens),
            constants(slices.categories, np.where(opens, slices.category[at], -1)),
        ]
        times = axis.ns(np.where(opens, slices.start[at], slices.end[at]))
        yield packets(_TRACK_EVENT, times, [*head, *pieces])


def _flows(slices: Slices, at: Ints) -> list[Pieces]:
    """The columns of the flows that begin at slices; nothing where `at` is -1."""
    first = slices.first
    count = np.where(at >= 0, first[at + 1] - first[at], 0)
    if not count.any():
        return []
    return [grouped(fixed64s(_FLOW, slices.begun[ranges(first[at], count)]), count)]


def counter_packets(track: int, edges: Ints, values: Ints, axis: Axis) -> Iterator[Bytes]:
    """The packets of a counter that is `values[i]` from `edges[i]` ps on; one each."""
    for chunk in chunks(len(edges)):
        head = repeated(number(_TYPE, _COUNT) + number(_TRACK, track), len(edges[chunk]))
        yield packets(_TRACK_EVENT, axis.ns(edges[chunk]), [head, *numbers(_COUNTER, values[chunk])])


def instant_packet(track: int, name: str, texts: Mapping[str, str], time_ns: int = 0) -> bytes:
    """The packet of a moment, by default the start of the trace, with annotations."""
    event = number(_TYPE, _INSTANT) + number(_TRACK, track) + message(_NAME_TEXT, name)
    return packet(_TRACK_EVENT, event + b"".join(text_field(key, value) for key, value in texts.items()), time_ns)


def nested(thread: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Spread n slices over as few layers of their threads as nesting wants, and say in which order they open and close.

    Slices of one thread may overlap without nesting; those on one track may not. They stand by thread, then start, the
    longest first. Returns `layer` (n,), from 0 within each thread, and `order` (2n,): slice i opens at i and closes at
    ~i, such that on each layer the last one opened closes first. A slice goes to the first layer where it lies inside
    what is open, or nothing is.
    """
    return loop(layers, len(start))(thread, start, end)


def layers(thread: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """See `nested`; plain, or compiled."""
    n = len(start)
    layer, order = np.zeros(n, np.int64), np.empty(2 * n, np.int64)
    # What is open: the innermost slice of each layer, and below each slice the one that holds it.
    top, below = np.full(n + 1, -1), np.full(n, -1)
    used, at = 0, 0
    for i in range(n + 1):
        if i == n or (i and thread[i] != thread[i - 1]):
            for k in range(used):
                while top[k] >= 0:
                    order[at] = ~top[k]
                    at += 1
                    top[k] = below[top[k]]
            used = 0
        if i == n:
            break
        k = 0
        while True:
            while top[k] >= 0 and end[top[k]] <= start[i]:
                order[at] = ~top[k]
                at += 1
                top[k] = below[top[k]]
            if top[k] < 0 or end[top[k]] >= end[i]:
                break
            k += 1
        layer[i], below[i], top[k] = k, top[k], i
        order[at] = i
        at += 1
        used = max(used, k + 1)
    return layer, order
