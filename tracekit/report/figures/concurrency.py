"""Concurrency: how many devices were busy over time, and for how long exactly so many were."""

from collections.abc import Hashable, Mapping, Sequence
from math import ceil

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import units
from tracekit.report.figures import bands, coverage, labels, layout, sheet
from tracekit.report.figures.selection import View
from tracekit.report.figures.sheet import AXIS_PX, GAP, MARGIN, NOTE_PX, SMALL, WIDE, Page

Bins = Sequence[tuple[int, int]]
_PLOT_PX, _MOST_PX, _ROW_PX = 300, 620, 34
_BETWEEN, _WORDS_PX = 36, 20


def concurrency(view: View, *, title: str | None = None, theme: str = "light", width: int = WIDE) -> sheet.Drawing:
    """The number of busy devices over time, and beside it the exact time in which so many were busy.

    Where the number changes more often than there are pixels, each column shows its true average; the filled area is
    the devices' busy time. On several clocks, or without devices, the figure says why there is nothing to see.
    """
    table = view.stretch.concurrency
    title = _finding(table) if title is None else title
    with rc_context(sheet.STYLE):
        lacking = view.lacking
        if not view.aligned:
            lacking = "The hosts' clocks are not aligned, so how many devices were busy at once is not known."
        elif not lacking and not view.length_ps:
            lacking = "This stretch of the trace has no length."
        elif not lacking and len(table) < 2:
            lacking = "The trace names no device that its work ran on."
        if lacking:
            return sheet.blank(title, view.subtitle, lacking, theme, width)
        return _drawn(view, table, title, theme, width)


def _finding(table: pd.DataFrame) -> str:
    """How many devices were busy on average, and for how long all of them."""
    times = table["time_ps"].tolist()
    window, devices = sum(times), len(times) - 1
    if devices < 1 or not window:
        return "How many devices were busy at once"
    if devices == 1:
        return f"The only device was busy {units.percent(times[1], window)} of the time"
    mean = sum(number * time for number, time in enumerate(times)) / window
    every = "both" if devices == 2 else f"all {devices}"
    share = units.percent(times[-1], window)
    return f"{mean:.2f} of {devices} devices were busy on average, {every} for {share} of the time"


def _drawn(view: View, table: pd.DataFrame, title: str, theme: str, page_width: int) -> sheet.Drawing:
    length, devices = view.length_ps, len(table) - 1
    ((_, windows),) = view.seen.windows.items()
    depth = iv.depth(*(coverage.laid_out(one.busy, windows) for one in view.seen.devices.values()))
    bins: Bins = coverage.bins(devices) or [(1, 1)]
    left = MARGIN + ceil(labels.measure(str(devices), SMALL)) + 2 * GAP
    beside = max(page_width // 4, 270)
    width = page_width - MARGIN - left - _BETWEEN - beside
    plot_px = min(max(_PLOT_PX, _ROW_PX * (devices + 1)), _MOST_PX)

    phases = bands.phases(view)
    names, missing = layout.names([(name, a / length * width, b / length * width) for name, a, b in phases], width)
    high_px = plot_px + bands.TIER_PX * (1 + max((name.tier for name in names), default=-1))
    edges = coverage.pixel_edges((0, length), width)
    remarks = _remarks(view, len(depth[0]) > len(edges), edges)
    if missing:
        remarks.append(f"{missing} phase {'name finds' if missing == 1 else 'names find'} no room.")
    lines = sheet.notes(remarks, page_width)
    colours: dict[Hashable, str] = {**bands.colours(sheet.colours_of(theme), bins), 0: sheet.colours_of(theme)["idle"]}
    times = table["time_ps"].tolist()
    entries = [(bands.meaning(one, devices), [colours[one]]) for one in bins if any(times[one[0] : one[1] + 1])]
    placed, legend_px = sheet.legend(
        [*([("no device busy", [colours[0]])] if times[0] else []), *entries], [], page_width
    )

    body_px = legend_px + high_px + AXIS_PX + NOTE_PX * len(lines)
    made = sheet.page(title, view.subtitle, body_px, theme, page_width)
    sheet.draw_legend(made, placed)
    top = made.top + legend_px + high_px - plot_px
    behind = made.axes((left, made.top + legend_px, width, high_px), (0, length), (0, high_px))
    bands.draw(made, behind, phases, names, plot_px)
    over_time = made.axes((left, top, width, plot_px), (0, length), (-0.5, devices + 0.5))
    bands.ruled(made, over_time, view)
    _levels(made, over_time, devices, plot_px)
    averaged = len(depth[0]) > len(edges)
    parts = _averages(depth, edges, bins) if averaged else _steps(depth, bins)
    sheet.fill_all(
        over_time, [(boxes, colours[one]) for one, boxes in parts.items()], sheet.below if averaged else sheet.between
    )
    histogram = made.axes((left + width + _BETWEEN, top, beside, plot_px), (0, 100), (-0.5, devices + 0.5))
    _histogram(made, histogram, times, {k: colours[_bin(k, bins)] for k in range(devices + 1)}, (beside, plot_px))
    sheet.draw_notes(made, top + plot_px + AXIS_PX, lines)
    return made.figure


Depth = tuple[NDArray[np.int64], NDArray[np.int64]]


def _steps(depth: Depth, bins: Bins) -> dict[Hashable, NDArray[np.float64]]:
    """Boxes (x0, x1, y0, y1) by bin of the number of busy devices, x in ps, y in devices: each step as it is."""
    points, count = depth
    boxes = np.column_stack([points[:-1], points[1:], np.zeros(len(points[1:])), count[:-1]])
    return {one: boxes[(count[:-1] >= one[0]) & (count[:-1] <= one[1])] for one in bins}


def _averages(depth: Depth, edges: NDArray[np.int64], bins: Bins) -> dict[Hashable, NDArray[np.float64]]:
    """Boxes as `_steps` gives them, averaged by pixel column and stacked, the most devices lowest.

    A box is as high as the devices' busy time in its bin over the column's length: the top is the true average.
    """
    points, count = depth
    shares: dict[Hashable, NDArray[np.float64]] = {}
    lengths = np.diff(points)
    at = np.clip(np.searchsorted(points, edges, side="right") - 1, 0, len(points) - 2)
    past = np.clip(edges - points[at], 0, lengths[at])
    for low, high in bins[::-1]:
        busy = np.where((count >= low) & (count <= high), count, 0)[:-1].astype(np.float64)
        before = np.concatenate([[0.0], np.cumsum(busy * lengths)])
        shares[low, high] = np.diff(before[at] + past * busy[at]) / np.maximum(np.diff(edges), 1)
    stacked = coverage.stacks(shares, edges)
    return {one: stacked[one] for one in bins}


def _bin(number: int, bins: Bins) -> Hashable:
    return next((one for one in bins if one[0] <= number <= one[1]), 0)


def _levels(made: Page, axes: Axes, devices: int, plot_px: int) -> None:
    """The numbers of devices, and a faint line at each that is named."""
    step = next(
        step for step in (1, 2, 4, 5, 8, 10, 16, 20, 25, 50, 100, 200, 500, 1000) if plot_px * step >= 24 * devices
    )
    shown = list(range(0, devices + 1, step))
    axes.yaxis.set_major_locator(FixedLocator(shown))
    axes.yaxis.set_major_formatter(FixedFormatter([str(number) for number in shown]))
    axes.tick_params(
        axis="y", length=0, labelsize=SMALL, labelfontfamily=labels.FONT, labelcolor=made.colours["ink"], pad=GAP / 2
    )
    axes.hlines(shown, *axes.get_xlim(), colors=made.colours["line"], linewidth=0.4, alpha=0.6, zorder=2)


def _histogram(
    made: Page, axes: Axes, times: Sequence[int], colours: Mapping[int, str], size_px: tuple[int, int]
) -> None:
    """A bar for each number of busy devices at its height on the other axes, as long as its share of the window."""
    width_px, height_px = size_px
    window = sum(times)
    words = [f"{units.percent(time, window)}, {units.time(time)}" if time else "0 %" for time in times]
    # The longest bar leaves room for its words.
    share = max(1 - (max(labels.measure(one, SMALL) for one in words) + _WORDS_PX) / width_px, 0.2)
    longest = max(times)
    axes.set_xlim(0, longest / share)
    pitch = height_px / len(times)
    for colour in dict.fromkeys(colours.values()):
        mine = [number for number, one in colours.items() if one == colour]
        boxes = np.array([(0, times[number], number - 0.36, number + 0.36) for number in mine], np.float64)
        sheet.fill(axes, boxes[boxes[:, 1] > 0], colour)
    taken: list[int] = []
    for number in sorted(range(len(times)), key=lambda one: -times[one]):
        near = times[max(number - int(13 / pitch), 0) : number + int(13 / pitch) + 1]
        # A longer bar beside it would be written over.
        if max(near) == times[number] and all(abs(number - other) * pitch >= 22 for other in taken):
            taken.append(number)
            x = times[number] + longest / share * (_WORDS_PX / 2 / width_px)
            axes.text(
                x, number, words[number], fontsize=SMALL, fontfamily=labels.FONT, va="center", parse_math=False,
                color=made.colours["ink"],
            )  # fmt: skip
    made.rule(axes, [], "time with exactly so many")


def _remarks(view: View, averaged: bool, edges: NDArray[np.int64]) -> list[str]:
    made = [f"The bars on the right are exact and sum to the window of {units.time(view.length_ps)}."]
    if averaged:
        column_ps = max(int(edges[1] - edges[0]), 1)
        made.append(
            f"Over time, each column of {units.time(column_ps)} shows the average of its numbers of busy devices, "
            "stacked by how many were busy at once."
        )
    if view.seen.unplaced:
        names = ", ".join(view.seen.unplaced)
        made.append(f"Copies on {names}, whose device the trace does not prove, do not count.")
    return made
