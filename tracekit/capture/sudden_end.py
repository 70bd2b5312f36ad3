"""A second process, which says what was saved where the captured one ends without a word: killed, or crashed.

It runs as a script of its own, without tracekit's packages, beside the profile and not after it.
"""

import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_POLL_S = 0.2  # where the system has no descriptors of processes
_SAID = (
    "tracekit: the process ended before its trace was written (it was killed, or crashed): nothing was saved, because "
    "the profiler keeps a trace in memory up to its end. --for 2s or --steps 5 write it while the script runs."
)
_WRITTEN = "tracekit: the process ended (it was killed, or crashed) when its trace was written: {}"


class SuddenEnd:
    """Says on stderr that this process is gone, from `watch` until `avert`."""

    def __init__(self) -> None:
        self._averted: int | None = None
        self._pipe: os.stat_result | None = None
        self._open: Path | None = None  # a file that is there until `avert`: a script may close what it did not open

    def watch(self, draft: Path, run: Path) -> None:
        """Start the second process, which removes `draft` too, and knows where the trace will be, `run`; it is no child
        of this one, for a program may wait for any child of its own."""
        with suppress(OSError, subprocess.SubprocessError):  # without it the capture says one line less
            number, name = tempfile.mkstemp(prefix="tracekit-capture-")
            os.close(number)
            self._open = Path(name)
            read, self._averted = os.pipe()
            self._pipe = os.fstat(self._averted)
            places = [os.path.abspath(path) for path in (draft, run)]
            try:
                subprocess.run(
                    [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(read), name, *places],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=(read,), cwd="/", timeout=10,
                )  # fmt: skip
            finally:
                os.close(read)

    def avert(self) -> None:
        """The trace is written, or why it is not has been said."""
        if self._open is not None:
            with suppress(OSError):
                self._open.unlink(missing_ok=True)
            self._open = None
        if self._averted is not None and self._pipe is not None:
            with suppress(OSError):  # the script has closed it, and the number may be of a file of its own
                if os.path.samestat(os.fstat(self._averted), self._pipe):
                    with suppress(OSError):  # the second process was ended, too
                        os.write(self._averted, b".")
                    os.close(self._averted)
            self._averted = None


def _watch(pid: int, averted: int, still_open: str, draft: str, run: str) -> None:
    os.setsid()  # signals of the terminal are not for it
    if _is_gone(pid, averted) and os.path.exists(still_open):
        with suppress(OSError):
            os.unlink(still_open)
        shutil.rmtree(draft, ignore_errors=True)
        with suppress(OSError, ValueError):
            os.write(2, f"{_WRITTEN.format(ascii(run)[1:-1]) if os.path.isdir(run) else _SAID}\n".encode())


def _is_gone(pid: int, averted: int) -> bool:
    """Whether the process `pid` ends before a byte comes from `averted`."""
    try:
        process = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return True
    while True:
        # A fork of the process may hold the pipe open, so that its end alone tells nothing.
        ready, _, _ = select.select([averted, *([] if process is None else [process])], [], [], _POLL_S)
        if averted in ready and os.read(averted, 1):
            return False
        if process is not None:
            if process in ready:
                return True
        else:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return True
        if averted in ready:
            time.sleep(_POLL_S)  # the pipe is closed, the process not gone yet


if __name__ == "__main__" and os.fork() == 0:
    _watch(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6])
