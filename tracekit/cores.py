"""How many cores this process may use."""

import math
import os
from collections.abc import Iterator
from pathlib import Path


def usable(root: Path = Path("/")) -> float:
    """How many cores this process may use: its CPU affinity, or less where a cgroup sets a quota.

    `root` is where /proc and /sys stand.
    """
    allowed = quota(root)
    cores = affinity() if allowed is None else min(affinity(), allowed)
    return int(cores) if cores == int(cores) else cores


def threads(most: int) -> int:
    """How many threads to compute on: one for each core that this process may use, up to `most`."""
    return min(most, math.ceil(usable()))


def affinity() -> int:
    """How many cores this process may run on, or where that is not known how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quota(root: Path = Path("/")) -> float | None:
    """The cores that the cgroups allow, of version 2 or 1: the least of this process's own and of those around it.

    None without a limit.
    """
    return min((cores for cores in _quotas(root) if cores > 0), default=None)


def _quotas(root: Path) -> Iterator[float]:
    """The quota of each cgroup in cores, at most 0 without a limit."""
    own = dict(line.split(":", 2)[1:] for line in _text(root / "proc/self/cgroup").splitlines() if line.count(":") > 1)
    top = root / "sys/fs/cgroup"
    for folder in _upwards(top, own.get("", "")):
        yield _ratio(*_text(folder / "cpu.max").split()[:2])
    first = next((path for names, path in own.items() if "cpu" in names.split(",")), "")
    for folder in _upwards(top / "cpu", first):
        yield _ratio(*(_text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")))


def _upwards(top: Path, path: str) -> Iterator[Path]:
    """The folder `path` in `top`, then those around it up to `top`; a container may see none but `top`."""
    folder = top / path.lstrip("/")
    while folder != top and top in folder.parents:
        yield folder
        folder = folder.parent
    yield top


def _ratio(quota: str = "", period: str = "") -> float:
    """Of microseconds as text; "max" and -1 are no limit, nor is what is not there."""
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else 0


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
