"""What waits for what in an Nsight Systems export: streams for events of other streams, host calls for streams.

CUPTI's records of synchronisation name stream, context and event; those of recorded events (in newer exports) tell
which call recorded the event, and on which stream. What a call is, only its name tells: of cudaDeviceSynchronize
`syncType` is 4 in some versions and 1 in others. `deviceId` is 0 in the records of every device; contexts tell.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import distinct
from tracekit.readers.nsys.cuda import Calls, Work
from tracekit.readers.nsys.machine import process_of
from tracekit.readers.nsys.sqlite_export import MISSING, Export, integers, named, strings
from tracekit.vocabulary.host_calls import SyncCall, sync_call

Integers = NDArray[np.int64]

_SYNCS, _EVENTS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
_COLUMNS = ("globalPid", "contextId", "streamId", "correlationId", "eventId", "eventSyncId")
_RECORDING = re.compile(r"(?:cuda|cu)EventRecord(?:WithFlags)?(?![A-Za-z])")
_LANE, _STREAM, _EVENT, _DEVICE = range(4)
_KINDS = {SyncCall.STREAM_WAIT: _LANE, SyncCall.STREAM: _STREAM, SyncCall.EVENT: _EVENT, SyncCall.DEVICE: _DEVICE}
# CUPTI's correlation ids have 32 bits; above them `Calls` holds the process.
_ID_BITS = 32
_NO_RECORD = -2


@dataclass(frozen=True)
class Waits:
    """n waits; `call` is the place of each in the calls, other columns name a device or stream by a row that ran there.

    `lane`: the stream that waits, -1 if the host thread does. `on_device`: the device that is waited for, -1 if that is
    unknown; `on_lane`: its stream, -1 for all. `recorded_ns`: what was launched before is waited for; MISSING if that
    is unknown.
    """

    call: Integers
    lane: Integers
    on_device: Integers
    on_lane: Integers
    recorded_ns: Integers


def read(export: Export, work: Work, calls: Calls, device: Integers) -> Waits:
    """Every call that waits, in their order, but those that make a stream wait only if the export proves for what.

    `device` tells which device each row of `work` ran on, shape (rows,). A wait for a whole device is one for a context
    of it, so it is known only where the device ran nothing of another.
    """
    kind = _kinds(export, calls)
    at = np.flatnonzero(kind >= 0)
    at = at[np.argsort(calls.start_ns[at], kind="stable")]
    # Of a call of the runtime and one of the driver with the same id the first, which is around the other.
    at = at[np.sort(distinct(calls.process[at], calls.correlation[at])[1])]
    kind, process = kind[at], calls.process[at]
    # What the driver moved of unified memory is on no stream.
    on_streams = np.flatnonzero(~np.array([what.unified for what in work.labels], bool)[work.label])
    keys = (column[on_streams] for column in (device, work.process, work.context, work.stream))
    streams = on_streams[distinct(*keys)[1]]
    sync = _records(export, _SYNCS, work, calls)
    record = _first((process, _numbers(calls.correlation[at])), (sync["globalPid"], sync["correlationId"]))
    record_of = {column: np.append(sync[column], _NO_RECORD)[record] for column in _COLUMNS}
    own_stream = _stream(work, streams, process, record_of)
    recorded_on, recorded_ns = _recorded(export, work, streams, calls, process, record_of)
    of_event = (kind == _LANE) | (kind == _EVENT)
    on_lane = np.where(of_event, recorded_on, np.where(kind == _STREAM, own_stream, -1))
    on_device = np.where(kind == _DEVICE, _whole(work, device, streams, process, record_of["contextId"]), on_lane)
    recorded_ns = np.where(on_device < 0, MISSING, np.where(of_event, recorded_ns, calls.start_ns[at]))
    lane = np.where(kind == _LANE, own_stream, -1)
    keep = (kind != _LANE) | ((lane >= 0) & (on_lane >= 0))
    return Waits(*(column[keep] for column in (at, lane, on_device, on_lane, recorded_ns)))


def _kinds(export: Export, calls: Calls) -> Integers:
    """What each call waits for, -1 for one that does not."""
    which, names = pd.factorize(calls.name_id)
    texts = strings(export, names)
    calls_of = [sync_call(texts.get(name_id, "")) for name_id in names.tolist()]
    return np.array([-1 if call is None else _KINDS.get(call, -1) for call in calls_of], np.int64)[which]


def _numbers(correlation: Integers) -> Integers:
    """The ids as CUPTI wrote them."""
    return correlation & ((1 << _ID_BITS) - 1)


def _stream(work: Work, streams: Integers, process: Integers, record: dict[str, Integers]) -> Integers:
    """That of the rows `streams` which is on the stream of each record, -1 where nothing ran there."""
    known = (work.process[streams], work.context[streams], work.stream[streams])
    return np.append(streams, -1)[_first((process, record["contextId"], record["streamId"]), known)]


def _records(export: Export, name: str, work: Work, calls: Calls) -> dict[str, Integers]:
    """The columns of a table of records, `globalPid` as `process_of` gives it; no rows where there is no table."""
    tables = named(export, name)
    if not tables:
        return {column: np.zeros(0, np.int64) for column in _COLUMNS}
    columns = integers(export, tables[0], _COLUMNS)
    process = process_of(columns["globalPid"])
    # Some exports do not say whose a record is; with one process there is no doubt.
    owners = np.unique(np.concatenate([work.process, calls.process]))
    owners = owners[owners != MISSING]
    return {**columns, "globalPid": np.where(process == MISSING, owners[0], process) if len(owners) == 1 else process}


def _recorded(
    export: Export, work: Work, streams: Integers, calls: Calls, process: Integers, record: dict[str, Integers]
) -> tuple[Integers, Integers]:
    """On which stream the event was recorded that each wait is for, as one of `streams`, and when that call began.

    -1 and MISSING where that is not known. `record` is the record of each wait.
    """
    event = _records(export, _EVENTS, work, calls)
    event_record = _first((process, record["eventSyncId"]), (event["globalPid"], event["eventSyncId"]))
    event_record = np.where(record["eventSyncId"] > 0, event_record, -1)
    event_record = np.where(event_record < 0, _latest(process, record, event), event_record)
    event_columns = {column: np.append(event[column], _NO_RECORD)[event_record] for column in _COLUMNS}
    on = _stream(work, streams, process, event_columns)
    which, names = pd.factorize(calls.name_id)
    texts = strings(export, names)
    recording = np.array([bool(_RECORDING.match(texts.get(name_id, ""))) for name_id in names.tolist()], bool)[which]
    order = np.flatnonzero(recording)
    order = order[np.argsort(calls.start_ns[order], kind="stable")]
    known = (calls.process[order], _numbers(calls.correlation[order]))
    by = np.append(order, -1)[_first((process, event_columns["correlationId"]), known)]
    proven = (on >= 0) & (by >= 0)
    return np.where(proven, on, -1), np.where(proven, np.append(calls.start_ns, MISSING)[by], MISSING)


def _latest(process: Integers, record: dict[str, Integers], event: dict[str, Integers]) -> Integers:
    """The last record of the same event of the same context before each wait, -1 where there is none.

    Events are used again and again; exports without `eventSyncId` tell the use only by the order of correlation ids.
    """
    count = len(event["eventId"])
    which, _ = distinct(
        np.concatenate([event["globalPid"], process]),
        np.concatenate([event["contextId"], record["contextId"]]),
        np.concatenate([event["eventId"], record["eventId"]]),
    )
    number = np.concatenate([event["correlationId"], record["correlationId"]])
    key = (which << _ID_BITS) + np.where(number > 0, number, 0)
    order = np.argsort(key[:count], kind="stable")
    before = np.searchsorted(key[order], key[count:]) - 1
    last_record = np.append(order, -1)[before]
    return np.where((before >= 0) & (np.append(which[:count], -1)[last_record] == which[count:]), last_record, -1)


def _whole(work: Work, device: Integers, streams: Integers, process: Integers, context: Integers) -> Integers:
    """That of the rows `streams` which is on the device of each context, if the device ran no other; else -1."""
    owner, _ = distinct(work.process[streams], work.context[streams])
    owners = np.bincount(device[streams[distinct(device[streams], owner)[1]]], minlength=device.max(initial=-1) + 1)
    row = _first((process, context), (work.process[streams], work.context[streams]))
    alone = np.append(owners[device[streams]] == 1, False)[row]
    return np.where(alone, np.append(streams, -1)[row], -1)


def _first(queries: Sequence[Integers], known: Sequence[Integers]) -> Integers:
    """For each row of the columns `queries` the first equal row of `known`, -1 where there is none."""
    count = len(known[0])
    which, _ = distinct(*(np.concatenate(columns) for columns in zip(known, queries, strict=True)))
    first = np.full(which.max(initial=-1) + 1, -1)
    first[which[:count][::-1]] = np.arange(count)[::-1]
    return first[which[count:]]
