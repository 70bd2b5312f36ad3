"""The part of a run that is profiled, where that is not all of it: some steps of the script, or some seconds."""

import functools
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import MethodType
from typing import Any

from tracekit.errors import CaptureError
from tracekit.units import quantity


@dataclass(frozen=True)
class Stretch:
    """The part of a run that `capture` profiles: some of its steps, or some seconds.

    `start_step` is the number of the first step, or the least that one may have; `steps` how many steps. They are those
    that the script marks with `jax.profiler.StepTraceAnnotation`, or with `step_function` the calls of the functions of
    that name that it compiles with `jax.jit` or `jax.pmap`, counted from 0. `after_s` are the seconds from the begin of
    the script on, `for_s` how many seconds. Without a begin the first step, or the first use of a device, is the begin;
    without an end it is the script's. Raises CaptureError for steps and seconds in one, and for a part of nothing.
    """

    start_step: int | None = None
    steps: int | None = None
    step_function: str | None = None
    after_s: float | None = None
    for_s: float | None = None

    def __post_init__(self) -> None:
        in_seconds = self.after_s is not None or self.for_s is not None
        if self.by_steps == in_seconds:
            raise CaptureError("a stretch is given either by steps or by time; leave out the one or the other.")
        if (self.steps is not None and self.steps < 1) or (self.start_step is not None and self.start_step < 0):
            raise CaptureError("a stretch has at least 1 step, and steps are counted from 0.")
        if (self.for_s is not None and self.for_s <= 0) or (self.after_s is not None and self.after_s < 0):
            raise CaptureError("a stretch takes more than 0 s, and begins at 0 s or later.")

    @property
    def by_steps(self) -> bool:
        """Whether steps of the script begin or end it."""
        return any(given is not None for given in (self.start_step, self.steps, self.step_function))


postponed: Callable[[], AbstractContextManager[None]] = nullcontext  # of the capture that runs in this process


@contextmanager
def unrecorded() -> Iterator[None]:
    """Under `tracekit capture`, begin the profile at the end of this block, once the devices have done its work.

    For what a script does before the part that is worth a trace: whole epochs, of which a few steps are recorded
    afterwards. Put the first use of a device inside: a profile that runs already goes on, which is said. A capture that
    is given a stretch keeps to that, and without a capture the block is like any other.
    """
    with postponed():
        yield


class StepCounter:
    """Counts the steps of a script, and calls `begin` before the first of a stretch, `end` after its last."""

    def __init__(self, stretch: Stretch, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self.stretch, self.begin, self.end = stretch, begin, end
        self.seen = 0  # steps that have begun
        self.latest = -1  # the number of the last of them
        self.first: int | None = None  # the number of the first step of the stretch
        self.done = 0  # steps of the stretch that have ended
        self.is_over = False
        self.others: set[str] = set()  # functions that the script compiles under other names
        self._pid, self._lock = os.getpid(), threading.RLock()

    def enter(self, number: int | None = None) -> bool:
        """A step begins; whether it is one of the stretch. Without a number it is counted."""
        if os.getpid() != self._pid:  # a fork of the script
            return False
        with self._lock:
            self.latest = self.seen if number is None else int(number)
            self.seen += 1
            begins = self.first is None and self.latest >= (self.stretch.start_step or 0)
            if begins:
                self.first = self.latest
                self.begin()
            return self.first is not None and not self.is_over

    def leave(self) -> None:
        """A step of the stretch ends."""
        with self._lock:
            self.done += not self.is_over
            if not self.is_over and self.done == self.stretch.steps:
                self.is_over = True
                self.end()

    @property
    def missing(self) -> str:
        """Why the stretch never began: the end of a sentence about the script."""
        start, name = self.stretch.start_step or 0, self.stretch.step_function
        if self.seen:
            what = f"calls of {name}" if name else "steps"
            return f"made {self.seen} {what}, the last is number {self.latest}, and none is number {start} or later"
        if name:
            others = f"; it compiles {', '.join(sorted(self.others)[:8])}" if self.others else ""
            return f"called no function {name} that jax.jit or jax.pmap compiled{others}"
        return (
            "marked no step with jax.profiler.StepTraceAnnotation; mark its steps, name its compiled step with "
            "--step-function, or give the stretch in seconds with --after and --for"
        )

    @property
    def short(self) -> str:
        """What of the stretch the script did not come to; empty where it is whole."""
        if self.stretch.steps is None or self.done >= self.stretch.steps:
            return ""
        return f"the script ended after {self.done} of {quantity(self.stretch.steps, 'step')}."


def counting_annotation(original: type[Any], counter: StepCounter) -> type[Any]:
    """`jax.profiler.StepTraceAnnotation` that tells `counter` of its steps."""

    class StepTraceAnnotation(original):  # type: ignore[misc]
        def __init__(self, name: str, **kwargs: Any) -> None:
            self._counts = counter.enter(kwargs.get("step_num"))  # before the annotation is recorded
            super().__init__(name, **kwargs)

        def __exit__(self, *raised: Any) -> Any:
            result = super().__exit__(*raised)
            if self._counts:
                counter.leave()
            return result

    for name in ("__module__", "__qualname__", "__doc__"):
        setattr(StepTraceAnnotation, name, getattr(original, name))
    return StepTraceAnnotation


def counting_compiler(compiler: Callable[..., Any], counter: StepCounter) -> Callable[..., Any]:
    """`jax.jit` or `jax.pmap` of which `counter` learns when the function of a stretch is called."""
    wanted = _in_a_trace((counter.stretch.step_function or "").removeprefix("jit_"))

    def counted(function: Any, compiled: Any) -> Any:
        while isinstance(function, functools.partial):  # jax calls it by the name of what it is part of
            function = function.func
        name = getattr(function, "__name__", "")
        if _in_a_trace(name) == wanted:
            return _CountedCalls(compiled, counter)
        if not str(getattr(function, "__module__", "jax")).startswith("jax") and name.isidentifier():
            counter.others.add(name)
        return compiled

    @functools.wraps(compiler)
    def compile_counted(*args: Any, **kwargs: Any) -> Any:
        compiled = compiler(*args, **kwargs)
        if args:
            return counted(args[0], compiled)
        return lambda function: counted(function, compiled(function))  # a decorator with options

    return compile_counted


def _in_a_trace(name: str) -> str:
    """A function's name as it stands in a trace: `_lambda` for `<lambda>`."""
    return name if name.isidentifier() else re.sub(r"\W+", "_", name).rstrip("_")


class _CountedCalls:
    """A compiled function whose calls are steps, except those inside the tracing of another; ahead-of-time compiled
    ones too."""

    def __init__(self, compiled: Any, counter: StepCounter) -> None:
        functools.update_wrapper(self, compiled)
        self._compiled, self._counter = compiled, counter

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _count(self._counter, self._compiled, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_compiled":  # while it is copied or unpickled
            raise AttributeError(name)
        return getattr(self._compiled, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """Trace it as jax does: from Python 3.12 on, isinstance(…, jax.stages.Wrapped) sees no attribute that is only
        handed on."""
        return self._compiled.trace(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Lower it as jax does; calls of what that is compiled to are steps."""
        lowered = self._compiled.lower(*args, **kwargs)
        return _changed(lowered, "compile", lambda compile, *args, **kwargs: self._counted(compile(*args, **kwargs)))

    def _counted(self, executable: Any) -> Any:
        return _changed(executable, "__call__", functools.partial(_count, self._counter))


def _count(counter: StepCounter, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a call gives, which is a step unless another function is being traced."""
    from jax._src import core

    counts = core.trace_state_clean() and counter.enter()
    result = call(*args, **kwargs)
    if counts:
        counter.leave()
    return result


def _changed(value: Any, name: str, change: Callable[..., Any]) -> Any:
    """`value`, of a subclass whose method `name` calls `change` with the old method and its arguments."""
    original = type(value)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return change(getattr(super(changed, self), name), *args, **kwargs)

    changed = type(original.__name__, (original,), {"__slots__": (), "__module__": original.__module__, name: method})
    value.__class__ = changed
    return value
