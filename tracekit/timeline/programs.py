"""Which processes of a trace that mark steps run one program, as the ranks of a job do, and which run others.

Ranks meet in collectives, or the trace counts them; and where neither is recorded, they mark as many steps as each
other, or the k-th of each while the others are in theirs. Processes of which nothing of that holds are of programs that
only share a machine: their steps have nothing to do with each other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.devices import on_host
from tracekit.timeline.instances import MATCHED_BY, CollectiveInstances, MatchedBy
from tracekit.timeline.rows import Rows
from tracekit.units import quantity

Process = tuple[str, str]
"""A host and a process of it, "" where the trace does not tell."""

# Ranks whose first or last steps the profile cuts differ by so few, or such a part of them.
_CUT, _CUT_PART = 2, 0.1
# So many of the collectives whose members nothing tells are matched over the devices of one job.
_MOSTLY = 0.25
# Among more processes no pairs are compared: they are ranks.
_MOST = 64
_PROVEN = (MATCHED_BY.index(MatchedBy.SEQUENCE), MATCHED_BY.index(MatchedBy.RUN))


@dataclass(frozen=True)
class Program:
    """What runs beside others on one clock: the `processes` that mark its steps, the `devices` that they use, and a
    `label` that tells it apart."""

    processes: frozenset[Process]
    devices: frozenset[str]
    label: str


@dataclass(frozen=True)
class Evidence:
    """What tells the ranks of a job: device rows with the call that launched each (`launch` (n,), a place in
    `launches`), their collectives, and how many ranks the job has, None where that is not told."""

    rows: Rows
    launch: NDArray[np.int64]
    launches: pd.DataFrame
    collectives: Callable[[], CollectiveInstances]
    world_size: int | None


def programs(marks: pd.DataFrame, evidence: Evidence) -> list[Program]:
    """The programs whose processes mark the steps `marks` of one clock (host, process, name, step, occurrence,
    start_ps, end_ps); none where all may be of one.

    A program uses devices that no other uses.
    """
    keys = list(zip(marks["host"].astype(str), marks["process"].astype(str), strict=True))
    count = pd.Series(keys).value_counts()
    processes: list[Process] = sorted(count.index)
    if not 1 < len(processes) <= _MOST or len(processes) <= (evidence.world_size or 0) or _alike(count.to_list()):
        return []
    devices = _devices(processes, evidence)
    joined = {process: process for process in processes}

    def root(process: Process) -> Process:
        while joined[process] != process:
            process = joined[process]
        return process

    def join(some: Sequence[Process]) -> None:
        for process in some[1:]:
            joined[root(process)] = root(some[0])

    users: dict[int, list[Process]] = {}
    for process in processes:
        for device in devices[process]:
            users.setdefault(device, []).append(process)
    for some in users.values():
        join(some)
    if len({root(process) for process in processes}) == 1:
        return []
    for together in _met(evidence):
        join([users[device][0] for device in together if device in users])
    of_process = {process: marks[[key == process for key in keys]] for process in processes}
    for a, b in combinations(processes, 2):
        if root(a) != root(b) and (_alike([count[a], count[b]]) or _in_step(of_process[a], of_process[b])):
            join([a, b])
    working = [process for process in processes if devices[process]]
    if not working:
        return []
    # What uses no device may be a part of any: it is one of the largest.
    largest = max(working, key=lambda process: int(count[process]))
    join([largest, *(process for process in processes if not any(root(process) == root(each) for each in working))])
    groups: dict[Process, list[Process]] = {}
    for process in processes:
        groups.setdefault(root(process), []).append(process)
    if len(groups) == 1:
        return []
    several_hosts = len({host for host, _ in processes}) > 1
    return [
        Program(
            frozenset(group),
            frozenset(evidence.rows.devices[device] for process in group for device in devices[process]),
            _label(group, several_hosts),
        )
        for group in groups.values()
    ]


def _alike(counts: Sequence[int]) -> bool:
    """Whether processes that marked so many steps each may be ranks of one job, of which the profile cut some."""
    return max(counts) - min(counts) <= max(_CUT, _CUT_PART * max(counts))


def _in_step(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    """Whether two processes are in most of the steps that both mark at the same time; without any, whether one is done
    when the other begins, as a phase of one run after another."""
    both = a.merge(b, on=["name", "step", "occurrence"], suffixes=("", "_of_b"))
    if len(both):
        overlap = both[["end_ps", "end_ps_of_b"]].min(axis=1) > both[["start_ps", "start_ps_of_b"]].max(axis=1)
        return 2 * int(overlap.sum()) >= len(both)
    return bool(min(a["end_ps"].max(), b["end_ps"].max()) <= max(a["start_ps"].min(), b["start_ps"].min()))


def _devices(processes: Sequence[Process], evidence: Evidence) -> Mapping[Process, set[int]]:
    """The devices on which each of the processes launched."""
    rows, launches = evidence.rows, evidence.launches
    found: dict[Process, set[int]] = {process: set() for process in processes}
    host, process = launches["host"].cat, launches["process"].cat
    width = len(process.categories) + 1
    labels = [*map(str, process.categories), ""]
    linked = np.flatnonzero((evidence.launch >= 0) & rows.is_placed)
    call = evidence.launch[linked]
    codes = host.codes.to_numpy().astype(np.int64)[call] * width + process.codes.to_numpy()[call] % width
    for pair in pd.unique(codes * len(rows.devices) + rows.device[linked]).tolist():
        of, device = divmod(pair, len(rows.devices))
        key = str(host.categories[of // width]), labels[of % width]
        if key in found:
            found[key].add(device)
    return found


def _met(evidence: Evidence) -> list[list[int]]:
    """The sets of devices that met in a collective, as far as the trace shows that they did."""
    rows, instances = evidence.rows, evidence.collectives()
    at = np.flatnonzero(instances.instance >= 0)
    instance, device = instances.instance[at], rows.device[at]
    several = np.bincount(instance, minlength=len(instances.matched_by)) > 1
    told = (instances.ranks > 0) | np.isin(instances.matched_by, _PROVEN)
    untold = ~told[instance]
    # Those of which nothing tells who takes part may be matched by chance.
    if several[instance[untold]].sum() >= _MOSTLY * untold.sum():
        told = np.ones(len(told), bool)
    counts = told & several
    order = np.argsort(instance, kind="stable")
    sets = np.split(device[order], np.flatnonzero(np.diff(instance[order])) + 1) if len(at) else []
    kinds = {
        tuple(its.tolist()) for number, its in zip(np.unique(instance).tolist(), sets, strict=True) if counts[number]
    }
    return [list(its) for its in sorted(kinds)]


def _label(group: Sequence[Process], several_hosts: bool) -> str:
    """What tells a program apart: its first process, and how many it has beside."""
    host, process = group[0]
    name = f"process {process}" if process else host
    first = on_host(host, name) if several_hosts and process else name
    return first if len(group) == 1 else f"{first} and {quantity(len(group) - 1, 'other')}"
