"""Traces of rows, calls, spans, waits and operands for tests of the dependency graph."""

import numpy as np

from tests.frames import with_instances
from tracekit.analysis.critical_path.graph import graph
from tracekit.analysis.critical_path.replay import Runs
from tracekit.columns import frame
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import (
    EVENT_COLUMNS,
    HOST_WORK_COLUMNS,
    LAUNCH_COLUMNS,
    OP_COLUMNS,
    OPERAND_COLUMNS,
    SPAN_COLUMNS,
    SYNC_COLUMNS,
    Trace,
)


def trace(events, launches=(), spans=(), syncs=(), operands=(), ops=0, host_work=()) -> Trace:
    """Events (device, lane, kind, start, end[, more]); launches (thread, start, end, id[, name]); spans (thread, start,
    end[, name[, step]]); syncs (thread, start, end, device, lane, on_device, on_lane, recorded);
    host_work (thread, start, end)."""
    names = ("device", "lane", "kind", "start_ps", "end_ps")
    records = [{**dict(zip(names, row, strict=False)), **(row[5] if len(row) > 5 else {})} for row in events]
    columns = {name: [row.get(name) for row in records] for name in {key for row in records for key in row}}
    columns.update(host=["h"] * len(records), name=[row.get("name", row["kind"]) for row in records])
    calls = [(*row, "call")[:5] for row in launches]
    marks = [(*row, *("python", None)[len(row) - 3 :]) for row in spans]
    return Trace(
        events=frame(EVENT_COLUMNS, columns) if records else frame(EVENT_COLUMNS),
        launches=frame(
            LAUNCH_COLUMNS,
            {
                "host": ["h"] * len(calls),
                "thread": [row[0] for row in calls],
                "name": [row[4] for row in calls],
                "start_ps": [row[1] for row in calls],
                "end_ps": [row[2] for row in calls],
                "correlation_id": [row[3] for row in calls],
            },
        ),
        spans=frame(
            SPAN_COLUMNS,
            {
                "host": ["h"] * len(marks),
                "thread": [row[0] for row in marks],
                "name": [row[3] for row in marks],
                "start_ps": [row[1] for row in marks],
                "end_ps": [row[2] for row in marks],
                "step": [row[4] for row in marks],
            },
        ),
        host_work=frame(HOST_WORK_COLUMNS, [("h", None, thread, None, *times) for thread, *times in host_work]),
        syncs=frame(
            SYNC_COLUMNS,
            {
                "host": ["h"] * len(syncs),
                "name": ["wait"] * len(syncs),
                **{
                    name: [row[at] for row in syncs]
                    for at, name in enumerate(
                        ("thread", "start_ps", "end_ps", "device", "lane", "on_device", "on_lane", "recorded_ps")
                    )
                },
            },
        ),
        ops=frame(OP_COLUMNS, length=ops),
        operands=frame(OPERAND_COLUMNS, {"op": [a for a, _ in operands], "operand": [b for _, b in operands]}),
        source="traces/test",
        format="xplane",
    )


def graph_of(any_trace: Trace, instance=None):
    timeline = timeline_of(any_trace)
    return graph(timeline if instance is None else with_instances(timeline, instance))


def runs_of(dag, *windows: tuple[int, ...]) -> Runs:
    """Runs on the first clock, each given by its start and the ends of its steps."""
    ends = np.array([end for window in windows for end in window[1:]])
    ends.flags.writeable = False  # as what comes from a frame: for other flags numba compiles all again
    return Runs(
        np.array([window[0] for window in windows]),
        np.array([window[-1] for window in windows]),
        np.zeros(len(windows), np.int64),
        np.append(0, np.cumsum([len(window) - 1 for window in windows])),
        ends,
        np.full(len(dag.start), -1),
    )
