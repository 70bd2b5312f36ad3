"""A trace as Perfetto's own format: https://perfetto.dev/docs/reference/trace-packet-proto.

Devices are GPUs, their lanes hardware queues, on which any number of rows may run at once, and each pair of a name and
a kind is a render stage. Hosts are processes with threads. A profiler often records one call of a host as a span and as
a launch, which is one slice here; it points at the rows that it started. Tracks of their own show the steps, the
collectives, how many devices were busy, and how fast bytes moved.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import units
from tracekit.analysis.memory import memory
from tracekit.analysis.throughput import throughput
from tracekit.devices import natural
from tracekit.export.packets import (
    GPU_SLICE,
    GPUS,
    Axis,
    Slices,
    category_field,
    chunks,
    correlation_descriptor,
    counter_packets,
    counter_track,
    fixed_entries,
    instant_packet,
    interned,
    name_entries,
    named_track,
    nested,
    packet,
    packets,
    process_track,
    slice_packets,
    text_field,
    thread_track,
)
from tracekit.export.protobuf_encoder import (
    LENGTH,
    Bytes,
    Ints,
    Pieces,
    constants,
    decimals,
    message,
    number,
    numbers,
    only,
    varint,
)
from tracekit.timeline.timeline import Timeline
from tracekit.trace import KIND_DTYPE, Trace
from tracekit.version import __version__
from tracekit.vocabulary.kinds import Kind

_GRAPHICS_CONTEXTS, _SPECIFICATIONS = 23, 24  # of InternedData
_INFO_OF_GPU, _GPU_NAME, _GPU_MODEL = 1, 1, 3  # of GpuInfo, and of a GPU in it
_BLOCK_BYTES = 2**20
_MOST = 2**63 - 1  # that a counter holds
# What a slice of a host is, as bits.
_PHASE, _STEP, _LAUNCH = 1, 2, 4
_PHASE_TEXTS = ("alone", "baseline")
# Of GpuRenderStageEvent, and of InternedGpuRenderStageSpecification:
# https://github.com/google/perfetto/blob/main/protos/perfetto/trace/gpu/gpu_render_stage_event.proto.
_EVENT_ID, _DURATION, _CONTEXT, _EXTRA, _GPU, _QUEUE, _STAGE, _WAITED = 1, 2, 5, 6, 11, 13, 14, 18
_IID, _NAME, _DESCRIPTION, _CATEGORY = 1, 2, 3, 4
_OTHER, _COMPUTE = 0, 2
_DIGITS = 20  # of the longest decimal, its sign among them
_ROW_TEXTS = ("kind", "category", "hlo_op", "hlo_module", "direction", "group")
_ROW_NUMBERS = ("bytes", "wait_ps", "correlation_id", "run_id")


@dataclass(frozen=True)
class ClockDomain:
    """What a trace has on one clock: `processes` are the pids of its hosts, and `uuids` numbers its tracks."""

    timeline: Timeline
    clock: str
    processes: Mapping[str, int]
    uuids: Iterator[int]

    @property
    def devices(self) -> list[int]:
        """The devices of the timeline's rows that are on the clock."""
        return self.timeline.rows.on_clock(self.clock)

    @property
    def rows(self) -> Ints:
        """The places of these devices' rows, (n,)."""
        on_clock = np.array([clock == self.clock for clock in self.timeline.rows.clocks], bool)
        return np.flatnonzero(on_clock[self.timeline.rows.device])


@dataclass(frozen=True)
class TrackGroup:
    """Tracks, as packets, with the slices on them; `names` are those that `slices.name` numbers, from 0."""

    tracks: bytes
    slices: Slices
    names: Sequence[str]


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
    devices = _device_slices(domain)
    groups = [_steps(domain), _collectives(domain), _host_slices(domain)]
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
    yield packet(GPUS, _gpus(domain))
    yield _notes(timeline, next(domain.uuids))
    for group in groups:
        yield group.tracks
    yield from _counters(domain, axis)
    yield from _memory(domain, axis)
    for group, iid in zip(groups, first, strict=False):
        yield from map(bytes, slice_packets(replace(group.slices, name=group.slices.name + iid), axis))
    yield from map(bytes, _device_slice_packets(timeline, devices, axis))


def _gpus(domain: ClockDomain) -> bytes:
    """GpuInfo: the name and the model of each device; its place is the id that slices give it."""
    table = domain.timeline.trace.devices[["device", "model"]].astype(object).dropna()
    models = dict(zip(table["device"], table["model"], strict=True))
    names = [domain.timeline.rows.devices[device] for device in domain.devices]
    return b"".join(
        message(_INFO_OF_GPU, message(_GPU_NAME, name) + (message(_GPU_MODEL, models[name]) if name in models else b""))
        for name in names
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
    step = _step_numbers(table)
    labels = [f"{name} {number}" for name, number in zip(table["name"].fillna("step"), step.tolist(), strict=True)]
    names = sorted(set(labels))
    place = {label: code for code, label in enumerate(names)}
    return _track_group(
        domain,
        "step",
        "Step windows: each ends when the host and all devices have finished the step.",
        (names, np.array([place[label] for label in labels], np.int64)),
        (table["start_ps"].to_numpy(), table["end_ps"].to_numpy()),
        {"step": step, "rows": table["rows"].to_numpy()},
    )


def _step_numbers(table: pd.DataFrame) -> Ints:
    """The number of each step of a table, or where it has none its place among them."""
    return table["step"].fillna(table.index.to_series().astype("Int64")).to_numpy(np.int64)


def _collectives(domain: ClockDomain) -> TrackGroup:
    """The collectives, each from the first start to the last end on any device; without any, no track."""
    rows, instance = domain.timeline.rows, domain.timeline.collectives.instance
    at = domain.rows
    at = at[instance[at] >= 0]
    number, first, group = np.unique(instance[at], return_index=True, return_inverse=True)
    start = np.full(len(number), np.iinfo(np.int64).max)
    end = np.full(len(number), np.iinfo(np.int64).min)
    np.minimum.at(start, group, rows.start[at])
    np.maximum.at(end, group, rows.end[at])
    return _track_group(
        domain,
        "collective",
        "Each collective once, from the first device that enters it to the last that leaves it.",
        (rows.labels("name"), rows.codes("name")[at[first]]),
        (start, end),
        {"instance": number, "devices": np.bincount(group, minlength=len(number))},
    )


def _track_group(
    domain: ClockDomain,
    category: str,
    description: str,
    name: tuple[Sequence[str], Ints],
    times: tuple[Ints, Ints],
    numbers: dict[str, Ints],
) -> TrackGroup:
    """Slices of one category, whose `name` is (names, which of them each has), with annotations that are numbers.

    They stand on one track, `steps` or `collectives`, or where they overlap without nesting on several of that name,
    which Perfetto shows as one.
    """
    order = np.lexsort((-times[1], times[0]))
    start, end = times[0][order], times[1][order]
    layer, opened = nested(np.zeros(len(start), np.int64), start, end)
    uuids = [next(domain.uuids) for _ in range(int(layer.max(initial=-1)) + 1)]
    everywhere = np.ones(len(start), bool)
    slices = Slices(
        order=opened,
        track=np.array(uuids, np.int64)[layer],
        name=name[1][order],
        start=start,
        end=end,
        category=np.zeros(len(start), np.int64),
        categories=[category_field(category)],
        numbers={key: (values[order], everywhere) for key, values in numbers.items()},
    )
    tracks = b"".join(named_track(uuid, f"{category}s", description=description) for uuid in uuids)
    return TrackGroup(tracks, slices, name[0])


def _counters(domain: ClockDomain, axis: Axis) -> Iterator[bytes]:
    """How many devices were busy at once, and the rates at which each moved bytes."""
    timeline, uuids = domain.timeline, domain.uuids
    busy = [device.busy for device in timeline.unions.devices.values() if device.clock == domain.clock]
    if busy:
        track = next(uuids)
        about = "Number of devices that were busy; copies of unknown devices do not count."
        yield counter_track(track, "devices busy", description=about)
        yield from map(bytes, counter_packets(track, *iv.depth(*busy), axis))
    here = {timeline.rows.devices[device] for device in domain.devices}
    parent = 0
    for rate in throughput(timeline):
        if rate.device not in here:
            continue
        if not parent:
            parent = next(uuids)
            yield named_track(parent, "bandwidth", description="Bytes per second of copies and collectives.")
        track = next(uuids)
        left_out = f"{units.quantity(rate.instant, 'row')} of zero length left out." if rate.instant else ""
        yield counter_track(track, f"{rate.device} {rate.what}", parent, left_out, "bytes/s")
        values = np.array([min(value, _MOST) for value in rate.bytes_per_s], np.int64)
        yield from map(bytes, counter_packets(track, rate.edges, values, axis))


def _memory(domain: ClockDomain, axis: Axis) -> Iterator[bytes]:
    """How much memory the allocators of each device had in use."""
    usage, clocks = memory(domain.timeline).usage, domain.timeline.clock_of_host
    hosts = domain.timeline.trace.memory.dropna(subset="device").drop_duplicates("device")
    here = {str(row.device) for row in hosts.itertuples() if clocks.get(str(row.host), "") == domain.clock}
    of_device = [(str(device), table) for device, table in usage.groupby("device", sort=False) if device in here]
    if of_device:
        parent = next(domain.uuids)
        yield named_track(
            parent, "memory in use", description="Bytes that allocators had handed out, as they state it."
        )
    for device, table in of_device:
        times, in_use = table["time_ps"].to_numpy(), table["in_use_bytes"].to_numpy()
        track = next(domain.uuids)
        yield counter_track(track, f"{device} memory", parent, "", "bytes")
        yield from map(bytes, counter_packets(track, times, in_use, axis))


@dataclass(frozen=True)
class HostCalls:
    """n slices by thread, then start, the longest first; columns are (n,), times in ps.

    `threads` are pairs of host and thread, `names` the names. `span` and `launch` are places in `trace.spans` and
    `trace.launches`, -1 for none: a launch that stands among the spans too is one slice with both.
    """

    threads: list[tuple[str, str]]
    names: list[str]
    thread: Ints
    name: Ints
    start: Ints
    end: Ints
    span: Ints
    launch: Ints

    def __len__(self) -> int:
        return len(self.thread)

    def at(self, places: Ints) -> "HostCalls":
        """Some of the slices."""
        columns = (self.thread, self.name, self.start, self.end, self.span, self.launch)
        return HostCalls(self.threads, self.names, *(column[places] for column in columns))


def _host_slices(domain: ClockDomain) -> TrackGroup:
    """The threads of the hosts on one clock, with their slices.

    Slices of one thread that overlap without nesting stand on further tracks beside it, named `<thread> (2)` and so on.
    """
    calls, uuids, processes = _host_calls(domain.timeline.trace), domain.uuids, domain.processes
    here = np.array([host in processes for host, _ in calls.threads], bool)
    calls = calls.at(np.flatnonzero(here[calls.thread]))
    layer, order = nested(calls.thread, calls.start, calls.end)
    tracks = [process_track(next(uuids), pid, host) for host, pid in processes.items()]
    layers = int(layer.max(initial=0)) + 1
    pairs, place = np.unique(calls.thread * layers + layer, return_inverse=True)
    uuid: list[int] = []
    tids = iter(range(len(processes) + 1, 2**31))
    for pair in pairs.tolist():
        thread, beside = divmod(pair, layers)
        host, name = calls.threads[thread]
        uuid.append(next(uuids))
        if beside == 0:
            own = uuid[-1]
            tracks.append(thread_track(own, processes[host], next(tids), name))
        else:
            tracks.append(named_track(uuid[-1], f"{name} ({beside + 1})", own))
    slices = _call_slices(domain.timeline, calls, order, np.array(uuid, np.int64)[place])
    return TrackGroup(b"".join(tracks), slices, calls.names)


def _host_calls(trace: Trace) -> HostCalls:
    """The slices of `trace`. Of equal ones the k-th span and the k-th launch are one."""
    spans, launches = trace.spans, trace.launches
    host, hosts = _shared_codes(spans["host"], launches["host"])
    process, names_of_processes = _shared_codes(spans["process"], launches["process"])
    line, lines = _shared_codes(spans["thread"], launches["thread"])
    name, names = _shared_codes(spans["name"], launches["name"])
    start, end = (
        np.concatenate([spans[column], launches[column]]).astype(np.int64) for column in ("start_ps", "end_ps")
    )
    # Threads of one name in several processes of a host are several threads.
    host_and_process = host * (len(names_of_processes) + 1) + process + 1
    used, thread = np.unique(host_and_process * len(lines) + line, return_inverse=True)
    is_launch = np.arange(len(start)) >= len(spans)
    order = np.lexsort((is_launch, name, -end, start, thread))
    calls = HostCalls(
        [
            (hosts[place // len(lines) // (len(names_of_processes) + 1)], lines[place % len(lines)])
            for place in used.tolist()
        ],
        names,
        thread,
        name,
        start,
        end,
        np.where(is_launch, -1, np.arange(len(start))),
        np.where(is_launch, np.arange(len(start)) - len(spans), -1),
    ).at(order)
    return _paired(calls)


def _shared_codes(*columns: pd.Series) -> tuple[Ints, list[str]]:
    """The codes of categorical columns, -1 where null, one after the other, and what they stand for."""
    code_of: dict[str, int] = {}
    codes = []
    for column in columns:
        of_column = [code_of.setdefault(str(label), len(code_of)) for label in column.cat.categories]
        codes.append(np.array([*of_column, -1], np.int64)[column.cat.codes.to_numpy()])
    return np.concatenate(codes), list(code_of)


def _paired(calls: HostCalls) -> HostCalls:
    """Each launch that is a span too as one slice with it; equal slices stand beside each other, spans first."""
    same = np.ones(max(len(calls) - 1, 0), bool)
    for column in (calls.thread, calls.start, calls.end, calls.name):
        same &= column[1:] == column[:-1]
    first = np.append(True, ~same)[: len(calls)]
    group = np.cumsum(first) - 1
    is_launch = calls.launch >= 0
    begins = np.flatnonzero(first)
    spans = np.bincount(group[~is_launch], minlength=len(begins))
    partner = np.arange(len(calls)) - spans[group]
    pair = np.flatnonzero(is_launch & (partner < begins[group] + spans[group]))
    launch = calls.launch.copy()
    launch[partner[pair]] = calls.launch[pair]
    alone = np.ones(len(calls), bool)
    alone[pair] = False
    return replace(calls, launch=launch).at(np.flatnonzero(alone))


def _call_slices(timeline: Timeline, calls: HostCalls, order: Ints, track: Ints) -> Slices:
    spans, launches = timeline.spans, timeline.trace.launches
    step, has_step = _numbers(spans["step"], calls.span)
    is_phase = _codes(spans["tracekit"], calls.span) >= 0
    bits = _PHASE * is_phase + _STEP * has_step + _LAUNCH * (calls.launch >= 0)
    first, started = _started(timeline, calls.launch)
    texts = []
    for key in _PHASE_TEXTS:
        fields = [text_field(key, str(label)) for label in spans[key].cat.categories]
        texts.append((fields, _codes(spans[key], calls.span)))
    return Slices(
        order=order,
        track=track,
        name=calls.name,
        start=calls.start,
        end=calls.end,
        category=np.where(calls.span < 0, 8, bits),
        categories=[*map(_span_categories, range(8)), category_field("launch")],
        numbers={
            "step": (step, has_step),
            "correlation_id": _numbers(launches["correlation_id"], calls.launch),
        },
        texts=texts,
        first=first,
        started=started,
    )


def _span_categories(bits: int) -> bytes:
    of = {_PHASE: "phase", _STEP: "step", _LAUNCH: "launch"}
    return category_field("span", *(label for bit, label in of.items() if bits & bit))


def _numbers(column: pd.Series, at: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """The values of an Int64 column at some places, -1 for none; and which are known."""
    values = np.append(column.to_numpy(np.int64, na_value=0), 0)
    return values[at], np.append(column.notna().to_numpy(bool), False)[at]


def _codes(column: pd.Series, at: Ints) -> Ints:
    return np.append(column.cat.codes.to_numpy(), -1).astype(np.int64)[at]


def _started(timeline: Timeline, launch: Ints) -> tuple[Ints, Ints]:
    """The event ids of the rows that each of some launches (n,) started, one launch after the other, and where those
    of each begin, (n + 1,)."""
    of_row = timeline.launch
    rows = np.flatnonzero(of_row >= 0)
    rows = rows[np.argsort(of_row[rows], kind="stable")]
    count = np.append(np.bincount(of_row[rows], minlength=len(timeline.trace.launches)), 0)
    begin = np.cumsum(count) - count
    mine = count[launch]
    at = rows[iv.ranges(begin[launch], mine)]
    return np.append(0, np.cumsum(mine)), timeline.rows.at[at] + 1


@dataclass(frozen=True)
class DeviceSlices:
    """The n rows of one clock, by device and start, with what they have in common interned.

    `at` (n,) are their places in `timeline.rows`; `queue` (n,) indexes `queues`, which are fields of the event, and
    `stage` (n,) numbers its stage. `specifications` are entries of interned data: of the queues, then of the stages.
    """

    at: Ints
    queue: Ints
    queues: list[bytes]
    stage: Ints
    specifications: list[bytes]


def _device_slices(domain: ClockDomain) -> DeviceSlices:
    """The rows on one clock; each host is a graphics context."""
    rows, devices, at = domain.timeline.rows, domain.devices, domain.rows
    lanes, names = rows.labels("lane"), rows.labels("name")
    pairs, queue = np.unique(rows.device[at] * len(lanes) + rows.codes("lane")[at], return_inverse=True)
    stages, stage = np.unique(rows.codes("name")[at] * len(KIND_DTYPE.categories) + rows.kind[at], return_inverse=True)
    specifications, queues = [], []
    for iid, pair in enumerate(pairs.tolist(), 1):
        device, lane = pair // len(lanes), lanes[pair % len(lanes)]
        name = f"{rows.devices[device]} {lane}"
        specifications.append(_specification(iid, name, lane, _OTHER))
        context = domain.processes[rows.hosts[device]]
        queues.append(number(_QUEUE, iid) + number(_GPU, devices.index(device)) + number(_CONTEXT, context))
    for iid, pair in enumerate(stages.tolist(), len(queues) + 1):
        kind = KIND_DTYPE.categories[pair % len(KIND_DTYPE.categories)]
        category = _COMPUTE if kind == Kind.COMPUTE else _OTHER
        specifications.append(_specification(iid, names[pair // len(KIND_DTYPE.categories)], kind, category))
    return DeviceSlices(at, queue, queues, stage, specifications)


def _specification(iid: int, name: str, description: str, category: int) -> bytes:
    return message(
        _SPECIFICATIONS,
        number(_IID, iid) + message(_NAME, name) + message(_DESCRIPTION, description) + number(_CATEGORY, category),
    )


def _device_slice_packets(timeline: Timeline, slices: DeviceSlices, axis: Axis) -> Iterator[Bytes]:
    """The packets of the rows: one each. Its `event_id` is the row's place in `trace.events`, counted from 1.

    What is null is left out of the data beside a slice, and so are `start_ps` and `end_ps` where the time in whole
    nanoseconds says them exactly.
    """
    rows = timeline.rows
    texts = [([_extra(key, label) for label in rows.labels(key)], rows.codes(key)) for key in _ROW_TEXTS]
    step = timeline.steps.step_of
    columns = {key: rows.numbers(key) for key in _ROW_NUMBERS}
    everywhere = np.ones(len(rows), bool)
    columns |= {
        "instance": (timeline.collectives.instance, timeline.collectives.instance >= 0),
        "step": (np.append(_step_numbers(timeline.steps.table), 0)[step], step >= 0),
        "row": (rows.at, everywhere),
    }
    inexact = ~axis.exact(rows.start, rows.end)
    columns |= {"start_ps": (rows.start, inexact), "end_ps": (rows.end, inexact)}
    prefixes = {key: [_prefix(key, digits) for digits in range(_DIGITS + 1)] for key in columns}
    before = _before(timeline)
    for chunk in chunks(len(slices.at)):
        at = slices.at[chunk]
        start, end = axis.ns(rows.start[at]), axis.ns(rows.end[at])
        pieces = [
            *numbers(_EVENT_ID, rows.at[at] + 1),
            *numbers(_DURATION, end - start),
            constants(slices.queues, slices.queue[chunk]),
            *numbers(_STAGE, len(slices.queues) + 1 + slices.stage[chunk]),
        ]
        if (before[at] >= 0).any():
            pieces += only(numbers(_WAITED, rows.at[before[at]] + 1), before[at] >= 0)
        pieces += [constants(labels, codes[at]) for labels, codes in texts]
        for key, (values, has_value) in columns.items():
            pieces += _decimal(prefixes[key], values[at], has_value[at])
        yield packets(GPU_SLICE, start, pieces)


def _before(timeline: Timeline) -> Ints:
    """The row of the same collective that started before each row, -1 for none; (n,)."""
    instance = timeline.collectives.instance
    at = np.flatnonzero(instance >= 0)
    at = at[np.lexsort((timeline.rows.start[at], instance[at]))]
    before = np.full(len(instance), -1)
    follows = instance[at[1:]] == instance[at[:-1]]
    before[at[1:][follows]] = at[:-1][follows]
    return before


def _extra(key: str, value: str) -> bytes:
    return message(_EXTRA, message(1, key) + message(2, value))


def _prefix(key: str, digits: int) -> bytes:
    """What stands before a value of so many digits."""
    field = message(1, key) + varint(2 << 3 | LENGTH) + varint(digits)
    return varint(_EXTRA << 3 | LENGTH) + varint(len(field) + digits) + field


def _decimal(prefixes: list[bytes], values: Ints, there: NDArray[np.bool_]) -> list[Pieces]:
    """The columns of a number in decimal digits, where it is `there`."""
    if not there.any():
        return []
    digits = decimals(values)
    return [constants(prefixes, np.where(there, digits.length, -1)), *only([digits], there)]
