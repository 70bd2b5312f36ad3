"""What the collectives cost: waiting for the last device against moving data, and who was last.

An instance is one collective on all its devices (tracekit.timeline.collectives). A device waits from its own start to
that of the last device (tracekit.analysis.collectives.lateness); what is left of its time is transfer.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.analysis.collectives.bus import rates
from tracekit.analysis.collectives.lateness import Waits, waits
from tracekit.columns import frame
from tracekit.timeline.collectives.instances import MATCHED_BY, CollectiveInstances
from tracekit.timeline.rows import Rows
from tracekit.timeline.timeline import Timeline
from tracekit.timeline.unions import Unions
from tracekit.vocabulary.names import function

COLLECTIVE_COLUMNS = {
    "instance": "int64",
    "op": "str",
    "category": "str",
    "group": "str",
    "clock": "str",
    "matched_by": "str",
    "devices": "int64",
    "ranks": "Int64",
    "start_ps": "int64",
    "last_start_ps": "Int64",
    "end_ps": "int64",
    "skew_ps": "Int64",
    "end_skew_ps": "Int64",
    "last": "str",
    "wait_ps": "Int64",
    "exposed_wait_ps": "Int64",
    "told_wait_ps": "Int64",
    "transfer_ps": "Int64",
    "device_time_ps": "int64",
    "shortest_ps": "int64",
    "longest_ps": "int64",
    "hidden_ps": "int64",
    "exposed_ps": "int64",
    "bytes": "Int64",
    "algorithm_bytes_per_s": "Float64",
    "bus_bytes_per_s": "Float64",
    "at_least": "bool",
    "reason": "str",
}
DEVICE_COLUMNS = {
    "device": "str",
    "collectives": "int64",
    "n": "int64",
    "last": "int64",
    "expected_last": "Float64",
    "cost_ps": "Int64",
    "exposed_cost_ps": "Int64",
    "held_up_ratio": "Float64",
    "straggler": "bool",
    "waiting_ps": "Int64",
    "transfer_ps": "Int64",
    "device_time_ps": "int64",
    "hidden_ps": "int64",
    "exposed_ps": "int64",
}
OP_COLUMNS = {
    "category": "str",
    "ranks": "Int64",
    "size_bytes": "Int64",
    "n": "int64",
    "bytes": "Int64",
    "duration_ps": "int64",
    "wait_ratio": "Float64",
    "algorithm_bytes_per_s": "Float64",
    "bus_bytes_per_s": "Float64",
    "at_least": "bool",
    "device_time_ps": "int64",
    "exposed_ps": "int64",
}
TOTAL_COLUMNS = {
    "collectives": "int64",
    "shared": "int64",
    "devices": "int64",
    "device_time_ps": "int64",
    "shared_time_ps": "int64",
    "waiting_ps": "Int64",
    "exposed_wait_ps": "Int64",
    "wait_ratio": "Float64",
    "hidden_ps": "int64",
    "exposed_ps": "int64",
}

# Fewer collectives do not show a habit.
FEWEST = 8
# As far above chance, in standard deviations, a device must be last for that to be a habit.
DEVIATIONS = 3.0
# A smaller share of the window, lost by each of the others, is not worth a word.
WORTH_TELLING = 0.01

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Collectives:
    """The collectives of a trace, per instance, per device, and per operation and size.

    `table` (COLLECTIVE_COLUMNS): one row per instance, by first start. `by_device` (DEVICE_COLUMNS): one row per device
    that ran any. `by_op` (OP_COLUMNS): one row per category, number of ranks and power of two of bytes, that of most
    device time first. `total` (TOTAL_COLUMNS): one row, or none. `alone`: why nothing is known of waiting, skew and
    stragglers, "" if it is. `notes`: what could not be matched, or only under an assumption. `lacking`: why there is
    nothing at all, "" if there is.
    """

    table: pd.DataFrame
    by_device: pd.DataFrame
    by_op: pd.DataFrame
    total: pd.DataFrame
    alone: str
    notes: tuple[str, ...]
    lacking: str

    def __repr__(self) -> str:
        return notebook.line(self)

    def _repr_html_(self) -> str:
        return notebook.result(
            self,
            total="collectives shared devices device_time_ps waiting_ps wait_ratio hidden_ps exposed_ps",
            by_op="category ranks bytes n duration_ps wait_ratio bus_bytes_per_s exposed_ps",
            by_device="device collectives last cost_ps waiting_ps exposed_ps straggler",
        )


@dataclass(frozen=True)
class _Beside:
    """Of each row (c,), in ps inside the window: its time behind its device's compute, beside it, and of its wait that
    beside it."""

    hidden: Column
    exposed: Column
    exposed_wait: Column


def collectives(timeline: Timeline) -> Collectives:
    """What each instance, device and kind of collective cost.

    Times are in ps, bandwidths in bytes per second. Hidden and exposed time is what lies inside the timeline's windows,
    behind or beside the device's own compute;
    collectives that ran at once on a device count each. An instance of which the trace shows one device alone has no
    wait, skew, transfer or last device; its bandwidth, and that of one of which some ranks are not shown, is a lower
    bound (`at_least`).
    """
    rows, unions, found = timeline.rows, timeline.unions, timeline.collectives
    if not (found.instance >= 0).any():
        table, by_device, by_op, total = (
            frame(columns) for columns in (COLLECTIVE_COLUMNS, DEVICE_COLUMNS, OP_COLUMNS, TOTAL_COLUMNS)
        )
        return Collectives(table, by_device, by_op, total, "", (), "The trace holds no collectives.")
    part = waits(rows, found.instance)
    beside = _beside(rows, part, unions)
    table = _table(rows, part, beside, found)
    by_device = _by_device(rows, part, beside, table["last"].notna().to_numpy(), unions)
    total = _total(part, beside)
    return Collectives(table, by_device, _by_op(part, table), total, _alone(table, by_device), found.notes, "")


def _beside(rows: Rows, part: Waits, seen: Unions) -> _Beside:
    """What of each row ran behind its device's compute, and what beside it."""
    hidden, exposed, waited = (np.zeros(len(part), np.int64) for _ in range(3))
    for mine, device in _devices(part):
        name = rows.devices[device]
        window = seen.windows.get(rows.clocks[device], iv.EMPTY)
        compute = seen.devices[name].compute if name in seen.devices else iv.EMPTY
        whole = iv.intervals(part.start[mine], part.end[mine])
        hidden[mine] = iv.within(compute, whole)
        exposed[mine] = iv.within(window, whole) - hidden[mine]
        waiting = iv.intervals(part.start[mine], part.start[mine] + part.wait[mine])
        waited[mine] = iv.within(window, waiting) - iv.within(compute, waiting)
    return _Beside(hidden, exposed, waited)


def _devices(part: Waits) -> list[tuple[Column, int]]:
    """The rows of each device that has any, by start."""
    order = np.argsort(part.device.astype(np.min_scalar_type(part.device.max())), kind="stable")
    begins = np.flatnonzero(np.diff(part.device[order], prepend=-1))
    return [(mine, int(part.device[mine[0]])) for mine in np.split(order, begins[1:])]


def _table(rows: Rows, part: Waits, beside: _Beside, found: CollectiveInstances) -> pd.DataFrame:
    """One row per instance."""
    at = rows.at[part.at]
    one = at[part.first]
    size = part.size[part.first]
    many = size > 1
    start, end = part.over(np.minimum, part.start), part.over(np.maximum, part.end)
    last_start = part.last_start[part.first]
    told = rows.events["wait_ps"].array.take(at)
    moved = rows.events["bytes"].array.take(at)
    # Where ranks send differently much, the one that sends most decides.
    largest = part.over(np.maximum, moved.to_numpy(np.int64, na_value=-1))
    data: dict[str, Any] = {
        "instance": np.arange(len(size)),
        "op": _ops(rows, one),
        "category": np.array(found.operations, object)[found.operation],
        "group": _texts(rows, "group", one),
        "clock": np.array(rows.clocks, object)[part.device[part.first]],
        "matched_by": np.array([by.value for by in MATCHED_BY], object)[found.matched_by],
        "devices": size,
        "ranks": _nullable(found.ranks, found.ranks > 0),
        "start_ps": start,
        "last_start_ps": _nullable(last_start, many),
        "end_ps": end,
        "skew_ps": _nullable(last_start - start, many),
        "end_skew_ps": _nullable(end - part.over(np.minimum, part.end), many),
        "last": _last(rows, part),
        "wait_ps": _nullable(part.over(np.add, part.wait), many),
        "exposed_wait_ps": _nullable(part.over(np.add, beside.exposed_wait), many),
        "told_wait_ps": _nullable(
            part.over(np.add, told.to_numpy(np.int64, na_value=0)),
            np.logical_and.reduceat(~np.asarray(told.isna()), part.first),
        ),
        "transfer_ps": _nullable(end - last_start, many),
        "device_time_ps": part.over(np.add, part.end - part.start),
        "shortest_ps": part.over(np.minimum, part.end - part.start),
        "longest_ps": part.over(np.maximum, part.end - part.start),
        "hidden_ps": part.over(np.add, beside.hidden),
        "exposed_ps": part.over(np.add, beside.exposed),
        "bytes": _nullable(largest, largest >= 0),
    }
    time = end - np.where(many, last_start, start)
    return frame(COLLECTIVE_COLUMNS, data | rates(found.operations, found.operation, largest, time, found.ranks, size))


def _ops(rows: Rows, at: Column) -> NDArray[np.object_]:
    """The HLO op of each of the rows `at` of the frame, else its kernel's name without arguments."""
    ops = _texts(rows, "hlo_op", at)
    names = np.array([function(name) for name in rows.labels("name")], object)
    return np.asarray(np.where(pd.isna(ops), names[rows.events["name"].cat.codes.to_numpy()[at]], ops), object)


def _texts(rows: Rows, column: str, at: Column) -> NDArray[np.object_]:
    """A categorical column at the rows `at` of the frame; None where it is null."""
    return np.array([*rows.labels(column), None], object)[rows.events[column].cat.codes.to_numpy()[at]]


def _last(rows: Rows, part: Waits) -> NDArray[np.object_]:
    """The device that started last in each instance (m,); None where several did, or where there is no other."""
    place = part.over(np.maximum, np.where(part.late, part.device, -1))
    names = np.array([*rows.devices, None], object)
    return np.asarray(names[np.where((part.lates == 1)[part.first] & (part.size > 1)[part.first], place, -1)], object)


def _by_device(rows: Rows, part: Waits, beside: _Beside, told: Mask, seen: Unions) -> pd.DataFrame:
    """One row per device: how often it was last, what that cost the others, and where its own time went.

    `told` (m,): whether one device was last in the instance.
    """
    cost, exposed_cost = part.cost(part.wait), part.cost(beside.exposed_wait)
    alone, one_last = part.size == 1, part.each(told)
    data = []
    for mine, device in _devices(part):
        shared = mine[~alone[mine]]
        chance = 1 / part.size[shared[one_last[shared]]]
        last = int((part.late & one_last)[shared].sum())
        window = iv.total(seen.windows.get(rows.clocks[device], iv.EMPTY))
        lost = float((exposed_cost[shared] / (part.size[shared] - 1)).sum())
        ratio = lost / window if window else 0.0
        some = len(shared) > 0
        row = (
            rows.devices[device],
            len(mine),
            len(shared),
            last,
            float(chance.sum()) if some else None,
            iv.sum_exactly(cost[shared]) if some else None,
            iv.sum_exactly(exposed_cost[shared]) if some else None,
            ratio if some and window else None,
            straggles(last, chance, ratio),
            iv.sum_exactly(part.wait[shared]) if some else None,
            iv.sum_exactly((part.end - part.start - part.wait)[shared]) if some else None,
            iv.sum_exactly((part.end - part.start)[mine]),
            iv.sum_exactly(beside.hidden[mine]),
            iv.sum_exactly(beside.exposed[mine]),
        )
        data.append(row)
    return frame(DEVICE_COLUMNS, data)


def straggles(last: int, chance: NDArray[np.float64], held_up_ratio: float) -> bool:
    """Whether a device that was last `last` times is a straggler.

    `chance` (n,): how likely it is last in each of its n collectives in which one device was, if all are alike: one
    over their number. It must have been last DEVIATIONS standard deviations more often than that gives, in FEWEST
    collectives or more, and have held up each of the others for WORTH_TELLING of the window, on average.
    """
    if len(chance) < FEWEST or held_up_ratio < WORTH_TELLING:
        return False
    return last - float(chance.sum()) >= DEVIATIONS * math.sqrt(float((chance * (1 - chance)).sum()))


def _by_op(part: Waits, table: pd.DataFrame) -> pd.DataFrame:
    """One row per category, number of ranks and size, the one that took most device time first."""
    many = (table["devices"] > 1).to_numpy()
    moved = table["bytes"].to_numpy(np.int64, na_value=0)
    power = np.where(moved > 0, np.int64(1) << np.maximum(np.frexp(moved.astype(float))[1] - 1, 0), 0)
    keyed = table.assign(
        ranks=table["ranks"].fillna(table["devices"].where(many)),
        size_bytes=_nullable(power, table["bytes"].notna().to_numpy()),
        shared_time_ps=table["device_time_ps"].where(many, 0),
    )
    groups = keyed.groupby(["category", "ranks", "size_bytes"], dropna=False, sort=False)
    sums = ["bytes", "wait_ps", "shared_time_ps", "device_time_ps", "exposed_ps"]
    found = groups[sums].sum(min_count=1).join(groups[["algorithm_bytes_per_s", "bus_bytes_per_s"]].median())
    found = found.assign(n=groups.size(), at_least=groups["at_least"].any()).reset_index()
    durations = pd.Series(part.end - part.start).groupby(part.each(groups.ngroup().to_numpy())).median()
    found["duration_ps"] = durations.to_numpy().round()
    found["wait_ratio"] = (found["wait_ps"] / found["shared_time_ps"]).where(found["shared_time_ps"] > 0)
    found = found.sort_values("device_time_ps", ascending=False, kind="stable", ignore_index=True)
    return frame(OP_COLUMNS, found)


def _total(part: Waits, beside: _Beside) -> pd.DataFrame:
    """All collectives in one row; the wait's ratio is over the device time of those seen on several devices."""
    shared = part.size > 1
    waiting, of = iv.sum_exactly(part.wait[shared]), iv.sum_exactly((part.end - part.start)[shared])
    row = {
        "collectives": len(part.first),
        "shared": int(shared[part.first].sum()),
        "devices": len(np.unique(part.device)),
        "device_time_ps": iv.sum_exactly(part.end - part.start),
        "shared_time_ps": of,
        "waiting_ps": waiting if shared.any() else None,
        "exposed_wait_ps": iv.sum_exactly(beside.exposed_wait[shared]) if shared.any() else None,
        "wait_ratio": waiting / of if of else None,
        "hidden_ps": iv.sum_exactly(beside.hidden),
        "exposed_ps": iv.sum_exactly(beside.exposed),
    }
    return frame(TOTAL_COLUMNS, {name: [value] for name, value in row.items()})


def _alone(table: pd.DataFrame, by_device: pd.DataFrame) -> str:
    """Why nothing is known of waiting; "" if it is."""
    if (table["devices"] > 1).any():
        return ""
    unknown = "waiting, skew, who was last and stragglers are not computable"
    if len(by_device) == 1:
        return f"The trace shows the collectives of one device only: {unknown} from one rank alone."
    return f"No collective could be matched over the devices of the trace: {unknown}."


def _nullable(values: Column, known: Mask) -> pd.arrays.IntegerArray:
    return pd.arrays.IntegerArray(np.where(known, values, 0), ~known)
