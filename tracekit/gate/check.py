"""What `tracekit check` does: hold a report against rules, and say of each whether it is kept."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tracekit.comparison.comparison import compare
from tracekit.comparison.sides import Compared
from tracekit.comparison.verdict import Change
from tracekit.errors import NotMeasurable, TracekitError
from tracekit.files import SUMMARY, is_saved_report
from tracekit.gate import rules as _rules
from tracekit.gate.rules import Rule
from tracekit.report.build import analyse
from tracekit.report.load import load
from tracekit.report.measures import Measure
from tracekit.report.model import Report
from tracekit.report.section import FORMATS
from tracekit.timeline.timeline import Source
from tracekit.units import quantity


class Outcome(StrEnum):
    """Of a rule: it holds, it is broken, the trace cannot tell, or too little was measured to decide."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNKNOWN = "cannot be told"
    INCONCLUSIVE = "inconclusive"


# The exit codes of `tracekit check`, what is worst first; 1 and 2 are errors of the user's.
EXIT_CODES = {Outcome.BROKEN: 3, Outcome.UNKNOWN: 4, Outcome.INCONCLUSIVE: 5, Outcome.HOLDS: 0}

_OF_CHANGE = {
    Change.FASTER: Outcome.HOLDS,
    Change.NO_DIFFERENCE: Outcome.HOLDS,
    Change.SLOWER: Outcome.BROKEN,
    Change.INCONCLUSIVE: Outcome.INCONCLUSIVE,
    Change.NOT_TESTED: Outcome.INCONCLUSIVE,
}


@dataclass(frozen=True)
class RuleResult:
    """The `outcome` of a rule, with the `rule` in words and what was `found`: a measured value, or why there is none.

    `measure` is None where there is none.
    """

    rule: str
    outcome: Outcome
    found: str
    measure: Measure | None = None

    @property
    def text(self) -> str:
        """The rule and what was found, in one line."""
        return f"{self.rule}: {self.found}"


@dataclass(frozen=True)
class CheckResult:
    """The `results` of all rules on a `source`, in their order."""

    source: str
    results: tuple[RuleResult, ...]

    @property
    def outcome(self) -> Outcome:
        """The worst outcome: broken, then what cannot be told, then what is inconclusive."""
        there = {result.outcome for result in self.results}
        return next(outcome for outcome in EXIT_CODES if outcome in there)

    @property
    def exit_code(self) -> int:
        """0 where all rules hold, 3 broken, 4 cannot be told from this trace, 5 inconclusive."""
        return EXIT_CODES[self.outcome]

    @property
    def headline(self) -> str:
        """How many rules have which outcome: `1 of 3 rules is broken, 1 cannot be told.`"""
        rules = quantity(len(self.results), "rule")
        if self.outcome == Outcome.HOLDS:
            return f"{rules} {'holds' if len(self.results) == 1 else 'hold'}."
        counts = {each: sum(result.outcome == each for result in self.results) for each in EXIT_CODES}
        parts = [
            f"{count} {outcome if outcome != Outcome.HOLDS or count == 1 else 'hold'}"
            for outcome, count in counts.items()
            if count
        ]
        return f"Of {rules}: {', '.join(parts)}."

    @property
    def data(self) -> dict[str, Any]:
        """Everything as plain data, for JSON."""
        return {
            "source": self.source,
            "outcome": str(self.outcome),
            "exit_code": self.exit_code,
            "rules": [
                {
                    "rule": result.rule,
                    "outcome": str(result.outcome),
                    "found": result.found,
                    "value": result.measure and result.measure.value,
                    "unit": result.measure and str(result.measure.unit),
                    "where": result.measure and result.measure.where,
                }
                for result in self.results
            ],
        }


def check(
    source: Source | Report,
    rules: str | os.PathLike[str] | Sequence[Rule] = (),
    *,
    baseline: Compared | None = None,
    floor: float | None = None,
    phases: Sequence[str] = (),
    run: str | None = None,
    kinds: str | os.PathLike[str] | None = None,
) -> CheckResult:
    """Hold a trace, a Report or the directory of a saved one against rules, those of a TOML file or a list of them.

    With a `baseline` it is also to be no slower than that, by the verdict of `tracekit.compare`, which takes both sides
    in the same forms, and `floor`; a directory of several runs is several captures. `phases` names annotations of a
    trace to take as phases too; `run` and `kinds` are as `tracekit.read` takes them. A rule whose measure the trace
    cannot tell does not hold. Raises TracekitError where a rule is none, or without any.
    """
    todo = _rules.read(rules) if isinstance(rules, str | os.PathLike) else tuple(rules)
    if not todo and baseline is None:
        raise TracekitError(
            "There is no rule to check. Give a file with --rules, or a bound, such as --max-idle 0.1 or --min-overlap "
            "devices=0.8, or a --baseline."
        )
    options = {"phases": phases, "run": run, "kinds": kinds}
    report = report_of(source, **options) if todo or any(options.values()) else None
    results = [of_rule(report, rule) for rule in todo] if report else []
    if baseline is not None:
        is_path = isinstance(source, str | os.PathLike) and not any(options.values())
        results.append(of_baseline(baseline, source if is_path or report is None else report, floor))
    name = report.trace.source if report else str(getattr(source, "source", source))
    return CheckResult(name, tuple(results))


def report_of(source: Source | Report, **options: Any) -> Report:
    """The report of a source, where that is not one: of a trace it is made, one that was saved is loaded."""
    if isinstance(source, Report):
        return source
    if isinstance(source, str | os.PathLike):
        place = Path(source)
        place = place.parent if place.name == SUMMARY else place
        if is_saved_report(place):
            if given := [name for name, value in options.items() if value]:
                raise TracekitError(
                    f"{place} is a saved report, to which {', '.join(given)} cannot be applied. Give its trace."
                )
            return load(place)
    return analyse(source, **options)


def of_baseline(baseline: Compared, source: Source | Report, floor: float | None = None) -> RuleResult:
    """Whether a source is no slower than a baseline, which the found text calls B and A."""
    name = Path(baseline).name if isinstance(baseline, str | os.PathLike) else "given"
    comparison = compare(baseline, source, floor=floor)
    verdict = comparison.verdict
    outcome = Outcome.UNKNOWN if verdict is None or comparison.is_same else _OF_CHANGE[verdict.outcome]
    reason = f" {verdict.reason}" if verdict and outcome == Outcome.INCONCLUSIVE else ""
    return RuleResult(f"B no slower than A, the baseline {name}", outcome, f"{comparison.headline}{reason}")


def of_rule(report: Report, rule: Rule) -> RuleResult:
    """Whether the report keeps the rule."""
    try:
        measure = report.measure(
            rule.measure, of=rule.of, phase=rule.phase, step=rule.step, device=rule.device, unit=rule.unit
        )
    except NotMeasurable as reason:
        return RuleResult(rule.text, Outcome.UNKNOWN, str(reason))
    bounds = [bound for bound in (rule.least, rule.most) if bound is not None]
    is_kept = (rule.least is None or measure.value >= rule.least) and (rule.most is None or measure.value <= rule.most)
    caveat = f"; {measure.caveat}" if measure.caveat else ""
    found = f"{_value(measure, bounds)} ({measure.where}{caveat})"
    return RuleResult(rule.text, Outcome.HOLDS if is_kept else Outcome.BROKEN, found, measure)


def _value(measure: Measure, bounds: Sequence[float]) -> str:
    """The value as people read it, with its side of the bound where it would read as a bound that it is not."""
    for bound in bounds:
        if FORMATS[measure.unit](bound) == measure.text and bound != measure.value:
            return f"just {'below' if measure.value < bound else 'above'} {measure.text}"
    return measure.text
