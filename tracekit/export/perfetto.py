"""A trace as Perfetto's own format: https://perfetto.dev/docs/reference/trace-packet-proto.

Each device is a track at the root of Perfetto's tree, which shows by itself what the device did when: what Perfetto
calls a GPU (GpuRenderStageEvent) is folded away, and a TPU is none. Below it are its lanes, on which any number of rows
may run at once, and the rates at which it moved bytes. Hosts are processes with threads. A profiler often records one
call of a host as a span and as a launch, which is one slice here; arrows lead from it to the rows that it started, and
through the rows of a collective. Further tracks show how many devices were busy, the steps and the collectives.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import units
from tracekit.analysis.memory import memory, steps_of_devices
from tracekit.analysis.throughput import throughput
from tracekit.columns import records
from tracekit.devices import natural
from tracekit.export.packets import (
    Axis,
    Slices,
    category_field,
    counter_packets,
    counter_track,
    fixed_entries,
    instant_packet,
    interned,
    name_entries,
    named_track,
    nested,
    process_track,
    slice_packets,
    text_field,
    thread_track,
)
from tracekit.export.protobuf_encoder import Ints
from tracekit.timeline.timeline import Timeline
from tracekit.timeline.unions import CELLS
from tracekit.trace import KIND_DTYPE, Trace
from tracekit.version import __version__

_BLOCK_BYTES = 2**20
_MOST = 2**63 - 1  # that a counter holds
# What a slice of a host is, as bits.
_PHASE, _STEP, _LAUNCH, _SYNC, _SPAN = 1, 2, 4, 8, 16
_PHASE_TEXTS = ("alone", "baseline")
_ROW_TEXTS = ("kind", "category", "hlo_op", "hlo_module", "direction", "group")
_ROW_NUMBERS = ("bytes", "wait_ps", "correlation_id", "run_id")
_LONGEST = 60  # of a name in a description
_OP_TEXTS = ("framework_op", "opcode", "program", "source")


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

    Every row of a device is one slice of its lane; every host span is one slice of its thread, and so is every launch
    and every wait that does not stand among the spans. Tracks beside them show what tracekit adds.
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
    overview = next(domain.uuids)
    roots = {device: next(domain.uuids) for device in domain.devices}
    groups = [
        _steps(domain, overview),
        _collectives(domain, overview),
        _host_slices(domain),
        _cells(domain, roots),
        _device_slices(domain, roots),
    ]
    starts = [group.slices.start for group in groups]
    axis = Axis(min(0, *(int(start.min()) // 1000 for start in starts if len(start)), 0))
    first = np.cumsum([1, *(len(group.names) for group in groups)]).tolist()
    yield from interned(
        chain(fixed_entries(), *(name_entries(group.names, iid) for group, iid in zip(groups, first, strict=False)))
    )
    yield _notes(domain, axis, next(domain.uuids), overview)
    yield _device_tracks(domain, roots)
    yield from _counters(domain, axis, overview, roots)
    yield from _memory(domain, axis, overview, roots)
    for group in groups:
        yield group.tracks
    for group, iid in zip(groups, first, strict=False):
        yield from map(bytes, slice_packets(replace(group.slices, name=group.slices.name + iid), axis))


def _device_tracks(domain: ClockDomain, roots: Mapping[int, int]) -> bytes:
    """The track of each device, which says its model."""
    table = domain.timeline.trace.devices[["device", "model"]].astype(object).dropna()
    models = dict(zip(table["device"], table["model"], strict=True))
    names = domain.timeline.rows.devices
    about = "What the device ran, and what of it at the same time. Its lanes are below."
    return b"".join(
        named_track(uuid, " ".join([names[device], *([models[names[device]]] if names[device] in models else [])]),
                    description=about, rank=rank)
        for rank, (device, uuid) in enumerate(roots.items(), 1)
    )  # fmt: skip


def _cells(domain: ClockDomain, roots: Mapping[int, int]) -> TrackGroup:
    """What each device ran at once, by kind, on its own track; nothing while it was idle."""
    unions, names = domain.timeline.unions, domain.timeline.rows.devices
    track, code, start, end = ([np.zeros(0, np.int64)] for _ in range(4))
    for device, uuid in roots.items():
        name = names[device]
        edges, codes = (unions.devices.get(name) or unions.unplaced[name]).cells
        busy = np.flatnonzero(codes)
        track.append(np.full(len(busy), uuid))
        code.append(codes[busy].astype(np.int64))
        start.append(edges[busy])
        end.append(edges[busy + 1])
    n = sum(map(len, track))
    slices = Slices(
        order=np.stack([np.arange(n), ~np.arange(n)], axis=1).ravel(),
        track=np.concatenate(track),
        name=np.concatenate(code),
        start=np.concatenate(start),
        end=np.concatenate(end),
        category=np.zeros(n, np.int64),
        categories=[category_field("busy")],
        numbers={},
    )
    return TrackGroup(b"", slices, [cell.replace("+", " + ") for cell in CELLS])


def _notes(domain: ClockDomain, axis: Axis, uuid: int, parent: int) -> bytes:
    """A track that says where the trace comes from and what its notes are, as moments at its start; and from where on
    a report counts, as a moment there: Perfetto's own axis begins at the first event of a host, and knows no other."""
    trace = domain.timeline.trace
    source = {"source": trace.source, "format": trace.format}
    origin = instant_packet(uuid, f"exported by tracekit {__version__}", source)
    notes = [instant_packet(uuid, note, {}) for note in trace.notes]
    if domain.clock in domain.timeline.first_work:
        zero = int(axis.ns(np.array([domain.timeline.first_work[domain.clock]]))[0])
        notes.append(instant_packet(uuid, "first device work: time 0 of tracekit's report", {}, zero))
    return b"".join([named_track(uuid, "notes", parent), origin, *notes])


def _steps(domain: ClockDomain, parent: int) -> TrackGroup:
    """The windows of the steps, which touch; without steps, no track."""
    table = domain.timeline.steps.table
    table = table.iloc[np.flatnonzero((table["clock"] == domain.clock).to_numpy(bool))]
    step = _step_numbers(table)
    labels = [f"{name} {number}" for name, number in zip(table["name"].fillna("step"), step.tolist(), strict=True)]
    names = sorted(set(labels))
    place = {label: code for code, label in enumerate(names)}
    return _track_group(
        domain,
        parent,
        "step",
        "Step windows: each ends when the host and all devices have finished the step.",
        (names, np.array([place[label] for label in labels], np.int64)),
        (table["start_ps"].to_numpy(), table["end_ps"].to_numpy()),
        {"step": step, "rows": table["rows"].to_numpy()},
    )


def _step_numbers(table: pd.DataFrame) -> Ints:
    """The number of each step of a table, or where it has none its place among them."""
    return table["step"].fillna(table.index.to_series().astype("Int64")).to_numpy(np.int64)


def _collectives(domain: ClockDomain, parent: int) -> TrackGroup:
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
        parent,
        "collective",
        "Each collective once, from the first device that enters it to the last that leaves it.",
        (rows.labels("name"), rows.codes("name")[at[first]]),
        (start, end),
        {"instance": number, "devices": np.bincount(group, minlength=len(number))},
    )


def _track_group(
    domain: ClockDomain,
    parent: int,
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
    tracks = b"".join(named_track(uuid, f"{category}s", parent, description) for uuid in uuids)
    return TrackGroup(tracks, slices, name[0])


def _counters(domain: ClockDomain, axis: Axis, overview: int, roots: Mapping[int, int]) -> Iterator[bytes]:
    """How many devices were busy at once, on the track `overview`, and the rates at which each moved bytes."""
    timeline, uuids = domain.timeline, domain.uuids
    busy = [device.busy for device in timeline.unions.devices.values() if device.clock == domain.clock]
    about = (
        "Number of devices that were busy; copies of unknown devices do not count. Below: steps, collectives and notes."
    )
    yield counter_track(overview, "devices busy", "devices", description=about, rank=0)
    if busy:
        edges, count = iv.depth(*busy)
        yield from map(bytes, counter_packets(overview, edges, count.astype(np.int64), axis))
    root_of = {timeline.rows.devices[device]: uuid for device, uuid in roots.items()}
    for rate in throughput(timeline):
        if rate.device not in root_of:
            continue
        track = next(uuids)
        left_out = f"{units.quantity(rate.instant, 'row')} of zero length left out." if rate.instant else ""
        moved = "collectives" if rate.what == "collective" else f"{rate.what} copies"
        about = f"Bytes of {moved} in a second. {left_out}"
        yield counter_track(track, f"{rate.what} bandwidth", "B/s", root_of[rate.device], about.rstrip(), rank=2**20)
        values = np.array([min(value, _MOST) for value in rate.bytes_per_s], np.int64)
        yield from map(bytes, counter_packets(track, rate.edges, values, axis))


def _memory(domain: ClockDomain, axis: Axis, overview: int, roots: Mapping[int, int]) -> Iterator[bytes]:
    """How much memory the allocators of each device had in use; of devices without rows below the track `overview`."""
    result, clocks = memory(domain.timeline), domain.timeline.clock_of_host
    peaks = {row["device"]: row for row in records(result.by_device)}
    hosts = domain.timeline.trace.memory.dropna(subset="device").drop_duplicates("device")
    here = {str(row.device) for row in hosts.itertuples() if clocks.get(str(row.host), "") == domain.clock}
    root_of = {domain.timeline.rows.devices[device]: uuid for device, uuid in roots.items()}
    for name, (times, in_use) in steps_of_devices(result).items():
        if name not in here:
            continue
        track, parent = next(domain.uuids), root_of.get(name, overview)
        label = "memory in use" if name in root_of else f"{name} memory in use"
        yield counter_track(track, label, "B", parent, _about_memory(peaks[name]), rank=2**20)
        yield from map(bytes, counter_packets(track, times, in_use, axis))


def _about_memory(peak: dict[str, Any]) -> str:
    """What a counter of the memory in use counts, and its peak."""
    at_least = "at least " if peak["at_least"] else ""
    running, reason = peak["running"], peak["running_reason"]
    then = f"while {units.short(running, _LONGEST)} ran" if isinstance(running, str) else f"then, {reason}"
    of = f"peak {at_least}{units.size(peak['peak_bytes'])} ({units.count(peak['peak_bytes'])} B), {then}"
    return f"Bytes that allocators had handed out, as they state it; {of}."


@dataclass(frozen=True)
class HostCalls:
    """n slices by thread, then start, the longest first; columns are (n,), times in ps.

    `threads` are pairs of host and thread, `names` the names. `span`, `launch` and `sync` are places in `trace.spans`,
    `trace.launches` and `trace.syncs`, -1 for none: a call that stands in several of them is one slice.
    """

    threads: list[tuple[str, str]]
    names: list[str]
    thread: Ints
    name: Ints
    start: Ints
    end: Ints
    span: Ints
    launch: Ints
    sync: Ints

    def __len__(self) -> int:
        return len(self.thread)

    def at(self, places: Ints) -> "HostCalls":
        """Some of the slices."""
        columns = (self.thread, self.name, self.start, self.end, self.span, self.launch, self.sync)
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
    """The slices of `trace`. Of equal ones the k-th span, launch and wait are one; streams that wait have no slice."""
    syncs = trace.syncs["thread"].notna().to_numpy(bool) if len(trace.syncs) else np.zeros(0, bool)
    tables = (trace.spans, trace.launches, trace.syncs[syncs])
    sizes = [len(table) for table in tables]
    (host, hosts), (process, names_of_processes), (line, lines), (name, names) = (
        _shared_codes(*(table[column] for table in tables)) for column in ("host", "process", "thread", "name")
    )
    start, end = (
        np.concatenate([table[column] for table in tables]).astype(np.int64) for column in ("start_ps", "end_ps")
    )
    # Threads of one name in several processes of a host are several threads.
    host_and_process = host * (len(names_of_processes) + 1) + process + 1
    used, thread = np.unique(host_and_process * len(lines) + line, return_inverse=True)
    source = np.repeat(np.arange(3), sizes)
    places = [np.arange(sizes[0]), np.arange(sizes[1]), np.flatnonzero(syncs)]
    columns = [np.full(len(start), -1) for _ in places]
    for number_of, (column, at) in enumerate(zip(columns, places, strict=True)):
        column[source == number_of] = at
    order = np.lexsort((source, name, -end, start, thread))
    calls = HostCalls(
        [
            (hosts[place // len(lines) // (len(names_of_processes) + 1)], lines[place % len(lines)])
            for place in used.tolist()
        ],
        names, thread, name, start, end, *columns,
    ).at(order)  # fmt: skip
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
    """Equal calls of several tables as one slice each; they stand beside each other, spans first, then launches."""
    same = np.ones(max(len(calls) - 1, 0), bool)
    for column in (calls.thread, calls.start, calls.end, calls.name):
        same &= column[1:] == column[:-1]
    group = np.cumsum(np.append(True, ~same)[: len(calls)]) - 1
    source = np.select([calls.span >= 0, calls.launch >= 0], [0, 1], 2)
    # Which of its table's equal calls each one is.
    run = group * 3 + source
    begins = np.flatnonzero(np.append(True, run[1:] != run[:-1])[: len(calls)])
    turn = np.arange(len(calls)) - np.repeat(begins, np.diff(np.append(begins, len(calls))))
    order = np.lexsort((source, turn, group))
    first = np.append(True, (group[order][1:] != group[order][:-1]) | (turn[order][1:] != turn[order][:-1]))
    begins = np.flatnonzero(first[: len(calls)])
    span, launch, sync = (
        np.maximum.reduceat(column[order], begins) if len(calls) else column
        for column in (calls.span, calls.launch, calls.sync)
    )
    return replace(calls.at(order[begins]), span=span, launch=launch, sync=sync)


def _call_slices(timeline: Timeline, calls: HostCalls, order: Ints, track: Ints) -> Slices:
    spans, launches = timeline.spans, timeline.trace.launches
    step, has_step = _numbers(spans["step"], calls.span)
    is_phase = _codes(spans["tracekit"], calls.span) >= 0
    bits = _PHASE * is_phase + _STEP * has_step + _LAUNCH * (calls.launch >= 0) + _SYNC * (calls.sync >= 0)
    first, begun = _started(timeline, calls.launch)
    texts = []
    for key in _PHASE_TEXTS:
        fields = [text_field(key, str(label)) for label in spans[key].cat.categories]
        texts.append((fields, _codes(spans[key], calls.span)))
    awaited = np.append(timeline.syncs.awaited, -1)[calls.sync] if (calls.sync >= 0).any() else calls.sync
    return Slices(
        order=order,
        track=track,
        name=calls.name,
        start=calls.start,
        end=calls.end,
        category=bits + _SPAN * (calls.span >= 0),
        categories=[*map(_span_categories, range(2 * _SPAN))],
        numbers={
            "step": (step, has_step),
            "correlation_id": _numbers(launches["correlation_id"], calls.launch),
            "waits_for_row": (np.append(timeline.rows.at, -1)[awaited], awaited >= 0),
        },
        texts=texts,
        first=first,
        begun=begun,
    )


def _span_categories(bits: int) -> bytes:
    of = {_SPAN: "span", _PHASE: "phase", _STEP: "step", _LAUNCH: "launch", _SYNC: "sync"}
    return category_field(*(label for bit, label in of.items() if bits & bit))


def _numbers(column: pd.Series, at: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """The values of an Int64 column at some places, -1 for none; and which are known."""
    values = np.append(column.to_numpy(np.int64, na_value=0), 0)
    return values[at], np.append(column.notna().to_numpy(bool), False)[at]


def _codes(column: pd.Series, at: Ints) -> Ints:
    return np.append(column.cat.codes.to_numpy(), -1).astype(np.int64)[at]


def _is_led_to(timeline: Timeline) -> NDArray[np.bool_]:
    """Of which rows an arrow leads from their launch: those that started after it, (n,)."""
    of_row = timeline.launch
    start = np.append(timeline.trace.launches["start_ps"].to_numpy(np.int64), 0)[of_row]
    return (of_row >= 0) & (start // 1000 <= timeline.rows.start // 1000)


def _started(timeline: Timeline, launch: Ints) -> tuple[Ints, Ints]:
    """The flows to the rows that each of some launches (n,) started, one launch after the other, and where those of
    each begin, (n + 1,). A row's flow is its place in `trace.events`, from 1."""
    of_row = timeline.launch
    rows = np.flatnonzero(_is_led_to(timeline))
    rows = rows[np.argsort(of_row[rows], kind="stable")]
    count = np.append(np.bincount(of_row[rows], minlength=len(timeline.trace.launches)), 0)
    begin = np.cumsum(count) - count
    mine = count[launch]
    at = rows[iv.ranges(begin[launch], mine)]
    return np.append(0, np.cumsum(mine)), timeline.rows.at[at] + 1


def _device_slices(domain: ClockDomain, roots: Mapping[int, int]) -> TrackGroup:
    """The rows on one clock, on tracks of their lanes below their device.

    Rows of a lane that overlap without nesting stand on further tracks of its name, which Perfetto shows as one.
    """
    timeline, rows, at = domain.timeline, domain.timeline.rows, domain.rows
    lanes = rows.labels("lane")
    lane = rows.device[at] * len(lanes) + rows.codes("lane")[at]
    order = np.lexsort((-rows.end[at], rows.start[at], lane))
    at, lane = at[order], lane[order]
    layer, opened = nested(lane, rows.start[at], rows.end[at])
    layers = int(layer.max(initial=0)) + 1
    pairs, place = np.unique(lane * layers + layer, return_inverse=True)
    rank = {name: number for number, name in enumerate(sorted(lanes, key=natural))}
    uuids, tracks = [], []
    for pair in pairs.tolist():
        device, name = pair // layers // len(lanes), lanes[pair // layers % len(lanes)]
        uuids.append(next(domain.uuids))
        tracks.append(named_track(uuids[-1], name, roots[device], rank=rank[name]))
    texts = [([text_field(key, label) for label in rows.labels(key)], rows.codes(key)[at]) for key in _ROW_TEXTS]
    ops, (op, has_op) = timeline.trace.ops, rows.numbers("op")
    op = np.where(has_op, op, -1)[at]
    for key in _OP_TEXTS:
        texts.append(([text_field(key, str(label)) for label in ops[key].cat.categories], _codes(ops[key], op)))
    step, instance = timeline.steps.step_of[at], timeline.collectives.instance[at]
    shared = np.bincount(instance[instance >= 0], minlength=1)
    known = {key: rows.numbers(key) for key in _ROW_NUMBERS}
    slices = Slices(
        order=opened,
        track=np.array(uuids, np.int64)[place],
        name=rows.codes("name")[at],
        start=rows.start[at],
        end=rows.end[at],
        category=rows.kind[at].astype(np.int64),
        categories=[category_field(kind) for kind in KIND_DTYPE.categories],
        numbers={
            **{key: (values[at], has_value[at]) for key, (values, has_value) in known.items()},
            "instance": (instance, instance >= 0),
            "step": (np.append(_step_numbers(timeline.steps.table), 0)[step], step >= 0),
            "row": (rows.at[at], np.ones(len(at), bool)),
            "flops": _numbers(ops["flops"], op),
        },
        texts=texts,
        flow=np.where((instance >= 0) & (shared[instance] > 1), len(timeline.trace.events) + 1 + instance, -1),
        last_of=np.where(_is_led_to(timeline)[at], rows.at[at] + 1, -1),
    )
    return TrackGroup(b"".join(tracks), slices, rows.labels("name"))
