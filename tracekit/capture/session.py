"""The one profile of a capture, whatever framework makes it: when it begins and ends, and where its files go."""

import importlib.abc
import importlib.machinery
import json
import os
import platform
import shutil
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from tracekit import units
from tracekit.capture import processes
from tracekit.capture import stretch as stretches
from tracekit.capture.machine import MachineLoad
from tracekit.capture.new_run import FACTS
from tracekit.capture.stretch import StepCounter, Stretch
from tracekit.capture.sudden_end import SuddenEnd
from tracekit.files import replaced

ROOM = "Give an --out with room for it."


@dataclass(frozen=True)
class Plan:
    """What a capture is to record, and where: the run `name` in `folder`, all of it or a `stretch`.

    `about` is what is known before the run; it begins capture.json. With `python_tracer` Python's functions are
    recorded. Where it is `watched`, a second process says what was saved if this one is killed or crashes.
    """

    folder: Path
    name: str
    about: Mapping[str, Any] = field(default_factory=dict)
    stretch: Stretch | None = None
    python_tracer: bool = False
    watched: bool = False


class Session(ABC):
    """The profile of one capture: it starts when the script begins to use the framework, or with its stretch, and keeps
    the script's own away. The process `family` and its descendants are what is captured. No framework is imported
    before the script does it."""

    PROFILER: ClassVar[str]  # as the framework calls it
    ALIASES: ClassVar[tuple[str, ...]]  # modules that name what is hooked once more

    def __init__(self, plan: Plan, family: int | None = None) -> None:
        self.plan, self.name, self.stretch = plan, plan.name, plan.stretch
        self.facts: dict[str, Any] | None = None  # what the capture ran on; set once the profile runs
        self.problem: str | None = None  # why the profile did not start
        self.process: int | None = None  # the number of this process in a run that several capture
        self.is_stopped = False
        self.counter: StepCounter | None = None
        if self.stretch is not None and self.stretch.by_steps:
            self.counter = StepCounter(self.stretch, self._begin_when_idle, self._end)
        self._begun = time.monotonic()
        self._is_in_use = False  # the framework, so that the profile may begin
        self._postponing = 0  # blocks of `tracekit.unrecorded` that the script is in
        self._family = processes.family() if family is None else family
        self._load = self._new_load()
        self._timer: threading.Timer | None = None
        self._sudden_end = SuddenEnd()
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._own_thread: int | None = None  # the thread in which tracekit itself calls the profiler
        self._undo: list[Callable[[], None]] = []
        self._has_warned = False

    @property
    def run(self) -> Path:
        """The directory of the trace."""
        return self.plan.folder / "plugins" / "profile" / self.name

    @property
    def unreached(self) -> str:
        """Why the script never came to the stretch: the end of a sentence about it; empty where that is not so."""
        if self._postponing and self._is_in_use:
            return "ended inside tracekit.unrecorded(), which keeps what it runs out of the trace"
        if self.stretch is None or not self._is_in_use:
            return ""
        if self.counter is not None:
            return self._missing_steps(self.counter)
        ended = units.time(round((time.monotonic() - self._begun) * 10**12))
        return f"ended after {ended}, and the stretch begins after {self.stretch.after_s:g} s"

    @property
    def short(self) -> str:
        """What of the stretch the script did not come to, as a sentence; empty where it is whole."""
        if self.facts is None:
            return ""
        if self.counter is not None:
            return self.counter.short
        seconds = self.stretch.for_s if self.stretch is not None else None
        if seconds is None or self.is_stopped:
            return ""
        ran = time.monotonic() - self._begun - self.facts["profiled_after_s"]
        return f"the script ended {units.time(round(ran * 10**12))} into the {seconds:g} s of the stretch."

    @property
    def is_recorded(self) -> bool:
        """Whether there is a profile to write, or other processes of the script have written theirs."""
        return self.facts is not None or self._others() is not None

    @property
    @abstractmethod
    def omitted(self) -> str:
        """What of the script's processes is not in the trace, as a sentence; empty where all are."""

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Hold the hooks in the framework while the script runs. Raises CaptureError where it is there already and its
        profiler does not start."""
        actions = self._hooks()
        finder = AfterImport(actions)
        sys.meta_path.insert(0, finder)
        stretches.postponed = self._postponed
        try:
            for module_name, action in actions.items():
                if module_name in sys.modules:
                    action(sys.modules[module_name])
            self._start_if_in_use()
            yield
        finally:
            stretches.postponed = nullcontext
            with suppress(ValueError):  # the script may have rebuilt the list
                sys.meta_path.remove(finder)
            while self._undo:
                self._undo.pop()()
            if self._timer is not None:
                self._timer.cancel()

    def wait_for_work(self, limit_s: float = float("inf")) -> bool:
        """Wait until the devices have done all that was asked of them; False if `limit_s` was not enough."""
        if self.facts is not None and not self.is_stopped and os.getpid() == self._pid:  # a fork has no devices
            with suppress(Exception):  # the framework reports the script's failed work itself
                return self._wait_for_work(time.monotonic() + limit_s)
        return True

    def stop(self, **ending: Any) -> None:
        """Stop the profile, if it still runs, and write it with its capture.json, which `ending` completes."""
        with self._lock:
            if self.facts is None:  # others have theirs
                self._write_facts({**self.plan.about, **ending})
                return
            is_last = self.is_stopped  # of a stretch that was written while the script ran
            if not is_last:
                self.is_stopped = True
                self.facts |= self._ended()
                self._load.stop()
                self.facts["profiled_s"] = round(time.monotonic() - self._begun - self.facts["profiled_after_s"], 6)
                self.facts["machine"] = self._load.facts()
            if self.counter is not None:
                self.facts["stretch"] |= {"first_step": self.counter.first, "captured_steps": self.counter.done}
            facts = {**self.plan.about, **ending, **self.facts}
            if is_last:
                self._write_facts(facts)
                return
            try:
                self._save(None if self.process else self._text(facts))  # process 0 speaks for all
            finally:
                shutil.rmtree(self._profiled, ignore_errors=True)
                self._sudden_end.avert()

    @abstractmethod
    def wait_for_processes(self) -> None:
        """Wait, as the interpreter does at its exit, for the processes of the script that are captured too."""

    @abstractmethod
    def _hooks(self) -> dict[str, Callable[[ModuleType], None]]:
        """What is done to a module of the framework right after its import, by the module's name."""

    @abstractmethod
    def _start_if_in_use(self) -> None:
        """Begin where the script's process has used the framework before it was hooked."""

    @abstractmethod
    def _wait_for_work(self, deadline: float) -> bool:
        """Wait for the devices; False where they still work at the deadline."""

    @abstractmethod
    def _start_profiler(self) -> None:
        """Start the framework's profiler; raises whatever that raises."""

    @abstractmethod
    def _described(self) -> dict[str, Any]:
        """What the capture runs on, for capture.json."""

    @abstractmethod
    def _versions(self) -> dict[str, str]:
        """The versions of the framework and its parts."""

    @abstractmethod
    def _save(self, facts: str | None) -> None:
        """Let the profiler write its files, and move them to where a reader finds them, with these `facts`."""

    @abstractmethod
    def _join(self) -> None:
        """Where several processes of the program have met: capture into the run of the first."""

    @abstractmethod
    def _meet(self) -> None:
        """Wait until the profile of each process of the program has begun, for what begins later makes the others wait
        in their next collective, which would be in the trace."""

    @abstractmethod
    def _ended(self) -> dict[str, Any]:
        """End what the profiler must see the end of; what is known of the capture then only, for capture.json."""

    @abstractmethod
    def _others(self) -> Mapping[str, Any] | None:
        """The facts of the run that processes which the script has started have written; None where none has."""

    @abstractmethod
    def _may_postpone(self) -> bool:
        """Whether what the script does in a block of `tracekit.unrecorded` can be left out."""

    @abstractmethod
    def _missing_steps(self, counter: StepCounter) -> str:
        """Why no step began the stretch: the end of a sentence about the script."""

    def _text(self, facts: Mapping[str, Any]) -> str:
        """The text of capture.json with these facts, or where others have written one, theirs with how all ended."""
        if theirs := self._others():
            facts = {**theirs, **{name: facts[name] for name in ("exit_code", "wall_s") if name in facts}}
        return json.dumps(facts, indent=2) + "\n"

    def _write_facts(self, facts: Mapping[str, Any]) -> None:
        """Write the capture.json of a run that has its files."""
        if not self.process:
            text = self._text(facts)
            replaced(self.run / FACTS, lambda draft: draft.write_text(text, "utf-8"))

    @property
    def _profiled(self) -> Path:
        """Where the profiler writes, so that a run is there whole or not at all, and not beside other processes, which
        may give their files the same name."""
        return processes.draft(self.plan.folder, self.name, self.process or 0)

    def _new_load(self) -> MachineLoad:
        return MachineLoad(family=self._family, job=processes.job())

    def _begin_unless_later(self) -> None:
        """The script uses the framework: begin the profile, unless a block, a step or a time does so."""
        if self._postponing or self.counter is not None:
            return
        if self.stretch is not None and self.stretch.after_s is not None:
            self._later(self.stretch.after_s - (time.monotonic() - self._begun), self._begin)
        else:
            self._begin()

    def _begin(self) -> None:
        """Begin the profile, of a stretch too; in a fork of the script, which may not be one to have devices, none."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self.facts is None and self.problem is None:
                self._start()
                if self.stretch is not None and self.stretch.for_s is not None:
                    self._later(self.stretch.for_s, self._end)

    def _begin_when_idle(self) -> None:
        """Begin the profile with nothing of what came before still on the devices."""
        with self._lock:
            if self.facts is None and self.problem is None:
                with suppress(Exception):  # the framework reports the script's failed work itself
                    self._wait_for_work(float("inf"))
                self._begin()

    def _start(self) -> None:
        try:
            self._join()
            if self.plan.watched:
                self._sudden_end.watch(self._profiled, self.run)
            with self._on_our_own():
                self._start_profiler()
        except Exception as error:  # it must not end the script
            self._sudden_end.avert()
            shutil.rmtree(self._profiled, ignore_errors=True)
            self._fail(f"{self.PROFILER} did not start: {error}")
            return
        self._load.start()
        described = self._described()
        self.facts = {
            "profiled_after_s": round(time.monotonic() - self._begun, 6),
            **({} if self.stretch is None else {"stretch": asdict(self.stretch)}),
            "versions": {
                "python": platform.python_version(),
                **self._versions(),
                "tracekit": sys.modules["tracekit"].__version__,
            },
            **described,
        }
        if self.process is not None:
            with suppress(Exception):  # of the framework, where one of them is gone
                self._meet()

    def _end(self) -> None:
        """End the profile of a stretch; the script goes on."""
        with self._lock:
            if self.facts is None or self.is_stopped:
                return
            if self.counter is not None:
                self.wait_for_work()
            try:
                self.stop(exit_code=None)
            except Exception as error:  # it must not end the script
                say(f"the trace could not be written: {error}")
                return
            say("the stretch is captured; the script goes on without the profiler.")

    @contextmanager
    def _postponed(self) -> Iterator[None]:
        """Keep a block of `tracekit.unrecorded` out of the profile, which begins when the last of them ends."""
        if self.stretch is not None or os.getpid() != self._pid:
            yield
            return
        with self._lock:
            is_kept_out = self._may_postpone()
            self._postponing += is_kept_out
        try:
            yield
        finally:
            self._postponing -= is_kept_out
            if is_kept_out and self._is_in_use and not self._postponing:
                self._begin_when_idle()

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._timer = threading.Timer(max(0.0, seconds), action)
        self._timer.daemon = True
        self._timer.start()

    @contextmanager
    def _on_our_own(self) -> Iterator[None]:
        before, self._own_thread = self._own_thread, threading.get_ident()
        try:
            yield
        finally:
            self._own_thread = before

    def _replace(self, owner: Any, name: str, function: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        def swap(old: Any, new: Any) -> None:
            for place in (owner, *map(sys.modules.get, self.ALIASES)):  # those that are imported by now
                if getattr(place, name, None) is old:
                    setattr(place, name, new)

        swap(original, function)
        self._undo.append(lambda: swap(function, original))

    def _say_apart(self, kind: str, number: int) -> None:
        folder = self.plan.folder
        say(f"{kind} 0 of this program is not captured into {folder}: {kind} {number} has a run of its own.")

    def _fail(self, problem: str) -> None:
        self.problem = problem
        say(f"this run will leave no trace: {problem}")

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            say(
                f"the script uses {self.PROFILER} itself; one profile can run at a time, so its calls do nothing and "
                "this capture goes on. For the script's own profile run it with plain python."
            )


class AfterImport(importlib.abc.MetaPathFinder):
    """Call an action on a module right after its import."""

    def __init__(self, actions: Mapping[str, Callable[[ModuleType], None]]) -> None:
        self.actions = actions

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the module where Python would, and extend its loader."""
        action = self.actions.get(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if action else None
        if action is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            action(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def say(sentence: str) -> None:
    """Tell the user one thing on stderr, which keeps the script's stdout its own."""
    from tracekit.console import tell

    tell(f"tracekit: {sentence}")


def without_facts(path: Path, error: OSError) -> None:
    """Say that the trace is saved without its capture.json at `path`, and leave no part of that."""
    say(f"the trace is saved, without {FACTS}, which could not be written: {error.strerror}.")
    path.unlink(missing_ok=True)
