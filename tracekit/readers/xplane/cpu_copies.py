"""Copies of CPU devices: pool regions that a copy call queued, and calls that copy by themselves.

A region that copies runs no thunk. Its `Record` stands inside the call, if the source was ready, or follows the thunks
that computed the source, which tells the device.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.readers.xplane import ops
from tracekit.readers.xplane.host_events import LISTENER, HostEvents
from tracekit.trace import EVENT_COLUMNS, Kind, constant, frame
from tracekit.vocabulary import kinds

STATS = ("device_ordinal", "_p", "_c")

_AFTER_EXECUTE = "ThunkExecutor::Execute (wait for completion)"
_COPY_CALLS = ("CopyToMemorySpace", "CopyToMemorySpace_Direct")
_HOST_TO_DEVICE = ("H2D Dispatch", "CommonPjRtClient::LinearizeIntoImpl")
_UNKNOWN = "cpu:?"


def copies(host: str, events: HostEvents) -> tuple[pd.DataFrame, NDArray[np.int64], list[str]]:
    """Copies between CPU devices and from the host (EVENT_COLUMNS), the row of the call that asked for each, -1 where
    nothing proves it or the call is the copy, and notes.

    A copy belongs to its source device where the trace proves it, else to `cpu:?`. Bytes are not written, so null.
    """
    rows, notes = _device_copies(events)
    to_device = np.flatnonzero(events.named(lambda name: name in _HOST_TO_DEVICE))
    rows += [(_UNKNOWN, "H2D", int(one), int(events.start[one]), int(events.end[one]), -1) for one in to_device]
    lanes = ops.line_names(events.plane)
    data = {
        "host": constant(host, len(rows)),
        "device": [row[0] for row in rows],
        "lane": [lanes[events.line[row[2]]] for row in rows],
        "kind": [Kind.MEMCPY.value] * len(rows),
        "known_by": [kinds.KnownBy.STAT.value] * len(rows),
        "name": ["copy to device" if row[1] == "H2D" else "copy between devices" for row in rows],
        "start_ps": np.array([row[3] for row in rows], np.int64),
        "end_ps": np.array([row[4] for row in rows], np.int64),
        "direction": [row[1] for row in rows],
    }
    return frame(EVENT_COLUMNS, data), np.array([row[5] for row in rows], np.int64), notes


def _device_copies(events: HostEvents) -> tuple[list[tuple[str, str, int, int, int, int]], list[str]]:
    """(device, direction, StartRegion's row, start, end, call's row) of every device-to-device copy, and notes."""
    is_call = events.named(lambda name: name in _COPY_CALLS)
    if not is_call.any():
        return [], []
    starts, stops, closed = events.regions
    unclosed = int((~closed).sum())
    queued = events.queued_by >= 0
    starts, stops, producer = starts[queued], stops[queued], events.queued_by[queued]
    thunk = events.latest(events.thunk, events.line[starts], stops)
    holds_thunk = (thunk >= 0) & (events.start[thunk] >= events.start[starts])
    call = events.around(is_call, producer)
    direct = call >= 0
    before = events.latest(
        ~events.named(lambda name: name.startswith(LISTENER)), events.line[producer], events.start[producer]
    )
    after_run = (before >= 0) & (
        events.names.codes[before] == events.names.categories.get_indexer(pd.Index([_AFTER_EXECUTE]))[0]
    )
    source = events.plane.numbers("device_ordinal")[0][before]
    # A copy whose source was not ready is queued by the thread that computed it, after the call that asked for it.
    waiting = np.setdiff1d(np.flatnonzero(is_call), call[direct])
    waiting = waiting[np.argsort(events.start[waiting], kind="stable")].tolist()
    rows = []
    for at in np.argsort(events.start[producer], kind="stable"):
        if holds_thunk[at]:
            continue
        asked = [one for one in waiting[:2] if events.start[one] <= events.start[producer[at]]]
        if direct[at]:
            device, by = _UNKNOWN, int(call[at])
        elif after_run[at] and asked:
            waiting.pop(0)
            # Of several that wait, nothing tells which of them this is.
            device, by = f"cpu:{source[at]}", asked[0] if len(asked) == 1 else -1
        else:
            continue
        rows.append((device, "P2P", int(starts[at]), int(events.start[starts[at]]), int(stops[at]), by))
    notes = [f"{unclosed} pool regions were still open when the profile stopped; they end there."] if unclosed else []
    unknown = sum(row[0] == _UNKNOWN for row in rows)
    if unknown:
        notes.append(
            f"{unknown} of {len(rows)} copies between CPU devices do not say from which device "
            f"(their source was ready): they stand on {_UNKNOWN}, which counts in no device pair."
        )
    return rows, notes
