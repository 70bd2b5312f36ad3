"""What the host did while devices stood idle because its launches came late: each calls for another remedy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.analysis.idle import Cause, Idle
from tracekit.columns import distinct
from tracekit.intervals import Intervals
from tracekit.timeline.syncs import CLOCKS_PS
from tracekit.timeline.timeline import Timeline
from tracekit.vocabulary.host_calls import copies_synchronously, says_waiting

# A thread that launches again within this time does no more than launching: 90 % of a thread's launches followed the
# one before within 44 us in a PyTorch profile of 8 V100 (4,137 launches), within 89 us in an nsys profile of 2 H100
# (5,266). Where profilers record what is called and with which shapes, an operator takes longer for a launch: 99 % of
# 8,737 launches followed within 317 us in such a profile of an A100.
AGAIN_PS = 100_000_000
AGAIN_IN_OPERATOR_PS = 500_000_000

_THREAD = ("host", "process", "thread")


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
    gaps, calls, syncs, spans = idle.gaps, timeline.trace.launches, timeline.trace.syncs, timeline.trace.spans
    pieces = np.flatnonzero((gaps["cause"] == str(Cause.HOST)).to_numpy(bool))
    if len(pieces) == 0:
        return LateLaunches()
    starts, interval = gaps["start_ps"].to_numpy(), gaps["interval"].to_numpy()
    # The pieces of an interval stand together, by start.
    begin = starts[np.searchsorted(interval, interval[pieces])]
    late = iv.intervals(starts[pieces], gaps["end_ps"].to_numpy()[pieces])
    launch_of_event = np.full(len(timeline.trace.events), -1)
    launch_of_event[timeline.rows.at] = timeline.launch
    launch = launch_of_event[gaps["next"].to_numpy(np.int64, na_value=0)[pieces]]
    waits = [
        calls[_of_names(calls, copies_synchronously)],
        syncs[syncs["device"].isna().to_numpy(bool)],
        spans[_of_names(spans, says_waiting)],
    ]
    operators = timeline.trace.host_work
    thread_of_call, thread_of_operator, thread_of_wait = _threads([calls], [operators], waits)
    wait_times = np.concatenate([_times(table) for table in waits])
    after_wait = launching = 0
    for number in np.unique(thread_of_call[launch]).tolist():
        mine = thread_of_call[launch] == number
        blocked = iv.union(wait_times[thread_of_wait == number] + [0, CLOCKS_PS])
        waited = _holds(blocked, begin[mine])
        after_wait += iv.sum_exactly(np.diff(late[mine][waited]).ravel())
        own = _times(calls)[thread_of_call == number]
        in_operators = iv.intersection(
            _launching(own, AGAIN_IN_OPERATOR_PS), _times(operators)[thread_of_operator == number]
        )
        launches = iv.union(_launching(own, AGAIN_PS), in_operators)
        launching += iv.sum_exactly(iv.within(launches, late[mine][~waited]))
    return LateLaunches(after_wait, launching, iv.sum_exactly(np.diff(late).ravel()) - after_wait - launching)


def _of_names(table: pd.DataFrame, test: Callable[[str], bool]) -> NDArray[np.bool_]:
    """The rows of a frame whose names pass a test."""
    names = table["name"].cat
    passes = np.array([*(test(str(name)) for name in names.categories), False], bool)
    return passes[names.codes.to_numpy()]


def _threads(*groups: Sequence[pd.DataFrame]) -> list[NDArray[np.int64]]:
    """The number of each row's thread, of the frames of each group one after the other."""
    tables = [table for group in groups for table in group]
    columns = []
    for name in _THREAD:
        labels: dict[str, int] = {}
        codes = []
        for table in tables:
            values = table[name].cat
            of_code = [labels.setdefault(str(label), len(labels)) for label in values.categories]
            codes.append(np.array([*of_code, -1])[values.codes.to_numpy()])
        columns.append(np.concatenate(codes))
    thread, _ = distinct(*columns)
    return np.split(thread, np.cumsum([sum(map(len, group)) for group in groups])[:-1])


def _times(table: pd.DataFrame) -> Intervals:
    return iv.intervals(table["start_ps"].to_numpy(), table["end_ps"].to_numpy())


def _holds(times: Intervals, points: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which points merged `times` hold."""
    if len(times) == 0:
        return np.zeros(len(points), bool)
    at = np.searchsorted(times[:, 0], points, side="right") - 1
    holds: NDArray[np.bool_] = (at >= 0) & (points < times[at, 1])
    return holds


def _launching(calls: Intervals, again_ps: int) -> Intervals:
    """When a thread launched, or was to do so again within a time, by its launch calls; merged."""
    calls = calls[np.argsort(calls[:, 0], kind="stable")]
    ahead = np.append(calls[1:, 0], np.iinfo(np.int64).max)
    end = np.where(ahead - calls[:, 1] <= again_ps, ahead, calls[:, 1])
    return iv.union(iv.intervals(calls[:, 0], np.maximum(end, calls[:, 1])))
