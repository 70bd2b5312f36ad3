"""The collectives as the report shows them: waiting or transferring, the stragglers, and the bandwidth they reached."""

from typing import Any

import pandas as pd

from tracekit.analysis.collectives import FEWEST, Collectives
from tracekit.columns import records
from tracekit.report.section import AtLeast, Column, Section, Table, Unit, instant, or_missing, plain, table
from tracekit.units import counted, percent, time

# Rows that a face without limits shows, and rows in summary.json of the list of all instances.
_MOST, _KEPT = 40, 1000
_WAITS = 5
# Of so many exposed ones, all of which waited, one table is enough.
_FEW = 9


def section(result: Collectives) -> Section:
    """What the collectives' time went to, the device for which the others waited, and the tables of both."""
    if result.lacking:
        return Section("collectives", "Collectives", lacking=result.lacking)
    total = records(result.total)[0]
    exposed = f"{percent(total['exposed_ps'], total['device_time_ps'])} of it exposed"
    took = f"{_kinds(result.table)} on {counted(total['devices'], 'device')} took {time(total['device_time_ps'])}"
    if result.alone:
        sentences = [f"{took}, {exposed}.", result.alone]
        tables = [_operations(result.by_op), *_instances(result.table)]
    else:
        all_shared = total["shared"] == total["collectives"]
        what = "it" if all_shared else f"the time of the {total['shared']} seen on several devices"
        waiting = f"{percent(total['wait_ratio'])} of {what} was waiting for the last device to arrive"
        sentences = [f"{took}, {exposed}; {waiting}.", *_stragglers(result.by_device)]
        tables = [_operations(result.by_op), _devices(result.by_device), *_instances(result.table)]
    sentences += result.notes
    return Section("collectives", "Collectives", tuple(sentences), tables=tuple(tables), data=_data(result))


def _kinds(instances: pd.DataFrame) -> str:
    """`129 all-reduces and 2 all-gathers`."""
    counts = instances["category"].value_counts()
    kinds = [counted(number, _operation(str(category))) for category, number in counts.head(3).items()]
    if len(counts) > 3:
        kinds[2:] = [f"{counts.iloc[2:].sum()} others"]
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} and {kinds[-1]}"


def _stragglers(by_device: pd.DataFrame) -> list[str]:
    """Which device was last too often, or that none was."""
    late = by_device[by_device["straggler"]].sort_values("cost_ps", ascending=False, kind="stable")
    if len(late):
        return [_straggler(row) for row in records(late.head(2))]
    if by_device["n"].max() < FEWEST:
        return [f"Fewer than {FEWEST} collectives on a device are too few to identify a straggler."]
    most = records(by_device.sort_values("last", ascending=False, kind="stable"))[0]
    return [
        "No straggler: no device was last often enough, and at enough cost, to count (most often "
        f"{most['device']}, in {most['last']} of {most['n']})."
    ]


def _straggler(row: dict[str, Any]) -> str:
    sentence = (
        f"{row['device']} was the straggler in {row['last']} of {row['n']} collectives: the others waited "
        f"{time(row['cost_ps'])} for it"
    )
    exposed = "" if row["exposed_cost_ps"] == row["cost_ps"] else f", {time(row['exposed_cost_ps'])} of it exposed"
    return f"{sentence}{exposed}."


def _operations(by_op: pd.DataFrame) -> Table:
    several = by_op["ranks"].nunique(dropna=False) > 1
    return table(
        "collectives.operations",
        "Collectives by operation and message size",
        [
            Column("operation", Unit.TEXT),
            Column("ranks", Unit.COUNT, brief=several),
            Column("size", Unit.BYTES),
            Column("n", Unit.COUNT),
            Column("median", Unit.TIME),
            Column("waiting", Unit.RATIO),
            Column("algbw", Unit.BYTES_PER_S),
            Column("busbw", Unit.BYTES_PER_S),
            Column("exposed", Unit.TIME),
        ],
        [
            (
                _operation(row["category"]),
                row["ranks"],
                row["size_bytes"],
                row["n"],
                row["duration_ps"],
                row["wait_ratio"],
                _bandwidth(row["algorithm_bytes_per_s"], row["at_least"]),
                _bandwidth(row["bus_bytes_per_s"], row["at_least"]),
                row["exposed_ps"],
            )
            for row in records(by_op.head(_MOST))
        ],
        about="Sizes of messages are told by power of two: the size is where its power begins.",
    )


def _bandwidth(bytes_per_s: Any, at_least: bool) -> Any:
    return (
        AtLeast(bytes_per_s)
        if at_least and pd.notna(bytes_per_s)
        else or_missing(bytes_per_s, "its bytes are not known")
    )


def _devices(by_device: pd.DataFrame) -> Table:
    """The devices in their order, but of many those first that cost the others most."""
    shown, brief = by_device[by_device["n"] > 0], 8
    title = "Stragglers"
    if len(shown) > brief:
        shown = shown.sort_values("cost_ps", ascending=False, kind="stable")
        title = "Stragglers, those that cost the others most first"
    return table(
        "collectives.devices",
        title,
        [
            Column("device", Unit.NAME),
            Column("last in", Unit.COUNT),
            Column("of", Unit.COUNT),
            Column("cost to others", Unit.TIME),
            Column("waited", Unit.TIME),
            Column("transfer", Unit.TIME),
            Column("hidden", Unit.TIME),
            Column("exposed", Unit.TIME),
        ],
        [
            (
                row["device"],
                row["last"],
                row["n"],
                row["cost_ps"],
                row["waiting_ps"],
                row["transfer_ps"],
                row["hidden_ps"],
                row["exposed_ps"],
            )
            for row in records(shown)
        ],
        brief,
    )


def _instances(instances: pd.DataFrame) -> list[Table]:
    """The collectives whose devices waited longest, and those that were exposed longest."""
    waited = instances[instances["wait_ps"].fillna(0) > 0].sort_values("wait_ps", ascending=False, kind="stable")
    exposed = instances[instances["exposed_ps"] > 0].sort_values("exposed_ps", ascending=False, kind="stable")
    tables = [_longest("collectives.waits", "Longest waits", waited, _WAITS)]
    if not (set(exposed.index) <= set(waited.index) and len(exposed) <= _FEW):
        tables.append(_longest("collectives.exposed", "Longest exposed collectives", exposed, 0))
    return [made for made in tables if made.rows]


def _longest(key: str, title: str, instances: pd.DataFrame, brief: int) -> Table:
    return table(
        key,
        title,
        [
            Column("collective", Unit.NAME),
            Column("at", Unit.INSTANT),
            Column("operation", Unit.TEXT, brief=False),
            Column("devices", Unit.COUNT, brief=False),
            Column("last", Unit.NAME),
            Column("skew", Unit.TIME),
            Column("waited", Unit.TIME),
            Column("transfer", Unit.TIME),
            Column("exposed", Unit.TIME, brief=False),
        ],
        [
            (
                row["op"],
                instant(row, clock=row["clock"]),
                _operation(row["category"]),
                row["devices"],
                or_missing(row["last"], "no single device was last"),
                or_missing(row["skew_ps"], row["reason"]),
                or_missing(row["wait_ps"], row["reason"]),
                or_missing(row["transfer_ps"], row["reason"]),
                row["exposed_ps"],
            )
            for row in records(instances.head(_MOST))
        ],
        brief,
    )


def _operation(category: str) -> str:
    return category.removeprefix("collective-")


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
