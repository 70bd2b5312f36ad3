"""Rates of copies and ops, and occupancy, as the report shows them."""

from typing import Any

import pandas as pd

from tracekit.analysis.bandwidth import LOW_OCCUPANCY_RATIO, MOST, SMALL_BYTES, Bandwidth
from tracekit.columns import records
from tracekit.report.section import (
    MOST_DATA,
    MOST_ROWS,
    Field,
    Missing,
    Section,
    Table,
    Unit,
    or_missing,
    plain,
    table_of,
)
from tracekit.units import count, percent, quantity, rate, size, time

# Of so many of the longest ops a rate beyond the peak has a sentence.
_LONGEST = 8
# A profiler that rounds to whole percents writes 0 for what is less than half of one.
_LEAST_OCCUPANCY = "<0.5 %"


def section(result: Bandwidth) -> Section:
    """The slowest part of each kind in a sentence, then copies, ops and kernels by the time they took."""
    title = "Bandwidth and utilisation"
    if result.lacking:
        return Section("bandwidth", title, lacking=result.lacking)
    copies = result.copies.sort_values("busy_ps", ascending=False, kind="stable")
    # A report of a version that did not tell of how much of the time it is known has none.
    is_known = (result.occupancy["time_coverage_ratio"] > MOST).fillna(False).astype(bool)
    occupancy = result.occupancy[is_known].sort_values("mean_ratio", kind="stable")
    sentences = [
        sentence(records(rows)[0])
        for sentence, rows in (
            (_of_copies, copies),
            (_of_device, result.by_device),
            (_of_occupancy, occupancy),
            (_beyond_peak, _impossible(result.ops)),
        )
        if len(rows)
    ]
    tables = (_copies(copies), _ops(result.ops), _low(result.low))
    return Section("bandwidth", title, tuple(filter(None, sentences)), tables=tables, data=_data(result))


def _of_copies(row: dict[str, Any]) -> str:
    """What the copies that took longest reached."""
    kind = "" if row["direction"] == "unknown" else f"{row['direction']} "
    copies_of = f"{quantity(row['n'], f'{kind}copy', f'{kind}copies')} on {row['device']}"
    sentence = f"{copies_of} took {time(row['busy_ps'])}"
    if pd.notna(row["bytes_per_s"]):
        sentence += f" at {rate(row['bytes_per_s'], 'B/s')}"
    if pd.notna(row["limit_ratio"]):
        limit = f"{rate(row['limit_bytes_per_s'], 'B/s')} ({row['limit_from']})"
        sentence += f", {percent(row['limit_ratio'])} of the limit of {limit}"
    if row["small"]:
        which = "all" if row["small"] == row["n"] else f"{count(row['small'])} of them"
        sentence += f"; {which} under {size(SMALL_BYTES)} (latency-bound)"
    return f"{sentence}.{_note(row)}"


def _of_device(row: dict[str, Any]) -> str:
    """What the ops whose FLOPs are known reached, and how much of the compute time they are."""
    if pd.isna(row["known_flops_per_s"]):
        if pd.notna(row["busy_flops_per_s"]):  # in a report of a version that did not tell of how much of the time
            return ""
        return f"The FLOP/s of {row['device']} are not known{_because(row)}."
    known = f"{time(row['known_ps'])}, {percent(row['known_ratio'])} of its compute time"
    reached = rate(row["known_flops_per_s"], "FLOP/s")
    sentence = f"{row['device']} reached {reached} in ops whose FLOPs are known ({known})"
    if pd.notna(row["known_flops_ratio"]):
        peak = f"{rate(row['peak_flops_per_s'], 'FLOP/s')} ({row['peak_from']}, {row['peak_of']})"
        sentence += f", {percent(row['known_flops_ratio'])} of its peak of {peak}"
    return f"{sentence}.{_note(row)}"


def _because(row: dict[str, Any]) -> str:
    return f": {row['reason']}" if pd.notna(row["reason"]) else ""


def _of_occupancy(row: dict[str, Any]) -> str:
    """The mean occupancy of a device, and of how much of its kernels' time it is where that is not all."""
    mean = percent(row["mean_ratio"]) if row["mean_ratio"] else _LEAST_OCCUPANCY
    sentence = f"Mean occupancy on {row['device']} is {mean}, weighted by kernel time"
    if row["time_coverage_ratio"] < 1:
        sentence += f" (known for {percent(row['time_coverage_ratio'])} of it)"
    if not row["low_time_ratio"]:
        return f"{sentence}."
    low = f"below {percent(LOW_OCCUPANCY_RATIO)} for {percent(row['low_time_ratio'])} of that time"
    return f"{sentence}; it is {low}, which costs time only where kernels wait for memory."


def _impossible(ops: pd.DataFrame) -> pd.DataFrame:
    longest = ops.head(_LONGEST)
    return longest[(longest["flops_ratio"] > 1) | (longest["bytes_ratio"] > 1)]


def _beyond_peak(row: dict[str, Any]) -> str:
    return f"{row['hlo_op']} on {row['device']} shows {row['reason']}."


def _note(row: dict[str, Any]) -> str:
    return f" Note: {row['reason']}." if pd.notna(row["reason"]) else ""


def _copies(copies: pd.DataFrame) -> Table:
    no_rate = f"no copy of {size(SMALL_BYTES)} or more has a rate"
    return table_of(
        copies.head(MOST_ROWS),
        "bandwidth.copies",
        "Copies",
        [
            Field("device", Unit.DEVICE, "device"),
            Field("direction", Unit.TEXT, "direction"),
            Field("n", Unit.COUNT, "n"),
            Field("time", Unit.TIME, "busy_ps"),
            Field("rate", Unit.BYTES_PER_S, "bytes_per_s", reason="reason"),
            Field("best", Unit.BYTES_PER_S, lambda row: or_missing(row["best_bytes_per_s"], no_rate)),
            Field("of limit", Unit.RATIO, "limit_ratio", reason="reason"),
            Field(f"< {size(SMALL_BYTES)}", Unit.COUNT, "small"),
        ],
    )


def _ops(ops: pd.DataFrame) -> Table:
    return table_of(
        ops.head(MOST_ROWS),
        "bandwidth.ops",
        "Longest ops, against the peaks of the device",
        [
            Field("op", Unit.NAME, "hlo_op"),
            Field("device", Unit.DEVICE, "device"),
            Field("time", Unit.TIME, "busy_ps"),
            Field("FLOP/s", Unit.FLOPS_PER_S, "flops_per_s", reason="reason"),
            Field("of peak", Unit.RATIO, "flops_ratio", reason="reason"),
            Field("peak", Unit.TEXT, lambda row: None if pd.isna(row["flops_ratio"]) else row["peak_of"]),
            Field("memory", Unit.BYTES_PER_S, "bytes_per_s", reason="reason"),
            Field("of bandwidth", Unit.RATIO, "bytes_ratio", reason="reason"),
        ],
    )


def _low(low: pd.DataFrame) -> Table:
    return table_of(
        low.head(MOST_ROWS),
        "bandwidth.occupancy",
        "Longest kernels of low occupancy",
        [
            Field("kernel", Unit.NAME, "name"),
            Field("device", Unit.DEVICE, "device"),
            Field("n", Unit.COUNT, "n"),
            Field("time", Unit.TIME, "time_ps"),
            Field(
                "occupancy",
                Unit.RATIO,
                lambda row: row["mean_ratio"] or Missing("less than half a percent, which the profiler rounds to 0"),
            ),
        ],
    )


def _data(result: Bandwidth) -> dict[str, Any]:
    return {
        "copies": plain(result.copies),
        "ops": plain(result.ops.head(MOST_DATA)),
        "ops_found": len(result.ops),
        "by_device": plain(result.by_device),
        "occupancy": plain(result.occupancy),
        "low_occupancy": plain(result.low.head(MOST_DATA)),
        "low_occupancy_found": len(result.low),
        "reasons": dict(result.reasons),
    }
