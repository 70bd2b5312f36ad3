"""A few plain sentences per phase: did things run at the same time, what did that buy, and what stood in the way."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

from tracekit.analysis.idle import Cause
from tracekit.analysis.overlap import of_copies
from tracekit.analysis.stragglers import worst
from tracekit.columns import records
from tracekit.devices import is_known, type_of
from tracekit.report.section import WORK, memory_words
from tracekit.report.sections import machine
from tracekit.units import device_time, factor, mean, percent, quantity, time

if TYPE_CHECKING:
    from tracekit.analysis.collectives import Collectives
    from tracekit.analysis.completeness import Completeness
    from tracekit.analysis.idle import Idle
    from tracekit.analysis.overlap import Breakdown
    from tracekit.analysis.steps import Steps
    from tracekit.timeline.step_boundaries import StepBoundaries

# A device that takes a quarter longer than alone shares something that counts.
CONTENTION = 1.25
# Up to this a speedup is noise between runs.
GAIN = 1.1
# A smaller share of the devices' time is not worth a word.
WORTH_TELLING = 0.05
PARTIAL = "The trace holds too little of what ran: no shares of time are known."
# More than this share is most of it.
MOST = 0.5
# Work that spans a smaller part of the steps says little of them.
SPANS_LITTLE = 0.5
# What people call several devices of a type.
_TYPES = {"gpu": "GPU", "tpu": "TPU", "cpu": "CPU device"}
# A smaller share of a phase is its edges: a CPU device closes a copy a little after it is done.
EDGE = 0.01


class Reasons(Protocol):
    """What a verdict on a trace rests on besides its shares, as an Explanation has it."""

    @property
    def completeness(self) -> "Completeness":
        """What the trace lacks."""

    @property
    def collectives(self) -> "Collectives":
        """Who waited for whom."""

    @property
    def idle(self) -> "Idle":
        """Why the devices were idle."""

    @property
    def steps(self) -> "Steps | StepBoundaries":
        """The steps of the program."""


def phase(
    row: dict[str, Any],
    inside: "Breakdown",
    stretch: pd.DataFrame,
    cores: float | None = None,
    busy: dict[str, Any] | None = None,
    holds: str = "",
    busy_alone: dict[str, Any] | None = None,
) -> str:
    """The verdict on one phase: `row` of the phases table, what ran `inside`, and its rows of the stretch table.

    `cores` is given where fewer cores than CPU devices did the work, `busy` where other processes took cores that the
    phase needed: its row of the machine's load; `busy_alone` is that of a phase that it is compared with, where that is
    so of this one alone. `holds` is what the trace holds, where that is one device or rank.
    """
    if inside.lacking:
        return PARTIAL
    parts = [_devices(inside, cores, holds), *_copies(inside)]
    if pd.notna(row["speedup"]):
        parts += [_gain(row), *_of_the_machine(row, busy, busy_alone), *_elsewhere(inside)]
    parts += _contention(row, inside, stretch, busy)
    if row["unfinished_ps"] > EDGE * row["wall_ps"]:
        parts.append(
            f"Work begun inside ran on for {time(row['unfinished_ps'])} after its end: wait for all results inside it"
        )
    return ". ".join(parts) + "."


def whole(
    breakdown: "Breakdown", cores: float | None = None, why: Reasons | None = None, holds: str = ""
) -> tuple[str, ...]:
    """The sentences of the verdict on a trace without phases, the first of which says most; where no device worked at
    all, trace_contents.no_device_work says more.

    With `why` it says what idle and exposed time is mostly due to, where that is known; and that the figures are of
    what an incomplete trace holds, where it is one. `holds` is what the trace holds, where that is one device or rank.
    """
    if breakdown.lacking:
        return (PARTIAL,)
    several = [_devices(breakdown, cores, holds)] if (breakdown.partition["busy_ps"] > 0).sum() > 1 else []
    first, *rest = [f"{words}." for words in (_busy(breakdown, why, holds), *several, *_copies(breakdown))]
    return (f"Of what this incomplete trace holds: {first}" if why and why.completeness.rows else first, *rest)


def in_all(breakdown: "Breakdown", idle: "Idle") -> str:
    """The sentence on the whole trace behind the verdict on its steady steps; `idle` is that of the whole."""
    table = breakdown.partition
    window = int(table["window_ps"].sum())
    busy, idle_share = percent(int(table["busy_ps"].sum()), window), percent(int(table["idle"].sum()), window)
    who = f"{table['device'].iloc[0]} was" if len(table) == 1 else f"{devices_words(table)} were"
    length = window_words(table)
    return f"In the whole trace, {who} busy {busy} of {length}; {idle_share} idle{_compiling(idle, window)}."


def _busy(breakdown: "Breakdown", why: Reasons | None, holds: str) -> str:
    """How busy the devices were in their windows, how much of these was exposed, and to what idle time was due."""
    table = breakdown.partition
    busy = table[table["busy_ps"] > 0]
    if len(busy) == 0:
        return _devices(breakdown, None, holds)
    window = int(table["window_ps"].sum())
    share = percent(int(table["busy_ps"].sum()), window)
    about = f" ({holds})" if holds else ""
    if len(table) == 1:
        first = f"{table['device'].iloc[0]} was busy {share} of {window_words(table)}{about}"
    elif len(busy) == 1:
        row = busy.iloc[0]
        own = f"{percent(row['busy_ps'], row['window_ps'])} of {time(row['window_ps'])}"
        if holds:
            first = f"{row['device']} was busy {own}{about}"
        elif why and not why.completeness.is_complete:  # so the others may have worked, unseen
            first = f"{row['device']} was busy {own} (the trace holds no work of the other {len(table) - 1})"
        else:
            first = f"Only {row['device']} of {devices_words(table)} was busy, {own}"
    else:
        some = f", {len(table) - len(busy)} of them never" if len(busy) < len(table) else ""
        first = f"{devices_words(table)} were busy {share} of {window_words(table)}{some}{about}"
    communication, memory = exposed(breakdown)
    idle = int(table["idle"].sum())
    parts = [first]
    if communication / window >= WORTH_TELLING:
        parts.append(f"{percent(communication / window)} exposed communication{_waiting(communication, why)}")
    if memory / window >= WORTH_TELLING:
        parts.append(f"{percent(memory / window)} exposed {memory_words(breakdown.overlap)}")
    if idle / window >= WORTH_TELLING:
        parts.append(f"{percent(idle / window)} idle{_mostly_idle(why, window)}")
    parts += [] if breakdown.name else _of_steps(table, why)
    return "; ".join(parts)


def _of_steps(partition: pd.DataFrame, why: Reasons | None) -> list[str]:
    """That the work of the devices spans a small part of the annotated steps, where it does: then the host's time is
    outside of the windows, which last from the first to the last of that work."""
    if why is None or why.steps.lacking:
        return []
    table = why.steps.table
    steps = table[(table["marked_by"] == "annotation") & (table["rows"] > 0)]
    spans = steps.groupby("clock", dropna=False).agg({"start_ps": "min", "end_ps": "max"})
    wall, window = (
        int((spans["end_ps"] - spans["start_ps"]).max() if len(spans) else 0),
        int(partition["window_ps"].max()),
    )
    whose = "the step's" if len(steps) == 1 else "the steps'"
    return [f"that work spans {percent(window, wall)} of {whose} {time(wall)}"] if window < SPANS_LITTLE * wall else []


def devices_words(partition: pd.DataFrame) -> str:
    """How many devices there are, as people call them: `8 GPUs`."""
    types = set(map(type_of, partition["device"]))
    return quantity(len(partition), _TYPES.get(types.pop(), "device") if len(types) == 1 else "device")


def window_words(partition: pd.DataFrame) -> str:
    """How long the windows of the devices are: `19.69 ms`, of several clocks `10.00 ms to 15.00 ms`."""
    windows = sorted(set(partition["window_ps"]))
    return " to ".join(time(window) for window in dict.fromkeys([*windows[:1], *windows[-1:]]))


def exposed(breakdown: "Breakdown") -> tuple[int, int]:
    """The time of exposed collectives, and that of copies and memsets which were exposed beside no collective, summed
    in ps."""
    table = breakdown.partition
    return int(table[["collective", "collective+memory"]].sum().sum()), int(table["memory"].sum())


def _waiting(exposed_ps: int, why: Reasons | None) -> str:
    """For whom most of the exposed collective time was spent waiting; nothing where that is not known, or not most."""
    collectives = why and why.collectives
    if not collectives or collectives.lacking or collectives.alone:
        return ""
    waited = collectives.table["exposed_wait_ps"].sum()  # of those seen on all their ranks, so at least
    if waited <= MOST * exposed_ps:
        return ""
    late = worst(collectives.by_device, collectives.by_host, "exposed_cost_ps")
    if late and late[0]["exposed_cost_ps"] > MOST * exposed_ps:
        devices = "the devices of " if "host" in late[0] else ""
        return f", mostly waiting for {devices}{late[0].get('host', late[0].get('device'))}"
    return ", mostly waiting for the last device to arrive"


def _mostly_idle(why: Reasons | None, window_ps: int) -> str:
    """The cause of most of the idle time; nothing where that is not known, or none is. What passed while the host
    compiled is told apart, with its share of the windows."""
    if why is None or not len(why.idle.by_cause):
        return ""
    cause, ratio = why.idle.by_cause[["cause", "ratio"]].iloc[0]
    most = f", mostly {cause}" if ratio > MOST and cause not in (Cause.UNEXPLAINED, Cause.COMPILING) else ""
    return most + _compiling(why.idle, window_ps)


def _compiling(idle: "Idle", window_ps: int) -> str:
    """How much of the idle time passed while the host compiled, in points of the windows; nothing if little."""
    table = idle.by_cause
    share = int(table.loc[table["cause"] == Cause.COMPILING, "idle_ps"].sum()) / window_ps if window_ps else 0.0
    points = percent(share).removesuffix(" %")
    return f", of which {points} points while compiling" if share >= WORTH_TELLING else ""


def headline(
    phases: pd.DataFrame,
    inside: "Mapping[str, Breakdown]",
    cores: float | None = None,
    busy: Collection[str] = (),
) -> str:
    """The finding in a few words: each compared phase with its overlap and speedup; empty if there is none.

    `busy` are the phases of which other processes took cores that they needed.
    """
    findings = []
    for row in records(phases):
        if pd.isna(row["speedup"]):
            continue
        best = inside[row["name"]].pairs["ratio_min"].dropna()
        hidden, total, _ = _hidden(of_copies(inside[row["name"]].overlap))
        words = ""
        if _sharing(inside[row["name"]], cores):
            words = f"time-sharing on {cores:g} cores, "
        elif len(best):
            words = f"devices overlapped {percent(best.max())}, "
        elif counts(inside[row["name"]], total):
            words = f"{percent(hidden / total)} of the copies hidden, "
        where = " on a busy machine" if row["name"] in busy else ""
        findings.append(f"{row['name']}: {words}speedup {factor(row['speedup'])}{where}")
    return " | ".join(findings[:3])


def _sharing(inside: "Breakdown", cores: float | None) -> bool:
    """Whether more devices worked than there are cores for them."""
    return cores is not None and int((inside.partition["busy_ps"] > 0).sum()) > cores


def _devices(inside: "Breakdown", cores: float | None, holds: str) -> str:
    busy = inside.partition[inside.partition["busy_ps"] > 0]
    if cores is not None and _sharing(inside, cores):
        at_once = f"{mean(inside.parallelism)} busy at once on average"
        limit = "no parallelism" if cores < 2 else f"at most {cores:g} computed in parallel"
        return f"{len(busy)} devices time-shared {cores:g} cores, {at_once}: {limit}"
    if len(busy) == 0:
        memory = int(inside.overlap.loc[inside.overlap["what"] == "memory", "total_ps"].sum())
        words = memory_words(inside.overlap)
        return f"Only {words} ran ({time(memory)}), no compute" if memory else "No device was busy"
    if len(busy) == 1:
        row = busy.iloc[0]
        share = percent(row["busy_ps"], row["window_ps"])
        if len(inside.partition) == 1 or holds:
            return f"{row['device']} was busy {share} of the time{f' ({holds})' if holds else ''}"
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
    table = inside.overlap
    work = {"copy": of_copies(table), "collective": table[table["what"] == "collective"]}
    shares = [
        f"{percent(hidden, total)} of the {words} time ({device_time(total, devices)})"
        for words, (hidden, total, devices) in ((words, _hidden(rows)) for words, rows in work.items())
        if counts(inside, total)
    ]
    return [f"Compute hid {' and '.join(shares)}"] if shares else []


def counts(inside: "Breakdown", total_ps: int) -> bool:
    """Whether work of so long is more than the edges of what it ran in."""
    return len(inside.partition) > 0 and total_ps > EDGE * int(inside.partition["window_ps"].max())


def _hidden(rows: pd.DataFrame) -> tuple[int, int, int | None]:
    """The hidden and the total time in ps of rows of an overlap table, summed over the devices, and how many devices
    had any, None where some are unknown."""
    rows = rows[rows["total_ps"] > 0]
    devices = len(rows) if all(map(is_known, rows["device"])) else None
    return int(rows["hidden_ps"].sum()), int(rows["total_ps"].sum()), devices


def _gain(row: dict[str, Any]) -> str:
    speedup = row["speedup"]
    if pd.notna(row["efficiency"]):
        return f"Speedup {factor(speedup)} over {row['compared_with']}, efficiency {percent(row['efficiency'])}"
    solo = row["compared_with"]
    other = "running one after the other" if ", " in solo else f"'{solo}'"
    if speedup >= GAIN:
        return f"Speedup {factor(speedup)} over {other}"
    if speedup > 1 / GAIN:
        return f"No speedup over {other} ({factor(speedup)})"
    return f"Slower than {other} ({factor(speedup)})"


def _of_the_machine(row: dict[str, Any], busy: dict[str, Any] | None, busy_alone: dict[str, Any] | None) -> list[str]:
    """What other processes mean for the speedup, where they took cores that the phase needed, or one of those that it
    is compared with."""
    speedup = factor(row["speedup"])
    if busy is None:
        if busy_alone is None:
            return []
        during = f"{machine.taken(busy_alone)} during {busy_alone['phase']}, not during {row['name']}"
        return [f"{during}: on a quiet machine the speedup may be less than {speedup}"]
    if row["speedup"] < GAIN:
        return [f"{machine.taken(busy)} meanwhile: the speedup of {speedup} measures the machine, not the program"]
    return [f"{machine.taken(busy)} meanwhile: on a quiet machine the speedup may differ from {speedup}"]


def _elsewhere(inside: "Breakdown") -> list[str]:
    """Where the time of two or more devices went that was no compute: exposed collectives, copies and memsets, and
    idle."""
    busy = inside.partition[inside.partition["busy_ps"] > 0]
    window = int(busy["window_ps"].sum())
    if len(busy) < 2:
        return []
    communication, memory = exposed(inside)
    waited = inside.waiting_ratio
    waiting = f" ({percent(waited)} of it waiting for other devices)" if waited else ""
    parts = [
        (communication / window, f"in exposed collectives{waiting}"),
        (memory / window, f"in exposed {memory_words(inside.overlap)}"),
        (busy["idle"].sum() / window, "idle"),
    ]
    shares = [f"{percent(share)} {what}" for share, what in parts if share >= WORTH_TELLING]
    return [f"Of the devices' time, {', '.join(shares)}"] if shares else []


def _contention(
    row: dict[str, Any], inside: "Breakdown", stretch: pd.DataFrame, busy: dict[str, Any] | None
) -> list[str]:
    measured = stretch.dropna(subset=["stretch"])
    if len(measured) == 0 or pd.isna(row["speedup"]):
        return []
    # Of several that are equal the first, as the finding has it.
    worst = records(measured.sort_values("stretch", ascending=False, kind="stable"))[0]
    if worst["stretch"] < CONTENTION:
        return []
    reason = "" if busy else ": the overlapping work contends for a shared resource"
    its = inside.overlap[inside.overlap["device"] == worst["device"]]
    words = memory_words(its) if worst["kind"] == "memory" else WORK[worst["kind"]]
    what = f"{words.capitalize()} on {worst['device']}"
    return [f"{what} took {factor(worst['stretch'])} as long as alone{reason}"]
