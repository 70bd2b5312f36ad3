"""What the launches and waits of a trace say of the clock of each GPU, and the launches of that of each TPU.

What returns only when a copy is done, CUDA says: a call that is not asynchronous does with a copy to the host, and with
one from pinned memory; one from pageable memory may return before its last transfer (CUDA Runtime API, "API
synchronization behavior"). `hipMemcpyWithStream` waits, too. PyTorch's copies to the host are followed at once by a
cudaStreamSynchronize of their stream (c10/cuda/CUDAFunctions.h, memcpy_and_sync), which often says not for which it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import by_label
from tracekit.correlation import Calls, outer_calls
from tracekit.devices import is_known, type_of
from tracekit.readers.device_clocks.clock_line import Limits
from tracekit.trace import Trace
from tracekit.vocabulary.copies import host_memory
from tracekit.vocabulary.host_calls import SyncCall, asks_if_done, copies_synchronously, sync_call
from tracekit.vocabulary.kinds import Kind

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]

# PyTorch's call that waits for a copy begins so soon behind that of the copy.
_BEHIND_PS = 20 * 10**6
# Calls are looked up in a table of all ids if there are no more of these for each.
_MOST_IDS = 4


@dataclass(frozen=True)
class _Waits:
    """What w waits say, each column (w,): the code of a device, the end of what was waited for by its clock, start and
    end of the wait by the host's; and whether it is proven what was waited for, or inferred."""

    device: Column
    awaited: Column
    start: Column
    end: Column
    is_proven: Mask

    def take(self, which: Mask) -> "_Waits":
        """Some of them."""
        return _Waits(*(column[which] for column in vars(self).values()))


def limits_of(trace: Trace) -> dict[str, tuple[Limits, ...]]:
    """The limits of the clock of each GPU and TPU with rows that are linked to calls: those of all waits, and then,
    where some are inferred, without these."""
    events, calls = trace.events, trace.launches
    names = [str(name) for name in events["device"].cat.categories]
    devices = [code for code, name in enumerate(names) if type_of(name) in ("gpu", "tpu") and is_known(name)]
    if not devices or not len(calls):
        return {}
    call = _call_of_row(events, calls)
    device, start, end = (events["device"].cat.codes.to_numpy(), *_times(events))
    call_start, _ = _times(calls)
    waits = _waits(trace, call)
    limits = {}
    for code in devices:
        rows = np.flatnonzero((device == code) & (call >= 0))
        if not len(rows):
            continue
        of_device = waits.take(waits.device == code)
        middle = (int(start[rows].min()) + int(end[rows].max())) // 2
        least = call_start[call[rows]] - start[rows]
        limits[names[code]] = tuple(
            Limits(
                middle,
                start[rows] - middle,
                end[rows] - middle,
                least,
                some.awaited - middle,
                some.end - some.awaited,
                some.end - some.start,
            )
            for some in ([of_device] if of_device.is_proven.all() else [of_device, of_device.take(of_device.is_proven)])
        )
    return limits


def _times(table: pd.DataFrame) -> tuple[Column, Column]:
    return table["start_ps"].to_numpy(), table["end_ps"].to_numpy()


def _call_of_row(events: pd.DataFrame, calls: pd.DataFrame) -> Column:
    """The call with the id of each row (n,), -1 for none; of calls in each other the outer one.

    An id that several other calls have tells nothing: it is by the times that these are told apart.
    """
    call_ids = calls["correlation_id"].to_numpy(np.int64, na_value=-1)
    row_ids = events["correlation_id"].to_numpy(np.int64, na_value=-1)
    most = int(call_ids.max(initial=-1))
    if most < _MOST_IDS * len(call_ids):  # a table of all ids takes a fifth of the time that sorting them does
        known = np.flatnonzero(call_ids >= 0)
        if np.bincount(call_ids[known], minlength=1).max() == 1:
            of_id = np.full(most + 2, -1)  # the last is of what no call has
            of_id[call_ids[known]] = known
            return of_id[np.where((row_ids >= 0) & (row_ids <= most), row_ids, most + 1)]
    order = np.argsort(call_ids, kind="stable")
    order = order[np.searchsorted(call_ids[order], 0) :]
    ids = call_ids[order]
    heads = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: len(ids)])
    if len(heads) < len(order):
        (start, end), thread = (times[order] for times in _times(calls)), _threads(calls, calls)[order]
        order = order[outer_calls(Calls(ids, start, end, thread, np.zeros(len(order), bool)))]
        ids = call_ids[order]
        heads = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        heads = heads[np.diff(np.append(heads, len(ids))) == 1]
    if not len(heads):
        return np.full(len(events), -1)
    ids, first = ids[heads], order[heads]
    place = np.minimum(np.searchsorted(ids, row_ids), len(ids) - 1)
    return np.where(ids[place] == row_ids, first[place], -1)


def _waits(trace: Trace, call: Column) -> _Waits:
    """What the waits of the host's threads say; `call` (n,) is the call of each row."""
    parts = [_copy_waits(trace, call), *_sync_waits(trace, call)]
    return _Waits(*(np.concatenate(columns) for columns in zip(*(vars(part).values() for part in parts), strict=True)))


def _for_rows(trace: Trace, rows: Column, start: Column, end: Column, is_proven: bool | Mask = True) -> _Waits:
    """Waits from `start` to `end`, each (w,), for `rows` of the events."""
    device = trace.events["device"].cat.codes.to_numpy()[rows].astype(np.int64)
    return _Waits(device, trace.events["end_ps"].to_numpy()[rows], start, end, np.full(len(rows), is_proven))


def _copy_waits(trace: Trace, call: Column) -> _Waits:
    """The calls that return only when their copy is done."""
    events, calls = trace.events, trace.launches
    is_blocking = np.append(by_label(calls["name"].array, copies_synchronously), False)
    rows = np.flatnonzero(is_blocking[call] & (events["kind"] == Kind.MEMCPY.value).to_numpy(bool))
    copies = events.iloc[rows]
    is_pinned = by_label(copies["name"].array, lambda name: host_memory(name) == "pinned").astype(bool)
    is_pinned |= (copies["host_memory"] == "pinned").to_numpy(bool)
    has_direction = {way: (copies["direction"] == way).to_numpy(bool) for way in ("D2H", "H2D")}
    rows = rows[has_direction["D2H"] | (has_direction["H2D"] & is_pinned)]
    return _for_rows(trace, rows, *(times[call[rows]] for times in _times(calls)))


def _sync_waits(trace: Trace, call: Column) -> Iterator[_Waits]:
    """The synchronising calls of the host."""
    events, calls = trace.events, trace.launches
    syncs = trace.syncs[trace.syncs["device"].isna()] if len(trace.syncs) else trace.syncs
    # What a loop of queries waited for was told by these very clocks.
    syncs = syncs[~by_label(syncs["name"].array, asks_if_done).astype(bool)]
    linked = np.flatnonzero(call >= 0)
    if not len(syncs) or not len(linked):
        return
    start, end = _times(syncs)
    thread = _threads(syncs, calls)
    kind = by_label(syncs["name"].array, sync_call, None)
    is_unknown = syncs["on_device"].isna().to_numpy()

    # The call right before on the thread, and a row that it launched.
    before = _call_before(calls, thread, start)
    row_of_call = np.full(len(calls) + 1, -1)
    row_of_call[call[linked][::-1]] = linked[::-1]
    row_before = np.where(before >= 0, row_of_call[before], -1)
    is_of_copy = is_unknown & (kind == SyncCall.STREAM) & (row_before >= 0)
    is_of_copy &= np.append((events["direction"] == "D2H").to_numpy(bool), False)[row_before]
    is_of_copy &= start - np.append(calls["end_ps"].to_numpy(), 0)[before] <= _BEHIND_PS
    yield _for_rows(trace, row_before[is_of_copy], start[is_of_copy], end[is_of_copy], False)

    # A thread waits for its current device, and launches on no other one (CUDA C++ Programming Guide, "Stream and Event
    # Behavior").
    devices = np.append(events["device"].cat.codes.to_numpy().astype(np.int64), -1)
    last_launch = _call_before(calls, thread, start, np.flatnonzero(row_of_call[:-1] >= 0))
    device_before = devices[np.where(last_launch >= 0, row_of_call[last_launch], -1)]
    is_of_current = is_unknown & (kind == SyncCall.DEVICE) & (device_before >= 0)
    device = np.where(is_of_current, device_before, _codes_as(syncs["on_device"], events["device"]))
    lane = np.where(is_of_current, -1, _codes_as(syncs["on_lane"], events["lane"]))
    is_of_lane = syncs["on_lane"].notna().to_numpy() & ~is_of_current
    process = _codes_as(syncs["process"], calls["process"])
    process_of_call = calls["process"].cat.codes.to_numpy()
    # All that was launched before an event was recorded, or before the wait began.
    moment = syncs["recorded_ps"].fillna(syncs["start_ps"].astype("Int64")).to_numpy(np.int64)
    waits = np.flatnonzero((device >= 0) & ((lane >= 0) | ~is_of_lane))
    keys, group = np.unique(np.column_stack([device, lane, process])[waits], axis=0, return_inverse=True)
    lanes = events["lane"].cat.codes.to_numpy()
    for number, (device_code, lane_code, process_code) in enumerate(keys.tolist()):
        rows = linked[(devices[linked] == device_code) & (process_of_call[call[linked]] == process_code)]
        rows = rows[lanes[rows] == lane_code] if lane_code >= 0 else rows
        of_group = waits[group.reshape(-1) == number]
        row = _last_before(trace, rows, call, moment[of_group])
        of_group, row = of_group[row >= 0], row[row >= 0]
        yield _for_rows(trace, row, start[of_group], end[of_group], ~is_of_current[of_group])


def _last_before(trace: Trace, rows: Column, call: Column, moment: Column) -> Column:
    """Of the `rows` whose calls had returned at each moment (w,) the one that ended last, -1 where none had."""
    returns = trace.launches["end_ps"].to_numpy()[call[rows]]
    order = np.argsort(returns, kind="stable")
    end = trace.events["end_ps"].to_numpy()[rows[order]]
    is_latest = end == np.maximum.accumulate(end)
    latest = rows[order][np.maximum.accumulate(np.where(is_latest, np.arange(len(rows)), 0))]
    return np.append(-1, latest)[np.searchsorted(returns[order], moment, side="right")]


def _call_before(calls: pd.DataFrame, thread: Column, start: Column, among: Column | None = None) -> Column:
    """The last of `calls`, or of those `among` them, that began on its thread before each of `start` (w,), -1 for none.

    `thread` (w,) has the numbers of _threads.
    """
    before = np.full(len(start), -1)
    places = np.arange(len(calls)) if among is None else among
    threads, starts = _threads(calls, calls)[places], calls["start_ps"].to_numpy()[places]
    for code in np.unique(thread[thread >= 0]).tolist():
        own = np.flatnonzero(threads == code)
        own = own[np.argsort(starts[own], kind="stable")]
        which = np.flatnonzero(thread == code)
        before[which] = np.append(-1, places[own])[np.searchsorted(starts[own], start[which], side="left")]
    return before


def _threads(table: pd.DataFrame, calls: pd.DataFrame) -> Column:
    """A number for the process and thread of each row of `table`, the same as in `calls`; negative where none is."""
    process, thread = (_codes_as(table[column], calls[column]) for column in ("process", "thread"))
    return (process + 1) * len(calls["thread"].cat.categories) + np.where(thread < 0, -(2**40), thread)


def _codes_as(column: pd.Series, other: pd.Series) -> Column:
    """The codes that the categories of `other` have for the labels of `column`, -1 for none."""
    codes = {str(label): code for code, label in enumerate(other.cat.categories)}
    of_label = np.array([*(codes.get(str(label), -1) for label in column.cat.categories), -1], np.int64)
    return of_label[column.cat.codes.to_numpy()]
