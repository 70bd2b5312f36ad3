"""Rates of copies and ops, and occupancy, as the report shows them."""

from typing import Any

import pandas as pd

from tracekit.analysis.bandwidth import LOW_OCCUPANCY_RATIO, SMALL_BYTES, Bandwidth
from tracekit.columns import records
from tracekit.report.section import MOST_DATA, MOST_ROWS, Field, Section, Table, Unit, or_missing, plain, table_of
from tracekit.units import count, percent, quantity, rate, size, time

# Of so many of the longest ops a rate beyond the peak has a sentence.
_LONGEST = 8


def section(result: Bandwidth) -> Section:
    """The slowest part of each kind in a sentence, then copies, ops and kernels by the time they took."""
    title = "Bandwidth and utilisation"
    if result.lacking:
        return Section("bandwidth", title, lacking=result.lacking)
    copies = result.copies.sort_values("busy_ps", ascending=False, kind="stable")
    occupancy = result.occupancy.sort_values("mean_ratio", kind="stable")
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
    return Section("bandwidth", title, tuple(sentences), tables=tables, data=_data(result))


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
    if pd.isna(row["busy_flops_per_s"]):
        return f"The FLOP/s of {row['device']} are not known: {row['reason']}."
    sentence = f"{row['device']} reached {rate(row['busy_flops_per_s'], 'FLOP/s')} while it was busy"
    if pd.notna(row["busy_flops_ratio"]):
        peak = f"{rate(row['peak_flops_per_s'], 'FLOP/s')} ({row['peak_from']}, 16-bit)"
        sentence += f", {percent(row['busy_flops_ratio'])} of its peak of {peak}"
    return f"{sentence}.{_note(row)}"


def _of_occupancy(row: dict[str, Any]) -> str:
    sentence = f"Mean occupancy on {row['device']} is {percent(row['mean_ratio'])}, weighted by kernel time"
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
            Field("occupancy", Unit.RATIO, "mean_ratio"),
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
