"""Run a Python script under the JAX profiler and leave a trace that TensorBoard accepts."""

import importlib.util
import os
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tracekit import remote
from tracekit.capture import processes as _processes
from tracekit.capture import script as _script
from tracekit.capture.framework import FRAMEWORKS, framework_of
from tracekit.capture.jax_session import JaxSession
from tracekit.capture.new_run import new_run
from tracekit.capture.session import Plan, Session, say
from tracekit.capture.stretch import Stretch
from tracekit.capture.torch_job import launch_name
from tracekit.capture.torch_session import TorchSession
from tracekit.errors import CaptureError, TracekitError
from tracekit.files import is_utf8, refuse_unwritable

_REPEATED = "TRACEKIT_REPEATED"  # set for each of several captures
_OF_JAX = ("--devices", "--host-level")
_LAST_WAIT_S = 2.0  # for work that an interrupted script left behind


@dataclass(frozen=True)
class Captured:
    """A finished capture, which every function that reads a trace takes for its path.

    `path` is the logdir for TensorBoard and `tracekit report`, `run` the new run in it, both URLs where the trace went
    to one, and `exit_code` that of the script. `unfinished`: the script was interrupted, and devices still worked when
    the trace was written. `process`: the number of this process where several capture into the run; else None.
    """

    path: Path | str
    run: Path | str
    exit_code: int
    unfinished: bool = False
    process: int | None = None

    def __fspath__(self) -> str:
        return str(self.path)


class NotUploadedError(CaptureError):
    """The trace was captured, and could not be uploaded: it stays on this machine."""


class NothingCapturedError(CaptureError):
    """The script ended and left no trace; `exit_code` is its own, or 1 where that is 0."""

    def __init__(self, reason: str, exit_code: int) -> None:
        super().__init__(f"nothing was captured: {reason}")
        self.exit_code = exit_code or 1


def capture(
    script: str | Path,
    args: Sequence[str] = (),
    *,
    module: bool = False,
    out: str | os.PathLike[str] | None = None,
    devices: int | None = None,
    host_level: int = 2,
    python_tracer: bool = False,
    stretch: Stretch | None = None,
    processes: int = 1,
    repeat: int = 1,
    framework: str | None = None,
    python: str | os.PathLike[str] | None = None,
    profiler: str | None = None,
    restore: bool = True,
) -> Captured:
    """Run `script` in this process under the profiler of its framework and return where its trace lies.

    The `framework` is "jax" or "torch"; None: "torch" where the script, or a file of its directory that it imports,
    imports torch and not jax. What follows is jax's; for torch see docs/howto/torch.md.

    The script runs as `__main__`, as `python script args` (with `module`: `python -m script args`) would run it. The
    profile begins when the script first initialises a jax backend, so its own XLA_FLAGS, jax.config updates and
    jax.distributed.initialize() hold; if this process has backends already, it begins at once. `devices` is the number
    of virtual CPU devices, unless the script or XLA_FLAGS say otherwise. Annotations that were open before the profile
    began are not in it. The profile of a `stretch` begins and ends with it; the trace is written there and then, and
    the script goes on. `out` may hold runs already: one is added. Processes that jax.distributed has joined, each
    captured into the same `out`, add one run, in which each has a file of its own. With `processes` that many are
    started as children and joined over loopback, where the script calls `jax.distributed.initialize()` without
    arguments. With `repeat` the script is captured so many times, each in a process of its own, into as many runs of
    `out`, the last of which is returned: `tracekit.compare` takes that directory as one side. `python` is another
    interpreter that runs the script under MXNet's profiler, `profiler` "nsys" for Nsight Systems: both in a process of
    its own, from its begin to its end. `sys.argv`, `sys.path`,
    `__main__` and the environment are restored afterwards, unless `restore` is False, for a process that ends right
    after; imported modules stay. Where the script ends the process with
    `os._exit` or replaces it with `os.exec…`, the trace is written first. Raises NothingCapturedError if no backend was
    used or the stretch never came, CaptureError if the capture cannot start.
    """
    if devices is not None and devices < 1:
        raise CaptureError(f"the number of devices must be at least 1, not {devices}.")
    if repeat < 1:
        raise CaptureError(f"the number of captures must be at least 1, not {repeat}.")
    if processes < 1:
        raise CaptureError(f"the number of processes must be at least 1, not {processes}.")
    if host_level not in range(4):
        raise CaptureError(f"the host level must be 0, 1, 2 or 3, not {host_level}.")
    script = str(script)
    if not module:
        _script.check_file(script)
    if framework not in (None, *FRAMEWORKS):
        raise CaptureError(f"the framework must be one of {', '.join(FRAMEWORKS)}, not {framework}.")
    if framework and (python is not None or profiler is not None):
        raise CaptureError(
            "--framework chooses among the profilers of this Python: give it without --python, --profiler."
        )
    framework = framework or framework_of(script, module)
    if python is None and profiler is None:
        if framework == "torch":
            _check_torch(script, module, devices, host_level, stretch)
        else:
            _check_installed("jax", script, module)
    home = Path.cwd() if module else Path(script).resolve().parent
    name, about = new_run(["python", *(["-m"] if module else []), script, *args], home)
    shared = launch_name() if framework == "torch" else None  # of ranks, all of which write there
    default = Path("traces", f"{script if module else Path(script).stem}-{shared or name}")
    place = default if out is None else remote.place(out)
    try:
        refuse_unwritable(place, "a trace")
    except TracekitError as error:
        raise CaptureError(str(error)) from None
    if python is not None or profiler is not None:
        chosen = _options(devices, host_level, python_tracer, stretch)
        record = _recorder(python, profiler, [*chosen, *(["--processes"] if processes > 1 else [])])
        if isinstance(place, Path) and not is_utf8(place.absolute()):
            its = "MXNet's profiler" if python is not None else "Nsight Systems"
            raise CaptureError(f"{its} takes no path that is not UTF-8, as {place.absolute()} is: give another --out.")
        if repeat > 1:
            words = [f"--python={python}"] if python is not None else [f"--profiler={profiler}"]
            return _repeated(repeat, place, [*words, *(["--module"] if module else []), script, *args])
        return _recorded(place, name, lambda folder: record(folder, name, about, script, args, module))
    if repeat > 1 or processes > 1:
        words = _options(devices, host_level, python_tracer, stretch) + (["--module"] if module else [])
        words += [f"--framework={framework}"]
        if repeat > 1:
            joined = [f"--processes={processes}"] if processes > 1 else []
            return _repeated(repeat, place, [*joined, *words, script, *args])
        return _several(processes, place, [*words, script, *args], framework)
    with _one_at_a_time(), _folder(place) as folder, _script.put_back() if restore else nullcontext():
        pid = os.getpid()
        plan = Plan(folder, name, about, stretch, python_tracer, watched=not restore)
        profile: Session = (
            TorchSession(plan)
            if framework == "torch"
            else JaxSession(plan, devices, host_level, uploaded=isinstance(place, str))
        )
        begin = time.perf_counter()

        def finish(ending: _script.Ending, exit_code: int | None) -> Captured:
            if not profile.is_recorded:
                reason = profile.problem or _unused(framework, script, ending.exit_code, profile.unreached)
                raise NothingCapturedError(" ".join(filter(None, (reason, profile.omitted))), ending.exit_code)
            unfinished = _write(profile, ending, exit_code=exit_code, wall_s=round(time.perf_counter() - begin, 6))
            if omitted := profile.omitted:
                say(omitted)
            if isinstance(place, str):
                _upload(folder, place)
            run = remote.child(place, f"plugins/profile/{profile.name}")
            return Captured(place, run, ending.exit_code, unfinished, process=profile.process)

        def wait() -> None:
            profile.wait_for_processes()
            profile.wait_for_work()

        with profile.hooked(), _leaving(profile, finish):
            try:
                ending = _script.run(script, args, module=module, at_end=wait)
            except CaptureError:
                if profile.facts is not None:  # the missing module's package has used a device
                    profile.stop()
                raise
            if os.getpid() != pid:  # a fork of the script, which leaves as python would; the trace is its parent's
                raise SystemExit(ending.exit_code)
        return finish(ending, ending.exit_code)


def _recorder(
    python: str | os.PathLike[str] | None, profiler: str | None, refused: Sequence[str]
) -> Callable[[Path, str, dict[str, Any], str, Sequence[str], bool], tuple[int, str]]:
    """What records a script in a process of its own, by another interpreter or another profiler; `refused` are the
    options given that the profilers of this Python alone have."""
    name = "--python" if python is not None else "--profiler"
    if python is not None and profiler is not None:
        raise CaptureError("--python and --profiler cannot be combined: --python is for MXNet's own profiler.")
    if unused := [option for option in refused if not option.startswith("--host-level=2")]:
        option = unused[0].partition("=")[0]
        whose = "jax's profiler" if option in _OF_JAX else "the profilers of JAX and PyTorch"
        raise CaptureError(f"{option} is for {whose}; leave it out with {name}.")
    from tracekit.capture import nsys_profile, other_python

    if python is not None:
        return partial(other_python.record, other_python.check(os.fspath(python)))
    return partial(nsys_profile.record, nsys_profile.check(str(profiler)))


def _recorded(place: Path | str, name: str, record: Callable[[Path], tuple[int, str]]) -> Captured:
    """What `record` adds to a folder as the run `name`: it gives the exit code of the script, and why there is no
    trace."""
    with _one_at_a_time(), _folder(place) as folder:
        exit_code, problem = record(folder)
        if problem:
            raise NothingCapturedError(problem, exit_code)
        if isinstance(place, str):
            _upload(folder, place)
    return Captured(place, remote.child(place, f"plugins/profile/{name}"), exit_code)


def _options(devices: int | None, host_level: int, python_tracer: bool, stretch: Stretch | None) -> list[str]:
    """These parameters as the command line has them."""
    values: dict[str, object] = {"devices": devices, "host-level": host_level}
    if stretch is not None:
        values |= {"start-step": stretch.start_step, "steps": stretch.steps, "step-function": stretch.step_function}
        values |= {
            name: None if seconds is None else f"{seconds}s"
            for name, seconds in (("after", stretch.after_s), ("for", stretch.for_s))
        }
    given = [f"--{name}={value}" for name, value in values.items() if value is not None]
    return given + (["--python-tracer"] if python_tracer else [])


def _repeated(count: int, out: Path | str, words: Sequence[str]) -> Captured:
    """Capture `count` times, one after the other and each in a process of its own, into as many new runs of `out`;
    `words` are the command line after `--out`. The first that fails is the last."""
    import subprocess

    def start(command: list[str]) -> int:
        for _ in range(count):
            if exit_code := subprocess.call(command, env={**os.environ, _REPEATED: "1"}):
                return exit_code
        return 0

    new, exit_code = _new_runs(start, out, words, "the script left no trace; what it said is above.")
    return Captured(out, new[-1], exit_code)


def _several(count: int, out: Path | str, words: Sequence[str], framework: str) -> Captured:
    """Capture `count` processes into one new run of `out`; `words` are the command line after `--out`."""
    nothing = f"none of {count} processes left a trace; what they said is above."
    new, exit_code = _new_runs(lambda command: _processes.start(command, count), out, words, nothing)
    if len(new) > 1:
        joining = (
            "torch.distributed.init_process_group()"
            if framework == "torch"
            else "jax.distributed.initialize() without arguments before its first jax device"
        )
        say(
            f"the {count} processes were not joined, and left {len(new)} runs, of which a report shows one "
            f"(--run NAME): the script did not call {joining}. Call that, and capture again."
        )
    return Captured(out, new[-1], exit_code)


def _new_runs(
    start: Callable[[list[str]], int], out: Path | str, words: Sequence[str], nothing: str
) -> tuple[list[Path | str], int]:
    """The runs that `start` adds to `out` with the command of a capture, and its exit code; `nothing` says that there
    are none."""
    before = _runs(out)
    exit_code = start([sys.executable, "-m", "tracekit", "capture", "--out", str(out), *words])
    new = [run for run in _runs(out) if run not in before]
    if not new:
        raise NothingCapturedError(nothing, exit_code)
    return new, exit_code


def _runs(out: Path | str) -> list[Path | str]:
    """The runs in a log directory, by name."""
    runs = remote.child(out, "plugins/profile")
    if isinstance(runs, str):
        return [remote.child(runs, name) for name in remote.directories(runs)]
    return [*sorted(runs.iterdir())] if runs.is_dir() else []


@contextmanager
def _folder(place: Path | str) -> Iterator[Path]:
    """The directory on this machine that the trace is written to; for a URL a temporary one."""
    if isinstance(place, Path):
        yield place.absolute()  # the script may change the directory
        return
    draft = Path(tempfile.mkdtemp(prefix="tracekit-capture-"))
    try:
        yield draft
    except NotUploadedError:
        raise
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _upload(draft: Path, url: str) -> None:
    """Upload a trace, and remove it from this machine. Raises NotUploadedError, which says where it stays."""
    try:
        remote.upload(draft, url)
    except TracekitError as error:
        raise NotUploadedError(f"{error} The trace stays in {draft}: copy it from there.") from error
    shutil.rmtree(draft, ignore_errors=True)


def say_written(captured: Captured) -> None:
    """Say on stderr where the trace is, and what comes next; stdout is the script's."""
    from tracekit.console import tell

    if _processes.is_started() or captured.process:  # who started it says so for all, or rank 0 does
        return
    tell(f"Wrote {captured.run}")
    if _REPEATED in os.environ:  # who repeats it says what comes next
        return
    tell(f"Next: tracekit report {shlex.quote(str(captured.path))}")


_running = threading.Lock()


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    if not _running.acquire(blocking=False):
        raise CaptureError("a capture is already running in this process; one profile can run at a time.")
    try:
        yield
    finally:
        _running.release()


@contextmanager
def _leaving(profile: Session, finish: Callable[[_script.Ending, int | None], Captured]) -> Iterator[None]:
    """While the script runs, let `finish` write the trace before it ends this process past Python's own end."""
    pid = os.getpid()

    def save(exit_code: int | None, how: str) -> int:
        """Write what there is; the exit code, which is not 0 where that is nothing."""
        if profile.facts is not None and not profile.is_stopped:
            say(f"the script {how}; writing the trace up to here.")
        profile.wait_for_work(_LAST_WAIT_S)
        try:
            say_written(finish(_script.Ending(exit_code or 0), exit_code))
        except CaptureError as error:
            say(f"the script {how}; {error}")
            return error.exit_code
        return exit_code or 0

    def leave(status: int) -> None:
        if os.getpid() == pid:
            status = save(status & 0xFF, f"ended with os._exit({status})")
        leave_now(status)

    def replacing(original: Callable[..., Any]) -> Callable[..., Any]:
        def replace(path: Any, *rest: Any) -> Any:
            # os.execvp tries each directory of PATH.
            if os.getpid() == pid and os.access(path, os.X_OK):
                save(None, f"replaces this process with {os.fsdecode(path)}, which is not captured")
            return original(path, *rest)

        return replace

    leave_now, old = os._exit, {name: getattr(os, name) for name in ("execv", "execve")}
    new = {"_exit": leave, **{name: replacing(original) for name, original in old.items()}}
    for name, function in new.items():
        setattr(os, name, function)
    try:
        yield
    finally:
        for name, original in {"_exit": leave_now, **old}.items():
            if getattr(os, name) is new[name]:  # the script may have its own by now
                setattr(os, name, original)


def _write(profile: Session, ending: _script.Ending, **facts: Any) -> bool:
    """Write the trace and capture.json with these facts; True if devices still do what an interrupted script left."""
    with _no_interrupts():
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        unfinished = False
        if ending.interrupted and not profile.is_stopped:
            say("interrupted; writing the trace.")
            unfinished = not profile.wait_for_work(_LAST_WAIT_S)
        if short := profile.short:
            say(short)
        try:
            profile.stop(**facts)
        except Exception as error:
            raise NothingCapturedError(f"the trace could not be written: {error}", ending.exit_code) from error
    return unfinished


def _check_torch(script: str, module: bool, devices: int | None, host_level: int, stretch: Stretch | None) -> None:
    """Raise CaptureError for options that torch has not, and where the script could not import torch."""
    if devices is not None:
        raise CaptureError(
            "--devices makes jax's CPU devices; torch has one CPU. --processes 2 starts two ranks, each a device."
        )
    if host_level != 2:
        raise CaptureError("--host-level is of jax's profiler; torch's always records its operators.")
    if stretch is not None and stretch.step_function:
        raise CaptureError("--step-function names a compiled function of jax; torch's steps end with Optimizer.step().")
    _check_installed("torch", script, module)


_HOW_TO_INSTALL = {
    "jax": "`pip install jax`, or for GPUs and TPUs see https://docs.jax.dev/en/latest/installation.html",
    "torch": "`pip install torch`, or for a build without CUDA see https://pytorch.org/get-started/locally",
}


def _check_installed(framework: str, script: str, module: bool) -> None:
    """Raise CaptureError where the script could not import the framework, installed or in the directory that it starts
    from."""
    directory = Path.cwd() if module else Path(script).resolve().parent
    if framework in sys.modules or (directory / framework).is_dir():
        return
    with suppress(ModuleNotFoundError):
        if importlib.util.find_spec(framework) is not None:
            return
    raise CaptureError(
        f"{framework} is not installed in this Python, and a capture needs it: {_HOW_TO_INSTALL[framework]}. Traces "
        "can be read without it."
    )


def _unused(framework: str, script: str, exit_code: int, unreached: str) -> str:
    if unreached:
        return f"{script} {unreached}."
    ended = f" before it ended with exit code {exit_code}" if exit_code else ""
    if framework == "torch":
        return f"{script} did not import torch in this process{ended}, and a profile begins when it does."
    reason = "used no jax device" if "jax" in sys.modules else "did not import jax"
    other = " It imported torch: --framework torch captures that." if "torch" in sys.modules else ""
    return f"{script} {reason} in this process{ended}, and a profile begins with a script's first jax device.{other}"


@contextmanager
def _no_interrupts() -> Iterator[None]:
    # A second Ctrl-C must not cut the file that the first one asked for.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, *_script.ENDING)}
    try:
        yield
    finally:
        for number, handler in old.items():
            if handler is not None:
                signal.signal(number, handler)
