"""A viewer's server: a process that serves a temporary directory, stops cleanly, and dies with this one.

Beside it, a browser is opened without output, and never in the way of its stop.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from tracekit.errors import ViewError

HOST = "127.0.0.1"
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

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
_BROWSER_LIMIT_S = 1.0


def check_port(port: int) -> None:
    """Raise ViewError if the port cannot be listened on; a server says so too, but after seconds of imports."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ViewError(
                f"port {port} cannot be used ({error.strerror}): choose another with --port; --port 0 finds a free one"
            ) from None


@contextmanager
def until_stopped() -> Iterator[None]:
    """End the block quietly on Ctrl-C, SIGTERM or a closed terminal; further signals never cut its clean-up short."""

    def stop(signum: int, frame: FrameType | None) -> None:
        # Not SIG_IGN: for a signal that is already on its way, Python would print a complaint.
        for number in before:
            signal.signal(number, lambda *_: None)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in _STOPPING}
    if before[signal.SIGHUP] is signal.SIG_IGN:  # nohup: it is to outlive its terminal
        del before[signal.SIGHUP]
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """A temporary directory that is gone after the block, with all that a viewer wrote there."""
    with tempfile.TemporaryDirectory(prefix="tracekit-view-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@contextmanager
def server(viewer: str, command: Sequence[str], directory: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the server of `viewer`; yields its process and the address that it prints once it listens.

    Its standard input is its life line: when that ends, it removes `directory` and exits. Raises ViewError if it cannot
    start.
    """
    # A session of its own: Ctrl-C reaches only this process, which ends the other.
    with (
        _log(directory).open("w") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            if not address:
                process.wait()
                raise ViewError(f"{viewer} cannot start ({_ending(process, directory)})")
            yield process, address
        finally:
            process.stdin.close()
            try:
                process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait(viewer: str, process: subprocess.Popen[str], directory: Path) -> None:
    """Wait for a signal; raises ViewError if the server ends before one comes."""
    process.wait()
    raise ViewError(f"{viewer} ended by itself ({_ending(process, directory)}); start it again with `tracekit view`")


@contextmanager
def open_address(address: str, browser: bool) -> Iterator[None]:
    """Open `address` in the user's browser while the block runs, if `browser`; that it did not open is no error."""
    if not browser:
        yield
        return
    with subprocess.Popen(
        # -P: a file of the user's that is called webbrowser.py must not be imported.
        [sys.executable, "-P", "-c", _OPENER, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as opener:
        assert opener.stdin is not None
        try:
            yield
        finally:
            opener.stdin.close()
            try:
                opener.wait(timeout=_BROWSER_LIMIT_S)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(opener.pid, signal.SIGKILL)


def _log(directory: Path) -> Path:
    return directory / "server.log"


def _ending(process: subprocess.Popen[str], directory: Path) -> str:
    """How the server ended, with the last line of its traceback if it ended by an exception."""
    if process.returncode < 0:
        return signal.Signals(-process.returncode).name
    lines = _log(directory).read_text(errors="replace").strip().splitlines()
    return "; ".join([f"exit code {process.returncode}", *lines[-1:]])
