"""What `tracekit report` does: analyse a trace, and write the report's files.

The package binds `report`, so what is heavy waits inside the functions.
"""

import itertools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit import heap, remote
from tracekit.errors import TraceError, TracekitError
from tracekit.files import (
    REPORT_FILES,
    SUMMARY,
    file_part,
    is_saved_report,
    refuse_foreign,
    refuse_inside,
    refuse_unwritable,
    resolved,
    trace_name,
    whole_directory,
)

if TYPE_CHECKING:
    from tracekit.readers import Reduction
    from tracekit.report.model import Report
    from tracekit.report.part import Part
    from tracekit.timeline.timeline import Source, Timeline
    from tracekit.trace import Trace

_PICTURE = "gantt.png"
_DATA = ("report.md", "summary.json", "overlap.csv", "frames/")
# What a report of all of a trace takes beyond its frames, as a multiple of these: of five million events of eight GPUs
# 3.2, of six million of 61 hosts 2.00. None that memory may hold is to be refused.
_TIMES_THE_TRACE = 1.9
# The same of compute that is told merged, of 1,021 hosts.
_TIMES_MERGED = 0.7
# What a row takes that is read again and drawn, with its launch: of 1.7 million, 330 MB and as much again.
_BYTES_A_ROW = 500
# How many folders are looked through for the size of a run.
_FEW_FOLDERS = 100
# All entries that a report may have.
_ENTRIES = ("report.html", _PICTURE, "intervals.parquet", *(name.rstrip("/") for name in _DATA))


def report(
    source: "Source | Report",
    out: str | os.PathLike[str] | None = None,
    *,
    phases: Sequence[str] = (),
    alone: Sequence[str] = (),
    baseline: str | None = None,
    phase: str | None = None,
    step: int | None = None,
    start: str | int | None = None,
    end: str | int | None = None,
    devices: Collection[str] = (),
    run: str | None = None,
    kinds: str | os.PathLike[str] | None = None,
    steps: tuple[int, int] | None = None,
    progress: Callable[[str], object] | None = None,
    reduce: bool = False,
    executor: Executor | None = None,
) -> "Report":
    """Analyse a trace and write the report's files into `out`, by default `reports/<trace>`; gives the report.

    `phases` to `devices`, `run`, `kinds` and `steps` are as `tracekit.analyse` takes them. A `source` may also be a
    Report, or the directory of a saved one: what can be made without its trace is then written where `out` is given.
    With `reduce`, or where the rows of all files of a run would take more memory than is free and all of the trace is
    asked for, rows of compute are left out as the files are read (docs/fleet.md). `progress` is called with the name of
    each step. An `executor` reads the files of a run, as `tracekit.read` says.
    Raises TracekitError where `out` lies inside the trace's own
    directory, or cannot be written, where a saved report is given any of those options, and what `tracekit.read` and
    `tracekit.analyse` raise.
    """
    from tracekit.report.build import analyse
    from tracekit.report.load import load
    from tracekit.report.model import Report
    from tracekit.report.part import choose

    progress = progress or str
    if isinstance(source, Report) or (isinstance(source, str | os.PathLike) and is_saved_report(source)):
        name = "This" if isinstance(source, Report) else source
        several = {"as-phase": phases, "alone": alone, "device": devices}
        single = {"baseline": baseline, "phase": phase, "step": step, "from": start, "to": end}
        of_reading = {"run": run, "kinds": kinds, "only-steps": steps, "reduce": reduce or None}
        options = {**{option: value or None for option, value in several.items()}, **single, **of_reading}
        if unusable := [f"--{option}" for option, value in options.items() if value is not None]:
            raise TracekitError(
                f"{name} is a saved report, to which {', '.join(unusable)} cannot be applied. Give the trace that it "
                "was made from."
            )
        result = source if isinstance(source, Report) else load(source)
        if out is not None:
            if not isinstance(source, Report) and _same(out, source):
                raise TracekitError(f"{name} is the saved report itself, which stays as it is. Give another --out.")
            write(result, None, out, progress)
        return result
    if isinstance(source, str | os.PathLike):  # before it is read, which may take minutes
        refuse_out(out, source)
    progress("reading")
    of_phases = {"as-phase": phases, "alone": alone, "baseline": baseline}
    of_rows: dict[str, Any] = {"phase": phase, "step": step, "from": start, "to": end, "device": devices}
    how = reduction(reduce, {**of_phases, **of_rows, "kinds": kinds, "only-steps": steps})
    timeline = read_timeline(source, run=run, kinds=kinds, steps=steps, executor=executor, reduction=how)
    only: dict[str, Any] = {"phase": phase, "step": step, "start": start, "end": end, "devices": devices}
    if not devices and all(value is None for value in (phase, step, start, end)):  # a part takes less
        _refuse_beyond_memory(timeline.trace)
    progress("analysing")
    only["steps"] = steps
    with ThreadPoolExecutor(1) as aside:
        no_picture = aside.submit(_no_picture)
        result = analyse(timeline, phases, alone, baseline, **only)
    heap.give_back()
    if reason := no_picture.result():
        result = replace(result, notes=(*result.notes, f"{_PICTURE} is left out: {reason}"))
    if reason := why_not_drawn(timeline, result):
        result = replace(result, notes=(*result.notes, reason))
    result = with_drawn(timeline, result)
    part = choose(timeline, **only)
    directory = default_directory(result.trace.source or "trace", part.name) if out is None else out
    write(result, timeline, directory, progress, part)
    return result


def read_timeline(source: "Source", **options: Any) -> "Timeline":
    """What `timeline_of` gives of a source whose report is to be made."""
    from tracekit.timeline.timeline import timeline_of

    heap.suit_a_trace_of(_size_of(source))
    timeline = timeline_of(source, **options)
    heap.give_back()
    return timeline


def _size_of(source: object) -> int:
    """The bytes of the files at or below a path, of few folders, as far as they can be told; 0 of anything else."""
    size = 0
    if isinstance(source, str | os.PathLike):
        with suppress(OSError):
            if Path(source).is_file():
                return Path(source).stat().st_size
            for folder, _, names in itertools.islice(os.walk(os.fspath(source)), _FEW_FOLDERS):
                size += sum(Path(folder, name).stat().st_size for name in names)
    return size


def with_drawn(timeline: "Timeline", report: "Report") -> "Report":
    """The report of a timeline of which rows were left out, with what all rows of the devices that stand for all tell;
    any other as it is."""
    from tracekit.analysis.idle import idle
    from tracekit.analysis.top_ops import top_ops
    from tracekit.report.build import steady_windows

    again = drawn(timeline, report) if timeline.left_out else None
    if again is None or not report.fleet:
        return report
    names = report.fleet.drawn
    if report.steady:
        again = again.narrowed(steady_windows(timeline))
    operations = top_ops(again).by_device
    operations = operations[operations["device"].isin(names)].reset_index(drop=True)
    result = replace(report, drawn_operations=operations)
    if not report.explanation.completeness.rows:
        devices = idle(again).devices
        result = replace(result, drawn_idle=devices[devices["device"].isin(names)].reset_index(drop=True))
    heap.give_back()
    return result


def drawn(timeline: "Timeline", report: "Report") -> "Timeline | None":
    """The timeline whose rows are drawn of one and its `report`: itself, or if rows were left out, that of the devices
    which stand for all others of a fleet, the files of whose hosts are read again; None where `why_not_drawn` says
    why."""
    from tracekit.timeline.timeline import Timeline

    found = _drawn(timeline, report)
    return found if isinstance(found, Timeline) else None


def why_not_drawn(timeline: "Timeline", report: "Report") -> str:
    """The sentence on why there is no timeline of a report of which rows were left out, "" where there is one."""
    found = _drawn(timeline, report)
    return f"Nothing is drawn over time, for the rows that were left out: {found}" if isinstance(found, str) else ""


def _drawn(timeline: "Timeline", report: "Report") -> "Timeline | str":
    """The timeline whose rows are drawn, or the end of the sentence on why there is none."""
    if not timeline.left_out:
        return timeline
    if reason := report.explanation.completeness.shares:
        return f"which devices stand for all is not known. {reason}"
    if not report.fleet:
        return "only of more than 16 devices some stand for all, whose files are read again."
    from tracekit.timeline.timeline import all_rows_of

    rows, names = timeline.recorded.rows, report.fleet.drawn
    hosts = {rows.hosts[rows.number(name)] for name in names}

    def again() -> "Timeline | str":
        count = sum(rows.count_of(number) for number, host in enumerate(rows.hosts) if host in hosts)
        free = heap.free_bytes()
        if free is not None and count * _BYTES_A_ROW > free:
            return "those of the devices that stand for all would take more memory than is free."
        try:
            return all_rows_of(timeline, names)
        except TraceError as error:
            return str(error)

    return timeline.once("drawn", again)


def reduction(is_asked_for: bool, options: Mapping[str, Any]) -> "Reduction | None":
    """How rows are left out of the traces of a run as they are read: if that is asked for of any, and else where all
    of them would take more memory than is free; never where `options`, by their names, ask for what rests on each row.

    Raises TracekitError where both are asked for.
    """
    from tracekit.readers import Reduction
    from tracekit.timeline.reduction import reduced

    if given := [f"--{name}" for name, value in options.items() if value not in (None, [], ())]:
        if is_asked_for:
            raise TracekitError(f"--reduce leaves out rows that {', '.join(given)} asks for. Give one of them.")
        return None
    free = heap.free_bytes()
    if is_asked_for or free is None:
        return Reduction(reduced) if is_asked_for else None
    return Reduction(reduced, int(free / (1 + _TIMES_THE_TRACE)))


def _refuse_beyond_memory(trace: "Trace") -> None:
    """Raise TracekitError where the system would end this process before the report is made, without a word."""
    from tracekit.units import size

    merged = int(trace.merged.memory_usage(index=False).sum())
    needed = int(_TIMES_THE_TRACE * (trace.frame_bytes - merged) + _TIMES_MERGED * merged)
    free = heap.free_bytes()
    if free is not None and needed > free:
        is_whole = trace.row_count == len(trace.events) and len(trace.hosts) > 1
        leave_out = "leave out rows of compute (--reduce), or " if is_whole else ""
        raise TracekitError(
            f"The report of {trace.source or 'this trace'}, of {trace.row_count:,} events of devices, takes about "
            f"{size(needed)} of memory, and {size(free)} are free. Report some of its steps, which takes less: "
            f"--only-steps FIRST-LAST. Or {leave_out}use a larger machine."
        )


def refuse_out(out: str | os.PathLike[str] | None, source: str | os.PathLike[str]) -> None:
    """Raise TracekitError where the report of a trace cannot be written into `out`, or what others put there would be
    lost; the directory is left as it was. None stands for `default_directory`, whose name its part tells later."""
    place = "reports" if out is None else out
    refuse_inside(place, source)
    refuse_unwritable(place, "a report")
    if out is not None:
        refuse_foreign(out, _ENTRIES)


def default_directory(trace_path: str | os.PathLike[str], part: str = "") -> Path:
    """`reports/<trace>`, or `reports/<trace>-<part>` for a part of that name."""
    return Path("reports") / "-".join([trace_name(trace_path), *file_part(part)])


def _same(out: str | os.PathLike[str], source: str | os.PathLike[str]) -> bool:
    """Whether both are one directory."""
    one, other = remote.place(out), remote.place(source)
    if isinstance(one, Path) and isinstance(other, Path):
        return resolved(one) == resolved(other)
    return isinstance(one, str) and isinstance(other, str) and one.rstrip("/") == other.rstrip("/")


def file_names(report: "Report", timeline: "Timeline | None") -> tuple[str, ...]:
    """The names of the files that `write` makes of a report, with or without the timeline of its trace."""
    is_drawn = timeline is not None and drawn(timeline, report) is not None and not _no_picture()
    rows = ("intervals.parquet",) if timeline is not None and not timeline.left_out else ()
    return ("report.html", *((_PICTURE,) if is_drawn else ()), *_DATA, *rows)


def _no_picture() -> str:
    """Why no figure can be drawn in this Python; "" where one can."""
    try:
        import tracekit.report.figures.figure  # noqa: F401
    except TracekitError as error:
        return str(error)
    return ""


def write(
    report: "Report",
    timeline: "Timeline | None",
    out: str | os.PathLike[str],
    progress: Callable[[str], object] = str,
    part: "Part | None" = None,
) -> None:
    """Write the files of `report`, which is of a `part` of its trace or of all of it, into `out`: all of them, or
    all that were there before.

    Without the `timeline` of its trace, as for a report that was loaded: no picture, no intervals.parquet, and a page
    without its timeline. Of one of which rows were left out: no intervals.parquet, and of a fleet's devices those that
    stand for all, read again (`drawn`). Without matplotlib: no picture. `progress` is called with each step. Raises
    TracekitError if `out` lies in the trace's own directory, where nothing is ever written, or if it cannot be written.
    A file outside a log directory has no directory of its own, and a trace that came from no file has none.
    """
    if report.trace.source:
        refuse_inside(out, report.trace.source)
    refuse_foreign(out, _ENTRIES)
    with remote.written(remote.place(out), last=(SUMMARY,), stale=REPORT_FILES) as directory:
        _write(report, timeline, directory, progress, part)


def _write(
    report: "Report", timeline: "Timeline | None", out: Path, progress: Callable[[str], object], part: "Part | None"
) -> None:
    import pandas as pd

    from tracekit.columns import no_formula
    from tracekit.report import storage
    from tracekit.report.markdown import markdown
    from tracekit.units import revealed

    lanes = drawn(timeline, report) if timeline else None
    shown = part.of(lanes) if part and lanes else lanes
    picture = _PICTURE if lanes and not _no_picture() else None
    breakdowns = [report.whole, *report.parts.values()]
    overlap = pd.concat([each.overlap.assign(phase=each.label) for each in breakdowns], ignore_index=True)
    for name in overlap.select_dtypes(["str", "object", "category"]):
        overlap[name] = overlap[name].astype("str").map(lambda text: no_formula(revealed(text)), na_action="ignore")
    # Another core writes the rows and makes the page while this one draws: for most of their time neither Arrow nor
    # what packs the rows of the page holds the GIL.
    try:
        with whole_directory(out, _ENTRIES, SUMMARY) as draft, ThreadPoolExecutor(1) as aside:
            progress("tables")
            files = []
            # First, as it holds most: of 600,000 names 130 MB, which would stand beside those of the page.
            if shown and shown.reduced is None:
                table = draft / "intervals.parquet"
                files.append(aside.submit(storage.write_frame, shown.rows.events, table, "snappy"))
            files.append(aside.submit(_write_page, report, shown, draft / "report.html"))
            storage.write(report.summary(), report, draft)
            overlap.to_csv(draft / "overlap.csv", index=False)
            if lanes and picture:
                from tracekit.report.figures.figure import draw
                from tracekit.report.figures.selection import select

                progress("timeline")
                draw(select(lanes, report, part), "gantt").save(draft / picture)
                heap.give_back()
            (draft / "report.md").write_text(markdown(report, picture), "utf-8")
            progress("page")
            for file in files:
                file.result()
    except OSError as error:
        raise TracekitError(f"The report cannot be written to {out}: {error}. Give another --out.") from None


def _write_page(report: "Report", timeline: "Timeline | None", path: Path) -> None:
    from tracekit.report.html.page import page

    path.write_text(page(report, timeline), "utf-8")
