"""Name a stretch of a program as a phase of an experiment, so that the report can compare it with others."""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracekit import cores, units

if TYPE_CHECKING:  # ctypes would cost every command some milliseconds
    from tracekit.capture.nvtx_ranges import Ranges

# TraceMe encodes stats as `name#key=value,key=value#`, and lists of phases are joined by `;` (docs/concepts.md). Kineto
# keeps no arguments of an annotation unless it records shapes, and then no texts: there the name itself is so encoded.
_RESERVED = frozenset("#,;=")


def _checked(name: str) -> str:
    if not name or _RESERVED & set(name):
        raise ValueError(
            f"phase name {name!r} is empty or contains one of # , ; = which break the trace's encoding; choose another."
        )
    return name


@dataclass
class PhaseTimes:
    """What a phase took, once its block has ended.

    `wall_ps` is its wall time, `other_cores` how many of the cores that this process may use other processes and
    virtual machines used meanwhile, on average; None where the system does not tell. CPU time is counted in ticks of
    10 ms, so that it may be below 0 and says little of phases shorter than 0.2 s; that of child processes belongs to
    this one once they are waited for.
    """

    wall_ps: int = 0
    other_cores: float | None = None


@contextmanager
def phase(name: str, alone: str | Sequence[str] = (), baseline: str | None = None) -> Iterator[PhaseTimes]:
    """Mark the enclosed work as phase `name` in the trace, print its wall time, and yield what it took.

    `alone` names the phases that did the same pieces of work one at a time: speedup is then the sum of their walls over
    this wall. `baseline` names one phase that did the same work on fewer devices. Wait for the results inside the block
    (`jax.block_until_ready`, `torch.cuda.synchronize`), or the phase ends before its work does. Raises ValueError if
    both are given or a name cannot be encoded. Outside a capture it costs a tenth of a millisecond and one printed
    line. A program that has imported torch and not jax is marked in PyTorch's profile, one that has both in both; under
    Nsight Systems it is an NVTX range, also of programs without jax. The first phase of any other program initialises
    jax's backends, before its clock starts.
    """
    alone = [alone] if isinstance(alone, str) else alone
    if alone and baseline is not None:
        raise ValueError(f"phase {name!r} names both alone= and baseline=; a phase is compared with one of them.")
    stats = {"tracekit": "phase"}
    if alone:
        stats["alone"] = ";".join(_checked(other) for other in alone)
    if baseline is not None:
        stats["baseline"] = _checked(baseline)
    _checked(name)
    annotations = _annotations(name, stats)
    times = PhaseTimes()
    before = _other_cpu_s()
    with ExitStack() as stack:
        for annotation in annotations:
            stack.enter_context(annotation)
        start = time.perf_counter_ns()
        yield times
        times.wall_ps = (time.perf_counter_ns() - start) * 1000
    after = _other_cpu_s()
    if before is not None and after is not None:
        times.other_cores = (after - before) / (times.wall_ps / 10**12)
    line, encoding = f"{name}: {units.time(times.wall_ps)}", getattr(sys.stdout, "encoding", None) or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def _annotations(name: str, stats: Mapping[str, str]) -> list[AbstractContextManager[Any]]:
    """The annotation of each framework that this program has imported; jax's where it has none."""
    if (ranges := _nvtx()) is not None:
        if "jax" in sys.modules:
            sys.modules["jax"].devices()  # or the first phase would contain their start
        return [ranges.range(name, stats)]
    annotations: list[AbstractContextManager[Any]] = []
    if hasattr(sys.modules.get("torch"), "profiler"):
        from torch.profiler import record_function

        encoded = ",".join(f"{key}={value}" for key, value in stats.items())
        annotations.append(record_function(f"{name}#{encoded}#"))
    if not annotations or "jax" in sys.modules:
        import jax
        import jax.profiler

        jax.devices()  # a capture begins with the backends, and an annotation older than it would be lost
        annotations.append(jax.profiler.TraceAnnotation(name, **stats))
    return annotations


def _nvtx() -> "Ranges | None":
    """The NVTX ranges of this process, where a tool records them."""
    if "NVTX_INJECTION64_PATH" not in os.environ:
        return None
    from tracekit.capture import nvtx_ranges

    return nvtx_ranges.of_this_process()


def _other_cpu_s() -> float | None:
    """What the usable cores did so far, but not for this process."""
    busy, stolen, _ = cores.times()
    return None if busy is None or stolen is None else busy + stolen - sum(os.times()[:4])
