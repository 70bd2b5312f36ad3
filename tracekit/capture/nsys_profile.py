"""Run a script under Nsight Systems, and export what it recorded, so that it is read on any machine."""

import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tracekit import nsys_program
from tracekit.capture import processes
from tracekit.capture.machine import MachineLoad
from tracekit.capture.new_run import publish
from tracekit.capture.session import say
from tracekit.errors import CaptureError
from tracekit.version import __version__

_OPTIONS = (
    "--trace=cuda,nvtx",
    "--cuda-graph-trace=node",  # or a graph is one row
    "--sample=none",
    "--cpuctxsw=none",
    "--force-overwrite=true",
)
_INSTALL = "https://developer.nvidia.com/nsight-systems/get-started"
_DEBIAN = "Debian's is in the package nsight-systems (non-free)"


def check(profiler: str) -> str:
    """The path of nsys, which is the `profiler`. Raises CaptureError where there is none, or another is wanted."""
    if profiler != "nsys":
        raise CaptureError(f"--profiler {profiler!r} is not known; nsys is, and without the option jax's own profiler.")
    nsys = nsys_program.program()
    if nsys is None:
        raise CaptureError(f"there is no `nsys` on PATH: install Nsight Systems ({_INSTALL}; {_DEBIAN}).")
    return nsys


def record(
    nsys: str, folder: Path, name: str, about: Mapping[str, Any], script: str, args: Sequence[str], module: bool
) -> tuple[int, str]:
    """Run `script` under `nsys`, and add the run `name` to `folder`; the exit code of the script, and why there is no
    trace, which is "" where there is one.

    What cannot be exported here is put beside the runs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder, ignore_cleanup_errors=True) as directory:
        draft, load = Path(directory), MachineLoad()
        (written := draft / "run").mkdir()
        report = written / f"{platform.node() or 'host'}.nsys-rep"
        begin = time.perf_counter()
        load.start()
        kind = "module" if module else "file"
        exit_code, said = _run(nsys, report.with_suffix(""), draft / "status.json", [kind, script, *args])
        load.stop()
        status = _status(draft / "status.json")
        exit_code = exit_code or int(status.get("exit_code", 0))  # of a script that was interrupted, nsys says 0
        if "problem" in status:
            raise CaptureError(status["problem"])
        if problem := _exported(nsys, report, folder / name, said):
            return exit_code, problem
        if not status.get("ranges", True):
            say("this nsys gave no way to mark NVTX ranges: phases and steps are not in the trace.")
        facts = {
            **about,
            "exit_code": exit_code,
            "wall_s": round(time.perf_counter() - begin, 6),
            "profiler": "nsys",
            "versions": {
                "python": status.get("python", platform.python_version()),
                **status.get("versions", {}),
                "nsys": nsys_program.version(nsys),
                "tracekit": __version__,
            },
            "machine": load.facts(),
        }
        publish(written, folder / "plugins" / "profile" / name, facts)
    return exit_code, ""


def _run(nsys: str, output: Path, status: Path, words: Sequence[str]) -> tuple[int, str]:
    """Profile the script that `words` name; its exit code, and what nsys said, which is kept from the script's own
    output."""
    options = nsys_program.known(nsys, "profile", _OPTIONS)
    named = str(output).replace("%", "%%")  # a pattern in nsys
    own = [os.dup(stream) for stream in (1, 2)]
    try:
        with tempfile.TemporaryFile() as log:
            places = [str(status), str(os.getpid()), *map(str, own)]
            child = [sys.executable, "-m", "tracekit.capture.nsys_script", *places, *words]
            exit_code = processes.call([nsys, "profile", *options, f"--output={named}", *child], log.fileno(), own)
            log.seek(0)
            return exit_code, log.read().decode("utf-8", "replace")
    finally:
        for descriptor in own:
            with suppress(OSError):  # what the script wrote to a file is at its end, where nsys hands no descriptor on
                os.lseek(descriptor, 0, os.SEEK_END)
            os.close(descriptor)


def _exported(nsys: str, report: Path, kept: Path, said: str) -> str:
    """Export the report, or of a raw stream the report that its importer makes; "", or why there is no export, and
    where what nsys wrote is `kept` then."""
    raw = report.with_suffix(nsys_program.RAW)
    if not report.is_file() and not raw.is_file():
        lines = nsys_program.said(said)
        return f"nsys {nsys_program.version(nsys)} wrote no report: {lines[-1].rstrip('.') if lines else 'no reason'}."
    if not report.is_file():
        problem = nsys_program.imported(nsys, raw, report)
        if problem:
            moved = shutil.move(raw, kept.with_name(f"{kept.name}{nsys_program.RAW}"))
            return (
                f"nsys {nsys_program.version(nsys)} left a raw stream, {moved}: {problem}. Install all of Nsight "
                f"Systems ({_INSTALL}; {_DEBIAN}), and give that file to `tracekit report`."
            )
        raw.unlink()
    if problem := nsys_program.export(nsys, report, report.with_suffix(".sqlite")):
        moved = shutil.move(report, kept.with_name(f"{kept.name}{report.suffix}"))
        return f"nsys {nsys_program.version(nsys)} did not export its report, {moved}: {problem}."
    return ""


def _status(path: Path) -> dict[str, Any]:
    """What the script's process said of itself, nothing where it was killed."""
    with suppress(OSError, ValueError):
        status: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return status
    return {}
