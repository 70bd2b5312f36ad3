"""How many cores this process may use, and how often its cgroups withheld them."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

# Other work matters from the tenth of the cores that it leaves too few: what a quiet machine does besides is less.
_MATTERS = 0.1


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
    return len(allowed())


def allowed() -> set[int]:
    """The numbers of the cores that this process may run on, or where that is not known of all there are."""
    return set(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))


def quota(root: Path = Path("/")) -> float | None:
    """The cores that the cgroups allow, of version 2 or 1: the least of this process's own and of those around it.

    None without a limit.
    """
    return min((cores for cores in _quotas(root) if cores > 0), default=None)


def throttling(root: Path = Path("/")) -> tuple[int, float] | None:
    """In how many periods the cgroups have withheld cores from this process so far, and for how many seconds.

    Over its own cgroup and those around it, of version 2 or 1, whichever set the quota. None where none counts it.
    """
    counted = [
        (int(figures["nr_throttled"]), int(figures[name]) / a_second)
        for folder in (*_second(root), *_first(root))
        for figures in [dict(line.split()[:2] for line in text(folder / "cpu.stat").splitlines() if " " in line)]
        for name, a_second in (("throttled_usec", 10**6), ("throttled_time", 10**9))
        if name in figures and "nr_throttled" in figures
    ]
    return (sum(periods for periods, _ in counted), sum(length for _, length in counted)) if counted else None


def times(root: Path = Path("/")) -> tuple[float | None, float | None, float | None]:
    """For how many seconds so far the cores that this process may run on ran anything, for how many a hypervisor let
    them wait, and all of them; None where the system does not tell."""
    # proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal; guests are in user and nice already.
    usable_cores = allowed()
    ticks: list[list[int]] = []
    for line in text(root / "proc/stat").splitlines():
        name, *figures = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in usable_cores:
            ticks.append([*map(int, figures[:8]), *([0] * (8 - len(figures)))])
    if not ticks:
        return None, None, None
    a_second = os.sysconf("SC_CLK_TCK")
    user, nice, system, idle, wait, irq, soft, steal = (sum(column) / a_second for column in zip(*ticks, strict=True))
    busy = user + nice + system + irq + soft
    return busy, steal, busy + steal + idle + wait


def are_too_few(cores: float, taken: float, needed: float) -> bool:
    """Whether other work that has taken so many of the cores left fewer than were needed, by a tenth or more."""
    return needed - (cores - taken) > _MATTERS * needed


def _quotas(root: Path) -> Iterator[float]:
    """The quota of each cgroup in cores, at most 0 without a limit."""
    for folder in _second(root):
        yield _ratio(*text(folder / "cpu.max").split()[:2])
    for folder in _first(root):
        yield _ratio(*(text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")))


def _second(root: Path) -> Iterator[Path]:
    """The folders of this process's cgroups of version 2, its own first."""
    return _upwards(root / "sys/fs/cgroup", _paths(root).get("", ""))


def _first(root: Path) -> Iterator[Path]:
    """Those of version 1 that control the CPU."""
    own = next((path for names, path in _paths(root).items() if "cpu" in names.split(",")), "")
    return _upwards(root / "sys/fs/cgroup/cpu", own)


def _paths(root: Path) -> dict[str, str]:
    """The path of this process's cgroup by the names of its controllers, "" for version 2."""
    lines = text(root / "proc/self/cgroup").splitlines()
    return dict(line.split(":", 2)[1:] for line in lines if line.count(":") > 1)


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


def text(path: Path) -> str:
    """The text of a file of the system, empty where there is none to read."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
