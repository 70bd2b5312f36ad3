"""Loops in numba's subset of Python: plain on small frames, compiled on large ones."""

import gc
import importlib
import importlib.util
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar, cast

from tracekit.code_cache import keep

# Below this many rows the plain loop is done before numba is imported and its code loaded.
COMPILE_FROM_ROWS = 50_000
_so_far: Counter[Hashable] = Counter()

F = TypeVar("F", bound=Callable[..., Any])


def loop(function: F, rows: int, *, is_worth_starting: bool = True) -> F:
    """`function`, compiled if it is to run over many `rows`, or has already, and numba is there; its result is the
    same. What is not worth starting numba for is compiled where that runs already.

    `function` takes numpy arrays, numbers and plain tuples of them, and calls nothing of tracekit. No NamedTuple: numba
    writes its class into the index of what it keeps on disk, which fails to load once that class has another name.
    Compiled, it holds no GIL.
    """
    if not is_worth_starting and not start.cache_info().currsize:
        return function
    return compiled(function) if pays(function, rows, COMPILE_FROM_ROWS) else function


def pays(what: Hashable, amount: int, least: int) -> bool:
    """Whether this process has had at least so much of something to do: many small files are as much as a large one."""
    _so_far[what] += amount
    return _so_far[what] >= least


@cache
def compiled(function: F) -> F:
    """`function` compiled, its code kept on disk for the next process; itself where numba is missing."""
    numba = start()
    if numba is None:
        return function
    jitted: Any = numba.njit(nogil=True)(function)
    if hasattr(jitted, "enable_caching"):  # else NUMBA_DISABLE_JIT is set
        keep(jitted, _settle_blas)
    return cast(F, jitted)


@cache
def start() -> Any:
    """The module numba, None where it is missing; asked for the first time, it takes half a second."""
    try:
        with without_collection():
            import numba
    except ImportError:
        return None
    return numba


@cache
def _settle_blas() -> None:
    """Let numba not look for a BLAS for np.dot before it compiles.

    It would import scipy.linalg to find out: as long again as numba where JAX brought scipy with it, and no loop here
    has a dot. So it is only told whether scipy is there; a program that does compile a dot imports it then.
    """
    with without_collection():
        from numba.np import linalg

    if hasattr(linalg, "ensure_blas"):
        ensure_blas, linalg.ensure_blas = linalg.ensure_blas, _find_scipy
        try:
            importlib.import_module("numba.np.arraymath")  # asks now, and keeps the answer
        finally:
            linalg.ensure_blas = ensure_blas


@contextmanager
def without_collection() -> Iterator[None]:
    """No garbage is collected inside: numba makes many objects as it starts, and looking through them and all that
    pandas holds again and again is a quarter of that time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _find_scipy() -> None:
    if importlib.util.find_spec("scipy") is None:
        raise ImportError
