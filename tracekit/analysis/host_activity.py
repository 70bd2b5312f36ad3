"""What the host's threads did, and what they and the lanes of devices waited for, as far as the trace proves it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.intervals import Intervals
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.timeline import Timeline
from tracekit.vocabulary.host_calls import Activity, activity_of
from tracekit.vocabulary.kinds import Kind

# Host and name of a thread.
Thread = tuple[str, str]

# The calls of jitted functions; a pool's threads may launch what the calling thread dispatched.
_CALLS = re.compile(r"^(PjitFunction\(|PJRT_LoadedExecutable_Execute$)")


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


def activity_times(spans: pd.DataFrame) -> Mapping[Thread, Mapping[Activity, Intervals]]:
    """The times, merged, at which each thread was inside a span that proves what it did; `spans` as SPAN_COLUMNS."""
    of_name = [activity_of(str(name)) for name in spans["name"].cat.categories]
    kinds = np.array([-1 if activity is None else list(Activity).index(activity) for activity in of_name] or [-1])
    kind = kinds[spans["name"].cat.codes.to_numpy()]
    places = np.flatnonzero(kind >= 0)
    times_of: dict[Thread, dict[Activity, Intervals]] = {}
    for (thread, kind_code), span_places in _groups(spans, places, kind[places]).items():
        times = iv.intervals(spans["start_ps"].to_numpy()[span_places], spans["end_ps"].to_numpy()[span_places])
        times_of.setdefault(thread, {})[list(Activity)[kind_code]] = iv.union(times)
    return times_of


def dispatchers(spans: pd.DataFrame) -> dict[str, str]:
    """By host: the thread that called the jitted functions, where only one thread did."""
    calls = np.array([bool(_CALLS.match(str(name))) for name in spans["name"].cat.categories] or [False])
    places = np.flatnonzero(calls[spans["name"].cat.codes.to_numpy()])
    threads = list(dict.fromkeys(thread for thread, _ in _groups(spans, places, np.zeros(len(places), np.int64))))
    hosts = [host for host, _ in threads]
    return {host: name for host, name in threads if hosts.count(host) == 1}


def _groups(
    table: pd.DataFrame, places: NDArray[np.int64], kind: NDArray[np.int64]
) -> dict[tuple[Thread, int], NDArray[np.int64]]:
    """The rows `places` of a frame by thread and `kind`, both (n,)."""
    if len(places) == 0:
        return {}
    hosts, threads = table["host"].cat, table["thread"].cat
    key = hosts.codes.to_numpy()[places].astype(np.int64) * len(threads.categories) + threads.codes.to_numpy()[places]
    key = key * (int(kind.max()) + 1) + kind
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    groups = {}
    for group_start, rows in zip(starts, np.split(places[order], starts[1:]), strict=True):
        thread = str(table["host"].iat[rows[0]]), str(table["thread"].iat[rows[0]])
        groups[thread, int(kind[order[group_start]])] = rows
    return groups


def blocked_times(
    rows: Rows,
    devices: Sequence[int],
    launch: NDArray[np.int64],
    launches: pd.DataFrame,
    syncs: pd.DataFrame,
    awaited: NDArray[np.int64],
) -> dict[int, dict[str, tuple[Intervals, Intervals]]]:
    """Of each of `devices`, by thread of its host: when it stood in a call that waited for a copy, and in one that
    waited for a collective or another device; both merged.

    Such a call is a synchronising one that began before the awaited work ended, which is a copy, a collective, or any
    work of another device; or the call that started a copy, if it returned after the copy's end. Computing of the
    device itself is none: when it is done, that the device idles is the host's doing.
    """
    copies = np.flatnonzero((rows.kind == CODE[Kind.MEMCPY]) & (launch >= 0))
    copies = copies[launches["end_ps"].to_numpy()[launch[copies]] >= rows.end[copies]]
    return {device: _blocked_times_of(rows, device, launch, launches, syncs, awaited, copies) for device in devices}


def _blocked_times_of(
    rows: Rows,
    device: int,
    launch: NDArray[np.int64],
    launches: pd.DataFrame,
    syncs: pd.DataFrame,
    awaited: NDArray[np.int64],
    copies: NDArray[np.int64],
) -> dict[str, tuple[Intervals, Intervals]]:
    """What `blocked` gives for one device; `copies` are the rows whose calls returned after they had ended."""
    on_same_clock, host = same_clock(rows, device), rows.hosts[device]
    sync_starts = syncs["start_ps"].to_numpy()
    syncs_known = np.flatnonzero((awaited >= 0) & (syncs["device"].cat.codes.to_numpy() < 0))
    syncs_known = syncs_known[
        on_same_clock[rows.device[awaited[syncs_known]]] & (sync_starts[syncs_known] < rows.end[awaited[syncs_known]])
    ]
    kind, own_work = rows.kind[awaited[syncs_known]], rows.device[awaited[syncs_known]] == device
    copy = kind == CODE[Kind.MEMCPY]
    other_work = ~copy & (~own_work | (kind == CODE[Kind.COLLECTIVE]))
    calls = launch[copies[on_same_clock[rows.device[copies]]]]
    for_copies = [_of_host(syncs, syncs_known[copy], host), _of_host(launches, calls, host)]
    for_others = _of_host(syncs, syncs_known[other_work], host)
    threads = sorted({thread for times_by_thread in (*for_copies, for_others) for thread in times_by_thread})
    return {
        thread: (
            iv.union(*(times_by_thread.get(thread, iv.EMPTY) for times_by_thread in for_copies)),
            for_others.get(thread, iv.EMPTY),
        )
        for thread in threads
    }


def _of_host(calls: pd.DataFrame, places: NDArray[np.int64], host: str) -> Mapping[str, Intervals]:
    """By thread of a host: when it stood in one of the calls in `places`, merged."""
    hosts: Sequence[bool] = [str(name) == host for name in calls["host"].cat.categories]
    places = places[np.array([*hosts, False])[calls["host"].cat.codes.to_numpy()[places]]]
    threads = calls["thread"].cat.codes.to_numpy()[places]
    spans = iv.intervals(calls["start_ps"].to_numpy()[places], calls["end_ps"].to_numpy()[places])
    return {
        str(calls["thread"].cat.categories[code]): iv.union(spans[threads == code])
        for code in np.unique(threads).tolist()
    }


def awaited_rows(
    rows: Rows, launch: NDArray[np.int64], launches: pd.DataFrame, syncs: pd.DataFrame
) -> NDArray[np.int64]:
    """The row that each wait of `syncs` (SYNC_COLUMNS) waited for: the last to end of the work that it names.

    Shape (len(syncs),): a place in `rows`, -1 where the wait names no device, or no work is known to have been launched
    before it. `launch` is what `links.launch_of` gives. Work counts as launched when its call began.
    """
    awaited_row = np.full(len(syncs), -1)
    numbers = {name: device for device, name in enumerate(rows.devices)}
    devices = [numbers.get(str(name), -1) for name in syncs["on_device"].cat.categories]
    device = np.array([*devices, -1])[syncs["on_device"].cat.codes.to_numpy()]
    lanes = {name: code for code, name in enumerate(rows.labels("lane"))}
    # -1: all lanes; -2: a lane that ran nothing.
    codes = [lanes.get(str(name), -2) for name in syncs["on_lane"].cat.categories]
    lane = np.array([*codes, -1])[syncs["on_lane"].cat.codes.to_numpy()]
    recorded = syncs["recorded_ps"].to_numpy(np.int64, na_value=-1)
    moment = np.where(syncs["recorded_ps"].isna().to_numpy(bool), syncs["start_ps"].to_numpy(), recorded)
    call_starts = launches["start_ps"].to_numpy()
    key = device * (len(lanes) + 2) + lane + 2
    for lane_key in np.unique(key[device >= 0]).tolist():
        waits_of_lane = np.flatnonzero(key == lane_key)
        on_device, on_lane = int(device[waits_of_lane[0]]), int(lane[waits_of_lane[0]])
        work = np.arange(*(int(edge) for edge in rows.first[on_device : on_device + 2]))
        work = work[launch[work] >= 0]
        if on_lane != -1:
            work = work[rows.codes("lane")[work] == on_lane]
        if len(work) == 0:
            continue
        call_starts_of_work = call_starts[launch[work]]
        order = np.argsort(call_starts_of_work, kind="stable")
        work, call_starts_of_work = work[order], call_starts_of_work[order]
        reach = np.maximum.accumulate(rows.end[work])
        furthest = np.flatnonzero(rows.end[work] == reach)
        launched_before = np.searchsorted(call_starts_of_work, moment[waits_of_lane])
        has_work = launched_before > 0
        awaited_row[waits_of_lane[has_work]] = work[furthest[np.searchsorted(furthest, launched_before[has_work]) - 1]]
    return awaited_row


def lane_waits(
    rows: Rows, device: int, syncs: pd.DataFrame, awaited: NDArray[np.int64]
) -> list[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """The waits that lanes of a device were told: the lane's code (-1 for all lanes), when, and for which row.

    Times and rows are of shape (n,), by time; a lane keeps its order, so the row is that which ended last of all that
    it was told to wait for until then. `awaited` is what `awaited_rows` gives. Work on other clocks is left
    out: it proves nothing here.
    """
    on_same_clock = same_clock(rows, device)
    of_device = np.array([*(str(name) == rows.devices[device] for name in syncs["device"].cat.categories), False])
    waits_of_device = np.flatnonzero(of_device[syncs["device"].cat.codes.to_numpy()] & (awaited >= 0))
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


def same_clock(rows: Rows, device: int) -> NDArray[np.bool_]:
    """Which devices are on the clock of this one."""
    return np.array([clock == rows.clocks[device] for clock in rows.clocks], bool)
