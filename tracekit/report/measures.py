"""The measures of a report by name: overlap, idle and exposed time, wall and step time; or why one is not known.

What a rule, a test or a history asks of a report is asked here, so that a name means the same to all of them.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import pandas as pd

from tracekit.analysis.overlap import Breakdown, of_copies
from tracekit.analysis.phases import Phases
from tracekit.analysis.steps import SUMS, Steps
from tracekit.columns import records
from tracekit.devices import is_known, number, type_of
from tracekit.errors import NotMeasurable, TracekitError
from tracekit.report.section import FORMATS, WORK, Unit
from tracekit.units import quantity
from tracekit.vocabulary.copies import DIRECTIONS

# The units of each measure, the first by default; a share is one of the window.
_SHARE, _TIME = (Unit.RATIO, Unit.TIME), (Unit.TIME, Unit.RATIO)
MEASURES: Mapping[str, tuple[Unit, ...]] = {
    "overlap": (Unit.RATIO,),
    "idle": _SHARE,
    "busy": _SHARE,
    "exposed-collective": _TIME,
    "exposed-copy": _TIME,
    "wall": (Unit.TIME,),
    "step-time": (Unit.TIME,),
    "speedup": (Unit.FACTOR,),
}
# Those of which the least is the worst.
HIGHER_IS_BETTER = frozenset({"overlap", "busy", "speedup"})
# What a time of a device is the sum of, by measure.
_CELLS = {
    "idle": ["idle"],
    "busy": SUMS["busy_ps"],
    "exposed-collective": SUMS["exposed_collective_ps"],
    "exposed-copy": SUMS["exposed_memory_ps"],
}
# The work that must have run for its exposed time to be one, in the words of the overlap table and of people.
_WORK = {"exposed-collective": "collective", "exposed-copy": "memory"}
# What overlaps: devices with each other, and work of these kinds with the compute of its device.
DEVICES = "devices"
_BEHIND = {"collective": "collective", "copy": "memory", "memory": "memory", **{way: way for way in DIRECTIONS}}
OVERLAPS = (DEVICES, "collective", "copy", *DIRECTIONS)
_HIDDEN = {
    "collective": ("hidden_collective_ps", "exposed_collective_ps"),
    "memory": ("hidden_memory_ps", "exposed_memory_ps"),
}
# What a step stands for that is none of a number: the one of median value, and the worst, of those that count.
MEDIAN, WORST = "median", "worst"
WHOLE = "whole"


@dataclass(frozen=True)
class Measure:
    """A measure of a report: its `name`, its `value` in its `unit`, and `where` it was measured.

    Times are integers of picoseconds, shares and overlaps ratios in 0..1. `where` names the scope, and the device or
    the pair whose value it is. `caveat` is what has to be known of such a value, "" where nothing has.
    """

    name: str
    value: float
    unit: Unit
    where: str
    caveat: str = ""

    @property
    def text(self) -> str:
        """The value as people read it."""
        return FORMATS[self.unit](self.value)


@dataclass(frozen=True)
class _Value:
    """A value and the device or the pair that has it."""

    value: float
    who: str


@dataclass(frozen=True)
class Measures:
    """What the measures of a report are taken from: the Breakdowns of the `whole` trace, of the `steady` steps and of
    the phases (`inside`), the `phases` and `steps`; `incomplete` says why so much is missing that no measure is known,
    `not_whole` what else is, which no measure of all devices knows.

    `cores` are the usable ones, where more CPU devices share them.
    """

    whole: Breakdown
    steady: Breakdown | None
    inside: Mapping[str, Breakdown]
    phases: Phases
    steps: Steps
    incomplete: str
    not_whole: str
    cores: float | None

    def measure(
        self,
        name: str,
        *,
        of: str | tuple[str, str] | None = None,
        phase: str | None = None,
        step: int | str | None = None,
        device: str | None = None,
        unit: Unit | None = None,
    ) -> Measure:
        """One of MEASURES, as `Report.measure` describes it."""
        unit = check(name, of, phase, step, device, unit)
        if self.incomplete:  # what is missing may have been the first or the last of its phase or step
            raise NotMeasurable(self.incomplete)
        found = self._measure(name, of, phase, step, device, unit)
        if self.not_whole and device is None and (of is None or isinstance(of, str)):
            caveats = [found.caveat] if found.caveat else []
            return replace(found, caveat="; ".join([*caveats, f"the trace {self.not_whole.removesuffix('.')}"]))
        return found

    def _measure(
        self,
        name: str,
        of: str | tuple[str, str] | None,
        phase: str | None,
        step: int | str | None,
        device: str | None,
        unit: Unit,
    ) -> Measure:
        if name in ("wall", "step-time", "speedup"):
            return self._of_all_devices(name, phase, step)
        if self.whole.lacking:
            raise NotMeasurable(self.whole.lacking)
        if not len(self.whole.partition):
            raise NotMeasurable("The trace holds no device rows.")
        if of is not None:
            what = of if isinstance(of, str) else tuple(map(self._device, of))
            return self._overlap(what, phase, step, device and self._device(device))
        return self._time(name, phase, step, device and self._device(device), unit)

    def _breakdown(self, phase: str | None) -> Breakdown:
        if phase is None:
            return self.steady or self.whole
        if phase == WHOLE and phase not in self.inside:
            return self.whole
        if phase not in self.inside:
            names = ", ".join(self.inside)
            there = f"Its phases are {names}." if names else "It marks no phases."
            raise NotMeasurable(f"The trace has no phase {phase!r}. {there}")
        return self.inside[phase]

    def _device(self, name: str) -> str:
        """The device of a whole name, of one without its host, or of a number: `device 1` is `gpu:1`."""
        there = list(self.whole.partition["device"])
        head, _, ordinal = name.partition(" ")
        if name in there:
            return name
        if head == "device" and ordinal.isdecimal():
            meant = [device for device in there if number(device) == int(ordinal)]
        else:
            meant = [device for device in there if device.endswith(f"/{name}")]
        if len(meant) > 1:
            raise TracekitError(f"{name!r} is a device of several hosts: {', '.join(meant)}. Name one of them.")
        if not meant:
            raise NotMeasurable(f"The trace holds no work of {name}; it holds that of {', '.join(there)}.")
        (device,) = meant
        return str(device)

    def _of_all_devices(self, name: str, phase: str | None, step: int | str | None) -> Measure:
        """What is told of all devices together: wall, step time, speedup."""
        if name == "step-time" or step is not None:
            return self._step_time(name, step)
        if phase is None or phase == WHOLE:
            breakdown = self._breakdown(phase)
            windows = breakdown.partition["window_ps"]
            if not len(windows):
                raise NotMeasurable(breakdown.lacking or "The trace holds no device rows.")
            return Measure(name, int(windows.max()), Unit.TIME, breakdown.label)
        self._breakdown(phase)
        row = next(row for row in records(self.phases.table) if row["name"] == phase)
        where = f"phase {phase}" + (f", median of {row['n']} rounds" if row["n"] > 1 else "")
        if name == "wall":
            return Measure(name, int(row["wall_ps"]), Unit.TIME, where)
        if pd.isna(row["speedup"]):
            raise NotMeasurable(f"The speedup of phase {phase} is not known: {row['reason']}.")
        return Measure(name, float(row["speedup"]), Unit.FACTOR, f"{where}, over {row['compared_with']}")

    def _step_time(self, name: str, step: int | str | None) -> Measure:
        table = self._counted(step)
        walls = table.groupby("step" if isinstance(step, int) else table.index)["wall_ps"].max()
        where = f"step {step}" if isinstance(step, int) else f"{step or MEDIAN} of {_steps(table)}"
        value = walls.max() if step == WORST else median(walls)
        return Measure(name, round(value), Unit.TIME, where)

    def _counted(self, step: int | str | None) -> pd.DataFrame:
        """The step of a number, or the steps that count of the name on which most time was spent."""
        if self.steps.lacking:
            raise NotMeasurable(f"No step is known: {self.steps.lacking}")
        table = self.steps.table
        if isinstance(step, int):
            chosen = table[(table["step"] == step).fillna(False).to_numpy(bool)]
            if not len(chosen):
                raise NotMeasurable(f"The trace has no step {step}; it has {quantity(len(table), 'step')}.")
            return chosen
        counted = table[table["left_out"].isna()]
        return counted[counted["name"] == counted.groupby("name")["wall_ps"].sum().idxmax()]

    def _time(self, name: str, phase: str | None, step: int | str | None, device: str | None, unit: Unit) -> Measure:
        """Idle, busy or exposed time: of the worst device, or of one."""
        if (work := _WORK.get(name)) is not None:
            self._refuse_without(work, phase, step, device)

        def of_devices(table: pd.DataFrame, rounds: int) -> _Value | None:
            values = []
            for row in records(table):
                cells, window = [row[cell] for cell in _CELLS[name]], row.get("window_ps", row.get("wall_ps"))
                if not pd.isna(cells).any() and window:
                    value = sum(cells)
                    values.append(_Value(value / window if unit == Unit.RATIO else value / rounds, row["device"]))
            return _worst(name, values)

        measured, where = self._measured(name, phase, step, device, of_devices)
        value = measured.value if unit == Unit.RATIO else round(measured.value)
        return Measure(name, value, unit, where, self._unplaced(work, phase) or self._time_sharing())

    def _unplaced(self, work: str | None, phase: str | None) -> str:
        """The caveat that some of the work ran on devices that the trace does not tell."""
        table = self._breakdown(phase).overlap
        unknown = (table["what"] == work) & ~table["device"].map(is_known).astype(bool) & (table["total_ps"] > 0)
        return f"without {WORK[str(work)]} whose device the trace does not tell" if unknown.any() else ""

    def _refuse_without(self, work: str, phase: str | None, step: int | str | None, device: str | None) -> None:
        """Raise NotMeasurable where there was no such work: a time of 0 would say that all of it was hidden."""
        breakdown = self.whole if step is not None else self._breakdown(phase)
        table = breakdown.overlap
        table = of_copies(table) if work == "memory" else table[table["what"] == work]
        table = table if device is None else table[table["device"] == device]
        if not table["total_ps"].sum():
            raise NotMeasurable(_none(WORK[work], _scope(breakdown, phase), device))
        if not len(table[table["device"].map(is_known) & (table["total_ps"] > 0)]):
            raise NotMeasurable(f"Which devices ran the {WORK[work]} is not known in this trace.")

    def _overlap(
        self, of: str | tuple[str, ...], phase: str | None, step: int | str | None, device: str | None
    ) -> Measure:
        if not isinstance(of, str) or of == DEVICES:
            return self._devices_overlap(of, phase)
        what, words = _BEHIND[of], WORK.get(_BEHIND[of], f"{of} copies")

        def of_whole(table: pd.DataFrame, rounds: int) -> _Value | None:
            return _worst("overlap", [_Value(row["ratio"], row["device"]) for row in records(table)])

        def of_step(table: pd.DataFrame, rounds: int) -> _Value | None:
            hidden, exposed = _HIDDEN[what]
            totals = {row["device"]: (row[hidden], row[hidden] + row[exposed]) for row in records(table)}
            return _worst("overlap", [_Value(part / total, name) for name, (part, total) in totals.items() if total])

        if step is not None:
            measured, where = self._measured("overlap", None, step, device, of_step)
        else:
            breakdown = self._breakdown(phase)
            table = breakdown.overlap if of == "copy" else breakdown.overlap[breakdown.overlap["what"] == what]
            table = of_copies(table) if of == "copy" else table
            table = table if device is None else table[table["device"] == device]
            ran = table[table["ratio"].notna()]
            if not len(ran):
                raise NotMeasurable(_none(words, _scope(breakdown, phase), device))
            ran = ran[ran["device"].map(is_known)]
            if not len(ran):
                raise NotMeasurable(f"Which devices ran the {words} is not known in this trace.")
            worst = of_whole(ran, 1)
            assert worst is not None
            measured, where = worst, f"{worst.who}, {_scope(breakdown, phase)}"
        caveat = ""
        if what == "collective" and type_of(measured.who) == "cpu":
            if not measured.value:
                raise NotMeasurable(
                    f"No collective ran beside compute ({where}). On CPU devices XLA seldom lets one, whatever the "
                    "program allows: that says nothing of accelerators."
                )
            caveat = "on CPU devices XLA seldom runs a collective beside compute"
        return Measure("overlap", float(measured.value), Unit.RATIO, where, caveat or self._time_sharing())

    def _devices_overlap(self, of: str | tuple[str, ...], phase: str | None) -> Measure:
        """Of two devices, or the pair that overlapped least."""
        breakdown = self._breakdown(phase)
        pairs, there = breakdown.pairs, list(self.whole.partition["device"])
        if len(there) < 2:
            raise NotMeasurable(f"The trace holds the work of one device only, {there[0]}.")
        if self.cores is not None and all(type_of(device) == "cpu" for device in there):
            raise NotMeasurable(
                f"{len(there)} CPU devices share {quantity(int(self.cores), 'core')}, so that their overlap is "
                "time-sharing and says nothing of the program."
            )
        if not isinstance(of, str):
            pairs = pairs[pairs[["a", "b"]].isin(of).all(axis=1)]
            if not len(pairs):
                raise TracekitError(f"{of[0]} is one device; give two.")
        label, values = _scope(breakdown, phase), []
        for row in records(pairs):
            if pd.isna(row["overlap_ps"]):
                raise NotMeasurable(f"The overlap of {row['a']} and {row['b']} is not known: {row['reason']}.")
            idle = pd.isna(row["ratio_min"])  # a device without work overlapped with nothing
            who = f"{row['a']} and {row['b']}"
            values.append(_Value(0.0 if idle else row["ratio_min"], f"{who}; {row['reason']}" if idle else who))
        worst = _worst("overlap", values)
        if worst is None:
            raise NotMeasurable(f"No two devices are known in the {label}.")
        return Measure("overlap", float(worst.value), Unit.RATIO, f"{worst.who}, {label}")

    def _measured(
        self,
        name: str,
        phase: str | None,
        step: int | str | None,
        device: str | None,
        value: Callable[[pd.DataFrame, int], _Value | None],
    ) -> tuple[_Value, str]:
        """The value in a scope and the words for where that is; of steps the median or the worst of them."""
        if step is None:
            breakdown = self._breakdown(phase)
            rounds = self._rounds(breakdown.name)
            table = breakdown.partition
            measured = value(table if device is None else table[table["device"] == device], rounds)
            if measured is None:
                raise NotMeasurable(f"The report does not hold the {name} of the {breakdown.label}.")
            mean = f", mean of {rounds} rounds" if rounds > 1 else ""
            return measured, f"{measured.who}, {_scope(breakdown, phase)}{mean}"
        steps, by_device = self._counted(step), self.steps.by_device
        mine = by_device[by_device["place"].isin(steps.index)]
        mine = mine if device is None else mine[mine["device"] == device]
        values = [each for _, rows in mine.groupby("place") if (each := value(rows, 1)) is not None]
        worst = _worst(name, values)
        if worst is None:
            raise NotMeasurable(f"None of {_steps(steps)} holds what its {name} could be told from.")
        if step != MEDIAN:
            which = f"step {step}" if isinstance(step, int) else f"worst of {_steps(steps)}"
            return worst, f"{worst.who}, {which}"
        who = device or ("worst device" if len({each.who for each in values}) > 1 else worst.who)
        return _Value(median(each.value for each in values), worst.who), f"{who}, median of {_steps(steps)}"

    def _rounds(self, phase: str | None) -> int:
        rounds = dict(zip(self.phases.table["name"], self.phases.table["n"], strict=True))
        return 1 if phase is None else int(rounds.get(phase, 1))

    def _time_sharing(self) -> str:
        if self.cores is None:
            return ""
        return f"more CPU devices than the {quantity(int(self.cores), 'core')} that they share"


def check(
    name: str,
    of: str | tuple[str, str] | None,
    phase: str | None,
    step: int | str | None,
    device: str | None,
    unit: Unit | None = None,
) -> Unit:
    """The unit of a measure. Raises TracekitError, before anything is measured, where what is asked for is none."""
    if name not in MEASURES:
        raise TracekitError(f"There is no measure {name!r}{nearest(name, MEASURES)}")
    if (of is None) == (name == "overlap"):
        what = f"Say what overlaps: {', '.join(OVERLAPS)} or two devices" if of is None else f"{name} takes no `of`"
        raise TracekitError(f"{what}.")
    if isinstance(of, str) and of != DEVICES and of not in _BEHIND:
        raise TracekitError(f"There is no overlap of {of!r}{nearest(of, OVERLAPS)}")
    if isinstance(step, str) and step not in (MEDIAN, WORST):
        raise TracekitError(f"A step is its number, {MEDIAN} or {WORST}, not {step!r}.")
    if phase is not None and step is not None:
        raise TracekitError("Give a phase or a step: each is another part of the trace.")
    if step is not None and name == "overlap" and _HIDDEN.get(_BEHIND.get(str(of), "")) is None:
        raise TracekitError("By step the overlap of collectives and of all copies is known, not that of others.")
    if name == "speedup" and phase in (None, WHOLE):
        raise TracekitError("A speedup is that of a phase: name the phase.")
    if name == "step-time" and phase is not None:
        raise TracekitError("The time of steps is that of the whole trace: leave the phase out.")
    several = name in ("wall", "step-time", "speedup") or (name == "overlap" and _BEHIND.get(str(of)) is None)
    if device is not None and several:
        raise TracekitError(f"The {name} is of several devices: leave the device out.")
    if unit is not None and unit not in MEASURES[name]:
        raise TracekitError(f"The {name} is no {_UNIT_WORDS.get(unit, unit)}.")
    return unit or MEASURES[name][0]


_UNIT_WORDS = {Unit.RATIO: "share", Unit.TIME: "time", Unit.FACTOR: "factor"}


def nearest(name: str, names: Mapping[str, Any] | tuple[str, ...]) -> str:
    """The end of a sentence on an unknown name: the nearest there is, or all of them."""
    close = difflib.get_close_matches(name.lower(), {each.lower(): each for each in names}, 1, 0.5)
    named = {each.lower(): each for each in names}
    return f"; did you mean {named[close[0]]!r}?" if close else f". There are {', '.join(names)}."


def _worst(name: str, values: list[_Value]) -> _Value | None:
    pick = min if name in HIGHER_IS_BETTER else max
    return pick(values, key=lambda each: each.value, default=None)


def _scope(breakdown: Breakdown, phase: str | None) -> str:
    return f"phase {breakdown.label}" if phase is not None and phase == breakdown.name else breakdown.label


def _none(words: str, label: str, device: str | None) -> str:
    on = f" on {device}" if device else ""
    return f"No {words} ran{on} in the {label}, or the trace does not record them."


def _steps(table: pd.DataFrame) -> str:
    return f"{quantity(len(table), 'step')} ({table['name'].iloc[0]})"
