"""The part of a trace that a user asked for: all rounds of a phase, a step, a range of time; on some of its devices."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tracekit import intervals as iv
from tracekit import times
from tracekit.analysis.phases import Phases, phases
from tracekit.columns import records
from tracekit.devices import known_first
from tracekit.errors import TracekitError
from tracekit.intervals import Intervals
from tracekit.report.time_zero import COUNTED_FROM
from tracekit.timeline.timeline import Timeline
from tracekit.units import exact, time

# So many names are listed to a user who asked for another.
_MOST_NAMES = 12
FIRST_TO_LAST, PHASE_TO_PHASE = "from first start to last end", "from the first phase to the last"


def timeline_title(lengths_ps: Collection[int], where: str = "", clock: str = "", *, partial: bool = False) -> str:
    """What the timeline is called on every face: its length in ps, of several clocks the least and the most, and
    `where` it lies, by default from first start to last end; `partial` if it shows a part of what ran only."""
    lengths = " to ".join(dict.fromkeys(map(time, sorted({min(lengths_ps), max(lengths_ps)}))))
    on_clock = f", on the clock of {clock}" if clock else ""
    return f"Timeline{' of what was recorded' if partial else ''}: {lengths}, {where or FIRST_TO_LAST}{on_clock}"


@dataclass(frozen=True)
class Part:
    """A part of a trace, with the `phases` that the trace marks.

    `windows` are by clock its intervals in ps, None for all of the trace, and `devices` the only ones that count, None
    for all. `name` is what files are named after, "" for the whole; `where` says which part it is, `phase` which phase,
    if it is one. `inside` is what a sentence calls it after "in", where that is not its name. `own_axis` is what time
    counts from in a figure where several windows have no common time. `notes` say where it is not what was asked for.
    """

    phases: Phases
    windows: Mapping[str, Intervals] | None = None
    devices: tuple[str, ...] | None = None
    name: str = ""
    where: str = ""
    phase: str | None = None
    inside: str = ""
    own_axis: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the trace."""
        return self.windows is None and self.devices is None

    def of(self, timeline: Timeline) -> Timeline:
        """The timeline of this part of the trace of `timeline`."""
        if self.is_whole:
            return timeline
        windows = timeline.recorded.unions.windows if self.windows is None else self.windows
        rows = [
            (clock, self.phase or self.inside or self.name, a, b)
            for clock, of in windows.items()
            for a, b in of.tolist()
        ]
        table = pd.DataFrame(rows, columns=["clock", "name", "start_ps", "end_ps"])
        return timeline.narrowed(table.astype({"start_ps": "int64", "end_ps": "int64"}), self.devices)


def choose(
    timeline: Timeline,
    marked: Phases | None = None,
    *,
    phase: str | None = None,
    step: int | None = None,
    start: str | int | None = None,
    end: str | int | None = None,
    devices: Collection[str] = (),
    steps: tuple[int, int] | None = None,
) -> Part:
    """The part of a trace that is all rounds of one phase (or annotation), one step, or from `start` to `end`; each on
    all devices, or on `devices` only. Without any of these it is from the first to the last of `steps`, where given.

    Times are picoseconds, or text such as "1.5 s", and count from the first device work of their clock. Raises
    TracekitError where the trace has no such phase, step, range or device: the sentence names what there is. `marked`
    are its phases, where they are at hand.
    """
    start_ps, end_ps = one_part(phase, step, start, end)
    marked = marked or timeline.once("phases", lambda: phases(timeline))
    whole = _Whole(timeline, marked, timeline.first_work)
    devices = _named(whole, devices)
    if phase is not None:
        part = _phase(whole, phase)
    elif step is not None:
        part = _steps(whole, step, step)
    elif start_ps is not None or end_ps is not None:
        part = _range(whole, start_ps, end_ps)
    elif steps is not None:
        part = _steps(whole, *steps)
    else:
        part = Part(marked, inside="the trace")
    if not devices:
        return part
    chosen = tuple(name for name in sorted({*devices}, key=known_first))
    on = f"on {_enumerated(chosen)}"
    return replace(
        part,
        devices=chosen,
        name=f"{part.name} {on}".lstrip(),
        where=f"{part.where}, {on}" if part.where else on,
    )


def one_part(
    phase: str | None, step: int | None, start: str | int | None, end: str | int | None
) -> tuple[int | None, int | None]:
    """The start and the end in picoseconds; raises TracekitError where several parts are asked for at once."""
    if (phase is not None) + (step is not None) + (start is not None or end is not None) > 1:
        raise TracekitError("Give one of --phase, --step, or --from and --to: each is another part of the trace.")
    return picoseconds(start, "--from"), picoseconds(end, "--to")


def only(where: str) -> str:
    """How a headline begins that is of a part of a trace; "" where it is of all of it."""
    return f"Only {where}: " if where else ""


# How findings begin that are sentences, and no name.
_SENTENCES = ("No device ", "No two ", "Only copies ", "Only memsets ", "Of what ", "The trace ")


def headline_of(where: str, finding: str) -> str:
    """The finding on a part of a trace, or where that is "" on all of it."""
    is_sentence = where and finding.startswith(_SENTENCES)
    return f"{only(where)}{finding[0].lower()}{finding[1:]}" if is_sentence else f"{only(where)}{finding}"


def finding_of(where: str, headline: str) -> str:
    """What a headline says of a part of a trace, or where that is "" of all of it."""
    said = headline.removeprefix(only(where))
    sentence = f"{said[:1].upper()}{said[1:]}"
    return sentence if sentence.startswith(_SENTENCES) else said


def picoseconds(time: str | int | None, option: str) -> int | None:
    """A time that is text or picoseconds, in picoseconds."""
    return times.parse(time, option) if isinstance(time, str) else time


def _named(whole: "_Whole", devices: Collection[str]) -> list[str]:
    """The devices by their whole names; `gpu:3` means `rank3/gpu:3` where no other host has one of that name."""
    there = whole.timeline.rows.devices
    named = []
    for device in devices:
        meant = [device] if device in there else [name for name in there if name.endswith(f"/{device}")]
        if len(meant) > 1:
            raise TracekitError(f"{device!r} is a device of several hosts: {_enumerated(meant)}. Name one of them.")
        if not meant:
            known = f"Its devices are {_enumerated(there)}." if there else "No device of it has any work."
            raise TracekitError(f"{whole.source} has no work of a device {device!r}. {known}")
        named += meant
    return named


@dataclass(frozen=True)
class _Whole:
    """What is asked of a trace to find a part of it: `origin` is by clock the time in ps that times count from."""

    timeline: Timeline
    phases: Phases
    origin: Mapping[str, int]

    @property
    def source(self) -> str:
        """What an error calls the trace."""
        return self.timeline.trace.source or "The trace"


def _phase(whole: _Whole, name: str) -> Part:
    marked = whole.phases
    if name not in marked.windows:
        names = [*marked.windows, name]
        marked = whole.timeline.once(f"phases {names}", lambda: phases(whole.timeline, names))
    windows = marked.windows.get(name)
    if windows is None:
        raise TracekitError(f"{whole.source} has no phase or annotation {name!r}. {_phases_of(whole)}")
    rounds = max(len(of) for of in windows.values())
    where, own_axis = f"phase {name}", "time since the start of the phase"
    if rounds > 1:
        where = f"{rounds} rounds of {where}"
        own_axis = "time within the rounds of the phase"
    elif len(windows) == 1 and whole.origin:
        ((clock, window),) = windows.items()
        where += f", {_about(whole, clock, window[0])}"
    return Part(marked, windows, name=f"phase {name}", where=where, phase=name, own_axis=own_axis)


def _span(whole: _Whole, clock: str, window: Sequence[int]) -> str:
    """From when to when, as an axis of the whole counts."""
    start, end = (int(edge) - whole.origin.get(clock, 0) for edge in window)
    return f"from {exact(start)} to {exact(end)}"


def _about(whole: _Whole, clock: str, window: Sequence[int]) -> str:
    """The same to a thousandth of its length or finer, which more digits would hide."""
    digit = 10 ** max(len(str(int(window[1] - window[0]))) - 4, 0)
    origin = whole.origin.get(clock, 0)
    start, end = ((2 * (int(edge) - origin) + digit) // (2 * digit) * digit for edge in window)
    return f"from {exact(start)} to {exact(end)}"


def _phases_of(whole: _Whole) -> str:
    """The sentence that names the phases there are."""
    names = list(phases(whole.timeline).windows)
    if not names:
        return f"It marks no phases; --phase also takes the name of any annotation. {listed(whole.source)}"
    return f"Its phases are {_enumerated([repr(name) for name in names])}. {listed(whole.source)}"


def listed(source: str) -> str:
    """The sentence that says which command lists what a part of a trace can be asked for by."""
    return f"tracekit read --full {source} lists phases, steps and annotations."


def _enumerated(names: Sequence[str]) -> str:
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _steps(whole: _Whole, first: int, last: int) -> Part:
    name = f"step {first}" if first == last else f"steps {first} to {last}"
    steps = whole.timeline.steps
    if steps.lacking:
        raise TracekitError(f"{whole.source} has no steps: {steps.lacking} {listed(whole.source)}")
    table = steps.table[steps.table["step"].between(first, last).fillna(False).to_numpy(bool)]
    if not len(table):
        raise TracekitError(
            f"{whole.source} has no {name}. Its steps are {_numbers(steps.table)}. {listed(whole.source)}"
        )
    if (several := table[table.duplicated(["clock", "step"], keep=False)]).size:
        step = several["step"].iloc[0]
        each = [
            f"{row['name']}, {_span(whole, row['clock'], (row['start_ps'], row['end_ps']))}"
            for row in records(several[several["step"] == step])
        ]
        raise TracekitError(
            f"{whole.source} has several steps {step}: {_enumerated(each)}. Say which with --from and --to."
        )
    edges = table.groupby("clock", sort=False).agg(start_ps=("start_ps", "min"), end_ps=("end_ps", "max"))
    windows = {str(clock): np.array([[row.start_ps, row.end_ps]], np.int64) for clock, row in edges.iterrows()}
    where = f"{name} ({table['name'].iloc[0]})"
    if len(windows) == 1:
        ((clock, window),) = windows.items()
        where += f", {_about(whole, clock, window[0])}"
    own_axis = f"time since the start of {'the step' if first == last else f'step {first}'}"
    return Part(whole.phases, windows, name=name, where=where, own_axis=own_axis)


def _numbers(table: pd.DataFrame) -> str:
    """The numbers of the steps by name: `0 to 9 (train)`, or one by one where some are missing."""
    parts = []
    for name, steps in table.groupby("name", sort=False):
        numbers = sorted(set(steps["step"].dropna().tolist()))
        gapless = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
        words = f"{numbers[0]} to {numbers[-1]}" if gapless else _enumerated([str(number) for number in numbers])
        parts.append(f"{words} ({name})")
    return _enumerated(parts)


def _range(whole: _Whole, start_ps: int | None, end_ps: int | None) -> Part:
    if not whole.timeline.unions.windows:
        return Part(whole.phases)
    extents = {
        clock: (int(of[0, 0]) - whole.origin[clock], int(of[-1, 1]) - whole.origin[clock])
        for clock, of in whole.timeline.unions.windows.items()
    }
    low, high = min(first for first, _ in extents.values()), max(last for _, last in extents.values())
    start, end = low if start_ps is None else start_ps, high if end_ps is None else end_ps
    valid = f"The trace lasts from {exact(low)} to {exact(high)}, counted from {COUNTED_FROM}."
    asked = f"up to {exact(end)}" if start_ps is None else f"from {exact(start)} to {exact(end)}"
    asked = f"from {exact(start)} on" if end_ps is None else asked
    if start >= high or end <= low:
        raise TracekitError(f"The range {asked} is outside the trace. {valid}")
    if end <= start:
        raise TracekitError(f"The range {asked} is empty. {valid}")
    # Before the first device work, and behind the last, there is nothing to show.
    cut = (f"Of the range {asked}, only what lies in the trace is shown. {valid}",) if start < low or end > high else ()
    start, end = max(start, low), min(end, high)
    windows = {
        clock: iv.clip(np.array([[start, end]], np.int64), extent) + whole.origin[clock]
        for clock, extent in extents.items()
    }
    where = f"from {exact(start)} to {exact(end)}"
    return Part(whole.phases, windows, name=where, where=where, inside=f"the range {where}", notes=cut)
