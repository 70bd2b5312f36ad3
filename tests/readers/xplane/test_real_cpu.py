"""Real captures of programs whose work is known: of `two_cpu_devices.py` with two jax versions, and one made here."""

import subprocess
import sys
from pathlib import Path

import pytest

import tracekit
from tracekit.analysis.phases import marked
from tracekit.readers import read

DATA = Path(__file__).parents[2] / "data"
LOOP = {("compute", "copy"): 4, ("compute", "fusion"): 4}
SUM = {("compute", "fusion"): 2, ("collective", "all-reduce"): 2}
# What the program asked of each device in each phase, by kind and opcode (None for copies: they are no HLO op).
ASKED = {
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
    found: dict = {}
    phases = marked(trace.spans)
    for row in trace.events.itertuples():
        for phase in phases.itertuples():
            if phase.start_ps <= row.start_ps < phase.end_ps:
                opcode = row.category if isinstance(row.category, str) else None
                ops = found.setdefault((phase.name, row.device), {})
                ops[row.kind, opcode] = ops.get((row.kind, opcode), 0) + 1
    assert found == ASKED


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


def test_two_files_joined_are_refused_and_not_read_as_one(tmp_path):
    (whole, other) = sorted(DATA.glob("two-cpu-devices-*.xplane.pb"))
    joined = tmp_path / "host.xplane.pb"
    joined.write_bytes(whole.read_bytes() + other.read_bytes())
    with pytest.raises(tracekit.TraceError, match="more than one profiler session"):
        read(joined)


SCRIPT = """
import jax, jax.numpy as jnp, tracekit
f = jax.jit(lambda x: jnp.sin(x) * 2 + x)
x = jnp.ones((2048, 2048))
jax.block_until_ready(f(x))
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
    (phase,) = marked(trace.spans).itertuples()
    (row,) = tracekit.partition(trace.events, (phase.start_ps, phase.end_ps)).itertuples()
    assert row.busy_ps / row.window_ps > 0.9
    assert len(trace.events[trace.events["start_ps"].between(phase.start_ps, phase.end_ps)]) == 5
