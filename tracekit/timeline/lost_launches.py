"""Until when launches are proven to have run: those without a row that were made by then have lost it.

A profile may end while the host is ahead of its devices: what they had not run yet has no row, and nothing is lost. A
stream runs its work in order. So a launch has run where a later one of its stream has a row, or where a wait for its
stream, or for all of the device, returned that began, or whose event was recorded, after it. A launch without a row
does not tell its stream: it is on one of those on which the same call of the same thread put work else.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import by_label, distinct, frame, places_of
from tracekit.timeline.rows import Rows, processes
from tracekit.timeline.syncs import BRIEF_PS, Syncs
from tracekit.trace import Trace
from tracekit.vocabulary.host_calls import (
    SyncCall,
    launches,
    launches_host_function,
    recorded_into_graph,
    sets_memory,
    sync_call,
)

Column = NDArray[np.int64]

LOST_COLUMNS = {"host": "str", "lost": "int64", "total": "int64"}
# A smaller share of the launches without rows is what had not run yet when the profile ended, or ran before it. So few
# are calls that put nothing to work, such as copies of no bytes: in whole files there are up to three.
REMAINDER = 0.05
_FEWEST_LAUNCHES = 5

# A lane with a smaller share of what a call puts to work is none that its launches without rows are taken for.
_FEW = 0.05
_NEVER, _ALWAYS = np.iinfo(np.int64).min, np.iinfo(np.int64).max
# Waits that cover all that was launched on their lane or device before they began, whatever record there is.
_WHOLE = (SyncCall.STREAM, SyncCall.DEVICE)


@dataclass(frozen=True)
class _Work:
    """The k rows whose launch is known: the place of the `call` in the launches, the `device` and the lane of each.

    `lane` numbers the lanes of each process and device from 0 on; all columns have shape (k,).
    """

    row: Column
    call: Column
    device: Column
    lane: Column


def lost_launches(rows: Rows, launch: Column, syncs: Callable[[], Syncs], trace: Trace) -> pd.DataFrame:
    """Launches that have run and of which no device has a row, by host (LOST_COLUMNS), where they are too many to be
    the profile's edge; the arguments are as `run_until` has them, and `syncs` is asked where that is needed.

    Of a process of which no launch has a row, all count. Launches that were recorded into a graph did not run at all.
    """
    data = []
    calls, events = trace.launches, trace.events
    kinds = calls["name"].cat.categories
    codes = calls["name"].cat.codes.to_numpy()
    is_launch = np.array([*map(_leaves_a_row, kinds), False], bool)[codes]
    is_unanswered = is_launch & calls["correlation_id"].notna().to_numpy(bool)
    is_unanswered[launch[launch >= 0]] = False
    host_of_call = calls["host"].cat.codes.to_numpy()
    if np.bincount(host_of_call[is_unanswered], minlength=1).max() < _FEWEST_LAUNCHES:
        return frame(LOST_COLUMNS)
    process = calls["process"].cat.codes.to_numpy()
    thread, _ = distinct(*(calls[name].cat.codes.to_numpy().astype(np.int64) for name in ("process", "thread")))
    start = calls["start_ps"].to_numpy()
    hosts = calls["host"].cat.categories
    event_hosts, host_of_event = list(events["host"].cat.categories), events["host"].cat.codes.to_numpy()
    ids, has_id = _numbers(calls["correlation_id"])
    event_ids, event_has_id = _numbers(events["correlation_id"])
    code_of_event_host = {name: code for code, name in enumerate(event_hosts)}
    calls_of = places_of(host_of_call, len(hosts))
    events_of = places_of(host_of_event, len(event_hosts))
    is_counted = is_launch & has_id
    until: Column | None = None
    for its_calls, host in zip(calls_of, hosts, strict=True):
        names = pd.Categorical.from_codes(codes[its_calls], kinds)
        counts = is_counted[its_calls] & ~recorded_into_graph(names, start[its_calls], thread[its_calls])
        at = its_calls[counts]
        mine = events_of[code_of_event_host[host]] if host in code_of_event_host else its_calls[:0]
        answered = np.isin(ids[at], event_ids[mine[event_has_id[mine]]])
        if np.count_nonzero(~answered) < _FEWEST_LAUNCHES:
            continue
        if until is None:
            until = run_until(rows, launch, calls, syncs(), trace.syncs)
        has_run = (start[at] <= until[at]) | ~np.isin(process[at], process[at[answered]])
        lost = int((~answered & has_run).sum())
        total = int(answered.sum()) + lost
        if lost >= _FEWEST_LAUNCHES and lost > REMAINDER * total:
            data.append((str(host), lost, total))
    return frame(LOST_COLUMNS, data)


def _leaves_a_row(name: str) -> bool:
    """Whether all that a call of this name launches has a row. Memsets of nothing have none: of `aten::addmm` on an
    H100, cuBLAS asked for 305 of these beside 740 of four bytes."""
    return launches(name) and not launches_host_function(name) and not sets_memory(name)


def _numbers(column: pd.Series) -> tuple[Column, NDArray[np.bool_]]:
    return column.to_numpy(np.int64, na_value=0), column.notna().to_numpy(bool)


def run_until(rows: Rows, launch: Column, launches: pd.DataFrame, syncs: Syncs, table: pd.DataFrame) -> Column:
    """Until when calls like each of the c `launches` are proven to have run, (c,) in ps; the smallest int64 if never.

    `launch` (len(rows),) is as `Timeline.launch` has it, `syncs` what each wait of `table` (SYNC_COLUMNS) waited for.
    """
    of_call, of_wait = processes(launches, table)
    start = launches["start_ps"].to_numpy()
    row = np.flatnonzero(launch >= 0)
    if not len(row):
        return np.full(len(launches), _NEVER)
    call = launch[row]
    lane, _ = distinct(of_call[call], rows.device[row], rows.codes("lane")[row].astype(np.int64))
    work = _Work(row, call, rows.device[row], lane)
    until = np.full(int(lane.max()) + 1, _NEVER)
    np.maximum.at(until, lane, start[call])
    _add_waits(until, work, of_call[call], rows, syncs, table, of_wait)
    thread, name = (launches[column].cat.codes.to_numpy().astype(np.int64) for column in ("thread", "name"))
    alike, _ = distinct(of_call, thread, name)
    of_alike = _first_until(alike, work, until, start)
    of_process = _first_until(of_call, work, until, start)
    return np.where(of_alike == _ALWAYS, np.where(of_process == _ALWAYS, _NEVER, of_process), of_alike)


def _first_until(kind: Column, work: _Work, until: Column, start: Column) -> Column:
    """Until when all lanes have run on which calls of the same `kind` (c,) put work: (c,); the largest int64 if none.

    Lanes with little of it do not count, nor those on which it put nothing in the later half of what it launched.
    """
    pair, first = distinct(kind[work.call], work.lane)
    kind_of_pair, lane_of_pair = kind[work.call][first], work.lane[first]
    count, count_of_kind = np.bincount(pair), np.bincount(kind[work.call], minlength=int(kind.max()) + 1)
    last = np.full(len(first), _NEVER)
    np.maximum.at(last, pair, start[work.call])
    order = np.lexsort((start[work.call], kind[work.call]))
    begins = np.cumsum(count_of_kind) - count_of_kind
    middle = start[work.call][order][np.minimum(begins + count_of_kind // 2, len(order) - 1)]
    counts = (count >= _FEW * count_of_kind[kind_of_pair]) & (last >= middle[kind_of_pair])
    least = np.full(int(kind.max()) + 1, _ALWAYS)
    np.minimum.at(least, kind_of_pair[counts], until[lane_of_pair[counts]])
    return least[kind]


def _add_waits(
    until: Column, work: _Work, process: Column, rows: Rows, syncs: Syncs, table: pd.DataFrame, of_wait: Column
) -> None:
    """Raise `until` of each lane to what the threads' waits prove, in place; `process` (k,) is that of each row's
    call, `of_wait` that of each wait."""
    sort = by_label(table["name"].array, sync_call, None)
    is_recorded = table["recorded_ps"].notna().to_numpy(bool)
    covers = table["device"].isna().to_numpy(bool) & (is_recorded | np.isin(sort, _WHOLE))
    moment = np.where(is_recorded, table["recorded_ps"].to_numpy(np.int64, na_value=0), table["start_ps"].to_numpy())
    device, lane = (_codes(table[column], labels) for column, labels in
                    (("on_device", rows.devices), ("on_lane", rows.labels("lane"))))  # fmt: skip
    first = np.unique(work.lane, return_index=True)[1]
    lane_code = rows.codes("lane")[work.row][first]
    usual = _usual_lanes(work, len(rows), syncs, table, of_wait)
    for number in range(len(until)):
        same = covers & (of_wait == process[first[number]])
        devices = np.unique(work.device[process == process[first[number]]])
        is_on_lane = (device == work.device[first[number]]) & (table["on_lane"].isna() | (lane == lane_code[number]))
        alone = table["on_device"].isna() & np.equal(sort, SyncCall.DEVICE) & (len(devices) == 1)
        mine = same & (is_on_lane | alone | (table["on_device"].isna() & (usual == number))).to_numpy(bool)
        until[number] = max(until[number], int(moment[mine].max(initial=_NEVER)))


def _usual_lanes(work: _Work, n: int, syncs: Syncs, table: pd.DataFrame, of_wait: Column) -> Column:
    """The lane for which each wait's call waited else on its thread, where that was always the same one, else -1.

    A call that returned at once does not tell for what it was.
    """
    lane_of_row = np.full(n, -1)
    lane_of_row[work.row] = work.lane
    call, _ = distinct(of_wait, *(table[column].cat.codes.to_numpy().astype(np.int64) for column in ("thread", "name")))
    if not len(call):
        return call
    low, high = np.full(int(call.max()) + 1, _ALWAYS), np.full(int(call.max()) + 1, -1)
    is_brief = (table["end_ps"] - table["start_ps"]).to_numpy() <= BRIEF_PS
    has_lane = (lane_of_row[syncs.row] >= 0) & ~is_brief[syncs.sync]
    np.minimum.at(low, call[syncs.sync[has_lane]], lane_of_row[syncs.row[has_lane]])
    np.maximum.at(high, call[syncs.sync[has_lane]], lane_of_row[syncs.row[has_lane]])
    return np.where(low == high, low, -1)[call]


def _codes(column: pd.Series, labels: tuple[str, ...] | list[str]) -> Column:
    """The place of each value in `labels`, -1 where it is none of them."""
    code_of = {str(label): code for code, label in enumerate(labels)}
    return np.array([*(code_of.get(str(name), -1) for name in column.cat.categories), -1])[column.cat.codes.to_numpy()]
