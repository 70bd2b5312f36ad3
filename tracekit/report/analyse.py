"""What `tracekit report` does, for Python: a trace to a report, and a report to files."""

from collections.abc import Sequence
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.report.build import Report, build
from tracekit.trace import Trace


def analyse(trace: Trace, phases: Sequence[str] = (), alone: Sequence[str] = (), baseline: str | None = None) -> Report:
    """The report of `trace`: the verdict, and every figure behind it.

    `phases` names annotations to take as phases too, the last of them compared with `alone` or with `baseline`, as the
    options of `tracekit report` do. Raises TracekitError for a name that the trace does not hold, and where something
    is to be compared, but no phase with it.
    """
    if (alone or baseline) and not phases:
        raise TracekitError("alone and baseline say what the last of the phases is compared with; name it in phases.")
    report = build(trace, phases, alone, baseline)
    known = set(report.phases["name"])
    for name in (*phases, *alone, *([baseline] if baseline else [])):
        if name not in known:
            raise TracekitError(
                f"{trace.source} has no phase {name!r}. An annotation becomes one if it is named in phases; "
                "trace.spans has the names that there are."
            )
    return report


def save(report: Report, directory: str | Path | None = None) -> Path:
    """Write the report's files into `directory`, by default `reports/<trace>`, and return it.

    Raises TracekitError where it lies inside the trace's own directory, or cannot be written.
    """
    # Here, because a report is files and pictures only when it is saved: an analysis needs no matplotlib.
    from tracekit.report.write import default_directory, write

    source = Path(report.trace.source)
    return write(report, default_directory(source) if directory is None else Path(directory), source)
