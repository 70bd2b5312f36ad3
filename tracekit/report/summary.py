"""`summary.json`: the report for machines. Keys are documented in docs/summary.md; none is renamed within a schema."""

from typing import Any

from tracekit.columns import records
from tracekit.intervals import total
from tracekit.report.model import Report, Stretch
from tracekit.report.section import plain, plain_value
from tracekit.report.sections.sections import highlights
from tracekit.timeline.unions import CELLS

SCHEMA = 2
MAX_GUESSES = 20
_NO_ROWS = "the trace holds no device rows"
_NOT_ALIGNED = "the hosts' clocks are not aligned"


def summary(report: Report) -> dict[str, Any]:
    """The report as plain data: integers are picoseconds, ratios in 0..1, a missing figure None with its reason."""
    trace, whole = report.trace, report.whole
    windows = list(report.windows.values())
    aligned = len(windows) < 2
    return {
        "schema": SCHEMA,
        "trace": {
            "source": trace.source,
            "format": trace.format,
            "hosts": list(trace.hosts),
            "window_ps": total(windows[0]) if len(windows) == 1 else None,
            "window_reason": _NO_ROWS if not windows else None if aligned else _NOT_ALIGNED,
            "runs": list(trace.runs),
            "clocks": plain(trace.clocks),
        },
        "headline": report.headline,
        "devices": _devices(report),
        "overlap": plain(whole.overlap),
        "device_pairs": plain(whole.pairs),
        "concurrency": _concurrency(whole),
        "concurrency_reason": None if aligned else _NOT_ALIGNED,
        "parallelism": whole.parallelism,
        "phases": [_phase(report, row) for row in records(report.phases)],
        "verdicts": report.verdicts,
        "important": [line.text for line in highlights(report.sections)],
        "compared": list(report.compared),
        **{section.key: None if section.lacking else section.data for section in report.sections},
        "lacking": {section.key: section.lacking for section in report.sections if section.lacking},
        "known_by": plain(report.known_by),
        "guessed": plain(report.guessed.head(MAX_GUESSES)),
        "notes": list(report.notes),
    }


def _concurrency(stretch: Stretch) -> list[int] | None:
    """The time with exactly k devices busy; None where their clocks are not aligned."""
    times = [int(time) for time in stretch.concurrency["time_ps"]]
    return times or None


def _devices(report: Report) -> list[dict[str, Any]]:
    counts = report.trace.intervals.set_index(["device", "kind"])["intervals"]
    found = []
    for row in records(report.whole.partition):
        held = {"compute": 0, "collective": 0, "memory": 0}
        for cell in CELLS[1:]:
            for kind in cell.split("+"):
                held[kind] += row[cell]
        number = {
            kind: int(counts.get((row["device"], kind), 0)) for kind in ("compute", "collective", "memcpy", "memset")
        }
        number["memory"] = number.pop("memcpy") + number.pop("memset")
        found.append(
            {
                **{key: row[key] for key in ("device", "window_start_ps", "window_ps", "span_ps", "busy_ps")},
                "kinds": {kind: {"intervals": number[kind], "union_ps": held[kind]} for kind in held},
                "partition": {cell: row[cell] for cell in CELLS},
            }
        )
    return found


def _phase(report: Report, row: dict[str, Any]) -> dict[str, Any]:
    name = row["name"]
    inside: Stretch = report.inside[name]
    stretch = report.stretch[report.stretch["name"] == name].drop(columns="name")
    return {
        **{key: plain_value(value) for key, value in row.items()},
        "busy": [{"device": one["device"], "busy_ps": one["busy_ps"]} for one in records(inside.partition)],
        "stretch": plain(stretch),
        "overlap": plain(inside.overlap),
        "device_pairs": plain(inside.pairs),
        "concurrency": _concurrency(inside),
        "parallelism": inside.parallelism,
        "verdict": report.verdicts[name],
    }
