"""Facts that only a process can tell, each with a time limit: a broken driver may hang or crash whoever asks it."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tracekit.doctor.facts import Facts, Outcome

LIMIT_S = 90.0
_DEVICES = """
import json, jax
print(json.dumps({"devices": [{"platform": d.platform, "kind": d.device_kind} for d in jax.local_devices()]}))
"""
# Imported as `tracekit view` does it.
_VIEWER = """
from tensorboard import program
from tensorboard_plugin_profile import profile_plugin
"""
_PROGRAM = Path(__file__).with_name("probe_program.py")


def probe(facts: Facts, limit_s: float = LIMIT_S) -> Facts:
    """`facts` with what the processes say: jax's devices, the viewer, the capture of a small program and its rows."""
    devices = run([sys.executable, "-P", "-c", _DEVICES], limit_s)
    viewer = run([sys.executable, "-P", "-c", _VIEWER], limit_s)
    facts = replace(facts, devices=devices, viewer=viewer)
    if devices.code != 0:
        return facts
    with tempfile.TemporaryDirectory(prefix="tracekit-doctor-", ignore_cleanup_errors=True) as directory:
        trace = str(Path(directory) / "trace")
        tracekit = [sys.executable, "-m", "tracekit"]
        capture = run([*tracekit, "capture", "--out", trace, str(_PROGRAM)], limit_s)
        if capture.code != 0:
            return replace(facts, capture=capture)
        return replace(facts, capture=capture, read=run([*tracekit, "read", "--json", trace], limit_s))


def run(command: Sequence[str], limit_s: float = LIMIT_S) -> Outcome:
    """Run a command to its end, or to its time limit; what it started ends with it, and is not waited for."""
    # Not pipes: a grandchild that keeps one open would be waited for.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=_environment(), start_new_session=True
        )
        code: int | None = None
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(limit_s)
        if code is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):  # a process inside a hung driver cannot even be killed
                process.wait(2)
        output = []
        for file in (out, err):
            file.seek(0)
            output.append(file.read().decode("utf-8", "replace"))
    return Outcome(code, *output)


def _environment() -> dict[str, str]:
    """This process's environment, where this very tracekit is found, and no more of a GPU's memory is taken than used
    (https://docs.jax.dev/en/latest/gpu_memory_allocation.html)."""
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), package])
    return os.environ | {"PYTHONPATH": path, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
