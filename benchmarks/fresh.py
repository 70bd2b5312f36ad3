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
    more = {} if numba_cache is None else {"NUMBA_CACHE_DIR": str(numba_cache)}
    process = subprocess.run(
        list(command),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **more, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    if process.returncode != 0:
        last = process.stderr.strip().splitlines()[-1:] or [""]
        return {"failed": f"exit code {process.returncode}: {last[0]}"}
    measurement: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return measurement
