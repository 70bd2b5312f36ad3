"""The peers that `analyse.py` compares: `python benchmarks/analyse_peers.py PEER FILE` measures one.

Each runs in a process of its own, and is asked for what it has on the questions that a report of tracekit answers: busy
and idle time and its causes, overlap, launches, bandwidth, collectives, critical path. Prints one JSON object.
"""

import cProfile
import ctypes
import gc
import importlib
import json
import logging
import pstats
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

from read_peers import peak_bytes

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Peer:
    """Its package, how it reads a file, how many device intervals that gave (None: it does not say), and the questions
    that it is asked."""

    package: str
    read: Callable[[Path], Any]
    count: Callable[[Any], int | None]
    questions: Mapping[str, Callable[[Any], Any]]


def tracekit() -> Peer:
    """Every figure of a report, over all steps and devices."""
    package = importlib.import_module("tracekit")
    questions = {"every analysis of a report": package.analyse}
    return Peer("tracekit-jax", package.read, lambda trace: len(trace.events), questions)


def hta() -> Peer:
    """What HTA has on the same questions, in whole microseconds; it finds the critical path of one step at a time."""
    analysis = importlib.import_module("hta.trace_analysis").TraceAnalysis

    def critical_path(of: Any) -> None:
        _, has_path = of.critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=0)
        if not has_path:
            raise RuntimeError("it found none")

    return Peer(
        "HolisticTraceAnalysis",
        lambda path: analysis(trace_files={0: str(path)}, trace_dir="", include_last_profiler_step=True),
        lambda of: int((of.t.get_trace(0)["stream"] >= 0).sum()),
        {
            "busy and idle time": lambda of: of.get_temporal_breakdown(visualize=False),
            "overlap": lambda of: of.get_comm_comp_overlap(visualize=False),
            "kernels by kind and name": lambda of: of.get_gpu_kernel_breakdown(visualize=False),
            "idle time by cause": lambda of: of.get_idle_time_breakdown(ranks=[0], visualize=False),
            "launch delays": lambda of: of.get_cuda_kernel_launch_stats(ranks=[0], visualize=False),
            "queue depth": lambda of: of.get_queue_length_summary(ranks=[0]),
            "copy bandwidth": lambda of: of.get_memory_bw_summary(ranks=[0]),
            "critical path of one step": critical_path,
        },
    )


def tracelens() -> Peer:
    """TraceLens's account of GPU time and the CPU ops that launched it; it has no critical path and no idle causes."""
    analyzer = importlib.import_module("TraceLens").TreePerfAnalyzer
    work = {"kernel", "gpu_memcpy", "gpu_memset"}
    return Peer(
        "TraceLens",
        lambda path: analyzer.from_file(str(path)),
        lambda of: sum(event.get("cat") in work for event in of.tree.events),
        {
            "busy, exposed and idle time": lambda of: of.get_df_gpu_timeline(),
            "kernels by launching op": lambda of: of.get_df_kernel_launchers(),
        },
    )


def xprof() -> Peer:
    """XProf's pages on the same questions, as the data that its front end gets; each reads the file by itself."""
    convert = importlib.import_module("xprof.convert.raw_to_tool_data").xspace_to_tool_data

    def page(tool: str) -> Callable[[Path], Any]:
        def make(path: Path) -> None:
            answer, _ = convert([str(path)], tool, {"use_saved_result": False})
            if not answer:
                raise RuntimeError("it gave nothing")

        return make

    pages = {"steps, idle and input time": "overview_page", "kernels": "kernel_stats"}
    return Peer("xprof", lambda path: path, lambda _: None, {name: page(tool) for name, tool in pages.items()})


# By name: the file that it is given, and how it is called.
PEERS: dict[str, tuple[str, Callable[[], Peer]]] = {
    "tracekit, XSpace": ("xspace", tracekit),
    "XProf, XSpace": ("xspace", xprof),
    "tracekit, Kineto": ("kineto", tracekit),
    "HTA, Kineto": ("kineto", hta),
    "TraceLens, Kineto": ("kineto", tracelens),
}


def measure(name: str, path: Path) -> dict[str, Any]:
    """What one peer takes in this process: seconds to read, to answer first and again, and its memory in bytes.

    `loaded` is what it holds when it has read the file, `growth` how much more it holds at most while it answers, where
    the system tells; `parts` are the seconds of each analysis of tracekit.
    """
    try:
        peer = PEERS[name][1]()
    except ImportError as error:
        return {"skipped": f"{error.name or error} is not installed here"}
    logging.disable()
    start = time.perf_counter()
    read = peer.read(path)
    read_s, peak = time.perf_counter() - start, peak_bytes()
    loaded = reset_peak()
    try:
        first_s = _seconds(peer.questions, read)
        most = status("VmHWM") if loaded else None
        again_s = _seconds(peer.questions, read)
    except Unanswered as error:
        return {"failed": str(error)}
    return {
        "version": metadata.version(peer.package),
        "read_s": read_s,
        "first_s": first_s,
        "again_s": again_s,
        "loaded": loaded,
        "growth": most - loaded if most and loaded else None,
        "peak": max(peak, most or peak_bytes()),
        "intervals": peer.count(read),
        "parts": _parts(peer.questions, read) if name.startswith("tracekit") else {},
    }


class Unanswered(Exception):
    """A peer failed at a question."""


def _seconds(questions: Mapping[str, Callable[[Any], Any]], read: Any) -> dict[str, float]:
    """How long each answer takes."""
    seconds = {}
    for question, ask in questions.items():
        start = time.perf_counter()
        try:
            ask(read)
        except Exception as error:
            raise Unanswered(f"{question}: {type(error).__name__}: {error}") from error
        seconds[question] = time.perf_counter() - start
    return seconds


def reset_peak() -> int | None:
    """What this process holds now, from which on its peak counts anew; None where the system cannot do that.

    What reading left free is given back first: else it would hide what an answer needs.
    """
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        _CLEAR.write_text("5")
    except OSError:
        return None
    return status("VmRSS")


def status(key: str) -> int | None:
    """A figure in bytes that the system keeps about this process."""
    if not _STATUS.exists():
        return None
    fields = dict(line.split(":", 1) for line in _STATUS.read_text(encoding="utf-8").splitlines())
    return int(fields[key].split()[0]) * 1024


class _Here(Executor):
    """Runs what is submitted at once, in the same thread."""

    def __init__(self, max_workers: int) -> None:
        pass

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future that is done."""
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def _parts(questions: Mapping[str, Callable[[Any], Any]], read: Any) -> dict[str, float]:
    """Seconds of each function of tracekit below the report, as the report calls it, one after the other in one thread;
    profiled, so a little too long."""
    profile = cProfile.Profile()
    with mock.patch("tracekit.analysis.explain.ThreadPoolExecutor", _Here):
        for ask in questions.values():
            profile.runcall(ask, read)
    root = Path(sys.modules["tracekit"].__file__ or "").parent
    above = (root / "report", root / "analysis" / "explain.py", Path(__file__))
    withheld = (root / "analysis" / "completeness.py", "withheld")  # the report asks most analyses through it
    seconds_by_part: dict[str, float] = {}
    stats: Any = pstats.Stats(profile)
    for (file, _, function), (*_, callers) in stats.stats.items():
        path = Path(file)
        if root not in path.parents or root / "report" in path.parents or path == root / "analysis" / "explain.py":
            continue
        if (path, function) == withheld:
            continue
        part = f"{path.relative_to(root).with_suffix('').as_posix()}.{function}"
        seconds = sum(
            timing[3]
            for (caller, _, calling), timing in callers.items()
            if (Path(caller), calling) == withheld
            or any(place in (Path(caller), *Path(caller).parents) for place in above)
        )
        if seconds:
            seconds_by_part[part] = seconds_by_part.get(part, 0) + seconds
    return dict(sorted(seconds_by_part.items(), key=lambda item: -item[1]))


def main() -> None:
    """Measure the peer named on the command line."""
    name, path = sys.argv[1:]
    with redirect_stdout(sys.stderr):
        measurement = measure(name, Path(path))
    print(json.dumps(measurement))


if __name__ == "__main__":
    main()
