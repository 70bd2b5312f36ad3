"""A server of traces: it stops on every signal, dies with its parent, and leaves nothing behind."""

import shlex
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.view.served import PERFETTO, listens, make_ui, serving, wait_until
from tracekit.errors import ViewError
from tracekit.view import server_process


@pytest.fixture(scope="module")
def ui(tmp_path_factory):
    return make_ui(tmp_path_factory.mktemp("ui"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_ends_it_cleanly_and_leaves_nothing(tmp_path, ui, number):
    with serving(str(ui), str(ui), temporary=tmp_path, run=("-c", PERFETTO)) as (process, address):
        assert listens(address)
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
        assert (process.returncode, out, err) == (0, "", "Exporting the trace for Perfetto ...\n")
        assert not listens(address)
        assert list(tmp_path.iterdir()) == []


def test_a_killed_view_takes_its_server_and_its_files_with_it(tmp_path, ui):
    with serving(str(ui), str(ui), temporary=tmp_path, run=("-c", PERFETTO)) as (process, address):
        process.kill()
        assert wait_until(lambda: not listens(address))
        assert wait_until(lambda: list(tmp_path.iterdir()) == [])


def test_a_browser_that_never_returns_does_not_hold_up_the_stop_and_ends_with_it(tmp_path, ui):
    mark = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\ntrap '' TERM INT HUP\necho $$ $1 > {shlex.quote(str(mark))}\nsleep 600\n")
    browser.chmod(0o755)
    with serving(
        str(ui), str(ui), "browser", temporary=tmp_path, run=("-c", PERFETTO), BROWSER=str(browser), DISPLAY=""
    ) as (process, address):
        assert wait_until(lambda: mark.exists() and mark.read_text().endswith("\n"))
        number, opened = mark.read_text().split()
        assert opened == address
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        assert process.returncode == 0
        assert wait_until(lambda: not _alive(int(number)))


def test_a_browser_that_is_not_there_is_no_error(tmp_path, ui):
    with serving(
        str(ui), str(ui), "browser", temporary=tmp_path, run=("-c", PERFETTO), BROWSER="/no/such/browser", DISPLAY=""
    ) as (process, address):
        assert listens(address)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=10) == ("", "Exporting the trace for Perfetto ...\n")


def _alive(number: int) -> bool:
    if Path("/proc/self/stat").exists():  # a bare machine has no ps
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2]
        except (FileNotFoundError, ProcessLookupError):
            return False
    else:
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(number)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def test_a_taken_port_says_what_to_type():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ViewError, match=rf"^port {port} cannot be used \(Address already in use\): .* --port"):
            server_process.check_port(port)
