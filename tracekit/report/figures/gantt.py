"""The timeline: one lane per stream or CPU device at true widths, and one lane for the time that devices share."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tracekit import intervals as iv
from tracekit import units
from tracekit.devices import type_of
from tracekit.report.figures import memory_lane
from tracekit.report.figures.concurrency_area import Bin, bin_colours, bins_of
from tracekit.report.figures.drawing import AXIS_PX, Drawing, Sheet
from tracekit.report.figures.lanes import (
    Device,
    Layer,
    count_lanes,
    devices_in,
    entries,
    fill,
    is_crowded,
    layout,
    notes_on,
)
from tracekit.report.figures.selection import Selection
from tracekit.report.figures.time_axis import bands, draw_axis
from tracekit.report.part import timeline_title
from tracekit.vocabulary.kinds import Kind

# Past the first number lanes are merged, in a column of a paper past the second, and past the third they have fewer
# columns.
_MAX_LANES, _MAX_COLUMN_LANES, _FINE_LANES = 48, 20, 12


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
    lacking = selection.lacking or selection.timeline.left_out
    if lacking or not selection.length_ps:
        return on.blank(lacking or "The selected range has zero length.")
    drawn, rows, length = selection.drawn, selection.timeline.whole.rows, selection.length_ps
    if drawn:
        rows = selection.timeline.narrowed(None, drawn).whole.rows
    # The lanes of a CPU device are threads of a pool, which say nothing of what ran beside what.
    merged = np.array([type_of(name) == "cpu" and not selection.threads for name in rows.devices], bool)
    count = count_lanes(rows, merged)
    is_full = count > (_MAX_LANES if on.is_wide else _MAX_COLUMN_LANES)
    devices = devices_in(rows, selection.unions.windows, merged | is_full)
    memory = {} if is_full else memory_lane.memory_lanes(selection)
    # An unknown device is idle nowhere: it has lanes only where it did something.
    devices = [_with_memory(device, memory) for device in devices if device.placed or len(device.busy)] or devices
    # Fewer than two devices share nothing, and copies of an unknown one do not count.
    placed = [device.busy for device in devices if device.placed]
    bins = bins_of(len(placed)) if selection.aligned and not drawn else []
    shared = levels(placed, bins) if bins else []
    colours = {kind: on.colours[kind] for kind in Kind} | bin_colours(on.colours, bins)
    busy = {device.name: (units.percent(iv.total(device.busy), length), "busy") for device in devices}
    if bins:
        shared_ps = iv.total(iv.union(*[layer.intervals for layer in shared if layer.keys[0] != bins[0]]))
        busy["overlap"] = units.percent(shared_ps, length), "both" if len(bins) == 2 else "2 or more"
    if selection.partial:
        busy = dict.fromkeys(busy, ("", ""))
    sheet = layout(devices, busy, on, shared=shared, bins=bins)
    lanes, x, width = sheet.lanes, sheet.place.x, sheet.place.width

    phases = bands(selection, width)
    # Past _FINE_LANES lanes the columns grow wider than a pixel, which bounds the size of an SVG.
    edges = iv.even_edges((0, length), width * _FINE_LANES // max(len(lanes), _FINE_LANES))
    # Lanes of one name look alike.
    alike = {lane.label for lane in lanes if is_crowded(lane.layers, edges)}
    crowded = [lane.label in alike for lane in lanes]
    which = "the first of them" if selection.partial else "and stand for all"
    notes = [f"{len(drawn)} of {units.count(selection.device_count)} devices are drawn, {which}."] if drawn else []
    notes += [selection.partial] if selection.partial else []
    notes += [f"{count} lanes are merged into one per device."] if is_full and count > len(devices) else []
    if not selection.aligned:
        notes.append("Host clocks are not aligned: the lanes of each clock start at its own first event.")
    notes += selection.unplaced("count in no overlap") if bins and not all(device.placed for device in devices) else []
    notes += [*notes_on(lanes, any(crowded), edges), *memory_lane.notes(list(memory.values()), edges), *phases.note]
    axes_px = sheet.height + phases.height

    page = on.page(axes_px + AXIS_PX, *entries(lanes, colours, bins), notes=notes)
    axes = page.axes((x, page.top, width, axes_px), (0, length), (0, axes_px))
    draw_axis(page, axes, selection)
    phases.draw(page, axes, sheet.height)
    for lane, stacked in zip(lanes, crowded, strict=True):
        fill(page, axes, lane, edges, colours, stacked, length)
        if lane.device in memory and lane.label == memory[lane.device].label:
            memory_lane.draw(page, axes, memory[lane.device], (lane.y, lane.height), edges)
    sheet.write(page, page.top + axes_px, on)
    return page.finish()


def _with_memory(device: Device, memory: Mapping[str, memory_lane.MemoryLane]) -> Device:
    """The device, with the lane of its memory last, where it has one."""
    own = memory.get(device.name)
    return replace(device, lanes=[*device.lanes, (own.label, [])]) if own else device


def levels(sets: Sequence[iv.Intervals], bins: Sequence[Bin]) -> list[Layer]:
    """One layer per (low, high) of `bins`: the time in which low <= number of sets that hold it <= high."""
    edges, count = iv.depth(*sets)
    count = count[:-1]
    return [Layer(iv.of_cells(edges, (count >= low) & (count <= high)), ((low, high),)) for low, high in bins]
