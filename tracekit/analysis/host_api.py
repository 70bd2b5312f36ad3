"""What the host's calls cost: the time in each, the idle time that follows those that wait, and what the host did
in the longest gaps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.analysis.host_activity import dispatchers
from tracekit.analysis.idle import Cause
from tracekit.columns import by_label, distinct, frame
from tracekit.readers.nested import innermost
from tracekit.timeline.syncs import CLOCKS_PS
from tracekit.timeline.timeline import Timeline, begins_inside
from tracekit.vocabulary.host_calls import calls_runtime, copies_synchronously, says_waiting

LARGEST = 20
OPERATORS = "operators of the framework"
"""What a thread did where only its operators are recorded, without their names."""

_IDLE = {"gaps": "int64", "idle_ps": "int64", "host_bound_ps": "int64", "ratio": "Float64"}
CALL_COLUMNS = {
    "call": "str",
    "n": "int64",
    "threads": "int64",
    "total_ps": "int64",
    "median_ps": "int64",
    "p95_ps": "int64",
    "after_launch": "int64",
    **_IDLE,
}
PLACE_COLUMNS = {
    "call": "str",
    "operation": "str",
    "source": "str",
    "n": "int64",
    **_IDLE,
    "device": "str",
    "start_ps": "int64",
    "end_ps": "int64",
}
DEVICE_COLUMNS = {
    "device": "str",
    "gaps": "int64",
    "idle_ps": "int64",
    "median_ps": "int64",
    "longest_ps": "int64",
    "longest_ratio": "Float64",
    "half": "int64",
}
LONGEST_COLUMNS = {
    "device": "str",
    "start_ps": "int64",
    "end_ps": "int64",
    "idle_ps": "int64",
    "ratio": "Float64",
    "thread": "str",
    "doing": "str",
    "doing_ps": "Int64",
    "unrecorded_ps": "Int64",
}
_RECORD = ("host", "process", "thread", "name", "start_ps", "end_ps")
_THREAD = ("host", "process", "thread")
_EDGES = (str(Cause.BEFORE), str(Cause.AFTER))


@dataclass(frozen=True, repr=False)
class HostApi(
    notebook.Result,
    by_call="call n total_ps median_ps p95_ps idle_ps ratio",
    by_device="",
    longest="device idle_ps ratio thread doing doing_ps",
):
    """The host's calls to the devices' runtimes, and the idle time between the devices' first and last work.

    `by_call` (CALL_COLUMNS), the longest `total_ps` first: the durations of calls, which overlap where calls stand in
    calls or on several threads; `after_launch` counts the launches, of `launches` that started work, that this call
    follows next on their thread; `gaps` the idle intervals of devices that began in it, on the thread that launched
    what ended them, with all their time, that of them that is host-bound, and the `ratio` of the devices' windows.
    `places` (PLACE_COLUMNS): the same of calls with gaps, by the framework's operation, or else the innermost span,
    around them and its source line, with the longest gap. `by_device` (DEVICE_COLUMNS): how the idle time is spread:
    `half` of it lies in so many of the longest gaps. `longest` (LONGEST_COLUMNS): the longest, `ratio` of the idle time
    of their device, and what the launching thread was `doing` the longest; `unrecorded_ps` outside any record.
    `lacking`: why there is nothing, else "".
    """

    by_call: pd.DataFrame
    places: pd.DataFrame
    by_device: pd.DataFrame
    longest: pd.DataFrame
    launches: int
    lacking: str = ""


@dataclass(frozen=True)
class Gaps:
    """The k idle intervals between the work of devices, each column (k,): its number in the pieces (`interval`), which
    `device` of the `devices`, from `begin` to `end`, idle for `length` inside the windows, `host_bound` of it; and the
    call that launched what ended it, a place in the launches of the trace, or -1."""

    devices: Sequence[str]
    interval: NDArray[np.int64]
    device: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    length: NDArray[np.int64]
    host_bound: NDArray[np.int64]
    launch: NDArray[np.int64]


def host_api(timeline: Timeline, gaps: pd.DataFrame) -> HostApi:
    """What the host's calls cost; `gaps` are the idle pieces of the timeline (GAP_COLUMNS of analysis.idle)."""
    between = idle_intervals(timeline, gaps)
    waits = waiting_calls(timeline)
    fell_idle_in = call_of_gaps(timeline, between, waits)
    calls = _calls(timeline, waits)
    rows = timeline.rows
    window_ps = sum(
        iv.total(timeline.unions.windows[rows.clocks[device]]) for device, placed in enumerate(rows.placed) if placed
    )
    launches = _plain(timeline.trace.launches.iloc[np.unique(timeline.launch[timeline.launch >= 0])])
    launches = launches[~launches["name"].map(lambda name: copies_synchronously(str(name))).to_numpy(bool)]
    by_call = _by_call(calls, _after_launch(launches, waits), waits, (between, fell_idle_in), window_ps)
    nothing = not len(calls) and not len(between.begin)
    return HostApi(
        by_call,
        _places(timeline, waits, (between, fell_idle_in), window_ps),
        _by_device(between),
        _longest(timeline, between),
        len(launches),
        "The trace holds neither calls of the host to its devices nor idle time between their work." if nothing else "",
    )


def idle_intervals(timeline: Timeline, gaps: pd.DataFrame) -> Gaps:
    """The idle intervals that the pieces `gaps` make up; not what is before a device's first work or after its last."""
    inner = gaps[~gaps["cause"].isin(_EDGES).to_numpy(bool) & gaps["next"].notna().to_numpy(bool)]
    start, end = inner["start_ps"].to_numpy(), inner["end_ps"].to_numpy()
    interval = inner["interval"].to_numpy()
    # The pieces of an interval stand together, by start.
    heads = np.flatnonzero(np.append(True, np.diff(interval) != 0)[: len(interval)])
    tails = np.append(heads[1:], len(interval))[: len(heads)] - 1
    of_host = np.where((inner["cause"] == str(Cause.HOST)).to_numpy(bool), end - start, 0)
    launch_of_event = np.full(len(timeline.rows.events), -1)
    launch_of_event[timeline.rows.at] = timeline.timed_launch
    return Gaps(
        [str(name) for name in gaps["device"].cat.categories],
        interval[heads],
        inner["device"].cat.codes.to_numpy()[heads].astype(np.int64),
        start[heads],
        end[tails],
        np.add.reduceat(end - start, heads) if len(heads) else heads,
        np.add.reduceat(of_host, heads) if len(heads) else heads,
        launch_of_event[inner["next"].to_numpy(np.int64)[heads]],
    )


def waiting_calls(timeline: Timeline) -> pd.DataFrame:
    """The calls and spans in which a thread of the host waits: _RECORD, and `is_call` for those of a runtime; `op` is
    the operation around them where the trace says it."""
    trace = timeline.trace
    syncs, launches, spans = trace.syncs, trace.launches, timeline.spans
    synchronous = launches[by_label(launches["name"].array, copies_synchronously).astype(bool)]
    tables = (
        (syncs[syncs["device"].isna().to_numpy(bool)], True),
        (synchronous, True),
        (spans[by_label(spans["name"].array, says_waiting).astype(bool)], False),
    )
    return pd.concat([_plain(table).assign(is_call=is_call) for table, is_call in tables], ignore_index=True)


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    """The columns of a record of a thread, texts as objects."""
    texts = {name: table[name].astype(object) for name in _RECORD[:4]}
    return pd.DataFrame({**texts, **{name: table[name] for name in _RECORD[4:]}})


def call_of_gaps(timeline: Timeline, gaps: Gaps, waits: pd.DataFrame) -> NDArray[np.int64]:
    """The wait, a place in `waits`, in which each gap began that work ended which was launched later: the innermost of
    the thread that launched it, or else of the one that calls the host's programs.

    A wait lasts until CLOCKS_PS after its end, by which the clocks of host and device may be apart. -1 where there is
    none, and where the work had been launched before the gap: no wait held it up.
    """
    place = np.full(len(gaps.begin), -1)
    if not len(waits):
        return place
    launch_start = np.append(timeline.trace.launches["start_ps"].to_numpy(), 0)
    known = np.flatnonzero((gaps.launch >= 0) & (launch_start[gaps.launch] > gaps.begin))
    start, end = waits["start_ps"].to_numpy(), waits["end_ps"].to_numpy() + CLOCKS_PS
    for threads in reversed(launching_threads(timeline, gaps.launch[known])):
        of_gap, of_wait = thread_numbers(threads, waits)
        found = innermost(gaps.begin[known], of_gap, start, end, of_wait)
        place[known] = np.where(found >= 0, found, place[known])
    return place


def launching_threads(timeline: Timeline, launch: NDArray[np.int64]) -> list[pd.DataFrame]:
    """The threads (_THREAD) that made calls, places in the launches of the trace, and those that call the programs of
    their hosts: XLA's pools launch what such a thread dispatched."""
    own = _plain(timeline.trace.launches.iloc[launch])[list(_THREAD)].reset_index(drop=True)
    callers = dispatchers(timeline.trace.spans)
    both = {host: (thread[0], thread[1] or None, thread[2]) for host, thread in callers.items()}
    of_hosts = [both.get(str(host), (host, None, None)) for host in own["host"]]
    return [own, pd.DataFrame(of_hosts, columns=list(_THREAD), dtype=object)]


def thread_numbers(*tables: pd.DataFrame) -> list[NDArray[np.int64]]:
    """The number of the thread of each row of the tables; the same thread has one number in all."""
    columns = [
        pd.factorize(pd.concat([table[name].astype(object) for table in tables], ignore_index=True))[0]
        for name in _THREAD
    ]
    thread, _ = distinct(*columns)
    return np.split(thread, np.cumsum([len(table) for table in tables])[:-1])


def _calls(timeline: Timeline, waits: pd.DataFrame) -> pd.DataFrame:
    """The calls of the runtimes, and the waits among the spans, inside the windows; each stands there once."""
    trace = timeline.trace
    tables = [trace.launches, timeline.spans]
    calls = [_plain(table[by_label(table["name"].array, calls_runtime).astype(bool)]) for table in tables]
    table = pd.concat([*calls, waits[list(_RECORD)]], ignore_index=True)
    table = table.drop_duplicates(["host", "process", "thread", "name", "start_ps"], ignore_index=True)
    return table[_begins_inside(timeline, table)]


def _begins_inside(timeline: Timeline, table: pd.DataFrame) -> NDArray[np.bool_]:
    """Which records begin in the windows of a timeline; all, where all counts."""
    if timeline.windows is None:
        return np.ones(len(table), bool)
    clock = table["host"].map(lambda host: timeline.clock_of_host.get(str(host), "")).to_numpy(object)
    return begins_inside(table["start_ps"].to_numpy(), clock, timeline.unions.windows)


def _after_launch(launches: pd.DataFrame, waits: pd.DataFrame) -> dict[str, int]:
    """How many of the launches each waiting call follows next on their thread."""
    calls = waits[waits["is_call"].to_numpy(bool)]
    thread = np.concatenate(thread_numbers(launches, calls))
    start = np.concatenate([launches["start_ps"], calls["start_ps"]])
    names = np.concatenate([launches["name"], calls["name"]]).astype(object)
    is_wait = np.arange(len(start)) >= len(launches)
    order = np.lexsort((is_wait, start, thread))
    follows = ~is_wait[order][:-1] & is_wait[order][1:] & (np.diff(thread[order]) == 0)
    counts: dict[str, int] = {}
    for name in names[order[1:][follows]].tolist():
        counts[str(name)] = counts.get(str(name), 0) + 1
    return counts


def _by_call(
    calls: pd.DataFrame,
    after_launch: dict[str, int],
    waits: pd.DataFrame,
    idle: tuple[Gaps, NDArray[np.int64]],
    window_ps: int,
) -> pd.DataFrame:
    gaps, place = idle
    begun = np.flatnonzero(place >= 0)
    of_wait = waits["name"].to_numpy(object)[place[begun]]
    rows: list[tuple[Any, ...]] = []
    for name, table in calls.groupby("name", sort=False):
        length = (table["end_ps"] - table["start_ps"]).to_numpy(np.int64)
        own = begun[of_wait == name]
        rows.append(
            (
                str(name),
                len(table),
                len(table[list(_THREAD)].drop_duplicates()),
                iv.sum_exactly(length),
                *iv.quantiles(length, (50, 95)),
                after_launch.get(str(name), 0),
                *_idle(gaps, own, window_ps),
            )
        )
    rows.sort(key=lambda row: (-row[3], row[0]))
    return frame(CALL_COLUMNS, rows)


def _idle(gaps: Gaps, own: NDArray[np.int64], window_ps: int) -> tuple[int, int, int, float | None]:
    """How many gaps, their time, that which is host-bound, and the share of the devices' windows."""
    idle_ps = iv.sum_exactly(gaps.length[own])
    return len(own), idle_ps, iv.sum_exactly(gaps.host_bound[own]), idle_ps / window_ps if window_ps else None


def _places(
    timeline: Timeline, waits: pd.DataFrame, idle: tuple[Gaps, NDArray[np.int64]], window_ps: int
) -> pd.DataFrame:
    """The waits in which gaps began, by what is around them."""
    gaps, place = idle
    begun = np.flatnonzero(place >= 0)
    names = set(waits["name"].to_numpy(object)[place[begun]].tolist())
    counts_here = _begins_inside(timeline, waits)
    counts_here[place[begun]] = True
    at = np.flatnonzero(waits["name"].isin(names).to_numpy(bool) & counts_here)
    operation, source = _around(timeline, waits, at)
    name = waits["name"].to_numpy(object)
    keys = {int(wait): (name[wait], operation[number], source[number]) for number, wait in enumerate(at.tolist())}
    counts: dict[tuple[Any, ...], int] = {}
    for key in keys.values():
        counts[key] = counts.get(key, 0) + 1
    of_key: dict[tuple[Any, ...], list[int]] = {}
    for gap in begun.tolist():
        of_key.setdefault(keys[int(place[gap])], []).append(gap)
    rows = []
    for key, own in of_key.items():
        longest = max(own, key=lambda gap: int(gaps.length[gap]))
        where = (gaps.devices[gaps.device[longest]], int(gaps.begin[longest]), int(gaps.end[longest]))
        rows.append((*key, counts[key], *_idle(gaps, np.array(own), window_ps), *where))
    rows.sort(key=lambda row: -row[5])
    return frame(PLACE_COLUMNS, rows)


def _around(
    timeline: Timeline, waits: pd.DataFrame, at: NDArray[np.int64]
) -> tuple[list[str | None], list[str | None]]:
    """The operation around each of the waits `at`, and its source line, None where nothing tells them: the innermost
    span of its thread that is neither a step nor a call of a runtime nor says that it waits."""
    spans = timeline.spans
    is_other = by_label(spans["name"].array, lambda name: not (calls_runtime(name) or says_waiting(name))).astype(bool)
    spans = spans[is_other & spans["step"].isna().to_numpy(bool) & spans["tracekit"].isna().to_numpy(bool)]
    of_wait, of_span = thread_numbers(waits.iloc[at], spans)
    start = waits["start_ps"].to_numpy()[at]
    place = innermost(start, of_wait, spans["start_ps"].to_numpy(), spans["end_ps"].to_numpy(), of_span)
    names = spans["name"].astype(object).to_numpy()
    return [str(names[span]) if span >= 0 else None for span in place.tolist()], [None] * len(at)


def _by_device(gaps: Gaps) -> pd.DataFrame:
    rows = []
    for device, name in enumerate(gaps.devices):
        length = np.sort(gaps.length[gaps.device == device])[::-1]
        if len(length):
            idle_ps = iv.sum_exactly(length)
            half = int(np.searchsorted(2 * np.cumsum(length), idle_ps)) + 1
            longest = int(length[0])
            rows.append((name, len(length), idle_ps, iv.quantiles(length, (50,))[0], longest, longest / idle_ps, half))
    return frame(DEVICE_COLUMNS, rows)


def _longest(timeline: Timeline, gaps: Gaps) -> pd.DataFrame:
    """The LARGEST longest gaps, and what their launching threads did in them."""
    order = np.argsort(-gaps.length, kind="stable")[:LARGEST]
    idle_of = [iv.sum_exactly(gaps.length[gaps.device == device]) for device in range(len(gaps.devices))]
    known = order[gaps.launch[order] >= 0]
    doing = dict(zip(known.tolist(), _doing(timeline, gaps, known), strict=True)) if len(known) else {}
    rows = []
    for gap in order.tolist():
        device, length = int(gaps.device[gap]), int(gaps.length[gap])
        where = (gaps.devices[device], int(gaps.begin[gap]), int(gaps.end[gap]))
        rows.append((*where, length, length / idle_of[device], *doing.get(gap, (None, None, None, None))))
    return frame(LONGEST_COLUMNS, rows)


def _doing(timeline: Timeline, gaps: Gaps, places: NDArray[np.int64]) -> list[tuple[str, str | None, int, int]]:
    """The thread that launched the end of each gap, or that called the program, if one did; what it did longest in it,
    for how long, and how long nothing tells.

    The innermost record of the thread counts: its calls and spans, but for annotations of steps; and else whether it
    ran operators.
    """
    trace, spans = timeline.trace, timeline.spans
    spans = spans[spans["step"].isna().to_numpy(bool)]
    waits = trace.syncs[trace.syncs["device"].isna().to_numpy(bool)]
    records = pd.concat([_plain(trace.launches), _plain(waits), _plain(spans)], ignore_index=True)
    work = trace.host_work
    own, callers = launching_threads(timeline, gaps.launch[places])
    threads = callers.where(callers["thread"].notna(), own)
    of_gap, of_record, of_work = thread_numbers(threads, records, work)
    start, end = records["start_ps"].to_numpy(), records["end_ps"].to_numpy()
    work_start, work_end = work["start_ps"].to_numpy(), work["end_ps"].to_numpy()
    names = records["name"].to_numpy(object)
    results: list[tuple[str, str | None, int, int]] = []
    for number, (thread, gap) in enumerate(zip(of_gap.tolist(), places.tolist(), strict=True)):
        low, high = int(gaps.begin[gap]), int(gaps.end[gap])
        inside = np.flatnonzero((of_record == thread) & (start < high) & (end > low))
        ran = np.flatnonzero((of_work == thread) & (work_start < high) & (work_end > low))
        points = np.concatenate([[low, high], start[inside], end[inside], work_start[ran], work_end[ran]])
        cuts = np.unique(np.clip(points, low, high))
        one, of_inside, of_ran = (np.zeros(size, np.int64) for size in (len(cuts) - 1, len(inside), len(ran)))
        record = innermost(cuts[:-1], one, start[inside], end[inside], of_inside)
        operator = innermost(cuts[:-1], one, work_start[ran], work_end[ran], of_ran)
        times: dict[str | None, int] = {}
        for length, at, is_work in zip(np.diff(cuts).tolist(), record.tolist(), (operator >= 0).tolist(), strict=True):
            name = str(names[inside[at]]) if at >= 0 else OPERATORS if is_work else None
            times[name] = times.get(name, 0) + length
        unrecorded = times.pop(None, 0)
        most = max(times, key=lambda name: times[name], default=None)
        results.append((str(threads["thread"].iat[number]), most, times.get(most, 0), unrecorded))
    return results
