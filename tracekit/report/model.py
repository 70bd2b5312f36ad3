"""What a report is: plain data, with neither the trace nor a renderer in it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tracekit import notebook
from tracekit.analysis.advice import Advice
from tracekit.analysis.explain import Explanation
from tracekit.analysis.phases import Phases
from tracekit.intervals import Intervals
from tracekit.report.section import Section
from tracekit.report.sections.sections import sections


@dataclass(frozen=True)
class Origin:
    """What was read: `clocks` is `Trace.hosts` without its source, `intervals` (device, kind, intervals) counts rows,
    `models` names those of the devices."""

    source: str
    format: str
    hosts: tuple[str, ...]
    runs: tuple[str, ...]
    models: tuple[str, ...]
    clocks: pd.DataFrame
    intervals: pd.DataFrame


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


@dataclass(frozen=True, eq=False)
class Report:
    """Everything a report says, as plain data.

    `windows` are the windows of the whole trace by clock, each of shape (1, 2) in ps; none without device rows.
    `clock_of` names the clock of each known device with rows. `shown` is the part of the trace that the timeline shows,
    [start, end) in ps: from the first phase to the last end of one, None (all of it) where there are no phases or
    several clocks. `known_by` and `guessed` say how the kind of the work is known (analysis.classification). The
    `explanation` and the `advice` are those of the `compared` phases, or of the whole trace without any.
    """

    trace: Origin
    windows: Mapping[str, Intervals]
    clock_of: Mapping[str, str]
    whole: Stretch
    phasing: Phases
    inside: Mapping[str, Stretch]
    verdicts: Mapping[str, str]
    headline: str
    notes: tuple[str, ...]
    shown: tuple[int, int] | None
    known_by: pd.DataFrame
    guessed: pd.DataFrame
    explanation: Explanation
    advice: Advice
    compared: tuple[str, ...]

    @property
    def phases(self) -> pd.DataFrame:
        """Wall, speedup and efficiency of each phase (analysis.phases.PHASE_COLUMNS)."""
        return self.phasing.table

    @property
    def stretch(self) -> pd.DataFrame:
        """Busy time and stretch of each phase by device and kind (analysis.phases.STRETCH_COLUMNS)."""
        return self.phasing.stretch

    @property
    def marks(self) -> pd.DataFrame:
        """The rounds of the phases (analysis.phases.ROUND_COLUMNS)."""
        return self.phasing.rounds

    @property
    def compared_rounds(self) -> pd.DataFrame | None:
        """The rounds of the compared phases (clock, name, start_ps, end_ps), which the explanation is about."""
        return compared_rounds(self.phasing, self.compared)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The explanation and the advice as the report shows them, those without evidence among them."""
        return sections(self.explanation, self.advice)

    def save(self, directory: str | Path) -> Path:
        """Write summary.json and the frames into `directory`, and return it; `tracekit.load` gives an equal one.

        Raises TracekitError where it cannot be written.
        """
        from tracekit.report.storage import save  # which stands above what it saves

        return save(self, directory)

    def __eq__(self, other: object) -> bool:
        return _equal(self, other)

    __hash__ = None  # type: ignore[assignment]  # its frames can change

    def __repr__(self) -> str:
        return notebook.line(self, self.headline)

    def _repr_html_(self) -> str:
        from tracekit.report.documents import notebook_html  # a renderer, which stands above what it shows

        return notebook_html(self)


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
