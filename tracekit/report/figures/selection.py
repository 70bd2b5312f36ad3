"""What figures show: a selection of a trace, and the exact results of the analyses inside it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from tracekit import intervals as iv
from tracekit.analysis.completeness import unknown_shares
from tracekit.analysis.overlap import Breakdown, breakdown
from tracekit.analysis.phases import Phases, phases
from tracekit.columns import records
from tracekit.errors import TracekitError
from tracekit.files import trace_name
from tracekit.report.build import analyse, too_few_cores
from tracekit.report.model import Report
from tracekit.report.sections import verdict
from tracekit.report.trace_contents import no_device_work
from tracekit.timeline.timeline import Source, Timeline, timeline_of
from tracekit.timeline.unions import Unions
from tracekit.trace import Trace
from tracekit.units import exact

# So many names are listed to a user who asked for another.
_MOST_NAMES = 12


@dataclass(frozen=True)
class Selection:
    """A part of a trace; figures lay its windows end to end, from 0.

    `timeline` is the trace inside the windows. `phases` are the rounds of its phases: clock, name, start_ps, end_ps.
    `headline` gives that of a report of it, or "". The axis of time begins at `start_ps`, and `axis` says what that
    counts from. `name` is what files are named after, "" for the whole; `where` says which part it is, `phase` which
    phase, if it is one; `lacking` why there is nothing to draw, `partial` why it holds too little of what ran for any
    share of time.
    """

    timeline: Timeline
    phases: pd.DataFrame
    start_ps: int
    axis: str
    name: str = ""
    where: str = ""
    phase: str | None = None
    headline: Callable[[], str] = str
    lacking: str = ""
    partial: str = ""

    @property
    def trace(self) -> Trace:
        """The whole trace."""
        return self.timeline.trace

    @property
    def unions(self) -> Unions:
        """The unions inside the windows."""
        return self.timeline.unions

    @property
    def aligned(self) -> bool:
        """Whether all devices are on one clock."""
        return len(self.unions.windows) < 2

    @property
    def length_ps(self) -> int:
        """How long it is; of several clocks the longest."""
        return max(map(iv.total, self.unions.windows.values()), default=0)

    @property
    def subtitle(self) -> str:
        """Which trace it is, by its name, and which part of it."""
        source = self.trace.source.replace("\0", "")
        name = trace_name(Path(source)) if source else ""
        return ", ".join(part for part in (name, self.where) if part)

    @property
    def breakdown(self) -> Breakdown:
        """What the analyses say of it."""
        return self.timeline.once(f"breakdown {self.name!r}", lambda: breakdown(self.timeline, self.name))

    @cached_property
    def finding(self) -> str:
        """The verdict on it, in a sentence."""
        few_cores = too_few_cores(self.trace, self.unions)
        sentence = (
            self.headline()
            or self.lacking
            or (verdict.PARTIAL if self.partial else verdict.whole(self.breakdown, few_cores)[0])
        )
        return sentence.removesuffix(".")

    def unplaced(self, outcome: str) -> list[str]:
        """The sentence on copies whose device the trace does not name, and what becomes of them, if there are any."""
        if not self.unions.unplaced:
            return []
        names = ", ".join(self.unions.unplaced)
        return [f"Copies on {names} {outcome}: the trace does not say which device they ran on."]


@dataclass(frozen=True)
class _Whole:
    """What the selections of a trace share: `origin` is by clock the time in ps that axes count from.

    `extent` is from the first phase to the last, None without phases or on several clocks.
    """

    timeline: Timeline
    phases: Phases
    extent: tuple[int, int] | None
    origin: Mapping[str, int]

    @property
    def counted_from(self) -> str:
        """What stands at 0 of an axis."""
        if self.extent:
            return "the start of the first phase"
        return "the first device work" if len(self.timeline.unions.windows) < 2 else "each clock's first device work"

    @property
    def source(self) -> str:
        """What an error calls the trace."""
        return self.timeline.trace.source or "The trace"


def select(
    source: Source,
    report: Report | None = None,
    *,
    phase: str | None = None,
    step: int | None = None,
    start_ps: int | None = None,
    end_ps: int | None = None,
) -> Selection:
    """What to show of a trace: all of it, all rounds of one phase (or annotation), one step, or [start_ps, end_ps).

    The whole begins with the first phase and ends with the last, where there are phases. A range counts from there
    too, or else from the first device work, and may begin before it. Raises TracekitError where the trace has no such
    phase, step or range: the sentence names what there is. The phases and the headline of its `report` are taken where
    that is at hand.
    """
    if (phase is not None) + (step is not None) + (start_ps is not None or end_ps is not None) > 1:
        raise TracekitError("A figure shows one part of a trace: give one of a phase, a step and a range of time.")
    whole = _whole(timeline_of(source), report, phase)
    if phase is not None:
        return _phase(whole, phase)
    if step is not None:
        return _step(whole, step)
    if start_ps is not None or end_ps is not None:
        return _range(whole, start_ps, end_ps)
    windows = dict.fromkeys(whole.timeline.unions.windows, np.array([whole.extent])) if whole.extent else None
    timeline = whole.timeline

    def headline() -> str:
        return report.headline if report else timeline.once("headline", lambda: analyse(timeline).headline)

    where = "from the first phase to the last" if whole.extent else ""
    return replace(_selection(whole, windows), where=where, headline=headline)


def _whole(timeline: Timeline, report: Report | None, phase: str | None) -> _Whole:
    windows = timeline.unions.windows
    marked = report.phases if report else timeline.once("phases", lambda: phases(timeline))
    extent = marked.extent if len(windows) == 1 else None
    origin = {clock: extent[0] if extent else int(window[0, 0]) for clock, window in windows.items()}
    if phase is not None and phase not in marked.windows:
        names = [*marked.windows, phase]
        marked = timeline.once(f"phases {names}", lambda: phases(timeline, names))
    return _Whole(timeline, marked, extent, origin)


def _selection(whole: _Whole, windows: Mapping[str, iv.Intervals] | None) -> Selection:
    """The whole inside `windows`, by clock, on the axis of the whole."""
    inside = whole.timeline if windows is None else whole.timeline.inside(windows)
    by_clock = inside.unions.windows
    starts = [int(of[0, 0]) - whole.origin.get(clock, 0) for clock, of in by_clock.items() if len(of)]
    lacking = no_device_work(inside.trace) or ""
    if not lacking and not any(map(len, by_clock.values())):
        lacking = "No device is on the clock of this selection."
    axis = f"time since {whole.counted_from}"
    partial = whole.timeline.once("unknown shares", lambda: unknown_shares(whole.timeline))
    return Selection(inside, whole.phases.rounds, min(starts, default=0), axis, lacking=lacking, partial=partial)


def _phase(whole: _Whole, name: str) -> Selection:
    windows = whole.phases.windows.get(name)
    if windows is None:
        raise TracekitError(f"{whole.source} has no phase or annotation {name!r}. {_phases_of(whole)}")
    rounds = max(len(of) for of in windows.values())
    laid_out = max(len(iv.union(of)) for of in windows.values()) > 1
    where, axis = f"phase {name}", "time since the start of the phase"
    if rounds > 1:
        where = f"{rounds} rounds of {where}{', end to end' if laid_out else ''}"
        axis = "time within the rounds of the phase"
    elif len(windows) == 1 and whole.origin:
        ((clock, window),) = windows.items()
        where += f", {_span(whole, clock, window[0])}"
    selection = _selection(whole, windows)
    return replace(selection, start_ps=0, axis=axis, name=f"phase {name}", where=where, phase=name)


def _span(whole: _Whole, clock: str, window: Sequence[int]) -> str:
    """From when to when, as an axis of the whole counts."""
    start, end = (int(edge) - whole.origin.get(clock, 0) for edge in window)
    return f"from {exact(start)} to {exact(end)}"


def _phases_of(whole: _Whole) -> str:
    """The sentence that names the phases there are."""
    names = list(phases(whole.timeline).windows)
    if not names:
        return "It marks no phases; --phase also takes the name of any annotation (tracekit read lists some)."
    return f"Its phases are {_enumerated([repr(name) for name in names])}."


def _enumerated(names: Sequence[str]) -> str:
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _step(whole: _Whole, step: int) -> Selection:
    steps = whole.timeline.steps
    if steps.lacking:
        raise TracekitError(f"{whole.source} has no steps: {steps.lacking}")
    table = steps.table[(steps.table["step"] == step).fillna(False).to_numpy(bool)]
    if not len(table):
        raise TracekitError(f"{whole.source} has no step {step}. Its steps are {_numbers(steps.table)}.")
    if table["clock"].duplicated().any():
        each = [
            f"{row['name']}, {_span(whole, row['clock'], (row['start_ps'], row['end_ps']))}" for row in records(table)
        ]
        raise TracekitError(
            f"{whole.source} has several steps {step}: {_enumerated(each)}. Say which with --from and --to."
        )
    windows = {row["clock"]: np.array([[row["start_ps"], row["end_ps"]]], np.int64) for row in records(table)}
    where = f"step {step} ({table['name'].iloc[0]})"
    if len(windows) == 1:
        ((clock, window),) = windows.items()
        where += f", {_span(whole, clock, window[0])}"
    axis = "time since the start of the step"
    return replace(_selection(whole, windows), start_ps=0, axis=axis, name=f"step {step}", where=where)


def _numbers(table: pd.DataFrame) -> str:
    """The numbers of the steps by name: `0 to 9 (train)`, or one by one where some are missing."""
    parts = []
    for name, steps in table.groupby("name", sort=False):
        numbers = sorted(set(steps["step"].dropna().tolist()))
        gapless = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
        words = f"{numbers[0]} to {numbers[-1]}" if gapless else _enumerated([str(number) for number in numbers])
        parts.append(f"{words} ({name})")
    return _enumerated(parts)


def _range(whole: _Whole, start_ps: int | None, end_ps: int | None) -> Selection:
    if not whole.timeline.unions.windows:
        return _selection(whole, None)
    extents = {
        clock: (int(of[0, 0]) - whole.origin[clock], int(of[-1, 1]) - whole.origin[clock])
        for clock, of in whole.timeline.unions.windows.items()
    }
    low, high = min(first for first, _ in extents.values()), max(last for _, last in extents.values())
    start, end = low if start_ps is None else start_ps, high if end_ps is None else end_ps
    valid = f"The trace lasts from {exact(low)} to {exact(high)}, counted from {whole.counted_from}."
    if not low <= start < high:
        raise TracekitError(f"The range from {exact(start)} on is outside the trace. {valid}")
    if end <= start:
        raise TracekitError(f"The range from {exact(start)} to {exact(end)} is empty. {valid}")
    # The end of an axis is often read a little too far.
    end = min(end, high)
    windows = {
        clock: iv.clip(np.array([[start, end]], np.int64), extent) + whole.origin[clock]
        for clock, extent in extents.items()
    }
    where = f"from {exact(start)} to {exact(end)}"
    return replace(_selection(whole, windows), name=where, where=where)
