"""What `tracekit report` does: analyse a trace, and write what was found into files."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracekit.report.model import Report
    from tracekit.timeline.timeline import Source


def report(
    source: "Source",
    out: str | os.PathLike[str] | None = None,
    *,
    phases: Sequence[str] = (),
    alone: Sequence[str] = (),
    baseline: str | None = None,
    progress: Callable[[str], object] | None = None,
) -> "Report":
    """Analyse a trace and write the report's files into `out`, by default `reports/<trace>`; gives the report.

    `phases`, `alone` and `baseline` are as `tracekit.analyse` takes them. A `source` that is the directory of a saved
    report is loaded, and what can be made without its trace is written only where `out` is given. `progress` is called
    with the name of each step. Raises TracekitError where `out` lies inside the trace's own directory, or cannot be
    written, and what `tracekit.read` and `tracekit.analyse` raise.
    """
    from tracekit.errors import TracekitError
    from tracekit.report.build import analyse
    from tracekit.report.saved import is_saved, load
    from tracekit.report.write import default_directory, write
    from tracekit.timeline.timeline import timeline_of

    if isinstance(source, str | os.PathLike) and is_saved(source):
        if phases or alone or baseline:
            raise TracekitError(f"{source} is a saved report, whose phases stand. Give the trace to name others.")
        loaded = load(source)
        if out is not None:
            write(loaded, None, Path(out), _path(loaded.trace.source), progress or str)
        return loaded
    progress = progress or str
    progress("reading")
    timeline = timeline_of(source)
    progress("analysing")
    result = analyse(timeline, phases, alone, baseline)
    path = _path(timeline.trace.source)
    write(result, timeline, default_directory(path or Path("trace")) if out is None else Path(out), path, progress)
    return result


def _path(source: str) -> Path | None:
    """Where a trace came from; None for one that came from no file."""
    return Path(source) if source else None
