"""What if some work took no time: what is asked of the steps, and what their replays without it predict."""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.analysis.critical_path.graph import Graph
from tracekit.analysis.critical_path.longest_path import Part, Paths
from tracekit.analysis.critical_path.replay import Plan, Without
from tracekit.columns import frame, largest
from tracekit.intervals import sum_exactly
from tracekit.timeline.instances import CollectiveInstances, Unseen
from tracekit.timeline.rows import CODE, FEWEST_MOVES, Rows
from tracekit.units import percent, quantity
from tracekit.vocabulary.kinds import Kind

Column = NDArray[np.int64]


class Removed(StrEnum):
    """What is tried without, as WHAT_IF_COLUMNS and summary.json have it; of an op, `name` says which."""

    COLLECTIVE_TRANSFERS = "collective_transfers"
    COLLECTIVES = "collectives"
    COPIES = "copies"
    HOST = "host"
    OP = "op"


WHAT_IF_COLUMNS = {
    "what": "str",
    "name": "str",
    "measured_ps": "int64",
    "predicted_ps": "Int64",
    "ratio": "Float64",
    "reason": "str",
}
STEP_WHAT_IF_COLUMNS = {"at": "int64", "what": "str", "name": "str", "predicted_ps": "Int64", "ratio": "Float64"}
# Of a path more of which no dependency explains than this, no what-if is drawn. What the host did between its calls, if
# nothing of that is recorded, stays as it was, so only what would be without the host is not known.
MOST_UNEXPLAINED = 0.1
# Nor if it depends by more than this share of the steps on whether the delays that nothing explains would stay.
MOST_DOUBT = 0.03
# Nor of what collectives keep from running, if more than this share of their rows are of incomplete ones: a profile's
# edge cuts some where all ranks are in the trace.
MOST_INCOMPLETE = 0.05
# Why collectives are not complete, as a reason begins.
_UNSEEN = {
    Unseen.PART: "this part of the trace does not hold all of its collectives",
    Unseen.RANKS: "the trace does not show all ranks of its collectives",
    Unseen.CLOCKS: "its hosts' clocks are not aligned",
    Unseen.MATCHES: "rows of its collectives could not be matched",
}
# How many ops are tried.
OPS = 5


def scenarios(dag: Graph, plan: Plan, paths: Paths, labels: list[str]) -> list[tuple[Removed, str | None, Without]]:
    """What is tried: the kinds of work that the steps hold, and the ops that were longest on the paths."""
    kind = dag.kind[plan.node]
    kinds = {part for part in Part if (kind == part).any()}
    scenarios: list[tuple[Removed, str | None, Without]] = []
    if Part.COLLECTIVE in kinds:
        # That nobody waits for a late peer any more is another saving than a faster network.
        scenarios.append((Removed.COLLECTIVE_TRANSFERS, None, Without((Part.COLLECTIVE,))))
        scenarios.append((Removed.COLLECTIVES, None, Without((Part.COLLECTIVE,), unsynchronised=True)))
    if Part.MEMCPY in kinds:
        scenarios.append((Removed.COPIES, None, Without((Part.MEMCPY,))))
    if kinds & {Part.HOST_LAUNCH, Part.HOST_WORK}:
        scenarios.append((Removed.HOST, None, Without((Part.HOST_LAUNCH, Part.HOST_WORK), prompt=True)))
    longest = [op for op in largest(paths.of_op, OPS).tolist() if paths.of_op[op]]
    return scenarios + [(Removed.OP, labels[op], Without(op=op)) for op in longest]


def predictions(
    wall: Column,
    lengths: Column,
    paths: Paths,
    scenarios: list[tuple[Removed, str | None]],
    refusals: Sequence[str],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The prediction for all steps together, and for each; null where too little of a path is explained.

    `wall` (m,) is the length of the steps, `paths` are theirs, `lengths` (m, 2 + 2v) those of their replays, first with
    everything, as measured, then without each of the v `scenarios` (what, name), then all of these without the delays
    that nothing explains; in ps. `refusals` (v,): why nothing can be said of each scenario, "" if it can.
    """
    kept, dropped = np.split(lengths, 2, axis=1)
    wall_sum = sum_exactly(wall)
    noun = "critical path" if len(wall) == 1 else "critical paths"
    table_rows, refused = [], []
    for column, (what, name) in enumerate(scenarios, start=1):
        predicted = sum_exactly(kept[:, column])
        otherwise = wall_sum - sum_exactly(dropped[:, 0] - dropped[:, column])
        doubt = abs(predicted - otherwise) / wall_sum
        doubtful = f"delays that nothing explains change it by {percent(doubt)}" if doubt > MOST_DOUBT else ""
        unexplained = paths.parts[:, Part.UNEXPLAINED].copy()
        unrecorded = paths.parts[:, Part.HOST_UNRECORDED]
        # What the host did for reasons unknown stays as it was; what it waited for may be what is removed.
        unexplained += unrecorded if what == Removed.HOST else 0
        share = sum_exactly(unexplained) / wall_sum
        is_of_host = what == Removed.HOST and 2 * sum_exactly(unrecorded) > sum_exactly(unexplained)
        lacking = "record tells what the host did in" if is_of_host else "dependency explains"
        reason = f"no {lacking} {percent(share)} of the {noun}" if share > MOST_UNEXPLAINED else ""
        unknown = refusals[column - 1]
        refused.append((unexplained > MOST_UNEXPLAINED * wall) | bool(unknown or doubtful))
        refusal = unknown or reason or doubtful
        prediction = (None, None, refusal) if refusal else (predicted, predicted / wall_sum, None)
        table_rows.append((what.value, name, wall_sum, *prediction))
    table = frame(WHAT_IF_COLUMNS, table_rows)
    steps, tried = len(wall), len(scenarios)
    is_refused = np.concatenate([np.zeros(0, bool), *refused])
    each_step = frame(
        STEP_WHAT_IF_COLUMNS,
        {
            "at": np.tile(np.arange(steps), tried),
            "what": np.repeat(np.array([work.value for work, _ in scenarios], object), steps),
            "name": np.repeat(np.array([name for _, name in scenarios], object), steps),
            "predicted_ps": pd.arrays.IntegerArray(kept[:, 1:].T.ravel(), is_refused),
            "ratio": pd.arrays.FloatingArray((kept[:, 1:] / wall[:, None]).T.ravel(), is_refused.copy()),
        },
    )
    return table, each_step


def refusals(
    rows: Rows,
    instances: CollectiveInstances,
    why: Unseen | None,
    needed: NDArray[np.bool_],
    paths: Paths,
    lengths: Column,
    tried: list[tuple[Removed, str | None]],
) -> list[str]:
    """Why nothing can be said of each scenario, "" if something can.

    `why` not all ranks of its collectives are there. `needed` (n,): the rows that the steps need; `lengths` are those
    that `predictions` takes.

    A collective of which the trace does not show all ranks, or not on one clock, may have waited for one of the others:
    without what ran on these ranks it would have waited no less. So what a replay saves, another rank may still take.
    """
    of_collectives = (instances.instance >= 0) & needed
    incomplete = np.zeros(len(needed), bool)
    incomplete[of_collectives] = ~instances.complete[instances.instance[of_collectives]]
    names: set[str] = set()
    if incomplete.sum() > MOST_INCOMPLETE * of_collectives.sum():
        names = {rows.labels("name")[code] for code in np.unique(rows.codes("name")[incomplete]).tolist()}
    lacking = _UNSEEN[why] if why else ""
    wall = sum_exactly(paths.parts.sum(axis=1))
    share = sum_exactly(paths.parts[:, Part.ALONE_COLLECTIVE]) / wall
    of_all = ""
    if names and share > MOST_UNEXPLAINED:
        of_all = f"{lacking}, and {percent(share)} of its critical path is in collectives"
    kept, _ = np.split(lengths, 2, axis=1)
    reasons = []
    for column, (what, name) in enumerate(tried, start=1):
        is_saving = sum_exactly(kept[:, 0] - kept[:, column]) > MOST_DOUBT * wall
        others = f"{lacking}, so when other ranks would have come is not known" if names and is_saving else ""
        unknown = unknown_copies(rows) if what == Removed.COPIES else ""
        if names and (what in (Removed.COLLECTIVES, Removed.COLLECTIVE_TRANSFERS) or name in names):
            unknown = f"{lacking}, so what these waited for is not known"
        reasons.append(unknown or of_all or others)
    return reasons


def unknown_copies(rows: Rows) -> str:
    """Why nothing can be said of copies: their device is not known, so neither is what waited for them; or the driver
    moved memory as kernels touched it, which waited for it inside."""
    if (moves := int(rows.is_migration.sum())) >= FEWEST_MOVES:
        return f"it is not known how long kernels waited for the {quantity(moves, 'move')} of unified memory"
    is_unknown = ~rows.is_placed & (rows.kind == CODE[Kind.MEMCPY])
    if not is_unknown.any():
        return ""
    names = ", ".join(name for name, is_placed in zip(rows.devices, rows.placed, strict=True) if not is_placed)
    return f"it is not known what waited for the {int(is_unknown.sum())} copies on {names}"
