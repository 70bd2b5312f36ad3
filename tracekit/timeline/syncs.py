"""What waited for what by order of the program: the rows that each synchronising call, or each lane, waited for.

Profilers often name the call, and not what it waits for. Then the times tell: a thread that a device held up goes on as
soon as the work has ended that it waited for, and only work of its own devices can hold it up.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import distinct, places_of, rising
from tracekit.devices import type_of
from tracekit.timeline.rows import Rows, processes
from tracekit.vocabulary.host_calls import SyncCall, sync_call

Column = NDArray[np.int64]
# A device and a lane, by their codes in Rows, and a process by its number.
Place = tuple[int, int, int]

# What a wait names where that is no lane: all lanes of its device, or one that ran nothing.
_ALL, _NO = -1, -2
# A process that is not told.
_ANY = -1

WAKE_PS = 50_000_000
"""A thread goes on within this time after the end of what it waited for.

From the end of the row to the return of the call it took 7.3 to 10.3 us in 19 cudaStreamSynchronize on an H100 (nsys),
13 and 19 us in two cudaDeviceSynchronize of PyTorch's profiles, and tens of us where the thread sleeps until the
device's interrupt (cudaDeviceScheduleBlockingSync).
"""
CLOCKS_PS = 10_000_000
"""A wait that returned this long before the end of what it waited for contradicts it not: device and host are on two
clocks, which profilers bring together to some microseconds, and some round to whole ones.

On one of two H100 in one nsys file 14 of 14 waits returned 4.4 to 6.7 us before the end of their row.
"""

BRIEF_PS = 5_000_000
"""A synchronising call that has nothing to wait for returns within this time.

24 cudaEventSynchronize on an A100 took 2 to 4 us, of 80 cudaStreamSynchronize on V100 the shortest 5 (PyTorch's
profiles).
"""
RESUME_PS = 8_000_000
"""A stream that was held goes on within this time after the end of what it waited for.

Of 2,152 rows that began within 20 us of the end of what their stream may have waited for (PyTorch's profile of 6,060
cudaStreamWaitEvent), 2,136 did within 8 us, most of them after 2 to 4 us.
"""
# A stream of HIP takes longer: 12 of 12 rows behind a hipStreamWaitEvent that began within 60 us of the end of what
# their stream may have waited for (PyTorch's profile of an MI300X) did after 9.6 to 17.6 us.
_RESUME_HIP_PS = 20_000_000
# So many of the rows that ended last before a row began are tried for what its stream waited for.
_TRIES = 8
# Without any record of what streams waited for, the times tell it of a row that began so late, though it was launched
# and its lane free, if so many such rows of a lane, and most of them, began equally soon after rows of another lane.
_LATE_PS, _FEWEST, _MOST, _EQUALLY_PS = 20_000_000, 5, 0.8, 2_000_000


@dataclass(frozen=True)
class Syncs:
    """What the n waits of a trace (SYNC_COLUMNS) waited for; a row is a place in Rows.

    `row` and `sync` (e,): of each lane that a wait waited for, the row that ended last, and the place of the wait.
    `awaited` (n,): of those the one that ended last, -1 where no work is known to have been launched before. `follower`
    (n,): where a lane waited, the first row that was launched on it from then on, else -1.

    `resumed` and `resumed_after` (k,): rows before which their lane waited for a row of another lane, as its prompt
    start tells, by a call that no record tells what for, or, where no such call is recorded, as many prompt starts do.
    """

    row: Column
    sync: Column
    awaited: Column
    follower: Column
    resumed: Column
    resumed_after: Column


def syncs(rows: Rows, launch: Column, launches: pd.DataFrame, table: pd.DataFrame) -> Syncs:
    """What each wait of `table` (SYNC_COLUMNS) waited for; `launch` (len(rows),) is as `Timeline.launch` has it.

    A wait is for all that was launched on its lane, or its device, before it was recorded, or else before it began; a
    thread's only for what its own process launched. A row is launched when its call begins; one whose call the trace
    lacks, at the latest when it starts. What a wait was for that names no device, its return tells (`_untold`).
    """
    awaited, follower = np.full(len(table), -1), np.full(len(table), -1)
    resumed = _resumed(rows, launch, launches, table)
    if len(table) == 0 or len(rows) == 0:
        return Syncs(awaited[:0], awaited[:0], awaited, follower, *resumed)
    process_of_call, process = processes(launches, table)
    # A lane waits for any other.
    held_places = np.column_stack([_places(rows, table["device"], table["lane"]), process])
    process[table["device"].notna().to_numpy(bool)] = _ANY
    lanes = _lanes(rows, launch, launches, process_of_call)
    start = table["start_ps"].to_numpy()
    for place, waits in _by_place(np.column_stack([held_places[:, :2], np.full(len(table), _ANY)])):
        for lane in lanes.matching(place) if place[1] != _ALL else ():
            first = lane.first_from(start[waits])
            has_first = (first >= 0) & ((follower[waits] < 0) | (first < follower[waits]))
            follower[waits[has_first]] = first[has_first]

    places = np.column_stack([_places(rows, table["on_device"], table["on_lane"]), process])
    edges = _untold(rows, _Calls(launch, launches, process_of_call), table, lanes, places)
    is_recorded = table["recorded_ps"].notna().to_numpy(bool)
    moment = np.where(is_recorded, table["recorded_ps"].to_numpy(np.int64, na_value=0), start)
    # A lane that waits returns at once.
    until = np.where(process == _ANY, np.iinfo(np.int64).max, table["end_ps"].to_numpy())
    for place, waits in _by_place(places):
        for lane in lanes.matching(place):
            edges.append((_last_row(rows, lane, moment[waits], until[waits]), waits))
    row, sync = (np.concatenate(columns) for columns in zip(*edges, strict=True)) if edges else (awaited[:0],) * 2
    row, sync = row[row >= 0], sync[row >= 0]
    launched_at = _launched_at(rows, launch, launches)
    awaited = _last_awaited(rows, launched_at, row, sync, len(table))
    hold, wait = _pending_holds(lanes, held_places, places, start, moment)
    hold, wait = hold[awaited[hold] >= 0], wait[awaited[hold] >= 0]
    further = np.setdiff1d(wait * len(rows) + awaited[hold], sync * len(rows) + row)
    row, sync = np.append(row, further % len(rows)), np.append(sync, further // len(rows))
    awaited = _last_awaited(rows, launched_at, row, sync, len(table))
    return Syncs(row, sync, awaited, follower, *resumed)


def _last_awaited(rows: Rows, launched_at: Column, row: Column, sync: Column, n: int) -> Column:
    """Of the rows that each of n waits waited for the one that ended last, (n,), -1 where there is none."""
    awaited = np.full(n, -1)
    by_end = np.lexsort((row, launched_at[row], rows.end[row], sync))
    awaited[sync[by_end]] = row[by_end]  # the last to be written stays
    return awaited


def _pending_holds(
    lanes: "_Lanes", held_places: Column, places: Column, start: Column, moment: Column
) -> tuple[Column, Column]:
    """By which waits a lane was held that another wait is for, and that wait, both (k,): such as began before the
    `moment` of the other, and of which the lane ran nothing until then.

    So PyTorch waits for a barrier: it lets the current stream wait for the collective, and the thread for that stream.
    `held_places` are those of lanes that wait, `places` what is waited for. Of many waits the last _TRIES count.
    """
    pairs = [(np.zeros(0, np.int64),) * 2]
    holds_of: dict[int, list[tuple[Place, Column]]] = {}
    for place, holds in _by_place(held_places):
        holds_of.setdefault(place[0], []).append((place, holds[np.argsort(start[holds], kind="stable")]))
    for (device, code, process), waits in _by_place(places):
        for held_place, holds in holds_of.get(device, ()):
            _, held_code, held_process = held_place
            is_other = process != held_process and _ANY not in (process, held_process)
            if is_other or held_code == _ALL or code not in (_ALL, held_code):
                continue
            launched = [lane.launched_before(moment[waits]) for lane in lanes.matching(held_place)]
            if not launched:
                continue
            first = np.searchsorted(start[holds], np.max(launched, axis=0), side="right")
            last = np.searchsorted(start[holds], moment[waits])
            for back in range(1, _TRIES + 1):
                is_pending = last - back >= first
                pairs.append((holds[last[is_pending] - back], waits[is_pending]))
    hold, wait = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
    return hold, wait


@dataclass(frozen=True)
class _Calls:
    """The calls of a trace (LAUNCH_COLUMNS), the `process` (c,) of each, and which launched each row (`launch`)."""

    launch: Column
    table: pd.DataFrame
    process: Column


def _last_row(rows: Rows, lane: "_Lane", moment: Column, until: Column) -> Column:
    """The row of a lane that ended last of those that were launched before each moment, -1 for none.

    Where it began after `until`, when the wait returned, but so little that the clocks may be at fault, the one before.
    """
    row = lane.last_before(moment)
    is_late = (row >= 0) & (rows.start[row] >= until) & (rows.end[row] - CLOCKS_PS <= until)
    return np.where(is_late, lane.last_begun(moment, until), row)


@dataclass(frozen=True)
class _Lane:
    """The k rows of a lane in the order of their launches.

    `row` (k,): their places in Rows. `launched` (k,). `begin` and `reach` (k,): the latest start and end so far, and
    `last` (k,) the row that has that end.
    """

    row: Column
    launched: Column
    begin: Column
    reach: Column
    last: Column

    def last_before(self, moment: Column) -> Column:
        """The row that ended last of those that were launched before each moment, -1 for none."""
        return np.append(-1, self.last)[np.searchsorted(self.launched, moment)]

    def launched_before(self, moment: Column) -> Column:
        """When the last row before each moment was launched, the earliest of times for none."""
        return np.append(np.iinfo(np.int64).min, self.launched)[np.searchsorted(self.launched, moment)]

    def last_begun(self, moment: Column, until: Column) -> Column:
        """The row that ended last of those that were launched before each moment and had begun, as all before it,
        `until` then; -1 for none."""
        count = np.minimum(np.searchsorted(self.launched, moment), np.searchsorted(self.begin, until))
        return np.append(-1, self.last)[count]

    def last_done(self, moment: Column, until: Column) -> Column:
        """The last of the rows that were launched before each moment that had ended, as all before it, `until` then."""
        count = np.minimum(np.searchsorted(self.launched, moment), np.searchsorted(self.reach, until, side="right"))
        return np.append(-1, self.last)[count]

    def first_from(self, moment: Column) -> Column:
        """The row that starts first of those that were launched from each moment on, -1 for none."""
        first = np.append(np.minimum.accumulate(self.row[::-1])[::-1], -1)
        return first[np.searchsorted(self.launched, moment)]


def _launched_at(rows: Rows, launch: Column, launches: pd.DataFrame) -> Column:
    return np.where(launch >= 0, np.append(launches["start_ps"].to_numpy(), 0)[launch], rows.start)


class _Lanes:
    """The lanes that ran rows, by place. Those of a device and process are found without a look at all others, of which
    a damaged trace may have as many as rows."""

    def __init__(self, lanes: dict[Place, _Lane]) -> None:
        self._of_device: dict[int, list[Place]] = {}
        self._of_owner: dict[tuple[int, int], list[Place]] = {}
        self._lanes = lanes
        for place in lanes:
            self._of_device.setdefault(place[0], []).append(place)
            self._of_owner.setdefault((place[0], place[2]), []).append(place)

    def matching(self, place: Place) -> Iterator[_Lane]:
        """The lanes that a wait of this place means: of its process, or of one that is not told."""
        device, code, process = place
        places = self._of_device.get(device, []) if process == _ANY else self._owned(device, process)
        return (self._lanes[each] for each in places if code in (_ALL, each[1]))

    def of(self, devices: Iterable[int], process: int) -> dict[Place, _Lane]:
        """The lanes of devices that are of a process, or of none that is told."""
        return {place: self._lanes[place] for device in devices for place in self._owned(device, process)}

    def _owned(self, device: int, process: int) -> list[Place]:
        return sorted({place for owner in (process, _ANY) for place in self._of_owner.get((device, owner), ())})


def _lanes(rows: Rows, launch: Column, launches: pd.DataFrame, process_of_call: Column) -> _Lanes:
    """The lanes that ran rows, for each process that launched them; _ANY where no call tells it.

    Rows whose call is not in the trace are those of the one process that launched on their lane.
    """
    launched_at = _launched_at(rows, launch, launches)
    process = np.where(launch >= 0, np.append(process_of_call, _ANY)[launch], _ANY)
    width = len(rows.labels("lane"))
    lane_of_row = rows.device * width + rows.codes("lane")
    order = np.lexsort((launched_at, lane_of_row))
    lanes = {}
    for lane_rows in np.split(order, np.flatnonzero(np.diff(lane_of_row[order])) + 1):
        device, code = divmod(int(lane_of_row[lane_rows[0]]), width)
        owners = np.unique(process[lane_rows])
        owners = owners[owners != _ANY] if 1 <= np.count_nonzero(owners != _ANY) < 2 else owners
        for owner in owners.tolist():
            own = lane_rows if len(owners) == 1 else lane_rows[process[lane_rows] == owner]
            begin, reach = np.maximum.accumulate(rows.start[own]), np.maximum.accumulate(rows.end[own])
            last = own[np.maximum.accumulate(np.where(rows.end[own] == reach, np.arange(len(own)), 0))]
            lanes[device, code, owner] = _Lane(own, launched_at[own], begin, reach, last)
    return _Lanes(lanes)


def _places(rows: Rows, device: pd.Series, lane: pd.Series) -> Column:
    """The codes (n, 2) of the device and the lane that each wait names, _NO of what ran nothing; _ALL for all lanes."""
    devices = {name: code for code, name in enumerate(rows.devices)}
    lanes = {name: code for code, name in enumerate(rows.labels("lane"))}
    device_codes = np.array([*(devices.get(str(name), _NO) for name in device.cat.categories), _NO])
    lane_codes = np.array([*(lanes.get(str(name), _NO) for name in lane.cat.categories), _ALL])
    return np.column_stack([device_codes[device.cat.codes.to_numpy()], lane_codes[lane.cat.codes.to_numpy()]])


def _by_place(places: Column) -> Iterator[tuple[Place, Column]]:
    """The waits of each place that ran rows; `places` (n, 3)."""
    keys, number = np.unique(places, axis=0, return_inverse=True)
    of_key = places_of(number.reshape(-1), len(keys))
    for (device, lane, process), waits in zip(keys.tolist(), of_key, strict=True):
        if device != _NO and lane != _NO:
            yield (device, lane, process), waits


def _untold(
    rows: Rows, calls: _Calls, table: pd.DataFrame, lanes: _Lanes, places: Column
) -> list[tuple[Column, Column]]:
    """What the waits of threads were for that name no device: for a device or a stream, put into `places`; for events,
    the pairs of rows and waits.

    Only work of its process counts, on the devices that the thread launches to, or else its process. A call returns
    promptly after the end of what it waited for, or, where all was done before, after its begin; of several devices,
    streams or rows it waited for the one that ended last until then. What ran on after the return was not waited for.
    """
    untold = np.flatnonzero(table["device"].isna().to_numpy(bool) & table["on_device"].isna().to_numpy(bool))
    edges: list[tuple[Column, Column]] = []
    names = table["name"].cat
    sort_of_name = [*(sync_call(str(name)) for name in names.categories), None]
    sorts = list(dict.fromkeys(sort_of_name))
    sort_of_wait = np.array([sorts.index(sort) for sort in sort_of_name])[names.codes.to_numpy()]
    start, end = table["start_ps"].to_numpy(), table["end_ps"].to_numpy()
    for devices, waits_of_thread in _devices_of_waits(calls, rows, table, untold, places[:, 2]):
        process = int(places[waits_of_thread[0], 2])
        own = lanes.of(devices, process)
        for number in np.unique(sort_of_wait[waits_of_thread]).tolist():
            sort, waits = sorts[number], waits_of_thread[sort_of_wait[waits_of_thread] == number]
            times = start[waits], end[waits]
            if sort is SyncCall.DEVICE and len(devices) == 1:
                places[waits, :2] = devices[0], _ALL
            elif sort in (SyncCall.DEVICE, SyncCall.STREAM):
                last = {place: lane.last_before(start[waits]) for place, lane in own.items()}
                if sort is SyncCall.DEVICE:
                    last = {(device, _ALL, process): _last_of(rows, last, device) for device in devices}
                choice, _ = _latest(rows, last, times)
                chosen = [*(place[:2] for place in last), (_NO, _NO)]
                places[waits, :2] = np.array(chosen)[choice]
            else:
                last_rows = {place: lane.last_done(start[waits], end[waits] + CLOCKS_PS) for place, lane in own.items()}
                edges.append((_latest(rows, last_rows, times)[1], waits))
    return edges


def _last_of(rows: Rows, last_of_lane: dict[Place, Column], device: int) -> Column:
    """Of the rows (w,) of each lane of a device the one that ended last, -1 for none."""
    end = np.append(rows.end, np.iinfo(np.int64).min)
    each = np.array([row for place, row in last_of_lane.items() if place[0] == device])
    last: Column = each[end[each].argmax(axis=0), np.arange(each.shape[1])]
    return last


def _latest(rows: Rows, candidates: dict[Place, Column], times: tuple[Column, Column]) -> tuple[Column, Column]:
    """Which candidate each of w waits, from start to end, was for, and its row; -1 for none.

    `candidates`: the row (w,) of each that had to end, -1 for none.
    """
    start, end = times
    row_end = np.append(rows.end, np.iinfo(np.int64).min // 2)
    choice, choice_row = np.full(len(start), -1), np.full(len(start), -1)
    for number, row in enumerate(candidates.values()):
        is_later = (row >= 0) & (row_end[row] <= end + CLOCKS_PS) & (row_end[row] > row_end[choice_row])
        choice[is_later], choice_row[is_later] = number, row[is_later]
    is_prompt = end - np.maximum(row_end[choice_row], start) <= WAKE_PS
    return np.where(is_prompt, choice, -1), np.where(is_prompt, choice_row, -1)


def _devices_of_waits(
    calls: _Calls, rows: Rows, table: pd.DataFrame, untold: Column, process: Column
) -> list[tuple[list[int], Column]]:
    """The waits `untold` of each thread, with the devices that it launches to, or else its `process` (n,) does."""
    if len(untold) == 0:
        return []
    thread_of_call, thread_of_wait = _threads(calls.table, calls.process, table, process)
    linked = np.flatnonzero(calls.launch >= 0)
    call, device = calls.launch[linked], rows.device[linked]
    of_thread, of_process = _devices_of(thread_of_call[call], device), _devices_of(calls.process[call], device)
    waits_of = []
    for thread, at in enumerate(places_of(thread_of_wait[untold], int(thread_of_wait.max()) + 1)):
        if len(at):
            waits = untold[at]
            devices = of_thread.get(thread) or of_process.get(int(process[waits[0]]))
            if devices:
                waits_of.append((devices, waits))
    return waits_of


def _devices_of(owner: Column, device: Column) -> dict[int, list[int]]:
    """The devices, in order, of each owner; one pair of the columns for each row."""
    width = int(device.max(initial=0)) + 1
    devices: dict[int, list[int]] = {}
    for pair in rising(owner * width + device).tolist():
        devices.setdefault(pair // width, []).append(pair % width)
    return devices


def _threads(calls: pd.DataFrame, call_process: Column, table: pd.DataFrame, process: Column) -> tuple[Column, Column]:
    """A number for the thread of each call and of each wait, the same for the same process and name."""
    of_name = {str(name): code for code, name in enumerate(calls["thread"].cat.categories)}
    of_wait = [of_name.setdefault(str(name), len(of_name)) for name in table["thread"].cat.categories]
    code = np.append(
        calls["thread"].cat.codes.to_numpy(), np.array([*of_wait, -1])[table["thread"].cat.codes.to_numpy()]
    )
    thread = np.append(call_process, process) * (len(of_name) + 1) + code + 1
    _, number = np.unique(thread, return_inverse=True)
    return number[: len(calls)], number[len(calls) :]


def _resumed(rows: Rows, launch: Column, launches: pd.DataFrame, table: pd.DataFrame) -> tuple[Column, Column]:
    """The rows that their lane was held for until a row of another lane of the device ended, and that row, both (k,).

    Of cudaStreamWaitEvent most traces have the call only, which names neither. It holds the row that its thread
    launched next on the lane: one that could have begun before, as it was launched and the lane was done, but did right
    after the end of what had been launched when the call was made.
    """
    names = [str(name) for name in launches["name"].cat.categories]
    is_hold = np.array([sync_call(name) is SyncCall.STREAM_WAIT for name in names])
    resume_ps = _RESUME_HIP_PS if any(name.startswith("hip") for name in names) else RESUME_PS
    holds = np.flatnonzero(np.append(is_hold, False)[launches["name"].cat.codes.to_numpy()])
    start = launches["start_ps"].to_numpy()
    of_lane = table["device"].notna().to_numpy(bool)
    if not len(holds) and not of_lane.any():
        return _repeatedly_resumed(rows, launch, launches)
    holds = holds[~np.isin(start[holds], table["start_ps"].to_numpy()[of_lane])]
    launched_at = _launched_at(rows, launch, launches)
    order = np.lexsort((rows.start, launched_at, rows.codes("lane"), rows.device)) if len(holds) else holds
    same_lane = (np.diff(rows.device[order]) == 0) & (np.diff(rows.codes("lane")[order]) == 0)
    previous = np.full(len(rows), -1)
    previous[order[1:][same_lane]] = order[:-1][same_lane]
    earliest = np.iinfo(np.int64).min
    (process,) = processes(launches)
    thread = process * (len(launches["thread"].cat.categories) + 1) + launches["thread"].cat.codes.to_numpy()
    held_at = np.full(len(rows), earliest)
    number_of, _ = distinct(thread)
    launched = np.flatnonzero(launch >= 0)
    count = int(number_of.max(initial=-1)) + 1
    of_thread = zip(places_of(number_of[holds], count), places_of(number_of[launch[launched]], count), strict=True)
    for of_holds, of_rows in of_thread:
        if not len(of_holds):
            continue
        times = np.append(np.sort(start[holds[of_holds]]), earliest)
        own = launched[of_rows]
        before = np.where(previous[own] >= 0, launched_at[previous[own]], earliest)
        last = np.searchsorted(times[:-1], launched_at[own]) - 1
        held_at[own] = np.where(times[last] >= before, times[last], earliest)
    return _ended_before(rows, launched_at, previous, held_at, resume_ps)


def _repeatedly_resumed(rows: Rows, launch: Column, launches: pd.DataFrame) -> tuple[Column, Column]:
    """The rows that began right after the end of a row of another lane again and again, and that row, both (k,).

    For traces that record no wait of a lane: one prompt start may be chance.
    """
    none = np.zeros(0, np.int64)
    gpus = [code for code, name in enumerate(rows.devices) if type_of(name) == "gpu"]
    lane = rows.codes("lane")
    if not any(np.count_nonzero(np.bincount(lane[rows.of(gpu)] + 1)) > 1 for gpu in gpus):
        return none, none
    width = len(rows.labels("lane")) + 1
    lane = np.where(np.isin(rows.device, gpus), rows.device * width + lane + 1, -1)
    launched_at = _launched_at(rows, launch, launches)
    # A lane runs its rows in the order of their launches, and rows stand by start.
    order = np.argsort(lane.astype(np.min_scalar_type(-int(lane.max()) - 1)), kind="stable")
    same_lane = lane[order[1:]] == lane[order[:-1]]
    previous = np.full(len(rows), -1)
    previous[order[1:][same_lane]] = order[:-1][same_lane]
    free_at = np.maximum(np.append(rows.end, np.iinfo(np.int64).min)[previous], launched_at)
    is_late = (launch >= 0) & (lane >= 0) & (rows.start - free_at > _LATE_PS)
    if np.count_nonzero(is_late) < _FEWEST:
        return none, none
    held_at = np.where(is_late, launched_at, np.iinfo(np.int64).min)
    row, after = _ended_before(rows, launched_at, previous, held_at, RESUME_PS)
    is_resumed = np.zeros(len(row), bool)
    late_of_lane = np.bincount(lane[is_late], minlength=1)
    pair, _ = distinct(lane[row], lane[after])
    delay = rows.start[row] - rows.end[after]
    by_pair = np.argsort(pair, kind="stable")
    first = np.searchsorted(pair[by_pair], np.arange(pair.max(initial=-1) + 2))
    for number in np.flatnonzero(np.diff(first) >= _FEWEST).tolist():
        of_pair = by_pair[first[number] : first[number + 1]]
        low, high = np.quantile(delay[of_pair], [0.1, 0.9])
        agrees = len(of_pair) >= _MOST * late_of_lane[lane[row[of_pair[0]]]] and high - low <= _EQUALLY_PS
        is_resumed[of_pair] = agrees
    return row[is_resumed], after[is_resumed]


def _ended_before(
    rows: Rows, launched_at: Column, previous: Column, held_at: Column, resume_ps: int
) -> tuple[Column, Column]:
    """Of the rows with a `held_at` those that began within `resume_ps` of the end of a row of another lane, and that
    row."""
    earliest = np.iinfo(np.int64).min
    candidates = np.flatnonzero(held_at > earliest)
    own_end = np.where(previous[candidates] >= 0, rows.end[previous[candidates]], earliest)
    ready = np.maximum(np.maximum(own_end, launched_at[candidates]), rows.start[candidates] - resume_ps - 1)
    after = np.full(len(candidates), -1)
    lane = rows.codes("lane")
    # Rows stand by device.
    first = np.searchsorted(candidates, rows.first)
    for device in np.flatnonzero(np.diff(first)).tolist():
        of_device = slice(first[device], first[device + 1])
        row = candidates[of_device]
        by_end = rows.of(device).start + np.argsort(rows.end[rows.of(device)], kind="stable")
        last = np.searchsorted(rows.end[by_end], rows.start[row], side="right") - 1
        for further in range(_TRIES):
            other = by_end[np.maximum(last - further, 0)]
            explains = (last >= further) & (lane[other] != lane[row])
            explains &= (rows.end[other] > ready[of_device]) & (launched_at[other] < held_at[row])
            after[of_device] = np.where((after[of_device] < 0) & explains, other, after[of_device])
    return candidates[after >= 0], after[after >= 0]
