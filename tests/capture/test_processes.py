"""Several processes of one program leave one run, whoever has started them."""

import json
import os
import platform
import re
import signal
import subprocess
import sys

import pytest

import tracekit
from tests.capture.test_capture import ROOT, capture, start, write
from tracekit.capture.processes import _free_port

WORKLOAD = ROOT / "workloads" / "multiprocess.py"

SUM = """
    import os, sys, time, jax, numpy as np
    from jax.sharding import NamedSharding, PartitionSpec
    jax.distributed.initialize()
    index, count = jax.process_index(), jax.process_count()
    if "--fail" in sys.argv:
        jax.devices()
        time.sleep(60 * (1 - index))
        os._exit(7)  # sys.exit would wait for the others, in jax's own clean-up
    mesh = jax.make_mesh((jax.device_count(),), ("all",), axis_types=(jax.sharding.AxisType.Auto,))
    split = NamedSharding(mesh, PartitionSpec("all"))
    whole = np.arange(jax.device_count(), dtype=np.float32)
    x = jax.make_array_from_callback(whole.shape, split, whole.__getitem__)
    for _ in range(3):
        total = jax.jit(lambda x: x.sum())(x).block_until_ready()
    print(f"process {index} of {count} with {jax.local_device_count()} devices: {float(total)}", flush=True)
"""


def test_two_processes_started_here_leave_one_run_with_a_file_of_each(tmp_path):
    script = write(tmp_path, "sum.py", SUM)
    code, out, err = capture(tmp_path, "--processes", "2", "--devices", "2", "--out", "trace", script)
    assert code == 0, err
    said = re.findall(r"process \d of \d with \d devices: 6\.0", out)  # on one line, where both say it at once
    assert sorted(said) == [f"process {index} of 2 with 2 devices: 6.0" for index in (0, 1)]
    (run,) = (tmp_path / "trace" / "plugins" / "profile").iterdir()
    assert re.findall("^Wrote (.*)$", err, re.MULTILINE) == [str(run.relative_to(tmp_path))]
    files = sorted(path.name for path in run.iterdir())
    hosts = {name.partition(".")[0].rpartition("-") for name in files if name.endswith(".xplane.pb")}
    assert {number for _, _, number in hosts} == {"0", "1"}
    assert len({host for host, _, _ in hosts}) == 1
    assert [path.name for path in (tmp_path / "trace").iterdir()] == ["plugins"], "drafts are left behind"
    facts = json.loads((run / "capture.json").read_text())
    assert {device["process_index"] for device in facts["devices"]} == {0, 1}
    assert len(facts["machines"]) == 2
    assert len(set(facts["machines"].values())) == 1
    trace = tracekit.read(tmp_path / "trace")
    assert sorted(facts["machines"]) == trace.hosts["host"].tolist()
    assert trace.hosts["clock"].nunique() == 1
    assert trace.hosts["shift_ps"].fillna(0).tolist() == [0, 0]
    assert trace.hosts["world_size"].tolist() == [4, 4]  # devices
    assert trace.events["device"].nunique() >= 4


def test_a_process_that_fails_ends_the_others_and_its_exit_code_is_the_captures(tmp_path):
    script = write(tmp_path, "sum.py", SUM)
    code, out, err = capture(tmp_path, "--processes", "2", "--out", "trace", script, "--fail")
    assert code == 7, err
    assert "process 0" not in out
    traces = (tmp_path / "trace" / "plugins" / "profile").glob("*/*.xplane.pb")
    assert len(list(traces)) == 2, err


def test_processes_that_do_not_join_are_said_to_leave_runs_of_their_own(tmp_path):
    script = write(tmp_path, "alone.py", "import jax; jax.devices()")
    code, _, err = capture(tmp_path, "--processes", "2", "--out", "trace", script)
    assert code == 0, err
    assert len(list((tmp_path / "trace" / "plugins" / "profile").iterdir())) == 2
    assert (
        "the 2 processes were not joined, and left 2 runs, of which a report shows one (--run NAME): the script" in err
    )


MATMUL = """
    import sys, jax, jax.numpy as jnp
    f = jax.jit(lambda x: x @ x)
    f(jnp.ones((64, 64))).block_until_ready()
    sys.exit(3 if "--fail" in sys.argv else 0)
"""


def test_a_script_captured_several_times_leaves_a_run_each_which_are_one_side_of_a_comparison(tmp_path):
    script = write(tmp_path, "matmul.py", MATMUL)
    code, _, err = capture(tmp_path, "--repeat", "2", "--out", "trace", script)
    assert code == 0, err
    runs = sorted((tmp_path / "trace" / "plugins" / "profile").iterdir())
    assert len(runs) == 2
    wrote = re.findall("^Wrote (.*)$", err, re.MULTILINE)
    assert sorted(wrote) == [str(run.relative_to(tmp_path)) for run in runs]
    assert re.findall("^Next: (.*)$", err, re.MULTILINE) == ["tracekit compare trace OTHER"]
    its = tracekit.compare(tmp_path / "trace", runs[0])
    assert [len(side.captures) for side in (its.a, its.b)] == [2, 1]
    assert its.is_same  # one run is on both sides
    code, _, err = capture(tmp_path, "--repeat", "2", "--out", "failed", script, "--fail")
    assert code == 3, err
    assert len(re.findall("^Wrote ", err, re.MULTILINE)) == 1


@pytest.mark.parametrize("processes", ["0", "two"])
def test_a_number_of_processes_that_is_none_is_one_sentence(tmp_path, processes):
    code, _, err = capture(tmp_path, "--processes", processes, "x.py")
    assert code == 2
    assert "--processes" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("where", "ended_by"), [("at a terminal", signal.SIGINT), ("in the background", signal.SIGHUP)], ids=str
)
def test_a_request_to_end_that_comes_while_the_processes_start_is_theirs(tmp_path, where, ended_by):
    script = write(
        tmp_path,
        "s.py",
        """
        import os, signal, subprocess, sys
        from tracekit.capture import processes

        begin = subprocess.Popen.__init__

        def begun(child, *args, **named):
            begin(child, *args, **named)
            os.kill(os.getpid(), signal.SIGTERM)

        signal.signal(signal.SIGINT, signal.SIG_IGN if sys.argv[1] == "in the background" else signal.SIG_DFL)
        subprocess.Popen.__init__ = begun
        print(processes.call([sys.executable, "-c", "import time; time.sleep(100)"]))
        """,
    )
    done = subprocess.run(
        [sys.executable, script, where],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == (f"{128 + ended_by}\n", 0), done.stderr


def test_the_workload_of_several_processes_is_read_as_one_trace(tmp_path):
    small = ("--size", "32", "--products", "4")
    code, _, err = capture(tmp_path, "--processes", "2", "--out", "trace", WORKLOAD, *small)
    assert code == 0, err
    # Without this file nobody says that both processes have one clock.
    (facts,) = (tmp_path / "trace").glob("plugins/profile/*/capture.json")
    facts.unlink()
    trace = tracekit.read(tmp_path / "trace")
    assert len(trace.hosts) == 2
    reduced = trace.events[trace.events["kind"] == "collective"].groupby("host", observed=True).size()
    assert reduced.tolist() == [64, 64]  # 3 rounds of 1 and 20, and the one that compiles
    assert {"compute", "all-reduce"} <= set(trace.spans["name"])
    # It is one: whatever the collectives tell must have room for no offset.
    shifts, residuals = trace.hosts["shift_ps"].dropna(), trace.hosts["residual_ps"].dropna()
    assert (shifts.abs() <= max(residuals, default=0)).all()


JOINED = """
    import os, sys, jax
    index, port = int(sys.argv[1]), sys.argv[2]
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=index)
    jax.jit(lambda x: x + 1)(1.0).block_until_ready()
"""


def captured_by_two(tmp_path, *outs):
    """The exit codes and what two processes said that capture into these directories."""
    script = write(tmp_path, "joined.py", JOINED)
    port = str(_free_port())
    commands = [("-m", "tracekit", "capture", "--out", out, script, index, port) for index, out in enumerate(outs)]
    started = [start(tmp_path, *command) for command in commands]
    said = [process.communicate(timeout=120)[1] for process in started]
    return [process.returncode for process in started], said


def test_processes_that_share_no_disk_say_which_files_to_copy_where(tmp_path):
    codes, (first, second) = captured_by_two(tmp_path, "here", "there")
    assert codes == [0, 0], first + second
    (run,), (other,) = ([*(tmp_path / out / "plugins" / "profile").iterdir()] for out in ("here", "there"))
    assert run.name == other.name
    node = platform.node()
    assert (
        f"tracekit: this host shares no disk with 1 of the other processes ({node}-1): copy their files from the run "
        f"{run.name} on their hosts into {run} here, or `tracekit summarise` each there, and report on a directory of "
        "the summaries. --out gs://BUCKET/... gathers the next capture by itself.\n"
    ) in first
    assert (
        f"tracekit: process 1 shares no disk with process 0 on {node}: its files stay here, in {other}, and have to be "
        "copied into the run of that name there.\n"
    ) in second
    assert [sorted(path.name for path in (tmp_path / out).iterdir()) for out in ("here", "there")] == [["plugins"]] * 2
    alone = tracekit.read(tmp_path / "here")
    assert (
        f"capture.json names 2 processes, and the files of 1 are not here ({node}-1): copy them into {run}."
    ) in alone.notes
    for path in other.iterdir():
        path.rename(run / path.name)
    both = tracekit.read(tmp_path / "here")
    assert both.hosts["host"].tolist() == [f"{node}-0", f"{node}-1"]
    assert not any("capture.json names" in note for note in both.notes)


def test_processes_that_share_a_disk_say_nothing_of_copying(tmp_path):
    codes, said = captured_by_two(tmp_path, "here", "here")
    assert codes == [0, 0], said
    assert not any("disk" in text for text in said)
    assert len([*(tmp_path / "here").glob("plugins/profile/*/*.xplane.pb")]) == 2


def test_no_process_waits_in_a_collective_for_the_profile_of_another_to_begin(tmp_path):
    script = write(
        tmp_path,
        "steps.py",
        SUM.partition("    if ")[0]
        + """
    start = jax.profiler.start_trace

    def start_slowly(*args, **kwargs):
        start(*args, **kwargs)
        time.sleep(index)  # after the first has begun

    jax.profiler.start_trace = start_slowly
    """
        + SUM[SUM.index("mesh =") :].partition("    for _")[0]
        + """
    total = jax.jit(lambda x: x.sum())
    for step in range(4):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            total(x).block_until_ready()
""",
    )
    code, _, err = capture(tmp_path, "--processes", "2", "--start-step", "2", "--out", "trace", script)
    assert code == 0, err
    events = tracekit.read(tmp_path / "trace").events
    reduced = events[events["kind"] == "collective"]
    assert reduced["host"].nunique() == 2
    assert (reduced["end_ps"] - reduced["start_ps"]).max() < 500 * 10**9
