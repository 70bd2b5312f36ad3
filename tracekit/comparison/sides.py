"""What is compared: the captures of a variant, each a report, from traces, saved reports, or directories of them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tracekit import remote
from tracekit.columns import records
from tracekit.errors import TracekitError, on_damage
from tracekit.files import REPORT_FILES, SUMMARY, is_saved_report, opened, resolved, trace_name
from tracekit.readers import read
from tracekit.report.build import analyse
from tracekit.report.load import load
from tracekit.report.model import Report
from tracekit.timeline.timeline import Source, Timeline, timeline_of
from tracekit.trace import Trace
from tracekit.vocabulary.losses import not_whole

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


@dataclass(frozen=True)
class Reading:
    """How the traces of captures are read and analysed; `phases`, `run` and `kinds` are as `analyse` takes them."""

    phases: tuple[str, ...] = ()
    run: str | None = None
    kinds: str | os.PathLike[str] | None = None

    @property
    def given(self) -> str:
        """The names of what is asked for."""
        return ", ".join(field.name for field in fields(self) if getattr(self, field.name))


def captures(source: Compared, how: Reading = Reading()) -> tuple[Capture, ...]:
    """The captures that `source` is of: of a directory with several runs each, of one of saved reports each of these.

    Raises TracekitError where a path holds neither a trace nor a saved report, or where it is to be read in a way that
    a saved report cannot be, and TypeError for what is none.
    """
    if isinstance(source, list | tuple):
        each = tuple(capture for part in source for capture in captures(part, how))
        if not each:
            raise TracekitError("A side of a comparison has no capture: give a trace or a saved report for each side.")
        return each
    if isinstance(source, Report):
        return (Capture(_label(source.trace.source), source),)
    if isinstance(source, str | os.PathLike) and isinstance(os.fspath(source), str):
        return _at(remote.place(source), how)
    timeline = timeline_of(source)  # type: ignore[arg-type]  # raises TypeError for what is no source
    return (Capture(_label(timeline.trace.source), analyse(timeline, how.phases), timeline),)


def _at(path: Path | str, how: Reading) -> tuple[Capture, ...]:
    directory = remote.parent(path)
    if remote.base_name(path) == SUMMARY and is_saved_report(directory):
        path = directory
    if saved := [path] if is_saved_report(path) else _saved_reports(path):
        if how.given:
            raise TracekitError(
                f"{saved[0]} is a saved report, to which {how.given} cannot be applied. Give its trace."
            )
        return tuple(map(_saved, saved))
    first = read(path, how.run, how.kinds)
    others = first.runs[1:] if how.run is None else ()  # a file is of one run
    traces = sorted([first, *(read(path, run, how.kinds) for run in others)], key=_age)
    whole = path if isinstance(path, str) else resolved(path)
    several = len(traces) > 1 or remote.base_name(remote.parent(whole)) == "profile"  # a run by itself
    labels = [f"{_label(path)}/{trace.runs[0]}" if several else _label(path) for trace in traces]
    return tuple(_captured(trace, label, how) for trace, label in zip(traces, labels, strict=True))


def _captured(trace: Trace, label: str, how: Reading) -> Capture:
    timeline = timeline_of(trace)
    report = analyse(timeline, how.phases)
    if not not_whole(records(trace.losses)):  # else its reader has told that
        _heed_missing(report, label)
    return Capture(label, report, timeline)


def _heed_missing(report: Report, label: str) -> None:
    """Tell what a report knows to be missing, as readers tell it of a damaged trace."""
    if found := report.not_whole:
        on_damage.get()(f"{label} {found}", "Record it again, or go on without strict with what there is.")


def _saved(location: Path | str) -> Capture:
    with remote.fetched(location, *REPORT_FILES, _INTERVALS) as place:
        report = load(place)
        _heed_missing(report, os.fspath(location))
        intervals = place / _INTERVALS
        timeline = None
        if intervals.is_file():
            with opened(intervals) as file:  # Arrow takes names of UTF-8 alone
                timeline = timeline_of(pd.read_parquet(file))
        return Capture(resolved(place).name, report, timeline)


def _saved_reports(path: Path | str) -> list[Path | str]:
    """The saved reports right below a directory in which nothing else lies."""
    below: list[Path | str]
    if isinstance(path, str):
        below = [remote.child(path, name) for name in remote.directories(path)]
        return below if below and all(map(is_saved_report, below)) else []
    if not path.is_dir():
        return []
    below = sorted(each for each in path.iterdir() if each.is_dir())
    return below if below and all(map(is_saved_report, below)) else []


def _label(source: Any) -> str:
    return trace_name(source) if source and os.fspath(source) else "trace"


def _age(trace: Trace) -> tuple[int, str]:
    """A key that sorts captures by when they began, as far as their traces tell."""
    return started_ns(trace.hosts["origin_ns"]) or 0, trace.runs[0] if trace.runs else ""


def started_ns(origins: pd.Series) -> int | None:
    """When a capture began, in ns since 1970; None where its clocks count from something else."""
    known = origins.dropna().to_numpy(np.int64, na_value=0)
    return int(known.min()) if len(known) and known.min() > 10**18 else None
