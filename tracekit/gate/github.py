"""The results of rules as GitHub Actions shows them: annotations of a run, and the summary of its step."""

from tracekit.gate.check import CheckResult, Outcome

_MARKS = {
    Outcome.HOLDS: ":white_check_mark:",
    Outcome.BROKEN: ":x:",
    Outcome.UNKNOWN: ":grey_question:",
    Outcome.INCONCLUSIVE: ":warning:",
}


def annotations(result: CheckResult) -> list[str]:
    """A workflow command for each rule that does not hold
    (https://docs.github.com/actions/reference/workflow-commands-for-github-actions)."""
    return [
        f"::{'warning' if each.outcome == Outcome.INCONCLUSIVE else 'error'} "
        f"title={_escaped(f'tracekit check: {each.outcome}', ':,')}::{_escaped(each.text)}"
        for each in result.results
        if each.outcome != Outcome.HOLDS
    ]


def step_summary(result: CheckResult) -> str:
    """A table of all rules, in Markdown."""
    rows = [
        f"| {_MARKS[each.outcome]} {each.outcome} | {_cell(each.rule)} | {_cell(each.found)} |"
        for each in result.results
    ]
    head = f"### tracekit check: {_cell(result.source or 'a report')}\n\n{result.headline}\n"
    return "\n".join([head, "| | rule | measured |", "|---|---|---|", *rows, ""])


def _escaped(text: str, more: str = "") -> str:
    for sign in f"%\r\n{more}":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
