"""What `tracekit report` does: read, build, print, write."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tracekit import console as terminal
from tracekit.errors import TracekitError
from tracekit.load import load
from tracekit.report.build import build
from tracekit.report.summary import summary
from tracekit.report.terminal import printout
from tracekit.report.write import default_directory, write

_STEPS = ("reading", "analysing", "tables", "timeline", "page")


def run(
    trace_dir: Path,
    out: Path | None = None,
    run_name: str | None = None,
    phases: Sequence[str] = (),
    alone: Sequence[str] = (),
    baseline: str | None = None,
    as_json: bool = False,
    kinds: Path | None = None,
    full: bool = False,
) -> Path:
    """Report on the trace at `trace_dir`; returns the directory that was written.

    `kinds` is a file of rules (vocabulary.rules) for what an operation is; `full` prints all that the files hold.
    """
    if (alone or baseline) and not phases:
        raise TracekitError(
            "--alone and --baseline say what a --phase is compared with; name the phase with --phase NAME."
        )
    with terminal.progress(_STEPS) as step:
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
        printout.show(result, terminal.console(), full)
    files = "report.html, gantt.png, report.md, summary.json, overlap.csv, intervals.parquet"
    print(f"Wrote {written}/ ({files})", file=sys.stderr)
    return written


def _no_span(name: str, trace_dir: Path, phases: Sequence[str]) -> str:
    if name in phases:
        return (
            f"{trace_dir} holds no annotation {name!r}. Check --phase against the names in the trace (tracekit view)."
        )
    return f"{name!r} is no phase of {trace_dir}. Name it with --phase too, before the phase that is compared with it."
