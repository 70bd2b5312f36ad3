"""Read a Perfetto trace with Perfetto's own protos, and rebuild slices, flows and counters as its trace processor does.

The rules of the trace processor that matter: names are looked up in interned data; packets are taken in the order of
their times, in file order where those are equal; on a track an end closes the slice that began last.
"""

import gzip
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

protos = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the package perfetto is not installed"
)


@dataclass(frozen=True)
class Slice:
    """A slice with everything that is said of it; `starts` are the event ids of the rows that it started."""

    track: str
    name: str
    start_ns: int
    end_ns: int
    args: dict = field(default_factory=dict)
    categories: tuple = ()
    starts: tuple = ()

    @property
    def times_ps(self) -> tuple[int, int]:
        """The exact times, which stand beside a slice where nanoseconds do not tell them."""
        return int(self.args.get("start_ps", self.start_ns * 1000)), int(self.args.get("end_ps", self.end_ns * 1000))


@dataclass
class PerfettoFile:
    """`rows` by event id, `calls` and `added` (slices of tracks of their own), counters by name, and the rest.

    `tracks` are the names of all tracks but those of processes and threads, which have "".
    """

    rows: dict[int, Slice] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    devices: dict[int, str] = field(default_factory=dict)
    after: dict[int, list[int]] = field(default_factory=dict)
    calls: list[Slice] = field(default_factory=list)
    added: list[Slice] = field(default_factory=list)
    notes: list[tuple[str, dict]] = field(default_factory=list)
    counters: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    gpus: list[tuple[str, str]] = field(default_factory=list)
    processes: dict[int, str] = field(default_factory=dict)
    tracks: list[str] = field(default_factory=list)


def read(path: Path) -> PerfettoFile:
    content = path.read_bytes()
    return decode(gzip.decompress(content) if path.name.endswith(".gz") else content)


def decode(content: bytes) -> PerfettoFile:
    trace = protos.Trace.FromString(content)
    interned = {"names": {}, "categories": {}, "keys": {}, "specifications": {}, "contexts": {}}
    tracks: dict[int, object] = {}
    file = PerfettoFile()
    assert [packet.sequence_flags for packet in trace.packet][:1] == [1]
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        _register(packet, interned, tracks, file)
    open_slices: dict[int, list] = {}
    for packet in sorted(trace.packet, key=lambda packet: packet.timestamp):  # stable: file order where times are equal
        if packet.HasField("gpu_render_stage_event"):
            _row(packet, interned, file)
        elif packet.HasField("track_event"):
            _event(packet, interned, tracks, open_slices, file)
    assert not any(open_slices.values()), "a slice is never closed"
    return file


def _register(packet, interned, tracks, file) -> None:
    data = packet.interned_data
    interned["names"] |= {entry.iid: entry.name for entry in data.event_names}
    interned["categories"] |= {entry.iid: entry.name for entry in data.event_categories}
    interned["keys"] |= {entry.iid: entry.name for entry in data.debug_annotation_names}
    interned["specifications"] |= {entry.iid: entry for entry in data.gpu_specifications}
    interned["contexts"] |= {entry.iid: entry.pid for entry in data.graphics_contexts}
    file.gpus += [(gpu.name, gpu.model) for gpu in packet.gpu_info.gpus]
    if packet.HasField("track_descriptor"):
        assert packet.track_descriptor.uuid not in tracks
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        file.tracks.append(packet.track_descriptor.name)
        if packet.track_descriptor.HasField("process"):
            file.processes[packet.track_descriptor.process.pid] = packet.track_descriptor.process.process_name


def _row(packet, interned, file) -> None:
    event = packet.gpu_render_stage_event
    queue, stage = (interned["specifications"][iid] for iid in (event.hw_queue_iid, event.stage_iid))
    assert queue.name == f"{file.gpus[event.gpu_id][0]} {queue.description}"
    args = {datum.name: datum.value for datum in event.extra_data}
    assert len(args) == len(event.extra_data)
    assert event.event_id not in file.rows
    assert interned["contexts"][event.context] in file.processes
    file.rows[event.event_id] = Slice(
        queue.description, stage.name, packet.timestamp, packet.timestamp + event.duration, args
    )
    file.kinds[event.event_id] = stage.description
    file.devices[event.event_id] = file.gpus[event.gpu_id][0]
    file.after[event.event_id] = list(event.event_wait_ids)


def _event(packet, interned, tracks, open_slices, file) -> None:
    event = packet.track_event
    track = tracks[event.track_uuid]
    if event.type == event.TYPE_COUNTER:
        assert track.HasField("counter")
        parent = f"{tracks[track.parent_uuid].name}: " if track.parent_uuid else ""
        file.counters.setdefault(parent + track.name, []).append((packet.timestamp, event.counter_value))
        return
    args = {
        interned["keys"].get(note.name_iid, note.name): note.string_value or note.int_value
        for note in event.debug_annotations
    }
    if event.type == event.TYPE_INSTANT:
        file.notes.append((event.name, args))
        return
    open_here = open_slices.setdefault(event.track_uuid, [])
    if event.type == event.TYPE_SLICE_BEGIN:
        where = track if track.HasField("thread") else tracks.get(track.parent_uuid)
        label = f"{file.processes[where.thread.pid]}: {track.thread.thread_name or track.name}" if where else track.name
        categories = tuple(interned["categories"][iid] for iid in event.category_iids)
        open_here.append((where, label, interned["names"][event.name_iid], packet.timestamp, args, categories, event))
        return
    assert event.type == event.TYPE_SLICE_END
    repeated = (event.name_iid, list(event.category_iids), list(event.debug_annotations), list(UnknownFieldSet(event)))
    assert repeated == (0, [], [], []), "an end repeats what its begin says"
    where, label, name, start, args, categories, begin = open_here.pop()
    closed = Slice(label, name, start, packet.timestamp, args, categories, _started_ids(begin))
    (file.calls if where else file.added).append(closed)


def _started_ids(event) -> tuple[int, ...]:
    """The event ids in GpuTrackEvent.gpu_correlation, an extension that the package may not know yet."""
    for unknown in UnknownFieldSet(event):
        if unknown.field_number == 3000:
            ids, at = [], 0
            while at < len(unknown.data):
                assert unknown.data[at] == 8
                value, shift, at = 0, 0, at + 1
                while unknown.data[at] >= 128:
                    value, shift, at = value | (unknown.data[at] & 127) << shift, shift + 7, at + 1
                ids.append(value | unknown.data[at] << shift)
                at += 1
            return tuple(ids)
    return ()
