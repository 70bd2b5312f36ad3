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
    from tracekit.analysis.advice import Advice, Finding
    from tracekit.analysis.annotations import annotations
    from tracekit.analysis.bandwidth import Bandwidth
    from tracekit.analysis.collectives import Collectives
    from tracekit.analysis.completeness import Completeness
    from tracekit.analysis.critical_path.critical_path import CriticalPath
    from tracekit.analysis.explain import Explanation, explain
    from tracekit.analysis.fleet import Fleet
    from tracekit.analysis.host_api import HostApi
    from tracekit.analysis.idle import Idle
    from tracekit.analysis.launches import Launches
    from tracekit.analysis.machine import Machine
    from tracekit.analysis.memory import Memory, memory
    from tracekit.analysis.offenders import Offenders
    from tracekit.analysis.overlap import Breakdown, concurrency, device_pairs, overlap, partition
    from tracekit.analysis.phases import Phases, phases
    from tracekit.analysis.program import Program
    from tracekit.analysis.steps import Steps
    from tracekit.analysis.top_ops import TopOps, top_ops
    from tracekit.capture.capture import Captured
    from tracekit.capture.phase import PhaseTimes
    from tracekit.capture.stretch import Stretch, unrecorded
    from tracekit.comparison.comparability import Caution
    from tracekit.comparison.comparison import compare
    from tracekit.comparison.means import LongUnits, MeanUnit
    from tracekit.comparison.model import Comparison, ScopeComparison, Side
    from tracekit.comparison.operations import Operations
    from tracekit.comparison.sides import Capture
    from tracekit.comparison.statistics import Modes
    from tracekit.comparison.verdict import Change, Verdict
    from tracekit.doctor.checks import Check
    from tracekit.doctor.doctor import Diagnosis
    from tracekit.errors import CaptureError, NotMeasurable, TraceError, TracekitError, ViewError
    from tracekit.export.summarise import summarise
    from tracekit.gate.check import CheckResult, Outcome, RuleResult, check
    from tracekit.gate.rules import Rule
    from tracekit.readers import Reduction, read
    from tracekit.report.build import analyse
    from tracekit.report.figures.drawing import Drawing
    from tracekit.report.figures.figure import figure
    from tracekit.report.load import load
    from tracekit.report.measures import Measure
    from tracekit.report.model import Origin, Report
    from tracekit.report.section import AtLeast, Column, Instant, Missing, Recommendation, Section, Table, Unit
    from tracekit.report.sections.key_figures import KeyFigure
    from tracekit.timeline.instances import CollectiveInstances
    from tracekit.timeline.rows import Rows
    from tracekit.timeline.step_boundaries import StepBoundaries, StepsOfProgram
    from tracekit.timeline.syncs import Syncs
    from tracekit.timeline.timeline import Source, Timeline, Windows, timeline_of
    from tracekit.timeline.unions import DeviceUnions, Unions
    from tracekit.trace import Trace
    from tracekit.trends.history import History, history
    from tracekit.vocabulary.kinds import Kind

# Module -> public names. Loaded on first use, so that `tracekit --help` imports neither jax, numpy nor pandas.
_NAMES = {
    "analysis.advice": "Advice Finding",
    "analysis.annotations": "annotations",
    "analysis.bandwidth": "Bandwidth",
    "analysis.collectives": "Collectives",
    "analysis.completeness": "Completeness",
    "analysis.critical_path.critical_path": "CriticalPath",
    "analysis.explain": "Explanation explain",
    "analysis.fleet": "Fleet",
    "analysis.host_api": "HostApi",
    "analysis.idle": "Idle",
    "analysis.launches": "Launches",
    "analysis.machine": "Machine",
    "analysis.memory": "Memory memory",
    "analysis.offenders": "Offenders",
    "analysis.overlap": "Breakdown concurrency device_pairs overlap partition",
    "analysis.phases": "Phases phases",
    "analysis.program": "Program",
    "analysis.steps": "Steps",
    "analysis.top_ops": "TopOps top_ops",
    "capture.capture": "Captured",
    "capture.phase": "PhaseTimes",
    "capture.stretch": "Stretch unrecorded",
    "comparison.comparability": "Caution",
    "comparison.comparison": "compare",
    "comparison.means": "LongUnits MeanUnit",
    "comparison.model": "Comparison ScopeComparison Side",
    "comparison.operations": "Operations",
    "comparison.sides": "Capture",
    "comparison.statistics": "Modes",
    "comparison.verdict": "Change Verdict",
    "doctor.checks": "Check",
    "doctor.doctor": "Diagnosis",
    "errors": "CaptureError NotMeasurable TraceError TracekitError ViewError",
    "export.summarise": "summarise",
    "gate.check": "CheckResult Outcome RuleResult check",
    "gate.rules": "Rule",
    "trends.history": "History history",
    "readers": "Reduction read",
    "report.build": "analyse",
    "report.figures.drawing": "Drawing",
    "report.figures.figure": "figure",
    "report.load": "load",
    "report.measures": "Measure",
    "report.model": "Origin Report",
    "report.section": "AtLeast Column Instant Missing Recommendation Section Table Unit",
    "report.sections.key_figures": "KeyFigure",
    "timeline.instances": "CollectiveInstances",
    "timeline.rows": "Rows",
    "timeline.step_boundaries": "StepBoundaries StepsOfProgram",
    "timeline.syncs": "Syncs",
    "timeline.timeline": "Source Timeline Windows timeline_of",
    "timeline.unions": "DeviceUnions Unions",
    "trace": "Trace",
    "vocabulary.kinds": "Kind",
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Advice",
    "AtLeast",
    "Bandwidth",
    "Breakdown",
    "Capture",
    "CaptureError",
    "Captured",
    "Caution",
    "Change",
    "Check",
    "CheckResult",
    "CollectiveInstances",
    "Collectives",
    "Column",
    "Comparison",
    "Completeness",
    "CriticalPath",
    "DeviceUnions",
    "Diagnosis",
    "Drawing",
    "Explanation",
    "Finding",
    "Fleet",
    "History",
    "HostApi",
    "Idle",
    "Instant",
    "KeyFigure",
    "Kind",
    "Launches",
    "LongUnits",
    "Machine",
    "MeanUnit",
    "Measure",
    "Memory",
    "Missing",
    "Modes",
    "NotMeasurable",
    "Offenders",
    "Operations",
    "Origin",
    "Outcome",
    "PhaseTimes",
    "Phases",
    "Program",
    "Recommendation",
    "Reduction",
    "Report",
    "Rows",
    "Rule",
    "RuleResult",
    "ScopeComparison",
    "Section",
    "Side",
    "Source",
    "StepBoundaries",
    "Steps",
    "StepsOfProgram",
    "Stretch",
    "Syncs",
    "Table",
    "Timeline",
    "TopOps",
    "Trace",
    "TraceError",
    "TracekitError",
    "Unions",
    "Unit",
    "Verdict",
    "ViewError",
    "Windows",
    "__version__",
    "analyse",
    "annotations",
    "capture",
    "check",
    "compare",
    "concurrency",
    "device_pairs",
    "doctor",
    "explain",
    "export",
    "figure",
    "history",
    "load",
    "memory",
    "overlap",
    "partition",
    "phase",
    "phases",
    "read",
    "report",
    "summarise",
    "timeline_of",
    "top_ops",
    "unrecorded",
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
    return sorted(__all__)
