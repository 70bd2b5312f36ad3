"""Name a stretch of a program as a phase of an experiment, so that the report can compare it with others."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tracekit import units

# TraceMe encodes stats as `name#key=value,key=value#`, and lists of phases are joined by `;` (docs/concepts.md).
_RESERVED = frozenset("#,;=")


def _checked(name: str) -> str:
    if not name or _RESERVED & set(name):
        raise ValueError(
            f"phase name {name!r} is empty or contains one of # , ; = which break the trace's encoding; choose another."
        )
    return name


@contextmanager
def phase(name: str, alone: str | Sequence[str] = (), baseline: str | None = None) -> Iterator[None]:
    """Mark the enclosed work as phase `name` in the trace and print its wall time.

    `alone` names the phases that did the same pieces of work one at a time: speedup is then the sum of their walls over
    this wall. `baseline` names one phase that did the same work on fewer devices. Wait for the results inside the block
    (`jax.block_until_ready`), or the phase ends before its work does. Raises ValueError if both are given or a name
    cannot be encoded. Outside a capture it costs a few microseconds and one printed line. The first phase of a program
    initialises jax's backends, before its clock starts.
    """
    import jax
    import jax.profiler

    alone = [alone] if isinstance(alone, str) else alone
    if alone and baseline is not None:
        raise ValueError(f"phase {name!r} names both alone= and baseline=; a phase is compared with one of them.")
    stats = {"tracekit": "phase"}
    if alone:
        stats["alone"] = ";".join(_checked(other) for other in alone)
    if baseline is not None:
        stats["baseline"] = _checked(baseline)
    _checked(name)
    jax.devices()  # a capture begins with the backends, and an annotation older than it would be lost
    with jax.profiler.TraceAnnotation(name, **stats):
        start = time.perf_counter()
        yield
        wall = time.perf_counter() - start
    print(f"{name}: {units.time(wall * 10**12)}", flush=True)
