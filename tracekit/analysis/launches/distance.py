"""How long a host needs for a launch: the distance of successive ones."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# The median distance of fewer launches says little about what a host needs for one.
LEAST_LAUNCHES = 20


def quantiles(values: NDArray[np.int64], shares: Sequence[int]) -> Sequence[int]:
    """The smallest of the values that is at least as large as each of the shares of them, in %."""
    ranks = [-(-len(values) * share // 100) - 1 for share in shares]
    values_at: list[int] = np.partition(values, ranks)[ranks].tolist()
    return values_at


def launch_intervals(
    starting_calls: NDArray[np.int64], launches: pd.DataFrame
) -> tuple[NDArray[np.int64], list[tuple[str, str, int, int | None]]]:
    """For each launch the median distance between successive launches of its thread, 0 where that is unknown; and the
    same by thread: host, name, launches, distance.

    Only `starting_calls` count, those that started work, and a thread needs LEAST_LAUNCHES of them.
    """
    hosts, threads = launches["host"].cat, launches["thread"].cat
    key = hosts.codes.to_numpy()[starting_calls].astype(np.int64) * max(len(threads.categories), 1)
    key += threads.codes.to_numpy()[starting_calls]
    counts = np.bincount(key)
    kinds = np.flatnonzero(counts)
    # Of numbers of at most two bytes, numpy finds a stable order in linear time.
    order = np.argsort(key.astype(np.min_scalar_type(len(counts))), kind="stable")
    ends = np.cumsum(counts[kinds])
    call_starts = launches["start_ps"].to_numpy()
    interval, rows = np.zeros(len(launches), np.int64), []
    for kind, begin, end in zip(kinds.tolist(), [0, *ends.tolist()], ends.tolist(), strict=False):
        thread_calls = starting_calls[order[begin:end]]
        # Sorting what is in order is linear if it is stable.
        intervals = np.diff(np.sort(call_starts[thread_calls], kind="stable"))
        median = quantiles(intervals, (50,))[0] if len(thread_calls) >= LEAST_LAUNCHES else None
        interval[thread_calls] = median or 0
        host, name = divmod(kind, len(threads.categories))
        rows.append((str(hosts.categories[host]), str(threads.categories[name]), len(thread_calls), median))
    rows.sort(key=lambda row: -row[2])
    return interval, rows
