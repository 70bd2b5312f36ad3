"""What else the machine did during a capture: a speedup that was measured on busy cores is that of the machine."""

import os
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit import cores

# A sample costs 2 ms where 85 processes run, more where more do: the pause after it keeps it below 1 % of a core.
PERIOD_S = 0.25
_PAUSES = 100
# When there are as many samples, every other one goes, and the next are half as frequent: an hour has 300.
_MOST_SAMPLES = 512
# The frequency of so many cores says enough; each is a file of its own.
_MOST_FREQUENCIES = 16


@dataclass
class MachineLoad:
    """Samples of the machine's load from `start` to `stop`, for capture.json; `root` is where /proc and /sys stand.

    The process `family` and its descendants are what is captured, and other processes that have all variables of the
    `job`, with theirs.
    """

    root: Path = Path("/")
    family: int = field(default_factory=os.getpid)
    job: frozenset[str] = frozenset()
    samples: list[dict[str, Any]] = field(default_factory=list)
    _every: int = 1
    _done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _throttled: tuple[int, float] | None = None

    def start(self) -> None:
        """Take a sample, and go on in a thread of its own."""
        self._throttled = cores.throttling(self.root)
        self.samples.append(sample(self.root, self.family, self.job))
        self._thread = threading.Thread(target=self._go_on, name="tracekit load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take the last sample."""
        if self._thread is None or self._done.is_set():
            return
        self._done.set()
        self._thread.join()
        self.samples.append(sample(self.root, self.family, self.job))

    def facts(self) -> dict[str, Any]:
        """What was measured, or in `lacking` why not; CPU times in seconds since the first sample."""
        after = cores.throttling(self.root)
        lacking = {}
        first = self.samples[0]
        names = ["own_cpu_s", "other_cpu_s", "stolen_cpu_s"]
        series: dict[str, Any] = {"unix_ns": [each["unix_ns"] for each in self.samples]}
        if all(each["busy_s"] is not None for each in self.samples) and self.samples[-1]["total_s"] > first["total_s"]:
            own = [each["own_s"] - first["own_s"] for each in self.samples]
            busy = [each["busy_s"] - first["busy_s"] for each in self.samples]
            stolen = [each["stolen_s"] - first["stolen_s"] for each in self.samples]
            # Ticks of 10 ms are counted apart for processes and cores, so that a difference may be below 0.
            other = [max(0.0, all_of - mine) for all_of, mine in zip(busy, own, strict=True)]
            for name, values in zip(names, (own, other, stolen), strict=True):
                series[name] = [round(value, 2) for value in values]
        else:
            lacking["cpu"] = "this system has no /proc/stat that counts the time of each core"
            series |= dict.fromkeys(names)
        if all(each["mhz"] for each in self.samples):
            series["frequency_mhz"] = [round(each["mhz"], 1) for each in self.samples]
        else:
            series["frequency_mhz"] = None
            lacking["frequency"] = "neither /sys nor /proc/cpuinfo tells the frequency of the cores"
        throttled = None
        if after is None or self._throttled is None:
            lacking["throttling"] = "no cgroup with a CPU controller was found"
        else:
            before, throttled_s = self._throttled
            throttled = {"periods": after[0] - before, "throttled_s": round(after[1] - throttled_s, 6)}
        return {
            "cores": len(cores.allowed()),
            "load_average": [each["load"] for each in (first, self.samples[-1])],
            "throttled": throttled,
            "samples": series,
            "lacking": lacking,
        }

    def _go_on(self) -> None:
        pause = PERIOD_S
        while not self._done.wait(pause * self._every):
            before = time.perf_counter()
            with suppress(OSError, ValueError, IndexError):
                self.samples.append(sample(self.root, self.family, self.job))
            if len(self.samples) >= _MOST_SAMPLES:
                self.samples[:] = self.samples[::2]
                self._every *= 2
            pause = max(PERIOD_S, _PAUSES * (time.perf_counter() - before))


def sample(root: Path = Path("/"), family: int | None = None, job: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The CPU time in seconds so far, of the process `family` (this one) and the others of the `job` with their
    descendants, and of the cores that this process may use; the mean frequency of these in MHz, and the load average of
    the last minute. None where the system does not tell it."""
    busy_s, stolen_s, total_s = cores.times(root)
    return {
        "unix_ns": time.time_ns(),
        "own_s": _own(root, os.getpid() if family is None else family, job),
        "busy_s": busy_s,
        "stolen_s": stolen_s,
        "total_s": total_s,
        "mhz": _frequency(root),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _own(root: Path, family: int, job: frozenset[str]) -> float:
    """The CPU time of a process, of all that have the variables of the `job`, and of the descendants of both, those
    that they have waited for included."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    with suppress(OSError):
        for name in filter(str.isdigit, os.listdir(root / "proc")):
            # The name may hold blanks and brackets; then come the state, the parent, and from the 12th on the times.
            fields = cores.text(root / "proc" / name / "stat").rpartition(")")[2].split()
            if len(fields) > 14:
                children.setdefault(int(fields[1]), []).append(int(name))
                used[int(name)] = sum(map(int, fields[11:15]))
    ticks, pids = 0, [family, *(pid for pid in used if job and _is_of(job, root, pid))]
    while pids:
        pid = pids.pop()
        ticks += used.pop(pid, 0)
        pids += children.pop(pid, [])
    return ticks / os.sysconf("SC_CLK_TCK")


def _is_of(job: frozenset[str], root: Path, pid: int) -> bool:
    """Whether a process has all variables of a job; those of other users cannot be read."""
    return job.issubset(cores.text(root / f"proc/{pid}/environ").split("\0"))


def _frequency(root: Path) -> float | None:
    """The mean frequency of the usable cores in MHz; in a virtual machine mostly what the hypervisor calls nominal."""
    some = sorted(cores.allowed())[:_MOST_FREQUENCIES]
    texts = [cores.text(root / f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq").strip() for core in some]
    found = [int(text) / 1000 for text in texts if text.isdigit()]
    if not found:
        listed = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", cores.text(root / "proc/cpuinfo"), re.MULTILINE)
        found = [float(text) for text in listed]
    return sum(found) / len(found) if found else None
