"""The picture of a comparison: both timelines above each other on one scale, and where the difference went below."""

from collections.abc import Sequence
from math import ceil

import numpy as np
from matplotlib import rc_context

from tracekit.columns import records
from tracekit.comparison.model import PART_WORDS, Comparison, ScopeComparison
from tracekit.comparison.timelines import Strip, strips
from tracekit.comparison.words import sources
from tracekit.report.figures import drawing
from tracekit.report.figures.drawing import AXIS_PX, GAP, SMALL, STYLE, WIDE, Drawing, Page, Sheet, colours_of
from tracekit.report.figures.time_axis import ticks
from tracekit.report.palette import readable_on
from tracekit.units import time

_LANE_PX, _BAR_PX, _SIDE_GAP, _STEP_PX = 46, 34, 44, 28
_ROW_PX, _HEAD_PX, _LEFT_PX, _MOST_PARTS = 38, 54, 330, 8
# The colour of a part, by its first word or words; idle time has that of ink that is thin.
_COLOUR = {"compute": "compute", "exposed collectives": "collective", "exposed copies": "memcpy", "idle": "grey"}
_OF_PART = {"compute": "compute", "collective": "collective", "memory": "memcpy"}
REST = "other parts"


def figure(comparison: Comparison, *, theme: str = "light") -> Drawing:
    """Draw a comparison: a matplotlib Figure, which a notebook shows; `save(path)` writes .png, .svg or .pdf."""
    colours = colours_of(theme)
    scope = comparison.main
    subtitle = " · ".join(f"{side.name}: {sources(side.sources)}" for side in (comparison.a, comparison.b))
    on = Sheet(drawing.plain(comparison.headline), drawing.plain(subtitle), colours, WIDE)
    with rc_context(STYLE):
        if scope is None:
            return on.blank(comparison.headline)
        return _draw(comparison, scope, on)


def _draw(comparison: Comparison, scope: ScopeComparison, on: Sheet) -> Drawing:
    shown = strips(comparison.a, comparison.b, scope)
    bars = steps_of(scope)
    sides = () if isinstance(shown, str) else shown[0]
    lanes_px = sum(_STEP_PX + _LANE_PX * len(strip.devices) for strip in sides)
    timeline_px = lanes_px + _SIDE_GAP + AXIS_PX if sides else 0
    body = timeline_px + _HEAD_PX + _ROW_PX * len(bars) + GAP
    entries = [(PART_WORDS[part], [on.colours[colour]]) for part, colour in _OF_PART.items()]
    entries.append(("idle", [on.colours["idle"]]))
    notes = [
        f"Waterfall: a mean {scope.unit}, over units and devices ({scope.units[0]} and {scope.units[1]}). Its parts "
        "sum to the difference exactly."
    ]
    if isinstance(shown, str):
        notes.append(shown)
    else:
        notes.append(f"Timelines: {_what(scope, sides)}, both from their start and on one scale.")
        notes += [
            f"{strip.left_out} more devices of {name} are not drawn."
            for name, strip in zip("AB", sides, strict=True)
            if strip.left_out
        ]
    page = on.page(body, entries, notes=notes)
    if not isinstance(shown, str):
        _timelines(page, sides, shown[1], page.top)
    _waterfall(page, scope, bars, page.top + timeline_px)
    return page.finish()


def _what(scope: ScopeComparison, sides: Sequence[Strip]) -> str:
    numbers = {len(strip.units) for strip in sides}
    if scope.kind == "step":
        return "the only step of each" if numbers == {1} else f"the first {max(numbers)} steps that count"
    return f"the first round of phase {scope.name}" if scope.kind == "phase" else "the whole window"


def _timelines(page: Page, sides: Sequence[Strip], length: int, top: int) -> None:
    """A lane for each device of A, then those of B, and one axis below both."""
    x0, width = _LEFT_PX, page.width - _LEFT_PX - page.margin
    y = top
    for name, strip in zip("AB", sides, strict=True):
        lanes = len(strip.devices)
        axes = page.axes((x0, y + _STEP_PX, width, lanes * _LANE_PX), (0, length), (lanes * _LANE_PX, 0))
        page.text(page.margin, y + _STEP_PX + lanes * _LANE_PX / 2, name, 15, weight="bold")
        _units(page, strip, length, x0, width, y)
        end = int(strip.units[-1, 1])
        edges = np.linspace(0, length, next(iter(strip.shares.values())).shape[1] + 1)
        for at, device in enumerate(strip.devices):
            middle = at * _LANE_PX + _LANE_PX / 2
            foot, head = middle + _BAR_PX / 2, middle - _BAR_PX / 2
            drawing.fill(axes, np.array([[0.0, end, head, foot]]), page.colours["idle"], zorder=2)
            bottom = np.zeros(len(edges) - 1)
            for part, colour in _OF_PART.items():
                share = strip.shares[part][at]
                boxes = np.column_stack(
                    [edges[:-1], edges[1:], foot - _BAR_PX * (bottom + share), foot - _BAR_PX * bottom]
                )
                drawing.fill(axes, boxes[share > 0], page.colours[colour])
                bottom = bottom + share
            label = drawing.cut(drawing.plain(device), _LEFT_PX - page.margin - 60, drawing.bold_px)
            page.text(x0 - GAP, y + _STEP_PX + middle, label, SMALL, ha="right", weight="bold")
        for start in strip.units[:, 0].tolist():
            axes.axvline(start, color=page.colours["ink"], linewidth=0.8, zorder=4)
        y += _STEP_PX + lanes * _LANE_PX + (_SIDE_GAP if name == "A" else 0)
    marks, symbol, _ = ticks(0, length, 10)
    ruled = page.axes((x0, y, width, 1), (0, length), (1, 0))
    page.rule(ruled, marks, f"time since the start of each ({symbol})")


def _units(page: Page, strip: Strip, length: int, x0: int, width: int, y: int) -> None:
    """Above each unit how long it took, where there is room."""
    for start, end in strip.units.tolist():
        words = time(end - start)
        left, right = x0 + width * start / length, x0 + width * end / length
        if drawing.measure(words, SMALL) + 8 <= right - left:
            page.text((left + right) / 2, y + _STEP_PX / 2, words, SMALL, ha="center", color=page.colours["grey"])


def steps_of(scope: ScopeComparison) -> list[tuple[str, int, int]]:
    """The bars of the waterfall: name, from, to, in ps; the wall of A from 0, each part from where the last one ended,
    the wall of B from 0. Small parts are one."""
    wall = scope.cell("wall")
    rows = sorted(records(scope.waterfall), key=lambda row: -abs(row["diff_ps"]))
    rows = [row for row in rows if row["diff_ps"]]
    parts = [(row["part"], int(row["diff_ps"])) for row in rows[:_MOST_PARTS]]
    if rest := rows[_MOST_PARTS:]:
        parts.append((REST, sum(int(row["diff_ps"]) for row in rest)))
    bars, at = [("A", 0, int(wall["a_ps"]))], int(wall["a_ps"])
    for name, difference in parts:
        bars.append((name, at, at + difference))
        at += difference
    if at != int(wall["b_ps"]):
        raise AssertionError(f"the parts of the waterfall end at {at} ps, the wall of B is {wall['b_ps']} ps")
    return [*bars, ("B", 0, at)]


def _waterfall(page: Page, scope: ScopeComparison, bars: Sequence[tuple[str, int, int]], top: int) -> None:
    """One bar a line, from the wall of A by the parts to the wall of B."""
    page.text(
        page.margin, top + _HEAD_PX / 2, f"Where the difference went: a mean {scope.unit}", SMALL + 2, weight="bold"
    )
    longest = max(max(start, end) for _, start, end in bars) or 1
    names = max(drawing.measure(name, SMALL) for name, _, _ in bars)
    x0 = max(_LEFT_PX, page.margin + ceil(names) + GAP)
    width = page.width - x0 - page.margin - 170
    axes = page.axes((x0, top + _HEAD_PX, width, _ROW_PX * len(bars)), (0, longest), (_ROW_PX * len(bars), 0))
    for at, (name, start, end) in enumerate(bars):
        is_wall = at in (0, len(bars) - 1)
        middle = at * _ROW_PX + _ROW_PX / 2
        colour = page.colours["ink" if is_wall else _COLOUR.get(name.split(":")[0], "line")]
        low, high = min(start, end), max(start, end)
        high = max(high, low + longest // width)  # a pixel at least
        drawing.fill(axes, np.array([[low, high, middle - 13, middle + 13]], float), colour)
        if at + 1 < len(bars):
            axes.plot([end, end], [middle, middle + _ROW_PX], color=page.colours["line"], linewidth=0.8, zorder=2)
        difference = end - start
        words = time(difference) if is_wall else f"{'+' if difference > 0 else ''}{time(difference)}"
        inside = drawing.measure(words, SMALL, bold=True) + 16 < (high - low) / longest * width
        x = (low + high) / 2 if inside else high + longest * 8 / width
        ink = readable_on(colour, page.colours["ink"], page.colours["paper"]) if inside else page.colours["ink"]
        page.text(
            x, middle, words, SMALL, on=axes, ha="center" if inside else "left", color=ink, weight="bold", zorder=5
        )
        page.text(x0 - GAP, top + _HEAD_PX + middle, name, SMALL, ha="right", weight="bold" if is_wall else "normal")
