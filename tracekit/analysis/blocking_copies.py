"""Copies that hold up the thread that asks for them, told by their times and by the memory that they go through.

CUDA Runtime API, "API synchronization behavior" (https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html):
what a copy is called does not tell whether its call waits for it. To pageable memory of the host also an asynchronous
call returns only once the copy has completed; from there a call returns once the data is staged, and the transfer may
go on; within a device no call waits; from and to pinned memory only the synchronous calls do.

In PyTorch's profiles of A100 and V100 all 40 cudaMemcpyAsync to pageable memory returned 6 us to 1.3 ms after the end
of their copy, 68 of 69 from there 1 us to 62 ms before it. Of 4,149 within a device 3 returned later by chance.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.analysis.host_records import is_repeated
from tracekit.columns import by_label
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.syncs import CLOCKS_PS, WAKE_PS
from tracekit.timeline.timeline import Timeline
from tracekit.vocabulary.copies import host_memory
from tracekit.vocabulary.host_calls import copies_synchronously
from tracekit.vocabulary.kinds import Kind


def blocking_copies(timeline: Timeline) -> NDArray[np.int64]:
    """The calls that waited for the one copy between host and device that they started: places in the launches.

    A synchronous call did if the copy ended by its return, or CLOCKS_PS after it, by which the clocks may be apart; one
    of which no copy is known waited by its name alone. Any other did if the copy ended by its return, and goes to
    pageable memory; or from there, or through memory that is not told, if the call took longer than a launch and
    returned promptly after that end (both WAKE_PS).
    """
    # Inside windows rows are cut.
    return timeline.whole.once("blocking copies", lambda: _blocking_copies(timeline))


def _blocking_copies(timeline: Timeline) -> NDArray[np.int64]:
    rows, launches, launch = timeline.whole.rows, timeline.trace.launches, timeline.whole.timed_launch
    is_synchronous = by_label(launches["name"].array, copies_synchronously).astype(bool)
    row = np.flatnonzero((launch >= 0) & (rows.kind == CODE[Kind.MEMCPY]))
    row = row[(np.bincount(launch[launch >= 0], minlength=len(launches)) == 1)[launch[row]]]
    call = launch[row]
    begin, until = (launches[edge].to_numpy()[call] for edge in ("start_ps", "end_ps"))
    end, memory, way = rows.end[row], memory_of(rows, row), _directions(rows, row)
    is_late = until - end > WAKE_PS
    waited = (way == "D2H") & (memory == "pageable") | (memory != "pinned") & (end - begin > WAKE_PS) & ~is_late
    waited = (end <= until) & waited | is_synchronous[call] & (end <= until + CLOCKS_PS)
    blocks = is_synchronous.copy()
    blocks[call] = waited & np.isin(way, ("D2H", "H2D"))
    return np.flatnonzero(blocks & ~repeated_calls(timeline))


def repeated_calls(timeline: Timeline) -> NDArray[np.bool_]:
    """Which of the launches of a trace repeat another one, found once (`is_repeated`)."""
    return timeline.whole.once("repeated calls", lambda: is_repeated(timeline.trace.launches))


def _directions(rows: Rows, row: NDArray[np.int64]) -> NDArray[np.object_]:
    return np.array([*rows.labels("direction"), None], object)[rows.codes("direction")[row]]


def memory_of(rows: Rows, row: NDArray[np.int64]) -> NDArray[np.object_]:
    """The memory of the host that each copy goes through, by its record or its name, None where neither tells."""
    of_record, of_name = (
        np.array([*(host_memory(label) for label in rows.labels(column)), None], object)[rows.codes(column)[row]]
        for column in ("host_memory", "name")
    )
    return np.where(pd.isna(of_record), of_name, of_record)
