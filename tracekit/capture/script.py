"""Run a Python file or module as `python` would: `__main__`, `sys.argv`, `sys.path`, tracebacks and exit code."""

import builtins
import importlib.util
import io
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, ModuleType, TracebackType

from tracekit.errors import CaptureError

# The signals that end a process by default, and that another process, a terminal or a scheduler sends.
ENDING = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGALRM")
    if hasattr(signal, name)
)
_OWN_FRAMES = frozenset(
    {
        __name__,
        *(f"tracekit.capture.{part}" for part in ("jax_session", "session", "stretch", "torch_session")),
    }
)


@dataclass(frozen=True)
class Ending:
    """How a script ended: its exit code, 0 to 255, and whether a signal ended it."""

    exit_code: int
    interrupted: bool = False


def check_file(script: str) -> None:
    """Raise CaptureError unless `script` is a readable file of Python text."""
    path = Path(script)
    if path.is_dir():
        raise CaptureError(f"{script} is a directory; name the script in it, or run a package with --module.")
    if not path.exists():
        raise CaptureError(f"there is no script {script}; check the path, or use --module for a module's name.")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise CaptureError(f"{script} cannot be read: {error.strerror}.") from error
    if path.suffix == ".ipynb":
        raise CaptureError(f"{script} is a notebook; capture what `jupyter nbconvert --to script {script}` makes.")
    if b"\0" in source:
        raise CaptureError(f"{script} is not Python text; name a .py file.")
    try:
        with warnings.catch_warnings(action="ignore"):  # they come when it runs
            compile(source, os.path.join(os.getcwd(), script), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise CaptureError(_not_python(script, error)) from None


def _not_python(name: str, error: SyntaxError) -> str:
    return f"{name} is not valid Python:\n{''.join(traceback.format_exception_only(error)).rstrip()}"


def run(script: str, args: Sequence[str], *, module: bool, at_end: Callable[[], object]) -> Ending:
    """Run `script` as `__main__`, wait for its threads, then call `at_end`; say how it ended.

    Exceptions are printed by `sys.excepthook`, without tracekit's frames, and become exit codes. Each of
    ENDING, where nobody handles it, becomes SystemExit, so that `finally` blocks run. `sys.argv`, `sys.path` and
    `__main__` stay as the script left them (see `put_back`). Threads of an executor that was never shut down are not
    waited for: they end with the interpreter. Raises CaptureError where `script` names no module of valid Python.
    """
    before = set(threading.enumerate())
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        vars(main).update(__annotations__={})
    sys.modules["__main__"] = main

    def execute() -> None:
        code = _module_code(main, script, args) if module else _file_code(main, script, args)
        exec(code, main.__dict__)

    def wait() -> None:
        _join_threads(before)
        at_end()

    deepest, modules = sys.getrecursionlimit(), dict(sys.modules)
    with ending_raises():
        ending = _ending_of(execute)
        # What follows is not the script's, which may have left neither.
        sys.setrecursionlimit(max(deepest, sys.getrecursionlimit()))
        sys.modules |= {name: module for name, module in modules.items() if name not in sys.modules}
        if not ending.interrupted:
            # As at the interpreter's exit, the script's work goes on after its last line until a signal cuts it short.
            waiting = _ending_of(wait)
            ending = waiting if waiting.exit_code else ending
    return ending


@contextmanager
def put_back() -> Iterator[None]:
    """Restore `sys.argv`, `sys.path`, `__main__` and the environment after the block."""
    argv, path, main, environ = sys.argv, sys.path[:], sys.modules["__main__"], dict(os.environ)
    try:
        yield
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = argv, path, main
        for name in set(os.environ) - set(environ):
            del os.environ[name]
        for name, value in environ.items():
            if os.environ.get(name) != value:
                os.environ[name] = value


def _file_code(main: ModuleType, script: str, args: Sequence[str]) -> CodeType:
    # Like the interpreter: __file__ is absolute but not normalised, sys.path[0] follows links.
    file = os.path.join(os.getcwd(), script)
    sys.argv = [script, *args]
    _set_first_path(os.path.dirname(os.path.realpath(script)))
    main.__dict__.update(
        __file__=file, __cached__=None, __package__=None, __spec__=None, __loader__=SourceFileLoader("__main__", file)
    )
    with io.open_code(file) as source:
        return compile(source.read(), file, "exec", dont_inherit=True)


def _module_code(main: ModuleType, name: str, args: Sequence[str]) -> CodeType:
    sys.argv = ["-m", *args]
    _set_first_path(os.getcwd())
    spec = _find(name)
    if spec is not None and spec.submodule_search_locations is not None:
        name += ".__main__"
        spec = _find(name)
    code = None
    if spec is not None and isinstance(spec.loader, InspectLoader):
        try:
            code = spec.loader.get_code(spec.name)
        except SyntaxError as error:
            raise _NoCodeError(_not_python(name, error)) from None
    if spec is None or code is None:
        raise _NoCodeError(f"there is no module {name} to run; check the name and the directory you are in.")
    sys.argv = [spec.origin or name, *args]
    main.__dict__.update(
        __file__=spec.origin, __cached__=spec.cached, __package__=spec.parent, __spec__=spec, __loader__=spec.loader
    )
    return code


def _find(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a parent package was found, and its own imports fail
        return None
    except ValueError:
        return None


def _set_first_path(directory: str) -> None:
    # Entry 0 belongs to whoever was started (tracekit's own command); with python -P there is none.
    if not sys.flags.safe_path:
        sys.path[:1] = [directory]


@contextmanager
def ending_raises() -> Iterator[None]:
    """Let each of ENDING that nobody handles raise, so that `finally` blocks run and the trace is written."""
    unhandled = [number for number in ENDING if signal.getsignal(number) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        unhandled = []

    def terminate(signum: int, frame: FrameType | None) -> None:
        signal.signal(signum, signal.SIG_DFL)  # a second one ends the process at once
        raise _Terminated(128 + signum)

    def leave() -> None:
        for number in unhandled:
            if signal.getsignal(number) is terminate:
                signal.signal(number, signal.SIG_DFL)

    for number in unhandled:
        signal.signal(number, terminate)
    if unhandled:  # what the script forks has no trace to write, and ends as it does without a capture
        os.register_at_fork(after_in_child=leave)
    try:
        yield
    finally:
        leave()


class _Terminated(SystemExit):
    """A signal of ENDING arrived."""


class _NoCodeError(CaptureError):
    """The name given is of no module, or of none in Python: tracekit's own sentence, where any other error is the
    script's."""


def _ending_of(action: Callable[[], None]) -> Ending:
    try:
        action()
    except _NoCodeError:
        raise
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return Ending((exit_.code or 0) & 0xFF, interrupted=isinstance(exit_, _Terminated))
        print(exit_.code, file=sys.stderr, flush=True)
        return Ending(1)
    except BaseException as error:
        _print(error)
        interrupted = isinstance(error, KeyboardInterrupt)
        return Ending(128 + signal.SIGINT if interrupted else 1, interrupted)
    return Ending(0)


def _print(error: BaseException) -> None:
    trace = error.__traceback__ = _foreign_frames(error.__traceback__)
    try:
        sys.excepthook(type(error), error, trace)
    except Exception:
        sys.__excepthook__(type(error), error, trace)


def _foreign_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames of this package's code that runs scripts."""
    foreign: list[TracebackType] = []
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") not in _OWN_FRAMES:
            foreign.append(trace)
        trace = trace.tb_next
    for this, following in zip(foreign, [*foreign[1:], None], strict=False):  # there may be none
        this.tb_next = following
    return foreign[0] if foreign else None


def _join_threads(before: set[threading.Thread]) -> None:
    while True:
        # Idle workers of an executor wait for ever; the interpreter wakes them at its exit.
        threads, processes = (sys.modules.get(f"concurrent.futures.{kind}") for kind in ("thread", "process"))
        workers = {*getattr(threads, "_threads_queues", ()), *getattr(processes, "_threads_wakeups", ())}
        started = set(threading.enumerate()) - before - workers - {threading.current_thread()}
        pending = [thread for thread in started if not thread.daemon]
        if not pending:
            return
        pending[0].join()
