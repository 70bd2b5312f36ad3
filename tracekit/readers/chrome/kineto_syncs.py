"""What waits for what, as a Kineto document tells it.

A call's name says that it waits. For what, CUPTI's own records say (`cuda_sync`, written with
`_ExperimentalConfig(enable_cuda_sync_events=True)`): which stream, and which call recorded the event that is waited for
(libkineto/src/CuptiActivityProfiler.cpp). Without them cudaStreamWaitEvent tells nothing, not even its event.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from tracekit.columns import frame
from tracekit.devices import is_known
from tracekit.readers.chrome import Document
from tracekit.readers.chrome.kineto_args import Sync, integers, whole
from tracekit.readers.chrome.kineto_work import device, lane
from tracekit.trace import SYNC_COLUMNS
from tracekit.vocabulary.host_calls import SyncCall, sync_call

_NO_STREAM = 2**32 - 1


class _Wait(NamedTuple):
    """What waits, a host thread where `lane` is None, and what for; all None: for what is not known."""

    device: str | None = None
    lane: str | None = None
    on_device: str | None = None
    on_lane: str | None = None
    recorded_ps: int | None = None


def read(document: Document, calls: pd.DataFrame, devices: Sequence[str]) -> pd.DataFrame:
    """The waits (SYNC_COLUMNS) by start, one for each of `calls` (LAUNCH_COLUMNS) that waits or makes a stream wait.

    `devices` are those that worked. What a host call waits for is null where nothing proves it; a stream that waits for
    what is not proven is left out.
    """
    kinds = [sync_call(str(name)) for name in calls["name"].cat.categories]
    codes = calls["name"].cat.codes.to_numpy()
    ids, starts = calls["correlation_id"].to_numpy(np.int64), calls["start_ps"].to_numpy()
    at = np.flatnonzero(np.array([*map(bool, kinds), False], bool)[codes])
    at = at[np.argsort(starts[at], kind="stable")]
    # Of a call of the runtime and one of the driver with the same id the first, which is around the other.
    at = at[np.sort(np.unique(ids[at], return_index=True)[1])]
    records = document.args(np.flatnonzero(document.of("cuda_sync")), Sync)
    record_of = {whole(args.correlation): args for args in records}
    started = dict(zip(ids[::-1].tolist(), starts[::-1].tolist(), strict=True)) if record_of else {}
    only = devices[0] if len(devices) == 1 and is_known(devices[0]) else None
    waits: dict[int, _Wait] = {}
    for call in at.tolist():
        args = record_of.get(int(ids[call]), Sync())
        wait = _wait(kinds[codes[call]], args, int(ids[call]), int(starts[call]), started, only)
        if wait:
            waits[call] = wait
    same = calls.iloc[list(waits)].drop(columns="correlation_id")
    *places, recorded_ps = zip(*waits.values(), strict=True) if waits else ((),) * len(_Wait._fields)
    columns = {name: pd.Categorical(place) for name, place in zip(_Wait._fields, places, strict=False)}
    recorded = integers(list(recorded_ps))
    return frame(SYNC_COLUMNS, {**{str(name): same[name].array for name in same}, **columns, "recorded_ps": recorded})


def _wait(
    kind: SyncCall | None, args: Sync, number: int, start_ps: int, started: Mapping[int, int], only: str | None
) -> _Wait | None:
    """What the call of this kind, id and start says with the args of its record; None for what is to be left out.

    `started` maps ids of calls to their starts; `only` is the one device that worked, None where several did.
    """
    known = None if args.device is None else device(str(args.device))
    where = known if known and is_known(known) else None
    if kind is SyncCall.STREAM:
        on_lane = _stream(args.stream)
        return _Wait(None, None, where, on_lane, start_ps) if where and on_lane else _Wait()
    if kind not in (SyncCall.STREAM_WAIT, SyncCall.EVENT):
        where = where or only
        return _Wait(None, None, where, None, start_ps) if where else _Wait()
    by, on_lane, waiting = whole(args.recorded_by) or 0, _stream(args.wait_on_stream), _stream(args.stream)
    # A later id would be of a later use of the same event.
    proven = where and on_lane and by < number and by in started
    if kind is SyncCall.EVENT:
        return _Wait(None, None, where, on_lane, started[by]) if proven else _Wait()
    return _Wait(where, waiting, where, on_lane, started[by]) if proven and waiting else None


def _stream(number: object) -> str | None:
    """The lane of a stream's number, None for the numbers that stand for none."""
    known = whole(number)
    return lane(str(known)) if known is not None and 0 <= known < _NO_STREAM else None
