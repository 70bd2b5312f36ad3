"""The timeline: one lane per device and stream at true widths, and one lane for the time that devices share."""

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import units
from tracekit.devices import is_known, known_first, natural
from tracekit.report.figures import coverage, labels, sheet
from tracekit.report.figures.bands import bands, draw_axis
from tracekit.report.figures.coverage import Bin, Layer
from tracekit.report.figures.drawing import Drawing
from tracekit.report.figures.selection import Selection
from tracekit.report.figures.sheet import AXIS_PX, GAP, MARGIN, NOTE_PX, SMALL, TINY, Page, Sheet
from tracekit.timeline.rows import clock_of_hosts
from tracekit.trace import KIND_DTYPE
from tracekit.vocabulary.kinds import Kind

# Few lanes are high, many are low; past _MAX_LANES_PX they share what there is.
_MIN_PITCH_PX, _MAX_PITCH_PX, _LANES_PX, _MAX_LANES_PX = 40, 80, 480, 1260
# Past the first number lanes are merged, past the second they have fewer columns.
_MAX_LANES, _FINE_LANES = 48, 12
_LABEL_GAP = 18


@dataclass(frozen=True)
class Device:
    """A device: its lanes in order (label, layers), and the merged union of all it did."""

    name: str
    lanes: list[tuple[str, list[Layer]]]
    busy: iv.Intervals


@dataclass(frozen=True)
class Lane:
    """One lane on the page: its foot and height in px, and what fills it, the first of `keys` lowest."""

    device: str
    label: str
    layers: list[Layer]
    keys: Sequence[Hashable]
    y: int
    height: int

    @property
    def middle(self) -> float:
        """Half way up."""
        return self.y + self.height / 2


def title(selection: Selection) -> str:
    """The verdict on what the figure shows."""
    return selection.finding


def draw(selection: Selection, on: Sheet) -> Drawing:
    """The timeline of a selection.

    The filled share of a lane is its busy share of the window, at any number of intervals; zero-length events have no
    ink. A selection without device time gives a figure that says so. Where the hosts' clocks are not aligned, each
    clock starts at its own first event, and no lane compares devices.
    """
    if selection.lacking or not selection.length_ps:
        return on.blank(selection.lacking or "The selected range has zero length.")
    events, length = selection.trace.events, selection.length_ps
    count = len(np.unique(_lane_codes(events)))
    devices = _devices(events, selection.unions.windows, merge=count > _MAX_LANES)
    shared, bins = _shared(devices) if selection.aligned else ([], [])
    lanes = _lanes(devices, shared, bins)
    colours = {kind: on.colours[kind] for kind in Kind} | coverage.bin_colours(on.colours, bins)
    busy = {device.name: f"{units.percent(iv.total(device.busy), length)} busy" for device in devices}
    if bins:
        shared_ps = iv.total(iv.union(*[layer.intervals for layer in shared if layer.keys[0] != bins[0]]))
        busy["overlap"] = f"{units.percent(shared_ps, length)} {'both' if len(bins) == 2 else '2 or more'}"

    names = {device: labels.cut(labels.plain(device), on.width / 6, _bold) for device in busy}
    label_px = ceil(max(labels.measure(lane.label, SMALL) for lane in lanes))
    left = MARGIN + ceil(max(map(_bold, names.values()))) + (_LABEL_GAP + label_px if label_px else 0) + GAP
    width = on.width - MARGIN - left - GAP - ceil(max(labels.measure(text, SMALL) for text in busy.values()))

    phases = bands(selection, width)
    # Past _FINE_LANES lanes the columns grow wider than a pixel, which bounds the size of an SVG.
    edges = coverage.pixel_edges((0, length), width * _FINE_LANES // max(len(lanes), _FINE_LANES))
    notes = [f"{count} lanes are merged into one per device."] if count > _MAX_LANES else []
    if not selection.aligned:
        notes.append("Host clocks are not aligned: the lanes of each clock start at its own first event.")
    lines = sheet.note_lines([*notes, *_notes(lanes, edges), *phases.note], on.room)
    lanes_px = lanes[0].y + lanes[0].height + lanes[0].height // 3
    axes_px = lanes_px + phases.height

    legend = sheet.legend(*_entries(lanes, colours, bins), on.room)
    page = on.page(legend.height + axes_px + AXIS_PX + NOTE_PX * len(lines))
    legend.draw(page)
    foot = page.top + legend.height + axes_px
    axes = page.axes((left, foot - axes_px, width, axes_px), (0, length), (0, axes_px))
    draw_axis(page, axes, selection)
    phases.draw(page, axes, lanes_px)
    for lane in lanes:
        _fill(page, axes, lane, edges, colours)
    size = min(SMALL, max(lanes[0].height / labels.DPI * 72, TINY))
    for y, label in labels.spaced([(lane.middle, lane.label) for lane in lanes], size):
        page.text(left - GAP, foot - y, label, size, ha="right", color=page.colours["grey"])
    for y, device in labels.spaced(_middles(lanes), size):
        page.text(MARGIN, foot - y, names[device], size, weight="bold")
        page.text(left + width + GAP, foot - y, busy[device], size)
    sheet.draw_notes(page, foot + AXIS_PX, lines)
    return page.drawing


def _bold(text: str) -> float:
    return labels.measure(text, SMALL, bold=True)


def _lane_codes(events: pd.DataFrame) -> NDArray[np.int64]:
    device, lane = (events[column].cat.codes.to_numpy(np.int64) for column in ("device", "lane"))
    return device << 32 | lane


def _devices(events: pd.DataFrame, windows: Mapping[str, iv.Intervals], merge: bool) -> list[Device]:
    """The devices of `events` in natural order, seen inside `windows` (by clock), which are laid end to end from 0.

    `merge` gives one lane per device. Lanes without any time in the windows are kept: that they are idle is what they
    show.
    """
    lane = _lane_codes(events) & (~0xFFFFFFFF if merge else -1)
    sets = _sets(lane, events)
    clocks = clock_of_hosts(events)
    hosts = _host_of_devices(events)
    lanes_of: dict[str, dict[str, dict[Hashable, iv.Intervals]]] = {}
    for code in np.unique(lane).tolist():
        device = str(events["device"].cat.categories[code >> 32])
        name = "" if merge else str(events["lane"].cat.categories[code & 0xFFFFFFFF])
        within = windows.get(clocks[hosts[code >> 32]], iv.EMPTY)
        kinds = {kind: coverage.laid_out(merged, within) for kind, merged in sets.get(code, {}).items()}
        lanes_of.setdefault(device, {})[name] = kinds
    devices = []
    # Copies of an unknown device stand last.
    for device in sorted(lanes_of, key=known_first):
        names = sorted(lanes_of[device], key=natural)
        lanes = [lanes_of[device][name] for name in names]
        busy = iv.union(*[merged for kinds in lanes for merged in kinds.values()])
        devices.append(
            Device(device, list(zip(labels.short_names(names), map(coverage.layers, lanes), strict=True)), busy)
        )
    return devices


def _host_of_devices(events: pd.DataFrame) -> dict[int, str]:
    """The host of each device code: a device has one."""
    device, host = (events[column].cat.codes.to_numpy(np.int64) for column in ("device", "host"))
    pairs = np.unique(device << 32 | host).tolist()
    return {pair >> 32: str(events["host"].cat.categories[pair & 0xFFFFFFFF]) for pair in pairs}


def _sets(lane: NDArray[np.int64], events: pd.DataFrame) -> dict[int, dict[Hashable, iv.Intervals]]:
    """The merged intervals of each lane code and kind, kinds in the order of KIND_DTYPE."""
    rows = iv.intervals(events["start_ps"], events["end_ps"])
    kinds = events["kind"].cat.codes.to_numpy(np.int64)
    lasting = np.flatnonzero(rows[:, 1] > rows[:, 0])
    order = lasting[np.lexsort((kinds[lasting], lane[lasting]))]
    rows, lane, kinds = rows[order], lane[order], kinds[order]
    changed = (np.diff(lane) != 0) | (np.diff(kinds) != 0)
    firsts = np.flatnonzero(np.append(True, changed)[: len(order)])
    sets: dict[int, dict[Hashable, iv.Intervals]] = {}
    for first, last in itertools.pairwise([*firsts, len(order)]):
        sets.setdefault(int(lane[first]), {})[Kind(KIND_DTYPE.categories[kinds[first]])] = iv.union(rows[first:last])
    return sets


def _shared(devices: Sequence[Device]) -> tuple[list[Layer], list[Bin]]:
    """The lane that shows how many devices are busy at once, and its bins of that number, fewest first.

    Copies of an unknown device do not count, and fewer than two devices share nothing: both lists are empty.
    """
    busy = [device.busy for device in devices if is_known(device.name)]
    bins = coverage.bins(len(busy))
    return coverage.levels(busy, bins) if bins else [], bins


def _lanes(devices: Sequence[Device], shared: Sequence[Layer], bins: Sequence[Bin]) -> list[Lane]:
    """The lanes from the top down, the one that devices share last; the last stands near the foot of the axes."""
    parts: list[tuple[str, str, Sequence[Layer], Sequence[Hashable]]] = [
        (device.name, label, layers, tuple(Kind)) for device in devices for label, layers in device.lanes
    ]
    if bins:
        parts.append(("overlap", "devices at once", shared, tuple(reversed(bins))))
    pitch = min(max(_LANES_PX // len(parts), _MIN_PITCH_PX), _MAX_PITCH_PX, max(_MAX_LANES_PX // len(parts), 2))
    lanes: list[Lane] = []
    y, below = pitch // 4, parts[-1][0]
    for device, label, layers, keys in reversed(parts):
        y += pitch // 3 if device != below else 0
        lanes.append(Lane(device, label, list(layers), keys, y, max(pitch * 3 // 4, 1)))
        y, below = y + pitch, device
    return lanes[::-1]


def _middles(lanes: Sequence[Lane]) -> list[tuple[float, str]]:
    """The (y, device) half way up the lanes of each device, from the top."""
    devices = dict.fromkeys(lane.device for lane in lanes)
    middles = {device: [lane.middle for lane in lanes if lane.device == device] for device in devices}
    return [((ys[0] + ys[-1]) / 2, device) for device, ys in middles.items()]


def _notes(lanes: Sequence[Lane], edges: NDArray[np.int64]) -> list[str]:
    """What a reader of the figure must know to read it right."""
    notes = []
    if any(coverage.is_crowded(lane.layers, edges) for lane in lanes):
        column_ps = max(int(edges[1] - edges[0]), 1)
        notes.append(
            f"Where events outnumber pixels, a lane is filled to the busy share of each pixel column "
            f"({units.time(column_ps)}); full height is 100 % busy."
        )
    if any(len(layer.keys) > 1 for lane in lanes for layer in lane.layers):
        notes.append("Kinds that run concurrently in one lane share its height.")
    return notes


def _fill(page: Page, axes: Axes, lane: Lane, edges: NDArray[np.int64], colours: Mapping[Hashable, str]) -> None:
    """A faint track for the lane, and on it one shape for each key."""
    track = Rectangle((0, lane.y), axes.get_xlim()[1], lane.height)
    ink = page.colours["track"]
    axes.add_artist(sheet.filled(track, ink, alpha=0.05, zorder=2, label=f"{lane.device} | {lane.label}"))
    parts = []
    for key, shares in coverage.boxes(lane.layers, lane.keys, edges).items():
        x0, x1, low, high = shares.T
        boxes = np.stack([x0, x1, lane.y + lane.height * low, lane.y + lane.height * high], axis=1)
        parts.append((boxes, colours[key]))
    # The first key stands lowest, and is painted last.
    behind = sheet.below if coverage.is_crowded(lane.layers, edges) else sheet.between
    sheet.fill_all(axes, parts[::-1], behind)


def _entries(
    lanes: Sequence[Lane], colours: Mapping[Hashable, str], bins: Sequence[Bin]
) -> tuple[list[sheet.Entry], list[sheet.Entry]]:
    """A square for each kind that occurs on the left, one for each number of busy devices on the right."""
    occurring = {key for lane in lanes for layer in lane.layers if len(layer.intervals) for key in layer.keys}
    devices = bins[-1][1] if bins else 1
    kinds: list[sheet.Entry] = [(kind.value, [colours[kind]]) for kind in Kind if kind in occurring]
    return kinds, [(coverage.bin_label(bin_, devices), [colours[bin_]]) for bin_ in bins if bin_ in occurring]
