"""Loops in numba's subset of Python: plain on small frames, compiled on large ones."""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

# Below this many rows the plain loop is done before numba is imported and its code loaded.
COMPILE_FROM_ROWS = 50_000

F = TypeVar("F", bound=Callable[..., Any])


def loop(function: F, rows: int) -> F:
    """`function`, compiled if it is to run over many `rows` and numba is there; its result is the same.

    `function` takes numpy arrays, numbers and plain tuples of them, and calls nothing of tracekit. No NamedTuple: numba
    writes its class into the index of what it keeps on disk, which fails to load once that class has another name.
    Compiled, it holds no GIL.
    """
    return compiled(function) if rows >= COMPILE_FROM_ROWS else function


@cache
def compiled(function: F) -> F:
    """`function` compiled, its code kept on disk for the next process; itself where numba is missing."""
    try:
        import numba
    except ImportError:
        return function
    jitted: Any = numba.njit(cache=True, nogil=True)(function)
    return cast(F, jitted)
