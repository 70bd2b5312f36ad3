"""`tracekit doctor` on this machine: it captures and reads a small program, and says so."""

import io
import json
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.cells import cell_len

import tracekit
from tests.doctor.machines import CPU
from tracekit.console import console
from tracekit.doctor import facts
from tracekit.doctor.checks import check
from tracekit.doctor.doctor import Diagnosis, show
from tracekit.doctor.facts import Nvidia, Outcome


def test_it_works_here_and_says_so_as_json(tmp_path):
    process = subprocess.run(
        [sys.executable, "-m", "tracekit", "doctor", "--json"], capture_output=True, text=True, cwd=tmp_path
    )
    summary = json.loads(process.stdout)
    states = {check["name"]: check["state"] for check in summary["checks"]}
    assert (process.returncode, summary["works"]) == (0, True), summary
    assert {states[name] for name in ("Python", "packages", "devices", "capture", "viewer", "traces")} == {"ok"}
    (capture,) = [check for check in summary["checks"] if check["name"] == "capture"]
    assert "events on" in capture["finding"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("width", [40, 80, 200])
def test_each_check_is_a_line_with_its_remedy_below_and_the_last_line_is_the_answer(width):
    broken = replace(CPU, nvidia=Nvidia(1, "580.1", False), viewer=Outcome(1, "", "\x1b[31mno wheel"))
    on = console(io.StringIO(), width=width)
    show(Diagnosis(tuple(check(broken))), on)
    lines = on.file.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= width
    assert not any("\x1b" in line for line in lines)
    words = " ".join(" ".join(lines).split())
    assert '-> pip install -U "jax[cuda13]"' in words
    assert "missing viewer TensorBoard's profile plugin failed (exit code 1): ␛[31mno wheel" in words
    assert lines[-1] == "tracekit works here."


def test_the_function_is_the_command_and_its_answer_is_plain_data(monkeypatch):
    monkeypatch.setattr(facts, "gather", lambda: CPU)
    monkeypatch.setattr(facts, "probe", lambda facts: facts)
    diagnosis = tracekit.doctor()
    assert isinstance(diagnosis, tracekit.Diagnosis)
    assert (diagnosis.works, diagnosis.checks) == (True, tuple(check(CPU)))
    assert diagnosis.to_dict()["checks"][0] == {
        "name": "Python",
        "state": "ok",
        "finding": "3.11.7",
        "remedy": "",
        "needed": True,
    }
