"""Literal frames for tests of what costs a device the most."""

import pandas as pd

from tests.frames import events
from tracekit import intervals as iv
from tracekit.analysis.offenders import Offenders, offenders
from tracekit.columns import frame
from tracekit.timeline.timeline import Timeline, timeline_of
from tracekit.trace import OP_COLUMNS, Trace

STEPS = {"clock": "str", "step": "Int64", "name": "str", "start_ps": "int64", "end_ps": "int64"}
NO_STEPS = pd.DataFrame(columns=list(STEPS)).astype(STEPS)


def gaps(*records) -> pd.DataFrame:
    """From (device, start, end, cause, next); what touches the one before it is a piece of the same interval."""
    table = pd.DataFrame(records, columns=["device", "start_ps", "end_ps", "cause", "next"])
    touches = (table["device"] == table["device"].shift()) & (table["start_ps"] == table["end_ps"].shift())
    table["interval"] = (~touches).cumsum().astype("int64")
    return table.astype(
        {"device": "category", "start_ps": "int64", "end_ps": "int64", "cause": "category", "next": "Int64"}
    )


def idle(timeline: Timeline) -> pd.DataFrame:
    """Every idle interval of each device, with one cause."""
    unions = timeline.unions
    return gaps(
        *[
            (name, start, end, "host-bound", None)
            for name, device in unions.devices.items()
            for start, end in iv.complement(device.busy, tuple(unions.windows[device.clock][0])).tolist()
        ]
    )


def offenders_of(table: pd.DataFrame, idle_table=None, steps=NO_STEPS, ops=None, collectives=None) -> Offenders:
    timeline = timeline_of(Trace(table, ops=frame(OP_COLUMNS) if ops is None else ops))
    return offenders(
        timeline,
        idle(timeline) if idle_table is None else idle_table,
        pd.DataFrame() if collectives is None else collectives,
        steps,
    )


def step() -> pd.DataFrame:
    """A step on two devices: compute, an all-reduce that device 0 waits in, a copy, and a gap before the next op."""
    table = events(
        ("gpu:0", "compute", 0, 100, "fusion.1"),
        ("gpu:0", "collective", 90, 200, "all-reduce.7"),
        ("gpu:0", "memcpy", 150, 230, "MemcpyD2H", "D2H"),
        ("gpu:0", "compute", 260, 300, "fusion.2"),
        ("gpu:1", "compute", 0, 160, "slow.1"),
        ("gpu:1", "collective", 160, 200, "all-reduce.7"),
        ("gpu:1", "compute", 200, 300, "fusion.2"),
    )
    table["op"] = pd.array([0, 1, None, 2, 0, 1, 2], "Int64")
    table["bytes"] = pd.array([None, 4096, 512, None, None, 4096, None], "Int64")
    return table


OPS = frame(OP_COLUMNS, {"source": ["m.py:1", "m.py:2", "m.py:3"], "framework_op": ["dot", "psum", None]})
STEP = pd.DataFrame([("", 5, "train", 0, 300)], columns=list(STEPS)).astype(STEPS)
COLLECTIVES = pd.DataFrame({"instance": [0], "last": ["gpu:1"], "last_start_ps": pd.array([160], "Int64")})


def exposed_costs(records) -> list[int]:
    """The exposed picoseconds of each row: each goes to the first row of its sort that runs, unless it is hidden."""
    costs = [0] * len(records)
    order = sorted(range(len(records)), key=lambda at: (records[at][2], records[at][3], at))
    for device in {row[0] for row in records if row[0] != "cpu:?"}:
        for point in range(40):
            running = [at for at in order if records[at][0] == device and records[at][2] <= point < records[at][3]]
            kinds = {records[at][1] for at in running}
            if "compute" in kinds:
                continue
            collectives = [at for at in running if records[at][1] == "collective"]
            copies = [at for at in running if records[at][1] in ("memcpy", "memset")]
            for at in (collectives or copies)[:1]:
                costs[at] += 1
    return costs
