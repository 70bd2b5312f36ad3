"""What the collectives cost: waiting for the last device against moving data, and who was last.

An instance is one collective on all its devices (tracekit.timeline.collectives). A device waits from its own start to
that of the last device; what is left of its time is transfer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.analysis.slow_groups import GROUP_COLUMNS, groups_by_bandwidth
from tracekit.analysis.stragglers import DEVICE_COLUMNS, HOST_COLUMNS, Members, by_number, late_devices, late_hosts
from tracekit.columns import frame
from tracekit.devices import type_of
from tracekit.timeline.instances import DONE_PS, MATCHED_BY, CollectiveInstances, Unseen
from tracekit.timeline.rows import Rows
from tracekit.timeline.timeline import Timeline, why_unseen
from tracekit.timeline.unions import Unions
from tracekit.vocabulary.collectives import OPERATIONS
from tracekit.vocabulary.kinds import function_name
from tracekit.vocabulary.losses import MANY_MISSING

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
    "recorded_wait_ps": "Int64",
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

_NONE_WHOLE = "No collective is in this part of the trace with all its time and devices: waiting is not known."
_NOT_ALL = "not seen on all its ranks, so its waiting is not known"

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class Collectives(
    notebook.Result,
    total="collectives shared devices device_time_ps waiting_ps wait_ratio hidden_ps exposed_ps",
    by_op="category ranks bytes n duration_ps wait_ratio bus_bytes_per_s exposed_ps",
    by_device="device collectives last cost_ps waiting_ps exposed_ps straggler",
):
    """The collectives of a trace, per instance, per device, and per operation and size.

    `table` (COLLECTIVE_COLUMNS): one row per instance, by first start. `by_device` (DEVICE_COLUMNS): one row per device
    that ran any. `by_host` (HOST_COLUMNS): one row per host, where several took part, some with several devices; none
    else. `by_group` (GROUP_COLUMNS): one row per group of devices whose bandwidth can be held against that of others.
    `by_op` (OP_COLUMNS): one row per category, number of ranks and power of two of bytes, that of most
    device time first. `total` (TOTAL_COLUMNS): one row, or none. `alone`: why nothing is known of waiting, skew and
    stragglers, "" if it is. `notes`: what could not be matched, or only under an assumption. `lacking`: why there is
    nothing at all, "" if there is.
    """

    table: pd.DataFrame
    by_device: pd.DataFrame
    by_host: pd.DataFrame
    by_op: pd.DataFrame
    by_group: pd.DataFrame
    total: pd.DataFrame
    alone: str
    notes: tuple[str, ...]
    lacking: str


def collectives(timeline: Timeline, missing: str = "") -> Collectives:
    """What each instance, device and kind of collective cost; `missing` says which ranks are not in the trace.

    Times are in ps, bandwidths in bytes per second. Hidden and exposed time is what lies inside the timeline's windows,
    behind or beside the device's own compute; collectives that ran at once on a device count each. An instance
    without a row of each of its ranks, be it that a rank is not in the trace or that a row was cut off or lost, has no
    wait, skew, transfer or last device, since another may have come later; its bandwidth is a lower bound
    (`at_least`). Where it lacks less than MANY_MISSING of its ranks, it has them, as lower bounds.
    """
    rows, unions, instances = timeline.rows, timeline.unions, timeline.collectives
    if not (instances.instance >= 0).any():
        table, by_device, by_host = map(frame, (COLLECTIVE_COLUMNS, DEVICE_COLUMNS, HOST_COLUMNS))
        by_op, by_group, total = map(frame, (OP_COLUMNS, GROUP_COLUMNS, TOTAL_COLUMNS))
        nothing = "The trace holds no collectives."
        return Collectives(table, by_device, by_host, by_op, by_group, total, "", (), nothing)
    members = _members(rows, instances, unions, timeline.world_size or 0)
    table = _table(rows, members, instances)
    by_device = late_devices(rows, members, unions)
    by_host = late_hosts(rows, members, unions, by_device, _residuals(timeline.trace.hosts))
    alone = _unknown_waiting(by_device, missing, why_unseen(timeline))
    if alone and not missing and timeline.is_narrowed:
        alone = _NONE_WHOLE
    power = _powers(table["bytes"])
    by_op, by_group = _by_op(members, table, power), groups_by_bandwidth(rows, members, table, power)
    return Collectives(table, by_device, by_host, by_op, by_group, _total(members), alone, instances.notes, "")


def _residuals(hosts: pd.DataFrame) -> dict[str, int]:
    """By how much, in ps, the clock of each host may still be off, of those where that is known."""
    known = hosts[hosts["residual_ps"].notna()]
    return dict(zip(known["host"].astype(str), known["residual_ps"].abs().astype(int), strict=True))


def _members(rows: Rows, instances: CollectiveInstances, unions: Unions, world_size: int) -> Members:
    """The rows of collectives, of which there is at least one; `world_size` ranks take part where nothing else says how
    many, 0 if that is not known."""
    instance = instances.instance
    at = np.flatnonzero(instance >= 0)
    at = at[np.argsort(instance[at], kind="stable")]
    first = np.flatnonzero(np.diff(instance[at], prepend=-1))
    sizes = np.diff(first, append=len(at))
    device, start, end = rows.device[at], rows.start[at], rows.end[at]
    last_start = np.repeat(np.maximum.reduceat(start, first), sizes)
    late, wait = start == last_start, np.minimum(last_start, end) - start
    hidden, exposed, exposed_wait = (np.zeros(len(at), np.int64) for _ in range(3))
    ranks = np.where(instances.ranks > 0, instances.ranks, world_size)
    for number, places in by_number(device):
        name = rows.devices[number]
        window = unions.windows.get(rows.clocks[number], iv.EMPTY)
        compute = unions.devices[name].compute if name in unions.devices else iv.EMPTY
        spans = iv.intervals(start[places], end[places])
        hidden[places] = iv.within(compute, spans)
        exposed[places] = iv.within(window, spans) - hidden[places]
        # Had nobody been late, each row would have ended so much sooner: waiting at its begin that compute hides costs
        # nothing, unless the row then outlasts the compute.
        waiting = iv.intervals(end[places] - wait[places], end[places])
        exposed_wait[places] = iv.within(window, waiting) - iv.within(compute, waiting)
    return Members(
        at=at,
        first=first,
        size=np.repeat(sizes, sizes),
        shared=np.repeat((sizes > 1) & (instances.complete | _nearly(sizes, ranks)), sizes),
        device=device,
        start=start,
        end=end,
        last_start=last_start,
        wait=wait,
        late=late,
        lates=np.repeat(np.add.reduceat(late.astype(np.int64), first), sizes),
        hidden=hidden,
        exposed=exposed,
        exposed_wait=exposed_wait,
    )


def _nearly(sizes: Column, ranks: Column) -> Mask:
    """Which instances (m,) lack no rank but a few of many that no other has either: of a thousand hosts, the files of
    some are always missing."""
    most = np.zeros(int(ranks.max(initial=0)) + 1, np.int64)
    np.maximum.at(most, ranks, sizes)
    missing = ranks - sizes
    nearly: Mask = (missing > 0) & (missing < MANY_MISSING * ranks) & (sizes == most[ranks])
    return nearly


def _table(rows: Rows, members: Members, instances: CollectiveInstances) -> pd.DataFrame:
    """One row per instance."""
    events_at = rows.at[members.at]
    first_event = events_at[members.first]
    size = members.size[members.first]
    is_shared = members.shared[members.first]
    start, end = members.over(np.minimum, members.start), members.over(np.maximum, members.end)
    last_start = members.last_start[members.first]
    stated_wait = rows.events["wait_ps"].array.take(events_at)
    sizes = rows.events["bytes"].array.take(events_at)
    # Where ranks send differently much, the one that sends most decides.
    largest = members.over(np.maximum, sizes.to_numpy(np.int64, na_value=-1))
    data: dict[str, Any] = {
        "instance": np.arange(len(size)),
        "op": _ops(rows, first_event),
        "category": np.array(instances.operations, object)[instances.operation],
        "group": _texts(rows, "group", first_event),
        "clock": np.array(rows.clocks, object)[members.device[members.first]],
        "matched_by": np.array([by.value for by in MATCHED_BY], object)[instances.matched_by],
        "devices": size,
        "ranks": _nullable(instances.ranks, instances.ranks > 0),
        "start_ps": start,
        "last_start_ps": _nullable(last_start, is_shared),
        "end_ps": end,
        "skew_ps": _nullable(last_start - start, is_shared),
        "end_skew_ps": _nullable(end - members.over(np.minimum, members.end), is_shared),
        "last": _last_device(rows, members),
        "wait_ps": _nullable(members.over(np.add, members.wait), is_shared),
        "exposed_wait_ps": _nullable(members.over(np.add, members.exposed_wait), is_shared),
        "recorded_wait_ps": _nullable(
            members.over(np.add, stated_wait.to_numpy(np.int64, na_value=0)),
            np.logical_and.reduceat(~np.asarray(stated_wait.isna()), members.first),
        ),
        "transfer_ps": _nullable(end - last_start, is_shared),
        "device_time_ps": members.over(np.add, members.end - members.start),
        "shortest_ps": members.over(np.minimum, members.end - members.start),
        "longest_ps": members.over(np.maximum, members.end - members.start),
        "hidden_ps": members.over(np.add, members.hidden),
        "exposed_ps": members.over(np.add, members.exposed),
        "bytes": _nullable(largest, largest >= 0),
    }
    time = end - last_start
    data |= rates(instances.operations, instances.operation, largest, time, instances.ranks, size)
    data["at_least"] |= ~data["algorithm_bytes_per_s"].isna() & _landed_earlier(rows, members, stated_wait)
    unseen = (size > 1) & ~is_shared
    texts = [f"{_NOT_ALL}; {reason}" if reason else _NOT_ALL for reason in data["reason"][unseen]]
    data["reason"][unseen] = texts
    return frame(COLLECTIVE_COLUMNS, data)


def _landed_earlier(rows: Rows, members: Members, wait: Any) -> Mask:
    """Which instances (m,) may have ended before their last row did: on a TPU an asynchronous one lasts until its done,
    which comes when the core gets there, and waits for what has not landed by then; `wait` (c,) is for how long it did,
    null where the row is of none."""
    is_tpu = np.array([type_of(name) == "tpu" for name in rows.devices], bool)[members.device]
    known, length = ~np.asarray(wait.isna()), members.end - members.start
    waited = wait.to_numpy(np.int64, na_value=0)
    is_open = is_tpu & known & (waited < length) & (waited <= DONE_PS)
    is_last = members.end == members.each(members.over(np.maximum, members.end))
    landed_earlier: Mask = np.logical_and.reduceat(~is_last | is_open, members.first)
    return landed_earlier


def _ops(rows: Rows, places: Column) -> NDArray[np.object_]:
    """The HLO op of each of the rows `places` of the frame, else its kernel's name without arguments."""
    ops = _texts(rows, "hlo_op", places)
    names = np.array([function_name(name) for name in rows.labels("name")], object)
    return np.asarray(np.where(pd.isna(ops), names[rows.events["name"].cat.codes.to_numpy()[places]], ops), object)


def _texts(rows: Rows, column: str, places: Column) -> NDArray[np.object_]:
    """A categorical column at the rows `places` of the frame; None where it is null."""
    return np.array([*rows.labels(column), None], object)[rows.events[column].cat.codes.to_numpy()[places]]


def _last_device(rows: Rows, members: Members) -> NDArray[np.object_]:
    """The device that started last in each instance (m,); None where several did, or where there is no other."""
    place = members.over(np.maximum, np.where(members.late, members.device, -1))
    names = np.array([*rows.devices, None], object)
    return np.asarray(
        names[np.where((members.lates == 1)[members.first] & members.shared[members.first], place, -1)], object
    )


def rates(
    operations: Sequence[str], operation: Column, size_bytes: Column, time: Column, ranks: Column, size: Column
) -> dict[str, Any]:
    """Algorithm and bus bandwidth of m collectives, whether they are lower bounds, and why what is null.

    Algorithm bandwidth is bytes over time. Bus bandwidth is that times a factor, which makes it comparable with the
    speed of the links whatever the number of ranks, as NCCL's tests count it:
    https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md

    `operation` (m,) is a place in `operations`; `size_bytes` (m,) is -1 where that is unknown; `time` in ps, the whole
    time of those seen on one device. `ranks` is how many take part, 0 where that is unknown, and then the devices seen
    count, of which there are `size`. A rate is a lower bound if a rank was not seen: it may have started later.
    """
    n = np.where(ranks > 0, ranks, np.where(size > 1, size, 0))
    factor_of_operation = [OPERATIONS[name].bus if name in OPERATIONS else None for name in operations]
    factors = np.array([-1 if factor is None else factor for factor in factor_of_operation], np.int64)[operation]
    has_bytes = size_bytes >= 0
    timed = has_bytes & (time > 0)
    algorithm = np.where(timed, size_bytes * 1e12 / np.maximum(time, 1), 0)
    factor = np.where(factors > 0, factors * (n - 1) / np.maximum(n, 1), 1)
    has_bus_rate = timed & (factors >= 0) & ((n > 1) | (factors == 0))
    reasons = (
        ((size == 1) & (n != 1), "seen on one device only, so its waiting is not known"),
        (~has_bytes, "the trace does not say how many bytes it moved"),
        (has_bytes & (time == 0), "no time is left after the last start"),
        (timed & (factors < 0), "which collective its kernel ran is not known, so its bus bandwidth is not"),
        (timed & (factors > 0) & (n == 0), "how many ranks took part is not known, so its bus bandwidth is not"),
        (timed & (factors > 0) & (n == 1), "one rank alone moves nothing between ranks"),
    )
    return {
        "algorithm_bytes_per_s": pd.arrays.FloatingArray(algorithm, ~timed),
        "bus_bytes_per_s": pd.arrays.FloatingArray(np.where(has_bus_rate, algorithm * factor, 0), ~has_bus_rate),
        "at_least": timed & ((size < n) | (n == 0)),
        "reason": _join_reasons(reasons),
    }


def _join_reasons(reasons: Sequence[tuple[NDArray[np.bool_], str]]) -> NDArray[np.object_]:
    """The texts whose masks (m,) are true, joined by `; `; None where none is."""
    code = np.zeros(len(reasons[0][0]), np.int64)
    for bit, (mask, _) in enumerate(reasons):
        code |= mask.astype(np.int64) << bit
    codes, values = pd.factorize(code)
    texts = ["; ".join(text for bit, (_, text) in enumerate(reasons) if value >> bit & 1) or None for value in values]
    return np.array(texts, object)[codes]


def _powers(sizes: pd.Series) -> pd.Series:
    """The power of two at or below each size; 0 of 0, null of null."""
    numbers = sizes.to_numpy(np.int64, na_value=0)
    power = np.where(numbers > 0, np.int64(1) << np.maximum(np.frexp(numbers.astype(float))[1] - 1, 0), 0)
    return pd.Series(_nullable(power, sizes.notna().to_numpy()))


def _by_op(members: Members, table: pd.DataFrame, power: pd.Series) -> pd.DataFrame:
    """One row per category, number of ranks and `power` of two of bytes, the one that took most device time first."""
    is_shared = members.shared[members.first]
    keyed = table.assign(
        ranks=table["ranks"].fillna(table["devices"].where(is_shared)),
        size_bytes=power,
        shared_time_ps=table["device_time_ps"].where(is_shared, 0),
    )
    groups = keyed.groupby(["category", "ranks", "size_bytes"], dropna=False, sort=False)
    sums = ["bytes", "wait_ps", "shared_time_ps", "device_time_ps", "exposed_ps"]
    table_by_op = groups[sums].sum(min_count=1).join(groups[["algorithm_bytes_per_s", "bus_bytes_per_s"]].median())
    table_by_op = table_by_op.assign(n=groups.size(), at_least=groups["at_least"].any()).reset_index()
    durations = pd.Series(members.end - members.start).groupby(members.each(groups.ngroup().to_numpy())).median()
    table_by_op["duration_ps"] = durations.to_numpy().round()
    table_by_op["wait_ratio"] = (table_by_op["wait_ps"] / table_by_op["shared_time_ps"]).where(
        table_by_op["shared_time_ps"] > 0
    )
    table_by_op = table_by_op.sort_values("device_time_ps", ascending=False, kind="stable", ignore_index=True)
    return frame(OP_COLUMNS, table_by_op)


def _total(members: Members) -> pd.DataFrame:
    """All collectives in one row; the wait's ratio is over the device time of those seen on several devices."""
    is_shared = members.shared
    waiting = iv.sum_exactly(members.wait[is_shared])
    shared_ps = iv.sum_exactly((members.end - members.start)[is_shared])
    row = {
        "collectives": len(members.first),
        "shared": int(is_shared[members.first].sum()),
        "devices": len(np.unique(members.device)),
        "device_time_ps": iv.sum_exactly(members.end - members.start),
        "shared_time_ps": shared_ps,
        "waiting_ps": waiting if is_shared.any() else None,
        "exposed_wait_ps": iv.sum_exactly(members.exposed_wait[is_shared]) if is_shared.any() else None,
        "wait_ratio": waiting / shared_ps if shared_ps else None,
        "hidden_ps": iv.sum_exactly(members.hidden),
        "exposed_ps": iv.sum_exactly(members.exposed),
    }
    return frame(TOTAL_COLUMNS, {name: [value] for name, value in row.items()})


def _unknown_waiting(by_device: pd.DataFrame, missing: str, cause: Unseen | None) -> str:
    """Why nothing is known of waiting; "" if it is of some."""
    if by_device["n"].any():
        return ""
    if missing:
        return missing
    unknown = "waiting, skew and stragglers cannot be computed"
    if len(by_device) == 1:
        return f"The trace shows the collectives of one device only: {unknown} from one rank alone."
    if cause == Unseen.CLOCKS:
        return f"The clocks of the ranks are not aligned, so that no collective could be matched: {unknown}."
    return f"No collective could be matched over the devices of the trace: {unknown}."


def _nullable(values: Column, valid: Mask) -> pd.arrays.IntegerArray:
    return pd.arrays.IntegerArray(np.where(valid, values, 0), ~valid)
