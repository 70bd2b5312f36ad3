"""The collectives as the report shows them: waiting or moving data, who was last, and how fast they were."""

from typing import Any

import pandas as pd

from tracekit.analysis.collectives.collectives import FEWEST, Collectives
from tracekit.columns import records
from tracekit.report.section import Section, Titled, plain
from tracekit.units import count, percent, rate, short, size, time

# What stands in the tables, and in summary.json of the list of all instances.
_SHOWN, _LONGEST, _KEPT = 8, 5, 1000
_WIDEST = 22


def section(result: Collectives) -> Section:
    """What the collectives' time went to, the device for which the others waited, and the tables of both."""
    if result.lacking:
        return Section("collectives", "Collectives", lacking=result.lacking)
    total = records(result.total)[0]
    exposed = f"{time(total['exposed_ps'])} of {time(total['device_time_ps'])} ran beside no compute"
    devices = "1 device" if total["devices"] == 1 else f"{total['devices']} devices"
    if result.alone:
        said = [f"{_kinds(result.table)} on {devices}: {exposed}.", result.alone]
        tables = [_operations(result.by_op)]
    else:
        few = "" if total["shared"] == total["collectives"] else f" of the {total['shared']} seen on several devices"
        waiting = f"{percent(total['wait_ratio'])} of the time{few} was waiting for the last device to start"
        said = [f"{_kinds(result.table)} over {devices}: {waiting}; {exposed}.", _late(result.by_device)]
        tables = [_operations(result.by_op), _devices(result.by_device), *_longest(result.table)]
    return Section("collectives", "Collectives", [*said, *result.notes], tables, _data(result))


def _kinds(table: pd.DataFrame) -> str:
    """`129 all-reduces and 2 all-gathers`."""
    counts = table["category"].value_counts()
    words = [f"{n} {_short(str(what))}{'s' if n > 1 else ''}" for what, n in counts.head(3).items()]
    if len(counts) > 3:
        words[2:] = [f"{counts.iloc[2:].sum()} others"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _late(by_device: pd.DataFrame) -> str:
    """Which device was last too often, or that none was."""
    late = by_device[by_device["straggler"]].sort_values("cost_ps", ascending=False, kind="stable")
    if len(late):
        return " ".join(
            f"{one['device']} was last in {one['last']} of {one['n']} and cost the others {time(one['cost_ps'])} of "
            f"waiting{_beside(one)}."
            for one in records(late.head(2))
        )
    if by_device["n"].max() < FEWEST:
        return f"Fewer than {FEWEST} on a device are too few to tell a straggler."
    most = records(by_device.sort_values("last", ascending=False, kind="stable"))[0]
    return (
        "No straggler: no device was last far more often than chance has it and cost the others enough "
        f"(most often {most['device']}, {most['last']} of {most['n']})."
    )


def _beside(one: dict[str, Any]) -> str:
    same = one["exposed_cost_ps"] == one["cost_ps"]
    return "" if same else f", {time(one['exposed_cost_ps'])} of it beside no compute"


def _operations(by_op: pd.DataFrame) -> Titled:
    several = by_op["ranks"].nunique(dropna=False) > 1
    rows = [
        [
            _short(one["category"]) + (f" /{count(one['ranks'])}" if several else ""),
            size(one["size_bytes"]),
            str(one["n"]),
            time(one["duration_ps"]),
            percent(one["wait_ratio"]),
            _rate(one["algorithm_bytes_per_s"], one["at_least"]),
            _rate(one["bus_bytes_per_s"], one["at_least"]),
            time(one["exposed_ps"]),
        ]
        for one in records(by_op.head(_SHOWN))
    ]
    title = "Collectives by operation and size"
    more = f", the {_SHOWN} longest of {len(by_op)}" if len(by_op) > _SHOWN else ""
    head = ["what /ranks" if several else "what", "from", "n", "median", "waiting", "algbw", "busbw", "exposed"]
    return f"{title}{more}", head, rows


def _devices(by_device: pd.DataFrame) -> Titled:
    """The devices, of many those that cost the others most."""
    shown = by_device[by_device["n"] > 0]
    many = len(shown) > _SHOWN
    if many:
        shown = shown.sort_values("cost_ps", ascending=False, kind="stable").head(_SHOWN)
    rows = [
        [
            one["device"],
            f"{one['last']} of {one['n']}",
            time(one["cost_ps"]),
            time(one["waiting_ps"]),
            time(one["transfer_ps"]),
            time(one["hidden_ps"]),
            time(one["exposed_ps"]),
        ]
        for one in records(shown)
    ]
    title = f"Who was last, the {_SHOWN} that cost the others most" if many else "Who was last"
    return title, ["device", "last", "cost others", "waited", "transfer", "hidden", "exposed"], rows


def _longest(table: pd.DataFrame) -> list[Titled]:
    """The instances whose devices waited longest."""
    waited = table[table["wait_ps"].fillna(0) > 0].sort_values("wait_ps", ascending=False, kind="stable")
    rows = [
        [
            time(one["start_ps"]),
            short(one["op"], _WIDEST),
            "several" if pd.isna(one["last"]) else one["last"],
            time(one["skew_ps"]),
            time(one["wait_ps"]),
            time(one["transfer_ps"]),
        ]
        for one in records(waited.head(_LONGEST))
    ]
    return [("The longest waits", ["at", "op", "last", "skew", "waited", "transfer"], rows)] if rows else []


def _data(result: Collectives) -> dict[str, Any]:
    """Everything; of many instances those that took most device time, in order of time."""
    kept = result.table.nlargest(_KEPT, "device_time_ps", keep="first").sort_values("instance")
    return {
        "total": plain(result.total)[0],
        "alone": result.alone or None,
        "by_device": plain(result.by_device),
        "by_operation": plain(result.by_op),
        "instances": plain(kept),
        "notes": list(result.notes),
    }


def _short(category: str) -> str:
    return category.removeprefix("collective-")


def _rate(value: Any, at_least: bool) -> str:
    return f"{'>=' if at_least and pd.notna(value) else ''}{rate(value, 'B/s')}"
