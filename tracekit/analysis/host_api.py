"""What the host's calls cost: the time in each, the idle time that follows those that wait, and what the host did
in the longest gaps."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.analysis.blocking_copies import blocking_copies, repeated_calls
from tracekit.analysis.host_records import (
    RECORD,
    around,
    joined_thread_numbers,
    plain,
    text_numbers,
    thread_numbers,
)
from tracekit.analysis.idle_gaps import Gaps, idle_intervals, launching_threads, longest_gaps
from tracekit.columns import by_label, distinct, frame, order_by, places_of, rising
from tracekit.readers.nested import innermost
from tracekit.timeline.syncs import CLOCKS_PS
from tracekit.timeline.timeline import Timeline, begins_inside
from tracekit.vocabulary.host_calls import calls_runtime, copies_synchronously, says_waiting

PLACE = ("operation", "within", "source")
_IDLE = {"gaps": "int64", "idle_ps": "int64", "host_bound_ps": "int64", "ratio": "Float64"}
CALL_COLUMNS = {
    "call": "str",
    "n": "int64",
    "threads": "int64",
    "total_ps": "int64",
    "median_ps": "int64",
    "p95_ps": "int64",
    "waits": "int64",
    "waits_ps": "int64",
    "after_launch": "int64",
    **_IDLE,
    "unexplained_ps": "Int64",
    "cause": "str",
}
PLACE_COLUMNS = {
    "call": "str",
    **dict.fromkeys(PLACE, "str"),
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


@dataclass(frozen=True, repr=False)
class HostApi(
    notebook.Result,
    by_call="call n total_ps median_ps p95_ps idle_ps ratio",
    by_device="",
    longest="device idle_ps ratio thread doing doing_ps",
):
    """The host's calls to the devices' runtimes, and the idle time between the devices' first and last work.

    `by_call` (CALL_COLUMNS), the longest `total_ps` first: the durations of calls, which overlap where calls stand in
    calls or on several threads, and how many of them are `waits`; `after_launch` counts the launches, of `launches`
    that started work, that this call follows next on their thread; `gaps` the idle intervals of devices that began in
    it, on the thread that launched what ended them, with all their time, that of them that is host-bound, the
    `ratio` of the devices' windows, and that of them which is unexplained; `cause` that of half of their time or more.
    `places` (PLACE_COLUMNS): the same of calls with gaps, by what stands around them, with the longest gap: the
    outermost operator of a framework as `operation` and the innermost span as `within`, or that span as `operation`
    where there is no operator; and the `source` line. `by_device` (DEVICE_COLUMNS): how the idle time is spread: `half`
    of it lies in so many of the longest gaps. `longest` (LONGEST_COLUMNS): the longest, `ratio` of the idle time of
    their device, `host_bound_ps` of them, and how long after their begin what ended them was launched, below 0 for
    before; what the `thread` that launched it was `doing`: the deepest name that stands around half of the gap, for
    `doing_ps`, with the `source` line; `unrecorded_ps` is outside any record. Of what had been launched before, the
    thread is that of which most is recorded. `lacking`: why there is nothing, else "".
    """

    by_call: pd.DataFrame
    places: pd.DataFrame
    by_device: pd.DataFrame
    longest: pd.DataFrame
    launches: int
    lacking: str = ""


def host_api(timeline: Timeline, gaps: pd.DataFrame) -> HostApi:
    """What the host's calls cost; `gaps` are the idle pieces of the timeline (GAP_COLUMNS of analysis.idle)."""
    waits = waiting_calls(timeline)
    # What these need is gone before the columns of the gaps are there.
    calls = _calls(timeline, waits)
    after_launch, launched = _after_launch(timeline, waits)
    between = idle_intervals(timeline, gaps)
    fell_idle_in = call_of_gaps(timeline, between, waits)
    rows = timeline.rows
    window_ps = sum(
        iv.total(timeline.unions.windows[rows.clocks[device]]) for device, placed in enumerate(rows.placed) if placed
    )
    by_call = _by_call(calls, after_launch, waits, (between, fell_idle_in), window_ps)
    nothing = not len(calls) and not len(between.begin)
    return HostApi(
        by_call,
        _places(timeline, waits, (between, fell_idle_in), window_ps),
        _by_device(between),
        longest_gaps(timeline, between),
        launched,
        "The trace holds neither calls of the host to its devices nor idle time between their work." if nothing else "",
    )


def waiting_calls(timeline: Timeline) -> pd.DataFrame:
    """The calls and spans in which a thread of the host waits: RECORD, `is_call` for those of a runtime, and the source
    line where the trace tells that."""
    trace, spans = timeline.trace, timeline.spans
    syncs = trace.syncs[trace.syncs["device"].isna().to_numpy(bool)]
    copies = blocking_copies(timeline)
    tables = (
        (syncs, True, syncs["source"].astype(object)),
        (trace.launches.iloc[copies], True, _sources(timeline, copies)),
        (spans[by_label(spans["name"].array, says_waiting).astype(bool)], False, None),
    )
    parts = [plain(table).assign(is_call=is_call, source=source) for table, is_call, source in tables]
    return pd.concat([part.astype({"source": object}) for part in parts], ignore_index=True)


def _sources(timeline: Timeline, calls: NDArray[np.int64]) -> NDArray[np.object_]:
    """The source line of the work that each call launched, None where it is not known."""
    whole = timeline.whole
    linked = np.flatnonzero(np.isin(whole.launch, calls))
    op = whole.rows.events["op"].to_numpy(np.int64, na_value=-1)[whole.rows.at[linked]]
    linked, op = linked[op >= 0], op[op >= 0]
    source = np.full(len(timeline.trace.launches), None, object)
    source[whole.launch[linked]] = timeline.trace.ops["source"].astype(object).to_numpy()[op]
    return source[calls]


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
    which, tables = launching_threads(timeline, gaps.launch[known])
    for threads in reversed(tables):
        of_thread, of_wait = thread_numbers(threads, waits)
        found = innermost(gaps.begin[known], of_thread[which], start, end, of_wait)
        place[known] = np.where(found >= 0, found, place[known])
    return place


class _Call(NamedTuple):
    """The calls of one name: their number, on how many threads, how long they took, and those of them that waited."""

    name: str
    n: int
    threads: int
    total_ps: int
    median_ps: int
    p95_ps: int
    waits: int
    waits_ps: int


def _calls(timeline: Timeline, waits: pd.DataFrame) -> list[_Call]:
    """The calls of the runtimes, and the waits among the spans, inside the windows, each counted once."""
    launches, spans = timeline.trace.launches, timeline.spans
    is_call = [by_label(table["name"].array, calls_runtime).astype(bool) for table in (launches, spans)]
    is_call[0] &= ~repeated_calls(timeline)
    # As a rule all launches are calls, and need no copy.
    tables = [
        table if mask.all() else table[list(RECORD)][mask]
        for table, mask in zip((launches, spans), is_call, strict=True)
    ]
    # As numbers, few of which are held at once: texts of a million calls would take most of the memory of a report.
    key, (name, names) = joined_thread_numbers(*tables, waits), text_numbers("name", *tables, waits)
    key *= len(names) + 1
    key += name
    key = key.astype(np.min_scalar_type(-int(key.max(initial=0)) - 1))
    start = np.concatenate([table["start_ps"].to_numpy(np.int64) for table in (*tables, waits)])
    length = np.concatenate([(table["end_ps"] - table["start_ps"]).to_numpy(np.int64) for table in (*tables, waits)])
    counts = np.concatenate([_begins_inside(timeline, table) for table in (*tables, waits)])
    del tables
    # Few names are those of waits.
    likely = np.flatnonzero(np.isin(name, np.unique(name[len(name) - len(waits) :])))
    same, _ = distinct(key[likely], start[likely], length[likely])
    is_wait = np.zeros(len(key), bool)
    is_wait[likely] = np.isin(same, same[len(same) - len(waits) :])
    counts[_repeated(key, start)] = False
    del start
    name[~counts] = -1
    calls = []
    for text, at in zip(names, places_of(name.astype(np.min_scalar_type(-len(names) - 1)), len(names)), strict=True):
        if len(at):
            own, waiting = length[at], length[at[is_wait[at]]]
            median_ps, p95_ps = iv.quantiles(own, (50, 95))
            calls.append(
                _Call(
                    name=text,
                    n=len(at),
                    threads=len(rising(key[at])),
                    total_ps=iv.sum_exactly(own),
                    median_ps=median_ps,
                    p95_ps=p95_ps,
                    waits=len(waiting),
                    waits_ps=iv.sum_exactly(waiting),
                )
            )
    return calls


def _repeated(key: NDArray[np.int64], start: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of the records that another before them, of the same key and start (n,), repeats."""
    order = order_by(key, start)
    is_repeated = np.ones(max(len(order) - 1, 0), bool)
    for column in (key, start):  # one after the other, as each is sorted into memory of its own
        in_order = column[order]
        is_repeated &= in_order[1:] == in_order[:-1]
    return np.asarray(order[1:][is_repeated])


def _begins_inside(timeline: Timeline, table: pd.DataFrame) -> NDArray[np.bool_]:
    """Which records begin in the windows of a timeline; all, where all counts."""
    if timeline.windows is None:
        return np.ones(len(table), bool)
    hosts = (
        table["host"].array if isinstance(table["host"].dtype, pd.CategoricalDtype) else pd.Categorical(table["host"])
    )
    clock = by_label(hosts, lambda host: timeline.clock_of_host.get(host, ""), "").astype(object)
    return begins_inside(table["start_ps"].to_numpy(), clock, timeline.unions.windows)


def launches_ahead(timeline: Timeline) -> NDArray[np.bool_]:
    """Which launches of the trace started work of the timeline, and wait for none."""
    ahead: NDArray[np.bool_] = np.zeros(len(timeline.trace.launches), bool)
    ahead[timeline.launch[timeline.launch >= 0]] = True
    ahead[blocking_copies(timeline)] = False
    ahead &= ~by_label(timeline.trace.launches["name"].array, copies_synchronously).astype(bool)
    return ahead


def _after_launch(timeline: Timeline, waits: pd.DataFrame) -> tuple[dict[str, int], int]:
    """How many of the launches that started work, and wait for none, each waiting call follows next on their thread;
    and how many they are."""
    launching, launches = launches_ahead(timeline), timeline.trace.launches
    launches = launches if launching.all() else launches[list(RECORD)][launching]
    calls = waits[waits["is_call"].to_numpy(bool)]
    of_launch, of_call = thread_numbers(launches, calls)
    launched_at, called_at = launches["start_ps"].to_numpy(), calls["start_ps"].to_numpy()
    follows, threads = np.zeros(len(calls), bool), int(of_call.max(initial=-1)) + 1
    for launched, called in zip(places_of(of_launch, threads), places_of(of_call, threads), strict=True):
        called = called[np.argsort(called_at[called], kind="stable")]
        following = np.searchsorted(called_at[called], launched_at[launched])  # launches before waits that begin then
        follows[called[following[following < len(called)]]] = True
    counts: dict[str, int] = {}
    for name in calls["name"].to_numpy(object)[follows].tolist():
        counts[str(name)] = counts.get(str(name), 0) + 1
    return counts, len(launches)


def _by_call(
    calls: list[_Call],
    after_launch: dict[str, int],
    waits: pd.DataFrame,
    idle: tuple[Gaps, NDArray[np.int64]],
    window_ps: int,
) -> pd.DataFrame:
    gaps, place = idle
    begun = np.flatnonzero(place >= 0)
    of_wait = waits["name"].to_numpy(object)[place[begun]]
    rows: list[tuple[Any, ...]] = []
    for call in sorted(calls, key=lambda call: (-call.total_ps, call.name)):
        own = begun[of_wait == call.name]
        unexplained_ps, cause = iv.sum_exactly(gaps.unexplained[own]), gaps.main_cause(own)
        idle_of_call = (*_idle(gaps, own, window_ps), unexplained_ps, cause)
        rows.append((*call, after_launch.get(call.name, 0), *idle_of_call))
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
    place_of = around(timeline, waits.iloc[at])
    source = waits["source"].to_numpy(object)[at]
    place_of["source"] = np.where(pd.isna(source), place_of["source"], source)
    texts = zip(waits["name"].to_numpy(object)[at], *(place_of[column] for column in PLACE), strict=True)
    keys = dict(zip(at.tolist(), texts, strict=True))
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
    rows.sort(key=lambda row: -row[len(PLACE) + 3])
    return frame(PLACE_COLUMNS, rows)


def _by_device(gaps: Gaps) -> pd.DataFrame:
    rows = []
    for name, places in zip(gaps.devices, places_of(gaps.device, len(gaps.devices)), strict=True):
        length = np.sort(gaps.length[places])[::-1]
        if len(length):
            idle_ps = iv.sum_exactly(length)
            half = int(np.searchsorted(2 * np.cumsum(length), idle_ps)) + 1
            longest = int(length[0])
            rows.append((name, len(length), idle_ps, iv.quantiles(length, (50,))[0], longest, longest / idle_ps, half))
    return frame(DEVICE_COLUMNS, rows)
