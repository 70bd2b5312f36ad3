"""What a timeline shows of a trace beside its own frames: launches, instances and steps of its rows, clock by clock."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.timeline import launches as links
from tracekit.timeline.collectives import instances
from tracekit.timeline.rows import Rows, clock_of_hosts, rows
from tracekit.timeline.steps import boundaries
from tracekit.timeline.unions import Unions, unions
from tracekit.trace import Trace


@dataclass(frozen=True)
class Timeline:
    """A trace with what is told of its n rows; times are in ps.

    `launch` (n,) is the place in `trace.launches` of the call that started each row, `instance` (n,) the collective it
    belongs to, -1 for none; `step` (n,) the place in `steps.table`. `clock` gives the clock of every host.
    """

    trace: Trace
    rows: Rows
    seen: Unions
    launch: NDArray[np.int64]
    instance: NDArray[np.int64]
    steps: boundaries.Boundaries
    clock: Mapping[str, str]

    @property
    def clocks(self) -> list[str]:
        """The clocks that anything is on, at least one; a single one is mostly called ""."""
        return list(dict.fromkeys([*self.rows.clocks, *self.clock.values()])) or [""]


def timeline(trace: Trace) -> Timeline:
    """The timeline of `trace`."""
    sorted_rows = rows(trace.events)
    launch = links.launch_of(sorted_rows, trace.launches)
    return Timeline(
        trace=trace,
        rows=sorted_rows,
        seen=unions(sorted_rows),
        launch=launch,
        instance=instances.instances(sorted_rows),
        steps=boundaries.boundaries(sorted_rows, trace.spans, launch, trace.launches),
        clock=_clocks(trace, sorted_rows),
    )


def _clocks(trace: Trace, sorted_rows: Rows) -> dict[str, str]:
    """The clock of every host: that of its rows, else of its file; where rows are on one clock, all are on it."""
    found = clock_of_hosts(sorted_rows)
    several = len(set(found.values())) > 1
    only = next(iter(found.values()), "")
    told = dict(zip(trace.hosts["host"].astype(object), trace.hosts["clock"].astype(object), strict=True))
    for frame in (trace.hosts, trace.spans, trace.launches):
        for host in map(str, frame["host"].cat.categories[np.unique(frame["host"].cat.codes.to_numpy())]):
            clock = told.get(host)
            found.setdefault(host, (clock if isinstance(clock, str) else host) if several else only)
    return found
