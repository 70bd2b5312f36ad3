"""The one profile of a capture of PyTorch: it begins when the script has imported torch, or later, never before.

Kineto's callbacks are those of all threads here: the profile may begin and end on another thread than the script's, and
holds the operators of threads that the script starts itself.
"""

import ast
import gzip
import json
import os
import platform
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
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
from tracekit.capture.session import AfterImport, say
from tracekit.capture.stretch import StepCounter, Stretch
from tracekit.capture.sudden_end import SuddenEnd
from tracekit.errors import CaptureError
from tracekit.files import replaced

FRAMEWORKS = ("jax", "torch")
# Packages that come with a framework: who imports one imports that.
_OF_TORCH = frozenset({"torch", "torchvision", "torchaudio", "lightning", "pytorch_lightning", "accelerate"})
_OF_JAX = frozenset({"jax", "jaxlib", "flax", "optax", "equinox", "haiku"})
_NO_STEPS = (
    "called no torch.optim.Optimizer.step(), after which a step is counted; give the stretch in seconds with --after "
    "and --for"
)
_KEY, _MACHINES = "tracekit/run", "tracekit/machine/"
_AGREE_S = 20  # rank 0 says the name of its run as soon as the process group is there
_MOST_FILES = 200  # of the script that are looked through for what it imports


def framework_of(script: str, module: bool) -> str:
    """The framework whose profiler suits a script: torch if it, or what it imports from its own directory, imports
    torch and not jax; else jax.

    Imports are read, not run: what a name that is made at run time imports is not found.
    """
    home = Path.cwd() if module else Path(script).resolve().parent
    start = home.joinpath(*script.split(".")) if module else Path(script)
    pending = [start.with_suffix(".py"), start / "__main__.py"] if module else [start]
    found, seen = set[str](), set[Path]()
    while pending and len(seen) < _MOST_FILES:
        path = pending.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        for name in _imports(path):
            first = name.partition(".")[0]
            found.add(first)
            if first not in _OF_TORCH | _OF_JAX:  # a directory of experiments may be called after a framework
                part = home.joinpath(*name.split("."))
                pending += [part.with_suffix(".py"), part / "__init__.py"]
    return "torch" if found & _OF_TORCH and not found & _OF_JAX else "jax"


def _imports(path: Path) -> set[str]:
    """The full names of the modules that a file imports anywhere; none of one that is not Python."""
    names: set[str] = set()
    with suppress(OSError, SyntaxError, ValueError):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def launch_name() -> str | None:
    """What the ranks that one launcher on this machine has started have in common, as a name; None without one."""
    if _rank() is None or processes.is_started():
        return None
    launcher = os.getppid()
    try:
        begun_s = Path(f"/proc/{launcher}").stat().st_mtime
    except OSError:
        begun_s = 0.0
    return f"{time.strftime('%Y_%m_%d_%H_%M_%S', time.localtime(begun_s))}-{launcher:06x}"


def _rank() -> int | None:
    """The number of this process among those of its job, as torchrun and what is like it say it."""
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return int(rank) if rank.isdigit() and size.isdigit() and int(size) > 1 else None


class TorchSession:
    """The profile of one capture of PyTorch: it starts when torch is imported, or with its `stretch`, and keeps the
    script's own away. `about` is what is known before the run; it begins capture.json. Where it is `watched`, a second
    process says what was saved if this one is killed or crashes."""

    def __init__(
        self,
        folder: Path,
        name: str,
        python_tracer: bool,
        stretch: Stretch | None,
        about: Mapping[str, Any],
        watched: bool = False,
    ) -> None:
        self.folder, self.name, self.python_tracer = folder, name, python_tracer
        self.stretch, self.about = stretch, about
        self.facts: dict[str, Any] | None = None  # what the capture ran on; set once the profile runs
        self.problem: str | None = None  # why the profile did not start
        self.process: int | None = None  # the rank of this process in a run that several capture
        self.is_stopped = False
        self.counter: StepCounter | None = None
        if stretch is not None and stretch.by_steps:
            self.counter = StepCounter(stretch, self._begin, self._end)
        self._begun = time.monotonic()
        self._is_imported = False
        self._postponing = 0  # blocks of `tracekit.unrecorded` that the script is in
        family = os.getppid() if launch_name() else processes.family()
        self._load = MachineLoad(family=family, job=processes.job())
        self._timer: threading.Timer | None = None
        self._is_watched, self._sudden_end = watched, SuddenEnd()
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._own_thread: int | None = None  # the thread in which tracekit itself calls the profiler
        self._undo: list[Callable[[], None]] = []
        self._has_warned = False
        self._profile: Any = None
        self._optimizer: Any = None  # whose steps are counted: the first that makes one
        self._steps_made, self._is_in_step = 0, False
        self._step: Any = None  # the annotation of the step that goes on
        self._job: dict[str, Any] = {}  # what torch.distributed says of the job
        self._machines: dict[str, str] = {}  # of each rank, by the name that its file gives its host

    @property
    def run(self) -> Path:
        """The directory of the trace."""
        return self.folder / "plugins" / "profile" / self.name

    @property
    def _profiled(self) -> Path:
        """Where the file is written, so that it is in the run whole or not at all."""
        return self.folder / f".{self.name}-{self.process or 0}"

    @property
    def unreached(self) -> str:
        """Why the script never came to the stretch: the end of a sentence about it; empty where that is not so."""
        if self._postponing and self._is_imported:
            return "ended inside tracekit.unrecorded(), which keeps what it runs out of the trace"
        if self.stretch is None or not self._is_imported:
            return ""
        if self.counter is not None:
            start, made = self.stretch.start_step or 0, self._steps_made
            return f"made {units.quantity(made, 'step')} from 0 on, and none is number {start}" if made else _NO_STEPS
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
        """Hold the hooks in torch while the script runs; torch is not imported before the script does it."""
        self._set_ranks()
        finder = AfterImport({"torch": self._hook})
        sys.meta_path.insert(0, finder)
        stretches.postponed = self._postponed
        try:
            if hasattr(sys.modules.get("torch"), "profiler"):
                self._hook(sys.modules["torch"])
                if self.problem:
                    raise CaptureError(self.problem)
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
        if self.facts is None or self.is_stopped or os.getpid() != self._pid:
            return True
        import torch

        if not torch.cuda.is_initialized():
            return True

        def wait() -> None:
            with suppress(Exception):  # torch reports the script's failed work itself
                for device in range(torch.cuda.device_count()):
                    torch.cuda.synchronize(device)

        if limit_s == float("inf"):
            wait()
            return True
        waiting = threading.Thread(target=wait, name="tracekit wait", daemon=True)  # the call has no limit of time
        waiting.start()
        waiting.join(limit_s)
        return not waiting.is_alive()

    def stop(self, **ending: Any) -> None:
        """Stop the profile, if it still runs, and write it with its capture.json, which `ending` completes."""
        with self._lock:
            assert self.facts is not None
            is_last = self.is_stopped  # of a stretch that was written while the script ran
            if not is_last:
                self.is_stopped = True
                self._leave_step()
                self._load.stop()
                self.facts |= _devices()
                self.facts["profiled_s"] = round(time.monotonic() - self._begun - self.facts["profiled_after_s"], 6)
                self.facts["machine"] = self._load.facts()
            if self.counter is not None:
                self.facts["stretch"] |= {"first_step": self.counter.first, "captured_steps": self.counter.done}
            machines = {"machines": self._machines} if self._machines else {}
            text = json.dumps({**self.about, **ending, **machines, **self.facts}, indent=2) + "\n"
            if not is_last:
                try:
                    self._save(None if self.process else text)  # rank 0 speaks for all
                finally:
                    shutil.rmtree(self._profiled, ignore_errors=True)
                    self._sudden_end.avert()
            elif not self.process:
                replaced(self.run / FACTS, lambda draft: draft.write_text(text, "utf-8"))

    def _save(self, facts: str | None) -> None:
        """Let the profiler write its file, and move it to where a reader finds it, with these `facts`."""
        self._note_job()
        rank = self._job.get("rank", _rank())
        name = f"{socket.gethostname()}{'' if rank is None else f'-rank{rank}'}.pt.trace.json"
        self._profiled.mkdir(parents=True, exist_ok=True)
        document = self._profiled / name
        with self._on_our_own():
            if self._job:
                self._profile.add_metadata_json("distributedInfo", json.dumps(self._job, default=str))
            with _without_marks():
                self._profile.stop()
            self._profile.export_chrome_trace(str(document))
        self._profile = None
        if not _is_whole(document):  # Kineto does not tell that a disk is full
            raise OSError("the profiler left no whole file. Give an --out with room for it.")
        packed = document.with_name(f"{name}.gz")
        with document.open("rb") as source, gzip.open(packed, "wb", compresslevel=3) as target:
            shutil.copyfileobj(source, target, 1 << 20)
        document.unlink()
        self.run.mkdir(parents=True, exist_ok=True)
        try:
            if facts is not None:
                replaced(self.run / FACTS, lambda draft: draft.write_text(facts, "utf-8"))
        except OSError as error:
            say(f"the trace is saved, without {FACTS}, which could not be written: {error.strerror}.")
        os.replace(packed, self.run / packed.name)

    def _begin(self) -> None:
        """Begin the profile of a stretch."""
        with self._lock:
            if self.facts is None and self.problem is None:
                self.wait_for_work()
                self._start()
                if self.stretch is not None and self.stretch.for_s is not None:
                    self._later(self.stretch.for_s, self._end)

    @contextmanager
    def _postponed(self) -> Iterator[None]:
        """Leave what came before such a block out, and the block; the profile begins when the last of them ends."""
        if self.stretch is not None or os.getpid() != self._pid:
            yield
            return
        with self._lock:
            if self.facts is not None and not self._postponing:
                self._discard()
            self._postponing += 1
        try:
            yield
        finally:
            self._postponing -= 1
            if self._is_imported and not self._postponing:
                self._begin()

    def _discard(self) -> None:
        """End the profile that runs, and keep nothing of it."""
        self.wait_for_work()
        with self._on_our_own(), suppress(Exception), _without_marks():
            self._profile.stop()
        self._load.stop()
        self._load = MachineLoad(family=self._load.family, job=self._load.job)
        self._sudden_end.avert()
        self._sudden_end, self._profile, self.facts = SuddenEnd(), None, None

    def _end(self) -> None:
        """End the profile of a stretch; the script goes on."""
        with self._lock:
            if self.facts is None or self.is_stopped:
                return
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

    def _set_ranks(self) -> None:
        """Tell torch.distributed, as torchrun does, which of those this process is that `tracekit capture` started."""
        if (place := processes.started_as()) is None or _rank() is not None:
            return
        index, count, address = place
        host, _, port = address.rpartition(":")
        ranks = {"RANK": index, "LOCAL_RANK": index, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
        os.environ.update({name: str(number) for name, number in ranks.items()}, MASTER_ADDR=host, MASTER_PORT=port)

    def _hook(self, torch: ModuleType) -> None:
        if self._is_imported:
            return
        self._is_imported = True
        try:
            backend = sys.modules["torch.autograd.profiler"].profile
            self._keep_away(backend)
            distributed = sys.modules.get("torch.distributed.distributed_c10d")
            if distributed is not None:
                self._hook_distributed(distributed)
        except (AttributeError, KeyError) as error:
            self._fail(f"this torch, {torch.__version__}, has no {error} to hook; tracekit knows torch 2.1 to 2.13.")
            return
        if self._postponing:
            return
        stretch = self.stretch
        if stretch is not None and (stretch.by_steps or stretch.after_s is not None):
            self._wake()
        if self.counter is not None:
            self._count_steps()
        elif stretch is not None and stretch.after_s is not None:
            self._later(stretch.after_s - (time.monotonic() - self._begun), self._begin)
        else:
            self._begin()

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
            with suppress(Exception):
                self._note_job()
                self._join(distributed)
            return result

        def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
            with suppress(Exception):
                self._note_job()
            return destroy(*args, **kwargs)

        self._replace(distributed, "init_process_group", init_process_group)
        self._replace(distributed, "destroy_process_group", destroy_process_group)

    def _replace(self, owner: Any, name: str, function: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        def swap(old: Any, new: Any) -> None:
            for place in (owner, sys.modules.get("torch.distributed")):  # which names it once more
                if getattr(place, name, None) is old:
                    setattr(place, name, new)

        swap(original, function)
        self._undo.append(lambda: swap(function, original))

    def _note_job(self) -> None:
        """Keep what the job is: its rank and size, backend and groups, as the profiler writes them."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return
        self._job = {
            "backend": distributed.get_backend(),
            "rank": distributed.get_rank(),
            "world_size": distributed.get_world_size(),
        }
        with suppress(Exception):  # private, and newer than the rest
            groups = distributed.distributed_c10d._get_all_pg_configs()
            self._job |= {"pg_count": len(groups), "pg_config": groups}

    def _join(self, distributed: ModuleType) -> None:
        """Where torch.distributed has joined several processes: capture into the run of rank 0."""
        rank, size = self._job["rank"], self._job["world_size"]
        if size < 2 or self.process is not None or self.is_stopped:
            return
        from datetime import timedelta

        store = distributed._get_default_store()
        store.set(f"{_MACHINES}{rank}", f"rank{rank} {processes.machine()}")
        if rank == 0:
            store.set(_KEY, self.name)
        try:
            store.wait([_KEY], timedelta(seconds=_AGREE_S))
        except Exception:  # of torch, without a class of its own
            say(f"rank 0 of this program is not captured into {self.folder}: rank {rank} has a run of its own.")
            return
        self.name, self.process = store.get(_KEY).decode(), rank
        if rank == 0:
            keys = [f"{_MACHINES}{each}" for each in range(size)]
            with suppress(Exception):  # one that nobody captures
                store.wait(keys, timedelta(seconds=_AGREE_S))
                self._machines = dict(store.get(key).decode().split() for key in keys)

    def _count_steps(self) -> None:
        """Count the steps of the first optimizer that makes one: each ends with `Optimizer.step`."""
        optimizers: Any = sys.modules["torch.optim.optimizer"]
        register = getattr(optimizers, "register_optimizer_step_post_hook", None)
        if register is None:
            self._fail("this torch has no hooks for all optimizers, so steps are not counted; use --after and --for.")
            return
        self._undo.append(register(self._stepped).remove)
        self._enter_step()

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        if self._optimizer is None:
            self._optimizer = optimizer
        if optimizer is not self._optimizer or self.counter is None or os.getpid() != self._pid:
            return
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

    def _fail(self, problem: str) -> None:
        self.problem = problem
        say(f"this run will leave no trace: {problem}")

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            say(
                "the script uses torch.profiler itself; one profile can run at a time, so its calls do nothing and "
                "this capture goes on. For the script's own profile run it with plain python."
            )

    def _new_profile(self) -> Any:
        """The profile, of all threads where this torch can."""
        from torch._C._profiler import _ExperimentalConfig
        from torch.profiler import profile, supported_activities

        options: dict[str, Any] = {"enable_cuda_sync_events": True, "profile_all_threads": True}
        if not self.python_tracer:
            options["trace_only"] = True
        known = _ExperimentalConfig.__init__.__doc__ or ""
        config = _ExperimentalConfig(**{name: value for name, value in options.items() if f"{name}:" in known})
        return profile(
            activities=supported_activities(),
            record_shapes=True,
            with_stack=self.python_tracer,
            experimental_config=config,
        )

    def _start(self) -> None:
        import torch

        if self._is_watched:
            self._sudden_end.watch(self._profiled)
        try:
            with self._on_our_own():
                self._profile = self._new_profile()
                with _without_marks():
                    self._profile.start()
        except Exception as error:  # it must not end the script
            self._sudden_end.avert()
            self._fail(f"torch.profiler did not start: {error}")
            return
        self._load.start()
        self.facts = {
            "framework": "torch",
            "profiled_after_s": round(time.monotonic() - self._begun, 6),
            **({} if self.stretch is None else {"stretch": asdict(self.stretch)}),
            "versions": {
                "python": platform.python_version(),
                "torch": str(torch.__version__),
                "tracekit": sys.modules["tracekit"].__version__,
            },
            "threads": torch.get_num_threads(),
        }


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
