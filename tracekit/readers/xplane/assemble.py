"""XSpace columns to a `Trace`: device rows, host spans, launches, device facts and notes of one file."""

from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.errors import TraceError
from tracekit.readers.xplane import completeness, cpu_plane, device_planes, hlo, launches, ops, wire, xspace
from tracekit.readers.xplane.instruction import Op
from tracekit.readers.xplane.planes import XSpace
from tracekit.trace import (
    DEVICE_COLUMNS,
    EVENT_COLUMNS,
    HOST_COLUMNS,
    LAUNCH_COLUMNS,
    SPAN_COLUMNS,
    Trace,
    concat,
    constant,
    frame,
    labelled,
)

_SPAN_STATS = ("step_num", "tracekit", "alone", "baseline", "correlation_id")
# The event stats that the reading of planes asks for.
STATS = (*cpu_plane.STATS, *device_planes.STATS, *_SPAN_STATS)
_PROGRAM_STAT = "Hlo Proto"
_YEAR_2000_NS = 946_684_800 * 10**9
_CAPTURE_MODULE = "jit_tracekit_end"


def read(path: Path) -> Trace:
    """The trace in one XSpace file. Raises TraceError if the file is broken or no XSpace."""
    try:
        space = xspace.read(path, STATS, device_planes.is_truth)
        found = trace(space, path, path.name.removesuffix(".gz").removesuffix(".xplane.pb"), "xplane")
        return replace(found, notes=(*found.notes, *completeness.missing(space)))
    except wire.Broken as broken:
        raise xspace.error(path, broken) from None


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
    lookup = _lookup(space, path)
    named = [(plane, device_planes.name(plane.name)) for plane in space.planes]
    within = device_planes.Context(
        host,
        gpus=sum((device or "").startswith("gpu") for _, device in named),
        profile_ps=completeness.profile_ps(space),
        lookup=lookup,
        calls=launches.calls(space),
    )
    rows, spans, launched, devices = [], [], [], []
    said: dict[str, list[str]] = defaultdict(list)
    for plane, device in named:
        if device:
            found, more = device_planes.read(plane, plane.start_ps(base_ns) - zero, within)
            rows.append(found)
            devices.append(device_planes.facts(host, plane))
            for note in more:
                said[note].append(device)
        if launches.of_host(plane):
            events = cpu_plane.HostEvents(plane, plane.start_ps(base_ns) - zero)
            launched.append(_launches(host, events))
            if plane.name != completeness.HOST:
                continue
            found, more = cpu_plane.read(host, events, lookup, accelerated=any(device for _, device in named))
            rows.append(found)
            notes += more
            spans.append(_spans(host, events))
    notes += [f"{', '.join(those)}: {note}" for note, those in said.items()] + device_planes.plane_notes(space)
    return Trace(
        events=_without_capture(concat(EVENT_COLUMNS, rows)),
        spans=concat(SPAN_COLUMNS, spans),
        launches=concat(LAUNCH_COLUMNS, launched),
        devices=concat(DEVICE_COLUMNS, devices),
        notes=tuple(notes),
        source=str(path),
        hosts=frame(
            HOST_COLUMNS,
            {"host": [host], "source": [str(path)], "origin_ns": [_unix_ns(space, base_ns + zero // 1000)]},
        ),
        format=form,
    )


def _without_capture(events: pd.DataFrame) -> pd.DataFrame:
    """The rows without those of the tiny program with which a capture finds out that the devices are done."""
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


def _lookup(space: XSpace, path: Path) -> ops.Lookup:
    """A look-up of (module, program id, op) in the HLO protos of `/host:metadata`, each parsed when first asked for."""
    programs: dict[str, bytes] = {}
    for plane in space.planes:
        if plane.name != completeness.METADATA:
            continue
        for metadata in map(plane.event_metadata, plane.event_ids):
            proto = metadata.stats.get(_PROGRAM_STAT)
            if isinstance(proto, bytes):
                programs[metadata.name] = proto
                # `jit_f(12)`: a TPU names the program by its id alone.
                programs.setdefault(metadata.name[metadata.name.rfind("(") :], proto)

    @cache
    def of_program(key: str) -> hlo.Program:
        return hlo.Program(programs.get(key, b""))

    def find(module: str, program: str, op: str) -> Op | None:
        key = f"{module}({program})"
        try:
            return of_program(key).op(op)
        except wire.Broken as broken:
            raise TraceError(
                f"{path} holds a broken HLO proto of {key} (byte {broken.args[0]} of it). Capture the trace once more."
            ) from None

    return find


def _spans(host: str, events: cpu_plane.HostEvents) -> pd.DataFrame:
    """The named host spans (SPAN_COLUMNS)."""
    rows = np.flatnonzero(~events.bookkeeping())
    step, has_step = events.plane.numbers("step_num")
    return frame(
        SPAN_COLUMNS,
        {
            **_named(host, events, rows),
            "step": pd.Series(step[rows], dtype="Int64").where(has_step[rows]),
            **{stat: events.plane.strings(stat)[rows] for stat in ("tracekit", "alone", "baseline")},
        },
    )


def _launches(host: str, events: cpu_plane.HostEvents) -> pd.DataFrame:
    """The host calls that carry a correlation id (LAUNCH_COLUMNS)."""
    ids, has_id = events.plane.numbers("correlation_id")
    rows = np.flatnonzero(has_id)
    return frame(LAUNCH_COLUMNS, {**_named(host, events, rows), "correlation_id": pd.Series(ids[rows], dtype="Int64")})


def _named(host: str, events: cpu_plane.HostEvents, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Where, what and when: the columns that spans and launches share."""
    return {
        "host": constant(host, len(rows)),
        "thread": labelled(ops.line_names(events.plane), events.line[rows]),
        "name": events.names[rows],
        "start_ps": events.start[rows],
        "end_ps": events.end[rows],
    }
