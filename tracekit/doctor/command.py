"""What `tracekit doctor` does: gather the facts, judge them, print a line for each check and how to mend it."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tracekit import console as terminal
from tracekit.doctor.check import Check
from tracekit.doctor.checks import checks, works
from tracekit.doctor.facts import still
from tracekit.doctor.processes import asked

_STYLES = {"ok": "green", "warning": "yellow", "missing": "bold red"}
_SIGN, _NAME = 9, 12


def run(as_json: bool, perfetto_ui: Callable[[], str | None]) -> bool:
    """Print all checks; returns whether tracekit's main job works here. `perfetto_ui` finds the UI, or None."""
    if sys.stderr.isatty():
        print("Asking jax and capturing a tiny program ...", file=sys.stderr)
    found = checks(asked(replace(still(Path("traces")), perfetto_ui=perfetto_ui())))
    if as_json:
        print(json.dumps({"works": works(found), "checks": [asdict(check) for check in found]}, indent=1))
    else:
        show(found, terminal.console())
    return works(found)


def show(found: Sequence[Check], on: Console) -> None:
    """Print one line for each check, longer ones wrapped, and below it how to mend what is not ok."""
    for check in found:
        lines = terminal.wrapped(check.said, on, f"{check.state:{_SIGN}}{check.name:{_NAME}} ")
        first = Text(lines[0])
        first.stylize(_STYLES[check.state], 0, len(check.state))
        on.print(first, soft_wrap=True)
        mend = terminal.wrapped(f"-> {check.mend}", on, " " * (_SIGN + _NAME + 1)) if check.mend else []
        for line in [*lines[1:], *mend]:
            on.print(Text(line), soft_wrap=True)
    end = "tracekit works here." if works(list(found)) else "tracekit does not work here: mend what is missing."
    on.print()
    on.print(Text(end, style="bold"), soft_wrap=True)
