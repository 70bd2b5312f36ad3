"""The sections of a report in their order, and the few lines of them that matter most."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracekit.analysis.advice import IDLE, Advice
from tracekit.analysis.explain import Explanation
from tracekit.report.section import Recommendation, Section
from tracekit.report.sections import (
    advice,
    bandwidth,
    collectives,
    completeness,
    critical_path,
    idle,
    launches,
    offenders,
    steps,
)

MOST = 5
_MOST_FINDINGS = 3
# What stands for a smaller share of the window does not matter while anything else does.
_LEAST = 0.001
# The cause of idle time that a rule tells.
_CAUSES = {rule: cause for cause, (rule, _) in IDLE.items()}
# Whose first sentence matters most, once the costliest findings are told.
_FIRST = ("critical_path", "steps", "offenders", "idle", "collectives")


@dataclass(frozen=True)
class Highlight:
    """A line of what matters most: of which section, what is so, and what to try about it, "" for nothing.

    `share` and `cause` are as a Section has them.
    """

    key: str
    sentence: str
    action: str = ""
    share: float | None = None
    cause: str = ""


def sections(why: Explanation, what_to_try: Advice) -> tuple[Section, ...]:
    """All sections, those that lack evidence among them; what is missing from the trace first, where anything is."""
    missing = completeness.section(why.completeness)
    return (
        *([missing] if missing else []),
        advice.section(what_to_try, why.devices, why.completeness.rows),
        critical_path.section(why.critical_path),
        steps.section(why.steps),
        offenders.section(why.offenders),
        collectives.section(why.collectives, sum(map(int, why.offenders.totals["window_ps"]))),
        idle.section(why.idle),
        launches.section(why.launches),
        bandwidth.section(why.bandwidth),
    )


def highlights(sections: Sequence[Section]) -> list[Highlight]:
    """The MOST most important lines: the costliest findings, then what else matters most; fewer if there are fewer.

    Idle time of one cause is told once.
    """
    by_key = {section.key: section for section in sections}
    findings = [
        Highlight(section.key, finding.sentence, finding.action, finding.share, _CAUSES.get(finding.rule, ""))
        for section in sections
        for finding in section.findings
    ]
    # Of the critical path, what it would take without its parts belongs to what it is.
    first = [
        Highlight(key, " ".join(its.sentences[: 2 if key == "critical_path" else 1]), "", its.share, its.cause)
        for key in _FIRST
        if (its := by_key.get(key)) and its.sentences
    ]
    lines = [*findings[:_MOST_FINDINGS], *first, *findings[_MOST_FINDINGS:]]
    large = [line for line in lines if line.share is None or line.share >= _LEAST] or lines
    causes = [line.cause for line in large]
    return [line for at, line in enumerate(large) if not line.cause or line.cause not in causes[:at]][:MOST]


def in_one_line(line: Highlight | Recommendation) -> str:
    """What is so, and what to try about it."""
    return f"{line.sentence} Try: {line.action}" if line.action else line.sentence
