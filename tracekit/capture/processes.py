"""Several processes of one program: started over loopback where nobody else starts them, all captured into one run."""

import os
import platform
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tracekit import cores

if TYPE_CHECKING:  # they would cost every command 10 ms
    import subprocess

_VARIABLE = "TRACEKIT_PROCESS"  # "1/2 127.0.0.1:40000": this process's number, how many there are, their coordinator
# How many ranks a job or a step of one has; what all of them have alike; and what starts those of a machine
# (https://docs.open-mpi.org, https://slurm.schedmd.com/srun.html, https://github.com/pmodels/mpich).
_RANKS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
_JOBS = (("SLURM_JOB_ID", "SLURM_STEP_ID"), ("PMIX_NAMESPACE",), ("OMPI_MCA_ess_base_jobid",), ("PMI_JOBID",))
_LAUNCHERS = frozenset(
    ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "orted", "prterun", "prte", "prted", "hydra_pmi_proxy")
) | {"slurmstepd"}
_KEY, _MACHINES, _BEGUN, _APART = "tracekit/run", "tracekit/machine/", "tracekit/begun", "apart"
_OF_TERMINAL = [getattr(signal, name) for name in ("SIGINT", "SIGHUP", "SIGQUIT") if hasattr(signal, name)]
_NAMED = 3  # of the processes that share no disk, so many are named
_AGREE_S = 20  # process 0 says the name of its run as soon as its profile starts, which is seconds after jax does
_BEGIN_S = 5  # between the first process to come to a step and the last
_OTHERS_S = 45.0  # for the traces of the others, once one has failed; gloo waits 30 s for one that does not come


def start(command: Sequence[str], count: int) -> int:
    """Run `command` in `count` processes that jax.distributed joins over loopback; the exit code of the first to fail.

    A process that fails leaves the others waiting in their next collective: they are ended, and write their traces.
    """
    import subprocess

    address = f"127.0.0.1:{_free_port()}"
    children = []
    with _requests() as requests:
        for index in range(count):
            variables = {_VARIABLE: f"{index}/{count} {address}", "JAX_COORDINATOR_BIND_ADDRESS": address}
            children.append(subprocess.Popen(command, env={**os.environ, **variables}))
            requests.are_of(children[-1])
        failed, deadline = 0, float("inf")
        while None in [child.poll() for child in children]:
            if not failed and (failed := _failed(children)):
                deadline = time.monotonic() + _OTHERS_S
                _signal(children, _ending())
            elif time.monotonic() > deadline:
                _signal(children, signal.SIGKILL)
            time.sleep(0.05)
    return failed or _failed(children)


def call(command: Sequence[str], log: int | None = None, inherited: Sequence[int] = ()) -> int:
    """Run `command` to its end; its exit code, as a shell gives it.

    What it says goes to the descriptor `log`; the descriptors `inherited` are its own too. A request to end is the
    child's: it writes its trace first.
    """
    import subprocess

    with _requests() as requests:
        child = subprocess.Popen(command, stdout=log, stderr=log, pass_fds=inherited)
        requests.are_of(child)
        child.wait()
    return _failed([child])


def is_started() -> bool:
    """Whether this process is one that `start` has started."""
    return _VARIABLE in os.environ


def started_as() -> tuple[int, int, str] | None:
    """This process's number, how many there are, and the address of their coordinator; None if `start` has started
    none."""
    if _VARIABLE not in os.environ:
        return None
    place, address = os.environ[_VARIABLE].split()
    index, count = map(int, place.split("/"))
    return index, count, address


def family(root: Path = Path("/")) -> int:
    """The process whose descendants make up this program: the one that has started its processes, `start` or a launcher
    of MPI or SLURM, or this one. `root` is where /proc stands."""
    if is_started():
        return os.getppid()
    return _launcher(root) if _is_rank() else os.getpid()


def job() -> frozenset[str]:
    """The variables that all ranks of the job have, as `NAME=value`, where this is one of several; else none."""
    for names in _JOBS:
        if _is_rank() and all(name in os.environ for name in names):
            return frozenset(f"{name}={os.environ[name]}" for name in names)
    return frozenset()


def _is_rank() -> bool:
    """Whether a launcher has started this process as one of several."""
    counts = [os.environ.get(name, "") for name in _RANKS]
    return any(count.isdigit() and int(count) > 1 for count in counts)


def _launcher(root: Path) -> int:
    """The nearest launcher of which this process descends; itself if it descends from none."""
    pid = os.getpid()
    while pid > 1:
        name, _, fields = cores.text(root / f"proc/{pid}/stat").partition("(")[2].rpartition(")")
        if name in _LAUNCHERS:
            return pid
        pid = int(fields.split()[1]) if fields.split()[1:] else 0
    return os.getpid()


def add_cluster(clusters: ModuleType) -> None:
    """Let `jax.distributed.initialize()` without arguments find the processes that `start` has started."""
    if (place := started_as()) is None:
        return
    index, count, address = place

    class Started(clusters.ClusterEnv):  # type: ignore[name-defined,misc]
        """What jax asks of the environment that has started its processes."""

        name = "tracekit"

        @classmethod
        def is_env_present(cls) -> bool:
            return True

        @classmethod
        def get_coordinator_address(cls, *_: object, **__: object) -> str:
            return address

        @classmethod
        def get_process_count(cls) -> int:
            return count

        @classmethod
        def get_process_id(cls) -> int:
            return index

        @classmethod
        def get_local_process_id(cls) -> int:
            return index


def joined() -> int | None:
    """The number of this process among those that jax.distributed has joined; None where it is alone."""
    from jax._src import xla_bridge  # whose functions may be called while the script calls those of jax

    return xla_bridge.process_index() if xla_bridge.process_count() > 1 else None


@dataclass(frozen=True)
class Agreed:
    """The run that process 0 captures into: its `name`, the `host` of process 0, and whether this process `shares` its
    disk."""

    name: str
    host: str
    shares: bool


def agreed(name: str, index: int, folder: Path) -> Agreed | None:
    """What the processes agree on; None if process 0 says nothing, because nobody captures it.

    Process 0 leaves its `draft` in `folder` before it says the run's name, and the others look for it in their own.
    """
    from jax._src import distributed

    client = distributed.global_state.client
    if client is None:
        return None
    own = f"{platform.node()}-{index} {machine()}"
    with suppress(Exception):  # of jaxlib, without a class of its own: the time is over, or the other is gone
        if index == 0:
            draft(folder, name, 0).mkdir(parents=True, exist_ok=True)
            client.key_value_set(f"{_MACHINES}{index}", own, allow_overwrite=True)
            client.key_value_set(_KEY, f"{name} {platform.node()}", allow_overwrite=True)
            return Agreed(name, platform.node(), True)
        found, host = client.blocking_key_value_get(_KEY, _AGREE_S * 1000).split()
        shares = draft(folder, found, 0).is_dir()
        text = own if shares else f"{own} {_APART}"
        client.key_value_set(f"{_MACHINES}{index}", text, allow_overwrite=True)
        return Agreed(found, host, shares)
    return None


def draft(folder: Path, name: str, index: int) -> Path:
    """Where the profiler of a process writes the run `name` of `folder`. What reads traces passes over hidden
    directories."""
    return folder / f".{name}-{index}"


def machines() -> tuple[dict[str, str], list[str]]:
    """The machine of each process that captures into one run, by its file's name: processes of one share a clock; and
    the names of those that share no disk with process 0."""
    from jax._src import distributed, xla_bridge

    client: Any = distributed.global_state.client
    found: dict[str, str] = {}
    apart: list[str] = []
    with suppress(Exception):  # as above: one that nobody captures
        for index in range(xla_bridge.process_count()):
            host, machine, *shares = client.blocking_key_value_get(f"{_MACHINES}{index}", _AGREE_S * 1000).split()
            found[host] = machine
            apart += [host] * (shares == [_APART])
    return found, apart


def meet() -> None:
    """Wait until each process has come here; raises what jaxlib raises where one does not in time."""
    from jax._src import distributed

    client: Any = distributed.global_state.client
    client.wait_at_barrier(_BEGUN, _BEGIN_S * 1000)


def told_apart(run: Path, found: Agreed, index: int, apart: Sequence[str]) -> str:
    """What to do where processes share no disk, as process `index` has to say it; "" where they do."""
    if index and not found.shares:
        return (
            f"process {index} shares no disk with process 0 on {found.host}: its files stay here, in {run}, and have "
            "to be copied into the run of that name there."
        )
    if not apart:
        return ""
    names = ", ".join(apart[:_NAMED]) + (f" and {len(apart) - _NAMED} more" if len(apart) > _NAMED else "")
    return (
        f"this host shares no disk with {len(apart)} of the other processes ({names}): copy their files from the run "
        f"{run.name} on their hosts into {run} here, or `tracekit summarise` each there, and report on a directory of "
        "the summaries. --out gs://BUCKET/... gathers the next capture by itself."
    )


def gather(written: Path, run: Path, index: int) -> None:
    """Move what process `index` wrote into the run of all; the files carry its number, for hosts may share a name."""
    run.mkdir(parents=True, exist_ok=True)
    for path in written.iterdir():
        host = path.name.removesuffix(".xplane.pb").removesuffix(".trace.json.gz")
        of_host = host != path.name  # capture.json is of all
        os.replace(path, run / (f"{host}-{index}{path.name.removeprefix(host)}" if of_host else path.name))


def machine() -> str:
    """What tells this machine, since it was started, from others; its name where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _failed(children: Sequence["subprocess.Popen[bytes]"]) -> int:
    """The exit code of a child that failed, as a shell gives it; 0 if none did."""
    codes = [child.returncode for child in children if child.returncode]
    return next((128 - code if code < 0 else code for code in codes), 0)


def _signal(children: Sequence["subprocess.Popen[bytes]"], number: int) -> None:
    for child in children:
        if child.poll() is None:
            child.send_signal(number)


class _Requests:
    """Hands a request to end on to children, which write their traces first: also one that came before they did."""

    def __init__(self) -> None:
        self._children: list[subprocess.Popen[bytes]] = []
        self._is_asked, self._asked = False, set[int]()

    def are_of(self, child: "subprocess.Popen[bytes]") -> None:
        """A child has started."""
        self._children.append(child)
        if self._is_asked and child.pid not in self._asked:
            self._ask([child])

    def come(self, *_: object) -> None:
        """A request has come."""
        self._is_asked = True
        self._ask(self._children)

    def _ask(self, children: Sequence["subprocess.Popen[bytes]"]) -> None:
        self._asked |= {child.pid for child in children}
        _signal(children, _ending())


def _ending() -> int:
    """The signal that lets a child write its trace and end. jax.distributed keeps SIGTERM to itself; of the others,
    children ignore what this process does, as SIGINT where a shell has put it into the background."""
    heeded = [number for number in _OF_TERMINAL if signal.getsignal(number) is not signal.SIG_IGN]
    return heeded[0] if heeded else signal.SIGTERM


def _passed_over(*_: object) -> None:
    """Do nothing."""


@contextmanager
def _requests() -> Iterator[_Requests]:
    """Requests to end are those of children from here on; Ctrl-C reaches them by itself."""
    requests = _Requests()
    if threading.current_thread() is not threading.main_thread():
        yield requests
        return
    # What a terminal sends reaches them by itself. A handler, unlike SIG_IGN, is not theirs too.
    handlers = dict.fromkeys(_OF_TERMINAL, _passed_over) | {signal.SIGTERM: requests.come}
    old = {number: signal.getsignal(number) for number in handlers}
    # Under nohup one is ignored; None is a handler that is not Python's.
    old = {number: handler for number, handler in old.items() if handler not in (signal.SIG_IGN, None)}
    for number in old:
        signal.signal(number, handlers[number])
    try:
        yield requests
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
