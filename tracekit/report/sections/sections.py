"""The sections of a report in their order, and the few lines of them that matter most."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from tracekit.analysis.advice import IDLE, Advice
from tracekit.analysis.explain import Explanation
from tracekit.analysis.idle import Cause
from tracekit.columns import records
from tracekit.report.section import Recommendation, Section
from tracekit.report.sections import (
    advice,
    bandwidth,
    collectives,
    completeness,
    critical_path,
    host_api,
    idle,
    launches,
    machine,
    memory,
    offenders,
    steps,
    top_ops,
)

MOST = 5
# What stands for a smaller share of the window does not matter while anything else does.
_LEAST = 0.001
# What a rule's time is lost to, as Section has it.
_LOSSES = {
    **{rule: cause for cause, (rule, _) in IDLE.items()},
    **dict.fromkeys(("exposed_collectives", "late_peer", "waiting", "slow_link"), "collectives"),
    "took_turns": Cause.OTHERS,
    **dict.fromkeys(("exposed_copies", "copies_in_compute_lane", "pageable_copies", "unified_memory"), "copies"),
}
# Whose results may matter most, in this order where they stand for no time.
_FIRST = ("critical_path", "steps", "offenders", "host_api", "idle", "collectives")


@dataclass(frozen=True)
class Highlight:
    """An entry of what matters most: of which section, what is so, and what to try about it, "" for nothing.

    `share`, `loss` and `detail` are as a Section has them.
    """

    key: str
    sentence: str
    action: str = ""
    share: float | None = None
    loss: str = ""
    detail: str = ""


def sections(why: Explanation, what_to_try: Advice, windows: Mapping[str, int] | None = None) -> tuple[Section, ...]:
    """All sections, those that lack evidence among them; what is missing from the trace first, where anything is.

    `windows` are the windows in ps of the devices whose time counts, by default of those that worked: what all shares
    of time are of.
    """
    missing = completeness.section(why.completeness)
    windows = _windows(why) if windows is None else windows
    all_ps = sum(windows.values())
    return (
        *([missing] if missing else []),
        memory.beside(advice.section(what_to_try, len(windows) or why.devices, why.completeness.rows), why.memory),
        top_ops.section(why.top_ops),
        critical_path.section(why.critical_path),
        steps.section(why.steps),
        offenders.section(why.offenders, all_ps),
        collectives.section(why.collectives, all_ps),
        idle.section(why.idle, all_ps),
        host_api.section(why.host_api, windows, why.idle.largest),
        launches.section(why.launches),
        bandwidth.section(why.bandwidth),
        memory.section(why.memory, is_partial=bool(why.completeness.rows)),
        machine.section(why.machine),
    )


def _windows(why: Explanation) -> dict[str, int]:
    return {row["device"]: int(row["window_ps"]) for row in records(why.offenders.totals)}


def highlights(sections: Sequence[Section]) -> list[Highlight]:
    """The MOST most important entries, those that most time is lost to first, whether there is advice on it or not;
    fewer if there are fewer.

    What is lost to one thing is one entry, with the advice on it and what more other sections say of it. The scale is
    the share of all devices' time: device time lost, summed over the devices that lose it, over the sum of the windows
    of all. What lengthens the critical path of a step by a share of it costs every device that share of its time. A
    finding stands behind those that the advice has before it. What stands for no time comes last, and a path that
    nothing explains, which says less than where the idle time is.
    """
    by_key = {section.key: section for section in sections}
    findings = _by_loss(
        Highlight(section.key, finding.sentence, finding.action, finding.share, _LOSSES.get(finding.rule, ""))
        for section in sections
        for finding in section.findings
    )
    rest = [
        Highlight(key, its.in_one_line, "", its.share, its.loss, its.detail)
        for key in _FIRST
        if (its := by_key.get(key)) and its.sentences
    ]
    unexplained = [line for line in rest if line.key == "critical_path" and line.loss == Cause.UNEXPLAINED]
    rest = [line for line in rest if line not in unexplained]
    scaled = [*zip(findings, _falling(findings), strict=True), *((line, line.share or -1.0) for line in rest)]
    scaled += [(line, -2.0) for line in unexplained]
    large = [(line, size) for line, size in scaled if line.share is None or line.share >= _LEAST] or scaled
    return [line for line, _ in sorted(_distinct(large), key=lambda entry: -entry[1])[:MOST]]


def _distinct(entries: Sequence[tuple[Highlight, float]]) -> list[tuple[Highlight, float]]:
    """The first entry of each loss, with the details that later ones have of it."""
    losses = [line.loss for line, _ in entries]
    return [
        (replace(line, sentence=" ".join([line.sentence, *_details(line, entries[at + 1 :])])), size)
        for at, (line, size) in enumerate(entries)
        if not line.loss or line.loss not in losses[:at]
    ]


def _details(line: Highlight, later: Sequence[tuple[Highlight, float]]) -> list[str]:
    return [other.detail for other, _ in later if line.loss and other.loss == line.loss and other.detail]


def _falling(findings: Sequence[Highlight]) -> list[float]:
    """The share of each finding, no larger than that of those before it, which also stands for what is not known."""
    shares, least = [], inf
    for finding in findings:
        least = least if finding.share is None else min(least, finding.share)
        shares.append(least)
    return shares


def _by_loss(findings: Iterable[Highlight]) -> list[Highlight]:
    """The first two findings of each loss as one, in the order of the first."""
    entries: list[Highlight] = []
    joined: set[str] = set()
    for finding in findings:
        at = next((at for at, entry in enumerate(entries) if entry.loss and entry.loss == finding.loss), None)
        if at is None:
            entries.append(finding)
        elif finding.loss not in joined:
            joined.add(finding.loss)
            both = f"{entries[at].action.removesuffix('.')}; or {finding.action}"
            entries[at] = replace(entries[at], sentence=f"{entries[at].sentence} {finding.sentence}", action=both)
    return entries


def in_one_line(line: Highlight | Recommendation) -> str:
    """What is so, and what to try about it."""
    return f"{line.sentence} Try: {line.action}" if line.action else line.sentence
