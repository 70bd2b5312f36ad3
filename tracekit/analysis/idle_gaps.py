"""The idle intervals between the work of devices, which threads ended them, and what the host did in the longest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.analysis.host_activity import dispatchers
from tracekit.analysis.host_records import THREAD, plain, thread_numbers
from tracekit.analysis.idle import CAUSE_CODE, CAUSES, EDGES, Cause
from tracekit.columns import by_label, distinct, frame, largest, places_of
from tracekit.intervals import Intervals
from tracekit.timeline.timeline import Timeline
from tracekit.vocabulary.host_calls import calls_runtime, frame_line, frame_of_jax, is_frame, of_any_call, says_waiting

LARGEST = 20
PYTHON = "Python"
"""What a thread ran where only that is recorded: frames of Python, without their names."""

LONGEST_COLUMNS = {
    "device": "str",
    "start_ps": "int64",
    "end_ps": "int64",
    "idle_ps": "int64",
    "ratio": "Float64",
    "host_bound_ps": "int64",
    "launched_ps": "Int64",
    "thread": "str",
    "doing": "str",
    "source": "str",
    "doing_ps": "Int64",
    "unrecorded_ps": "Int64",
}
_EDGES, _CAUSES = tuple(map(str, EDGES)), list(map(str, CAUSES))
# A name tells what a thread did in a gap if it stood around such a share of it, and a cause why devices were idle.
_MOST = 0.5


@dataclass(frozen=True)
class Gaps:
    """The k idle intervals between the work of devices, each column (k,): its number in the pieces (`interval`), which
    `device` of the `devices`, from `begin` to `end`, idle for `length` inside the windows, `host_bound` and
    `unexplained` of it; the call that launched what ended it, a place in the launches of the trace, or -1. The
    `pieces` (p, 2) of all are inside the windows, each for a `cause` (p,), a place in CAUSES; those of an interval
    stand together, from `first_piece` (k,) on."""

    devices: Sequence[str]
    interval: NDArray[np.int64]
    device: NDArray[np.integer[Any]]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    length: NDArray[np.int64]
    host_bound: NDArray[np.int64]
    unexplained: NDArray[np.int64]
    launch: NDArray[np.int64]
    pieces: Intervals
    cause: NDArray[np.integer[Any]]
    first_piece: NDArray[np.int64]

    def main_cause(self, gaps: NDArray[np.int64]) -> str | None:
        """The cause of at least half of the time of these idle intervals together, None without one."""
        # Of these alone, as it is asked for each name of a call.
        is_last = gaps == len(self.first_piece) - 1
        end = np.where(is_last, len(self.pieces), self.first_piece[np.where(is_last, gaps, gaps + 1)])
        at = iv.ranges(self.first_piece[gaps], end - self.first_piece[gaps])
        times = iv.sums(self.pieces[at, 1] - self.pieces[at, 0], self.cause[at], len(CAUSES))
        most = int(np.argmax(times))
        return str(CAUSES[most]) if times[most] and times[most] >= _MOST * sum(times) else None

    def inside(self, gap: int) -> Intervals:
        """The parts of an idle interval that are inside the windows, by start."""
        first, *rest = self.first_piece[gap : gap + 2].tolist()
        return self.pieces[first : rest[0] if rest else len(self.pieces)]


def idle_intervals(timeline: Timeline, gaps: pd.DataFrame) -> Gaps:
    """The idle intervals that the pieces `gaps` make up; not what is before a device's first work or after its last."""
    inner = np.flatnonzero(~gaps["cause"].isin(_EDGES).to_numpy(bool) & gaps["next"].notna().to_numpy(bool))
    pieces = iv.intervals(gaps["start_ps"].to_numpy()[inner], gaps["end_ps"].to_numpy()[inner])
    length = pieces[:, 1] - pieces[:, 0]
    # The pieces of an interval stand together, by start.
    interval = gaps["interval"].to_numpy()[inner]
    heads = np.flatnonzero(np.append(True, interval[1:] != interval[:-1])[: len(interval)])
    tails = np.append(heads[1:], len(interval))[: len(heads)] - 1
    places = inner[heads]
    # As the analysis made them, the categories are CAUSES in their order.
    cause = gaps["cause"].cat.set_categories(_CAUSES).cat.codes.to_numpy()[inner]

    def idle_for(chosen: Cause) -> NDArray[np.int64]:
        of_cause = cause == CAUSE_CODE[chosen]
        return np.add.reduceat(np.where(of_cause, length, 0), heads) if len(heads) else heads

    launch_of_event = np.full(len(timeline.rows.events), -1, np.int32)
    launch_of_event[timeline.rows.at] = timeline.timed_launch
    return Gaps(
        [str(name) for name in gaps["device"].cat.categories],
        interval[heads],
        gaps["device"].cat.codes.to_numpy()[places],
        pieces[heads, 0],
        pieces[tails, 1],
        np.add.reduceat(length, heads) if len(heads) else heads,
        idle_for(Cause.HOST),
        idle_for(Cause.UNEXPLAINED),
        launch_of_event[gaps["next"].array[places].to_numpy(np.int64)].astype(np.int64),
        pieces,
        cause,
        heads,
    )


def launching_threads(
    timeline: Timeline, launch: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[pd.DataFrame, pd.DataFrame]]:
    """The threads (THREAD) that made calls, places (k,) in the launches of the trace, each thread once, and beside them
    those that call the programs of their hosts: XLA's pools launch what such a thread dispatched. Before both, (k,),
    which of them each call is of."""
    calls = timeline.trace.launches
    which, first = distinct(*(calls[name].cat.codes.to_numpy()[launch] for name in THREAD))
    own = plain(calls.iloc[launch[first]])[list(THREAD)].reset_index(drop=True)
    callers = dispatchers(timeline.trace.spans)
    both = {host: (thread[0], thread[1] or None, thread[2]) for host, thread in callers.items()}
    of_hosts = [both.get(str(host), (host, None, None)) for host in own["host"]]
    return which, (own, pd.DataFrame(of_hosts, columns=list(THREAD), dtype=object))


def longest_gaps(timeline: Timeline, gaps: Gaps) -> pd.DataFrame:
    """The LARGEST longest gaps (LONGEST_COLUMNS), and what the host did in them."""
    order = largest(gaps.length, LARGEST)
    idle_of = iv.sums(gaps.length, gaps.device, len(gaps.devices))
    launched = np.append(timeline.trace.launches["start_ps"].to_numpy(), 0)[gaps.launch]
    doing = _doing(timeline, gaps, order, (gaps.launch >= 0) & (launched > gaps.begin))
    rows = []
    for gap, did in zip(order.tolist(), doing, strict=True):
        device, length = int(gaps.device[gap]), int(gaps.length[gap])
        where = (gaps.devices[device], int(gaps.begin[gap]), int(gaps.end[gap]))
        after = int(launched[gap] - gaps.begin[gap]) if gaps.launch[gap] >= 0 else None
        rows.append((*where, length, length / idle_of[device], int(gaps.host_bound[gap]), after, *did))
    return frame(LONGEST_COLUMNS, rows)


# The thread of a gap, what it did, its source line, for how long, and how long nothing is recorded.
_Did = tuple[str | None, str | None, str | None, int | None, int | None]


def _doing(
    timeline: Timeline, gaps: Gaps, places: NDArray[np.int64], is_launched_inside: NDArray[np.bool_]
) -> list[_Did]:
    """What the host did in each of the gaps `places`.

    The thread is that which calls the programs, or else launched the end of the gap, if it did so inside of the gap.
    Of what had been launched before, or by no known call, it is the one of its host of which most is recorded.
    """
    records = _records(timeline, gaps, places)
    if not len(places) or not len(records):
        return [(None,) * 5 for _ in places]
    known = np.flatnonzero(gaps.launch[places] >= 0)
    threads = pd.DataFrame(None, index=range(len(places)), columns=list(THREAD), dtype=object)
    which, (own, callers) = launching_threads(timeline, gaps.launch[places[known]])
    threads.iloc[known] = callers.where(callers["thread"].notna(), own).iloc[which]
    results: list[_Did] = []
    of_gap, of_record = thread_numbers(threads, records)
    start, end = records["start_ps"].to_numpy(), records["end_ps"].to_numpy()
    hosts = records["host"].to_numpy(object)
    for number, gap in enumerate(places.tolist()):
        low, high = int(gaps.begin[gap]), int(gaps.end[gap])
        inside = np.flatnonzero((start < high) & (end > low))
        if is_launched_inside[gap]:
            thread, name = int(of_gap[number]), str(threads["thread"].iat[number])
        else:
            inside = inside[hosts[inside] == timeline.rows.hosts[int(gaps.device[gap])]]
            if not len(inside):
                results.append((None,) * 5)
                continue
            thread = _busiest(of_record[inside], iv.intervals(start[inside], end[inside]), gaps.inside(gap))
            name = str(records["thread"].iat[inside[of_record[inside] == thread][0]])
        results.append((name, *_did(records.iloc[inside[of_record[inside] == thread]], gaps.inside(gap))))
    return results


def _records(timeline: Timeline, gaps: Gaps, places: NDArray[np.int64]) -> pd.DataFrame:
    """What the host's threads are recorded to have done in the gaps `places` (RECORD), by names that calls share; not
    the annotations of steps and phases, which are marks."""
    trace, spans = timeline.trace, timeline.spans
    is_mark = spans["step"].notna() | spans["tracekit"].notna()
    tables = [(trace.spans, ~is_mark), (trace.host_work, True), (trace.launches, True)]
    parts = []
    for table, counts in [*tables, (trace.syncs, trace.syncs["device"].isna())]:
        start, end = table["start_ps"].to_numpy(), table["end_ps"].to_numpy()
        is_inside = np.zeros(len(table), bool)
        for gap in places.tolist():
            is_inside |= (start < gaps.end[gap]) & (end > gaps.begin[gap])
        part = table[is_inside & np.asarray(counts, bool)]
        parts.append(plain(part).assign(name=by_label(part["name"].array, of_any_call, PYTHON)))
    return pd.concat(parts, ignore_index=True)


def _busiest(thread: NDArray[np.int64], times: Intervals, gap: Intervals) -> int:
    """The thread of which most of the time of a gap is recorded; of equal ones the first."""
    numbers = np.unique(thread).tolist()
    recorded = [iv.sum_exactly(iv.within(times[thread == each], gap)) for each in numbers]
    return int(numbers[int(np.argmax(recorded))])


def _did(records: pd.DataFrame, gap: Intervals) -> tuple[str | None, str | None, int, int]:
    """Of a thread in a gap, its parts: what it did, the source line, for how long, and how long nothing is recorded.

    A call of a runtime, or what says that it waits, where one stands around half of the gap or more; else another span
    or an operator, else a frame of Python, one outside of JAX before all others. Of several of a sort the one that
    stands around least of the gap: it is the deepest. Where nothing stands around half of it, what stands around most.
    """
    times = iv.intervals(records["start_ps"].to_numpy(), records["end_ps"].to_numpy())
    idle_ps = iv.total(gap)
    unrecorded = idle_ps - iv.sum_exactly(iv.within(times, gap))
    codes, names = pd.factorize(records["name"].to_numpy(object))
    # Calls are recorded last: of two names that stand around the same time the second is deeper. Of thousands of names
    # most stand there once.
    inside = iv.within(gap, times)
    length = {
        str(name): int(inside[rows[0]]) if len(rows) == 1 else iv.sum_exactly(iv.within(times[rows], gap))
        for name, rows in zip(names.tolist(), places_of(codes, len(names)), strict=True)
    }
    calls = {name: time for name, time in length.items() if calls_runtime(name) or says_waiting(name)}
    others = {name: time for name, time in length.items() if name not in calls and name != PYTHON}
    named = {name: time for name, time in others.items() if not is_frame(name)}
    lines = {name: time for name, time in others.items() if frame_line(name) and not frame_of_jax(name)}
    half = _MOST * idle_ps
    deepest = next(filter(None, (_deepest(part, half) for part in (calls, named, lines, others, length))), None)
    line = _deepest(lines, half)
    most = deepest or max(length, key=lambda name: length[name], default=None)
    return most, line and frame_line(line), length[most] if most else 0, unrecorded


def _deepest(length: dict[str, int], least: float) -> str | None:
    """The name with the shortest time that is not below the least, of equal ones the last; None without one."""
    enough = [(time, -place, name) for place, (name, time) in enumerate(length.items()) if time >= least]
    return min(enough)[2] if enough else None
