"""The host's part of a trace: its named spans, the calls that started device work, and those that wait for a device.

`CommonPjRtBuffer::Await` stands twice on its thread, where the wait begins and where it ends: the `_p` of the first is
the `_c` of the second (xla/pjrt/pjrt_future.h). `cuStreamSynchronize` and the like are one event each; CUPTI may have
written what it waited for as a record on the stream, with the call's correlation id. A call that tells a stream to wait
for an event is left out: no XSpace says which event that is.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import categorical, frame
from tracekit.readers.xspace import host_events
from tracekit.readers.xspace.host_events import HostEvents
from tracekit.trace import LAUNCH_COLUMNS, SPAN_COLUMNS, SYNC_COLUMNS
from tracekit.vocabulary.host_calls import SyncCall, sync_call

STATS = ("_p", "_c", "correlation_id")

# A future's wait is two events, and of a stream that waits no XSpace says for which event.
_WHOLE = (SyncCall.STREAM, SyncCall.EVENT, SyncCall.DEVICE, SyncCall.OTHER)


def waits(host: str, events: HostEvents, waited: Mapping[int, tuple[str, str]]) -> pd.DataFrame:
    """The waits of the host's threads (SYNC_COLUMNS); `waited` gives device and lane by correlation id."""
    begins, ends = _pairs(events)
    whole = np.flatnonzero(events.with_name(lambda name: sync_call(name) in _WHOLE))
    rows = np.concatenate([begins, whole])
    end = np.concatenate([events.end[ends], events.end[whole]])
    order = np.argsort(events.start[rows], kind="stable")
    rows, end = rows[order], end[order]
    ids, has_id = events.plane.numbers("correlation_id")
    on: list[tuple[str | None, str | None]] = [
        waited.get(correlation_id, (None, None)) if has_one else (None, None)
        for correlation_id, has_one in zip(ids[rows].tolist(), has_id[rows].tolist(), strict=True)
    ]
    # Only a stream is waited for as one lane.
    stream = [sync_call(str(name)) is SyncCall.STREAM for name in events.names[rows]]
    each = np.arange(len(rows))
    data = host_events.host_columns(host, events, rows) | {
        "end_ps": end,
        "on_device": categorical([device for device, _ in on], each),
        "on_lane": categorical(
            [lane if one_lane else None for (_, lane), one_lane in zip(on, stream, strict=True)], each
        ),
    }
    return frame(SYNC_COLUMNS, data)


def _pairs(events: HostEvents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The events with which a wait begins and those with which it ends, in pairs of one name and thread."""
    produced, produces = events.plane.numbers("_p")
    consumed, consumes = events.plane.numbers("_c")
    awaits = events.with_name(lambda name: sync_call(name) is SyncCall.FUTURE)
    begins = {int(produced[row]): int(row) for row in np.flatnonzero(awaits & produces)}
    pairs = []
    for row in np.flatnonzero(awaits & consumes).tolist():
        begin = begins.get(int(consumed[row]), -1)
        same = events.line[begin] == events.line[row] and events.names.codes[begin] == events.names.codes[row]
        if begin >= 0 and same and events.start[begin] <= events.end[row]:
            pairs.append((begin, row))
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def spans(host: str, events: HostEvents) -> pd.DataFrame:
    """The named host spans (SPAN_COLUMNS)."""
    rows = np.flatnonzero(~events.bookkeeping())
    step, has_step = events.plane.numbers("step_num")
    return frame(
        SPAN_COLUMNS,
        {
            **host_events.host_columns(host, events, rows),
            "step": pd.Series(step[rows], dtype="Int64").where(has_step[rows]),
            **{stat: events.plane.strings(stat)[rows] for stat in ("tracekit", "alone", "baseline")},
        },
    )


def launches(host: str, events: HostEvents) -> pd.DataFrame:
    """The host calls that carry a correlation id (LAUNCH_COLUMNS)."""
    ids, has_id = events.plane.numbers("correlation_id")
    rows = np.flatnonzero(has_id)
    return frame(
        LAUNCH_COLUMNS,
        {**host_events.host_columns(host, events, rows), "correlation_id": pd.Series(ids[rows], dtype="Int64")},
    )
