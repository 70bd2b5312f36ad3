"""What the host's threads were doing, as far as the names of their spans prove it."""

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.intervals import Intervals
from tracekit.vocabulary.host_calls import Activity, activity_of

# Host and name of a thread.
Thread = tuple[str, str]

# The calls of jitted functions; a pool's threads may launch what the calling thread dispatched.
_CALLS = re.compile(r"^(PjitFunction\(|PJRT_LoadedExecutable_Execute$)")


def activity_times(spans: pd.DataFrame) -> Mapping[Thread, Mapping[Activity, Intervals]]:
    """The times, merged, at which each thread was inside a span that proves what it did; `spans` as SPAN_COLUMNS."""
    of_name = [activity_of(str(name)) for name in spans["name"].cat.categories]
    kinds = np.array([-1 if activity is None else list(Activity).index(activity) for activity in of_name] or [-1])
    kind = kinds[spans["name"].cat.codes.to_numpy()]
    places = np.flatnonzero(kind >= 0)
    times_of: dict[Thread, dict[Activity, Intervals]] = {}
    for (thread, kind_code), span_places in _groups(spans, places, kind[places]).items():
        times = iv.intervals(spans["start_ps"].to_numpy()[span_places], spans["end_ps"].to_numpy()[span_places])
        times_of.setdefault(thread, {})[list(Activity)[kind_code]] = iv.union(times)
    return times_of


def dispatchers(spans: pd.DataFrame) -> dict[str, str]:
    """By host: the thread that called the jitted functions, where only one thread did."""
    calls = np.array([bool(_CALLS.match(str(name))) for name in spans["name"].cat.categories] or [False])
    places = np.flatnonzero(calls[spans["name"].cat.codes.to_numpy()])
    threads = list(dict.fromkeys(thread for thread, _ in _groups(spans, places, np.zeros(len(places), np.int64))))
    hosts = [host for host, _ in threads]
    return {host: name for host, name in threads if hosts.count(host) == 1}


def _groups(
    table: pd.DataFrame, places: NDArray[np.int64], kind: NDArray[np.int64]
) -> dict[tuple[Thread, int], NDArray[np.int64]]:
    """The rows `places` of a frame by thread and `kind`, both (n,)."""
    if len(places) == 0:
        return {}
    hosts, threads = table["host"].cat, table["thread"].cat
    key = hosts.codes.to_numpy()[places].astype(np.int64) * len(threads.categories) + threads.codes.to_numpy()[places]
    key = key * (int(kind.max()) + 1) + kind
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    groups = {}
    for group_start, rows in zip(starts, np.split(places[order], starts[1:]), strict=True):
        thread = str(table["host"].iat[rows[0]]), str(table["thread"].iat[rows[0]])
        groups[thread, int(kind[order[group_start]])] = rows
    return groups
