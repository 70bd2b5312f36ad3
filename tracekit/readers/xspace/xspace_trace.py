"""The planes of one file to a `Trace`: which are devices, what they and the host give, and whether any are missing.

A file that is truncated between two planes still parses. Profilers write the planes in an order of their own, but `Task
Environment` (since February 2024) and the host names after all others (tsl/profiler/lib/profiler_session.cc): a file
with either was not cut.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import by_label, concat, each_label, frame, places_of, rising
from tracekit.devices import is_sparse_core, type_of
from tracekit.readers import losses, repeats
from tracekit.readers import protobuf_decoder as protobuf
from tracekit.readers.losses import Lost
from tracekit.readers.xspace import cpu_plane, gpu_plane, host_events, memory, tpu_plane, xspace_file
from tracekit.readers.xspace.host_events import HostEvents
from tracekit.readers.xspace.planes import (
    NO_TEXT,
    DeviceRows,
    Line,
    Once,
    Plane,
    PlaneEvents,
    XSpace,
    chosen,
    line_names,
    number_stat,
    text_stat,
)
from tracekit.readers.xspace.programs import METADATA, programs, with_operations
from tracekit.trace import (
    DEVICE_COLUMNS,
    HOST_COLUMNS,
    LAUNCH_COLUMNS,
    MEMORY_COLUMNS,
    SPAN_COLUMNS,
    SYNC_COLUMNS,
    Trace,
)
from tracekit.units import YEAR_2000_NS, YEAR_2200_NS
from tracekit.vocabulary.host_calls import TPU_LAUNCHES, launches
from tracekit.vocabulary.kinds import Kind, says_no_work
from tracekit.vocabulary.losses import Loss

P = TypeVar("P", bound=Plane)

# Of the host's events only of those that are themselves the work of a CPU.
_OF_THUNKS = ("hlo_op", "hlo_module", "program_id", "group_id", "name")
_SPAN_STATS = ("step_num", "tracekit", "alone", "baseline", "correlation_id")
# The event stats that the reading of planes asks for.
STATS = (*cpu_plane.STATS, *gpu_plane.STATS, *tpu_plane.STATS, *host_events.STATS, *_SPAN_STATS)
# Those of them, and of allocations, that are texts and numbers with decimals.
_TEXTS = frozenset(
    {
        *("hlo_op", "hlo_module", "name", "tracekit", "alone", "baseline", "allocator_name", "tf_op"),
        *("memcpy_details", "Memset_details", "kernel_details", *gpu_plane.MEMORY_STATS),
    }
)
_REALS = frozenset({"theoretical_occupancy_pct"})

_DEVICE = re.compile(r"/device:(GPU|TPU):(\d+)")
_SPARSE_CORE = re.compile(r"/device:TPU:(\d+) SparseCore(?: ([a-zA-Z]+))? (\d+)")
# How profilers call planes (xla/tsl/profiler/utils/xplane_schema.cc), and what tells that a name was one of these.
_PLANE = re.compile(r"/device:(?!GPU:(?!\d+$))|/host:|#|/custom:|(?:Host CPUs|Syscalls|Task Environment)$")
_OTHER_HOST = re.compile(r"/host:(?!CUPTI|ROCTRACER|metadata|tfstreamz|python-tracer|TPU|__)")
_ALMOST = re.compile(r"device|host|[cgt]pu", re.IGNORECASE)
_REPLICA = re.compile(r"(?:^|[/_])replica_(\d{1,4})/")
_SESSION = "Task Environment"
_HOST = "/host:CPU"
# No event of a profile is as long as this, a day; where the profile says how long it was, none is longer than that. The
# profiler takes the time before it starts and after it has stopped (xla/tsl/profiler/lib/profiler_session.cc): no event
# begins outside of that by more than the clock of a device may be off, a tenth of a second. Where more than a few of a
# plane do, its clock is another one, and each has to be within a minute and the profile's length of the others.
_LONGEST_PS, _OFF_PS, _ANOTHER_CLOCK_PS = 86_400 * 10**12, 10**11, 60 * 10**12
_FEW = 0.01
_FURTHEST_PS = 2**61  # int64 holds twice the distance between such times
_MODEL = ("gpu_device_name", "device_type_string", "device_vendor")
_NUMBERS = ("memory_bandwidth", "peak_hbm_bw_gigabytes_per_second", "peak_teraflops_per_second")
_LARGEST_ID = 2**62  # past that of any call: what follows it are ids too
_CODEGEN = "xla-cpu-codegen"
_CAPTURE_MODULE, _CAPTURE_CALL = "jit_tracekit_end", "PjitFunction(tracekit_end)"

# What no profiler wrote before it wrote `Task Environment`, as planes or as stats of planes.
_LATER_PLANES = frozenset({"/host:__ScopeRangeCallStack__"})
_LATER_STATS = frozenset({"gpu_device_name", "core_details", "jax_version", "jaxlib_version"})
# At the end of a profile some kernels have not run yet; more than this share of the launches is no such remainder.
_REMAINDER = 0.1


def read(path: Path) -> Trace:
    """The trace in one XSpace file. Raises TraceError if the file is corrupt or not an XSpace."""
    try:
        host = path.name.removesuffix(".gz").removesuffix(".xplane.pb")
        # No name here holds the planes, so that `trace` can let go of each.
        stats = (*STATS, *memory.STATS)
        return trace(xspace_file.read(path, stats, is_decoded, _needed, _TEXTS, _REALS), path, host, "xplane")
    except protobuf.Broken as broken:
        raise xspace_file.error(path, broken) from None


def trace(space: XSpace, path: Path, host: str, form: str) -> Trace:
    """The trace that the planes of `space`, read from `path`, hold; `form` names the format for `Trace.format`.

    Of several sessions the first is read; events whose times are far from all others, and HLO protos that are damaged,
    are left out. All of that is counted in `Trace.losses` and told in `Trace.notes`.

    A device's plane is let go of when its rows are made, if the caller keeps none: at no time are there the columns of
    all planes and of the whole trace (0.86 instead of 1.37 GB beside a file of 5 million events).
    """
    calls = host_events.calls(space)
    missing, absent = _missing(space, calls) if form == "xplane" else ([], [])
    strangers, (lines, line_notes) = _strangers(space), _lines(space)
    space, sessions = _first_session(space)
    space, repeated = _one_plane_each(space)
    space, far = _near(space)
    space, backwards = _forwards(space)
    base_ns, zero = _origin(space)
    space, twice = _once(space, base_ns) if form == "xplane" else (space, [])  # JSON's planes have each event once
    unix_ns = _unix_ns(space, base_ns + zero // 1000)
    of_file = programs(space)
    of_end = [*map(_calls_of_end, filter(host_events.is_host, space.planes))]
    hosts = [HostEvents(plane, plane.start_ps(base_ns, zero)) for plane, _ in of_end]
    end_ids = np.concatenate([np.zeros(0, np.int64), *(ids for _, ids in of_end)])
    del of_end
    if sessions or repeated or far or backwards or twice:
        calls = host_events.calls(space)
    first_id = _free_id(calls, unix_ns)
    program_launches = tpu_plane.program_launches(host, hosts, first_id)
    devices = _devices(space)
    names = [device for _, device in devices]
    is_alone = sum(type_of(device) == "gpu" for device in names) == 1
    longest_ps = _longest_ps(space)

    # Of metadata it is known when they are asked for; those of programs were.
    damaged = [plane.damaged for plane in space.planes if plane.name == METADATA]

    def device_rows(plane: Plane, device: str) -> DeviceRows:
        events, notes = _timed(plane, plane.start_ps(base_ns, zero), longest_ps)
        # What is aggregated has no time by its nature.
        untimed.append(int((plane.occurrences < 0).sum()) - len(events.rows))
        if len(plane) == 0:
            rows = DeviceRows({}, {}, [])
        elif type_of(device) == "gpu":
            rows = gpu_plane.read(host, device, events, of_file.op, calls, is_alone, once)
        else:
            rows = tpu_plane.read(host, device, events, of_file.op, program_launches)
        damaged.append(plane.damaged)
        return replace(rows, notes=[*notes, *rows.notes])

    untimed: list[int] = []
    once = Once()
    waited = _waits(devices, once)
    details = _details(space, devices)
    lost_ids = [each for plane in filter(host_events.is_host, space.planes) for each in host_events.lost_ids(plane)]
    facts = [_facts(host, plane, device) for plane, device in devices]
    messages = losses.told(
        [*(("Profiler error", text) for text in space.errors), *(("Profiler warning", text) for text in space.warnings)]
    )
    losses_told = losses.from_messages([*space.errors, *space.warnings])
    plane_notes = [*_bandwidth_notes(devices), *_plane_notes(space), *line_notes]
    lost = space.lost
    del space
    read_devices = [device_rows(*devices.pop(0)) for _ in names]
    threads = [events for events in hosts if events.plane.name == _HOST]
    free_id = first_id + len(program_launches.launches)
    read_threads = [cpu_plane.read(host, events, of_file.op, bool(names), free_id) for events in threads]
    parts = [_without_capture(read_rows.events, end_ids) for read_rows in (*read_devices, *read_threads)]
    computing = _compute_devices(parts)
    every = (*read_devices, *read_threads)
    events, ops, operands = with_operations(
        parts, [each.operations for each in every], [each.operands for each in every], of_file
    )
    numbered = [program_launches.launches, *(read_rows.launches for read_rows in read_threads)]
    world_size = of_file.devices
    allocated = [memory.read(host, each) for each in threads]
    metadata = sum(damaged) + sum(each.plane.damaged for each in hosts)
    details += [Lost(Loss.DETAILS, metadata, None, "names of operations")] if metadata else []
    without_time = Lost(
        Loss.EVENTS, sum(untimed), sum(untimed) + len(events), "events of devices, damaged or without a valid time"
    )
    of_rows = [each for read_rows in (*read_devices, *read_threads) for each in read_rows.lost]
    of_memory = [each for events_of in threads for each in memory.lost(events_of)]
    damage = [
        *lost,
        *strangers,
        *lines,
        *lost_ids,
        *of_rows,
        *of_memory,
        *sessions,
        *repeated,
        *far,
        *backwards,
        *twice,
        *of_file.lost,
        *details,
    ]
    return Trace(
        events=events,
        ops=ops,
        operands=operands,
        spans=concat(SPAN_COLUMNS, [host_events.spans(host, each) for each in threads], is_last_use=True),
        launches=concat(
            LAUNCH_COLUMNS,
            [*(host_events.launches(host, each) for each in hosts), *_with_rows(numbered, events)],
            is_last_use=True,
        ),
        syncs=concat(SYNC_COLUMNS, [host_events.waits(host, each, waited) for each in hosts]),
        devices=frame(DEVICE_COLUMNS, {name: [row[name] for row in facts] for name in (facts or [{}])[0]}),
        losses=losses.table(
            host,
            [
                *losses_told,
                *_replicas(threads, computing),
                *damage,
                *absent,
                *([without_time] if any(untimed) else []),
            ],
        ),
        memory=concat(MEMORY_COLUMNS, [table for table, _ in allocated]),
        notes=(
            *messages,
            *(note for read_rows in read_threads for note in read_rows.notes),
            *(note for _, notes in allocated for note in notes),
            *_device_notes(names, read_devices),
            *plane_notes,
            *losses.notes(damage),
            *missing,
        ),
        source=str(path),
        hosts=frame(
            HOST_COLUMNS,
            {"host": [host], "source": [str(path)], "origin_ns": [unix_ns], "world_size": [world_size]},
        ),
        format=form,
    )


def device_name(plane_name: str) -> str | None:
    """The device a plane stands for: `gpu:0`, `tpu:3`, `tpu:3/sc:1` for a SparseCore of that chip; None for every
    other plane, custom ones too."""
    if match := _DEVICE.fullmatch(plane_name):
        return f"{match[1].lower()}:{match[2]}"
    if match := _SPARSE_CORE.fullmatch(plane_name):
        return f"tpu:{match[1]}/sc{'-' + match[2].lower() if match[2] else ''}:{match[3]}"
    return None


def is_decoded(plane_name: str, line_name: str, line_id: int) -> bool:
    """Whether a line is to be decoded: all of the host's, of a device only those that do not repeat others, and those
    whose meaning is not known."""
    if not plane_name.startswith("/device:"):
        return True
    device = device_name(plane_name) or ""
    if type_of(device) == "gpu":
        return line_name not in gpu_plane.DERIVED
    if line_name in tpu_plane.LINES or not device:
        return bool(device)
    return not is_sparse_core(device) and not says_no_work(line_name)


def _needed(plane_name: str, known: Collection[str]) -> frozenset[str]:
    """The event stats that are needed of a plane that knows these: each takes nine bytes an event."""
    of_device = {"gpu": gpu_plane.STATS, "tpu": tpu_plane.STATS}.get(type_of(device_name(plane_name) or ""))
    if of_device:
        return frozenset(of_device)
    needed = frozenset(STATS)
    if memory.STATS[0] in known:
        needed |= {*memory.STATS}
    # Calls that launch work on a GPU say of which operation that is too, as the work itself does.
    is_of_calls = "correlation_id" in known and "device_ordinal" not in known
    return needed - {*_OF_THUNKS} if plane_name.startswith("/host:") and is_of_calls else needed


def _devices(space: XSpace) -> list[tuple[Plane, str]]:
    """The planes of devices, each with its device."""
    return [(plane, device) for plane in space.planes if (device := device_name(plane.name))]


def _timed(plane: Plane, start: NDArray[np.int64], longest_ps: int) -> tuple[PlaneEvents, list[str]]:
    """The events of a device plane that have a time, and a note on others; `start` (n,) is in ps."""
    end = start + plane.duration_ps
    # Aggregated events have no time, and an overflowed duration is none: neither can be a row.
    is_sum = plane.occurrences >= 0
    valid = (plane.duration_ps >= 0) & (end >= start) & (plane.duration_ps <= longest_ps) & ~is_sum
    notes = (
        [f"{is_sum.sum()} events stand for several, without their times: they were skipped."] if is_sum.any() else []
    )
    if bad := int((~valid & ~is_sum).sum()):
        notes.append(f"{bad} events damaged or without a valid time were skipped.")
    return PlaneEvents(plane, start, end, np.flatnonzero(valid)), notes


def _device_notes(devices: list[str], read_devices: list[DeviceRows]) -> list[str]:
    """The notes on the planes of the `devices`, each with the names of those that it is of."""
    of_note: dict[str, list[str]] = defaultdict(list)
    for device, read_rows in zip(devices, read_devices, strict=True):
        for note in read_rows.notes:
            of_note[note].append(device)
    return [f"{', '.join(names)}: {note}" for note, names in of_note.items()]


def _compute_devices(parts: list[dict[str, Any]]) -> int:
    """How many devices computed, by the columns of each."""
    return sum(bool(by_label(part["kind"], lambda kind: kind == Kind.COMPUTE).any()) for part in parts if part)


def _replicas(hosts: list[HostEvents], devices: int) -> list[Lost]:
    """The replicas that the host's operations name and of which none of the `devices` that computed can be.

    TensorFlow's mirrored strategies name what runs on the k-th device of a host `replica_k/…`, but for the first
    (tensorflow/python/distribute/mirrored_run.py). A replica whose operations were not recorded has no name: there are
    at least so many.
    """
    names = (_REPLICA.search(name) for events in hosts for name in each_label(events.names))
    replicas = {int(match[1]) for match in names if match}
    total = max(replicas, default=0) + 1
    if not devices or total <= max(devices, 1):
        return []
    return [Lost(Loss.REPLICAS, total - devices, total, f"the host's operations name replica_{total - 1}")]


def _plane_notes(space: XSpace) -> list[str]:
    """What the device planes lack: those without any event, those that stand for no device that is counted, and which
    devices are SparseCores."""
    devices = [(plane, device_name(plane.name) or "") for plane in space.planes if plane.name.startswith("/device:")]
    empty = [device for plane, device in devices if device and len(plane) == 0]
    other = [plane.name for plane, device in devices if not device and _PLANE.match(plane.name)]
    other += [each.name for each in space.planes if len(each) and not _PLANE.match(each.name) and not _is_almost(each)]
    cores = [device for plane, device in devices if is_sparse_core(device) and len(plane)]
    notes = []
    if empty:
        notes.append(f"No work was recorded on {', '.join(empty)} (empty planes).")
    if other:
        notes.append(f"Skipped (not a GPU or TPU core): {', '.join(other)}.")
    if cores:
        notes.append(
            f"SparseCores count as devices of their own, beside the TensorCore of their chip: {', '.join(cores)}."
        )
    return notes


def _bandwidth_notes(devices: list[tuple[Plane, str]]) -> list[str]:
    """The sentence on devices whose memory bandwidth is not what their plane states, if there are any."""
    doubled = [device for plane, device in devices if _has_half_of_its_bandwidth(plane)]
    if not doubled:
        return []
    return [
        f"The memory bandwidth of {', '.join(doubled)} is twice what the profiler states, which counts two transfers "
        "per clock where HBM3 makes four."
    ]


def _waits(devices: list[tuple[Plane, str]], once: Once) -> dict[int, tuple[str, str]]:
    """The device and the lane on which the GPU planes hold a record of waiting, by its correlation id."""
    places: dict[int, tuple[str, str]] = {}
    for plane, device in devices:
        if type_of(device) == "gpu":
            rows, lanes = gpu_plane.waits(plane, once), line_names(plane)
            ids, has_id = plane.numbers("correlation_id")
            places.update((int(ids[row]), (device, lanes[plane.line[row]])) for row in rows[has_id[rows]])
    return places


def _facts(host: str, plane: Plane, device: str) -> dict[str, Any]:
    """A row of DEVICE_COLUMNS with what the plane's stats say the device is and can do."""
    stats = plane.stats
    bandwidth = number_stat(stats, "memory_bandwidth")
    if bandwidth is not None and _has_half_of_its_bandwidth(plane):
        bandwidth *= 2
    if bandwidth is None:
        bandwidth = (number_stat(stats, "peak_hbm_bw_gigabytes_per_second") or 0) * 10**9 or None
    flops = (number_stat(stats, "peak_teraflops_per_second") or 0) * 10**12
    model = next((text for name in _MODEL if (text := text_stat(stats, name))), None)
    return {
        "host": host,
        "device": device,
        "model": model,
        "memory_bandwidth_bytes_per_s": _whole(bandwidth),
        "peak_flops_per_s": _whole(flops or None),
    }


def _whole(number: float | None) -> int | None:
    """The number without decimals, None where a column of 64 bits cannot hold it."""
    return round(number) if number is not None and number < 2**63 else None


def _unusable(plane: Plane) -> list[str]:
    """The stats of a device that should be numbers or texts and are not."""
    numbers = [name for name in _NUMBERS if name in plane.stats and number_stat(plane.stats, name) is None]
    return numbers + [name for name in _MODEL if not isinstance(plane.stats.get(name, ""), str)]


def _has_half_of_its_bandwidth(plane: Plane) -> bool:
    """Whether ROCm's tracer states half of a GPU's memory bandwidth.

    It takes two transfers per clock of the memory (AddStatValue of kDevCapMemoryBandwidth in
    https://github.com/openxla/xla/blob/main/xla/backends/profiler/gpu/rocm_collector.cc), and HBM3 makes four: MI300X
    has 8192 bits at 1.3 GHz and 5.3 TB/s, and MI355X at 2 GHz 8 TB/s. A figure past 5 TB/s counts four already.
    """
    stats = plane.stats
    is_hbm3 = (stats.get("compute_cap_major"), stats.get("compute_cap_minor")) in ((9, 4), (9, 5))  # gfx942, gfx950
    stated = number_stat(stats, "memory_bandwidth")
    return stats.get("device_vendor") == "AMD" and is_hbm3 and stated is not None and stated < 5 * 10**12


def _with_rows(launches: list[pd.DataFrame], events: pd.DataFrame) -> list[pd.DataFrame]:
    """Of the launches that were given an id here, those that have rows."""
    return [
        each[each["correlation_id"].isin(events["correlation_id"])].reset_index(drop=True)
        for each in launches
        if len(each)  # else pandas makes a table of all rows' ids for nothing
    ]


def _calls_of_end(plane: Plane) -> tuple[Plane, NDArray[np.int64]]:
    """A plane of the host without what its threads did to compile and run the tiny program with which a capture finds
    out that the devices are done, and the correlation ids of these calls.

    XLA compiles on threads of its own, where the passes over a program are called after it, and others make code.
    """
    is_end = by_label(plane.names, lambda name: name == _CAPTURE_CALL)
    if not is_end.any():
        return plane, np.zeros(0, np.int64)
    start = plane.start_ps(min(line.timestamp_ns for line in plane.lines))
    end = start + plane.duration_ps
    own = np.zeros(len(plane), bool)
    for line in np.unique(plane.line[is_end]):
        calls = is_end & (plane.line == line)
        own |= (plane.line == line) & (start >= start[calls].min()) & (end <= end[calls].max())
    compiles = by_label(plane.names, lambda name: name.endswith(f"({_CAPTURE_MODULE})")) & ~own
    meanwhile = (start >= start[is_end].min()) & (end <= end[is_end].max())
    for line in np.unique(plane.line[compiles]):
        own |= _outermost_with(compiles, meanwhile & (plane.line == line), start, end)
    if compiles.any():
        own |= meanwhile & np.array([_CODEGEN in line.name for line in plane.lines], bool)[plane.line]
    ids, has_id = plane.numbers("correlation_id")
    return plane.only(~own), ids[own & has_id]


def _outermost_with(
    marks: NDArray[np.bool_], on_line: NDArray[np.bool_], start: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Of the events `on_line`, which lie in each other or apart, those that lie in an outermost one with one of the
    `marks` in it; all (n,)."""
    rows = np.flatnonzero(on_line)
    rows = rows[np.lexsort((-end[rows], start[rows]))]
    reach = np.maximum.accumulate(end[rows])
    number = np.cumsum(np.append(True, start[rows][1:] >= reach[:-1])[: len(rows)])
    own = np.zeros(len(marks), bool)
    own[rows] = np.isin(number, number[marks[rows]])
    return own


def _without_capture(events: dict[str, Any], end_ids: NDArray[np.int64]) -> dict[str, Any]:
    """The columns without the rows of that program, and without those that `end_ids` started: XLA's autotuner, where
    it was compiled, has memory of its own to set."""
    if not events or not (len(end_ids) or _CAPTURE_MODULE in events["hlo_module"].categories):
        return events
    is_work = by_label(events["hlo_module"], lambda module: module != _CAPTURE_MODULE, True)
    if len(end_ids) and "correlation_id" in events:
        is_work &= ~np.isin(events["correlation_id"].to_numpy(np.int64, na_value=-1), end_ids)
    return {name: column[is_work] for name, column in events.items()}


def _details(space: XSpace, devices: list[tuple[Plane, str]]) -> list[Lost]:
    """What describes devices and the session, and is of a wrong type."""
    unusable = [f"{name} of {device}" for plane, device in devices for name in _unusable(plane)]
    if _profile_ns(space) is None:
        edges = {f"profile_{edge}_time" for edge in ("start", "stop")}
        unusable += [
            name for plane in space.planes if plane.name == _SESSION for name in sorted(edges & {*plane.stats})
        ]
    return [Lost(Loss.DETAILS, len(unusable), None, ", ".join(unusable[:3]))] if unusable else []


def _strangers(space: XSpace) -> list[Lost]:
    """The planes that are called almost as profilers call them, or not at all, and so cannot be read."""
    names = [plane.name or "without a name" for plane in space.planes if _is_almost(plane)]
    if all(plane.name != _HOST for plane in space.planes):
        names += [plane.name for plane in space.planes if _OTHER_HOST.match(plane.name) and len(plane)]
    evidence = f"called as no profiler calls them: {', '.join(names[:3])}"
    return [Lost(Loss.PLANES, len(names), len(space.planes), evidence)] if names else []


def _lines(space: XSpace) -> tuple[list[Lost], list[str]]:
    """The lines of GPUs that have lost their names; and those of TPU cores that nobody knows, as lost where they may be
    those of operations or programs, and else in a note."""
    lost, skipped = [], []
    for plane, device in _devices(space):
        nameless = [at for at, line in enumerate(plane.lines) if not line.name or NO_TEXT.search(line.name)]
        if type_of(device) == "gpu" and (with_work := len(np.unique(plane.line[np.isin(plane.line, nameless)]))):
            lost.append(Lost(Loss.LINES, with_work, len(plane.lines), f"without a name, of {device}"))
        if type_of(device) == "tpu" and not is_sparse_core(device):
            unknown, is_damage = tpu_plane.unknown_lines(plane)
            is_damage |= bool(np.isin(nameless, plane.line).any())
            if is_damage:
                evidence = f"called as no profiler calls them, {', '.join(unknown[:3])} of {device}"
                lost.append(Lost(Loss.LINES, len(unknown), len(plane.lines), evidence))
            elif unknown:
                skipped.append(f"{device}: lines of unknown meaning were skipped: {', '.join(unknown)}.")
    return lost, skipped


def _is_almost(plane: Plane) -> bool:
    """Whether the name of a plane is damaged: those of planes that others may add are not, which hold no device."""
    if _PLANE.match(plane.name):
        return False
    is_like_one = not plane.name or NO_TEXT.search(plane.name) or _ALMOST.search(plane.name) is not None
    is_nameless = not plane.name or NO_TEXT.search(plane.name) is not None
    return is_like_one and (
        len(plane) > 0 or (is_nameless and bool(plane.event_ids)) or plane.name.startswith("/device:")
    )


def _first_session(space: XSpace) -> tuple[XSpace, list[Lost]]:
    """The planes of the first of several sessions, as of files that were concatenated, and how many are left out."""
    ends = [at for at, plane in enumerate(space.planes) if plane.name == _SESSION]
    if len(ends) < 2:
        return space, []
    names = {plane.name for plane in space.planes[: ends[0]]}
    is_joined = any(plane.name in names for plane in space.planes[ends[0] + 1 :])
    kept = [
        plane for at, plane in enumerate(space.planes) if at <= ends[0] or (not is_joined and plane.name != _SESSION)
    ]
    evidence = f"{_SESSION} occurs {len(ends)} times: files were joined, give one file per session"
    what = Loss.PLANES if is_joined else Loss.DETAILS
    lost = Lost(what, len(space.planes) - len(kept), len(space.planes) if is_joined else None, evidence)
    return replace(space, planes=kept), [lost]


def _one_plane_each(space: XSpace) -> tuple[XSpace, list[Lost]]:
    """The planes without those of a device that has one already, of which the one with most events is kept, and without
    other planes and lines that repeat one before them event by event."""
    best: dict[str, Plane] = {}
    for plane, device in _devices(space):
        best[device] = max(best.get(device, plane), plane, key=len)
    repeated = [plane for plane, device in _devices(space) if best[device] is not plane]
    first: dict[tuple[str, int], Plane] = {}
    for plane in (plane for plane in space.planes if len(plane) and device_name(plane.name) is None):
        if _is_alike(plane, first.setdefault((plane.name, len(plane)), plane)):
            repeated.append(plane)
    planes, lost = [plane for plane in space.planes if not any(plane is each for each in repeated)], []
    if repeated:
        lost.append(Lost(Loss.PLANES, len(repeated), len(space.planes), f"{repeated[0].name} stands in the file twice"))
    for place, plane in enumerate(planes):
        if again := _repeated_lines(plane):
            evidence = f"{plane.name}, whose {plane.lines[again[0]].name or 'line'} stands in the file twice"
            lost.append(Lost(Loss.LINES, len(again), len(plane.lines), evidence))
            planes[place] = plane.only(~np.isin(plane.line, again))
    return (replace(space, planes=planes), lost) if lost else (space, [])


def _is_alike(plane: Plane, other: Plane) -> bool:
    """Whether two planes hold the same events, and are not one."""
    if plane is other or plane.lines != other.lines:
        return False
    columns = ("line", "metadata_id", "offset_ps", "duration_ps")
    return all(np.array_equal(getattr(plane, column), getattr(other, column)) for column in columns)


def _repeated_lines(plane: Plane) -> list[int]:
    """The lines that hold the same events as one before them with the same header."""
    places: dict[Line, list[int]] = defaultdict(list)
    for at, line in enumerate(plane.lines):
        places[line].append(at)
    if len(places) == len(plane.lines):
        return []
    columns = [getattr(plane, column) for column in ("metadata_id", "offset_ps", "duration_ps")]
    rows = places_of(plane.line, len(plane.lines))
    return [
        at
        for first, *others in places.values()
        for at in others
        if len(rows[at]) and all(np.array_equal(column[rows[at]], column[rows[first]]) for column in columns)
    ]


def _once(space: XSpace, base_ns: int) -> tuple[XSpace, list[Lost]]:
    """The planes with each event `once`, and how many are left out."""
    found = [once(plane, base_ns) for plane in space.planes]
    lost = [each for _, lost_of_plane in found for each in lost_of_plane]
    return (replace(space, planes=[plane for plane, _ in found]), lost) if lost else (space, [])


def once(plane: P, base_ns: int) -> tuple[P, list[Lost]]:
    """The plane without the events that equal one before them of their stream or thread, in all that is asked of them,
    and how many these are."""
    again = _repeated_events(plane, base_ns)
    if again is None or not again.any():
        return plane, []
    return plane.only(~again), repeats.lost(again, f"events of {plane.name}")


def _repeated_events(plane: Plane, base_ns: int) -> NDArray[np.bool_] | None:
    """Which events equal one before them; None where no two of a line begin at one moment, as in most planes."""
    if len(plane) < 2:
        return None
    # A stream has one name, and a line of its own; threads may be called alike.
    of_device = plane.name.startswith("/device:")
    keys = [(line.name, None if of_device and line.name else line.id) for line in plane.lines]
    number = {key: at for at, key in enumerate(dict.fromkeys(keys))}
    line, offset = plane.line, plane.offset_ps
    same = line[1:] == line[:-1]
    # Of a line whose events are in order only neighbours may be equal, so that few are looked at.
    ties = same & (offset[1:] == offset[:-1])
    often = Counter(keys)
    is_mixed = np.array([often[key] > 1 for key in keys], bool)
    is_mixed |= bool((line[1:] < line[:-1]).any())
    is_mixed[line[1:][same & (offset[1:] < offset[:-1])]] = True
    rows = np.flatnonzero(np.append(ties, False) | np.append(False, ties) | is_mixed[line])
    if not len(rows):
        return None

    def stats(some: NDArray[np.int64]) -> list[NDArray[Any]]:
        asked, at = dict.fromkeys(STATS), rows[some]
        numbers = [column[at] for stat in asked if stat not in _TEXTS for column in plane.numbers(stat)]
        return [*numbers, *(plane.strings(stat).codes[at] for stat in asked if stat in _TEXTS)]

    stamps = (np.array([each.timestamp_ns for each in plane.lines], np.int64) - base_ns) * 1000
    start = stamps[line[rows]] + offset[rows]
    length = np.where(plane.occurrences[rows] < 0, plane.duration_ps[rows], 0)
    of_line = np.array([number[key] for key in keys], np.int64)[line[rows]]
    found = np.zeros(len(plane), bool)
    found[rows] = repeats.repeated(start, start + length, [of_line, plane.metadata_id[rows]], stats)
    return found


def _near(space: XSpace) -> tuple[XSpace, list[Lost]]:
    """The events without those whose times are further from the others than a profile lasts, and how many they are."""
    used = [plane for plane in space.planes if len(plane)]
    stamps = [np.array([line.timestamp_ns for line in plane.lines], np.int64) for plane in used]
    stated = _stated_ps(space)
    limit = min(_longest_ps(space) + (0 if stated is None else _ANOTHER_CLOCK_PS), _FURTHEST_PS)
    low, high = _bounds(space, stamps)
    edges = [edge for plane, stamps_of in zip(used, stamps, strict=True) for edge in _edges(plane, stamps_of)]
    if not used or (max(edges) - min(edges) <= limit and low <= min(edges) and max(edges) <= high):
        return space, []
    times = [stamps_of[plane.line] * 1000.0 + plane.offset_ps for plane, stamps_of in zip(used, stamps, strict=True)]
    middle = _middle(np.concatenate(times))
    near = [np.abs(time - middle) <= limit for time in times]
    for time, each in zip(times, near, strict=True):
        inside = (low <= time) & (time <= high)
        if len(time) - np.count_nonzero(inside) <= max(1, _FEW * len(time)):
            each &= inside
    lost = sum(int(np.count_nonzero(~each)) for each in near)
    if not lost:
        return space, []
    kept = {id(plane): plane.only(each) for plane, each in zip(used, near, strict=True)}
    planes = [kept.get(id(plane), plane) for plane in space.planes]
    evidence = f"their times are {'more than a day from the others' if stated is None else 'outside of the profile'}"
    return replace(space, planes=planes), [Lost(Loss.EVENTS, lost, sum(map(len, near)), evidence)]


def _middle(times: NDArray[np.floating[Any]]) -> float:
    """That of the times which stands in their middle, where np.median may be between two."""
    half = (len(times) - 1) // 2
    return float(np.partition(times, half)[half])


def _edges(plane: Plane, stamps: NDArray[np.int64]) -> tuple[float, float]:
    """When the first and the last event of a plane begin, in ps; `stamps` are those of its lines."""
    first, last = np.full(len(stamps), np.iinfo(np.int64).max), np.full(len(stamps), np.iinfo(np.int64).min)
    np.minimum.at(first, plane.line, plane.offset_ps)
    np.maximum.at(last, plane.line, plane.offset_ps)
    is_used = first <= last
    low, high = (stamps[is_used] * 1000.0 + edge[is_used] for edge in (first, last))
    return float(low.min()), float(high.max())


def _bounds(space: XSpace, stamps: list[NDArray[np.int64]]) -> tuple[float, float]:
    """The times in ps before and after which no event begins, as far as the file says; `stamps` are those of lines."""
    times = _profile_ns(space)
    if times is None or times[1] <= times[0] or not stamps:
        return -math.inf, math.inf
    zero_ns = times[0] if np.median(np.concatenate(stamps)) > YEAR_2000_NS else 0
    return zero_ns * 1000.0 - _OFF_PS, (zero_ns + times[1] - times[0]) * 1000.0 + _OFF_PS


def _forwards(space: XSpace) -> tuple[XSpace, list[Lost]]:
    """The space without the events of the host that end before they start, or past all time; `_timed` has those of
    devices."""
    hosts = [plane for plane in space.planes if host_events.is_host(plane)]
    good = [(plane.duration_ps >= 0) & (plane.duration_ps <= _FURTHEST_PS) for plane in hosts]
    if not (lost := sum(int(np.count_nonzero(~each)) for each in good)):
        return space, []
    kept = {id(plane): plane.only(each) for plane, each in zip(hosts, good, strict=True)}
    planes = [kept.get(id(plane), plane) for plane in space.planes]
    return replace(space, planes=planes), [
        Lost(Loss.EVENTS, lost, sum(map(len, hosts)), "events of the host, damaged or ending before they start")
    ]


def _origin(space: XSpace) -> tuple[int, int]:
    """The time in ns from which lines are counted, and the earliest event in ps after it."""
    stamps = [
        line.timestamp_ns
        for plane in space.planes
        for line, events in zip(plane.lines, np.bincount(plane.line, minlength=len(plane.lines)), strict=True)
        if events
    ]
    base_ns = min(stamps, default=0)
    starts = [int(plane.start_ps(base_ns).min()) for plane in space.planes if len(plane)]
    return base_ns, min(starts, default=0)


def _unix_ns(space: XSpace, time_ns: int) -> int | None:
    """The Unix time of `time_ns`: that is one, or counts from the start of the profile if the file says when that
    was."""
    if time_ns > YEAR_2000_NS:
        return time_ns if time_ns < YEAR_2200_NS else None
    times = _profile_ns(space)
    return None if times is None or times[0] < YEAR_2000_NS else times[0] + time_ns


def _longest_ps(space: XSpace) -> int:
    """How long an event can be."""
    stated = _stated_ps(space)
    return _LONGEST_PS if stated is None else stated


def _stated_ps(space: XSpace) -> int | None:
    """How long the profile lasted, None if the file does not say."""
    times = _profile_ns(space)
    return None if times is None or times[1] <= times[0] else (times[1] - times[0]) * 1000


def _profile_ns(space: XSpace) -> tuple[int, int] | None:
    """When the profile was started and stopped, in ns of Unix time; None if the file does not say."""
    for plane in space.planes:
        start, stop = (plane.stats.get(f"profile_{edge}_time") for edge in ("start", "stop"))
        if plane.name != _SESSION or not isinstance(start, int) or not isinstance(stop, int):
            continue
        if 0 <= start <= stop < YEAR_2200_NS:
            return start, stop
    return None


def _free_id(calls: host_events.Calls, unix_ns: int | None) -> int:
    """The first of the ids that no call has.

    It is the microsecond at which the file begins, if that is known: windows of one process, read from several files,
    then share no ids, since a call takes longer than that.
    """
    ids = calls.ids[calls.ids < _LARGEST_ID]
    return max(int(ids.max(initial=0)) + 1, (unix_ns or 0) // 1000)


def _missing(space: XSpace, calls: host_events.Calls) -> tuple[list[str], list[Lost]]:
    """What the planes that are there show to be missing, one sentence each, and whole planes as losses; `calls` are
    those of the host."""
    names = {plane.name for plane in space.planes}
    devices = _devices(space)
    platforms = {type_of(device) for _, device in devices}
    host = next((plane for plane in space.planes if plane.name == _HOST), None)
    notes = _lost_launches(calls, [plane for plane, device in devices if type_of(device) == "gpu"])
    has_gpu = "gpu" in platforms
    lost = [Lost(Loss.PLANES, None, None, "of GPUs, on which the host launched work")] if notes and not has_gpu else []
    if (
        host is not None
        and "tpu" not in platforms
        and by_label(host.names, lambda name: name.startswith(TPU_LAUNCHES)).any()
    ):
        notes.append(
            "The host ran programs on a TPU, but the file contains no TPU plane: it is truncated, or the profiler "
            "could not record the TPU."
        )
        lost.append(Lost(Loss.PLANES, None, None, "of TPUs, on which the host ran programs"))
    if _SESSION in names or space.hostnames:
        return notes, lost
    late = bool(names & _LATER_PLANES) or any(_LATER_STATS & plane.stats.keys() for plane in space.planes)
    launched = any(plane.numbers("correlation_id")[1].any() for plane, _ in devices)
    if host is None and METADATA in names and not platforms:
        notes.append(f"The file contains only {METADATA}, no work: it is truncated, or the profiler recorded nothing.")
    elif late or (launched and host is None):
        absent = f"{_SESSION} and {_HOST}" if host is None else _SESSION
        notes.append(
            f"The file is truncated: it ends before {absent}, which the profiler writes last, and other planes may be "
            "missing too. Copy it again."
        )
        lost.append(Lost(Loss.PLANES, None, None, f"the file ends before {absent}"))
    return notes, lost


def _lost_launches(calls: host_events.Calls, gpus: list[Plane]) -> list[str]:
    """The note on launches of the host that no event of a GPU answers."""
    launched = rising(calls.ids_of(launches), [calls.ids[calls.recorded]])
    executed = [ids[chosen(has_id)] for ids, has_id in (plane.numbers("correlation_id") for plane in gpus)]
    unanswered = len(rising(launched, executed))
    if unanswered <= _REMAINDER * len(launched):
        return []
    what = "GPU planes are absent" if gpus else "the file contains no GPU plane"
    return [
        f"{unanswered} of {len(launched)} kernels and copies that the host launched are missing ({what}): the file is "
        "truncated, or the profiler dropped them."
    ]
