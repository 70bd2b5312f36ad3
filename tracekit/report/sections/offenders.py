"""The offenders as the report shows them: what cost its device the most, where it is, and what ran meanwhile."""

from typing import Any

import pandas as pd

from tracekit.analysis.offenders.offenders import IDLE, Offenders
from tracekit.columns import records
from tracekit.report.section import Section, Titled, plain
from tracekit.units import compact_count, percent, short, time

# What stands in the table, and in summary.json of each long list.
_SHOWN, _KEPT = 8, 1000
_WHAT, _DEVICE, _WHERE = 23, 11, 15
_NOUNS = {
    "collective": ("exposed collective", "exposed collectives"),
    "memcpy": ("exposed copy", "exposed copies"),
    "memset": ("exposed memset", "exposed memsets"),
    IDLE: ("idle gap", "idle gaps"),
}


def section(result: Offenders) -> Section:
    """The first offender in two sentences, and a table of the first ones."""
    if result.lacking:
        return Section("offenders", "Top offenders", lacking=result.lacking)
    said = (
        _first(records(result.table)[0]) if len(result.table) else ["No collective, copy or idle gap costs any time."]
    )
    tables = [_table(result)] if len(result.table) else []
    return Section("offenders", "Top offenders", said=said, tables=tables, data=_data(result))


def _first(row: dict[str, Any]) -> list[str]:
    nouns = _NOUNS[row["kind"]]
    cost = f"{row['n']:,} {nouns[row['n'] > 1]}, {time(row['cost_ps'])}: {percent(row['ratio'])} of its window"
    said = f"{_what(row, 60)} costs {row['device']} the most, {cost}."
    if row["devices"] > 1:
        said = f"{said[:-1]}; {row['devices'] - 1} other {_devices(row['devices'] - 1)} it costs less."
    largest = f"The largest, {time(row['largest_ps'])}"
    if pd.notna(row["step"]):
        largest += f" in step {row['step']}"
    if place := _where(row, 60):
        largest += f" ({place})"
    details = [_waited(row), _copied(row), _meanwhile(row)]
    return [said, f"{largest}: {'; '.join(detail for detail in details if detail)}."] if any(details) else [said]


def _devices(number: int) -> str:
    return "device" if number == 1 else "devices"


def _waited(row: dict[str, Any]) -> str:
    if pd.isna(row["wait_ps"]) or not row["wait_ps"]:
        return ""
    return f"it waited {time(row['wait_ps'])} for {row['last']}, which came last"


def _copied(row: dict[str, Any]) -> str:
    if pd.isna(row["memory_ps"]) or not row["memory_ps"]:
        return ""
    return f"its device copied in {time(row['memory_ps'])} of it"


def _meanwhile(row: dict[str, Any]) -> str:
    """What the other devices of the clock did while it cost its device something."""
    if not row["others"]:
        return ""
    if not row["others_busy"]:
        return f"meanwhile none of the {row['others']} other {_devices(row['others'])} was busy"
    mostly = f", mostly with {short(row['meanwhile'], 40)}" if pd.notna(row["meanwhile"]) else ""
    if row["others"] == 1:
        return f"meanwhile the other device was busy {percent(row['others_busy'])} of the time{mostly}"
    return f"meanwhile {row['others_busy']:.1f} of the {row['others']} other devices were busy on average{mostly}"


def _table(result: Offenders) -> Titled:
    rows = [
        [
            _what(row, _WHAT),
            short(row["device"], _DEVICE),
            time(row["cost_ps"]),
            compact_count(row["n"]),
            percent(row["ratio"]),
            _where(row, _WHERE) or "-",
        ]
        for row in records(result.table.head(_SHOWN))
    ]
    return "Top offenders, on the device they cost most", ["what", "device", "cost", "n", "share", "where"], rows


def _what(row: dict[str, Any], longest: int) -> str:
    name = str(row["what"])
    if row["kind"] == IDLE:
        name = f"idle: {name}"
    elif row["kind"] == "collective":
        name = name.partition("(")[0] or name  # NCCL's kernels differ before their arguments
    elif pd.notna(row["direction"]) and row["direction"] not in name:
        name = f"{row['direction']} {name}"
    return short(name, longest)


def _where(row: dict[str, Any], longest: int) -> str:
    """The source line of the largest, or the framework's op, or what comes after a gap; "" if none is known."""
    source = None if pd.isna(row["source"]) else str(row["source"]).rpartition("/")[2]
    found = next((one for one in (source, row["framework_op"]) if pd.notna(one)), None)
    if pd.isna(row["next"]):
        return short(found, longest) if found is not None else ""
    return f"before {short(found if found is not None else row['next'], longest - len('before '))}"


def _data(result: Offenders) -> dict[str, Any]:
    return {
        "table": plain(result.table),
        "groups": result.groups,
        "by_device": plain(result.by_device.head(_KEPT)),
        "by_device_found": len(result.by_device),
        "instances": plain(result.instances),
        "instances_found": result.found,
        "totals": plain(result.totals),
    }
