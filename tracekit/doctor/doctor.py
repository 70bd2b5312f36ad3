"""`tracekit doctor`: gather the facts, judge them, and say what was found."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from tracekit.doctor.checks import Check

_STYLES = {"ok": "green", "warning": "yellow", "missing": "bold red"}
_STATE_WIDTH, _NAME_WIDTH = 9, 12


@dataclass(frozen=True)
class Diagnosis:
    """All `checks`, in the order in which one depends on the other."""

    checks: "tuple[Check, ...]"

    @property
    def works(self) -> bool:
        """Whether nothing is missing that tracekit's main job needs."""
        return not any(check.state == "missing" and check.needed for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, as `tracekit doctor --json` prints it."""
        return {"works": self.works, "checks": [asdict(check) for check in self.checks]}


def doctor() -> Diagnosis:
    """Check whether tracekit works on this machine: versions, devices, a capture of a small program, viewers, disk.

    Takes some seconds: jax, TensorBoard and the capture are tried in processes of their own, each with a time limit.
    Nothing is left behind, and nothing of what is wrong raises: it is a check that says how to fix it.
    """
    # Here, because `import tracekit` imports this module.
    from tracekit.doctor.checks import check
    from tracekit.doctor.facts import gather, probe

    return Diagnosis(tuple(check(probe(gather()))))


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
