"""Where the results of a check go: the screen, a JUnit file, and in GitHub Actions its annotations and summary."""

import json
import os
import sys
from datetime import datetime
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.files import replaced
from tracekit.gate.check import CheckResult, Outcome
from tracekit.gate.github import annotations, step_summary
from tracekit.gate.junit import junit

_WIDTH = max(map(len, Outcome))


def lines(result: CheckResult) -> list[str]:
    """One line a rule, then how many hold."""
    return [*(f"{each.outcome:<{_WIDTH}}  {each.text}" for each in result.results), result.headline]


def publish(result: CheckResult, junit_file: Path | None = None, as_json: bool = False) -> None:
    """Print the results, and write them where they are asked for: to a JUnit file, and where GitHub Actions runs this.

    Raises TracekitError where a file cannot be written.
    """
    print(json.dumps(result.data, indent=1) if as_json else "\n".join(lines(result)))
    try:
        if junit_file is not None:
            junit_file.parent.mkdir(parents=True, exist_ok=True)
            text = junit(result, datetime.now())
            replaced(junit_file, lambda draft: draft.write_text(text, "utf-8"))
            print(f"Wrote {junit_file}", file=sys.stderr)
        if os.environ.get("GITHUB_ACTIONS") == "true":
            print("\n".join(annotations(result)), file=sys.stderr if as_json else sys.stdout)
            if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
                with Path(summary).open("a", encoding="utf-8") as file:
                    file.write(step_summary(result))
    except OSError as error:
        raise TracekitError(f"The results cannot be written: {error}.") from None
