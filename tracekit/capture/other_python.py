"""Run a script under MXNet's profiler by another Python, the one that has MXNet: tracekit itself needs a newer one."""

import gzip
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tracekit.capture import mxnet_runner, processes
from tracekit.capture.machine import MachineLoad
from tracekit.capture.new_run import publish
from tracekit.capture.session import say
from tracekit.errors import CaptureError
from tracekit.units import quantity
from tracekit.version import __version__

_INSTALL = "pip install mxnet==1.9.1 'numpy<1.24'"


def check(python: str) -> str:
    """The path of the interpreter `python`, a path or a name. Raises CaptureError where there is none."""
    found = shutil.which(python)
    if found is None:
        what = "is not executable" if Path(python).exists() else "is not there"
        raise CaptureError(f"--python {python} {what}: give the path of a Python that has mxnet.")
    return found


def record(
    python: str, folder: Path, name: str, about: Mapping[str, Any], script: str, args: Sequence[str], module: bool
) -> tuple[int, str]:
    """Run `script` by the interpreter `python`, and add the run `name` to `folder`; the exit code of the script, and
    why there is no trace, which is "" where there is one.

    Raises CaptureError where the interpreter does not run, or has no mxnet.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder, ignore_cleanup_errors=True) as directory:
        draft, load = Path(directory), MachineLoad()
        command = [python, mxnet_runner.__file__, str(draft), "module" if module else "file", script, *args]
        begin = time.perf_counter()
        load.start()
        try:
            exit_code = processes.call(command)
        except OSError as error:
            raise CaptureError(f"{python} cannot be run: {error.strerror}.") from None
        finally:
            load.stop()
        status = _status(draft)
        if status is None and exit_code <= 128:
            raise CaptureError(
                f"{python} did not run the script (exit code {exit_code}): what it said is above. --python takes a "
                "Python of 3.7 or newer."
            )
        if status is not None and not status["found"]:
            raise CaptureError(f"mxnet is not installed in {python}: `{python} -m {_INSTALL}` installs it.")
        problem, omitted = _problem(script, exit_code, status, draft), _omitted(status or {})
        if status is None or problem:
            return exit_code, " ".join(filter(None, (problem, omitted)))
        if omitted:
            say(omitted)
        facts = {
            **about,
            "exit_code": exit_code,
            "wall_s": round(time.perf_counter() - begin, 6),
            "profiler": "mxnet",
            "versions": {"python": status["python"], "mxnet": status["mxnet"], "tracekit": __version__},
            "machine": load.facts(),
        }
        (written := draft / "run").mkdir()
        packed_name = f"{platform.node() or 'host'}.json.gz"
        with (draft / mxnet_runner.DUMP).open("rb") as dump, gzip.open(written / packed_name, "wb", 6) as packed:
            shutil.copyfileobj(dump, packed)
        publish(written, folder / "plugins" / "profile" / name, facts)
    return exit_code, ""


def _status(draft: Path) -> dict[str, Any] | None:
    """What the runner said of the script, None where it did not come to that."""
    with suppress(OSError, ValueError):
        status: dict[str, Any] = json.loads((draft / mxnet_runner.STATUS).read_text("utf-8"))
        return status
    return None


def _omitted(status: Mapping[str, Any]) -> str:
    """What of the script's processes is not in the trace, as a sentence; empty where there is only one."""
    count = int(status.get("children", 0))
    if not count:
        return ""
    return (
        f"{quantity(count, 'process', 'processes')} that the script started {'is' if count == 1 else 'are'} not in the "
        "trace: MXNet's profiler records its own process. Capture what each runs by itself."
    )


def _problem(script: str, exit_code: int, status: Mapping[str, Any] | None, draft: Path) -> str:
    """Why the script left no trace, "" where it did."""
    if status is None:
        return (
            f"{script} was ended (exit code {exit_code}: killed, or crashed) before its trace was written; MXNet keeps "
            "a trace in memory up to its end."
        )
    ended = f" before it ended with exit code {exit_code}" if exit_code else ""
    if "mxnet" not in status:
        return f"{script} did not import mxnet{ended}."
    dump = draft / mxnet_runner.DUMP
    if not dump.is_file() or not dump.stat().st_size:
        return f"MXNet's profiler wrote nothing{ended}; is the disk full? It writes to {os.fspath(draft.parent)}."
    return ""
