"""The two to four figures that every face shows first: how busy, overlapped and exposed the devices were, and what
that gained."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from tracekit.analysis.overlap import Breakdown
from tracekit.report.section import FORMATS, WORK, Unit
from tracekit.report.sections.steady import STEADY
from tracekit.report.sections.verdict import EDGE, devices_words, exposed, window_words
from tracekit.units import percent, time


@dataclass(frozen=True)
class KeyFigure:
    """A figure, `value` in its `unit`, with what it is (`label`) and what it is a share of (`of`); `key` is busy,
    overlapped, exposed or speedup."""

    key: str
    label: str
    value: float
    unit: Unit
    of: str

    @property
    def text(self) -> str:
        """The value as people read it."""
        return FORMATS[self.unit](self.value)


def key_figures(
    breakdown: Breakdown,
    phase: dict[str, Any] | None,
    cores: float | None = None,
    *,
    is_partial: bool = False,
    is_busy: bool = False,
) -> tuple[KeyFigure, ...]:
    """Those that are known of the whole trace, its steady steps, or a `phase`, a row of the phases table; in the order
    of the keys.

    `cores` is given where fewer cores than CPU devices did the work, whose overlap says nothing. Of a trace of which
    some work is missing (`is_partial`) only how busy the devices were at least is known. A speedup for which other
    processes left too few cores (`is_busy`) says so beside it.
    """
    table = breakdown.partition
    window = int(table["window_ps"].sum()) if len(table) else 0
    figures = []
    if window and table["busy_ps"].any():
        figures.append(_busy(breakdown, phase, window, is_partial))
        if not is_partial:
            figures += _overlapped(breakdown, cores)
            figures += _exposed(breakdown, window)
    if phase is not None and pd.notna(phase["speedup"]):
        label = "speedup on a busy machine" if is_busy else "speedup"
        figures.append(KeyFigure("speedup", label, float(phase["speedup"]), Unit.FACTOR, _over(phase)))
    return tuple(figures)


def _busy(breakdown: Breakdown, phase: dict[str, Any] | None, window: int, is_partial: bool) -> KeyFigure:
    table = breakdown.partition
    length = time(phase["wall_ps"]) if phase else window_words(table)
    if phase:
        rounds = f" each of {phase['n']} rounds" if phase["n"] > 1 else ""
        length = f"{phase['name']}{rounds} ({length})"
    elif breakdown.name == STEADY:
        length = f"the {STEADY} ({length})"
    on_average = f", mean of {devices_words(table)}" if len(table) > 1 else ""
    recorded = ", as far as recorded" if is_partial else ""
    value = int(table["busy_ps"].sum()) / window
    return KeyFigure("busy", "busy", value, Unit.RATIO, f"of {length}{on_average}{recorded}")


def _overlapped(breakdown: Breakdown, cores: float | None) -> list[KeyFigure]:
    """How far devices ran at the same time; of one device how far its collectives and copies did behind compute."""
    table = breakdown.partition
    busy = table[table["busy_ps"] > 0]
    if len(table) == 1:
        rows = breakdown.overlap[breakdown.overlap["what"].isin(_ran(breakdown))]
        hidden, total = int(rows["hidden_ps"].sum()), int(rows["total_ps"].sum())
        if not total:
            return []
        what = " and ".join(WORK[what] for what in rows["what"])
        return [KeyFigure("overlapped", "overlapped", hidden / total, Unit.RATIO, f"of {time(total)} of {what}")]
    if breakdown.parallelism is None or len(busy) < 2 or (cores is not None and len(busy) > cores):
        return []
    if len(busy) == 2:
        ratios = breakdown.pairs["ratio_min"].dropna()
        of = "of the shorter busy time of both"
        return [KeyFigure("overlapped", "overlapped", float(ratio), Unit.RATIO, of) for ratio in ratios]
    of = f"of {devices_words(busy)} on average while any was"
    return [KeyFigure("overlapped", "busy at the same time", breakdown.parallelism, Unit.MEAN, of)]


def _exposed(breakdown: Breakdown, window: int) -> list[KeyFigure]:
    """The share of the devices' time in collectives and copies that nothing computed beside."""
    communication, copies = exposed(breakdown)
    ran = _ran(breakdown)
    whose = "the device's time" if len(breakdown.partition) == 1 else "the devices' time"
    if len(ran) == 2:
        of = f"of {whose}: communication {percent(communication, window)}, copies {percent(copies, window)}"
        return [KeyFigure("exposed", "exposed", (communication + copies) / window, Unit.RATIO, of)]
    if "collective" in ran:
        return [KeyFigure("exposed", "exposed communication", communication / window, Unit.RATIO, f"of {whose}")]
    if "memory" in ran:
        return [KeyFigure("exposed", "exposed copies", copies / window, Unit.RATIO, f"of {whose}")]
    return []


def _ran(breakdown: Breakdown) -> list[str]:
    """Which of collectives and copies the devices spent time on that counts."""
    table = breakdown.overlap
    window = int(breakdown.partition["window_ps"].max())
    times = {what: int(table.loc[table["what"] == what, "total_ps"].sum()) for what in ("collective", "memory")}
    return [what for what, time_ps in times.items() if time_ps > EDGE * window]


def _over(phase: dict[str, Any]) -> str:
    """What the phase is compared with."""
    if pd.notna(phase["efficiency"]):
        return f"over {phase['compared_with']}, efficiency {percent(phase['efficiency'])}"
    solo = phase["compared_with"]  # phase names hold no comma
    return f"over {solo}, one after the other" if ", " in solo else f"over {solo}"
