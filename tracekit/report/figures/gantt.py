"""The timeline: one lane per device and stream at true widths, and one lane for the time that devices share."""

from collections.abc import Hashable, Mapping, Sequence
from math import ceil

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import units
from tracekit.report.figures import bands, coverage, labels, layout, sheet
from tracekit.report.figures.selection import View
from tracekit.report.figures.sheet import AXIS_PX, GAP, MARGIN, NOTE_PX, SMALL, TINY, WIDE, Page
from tracekit.vocabulary.kinds import Kind

LABEL_GAP = 18
MAX_LANES, FINE_LANES = 48, 12


def gantt(view: View, *, title: str | None = None, theme: str = "light", width: int = WIDE) -> sheet.Drawing:
    """The timeline of a view, `width` px wide at 150 a inch; its title is the finding unless another is given.

    The filled share of a lane is its busy share of the stretch, at any number of intervals; zero-length events have no
    ink. A view without device time gives a figure that says so. Where the hosts' clocks are not aligned, each clock
    starts at its own first event, and no lane compares devices.
    """
    title = view.finding if title is None else title
    with rc_context(sheet.STYLE):
        if view.lacking or not view.length_ps:
            sentence = view.lacking or "This stretch of the trace has no length."
            return sheet.blank(title, view.subtitle, sentence, theme, width)
        lanes = coverage.lane_count(view.trace.events)
        groups = coverage.groups(view.trace.events, view.seen.windows, merge=lanes > MAX_LANES)
        notes = [f"The {lanes} lanes of the trace are merged to one per device."] if lanes > MAX_LANES else []
        if not view.aligned:
            notes.append("The hosts' clocks are not aligned: the lanes of each clock are counted from its own start.")
        return _timeline(view, title, groups, notes, theme, width)


def _timeline(
    view: View, title: str, groups: Sequence[coverage.Group], notes: Sequence[str], theme: str, page_width: int
) -> sheet.Drawing:
    """Lay out the page from what its words measure, then draw it."""
    length = view.length_ps
    together, bins = coverage.shared(groups) if view.aligned else ([], [])
    rows = layout.rows(groups, together, bins)
    colours = bands.colours(sheet.colours_of(theme), bins)
    busy = {group.device: f"{units.percent(iv.total(group.busy), length)} busy" for group in groups}
    if bins:
        shared_ps = iv.total(iv.union(*[layer.held for layer in together if layer.keys[0] != bins[0]]))
        busy["overlap"] = f"{units.percent(shared_ps, length)} {'both' if len(bins) == 2 else '2 or more'}"

    def bold(text: str) -> float:
        return labels.measure(text, SMALL, bold=True)

    devices = {device: labels.cut(labels.plain(device), page_width / 6, bold) for device in busy}
    device_px = ceil(max(map(bold, devices.values())))
    label_px = ceil(max(labels.measure(row.label, SMALL) for row in rows))
    left = MARGIN + device_px + (LABEL_GAP + label_px if label_px else 0) + GAP
    width = page_width - MARGIN - left - GAP - ceil(max(labels.measure(text, SMALL) for text in busy.values()))

    phases = bands.phases(view)
    names, missing = layout.names([(name, a / length * width, b / length * width) for name, a, b in phases], width)
    # Past FINE_LANES lanes the columns grow wider than a pixel, which bounds the size of an SVG.
    edges = coverage.pixel_edges((0, length), width * FINE_LANES // max(len(rows), FINE_LANES))
    lines = sheet.notes([*notes, *_remarks(rows, edges, missing)], page_width)
    lanes_px = rows[0].y + rows[0].height + rows[0].height // 3
    axes_px = lanes_px + bands.TIER_PX * (1 + max((name.tier for name in names), default=-1))

    placed, legend_px = sheet.legend(*_legend(rows, colours, bins), page_width)
    made = sheet.page(title, view.subtitle, legend_px + axes_px + AXIS_PX + NOTE_PX * len(lines), theme, page_width)
    sheet.draw_legend(made, placed)
    foot = made.top + legend_px + axes_px
    axes = made.axes((left, foot - axes_px, width, axes_px), (0, length), (0, axes_px))
    bands.ruled(made, axes, view)
    bands.draw(made, axes, phases, names, lanes_px)
    for row in rows:
        _fill(made, axes, row, edges, length, colours)
    size = min(SMALL, max(rows[0].height / labels.DPI * 72, TINY))
    for y, label in layout.spaced([(row.middle, row.label) for row in rows], size):
        made.text(left - GAP, foot - y, label, size, ha="right", color=made.colours["grey"])
    for y, device in layout.spaced(layout.middles(rows), size):
        made.text(MARGIN, foot - y, devices[device], size, weight="bold")
        made.text(left + width + GAP, foot - y, busy[device], size)
    sheet.draw_notes(made, foot + AXIS_PX, lines)
    return made.figure


def _remarks(rows: Sequence[layout.Row], edges: NDArray[np.int64], missing: int) -> list[str]:
    """What a reader of the figure must know to read it right."""
    made = []
    if any(coverage.is_crowded(row.layers, edges) for row in rows):
        column_ps = max(int(edges[1] - edges[0]), 1)
        made.append(
            "Where intervals outnumber pixels, a lane is filled to the busy share of each column of "
            f"{units.time(column_ps)}; a full lane is 100 %."
        )
    if any(len(layer.keys) > 1 for row in rows for layer in row.layers):
        made.append("Kinds that run at the same time in one lane share its height.")
    if missing:
        made.append(f"{missing} phase {'name finds' if missing == 1 else 'names find'} no room.")
    return made


def _fill(
    made: Page,
    axes: Axes,
    row: layout.Row,
    edges: NDArray[np.int64],
    length: int,
    colours: Mapping[Hashable, str],
) -> None:
    """A faint track for the lane, and on it one shape for each key."""
    track = Rectangle((0, row.y), length, row.height)
    ink = made.colours["track"]
    axes.add_artist(sheet.filled(track, ink, alpha=0.05, zorder=2, label=f"{row.device} | {row.label}"))
    parts = []
    for key, found in coverage.boxes(row.layers, row.keys, edges).items():
        x0, x1, low, high = found.T
        boxes = np.stack([x0, x1, row.y + row.height * low, row.y + row.height * high], axis=1)
        parts.append((boxes, colours[key]))
    # The first key stands lowest, and is painted last.
    behind = sheet.below if coverage.is_crowded(row.layers, edges) else sheet.between
    sheet.fill_all(axes, parts[::-1], behind)


def _legend(
    rows: Sequence[layout.Row], colours: Mapping[Hashable, str], bins: Sequence[tuple[int, int]]
) -> tuple[list[sheet.Entry], list[sheet.Entry]]:
    """A square for each kind that occurs on the left, one for each number of busy devices on the right."""
    occurring = {key for row in rows for layer in row.layers if len(layer.held) for key in layer.keys}
    devices = bins[-1][1] if bins else 1
    kinds: list[sheet.Entry] = [(kind.value, [colours[kind]]) for kind in Kind if kind in occurring]
    return kinds, [(bands.meaning(one, devices), [colours[one]]) for one in bins if one in occurring]
