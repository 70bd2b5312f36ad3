"""The sections of a report in their order, and the few lines of them that matter most."""

from collections.abc import Sequence

from tracekit.analysis.advice import Advice
from tracekit.analysis.explain import Explanation
from tracekit.report.section import Section
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
# Whose first sentence tells most, once the costliest findings are told.
_TELLING = ("critical_path", "steps", "offenders", "idle", "collectives")


def sections(why: Explanation, found: Advice) -> tuple[Section, ...]:
    """All sections, those that lack evidence among them."""
    return (
        advice.section(found),
        critical_path.section(why.critical_path),
        steps.section(why.steps),
        offenders.section(why.offenders),
        collectives.section(why.collectives),
        idle.section(why.idle),
        launches.section(why.launches),
        bandwidth.section(why.bandwidth),
    )


def important(found: Sequence[Section]) -> list[str]:
    """The MOST most important lines: the costliest findings, then what else tells most; fewer if there are fewer."""
    by_key = {one.key: one for one in found if not one.lacking}
    findings = list(by_key["findings"].said) if "findings" in by_key else []
    lines = findings[:_MOST_FINDINGS]
    for key in _TELLING:
        if key in by_key and by_key[key].said:
            # Of the critical path, what it would take without its parts belongs to what it is.
            lines.append(" ".join(by_key[key].said[: 2 if key == "critical_path" else 1]))
    return (lines + findings[_MOST_FINDINGS:])[:MOST]
