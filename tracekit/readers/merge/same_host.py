"""Files that name the same host: one file twice, windows of one process, or processes that must be told apart."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import union_categoricals

from tracekit.columns import distinct
from tracekit.trace import Trace
from tracekit.vocabulary.ranks import process_number

# Windows of one process lie nearer to each other: a profiler's schedule skips steps, not hours.
_ONE_SESSION_PS = 600 * 10**12
# To microseconds some writers of JSON round, and other tools that write a trace anew.
_US = 10**6
# What two rows have in common, beside their times, if they are one.
_WHAT = {
    "events": ("device", "lane", "name"),
    "spans": ("thread", "name"),
    "host_work": ("thread", "name"),
    "launches": ("thread", "name"),
    "syncs": ("thread", "name", "device", "lane", "on_device", "on_lane"),
}


@dataclass(frozen=True)
class Part:
    """The trace of one file on its way into a merged one.

    `host`: what it is called there. `at_ps`: its time 0 on the axis of all files, by its own clock. `timed`: whether
    that is known; else `at_ps` is 0.
    """

    trace: Trace
    host: str
    at_ps: int
    timed: bool

    def window(self) -> tuple[int, int] | None:
        """From the first start to the last end of its device rows, else of its host spans, ps; None without any."""
        for table in (self.trace.events, self.trace.spans):
            if len(table):
                return self.at_ps + int(table["start_ps"].min()), self.at_ps + int(table["end_ps"].max())
        return None


def tell_apart(parts: Sequence[Part]) -> tuple[list[Part], list[str]]:
    """`parts` with one host name for each process, without rows that another file of the process holds too, and notes.

    Two files of one host name are of one process if the rows that fall into the time of both are the same, or if no
    time is in both and they are at most ten minutes apart: then they are two windows. Otherwise the processes only
    share the name: they are called after their directories, where those are numbered as ranks, else the second is
    `name#2`. Rows whose times one of the two files has rounded to microseconds are the same as those of the other.
    """
    processes: dict[str, list[list[Part]]] = {}
    notes: list[str] = []
    count = Counter(part.host for part in parts)

    def at(part: Part) -> int:
        # A rounded one comes behind the one that it may have been made of, as it is the one to give up.
        start = (part.window() or (part.at_ps, 0))[0]
        return start + 2 * _US if count[part.host] > 1 and _is_rounded(part) else start

    for part in sorted(parts, key=at):
        of_host = processes.setdefault(part.host, [])
        home = next(
            (
                process
                for process in of_host
                if all(_one_process(part, other) for other in process)
                and min(_gap(part, other) for other in process) <= _ONE_SESSION_PS
            ),
            None,
        )
        if home is None:
            of_host.append([part])
            continue
        notes += _window_note(part, home)
        for other in list(home):
            part = _without_repeats(part, other)
        home.append(part)
    renamed = []
    for host, of_host in processes.items():
        labels = _after_directories(of_host) or [host, *(f"{host}#{number}" for number in range(2, len(of_host) + 1))]
        if len(of_host) > 1:
            sources = ", ".join(
                f"{label} is {_file(process[0], parts)}" for label, process in zip(labels, of_host, strict=True)
            )
            apart = all(_gap(a[0], b[0]) > _ONE_SESSION_PS for a, b in combinations(of_host, 2))
            why = "at times far apart" if apart else "with different work"
            notes.append(f"{len(of_host)} processes have the host name {host}, {why}: {sources}.")
        for label, process in zip(labels, of_host, strict=True):
            renamed += [replace(part, host=label) for part in process]
    return renamed, notes


def _after_directories(processes: Sequence[Sequence[Part]]) -> list[str] | None:
    """The names of the directories, numbered as ranks, that the processes' files lie in; None if that tells none apart.

    Several processes called the same may run on one machine, each with a log directory such as `rank0`.
    """
    numbered = [
        [part for part in Path(process[0].trace.source).parts[:-1] if process_number(part)] for process in processes
    ]
    labels = [parts[-1] for parts in numbered if parts]
    return labels if len(processes) > 1 and len(set(labels)) == len(processes) else None


def _shared(a: Part, b: Part) -> tuple[int, int] | None:
    """From the later start to the earlier end of two parts in ps, which is backwards where they share no time; None
    where one has no window."""
    windows = [window for part in (a, b) if (window := part.window())]
    return (max(start for start, _ in windows), min(end for _, end in windows)) if len(windows) == 2 else None


def _gap(a: Part, b: Part) -> int:
    """The time between the windows of two parts in ps, 0 where they meet or one has none."""
    start, end = _shared(a, b) or (0, 0)
    return max(0, start - end)


def _one_process(a: Part, b: Part) -> bool:
    """Whether `a` and `b`, which name the same host, may have seen one process."""
    if a.timed != b.timed:
        return False
    shared = _shared(a, b)
    if shared is None:
        return True
    start, end = shared
    if start >= end:
        return a.timed
    inside = [_inside(part, start, end) for part in (a, b)]
    fewer = min(int(mask.sum()) for mask in inside)
    repeated = int((_repeats(a, b, "events") & inside[0]).sum())
    return not fewer or 2 * repeated > fewer


def _inside(part: Part, start: int, end: int) -> NDArray[np.bool_]:
    """Which device rows lie wholly in [start, end]."""
    events = part.trace.events
    return np.asarray((events["start_ps"] + part.at_ps >= start) & (events["end_ps"] + part.at_ps <= end))


def _repeats(part: Part, other: Part, what: str) -> NDArray[np.bool_]:
    """Which rows of `part` stand in `other` too, with the same times."""
    table, others = getattr(part.trace, what), getattr(other.trace, what)
    n = len(table)
    if not n or not len(others):
        return np.zeros(n, bool)
    start, end = (
        np.concatenate([table[time].to_numpy() + part.at_ps, others[time].to_numpy() + other.at_ps])
        for time in ("start_ps", "end_ps")
    )
    texts = []
    for text in _WHAT[what]:
        values = [each[text] for each in (table, others)]
        values = [column.astype(pd.CategoricalDtype(column.cat.categories.astype("str"))) for column in values]
        texts.append(union_categoricals(values).codes)
    times: list[tuple[NDArray[np.int64], ...]] = [(start, end)]
    if _differ_in_rounding(part, other):
        # Times that differ by half of a cell or less lie in one cell, or in one of those that begin half a cell later.
        times = [(start // (2 * _US),), ((start + _US) // (2 * _US),)]
    repeated = np.zeros(n, bool)
    for each in times:
        which, _ = distinct(*each, *texts)
        repeated |= np.isin(which[:n], which[n:])
    return repeated


def _differ_in_rounding(a: Part, b: Part) -> bool:
    """Whether only one of two parts has its times rounded to microseconds: else two processes that run in step, each
    with the same kernels at nearly the same times, would be one."""
    return _is_rounded(a) != _is_rounded(b)


def _is_rounded(part: Part) -> bool:
    """Whether all device rows begin and end whole microseconds after the first."""
    events = part.trace.events
    times = np.concatenate([events["start_ps"].to_numpy(), events["end_ps"].to_numpy()])
    return bool(len(times) and not ((times - times[0]) % _US).any())


def _without_repeats(part: Part, other: Part) -> Part:
    tables = {what: getattr(part.trace, what)[~_repeats(part, other, what)].reset_index(drop=True) for what in _WHAT}
    return replace(part, trace=part.trace.changed(**tables))


def _window_note(part: Part, home: Sequence[Part]) -> list[str]:
    """The note on a file that joins the others of its process."""
    repeated = np.zeros(len(part.trace.events), bool)
    for other in home:
        repeated |= _repeats(part, other, "events")
    files = " and ".join(_file(other, (*home, part)) for other in home)
    here = _file(part, (*home, part))
    if repeated.all() and len(repeated):
        return [f"{here} only repeats what {files} contains of {part.host}: it is not counted twice."]
    if repeated.any():
        return [
            f"{int(repeated.sum())} of {len(repeated)} device rows of {here} are in {files} too, of {part.host}: they "
            "count once."
        ]
    return [
        f"{files} and {here} are read as windows of one process, {part.host}: nothing was recorded between them, and "
        "that time counts as idle."
    ]


def _file(part: Part, among: Sequence[Part]) -> str:
    """The file's name, or its whole path where another file has the same name."""
    name = Path(part.trace.source).name
    alike = sum(Path(other.trace.source).name == name for other in among) > 1
    return part.trace.source if alike else name
