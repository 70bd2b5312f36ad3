"""What `tracekit doctor` found: a check for each question, and the answer to all of them."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console

State = Literal["ok", "warning", "missing"]

_STYLES = {"ok": "green", "warning": "yellow", "missing": "bold red"}
_STATE_WIDTH, _NAME_WIDTH = 9, 12


@dataclass(frozen=True)
class Check:
    """One question: its state, the finding in one line, and the command or step that fixes what is not ok.

    `needed`: without it tracekit's main job, to capture and to report, does not work here.
    """

    name: str
    state: State
    finding: str
    remedy: str = ""
    needed: bool = True


@dataclass(frozen=True)
class Diagnosis:
    """All checks, in the order in which one depends on the other."""

    checks: tuple[Check, ...]

    @property
    def works(self) -> bool:
        """Whether nothing is missing that tracekit's main job needs."""
        return not any(check.state == "missing" and check.needed for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, as `tracekit doctor --json` prints it."""
        return {"works": self.works, "checks": [asdict(check) for check in self.checks]}


def show(diagnosis: Diagnosis, on: "Console") -> None:
    """Print a line for each check, longer ones wrapped, with the remedy of what is not ok below it."""
    from rich.text import Text

    from tracekit.console import wrapped

    for check in diagnosis.checks:
        lines = wrapped(check.finding, on, f"{check.state:{_STATE_WIDTH}}{check.name:{_NAME_WIDTH}} ")
        first = Text(lines[0])
        first.stylize(_STYLES[check.state], 0, len(check.state))
        on.print(first, soft_wrap=True)
        indent = " " * (_STATE_WIDTH + _NAME_WIDTH + 1)
        remedy = wrapped(f"-> {check.remedy}", on, indent) if check.remedy else []
        for line in [*lines[1:], *remedy]:
            on.print(Text(line), soft_wrap=True)
    end = "tracekit works here." if diagnosis.works else "tracekit does not work here: fix what is missing."
    on.print()
    on.print(Text(end, style="bold"), soft_wrap=True)
