"""How far tracekit's answers on a trace are from the truth of its job."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

import tracekit
from tests.simulator.job import DEVICE_SORTS, Part, Sort
from tests.simulator.simulate import Recording
from tests.simulator.truth import Idle, Piece, Truth, Window
from tracekit.analysis.critical_path.critical_path import CriticalPath, critical_path
from tracekit.analysis.idle import Cause, idle
from tracekit.analysis.steps import steps
from tracekit.timeline.timeline import Timeline, timeline_of

# What tracekit may call each part. A wake is the end of a wait, so it may count as the host's call.
_NAMES = {
    Part.COMPUTE: "compute",
    Part.TRANSFER: "collective transfer",
    Part.MEMCPY: "memcpy",
    Part.MEMSET: "memset",
    Part.WORK: "host",
    Part.CALL: "host",
    Part.WAKE: "host",
    Part.LATENCY: "launch latency",
    Part.GAP: "queue gap",
}
_SAME = {"host work": "host", "host launch": "host", "sync wake": "host"}
# Of which it is told that it was of the host, and that no record says what it did.
_UNRECORDED = "host, nothing recorded"
# What Nsight Systems calls what has no name of its own.
_NSYS_NAMES = {
    "CUDA memcpy Host-to-Device (Pinned to Device)": "Memcpy HtoD (Pinned -> Device)",
    "CUDA memcpy Device-to-Host (Device to Pageable)": "Memcpy DtoH (Device -> Pageable)",
    "CUDA memset": "Memset (Device)",
}


@dataclass(frozen=True)
class Errors:
    """What was wrong, ratios in 0..1, null where there is no answer.

    `composition`: the largest absolute difference of a class's share of the critical paths of the steps, and `of_class`
    which; `joined`: the same if all time of the host is one class, whether a record says what it did or not; `claimed`:
    by how much a class was told too large, unexplained and not recorded time aside; `as_one`: the `joined` difference
    if the truth is one path through all steps, which where the host runs ahead may be another.
    `what_if`: by what and name, predicted ratio less true ratio; `refused` of `asked` what-ifs had no prediction.
    `idle`: the share of idle time with a wrong cause, `idle_wrong` the longest of it by true and told cause.
    `steps`: whether tracekit found the job's steps; `wall`: the largest error of a counted step's length.
    `clock_ns`: how far a device's first start or last end is off against the first launch, null where clocks are left
    apart.
    """

    composition: float | None
    of_class: str
    joined: float | None
    claimed: float | None
    as_one: float | None
    what_if: dict[str, float]
    refused: int
    asked: int
    idle: float | None
    idle_wrong: dict[tuple[str, str], int]
    steps: bool
    wall: float | None
    clock_ns: float | None
    lines: list[str] = field(default_factory=list)


def compare(truth: Truth, path: Path) -> Errors:
    """Ask tracekit of the trace in `path`, and hold its answers against the truth."""
    timeline = timeline_of(tracekit.read(path))
    table = steps(timeline).table
    answer = critical_path(timeline, table)
    true_steps = truth.steps()
    numbers = _numbers(answer.steps, len(true_steps))
    window = _window(truth, numbers)
    lines: list[str] = []
    shares, told = _shares(truth, [true_steps[number] for number in numbers] or [window]), _told(answer)
    as_one = _shares(truth, [window])
    differences = _differences(told, shares)
    joined = {**told, "host": told.get("host", 0.0) + told.get(_UNRECORDED, 0.0)}
    joined.pop(_UNRECORDED, None)
    worst = max(differences, key=lambda name: abs(differences[name]), default="")
    lines += [f"  path over steps {numbers[:1]}..{numbers[-1:]}, {window[1] - window[0]:,} ns:"]
    lines += [
        f"    {name:22} true {shares.get(name, 0):7.2%}  told {told.get(name, 0):7.2%}  (of one path through all: "
        f"{as_one.get(name, 0):.2%})"
        for name in sorted({*differences, *as_one})
    ]
    what_if, refused = {}, 0
    for what, name, told_ratio, reason in records(answer.what_if, "what", "name", "ratio", "reason"):
        ratio = truth.what_if(window, what, _NSYS_NAMES.get(name, name))
        lines.append(f"    without {name or what:38.38} true {ratio:7.4f}  told {told_ratio or reason}")
        if told_ratio is None:
            refused += 1
        else:
            what_if[name or what] = told_ratio - ratio
    wrong, total, wrong_by = _idle(truth, timeline)
    lines += [
        f"    idle {true:26.26} told {cause:30.30} {ns:,} ns"
        for (true, cause), ns in sorted(wrong_by.items(), key=lambda entry: -entry[1])
    ]
    return Errors(
        abs(differences[worst]) if worst else None,
        worst,
        max(map(abs, _differences(joined, shares).values()), default=None),
        max((error for name, error in differences.items() if name not in ("unexplained", _UNRECORDED)), default=None),
        max(map(abs, _differences(joined, as_one).values()), default=None),
        what_if,
        refused,
        len(answer.what_if),
        wrong / total if total else None,
        wrong_by,
        table["step"].tolist() == list(range(len(true_steps))),
        _wall(answer.steps, true_steps, numbers),
        _clock(truth, timeline),
        lines,
    )


def records(table: pd.DataFrame, *columns: str) -> list[list[Any]]:
    """Some columns of a table by row, null as None."""
    cells = table[list(columns)].astype(object)
    return cells.where(cells.notna(), None).to_numpy().tolist()


def _numbers(counted: pd.DataFrame, steps_: int) -> list[int]:
    """The job's steps that tracekit counts."""
    return [int(step) for step in counted["step"].dropna() if 0 <= int(step) < steps_]


def _window(truth: Truth, numbers: list[int]) -> Window:
    """From the end of the step before the first to the end of the last; that of the devices, if none is counted."""
    if not numbers:
        return truth.devices()
    windows = truth.steps()
    return windows[min(numbers)][0], windows[max(numbers)][1]


def _wall(counted: pd.DataFrame, windows: list[Window], numbers: list[int]) -> float | None:
    """The largest error of a step's length; the first step's begin is a matter of what is in the file."""
    if counted["step"].isna().any():
        return None
    walls = dict(zip(numbers, counted["wall_ps"].tolist(), strict=False))
    errors = [
        abs(wall / 1000 / (windows[step][1] - windows[step][0]) - 1)
        for step, wall in walls.items()
        if step and windows[step][1] > windows[step][0]
    ]
    return max(errors, default=None)


def _clock(truth: Truth, timeline: Timeline) -> float | None:
    """The largest error of a device's clock."""
    if len(set(timeline.rows.clocks)) > 1:
        return None
    events, rows = timeline.trace.events, truth.job.rows
    ranks = {str(device): _rank(str(device)) for device in events["device"].cat.categories}
    calls = (Sort.LAUNCH, Sort.RECORD, Sort.HOLD, Sort.SYNC)
    first = min(truth.recording.times(row)[0] for row in rows if row.sort in calls and row.rank in ranks.values())
    late = int(timeline.trace.launches["start_ps"].min()) / 1000 - first
    errors = []
    for device, rank in ranks.items():
        told = events[events["device"] == device]
        times = [truth.recording.times(row) for row in rows if row.rank == rank and row.sort in DEVICE_SORTS]
        errors.append(int(told["start_ps"].min()) / 1000 - min(start for start, _ in times) - late)
        errors.append(int(told["end_ps"].max()) / 1000 - max(end for _, end in times) - late)
    return max(map(abs, errors))


def _rank(device: str) -> int:
    """The rank whose device this is: their numbers are the same."""
    return int(re.findall(r"\d+", device)[-1])


def _shares(truth: Truth, windows: list[Window]) -> dict[str, float]:
    """The true shares of the windows' paths by the names that tracekit uses.

    The call that launches what comes is part of its latency.
    """
    shares: dict[str, float] = {}
    total = sum(end - start for start, end in windows)
    for path in map(truth.path, windows):
        for piece, later in zip(path, [None, *path], strict=False):
            launches = piece.part == Part.CALL and later is not None and later.part == Part.LATENCY
            name = _NAMES[Part.LATENCY if launches else piece.part]
            shares[name] = shares.get(name, 0.0) + (piece.end - piece.start) / total
    return shares


def _differences(told: dict[str, float], shares: dict[str, float]) -> dict[str, float]:
    return {name: told.get(name, 0.0) - shares.get(name, 0.0) for name in {*told, *shares}}


def _told(answer: CriticalPath) -> dict[str, float]:
    """The shares that tracekit tells."""
    told: dict[str, float] = {}
    for part, ratio in records(answer.total, "part", "ratio"):
        name = _SAME.get(part, part)
        told[name] = told.get(name, 0.0) + ratio
    return told


def _idle(truth: Truth, timeline: Timeline) -> tuple[int, int, dict[tuple[str, str], int]]:
    """Wrong and total idle time in ns, and the wrong by true and told cause.

    Devices are matched by their number, and their times on the first start of each, as clocks may differ.
    """
    gaps, events = idle(timeline).gaps, timeline.trace.events
    wrong, total = 0, 0
    wrong_by: dict[tuple[str, str], int] = {}
    for device in events["device"].cat.categories:
        rank = _rank(str(device))
        first = int(events.loc[events["device"] == device, "start_ps"].min())
        origin = _first_start(truth, rank)
        of_device = gaps[gaps["device"] == device]
        told = list(
            zip(
                ((of_device["start_ps"] - first) / 1000 + origin).round().astype(int),
                ((of_device["end_ps"] - first) / 1000 + origin).round().astype(int),
                of_device["cause"].astype(str),
                strict=True,
            )
        )
        place = 0
        for stretch in truth.idle(rank):
            total += stretch.end - stretch.start
            for piece in reversed(stretch.pieces):
                cause, allowed = _cause(truth, stretch, piece)
                while place < len(told) and told[place][1] <= piece.start:
                    place += 1
                at, right = place, 0
                while at < len(told) and told[at][0] < piece.end:
                    length = min(told[at][1], piece.end) - max(told[at][0], piece.start)
                    if told[at][2] in allowed:
                        right += length
                    elif length > 0:
                        wrong_by[cause, told[at][2]] = wrong_by.get((cause, told[at][2]), 0) + length
                    at += 1
                wrong += piece.end - piece.start - right
    return wrong, total, wrong_by


def _first_start(truth: Truth, rank: int) -> int:
    recording: Recording = truth.recording
    return min(recording.times(row)[0] for row in truth.job.rows if row.rank == rank and row.sort in DEVICE_SORTS)


def _cause(truth: Truth, stretch: Idle, piece: Piece) -> tuple[str, set[str]]:
    """What tracekit should call a piece of idle time, and what else is as right.

    The call that launches what comes is part of its latency; without a row that names it, loading data is the host's.
    """
    activity = truth.job.activities[piece.activity]
    if piece.part in (Part.COMPUTE, Part.TRANSFER, Part.MEMCPY, Part.MEMSET):
        return str(Cause.OTHERS), {str(Cause.OTHERS)}
    if piece.part == Part.LATENCY:
        return str(Cause.LATENCY), {str(Cause.LATENCY)}
    if piece.part == Part.GAP:
        return str(Cause.QUEUED), {str(Cause.QUEUED)}
    if piece.part == Part.WAKE or any(wait.part == Part.WAKE for wait in activity.waits):
        return "sync wake", {str(Cause.HOST), str(Cause.COPY)}
    if piece.part == Part.CALL:
        launches = len(stretch.pieces) > 1 and stretch.pieces[1] == piece
        launching = "launching call", {str(Cause.LATENCY), str(Cause.CALL)}
        return launching if launches else (str(Cause.HOST), {str(Cause.HOST)})
    if activity.loads and not piece.is_lag:
        return str(Cause.INPUT), {str(Cause.INPUT)} if truth.job.reads_named else {str(Cause.HOST)}
    return str(Cause.HOST), {str(Cause.HOST)}
