"""The steps of a run: how long each took, what every device did in it, which count, and which stand out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.columns import frame
from tracekit.intervals import Intervals
from tracekit.timeline.rows import CODE, Rows, clock_of_hosts
from tracekit.timeline.step_boundaries import BOUNDARY_COLUMNS, StepBoundaries, runs_of
from tracekit.timeline.timeline import Timeline
from tracekit.timeline.unions import CELLS, DeviceUnions, Unions
from tracekit.units import quantity, time
from tracekit.vocabulary.host_calls import launches
from tracekit.vocabulary.kinds import Kind

FEWEST = 5
ALL_DEVICES = "all devices"
"""Stands for a device where each of them is meant."""
# A first step is no warm-up where so many later ones are as long, as of a language model those that begin an answer.
_AS_LONG, _AGAIN = 0.9, 2
# A step at the profile's edge that lacks more than a tenth of a device's usual rows was cut.
_CUT_BELOW = 0.9

# Iglewicz and Hoaglin (1993): a modified z-score above 3.5 is an outlier, z = 0.6745 |x - median| / MAD
# (https://www.itl.nist.gov/div898/handbook/eda/section3/eda35h.htm). Steps of a machine can be so regular that this
# singles out a step 1 % longer, so it must differ by a tenth too; of fewer than five steps none stands out.
_Z, _PER_MAD, _DIFFERS = 3.5, 0.6745, 0.1
_NO_WORK = "No known device worked in the steps."

# A window falls into four parts that sum to it, the first that explains a slow step is named: the columns of each.
PARTS = {
    "compute": [cell for cell in CELLS if "compute" in cell],
    "memory": ["memory"],
    "idle": ["idle"],
    "collective": [cell for cell in CELLS if "collective" in cell and "compute" not in cell],
}

# The times of a device that are sums of cells.
SUMS = {
    "busy_ps": CELLS[1:],
    "hidden_collective_ps": [cell for cell in CELLS if "compute" in cell and "collective" in cell],
    "exposed_collective_ps": PARTS["collective"],
    "hidden_memory_ps": [cell for cell in CELLS if "compute" in cell and "memory" in cell],
    "exposed_memory_ps": PARTS["memory"],
}

STEP_COLUMNS = {
    **BOUNDARY_COLUMNS,
    "left_out": "str",
    "outlier": "bool",
    "slow_device": "str",
    "slow_part": "str",
    "slow_ps": "Int64",
    "slow_program": "str",
    "did_nothing": "int64",
}
DEVICE_COLUMNS = {
    "place": "int64",
    "device": "str",
    "wall_ps": "int64",
    "busy_ps": "int64",
    **dict.fromkeys(CELLS, "int64"),
    "hidden_collective_ps": "int64",
    "exposed_collective_ps": "int64",
    "hidden_memory_ps": "int64",
    "exposed_memory_ps": "int64",
    "rows": "int64",
    "did_nothing": "bool",
    "last_end_ps": "Int64",
}
SUMMARY_COLUMNS = {
    "clock": "str",
    "name": "str",
    "marked_by": "str",
    "steps": "int64",
    "counted": "int64",
    "outliers": "int64",
    "median_ps": "int64",
    "mean_ps": "int64",
    "min_ps": "int64",
    "p90_ps": "int64",
    "max_ps": "int64",
    "spread": "Float64",
    "note": "str",
}
TYPICAL_COLUMNS = {
    "clock": "str",
    "name": "str",
    "device": "str",
    "steps": "int64",
    "wall_ps": "int64",
    **{f"{part}_ps": "int64" for part in PARTS},
    **{f"{part}_ratio": "Float64" for part in PARTS},
    "hidden_collective_ps": "int64",
    "hidden_memory_ps": "int64",
    "did_nothing": "int64",
}


@dataclass(frozen=True, repr=False)
class Steps(
    notebook.Result,
    summary="name marked_by steps counted outliers median_ps min_ps max_ps spread",
    typical="name device steps compute_ratio collective_ratio memory_ratio idle_ratio",
):
    """What the steps of a trace took.

    `table` has one row a step (STEP_COLUMNS: those of `StepBoundaries.table`; `left_out`, null or why it counts in no
    figure; `outlier`; of a slow one, the device and the part of its time that grew most, and a program that only few of
    the steps run where that took half of it; how many devices did nothing).
    `by_device` has one row a step and device (DEVICE_COLUMNS; `place` is the step's row number in `table`): the eight
    cells, which sum to the step's window exactly, and `last_end_ps`, when its work of the step ended, null without any
    (it may be after the window). `summary` has one row per clock and name (SUMMARY_COLUMNS), over the
    steps that count; `typical` one per clock, name and device (TYPICAL_COLUMNS), sums over those that count and are no
    outlier. `nested` annotations inside other steps were not counted. `lacking` says why there is nothing.
    """

    table: pd.DataFrame
    by_device: pd.DataFrame
    summary: pd.DataFrame
    typical: pd.DataFrame
    nested: int = 0
    lacking: str = ""


def steps(timeline: Timeline) -> Steps:
    """What each device did in each step, and which steps are not like the others.

    All times are exact, in ps. A step counts in the summary unless it was "cut" by the profile's edge, a compiler ran
    in it ("compiles"), or it is one of the first, an outlier, and longer than all but one behind ("warm-up"); if none
    of one name would be left, all count. Compiling in more than half of them, and not only in the first ones, is what
    they do, and leaves none out.
    """
    rows, boundaries = timeline.rows, timeline.steps
    if lacking := boundaries.lacking or ("" if any(rows.placed) else _NO_WORK):
        table, by_device, summary, typical = map(
            frame, (STEP_COLUMNS, DEVICE_COLUMNS, SUMMARY_COLUMNS, TYPICAL_COLUMNS)
        )
        return Steps(table, by_device, summary, typical, lacking=lacking)
    table = boundaries.table
    number = _row_counts(rows, boundaries)
    reasons, notes = reasons_of(timeline)
    is_counted = np.array([reason is None for reason in reasons])
    outlier = np.zeros(len(table), bool)
    for members in series(table):
        warm = [place for place in members if reasons[place] == "warm-up"]
        members = members[is_counted[members]]
        outlier[members] = outliers(table["wall_ps"].to_numpy()[members])
        if late := next(filter(None, (_late_begin(rows, boundaries, place, members) for place in warm)), ""):
            of = str(table["clock"].iloc[members[0]]), str(table["name"].iloc[members[0]])
            notes = {**notes, of: "; ".join(filter(None, (notes.get(of), late)))}
    measured = _by_device(rows, boundaries, number, _last_ends(rows, boundaries), timeline.unions)
    slow = _slow(table, measured, is_counted, outlier)
    idle_devices = measured.groupby("place")["did_nothing"].sum().reindex(range(len(table)), fill_value=0)
    further_columns: dict[str, Any] = {
        "left_out": reasons,
        "outlier": outlier,
        **slow,
        "slow_program": _programs_of_few(timeline, slow, is_counted & ~outlier),
        "did_nothing": idle_devices.to_numpy(),
    }
    full_table = table.assign(**further_columns)
    return Steps(
        frame(STEP_COLUMNS, full_table),
        measured,
        _summary(full_table, notes),
        _typical(full_table, measured),
        nested=boundaries.nested,
    )


def reasons_of(timeline: Timeline) -> tuple[list[str | None], dict[tuple[str, str], str]]:
    """What `left_out` says of the steps of a timeline that has some."""

    def reasons() -> tuple[list[str | None], dict[tuple[str, str], str]]:
        number = _row_counts(timeline.rows, timeline.steps)
        return left_out(timeline.rows, timeline.steps, number, _unanswered(timeline))

    return timeline.once("steps left out", reasons)


def series(table: pd.DataFrame) -> list[NDArray[np.int64]]:
    """The rows of the table by clock and name."""
    return [
        rows_of_series.index.to_numpy(np.int64) for _, rows_of_series in table.groupby(["clock", "name"], sort=False)
    ]


def _row_counts(rows: Rows, boundaries: StepBoundaries) -> NDArray[np.int64]:
    """How many rows of each step each device has, shape (devices, steps)."""
    size = len(rows.devices), len(boundaries.table)
    cell, inside = rows.device * size[1] + boundaries.step_of, boundaries.step_of >= 0
    if rows.count is None:
        return np.bincount(cell[inside], minlength=size[0] * size[1]).reshape(size)
    number = np.zeros(size[0] * size[1], np.int64)
    np.add.at(number, cell[inside], rows.count[inside])
    return number.reshape(size)


def _last_ends(rows: Rows, boundaries: StepBoundaries) -> NDArray[np.int64]:
    """When each device's last row of each step ends, in ps, shape (devices, steps); meaningless where there is none."""
    ends = np.full((len(rows.devices), len(boundaries.table)), np.iinfo(np.int64).min)
    # Rows of one step mostly stand together on a device.
    heads = np.union1d(rows.first[:-1], np.flatnonzero(np.diff(boundaries.step_of)) + 1)
    heads = heads[heads < len(rows)]
    in_step = boundaries.step_of[heads] >= 0
    place = rows.device[heads][in_step], boundaries.step_of[heads][in_step]
    np.maximum.at(ends, place, np.maximum.reduceat(rows.end, heads)[in_step])
    return ends


def _late_begin(rows: Rows, boundaries: StepBoundaries, place: int, counted: NDArray[np.int64]) -> str:
    """Which device began a step so far behind the others, by more than in the steps `counted`, that this is half or
    more of what the step took longer: its rank started late. "" where none did, or half of the devices."""
    table, inside = boundaries.table, np.flatnonzero(boundaries.step_of >= 0)
    cell = rows.device[inside] * len(table) + boundaries.step_of[inside]
    cells, first = np.unique(cell, return_index=True)  # the rows of a device are in the order of their starts
    begin = np.full((len(rows.devices), len(table)), np.nan)
    begin.flat[cells] = (rows.start[inside] - table["start_ps"].to_numpy()[boundaries.step_of[inside]])[first]
    begin = begin[:, [place, *counted]]
    devices = np.flatnonzero(~np.isnan(begin).any(axis=1))
    if len(devices) < 2:
        return ""
    behind = begin[devices] - np.quantile(begin[devices], 0.5, axis=0, method="lower")
    late = behind[:, 0] - np.median(behind[:, 1:], axis=1)
    longer = int(table["wall_ps"].iloc[place] - np.median(table["wall_ps"].to_numpy()[counted]))
    those = np.flatnonzero(2 * late >= longer)
    if not 0 < 2 * len(those) <= len(devices):
        return ""
    last = those[np.argmax(late[those])]
    more = f", and {quantity(len(those) - 1, 'other device')} nearly" if len(those) > 1 else ""
    step = "one" if pd.isna(table["step"].iloc[place]) else f"step {table['step'].iloc[place]}"
    who = f"{rows.devices[devices[last]]} began it {time(int(late[last]))} behind the others{more}"
    return f"{step} took {time(longer)} longer as {who}"


def left_out(
    rows: Rows, boundaries: StepBoundaries, number: NDArray[np.int64], unanswered: NDArray[np.bool_] | None = None
) -> tuple[list[str | None], dict[tuple[str, str], str]]:
    """Why each of the steps counts in no figure, None where it does; and what is to be said of a clock and name.

    "cut": at the profile's edge, and lacking rows of a device (or marks of a host) that the others have; the first
    annotated steps lack none, as an annotation begun before the profile is not in it. "compiles": a compiler ran in it,
    unless it did in more than half of the steps of that name, and not only in the first ones. "warm-up": one of the
    first that are left, an outlier to the long side, and longer than all but one of those behind, or nearly. Where all
    steps of a name would be left out, none is. `number` (devices, steps) counts the rows; `unanswered` (steps,) tells
    in which steps launches have no row, which decides where there are only two.
    """
    table = boundaries.table
    reasons: list[str | None] = [None] * len(table)
    for place in _cut_steps(rows, boundaries, number, unanswered):
        reasons[place] = "cut"
    notes: dict[tuple[str, str], str] = {}
    compiles, wall = table["compile_ps"].to_numpy() > 0, table["wall_ps"].to_numpy()
    for members in series(table):
        note = []
        often = int(compiles[members].sum())
        is_first = often < len(members) and bool(compiles[members[:often]].all())
        if 2 * often > len(members) > 1 and not is_first:
            note.append(f"a compiler ran in {often} of {len(members)} steps, so that these count")
        else:
            for place in members[compiles[members]]:
                reasons[place] = "compiles"
        remaining = members[[reasons[place] is None for place in members]]
        first = _first_ordinary(wall[remaining])
        for place in remaining[:first]:
            again = int((wall[remaining[first:]] >= _AS_LONG * wall[place]).sum())
            reasons[place] = "warm-up" if again < _AGAIN else None
        if all(reasons[place] for place in members):
            listed_reasons = " or ".join(dict.fromkeys(str(reasons[place]) for place in members))
            note.append(f"each would be left out ({listed_reasons}), so that all count")
            for place in members:
                reasons[place] = None
        if note:
            first = int(members[0])
            notes[str(table["clock"].iloc[first]), str(table["name"].iloc[first])] = "; ".join(note)
    return reasons, notes


def _cut_steps(
    rows: Rows, boundaries: StepBoundaries, number: NDArray[np.int64], unanswered: NDArray[np.bool_] | None
) -> list[int]:
    """The steps at the edges of each run of steps that lack rows of a device, or marks of a host.

    From each edge inwards, as the profile's end cuts several steps of a host that runs ahead.
    """
    table, number = boundaries.table, number[np.array(rows.placed, bool)]
    hosts = table["hosts"].to_numpy(np.int64, na_value=0)
    annotated = table["hosts"].notna().to_numpy(bool)
    inner_of = {int(place): members for members in series(table) for place in members}
    cut_steps: list[int] = []
    for _, places, _ in runs_of(boundaries, rows):
        unmarked = hosts < int(hosts[places].max())
        runs: list[list[int]] = []
        for inwards, is_end in ((places, False), (places[::-1], True)):
            run = _without_work(table, number, inwards) if is_end else 0
            for place in inwards[run:].tolist():
                members = inner_of[place]
                inner = members[members < place] if is_end else members[members > place]
                is_surely_cut = run > 0 or (unanswered is not None and bool(unanswered[place]))
                lacks_rows = _lacks_rows(number, place, inner, is_surely_cut)
                if not (unmarked[place] or (lacks_rows and (is_end or not annotated[place]))):
                    break
                run += 1
            runs.append(inwards[:run].tolist())
        if len(runs[0]) + len(runs[1]) < len(places):
            cut_steps += runs[0] + runs[1]
    return cut_steps


def _without_work(table: pd.DataFrame, number: NDArray[np.int64], inwards: NDArray[np.int64]) -> int:
    """How many of the last steps have no row, or end where the one before does as the host was done with them before
    the devices came to them; 0 where that is usual. `inwards` are the steps of a clock, the last first."""
    works = (number[:, inwards].sum(axis=0) > 0) & (table["wall_ps"].to_numpy()[inwards] > 0)
    run = int(np.argmax(np.append(works, True)))
    names = table["name"].to_numpy()[inwards]
    usual = {
        name for name in set(names[run:]) if 2 * works[run:][names[run:] == name].sum() > (names[run:] == name).sum()
    }
    return run if set(names[:run]) <= usual else 0


def _lacks_rows(number: NDArray[np.int64], place: int, inner: NDArray[np.int64], is_surely_cut: bool) -> bool:
    """Whether the step at `place` lacks rows that the steps of its name further `inner` than it have on a device.

    What is usual is the lower median, which among steps that alternate is a step's own number. Of one other step it is
    not known whether the two alternate, so that `is_surely_cut` has to say it, unless a device has no row at all.
    """
    if len(inner) == 0:
        return False
    usual = np.sort(number[:, inner], axis=1)[:, (len(inner) - 1) // 2]
    least = _CUT_BELOW * usual if len(inner) > 1 or is_surely_cut else np.minimum(usual, 1)
    return bool((number[:, place] < least).any())


def _unanswered(timeline: Timeline) -> NDArray[np.bool_]:
    """Of which steps more than a tenth of the launches that the host made in its time of them have no row, (s,)."""
    boundaries, calls = timeline.steps.table, timeline.trace.launches
    answer = np.zeros(len(boundaries), bool)
    # Of programs beside each other no call tells which of the overlapping steps it is of. With rows that were left out
    # their calls were, too.
    if timeline.left_out or timeline.steps.programs or boundaries["host_end_ps"].isna().any() or not len(calls):
        return answer
    names = calls["name"].cat
    is_launch = np.array([*map(launches, names.categories), False], bool)[names.codes.to_numpy()]
    is_answered = np.zeros(len(calls), bool)
    is_answered[timeline.launch[timeline.launch >= 0]] = True
    clock_of, hosts = clock_of_hosts(timeline.rows), calls["host"].cat
    start = calls["start_ps"].to_numpy()
    for name, steps_of_clock in boundaries.groupby("clock", sort=False):
        places = steps_of_clock.index.to_numpy(np.int64)
        reach = np.maximum.accumulate(steps_of_clock["host_end_ps"].to_numpy(np.int64))
        is_on_clock = np.array([*(clock_of.get(host, "") == name for host in hosts.categories), False], bool)
        mine = np.flatnonzero(is_launch & is_on_clock[hosts.codes.to_numpy()])
        of_step = np.searchsorted(reach, start[mine], side="right")
        total = np.bincount(of_step, minlength=len(places) + 1)[:-1]
        lost = np.bincount(of_step[~is_answered[mine]], minlength=len(places) + 1)[:-1]
        answer[places] = lost > (1 - _CUT_BELOW) * total
    return answer


def _first_ordinary(wall: NDArray[np.int64]) -> int:
    """The place of the first wall that is no outlier to the long side."""
    if len(wall) == 0:
        return 0
    slow = outliers(wall) & (wall > float(np.median(wall)))
    return int(np.argmin(np.append(slow, False)))


def outliers(wall: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of the walls differ from the others, by Iglewicz and Hoaglin's rule and by a tenth; of few, none."""
    if len(wall) < FEWEST:
        return np.zeros(len(wall), bool)
    middle = np.median(wall)
    off = np.abs(wall - middle)
    is_outlier: NDArray[np.bool_] = (_PER_MAD * off > _Z * np.median(off)) & (off > _DIFFERS * middle)
    return is_outlier


def _by_device(
    rows: Rows, boundaries: StepBoundaries, number: NDArray[np.int64], last_end: NDArray[np.int64], unions: Unions
) -> pd.DataFrame:
    """One row per step and device of its clock, or its program (DEVICE_COLUMNS)."""
    times = boundaries.table[["start_ps", "end_ps"]].to_numpy(np.int64)
    windows_of = {
        device: (steps, times[steps]) for _, steps, devices in runs_of(boundaries, rows) for device in devices
    }
    names: list[str] = []
    parts: list[dict[str, NDArray[Any]]] = []
    for code, device in enumerate(rows.devices):
        if not rows.placed[code] or code not in windows_of:
            continue
        places, windows = windows_of[code]
        names += [device] * len(places)
        spent = time_spent(unions.devices[device], windows)
        parts.append({"place": places, "wall_ps": windows[:, 1] - windows[:, 0], **spent, "code": places * 0 + code})
    if not parts:
        return frame(DEVICE_COLUMNS)
    columns: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    counted, ends = (each[columns["code"], columns["place"]] for each in (number, last_end))
    columns |= {"device": names, "rows": counted, "did_nothing": counted == 0}
    columns["last_end_ps"] = pd.arrays.IntegerArray(np.where(counted == 0, 0, ends), counted == 0)
    return frame(DEVICE_COLUMNS, columns)


def time_spent(device: DeviceUnions, windows: Intervals) -> dict[str, NDArray[np.int64]]:
    """The CELLS of `device` in each row of `windows` (w, 2), start <= end, and the SUMS of them, all (w,) in ps.

    Windows may overlap. Before its first and after its last work a device is idle. That the cells sum to the windows,
    and those but idle to the device's busy time in them, is checked here.
    """
    edges, code = device.cells
    cells = np.zeros((8, len(windows)), np.int64)
    if len(code):
        points = np.clip(windows, edges[0], edges[-1])
        cell = np.minimum(np.searchsorted(edges, points, side="right"), len(code)) - 1
        past = points - edges[cell]
        for cell_code in np.flatnonzero(np.bincount(code)).tolist():
            cells_of_code = np.flatnonzero(code == cell_code)
            # Up to each point: the cells of this code that end before it, and what is past of the one that holds it.
            ended_ps = np.append(0, np.cumsum(edges[cells_of_code + 1] - edges[cells_of_code]))
            elapsed = ended_ps[np.searchsorted(cells_of_code, cell)] + np.where(code[cell] == cell_code, past, 0)
            cells[cell_code] = elapsed[:, 1] - elapsed[:, 0]
    outside_ps = windows[:, 1] - windows[:, 0] - cells.sum(axis=0)
    cells[0] += outside_ps
    sums = {name: cells[[CELLS.index(cell) for cell in names]].sum(axis=0) for name, names in SUMS.items()}
    if (outside_ps < 0).any() or (sums["busy_ps"] != iv.within(device.busy, windows)).any():
        raise AssertionError("the cells of a device do not sum to its busy time in the windows")
    return {**dict(zip(CELLS, cells, strict=True)), **sums}


def _slow(
    table: pd.DataFrame, measured: pd.DataFrame, is_counted: NDArray[np.bool_], outlier: NDArray[np.bool_]
) -> dict[str, list[object]]:
    """Of each slow outlier, the device and the part of its time that made it slow, and by how much that grew.

    The growth is against the device's median over the other steps that count. A device that waits for another one in
    a collective, or idles, grows as much as the one that works longer: of the parts that explain at least half of what
    the step took longer, compute is named before memory, idle and collective; then the device that grew most, or all
    devices where each grew by that half.
    """
    columns: dict[str, list[object]] = {name: [None] * len(table) for name in ("slow_device", "slow_part", "slow_ps")}
    wall = table["wall_ps"].to_numpy()
    for members in series(table):
        if not outlier[members].any():
            continue
        ordinary = members[is_counted[members] & ~outlier[members]]
        middle = np.median(wall[ordinary])
        slow = members[outlier[members] & (wall[members] > middle)]
        # One row per device of the clock and step, the steps of a device in order.
        device_steps = measured[measured["place"].isin(members)]
        devices = device_steps["device"].drop_duplicates().tolist()
        parts = np.stack(
            [device_steps[cells].to_numpy().sum(axis=1).reshape(len(devices), -1) for cells in PARTS.values()]
        )
        usual = np.median(parts[:, :, np.searchsorted(members, ordinary)], axis=2)
        for place in slow:
            growth = parts[:, :, np.searchsorted(members, place)] - usual
            whom = blame(growth, devices, (wall[place] - middle) / 2)
            for name, value in zip(columns, whom, strict=True):
                columns[name][place] = value
    return columns


def _programs_of_few(
    timeline: Timeline, slow: dict[str, list[object]], is_ordinary: NDArray[np.bool_]
) -> list[str | None]:
    """Of each step that was slow by its compute, the program that took half of that or more, if at most half of the
    ordinary steps of its name run it: an evaluation, a checkpoint. None of them where rows of compute were left out."""
    rows, table = timeline.rows, timeline.steps.table
    programs: list[str | None] = [None] * len(table)
    slow_steps = pd.DataFrame({"place": range(len(table)), "device": slow["slow_device"], "ps": slow["slow_ps"]})
    slow_steps = slow_steps[np.array(slow["slow_part"], object) == "compute"]
    if timeline.left_out or not len(slow_steps):
        return programs
    module, modules = rows.codes("hlo_module"), rows.labels("hlo_module")
    compute = np.flatnonzero((rows.kind == CODE[Kind.COMPUTE]) & (module >= 0) & rows.is_placed)
    times = table[["start_ps", "end_ps"]].to_numpy(np.int64)
    for members in series(table):
        members = members[np.argsort(times[members, 0], kind="stable")]
        clock = table["clock"].iloc[members[0]] or ""
        on_clock = np.array([own == clock for own in rows.clocks], bool) & np.array(rows.placed, bool)
        step = np.searchsorted(times[members, 0], rows.start[compute], side="right") - 1
        is_inside = (step >= 0) & (rows.start[compute] < times[members[step], 1]) & on_clock[rows.device[compute]]
        for device, steps_of in slow_steps[slow_steps["place"].isin(members)].groupby("device"):
            is_one = device in rows.devices
            mine = is_inside & (rows.device[compute] == rows.number(str(device))) if is_one else is_inside
            took_ps = np.zeros((len(members), len(modules)))
            np.add.at(took_ps, (step[mine], module[compute[mine]]), (rows.end - rows.start)[compute[mine]])
            took_ps[:, np.median(took_ps[is_ordinary[members]] > 0, axis=0) > 0.5] = 0
            for place, grown_ps in zip(steps_of["place"], steps_of["ps"], strict=True):
                own_ps = took_ps[members == place][0] / (1 if is_one else on_clock.sum())
                if 2 * own_ps.max(initial=0) >= grown_ps:
                    programs[place] = modules[int(np.argmax(own_ps))]
    return programs


def blame(growth: NDArray[np.float64], devices: list[str], enough: float) -> tuple[str, str, int]:
    """The device (or ALL_DEVICES), the part and the growth to blame where steps got longer; `growth` (4, devices) of
    the PARTS in ps, of which so much is `enough`."""
    explains = (growth >= enough).any(axis=1)
    part = int(np.argmax(explains)) if explains.any() else int(np.argmax(growth.max(axis=1)))
    everywhere = len(devices) > 1 and bool((growth[part] >= enough).all())
    device = ALL_DEVICES if everywhere else devices[int(np.argmax(growth[part]))]
    return device, list(PARTS)[part], int(growth[part].max())


def _summary(full_table: pd.DataFrame, notes: dict[tuple[str, str], str]) -> pd.DataFrame:
    """One row per clock and name (SUMMARY_COLUMNS); quantiles are interpolated linearly, the spread is the distance of
    the quartiles over the median, null of fewer than five steps."""
    table = []
    for (clock, name), members in full_table.groupby(["clock", "name"], sort=False):
        counted_steps = members[members["left_out"].isna()]
        wall = counted_steps["wall_ps"].to_numpy()
        low, middle, high, p90 = np.quantile(wall, [0.25, 0.5, 0.75, 0.9])
        table.append(
            {
                "clock": clock,
                "name": name,
                "marked_by": members["marked_by"].iloc[0],
                "steps": len(members),
                "counted": len(counted_steps),
                "outliers": int(counted_steps["outlier"].sum()),
                "median_ps": round(middle),
                "mean_ps": round(iv.sum_exactly(wall) / len(wall)),
                "min_ps": int(wall.min()),
                "p90_ps": round(p90),
                "max_ps": int(wall.max()),
                "spread": (high - low) / middle if middle and len(wall) >= FEWEST else None,
                "note": notes.get((str(clock), str(name))),
            }
        )
    return frame(SUMMARY_COLUMNS, pd.DataFrame(table))


def _typical(full_table: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
    """What the steps that count and are no outlier were made of, by clock, name and device (TYPICAL_COLUMNS)."""
    ordinary = (full_table["left_out"].isna() & ~full_table["outlier"]).to_numpy(bool)
    places = measured["place"].to_numpy()
    ordinary_steps = measured.assign(
        clock=full_table["clock"].to_numpy()[places],
        name=full_table["name"].to_numpy()[places],
        steps=1,
        **{f"{part}_ps": measured[cells].sum(axis=1) for part, cells in PARTS.items()},
    )[ordinary[places]]
    summed = [name for name, dtype in TYPICAL_COLUMNS.items() if dtype == "int64"]
    typical_table = ordinary_steps.groupby(["clock", "name", "device"], sort=False, as_index=False)[summed].sum()
    wall = typical_table["wall_ps"].where(typical_table["wall_ps"] > 0).astype("Float64")
    typical_table = typical_table.assign(**{f"{part}_ratio": typical_table[f"{part}_ps"] / wall for part in PARTS})
    return frame(TYPICAL_COLUMNS, typical_table)
