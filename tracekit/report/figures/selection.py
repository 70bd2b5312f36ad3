"""What figures show: a stretch of a trace, and the exact results of the analyses inside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from tracekit import intervals as iv
from tracekit.analysis import overlap as overlaps
from tracekit.analysis import partition as partitions
from tracekit.analysis import phases as phasing
from tracekit.columns import records
from tracekit.errors import TracekitError
from tracekit.report.build import Report, Stretch, too_few_cores
from tracekit.report.sections import missing, verdict
from tracekit.timeline import launches as links
from tracekit.timeline.rows import Rows, rows
from tracekit.timeline.steps import boundaries
from tracekit.timeline.unions import Unions, unions
from tracekit.trace import Trace
from tracekit.units import exact

# So many names are listed to a user who asked for another.
_LISTED = 12


@dataclass(frozen=True)
class View:
    """A stretch of a trace; figures lay its windows end to end, from 0.

    `seen` are the unions inside the windows. `marks` are the rounds of the trace's phases: clock, name, start_ps,
    end_ps. Their axis begins at `start_ps`, and `axis` says what that counts. `name` is what files are named after,
    "" for the whole; `where` says which stretch it is; `lacking` why there is nothing to draw.
    """

    trace: Trace
    seen: Unions
    marks: pd.DataFrame
    start_ps: int
    axis: str
    name: str = ""
    where: str = ""
    headline: str = ""
    lacking: str = ""

    @property
    def aligned(self) -> bool:
        """Whether all devices are on one clock."""
        return len(self.seen.windows) < 2

    @property
    def length_ps(self) -> int:
        """How long the stretch is; of several clocks the longest."""
        return max(map(iv.total, self.seen.windows.values()), default=0)

    @property
    def subtitle(self) -> str:
        """Which trace it is, and which part of it."""
        return ", ".join(part for part in (self.trace.source, self.where) if part)

    @cached_property
    def stretch(self) -> Stretch:
        """What the analyses say of it."""
        return Stretch(
            self.name,
            partitions.partition(self.seen),
            overlaps.overlap(self.seen),
            overlaps.device_pairs(self.seen),
            overlaps.concurrency(self.seen),
            None,
        )

    @cached_property
    def finding(self) -> str:
        """The verdict on it, in a sentence."""
        said = self.headline or self.lacking or verdict.whole(self.stretch, too_few_cores(self.trace, self.seen))
        # Names of devices stay as they are.
        said = said[0].upper() + said[1:] if said.startswith(("only ", "no ")) else said
        return said.removesuffix(".")


@dataclass(frozen=True)
class _Whole:
    """A trace as its views see it: `origin` is by clock the time in ps that axes count from."""

    trace: Trace
    rows: Rows
    seen: Unions
    marked: pd.DataFrame
    marks: pd.DataFrame
    shown: tuple[int, int] | None
    origin: Mapping[str, int]

    @property
    def counted_from(self) -> str:
        """What stands at 0 of an axis."""
        if self.shown:
            return "the start of the first phase"
        return "the first device work" if len(self.seen.windows) < 2 else "each clock's first device work"


def look(
    found: Trace | Report,
    *,
    phase: str | None = None,
    step: int | None = None,
    start_ps: int | None = None,
    end_ps: int | None = None,
) -> View:
    """The view of a trace: all of it, all rounds of one phase (or annotation), one step, or [start_ps, end_ps).

    The whole begins with the first phase and ends with the last, where there are phases. A range counts from there
    too, or else from the first device work, and may begin before it. Raises TracekitError where the trace has no such
    phase, step or range: the sentence names what there is.
    """
    if (phase is not None) + (step is not None) + (start_ps is not None or end_ps is not None) > 1:
        raise TracekitError("A figure shows one stretch of a trace: a phase, a step or a range of time, not several.")
    whole = _whole(found, phase)
    if phase is not None:
        return _phase(whole, phase)
    if step is not None:
        return _step(whole, step)
    if start_ps is not None or end_ps is not None:
        return _range(whole, start_ps, end_ps)
    view = _view(whole, dict.fromkeys(whole.seen.windows, np.array([whole.shown])) if whole.shown else None)
    return replace(
        view,
        where="from the first phase to the last" if whole.shown else "",
        headline=found.headline if isinstance(found, Report) else "",
    )


def _whole(found: Trace | Report, phase: str | None) -> _Whole:
    trace = found.trace if isinstance(found, Report) else found
    all_rows = rows(trace.events)
    seen = unions(all_rows)
    named = list(found.phases["name"]) if isinstance(found, Report) else []
    marked = phasing.marked(trace.spans, named)
    shown = None
    if len(marked) and len(seen.windows) == 1:
        shown = iv.span([one for by_clock in phasing.windows(marked, all_rows).values() for one in by_clock.values()])
    origin = {clock: shown[0] if shown else int(window[0, 0]) for clock, window in seen.windows.items()}
    if phase is not None and phase not in set(marked["name"]):
        marked = phasing.marked(trace.spans, [*named, phase])
    return _Whole(trace, all_rows, seen, marked, phasing.rounds(marked, all_rows), shown, origin)


def _view(whole: _Whole, windows: Mapping[str, iv.Intervals] | None, **more: str | int) -> View:
    """The whole inside `windows`, by clock."""
    seen = whole.seen if windows is None else whole.seen.inside(windows)
    starts = [int(one[0, 0]) - whole.origin.get(clock, 0) for clock, one in seen.windows.items() if len(one)]
    counted = {"start_ps": min(starts, default=0), "axis": f"time since {whole.counted_from}"}
    lacking = missing.device_work(whole.trace) or ""
    if not lacking and not any(len(one) for one in seen.windows.values()):
        lacking = "No device has a clock that this stretch is on."
    return View(whole.trace, seen, whole.marks, lacking=lacking, **{**counted, **more})  # type: ignore[arg-type]


def _phase(whole: _Whole, name: str) -> View:
    found = phasing.windows(whole.marked, whole.rows).get(name)
    if found is None:
        raise TracekitError(f"{_source(whole)} holds no phase or annotation {name!r}. {_phases_of(whole)}")
    rounds = max(len(one) for one in found.values())
    laid_out = max(len(iv.union(one)) for one in found.values()) > 1
    where, axis = f"the phase {name}", "time since the start of the phase"
    if rounds > 1:
        where = f"the {rounds} rounds of {where}{', end to end' if laid_out else ''}"
        axis = "time inside the rounds of the phase"
    elif len(found) == 1 and whole.origin:
        ((clock, window),) = found.items()
        where += f", {_span(whole, clock, window[0])}"
    return _view(whole, found, start_ps=0, axis=axis, name=f"phase {name}", where=where)


def _span(whole: _Whole, clock: str, window: Sequence[int]) -> str:
    """From when to when, as an axis of the whole counts."""
    start, end = (int(edge) - whole.origin.get(clock, 0) for edge in window)
    return f"from {exact(start)} to {exact(end)}"


def _phases_of(whole: _Whole) -> str:
    """The sentence that names the phases there are."""
    names = list(dict.fromkeys(phasing.marked(whole.trace.spans)["name"]))
    if not names:
        return "It marks no phases; --phase takes the name of any annotation, and tracekit read lists some."
    return f"Its phases are {_listed([repr(name) for name in names])}."


def _listed(names: Sequence[str]) -> str:
    if len(names) > _LISTED:
        return f"{', '.join(names[:_LISTED])} and {len(names) - _LISTED} more"
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _step(whole: _Whole, step: int) -> View:
    launch = links.launch_of(whole.rows, whole.trace.launches)
    found = boundaries.boundaries(whole.rows, whole.trace.spans, launch, whole.trace.launches)
    if found.lacking:
        raise TracekitError(f"{_source(whole)} has no steps: {found.lacking}")
    mine = found.table[(found.table["step"] == step).fillna(False).to_numpy(bool)]
    if not len(mine):
        raise TracekitError(f"{_source(whole)} has no step {step}. Its steps are {_numbers(found.table)}.")
    if mine["clock"].duplicated().any():
        each = [
            f"{row['name']}, {_span(whole, row['clock'], (row['start_ps'], row['end_ps']))}" for row in records(mine)
        ]
        raise TracekitError(
            f"{_source(whole)} has several steps {step}: {_listed(each)}. Say which with --from and --to."
        )
    windows = {row["clock"]: np.array([[row["start_ps"], row["end_ps"]]], np.int64) for row in records(mine)}
    name = str(mine["name"].iloc[0])
    where = f"step {step} ({name})"
    if len(windows) == 1:
        ((clock, window),) = windows.items()
        where += f", {_span(whole, clock, window[0])}"
    return _view(whole, windows, start_ps=0, axis="time since the start of the step", name=f"step {step}", where=where)


def _numbers(table: pd.DataFrame) -> str:
    """The numbers of the steps by name: `0 to 9 (train)`, or one by one where some are missing."""
    parts = []
    for name, its in table.groupby("name", sort=False):
        numbers = sorted(set(its["step"].dropna().tolist()))
        whole = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
        said = f"{numbers[0]} to {numbers[-1]}" if whole else _listed([str(number) for number in numbers])
        parts.append(f"{said} ({name})")
    return _listed(parts)


def _range(whole: _Whole, start_ps: int | None, end_ps: int | None) -> View:
    if not whole.seen.windows:
        return _view(whole, None)
    bounds = [
        (int(one[0, 0]) - whole.origin[on], int(one[-1, 1]) - whole.origin[on])
        for on, one in whole.seen.windows.items()
    ]
    low, high = min(first for first, _ in bounds), max(last for _, last in bounds)
    start, end = low if start_ps is None else start_ps, high if end_ps is None else end_ps
    valid = f"The trace lasts from {exact(low)} to {exact(high)}, counted from {whole.counted_from}."
    if not low <= start < high:
        raise TracekitError(f"A range from {exact(start)} on lies outside of the trace. {valid}")
    if end <= start:
        raise TracekitError(f"A range from {exact(start)} to {exact(end)} is empty. {valid}")
    # The end of an axis is often read a little too far.
    end = min(end, high)
    windows = {
        clock: iv.clip(np.array([[start, end]], np.int64) + whole.origin[clock], (int(one[0, 0]), int(one[-1, 1])))
        for clock, one in whole.seen.windows.items()
    }
    said = f"from {exact(start)} to {exact(end)}"
    return _view(whole, windows, name=said, where=said)


def _source(whole: _Whole) -> str:
    return whole.trace.source or "The trace"
