"""Why each device stood idle: every picosecond without work goes to exactly one cause, by what the trace proves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.analysis.host_activity import HostActivity, Thread, host_activity, numbered_threads
from tracekit.analysis.host_times import PROMPT_PS, slow_call_ps
from tracekit.columns import distinct, distinct_beside, frame, largest
from tracekit.intervals import Intervals
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.timeline import Timeline
from tracekit.vocabulary.host_calls import Activity
from tracekit.vocabulary.kinds import Kind

LARGEST = 20

GAP_COLUMNS = {
    "device": "category",
    "start_ps": "int64",
    "end_ps": "int64",
    "cause": "category",
    "next": "Int64",
    "interval": "int64",
}
BY_DEVICE_COLUMNS = {"device": "str", "cause": "str", "gaps": "int64", "idle_ps": "int64", "ratio": "Float64"}
BY_CAUSE_COLUMNS = {"cause": "str", "gaps": "int64", "idle_ps": "int64", "ratio": "Float64"}
DEVICE_COLUMNS = {
    "device": "str",
    "window_ps": "int64",
    "idle_ps": "int64",
    "ratio": "Float64",
    "cause": "str",
    "cause_ratio": "Float64",
}
LARGEST_COLUMNS = {
    "device": "str",
    "start_ps": "int64",
    "end_ps": "int64",
    "idle_ps": "int64",
    "cause": "str",
    "cause_ratio": "Float64",
    "next": "Int64",
    "name": "str",
}


class Cause(StrEnum):
    """Why a device stood idle; docs/concepts.md has the evidence for each."""

    HOST = "host-bound"
    INPUT = "input pipeline"
    COMPILING = "compiling"
    COPY = "waiting for a copy"
    OTHERS = "waiting for a collective or another device"
    CALL = "slow launch call"
    LATENCY = "launch latency"
    QUEUED = "between queued work"
    INSIDE = "inside a program"
    BEFORE = "before first work"
    AFTER = "after last work"
    START = "at the start of this part"
    END = "at the end of this part"
    UNEXPLAINED = "unexplained"


CAUSES = tuple(Cause)
CAUSE_CODE = {cause: code for code, cause in enumerate(CAUSES)}
# What is no gap between work of the device: of a part of the trace, other work may lie outside it.
EDGES = (Cause.BEFORE, Cause.AFTER, Cause.START, Cause.END)
_ACTIVITIES = {
    Cause.OTHERS: (Activity.MEETING,),
    Cause.COMPILING: (Activity.COMPILING, Activity.INSTALLING),
    Cause.INPUT: (Activity.LOADING,),
}

# A gap before work that was ready is no longer than this.
QUEUE_GAP_PS = 10_000_000


@dataclass(frozen=True, repr=False)
class Idle(
    notebook.Result,
    by_cause="",
    devices="",
):
    """The idle time of each device on a known place, by cause; times in ps.

    `gaps` (GAP_COLUMNS): pieces of idle intervals, by device and start, each with one cause; pieces with one `interval`
    number make up one idle interval, and `next` is the place in `events` of the row that ends it, null after the last.
    `by_device` (BY_DEVICE_COLUMNS): by device and cause the number of intervals with such pieces, the time of these and
    its `ratio` of the device's idle time, the largest first. `by_cause` (BY_CAUSE_COLUMNS): the same over all devices.
    `devices` (DEVICE_COLUMNS): window and idle time, `ratio` of the window, and the cause of most of it with its share.
    `largest` (LARGEST_COLUMNS): the longest intervals, with the cause of most of each. `lacking`: why nothing is
    explained, "" if something is.
    """

    gaps: pd.DataFrame
    by_device: pd.DataFrame
    by_cause: pd.DataFrame
    devices: pd.DataFrame
    largest: pd.DataFrame
    lacking: str


@dataclass(frozen=True)
class Pieces:
    """Disjoint pieces [start, end) in ps by start, each column (m,): a `label`, the place in Rows of the `next` row or
    -1, and the number of the `interval` that a piece belongs to."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    label: NDArray[np.int8]
    next: NDArray[np.int32]
    interval: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.start)

    def take(self, places: NDArray[Any] | slice) -> "Pieces":
        """Some of the pieces."""
        return Pieces(*(column[places] for column in self.columns()))

    def columns(self) -> list[NDArray[Any]]:
        """The columns in their order."""
        return [self.start, self.end, self.label, self.next, self.interval]

    def spans(self) -> Intervals:
        """Shape (m, 2)."""
        return iv.intervals(self.start, self.end)


_NO_TIMES, _NO_NUMBERS = np.empty(0, np.int64), np.empty(0, np.int32)
_NONE = Pieces(_NO_TIMES, _NO_TIMES, np.empty(0, np.int8), _NO_NUMBERS, _NO_NUMBERS)


def idle(timeline: Timeline) -> Idle:
    """Why each device stood idle inside its window; devices that the trace does not place are left out.

    An idle interval is cut where the cause changes, so that every picosecond has exactly one; the pieces of a device
    sum to its window less its busy time, which is checked here.
    """
    devices = [device for device, is_placed in enumerate(timeline.rows.placed) if is_placed]
    pieces_of = _pieces_of_devices(timeline, devices)
    of_device = np.repeat(np.arange(len(devices), dtype=np.int32), [len(pieces) for pieces in pieces_of])
    pieces = concatenate(pieces_of)
    pieces_of.clear()  # 25 MB a million rows, which the tables need not stand beside
    return _result(timeline, devices, pieces, of_device)


def _pieces_of_devices(timeline: Timeline, devices: Sequence[int]) -> list[Pieces]:
    """The idle pieces of each device, checked against its window and its busy time."""
    rows, unions, host = timeline.rows, timeline.unions, host_activity(timeline)
    recorded = _Recorded(timeline.recorded)
    pieces_of = []
    for device in devices:
        name, windows = rows.devices[device], unions.windows[rows.clocks[device]]
        pieces = clip(_with_edges(causes(timeline, host, device), timeline, device, windows, recorded), windows)
        length = iv.sum_exactly(pieces.end - pieces.start)
        expected = iv.total(windows) - iv.total(unions.devices[name].busy)
        if length != expected:
            raise AssertionError(f"the idle pieces of {name} sum to {length} ps, its idle time is {expected} ps")
        pieces_of.append(pieces)
    return pieces_of


def causes(timeline: Timeline, host: HostActivity, device: int) -> Pieces:
    """The idle time between a device's first start and last end; a piece's label indexes CAUSES.

    Each interval is what was before the next launch (the host's part), then a proven wait of the launched work, for
    others and from its start on for a copy, then the time in the call if that was slow, then the rest; parts that are
    empty vanish.
    """
    rows, launch = timeline.rows, timeline.launch
    before, after = timeline.gaps(device)
    start, end = rows.end[before], rows.start[after]
    launch_after = launch[after]
    linked = launch_after >= 0
    in_one_program = _in_one_program(timeline, before, after)
    has_launch = linked & ~in_one_program & (rows.devices[device] not in timeline.clock_errors)
    call_start, call_end = (
        np.where(has_launch, times[launch_after] if len(times) else 0, start) for times in timeline.call_times
    )
    launch_moment = np.clip(call_start, start, end)
    copy_start, wait_end = _waits(timeline, device, (before, after), launch_moment)
    slow_ps = np.where(end - start > QUEUE_GAP_PS, slow_call_ps(call_start, call_end, end), 0)
    call_moment = np.where(has_launch & (slow_ps > 0), np.maximum(call_start + slow_ps, wait_end), wait_end)
    rest_cause = np.full(len(after), CAUSE_CODE[Cause.UNEXPLAINED], np.int8)
    rest_cause[in_one_program] = CAUSE_CODE[Cause.INSIDE]
    rest_cause[has_launch & (end - call_moment <= PROMPT_PS)] = CAUSE_CODE[Cause.QUEUED]
    # What had been launched before its device stood idle waited for its turn, however short ago that was.
    rest_cause[has_launch & (end - call_end <= PROMPT_PS) & (call_end > start)] = CAUSE_CODE[Cause.LATENCY]
    proven = (Cause.HOST, Cause.OTHERS, Cause.COPY, Cause.CALL)
    edges = (start, launch_moment, copy_start, wait_end, call_moment, end)
    labels = (*(np.full(len(after), CAUSE_CODE[cause], np.int8) for cause in proven), rest_cause)
    begins, ends, label = (np.column_stack(five).ravel() for five in (edges[:-1], edges[1:], labels))
    nonempty = np.flatnonzero(ends > begins)
    interval = (nonempty // len(labels)).astype(np.int32)
    pieces = Pieces(begins[nonempty], ends[nonempty], label[nonempty], after[interval], interval)
    return _refine(timeline, host, device, pieces)


def _in_one_program(timeline: Timeline, before: NDArray[np.int32], after: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether no launch was needed between two rows: one call started both, or, where work is not launched piece by
    piece (it has no correlation id), one run of one program holds both."""
    rows, launch = timeline.rows, timeline.launch
    in_one_program: NDArray[np.bool_] = (launch[before] >= 0) & (launch[before] == launch[after])
    run = timeline.once("runs without ids", lambda: _runs_without_ids(rows))
    if run is not None:
        in_one_program |= (run[before] >= 0) & (run[before] == run[after])
    return in_one_program


def _runs_without_ids(rows: Rows) -> NDArray[np.int32] | None:
    """Which run of a program each row without a correlation id is of, -1 for others; None without any."""
    of_run = rows.has("run_id") & ~rows.has("correlation_id")
    if not of_run.any():
        return None
    run = np.full(len(rows), -1, np.int32)
    run[of_run], _ = distinct(rows.numbers("run_id")[0][of_run], rows.codes("hlo_module")[of_run])
    return run


def _waits(
    timeline: Timeline,
    device: int,
    gaps: tuple[NDArray[np.int32], NDArray[np.int32]],
    launch_moment: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Until when the row that ends each interval had to wait for work elsewhere, before that from when on for a copy,
    which ends as late where it is for none: both (m,).

    Either its lane was told to wait for work that ended meanwhile, of which a copy counts from its own start on; or the
    collective that the device had just done went on elsewhere, and the row started promptly after its end, in an
    interval too long for a mere start.
    """
    rows, (before, after) = timeline.rows, gaps
    wait_end, copy_start = launch_moment.copy(), np.full(len(after), np.iinfo(np.int64).max)
    start, end = rows.end[before], rows.start[after]
    group = timeline.collectives.instance[before]
    collective_gaps = np.flatnonzero((group >= 0) & (end - start > PROMPT_PS))
    if len(collective_gaps):
        ends = timeline.once(f"ends of collectives {rows.clocks[device]}", lambda: _ends(timeline, device))
        end_elsewhere = ends[group[collective_gaps]]
        explains = (
            (end_elsewhere > launch_moment[collective_gaps])
            & (end_elsewhere <= end[collective_gaps])
            & (end[collective_gaps] - end_elsewhere <= PROMPT_PS)
        )
        wait_end[collective_gaps[explains]] = end_elsewhere[explains]
    call_starts, _ = timeline.call_times
    for lane, moment, row in _lane_waits(timeline, device):
        gaps_of_lane = np.flatnonzero(
            (timeline.launch[after] >= 0) & ((lane == -1) | (rows.codes_at("lane", after) == lane))
        )
        last_wait = np.searchsorted(moment, call_starts[timeline.launch[after[gaps_of_lane]]], side="right") - 1
        gaps_of_lane, row = gaps_of_lane[last_wait >= 0], row[last_wait[last_wait >= 0]]
        end_elsewhere = rows.end[row]
        explains = (end_elsewhere > wait_end[gaps_of_lane]) & (end_elsewhere <= end[gaps_of_lane])
        wait_end[gaps_of_lane[explains]] = end_elsewhere[explains]
        copy = rows.kind[row[explains]] == CODE[Kind.MEMCPY]
        copy_start[gaps_of_lane[explains]] = np.where(copy, rows.start[row[explains]], np.iinfo(np.int64).max)
    return np.clip(copy_start, launch_moment, wait_end), wait_end


def _lane_waits(timeline: Timeline, device: int) -> list[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """The waits that lanes of a device were told: the lane's code (-1 for all lanes), when, and for which row.

    Times and rows are of shape (n,), by time; a lane keeps its order, so the row is that which ended last of all that
    it was told to wait for until then. Work on other clocks is left out: it proves nothing here.
    """
    rows, syncs, awaited = timeline.rows, timeline.trace.syncs, timeline.syncs.awaited
    on_same_clock = rows.same_clock(device)
    waits_of = timeline.once("waits of lanes", lambda: _waits_of_devices(timeline))
    if rows.devices[device] not in waits_of:
        return []
    waits_of_device = waits_of[rows.devices[device]]
    waits_of_device = waits_of_device[on_same_clock[rows.device[awaited[waits_of_device]]]]
    lanes = {name: code for code, name in enumerate(rows.labels("lane"))}
    lane = np.array([*(lanes.get(str(name), -2) for name in syncs["lane"].cat.categories), -1])
    lane = lane[syncs["lane"].cat.codes.to_numpy()[waits_of_device]]
    moments = syncs["start_ps"].to_numpy()[waits_of_device]
    waits = []
    for lane_code in np.unique(lane).tolist():
        of_lane = np.flatnonzero(lane == lane_code)
        of_lane = of_lane[np.argsort(moments[of_lane], kind="stable")]
        row = awaited[waits_of_device[of_lane]]
        reach = np.maximum.accumulate(rows.end[row])
        furthest = np.maximum.accumulate(np.where(rows.end[row] == reach, np.arange(len(row)), 0))
        waits.append((lane_code, moments[of_lane], row[furthest]))
    return waits


def _waits_of_devices(timeline: Timeline) -> dict[str, NDArray[np.int64]]:
    """By device: the places in `trace.syncs` of what its lanes waited for and is known."""
    devices = timeline.trace.syncs["device"].cat
    codes = devices.codes.to_numpy()
    known = np.flatnonzero((codes >= 0) & (timeline.syncs.awaited >= 0))
    order = known[np.argsort(codes[known], kind="stable")]
    heads = np.flatnonzero(np.diff(codes[order], prepend=-1))
    names = [str(devices.categories[code]) for code in codes[order[heads]]]
    return dict(zip(names, np.split(order, heads[1:]), strict=True)) if len(order) else {}


def _ends(timeline: Timeline, device: int) -> NDArray[np.int64]:
    """When each collective instance ended on the devices of this device's clock."""
    every = timeline.reduced or timeline  # the members on hosts that were not read again end there
    rows, instance = every.rows, every.collectives.instance
    on_clock = np.isin(rows.device, rows.on_clock(timeline.rows.clocks[device]))
    members = np.flatnonzero((instance >= 0) & on_clock)
    last_end = np.full(int(instance.max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(last_end, instance[members], rows.end[members])
    return last_end


def _refine(timeline: Timeline, host: HostActivity, device: int, pieces: Pieces) -> Pieces:
    """The pieces, with the host's parts cut by what the launching thread was doing."""
    rows = timeline.rows
    host_pieces = np.flatnonzero(pieces.label == CAUSE_CODE[Cause.HOST])
    thread_of_call, threads = timeline.once("threads of calls", lambda: numbered_threads(timeline.trace.launches))
    which = thread_of_call[timeline.launch[pieces.next[host_pieces]]]
    refined, unchanged = [], np.ones(len(pieces), bool)
    for number in np.unique(which).tolist():
        claims = _claims(host, rows.hosts[device], device, threads[number])
        if not claims:
            continue
        places = host_pieces[which == number]
        spans = iv.intervals(pieces.start[places], pieces.end[places])
        places = places[iv.within(iv.union(*(times for _, times in claims)), spans) > 0]
        unchanged[places] = False
        refined.append(cut(pieces.take(places), [(CAUSE_CODE[cause], times) for cause, times in claims]))
    return pieces if unchanged.all() else by_start(concatenate([pieces.take(unchanged), *refined]))


def _claims(activity: HostActivity, host: str, device: int, thread: Thread) -> list[tuple[Cause, Intervals]]:
    """What a thread that launches for a device, and the one that calls its programs, did when; the first goes first."""
    threads = dict.fromkeys([thread, activity.dispatchers.get(host, thread)])
    blocked = [activity.blocked[device].get(name, (iv.EMPTY, iv.EMPTY)) for name in threads]
    activities = [activity.times.get(name, {}) for name in threads]
    claims = [
        (Cause.COPY, iv.union(*(copy for copy, _ in blocked))),
        (Cause.OTHERS, iv.union(*(other_times for _, other_times in blocked))),
        *(
            (cause, iv.union(*(by_kind.get(kind, iv.EMPTY) for by_kind in activities for kind in kinds)))
            for cause, kinds in _ACTIVITIES.items()
        ),
    ]
    unknown = iv.union(*(activity.unknown.get(name, iv.EMPTY) for name in threads))
    return [(cause, times) for cause, times in (*claims, (Cause.UNEXPLAINED, unknown)) if len(times)]


@dataclass(frozen=True)
class _Recorded:
    """All of a trace of which a part is looked at: what it tells of the time before the first work of the part."""

    timeline: Timeline

    @cached_property
    def host(self) -> HostActivity:
        return host_activity(self.timeline)

    def causes(self, device: str) -> Sequence[tuple[int, Intervals]]:
        """The idle time of a device between its work by cause, as `cut` takes it."""
        pieces = causes(self.timeline, self.host, self.timeline.rows.number(device))
        spans = pieces.spans()
        return [(code, iv.union(spans[pieces.label == code])) for code in np.unique(pieces.label).tolist()]


def _with_edges(pieces: Pieces, timeline: Timeline, device: int, windows: Intervals, recorded: _Recorded) -> Pieces:
    """The pieces, with those before a device's first work and after its last; without work, all is before it.

    Only work that lasts counts, and the edges reach as far as the windows do. Where other work was recorded outside
    them, the first has the causes that all of the trace gives; what comes after the last work of this part has its
    cause outside.
    """
    rows = timeline.rows
    device_rows = rows.of(device)
    lasting = np.flatnonzero(rows.end[device_rows] > rows.start[device_rows]) + device_rows.start
    low, high = (int(windows[0, 0]), int(windows[-1, 1])) if len(windows) else (0, 0)
    first_start = int(rows.start[lasting[0]]) if len(lasting) else high
    last_end = int(rows.end[lasting].max()) if len(lasting) else high
    before, after = _outside(timeline, rows.devices[device], low, high)
    edges = Pieces(
        np.array([low, last_end]),
        np.array([first_start, high]),
        np.array([CAUSE_CODE[before], CAUSE_CODE[after]], np.int8),
        np.array([lasting[0] if len(lasting) else -1, -1], np.int32),
        np.array([0, int(pieces.interval[-1]) + 2 if len(pieces) else 1], np.int32),
    )
    inner = replace(pieces, interval=pieces.interval + 1)
    sections = [edges.take(slice(0, 1)), inner, edges.take(slice(1, 2))]
    if before == Cause.START and first_start > low:
        sections[0] = cut(sections[0], recorded.causes(rows.devices[device]))
    return concatenate([part for part in sections if len(part) and part.end[0] > part.start[0]] or [inner])


def _outside(timeline: Timeline, device: str, low: int, high: int) -> tuple[Cause, Cause]:
    """What idle time at the edges of the windows of a device is: all that was recorded tells whether it worked before
    `low` and after `high`."""
    rows = timeline.recorded.rows
    its = rows.of(rows.number(device))
    start, end = rows.start[its], rows.end[its]
    lasts = end > start
    return (
        Cause.START if (lasts & (start < low)).any() else Cause.BEFORE,
        Cause.END if (lasts & (end > high)).any() else Cause.AFTER,
    )


def concatenate(pieces_of: Sequence[Pieces]) -> Pieces:
    """The pieces of all parts, one after the other."""
    columns = zip(*(pieces.columns() for pieces in [_NONE, *pieces_of]), strict=True)
    return Pieces(*(np.concatenate(column) for column in columns))


def by_start(pieces: Pieces) -> Pieces:
    """The pieces in order."""
    return pieces.take(np.argsort(pieces.start, kind="stable"))


def cut(pieces: Pieces, claims: Sequence[tuple[int, Intervals]]) -> Pieces:
    """The pieces cut where a claim, a label and a merged set, holds a part of them; the first claim goes first.

    What no claim holds keeps its label.
    """
    unclaimed, claimed = pieces, []
    for label, claim in claims:
        claimed_part = _inside(unclaimed, iv.intersection(unclaimed.spans(), claim))
        claimed.append(replace(claimed_part, label=np.full(len(claimed_part), label, np.int8)))
        unclaimed = _inside(unclaimed, iv.difference(unclaimed.spans(), claim))
    return by_start(concatenate([*claimed, unclaimed]))


def _inside(pieces: Pieces, spans: Intervals) -> Pieces:
    """The pieces that merged `spans` inside of them leave; where pieces touch, a span may hold parts of several."""
    first_piece = np.searchsorted(pieces.end, spans[:, 0], side="right")
    count = np.searchsorted(pieces.start, spans[:, 1]) - first_piece
    span_of_piece = np.repeat(np.arange(len(spans)), count)
    places = np.arange(len(span_of_piece)) + np.repeat(first_piece - np.cumsum(count) + count, count)
    overlapped = pieces.take(places)
    return replace(
        overlapped,
        start=np.maximum(overlapped.start, spans[span_of_piece, 0]),
        end=np.minimum(overlapped.end, spans[span_of_piece, 1]),
    )


def clip(pieces: Pieces, windows: Intervals) -> Pieces:
    """What merged windows hold of the pieces; those left empty vanish."""
    if len(pieces) and len(windows) == 1 and windows[0, 0] <= pieces.start[0] and pieces.end[-1] <= windows[0, 1]:
        return pieces
    return _inside(pieces, windows)


def _result(timeline: Timeline, devices: Sequence[int], pieces: Pieces, of_device: NDArray[np.int32]) -> Idle:
    rows, unions = timeline.rows, timeline.unions
    lacking = _lacking(timeline, devices, pieces.label)
    begins = np.append(True, (pieces.interval[1:] != pieces.interval[:-1]) | (of_device[1:] != of_device[:-1]))
    heads, interval = np.flatnonzero(begins[: len(pieces)]), np.cumsum(begins[: len(pieces)]) - 1
    names = [rows.devices[device] for device in devices]
    length = pieces.end - pieces.start
    key = of_device * len(CAUSES) + pieces.label
    groups = len(devices) * len(CAUSES)
    times, counts = iv.sums(length, key, groups), distinct_beside(key, interval, groups).tolist()
    del key  # of millions of pieces, few columns are held at once
    idle_of = [sum(times[offset : offset + len(CAUSES)]) for offset in range(0, groups, len(CAUSES))]
    by_device, by_cause, device_table = [], [], []
    for number, name in enumerate(names):
        causes_of_device = [
            (str(cause), counts[place], times[place])
            for cause, place in zip(CAUSES, range(number * len(CAUSES), groups), strict=False)
            if counts[place]
        ]
        causes_of_device.sort(key=lambda entry: -entry[2])
        by_device += [(name, *entry, entry[2] / idle_of[number]) for entry in causes_of_device]
        window = iv.total(unions.windows[rows.clocks[devices[number]]])
        main_cause = (
            (causes_of_device[0][0], causes_of_device[0][2] / idle_of[number]) if causes_of_device else (None, None)
        )
        device_table.append((name, window, idle_of[number], idle_of[number] / window if window else None, *main_cause))
    for code, cause in enumerate(CAUSES):
        count, time = sum(counts[code :: len(CAUSES)]), sum(times[code :: len(CAUSES)])
        if count:
            by_cause.append((str(cause), count, time, time / sum(idle_of)))
    by_cause.sort(key=lambda entry: -entry[2])
    next_row = np.where(pieces.next >= 0, rows.at[pieces.next] if len(rows) else -1, -1)
    return Idle(
        pd.DataFrame(
            {
                "device": pd.Categorical.from_codes(of_device, categories=pd.Index(names, dtype="str")),
                "start_ps": pieces.start,
                "end_ps": pieces.end,
                "cause": pd.Categorical.from_codes(
                    pieces.label, categories=pd.Index(list(map(str, CAUSES)), dtype="str")
                ),
                "next": pd.arrays.IntegerArray(next_row, pieces.next < 0),
                "interval": interval,
            },
            copy=False,
        ),
        frame(BY_DEVICE_COLUMNS, by_device),
        frame(BY_CAUSE_COLUMNS, by_cause),
        frame(DEVICE_COLUMNS, device_table),
        _largest(rows, names, of_device, pieces, (heads, length), next_row),
        lacking,
    )


def _largest(
    rows: Rows,
    names: Sequence[str],
    of_device: NDArray[np.int32],
    pieces: Pieces,
    lengths: tuple[NDArray[np.int64], NDArray[np.int64]],
    next_row: NDArray[np.int64],
) -> pd.DataFrame:
    """The LARGEST longest intervals (LARGEST_COLUMNS); `lengths`: the first piece of each, and how long each piece
    lasts."""
    heads, length = lengths
    # Windows may hold only parts of an interval.
    idle_ps = np.add.reduceat(length, heads) if len(heads) else heads
    intervals = []
    for place in largest(idle_ps, LARGEST).tolist():
        head, *following = heads[place : place + 2].tolist()
        past = following[0] if following else len(pieces)
        times = iv.sums(length[head:past], pieces.label[head:past], len(CAUSES))
        main_cause = max(range(len(CAUSES)), key=times.__getitem__)
        next_place = int(next_row[head])
        intervals.append(
            (
                names[int(of_device[head])],
                int(pieces.start[head]),
                int(pieces.end[past - 1]),
                int(idle_ps[place]),
                str(CAUSES[main_cause]),
                times[main_cause] / int(idle_ps[place]),
                next_place if next_place >= 0 else pd.NA,
                str(rows.events["name"].iat[next_place]) if next_place >= 0 else None,
            )
        )
    return frame(LARGEST_COLUMNS, intervals)


def _lacking(timeline: Timeline, devices: Sequence[int], cause: NDArray[np.int8]) -> str:
    if not devices:
        return "The trace holds no work of a device, so no device can have been idle."
    inner = cause[~np.isin(cause, [CAUSE_CODE[edge] for edge in EDGES])]
    if len(inner) == 0 or (inner != CAUSE_CODE[Cause.UNEXPLAINED]).any():
        return ""
    if len(timeline.trace.launches) == 0:
        return "The trace holds no host launches, so it does not show why the devices stood idle."
    if not (timeline.launch >= 0).any():
        return "No work of a device is linked to a host launch, so it does not show why the devices stood idle."
    errors = (f"{name}: {reason}, so its host's part is not known." for name, reason in timeline.clock_errors.items())
    return next(errors, "No launch, wait or program of the trace explains any of the idle time.")
