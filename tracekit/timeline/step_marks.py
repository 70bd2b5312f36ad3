"""What tells the steps of a run: annotations of the host, XProf's step groups, or the executions of one program."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import distinct
from tracekit.intervals import Intervals
from tracekit.readers.step_spans import THREAD, cut_to_next, inner
from tracekit.timeline.programs import Evidence, Program, programs
from tracekit.timeline.rows import Rows, clock_of_hosts
from tracekit.vocabulary.step_names import series

# Of which step a row is, where it is of none that is known.
UNKNOWN, BEFORE, AFTER = -1, -2, -3

# What stands in the table of steps for each kind of evidence.
ANNOTATION, GROUP, PROGRAM = "annotation", "group_id", "run_id"

# What tells a step on a thread.
_STEP = ["name", "step"]
# A host, a process of it ("" where the trace does not tell), or a thread of that; and the steps that one marked, in
# order, with its times of them, (m,) and (m, 2).
Marker = tuple[str, ...]
StepTimes = tuple[NDArray[np.int64], Intervals]

# A program recurs if it runs at least so often on every device that runs it at all.
RECURS = 3


@dataclass(frozen=True)
class Marks:
    """m steps, by clock and then in order of their ends: what is known of them before their windows are.

    `host` (m, 2) is the time from the first thread's begin of each to the last one's end, in ps, and `hosts` (m,) how
    many processes marked it, where annotations told them; `of` gives the steps that a host, a process and a thread
    marked, with their own times (see times_of). `linked` (n,) names the step of each row that the same evidence proves,
    else UNKNOWN. `nested` counts the annotations inside others. `programs` are those of clocks that have several, and
    `program` (m,) the place there of each step, -1 on other clocks; None without any.
    """

    marked_by: str
    clock: list[str]
    step: list[int]
    name: list[str]
    linked: NDArray[np.int64]
    host: Intervals | None = None
    hosts: NDArray[np.int64] | None = None
    of: Mapping[Marker, StepTimes] = field(default_factory=dict)
    nested: int = 0
    programs: tuple[Program, ...] = ()
    program: NDArray[np.int64] | None = None

    def times_of(self, marker: Marker) -> StepTimes:
        """The steps of one of the markers `of`, in order, with its times of them.

        A thread that marked some of its process's steps has those of its process for the others: of each of thousands
        of threads that is made here, one after the other.
        """
        steps, own = self.of[marker]
        if len(marker) < len(THREAD):
            return steps, own
        of_process, completed = self.of[marker[:-1]]
        completed = completed.copy()
        completed[np.searchsorted(of_process, steps)] = own
        return of_process, completed

    @cached_property
    def by_clock(self) -> Mapping[str, NDArray[np.int64]]:
        """The steps of each clock, in order."""
        clock = np.array(self.clock, object)
        return {name: np.flatnonzero(clock == name) for name in dict.fromkeys(self.clock)}

    def runs(self, rows: Rows) -> list["Run"]:
        """The steps that follow each other: those of a clock, or of each program on it."""
        found = []
        for clock, steps in self.by_clock.items():
            of_clock = rows.on_clock(clock)
            if self.program is None or self.program[steps[0]] < 0:
                found.append(Run(clock, steps, of_clock))
                continue
            for number in np.unique(self.program[steps]).tolist():
                its = self.programs[number].devices
                own = [device for device in of_clock if rows.devices[device] in its]
                found.append(Run(clock, steps[self.program[steps] == number], own))
        return found


class Run(NamedTuple):
    """Steps of one clock that follow each other, and the devices, places among those of the rows, that work in them."""

    clock: str
    steps: NDArray[np.int64]
    devices: list[int]


def marks(rows: Rows, spans: pd.DataFrame, of_compiler: NDArray[np.bool_], evidence: Evidence) -> Marks | str:
    """The steps by the most trustworthy evidence that the trace has, or a sentence why it has none."""
    if not any(rows.placed):
        return "The trace holds no work of a device, so it has no steps to measure."
    return annotations(rows, spans, evidence) or step_groups(rows) or program_executions(rows, of_compiler)


def annotations(rows: Rows, spans: pd.DataFrame, evidence: Evidence) -> Marks | None:
    """The steps that host spans with a step number mark; None if no host on a clock with device rows has any.

    Several threads may mark the same steps: ranks that are threads or processes of one host, each at times of its own,
    and PyTorch, which marks a step on several threads. So the k-th span of one name and number on a thread is the k-th
    on all threads and hosts of a clock. Of spans inside each other only the outermost is a step, unless its name occurs
    once on its thread and it holds two or more: then it is a wrapper of the run. Spans of one name on two threads are
    beside each other, wherever they begin and end. Programs that have nothing to do with each other (`programs`) mark
    steps of their own, which are called after them.
    """
    spans_of_steps = spans.loc[spans["step"].notna().to_numpy(bool), [*THREAD, "name", "step", "start_ps", "end_ps"]]
    spans_of_steps = spans_of_steps.astype({**dict.fromkeys(THREAD, object), "name": "str", "step": "int64"})
    spans_of_steps[THREAD] = spans_of_steps[THREAD].where(spans_of_steps[THREAD].notna(), "")
    clocks = clock_of_hosts(rows)
    # A host without rows is on the only clock there is; among several, nothing says on which.
    only_clock = next(iter(clocks.values())) if len(set(clocks.values())) == 1 else None
    spans_of_steps["clock"] = [clocks.get(host, only_clock) for host in spans_of_steps["host"]]
    spans_of_steps = spans_of_steps[spans_of_steps["clock"].notna()]
    if spans_of_steps.empty:
        return None
    spans_of_steps["name"] = [series(name) for name in spans_of_steps["name"]]
    spans_of_steps = _occurrences(spans_of_steps)
    spans_of_steps, found = _by_program(spans_of_steps, evidence)
    mark = spans_of_steps.groupby(["clock", "program", *_STEP, "occurrence"], sort=False).ngroup().to_numpy()
    is_inner = np.zeros(int(mark.max()) + 1, bool)
    is_inner[mark[inner(spans_of_steps)]] = True
    spans_of_steps, mark = cut_to_next(spans_of_steps[~is_inner[mark]]), mark[~is_inner[mark]]
    _, heads, mark = np.unique(mark, return_index=True, return_inverse=True)
    times = _step_times(mark, spans_of_steps)
    clock = pd.factorize(spans_of_steps["clock"].iloc[heads], sort=True)[0]
    order = np.lexsort((times["start_ps"], times["end_ps"], clock))
    head = spans_of_steps.iloc[heads[order]]
    place = _renumbered(order)[mark]
    process = spans_of_steps.groupby(["host", "process"], sort=False).ngroup().to_numpy()
    _, step_of_process = np.unique(np.stack([process, place]), axis=1)
    return Marks(
        ANNOTATION,
        head["clock"].tolist(),
        head["step"].tolist(),
        head["name"].tolist(),
        np.full(len(rows), UNKNOWN),
        host=iv.intervals(times["start_ps"].to_numpy()[order], times["end_ps"].to_numpy()[order]),
        hosts=np.bincount(step_of_process, minlength=len(order)),
        of=_by_marker(spans_of_steps, place),
        nested=int(is_inner.sum()),
        programs=found,
        program=head["program"].to_numpy(np.int64) if found else None,
    )


def _by_program(spans: pd.DataFrame, evidence: Evidence) -> tuple[pd.DataFrame, tuple[Program, ...]]:
    """The spans with the `program` of each, a place among those that are returned too, -1 on clocks of one alone; the
    names of the others are those of their programs as well."""
    found: list[Program] = []
    program, names = np.full(len(spans), -1), spans["name"].to_numpy(object).copy()
    keys = list(zip(spans["host"], spans["process"], strict=True))
    for of_clock in spans.groupby("clock", sort=False).indices.values():
        its = programs(spans.iloc[of_clock], evidence)
        of_process = {process: number for number, each in enumerate(its, len(found)) for process in each.processes}
        found += its
        for place in np.asarray(of_clock).tolist() if its else ():
            program[place] = of_process[keys[place]]
            names[place] = f"{names[place]} ({found[program[place]].label})"
    return spans.assign(program=program, name=names), tuple(found)


def _step_times(step: NDArray[np.int64], spans: pd.DataFrame) -> pd.DataFrame:
    """From the first start to the last end of the spans of each step, by step."""
    return spans.groupby(step)[["start_ps", "end_ps"]].agg({"start_ps": "min", "end_ps": "max"})


def _by_marker(spans: pd.DataFrame, place: NDArray[np.int64]) -> Mapping[Marker, StepTimes]:
    """The steps that each host, process and thread marked, in order, with its times of them."""
    times_of: dict[Marker, StepTimes] = {}
    start, end = (spans[edge].to_numpy() for edge in ("start_ps", "end_ps"))
    codes = [np.asarray(pd.factorize(spans[name])[0], np.int64) for name in THREAD]
    for depth in range(1, len(THREAD) + 1):
        # All markers at once: of each of thousands of hosts, a group by itself takes milliseconds.
        marker, first = distinct(*codes[:depth])
        order = np.lexsort((place, marker))
        heads = np.flatnonzero(
            np.diff(marker[order], prepend=-1).astype(bool) | (np.diff(place[order], prepend=-1) != 0)
        )
        times = np.stack([np.minimum.reduceat(start[order], heads), np.maximum.reduceat(end[order], heads)], axis=1)
        steps = place[order[heads]]
        bounds = np.searchsorted(marker[order[heads]], np.arange(len(first) + 1)).tolist()
        labels = spans[THREAD[:depth]].iloc[first].astype(str).itertuples(index=False, name=None)
        for label, (low, high) in zip(labels, pairwise(bounds), strict=True):
            times_of[label] = steps[low:high], times[low:high]
    return times_of


def _occurrences(spans: pd.DataFrame) -> pd.DataFrame:
    """Overlapping spans of one thread, name and number as one, and the others numbered by `occurrence`.

    Where the threads of a process have one name and number unequally often, those that overlap are one occurrence.
    """
    key = [*THREAD, "clock", *_STEP]
    if not spans.duplicated(key).any():  # of few spans, as each of a thousand hosts has, half of the time is saved
        spans = spans.sort_values([*key, "start_ps"], kind="stable", ignore_index=True)
        return spans[[*key, "start_ps", "end_ps"]].assign(overlap=0, occurrence=0)
    spans = _overlaps(spans, key)
    spans = spans.groupby([*THREAD, "clock", *_STEP, "overlap"], sort=False, as_index=False).agg(
        {"start_ps": "min", "end_ps": "max"}
    )
    spans["occurrence"] = spans.groupby([*THREAD, "clock", *_STEP], sort=False).cumcount()
    of_process = ["host", "process", "clock", *_STEP]
    often = spans.groupby([*THREAD, "clock", *_STEP], sort=False)["name"].transform("size")
    size = often.groupby([spans[name] for name in of_process], sort=False)
    unequal = (size.transform("min") != size.transform("max")).to_numpy(bool)
    if unequal.any():
        by_overlap = _overlaps(spans[unequal], of_process).assign(occurrence=lambda table: table["overlap"])
        spans = pd.concat([spans[~unequal], by_overlap], ignore_index=True)
    return spans


def _overlaps(spans: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """The spans by key and start, with the number of the stretch of its key's time that each is in (`overlap`)."""
    spans = spans.sort_values([*key, "start_ps"], kind="stable", ignore_index=True)
    reach = spans.groupby(key, sort=False)["end_ps"].cummax()
    same_key = (spans[key] == spans[key].shift()).all(axis=1)
    new = ~same_key | (spans["start_ps"] >= reach.shift(fill_value=0))
    first = new.cumsum()
    spans["overlap"] = first - first.groupby([spans[name] for name in key], sort=False).transform("min")
    return spans


def step_groups(rows: Rows) -> Marks | None:
    """The steps by the `group_id` of the rows; None if no row has one."""
    group, has_group = rows.numbers("group_id")
    clock_of, clocks = _clocks(rows)
    groups = group_rows(rows, [clock_of[rows.device], group], has_group & rows.is_placed)
    if len(groups.start) == 0:
        return None
    order = np.lexsort((groups.end, groups.key[0]))
    return Marks(
        GROUP,
        [clocks[code] for code in groups.key[0][order]],
        groups.key[1][order].tolist(),
        ["group"] * len(order),
        _renumbered(order)[groups.group_of],
    )


def program_executions(rows: Rows, of_compiler: NDArray[np.bool_]) -> Marks | str:
    """The executions of the program that takes most device time of those that recur, one step each, on every clock.

    A program recurs if it ran three times or more on each of its devices; and from its first start to its last end
    at least half of the device time must lie. One step is the executions with the same `run_id`, where all its
    devices have the same ids, else the k-th on each device, if these ran beside each other. What a compiler ran itself,
    to measure it (`of_compiler` (n,)), is no execution. A sentence if no clock has such a program.
    """
    run, has_run = rows.numbers("run_id")
    module = rows.codes("hlo_module")
    is_execution = has_run & (module >= 0) & rows.is_placed & ~of_compiler
    executions = group_rows(rows, [rows.device, module, run], is_execution)
    if len(executions.start) == 0:
        return (
            "No host span has a step number (jax.profiler.StepTraceAnnotation, ProfilerStep, a range `step 3`), and "
            "no device event names its step group or its program's execution, so the steps are not known."
        )
    clock_of, clocks = _clocks(rows)
    label = rows.labels("hlo_module")
    place = np.full(len(executions.start), UNKNOWN)
    names: list[tuple[str, int, str]] = []
    for code, clock in enumerate(clocks):
        on_clock = np.flatnonzero(clock_of[executions.key[0]] == code)
        numbers = _recurring(executions, on_clock)
        if len(numbers) == 0:
            continue
        count = int(numbers.max()) + 1
        place[on_clock] = np.where(numbers >= 0, numbers + len(names), UNKNOWN)
        program = label[int(executions.key[1][on_clock[numbers >= 0][0]])]
        names += [(clock, number, program) for number in range(count)]
    if not names:
        return (
            "No host span has a step number, and no program ran three times or more, equally often on each of its "
            "devices and around half of the device time, so the steps are not known."
        )
    return Marks(
        PROGRAM,
        [clock for clock, _, _ in names],
        [number for _, number, _ in names],
        [program for _, _, program in names],
        np.append(place, UNKNOWN)[executions.group_of],
    )


def _recurring(executions: "RowGroups", on_clock: NDArray[np.int64]) -> NDArray[np.int64]:
    """The step of each execution in `on_clock`, UNKNOWN for other programs; empty if no program recurs."""
    device, module, run_id = (key[on_clock] for key in executions.key)
    start, end, time = executions.start[on_clock], executions.end[on_clock], executions.time[on_clock]
    time_of = {int(program): iv.sum_exactly(time[module == program]) for program in np.unique(module)}
    for program in sorted(time_of, key=lambda program: -time_of[program]):
        members = np.flatnonzero(module == program)
        members = members[np.lexsort((start[members], device[members]))]
        _, often = np.unique(device[members], return_counts=True)
        in_reach = (start >= start[members].min()) & (end <= end[members].max())
        if often.min() < RECURS or 2 * iv.sum_exactly(time[in_reach]) < sum(time_of.values()):
            continue
        ids, number = np.unique(run_id[members], return_inverse=True)
        if (often == len(ids)).all():
            first = np.full(len(ids), np.iinfo(np.int64).max)
            np.minimum.at(first, number, start[members])
            number = _renumbered(np.argsort(first, kind="stable"))[number]
        elif (often == often[0]).all() and _is_beside(start[members], end[members], int(often[0])):
            number = np.arange(len(members)) % often[0]
        else:
            continue
        steps = np.full(len(on_clock), UNKNOWN)
        steps[members] = number
        return steps
    return np.empty(0, np.int64)


def _is_beside(start: NDArray[np.int64], end: NDArray[np.int64], often: int) -> bool:
    """Whether devices that ran a program so `often` each, one behind the other in these columns, did so beside each
    other: none had ended its last before another began the middle one of its own."""
    begins, ends = start.reshape(-1, often), end.reshape(-1, often)
    return bool(begins[:, often // 2].max() <= ends[:, -1].min())


@dataclass(frozen=True)
class RowGroups:
    """p groups of rows with equal keys: each key's values (p,), first start, last end, and `time`, the summed lengths
    of its runs of rows beside each other, in ps; `group_of` (n,) is the group of each row, -1 for none."""

    key: list[NDArray[np.int64]]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    time: NDArray[np.int64]
    group_of: NDArray[np.int64]


def group_rows(rows: Rows, keys: Iterable[NDArray[np.int64]], mask: NDArray[np.bool_]) -> RowGroups:
    """The rows in `mask`, grouped by keys of shape (n,)."""
    places = np.flatnonzero(mask)
    group_of = np.full(len(rows), -1)
    key = [key_values[places] for key_values in keys]
    if len(places) == 0:
        return RowGroups(key, places, places, places, group_of)
    # Rows of one group mostly stand together: group the runs, of which there are few.
    begins = np.append(True, rows.device[places][1:] != rows.device[places][:-1])
    for key_values in key:
        begins[1:] |= key_values[1:] != key_values[:-1]
    first = np.flatnonzero(begins)
    start = rows.start[places][first]
    end = np.maximum.reduceat(rows.end[places], first)
    key = [key_values[first] for key_values in key]
    order = np.lexsort(key[::-1])
    new = np.append(True, np.zeros(len(order) - 1, bool))
    for key_values in key:
        new[1:] |= key_values[order][1:] != key_values[order][:-1]
    head = np.flatnonzero(new)
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(new) - 1
    group_of[places] = group[np.cumsum(begins) - 1]
    return RowGroups(
        [key_values[order][head] for key_values in key],
        np.minimum.reduceat(start[order], head),
        np.maximum.reduceat(end[order], head),
        np.add.reduceat((end - start)[order], head),
        group_of,
    )


def _clocks(rows: Rows) -> tuple[NDArray[np.int64], list[str]]:
    """The clock of each device as a code, and their names."""
    codes, clocks = pd.factorize(np.array(rows.clocks, object), sort=True)
    return codes.astype(np.int64), [str(clock) for clock in clocks]


def _renumbered(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """The new number of each of `order`'s members; and of -1, which stays."""
    number = np.full(len(order) + 1, UNKNOWN)
    number[order] = np.arange(len(order))
    return number
