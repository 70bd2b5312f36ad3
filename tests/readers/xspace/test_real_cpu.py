"""Real captures of programs whose work is known: of `two_cpu_devices.py` with two jax versions, and one made here."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import tracekit
from tracekit.analysis.phases import phase_marks
from tracekit.readers import read

DATA = Path(__file__).parents[2] / "data"
LOOP = {("compute", "copy"): 4, ("compute", "fusion"): 4}
SUM = {("compute", "fusion"): 2, ("collective", "all-reduce"): 2}
# What the program asked of each device in each phase, by kind and opcode (None for copies: they are no HLO op).
EXPECTED_WORK = {
    ("device 0", "cpu:0"): LOOP,
    ("device 1", "cpu:1"): LOOP,
    ("both", "cpu:0"): LOOP,
    ("both", "cpu:1"): LOOP,
    ("copies", "cpu:0"): {("compute", "fusion"): 3, ("memcpy", None): 2},
    ("copies", "cpu:?"): {("memcpy", None): 1},
    ("sums", "cpu:0"): SUM,
    ("sums", "cpu:1"): SUM,
}


@pytest.fixture(params=["0.10.2", "0.12.0"])
def trace(request):
    return read(DATA / f"two-cpu-devices-jax{request.param}.xplane.pb")


def test_every_phase_holds_the_work_the_program_asked_for_and_no_other(trace):
    work: dict = {}
    phases = phase_marks(trace.spans)
    for row in trace.events.itertuples():
        for phase in phases.itertuples():
            if phase.start_ps <= row.start_ps < phase.end_ps:
                opcode = row.category if isinstance(row.category, str) else None
                ops = work.setdefault((phase.name, row.device), {})
                ops[row.kind, opcode] = ops.get((row.kind, opcode), 0) + 1
    assert work == EXPECTED_WORK


HELPER = "CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice"
BOTH = [
    ("[0] CommonPjRtLoadedExecutable::Execute (jit__lambda)", "cpu:0", 2),
    ("[1] CommonPjRtLoadedExecutable::Execute (jit__lambda)", "cpu:1", 2),
]
# What the program called in each phase, in order, with the device that it started and how many rows that has.
EXPECTED_CALLS = {
    "device 0": [(HELPER, "cpu:0", 8)],
    "device 1": [(HELPER, "cpu:1", 8)],
    "both": [(HELPER, "cpu:0", 8), (HELPER, "cpu:1", 8)],
    "copies": [
        *[(HELPER, "cpu:0", 1), ("CopyToMemorySpace", "cpu:?", 1)],
        *[(HELPER, "cpu:0", 1), ("CopyToMemorySpace", "cpu:0", 1)] * 2,
    ],
    "sums": BOTH * 2,
}


def test_every_row_leads_back_to_the_call_that_the_program_made(trace):
    calls = {}
    events = trace.events.merge(
        trace.launches, on=["host", "correlation_id"], suffixes=("", "_of_call"), validate="many_to_one"
    )
    for phase in phase_marks(trace.spans).itertuples():
        rows_of_phase = events[events["start_ps_of_call"].between(phase.start_ps, phase.end_ps)]
        assert rows_of_phase["start_ps"].between(phase.start_ps, phase.end_ps).all()
        assert (rows_of_phase["start_ps_of_call"] <= rows_of_phase["start_ps"]).all()
        counts = rows_of_phase.groupby(["start_ps_of_call", "name_of_call", "device"], observed=True).size()
        calls[phase.name] = [(name.removesuffix("_Direct"), device, n) for (_, name, device), n in counts.items()]
    assert calls == EXPECTED_CALLS
    has_launch = trace.events["correlation_id"].notna()
    # A copy from the host is a call itself.
    assert set(trace.events.loc[~has_launch, "direction"]) == {"H2D"}
    assert len(trace.launches) == len(EXPECTED_CALLS) + 9 + 5


def test_steps_waits_and_directions_are_there(trace):
    steps = trace.spans[trace.spans["step"].notna()]
    assert steps[["name", "step"]].values.tolist() == [["train", 0], ["train", 1]]
    sums = trace.events[trace.events["kind"] == "collective"]
    # Of the two devices that meet, the last to arrive does not wait.
    waits = sums.sort_values("start_ps")["wait_ps"].tolist()
    assert len(waits) == 6
    assert min(waits) == 0 < max(waits)
    assert set(trace.events.loc[trace.events["kind"] == "memcpy", "direction"]) <= {"P2P", "H2D"}
    assert not any("HLO proto" in note for note in trace.notes)


def test_ops_tell_their_line_what_they_need_and_what_they_cost(trace):
    ops = trace.ops.astype(object).where(trace.ops.notna(), None)
    names = ops["program"] + " " + ops["hlo_op"]
    rows = trace.events[trace.events["op"].notna()]
    assert rows["hlo_op"].astype(str).tolist() == ops["hlo_op"][rows["op"]].tolist()
    assert set(rows["op"]) == set(range(len(ops)))
    assert len(trace.events) - len(rows) == (trace.events["kind"] == "memcpy").sum()
    # Two programs, one for each device, hold the same loop.
    products = ops[ops["framework_op"].str.endswith("/dot_general").eq(True)]
    assert products["program"].tolist() == ["jit_looped(0)", "jit_looped(2)"]
    assert products["flops"].tolist() == [2 * 64 * 64 * 64] * 2
    assert products["bytes_accessed"].tolist() == [3 * 64 * 64 * 4] * 2
    assert products["source"].tolist() == [f"two_cpu_devices.py:{line_of('y @ x')}"] * 2
    (all_reduce,) = ops[ops["opcode"] == "all-reduce"].itertuples()
    assert (all_reduce.source, all_reduce.bytes_accessed) == (f"two_cpu_devices.py:{line_of('lax.psum')}", None)
    pairs = {(names[op], names[operand]) for op, operand in trace.operands.itertuples(index=False)}
    assert pairs == {
        *((f"jit_looped({n}) {op}", f"jit_looped({n}) {operand}") for n in (0, 2) for op, operand in LOOP_OPERANDS),
        ("jit__lambda(4) psum_invariant.7", "jit__lambda(4) broadcast_multiply_fusion"),
    }


# By the text of the program: the product needs what the loop began with, its result is copied for the next round.
LOOP_OPERANDS = [("ynn_fusion", "copy.1"), ("copy.5", "ynn_fusion"), ("wrapped_add", "copy.6")]


def line_of(text):
    lines = (DATA / "two_cpu_devices.py").read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return number


def test_of_two_files_joined_the_first_is_read_and_the_other_counted(tmp_path):
    (whole, other) = sorted(DATA.glob("two-cpu-devices-*.xplane.pb"))
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(whole.read_bytes() + other.read_bytes())
    trace, alone = read(path), read(whole)
    pd.testing.assert_frame_equal(trace.events.drop(columns="host"), alone.events.drop(columns="host"))
    (note,) = [note for note in trace.notes if "could not be read" in note]
    assert "Task Environment occurs 2 times: files were joined" in note
    assert trace.losses["what"].tolist() == ["planes"]


SCRIPT = """
import jax, jax.numpy as jnp, tracekit
f = jax.jit(lambda x: jnp.sin(x) * 2 + x)
x = jnp.ones((2048, 2048))
jax.block_until_ready(f(x))
for _ in range(8):
    with tracekit.phase("elementwise"):
        for _ in range(5):
            jax.block_until_ready(f(x))
"""


def test_a_device_that_computes_all_the_time_is_busy_all_the_time(tmp_path):
    # Event durations alone give 68 %: they close while the parallel part of an op still runs.
    (tmp_path / "script.py").write_text(SCRIPT)
    subprocess.run(
        [sys.executable, "-m", "tracekit", "capture", "--out", "trace", "script.py"], cwd=tmp_path, check=True
    )
    trace = read(tmp_path / "trace")
    busy_ratios = []
    for phase in phase_marks(trace.spans).itertuples():
        (row,) = tracekit.partition(trace.events, (phase.start_ps, phase.end_ps)).itertuples()
        busy_ratios.append(row.busy_ps / row.window_ps)
        assert len(trace.events[trace.events["start_ps"].between(phase.start_ps, phase.end_ps)]) == 5
    # The best of several: on a busy machine the program's own threads wait for a core.
    assert len(busy_ratios) == 8
    assert max(busy_ratios) > 0.9
