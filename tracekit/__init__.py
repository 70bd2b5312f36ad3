"""tracekit: prove from a trace what ran in parallel, what did not, and why."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# These share their package's name, so they are bound here, first and for good; the modules import only the standard
# library.
from tracekit.capture.capture import capture
from tracekit.capture.phase import phase
from tracekit.doctor.doctor import doctor
from tracekit.export.export import export
from tracekit.report.report import report
from tracekit.version import __version__
from tracekit.view.view import view

if TYPE_CHECKING:
    from tracekit.analysis.explain import Explanation, explain
    from tracekit.analysis.overlap import concurrency, device_pairs, overlap
    from tracekit.analysis.partition import partition
    from tracekit.analysis.phases import Phases, phases
    from tracekit.doctor.diagnosis import Check, Diagnosis
    from tracekit.errors import CaptureError, TraceError, TracekitError, ViewError
    from tracekit.readers import read
    from tracekit.report.build import analyse
    from tracekit.report.figures.figure import figure
    from tracekit.report.model import Report
    from tracekit.report.saved import load
    from tracekit.timeline.timeline import Timeline
    from tracekit.trace import Trace
    from tracekit.vocabulary.kinds import Kind

# Public name -> module. Loaded on first use, so that `tracekit --help` imports neither jax, numpy nor pandas.
_WHERE = {
    "CaptureError": "errors",
    "Check": "doctor.diagnosis",
    "Diagnosis": "doctor.diagnosis",
    "Explanation": "analysis.explain",
    "Kind": "vocabulary.kinds",
    "Phases": "analysis.phases",
    "Report": "report.model",
    "Timeline": "timeline.timeline",
    "Trace": "trace",
    "TraceError": "errors",
    "TracekitError": "errors",
    "ViewError": "errors",
    "analyse": "report.build",
    "concurrency": "analysis.overlap",
    "device_pairs": "analysis.overlap",
    "explain": "analysis.explain",
    "figure": "report.figures.figure",
    "load": "report.saved",
    "overlap": "analysis.overlap",
    "partition": "analysis.partition",
    "phases": "analysis.phases",
    "read": "readers",
}

__all__ = [
    "CaptureError",
    "Check",
    "Diagnosis",
    "Explanation",
    "Kind",
    "Phases",
    "Report",
    "Timeline",
    "Trace",
    "TraceError",
    "TracekitError",
    "ViewError",
    "__version__",
    "analyse",
    "capture",
    "concurrency",
    "device_pairs",
    "doctor",
    "explain",
    "export",
    "figure",
    "load",
    "overlap",
    "partition",
    "phase",
    "phases",
    "read",
    "report",
    "view",
]


if not TYPE_CHECKING:  # a type checker that saw it would take any name for a public one

    def __getattr__(name: str) -> Any:
        if name not in _WHERE:
            raise AttributeError(f"module 'tracekit' has no attribute {name!r}")
        value = getattr(import_module(f"tracekit.{_WHERE[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
