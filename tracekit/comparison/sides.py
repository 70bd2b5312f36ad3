"""What is compared: the captures of a variant, each a report, from traces, saved reports, or directories of them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tracekit.errors import TracekitError
from tracekit.files import SUMMARY, is_saved_report, trace_name
from tracekit.readers import read
from tracekit.report.build import analyse
from tracekit.report.load import load
from tracekit.report.model import Report
from tracekit.timeline.timeline import Source, Timeline, timeline_of
from tracekit.trace import Trace

# A trace in any form, a Report or a saved one; or several captures of one variant.
Compared = Source | Report | Sequence[Source | Report]
_INTERVALS = "intervals.parquet"


@dataclass(frozen=True, eq=False)
class Capture:
    """One capture of a variant: its `label`, its `report`, and the `timeline` that its picture is drawn from.

    There is no timeline where a saved report has no intervals beside it.
    """

    label: str
    report: Report
    timeline: Timeline | None = None


def captures(source: Compared) -> tuple[Capture, ...]:
    """The captures that `source` is of: of a directory with several runs each, of one of saved reports each of these.

    Raises TracekitError where a path holds neither a trace nor a saved report, and TypeError for what is none.
    """
    if isinstance(source, list | tuple):
        each = tuple(capture for part in source for capture in captures(part))
        if not each:
            raise TracekitError("A side of a comparison has no capture: give a trace or a saved report for each side.")
        return each
    if isinstance(source, Report):
        return (Capture(_label(source.trace.source), source),)
    if isinstance(source, str | os.PathLike) and isinstance(os.fspath(source), str):
        return _at(Path(source))
    timeline = timeline_of(source)  # type: ignore[arg-type]  # raises TypeError for what is no source
    return (Capture(_label(timeline.trace.source), analyse(timeline), timeline),)


def _at(path: Path) -> tuple[Capture, ...]:
    if path.name == SUMMARY and is_saved_report(path.parent):
        path = path.parent
    if is_saved_report(path):
        return (_saved(path),)
    if saved := _saved_reports(path):
        return tuple(map(_saved, saved))
    first = read(path)
    later = [read(path, run) for run in first.runs[1:]] if path.is_dir() else []
    traces = sorted([first, *later], key=_age)
    several = len(traces) > 1
    return tuple(_captured(trace, f"{_label(path)}/{trace.runs[0]}" if several else _label(path)) for trace in traces)


def _captured(trace: Trace, label: str) -> Capture:
    timeline = timeline_of(trace)
    return Capture(label, analyse(timeline), timeline)


def _saved(place: Path) -> Capture:
    report = load(place)
    intervals = place / _INTERVALS
    timeline = timeline_of(pd.read_parquet(intervals)) if intervals.is_file() else None
    return Capture(place.resolve().name, report, timeline)


def _saved_reports(path: Path) -> list[Path]:
    """The saved reports right below a directory in which nothing else lies."""
    if not path.is_dir():
        return []
    below = sorted(each for each in path.iterdir() if each.is_dir())
    return below if below and all(map(is_saved_report, below)) else []


def _label(source: Any) -> str:
    return trace_name(Path(source)) if source and os.fspath(source) else "trace"


def _age(trace: Trace) -> tuple[int, str]:
    """A key that sorts captures by when they began, as far as their traces tell."""
    return started_ns(trace.hosts["origin_ns"]) or 0, trace.runs[0] if trace.runs else ""


def started_ns(origins: pd.Series) -> int | None:
    """When a capture began, in ns since 1970; None where its clocks count from something else."""
    known = origins.dropna().to_numpy(np.int64, na_value=0)
    return int(known.min()) if len(known) and known.min() > 10**18 else None
