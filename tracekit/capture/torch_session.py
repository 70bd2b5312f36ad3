"""The profile of a capture of PyTorch: it begins when the script has imported torch, or later, never before.

Kineto's callbacks are those of all threads here: the profile may begin and end on another thread than the script's, and
holds the operators of threads that the script starts itself.
"""

import gzip
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from tracekit import units
from tracekit.capture import processes, script, torch_job
from tracekit.capture.new_run import FACTS
from tracekit.capture.session import ROOM, Plan, Session, say, without_facts
from tracekit.capture.stretch import StepCounter
from tracekit.capture.sudden_end import SuddenEnd
from tracekit.capture.torch_children import Children
from tracekit.errors import CaptureError
from tracekit.files import replaced, utf8_name

_LAST_WAIT_S = 2.0  # for what a process that ends has left to its devices
_NO_STEPS = (
    "called no torch.optim.Optimizer.step(), after which a step is counted; give the stretch in seconds with --after "
    "and --for"
)


class TorchSession(Session):
    """The profile of one capture of PyTorch, of one process; those of a job of torch.distributed are in one run."""

    PROFILER = "torch.profiler"
    ALIASES = ("torch.distributed",)

    def __init__(self, plan: Plan, parent: int | None = None) -> None:
        """`parent` is the process that has started this one by multiprocessing, and that is captured too: the profile
        here begins when it joins a job."""
        super().__init__(plan, parent or (os.getppid() if torch_job.launch_name() else None))
        self._awaits_job = parent is not None
        self._children = Children(partial(record_child, plan, self._pid))
        self._is_hooked = False
        self._profile: Any = None
        # Whose steps are counted: the first that makes one, and when the script has let go of it, the next.
        self._optimizer: weakref.ref[Any] | None = None
        self._steps_made, self._is_in_step, self._has_stepped = 0, False, False
        self._step: Any = None  # the annotation of the step that goes on
        self._job: dict[str, Any] = {}  # what torch.distributed says of the job
        self._machines: dict[str, str] = {}  # of each rank, by the name that its file gives its host

    @property
    def omitted(self) -> str:
        """What of the script's processes is not in the trace, as a sentence; empty where all are."""
        return self._children.missing(self.run)

    def wait_for_processes(self) -> None:
        """Wait for those that multiprocessing has started for the script."""
        if os.getpid() == self._pid:
            self._children.join()

    def _hooks(self) -> dict[str, Callable[[ModuleType], None]]:
        torch_job.set_ranks()
        return {"torch": self._hook}

    def _start_if_in_use(self) -> None:
        if self.problem:
            raise CaptureError(self.problem)

    def _hook(self, torch: ModuleType) -> None:
        if self._is_hooked or not hasattr(torch, "profiler"):
            return
        self._is_hooked = True
        try:
            self._keep_away(sys.modules["torch.autograd.profiler"].profile)
            distributed = sys.modules.get("torch.distributed.distributed_c10d")
            if distributed is not None:
                self._hook_distributed(distributed)
        except (AttributeError, KeyError) as error:
            self._fail(f"this torch, {torch.__version__}, has no {error} to hook; tracekit knows torch 2.1 to 2.13.")
            return
        if not self._awaits_job:
            self._undo.append(self._children.hook())
            self._use()

    def _use(self) -> None:
        """Begin here, or let a step or a time begin the profile."""
        self._is_in_use = True
        if self.counter is not None or (self.stretch is not None and self.stretch.after_s is not None):
            self._wake()
        if self.counter is not None:
            self._count_steps()
        self._begin_unless_later()

    def _wake(self) -> None:
        """Let Kineto start on this thread, the one that it wants first."""
        with self._on_our_own(), suppress(Exception):
            profile = self._new_profile()
            with _without_marks():
                profile.start()
                profile.stop()

    def _keep_away(self, backend: Any) -> None:
        """Let profiles of the script, of the class `backend`, do nothing: one can run at a time."""
        from torch.autograd.profiler_util import EventList

        def only_ours(name: str, gives: Callable[[Any], Any]) -> None:
            original = getattr(backend, name)

            def method(profile: Any, *args: Any, **kwargs: Any) -> Any:
                if self._own_thread == threading.get_ident() or not profile.enabled:
                    return original(profile, *args, **kwargs)
                self._warn_once()
                return gives(profile)

            setattr(backend, name, method)
            self._undo.append(lambda: setattr(backend, name, original))

        def empty(profile: Any) -> None:
            events = EventList([])
            events._build_tree()
            for attribute in ("_function_events", "function_events"):  # of torch 2.4 on, and before
                with suppress(AttributeError):
                    setattr(profile, attribute, events)

        for name in ("__enter__", "_prepare_trace", "_start_trace"):
            only_ours(name, lambda profile: profile)
        only_ours("__exit__", empty)
        only_ours("export_chrome_trace", lambda profile: None)

    def _hook_distributed(self, distributed: ModuleType) -> None:
        """Agree on a run when the ranks of the job meet, and note what they are before they part."""
        init, destroy = distributed.init_process_group, distributed.destroy_process_group

        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            result = init(*args, **kwargs)
            with suppress(Exception):  # it must not end the script
                self._join()
            if self._awaits_job and os.getpid() == self._pid:
                self._awaits_job = False
                self._use()
            return result

        def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
            self._note_job()
            return destroy(*args, **kwargs)

        self._replace(distributed, "init_process_group", init_process_group)
        self._replace(distributed, "destroy_process_group", destroy_process_group)

    def _note_job(self) -> None:
        """Keep what the job is, as the profiler writes it."""
        with suppress(Exception):  # as above
            job = torch_job.described()
            known = {group["pg_name"]: group for group in [*self._job.get("pg_config", []), *job.get("pg_config", [])]}
            groups = {"pg_count": len(known), "pg_config": [*known.values()]}  # those that are gone by now, too
            self._job |= job | (groups if known else {})

    def _join(self) -> None:
        if os.getpid() != self._pid or self.process is not None or self.is_stopped:
            return
        self._note_job()
        rank, size = self._job.get("rank"), self._job.get("world_size", 1)
        if rank is None or size < 2:
            return
        agreed = torch_job.agreed(self.name, rank, size)
        if agreed is None:
            self._say_apart("rank", rank)
        else:
            (self.name, self._machines), self.process = agreed, rank
            if self.facts is not None:
                torch_job.say_begun()

    def _meet(self) -> None:
        torch_job.say_begun()
        torch_job.wait_for_begun()

    def _count_steps(self) -> None:
        """Count the steps of the first optimizer that makes one: each ends with `Optimizer.step`."""
        optimizers: Any = sys.modules["torch.optim.optimizer"]
        register = getattr(optimizers, "register_optimizer_step_post_hook", None)
        if register is None:
            self._fail("this torch has no hooks for all optimizers, so steps are not counted; use --after and --for.")
            return
        self._undo.append(register(self._stepped).remove)
        # The hook runs inside the annotation of Optimizer.step, which would last until the profile ends.
        annotation = sys.modules["torch.autograd.profiler"].record_function
        leave = annotation.__exit__

        def left(block: Any, *raised: Any) -> Any:
            result = leave(block, *raised)
            if self._has_stepped and block.name.startswith("Optimizer.step#"):
                self._has_stepped = False
                self._next_step()
            return result

        self._replace(annotation, "__exit__", left)
        self._enter_step()

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        if self._optimizer is None or self._optimizer() is None:
            self._optimizer = weakref.ref(optimizer)
        self._has_stepped = optimizer is self._optimizer() and os.getpid() == self._pid

    def _next_step(self) -> None:
        assert self.counter is not None
        self._steps_made += 1
        self._leave_step()
        if self._is_in_step:
            self.counter.leave()
        if not self.counter.is_over:
            self._enter_step()

    def _enter_step(self) -> None:
        assert self.counter is not None
        self._is_in_step = self.counter.enter()
        # Without an end the last of them would not be one: what follows the training is in it.
        if self._is_in_step and self.stretch is not None and self.stretch.steps is not None:
            from torch.profiler import record_function

            self._step = record_function(f"ProfilerStep#{self.counter.latest}")
            self._step.__enter__()

    def _leave_step(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)

    def _missing_steps(self, counter: StepCounter) -> str:
        start, made = counter.stretch.start_step or 0, self._steps_made
        return f"made {units.quantity(made, 'step')} from 0 on, and none is number {start}" if made else _NO_STEPS

    def _new_profile(self) -> Any:
        """The profile, of all threads where this torch can."""
        from torch._C._profiler import _ExperimentalConfig
        from torch.profiler import profile, supported_activities

        options: dict[str, Any] = {"enable_cuda_sync_events": True, "profile_all_threads": True}
        if not self.plan.python_tracer:
            options["trace_only"] = True
        known = _ExperimentalConfig.__init__.__doc__ or ""
        config = _ExperimentalConfig(**{name: value for name, value in options.items() if f"{name}:" in known})
        return profile(
            activities=supported_activities(),
            record_shapes=True,
            with_stack=self.plan.python_tracer,
            experimental_config=config,
        )

    def _start_profiler(self) -> None:
        self._profile = self._new_profile()
        with _without_marks(), warnings.catch_warnings():
            # torch 2.11, where it has a GPU, on profiles of several cycles; this is of one.
            warnings.filterwarnings("ignore", ".*Profiler clears events at the end of each cycle")
            self._profile.start()

    def _versions(self) -> dict[str, str]:
        import torch

        return {"torch": str(torch.__version__)}

    def _described(self) -> dict[str, Any]:
        import torch

        return {"framework": "torch", "threads": torch.get_num_threads()}

    def _others(self) -> Mapping[str, Any] | None:
        if not self._children.are_in(self.run):
            return None
        with suppress(OSError, ValueError):
            facts: Mapping[str, Any] = json.loads((self.run / FACTS).read_text("utf-8"))
            return facts
        return {}

    def _ended(self) -> dict[str, Any]:
        self._leave_step()
        return {**_devices(), **({"machines": self._machines} if self._machines else {})}

    def _may_postpone(self) -> bool:
        """End the profile that runs, and keep nothing of it: it begins with the import of torch, which may lie before
        the warm-up that a block leaves out."""
        if self.facts is not None and not self._postponing:
            self.wait_for_work()
            with self._on_our_own(), suppress(Exception), _without_marks():
                self._profile.stop()
            self._load.stop()
            self._load = self._new_load()
            self._sudden_end.avert()
            self._sudden_end, self._profile, self.facts = SuddenEnd(), None, None
        return True

    def _wait_for_work(self, deadline: float) -> bool:
        import torch

        if not torch.cuda.is_initialized():
            return True

        def wait() -> None:
            with suppress(Exception):  # torch reports the script's failed work itself
                for device in range(torch.cuda.device_count()):
                    torch.cuda.synchronize(device)

        if deadline == float("inf"):
            wait()
            return True
        waiting = threading.Thread(target=wait, name="tracekit wait", daemon=True)  # the call has no limit of time
        waiting.start()
        waiting.join(max(0.0, deadline - time.monotonic()))
        return not waiting.is_alive()

    def _save(self, facts: str | None) -> None:
        self._note_job()
        rank = self._job.get("rank", torch_job.rank())
        name = f"{socket.gethostname()}{'' if rank is None else f'-rank{rank}'}.pt.trace.json"
        self._profiled.mkdir(parents=True, exist_ok=True)
        document = self._profiled / name
        with self._on_our_own():
            if self._job:
                self._profile.add_metadata_json("distributedInfo", json.dumps(self._job, default=str))
            with _without_marks():
                self._profile.stop()
            with utf8_name(self._profiled) as directory:
                self._profile.export_chrome_trace(f"{directory}/{name}")
        self._profile = None
        if not _is_whole(document):  # Kineto does not tell that a disk is full
            raise OSError(f"the profiler left no whole file. {ROOM}")
        is_kept = True
        if facts is not None and self._others() is not None:
            is_kept = _has_phase(document)  # else it began the ranks, and waited for them
            of_all = json.loads(facts)
            if is_kept:
                of_all["machines"] = {**of_all.get("machines", {}), socket.gethostname(): processes.machine()}
            facts = json.dumps(of_all, indent=2) + "\n"
        packed = document.with_name(f"{name}.gz")
        if is_kept:
            with document.open("rb") as source, gzip.open(packed, "wb", compresslevel=3) as target:
                shutil.copyfileobj(source, target, 1 << 20)
        document.unlink()
        self.run.mkdir(parents=True, exist_ok=True)
        text = facts
        try:
            if text is not None:
                replaced(self.run / FACTS, lambda draft: draft.write_text(text, "utf-8"))
        except OSError as error:
            without_facts(self.run / FACTS, error)
        if is_kept:
            os.replace(packed, self.run / packed.name)


def record_child(plan: Plan, parent: int, target: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Run the target of a process that the `parent` has started, and capture it into the run of the `plan` once it
    joins a job."""
    session = TorchSession(plan, parent)
    with script.ending_raises(), session.hooked():
        try:
            target(*args, **kwargs)
        finally:
            if session.facts is not None:
                session.wait_for_work(_LAST_WAIT_S)
                try:
                    session.stop(exit_code=None)
                except Exception as error:  # the target's own must be seen
                    say(f"the trace of rank {session.process} could not be written: {error}")


def _has_phase(document: Path) -> bool:
    """Whether a file of Kineto has the annotation of a phase."""
    with document.open("rb") as file:
        return any(b"#tracekit=phase" in line for line in file)


def _devices() -> dict[str, Any]:
    """What the program ran on, for capture.json: the GPUs if it used one; asking sooner would begin to use them."""
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_initialized() else 0
    kind, names = ("cuda", [torch.cuda.get_device_name(at) for at in range(gpus)]) if gpus else ("cpu", ["cpu"])
    return {
        "platform": kind,
        "devices": [{"id": at, "kind": name, "platform": kind} for at, name in enumerate(names)],
    }


@contextmanager
def _without_marks() -> Iterator[None]:
    """Keep the lines from stderr that Kineto of torch 2.13 writes there whenever a profile begins and ends (USDT)."""
    try:
        stderr = os.dup(2)
    except OSError:  # closed
        yield
        return
    with tempfile.TemporaryFile() as kept:
        sys.stderr.flush()
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            kept.seek(0)
            with suppress(OSError):
                os.write(2, b"".join(line for line in kept if not line.startswith(b"USDT:")))


def _is_whole(document: Path) -> bool:
    """Whether a document of JSON ends as one does."""
    try:
        with document.open("rb") as file:
            file.seek(max(0, document.stat().st_size - 64))
            return file.read().rstrip().endswith(b"}")
    except OSError:
        return False
