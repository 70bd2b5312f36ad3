"""The memory in use on a device as a lane below its others: from nothing to its peak, which a line marks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from tracekit import units
from tracekit.analysis.memory import memory, steps_of_devices
from tracekit.intervals import Intervals
from tracekit.report.figures import drawing
from tracekit.report.figures.drawing import Page
from tracekit.report.figures.selection import Selection

NOTE = "Memory in use is drawn from 0 to the peak of its lane, which a line marks"
_MARK_PX = 2


@dataclass(frozen=True)
class MemoryLane:
    """The n > 0 steps of the bytes in use on a device inside windows, which are laid end to end from 0: step i is
    [`start[i]`, `end[i]`) in ps, maybe empty, and as high as `in_use[i]`, or higher where `at_least` so much is."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    in_use: NDArray[np.int64]
    at_least: bool = False

    @property
    def label(self) -> str:
        """What stands beside the lane: the peak, which is as high as the lane."""
        return f"memory, peak {'≥ ' if self.at_least else ''}{units.size(int(self.in_use.max()))}"

    def boxes(self, edges: NDArray[np.int64]) -> NDArray[np.float64]:
        """Boxes (x0, x1, y0, y1) below the steps, x in ps and y a share of the peak; where steps outnumber the pixel
        columns that `edges` cut, the highest in each column."""
        start, end, in_use = self.start, self.end, self.in_use
        if self.is_crowded(edges):
            start, end = edges[:-1], edges[1:]
            in_use = self.in_use[np.maximum(np.searchsorted(self.start, start, side="right") - 1, 0)].copy()
            column = np.clip(np.searchsorted(edges, self.start, side="right") - 1, 0, len(in_use) - 1)
            np.maximum.at(in_use, column, self.in_use)
        seen = end > start
        foot = np.zeros(int(seen.sum()))
        return np.column_stack([start[seen], end[seen], foot, in_use[seen] / max(int(self.in_use.max()), 1)])

    def is_crowded(self, edges: NDArray[np.int64]) -> bool:
        """Whether there are more steps than pixel columns."""
        return len(self.start) > len(edges)


def memory_lanes(selection: Selection) -> dict[str, MemoryLane]:
    """The lane of each device that has rows and allocation events, by device."""
    whole = selection.timeline.whole
    result = memory(whole)
    at_least = dict(zip(result.by_device["device"], result.by_device["at_least"], strict=True))
    clocks, lanes = dict(zip(whole.rows.devices, whole.rows.clocks, strict=True)), {}
    for name, steps in steps_of_devices(result).items():
        windows = selection.unions.windows.get(clocks.get(name, "none"))
        if windows is not None and len(windows):
            lanes[name] = replace(_laid_out(*steps, windows), at_least=bool(at_least[name]))
    return lanes


def draw(page: Page, axes: Axes, lane: MemoryLane, place: tuple[int, int], edges: NDArray[np.int64]) -> None:
    """Fill the lane at `place`, its foot and height in px, and mark its peak."""
    foot, height = place
    boxes = lane.boxes(edges)
    boxes[:, 2:] = foot + height * boxes[:, 2:]
    drawing.fill(axes, boxes, page.colours["line"])
    peak, half = int(lane.start[lane.in_use.argmax()]), _MARK_PX / 2 * edges[-1] / max(len(edges) - 1, 1)
    drawing.fill(axes, np.array([[peak - half, peak + half, foot, foot + height]]), page.colours["accent"], zorder=4)


def notes(lanes: Sequence[MemoryLane], edges: NDArray[np.int64]) -> list[str]:
    """How to read the lanes, if there are any."""
    crowded = any(lane.is_crowded(edges) for lane in lanes)
    return [f"{NOTE}{'; a pixel column shows its highest value' if crowded else ''}."] if lanes else []


def _laid_out(times: NDArray[np.int64], in_use: NDArray[np.int64], windows: Intervals) -> MemoryLane:
    """The steps inside merged `windows`, which are laid end to end."""
    parts, begin = [], 0
    for low, high in windows.tolist():
        first = max(int(np.searchsorted(times, low, side="right")) - 1, 0)
        last = max(int(np.searchsorted(times, high, side="left")), first + 1)
        start = np.clip(times[first:last], low, high) - low + begin
        begin += high - low
        parts.append((start, np.append(start[1:], begin), in_use[first:last]))
    starts, ends, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    return MemoryLane(starts, ends, values)
