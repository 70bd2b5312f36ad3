"""A few plain sentences per phase: did things run at the same time, what did that buy, and what stood in the way."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from tracekit.columns import records
from tracekit.devices import is_known
from tracekit.report.section import WORK
from tracekit.units import device_time, factor, mean, percent, time

if TYPE_CHECKING:
    from tracekit.analysis.overlap import Breakdown

# A device that takes a quarter longer than alone shares something that counts.
CONTENTION = 1.25
# Up to this a speedup is noise between runs.
GAIN = 1.1
# A smaller share of the devices' time is not worth a word.
WORTH_TELLING = 0.05
PARTIAL = "The trace holds too little of what ran: no shares of time are known."
# A smaller share of a phase is its edges: a CPU device closes a copy a little after it is done.
EDGE = 0.01


def phase(row: dict[str, Any], inside: "Breakdown", stretch: pd.DataFrame, cores: float | None = None) -> str:
    """The verdict on one phase: `row` of the phases table, what ran `inside`, and its rows of the stretch table.

    `cores` is given where fewer cores than CPU devices did the work.
    """
    if inside.lacking:
        return PARTIAL
    parts = [_devices(inside, cores), *_copies(inside)]
    if pd.notna(row["speedup"]):
        parts += [_gain(row), *_elsewhere(inside)]
    parts += _contention(row, stretch)
    if row["unfinished_ps"] > EDGE * row["wall_ps"]:
        parts.append(
            f"Work begun inside ran on for {time(row['unfinished_ps'])} after its end: wait for all results inside it"
        )
    return ". ".join(parts) + "."


def whole(breakdown: "Breakdown", cores: float | None = None, is_partial: bool = False) -> str:
    """The verdict on a trace without phases; where no device worked at all, trace_contents.no_device_work says more.

    `is_partial`: some of the work is not in the trace, so the figures are of what it holds.
    """
    if breakdown.lacking:
        return PARTIAL
    told = ". ".join([_devices(breakdown, cores), *_copies(breakdown)]) + "."
    return f"Of what this incomplete trace holds: {told}" if is_partial else told


def headline(phases: pd.DataFrame, inside: "Mapping[str, Breakdown]", cores: float | None = None) -> str:
    """The finding in a few words: each compared phase with its overlap and speedup; empty if there is none."""
    findings = []
    for row in records(phases):
        if pd.isna(row["speedup"]):
            continue
        best = inside[row["name"]].pairs["ratio_min"].dropna()
        hidden, total, _ = _hidden(inside[row["name"]], "memory")
        words = ""
        if _sharing(inside[row["name"]], cores):
            words = f"time-sharing on {cores:g} cores, "
        elif len(best):
            words = f"devices overlapped {percent(best.max())}, "
        elif total:
            words = f"{percent(hidden / total)} of the copies hidden, "
        findings.append(f"{row['name']}: {words}speedup {factor(row['speedup'])}")
    return " | ".join(findings[:3])


def _sharing(inside: "Breakdown", cores: float | None) -> bool:
    """Whether more devices worked than there are cores for them."""
    return cores is not None and int((inside.partition["busy_ps"] > 0).sum()) > cores


def _devices(inside: "Breakdown", cores: float | None) -> str:
    busy = inside.partition[inside.partition["busy_ps"] > 0]
    if _sharing(inside, cores):
        return (
            f"{len(busy)} devices time-shared {cores:g} cores, {mean(inside.parallelism)} busy at once on average: "
            "no parallelism"
        )
    if len(busy) == 0:
        copied = int(inside.overlap.loc[inside.overlap["what"] == "memory", "total_ps"].sum())
        return f"Only copies ran ({time(copied)}), no compute" if copied else "No device was busy"
    if len(busy) == 1:
        row = busy.iloc[0]
        share = percent(row["busy_ps"], row["window_ps"])
        if len(inside.partition) == 1:
            return f"{row['device']} was busy {share} of the time (the trace holds one device)"
        return f"Only {row['device']} was busy, {share} of the time"
    if inside.parallelism is None:
        return f"{len(busy)} devices were busy, on clocks that are not aligned: how far they overlapped is not known"
    pairs = inside.pairs.dropna(subset=["ratio_min"])
    if len(busy) == 2:
        pair = pairs.iloc[0]
        names = f"{pair['a']} and {pair['b']}"
        if pair["overlap_ps"] == 0:
            return f"{names} were never busy at the same time"
        return f"{names} were busy at the same time for {percent(pair['ratio_min'])} of the shorter busy time"
    if inside.parallelism == 1:
        return f"No two of {len(busy)} devices were ever busy at the same time"
    if mean(inside.parallelism) == mean(len(busy)):
        practically = "" if inside.parallelism == len(busy) else "practically "
        return f"All {len(busy)} devices were busy together {practically}whenever any was"
    return f"{mean(inside.parallelism)} of {len(busy)} devices were busy on average while any was"


def _copies(inside: "Breakdown") -> list[str]:
    """How much copy and collective time was hidden, over all devices that had any."""
    if not len(inside.partition) or not inside.partition["busy_ps"].sum():
        return []
    window = int(inside.partition["window_ps"].max())
    parts = [(words, _hidden(inside, what)) for what, words in (("memory", "copy"), ("collective", "collective"))]
    shares = [
        f"{percent(hidden, total)} of the {words} time ({device_time(total, devices)})"
        for words, (hidden, total, devices) in parts
        if total > EDGE * window
    ]
    return [f"Compute hid {' and '.join(shares)}"] if shares else []


def _hidden(inside: "Breakdown", what: str) -> tuple[int, int, int | None]:
    """The hidden and the total time of `what` in ps, summed over the devices, and how many devices had any, None where
    some are unknown."""
    rows = inside.overlap[(inside.overlap["what"] == what) & (inside.overlap["total_ps"] > 0)]
    devices = len(rows) if all(map(is_known, rows["device"])) else None
    return int(rows["hidden_ps"].sum()), int(rows["total_ps"].sum()), devices


def _gain(row: dict[str, Any]) -> str:
    speedup = row["speedup"]
    if pd.notna(row["efficiency"]):
        return f"Speedup {factor(speedup)} over {row['compared_with']}, efficiency {percent(row['efficiency'])}"
    if speedup >= GAIN:
        return f"Speedup {factor(speedup)} over running one after the other"
    if speedup > 1 / GAIN:
        return f"No speedup over running one after the other ({factor(speedup)})"
    return f"Slower than running one after the other ({factor(speedup)})"


def _elsewhere(inside: "Breakdown") -> list[str]:
    """Where the time of two or more devices went that was no compute: exposed collectives and copies, and idle."""
    busy = inside.partition[inside.partition["busy_ps"] > 0]
    window = int(busy["window_ps"].sum())
    if len(busy) < 2:
        return []
    exposed = busy[["collective", "collective+memory"]].sum().sum()
    waited = inside.waiting_ratio
    waiting = f" ({percent(waited)} of it waiting for other devices)" if waited else ""
    parts = [
        (exposed / window, f"in exposed collectives{waiting}"),
        (busy["memory"].sum() / window, "in exposed copies"),
        (busy["idle"].sum() / window, "idle"),
    ]
    shares = [f"{percent(share)} {what}" for share, what in parts if share >= WORTH_TELLING]
    return [f"Of the devices' time, {', '.join(shares)}"] if shares else []


def _contention(row: dict[str, Any], stretch: pd.DataFrame) -> list[str]:
    measured = stretch.dropna(subset=["stretch"])
    if len(measured) == 0 or pd.isna(row["speedup"]):
        return []
    worst = records(measured.sort_values("stretch", kind="stable"))[-1]
    if worst["stretch"] < CONTENTION:
        return []
    return [
        f"{WORK[worst['kind']].capitalize()} on {worst['device']} took {factor(worst['stretch'])} as long as alone: "
        "the overlapping work contends for a shared resource"
    ]
