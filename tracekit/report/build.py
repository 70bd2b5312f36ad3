"""Assemble one result from a trace: every figure that any renderer shows is computed here, once."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tracekit import intervals as iv
from tracekit.analysis.advice import Finding, advice, compiled
from tracekit.analysis.classification import guessed, known_by
from tracekit.analysis.collectives import Collectives, collectives
from tracekit.analysis.completeness import Completeness, completeness, withheld
from tracekit.analysis.explain import BEHIND_PATH, Task, explanation, tasks, threads
from tracekit.analysis.explain import run as run_tasks
from tracekit.analysis.idle import Idle, idle
from tracekit.analysis.machine import machine
from tracekit.analysis.overlap import SHARED_COLUMNS, Breakdown, breakdown, shared_busy
from tracekit.analysis.phases import Phases
from tracekit.analysis.phases import phases as phases_of
from tracekit.analysis.steady import compiled_outside, counted_steps, hides, steady
from tracekit.analysis.steps import Steps
from tracekit.analysis.top_ops import PHASE, STEP, WHOLE, operations
from tracekit.columns import frame, records
from tracekit.devices import type_of
from tracekit.errors import TracekitError
from tracekit.intervals import Intervals
from tracekit.readers import formats
from tracekit.report.model import Origin, Report, compared_rounds
from tracekit.report.part import Part, choose, headline_of, listed
from tracekit.report.sections import verdict
from tracekit.report.sections.steady import STEADY, aside_words, steady_words
from tracekit.report.trace_contents import no_device_work, one_rank
from tracekit.timeline.step_boundaries import StepBoundaries
from tracekit.timeline.timeline import Source, Timeline, timeline_of
from tracekit.timeline.unions import Unions
from tracekit.trace import EVENT_COLUMNS, Trace

# The commit in capture.json, which anything may have written.
_COMMIT = re.compile("[0-9a-f]{4,64}(-dirty|-unknown)?")
CLOCK_COLUMNS = {
    "host": "str",
    "origin_ns": "Int64",
    "clock": "str",
    "shift_ps": "Int64",
    "drift_ppm": "Float64",
    "residual_ps": "Int64",
}


def analyse(
    source: Source,
    phases: Sequence[str] = (),
    alone: Sequence[str] = (),
    baseline: str | None = None,
    *,
    phase: str | None = None,
    step: int | None = None,
    start: str | int | None = None,
    end: str | int | None = None,
    devices: Collection[str] = (),
    run: str | None = None,
    kinds: str | os.PathLike[str] | None = None,
    steps: tuple[int, int] | None = None,
) -> Report:
    """The report of a trace: the verdict, and every figure behind it.

    `phases` names annotations to take as phases too, the last of them compared with `alone` or with `baseline`, as the
    options of `tracekit report` do. With one `phase` (or annotation), one `step`, or from `start` to `end` (picoseconds
    or text such as "1.5 s", counted from the first device work), and with `devices`, only that part of the trace
    counts; phases are reported that lie whole inside it. Without any of these it is from the first to the last of
    `steps`; of a path, only these are read then, with one before and one behind. Of a path, `run` and `kinds` mean what
    they do for `tracekit.read`. Raises TracekitError for a name, step, range or device that the trace does not hold,
    and where something is to be compared, but no phase with it.
    """
    if (alone or baseline) and not phases:
        raise TracekitError(
            "alone and baseline (--alone, --baseline) say what the last of the phases is compared with: name it in "
            "phases (--as-phase NAME)."
        )
    whole_timeline = timeline_of(source, run=run, kinds=kinds, steps=steps)
    part = choose(whole_timeline, phase=phase, step=step, start=start, end=end, devices=devices, steps=steps)
    if whole_timeline.left_out and (phases or not part.is_whole):
        raise TracekitError(
            "Of a trace of which rows of compute were left out as it was read, no part and no phase is told. Read it "
            "without a reduction."
        )
    marked = _marked(whole_timeline, part, phases, alone, baseline)
    for name in (*phases, *alone, *([baseline] if baseline else [])):
        if name not in set(marked.table["name"]):
            raise TracekitError(_no_phase(name, whole_timeline.trace.source, phases))
    with ThreadPoolExecutor(1) as aside:
        if threads(whole_timeline) > 1:  # what the host waited for is asked soon
            aside.submit(getattr, whole_timeline, "syncs")
        timeline, phase_results, compared, looked_at, is_steady = _scope(whole_timeline, part, marked)
    outside = [name for name in marked.windows if name not in phase_results.windows]
    results = run_tasks(
        [
            *tasks(looked_at, timeline if is_steady else None),
            *(_around(timeline, looked_at) if is_steady else ()),
            Task("whole", lambda: breakdown(timeline, part.name or None)),
            Task(
                "inside",
                lambda: {name: breakdown(timeline.inside(at), name) for name, at in phase_results.windows.items()},
            ),
            Task("known_by", lambda: known_by(timeline)),
            Task("guessed", lambda: guessed(timeline)),
            *(
                Task(name, partial(table, timeline, looked_at, is_steady, phase_results), ("steps",), BEHIND_PATH)
                for name, table in (("operations", _operations), ("shared busy", _shared_busy))
            ),
        ],
        threads(timeline),
    )
    whole, inside, why = results["whole"], results["inside"], explanation(looked_at, results)
    of_rows = {name: results[name] for name in ("known_by", "guessed", "operations")}
    if why.completeness.shares or timeline.left_out:
        of_rows = {name: table[:0] for name, table in of_rows.items()}
    if reason := why.completeness.shares:
        nothing = replace(breakdown(timeline_of(Trace(frame(EVENT_COLUMNS)))), lacking=reason)
        whole, inside = nothing, {name: replace(nothing, name=name) for name in inside}
        phase_results = phase_results.without_shares(reason)
    cores = too_few_cores(timeline.trace, timeline.unions)
    busy = {name: load for name in compared if (load := why.machine.during(name)) is not None}
    holds = one_rank(timeline)
    verdicts = {
        row["name"]: _of_phase(timeline, phase_results, row, inside[row["name"]], busy.get(row["name"]))
        for row in records(phase_results.table)
    }
    # Without device work there is one thing to say, whatever the phases are.
    lacking = no_device_work(timeline)
    judged: Breakdown | None = results.get("steady")
    of_whole = (lacking,) if lacking else verdict.whole(judged or whole, cores, why, holds)
    compiling = None
    if judged:
        of_whole = (*_of_steady(of_whole, timeline), verdict.in_all(whole, results["idle around"]))
        compiling = _compiled(why.steps.table, whole, results["idle around"])
    finding = lacking or verdict.headline(phase_results.table, inside, cores, busy)
    if not finding and not why.completeness.shares and (main := _main_phase(phase_results, compared)):
        finding = f"{main['name']}: {verdicts[main['name']]}"
    finding = finding or of_whole[0]
    return Report(
        trace=_origin(timeline),
        windows=timeline.unions.windows,
        clock_of={name: device.clock for name, device in timeline.unions.devices.items()},
        whole=whole,
        phases=phase_results,
        inside=inside,
        verdict=" ".join(of_whole) if lacking or not verdicts else None,
        verdicts=verdicts,
        headline=headline_of(part.where, finding),
        cores=cores,
        part=part.where,
        notes=(*part.notes, *timeline.trace.notes, *_notes(timeline.trace, timeline.unions), *_outside(outside)),
        extent=phase_results.extent if len(timeline.unions.windows) < 2 and part.windows is None else None,
        **of_rows,
        explanation=why,
        advice=advice(looked_at, why, judged or whole, phase_results, inside, compiling),
        compared=compared,
        steady=judged,
        first_work_ps=whole_timeline.first_work,
        shared_busy=results["shared busy"][:0] if why.completeness.shares else results["shared busy"],
    )


def _operations(timeline: Timeline, looked_at: Timeline, is_steady: bool, marked: Phases, steps: Steps) -> pd.DataFrame:
    """The operations of the whole `timeline`, of its phases, and of the `steps`, which are those of what is looked at
    unless that is steady."""
    if is_steady or looked_at is timeline:
        return operations(timeline, steps.table, marked.windows)
    of_steps = operations(looked_at, steps.table, {})
    return pd.concat(
        [operations(timeline, steps.table[:0], marked.windows), of_steps[of_steps["scope"] == STEP]], ignore_index=True
    )


def _shared_busy(
    timeline: Timeline, looked_at: Timeline, is_steady: bool, marked: Phases, steps: Steps
) -> pd.DataFrame:
    """How long devices were busy at once in the parts that `_operations` takes, the steps that count by their names;
    a single one from its first to its last device work, since nothing shows where the one before it ended."""
    if len(timeline.unions.windows) != 1:
        return frame(SHARED_COLUMNS)
    ((clock, whole),) = timeline.unions.windows.items()
    rounds = {(PHASE, name): by_clock[clock] for name, by_clock in marked.windows.items() if clock in by_clock}
    counted, of_steps = steps.table[steps.table["left_out"].isna()], {}
    for name, its in counted.groupby("name", sort=False):
        is_single = len(its) == 1 and its["device_start_ps"].notna().all()
        edges = ["device_start_ps", "device_end_ps"] if is_single else ["start_ps", "end_ps"]
        of_steps[STEP, str(name)] = its[edges].to_numpy(np.int64)
    stepped = timeline if is_steady else looked_at
    return pd.concat(
        [shared_busy(timeline, {(WHOLE, ""): whole, **rounds}), shared_busy(stepped, of_steps)], ignore_index=True
    )


def _main_phase(phase_results: Phases, compared: Collection[str]) -> dict[str, Any] | None:
    """The row of the longest phase that a report is about; None where it is about none, or compares some."""
    table = phase_results.table
    if not len(compared) or table["compared_with"].notna().any():
        return None
    return max((row for row in records(table) if row["name"] in compared), key=lambda row: int(row["wall_ps"]))


def _of_phase(
    timeline: Timeline,
    phase_results: Phases,
    row: dict[str, Any],
    inside: Breakdown,
    busy: dict[str, Any] | None,
) -> str:
    """The verdict on a phase, a `row` of its table; `busy` is the load of other processes that took its cores."""
    return verdict.phase(
        row,
        inside,
        phase_results.stretch[phase_results.stretch["name"] == row["name"]],
        too_few_cores(timeline.trace, timeline.unions),
        busy,
        one_rank(timeline),
        None if busy is not None else _busy_alone(timeline, phase_results, row),
    )


def _busy_alone(timeline: Timeline, phase_results: Phases, row: dict[str, Any]) -> dict[str, Any] | None:
    """The machine's load in the first of the phases that one is compared with in which other processes took cores that
    it needed; None in none."""
    if pd.isna(row["speedup"]) or not (timeline.trace.capture or {}).get("machine"):
        return None
    for name in str(row["compared_with"]).split(", "):  # phase names hold no comma
        # Apart from the others: each needs the cores of its own devices.
        if (rounds := compared_rounds(phase_results, (name,))) is not None:
            load = machine(timeline.inside(rounds)).during(name)
            if load is not None:
                return load
    return None


def headline(whole_timeline: Timeline, part: Part) -> str:
    """What the headline of the report of a `part` finds, without the words for the part, and from the few analyses that
    it takes: most of the time of a report goes to others."""
    timeline, phase_results, compared, looked_at, is_steady = _scope(
        whole_timeline, part, _marked(whole_timeline, part)
    )
    if lacking := no_device_work(timeline):
        return lacking
    reasons = _Reasons(looked_at)
    if reasons.completeness.shares:
        return verdict.PARTIAL
    cores, load = too_few_cores(timeline.trace, timeline.unions), machine(looked_at)
    inside = {name: breakdown(timeline.inside(phase_results.windows[name]), name) for name in compared}
    busy = [name for name in compared if load.during(name) is not None]
    of_phases = verdict.headline(phase_results.table, inside, cores, busy)
    if of_phases:
        return of_phases
    if main := _main_phase(phase_results, compared):
        name = main["name"]
        return f"{name}: {_of_phase(timeline, phase_results, main, inside[name], load.during(name))}"
    judged = breakdown(looked_at, STEADY) if is_steady else breakdown(timeline, part.name or None)
    of_whole = verdict.whole(judged, cores, reasons, one_rank(timeline))
    return (_of_steady(of_whole, timeline) if is_steady else of_whole)[0]


@dataclass(frozen=True)
class _Reasons:
    """The analyses that a verdict asks for, of a timeline, each made when it is asked for."""

    timeline: Timeline

    @cached_property
    def completeness(self) -> Completeness:
        return completeness(self.timeline)

    @cached_property
    def collectives(self) -> Collectives:
        return collectives(self.timeline, self.completeness.waiting)

    @cached_property
    def idle(self) -> Idle:
        return withheld(self.completeness.rows or self.timeline.left_out, idle, self.timeline)

    @property
    def steps(self) -> StepBoundaries:
        return self.timeline.steps


class _Scope(NamedTuple):
    """What a report is about: a part of a trace with its `phases`, of which some are `compared`.

    Reasons are asked of what is compared, `looked_at`: elsewhere devices may stand idle on purpose. Where none is, that
    is all phases, if compiling around them hides what they did; and of a trace that marks no phases the steady steps
    (`is_steady`), where these are to be told apart.
    """

    timeline: Timeline
    phases: Phases
    compared: tuple[str, ...]
    looked_at: Timeline
    is_steady: bool


def _scope(whole_timeline: Timeline, part: Part, marked: Phases) -> _Scope:
    timeline = part.of(whole_timeline)
    inside = marked if part.is_whole else marked.inside(timeline.unions.windows)
    is_compared = inside.table["compared_with"].notna()
    compared = tuple(sorted(set(inside.table.loc[is_compared, "name"]) & set(inside.windows)))
    if (rounds := compared_rounds(inside, compared)) is not None:
        return _Scope(timeline, inside, compared, timeline.inside(rounds), False)
    # Who asks for a part of the trace, or marks phases, has told compiling and warm-up apart.
    if (rounds := compared_rounds(inside, tuple(inside.windows))) is not None and part.windows is None:
        times = {str(clock): its[["start_ps", "end_ps"]].to_numpy(np.int64) for clock, its in rounds.groupby("clock")}
        if hides(sum(compiled_outside(timeline, times).values()), timeline):
            return _Scope(timeline, inside, tuple(sorted(inside.windows)), timeline.inside(rounds), False)
    windows = None if part.windows is not None or len(inside.table) else steady_windows(timeline)
    looked_at = timeline.narrowed(windows, part.devices) if windows else timeline
    return _Scope(timeline, inside, compared, looked_at, bool(windows))


def steady_windows(timeline: Timeline) -> Mapping[str, Intervals] | None:
    """The time of the steady steps, by clock, where it is to be told apart and all of their work is known."""
    known = completeness(timeline)
    return None if known.rows or known.shares else steady(timeline)


def _around(timeline: Timeline, looked_at: Timeline) -> tuple[Task, ...]:
    """What is asked of the steady steps, `looked_at`, and of the trace around them besides."""
    of_whole = Task("idle around", lambda: withheld(timeline.left_out, idle, timeline))
    return Task("steady", lambda: breakdown(looked_at, STEADY)), of_whole


def _of_steady(sentences: Sequence[str], timeline: Timeline) -> tuple[str, ...]:
    """The verdict on the steady steps of a timeline, which first says what they are."""
    steps, outside_ps = counted_steps(timeline), max(compiled_outside(timeline).values(), default=0)
    return (f"Steady {steady_words(steps)} ({aside_words(steps, outside_ps)}): {sentences[0]}", *sentences[1:])


def _compiled(steps: pd.DataFrame, whole: Breakdown, idle_around: Idle) -> Finding | None:
    """The finding on what compiled around the steady steps; `steps` is the table of all."""
    first = steps.index[steps["left_out"].isna()].min()
    again = steps.loc[(steps["left_out"] == "compiles") & (steps.index > first), "step"].dropna()
    return compiled(whole.partition, idle_around, again.tolist())


def _marked(
    whole_timeline: Timeline,
    part: Part,
    names: Sequence[str] = (),
    alone: Sequence[str] = (),
    baseline: str | None = None,
) -> Phases:
    """The phases of a trace, on the devices of a `part`."""
    # One that was chosen is a phase too, but not the last, which is what others are compared with.
    named = names if part.phase is None or part.phase in names else [part.phase, *names]
    timeline = whole_timeline if part.devices is None else part.of(whole_timeline).whole
    if named or alone or baseline:
        return phases_of(timeline, named, alone, baseline)
    return timeline.once("phases", lambda: phases_of(timeline))


def _no_phase(name: str, source: str, phases: Sequence[str]) -> str:
    if name in phases:
        return f"{source} holds no annotation {name!r}. {listed(source)}"
    return f"{name!r} is no phase of {source}. Name it with --as-phase too, before the phase that is compared with it."


def _outside(names: Sequence[str]) -> list[str]:
    """The note on phases that a part of the trace does not hold."""
    if not names:
        return []
    return [f"Left out, as not all of their time is in this part of the trace: {', '.join(names)}."]


def _origin(timeline: Timeline) -> Origin:
    trace = timeline.trace
    rows = timeline.rows
    hosts = {*rows.hosts, *map(str, trace.hosts["host"].unique())}
    devices, kinds = rows.labels("device"), rows.labels("kind")
    number = np.ones(len(rows), np.int64) if rows.count is None else rows.count
    pair = rows.codes("device") * len(kinds) + rows.codes("kind")
    counts = np.array(iv.sums(number, pair, len(devices) * len(kinds)), np.int64).reshape(-1, len(kinds))
    device, kind = np.nonzero(counts)
    return Origin(
        source=trace.source,
        format=trace.format,
        hosts=tuple(sorted(hosts)),
        runs=trace.runs,
        models=tuple(sorted({str(model) for model in trace.devices["model"].dropna().unique()})),
        clocks=frame(CLOCK_COLUMNS, {column: trace.hosts[column].astype(object) for column in CLOCK_COLUMNS}),
        events=pd.DataFrame(
            {
                "device": pd.array([devices[code] for code in device], "str"),
                "kind": pd.array([kinds[code] for code in kind], "str"),
                "events": counts[device, kind],
            }
        ),
        commit=_commit(trace),
    )


def _commit(trace: Trace) -> str:
    commit = (trace.capture or {}).get("commit")
    return commit if isinstance(commit, str) and _COMMIT.fullmatch(commit) else ""


def _cpus(unions: Unions) -> list[str]:
    return [name for name in unions.devices if type_of(name) == "cpu"]


def too_few_cores(trace: Trace, unions: Unions) -> float | None:
    """The usable cores, where they are fewer than the CPU devices that share them; None also where that is unknown."""
    cores = (trace.capture or {}).get("usable_cores")
    return cores if isinstance(cores, int | float) and len(_cpus(unions)) > max(cores, 1) else None


def _notes(trace: Trace, unions: Unions) -> list[str]:
    """What a reader of the figures must know about CPU devices, which are threads that share cores."""
    cpus, cores = _cpus(unions), too_few_cores(trace, unions)
    notes = []
    form = formats.by_name(trace.format)
    if form and form.xla and any(len(unions.devices[name].collective) for name in cpus):
        notes.append(
            "On CPU devices a collective seldom runs beside compute, and whether it does is XLA's choice: "
            "an overlap of 0 there says nothing of the program on accelerators."
        )
    if cores is not None:
        notes.append(
            f"{len(cpus)} CPU devices share {cores:g} cores: where more than {cores:g} are busy at once, "
            "their overlap is time-sharing, not parallelism. Judge by speedup and stretch."
        )
    elif len(cpus) > 1:
        notes.append(
            "CPU devices share the machine's cores, and one operation may use several: "
            "overlap there is parallelism only to the extent shown by speedup and stretch."
        )
    return notes
