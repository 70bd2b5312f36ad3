"""Where the files of a run are read beside this process: in processes of this machine, or on the workers of a Dask
cluster.

Both are executors of `concurrent.futures`, and any other does as well. What starts processes, and distributed, is
imported only where it is used.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tracekit import cores
from tracekit.errors import TracekitError
from tracekit.version import __version__

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing.connection import Connection

P = ParamSpec("P")
T = TypeVar("T")

# A scheduler that is there answers at once.
_SCHEDULER_S = 8
# A cluster that grows with its tasks (Adaptive) starts its first worker in that time, or is not asked to.
_WORKER_S = 60
_CLOSE_S = 2
_RETRIES = 2
# By default: each holds a file.
_MOST = 8
_LONGEST_REASON = 200


class Processes(Executor):
    """Processes of this machine that start with the first task: `count`, or with None one for each core, where that is
    left to whoever has the tasks (`is_automatic`)."""

    def __init__(self, count: int | None = None) -> None:
        self.is_automatic = count is None
        self.count = count or cores.threads(_MOST)
        self._pool: ProcessPoolExecutor | None = None
        self._lone: ProcessPoolExecutor | None = None
        self._needed: Connection | None = None  # closed where the processes are needed no more

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the processes, what they do too where an error has come."""
        if kind and self._needed:
            self._needed.close()
        self.shutdown()

    def submit(self, task: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `task` in one of the processes."""
        self._pool = self._pool or self._new_pool(self.count)
        return self._pool.submit(task, *args, **kwargs)

    def run_alone(self, task: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `task` gives in a process that runs nothing else meanwhile: none but it can have ended that."""
        self._lone = self._lone or self._new_pool(1)
        try:
            return self._lone.submit(task, *args, **kwargs).result()
        except BrokenExecutor:
            self._lone = None
            raise

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """End the processes, and what has not begun."""
        for pool in (self._pool, self._lone):
            if pool:
                pool.shutdown(wait, cancel_futures=cancel_futures)

    def _new_pool(self, count: int) -> Any:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        # A fork of a process with threads, as of numpy and Arrow, may wait for a lock that no thread of it holds.
        context = get_context("spawn")
        if not self._needed:
            self._end, self._needed = context.Pipe(duplex=False)
        return ProcessPoolExecutor(count, context, _end_with_parent, (self._end,))


def results(
    executor: Executor, task: Callable[..., T], arguments: Sequence[tuple[Any, ...]]
) -> Iterator[T | Exception]:
    """What `task` gives for each of the `arguments`, in their order, or why it gave nothing.

    Dask runs a task again whose worker dies; one whose process of this machine dies runs once more, in its own.
    """
    futures = [_submitted(executor, task, each) for each in arguments]
    for at, each in enumerate(arguments):
        try:
            yield futures[at].result()
        except BrokenExecutor as error:
            yield _run_again(executor, task, each, error)
        except Exception as error:
            yield error
        futures[at] = Future()  # its result is kept no longer, here or on a worker


def _submitted(executor: Executor, task: Callable[..., T], arguments: tuple[Any, ...]) -> Future[T]:
    """The future of a task, also where the executor is broken by now."""
    try:
        return executor.submit(task, *arguments)
    except BrokenExecutor as error:
        broken: Future[T] = Future()
        broken.set_exception(error)
        return broken


def _run_again(
    executor: Executor, task: Callable[..., T], arguments: tuple[Any, ...], error: BrokenExecutor
) -> T | Exception:
    if not isinstance(executor, Processes):
        return error
    try:
        return executor.run_alone(task, *arguments)
    except Exception as again:
        return again


@contextmanager
def executor_of(jobs: int | None, dask: str | None) -> Iterator[Executor]:
    """The executor of `--jobs` and `--dask`: processes of this machine, or the cluster of a scheduler's address.

    Raises TracekitError where both are given, or no worker can be reached.
    """
    if jobs is not None and dask is not None:
        raise TracekitError("Give --jobs or --dask: the one reads on this machine, the other on a cluster.")
    with _cluster(dask) if dask is not None else Processes(jobs) as executor:
        yield executor


def _end_with_parent(end: "Connection") -> None:
    """In a process of a pool: end at Ctrl-C without a word, and where the parent closes the other `end` or is gone,
    which nothing else tells."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    def wait() -> None:
        end.poll(None)
        os._exit(1)

    threading.Thread(target=wait, name="tracekit parent", daemon=True).start()


@contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    """The workers of the Dask scheduler at `address`. Raises TracekitError unless one of them has this tracekit."""
    import asyncio

    try:
        from distributed import Client
    except ImportError:
        raise TracekitError("--dask needs a package. Install it: pip install 'tracekit-jax[dask]'.") from None
    # A client of what is no scheduler waits for longer, and is not rid of. A notebook has a loop on this thread.
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, _answered(address)).result()
    except Exception as error:
        # Whichever of two timers ends first: that of a connection raises an OSError with words of its own.
        is_silent = isinstance(error, TimeoutError | OSError)
        reason = f"no answer within {_SCHEDULER_S} s" if is_silent else " ".join(str(error).split()).rstrip(".")
        raise TracekitError(
            f"The Dask scheduler {address} cannot be reached: {reason}. Check the address, such as tcp://HOST:8786, "
            "and that it runs."
        ) from None
    # What distributed logs of a connection that ends, tracebacks too, a sentence says.
    logging.disable()
    try:
        client = Client(address, timeout=_SCHEDULER_S, set_as_default=False)
        try:
            _check_workers(client, address)
            yield client.get_executor(pure=False, retries=_RETRIES)
        finally:
            with suppress(Exception):  # the scheduler may be gone
                client.close(timeout=_CLOSE_S)
    finally:
        logging.disable(logging.NOTSET)


async def _answered(address: str) -> None:
    """Raise TimeoutError unless a scheduler answers in time."""
    import asyncio

    await asyncio.wait_for(_ask_scheduler(address), _SCHEDULER_S)


async def _ask_scheduler(address: str) -> None:
    """Raise whatever keeps a scheduler from answering."""
    from distributed.core import rpc
    from distributed.security import Security

    async with rpc(address, timeout=_SCHEDULER_S, connection_args=Security().get_connection_args("client")) as remote:
        if (found := (await remote.identity())["type"]) != "Scheduler":
            raise TracekitError(f"it is a {found}")


def _check_workers(client: Any, address: str) -> None:
    """Raise TracekitError unless a worker comes, and has this version of tracekit."""
    there = f"Install it there: pip install tracekit-jax=={__version__}."
    try:
        found = client.submit(version, pure=False).result(timeout=_WORKER_S)
    except TimeoutError:
        raise TracekitError(
            f"The Dask scheduler {address} has no worker, and none came within {_WORKER_S} s. Start some, such as "
            f"`dask worker {address}`."
        ) from None
    except ImportError as error:
        raise TracekitError(f"The workers of {address} cannot import tracekit: {error}. {there}") from None
    except Exception as error:
        raise TracekitError(f"The workers of {address} run nothing: {reason_of(error)}.") from None
    if found != __version__:
        raise TracekitError(f"The workers of {address} have tracekit {found}, and this is {__version__}. {there}")


def version() -> str:
    """The version of tracekit where this runs."""
    return __version__


def reason_of(error: BaseException) -> str:
    """What an executor says of a task that gave nothing, on one line."""
    if isinstance(error, CancelledError):
        return "the scheduler is gone"
    text = " ".join(str(error).split())[:_LONGEST_REASON].rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
