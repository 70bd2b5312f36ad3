"""Concurrency: how many devices were busy over time, and for how long exactly so many were."""

from collections.abc import Hashable, Mapping, Sequence
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import units
from tracekit.report.figures import drawing
from tracekit.report.figures.drawing import AXIS_PX, GAP, LINE_PX, SMALL, Boxes, Drawing, Page, Sheet
from tracekit.report.figures.selection import Selection
from tracekit.report.figures.time_axis import bands, draw_axis, laid_out
from tracekit.report.sections.overview import TITLES

# From so many to so many busy devices.
Bin = tuple[int, int]
# The points (n,) at which the number of busy devices changes, and that number from each of them on.
Depth = tuple[NDArray[np.int64], NDArray[np.int32]]
_PLOT_PX, _MOST_PX, _ROW_PX = 300, 620, 34
_BETWEEN_PX, _LABEL_GAP, _LABEL_PX = 36, 20, 22
# A histogram of so many px has room for times beside shares.
_WIDE_PX = 270


def caption(selection: Selection) -> str:
    """What it shows, and of which part of the trace."""
    return ", ".join(filter(None, [TITLES["concurrency"], selection.where]))


def title(selection: Selection) -> str:
    """How many devices were busy on average, and for how long all of them."""
    times = selection.breakdown.concurrency["time_ps"].tolist()
    window, devices = sum(times), len(times) - 1
    if devices < 1 or not window or selection.partial:
        return "Devices busy over time"
    if devices == 1:
        return f"The only device was busy {units.percent(times[1], window)} of the time"
    mean = sum(number * time for number, time in enumerate(times)) / window
    every = "both" if devices == 2 else f"all {devices}"
    share = units.percent(times[-1], window)
    return f"On average {units.mean(mean)} of {devices} devices were busy, {every} of them for {share} of the time"


def draw(selection: Selection, on: Sheet) -> Drawing:
    """The number of busy devices over time, and beside it the exact time in which so many were busy.

    Where the number changes more often than there are pixels, each column shows its true average; the filled area is
    the devices' busy time. On several clocks, or without devices, the figure says why there is nothing to see.
    """
    table = selection.breakdown.concurrency
    if lacking := _lacking(selection, len(table) - 1):
        return on.blank(lacking)
    length, devices, times = selection.length_ps, len(table) - 1, table["time_ps"].tolist()
    ((_, windows),) = selection.unions.windows.items()
    depth = iv.depth(*(laid_out(device.busy, windows) for device in selection.unions.devices.values()))
    bins = bins_of(devices) or [(1, 1)]
    x = on.margin + LINE_PX + ceil(drawing.measure(str(devices), SMALL)) + 2 * GAP
    beside = max(on.width // 4, 270 if on.is_wide else 150)
    width = on.width - on.margin - x - _BETWEEN_PX - beside
    plot_px = min(max(_PLOT_PX, _ROW_PX * (devices + 1)), _MOST_PX)

    phases = bands(selection, width)
    high_px = plot_px + phases.height
    edges = iv.even_edges((0, length), width)
    averaged = len(depth[0]) > len(edges)
    colours: dict[Hashable, str] = {**bin_colours(on.colours, bins), 0: on.colours["idle"]}
    entries = [("no device busy", [colours[0]])] if times[0] else []
    for bin_ in bins:
        if any(times[bin_[0] : bin_[1] + 1]):
            entries.append((bin_label(bin_, devices), [colours[bin_]]))

    page = on.page(high_px + AXIS_PX, entries, notes=[*_notes(selection, averaged, edges), *phases.note])
    top = page.top + high_px - plot_px
    behind = page.axes((x, page.top, width, high_px), (0, length), (0, high_px))
    phases.draw(page, behind, plot_px)
    over_time = page.axes((x, top, width, plot_px), (0, length), (-0.5, devices + 0.5))
    draw_axis(page, over_time, selection)
    _levels(page, over_time, devices, plot_px)
    page.name_levels(over_time, "devices busy")
    parts = _averages(depth, edges, bins) if averaged else _steps(depth, bins)
    drawing.fill_all(
        over_time,
        [(boxes, colours[bin_]) for bin_, boxes in parts.items()],
        drawing.below if averaged else drawing.between,
    )
    histogram = page.axes((x + width + _BETWEEN_PX, top, beside, plot_px), (0, 100), (-0.5, devices + 0.5))
    of_number = [next((bin_ for bin_ in bins if bin_[0] <= number <= bin_[1]), 0) for number in range(devices + 1)]
    _histogram(page, histogram, times, [colours[bin_] for bin_ in of_number], (beside, plot_px))
    return page.finish()


def _lacking(selection: Selection, devices: int) -> str:
    """Why there is nothing to draw, if so."""
    if not selection.aligned:
        return "Host clocks are not aligned, so how many devices were busy at the same time is unknown."
    if selection.lacking or selection.partial:
        return selection.lacking or selection.partial
    if not selection.length_ps:
        return "The selected range has zero length."
    return "" if devices else "The trace does not say which devices its work ran on."


def bins_of(devices: int) -> list[Bin]:
    """The bins (low, high) of the number of busy devices, fewest first; none for fewer than two devices.

    Up to 4 devices have one bin each; more have 1, two bins between, and all.
    """
    n = devices
    if n < 2:
        return []
    return [(k, k) for k in range(1, n + 1)] if n <= 4 else [(1, 1), (2, n // 2), (n // 2 + 1, n - 1), (n, n)]


def bin_label(bin_: Bin, devices: int) -> str:
    """The words for a bin of the number of busy devices."""
    low, high = bin_
    if high == 1:
        return "1 device busy"
    if low == devices:
        return "both devices busy" if devices == 2 else f"all {devices} devices busy"
    return f"{low} busy" if low == high else f"{low}-{high} busy"


def bin_colours(colours: Mapping[str, str], bins: Sequence[Bin]) -> dict[Hashable, str]:
    """The colour of each bin, the fewest devices first."""
    more = (colours["few"], colours["many"], colours["all"])
    # The most devices are always "all".
    return dict(zip(bins, [colours["one"], *more[4 - len(bins) :]], strict=False))


def _steps(depth: Depth, bins: Sequence[Bin]) -> Boxes:
    """Boxes by bin of the number of busy devices, y in devices: each step as it is."""
    points, count = depth
    boxes = np.column_stack([points[:-1], points[1:], np.zeros(len(points[1:])), count[:-1]])
    return {bin_: boxes[(count[:-1] >= bin_[0]) & (count[:-1] <= bin_[1])] for bin_ in bins}


def _averages(depth: Depth, edges: NDArray[np.int64], bins: Sequence[Bin]) -> Boxes:
    """Boxes as `_steps` gives them, averaged by pixel column and stacked, the most devices lowest.

    A box is as high as the devices' busy time in its bin over the column's length: the top is the true average.
    """
    points, count = depth
    shares: Boxes = {}
    lengths = np.diff(points)
    at = np.clip(np.searchsorted(points, edges, side="right") - 1, 0, len(points) - 2)
    past = np.clip(edges - points[at], 0, lengths[at])
    for low, high in bins[::-1]:
        busy = np.where((count >= low) & (count <= high), count, 0)[:-1].astype(np.float64)
        before = np.concatenate([[0.0], np.cumsum(busy * lengths)])
        shares[low, high] = np.diff(before[at] + past * busy[at]) / np.maximum(np.diff(edges), 1)
    stacked = drawing.stacks(shares, edges)
    return {bin_: stacked[bin_] for bin_ in bins}


def _levels(page: Page, axes: Axes, devices: int, plot_px: int) -> None:
    """The numbers of devices, and a faint line at each that is named."""
    step = next(
        step for step in (1, 2, 4, 5, 8, 10, 16, 20, 25, 50, 100, 200, 500, 1000) if plot_px * step >= 24 * devices
    )
    levels = list(range(0, devices + 1, step))
    axes.set_yticks(levels, list(map(str, levels)))
    axes.tick_params(
        axis="y", length=0, labelsize=SMALL * page.scale, labelfontfamily=drawing.FONT,
        labelcolor=page.colours["ink"], pad=GAP / 2 * page.scale,
    )  # fmt: skip
    axes.hlines(levels, *axes.get_xlim(), colors=page.colours["line"], linewidth=0.4 * page.scale, alpha=0.6, zorder=2)


def _histogram(page: Page, axes: Axes, times: Sequence[int], colours: Sequence[str], size_px: tuple[int, int]) -> None:
    """A bar for each number of busy devices at its height on the other axes, as long as its share of the window."""
    width_px, height_px = size_px
    window, longest = sum(times), max(times)
    is_wide = width_px >= _WIDE_PX
    texts = [f"{units.percent(time, window)}{f', {units.time(time)}' if time and is_wide else ''}" for time in times]
    # The longest bar leaves room for its label.
    share = max(1 - (max(drawing.measure(text, SMALL) for text in texts) + _LABEL_GAP) / width_px, 0.2)
    axes.set_xlim(0, longest / share)
    pitch = height_px / len(times)
    for colour in dict.fromkeys(colours):
        numbers = [number for number, own in enumerate(colours) if own == colour and times[number]]
        boxes = np.array([(0, times[number], number - 0.36, number + 0.36) for number in numbers], np.float64)
        drawing.fill(axes, boxes, colour)
    for number in _labelled(times, pitch):
        x = times[number] + longest / share * (_LABEL_GAP / 2 / width_px)
        page.text(x, number, texts[number], SMALL, on=axes)
    page.rule(axes, [], "time with exactly N devices busy" if is_wide else "share of time")


def _labelled(times: Sequence[int], pitch: float) -> list[int]:
    """The bars that have a label, the longest first: labels stand apart, and over no longer bar. Where not every bar
    has room for one, none says 0 %."""
    chosen: list[int] = []
    there = [number for number, time in enumerate(times) if time or pitch >= _LABEL_PX]
    for number in sorted(there, key=lambda number: -times[number]):
        near = times[max(number - int(13 / pitch), 0) : number + int(13 / pitch) + 1]
        if max(near) == times[number] and all(abs(number - other) * pitch >= _LABEL_PX for other in chosen):
            chosen.append(number)
    return chosen


def _notes(selection: Selection, averaged: bool, edges: NDArray[np.int64]) -> list[str]:
    notes = [f"The bars on the right are exact and add up to the window of {units.time(selection.length_ps)}."]
    if averaged:
        column_ps = max(int(edges[1] - edges[0]), 1)
        notes.append(
            f"On the left, each pixel column ({units.time(column_ps)}) shows its average number of busy devices, "
            "stacked by how many were busy at the same time."
        )
    return notes + selection.unplaced("are not counted")
