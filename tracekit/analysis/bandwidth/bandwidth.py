"""How fast copies and ops went against what their device can do, and how occupied kernels kept it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.analysis.bandwidth.limits import UNKNOWN, Limit, Limits, limits
from tracekit.analysis.bandwidth.roofline import place
from tracekit.columns import frame
from tracekit.jit import loop
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.timeline import Timeline
from tracekit.timeline.unions import Unions
from tracekit.trace import DIRECTION_DTYPE
from tracekit.vocabulary.kinds import Kind

# A link reaches half its rate at the size that takes as long to send as to set up (Hockney's n_1/2,
# https://doi.org/10.1016/S0167-8191(06)80021-9): some 10 us at the 15 to 63 GB/s of a host link are 0.15 to 0.6 MB.
# Smaller copies tell what it takes to set one up, not how fast the link is.
SMALL_BYTES = 2**20
# Below it a kernel stands in the list; what it costs, if anything, occupancy alone does not say
# (https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/#occupancy).
LOW_OCCUPANCY_RATIO = 0.5
_PS = 10**12  # in a second

COPY_COLUMNS = {
    "device": "str",
    "direction": "str",
    "n": "int64",
    "bytes": "Int64",
    "busy_ps": "int64",
    "bytes_per_s": "Float64",
    "median_bytes_per_s": "Float64",
    "best_bytes_per_s": "Float64",
    "small": "int64",
    "small_busy_ps": "int64",
    "impossible": "int64",
    "limit_bytes_per_s": "Float64",
    "limit_from": "str",
    "limit_ratio": "Float64",
    "reason": "str",
}
OP_RATE_COLUMNS = {
    "device": "str",
    "op": "int64",
    "hlo_op": "str",
    "program": "str",
    "n": "Int64",
    "busy_ps": "int64",
    "flops": "Int64",
    "bytes": "Int64",
    "flops_per_s": "Float64",
    "flops_ratio": "Float64",
    "bytes_per_s": "Float64",
    "bytes_ratio": "Float64",
    "flops_per_byte": "Float64",
    "bound": "str",
    "roof_ratio": "Float64",
    "reason": "str",
}
DEVICE_RATE_COLUMNS = {
    "device": "str",
    "window_ps": "int64",
    "busy_ps": "int64",
    "costed_ps": "int64",
    "flops": "Float64",
    "window_flops_per_s": "Float64",
    "busy_flops_per_s": "Float64",
    "peak_flops_per_s": "Float64",
    "peak_from": "str",
    "busy_flops_ratio": "Float64",
    "memory_bytes_per_s": "Float64",
    "memory_from": "str",
    "reason": "str",
}
OCCUPANCY_COLUMNS = {
    "device": "str",
    "n": "int64",
    "time_ps": "int64",
    "mean_ratio": "Float64",
    "low_time_ratio": "Float64",
    "told_ratio": "Float64",
}
LOW_COLUMNS = {"device": "str", "name": "str", "n": "int64", "time_ps": "int64", "mean_ratio": "Float64"}


@dataclass(frozen=True)
class Bandwidth:
    """What went how fast; rates are per second, ratios are of the limit, times in ps.

    `copies` (COPY_COLUMNS): one row per device and direction ("unknown" where the trace does not say). `ops`
    (OP_RATE_COLUMNS): one row per device and op of `Trace.ops` with a known cost, the longest first. `by_device`
    (DEVICE_RATE_COLUMNS): the sums of those. `occupancy` (OCCUPANCY_COLUMNS): one row per device, `low` (LOW_COLUMNS)
    one per device and name below LOW_OCCUPANCY_RATIO, the longest first. `reasons` says by the name of a frame why it
    is empty, `lacking` why all are.
    """

    copies: pd.DataFrame
    ops: pd.DataFrame
    by_device: pd.DataFrame
    occupancy: pd.DataFrame
    low: pd.DataFrame
    reasons: Mapping[str, str] = field(default_factory=dict)
    lacking: str = ""

    def __repr__(self) -> str:
        return notebook.line(self)

    def _repr_html_(self) -> str:
        return notebook.result(
            self,
            by_device="device busy_ps busy_flops_per_s peak_flops_per_s busy_flops_ratio reason",
            copies="device direction n bytes busy_ps bytes_per_s best_bytes_per_s limit_ratio",
            ops="hlo_op device n busy_ps flops_per_s flops_ratio bytes_per_s bytes_ratio",
        )


def bandwidth(timeline: Timeline) -> Bandwidth:
    """Rates of copies and of ops with known cost against their limits, and occupancy; docs/concepts.md defines them.

    Rows on unknown devices (`cpu:?`) count nowhere.
    """
    rows, limit_of = timeline.rows, limits(timeline.trace.devices)
    copies, (occupancy, low) = _copies(rows, limit_of), _occupancy(rows)
    rates, by_device = _ops(rows, timeline.trace.ops, limit_of, timeline.unions)
    reasons = {}
    if not len(copies):
        reasons["copies"] = "The trace holds no copies on a known device."
    if not len(rates):
        reasons["ops"] = "The trace does not say how many FLOPs or bytes an op takes."
    if not len(occupancy):
        reasons["occupancy"] = "The trace does not say how occupied the kernels kept their device."
    lacking = " ".join(reasons.values()) if len(reasons) == 3 else ""
    return Bandwidth(copies, rates, by_device, occupancy, low, reasons, lacking)


def _table(columns: Mapping[str, str], made: list[dict[str, Any]]) -> pd.DataFrame:
    return frame(columns, {name: [row.get(name) for row in made] for name in columns})


def _placed(rows: Rows, held: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The places of the rows that are `held` and whose device is known."""
    at = np.flatnonzero(held)
    return at if all(rows.placed) else at[np.array(rows.placed, bool)[rows.device[at]]]


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _copies(rows: Rows, able: Mapping[str, Limits]) -> pd.DataFrame:
    ways: list[str | None] = [*DIRECTION_DTYPE.categories, None]
    at = _placed(rows, rows.kind == CODE[Kind.MEMCPY])
    size, sized = rows.numbers("bytes")
    key = rows.device[at] * len(ways) + rows.codes("direction")[at] % len(ways)
    made = []
    for one in np.unique(key).tolist():
        mine, device, way = at[key == one], rows.devices[one // len(ways)], ways[one % len(ways)]
        known = able.get(device, UNKNOWN)
        memory = None if way in ("D2D", None) else known.memory.per_s
        spans = iv.intervals(rows.start[mine], rows.end[mine])
        row = _rates(spans, size[mine], sized[mine], known.of_copies(way), memory)
        made.append({"device": device, "direction": way or "unknown", "n": len(mine), **row})
    return _table(COPY_COLUMNS, made)


def _rates(
    spans: iv.Intervals, size: NDArray[np.int64], sized: NDArray[np.bool_], limit: Limit, memory: float | None
) -> dict[str, Any]:
    """The rates of copies in one direction; none of them can be faster than the `memory` that it ends or begins in."""
    busy, small = iv.total(spans), sized & (size < SMALL_BYTES)
    time = (spans[:, 1] - spans[:, 0])[sized & ~small]
    reasons = []
    with np.errstate(divide="ignore"):
        single = size[sized & ~small] / time * _PS
    possible = single <= (memory or np.finfo(float).max)
    if not possible.all():
        what = "no time at all" if memory is None else "less time than the memory needs"
        reasons.append(f"{(~possible).sum():,} of {len(size):,} take {what}: best and median leave them out")
    single = single[possible]
    total = iv.sum_exactly(size) if sized.all() else None
    if total is None:
        reasons.append(f"{(~sized).sum():,} of {len(size):,} copies state no bytes")
    elif not busy:
        reasons.append("the copies take no time")
    rate = total * _PS / busy if total is not None and busy else None
    if limit.reason:
        reasons.append(limit.reason)
    if rate and limit.per_s and rate > limit.per_s:
        reasons.append("more than the limit: out of a cache, or the limit is not that of this device")
    return {
        "bytes": total,
        "busy_ps": busy,
        "bytes_per_s": rate,
        "median_bytes_per_s": float(np.median(single)) if len(single) else None,
        "best_bytes_per_s": float(single.max()) if len(single) else None,
        "small": int(small.sum()),
        "small_busy_ps": iv.total(spans[small]),
        "impossible": int((~possible).sum()),
        "limit_bytes_per_s": limit.per_s,
        "limit_from": limit.told_by,
        "limit_ratio": _ratio(rate, limit.per_s),
        "reason": "; ".join(reasons) or None,
    }


def _ops(rows: Rows, ops: pd.DataFrame, able: Mapping[str, Limits], seen: Unions) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rates of each op with a known cost on each device, and of the devices."""
    costed = (ops["flops"].notna() | ops["bytes_accessed"].notna()).to_numpy(bool)
    number, has_op = rows.numbers("op")
    at = _placed(rows, has_op & (rows.kind == CODE[Kind.COMPUTE])) if costed.any() else np.empty(0, np.int64)
    at = at[costed[number[at]]]
    if not len(at):
        return frame(OP_RATE_COLUMNS), frame(DEVICE_RATE_COLUMNS)
    device, begun, done = rows.device[at], rows.start[at], rows.end[at]
    # An op may start several kernels: how often it ran is told by how often each of them did.
    names = len(rows.labels("name"))
    kernel = (device * len(ops) + number[at]) * names + rows.codes("name")[at]
    kernel_of, kernels = _numbered(kernel, len(rows.devices) * len(ops) * names)
    op_of, found = pd.factorize(kernels // names)
    counts = np.bincount(kernel_of)
    most, least = np.zeros(len(found), np.int64), np.full(len(found), len(at))
    np.maximum.at(most, op_of, counts)
    np.minimum.at(least, op_of, counts)
    busy = _added_up(op_of[kernel_of], len(found), begun, done)

    order = np.argsort(-busy, kind="stable")
    which, op = np.divmod(found[order], len(ops))
    told = ops.iloc[op].reset_index(drop=True)
    made = pd.DataFrame({"device": np.array(rows.devices, object)[which], "op": op, "busy_ps": busy[order]})
    made = made.assign(hlo_op=told["hlo_op"].astype(object), program=told["program"].astype(object))
    made = made.assign(flops=told["flops"], bytes=told["bytes_accessed"])
    made["n"] = pd.arrays.IntegerArray(most[order], most[order] != least[order])
    able_of = [able.get(name, UNKNOWN) for name in rows.devices]
    n, flops, moved = (made[name].to_numpy(float, na_value=np.nan) for name in ("n", "flops", "bytes"))
    peak, memory = _per_s(one.flops for one in able_of), _per_s(one.memory for one in able_of)
    placed = place(n, flops, moved, made["busy_ps"].to_numpy() / _PS, peak[which], memory[which])
    made = frame(OP_RATE_COLUMNS, made.assign(**placed))
    costed_ps = _added_up(device, len(rows.devices), begun, done)
    totals = [
        _device(rows.devices[one], int(costed_ps[one]), able_of[one], made[which == one], seen)
        for one in np.unique(which).tolist()
    ]
    return made, _table(DEVICE_RATE_COLUMNS, totals)


def _numbered(key: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Keys 0..count-1 numbered without gaps, and the key of each number."""
    if count > len(key):
        return pd.factorize(key)
    held = np.bincount(key, minlength=count) > 0
    return (np.cumsum(held) - 1)[key], np.flatnonzero(held)


def _added_up(key: NDArray[Any], count: int, start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """The length of the union of the rows of each key 0..count-1, in ps; the rows of a key stand in order of start."""
    length, reach = np.zeros(count, np.int64), np.full(count, np.iinfo(np.int64).min)
    loop(add_up, len(key))(key, start, end, length, reach)
    return length


def add_up(key: Any, start: Any, end: Any, length: Any, reach: Any) -> None:
    """Add to the `length` of each row's key what it holds past `reach`, where the rows of the key before it ended."""
    for row in range(len(key)):
        one = key[row]
        begun = max(start[row], reach[one])
        if end[row] > begun:
            length[one] += end[row] - begun
            reach[one] = end[row]


def _per_s(limits: Iterable[Limit]) -> NDArray[np.float64]:
    return np.array([np.nan if one.per_s is None else one.per_s for one in limits])


def _device(name: str, costed_ps: int, able: Limits, ops: pd.DataFrame, seen: Unions) -> dict[str, Any]:
    """The FLOP/s of a device, of the ops whose number is known."""
    told = ops[ops["n"].notna() & ops["flops"].notna()]
    flops = sum(n * cost for n, cost in zip(told["n"].tolist(), told["flops"].tolist(), strict=True))
    device = seen.devices[name]
    busy, window, compute = iv.total(device.busy), iv.total(seen.windows[device.clock]), iv.total(device.compute)
    known = flops if len(told) else None
    reasons = [able.flops.reason] if len(told) else []
    if len(told) < len(ops):
        reasons.append(
            f"left out are {len(ops) - len(told):,} of {len(ops):,} ops without FLOPs or a known number of runs"
        )
    if costed_ps < compute:
        reasons.append(f"no cost is stated for {100 - 100 * costed_ps / compute:.1f} % of the compute time")
    rate = known * _PS / busy if known is not None and busy else None
    if rate and able.flops.per_s and rate > able.flops.per_s:
        reasons.append("more than the peak: the cost of an op, how often it ran, or the peak is not right")
    return {
        "device": name,
        "window_ps": window,
        "busy_ps": busy,
        "costed_ps": costed_ps,
        "flops": known,
        "window_flops_per_s": known * _PS / window if known is not None and window else None,
        "busy_flops_per_s": rate,
        "peak_flops_per_s": able.flops.per_s,
        "peak_from": able.flops.told_by,
        "busy_flops_ratio": _ratio(rate, able.flops.per_s),
        "memory_bytes_per_s": able.memory.per_s,
        "memory_from": able.memory.told_by,
        "reason": "; ".join(reason for reason in reasons if reason) or None,
    }


def _occupancy(rows: Rows) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The mean occupancy of each device over the time of its kernels, and the names whose own is low.

    Collectives are left out: they wait for the link, and few blocks are enough for that. Kernels that ran at once each
    count: their times are weights here, no busy time.
    """
    ratio = rows.events["occupancy_ratio"].to_numpy(float, na_value=np.nan)[rows.at]
    computes = rows.kind == CODE[Kind.COMPUTE]
    at = _placed(rows, computes & ~np.isnan(ratio))
    if not len(at):
        return frame(OCCUPANCY_COLUMNS), frame(LOW_COLUMNS)
    ratio, device, took = ratio[at], rows.device[at], rows.end[at] - rows.start[at]
    names, devices = np.array(rows.labels("name"), object), np.array(rows.devices, object)
    name_of, found = _numbered(device * len(names) + rows.codes("name")[at], len(devices) * len(names))
    which, name = np.divmod(found, len(names))
    low = pd.DataFrame({"device": devices[which], "name": names[name], **_weighed(name_of, took, ratio)})
    low = low[low["mean_ratio"] < LOW_OCCUPANCY_RATIO].sort_values("time_ps", ascending=False, kind="stable")

    whole = pd.DataFrame({"device": devices, **_weighed(device, took, ratio, len(devices))})
    low_ps = np.bincount(device, took * (ratio < LOW_OCCUPANCY_RATIO), len(devices))
    kernels = np.bincount(rows.device[computes], minlength=len(devices))
    with np.errstate(divide="ignore", invalid="ignore"):
        whole["low_time_ratio"], whole["told_ratio"] = low_ps / whole["time_ps"], whole["n"] / kernels
    whole = whole[whole["n"] > 0]
    return frame(OCCUPANCY_COLUMNS, whole), frame(LOW_COLUMNS, low)


def _weighed(
    key: NDArray[Any], took: NDArray[np.int64], ratio: NDArray[np.float64], count: int = 0
) -> dict[str, NDArray[Any]]:
    """How many rows each key 0..count-1 has, their times summed in ps, and their ratio's mean over that time."""
    n = np.bincount(key, minlength=count)
    time = np.zeros(len(n), np.int64)
    np.add.at(time, key, took)
    with np.errstate(divide="ignore", invalid="ignore"):
        return {"n": n, "time_ps": time, "mean_ratio": np.bincount(key, took * ratio, len(n)) / time}
