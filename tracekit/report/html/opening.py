"""On which part of the trace the timeline of the page opens: the one that its figures are about."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracekit.columns import records
from tracekit.report.model import Report
from tracekit.report.section import median_of
from tracekit.units import count, short

# What is longer than this share of the whole opens as the whole.
_MOST = 0.6
# A loss of which one interval is such a share is about that interval.
_ONE = 0.5
# A step stands for an interval of which it holds such a share: devices begin a step at slightly different times.
_HOLDS = 0.9
# A trace of fewer events is read as a whole, unless its figures are about a part of it.
_FEW_EVENTS = 200
# Characters of a name.
_NAME = 40


@dataclass(frozen=True)
class Opening:
    """A part of the trace, [start, end) in ps of a clock, and in `words` which one it is."""

    words: str
    start_ps: int
    end_ps: int
    clock: str


def opening(report: Report) -> Opening | None:
    """The round of the main phase, else a step, else the largest loss: the first that is not most of what the timeline
    shows; None for all of that. The step is the one that holds the largest loss, where that is one interval, longer
    than the step of median length; else it is the latter."""
    windows = {clock: (int(window[0, 0]), int(window[0, 1])) for clock, window in report.windows.items() if len(window)}
    for part in [*_phase(report), *_step_of_loss(report), *_step(report), *_loss(report)]:
        start, end = report.extent or windows.get(part.clock, (0, 0))
        if 0 < part.end_ps - part.start_ps <= _MOST * (end - start):
            return part
    return None


def _phase(report: Report) -> Iterator[Opening]:
    """The round of median length of the main phase, to the end of the work begun in it, on the clock whose median is
    longest: of that the phase's wall is told."""
    middle = []
    for clock, rounds in report.phases.windows.get(report.main_phase or "", {}).items():
        length = rounds[:, 1] - rounds[:, 0]
        at = int(np.argsort(length, kind="stable")[(len(rounds) - 1) // 2])
        middle.append((int(length[at]), len(rounds), clock, rounds[at].tolist()))
    if middle:
        _, number, clock, (start, end) = max(middle, key=lambda its: its[0])
        whose = f" on the clock of {clock}" if len(middle) > 1 else ""
        words = f"the phase {short(report.main_phase, _NAME)}{whose}{_median(number, 'rounds')}"
        yield Opening(words, start, end, clock)


def _step(report: Report) -> Iterator[Opening]:
    """The step of median length, of which the critical path is shown too."""
    steps = report.explanation.critical_path.steps
    for row in records(steps[(steps["example"] == "median") & steps["step"].notna()]):
        same = steps[(steps["name"] == row["name"]) & (steps["clock"] == row["clock"])]
        words = f"{_which(report, row)}{_median(len(same), 'steps')}"
        yield Opening(words, row["start_ps"], row["end_ps"], row["clock"])


def _step_of_loss(report: Report) -> Iterator[Opening]:
    """The step that holds the longest instance of the largest loss, where that is most of the loss and longer than the
    steps of median length, which tell nothing of it then."""
    steps = report.explanation.critical_path.steps
    median_ps = steps.loc[steps["example"] == "median", "wall_ps"].max()
    for loss in records(report.explanation.offenders.table.head(1)):
        start, end = int(loss["start_ps"]), int(loss["end_ps"])
        if loss["largest_ps"] < _ONE * loss["cost_ps"] or not end - start > median_ps:
            continue
        clock = report.clock_of.get(loss["device"], "")
        for row in records(steps[(steps["clock"] == clock) & steps["step"].notna()]):
            if min(end, row["end_ps"]) - max(start, row["start_ps"]) >= _HOLDS * (end - start):
                words = f"the largest loss, {_what(loss)}, and {_which(report, row)}, which holds it"
                yield Opening(words, row["start_ps"], row["end_ps"], clock)


def _which(report: Report, step: dict[str, Any]) -> str:
    """Which step it is, of which name and on whose clock, where that is not plain."""
    steps = report.explanation.critical_path.steps
    name = f" of {short(step['name'], _NAME)}" if steps["name"].nunique() > 1 else ""
    everywhere = " on all devices" if len(report.devices) > 1 else ""
    whose = f" on the clock of {step['clock']}" if steps["clock"].nunique() > 1 else everywhere
    return f"step {step['step']}{name}{whose}"


def _median(number: int, what: str) -> str:
    """That it is the median of so many."""
    return f", the {median_of(number)} of {count(number)} {what}" if number > 1 else ""


def _loss(report: Report) -> Iterator[Opening]:
    """The longest instance of the largest loss, with as much again around it."""
    many = int(report.trace.events["events"].sum()) >= _FEW_EVENTS
    for row in records(report.explanation.offenders.table.head(1 if many else 0)):
        start, end = int(row["start_ps"]), int(row["end_ps"])
        around = (end - start) // 2
        words = f"the largest loss, {_what(row)}, and what is around it"
        yield Opening(words, start - around, end + around, report.clock_of.get(row["device"], ""))


def _what(loss: dict[str, Any]) -> str:
    """What was lost and on which device."""
    what = f"idle time ({loss['what']})" if loss["kind"] == "idle" else short(loss["what"], _NAME)
    return f"{what} on {loss['device']}"
