"""Write a report's files: the page, the summary for machines, tables, the timeline as a picture, and Markdown."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from tracekit.errors import TracekitError
from tracekit.files import refuse_inside, replaced, trace_name
from tracekit.report import text
from tracekit.report.build import Report
from tracekit.report.figures.figure import figure
from tracekit.report.html.page import page
from tracekit.report.summary import summary


def default_directory(trace_path: Path) -> Path:
    """`reports/<trace>`."""
    return Path("reports") / trace_name(trace_path)


def write(report: Report, out: Path, trace_path: Path, step: Callable[[str], None] = lambda what: None) -> Path:
    """Write the files of `report` into `out` and return it; each file is complete or not there.

    `step` is told what is being written. Raises TracekitError if `out` lies in the trace's own directory, where nothing
    is ever written, or if it cannot be written. A file outside a log directory has no directory of its own.
    """
    refuse_inside(out, trace_path)
    try:
        out.mkdir(parents=True, exist_ok=True)
        step("tables")
        replaced(
            out / "summary.json", lambda path: path.write_text(json.dumps(summary(report), indent=1) + "\n", "utf-8")
        )
        replaced(out / "overlap.csv", lambda path: _overlap(report).to_csv(path, index=False))
        replaced(out / "intervals.parquet", lambda path: report.trace.events.to_parquet(path, index=False))
        step("timeline")
        figure(report).save(out / "gantt.png")
        replaced(out / "report.md", lambda path: path.write_text(text.markdown(report, "gantt.png"), "utf-8"))
        step("page")
        replaced(out / "report.html", lambda path: path.write_text(page(report), "utf-8"))
    except OSError as error:
        raise TracekitError(f"The report cannot be written to {out}: {error}. Give another --out.") from None
    return out


def _overlap(report: Report) -> pd.DataFrame:
    """The overlap of the whole trace and of every phase, one below the other."""
    parts = [report.whole, *report.inside.values()]
    return pd.concat([one.overlap.assign(phase=one.name) for one in parts], ignore_index=True)
