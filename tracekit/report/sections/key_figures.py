"""The two to four figures that every face shows first: how busy, overlapped and exposed the devices were, what else
their time went to where that is not enough, and what overlapping gained."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from tracekit.analysis.explain import Explanation
from tracekit.analysis.idle import Cause
from tracekit.analysis.overlap import Breakdown, of_copies
from tracekit.columns import records
from tracekit.report.section import FORMATS, WORK, Unit, memory_words
from tracekit.report.sections.critical_path import largest_part
from tracekit.report.sections.steady import STEADY
from tracekit.report.sections.verdict import EDGE, MOST, counts, devices_words, exposed, window_words
from tracekit.units import percent, time
from tracekit.vocabulary.patterns import Pattern

# Where fewer figures are known of overlap and exposed time, others fill up to so many.
_ENOUGH = 3


@dataclass(frozen=True)
class KeyFigure:
    """A figure, `value` in its `unit`, with what it is (`label`) and what it is a share of (`of`); `key` is busy,
    overlapped, exposed, idle, gap, path, pattern or speedup."""

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
    why: Explanation | None = None,
) -> tuple[KeyFigure, ...]:
    """Those that are known of the whole trace, its steady steps, or a `phase`, a row of the phases table; in the order
    of the keys.

    `cores` is given where fewer cores than CPU devices did the work, whose overlap says nothing. Of a trace of which
    some work is missing (`is_partial`) only how busy the devices were at least is known. A speedup for which other
    processes left too few cores (`is_busy`) says so beside it. `why` explains just what the figures are of, and says
    what most of the rest of the time was where there is little to overlap or expose.
    """
    table = breakdown.partition
    window = int(table["window_ps"].sum()) if len(table) else 0
    speedup = []
    if phase is not None and pd.notna(phase["speedup"]):
        label = "speedup on a busy machine" if is_busy else "speedup"
        speedup.append(KeyFigure("speedup", label, float(phase["speedup"]), Unit.FACTOR, _over(phase)))
    figures = []
    if window and table["busy_ps"].any():
        figures.append(_busy(breakdown, phase, window, is_partial))
        if not is_partial:
            figures += _overlapped(breakdown, cores)
            figures += _exposed(breakdown, window)
        if why is not None:
            figures += _rest(breakdown, why, window)[: max(_ENOUGH - len(figures) - len(speedup), 0)]
    return (*figures, *speedup)


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
        ran = {what: rows for what, rows in _work(breakdown).items() if counts(breakdown, int(rows["total_ps"].sum()))}
        hidden, total = (sum(int(rows[time].sum()) for rows in ran.values()) for time in ("hidden_ps", "total_ps"))
        if not total:
            return []
        what = " and ".join(WORK[what] for what in ran)
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
    """The share of the devices' time in collectives, copies and memsets that nothing computed beside."""
    communication, memory = exposed(breakdown)
    ran, words = _ran(breakdown), memory_words(breakdown.overlap)
    whose = "the device's time" if len(breakdown.partition) == 1 else "the devices' time"
    if len(ran) == 2:
        of = f"of {whose}: communication {percent(communication, window)}, {words} {percent(memory, window)}"
        return [KeyFigure("exposed", "exposed", (communication + memory) / window, Unit.RATIO, of)]
    if "collective" in ran:
        return [KeyFigure("exposed", "exposed communication", communication / window, Unit.RATIO, f"of {whose}")]
    if "memory" in ran:
        return [KeyFigure("exposed", f"exposed {words}", memory / window, Unit.RATIO, f"of {whose}")]
    return []


def _rest(breakdown: Breakdown, why: Explanation, window: int) -> list[KeyFigure]:
    """What most of the idle time was due to, the gap that is most of it, what a step waited for where no idle time
    says that, and what most of the work was."""
    idle = _idle(breakdown, why, window)
    return [*idle, *_gap(breakdown, why), *([] if idle else _path(why)), *_pattern(why)]


def _idle(breakdown: Breakdown, why: Explanation, window: int) -> list[KeyFigure]:
    """The largest cause of the idle time, if one is known and counts: all idle time is what busy time leaves."""
    first = records(why.idle.by_cause[:1])
    if not first or first[0]["cause"] == Cause.UNEXPLAINED or first[0]["idle_ps"] <= EDGE * window:
        return []
    whose = "the device's time" if len(breakdown.partition) == 1 else "the devices' time"
    idle = percent(int(breakdown.partition["idle"].sum()), window)
    of = f"of {whose}, the largest cause of {idle} idle"
    return [KeyFigure("idle", f"idle, {first[0]['cause']}", first[0]["idle_ps"] / window, Unit.RATIO, of)]


def _gap(breakdown: Breakdown, why: Explanation) -> list[KeyFigure]:
    """The longest gap between the work of a device, where it is most of all of them."""
    windows = breakdown.partition.set_index("device")["window_ps"]
    spread = [row for row in records(why.host_api.by_device) if row["idle_ps"] and row["longest_ratio"] > MOST]
    longest = max(spread, key=lambda row: row["longest_ps"], default=None)
    if longest is None or longest["longest_ps"] <= EDGE * windows[longest["device"]]:
        return []
    length, window = longest["longest_ps"], int(windows[longest["device"]])
    where = f", on {longest['device']}" if len(windows) > 1 else ""
    return [
        KeyFigure("gap", "longest idle gap", length, Unit.TIME, f"{percent(length, window)} of {time(window)}{where}")
    ]


def _path(why: Explanation) -> list[KeyFigure]:
    """The largest part of the critical path, where that is known and no compute."""
    part = None if why.critical_path.lacking else largest_part(why.critical_path)
    if part is None:
        return []
    return [KeyFigure("path", part.name, part.ratio, Unit.RATIO, f"of the critical path of {part.of}")]


def _pattern(why: Explanation) -> list[KeyFigure]:
    """What took most of the busy time, if it has a name; what hides other work counts for both."""
    patterns = why.top_ops.by_pattern
    most = records(patterns.sort_values("exposed_ps", ascending=False, kind="stable")[:1])
    if not most or most[0]["pattern"] == Pattern.OTHER or not most[0]["exposed_ps"]:
        return []
    busy = sum(map(int, why.top_ops.totals["busy_ps"]))
    over = f", summed over {len(why.top_ops.totals)} devices" if len(why.top_ops.totals) > 1 else ""
    of = f"of {time(busy)} of busy time{over}"
    return [KeyFigure("pattern", most[0]["pattern"], most[0]["exposed_ps"] / busy, Unit.RATIO, of)]


def _work(breakdown: Breakdown) -> dict[str, pd.DataFrame]:
    """The overlap of collectives and of copies alone."""
    table = breakdown.overlap
    return {"collective": table[table["what"] == "collective"], "memory": of_copies(table)}


def _ran(breakdown: Breakdown) -> list[str]:
    """Which of collectives and memory work the devices spent time on that counts."""
    table = breakdown.overlap
    times = {what: int(table.loc[table["what"] == what, "total_ps"].sum()) for what in ("collective", "memory")}
    return [what for what, time_ps in times.items() if counts(breakdown, time_ps)]


def _over(phase: dict[str, Any]) -> str:
    """What the phase is compared with."""
    if pd.notna(phase["efficiency"]):
        return f"over {phase['compared_with']}, efficiency {percent(phase['efficiency'])}"
    solo = phase["compared_with"]  # phase names hold no comma
    return f"over {solo}, one after the other" if ", " in solo else f"over {solo}"
