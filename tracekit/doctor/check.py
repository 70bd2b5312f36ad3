"""What one answer of the doctor is made of."""

import re
from dataclasses import dataclass
from typing import Literal

from tracekit.doctor.facts import Ran

State = Literal["ok", "warning", "missing"]


@dataclass(frozen=True)
class Check:
    """One answer: ok, warning, or missing, in one line, and the command or step that mends it.

    `needed`: without it tracekit's main job, to capture and to report, does not work here.
    """

    name: str
    state: State
    said: str
    mend: str = ""
    needed: bool = True


def version(text: str) -> tuple[int, ...]:
    """The numbers that a version begins with: (0, 10, 2) of 0.10.2.dev3+cuda."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def failed(what: str, ran: Ran) -> str:
    """How a process failed, with the last thing that it said."""
    if ran.code is None:
        return f"{what} did not answer in time"
    how = f"ended by signal {-ran.code}" if ran.code < 0 else f"failed (exit code {ran.code})"
    return f"{what} {how}: {ran.last}" if ran.last else f"{what} {how}"


def counted(number: int, what: str) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
