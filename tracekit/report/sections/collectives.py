"""The collectives as the report shows them: waiting or transferring, the stragglers, and the bandwidth they reached."""

from typing import Any

import pandas as pd

from tracekit.analysis.collectives import Collectives
from tracekit.analysis.stragglers import FEWEST, worst
from tracekit.columns import records
from tracekit.devices import FEW
from tracekit.report.section import (
    MOST_DATA,
    MOST_ROWS,
    AtLeast,
    Field,
    Section,
    Table,
    Unit,
    gain_words,
    instant,
    or_missing,
    plain,
    straggler_words,
    table_of,
)
from tracekit.units import device_time, percent, quantity, rate, time

# Rows of the longest waits where there is little room.
_WAITS = 5
# Of so many exposed ones, all of which waited, one table is enough.
_FEW = 9


def section(result: Collectives, windows_ps: int = 0) -> Section:
    """What the collectives' time went to, the device for which the others waited, and the tables of both; `windows_ps`
    is the sum of the devices' windows, 0 where it is not known."""
    if result.lacking:
        return Section("collectives", "Collectives", lacking=result.lacking)
    total = records(result.total)[0]
    took = f"{_kinds(result.table)} took {device_time(total['device_time_ps'], total['devices'])}"
    exposed = f"{percent(total['exposed_ps'], total['device_time_ps'])} of it exposed"
    operations, instances = _operations(result.by_op), _instances(result.table)
    if result.alone:
        sentences = [f"{took}, {exposed}.", result.alone]
        tables = [operations, *instances]
    else:
        waiting = percent(total["wait_ratio"])
        if total["shared"] == total["collectives"]:
            first = f"{took}, {exposed} and {waiting} of it waiting for the last device to arrive."
        else:
            several = f"Of the time of the {total['shared']} seen on all their ranks"
            first = f"{took}, {exposed}. {several}, {waiting} was waiting for the last device to arrive."
        sentences = [first, *_stragglers(result.by_device, result.by_host), *_slow_groups(result.by_group)]
        hosts = [_hosts(result.by_host)] if len(result.by_host) else []
        groups = [_groups(result.by_group)] if result.by_group["slow"].any() else []
        tables = [operations, _devices(result.by_device), *hosts, *groups, *instances]
    sentences += result.notes
    return Section(
        "collectives",
        "Collectives",
        tuple(sentences),
        tables=tuple(tables),
        data=_data(result),
        share=total["exposed_ps"] / windows_ps if windows_ps else None,
        loss="collectives",
    )


def _kinds(instances: pd.DataFrame) -> str:
    """`129 all-reduces and 2 all-gathers`."""
    counts = instances["category"].value_counts()
    kinds = [quantity(number, _operation(str(category))) for category, number in counts.head(3).items()]
    if len(counts) > 3:
        kinds[2:] = [f"{counts.iloc[2:].sum()} others"]
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} and {kinds[-1]}"


def _stragglers(by_device: pd.DataFrame, by_host: pd.DataFrame) -> list[str]:
    """Which device, or host, was last too often, or that none was."""
    if late := worst(by_device, by_host, "cost_ps"):
        return [_straggler(row) for row in late[:2]]
    if by_device["n"].max() < FEWEST:
        return [f"Fewer than {FEWEST} collectives on a device are too few to identify a straggler."]
    most = records(by_device.sort_values("last", ascending=False, kind="stable"))[0]
    return [
        "No straggler: no device was last often enough, and at enough cost, to count (most often "
        f"{most['device']}, in {most['last']} of {most['n']})."
    ]


def _straggler(row: dict[str, Any]) -> str:
    sentence = (
        f"{straggler_words(row)}: together, the others waited {time(row['cost_ps'])} for "
        f"{'them' if 'host' in row else 'it'}"
    )
    exposed = "" if row["exposed_cost_ps"] == row["cost_ps"] else f", {time(row['exposed_cost_ps'])} of it exposed"
    return f"{sentence}{exposed}{'' if row.get('is_alone') else gain_words(row)}."


def _operations(by_op: pd.DataFrame) -> Table:
    several = by_op["ranks"].nunique(dropna=False) > 1
    return table_of(
        by_op.head(MOST_ROWS),
        "collectives.operations",
        "Collectives by operation and message size",
        [
            Field("operation", Unit.TEXT, lambda row: _operation(row["category"])),
            Field("ranks", Unit.COUNT, "ranks", brief=several),
            Field("size", Unit.BYTES, "size_bytes"),
            Field("n", Unit.COUNT, "n"),
            Field("duration", Unit.TIME, "duration_ps"),
            Field("waiting", Unit.RATIO, "wait_ratio"),
            Field("algbw", Unit.BYTES_PER_S, lambda row: _bandwidth(row["algorithm_bytes_per_s"], row["at_least"])),
            Field("busbw", Unit.BYTES_PER_S, lambda row: _bandwidth(row["bus_bytes_per_s"], row["at_least"])),
            Field("total exposed", Unit.TIME, "exposed_ps"),
        ],
        about="Messages are grouped by powers of two; the size is the lower end of the group, "
        "and the duration the median over n.",
    )


def _bandwidth(bytes_per_s: Any, at_least: bool) -> Any:
    if at_least and pd.notna(bytes_per_s):
        return AtLeast(bytes_per_s)
    return or_missing(bytes_per_s, "its bytes are not known")


def _devices(by_device: pd.DataFrame) -> Table:
    """The devices in their order, but of many those first that cost the others most."""
    members, brief = by_device[by_device["n"] > 0], 8
    title = "Stragglers"
    if len(members) > brief:
        members = members.sort_values("cost_ps", ascending=False, kind="stable")
        title = "Stragglers, costliest first" if len(members) <= FEW else "Waiting and stragglers"
    return table_of(
        members,
        "collectives.devices",
        title,
        [
            Field("device", Unit.DEVICE, "device"),
            Field("last in", Unit.COUNT, "last"),
            Field("of", Unit.COUNT, "n"),
            Field("cost to others", Unit.TIME, "cost_ps"),
            Field("saves if on time", Unit.TIME, "gain_ps", brief=False),
            Field("waited", Unit.TIME, "waiting_ps"),
            Field("transfer", Unit.TIME, "transfer_ps"),
            Field("hidden", Unit.TIME, "hidden_ps"),
            Field("exposed", Unit.TIME, "exposed_ps"),
        ],
        brief,
    )


def _slow_groups(by_group: pd.DataFrame) -> list[str]:
    """Which groups of devices are slower than others like them, the slowest first."""
    slow = by_group[by_group["slow"]]
    slow = slow.loc[(slow["bus_bytes_per_s"] / slow["others_bytes_per_s"]).sort_values(kind="stable").index]
    sentences = [
        f"A slow link: {row['n']} {_operation(row['category'])}s of {row['devices']} reached "
        f"{rate(row['bus_bytes_per_s'], 'B/s')} (busbw), where other groups of as many devices reached "
        f"{rate(row['others_bytes_per_s'], 'B/s')} with messages as large."
        for row in records(slow.head(2))
    ]
    more = f" So did {quantity(len(slow) - 2, 'other group')}." if len(slow) > 2 else ""
    return [*sentences[:-1], sentences[-1] + more] if sentences else []


def _groups(by_group: pd.DataFrame) -> Table:
    """The groups of devices, the slowest beside others first."""
    ratio = by_group["bus_bytes_per_s"] / by_group["others_bytes_per_s"]
    return table_of(
        by_group.loc[ratio.sort_values(kind="stable").index].head(MOST_ROWS),
        "collectives.groups",
        "Groups of devices by bandwidth",
        [
            Field("operation", Unit.TEXT, lambda row: _operation(row["category"])),
            Field("ranks", Unit.COUNT, "ranks"),
            Field("size", Unit.BYTES, "size_bytes"),
            Field("devices", Unit.NAME, "devices"),
            Field("n", Unit.COUNT, "n"),
            Field("busbw", Unit.BYTES_PER_S, "bus_bytes_per_s"),
            Field("of others", Unit.BYTES_PER_S, "others_bytes_per_s"),
        ],
        0,
        about="Medians; of others: of the middle one of the other groups with as many ranks and messages as large.",
    )


def _hosts(by_host: pd.DataFrame) -> Table:
    """The hosts whose devices, together, cost those of the others most."""
    return table_of(
        by_host.sort_values("cost_ps", ascending=False, kind="stable").head(MOST_ROWS),
        "collectives.hosts",
        "Hosts by what the lateness of all their devices cost the others",
        [
            Field("host", Unit.NAME, "host"),
            Field("devices", Unit.COUNT, "devices"),
            Field("last in", Unit.COUNT, "last"),
            Field("of", Unit.COUNT, "n"),
            Field("cost to others", Unit.TIME, "cost_ps"),
            Field("saves if on time", Unit.TIME, "gain_ps"),
        ],
        0,
    )


def _instances(instances: pd.DataFrame) -> list[Table]:
    """The collectives whose devices waited longest, and those that were exposed longest."""
    waited = instances[instances["wait_ps"].fillna(0) > 0].sort_values("wait_ps", ascending=False, kind="stable")
    exposed = instances[instances["exposed_ps"] > 0].sort_values("exposed_ps", ascending=False, kind="stable")
    tables = [_longest("collectives.waits", "Longest waits", waited, _WAITS)]
    if not (set(exposed.index) <= set(waited.index) and len(exposed) <= _FEW):
        tables.append(_longest("collectives.exposed", "Longest exposed collectives", exposed, 0))
    return tables


def _longest(key: str, title: str, instances: pd.DataFrame, brief: int) -> Table:
    return table_of(
        instances.head(MOST_ROWS),
        key,
        title,
        [
            Field("collective", Unit.NAME, "op"),
            Field("at", Unit.INSTANT, lambda row: instant(row, clock=row["clock"])),
            Field("operation", Unit.TEXT, lambda row: _operation(row["category"]), brief=False),
            Field("devices", Unit.COUNT, "devices", brief=False),
            Field("last", Unit.DEVICE, lambda row: or_missing(row["last"], "no single device was last")),
            Field("skew", Unit.TIME, "skew_ps", reason="reason"),
            Field("total wait", Unit.TIME, "wait_ps", reason="reason"),
            Field("transfer", Unit.TIME, "transfer_ps", reason="reason"),
            Field("total exposed", Unit.TIME, "exposed_ps", brief=False),
        ],
        brief,
    )


def _operation(category: str) -> str:
    return category.removeprefix("collective-")


def _data(result: Collectives) -> dict[str, Any]:
    """Everything; of many instances those that took most device time, in order of time."""
    longest = result.table.nlargest(MOST_DATA, "device_time_ps", keep="first").sort_values("instance")
    return {
        "total": plain(result.total)[0],
        "alone": result.alone or None,
        "by_device": plain(result.by_device),
        "by_host": plain(result.by_host.sort_values("cost_ps", ascending=False, kind="stable").head(MOST_DATA)),
        "by_operation": plain(result.by_op),
        "by_group": plain(result.by_group.head(MOST_DATA)),
        "instances": plain(longest),
        "notes": list(result.notes),
    }
