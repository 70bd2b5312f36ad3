"""The timeline: one lane per device and stream at true widths, and one lane for the time that devices share."""

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path as Outline
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.errors import TracekitError
from tracekit.report import coverage, labels, layout
from tracekit.rows import clock_of_hosts
from tracekit.trace import Kind, Trace

# Okabe-Ito hues; blue is darker and orange lighter than there, so that the four also differ as greys.
COLOURS: Mapping[Hashable, str] = {
    Kind.COMPUTE: "#005A94",
    Kind.COLLECTIVE: "#F0AB1E",
    Kind.MEMCPY: "#00A078",
    Kind.MEMSET: "#000000",
}
ALONE = "#BEBEBE"
TOGETHER = ("#7A2A6B", "#A8659C", "#D0A5C8")
INK, GREY = "#1A1A1A", "#606060"

# The layout is in whole pixels: lanes have sharp edges, and a coverage column is one pixel wide.
WIDTH, MARGIN, TIER_PX, LEGEND_PX, AXIS_PX, NOTE_PX = 1800, 30, 28, 48, 84, 24
TITLE, SUBTITLE, SMALL, TINY = 13.0, 9.5, 8.5, 5.0
MAX_LANES, FINE_LANES = 48, 12
# No mathtext: a name may hold "$".
TEXT: dict[str, Any] = {"va": "center", "color": INK, "parse_math": False, "fontfamily": labels.FONT}
LEGEND: dict[str, Any] = {
    "frameon": False,
    "borderpad": 0,
    "borderaxespad": 0,
    "handlelength": 1.2,
    "handleheight": 1.0,
    "columnspacing": 1.8,
}
CORNERS = np.array([Outline.MOVETO, *[Outline.LINETO] * 3, Outline.CLOSEPOLY], np.uint8)

_STYLE: dict[Any, Any] = {
    "text.usetex": False,
    "font.family": labels.FONT,
    "path.effects": [],
    "axes.formatter.useoffset": False,
    "axes.formatter.use_locale": False,
    "savefig.bbox": None,
    "savefig.facecolor": "auto",
    "svg.fonttype": "path",
    "svg.hashsalt": "tracekit",
    "svg.image_inline": True,
}


@dataclass(frozen=True)
class _Page:
    """The figure in pixels, counted from its top left corner."""

    figure: Figure
    height: int

    def text(self, x: float, y: float, words: str, size: float, **how: Any) -> None:
        self.figure.text(x / WIDTH, 1 - y / self.height, words, fontsize=size, **(TEXT | how))


def gantt(
    trace: Trace,
    *,
    title: str,
    subtitle: str = "",
    window: tuple[int, int] | None = None,
    phases: pd.DataFrame | None = None,
) -> Figure:
    """The timeline of `trace` inside `window` [start, end) in ps; by default first start to last end of all events.

    The filled share of a lane is its busy share of the window, at any number of intervals; zero-length events have no
    ink. `phases` has name, start_ps and end_ps in order; a name may repeat. A trace without events, or with none longer
    than zero, gives a figure that says so. Where the hosts' clocks are not aligned, each clock starts at its own first
    event, and no lane compares devices. Raises TracekitError if `window` is empty.
    """
    events, aligned = trace.events, len(set(clock_of_hosts(trace.events).values())) < 2
    if not aligned:
        events, window, phases = _each_from_its_start(events), None, None
    if window is None and len(events):
        window = int(events["start_ps"].min()), int(events["end_ps"].max())
    elif window is not None and window[1] <= window[0]:
        raise TracekitError(f"The window [{window[0]}, {window[1]}) ps is empty: give one that ends after it starts.")
    with rc_context(_STYLE):
        if window is None or not len(events):
            return _blank(title, subtitle, "The trace holds no events on a device.")
        if window[1] == window[0]:
            return _blank(title, subtitle, "Every event of the trace has zero length.")
        lanes = coverage.lane_count(events)
        groups = coverage.groups(events, window, merge=lanes > MAX_LANES)
        notes = [f"The {lanes} lanes of the trace are merged to one per device."] if lanes > MAX_LANES else []
        if not aligned:
            notes.append("The hosts' clocks are not aligned: the lanes of each start at its own first event.")
        together = coverage.shared(groups) if aligned else ([], [])
        return _timeline(title, subtitle, window, groups, together, layout.inside(phases, window), notes)


def save(figure: Figure, path: Path) -> None:
    """Write `figure` as PNG or SVG, as the suffix says: whole or not at all, and the same bytes for the same figure."""
    suffix = path.suffix.lower().lstrip(".")
    if suffix not in ("png", "svg"):
        raise TracekitError(f"A timeline cannot be written as {path.name}: name a file that ends in .png or .svg.")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with rc_context(_STYLE):
            metadata = {"Software": None} if suffix == "png" else {"Date": None, "Creator": None}
            figure.savefig(part, format=suffix, dpi=figure.dpi, metadata=metadata)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _each_from_its_start(events: pd.DataFrame) -> pd.DataFrame:
    """The rows with the first start of each clock at 0."""
    first = events["start_ps"] - events.groupby("clock", observed=True, dropna=False)["start_ps"].transform("min")
    return events.assign(start_ps=first, end_ps=first + (events["end_ps"] - events["start_ps"]))


def _timeline(
    title: str,
    subtitle: str,
    window: tuple[int, int],
    groups: Sequence[coverage.Group],
    shared: tuple[list[coverage.Layer], list[tuple[int, int]]],
    phases: Sequence[tuple[str, int, int]],
    notes: Sequence[str],
) -> Figure:
    """Lay out the page from what its words measure, then draw it."""
    length = window[1] - window[0]
    together, bins = shared
    rows = layout.rows(groups, together, bins)
    colours = dict(COLOURS)
    colours.update(zip(bins, [ALONE, *TOGETHER[len(bins) - 2 :: -1]], strict=False))
    busy = {group.device: f"{labels.percent(iv.total(group.busy), length)} busy" for group in groups}
    if bins:
        shared_ps = iv.total(iv.union(*[layer.held for layer in together if layer.keys[0] != bins[0]]))
        busy["overlap"] = f"{labels.percent(shared_ps, length)} {'both' if len(bins) == 2 else '2 or more'}"

    def bold(text: str) -> float:
        return labels.measure(text, SMALL, bold=True)

    devices = {device: labels.cut(labels.plain(device), 300, bold) for device in busy}
    device_px = ceil(max(map(bold, devices.values())))
    label_px = ceil(max(labels.measure(row.label, SMALL) for row in rows))
    left = MARGIN + device_px + (18 + label_px if label_px else 0) + 14
    width = WIDTH - MARGIN - left - 14 - ceil(max(labels.measure(text, SMALL) for text in busy.values()))

    names, missing = layout.names([(name, a / length * width, b / length * width) for name, a, b in phases], width)
    # Past FINE_LANES lanes the columns grow wider than a pixel, which bounds the size of an SVG.
    edges = coverage.pixel_edges(window, width * FINE_LANES // max(len(rows), FINE_LANES))
    notes = [*notes, *_remarks(rows, edges, missing)]
    lanes_px = rows[0].y + rows[0].height + rows[0].height // 3
    axes_px = lanes_px + TIER_PX * (1 + max((name.tier for name in names), default=-1))

    page, top = _page(title, subtitle, LEGEND_PX + axes_px + AXIS_PX + NOTE_PX * len(notes))
    _legend(page, top, rows, colours, bins[-1][1] if bins else 1)
    axes = _axes(page, (left, top + LEGEND_PX, width, axes_px), length)
    _bands(axes, phases, names, lanes_px)
    foot = top + LEGEND_PX + axes_px
    for row in rows:
        _fill(axes, row, edges, length, colours)
    size = min(SMALL, max(rows[0].height / labels.DPI * 72, TINY))
    for y, label in layout.spaced([(row.middle, row.label) for row in rows], size):
        page.text(left - 14, foot - y, label, size, ha="right", color=GREY)
    for y, device in layout.spaced(layout.middles(rows), size):
        page.text(MARGIN, foot - y, devices[device], size, weight="bold")
        page.text(left + width + 14, foot - y, busy[device], size)
    for i, note in enumerate(notes):
        page.text(MARGIN, foot + AXIS_PX + NOTE_PX * i, note, SMALL - 1, color=GREY)
    return page.figure


def _remarks(rows: Sequence[layout.Row], edges: NDArray[np.int64], missing: int) -> list[str]:
    """What a reader of the figure must know to read it right."""
    made = []
    if any(coverage.is_crowded(row.layers, edges) for row in rows):
        column_ps = max(int(edges[1] - edges[0]), 1)
        scale, symbol = labels.unit(column_ps)
        made.append(
            "Where intervals outnumber pixels, a lane is filled to the busy share of each column of "
            f"{column_ps / scale:.3g} {symbol}; a full lane is 100 %."
        )
    if any(len(layer.keys) > 1 for row in rows for layer in row.layers):
        made.append("Kinds that run at the same time in one lane share its height.")
    if missing:
        made.append(f"{missing} phase {'name finds' if missing == 1 else 'names find'} no room.")
    return made


def _page(title: str, subtitle: str, body_px: int) -> tuple[_Page, int]:
    """A figure with its title and subtitle, and the y under them."""
    room = WIDTH - 2 * MARGIN
    heads = labels.wrap(title, room, lambda words: labels.measure(words, TITLE, bold=True), lines=3)
    subs = labels.wrap(subtitle, room, lambda words: labels.measure(words, SUBTITLE), lines=2) if subtitle else []
    top = MARGIN + 38 * len(heads) + 28 * len(subs) + 14
    height = top + body_px
    # The canvas drops a fraction of a pixel, and inches * DPI may fall short of a whole one.
    while int(height / labels.DPI * labels.DPI) != height:
        height += 1
    figure = Figure(figsize=(WIDTH / labels.DPI, height / labels.DPI), dpi=labels.DPI, facecolor="white")
    FigureCanvasAgg(figure)
    page, y = _Page(figure, height), float(MARGIN + 8)
    for words in heads:
        page.text(MARGIN, y, words, TITLE, weight="bold")
        y += 38
    for words in subs:
        page.text(MARGIN, y, words, SUBTITLE, color=GREY)
        y += 28
    return page, top


def _blank(title: str, subtitle: str, sentence: str) -> Figure:
    page, top = _page(title, subtitle, 240)
    page.text(WIDTH / 2, top + 120, sentence, SUBTITLE, ha="center", color=GREY)
    return page.figure


def _axes(page: _Page, box: tuple[int, int, int, int], length: int) -> Axes:
    """Axes at `box` (left, top, width, height in px): x is ps since the start of the window, y is px from the foot."""
    left, top, width, height = box
    bottom = page.height - top - height
    axes = page.figure.add_axes((left / WIDTH, bottom / page.height, width / WIDTH, height / page.height))
    axes.set(xlim=(0, length), ylim=(0, height), yticks=[])
    axes.patch.set_visible(False)
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.spines["bottom"].set(color=GREY, linewidth=0.8)
    scale, symbol = labels.unit(length)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=10, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / scale:g}"))
    axes.tick_params(axis="x", labelsize=SMALL, labelfontfamily=labels.FONT, color=GREY, labelcolor=INK)
    axes.set_xlabel(f"time since the start of the window ({symbol})", fontsize=SMALL, color=GREY, family=labels.FONT)
    return axes


def _bands(axes: Axes, phases: Sequence[tuple[str, int, int]], names: Sequence[layout.Name], lanes_px: int) -> None:
    """Every other phase lightly shaded, a separator at the ends of each one wide enough to see, and the names."""
    pixel = axes.get_xlim()[1] / (axes.get_position().width * WIDTH)
    line: dict[str, Any] = {"color": "#A9B2BD", "linewidth": 0.8, "zorder": 1, "clip_on": False}
    for i, (label, start, end) in enumerate(phases):
        shade = "#F9FAFB" if i % 2 else "#EEF1F5"
        axes.add_artist(_filled(Rectangle((start, 0), end - start, lanes_px), shade, zorder=0, label=label))
    # Separators have a width of their own: many of them would be ink that stands for no time.
    wide = [phase for phase in phases if phase[2] - phase[1] > 12 * pixel]
    for x in sorted({edge for _, start, end in wide for edge in (start, end)}):
        axes.plot([x, x], [0, lanes_px], **line)
    for name in names:
        y = lanes_px + TIER_PX * (name.tier + 0.45)
        if name.leader is not None:
            axes.plot([name.leader * pixel] * 2, [lanes_px, y + TIER_PX / 3], **line)
        axes.text(name.x * pixel, y, name.text, fontsize=layout.NAME_SIZE, **TEXT)


def _filled(patch: Patch, colour: str, **how: Any) -> Patch:
    """`patch` as ink that is exactly its area: no edge line, no snapping to pixels."""
    patch.set(facecolor=colour, edgecolor="none", linewidth=0, antialiased=True, snap=False, **how)
    return patch


def _fill(axes: Axes, row: layout.Row, edges: NDArray[np.int64], length: int, colours: Mapping[Hashable, str]) -> None:
    """A faint track for the lane, and on it one shape for each key."""
    track = Rectangle((0, row.y), length, row.height)
    axes.add_artist(_filled(track, "black", alpha=0.05, zorder=2, label=f"{row.device} | {row.label}"))
    for key, found in coverage.boxes(row.layers, row.keys, edges).items():
        if len(found):
            x0, x1, low, high = found.T
            y0, y1 = row.y + row.height * low, row.y + row.height * high
            corners = np.stack([x0, y0, x1, y0, x1, y1, x0, y1, x0, y0], axis=1).reshape(-1, 2)
            codes = np.tile(CORNERS, len(found))
            # One shape, not many: within a shape the shares of a pixel add up, between shapes they hide each other.
            axes.add_artist(_filled(PathPatch(Outline(corners, codes)), colours[key], zorder=3))


def _legend(page: _Page, y: float, rows: Sequence[layout.Row], colours: Mapping[Hashable, str], devices: int) -> None:
    """A square for each kind that occurs on the left, one for each number of busy devices on the right."""
    occurring = {key for row in rows for layer in row.layers if len(layer.held) for key in layer.keys}
    for side, x, kinds in (("left", MARGIN, True), ("right", WIDTH - MARGIN, False)):
        keys = [key for key in colours if key in occurring and isinstance(key, Kind) == kinds]
        if keys:
            place: Any = f"upper {side}"
            page.figure.legend(
                handles=[_filled(Patch(label=_meaning(key, devices)), colours[key]) for key in keys],
                loc=place,
                bbox_to_anchor=(x / WIDTH, 1 - y / page.height),
                ncols=len(keys),
                prop={"family": labels.FONT, "size": SMALL},
                **LEGEND,
            )


def _meaning(key: Hashable, devices: int) -> str:
    if not isinstance(key, tuple):
        return str(key)
    low, high = key
    if high == 1:
        return "1 device busy"
    if low == devices:
        return "both devices busy" if devices == 2 else f"all {devices} devices busy"
    return f"{low} busy" if low == high else f"{low}-{high} busy"
