"""Whether two sides can be compared: what of the program, the machine and the captures is not the same on both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracekit.comparison.scopes import Figures, incomplete
from tracekit.comparison.sides import Capture, started_ns
from tracekit.devices import type_of
from tracekit.report.model import Report
from tracekit.units import change, count, quantity

# Work of units that differs by more than this is said: rows by count.
_WORK_DIFFERS = 0.05


@dataclass(frozen=True)
class Caution:
    """Something that is not the same on both sides: `what` it is, how it is on `a` and on `b`, and the `sentence` that
    says what follows from it."""

    what: str
    a: str
    b: str
    sentence: str


def cautions(a: Sequence[Capture], b: Sequence[Capture], main: tuple[Figures, Figures] | None) -> tuple[Caution, ...]:
    """What is to be known before two sides are compared, the gravest first; `main` are the figures of the scope that
    the verdict is on."""
    found = [*_same_trace(a, b), *_completeness("A", a), *_completeness("B", b), *_facts(a, b)]
    if main is not None:
        found += _work(*main)
    found += _in_time(a, b)
    return tuple(found)


def nothing_shared(a: Sequence[Capture], b: Sequence[Capture]) -> str:
    """Why two sides share no scope, in a sentence."""
    sides = [side for side, its in (("A", a), ("B", b)) if any(incomplete(capture.report) for capture in its)]
    if sides:
        missing = f"too much is missing from the trace{'s' if len(sides) > 1 else ''} of {' and '.join(sides)}"
        return f"Nothing can be compared: {missing}, and a difference may be that of what is missing."
    return "Nothing can be compared: the sides share no window, steps or phases whose time is known."


def is_same(a: Report, b: Report) -> bool:
    """Whether two reports are of one trace, or of traces with the same times throughout.

    Operations are held against each other where both reports hold them; one saved before they were kept does not.
    """
    known = len(a.operations) > 0 and len(b.operations) > 0
    return (
        len(a.whole.partition) > 0
        and a.whole.partition.equals(b.whole.partition)
        and a.whole.overlap.equals(b.whole.overlap)
        and a.explanation.top_ops.by_name.equals(b.explanation.top_ops.by_name)
        and a.explanation.steps.table.equals(b.explanation.steps.table)
        and (not known or a.operations.equals(b.operations))
    )


def _same_trace(a: Sequence[Capture], b: Sequence[Capture]) -> list[Caution]:
    same: list[tuple[str, str]] = [
        (one.label, other.label) for one in a for other in b if is_same(one.report, other.report)
    ]
    if same:
        sentence = "The same trace is on both sides: there is nothing to compare."
        return [Caution("trace", same[0][0], same[0][1], sentence)]
    parts = [
        (one.report.part or "all of it", other.report.part or "all of it")
        for one in a
        for other in b
        if one.report.trace.source == other.report.trace.source and (one.report.part or other.report.part)
    ]
    if parts:
        return [
            Caution(
                "trace",
                parts[0][0],
                parts[0][1],
                "Both sides are parts of one trace: they cannot tell what a change did.",
            )
        ]
    return []


def _completeness(side: str, captures: Sequence[Capture]) -> list[Caution]:
    """What is missing from the captures of a side, of the one first that lacks most."""
    reasons = [reason for capture in captures if (reason := incomplete(capture.report))]
    found = [known for capture in captures if (known := capture.report.not_whole)]
    if reasons:
        return [Caution("completeness", side, "", f"The trace of {side} is not complete: {reasons[0]}")]
    return [Caution("completeness", side, "", f"The trace of {side} {found[0]}")] if found else []


def _facts(a: Sequence[Capture], b: Sequence[Capture]) -> list[Caution]:
    facts: list[tuple[str, Callable[[Report], str], str]] = [
        ("framework", lambda it: it.advice.program.framework or "", "the programs are of different frameworks"),
        ("device type", _types, "the devices are of different types"),
        (
            "device model",
            lambda it: ", ".join(it.trace.models),
            "one may do by a copy or a memset what the other does by a kernel, so compare operators rather than kinds",
        ),
        ("devices", lambda it: str(len(it.devices)), "figures are means over the devices of each side"),
        ("hosts", lambda it: str(len(it.trace.hosts)), "figures are means over the devices of each side"),
        ("format", lambda it: it.trace.format, "the profilers record different things"),
        ("steps marked by", _marks, "what counts as a step is not the same"),
        ("phases", lambda it: ", ".join(sorted(it.phases.windows)), "only phases of both sides are compared"),
    ]
    found = []
    for what, of, follows in facts:
        values = [sorted({of(capture.report) for capture in side}) for side in (a, b)]
        if values[0] != values[1] and all(any(value) for value in values):
            texts = [" / ".join(value or "none" for value in its) for its in values]
            found.append(
                Caution(what, texts[0], texts[1], f"{what[0].upper()}{what[1:]}: {texts[0]} and {texts[1]}; {follows}.")
            )
    for side, captures in (("A", a), ("B", b)):
        if any(its.report.operations.empty and its.report.devices for its in captures):
            sentence = (
                f"The saved report of {side} holds no operations: make it again from all rows of its trace "
                "(tracekit report TRACE)."
            )
            found.append(Caution("operations", side, "", sentence))
        busy = [capture.report.explanation.machine for capture in captures]
        loads = [load for machine in busy for load in machine.load["is_busy"].tolist()[:1] if len(machine.load)]
        if any(loads):
            found.append(
                Caution("machine", side, "", f"Other processes used the machine of {side} during the capture.")
            )
    return found


def _types(report: Report) -> str:
    return ", ".join(sorted({type_of(device) for device in report.devices}))


def _marks(report: Report) -> str:
    table = report.explanation.steps.summary
    return ", ".join(dict.fromkeys(table["marked_by"].tolist()))


def _work(a: Figures, b: Figures) -> list[Caution]:
    """Whether a unit holds as much work on both sides, by its events and its operations."""
    per = [figures.rows / max(figures.units * len(figures.devices), 1) for figures in (a, b)]
    if not all(per):
        return []
    times = [figures.operations.groupby("name")["time_ps"].sum() for figures in (a, b)]
    keys = [set(figures.operations["operator"].dropna()) | set(figures.operations["name"]) for figures in (a, b)]
    if all(keys) and not keys[0] & keys[1]:
        sentence = "No operation of one side is on the other: these look like different programs."
        return [Caution("operations", f"{len(times[0])} names", f"{len(times[1])} names", sentence)]
    if abs(per[1] / per[0] - 1) <= _WORK_DIFFERS:
        return []
    counts = [count(round(number)) for number in per]
    sentence = (
        f"A unit has {counts[0]} device events on A and {counts[1]} on B ({change(per[1] / per[0])}): batch or "
        "model may differ, or the work was cut into other kernels. A trace does not tell the batch."
    )
    return [Caution("events a unit", counts[0], counts[1], sentence)]


def _in_time(a: Sequence[Capture], b: Sequence[Capture]) -> list[Caution]:
    """Whether all captures of one side came before all of the other, so that drift would look like a change."""
    times = [[started_ns(capture.report.trace.clocks["origin_ns"]) for capture in side] for side in (a, b)]
    if min(map(len, times)) < 2 or any(time is None for side in times for time in side):
        return []
    first, last = ([time for time in side if time is not None] for side in times)
    if max(first) < min(last) or max(last) < min(first):
        order = ("A", "B") if max(first) < min(last) else ("B", "A")
        sentence = (
            f"All captures of {order[0]} are older than those of {order[1]}: if the machine drifted meanwhile, that "
            "looks like a change. Captures that alternate between the variants are not open to that."
        )
        return [Caution("order", quantity(len(a), "capture"), quantity(len(b), "capture"), sentence)]
    return []
