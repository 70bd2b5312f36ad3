"""Programs of JAX that tests run in a process of their own, on the CPU, as a user would."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# What a user may have set for his own programs.
_DEVICES = ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")


def environment(**more: str) -> dict[str, str]:
    """This process's environment without its own settings of devices, for the CPU, and with `more`."""
    return {name: value for name, value in os.environ.items() if name not in _DEVICES} | {
        "JAX_PLATFORMS": "cpu",
        **more,
    }


def compile_once(directory: Path) -> dict[str, str]:
    """What makes JAX compile each program once, quickly, and keep it in `directory`: none runs for long."""
    return {
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_COMPILATION_CACHE_DIR": str(directory),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def python(*words: Any, cwd: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    """Run this Python with warnings as errors; `more` is its environment's."""
    # What another program is about to keep may be read half-written, for which JAX warns and compiles it itself.
    half_written = "ignore:Error reading persistent compilation cache entry"
    command = [sys.executable, "-W", "error", "-W", half_written, *map(str, words)]
    return subprocess.run(command, env=environment(**more), cwd=cwd, capture_output=True, text=True)
