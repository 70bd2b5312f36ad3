"""The threads of the host's lines: ROCm's calls stand on lines of their own, beside that of the thread that made them.

XLA's collectors for GPUs write the calls of a thread on a line `Host Threads/<id>`. With CUDA the id is that of the
line of the thread's other events, and the two are merged; ROCm counts threads otherwise (rocm_collector.cc in
xla/backends/profiler/gpu). Which thread made the calls, time tells: all of them lie inside its events, and none of its
events begins or ends during one of them.
"""

import math
import re

import numpy as np
from numpy.typing import NDArray

from tracekit.readers.nested import innermost

Column = NDArray[np.int64]

_CALLS_ONLY = re.compile(r"Host Threads/\d+")
# By chance the events of another thread would hold all calls, and cross none, less often than this.
_CHANCE = 1e-3
# The events around the calls of one of two threads are so much shorter on average that they are the closer ones.
_CLOSER = 2
# So many calls of a line are looked at.
_CALLS = 1000


def callers(names: list[str], line: Column, start: Column, end: Column) -> list[str]:
    """The name of the thread of each line, by the `names` of the lines: of ROCm's calls that of the thread around them.

    `line`, `start`, `end` (n,): the events. A line whose thread is not certain keeps its name; no thread gets two.
    """
    of_line = {number: np.flatnonzero(line == number) for number in np.flatnonzero(np.bincount(line)).tolist()}
    calling = [number for number in of_line if _CALLS_ONLY.fullmatch(names[number])]
    others = [number for number in of_line if number not in calling]
    around: dict[int, dict[int, float]] = {}
    for number in calling if others else []:
        calls = of_line[number][np.linspace(0, len(of_line[number]) - 1, _CALLS).astype(int)]
        calls = np.unique(calls)
        lengths = {
            other: _around(start[calls], end[calls], start[of_line[other]], end[of_line[other]]) for other in others
        }
        around[number] = {other: length for other, length in lengths.items() if length < math.inf}
    threads = dict(enumerate(names))
    while pair := _certain(around):
        number, other = pair
        threads[number] = names[other]
        around = {
            each: {thread: length for thread, length in lengths.items() if thread != other}
            for each, lengths in around.items()
            if each != number
        }
    return list(threads.values())


def _certain(around: dict[int, dict[int, float]]) -> tuple[int, int] | None:
    """A line and its thread that are certain: the only one left, or by far the closest; None where there is none."""
    for number, lengths in around.items():
        if len(lengths) == 1:
            return number, next(iter(lengths))
    pairs = []
    for number, lengths in around.items():
        if lengths:
            (closest, thread), (next_closest, _) = sorted((length, thread) for thread, length in lengths.items())[:2]
            if closest * _CLOSER <= next_closest:
                pairs.append((closest, number, thread))
    return min(pairs)[1:] if pairs else None


def _around(call_start: Column, call_end: Column, start: Column, end: Column) -> float:
    """How long the events around the calls are on average, in ps, if they can be those of one thread; else infinite."""
    edges = np.sort(np.concatenate([start, end]))
    inside = np.searchsorted(edges, call_end, side="left") > np.searchsorted(edges, call_start, side="right")
    if inside.any():
        return math.inf
    here, there = np.zeros(len(call_start), np.int64), np.zeros(len(start), np.int64)
    place = innermost(call_start, here, start, end, there)
    if (place < 0).any():
        return math.inf
    length = end[place] - start[place]
    # Were the calls anywhere: how likely each is inside an event, and how many begins and ends one meets.
    window = max(int(edges[-1]), int(call_end.max())) - min(int(edges[0]), int(call_start.min()))
    reach = np.maximum.accumulate(end[np.argsort(start, kind="stable")])
    begin = np.sort(start)
    covered = int((reach - np.maximum(begin, np.append(begin[0], reach[:-1]))).clip(0).sum())
    chance = len(call_start) * math.log(covered / window) - len(edges) * int((call_end - call_start).sum()) / window
    return float(length.mean()) if chance <= math.log(_CHANCE) else math.inf
