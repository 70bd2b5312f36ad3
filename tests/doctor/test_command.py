"""`tracekit doctor` on this machine: it captures and reads a tiny program, and says so."""

import io
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.doctor.test_checks import CPU
from tracekit import console as terminal
from tracekit.doctor.checks import checks
from tracekit.doctor.command import show
from tracekit.doctor.facts import Nvidia, Ran
from tracekit.doctor.processes import asked, ran


def test_it_works_here_and_says_so_as_json(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tracekit", "doctor", "--json"], capture_output=True, text=True, cwd=tmp_path
    )
    found = json.loads(done.stdout)
    states = {check["name"]: check["state"] for check in found["checks"]}
    assert (done.returncode, found["works"]) == (0, True), found
    assert {states[name] for name in ("Python", "packages", "devices", "capture", "viewer", "traces")} == {"ok"}
    (capture,) = [check for check in found["checks"] if check["name"] == "capture"]
    assert "rows on" in capture["said"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("width", [40, 80, 200])
def test_each_check_is_a_line_with_its_remedy_below_and_the_last_line_is_the_answer(width):
    facts = replace(CPU, nvidia=Nvidia(1, "580.1", False), viewer=Ran(1, "", "\x1b[31mno wheel"))
    on = terminal.console(io.StringIO(), width=width)
    show(checks(facts), on)
    lines = on.file.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= width
    assert not any("\x1b" in line for line in lines)
    words = " ".join(" ".join(lines).split())
    assert '-> pip install -U "jax[cuda13]"' in words
    assert "missing viewer TensorBoard's profile plugin failed (exit code 1): ␛[31mno wheel" in words
    assert lines[-1] == "tracekit works here."


def test_a_process_that_hangs_is_stopped_at_its_time_limit_with_all_that_it_started():
    begun = time.monotonic()
    # The grandchild holds the output open, and none of them heeds SIGTERM.
    hung = "trap '' TERM INT; echo begun; sleep 600 & echo $!; wait"
    done = ran(["sh", "-c", hung], limit_s=0.5)
    assert time.monotonic() - begun < 10
    assert done.code is None
    said, number = done.out.split()
    assert said == "begun"
    deadline = time.monotonic() + 5
    while _runs(number) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(number)


def _runs(process: str) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state.rpartition(")")[2].split()[0] not in "ZX"


def test_a_process_that_crashes_is_told_by_its_signal():
    done = ran([sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"])
    assert done.code == -11


def test_nothing_is_captured_where_jax_gives_no_devices(monkeypatch):
    monkeypatch.setattr("tracekit.doctor.processes._DEVICES", "raise SystemExit('driver is broken')")
    monkeypatch.setattr("tracekit.doctor.processes._VIEWER", "")
    facts = asked(replace(CPU, capture=None, read=None))
    assert (facts.devices, facts.capture, facts.read) == (Ran(1, "", "driver is broken\n"), None, None)
