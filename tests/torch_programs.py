"""Programs of PyTorch that tests run in a process of their own, on the CPU; skipped where it is not installed."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
# CI keeps PyTorch in a directory of its own: the other tests need none of its 700 MB, and some begin to use it.
PLACE = os.environ.get("TRACEKIT_TORCH", "")
HAS_TORCH = bool(PLACE and Path(PLACE, "torch").is_dir()) or importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(
    not HAS_TORCH,
    reason="PyTorch is not installed: `pip install torch`, or name the directory that it is in as TRACEKIT_TORCH",
)


def environment(**more: str) -> dict[str, str]:
    """This process's environment, with PyTorch, without a job's ranks, and with `more`; two processes share the
    machine."""
    jobs = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    path = os.pathsep.join([str(ROOT), *([PLACE] if PLACE else [])])
    own = {name: value for name, value in os.environ.items() if name not in jobs}
    return own | {"PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", **more}


def python(*words: Any, cwd: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    """Run this Python; `more` is its environment's."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env=environment(**more), cwd=cwd, capture_output=True, text=True, timeout=120)


def capture(*words: Any, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `tracekit capture` with these words."""
    return python("-m", "tracekit", "capture", *words, cwd=cwd, **more)
