"""The host's events: columns that several rules share, calls by correlation id, and what a trace has of the host.

That is its named spans, the calls that started device work, and those that wait for a device.

`CommonPjRtBuffer::Await` stands twice on its thread, where the wait begins and where it ends: the `_p` of the first is
the `_c` of the second (xla/pjrt/pjrt_future.h). `cuStreamSynchronize` and the like are one event each; CUPTI may have
written what it waited for as a record on the stream, with the call's correlation id. A call that tells a stream to wait
for an event is left out: no XSpace says which event that is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import union_categoricals

from tracekit import intervals
from tracekit.columns import by_label, categorical, constant, frame
from tracekit.readers.losses import Lost
from tracekit.readers.xspace.host_threads import callers
from tracekit.readers.xspace.planes import Plane, Rows, XSpace, chosen, integers, line_names, taken
from tracekit.trace import LAUNCH_COLUMNS, SPAN_COLUMNS, SYNC_COLUMNS
from tracekit.vocabulary.host_calls import (
    POOL_RECORD,
    POOL_START,
    POOL_STOP,
    SyncCall,
    launches_graph,
    recorded_into_graph,
    records_graphs,
    serves_cpu_ops,
    sync_call,
)
from tracekit.vocabulary.host_calls import launches as launches_work
from tracekit.vocabulary.losses import Loss

STATS = ("_p", "_c", "correlation_id")

# A future's wait is two events, and of a stream that waits no XSpace says for which event.
_WHOLE = (SyncCall.STREAM, SyncCall.EVENT, SyncCall.DEVICE, SyncCall.OTHER)


class HostEvents:
    """Columns of a plane of the host, all of shape (n,), and masks for what each event is."""

    def __init__(self, plane: Plane, start: NDArray[np.int64]) -> None:
        self.plane = plane
        self.start = start
        self.end = start + plane.duration_ps
        self.line = plane.line
        self.names = plane.names
        self.thunk = plane.has("hlo_op") & plane.has("device_ordinal")

    @cached_property
    def threads(self) -> list[str]:
        """The thread of every line."""
        return callers(line_names(self.plane), self.line, self.start, self.end)

    @cached_property
    def thread(self) -> pd.Categorical:
        """The thread of every event, shape (n,)."""
        return categorical(self.threads, self.line)

    def with_name(self, test: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Which events have a name that passes `test`, asked once per distinct name."""
        return by_label(self.names, test)

    def rows(self, mask: NDArray[np.bool_]) -> intervals.Intervals:
        """The intervals of the events in `mask`."""
        return intervals.intervals(self.start[mask], self.end[mask])

    def latest(self, mask: NDArray[np.bool_], line: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of the last event in `mask` on each `line` that starts before each `time` (both (m,)); -1 if none."""
        rows = np.flatnonzero(mask)
        row_of = np.full(len(line), -1, np.int64)
        for number in np.unique(line):
            on_line = rows[self.line[rows] == number]
            on_line = on_line[np.argsort(self.start[on_line], kind="stable")]
            queries = np.flatnonzero(line == number)
            at = np.searchsorted(self.start[on_line], time[queries], side="left") - 1
            row_of[queries[at >= 0]] = on_line[at[at >= 0]]
        return row_of

    def around(self, mask: NDArray[np.bool_], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of the last event in `mask` that starts before each of the events `rows` on its line, if it is still
        open when that starts; else -1."""
        row = self.latest(mask, self.line[rows], self.start[rows])
        return np.where((row >= 0) & (self.start[rows] <= self.end[row]), row, -1)

    def bookkeeping(self) -> NDArray[np.bool_]:
        """Events that only serve to rebuild the device rows; they are no spans."""
        return self.thunk | self.with_name(serves_cpu_ops)

    @cached_property
    def regions(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """What a pool's threads ran: the rows of `StartRegion`, the time each region ends, and whether it was seen to
        (one that was not ends with the trace)."""
        edges = np.flatnonzero(self.with_name(lambda name: name in (POOL_START, POOL_STOP)))
        edges = edges[np.lexsort((self.start[edges], self.line[edges]))]
        begins = self.with_name(lambda name: name == POOL_START)[edges]
        follows = np.append(self.line[edges][1:] == self.line[edges][:-1], False)
        times = np.append(self.start[edges][1:], 0)
        ends = np.where(follows, times, self.end.max(initial=0))
        return edges[begins], ends[begins], follows[begins]

    @cached_property
    def queued_by(self) -> NDArray[np.int64]:
        """The row of the `Record` that queued each region (`_p` = `_c`), -1 where none did."""
        records = np.flatnonzero(self.with_name(lambda name: name == POOL_RECORD))
        produced = self.plane.numbers("_p")[0][records]
        order = np.argsort(produced, kind="stable")
        consumed = self.plane.numbers("_c")[0][self.regions[0]]
        # The last of equal ids: a counter that began anew.
        at = np.searchsorted(produced[order], consumed, side="right") - 1
        hit = (at >= 0) & (produced[order][at] == consumed) if len(records) else np.zeros(len(consumed), bool)
        return np.where(hit, records[order][at] if len(records) else -1, -1)


def host_columns(host: str, events: HostEvents, rows: Rows) -> dict[str, Any]:
    """Where, what and when the events `rows` are: the columns that spans, launches and waits share."""
    thread = events.thread[rows]
    return {
        "host": constant(host, len(thread)),
        "thread": thread,
        "name": events.names[rows],
        "start_ps": taken(events.start, rows),
        "end_ps": taken(events.end, rows),
    }


@dataclass(frozen=True)
class Calls:
    """The n calls of the host in one file that have a correlation id: the `ids` (n,), the `names`, and which were
    `recorded` into a graph instead of run."""

    ids: NDArray[np.int64]
    names: pd.Categorical
    recorded: NDArray[np.bool_]

    def of(self, ids: NDArray[np.int64], has_id: NDArray[np.bool_]) -> pd.Categorical:
        """The name of the first call with each correlation id, null where there is none; both (n,), as the result."""
        call_ids, first = self._first
        # The place after the last stands for no call.
        at = np.searchsorted(call_ids, ids)
        has_call = has_id & (np.append(call_ids, 0)[at] == ids) & (at < len(call_ids))
        codes = np.where(has_call, np.append(self.names.codes[first], -1)[at], -1)
        return pd.Categorical.from_codes(codes, dtype=self.names.dtype)

    def ids_of(self, test: Callable[[str], bool]) -> NDArray[np.int64]:
        """The correlation ids of the calls whose name passes `test`, asked once per distinct name."""
        return self.ids[chosen(by_label(self.names, test))]

    @cached_property
    def graphs(self) -> NDArray[np.int64]:
        """The correlation ids of the calls that launch a CUDA graph, which its kernels share."""
        return self.ids_of(launches_graph)

    @cached_property
    def _first(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The correlation ids in rising order and the place of the first call of each."""
        ids, first = np.unique(self.ids, return_index=True)
        return ids, first


def calls(space: XSpace) -> Calls:
    """The calls on all host planes of a file."""
    base_ns = min((line.timestamp_ns for plane in space.planes for line in plane.lines), default=0)
    calls_of = []
    for plane in filter(is_host, space.planes):
        values, has_id = plane.numbers("correlation_id")
        rows = chosen(has_id)
        ids, names = values[rows], plane.names[rows]
        recorded = np.zeros(len(ids), bool)
        if records_graphs(names):
            recorded = recorded_into_graph(names, plane.start_ps(base_ns)[rows], plane.line[rows])
        calls_of.append(Calls(ids, names, recorded))
    if len(calls_of) == 1:
        return calls_of[0]
    no_names = pd.Categorical.from_codes([], categories=pd.Index([], dtype="str"))
    none = Calls(np.zeros(0, np.int64), no_names, np.zeros(0, bool))
    every = [none, *calls_of]
    return Calls(
        np.concatenate([each.ids for each in every]),
        union_categoricals([each.names for each in every]),
        np.concatenate([each.recorded for each in every]),
    )


def is_host(plane: Plane) -> bool:
    """Whether a plane holds events of the host: `/host:CPU`, and `/host:CUPTI` where it was not merged into that."""
    return plane.name.startswith("/host:") and len(plane) > 0


def lost_ids(plane: Plane) -> list[Lost]:
    """Where stats are lost, the events that have one of the two parts of a flow's id without the other, and the calls
    that launch work and have no correlation id."""
    lost: list[Lost] = []
    if not plane.lost_stats:
        return lost
    odd = [plane.has(number) ^ plane.has(kind) for number, kind in (("_p", "_pt"), ("_c", "_ct"))]
    if count := int(np.logical_or(*odd).sum()):
        lost.append(Lost(Loss.EVENTS, count, len(plane), f"ids of flows of {plane.name}, which tell what led to what"))
    if count := int((by_label(plane.names, launches_work) & ~plane.numbers("correlation_id")[1]).sum()):
        lost.append(Lost(Loss.EVENTS, count, len(plane), f"the correlation ids of calls of {plane.name}"))
    return lost


def waits(host: str, events: HostEvents, waited: Mapping[int, tuple[str, str]]) -> pd.DataFrame:
    """The waits of the host's threads (SYNC_COLUMNS); `waited` gives device and lane by correlation id."""
    begins, ends = _pairs(events)
    whole = np.flatnonzero(events.with_name(lambda name: sync_call(name) in _WHOLE))
    rows = np.concatenate([begins, whole])
    end = np.concatenate([events.end[ends], events.end[whole]])
    order = np.argsort(events.start[rows], kind="stable")
    rows, end = rows[order], end[order]
    ids, has_id = events.plane.numbers("correlation_id")
    on: list[tuple[str | None, str | None]] = [
        waited.get(correlation_id, (None, None)) if has_one else (None, None)
        for correlation_id, has_one in zip(ids[rows].tolist(), has_id[rows].tolist(), strict=True)
    ]
    # Only a stream is waited for as one lane.
    stream = [sync_call(str(name)) is SyncCall.STREAM for name in events.names[rows]]
    each = np.arange(len(rows))
    data = host_columns(host, events, rows) | {
        "end_ps": end,
        "on_device": categorical([device for device, _ in on], each),
        "on_lane": categorical(
            [lane if one_lane else None for (_, lane), one_lane in zip(on, stream, strict=True)], each
        ),
    }
    return frame(SYNC_COLUMNS, data)


def _pairs(events: HostEvents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The events with which a wait begins and those with which it ends, in pairs of one name and thread."""
    produced, produces = events.plane.numbers("_p")
    consumed, consumes = events.plane.numbers("_c")
    awaits = events.with_name(lambda name: sync_call(name) is SyncCall.FUTURE)
    begins = {int(produced[row]): int(row) for row in np.flatnonzero(awaits & produces)}
    pairs = []
    for row in np.flatnonzero(awaits & consumes).tolist():
        begin = begins.get(int(consumed[row]), -1)
        same = events.line[begin] == events.line[row] and events.names.codes[begin] == events.names.codes[row]
        if begin >= 0 and same and events.start[begin] <= events.end[row]:
            pairs.append((begin, row))
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def spans(host: str, events: HostEvents) -> pd.DataFrame:
    """The named host spans (SPAN_COLUMNS)."""
    rows = chosen(~events.bookkeeping())
    data = host_columns(host, events, rows) | {"step": integers(events.plane, "step_num", rows)}
    data |= {stat: events.plane.strings(stat)[rows] for stat in ("tracekit", "alone", "baseline")}
    return frame(SPAN_COLUMNS, data)


def launches(host: str, events: HostEvents) -> pd.DataFrame:
    """The host calls that carry a correlation id (LAUNCH_COLUMNS)."""
    rows = chosen(events.plane.numbers("correlation_id")[1])
    ids = {"correlation_id": integers(events.plane, "correlation_id", rows)}
    return frame(LAUNCH_COLUMNS, host_columns(host, events, rows) | ids)
