"""The picture of a history: each series over the runs, on one axis, with its levels and where they changed."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from tracekit.columns import records
from tracekit.report.figures import drawing
from tracekit.report.figures.drawing import AXIS_PX, GAP, SMALL, STYLE, WIDE, Drawing, Page, Sheet, colours_of
from tracekit.report.section import Unit
from tracekit.trends.history import History, Series, interval, series_of
from tracekit.units import change, decimal, number, percent_axis, quantity, time_scale

_PANEL_PX, _TITLE_PX, _TIER_PX, _LEFT_PX, _TICKS_PX, _BETWEEN_PX = 120, 34, 26, 170, 30, 22
_TIERS, _MOST_TICKS = 3, 4
# A value farther from the level of its stretch than so many typical distances stands at the edge.
_FAR = 8
_LEGEND = [("a run", "compute"), ("median between changes", "ink"), ("change of level", "collective")]

Floats = NDArray[np.float64]


def figure(history: History, *, theme: str = "light") -> Drawing:
    """Draw a history: a matplotlib Figure, which a notebook shows; `save(path)` writes .png, .svg or .pdf.

    Each series that has a value stands by itself, all on one axis of runs.
    """
    colours = colours_of(theme)
    runs = history.runs
    shown = [each for each in series_of(history) if each.rows["value"].notna().any()]
    about = history.about_chance if len(history.changes) else history.sentences[0]
    on = Sheet(history.headline, about, colours, WIDE)
    with rc_context(STYLE):
        if not shown:
            return on.blank("No series has a value: the reasons stand with the table.")
        return _draw(history, shown, runs, on)


def _draw(history: History, shown: list[Series], runs: list[str], on: Sheet) -> Drawing:
    x0, width = _LEFT_PX, on.width - _LEFT_PX - on.margin - GAP
    labels = [_labels(each, history.labels, x0, width) for each in shown]
    heights = [_TITLE_PX + _TIER_PX * (1 + max((label.tier for label in of), default=-1)) + _PANEL_PX for of in labels]
    body = sum(heights) + _BETWEEN_PX * len(shown) + _TICKS_PX + AXIS_PX + GAP
    absent = [each.title for each in series_of(history) if not each.rows["value"].notna().any()]
    notes = [*history.notes, *([f"No run has a value of {', '.join(absent)}."] if absent else [])]
    entries = [(words, [on.colours[colour]]) for words, colour in _LEGEND]
    notes.append("Levels are medians; the interval is that of the difference, with a confidence of 95 %.")
    notes.append("Triangles at the edge of a panel are values beyond it. The axes of values do not begin at 0.")
    page = on.page(body, entries, notes=notes)
    y = page.top
    for each, texts, height in zip(shown, labels, heights, strict=True):
        _panel(page, each, runs, texts, (x0, y, width, height))
        y += height + _BETWEEN_PX
    _runs_axis(page, history, (x0, y - _BETWEEN_PX, width, 1))
    return page.finish()


class _Label(NamedTuple):
    """The words of a change: the px of their left edge, of the change, and their tier above the panel."""

    words: str
    left: float
    at: float
    tier: int


def _labels(series: Series, names: dict[str, str], x0: int, width: int) -> list[_Label]:
    """The words of each change at the right of it, else at the left; where there is no room for them only p."""
    labels: list[_Label] = []
    runs = list(names)
    taken: list[list[tuple[float, float]]] = [[] for _ in range(_TIERS)]
    for row in records(series.changes):
        at = x0 + width * runs.index(row["run"]) / len(runs)
        for words in (_change_words(series, row, names), f"p = {number(row['p'])}", ""):
            text = drawing.cut(drawing.plain(words), width - 2 * GAP, drawing.bold_px)
            size = drawing.measure(text, SMALL, bold=True) + GAP
            left = at if at + size <= x0 + width else max(at - size, x0)
            free = [tier for tier in range(_TIERS) if all(left + size <= a or b <= left for a, b in taken[tier])]
            if free or not words:
                break
        tier = free[0] if free else 0
        taken[tier].append((left, left + size))
        labels.append(_Label(text, left, at, tier))
    return labels


def _change_words(series: Series, row: dict[str, object], names: dict[str, str]) -> str:
    by = f" {change(float(row['after']) / float(row['before']))}" if row["before"] else ""  # type: ignore[arg-type]
    before, after = series.levels(row)
    return f"{names[str(row['run'])]}: {before} → {after},{by}{interval(series, row)}, p = {number(row['p'])}"


def _panel(
    page: Page,
    series: Series,
    runs: list[str],
    labels: list[_Label],
    box: tuple[int, int, int, int],
) -> None:
    x0, y, width, height = box
    values = series.rows["value"].to_numpy(float, na_value=np.nan)
    missing = int(np.isnan(values).sum())
    without = f"{missing} of {quantity(len(runs), 'run')} without a value" if missing else ""
    title = drawing.cut(drawing.plain(series.title), width / 2, drawing.bold_px)
    page.text(x0, y + _TITLE_PX / 2, title, SMALL + 1, weight="bold")
    if without:
        right = x0 + drawing.measure(title, SMALL + 1, bold=True) + GAP
        page.text(right, y + _TITLE_PX / 2, without, SMALL, color=page.colours["grey"])
    top = y + height - _PANEL_PX
    edges = [0, *(runs.index(run) for run in series.changes["run"]), len(runs)]
    levels = [float(np.nanmedian(values[a:b])) for a, b in pairwise(edges)]
    low, high = _range(values, edges, levels)
    axes = page.axes((x0, top, width, _PANEL_PX), (-0.5, len(runs) - 0.5), (low, high))
    _levels_axis(page, axes, series.unit, low, high)
    for first, last, level in zip(edges[:-1], edges[1:], levels, strict=True):
        axes.plot([first - 0.5, last - 0.5], [level, level], color=page.colours["ink"], linewidth=1.6, zorder=3)
    at = np.arange(len(runs))
    size = 22 if len(runs) <= 60 else 9
    inside = (values >= low) & (values <= high)
    axes.scatter(at[inside], values[inside], s=size, color=page.colours["compute"], zorder=4, linewidths=0)
    for beyond, edge, marker in ((values > high, high, "^"), (values < low, low, "v")):
        axes.scatter(
            at[beyond], np.full(beyond.sum(), edge), s=1.6 * size, marker=marker, color=page.colours["compute"],
            zorder=5, linewidths=0, clip_on=False,
        )  # fmt: skip
    for words, left, px, tier in labels:
        middle = top - _TIER_PX * (tier + 0.5)
        x = (px - x0) / width * len(runs) - 0.5
        reach = (high - low) * (_TIER_PX * (tier + 1) - 4) / _PANEL_PX
        axes.plot([x, x], [low, high + reach], color=page.colours["collective"], linewidth=1.6, zorder=2, clip_on=False)
        ground = {"facecolor": page.colours["paper"], "edgecolor": "none", "pad": 1.5}
        page.text(left + GAP / 2, middle, words, SMALL, weight="bold", bbox=ground if words else None)


def _range(values: Floats, edges: list[int], levels: list[float]) -> tuple[float, float]:
    """The values that a panel shows: the levels, and what lies about them as values usually do."""
    distances = np.concatenate(
        [np.abs(values[a:b] - level) for a, b, level in zip(edges[:-1], edges[1:], levels, strict=True)]
    )
    known = np.sort(distances[~np.isnan(distances)])
    # At most one in twenty stands at the edge.
    most = max(_FAR * float(np.median(known)), float(known[-1 - max(len(known) // 20, 1)] if len(known) > 1 else 0))
    near = values[distances <= most]
    lowest, highest = min(*levels, *near), max(*levels, *near)
    pad = 0.12 * (highest - lowest) or 0.05 * abs(highest) or 0.01
    return lowest - pad, highest + pad


def _levels_axis(page: Page, axes: Axes, unit: Unit, low: float, high: float) -> None:
    """Thin lines at round values, and these at the left."""
    x0 = axes.get_position().x0 * page.width
    top = (1 - axes.get_position().y1) * page.height
    for at, words in _ticks(unit, low, high):
        axes.axhline(at, color=page.colours["line"], linewidth=0.5, zorder=1)
        y = top + _PANEL_PX * (high - at) / (high - low)
        page.text(x0 - GAP, y, words, SMALL, ha="right", color=page.colours["grey"])


def _ticks(unit: Unit, low: float, high: float) -> list[tuple[float, str]]:
    if unit == Unit.TIME and high - low > 10:
        step, size, symbol, decimals, _ = time_scale(int(high - low), int(high), _MOST_TICKS)
        first = -(-max(int(low), 0) // step) * step
        return [(at, f"{decimal(at, size, decimals)} {symbol}") for at in range(first, int(high) + 1, step)]
    within = [at for at in MaxNLocator(_MOST_TICKS).tick_values(low, high) if low <= at <= high]
    within = [at for at in within if at >= 0]
    return [*zip(within, percent_axis(within) if unit == Unit.RATIO else map(number, within), strict=True)]


def _runs_axis(page: Page, history: History, box: tuple[int, int, int, int]) -> None:
    """The commits or names of as many runs as there is room for, and where they are known the times of their captures
    below."""
    _, y, width, _ = box
    runs = history.runs
    started = history.table.drop_duplicates("run")["started_ns"]
    times = ["" if pd.isna(ns) else f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%d %H:%M}" for ns in started]
    names = [
        drawing.cut(drawing.plain(label), width / 5, lambda text: drawing.measure(text, SMALL))
        for label in history.labels.values()
    ]
    widest = max(drawing.measure(text, SMALL) for text in [*names, *times]) + 2 * GAP
    room = max(int(width // widest), 1)
    step = -(-len(runs) // room)
    axes = page.axes(box, (-0.5, len(runs) - 0.5), (1, 0))
    ticks = [
        (float(at), names[at] + (f"\n{times[at]}" if times[at] and all(times) else ""))
        for at in range(0, len(runs), step)
    ]
    order = "captures (UTC)" if all(times) else "paths: the traces do not tell when they began"
    page.rule(axes, ticks, f"run, in the order of the {order}")
    axes.xaxis.set_label_coords(
        0.5, 1 - (y + _TICKS_PX + AXIS_PX * 0.66) / page.height, transform=page.drawing.transFigure
    )
