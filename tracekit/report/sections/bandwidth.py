"""Rates of copies and ops, and occupancy, as the report shows them."""

from typing import Any

import pandas as pd

from tracekit.analysis.bandwidth import LOW_OCCUPANCY_RATIO, SMALL_BYTES, Bandwidth
from tracekit.columns import records
from tracekit.report.section import Column, Section, Table, Unit, or_missing, plain, table
from tracekit.units import count, counted, percent, rate, size, time

# Rows that a face without limits shows, and rows in summary.json of each long list.
_MOST, _KEPT = 40, 1000
# Of so many of the longest ops a rate beyond the peak is told in a sentence.
_LONGEST = 8


def section(result: Bandwidth) -> Section:
    """The slowest part of each kind in a sentence, then copies, ops and kernels by the time they took."""
    title = "Bandwidth and utilisation"
    if result.lacking:
        return Section("bandwidth", title, lacking=result.lacking)
    copies = result.copies.sort_values("busy_ps", ascending=False, kind="stable")
    occupancy = result.occupancy.sort_values("mean_ratio", kind="stable")
    first = [
        sentence(found.iloc[:1])
        for sentence, found in (
            (_of_copies, copies),
            (_of_device, result.by_device),
            (_of_occupancy, occupancy),
            (_beyond_peak, _impossible(result.ops)),
        )
        if len(found)
    ]
    return Section(
        "bandwidth",
        title,
        tuple(first),
        tables=tuple(made for made in (_copies(copies), _ops(result.ops), _low(result.low)) if made.rows),
        data=_data(result),
    )


def _of_copies(copies: pd.DataFrame) -> str:
    """What the copies that took longest reached."""
    (row,) = records(copies)
    kind = "" if row["direction"] == "unknown" else f"{row['direction']} "
    copies_of = f"{counted(row['n'], f'{kind}copy', f'{kind}copies')} on {row['device']}"
    sentence = f"{copies_of} took {time(row['busy_ps'])}"
    if pd.notna(row["bytes_per_s"]):
        sentence += f" at {rate(row['bytes_per_s'], 'B/s')}"
    if pd.notna(row["limit_ratio"]):
        limit = f"{rate(row['limit_bytes_per_s'], 'B/s')} ({row['limit_from']})"
        sentence += f", {percent(row['limit_ratio'])} of the limit of {limit}"
    if row["small"]:
        which = "all" if row["small"] == row["n"] else f"{count(row['small'])} of them"
        sentence += f"; {which} under {size(SMALL_BYTES)}, which is latency-bound"
    return f"{sentence}.{_note(row)}"


def _of_device(devices: pd.DataFrame) -> str:
    (row,) = records(devices)
    if pd.isna(row["busy_flops_per_s"]):
        return f"The FLOP/s of {row['device']} are not known: {row['reason']}."
    sentence = f"{row['device']} reached {rate(row['busy_flops_per_s'], 'FLOP/s')} while it was busy"
    if pd.notna(row["busy_flops_ratio"]):
        peak = f"{rate(row['peak_flops_per_s'], 'FLOP/s')} ({row['peak_from']}, 16-bit)"
        sentence += f", {percent(row['busy_flops_ratio'])} of its peak of {peak}"
    return f"{sentence}.{_note(row)}"


def _of_occupancy(occupancy: pd.DataFrame) -> str:
    (row,) = records(occupancy)
    sentence = f"Mean occupancy on {row['device']} is {percent(row['mean_ratio'])}, weighted by kernel time"
    if not row["low_time_ratio"]:
        return f"{sentence}."
    low = f"below {percent(LOW_OCCUPANCY_RATIO)} for {percent(row['low_time_ratio'])} of it"
    return f"{sentence}; it is {low}, which costs something only where kernels wait for memory."


def _impossible(ops: pd.DataFrame) -> pd.DataFrame:
    longest = ops.head(_LONGEST)
    return longest[(longest["flops_ratio"] > 1) | (longest["bytes_ratio"] > 1)]


def _beyond_peak(ops: pd.DataFrame) -> str:
    (row,) = records(ops)
    return f"{row['hlo_op']} on {row['device']} shows {row['reason']}."


def _note(row: dict[str, Any]) -> str:
    return f" Note: {row['reason']}." if pd.notna(row["reason"]) else ""


def _copies(copies: pd.DataFrame) -> Table:
    return table(
        "bandwidth.copies",
        "Copies",
        [
            Column("device", Unit.NAME),
            Column("direction", Unit.TEXT),
            Column("n", Unit.COUNT),
            Column("time", Unit.TIME),
            Column("rate", Unit.BYTES_PER_S),
            Column("best", Unit.BYTES_PER_S),
            Column("of limit", Unit.RATIO),
            Column(f"< {size(SMALL_BYTES)}", Unit.COUNT),
        ],
        [
            (
                row["device"],
                row["direction"],
                row["n"],
                row["busy_ps"],
                or_missing(row["bytes_per_s"], row["reason"]),
                or_missing(row["best_bytes_per_s"], f"no copy of {size(SMALL_BYTES)} or more has a rate"),
                or_missing(row["limit_ratio"], row["reason"]),
                row["small"],
            )
            for row in records(copies.head(_MOST))
        ],
    )


def _ops(ops: pd.DataFrame) -> Table:
    return table(
        "bandwidth.ops",
        "Longest ops, against the peaks of the device",
        [
            Column("op", Unit.NAME),
            Column("device", Unit.NAME),
            Column("time", Unit.TIME),
            Column("FLOP/s", Unit.FLOPS_PER_S),
            Column("of peak", Unit.RATIO),
            Column("memory", Unit.BYTES_PER_S),
            Column("of bandwidth", Unit.RATIO),
        ],
        [
            (
                row["hlo_op"],
                row["device"],
                row["busy_ps"],
                or_missing(row["flops_per_s"], row["reason"]),
                or_missing(row["flops_ratio"], row["reason"]),
                or_missing(row["bytes_per_s"], row["reason"]),
                or_missing(row["bytes_ratio"], row["reason"]),
            )
            for row in records(ops.head(_MOST))
        ],
    )


def _low(low: pd.DataFrame) -> Table:
    return table(
        "bandwidth.occupancy",
        "Longest kernels of low occupancy",
        [
            Column("kernel", Unit.NAME),
            Column("device", Unit.NAME),
            Column("n", Unit.COUNT),
            Column("time", Unit.TIME),
            Column("occupancy", Unit.RATIO),
        ],
        [(row["name"], row["device"], row["n"], row["time_ps"], row["mean_ratio"]) for row in records(low.head(_MOST))],
    )


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
