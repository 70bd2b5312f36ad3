"""The axis of time of a figure: its ticks, and the phases behind it.

All in exact picoseconds. The windows of a selection are laid end to end, from 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from tracekit import intervals as iv
from tracekit import units
from tracekit.report.figures import drawing
from tracekit.report.figures.drawing import Page
from tracekit.report.figures.selection import Selection

_TIER_PX, _TIERS, _NAME_SIZE, _MAX_NAME_PX = 28, 3, 9.0, 330


def laid_out(merged: iv.Intervals, windows: iv.Intervals) -> iv.Intervals:
    """What a set holds inside the merged `windows`, laid end to end from 0: merged, in ps."""
    cut = iv.intersection(merged, windows)
    lengths = windows[:, 1] - windows[:, 0]
    shift = np.cumsum(lengths) - lengths - windows[:, 0]
    moved = cut + shift[np.searchsorted(windows[:, 1], cut[:, 0], side="right")][:, None]
    return iv.union(moved)


def draw_axis(page: Page, axes: Axes, selection: Selection) -> None:
    """Draw the time below `axes`, whose x is ps since the start of the selection."""
    draw_time(page, axes, selection.start_ps, selection.length_ps, selection.axis)


def draw_time(page: Page, axes: Axes, start: int, length: int, axis: str) -> None:
    """Draw `length` ps from `start` on below `axes`, whose x is ps from there; `axis` says what they count from."""
    most = max(round(axes.get_position().width * page.width / 140), 2)
    marks, symbol, zero = ticks(start, start + length, most)
    label = f"{f'time since {units.exact(zero)}' if zero else axis} ({symbol})"
    fits = drawing.measure(label, drawing.SMALL) <= max(axes.get_position().width * page.width, page.width / 2)
    page.rule(axes, marks, label if fits else f"time ({symbol})")


def ticks(start_ps: int, end_ps: int, most: int) -> tuple[list[tuple[int, str]], str, int]:
    """The ticks of an axis from `start_ps` to `end_ps`, about `most` of them at round times.

    Returns them as (ps since `start_ps`, label), the symbol of their unit, and the time in ps that they are counted
    from: 0, or `start_ps` itself where the labels would have too many digits.
    """
    length = end_ps - start_ps
    step, size, symbol, decimals, is_absolute = units.time_scale(length, end_ps, most)
    if not is_absolute:
        return [(at, units.decimal(at, size, decimals)) for at in range(0, length + 1, step)], symbol, start_ps
    round_times = range(-(-start_ps // step) * step, end_ps + 1, step)
    return [(at - start_ps, units.decimal(at, size, decimals)) for at in round_times], symbol, 0


@dataclass(frozen=True)
class Name:
    """A phase's name: its left edge in px, its tier above the lanes, and the x of the leader to its band, if any."""

    text: str
    x: float
    tier: int
    leader: float | None


@dataclass(frozen=True)
class Bands:
    """The phases (name, start, end in ps), where their names go, and how many have no room."""

    phases: Sequence[tuple[str, int, int]]
    names: Sequence[Name]
    omitted: int

    @property
    def height(self) -> int:
        """The px that the names take above the lanes."""
        return _TIER_PX * (1 + max((name.tier for name in self.names), default=-1))

    @property
    def note(self) -> list[str]:
        """The sentence on omitted names, if there are any."""
        return [f"{units.quantity(self.omitted, 'phase label')} omitted."] if self.omitted else []

    def draw(self, page: Page, axes: Axes, lanes_px: float) -> None:
        """Every other phase lightly shaded, a separator at the ends of each one wide enough to see, and the names.

        The y of `axes` is px from its foot; the bands are `lanes_px` high, and the names stand above them.
        """
        pixel = axes.get_xlim()[1] / (axes.get_position().width * page.width)
        line: dict[str, Any] = {
            "color": page.colours["line"],
            "linewidth": 0.8 * page.scale,
            "zorder": 1,
            "clip_on": False,
        }
        for i, (label, start, end) in enumerate(self.phases):
            shade = page.colours["band2" if i % 2 else "band"]
            axes.add_artist(drawing.filled(Rectangle((start, 0), end - start, lanes_px), shade, zorder=0, label=label))
        # Separators have a width of their own: many of them would be ink that stands for no time.
        wide = [phase for phase in self.phases if phase[2] - phase[1] > 12 * pixel]
        for x in sorted({edge for _, start, end in wide for edge in (start, end)}):
            axes.plot([x, x], [0, lanes_px], **line)
        for name in self.names:
            y = lanes_px + _TIER_PX * (name.tier + 0.45)
            if name.leader is not None:
                axes.plot([name.leader * pixel] * 2, [lanes_px, y + _TIER_PX / 3], **line)
            page.text(name.x * pixel, y, name.text, _NAME_SIZE, on=axes)


def bands(selection: Selection, width: int) -> Bands:
    """The bands of a selection on axes `width` px wide; none on several clocks."""
    if not selection.aligned:
        return Bands([], [], 0)
    ((_, windows),) = selection.unions.windows.items()
    inside = _inside(selection.phases, windows, selection.phase)
    length = selection.length_ps
    return Bands(inside, *_names([(name, a / length * width, b / length * width) for name, a, b in inside], width))


def _inside(phases: pd.DataFrame, windows: iv.Intervals, selected: str | None) -> list[tuple[str, int, int]]:
    """(name, start, end) of the phases with time in the merged `windows`, laid end to end from 0.

    Where several rounds of the `selected` phase are laid end to end, each has its number for a name.
    """
    inside: list[tuple[str, int, int]] = []
    rounds = int((phases["name"] == selected).sum())
    number = 0
    for phase, first, last in zip(phases["name"], phases["start_ps"], phases["end_ps"], strict=True):
        label = drawing.plain(phase)
        if phase == selected and rounds > 1:
            number += 1
            label = f"round {number}"
        inside += [(label, start, end) for start, end in laid_out(iv.intervals([first], [last]), windows).tolist()]
    return inside


def _names(bands: Sequence[tuple[str, float, float]], width: float) -> tuple[list[Name], int]:
    """Where the names of the bands (name, x0, x1 in px) go, and how many have no room.

    A name that fits its band stands over it, in tier 0. Any other becomes a flag in a higher tier, with a leader to its
    band, unless the same name stands elsewhere already. Flags are placed from the right, so that no leader crosses a
    name.
    """
    names: list[Name] = []
    occupied: list[list[tuple[float, float]]] = [[] for _ in range(_TIERS)]

    def is_free(tier: int, x0: float, x1: float) -> bool:
        return all(x1 <= a or b <= x0 for a, b in occupied[tier])

    narrow: dict[str, float] = {}
    for text, x0, x1 in bands:
        x, size = (x0 + x1) / 2, _name_px(text)
        if size <= x1 - x0 and is_free(0, x - size / 2, x + size / 2):
            occupied[0].append((x - size / 2, x + size / 2))
            names.append(Name(text, x - size / 2 + 4, 0, None))
        else:
            narrow.setdefault(text, x)
    placed = {name.text for name in names}
    flags = sorted(((x, text) for text, x in narrow.items() if text not in placed), reverse=True)
    omitted = 0
    for x, text in flags:
        label = drawing.cut(text, min(_MAX_NAME_PX, width), _name_px)
        size = _name_px(label)
        x0 = x if x + size <= width else max(x - size, 0)
        for tier in range(1, _TIERS):
            if is_free(tier, x0, x0 + size) and all(is_free(lower, x - 4, x + 4) for lower in range(1, tier)):
                for lower in range(1, tier):
                    occupied[lower].append((x - 4, x + 4))
                occupied[tier].append((x0, x0 + size))
                names.append(Name(label, x0 + 4, tier, x))
                break
        else:
            omitted += 1
    return names, omitted


def _name_px(text: str) -> float:
    return drawing.measure(text, _NAME_SIZE) + 8
