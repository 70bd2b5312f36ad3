"""Write a report's files: `summary.json`, `overlap.csv`, `intervals.parquet`, `gantt.png` and `report.md`."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from tracekit.errors import TracekitError
from tracekit.report import gantt, text
from tracekit.report.build import Report
from tracekit.report.summary import summary

# What the names of trace files end in, from the outside in.
_SUFFIXES = (".gz", ".pb", ".xplane", ".json", ".trace", ".pt", ".sqlite")


def default_directory(trace_path: Path) -> Path:
    """`reports/<trace>`: named after the log directory, whether that, a run or a file in it was given; else after the
    file or directory itself."""
    parts = trace_path.resolve().parts
    for at in range(len(parts) - 1, 0, -1):
        if parts[at - 1 : at + 1] == ("plugins", "profile"):
            parts = parts[: at - 1]
            break
    name = parts[-1]
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return Path("reports") / name


def write(report: Report, out: Path, trace_path: Path, step: Callable[[str], None] = lambda what: None) -> Path:
    """Write the files of `report` into `out` and return it; each file is complete or not there.

    `step` is told what is being written. Raises TracekitError if `out` lies in the trace's own directory, where nothing
    is ever written, or if it cannot be written. A file outside a log directory has no directory of its own.
    """
    home = trace_path.resolve()
    home = home.parent if home.is_file() and home.parts[-4:-2] == ("plugins", "profile") else home
    if out.resolve() == home or home in out.resolve().parents:
        raise TracekitError(f"{out} lies inside the trace {trace_path}, where nothing is written. Give another --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        step("tables")
        _replace(
            out / "summary.json", lambda path: path.write_text(json.dumps(summary(report), indent=1) + "\n", "utf-8")
        )
        _replace(out / "overlap.csv", lambda path: _overlap(report).to_csv(path, index=False))
        _replace(out / "intervals.parquet", lambda path: report.trace.events.to_parquet(path, index=False))
        step("timeline")
        gantt.save(figure(report), out / "gantt.png")
        _replace(out / "report.md", lambda path: path.write_text(text.markdown(report, "gantt.png"), "utf-8"))
    except OSError as error:
        raise TracekitError(f"The report cannot be written to {out}: {error}. Give another --out.") from None
    return out


def figure(report: Report):  # type: ignore[no-untyped-def]  # matplotlib's Figure, named in gantt
    """The timeline from the first phase to the last, or of the whole trace without phases, titled with the finding."""
    return gantt.gantt(
        report.trace,
        title=report.headline,
        subtitle=report.trace.source + (", from the first phase to the last" if report.shown else ""),
        window=report.shown,
        phases=report.marks[["name", "start_ps", "end_ps"]],
    )


def _overlap(report: Report) -> pd.DataFrame:
    """The overlap of the whole trace and of every phase, one below the other."""
    parts = [report.whole, *report.inside.values()]
    return pd.concat([one.overlap.assign(phase=one.name) for one in parts], ignore_index=True)


def _replace(path: Path, fill: Callable[[Path], object]) -> None:
    """Fill a file beside `path` and move it there, so that `path` is never half-written."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fill(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
