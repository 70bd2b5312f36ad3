"""What costs a device the most: the exposed collectives and copies and the idle gaps, ranked by the time they cost."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.columns import distinct_beside, frame, labels, largest, texts_at
from tracekit.intervals import Intervals
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.timeline import Timeline
from tracekit.timeline.unions import COLLECTIVE, COMPUTE, Unions
from tracekit.trace import DIRECTION_DTYPE, KIND_DTYPE
from tracekit.vocabulary.kinds import Kind, stem

# So many are kept in the tables of single offenders and of groups of them.
MOST_INSTANCES, MOST_GROUPS = 1000, 50
IDLE = "idle"
KINDS = (*KIND_DTYPE.categories, IDLE)


_WHAT = {"what": "str", "kind": "str", "direction": "str", "device": "str"}
_LARGEST = {
    "start_ps": "int64",
    "end_ps": "int64",
    "step": "str",
    "source": "str",
    "framework_op": "str",
    "next": "str",
    "bytes": "Int64",
    "last": "str",
    "wait_ps": "Int64",
    "memory_ps": "Int64",
    "others": "int64",
    "others_busy": "Float64",
}
BY_DEVICE_COLUMNS = {**_WHAT, "n": "int64", "cost_ps": "int64", "ratio": "Float64", "largest_ps": "int64"}
TABLE_COLUMNS = {**BY_DEVICE_COLUMNS, "devices": "int64", **_LARGEST, "meanwhile": "str"}
INSTANCE_COLUMNS = {**_WHAT, "cost_ps": "int64", **_LARGEST}
TOTAL_COLUMNS = {"device": "str", **dict.fromkeys(("window_ps", "collective_ps", "memory_ps", "idle_ps"), "int64")}


@dataclass(frozen=True, repr=False)
class Offenders(
    notebook.Result,
    table="what direction device n cost_ps ratio largest_ps source meanwhile",
    totals="",
):
    """The offenders, the costliest first; times in ps, `ratio` is of the device's window.

    `table` (TABLE_COLUMNS): one row per what, on the device that it cost most, of `devices` that it cost anything;
    from `start_ps` on the columns are those of the largest instance there. `by_device` (BY_DEVICE_COLUMNS): one row per
    what and device. `instances` (INSTANCE_COLUMNS): single ones. Kept are the first MOST_GROUPS of the table and
    MOST_INSTANCES of the instances; `groups` and `found` say how many there are. `totals` (TOTAL_COLUMNS): the sums
    over each device. `lacking`: why there are none.
    """

    table: pd.DataFrame
    by_device: pd.DataFrame
    instances: pd.DataFrame
    totals: pd.DataFrame
    groups: int
    found: int
    lacking: str = ""


@dataclass(frozen=True)
class Exposed:
    """Of each collective, copy and memset on a known device, (k,): what it adds to those before it, and what of that is
    exposed; times in ps.

    `row` is its place in Rows, rising. Rows of one kind that run at once share time, which belongs to the first of them
    in the order of Rows: the one that started first, of equal starts the one that ended first. The i-th has
    [`start[i]`, `end[i]`) to itself, so these are disjoint among the collectives of a device, and among its copies and
    memsets. `cost[i]` is how much of it ran while the device did not compute, and for a copy or memset ran no
    collective either.
    """

    row: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    cost: NDArray[np.int64]


# Kind (one of KINDS), direction of a copy, and name or cause.
_What = tuple[str, str | None, str]


@dataclass(frozen=True)
class _Costs:
    """All that cost its device something, as columns of shape (n,): first the rows in their order, then the gaps.

    `device` is its number in Rows, `what` indexes `whats`, `cost` > 0 is in ps. `work` (k,) are the rows' places in
    Rows, `idle` (n - k,) those of the gaps in their frame, `interval` (n - k,) the numbers of their idle intervals.
    """

    whats: list[_What]
    work: NDArray[np.int64]
    idle: NDArray[np.int64]
    interval: NDArray[np.int64]
    device: NDArray[np.int64]
    what: NDArray[np.int64]
    cost: NDArray[np.int64]


@dataclass(frozen=True)
class Spots:
    """Rows or idle gaps of devices, as columns of shape (n,); times in ps.

    `device` is its number in Rows, `row` the place in Rows, -1 for a gap; `after` the place in the events of the work
    that came after a gap, else -1.
    """

    device: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    row: NDArray[np.int64]
    after: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.device)


def offenders(
    timeline: Timeline, gaps: pd.DataFrame, collectives_table: pd.DataFrame, step_table: pd.DataFrame
) -> Offenders:
    """The exposed time of every collective and copy (analysis.offenders.exposed) and every idle gap, by what it costs.

    `gaps` are pieces of idle intervals (analysis.idle.GAP_COLUMNS), which `n` counts; `step_table` (clock, step, name,
    start_ps, end_ps) names the step in which an offender starts; `collectives_table` knows the device that came last.
    """
    rows, unions = timeline.rows, timeline.unions
    exposed_rows = exposed(rows, unions)
    costs = _costs(rows, unions, exposed_rows, gaps)
    groups = _groups(costs, rows, unions)
    table = groups.drop_duplicates("code")
    table = table.assign(devices=groups.groupby("code").size().loc[table["code"]].to_numpy())
    table = table.head(MOST_GROUPS).reset_index(drop=True)
    places = np.append(table["at"].to_numpy(np.int64), largest(costs.cost, MOST_INSTANCES))
    spots = _spots(costs, exposed_rows, gaps, places)
    table_of_places = pd.DataFrame(
        _labels(costs, places, rows)
        | {"cost_ps": costs.cost[places], "start_ps": spots.start, "end_ps": spots.end}
        | locate(spots, rows, step_table, timeline.trace.ops)
        | last_arriver(spots, collectives_table, timeline.collectives.instance)
        | _concurrent_work(spots, costs.cost[places], rows, unions, named_count=len(table))
    )
    return Offenders(
        frame(TABLE_COLUMNS, {**table_of_places.iloc[: len(table)], **table}),
        frame(BY_DEVICE_COLUMNS, groups),
        frame(INSTANCE_COLUMNS, table_of_places.iloc[len(table) :]),
        _totals(costs, rows, unions),
        groups["code"].nunique(),
        len(costs.cost),
        "" if any(rows.placed) else "The trace holds no work on a known device.",
    )


def exposed(rows: Rows, unions: Unions) -> Exposed:
    """What each row exposes; `unions` are the unions of the whole trace. Rows on unknown devices (`cpu:?`) are left
    out.

    The costs of a device's collectives sum to |N - C|, those of its copies and memsets to |M - (C | N)|.
    """
    tables = [np.zeros((4, 0), np.int64)]
    for number, name in enumerate(rows.devices):
        if name not in unions.devices:
            continue
        kind = rows.kind[rows.of(number)]
        copying = (kind == CODE[Kind.MEMCPY]) | (kind == CODE[Kind.MEMSET])
        for blocked_kind, is_kind in ((Kind.COLLECTIVE, kind == CODE[Kind.COLLECTIVE]), (Kind.MEMCPY, copying)):
            places = np.flatnonzero(is_kind) + rows.of(number).start
            if not len(places):
                continue
            reach = np.maximum.accumulate(rows.end[places])
            start = np.append(rows.start[places[:1]], np.maximum(rows.start[places[1:]], reach[:-1]))
            end = np.maximum(rows.end[places], start)
            hidden = iv.within(blocking(unions, name, blocked_kind), iv.intervals(start, end))
            tables.append(np.stack([places, start, end, end - start - hidden]))
    columns = np.concatenate(tables, axis=1)
    return Exposed(*columns[:, np.argsort(columns[0], kind="stable")])


def blocking(unions: Unions, device: str, kind: Kind) -> Intervals:
    """What hides a row of a kind on a device: its compute; of copies and memsets also its collectives."""
    device_unions = unions.devices[device]
    return device_unions.compute if kind is Kind.COLLECTIVE else device_unions.union_of(COMPUTE | COLLECTIVE)


def _costs(rows: Rows, unions: Unions, exposed_rows: Exposed, gaps: pd.DataFrame) -> _Costs:
    costly = np.flatnonzero(exposed_rows.cost)
    places = exposed_rows.row[costly]
    directions = [*DIRECTION_DTYPE.categories, None]
    names = _name_codes(rows, places)
    direction = rows.codes_at("direction", places) % len(directions)
    code, keys = pd.factorize((names * len(directions) + direction) * len(KINDS) + rows.kind[places])
    whats: dict[_What, int] = {}
    renamed = np.zeros(len(keys), np.int64)
    remainder, kind = np.divmod(keys, len(KINDS))
    name, way = np.divmod(remainder, len(directions))
    for place, of_key in enumerate(zip(kind.tolist(), way.tolist(), _texts(rows, name), strict=True)):
        group = KINDS[of_key[0]], directions[of_key[1]], stem(of_key[2])
        renamed[place] = whats.setdefault(group, len(whats))

    numbers = {device: number for number, device in enumerate(rows.devices) if device in unions.devices}
    device, cause = gaps["device"].array, gaps["cause"].array
    number_of = np.array([*(numbers.get(name, -1) for name in labels(device)), -1])
    what_of, names_of_causes = np.full(len(cause.categories) + 1, -1), labels(cause)
    for label in pd.unique(cause.codes).tolist():  # in the order in which they come
        if label >= 0:
            what_of[label] = whats.setdefault((IDLE, None, names_of_causes[label]), len(whats))
    length = gaps["end_ps"].to_numpy(np.int64) - gaps["start_ps"].to_numpy(np.int64)
    idle = np.flatnonzero((number_of >= 0)[device.codes] & (length > 0))
    return _Costs(
        whats=list(whats),
        work=places,
        idle=idle,
        interval=gaps["interval"].to_numpy(np.int64)[idle],
        device=np.append(rows.device[places], number_of[device.codes[idle]]),
        what=np.append(renamed[code], what_of[cause.codes[idle]]),
        cost=np.append(exposed_rows.cost[costly], length[idle]),
    )


def _name_codes(rows: Rows, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """What the rows at some places are called, as numbers that `_texts` knows: their HLO op, which says more than the
    kernel that it started, or else, behind all ops, their name."""
    code = rows.codes_at("hlo_op", places)
    has_no_op = code < 0
    code[has_no_op] = len(rows.events["hlo_op"].cat.categories) + rows.codes_at("name", places[has_no_op])
    return code


def _texts(rows: Rows, codes: NDArray[np.int64]) -> list[str]:
    """The names with these codes; of 600,000 ops a list of all takes 36 MB."""
    ops, names = (rows.events[column].cat.categories for column in ("hlo_op", "name"))
    is_op = codes < len(ops)
    texts = np.empty(len(codes), object)
    texts[is_op] = ops.take(codes[is_op]).to_numpy(object)
    texts[~is_op] = names.take(codes[~is_op] - len(ops)).to_numpy(object)
    return texts.tolist()


def _groups(costs: _Costs, rows: Rows, unions: Unions) -> pd.DataFrame:
    """One row per device and what, the costliest first; `code` is the what, `at` the place of the largest in costs."""
    key = costs.device * len(costs.whats) + costs.what
    count = len(rows.devices) * len(costs.whats)
    n = _numbers(costs, key, count)
    total, most, first_largest = (np.zeros(count, np.int64) for _ in range(3))
    np.add.at(total, key, costs.cost)
    np.maximum.at(most, key, costs.cost)
    largest_rows = np.flatnonzero(costs.cost == most[key])[::-1]
    first_largest[key[largest_rows]] = largest_rows  # of equal ones the first is written last
    present = np.flatnonzero(n)
    present = present[np.argsort(-total[present], kind="stable")]
    window = np.array([_window(unions, name) for name in rows.devices], np.int64)[costs.device[first_largest[present]]]
    return pd.DataFrame(
        {
            **_labels(costs, first_largest[present], rows),
            "n": n[present],
            "cost_ps": total[present],
            "ratio": total[present] / window,
            "largest_ps": most[present],
            "code": costs.what[first_largest[present]],
            "at": first_largest[present],
        }
    )


def _numbers(costs: _Costs, key: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """How many rows or idle intervals there are of each key 0..count-1: several pieces of an interval may have one."""
    work = len(costs.work)
    return np.bincount(key[:work], minlength=count) + distinct_beside(key[work:], costs.interval, count)


def _labels(costs: _Costs, places: NDArray[np.int64], rows: Rows) -> dict[str, list[Any]]:
    whats = [costs.whats[code] for code in costs.what[places].tolist()]
    return {
        "what": [name for _, _, name in whats],
        "kind": [kind for kind, _, _ in whats],
        "direction": [direction for _, direction, _ in whats],
        "device": [rows.devices[number] for number in costs.device[places].tolist()],
    }


def _window(unions: Unions, device: str) -> int:
    return iv.total(unions.windows[unions.devices[device].clock]) if device in unions.devices else 0


def _spots(costs: _Costs, exposed_rows: Exposed, gaps: pd.DataFrame, places: NDArray[np.int64]) -> Spots:
    """Where the costs at these places are; of a row what it has to itself."""
    start, end, row, next_event = (np.full(len(places), -1) for _ in range(4))
    work, gap = np.flatnonzero(places < len(costs.work)), np.flatnonzero(places >= len(costs.work))
    row[work] = costs.work[places[work]]
    exposed_places = np.searchsorted(exposed_rows.row, row[work])
    start[work], end[work] = exposed_rows.start[exposed_places], exposed_rows.end[exposed_places]
    gap_rows = gaps.iloc[costs.idle[places[gap] - len(costs.work)]]
    start[gap], end[gap] = gap_rows["start_ps"].to_numpy(np.int64), gap_rows["end_ps"].to_numpy(np.int64)
    next_event[gap] = gap_rows["next"].to_numpy(np.int64, na_value=-1)
    return Spots(costs.device[places], start, end, row, next_event)


def locate(spots: Spots, rows: Rows, step_table: pd.DataFrame, ops: pd.DataFrame) -> dict[str, Any]:
    """The columns step, source, framework_op, next and bytes of each, null where not known.

    `step_table` has the columns clock, step, name, start_ps and end_ps; `ops` OP_COLUMNS. The source of a gap is that
    of the work after it, whose name (of the HLO op, or else of the kernel) is `next`.
    """
    work, event = spots.row >= 0, spots.after.copy()
    event[work] = rows.at[spots.row[work]]
    op = np.array(
        [-1 if op_number is None else op_number for op_number in _values_at(rows.events["op"], event)], np.int64
    )
    next_event = np.where(work, -1, event)
    hlo_op, name = _values_at(rows.events["hlo_op"], next_event), _values_at(rows.events["name"], next_event)
    return {
        "step": _step(spots, rows, step_table),
        "source": _values_at(ops["source"], op),
        "framework_op": _values_at(ops["framework_op"], op),
        "next": [hlo_name or kernel_name for hlo_name, kernel_name in zip(hlo_op, name, strict=True)],
        "bytes": pd.array(_values_at(rows.events["bytes"], np.where(work, event, -1)), "Int64"),
    }


def _step(spots: Spots, rows: Rows, step_table: pd.DataFrame) -> list[str | None]:
    """The number of the step in which each starts, or its name if it has none; of steps within steps the last begun."""
    step_names: list[str | None] = [None] * len(spots)
    clock = step_table["clock"].fillna("").to_numpy(object)
    label = step_table["step"].astype(object).where(step_table["step"].notna(), step_table["name"]).to_numpy(object)
    step_starts, step_ends = step_table["start_ps"].to_numpy(np.int64), step_table["end_ps"].to_numpy(np.int64)
    for clock_name in set(clock):
        steps = np.flatnonzero(clock == clock_name)
        steps = steps[np.argsort(step_starts[steps], kind="stable")]
        last_start = np.searchsorted(step_starts[steps], spots.start, side="right") - 1
        for place in np.flatnonzero(last_start >= 0).tolist():
            step = steps[last_start[place]]
            if rows.clocks[spots.device[place]] == clock_name and spots.start[place] < step_ends[step]:
                step_names[place] = str(label[step])
    return step_names


def last_arriver(spots: Spots, collectives_table: pd.DataFrame, instance: NDArray[np.int64]) -> dict[str, Any]:
    """The columns last, the device that came last to each collective, and wait_ps, how long it was waited for there.

    `instance` (n rows,) is each row's `instance` in `collectives_table`, -1 for none. Both are null for all else.
    """
    nulls: NDArray[Any] = np.full(len(spots), None)
    if not len(collectives_table):
        return {"last": nulls, "wait_ps": pd.array(nulls, "Int64")}
    numbers = collectives_table["instance"].to_numpy(np.int64)
    order = np.argsort(numbers)
    instances = np.where(spots.row >= 0, instance[np.maximum(spots.row, 0)], -1)
    table_rows = np.searchsorted(numbers[order], instances)
    table_rows = np.where(np.isin(instances, numbers), order[np.minimum(table_rows, len(order) - 1)], -1)
    last_starts = _values_at(collectives_table["last_start_ps"], table_rows)
    waits = [
        None if last_start is None else max(0, min(last_start, int(end)) - int(start))
        for last_start, start, end in zip(last_starts, spots.start, spots.end, strict=True)
    ]
    return {"last": _values_at(collectives_table["last"], table_rows), "wait_ps": pd.array(waits, "Int64")}


def _values_at(column: pd.Series, places: NDArray[np.int64]) -> NDArray[Any]:
    """The values at these places; None where null or the place is -1."""
    if not len(column):
        return np.full(len(places), None)
    at = np.maximum(places, 0)
    if isinstance(column.dtype, pd.CategoricalDtype):
        values: NDArray[Any] = texts_at(column.array, at)
    else:
        values = column.iloc[at].astype(object).to_numpy(copy=True)
    values[(places < 0) | pd.isna(values)] = None
    return values


def _concurrent_work(
    spots: Spots, cost: NDArray[np.int64], rows: Rows, unions: Unions, named_count: int
) -> dict[str, Any]:
    """What ran while each cost something: its device's own copies and how many others; of the first `named_count`,
    also what."""
    parts, owner = _exposed_parts(spots, rows, unions)
    other_count, busy_ps = others_busy(rows, unions, spots.device, parts, owner)
    part_count = int(np.searchsorted(owner, named_count))
    copying = np.zeros(len(spots), np.int64)
    for device in np.unique(spots.device).tolist():
        part_places = np.flatnonzero(spots.device[owner] == device)
        np.add.at(
            copying, owner[part_places], iv.within(unions.devices[rows.devices[device]].memory, parts[part_places])
        )
    return {
        "memory_ps": pd.arrays.IntegerArray(copying, _kind(spots, rows) != CODE[Kind.COLLECTIVE]),
        "others": other_count,
        "others_busy": pd.arrays.FloatingArray(busy_ps / np.maximum(cost, 1), other_count == 0),
        "meanwhile": busiest_names(rows, unions, spots.device[:named_count], parts[:part_count], owner[:part_count])
        + [None] * (len(spots) - named_count),
    }


def _exposed_parts(spots: Spots, rows: Rows, unions: Unions) -> tuple[iv.Intervals, NDArray[np.int64]]:
    """The intervals in which each cost its device something, and whose they are; those of one stand in order."""
    spans, kind = iv.intervals(spots.start, spots.end), _kind(spots, rows)
    gaps = np.flatnonzero(kind < 0)
    parts, owners = [spans[gaps]], [gaps]
    for device in np.unique(spots.device).tolist():
        for exposed_kind in (Kind.COLLECTIVE, Kind.MEMCPY):
            is_kind = (kind >= 0) & ((kind == CODE[Kind.COLLECTIVE]) == (exposed_kind is Kind.COLLECTIVE))
            spot_places = np.flatnonzero(is_kind & (spots.device == device))
            if not len(spot_places):
                continue
            remaining, owner = subtract_blocks(spans[spot_places], blocking(unions, rows.devices[device], exposed_kind))
            parts.append(remaining)
            owners.append(spot_places[owner])
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return np.concatenate(parts)[order], owner[order]


def subtract_blocks(spans: Intervals, blocked: Intervals) -> tuple[Intervals, NDArray[np.int64]]:
    """The parts of each row of `spans` that the merged set `blocked` does not hold, and the row each is a part of.

    The parts of one row stand in order; rows of `spans` may be in any order and overlap.
    """
    # Each row is cut by the blocks that end after its start and start before its end; k blocks leave k + 1 parts.
    first_block = np.searchsorted(blocked[:, 1], spans[:, 0], side="right")
    cuts = np.maximum(np.searchsorted(blocked[:, 0], spans[:, 1], side="left") - first_block, 0)
    owner = np.repeat(np.arange(len(spans)), cuts + 1)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(cuts + 1) - (cuts + 1), cuts + 1)
    edges = np.concatenate([blocked, np.zeros((1, 2), np.int64)])
    block = first_block[owner] + number
    start = np.where(number == 0, spans[owner, 0], edges[block - 1, 1])
    end = np.where(number == cuts[owner], spans[owner, 1], edges[block, 0])
    nonempty = np.flatnonzero(end > start)
    return iv.intervals(start[nonempty], end[nonempty]), owner[nonempty]


def _kind(spots: Spots, rows: Rows) -> NDArray[np.int64]:
    """The code of each kind, -1 for a gap."""
    kind = np.full(len(spots), -1)
    work = np.flatnonzero(spots.row >= 0)
    kind[work] = rows.kind[spots.row[work]]
    return kind


def others_busy(
    rows: Rows, unions: Unions, device: NDArray[np.int64], parts: Intervals, owner: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many other devices are on the clock of each `device` (n,), and the sum of their busy times in its parts.

    Row i of `parts` belongs to n = `owner[i]`; the parts of one are disjoint. Both results have shape (n,), in ps.
    """
    other_count, busy_ps = np.zeros(len(device), np.int64), np.zeros(len(device), np.int64)
    clock_of = np.array(rows.clocks, object)[device]
    for clock in set(clock_of.tolist()):
        names = [name for name in map(rows.devices.__getitem__, rows.on_clock(clock)) if name in unions.devices]
        of_clock = clock_of == clock
        other_count[of_clock] = len(names)
        part_places = np.flatnonzero(of_clock[owner])
        # All devices at once, and then without its own: of thousands, one by one takes seconds.
        within = iv.union(parts[part_places])
        edges, count = iv.depth(*(iv.intersection(unions.devices[name].busy, within) for name in names))
        np.add.at(busy_ps, owner[part_places], _held(edges, count, parts[part_places]))
    for number in np.unique(device).tolist():
        if rows.devices[number] in unions.devices:
            other_count[device == number] -= 1
            part_places = np.flatnonzero(device[owner] == number)
            own_busy = iv.within(unions.devices[rows.devices[number]].busy, parts[part_places])
            np.subtract.at(busy_ps, owner[part_places], own_busy)
    return other_count, busy_ps


def _held(edges: NDArray[np.int64], count: NDArray[np.int32], windows: Intervals) -> NDArray[np.int64]:
    """The integral of a step function, as intervals.depth gives it, over each row of `windows`."""
    if not len(edges):
        return np.zeros(len(windows), np.int64)
    # Sums that overflow wrap around, and the difference of two of them is right again.
    before = np.append(0, np.cumsum(count[:-1] * np.diff(edges)))
    step = np.clip(np.searchsorted(edges, windows.ravel(), side="right") - 1, 0, None)
    until = before[step] + count[step] * np.maximum(windows.ravel() - edges[step], 0)
    held: NDArray[np.int64] = until[1::2] - until[::2]
    return held


def busiest_names(
    rows: Rows, unions: Unions, device: NDArray[np.int64], parts: Intervals, owner: NDArray[np.int64]
) -> list[str | None]:
    """The name (stem of the HLO op, or else of the kernel) that ran longest on the other devices of each clock.

    As in `others_busy`, but `parts` stand by owner and start. A row of another device counts for what it holds of the
    parts, each row for itself; of equal names it is the first in the alphabet, None if there is none.
    """
    first = np.searchsorted(owner, np.arange(len(device) + 1))
    is_placed = np.array([name in unions.devices for name in rows.devices], bool)
    busiest: list[str | None] = []
    stems: dict[int, str] = {}
    for place, own_device in enumerate(device.tolist()):
        own_parts = parts[first[place] : first[place + 1]]
        time: dict[str, int] = {}
        if len(own_parts):
            is_other = is_placed & rows.same_clock(own_device)
            is_other[own_device] = False
            rows_between = np.flatnonzero((rows.end > own_parts[0, 0]) & (rows.start < own_parts[-1, 1]))
            rows_between = rows_between[is_other[rows.device[rows_between]]]
            distinct_names, name_of_row = np.unique(_name_codes(rows, rows_between), return_inverse=True)
            spans = iv.intervals(rows.start[rows_between], rows.end[rows_between])
            lengths = iv.sums(iv.within(own_parts, spans), name_of_row, len(distinct_names))
            codes = distinct_names.tolist()
            if new := [code for code in codes if code not in stems]:
                stems.update(zip(new, map(stem, _texts(rows, np.array(new))), strict=True))
            for code, ps in zip(codes, lengths, strict=True):
                time[stems[code]] = time.get(stems[code], 0) + ps
        name, ps = min(time.items(), key=lambda item: (-item[1], item[0]), default=("", 0))
        busiest.append(name if ps else None)
    return busiest


def _totals(costs: _Costs, rows: Rows, unions: Unions) -> pd.DataFrame:
    column = np.array([{"collective": 0, IDLE: 2}.get(kind, 1) for kind, _, _ in costs.whats], np.int64)[costs.what]
    sums = np.zeros((len(rows.devices), 3), np.int64)
    np.add.at(sums.reshape(-1), costs.device * 3 + column, costs.cost)
    table = [
        (name, _window(unions, name), *sums[number].tolist())
        for number, name in enumerate(rows.devices)
        if name in unions.devices
    ]
    return frame(TOTAL_COLUMNS, table)
