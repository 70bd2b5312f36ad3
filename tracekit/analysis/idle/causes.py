"""Why a device stood idle: the causes, and the evidence that gives each piece of an idle interval exactly one."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.analysis.idle.pieces import Pieces, by_start, concatenate, cut
from tracekit.analysis.idle.threads import Thread, activity_times, dispatchers
from tracekit.analysis.idle.waits import awaited_rows, blocked_times, lane_waits, same_clock
from tracekit.intervals import Intervals
from tracekit.timeline.rows import CODE
from tracekit.timeline.timeline import Timeline
from tracekit.vocabulary.host_calls import Activity
from tracekit.vocabulary.kinds import Kind


class Cause(StrEnum):
    """Why a device stood idle; docs/concepts.md has the evidence for each."""

    HOST = "host-bound"
    INPUT = "input pipeline"
    COMPILING = "compiling"
    COPY = "waiting for a copy"
    OTHERS = "waiting for a collective or another device"
    LATENCY = "launch latency"
    QUEUED = "between queued work"
    INSIDE = "inside a program"
    BEFORE = "before first work"
    AFTER = "after last work"
    UNEXPLAINED = "unexplained"


CAUSES = tuple(Cause)
CAUSE_CODE = {cause: code for code, cause in enumerate(CAUSES)}
_ACTIVITIES = {
    Cause.OTHERS: (Activity.MEETING,),
    Cause.COMPILING: (Activity.COMPILING, Activity.INSTALLING),
    Cause.INPUT: (Activity.LOADING,),
}

# Work that was ready starts within this time: on V100, A100 and H100 the largest delay between a launch call's return
# and a start on an idle device was 15.2 us in 15,969 launches, and NVIDIA shows about 20 us from the call's begin:
# https://developer.nvidia.com/blog/understanding-the-visualization-of-overhead-and-latency-in-nsight-systems/
PROMPT_PS = 20_000_000


@dataclass(frozen=True)
class HostActivity:
    """What the host's threads did while devices stood idle: the `times` of each activity by thread, which thread calls
    a host's programs, the row that each of the trace's syncs waited for, and when each thread was blocked for a
    device."""

    times: Mapping[Thread, Mapping[Activity, Intervals]]
    dispatchers: Mapping[str, str]
    awaited: NDArray[np.int64]
    blocked: Mapping[int, Mapping[str, tuple[Intervals, Intervals]]]


def host_activity(timeline: Timeline) -> HostActivity:
    """What the host's threads did."""
    rows, launch, trace = timeline.rows, timeline.launch, timeline.trace
    devices = [device for device, is_placed in enumerate(rows.placed) if is_placed]
    awaited = awaited_rows(rows, launch, trace.launches, trace.syncs)
    return HostActivity(
        activity_times(trace.spans),
        dispatchers(trace.spans),
        awaited,
        blocked_times(rows, devices, launch, trace.launches, trace.syncs, awaited),
    )


def causes(timeline: Timeline, host: HostActivity, device: int) -> Pieces:
    """The idle time between a device's first start and last end; a piece's label indexes CAUSES.

    Each interval is what was before the next launch (the host's part), then a proven wait of the launched work, then
    the rest; parts that are empty vanish.
    """
    rows, launch, calls = timeline.rows, timeline.launch, timeline.trace.launches
    before, after = timeline.gaps(device)
    start, end = rows.end[before], rows.start[after]
    launch_after = launch[after]
    linked = launch_after >= 0
    in_one_program = _in_one_program(timeline, before, after)
    has_launch = linked & ~in_one_program
    call_start, call_end = (
        np.where(has_launch, times[launch_after] if len(times) else 0, start)
        for times in (calls["start_ps"].to_numpy(), calls["end_ps"].to_numpy())
    )
    launch_moment = np.clip(call_start, start, end)
    wait_end, wait_cause = _waits(timeline, host.awaited, device, (before, after), launch_moment)
    rest_cause = np.full(len(after), CAUSE_CODE[Cause.UNEXPLAINED], np.int8)
    rest_cause[in_one_program] = CAUSE_CODE[Cause.INSIDE]
    rest_cause[has_launch & (end - wait_end <= PROMPT_PS)] = CAUSE_CODE[Cause.QUEUED]
    rest_cause[has_launch & (end - call_end <= PROMPT_PS)] = CAUSE_CODE[Cause.LATENCY]
    hosts = np.full(len(after), CAUSE_CODE[Cause.HOST], np.int8)
    begins, ends, labels = (
        np.column_stack(three).ravel()
        for three in ((start, launch_moment, wait_end), (launch_moment, wait_end, end), (hosts, wait_cause, rest_cause))
    )
    nonempty = np.flatnonzero(ends > begins)
    pieces = Pieces(begins[nonempty], ends[nonempty], labels[nonempty], after[nonempty // 3], nonempty // 3)
    return _refine(timeline, host, device, pieces)


def _in_one_program(timeline: Timeline, before: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether no launch was needed between two rows: one call started both, or, where work is not launched piece by
    piece (it has no correlation id), one run of one program holds both."""
    rows, launch = timeline.rows, timeline.launch
    in_one_program: NDArray[np.bool_] = (launch[before] >= 0) & (launch[before] == launch[after])
    has_run, has_id = rows.known("run_id"), rows.known("correlation_id")
    if not has_run.any() or has_id.all():
        return in_one_program
    run_id, _ = rows.numbers("run_id")
    module = rows.codes("hlo_module")
    same_run = has_run[before] & has_run[after] & (run_id[before] == run_id[after]) & (module[before] == module[after])
    in_one_program |= same_run & ~has_id[before] & ~has_id[after]
    return in_one_program


def _waits(
    timeline: Timeline,
    awaited: NDArray[np.int64],
    device: int,
    gaps: tuple[NDArray[np.int64], NDArray[np.int64]],
    launch_moment: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Until when the row that ends each interval had to wait for work elsewhere, and the cause: both (m,).

    Either its lane was told to wait for work that ended meanwhile; or the collective that the device had just done
    went on elsewhere, and the row started promptly after its end, in an interval too long for a mere start.
    """
    rows, (before, after) = timeline.rows, gaps
    wait_end, cause = launch_moment.copy(), np.full(len(after), CAUSE_CODE[Cause.OTHERS], np.int8)
    start, end = rows.end[before], rows.start[after]
    group = timeline.collectives.instance[before]
    collective_gaps = np.flatnonzero((group >= 0) & (end - start > PROMPT_PS))
    if len(collective_gaps):
        end_elsewhere = _ends(timeline, device)[group[collective_gaps]]
        explains = (
            (end_elsewhere > launch_moment[collective_gaps])
            & (end_elsewhere <= end[collective_gaps])
            & (end[collective_gaps] - end_elsewhere <= PROMPT_PS)
        )
        wait_end[collective_gaps[explains]] = end_elsewhere[explains]
    call_starts = timeline.trace.launches["start_ps"].to_numpy()
    for lane, moment, row in lane_waits(rows, device, timeline.trace.syncs, awaited):
        gaps_of_lane = np.flatnonzero(
            (timeline.launch[after] >= 0) & ((lane == -1) | (rows.codes("lane")[after] == lane))
        )
        last_wait = np.searchsorted(moment, call_starts[timeline.launch[after[gaps_of_lane]]], side="right") - 1
        gaps_of_lane, row = gaps_of_lane[last_wait >= 0], row[last_wait[last_wait >= 0]]
        end_elsewhere = rows.end[row]
        explains = (end_elsewhere > wait_end[gaps_of_lane]) & (end_elsewhere <= end[gaps_of_lane])
        wait_end[gaps_of_lane[explains]] = end_elsewhere[explains]
        copy = rows.kind[row[explains]] == CODE[Kind.MEMCPY]
        cause[gaps_of_lane[explains]] = np.where(copy, CAUSE_CODE[Cause.COPY], CAUSE_CODE[Cause.OTHERS])
    return wait_end, cause


def _ends(timeline: Timeline, device: int) -> NDArray[np.int64]:
    """When each collective instance ended on the devices of this device's clock."""
    rows, instance = timeline.rows, timeline.collectives.instance
    members = np.flatnonzero((instance >= 0) & same_clock(rows, device)[rows.device])
    last_end = np.full(int(instance.max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(last_end, instance[members], rows.end[members])
    return last_end


def _refine(timeline: Timeline, host: HostActivity, device: int, pieces: Pieces) -> Pieces:
    """The pieces, with the host's parts cut by what the launching thread was doing."""
    rows = timeline.rows
    host_pieces = np.flatnonzero(pieces.label == CAUSE_CODE[Cause.HOST])
    threads = timeline.trace.launches["thread"].cat
    names, codes = threads.categories, threads.codes.to_numpy()
    thread = codes[timeline.launch[pieces.next[host_pieces]]] if len(host_pieces) else host_pieces
    refined, unchanged = [], np.ones(len(pieces), bool)
    for code in np.unique(thread).tolist():
        claims = _claims(host, rows.hosts[device], device, str(names[code]))
        places = host_pieces[thread == code]
        spans = iv.intervals(pieces.start[places], pieces.end[places])
        places = places[iv.within(iv.union(*(times for _, times in claims)), spans) > 0]
        unchanged[places] = False
        refined.append(cut(pieces.take(places), [(CAUSE_CODE[cause], times) for cause, times in claims]))
    return pieces if unchanged.all() else by_start(concatenate([pieces.take(unchanged), *refined]))


def _claims(activity: HostActivity, host: str, device: int, thread: str) -> list[tuple[Cause, Intervals]]:
    """What a thread that launches for a device, and the one that calls its programs, did when; the first goes first."""
    threads = dict.fromkeys([thread, activity.dispatchers.get(host, thread)])
    blocked = [activity.blocked[device].get(name, (iv.EMPTY, iv.EMPTY)) for name in threads]
    activities = [activity.times.get((host, name), {}) for name in threads]
    claims = [
        (Cause.COPY, iv.union(*(copy for copy, _ in blocked))),
        (Cause.OTHERS, iv.union(*(other_times for _, other_times in blocked))),
        *(
            (cause, iv.union(*(by_kind.get(kind, iv.EMPTY) for by_kind in activities for kind in kinds)))
            for cause, kinds in _ACTIVITIES.items()
        ),
    ]
    return [(cause, times) for cause, times in claims if len(times)]
