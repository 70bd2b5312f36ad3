"""Measure in a fresh process: what it prints last is its figures."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def figures(command: Sequence[str | Path], numba_cache: Path | None = None) -> dict[str, Any]:
    """The JSON on the last line that `command` prints, or under `failed` why there is none.

    `numba_cache` is where compiled loops are kept, so that no first compilation is measured.
    """
    process = subprocess.run(
        list(command),
        capture_output=True,
        text=True,
        check=False,
        env=environment(numba_cache) | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    if process.returncode != 0:
        last = process.stderr.strip().splitlines()[-1:] or [""]
        return {"failed": f"exit code {process.returncode}: {last[0]}"}
    measurement: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return measurement


def environment(numba_cache: Path | None = None) -> dict[str, str]:
    """The environment of such a process, in which Python keeps the bytecode of modules, as a package that pip has
    installed has it: compiling them takes as long as half of the smallest report."""
    here = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return here if numba_cache is None else here | {"NUMBA_CACHE_DIR": str(numba_cache)}
