"""Why the devices stood idle, as the report shows it: the finding, the causes, the devices and the longest gaps."""

import pandas as pd

from tracekit.analysis.idle.idle import Idle
from tracekit.columns import records
from tracekit.report.section import Section, Titled, plain
from tracekit.units import percent, short, time

# What stands in the tables, and in summary.json of the long list.
_SHOWN, _KEPT = 8, 1000
_MEANING = {
    "host-bound": "the next launch came late",
    "input pipeline": "the host was loading data",
    "compiling": "the host was compiling",
    "waiting for a copy": "a copy had to end first",
    "waiting for a collective or another device": "work elsewhere had to end first",
    "launch latency": "the launch was under way",
    "between queued work": "the next work was queued, and the device took its time to start it",
    "inside a program": "between the operations of one execution",
    "before first work": "other devices had begun",
    "after last work": "other devices went on",
    "unexplained": "nothing in the trace says why",
}
_SHORT = {"waiting for a collective or another device": "waiting for coll./device"}
_NAME = 24


def section(result: Idle) -> Section:
    """The idlest device in a sentence, then causes, devices and gaps."""
    title = "Why the devices stood idle"
    if result.lacking:
        return Section("idle", title, lacking=result.lacking)
    return Section("idle", title, _said(result), _tables(result), _data(result))


def _said(result: Idle) -> list[str]:
    devices = [one for one in records(result.devices) if one["idle_ps"]]
    if not devices:
        return ["No device was ever idle."]
    idlest = max(devices, key=lambda one: one["ratio"])
    parts = [one for one in records(result.by_device) if one["device"] == idlest["device"]]
    first, *more = parts
    told = f"{idlest['device']} was idle {percent(idlest['ratio'])} of the window: "
    told += f"{percent(first['ratio'])} of that {first['cause']} ({_MEANING[first['cause']]})"
    told += "".join(f", {percent(one['ratio'])} {one['cause']}" for one in more[:2] if one["ratio"] >= 0.05)
    said = [told + "."]
    if len(devices) > 1:
        whole = records(result.by_cause)
        said.append(
            f"Of the idle time of all {len(result.devices)} devices "
            + ", ".join(f"{percent(one['ratio'])} is {one['cause']}" for one in whole[:3] if one["ratio"] >= 0.05)
            + "."
        )
    return said


def _tables(result: Idle) -> list[Titled]:
    causes = [
        [str(one["cause"]), str(one["gaps"]), time(one["idle_ps"]), percent(one["ratio"])]
        for one in records(result.by_cause)
    ]
    devices = [
        [
            str(one["device"]),
            time(one["idle_ps"]),
            percent(one["ratio"]),
            "-" if pd.isna(one["cause"]) else _short(one["cause"]),
            percent(one["cause_ratio"]),
        ]
        for one in sorted(records(result.devices), key=lambda one: -one["idle_ps"])[:_SHOWN]
    ]
    gaps = [
        [
            str(one["device"]),
            time(one["start_ps"]),
            time(one["idle_ps"]),
            _short(one["cause"]),
            short(one["name"], _NAME),
        ]
        for one in records(result.largest)[:_SHOWN]
    ]
    return [
        ("Idle time by cause", ["cause", "gaps", "time", "of idle"], causes),
        ("Idle time by device", ["device", "idle", "of window", "mostly", "of idle"], devices),
        ("Longest idle intervals", ["device", "at", "time", "mostly", "until"], gaps),
    ]


def _short(cause: str) -> str:
    return _SHORT.get(cause, cause)


def _data(result: Idle) -> dict[str, object]:
    return {
        "devices": plain(result.devices),
        "by_cause": plain(result.by_cause),
        "by_device": plain(result.by_device),
        "largest": plain(result.largest[:_KEPT]),
        "pieces": len(result.gaps),
    }
