"""What the MXNet workloads share: their marks, their contexts, and threads. It is of Python 3.8, as MXNet is."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import Any, Iterator, Sequence  # noqa: UP035 - Python 3.8 subscripts no others

try:
    from tracekit import phase, unrecorded
except ImportError:  # run by itself, by a Python that has MXNet alone

    @contextmanager
    def phase(name: str, alone: str | Sequence[str] = (), baseline: str | None = None) -> Iterator[Any]:
        """Time the block, as tracekit.phase does."""
        start = time.perf_counter()
        yield None
        print(f"{name}: {1000 * (time.perf_counter() - start):.4g} ms", flush=True)

    @contextmanager
    def unrecorded() -> Iterator[None]:
        """A block like any other."""
        yield


__all__ = ["contexts", "phase", "run", "set_threads", "unrecorded"]


def set_threads(count: int) -> None:
    """Let each operator compute on `count` cores. It counts only before mxnet is imported."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(count)


def contexts() -> list[Any]:
    """Two contexts: GPUs, else CPU contexts, which are names for the same cores; one GPU where there is one."""
    import mxnet as mx

    gpus = min(mx.context.num_gpus(), 2)
    if gpus == 1:
        print("One GPU: what needs two devices is left out.")
    return [mx.gpu(number) for number in range(gpus)] or [mx.cpu(number) for number in range(2)]


def run(main: Any) -> None:
    """Run `main`; MXNet's error of a device that is full ends it with one sentence."""
    try:
        main()
    except Exception as error:
        if "out of memory" not in str(error):
            raise
        sys.exit("The device's memory does not hold it: take a smaller --size or --batch.")
