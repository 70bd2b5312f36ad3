"""What tells the steps of a run: annotations of the host, XProf's step groups, or the executions of one program."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.intervals import Intervals
from tracekit.timeline.rows import Rows

# Of which step a row is, where it is of none that is known.
UNKNOWN, BEFORE, AFTER = -1, -2, -3

# What stands in the table of steps for each kind of evidence.
ANNOTATION, GROUP, PROGRAM = "annotation", "group_id", "run_id"

# A program recurs if it runs at least so often on every device that runs it at all.
RECURS = 3


@dataclass(frozen=True)
class Marks:
    """m steps, by clock and then in order of their ends: what is known of them before their windows are.

    `host` (m, 2) is the host's own time of each, in ps, and `hosts` (m,) how many hosts marked it, where annotations
    told them; `of_host` gives the steps that a host marked, in order, and its times of them. `linked` (n,) names the
    step of each row that the same evidence proves, else UNKNOWN. `nested` counts the annotations inside others.
    """

    told_by: str
    clock: list[str]
    step: list[int]
    name: list[str]
    linked: NDArray[np.int64]
    host: Intervals | None = None
    hosts: NDArray[np.int64] | None = None
    of_host: Mapping[str, tuple[NDArray[np.int64], Intervals]] = field(default_factory=dict)
    nested: int = 0

    @cached_property
    def by_clock(self) -> Mapping[str, NDArray[np.int64]]:
        """The steps of each clock, in order."""
        clock = np.array(self.clock, object)
        return {name: np.flatnonzero(clock == name) for name in dict.fromkeys(self.clock)}


def marks(rows: Rows, spans: pd.DataFrame) -> Marks | str:
    """The steps by the most trustworthy evidence that the trace has, or a sentence why it has none."""
    if not any(rows.placed):
        return "The trace holds no work of a device, so it has no steps to measure."
    return annotated(rows, spans) or grouped(rows) or executed(rows)


def annotated(rows: Rows, spans: pd.DataFrame) -> Marks | None:
    """The steps that host spans with a step number mark; None if no host on a clock with device rows has any.

    Spans of one name and number that overlap on one host (PyTorch marks a step on several threads) are one step, and so
    are the k-th of one name and number on all hosts of a clock. Of spans inside each other only the outermost is a
    step, unless its name occurs once and it holds two or more: then it is a wrapper of the run.
    """
    found = spans.loc[spans["step"].notna().to_numpy(bool), ["host", "name", "step", "start_ps", "end_ps"]]
    found = found.astype({"host": "str", "name": "str", "step": "int64"})
    clocks = dict(zip(rows.hosts, rows.clocks, strict=True))
    # A host without rows is on the only clock there is; among several, nothing says on which.
    only = next(iter(clocks.values())) if len(set(clocks.values())) == 1 else None
    found["clock"] = [clocks.get(host, only) for host in found["host"]]
    found = found[found["clock"].notna()]
    if found.empty:
        return None
    found["name"] = [series(name) for name in found["name"]]
    found = _occurrences(found)
    key = ["clock", "name", "step", "occurrence"]
    which = found.groupby(key, sort=False).ngroup().to_numpy()
    inner = np.zeros(int(which.max()) + 1, bool)
    for _, mine in found.groupby("host", sort=False):
        inner[which[mine.index[_inner(mine)]]] = True
    found, which = found[~inner[which]], which[~inner[which]]
    _, first, which, hosts = np.unique(which, return_index=True, return_inverse=True, return_counts=True)
    start, end = np.full(len(first), np.iinfo(np.int64).max), np.full(len(first), np.iinfo(np.int64).min)
    np.minimum.at(start, which, found["start_ps"].to_numpy())
    np.maximum.at(end, which, found["end_ps"].to_numpy())
    order = np.lexsort((start, end, pd.factorize(found["clock"].iloc[first], sort=True)[0]))
    one = found.iloc[first[order]]
    placed = found.assign(place=_renumbered(order)[which]).sort_values(["host", "place"])
    return Marks(
        ANNOTATION,
        one["clock"].tolist(),
        one["step"].tolist(),
        one["name"].tolist(),
        np.full(len(rows), UNKNOWN),
        host=iv.intervals(start[order], end[order]),
        hosts=hosts[order],
        of_host={
            str(host): (mine["place"].to_numpy(np.int64), iv.intervals(mine["start_ps"], mine["end_ps"]))
            for host, mine in placed.groupby("host")
        },
        nested=int(inner.sum()),
    )


def series(name: str) -> str:
    """The name without its step's number: `ProfilerStep#3`, `train#step_num=3#` and `step_3` recur each step."""
    bare = re.sub(r"[\s_:-]*\d*$", "", name.partition("#")[0])
    return bare or name


def _occurrences(found: pd.DataFrame) -> pd.DataFrame:
    """Overlapping spans of one host, name and number as one, and the others numbered by `occurrence`."""
    key = ["host", "clock", "name", "step"]
    found = found.sort_values([*key, "start_ps"], kind="stable", ignore_index=True)
    reach = found.groupby(key, sort=False)["end_ps"].cummax()
    same = (found[key] == found[key].shift()).all(axis=1)
    new = ~same | (found["start_ps"] >= reach.shift(fill_value=0))
    joined = found.groupby(new.cumsum(), sort=False).agg(
        {**dict.fromkeys(key, "first"), "start_ps": "min", "end_ps": "max"}
    )
    joined = joined.reset_index(drop=True)
    joined["occurrence"] = joined.groupby(key, sort=False).cumcount()
    return joined


def _inner(mine: pd.DataFrame) -> NDArray[np.bool_]:
    """Which spans of one host are no step: those inside another, or a single one that wraps several."""
    start, end = mine["start_ps"].to_numpy(), mine["end_ps"].to_numpy()
    order = np.lexsort((-end, start))
    often = mine.groupby("name")["name"].transform("size").to_numpy()
    wraps = np.zeros(len(mine), bool)
    for place in np.flatnonzero(often == 1):
        first, last = np.searchsorted(start[order], [start[place], end[place]], side="left")
        wraps[place] = (end[order[first:last]] <= end[place]).sum() > 2
    inner = wraps.copy()
    rest = order[~wraps[order]]
    # The starts grow, so a span is inside another exactly if one before it reaches as far.
    inner[rest[1:]] = end[rest[1:]] <= np.maximum.accumulate(end[rest])[:-1]
    return inner


def grouped(rows: Rows) -> Marks | None:
    """The steps by the `group_id` of the rows; None if no row has one."""
    group, has = rows.numbers("group_id")
    clock_of, clocks = _clocks(rows)
    parts = groups(rows, [clock_of[rows.device], group], has & np.array(rows.placed)[rows.device])
    if len(parts.start) == 0:
        return None
    order = np.lexsort((parts.end, parts.key[0]))
    return Marks(
        GROUP,
        [clocks[code] for code in parts.key[0][order]],
        parts.key[1][order].tolist(),
        ["group"] * len(order),
        _renumbered(order)[parts.of],
    )


def executed(rows: Rows) -> Marks | str:
    """The executions of the program that takes most device time of those that recur, one step each, on every clock.

    A program recurs if it ran three times or more on each of its devices; and from its first start to its last end
    at least half of the device time must lie. One step is the executions with the same `run_id`, where all its
    devices have the same ids, else the k-th on each device. A sentence if no clock has such a program.
    """
    run, has = rows.numbers("run_id")
    module = rows.codes("hlo_module")
    which = has & (module >= 0) & np.array(rows.placed)[rows.device]
    ran = groups(rows, [rows.device, module, run], which)
    if len(ran.start) == 0:
        return (
            "No host span has a step number (jax.profiler.StepTraceAnnotation, ProfilerStep, an NVTX step range), and "
            "no device row names its step group or its program's execution, so nothing tells the steps."
        )
    clock_of, clocks = _clocks(rows)
    label = rows.labels("hlo_module")
    place = np.full(len(ran.start), UNKNOWN)
    names: list[tuple[str, int, str]] = []
    for code, clock in enumerate(clocks):
        mine = np.flatnonzero(clock_of[ran.key[0]] == code)
        chosen = _recurring(ran, mine)
        if len(chosen) == 0:
            continue
        count = int(chosen.max()) + 1
        place[mine] = np.where(chosen >= 0, chosen + len(names), UNKNOWN)
        program = label[int(ran.key[1][mine[chosen >= 0][0]])]
        names += [(clock, number, program) for number in range(count)]
    if not names:
        return (
            "No host span has a step number, and no program ran three times or more, equally often on each of its "
            "devices and around half of the device time, so nothing tells the steps."
        )
    return Marks(
        PROGRAM,
        [clock for clock, _, _ in names],
        [number for _, number, _ in names],
        [program for _, _, program in names],
        np.append(place, UNKNOWN)[ran.of],
    )


def _recurring(ran: "Groups", mine: NDArray[np.int64]) -> NDArray[np.int64]:
    """The step of each execution in `mine`, UNKNOWN for other programs; empty if no program recurs."""
    device, module, run = (one[mine] for one in ran.key)
    start, end, time = ran.start[mine], ran.end[mine], ran.time[mine]
    taken = {int(one): iv.sum_exactly(time[module == one]) for one in np.unique(module)}
    for one in sorted(taken, key=lambda one: -taken[one]):
        its = np.flatnonzero(module == one)
        its = its[np.lexsort((start[its], device[its]))]
        _, often = np.unique(device[its], return_counts=True)
        inside = (start >= start[its].min()) & (end <= end[its].max())
        if often.min() < RECURS or 2 * iv.sum_exactly(time[inside]) < sum(taken.values()):
            continue
        ids, number = np.unique(run[its], return_inverse=True)
        if (often == len(ids)).all():
            first = np.full(len(ids), np.iinfo(np.int64).max)
            np.minimum.at(first, number, start[its])
            number = _renumbered(np.argsort(first, kind="stable"))[number]
        elif (often == often[0]).all():
            number = np.arange(len(its)) % often[0]
        else:
            continue
        found = np.full(len(mine), UNKNOWN)
        found[its] = number
        return found
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class Groups:
    """p groups of rows with equal keys: each key's values (p,), first start, last end, and `time`, the summed lengths
    of its stretches of rows beside each other, in ps; `of` (n,) is the group of each row, -1 for none."""

    key: list[NDArray[np.int64]]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    time: NDArray[np.int64]
    of: NDArray[np.int64]


def groups(rows: Rows, keys: Iterable[NDArray[np.int64]], which: NDArray[np.bool_]) -> Groups:
    """The rows in `which`, grouped by keys of shape (n,)."""
    at = np.flatnonzero(which)
    of = np.full(len(rows), -1)
    key = [one[at] for one in keys]
    if len(at) == 0:
        return Groups(key, at, at, at, of)
    # Rows of one group mostly stand together: group the stretches, of which there are few.
    begins = np.append(True, rows.device[at][1:] != rows.device[at][:-1])
    for one in key:
        begins[1:] |= one[1:] != one[:-1]
    first = np.flatnonzero(begins)
    start = rows.start[at][first]
    end = np.maximum.reduceat(rows.end[at], first)
    key = [one[first] for one in key]
    order = np.lexsort(key[::-1])
    new = np.append(True, np.zeros(len(order) - 1, bool))
    for one in key:
        new[1:] |= one[order][1:] != one[order][:-1]
    head = np.flatnonzero(new)
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(new) - 1
    of[at] = group[np.cumsum(begins) - 1]
    return Groups(
        [one[order][head] for one in key],
        np.minimum.reduceat(start[order], head),
        np.maximum.reduceat(end[order], head),
        np.add.reduceat((end - start)[order], head),
        of,
    )


def _clocks(rows: Rows) -> tuple[NDArray[np.int64], list[str]]:
    """The clock of each device as a code, and their names."""
    codes, clocks = pd.factorize(np.array(rows.clocks, object), sort=True)
    return codes.astype(np.int64), [str(clock) for clock in clocks]


def _renumbered(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """The new number of each of `order`'s members; and of -1, which stays."""
    number = np.full(len(order) + 1, UNKNOWN)
    number[order] = np.arange(len(order))
    return number
