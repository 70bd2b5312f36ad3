"""The planes of one file to a `Trace`: which are devices, what they and the host give, and whether any are missing.

A file that is truncated between two planes still parses. Profilers write the planes in an order of their own, but `Task
Environment` (since February 2024) and the host names after all others (tsl/profiler/lib/profiler_session.cc): a file
with either was not cut.
"""

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import by_label, concat, frame
from tracekit.devices import is_sparse_core, type_of
from tracekit.errors import TraceError
from tracekit.readers import losses
from tracekit.readers import protobuf_decoder as protobuf
from tracekit.readers.losses import Lost
from tracekit.readers.xspace import cpu_plane, gpu_plane, host_events, memory, tpu_plane, xspace_file
from tracekit.readers.xspace.host_events import HostEvents
from tracekit.readers.xspace.planes import DeviceRows, Plane, PlaneEvents, XSpace, line_names
from tracekit.readers.xspace.programs import METADATA, programs, with_operations
from tracekit.trace import (
    DEVICE_COLUMNS,
    EVENT_COLUMNS,
    HOST_COLUMNS,
    LAUNCH_COLUMNS,
    MEMORY_COLUMNS,
    SPAN_COLUMNS,
    SYNC_COLUMNS,
    Trace,
)
from tracekit.vocabulary.host_calls import TPU_LAUNCHES, launches
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.losses import Loss

_SPAN_STATS = ("step_num", "tracekit", "alone", "baseline", "correlation_id")
# The event stats that the reading of planes asks for.
STATS = (*cpu_plane.STATS, *gpu_plane.STATS, *tpu_plane.STATS, *host_events.STATS, *_SPAN_STATS)

_DEVICE = re.compile(r"/device:(GPU|TPU):(\d+)")
_SPARSE_CORE = re.compile(r"/device:TPU:(\d+) SparseCore(?: ([a-zA-Z]+))? (\d+)")
_REPLICA = re.compile(r"(?:^|[/_])replica_(\d{1,4})/")
_SESSION = "Task Environment"
_HOST = "/host:CPU"
# No event of a profile is as long as this, a day; where the profile says how long it was, none is longer than that.
_LONGEST_PS = 86_400 * 10**12
_YEAR_2000_NS = 946_684_800 * 10**9
_CAPTURE_MODULE = "jit_tracekit_end"

# What no profiler wrote before it wrote `Task Environment`, as planes or as stats of planes.
_LATER_PLANES = frozenset({"/host:__ScopeRangeCallStack__"})
_LATER_STATS = frozenset({"gpu_device_name", "core_details", "jax_version", "jaxlib_version"})
# At the end of a profile some kernels have not run yet; more than this share of the launches is no such remainder.
_REMAINDER = 0.1


def read(path: Path) -> Trace:
    """The trace in one XSpace file. Raises TraceError if the file is corrupt or not an XSpace."""
    try:
        space = xspace_file.read(path, STATS, is_decoded, memory.STATS)
        content = trace(space, path, path.name.removesuffix(".gz").removesuffix(".xplane.pb"), "xplane")
        return replace(content, notes=(*content.notes, *_missing(space)))
    except protobuf.Broken as broken:
        raise xspace_file.error(path, broken) from None


def trace(space: XSpace, path: Path, host: str, form: str) -> Trace:
    """The trace that the planes of `space`, read from `path`, hold; `form` names the format for `Trace.format`.

    Raises TraceError if they hold two sessions, clocks too far apart for one time axis, or a corrupt HLO proto.
    """
    if sum(plane.name == _SESSION for plane in space.planes) > 1:
        raise TraceError(
            f"{path} contains more than one profiler session ({_SESSION} occurs twice): files were "
            "concatenated. Give one file per session."
        )
    base_ns, zero = _origin(space, path)
    unix_ns = _unix_ns(space, base_ns + zero // 1000)
    of_file = programs(space, path)
    hosts = [HostEvents(plane, plane.start_ps(base_ns) - zero) for plane in space.planes if host_events.is_host(plane)]
    calls = host_events.calls(space)
    first_id = _free_id(calls, unix_ns)
    program_launches = tpu_plane.program_launches(host, hosts, first_id)
    devices = _devices(space)
    is_alone = sum(type_of(device) == "gpu" for _, device in devices) == 1

    def device_rows(plane: Plane, device: str) -> DeviceRows:
        events, notes = _timed(plane, plane.start_ps(base_ns) - zero, _longest_ps(space))
        if len(plane) == 0:
            rows = DeviceRows(frame(EVENT_COLUMNS), [], [])
        elif type_of(device) == "gpu":
            rows = gpu_plane.read(host, device, events, of_file.op, calls, is_alone)
        else:
            rows = tpu_plane.read(host, device, events, of_file.op, program_launches)
        return replace(rows, notes=[*notes, *rows.notes])

    read_devices = [device_rows(plane, device) for plane, device in devices]
    threads = [events for events in hosts if events.plane.name == _HOST]
    free_id = first_id + len(program_launches.launches)
    read_threads = [cpu_plane.read(host, events, of_file.op, bool(devices), free_id) for events in threads]
    tables = [_without_capture(read_rows.events) for read_rows in (*read_devices, *read_threads)]
    events, ops, operands = with_operations(
        tables, [read_rows.operations for read_rows in (*read_devices, *read_threads)], of_file
    )
    numbered = [program_launches.launches, *(read_rows.launches for read_rows in read_threads)]
    waited = _waits(devices)
    allocated = [memory.read(host, each) for each in threads]
    return Trace(
        events=events,
        ops=ops,
        operands=operands,
        spans=concat(SPAN_COLUMNS, [host_events.spans(host, each) for each in threads]),
        launches=concat(
            LAUNCH_COLUMNS, [*(host_events.launches(host, each) for each in hosts), *_with_rows(numbered, events)]
        ),
        syncs=concat(SYNC_COLUMNS, [host_events.waits(host, each, waited) for each in hosts]),
        devices=concat(DEVICE_COLUMNS, [_facts(host, plane, device) for plane, device in devices]),
        losses=losses.table(
            host,
            [*losses.from_messages([*space.errors, *space.warnings]), *_replicas(threads, _compute_devices(tables))],
        ),
        memory=concat(MEMORY_COLUMNS, [table for table, _ in allocated]),
        notes=(
            *(f"Profiler error: {text}" for text in space.errors),
            *(f"Profiler warning: {text}" for text in space.warnings),
            *(note for read_rows in read_threads for note in read_rows.notes),
            *(note for _, notes in allocated for note in notes),
            *_device_notes(devices, read_devices),
            *_bandwidth_notes(devices),
            *_plane_notes(space),
        ),
        source=str(path),
        hosts=frame(
            HOST_COLUMNS,
            {"host": [host], "source": [str(path)], "origin_ns": [unix_ns], "world_size": [of_file.devices]},
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
    return bool(device) and line_name in tpu_plane.LINES


def _devices(space: XSpace) -> list[tuple[Plane, str]]:
    """The planes of devices, each with its device."""
    return [(plane, device) for plane in space.planes if (device := device_name(plane.name))]


def _timed(plane: Plane, start: NDArray[np.int64], longest_ps: int) -> tuple[PlaneEvents, list[str]]:
    """The events of a device plane that have a time, and a note on others; `start` (n,) is in ps."""
    end = start + plane.duration_ps
    # Aggregated events have no time, and an overflowed duration is none: neither can be a row.
    valid = (plane.occurrences < 0) & (plane.duration_ps >= 0) & (end >= start) & (plane.duration_ps <= longest_ps)
    notes = [] if valid.all() else [f"{(~valid).sum()} events without a valid time were skipped."]
    return PlaneEvents(plane, start, end, np.flatnonzero(valid)), notes


def _device_notes(devices: list[tuple[Plane, str]], read_devices: list[DeviceRows]) -> list[str]:
    """The notes on the planes of devices, each with the names of the devices that it is of."""
    of_note: dict[str, list[str]] = defaultdict(list)
    for (_, device), read_rows in zip(devices, read_devices, strict=True):
        for note in read_rows.notes:
            of_note[note].append(device)
    return [f"{', '.join(names)}: {note}" for note, names in of_note.items()]


def _compute_devices(tables: list[pd.DataFrame]) -> int:
    """How many devices computed."""
    return sum(bool((table["kind"] == Kind.COMPUTE.value).any()) for table in tables)


def _replicas(hosts: list[HostEvents], devices: int) -> list[Lost]:
    """The replicas that the host's operations name and of which none of the `devices` that computed can be.

    TensorFlow's mirrored strategies name what runs on the k-th device of a host `replica_k/…`, but for the first
    (tensorflow/python/distribute/mirrored_run.py). A replica whose operations were not recorded has no name: there are
    at least so many.
    """
    names = {str(name) for events in hosts for name in events.names.categories}
    replicas = {int(match[1]) for name in names if (match := _REPLICA.search(name))}
    total = max(replicas, default=0) + 1
    if not devices or total <= max(devices, 1):
        return []
    return [Lost(Loss.REPLICAS, total - devices, total, f"the host's operations name replica_{total - 1}")]


def _plane_notes(space: XSpace) -> list[str]:
    """What the device planes lack: those without any event, those that stand for no device that is counted, and which
    devices are SparseCores."""
    devices = [(plane, device_name(plane.name) or "") for plane in space.planes if plane.name.startswith("/device:")]
    empty = [device for plane, device in devices if device and len(plane) == 0]
    other = [plane.name for plane, device in devices if not device]
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


def _waits(devices: list[tuple[Plane, str]]) -> dict[int, tuple[str, str]]:
    """The device and the lane on which the GPU planes hold a record of waiting, by its correlation id."""
    places: dict[int, tuple[str, str]] = {}
    for plane, device in devices:
        if type_of(device) == "gpu":
            rows, lanes = gpu_plane.waits(plane), line_names(plane)
            ids, has_id = plane.numbers("correlation_id")
            places.update((int(ids[row]), (device, lanes[plane.line[row]])) for row in rows[has_id[rows]])
    return places


def _facts(host: str, plane: Plane, device: str) -> pd.DataFrame:
    """One row of DEVICE_COLUMNS with what the plane's stats say the device is and can do."""
    stats = plane.stats
    bandwidth = stats.get("memory_bandwidth")
    if bandwidth is not None and _has_half_of_its_bandwidth(plane):
        bandwidth *= 2
    if bandwidth is None and stats.get("peak_hbm_bw_gigabytes_per_second"):
        bandwidth = round(stats["peak_hbm_bw_gigabytes_per_second"] * 10**9)
    flops = stats.get("peak_teraflops_per_second")
    model = stats.get("gpu_device_name") or stats.get("device_type_string") or stats.get("device_vendor")
    return frame(
        DEVICE_COLUMNS,
        {
            "host": [host],
            "device": [device],
            "model": [model],
            "memory_bandwidth_bytes_per_s": [bandwidth],
            "peak_flops_per_s": [round(flops * 10**12) if flops else None],
        },
    )


def _has_half_of_its_bandwidth(plane: Plane) -> bool:
    """Whether ROCm's tracer states half of a GPU's memory bandwidth.

    It takes two transfers per clock of the memory (AddStatValue of kDevCapMemoryBandwidth in
    https://github.com/openxla/xla/blob/main/xla/backends/profiler/gpu/rocm_collector.cc), and HBM3 makes four: MI300X
    has 8192 bits at 1.3 GHz and 5.3 TB/s, and MI355X at 2 GHz 8 TB/s. A figure past 5 TB/s counts four already.
    """
    stats = plane.stats
    is_hbm3 = (stats.get("compute_cap_major"), stats.get("compute_cap_minor")) in ((9, 4), (9, 5))  # gfx942, gfx950
    stated = stats.get("memory_bandwidth")
    return stats.get("device_vendor") == "AMD" and is_hbm3 and stated is not None and stated < 5 * 10**12


def _with_rows(launches: list[pd.DataFrame], events: pd.DataFrame) -> list[pd.DataFrame]:
    """Of the launches that were given an id here, those that have rows."""
    return [each[each["correlation_id"].isin(events["correlation_id"])].reset_index(drop=True) for each in launches]


def _without_capture(events: pd.DataFrame) -> pd.DataFrame:
    """The rows without those of the tiny program with which a capture finds out that the devices are done."""
    if _CAPTURE_MODULE not in events["hlo_module"].cat.categories:
        return events
    return events[events["hlo_module"] != _CAPTURE_MODULE].reset_index(drop=True)


def _origin(space: XSpace, path: Path) -> tuple[int, int]:
    """The time in ns from which lines are counted, and the earliest event in ps after it."""
    stamps = [line.timestamp_ns for plane in space.planes for line in plane.lines]
    base_ns = min(stamps, default=0)
    if stamps and max(stamps) - base_ns > 2**62 // 1000:
        raise TraceError(
            f"{path} mixes clocks that are {max(stamps) - base_ns} ns apart, too far for one time axis. "
            "Capture the trace again, or read its hosts separately."
        )
    starts = [int(plane.start_ps(base_ns).min()) for plane in space.planes if len(plane)]
    return base_ns, min(starts, default=0)


def _unix_ns(space: XSpace, time_ns: int) -> int | None:
    """The Unix time of `time_ns`: that is one, or counts from the start of the profile if the file says when that
    was."""
    if time_ns > _YEAR_2000_NS:
        return time_ns
    times = _profile_ns(space)
    return None if times is None or times[0] < _YEAR_2000_NS else times[0] + time_ns


def _longest_ps(space: XSpace) -> int:
    """How long an event can be."""
    times = _profile_ns(space)
    return _LONGEST_PS if times is None or times[1] <= times[0] else (times[1] - times[0]) * 1000


def _profile_ns(space: XSpace) -> tuple[int, int] | None:
    """When the profile was started and stopped, in ns of Unix time; None if the file does not say."""
    for plane in space.planes:
        start, stop = (plane.stats.get(f"profile_{edge}_time") for edge in ("start", "stop"))
        if plane.name == _SESSION and isinstance(start, int) and isinstance(stop, int):
            return start, stop
    return None


def _free_id(calls: host_events.Calls, unix_ns: int | None) -> int:
    """The first of the ids that no call has.

    It is the microsecond at which the file begins, if that is known: windows of one process, read from several files,
    then share no ids, since a call takes longer than that.
    """
    return max(int(calls.ids.max(initial=0)) + 1, (unix_ns or 0) // 1000)


def _missing(space: XSpace) -> list[str]:
    """What the planes that are there show to be missing, one sentence each."""
    names = {plane.name for plane in space.planes}
    devices = _devices(space)
    platforms = {type_of(device) for _, device in devices}
    host = next((plane for plane in space.planes if plane.name == _HOST), None)
    notes = _lost_launches(space, [plane for plane, device in devices if type_of(device) == "gpu"])
    if (
        host is not None
        and "tpu" not in platforms
        and by_label(host.names, lambda name: name.startswith(TPU_LAUNCHES)).any()
    ):
        notes.append(
            "The host ran programs on a TPU, but the file contains no TPU plane: it is truncated, or the profiler "
            "could not record the TPU."
        )
    if _SESSION in names or space.hostnames:
        return notes
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
    return notes


def _lost_launches(space: XSpace, gpus: list[Plane]) -> list[str]:
    """The note on launches of the host that no event of a GPU answers."""
    launched = host_events.calls(space).ids_of(launches)
    executed = [np.zeros(0, np.int64)]
    for plane in gpus:
        ids, has_id = plane.numbers("correlation_id")
        executed.append(ids[has_id])
    unanswered = int((~np.isin(launched, np.concatenate(executed))).sum())
    if unanswered <= _REMAINDER * len(launched):
        return []
    what = "GPU planes are absent" if gpus else "the file contains no GPU plane"
    return [
        f"{unanswered} of {len(launched)} kernels and copies that the host launched are missing ({what}): the file is "
        "truncated, or the profiler dropped them."
    ]
