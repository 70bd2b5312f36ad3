"""The events of `/host:CPU` as columns that several rules share, and what joins events of different threads."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit import intervals
from tracekit.readers.xplane import ops
from tracekit.readers.xplane.planes import Plane
from tracekit.trace import constant, labelled

LISTENER = "ThreadpoolListener::"


class HostEvents:
    """Columns of a plane of the host, all of shape (n,), and masks for what each event is."""

    def __init__(self, plane: Plane, start: NDArray[np.int64]) -> None:
        self.plane = plane
        self.start = start
        self.end = start + plane.duration_ps
        self.line = plane.line
        self.names = plane.names
        self.thunk = plane.has("hlo_op") & plane.has("device_ordinal")

    def named(self, test: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Which events have a name that passes `test`, asked once per distinct name."""
        passes = np.array([*map(test, self.names.categories), False], bool)
        return np.asarray(passes[self.names.codes])

    def rows(self, mask: NDArray[np.bool_]) -> intervals.Intervals:
        """The intervals of the events in `mask`."""
        return intervals.intervals(self.start[mask], self.end[mask])

    def latest(self, mask: NDArray[np.bool_], line: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of the last event in `mask` on each `line` that starts before each `time` (both (m,)); -1 if none."""
        rows = np.flatnonzero(mask)
        found = np.full(len(line), -1, np.int64)
        for one in np.unique(line):
            mine = rows[self.line[rows] == one]
            mine = mine[np.argsort(self.start[mine], kind="stable")]
            asked = np.flatnonzero(line == one)
            at = np.searchsorted(self.start[mine], time[asked], side="left") - 1
            found[asked[at >= 0]] = mine[at[at >= 0]]
        return found

    def around(self, mask: NDArray[np.bool_], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of the last event in `mask` that starts before each of the events `rows` on its line, if it is still
        open when that starts; else -1."""
        found = self.latest(mask, self.line[rows], self.start[rows])
        return np.where((found >= 0) & (self.start[rows] <= self.end[found]), found, -1)

    def bookkeeping(self) -> NDArray[np.bool_]:
        """Events that only serve to rebuild the device rows; they are no spans."""
        internal = (LISTENER, "end: ", "ThunkExecutor::", "Rendezvous", "InvokeRendezvous", "Wait: ")
        return self.thunk | self.named(lambda name: name.startswith(internal))

    @cached_property
    def regions(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """What a pool's threads ran: the rows of `StartRegion`, the time each region ends, and whether it was seen to
        (one that was not ends with the trace)."""
        edges = np.flatnonzero(self.named(lambda name: name in (f"{LISTENER}StartRegion", f"{LISTENER}StopRegion")))
        edges = edges[np.lexsort((self.start[edges], self.line[edges]))]
        begins = self.named(lambda name: name == f"{LISTENER}StartRegion")[edges]
        follows = np.append(self.line[edges][1:] == self.line[edges][:-1], False)
        times = np.append(self.start[edges][1:], 0)
        ends = np.where(follows, times, self.end.max(initial=0))
        return edges[begins], ends[begins], follows[begins]

    @cached_property
    def queued_by(self) -> NDArray[np.int64]:
        """The row of the `Record` that queued each region (`_p` = `_c`), -1 where none did."""
        records = np.flatnonzero(self.named(lambda name: name == f"{LISTENER}Record"))
        made = self.plane.numbers("_p")[0][records]
        order = np.argsort(made, kind="stable")
        asked = self.plane.numbers("_c")[0][self.regions[0]]
        # The last of equal ids: a counter that began anew.
        at = np.searchsorted(made[order], asked, side="right") - 1
        hit = (at >= 0) & (made[order][at] == asked) if len(records) else np.zeros(len(asked), bool)
        return np.where(hit, records[order][at] if len(records) else -1, -1)


def described(host: str, events: HostEvents, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Where, what and when the events `rows` are: the columns that spans, launches and waits share."""
    return {
        "host": constant(host, len(rows)),
        "thread": labelled(ops.line_names(events.plane), events.line[rows]),
        "name": events.names[rows],
        "start_ps": events.start[rows],
        "end_ps": events.end[rows],
    }
