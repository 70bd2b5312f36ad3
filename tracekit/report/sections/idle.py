"""Idle time as the report shows it: the idlest device, then causes, devices and the longest gaps."""

from tracekit.analysis.idle import Idle
from tracekit.columns import records
from tracekit.report.section import Column, Section, Table, Unit, instant, plain, table
from tracekit.units import percent

# Rows that a face without limits shows, and rows in summary.json of the long list.
_MOST, _KEPT = 40, 1000
# A smaller share is not worth a word.
_WORTH = 0.05
_MEANING = {
    "host-bound": "the next launch came late",
    "input pipeline": "the host was loading data",
    "compiling": "the host was compiling",
    "waiting for a copy": "a copy had to end first",
    "waiting for a collective or another device": "work elsewhere had to end first",
    "launch latency": "the launch was under way",
    "between queued work": "a scheduling gap between queued kernels",
    "inside a program": "between the operations of one execution",
    "before first work": "other devices had begun",
    "after last work": "other devices went on",
    "unexplained": "nothing in the trace says why",
}


def section(result: Idle) -> Section:
    """The idlest device in a sentence, then causes, devices and gaps."""
    if result.lacking:
        return Section("idle", "Idle time", lacking=result.lacking)
    return Section("idle", "Idle time", _sentences(result), tables=_tables(result), data=_data(result))


def _sentences(result: Idle) -> tuple[str, ...]:
    devices = [row for row in records(result.devices) if row["idle_ps"]]
    if not devices:
        return ("No device was ever idle.",)
    idlest = max(devices, key=lambda row: row["ratio"])
    main, *_ = (row for row in records(result.by_device) if row["device"] == idlest["device"])
    cause = f"{main['cause']} for {percent(main['ratio'])} of that ({_MEANING[main['cause']]})"
    first = f"{idlest['device']} was idle {percent(idlest['ratio'])} of the window, {cause}."
    if len(devices) == 1:
        return (first,)
    worth = [row for row in records(result.by_cause)[:3] if row["ratio"] >= _WORTH]
    causes = ", ".join(f"{percent(row['ratio'])} {row['cause']}" for row in worth)
    return first, f"The idle time of the {len(result.devices)} devices is {causes}."


def _tables(result: Idle) -> tuple[Table, ...]:
    causes = [(row["cause"], row["gaps"], row["idle_ps"], row["ratio"]) for row in records(result.by_cause)]
    devices = sorted(records(result.devices), key=lambda row: -row["idle_ps"])
    gaps = [
        (row["device"], instant(row, row["device"]), row["idle_ps"], row["cause"], row["cause_ratio"], row["name"])
        for row in records(result.largest.head(_MOST))
    ]
    return (
        table(
            "idle.causes",
            "Idle time by cause",
            [
                Column("cause", Unit.TEXT),
                Column("gaps", Unit.COUNT),
                Column("time", Unit.TIME),
                Column("of idle", Unit.RATIO),
            ],
            causes,
            len(causes),
        ),
        table(
            "idle.devices",
            "Idle time by device",
            [
                Column("device", Unit.NAME),
                Column("idle", Unit.TIME),
                Column("of window", Unit.RATIO),
                Column("main cause", Unit.TEXT),
                Column("of idle", Unit.RATIO),
            ],
            [(row["device"], row["idle_ps"], row["ratio"], row["cause"], row["cause_ratio"]) for row in devices],
        ),
        table(
            "idle.gaps",
            "Longest idle gaps",
            [
                Column("device", Unit.NAME),
                Column("at", Unit.INSTANT),
                Column("time", Unit.TIME),
                Column("main cause", Unit.TEXT),
                Column("of gap", Unit.RATIO, brief=False),
                Column("next event", Unit.NAME),
            ],
            gaps,
        ),
    )


def _data(result: Idle) -> dict[str, object]:
    return {
        "devices": plain(result.devices),
        "by_cause": plain(result.by_cause),
        "by_device": plain(result.by_device),
        "largest": plain(result.largest[:_KEPT]),
        "pieces": len(result.gaps),
    }
