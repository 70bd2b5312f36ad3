"""What `tracekit history` does: the measures of many saved reports in order, and where one changed its level."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tracekit.columns import frame, records
from tracekit.devices import natural
from tracekit.errors import NotMeasurable, TracekitError
from tracekit.files import SUMMARY, is_saved_report, path_of, replaced
from tracekit.report.load import load
from tracekit.report.measures import MEASURES, OVERLAPS, nearest
from tracekit.report.model import Report
from tracekit.report.section import FORMATS, Unit
from tracekit.trends.change_points import FEWEST, change_points
from tracekit.units import change, number, quantity

HISTORY_COLUMNS = {
    "run": "str",
    "started_ns": "Int64",
    "measure": "str",
    "value": "Float64",
    "unit": "str",
    "where": "str",
    "reason": "str",
}
CHANGE_COLUMNS = {
    "measure": "str",
    "run": "str",
    "before": "float64",
    "after": "float64",
    "unit": "str",
    "runs_before": "int64",
    "runs_after": "int64",
    "p": "float64",
}
# The measures that are followed, unless others are asked for; an overlap is named with what overlaps.
FOLLOWED = ("step-time", "wall", "idle", "overlap devices", "overlap collective", "exposed-collective", "exposed-copy")


@dataclass(frozen=True)
class History:
    """The measures of the saved reports in a directory.

    `table` (HISTORY_COLUMNS) has one row a run and measure, the runs in order: a value or the reason why there is none,
    times in ps. `changes` (CHANGE_COLUMNS): from which run on a measure has another level, the medians before and
    after up to the next change, over so many runs, and how often chance looks like that (`p`).
    """

    table: pd.DataFrame
    changes: pd.DataFrame

    @property
    def sentences(self) -> list[str]:
        """The changes in words; or that there are none, or too few runs to tell."""
        runs = self.table["run"].nunique()
        if runs < FEWEST:
            return [f"{quantity(runs, 'run')}: a change of level could be told from chance with {FEWEST} or more."]
        words = [
            f"{row['measure']} changed with {row['run']}: {FORMATS[Unit(row['unit'])](row['after'])} instead of "
            f"{FORMATS[Unit(row['unit'])](row['before'])}"
            + (f", {change(row['after'] / row['before'])}" if row["before"] else "")
            + f" (p = {number(row['p'])}, {row['runs_before']} runs before and {row['runs_after']} after)."
            for row in records(self.changes)
        ]
        return words or [f"No measure changed its level over {runs} runs."]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the table as Parquet, and return its path."""
        place = Path(path)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            replaced(place, lambda draft: self.table.to_parquet(draft, index=False))
        except OSError as error:
            raise TracekitError(f"The history cannot be written to {place}: {error}.") from None
        return place


def history(directory: str | os.PathLike[str], measures: Sequence[str] = FOLLOWED) -> History:
    """The measures of all saved reports below `directory`, in the order of their captures, and where they changed.

    Reports whose traces do not tell when they began are in the order of their paths, then all of them. `measures` are
    names of `Report.measure`; an overlap is "overlap" and what overlaps, as in "overlap devices". Raises TracekitError
    where there is no report, or no such measure.
    """
    asked = [(name, *_named(name)) for name in measures]
    root = path_of(directory, "a directory of saved reports")
    places = sorted(
        (file.parent for file in root.rglob(SUMMARY) if is_saved_report(file.parent)), key=lambda at: natural(str(at))
    )
    if not places:
        raise TracekitError(f"{root} holds no saved report: tracekit report TRACE --out {root}/NAME makes one.")
    runs = [(str(place.relative_to(root)), report, _started_ns(report)) for place in places for report in [load(place)]]
    if all(started is not None for _, _, started in runs):
        runs.sort(key=lambda run: run[2] or 0)
    rows = [
        {"run": run, "started_ns": started, "measure": name, **_measured(report, measure, of)}
        for run, report, started in runs
        for name, measure, of in asked
    ]
    table = frame(HISTORY_COLUMNS, {column: [row[column] for row in rows] for column in HISTORY_COLUMNS})
    return History(table, _changes(table))


def _named(name: str) -> tuple[str, str | None]:
    measure, _, of = name.partition(" ")
    if measure not in MEASURES or (of and of not in OVERLAPS) or (measure == "overlap") != bool(of):
        names = [each for each in MEASURES if each != "overlap"] + [f"overlap {of}" for of in OVERLAPS]
        raise TracekitError(f"There is no measure {name!r}{nearest(name, tuple(names))}")
    return measure, of or None


def _started_ns(report: Report) -> int | None:
    """When the capture began, in ns since 1970; None where its clocks count from something else."""
    known = report.trace.clocks["origin_ns"].dropna().to_numpy(np.int64, na_value=0)
    return int(known.min()) if len(known) and known.min() > 10**18 else None


def _measured(report: Report, name: str, of: str | None) -> dict[str, object]:
    try:
        measure = report.measure(name, of=of)
    except NotMeasurable as reason:
        return {"value": None, "unit": str(MEASURES[name][0]), "where": None, "reason": str(reason)}
    return {"value": float(measure.value), "unit": str(measure.unit), "where": measure.where, "reason": None}


def _changes(table: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for name, of_measure in table.dropna(subset="value").groupby("measure", sort=False):
        values, runs = of_measure["value"].to_numpy(float), list(of_measure["run"])
        points = change_points(values)
        edges = [0, *(point.at for point in points), len(values)]
        for place, point in enumerate(points):
            before, after = values[edges[place] : point.at], values[point.at : edges[place + 2]]
            rows.append(
                {
                    "measure": name,
                    "run": runs[point.at],
                    "before": float(np.median(before)),
                    "after": float(np.median(after)),
                    "unit": of_measure["unit"].iloc[0],
                    "runs_before": len(before),
                    "runs_after": len(after),
                    "p": point.p,
                }
            )
    return frame(CHANGE_COLUMNS, {column: [row[column] for row in rows] for column in CHANGE_COLUMNS})


def lines(result: History) -> list[str]:
    """The history as text: one line a run with its measures, then the changes."""
    names = list(dict.fromkeys(result.table["measure"]))
    cells = [["run", *names]]
    for run, rows in result.table.groupby("run", sort=False):
        values = {row["measure"]: FORMATS[Unit(row["unit"])](row["value"]) for row in records(rows)}
        cells.append([str(run), *(values[name] for name in names)])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    table = [
        "  ".join(cell.ljust(width) if not place else cell.rjust(width) for place, (cell, width) in enumerate(row))
        for row in (list(zip(line, widths, strict=True)) for line in cells)
    ]
    reasons = result.table.dropna(subset="reason").drop_duplicates(["measure", "reason"])
    return [*table, "", *result.sentences, *(f"{row['measure']}: {row['reason']}" for row in records(reasons))]
