"""What is true of this machine and its Python, gathered and not judged.

Some of it only a process can tell, each with a time limit: a broken driver may hang or crash whoever asks it.
"""

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path

from tracekit import cores
from tracekit.errors import ViewError
from tracekit.view import perfetto_ui

# Versions that are always shown.
PACKAGES = (
    "tracekit-jax",
    "jax",
    "jaxlib",
    "tensorboard",
    "tensorboard-plugin-profile",
    "xprof",
    "numba",
    "numpy",
    "pandas",
    "pyarrow",
    "msgspec",
    "fsspec",
    "protobuf",
    "setuptools",
)
# And those that are shown where they are installed: jax's plugins, and what device profiling loads.
_PLUGINS = re.compile(r"^(jax-(cuda|rocm)\d*-(plugin|pjrt)|jax-metal|libtpu|nvidia-cuda-cupti(-cu\d+)?|jax-rocm.*)$")
# The distribution of that name on the package index is another project, an oscilloscope tool.
_NAMESAKE = "tracekit"
_VARIABLES = ("JAX_PLATFORMS", "LD_LIBRARY_PATH", "XLA_FLAGS", "CUDA_VISIBLE_DEVICES", "CUDA_INJECTION64_PATH")
LIMIT_S = 90.0
_DEVICES = """
import json, jax
print(json.dumps({"devices": [{"platform": d.platform, "kind": d.device_kind} for d in jax.local_devices()]}))
"""
# Imported as `tracekit view` does it.
_VIEWER = """
from tensorboard import program
from tensorboard_plugin_profile import profile_plugin
"""
_PROGRAM = Path(__file__).with_name("probe_program.py")


@dataclass(frozen=True)
class Outcome:
    """How a command ended: `code` is None if it was stopped at its time limit, negative after a signal."""

    code: int | None = None
    out: str = ""
    err: str = ""

    @property
    def last_line(self) -> str:
        """The last line of its stderr that is not empty."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        return lines[-1] if lines else ""


@dataclass(frozen=True)
class Nvidia:
    """NVIDIA GPUs as the driver shows them: how many, the driver's version, and whether it lets only administrators
    read counters; None where it does not say."""

    gpus: int = 0
    driver: str | None = None
    admin_only: bool | None = None


@dataclass(frozen=True)
class Facts:
    """Everything that the checks look at.

    `packages` are installed versions by name, `namesake` is the version and summary of another distribution called
    tracekit, `devices` is what a process printed that asked jax for its devices (JSON), `capture` and `read` how the
    capture of a small program went and what `tracekit read --json` made of it, `viewer` a process that imported
    TensorBoard and its plugin; `namesake` and `capture` are None where there is none. `cores` are all of the machine,
    those this process may use, and the limit of its cgroup. `traces` is the directory for traces, whether it can be
    written, and its free bytes.
    """

    python: str
    packages: Mapping[str, str]
    namesake: tuple[str, str] | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    nvidia: Nvidia = Nvidia()
    amd: int = 0
    tpu: int = 0
    may_administer: bool = False
    in_container: bool = False
    cores: tuple[int, int, float | None] = (1, 1, None)
    traces: tuple[str, bool, int] = ("traces", True, 1 << 40)
    profilers: tuple[str, ...] = ()
    devices: Outcome = Outcome()
    viewer: Outcome = Outcome()
    capture: Outcome | None = None
    read: Outcome = Outcome()
    perfetto_ui: str | None = None

    def jax_devices(self) -> list[dict[str, str]]:
        """The devices that jax sees, each with platform and kind; empty if that is not known."""
        try:
            devices = json.loads(self.devices.out)["devices"]
        except (ValueError, KeyError, TypeError):
            return []
        return list(devices)

    def platforms(self) -> set[str]:
        """The platforms that jax sees, as its devices name them."""
        return {device["platform"] for device in self.jax_devices()}

    def rows(self) -> dict[str, int]:
        """Rows of each device in the capture; empty if it could not be read."""
        try:
            devices = json.loads(self.read.out)["devices"]
            return {device["device"]: sum(device["rows"].values()) for device in devices}
        except (ValueError, KeyError, TypeError):
            return {}

    def profiler_libraries(self) -> list[str]:
        """The profilers' libraries that were in the captured process."""
        return [line for line in (self.capture or Outcome()).out.splitlines() if line.startswith("/")]


def gather(traces: Path = Path("traces"), root: Path = Path("/")) -> Facts:
    """The facts that need no process: versions, hardware, permissions, cores and disk. `root` is where /proc stands."""
    return Facts(
        python=platform.python_version(),
        packages=package_versions(),
        namesake=namesake(),
        variables={name: os.environ[name] for name in _VARIABLES if os.environ.get(name)},
        nvidia=nvidia(root),
        amd=_amd_gpus(root),
        tpu=len([*root.glob("dev/accel*")]),
        may_administer=may_administer(cores.text(root / "proc/self/status")),
        in_container=any((root / mark).exists() for mark in (".dockerenv", "run/.containerenv")),
        cores=(os.cpu_count() or 1, cores.affinity(), cores.quota(root)),
        traces=_trace_directory(traces),
        profilers=_running_profilers(root),
        perfetto_ui=_perfetto_ui(),
    )


def probe(facts: Facts) -> Facts:
    """`facts` with what the processes say: jax's devices, the viewer, the capture of a small program and its rows."""
    devices = run([sys.executable, "-P", "-c", _DEVICES])
    viewer = run([sys.executable, "-P", "-c", _VIEWER])
    facts = replace(facts, devices=devices, viewer=viewer)
    if devices.code != 0:
        return facts
    with tempfile.TemporaryDirectory(prefix="tracekit-doctor-", ignore_cleanup_errors=True) as directory:
        trace = str(Path(directory) / "trace")
        tracekit = [sys.executable, "-m", "tracekit"]
        capture = run([*tracekit, "capture", "--out", trace, str(_PROGRAM)])
        if capture.code != 0:
            return replace(facts, capture=capture)
        return replace(facts, capture=capture, read=run([*tracekit, "read", "--json", trace]))


def run(command: Sequence[str], limit_s: float = LIMIT_S) -> Outcome:
    """Run a command to its end, or to its time limit; what it started ends with it, and is not waited for."""
    # Not pipes: a grandchild that keeps one open would be waited for.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=_environment(), start_new_session=True
        )
        code: int | None = None
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(limit_s)
        if code is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):  # a process inside a hung driver cannot even be killed
                process.wait(2)
        output = []
        for file in (out, err):
            file.seek(0)
            output.append(file.read().decode("utf-8", "replace"))
    return Outcome(code, *output)


def _environment() -> dict[str, str]:
    """This process's environment, where this very tracekit is found, and no more of a GPU's memory is taken than used
    (https://docs.jax.dev/en/latest/gpu_memory_allocation.html)."""
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), package])
    return os.environ | {"PYTHONPATH": path, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def package_versions() -> dict[str, str]:
    """The installed versions of what matters here, by name."""
    versions: dict[str, str] = {}
    for distribution in metadata.distributions():
        name = _name(distribution)
        if name in PACKAGES or _PLUGINS.match(name):
            versions.setdefault(name, distribution.version)
    return versions


def namesake() -> tuple[str, str] | None:
    """Version and summary of an installed distribution called tracekit, which is not this one; None without it."""
    for distribution in metadata.distributions():
        if _name(distribution) == _NAMESAKE:
            return distribution.version, _tag(distribution, "Summary")
    return None


def _name(distribution: metadata.Distribution) -> str:
    """Its name as an index compares names."""
    return re.sub(r"[-_.]+", "-", _tag(distribution, "Name")).lower()


def _tag(distribution: metadata.Distribution, name: str) -> str:
    """A line of its metadata; empty where that is broken."""
    return next(iter(distribution.metadata.get_all(name) or ()), "")


def nvidia(root: Path) -> Nvidia:
    """What /proc/driver/nvidia says."""
    place = root / "proc/driver/nvidia"
    version = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", cores.text(place / "version"))
    admin = re.search(r"^RmProfilingAdminOnly:\s*(\d)", cores.text(place / "params"), re.MULTILINE)
    gpus = len([*(place / "gpus").glob("*")]) or len([*root.glob("dev/nvidia[0-9]*")])
    return Nvidia(gpus, version[1] if version else None, admin[1] == "1" if admin else None)


def _amd_gpus(root: Path) -> int:
    """AMD's GPUs: the nodes of the compute driver that are no CPU, whose number is 0."""
    nodes = [cores.text(node).strip() for node in root.glob("sys/class/kfd/kfd/topology/nodes/*/gpu_id")]
    return sum(number not in ("", "0") for number in nodes)


def may_administer(status: str) -> bool:
    """Whether /proc/self/status grants CAP_SYS_ADMIN (bit 21) or CAP_PERFMON (bit 38)."""
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    bits = int(match[1], 16) if match else 0
    return bool(bits >> 21 & 1 or bits >> 38 & 1)


def _trace_directory(traces: Path) -> tuple[str, bool, int]:
    """`traces`, and of it or of what it will be made in: whether it can be written, and the free bytes."""
    place = traces.absolute()
    while not place.exists():
        place = place.parent
    return str(traces), os.access(place, os.W_OK | os.X_OK) and place.is_dir(), shutil.disk_usage(place).free


def _running_profilers(root: Path) -> tuple[str, ...]:
    """Other profilers that run on this machine, as far as this process may see."""
    profilers = {"nsys", "ncu", "nv-hostengine", "dcgm-exporter", "rocprof", "rocprofv3"}
    return tuple(sorted({cores.text(comm).strip() for comm in root.glob("proc/[0-9]*/comm")} & profilers))


def _perfetto_ui() -> str | None:
    """Where `tracekit view --perfetto` finds its UI."""
    try:
        return str(perfetto_ui.find(None, os.environ))
    except ViewError:
        return None
