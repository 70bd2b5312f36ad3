"""The overlap matrix: how long each two devices were busy at the same time, as a colour and a number."""

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from numpy.typing import NDArray

from tracekit import units
from tracekit.report.figures import labels, layout, sheet
from tracekit.report.figures.selection import View
from tracekit.report.figures.sheet import GAP, MARGIN, NOTE_PX, SMALL, TINY, WIDE, Page

_MATRIX_PX, _MAX_CELL, _MIN_CELL = 720, 100, 9
_PANEL_PX, _SCALE_PX, _LINE_PX, _SHADES = 560, 300, 26, 100
_UNKNOWN, _NOTHING = "?", "-"
_TELLS = (
    ("Below the diagonal", "the time that both were busy, of the shorter one's busy time"),
    ("Above the diagonal", "the time that both were busy, of the time either was"),
    ("On the diagonal", "the device's own busy time, of the window"),
)


def overlap(view: View, *, title: str | None = None, theme: str = "light", width: int = WIDE) -> sheet.Drawing:
    """Each two devices' time together: of the shorter busy time below the diagonal, of either above it.

    What is not known, or of a device that did nothing, has no colour; the notes say why. With fewer than two devices
    the figure says that there is nothing to compare. `width` is the most it takes.
    """
    stretch = view.stretch
    title = _finding(stretch.pairs) if title is None else title
    with rc_context(sheet.STYLE):
        if view.lacking or len(stretch.partition) < 2:
            sentence = view.lacking or "Only one device worked: there is no other to overlap with."
            return sheet.blank(title, view.subtitle, sentence, theme, width)
        return _drawn(view, stretch.partition, stretch.pairs, title, theme, width)


def _finding(pairs: pd.DataFrame) -> str:
    """Which two devices overlapped least, and which most."""
    known = pairs.dropna(subset=["ratio_min"]).sort_values("ratio_min", kind="stable")
    if not len(known):
        return "How long devices were busy at the same time"
    least, most = known.iloc[0], known.iloc[-1]
    if len(known) == 1:
        who = f"{least['a']} and {least['b']} were"
        return f"{who} busy at the same time for {units.percent(least['ratio_min'])} of the shorter one's busy time"
    ends = [f"{units.percent(one['ratio_min'])} ({one['a']} and {one['b']})" for one in (least, most)]
    return f"Two devices overlap between {ends[0]} and {ends[1]} of the shorter one's busy time"


def _drawn(
    view: View, table: pd.DataFrame, pairs: pd.DataFrame, title: str, theme: str, page_width: int
) -> sheet.Drawing:
    devices, count = [labels.plain(name) for name in table["device"]], len(table)
    values, words = _cells(table, pairs)
    head = [labels.cut(name, page_width / 6, _bold) for name in devices]
    left = MARGIN + ceil(max(map(_bold, head))) + GAP
    cell = max(min(_MATRIX_PX, page_width - left - MARGIN) // count, _MIN_CELL)
    cell = min(cell, _MAX_CELL)
    side = cell * count
    upright = max(map(_bold, head)) > cell - 8
    top_px = ceil(max(map(_bold, head))) + GAP if upright else 40
    beside = left + side + 2 * GAP + _PANEL_PX + MARGIN <= page_width
    width = left + side + 2 * GAP + _PANEL_PX + MARGIN if beside else page_width
    panel_px = _LINE_PX * (3 + 2 * len(_TELLS) + len(_TELLS))
    lines = sheet.notes(_remarks(view, words, pairs), width)
    body_px = max(top_px + side, panel_px if beside else 0) + (0 if beside else panel_px) + 30 + NOTE_PX * len(lines)
    made = sheet.page(title, view.subtitle, body_px, theme, width)
    top = made.top + top_px
    axes = made.axes((left, top, side, side), (0, count), (count, 0))
    _fill(made, axes, np.where(np.eye(count, dtype=bool), np.nan, values), 1 / cell)
    steps = np.arange(count) + 1 / cell
    diagonal = np.stack([steps, steps + 1 - 2 / cell, steps, steps + 1 - 2 / cell], axis=1)
    sheet.fill(axes, diagonal, made.colours["idle"], alpha=0.45)
    _write(made, axes, values, words, cell)
    size = max(min(SMALL, cell * 0.8 / labels.DPI * 72), TINY)
    for y, number in layout.spaced([(-cell * (at + 0.5), str(at)) for at in range(count)], size):
        name, middle = head[int(number)], -y
        made.text(left - GAP, top + middle, name, size, ha="right", weight="bold")
        if upright:
            made.text(left + middle, top - GAP, name, size, ha="center", va="bottom", weight="bold", rotation=90)
        else:
            made.text(left + middle, top - 20, name, size, ha="center", weight="bold")
    tells = _TELLS if _number_size(cell) else _TELLS[:2]
    _panel(made, tells, (left + side + 2 * GAP, top) if beside else (MARGIN, top + side + 30))
    sheet.draw_notes(made, made.top + body_px - NOTE_PX * len(lines), lines)
    return made.figure


def _cells(table: pd.DataFrame, pairs: pd.DataFrame) -> tuple[NDArray[np.float64], list[list[str]]]:
    """What each cell shows, shape (devices, devices): a ratio, NaN where there is none, and why: `?` or a dash."""
    count = len(table)
    place = {name: at for at, name in enumerate(table["device"])}
    values, words = np.full((count, count), np.nan), [[""] * count for _ in range(count)]
    for row in table.to_dict("records"):
        at = place[row["device"]]
        if row["window_ps"]:
            values[at, at] = row["busy_ps"] / row["window_ps"]
        else:
            words[at][at] = _NOTHING
    for row in pairs.to_dict("records"):
        a, b = sorted((place[row["a"]], place[row["b"]]))
        if pd.isna(row["ratio_min"]):
            words[a][b] = words[b][a] = _UNKNOWN if pd.isna(row["overlap_ps"]) else _NOTHING
        else:
            values[b, a], values[a, b] = row["ratio_min"], row["ratio_union"]
    return values, words


def _shade(made: Page, level: int) -> str:
    """The colour of `level` of _SHADES, from the ground of a lane to that of all devices busy."""
    ends = (made.colours["band"], made.colours["all"])
    low, high = (np.array([int(one[at : at + 2], 16) for at in (1, 3, 5)]) for one in ends)
    mixed = np.round(low + (high - low) * level / _SHADES).astype(int)
    return "#" + "".join(f"{part:02X}" for part in mixed)


def _fill(made: Page, axes: Axes, values: NDArray[np.float64], pixel: float) -> None:
    """The cells that have a value, a pixel apart, one shape a shade."""
    level = np.where(np.isnan(values), -1, np.round(np.nan_to_num(values) * _SHADES)).astype(int)
    for one in np.unique(level[level >= 0]).tolist():
        row, column = np.nonzero(level == one)
        boxes = np.stack([column + pixel, column + 1 - pixel, row + pixel, row + 1 - pixel], axis=1)
        sheet.fill(axes, boxes, _shade(made, one))


def _write(made: Page, axes: Axes, values: NDArray[np.float64], words: list[list[str]], cell: int) -> None:
    """The number in each cell, in whole percent where cells are small, and none where they are too small for that."""
    how: dict[str, Any] = {"ha": "center", "va": "center", "parse_math": False, "fontfamily": labels.FONT, "zorder": 4}
    size = _number_size(cell)
    if not size:
        return
    long = labels.measure(">99.9 %", size) + 6 <= cell
    for row, column in np.ndindex(values.shape):
        value, colour = float(values[row, column]), made.colours["grey"]
        shown = words[row][column] if np.isnan(value) else units.percent(value) if long else units.whole_percent(value)
        if row != column and not np.isnan(value):
            colour = sheet.readable_on(made.colours, _shade(made, round(value * _SHADES)))
        axes.text(column + 0.5, row + 0.5, shown, fontsize=size, color=colour, **how)


def _number_size(cell: int) -> float:
    """The font size of the numbers in cells of so many px, 0 where none fits."""
    return next((size for size in (SMALL, 7.5, 6.5, 5.5) if labels.measure(">99", size) + 6 <= cell), 0.0)


def _panel(made: Page, tells: Sequence[tuple[str, str]], place: tuple[int, int]) -> None:
    """The scale of the shades, and what the three parts of the matrix tell."""
    x, y = place
    axes = made.axes((x, y + 4, _SCALE_PX, 18), (0, _SHADES + 1), (0, 1))
    for level in range(0, _SHADES + 1, 2):
        # To the end, so that no seam shows between two shades.
        sheet.fill(axes, np.array([[level, _SHADES + 1, 0, 1]], np.float64), _shade(made, level))
    for share, side in ((0, "left"), (50, "center"), (100, "right")):
        made.text(x + _SCALE_PX * share / 100, y + 40, f"{share} %", SMALL, ha=side)
    y += 3 * _LINE_PX
    for title, said in tells:
        made.text(x, y, title, SMALL, weight="bold")
        made.text(x, y + _LINE_PX, said, SMALL, color=made.colours["grey"])
        y += 3 * _LINE_PX


def _remarks(view: View, words: list[list[str]], pairs: pd.DataFrame) -> list[str]:
    made = []
    found = {word for row in words for word in row}
    if _NOTHING in found:
        made.append("A dash: a device did nothing in the window.")
    if _UNKNOWN in found:
        made.append("A question mark: the hosts' clocks are not aligned, so the overlap of their devices is not known.")
    if view.seen.unplaced:
        names = ", ".join(view.seen.unplaced)
        made.append(f"Copies on {names}, whose device the trace does not prove, do not count.")
    return made


def _bold(text: str) -> float:
    return labels.measure(text, SMALL, bold=True)
