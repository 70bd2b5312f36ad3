"""The memory of devices as the report shows it: how much was in use at the most, for whom, and how much was left."""

from dataclasses import replace
from typing import Any

import pandas as pd

from tracekit.analysis.memory import ALLOCATOR, Memory
from tracekit.columns import records
from tracekit.report.section import (
    MOST_ROWS,
    AtLeast,
    Field,
    Instant,
    Section,
    Table,
    Unit,
    or_missing,
    plain,
    table_of,
)
from tracekit.units import percent, quantity, short, size

# The rules whose advice is to hold more at once: batches ahead of their use, larger buckets, more in flight.
_NEED_MEMORY = frozenset({"exposed_collectives", "exposed_copies", "input_bound", "waits_for_copies"})
_LONGEST = 60
_PARTIAL = "Much of the work is missing from the trace, so more may have been in use at other times."
_NOT_NAMED = "the trace does not tell for what"


def section(result: Memory, is_partial: bool = False) -> Section:
    """The device with the least memory left, what its peak consisted of, and every device's peak.

    `is_partial`: much of the work is missing from the trace.
    """
    title = "Device memory"
    if result.lacking:
        return Section("memory", title, lacking=result.lacking)
    sentences = (*_sentences(result), *([_PARTIAL] if is_partial else []))
    return Section("memory", title, sentences, tables=_tables(result), data=_data(result))


def beside(advice: Section, result: Memory) -> Section:
    """The section of the advice, where what needs memory says how much was left."""
    least = _least(result)
    if least is None or pd.isna(least["headroom_bytes"]):
        return advice
    left = f"{_up_to(least)}{size(least['headroom_bytes'])} of memory were left on {least['device']}"
    left = f"at the peak, {left}{_least_of(result)}"
    return replace(
        advice,
        findings=tuple(
            replace(finding, action=f"{finding.action.removesuffix('.')} ({left})")
            if finding.rule in _NEED_MEMORY
            else finding
            for finding in advice.findings
        ),
    )


def _least(result: Memory) -> dict[str, Any] | None:
    """The device with the least headroom; where none is known, that with the highest peak; None without any."""
    order = result.by_device.sort_values(
        ["headroom_bytes", "peak_bytes"], ascending=[True, False], na_position="last", kind="stable"
    )
    return next(iter(records(order.head(1))), None)


def _least_of(result: Memory) -> str:
    """Of how many devices the headroom of the first is the least; nothing of one."""
    known = int(result.by_device["headroom_bytes"].notna().sum())
    return f", the least of {quantity(known, 'device')}" if known > 1 else ""


def _up_to(row: dict[str, Any]) -> str:
    """What stands before a headroom that is not all for the program."""
    return "" if row["limit_of"] == ALLOCATOR and not row["at_least"] else "up to "


def _sentences(result: Memory) -> tuple[str, ...]:
    row = _least(result)
    assert row is not None
    device, peak = row["device"], f"{'at least ' if row['at_least'] else ''}{size(row['peak_bytes'])}"
    sentence = f"At its peak, {device} had {peak} of memory in use"
    if pd.notna(row["headroom_bytes"]):
        limit = "its allocator's limit" if row["limit_of"] == ALLOCATOR else "the device's memory"
        of = f"{percent(row['peak_bytes'], row['limit_bytes'])} of {limit} of {size(row['limit_bytes'])}"
        sentence += f", {of}: {_up_to(row)}{size(row['headroom_bytes'])} headroom{_least_of(result)}"
    else:
        sentence += f"; its headroom is not known: {row['reason']}"
    sentences = [f"{sentence}. {_when(row)}"]
    if parts := _parts(result, row):
        sentences.append(f"Of these, {parts}.")
    if pd.notna(row["lifetime_peak_bytes"]) and row["lifetime_peak_bytes"] > row["peak_bytes"]:
        sentences.append(f"Before the trace, its allocator had up to {size(row['lifetime_peak_bytes'])} in use.")
    if row["at_least"]:
        sentences.append("What was allocated before the trace began is not known, and not counted.")
    return tuple(sentences)


def _when(row: dict[str, Any]) -> str:
    """When the peak was, and what ran then."""
    step = f" in step {row['step']}" if pd.notna(row["step"]) else ""
    phase = f" in phase {row['phase']}" if pd.notna(row["phase"]) else ""
    if pd.notna(row["running"]):
        return f"That was{step}{phase} while {short(row['running'], _LONGEST)} ran."
    return f"That was{step}{phase}: {row['running_reason']}." if step or phase else f"Then, {row['running_reason']}."


def _parts(result: Memory, row: dict[str, Any]) -> str:
    """What the peak of a device consisted of."""
    parts = []
    if pd.notna(row["stack_bytes"]) and row["stack_bytes"]:
        parts.append(f"{size(row['stack_bytes'])} are reserved for the stack of programs")
    if pd.notna(row["before_bytes"]) and row["before_bytes"]:
        parts.append(f"{size(row['before_bytes'])} were allocated before the trace began")
    labels = result.at_peak[(result.at_peak["device"] == row["device"]) & result.at_peak["label"].notna()]
    if len(labels):
        first = records(labels.head(1))[0]
        parts.append(f"{size(first['allocated_bytes'])} were allocated by {short(first['label'], _LONGEST)}")
    return ", ".join(parts)


def _tables(result: Memory) -> tuple[Table, ...]:
    return (
        table_of(
            result.by_device,
            "memory.devices",
            "Peak memory by device",
            [
                Field("device", Unit.DEVICE, "device"),
                Field("peak", Unit.BYTES, lambda row: _at_least(row["peak_bytes"], row)),
                Field("at", Unit.INSTANT, lambda row: Instant(row["peak_ps"], row["peak_ps"], row["device"])),
                Field("limit", Unit.BYTES, "limit_bytes", reason="reason"),
                Field("headroom", Unit.BYTES, "headroom_bytes", reason="reason"),
                Field("before the trace", Unit.BYTES, "before_bytes", brief=False),
                Field("reserved", Unit.BYTES, "reserved_bytes", brief=False),
                Field("running then", Unit.NAME, "running", reason="running_reason"),
                Field("step", Unit.TEXT, "step", brief=False),
            ],
        ),
        table_of(
            result.at_peak.sort_values("allocated_bytes", ascending=False, kind="stable").head(MOST_ROWS),
            "memory.labels",
            "Allocated at the peak, by what asked for it",
            [
                Field("device", Unit.DEVICE, "device"),
                Field("allocated for", Unit.NAME, lambda row: or_missing(row["label"], _NOT_NAMED)),
                Field("n", Unit.COUNT, "allocations"),
                Field("bytes", Unit.BYTES, "allocated_bytes"),
            ],
        ),
    )


def _at_least(value: int, row: dict[str, Any]) -> Any:
    return AtLeast(value) if row["at_least"] else value


def _data(result: Memory) -> dict[str, Any]:
    return {"by_device": plain(result.by_device), "at_peak": plain(result.at_peak)}
