"""The experiments, captured at a small size: the trace holds what each docstring says must and must not overlap."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tracekit

WORKLOADS = Path(__file__).parents[2] / "workloads"


class Traced:
    """One capture: what the program printed, and its device rows within each round of each phase."""

    def __init__(self, printed: str, path: Path) -> None:
        self.printed, self.trace = printed, tracekit.read(path)

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

    def together_ps(self, phase: str, a: str, b: str) -> int:
        """For how long the computing of two devices coincided in all rounds of the phase."""
        return sum(_together(rows[rows["kind"] == "compute"], a, b) for rows in self.rounds(phase))


def _together(rows: pd.DataFrame, a: str, b: str) -> int:
    """The common time of the rows of two devices, by brute force over all pairs of their rows' union."""
    ones, others = (_union(rows[rows["device"] == device]) for device in (a, b))
    return sum(max(0, min(e1, e2) - max(s1, s2)) for s1, e1 in ones for s2, e2 in others)


def _union(rows: pd.DataFrame) -> list[tuple[int, int]]:
    union: list[tuple[int, int]] = []
    for start, end in sorted(zip(rows["start_ps"], rows["end_ps"], strict=True)):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((start, end))
    return union


@pytest.fixture
def captured(python, tmp_path):
    """Capture a workload with arguments."""

    def capture(script: str, *arguments: str, **env: str) -> Traced:
        words = "-m", "tracekit", "capture", "--out", "trace", str(WORKLOADS / script), *arguments
        process = python(*words, cwd=tmp_path, **env)
        assert process.returncode == 0, process.stderr
        return Traced(process.stdout, tmp_path / "trace")

    return capture


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
    traced = captured("small_ops.py", "--length", "16", "--operations", "20")
    assert traced.programs("eager") == {40}  # a product and a sum for each
    for name in ("scan", "unrolled", "fused"):
        assert traced.programs(name) == {1}
    assert traced.busy("eager") == traced.busy("fused") == {"cpu:0"}
    assert traced.busy("eager on both") == traced.busy("scan on both") == {"cpu:0", "cpu:1"}


def test_an_order_by_hand_keeps_two_devices_apart(captured):
    traced = captured("scheduling.py", "--size", "64", "--products", "400")
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
    traced = captured("collectives.py", "--sizes", "4096", "65536")
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


def test_strategies_use_the_collectives_that_they_are_known_for(captured):
    blocks = 4
    size = "--rows", "64", "--width", "32", "--blocks", str(blocks), "--micro-batches", "4"
    traced = captured("strategies.py", *size)
    assert "bubble 1/5 = 20%" in traced.printed
    for name in ("pipeline", "pipeline micro-batches"):
        assert traced.busy(name) == {"cpu:0", "cpu:1"}
        assert traced.count(name, kind="collective") == {0}
    kinds = {
        name: {str(kind) for rows in traced.rounds(name) for kind in rows.loc[rows["kind"] == "collective", "category"]}
        for name in ("tensor parallel", "data parallel", "fully sharded", "experts")
    }
    assert kinds["tensor parallel"] == kinds["data parallel"] == {"all-reduce"}
    assert "all-gather" in kinds["fully sharded"]
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
        ("small_ops.py", ("--operations", "2")),
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


def test_two_devices_are_too_few_for_three_parts(python):
    process = python(WORKLOADS / "heterogeneous.py", JAX_NUM_CPU_DEVICES="2")
    assert (process.returncode, process.stderr) == (0, "")
    assert "there are 2: nothing to show" in process.stdout
