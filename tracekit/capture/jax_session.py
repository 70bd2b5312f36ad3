"""The profile of a capture of JAX: it begins when the script first initialises a backend, or later, never before."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import ModuleType
from typing import Any

from tracekit.capture import processes
from tracekit.capture.new_run import FACTS
from tracekit.capture.session import ROOM, Plan, Session, say, without_facts
from tracekit.capture.stretch import StepCounter, counting_annotation, counting_compiler
from tracekit.errors import CaptureError
from tracekit.files import utf8_name

# XLA warns of a collective that waits after 20 s, and ends the process after 40.
_STUCK_S, _IDLE_RATIO = 12.0, 0.05
_QUIET_S = 0.02  # the CPU runtime closes its pool regions a little after the result is ready


class JaxSession(Session):
    """The profile of one capture of JAX. `devices` is the number of virtual CPU devices, `host_level` how much the
    profiler records of the host. Where the trace is `uploaded`, nobody has to copy files between hosts."""

    PROFILER = "jax.profiler"
    ALIASES = ("jax.profiler", "jax")  # which name the functions of jax._src

    def __init__(self, plan: Plan, devices: int | None = None, host_level: int = 2, uploaded: bool = False) -> None:
        super().__init__(plan)
        self.devices, self.host_level = devices, host_level
        self._agreed: processes.Agreed | None = None  # what the processes of the run have agreed on
        self._apart: list[str] = []  # those of them that share no disk with process 0
        self._is_uploaded = uploaded
        self._stopped = threading.Event()
        self._named = ExitStack()  # as long as the profiler knows its directory by a name

    @property
    def omitted(self) -> str:
        """Nothing: which processes use a device is JAX's to know."""
        return ""

    def wait_for_processes(self) -> None:
        """Nothing: each process of a program of jax.distributed has a capture of its own."""

    def _hooks(self) -> dict[str, Callable[[ModuleType], None]]:
        actions = {
            "jax._src.xla_bridge": self._hook_backends,
            "jax._src.profiler": self._hook_profiler,
            "jax._src.clusters": processes.add_cluster,
        }
        if self.stretch is not None and self.stretch.step_function:
            actions |= dict.fromkeys(("jax._src.api", "jax._src.pmap"), self._hook_compilers)
        return actions

    def _start_if_in_use(self) -> None:
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
            if not self._is_in_use:
                with self._lock:  # other threads wait here until the profile runs
                    if not self._is_in_use and self._own_thread is None:
                        with self._on_our_own(), _uncached(bridge):
                            self._set_devices()
                            original()
                            self._is_in_use = True
                            self._begin_unless_later()
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

    def _may_postpone(self) -> bool:
        if not self._is_in_use or self._postponing:
            return True
        say(
            "tracekit.unrecorded() came after the first use of a device, where the profile began: it goes on. Put "
            "that inside the block."
        )
        return False

    def _start_profiler(self) -> None:
        import jax.profiler

        options = jax.profiler.ProfileOptions()
        options.host_tracer_level = self.host_level
        options.python_tracer_level = int(self.plan.python_tracer)
        options.session_id = self.name
        name = self._named.enter_context(utf8_name(self._profiled))
        jax.profiler.start_trace(name, profiler_options=options)

    def _versions(self) -> dict[str, str]:
        import jax
        import jaxlib.version

        return {"jax": jax.__version__, "jaxlib": jaxlib.version.__version__}

    def _described(self) -> dict[str, Any]:
        import jax

        if jax.default_backend() == "cpu" and jax.local_device_count() > 1:
            threading.Thread(target=self._watch, name="tracekit watch", daemon=True).start()
        machines: dict[str, str] = {}
        if self.process == 0:
            machines, self._apart = processes.machines()
        return {
            **({"machines": machines} if machines else {}),
            "platform": jax.default_backend(),
            "devices": [
                {"id": d.id, "kind": d.device_kind, "platform": d.platform, "process_index": d.process_index}
                for d in jax.devices()
            ],
            "xla_flags": os.environ.get("XLA_FLAGS", ""),
        }

    def _join(self) -> None:
        if (index := processes.joined()) is None:
            return
        self._agreed = processes.agreed(self.name, index, self.plan.folder)
        if self._agreed is None:
            self._say_apart("process", index)
        else:
            self.name, self.process = self._agreed.name, index

    def _meet(self) -> None:
        processes.meet()

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

    def _missing_steps(self, counter: StepCounter) -> str:
        return counter.missing

    def _others(self) -> None:
        return None

    def _ended(self) -> dict[str, Any]:
        self._stopped.set()
        return {}

    def _save(self, facts: str | None) -> None:
        import jax.profiler

        written = self._profiled / "plugins" / "profile" / self.name
        try:
            with self._on_our_own(), self._named:
                jax.profiler.stop_trace()
        except Exception as error:
            # The copy in JSON is begun when the XSpace is whole.
            copies = [*written.glob("*.trace.json.gz")]
            reason = str(error).rpartition("; ")[2]  # jax names the file before it
            if not copies:
                raise OSError(f"{reason}. {ROOM}") from error
            for copy in copies:
                copy.unlink()
            say(f"the trace is saved, without the profiler's copy in JSON, which could not be written: {reason}.")
        if not any(written.glob("*.xplane.pb")):
            raise FileNotFoundError(f"the profiler left no *.xplane.pb in {written}")
        try:
            if facts is not None:
                (written / FACTS).write_text(facts, "utf-8")
        except OSError as error:
            without_facts(written / FACTS, error)
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


@contextmanager
def _uncached(bridge: ModuleType) -> Iterator[None]:
    # The profiler asks for the backend, and a capture for the number of processes, while the script's own first
    # question, maybe the same one, is still being answered; the caches of jax 0.12 take that for endless recursion.
    cached = {name: value for name, value in vars(bridge).items() if hasattr(value, "cache_clear")}
    vars(bridge).update({name: getattr(value, "__wrapped__", value) for name, value in cached.items()})
    try:
        yield
    finally:
        vars(bridge).update(cached)


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
