"""What the host did while devices stood idle because its launches came late: each calls for another remedy."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit import intervals as iv
from tracekit.analysis.host_api import call_of_gaps, waiting_calls
from tracekit.analysis.host_records import thread_numbers
from tracekit.analysis.idle import Cause, Idle
from tracekit.analysis.idle_gaps import idle_intervals
from tracekit.intervals import Intervals
from tracekit.timeline.timeline import Timeline

# A thread that launches again within this time does no more than launching: 90 % of a thread's launches followed the
# one before within 44 us in a PyTorch profile of 8 V100 (4,137 launches), within 89 us in an nsys profile of 2 H100
# (5,266). Where profilers record what is called and with which shapes, an operator takes longer for a launch: 99 % of
# 8,737 launches followed within 317 us in such a profile of an A100.
AGAIN_PS = 100_000_000
AGAIN_IN_OPERATOR_PS = 500_000_000


@dataclass(frozen=True)
class LateLaunches:
    """The parts of the host-bound idle time of all devices, in ps, which sum to it.

    `after_wait_ps`: of idle intervals that began while the launching thread waited for a device, so that it could not
    launch ahead; of the others, `launching_ps`: while it launched or was about to do so again (AGAIN_PS, and
    AGAIN_IN_OPERATOR_PS while it ran an operator of a framework), and `working_ps`: while it did anything else.
    """

    after_wait_ps: int = 0
    launching_ps: int = 0
    working_ps: int = 0


def late_launches(timeline: Timeline, idle: Idle) -> LateLaunches:
    """What the launching threads did in the host-bound time of `idle`, which is of the timeline."""
    gaps, calls, operators = idle.gaps, timeline.trace.launches, timeline.trace.host_work
    pieces = np.flatnonzero((gaps["cause"] == str(Cause.HOST)).to_numpy(bool))
    if len(pieces) == 0:
        return LateLaunches()
    late = iv.intervals(gaps["start_ps"].to_numpy()[pieces], gaps["end_ps"].to_numpy()[pieces])
    between = idle_intervals(timeline, gaps)
    gap = np.searchsorted(between.interval, gaps["interval"].to_numpy()[pieces])
    waited = call_of_gaps(timeline, between, waiting_calls(timeline))[gap] >= 0
    after_wait = iv.sum_exactly(np.diff(late[waited]).ravel())
    thread_of_call, thread_of_operator = thread_numbers(calls, operators)
    thread = thread_of_call[between.launch[gap]]
    launching = 0
    for number in np.unique(thread).tolist():
        own = _times(calls)[thread_of_call == number]
        in_operators = iv.intersection(
            _launching(own, AGAIN_IN_OPERATOR_PS), _times(operators)[thread_of_operator == number]
        )
        launches = iv.union(_launching(own, AGAIN_PS), in_operators)
        launching += iv.sum_exactly(iv.within(launches, late[(thread == number) & ~waited]))
    return LateLaunches(after_wait, launching, iv.sum_exactly(np.diff(late).ravel()) - after_wait - launching)


def _times(table: pd.DataFrame) -> Intervals:
    return iv.intervals(table["start_ps"].to_numpy(), table["end_ps"].to_numpy())


def _launching(calls: Intervals, again_ps: int) -> Intervals:
    """When a thread launched, or was to do so again within a time, by its launch calls; merged."""
    calls = calls[np.argsort(calls[:, 0], kind="stable")]
    ahead = np.append(calls[1:, 0], np.iinfo(np.int64).max)
    end = np.where(ahead - calls[:, 1] <= again_ps, ahead, calls[:, 1])
    return iv.union(iv.intervals(calls[:, 0], np.maximum(end, calls[:, 1])))
