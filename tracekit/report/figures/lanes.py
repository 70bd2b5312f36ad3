"""Lanes: rows of a figure that are filled to their busy share, one under the other, and what is written beside them."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import units
from tracekit.columns import rising
from tracekit.devices import natural
from tracekit.report.figures import drawing
from tracekit.report.figures.concurrency_area import Bin, bin_label
from tracekit.report.figures.drawing import GAP, LINE_PX, SMALL, Boxes, Entry, Page, Sheet, bold_px
from tracekit.report.figures.time_axis import laid_out
from tracekit.timeline.rows import Rows
from tracekit.vocabulary.kinds import Kind

# Few lanes are high, many are low; past _MAX_LANES_PX they share what there is.
_MIN_PITCH_PX, _MAX_PITCH_PX, _LANES_PX, _MAX_LANES_PX = 40, 80, 480, 1260
# Up to _MAX_LANES_PX lanes together are as high as this share of the page's width.
_LANES_RATIO = 0.7
# As much of the page the labels may take; where it is not enough, those of devices stand above their lanes.
_LABELS_RATIO, _LANE_LABELS_RATIO = 0.4, 0.24
_LABEL_GAP = 18
_SHARED = "devices at once"


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


def _lanes_of(rows: Rows, device: int, merged: NDArray[np.bool_]) -> tuple[NDArray[np.int64], list[str]]:
    """The lane of each row of a device as a place in labels, and these; of one that is `merged` that without a name."""
    labels, at = rows.labels("lane"), rows.of(device)
    lane = np.full(at.stop - at.start, len(labels)) if merged[device] else rows.codes_at("lane", at)
    return lane, [*labels, ""]


def count_lanes(rows: Rows, merged: NDArray[np.bool_]) -> int:
    """How many lanes there are."""
    return sum(len(rising(_lanes_of(rows, device, merged)[0])) for device in range(len(rows.devices)))


def devices_in(rows: Rows, windows: Mapping[str, iv.Intervals], merged: NDArray[np.bool_]) -> list[Device]:
    """The devices of `rows` in natural order, seen inside `windows` (by clock), which are laid end to end from 0.

    Those that are `merged` have one lane. Lanes without any time in the windows are kept: that they are idle is what
    they show.
    """
    kinds = list(Kind)
    devices = []
    # Copies of an unknown device stand last.
    for number in sorted(range(len(rows.devices)), key=lambda number: not rows.placed[number]):
        at, within = rows.of(number), windows.get(rows.clocks[number], iv.EMPTY)
        spans = iv.intervals(rows.start[at], rows.end[at])
        lane, labels = _lanes_of(rows, number, merged)
        code = lane * len(kinds) + rows.kind[at]
        sets: dict[str, dict[Hashable, iv.Intervals]] = {}
        for value in np.flatnonzero(np.bincount(code)).tolist():
            name, kind = labels[value // len(kinds)], kinds[value % len(kinds)]
            sets.setdefault(name, {})[kind] = laid_out(iv.union(spans[code == value]), within)
        names = sorted(sets, key=natural)
        lanes = [(label, layers(sets[name])) for name, label in zip(names, drawing.short_names(names), strict=True)]
        busy = iv.union(*[merged for by_kind in sets.values() for merged in by_kind.values()])
        devices.append(Device(rows.devices[number], rows.placed[number], lanes, busy))
    return devices


class Place(NamedTuple):
    """Where lanes stand: their left end and width in px; and whether devices' names stand above their lanes."""

    x: int
    width: int
    above: bool


class Heads(NamedTuple):
    """What the columns beside the lanes are called."""

    device: str = "device"
    lane: str = "lane"
    share: str = "busy"


_HEADS = Heads()


@dataclass(frozen=True)
class Layout:
    """The lanes of a page from the top down, and by device and label what is written beside them, in font `size`."""

    lanes: list[Lane]
    names: Mapping[str, str]
    labels: Mapping[str, str]
    shares: Mapping[str, str]
    place: Place
    heads: Heads
    size: float

    @property
    def height(self) -> int:
        """The px of the lanes and of the heads above them."""
        return self.lanes[0].y + self.lanes[0].height + LINE_PX

    def write(self, page: Page, foot: int, on: Sheet) -> None:
        """Write beside the lanes, whose axes end at `foot` px from the top of the page."""
        x, width, above = self.place
        grey: dict[str, Any] = {"color": page.colours["grey"]}
        for y, label in drawing.spaced(
            [(lane.middle, self.labels.get(lane.label, "")) for lane in self.lanes], self.size
        ):
            page.text(x - GAP, foot - y, label, self.size, ha="right", **grey)
        if above:
            for y, device in _tops(self.lanes):
                page.text(on.margin, foot - y - LINE_PX / 2, self.names[device], SMALL, weight="bold")
                page.text(x + width, foot - y - LINE_PX / 2, self.shares[device], SMALL, ha="right")
            return
        heads = [(on.margin, self.heads.device, "left")]
        heads += [(x - GAP, self.heads.lane, "right")] if any(self.labels.values()) else []
        heads += [(x + width + GAP, self.heads.share, "left")] if not on.is_wide else []
        for at, head, side in heads:
            page.text(at, foot - self.height + LINE_PX / 2, head, SMALL, ha=side, **grey)
        for y, device in drawing.spaced(_middles(self.lanes), self.size):
            page.text(on.margin, foot - y, self.names[device], self.size, weight="bold")
            page.text(x + width + GAP, foot - y, self.shares[device], self.size)


def layout(
    devices: Sequence[Device],
    shares: Mapping[str, tuple[str, str]],
    on: Sheet,
    *,
    shared: Sequence[Layer] = (),
    bins: Sequence[Bin] = (),
    heads: Heads = _HEADS,
) -> Layout:
    """Where the lanes of `devices` go, with a lane for what they share last, if there are `bins`.

    `shares` has by device what stands at its right: a figure, and its unit or name where there is room.
    """
    size = drawing.size_of(_height(_pitch(sum(len(device.lanes) for device in devices) + bool(bins), on)))
    names = {name: drawing.cut(drawing.plain(name), on.name_px, partial(bold_px, size=size)) for name in shares}
    labels, beside, place = _labels(devices, shared, names, shares, heads, on, size)
    return Layout(_lanes(devices, shared, bins, on, place.above), names, labels, beside, place, heads, size)


def _labels(
    devices: Sequence[Device],
    shared: Sequence[Layer],
    names: Mapping[str, str],
    busy: Mapping[str, tuple[str, str]],
    heads: Heads,
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
    own_px = ceil(max(*map(bold, names.values()), drawing.measure(heads.device, SMALL)))
    label_px = ceil(max(drawing.measure(label, size) for label in labels))
    x = on.margin + own_px + (_LABEL_GAP + label_px if label_px else 0) + GAP
    shares = {device: " ".join(words).strip() for device, words in busy.items()}
    beside = shares if on.is_wide else {device: share for device, (share, _) in busy.items()}
    shares_px = ceil(
        max(drawing.measure(heads.share, SMALL), *(drawing.measure(text, size) for text in beside.values()))
    )
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


def notes_on(lanes: Sequence[Lane], crowded: bool, edges: NDArray[np.int64]) -> list[str]:
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


def fill(
    page: Page,
    axes: Axes,
    lane: Lane,
    edges: NDArray[np.int64],
    colours: Mapping[Hashable, str],
    crowded: bool,
    length_ps: int,
) -> None:
    """A faint track for the lane, `length_ps` long, and on it one shape for each key."""
    track = Rectangle((0, lane.y), length_ps, lane.height)
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


def entries(
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
    if len(keys) == 1:
        return [Layer(sets[keys[0]], (keys[0],))]
    edges, code = iv.cells(*[sets[key] for key in keys])
    return [
        Layer(iv.of_cells(edges, code == value), tuple(key for i, key in enumerate(keys) if value >> i & 1))
        for value in np.unique(code).tolist()
        if value
    ]


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
