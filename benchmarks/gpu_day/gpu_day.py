"""Everything that tracekit wants to know of a machine with GPUs, in ten minutes and one folder: `make gpu-day`.

Doctor and nvidia-smi, every workload captured and reported, the same program under every profiler that is installed,
and small traces for tests. Each part has a time limit and a log, and what fails is told beside what did not. Captures
come first, since only they need the GPU; reports follow. Nothing is downloaded, and nothing leaves this machine: the
folder and its tar archive are yours to send.

    python benchmarks/gpu_day/gpu_day.py
    python benchmarks/gpu_day/gpu_day.py --platform cpu       (a rehearsal without a GPU, in small sizes)
    python benchmarks/gpu_day/gpu_day.py --captures-only      (where a GPU is paid by the minute)
    python benchmarks/gpu_day/gpu_day.py --report FOLDER      (and at home the reports of such a day)

It runs in the Python that starts it, which must have jax with CUDA; tracekit is taken from this clone. Where no GPU is
seen it says what is missing, and exits with 1.
"""

import argparse
import importlib.util
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from comparison import compare, table
from parts import Outcome, Part, Parts
from results import Day, Layout, keep_small, reports_of, write

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).with_name("programs.py")
NO_TORCH = "torch is not installed in this Python"
REPORTING_S = 110.0  # of the time, kept for reports
ROOMY_BYTES = 24 << 30  # a GPU with less gets the workloads' smaller sizes
LIBRARIES = ("jax", "numpy", "pandas", "pyarrow", "numba", "msgspec", "matplotlib", "rich", "typer")


@dataclass(frozen=True)
class Workload:
    """Arguments of a workload: in a rehearsal on CPU, on a GPU, and on a GPU with little memory."""

    cpu: str
    gpu: str = ""
    tight: str | None = None

    def arguments(self, machine: "Machine") -> list[str]:
        """The arguments that suit this machine."""
        if machine.platform == "cpu":
            return self.cpu.split()
        return (self.gpu if machine.roomy or self.tight is None else self.tight).split()


# All of workloads/, those first whose trace says most of a machine.
WORKLOADS = {
    "concurrent": Workload("--size 128 --products 200"),
    "copy_overlap": Workload("--size 200 --products 4"),
    "gradient_overlap": Workload("--rows 32 --width 16 --blocks 2 --steps 1", "", "--rows 2048 --width 1024"),
    "strategies": Workload("--rows 64 --width 32 --blocks 2", "", "--rows 2048 --width 1024"),
    "collectives": Workload("--sizes 4096", "", "--sizes 4096 65536 1048576 16777216"),
    "training": Workload("--steps 1"),
    "independent_ops": Workload("--size 32 --wide 64 --products 8"),
    "small_ops": Workload("--length 16 --operations 20 --lengths 16"),
    "scheduling": Workload("--size 64 --products 50"),
    # Half the sizes: one of its phases computes everything on the CPU.
    "heterogeneous": Workload("--rows 128 --size 128", "--rows 4096 --size 4096"),
    "autoparallel": Workload("--steps 2 --batch 256"),
    "multiprocess": Workload("--size 32 --products 10"),
}
# All of workloads/torch.
TORCH_WORKLOADS = {
    "torch_concurrent": Workload("--size 32 --products 20"),
    "torch_copy_overlap": Workload("--size 200 --products 4"),
    "torch_small_ops": Workload("--length 16 --operations 20 --lengths 16"),
    "torch_training": Workload("--steps 1"),
}


@dataclass(frozen=True)
class Machine:
    """What this Python has at hand: the platform of jax's devices and their number, memory, and the tools beside it."""

    platform: str
    count: int
    roomy: bool
    nsys: bool
    torch: bool


def python(*words: Any) -> list[str]:
    """A command for this Python."""
    return [sys.executable, *map(str, words)]


def capture(layout: Layout, name: str, *script: Any, limit_s: float = 75, **more: Any) -> Part:
    """A capture into traces/NAME; `script` may begin with options of `tracekit capture`."""
    return Part(name, python("-m", "tracekit", "capture", "--out", layout.trace(name), *script), limit_s, **more)


def first_parts(layout: Layout) -> list[Part]:
    """What tells whether there is anything to do."""
    return [
        Part("nvidia-smi", ["nvidia-smi"], 20, missing=_absent("nvidia-smi")),
        Part("nvidia-smi topo", ["nvidia-smi", "topo", "-m"], 20, missing=_absent("nvidia-smi")),
        Part("devices", python(PROGRAMS, "devices", "--json", layout.devices), 90),
        # Its probes, in sessions of their own, have limits of 90 s each: it is left to end by itself.
        Part("doctor", python("-m", "tracekit", "doctor"), 200),
    ]


def _absent(program: str) -> str:
    return "" if shutil.which(program) else f"{program} is not on PATH"


def small_parts(layout: Layout, machine: Machine) -> list[Part]:
    """Captures for tests/data. XLA runs graphs kernel by kernel while it is profiled, unless a flag forbids that."""
    flags = {
        "steps": "",
        "steps-graphs": "--xla_enable_command_buffers_during_profiling=true",
        "steps-no-graphs": "--xla_gpu_enable_command_buffer=",
    }
    own = os.environ.get("XLA_FLAGS", "")
    alone = "" if machine.count > 1 else "it takes two devices, and there is one"
    return [
        *(
            capture(
                layout,
                f"small-{name}",
                PROGRAMS,
                "steps",
                *_size(machine, 512, 5),
                env={"XLA_FLAGS": f"{own} {flag}".strip()},
            )
            for name, flag in flags.items()
        ),
        capture(layout, "small-copies", PROGRAMS, "copies", "--profiler", "tracekit", *_size(machine, 1024, 5)),
        capture(layout, "small-all-reduce", PROGRAMS, "all-reduce", *_size(machine, 512, 5), missing=alone),
    ]


def _size(machine: Machine, size: int, rounds: int) -> list[str]:
    if machine.platform == "cpu":
        size, rounds = 64, 2
    return ["--size", str(size), "--rounds", str(rounds)]


def compare_parts(layout: Layout, machine: Machine) -> list[Part]:
    """The same program without a profiler, and under each that is here; in JAX, then in PyTorch."""
    size = _size(machine, 4096, 20)
    cpu = machine.platform == "cpu"
    no_nsys = "" if machine.nsys else "nsys is not on PATH (it comes with the CUDA toolkit, or as nsight-systems-cli)"
    no_torch = "" if machine.torch else NO_TORCH
    if machine.torch and cpu:
        no_torch = "PyTorch's program is for GPUs only"
    parts = []
    for framework, missing in (("jax", ""), ("torch", no_torch)):
        program = [PROGRAMS, "copies", "--framework", framework, *size]
        report, export = (layout.compare(f"{framework}-nsys.{end}") for end in ("nsys-rep", "sqlite"))
        kineto = layout.compare(f"{framework}-torch.pt.trace.json")
        name = f"compare {framework}"
        parts.append(Part(name, python(*program, "--json", layout.compare(f"{framework}.json")), 60, missing=missing))
        captured = ["--framework", framework, *program, "--profiler", "tracekit"]
        parts.append(capture(layout, f"compare-{framework}", *captured, limit_s=60, missing=missing))
        captured = ["--profiler", "nsys", *program, "--profiler", "tracekit"]
        parts.append(capture(layout, f"compare-{framework}-by-nsys", *captured, limit_s=90, missing=missing or no_nsys))
        # On CPU there is no CUDA whose profiler could be started.
        region = [] if cpu else ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
        nsys = ["nsys", "profile", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--cuda-graph-trace=node"]
        run = python(*program, "--profiler", "none" if cpu else "nsys")
        nsys += [*region, "--force-overwrite=true", "-o", str(report.with_suffix("")), *run]
        exporting = ["nsys", "export", "--type=sqlite", "--include-blobs=true", "--force-overwrite=true"]
        parts += [
            Part(f"{name} nsys", nsys, 90, missing=missing or no_nsys),
            Part(
                f"{name} nsys export",
                [*exporting, "-o", str(export), str(report)],
                40,
                missing=missing or no_nsys,
                needs=report,
            ),
            Part(
                f"{name} torch.profiler", python(*program, "--profiler", "torch", "--out", kineto), 60, missing=no_torch
            ),
        ]
    return parts


def workload_parts(layout: Layout, machine: Machine) -> list[Part]:
    """A capture of every workload."""
    parts = []
    for name, workload in WORKLOADS.items():
        options, missing = [], ""
        if name == "multiprocess":
            options = ["--processes", "2"]
            if machine.platform != "cpu" and machine.count < 2:
                missing = "NCCL takes one process a GPU, and there is one GPU"
        script = ROOT / "workloads" / f"{name}.py"
        parts.append(capture(layout, name, *options, script, *workload.arguments(machine), missing=missing))
    missing = "" if machine.torch else NO_TORCH
    for name, workload in TORCH_WORKLOADS.items():
        script = ROOT / "workloads" / "torch" / f"{name}.py"
        parts.append(capture(layout, name, script, *workload.arguments(machine), missing=missing))
    return parts


def report_parts(layout: Layout) -> list[Part]:
    """A report of everything that was captured, on CPU."""
    traces: dict[str, tuple[Path, list[str]]] = {
        path.name: (path, []) for path in sorted((layout.root / "traces").glob("*"))
    }
    for name in traces:
        if name.startswith("compare-"):  # the other tools recorded that phase alone
            traces[name] = traces[name][0], ["--phase", "both"]
    for path in (*layout.compare("").glob("*.sqlite"), *layout.compare("").glob("*.pt.trace.json")):
        traces[f"compare-{path.name.partition('.')[0]}"] = path, []
    order = sorted(traces, key=lambda name: (not name.startswith("compare"), name.startswith("small"), name))
    command = "-m", "tracekit", "report", "--out"
    return [
        Part(
            f"report {name}",
            python(*command, layout.root / "reports" / name, *options, path),
            60,
            {"JAX_PLATFORMS": "cpu"},
        )
        for name in order
        for path, options in [traces[name]]
    ]


def machine_of(devices: Path) -> Machine | None:
    """What the part "devices" found; None if it found nothing."""
    if not devices.exists():
        return None
    found = json.loads(devices.read_text("utf-8"))
    memory = min((size for size in found["memory_bytes"] if size), default=ROOMY_BYTES)
    torch = importlib.util.find_spec("torch") is not None
    # Of a GPU's memory jax takes three quarters, https://docs.jax.dev/en/latest/gpu_memory_allocation.html
    roomy = memory >= ROOMY_BYTES * 3 // 4
    return Machine(found["platform"], len(found["kinds"]), roomy, shutil.which("nsys") is not None, torch)


def lacking(machine: Machine | None, wanted: str) -> list[str]:
    """Sentences on what is missing here, the remedy in each."""
    sentences = []
    if absent := [name for name in LIBRARIES if importlib.util.find_spec(name) is None]:
        sentences.append(
            f"This Python ({sys.executable}) has no {', '.join(absent)}: {sys.executable} -m pip install -e {ROOT}"
        )
    if wanted == "cpu" or (machine and machine.platform != "cpu"):
        return sentences
    if not shutil.which("nvidia-smi"):
        sentences.append(
            "nvidia-smi is not on PATH: there is no NVIDIA driver, or the container was started without its GPUs."
        )
    if "jax" not in absent:
        sees = f"jax sees only {machine.platform} devices" if machine else "jax did not say what devices it sees"
        sentences.append(
            f"{sees} in {sys.executable} (logs/devices.txt, logs/doctor.txt). Install jax with CUDA there: "
            f"{sys.executable} -m pip install 'jax[cuda13]' (driver 580 or newer; else 'jax[cuda12]'). "
            "Or name a Python that has it: make gpu-day PYTHON=/path/to/python"
        )
    return sentences


def run(layout: Layout, parts: Parts, wanted: str, only: list[str], reserve_s: float) -> Machine | None:
    """Run the day: first what tells whether there is a GPU, then captures until the reserve, then (if any) reports."""

    def chosen(candidates: Iterable[Part]) -> list[Part]:
        return [part for part in candidates if not only or any(part.name.startswith(name) for name in only)]

    first = first_parts(layout)
    parts.run_all([part for part in first if part.name == "devices" or part in chosen(first)])
    machine = machine_of(layout.devices)
    if machine is None or (machine.platform == "cpu" and wanted == "gpu"):
        return machine
    layout.compare("").mkdir()
    end, parts.deadline = parts.deadline, parts.deadline - reserve_s
    parts.run_all(
        chosen([*small_parts(layout, machine), *compare_parts(layout, machine), *workload_parts(layout, machine)])
    )
    parts.deadline = end
    if reserve_s:
        report(layout, parts)
    return machine


def report(layout: Layout, parts: Parts) -> None:
    """A report of every trace, some side by side."""
    parts.run_all(report_parts(layout), workers=max(1, min(8, (os.cpu_count() or 1) // 2)))


def main() -> int:
    """Run the day and write its folder; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder of the results [reports/gpu-day-<time>]")
    parser.add_argument(
        "--platform", choices=["gpu", "cpu"], default="gpu", help="cpu: a rehearsal in small sizes [gpu]"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="PART", help="only parts whose names begin so")
    parser.add_argument("--minutes", type=float, default=10.0, help="for everything [10]")
    parser.add_argument("--captures-only", action="store_true", help="no reports: --report makes them elsewhere")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="the reports of such a day, into its folder")
    options = parser.parse_args()
    if options.report:
        return report_later(options.report.absolute(), options.minutes * 60)
    started = datetime.now().astimezone()
    layout = Layout((options.out or ROOT / "reports" / f"gpu-day-{started:%Y-%m-%d-%H%M%S}").absolute())
    layout.root.mkdir(parents=True)
    env = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # or the first process takes three quarters of the memory
        "JAX_HLO_SOURCE_FILE_CANONICALIZATION_REGEX": ".*/",  # file names without this machine's directories
        **({"JAX_PLATFORMS": "cpu"} if options.platform == "cpu" else {}),
    }
    seconds = options.minutes * 60
    parts = Parts(layout.root / "logs", time.monotonic() + seconds, env)
    notes = []
    try:
        reserve_s = 0.0 if options.captures_only else min(REPORTING_S, seconds / 4)
        machine = run(layout, parts, options.platform, options.only, reserve_s)
    except KeyboardInterrupt:
        machine = machine_of(layout.devices)
        notes.append("The day was interrupted.")
    devices = json.loads(layout.devices.read_text("utf-8")) if layout.devices.exists() else {}
    facts = {
        "started": started.isoformat(timespec="seconds"),
        "python": f"{platform.python_version()} on {platform.platform()}",
        "jax": devices.get("jax"),
        "devices": ", ".join(devices.get("kinds", [])) or None,
    }
    measured = machine is not None and (machine.platform != "cpu" or options.platform == "cpu")
    tell(layout, facts, [*notes, *lacking(machine, options.platform)], parts.outcomes, measured)
    return 0 if measured else 1


def report_later(root: Path, seconds: float) -> int:
    """Report what a day has captured, on this machine; the exit code."""
    layout = Layout(root)
    try:
        day = json.loads((root / "summary.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"{root} is not the folder of a GPU day: {error}") from error
    parts = Parts(root / "logs", time.monotonic() + seconds, {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"})
    parts.outcomes += [Outcome(**each) for each in day["outcomes"] if not each["name"].startswith("report ")]
    report(layout, parts)
    tell(layout, day["facts"], day["lacking"], parts.outcomes, True)
    return 0


def tell(layout: Layout, facts: dict[str, Any], missing: list[str], outcomes: list[Outcome], measured: bool) -> None:
    """Compare, write the folder's files and its archive, and print what was found."""
    figures, problems = compare(layout.root)
    # A day that is reported later has said some of them before.
    sentences = [*dict.fromkeys([*missing, *problems])]
    day = Day(facts, sentences, outcomes, figures, keep_small(layout), reports_of(layout))
    archive = write(layout, day)
    print()
    for sentence in day.lacking:
        print(sentence)
    if figures:
        print("\n".join(table(figures)))
    failed = [each.name for each in outcomes if each.state in ("failed", "stopped")]
    if failed:
        print(f"{len(failed)} of {len(outcomes)} parts failed or were stopped: {', '.join(failed)}.")
    end = "send this file home" if measured else "without a GPU there was nothing to measure"
    print(f"Wrote {layout.root}/README.md\nWrote {archive} ({archive.stat().st_size / 1e6:.1f} MB): {end}.")


if __name__ == "__main__":
    sys.exit(main())
