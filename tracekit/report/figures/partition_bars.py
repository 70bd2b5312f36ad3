"""The partition: one bar per device, cut into the eight exact cells of its window, with what is hidden and exposed."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from tracekit import units
from tracekit.report.figures import drawing
from tracekit.report.figures.drawing import AXIS_PX, GAP, SMALL, Drawing, Page, Sheet, bold_px
from tracekit.report.figures.selection import Selection
from tracekit.report.palette import readable_on
from tracekit.report.sections.overview import CELL_WORDS, TITLES

# The kinds in each cell, from the foot up; the cells from the left.
CELLS: Mapping[str, tuple[str, ...]] = {
    cell: tuple("memcpy" if kind == "memory" else kind for kind in cell.split("+")) for cell in CELL_WORDS
}
# What stands beside the bars; these four sum to the window.
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "compute only": ("compute",),
    "hidden": ("compute+collective", "compute+memory", "compute+collective+memory"),
    "exposed": ("collective", "collective+memory", "memory"),
    "idle": ("idle",),
}
_MAX_PITCH, _MIN_PITCH, _BARS_PX, _HEAD_PX, _COLUMN_GAP = 56, 6, 1300, 36, 28
_READABLE_PX = 32


def caption(selection: Selection) -> str:
    """What it shows, and of which part of the trace."""
    return ", ".join(filter(None, [TITLES["time"], selection.where]))


def title(selection: Selection) -> str:
    """What the devices spent their time on."""
    table = selection.breakdown.partition
    total = int(table["window_ps"].sum())
    if not total or selection.partial:
        return "Time by device"
    parts = {
        "compute": [cell for cell in CELLS if "compute" in cell],
        "exposed collectives": ["collective", "collective+memory"],
        "exposed copies": ["memory"],
        "idle": ["idle"],
    }
    times = {name: int(table[cells].to_numpy().sum()) for name, cells in parts.items()}
    shares = [f"{units.percent(time, total)} {name}" for name, time in times.items() if time]
    devices = table["device"].iloc[0] if len(table) == 1 else f"{len(table)} devices"
    return f"{devices}: {', '.join(shares)}"


def draw(selection: Selection, on: Sheet) -> Drawing:
    """The exact cells of each device as shares of its window, which fill its bar.

    Kinds that ran at once share the height of their part of the bar. A selection without devices gives a figure that
    says so, and a device without a window has an empty bar.
    """
    table = selection.breakdown.partition
    if selection.partial:
        return on.blank(selection.partial)
    if selection.lacking or not table["window_ps"].sum():
        return on.blank(selection.lacking or "No device was busy in the selected range.")
    count = len(table)
    if count * _MIN_PITCH > _BARS_PX and (drawn := selection.drawn):
        table = table[table["device"].isin(list(drawn))].reset_index(drop=True)
    pitch = max(min(_MAX_PITCH, min(_BARS_PX, on.width) // len(table)), _MIN_PITCH)
    size = drawing.size_of(pitch * 0.8)
    bold = partial(bold_px, size=size)
    devices = [drawing.cut(drawing.plain(name), on.name_px, bold) for name in table["device"]]
    x0 = on.margin + ceil(max(*map(bold, devices), drawing.measure("device", SMALL))) + GAP
    columns = {name: ceil(max(drawing.measure(text, SMALL) for text in (name, ">99.9 %"))) for name in _COLUMNS}
    width = on.width - on.margin - x0 - sum(columns.values()) - _COLUMN_GAP * len(columns)
    while columns and width < on.width / 2:  # a narrow page has more use for its bars
        width += columns.pop(next(iter(columns))) + _COLUMN_GAP

    occurring = [cell for cell in CELLS if table[cell].any()]
    entries = [(CELL_WORDS[cell], [on.colours[kind] for kind in CELLS[cell]]) for cell in occurring]
    bars_px = pitch * len(table)
    some = [f"{len(table)} of {units.count(count)} devices are drawn, and stand for all."] if len(table) < count else []
    page = on.page(_HEAD_PX + bars_px + AXIS_PX, entries, notes=[*some, *_notes(selection, occurring)])
    top = page.top + _HEAD_PX
    axes = page.axes((x0, top, width, bars_px), (0, 100), (bars_px, 0))
    ticks = [(share, str(share)) for share in range(0, 101, 20 if width > 400 else 50)]
    page.rule(axes, ticks, _axis_label(selection, table))
    _bars(page, axes, table, pitch, width)
    right = np.cumsum([x0 + width, *(_COLUMN_GAP + column for column in columns.values())])[1:].tolist()
    for x, name in zip(right, columns, strict=True):
        page.text(x, top - _HEAD_PX / 2, name, SMALL, ha="right", color=on.colours["grey"])
    page.text(x0 - GAP, top - _HEAD_PX / 2, "device", SMALL, ha="right", color=on.colours["grey"])
    middles = [(-pitch * (number + 0.5), str(number)) for number in range(len(table))]
    for y, number in drawing.spaced(middles, size):
        row = table.iloc[int(number)]
        page.text(x0 - GAP, top - y, devices[int(number)], size, ha="right", weight="bold")
        for x, name in zip(right, columns, strict=True):
            share = _share(sum(int(row[cell]) for cell in _COLUMNS[name]), int(row["window_ps"]))
            page.text(x, top - y, share, size, ha="right")
    return page.finish()


def _bars(page: Page, axes: Axes, table: pd.DataFrame, pitch: int, width: int) -> None:
    """The parts of every bar from the left, one shape a kind, and the shares of those with room for them."""
    boxes: dict[str, list[tuple[float, float, float, float]]] = {}
    for number, row in enumerate(table.to_dict("records")):
        # Running sums of integers, so that the last part ends at 100 % exactly.
        total, window = 0, max(int(row["window_ps"]), 1)
        # On whole pixels, where their edges are sharp.
        y, height = pitch * number + round(pitch * 0.14), max(2 * round(pitch * 0.36), 1)
        for cell, kinds in CELLS.items():
            start, total = total, total + int(row[cell])
            x0, x1 = 100 * start / window, 100 * total / window
            for level, kind in enumerate(kinds):
                foot = y + height * (1 - level / len(kinds))
                boxes.setdefault(kind, []).append((x0, x1, foot - height / len(kinds), foot))
            share, room = _share(total - start, window), (x1 - x0) / 100 * width
            if len(kinds) == 1 and pitch >= _READABLE_PX and drawing.measure(share, SMALL) + 12 <= room:
                colour = readable_on(page.colours[kinds[0]], page.colours["ink"], page.colours["paper"])
                middle = (x0 + x1) / 2, y + height / 2
                page.text(*middle, share, SMALL, on=axes, ha="center", color=colour, zorder=4)
    parts = []
    for kind in ("idle", "memcpy", "collective", "compute"):
        wide = np.array([box for box in boxes.get(kind, []) if box[1] > box[0]]).reshape(-1, 4)
        parts.append((wide, page.colours[kind]))
    drawing.fill_all(axes, parts, drawing.everything)


def _share(part: int, whole: int) -> str:
    return units.percent(part, whole) if whole else "-"


def _axis_label(selection: Selection, table: pd.DataFrame) -> str:
    if selection.aligned:
        return f"share of the window of {units.time(int(table['window_ps'].max()))} (%)"
    return "share of the window of each device's own clock (%)"


def _notes(selection: Selection, occurring: Sequence[str]) -> list[str]:
    notes = ["Each bar is the whole window; its segments are exact and add up to it."]
    if any(len(CELLS[cell]) > 1 for cell in occurring):
        notes[0] += " Kinds that ran concurrently share the height of their segment."
    if any("memory" in cell for cell in occurring):
        notes[0] += " Copies include memsets."
    return notes + selection.unplaced("have no bar")
