"""What costs a device the most: the exposed collectives and copies and the idle gaps, ranked by the time they cost."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.analysis.offenders.exposed import Exposed, blocking, exposed, subtract_blocks
from tracekit.analysis.offenders.meanwhile import busiest_names, others_busy, stem
from tracekit.analysis.offenders.whereabouts import Spots, last_arriver, locate
from tracekit.columns import frame
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.timeline import Timeline
from tracekit.timeline.unions import Unions
from tracekit.trace import DIRECTION_DTYPE, KIND_DTYPE
from tracekit.vocabulary.kinds import Kind

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


@dataclass(frozen=True)
class Offenders:
    """The offenders, the costliest first; times in ps, `ratio` is of the device's window.

    `table` (TABLE_COLUMNS): one row per what, on the device that it cost most, of `devices` that it cost anything;
    from `start_ps` on the columns are those of the largest instance there. `by_device` (BY_DEVICE_COLUMNS): one row per
    what and device. `instances` (INSTANCE_COLUMNS): single ones. Kept are the first MOST_GROUPS of the table and
    MOST_INSTANCES of the instances; `groups` and `found` say how many there are. `totals` (TOTAL_COLUMNS): the sums
    over each device.
    """

    table: pd.DataFrame
    by_device: pd.DataFrame
    instances: pd.DataFrame
    totals: pd.DataFrame
    groups: int
    found: int
    lacking: str = ""

    def __repr__(self) -> str:
        return notebook.line(self)

    def _repr_html_(self) -> str:
        return notebook.result(
            self,
            table="what direction device n cost_ps ratio largest_ps source meanwhile",
            totals="",
        )


# Kind (one of KINDS), direction of a copy, and name or cause.
_What = tuple[str, str | None, str]


@dataclass(frozen=True)
class _Costs:
    """All that cost its device something, as columns of shape (n,): first the rows in their order, then the gaps.

    `device` is its number in Rows, `what` indexes `whats`, `cost` > 0 is in ps. `work` (k,) are the rows' places in
    Rows, `idle` (n - k,) those of the gaps in their frame.
    """

    whats: list[_What]
    work: NDArray[np.int64]
    idle: NDArray[np.int64]
    device: NDArray[np.int64]
    what: NDArray[np.int64]
    cost: NDArray[np.int64]


def offenders(
    timeline: Timeline, gaps: pd.DataFrame, collectives_table: pd.DataFrame, step_table: pd.DataFrame
) -> Offenders:
    """The exposed time of every collective and copy (analysis.offenders.exposed) and every idle gap, by what it costs.

    `gaps` are the idle intervals (device, start_ps, end_ps, cause, next: a place in the events); `step_table` (clock,
    step, name, start_ps, end_ps) names the step in which an offender starts; `collectives_table` knows the device that
    came last.
    """
    rows, unions = timeline.rows, timeline.unions
    exposed_rows = exposed(rows, unions)
    costs = _costs(rows, unions, exposed_rows, gaps)
    groups = _groups(costs, rows, unions)
    table = groups.drop_duplicates("code")
    table = table.assign(devices=groups.groupby("code").size().loc[table["code"]].to_numpy())
    table = table.head(MOST_GROUPS).reset_index(drop=True)
    places = np.append(table["at"].to_numpy(np.int64), _top(costs.cost, MOST_INSTANCES))
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


def _costs(rows: Rows, unions: Unions, exposed_rows: Exposed, gaps: pd.DataFrame) -> _Costs:
    costly = np.flatnonzero(exposed_rows.cost)
    places = exposed_rows.row[costly]
    # The HLO op says more than the kernel that it started.
    labels, directions = [*rows.labels("hlo_op"), *rows.labels("name")], [*DIRECTION_DTYPE.categories, None]
    name = rows.codes("hlo_op")[places]
    name = np.where(name >= 0, name, len(labels) - len(rows.labels("name")) + rows.codes("name")[places])
    direction = rows.codes("direction")[places] % len(directions)
    code, distinct = pd.factorize((name * len(directions) + direction) * len(KINDS) + rows.kind[places])
    whats: dict[_What, int] = {}
    renamed = np.zeros(len(distinct), np.int64)
    for place, key in enumerate(distinct.tolist()):
        remainder, kind = divmod(key, len(KINDS))
        group = (KINDS[kind], directions[remainder % len(directions)], stem(labels[remainder // len(directions)]))
        renamed[place] = whats.setdefault(group, len(whats))

    numbers = {device: number for number, device in enumerate(rows.devices) if device in unions.devices}
    device_of, devices = pd.factorize(gaps["device"])
    cause_of, causes = pd.factorize(gaps["cause"])
    device = np.array([*(numbers.get(str(name), -1) for name in devices), -1])[device_of]
    cause = np.array([*(whats.setdefault((IDLE, None, str(cause_name)), len(whats)) for cause_name in causes), -1])[
        cause_of
    ]
    length = gaps["end_ps"].to_numpy(np.int64) - gaps["start_ps"].to_numpy(np.int64)
    idle = np.flatnonzero((device >= 0) & (length > 0))
    columns = (
        (rows.device[places], device[idle]),
        (renamed[code], cause[idle]),
        (exposed_rows.cost[costly], length[idle]),
    )
    return _Costs(list(whats), places, idle, *(np.concatenate(pair) for pair in columns))


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


def _top(cost: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The places of the largest `most` values, the largest first, of equal ones the first."""
    places = np.arange(len(cost))
    if len(cost) > most:
        # Each of `most` blocks has a value as large as the least of their largest: so many to sort are enough.
        blocks = np.arange(most) * len(cost) // most
        places = np.flatnonzero(cost >= np.maximum.reduceat(cost, blocks).min())
    return places[np.argsort(-cost[places], kind="stable")[:most]]


def _labels(costs: _Costs, places: NDArray[np.int64], rows: Rows) -> dict[str, list[Any]]:
    whats = [costs.whats[code] for code in costs.what[places].tolist()]
    return {
        "what": [name for _, _, name in whats],
        "kind": [kind for kind, _, _ in whats],
        "direction": [direction for _, direction, _ in whats],
        "device": [rows.devices[number] for number in costs.device[places].tolist()],
    }


def _groups(costs: _Costs, rows: Rows, unions: Unions) -> pd.DataFrame:
    """One row per device and what, the costliest first; `code` is the what, `at` the place of the largest in costs."""
    key = costs.device * len(costs.whats) + costs.what
    count = len(rows.devices) * len(costs.whats)
    n, total, largest, first_largest = np.bincount(key, minlength=count), *(np.zeros(count, np.int64) for _ in range(3))
    np.add.at(total, key, costs.cost)
    np.maximum.at(largest, key, costs.cost)
    largest_rows = np.flatnonzero(costs.cost == largest[key])[::-1]
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
            "largest_ps": largest[present],
            "code": costs.what[first_largest[present]],
            "at": first_largest[present],
        }
    )


def _window(unions: Unions, device: str) -> int:
    return iv.total(unions.windows[unions.devices[device].clock]) if device in unions.devices else 0


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


def _kind(spots: Spots, rows: Rows) -> NDArray[np.int64]:
    """The code of each kind, -1 for a gap."""
    kind = np.full(len(spots), -1)
    work = np.flatnonzero(spots.row >= 0)
    kind[work] = rows.kind[spots.row[work]]
    return kind


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
