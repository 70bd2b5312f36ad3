"""Which `end: <op>` event ends which CPU op, where the ids that say so (`_p` and `_c`) were not written.

Names, threads and times are left: an op that ends on the thread that started it does so before that thread starts the
op again; an op whose parallel part ends on another thread is the only one of its name that is open then, unless several
devices run it at once.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_END = "end: "
# What `_p` and `_c` read where an event has none: two values, so that no two such events look joined.
_ABSENT = {"_p": -1, "_c": -2}

Links = dict[str, tuple[NDArray[np.int64], NDArray[np.bool_]]]


def thunk_ends(
    names: pd.Categorical,
    line: NDArray[np.int64],
    start: NDArray[np.int64],
    closed: NDArray[np.int64],
    device: NDArray[np.int64],
    run: NDArray[np.int64],
) -> tuple[Links, int]:
    """`_p` of the ops and `_c` of the `end:` events as planes.Plane.numbers gives them, and how many were guessed.

    All columns are of shape (n,): `line` is the thread, `start` and `closed` the event's own edges in ps, `device` and
    `run` the device that an op ran on and the run of a program there, -1 if the event is no op. An op whose end is not
    found has no `_p`. Guessed are the ops of which several of one name were open, on other threads, when an end came.
    """
    ends = np.array([*(name.startswith(_END) for name in names.categories), False], bool)[names.codes]
    bare = [*(name.removeprefix(_END) for name in names.categories), ""]
    op = pd.factorize(pd.Index(bare, dtype="str"))[0].astype(np.int64)[names.codes]
    rows = np.flatnonzero((run >= 0) | ends)
    rows = rows[np.lexsort((ends[rows], start[rows], op[rows], line[rows]))]
    first, second = rows[:-1], rows[1:]
    beside = (op[first] == op[second]) & (line[first] == line[second]) & ~ends[first] & ends[second]
    pairs = list(zip(first[beside].tolist(), second[beside].tolist(), strict=True))
    left = np.setdiff1d(rows, np.concatenate([first[beside], second[beside]]))
    found, guessed = _queued(left, op, start, _limit(start, closed, run), ends, device)
    joined = np.array(pairs + found, np.int64).reshape(-1, 2)
    links = {}
    for column, (stat, absent) in enumerate(_ABSENT.items()):
        value, there = np.full(len(start), absent, np.int64), np.zeros(len(start), bool)
        value[joined[:, column]], there[joined[:, column]] = np.arange(len(joined)), True
        links[stat] = value, there
    return links, guessed


def _limit(start: NDArray[np.int64], closed: NDArray[np.int64], run: NDArray[np.int64]) -> NDArray[np.int64]:
    """When each op must have ended: at the start of the next op of its run; the last one at no time."""
    limit = np.full(len(start), np.iinfo(np.int64).max)
    rows = np.flatnonzero(run >= 0)
    rows = rows[np.lexsort((start[rows], run[rows]))]
    for part in np.split(rows, np.flatnonzero(np.diff(run[rows])) + 1):
        following = np.searchsorted(start[part], closed[part])
        there = following < len(part)
        limit[part[there]] = start[part[following[there]]]
    return limit


def _queued(
    rows: NDArray[np.int64],
    op: NDArray[np.int64],
    start: NDArray[np.int64],
    limit: NDArray[np.int64],
    ends: NDArray[np.bool_],
    device: NDArray[np.int64],
) -> tuple[list[tuple[int, int]], int]:
    """(op, its end) of the events `rows`: each end belongs to the first op of its name that must not have ended before,
    else, an end being written late on a busy machine, to the first that had no end so far."""
    pairs, guessed = [], set()
    open_ops: dict[int, list[int]] = {}
    for row in rows[np.lexsort((ends[rows], start[rows]))].tolist():
        waiting = open_ops.setdefault(int(op[row]), [])
        if not ends[row]:
            # An end that still has not come when its device runs the op anew is missing.
            waiting[:] = [one for one in waiting if device[one] != device[row] or limit[one] > start[row]] + [row]
        elif waiting:
            if len(waiting) > 1:
                guessed.update(waiting)
            at = next((at for at, one in enumerate(waiting) if limit[one] >= start[row]), 0)
            pairs.append((waiting.pop(at), row))
    return pairs, len(guessed)
