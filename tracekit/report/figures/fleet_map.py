"""The fleet: a heat map of ranks over steps for each measure, on one axis of steps."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from numpy.typing import NDArray

from tracekit import units
from tracekit.analysis.fleet import MEASURES, Fleet, groupings
from tracekit.report.figures import drawing
from tracekit.report.figures.drawing import AXIS_PX, GAP, LINE_PX, SMALL, Drawing, Page, Sheet
from tracekit.report.figures.selection import Selection
from tracekit.report.palette import HEAT
from tracekit.report.sections.fleet import MEASURE_WORDS, finding

# In px: a panel is at most so high, and of few ranks each is so high; below it the next one has its head.
_PANEL_PX, _RANK_PX, _LEAST_PX, _HEAD_PX = 256, 24, 48, 44
_SCALE_PX, _TICK_PX = 240, 110
_SHADES = 256


def caption(selection: Selection) -> str:
    """What it shows, and of which part of the trace."""
    return ", ".join(filter(None, ["Ranks over steps", selection.where]))


def title(selection: Selection) -> str:
    """Who holds up the others, or is not like them."""
    if selection.lacking or selection.partial:
        return "Ranks over steps"
    return finding(selection.fleet()).removesuffix(".")


def draw(selection: Selection, on: Sheet) -> Drawing:
    """A panel for each measure, a line for each rank and a column for each step.

    Of more ranks than lines, and of more steps than columns, a cell shows the value that is furthest from the median of
    its step; a note says how many share one. The colours of a panel reach from its smallest to its largest value.
    """
    if selection.partial or selection.lacking:
        return on.blank(selection.partial or selection.lacking)
    fleet = selection.fleet()
    if not len(fleet.bins) or not len(fleet.cells):
        return on.blank(fleet.lacking or "The trace has no steps, over which ranks could be drawn.")
    ranks, bins = len(fleet.ranks), len(fleet.bins)
    marks = _marks(fleet)
    names_px = max(drawing.measure(name, SMALL) for _, name in [*marks, (0, "rank")])
    names_px = min(ceil(names_px), ceil(on.name_px))
    x = on.margin + names_px + GAP
    width = on.width - on.margin - x
    height = max(min(_PANEL_PX, ranks * _RANK_PX), _LEAST_PX) // min(ranks, _PANEL_PX) * min(ranks, _PANEL_PX)
    height = height or max(min(_PANEL_PX, ranks), _LEAST_PX)
    lines, columns = min(ranks, height), min(bins, width)
    page = on.page(len(MEASURES) * (_HEAD_PX + height) + AXIS_PX, notes=_notes(fleet, lines, columns))
    top = page.top
    for measure in MEASURES:
        values = furthest(fleet.matrix(measure), lines, columns)
        top += _HEAD_PX
        axes = page.axes((x, top, width, height), (0, columns), (lines, 0))
        _panel(page, axes, values, MEASURE_WORDS[measure], (x, top, width), on)
        for y, name in _spaced(marks, ranks, height):
            text = drawing.cut(drawing.plain(name), names_px, partial(drawing.measure, size=SMALL))
            page.text(x - GAP, top + y, text, SMALL, ha="right", color=page.colours["grey"])
        top += height
    page.rule(axes, _ticks(fleet, columns, width), "step")
    return page.finish()


def furthest(values: NDArray[np.float64], lines: int, columns: int) -> NDArray[np.float64]:
    """`values` (ranks, steps) in so many lines and columns: of the cells that share one, that which is furthest from
    the median of its step; NaN where nothing is known."""
    known = ~np.isnan(values)
    medians = [float(np.median(of[there])) if there.any() else 0.0 for of, there in zip(values.T, known.T, strict=True)]
    off = np.where(known, np.abs(values - medians), -1.0)
    values, off = _merged(values, off, lines)
    return _merged(values.T, off.T, columns)[0].T


def _merged(
    values: NDArray[np.float64], off: NDArray[np.float64], lines: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both in so many lines: of those that share one, in each column what is largest in `off`."""
    edges = np.arange(lines + 1) * len(values) // lines
    place = np.array([a + off[a:b].argmax(axis=0) for a, b in pairwise(edges)])
    column = np.arange(values.shape[1])
    return values[place, column], off[place, column]


def _panel(
    page: Page, axes: Axes, values: NDArray[np.float64], words: str, place: tuple[int, int, int], on: Sheet
) -> None:
    """One measure: its cells, its name and its scale above them."""
    x, top, width = place
    known = values[~np.isnan(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    colours = LinearSegmentedColormap.from_list("heat", HEAT, _SHADES)
    shades = (values - low) / (high - low) if high > low else np.full(values.shape, 0.5)
    picture = colours(np.nan_to_num(shades))[:, :, :3]
    picture[np.isnan(values)] = to_rgb(page.colours["idle"])
    lines, columns = values.shape
    axes.imshow(picture, extent=(0, columns, lines, 0), aspect="auto", interpolation="none", zorder=3)
    middle = top - _HEAD_PX / 2 + 4
    page.text(x, middle, words[0].upper() + words[1:], SMALL, weight="bold")
    ends = [units.time(round(low)), units.time(round(high))]
    right = x + width - drawing.measure(ends[1], SMALL)
    scale_px = min(_SCALE_PX, width // 4)
    page.text(x + width, middle, ends[1], SMALL, ha="right")
    page.text(right - 2 * GAP - scale_px, middle, ends[0], SMALL, ha="right")
    scale = page.axes((round(right - GAP - scale_px), round(middle - 9), scale_px, 18), (0, _SHADES), (0, 1))
    ramp = colours(np.linspace(0, 1, _SHADES))[None, :, :3]
    scale.imshow(ramp, extent=(0, _SHADES, 0, 1), aspect="auto", interpolation="none")


def _marks(fleet: Fleet) -> list[tuple[int, str]]:
    """Where the ranks of each host begin, or of one host each rank, and its name."""
    by_host = [way for way in groupings(fleet) if way.by == "host"]
    if not by_host:
        return list(enumerate(fleet.ranks["device"]))
    places = np.flatnonzero(np.diff(by_host[0].group_of, prepend=-1)).tolist()
    return [(place, by_host[0].names[by_host[0].group_of[place]]) for place in places]


def _spaced(marks: Sequence[tuple[int, str]], ranks: int, height: int) -> list[tuple[float, str]]:
    """As many of the marks as have room beside a panel, in px from its top: each in the middle of its ranks."""
    ends = [*(place for place, _ in marks[1:]), ranks]
    middles = [((place + end) / 2 * height / ranks, name) for (place, name), end in zip(marks, ends, strict=True)]
    shown: list[tuple[float, str]] = []
    for y, name in middles:
        if not shown or y - shown[-1][0] >= LINE_PX:
            shown.append((y, name))
    return shown


def _ticks(fleet: Fleet, columns: int, width: int) -> list[tuple[float, str]]:
    """The numbers of steps below the columns."""
    every = max(ceil(_TICK_PX * columns / width), 1)
    edges = np.arange(columns + 1) * len(fleet.bins) // columns
    first = [str(at if step is None else step) for at, step in enumerate(_firsts(fleet))]
    return [(at + 0.5 if columns < width / 8 else at, first[edges[at]]) for at in range(0, columns, every)]


def _firsts(fleet: Fleet) -> list[int | None]:
    first = fleet.bins["first"]
    return [None if missing else int(step) for step, missing in zip(first, first.isna(), strict=True)]


def _notes(fleet: Fleet, lines: int, columns: int) -> list[str]:
    ranks, bins = len(fleet.ranks), len(fleet.bins)
    steps = int(fleet.bins["steps"].sum())
    notes = [f"{units.count(ranks)} ranks, {units.count(steps)} steps; each panel has colours of its own."]
    most = int(fleet.bins["steps"].max())
    if most > 1:
        notes.append(f"Up to {units.count(most)} steps in a row share a column, which shows their mean.")
    shared = [f"up to {-(-ranks // lines)} ranks share a line"] if ranks > lines else []
    shared += [f"up to {-(-bins // columns)} of these share a column"] if bins > columns else []
    if shared:
        words = " and ".join(shared)
        notes.append(f"{words[0].upper()}{words[1:]}: the one furthest from the median of its step is shown.")
    if any(np.isnan(fleet.matrix(measure)).any() for measure in MEASURES):
        notes.append("Grey: nothing is known.")
    return notes
