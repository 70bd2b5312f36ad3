"""Runs a script under MXNet's profiler, in whatever Python has MXNet (3.7 and newer): a program of its own.

It is started as `PYTHON mxnet_runner.py DRAFT file|module SCRIPT ARGUMENTS...` and leaves in DRAFT what the profiler
dumps, and what became of the script. That Python need not have tracekit: the script finds a module of that name here,
with `phase` and `unrecorded`. Only the standard library is imported.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import multiprocessing.process
import os
import platform
import runpy
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import contextmanager, suppress
from types import ModuleType, SimpleNamespace
from typing import Any, Callable, Iterator, Sequence  # noqa: UP035 - Python 3.7 and 3.8 subscript no others

DUMP, STATUS = "profile.json", "status.json"
# What ends a process by default, and another process, a terminal or a scheduler sends.
_ENDING = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGALRM")
# Calls of mxnet.profiler that would end or change the profile.
_OWN_CALLS = (
    "set_config", "profiler_set_config", "set_state", "profiler_set_state", "dump", "dump_profile", "pause", "resume",
)  # fmt: skip
# Libraries whose processes serve the script: those that load data, pools, managers.
_SERVING = ("mxnet.", "multiprocessing.", "concurrent.", "joblib.", "asyncio.")
_RESERVED = frozenset("#,;=")
_UNITS = ((10**12, "s"), (10**9, "ms"), (10**6, "µs"))


class Profile:
    """MXNet's profile of this process: it begins when the script has imported mxnet, and ends once."""

    def __init__(self, draft: str) -> None:
        self.draft = draft
        self.status: dict[str, Any] = {"python": platform.python_version(), "found": False}
        self._mxnet: Any = None
        self._calls: Any = None  # those of mxnet.profiler itself
        self._domain: Any = None
        self._is_stopped = self._has_warned = False
        self._postponing = 0

    def begin(self, mxnet: ModuleType) -> None:
        """Start the profiler of `mxnet`, which has just been imported, and keep the script's own calls from it."""
        from mxnet import profiler

        self._mxnet, self._calls = mxnet, SimpleNamespace(**vars(profiler))
        self.status["mxnet"] = str(getattr(mxnet, "__version__", "unknown"))
        for name in _OWN_CALLS:
            if hasattr(profiler, name):
                setattr(profiler, name, self._ignored)
        # Counters of memory would be most of the file, and no reader asks for them.
        self._calls.set_config(
            profile_symbolic=True,
            profile_imperative=True,
            profile_api=True,
            profile_memory=False,
            aggregate_stats=False,
            filename=os.path.join(self.draft, DUMP),
        )
        self._domain = profiler.Domain("tracekit")
        if not self._postponing:
            self._calls.set_state("run")

    def end(self) -> None:
        """Wait for the work of the script, and write the dump. Raises what the script's work has raised meanwhile."""
        if self._mxnet is None or self._is_stopped:
            return
        self._is_stopped = True
        try:
            self._mxnet.nd.waitall()
        finally:
            self._calls.set_state("stop")
            self._calls.dump(True)

    def save(self, exit_code: int) -> None:
        """Write what became of the script."""
        self.status["exit_code"] = exit_code
        with open(os.path.join(self.draft, STATUS), "w", encoding="utf-8") as file:
            json.dump(self.status, file)

    @contextmanager
    def phase(self, name: str, alone: str | Sequence[str] = (), baseline: str | None = None) -> Iterator[Any]:
        """What `tracekit.phase` is: a task of MXNet's profiler, whose name holds what the phase is compared with."""
        import mxnet  # noqa: F401 - with which the profile begins

        alone = [alone] if isinstance(alone, str) else alone
        if alone and baseline is not None:
            raise ValueError(f"phase {name!r} names both alone= and baseline=; a phase is compared with one of them.")
        stats = ["tracekit=phase"]
        if alone:
            stats.append(f"alone={';'.join(map(_checked, alone))}")
        if baseline is not None:
            stats.append(f"baseline={_checked(baseline)}")
        task = self._calls.Task(self._domain, f"{_checked(name)}#{','.join(stats)}#")
        times = SimpleNamespace(wall_ps=0, other_cores=None)
        task.start()
        start = time.perf_counter_ns()
        try:
            yield times
            times.wall_ps = (time.perf_counter_ns() - start) * 1000
        finally:
            task.stop()
        line, encoding = f"{name}: {_time(times.wall_ps)}", getattr(sys.stdout, "encoding", None) or "utf-8"
        print(line.encode(encoding, "backslashreplace").decode(encoding), flush=True)

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """What `tracekit.unrecorded` is: the profile rests, and goes on once this block's work is done."""
        self._postponing += 1
        if self._mxnet is not None:
            self._mxnet.nd.waitall()
            self._calls.set_state("stop")
        try:
            yield
        finally:
            self._postponing -= 1
            if self._mxnet is not None and not self._postponing:
                self._mxnet.nd.waitall()
                self._calls.set_state("run")

    def _ignored(self, *_: Any, **__: Any) -> None:
        if not self._has_warned:
            self._has_warned = True
            _say(
                "the script uses mxnet.profiler itself; one profile can run at a time, so its calls do nothing and "
                "this capture goes on. For the script's own profile run it with plain python."
            )


def _count_children(status: dict[str, Any]) -> None:
    """Let `status` count the processes that run Python for the script: those of multiprocessing, forks, and programs
    that are a Python."""
    base: Any = multiprocessing.process.BaseProcess
    popen: Any = subprocess.Popen
    start, begin, fork = base.start, popen.__init__, os.fork
    status["children"] = 0
    starting = threading.local()

    def started(process: Any) -> None:
        target = getattr(process, "_target", None)
        starting.is_counted = True  # a fork by multiprocessing is this process
        try:
            start(process)
        finally:
            starting.is_counted = False
        if target is None or not f"{getattr(target, '__module__', '')}.".startswith(_SERVING):
            status["children"] += 1

    def begun(process: Any, args: Any, *more: Any, **named: Any) -> None:
        begin(process, args, *more, **named)
        program = args if isinstance(args, (str, bytes, os.PathLike)) else next(iter(args), "")
        words = os.fsdecode(program).split()
        status["children"] += bool(words) and os.path.basename(words[0]).startswith("python")

    def forked() -> int:
        pid = fork()
        status["children"] += pid > 0 and not getattr(starting, "is_counted", False)
        return pid

    base.start, popen.__init__, os.fork = started, begun, forked


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls an action on the module `name` right after its import."""

    def __init__(self, name: str, action: Callable[[ModuleType], None]) -> None:
        self.name, self.action = name, action

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Find the module where Python would, and extend its loader."""
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name == self.name else None
        if spec is None or spec.loader is None:
            return None
        execute, action = spec.loader.exec_module, self.action

        def exec_module(module: ModuleType) -> None:
            execute(module)
            action(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _checked(name: str) -> str:
    if not name or _RESERVED & set(name):
        raise ValueError(
            f"phase name {name!r} is empty or contains one of # , ; = which break the trace's encoding; choose another."
        )
    return name


def _time(time_ps: int) -> str:
    size, unit = next(((size, unit) for size, unit in _UNITS if time_ps >= size), _UNITS[-1])
    return f"{time_ps / size:.3g} {unit}"


def _say(sentence: str) -> None:
    print(f"tracekit: {sentence}", file=sys.stderr, flush=True)


def _module(profile: Profile) -> ModuleType:
    """What the script imports as tracekit."""
    module = ModuleType("tracekit", "What a script finds as tracekit under `tracekit capture --python`.")
    vars(module).update(phase=profile.phase, unrecorded=profile.unrecorded)
    return module


def _execute(kind: str, script: str, args: list[str]) -> None:
    """Run the script as `python script` or `python -m script` would."""
    if kind == "module":
        sys.path[0] = os.getcwd()
        sys.argv = [script, *args]
        runpy.run_module(script, run_name="__main__", alter_sys=True)
        return
    file = os.path.join(os.getcwd(), script)
    main = ModuleType("__main__")
    vars(main).update(
        __builtins__=__builtins__,
        __file__=file,
        __cached__=None,
        __loader__=importlib.machinery.SourceFileLoader("__main__", file),
    )
    sys.modules["__main__"], sys.argv = main, [script, *args]
    with open(file, "rb") as source:
        code = compile(source.read(), file, "exec", dont_inherit=True)
    exec(code, vars(main))


def _exit_code(action: Callable[[], None]) -> int:
    """Run `action`; what it raises is printed as Python would, and becomes an exit code."""
    try:
        action()
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return (exit_.code or 0) & 0xFF
        print(exit_.code, file=sys.stderr, flush=True)
        return 1
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__):
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace)
        sys.stderr.flush()
        return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _ended(number: int, frame: Any) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
    raise SystemExit(128 + number)


def main(draft: str, kind: str, script: str, *args: str) -> int:
    """Run the script, write what there is, and give its exit code."""
    # This file's directory must not be searched for modules, and the script's is.
    sys.path[0] = os.getcwd() if kind == "module" else os.path.dirname(os.path.realpath(script))
    profile, pid = Profile(draft), os.getpid()
    if importlib.util.find_spec("mxnet") is None:
        profile.save(1)
        return 1
    sys.modules["tracekit"] = _module(profile)
    sys.meta_path.insert(0, _AfterImport("mxnet", profile.begin))
    for name in _ENDING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _ended)
    leave = os._exit

    def leave_with_trace(status: int) -> None:
        if os.getpid() == pid:
            with suppress(Exception):
                profile.end()
            profile.save(status & 0xFF)
        leave(status)

    os._exit = leave_with_trace  # type: ignore[assignment]

    def finish() -> None:
        own = threading.current_thread()
        for thread in threading.enumerate():
            if thread is not own and not thread.daemon:
                thread.join()
        profile.end()

    profile.status["found"] = True
    _count_children(profile.status)
    exit_code = _exit_code(lambda: _execute(kind, script, list(args)))
    exit_code = _exit_code(finish) or exit_code
    profile.save(exit_code)
    os._exit = leave
    return exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
