"""Read a Perfetto trace with Perfetto's own protos, and rebuild slices, flows and counters as its trace processor does.

The rules of the trace processor that matter: names are looked up in interned data; packets are taken in the order of
their times, in file order where those are equal; on a track an end closes the slice that began last.
"""

import gzip
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

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
    """`rows` by place in the events from 1, `calls` and `added` (steps and collectives), counters, and the rest.

    `cells` are the slices of the devices' own tracks, and `roots` the tracks at the root of the tree in their order.
    `starts` of calls are the rows that arrows lead to; `after` are the rows that arrows lead from to each one.
    """

    rows: dict[int, Slice] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    devices: dict[int, str] = field(default_factory=dict)
    after: dict[int, list[int]] = field(default_factory=dict)
    calls: list[Slice] = field(default_factory=list)
    added: list[Slice] = field(default_factory=list)
    cells: list[Slice] = field(default_factory=list)
    notes: list[tuple[str, dict]] = field(default_factory=list)
    moments: list[tuple[int, str]] = field(default_factory=list)
    counters: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    roots: list[str] = field(default_factory=list)
    processes: dict[int, str] = field(default_factory=dict)
    tracks: list[str] = field(default_factory=list)


def read(path: Path) -> PerfettoFile:
    content = path.read_bytes()
    return decode(gzip.decompress(content) if path.name.endswith(".gz") else content)


def decode(content: bytes) -> PerfettoFile:
    trace = protos.Trace.FromString(content)
    interned = {"names": {}, "categories": {}, "keys": {}}
    tracks: dict[int, object] = {}
    file = PerfettoFile()
    assert [packet.sequence_flags for packet in trace.packet][:1] == [1]
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        _register(packet, interned, tracks, file)
    open_slices: dict[int, list] = {}
    for packet in sorted(trace.packet, key=lambda packet: packet.timestamp):  # stable: file order where times are equal
        if packet.HasField("track_event"):
            _event(packet, interned, tracks, open_slices, file)
    assert not any(open_slices.values()), "a slice is never closed"
    _arrows(trace, interned, file)
    parents = {track.parent_uuid for track in tracks.values()}
    ranked = sorted((track.sibling_order_rank, track.name) for uuid, track in tracks.items() if _is_root(track))
    assert all(track.child_ordering == track.EXPLICIT for track in tracks.values() if _is_root(track))
    # Perfetto's UI folds a track away that has neither parent nor children.
    folded = {track.name for uuid, track in tracks.items() if _is_root(track) and uuid not in parents}
    file.roots = [name for _, name in ranked if name not in folded]
    return file


def _is_root(track) -> bool:
    return not (track.parent_uuid or track.HasField("process") or track.HasField("thread"))


def _register(packet, interned, tracks, file) -> None:
    data = packet.interned_data
    interned["names"] |= {entry.iid: entry.name for entry in data.event_names}
    interned["categories"] |= {entry.iid: entry.name for entry in data.event_categories}
    interned["keys"] |= {entry.iid: entry.name for entry in data.debug_annotation_names}
    if packet.HasField("track_descriptor"):
        assert packet.track_descriptor.uuid not in tracks
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        file.tracks.append(packet.track_descriptor.name)
        if packet.track_descriptor.HasField("process"):
            file.processes[packet.track_descriptor.process.pid] = packet.track_descriptor.process.process_name


def _event(packet, interned, tracks, open_slices, file) -> None:
    event = packet.track_event
    track = tracks[event.track_uuid]
    if event.type == event.TYPE_COUNTER:
        assert track.HasField("counter")
        parent = f"{tracks[track.parent_uuid].name}: " if track.parent_uuid else ""
        file.counters.setdefault(parent + track.name, []).append((packet.timestamp, event.counter_value))
        file.units[parent + track.name] = track.counter.unit_name
        file.descriptions[parent + track.name] = track.description
        return
    args = {
        interned["keys"].get(note.name_iid, note.name): note.string_value
        if note.HasField("string_value")
        else note.int_value
        for note in event.debug_annotations
    }
    if event.type == event.TYPE_INSTANT:
        file.notes.append((event.name, args))
        file.moments.append((packet.timestamp, event.name))
        return
    open_here = open_slices.setdefault(event.track_uuid, [])
    if event.type == event.TYPE_SLICE_BEGIN:
        categories = tuple(interned["categories"][iid] for iid in event.category_iids)
        open_here.append((interned["names"][event.name_iid], packet.timestamp, args, categories, event))
        return
    assert event.type == event.TYPE_SLICE_END
    repeated = (event.name_iid, list(event.category_iids), list(event.debug_annotations), list(event.flow_ids))
    assert repeated == (0, [], [], []), "an end repeats what its begin says"
    name, start, args, categories, begin = open_here.pop()
    parent = tracks.get(track.parent_uuid)
    closed = Slice(track.name, name, start, packet.timestamp, args, categories, tuple(begin.flow_ids))
    if "row" in args:
        place = args["row"] + 1
        assert place not in file.rows
        file.rows[place] = replace(closed, starts=())
        (file.kinds[place],), file.devices[place] = categories, parent.name
    elif categories == ("busy",):
        file.cells.append(closed)
    elif track.HasField("thread") or (parent and parent.HasField("thread")):
        where = track if track.HasField("thread") else parent
        label = f"{file.processes[where.thread.pid]}: {track.thread.thread_name or track.name}"
        file.calls.append(replace(closed, track=label))
    else:
        assert parent.name == "devices busy"
        file.added.append(closed)


def _arrows(trace, interned, file) -> None:
    """Follow flows as the trace processor does: each leads from a slice to the next one that names it."""
    from_of: dict[int, int | None] = {}
    ended = set()
    for packet in sorted(trace.packet, key=lambda packet: packet.timestamp):
        event = packet.track_event
        if event.type != event.TYPE_SLICE_BEGIN:
            continue
        keys = {interned["keys"].get(note.name_iid): note.int_value for note in event.debug_annotations}
        place = keys["row"] + 1 if "row" in keys else None
        for flow in event.terminating_flow_ids:
            assert flow in from_of, "an arrow ends that began nowhere"
            assert flow not in ended
            ended.add(flow)
        for flow in event.flow_ids:
            if place is not None:
                file.after[place] = [from_of[flow]] if flow in from_of else []
            from_of[flow] = place
