"""How fast copies and ops went against what their device can do, and how occupied kernels kept it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.analysis.roofline import BITS_16, TF32, UNKNOWN, Limit, Limits, is_tf32, limits, under_roof
from tracekit.columns import frame, numbered
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.timeline import Timeline
from tracekit.timeline.unions import Unions, union_lengths
from tracekit.trace import DIRECTION_DTYPE
from tracekit.units import percent
from tracekit.vocabulary.kinds import Kind

# A link reaches half its rate at the size that takes as long to send as to set up (Hockney's n_1/2,
# https://doi.org/10.1016/S0167-8191(06)80021-9): some 10 us at the 15 to 63 GB/s of a host link are 0.15 to 0.6 MB.
# Smaller copies tell what it takes to set one up, not how fast the link is.
SMALL_BYTES = 2**20
# Below it a kernel stands in the list; what it costs, if anything, occupancy alone does not say
# (https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/#occupancy).
LOW_OCCUPANCY_RATIO = 0.5
# What is known for no more than this share of the kernels' time says nothing of their device.
MOST = 0.5
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
    "peak_of": "str",
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
    "known_ps": "Int64",
    "known_ratio": "Float64",
    "flops": "Float64",
    "known_flops_per_s": "Float64",
    "known_flops_ratio": "Float64",
    "window_flops_per_s": "Float64",
    "busy_flops_per_s": "Float64",
    "peak_flops_per_s": "Float64",
    "peak_from": "str",
    "peak_of": "str",
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
    "coverage_ratio": "Float64",
    "time_coverage_ratio": "Float64",
}
LOW_COLUMNS = {"device": "str", "name": "str", "n": "int64", "time_ps": "int64", "mean_ratio": "Float64"}


@dataclass(frozen=True, repr=False)
class Bandwidth(
    notebook.Result,
    by_device="device busy_ps known_ps known_ratio known_flops_per_s known_flops_ratio peak_of reason",
    copies="device direction n bytes busy_ps bytes_per_s best_bytes_per_s limit_ratio",
    ops="hlo_op device n busy_ps flops_per_s flops_ratio peak_of bytes_per_s bytes_ratio",
):
    """What went how fast; rates are per second, ratios are of the limit, times in ps.

    `copies` (COPY_COLUMNS): one row per device and direction ("unknown" where the trace does not say); those that a
    part of the trace cuts count in `n` and `busy_ps`, and in no `bytes` and rate. `ops`
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


def bandwidth(timeline: Timeline) -> Bandwidth:
    """Rates of copies and of ops with known cost against their limits, and occupancy; docs/concepts.md defines them.

    Rows on unknown devices (`cpu:?`) count nowhere.
    """
    rows, limit_of = timeline.rows, limits(timeline.trace.devices)
    copies, (occupancy, low) = _copies(rows, limit_of, timeline.is_cut), _occupancy(rows)
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


def _copies(rows: Rows, limits_of: Mapping[str, Limits], is_cut: NDArray[np.bool_]) -> pd.DataFrame:
    directions: list[str | None] = [*DIRECTION_DTYPE.categories, None]
    places = _on_known_devices(rows, rows.kind == CODE[Kind.MEMCPY])
    size, sized = rows.numbers("bytes")
    key = rows.device[places] * len(directions) + rows.codes("direction")[places] % len(directions)
    records = []
    for pair in np.unique(key).tolist():
        copies, direction = places[key == pair], directions[pair % len(directions)]
        device = rows.devices[pair // len(directions)]
        device_limits = limits_of.get(device, UNKNOWN)
        memory = None if direction in ("D2D", None) else device_limits.memory.per_s
        spans = iv.intervals(rows.start[copies], rows.end[copies])
        sizes = size[copies], sized[copies], is_cut[copies]
        row = _rates(spans, sizes, device_limits.of_copies(direction), memory)
        records.append({"device": device, "direction": direction or "unknown", "n": len(copies), **row})
    return _table(COPY_COLUMNS, records)


# The size of each copy, whether it is known, and whether only a part of the copy is.
_Sizes = tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]


def _rates(spans: iv.Intervals, sizes: _Sizes, limit: Limit, memory: float | None) -> dict[str, Any]:
    """The rates of copies in one direction; none of them can be faster than the `memory` that it ends or begins in.

    The bytes of a copy that is cut, and its time, count in none.
    """
    size, sized, is_cut = sizes
    sized = sized & ~is_cut
    busy_ps, small = iv.total(spans), sized & (size < SMALL_BYTES)
    time = (spans[:, 1] - spans[:, 0])[sized & ~small]
    reasons = []
    with np.errstate(divide="ignore"):
        single = size[sized & ~small] / time * _PS
    possible = single <= (memory or np.finfo(float).max)
    if not possible.all():
        duration = "no time at all" if memory is None else "less time than the memory needs"
        reasons.append(f"{(~possible).sum():,} of {len(size):,} take {duration}: best and median leave them out")
    single = single[possible]
    unsized, cut = int((~sized & ~is_cut).sum()), int(is_cut.sum())
    total = iv.sum_exactly(size[sized]) if not unsized and cut < len(size) else None
    whole_ps = iv.total(spans[~is_cut]) if cut else busy_ps
    if cut:
        reasons.append(
            f"{cut:,} of {len(size):,} copies {'is' if cut == 1 else 'are'} cut by this part: not in the rate"
        )
    if unsized:
        reasons.append(f"{unsized:,} of {len(size):,} copies state no bytes")
    elif total is not None and not whole_ps:
        reasons.append("the copies take no time")
    rate = total * _PS / whole_ps if total is not None and whole_ps else None
    if limit.reason:
        reasons.append(limit.reason)
    if rate and limit.per_s and rate > limit.per_s:
        reasons.append("more than the limit: out of a cache, or the limit is not that of this device")
    return {
        "bytes": total,
        "busy_ps": busy_ps,
        "bytes_per_s": rate,
        "median_bytes_per_s": float(np.median(single)) if len(single) else None,
        "best_bytes_per_s": float(single.max()) if len(single) else None,
        "small": int(small.sum()),
        "small_busy_ps": iv.total(spans[small]),
        "impossible": int((~possible).sum()),
        "limit_bytes_per_s": limit.per_s,
        "limit_from": limit.source,
        "limit_ratio": _ratio(rate, limit.per_s),
        "reason": "; ".join(reasons) or None,
    }


def _ops(
    rows: Rows, ops: pd.DataFrame, limits_of: Mapping[str, Limits], unions: Unions
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rates of each op with a known cost on each device, and of the devices."""
    costed = (ops["flops"].notna() | ops["bytes_accessed"].notna()).to_numpy(bool)
    number, has_op = rows.numbers("op")
    places = (
        _on_known_devices(rows, has_op & (rows.kind == CODE[Kind.COMPUTE])) if costed.any() else np.empty(0, np.int64)
    )
    places = places[costed[number[places]]]
    if not len(places):
        return frame(OP_RATE_COLUMNS), frame(DEVICE_RATE_COLUMNS)
    device, starts, ends = rows.device[places], rows.start[places], rows.end[places]
    # An op may start several kernels: how often it ran is told by how often each of them did.
    names = len(rows.labels("name"))
    kernel = (device * len(ops) + number[places]) * names + rows.codes("name")[places]
    kernel_of, kernels = numbered(kernel, len(rows.devices) * len(ops) * names)
    op_of, op_keys = pd.factorize(kernels // names)
    counts = np.bincount(kernel_of)
    most_runs, fewest_runs = np.zeros(len(op_keys), np.int64), np.full(len(op_keys), len(places))
    np.maximum.at(most_runs, op_of, counts)
    np.minimum.at(fewest_runs, op_of, counts)
    busy_ps = union_lengths(op_of[kernel_of], len(op_keys), starts, ends)

    order = np.argsort(-busy_ps, kind="stable")
    device_number, op = np.divmod(op_keys[order], len(ops))
    op_table = ops.iloc[op].reset_index(drop=True)
    table = pd.DataFrame({"device": np.array(rows.devices, object)[device_number], "op": op, "busy_ps": busy_ps[order]})
    table = table.assign(hlo_op=op_table["hlo_op"].astype(object), program=op_table["program"].astype(object))
    table = table.assign(flops=op_table["flops"], bytes=op_table["bytes_accessed"])
    table["n"] = pd.arrays.IntegerArray(most_runs[order], most_runs[order] != fewest_runs[order])
    limits_by_device = [limits_of.get(name, UNKNOWN) for name in rows.devices]
    n, flops, bytes_moved = (table[name].to_numpy(float, na_value=np.nan) for name in ("n", "flops", "bytes"))
    of_tf32 = np.array([*map(is_tf32, rows.labels("name")), False], bool)[kernels % names]
    tf32 = np.zeros(len(op_keys), bool)
    np.logical_or.at(tf32, op_of, of_tf32)
    tf32_peak = _per_s(device_limits.tf32_flops for device_limits in limits_by_device)[device_number]
    peak = _per_s(device_limits.flops for device_limits in limits_by_device)[device_number]
    tf32 = tf32[order] & ~np.isnan(tf32_peak)
    peak = np.where(tf32, tf32_peak, peak)
    table["peak_of"] = [
        None if np.isnan(its_peak) else TF32 if is_so else BITS_16 for its_peak, is_so in zip(peak, tf32, strict=True)
    ]
    memory = _per_s(device_limits.memory for device_limits in limits_by_device)
    rate_columns = under_roof(n, flops, bytes_moved, table["busy_ps"].to_numpy() / _PS, peak, memory[device_number])
    table = frame(OP_RATE_COLUMNS, table.assign(**rate_columns))
    costed_ps = union_lengths(device, len(rows.devices), starts, ends)
    is_known = np.empty(len(op_keys), bool)
    is_known[order] = ~np.isnan(n * flops)
    known_ps = union_lengths(np.where(is_known[op_of[kernel_of]], device, -1), len(rows.devices), starts, ends)
    totals = [
        _device(
            rows.devices[number],
            (int(costed_ps[number]), int(known_ps[number])),
            limits_by_device[number],
            table[device_number == number].assign(peak=peak[device_number == number]),
            unions,
        )
        for number in np.unique(device_number).tolist()
    ]
    return table, _table(DEVICE_RATE_COLUMNS, totals)


def _per_s(limits: Iterable[Limit]) -> NDArray[np.float64]:
    return np.array([np.nan if limit.per_s is None else limit.per_s for limit in limits])


def _device(
    name: str, times: tuple[int, int], device_limits: Limits, ops: pd.DataFrame, unions: Unions
) -> dict[str, Any]:
    """The FLOP/s of a device, of the ops whose number is known.

    `times` are those in ps of ops with any stated cost, and of those whose FLOPs are known; `ops` has the `peak` of
    each. That of the device is the rate at which all of them would go at theirs.
    """
    costed_ps, known_ps = times
    known_ops = ops[ops["n"].notna() & ops["flops"].notna()]
    flops = sum(
        runs * of_one for runs, of_one in zip(known_ops["n"].tolist(), known_ops["flops"].tolist(), strict=True)
    )
    device = unions.devices[name]
    busy_ps, window, compute = iv.total(device.busy), iv.total(unions.windows[device.clock]), iv.total(device.compute)
    known_flops = flops if len(known_ops) else None
    reasons = [device_limits.flops.reason] if len(known_ops) else []
    if len(known_ops) < len(ops):
        reasons.append(
            f"{len(ops) - len(known_ops):,} of {len(ops):,} ops are left out: their FLOPs or runs are not known"
        )
    if costed_ps < compute:
        reasons.append(f"no cost is stated for {percent(compute - costed_ps, compute)} of the compute time")
    rate = known_flops * _PS / known_ps if known_flops is not None and known_ps else None
    n, cost, op_peak = (known_ops[column].to_numpy(float, na_value=np.nan) for column in ("n", "flops", "peak"))
    at_peak_s = float((n * cost / op_peak).sum())
    peak = known_flops / at_peak_s if known_flops and not np.isnan(at_peak_s) else device_limits.flops.per_s
    peaks_of = sorted(set(known_ops["peak_of"].dropna()))
    sources = [(device_limits.tf32_flops if name == TF32 else device_limits.flops).source for name in peaks_of]
    is_most = known_flops is not None and known_ps > MOST * compute
    busy_rate = known_flops * _PS / busy_ps if is_most and known_flops is not None and busy_ps else None
    if rate and peak and rate > peak:
        reasons.append("more than the peak: the cost of an op, how often it ran, or the peak is not right")
    return {
        "device": name,
        "window_ps": window,
        "busy_ps": busy_ps,
        "costed_ps": costed_ps,
        "known_ps": known_ps,
        "known_ratio": _ratio(known_ps, compute),
        "flops": known_flops,
        "known_flops_per_s": rate,
        "known_flops_ratio": _ratio(rate, peak),
        "window_flops_per_s": known_flops * _PS / window if is_most and known_flops is not None and window else None,
        "busy_flops_per_s": busy_rate,
        "peak_flops_per_s": peak,
        "peak_from": " and ".join(dict.fromkeys(filter(None, sources))) or device_limits.flops.source,
        "peak_of": " and ".join(peaks_of) or None,
        "busy_flops_ratio": _ratio(busy_rate, peak),
        "memory_bytes_per_s": device_limits.memory.per_s,
        "memory_from": device_limits.memory.source,
        "reason": "; ".join(reason for reason in reasons if reason) or None,
    }


def _occupancy(rows: Rows) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The mean occupancy of each device over the time of its kernels, and the names whose own is low.

    Collectives are left out: they wait for the link, and few blocks are enough for that. Kernels that ran at once each
    count: their times are weights here, no busy time.
    """
    computes = rows.kind == CODE[Kind.COMPUTE]
    places = _on_known_devices(rows, computes & rows.has("occupancy_ratio"))
    ratio = rows.events["occupancy_ratio"].to_numpy(float, na_value=np.nan)[rows.at[places]]
    if np.isnan(ratio).any():  # what is not null may be no number
        places, ratio = places[~np.isnan(ratio)], ratio[~np.isnan(ratio)]
    if not len(places):
        return frame(OCCUPANCY_COLUMNS), frame(LOW_COLUMNS)
    names, devices = np.array(rows.labels("name"), object), np.array(rows.devices, object)
    # Of millions of kernels, few columns are held at once.
    kernels = rows.device[computes]
    all_kernels = np.bincount(kernels, minlength=len(devices))
    kernel_ps = np.bincount(kernels, (rows.end - rows.start)[computes], len(devices))
    del kernels, computes
    device, duration = rows.device[places], rows.end[places] - rows.start[places]
    name_of, keys = numbered(device * len(names) + rows.codes("name")[places], len(devices) * len(names))
    device_number, name = np.divmod(keys, len(names))
    low = pd.DataFrame(
        {"device": devices[device_number], "name": names[name], **_weighted_means(name_of, duration, ratio)}
    )
    low = low[low["mean_ratio"] < LOW_OCCUPANCY_RATIO].sort_values("time_ps", ascending=False, kind="stable")

    by_device = pd.DataFrame({"device": devices, **_weighted_means(device, duration, ratio, len(devices))})
    low_ps = np.bincount(device, duration * (ratio < LOW_OCCUPANCY_RATIO), len(devices))
    with np.errstate(divide="ignore", invalid="ignore"):
        by_device["low_time_ratio"] = low_ps / by_device["time_ps"]
        by_device["coverage_ratio"] = by_device["n"] / all_kernels
        by_device["time_coverage_ratio"] = by_device["time_ps"] / kernel_ps
    by_device = by_device[by_device["n"] > 0]
    return frame(OCCUPANCY_COLUMNS, by_device), frame(LOW_COLUMNS, low)


def _weighted_means(
    key: NDArray[Any], duration: NDArray[np.int64], ratio: NDArray[np.float64], count: int = 0
) -> dict[str, NDArray[Any]]:
    """How many rows each key 0..count-1 has, their times summed in ps, and their ratio's mean over that time."""
    n = np.bincount(key, minlength=count)
    time = np.zeros(len(n), np.int64)
    np.add.at(time, key, duration)
    with np.errstate(divide="ignore", invalid="ignore"):
        return {"n": n, "time_ps": time, "mean_ratio": np.bincount(key, duration * ratio, len(n)) / time}


def _table(columns: Mapping[str, str], records: list[dict[str, Any]]) -> pd.DataFrame:
    return frame(columns, {name: [row.get(name) for row in records] for name in columns})


def _on_known_devices(rows: Rows, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The places of the rows that are `mask` and whose device is known."""
    places = np.flatnonzero(mask)
    return places if all(rows.placed) else places[rows.is_placed[places]]


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
