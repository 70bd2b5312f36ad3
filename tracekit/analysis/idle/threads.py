"""What the host's threads were doing, as far as the names of their spans prove it."""

import re
from collections.abc import Mapping
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.intervals import Intervals

# Host and name of a thread.
Thread = tuple[str, str]


class Activity(StrEnum):
    """What a span's name proves of the thread that it stands on."""

    MEETING = "meeting the threads of other devices"
    COMPILING = "compiling a program, or loading one"
    LOADING = "loading data"


# The first pattern that a name holds decides. A span that other threads run for the program, such as tf.data's
# prefetching, counts only for its own thread: it shows no wait of the thread that launches.
_NAMES: tuple[tuple[Activity, str], ...] = (
    # XLA's participants wait for each other: xla/service/rendezvous.h, xla/backends/cpu/collectives.
    (Activity.MEETING, r"^(InvokeRendezvous|Rendezvous\b|RendezvousSingle|Wait: pending_threads|Wait for rendezvous)"),
    # JAX (jax/_src/compiler.py: backend_compile, today backend_compile_and_load) and PJRT clients.
    (
        Activity.COMPILING,
        r"^(backend_compile|(Pj[Rr]t|Tfrt)\w*Client::Compile|lower_sharding_computation$)",
    ),
    # The TPU runtime brings a program to the device before its first run.
    (Activity.COMPILING, r"^LoadProgram"),
    # PyTorch: torch/_dynamo/utils.py (dynamo_timed).
    (Activity.COMPILING, r" \(dynamo_timed\)$|^entire_frame_compile$"),
    # PyTorch: torch/utils/data/dataloader.py (_profile_name), torch/utils/data/datapipes/_hook_iterator.py.
    (Activity.LOADING, r"^enumerate\(Data(Loader|Pipe)\)#"),
    # Lightning's loops: profiler actions `[_TrainingEpochLoop].train_dataloader_next`.
    (Activity.LOADING, r"dataloader_next$"),
    # tf.data: https://www.tensorflow.org/guide/data_performance_analysis, and xprof's host event types.
    (Activity.LOADING, r"^Iterator::|^(MultiDevice)?IteratorGetNext\w*::|:(MultiDevice)?IteratorGetNext\w*$"),
    # TPU infeed: xla/tsl/profiler/utils/tf_op_utils.h (IsInfeedEnqueueOp).
    (Activity.LOADING, r"(^|:)InfeedEnqueue"),
    # What people call it: TraceAnnotation("data_load"), record_function("## load_batch ##").
    (Activity.LOADING, r"(?i)^\W*(\w+[ /.:])?(data[ _-]?load(er|ing)?|(next|load|fetch|read)[ _-]?(batch|data))\W*$"),
    # Python's own frames in JAX's profile: `$dataloader.py:733 __next__`.
    (Activity.LOADING, r"(?i)^\$\w*data_?(loader|set|iterator)\w*\.py:\d+ __next__$"),
)
# A name that a pattern fits holds one of these; files with a name per call have ten thousands of names.
_HINTS = ("rendezvous", "pending", "compile", "lower_", "dynamo", "next", "load", "iterator", "infeed", "batch", "data")
# The calls of jitted functions; a pool's threads may launch what the calling thread dispatched.
_CALLS = re.compile(r"^(PjitFunction\(|PJRT_LoadedExecutable_Execute$)")


def activity_of(name: str) -> Activity | None:
    """What a span of this name proves of its thread, None if nothing."""
    lowered = name.lower()
    if not any(hint in lowered for hint in _HINTS):
        return None
    return next((doing for doing, pattern in _NAMES if re.search(pattern, name)), None)


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
