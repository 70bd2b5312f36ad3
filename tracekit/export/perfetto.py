"""A trace as Perfetto's own format: https://perfetto.dev/docs/reference/trace-packet-proto.

Devices are GPUs whose queues are lanes, hosts are processes with threads, and tracks of their own show the steps, the
collectives, how many devices were busy, and how fast bytes moved.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, count

import numpy as np

from tracekit import intervals as iv
from tracekit import units
from tracekit.analysis.bandwidth import throughput
from tracekit.devices import natural
from tracekit.export.device_slices import device_slice_packets, device_slices
from tracekit.export.host_slices import host_slices
from tracekit.export.packets import GPUS, Axis, correlation_descriptor, interned, packet
from tracekit.export.protobuf_encoder import Ints, message, number
from tracekit.export.tracks import (
    ClockDomain,
    Slices,
    TrackGroup,
    category_field,
    counter_packets,
    counter_track,
    fixed_entries,
    instant_packet,
    name_entries,
    named_track,
    nested,
    slice_packets,
)
from tracekit.timeline.timeline import Timeline
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
    block = bytearray()
    for part in _parts(timeline, clock):
        block += part
        if len(block) >= _BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    yield bytes(block)


def _parts(timeline: Timeline, clock: str) -> Iterator[bytes]:
    hosts = sorted((host for host, on in timeline.clock_of_host.items() if on == clock), key=natural)
    domain = ClockDomain(timeline, clock, {host: pid for pid, host in enumerate(hosts, 1)}, count(1))
    devices = device_slices(domain)
    groups = [_steps(domain), _collectives(domain), host_slices(domain)]
    starts = [timeline.rows.start[devices.at], *(group.slices.start for group in groups)]
    axis = Axis(min(0, *(int(start.min()) // 1000 for start in starts if len(start)), 0))
    first = np.cumsum([1, *(len(group.names) for group in groups)]).tolist()
    yield from interned(
        chain(
            fixed_entries(),
            (message(_GRAPHICS_CONTEXTS, number(1, pid) + number(2, pid)) for pid in domain.processes.values()),
            devices.specifications,
            *(name_entries(group.names, iid) for group, iid in zip(groups, first, strict=False)),
        )
    )
    yield correlation_descriptor()
    yield packet(GPUS, _gpus(timeline, devices.devices))
    yield _notes(timeline, next(domain.uuids))
    for group in groups:
        yield group.tracks
    yield from _counters(domain, axis)
    for group, iid in zip(groups, first, strict=False):
        yield from map(bytes, slice_packets(replace(group.slices, name=group.slices.name + iid), axis))
    yield from map(bytes, device_slice_packets(devices, axis))


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
    source = {"source": trace.source, "format": trace.format}
    origin = instant_packet(uuid, f"exported by tracekit {__version__}", source)
    return b"".join([named_track(uuid, "notes"), origin, *(instant_packet(uuid, note, {}) for note in trace.notes)])


def _steps(domain: ClockDomain) -> TrackGroup:
    """The windows of the steps, which touch; without steps, no track."""
    table = domain.timeline.steps.table
    table = table.iloc[np.flatnonzero((table["clock"] == domain.clock).to_numpy(bool))]
    number = table["step"].fillna(table.index.to_series().astype("Int64")).to_numpy(np.int64)
    labels = [f"{name} {step}" for name, step in zip(table["name"].fillna("step"), number.tolist(), strict=True)]
    names = sorted(set(labels))
    place = {label: code for code, label in enumerate(names)}
    uuids, slices = _track_slices(
        domain,
        np.array([place[label] for label in labels], np.int64),
        (table["start_ps"].to_numpy(), table["end_ps"].to_numpy()),
        "step",
        {"step": number, "rows": table["rows"].to_numpy()},
    )
    description = "Step windows: each ends when the host and all devices have finished the step."
    return TrackGroup(_tracks(uuids, "steps", description), slices, names)


def _collectives(domain: ClockDomain) -> TrackGroup:
    """The collectives, each from the first start to the last end on any device; without any, no track."""
    rows, instance = domain.timeline.rows, domain.timeline.collectives.instance
    at = np.flatnonzero((instance >= 0) & np.append(domain.has_device, False)[rows.device])
    number, first, group = np.unique(instance[at], return_index=True, return_inverse=True)
    start = np.full(len(number), np.iinfo(np.int64).max)
    end = np.full(len(number), np.iinfo(np.int64).min)
    np.minimum.at(start, group, rows.start[at])
    np.maximum.at(end, group, rows.end[at])
    uuids, slices = _track_slices(
        domain,
        rows.codes("name")[at[first]],
        (start, end),
        "collective",
        {"instance": number, "devices": np.bincount(group, minlength=len(number))},
    )
    description = "Each collective once, from the first device that enters it to the last that leaves it."
    return TrackGroup(_tracks(uuids, "collectives", description), slices, rows.labels("name"))


def _track_slices(
    domain: ClockDomain, name: Ints, times: tuple[Ints, Ints], category: str, numbers: dict[str, Ints]
) -> tuple[list[int], Slices]:
    """Slices of one track, and the uuids of the tracks that they need: several where they overlap without nesting."""
    order = np.lexsort((-times[1], times[0]))
    start, end = times[0][order], times[1][order]
    layer, opened = nested(np.zeros(len(start), np.int64), start, end)
    uuids = [next(domain.uuids) for _ in range(int(layer.max(initial=-1)) + 1)]
    everywhere = np.ones(len(start), bool)
    slices = Slices(
        order=opened,
        track=np.array(uuids, np.int64)[layer],
        name=name[order],
        start=start,
        end=end,
        category=np.zeros(len(start), np.int64),
        categories=[category_field(category)],
        numbers={key: (values[order], everywhere) for key, values in numbers.items()},
    )
    return uuids, slices


def _tracks(uuids: list[int], name: str, description: str) -> bytes:
    """Tracks of one name, which Perfetto shows as one."""
    return b"".join(named_track(uuid, name, description=description) for uuid in uuids)


def _counters(domain: ClockDomain, axis: Axis) -> Iterator[bytes]:
    """How many devices were busy at once, and the rates at which each moved bytes."""
    timeline, uuids = domain.timeline, domain.uuids
    busy = [device.busy for device in timeline.unions.devices.values() if device.clock == domain.clock]
    if busy:
        track = next(uuids)
        yield counter_track(
            track,
            "devices busy",
            description="Number of devices that were busy; copies of unknown devices do not count.",
        )
        yield from map(bytes, counter_packets(track, *iv.depth(*busy), axis))
    clock_of = dict(zip(timeline.rows.devices, timeline.rows.clocks, strict=True))
    parent = 0
    for rate in throughput(timeline.rows):
        if clock_of[rate.device] != domain.clock:
            continue
        if not parent:
            parent = next(uuids)
            yield named_track(parent, "bandwidth", description="Bytes per second of copies and collectives.")
        track = next(uuids)
        left_out = f"{units.counted(rate.instant, 'row')} of zero length left out." if rate.instant else ""
        yield counter_track(track, f"{rate.device} {rate.what}", parent, left_out, "bytes/s")
        values = np.array([min(value, _MOST) for value in rate.bytes_per_s], np.int64)
        yield from map(bytes, counter_packets(track, rate.edges, values, axis))
