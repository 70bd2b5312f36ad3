"""`tracekit capture` of PyTorch: found by itself, unchanged scripts, steps and phases, a file a rank, whole or not."""

import json
import os
import socket
import sys
from types import ModuleType

import pytest

import tracekit
from tests.torch_programs import capture, needs_torch
from tracekit import CaptureError
from tracekit.capture.capture import _unused
from tracekit.capture.framework import framework_of
from tracekit.capture.session import Plan
from tracekit.capture.torch_job import launch_name
from tracekit.capture.torch_session import TorchSession

TRAINING = """
import sys, torch, tracekit
from torch.profiler import ProfilerActivity, profile

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.Adam(model.parameters())
other = torch.optim.SGD(model.parameters())

def step():
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    other.step()  # of a second optimizer: no step of its own
"""


@pytest.mark.parametrize(
    ("files", "framework"),
    [
        ({"main.py": "import torch.nn as nn"}, "torch"),
        ({"main.py": "def f():\n    from torchvision import models"}, "torch"),
        ({"main.py": "import torch, jax"}, "jax"),
        ({"main.py": "import numpy"}, "jax"),
        ({"main.py": "from part.model import net", "part/model.py": "import torch"}, "torch"),
        ({"main.py": "from part import model", "part/model.py": "import torch"}, "torch"),
        ({"main.py": "import a", "a.py": "import b", "b.py": "import a, torch"}, "torch"),
        ({"main.py": "import torch, a", "a.py": "import optax"}, "jax"),
        ({"main.py": "import torchlike"}, "jax"),
        ({"main.py": "import a", "a.py": "import torch ("}, "jax"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value.values())),
)
def test_the_framework_is_torch_where_the_script_or_its_own_files_import_it_and_not_jax(tmp_path, files, framework):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert framework_of(str(tmp_path / "main.py"), module=False) == framework


def test_the_framework_of_a_module_is_found_from_the_directory_one_is_in(tmp_path, monkeypatch):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__main__.py").write_text("import torch")
    (tmp_path / "pack" / "part.py").write_text("import jax")
    monkeypatch.chdir(tmp_path)
    assert [framework_of(name, module=True) for name in ("pack", "pack.part", "none")] == ["torch", "jax", "jax"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"devices": 2}, "torch has one CPU. --processes 2 starts two ranks"),
        ({"host_level": 3}, "--host-level is of jax's profiler"),
        ({"stretch": tracekit.Stretch(step_function="step")}, r"torch's steps end with Optimizer\.step\(\)"),
        ({"framework": "tf"}, "the framework must be one of jax, torch, not tf"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_torch_has_not_is_refused_in_one_sentence(tmp_path, options, sentence):
    (tmp_path / "script.py").write_text("import torch")
    with pytest.raises(CaptureError, match=sentence):
        tracekit.capture(tmp_path / "script.py", out=tmp_path / "trace", **options)
    assert not (tmp_path / "trace").exists()


def test_ranks_of_one_launcher_write_to_one_directory(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "TRACEKIT_PROCESS"):
        monkeypatch.delenv(name, raising=False)
    assert launch_name() is None
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("RANK", "0")
    assert launch_name() is None
    monkeypatch.setenv("WORLD_SIZE", "2")
    first = launch_name()
    monkeypatch.setenv("RANK", "1")
    assert first == launch_name()
    assert first is not None
    assert first.endswith(f"-{os.getppid():06x}")


@needs_torch
def test_a_script_is_captured_unchanged_and_its_own_profiles_do_nothing(tmp_path):
    (tmp_path / "script.py").write_text(
        TRAINING
        + """
with tracekit.unrecorded():
    step()
with tracekit.phase("two steps"):
    step()
    step()
with profile(activities=[ProfilerActivity.CPU]) as own, tracekit.phase("one step", baseline="two steps"):
    step()
print(len(own.key_averages()), sys.argv)
print("to stderr", file=sys.stderr)
sys.exit(3)
"""
    )
    process = capture("--out", "trace", "script.py", "--own", "x", cwd=tmp_path)
    (run,) = (tmp_path / "trace/plugins/profile").iterdir()
    assert process.returncode == 3
    assert process.stdout.splitlines()[-1] == "0 ['script.py', '--own', 'x']"
    assert process.stderr.splitlines() == [
        "tracekit: the script uses torch.profiler itself; one profile can run at a time, so its calls do nothing and "
        "this capture goes on. For the script's own profile run it with plain python.",
        "to stderr",
        f"Wrote trace/plugins/profile/{run.name}",
        "Next: tracekit report trace",
    ]
    assert [*(path.name for path in (tmp_path / "trace").iterdir())] == ["plugins"]
    trace = tracekit.read(tmp_path / "trace")
    marks = trace.spans[trace.spans["tracekit"] == "phase"]
    assert marks["name"].tolist() == ["two steps", "one step"]
    assert marks["baseline"].astype("str").tolist()[1] == "two steps"
    assert (trace.spans["name"] == "Optimizer.step#Adam.step").sum() == 3
    facts = json.loads((run / "capture.json").read_text())
    assert (facts["framework"], facts["exit_code"], facts["platform"]) == ("torch", 3, "cpu")


@needs_torch
def test_a_stretch_of_steps_is_counted_by_the_first_optimizer_and_written_while_the_script_runs(tmp_path):
    (tmp_path / "script.py").write_text(
        TRAINING
        + """
import os, pathlib, signal
for _ in range(8):
    step()
print([path.name for path in pathlib.Path("trace").glob("plugins/profile/*/*.gz")])
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    process = capture("--out", "trace", "--start-step", "2", "--steps", "3", "script.py", cwd=tmp_path)
    assert process.returncode == -9
    assert ".pt.trace.json.gz" in process.stdout
    assert process.stderr == "tracekit: the stretch is captured; the script goes on without the profiler.\n"
    trace = tracekit.read(tmp_path / "trace")
    assert trace.spans["step"].dropna().tolist() == [2, 3, 4]
    begins, ends = trace.spans["start_ps"].to_numpy(), trace.spans["end_ps"].to_numpy()
    steps = trace.spans["step"].notna().to_numpy()
    adam = (trace.spans["name"] == "Optimizer.step#Adam.step").to_numpy()
    assert adam.sum() == 3
    assert (begins[steps] <= begins[adam]).all()
    assert (ends[adam] <= ends[steps]).all()
    assert trace.capture is not None
    assert trace.capture["stretch"]["captured_steps"] == 3


@needs_torch
def test_the_steps_of_a_training_go_on_from_those_of_a_warm_up_with_an_optimizer_of_its_own(tmp_path):
    (tmp_path / "script.py").write_text(
        """
import torch

def train(steps):
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters())
    for _ in range(steps):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()

train(2)
train(6)
"""
    )
    process = capture("--out", "trace", "--start-step", "3", "--steps", "2", "script.py", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    assert tracekit.read(tmp_path / "trace").spans["step"].dropna().tolist() == [3, 4]


@needs_torch
def test_a_signal_leaves_the_trace_up_to_there(tmp_path):
    (tmp_path / "script.py").write_text(
        f"{TRAINING}\nimport os, signal, time\nstep()\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(99)\n"
    )
    process = capture("--out", "trace", "script.py", cwd=tmp_path)
    assert process.returncode == 143
    assert "tracekit: interrupted; writing the trace." in process.stderr
    assert (tracekit.read(tmp_path / "trace").spans["name"] == "Optimizer.step#Adam.step").sum() == 1


def test_a_capture_for_jax_says_what_captures_a_script_that_imported_torch(monkeypatch):
    assert "--framework torch" not in _unused("jax", "script.py", 0, "")
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    assert _unused("jax", "script.py", 0, "").endswith(" It imported torch: --framework torch captures that.")


def test_a_script_without_steps_says_how_they_are_counted(tmp_path):
    session = TorchSession(Plan(tmp_path, "run", stretch=tracekit.Stretch(start_step=5)))
    assert session.unreached == ""
    session._is_in_use = True
    assert session.unreached.startswith("called no torch.optim.Optimizer.step()")
    session._steps_made = 3
    assert session.unreached == "made 3 steps from 0 on, and none is number 5"


SPAWNING = """
import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
import tracekit

def rank(index, address):
    dist.init_process_group("gloo", rank=index, world_size=2, init_method=address)
    with tracekit.phase("ranks"):
        dist.all_reduce(torch.ones(5))
    if "fail" in sys.argv and index == 1:
        raise ValueError("boom")
    dist.barrier()

if __name__ == "__main__":
    context = mp.get_context("fork" if "fork" in sys.argv else "spawn")
    address = f"file://{os.getcwd()}/store"
    torch.ones(3) + 1
    if "phase" in sys.argv:
        with tracekit.phase("main"):
            torch.ones(3) + 1
    if "fail" in sys.argv:
        mp.spawn(rank, (address,), nprocs=2)
    for index in range(2):
        context.Process(target=rank, args=(index, address)).start()
"""


@needs_torch
@pytest.mark.parametrize(
    ("word", "exit_code", "hosts", "sentence"),
    [
        ("spawn", 0, ["rank0", "rank1"], ""),
        ("fail", 1, ["rank0", "rank1"], "ValueError: boom"),
        ("phase", 0, ["main", "rank0", "rank1"], ""),
        ("fork", 0, ["main"], "2 processes that the script started by multiprocessing are not in the trace: "),
    ],
)
def test_ranks_that_the_script_starts_are_in_one_run_or_it_is_said_that_they_are_not(
    tmp_path, word, exit_code, hosts, sentence
):
    (tmp_path / "script.py").write_text(SPAWNING)
    process = capture("--out", "trace", "script.py", word, cwd=tmp_path)
    assert (process.returncode, "tracekit:" in process.stderr) == (exit_code, word == "fork")
    assert sentence in process.stderr
    trace = tracekit.read(tmp_path / "trace")
    assert sorted("main" if name == socket.gethostname() else name for name in trace.hosts["host"]) == hosts
    assert trace.hosts["clock"].nunique() <= 1
    phases = trace.spans[trace.spans["tracekit"] == "phase"]
    assert phases["name"].astype(str).value_counts().to_dict() == ({"ranks": 2} if "rank0" in hosts else {}) | (
        {"main": 1} if word == "phase" else {}
    )
    assert trace.capture is not None
    assert trace.capture["exit_code"] == exit_code
    assert not [note for note in trace.notes if "not here" in note]


@needs_torch
def test_processes_that_serve_the_script_are_neither_waited_for_nor_missed(tmp_path):
    (tmp_path / "script.py").write_text(
        """
import torch, multiprocessing
from concurrent.futures import ProcessPoolExecutor
if __name__ == "__main__":
    manager = multiprocessing.Manager()
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    print(pool.submit(abs, -3).result())
    torch.ones(3) + 1
"""
    )
    process = capture("--out", "trace", "script.py", cwd=tmp_path)
    assert (process.returncode, process.stdout) == (0, "3\n")
    assert [line.partition(" ")[0] for line in process.stderr.splitlines()] == ["Wrote", "Next:"]


SLOW_TO_BEGIN = """
import os, sys, time, torch, torch.distributed as dist, torch.multiprocessing as mp

def rank(index, address):
    start = torch.profiler.profile.start

    def start_slowly(profile):
        start(profile)
        time.sleep(index)  # after the first has begun

    torch.profiler.profile.start = start_slowly
    dist.init_process_group("gloo", rank=index, world_size=2, init_method=address)
    weight = torch.nn.Parameter(torch.ones(5))
    optimizer = torch.optim.SGD([weight])
    for step in range(4):
        weight.grad = torch.ones(5)
        dist.all_reduce(weight.grad)
        optimizer.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    if "RANK" in os.environ:
        rank(int(os.environ["RANK"]), "env://")
    else:
        mp.spawn(rank, (f"file://{os.getcwd()}/store",), nprocs=2)
"""


@needs_torch
@pytest.mark.parametrize("options", [["--processes", 2, "--start-step", 2], []], ids=["steps", "spawn"])
def test_no_rank_waits_in_a_collective_for_the_profile_of_another_to_begin(tmp_path, options):
    (tmp_path / "script.py").write_text(SLOW_TO_BEGIN)
    process = capture("--out", "trace", *options, "script.py", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    events = tracekit.read(tmp_path / "trace").events
    reduced = events[events["category"] == "all-reduce"]
    assert reduced["device"].nunique() == 2
    assert (reduced["end_ps"] - reduced["start_ps"]).max() < 500 * 10**9
