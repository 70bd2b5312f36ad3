"""The experiments, captured at a small size: the trace holds what each docstring says must and must not overlap."""

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

import tracekit

WORKLOADS = Path(__file__).parents[2] / "workloads"
PROGRAMS = ("stage_forward", "error", "stage_backward")  # of a pipeline: what a micro-batch goes through


class Traced:
    """One capture: what the program printed, and its device rows within each round of each phase."""

    def __init__(self, printed: str, path: Path) -> None:
        self.printed, self.directory, self.trace = printed, path.parent, tracekit.read(path)

    def rounds(self, phase: str) -> list[pd.DataFrame]:
        """Of each round of a phase, the rows that began in it."""
        events, spans = self.trace.events, self.trace.spans
        marks = spans[spans["name"] == phase].sort_values("start_ps")
        assert len(marks), f"no phase {phase}"
        return [
            events[events["start_ps"].between(start, end)]
            for start, end in zip(marks["start_ps"], marks["end_ps"], strict=True)
        ]

    def count(self, phase: str, **columns: str) -> set[int]:
        """How many rows with these values a round of the phase has, over its rounds."""
        return {
            int(np.logical_and.reduce([rows[column] == value for column, value in columns.items()]).sum())
            for rows in self.rounds(phase)
        }

    def programs(self, phase: str) -> set[int]:
        """How many programs a round of the phase ran on one device."""
        return {
            rows[rows["kind"] == "compute"].groupby("device", observed=True)["run_id"].nunique().max()
            for rows in self.rounds(phase)
        }

    def busy(self, phase: str) -> set[str]:
        """The devices that computed in the phase."""
        return {
            device for rows in self.rounds(phase) for device in rows.loc[rows["kind"] == "compute", "device"].unique()
        }

    def bubbles(self, phase: str) -> list[float]:
        """Of each round of the phase, which share of the time in which any device computed the devices were idle."""
        return [_bubble(rows[rows["kind"] == "compute"]) for rows in self.rounds(phase)]

    def runs(self, phase: str) -> dict[str, list[tuple[str, float]]]:
        """By device what the last round of the phase ran, in order: programs, and how long each takes in the median."""
        rows = self.rounds(phase)[-1]
        runs = (
            rows[rows["kind"] == "compute"]
            .groupby(["device", "run_id"], observed=True)
            .agg(program=("hlo_module", "first"), start=("start_ps", "min"), end=("end_ps", "max"))
        )
        runs["program"] = runs["program"].astype("str").str.removeprefix("jit_")
        lengths = (runs["end"] - runs["start"]).groupby(runs["program"]).median()
        runs = runs.sort_values("start")
        return {
            device: [(program, float(lengths[program])) for program in own["program"]]
            for device, own in runs.groupby("device", observed=True)
        }

    def together_ps(self, phase: str, a: str, b: str) -> int:
        """For how long the computing of two devices coincided in all rounds of the phase."""
        return sum(_together(rows[rows["kind"] == "compute"], a, b) for rows in self.rounds(phase))


def _together(rows: pd.DataFrame, a: str, b: str) -> int:
    """The common time of the rows of two devices, by brute force over all pairs of their rows' union."""
    ones, others = (_union(rows[rows["device"] == device]) for device in (a, b))
    return sum(max(0, min(e1, e2) - max(s1, s2)) for s1, e1 in ones for s2, e2 in others)


def _bubble(rows: pd.DataFrame) -> float:
    """The idle share of two devices while any of them computes."""
    both = _together(rows, "cpu:0", "cpu:1")
    any_ps = sum(end - start for start, end in _union(rows))
    return 1 - (any_ps + both) / (2 * any_ps)


def _replayed_bubble(runs: dict[str, list[tuple[str, float]]]) -> float:
    """The idle share of a pipeline of two stages whose programs run in the order given, each as soon as it can.

    The k-th forward pass of the second stage needs the k-th of the first, and back likewise; all else follows from the
    order on each device.
    """
    first, second = ([run for run in runs[device] if "stage" in run[0] or run[0] == "error"] for device in sorted(runs))
    ends: dict[tuple[int, str, int], float] = {}
    places, free = [0, 0], [0.0, 0.0]
    while places != [len(first), len(second)]:
        before = list(places)
        for device, own in enumerate((first, second)):
            if places[device] == len(own):
                continue
            program, length = own[places[device]]
            count = sum(name == program for name, _ in own[: places[device]])
            other = (1 - device, program, count)
            waits = (device == 1 and program == "stage_forward") or (device == 0 and program == "stage_backward")
            if waits and other not in ends:
                continue
            free[device] = max(free[device], ends[other] if waits else 0) + length
            ends[device, program, count] = free[device]
            places[device] += 1
        assert places != before, "the order of the stages waits for itself"
    busy = sum(length for own in (first, second) for _, length in own)
    return 1 - busy / (2 * max(free))


def _union(rows: pd.DataFrame) -> list[tuple[int, int]]:
    union: list[tuple[int, int]] = []
    for start, end in sorted(zip(rows["start_ps"], rows["end_ps"], strict=True)):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((start, end))
    return union


def capture(python: Callable, directory: Path, script: str, *arguments: str) -> Traced:
    """What a workload leaves in a directory, which it also runs in."""
    words = "-m", "tracekit", "capture", "--out", "trace", str(WORKLOADS / script), *arguments
    process = python(*words, cwd=directory)
    assert process.returncode == 0, process.stderr
    return Traced(process.stdout, directory / "trace")


@pytest.fixture
def captured(python, tmp_path):
    """Capture a workload with arguments."""
    return lambda script, *arguments: capture(python, tmp_path, script, *arguments)


@pytest.fixture(scope="module")
def strategies(python, tmp_path_factory) -> Traced:
    """All strategies, with 8 micro-batches long enough to outlast their dispatch."""
    size = "--rows", "1024", "--width", "128", "--blocks", "4", "--micro-batches", "8"
    return capture(python, tmp_path_factory.mktemp("strategies"), "strategies.py", *size)


def test_independent_products_are_eight_programs_or_one(captured):
    traced = captured("independent_ops.py", "--size", "32", "--wide", "64", "--products", "8")
    for label in ("", " wide"):
        assert traced.programs(f"one by one{label}") == {8}
        assert traced.programs(f"queued{label}") == {8}
        assert traced.programs(f"one program{label}") == {1}
        assert traced.busy(f"queued{label}") == {"cpu:0"}
        # Waited for one by one, no program begins before the one before it has ended.
        for rows in traced.rounds(f"one by one{label}"):
            runs = (
                rows[rows["kind"] == "compute"].groupby("run_id").agg(start=("start_ps", "min"), end=("end_ps", "max"))
            )
            runs = runs.sort_values("start")
            assert (runs["start"].to_numpy()[1:] >= runs["end"].to_numpy()[:-1]).all()


def test_small_operations_are_a_thousand_programs_or_one(captured):
    traced = captured("small_ops.py", "--length", "16", "--operations", "20", "--lengths", "16", "64")
    assert traced.programs("eager") == {40}  # a product and a sum for each
    for name in ("scan", "unrolled", "fused"):
        assert traced.programs(name) == {1}
    # Kept apart and merged: an event for each operation, and one for all.
    assert traced.count("eager", kind="compute") == {40}
    assert traced.count("unrolled", kind="compute") == {20}
    assert traced.count("fused", kind="compute") == {1}
    # The table is printed first; its runs are not in the trace.
    events = traced.trace.events
    assert events.loc[events["hlo_module"] == "jit_fused", "run_id"].nunique() == 2 + 3  # once a device, and in rounds
    cost = r" +([\d.]+) us" * 4
    costs = re.findall(rf"^ +(16|64){cost}$", traced.printed, re.MULTILINE)
    assert [length for length, *_ in costs] == ["16", "64"]
    launch = float(costs[0][1]) - float(costs[0][2])
    (said,) = re.findall(r"^Launching an operation .* costs (\d+) us; computing it takes longer", traced.printed, re.M)
    assert float(said) == pytest.approx(launch, abs=1)
    assert traced.busy("eager") == traced.busy("fused") == {"cpu:0"}
    assert traced.busy("eager on both") == traced.busy("scan on both") == {"cpu:0", "cpu:1"}


def test_an_order_by_hand_keeps_two_devices_apart(captured):
    traced = captured("scheduling.py", "--size", "128", "--products", "400")  # arms longer than a time slice
    assert traced.together_ps("by hand", "cpu:0", "cpu:1") == 0
    assert traced.together_ps("asynchronous", "cpu:0", "cpu:1") > 0
    assert traced.count("asynchronous", kind="memcpy") == {2}  # there and back
    assert traced.busy("one program") == {"cpu:0"}
    assert traced.programs("one program") == {1}


def test_branches_are_on_the_devices_where_they_were_placed(captured):
    traced = captured("heterogeneous.py", "--rows", "128", "--size", "128")
    assert "three virtual CPU devices" in traced.printed
    assert traced.busy("one device") == {"cpu:0"}
    for name in ("one at a time", "placed by hand"):
        assert traced.busy(name) == {"cpu:0", "cpu:1", "cpu:2"}
        assert traced.count(name, direction="P2P") == {4}  # the input to two devices, both halves back
    assert traced.together_ps("one at a time", "cpu:1", "cpu:2") == 0
    assert traced.busy("left to the compiler") == {"cpu:1", "cpu:2"}


def test_collectives_are_what_their_phases_are_called(captured):
    traced = captured("collectives.py", "--sizes", "4096", "65536", "--plot", "plots/bandwidth.png")
    assert (traced.directory / "plots" / "bandwidth.png").read_bytes().startswith(b"\x89PNG")
    for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "permute"):
        for size in ("4 KiB", "64 KiB"):
            assert traced.count(f"{name} {size}", kind="collective") == {2 * 5}  # on two devices, five times
    assert traced.count("psum", kind="collective") == {2}
    assert traced.count("ring", kind="collective") == {2 * 2}  # one step of each half, on two devices
    assert len(traced.rounds("ring")) == 5
    # Of two devices, bus bandwidth is that of the algorithm for all-reduce and permute, and half of it for the others.
    rows = re.findall(r"^(\S+) +(\d+ KiB) +\d+ us +([\d.]+) GB/s +([\d.]+) GB/s$", traced.printed, re.MULTILINE)
    assert len(rows) == 5 * 2
    for name, _, algorithm, bus in rows:
        factor = 1 if name in ("all-reduce", "permute") else 0.5
        assert float(bus) == pytest.approx(float(algorithm) * factor, abs=0.011)


def test_a_plot_without_matplotlib_is_a_sentence_before_anything_runs(monkeypatch):
    spec = importlib.util.spec_from_file_location("collectives_workload", WORKLOADS / "collectives.py")
    workload = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "common", ModuleType("common"))  # it has no devices to ask for
    spec.loader.exec_module(workload)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(sys, "argv", ["collectives.py", "--plot", "a.png"])
    with pytest.raises(SystemExit, match="--plot needs matplotlib, which is not installed: pip install matplotlib"):
        workload.main()


def test_the_bubble_of_a_pipeline_is_that_of_its_formula(strategies):
    # GPipe (Huang et al. 2019): p stages and m micro-batches idle for (p-1)/(m+p-1) of their time. Replayed in the
    # order of the trace, each program as long as its median: 0.113 to 0.116 for 8 micro-batches on a busy machine.
    for phase, m in (("pipeline", 1), ("pipeline micro-batches", 8)):
        assert _replayed_bubble(strategies.runs(phase)) == pytest.approx(1 / (m + 1), abs=0.03)
    # As it ran, the devices without micro-batches take turns but for the update. With them, on a machine that others
    # use, a stage waits longer: 0.27 to 0.35 was seen where four programs ran for each core.
    assert median(strategies.bubbles("pipeline")) == pytest.approx(1 / 2, abs=0.05)
    assert 1 / 9 - 0.03 < min(strategies.bubbles("pipeline micro-batches")) < 1 / 9 + 0.3
    assert median(strategies.bubbles("pipeline micro-batches")) < median(strategies.bubbles("pipeline"))


def test_strategies_use_the_collectives_that_they_are_known_for(strategies):
    traced = strategies
    assert "bubble 1/9 = 11%" in traced.printed
    for name in ("pipeline", "pipeline micro-batches"):
        assert traced.busy(name) == {"cpu:0", "cpu:1"}
        assert traced.count(name, kind="collective") == {0}
    kinds = {
        name: {str(kind) for rows in traced.rounds(name) for kind in rows.loc[rows["kind"] == "collective", "category"]}
        for name in ("tensor parallel", "data parallel", "fully sharded", "experts")
    }
    assert kinds["tensor parallel"] == kinds["data parallel"] == {"all-reduce"}
    blocks, devices = 4, 2
    for category, count in (("all-gather", 2 * blocks), ("reduce-scatter", 2 * blocks), ("all-reduce", 1)):
        assert traced.count("fully sharded", category=category) == {count * devices}
    assert kinds["fully sharded"] == {"all-gather", "reduce-scatter", "all-reduce"}  # the last is that of the loss
    assert "all-to-all" in kinds["experts"]
    assert traced.busy("one device") == traced.busy("all experts on one") == {"cpu:0"}


def test_gradients_are_reduced_at_the_end_or_block_by_block(captured):
    blocks, steps = 3, 2
    size = "--rows", "32", "--width", "16", "--blocks", str(blocks), "--steps", str(steps)
    traced = captured("gradient_overlap.py", *size)
    assert traced.count("at the end", kind="collective") == {2 * steps}  # one vector, on two devices
    for name in ("behind backward", "donated", "behind next forward"):
        assert traced.count(name, kind="collective") == {2 * steps * blocks}
    # Reduced at the end, nothing is left to compute beside the all-reduce.
    for rows in traced.rounds("at the end"):
        for device, own in rows.groupby("device", observed=True):
            reduced, computed = (_union(own[own["kind"] == kind]) for kind in ("collective", "compute"))
            assert all(e1 <= s2 or e2 <= s1 for s1, e1 in reduced for s2, e2 in computed), device
    if "knows no pinned host memory" not in traced.printed:
        assert min(traced.count("offload waited", kind="memcpy")) >= blocks


@pytest.mark.parametrize(
    ("script", "size"),
    [
        ("small_ops.py", ("--operations", "2", "--lengths", "16")),
        ("scheduling.py", ("--size", "8", "--products", "2")),
        ("collectives.py", ("--sizes", "4096")),
        ("strategies.py", ("--rows", "8", "--width", "8", "--blocks", "2")),
        ("gradient_overlap.py", ("--rows", "8", "--width", "8", "--blocks", "2", "--steps", "1")),
    ],
)
def test_one_device_says_what_it_lacks(python, script, size):
    process = python(WORKLOADS / script, *size, JAX_NUM_CPU_DEVICES="1")
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("One device: ")


def test_the_strategies_compute_the_same_on_four_devices_and_three_are_used_as_two(python):
    size = "--rows", "32", "--width", "8", "--blocks", "4"
    for devices, line in (("4", "A pipeline of 4 stages"), ("3", "3 devices: 2 of them are used")):
        process = python(WORKLOADS / "strategies.py", *size, JAX_NUM_CPU_DEVICES=devices)
        assert process.returncode == 0, process.stderr
        assert process.stdout.startswith(line)


def test_a_step_that_changes_the_weights_twice_as_much_is_not_the_same():
    spec = importlib.util.spec_from_file_location("common_of_workloads", WORKLOADS / "common.py")
    common = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(common)
    before = np.linspace(-1, 1, 100, dtype=np.float32)
    change = np.float32(1e-5) * before[::-1]
    common.check_change("close", [before + change * np.float32(1.01)], [before + change], [before])
    for wrong in (before, before + 2 * change):
        with pytest.raises(RuntimeError, match="'wrong' changes the weights in another way"):
            common.check_change("wrong", [wrong], [before + change], [before])


def test_two_devices_are_too_few_for_three_parts(python):
    process = python(WORKLOADS / "heterogeneous.py", JAX_NUM_CPU_DEVICES="2")
    assert (process.returncode, process.stderr) == (0, "")
    assert "there are 2: nothing to show" in process.stdout
