"""The packets of a Perfetto trace, the time on them, and the fields that stand once.

Field numbers: https://github.com/google/perfetto/tree/main/protos/perfetto/trace, trace_packet.proto and what it
imports. Every packet is of one sequence; names stand once, in the packets of interned data ahead of the others.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.export.protobuf_encoder import Bytes, Ints, Pieces, joined, message, messages, number, numbers, repeated

# Rows that are written at once: as many as stay in a processor's cache.
AT_ONCE = 8192
# Of TracePacket.
TRACK_EVENT, INTERNED, GPU_SLICE, TRACK, DESCRIPTOR, GPUS = 11, 12, 53, 60, 72, 128
_PACKET, _TIMESTAMP, _SEQUENCE, _FLAGS = 1, 8, 10, 13
_CLEARED, _NEEDS_STATE = 1, 2
_FIRST = number(_SEQUENCE, 1) + number(_FLAGS, _CLEARED)
_LATER = number(_SEQUENCE, 1) + number(_FLAGS, _NEEDS_STATE)
# A name as long as this has a packet of interned data to itself.
_LONG_BYTES = 2**20

# GpuTrackEvent.gpu_correlation, an extension of TrackEvent, and what of GpuCorrelation a slice of the host fills.
CORRELATION, SUBMITTED = 3000, 1
_WAITED = 2
_PACKAGE = "perfetto.protos"
# Of FieldDescriptorProto: labels, and types.
_OPTIONAL, _REPEATED = 1, 3
_UINT64, _MESSAGE = 4, 11


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
    batch: list[bytes] = []
    for entry in entries:
        batch.append(entry)
        if len(entry) > _LONG_BYTES or len(batch) == AT_ONCE:
            yield packet(INTERNED, b"".join(batch))
            batch = []
    if batch:
        yield packet(INTERNED, b"".join(batch))


def chunks(n: int) -> Iterator[slice]:
    """The rows 0 to n in parts that are written at once."""
    for first in range(0, n, AT_ONCE):
        yield slice(first, min(first + AT_ONCE, n))


def correlation_descriptor() -> bytes:
    """The packet that describes `gpu_correlation`, by which a host's slice points at the rows that it started.

    Perfetto knows the extension since v55 and draws arrows; before, without this, it would count every such slice as
    an import error. Formats: protos/perfetto/trace/gpu/gpu_track_event.proto, extension_descriptor.proto beside it, and
    https://github.com/protocolbuffers/protobuf/blob/main/src/google/protobuf/descriptor.proto.
    """
    ids = [
        _field("render_stage_submission_event_ids", SUBMITTED, _REPEATED, _UINT64),
        _field("render_stage_wait_event_ids", _WAITED, _REPEATED, _UINT64),
    ]
    correlation = message(1, "GpuCorrelation") + b"".join(message(2, field) for field in ids)
    extension = _field("gpu_correlation", CORRELATION, _OPTIONAL, _MESSAGE)
    extension += message(2, f".{_PACKAGE}.TrackEvent") + message(6, f".{_PACKAGE}.GpuCorrelation")
    file = message(1, "protos/perfetto/trace/gpu/gpu_track_event.proto") + message(2, _PACKAGE)
    file += message(4, correlation) + message(4, message(1, "GpuTrackEvent") + message(6, extension))
    return packet(DESCRIPTOR, message(1, message(1, file + message(12, "proto2"))))


def _field(name: str, tag: int, label: int, kind: int) -> bytes:
    return message(1, name) + number(3, tag) + number(4, label) + number(5, kind)
