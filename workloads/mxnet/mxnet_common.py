"""What the MXNet workloads share: their marks, their contexts, and threads. It is of Python 3.8, as MXNet is."""

from __future__ import annotations

import argparse
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


__all__ = ["contexts", "phase", "positive", "run", "set_threads", "unrecorded"]
# What MXNet and NumPy say where memory is too small, and MXNet of arrays that it cannot count.
_FULL = ("out of memory", "Failed to allocate", "bad_alloc", "Unable to allocate")
_UNCOUNTED = "larger than 2^31 elements"


def positive(text: str) -> int:
    """The number that an option gives, 1 or more."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


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
    """Run `main`; MXNet's error of a device that is full, or of an array that is too large, ends it with one
    sentence."""
    try:
        main()
    except Exception as error:
        if _UNCOUNTED in str(error):
            sys.exit("MXNet's arrays hold fewer than 2^31 elements: take a smaller --size or --batch.")
        if not isinstance(error, MemoryError) and not any(words in str(error) for words in _FULL):
            raise
        sys.exit("The device's memory does not hold it: take a smaller --size or --batch.")
