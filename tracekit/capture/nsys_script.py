"""Runs a script under Nsight Systems: the program that `nsys profile` starts, so that steps are NVTX ranges too."""

import json
import os
import platform
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from tracekit.capture import nvtx_ranges, script
from tracekit.capture.nvtx_ranges import Ranges
from tracekit.capture.session import AfterImport
from tracekit.errors import TracekitError

_VERSIONS = ("jax", "jaxlib", "torch")


def main(status: str, owner: str, stdout: str, stderr: str, kind: str, name: str, *args: str) -> int:
    """Run the script `name`, write its facts to `status`, and give its exit code.

    Its output goes where the descriptors `stdout` and `stderr` of the process `owner` lead: nsys has its own, for what
    it says itself.
    """
    for descriptor, number in ((stdout, 1), (stderr, 2)):
        _lead(number, int(descriptor), f"/proc/{owner}/fd/{descriptor}")
    ranges = nvtx_ranges.of_this_process()
    if ranges is not None:
        sys.meta_path.insert(0, AfterImport(_actions(ranges)))
    facts: dict[str, Any] = {"python": platform.python_version(), "ranges": ranges is not None}
    try:
        ending = script.run(name, args, module=kind == "module", at_end=_wait_for_work)
        exit_code = ending.exit_code
    except TracekitError as error:
        facts["problem"], exit_code = str(error), error.exit_code
    modules = ((module, sys.modules.get(module)) for module in _VERSIONS)
    facts["versions"] = {name: str(getattr(module, "__version__", "?")) for name, module in modules if module}
    Path(status).write_text(json.dumps({**facts, "exit_code": exit_code}), "utf-8")
    return exit_code


def _lead(number: int, descriptor: int, path: str) -> None:
    """Let the descriptor `number` lead where `descriptor` does, or `path` where nsys has not handed that on."""
    with suppress(OSError):
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            os.dup2(descriptor, number)
            os.close(descriptor)
            return
    with suppress(OSError):  # then it is among what nsys says
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)


def _actions(ranges: Ranges) -> dict[str, Callable[[ModuleType], None]]:
    """What makes ranges of the annotations of jax and torch, by the module that has them."""

    def jax(module: Any) -> None:
        _mark(module.TraceAnnotation, ranges)
        _mark(module.StepTraceAnnotation, ranges)

    def torch(module: Any) -> None:
        _mark(module.record_function, ranges)

    return {"jax._src.profiler": jax, "torch.autograd.profiler": torch}


def _mark(annotation: Any, ranges: Ranges) -> None:
    """Make a range of whatever enters the class `annotation`, whose first argument is its name."""
    begin, enter, leave = annotation.__init__, annotation.__enter__, annotation.__exit__

    def __init__(self: Any, name: str, *args: Any, **stats: Any) -> None:
        if not hasattr(self, "nvtx_name"):  # a subclass's, which says more
            step = stats.get("step_num")
            self.nvtx_name = nvtx_ranges.encoded(str(name), {} if step is None else {"step_num": step})
        begin(self, name, *args, **stats)

    def __enter__(self: Any) -> Any:
        ranges.push(self.nvtx_name)
        return enter(self)

    def __exit__(self: Any, *raised: Any) -> Any:
        try:
            return leave(self, *raised)
        finally:
            ranges.pop()

    annotation.__init__ = __init__
    if "__enter__" in vars(annotation) or not hasattr(enter, "is_marked"):
        __enter__.is_marked = True  # type: ignore[attr-defined]
        annotation.__enter__, annotation.__exit__ = __enter__, __exit__


def _wait_for_work() -> None:
    """Wait for what the script has left to its devices: nsys records none of it after the process."""
    for name, wait in (("jax", _wait_for_jax), ("torch", _wait_for_torch)):
        if name in sys.modules:
            with suppress(Exception):  # they report the script's failed work themselves
                wait(sys.modules[name])


def _wait_for_jax(jax: Any) -> None:
    jax.effects_barrier()
    jax.block_until_ready(jax.live_arrays())


def _wait_for_torch(torch: Any) -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
