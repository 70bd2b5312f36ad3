"""The matmul workloads, captured at a small size: the report finds the phases, devices and copies they promise."""

import importlib.util
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tracekit import PhaseTimes, cores
from tracekit.cli import app

WORKLOADS = Path(__file__).parents[2] / "workloads"


@pytest.fixture
def run(python, tmp_path) -> Callable[..., str]:
    """Run a program in the test's directory, and return what it prints."""

    def run_program(*words: str, **env: str) -> str:
        process = python(*words, cwd=tmp_path, **env)
        assert process.returncode == 0, process.stderr
        assert "Traceback" not in process.stderr
        return process.stdout

    return run_program


@pytest.fixture
def report_of(run, tmp_path) -> Callable[[str], dict]:
    """The summary of a small capture of a workload."""

    def report_of_script(script: str) -> dict:
        small = ("--size", "64", "--products", "16")
        run("-m", "tracekit", "capture", "--out", "trace", str(WORKLOADS / script), *small)
        app(["report", str(tmp_path / "trace"), "--out", str(tmp_path / "report")], standalone_mode=False)
        return json.loads((tmp_path / "report" / "summary.json").read_text("utf-8"))

    return report_of_script


def test_concurrent_compares_both_devices_with_each_alone(report_of):
    summary = report_of("concurrent.py")
    phases = {phase["name"]: phase for phase in summary["phases"]}
    assert list(phases) == ["device 0", "device 1", "both", "device 0 wide", "device 1 wide", "both wide"]
    for label in ("", " wide"):
        busy = {
            name: {row["device"] for row in phases[name + label]["busy"] if row["busy_ps"]}
            for name in ("device 0", "both")
        }
        assert busy == {"device 0": {"cpu:0"}, "both": {"cpu:0", "cpu:1"}}
        both = phases["both" + label]
        assert (both["n"], both["compared_with"]) == (3, f"device 0{label}, device 1{label}")
        assert both["speedup"] > 0
        stretch = {row["device"]: row["stretch"] for row in both["stretch"] if row["kind"] == "compute"}
        assert all(stretch[device] > 0 for device in ("cpu:0", "cpu:1"))


def test_copy_overlap_copies_between_the_devices_on_cpu(report_of):
    phases = {phase["name"]: phase for phase in report_of("copy_overlap.py")["phases"]}
    assert list(phases) == ["compute", "copy", "naive", "pipelined"]
    for name in ("copy", "naive", "pipelined"):
        assert sum(row["total_ps"] for row in phases[name]["overlap"] if row["what"] == "P2P") > 0
    for name in ("naive", "pipelined"):
        assert phases[name]["compared_with"] == "compute, copy"
        # 16 copies here as in "copy", whichever device they stand on.
        (copies,) = [row for row in phases[name]["stretch"] if row["device"] == "any device"]
        assert copies["stretch"] > 0


@pytest.mark.parametrize(
    ("script", "message"),
    [("concurrent.py", "needs two"), ("copy_overlap.py", "a copy to the host moves no bytes")],
)
def test_one_device_says_what_it_lacks(run, script, message):
    # Also that the file named like a standard package does no harm to its own or another script's imports.
    small = ("--size", "32", "--products", "2")
    assert message in run(str(WORKLOADS / script), *small, JAX_NUM_CPU_DEVICES="1")


@pytest.mark.parametrize(
    ("other_cores", "both_ms", "needed", "says"),
    [
        ((0.0, 0.9, 1.8), 95, 2, "'both', so that its speedup of 1.05x could not show the gain."),
        ((-0.1, 0.3, 0.7), 80, 2, "'both', so that its speedup of 1.25x may not show all of the gain."),
        ((-0.2, 0.1, 0.6), 95, 2, None),
        ((1.0, 1.0, 1.0), 95, 1, None),
        ((None, None, None), 95, 2, None),
        ((2.0, 2.0, 2.0), 6, 2, None),
    ],
    ids=["busy", "busy and gained", "quiet but for ticks", "one core is enough", "unknown", "too short to tell"],
)
def test_concurrent_says_when_a_busy_machine_could_not_show_the_gain(
    monkeypatch, capsys, other_cores, both_ms, needed, says
):
    monkeypatch.setattr(cores, "affinity", lambda: 2)
    spec = importlib.util.spec_from_file_location("concurrent_workload", WORKLOADS / "concurrent.py")
    workload = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(workload)
    took = {name: [PhaseTimes(50 * 10**9)] * 3 for name in ("device 0", "device 1")}
    took["both"] = [PhaseTimes(both_ms * 10**9, used) for used in other_cores]

    workload.say_if_busy(took, needed)

    line = f"Busy machine: other processes used {other_cores[1]:.2f} of 2 cores in {says}" if says else ""
    assert capsys.readouterr().out == (f"{line} Stop them, and run it again.\n" if says else "")


def test_the_demo_repeats_that_the_gain_could_not_be_shown(tmp_path):
    (script,) = re.findall(r"sed -n '(.*What it could not show.*)'", (WORKLOADS.parent / "Makefile").read_text("utf-8"))
    said = "Other processes used 1.53 of 2 cores meanwhile: the speedup of 1.04x measures the machine, not the program."
    report = tmp_path / "report.md"
    report.write_text(f"* **both**: No speedup (1.04x). {said} Idle.\n* **both wide**: No speedup. {said}\n")
    process = subprocess.run(["sed", "-n", script, report], capture_output=True, text=True, check=True)
    assert process.stdout == f"What it could not show:   the gain. {said.removesuffix(', not the program.')}\n"
