"""Tasks that processes of tests/test_executors.py run, where they import them from."""

import os
import signal
from pathlib import Path


def double(number: int) -> int:
    return 2 * number


def die(marker: str, times: int) -> str:
    """End this process, as the system does where memory is short, the first so many times; then give its name."""
    path = Path(marker)
    died = len(path.read_text()) if path.exists() else 0
    if died < times:
        path.write_text("x" * (died + 1))
        os.kill(os.getpid(), signal.SIGKILL)
    return path.name
