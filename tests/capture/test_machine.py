"""The machine's load during a capture, read from files that stand in for the system's own."""

import os
import subprocess
import sys
import time

import pytest

from tests.test_cores import write_files
from tracekit import cores
from tracekit.capture import machine, processes
from tracekit.capture.machine import MachineLoad, sample

CORES = sorted(cores.allowed())
TICK = os.sysconf("SC_CLK_TCK")
ELSEWHERE = max(CORES) + 1


def proc_stat(*figures):
    """/proc/stat where each usable core has these ticks, and one that is not usable runs all the time."""
    line = " ".join(map(str, figures))
    rows = [f"cpu{core} {line}" for core in CORES]
    return {"proc/stat": "\n".join(["cpu  9 9 9 9", *rows, f"cpu{ELSEWHERE} 9999 0 0 0 0 0 0 0", "intr 5 5"])}


def process(pid, parent, *ticks):
    return {f"proc/{pid}/stat": f"{pid} (a) b (c) S {parent} " + " ".join(["0"] * 9 + [*map(str, ticks)] + ["0"] * 9)}


def test_cpu_time_is_that_of_the_usable_cores_and_of_the_process_with_its_descendants(tmp_path):
    own = os.getpid()
    files = proc_stat(100, 20, 30, 400, 50, 6, 4, 7, 60, 0)
    files |= process(own, 1, 10, 20, 3, 4) | process(7, own, 5, 0, 0, 0) | process(8, 7, 6, 0, 0, 1)
    files |= process(9, 1, 1000, 0, 0, 0) | {"proc/self/stat": "no", "proc/10/stat": "gone"}
    told = sample(write_files(tmp_path, files))

    assert told["busy_s"] == pytest.approx(len(CORES) * 160 / TICK)
    assert told["stolen_s"] == pytest.approx(len(CORES) * 7 / TICK)
    assert told["total_s"] == pytest.approx(len(CORES) * 617 / TICK)
    assert told["own_s"] == pytest.approx(49 / TICK)


@pytest.mark.parametrize(
    ("files", "mhz"),
    [
        ({f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq": "2500000\n" for core in CORES}, 2500),
        ({"proc/cpuinfo": "cpu MHz\t\t: 2000.5\nx : 1\ncpu MHz : 3000.5\n"}, 2500.5),
        ({}, None),
    ],
    ids=["sys", "proc", "neither"],
)
def test_the_frequency_of_the_cores_is_read_where_the_system_tells_it(tmp_path, files, mhz):
    assert sample(write_files(tmp_path, files))["mhz"] == mhz


def test_what_the_system_does_not_tell_is_null_with_its_reason(tmp_path):
    load = MachineLoad(root=tmp_path)
    load.start()
    load.stop()
    facts = load.facts()
    assert set(facts["lacking"]) == {"cpu", "frequency", "throttling"}
    assert facts["throttled"] is None
    assert {name for name, series in facts["samples"].items() if series is None} == {
        *("own_cpu_s", "other_cpu_s", "stolen_cpu_s", "frequency_mhz")
    }


def test_long_runs_keep_few_samples_over_their_whole_length(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "PERIOD_S", 0.0)
    monkeypatch.setattr(machine, "_PAUSES", 0)
    monkeypatch.setattr(machine, "_MOST_SAMPLES", 8)
    load = MachineLoad(root=tmp_path)
    load.start()
    first = load.samples[0]
    while load._every < 8:
        time.sleep(0.001)
    load.stop()
    load.stop()
    times = [each["unix_ns"] for each in load.samples]
    assert load.samples[0] is first
    assert (len(times) <= 9, times == sorted(times)) == (True, True)


@pytest.mark.skipif(not os.path.exists("/proc/stat"), reason="this system has no /proc")
def test_the_time_of_a_child_is_the_programs_own_and_that_of_an_orphan_is_not():
    # An orphan belongs to another process; both compute for as long.
    compute = "import time\nend = time.process_time() + 0.15\nwhile time.process_time() < end: pass"
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {compute!r} + '\\nprint()'])"
    before = sample()
    subprocess.run([sys.executable, "-c", compute], check=True)
    middle = sample()
    subprocess.run([sys.executable, "-c", orphan], check=True, stdout=subprocess.PIPE)  # ends with the orphan
    after = sample()
    assert middle["own_s"] - before["own_s"] >= 0.1
    others = [each["busy_s"] - each["own_s"] for each in (middle, after)]
    assert others[1] - others[0] >= 0.1


def test_processes_that_one_has_started_are_one_program_to_each_of_them(tmp_path, monkeypatch):
    starter, own = os.getppid(), os.getpid()
    files = process(starter, 1, 1, 0, 2, 0) | process(own, starter, 10, 0, 0, 0) | process(8, starter, 600, 0, 0, 0)
    root = write_files(tmp_path, files)
    alone = sample(root, processes.family())["own_s"]
    monkeypatch.setenv("TRACEKIT_PROCESS", "0/2 127.0.0.1:40000")
    joined = sample(root, processes.family())["own_s"]
    assert (alone, joined) == (pytest.approx(10 / TICK), pytest.approx(613 / TICK))


RANK = {"OMPI_COMM_WORLD_SIZE": "4", "PMIX_NAMESPACE": "prterun-node-7@1"}


@pytest.mark.parametrize(
    ("variables", "own_ticks"),
    [
        # This rank and its sibling below mpirun; then one of the same job that another process has started.
        (RANK, 3 + 10 + 600 + 50),
        ({"OMPI_COMM_WORLD_SIZE": "4"}, 3 + 10 + 600),
        # One task of a job step: a shell in it, and what else runs there, is no part of the program.
        ({"SLURM_STEP_NUM_TASKS": "1", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}, 10),
        ({}, 10),
    ],
    ids=["job", "launcher", "alone in a step", "no launcher"],
)
def test_the_ranks_of_a_job_on_this_machine_are_one_program(tmp_path, monkeypatch, variables, own_ticks):
    for name in ("SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID", "SLURM_STEP_ID", "PMI_SIZE", *RANK):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    shell, own = 70_000_001, os.getpid()
    files = process(5, 1, 3, 0, 0, 0) | process(shell, 5, 0, 0, 0, 0) | process(own, shell, 10, 0, 0, 0)
    files["proc/5/stat"] = files["proc/5/stat"].replace("(a) b (c)", "(mpirun)")
    files |= process(8, 5, 600, 0, 0, 0) | process(9, 1, 50, 0, 0, 0) | process(10, 1, 1000, 0, 0, 0)
    environment = [f"{name}={value}" for name, value in {**RANK, "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}.items()]
    files["proc/9/environ"] = "\0".join(["HOME=/", *environment, ""])
    files["proc/10/environ"] = "PMIX_NAMESPACE=prterun-node-8@1\0"
    root = write_files(tmp_path, files)
    told = sample(root, processes.family(root), processes.job())
    assert told["own_s"] == pytest.approx(own_ticks / TICK)
