"""Run a Python script under the JAX profiler and leave a trace that TensorBoard accepts."""

import importlib.util
import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tracekit import cores
from tracekit.capture import script as _script
from tracekit.capture.session import Session, say
from tracekit.errors import CaptureError
from tracekit.files import replaced

_LAST_WAIT_S = 2.0  # for work that an interrupted script left behind


@dataclass(frozen=True)
class Captured:
    """A finished capture: the logdir for TensorBoard and `tracekit report`, its new run, the script's exit code.

    `unfinished`: the script was interrupted, and devices still worked when the trace was written.
    """

    path: Path
    run: Path
    exit_code: int
    unfinished: bool = False


class NothingCapturedError(CaptureError):
    """The script ended and left no trace; `exit_code` is its own, or 1 where that is 0."""

    def __init__(self, reason: str, exit_code: int) -> None:
        super().__init__(f"nothing was captured: {reason}")
        self.exit_code = exit_code or 1


def capture(
    script: str | Path,
    args: Sequence[str] = (),
    *,
    module: bool = False,
    out: str | Path | None = None,
    devices: int | None = None,
    host_level: int = 2,
    python_tracer: bool = False,
    restore: bool = True,
) -> Captured:
    """Run `script` in this process under jax.profiler and return where its trace lies.

    The script runs as `__main__`, as `python script args` (with `module`: `python -m script args`) would run it. The
    profile begins when the script first initialises a jax backend, so its own XLA_FLAGS, jax.config updates and
    jax.distributed.initialize() hold; if this process has backends already, it begins at once. `devices` is the number
    of virtual CPU devices, unless the script or XLA_FLAGS say otherwise. Annotations that were open before the profile
    began are not in it. `out` may hold runs already: one is added. `sys.argv`, `sys.path`, `__main__` and the
    environment are restored afterwards, unless `restore` is False, for a process that ends right after; imported
    modules stay. Raises NothingCapturedError if no backend was used, CaptureError if the capture cannot start.
    """
    if devices is not None and devices < 1:
        raise CaptureError(f"the number of devices must be at least 1, not {devices}.")
    if host_level not in range(4):
        raise CaptureError(f"the host level must be 0, 1, 2 or 3, not {host_level}.")
    script = str(script)
    if not module:
        _script.check_file(script)
    _check_jax(script, module)
    started = datetime.now().astimezone()
    # Run names of jax last one second: two captures in one second would share a directory.
    name = f"{started:%Y_%m_%d_%H_%M_%S}-{secrets.token_hex(3)}"
    out = Path("traces", f"{script if module else Path(script).stem}-{name}") if out is None else Path(out)
    folder = out.absolute()  # the script may change the directory
    _check_writable(out, folder)
    with _one_at_a_time(), _script.put_back() if restore else nullcontext():
        pid = os.getpid()
        profile = Session(folder, name, devices, host_level, python_tracer)
        with profile.hooked():
            begin = time.perf_counter()
            try:
                ending = _script.run(script, args, module=module, at_end=profile.wait_for_work)
            except CaptureError:
                if profile.facts is not None:  # the missing module's package has used a device
                    profile.stop()
                raise
            wall_s = time.perf_counter() - begin
            if os.getpid() != pid:  # a fork of the script, which leaves as python would; the trace is its parent's
                raise SystemExit(ending.exit_code)
        if profile.facts is None:
            reason = profile.problem or _unused(script, ending.exit_code)
            raise NothingCapturedError(reason, ending.exit_code)
        facts = {
            "schema": 1,
            "command": ["python", *(["-m"] if module else []), script, *args],
            "exit_code": ending.exit_code,
            "wall_s": round(wall_s, 6),
            "started": started.isoformat(timespec="milliseconds"),
            **profile.facts,
            "usable_cores": cores.usable(),
        }
        unfinished = _write(profile, ending, folder / "plugins" / "profile" / name, facts)
    return Captured(out, out / "plugins" / "profile" / name, ending.exit_code, unfinished)


_running = threading.Lock()


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    if not _running.acquire(blocking=False):
        raise CaptureError("a capture is already running in this process; one profile can run at a time.")
    try:
        yield
    finally:
        _running.release()


def _write(profile: Session, ending: _script.Ending, run: Path, facts: dict[str, Any]) -> bool:
    """Write the trace and capture.json into `run`; True if devices still work on what an interrupted script left."""
    with _no_interrupts():
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        unfinished = False
        if ending.interrupted:
            say("interrupted; writing the trace.")
            unfinished = not profile.wait_for_work(_LAST_WAIT_S)
        try:
            profile.stop()
            if not any(run.glob("*.xplane.pb")):
                raise FileNotFoundError(f"the profiler left no *.xplane.pb in {run}")
            text = json.dumps(facts, indent=2) + "\n"
            replaced(run / "capture.json", lambda draft: draft.write_text(text, "utf-8"))
        except Exception as error:
            raise NothingCapturedError(f"the trace could not be written: {error}", ending.exit_code) from error
    return unfinished


def _check_jax(script: str, module: bool) -> None:
    """Raise CaptureError where the script could not import jax, installed or in the directory that it starts from."""
    directory = Path.cwd() if module else Path(script).resolve().parent
    if "jax" in sys.modules or (directory / "jax").is_dir():
        return
    with suppress(ModuleNotFoundError):
        if importlib.util.find_spec("jax") is not None:
            return
    raise CaptureError(
        "jax is not installed in this Python, and a capture needs it: `pip install jax`, or for GPUs and TPUs see "
        "https://docs.jax.dev/en/latest/installation.html. Traces can be read without it."
    )


def _check_writable(out: Path, folder: Path) -> None:
    if out.exists() and not out.is_dir():
        raise CaptureError(f"{out} is a file, and a trace is a directory; name another with --out.")
    existing = next(parent for parent in [folder, *folder.parents] if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise CaptureError(
            f"{out} cannot be created: {existing} is not a writable directory; name another place with --out."
        )


def _unused(script: str, exit_code: int) -> str:
    reason = "used no jax device" if "jax" in sys.modules else "did not import jax"
    ended = f" before it ended with exit code {exit_code}" if exit_code else ""
    return f"{script} {reason} in this process{ended}, and a profile begins with a script's first jax device."


@contextmanager
def _no_interrupts() -> Iterator[None]:
    # A second Ctrl-C must not cut the file that the first one asked for.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in old.items():
            if handler is not None:
                signal.signal(number, handler)
