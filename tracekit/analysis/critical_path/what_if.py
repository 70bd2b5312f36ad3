"""What if some work took no time: what is asked of the steps, and what their replays without it predict."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.analysis.critical_path.graph import Graph
from tracekit.analysis.critical_path.longest_path import Part, Walked
from tracekit.analysis.critical_path.plan import Plan
from tracekit.analysis.critical_path.replay import Without
from tracekit.columns import frame
from tracekit.intervals import sum_exactly
from tracekit.timeline.rows import CODE, Rows
from tracekit.vocabulary.kinds import Kind

Column = NDArray[np.int64]

WHAT_IF_COLUMNS = {
    "what": "str",
    "name": "str",
    "measured_ps": "int64",
    "replayed_ps": "int64",
    "without_ps": "int64",
    "predicted_ps": "Int64",
    "ratio": "Float64",
    "reason": "str",
}
STEP_WHAT_IF_COLUMNS = {"at": "int64", "what": "str", "name": "str", "predicted_ps": "Int64", "ratio": "Float64"}
# Of a path more of which no dependency explains than this, no what-if is drawn.
MOST_UNEXPLAINED = 0.1
# How many ops are tried.
OPS = 5


def asked(dag: Graph, held: Plan, walked: Walked, labels: list[str]) -> list[tuple[str, str | None, Without]]:
    """What is tried: the kinds of work that the steps hold, and the ops that were longest on the paths."""
    kind = dag.kind[held.node]
    kinds = {one for one in Part if (kind == one).any()}
    found: list[tuple[str, str | None, Without]] = []
    if Part.COLLECTIVE in kinds:
        # That nobody waits for a late peer any more is another saving than a faster network.
        found.append(("collective transfers", None, Without((Part.COLLECTIVE,))))
        found.append(("collectives", None, Without((Part.COLLECTIVE,), apart=True)))
    if Part.MEMCPY in kinds:
        found.append(("copies", None, Without((Part.MEMCPY,))))
    if kinds & {Part.HOST_LAUNCH, Part.HOST_WORK}:
        found.append(("the host", None, Without((Part.HOST_LAUNCH, Part.HOST_WORK), prompt=True)))
    longest = np.argsort(-walked.of_op, kind="stable")[:OPS]
    return found + [("op", labels[one], Without(op=one)) for one in longest.tolist() if walked.of_op[one]]


def predicted(
    wall: Column, lengths: Column, unexplained: Column, wanted: list[tuple[str, str | None]], unknown: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The prediction for all steps together, and for each; null where too little of a path is explained.

    `wall` and `unexplained` (m,) are the lengths of the steps and of what nothing explains of their paths, `lengths`
    (m, 1 + v) those of their replays, first with everything, then without each of the v `wanted` (what, name); in ps.
    What nothing explains has no length in a replay, and is kept as it was measured. `unknown`: why nothing can be said
    of copies, "" if it can.
    """
    left = wall[:, None] - (lengths[:, :1] - lengths)
    whole, base = sum_exactly(wall), sum_exactly(lengths[:, 0])
    share = sum_exactly(unexplained) / whole
    reason = f"no dependency explains {100 * share:.0f} % of the critical paths" if share > MOST_UNEXPLAINED else ""
    reasons = [(unknown if what == "copies" else "") or reason or None for what, _ in wanted]
    sums = [(sum_exactly(lengths[:, at]), sum_exactly(left[:, at])) for at in range(1, len(wanted) + 1)]
    told = [
        (each, each / whole, None) if not why else (None, None, why)
        for why, (_, each) in zip(reasons, sums, strict=True)
    ]
    found = [(*one, whole, base, without, *rest) for one, (without, _), rest in zip(wanted, sums, told, strict=True)]
    table = frame(WHAT_IF_COLUMNS, found)
    steps, tried = len(wall), len(wanted)
    refused = [bool(unknown) and what == "copies" for what, _ in wanted]
    doubtful = np.tile(unexplained > MOST_UNEXPLAINED * wall, tried) | np.repeat(np.array(refused, bool), steps)
    each_step = frame(
        STEP_WHAT_IF_COLUMNS,
        {
            "at": np.tile(np.arange(steps), tried),
            "what": np.repeat(np.array([what for what, _ in wanted], object), steps),
            "name": np.repeat(np.array([name for _, name in wanted], object), steps),
            "predicted_ps": pd.arrays.IntegerArray(left[:, 1:].T.ravel(), doubtful),
            "ratio": pd.arrays.FloatingArray((left[:, 1:] / wall[:, None]).T.ravel(), doubtful.copy()),
        },
    )
    return table, each_step


def unknown_copies(rows: Rows) -> str:
    """Why nothing can be said of copies: their device is not known, so neither is what waited for them."""
    placed = np.array(rows.placed)
    some = ~placed[rows.device] & (rows.kind == CODE[Kind.MEMCPY])
    if not some.any():
        return ""
    names = ", ".join(name for name, one in zip(rows.devices, rows.placed, strict=True) if not one)
    return f"the trace does not tell what waited for the {int(some.sum())} copies on {names}"
