"""Why: all analyses of a trace beyond its ratios, each made once, from the same sorted rows."""

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import notebook
from tracekit.analysis.bandwidth import bandwidth
from tracekit.analysis.collectives import collectives
from tracekit.analysis.critical_path import critical_path
from tracekit.analysis.critical_path.graph import Graph, graph
from tracekit.analysis.idle import idle
from tracekit.analysis.launches import launches
from tracekit.analysis.offenders import offenders
from tracekit.analysis.steps import steps
from tracekit.timeline import inside as focus
from tracekit.timeline import launches as links
from tracekit.timeline.collectives import instances
from tracekit.timeline.rows import Rows, clock_of_hosts
from tracekit.timeline.rows import rows as sorted_rows
from tracekit.timeline.steps.boundaries import Boundaries, boundaries
from tracekit.timeline.unions import Unions, unions
from tracekit.trace import Trace
from tracekit.units import counted

T = TypeVar("T")

# Of each part the frame, and its columns, whose first row a notebook shows first.
_TELLING = {
    "critical_path": ("total", "part time_ps ratio"),
    "steps": ("summary", "name counted median_ps spread"),
    "offenders": ("table", "what device cost_ps ratio"),
    "collectives": ("total", "collectives device_time_ps wait_ratio exposed_ps"),
    "idle": ("by_cause", "cause idle_ps ratio"),
    "launches": ("queue", "device mean starved_ratio"),
    "bandwidth": ("by_device", "device busy_flops_per_s busy_flops_ratio"),
}
_NOT_ANNOTATED = "Its phases name the parts of this trace, not steps."


@dataclass(frozen=True)
class Reasons:
    """What each analysis found, or in its `lacking` why the trace has no evidence for it.

    `rows` and `seen` are what they looked at: all rows of the trace, or those inside some stretches of it. Of each of
    the n rows, `place` (n,) is its place in the events of the trace, `launch` (n,) the place in its launches of the
    call that started it, and `step` (n,) the row of `steps.table` that it belongs to; -1 for none.
    """

    rows: Rows
    seen: Unions
    place: NDArray[np.int64]
    launch: NDArray[np.int64]
    step: NDArray[np.int64]
    steps: steps.Steps
    collectives: collectives.Collectives
    idle: idle.Idle
    launches: launches.Launches
    critical_path: critical_path.CriticalPath
    offenders: offenders.Offenders
    bandwidth: bandwidth.Bandwidth

    def __repr__(self) -> str:
        found = [name for name in _TELLING if not getattr(self, name).lacking]
        return notebook.line(self, f"{self._looked_at}: {', '.join(found) or 'nothing'}")

    def _repr_html_(self) -> str:
        parts = {name: getattr(self, name) for name in _TELLING}
        return notebook.results("Reasons", self._looked_at, parts, _TELLING)

    @property
    def _looked_at(self) -> str:
        return f"{counted(len(self.seen.devices), 'device')}, {counted(len(self.rows), 'row')}"


def explain(
    trace: Trace, rows: Rows | None = None, seen: Unions | None = None, within: pd.DataFrame | None = None
) -> Reasons:
    """The reasons of `trace`; `rows` are its device rows and `seen` its unions, where they are at hand.

    `within` (columns clock, name, start_ps, end_ps; clock "" where the trace has one) are the only stretches that
    count, such as the rounds of phases. They then stand for steps, unless steps are annotated inside them.
    """
    with ThreadPoolExecutor(1) as beside:
        return explaining(trace, rows, seen, within, beside)()


def explaining(
    trace: Trace, rows: Rows | None, seen: Unions | None, within: pd.DataFrame | None, beside: Executor
) -> Callable[[], Reasons]:
    """`explain` under way: what is returned does the rest, or waits for what the one thread of `beside` is at, so that
    the caller can do something else meanwhile."""
    if within is not None and not len(within):
        within = None
    marks, place = trace.spans, None
    if within is not None:
        windows = {str(clock): one[["start_ps", "end_ps"]].to_numpy() for clock, one in within.groupby("clock")}
        events, place = focus.inside(trace.events, windows)
        rows = sorted_rows(events)
        seen = unions(rows).inside(windows)
        # A step elsewhere would count with nothing in it.
        marks = focus.begun(trace.spans, windows, clock_of_hosts(trace.events))
        trace = replace(trace, events=rows.events)
    rows = sorted_rows(trace.events) if rows is None else rows
    place = rows.at if place is None else place[rows.at]
    linked = beside.submit(links.launch_of, rows, trace.launches)
    seen = unions(rows) if seen is None else seen
    instance = instances.instances(rows)
    launch = linked.result()
    # Dependencies take half of the time, in loops that hold no GIL.
    dag = beside.submit(graph, rows, launch, instance, trace)
    bounds = boundaries(rows, marks, launch, trace.launches)
    if within is not None and (bounds.lacking or bounds.table["host_start_ps"].isna().any()):
        bounds = Boundaries(bounds.table[:0], np.full(len(rows), -1), lacking=_NOT_ANNOTATED)
    by_step = steps.steps(rows, bounds, seen)
    stretches = by_step.table if within is None or len(by_step.table) else _apart(within)
    path = beside.submit(_critical_path, rows, launch, instance, trace, stretches, [dag])
    del dag
    queued = _shared(beside, lambda: launches.launches(rows, launch, trace.launches, seen.windows))
    speed = _shared(beside, lambda: bandwidth.bandwidth(rows, trace.devices, trace.ops, seen))
    joined = collectives.collectives(rows, instance, seen)
    gaps = idle.idle(rows, launch, instance, trace.launches, trace.spans, trace.syncs, seen)
    costly = offenders.offenders(rows, seen, gaps.gaps, joined.table, by_step.table, trace.ops, instance)
    return lambda: Reasons(
        # Whichever thread comes first to these two takes them, this one from the last on.
        bandwidth=speed(),
        launches=queued(),
        rows=rows,
        seen=seen,
        place=place,
        launch=launch,
        step=bounds.of,
        steps=by_step,
        collectives=joined,
        idle=gaps,
        offenders=costly,
        critical_path=path.result(),
    )


def _critical_path(
    rows: Rows,
    launch: NDArray[np.int64],
    instance: NDArray[np.int64],
    trace: Trace,
    step_table: pd.DataFrame,
    dag: list[Future[Graph]],
) -> critical_path.CriticalPath:
    """The critical path by a graph that is made; it is taken out of its list, so that none but the analysis holds it,
    which frees parts of it on its way."""
    return critical_path.critical_path(rows, launch, instance, trace, step_table, dag.pop().result())


def _shared(beside: Executor, make: Callable[[], T]) -> Callable[[], T]:
    """What the thread of `beside` is to make; who asks for it before that thread has begun makes it himself."""
    future = beside.submit(make)
    return lambda: make() if future.cancel() else future.result()


def _apart(within: pd.DataFrame) -> pd.DataFrame:
    """`within` as steps without number, by clock and start; one that begins inside another of its clock is left out."""
    table = within.sort_values(["clock", "start_ps", "end_ps"], kind="stable", ignore_index=True)
    before = table.groupby("clock")["end_ps"].cummax().groupby(table["clock"]).shift(fill_value=np.iinfo(np.int64).min)
    table = table[table["start_ps"] >= before].reset_index(drop=True)
    return table[["clock", "name", "start_ps", "end_ps"]].assign(
        step=pd.array([pd.NA] * len(table), "Int64"), left_out=pd.Series([None] * len(table), dtype="str")
    )
