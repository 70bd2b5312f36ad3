"""Which call of the host started which execution of a program on a TPU.

`DoEnqueueProgram` puts a program into a core's queue; its `_p` is the `_c` of the execution in `XLA Modules`, and both
have the `run_id`, which counts for each core. It runs when the program's inputs are there; the host asked for it with
`tpu::System::Execute`, whose `_p` is the `_c` of the `tpu::System::Execute=>IssueSequencedEvent` around it.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import concat, frame
from tracekit.readers.xspace import host_events
from tracekit.readers.xspace.host_events import HostEvents
from tracekit.trace import LAUNCH_COLUMNS

STATS = ("run_id", "device_ordinal", "_p", "_c")

_ENQUEUES = "DoEnqueueProgram"
_EXECUTES = "tpu::System::Execute"
_ISSUES = "tpu::System::Execute=>IssueSequencedEvent"


@dataclass(frozen=True)
class ProgramLaunches:
    """The calls that started executions (LAUNCH_COLUMNS), and the correlation id of each by what joins them: the flow
    to `XLA Modules`, and the run on a chip."""

    launches: pd.DataFrame
    first_id: int
    by_flow: dict[int, int]
    by_run: dict[tuple[int, int], int]

    def of(
        self, flow: NDArray[np.int64], run: NDArray[np.int64], has_run: NDArray[np.bool_], chip: int
    ) -> NDArray[np.int64]:
        """The correlation id of the executions with `_c` `flow` (0 where there is none) and `run` on a chip; -1 where
        no call is known; all (n,)."""
        correlation_ids = [
            self.by_flow.get(flow_id, self.by_run.get((chip, run_id), -1) if known and flow_id == 0 else -1)
            for flow_id, run_id, known in zip(flow.tolist(), run.tolist(), has_run.tolist(), strict=True)
        ]
        return np.array(correlation_ids, np.int64)

    def ahead(self, ids: NDArray[np.int64], start: NDArray[np.int64]) -> int:
        """By how many ps an execution started before its call did, the most among those with `ids` (-1 for none) at
        `start` (n,): so much, or more, do the clocks of host and chip differ. Not positive if none did."""
        known = ids >= 0
        call_start = self.launches["start_ps"].to_numpy()[ids[known] - self.first_id]
        return int((call_start - start[known]).max(initial=0))


def program_launches(host: str, planes: list[HostEvents], first_id: int) -> ProgramLaunches:
    """The calls on the planes of a host that started executions on TPUs; their ids count from `first_id`.

    A run that several calls name on one chip is told by its flow alone.
    """
    tables = []
    by_flow: dict[int, int] = {}
    by_run: dict[tuple[int, int], int] = {}
    repeated = set()
    for events in planes:
        rows = np.flatnonzero(events.with_name(lambda name: name == _ENQUEUES))
        if len(rows) == 0:
            continue
        calls = _callers(events, rows)
        ids = first_id + len(by_flow) + np.arange(len(rows))
        tables.append(frame(LAUNCH_COLUMNS, host_events.host_columns(host, events, calls) | {"correlation_id": ids}))
        flow, chip, run = (events.plane.numbers(stat)[0][rows].tolist() for stat in ("_p", "device_ordinal", "run_id"))
        for flow_id, key, number in zip(flow, zip(chip, run, strict=True), ids.tolist(), strict=True):
            by_flow[flow_id or -number] = number
            if key in by_run:
                repeated.add(key)
            by_run[key] = number
    return ProgramLaunches(
        concat(LAUNCH_COLUMNS, tables),
        first_id,
        by_flow,
        {key: number for key, number in by_run.items() if key not in repeated},
    )


def _callers(events: HostEvents, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The `tpu::System::Execute` that led to each of the events `rows`, else the event itself."""
    issues = events.around(events.with_name(lambda name: name == _ISSUES), rows)
    consumed = events.plane.numbers("_c")[0][issues]
    executes = np.flatnonzero(events.with_name(lambda name: name == _EXECUTES))
    by_flow = dict(zip(events.plane.numbers("_p")[0][executes].tolist(), executes.tolist(), strict=True))
    callers = [
        by_flow.get(flow, row) if issue >= 0 and flow != 0 else row
        for row, issue, flow in zip(rows.tolist(), issues.tolist(), consumed.tolist(), strict=True)
    ]
    return np.array(callers, np.int64)
