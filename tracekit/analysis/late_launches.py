"""What the host did while devices stood idle because its launches came late: each calls for another remedy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.analysis.host_api import call_of_gaps, waiting_calls
from tracekit.analysis.host_records import thread_numbers
from tracekit.analysis.idle import Cause, Idle
from tracekit.analysis.idle_gaps import idle_intervals, launching_threads
from tracekit.columns import by_label, distinct, places_of
from tracekit.intervals import Intervals
from tracekit.timeline.timeline import Timeline
from tracekit.vocabulary.host_calls import (
    allocates,
    calls_program,
    copies_to_host,
    executes,
    frees_memory,
    gets_memory,
    places_arguments,
)

# A thread that launches again within this time does no more than launching: 90 % of a thread's launches followed the
# one before within 44 us in a PyTorch profile of 8 V100 (4,137 launches), within 89 us in an nsys profile of 2 H100
# (5,266). Where profilers record what is called and with which shapes, an operator takes longer for a launch: 99 % of
# 8,737 launches followed within 317 us in such a profile of an A100.
AGAIN_PS = 100_000_000
AGAIN_IN_OPERATOR_PS = 500_000_000


@dataclass(frozen=True)
class LateLaunches:
    """The parts of the host-bound idle time of all devices, in ps, which sum to it.

    `allocating_ps`: while the launching thread, or the one that calls the host's programs, got memory from the runtime
    or gave it back;
    `copying_ps`: while it copied results into the host's memory, as JAX does. Of the rest: `after_wait_ps`: of idle
    intervals that began while the launching thread waited for a device, so that it could not launch ahead; of the
    others, `launching_ps`: while it launched, called a program, or was about to do so again (AGAIN_PS, and
    AGAIN_IN_OPERATOR_PS while it ran an operator of a framework), and `working_ps`: while it did anything else.
    `calls`: the call in which most of a part lies, of `allocating_ps` and `copying_ps`.
    """

    after_wait_ps: int = 0
    launching_ps: int = 0
    copying_ps: int = 0
    allocating_ps: int = 0
    working_ps: int = 0
    calls: Mapping[str, str] = field(default_factory=dict)

    def parts(self) -> dict[str, int]:
        """The parts by their names."""
        return {name: value for name, value in vars(self).items() if name != "calls"}


def late_launches(timeline: Timeline, idle: Idle) -> LateLaunches:
    """What the launching threads did in the host-bound time of `idle`, which is of the timeline; not in that before
    work which begins behind the part that the timeline is of."""
    gaps = idle.gaps
    pieces = np.flatnonzero((gaps["cause"] == str(Cause.HOST)).to_numpy(bool) & gaps["next"].notna().to_numpy(bool))
    if len(pieces) == 0:
        return LateLaunches()
    late = iv.intervals(gaps["start_ps"].to_numpy()[pieces], gaps["end_ps"].to_numpy()[pieces])
    between = idle_intervals(timeline, gaps)
    gap = np.searchsorted(between.interval, gaps["interval"].to_numpy()[pieces])
    waited = call_of_gaps(timeline, between, waiting_calls(timeline))[gap] >= 0
    launch = between.launch[gap]
    del between, gap, pieces  # 80 bytes a gap, which the times of the threads would stand beside
    sums = dict.fromkeys(("after_wait_ps", "launching_ps", "copying_ps", "allocating_ps"), 0)
    by_call: dict[str, dict[str, int]] = {"copying_ps": {}, "allocating_ps": {}}
    for at, thread in _threads(timeline, launch):
        own = late[at]
        allocating = iv.union(*thread.allocations.values())
        copying = iv.difference(iv.union(*thread.copies.values()), allocating)
        itself = iv.union(allocating, copying)
        for part, calls in (("allocating_ps", thread.allocations), ("copying_ps", thread.copies)):
            for name, times in calls.items():
                by_call[part][name] = by_call[part].get(name, 0) + iv.sum_exactly(iv.within(times, own))
        sums["allocating_ps"] += iv.sum_exactly(iv.within(allocating, own))
        sums["copying_ps"] += iv.sum_exactly(iv.within(copying, own))
        behind, others = own[waited[at]], own[~waited[at]]
        sums["after_wait_ps"] += iv.sum_exactly(np.diff(behind).ravel()) - iv.sum_exactly(iv.within(itself, behind))
        sums["launching_ps"] += iv.sum_exactly(iv.within(iv.difference(thread.launching(), itself), others))
    rest = iv.sum_exactly(np.diff(late).ravel()) - sum(sums.values())
    most = {part: max(times, key=lambda name: times[name]) for part, times in by_call.items() if any(times.values())}
    return LateLaunches(**sums, working_ps=rest, calls=most)


@dataclass(frozen=True)
class _Thread:
    """The times of a thread's `launches` and `operators`; and, by name and merged, of what it, or the thread that calls
    the programs, did to get memory, to copy results to the host, to call a program and to place its arguments."""

    launches: Intervals
    operators: Intervals
    allocations: dict[str, Intervals]
    copies: dict[str, Intervals]
    programs: dict[str, Intervals]
    arguments: dict[str, Intervals]

    def launching(self) -> Intervals:
        """When it launched, or called a program, or was about to; merged. Placing a program's arguments is neither."""
        calls = np.concatenate([self.launches, *self.programs.values()])
        in_operators = iv.intersection(_launching(calls, AGAIN_IN_OPERATOR_PS), iv.union(self.operators))
        launches = iv.union(_launching(calls, AGAIN_PS), in_operators)
        return iv.difference(launches, iv.union(*self.arguments.values()))


def _by_name(tables: Sequence[pd.DataFrame], places: Sequence[NDArray[np.int64]]) -> dict[str, Intervals]:
    """The times, merged, of the rows of tables at the places of each, by name."""
    times: dict[str, list[Intervals]] = {}
    for table, at in zip(tables, places, strict=True):
        if len(at):  # of thousands of threads most have no such calls
            names = table["name"].array[at]
            which, first = distinct(names.codes)
            for number, row in enumerate(first.tolist()):
                times.setdefault(str(names[row]), []).append(_times(table, at[which == number]))
    return {name: iv.union(*parts) for name, parts in times.items()}


def _allocates(name: str) -> bool:
    return gets_memory(name) or frees_memory(name) or allocates(name)


def _dispatches(name: str) -> bool:
    return calls_program(name) or executes(name)


def _threads(timeline: Timeline, launch: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], _Thread]]:
    """Which of the `launch` (k,), places in the launches of the trace, are of each thread, and what that is known to
    have done; with the thread that calls the programs of its host, since pools launch what that one dispatched."""
    tables = timeline.trace.launches, timeline.trace.host_work, timeline.trace.spans
    which, threads_of_calls = launching_threads(timeline, launch)
    own, caller, *of_tables = thread_numbers(*threads_of_calls, *tables)
    count = 1 + max(int(numbers.max(initial=-1)) for numbers in (own, caller, *of_tables))
    launches, operators = (places_of(numbers, count) for numbers in of_tables[:2])
    called = tables[0], tables[2]
    # Names are asked once for all threads.
    by_test = [
        [np.flatnonzero(by_label(table["name"].array, test).astype(bool)) for table in called]
        for test in (_allocates, copies_to_host, _dispatches, places_arguments)
    ]
    of_threads = [
        [
            [passed[at] for at in places_of(of[passed], count)]
            for passed, of in zip(kind, (of_tables[0], of_tables[2]), strict=True)
        ]
        for kind in by_test
    ]
    pairs, of_pair = np.unique(np.column_stack([own, caller]), axis=0, return_inverse=True)
    threads = []
    for pair, at in zip(pairs.tolist(), places_of(of_pair.ravel()[which], len(pairs)), strict=True):
        numbers = [*{*pair}]
        kinds = (
            _by_name(called, [of_launches[pair[0]], np.concatenate([of_spans[number] for number in numbers])])
            for of_launches, of_spans in of_threads
        )
        thread = _Thread(_times(tables[0], launches[pair[0]]), _times(tables[1], operators[pair[0]]), *kinds)
        threads.append((at, thread))
    return threads


def _times(table: pd.DataFrame, at: NDArray[np.int64]) -> Intervals:
    """The times of the rows of a table at the places `at`."""
    return iv.intervals(table["start_ps"].to_numpy()[at], table["end_ps"].to_numpy()[at])


def _launching(calls: Intervals, again_ps: int) -> Intervals:
    """When a thread launched, or was to do so again within a time, by its launch calls; merged."""
    calls = calls[np.argsort(calls[:, 0], kind="stable")]
    ahead = np.append(calls[1:, 0], np.iinfo(np.int64).max)
    end = np.where(ahead - calls[:, 1] <= again_ps, ahead, calls[:, 1])
    return iv.union(iv.intervals(calls[:, 0], np.maximum(end, calls[:, 1])))
