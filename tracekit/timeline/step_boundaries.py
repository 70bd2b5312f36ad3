"""The windows of a run's steps, and the step that each row of a device belongs to."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import distinct, frame
from tracekit.readers.step_spans import THREAD
from tracekit.timeline.programs import Evidence, Process
from tracekit.timeline.rows import CODE, Rows, clock_of_hosts
from tracekit.timeline.step_marks import (
    AFTER,
    BEFORE,
    UNKNOWN,
    Marker,
    Marks,
    Run,
    StepTimes,
    group_rows,
    marks,
    program_executions,
    step_groups,
)
from tracekit.vocabulary.host_calls import Activity, activity_of, jitted_function
from tracekit.vocabulary.kinds import Kind

# What marks steps, and the step of each row, (n,).
Links = tuple[Marks, NDArray[np.int64]]

BOUNDARY_COLUMNS = {
    "clock": "str",
    "step": "Int64",
    "name": "str",
    "start_ps": "int64",
    "end_ps": "int64",
    "wall_ps": "int64",
    "host_start_ps": "Int64",
    "host_end_ps": "Int64",
    "device_start_ps": "Int64",
    "device_end_ps": "Int64",
    "rows": "int64",
    "rows_by_time": "int64",
    "hosts": "Int64",
    "compile_ps": "int64",
    "marked_by": "str",
}

_NEVER = np.iinfo(np.int64).min

# On the host of an H100 (jax 0.11), JAX lowered what was new to it in 725 us at least, and looked up in 281 us what it
# had lowered and compiled before.
_LOWERED_BEFORE_PS = 500_000_000

# Of the devices' work from the end of the first step on, more than this after the last is work of earlier steps, where
# it is also half of what they do between two ends; and so unlike are the numbers of rows between the ends of the steps
# of a host that does not wait for its devices.
_MUCH, _UNLIKE = 0.1, 1.25
_RAN_AHEAD = (
    "The steps are not known: no launch tells the step of the devices' work, and the devices were still busy when the "
    "host had ended most of its steps. Record the runtime's calls, or wait for the devices at the end of each step."
)
# A report holds some hundred bytes for each step of each device: of 5,000 steps and 1,000 devices (2 MB) 3.2 GB.
_MOST_CELLS, _MOST_CELLS_A_ROW = 100_000, 4
UNMARKED = (
    "Rows of compute were left out as the files were read, and not all hosts mark the steps that those belong to. Mark "
    "them (docs/training.md)."
)
_NONE_INSIDE = "No step lies whole inside the part of the trace that this report is of."


@dataclass(frozen=True)
class StepsOfProgram:
    """The `steps`, row numbers of the table, of one of several programs of a clock, which `processes` mark and in which
    `devices` work."""

    steps: NDArray[np.int64]
    processes: frozenset[Process]
    devices: frozenset[str]


@dataclass(frozen=True)
class StepBoundaries:
    """The s steps of a trace, by clock and in order, and what belongs to them.

    `table` has BOUNDARY_COLUMNS. The windows [start_ps, end_ps) of one clock touch, so their `wall_ps` sum to the time
    from the first start to the last end. `host_*` is the host's own time of the step, null where no annotation told it;
    `device_*` runs from the first start to the last end of the step's rows, null without any; `rows` counts them, and
    `rows_by_time` those of them that only their start puts there. `hosts` counts the processes that marked the step,
    `compile_ps` is how long of its host's time a compiler ran. `step_of` (n,) is the step of each row, a row number of
    `table`, or -1. `nested` annotations inside other steps were not counted. `ends` has by thread (host, process, name)
    the steps that it marked, and when it ended each, (m,) both. `lacking` says why there are no steps. `programs`:
    where one clock has several, each of which has windows of its own; none else.
    """

    table: pd.DataFrame
    step_of: NDArray[np.int64]
    nested: int = 0
    lacking: str = ""
    ends: Mapping[Marker, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict)
    programs: tuple[StepsOfProgram, ...] = ()


def runs_of(steps: StepBoundaries, rows: Rows) -> list[Run]:
    """The steps that follow each other and do not overlap, and the devices that work in them: those of a clock, or of
    each program on it."""
    apart = {int(step) for program in steps.programs for step in program.steps}
    found = [
        Run(str(clock), of_clock.index.to_numpy(np.int64), rows.on_clock(str(clock)))
        for clock, of_clock in steps.table.groupby("clock", sort=False)
        if int(of_clock.index[0]) not in apart
    ]
    for program in steps.programs:
        devices = [number for number, name in enumerate(rows.devices) if name in program.devices]
        if len(program.steps):
            found.append(Run(str(steps.table["clock"].iloc[program.steps[0]]), program.steps, devices))
    return found


def boundaries(spans: pd.DataFrame, evidence: Evidence) -> StepBoundaries:
    """The windows of the steps that `spans` mark, or the rows.

    A step ends when the host has ended it and its compute, its collectives and its programs' executions are done on all
    devices of its clock, whichever is later, and never before the step ahead of it; there the next one begins. The
    first begins with its annotation, or when the work launched before it is done, or without annotation with its own
    first row. So time between two annotations belongs to the step that comes, and work that a host dispatches ahead of
    the devices counts where it runs. A copy of no program does not hold a step open: the next one computes beside it.

    A row is of the step whose time on the thread that launched it (from the end of the annotation before) holds its
    launch, by the annotations of that thread, else of its process, else of its host; or whose group or execution it
    names; or, without launch, of the k-th step if each step runs its program equally often; or else of
    the step during which it starts. Where that is all there is, and the devices were not done with a step when the host
    had ended it, annotations tell no steps.
    """
    rows, marked = evidence.rows, links(spans, evidence)
    lacking = marked if isinstance(marked, str) else _too_many(rows, marked[0])
    if isinstance(marked, str) or lacking:
        return no_steps(rows, lacking)
    step_marks, linked = marked
    by_time = linked == UNKNOWN
    if rows.count is not None and (by_time & (rows.count > 1)).any():  # those that it stands for may be of others
        return no_steps(rows, UNMARKED)
    linked = _by_start(rows, step_marks, linked)
    reach = _extents(rows, linked, len(step_marks.step))
    start, end = np.zeros(len(step_marks.step), np.int64), np.zeros(len(step_marks.step), np.int64)
    step_of = np.maximum(linked, -1)
    for run in step_marks.runs(rows):
        steps = run.steps
        start[steps], end[steps] = _windows(rows, step_marks, run, linked, reach)
        for device in run.devices:
            device_rows = rows.of(device)
            unlinked = device_rows.start + np.flatnonzero(linked[device_rows] == UNKNOWN)
            place = np.searchsorted(end[steps], rows.start[unlinked], side="right")
            in_a_step = (place < len(steps)) & (rows.start[unlinked] >= start[steps[0]])
            step_of[unlinked] = np.where(in_a_step, steps[np.minimum(place, len(steps) - 1)], -1)
    of_programs = [
        StepsOfProgram(np.flatnonzero(step_marks.program == number), each.processes, each.devices)
        for number, each in enumerate(step_marks.programs)
    ]
    table = _table(rows, spans, step_marks, start, end, step_of, by_time)
    ends = {name: (of[0], of[1][:, 1]) for name, of in step_marks.of.items() if len(name) == len(THREAD)}
    return StepBoundaries(table, step_of, step_marks.nested, ends=ends, programs=tuple(of_programs))


def no_steps(rows: Rows, lacking: str) -> StepBoundaries:
    """The boundaries of no steps, and why there are none."""
    return StepBoundaries(frame(BOUNDARY_COLUMNS), np.full(len(rows), -1), lacking=lacking)


def links(spans: pd.DataFrame, evidence: Evidence) -> Links | str:
    """What marks the steps, and the step of each row, BEFORE, AFTER or UNKNOWN, (n,), as far as more than its start
    tells it; or why nothing does."""
    rows, launch, launches = evidence.rows, evidence.launch, evidence.launches
    of_compiler = _launched_by_compiler(spans, launch, launches)
    step_marks = marks(rows, spans, of_compiler, evidence)
    if isinstance(step_marks, str) or step_marks.host is None:
        return step_marks if isinstance(step_marks, str) else (step_marks, step_marks.linked)
    linked = _by_order(rows, step_marks, _by_launch(rows, step_marks, launch, launches))
    if not _ran_ahead(rows, step_marks, linked):
        return step_marks, linked
    other_marks = step_groups(rows) or program_executions(rows, of_compiler)
    return _RAN_AHEAD if isinstance(other_marks, str) else (other_marks, other_marks.linked)


def _too_many(rows: Rows, step_marks: Marks) -> str:
    """Why the steps are not told, where nearly all of them are empty on nearly all devices of their clock, "" else."""
    cells = sum(len(steps) * len(rows.on_clock(clock)) for clock, steps in step_marks.by_clock.items())
    count = len(rows) if rows.count is None else int(rows.count.sum())
    if cells <= _MOST_CELLS + _MOST_CELLS_A_ROW * count:
        return ""
    return (
        f"The trace marks {len(step_marks.step):,} steps, and {len(rows.devices):,} devices worked in it, in only "
        f"{count:,} rows: nearly all steps are empty on nearly all devices, and none is told."
    )


def steps_inside(
    steps: StepBoundaries, step_of: NDArray[np.int64], windows: Mapping[str, iv.Intervals]
) -> StepBoundaries:
    """Those of the `steps` that lie whole in one of the `windows` of their clock; `step_of` (n,) is the step of the
    rows that are left."""
    table = steps.table
    start, end = (table[column].to_numpy() for column in ("start_ps", "end_ps"))
    inside = np.zeros(len(table), bool)
    for clock, window in windows.items():
        if len(window):
            place = np.maximum(np.searchsorted(window[:, 0], start, side="right") - 1, 0)
            holds = (window[place, 0] <= start) & (end <= window[place, 1])
            inside |= (table["clock"] == clock).to_numpy(bool) & holds
    number = np.append(np.where(inside, np.cumsum(inside) - 1, -1), -1)
    lacking = steps.lacking or ("" if inside.any() else _NONE_INSIDE)
    kept = {name: number[of] >= 0 for name, (of, _) in steps.ends.items()}
    ends = {name: (number[of[kept[name]]], end_ps[kept[name]]) for name, (of, end_ps) in steps.ends.items()}
    programs = tuple(replace(each, steps=number[each.steps[inside[each.steps]]]) for each in steps.programs)
    return StepBoundaries(table[inside].reset_index(drop=True), number[step_of], steps.nested, lacking, ends, programs)


def _step_at(host: iv.Intervals, points: NDArray[np.int64]) -> NDArray[np.int64]:
    """The step in whose host time each point lies, from the end of the step before; BEFORE the first, AFTER the last.

    `host` (m, 2) is in order.
    """
    place = np.searchsorted(np.maximum.accumulate(host[:, 1]), points, side="right")
    return np.where(points < host[:, 0].min(), BEFORE, np.where(place < len(host), place, AFTER))


def _by_launch(rows: Rows, step_marks: Marks, launch: NDArray[np.int64], launches: pd.DataFrame) -> NDArray[np.int64]:
    """The step in which each row was launched, BEFORE, AFTER or UNKNOWN: by the annotations of the thread that launched
    it; or of the one thread that annotates steps and launches for the same devices, as a backward pass has a thread of
    its own; or of its process; or of its host."""
    step = np.full(len(launches) + 1, UNKNOWN)
    if len(launches):
        clock_of, call_starts = clock_of_hosts(rows), launches["start_ps"].to_numpy()
        thread, threads = _threads(launches)
        order = np.argsort(thread, kind="stable")
        of_thread = np.split(order, np.searchsorted(thread[order], np.arange(1, len(threads))))
        markers = _markers(rows, step_marks, thread[launch[launch >= 0]], rows.device[launch >= 0], threads)
        for marker, calls in zip(markers, of_thread, strict=True):
            steps, times = _marks_of(step_marks, marker, clock_of.get(marker[0]))
            if len(steps):
                place = _step_at(times, call_starts[calls])
                step[calls] = np.where(place >= 0, steps[np.maximum(place, 0)], place)
    launched_in: NDArray[np.int64] = step[launch]
    return _mark_queued(rows, launched_in)


def _threads(launches: pd.DataFrame) -> tuple[NDArray[np.int64], list[Marker]]:
    """The thread of each call, (len(launches),), and the threads by host, process and name."""
    columns = [launches[name].cat for name in THREAD]
    # Null has code -1: the last of the labels.
    labels = [[*map(str, column.categories), ""] for column in columns]
    codes = [column.codes.to_numpy().astype(np.int64) for column in columns]
    thread, first = distinct(*codes)
    return thread, [tuple(label[code[call]] for label, code in zip(labels, codes, strict=True)) for call in first]


def _markers(
    rows: Rows, step_marks: Marks, thread: NDArray[np.int64], device: NDArray[np.int64], threads: list[Marker]
) -> list[Marker]:
    """Whose annotations tell the steps of each of `threads`; `thread` and `device` (n,) are those of the rows with a
    launch."""
    devices_of: dict[int, list[int]] = {}
    for pair in pd.unique(thread * len(rows.devices) + device).tolist():
        devices_of.setdefault(pair // len(rows.devices), []).append(pair % len(rows.devices))
    # The one thread of a process that marks steps and launches for a device, None where several do.
    marking: dict[tuple[Marker, int], Marker | None] = {}
    for number, key in enumerate(threads):
        if key in step_marks.of:
            for used in devices_of.get(number, ()):
                marking[key[:2], used] = None if (key[:2], used) in marking else key
    markers = []
    for number, key in enumerate(threads):
        beside = {marking.get((key[:2], used), key) for used in devices_of.get(number, ())} - {key}
        only = beside.pop() if len(beside) == 1 else None
        markers.append(key if key in step_marks.of else only or key)
    return markers


def _marks_of(step_marks: Marks, marker: Marker, clock: str | None) -> StepTimes:
    """The steps that a thread marked, or else its process, its host or those of its clock, with the times of them."""
    for depth in range(len(marker), 0, -1):
        if marker[:depth] in step_marks.of:
            return step_marks.times_of(marker[:depth])
    if step_marks.host is None:
        return np.empty(0, np.int64), iv.EMPTY
    steps = step_marks.by_clock.get(clock or "", np.empty(0, np.int64))
    return steps, step_marks.host[steps]


def _mark_queued(rows: Rows, launched_in: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows with an id but no call, ahead of all rows of their device that have one, were launched BEFORE the trace."""
    has_id = rows.has("correlation_id")
    for device in range(len(rows.devices)):
        device_rows = rows.of(device)
        linked = np.flatnonzero(launched_in[device_rows] != UNKNOWN)
        if len(linked):
            ahead = slice(device_rows.start, device_rows.start + int(linked[0]))
            launched_in[ahead][has_id[ahead]] = BEFORE
    return launched_in


def _by_order(rows: Rows, step_marks: Marks, linked: NDArray[np.int64]) -> NDArray[np.int64]:
    """`linked`, and the rows without launch by the order in which their device ran their program.

    A device runs one program's executions in the order of their dispatch. Where those since the first step are as
    many as the steps (or as those of one name), or a multiple, the k-th step ran the k-th of them, unless one would
    start before its step does.
    """
    is_execution = rows.has("run_id") & (linked == UNKNOWN)
    if step_marks.host is None or not is_execution.any():
        return linked
    run_id, _ = rows.numbers("run_id")
    executions = group_rows(rows, [rows.device, rows.codes("hlo_module"), run_id], is_execution)
    step = np.full(len(executions.start) + 1, UNKNOWN)
    order = np.lexsort((executions.start, executions.key[1], executions.key[0]))
    device, module = executions.key[0][order], executions.key[1][order]
    heads = np.flatnonzero(np.append(True, (device[1:] != device[:-1]) | (module[1:] != module[:-1])))
    names = np.array(step_marks.name, object)
    for members in np.split(order, heads[1:]):
        number = int(executions.key[0][members[0]])
        steps, times = _marks_of(step_marks, (rows.hosts[number],), rows.clocks[number])
        if len(steps) == 0:
            continue
        members = members[executions.start[members] >= times[:, 0].min()]
        for candidates in [np.ones(len(steps), bool), *(names[steps] == name for name in dict.fromkeys(names[steps]))]:
            often, remainder = divmod(len(members), int(candidates.sum()))
            if often == 0 or remainder:
                continue
            places = np.repeat(np.flatnonzero(candidates), often)
            if (executions.start[members] >= times[places, 0]).all():
                step[members] = steps[places]
                break
    return np.where(is_execution, step[executions.group_of], linked)


def _by_start(rows: Rows, step_marks: Marks, linked: NDArray[np.int64]) -> NDArray[np.int64]:
    """`linked`, and on clocks where nothing proves the step of any row, that in whose host time each row starts."""
    linked = linked.copy()
    for _, steps, devices in step_marks.runs(rows):
        device_slices = [rows.of(device) for device in devices]
        if step_marks.host is None or any((linked[device_rows] >= 0).any() for device_rows in device_slices):
            continue
        for device_rows in device_slices:
            place = _step_at(step_marks.host[steps], rows.start[device_rows])
            steps_by_start = np.where(place >= 0, steps[np.maximum(place, 0)], place)
            linked[device_rows] = np.where(linked[device_rows] == UNKNOWN, steps_by_start, linked[device_rows])
    return linked


def _ran_ahead(rows: Rows, step_marks: Marks, linked: NDArray[np.int64]) -> bool:
    """Whether on any clock no launch tells the work of most steps, nor most of the work, and the devices did not do it
    while the host was in that step. Steps that launched none need no launch to tell theirs.

    Hosts that wait for their devices in each step leave them idle at its end, with as much work done in one as in the
    next. So hosts ran ahead whose devices were busy at most ends, and did much after the last, or unlike work in
    between. Where the first steps have known work and the last have none, the profile ended before they ran.
    """
    if step_marks.host is None:
        return False
    holds_open = _holds_open(rows) & rows.is_placed
    length = np.where(holds_open, rows.end - rows.start, 0)
    has_work = np.zeros(len(step_marks.step), bool)
    has_work[linked[holds_open & (linked >= 0)]] = True
    for _, steps, devices in step_marks.runs(rows):
        ends = np.maximum.accumulate(step_marks.host[steps, 1])
        is_told = has_work[steps]
        is_cut_short = is_told[0] and not is_told[int(np.argmin(is_told)) :].any()
        if len(steps) == 1 or 2 * is_told.sum() >= len(steps) or is_cut_short:
            continue
        of_clock = [rows.of(device) for device in devices]
        unknown_ps = sum(iv.sum_exactly(length[own][linked[own] == UNKNOWN]) for own in of_clock)
        if 2 * unknown_ps <= sum(iv.sum_exactly(length[own]) for own in of_clock):
            continue
        for device in devices:
            own = rows.of(device)
            mine = own.start + np.flatnonzero(holds_open[own])
            start, end = rows.start[mine], rows.end[mine]
            before = np.searchsorted(start, ends)
            is_busy = np.append(_NEVER, np.maximum.accumulate(end))[before] > ends
            elapsed = np.append(0, np.cumsum(end - start))
            after, since = elapsed[-1] - elapsed[before[-1]], elapsed[-1] - elapsed[before[0]]
            between = np.diff(before)
            differ = len(between) > 1 and between.max() > _UNLIKE * between.min()
            much = after > _MUCH * since and 2 * after > float(np.median(np.diff(elapsed[before])))
            if 2 * is_busy.sum() > len(steps) and (much or differ):
                return True
    return False


@dataclass(frozen=True)
class _Reach:
    """Of each step, (s,): the first start and last end of its rows, the last end of those that hold it open, and their
    number; _NEVER where there are none."""

    first_start: NDArray[np.int64]
    last_end: NDArray[np.int64]
    open_until: NDArray[np.int64]
    number: NDArray[np.int64]


def _extents(rows: Rows, step_of: NDArray[np.int64], count: int) -> _Reach:
    """The extents of `count` steps, over the rows on devices that the trace proves."""
    reach = _Reach(*(np.full(count, initial) for initial in (-_NEVER - 1, _NEVER, _NEVER, 0)))
    # Rows of one step mostly stand together on a device, and there their starts grow.
    heads = np.union1d(rows.first[:-1], np.flatnonzero(step_of[1:] != step_of[:-1]) + 1)
    size = np.diff(heads, append=len(rows)) if rows.count is None else np.add.reduceat(rows.count, heads)
    last_end = np.maximum.reduceat(rows.end, heads)
    open_until = np.maximum.reduceat(np.where(_holds_open(rows), rows.end, _NEVER), heads)
    in_step = (step_of[heads] >= 0) & rows.is_placed[heads]
    step = step_of[heads][in_step]
    np.minimum.at(reach.first_start, step, rows.start[heads][in_step])
    np.maximum.at(reach.last_end, step, last_end[in_step])
    np.maximum.at(reach.open_until, step, open_until[in_step])
    np.add.at(reach.number, step, size[in_step])
    return reach


def _holds_open(rows: Rows) -> NDArray[np.bool_]:
    """Which rows hold their step open: compute, collectives, and a program's own copies, as it is not done before."""
    program = rows.has("run_id")
    holds: NDArray[np.bool_] = (rows.kind == CODE[Kind.COMPUTE]) | (rows.kind == CODE[Kind.COLLECTIVE]) | program
    return holds


def outlasting(rows: Rows, steps: StepBoundaries) -> NDArray[np.bool_]:
    """Which rows end after their step, or are of none, and hold none open: copies that the next step goes on beside,
    (n,). Where no steps are known, there are none."""
    if not len(steps.table):
        return np.zeros(len(rows), bool)
    end = np.append(steps.table["end_ps"].to_numpy(), _NEVER)
    outlasts: NDArray[np.bool_] = (rows.end > end[steps.step_of]) & ~_holds_open(rows)
    return outlasts


def _windows(
    rows: Rows, step_marks: Marks, run: Run, linked: NDArray[np.int64], reach: _Reach
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The start and end of the steps of a run."""
    steps = run.steps
    device_end = np.where(reach.open_until[steps] == _NEVER, reach.last_end[steps], reach.open_until[steps])
    if step_marks.host is None:
        end = np.maximum.accumulate(device_end)
        begin = int(reach.first_start[steps[0]])
        return np.append(min(begin, int(end[0])), end[:-1]), end
    end = np.maximum.accumulate(np.maximum(device_end, step_marks.host[steps, 1]))
    begin, holds_open = int(step_marks.host[steps, 0].min()), _holds_open(rows)
    for device in run.devices:
        device_rows = rows.of(device)
        earlier = device_rows.start + np.flatnonzero(linked[device_rows] == BEFORE)
        begin = max(begin, int(rows.end[earlier][holds_open[earlier]].max(initial=_NEVER)))
    return np.append(min(begin, int(end[0])), end[:-1]), end


def _table(
    rows: Rows,
    spans: pd.DataFrame,
    step_marks: Marks,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    step_of: NDArray[np.int64],
    by_time: NDArray[np.bool_],
) -> pd.DataFrame:
    count = len(start)
    reach = _extents(rows, step_of, count)
    loose = _extents(rows, np.where(by_time, step_of, -1), count).number if by_time.any() else np.zeros(count, np.int64)
    has_rows = reach.number > 0
    of_hosts = {}  # null where no host marked the steps
    if step_marks.host is not None:
        of_hosts = dict(zip(("host_start_ps", "host_end_ps"), step_marks.host.T, strict=True))
        of_hosts["hosts"] = step_marks.hosts
    return frame(
        BOUNDARY_COLUMNS,
        {
            "clock": step_marks.clock,
            "step": step_marks.step,
            "name": step_marks.name,
            "start_ps": start,
            "end_ps": end,
            "wall_ps": end - start,
            "device_start_ps": pd.arrays.IntegerArray(reach.first_start, ~has_rows),
            "device_end_ps": pd.arrays.IntegerArray(reach.last_end, ~has_rows),
            "rows": reach.number,
            "rows_by_time": loose,
            "compile_ps": _compile_times(rows, spans, step_marks, start, end),
            "marked_by": [step_marks.marked_by] * count,
            **of_hosts,
        },
    )


def _compile_times(
    rows: Rows, spans: pd.DataFrame, step_marks: Marks, start: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For how long, in ps, a compiler ran on any host of the clock in each step's host time, or else in its window, and
    of the first from the call of its program on."""
    compile_ps = np.zeros(len(start), np.int64)
    compiler = compiler_times(rows, spans)
    for clock, steps, _ in step_marks.runs(rows):
        if clock not in compiler:
            continue
        times = np.column_stack([start[steps], end[steps]])
        if step_marks.host is not None:
            ends = step_marks.host[steps, 1]
            times = np.column_stack([np.append(step_marks.host[steps, 0].min(), ends[:-1]), ends])
        elif len(steps):
            times[0, 0] = _called(spans, step_marks.name[steps[0]], int(times[0, 0]))
        compile_ps[steps] = iv.within(compiler[clock], times)
    return compile_ps


def _called(spans: pd.DataFrame, program: str, start_ps: int) -> int:
    """When the host last called `program` (`jit_f`) before its first step, which began at `start_ps`, in ps; `start_ps`
    where no call shows. A first call compiles before anything runs."""
    names = spans["name"].cat
    calls = [jitted_function(str(name)) == program.removeprefix("jit_") for name in names.categories]
    begins = spans["start_ps"].to_numpy()[np.append(calls, False).astype(bool)[names.codes.to_numpy()]]
    return int(max(begins[begins <= start_ps], default=start_ps))


def compiler_times(rows: Rows, spans: pd.DataFrame) -> dict[str, iv.Intervals]:
    """When a compiler ran on any host, by clock; only clocks on which one did, and that have rows."""
    places = compiler_spans(spans)
    clock_of = clock_of_hosts(rows)
    only = next(iter(clock_of.values())) if len(set(clock_of.values())) == 1 else None
    on = np.array([clock_of.get(str(host), only) for host in spans["host"].iloc[places]], object)
    times = iv.intervals(spans["start_ps"].to_numpy()[places], spans["end_ps"].to_numpy()[places])
    return {clock: iv.union(times[on == clock]) for clock in dict.fromkeys(on) if clock is not None}


def compiler_spans(spans: pd.DataFrame) -> NDArray[np.int64]:
    """The places of the spans (SPAN_COLUMNS) in which a compiler ran, or a program was lowered for it.

    JAX goes through its lowering once more for what it lowered and compiled before: such a span is shorter than
    _LOWERED_BEFORE_PS, and the next program is lowered on its thread before anything is compiled there. What is lowered
    and found in a cache on disk counts.
    """
    names = spans["name"].cat
    activities = [activity_of(str(name)) for name in names.categories]
    compiles, lowers = (
        np.append([activity is each for activity in activities], False).astype(bool)[names.codes.to_numpy()]
        for each in (Activity.COMPILING, Activity.LOWERING)
    )
    start, end = spans["start_ps"].to_numpy(), spans["end_ps"].to_numpy()
    is_doubtful = lowers & (end - start < _LOWERED_BEFORE_PS)
    if is_doubtful.any():
        either = np.flatnonzero(compiles | lowers)
        thread, _ = _threads(spans.iloc[either])
        order = np.lexsort((start[either], thread))
        ordered = either[order]
        is_compiled = np.append(compiles[ordered[1:]] & (np.diff(thread[order]) == 0), False)
        lowers[ordered[is_doubtful[ordered] & ~is_compiled]] = False
    return np.flatnonzero(compiles | lowers)


def _launched_by_compiler(spans: pd.DataFrame, launch: NDArray[np.int64], launches: pd.DataFrame) -> NDArray[np.bool_]:
    """Which rows were launched by a thread on which a compiler ran then, shape (n,): XLA's autotuner runs the kernels
    among which it chooses, many times each."""
    compiler = spans.iloc[compiler_spans(spans)]
    is_own = np.zeros(len(launches) + 1, bool)
    if len(compiler) and len(launches):
        calls_at = launches["start_ps"].to_numpy()
        ran_on, compiler_threads = _threads(compiler)
        called_on, threads = _threads(launches)
        times = compiler[["start_ps", "end_ps"]].to_numpy(np.int64)
        for number, thread in enumerate(compiler_threads):
            if thread in threads:
                calls = np.flatnonzero(called_on == threads.index(thread))
                ran = iv.union(times[ran_on == number])
                before = np.searchsorted(ran[:, 0], calls_at[calls], side="right") - 1
                is_own[calls] = (before >= 0) & (calls_at[calls] < ran[before, 1])
    own: NDArray[np.bool_] = is_own[launch]
    return own
