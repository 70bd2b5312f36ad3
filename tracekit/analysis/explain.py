"""Why: all analyses of a trace beyond its ratios, in their order, and the one function that runs them on threads."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Condition
from typing import Any, NamedTuple, TypeVar

from tracekit import heap, notebook
from tracekit.analysis.bandwidth import Bandwidth, bandwidth
from tracekit.analysis.collectives import Collectives, collectives
from tracekit.analysis.completeness import Completeness, completeness, withheld
from tracekit.analysis.critical_path.critical_path import CriticalPath, critical_path
from tracekit.analysis.host_api import HostApi, host_api
from tracekit.analysis.idle import Idle, idle
from tracekit.analysis.launches import Launches, launches
from tracekit.analysis.machine import Machine, machine
from tracekit.analysis.memory import Memory, memory
from tracekit.analysis.offenders import Offenders, offenders
from tracekit.analysis.steps import Steps, steps
from tracekit.analysis.top_ops import TopOps, top_ops
from tracekit.devices import FEW
from tracekit.timeline.timeline import Source, Timeline, Windows, timeline_of
from tracekit.units import quantity

R = TypeVar("R", bound=Any)

# Of each part the frame, and its columns, whose first row a notebook shows first.
_TELLING = {
    "completeness": ("losses", "what lost total"),
    "top_ops": ("by_name", "name n time_ps ratio"),
    "critical_path": ("total", "part time_ps ratio"),
    "steps": ("summary", "name counted median_ps spread"),
    "offenders": ("table", "what device cost_ps ratio"),
    "collectives": ("total", "collectives device_time_ps wait_ratio exposed_ps"),
    "idle": ("by_cause", "cause idle_ps ratio"),
    "launches": ("queue", "device mean starved_ratio"),
    "host_api": ("by_call", "call n total_ps idle_ps ratio"),
    "bandwidth": ("by_device", "device busy_flops_per_s busy_flops_ratio"),
    "memory": ("by_device", "device peak_bytes headroom_bytes"),
    "machine": ("load", "other_cores cores is_busy"),
}


class Task(NamedTuple):
    """A function of the results that it `needs`, by name; it does not begin before those of `after` are done, beside
    which it would hold too much memory."""

    name: str
    function: Callable[..., Any]
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def _of_rows(
    analysis: Callable[[Timeline], R], timeline: Timeline, completeness: Completeness, *, is_of_host: bool = True
) -> R:
    """What an analysis of each row gives; nothing where rows were left out, or so much is missing that nothing is known
    of it, of the host's part (`is_of_host`) sooner than of names."""
    missing = completeness.rows if is_of_host else completeness.shares
    return withheld(missing or timeline.left_out, analysis, timeline)


# What stands behind the critical path: of a large trace that holds the most memory, and takes as long as all others.
BEHIND_PATH = ("critical_path",)

# Every analysis: a function of the timeline and of earlier results. What takes longest comes as early as it may begin.
ANALYSES = (
    Task("completeness", completeness),
    Task("steps", lambda timeline, completeness: withheld(completeness.shares, steps, timeline), ("completeness",)),
    Task(
        "critical_path",
        lambda timeline, completeness, steps: _of_rows(
            lambda whole: critical_path(whole, steps.table), timeline, completeness
        ),
        ("completeness", "steps"),
    ),
    Task(
        "top_ops",
        lambda timeline, completeness: _of_rows(top_ops, timeline, completeness, is_of_host=False),
        ("completeness",),
    ),
    Task(
        "collectives",
        lambda timeline, completeness: withheld(
            completeness.shares, lambda whole: collectives(whole, completeness.waiting), timeline
        ),
        ("completeness",),
    ),
    Task("idle", partial(_of_rows, idle), ("completeness",)),
    Task(
        "offenders",
        lambda timeline, completeness, idle, collectives, steps: _of_rows(
            lambda whole: offenders(whole, idle.gaps, collectives.table, steps.table), timeline, completeness
        ),
        ("completeness", "idle", "collectives", "steps"),
    ),
    Task("launches", partial(_of_rows, launches), ("completeness",)),
    Task(
        "bandwidth",
        lambda timeline, completeness: _of_rows(bandwidth, timeline, completeness, is_of_host=False),
        ("completeness",),
    ),
    Task("memory", memory),
    Task("machine", machine),
    Task(
        "host_api",
        lambda timeline, completeness, idle: _of_rows(lambda whole: host_api(whole, idle.gaps), timeline, completeness),
        ("completeness", "idle"),
        BEHIND_PATH,
    ),
)


# More names than a program of a hundred thousand instructions has.
_MANY_NAMES = 1 << 15
# What these held beside their result would else stay with the process until all are done. Two threads use it again at
# once: of 5 million events, giving it back took 0.4 of 11 s, and the peak was no lower (six pairs of reports).
_HOLD_MOST = ("top_ops", "critical_path", "host_api")

# Of steady steps, these are told of the whole trace: what is missing from it, its steps, of which those that count have
# critical paths, and what the devices' memory and the machine were used for.
OF_WHOLE = ("completeness", "steps", "critical_path", "memory", "machine")


@dataclass(frozen=True)
class Explanation:
    """What each analysis found, or in its `lacking` why the trace has no evidence for it.

    `devices` and `rows` say how much they looked at: all of the trace, or what lies inside some windows of it. A report
    of an old schema does not tell the rows of windows, nor one of a trace of which rows were left out. `completeness`,
    `top_ops`, `steps`, `collectives`, `idle`, `launches`, `host_api`, `critical_path`, `offenders`, `bandwidth`,
    `memory` and `machine` are the results, each with a class of its own.
    """

    devices: int
    rows: int | None
    completeness: Completeness
    top_ops: TopOps
    steps: Steps
    collectives: Collectives
    idle: Idle
    launches: Launches
    host_api: HostApi
    critical_path: CriticalPath
    offenders: Offenders
    bandwidth: Bandwidth
    memory: Memory
    machine: Machine

    def __repr__(self) -> str:
        present = [name for name, part in self._parts.items() if not part.lacking]
        return notebook.line(self, f"{self._looked_at}: {', '.join(present) or 'nothing'}")

    def _repr_html_(self) -> str:
        return notebook.results("Explanation", self._looked_at, self._parts, _TELLING)

    @property
    def _parts(self) -> Mapping[str, Any]:
        """What has something to tell; completeness has not where nothing is missing."""
        silent = {"completeness"} if self.completeness.is_complete else set()
        return {name: getattr(self, name) for name in _TELLING if name not in silent}

    @property
    def _looked_at(self) -> str:
        devices = quantity(self.devices, "device")
        return devices if self.rows is None else f"{devices}, {quantity(self.rows, 'event')}"


def explain(source: Source, windows: Windows | None = None) -> Explanation:
    """Why the devices of a trace took as long as they did.

    `windows` are the only parts that count, such as the rounds of phases (`Timeline.inside`). They then stand for
    steps, unless steps are annotated inside them.
    """
    timeline = timeline_of(source, windows)
    return explanation(timeline, run(tasks(timeline), threads(timeline)))


def threads(timeline: Timeline) -> int:
    """On how many threads to `run` the analyses of a timeline.

    Of few devices compiled loops take most of the time, and hold no lock of Python. Of many it is Python itself: two
    threads wait for each other, and both hold what they need meanwhile. A thousand hosts took as long, and 64 hosts of
    100,000 events 24 s and 3.0 GB where one thread takes 28 s and 2.2 GB. So it is of very many names.
    """
    rows = timeline.rows
    return 1 if sum(rows.placed) > FEW or len(rows.events["name"].cat.categories) > _MANY_NAMES else 2


def tasks(timeline: Timeline, whole: Timeline | None = None) -> list[Task]:
    """What `run` has to do to explain a timeline; what OF_WHOLE names is of the `whole` around it, if given."""
    around = timeline if whole is None else whole
    return [
        task._replace(function=partial(task.function, around if task.name in OF_WHOLE else timeline))
        for task in ANALYSES
    ]


def explanation(timeline: Timeline, results: Mapping[str, Any]) -> Explanation:
    """The explanation of a timeline from the results of its tasks."""
    rows = timeline.rows
    count = len(rows) if not timeline.left_out else timeline.trace.row_count if timeline.windows is None else None
    return Explanation(devices=sum(rows.placed), rows=count, **{task.name: results[task.name] for task in ANALYSES})


def run(todo: Sequence[Task], threads: int = 2) -> dict[str, Any]:
    """The results of all tasks by name, made on this thread and others; each task follows what it needs.

    A thread that is free takes the first task whose needs are met: half of the time of an analysis goes to compiled
    loops, which hold no GIL. Raises what a task raises, once the others that had begun are done.
    """
    names = {task.name for task in todo}
    for task in todo:
        if lacking := {*task.needs, *task.after} - names:
            raise ValueError(f"{task.name} needs {', '.join(sorted(lacking))}, which no task makes.")
    results: dict[str, Any] = {}
    waiting = list(todo)
    failed: list[BaseException] = []
    changed = Condition()

    def ready() -> Task | None:
        return next((task for task in waiting if all(each in results for each in (*task.needs, *task.after))), None)

    def work() -> None:
        try:
            while True:
                with changed:
                    changed.wait_for(lambda: failed or not waiting or ready())
                    task = ready()
                    if failed or task is None:
                        return
                    waiting.remove(task)
                result = task.function(*(results[need] for need in task.needs))
                if threads == 1 and task.name in _HOLD_MOST:
                    heap.give_back()
                with changed:
                    results[task.name] = result
                    changed.notify_all()
        except BaseException as error:  # an interrupt too ends what the other threads wait for
            with changed:
                failed.append(error)
                changed.notify_all()

    with ThreadPoolExecutor(max(threads - 1, 1)) as pool:
        others = [pool.submit(work) for _ in range(threads - 1)]
        work()
        for other in others:
            other.result()
    if failed:
        raise failed[0]
    return results
