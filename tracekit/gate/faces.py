"""Where the results of a check go: the screen, a JUnit file, and in GitHub Actions its annotations and summary."""

import json
import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from tracekit import remote
from tracekit.console import show, tell
from tracekit.errors import TracekitError
from tracekit.files import refuse_inside, replaced
from tracekit.gate.check import CheckResult, Outcome
from tracekit.gate.junit import junit
from tracekit.report.markdown import escaped

_WIDTH = max(map(len, Outcome))
_MARKS = {
    Outcome.HOLDS: ":white_check_mark:",
    Outcome.BROKEN: ":x:",
    Outcome.UNKNOWN: ":grey_question:",
    Outcome.INCONCLUSIVE: ":warning:",
}


def lines(result: CheckResult) -> list[str]:
    """One line a rule, what is missing from a trace, then how many hold."""
    return [*(f"{each.outcome:<{_WIDTH}}  {each.text}" for each in result.results), *result.notes, result.headline]


def publish(result: CheckResult, junit_file: str | os.PathLike[str] | None = None, as_json: bool = False) -> None:
    """Print the results, and write them where they are asked for: to a JUnit file, and where GitHub Actions runs this.

    Raises TracekitError where a file cannot be written, or lies inside a trace.
    """
    if junit_file is not None:
        for trace in result.traces:
            refuse_inside(junit_file, trace)
    if as_json:
        print(json.dumps(result.data, indent=1))
    else:
        show(lines(result))
    try:
        if junit_file is not None:
            text = junit(result, _now())
            with remote.written(remote.place(junit_file)) as place:
                place.parent.mkdir(parents=True, exist_ok=True)
                replaced(place, lambda draft: draft.write_text(text, "utf-8"))
            tell(f"Wrote {junit_file}")
        if os.environ.get("GITHUB_ACTIONS") == "true":
            if as_json:  # which stdout is for
                for annotation in annotations(result):
                    tell(annotation)
            else:
                show(annotations(result))
            if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
                with Path(summary).open("a", encoding="utf-8") as file:
                    file.write(step_summary(result))
    except OSError as error:
        raise TracekitError(f"The results cannot be written: {error}.") from None


def _now() -> datetime:
    """The time that a JUnit file has, in UTC: SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs) where that is
    set to one, else that of the check."""
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    if stated.isdecimal():
        with suppress(ValueError, OverflowError, OSError):  # past the year 9999
            return datetime.fromtimestamp(int(stated), UTC)
    return datetime.fromtimestamp(time.time(), UTC)


def annotations(result: CheckResult) -> list[str]:
    """A workflow command of GitHub Actions for each rule that does not hold, and for what is missing from a trace
    (https://docs.github.com/actions/reference/workflow-commands-for-github-actions)."""
    return [
        *(f"::warning title=tracekit check%3A not whole::{_escaped(note)}" for note in result.notes),
        *_of_rules(result),
    ]


def _of_rules(result: CheckResult) -> list[str]:
    return [
        f"::{'warning' if each.outcome == Outcome.INCONCLUSIVE else 'error'} "
        f"title={_escaped(f'tracekit check: {each.outcome}', ':,')}::{_escaped(each.text)}"
        for each in result.results
        if each.outcome != Outcome.HOLDS
    ]


def step_summary(result: CheckResult) -> str:
    """A table of all rules, in Markdown, for the summary of a step of GitHub Actions."""
    rows = [
        f"| {_MARKS[each.outcome]} {each.outcome} | {escaped(each.rule)} | {escaped(each.found)} |"
        for each in result.results
    ]
    head = f"### tracekit check: {escaped(result.source or 'a report')}\n\n{escaped(result.headline)}\n"
    notes = [f"\n{escaped(note)}" for note in result.notes]
    return "\n".join([head, "| | rule | measured |", "|---|---|---|", *rows, *notes, ""])


def _escaped(text: str, more: str = "") -> str:
    for sign in f"%\r\n{more}":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text
