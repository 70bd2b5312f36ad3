"""The MXNet workloads, by a Python that has MXNet: TRACEKIT_MXNET names it.

pip install mxnet==1.9.1 'numpy<1.24'       # in an environment of Python 3.8 to 3.11
TRACEKIT_MXNET=~/mxnet/bin/python pytest tests/workloads/test_mxnet.py
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tracekit

ROOT = Path(__file__).parents[2]
WORKLOADS = sorted((ROOT / "workloads" / "mxnet").glob("*.py"))
PYTHON = os.environ.get("TRACEKIT_MXNET")


def run(tmp_path: Path, name: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """A capture of a workload with these options, which has ended."""
    if not PYTHON:
        pytest.skip("TRACEKIT_MXNET names no Python that has MXNet")
    script = str(ROOT / "workloads" / "mxnet" / name)
    command = [sys.executable, "-m", "tracekit", "capture", "--python", PYTHON, "--out", "t", script, *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)


def capture(tmp_path: Path, name: str, *options: str) -> tracekit.Trace:
    """The trace of a workload with these options."""
    done = run(tmp_path, name, *options)
    assert done.returncode == 0, done.stderr
    return tracekit.read(tmp_path / "t")


def busy_us(trace: tracekit.Trace, phase: str, **wanted: str) -> set[int]:
    """The microseconds of a phase in which something with these values in its columns ran."""
    rows = trace.events
    for column, value in wanted.items():
        rows = rows[rows[column] == value]
    spans = trace.spans[trace.spans["name"] == phase]
    windows = list(zip(spans["start_ps"] // 10**6, spans["end_ps"] // 10**6, strict=True))
    return {
        at
        for start, end in zip(rows["start_ps"] // 10**6, rows["end_ps"] // 10**6, strict=True)
        for begin, stop in windows
        for at in range(max(start, begin), min(end, stop))
    }


@pytest.mark.parametrize("path", WORKLOADS, ids=lambda path: path.name)
def test_a_workload_is_of_the_python_that_mxnet_has(path):
    ast.parse(path.read_text(), feature_version=(3, 8))


def test_two_contexts_compute_at_once_in_one_phase_alone(tmp_path):
    trace = capture(tmp_path, "mxnet_concurrent.py", "--products", "60")
    assert [*trace.spans["name"][trace.spans["tracekit"] == "phase"]] == ["device 0", "device 1", "both"] * 3
    assert (trace.events["name"] == "dot").sum() == (3 * 2 * 2 + 2) * 60
    at_once = {
        phase: len(busy_us(trace, phase, device="cpu:0") & busy_us(trace, phase, device="cpu:1"))
        for phase in ("device 0", "device 1", "both")
    }
    assert (at_once["device 0"], at_once["device 1"]) == (0, 0)
    assert at_once["both"] > 0


def test_wide_products_of_two_contexts_end_and_overlap(tmp_path):
    trace = capture(tmp_path, "mxnet_concurrent.py", "--wide", "--products", "5", "--size", "400")
    assert (trace.events["name"] == "FullyConnected").sum() == (3 * 2 * 2 + 2) * 5
    assert busy_us(trace, "both wide", device="cpu:0") & busy_us(trace, "both wide", device="cpu:1")


def test_copies_run_behind_compute_where_nothing_waits_for_them(tmp_path):
    trace = capture(tmp_path, "mxnet_copy_overlap.py", "--products", "10", "--size", "600")
    copies, compute = (busy_us(trace, "pipelined", kind=kind) for kind in ("memcpy", "compute"))
    assert copies & compute
    assert not busy_us(trace, "copy", kind="memcpy") & busy_us(trace, "copy", kind="compute")


@pytest.mark.parametrize(
    "words",
    [
        ("mxnet_concurrent.py", "--size", "2000000"),
        ("mxnet_copy_overlap.py", "--size", "2000000"),
        ("mxnet_training.py", "--batch", "200000000", "--steps", "1"),
    ],
)
def test_arrays_larger_than_mxnet_can_count_are_one_sentence(tmp_path, words):
    done = run(tmp_path, *words)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("Wrote", "Next"))]
    assert lines == ["MXNet's arrays hold fewer than 2^31 elements: take a smaller --size or --batch."]


def test_a_size_below_one_is_refused(tmp_path):
    done = run(tmp_path, "mxnet_concurrent.py", "--size", "-5")
    assert "argument --size: -5 is less than 1" in done.stderr
    assert "Traceback" not in done.stderr


def test_data_parallel_training_computes_on_both_contexts_in_steps(tmp_path):
    trace = capture(tmp_path, "mxnet_training.py", "--batch", "16", "--steps", "2")
    assert not busy_us(trace, "1 device", device="cpu:1")
    assert busy_us(trace, "2 devices", device="cpu:1")
    assert sorted(tracekit.explain(trace).steps.table["step"]) == [0, 1, 2, 3]
    assert trace.spans.loc[trace.spans["name"] == "2 devices", "baseline"].tolist() == ["1 device"]
