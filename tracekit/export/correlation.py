"""The extension by which a host's slice points at the rows that it started, told to readers that do not know it.

Perfetto knows it since v55 and draws arrows; before, it would count every such slice as an import error. Formats:
https://github.com/google/perfetto/blob/main/protos/perfetto/trace/gpu/gpu_track_event.proto, extension_descriptor.proto
beside it, and https://github.com/protocolbuffers/protobuf/blob/main/src/google/protobuf/descriptor.proto.
"""

from tracekit.export.protobuf import message, number

CORRELATION = 3000  # GpuTrackEvent.gpu_correlation, of TrackEvent
SUBMITTED, _WAITED = 1, 2  # of GpuCorrelation
DESCRIPTOR = 72  # of TracePacket
_PACKAGE = "perfetto.protos"
_OPTIONAL, _REPEATED = 1, 3
_UINT64, _MESSAGE = 4, 11


def descriptor() -> bytes:
    """The content of a packet that describes the extension."""
    ids = [
        _field("render_stage_submission_event_ids", SUBMITTED, _REPEATED, _UINT64),
        _field("render_stage_wait_event_ids", _WAITED, _REPEATED, _UINT64),
    ]
    correlation = message(1, "GpuCorrelation") + b"".join(message(2, one) for one in ids)
    extension = _field("gpu_correlation", CORRELATION, _OPTIONAL, _MESSAGE)
    extension += message(2, f".{_PACKAGE}.TrackEvent") + message(6, f".{_PACKAGE}.GpuCorrelation")
    file = message(1, "protos/perfetto/trace/gpu/gpu_track_event.proto") + message(2, _PACKAGE)
    file += message(4, correlation) + message(4, message(1, "GpuTrackEvent") + message(6, extension))
    return message(1, message(1, file + message(12, "proto2")))


def _field(name: str, place: int, label: int, kind: int) -> bytes:
    return message(1, name) + number(3, place) + number(4, label) + number(5, kind)
