"""A GPU day, rehearsed on CPU with fakes of what is not here: parts that fail or hang, the comparison, the archive."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GPU_DAY = ROOT / "benchmarks" / "gpu_day"
GENERATED = ROOT / "tests" / "data" / "generated"
NVIDIA_SMI = (
    "#!/bin/sh\necho 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'\nexit 9\n"
)
# Records by running the program, and exports by copying a real export's look-alike.
NSYS = f"""#!{sys.executable}
import shutil, subprocess, sys
words = sys.argv[1:]
at = words.index("-o")
if words[0] == "profile":
    open(words[at + 1] + ".nsys-rep", "w").close()
    sys.exit(subprocess.call(words[at + 2 :]))
shutil.copy({str(GENERATED / "gpu.sqlite")!r}, words[at + 1])
"""


@pytest.fixture
def modules(monkeypatch):
    """The modules of the day, which import each other as scripts do."""
    monkeypatch.syspath_prepend(GPU_DAY)
    import comparison
    import gpu_day
    import parts

    yield comparison, gpu_day, parts
    for name in ("comparison", "gpu_day", "parts", "results"):
        sys.modules.pop(name, None)


def put_on_path(directory: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    for name, text in programs.items():
        path = directory / name.replace("_", "-")
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


def run_day(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, GPU_DAY / "gpu_day.py", "--out", out, *options]
    env = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")}
    return subprocess.run(command, env=env, capture_output=True, text=True)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_part_that_fails_or_hangs_is_told_and_the_next_one_runs(modules, tmp_path, capsys):
    parts = modules[2]
    child = tmp_path / "child"
    # Ignores SIGTERM, as its child does, which would go on for an hour.
    hangs = f"trap '' TERM; sleep 3600 & echo $! > {child}; echo waiting; wait; sleep 3600"
    found = parts.Parts(tmp_path / "logs", time.monotonic() + 60, {"WHAT": "is set"})
    parts.GRACE_S = 0.2
    found.run_all(
        [
            parts.Part("fails", ["sh", "-c", "echo it is broken >&2; exit 3"], 20),
            parts.Part("hangs", ["sh", "-c", hangs], 1),
            parts.Part("is not there", ["no-such-program"], 20),
            parts.Part("cannot run", ["true"], 20, missing="there is no GPU"),
            parts.Part("comes after", ["true"], 20, needs=tmp_path / "trace"),
            parts.Part("works", ["sh", "-c", "echo $WHAT $MORE"], 20, {"MORE": "too"}),
        ]
    )
    assert [(each.name, each.state) for each in found.outcomes] == [
        ("fails", "failed"),
        ("hangs", "stopped"),
        ("is not there", "failed"),
        ("cannot run", "not run"),
        ("comes after", "not run"),
        ("works", "ok"),
    ]
    whys = [each.why for each in found.outcomes]
    assert whys[0] == "it is broken (fails.txt)"
    assert whys[1] == "it took longer than 1 s (hangs.txt)"
    assert whys[3:5] == ["there is no GPU", "there is no trace of an earlier part"]
    assert not is_running(int(child.read_text()))
    assert (tmp_path / "logs" / "works.txt").read_text().splitlines()[1] == "is set too"
    found.deadline = time.monotonic() + 1
    assert found.run(parts.Part("late", ["true"], 20)).why == "no time was left"
    assert "stopped" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["gpu.sqlite", "kineto/rank0.pt.trace.json.gz"])
def test_each_tool_is_counted_without_tracekit(modules, name):
    comparison = modules[0]
    path = GENERATED / name
    rows = comparison.nsys_rows(path) if path.suffix == ".sqlite" else comparison.kineto_rows(path)
    figures = comparison.of_rows("jax", "a tool", rows)
    known = json.loads((GENERATED / "expected.json").read_text())["generated/gpu.xplane.pb"]["gpu:0"]
    assert figures.busy_ms == pytest.approx(known["busy"] / 1e3)
    assert figures.copy_ms == pytest.approx(known["mem"] / 1e3)
    # A collective is a kernel there. Nothing but copies ran in the rest of the busy time.
    kernels = known["compute"] + known["collective"] - known["compute&collective"]
    assert figures.compute_ms == pytest.approx(kernels / 1e3)
    assert figures.hidden_ms == pytest.approx((kernels + known["mem"] - known["busy"]) / 1e3)


@pytest.mark.parametrize(("table", "directory"), [("WORKLOADS", "workloads"), ("TORCH_WORKLOADS", "workloads/torch")])
def test_every_workload_has_its_part(modules, table, directory):
    paths = (ROOT / directory).glob("*.py")
    workloads = {path.stem for path in paths if '__name__ == "__main__"' in path.read_text("utf-8")}
    assert set(getattr(modules[1], table)) == workloads
    for name, workload in getattr(modules[1], table).items():
        source = (ROOT / directory / f"{name}.py").read_text("utf-8")
        for options in (workload.cpu, workload.gpu, workload.tight or ""):
            for option in re.findall(r"--[a-z-]+", options):
                assert f'"{option}"' in source, f"{name}.py has no {option}"


def test_a_gpu_gets_what_it_can_show_in_the_memory_that_it_has(modules, tmp_path):
    gpu_day = modules[1]
    layout = gpu_day.Layout(tmp_path)

    def machine(*memory_bytes):
        found = {
            "platform": "gpu",
            "kinds": ["H100"] * len(memory_bytes),
            "memory_bytes": memory_bytes,
            "jax": "0.12.0",
        }
        layout.devices.write_text(json.dumps(found))
        return gpu_day.machine_of(layout.devices)

    one_small, two_large = machine(6 << 30), machine(60 << 30, 60 << 30)
    small, large = ({part.name: part for part in gpu_day.workload_parts(layout, at)} for at in (one_small, two_large))
    assert "--width" in small["strategies"].command
    assert "--width" not in large["strategies"].command
    assert "one process a GPU" in small["multiprocess"].missing
    assert not large["multiprocess"].missing
    alone, both = (
        {part.name: part.missing for part in gpu_day.small_parts(layout, at)} for at in (one_small, two_large)
    )
    assert alone["small-all-reduce"]
    assert not any(both.values())
    # On a GPU, nsys records what the program asks for, and that alone.
    (nsys,) = [part for part in gpu_day.compare_parts(layout, two_large) if part.name == "compare jax nsys"]
    assert "--capture-range=cudaProfilerApi" in nsys.command
    assert nsys.command[-2:] == ["--profiler", "nsys"]
    assert gpu_day.lacking(two_large, "gpu") == []


def test_a_rehearsal_leaves_a_folder_and_an_archive(tmp_path, monkeypatch):
    put_on_path(tmp_path, monkeypatch, nvidia_smi=NVIDIA_SMI, nsys=NSYS)
    out = tmp_path / "day"
    process = run_day(out, "--platform", "cpu", "--only", "nvidia-smi", "compare jax")
    assert process.returncode == 0, process.stdout + process.stderr
    summary = json.loads((out / "summary.json").read_text())
    states = {each["name"]: each["state"] for each in summary["outcomes"]}
    assert states == {
        "nvidia-smi": "failed",
        "nvidia-smi topo": "failed",
        "devices": "ok",
        "compare jax": "ok",
        "compare jax nsys": "ok",
        "compare jax nsys export": "ok",
        "compare jax torch.profiler": "not run",
        "report compare-jax-nsys": "ok",
    }
    clock, own, by_tracekit = summary["figures"]
    assert clock["wall_ms"] > 0
    assert own["tool"] == "Nsight Systems' own tables"
    assert by_tracekit["tool"] == "tracekit, of Nsight Systems"
    assert (own["busy_ms"], own["copy_ms"]) == pytest.approx((by_tracekit["busy_ms"], by_tracekit["copy_ms"]))
    assert summary["small"] == [{"name": "jax-nsys.sqlite.gz", "bytes": summary["small"][0]["bytes"], "fits": True}]
    page = (out / "README.md").read_text()
    assert "NVIDIA-SMI has failed" in page
    assert "2.007" in page  # busy, of both
    with tarfile.open(tmp_path / "day.tar.gz") as tar:
        names = set(tar.getnames())
    assert {"day/README.md", "day/logs/nvidia-smi.txt", "day/reports/compare-jax-nsys/report.html"} <= names


def test_captures_alone_are_reported_elsewhere(tmp_path):
    out = tmp_path / "day"
    process = run_day(out, "--platform", "cpu", "--captures-only", "--only", "compare-jax", "small-copies")
    assert process.returncode == 0, process.stdout + process.stderr
    assert not (out / "reports").exists()
    command = [sys.executable, GPU_DAY / "gpu_day.py", "--report", out]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    summary = json.loads((out / "summary.json").read_text())
    names = {each["name"] for each in summary["outcomes"] if each["state"] == "ok"}
    assert names == {"devices", "compare-jax", "small-copies", "report compare-jax", "report small-copies"}
    assert summary["figures"][0]["tool"] == "tracekit capture, by JAX's profiler"
    process = subprocess.run([*command[:-1], tmp_path], capture_output=True, text=True)
    assert process.returncode == 1
    assert "is not the folder of a GPU day" in process.stderr


def test_without_a_gpu_it_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    process = run_day(tmp_path / "day", "--only", "devices")
    assert process.returncode == 1
    assert "jax sees only cpu devices" in process.stdout
    assert "pip install 'jax[cuda13]'" in process.stdout
    assert "without a GPU there was nothing to measure" in process.stdout
    assert "jax sees only cpu devices" in (tmp_path / "day" / "README.md").read_text()


def test_make_takes_the_python_that_is_named():
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    # What a make that runs these tests was given is not for this one.
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHON", "MAKEFLAGS", "MAKEOVERRIDES")}
    for words, python in ((["PYTHON=/opt/cuda/bin/python"], "/opt/cuda/bin/python"), ([], r"\.venv/bin/python")):
        command = ["make", "--dry-run", "gpu-day", *words]
        process = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
        assert re.search(rf"^{python} benchmarks/gpu_day/gpu_day.py", process.stdout, re.MULTILINE), process.stdout
        assert ("venv" in process.stdout) == (not words)
