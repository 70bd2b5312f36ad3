"""The packets of a Perfetto trace, and the time on them.

Field numbers: https://github.com/google/perfetto/tree/main/protos/perfetto/trace, trace_packet.proto and what it
imports. Every packet is of one sequence; names stand once, in the packets of interned data ahead of the others.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.export.protobuf import Bytes, Ints, Pieces, joined, message, messages, number, numbers, repeated

# Rows that are written at once: as many as stay in a processor's cache.
AT_ONCE = 8192
# Of TracePacket.
TRACK_EVENT, INTERNED, GPU_SLICE, TRACK, GPUS = 11, 12, 53, 60, 128
_PACKET, _TIMESTAMP, _SEQUENCE, _FLAGS = 1, 8, 10, 13
_CLEARED, _NEEDS_STATE = 1, 2
_FIRST = number(_SEQUENCE, 1) + number(_FLAGS, _CLEARED)
_LATER = number(_SEQUENCE, 1) + number(_FLAGS, _NEEDS_STATE)
# A name as long as this has a packet of interned data to itself.
_LONG_BYTES = 2**20


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


def packets(kind: int, times_ns: Ints, columns: Sequence[Pieces]) -> Bytes:
    """The bytes of n packets that hold a message of `kind` each, made of `columns`, at a time each."""
    head = [*numbers(_TIMESTAMP, times_ns), repeated(_LATER, len(times_ns))]
    return joined(messages(_PACKET, [*head, *messages(kind, columns)]))


def packet(kind: int, content: bytes, time_ns: int | None = None) -> bytes:
    """One packet that holds a message of `kind`."""
    time = b"" if time_ns is None else number(_TIMESTAMP, time_ns)
    return message(_PACKET, time + _LATER + message(kind, content))


def interned(entries: Iterable[bytes]) -> Iterator[bytes]:
    """The packets of the interned data; `entries` are fields of InternedData."""
    yield message(_PACKET, _FIRST)
    held: list[bytes] = []
    for entry in entries:
        held.append(entry)
        if len(entry) > _LONG_BYTES or len(held) == AT_ONCE:
            yield packet(INTERNED, b"".join(held))
            held = []
    if held:
        yield packet(INTERNED, b"".join(held))


def chunks(n: int) -> Iterator[slice]:
    """The rows 0 to n in parts that are written at once."""
    for first in range(0, n, AT_ONCE):
        yield slice(first, min(first + AT_ONCE, n))
