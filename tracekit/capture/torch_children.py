"""The processes that a script of PyTorch starts by multiprocessing: those that start anew are handed to the capture."""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.units import quantity
from tracekit.vocabulary.ranks import process_number

if TYPE_CHECKING:  # it would cost every capture some milliseconds
    from multiprocessing.process import BaseProcess

# Libraries whose processes serve the script: those that load data, pools, managers.
_SERVING = ("torch.", "multiprocessing.", "concurrent.", "joblib.", "asyncio.")
_OF_RANKS = ("torch.multiprocessing.spawn", "torch.distributed.")  # what starts functions of the script as processes
_WAIT_S = 5.0  # for what an interrupted process still writes


class Children:
    """The processes that are started from `hook` on; `entry` runs the target of one there, with its arguments."""

    def __init__(self, entry: Callable[..., Any]) -> None:
        self._entry = entry
        self._started: list[BaseProcess] = []
        self._deadline: float | None = None

    def hook(self) -> Callable[[], None]:
        """Hand each process that starts as a new interpreter, with a target of the script's, to the `entry`; what ends
        that.

        A fork goes on inside the profile of its parent, and cannot have one of its own.
        """
        from multiprocessing import process as module

        base: Any = module.BaseProcess
        original = base.start

        def start(process: Any) -> None:
            target = getattr(process, "_target", None)
            is_of_script = target is not None and not _is_serving(target)
            if is_of_script and _starts_anew(process):
                process._target = partial(self._entry, target)
            original(process)
            if is_of_script:
                self._started.append(process)

        def undo() -> None:
            if base.start is start:
                base.start = original

        base.start = start
        return undo

    def join(self) -> None:
        """Wait for those that the interpreter would wait for at its exit."""
        for process in self._started:
            with suppress(ValueError, AssertionError):  # closed, or of another process
                if not process.daemon:
                    process.join()

    def are_in(self, run: Path) -> bool:
        """Whether ranks among them have left their files in a run; waits a little, once, for those that end."""
        self._deadline = deadline = self._deadline or time.monotonic() + _WAIT_S
        for process in self._started:
            with suppress(ValueError, AssertionError):  # closed, or of another process
                process.join(max(0.0, deadline - time.monotonic()))
        return bool(self._started) and _ranks(run) > 0

    def missing(self, run: Path) -> str:
        """A sentence on those that have left no file in the run; empty where all have."""
        lacking = len(self._started) - _ranks(run)
        if lacking <= 0:
            return ""
        is_are = "is" if lacking == 1 else "are"
        return (
            f"{quantity(lacking, 'process', 'processes')} that the script started by multiprocessing {is_are} not in "
            "the trace: recorded is one that starts anew (spawn), from its torch.distributed.init_process_group() on. "
            "Start the ranks with torchrun or `tracekit capture --processes`."
        )


def _ranks(run: Path) -> int:
    """How many files of ranks of this machine a run has."""
    if not run.is_dir():
        return 0
    names = [path.name.removeprefix(socket.gethostname()) for path in run.iterdir()]
    return sum(process_number(name) is not None for name in names)


def _is_serving(target: Any) -> bool:
    """Whether a function is of a library, and no way to run one of the script."""
    module = f"{getattr(target, '__module__', '')}."
    return module.startswith(_SERVING) and not module.startswith(_OF_RANKS)


def _starts_anew(process: Any) -> bool:
    """Whether a process will be a new interpreter."""
    import multiprocessing

    method = getattr(process, "_start_method", None) or multiprocessing.get_start_method()
    return method != "fork"
