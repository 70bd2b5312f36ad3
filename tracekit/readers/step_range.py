"""Only some steps of what a file holds: what a report takes grows with the rows that are read, and of a long run, or of
a thousand hosts, a few steps say what all of them do.

Steps are those that spans number (`SPAN_COLUMNS`), or where none does, that are called `step 3` and the like. They are
cut where the host begins and ends them, process by process, and work belongs to the step in which it was launched,
whenever it ran: so every rank keeps the same work of the same steps, and collectives still meet.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import by_label, distinct, texts
from tracekit.errors import TraceError, TracekitError
from tracekit.intervals import Intervals
from tracekit.trace import Trace
from tracekit.vocabulary.step_names import step_name

Steps = tuple[int, int]
"""The first and the last step that are read."""

Mask = NDArray[np.bool_]
# A host, and a process of it, "" where the file does not tell; and of a host all of its processes.
_Process = tuple[str, str]
_PROCESS = ["host", "process"]


def parse(text: str) -> Steps:
    """The steps that an option names: `7`, or `7-9`. Raises TracekitError where it names none."""
    first, dash, last = text.partition("-")
    if not (first.isdecimal() and first.isascii() and (not dash or (last.isdecimal() and last.isascii()))):
        raise TracekitError(f"--only-steps {text} is no step and no range of steps: give 7, or 7-9.")
    return checked((int(first), int(last or first)))


def checked(steps: Steps) -> Steps:
    """The steps, where there may be such; raises TracekitError otherwise."""
    first, last = steps
    if not 0 <= first <= last:
        raise TracekitError(f"Steps {first} to {last} are none: give the first and the last of them, from 0 on.")
    return steps


def named(steps: Steps) -> str:
    """`step 7`, or `steps 7 to 9`."""
    return f"step {steps[0]}" if steps[0] == steps[1] else f"steps {steps[0]} to {steps[1]}"


def only(trace: Trace, path: Path, steps: Steps) -> Trace:
    """What `trace`, of the file at `path`, holds of `steps`: the calls that began in them, the work that such calls
    launched, or that began in them where no call is known, and the spans that reach into them.

    Raises TraceError where the file numbers no step, or none of these.
    """
    spans = trace.spans
    number = _numbers(spans)
    is_step = number >= 0
    chosen = (number >= steps[0]) & (number <= steps[1])
    if not chosen.any():
        if not is_step.any():
            raise TraceError(
                f"{path} numbers no steps, so {named(steps)} cannot be told from others: read all of it, or number "
                "them (docs/training.md)."
            )
        raise TraceError(
            f"{path} has no {named(steps)}: it numbers steps {number[is_step].min()} to {number[is_step].max()}."
        )
    windows = _windows(spans[is_step], chosen[is_step])
    launches, kept = trace.launches, _begin_inside(trace.launches, windows)
    frames = {
        name: getattr(trace, name)[_begin_inside(getattr(trace, name), windows)] for name in ("host_work", "syncs")
    }
    frames["launches"] = launches[kept]
    frames["events"] = trace.events[_launched_inside(trace.events, launches, kept, windows)]
    frames["spans"] = spans[chosen | (~is_step & _reach_inside(spans, windows))]
    memory = trace.memory
    frames["memory"] = memory[_inside(memory, memory["time_ps"].to_numpy(), windows)]
    return trace.changed(**{name: table.reset_index(drop=True) for name, table in frames.items()})


def _numbers(spans: pd.DataFrame) -> NDArray[np.int64]:
    """The number of the step that each span is, -1 of others: its own, or where none has one, that of its name."""
    number = spans["step"].to_numpy(np.int64, na_value=-1)
    if (number >= 0).any():
        return number
    names = by_label(spans["name"].array, _number_of, -1).astype(np.int64)
    return np.where(spans["tracekit"].isna().to_numpy(bool), names, -1)


def _number_of(name: str) -> int:
    said = step_name(name)
    return -1 if said is None or said.part else said.number


def _windows(spans: pd.DataFrame, chosen: Mask) -> dict[_Process, Intervals]:
    """From when to when each process was in the `chosen` of its numbered `spans`, and of a host all of its processes.

    Time between two of them belongs to them, unless another step begins there.
    """
    windows: dict[_Process, list[Intervals]] = {}
    process, first = distinct(*(spans[name].cat.codes.to_numpy(np.int64) for name in _PROCESS))
    start, end = spans["start_ps"].to_numpy(), spans["end_ps"].to_numpy()
    for code, key in enumerate(_processes(spans.iloc[first])):
        mine = np.flatnonzero(process == code)
        mine = mine[np.argsort(start[mine], kind="stable")]
        edges = np.flatnonzero(np.diff(chosen[mine], prepend=not chosen[mine[0]]))
        for run in np.split(mine, edges[1:]):
            if chosen[run[0]]:
                window = iv.intervals(start[run[:1]], end[run].max(keepdims=True))
                windows.setdefault(key, []).append(window)
                windows.setdefault((key[0], ""), []).append(window)
    return {key: iv.union(np.concatenate(of)) for key, of in windows.items()}


def _processes(table: pd.DataFrame) -> list[_Process]:
    """The host and the process of each row."""
    columns = [[*texts(table[name].array)] if name in table else [""] * len(table) for name in _PROCESS]
    return [(str(host), str(process or "")) for host, process in zip(*columns, strict=True)]


def _begin_inside(table: pd.DataFrame, windows: dict[_Process, Intervals]) -> Mask:
    """Which calls begin inside the windows of their process, or of their host where that numbers no steps."""
    return _inside(table, table["start_ps"].to_numpy(), windows)


def _inside(table: pd.DataFrame, time: NDArray[np.int64], windows: dict[_Process, Intervals]) -> Mask:
    """Which rows of a table with hosts, and processes if it has them, have a time inside their windows."""
    inside = np.zeros(len(table), bool)
    for rows, of in _by_process(table, windows):
        at = np.searchsorted(of[:, 0], time[rows], side="right") - 1
        inside[rows] = (at >= 0) & (time[rows] < of[at, 1])
    return inside


def _reach_inside(spans: pd.DataFrame, windows: dict[_Process, Intervals]) -> Mask:
    """Which spans overlap with the windows of their process."""
    start, end, inside = spans["start_ps"].to_numpy(), spans["end_ps"].to_numpy(), np.zeros(len(spans), bool)
    for rows, of in _by_process(spans, windows):
        at = np.searchsorted(of[:, 1], start[rows], side="right")
        inside[rows] = (at < len(of)) & (np.append(of[:, 0], 0)[at] < np.maximum(end[rows], start[rows] + 1))
    return inside


def _by_process(table: pd.DataFrame, windows: dict[_Process, Intervals]) -> list[tuple[NDArray[np.int64], Intervals]]:
    """The rows of each process that has windows, and these."""
    if not len(table):
        return []
    process, first = distinct(*(table[name].cat.codes.to_numpy(np.int64) for name in _PROCESS if name in table))
    found = []
    for code, (host, name) in enumerate(_processes(table.iloc[first])):
        of = windows.get((host, name), windows.get((host, "")))
        if of is not None:
            found.append((np.flatnonzero(process == code), of))
    return found


def _launched_inside(
    events: pd.DataFrame, launches: pd.DataFrame, kept: Mask, windows: dict[_Process, Intervals]
) -> Mask:
    """Which device rows were launched by calls that are `kept`, or began inside the windows of their host where no call
    is known, or several of one id, of which some are kept."""
    key = _call_keys(events, launches)
    row, call = key[: len(events)], key[len(events) :]
    is_kept, is_left = (np.isin(row, call[mask]) & (row >= 0) for mask in (kept, ~kept))
    inside = _inside(events[["host"]], events["start_ps"].to_numpy(), windows)
    return np.where(is_kept != is_left, is_kept, inside)


def _call_keys(events: pd.DataFrame, launches: pd.DataFrame) -> NDArray[np.int64]:
    """One number for each host and correlation id, of the rows and then of the calls, (n + c,); -1 without an id."""
    both = pd.concat([events[["host", "correlation_id"]], launches[["host", "correlation_id"]]], ignore_index=True)
    ids = both["correlation_id"]
    key, _ = distinct(pd.factorize(both["host"])[0].astype(np.int64), ids.to_numpy(np.int64, na_value=0))
    return np.where(ids.isna().to_numpy(bool), -1, key)
