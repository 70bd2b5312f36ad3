"""The twins for PyTorch, captured at a small size: two ranks are two devices, and DDP's all-reduces are collectives."""

import json
from pathlib import Path

import pytest

import tracekit
from tests.torch_programs import capture, needs_torch, python
from tracekit.cli import app

TWINS = Path(__file__).parents[2] / "workloads" / "torch"

pytestmark = needs_torch


def summary_of(tmp_path, *words):
    process = capture("--out", "trace", *words, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    assert "Traceback" not in process.stderr
    app(["report", str(tmp_path / "trace"), "--out", str(tmp_path / "report")], standalone_mode=False)
    return json.loads((tmp_path / "report" / "summary.json").read_text("utf-8"))


def test_two_ranks_multiply_alone_and_at_once(tmp_path):
    small = ("--size", "64", "--products", "16")
    phases = {
        phase["name"]: phase
        for phase in summary_of(tmp_path, "--processes", "2", TWINS / "torch_concurrent.py", *small)["phases"]
    }
    assert list(phases) == ["device 0", "device 1", "both", "device 0 wide", "device 1 wide", "both wide"]
    spans = tracekit.read(tmp_path / "trace").spans
    hosts = spans[spans["tracekit"] == "phase"].groupby("name", observed=True)["host"].agg(lambda host: sorted({*host}))
    assert hosts[["device 0", "device 1", "both"]].tolist() == [["rank0"], ["rank1"], ["rank0", "rank1"]]
    stretched = {row["device"] for row in phases["both"]["stretch"] if row["kind"] == "compute"}
    assert stretched == {"rank0/cpu:0", "rank1/cpu:0"}
    assert (phases["both"]["n"], phases["both"]["compared_with"]) == (3, "device 0, device 1")


def test_data_parallel_training_changes_the_weights_as_one_rank_does(tmp_path):
    small = ("--steps", "2", "--batch", "16", "--bucket-mb", "0.1")
    summary = summary_of(tmp_path, "--processes", "2", TWINS / "torch_training.py", *small)
    phases = {phase["name"]: phase for phase in summary["phases"]}
    assert list(phases) == ["1 device", "2 devices"]
    assert phases["2 devices"]["compared_with"] == "1 device"
    events = tracekit.read(tmp_path / "trace").events
    reduces = events[events["name"] == "gloo:all_reduce"]
    # The gradients of LeNet's 129,068 weights, in two steps on each rank.
    assert reduces.groupby("host", observed=True)["bytes"].sum().tolist() == [2 * 4 * 129_068] * 2
    assert set(zip(reduces["ranks"], reduces["group_size"], strict=True)) == {("0,1", 2)}
    assert phases["1 device"]["devices"] == 1


def test_small_operations_and_copies_show_what_one_cpu_device_can(tmp_path):
    process = python(TWINS / "torch_small_ops.py", "--operations", "5", "--lengths", "10", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    assert [line.partition(":")[0] for line in process.stdout.splitlines()[2:]] == [
        "eager", "in place", "one operator",
    ] * 3  # fmt: skip
    process = python(TWINS / "torch_copy_overlap.py", cwd=tmp_path)
    assert process.stdout.startswith("No GPU: ")
    assert len(process.stdout.splitlines()) == 1


def test_too_little_memory_is_one_sentence(tmp_path):
    process = python(TWINS / "torch_concurrent.py", "--size", "3000000", cwd=tmp_path)
    assert process.returncode == 1
    assert process.stderr.startswith("The memory is too small for this size: give a smaller one, ")
    assert len(process.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "option", "sentence"),
    [
        ("torch_small_ops.py", "--operations=0", "--operations: 0 is less than 1"),
        ("torch_concurrent.py", "--products=-3", "--products: -3 is less than 1"),
        ("torch_training.py", "--batch=7", "--batch 7 cannot be split alike over 2 ranks: give a multiple of 2."),
    ],
)
def test_an_option_that_cannot_be_is_one_sentence(tmp_path, name, option, sentence):
    process = capture("--processes", 2, "--out", "trace", TWINS / name, option, cwd=tmp_path)
    assert process.returncode != 0
    assert sentence in process.stderr
    assert "Traceback" not in process.stderr
