"""Write a report's files: what it holds, the page, tables, the timeline as a picture, and Markdown."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from tracekit.errors import TracekitError
from tracekit.files import refuse_inside, replaced, trace_name
from tracekit.report.figures.figure import draw
from tracekit.report.figures.selection import select
from tracekit.report.html.page import page
from tracekit.report.markdown import markdown
from tracekit.report.model import Report
from tracekit.report.saved import save
from tracekit.timeline.timeline import Timeline

_DATA = ("report.md", "summary.json", "overlap.csv", "frames/")


def default_directory(trace_path: Path) -> Path:
    """`reports/<trace>`."""
    return Path("reports") / trace_name(trace_path)


def written(timeline: Timeline | None) -> tuple[str, ...]:
    """The names of the files that `write` makes, with or without the timeline of the trace."""
    return ("report.html", "gantt.png", *_DATA, "intervals.parquet") if timeline else ("report.html", *_DATA)


def write(
    report: Report,
    timeline: Timeline | None,
    out: Path,
    trace_path: Path | None,
    progress: Callable[[str], object] = str,
) -> None:
    """Write the files of `report` into `out`; each is complete or not there.

    Without the `timeline` of its trace, as for a report that was loaded: no picture, no intervals.parquet, and a page
    without its timeline. `progress` is called with each step. Raises TracekitError if `out` lies in the trace's own
    directory, where nothing is ever written, or if it cannot be written. A file outside a log directory has no
    directory of its own, and a trace that came from no file has none.
    """
    if trace_path:
        refuse_inside(out, trace_path)
    picture = "gantt.png" if timeline else None
    try:
        out.mkdir(parents=True, exist_ok=True)
        progress("tables")
        save(report, out)
        replaced(out / "overlap.csv", lambda path: _overlap(report).to_csv(path, index=False))
        if timeline and picture:
            replaced(out / "intervals.parquet", lambda path: timeline.trace.events.to_parquet(path, index=False))
            progress("timeline")
            draw(select(timeline, report), "gantt").save(out / picture)
        replaced(out / "report.md", lambda path: path.write_text(markdown(report, picture), "utf-8"))
        progress("page")
        replaced(out / "report.html", lambda path: path.write_text(page(report, timeline), "utf-8"))
    except OSError as error:
        raise TracekitError(f"The report cannot be written to {out}: {error}. Give another --out.") from None


def _overlap(report: Report) -> pd.DataFrame:
    """The overlap of the whole trace and of every phase, one below the other."""
    parts = [report.whole, *report.inside.values()]
    return pd.concat([stretch.overlap.assign(phase=stretch.name) for stretch in parts], ignore_index=True)
