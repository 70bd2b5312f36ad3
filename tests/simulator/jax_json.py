"""A job as JAX's profiler writes it in JSON: the planes of its XSpace as processes, without the HLO of programs."""

import gzip
import json
from pathlib import Path
from typing import Any

from tests.simulator.clocks import WHOLE, Recorder
from tests.simulator.truth import Truth
from tests.simulator.xspace import HOST, device_planes, fill

# What the conversion from XSpace leaves out.
_LEFT_OUT = ("program_id",)
_BASE_NS = 1000
_HOST_PID = 701


def write(truth: Truth, path: Path, recorder: Recorder = WHOLE) -> Path:
    """The file; all threads share the host's clock, so only devices may be late."""
    gpus = {rank: _Process(name, rank + 1) for rank, name in device_planes(truth, recorder).items()}
    host = _Process(HOST, _HOST_PID)
    streams, threads = fill(truth, recorder, gpus, host)
    events = [event for process in (*gpus.values(), host) for event in process.all({**streams, **threads})]
    document = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*events, {}]}
    file = path.with_suffix(".trace.json.gz")
    file.write_bytes(gzip.compress(json.dumps(document).encode(), 1))
    return file


class _Process:
    """A plane as a process: its lines are threads, and the stats of its events are text."""

    def __init__(self, name: str, pid: int) -> None:
        self.name, self.pid = name, pid
        self.lines: dict[str, list[dict[str, Any]]] = {}

    def event(self, line: str, name: str, start_ns: int, duration_ns: int, /, **stats: int | str) -> None:
        """Add an event to a line."""
        args = {key: str(value) for key, value in stats.items() if key not in _LEFT_OUT}
        place = {"ts": (_BASE_NS + start_ns) / 1000, "dur": duration_ns / 1000}
        self.lines.setdefault(line, []).append({"ph": "X", "pid": self.pid, "name": name, **place, "args": args})

    def all(self, tids: dict[str, int]) -> list[dict[str, Any]]:
        """The names of the process and of its threads, and all events."""
        names = [{"ph": "M", "pid": self.pid, "name": "process_name", "args": {"name": self.name}}]
        names += [
            {"ph": "M", "pid": self.pid, "tid": tids[line], "name": "thread_name", "args": {"name": line}}
            for line in self.lines
        ]
        return names + [{**event, "tid": tids[line]} for line, events in self.lines.items() for event in events]
