"""What the devices of both sides did over time, on one scale: what the two timelines above each other show."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.analysis.steps import PARTS, time_spent
from tracekit.analysis.top_ops import PHASE, STEP
from tracekit.comparison.model import ScopeComparison, Side
from tracekit.comparison.sides import Capture

BINS = 1000
_MOST_STEPS, MOST_DEVICES = 6, 8


@dataclass(frozen=True, eq=False)
class Strip:
    """One side of the picture: what each of `devices` did from the start of the first shown unit on.

    `shares` maps a part of PARTS to the share of each bin, shape (devices, bins); what lies behind the end of this side
    is 0 in all of them. `units` are start and end of each shown unit, in ps since the start, shape (u, 2). `left_out`
    counts the devices that are not shown.
    """

    devices: tuple[str, ...]
    shares: dict[str, NDArray[np.float64]]
    units: iv.Intervals
    left_out: int


def strips(a: Side, b: Side, scope: ScopeComparison) -> tuple[tuple[Strip, Strip], int] | str:
    """Both sides and the length of their common axis in ps; or why there is no picture."""
    sides = [_median_capture(side, scope) for side in (a, b)]
    if any(capture.timeline is None for capture in sides):
        return "A saved report without its intervals.parquet has no timeline to show."
    units = [_units(capture, scope) for capture in sides]
    if any(shown is None for shown in units):
        return "The sides have no window on one clock to show."
    first, second = (shown for shown in units if shown is not None)
    length = max(int(shown[-1, 1] - shown[0, 0]) for shown in (first, second))
    return (_strip(sides[0], first, length), _strip(sides[1], second, length)), length


def _median_capture(side: Side, scope: ScopeComparison) -> Capture:
    """The capture whose units take a middling time; of one, that."""
    lengths = []
    for capture in side.captures:
        shown = _units(capture, scope)
        lengths.append(0 if shown is None else int(np.median(shown[:, 1] - shown[:, 0])))
    return side.captures[int(np.argsort(lengths, kind="stable")[(len(lengths) - 1) // 2])]


def _units(capture: Capture, scope: ScopeComparison) -> iv.Intervals | None:
    """The units to show, in order on one clock: of steps the first that count, of a phase its first round."""
    report = capture.report
    if scope.kind == STEP:
        table = report.explanation.steps.table
        of = table[table["left_out"].isna() & (table["name"] == scope.name)]
        of = of[of["clock"] == of["clock"].iloc[0]]
        start, end = ("start_ps", "end_ps") if len(of) > 1 else ("device_start_ps", "device_end_ps")
        shown: iv.Intervals = of[[start, end]].to_numpy(np.int64)[:_MOST_STEPS]
        return shown
    windows = report.phases.windows.get(scope.name, {}) if scope.kind == PHASE else report.windows
    its = next(iter(windows.values()), iv.EMPTY)
    return its[:1] if len(its) else None


def _strip(capture: Capture, units: iv.Intervals, length: int) -> Strip:
    assert capture.timeline is not None
    unions = capture.timeline.unions.devices
    clock = {capture.report.clock_of.get(name) for name in unions}
    names = [name for name in unions if len(clock) < 2 or unions[name].clock == next(iter(unions.values())).clock]
    start, end = int(units[0, 0]), int(units[-1, 1])
    edges = iv.even_edges((start, start + length), min(BINS, max(length, 1)))
    bins = np.column_stack([np.minimum(edges[:-1], end), np.minimum(edges[1:], end)])
    width = np.diff(edges).astype(float)
    shares = {part: np.zeros((min(len(names), MOST_DEVICES), len(bins))) for part in PARTS}
    for at, name in enumerate(names[:MOST_DEVICES]):
        spent = time_spent(unions[name], bins)
        for part, cells in PARTS.items():
            shares[part][at] = sum(spent[cell] for cell in cells) / width
    shown = tuple(names[:MOST_DEVICES])
    return Strip(shown, shares, units - start, len(names) - len(shown))
