"""What `tracekit report` does: read, build, print, write, with progress when it takes longer than a second."""

import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tracekit.errors import TracekitError
from tracekit.report import text
from tracekit.report.build import build
from tracekit.report.load import load
from tracekit.report.summary import summary
from tracekit.report.write import default_directory, write

_STEPS = ("reading", "analysing", "tables", "timeline")


def run(
    trace_dir: Path,
    out: Path | None = None,
    run_name: str | None = None,
    phases: Sequence[str] = (),
    alone: Sequence[str] = (),
    baseline: str | None = None,
    as_json: bool = False,
    kinds: Path | None = None,
) -> Path:
    """Report on the trace at `trace_dir`; returns the directory that was written.

    `kinds` is a file of rules (tracekit.rules) for what an operation is.
    """
    if (alone or baseline) and not phases:
        raise TracekitError(
            "--alone and --baseline say what a --phase is compared with; name the phase with --phase NAME."
        )
    with _progress() as step:
        step("reading")
        trace = load(trace_dir, run_name, kinds)
        step("analysing")
        result = build(trace, phases, alone, baseline)
        known = set(result.phases["name"])
        for name in (*phases, *alone, *([baseline] if baseline else [])):
            if name not in known:
                raise TracekitError(_no_span(name, trace_dir, phases))
        written = write(result, out or default_directory(trace_dir), trace_dir, step)
    if as_json:
        print(json.dumps(summary(result), indent=1))
    else:
        text.show(result, Console())
    print(f"Wrote {written}/ (gantt.png, report.md, summary.json, overlap.csv, intervals.parquet)", file=sys.stderr)
    return written


def _no_span(name: str, trace_dir: Path, phases: Sequence[str]) -> str:
    if name in phases:
        return (
            f"{trace_dir} holds no annotation {name!r}. Check --phase against the names in the trace (tracekit view)."
        )
    return f"{name!r} is no phase of {trace_dir}. Name it with --phase too, before the phase that is compared with it."


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A progress bar on stderr that appears after a second, and only on a terminal."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task("", total=len(_STEPS))
    timer = threading.Timer(1.0, bar.start)
    timer.daemon = True

    def step(what: str) -> None:
        bar.update(task, description=what, completed=_STEPS.index(what))

    timer.start()
    try:
        yield step
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
