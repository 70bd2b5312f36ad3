"""How the tree is asked for what 54ffded says of a trace, where a name or what is inside an answer has changed since.

Each way gives what version_first.py gives under that key, so that both can be compared: what moved is put back in its
place here. What only has another name stands in RENAMED_KEYS, RENAMED_NAMES and RENAMED_VALUES.
"""

import io
import json
import shutil
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import version_first
from version_first import LARGE, Words, fields, resolve


class Subject(version_first.Subject):
    """A trace as 54ffded is given it; what is made of it in another way today overrides that here."""

    @cached_property
    def timeline(self) -> Any:
        """The trace in order."""
        return resolve("timeline.timeline:timeline_of")(self.trace)

    @cached_property
    def files(self) -> Path:
        """The directory of the report's files."""
        directory = self.scratch / "report"
        resolve("report")(self.timeline, directory)
        shutil.rmtree(directory / "frames")  # 54ffded had none
        summary = json.loads((directory / "summary.json").read_text("utf-8"))
        del summary["report"]
        summary["verdicts"] = _verdicts(summary.pop("verdict"), summary["verdicts"])
        (directory / "summary.json").write_text(json.dumps(summary), "utf-8")
        return directory


# What a report is about where it compares phases, and what 54ffded's report held beside the frames.
_REPORTED = [
    *("windows", "whole", "inside", "verdicts", "headline", "notes", "known_by", "guessed", "advice", "compared"),
]


def _unions(unions: Any, stretches: bool) -> dict[str, Any]:
    """The unions; of stretches without what did nothing in them, which 54ffded left out."""
    inside = fields(unions)
    for name in ("devices", "unplaced"):
        devices = {device: fields(sets) for device, sets in inside[name].items()}
        for sets in devices.values():
            directions = sets["directions"].items()
            sets["directions"] = {way: each for way, each in directions if len(each) or not stretches}
        kinds = ("compute", "collective", "memory")
        inside[name] = {
            device: sets for device, sets in devices.items() if not stretches or any(len(sets[kind]) for kind in kinds)
        }
    return inside


def _explanation(answers: Any, timeline: Any, stretches: bool = False) -> dict[str, Any]:
    ordered = {"place": timeline.place, "launch": timeline.launch, "step": timeline.steps.step_of}
    rows = fields(timeline.rows, "events")
    return {**ordered, "seen": _unions(timeline.unions, stretches), **fields(answers, "devices", "rows"), "rows": rows}


def _report(report: Any, timeline: Any) -> dict[str, Any] | None:
    if report is None:
        return None
    stretches = report.compared_rounds is not None
    of = timeline.inside(report.compared_rounds) if stretches else timeline
    inside = {name: getattr(report, name) for name in _REPORTED}
    inside |= {"marks": report.phases.rounds, "phases": report.phases.table, "stretch": report.phases.stretch}
    inside["shown"] = report.extent
    inside["verdicts"] = _verdicts(report.verdict, report.verdicts)
    inside["whole"] = fields(report.whole) | {"name": "whole trace"}
    since = resolve("report.model:time_zero")(report).since
    sections = [_section(section, since) for section in report.sections]
    return {**inside, "sections": sections, "explanation": _explanation(report.explanation, of, stretches)}


def _verdicts(verdict: str | None, verdicts: dict[str, str]) -> dict[str, str]:
    """The verdicts with that on the whole trace among them."""
    return ({} if verdict is None else {"whole trace": verdict}) | verdicts


def _section(section: Any, since: Any) -> dict[str, Any]:
    """A typed section as the texts that it was; `since` counts an instant from time 0."""
    findings = [f"{finding.sentence} Try: {finding.action}" for finding in section.findings]
    brief = resolve("report.section:brief_text")
    tables = [(table.title, brief(table, 60, since)) for table in section.tables if table.brief]
    return {
        "key": section.key,
        "title": section.title,
        "said": [*findings, *section.sentences],
        "tables": [(title, head, rows) for title, (head, *rows) in tables],
        "data": section.data,
        "lacking": section.lacking,
    }


def _phases(at: Subject) -> dict[str, Any]:
    answer = resolve("phases")(at.trace)
    return {
        "marked": resolve("analysis.phases:phase_marks")(at.trace.spans),
        "table": answer.table,
        "stretch": answer.stretch,
    }


def _figure(what: str) -> Callable[[Subject], Any]:
    """A picture of the whole, titled as in the report."""

    def drawing(at: Subject) -> Any:
        selection = resolve("report.figures.selection:select")(at.timeline, at.report)
        return resolve("report.figures.figure:draw")(selection, what)

    return drawing


def _middle(at: Subject) -> Any:
    third = at.length_ps // 3
    if not third:
        return None
    return resolve("figure")(at.timeline, "gantt", start=third, end=2 * third, theme="dark", width=8)


def _printout(at: Subject) -> dict[str, Words]:
    files = {"short": io.StringIO(), "full": io.StringIO()}
    for name, file in files.items():
        console = resolve("console:console")(file, width=100)
        resolve("report.terminal.printout:show")(at.report, console, name == "full", at.timeline)
    return {name: Words(file.getvalue()) for name, file in files.items()}


def _export_to(to: str, name: str = "") -> Callable[[Subject], Path | None]:
    def directory(at: Subject) -> Path | None:
        if len(at.trace.events) > LARGE and to in ("csv", "json"):
            return None
        resolve("export")(at.trace, at.scratch / to / name, to=to)
        return at.scratch / to

    return directory


def _contents(at: Subject) -> Any:
    return resolve("report.trace_contents:contents")(at.trace)


# Only what changed: all other keys are asked as in version_first.WAYS.
WAYS: dict[str, Callable[[Subject], Any]] = {
    "contents": lambda at: _contents(at).data,
    "screen": lambda at: Words("\n".join(resolve("report.terminal.trace_screen:lines")(_contents(at)))),
    "printed": _printout,
    "phases": _phases,
    "explanation": lambda at: _explanation(at.explanation, at.timeline),
    "report": lambda at: _report(at.report, at.timeline),
    "comparison": lambda at: _report(at.comparison, at.timeline),
    "pictures/gantt": _figure("gantt"),
    "pictures/partition": _figure("partition"),
    "pictures/concurrency": _figure("concurrency"),
    "pictures/overlap": _figure("overlap"),
    "pictures/middle": _middle,
    "pictures/step": lambda at: None if at.step is None else resolve("figure")(at.timeline, "gantt", step=at.step),
    "exports/parquet": _export_to("parquet"),
    "exports/csv": _export_to("csv"),
    "exports/json": _export_to("json"),
    "exports/perfetto": _export_to("perfetto", "trace.pftrace"),
}

# What only changed its name: (today, in 54ffded). The beginning of a key; with globs on keys the columns of frames and
# the names in data; and values, in the columns and under the names that say it.
RENAMED_KEYS: tuple[tuple[str, str], ...] = ()
RENAMED_NAMES: tuple[tuple[str, str, str], ...] = (  # glob, today, in 54ffded
    # Of the advice; they are whole sentences now.
    ("*", "finding", "said"),
    ("*", "remedy", "next"),
    ("files/summary.json", "events", "intervals"),
    ("*guessed", "events", "intervals"),
    ("*", "marked_by", "told_by"),
    ("*", "recorded_wait_ps", "told_wait_ps"),
    ("*", "coverage_ratio", "told_ratio"),
    ("*", "example", "shown"),
    ("files/report.html/timeline/header", "extent", "shown"),
)
RENAMED_VALUES: tuple[tuple[str, str, str, str], ...] = (  # glob, name in 54ffded, value today, value in 54ffded
    # Of the critical path: keys, where there was prose.
    ("*", "edge", "queue_order", "order in a queue"),
    ("*", "edge", "thread_order", "order on a thread of the host"),
    ("*", "edge", "collective", "members of a collective"),
    ("*", "edge", "async_done", "an asynchronous pair's done"),
    ("*", "edge", "operand", "an operand"),
    ("*", "edge", "stream_wait", "a lane waits for a lane"),
    ("*", "edge", "thread_wait", "a thread waits for a lane"),
    ("*", "edge", "call_return", "a call returns behind its rows"),
    ("*", "edge", "copy_wait", "a copy that a program waited for"),
    ("*", "what", "collective_transfers", "collective transfers"),
    ("*", "what", "host", "the host"),
)
