"""The allocation events of XSpace as rows of `Trace.memory`.

The BFC allocator of TensorFlow and XLA writes an event without duration, `MemoryAllocation` or `MemoryDeallocation`, on
the thread that asked, with what it had in use right after (AddTraceMe in xla/tsl/framework/bfc_allocator.cc), and so
does the allocator of a TPU's runtime, without a name. XProf's memory profile reads the same stats
(xprof/convert/xplane_to_memory_profile.cc): in use are the bytes allocated and those reserved, mostly for the stack of
a TPU's program; with what is available they are the limit. JAX's `trace.json.gz` leaves the events out.
"""

import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import by_label, categorical, constant, frame
from tracekit.readers.losses import Lost
from tracekit.readers.nested import innermost
from tracekit.readers.xspace.host_events import HostEvents
from tracekit.trace import MEMORY_COLUMNS
from tracekit.vocabulary.host_calls import allocates
from tracekit.vocabulary.losses import Loss

# The first of them is on every such event, and on no other.
STATS = (
    *("bytes_allocated", "bytes_reserved", "bytes_available", "peak_bytes_in_use", "allocation_bytes"),
    *("requested_bytes", "addr", "allocator_name", "tf_op", "index_on_host", "device_ordinal"),
)
_ALLOCATES, _FREES = "MemoryAllocation", "MemoryDeallocation"

# `GPU_0_bfc`; XLA's for collectives has another word before the number. Those of the host have no number.
_OF_GPU = re.compile(r"GPU_(?:\w+_)?(\d{1,9})_bfc")
# What stands where the program names no operation.
_NO_OP = frozenset({"", "(null)", "dummy"})
# The call of a jitted function tells more than the runtime's own events inside it; `$` marks a line of Python.
_JITTED = "PjitFunction("
_OF_PYTHON = "$"


def read(host: str, events: HostEvents) -> tuple[pd.DataFrame, list[str]]:
    """The allocations and releases among the events of a plane (MEMORY_COLUMNS), by time, and notes.

    The device is that in the allocator's name; without a name it is the TPU of that index on the host. The label of an
    allocation is the operation that it names, else the jitted function around it, or around the event of another thread
    that handed it the work, else the innermost event around it that is not the allocator's own.
    """
    rows = np.flatnonzero(events.with_name(lambda name: name in (_ALLOCATES, _FREES)))
    if not len(rows):  # what is around nothing need not be looked for among all events
        return frame(MEMORY_COLUMNS), []
    allocated, has_bytes = (column[rows] for column in events.plane.numbers("bytes_allocated"))
    usable = has_bytes & (allocated >= 0) & (events.plane.occurrences[rows] < 0)
    notes = []
    if skipped := int((~usable).sum()):
        notes.append(f"{skipped} of {len(rows)} allocation events do not state the bytes in use and were skipped.")
    rows, allocated = rows[usable], allocated[usable]
    order = np.argsort(events.start[rows], kind="stable")
    rows, allocated = rows[order], allocated[order]
    reserved, has_reserved = _stat(events, "bytes_reserved", rows)
    available, has_available = _stat(events, "bytes_available", rows)
    peak, has_peak = _stat(events, "peak_bytes_in_use", rows)
    size, has_size = _stat(events, "allocation_bytes", rows)
    address, has_address = _stat(events, "addr", rows)
    frees = events.with_name(lambda name: name == _FREES)[rows]
    in_use = allocated + reserved
    data: dict[str, Any] = {
        "host": constant(host, len(rows)),
        "device": _devices(events, rows),
        "allocator": events.plane.strings("allocator_name")[rows].remove_unused_categories(),
        "label": _labels(events, rows, frees),
        "time_ps": events.start[rows],
        "delta_bytes": pd.arrays.IntegerArray(np.where(frees, -size, size), ~has_size),
        "in_use_bytes": in_use,
        "stack_bytes": pd.arrays.IntegerArray(reserved, ~has_reserved),
        "limit_bytes": pd.arrays.IntegerArray(in_use + available, ~has_available),
        "peak_bytes": pd.arrays.IntegerArray(peak, ~has_peak),
        "address": pd.arrays.IntegerArray(address, ~has_address),
        "frees": frees,
    }
    return frame(MEMORY_COLUMNS, data), notes


def lost(events: HostEvents) -> list[Lost]:
    """The allocations and releases that lack a number that allocators give to all of them."""
    rows = np.flatnonzero(events.with_name(lambda name: name in (_ALLOCATES, _FREES)))
    has = np.array([_stat(events, stat, rows)[1] for stat in STATS[:4]], bool)
    # Another allocator may not know one of them.
    known = has.any(axis=1) | bool(events.plane.lost_stats)
    count = int((~has[known].all(axis=0)).sum()) if known.any() else 0
    return [Lost(Loss.DETAILS, count, len(rows), "numbers of allocations")] if count else []


def _stat(events: HostEvents, stat: str, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """An integer stat of the events `rows`, 0 where there is none or less, and whether there is one."""
    values, has_stat = events.plane.numbers(stat)
    has_stat = has_stat[rows] & (values[rows] >= 0)
    return np.where(has_stat, values[rows], 0), has_stat


def _devices(events: HostEvents, rows: NDArray[np.int64]) -> pd.Categorical:
    """The device of each of the events `rows`, null for memory of the host."""
    names = events.plane.strings("allocator_name")[rows]
    of_name = by_label(names, lambda name: int(match[1]) if (match := _OF_GPU.fullmatch(name)) else -1, -1)
    index, has_index = _stat(events, "index_on_host", rows)
    ordinal, has_ordinal = _stat(events, "device_ordinal", rows)
    # XProf takes whichever stands last on the event; only one of them was seen on any.
    of_stat = np.where(has_index, index, np.where(has_ordinal, ordinal, -1))
    numbers = np.where(names.codes >= 0, of_name, of_stat)
    codes, values = pd.factorize(numbers * 2 + (names.codes >= 0))
    labels = [None if value < 0 else f"{'gpu' if value % 2 else 'tpu'}:{value // 2}" for value in values.tolist()]
    return categorical(labels, codes)


def _labels(events: HostEvents, rows: NDArray[np.int64], frees: NDArray[np.bool_]) -> pd.Categorical:
    """What each of the events `rows` allocated for, null for those that free."""
    ops = events.plane.strings("tf_op")[rows]
    names = [*map(str, events.names.categories), None]
    jitted = events.with_name(lambda name: name.startswith(_JITTED))
    runtime = ~events.with_name(lambda name: name.startswith(_OF_PYTHON) or allocates(name))
    runtime &= events.end > events.start
    around = _around(events, np.flatnonzero(jitted), rows)
    handed = np.flatnonzero((around < 0) & ~frees)
    around[handed] = _around_producers(events, np.flatnonzero(jitted), rows[handed])
    around = np.where(around < 0, _around(events, np.flatnonzero(runtime), rows), around)
    of_event = np.append(events.names.codes, -1)[around].astype(np.int64) % len(names)
    of_op = by_label(ops, lambda name: name not in _NO_OP).astype(bool)
    label = np.where(of_op, len(names) + ops.codes.astype(np.int64), of_event)
    labels = [*names, *map(str, ops.categories)]
    return categorical(labels, np.where(frees, len(names) - 1, label)).remove_unused_categories()


def _around_producers(events: HostEvents, ranges: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The innermost of the events `ranges` around what produced the innermost consumer around each of the events
    `rows`, -1 where there is none.

    XLA's runtime runs a program on a thread of its own: the event there has the type and number (`_ct`, `_c`) of that
    which asked for it (`_pt`, `_p`; ContextType in xla/tsl/profiler/lib/context_types.h).
    """
    (consumed, consumes), (produced, produces) = (events.plane.numbers(stat) for stat in ("_c", "_p"))
    (of_consumer, _), (of_producer, _) = (events.plane.numbers(stat) for stat in ("_ct", "_pt"))
    consumer = _around(events, np.flatnonzero(consumes & (events.end > events.start)), rows)
    producers = np.flatnonzero(produces & np.isin(produced, consumed[consumer[consumer >= 0]]))
    flows = zip(of_producer[producers].tolist(), produced[producers].tolist(), strict=True)
    producer_of = dict(zip(flows, producers.tolist(), strict=True))
    wanted = zip(of_consumer[consumer].tolist(), consumed[consumer].tolist(), strict=True)
    producer = np.array([producer_of.get(flow, -1) for flow in wanted], np.int64)
    producer[consumer < 0] = -1
    found = np.flatnonzero(producer >= 0)
    around = np.full(len(rows), -1)
    around[found] = _around(events, ranges, producer[found])
    return around


def _around(events: HostEvents, ranges: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The innermost of the events `ranges` around each of the events `rows` on its line, -1 where there is none."""
    place = innermost(
        events.start[rows], events.line[rows], events.start[ranges], events.end[ranges], events.line[ranges]
    )
    return np.where(place >= 0, np.append(ranges, -1)[place], -1)
