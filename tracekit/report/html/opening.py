"""On which part of the trace the timeline of the page opens: the one that its figures are about."""

from collections.abc import Iterator
from dataclasses import dataclass

from tracekit.columns import records
from tracekit.report.model import Report
from tracekit.units import count, short

# What is longer than this share of the whole opens as the whole.
_MOST = 0.6
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
    """The round of the main phase, else the step of median length, else the largest loss: the first that is not most of
    what the timeline shows; None for all of that."""
    windows = {clock: (int(window[0, 0]), int(window[0, 1])) for clock, window in report.windows.items() if len(window)}
    for part in [*_phase(report), *_step(report), *_loss(report)]:
        start, end = report.extent or windows.get(part.clock, (0, 0))
        if 0 < part.end_ps - part.start_ps <= _MOST * (end - start):
            return part
    return None


def _phase(report: Report) -> Iterator[Opening]:
    """The round of median length of the main phase."""
    rounds = report.phases.rounds
    rounds = rounds[rounds["name"] == report.main_phase]
    if len(rounds):
        order = (rounds["end_ps"] - rounds["start_ps"]).argsort(kind="stable")
        at = int(order.iloc[(len(rounds) - 1) // 2])
        row = rounds.iloc[at]
        median = f", the median of {count(len(rounds))} rounds" if len(rounds) > 1 else ""
        yield Opening(
            f"the phase {short(report.main_phase, _NAME)}{median}",
            int(row["start_ps"]),
            int(row["end_ps"]),
            row["clock"],
        )


def _step(report: Report) -> Iterator[Opening]:
    """The step of median length, of which the critical path is shown too."""
    steps = report.explanation.critical_path.steps
    for row in records(steps[(steps["example"] == "median") & steps["step"].notna()]):
        same = steps[(steps["name"] == row["name"]) & (steps["clock"] == row["clock"])]
        median = f", the median of {count(len(same))} steps" if len(same) > 1 else ""
        yield Opening(f"step {row['step']}{median}", row["start_ps"], row["end_ps"], row["clock"])


def _loss(report: Report) -> Iterator[Opening]:
    """The longest instance of the largest loss, with as much again around it."""
    many = int(report.trace.events["events"].sum()) >= _FEW_EVENTS
    for row in records(report.explanation.offenders.table.head(1 if many else 0)):
        start, end = int(row["start_ps"]), int(row["end_ps"])
        around = (end - start) // 2
        what = f"idle time ({row['what']})" if row["kind"] == "idle" else short(row["what"], _NAME)
        words = f"the largest loss, {what} on {row['device']}, and what is around it"
        yield Opening(words, start - around, end + around, report.clock_of.get(row["device"], ""))
