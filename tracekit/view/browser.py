"""Open an address in the user's browser: beside the server, without output, and never in the way of its stop."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

# `webbrowser` waits for commands that it does not know (BROWSER=...), so it has a process, whose standard input is its
# life line: a command that is still running when the server stops, or dies, ends with it. Browsers that `webbrowser`
# knows are in sessions of their own and stay.
_OPENER = """
import os, signal, sys, threading, webbrowser
def open_it():
    try:
        webbrowser.open(sys.argv[1])
    finally:
        os._exit(0)
threading.Thread(target=open_it, daemon=True).start()
os.read(0, 1)
os.killpg(0, signal.SIGKILL)
"""
_LIMIT_S = 1.0


def is_wanted(environment: Mapping[str, str], on_terminal: bool, platform: str = sys.platform) -> bool:
    """Whether somebody sits before a screen: a terminal, and a display or a BROWSER of the user's own choice."""
    names = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    return on_terminal and (platform == "darwin" or any(environment.get(name) for name in names))


@contextmanager
def open_address(address: str, wanted: bool) -> Iterator[None]:
    """Open `address` while the block runs, if `wanted`; that it could not be opened is no error."""
    if not wanted:
        yield
        return
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        # -P: a file of the user's that is called webbrowser.py must not be imported.
        [sys.executable, "-P", "-c", _OPENER, address],
        stdin=subprocess.PIPE,
        stdout=quiet,
        stderr=quiet,
        start_new_session=True,
    ) as opener:
        assert opener.stdin is not None
        try:
            yield
        finally:
            opener.stdin.close()
            try:
                opener.wait(timeout=_LIMIT_S)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(opener.pid, signal.SIGKILL)
