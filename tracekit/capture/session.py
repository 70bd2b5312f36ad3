"""The one profile of a capture: it begins when the script first initialises a jax backend, or later, never before."""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import platform
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from tracekit import units
from tracekit.capture import processes
from tracekit.capture import stretch as stretches
from tracekit.capture.machine import MachineLoad
from tracekit.capture.new_run import FACTS
from tracekit.capture.stretch import StepCounter, Stretch, counting_annotation, counting_compiler
from tracekit.capture.sudden_end import SuddenEnd
from tracekit.errors import CaptureError
from tracekit.files import replaced

# XLA warns of a collective that waits after 20 s, and ends the process after 40.
_STUCK_S, _IDLE_RATIO = 12.0, 0.05
_QUIET_S = 0.02  # the CPU runtime closes its pool regions a little after the result is ready


class Session:
    """The profile of one capture: it waits for jax, starts with the first backend, or with its `stretch`, and keeps the
    script's own away. `about` is what is known before the run; it begins capture.json. Where it is `watched`, a second
    process says what was saved if this one is killed or crashes. Where it is `uploaded`, nobody has to copy files
    between hosts."""

    def __init__(
        self,
        folder: Path,
        name: str,
        devices: int | None,
        host_level: int,
        python_tracer: bool,
        stretch: Stretch | None,
        about: Mapping[str, Any],
        watched: bool = False,
        uploaded: bool = False,
    ) -> None:
        self.folder, self.name, self.devices = folder, name, devices
        self.host_level, self.python_tracer = host_level, python_tracer
        self.stretch, self.about = stretch, about
        self.facts: dict[str, Any] | None = None  # what the capture ran on; set once the profile runs
        self.problem: str | None = None  # why the profile did not start
        self.process: int | None = None  # the number of this process in a run that several capture
        self._agreed: processes.Agreed | None = None  # what these have agreed on
        self._apart: list[str] = []  # those of them that share no disk with process 0
        self._is_uploaded = uploaded
        self.is_stopped = False
        self._stopped = threading.Event()
        self.counter: StepCounter | None = None
        if stretch is not None and stretch.by_steps:
            self.counter = StepCounter(stretch, self._begin_when_idle, self._end)
        self._begun = time.monotonic()
        self._is_initialised = False
        self._postponing = 0  # blocks of `tracekit.unrecorded` that the script is in
        self._load = MachineLoad(family=processes.family(), job=processes.job())
        self._timer: threading.Timer | None = None
        self._is_watched, self._sudden_end = watched, SuddenEnd()
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._own_thread: int | None = None  # the thread in which tracekit itself calls the profiler
        self._undo: list[Callable[[], None]] = []
        self._has_warned = False

    @property
    def run(self) -> Path:
        """The directory of the trace."""
        return self.folder / "plugins" / "profile" / self.name

    @property
    def _profiled(self) -> Path:
        """Where the profiler writes, so that a run is there whole or not at all, and not beside other processes, which
        may give their files the same name."""
        return processes.draft(self.folder, self.name, self.process or 0)

    @property
    def unreached(self) -> str:
        """Why the script never came to the stretch: the end of a sentence about it; empty where that is not so."""
        if self._postponing and self._is_initialised:
            return "ended inside tracekit.unrecorded(), which keeps what it runs out of the trace"
        if self.stretch is None or not self._is_initialised:
            return ""
        if self.counter is not None:
            return self.counter.missing
        ended = units.time(round((time.monotonic() - self._begun) * 10**12))
        return f"ended after {ended}, and the stretch begins after {self.stretch.after_s:g} s"

    @property
    def short(self) -> str:
        """What of the stretch the script did not come to, as a sentence; empty where it is whole."""
        if self.counter is not None:
            return self.counter.short
        seconds = self.stretch.for_s if self.stretch is not None else None
        if seconds is None or self.facts is None or self.is_stopped:
            return ""
        ran = time.monotonic() - self._begun - self.facts["profiled_after_s"]
        return f"the script ended {units.time(round(ran * 10**12))} into the {seconds:g} s of the stretch."

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Hold the hooks in jax while the script runs; jax is not imported before the script does it."""
        actions = {
            "jax._src.xla_bridge": self._hook_backends,
            "jax._src.profiler": self._hook_profiler,
            "jax._src.clusters": processes.add_cluster,
        }
        if self.stretch is not None and self.stretch.step_function:
            actions |= dict.fromkeys(("jax._src.api", "jax._src.pmap"), self._hook_compilers)
        finder = AfterImport(actions)
        sys.meta_path.insert(0, finder)
        stretches.postponed = self._postponed
        try:
            for module_name, action in actions.items():
                if module_name in sys.modules:
                    action(sys.modules[module_name])
            self._start_now_if_initialised()
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
            with suppress(Exception):  # jax reports the script's failed work itself
                return self._wait_for_work(time.monotonic() + limit_s)
        return True

    def _wait_for_work(self, deadline: float) -> bool:
        import jax

        if deadline == float("inf"):
            jax.effects_barrier()
        platforms = list(sys.modules["jax._src.xla_bridge"].backends())
        if not _all_ready([array for name in platforms for array in jax.live_arrays(name)], deadline):
            return False
        busy = time.process_time()
        time.sleep(_QUIET_S)
        busy = time.process_time() - busy
        # Results that the script dropped are no live arrays. Devices work in order, so a last tiny program finds their
        # end; on CPU it runs only if something still computes, because it leaves an event in the trace.
        if busy > _QUIET_S / 10 or jax.default_backend() != "cpu":
            if not _all_ready(_last_programs(), deadline):
                return False
            time.sleep(_QUIET_S)
        return True

    def stop(self, **ending: Any) -> None:
        """Stop the profile, if it still runs, and write it with its capture.json, which `ending` completes."""
        with self._lock:
            assert self.facts is not None
            is_last = self.is_stopped  # of a stretch that was written while the script ran
            if not is_last:
                self.is_stopped = True
                self._stopped.set()
                self._load.stop()
                self.facts["profiled_s"] = round(time.monotonic() - self._begun - self.facts["profiled_after_s"], 6)
                self.facts["machine"] = self._load.facts()
            if self.counter is not None:
                self.facts["stretch"] |= {"first_step": self.counter.first, "captured_steps": self.counter.done}
            text = json.dumps({**self.about, **ending, **self.facts}, indent=2) + "\n"
            if not is_last:
                try:
                    self._save(None if self.process else text)  # process 0 speaks for all
                finally:
                    shutil.rmtree(self._profiled, ignore_errors=True)
                    self._sudden_end.avert()
            elif not self.process:
                replaced(self.run / FACTS, lambda draft: draft.write_text(text, "utf-8"))

    def _save(self, facts: str | None) -> None:
        """Let the profiler write its files, and move them to where a reader finds them, with these `facts`."""
        import jax.profiler

        written = self._profiled / "plugins" / "profile" / self.name
        try:
            with self._on_our_own():
                jax.profiler.stop_trace()
        except Exception as error:
            # The copy in JSON is begun when the XSpace is whole.
            copies = [*written.glob("*.trace.json.gz")]
            reason = str(error).rpartition("; ")[2]  # jax names the file before it
            if not copies:
                raise OSError(f"{reason}. Give an --out with room for it.") from error
            for copy in copies:
                copy.unlink()
            say(f"the trace is saved, without the profiler's copy in JSON, which could not be written: {reason}.")
        if not any(written.glob("*.xplane.pb")):
            raise FileNotFoundError(f"the profiler left no *.xplane.pb in {written}")
        try:
            if facts is not None:
                (written / FACTS).write_text(facts, "utf-8")
        except OSError as error:
            say(f"the trace is saved, without {FACTS}, which could not be written: {error.strerror}.")
            (written / FACTS).unlink(missing_ok=True)
        if self.process is None:
            self.run.parent.mkdir(parents=True, exist_ok=True)
            os.replace(written, self.run)
        else:
            processes.gather(written, self.run, self.process)
            assert self._agreed is not None
            if not self._is_uploaded and (
                sentence := processes.told_apart(self.run, self._agreed, self.process, self._apart)
            ):
                say(sentence)

    def _watch(self) -> None:
        """Say once where devices have work, and for long nothing computes."""
        import jax

        busy_at, used_s = time.monotonic(), time.process_time()
        while not self._stopped.wait(1.0):
            before, used_s = used_s, time.process_time()
            if used_s - before > _IDLE_RATIO:
                busy_at = time.monotonic()
            elif time.monotonic() - busy_at > _STUCK_S:
                with suppress(Exception):  # it may ask while the script ends
                    if any(not array.is_deleted() and not array.is_ready() for array in jax.live_arrays()):
                        say(
                            f"nothing has computed for {_STUCK_S:g} s, though the devices have work: the run seems "
                            "stuck, on CPU devices mostly in a collective with too many steps in flight. Then XLA "
                            "will end it without a trace; wait for the results every few steps "
                            "(docs/troubleshooting.md)."
                        )
                        return

    def _begin(self) -> None:
        """Begin the profile of a stretch."""
        with self._lock:
            if self.facts is None and self.problem is None:
                self._start()
                if self.stretch is not None and self.stretch.for_s is not None:
                    self._later(self.stretch.for_s, self._end)

    def _begin_when_idle(self) -> None:
        """Begin the profile with nothing of what came before still on the devices."""
        import jax

        with self._lock:
            if self.facts is None and self.problem is None:
                jax.devices()
                with suppress(Exception):  # jax reports the script's failed work itself
                    self._wait_for_work(float("inf"))
                self._begin()

    @contextmanager
    def _postponed(self) -> Iterator[None]:
        """Keep the profile from beginning with the first backend; it begins when the last such block ends."""
        if self.stretch is not None or os.getpid() != self._pid:
            yield
            return
        if self._is_initialised and not self._postponing:
            say(
                "tracekit.unrecorded() came after the first use of a device, where the profile began: it goes on. Put "
                "that inside the block."
            )
            yield
            return
        self._postponing += 1
        try:
            yield
        finally:
            self._postponing -= 1
            if self._is_initialised and not self._postponing:
                self._begin_when_idle()

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

    def _start_now_if_initialised(self) -> None:
        bridge = sys.modules.get("jax._src.xla_bridge")
        if bridge is None or not bridge.backends_are_initialized():
            return
        if self.devices is not None:
            raise CaptureError(
                "jax has its devices already in this process; leave out devices=, or use the command line."
            )
        bridge.backends()
        if self.problem:
            raise CaptureError(self.problem)

    def _hook_backends(self, bridge: ModuleType) -> None:
        original = getattr(bridge, "backends", None)
        if original is None:
            self._fail("this jax has no jax._src.xla_bridge.backends to wait for; tracekit knows jax 0.10.2 to 0.12.0.")
            return

        def backends() -> Any:
            if not self._is_initialised:
                with self._lock:  # other threads wait here until the profile runs
                    if not self._is_initialised and self._own_thread is None:
                        with self._on_our_own(), _uncached(bridge):
                            self._set_devices()
                            original()
                            self._is_initialised = True
                            self._start_unless_later()
            return original()

        self._replace(bridge, "backends", backends)

    def _hook_profiler(self, profiler: ModuleType) -> None:
        # jax 0.12 starts and stops every profile in ProfileSession, jax 0.10 in two functions.
        owner, start, stop = getattr(profiler, "ProfileSession", profiler), "start", "stop"
        if owner is profiler:
            start, stop = "start_trace", "stop_trace"
        begin, end = getattr(owner, start, None), getattr(owner, stop, None)
        if begin is None or end is None:  # a jax to come: it will raise its own error when the script profiles too
            return

        def not_started(*args: Any, **kwargs: Any) -> Any:
            if self._own_thread == threading.get_ident():
                return begin(*args, **kwargs)
            self._warn_once()
            sys.modules["jax._src.xla_bridge"].get_backend()  # the script's call would have initialised the backends
            return args[0] if owner is not profiler else None

        def not_stopped(*args: Any, **kwargs: Any) -> Any:
            if self._own_thread == threading.get_ident():
                return end(*args, **kwargs)
            return self._warn_once()

        self._replace(owner, start, not_started)
        self._replace(owner, stop, not_stopped)
        if self.counter is not None and not self.counter.stretch.step_function:
            annotation = counting_annotation(profiler.StepTraceAnnotation, self.counter)
            self._replace(profiler, "StepTraceAnnotation", annotation)

    def _hook_compilers(self, module: ModuleType) -> None:
        for name in ("jit", "pmap"):
            if hasattr(module, name) and self.counter is not None:
                self._replace(module, name, counting_compiler(getattr(module, name), self.counter))

    def _replace(self, owner: Any, name: str, function: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        def swap(old: Any, new: Any) -> None:
            # jax and jax.profiler name the functions of jax._src once more, if they are imported by now.
            for place in (owner, sys.modules.get("jax.profiler"), sys.modules.get("jax")):
                if getattr(place, name, None) is old:
                    setattr(place, name, new)

        swap(original, function)
        self._undo.append(lambda: swap(function, original))

    def _fail(self, problem: str) -> None:
        self.problem = problem
        say(f"this run will leave no trace: {problem}")

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            say(
                "the script uses jax.profiler itself; one profile can run at a time, so its calls do nothing and this "
                "capture goes on. For the script's own profile run it with plain python."
            )

    def _set_devices(self) -> None:
        import jax

        config: Any = jax.config
        chosen = config.jax_num_cpu_devices
        if self.devices is None or self.devices == chosen:
            return
        if chosen >= 0:
            say(f"--devices {self.devices} is not used: jax_num_cpu_devices is {chosen} already.")
        elif "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
            say(f"--devices {self.devices} is not used: XLA_FLAGS sets the number of CPU devices.")
        else:
            config.update("jax_num_cpu_devices", self.devices)

    def _start_unless_later(self) -> None:
        if self._postponing:
            return
        if self.stretch is None or (self.stretch.after_s is None and self.stretch.for_s is not None):
            self._start()
            if self.stretch is not None and self.stretch.for_s is not None:
                self._later(self.stretch.for_s, self._end)
        elif self.stretch.after_s is not None:
            self._later(self.stretch.after_s - (time.monotonic() - self._begun), self._begin)

    def _start(self) -> None:
        import jax
        import jax.profiler
        import jaxlib.version

        self._join()
        options = jax.profiler.ProfileOptions()
        options.host_tracer_level = self.host_level
        options.python_tracer_level = int(self.python_tracer)
        options.session_id = self.name
        if self._is_watched:
            self._sudden_end.watch(self._profiled)
        try:
            with self._on_our_own():
                jax.profiler.start_trace(str(self._profiled), profiler_options=options)
        except Exception as error:  # it must not end the script
            self._sudden_end.avert()
            shutil.rmtree(self._profiled, ignore_errors=True)
            self._fail(f"jax.profiler did not start: {error}")
            return
        self._load.start()
        if jax.default_backend() == "cpu" and jax.local_device_count() > 1:
            threading.Thread(target=self._watch, name="tracekit watch", daemon=True).start()
        machines: dict[str, str] = {}
        if self.process == 0:
            machines, self._apart = processes.machines()
        self.facts = {
            **({"machines": machines} if machines else {}),
            "profiled_after_s": round(time.monotonic() - self._begun, 6),
            **({} if self.stretch is None else {"stretch": asdict(self.stretch)}),
            "versions": {
                "python": platform.python_version(),
                "jax": jax.__version__,
                "jaxlib": jaxlib.version.__version__,
                "tracekit": sys.modules["tracekit"].__version__,
            },
            "platform": jax.default_backend(),
            "devices": [
                {"id": d.id, "kind": d.device_kind, "platform": d.platform, "process_index": d.process_index}
                for d in jax.devices()
            ],
            "xla_flags": os.environ.get("XLA_FLAGS", ""),
        }

    def _join(self) -> None:
        """Where jax.distributed has joined several processes: capture into the run of process 0."""
        if (index := processes.joined()) is None:
            return
        self._agreed = processes.agreed(self.name, index, self.folder)
        if self._agreed is None:
            say(f"process 0 of this program is not captured into {self.folder}: process {index} has a run of its own.")
        else:
            self.name, self.process = self._agreed.name, index


class AfterImport(importlib.abc.MetaPathFinder):
    """Call an action on a module right after its import."""

    def __init__(self, actions: dict[str, Callable[[ModuleType], None]]) -> None:
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


@contextmanager
def _uncached(bridge: ModuleType) -> Iterator[None]:
    # The profiler asks for the backend while the script's own first question is still being answered; the cache around
    # get_backend of jax 0.12 takes that for endless recursion.
    cached = bridge.get_backend
    bridge.get_backend = getattr(bridge, "_get_backend_uncached", cached)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        bridge.get_backend = cached  # type: ignore[attr-defined]


def _all_ready(arrays: Sequence[Any], deadline: float) -> bool:
    # Polled, because a call that blocks inside jax has no time limit.
    for array in arrays:
        while not array.is_deleted() and not array.is_ready():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
    return True


def _last_programs() -> list[Any]:
    """Enqueue one tiny program on each device of this process; a trace shows it as `jit_tracekit_end`."""
    import jax
    import jax.numpy as jnp

    def tracekit_end() -> Any:
        return jnp.zeros(())

    results = []
    for device in jax.local_devices():
        with jax.default_device(device):
            results.append(jax.jit(tracekit_end)())
    return results
