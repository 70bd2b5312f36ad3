"""How 54ffded is asked for everything that it says of a trace. Its names never change, so neither does this file.

`compare_versions.py` keeps the dumps of 54ffded as long as this file and dump_version.py stay as they are.
"""

import dataclasses
import importlib
import io
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

# The digest of its modules, which tells it from every other tracekit.
DIGEST = "3e0060d95ae0dd73"
# So many device rows, and the dump is of what is measured: the same tables as text take a minute.
LARGE = 50_000
# Which annotations stand for phases where a trace has none: no more rounds than this.
_MOST_ROUNDS = 20


class Words(str):
    """A text for people, where other texts are names or single sentences."""


def resolve(name: str) -> Any:
    """What `name` is in tracekit: `read`, or `report.contents:contents` for what is not public."""
    module, _, attribute = name.rpartition(":")
    return getattr(importlib.import_module(".".join(filter(None, ["tracekit", module]))), attribute)


class Subject:
    """One trace and what most parts ask for, each made once."""

    def __init__(self, path: str, scratch: Path) -> None:
        self.path, self.scratch = path, scratch

    @cached_property
    def trace(self) -> Any:
        """The trace as it is read."""
        return resolve("read")(self.path)

    @cached_property
    def explanation(self) -> Any:
        """What the analyses say of it."""
        return resolve("explain")(self.trace)

    @cached_property
    def report(self) -> Any:
        """The report of it."""
        return resolve("analyse")(self.trace)

    @cached_property
    def comparison(self) -> Any:
        """The report with two annotations as phases, the second compared with the first; None where it has phases, or
        no two that would do."""
        spans = self.trace.spans
        if len(self.report.phases) or len(self.trace.events) > LARGE:
            return None
        lasting = spans.assign(name=spans["name"].astype(str), lasts=spans["end_ps"] - spans["start_ps"])
        by_name = lasting.groupby("name")["lasts"].agg(["sum", "size"]).reset_index()
        few = by_name[by_name["size"] <= _MOST_ROUNDS].sort_values(["sum", "name"], ascending=[False, True])
        names = few["name"].head(2).tolist()
        return resolve("analyse")(self.trace, phases=names, baseline=names[0]) if len(names) == 2 else None

    @cached_property
    def files(self) -> Path:
        """The directory of the report's files."""
        directory = self.scratch / "report"
        resolve("save")(self.report, directory)
        return directory

    @cached_property
    def length_ps(self) -> int:
        """From the first start to the last end on a device."""
        events = self.trace.events
        return int(events["end_ps"].max() - events["start_ps"].min()) if len(events) else 0

    @cached_property
    def step(self) -> int | None:
        """The number of a step in the middle, if there are steps with numbers."""
        numbers = self.explanation.steps.table["step"].dropna().tolist()
        return numbers[len(numbers) // 2] if numbers else None


def fields(value: Any, *left_out: str) -> dict[str, Any]:
    """The public fields of a dataclass by name."""
    names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
    return {name: getattr(value, name) for name in names if name not in left_out}


def report_of(report: Any) -> dict[str, Any] | None:
    """The fields of a report, without its trace; its sections are made when they are asked for."""
    if report is None:
        return None
    inside = fields(report, "trace", "reasons")
    return {**inside, "sections": report.sections, "explanation": explanation_of(report.reasons)}


def explanation_of(reasons: Any) -> dict[str, Any]:
    """The fields of an explanation; of its rows those that are not the events again."""
    return {**fields(reasons, "rows"), "rows": fields(reasons.rows, "events")}


def _phases(at: Subject) -> dict[str, Any]:
    marked = resolve("marked")(at.trace.spans)
    table, stretch = resolve("phases")(marked, at.trace.events)
    return {"marked": marked, "table": table, "stretch": stretch}


def _figure(name: str, **options: Any) -> Callable[[Subject], Any]:
    return lambda at: resolve(name)(at.report, **options)


def _middle(at: Subject) -> Any:
    third = at.length_ps // 3
    return resolve("gantt")(at.report, start=third, end=2 * third, theme="dark", width=8) if third else None


def screen(lines: str) -> Callable[[Subject], Words]:
    """What `tracekit read` prints, by the function called `lines`."""
    return lambda at: Words("\n".join(resolve(lines)(resolve("report.contents:contents")(at.trace))))


def printouts(show: str, console: str) -> Callable[[Subject], dict[str, Words]]:
    """What `tracekit report` prints, short and full, by the functions called `show` and `console`."""

    def pages(at: Subject) -> dict[str, Words]:
        files = {"short": io.StringIO(), "full": io.StringIO()}
        for name, file in files.items():
            resolve(show)(at.report, resolve(console)(file, width=100), name == "full")
        return {name: Words(file.getvalue()) for name, file in files.items()}

    return pages


def _tables(to: str) -> Callable[[Subject], Path | None]:
    def directory(at: Subject) -> Path | None:
        if len(at.trace.events) > LARGE and to in ("csv", "json"):
            return None
        out = at.scratch / to
        files = resolve("export.write:table_files")(at.trace, to, out, None, False)
        resolve("export.write:put")(files, Path(at.path), True)
        return out

    return directory


def _perfetto(at: Subject) -> Path:
    out = at.scratch / "perfetto"
    files = resolve("export.write:perfetto_files")(at.trace, out / "trace.pftrace")
    resolve("export.write:put")(files, Path(at.path), True)
    return out


def _faces(at: Subject) -> dict[str, Words]:
    """What an interpreter and a notebook show."""
    answers = {"trace": at.trace, "explanation": at.explanation, "report": at.report}
    ways = ("__repr__", "_repr_html_")
    return {f"{name} {way}": Words(getattr(answer, way)()) for name, answer in answers.items() for way in ways}


# Key -> how it is asked; a way that gives None has nothing to say. `trace` comes first: without it there is nothing.
WAYS: dict[str, Callable[[Subject], Any]] = {
    "trace": lambda at: at.trace,
    "partition": lambda at: resolve("partition")(at.trace.events),
    "overlap": lambda at: resolve("overlap")(at.trace.events),
    "device_pairs": lambda at: resolve("device_pairs")(at.trace.events),
    "concurrency": lambda at: resolve("concurrency")(at.trace.events),
    "phases": _phases,
    "explanation": lambda at: explanation_of(at.explanation),
    "report": lambda at: report_of(at.report),
    "comparison": lambda at: report_of(at.comparison),
    "contents": lambda at: resolve("report.contents:contents")(at.trace).data,
    "screen": screen("report.screen:lines"),
    "printed": printouts("report.printed:show", "terminal:console"),
    "faces": _faces,
    "files": lambda at: at.files,
    "pictures/gantt": _figure("gantt"),
    "pictures/partition": _figure("partition_bars"),
    "pictures/concurrency": _figure("concurrency_over_time"),
    "pictures/overlap": _figure("overlap_matrix"),
    "pictures/middle": _middle,
    "pictures/step": lambda at: None if at.step is None else resolve("gantt")(at.report, step=at.step),
    "exports/parquet": _tables("parquet"),
    "exports/csv": _tables("csv"),
    "exports/json": _tables("json"),
    "exports/perfetto": _perfetto,
}
