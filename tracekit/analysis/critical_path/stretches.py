"""The stretches of a path of which too little is known: between what they lie, and what the host was in meanwhile."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.analysis.critical_path.graph import Graph
from tracekit.analysis.critical_path.longest_path import Part, Paths
from tracekit.columns import frame
from tracekit.timeline.rows import Rows
from tracekit.trace import Trace
from tracekit.vocabulary.host_calls import says_waiting

Column = NDArray[np.int64]

STRETCH_COLUMNS = {
    "at": "int64",
    "part": "str",
    "on": "str",
    "after": "str",
    "until": "str",
    "during": "str",
    "span_on": "str",
    "span": "str",
    "waits": "bool",
    "start_ps": "int64",
    "end_ps": "int64",
    "time_ps": "int64",
}
# Of so many stretches of a step, the longest, it is told what spans of the host lay around them.
LONGEST = 20


class Between(NamedTuple):
    """Where a stretch lies: on a device, or on a thread of a host, after what and until what there, or during what."""

    on: str
    host: str
    after: str | None
    until: str | None
    during: str | None

    def __str__(self) -> str:
        if self.during:
            return f"during {self.during}"
        if self.after and self.until:
            return f"between {self.after} and {self.until}"
        return f"after {self.after}" if self.after else f"before {self.until}"


class _Order(NamedTuple):
    """What was on a lane or thread, by start: times and names."""

    start: Column
    end: Column
    name: NDArray[np.object_]


class Neighbours:
    """What lies around a time on the lane of a row or on the thread of a call, of the graph `dag` of a trace."""

    def __init__(self, rows: Rows, trace: Trace, dag: Graph) -> None:
        self._rows, self._dag, self._launches = rows, dag, trace.launches
        self._waits = trace.syncs[trace.syncs["device"].isna().to_numpy(bool)]
        self._orders: dict[tuple[object, object], _Order] = {}

    def between(self, node: int, start: int, end: int) -> Between:
        """Where the time from `start` to `end`, in ps, lies, after which the node began or before which it ended."""
        source, place = self._dag.source(node)
        if source == "events":
            row = self._rows.events.iloc[int(self._rows.at[place])]
            order = self._lane(int(self._rows.device[place]), int(self._rows.codes("lane")[place]))
            on, host = str(row["device"]), str(row["host"])
        else:
            row = (self._launches if source == "launches" else self._waits).iloc[place]
            on, host = str(row["thread"]), str(row["host"])
            order = self._thread(host, on)
        last = int(np.searchsorted(order.start, start, side="right")) - 1
        # A call around the stretch waits, and nothing tells for what.
        if source != "events" and last >= 0 and order.end[last] >= end:
            return Between(on, host, None, None, str(order.name[last]))
        name = str(row["name"])
        if source == "syncs" and int(row["start_ps"]) < (start + end) // 2 and int(row["end_ps"]) > start:
            return Between(on, host, None, None, name)
        after = str(order.name[last]) if last >= 0 else None
        return Between(on, host, after, name if int(row["end_ps"]) > start else None, None)

    def _lane(self, device: int, lane: int) -> _Order:
        if (device, lane) not in self._orders:
            rows = self._rows
            places = np.arange(len(rows))[rows.of(device)]
            places = places[rows.codes("lane")[places] == lane]
            names = np.array([*rows.labels("name"), None], object)[rows.codes("name")[places]]
            self._orders[device, lane] = _Order(rows.start[places], rows.end[places], names)
        return self._orders[device, lane]

    def _thread(self, host: str, thread: str) -> _Order:
        if (host, thread) not in self._orders:
            tables = [
                table[((table["host"] == host) & (table["thread"] == thread)).to_numpy(bool)]
                for table in (self._launches, self._waits)
            ]
            start, end = (np.concatenate([table[name] for table in tables]) for name in ("start_ps", "end_ps"))
            order = np.lexsort((-end, start))
            names = np.concatenate([table["name"].astype(object) for table in tables])
            self._orders[host, thread] = _Order(start[order], end[order], names[order])
        return self._orders[host, thread]


# What a stretch is that nothing explains, or in which nothing is recorded of a thread of the host.
UNKNOWN = {Part.UNEXPLAINED: "unexplained", Part.HOST_UNRECORDED: "host, nothing recorded"}


def between_calls(rows: Rows, trace: Trace, dag: Graph, paths: Paths, pieces: Column) -> dict[int, Between]:
    """Where those of the `pieces` lie (places in `paths`) that are of no node of their own: what nothing explains, what
    of the host is not recorded, and calls around the one that a path leads to."""
    neighbours = Neighbours(rows, trace, dag)
    lies = {}
    node, part = paths.node[pieces], paths.part[pieces]
    is_around = (part == Part.HOST_LAUNCH) & (paths.end[pieces] <= dag.start[node])
    for piece in pieces[(np.isin(part, list(UNKNOWN)) | is_around) & (node >= 0)].tolist():
        lies[piece] = neighbours.between(int(paths.node[piece]), int(paths.start[piece]), int(paths.end[piece]))
    return lies


def stretches(paths: Paths, lies: dict[int, Between], spans: pd.DataFrame) -> pd.DataFrame:
    """The stretches of the paths that are UNKNOWN (STRETCH_COLUMNS), by step and the longest first.

    `lies` tells where pieces of `paths` lie, by their place. `span` is one of `spans` (SPAN_COLUMNS) that lasted
    for half of the stretch or more: one whose name says that it waits (`waits`) rather than another, one of the same
    thread rather than another's, and of several the shortest. What another thread did says nothing but that it waited.
    """
    length = paths.end - paths.start
    unknown = [piece for piece in lies if paths.part[piece] in UNKNOWN]
    pieces = np.array(sorted(unknown, key=lambda piece: (int(paths.step[piece]), -int(length[piece]), piece)), np.int64)
    pieces = pieces[np.arange(len(pieces)) - np.searchsorted(paths.step[pieces], paths.step[pieces]) < LONGEST]
    shortest = int(length[pieces].min()) // 2 if len(pieces) else 0
    long = spans["end_ps"].to_numpy() - spans["start_ps"].to_numpy() >= max(shortest, 1)
    marks = spans["step"].notna().to_numpy(bool) | spans["tracekit"].notna().to_numpy(bool)
    spans = spans[long & ~marks]
    waiting = np.array([says_waiting(str(name)) for name in spans["name"].cat.categories] or [False])
    waits = waiting[spans["name"].cat.codes.to_numpy()]
    start, end = spans["start_ps"].to_numpy(), spans["end_ps"].to_numpy()
    table = []
    for piece in pieces.tolist():
        low, high = int(paths.start[piece]), int(paths.end[piece])
        where = lies[piece]
        around = np.flatnonzero(2 * (np.minimum(end, high) - np.maximum(start, low)) >= high - low)
        host, own = (spans[name].iloc[around] == value for name, value in (("host", where.host), ("thread", where.on)))
        own_thread = own.to_numpy(bool)
        candidates = around[host.to_numpy(bool) & (own_thread | waits[around])]
        is_own = (spans["thread"].iloc[candidates] == where.on).to_numpy(bool)
        order = np.lexsort((end[candidates] - start[candidates], ~is_own, ~waits[candidates]))
        span = spans.iloc[candidates[order[0]]] if len(order) else None
        meanwhile = (None, None) if span is None else (str(span["thread"]), str(span["name"]))
        is_wait = span is not None and says_waiting(str(span["name"]))
        row = (
            int(paths.step[piece]),
            UNKNOWN[Part(int(paths.part[piece]))],
            where.on,
            where.after,
            where.until,
            where.during,
            *meanwhile,
            is_wait,
        )
        table.append((*row, low, high, high - low))
    return frame(STRETCH_COLUMNS, table)
