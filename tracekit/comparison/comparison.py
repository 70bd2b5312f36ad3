"""Two variants of one program compared: whether the change helped, how sure that is, and where the time went."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tracekit.analysis.steps import PARTS
from tracekit.analysis.top_ops import PHASE, STEP, WHOLE
from tracekit.columns import frame, records
from tracekit.comparison import statistics
from tracekit.comparison.comparability import cautions, is_same, nothing_shared
from tracekit.comparison.model import (
    CELL_COLUMNS,
    DEVICE_COLUMNS,
    IDLE,
    PART_COLUMNS,
    PART_WORDS,
    Comparison,
    ScopeComparison,
    Side,
)
from tracekit.comparison.operations import Operations, pair
from tracekit.comparison.ratios import ratios
from tracekit.comparison.scopes import NOT_ASKED, UNITS, Figures, pooled, scopes
from tracekit.comparison.sides import Capture, Compared, captures
from tracekit.comparison.verdict import FEWEST_CAPTURES, MARGIN, Change, Control, verdict
from tracekit.comparison.words import headline
from tracekit.errors import TracekitError
from tracekit.units import count, percent, quantity

Key = tuple[str, str]
"""The kind of a scope and its name."""
Scopes = Mapping[Key, Figures]
"""The scopes of one capture."""
# Of windows with more work than this in no step, the windows are not compared where steps are.
_MOST_OUTSIDE = 0.1


def compare(
    a: Compared, b: Compared, *, floor: float | None = None, margin: float = MARGIN, control: str | None = None
) -> Comparison:
    """Compare two variants of one program: b is the change, a what it is compared with.

    Each is a trace in any form, a Report, the directory of a saved report or its summary.json; a sequence of these, or
    a directory with several runs or saved reports, is several captures of one variant. `floor` states by how much two
    captures of one program differ (0.02 for 2 %), where there are fewer than three of each: without either, nothing is
    said of the change. A difference is called none where the interval holds nothing larger than `margin`. `control`
    names a phase that the change does not touch: all else is judged at its pace, so that what slows a whole capture
    cancels; without it, a phase that ran the same operations on both sides settles what walls alone leave inconclusive
    of the phases that did not. Raises TracekitError where a path holds neither trace nor report, `floor` or `margin` is
    no share of 1, or a side lacks the `control`.
    """
    for name, value in (("floor", floor), ("margin", margin)):
        if value is not None and not 0 <= value < 1:
            raise TracekitError(f"{name} is {value}: give a share from 0 to 1, such as 0.02 for 2 %.")
    sides = [_side(name, source) for name, source in (("A", a), ("B", b))]
    found = [[scopes(capture.report) for capture in side.captures] for side in sides]
    keys = [[key for key in each[0] if all(key in its for its in each)] for each in found]
    both = [key for key in keys[0] if key in keys[1]]
    marked = [key for key in both if key[0] == STEP]
    outside = _outside(sides) if marked else ""
    both = [key for key in both if key[0] != WHOLE or not outside]
    phases = sum(key[0] == PHASE for key in both)
    steps = (_steps_in(sides[0]), _steps_in(sides[1])) if marked else (0, 0)
    pace = _control(control, [key for key in both if key[0] == PHASE], *found)
    compared = [
        _scope(key, [its[key] for its in found[0]], [its[key] for its in found[1]], floor, margin, phases, steps, pace)
        for key in both
    ]
    compared.sort(key=lambda scope: _rank(scope, sides[0].captures[0], pace))
    main = compared[0] if compared else None
    figures = None
    if main:
        key = main.kind, main.name
        figures = pooled([its[key] for its in found[0]]), pooled([its[key] for its in found[1]])
    missing = [
        f"{_named(key)} of {side.name}"
        for side, its, other in zip(sides, keys, keys[::-1], strict=True)
        for key in its
        if key not in other
    ]
    missing += [outside] if outside else []
    reports = [[capture.report for capture in side.captures] for side in sides]
    same = any(is_same(one, other) for one in reports[0] for other in reports[1])
    notes = cautions(sides[0].captures, sides[1].captures, figures)
    result = headline(main, same, nothing_shared(sides[0].captures, sides[1].captures))
    return Comparison(result, sides[0], sides[1], tuple(compared), notes, same, tuple(missing))


def _side(name: str, source: Compared) -> Side:
    its = captures(source)
    return Side(name, tuple(capture.label for capture in its), its)


def _outside(sides: Sequence[Side]) -> str:
    """Why windows are not compared that hold more than steps: how much of the work of each side belongs to none; ""
    where that is little."""
    shares = []
    for side in sides:
        reports = [capture.report for capture in side.captures]
        operations = [report.operations for report in reports]
        rows = sum(int(its.loc[its["scope"] == WHOLE, "n"].sum()) for its in operations)
        inside = sum(int(report.explanation.steps.table["rows"].sum()) for report in reports)
        shares.append(max(1 - inside / rows, 0.0) if rows else 0.0)
    if max(shares) <= _MOST_OUTSIDE:
        return ""
    return (
        f"the whole trace ({percent(shares[0])} of the device events of A and {percent(shares[1])} of B are in no step)"
    )


def _steps_in(side: Side) -> int:
    """How many steps the windows of a side hold, those that do not count too."""
    tables = [capture.report.explanation.steps.table for capture in side.captures]
    return sum(int(table.groupby("clock").size().max()) for table in tables)


def _control(name: str | None, phases: Sequence[Key], a: Sequence[Scopes], b: Sequence[Scopes]) -> Control | None:
    """The phase by which the pace of each capture is known: the one that is stated; else, of those that ran the same
    operations on both sides while others did not, the longest, unless it got faster or slower itself."""
    if name is not None:
        if (PHASE, name) not in phases:
            there = ", ".join(phase for _, phase in phases) or "none"
            raise TracekitError(f"No phase {name} is on both sides, which --control names: they share {there}.")
        stated = _control_of((PHASE, name), a, b, is_stated=True)
        if not all((its > 0).all() for its in (*stated.a, *stated.b)):
            raise TracekitError(f"A round of phase {name}, which --control names, took no time: it shows no pace.")
        return stated
    if len(phases) < 2 or min(len(a), len(b)) < FEWEST_CAPTURES:
        return None
    same = [key for key in phases if _paired(*(pooled([its[key] for its in side]) for side in (a, b))).is_same_work]
    if not same or len(same) == len(phases):
        return None
    found = _control_of(max(same, key=lambda key: sum(int(its[key].walls_ps.sum()) for its in a)), a, b)
    if not all((its > 0).all() for its in (*found.a, *found.b)):
        return None
    has_changed = verdict(found.a, found.b, tests=len(phases)).outcome in (Change.FASTER, Change.SLOWER)
    return None if has_changed else found


def _control_of(key: Key, a: Sequence[Scopes], b: Sequence[Scopes], is_stated: bool = False) -> Control:
    first, second = ([its[key].walls_ps for its in side] for side in (a, b))
    return Control(key[1], first, second, is_stated)


def _paired(a: Figures, b: Figures) -> Operations:
    """The operations of the units of both sides, each on every device."""
    return _pairs(a, b, *(its.units * max(len(its.devices), 1) for its in (a, b)))


def _pairs(a: Figures, b: Figures, a_units: int, b_units: int) -> Operations:
    """The operations of both sides, paired; none where one side does not tell its own."""
    is_told = len(a.operations) > 0 and len(b.operations) > 0
    first, second = (its.operations if is_told else its.operations[:0] for its in (a, b))
    return pair(first, second, a_units, b_units)


def _named(key: Key) -> str:
    return {WHOLE: "the whole trace", STEP: f"steps {key[1]}", PHASE: f"phase {key[1]}"}[key[0]]


def _rank(scope: ScopeComparison, first: Capture, pace: Control | None) -> tuple[int, bool, int]:
    """Where a scope stands: steps that the program annotates, then phases, the control last, then other steps, then the
    window; of each those that take longest in all."""
    summary = first.report.explanation.steps.summary
    marks = dict(zip(summary["name"], summary["marked_by"], strict=True))
    annotated = scope.kind == STEP and marks.get(scope.name) == "annotation"
    place = 0 if annotated else {PHASE: 1, STEP: 2, WHOLE: 3}[scope.kind]
    is_control = pace is not None and (scope.kind, scope.name) == (PHASE, pace.name)
    return place, is_control, -scope.units[0] * int(scope.cells["a_ps"].iloc[0])


def _scope(
    key: tuple[str, str],
    a: Sequence[Figures],
    b: Sequence[Figures],
    floor: float | None,
    margin: float,
    phases: int,
    steps: tuple[int, int],
    pace: Control | None,
) -> ScopeComparison:
    kind, name = key
    sides = pooled(a), pooled(b)
    unit = UNITS[STEP if kind == WHOLE and steps[0] != steps[1] and all(steps) else kind]
    per_step = kind == WHOLE and steps[0] != steps[1] and all(steps)
    pieces = steps if per_step else tuple(figures.units for figures in sides)
    counts = [number * max(len(its.devices), 1) for number, its in zip(pieces, sides, strict=True)]
    waterfall = _waterfall(*sides, *counts)
    pairs = _pairs(*sides, *counts)
    walls = [[figures.walls_ps for figures in side] for side in (a, b)]
    judged = None
    if not (kind == WHOLE and all(steps)) and all((its > 0).all() for side in walls for its in side):
        is_at_pace = (
            pace
            and (kind, name) != (PHASE, pace.name)
            and (pace.is_stated or (kind == PHASE and not pairs.is_same_work))
        )
        tests = phases if kind == PHASE else 1
        judged = verdict(*walls, floor=floor, margin=margin, tests=tests, control=pace if is_at_pace else None)
    return ScopeComparison(
        kind,
        name,
        unit,
        (pieces[0], pieces[1]),
        judged,
        _cells(*sides, waterfall),
        waterfall,
        ratios(*sides),
        _devices(*sides),
        _path(*sides),
        pairs,
        tuple(_notes(*sides, pieces, unit)),
    )


def _notes(a: Figures, b: Figures, units: tuple[int, ...], unit: str) -> list[str]:
    notes = []
    if a.is_trimmed or b.is_trimmed:
        sides = " and ".join(name for name, its in (("A", a), ("B", b)) if its.is_trimmed)
        verb = "have" if a.is_trimmed and b.is_trimmed else "has"
        notes.append(
            f"{sides} {verb} one step: it is told from its first to its last device work, since nothing shows where "
            "the one before it ended. One step says nothing of noise."
        )
    if len(a.devices) != len(b.devices):
        notes.append(f"Times are means over {len(a.devices)} devices of A and {len(b.devices)} of B.")
    if units[0] != units[1]:
        notes.append(f"A has {quantity(units[0], unit)} and B {count(units[1])}: all figures are of one {unit}.")
    return notes


def _parts(figures: Figures, by_cause: bool) -> dict[str, int]:
    """The time of the parts, summed over units and devices; idle time by cause where both sides tell it."""
    parts = {PART_WORDS[part]: figures.part_ps(part) for part in ("compute", "collective", "memory")}
    if by_cause and figures.idle is not None:
        return parts | {f"{IDLE}{cause}": time for cause, time in figures.idle.items()}
    return parts | {PART_WORDS["idle"]: figures.part_ps("idle")}


def _waterfall(a: Figures, b: Figures, a_count: int, b_count: int) -> pd.DataFrame:
    by_cause = a.idle is not None and b.idle is not None
    # Of idle time whose cause was not looked for on one side, causes would say what is not known.
    by_cause = by_cause and not any(NOT_ASKED in (its.idle or {}) for its in (a, b))
    parts = _parts(a, by_cause), _parts(b, by_cause)
    names = [*dict.fromkeys([*parts[0], *parts[1]])]
    of_unit = [
        shares_of([its.get(name, 0) for name in names], count)
        for its, count in zip(parts, (a_count, b_count), strict=True)
    ]
    rows = [(name, old, new, new - old) for name, old, new in zip(names, *of_unit, strict=True) if old or new]
    return frame(PART_COLUMNS, rows)


def shares_of(totals: Sequence[int], count: int) -> list[int]:
    """`totals` over `count`, rounded so that they sum to the rounded sum over `count`: the largest remainders go up."""
    if not count:
        return [0] * len(totals)
    low = [total // count for total in totals]
    left = (2 * sum(totals) + count) // (2 * count) - sum(low)
    order = sorted(range(len(totals)), key=lambda at: (-(totals[at] % count), at))
    for at in order[: max(left, 0)]:
        low[at] += 1
    return low


def _cells(a: Figures, b: Figures, waterfall: pd.DataFrame) -> pd.DataFrame:
    """The wall, busy time and the four parts of a unit, with the interval of each difference within these runs."""
    rows = records(waterfall)
    times = {}
    for word in PART_WORDS.values():
        of = [row for row in rows if row["part"] == word or (word == "idle" and row["part"].startswith(IDLE))]
        times[word] = tuple(sum(row[key] for row in of) for key in ("a_ps", "b_ps"))
    wall = tuple(sum(its[side] for its in times.values()) for side in (0, 1))
    busy = tuple(wall[side] - times["idle"][side] for side in (0, 1))
    cells = {"wall": wall, "busy": busy, **times}
    table = []
    for cell, (old, new) in cells.items():
        bounds = _bounds(a, b, cell) or (None, None)
        table.append((cell, old, new, new - old, *bounds))
    return frame(CELL_COLUMNS, table)


def _bounds(a: Figures, b: Figures, cell: str) -> tuple[int, int] | None:
    if a.parts is None or b.parts is None:
        return None
    of = {word: [part] for part, word in PART_WORDS.items()} | {
        "wall": [*PARTS],
        "busy": ["compute", "collective", "memory"],
    }
    sides = [
        its.parts[of[cell]].to_numpy(np.int64).sum(axis=1).astype(float) / max(len(its.devices), 1)
        for its in (a, b)
        if its.parts is not None
    ]
    found = statistics.difference_of_means(*sides)
    return (round(found[0]), round(found[1])) if found else None


def _devices(a: Figures, b: Figures) -> pd.DataFrame:
    """Each device beside the one of the same place on the other side, by any name; none where numbers differ."""
    if len(a.devices) != len(b.devices):
        return frame(DEVICE_COLUMNS)
    columns: dict[str, Any] = {"a": a.devices, "b": b.devices}
    for side, figures in (("a", a), ("b", b)):
        each = [
            shares_of([int(row[of].sum()) for of in PARTS.values()], figures.units)
            for _, row in figures.cells.iterrows()
        ]
        for at, part in enumerate(PARTS):
            columns[f"{side}_{part}_ps"] = [its[at] for its in each]
    return frame(DEVICE_COLUMNS, columns)


def _path(a: Figures, b: Figures) -> pd.DataFrame:
    """The critical path of a step by part, the largest difference first; none where a side has no path."""
    if not a.path or not b.path:
        return frame(PART_COLUMNS)
    names = [*dict.fromkeys([*a.path, *b.path])]
    sides = [shares_of([its.path.get(name, 0) for name in names], its.units) for its in (a, b)]
    rows = [(name, old, new, new - old) for name, old, new in zip(names, *sides, strict=True)]
    return frame(PART_COLUMNS, sorted(rows, key=lambda row: -abs(row[3])))
