"""The parts of a GPU day: commands, each in a process group of its own, with a time limit and a log."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

GRACE_S = 3.0  # between SIGTERM and SIGKILL: nsys and a capture then write what they have
LEAST_S = 3.0  # with less time left, a part is not begun


@dataclass(frozen=True)
class Part:
    """A command, its time limit, and what it adds to the environment.

    `missing` says why it cannot run here, and `needs` names a file or directory that an earlier part writes: without
    it the part is not begun.
    """

    name: str
    command: Sequence[str]
    limit_s: float
    env: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""
    needs: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """How a part ended: "ok", "failed", "stopped" (at its time limit) or "not run", after how many seconds, and why."""

    name: str
    state: str
    seconds: float
    why: str = ""


class Parts:
    """Runs parts until `deadline` (of time.monotonic), and keeps what became of each; logs go to `logs`."""

    def __init__(self, logs: Path, deadline: float, env: Mapping[str, str]) -> None:
        self.logs, self.deadline, self.env = logs, deadline, env
        self.outcomes: list[Outcome] = []

    def run(self, part: Part) -> Outcome:
        """Run one part, print what became of it, and keep that."""
        outcome = self._run(part)
        self.outcomes.append(outcome)
        print(
            f"{outcome.state:8s} {outcome.seconds:6.1f} s  {part.name}{outcome.why and f': {outcome.why}'}", flush=True
        )
        return outcome

    def run_all(self, parts: Iterable[Part], workers: int = 1) -> None:
        """Run the parts in order, up to `workers` at a time."""
        if workers == 1:  # in this thread, which Ctrl-C reaches
            for part in parts:
                self.run(part)
            return
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(self.run, parts))

    def _run(self, part: Part) -> Outcome:
        if part.missing:
            return Outcome(part.name, "not run", 0.0, part.missing)
        if part.needs is not None and not part.needs.exists():
            return Outcome(part.name, "not run", 0.0, f"there is no {part.needs.name} of an earlier part")
        left_s = self.deadline - time.monotonic()
        if left_s < LEAST_S:
            return Outcome(part.name, "not run", 0.0, "no time was left")
        limit_s = min(part.limit_s, left_s)
        log = self.logs / f"{part.name.replace(' ', '-').replace('/', '-')}.txt"
        begin = time.monotonic()
        code = run_limited(part.command, limit_s, log, {**self.env, **part.env})
        seconds = time.monotonic() - begin
        if code == 0:
            return Outcome(part.name, "ok", seconds)
        if code is None:
            return Outcome(part.name, "stopped", seconds, f"it took longer than {limit_s:.0f} s ({log.name})")
        return Outcome(part.name, "failed", seconds, f"{last_line(log) or f'exit code {code}'} ({log.name})")


def run_limited(command: Sequence[str], limit_s: float, log: Path, env: Mapping[str, str]) -> int | None:
    """The exit code of a command whose output goes to `log`, -1 where it cannot be started, None at its time limit.

    Whatever it has started in its process group ends with it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    # A file and no pipe: what a grandchild keeps open would be waited for.
    with log.open("w") as file:
        file.write(f"$ {shlex.join(command)}\n")
        file.flush()
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env},
                start_new_session=True,
            )
        except OSError as error:
            file.write(f"{error}\n")
            return -1
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            return None
        finally:
            _signal(process, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):  # a process inside a hung driver cannot even be killed
                process.wait(2)


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def last_line(log: Path) -> str:
    """The last line of a log that is not empty, without the command that it begins with."""
    lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines()[1:] if line.strip()]
    return lines[-1][:300] if lines else ""
