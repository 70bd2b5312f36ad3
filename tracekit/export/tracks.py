"""The tracks that slices and counters stand on.

Format: https://github.com/google/perfetto/blob/main/protos/perfetto/trace/track_event/track_descriptor.proto.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tracekit.export.packets import TRACK, packet
from tracekit.export.protobuf import message, number
from tracekit.export.track_events import Slices

# Of TrackDescriptor, ProcessDescriptor, ThreadDescriptor and CounterDescriptor.
_UUID, _NAME, _PROCESS, _THREAD, _PARENT, _COUNTER, _DESCRIPTION = 1, 2, 3, 4, 5, 8, 14
_PID, _PROCESS_NAME, _TID, _THREAD_NAME = 1, 6, 2, 5
_UNIT, _UNIT_COUNT, _UNIT_NAME = 3, 2, 6


@dataclass(frozen=True)
class Part:
    """Tracks with the slices on them; `names` are those that `slices.name` numbers, from 0."""

    tracks: bytes
    slices: Slices
    names: Sequence[str]


def process(uuid: int, pid: int, name: str) -> bytes:
    """The packet of a process's track."""
    return _track(uuid, message(_PROCESS, number(_PID, pid) + message(_PROCESS_NAME, name)))


def thread(uuid: int, pid: int, tid: int, name: str) -> bytes:
    """The packet of a thread's track."""
    return _track(uuid, message(_THREAD, number(_PID, pid) + number(_TID, tid) + message(_THREAD_NAME, name)))


def track(uuid: int, name: str, parent: int = 0, description: str = "") -> bytes:
    """The packet of a track of its own; beside a thread's where that is its parent."""
    return _track(uuid, message(_NAME, name) + _beside(parent, description))


def counter(uuid: int, name: str, parent: int = 0, description: str = "", unit: str = "") -> bytes:
    """The packet of a counter's track; without a unit it counts things."""
    of = message(_UNIT_NAME, unit) if unit else number(_UNIT, _UNIT_COUNT)
    return _track(uuid, message(_NAME, name) + _beside(parent, description) + message(_COUNTER, of))


def _beside(parent: int, description: str) -> bytes:
    said = message(_DESCRIPTION, description) if description else b""
    return (number(_PARENT, parent) if parent else b"") + said


def _track(uuid: int, content: bytes) -> bytes:
    return packet(TRACK, number(_UUID, uuid) + content)
