"""Why a device stood idle: the causes, and the evidence that gives each piece of an idle interval exactly one."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.analysis.idle.pieces import Pieces, by_start, cut, joined
from tracekit.analysis.idle.threads import Doing, Thread, dispatchers, doings
from tracekit.analysis.idle.waits import awaited, blocked, same_clock, told
from tracekit.intervals import Intervals
from tracekit.timeline.rows import CODE
from tracekit.timeline.timeline import Timeline
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
_OF_DOING = {Doing.MEETING: Cause.OTHERS, Doing.COMPILING: Cause.COMPILING, Doing.LOADING: Cause.INPUT}

# Work that was ready starts within this time: on V100, A100 and H100 the largest delay between a launch call's return
# and a start on an idle device was 15.2 us in 15,969 launches, and NVIDIA shows about 20 us from the call's begin:
# https://developer.nvidia.com/blog/understanding-the-visualization-of-overhead-and-latency-in-nsight-systems/
PROMPT_PS = 20_000_000


@dataclass(frozen=True)
class HostActivity:
    """What the host's threads did while devices stood idle: by thread what it was `doing`, which thread calls a host's
    programs, the row that each of the trace's syncs waited for, and when each thread was blocked for a device."""

    doing: Mapping[Thread, Mapping[Doing, Intervals]]
    dispatchers: Mapping[str, str]
    awaited: NDArray[np.int64]
    blocked: Mapping[int, Mapping[str, tuple[Intervals, Intervals]]]


def host_activity(timeline: Timeline) -> HostActivity:
    """What the host's threads did."""
    rows, launch, trace = timeline.rows, timeline.launch, timeline.trace
    placed = [device for device, good in enumerate(rows.placed) if good]
    waited = awaited(rows, launch, trace.launches, trace.syncs)
    return HostActivity(
        doings(trace.spans),
        dispatchers(trace.spans),
        waited,
        blocked(rows, placed, launch, trace.launches, trace.syncs, waited),
    )


def causes(timeline: Timeline, host: HostActivity, device: int) -> Pieces:
    """The idle time between a device's first start and last end; a piece's label indexes CAUSES.

    Each interval is what was before the next launch (the host's part), then a proven wait of the launched work, then
    the rest; parts that are empty vanish.
    """
    rows, launch, calls = timeline.rows, timeline.launch, timeline.trace.launches
    before, after = timeline.gaps(device)
    start, end = rows.end[before], rows.start[after]
    by = launch[after]
    linked = by >= 0
    inside = _one_program(timeline, before, after)
    led = linked & ~inside
    called, returned = (
        np.where(led, times[by] if len(times) else 0, start)
        for times in (calls["start_ps"].to_numpy(), calls["end_ps"].to_numpy())
    )
    launched = np.clip(called, start, end)
    until, waited = _waits(timeline, host.awaited, device, (before, after), launched)
    rest = np.full(len(after), CAUSE_CODE[Cause.UNEXPLAINED], np.int8)
    rest[inside] = CAUSE_CODE[Cause.INSIDE]
    rest[led & (end - until <= PROMPT_PS)] = CAUSE_CODE[Cause.QUEUED]
    rest[led & (end - returned <= PROMPT_PS)] = CAUSE_CODE[Cause.LATENCY]
    hosts = np.full(len(after), CAUSE_CODE[Cause.HOST], np.int8)
    begins, ends, labels = (
        np.column_stack(three).ravel()
        for three in ((start, launched, until), (launched, until, end), (hosts, waited, rest))
    )
    at = np.flatnonzero(ends > begins)
    pieces = Pieces(begins[at], ends[at], labels[at], after[at // 3], at // 3)
    return _refined(timeline, host, device, pieces)


def _one_program(timeline: Timeline, before: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether no launch was needed between two rows: one call started both, or, where work is not launched piece by
    piece (it has no correlation id), one run of one program holds both."""
    rows, launch = timeline.rows, timeline.launch
    called: NDArray[np.bool_] = (launch[before] >= 0) & (launch[before] == launch[after])
    has_run, has_id = rows.known("run_id"), rows.known("correlation_id")
    if not has_run.any() or has_id.all():
        return called
    run, _ = rows.numbers("run_id")
    module = rows.codes("hlo_module")
    same = has_run[before] & has_run[after] & (run[before] == run[after]) & (module[before] == module[after])
    called |= same & ~has_id[before] & ~has_id[after]
    return called


def _waits(
    timeline: Timeline,
    awaited: NDArray[np.int64],
    device: int,
    gaps: tuple[NDArray[np.int64], NDArray[np.int64]],
    launched: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Until when the row that ends each interval had to wait for work elsewhere, and the cause: both (m,).

    Either its lane was told to wait for work that ended meanwhile; or the collective that the device had just done
    went on elsewhere, and the row started promptly after its end, in an interval too long for a mere start.
    """
    rows, (before, after) = timeline.rows, gaps
    until, cause = launched.copy(), np.full(len(after), CAUSE_CODE[Cause.OTHERS], np.int8)
    start, end = rows.end[before], rows.start[after]
    group = timeline.collectives.instance[before]
    some = np.flatnonzero((group >= 0) & (end - start > PROMPT_PS))
    if len(some):
        done = _ends(timeline, device)[group[some]]
        good = (done > launched[some]) & (done <= end[some]) & (end[some] - done <= PROMPT_PS)
        until[some[good]] = done[good]
    called = timeline.trace.launches["start_ps"].to_numpy()
    for lane, moment, row in told(rows, device, timeline.trace.syncs, awaited):
        mine = np.flatnonzero((timeline.launch[after] >= 0) & ((lane == -1) | (rows.codes("lane")[after] == lane)))
        last = np.searchsorted(moment, called[timeline.launch[after[mine]]], side="right") - 1
        mine, row = mine[last >= 0], row[last[last >= 0]]
        done = rows.end[row]
        good = (done > until[mine]) & (done <= end[mine])
        until[mine[good]] = done[good]
        copy = rows.kind[row[good]] == CODE[Kind.MEMCPY]
        cause[mine[good]] = np.where(copy, CAUSE_CODE[Cause.COPY], CAUSE_CODE[Cause.OTHERS])
    return until, cause


def _ends(timeline: Timeline, device: int) -> NDArray[np.int64]:
    """When each collective instance ended on the devices of this device's clock."""
    rows, instance = timeline.rows, timeline.collectives.instance
    some = np.flatnonzero((instance >= 0) & same_clock(rows, device)[rows.device])
    found = np.full(int(instance.max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(found, instance[some], rows.end[some])
    return found


def _refined(timeline: Timeline, host: HostActivity, device: int, pieces: Pieces) -> Pieces:
    """The pieces, with the host's parts cut by what the launching thread was doing."""
    rows = timeline.rows
    mine = np.flatnonzero(pieces.label == CAUSE_CODE[Cause.HOST])
    threads = timeline.trace.launches["thread"].cat
    names, codes = threads.categories, threads.codes.to_numpy()
    thread = codes[timeline.launch[pieces.next[mine]]] if len(mine) else mine
    parted, left = [], np.ones(len(pieces), bool)
    for code in np.unique(thread).tolist():
        claims = _claims(host, rows.hosts[device], device, str(names[code]))
        parts = mine[thread == code]
        spans = iv.intervals(pieces.start[parts], pieces.end[parts])
        parts = parts[iv.within(iv.union(*(held for _, held in claims)), spans) > 0]
        left[parts] = False
        parted.append(cut(pieces.take(parts), [(CAUSE_CODE[cause], held) for cause, held in claims]))
    return pieces if left.all() else by_start(joined([pieces.take(left), *parted]))


def _claims(activity: HostActivity, host: str, device: int, thread: str) -> list[tuple[Cause, Intervals]]:
    """What a thread that launches for a device, and the one that calls its programs, did when; the first goes first."""
    threads = dict.fromkeys([thread, activity.dispatchers.get(host, thread)])
    waited = [activity.blocked[device].get(one, (iv.EMPTY, iv.EMPTY)) for one in threads]
    did = [activity.doing.get((host, one), {}) for one in threads]
    claims = [
        (Cause.COPY, iv.union(*(copy for copy, _ in waited))),
        (Cause.OTHERS, iv.union(*(others for _, others in waited))),
        *((cause, iv.union(*(one.get(doing, iv.EMPTY) for one in did))) for doing, cause in _OF_DOING.items()),
    ]
    return [(cause, held) for cause, held in claims if len(held)]
