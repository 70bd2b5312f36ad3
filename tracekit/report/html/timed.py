"""The tables of sections whose rows lie somewhere in the timeline: collectives, offenders, idle intervals and more."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from tracekit.analysis.offenders.offenders import IDLE
from tracekit.columns import records
from tracekit.report.html import steps
from tracekit.report.html.markup import Markup, join, name, none, number, picoseconds, share, tag
from tracekit.report.html.tables import table
from tracekit.report.html.timeline_links import Jumps
from tracekit.report.model import Report

# So many pieces of a path, or stretches, have a row.
_PIECES = 40
# Of so many collectives one table is enough.
_FEW = 9


def collectives(report: Report, to: Jumps) -> Markup:
    """The collectives that waited longest, and those that took longest beside no compute."""
    found = report.explanation.collectives.table
    waited = found[found["wait_ps"].fillna(0) > 0].sort_values("wait_ps", ascending=False, kind="stable")
    exposed = found[found["exposed_ps"] > 0].sort_values("exposed_ps", ascending=False, kind="stable")
    parts = []
    both = [("The longest waits", waited), ("The longest beside no compute", exposed)]
    if set(waited.index) <= set(exposed.index) and len(exposed) <= _FEW:
        both = both[1:]  # it has them all, and the waits too
    for title, ordered in both:
        if len(ordered):
            rows = [_collective(one, to) for one in records(ordered.head(40))]
            head = ["collective", "from", "kind", "devices", "last", "skew", "waited", "transfer", "exposed"]
            parts.append(table(title, head, rows, shown=6))
    return join(parts)


def _collective(one: Mapping[str, Any], to: Jumps) -> list[Markup]:
    return [
        name(one["op"]),
        to.at(one["start_ps"], one["end_ps"], one["op"], clock=one["clock"]),
        name(one["category"]),
        number(one["devices"]),
        name(one["last"]) if pd.notna(one["last"]) else none("no single device was last"),
        picoseconds(one["skew_ps"], one["reason"]),
        picoseconds(one["wait_ps"], one["reason"]),
        picoseconds(one["transfer_ps"], one["reason"]),
        picoseconds(one["exposed_ps"]),
    ]


def offenders(report: Report, to: Jumps) -> Markup:
    """What costs its device most, each with its largest instance in the timeline."""
    rows = []
    for one in records(report.explanation.offenders.table):
        what = f"idle: {one['what']}" if one["kind"] == IDLE else one["what"]
        place = next((one[key] for key in ("source", "framework_op", "next") if pd.notna(one[key])), None)
        before = "before " if one["kind"] == IDLE and place is not None else None
        rows.append(
            [
                join([name(what), tag("small", f" {one['direction']}") if pd.notna(one["direction"]) else None]),
                name(one["device"]),
                picoseconds(one["cost_ps"]),
                share(one["ratio"]),
                number(one["n"]),
                picoseconds(one["largest_ps"]),
                to.at(one["start_ps"], one["end_ps"], f"the largest of {what}", one["device"]),
                _where(before, place),
                name(one["meanwhile"]),
            ]
        )
    if not rows:
        return Markup("")
    head = ["what", "device", "cost", "of its window", "n", "largest", "from", "where", "others meanwhile"]
    return table("Top offenders, on the device that each costs most", head, rows, shown=8)


def _where(before: str | None, place: Any) -> Markup:
    """The last part of a path, the whole of it on hover."""
    if place is None:
        return none()
    last = str(place).rpartition("/")[2] or str(place)
    return tag("span", before, name(last), title=place if last != place else None)


def idle(report: Report, to: Jumps) -> Markup:
    """The longest idle intervals."""
    rows = [
        [
            name(one["device"]),
            to.at(one["start_ps"], one["end_ps"], f"{one['device']} idle", one["device"]),
            picoseconds(one["idle_ps"]),
            name(one["cause"]),
            share(one["cause_ratio"]),
            name(one["name"]),
        ]
        for one in records(report.explanation.idle.largest)
    ]
    return table("Longest idle intervals", ["device", "from", "time", "mostly", "of it", "until"], rows, shown=8)


def critical_path(report: Report, to: Jumps) -> Markup:
    """The longest pieces of the path of the median step."""
    found = report.explanation.critical_path
    places = [at for at, shown in enumerate(found.steps["shown"]) if shown == "median"]
    mine = found.path[found.path["at"].isin(places) & found.path["name"].notna()]
    ordered = mine.sort_values("time_ps", ascending=False, kind="stable").head(_PIECES)
    clocks = {at: str(found.steps["clock"].iloc[at]) for at in places}
    rows = [
        [
            str(one["part"]),
            name(one["on"], longest=24),
            name(one["name"]),
            to.at(one["start_ps"], one["end_ps"], one["name"], to.device(one["on"]), clocks[one["at"]]),
            picoseconds(one["time_ps"]),
        ]
        for one in records(ordered)
    ]
    if not rows:
        return Markup("")
    return table("Longest pieces of the median step's path", ["part", "on", "what", "from", "time"], rows, shown=8)


def launches(report: Report, to: Jumps) -> Markup:
    """The stretches in which the device idled since nothing was launched, those that lost most first."""
    found = report.explanation.launches.bound.sort_values("starved_ps", ascending=False, kind="stable")
    rows = [
        [
            name(one["device"]),
            to.at(one["start_ps"], one["end_ps"], "a stretch bound by launches", one["device"]),
            picoseconds(one["end_ps"] - one["start_ps"]),
            number(one["launches"]),
            picoseconds(one["starved_ps"]),
            share(one["starved_ratio"]),
        ]
        for one in records(found.head(_PIECES))
    ]
    if not rows:
        return Markup("")
    head = ["device", "from", "time", "launches", "idle, none launched", "of it"]
    return table("Stretches bound by launches", head, rows, shown=8)


# What shows the rows that have times, by key of the section, and the titles of its own tables that this replaces.
TIMED: Mapping[str, tuple[Callable[[Report, Jumps], Markup], tuple[str, ...]]] = {
    "steps": (steps.steps, ("What a step is made of", "Steps unlike the others")),
    "collectives": (collectives, ("The longest waits",)),
    "offenders": (offenders, ("Top offenders",)),
    "idle": (idle, ("Longest idle intervals",)),
    "critical_path": (critical_path, ("Longest pieces",)),
    "launches": (launches, ("Stretches bound",)),
}
