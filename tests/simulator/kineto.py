"""A job as PyTorch's profiler writes it: one JSON file a rank."""

import json
from pathlib import Path
from typing import Any

from tests.simulator.clocks import WHOLE, Recorder
from tests.simulator.job import Row, Sort
from tests.simulator.truth import Truth

# Before the first row, so that clocks may be behind.
_BASE_NS = 5_000_000_000_000
_CATEGORIES = {
    Sort.KERNEL: "kernel",
    Sort.MEMCPY: "gpu_memcpy",
    Sort.MEMSET: "gpu_memset",
    Sort.RANGE: "user_annotation",
    Sort.STEP: "user_annotation",
    Sort.OP: "cpu_op",
}
_NONE = 4294967295


def write(truth: Truth, folder: Path, recorder: Recorder = WHOLE) -> Path:
    """The files of all ranks that were recorded."""
    events: dict[int, list[dict[str, Any]]] = {rank: [] for rank in range(truth.job.ranks)}
    for row in truth.job.rows:
        start, end = recorder.times(truth.recording, row)
        place = {"ts": (_BASE_NS + start) / 1000, "dur": (end - start) / 1000}
        events[row.rank].append({"ph": "X", **_event(truth, row), **place})
        if row.sort in (Sort.HOLD, Sort.SYNC) and truth.job.has_sync_records:
            events[row.rank].append({"ph": "X", **_sync(row), **place})
    folder.mkdir(parents=True, exist_ok=True)
    for rank, rank_events in events.items():
        if rank not in recorder.missing:
            document = {
                "schemaVersion": 1,
                "deviceProperties": [{"id": rank, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 80 << 30}],
                "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": truth.job.ranks},
                "displayTimeUnit": "ms",
                "baseTimeNanoseconds": 1_700_000_000_000_000_000,
                "traceEvents": rank_events,
            }
            (folder / f"rank{rank}.pt.trace.json").write_text(json.dumps(document))
    return folder


def _event(truth: Truth, row: Row) -> dict[str, Any]:
    """A row without its times."""
    name = f"ProfilerStep#{row.step}" if row.sort == Sort.STEP else row.name
    ids = {"External id": row.correlation, "correlation": row.correlation}
    if row.sort in (Sort.KERNEL, Sort.MEMCPY, Sort.MEMSET):
        args: dict[str, Any] = {"device": row.rank, "context": 1, "stream": row.lane, **ids}
        if row.bytes and row.collective < 0:
            args["bytes"] = row.bytes
        if row.collective >= 0:
            args |= {
                "Collective name": "allreduce",
                "In msg nelems": row.bytes // 4,
                "Out msg nelems": row.bytes // 4,
                "Group size": truth.job.ranks,
                "dtype": "Float",
                "Process Group Name": "0",
                "Process Group Description": "default_pg",
                "Process Group Ranks": str(list(range(truth.job.ranks))),
                "Seq": row.collective,
            }
        return {"cat": _CATEGORIES[row.sort], "name": name, "pid": row.rank, "tid": row.lane, "args": args}
    thread = {"pid": 1000 + row.rank, "tid": 1000 + row.rank + row.lane}
    if row.sort in _CATEGORIES:
        return {"cat": _CATEGORIES[row.sort], "name": name, **thread, "args": {"External id": 0}}
    return {"cat": "cuda_runtime", "name": name, **thread, "args": {**ids, "cbid": 211}}


def _sync(row: Row) -> dict[str, Any]:
    """CUPTI's record of what is waited for."""
    args: dict[str, Any] = {"device": row.rank, "context": 1, "correlation": row.correlation}
    if row.sort == Sort.HOLD:
        name, stream = "Stream Wait Event", row.stream
    elif row.recorded:
        name, stream = "Event Sync", -1
    elif row.stream >= 0:
        name, stream = "Stream Sync", row.stream
    else:
        name, stream = "Context Sync", -1
    args |= {"cuda_sync_kind": name, "stream": stream if stream >= 0 else _NONE, "wait_on_stream": -1}
    if row.recorded:
        args |= {
            "wait_on_stream": row.recorded_stream,
            "wait_on_cuda_event_record_corr_id": row.recorded,
            "wait_on_cuda_event_id": row.recorded,
        }
    return {"cat": "cuda_sync", "name": name, "pid": row.rank, "tid": stream, "args": args}
