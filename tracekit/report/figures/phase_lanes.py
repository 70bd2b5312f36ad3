"""The phases of an experiment under each other on one scale of time, each with a lane for every device that worked."""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tracekit import intervals as iv
from tracekit import units
from tracekit.analysis.phases import phases
from tracekit.report.figures import drawing
from tracekit.report.figures.drawing import AXIS_PX, Drawing, Sheet
from tracekit.report.figures.lanes import Device, Heads, devices_in, entries, fill, is_crowded, layout, notes_on
from tracekit.report.figures.selection import Selection
from tracekit.report.figures.time_axis import draw_time
from tracekit.vocabulary.kinds import Kind


class Round(NamedTuple):
    """The round of a phase that is drawn, of `n`: its window in ps, shape (1, 2), on its clock.

    Its span ended `begun_ps` after its start: what begins later is of another phase.
    """

    window: iv.Intervals
    clock: str
    n: int
    begun_ps: int

    @property
    def length_ps(self) -> int:
        """How long it took, to the last end of the work begun inside."""
        return iv.total(self.window)


def caption(selection: Selection) -> str:
    """What it shows, and of which part of the trace."""
    return ", ".join(filter(None, ["Phases on one scale of time", selection.where]))


def title(selection: Selection) -> str:
    """The verdict on the phases; none where it says why there is nothing to show."""
    return "" if selection.lacking else selection.finding


def draw(selection: Selection, on: Sheet) -> Drawing:
    """The phases in their order, each in its round of median length, whose start is 0.

    A lane is one device, filled to its busy share as in the timeline, and as long as the phase; at the right stands the
    wall time. Devices that did nothing in any round of a phase have no lane there. On several clocks, or without
    phases, the figure says why there is nothing to see.
    """
    rounds = median_rounds(selection) if selection.aligned and not selection.lacking else {}
    groups, shares = [], {}
    for name, chosen in rounds.items():
        working = _working(selection, chosen)
        if working:
            groups.append(_as_one(name, working))
            shares[name] = units.time(chosen.length_ps), "" if selection.partial else _idle(working, chosen)
    if not groups:
        return on.blank(_lacking(selection, rounds))
    walls = {name: chosen.length_ps for name, chosen in rounds.items()}
    sheet = layout(groups, shares, on, heads=Heads("phase", "device", "wall"))
    longest = max(walls[name] for name in shares)
    colours: dict[Hashable, str] = {kind: on.colours[kind] for kind in Kind}
    edges = iv.even_edges((0, longest), sheet.place.width)
    crowded = any(is_crowded(lane.layers, edges) for lane in sheet.lanes)
    several = max(chosen.n for chosen in rounds.values()) > 1
    notes = ["Of several rounds of a phase, the one of median length is drawn."] if several else []
    notes += notes_on(sheet.lanes, crowded, edges)

    page = on.page(sheet.height + AXIS_PX, *entries(sheet.lanes, colours, ()), notes=notes)
    axes = page.axes((sheet.place.x, page.top, sheet.place.width, sheet.height), (0, longest), (0, sheet.height))
    draw_time(page, axes, 0, longest, "time since the start of the phase")
    for lane in sheet.lanes:
        fill(page, axes, lane, edges, colours, crowded, walls[lane.device])
    sheet.write(page, page.top + sheet.height, on)
    return page.finish()


def median_rounds(selection: Selection) -> dict[str, Round]:
    """By name the median of the rounds of each phase inside a selection on one clock, the shorter of two."""
    whole = selection.timeline.whole
    marked = whole.once("phases", lambda: phases(whole))
    windows = dict(marked.inside(selection.unions.windows).windows)
    if selection.phase is not None and selection.phase not in windows:  # an annotation
        windows = {selection.phase: selection.unions.windows}
    rounds = {}
    for name, by_clock in windows.items():
        ((clock, of),) = by_clock.items()
        middle = np.argsort(of[:, 1] - of[:, 0], kind="stable")[(len(of) - 1) // 2]
        start, end = of[middle].tolist()
        spans = marked.rounds[(marked.rounds["name"] == name) & (marked.rounds["start_ps"] == start)]
        rounds[name] = Round(of[[middle]], clock, len(of), max(spans["end_ps"], default=end) - start)
    return rounds


def _working(selection: Selection, chosen: Round) -> list[Device]:
    """The devices on which work of a round began, each with one lane."""
    rows = selection.timeline.whole.rows
    devices = devices_in(rows, {chosen.clock: chosen.window}, np.ones(len(rows.devices), bool))
    return [device for device in devices if len(iv.clip(device.busy, (0, chosen.begun_ps)))]


def _as_one(name: str, devices: Sequence[Device]) -> Device:
    """A phase as a group of lanes, which are those of `devices`."""
    labels = drawing.short_names([device.name for device in devices])
    lanes = [(label, layers) for label, device in zip(labels, devices, strict=True) for _, layers in device.lanes]
    return Device(name, True, lanes, iv.union(*(device.busy for device in devices)))


def _idle(devices: Sequence[Device], chosen: Round) -> str:
    """The share of a round that its devices were idle, as it stands behind the wall time.

    An unknown device is idle nowhere; "" where there are only such.
    """
    placed = [device for device in devices if device.placed]
    whole = len(placed) * chosen.length_ps
    return f"· {units.percent(whole - sum(iv.total(device.busy) for device in placed), whole)} idle" if placed else ""


def _lacking(selection: Selection, rounds: Mapping[str, Round]) -> str:
    """Why there is nothing to draw."""
    if selection.lacking:
        return selection.lacking
    if not selection.aligned:
        return "Host clocks are not aligned, so the phases of different hosts have no common scale of time."
    if rounds:
        return "No device worked in any phase."
    return f"{'No phase lies inside what is selected' if selection.where else 'The trace marks no phases'}."
