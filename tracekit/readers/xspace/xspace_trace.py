"""XSpace columns to a `Trace`: device rows, host spans, launches, device facts and notes of one file."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pandas as pd

from tracekit.columns import concat, frame
from tracekit.devices import type_of
from tracekit.errors import TraceError
from tracekit.readers import protobuf_decoder as protobuf
from tracekit.readers.xspace import (
    completeness,
    cpu_plane,
    device_planes,
    host_events,
    host_tables,
    tpu_launches,
    xspace_file,
)
from tracekit.readers.xspace.device_planes import Context
from tracekit.readers.xspace.host_events import HostEvents
from tracekit.readers.xspace.plane_ops import DeviceRows
from tracekit.readers.xspace.planes import Plane, XSpace
from tracekit.readers.xspace.programs import programs, with_operations
from tracekit.trace import DEVICE_COLUMNS, HOST_COLUMNS, LAUNCH_COLUMNS, SPAN_COLUMNS, SYNC_COLUMNS, Trace

_SPAN_STATS = ("step_num", "tracekit", "alone", "baseline", "correlation_id")
# The event stats that the reading of planes asks for.
STATS = (*cpu_plane.STATS, *device_planes.STATS, *tpu_launches.STATS, *host_tables.STATS, *_SPAN_STATS)
_YEAR_2000_NS = 946_684_800 * 10**9
_CAPTURE_MODULE = "jit_tracekit_end"


def read(path: Path) -> Trace:
    """The trace in one XSpace file. Raises TraceError if the file is corrupt or not an XSpace."""
    try:
        space = xspace_file.read(path, STATS, device_planes.is_truth)
        content = trace(space, path, path.name.removesuffix(".gz").removesuffix(".xplane.pb"), "xplane")
        return replace(content, notes=(*content.notes, *completeness.missing(space)))
    except protobuf.Broken as broken:
        raise xspace_file.error(path, broken) from None


def trace(space: XSpace, path: Path, host: str, form: str) -> Trace:
    """The trace that the planes of `space`, read from `path`, hold; `form` names the format for `Trace.format`.

    Raises TraceError if they hold two sessions, clocks too far apart for one time axis, or a corrupt HLO proto.
    """
    if sum(plane.name == completeness.SESSION for plane in space.planes) > 1:
        raise TraceError(
            f"{path} contains more than one profiler session ({completeness.SESSION} occurs twice): files were "
            "concatenated. Give one file per session."
        )
    base_ns, zero = _origin(space, path)
    unix_ns = _unix_ns(space, base_ns + zero // 1000)
    of_file = programs(space, path)
    hosts = [HostEvents(plane, plane.start_ps(base_ns) - zero) for plane in space.planes if host_events.is_host(plane)]
    threads = [events for events in hosts if events.plane.name == completeness.HOST]
    calls = host_events.calls(space)
    first_id = _free_id(calls, unix_ns)
    devices = [(plane, device) for plane in space.planes if (device := device_planes.name(plane.name))]
    context = Context(
        host,
        gpus=sum(type_of(device) == "gpu" for _, device in devices),
        profile_ps=completeness.profile_ps(space),
        lookup=of_file.op,
        calls=calls,
        program_launches=tpu_launches.program_launches(host, hosts, first_id),
    )
    read_devices, device_notes = _devices(devices, base_ns, zero, context)
    free_id = first_id + len(context.program_launches.launches)
    read_threads = [cpu_plane.read(host, events, of_file.op, bool(devices), free_id) for events in threads]
    tables = [_without_capture(read_rows.events) for read_rows in (*read_devices, *read_threads)]
    events, ops, operands = with_operations(
        tables, [read_rows.operations for read_rows in (*read_devices, *read_threads)], of_file
    )
    numbered = [context.program_launches.launches, *(read_rows.launches for read_rows in read_threads)]
    waited = device_planes.waits(space)
    return Trace(
        events=events,
        ops=ops,
        operands=operands,
        spans=concat(SPAN_COLUMNS, [host_tables.spans(host, events) for events in threads]),
        launches=concat(
            LAUNCH_COLUMNS, [*(host_tables.launches(host, each) for each in hosts), *_with_rows(numbered, events)]
        ),
        syncs=concat(SYNC_COLUMNS, [host_tables.waits(host, each, waited) for each in hosts]),
        devices=concat(DEVICE_COLUMNS, [device_planes.facts(host, plane) for plane, _ in devices]),
        notes=(
            *(f"Profiler error: {text}" for text in space.errors),
            *(f"Profiler warning: {text}" for text in space.warnings),
            *(note for read_rows in read_threads for note in read_rows.notes),
            *device_notes,
            *device_planes.plane_notes(space),
        ),
        source=str(path),
        hosts=frame(HOST_COLUMNS, {"host": [host], "source": [str(path)], "origin_ns": [unix_ns]}),
        format=form,
    )


def _devices(
    devices: list[tuple[Plane, str]], base_ns: int, zero: int, context: Context
) -> tuple[list[DeviceRows], list[str]]:
    """The rows of each plane of a device, and the notes on them, each with the names of the devices that it is of."""
    read_devices = [device_planes.read(plane, plane.start_ps(base_ns) - zero, context) for plane, _ in devices]
    of_note: dict[str, list[str]] = defaultdict(list)
    for (_, device), read_rows in zip(devices, read_devices, strict=True):
        for note in read_rows.notes:
            of_note[note].append(device)
    return read_devices, [f"{', '.join(names)}: {note}" for note, names in of_note.items()]


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
    started = completeness.started_ns(space)
    return None if started is None or started < _YEAR_2000_NS else started + time_ns


def _free_id(calls: host_events.Calls, unix_ns: int | None) -> int:
    """The first of the ids that no call has.

    It is the microsecond at which the file begins, if that is known: windows of one process, read from several files,
    then share no ids, since a call takes longer than that.
    """
    return max(calls.highest + 1, (unix_ns or 0) // 1000)
