"""Assemble one result from a trace: every figure that any renderer shows is computed here, once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit import intervals as iv
from tracekit.analysis import known
from tracekit.analysis import overlap as overlaps
from tracekit.analysis import partition as partitions
from tracekit.analysis import phases as phasing
from tracekit.report import missing, verdict
from tracekit.rows import clock_of_hosts
from tracekit.trace import Kind, Trace, records
from tracekit.unions import Unions, unions

# Formats in which a CPU device is XLA's: a queue that runs one operation at a time.
_XLA = ("xplane", "jax-json")


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
    `known_by` and `guessed` say how the kind of the work is known, as analysis.known gives them.
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


def build(trace: Trace, phases: Sequence[str] = (), alone: Sequence[str] = (), baseline: str | None = None) -> Report:
    """The report of `trace`.

    `phases` names annotations to take as phases too, the last of them compared with `alone` or `baseline`.
    """
    seen = unions(trace.events)
    marks = phasing.marked(trace.spans, phases, alone, baseline)
    table, stretch = phasing.phases(marks, trace.events)
    windows = phasing.windows(marks, trace.events)
    inside = {name: _stretch(name, seen.inside(window), trace.events) for name, window in windows.items()}
    whole = _stretch("whole trace", seen, trace.events)
    cores = _too_few_cores(trace, seen)
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
        marks=phasing.rounds(marks, trace.events),
        phases=table,
        stretch=stretch,
        inside=inside,
        verdicts=verdicts,
        headline=lacking or verdict.headline(table, inside, cores) or verdict.whole(whole, cores),
        notes=(*trace.notes, *_notes(trace, seen)),
        shown=iv.span([one for window in windows.values() for one in window.values()])
        if len(seen.windows) < 2
        else None,
        known_by=known.known_by(trace.events),
        guessed=known.guessed(trace.events),
    )


def _stretch(name: str, seen: Unions, events: pd.DataFrame) -> Stretch:
    return Stretch(
        name,
        partitions.partition(seen),
        overlaps.overlap(seen),
        overlaps.device_pairs(seen),
        overlaps.concurrency(seen),
        _waiting_ratio(seen, events),
    )


def _waiting_ratio(seen: Unions, events: pd.DataFrame) -> float | None:
    rows = events[(events["kind"] == Kind.COLLECTIVE.value).to_numpy() & events["wait_ps"].notna().to_numpy()]
    if len(rows) == 0:
        return None
    starts = rows["start_ps"].to_numpy()
    clocks = rows["host"].map(clock_of_hosts(rows)).to_numpy(object)
    inside = np.zeros(len(rows), bool)
    for clock, windows in seen.windows.items():
        at = np.searchsorted(windows[:, 0], starts, side="right") - 1
        if len(windows):
            inside |= (clocks == clock) & (at >= 0) & (starts < windows[:, 1][at])
    rows = rows[inside]
    lasted = int((rows["end_ps"] - rows["start_ps"]).sum())
    return int(rows["wait_ps"].sum()) / lasted if lasted else None


def _cpus(seen: Unions) -> list[str]:
    return [name for name in seen.devices if name.rpartition("/")[2].startswith("cpu:")]


def _too_few_cores(trace: Trace, seen: Unions) -> float | None:
    """The usable cores, where they are fewer than the CPU devices that share them; None also where that is unknown."""
    cores = (trace.capture or {}).get("usable_cores")
    return cores if isinstance(cores, int | float) and len(_cpus(seen)) > max(cores, 1) else None


def _notes(trace: Trace, seen: Unions) -> list[str]:
    """What a reader of the figures must know about CPU devices, which are threads that share cores."""
    cpus, cores = _cpus(seen), _too_few_cores(trace, seen)
    notes = []
    if trace.format in _XLA and any(len(seen.devices[name].collective) for name in cpus):
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
