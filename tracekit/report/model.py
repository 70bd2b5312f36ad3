"""What a report is: plain data without its trace, which can be saved and shows itself in a notebook."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tracekit import intervals as iv
from tracekit import notebook, remote
from tracekit.analysis.advice import Advice
from tracekit.analysis.explain import Explanation
from tracekit.analysis.fleet import Fleet, causes_of_drawn, fleet, longer_on_drawn
from tracekit.analysis.idle import DEVICE_COLUMNS
from tracekit.analysis.overlap import SHARED_COLUMNS, Breakdown
from tracekit.analysis.phases import Phases
from tracekit.analysis.top_ops import DEVICE_NAME_COLUMNS, OPERATION_COLUMNS
from tracekit.columns import frame, records
from tracekit.devices import FEW
from tracekit.errors import TracekitError
from tracekit.files import FRAMES, REPORT_FILES, SUMMARY, refuse_foreign, whole_directory
from tracekit.intervals import Intervals
from tracekit.report import storage
from tracekit.report.measures import Measure, Measures
from tracekit.report.part import PHASE_TO_PHASE, finding_of, timeline_title
from tracekit.report.section import MOST_DATA, WORDS, Section, Table, Unit, brief_text, plain, plain_value
from tracekit.report.sections import completeness as missing
from tracekit.report.sections import fleet as of_fleet
from tracekit.report.sections.key_figures import KeyFigure, key_figures
from tracekit.report.sections.overview import classification, overview
from tracekit.report.sections.sections import highlights, in_one_line, sections
from tracekit.report.sections.steady import steady_words
from tracekit.report.sections.verdict import window_words
from tracekit.report.time_zero import TimeZero
from tracekit.timeline.unions import CELLS
from tracekit.units import time
from tracekit.vocabulary.losses import Loss

# The kinds of work of a device, and the kinds of events in each.
_KINDS = {"compute": ("compute",), "collective": ("collective",), "memory": ("memcpy", "memset")}
_MOST_GUESSES = 20  # in summary.json
_NO_ROWS = "the trace holds no device rows"
_NOT_ALIGNED = "the hosts' clocks are not aligned"


@dataclass(frozen=True)
class Origin:
    """What was read: the path `source`, its `format`, the names of the `hosts` and of the `runs` found there.

    `clocks` is `Trace.hosts` without its source, `events` (device, kind, events) counts rows, `models` names those of
    the devices. `commit` is the git commit of the captured program as `capture.new_run.commit` tells it, "" where
    none is known.
    """

    source: str
    format: str
    hosts: tuple[str, ...]
    runs: tuple[str, ...]
    models: tuple[str, ...]
    clocks: pd.DataFrame
    events: pd.DataFrame
    commit: str = ""


@dataclass(frozen=True, eq=False)
class Report:
    """Everything a report says, as plain data.

    `trace` says what was read, and `notes` what was dropped, repaired or guessed. `whole` is the Breakdown of all of
    the trace, `inside` those of its phases by name, and `headline` the sentence over everything. `windows` are the
    windows of the whole trace by clock, each of shape (1, 2) in ps; none without device rows. `clock_of` names the
    clock of each known device with rows. `extent` is the part of the trace that the timeline shows, [start, end) in ps:
    from the first phase to the last end of one, None (all of it) without phases, of a stretch, or on several clocks.
    `phases` are what `tracekit.phases` gives. `verdict` is that on the whole trace, whose first sentence is the
    headline; None where there are phases, which have `verdicts` of their own, and device work. `known_by` and `guessed`
    say how the kind of the work is known (analysis.classification). The `explanation` and the `advice` are those of the
    `compared` phases, or of the whole trace without any: those that are compared with others, or where none is, but
    compiling around them hides what they did, all. Where compiling and warm-up are told apart, `steady` is the
    Breakdown of the steady steps: then verdict, key figures, explanation and advice are of these, but for what OF_WHOLE
    (analysis.explain) names. `cores` are the usable ones, where more CPU devices share them. `part` says which part of
    the trace all of this is of, "" for all of it; its windows then stand for those of the whole trace. `first_work_ps`
    is by clock the first start of any device row of all of the trace. `operations` (OPERATION_COLUMNS of
    analysis.top_ops) are those of the whole, of the steps and of each phase, by device, or of more than FEW devices
    together: what a comparison pairs. `shared_busy` (SHARED_COLUMNS of analysis.overlap) says for the same parts how
    long devices were busy at once. Of a fleet of which rows were left out, `drawn_idle` (DEVICE_COLUMNS of
    analysis.idle) and `drawn_operations` (DEVICE_NAME_COLUMNS of analysis.top_ops) are of the devices that stand for
    all, whose files were read again; of all others the explanation has them.
    """

    trace: Origin
    windows: Mapping[str, Intervals]
    clock_of: Mapping[str, str]
    whole: Breakdown
    phases: Phases
    inside: Mapping[str, Breakdown]
    verdict: str | None
    verdicts: Mapping[str, str]
    headline: str
    notes: tuple[str, ...]
    extent: tuple[int, int] | None
    known_by: pd.DataFrame
    guessed: pd.DataFrame
    explanation: Explanation
    advice: Advice
    compared: tuple[str, ...]
    cores: float | None = None
    part: str = ""
    steady: Breakdown | None = None
    first_work_ps: Mapping[str, int] = field(default_factory=dict)
    operations: pd.DataFrame = field(default_factory=partial(frame, OPERATION_COLUMNS))
    shared_busy: pd.DataFrame = field(default_factory=partial(frame, SHARED_COLUMNS))
    drawn_idle: pd.DataFrame = field(default_factory=partial(frame, DEVICE_COLUMNS))
    drawn_operations: pd.DataFrame = field(default_factory=partial(frame, DEVICE_NAME_COLUMNS))

    def timeline_title(self, clock: str = "") -> str:
        """What the timeline is called on every face, or that of one of several clocks."""
        windows = [window for name, window in self.windows.items() if name == clock or not clock]
        lengths = [self.extent[1] - self.extent[0]] if self.extent else [*map(iv.total, windows)] or [0]
        where = ", ".join(filter(None, [PHASE_TO_PHASE if self.extent else "", self.part]))
        return timeline_title(lengths, where, clock, partial=bool(self.whole.lacking))

    @property
    def finding(self) -> str:
        """The headline without the words that say which part of the trace it is about."""
        return finding_of(self.part, self.headline)

    @property
    def main_phase(self) -> str | None:
        """The longest of the `compared` phases, which the key figures are of; None without any."""
        walls = self.phases.table.set_index("name")["wall_ps"]
        return max(self.compared, key=lambda name: int(walls[name]), default=None)

    @property
    def key_figures(self) -> tuple[KeyFigure, ...]:
        """The figures that stand largest: of the main phase, or where none is compared of the steady steps, or of the
        whole trace."""
        name = self.main_phase
        rows = {row["name"]: row for row in records(self.phases.table)} if name else {}
        breakdown = self.inside[name] if name else self.judged
        why = self.explanation
        is_busy = name is not None and why.machine.during(name) is not None
        return key_figures(
            breakdown,
            rows.get(name),
            self.cores,
            is_partial=bool(why.completeness.rows),
            is_busy=is_busy,
            why=why if len(self.compared) < 2 else None,  # else it is of several phases
        )

    @property
    def judged(self) -> Breakdown:
        """What the verdict is on where there are no phases: the steady steps where they are told apart, or `whole`."""
        return self.steady or self.whole

    @property
    def parts(self) -> Mapping[str, Breakdown]:
        """The parts of the trace that stand beside the whole: the steady steps, or the phases by name."""
        return {self.steady.label: self.steady} if self.steady else self.inside

    @property
    def compared_rounds(self) -> pd.DataFrame | None:
        """The rounds of the compared phases (clock, name, start_ps, end_ps), which the explanation is about."""
        return compared_rounds(self.phases, self.compared)

    @property
    def labelled_verdicts(self) -> list[tuple[str, str]]:
        """What each verdict is on, and the verdict: the whole trace first, if it has one, then the phases."""
        return [*([(self.whole.label, self.verdict)] if self.verdict is not None else []), *self.phase_verdicts]

    @property
    def phase_verdicts(self) -> list[tuple[str, str]]:
        """The phases and their verdicts: those that are compared with others first, else as they ran."""
        return sorted(self.verdicts.items(), key=lambda verdict: verdict[0] not in self.compared)

    @cached_property
    def fleet(self) -> Fleet | None:
        """The ranks of more than FEW devices, whose shares of time are known; None of fewer."""
        partition, why = self.judged.partition, self.explanation
        # Of an old report not all cells are known.
        if len(partition) <= FEW or partition[[*CELLS]].isna().any(axis=None):
            return None
        return fleet(partition, why.steps, why.collectives)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The explanation and the advice as the report shows them, those without evidence among them."""
        table = self.judged.partition
        windows = dict(zip(table["device"], map(int, table["window_ps"]), strict=True))
        # Of compared phases only the devices count that do anything in them.
        every = sections(self.explanation, self.advice, None if self.compared else windows)
        return tuple(map(of_fleet.condensed, every)) if self.fleet else every

    @cached_property
    def overview(self) -> tuple[Section, ...]:
        """What stands before the sections that explain it: phases, time and overlap."""
        every = overview(self.whole, self.parts, self.phases, self.compared, self.judged)
        if not self.fleet:
            return every
        why = self.explanation
        idle = why.idle.devices if len(why.idle.devices) else self.drawn_idle
        of_each = why.top_ops.by_device if len(why.top_ops.by_device) else self.drawn_operations
        reasons = causes_of_drawn(self.fleet, idle), longer_on_drawn(self.fleet, of_each)
        unknown = why.collectives.lacking or why.collectives.alone
        return (of_fleet.section(self.fleet, unknown, *reasons), *map(of_fleet.condensed, every))

    @cached_property
    def classification(self) -> Section | None:
        """How the kernels were classified; None without work."""
        return classification(self.known_by, self.guessed)

    @property
    def missing(self) -> Section | None:
        """What the trace does not hold; None where nothing is known to be missing."""
        return next((section for section in self.sections if section.key == "completeness"), None)

    @property
    def evidence(self) -> list[Section]:
        """The sections for which the trace has evidence, and how kernels were classified; without what is missing,
        which stands before all of them."""
        kinds = self.classification
        there = [section for section in self.sections if not section.lacking and section is not self.missing]
        return [*there, *([kinds] if kinds else [])]

    @property
    def lacking(self) -> list[tuple[str, str]]:
        """What the report has no evidence for, and why, each reason once: titles of sections, and the reason."""
        titles: dict[str, list[str]] = {}
        for section in (*self.overview, *self.sections):
            if section.lacking:
                titles.setdefault(section.lacking, []).append(section.title)
        return [(", ".join(of_reason), reason) for reason, of_reason in titles.items()]

    @property
    def devices(self) -> list[str]:
        """The devices with rows whose device is known, in order."""
        if not self.whole.lacking:
            return list(self.whole.partition["device"])
        return [device for device in dict.fromkeys(self.trace.events["device"]) if device in self.clock_of]

    @property
    def scope(self) -> str:
        """What the sections, and so what matters most, are about, where that is not the whole trace: the end of a
        sentence, with the length of the compared phases on the clock where they are longest."""
        rounds = self.compared_rounds
        if self.steady:
            steps, length = steady_words(self.explanation.steps.table), window_words(self.steady.partition)
            return f"only the steady steps count: {steps} ({length} in all), but for compiling, memory and the machine."
        if rounds is None:
            return ""
        windows = [iv.union(iv.intervals(its["start_ps"], its["end_ps"])) for _, its in rounds.groupby("clock")]
        length = time(max(map(iv.total, windows)))
        return f"only what ran in {self.compared_words} ({length} in all)."

    @property
    def compared_words(self) -> str:
        """Which phases the sections are about, as a part of a sentence."""
        of = "the compared phases" if self.phases.table["compared_with"].notna().any() else "the phases"
        return f"{of} counts: {', '.join(self.compared)}"

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
        """One measure by its name: overlap, idle, busy, exposed-collective, exposed-copy, wall, step-time or speedup.

        It is that of the steady steps where they are told apart, else of the whole trace; with `phase` that of a phase
        ("whole" is the whole trace), with `step` that of one step by its number, or of those that count the "median"
        or the "worst". Of several devices the worst one counts, unless `device` names one; "device 1" is the one of
        number 1. An overlap is `of` "devices" (the pair that overlapped least), of two of them, or of "collective",
        "copy", "H2D", "D2H", "D2D" or "P2P" behind the compute of their device. A time of a phase is the mean of its
        rounds, its wall their median. With `unit`, idle, busy and exposed time are shares of the window (Unit.RATIO) or
        picoseconds (Unit.TIME). Raises NotMeasurable where the trace cannot tell, and TracekitError where there is no
        such measure.
        """
        measures = Measures(
            whole=self.whole,
            steady=self.steady,
            inside=self.inside,
            phases=self.phases,
            steps=self.explanation.steps,
            incomplete=self.explanation.completeness.rows,
            not_whole=self.not_whole,
            cores=self.cores,
        )
        return measures.measure(name, of=of, phase=phase, step=step, device=device, unit=unit)

    @property
    def not_whole(self) -> str:
        """What is missing from the trace (Completeness.not_whole), "" where nothing is known to be."""
        return self.explanation.completeness.not_whole(len(self.trace.hosts))

    def overlap(
        self, a: str, b: str, *, phase: str | None = None, step: int | str | None = None, device: str | None = None
    ) -> float:
        """How far `a` and `b` ran at the same time, a ratio in 0..1: two devices, or "collective", "copy" or a
        direction of copies and "compute", then on the worst device.

        Of two devices it is the time both were busy over the shorter busy time; of other work the part that ran behind
        compute of its device. Scopes are those of `measure`. Raises NotMeasurable where the trace cannot tell.
        """
        of = a if b == "compute" else b if a == "compute" else (a, b)
        return self.measure("overlap", of=of, phase=phase, step=step, device=device).value

    def summary(self) -> dict[str, Any]:
        """What summary.json says: integers are picoseconds, ratios in 0..1, a missing figure None with its reason.

        docs/summary.md documents the keys; none is renamed within a schema. Lists are cut to MOST_DATA entries.
        """
        full = self._full_summary()
        shortened: dict[str, int] = {}
        return {**{key: _first_entries(value, key, shortened) for key, value in full.items()}, "shortened": shortened}

    def _full_summary(self) -> dict[str, Any]:
        trace, whole = self.trace, self.whole
        windows = list(self.windows.values())
        aligned = len(windows) < 2
        return {
            "schema": storage.SCHEMA,
            "trace": {
                "source": trace.source,
                "format": trace.format,
                "hosts": list(trace.hosts),
                "window_ps": iv.total(windows[0]) if len(windows) == 1 else None,
                "window_reason": _NO_ROWS if not windows else None if aligned else _NOT_ALIGNED,
                "runs": list(trace.runs),
                "commit": trace.commit or None,
                "time_zero": [{"clock": clock, "start_ps": start} for clock, start in time_zero(self).start_ps.items()],
                "clocks": plain(trace.clocks),
            },
            "part": self.part or None,
            "headline": self.headline,
            "key_figures": [asdict(figure) | {"unit": str(figure.unit)} for figure in self.key_figures],
            "fleet": self.overview[0].data if self.fleet else None,
            "devices": _devices(self),
            "overlap": plain(whole.overlap),
            "device_pairs": whole.pairs,
            "concurrency": _concurrency(whole),
            "concurrency_reason": whole.lacking or (None if aligned else _NOT_ALIGNED),
            "parallelism": whole.parallelism,
            "steady": self.steady and _steady(self, self.steady),
            "phases": [_phase(self, row) for row in records(self.phases.table)],
            "verdict": self.verdict,
            "verdicts": self.verdicts,
            "completeness": missing.data(self.explanation.completeness),
            "important": [*map(in_one_line, highlights(self.sections))],
            "compared": list(self.compared),
            "program": {
                "framework": self.advice.program.framework or None,
                "evidence": self.advice.program.evidence or None,
                "does": [{"practice": it, "evidence": fact} for it, fact in self.advice.program.does.items()],
            },
            **{section.key: None if section.lacking else section.data for section in self.sections},
            "lacking": {section.key: section.lacking for section in self.sections if section.lacking},
            "known_by": plain(self.known_by),
            "guessed": plain(self.guessed.head(_MOST_GUESSES)),
            "notes": list(self.notes),
        }

    def save(self, directory: str | os.PathLike[str]) -> Path | str:
        """Write summary.json and the frames into `directory`, and return it; `tracekit.load` gives an equal one.

        They are complete, or what was there before. Raises TracekitError where it cannot be written, or files of others
        would be lost.
        """
        place = remote.place(directory)
        refuse_foreign(place, (SUMMARY, FRAMES))
        try:
            with (
                remote.written(place, last=(SUMMARY,), stale=REPORT_FILES) as out,
                whole_directory(out, (SUMMARY, FRAMES), SUMMARY) as draft,
            ):
                storage.write(self.summary(), self, draft)
        except OSError as error:
            raise TracekitError(f"The report cannot be written to {place}: {error}. Give another --out.") from None
        return place

    def __eq__(self, other: object) -> bool:
        return _equal(self, other)

    __hash__ = None  # type: ignore[assignment]  # its frames can change

    def __repr__(self) -> str:
        return notebook.line(self, self.headline)

    def _repr_html_(self) -> str:
        tables = [table for section in self.overview for table in section.tables if table.brief]
        first = highlights(self.sections)
        lacking = [f"{titles}: {reason}" for titles, reason in self.lacking]
        return notebook.block(
            notebook.heading("Report", self.headline),
            notebook.large([(figure.text, f"{figure.label}, {figure.of}") for figure in self.key_figures]),
            notebook.bullets(self.missing.sentences) if self.missing else "",
            notebook.bullets([f"{name}: {verdict}" for name, verdict in self.labelled_verdicts]),
            notebook.heading("What matters most") if first else "",
            notebook.sentence(f"Here, {self.scope}") if first and self.scope else "",
            notebook.bullets([*map(in_one_line, first)], numbered=True),
            *(_notebook_table(table, time_zero(self)) for table in tables[:2]),
            *(
                notebook.folded(table.title, _notebook_table(table, time_zero(self), titled=False))
                for table in tables[2:]
            ),
            notebook.sentence(f"From here on, {self.scope}" if self.scope else ""),
            *(_notebook_section(section, time_zero(self)) for section in self.evidence),
            notebook.folded("Not in this report", notebook.bullets(lacking)) if lacking else "",
            notebook.sentence(time_zero(self).sentence) if self.windows else "",
            notebook.noted(self.notes),
        )


def time_zero(report: Report) -> TimeZero:
    """What every face of a report counts times from: the first device work, on clocks without any the first phase."""
    phases = report.phases.rounds.groupby("clock", sort=False)["start_ps"].min()
    windows = {clock: int(window[0, 0]) for clock, window in report.windows.items() if len(window)}
    first = {str(clock): int(start) for clock, start in phases.items()} | windows or {"": 0}
    zero = {clock: report.first_work_ps.get(clock, start) for clock, start in first.items()}
    return TimeZero(zero, report.clock_of)


def _equal(a: Any, b: Any) -> bool:
    """Whether two values are of one type and hold the same, frames and arrays with their dtypes."""
    if isinstance(a, pd.DataFrame):
        return isinstance(b, pd.DataFrame) and a.dtypes.equals(b.dtypes) and a.equals(b)
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, Mapping):
        return isinstance(b, Mapping) and [*a] == [*b] and all(_equal(a[key], b[key]) for key in a)
    if type(a) is not type(b):
        return False
    if is_dataclass(a):
        return all(_equal(getattr(a, field.name), getattr(b, field.name)) for field in fields(a))
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)


def compared_rounds(phases: Phases, compared: tuple[str, ...]) -> pd.DataFrame | None:
    """The rounds of some phases, reaching to the last end of their work: clock, name, start_ps, end_ps; None without
    any."""
    rounds = [
        (clock, name, int(start), int(end))
        for name, by_clock in phases.windows.items()
        if name in compared
        for clock, windows in by_clock.items()
        for start, end in windows
    ]
    return pd.DataFrame(rounds, columns=["clock", "name", "start_ps", "end_ps"]) if rounds else None


def _concurrency(breakdown: Breakdown) -> list[int] | None:
    """The time with exactly k devices busy; None where their clocks are not aligned."""
    times = [int(time) for time in breakdown.concurrency["time_ps"]]
    return times or None


_PARTS = (Mapping, list, pd.DataFrame)


def _first_entries(value: Any, place: str, shortened: dict[str, int]) -> Any:
    """`value` with at most MOST_DATA entries in each list; `shortened` takes the place and the length of longer ones,
    of those in the entries of a list the longest."""
    if isinstance(value, Mapping):
        return {
            # Most are figures: calls for 100,000 of them took a third of the time of making the summary.
            key: _first_entries(part, f"{place}.{key}", shortened) if isinstance(part, _PARTS) else part
            for key, part in value.items()
        }
    if not isinstance(value, list | pd.DataFrame):
        return value
    if len(value) > MOST_DATA:
        shortened[place] = max(len(value), shortened.get(place, 0))
    if isinstance(value, pd.DataFrame):  # as rows, those of all pairs of many devices would take gigabytes
        return plain(value.head(MOST_DATA))
    return [_first_entries(part, place, shortened) for part in value[:MOST_DATA]]


def _devices(report: Report) -> list[dict[str, Any]]:
    counts = report.trace.events.set_index(["device", "kind"])["events"].to_dict()
    devices = []
    nothing: dict[str, Any] = dict.fromkeys(("window_start_ps", "window_ps", "span_ps", "busy_ps", *CELLS))
    unknown = [nothing | {"device": device} for device in report.devices] if report.whole.lacking else []
    has_kinds = not report.whole.lacking or Loss.KINDS not in {*report.explanation.completeness.losses["what"]}
    for row in unknown or records(report.whole.partition):
        kinds = {
            name: {
                "events": sum(int(counts.get((row["device"], kind), 0)) for kind in kinds) if has_kinds else None,
                "union_ps": None if unknown else sum(row[cell] for cell in CELLS if name in cell.split("+")),
            }
            for name, kinds in _KINDS.items()
        }
        devices.append(
            {
                **{key: row[key] for key in ("device", "window_start_ps", "window_ps", "span_ps", "busy_ps")},
                "kinds": kinds,
                "partition": {cell: row[cell] for cell in CELLS},
            }
        )
    return devices


def _steady(report: Report, steady: Breakdown) -> dict[str, Any]:
    steps = report.explanation.steps.table
    return {
        "words": steady_words(steps),
        "steps": int(steps["left_out"].isna().sum()),
        "devices": plain(steady.partition),
        "overlap": plain(steady.overlap),
        "device_pairs": steady.pairs,
        "concurrency": _concurrency(steady),
        "parallelism": steady.parallelism,
    }


def _phase(report: Report, row: dict[str, Any]) -> dict[str, Any]:
    name = row["name"]
    inside: Breakdown = report.inside[name]
    stretch = report.phases.stretch[report.phases.stretch["name"] == name].drop(columns="name")
    return {
        **{key: plain_value(value) for key, value in row.items()},
        "busy": plain(inside.partition[["device", "busy_ps"]]),
        "stretch": plain(stretch),
        "overlap": plain(inside.overlap),
        "device_pairs": inside.pairs,
        "concurrency": _concurrency(inside),
        "parallelism": inside.parallelism,
        "verdict": report.verdicts[name],
    }


def _notebook_section(section: Section, zero: TimeZero) -> str:
    tables = "\n".join(_notebook_table(table, zero) for table in section.tables if table.brief)
    return notebook.folded(
        section.title, notebook.bullets([*map(in_one_line, section.findings), *section.sentences]) + tables
    )


def _notebook_table(table: Table, zero: TimeZero, titled: bool = True) -> str:
    head, *rows = brief_text(table, notebook.MOST_NAME, zero.since)
    right = [column.unit not in WORDS for column in table.columns if column.brief]
    return notebook.table(table.title if titled else "", head, rows, right) + notebook.sentence(table.extract)
