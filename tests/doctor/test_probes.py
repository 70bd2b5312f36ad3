"""Processes that the doctor starts: they end at their time limit, and how they ended is known."""

import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.doctor.machines import CPU
from tracekit.doctor import probes
from tracekit.doctor.facts import Outcome


def test_a_process_that_hangs_is_stopped_at_its_time_limit_with_all_that_it_started():
    begun = time.monotonic()
    # The grandchild holds the output open, and none of them heeds SIGTERM.
    hung = "trap '' TERM INT; echo begun; sleep 600 & echo $!; wait"
    done = probes.run(["sh", "-c", hung], limit_s=0.5)
    assert time.monotonic() - begun < 10
    assert done.code is None
    first, number = done.out.split()
    assert first == "begun"
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


def test_a_process_that_crashes_is_reported_with_its_signal():
    done = probes.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"])
    assert done.code == -11


def test_nothing_is_captured_where_jax_gives_no_devices(monkeypatch):
    monkeypatch.setattr(probes, "_DEVICES", "raise SystemExit('driver is broken')")
    monkeypatch.setattr(probes, "_VIEWER", "")
    facts = probes.probe(replace(CPU, capture=None, read=None))
    assert (facts.devices, facts.capture, facts.read) == (Outcome(1, "", "driver is broken\n"), None, None)
