"""A small file of Kineto with each of its values damaged in turn: nothing that changes a figure is silent."""

import json
import math
from pathlib import Path

import pytest

from tests.readers.chrome.kineto_files import read
from tests.readers.damage import changed, figures, lost, places
from tracekit.analysis.completeness import completeness
from tracekit.errors import TraceError
from tracekit.readers.bounds import bounded
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import Trace

ZERO = 4_843_533_513_000  # microseconds after the base time, as Kineto counts them
HOST, THREAD, OTHER = 2427, 2427, 2431


def event(cat: str, name: str, ts: float, dur: float, pid: int = HOST, tid: int = THREAD, **args: object) -> dict:
    own = {"args": args} if args else {}
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ZERO + ts, "dur": dur, **own}


def metadata(what: str, pid: int | str, tid: int, **args: object) -> dict:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": ZERO, "args": args}


def work(cat: str, name: str, ts: float, dur: float, stream: int, correlation: int, **args: object) -> dict:
    on = {} if "inDevice" in args else {"device": 0}
    return event(cat, name, ts, dur, 0, stream, **on, stream=stream, correlation=correlation, **args)


def whole() -> dict:
    """A file of a rank that launches, copies, sets, reduces over two ranks, waits and allocates, under PyTorch."""
    collective = {
        "Collective name": "allreduce",
        "In msg nelems": 1024,
        "Out msg nelems": 1024,
        "Group size": 2,
        "dtype": "BFloat16",
        "Process Group Name": "0",
        "Process Group Description": "default_pg",
        "Process Group Ranks": "[0, 1]",
        "Seq": 5,
    }
    memory = {"Device Type": 1, "Device Id": 0, "Addr": 139926520725504}
    occupancy = {"warps per SM": 12.0, "est. achieved occupancy %": 19}
    events = [
        event("user_annotation", "ProfilerStep#3", 0, 400, **{"Ev Idx": 0}),
        event("cpu_op", "aten::mm", 20, 60.125, **{"Ev Idx": 1}),
        event("python_function", "train.py(12): step", 5, 390, **{"Ev Idx": 2}),
        event(
            "user_annotation",
            "nccl:all_reduce",
            100,
            30,
            **{"Ev Idx": 3, "Input Dims": [[1024]], "Input type": ["c10::BFloat16"]},
        ),
        event("cuda_runtime", "cudaLaunchKernel", 30.5, 5.25, cbid=211, correlation=101),
        event("cuda_runtime", "cudaMemcpyAsync", 40, 9, tid=OTHER, cbid=41, correlation=102),
        event("cuda_driver", "cuLaunchKernelEx", 105, 6, cbid=652, correlation=103),
        event("cuda_runtime", "cudaEventRecord", 112, 1, cbid=135, correlation=104),
        event("cuda_runtime", "cudaStreamWaitEvent", 114, 1, cbid=147, correlation=105),
        event("cuda_runtime", "cudaLaunchKernel", 116, 2, cbid=211, correlation=106),
        event("cuda_runtime", "cudaMemsetAsync", 120, 2, cbid=51, correlation=107),
        event("cuda_runtime", "cudaStreamSynchronize", 125, 100, cbid=131, correlation=108),
        work("kernel", "sm90_gemm", 50, 100.25, 7, 101, **occupancy),
        work("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 60, 20, 20, 102, bytes=4096),
        work("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 150, 50, 24, 103, **occupancy, **collective),
        work(
            "kernel",
            "ncclDevKernel_SendRecv",
            201,
            2,
            24,
            106,
            **occupancy,
            **collective | {"Process Group Ranks": "", "Seq": 6},
        ),
        work("gpu_memset", "Memset (Device)", 204, 1.5, 7, 107, bytes=2048),
        work(
            "gpu_memcpy",
            "Memcpy PtoP (Device -> Device)",
            210,
            10,
            20,
            109,
            fromDevice=0,
            inDevice=0,
            toDevice=1,
            bytes=64,
        ),
        work(
            "cuda_sync",
            "Stream Wait Event",
            150,
            50,
            7,
            105,
            cuda_sync_kind="Stream Wait Event",
            wait_on_stream=24,
            wait_on_cuda_event_record_corr_id=104,
        ),
        work("cuda_sync", "Stream Sync", 125, 100, 7, 108, cuda_sync_kind="Stream Sync"),
        event("gpu_user_annotation", "nccl:all_reduce", 150, 50, 0, 24),
        event("overhead", "Buffer Flush", 230, 30, -1, 0),
        {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": "[memory]",
            "pid": HOST,
            "tid": THREAD,
            "ts": ZERO + 21,
            "args": {**memory, "Total Reserved": 2097152, "Total Allocated": 1024, "Bytes": 512},
        },
        {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": "[memory]",
            "pid": HOST,
            "tid": THREAD,
            "ts": ZERO + 70,
            "args": {**memory, "Total Reserved": 2097152, "Total Allocated": 512, "Bytes": -512},
        },
        {"ph": "s", "id": 101, "pid": HOST, "tid": THREAD, "ts": ZERO + 30.5, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": 101, "pid": 0, "tid": 7, "ts": ZERO + 50, "cat": "ac2g", "name": "ac2g", "bp": "e"},
        {"ph": "s", "id": 1, "pid": HOST, "tid": THREAD, "ts": ZERO + 20, "cat": "fwdbwd", "name": "fwdbwd"},
        metadata("process_name", HOST, 0, name="python3"),
        metadata("process_labels", HOST, 0, labels="CPU"),
        metadata("process_name", 0, 0, name="python3"),
        metadata("process_labels", 0, 0, labels="GPU 0"),
        metadata("process_sort_index", 0, 0, sort_index=5000000),
        metadata("thread_name", 0, 7, name="stream 7 "),
        metadata("thread_name", HOST, THREAD, name="thread 2427 (python3)"),
        metadata("thread_name", HOST, OTHER, name="thread 2431 (python3)"),
        event("Trace", "PyTorch Profiler (0)", 0, 500, "Spans", "PyTorch Profiler"),
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": ZERO + 520.25},
    ]
    gpus = [{"id": number, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85017493504} for number in (0, 1)]
    group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}
    return {
        "schemaVersion": 1,
        "deviceProperties": gpus,
        "cupti_version": 24,
        "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2, "pg_count": 1, "pg_config": [group]},
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1759276800000000000,
        "traceEvents": events,
        "traceName": "kineto.pt.trace.json",
    }


def trace_of(tmp_path: Path, document: object) -> Trace:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document))
    return bounded(read(path))


def all_figures(trace: Trace) -> list[str]:
    return [*figures(trace), *(table.to_csv() for table in (trace.host_work, trace.memory, trace.hosts))]


VALUES = (..., "damaged", 2**70, -1, "", None, 0.5, 2**62, [], math.nan)
# Each place gets so many of them in turn, as all take minutes: what is alike in the file gets others.
EACH = 1

# What older versions of PyTorch, and tools that write their files anew, leave out.
MAY_LACK = {"deviceProperties", "distributedInfo", "baseTimeNanoseconds", "world_size"}
# And what a wait for an event may lack, where the record of it was not seen.
MAY_LACK |= {"wait_on_stream", "wait_on_cuda_event_record_corr_id"}
# What programs, users and makers of devices call as they like.
MAY_BE_ANY_TEXT = {"name", "labels", "pg_name", "pg_desc", "Collective name"}
MAY_BE_ANY_TEXT |= {"Process Group Name", "Process Group Description"}
MAY_BE_ANY_NUMBER = {"tid"}  # pthread's are addresses, and some are written with a sign
MAY_BE_NEGATIVE = {"Bytes", "wait_on_stream", "wait_on_cuda_event_record_corr_id"}  # released; and not known


def is_legal(path: tuple, value: object) -> bool:
    """Whether another file of Kineto may hold this, so that nothing tells that it is damage."""
    key = path[-1]
    if value is ... or (value is None and str(key).startswith("wait_on")):
        return isinstance(key, int) or key in MAY_LACK  # one fewer of something
    if value == "damaged":
        return key in MAY_BE_ANY_TEXT
    if value in (-1, 2**62):
        return key in MAY_BE_ANY_NUMBER or (value == -1 and key in MAY_BE_NEGATIVE)
    if value == "":
        return key == "Process Group Description"  # PyTorch itself may have none
    return value == 0.5 and key in {"dur", "est. achieved occupancy %"}


def test_any_one_value_that_is_damaged_costs_itself_and_is_told(tmp_path):
    """Nothing that changes a figure is silent, but what another file may hold."""
    own = whole()
    undamaged = trace_of(tmp_path, own)
    assert not len(undamaged.losses)
    expected = all_figures(undamaged)
    silent, refused = [], set()
    for number, path in enumerate(filter(None, places(own))):
        for turn in range(EACH):
            value = VALUES[(number * EACH + turn) % len(VALUES)]
            try:
                trace = trace_of(tmp_path, changed(own, path, value))
            except TraceError:
                refused.add(path)
                continue
            if len(trace.losses) or is_legal(path, value) or all_figures(trace) == expected:
                continue
            # Other tools add events of categories of their own: these are a note.
            if value == "damaged" and path[-1] == "cat" and any("of category damaged" in note for note in trace.notes):
                continue
            silent.append((path, value))
    assert not silent
    assert refused <= {("traceEvents",)}


@pytest.mark.parametrize("value", [..., None, math.nan, [1], {}, True, "x", 0.5])
@pytest.mark.parametrize("key", ["device", "stream", "correlation", "ts", "dur"])
@pytest.mark.parametrize("at", [12, 13, 16])  # a kernel, a copy and the one memset
def test_what_is_guessed_of_work_is_told_even_where_the_guess_is_right(tmp_path, at, key, value):
    place = ("traceEvents", at, *(() if key in ("ts", "dur") else ("args",)), key)
    trace = trace_of(tmp_path, changed(whole(), place, value))
    assert trace.losses["lost"].tolist() == ([] if (key, value) == ("dur", 0.5) else [1])
    assert not completeness(timeline_of(trace)).is_complete or (key, value) == ("dur", 0.5)


def test_what_begins_before_the_time_from_which_kineto_counts_is_lost(tmp_path):
    calls = [event("cuda_runtime", "cudaLaunchKernel", 100 * at - ZERO, 5, correlation=at) for at in range(1, 5)]
    kernels = [work("kernel", "k", 100 * at + 20 - ZERO, 50, 7, at) for at in range(1, 5)]
    own = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": calls + kernels}
    assert not len(trace_of(tmp_path, own).losses)
    trace = trace_of(tmp_path, changed(own, ("traceEvents", 4, "ts"), -1))
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["events", 1, 4]]
    assert trace.events["start_ps"].tolist() == [120_000_000, 220_000_000, 320_000_000]  # from the first call on
    trace = trace_of(tmp_path, changed(own, ("traceEvents", 0, "ts"), -1))
    assert lost(trace)["events of the host without a valid time"] == 1
    for each in own["traceEvents"]:
        each["ts"] -= 250
    assert not len(trace_of(tmp_path, own).losses)  # another tool counts from another time


def test_more_elements_than_a_message_can_have_give_no_size(tmp_path):
    own = changed(whole(), ("traceEvents", 14, "args", "In msg nelems"), 2**62)
    trace = trace_of(tmp_path, own)
    assert trace.events["bytes"].isna().sum() == 3  # those of the kernel and the memset too
    assert trace.losses["evidence"].tolist() == [
        "args of collectives: In msg nelems",
        "sizes of copies and collectives that no machine moves",
    ]


def test_what_is_lost_of_several_fields_is_one_loss(tmp_path):
    own = changed(whole(), ("traceEvents", 14, "args", "dtype"), None)
    own = changed(own, ("traceEvents", 15, "args", "Seq"), "damaged")
    losses = trace_of(tmp_path, own).losses
    assert losses[["what", "lost", "total", "evidence"]].to_numpy().tolist() == [
        ["details", 2, 2, "args of collectives: dtype, Seq"]
    ]


@pytest.mark.parametrize(("letter", "gone"), [("<", 1), ("", 1), ("s", 0)])
@pytest.mark.parametrize("at", [0, 1, 2, 4, 12, 13, 18, 20])
def test_a_category_of_which_a_letter_is_damaged_is_told(tmp_path, at, letter, gone):
    own = whole()
    own["traceEvents"].append({**own["traceEvents"][at], "ts": ZERO + 400, "dur": 1})
    category = own["traceEvents"][at]["cat"]
    for place in (-1, 2):
        text = category[:place] + letter + category[place:][gone:]
        trace = trace_of(tmp_path, changed(own, ("traceEvents", at, "cat"), text))
        is_row = category in ("kernel", "gpu_memcpy") and not text.endswith("_memcpy")  # whatever copies is a copy
        assert trace.losses["what"].tolist() == (["events"] if is_row else ["details"])
        assert trace.losses["lost"].tolist() == [1]


@pytest.mark.parametrize("category", ["cpu_o<", "cpu_ops", "cp_op"])
def test_an_operator_of_a_damaged_category_is_lost_work_where_no_device_worked(tmp_path, category):
    ops = [event("cpu_op", "aten::mm", 10 * at, 9) for at in range(9)]
    own = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": ops}
    trace = trace_of(tmp_path, changed(own, ("traceEvents", 4, "cat"), category))
    assert len(trace.events) == 8
    assert trace.losses[["what", "lost"]].to_numpy().tolist() == [["events", 1]]
    assert not len(trace_of(tmp_path, changed(own, ("traceEvents", 4, "cat"), "npu_op")).losses)


def test_work_of_a_category_that_kineto_does_not_have_is_counted(tmp_path):
    own = changed(whole(), ("traceEvents", 12, "cat"), "damaged")
    losses = trace_of(tmp_path, own).losses
    assert losses[["what", "lost", "total", "evidence"]].to_numpy().tolist() == [
        ["events", 1, 6, "events of GPUs of unknown categories"]
    ]
