"""The matmul workloads, captured at a small size: the report finds the phases, devices and copies they promise."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

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
