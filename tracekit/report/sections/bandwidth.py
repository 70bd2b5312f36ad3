"""Rates of copies and ops, and occupancy, as the report shows them."""

from typing import Any

import pandas as pd

from tracekit.analysis.bandwidth.bandwidth import LOW_OCCUPANCY_RATIO, SMALL_BYTES, Bandwidth
from tracekit.columns import records
from tracekit.report.section import Section, Titled, plain
from tracekit.units import percent, rate, short, size, time

# What stands in the tables, and in summary.json of each long list.
_SHOWN, _KEPT = 8, 1000
_DEVICE, _OP, _KERNEL = 11, 20, 36


def section(result: Bandwidth) -> Section:
    """The slowest part of each kind in a sentence, then copies, ops and kernels by the time they took."""
    if result.lacking:
        return Section("bandwidth", "Bandwidth and utilisation", lacking=result.lacking)
    copies = result.copies.sort_values("busy_ps", ascending=False, kind="stable")
    found = [
        (_copies_said, copies, _copies(copies)),
        (_device_said, result.by_device, _ops(result.ops)),
        (_occupancy_said, result.occupancy.sort_values("mean_ratio", kind="stable"), _low(result.low)),
    ]
    past = result.ops.head(_SHOWN)
    past = past[(past["flops_ratio"] > 1) | (past["bytes_ratio"] > 1)]
    said = [say(records(table)[0]) for say, table, _ in found if len(table)]
    said += [f"{row['hlo_op']} of {row['device']} shows {row['reason']}." for row in records(past.head(1))]
    return Section(
        "bandwidth",
        "Bandwidth and utilisation",
        said=said,
        tables=[titled for _, _, titled in found if titled[2]],
        data=_data(result),
    )


def _copies_said(row: dict[str, Any]) -> str:
    """What the copies that took longest reached."""
    kind = "" if row["direction"] == "unknown" else f"{row['direction']} "
    some = f"{row['n']:,} {kind}copies" if row["n"] > 1 else f"The only {kind}copy"
    said = f"{some} of {row['device']} took {time(row['busy_ps'])}"
    if pd.notna(row["bytes_per_s"]):
        said += f", at {rate(row['bytes_per_s'], 'B/s')}"
    if pd.notna(row["limit_ratio"]):
        limit = f"{rate(row['limit_bytes_per_s'], 'B/s')} ({row['limit_from']})"
        said += f": {percent(row['limit_ratio'])} of the limit of {limit}"
    if row["small"]:
        which = "all of them" if row["small"] == row["n"] else f"{row['small']:,} of them"
        what = f"{which} under {size(SMALL_BYTES)}, whose time is mostly that of starting a copy"
        said += f"; {what}" if row["small"] < row["n"] else f", {what}"
    return f"{said}." + (f" Note: {row['reason']}." if pd.notna(row["reason"]) else "")


def _device_said(row: dict[str, Any]) -> str:
    if pd.isna(row["busy_flops_per_s"]):
        return f"How many FLOP/s {row['device']} did is not known: {row['reason']}."
    said = f"{row['device']} did {rate(row['busy_flops_per_s'], 'FLOP/s')} while it was busy"
    if pd.notna(row["busy_flops_ratio"]):
        peak = f"{rate(row['peak_flops_per_s'], 'FLOP/s')} ({row['peak_from']}, 16-bit)"
        said += f", {percent(row['busy_flops_ratio'])} of its peak of {peak}"
    return f"{said}." + (f" Note: {row['reason']}." if pd.notna(row["reason"]) else "")


def _occupancy_said(row: dict[str, Any]) -> str:
    said = f"The kernels of {row['device']} occupied {percent(row['mean_ratio'])} of it on average over their time"
    if not row["low_time_ratio"]:
        return f"{said}."
    low = f"{percent(row['low_time_ratio'])} of that time they were under {percent(LOW_OCCUPANCY_RATIO)}"
    return f"{said}; in {low}, which costs something only where they wait for memory."


def _copies(table: pd.DataFrame) -> Titled:
    rows = [
        [
            short(row["device"], _DEVICE),
            row["direction"],
            f"{row['n']:,}",
            time(row["busy_ps"]),
            rate(row["bytes_per_s"], "B/s"),
            rate(row["best_bytes_per_s"], "B/s"),
            percent(row["limit_ratio"]),
            f"{row['small']:,}",
        ]
        for row in records(table.head(_SHOWN))
    ]
    return "Copies", ["device", "way", "n", "time", "rate", "best", "of limit", "small"], rows


def _ops(table: pd.DataFrame) -> Titled:
    rows = [
        [
            short(row["hlo_op"], _OP),
            short(row["device"], _DEVICE),
            time(row["busy_ps"]),
            rate(row["flops_per_s"], ""),
            percent(row["flops_ratio"]),
            rate(row["bytes_per_s"], ""),
            percent(row["bytes_ratio"]),
        ]
        for row in records(table.head(_SHOWN))
    ]
    head = ["op", "device", "time", "FLOP/s", "of peak", "B/s", "of mem."]
    return "Longest ops, against the device's peak and memory bandwidth", head, rows


def _low(table: pd.DataFrame) -> Titled:
    rows = [
        [
            short(row["name"], _KERNEL),
            short(row["device"], _DEVICE),
            f"{row['n']:,}",
            time(row["time_ps"]),
            percent(row["mean_ratio"]),
        ]
        for row in records(table.head(_SHOWN))
    ]
    return "Longest kernels of low occupancy", ["kernel", "device", "n", "time", "occupancy"], rows


def _data(result: Bandwidth) -> dict[str, Any]:
    return {
        "copies": plain(result.copies),
        "ops": plain(result.ops.head(_KEPT)),
        "ops_found": len(result.ops),
        "by_device": plain(result.by_device),
        "occupancy": plain(result.occupancy),
        "low_occupancy": plain(result.low.head(_KEPT)),
        "low_occupancy_found": len(result.low),
        "reasons": dict(result.reasons),
    }
