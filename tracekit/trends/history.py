"""What `tracekit history` does: the measures of many saved reports in order, and where one changed its level."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import remote
from tracekit.columns import frame, records
from tracekit.devices import natural
from tracekit.errors import NotMeasurable, TracekitError
from tracekit.files import REPORT_FILES, SUMMARY, is_saved_report, path_of, replaced, writing
from tracekit.report.load import load
from tracekit.report.measures import MEASURES, OVERLAPS, nearest
from tracekit.report.model import Report
from tracekit.report.section import FORMATS, Unit
from tracekit.trends.change_points import FEWEST, LEVEL, change_points, shift_interval
from tracekit.units import change, confidence, number, quantity, told_apart
from tracekit.vocabulary.losses import Loss

HISTORY_COLUMNS = {
    "place": "int64",
    "run": "str",
    "commit": "str",
    "started_ns": "Int64",
    "measure": "str",
    "phase": "str",
    "value": "Float64",
    "unit": "str",
    "where": "str",
    "reason": "str",
}
CHANGE_COLUMNS = {
    "measure": "str",
    "phase": "str",
    "place": "int64",
    "run": "str",
    "before": "float64",
    "after": "float64",
    "low": "Float64",
    "high": "Float64",
    "unit": "str",
    "runs_before": "int64",
    "runs_after": "int64",
    "p": "float64",
}
# The measures that are followed, unless others are asked for; an overlap is named with what overlaps.
FOLLOWED = ("step-time", "wall", "idle", "overlap devices", "overlap collective", "exposed-collective", "exposed-copy")


# So many runs that do not stand in a row are named.
_MOST_NAMED = 4
# Measures that only the whole trace has, and those that only a phase has.
_OF_WHOLE, _OF_PHASE = frozenset({"step-time"}), frozenset({"speedup"})


@dataclass(frozen=True)
class Presence:
    """From `run` on a series has values where it had none (`came`), or none any more: `level` is their median, `p` how
    often chance puts all runs with a value on one side."""

    run: str
    came: bool
    level: float
    runs_before: int
    runs_after: int
    p: float


@dataclass(frozen=True)
class Series:
    """A measure of one scope over the runs: `rows` of the table, and those of the `changes` of its level.

    `phase` is the phase that it is of, None for the steady steps or the whole trace.
    """

    measure: str
    phase: str | None
    unit: Unit
    rows: pd.DataFrame
    changes: pd.DataFrame

    @property
    def title(self) -> str:
        """The measure and the phase, if it is of one."""
        return self.measure if self.phase is None else f"{self.measure} of {self.phase}"

    def text(self, value: object) -> str:
        """A value of the series as people read it."""
        return FORMATS[self.unit](value)

    def levels(self, row: Mapping[str, Any]) -> tuple[str, str]:
        """The levels before and after a change, a row of `changes`, with as many digits as tell them apart."""
        before, after = told_apart([row["before"], row["after"]], self.text)
        return before, after

    @property
    def presence(self) -> "Presence | None":
        """From which run on the measure has values, or none any more; None where it is not so, or where chance puts the
        runs with a value on one side more often than LEVEL: of n runs with k values 2 of (n over k) arrangements."""
        has_value = self.rows["value"].notna().to_numpy()
        n, there = len(has_value), int(has_value.sum())
        places = np.flatnonzero(has_value[1:] != has_value[:-1]) + 1
        if n < FEWEST or len(places) != 1 or (p := 2 / comb(n, there)) > LEVEL:
            return None
        at, level = int(places[0]), float(self.rows["value"].dropna().median())
        return Presence(str(self.rows["run"].iloc[at]), bool(has_value[at]), level, at, n - at, p)


@dataclass(frozen=True)
class History:
    """The measures of the saved reports in a directory.

    `table` (HISTORY_COLUMNS) has one row a run and measure, the runs in order (`place`, from 0): a value or the reason
    why there is none, times in ps; `phase` is null for the steady steps, or where they are not told apart the whole
    trace, `commit` where none was captured. `changes` (CHANGE_COLUMNS): from which run on a measure has another level,
    the medians before and after up to the next change, over so many runs; `low` and `high` bound the new level minus
    the old one with a confidence of 95 %, null where the runs are too few for that; `p` is how often chance looks like
    that. `notes` say what else is to be known.
    """

    table: pd.DataFrame
    changes: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def runs(self) -> list[str]:
        """The names of the runs, in order."""
        return list(dict.fromkeys(self.table["run"]))

    @property
    def commits(self) -> list[str]:
        """The git commit of each run, "" where it is not known."""
        return list(self.table.drop_duplicates("run")["commit"].fillna(""))

    @property
    def labels(self) -> dict[str, str]:
        """What each run is called in a picture: its commit, or where that is not known its name."""
        return {run: commit or run for run, commit in zip(self.runs, self.commits, strict=True)}

    @property
    def headline(self) -> str:
        """How many changes of level there are, or that so few runs cannot tell."""
        runs, found = quantity(len(self.runs), "run"), len(self.changes)
        if len(self.runs) < FEWEST:
            return f"{runs}: too few to tell a change of level"
        moved = len(self.came_or_went)
        more = f", {quantity(moved, 'measure')} came or went" if moved else ""
        return f"{runs}: {quantity(found, 'change') if found else 'no change'} of level{more}"

    @property
    def sentences(self) -> list[str]:
        """The changes in words; or that there are none, or too few runs to tell."""
        runs, series = len(self.runs), series_of(self)
        if runs < FEWEST:
            return [f"{quantity(runs, 'run')}: a change of level could be told from chance with {FEWEST} or more."]
        words = [
            f"{each.title} changed with {self.named(row['run'])}: {_in_words(each, row)}."
            for each in series
            for row in records(each.changes)
        ]
        return [*words, *self.came_or_went] or [f"No measure changed its level over {runs} runs."]

    @property
    def came_or_went(self) -> list[str]:
        """The measures that all runs have from one on and none before, or the other way round, in words."""
        said = []
        for each in series_of(self):
            if its := each.presence:
                run, level = self.named(its.run), f"{each.text(its.level)} in the median"
                words = (
                    f"values from {run} on, {level}, and none before"
                    if its.came
                    else f"no value from {run} on, {level} before"
                )
                sure = f"p = {number(its.p)}, {its.runs_before} runs before and {its.runs_after} after"
                said.append(f"{each.title} has {words} ({sure}).")
        return said

    def named(self, run: str) -> str:
        """A run in a sentence: its name, and its commit where that is known."""
        commit = self.commits[self.runs.index(run)]
        return f"{run} (commit {commit})" if commit else run

    @property
    def about_chance(self) -> str:
        """How many of the changes chance alone may have made."""
        followed = sum(len(each.rows["value"].dropna()) >= FEWEST for each in series_of(self))
        return (
            f"Chance gives a change like these in {confidence(LEVEL)} of series; {followed} could show one here. "
            "Outliers are no change of level."
        )

    def save(self, path: str | os.PathLike[str]) -> Path | str:
        """Write the table as Parquet, and return its path."""
        place = remote.place(path)
        try:
            with remote.written(place) as file:
                file.parent.mkdir(parents=True, exist_ok=True)

                def write(draft: Path) -> None:
                    with writing(draft) as table:
                        self.table.to_parquet(table, index=False)

                replaced(file, write)
        except OSError as error:
            raise TracekitError(f"The history cannot be written to {place}: {error}.") from None
        return place


def series_of(result: History) -> list[Series]:
    """Each measure of each scope, in order."""
    return [
        Series(measure, phase, Unit(rows["unit"].iloc[0]), rows, result.changes[_of(result.changes, measure, phase)])
        for measure, phase in _keys(result.table)
        for rows in [result.table[_of(result.table, measure, phase)]]
    ]


def history(
    directory: str | os.PathLike[str], measures: Sequence[str] = FOLLOWED, phases: Sequence[str] | None = ()
) -> History:
    """The measures of all saved reports below `directory`, in the order of their captures, and where they changed.

    Reports whose traces do not tell when they began are in the order of their paths, then all of them. `measures` are
    names of `Report.measure`; an overlap is "overlap" and what overlaps, as in "overlap devices". They are followed in
    the steady steps, or the whole trace where these are not told apart, and in each of the `phases`; None stands for
    those that every report has. Raises TracekitError where there is no report, no such measure, or no such phase.
    """
    asked = [(name, *_named(name)) for name in measures]
    with remote.fetched(path_of(directory, "a directory of saved reports"), *REPORT_FILES) as root:
        runs = _runs(root)
    if all(started is not None for _, _, started in runs):
        runs.sort(key=lambda run: run[2] or 0)
    reports = [report for _, report, _ in runs]
    scopes = _scopes(asked, _phases(reports, phases))
    apart = _not_whole([(run, report) for run, report, _ in runs])
    rows = [
        {
            "place": place,
            "run": run,
            "commit": report.trace.commit or None,
            "started_ns": started,
            "measure": name,
            "phase": phase,
            **_measured(report, measure, of, phase, apart.get(run, "")),
        }
        for place, (run, report, started) in enumerate(runs)
        for phase, name, measure, of in scopes
    ]
    table = frame(HISTORY_COLUMNS, {column: [row[column] for row in rows] for column in HISTORY_COLUMNS})
    notes = [*_mixed([(run, report) for run, report, _ in runs]), *_of_apart(apart)]
    return History(table, _changes(table), tuple(notes))


def _runs(root: Path) -> list[tuple[str, Report, int | None]]:
    """The saved reports below a directory by their paths there, and when their captures began."""
    places = sorted(
        (file.parent for file in root.rglob(SUMMARY) if is_saved_report(file.parent)), key=lambda at: natural(str(at))
    )
    if not places:
        raise TracekitError(f"{root} holds no saved report: tracekit report TRACE --out {root}/NAME makes one.")
    return [(str(place.relative_to(root)), report, _started_ns(report)) for place in places for report in [load(place)]]


def _named(name: str) -> tuple[str, str | None]:
    measure, _, of = name.partition(" ")
    if measure not in MEASURES or (of and of not in OVERLAPS) or (measure == "overlap") != bool(of):
        names = [each for each in MEASURES if each != "overlap"] + [f"overlap {of}" for of in OVERLAPS]
        raise TracekitError(f"There is no measure {name!r}{nearest(name, tuple(names))}")
    return measure, of or None


def _phases(reports: Sequence[Report], phases: Sequence[str] | None) -> list[str]:
    """The phases to follow, None standing for those that every report has."""
    if phases is None:
        return [name for name in reports[0].inside if all(name in report.inside for report in reports)]
    there = dict.fromkeys(name for report in reports for name in report.inside)
    for name in phases:
        if name not in there:
            known = nearest(name, there) if there else ": no report marks a phase."
            raise TracekitError(f"No report has a phase {name!r}{known}")
    return list(dict.fromkeys(phases))


def _scopes(
    asked: Sequence[tuple[str, str, str | None]], phases: Sequence[str]
) -> list[tuple[str | None, str, str, str | None]]:
    """The phase, or None, and the measure of each series; of a measure only where it has one."""
    if not phases and any(measure in _OF_PHASE for _, measure, _ in asked):
        raise TracekitError("A speedup is that of a phase: name the phase (--phase NAME).")
    return [
        (phase, name, measure, of)
        for phase in (None, *phases)
        for name, measure, of in asked
        if measure not in (_OF_PHASE if phase is None else _OF_WHOLE)
    ]


def _started_ns(report: Report) -> int | None:
    """When the capture began, in ns since 1970; None where its clocks count from something else."""
    known = report.trace.clocks["origin_ns"].dropna().to_numpy(np.int64, na_value=0)
    return int(known.min()) if len(known) and known.min() > 10**18 else None


def _not_whole(runs: Sequence[tuple[str, Report]]) -> dict[str, str]:
    """What is missing from the trace of each run that lacks ranks, where others lack none: none of its measures is one
    of the same devices. Where all lack some, as by design, they are followed."""
    found = {run: report.not_whole for run, report in runs if _lacks_ranks(report)}
    return found if len(found) < len(runs) else {}


def _lacks_ranks(report: Report) -> bool:
    known, several = report.explanation.completeness, len(report.trace.hosts) > 1
    of_ranks = known.losses["what"].isin([Loss.RANKS.value, Loss.FILES.value, Loss.STEPS.value])
    return bool(of_ranks.any()) or (several and len(known.groups) > 0)


def _of_apart(apart: Mapping[str, str]) -> list[str]:
    """The note on runs that are left out."""
    if not apart:
        return []
    run, why = next(iter(apart.items()))
    such = run if len(apart) == 1 else f"{quantity(len(apart), 'run')}, such as {run},"
    verb, its = ("has", "its") if len(apart) == 1 else ("have", "their")
    return [f"{such} {verb} no value here, as {its} trace {why}"]


def _measured(report: Report, name: str, of: str | None, phase: str | None, apart: str) -> dict[str, object]:
    if apart:
        return {"value": None, "unit": str(MEASURES[name][0]), "where": None, "reason": f"The trace {apart}"}
    try:
        measure = report.measure(name, of=of, phase=phase)
    except NotMeasurable as reason:
        return {"value": None, "unit": str(MEASURES[name][0]), "where": None, "reason": str(reason)}
    return {"value": float(measure.value), "unit": str(measure.unit), "where": measure.where, "reason": None}


def _mixed(runs: Sequence[tuple[str, Report]]) -> list[str]:
    """That the measures are of steady steps in some runs and of the whole trace in others: no change of the program."""
    steady = [run for run, report in runs if report.steady is not None]
    others = [run for run, report in runs if report.steady is None]
    if not (steady and others):
        return []
    return [
        f"Measured in their steady steps: {quantity(len(steady), 'run')}, such as {steady[0]}; in the whole trace, "
        f"where these are not told apart: {len(others)}, such as {others[0]}. A change between them may be this alone."
    ]


def _keys(table: pd.DataFrame) -> list[tuple[str, str | None]]:
    """The measure and the phase, None for the whole, of each series."""
    pairs = zip(table["measure"], table["phase"].isna(), table["phase"], strict=True)
    return list(dict.fromkeys((measure, None if is_whole else phase) for measure, is_whole, phase in pairs))


def _of(table: pd.DataFrame, measure: str, phase: str | None) -> "pd.Series[bool]":
    is_there = table["phase"].isna() if phase is None else table["phase"] == phase
    return (table["measure"] == measure) & is_there


def _changes(table: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for name, phase in _keys(table):
        of_measure = table[_of(table, name, phase)].dropna(subset="value")
        values, runs = of_measure["value"].to_numpy(float), list(of_measure["run"])
        places = of_measure["place"].to_list()
        points = change_points(values)
        edges = [0, *(point.at for point in points), len(values)]
        for place, point in enumerate(points):
            before, after = values[edges[place] : point.at], values[point.at : edges[place + 2]]
            low, high = shift_interval(before, after) or (None, None)
            rows.append(
                {
                    "measure": name,
                    "phase": phase,
                    "place": places[point.at],
                    "run": runs[point.at],
                    "before": float(np.median(before)),
                    "after": float(np.median(after)),
                    "low": low,
                    "high": high,
                    "unit": of_measure["unit"].iloc[0],
                    "runs_before": len(before),
                    "runs_after": len(after),
                    "p": point.p,
                }
            )
    return frame(CHANGE_COLUMNS, {column: [row[column] for row in rows] for column in CHANGE_COLUMNS})


def _in_words(series: Series, row: Mapping[str, Any]) -> str:
    """A change: the levels, by how much with its interval, and how sure it is."""
    by = f", {change(row['after'] / row['before'])}" if row["before"] else ""
    sure = f"p = {number(row['p'])}, {row['runs_before']} runs before and {row['runs_after']} after"
    before, after = series.levels(row)
    return f"{after} instead of {before}{by}{interval(series, row)} ({sure})"


def interval(series: Series, row: Mapping[str, Any]) -> str:
    """Between which bounds a change lies, relative to the old level unless that is 0, as the end of a clause; "" where
    the runs are too few for that."""
    if pd.isna(row["low"]):
        return ""
    bounds = [row["low"], row["high"]]
    if row["before"]:
        return f" [{', '.join(change(1 + bound / row['before']) for bound in bounds)}]"
    return f" [{', '.join(series.text(bound) for bound in bounds)}]"


def lines(result: History) -> list[str]:
    """The history as text: for each scope one line a run with its measures, then the changes and what is missing."""
    found = []
    for phase in dict.fromkeys(each.phase for each in series_of(result)):
        found += [*([f"phase {phase}"] if phase is not None else []), *_table_lines(result, phase), ""]
    return [*found, *result.sentences, *result.notes, *reasons(result)]


def reasons(result: History) -> list[str]:
    """Why series have no value, and in which runs where others have one."""
    said = []
    for each in series_of(result):
        for reason in dict.fromkeys(each.rows["reason"].dropna()):
            of = (each.rows["reason"] == reason).to_numpy(bool, na_value=False)
            said.append(f"{each.title}: {'' if of.all() else f'in {_runs_words(result.runs, of)}: '}{reason}")
    return said


def _runs_words(runs: Sequence[str], of: NDArray[np.bool_]) -> str:
    """How many runs these are, and which: the first and the last of a row of them, else the first ones."""
    at = np.flatnonzero(of).tolist()
    names = [runs[place] for place in at]
    if len(names) > 2 and at[-1] - at[0] == len(at) - 1:
        which = f"{names[0]} to {names[-1]}"
    else:
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        which = f"{', '.join(names[:_MOST_NAMED])}{more}"
    return f"{len(names)} of {quantity(len(runs), 'run')} ({which})"


def _table_lines(result: History, phase: str | None) -> list[str]:
    columns = [each for each in series_of(result) if each.phase == phase]
    values = [[each.measure, *(each.text(value) for value in each.rows["value"])] for each in columns]
    names = [["run", *result.runs], *([["commit", *result.commits]] if any(result.commits) else [])]
    cells = zip(*names, *values, strict=True)
    widths = [max(map(len, column)) for column in [*names, *values]]
    return [
        "  ".join(
            cell.ljust(width) if place < len(names) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    ]
