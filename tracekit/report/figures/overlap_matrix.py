"""The overlap matrix: how long each two devices were busy at the same time, as a colour and a number."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from tracekit import units
from tracekit.report.figures import drawing
from tracekit.report.figures.drawing import GAP, LINE_PX, SMALL, Drawing, Page, Sheet, bold_px
from tracekit.report.figures.selection import Selection
from tracekit.report.palette import readable_on
from tracekit.report.sections.overview import TITLES

_MATRIX_PX, _MAX_CELL, _MIN_CELL = 720, 100, 9
_PANEL_PX, _SCALE_PX, _SHADES = 560, 300, 100
# Smaller cells touch.
_APART_PX = 6
_UNKNOWN, _NOTHING = "?", "-"
_PARTS = (
    ("Below the diagonal", "time both were busy, as a share of the shorter busy time"),
    ("Above the diagonal", "time both were busy, as a share of the time either was"),
    ("On the diagonal", "the device's busy time, as a share of the window"),
)


def caption(selection: Selection) -> str:
    """What it shows, and of which part of the trace."""
    return ", ".join(filter(None, [TITLES["together"], selection.where]))


def title(selection: Selection) -> str:
    """Which two devices overlapped least, and which most."""
    pairs = selection.breakdown.pairs.dropna(subset=["ratio_min"]).sort_values("ratio_min", kind="stable")
    if not len(pairs) or selection.partial:
        return "Pairwise overlap of devices"
    least, most = pairs.iloc[0], pairs.iloc[-1]
    if len(pairs) == 1:
        devices = f"{least['a']} and {least['b']}"
        return f"{devices} overlap for {units.percent(least['ratio_min'])} of the shorter busy time"
    low, high = (f"{units.percent(pair['ratio_min'])} ({pair['a']} and {pair['b']})" for pair in (least, most))
    return f"Devices overlap pairwise for {low} to {high} of the shorter busy time"


def draw(selection: Selection, on: Sheet) -> Drawing:
    """Each two devices' time together: of the shorter busy time below the diagonal, of either above it.

    What is not known, or of a device that did nothing, has no colour; the notes say why. With fewer than two devices
    the figure says that there is nothing to compare. It is no wider than its matrix needs.
    """
    if selection.partial:
        return on.blank(selection.partial)
    table, pairs = selection.breakdown.partition, selection.breakdown.pairs
    if selection.lacking or len(table) < 2:
        return on.blank(selection.lacking or "Only one device was busy, so there is nothing that overlaps.")
    count = len(table)
    if count > on.room // 2:
        return on.blank(
            f"A matrix of {units.count(count)} devices has no room on this page: choose some of them (--device)."
        )
    matrix = _matrix(table, pairs)
    names, longest, cell = _names(list(table["device"]), on, SMALL)
    size = drawing.size_of(cell * 0.8)
    if size < SMALL:
        names, longest, cell = _names(list(table["device"]), on, size)
    x = on.margin + ceil(longest) + GAP
    side = cell * count
    upright = longest > cell - 8
    top_px = ceil(longest) + GAP if upright else 40
    with_panel = x + side + 2 * GAP + _PANEL_PX + on.margin
    beside = with_panel <= on.width
    on = replace(on, width=with_panel if beside else on.width)
    parts = _parts(cell, _PANEL_PX if beside else on.room)
    panel_px = LINE_PX * (3 + sum(2 + len(meaning) for _, meaning in parts))
    body_px = max(top_px + side, panel_px) if beside else top_px + side + panel_px
    page = on.page(body_px + 30, notes=_notes(selection, matrix))
    top = page.top + top_px
    axes = page.axes((x, top, side, side), (0, count), (count, 0))
    pixel = 1 / cell if cell >= _APART_PX else 0.0
    _fill(page, axes, np.where(np.eye(count, dtype=bool), np.nan, matrix.ratios), pixel)
    steps = np.arange(count) + pixel
    diagonal = np.stack([steps, steps + 1 - 2 * pixel, steps, steps + 1 - 2 * pixel], axis=1)
    drawing.fill(axes, diagonal, page.colours["idle"], alpha=0.45)
    _write(page, axes, matrix, cell)
    for y, number in drawing.spaced([(-cell * (at + 0.5), str(at)) for at in range(count)], size):
        name, middle = names[int(number)], -y
        page.text(x - GAP, top + middle, name, size, ha="right", weight="bold")
        if upright:
            page.text(x + middle, top - GAP, name, size, ha="center", va="bottom", weight="bold", rotation=90)
        else:
            page.text(x + middle, top - 20, name, size, ha="center", weight="bold")
    page.text(x - GAP, top - GAP, "device", SMALL, ha="right", va="bottom", color=page.colours["grey"])
    _panel(page, parts, (x + side + 2 * GAP, top) if beside else (on.margin, top + side + 30))
    return page.finish()


@dataclass(frozen=True)
class Matrix:
    """What each cell shows, (devices, devices): a ratio, NaN where there is none, and then why: `?` or a dash."""

    ratios: NDArray[np.float64]
    marks: list[list[str]]


def _names(devices: Sequence[str], on: Sheet, size: float) -> tuple[list[str], float, int]:
    """The names of the devices in a font size, their longest, and how large the cells beside them may be, in px."""
    bold = partial(bold_px, size=size)
    names = [drawing.cut(drawing.plain(name), on.name_px, bold) for name in devices]
    longest, count = max(*map(bold, names), drawing.measure("device", SMALL)), len(names)
    room = on.room - ceil(longest) - GAP
    return names, longest, max(min(max(min(_MATRIX_PX, room) // count, _MIN_CELL), room // count, _MAX_CELL), 1)


def _matrix(table: pd.DataFrame, pairs: pd.DataFrame) -> Matrix:
    count = len(table)
    place = {name: at for at, name in enumerate(table["device"])}
    ratios, marks = np.full((count, count), np.nan), [[""] * count for _ in range(count)]
    for row in table.to_dict("records"):
        at = place[row["device"]]
        if row["window_ps"]:
            ratios[at, at] = row["busy_ps"] / row["window_ps"]
        else:
            marks[at][at] = _NOTHING
    for row in pairs.to_dict("records"):
        a, b = sorted((place[row["a"]], place[row["b"]]))
        if pd.isna(row["ratio_min"]):
            marks[a][b] = marks[b][a] = _UNKNOWN if pd.isna(row["overlap_ps"]) else _NOTHING
        else:
            ratios[b, a], ratios[a, b] = row["ratio_min"], row["ratio_union"]
    return Matrix(ratios, marks)


def _shade(page: Page, level: int) -> str:
    """The colour of `level` of _SHADES, from the ground of a lane to that of all devices busy."""
    ends = (page.colours["band"], page.colours["all"])
    low, high = (np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) for colour in ends)
    mixed = np.round(low + (high - low) * level / _SHADES).astype(int)
    return "#" + "".join(f"{part:02X}" for part in mixed)


def _fill(page: Page, axes: Axes, ratios: NDArray[np.float64], pixel: float) -> None:
    """The cells that have a ratio, a pixel apart, one shape a shade."""
    levels = np.where(np.isnan(ratios), -1, np.round(np.nan_to_num(ratios) * _SHADES)).astype(int)
    for level in np.unique(levels[levels >= 0]).tolist():
        row, column = np.nonzero(levels == level)
        boxes = np.stack([column + pixel, column + 1 - pixel, row + pixel, row + 1 - pixel], axis=1)
        drawing.fill(axes, boxes, _shade(page, level))


def _write(page: Page, axes: Axes, matrix: Matrix, cell: int) -> None:
    """The number in each cell, in whole percent where cells are small, and none where they are too small for that."""
    size = _number_size(cell)
    if not size:
        return
    long = drawing.measure(">99.9 %", size) + 6 <= cell
    for row, column in np.ndindex(matrix.ratios.shape):
        ratio, colour = float(matrix.ratios[row, column]), page.colours["grey"]
        if np.isnan(ratio):
            text = matrix.marks[row][column]
        else:
            text = units.percent(ratio) if long else units.whole_percent(ratio)
            if row != column:
                colour = readable_on(_shade(page, round(ratio * _SHADES)), page.colours["ink"], page.colours["paper"])
        page.text(column + 0.5, row + 0.5, text, size, on=axes, ha="center", color=colour, zorder=4)


def _number_size(cell: int) -> float:
    """The font size of the numbers in cells of so many px, 0 where none fits."""
    return next((size for size in (SMALL, 7.5, 6.5, 5.5) if drawing.measure(">99", size) + 6 <= cell), 0.0)


def _parts(cell: int, width: int) -> list[tuple[str, list[str]]]:
    """The parts of a matrix and what each means, in lines of at most `width` px; a bare diagonal means nothing."""
    parts = _PARTS if _number_size(cell) else _PARTS[:2]
    return [(part, drawing.wrap(meaning, width, partial(drawing.measure, size=SMALL), 4)) for part, meaning in parts]


def _panel(page: Page, parts: Sequence[tuple[str, Sequence[str]]], place: tuple[int, int]) -> None:
    """The scale of the shades, and what the parts of the matrix show."""
    x, y = place
    axes = page.axes((x, y + 4, _SCALE_PX, 18), (0, _SHADES + 1), (0, 1))
    for level in range(0, _SHADES + 1, 2):
        # To the end, so that no seam shows between two shades.
        drawing.fill(axes, np.array([[level, _SHADES + 1, 0, 1]], np.float64), _shade(page, level))
    for at, label, side in ((0, "0 %", "left"), (0.5, "50 %", "center"), (1, "100 %", "right")):
        page.text(x + _SCALE_PX * at, y + 40, label, SMALL, ha=side)
    y += 3 * LINE_PX
    for part, meaning in parts:
        page.text(x, y, part, SMALL, weight="bold")
        for line in meaning:
            y += LINE_PX
            page.text(x, y, line, SMALL, color=page.colours["grey"])
        y += 2 * LINE_PX


def _notes(selection: Selection, matrix: Matrix) -> list[str]:
    notes = []
    marks = {mark for row in matrix.marks for mark in row}
    if _NOTHING in marks:
        notes.append("A dash (-): a device was idle throughout the window.")
    if _UNKNOWN in marks:
        notes.append("A question mark (?): host clocks are not aligned, so the overlap of these devices is unknown.")
    return notes + selection.unplaced("are not counted")
