"""A trace whose critical path is known, and how tests ask for paths."""

import pandas as pd

from tests.graph_traces import trace
from tracekit.analysis.critical_path.critical_path import critical_path
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import Trace

US = 1_000_000


def path(any_trace: Trace, steps=None):
    return critical_path(timeline_of(any_trace), step_table() if steps is None else steps)


def step_table(*steps):
    """Rows of (start, end[, left out[, clock]])."""
    full = [(*step, *(None, "")[len(step) - 2 :]) for step in steps]
    return pd.DataFrame(
        {
            "clock": pd.Series([step[3] for step in full], dtype="str"),
            "step": pd.array(range(len(full)), "Int64"),
            "name": pd.Series(["train"] * len(full), dtype="str"),
            "start_ps": [step[0] for step in full],
            "end_ps": [step[1] for step in full],
            "left_out": pd.Series([step[2] for step in full], dtype="str"),
        }
    )


def known_trace() -> Trace:
    """Two GPUs: a kernel each, an all-reduce that the second enters late, an update, and a copy that the host awaits.

    The host launches from 0 on, 2 us a call; gpu:1's kernel takes 40 us, gpu:0's 20, so the all-reduce begins at 46 and
    takes 10. The updates last 4. The copy to the host takes 8, and the wait for it ends 3 us later. Then the host
    computes for 9 us before its last launch, whose kernel takes 5.
    """
    rows_of = [
        ("gpu:0", "s", "compute", 2, 22, "gemm"),
        ("gpu:1", "s", "compute", 6, 46, "gemm"),
        ("gpu:0", "s", "collective", 22, 56, "all-reduce"),
        ("gpu:1", "s", "collective", 46, 56, "all-reduce"),
        ("gpu:0", "s", "compute", 56, 60, "update"),
        ("gpu:1", "s", "compute", 56, 60, "update"),
        ("gpu:1", "s", "memcpy", 60, 68, "copy"),
        ("gpu:1", "s", "compute", 82, 87, "last"),
    ]
    calls = [0, 4, 8, 10, 12, 14, 16, 80]
    waits = [("t", 18 * US, 71 * US, None, None, "gpu:1", "s", 18 * US)]
    return trace(
        [
            (device, lane, kind, start * US, end * US, {"name": name, "correlation_id": at, "category": name})
            for at, (device, lane, kind, start, end, name) in enumerate(rows_of)
        ],
        [("t", start * US, (start + 2) * US, at) for at, start in enumerate(calls)],
        [("t", 71 * US, 80 * US)],
        waits,
    )
