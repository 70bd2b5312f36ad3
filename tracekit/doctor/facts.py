"""What is true of this machine and its Python, gathered and not judged."""

import json
import os
import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

# Versions that are always told.
PACKAGES = (
    "tracekit",
    "jax",
    "jaxlib",
    "tensorboard",
    "tensorboard-plugin-profile",
    "xprof",
    "numba",
    "numpy",
    "pandas",
    "pyarrow",
    "protobuf",
    "setuptools",
)
# And those that are told where they are installed: jax's plugins, and what device profiling loads.
_PLUGINS = re.compile(r"^(jax-(cuda|rocm)\d*-(plugin|pjrt)|jax-metal|libtpu|nvidia-cuda-cupti(-cu\d+)?|jax-rocm.*)$")
_VARIABLES = ("JAX_PLATFORMS", "LD_LIBRARY_PATH", "XLA_FLAGS", "CUDA_VISIBLE_DEVICES", "CUDA_INJECTION64_PATH")


@dataclass(frozen=True)
class Ran:
    """How a command ended: `code` is None if it was stopped at its time limit, negative after a signal."""

    code: int | None = None
    out: str = ""
    err: str = ""

    @property
    def last(self) -> str:
        """The last thing that it said on stderr."""
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

    `packages` are installed versions by name, `devices` is what a process said that asked jax for its devices (JSON),
    `capture` and `read` how the capture of a tiny program went and what `tracekit read --json` made of it, `viewer`
    a process that imported TensorBoard and its plugin; each is None where it was not tried. `cores` are all of the
    machine, those this process may use, and the limit of its cgroup. `traces` is the directory for traces, whether it
    can be written, and its free bytes.
    """

    python: str
    packages: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)
    nvidia: Nvidia = Nvidia()
    amd: int = 0
    tpu: int = 0
    may_administer: bool = False
    in_container: bool = False
    cores: tuple[int, int, float | None] = (1, 1, None)
    traces: tuple[str, bool, int] = ("traces", True, 1 << 40)
    profilers: tuple[str, ...] = ()
    devices: Ran | None = None
    viewer: Ran | None = None
    capture: Ran | None = None
    read: Ran | None = None
    perfetto_ui: str | None = None

    def seen(self) -> list[dict[str, str]]:
        """The devices that jax sees, each with platform and kind; empty if that is not known."""
        try:
            found = json.loads((self.devices or Ran()).out)["devices"]
        except (ValueError, KeyError, TypeError):
            return []
        return list(found)

    def platforms(self) -> set[str]:
        """The platforms that jax sees, as its devices name them."""
        return {device["platform"] for device in self.seen()}

    def rows(self) -> dict[str, int] | None:
        """Rows of each device in the tiny capture; None if it could not be read."""
        try:
            found = json.loads((self.read or Ran()).out)["devices"]
            return {device["device"]: sum(device["rows"].values()) for device in found}
        except (ValueError, KeyError, TypeError):
            return None

    def loaded(self) -> list[str]:
        """The profilers' libraries that were in the captured process."""
        return [line for line in (self.capture or Ran()).out.splitlines() if line.startswith("/")]


def packages() -> dict[str, str]:
    """The installed versions of what matters here, by name."""
    found: dict[str, str] = {}
    for one in metadata.distributions():
        name = re.sub(r"[-_.]+", "-", str(one.metadata["Name"] or "")).lower()
        if name in PACKAGES or _PLUGINS.match(name):
            found.setdefault(name, one.version)
    return found


def still(traces: Path, root: Path = Path("/")) -> Facts:
    """The facts that need no process: versions, hardware, permissions, cores and disk. `root` is where /proc stands."""
    return Facts(
        python=platform.python_version(),
        packages=packages(),
        variables={name: os.environ[name] for name in _VARIABLES if os.environ.get(name)},
        nvidia=nvidia(root),
        amd=_amd(root),
        tpu=len([*root.glob("dev/accel*")]),
        may_administer=may_administer(_text(root / "proc/self/status")),
        in_container=any((root / mark).exists() for mark in (".dockerenv", "run/.containerenv")),
        cores=(os.cpu_count() or 1, _affinity(), quota(root)),
        traces=_place(traces),
        profilers=_running(root),
    )


def nvidia(root: Path) -> Nvidia:
    """What /proc/driver/nvidia says."""
    place = root / "proc/driver/nvidia"
    version = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", _text(place / "version"))
    admin = re.search(r"^RmProfilingAdminOnly:\s*(\d)", _text(place / "params"), re.MULTILINE)
    gpus = len([*(place / "gpus").glob("*")]) or len([*root.glob("dev/nvidia[0-9]*")])
    return Nvidia(gpus, version[1] if version else None, admin[1] == "1" if admin else None)


def _amd(root: Path) -> int:
    """AMD's GPUs: the nodes of the compute driver that are no CPU, whose number is 0."""
    nodes = [_text(node).strip() for node in root.glob("sys/class/kfd/kfd/topology/nodes/*/gpu_id")]
    return sum(number not in ("", "0") for number in nodes)


def may_administer(status: str) -> bool:
    """Whether /proc/self/status grants CAP_SYS_ADMIN (bit 21) or CAP_PERFMON (bit 38)."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    bits = int(found[1], 16) if found else 0
    return bool(bits >> 21 & 1 or bits >> 38 & 1)


def quota(root: Path) -> float | None:
    """The cores that the cgroup allows, by its version 2 or 1; None without a limit."""
    second = _text(root / "sys/fs/cgroup/cpu.max").split()
    if len(second) == 2 and second[0].isdigit():
        return int(second[0]) / int(second[1])
    first = [_text(root / f"sys/fs/cgroup/cpu/cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    return int(first[0]) / int(first[1]) if all(one.isdigit() for one in first) and int(first[1]) else None


def _affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _place(traces: Path) -> tuple[str, bool, int]:
    """The directory that is there already, of `traces` or what it will be made in."""
    place = traces.absolute()
    while not place.exists():
        place = place.parent
    return str(traces), os.access(place, os.W_OK | os.X_OK) and place.is_dir(), shutil.disk_usage(place).free


def _running(root: Path) -> tuple[str, ...]:
    """Other profilers that run on this machine, as far as this process may see."""
    known = {"nsys", "ncu", "nv-hostengine", "dcgm-exporter", "rocprof", "rocprofv3"}
    return tuple(sorted({_text(one).strip() for one in root.glob("proc/[0-9]*/comm")} & known))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
