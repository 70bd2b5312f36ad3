"""What a comparison is: plain data of two sides, of each scope that both have, and the verdict."""

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from tracekit import notebook
from tracekit.analysis.steps import PARTS
from tracekit.analysis.top_ops import PHASE, STEP, WHOLE
from tracekit.columns import records
from tracekit.comparison.comparability import Caution
from tracekit.comparison.operations import Operations
from tracekit.comparison.sides import Capture
from tracekit.comparison.verdict import Verdict
from tracekit.errors import TracekitError
from tracekit.report.section import plain

CELL_COLUMNS = {
    "cell": "str",
    "a_ps": "int64",
    "b_ps": "int64",
    "diff_ps": "int64",
    "low_ps": "Int64",
    "high_ps": "Int64",
}
DEVICE_COLUMNS = {
    "a": "str",
    "b": "str",
    **{f"{side}_{part}_ps": "int64" for part in PARTS for side in "ab"},
}
PART_COLUMNS = {"part": "str", "a_ps": "int64", "b_ps": "int64", "diff_ps": "int64"}
# The cells of a unit as people read them, by the parts of PARTS.
PART_WORDS = {
    "compute": "compute",
    "collective": "exposed collectives",
    "memory": "exposed copies",
    "idle": "idle",
}
IDLE = "idle: "
"""What the name of a part of the waterfall begins with that is idle time of one cause."""


@dataclass(frozen=True, eq=False)
class Side:
    """One variant of a comparison: its `name`, the `sources` of its captures, and the `captures` themselves."""

    name: str
    sources: tuple[str, ...]
    captures: tuple[Capture, ...]


@dataclass(frozen=True, eq=False)
class ScopeComparison:
    """One scope of both sides: all of the trace, the steps that count, or the rounds of a phase.

    `kind` is "whole", "step" or "phase", `name` that of the steps or the phase, `unit` what one of them is called, and
    `units` how many of each side are compared. `verdict` is that on the time of a unit; None where a window holds
    several steps, whose number is a choice. Times are picoseconds of a unit, means over units and devices, rounded so
    that their parts sum exactly: `cells` (CELL_COLUMNS) the wall and its parts with the interval of the difference
    within these runs; `waterfall` (PART_COLUMNS) the same parts, idle time by cause, whose differences sum to that of
    the wall; `ratios` (RATIO_COLUMNS of comparison.ratios) what part of collectives and copies ran behind compute, and
    what part of the time devices were busy, each by itself and at once; `devices` (DEVICE_COLUMNS) each device beside
    the one of the same place on the other side, where there are as many; `path`
    (PART_COLUMNS) the critical path of a step. `operations` are paired. `notes` say what is not as it may seem.
    """

    kind: str
    name: str
    unit: str
    units: tuple[int, int]
    verdict: Verdict | None
    cells: pd.DataFrame
    waterfall: pd.DataFrame
    ratios: pd.DataFrame
    devices: pd.DataFrame
    path: pd.DataFrame
    operations: Operations
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What people read for its name."""
        return {WHOLE: "whole trace", STEP: f"step ({self.name})", PHASE: f"phase {self.name}"}[self.kind]

    def cell(self, name: str) -> dict[str, Any]:
        """The row of `cells` called `name`, such as "idle"."""
        (row,) = [row for row in records(self.cells) if row["cell"] == name]
        return row


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Variant b against variant a.

    `headline` is the result in one sentence. `a` and `b` are the sides. `scopes` are what both have, the one that the
    verdict is on first; none where nothing can be compared. `cautions` say what is not the same on both sides.
    `is_same` tells that both are one trace. `missing` names what is not compared.
    """

    headline: str
    a: Side
    b: Side
    scopes: tuple[ScopeComparison, ...]
    cautions: tuple[Caution, ...]
    is_same: bool
    missing: tuple[str, ...] = ()

    @property
    def main(self) -> ScopeComparison | None:
        """The scope that the verdict is on: the steps, or the phases that take longest; the window only where there are
        neither."""
        return next(iter(self.scopes), None)

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the change: that on the wall of the main scope."""
        return self.main.verdict if self.main else None

    def scope(self, kind: str, name: str | None = None) -> ScopeComparison:
        """The scope of a kind ("whole", "step", "phase") and a name; raises TracekitError where there is none."""
        for scope in self.scopes:
            if scope.kind == kind and name in (None, scope.name):
                return scope
        there = ", ".join(scope.label for scope in self.scopes) or "none"
        raise TracekitError(f"The comparison has no scope {kind} {name or ''}: it has {there}.")

    def summary(self) -> dict[str, Any]:
        """What comparison.json says: integers are picoseconds of a unit, ratios those of b over a."""
        return {
            "schema": 1,
            "headline": self.headline,
            "a": {"name": self.a.name, "sources": list(self.a.sources)},
            "b": {"name": self.b.name, "sources": list(self.b.sources)},
            "same": self.is_same,
            "cautions": [{"what": its.what, "a": its.a, "b": its.b, "sentence": its.sentence} for its in self.cautions],
            "missing": list(self.missing),
            "scopes": [_plain(scope) for scope in self.scopes],
        }

    def __repr__(self) -> str:
        return notebook.line(self, self.headline)


def _plain(scope: ScopeComparison) -> dict[str, Any]:
    its = scope.verdict
    return {
        "kind": scope.kind,
        "name": scope.name or None,
        "unit": scope.unit,
        "units": list(scope.units),
        "verdict": its
        and {
            "outcome": its.outcome.value,
            "reason": its.reason,
            "a_ps": its.a_ps,
            "b_ps": its.b_ps,
            "statistic": its.statistic,
            "ratio": its.ratio,
            "low": its.low,
            "high": its.high,
            "level": its.level,
            "within_runs_only": its.within,
            "captures": list(its.captures),
            "control": its.control,
            "modes": [found and vars(found) for found in its.modes],
            "of_typical": its.of_typical.value,
            "mean": its.mean and asdict(its.mean),
        },
        "cells": plain(scope.cells),
        "waterfall": plain(scope.waterfall),
        "ratios": plain(scope.ratios),
        "devices": plain(scope.devices),
        "critical_path": plain(scope.path),
        "operations": plain(scope.operations.table),
        "paired_by": scope.operations.paired_by,
        "pairing": scope.operations.why,
        "notes": list(scope.notes),
    }
