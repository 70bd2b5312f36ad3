"""A trace with the rows of its devices on the clock of their host."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tracekit.columns import frame, records
from tracekit.devices import type_of
from tracekit.readers.device_clocks.clock_line import TOLERANCE_PS, ClockLine, Limits, clock_line, late_start
from tracekit.readers.device_clocks.trace_limits import limits_of
from tracekit.trace import DEVICE_COLUMNS, Trace
from tracekit.units import exact, ppm

# So many devices have a note of their own, others share one.
_NAMED = 4


def fit(trace: Trace) -> Trace:
    """`trace`, of one file, with the rows of each GPU on the clock of its host, and with what was found out of it.

    Rows whose launches or waits cannot be true as the times stand are shifted to where they are (`clock_line`). Columns
    of `devices` and a note say by how much, or, with `clock_error`, that no shift makes them true. A device whose times
    are possible stays as it is, to the picosecond. Of a TPU no wait is known, nor how long its launches take at least:
    its times stay, and `clock_error` says where they cannot be true.
    """
    limits = limits_of(trace)
    lines = {device: _line(each) for device, each in limits.items() if type_of(device) == "gpu"}
    errors = {device: _contradiction(line) for device, line in lines.items() if line.shift_ps is None}
    errors |= {device: error for device in lines if (error := _late(limits[device][0]))}
    errors |= {device: error for device, each in limits.items() if device not in lines and (error := _ahead(each[0]))}
    if not lines and not errors:
        return trace
    trace = trace.changed(devices=_devices(trace, lines, errors), notes=(*trace.notes, *_notes(lines)))
    shifted = {device: line for device, line in lines.items() if not line.is_identity}
    return _on_one_axis(trace.changed(events=_shift(trace.events, shifted))) if shifted else trace


def _line(limits: Sequence[Limits]) -> ClockLine:
    """The line between the limits; where the inferred ones contradict, the proven ones count alone."""
    lines = (clock_line(some) for some in limits)
    line = next(lines)
    return line if line.shift_ps is not None else next(lines, line)


def _ahead(limits: Limits) -> str:
    """Why the times of a device whose launches alone limit them cannot be compared with its host's, "" if they can."""
    by = int(limits.least.max(initial=0))
    if by <= TOLERANCE_PS:
        return ""
    count = int((limits.least > TOLERANCE_PS).sum())
    return f"{count} of {len(limits.least)} rows start before their launch, by up to {exact(by // 1000 * 1000)}"


def _late(limits: Limits) -> str:
    """Why the times of a device without waits cannot be compared with its host's, "" if nothing tells that."""
    by = late_start(limits)
    if by is None:
        return ""
    by_text = exact(by // 1000 * 1000)
    return f"rows that find the device idle all start {by_text} or more after their launch, which no launch takes"


def _shift(events: pd.DataFrame, lines: Mapping[str, ClockLine]) -> pd.DataFrame:
    """The rows with the times of each of the devices shifted."""
    codes = events["device"].cat.codes.to_numpy()
    times = {column: events[column].to_numpy().copy() for column in ("start_ps", "end_ps")}
    for device, line in lines.items():
        rows = np.flatnonzero(codes == events["device"].cat.categories.get_loc(device))
        for column in times.values():
            column[rows] += line.added(column[rows])
    return events.assign(**times)


def _on_one_axis(trace: Trace) -> Trace:
    """The trace with its earliest event in the first nanosecond of the axis."""
    frames = {name: table for name, table in vars(trace).items() if isinstance(table, pd.DataFrame)}
    tables: dict[str, Any] = {name: table for name, table in frames.items() if "start_ps" in table}
    zero_ns = min(int(table["start_ps"].min()) for table in tables.values() if len(table)) // 1000
    times = ("start_ps", "end_ps", "recorded_ps")
    tables = {
        name: table.assign(**{column: table[column] - zero_ns * 1000 for column in times if column in table})
        for name, table in tables.items()
    }
    return trace.changed(**tables, hosts=trace.hosts.assign(origin_ns=trace.hosts["origin_ns"] + zero_ns))


def _devices(trace: Trace, lines: Mapping[str, ClockLine], errors: Mapping[str, str]) -> pd.DataFrame:
    """Trace.devices with what was found out of each clock; devices that it does not list are added."""
    host = str(trace.events["host"].iat[0])
    rows = {str(row["device"]): row for row in records(trace.devices)}
    for name in (*lines, *errors):
        rows.setdefault(name, dict.fromkeys(DEVICE_COLUMNS) | {"host": host, "device": name})
    for name, row in rows.items():
        row["host"] = row["host"] or host
        if line := lines.get(name):
            has_clock = name not in errors
            row["shift_ps"] = line.shift_ps if has_clock else None
            # What is added to the times of a clock that runs fast shrinks.
            row["drift_ppm"] = (-line.drift * 1e6 or 0.0) if has_clock else None
        row["clock_error"] = errors.get(name)
    return frame(DEVICE_COLUMNS, [[*row.values()] for row in rows.values()])


def _notes(lines: Mapping[str, ClockLine]) -> list[str]:
    """What was found out, of the devices whose times could not be true."""
    notes = []
    wrong = [(name, line) for name, line in lines.items() if line.launches[1] or line.waits[1]]
    groups = {
        "shifted": [each for each in wrong if not each[1].is_identity],
        "refused": [each for each in wrong if each[1].shift_ps is None],
        "by chance": [each for each in wrong if each[1].shift_ps is not None and each[1].is_identity],
    }
    for group, sentence in zip(groups.values(), (_shifted_note, _refused_note, _chance_note), strict=True):
        notes += [f"{name}: {sentence(line)}" for name, line in group[:_NAMED]]
        if more := group[_NAMED:]:
            name, line = max(more, key=lambda each: abs(each[1].shift_ps or 0))
            notes.append(f"{len(more)} further devices alike, of which {name}: {sentence(line)}")
    return notes


def _violations(line: ClockLine) -> str:
    """What cannot be: which share of launches and waits is violated."""
    parts = []
    if line.launches[1]:
        parts.append(f"{line.launches[1]} of {line.launches[0]} rows start before their launch")
    if line.waits[1]:
        parts.append(f"{line.waits[1]} of {line.waits[0]} waits return before what they wait for has ended")
    return " and ".join(parts)


def _shifted_note(line: ClockLine) -> str:
    shift = line.shift_ps or 0
    drift = f", and it runs {ppm(abs(line.drift) * 1e6)} {'slow' if line.drift > 0 else 'fast'}" if line.drift else ""
    evidence = f"{line.launches[0]} launches" + (f" and {line.waits[0]} waits" if line.waits[0] else "")
    least, most = (
        None if limit is None else f"{'+' if limit > 0 else ''}{exact(limit)}"
        for limit in (line.least_ps, line.most_ps)
    )
    if least is None or most is None:
        bounds, side = (f"at least {least}", "launch") if most is None else (f"at most {most}", "wait")
        bounds += f"; the least latency of a {side} is taken to be 5 µs"
    else:
        bounds = f"{least} to {most}"
    return (
        f"its clock is {exact(abs(shift))} {'ahead of' if shift < 0 else 'behind'} the host's, since "
        f"{_violations(line)}{drift}: its times were shifted by {'+' if shift > 0 else ''}{exact(shift)}"
        f"{' in the middle of its rows' if drift else ''} ({evidence} allow {bounds})."
    )


def _refused_note(line: ClockLine) -> str:
    return f"{_contradiction(line)}: its times cannot be compared with the host's."


def _contradiction(line: ClockLine) -> str:
    """Why times cannot be compared."""
    return f"{_violations(line)}, and no offset or drift of its clock explains it"


def _chance_note(line: ClockLine) -> str:
    return f"{_violations(line)}: too few to tell that its clock is off, and nothing was shifted."
