"""Which `-done` ends which `-start`: an asynchronous op stands in a trace as two events that share no id."""

import numpy as np
from numpy.typing import NDArray


def pair(
    key: NDArray[np.int64], time: NDArray[np.int64], done: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows (m,) of the halves that start and of those that end them, of all halves `key`, `time`, `done` (n,).

    Halves of one `key` are one op run over and over: the first that is open ends first. A `-done` to which nothing is
    open, and a `-start` that nothing ends, are in neither.
    """
    order = np.lexsort((done, time, key))
    k, ending = key[order], done[order]
    if len(order) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    first = np.flatnonzero(np.r_[True, k[1:] != k[:-1]])
    group = np.cumsum(np.r_[True, k[1:] != k[:-1]]) - 1
    step = np.where(ending, -1, 1)
    # How far the dones of a key are ahead of its starts, at its worst so far, is how many of them had nothing open.
    count = np.cumsum(step)
    ahead = -(count - (count[first] - step[first])[group])
    # Each key's numbers lie above those of the keys before it, so that one running maximum serves all.
    lift = group * (2 * len(order) + 1)
    lost = np.maximum.accumulate(np.maximum(ahead, 0) + lift) - lift
    nothing_open = ending & (lost > np.r_[0, lost[:-1]] * ~np.isin(np.arange(len(order)), first))
    starts, ends = order[~ending], order[ending & ~nothing_open]
    # Counted within its key, the first done ends the first start.
    started, ended = group[~ending], group[ending & ~nothing_open]
    rank_of_end = np.arange(len(ended)) - np.searchsorted(ended, ended)
    at = np.searchsorted(started, ended) + rank_of_end
    return starts[at], ends
