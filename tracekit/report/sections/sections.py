"""The sections of a report in their order, and the few lines of them that matter most."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracekit.analysis.advice import Advice
from tracekit.analysis.explain import Explanation
from tracekit.report.section import Recommendation, Section
from tracekit.report.sections import (
    advice,
    bandwidth,
    collectives,
    critical_path,
    idle,
    launches,
    offenders,
    steps,
)

MOST = 5
_MOST_FINDINGS = 3
# Whose first sentence matters most, once the costliest findings are told.
_FIRST = ("critical_path", "steps", "offenders", "idle", "collectives")


@dataclass(frozen=True)
class Highlight:
    """A line of what matters most: of which section, what is so, and what to try about it, "" for nothing."""

    key: str
    sentence: str
    action: str = ""


def sections(why: Explanation, what_to_try: Advice) -> tuple[Section, ...]:
    """All sections, those that lack evidence among them."""
    return (
        advice.section(what_to_try),
        critical_path.section(why.critical_path),
        steps.section(why.steps),
        offenders.section(why.offenders),
        collectives.section(why.collectives),
        idle.section(why.idle),
        launches.section(why.launches),
        bandwidth.section(why.bandwidth),
    )


def highlights(sections: Sequence[Section]) -> list[Highlight]:
    """The MOST most important lines: the costliest findings, then what else matters most; fewer if there are fewer."""
    by_key = {section.key: section for section in sections}
    findings = [
        Highlight(section.key, finding.sentence, finding.action) for section in sections for finding in section.findings
    ]
    # Of the critical path, what it would take without its parts belongs to what it is.
    first = [
        Highlight(key, " ".join(by_key[key].sentences[: 2 if key == "critical_path" else 1]))
        for key in _FIRST
        if key in by_key and by_key[key].sentences
    ]
    return [*findings[:_MOST_FINDINGS], *first, *findings[_MOST_FINDINGS:]][:MOST]


def in_one_line(line: Highlight | Recommendation) -> str:
    """What is so, and what to try about it."""
    return f"{line.sentence} Try: {line.action}" if line.action else line.sentence
