"""XSpace columns to a `Trace`: device rows, host spans, launches, device facts and notes of one file."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.errors import TraceError
from tracekit.readers import hlo, ops, wire, xplane_cpu, xplane_device, xspace
from tracekit.readers.planes import XSpace
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

_HOST = "/host:CPU"
_METADATA = "/host:metadata"
_SESSION = "Task Environment"  # written once a session
_SPAN_STATS = ("step_num", "tracekit", "alone", "baseline", "correlation_id")
# The event stats that the reading of planes asks for.
STATS = (*xplane_cpu.STATS, *xplane_device.STATS, *_SPAN_STATS)
_PROGRAM_STAT = "Hlo Proto"
_YEAR_2000_NS = 946_684_800 * 10**9
_CAPTURE_MODULE = "jit_tracekit_end"


def read(path: Path) -> Trace:
    """The trace in one XSpace file. Raises TraceError if the file is broken or no XSpace."""
    try:
        space = xspace.read(path, STATS, xplane_device.is_truth)
        return trace(space, path, path.name.removesuffix(".gz").removesuffix(".xplane.pb"), "xplane")
    except wire.Broken as broken:
        raise xspace.error(path, broken) from None


def trace(space: XSpace, path: Path, host: str, form: str) -> Trace:
    """The trace that the planes of `space`, read from `path`, hold; `form` names the format for `Trace.format`.

    Raises TraceError if they hold two sessions, clocks that no one time axis holds, or a broken HLO proto.
    """
    if sum(plane.name == _SESSION for plane in space.planes) > 1:
        raise TraceError(
            f"{path} holds more than one profiler session ({_SESSION} stands in it twice): files were joined. "
            "Give one file for each session."
        )
    notes = [f"The profiler wrote an error: {text}" for text in space.errors]
    notes += [f"The profiler wrote a warning: {text}" for text in space.warnings]
    base_ns, zero = _origin(space, path)
    opcode = _opcodes(space, path)
    accelerated = any(xplane_device.name(plane.name) for plane in space.planes)
    rows, spans, launches, devices = [], [], [], []
    for plane in space.planes:
        if xplane_device.name(plane.name):
            found, more = xplane_device.read(
                host, plane, plane.start_ps(base_ns) - zero if len(plane) else None, opcode
            )
            rows.append(found)
            devices.append(xplane_device.facts(host, plane))
            notes += more
        if plane.name == _HOST and len(plane):
            events = xplane_cpu.HostEvents(plane, plane.start_ps(base_ns) - zero)
            found, more = xplane_cpu.read(host, events, opcode, accelerated)
            rows.append(found)
            notes += more
            spans.append(_spans(host, events))
            launches.append(_launches(host, events))
    notes += xplane_device.plane_notes(space)
    return Trace(
        events=_without_capture(concat(EVENT_COLUMNS, rows)),
        spans=concat(SPAN_COLUMNS, spans),
        launches=concat(LAUNCH_COLUMNS, launches),
        devices=concat(DEVICE_COLUMNS, devices),
        notes=tuple(notes),
        source=str(path),
        hosts=frame(
            HOST_COLUMNS, {"host": [host], "source": [str(path)], "origin_ns": [_unix_ns(base_ns + zero // 1000)]}
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


def _unix_ns(time_ns: int) -> int | None:
    """`time_ns` if it is a Unix time; some profilers count from their own start."""
    return time_ns if time_ns > _YEAR_2000_NS else None


def _opcodes(space: XSpace, path: Path) -> ops.Opcode:
    """A look-up of (module, program id, op) in the HLO protos of `/host:metadata`, each parsed when first asked for."""
    programs = {
        metadata.name: metadata.stats[_PROGRAM_STAT]
        for plane in space.planes
        if plane.name == _METADATA
        for metadata in map(plane.event_metadata, plane.event_ids)
        if isinstance(metadata.stats.get(_PROGRAM_STAT), bytes)
    }

    @cache
    def of_program(key: str) -> dict[str, str]:
        try:
            return hlo.opcodes(programs.get(key, b""))
        except wire.Broken as broken:
            raise TraceError(
                f"{path} holds a broken HLO proto of {key} (byte {broken.args[0]} of it). Capture the trace once more."
            ) from None

    return lambda module, program, op: of_program(f"{module}({program})").get(op)


def _spans(host: str, events: xplane_cpu.HostEvents) -> pd.DataFrame:
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


def _launches(host: str, events: xplane_cpu.HostEvents) -> pd.DataFrame:
    """The host calls that carry a correlation id (LAUNCH_COLUMNS)."""
    ids, has_id = events.plane.numbers("correlation_id")
    rows = np.flatnonzero(has_id)
    return frame(LAUNCH_COLUMNS, {**_named(host, events, rows), "correlation_id": pd.Series(ids[rows], dtype="Int64")})


def _named(host: str, events: xplane_cpu.HostEvents, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Where, what and when: the columns that spans and launches share."""
    return {
        "host": constant(host, len(rows)),
        "thread": labelled(ops.line_names(events.plane), events.line[rows]),
        "name": events.names[rows],
        "start_ps": events.start[rows],
        "end_ps": events.end[rows],
    }
