"""A trace as Perfetto's own format: https://perfetto.dev/docs/reference/trace-packet-proto.

Devices are GPUs whose queues are lanes, hosts are processes with threads, and tracks of their own show the steps, the
collectives, how many devices were busy, and how fast bytes moved.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, count

import numpy as np

from tracekit import intervals as iv
from tracekit.analysis.bandwidth.throughput import throughput
from tracekit.devices import natural
from tracekit.export import added, device_slices, track_events, tracks
from tracekit.export.correlation import DESCRIPTOR, descriptor
from tracekit.export.host_slices import threads
from tracekit.export.packets import GPUS, Axis, interned, packet
from tracekit.export.protobuf import message, number
from tracekit.export.timeline import Timeline
from tracekit.version import __version__

_GRAPHICS_CONTEXTS = 23  # of InternedData
_GPU, _GPU_NAME, _GPU_MODEL = 1, 1, 3  # of GpuInfo, and of a GPU in it
_BLOCK_BYTES = 2**20
_MOST = 2**63 - 1  # that a counter holds


def blocks(timeline: Timeline, clock: str = "") -> Iterator[bytes]:
    """The Perfetto trace of what is on one clock, in blocks of about a megabyte; the same trace gives the same bytes.

    Every row of a device is one slice of its queue; every host span is one slice of its thread, and so is every launch
    that does not stand among the spans. Tracks beside them show what tracekit adds.
    """
    held = bytearray()
    for part in _parts(timeline, clock):
        held += part
        if len(held) >= _BLOCK_BYTES:
            yield bytes(held)
            held.clear()
    yield bytes(held)


def _parts(timeline: Timeline, clock: str) -> Iterator[bytes]:
    hosts = sorted((host for host, on in timeline.clock.items() if on == clock), key=natural)
    processes = {host: pid for pid, host in enumerate(hosts, 1)}
    uuids = count(1)
    devices = device_slices.device_slices(timeline, clock, processes)
    parts = [
        added.steps(timeline, clock, uuids),
        added.collectives(timeline, clock, uuids),
        threads(timeline, clock, processes, uuids),
    ]
    starts = [timeline.rows.start[devices.at], *(part.slices.start for part in parts)]
    axis = Axis(min(0, *(int(one.min()) // 1000 for one in starts if len(one)), 0))
    first = np.cumsum([1, *(len(part.names) for part in parts)]).tolist()
    yield from interned(
        chain(
            track_events.fixed_names(),
            (message(_GRAPHICS_CONTEXTS, number(1, pid) + number(2, pid)) for pid in processes.values()),
            devices.specifications,
            *(track_events.names(part.names, iid) for part, iid in zip(parts, first, strict=False)),
        )
    )
    yield packet(DESCRIPTOR, descriptor())
    yield packet(GPUS, _gpus(timeline, devices.devices))
    yield _notes(timeline, next(uuids))
    for part in parts:
        yield part.tracks
    yield from _counters(timeline, clock, uuids, axis)
    for part, iid in zip(parts, first, strict=False):
        yield from map(bytes, track_events.written(replace(part.slices, name=part.slices.name + iid), axis))
    yield from map(bytes, device_slices.written(devices, axis))


def _gpus(timeline: Timeline, devices: tuple[str, ...]) -> bytes:
    """GpuInfo: the name and the model of each device; its place is the id that slices give it."""
    known = timeline.trace.devices[["device", "model"]].astype(object).dropna()
    models = dict(zip(known["device"], known["model"], strict=True))
    return b"".join(
        message(_GPU, message(_GPU_NAME, name) + (message(_GPU_MODEL, models[name]) if name in models else b""))
        for name in devices
    )


def _notes(timeline: Timeline, uuid: int) -> bytes:
    """A track that says where the trace comes from and what its notes are, as moments at its start."""
    trace = timeline.trace
    said = track_events.instant(
        uuid, f"exported by tracekit {__version__}", {"source": trace.source, "format": trace.format}
    )
    return b"".join(
        [tracks.track(uuid, "notes"), said, *(track_events.instant(uuid, note, {}) for note in trace.notes)]
    )


def _counters(timeline: Timeline, clock: str, uuids: Iterator[int], axis: Axis) -> Iterator[bytes]:
    """How many devices were busy at once, and the rates at which each moved bytes."""
    busy = [device.busy for device in timeline.seen.devices.values() if device.clock == clock]
    if busy:
        track = next(uuids)
        yield tracks.counter(track, "devices busy", description="How many devices ran anything, of known devices.")
        yield from map(bytes, track_events.counter(track, *iv.depth(*busy), axis))
    clocks = dict(zip(timeline.rows.devices, timeline.rows.clocks, strict=True))
    group = 0
    for one in throughput(timeline.rows):
        if clocks[one.device] != clock:
            continue
        if not group:
            group = next(uuids)
            yield tracks.track(group, "bandwidth", description="Bytes of copies and collectives over their time.")
        track = next(uuids)
        said = f"{one.instant} that took no time are not in it." if one.instant else ""
        yield tracks.counter(track, f"{one.device} {one.what}", group, said, "bytes/s")
        values = np.array([min(value, _MOST) for value in one.bytes_per_s], np.int64)
        yield from map(bytes, track_events.counter(track, one.edges, values, axis))
