"""Idle time as the report shows it: the idlest device, then causes, devices and the longest gaps."""

from typing import Any

from tracekit.analysis.idle import Cause, Idle
from tracekit.columns import records
from tracekit.report.section import MOST_DATA, MOST_ROWS, Field, Section, Table, Unit, instant, plain, table_of
from tracekit.units import percent

# A smaller share is not worth a word.
_WORTH = 0.05
_MEANING = {
    "host-bound": "the next launch came late",
    "input pipeline": "the host was loading data",
    "compiling": "the host was compiling",
    "waiting for a copy": "a copy had to end first",
    "waiting for a collective or another device": "work elsewhere had to end first",
    "slow launch call": "the host was in a launch call that ran for more than 20 µs",
    "launch latency": "the launch was under way",
    "between queued work": "scheduling gaps between queued kernels",
    "inside a program": "between the operations of one execution",
    "at the start of this part": "its work before had ended",
    "at the end of this part": "its work after had not begun",
    "unexplained": "nothing in the trace says why",
}
# Of time before the first work of a device or after its last: where other devices worked for most of it, some, at least
# sooner or later, none of them, or where clocks do not tell.
_EDGES = {
    Cause.BEFORE: (
        "other devices had started",
        "other devices had started for a part of it",
        "other devices had worked before",
        "nothing ran on any device yet",
        "nothing ran on it yet",
    ),
    Cause.AFTER: (
        "other devices were still busy",
        "other devices were busy for a part of it",
        "other devices worked later",
        "nothing more ran on any device",
        "nothing more ran on it",
    ),
}


def section(result: Idle, windows_ps: int = 0) -> Section:
    """The idlest device in a sentence, then causes, devices and gaps; `windows_ps` is the sum of the devices' windows,
    by default of those that worked."""
    if result.lacking:
        return Section("idle", "Idle time", lacking=result.lacking)
    devices = sorted((row for row in records(result.devices) if row["idle_ps"]), key=lambda row: -row["ratio"])
    return Section(
        "idle",
        "Idle time",
        _sentences(result, devices),
        tables=_tables(result),
        data=_data(result),
        share=devices[0]["idle_ps"] / (windows_ps or sum(map(int, result.devices["window_ps"]))) if devices else 0.0,
        loss=devices[0]["cause"] if devices else "",
    )


def _sentences(result: Idle, devices: list[dict[str, Any]]) -> tuple[str, ...]:
    """Of the devices that were idle at all, the idlest first, what was the cause."""
    if not devices:
        return ("No device was ever idle.",)
    idlest = devices[0]
    meaning = _meaning(result, idlest["device"], idlest["cause"])
    cause = f"mainly {idlest['cause']} ({percent(idlest['cause_ratio'])} of the idle time): {meaning}"
    first = f"{idlest['device']} was idle for {percent(idlest['ratio'])} of the window, {cause}."
    if len(devices) == 1:
        return (first,)
    worth = [row for row in records(result.by_cause)[:3] if row["ratio"] >= _WORTH]
    causes = ", ".join(f"{percent(row['ratio'])} {row['cause']}" for row in worth)
    return first, f"Idle time of the {len(result.devices)} devices: {causes}."


def _meaning(result: Idle, device: str, cause: str) -> str:
    """What a cause of idle time of a device means.

    At an edge of its work another one has worked sooner or later that idled less for this cause, if their windows are
    the same; and it worked meanwhile for as much of it, at least, as is more than all of its own idle time.
    """
    if cause not in _EDGES:
        return _MEANING[cause]
    at_edge = result.by_device[result.by_device["cause"] == cause].set_index("device")["idle_ps"]
    own, devices = int(at_edge[device]), result.devices.set_index("device")
    others = devices[(devices["window_ps"] == devices["window_ps"][device]) & (devices.index != device)]
    most, some, apart, none, alone = _EDGES[Cause(cause)]
    beside = own - int(others["idle_ps"].min()) if len(others) else 0
    if beside > 0:
        return most if 2 * beside > own else some
    if any(int(at_edge.get(other, 0)) < own for other in others.index):
        return apart
    return none if len(others) == len(devices) - 1 else alone


def _tables(result: Idle) -> tuple[Table, ...]:
    devices = len(result.devices)
    return (
        table_of(
            result.by_cause,
            "idle.causes",
            "Idle time by cause" + (f", summed over {devices} devices" if devices > 1 else ""),
            [
                Field("cause", Unit.TEXT, "cause"),
                Field("gaps", Unit.COUNT, "gaps"),
                Field("time", Unit.TIME, "idle_ps"),
                Field("of idle", Unit.RATIO, "ratio"),
            ],
            len(result.by_cause),
        ),
        table_of(
            result.devices.sort_values("idle_ps", ascending=False, kind="stable"),
            "idle.devices",
            "Idle time by device",
            [
                Field("device", Unit.DEVICE, "device"),
                Field("idle", Unit.TIME, "idle_ps"),
                Field("of window", Unit.RATIO, "ratio"),
                Field("main cause", Unit.TEXT, "cause"),
                Field("of idle", Unit.RATIO, "cause_ratio"),
            ],
        ),
        table_of(
            result.largest.head(MOST_ROWS),
            "idle.gaps",
            "Longest idle gaps",
            [
                Field("device", Unit.DEVICE, "device"),
                Field("at", Unit.INSTANT, lambda row: instant(row, row["device"])),
                Field("time", Unit.TIME, "idle_ps"),
                Field("main cause", Unit.TEXT, "cause"),
                Field("of gap", Unit.RATIO, "cause_ratio", brief=False),
                Field("next event", Unit.NAME, "name"),
            ],
        ),
    )


def _data(result: Idle) -> dict[str, object]:
    return {
        "devices": plain(result.devices),
        "by_cause": plain(result.by_cause),
        "by_device": plain(result.by_device),
        "largest": plain(result.largest[:MOST_DATA]),
        # A summary of schema 1 holds no pieces, but has their numbers by cause.
        "pieces": len(result.gaps) or int(result.by_cause["gaps"].sum()),
    }
