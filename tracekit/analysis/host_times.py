"""What a thread of the host did in a stretch of time: it waited, it was in a call, it worked, or nothing tells."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tracekit.columns import rising
from tracekit.intervals import Intervals

Column = NDArray[np.int64]

# Work that was ready starts within this time: on V100, A100 and H100 the largest delay between a launch call's return
# and a start on an idle device was 15.2 us in 15,969 launches, and NVIDIA shows about 20 us from the call's begin:
# https://developer.nvidia.com/blog/understanding-the-visualization-of-overhead-and-latency-in-nsight-systems/
PROMPT_PS = 20_000_000


def slow_call_ps(call_start: Column, call_end: Column, row_start: Column) -> Column:
    """For how long, in ps, the call ran that launched each row before that started, 0 unless it was slow, shape (n,).

    A launch is one of a few microseconds; one that runs for more than PROMPT_PS before its row starts did something
    else meanwhile, such as to load the kernel's code, to allocate memory, or to wait for room in a full queue.
    """
    ran = np.minimum(call_end, row_start) - call_start
    slow: Column = np.where(ran > PROMPT_PS, ran, 0)
    return slow


class Doing(IntEnum):
    """What a thread did at a moment, by the records of it; of several at once the first that is listed.

    WAITING: in a wait, be it a call or a span whose name says so. CALLING: in a call that launches. WORKING: in a span
    or another record of work. UNRECORDED: outside all of these: it ran or slept, and nothing tells what for.
    """

    WAITING = 0
    CALLING = 1
    WORKING = 2
    UNRECORDED = 3


@dataclass(frozen=True)
class HostTimes:
    """When a thread (or threads that take turns) is known to have been `waiting`, `calling` or `working`, each merged;
    they may overlap."""

    waiting: Intervals
    calling: Intervals
    working: Intervals

    def split(self, start: Column, end: Column) -> tuple[Column, NDArray[np.int8], Column, Column]:
        """What the thread did in n stretches [start, end) in ps, none empty, disjoint and by start.

        Of each piece, by start: the place of its stretch, what it is (a Doing), its start and its end; the pieces of a
        stretch fill it.
        """
        sets = [self.waiting, self.calling, self.working]
        edges = [start, end]
        for points in (each.ravel() for each in sets):
            place = np.searchsorted(start, points, side="right") - 1
            edges.append(points[(place >= 0) & (points < np.append(end, 0)[place])])
        cuts = rising(np.concatenate(edges))[:-1] if len(start) else start
        place = np.searchsorted(start, cuts, side="right") - 1
        is_inside = cuts < end[place]
        cuts, place = cuts[is_inside], place[is_inside]
        doing = np.full(len(cuts), Doing.UNRECORDED, np.int8)
        for code, times in reversed(list(enumerate(sets))):
            doing[_holds(times, cuts)] = code
        heads = np.flatnonzero(np.append(True, (np.diff(place) != 0) | (np.diff(doing) != 0))[: len(cuts)])
        begin = cuts[heads]
        until = np.minimum(np.append(begin[1:], np.iinfo(np.int64).max)[: len(begin)], end[place[heads]])
        return place[heads], doing[heads], begin, until


def _holds(times: Intervals, points: Column) -> NDArray[np.bool_]:
    """Whether merged times hold each point."""
    place = np.searchsorted(times[:, 0], points, side="right") - 1
    holds: NDArray[np.bool_] = (place >= 0) & (points < np.append(times[:, 1], 0)[place])
    return holds
