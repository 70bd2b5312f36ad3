"""The timeline: one lane per stream or CPU device at true widths, and one lane for the time that devices share."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import units
from tracekit.devices import natural, type_of
from tracekit.report.figures import drawing, memory_lane
from tracekit.report.figures.concurrency_area import Bin, bin_colours, bin_label, bins_of
from tracekit.report.figures.drawing import AXIS_PX, GAP, LINE_PX, SMALL, Boxes, Drawing, Entry, Page, Sheet, bold_px
from tracekit.report.figures.selection import Selection
from tracekit.report.figures.time_axis import bands, draw_axis, laid_out
from tracekit.report.part import timeline_title
from tracekit.timeline.rows import Rows
from tracekit.vocabulary.kinds import Kind

# Few lanes are high, many are low; past _MAX_LANES_PX they share what there is.
_MIN_PITCH_PX, _MAX_PITCH_PX, _LANES_PX, _MAX_LANES_PX = 40, 80, 480, 1260
# Up to _MAX_LANES_PX lanes together are as high as this share of the page's width.
_LANES_RATIO = 0.7
# Past the first number lanes are merged, in a column of a paper past the second, and past the third they have fewer
# columns.
_MAX_LANES, _MAX_COLUMN_LANES, _FINE_LANES = 48, 20, 12
# As much of the page the labels may take; where it is not enough, those of devices stand above their lanes.
_LABELS_RATIO, _LANE_LABELS_RATIO = 0.4, 0.24
_LABEL_GAP = 18
_SHARED, _BUSY = "devices at once", "busy"


@dataclass(frozen=True)
class Layer:
    """Merged intervals in which the same keys (kinds, or one bin of busy devices) share the lane's height equally."""

    intervals: iv.Intervals
    keys: tuple[Hashable, ...]


@dataclass(frozen=True)
class Device:
    """A device: its lanes in order (label, layers), and the merged union of all it did.

    It is not `placed` where the trace does not say which device it is.
    """

    name: str
    placed: bool
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


def caption(selection: Selection) -> str:
    """What it shows, and how much of the trace."""
    lengths = [*map(iv.total, selection.unions.windows.values())] or [0]
    return timeline_title(lengths, selection.where, partial=bool(selection.partial))


def title(selection: Selection) -> str:
    """The verdict on what the figure shows; none where it says why there is nothing to show."""
    return "" if selection.lacking else selection.finding


def draw(selection: Selection, on: Sheet) -> Drawing:
    """The timeline of a selection.

    The filled share of a lane is its busy share of the window, at any number of intervals; zero-length events have no
    ink. A selection without device time gives a figure that says so. Where the hosts' clocks are not aligned, each
    clock starts at its own first event, and no lane compares devices.
    """
    if selection.lacking or not selection.length_ps:
        return on.blank(selection.lacking or "The selected range has zero length.")
    rows, length = selection.timeline.whole.rows, selection.length_ps
    # The lanes of a CPU device are threads of a pool, which say nothing of what ran beside what.
    merged = np.array([type_of(name) == "cpu" and not selection.threads for name in rows.devices], bool)
    count = _count(rows, merged)
    is_full = count > (_MAX_LANES if on.is_wide else _MAX_COLUMN_LANES)
    devices = _devices(rows, selection.unions.windows, merged | is_full)
    memory = {} if is_full else memory_lane.memory_lanes(selection)
    # An unknown device is idle nowhere: it has lanes only where it did something.
    devices = [_with_memory(device, memory) for device in devices if device.placed or len(device.busy)] or devices
    # Fewer than two devices share nothing, and copies of an unknown one do not count.
    placed = [device.busy for device in devices if device.placed]
    bins = bins_of(len(placed)) if selection.aligned else []
    shared = levels(placed, bins) if bins else []
    colours = {kind: on.colours[kind] for kind in Kind} | bin_colours(on.colours, bins)
    busy = {device.name: (units.percent(iv.total(device.busy), length), "busy") for device in devices}
    if bins:
        shared_ps = iv.total(iv.union(*[layer.intervals for layer in shared if layer.keys[0] != bins[0]]))
        busy["overlap"] = units.percent(shared_ps, length), "both" if len(bins) == 2 else "2 or more"
    if selection.partial:
        busy = dict.fromkeys(busy, ("", ""))
    size = drawing.size_of(_height(_pitch(sum(len(device.lanes) for device in devices) + bool(bins), on)))
    bold = partial(bold_px, size=size)
    names = {device: drawing.cut(drawing.plain(device), on.name_px, bold) for device in busy}
    labels, shares, place = _labels(devices, shared, names, busy, on, size)
    lanes = _lanes(devices, shared, bins, on, place.above)
    x, width = place.x, place.width

    phases = bands(selection, width)
    # Past _FINE_LANES lanes the columns grow wider than a pixel, which bounds the size of an SVG.
    edges = iv.even_edges((0, length), width * _FINE_LANES // max(len(lanes), _FINE_LANES))
    # Lanes of one name look alike.
    alike = {lane.label for lane in lanes if is_crowded(lane.layers, edges)}
    crowded = [lane.label in alike for lane in lanes]
    notes = [f"{count} lanes are merged into one per device."] if is_full and count > len(devices) else []
    if not selection.aligned:
        notes.append("Host clocks are not aligned: the lanes of each clock start at its own first event.")
    notes += selection.unplaced("count in no overlap") if bins and not all(device.placed for device in devices) else []
    notes += [*_notes(lanes, any(crowded), edges), *memory_lane.notes(list(memory.values()), edges), *phases.note]
    lanes_px = lanes[0].y + lanes[0].height + LINE_PX
    axes_px = lanes_px + phases.height

    page = on.page(axes_px + AXIS_PX, *_entries(lanes, colours, bins), notes=notes)
    axes = page.axes((x, page.top, width, axes_px), (0, length), (0, axes_px))
    draw_axis(page, axes, selection)
    phases.draw(page, axes, lanes_px)
    for lane, stacked in zip(lanes, crowded, strict=True):
        _fill(page, axes, lane, edges, colours, stacked)
        if lane.device in memory and lane.label == memory[lane.device].label:
            memory_lane.draw(page, axes, memory[lane.device], (lane.y, lane.height), edges)
    foot = page.top + axes_px
    grey: dict[str, Any] = {"color": page.colours["grey"]}
    for y, label in drawing.spaced([(lane.middle, labels.get(lane.label, "")) for lane in lanes], size):
        page.text(x - GAP, foot - y, label, size, ha="right", **grey)
    if place.above:
        for y, device in _tops(lanes):
            page.text(on.margin, foot - y - LINE_PX / 2, names[device], SMALL, weight="bold")
            page.text(x + width, foot - y - LINE_PX / 2, shares[device], SMALL, ha="right")
    else:
        heads = [(on.margin, "device", "left")]
        heads += [(x - GAP, "lane", "right")] if any(labels.values()) else []
        heads += [(x + width + GAP, _BUSY, "left")] if not on.is_wide else []
        for at, head, side in heads:
            page.text(at, foot - lanes_px + LINE_PX / 2, head, SMALL, ha=side, **grey)
        for y, device in drawing.spaced(_middles(lanes), size):
            page.text(on.margin, foot - y, names[device], size, weight="bold")
            page.text(x + width + GAP, foot - y, shares[device], size)
    return page.finish()


def _lanes_of_rows(rows: Rows, merged: NDArray[np.bool_]) -> tuple[NDArray[np.int64], list[str]]:
    """The lane of each row as a place in labels, and these; of a device that is `merged` the one without a name."""
    labels = rows.labels("lane")
    return np.where(merged[rows.device], len(labels), rows.codes("lane")), [*labels, ""]


def _count(rows: Rows, merged: NDArray[np.bool_]) -> int:
    """How many lanes there are."""
    lane, labels = _lanes_of_rows(rows, merged)
    return int(np.count_nonzero(np.bincount(rows.device * len(labels) + lane)))


def _devices(rows: Rows, windows: Mapping[str, iv.Intervals], merged: NDArray[np.bool_]) -> list[Device]:
    """The devices of `rows` in natural order, seen inside `windows` (by clock), which are laid end to end from 0.

    Those that are `merged` have one lane. Lanes without any time in the windows are kept: that they are idle is what
    they show.
    """
    lane, labels = _lanes_of_rows(rows, merged)
    kinds = list(Kind)
    devices = []
    # Copies of an unknown device stand last.
    for number in sorted(range(len(rows.devices)), key=lambda number: not rows.placed[number]):
        at, within = rows.of(number), windows.get(rows.clocks[number], iv.EMPTY)
        spans = iv.intervals(rows.start[at], rows.end[at])
        code = lane[at] * len(kinds) + rows.kind[at]
        sets: dict[str, dict[Hashable, iv.Intervals]] = {}
        for value in np.flatnonzero(np.bincount(code)).tolist():
            name, kind = labels[value // len(kinds)], kinds[value % len(kinds)]
            sets.setdefault(name, {})[kind] = laid_out(iv.union(spans[code == value]), within)
        names = sorted(sets, key=natural)
        lanes = [(label, layers(sets[name])) for name, label in zip(names, drawing.short_names(names), strict=True)]
        busy = iv.union(*[merged for by_kind in sets.values() for merged in by_kind.values()])
        devices.append(Device(rows.devices[number], rows.placed[number], lanes, busy))
    return devices


def _with_memory(device: Device, memory: Mapping[str, memory_lane.MemoryLane]) -> Device:
    """The device, with the lane of its memory last, where it has one."""
    own = memory.get(device.name)
    return replace(device, lanes=[*device.lanes, (own.label, [])]) if own else device


class Place(NamedTuple):
    """Where lanes stand: their left end and width in px; and whether devices' names stand above their lanes."""

    x: int
    width: int
    above: bool


def _labels(
    devices: Sequence[Device],
    shared: Sequence[Layer],
    names: Mapping[str, str],
    busy: Mapping[str, tuple[str, str]],
    on: Sheet,
    size: float,
) -> tuple[dict[str, str], dict[str, str], Place]:
    """What is written beside the lanes by their label and by their device, and where that leaves room for them; text
    beside a lane has the font `size`.

    Where labels beside the lanes would take more than _LABELS_RATIO of the page, what stands above them takes from the
    height of lanes instead.
    """
    labels = [label for device in devices for label, _ in device.lanes]
    if shared:
        labels.append(_SHARED if any(labels) else "")
    bold = partial(bold_px, size=size)
    own_px = ceil(max(*map(bold, names.values()), drawing.measure("device", SMALL)))
    label_px = ceil(max(drawing.measure(label, size) for label in labels))
    x = on.margin + own_px + (_LABEL_GAP + label_px if label_px else 0) + GAP
    shares = {device: " ".join(words).strip() for device, words in busy.items()}
    beside = shares if on.is_wide else {device: share for device, (share, _) in busy.items()}
    shares_px = ceil(max(drawing.measure(_BUSY, SMALL), *(drawing.measure(text, size) for text in beside.values())))
    width = on.width - on.margin - x - GAP - shares_px
    if not label_px or width >= on.width * (1 - _LABELS_RATIO):
        return dict(zip(labels, labels, strict=True)), beside, Place(x, width, above=False)
    most = on.width * _LANE_LABELS_RATIO
    measure = partial(drawing.measure, size=SMALL)
    short = {label: _shortened(label, most) for label in labels}
    x = on.margin + ceil(max(map(measure, short.values()))) + GAP
    return short, shares, Place(x, on.width - 2 * on.margin - x, above=True)


def _shortened(label: str, width: float) -> str:
    """`label` in at most `width` px, without its middle where that is needed: lanes differ at their ends."""
    shorter = (units.short(label, length) for length in range(len(label), 1, -1))
    return next((text for text in shorter if drawing.measure(text, SMALL) <= width), "")


def _lanes(
    devices: Sequence[Device], shared: Sequence[Layer], bins: Sequence[Bin], on: Sheet, above: bool
) -> list[Lane]:
    """The lanes from the top down, the one that devices share last; the last stands near the foot of the axes.

    `above` each device's lanes there is room for a line.
    """
    parts: list[tuple[str, str, Sequence[Layer], Sequence[Hashable]]] = [
        (device.name, label, layers, tuple(Kind)) for device in devices for label, layers in device.lanes
    ]
    if bins:
        parts.append(("overlap", _SHARED, shared, tuple(reversed(bins))))
    pitch = _pitch(len(parts), on)
    lanes: list[Lane] = []
    y, below = pitch // 4, parts[-1][0]
    for device, label, layers, keys in reversed(parts):
        y += (LINE_PX if above else pitch // 3) if device != below else 0
        lanes.append(Lane(device, label, list(layers), keys, y, _height(pitch)))
        y, below = y + pitch, device
    return lanes[::-1]


def _pitch(lanes: int, on: Sheet) -> int:
    """From the foot of a lane to that of the next in px, of so many `lanes`."""
    most = min(max(round(on.width * _LANES_RATIO), _LANES_PX), _MAX_LANES_PX)
    return min(max(_LANES_PX // lanes, _MIN_PITCH_PX), _MAX_PITCH_PX, max(most // lanes, 2))


def _height(pitch: int) -> int:
    """The height of a lane in px."""
    return max(pitch * 3 // 4, 1)


def _middles(lanes: Sequence[Lane]) -> list[tuple[float, str]]:
    """The (y, device) half way up the lanes of each device, from the top."""
    devices = dict.fromkeys(lane.device for lane in lanes)
    middles = {device: [lane.middle for lane in lanes if lane.device == device] for device in devices}
    return [((ys[0] + ys[-1]) / 2, device) for device, ys in middles.items()]


def _tops(lanes: Sequence[Lane]) -> list[tuple[float, str]]:
    """The (y, device) at the top of the lanes of each device, from the top."""
    tops = {lane.device: float(lane.y + lane.height) for lane in lanes[::-1]}
    return [(y, device) for device, y in tops.items()][::-1]


def _notes(lanes: Sequence[Lane], crowded: bool, edges: NDArray[np.int64]) -> list[str]:
    """What a reader of the figure must know to read it right."""
    notes = []
    if crowded:
        column_ps = max(int(edges[1] - edges[0]), 1)
        notes.append(
            f"Where events outnumber pixels, a lane is filled to the busy share of each pixel column "
            f"({units.time(column_ps)}); full height is 100 % busy."
        )
    if any(len(layer.keys) > 1 for lane in lanes for layer in lane.layers):
        notes.append("Kinds that run concurrently in one lane share its height.")
    return notes


def _fill(
    page: Page, axes: Axes, lane: Lane, edges: NDArray[np.int64], colours: Mapping[Hashable, str], crowded: bool
) -> None:
    """A faint track for the lane, and on it one shape for each key."""
    track = Rectangle((0, lane.y), axes.get_xlim()[1], lane.height)
    ink = page.colours["track"]
    axes.add_artist(drawing.filled(track, ink, alpha=0.05, zorder=2, label=f"{lane.device} | {lane.label}"))
    parts = []
    for key, shares in boxes(lane.layers, lane.keys, edges, crowded).items():
        x0, x1, low, high = shares.T
        parts.append(
            (np.stack([x0, x1, lane.y + lane.height * low, lane.y + lane.height * high], axis=1), colours[key])
        )
    # The first key stands lowest, and is painted last.
    drawing.fill_all(axes, parts[::-1], drawing.below if crowded else drawing.between)


def _entries(
    lanes: Sequence[Lane], colours: Mapping[Hashable, str], bins: Sequence[Bin]
) -> tuple[list[Entry], list[Entry]]:
    """A square for each kind that occurs on the left, one for each number of busy devices on the right."""
    occurring = {key for lane in lanes for layer in lane.layers if len(layer.intervals) for key in layer.keys}
    devices = bins[-1][1] if bins else 1
    kinds: list[Entry] = [(kind.value, [colours[kind]]) for kind in Kind if kind in occurring]
    return kinds, [(bin_label(bin_, devices), [colours[bin_]]) for bin_ in bins if bin_ in occurring]


def layers(sets: Mapping[Hashable, iv.Intervals]) -> list[Layer]:
    """Disjoint layers of up to 7 merged sets: one for each combination of keys that ever hold the same point."""
    keys = [key for key, merged in sets.items() if len(merged)]
    edges, code = iv.cells(*[sets[key] for key in keys])
    cells = iv.intervals(edges[:-1], edges[1:])
    return [
        Layer(cells[code == value], tuple(key for i, key in enumerate(keys) if value >> i & 1))
        for value in np.unique(code).tolist()
        if value
    ]


def levels(sets: Sequence[iv.Intervals], bins: Sequence[Bin]) -> list[Layer]:
    """One layer per (low, high) of `bins`: the time in which low <= number of sets that hold it <= high."""
    edges, count = iv.depth(*sets)
    cells, count = iv.intervals(edges[:-1], edges[1:]), count[:-1]
    return [Layer(iv.union(cells[(count >= low) & (count <= high)]), ((low, high),)) for low, high in bins]


def is_crowded(lane: Sequence[Layer], edges: NDArray[np.int64]) -> bool:
    """Whether the lane's intervals outnumber the pixel columns they stand in, so that single ones cannot be seen."""
    filled = sum((_busy_in(layer, edges) for layer in lane), np.zeros(len(edges) - 1, np.int64))
    return sum(len(layer.intervals) for layer in lane) > int(np.count_nonzero(filled))


def boxes(lane: Sequence[Layer], keys: Sequence[Hashable], edges: NDArray[np.int64], crowded: bool) -> Boxes:
    """What to fill for each of `keys`; x in ps from the first edge, y a share of the lane's height.

    The filled area is the true share of time. A crowded lane gets one stack of boxes per pixel column, the first key
    lowest, whose heights are the shares of that column; any other lane gets its intervals as they are, at full height
    (keys that run at the same time divide it). The layers must be disjoint and inside the window that `edges` cut.
    """
    if crowded:
        widths = np.maximum(np.diff(edges), 1)
        shares = {key: np.zeros(len(widths)) for key in keys}
        for layer in lane:
            for key in layer.keys:
                shares[key] += _busy_in(layer, edges) / widths / len(layer.keys)
        return drawing.stacks(shares, edges)
    parts: dict[Hashable, list[NDArray[np.float64]]] = {key: [np.empty((0, 4))] for key in keys}
    for layer in lane:
        for i, key in enumerate(layer.keys):
            height = np.broadcast_to([i / len(layer.keys), (i + 1) / len(layer.keys)], (len(layer.intervals), 2))
            parts[key].append(np.column_stack([layer.intervals - edges[0], height]))
    return {key: np.concatenate(of_key) for key, of_key in parts.items()}


def _busy_in(layer: Layer, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """How much of each pixel column the layer holds: ps, exact, shape (len(edges) - 1,)."""
    return iv.within(layer.intervals, iv.intervals(edges[:-1], edges[1:]))
