"""What `tracekit check` does: hold a report against rules, and say of each whether it is kept."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Any

from tracekit import remote
from tracekit.comparison.comparability import is_same
from tracekit.comparison.comparison import compare
from tracekit.comparison.sides import Capture, Compared, Reading, captures
from tracekit.comparison.verdict import Change
from tracekit.comparison.words import mean_words, sources
from tracekit.errors import NotMeasurable, TracekitError
from tracekit.gate import rules as _rules
from tracekit.gate.rules import Rule
from tracekit.report.measures import Measure
from tracekit.report.model import Report
from tracekit.report.section import FORMATS
from tracekit.units import quantity

# Of more captures than this the least and the greatest value are told.
_MOST_VALUES = 6


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
    """The `outcome` of a rule, with the `rule` in words and what was `found`: what was measured, or why nothing was.

    `measures` are those of each capture, none where one cannot tell it; `measure` is the worst of them for the rule,
    None without any.
    """

    rule: str
    outcome: Outcome
    found: str
    measure: Measure | None = None
    measures: tuple[Measure, ...] = ()

    @property
    def text(self) -> str:
        """The rule and what was found, in one line."""
        return f"{self.rule}: {self.found}"


@dataclass(frozen=True)
class CheckResult:
    """The `results` of all rules on a `source`, in their order; `traces` are the paths of what it is, and `notes` say
    what is missing from them and from a baseline, in sentences."""

    source: str
    results: tuple[RuleResult, ...]
    traces: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

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
                    "values": [measure.value for measure in result.measures],
                }
                for result in self.results
            ],
            "notes": list(self.notes),
        }


def check(
    source: Compared,
    rules: str | os.PathLike[str] | Sequence[Rule] = (),
    *,
    baseline: Compared | None = None,
    floor: float | None = None,
    phases: Sequence[str] = (),
    run: str | None = None,
    kinds: str | os.PathLike[str] | None = None,
) -> CheckResult:
    """Hold a trace, a Report or the directory of a saved one against rules, those of a TOML file or a list of them.

    A sequence of these, or a directory of several runs or saved reports, is several captures of one program: a rule
    holds where all of them keep it, is broken where all break it, and else inconclusive. With a `baseline` it is also
    to be no slower than that, by the verdict of `tracekit.compare`, which takes both sides in the same forms, and
    `floor`. `phases` names annotations of a trace to take as phases too; `run` and `kinds` are as `tracekit.read` takes
    them. A rule whose measure a capture cannot tell does not hold. Raises TracekitError where a rule is none, without
    any, and where one capture is given twice.
    """
    todo = _rules.read(rules) if isinstance(rules, str | os.PathLike) else tuple(rules)
    if not todo and baseline is None:
        raise TracekitError(
            "There is no rule to check. Give a file with --rules, or a bound, such as --max-idle 0.1 or --min-overlap "
            "devices=0.8, or a --baseline."
        )
    its = captures(source, Reading(tuple(phases), run, kinds))
    _refuse_twice(its)
    reports = [capture.report for capture in its]
    results, notes = [of_rule(reports, rule) for rule in todo], _missing(its)
    if baseline is not None:
        first = captures(baseline)
        at = remote.base_name(remote.place(baseline)) if isinstance(baseline, str | os.PathLike) else "given"
        results.append(of_baseline(at, [capture.report for capture in first], reports, floor))
        notes += [f"Of the baseline {at}: {note}" for note in _missing(first)]
    name = reports[0].trace.source
    label = name if len(its) == 1 else sources(capture.label for capture in its)
    traces = tuple(capture.report.trace.source for capture in its if capture.report.trace.source)
    return CheckResult(label, tuple(results), traces, tuple(notes))


def _missing(its: Sequence[Capture]) -> list[str]:
    """What is missing from captures, a sentence each."""
    return [
        f"{capture.report.trace.source or capture.label} {sentence}"
        for capture in its
        if (sentence := capture.report.not_whole)
    ]


def _refuse_twice(its: Sequence[Capture]) -> None:
    """Raise TracekitError where two captures are one: it would count twice."""
    for one, other in combinations(its, 2):
        if is_same(one.report, other.report):
            raise TracekitError(f"{one.label} and {other.label} are one capture: give each once.")


def of_baseline(
    name: str, baseline: Sequence[Report], reports: Sequence[Report], floor: float | None = None
) -> RuleResult:
    """Whether captures are no slower than those of the baseline `name`: the found text calls them B, and these A."""
    comparison = compare(list(baseline), list(reports), floor=floor)
    verdict = comparison.verdict
    outcome = Outcome.UNKNOWN if verdict is None or comparison.is_same else _OF_CHANGE[verdict.outcome]
    found = [comparison.headline]
    if verdict and comparison.main and not comparison.is_same:
        found += [verdict.reason] if verdict.of_typical in (Change.INCONCLUSIVE, Change.NOT_TESTED) else []
        found += [mean_words(verdict, comparison.main.unit)]
    return RuleResult(f"B no slower than A, the baseline {name}", outcome, " ".join(filter(None, found)))


def of_rule(reports: Sequence[Report], rule: Rule) -> RuleResult:
    """Whether all of the reports keep the rule, each of a capture of one program.

    Where some do and some do not, nothing says on which side of the bound the program is: inconclusive.
    """
    measures, unknown = [], []
    for report in reports:
        try:
            measure = report.measure(
                rule.measure, of=rule.of, phase=rule.phase, step=rule.step, device=rule.device, unit=rule.unit
            )
            measures.append(measure)
        except NotMeasurable as reason:
            unknown.append(str(reason))
    if unknown:
        where = f"In {len(unknown)} of {len(reports)} captures: " if len(reports) > 1 else ""
        return RuleResult(rule.text, Outcome.UNKNOWN, f"{where}{unknown[0]}")
    worst = max(measures, key=lambda measure: _beyond(measure, rule))
    broken = sum(_beyond(measure, rule) > 0 for measure in measures)
    outcome = Outcome.HOLDS if not broken else Outcome.BROKEN if broken == len(measures) else Outcome.INCONCLUSIVE
    where = f"{worst.where}{'; ' if worst.caveat else ''}{worst.caveat}"
    if len(measures) == 1:
        found = f"{_value(worst, rule)} ({where})"
    else:
        verb = "breaks" if broken == 1 else "break"
        split = f", of which {broken} {verb} it" if outcome == Outcome.INCONCLUSIVE else ""
        found = f"{_values(measures, rule)} in {len(measures)} captures{split} (worst: {where})"
    return RuleResult(rule.text, outcome, found, worst, tuple(measures))


def _beyond(measure: Measure, rule: Rule) -> float:
    """How far a value is on the wrong side of the bounds; 0 or less where it keeps them."""
    below = -math.inf if rule.least is None else rule.least - measure.value
    above = -math.inf if rule.most is None else measure.value - rule.most
    return max(below, above)


def _values(measures: Sequence[Measure], rule: Rule) -> str:
    """The values of all captures, in order; of many the least and the greatest."""
    if len(measures) <= _MOST_VALUES:
        *first, last = (_value(measure, rule) for measure in measures)
        return f"{', '.join(first)} and {last}"
    ordered = sorted(measures, key=lambda measure: measure.value)
    return f"{_value(ordered[0], rule)} to {_value(ordered[-1], rule)}"


def _value(measure: Measure, rule: Rule) -> str:
    """The value as people read it, with its side of the bound where it would read as a bound that it is not."""
    for bound in (bound for bound in (rule.least, rule.most) if bound is not None):
        if FORMATS[measure.unit](bound) == measure.text and bound != measure.value:
            return f"just {'below' if measure.value < bound else 'above'} {measure.text}"
    return measure.text
