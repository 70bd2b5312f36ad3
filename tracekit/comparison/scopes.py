"""What a side did in each scope that can be compared: the whole window, the steps that count, the rounds of a phase."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.analysis.idle import Cause
from tracekit.analysis.steps import PARTS
from tracekit.analysis.top_ops import PHASE, STEP, WHOLE
from tracekit.devices import type_of
from tracekit.intervals import Intervals
from tracekit.report.model import Report
from tracekit.timeline import unions
from tracekit.units import quantity

CELLS = [*unions.CELLS]
UNITS = {WHOLE: "window", STEP: "step", PHASE: "round"}
"""What one of the units of each scope is called."""
NOT_ASKED = "cause not known"
"""What idle time is called whose cause no analysis looked for."""
HIDDEN = {
    "collective": [cell for cell in CELLS if "collective" in cell and "compute" in cell],
    "memory": [cell for cell in CELLS if "memory" in cell and "compute" in cell],
}
"""The cells in which collectives, or copies, run behind compute."""
ANY_TWO = (-1, -1)
"""What stands for the places of two devices where it is any two."""
_NOT_HELD = "not held by this saved report (make it again from its trace)"


@dataclass(frozen=True, eq=False)
class Figures:
    """A scope of one capture, times in ps.

    `walls_ps` (n,) is how long each unit took. `cells` has one row per device, its `device` and the CELLS summed over
    the units; `by_unit`, where each unit is known by itself, one row per unit and the CELLS summed over the devices,
    else None. `idle` is the idle time by cause, summed over units and devices, None where it was not
    looked at. `operations` (OPERATION_COLUMNS) are those of the units. `path` is the critical path by part, summed over
    the units. `rows` is how many device events the units have. `shared` has for each unit the time in which two
    devices, by their places `a` and `b`, or any two (ANY_TWO) were busy at once; `not_shared` says why it has no rows.
    `is_trimmed`: the only step, told from its first to its last device work. `captures` are those that are pooled here.
    """

    walls_ps: NDArray[np.int64]
    cells: pd.DataFrame
    by_unit: pd.DataFrame | None
    idle: Mapping[str, int] | None
    operations: pd.DataFrame
    path: Mapping[str, int]
    rows: int
    shared: pd.DataFrame
    not_shared: str
    is_trimmed: bool = False
    captures: tuple["Figures", ...] = ()

    @property
    def each(self) -> tuple["Figures", ...]:
        """The figures of each capture."""
        return self.captures or (self,)

    @property
    def parts(self) -> pd.DataFrame | None:
        """Where each unit is known by itself, one row per unit and a column for each of PARTS, summed over the
        devices."""
        if self.by_unit is None:
            return None
        return pd.DataFrame({part: self.by_unit[of].sum(axis=1) for part, of in PARTS.items()})

    @property
    def units(self) -> int:
        """How many units there are."""
        return len(self.walls_ps)

    @property
    def devices(self) -> list[str]:
        """The devices that worked in it, in their order."""
        return self.cells["device"].tolist()

    def part_ps(self, part: str) -> int:
        """The time of one of PARTS, summed over units and devices."""
        return iv.sum_exactly(self.cells[PARTS[part]].to_numpy(np.int64).ravel())


def scopes(report: Report) -> dict[tuple[str, str], Figures]:
    """The scopes of a report by kind (WHOLE, STEP, PHASE) and name: those with a known wall. None where so much of the
    work is missing that nothing rests on all of it: a difference may be that of what is missing."""
    found: dict[tuple[str, str], Figures] = {}
    if incomplete(report):
        return found
    if report.windows and not report.whole.lacking:
        found[WHOLE, ""] = _whole(report)
    table = report.explanation.steps.table
    counted = table[table["left_out"].isna()]
    for name in dict.fromkeys(counted["name"].tolist()):
        found[STEP, str(name)] = _steps(report, str(name), counted[counted["name"] == name])
    for name, windows in report.phases.windows.items():
        breakdown = report.inside.get(name)
        if breakdown is not None and not breakdown.lacking:
            found[PHASE, name] = _phase(report, name, windows, breakdown.partition)
    return found


def incomplete(report: Report) -> str:
    """Why nothing of a report is compared, as too much of its trace is missing; "" where that is not so."""
    return report.explanation.completeness.rows


def _whole(report: Report) -> Figures:
    longest = max(map(iv.total, report.windows.values()))
    walls = np.array([longest], np.int64)
    return _figures(report, WHOLE, "", walls, report.whole.partition, report.windows, {})


def _phase(report: Report, name: str, windows: Mapping[str, Intervals], partition: pd.DataFrame) -> Figures:
    by_clock = [rounds[:, 1] - rounds[:, 0] for rounds in windows.values()]
    same = all(len(walls) == len(by_clock[0]) for walls in by_clock)
    walls = np.max(by_clock, axis=0) if same else by_clock[0]
    return _figures(report, PHASE, name, walls, partition, windows, {})


def _steps(report: Report, name: str, counted: pd.DataFrame) -> Figures:
    """The steps of one name that count; on several clocks a step takes as long as on the slowest of them."""
    explanation = report.explanation
    by_clock = [its for _, its in counted.groupby("clock", sort=False)]
    walls = [its["wall_ps"].to_numpy(np.int64) for its in by_clock]
    same = all(len(its) == len(walls[0]) for its in walls)
    number = {int(place): unit for its in by_clock for unit, place in enumerate(its.index)}
    device_steps = explanation.steps.by_device
    device_steps = device_steps[device_steps["place"].isin(counted.index)]
    windows = {str(its["clock"].iloc[0]): its[["start_ps", "end_ps"]].to_numpy(np.int64) for its in by_clock}
    path = explanation.critical_path
    of_name = path.steps["name"] == name if "name" in path.steps else pd.Series(dtype=bool)
    composition = path.composition[path.composition["at"].isin(np.flatnonzero(of_name))] if len(path.steps) else None
    by_part: dict[str, int] = {}
    if composition is not None:
        by_part = {str(part): int(its.sum()) for part, its in composition.groupby("part", sort=False)["time_ps"]}
    figures = partial(_figures, report, STEP, name, path=by_part)
    if len(counted) == 1 and counted["device_start_ps"].notna().all():
        start, end = (int(counted[column].iloc[0]) for column in ("device_start_ps", "device_end_ps"))
        around = int(counted["wall_ps"].iloc[0]) - (end - start)
        trimmed = device_steps.assign(idle=device_steps["idle"] - around)
        if (trimmed["idle"] >= 0).all():
            its = {clock: np.array([[start, end]], np.int64) for clock in windows}
            walls_ps = np.array([end - start], np.int64)
            return figures(walls_ps, trimmed, its, by_unit=trimmed.assign(unit=0), is_trimmed=True)
    by_unit = device_steps.assign(unit=device_steps["place"].map(number)) if same else None
    walls_ps = np.max(walls, axis=0) if same else walls[0]
    return figures(walls_ps, device_steps, windows, by_unit=by_unit)


def _figures(
    report: Report,
    kind: str,
    name: str,
    walls: NDArray[np.int64],
    partition: pd.DataFrame,
    windows: Mapping[str, Intervals],
    path: Mapping[str, int],
    by_unit: pd.DataFrame | None = None,
    is_trimmed: bool = False,
) -> Figures:
    cells = partition.groupby("device", sort=False)[CELLS].sum().reset_index()
    units = None if by_unit is None else by_unit.groupby("unit")[CELLS].sum()
    every = report.operations
    operations = every[(every["scope"] == kind) & (every["part"] == name)]
    idle = _idle(report, windows, cells)
    rows = int(operations["n"].sum())
    shared, not_shared = _shared(report, kind, name, cells["device"].tolist())
    return Figures(walls, cells, units, idle, operations, path, rows, shared, not_shared, is_trimmed)


def _shared(report: Report, kind: str, name: str, devices: Sequence[str]) -> tuple[pd.DataFrame, str]:
    """The rows of `Figures.shared`, or why there are none."""
    every = report.shared_busy
    rows = every[(every["scope"] == kind) & (every["part"] == name)]
    if reason := _not_shared(report, len(rows) > 0):
        return rows[:0], reason
    places = {device: place for place, device in enumerate(devices)}
    known = rows[rows["a"].isna() | (rows["a"].isin(devices) & rows["b"].isin(devices))]
    return known.assign(**{side: known[side].map(places).fillna(ANY_TWO[0]).astype("int64") for side in "ab"}), ""


def _not_shared(report: Report, is_held: bool) -> str:
    """Why a report does not tell how long its devices were busy at once; "" where it does."""
    if len(report.devices) < 2:
        return "one device only"
    if len(report.windows) > 1:
        return "the clocks of the hosts are not aligned"
    if report.cores is not None and all(type_of(device) == "cpu" for device in report.devices):
        cores = quantity(int(report.cores), "core")
        return f"time-sharing only ({len(report.devices)} CPU devices on {cores})"
    return "" if is_held else _NOT_HELD


def _idle(report: Report, windows: Mapping[str, Intervals], cells: pd.DataFrame) -> dict[str, int] | None:
    """The idle time inside `windows` by cause, as far as a cause was looked for: idle time of devices elsewhere, and
    that outside of what the report looked at, is NOT_ASKED."""
    explained = report.explanation.idle
    if explained.lacking:
        return None
    causes: dict[str, int] = {}
    for (device, cause), gaps in explained.gaps.groupby(["device", "cause"], observed=True):
        spans = iv.union(windows.get(report.clock_of.get(str(device), ""), iv.EMPTY))
        inside = iv.within(iv.intervals(gaps["start_ps"], gaps["end_ps"]), spans)
        causes[str(cause)] = causes.get(str(cause), 0) + iv.sum_exactly(inside)
    total = iv.sum_exactly(cells["idle"].to_numpy(np.int64))
    rest = total - sum(causes.values())
    beyond = [_beyond(report, str(device), windows) for device in cells["device"]]
    outside = sum(sum(its.values()) for its in beyond)
    if outside <= rest:  # else it is among the gaps, as where only steady steps were looked at
        for cause, time in ((cause, time) for its in beyond for cause, time in its.items()):
            causes[cause] = causes.get(cause, 0) + time
        rest -= outside
    if rest < 0:  # windows of rounds that overlap count their gaps once, the partition too
        return None
    return {str(cause): time for cause, time in (causes | {NOT_ASKED: rest}).items() if time}


def _beyond(report: Report, device: str, windows: Mapping[str, Intervals]) -> dict[str, int]:
    """How much of `windows` lies before the first and after the last work of all devices on the clock of one."""
    clock = report.clock_of.get(device, "")
    spans, known = iv.union(windows.get(clock, iv.EMPTY)), report.windows.get(clock, iv.EMPTY)
    if not len(known):
        return {}
    start, end = int(known[0, 0]), int(known[-1, 1])
    before = np.minimum(spans[:, 1], start) - np.minimum(spans[:, 0], start)
    after = np.maximum(spans[:, 1], end) - np.maximum(spans[:, 0], end)
    return {Cause.BEFORE: int(before.sum()), Cause.AFTER: int(after.sum())}


def pooled(parts: Sequence[Figures]) -> Figures:
    """The units of several captures of one variant together; their devices by place, as names may differ."""
    if len(parts) == 1:
        return parts[0]
    same = all(len(part.cells) == len(parts[0].cells) for part in parts)
    renamed = [part.cells.assign(device=parts[0].devices) if same else part.cells for part in parts]
    cells = pd.concat(renamed).groupby("device", sort=False)[CELLS].sum().reset_index()
    names = parts[0].devices
    operations = [
        part.operations.assign(device=part.operations["device"].map(dict(zip(part.devices, names, strict=True))))
        if same
        else part.operations
        for part in parts
    ]
    known = [part.by_unit for part in parts if part.by_unit is not None]
    return Figures(
        np.concatenate([part.walls_ps for part in parts]),
        cells,
        pd.concat(known, ignore_index=True) if len(known) == len(parts) else None,
        None if any(part.idle is None for part in parts) else _added([part.idle or {} for part in parts]),
        pd.concat(operations, ignore_index=True),
        _added([part.path for part in parts]),
        sum(part.rows for part in parts),
        parts[0].shared[:0],
        "told of each capture",
        any(part.is_trimmed for part in parts),
        tuple(parts),
    )


def _added(each: Sequence[Mapping[str, int]]) -> dict[str, int]:
    keys = dict.fromkeys(key for part in each for key in part)
    return {key: sum(part.get(key, 0) for part in each) for key in keys}
