"""A job as Nsight Systems exports it: all ranks in one SQLite file, each a process."""

from pathlib import Path

from tests.readers.nsys.exports import Tables, communicator_payload, communicator_schema, pid
from tests.simulator.clocks import WHOLE, Recorder
from tests.simulator.job import DEVICE_SORTS, Row, Sort
from tests.simulator.truth import Truth

_BASE_NS = 1_000_000_000
_PINNED, _DEVICE, _PAGEABLE = 1, 2, 0
_HTOD, _DTOH = 1, 2
# CUPTI's types of synchronisation.
_EVENT, _STREAM_WAIT, _STREAM, _CONTEXT = 1, 2, 3, 4
_NO_EVENT = 2**32 - 1
_COMMUNICATOR, _INIT_NS, _APART_NS = 0x5AFE, 1000, 1000


def write(truth: Truth, path: Path, recorder: Recorder = WHOLE) -> Path:
    """The export; all processes share the host's clock, so only devices may be late."""
    tables = Tables()
    begins: dict[int, int] = {}
    for row in truth.job.rows:
        if row.rank in recorder.missing:
            continue
        start, end = recorder.times(truth.recording, row)
        _add(tables, truth, row, _BASE_NS + start, _BASE_NS + end)
        if row.sort not in DEVICE_SORTS:
            begins[row.rank] = min(start, begins.get(row.rank, start))
    if truth.job.ranks > 1:
        _make_communicator(tables, truth.job.ranks, begins)
    tables.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_700_000_000_000_000_000, utcTime="", localTime="")
    for rank in sorted({*range(truth.job.ranks)} - recorder.missing):
        tables.add("TARGET_INFO_GPU", id=rank, name="NVIDIA H100 80GB HBM3", uuid=str(rank))
    return tables.write(path.with_suffix(".sqlite"))


def _make_communicator(tables: Tables, ranks: int, begins: dict[int, int]) -> None:
    """What NCCL's NVTX range says of the communicator of all ranks, which each makes before what it does first."""
    communicator_schema(tables)
    for rank, begin in begins.items():
        process, end = 1000 + rank, _BASE_NS + begin - _APART_NS
        payload = communicator_payload(_COMMUNICATOR, ranks, rank)
        name = "ncclCommInitRank"
        tables.range(name, end - _INIT_NS, end, 59, process, process, domainId=1, binaryData=payload)


def _add(tables: Tables, truth: Truth, row: Row, start: int, end: int) -> None:
    """The records of one row."""
    process = 1000 + row.rank
    if row.sort in (Sort.RANGE, Sort.OP, Sort.STEP):
        name = truth.job.step_label.format(row.step) if row.sort == Sort.STEP else row.name
        tables.range(name, start, end, process=process, thread=process + row.lane)
        return
    ids = {"streamId": row.lane, "correlationId": row.correlation, "deviceId": row.rank, "process": process}
    if row.sort == Sort.KERNEL:
        tables.kernel(row.name, start, end, **ids)
    elif row.sort == Sort.MEMSET:
        tables.activity("MEMSET", start, end, **ids)
    elif row.sort == Sort.MEMCPY:
        source, target = (_PINNED, _DEVICE) if row.direction == "H2D" else (_DEVICE, _PAGEABLE)
        kind = _HTOD if row.direction == "H2D" else _DTOH
        tables.copy(kind, start, end, bytes=row.bytes, srcKind=source, dstKind=target, **ids)
    else:
        tables.call(row.name, start, end, row.correlation, process, process + row.lane)
    if row.sort == Sort.RECORD:
        mark = {"eventSyncId": row.correlation, "deviceId": row.rank}
        tables.event(row.correlation, row.correlation, row.stream, process, **mark)
    elif row.sort in (Sort.HOLD, Sort.SYNC):
        waits = _STREAM if row.stream >= 0 else _CONTEXT
        kind = _STREAM_WAIT if row.sort == Sort.HOLD else _EVENT if row.recorded else waits
        event = {"eventId": row.recorded or _NO_EVENT, "eventSyncId": row.recorded, "syncType": kind}
        stream = row.stream if row.stream >= 0 else _NO_EVENT
        tables.sync(row.correlation, stream, process, start=start, end=end, globalPid=pid(process), **event)
