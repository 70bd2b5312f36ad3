"""Assemble one result from a trace: every figure that any renderer shows is computed here, once."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.analysis import advice
from tracekit.analysis import classification as known
from tracekit.analysis import overlap as overlaps
from tracekit.analysis import partition as partitions
from tracekit.analysis import phases as phasing
from tracekit.analysis.explain import Reasons, explaining
from tracekit.columns import records
from tracekit.devices import type_of
from tracekit.readers import formats
from tracekit.report.section import Section
from tracekit.report.sections import missing, verdict
from tracekit.report.sections.sections import sections
from tracekit.timeline.rows import CODE, Rows, rows
from tracekit.timeline.unions import Unions, unions
from tracekit.trace import Trace
from tracekit.vocabulary.kinds import Kind


@dataclass(frozen=True)
class Stretch:
    """What ran in one stretch of the trace: the whole, or the windows of one phase.

    `waiting_ratio` is the part of the collectives begun in it that was spent waiting for a peer: the sum of their
    `wait_ps` over the sum of their durations, None where the trace shows no waits.
    """

    name: str
    partition: pd.DataFrame
    overlap: pd.DataFrame
    pairs: pd.DataFrame
    concurrency: pd.DataFrame
    waiting_ratio: float | None

    @property
    def parallelism(self) -> float | None:
        """Sum of the devices' busy times over the time in which any was busy; null if none ever was, or if that is not
        known, since their clocks are not aligned."""
        any_busy = int(self.concurrency["time_ps"][1:].sum())
        return int(self.partition["busy_ps"].sum()) / any_busy if any_busy else None


@dataclass(frozen=True)
class Report:
    """Everything a report says.

    `marks` are the rounds of the phases; `phases` and `stretch` are as analysis.phases gives them.
    `windows` are the windows of the whole trace by clock, each of shape (1, 2) in ps; none without device rows.
    `shown` is the part of the trace that the timeline shows, [start, end) in ps: from the first phase to the last
    end of one, None (all of it) where there are no phases or several clocks.
    `known_by` and `guessed` say how the kind of the work is known, as analysis.known gives them. The `reasons` and
    the `advice` are those of the `compared` phases, or of the whole trace without any.
    """

    trace: Trace
    windows: Mapping[str, iv.Intervals]
    whole: Stretch
    marks: pd.DataFrame
    phases: pd.DataFrame
    stretch: pd.DataFrame
    inside: dict[str, Stretch]
    verdicts: dict[str, str]
    headline: str
    notes: tuple[str, ...]
    shown: tuple[int, int] | None
    known_by: pd.DataFrame
    guessed: pd.DataFrame
    reasons: Reasons
    advice: advice.Advice
    compared: tuple[str, ...]

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The reasons and the advice as the report shows them, those without evidence among them."""
        return sections(self.reasons, self.advice)

    def __repr__(self) -> str:
        return notebook.line(self, self.headline)

    def _repr_html_(self) -> str:
        from tracekit.report.notebook_html import html  # a renderer, which stands above what it shows

        return html(self)


def build(trace: Trace, phases: Sequence[str] = (), alone: Sequence[str] = (), baseline: str | None = None) -> Report:
    """The report of `trace`.

    `phases` names annotations to take as phases too, the last of them compared with `alone` or `baseline`.
    """
    sorted_rows = rows(trace.events)
    marks = phasing.marked(trace.spans, phases, alone, baseline)
    table, stretch = phasing.phases(marks, sorted_rows)
    windows = phasing.windows(marks, sorted_rows)
    # Reasons are asked of what is compared: elsewhere devices may stand idle on purpose.
    compared = windows.keys() & set(table.loc[table["compared_with"].notna(), "name"])
    rounds = _rounds({name: windows[name] for name in windows if name in compared})
    with ThreadPoolExecutor(1) as beside:
        reasons = explaining(trace, sorted_rows, None, rounds, beside)
        seen = unions(sorted_rows)
        inside = {name: _stretch(name, seen.inside(window), sorted_rows) for name, window in windows.items()}
        whole = _stretch("whole trace", seen, sorted_rows)
        told, guesses = known.known_by(sorted_rows), known.guessed(sorted_rows)
        found = reasons()
    cells = whole.partition if rounds is None else partitions.partition(found.seen)
    cores = too_few_cores(trace, seen)
    verdicts = {
        row["name"]: verdict.phase(row, inside[row["name"]], stretch[stretch["name"] == row["name"]], cores)
        for row in records(table)
    }
    # Without device work there is one thing to say, whatever the phases are.
    lacking = missing.device_work(trace)
    if lacking or not verdicts:
        verdicts = {whole.name: lacking or verdict.whole(whole, cores)} | verdicts
    return Report(
        trace=trace,
        windows=seen.windows,
        whole=whole,
        marks=phasing.rounds(marks, sorted_rows),
        phases=table,
        stretch=stretch,
        inside=inside,
        verdicts=verdicts,
        headline=lacking or verdict.headline(table, inside, cores) or verdict.whole(whole, cores),
        notes=(*trace.notes, *_notes(trace, seen)),
        shown=iv.span([one for window in windows.values() for one in window.values()])
        if len(seen.windows) < 2
        else None,
        known_by=told,
        guessed=guesses,
        reasons=found,
        advice=_advice(whole, found, cells, table, inside, stretch),
        compared=tuple(sorted(compared)),
    )


def _rounds(windows: Mapping[str, Mapping[str, iv.Intervals]]) -> pd.DataFrame | None:
    """The rounds of phases, by name and clock, as a table for `explaining`; None without any."""
    rounds = [
        (clock, name, int(start), int(end))
        for name, by_clock in windows.items()
        for clock, each in by_clock.items()
        for start, end in each
    ]
    return pd.DataFrame(rounds, columns=["clock", "name", "start_ps", "end_ps"]) if rounds else None


def _advice(
    whole: Stretch,
    found: Reasons,
    cells: pd.DataFrame,
    phases: pd.DataFrame,
    inside: Mapping[str, Stretch],
    stretch: pd.DataFrame,
) -> advice.Advice:
    """What every rule says: of the compared phases, or of the whole trace where there are none; `cells` is the
    partition of what `found` saw."""
    return advice.advice(
        [
            advice.exposed_collectives(cells, found.collectives.total),
            advice.late_peer(found.collectives.by_device, cells),
            advice.exposed_copies(cells, found.seen),
            advice.copies_in_compute_lane(found.rows, cells),
            advice.pageable_copies(found.rows, cells),
            *advice.idle(found.idle.by_device, cells),
            *advice.contention(phases, {name: one.pairs for name, one in inside.items()}, stretch),
            None if len(phases) else advice.took_turns(cells, whole.pairs),
        ],
        found.rows,
    )


def _stretch(name: str, seen: Unions, sorted_rows: Rows) -> Stretch:
    return Stretch(
        name,
        partitions.partition(seen),
        overlaps.overlap(seen),
        overlaps.device_pairs(seen),
        overlaps.concurrency(seen),
        _waiting_ratio(seen, sorted_rows),
    )


def _waiting_ratio(seen: Unions, sorted_rows: Rows) -> float | None:
    wait, known = sorted_rows.numbers("wait_ps")
    at = np.flatnonzero((sorted_rows.kind == CODE[Kind.COLLECTIVE]) & known)
    starts = sorted_rows.start[at]
    clocks = np.array(sorted_rows.clocks, object)[sorted_rows.device[at]]
    inside = np.zeros(len(at), bool)
    for clock, windows in seen.windows.items():
        window = np.searchsorted(windows[:, 0], starts, side="right") - 1
        if len(windows):
            inside |= (clocks == clock) & (window >= 0) & (starts < windows[:, 1][window])
    at = at[inside]
    lasted = iv.sum_exactly(sorted_rows.end[at] - sorted_rows.start[at])
    return iv.sum_exactly(wait[at]) / lasted if lasted else None


def _cpus(seen: Unions) -> list[str]:
    return [name for name in seen.devices if type_of(name) == "cpu"]


def too_few_cores(trace: Trace, seen: Unions) -> float | None:
    """The usable cores, where they are fewer than the CPU devices that share them; None also where that is unknown."""
    cores = (trace.capture or {}).get("usable_cores")
    return cores if isinstance(cores, int | float) and len(_cpus(seen)) > max(cores, 1) else None


def _notes(trace: Trace, seen: Unions) -> list[str]:
    """What a reader of the figures must know about CPU devices, which are threads that share cores."""
    cpus, cores = _cpus(seen), too_few_cores(trace, seen)
    notes = []
    known = formats.named(trace.format)
    if known and known.xla and any(len(seen.devices[name].collective) for name in cpus):
        notes.append(
            "A CPU device runs one operation at a time, so a collective is never behind compute there: "
            "its overlap of 0 is a property of the backend, not of the program."
        )
    if cores is not None:
        notes.append(
            f"{len(cpus)} CPU devices share {cores:g} cores: where more than {cores:g} are busy at once, "
            "their overlap is time-sharing, not parallelism. Judge by speedup and stretch."
        )
    elif len(cpus) > 1:
        notes.append(
            "CPU devices share the machine's cores, and one operation may use several: "
            "overlap there is parallelism only as far as speedup and stretch say so."
        )
    return notes
