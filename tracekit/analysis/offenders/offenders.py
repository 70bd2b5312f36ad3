"""What costs a device the most: the exposed collectives and copies and the idle gaps, ranked by the time they cost."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.analysis.offenders.exposed import Exposed, blocking, exposed, remains
from tracekit.analysis.offenders.meanwhile import busiest_names, others_busy, stem
from tracekit.analysis.offenders.whereabouts import Spots, last_arriver, where
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
    rows, seen = timeline.rows, timeline.unions
    found = exposed(rows, seen)
    costs = _costs(rows, seen, found, gaps)
    groups = _groups(costs, rows, seen)
    table = groups.drop_duplicates("code")
    table = table.assign(devices=groups.groupby("code").size().loc[table["code"]].to_numpy())
    table = table.head(MOST_GROUPS).reset_index(drop=True)
    at = np.append(table["at"].to_numpy(np.int64), _top(costs.cost, MOST_INSTANCES))
    spots = _spots(costs, found, gaps, at)
    told = pd.DataFrame(
        _named(costs, at, rows)
        | {"cost_ps": costs.cost[at], "start_ps": spots.start, "end_ps": spots.end}
        | where(spots, rows, step_table, timeline.trace.ops)
        | last_arriver(spots, collectives_table, timeline.collectives.instance)
        | _beside(spots, costs.cost[at], rows, seen, named=len(table))
    )
    return Offenders(
        frame(TABLE_COLUMNS, {**told.iloc[: len(table)], **table}),
        frame(BY_DEVICE_COLUMNS, groups),
        frame(INSTANCE_COLUMNS, told.iloc[len(table) :]),
        _totals(costs, rows, seen),
        groups["code"].nunique(),
        len(costs.cost),
        "" if any(rows.placed) else "The trace holds no work on a known device.",
    )


def _costs(rows: Rows, seen: Unions, found: Exposed, gaps: pd.DataFrame) -> _Costs:
    costly = np.flatnonzero(found.cost)
    at = found.row[costly]
    # The HLO op says more than the kernel that it started.
    labels, ways = [*rows.labels("hlo_op"), *rows.labels("name")], [*DIRECTION_DTYPE.categories, None]
    name = rows.codes("hlo_op")[at]
    name = np.where(name >= 0, name, len(labels) - len(rows.labels("name")) + rows.codes("name")[at])
    way = rows.codes("direction")[at] % len(ways)
    code, distinct = pd.factorize((name * len(ways) + way) * len(KINDS) + rows.kind[at])
    whats: dict[_What, int] = {}
    renamed = np.zeros(len(distinct), np.int64)
    for place, one in enumerate(distinct.tolist()):
        rest, kind = divmod(one, len(KINDS))
        what = (KINDS[kind], ways[rest % len(ways)], stem(labels[rest // len(ways)]))
        renamed[place] = whats.setdefault(what, len(whats))

    numbers = {device: number for number, device in enumerate(rows.devices) if device in seen.devices}
    device_of, devices = pd.factorize(gaps["device"])
    cause_of, causes = pd.factorize(gaps["cause"])
    device = np.array([*(numbers.get(str(one), -1) for one in devices), -1])[device_of]
    cause = np.array([*(whats.setdefault((IDLE, None, str(one)), len(whats)) for one in causes), -1])[cause_of]
    lasted = gaps["end_ps"].to_numpy(np.int64) - gaps["start_ps"].to_numpy(np.int64)
    idle = np.flatnonzero((device >= 0) & (lasted > 0))
    columns = ((rows.device[at], device[idle]), (renamed[code], cause[idle]), (found.cost[costly], lasted[idle]))
    return _Costs(list(whats), at, idle, *(np.concatenate(both) for both in columns))


def _spots(costs: _Costs, found: Exposed, gaps: pd.DataFrame, at: NDArray[np.int64]) -> Spots:
    """Where the costs at these places are; of a row what it has to itself."""
    start, end, row, after = (np.full(len(at), -1) for _ in range(4))
    work, gap = np.flatnonzero(at < len(costs.work)), np.flatnonzero(at >= len(costs.work))
    row[work] = costs.work[at[work]]
    own = np.searchsorted(found.row, row[work])
    start[work], end[work] = found.start[own], found.end[own]
    told = gaps.iloc[costs.idle[at[gap] - len(costs.work)]]
    start[gap], end[gap] = told["start_ps"].to_numpy(np.int64), told["end_ps"].to_numpy(np.int64)
    after[gap] = told["next"].to_numpy(np.int64, na_value=-1)
    return Spots(costs.device[at], start, end, row, after)


def _top(cost: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The places of the largest `most` values, the largest first, of equal ones the first."""
    at = np.arange(len(cost))
    if len(cost) > most:
        # Each of `most` blocks has a value as large as the least of their largest: so many to sort are enough.
        blocks = np.arange(most) * len(cost) // most
        at = np.flatnonzero(cost >= np.maximum.reduceat(cost, blocks).min())
    return at[np.argsort(-cost[at], kind="stable")[:most]]


def _named(costs: _Costs, at: NDArray[np.int64], rows: Rows) -> dict[str, list[Any]]:
    whats = [costs.whats[one] for one in costs.what[at].tolist()]
    return {
        "what": [name for _, _, name in whats],
        "kind": [kind for kind, _, _ in whats],
        "direction": [direction for _, direction, _ in whats],
        "device": [rows.devices[one] for one in costs.device[at].tolist()],
    }


def _groups(costs: _Costs, rows: Rows, seen: Unions) -> pd.DataFrame:
    """One row per device and what, the costliest first; `code` is the what, `at` the place of the largest in costs."""
    key = costs.device * len(costs.whats) + costs.what
    count = len(rows.devices) * len(costs.whats)
    n, total, largest, at = np.bincount(key, minlength=count), *(np.zeros(count, np.int64) for _ in range(3))
    np.add.at(total, key, costs.cost)
    np.maximum.at(largest, key, costs.cost)
    hit = np.flatnonzero(costs.cost == largest[key])[::-1]
    at[key[hit]] = hit  # of equal ones the first is written last
    used = np.flatnonzero(n)
    used = used[np.argsort(-total[used], kind="stable")]
    window = np.array([_window(seen, name) for name in rows.devices], np.int64)[costs.device[at[used]]]
    return pd.DataFrame(
        {
            **_named(costs, at[used], rows),
            "n": n[used],
            "cost_ps": total[used],
            "ratio": total[used] / window,
            "largest_ps": largest[used],
            "code": costs.what[at[used]],
            "at": at[used],
        }
    )


def _window(seen: Unions, device: str) -> int:
    return iv.total(seen.windows[seen.devices[device].clock]) if device in seen.devices else 0


def _totals(costs: _Costs, rows: Rows, seen: Unions) -> pd.DataFrame:
    sort = np.array([{"collective": 0, IDLE: 2}.get(kind, 1) for kind, _, _ in costs.whats], np.int64)[costs.what]
    sums = np.zeros((len(rows.devices), 3), np.int64)
    np.add.at(sums.reshape(-1), costs.device * 3 + sort, costs.cost)
    made = [
        (name, _window(seen, name), *sums[number].tolist())
        for number, name in enumerate(rows.devices)
        if name in seen.devices
    ]
    return frame(TOTAL_COLUMNS, made)


def _exposed_parts(spots: Spots, rows: Rows, seen: Unions) -> tuple[iv.Intervals, NDArray[np.int64]]:
    """The intervals in which each cost its device something, and whose they are; those of one stand in order."""
    spans, kind = iv.intervals(spots.start, spots.end), _kind(spots, rows)
    gaps = np.flatnonzero(kind < 0)
    parts, owners = [spans[gaps]], [gaps]
    for device in np.unique(spots.device).tolist():
        for one in (Kind.COLLECTIVE, Kind.MEMCPY):
            alike = (kind >= 0) & ((kind == CODE[Kind.COLLECTIVE]) == (one is Kind.COLLECTIVE))
            mine = np.flatnonzero(alike & (spots.device == device))
            if not len(mine):
                continue
            left, owner = remains(spans[mine], blocking(seen, rows.devices[device], one))
            parts.append(left)
            owners.append(mine[owner])
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return np.concatenate(parts)[order], owner[order]


def _kind(spots: Spots, rows: Rows) -> NDArray[np.int64]:
    """The code of each kind, -1 for a gap."""
    kind = np.full(len(spots), -1)
    work = np.flatnonzero(spots.row >= 0)
    kind[work] = rows.kind[spots.row[work]]
    return kind


def _beside(spots: Spots, cost: NDArray[np.int64], rows: Rows, seen: Unions, named: int) -> dict[str, Any]:
    """What ran while each cost something: its device's own copies, how many others; for the first `named`, what."""
    parts, owner = _exposed_parts(spots, rows, seen)
    others, busy = others_busy(rows, seen, spots.device, parts, owner)
    most = int(np.searchsorted(owner, named))
    copying = np.zeros(len(spots), np.int64)
    for device in np.unique(spots.device).tolist():
        mine = np.flatnonzero(spots.device[owner] == device)
        np.add.at(copying, owner[mine], iv.within(seen.devices[rows.devices[device]].memory, parts[mine]))
    return {
        "memory_ps": pd.arrays.IntegerArray(copying, _kind(spots, rows) != CODE[Kind.COLLECTIVE]),
        "others": others,
        "others_busy": pd.arrays.FloatingArray(busy / np.maximum(cost, 1), others == 0),
        "meanwhile": busiest_names(rows, seen, spots.device[:named], parts[:most], owner[:most])
        + [None] * (len(spots) - named),
    }
