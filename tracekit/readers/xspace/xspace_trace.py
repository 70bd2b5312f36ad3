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
from tracekit.readers.xspace import programs as found_programs
from tracekit.readers.xspace.host_events import HostEvents
from tracekit.readers.xspace.planes import XSpace
from tracekit.trace import DEVICE_COLUMNS, HOST_COLUMNS, LAUNCH_COLUMNS, SPAN_COLUMNS, SYNC_COLUMNS, Trace

_SPAN_STATS = ("step_num", "tracekit", "alone", "baseline", "correlation_id")
# The event stats that the reading of planes asks for.
STATS = (*cpu_plane.STATS, *device_planes.STATS, *tpu_launches.STATS, *host_tables.STATS, *_SPAN_STATS)
_YEAR_2000_NS = 946_684_800 * 10**9
_CAPTURE_MODULE = "jit_tracekit_end"


def read(path: Path) -> Trace:
    """The trace in one XSpace file. Raises TraceError if the file is broken or no XSpace."""
    try:
        space = xspace_file.read(path, STATS, device_planes.is_truth)
        found = trace(space, path, path.name.removesuffix(".gz").removesuffix(".xplane.pb"), "xplane")
        return replace(found, notes=(*found.notes, *completeness.missing(space)))
    except protobuf.Broken as broken:
        raise xspace_file.error(path, broken) from None


def trace(space: XSpace, path: Path, host: str, form: str) -> Trace:
    """The trace that the planes of `space`, read from `path`, hold; `form` names the format for `Trace.format`.

    Raises TraceError if they hold two sessions, clocks that no one time axis holds, or a broken HLO proto.
    """
    if sum(plane.name == completeness.SESSION for plane in space.planes) > 1:
        raise TraceError(
            f"{path} holds more than one profiler session ({completeness.SESSION} stands in it twice): files were "
            "joined. Give one file for each session."
        )
    notes = [f"The profiler wrote an error: {text}" for text in space.errors]
    notes += [f"The profiler wrote a warning: {text}" for text in space.warnings]
    base_ns, zero = _origin(space, path)
    unix_ns = _unix_ns(space, base_ns + zero // 1000)
    programs = found_programs.held(space, path)
    named = [(plane, device_planes.name(plane.name)) for plane in space.planes]
    hosts = [HostEvents(plane, plane.start_ps(base_ns) - zero) for plane in space.planes if host_events.of_host(plane)]
    calls = host_events.calls(space)
    first_id = _free_id(calls, unix_ns)
    within = device_planes.Context(
        host,
        gpus=sum(type_of(device or "") == "gpu" for _, device in named),
        profile_ps=completeness.profile_ps(space),
        lookup=programs.op,
        calls=calls,
        enqueued=tpu_launches.enqueued(host, hosts, first_id),
    )
    rows, operations = [], []
    said: dict[str, list[str]] = defaultdict(list)
    for plane, device in named:
        if device:
            found, of_rows, more = device_planes.read(plane, plane.start_ps(base_ns) - zero, within)
            rows.append(found)
            operations.append(of_rows)
            for note in more:
                said[note].append(device)
    started = [within.enqueued.launches]
    threads = [events for events in hosts if events.plane.name == completeness.HOST]
    for events in threads:
        free = first_id + len(within.enqueued.launches)
        work = cpu_plane.read(host, events, programs.op, any(device for _, device in named), free)
        rows.append(work.events)
        operations.append(work.operations)
        started.append(work.launches)
        notes += work.notes
    notes += [f"{', '.join(those)}: {note}" for note, those in said.items()] + device_planes.plane_notes(space)
    done, ops, operands = found_programs.joined([_without_capture(one) for one in rows], operations, programs)
    on = device_planes.waited(space)
    return Trace(
        events=done,
        ops=ops,
        operands=operands,
        spans=concat(SPAN_COLUMNS, [host_tables.spans(host, events) for events in threads]),
        launches=concat(
            LAUNCH_COLUMNS, [*(host_tables.launches(host, events) for events in hosts), *_of(done, started)]
        ),
        syncs=concat(SYNC_COLUMNS, [host_tables.waits(host, events, on) for events in hosts]),
        devices=concat(DEVICE_COLUMNS, [device_planes.facts(host, plane) for plane, device in named if device]),
        notes=tuple(notes),
        source=str(path),
        hosts=frame(HOST_COLUMNS, {"host": [host], "source": [str(path)], "origin_ns": [unix_ns]}),
        format=form,
    )


def _of(events: pd.DataFrame, started: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """Of the launches that were given an id here, those that have rows."""
    return [one[one["correlation_id"].isin(events["correlation_id"])].reset_index(drop=True) for one in started]


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
            f"{path} mixes clocks that lie {max(stamps) - base_ns} ns apart; no one time axis holds them. "
            "Capture the trace once more, or read its hosts apart."
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
