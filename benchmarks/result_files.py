"""The results of benchmarks as files, one each in benchmarks/results: every round of a row, and where it was measured.

A row that could not be measured again, as of a peer that is not installed here, keeps what was measured of it last.
"""

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"

# Of each row its figures, each a value a round; or why there are none.
Rows = Mapping[str, Mapping[str, list[float]] | str]


@dataclass(frozen=True)
class Run:
    """When and where rows were measured: the date, the machine in words, the rounds, and facts such as events."""

    date: str
    machine: str
    rounds: int
    facts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """The figures of a row, each a value a round, and which run they are of; `skipped` says why not of the last."""

    run: int
    figures: dict[str, list[float]]
    skipped: str = ""


@dataclass(frozen=True)
class Results:
    """What was measured of a benchmark: runs, the last one last, and rows by name."""

    runs: list[Run]
    rows: dict[str, Row]

    @property
    def last(self) -> Run:
        """The newest run."""
        return self.runs[-1]

    def median(self, row: str, key: str) -> float | None:
        """The median over the rounds; None where it was not measured."""
        values = self.rows[row].figures.get(key) if row in self.rows else None
        return statistics.median(values) if values else None

    def ratios(self, row: str, base: str, key: str) -> list[float]:
        """How many times the figure of `row` is that of `base`: round by round where one run measured both, since what
        slows a round slows both; else of the medians. Empty where one was not measured."""
        if row not in self.rows or base not in self.rows:
            return []
        its, others = self.rows[row], self.rows[base]
        values, of_base = its.figures.get(key, []), others.figures.get(key, [])
        if its.run != others.run or len(values) != len(of_base):
            values, of_base = [[statistics.median(rounds)] if rounds else [] for rounds in (values, of_base)]
        return [value / other for value, other in zip(values, of_base, strict=False) if other]


def merged(before: Results | None, run: Run, rows: Rows) -> Results:
    """The results with a new run: its rows, and of those that it skipped what was measured `before` on as many events.

    Runs of which no row is left are dropped. A row that was never measured is left out.
    """
    old = before or Results([], {})
    new = len(old.runs)
    found: dict[str, Row] = {}
    for name, figures in rows.items():
        if not isinstance(figures, str):
            found[name] = Row(new, {key: list(values) for key, values in figures.items()})
        elif name in old.rows and old.runs[old.rows[name].run].facts.get("events") == run.facts.get("events"):
            found[name] = Row(old.rows[name].run, old.rows[name].figures, figures)
    runs = [*old.runs, run]
    used = sorted({row.run for row in found.values()} | {new})
    place = {number: at for at, number in enumerate(used)}
    return Results(
        [runs[number] for number in used],
        {name: Row(place[row.run], row.figures, row.skipped) for name, row in found.items()},
    )


def read(name: str, directory: Path = RESULTS) -> Results | None:
    """The results of a benchmark; None where it was never measured."""
    path = directory / f"{name}.json"
    if not path.exists():
        return None
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return Results([Run(**run) for run in document["runs"]], {row: Row(**its) for row, its in document["rows"].items()})


def write(name: str, results: Results, directory: Path = RESULTS) -> Path:
    """Write the results of a benchmark, figures to six digits; returns the file."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.json"
    path.write_text(text(results), "utf-8")
    return path


def text(results: Results) -> str:
    """The file: a run and a row each on a line."""
    runs = [json.dumps(asdict(run), ensure_ascii=False) for run in results.runs]
    rows = [
        f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(asdict(row) | {'figures': _rounded(row.figures)})}"
        for name, row in results.rows.items()
    ]
    return "\n".join(['{"runs": [', ",\n".join(runs), "],", '"rows": {', ",\n".join(rows), "}}"]) + "\n"


def _rounded(figures: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """Six digits: more than any clock here tells, and few enough for a small file."""
    return {key: [float(f"{value:.6g}") for value in values] for key, values in figures.items()}
