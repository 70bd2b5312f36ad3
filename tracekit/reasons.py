"""Why: all analyses of a trace beyond its ratios, each made once, from the same sorted rows."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tracekit import focus, links
from tracekit.analysis import bandwidth, collectives, critical_path, idle, launches, offenders, steps
from tracekit.dependencies.graph import graph
from tracekit.matching import instances
from tracekit.rows import Rows
from tracekit.rows import rows as sorted_rows
from tracekit.stepping import boundaries
from tracekit.trace import Trace
from tracekit.unions import Unions, unions

_NOT_ANNOTATED = "Its phases name the parts of this trace, not steps."


@dataclass(frozen=True)
class Reasons:
    """What each analysis found, or in its `lacking` why the trace has no evidence for it.

    `rows` and `seen` are what they looked at: all rows of the trace, or those inside some stretches of it.
    """

    rows: Rows
    seen: Unions
    steps: steps.Steps
    collectives: collectives.Collectives
    idle: idle.Idle
    launches: launches.Launches
    critical_path: critical_path.CriticalPath
    offenders: offenders.Offenders
    bandwidth: bandwidth.Bandwidth


def explain(
    trace: Trace, rows: Rows | None = None, seen: Unions | None = None, within: pd.DataFrame | None = None
) -> Reasons:
    """The reasons of `trace`; `rows` are its device rows and `seen` its unions, where they are at hand.

    `within` (columns clock, name, start_ps, end_ps; clock "" where the trace has one) are the only stretches that
    count, such as the rounds of phases. They then stand for steps, unless steps are annotated inside them.
    """
    if within is not None and not len(within):
        within = None
    if within is not None:
        windows = {str(clock): one[["start_ps", "end_ps"]].to_numpy() for clock, one in within.groupby("clock")}
        rows = sorted_rows(focus.inside(trace.events, windows))
        seen = unions(rows).inside(windows)
        trace = replace(trace, events=rows.events)
    rows = sorted_rows(trace.events) if rows is None else rows
    seen = unions(rows) if seen is None else seen
    launch = links.launch_of(rows, trace.launches)
    instance = instances.instances(rows)
    with ThreadPoolExecutor(1) as beside:  # dependencies take half of the time, in loops that hold no GIL
        dag = beside.submit(graph, rows, launch, instance, trace)
        bounds = boundaries.boundaries(rows, trace.spans, launch, trace.launches)
        if within is not None and not bounds.lacking and bounds.table["host_start_ps"].isna().any():
            bounds = replace(bounds, table=bounds.table[:0], lacking=_NOT_ANNOTATED)
        by_step = steps.steps(rows, bounds, seen)
        stretches = by_step.table if within is None or len(by_step.table) else _apart(within)
        known = rows, launch, instance, trace, stretches
        path = beside.submit(lambda: critical_path.critical_path(*known, dag.result()))
        waited = beside.submit(launches.launches, rows, launch, trace.launches, seen.windows)
        joined = collectives.collectives(rows, instance, seen)
        gaps = idle.idle(rows, launch, instance, trace.launches, trace.spans, trace.syncs, seen)
        return Reasons(
            rows=rows,
            seen=seen,
            steps=by_step,
            collectives=joined,
            idle=gaps,
            launches=waited.result(),
            offenders=offenders.offenders(rows, seen, gaps.gaps, joined.table, by_step.table, trace.ops, instance),
            bandwidth=bandwidth.bandwidth(rows, trace.devices, trace.ops, seen),
            critical_path=path.result(),
        )


def _apart(within: pd.DataFrame) -> pd.DataFrame:
    """`within` as steps without number, by clock and start; one that begins inside another of its clock is left out."""
    table = within.sort_values(["clock", "start_ps", "end_ps"], kind="stable", ignore_index=True)
    before = table.groupby("clock")["end_ps"].cummax().groupby(table["clock"]).shift(fill_value=np.iinfo(np.int64).min)
    table = table[table["start_ps"] >= before].reset_index(drop=True)
    return table[["clock", "name", "start_ps", "end_ps"]].assign(
        step=pd.array([pd.NA] * len(table), "Int64"), left_out=pd.Series([None] * len(table), dtype="str")
    )
