"""tracekit: prove from a trace what ran in parallel, what did not, and why."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# These two share their module's name, so they are bound here, first and for good; both modules import only the
# standard library.
from tracekit.capture import capture
from tracekit.phase import phase

if TYPE_CHECKING:
    from tracekit.analysis.overlap import concurrency, device_pairs, overlap
    from tracekit.analysis.partition import partition
    from tracekit.analysis.phases import marked, phases
    from tracekit.errors import CaptureError, TraceError, TracekitError, ViewError
    from tracekit.readers import read
    from tracekit.reasons import Reasons, explain
    from tracekit.trace import Kind, Trace

__version__ = "0.1.0"

# Public name -> module. Loaded on first use, so that `tracekit --help` imports neither jax, numpy nor pandas.
_WHERE = {
    "CaptureError": "errors",
    "Kind": "trace",
    "Reasons": "reasons",
    "Trace": "trace",
    "TraceError": "errors",
    "TracekitError": "errors",
    "ViewError": "errors",
    "concurrency": "analysis.overlap",
    "device_pairs": "analysis.overlap",
    "explain": "reasons",
    "marked": "analysis.phases",
    "overlap": "analysis.overlap",
    "partition": "analysis.partition",
    "phases": "analysis.phases",
    "read": "readers",
}

__all__ = [
    "CaptureError",
    "Kind",
    "Reasons",
    "Trace",
    "TraceError",
    "TracekitError",
    "ViewError",
    "capture",
    "concurrency",
    "device_pairs",
    "explain",
    "marked",
    "overlap",
    "partition",
    "phase",
    "phases",
    "read",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'tracekit' has no attribute {name!r}")
    value = getattr(import_module(f"tracekit.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
