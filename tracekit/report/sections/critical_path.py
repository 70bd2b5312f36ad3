"""The critical path as the report shows it: what it is made of, its longest pieces, and what removing a part saves."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from tracekit.analysis.critical_path.critical_path import PARTS, CriticalPath
from tracekit.analysis.critical_path.graph import DEPENDENCIES
from tracekit.analysis.critical_path.longest_path import Part
from tracekit.analysis.critical_path.what_if import MOST_UNEXPLAINED, Removed
from tracekit.analysis.idle import Cause
from tracekit.columns import records
from tracekit.report.section import (
    MOST_DATA,
    MOST_ROWS,
    Field,
    Instant,
    Section,
    Table,
    Unit,
    instant,
    median_of,
    plain,
    table_of,
)
from tracekit.units import change, percent, quantity, short, time

# Smaller shares of a path, and smaller savings, are not worth a word.
_WORTH = 0.01
# From this share on it reads 0.1 % or more.
_LEAST = 0.0005
# Compute-bound is a path of which so much is compute, while the devices are so busy.
_COMPUTE, _BUSY = 0.6, 0.75
# So many stretches without an explanation are named, and so many characters of what they lie between.
_STRETCHES, _NAME = 3, 48
_UNKNOWN = {
    PARTS[Part.HOST_UNRECORDED]: "The host held it up, and the trace does not record what it did, in these stretches",
    PARTS[Part.UNEXPLAINED]: "Nothing in the trace explains these stretches of it",
}
# So many parts of the path stand in its sentence.
_PARTS = 4
_REMOVED = {
    Removed.COLLECTIVE_TRANSFERS: "collective transfers",
    Removed.COLLECTIVES: "collectives",
    Removed.COPIES: "copies",
    Removed.HOST: "host time",
}

# What the parts of a path lose time to, as Section has it.
_LOSSES: Mapping[str, str] = {
    **dict.fromkeys((PARTS[part] for part in (Part.HOST_LAUNCH, Part.HOST_WORK, Part.HOST_UNRECORDED)), Cause.HOST),
    **dict.fromkeys((PARTS[part] for part in (Part.COLLECTIVE, Part.ALONE_COLLECTIVE)), "collectives"),
    **dict.fromkeys((PARTS[part] for part in (Part.MEMCPY, Part.MEMSET)), "copies"),
    PARTS[Part.LAUNCH_LATENCY]: Cause.LATENCY,
    PARTS[Part.UNEXPLAINED]: Cause.UNEXPLAINED,
}
# The kinds of work, of which a sentence tells that they would change nothing.
_OF_KINDS = (Removed.COLLECTIVES, Removed.COPIES, Removed.HOST)


def section(result: CriticalPath) -> Section:
    """The median step's path in a sentence, then its parts, its longest pieces, and what each part costs."""
    if result.lacking:
        return Section("critical_path", "Critical path", lacking=result.lacking)
    at, step = _median(result)
    loss, share = _loss(result, at)
    composition, savings = _composition(result, at, step), _savings(result, at, step)
    return Section(
        "critical_path",
        "Critical path",
        (
            composition,
            *_unknown(result, at, step),
            *savings,
            *_busy(result),
            *result.notes,
        ),
        tables=tuple(_tables(result, at, step)),
        data=_data(result),
        share=share,
        loss=loss,
        result=" ".join([composition, *savings[:1]]),
    )


class LargestPart(NamedTuple):
    """The `name` of a part of a critical path, its `ratio` of the path, and whose path it is `of`."""

    name: str
    ratio: float
    of: str


def largest_part(result: CriticalPath) -> LargestPart | None:
    """The largest part of the path of the median step; None where that is compute or not explained."""
    at, step = _median(result)
    first = next(iter(_parts(result, at)), None)
    if first is None or first["part"] in (PARTS[Part.COMPUTE], PARTS[Part.UNEXPLAINED]):
        return None
    return LargestPart(first["part"], first["ratio"], _name(result, step))


def _loss(result: CriticalPath, at: int) -> tuple[str, float | None]:
    """What most of the path of the step at that place is, as Section has it, "" where that is compute; and how much
    shorter the step would be without one kind of work, or where that is not known the share of what it loses most to.
    None if it loses to nothing that counts."""
    shares: dict[str, float] = {}
    for row in _parts(result, at):
        loss = _LOSSES.get(row["part"], "")
        shares[loss] = shares.get(loss, 0.0) + row["ratio"]
    tried = [row["ratio"] for row in records(result.step_what_if) if row["at"] == at and row["what"] in _OF_KINDS]
    saved = [1 - ratio for ratio in tried if pd.notna(ratio)]
    most = max(saved or [share for loss, share in shares.items() if loss], default=0.0)
    return max(shares, key=lambda loss: shares[loss], default=""), most if most >= _WORTH else None


def _median(result: CriticalPath) -> tuple[int, dict[str, Any]]:
    """The step of median length and its place."""
    ((at, step),) = [(at, step) for at, step in enumerate(records(result.steps)) if step["example"] == "median"]
    return at, step


def _parts(result: CriticalPath, at: int) -> list[dict[str, Any]]:
    """The parts of the path of the step at that place, the largest first."""
    return sorted((row for row in records(result.composition) if row["at"] == at), key=lambda row: -row["time_ps"])


def _composition(result: CriticalPath, at: int, step: dict[str, Any]) -> str:
    parts = [f"{percent(row['ratio'])} {row['part']}" for row in _parts(result, at) if row["ratio"] >= _WORTH]
    bound = f": device-bound, {percent(result.busy_ratio or 0)} busy" if result.is_device_bound else ""
    return f"The critical path of {_name(result, step)} is {', '.join(parts[:_PARTS])}{bound}."


def _unknown(result: CriticalPath, at: int, step: dict[str, Any]) -> list[str]:
    """Where the largest stretches lie that nothing explains, or of which of the host nothing is recorded, if either are
    much of the step's path."""
    ratios = {row["part"]: row["ratio"] for row in _parts(result, at)}
    sentences = []
    for part, words in _UNKNOWN.items():
        table = result.unexplained[(result.unexplained["at"] == at) & (result.unexplained["part"] == part)]
        stretches = _longest(table, step) if ratios.get(part, 0) > MOST_UNEXPLAINED else []
        if stretches:
            sentences.append(f"{words}: {'; '.join(stretches)}.")
    return sentences


def _longest(table: pd.DataFrame, step: dict[str, Any]) -> list[str]:
    """The longest stretches of `table` (STRETCH_COLUMNS) in words, those between the same calls together."""
    where: dict[str, tuple[int, int]] = {}
    for row in records(table):
        words = _stretch(row)
        stretches, sum_ps = where.get(words, (0, 0))
        where[words] = stretches + 1, sum_ps + row["time_ps"]
    return [
        f"{time(sum_ps)}{f' in {stretches} stretches' if stretches > 1 else ''} {words}"
        for words, (stretches, sum_ps) in sorted(where.items(), key=lambda item: -item[1][1])[:_STRETCHES]
        if sum_ps >= _WORTH * step["wall_ps"]
    ]


def _stretch(row: dict[str, Any]) -> str:
    """Where a stretch lies, in words."""
    name = {key: short(row[key], _NAME) for key in ("after", "until", "during", "span") if not pd.isna(row[key])}
    if row["waits"]:
        return f"while {row['span_on']} waited in {name['span']}"
    if "during" in name:
        return f"on {row['on']} in {name['during']}, which waited for something that the trace does not tell"
    calls = f"between {name['after']} and {name['until']}" if {"after", "until"} <= name.keys() else ""
    calls = calls or (f"after {name['after']}" if "after" in name else f"before {name['until']}")
    return f"on {row['on']} {calls}" + (f", inside {name['span']}" if "span" in name else "")


def _savings(result: CriticalPath, at: int, step: dict[str, Any]) -> list[str]:
    """What the step would take without each kind of work that holds it up; nothing where nothing was tried."""
    tried = [row for row in records(result.step_what_if) if row["at"] == at and not pd.isna(row["predicted_ps"])]
    saving = [row for row in tried if row["what"] in _REMOVED and row["ratio"] <= 1 - _WORTH]
    # That nobody waits any more for a straggler is worth a word of its own only if it saves something.
    ratio = {row["what"]: row["ratio"] for row in saving}
    if ratio.get(Removed.COLLECTIVE_TRANSFERS, 2) - ratio.get(Removed.COLLECTIVES, 0) < _WORTH:
        saving = [row for row in saving if row["what"] != Removed.COLLECTIVE_TRANSFERS]
    if saving:
        words = [
            f"{time(row['predicted_ps'])} ({change(row['ratio'])}) without {_REMOVED[row['what']]}" for row in saving
        ]
        return [f"It would take {', '.join(words)}."]
    # Devices that take turns compute all along the path, and are idle meanwhile.
    is_busy = result.busy_ratio is None or result.busy_ratio >= _BUSY
    words = list(dict.fromkeys(_REMOVED[row["what"]] for row in tried if row["what"] in _OF_KINDS))
    if words:
        refused = {
            row["what"] for row in records(result.step_what_if) if row["at"] == at and pd.isna(row["predicted_ps"])
        }
        first = _parts(result, at)[0]
        is_computing = first["part"] == "compute" and first["ratio"] >= _COMPUTE
        is_bound = is_busy and is_computing and not refused & set(_OF_KINDS)
        removing = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
        removing += "" if is_busy else ", but not the order of the work,"
        most = max(1 - row["ratio"] for row in tried if row["what"] in _OF_KINDS)
        by = f"shorten it by {percent(most)} at most" if most >= _LEAST else "not shorten it"
        return [f"{'Compute-bound: r' if is_bound else 'R'}emoving {removing} would {by}."]
    if tried and not len(result.what_if[result.what_if["what"].isin(_OF_KINDS)]):
        return [f"{'Compute-bound: it' if is_busy else 'It'} holds no collectives and copies, and no host time."]
    if len(result.what_if):
        reason = next(iter(result.what_if["reason"].dropna()), "too little of its path is explained")
        unexplained = [row["ratio"] for row in _parts(result, at) if row["part"] == PARTS[Part.UNEXPLAINED]]
        if unexplained and unexplained[0] > MOST_UNEXPLAINED:
            reason = f"no dependency explains {percent(unexplained[0])} of its critical path"
        return [f"Its time without collectives, copies or host time cannot be estimated: {reason}."]
    return []


def _busy(result: CriticalPath) -> list[str]:
    """How busy the devices were meanwhile, and whether the host launched ahead of them."""
    if result.busy_ratio is None:
        return []
    steps = "it" if len(result.steps) == 1 else f"these {_all_steps(result, 'step')}"
    busy = f"The devices with work were busy for {percent(result.busy_ratio)} of {steps} on average"
    if result.queued_ratio is None:
        return [f"{busy}."]
    queued = f"{percent(result.queued_ratio)} of what was launched was queued before its turn"
    return [f"{busy}, and {queued}."]


def _name(result: CriticalPath, step: dict[str, Any]) -> str:
    """The step of median length by its number, or the phase that stands for it; without steps the whole trace; and of
    how many it is the median."""
    name = f"step {step['step']}"
    if pd.isna(step["step"]):
        unnamed = "this part of the trace" if result.is_part else "the whole trace"
        name = unnamed if pd.isna(step["name"]) else f"a round of {step['name']!r}"
    elif result.steps["name"].nunique() > 1:
        name = f"{name} of {step['name']}"
    where = f" on the clock of {step['clock']}" if _clocks(result) > 1 else ""
    alike = _alike(result, step)
    which = f"the {median_of(alike)} of {alike:,}, " if alike > 1 else ""
    return f"{name}{where} ({which}{time(step['wall_ps'])})"


def _clocks(result: CriticalPath) -> int:
    return int(result.steps["clock"].nunique())


def _alike(result: CriticalPath, step: dict[str, Any]) -> int:
    """How many steps of the same name are on the same clock: only those have a median."""
    name = result.steps["name"]
    is_named = name.isna() if pd.isna(step["name"]) else name == step["name"]
    return int(((result.steps["clock"] == step["clock"]) & is_named).sum())


def _all_steps(result: CriticalPath, kind: str) -> str:
    """All steps that count, of all clocks."""
    clocks = _clocks(result)
    return f"{quantity(len(result.steps), kind)}{f' of {clocks} clocks' if clocks > 1 else ''}"


def _tables(result: CriticalPath, at: int, step: dict[str, Any]) -> list[Table]:
    several = len(result.steps) > 1
    kind = "round" if pd.isna(step["step"]) else "step"
    steps, alike = _all_steps(result, kind), _alike(result, step)
    return [
        table_of(
            result.total,
            "critical_path.parts",
            f"Critical path by part, all {steps}" if several else "Critical path by part",
            [
                Field("part", Unit.TEXT, "part"),
                Field("time", Unit.TIME, "time_ps"),
                Field("of path", Unit.RATIO, "ratio"),
            ],
            len(result.total),
        ),
        _pieces(result, at, step, f" of the {median_of(alike)} {kind}" if alike > 1 else ""),
        _what_if(result, f"What-if: cost removed, {steps} together" if several else "What-if: cost removed"),
        table_of(
            result.edges,
            "critical_path.dependencies",
            "Dependencies found",
            [
                Field("dependency", Unit.TEXT, lambda row: DEPENDENCIES[row["edge"]]),
                Field("found", Unit.COUNT, "edges"),
                Field("contradicted", Unit.COUNT, "dropped"),
            ],
            len(result.edges),
        ),
    ]


def _pieces(result: CriticalPath, at: int, step: dict[str, Any], of_step: str) -> Table:
    """The longest pieces of one step's path; what is on no device is on a thread of the host."""

    devices = set(result.latency["device"])

    def place(row: dict[str, Any]) -> Instant:
        return instant(row, row["on"] if row["on"] in devices else None, str(step["clock"]))

    mine = result.path[(result.path["at"] == at) & result.path["name"].notna()]
    ordered = mine.sort_values("time_ps", ascending=False, kind="stable").head(MOST_ROWS)
    return table_of(
        ordered,
        "critical_path.pieces",
        f"Longest pieces of the critical path{of_step}",
        [
            Field("part", Unit.TEXT, "part"),
            Field("on", Unit.NAME, "on"),
            Field("what", Unit.NAME, "name"),
            Field("at", Unit.INSTANT, place, brief=False),
            Field("time", Unit.TIME, "time_ps"),
        ],
    )


def _what_if(result: CriticalPath, title: str) -> Table:
    predicted = result.what_if if result.what_if["predicted_ps"].notna().any() else result.what_if[:0]
    return table_of(
        predicted,
        "critical_path.what_if",
        title,
        [
            Field("removed", Unit.NAME, lambda row: _REMOVED.get(row["what"], row["name"])),
            Field("would take", Unit.TIME, "predicted_ps", reason="reason"),
            Field("change", Unit.CHANGE, "ratio", reason="reason"),
        ],
        len(predicted),
    )


def _data(result: CriticalPath) -> dict[str, object]:
    most = min(len(result.steps), MOST_DATA)
    return {
        "steps": plain(result.steps[:most]),
        "steps_in_all": len(result.steps),
        "composition": plain(result.composition[result.composition["at"] < most]),
        "total": plain(result.total),
        "path": plain(result.path),
        "unexplained": plain(result.unexplained),
        "what_if": plain(result.what_if),
        "step_what_if": plain(result.step_what_if[result.step_what_if["at"] < most]),
        "edges": plain(result.edges),
        "latency": plain(result.latency),
        "busy_ratio": result.busy_ratio,
        "queued_ratio": result.queued_ratio,
        "notes": list(result.notes),
    }
