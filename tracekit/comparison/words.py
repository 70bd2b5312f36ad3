"""What a comparison says in sentences and tables, which every face shows."""

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from tracekit.analysis.idle import Cause
from tracekit.analysis.top_ops import PHASE, STEP
from tracekit.columns import records
from tracekit.comparison.means import LongUnits, MeanUnit
from tracekit.comparison.model import IDLE, PART_WORDS, ScopeComparison
from tracekit.comparison.operations import BOTH, CAME
from tracekit.comparison.ratios import AT_ONCE, BETWEEN, WITHIN
from tracekit.comparison.verdict import Change, Verdict
from tracekit.report.section import Column, Missing, Table, Unit, or_missing, table
from tracekit.units import change, confidence, count, percent, quantity, time

# A part of the time is worth a sentence from this share of the difference on, or of the wall of a.
_OF_DIFFERENCE, _OF_WALL = 0.1, 0.02
_MOST_OPERATIONS = 3
# Half of what is rounded away: a difference smaller than this is none that a reader could see.
_TINY = 0.0005
_ROWS = {"cells": 12, "ratios": 12, "waterfall": 20, "operations": 8, "devices": 8, "path": 8}


def headline(scope: ScopeComparison | None, is_same: bool, nothing_shared: str) -> str:
    """The result in one sentence, of the scope that the verdict is on; `nothing_shared` says why there is none."""
    if is_same:
        return "The same trace is on both sides: there is nothing to compare."
    if scope is None:
        return nothing_shared
    if scope.verdict is None:
        return f"The {scope.label} cannot be judged: a unit of it took no time."
    return _judged(scope, scope.verdict)


def _judged(scope: ScopeComparison, its: Verdict) -> str:
    if its.mean is not None:
        return _judged_with_mean(scope, its, its.mean)
    what = (f"at the pace of phase {its.control}, " if its.control else "") + _typical(scope, its)
    times = f"{time(its.b_ps)} instead of {time(its.a_ps)}, {signed(its.ratio)}"
    interval = interval_words(its, scope.unit)
    match its.outcome:
        case Change.FASTER | Change.SLOWER:
            return f"B is {its.outcome.value} than A: {what} takes {times}{interval}."
        case Change.NO_DIFFERENCE:
            largest = percent(its.no_larger_than)
            return f"No difference larger than {largest} between A and B: {what} takes {times}{interval}."
        case Change.INCONCLUSIVE:
            return f"Inconclusive: {what} of B takes {times}{interval}."
    runs = _runs(its)
    if its.low is None or its.high is None:
        return f"{runs}, {what} takes {times}: too few {scope.unit}s for an interval, and nothing is said of noise."
    if its.low <= 1 <= its.high:
        return f"{runs}, no difference is certain: {what} of B takes {times}{interval}."
    return f"{runs}, {what} of B takes {times}{interval}; that is no verdict on the change."


def _judged_with_mean(scope: ScopeComparison, its: Verdict, mean: MeanUnit) -> str:
    """The result where the mean unit differs otherwise than the typical one: both, the one that decides first."""
    pace = f"at the pace of phase {its.control}, " if its.control else ""
    typical, of_mean = _typical(scope, its), f"the mean {_noun(scope)}"
    times = f"{time(its.b_ps)} instead of {time(its.a_ps)}, {signed(its.ratio)}{interval_words(its, scope.unit)}"
    means = f"{time(mean.b_ps)} instead of {time(mean.a_ps)}, {signed(mean.ratio)}{_interval_of_mean(its, mean)}"
    if not mean.is_proven:
        why = "the captures do not prove" if not its.within else f"{_few(its)} cannot judge"
        return f"{_typical_first(its, typical, pace)}{times}; {of_mean} takes {means}, which {why}."
    word = (Change.SLOWER if mean.is_longer else Change.FASTER).value
    match its.of_typical:
        case Change.FASTER | Change.SLOWER if its.of_typical.value == word:
            return f"B is {word} than A: {pace}{typical} takes {times}; {of_mean} takes {means}."
        case Change.FASTER | Change.SLOWER:
            return f"B is {its.of_typical.value} than A in {typical}, but {word} in the mean: {pace}{times}; {means}."
    alike = "is alike" if its.of_typical is Change.NO_DIFFERENCE else "is inconclusive"
    return f"B is {word} than A: {pace}{of_mean} takes {means}, while {typical} {alike}: {times}."


def _typical_first(its: Verdict, typical: str, pace: str) -> str:
    """What is said before the times of the typical unit where the mean is not proven to have changed."""
    match its.of_typical:
        case Change.FASTER | Change.SLOWER:
            lead = "Inconclusive: " if its.outcome is Change.INCONCLUSIVE else ""
            return f"{lead}B is {its.of_typical.value} than A in {typical}: {pace}"
        case Change.NO_DIFFERENCE:
            return _sentence(f"{pace}{typical} is alike: ")
        case Change.INCONCLUSIVE:
            return f"Inconclusive: {pace}{typical} of B takes "
    return f"{_runs(its)}, {pace}{typical} takes "


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _few(its: Verdict) -> str:
    return "one capture a side" if its.captures == (1, 1) else "so few captures"


def _runs(its: Verdict) -> str:
    return "Within these two runs" if its.captures == (1, 1) else "Within these runs"


def _noun(scope: ScopeComparison) -> str:
    return {STEP: "step", PHASE: f"round of phase {scope.name}"}.get(scope.kind, "window")


def _typical(scope: ScopeComparison, its: Verdict) -> str:
    noun = _noun(scope)
    if max(scope.units) == max(its.captures):  # one a capture
        return f"the {noun}"
    if its.statistic == "median":
        return f"the median {noun}"
    return f"the mean {noun}{' without outliers' if its.mean else ''}"


def _interval_of_mean(its: Verdict, mean: MeanUnit) -> str:
    """The interval of the mean in brackets; "" where none says that it has changed."""
    if not mean.is_proven or mean.low is None or mean.high is None:
        return ""
    bounds = f"{confidence(mean.level)} interval {signed(mean.low)} to {signed(mean.high)}"
    return f" ({bounds}, {its.captures[0]} and {its.captures[1]} captures)"


def mean_words(its: Verdict, unit: str) -> str:
    """Which units make the mean differ, and what that proves; "" where it differs as the typical one."""
    mean = its.mean
    if mean is None:
        return ""
    a, b = mean.long
    said = []
    if a.number or b.number:
        each = (_long(name, of, unit) if of.number else f"none of {name}" for name, of in (("B", b), ("A", a)))
        said.append(f"{'; '.join(each if b.number else [*each][::-1])}.")
    if mean.by_chance is not None:
        chance = percent(mean.by_chance)
        said.append(
            f"Every capture of one side has {unit}s of twice the length of its others and none of the other side: "
            f"chance gives that in {chance} of comparisons at most."
        )
    elif not mean.is_proven and (mean.low is None or mean.high is None):
        said.append(f"{_sentence(_few(its))} cannot tell what the change did to the mean from what befell one run.")
    elif not mean.is_proven:
        bounds = f"{signed(mean.low)} to {signed(mean.high)}"  # type: ignore[arg-type]
        said.append(
            f"That does not prove a change of the mean: its {confidence(mean.level)} interval between captures is "
            f"{bounds}."
        )
    return " ".join(said)


def _long(name: str, of: LongUnits, unit: str) -> str:
    where = f", in {of.captures_with} of {quantity(of.captures, 'capture')}" if of.captures > 1 else ""
    verb = "takes" if of.number == 1 else "take"
    average = "" if of.number == 1 else " on average"
    return (
        f"{count(of.number)} of {quantity(of.units, unit)} of {name} {verb} {time(of.excess_ps)} longer than the median"
        f"{average}{where}"
    )


def signed(ratio: float) -> str:
    """What b over a is as a change: -44.4 %, +0.1 %, no change."""
    return "no change" if ratio == 1 else change(ratio)


def interval_words(its: Verdict, unit: str) -> str:
    """The interval in brackets, and what it rests on; "" without one."""
    if its.low is None or its.high is None:
        return ""
    bounds = f"{confidence(its.level)} interval {signed(its.low)} to {signed(its.high)}"
    basis = f"over the {unit}s of each run" if its.within else f"{its.captures[0]} and {its.captures[1]} captures"
    return f" ({bounds}, {basis})"


def sources(labels: Iterable[str]) -> str:
    """Captures by name."""
    each = [*labels]
    named = ", ".join(each[:4]) + (f" and {len(each) - 4} more" if len(each) > 4 else "")
    return named if len(each) < 2 else f"{quantity(len(each), 'capture')}: {named}"


def sentences(scope: ScopeComparison, with_operations: bool = True) -> list[str]:
    """What changed in a scope: the reason of the verdict, where the difference went, and which operations changed."""
    its = scope.verdict
    said = []
    if its is not None:
        if its.reason and (its.control or its.of_typical not in (Change.FASTER, Change.SLOWER)):
            of = f"Of {_typical(scope, its)}: " if its.mean else ""
            said.append(f"{of}{its.reason}")
        said += [words] if (words := mean_words(its, scope.unit)) else []
        said += _modes(its)
    said += _went(scope) + _at_once(scope)
    said += _operations(scope) if with_operations else []
    return said


def _modes(its: Verdict) -> list[str]:
    said = []
    for name, found in zip("AB", its.modes, strict=True):
        if found:
            how = "alternate between" if found.changes > 2 else "change once from one to the other of"
            said.append(
                f"The times of {name} {how} two modes, {time(found.low_ps)} ({found.low_units}) and "
                f"{time(found.high_ps)} ({found.high_units}): means are compared, not medians."
            )
    return said


def _went(scope: ScopeComparison) -> list[str]:
    """Where the difference of the mean wall went: the parts that are much of it, and always compute."""
    wall = scope.cell("wall")
    unit = scope.unit
    if abs(wall["diff_ps"]) <= _TINY * max(wall["a_ps"], 1):
        return [f"The mean {unit} is as long on both sides: {time(wall['b_ps'])}."]
    difference = wall["diff_ps"]
    times = f"{time(wall['b_ps'])} instead of {time(wall['a_ps'])}, {_signed_time(difference)}"
    said = [f"The mean {unit} takes {times}. Of that:"]
    parts = [scope.cell(word) for word in ("idle", "busy", "exposed collectives", "exposed copies")]
    worth = [
        row
        for row in sorted(parts, key=lambda row: -abs(row["diff_ps"]))
        if row["cell"] == "busy"
        or abs(row["diff_ps"]) >= _OF_DIFFERENCE * abs(difference)
        or abs(row["diff_ps"]) >= _OF_WALL * wall["a_ps"]
    ]
    compute = scope.cell("compute")
    words = [
        f"{row['cell']} {_signed_time(row['diff_ps'])}{_relative(row)}"
        + (f", compute {_signed_time(compute['diff_ps'])}{_relative(compute)}" if row["cell"] == "busy" else "")
        for row in worth
    ]
    said[0] += f" {'; '.join(words)}."
    return [*said, *_causes(scope, difference)]


def _causes(scope: ScopeComparison, difference: int) -> list[str]:
    """The cause of idle time that changed most, where that is much of the difference of the wall; most of the change
    has no proven one where more than half of what went its way has none."""
    idle = scope.cell("idle")["diff_ps"]
    causes = {
        row["part"].removeprefix(IDLE): row
        for row in records(scope.waterfall)
        if row["part"].startswith(IDLE) and row["diff_ps"] * idle > 0
    }
    unproven = causes.pop(Cause.UNEXPLAINED, None)
    said = []
    if unproven and abs(unproven["diff_ps"]) >= _OF_DIFFERENCE * abs(difference):
        share = unproven["diff_ps"] / (unproven["diff_ps"] + sum(row["diff_ps"] for row in causes.values()))
        if share > 0.5:
            return [f"For most of the change of idle time a {scope.unit} the trace proves no cause."]
        said.append(f"For {percent(share)} of the change of idle time a {scope.unit} the trace proves no cause.")
    largest = max(causes, key=lambda cause: abs(causes[cause]["diff_ps"]), default=None)
    if largest is None or abs(causes[largest]["diff_ps"]) < _OF_DIFFERENCE * abs(difference):
        return said
    how, row = "fell" if idle < 0 else "grew", causes[largest]
    of = "Of idle time with a proven cause" if said else "Of idle time"
    times = f"{time(row['b_ps'])} instead of {time(row['a_ps'])} a {scope.unit}"
    return [f"{of}, {largest} {how} most: {times}.", *said]


def _at_once(scope: ScopeComparison) -> list[str]:
    """How much of the time several devices worked at once, where that changed."""
    row = next((row for row in records(scope.ratios) if row["ratio"] == AT_ONCE), None)
    if row is None or not pd.isna(row["reason"]) or abs(row["b"] - row["a"]) < _OF_WALL:
        return []
    return [f"Two or more devices were busy at once in {percent(row['b'])} of the time instead of {percent(row['a'])}."]


def _ratio(row: dict[str, Any]) -> float | Missing:
    return row["b_ps"] / row["a_ps"] if row["a_ps"] else Missing("none in A")


def _signed_time(ps: int) -> str:
    return f"{'+' if ps > 0 else ''}{time(ps)}"


def _relative(row: dict[str, Any]) -> str:
    if not row["a_ps"]:
        return " (none in A)" if row["b_ps"] else ""
    return f" ({change(row['b_ps'] / row['a_ps'])})" if row["diff_ps"] else ""


def _operations(scope: ScopeComparison) -> list[str]:
    """The operations that changed most, each way."""
    rows = records(scope.operations.table)
    total = sum(row["a_ps"] for row in rows)
    said = []
    for word, sign in (("shrank", -1), ("grew", 1)):
        its = [row for row in rows if row["diff_ps"] * sign > 0.001 * total][:_MOST_OPERATIONS]
        if its:
            listed = "; ".join(f"{short_operation(row['operation'])} {_signed_time(row['diff_ps'])}" for row in its)
            said.append(f"Operations that {word} most, a {scope.unit}: {listed}.")
    return said


def short_operation(name: str) -> str:
    """A kernel's name in a sentence."""
    from tracekit.labels import labels

    return labels([name], 48)[0]


def cells(scope: ScopeComparison) -> Table:
    """The wall and its parts on both sides."""
    has_bounds = scope.cells["low_ps"].notna().any()
    columns = [
        Column("", Unit.TEXT), Column("A", Unit.TIME), Column("B", Unit.TIME), Column("difference", Unit.TIME),
        Column("change", Unit.CHANGE),
    ]  # fmt: skip
    columns += [Column("from", Unit.TIME), Column("to", Unit.TIME)] if has_bounds else []
    rows = [
        [
            row["cell"], row["a_ps"], row["b_ps"], row["diff_ps"], _ratio(row),
            *([row["low_ps"], row["high_ps"]] if has_bounds else []),
        ]
        for row in records(scope.cells)
        if row["a_ps"] or row["b_ps"]
    ]  # fmt: skip
    about = "Means over units and devices."
    about += " From, to: the 95 % interval of the difference, over the units of these runs only." if has_bounds else ""
    return table(f"cells.{scope.label}", f"A mean {scope.unit}", columns, rows, _ROWS["cells"], about, about)


def waterfall(scope: ScopeComparison) -> Table:
    """Where the difference went; the parts sum to it."""
    columns = [
        Column("part", Unit.TEXT), Column("A", Unit.TIME), Column("B", Unit.TIME), Column("difference", Unit.TIME),
    ]  # fmt: skip
    rows = [[row["part"], row["a_ps"], row["b_ps"], row["diff_ps"]] for row in records(scope.waterfall)]
    rows.sort(key=lambda row: -abs(int(row[3] or 0)))
    wall = scope.cell("wall")
    rows.append(["sum", wall["a_ps"], wall["b_ps"], wall["diff_ps"]])
    return table(f"waterfall.{scope.label}", "Where the difference went", columns, rows, _ROWS["waterfall"])


def operations(scope: ScopeComparison, most: int = _ROWS["operations"]) -> Table:
    """The operations that changed most, by time and by calls."""
    columns = [
        Column("operation", Unit.NAME), Column("A", Unit.TIME), Column("B", Unit.TIME),
        Column("difference", Unit.TIME), Column("calls A", Unit.MEAN), Column("calls B", Unit.MEAN),
        Column("call A", Unit.TIME), Column("call B", Unit.TIME),
    ]  # fmt: skip
    states = {BOTH: "", CAME: "only in B", "went": "only in A"}
    rows = [
        [
            row["operation"],
            row["a_ps"] if row["a_n"] else Missing(states[row["state"]]),
            row["b_ps"] if row["b_n"] else Missing(states[row["state"]]),
            row["diff_ps"], row["a_n"], row["b_n"],
            row["a_call_ps"], row["b_call_ps"],
        ]
        for row in records(scope.operations.table)
    ]  # fmt: skip
    title = f"Operations that changed most, a {scope.unit}"
    return table(f"operations.{scope.label}", title, columns, rows, most, scope.operations.why, scope.operations.why)


def ratios(scope: ScopeComparison) -> Table:
    """What part of the time devices were busy and at once, and of collectives and copies behind compute."""
    columns = [
        Column("share", Unit.NAME), Column("A", Unit.RATIO), Column("B", Unit.RATIO), Column("difference", Unit.RATIO),
    ]  # fmt: skip
    bases = set(scope.ratios["basis"].dropna())
    columns += [Column("from", Unit.RATIO), Column("to", Unit.RATIO)] if bases else []
    rows = []
    for row in records(scope.ratios):
        a, b = (or_missing(row[side], row["reason"]) for side in "ab")
        difference = b - a if pd.isna(row["reason"]) else Missing(row["reason"])
        bounds = [or_missing(row[bound], "too few units") for bound in ("low", "high")]
        rows.append([row["ratio"], a, b, difference, *(bounds if bases else [])])
    how = {BETWEEN: "between captures", WITHIN: "over the units of these runs only"}
    words = " or ".join(how[basis] for basis in how if basis in bases)
    about = "Shares of the time of all units; differences in points of percent."
    about += f" From, to: the 95 % interval of the difference, {words}." if bases else ""
    absent = dict.fromkeys(
        f"{row['ratio']}: {row['reason']}" for row in records(scope.ratios) if not pd.isna(row["reason"])
    )
    about += "".join(f" {reason[0].upper()}{reason[1:]}." for reason in absent)
    return table(f"ratios.{scope.label}", "Overlap", columns, rows, _ROWS["ratios"], about, about)


def devices(scope: ScopeComparison) -> Table | None:
    """Each device beside the one of the same place on the other side; None for one device."""
    if len(scope.devices) < 2:
        return None
    columns = [Column("A", Unit.DEVICE), Column("B", Unit.DEVICE)]
    columns += [Column(f"{PART_WORDS[part]} {side}", Unit.TIME) for part in PART_WORDS for side in "AB"]
    rows = [
        [row["a"], row["b"], *(row[f"{side}_{part}_ps"] for part in PART_WORDS for side in "ab")]
        for row in records(scope.devices)
    ]
    return table(f"devices.{scope.label}", f"By device, a {scope.unit}", columns, rows, _ROWS["devices"])


def path(scope: ScopeComparison) -> Table | None:
    """The critical path of a step by part; None where a side has none."""
    if scope.path.empty:
        return None
    columns = [
        Column("part", Unit.TEXT), Column("A", Unit.TIME), Column("B", Unit.TIME), Column("difference", Unit.TIME),
    ]  # fmt: skip
    rows = [[row["part"], row["a_ps"], row["b_ps"], row["diff_ps"]] for row in records(scope.path)]
    return table(f"path.{scope.label}", "Critical path of a step", columns, rows, _ROWS["path"])


def verdicts(scopes: Sequence[ScopeComparison]) -> Table | None:
    """The verdict on each scope; None for a single one."""
    judged = [scope for scope in scopes if scope.verdict]
    if len(judged) < 2:
        return None
    columns = [
        Column("scope", Unit.NAME), Column("A", Unit.TIME), Column("B", Unit.TIME), Column("change", Unit.CHANGE),
        Column("from", Unit.CHANGE), Column("to", Unit.CHANGE), Column("verdict", Unit.TEXT),
    ]  # fmt: skip
    has_control = any(its.control for scope in judged if (its := scope.verdict))
    has_mean = any(its.mean for scope in judged if (its := scope.verdict))
    columns += [Column("mean", Unit.CHANGE)] if has_mean else []
    columns += [Column("pace of", Unit.NAME)] if has_control else []
    rows = [
        [
            scope.label, its.a_ps, its.b_ps, its.ratio, its.low, its.high, its.outcome.value,
            *([its.mean.ratio if its.mean else Missing("alike")] if has_mean else []),
            *([its.control or "-"] if has_control else []),
        ]
        for scope in judged
        if (its := scope.verdict)
    ]  # fmt: skip
    about = "Each scope by itself; the 5 % of false alarms are shared between the phases."
    about += " Mean: the change of the mean, where it is not that of the typical time." if has_mean else ""
    about += " Pace of a phase: times over that phase's in the same capture." if has_control else ""
    return table("verdicts", "Each scope", columns, rows, 8, about)


def tables(scope: ScopeComparison) -> list[Table]:
    """The tables of a scope, in order."""
    every = [cells(scope), waterfall(scope), ratios(scope), operations(scope), devices(scope), path(scope)]
    return [each for each in every if each is not None and each.rows]


def title(scope: ScopeComparison) -> str:
    """A scope as a heading names it, with how many units of each side are compared."""
    return f"{scope.label[0].upper()}{scope.label[1:]}: {counted(scope)}"


def counted(scope: ScopeComparison) -> str:
    """How many units of each side are compared."""
    a, b = scope.units
    return f"{quantity(a, scope.unit)} of A and {count(b)} of B"
