"""Kineto: a small file of every category, made-up events for each rule, and real traces with known figures.

Which operator and line launched a row, and what waits for what as far as records and calls prove it, stand at the end.
"""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests import traces
from tests.readers.chrome.kineto_files import event, kernel, read, rows, trace_of
from tracekit import intervals as iv
from tracekit.analysis.overlap import overlap, partition
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import DEVICE_COLUMNS

SMALL = Path(__file__).parents[2] / "data" / "kineto-rank1.pt.trace.json"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_kernel"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
WAIT_COLUMNS = ("name", "start_ps", "device", "lane", "on_device", "on_lane", "recorded_ps")
NONE = 2**32 - 1


def test_a_small_file_gives_its_kernels_copies_and_sets_to_the_nanosecond():
    event_rows = rows(
        read(SMALL).events, "name", "kind", "direction", "bytes", "lane", "start_ps", "end_ps", "correlation_id"
    )
    assert event_rows == [
        [GEMM, "compute", None, None, "stream 7", 50_000_000, 150_000_000, 101],
        ["Memcpy HtoD (Pinned -> Device)", "memcpy", "H2D", 4096, "stream 20", 60_000_000, 80_004_000, 102],
        [ALL_REDUCE, "collective", None, 2_097_152, "stream 24", 100_001_000, 200_000_000, 103],
        ["empty", "compute", None, None, "stream 7", 200_000_000, 200_000_000, 106],
        ["Memset (Device)", "memset", None, None, "stream 7", 202_000_000, 203_500_000, 107],
        ["Memcpy PtoP (Device -> Device)", "memcpy", "P2P", 1024, "stream 20", 210_000_000, 220_000_000, 108],
        ["Memcpy DtoH (Device -> Pageable)", "memcpy", "D2H", 64, "stream 20", 220_000_000, 225_000_000, 109],
    ]


MARKS = (
    {"ph": "i", "s": "g", "name": "Iteration Start: PyTorch Profiler", "pid": "Traces", "tid": "t", "ts": 10**6},
    {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1_050_000},
)


@pytest.mark.parametrize(
    ("marks", "ts", "is_lost"),
    [
        (MARKS, 1_049_000, False),
        # The clock of a device may be a tenth of a second off, on either side.
        (MARKS, 1_149_000, False),
        (MARKS, 1_151_000, True),
        (MARKS, 901_000, False),
        (MARKS, 899_000, True),
        (MARKS, 1_050_000 - 3600 * 10**6, True),
        (MARKS[1:], 1_151_000, True),
        (MARKS[1:], 899_000, False),
        (MARKS[:1], 1_151_000, False),
    ],
)
def test_a_kernel_outside_of_the_record_window_is_lost(tmp_path, marks, ts, is_lost):
    near = [kernel("k", 1_000_010 + at) for at in range(0, 30, 10)]
    trace = trace_of(tmp_path, *near, event("cpu_op", "aten::mm", 1_000_005), kernel("far", ts), *marks)
    assert (trace.events["name"].tolist().count("far"), len(trace.losses)) == (not is_lost, is_lost)
    if is_lost:
        assert rows(trace.losses, "what", "lost", "total", "evidence") == [
            ["events", 1, 4, "kernels, copies or memsets outside of the record window"]
        ]
        # Time 0 is that of the first of the others: of the mark, or of the operator.
        first = 10 if len(marks) == 2 else 5
        assert trace.events["start_ps"].tolist() == [(first + at) * 10**6 for at in range(0, 30, 10)]


@pytest.mark.parametrize("near", [0, 3])
def test_kernels_of_another_clock_than_the_record_window_are_no_loss(tmp_path, near):
    inside = [kernel("k", 1_000_010 + 10 * at) for at in range(near)]
    trace = trace_of(tmp_path, *inside, *(kernel("k", 5_000_000 + at) for at in range(2)), *MARKS)
    assert (len(trace.events), len(trace.losses)) == (near + 2, 0)


def test_a_small_file_says_who_ran_where_and_when():
    trace = read(SMALL)
    assert rows(trace.events, "host", "device")[0] == ["rank1", "gpu:1"]
    assert trace.events[["host", "device"]].drop_duplicates().shape == (1, 2)
    assert rows(trace.hosts, "host", "source", "origin_ns") == [["rank1", str(SMALL), 1_759_276_800_001_000_000]]
    device = dict(zip(trace.devices.columns, *rows(trace.devices, *trace.devices.columns), strict=True))
    names = {"host": "rank1", "device": "gpu:1", "model": "NVIDIA H100 80GB HBM3", "memory_bytes": 85_017_493_504}
    assert device == dict.fromkeys(DEVICE_COLUMNS) | names
    assert (trace.format, trace.source, trace.notes) == ("kineto", str(SMALL), ())


def test_a_small_file_gives_its_launches_and_spans_by_thread():
    trace = read(SMALL)
    main = "thread 4000 (python3)"
    assert rows(trace.launches, "host", "thread", "name", "start_ps", "end_ps", "correlation_id") == [
        ["rank1", main, "cudaLaunchKernel", 30_500_000, 35_750_000, 101],
        ["rank1", "thread 4001", "cudaMemcpyAsync", 40_000_000, 49_000_000, 102],
        ["rank1", main, "cuLaunchKernelEx", 75_000_000, 81_000_000, 103],
    ]
    assert rows(trace.spans, "host", "thread", "name", "start_ps", "end_ps", "step") == [
        ["rank1", main, "nccl:all_reduce", 70_000_000, 90_000_000, None],
        ["rank1", main, "ProfilerStep#3", 10_000_000, 410_000_000, 3],
    ]


def test_threads_that_two_processes_call_the_same_are_told_apart_by_their_processes(tmp_path):
    calls = [
        event("cuda_runtime", "cudaLaunchKernel", tid=tid, pid=pid, correlation=5)
        for pid, tid in ((8, 1), (9, 1), (9, 2))
    ]
    mark = event("user_annotation", "train", pid=8, tid=1)
    trace = trace_of(tmp_path, *calls, mark)
    assert rows(trace.launches, "process", "thread") == [
        ["8", "thread 1, process 8"],
        ["9", "thread 1, process 9"],
        ["9", "thread 2"],
    ]
    assert rows(trace.spans, "process", "thread") == [["8", "thread 1, process 8"]]


def test_a_small_file_gives_the_overlap_that_it_was_made_with():
    overlaps = overlap(read(SMALL).events)
    assert rows(overlaps[overlaps["what"] == "collective"], "hidden_ps", "total_ps") == [[49_999_000, 99_999_000]]


def test_waits_calls_annotations_and_ops_are_no_rows_whatever_their_names(tmp_path):
    trace = trace_of(
        tmp_path,
        event("cuda_sync", "Context Sync", device=0, stream=-1, correlation=1),
        event("cuda_event", "cudaEventRecord", device=0, stream=7),
        event("xpu_sync", "zeCommandQueueSynchronize"),
        event("gpu_user_annotation", "nccl:all_reduce"),
        event("cuda_runtime", "hipMemcpyAsync", correlation=5),
        event("cpu_op", "nccl:all_reduce"),
        event("overhead", "Unrecognized"),
        {"ph": "i", "cat": "kernel", "name": "instant", "pid": 0, "tid": 7, "ts": 1},
    )
    assert len(trace.events) == 0
    assert rows(trace.launches, "name") == [["hipMemcpyAsync"]]
    assert trace.notes[0].startswith("No GPU work was recorded: no kernels, copies or memsets. Profile with")


def test_older_files_write_categories_and_streams_otherwise(tmp_path):
    trace = trace_of(
        tmp_path,
        event("Kernel", "gemm", 1, 2, pid=1, tid="stream 7", device=1, stream=7, correlation=3),
        event("Memcpy", "Memcpy DtoH (Device -> Pinned)", 3, 2, pid=1, tid="stream 9", bytes=8, correlation=4),
        event("Memset", "Memset (Device)", 5, 2, pid=1, tid="stream 7", device=1, stream=7, correlation=5),
        event("Runtime", "cudaLaunchKernel", 0, 1, pid=50, tid="51", correlation=3),
        event("Operator", "ProfilerStep#12", 0, 9, pid=50, tid="51"),
        event("Operator", "aten::mm", 0, 9, pid=50, tid="51"),
    )
    assert rows(trace.events, "kind", "device", "lane") == [
        ["compute", "gpu:1", "stream 7"],
        ["memcpy", "gpu:1", "stream 9"],
        ["memset", "gpu:1", "stream 7"],
    ]
    assert rows(trace.launches, "thread", "correlation_id") == [["thread 51", 3]]
    assert rows(trace.spans, "name", "step") == [["ProfilerStep#12", 12]]
    assert trace.notes == (
        "All times are whole microseconds, as older versions of PyTorch write them: short work is rounded.",
    )


@pytest.mark.parametrize(
    ("head", "name", "host", "guessed"),
    [
        ({"distributedInfo": {"rank": 3}}, "worker5.pt.trace.json", "rank3", False),
        ({"distributedInfo": {"rank": "3"}}, "a.json", "rank3", False),
        ({"distributedInfo": {"backend": "nccl"}}, "worker5_step.1.pt.trace.json", "rank5", True),
        ({}, "trace-rank-07.json", "rank7", True),
        ({}, "box_12.1694128.pt.trace.json", "box_12.1694128", False),
    ],
)
def test_the_rank_is_told_by_the_trace_else_by_the_files_name(tmp_path, head, name, host, guessed):
    trace = trace_of(tmp_path, kernel("k"), name=name, **head)
    assert trace.hosts["host"].tolist() == trace.events["host"].tolist() == [host]
    note = f"The rank, {host.removeprefix('rank')}, is known from the file name only."
    assert trace.notes == ((note,) if guessed else ())


@pytest.mark.parametrize(
    ("head", "ts", "origin_ns"),
    [
        ({"baseTimeNanoseconds": 1759276800000000000}, 2.5, 1759276800000002500),
        ({"baseTimeNanoseconds": "1759276800000000000"}, 2.5, 1759276800000002500),
        ({"baseTimeNanoseconds": 1759276800000000000}, 1694128201435418, 1694128201435418000),
        ({}, 1694128201435418, 1694128201435418000),
        ({}, 2.5, None),
        # Of no year that there is, and beyond int64 in a sum.
        ({"baseTimeNanoseconds": 2**62}, 2.5, 2**62 + 2500),
        ({"baseTimeNanoseconds": 2**63 - 1}, 2.5, None),
        ({"baseTimeNanoseconds": str(2**62 * 2 - 1)}, 2.5, None),
        ({}, 9.2e15, None),
    ],
)
def test_unix_time_is_the_files_base_or_its_own_times_or_unknown(tmp_path, head, ts, origin_ns):
    trace = trace_of(tmp_path, kernel("k", ts), **head)
    assert [None if pd.isna(each) else each for each in trace.hosts["origin_ns"]] == [origin_ns]
    is_damaged = bool(head) and origin_ns is None
    assert trace.losses["evidence"].tolist() == ["baseTimeNanoseconds of the file's head"] * is_damaged


def test_work_without_a_valid_time_is_left_out_and_noted(tmp_path):
    trace = trace_of(tmp_path, kernel("good", 5.5), kernel("bad", 7, -3), kernel("absurd", 9, 2**64))
    assert trace.events["name"].tolist() == ["good"]
    assert trace.notes == ("2 kernels, copies or memsets without a valid time were skipped.",)


def label(pid, text):
    return {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": text}}


def test_work_of_an_accelerator_that_nobody_knows_is_told_by_names_and_arguments(tmp_path):
    trace = trace_of(
        tmp_path,
        label(70, "CPU"),
        label(9, "XYZ 3"),
        {"ph": "M", "name": "thread_name", "pid": 9, "tid": 801, "args": {"name": "DMA"}},
        event("cpu_op", "aten::add", 0, 10, pid=70, tid=70),
        event("xyz_runtime", "xyzLaunch", 1, 2, pid=70, tid=70, correlation=5),
        event("xyz_engine_events", "add-dtype_Float", 10, 2, pid=9, tid=4, stream=1, correlation=5),
        event("xyz_engine_events", "transfer", 12, 2, pid=9, tid=801, direction="DEVICE_TO_HOST", size=16),
        event("xyz_engine_events", "dma_request", 14, 1, pid=9, tid=801),
        event("xyz_engine_events", "hccl:all_reduce_kernel", 15, 1, pid=9, tid=4, stream=1),
        event("xyz_engine_events", "event_wait", 16, 9, pid=9, tid=4, stream=1),
        event("kernel", "mul", 17, 1, pid=9, tid=4, device=2, stream=1),
        event("xyz_host_things", "prepare", 17, 1, pid=70, tid=4),
    )
    assert rows(trace.events, "device", "lane", "name", "kind", "direction", "bytes", "correlation_id", "op") == [
        ["xyz:3", "stream 1", "add-dtype_Float", "compute", None, None, 5, 0],
        ["xyz:3", "DMA", "transfer", "memcpy", "D2H", 16, None, None],
        ["xyz:3", "DMA", "dma_request", "memcpy", None, None, None, None],
        ["xyz:3", "stream 1", "hccl:all_reduce_kernel", "collective", None, None, None, None],
        ["xyz:2", "stream 1", "mul", "compute", None, None, None, None],
    ]
    assert trace.launches["name"].tolist() == ["xyzLaunch"]
    assert trace.notes == (
        "Took 4 events of category xyz_engine_events for work of xyz:3, an accelerator that tracekit does not "
        "know: names and arguments tell what each is.",
        "Skipped 1 event of category xyz_engine_events: waiting for events is no work.",
        "Skipped 1 event of category xyz_host_things, the meaning of which is unknown.",
        "All times are whole microseconds, as older versions of PyTorch write them: short work is rounded.",
    )


@pytest.mark.parametrize(
    ("name", "kind", "direction"),
    [
        ("dma memcpy h2d", "memcpy", "H2D"),
        ("copy_h2d", "memcpy", "H2D"),
        ("D2H copy", "memcpy", "D2H"),
        ("aclrtMemcpyAsync", "memcpy", None),
        ("npu_memset_async", "memset", None),
        ("copy_to_layout", "compute", None),
        ("h2d_copy_kernel", "compute", None),
    ],
)
def test_a_copy_of_an_accelerator_that_nobody_knows_is_told_by_its_name(tmp_path, name, kind, direction):
    trace = trace_of(tmp_path, event("xyz_engine_events", name, 10, 2, pid=9))
    assert rows(trace.events, "name", "kind", "direction") == [[name, kind, direction]]


def test_without_labels_a_process_of_nothing_of_the_host_is_a_device_named_by_its_category(tmp_path):
    trace = trace_of(
        tmp_path,
        event("mtia_ccp_events", "fc", 1.5, pid=9),
        event("mlu_memcpy", "copy HtoD", 3, pid=8),
        event("GCU_MEMSET", "set", 4, pid=7),
        event("hpu_op", "launch", pid=70),
        event("cpu_op", "aten::add", pid=70),
        event("Trace", "PyTorch Profiler (0)", pid="Spans"),
    )
    assert rows(trace.events, "device", "name", "kind", "direction") == [
        ["mtia:9", "fc", "compute", None],
        ["mlu:8", "copy HtoD", "memcpy", "H2D"],
        ["gcu:7", "set", "memset", None],
    ]
    assert "Skipped 1 event of category hpu_op, the meaning of which is unknown." in trace.notes


@pytest.mark.parametrize(
    ("text", "pid", "category", "device"),
    [
        ("MLU-1", 1, "mlu_kernel", "mlu:1"),
        ("Accelerator", 5, "acc_op", "accelerator:5"),
        ("AMD XDNA NPU_2", 9, "xdna_kernel", "npu:2"),
        ("DTU", "DTU", "dtu_op", "dtu:0"),
        ("DTU", 3_000_000, "dtu_op", "dtu:0"),
        (None, 5, "Kernel_npu", "npu:5"),
        ("tt-metal 0", 9, "tt_op", "tt_metal:0"),
        ("Habana Gaudi 2, card 0", 9, "hpu_op", "gaudi:0"),
        ("NPU 3 (Ascend 910B)", 9, "npu_op", "npu:3"),
        ("MLU370-X8 3", 9, "mlu_op", "mlu370_x8:3"),
        ("HPU5", 9, "hpu_op", "hpu:5"),
        ("Device 2: Ascend 910B", 9, "npu_op", "ascend:2"),
        ("card 1", 9, "acc_op", "card:1"),
    ],
)
def test_a_device_is_called_after_the_label_of_its_process_however_that_is_written(
    tmp_path, text, pid, category, device
):
    labels = [label(70, "CPU"), *([label(pid, text)] if text else [])]
    trace = trace_of(tmp_path, *labels, event("cpu_op", "aten::mm", pid=70), event(category, "mm", 5, pid=pid))
    assert rows(trace.events, "device", "name", "kind") == [[device, "mm", "compute"]]


def test_on_a_labelled_device_only_what_is_known_to_be_no_work_is_skipped_and_told(tmp_path):
    categories = ("acc_event", "async_dma", "cpu_kernel", "xyz_sync", "xyz_user_annotation")
    trace = trace_of(
        tmp_path,
        label(70, "CPU"),
        label(9, "XYZ"),
        event("cpu_op", "aten::mm", pid=70),
        event("cpu_kernel", "of the host", pid=70),
        *(event(category, "mm", 5.5, pid=9, device=2) for category in categories),
        event("user_annotation", "step", pid=9),
    )
    assert rows(trace.events, "device", "name", "kind") == [["xyz:2", "mm", "compute"]] * 3
    assert trace.notes == (
        *(
            f"Took 1 event of category {category} for work of xyz:2, an accelerator that tracekit does not know: names "
            "and arguments tell what each is."
            for category in categories[:3]
        ),
        *(
            f"Skipped 1 event of category {category}: waits, counters and annotations are no work."
            for category in categories[3:]
        ),
    )


def test_what_a_device_did_in_no_category_is_its_work_but_on_a_gpu_whose_categories_are_known(tmp_path):
    bare = {"ph": "X", "name": "MatMulV2", "ts": 8.5, "dur": 2, "pid": 2, "tid": 3}
    trace = trace_of(tmp_path, label(2, "NPU"), event("cpu_op", "aten::mm", pid=70), bare)
    assert rows(trace.events, "device", "name", "kind") == [["npu:2", "MatMulV2", "compute"]]
    assert "Took 1 event without a category for work of npu:2, " in " ".join(trace.notes)
    kernel = event("kernel", "mm", 1, pid=0, device=0)
    others = [event("some_phase", "x", 5, pid=0), event("some_dma", "x", 6, pid=0, device=0)]
    trace = trace_of(tmp_path, label(0, "GPU 0"), kernel, bare | {"pid": 0}, *others)
    assert rows(trace.events, "device", "name") == [["gpu:0", "mm"], ["gpu:0", "x"]]
    assert {note for note in trace.notes if note.startswith("Skipped")} == {
        "Skipped 1 event without a category, the meaning of which is unknown.",
        "Skipped 1 event of category some_phase, the meaning of which is unknown.",
    }


@pytest.mark.parametrize(
    "category",
    ["synchronize", "wait", "queue_wait", "annotation", "marker", "my_range", "host_sync", "power", "counters"],
)
def test_a_category_that_only_tells_of_work_is_none_on_whatever_device(tmp_path, category):
    events = event("acme_kernel", "mm", 1, pid=3), event(f"acme_{category}", "x", 5, pid=3)
    trace = trace_of(tmp_path, label(3, "ACME 0"), event("cpu_op", "aten::mm", pid=70), *events)
    assert rows(trace.events, "device", "name") == [["acme:0", "mm"]]
    assert f"Skipped 1 event of category acme_{category}: waits, " in " ".join(trace.notes)


def test_work_of_a_device_on_the_hosts_own_process_is_told_by_its_category_or_its_stream(tmp_path):
    trace = trace_of(
        tmp_path,
        label(70, "CPU"),
        event("cpu_op", "aten::mm", pid=70),
        event("npu_kernel", "mm", 5.5, pid=70, device=1, stream=4),
        event("mlu_memcpy", "copy HtoD", 6, pid=70),
        event("xyz_engine", "mm", 8, pid=70, stream=3),
        event("npu_kernel_launch", "launch", 9, pid=70),
    )
    assert rows(trace.events, "device", "lane", "kind") == [
        ["npu:1", "stream 4", "compute"],
        ["mlu:0", "stream 7", "memcpy"],
        ["xyz:0", "stream 3", "compute"],
    ]
    assert trace.notes[2:] == ("Skipped 1 event of category npu_kernel_launch, the meaning of which is unknown.",)


@pytest.mark.parametrize("text", ["CPU", "CPU 0", "CPU (Xeon 4)", "python 4321"])
def test_a_label_of_the_host_is_no_devices(tmp_path, text):
    trace = trace_of(tmp_path, label(70, text), event("odd", "x", 5, pid=70), kernel("k"))
    assert rows(trace.events, "device", "name") == [["gpu:0", "k"]]


def test_the_hosts_own_process_is_no_device_whatever_its_events_are_called(tmp_path):
    trace = trace_of(tmp_path, label(70, "CPU"), event("cpu_op", "aten::mm", pid=70), event("odd", "x", 5, pid=70))
    assert rows(trace.events, "device") == [["cpu:0"]]


@pytest.mark.parametrize(
    ("properties", "model"),
    [
        ([{"id": 0, "name": "A"}, {"id": 2, "name": "B"}], "B"),
        ([{"id": 0, "name": "A"}, {"id": 1, "name": "A"}], "A"),
        ([{"id": 0, "name": "A"}, {"id": 1, "name": "B"}], None),
        ([{"id": 2, "name": ""}], None),
    ],
)
def test_a_device_that_is_not_listed_has_the_model_that_all_have(tmp_path, properties, model):
    trace = trace_of(tmp_path, event("kernel", "k", device=2, stream=1), deviceProperties=properties)
    assert rows(trace.devices, "device", "model") == [["gpu:2", model]]


def test_events_without_name_device_or_stream_are_kept(tmp_path):
    bare = {"ph": "X", "cat": "kernel", "ts": 1.5, "dur": 1}
    trace = trace_of(tmp_path, bare, {**bare, "pid": 4, "tid": 13})
    assert rows(trace.events, "name", "device", "lane") == [
        ["(unnamed)", "gpu:?", "stream ?"],
        ["(unnamed)", "gpu:4", "stream 13"],
    ]


def test_the_power_set_of_pytorchs_own_example_comes_out(tmp_path):
    # worker0 of the NCCL case in torch_tb_profiler's tests; expected.json lists its parts.
    work = [("gemm", 130, 161)] + [
        ("ncclKernel", start, end - start) for start, end in ((0, 75), (16, 32), (160, 235), (162, 1718))
    ]
    trace = trace_of(tmp_path, *(kernel(name, start, length) for name, start, length in work))
    (row,) = partition(trace.events, windows=(0, 235 * 10**6)).to_dict("records")
    cells = [row[cell] // 10**6 for cell in ("compute", "compute+collective", "collective", "idle")]
    assert cells == [30, 75, 75, 55]


@pytest.mark.parametrize(
    ("case", "ranks", "spread_us"),
    [traces.param("generated/kineto", 2, 0), traces.param("kineto/dlrm-8xV100", 8, 7)],
)
def test_ranks_of_a_job_share_a_clock_and_their_collectives(case, ranks, spread_us):
    rank_traces = [read(path) for path in sorted(traces.path(case).glob("*.json.gz"))]
    collectives = [trace.events[trace.events["kind"] == "collective"] for trace in rank_traces]
    assert [rows(events, "category", "bytes") for events in collectives] == [
        rows(collectives[0], "category", "bytes")
    ] * ranks
    ends = pd.DataFrame(
        [
            events["end_ps"].to_numpy()
            + int(trace.hosts["origin_ns"].iloc[0] - rank_traces[0].hosts["origin_ns"].iloc[0]) * 1000
            for trace, events in zip(rank_traces, collectives, strict=True)
        ]
    )
    # All collectives end on all ranks within a few microseconds: so the epoch times were read exactly.
    assert (ends.max() - ends.min()).max() <= spread_us * 10**6


def host(cat, name, ts, dur, tid=9, **args):
    return event(cat, name, ts, dur, pid=50, tid=tid, **args)


def op(name, ts, dur, **more):
    return host("cpu_op", name, ts, dur, **more)


def launch(ts, correlation, cat="cuda_runtime", **more):
    return host(cat, "cudaLaunchKernel", ts, 1, correlation=correlation, **more)


def python(name, ts, dur, **more):
    return host("python_function", name, ts, dur, **more)


@pytest.fixture
def operations(tmp_path):
    """(framework_op, source) of each device row of these events, None where the row has no operation."""

    def read(*events):
        trace = trace_of(tmp_path, *events)
        ops = rows(trace.ops, "framework_op", "source")
        assert trace.ops.drop(columns=["framework_op", "source"]).isna().all(axis=None)
        return [None if pd.isna(number) else ops[number] for number in trace.events["op"]]

    return read


def work(*correlations):
    return [kernel("k", 100 + correlation, correlation=correlation) for correlation in correlations]


def test_a_row_is_of_the_innermost_operator_around_its_launch_on_the_launching_thread(operations):
    ops = op("aten::linear", 10, 50), op("aten::addmm", 20, 20), op("elsewhere", 0, 90, tid=8), op("later", 60, 5)
    calls = [launch(at, at) for at in (5, 15, 25, 45)]
    work = [kernel("gemm", 100 + at, correlation=at) for at in (25, 45, 15, 5)]
    assert operations(*ops, *calls, *work) == [
        ["aten::addmm", None],
        ["aten::linear", None],
        ["aten::linear", None],
        None,
    ]


def test_rows_of_one_operator_and_line_share_one_operation(tmp_path):
    launches = [launch(at, at) for at in (11, 12, 31)]
    work = [kernel(f"k{at}", 100 + at, correlation=at) for at in (11, 12, 31)]
    trace = trace_of(tmp_path, op("aten::mm", 10, 5), op("aten::mm", 30, 5), *launches, *work)
    assert (rows(trace.ops, "framework_op"), trace.events["op"].tolist()) == ([["aten::mm"]], [0, 0, 0])


def test_a_row_whose_launch_is_not_there_is_of_no_operation(operations):
    assert operations(op("aten::mm", 0, 500), kernel("k", 100, correlation=5), kernel("l", 101)) == [None, None]


def test_the_source_is_the_innermost_function_of_a_file_outside_of_pytorch(operations):
    frames = [
        python("train.py(3): <module>", 0, 90),
        python("models/my_torch.py(12): forward", 10, 60),
        python("torch/nn/modules/linear.py(124): forward", 20, 40),
        python("nn.Module: Linear_3", 21, 38),
        python("<built-in function linear>", 22, 30),
    ]
    assert operations(*frames, op("aten::mm", 23, 9), launch(25, 1), launch(80, 2), *work(1, 2)) == [
        ["aten::mm", "models/my_torch.py:12"],
        [None, "train.py:3"],
    ]


def test_where_all_functions_are_of_pytorch_the_innermost_of_them_is_the_source(operations):
    frames = python("/venv/torch/optim/adam.py(9): step", 0, 90), python("torch/_utils.py(5): f", 10, 60)
    assert operations(*frames, launch(25, 1), *work(1)) == [[None, "torch/_utils.py:5"]]


def test_steps_that_older_files_write_among_the_operators_are_none(operations):
    steps = host("Operator", "ProfilerStep#3", 0, 90), host("Operator", "aten::mm", 20, 10)
    assert operations(*steps, launch(25, 1), launch(50, 2), *work(1, 2)) == [["aten::mm", None], None]


def test_the_outer_of_two_calls_with_one_id_is_the_launch(operations):
    calls = launch(25, 1, cat="cuda_driver"), host("cuda_runtime", "cudaLaunchKernel", 15, 12, correlation=1)
    assert operations(op("outer", 10, 80), op("inner", 20, 10), *calls, *work(1)) == [["outer", None]]


@pytest.mark.parametrize(
    ("case", "rows_of_operators"),
    [
        # Each row of the schedule is launched within one of a step's two operators.
        traces.param("generated/kineto/rank0.pt.trace.json.gz", 36),
        traces.param("kineto/hta-nccl_data-A100", 3774),
    ],
)
def test_in_a_whole_trace_the_operator_around_the_launch_is_the_one_that_kineto_names_by_its_id(
    case, rows_of_operators
):
    events = json.loads(gzip.decompress(traces.path(case).read_bytes()), strict=False)["traceEvents"]
    names = {event["args"].get("External id"): event["name"] for event in events if event.get("cat") == "cpu_op"}
    work = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    operator_of_call = {event["args"]["correlation"]: names.get(event["args"].get("External id")) for event in work}
    trace = traces.trace(case)
    operators = trace.ops["framework_op"].astype(object).to_numpy()
    actual = dict(zip(trace.events["correlation_id"], operators[trace.events["op"].to_numpy(np.int64)], strict=True))
    expected = {correlation: name for correlation, name in operator_of_call.items() if name}
    assert (len(expected), {key: actual[key] for key in expected}) == (rows_of_operators, expected)


def call(name, ts, correlation, dur=5, cat="cuda_runtime", tid=9):
    return event(cat, name, ts, dur, pid=50, tid=tid, correlation=correlation)


def record(kind, correlation, stream=-1, device=0, on=None, by=None):
    """CUPTI's record of a wait; `on` and `by` are the stream and the call that recorded the event waited for."""
    args = {"cuda_sync_kind": kind, "stream": stream, "correlation": correlation, "device": device, "context": 1}
    if on is not None:
        args |= {"wait_on_stream": on, "wait_on_cuda_event_record_corr_id": by, "wait_on_cuda_event_id": 1}
    return event("cuda_sync", kind, 500, 1, pid=device, tid=stream, **args)


@pytest.fixture
def waits(tmp_path):
    def read(*events, devices=(0,)):
        work = [event("kernel", "k", 100 + at, device=at, stream=7) for at in devices]
        trace = trace_of(tmp_path, event("user_annotation", "a", 0), *work, *events)
        return [
            [value // 10**6 if isinstance(value, int) else value for value in row]
            for row in rows(trace.syncs, *WAIT_COLUMNS)
        ]

    return read


def test_a_stream_waits_for_what_was_launched_before_the_event_was_recorded_on_the_other(waits):
    calls = call("cudaEventRecord", 20, 5), call("cudaStreamWaitEvent", 40, 6)
    assert waits(*calls, record("Stream Wait Event", 6, stream=20, on=7, by=5)) == [
        ["cudaStreamWaitEvent", 40, "gpu:0", "stream 20", "gpu:0", "stream 7", 20]
    ]


@pytest.mark.parametrize(
    "records",
    [
        [],  # no record, as without enable_cuda_sync_events
        [record("Stream Wait Event", 6, stream=20)],  # older files do not say what was recorded
        [record("Stream Wait Event", 6, stream=20, on=-1, by=-1)],
        [record("Stream Wait Event", 6, stream=20, on=7, by=4)],  # recorded before the trace began
        [record("Stream Wait Event", 6, stream=20, on=7, by=8)],  # recorded again after the wait
        [record("Stream Wait Event", 6, stream=NONE, on=7, by=5)],
        [record("Stream Wait Event", 7, stream=20, on=7, by=5)],  # of no call that is there
    ],
)
def test_a_stream_that_waits_for_what_is_not_proven_is_left_out(waits, records):
    calls = call("cudaEventRecord", 20, 5), call("cudaStreamWaitEvent", 40, 6), call("cudaEventRecord", 60, 8)
    assert waits(*calls, *records) == []


def test_a_host_call_waits_for_the_stream_event_or_device_of_its_record(waits):
    calls = [call("cudaEventRecord", 20, 5), call("cudaStreamSynchronize", 40, 6)]
    calls += [call("cudaEventSynchronize", 60, 7), call("cudaDeviceSynchronize", 80, 8)]
    records = [record("Context Sync", 8, NONE, device=1), record("Event Sync", 7, on=20, by=5)]
    assert waits(*calls, *records, record("Stream Sync", 6, stream=7), devices=(0, 1)) == [
        ["cudaStreamSynchronize", 40, None, None, "gpu:0", "stream 7", 40],
        ["cudaEventSynchronize", 60, None, None, "gpu:0", "stream 20", 20],
        ["cudaDeviceSynchronize", 80, None, None, "gpu:1", None, 80],
    ]


@pytest.mark.parametrize("name", ["cudaDeviceSynchronize", "hipDeviceSynchronize", "cuCtxSynchronize"])
def test_without_records_the_one_device_that_worked_is_what_a_whole_wait_is_for(waits, name):
    assert waits(call(name, 40, 6)) == [[name, 40, None, None, "gpu:0", None, 40]]
    assert waits(call(name, 40, 6), devices=(0, 1)) == [[name, 40, None, None, None, None, None]]
    assert waits(call(name, 40, 6), devices=()) == [[name, 40, None, None, None, None, None]]


def test_without_records_what_other_host_calls_wait_for_is_not_known(waits):
    calls = call("cudaEventSynchronize", 40, 6), call("hipStreamSynchronize", 60, 7)
    assert waits(*calls) == [
        ["cudaEventSynchronize", 40, None, None, None, None, None],
        ["hipStreamSynchronize", 60, None, None, None, None, None],
    ]


def test_a_query_is_no_wait_though_cupti_makes_a_record_of_it(waits):
    calls = call("cudaEventRecord", 20, 5), call("cudaEventQuery", 40, 6), call("cudaStreamSynchronizeLater", 50, 7)
    assert waits(*calls, record("Event Sync", 6, on=7, by=5)) == []


def test_of_a_call_of_the_runtime_and_one_of_the_driver_with_one_id_the_outer_one_waits(waits):
    calls = call("cuCtxSynchronize", 41, 6, 7, "cuda_driver"), call("cudaDeviceSynchronize", 40, 6, 9)
    assert [wait[0] for wait in waits(*calls)] == ["cudaDeviceSynchronize"]


def test_a_wait_has_the_thread_and_the_times_of_its_call(tmp_path):
    trace = trace_of(tmp_path, kernel("k", 1), call("cudaDeviceSynchronize", 11, 6, dur=9, tid=77), name="rank3.json")
    assert rows(trace.syncs, "host", "thread", "start_ps", "end_ps") == [["rank3", "thread 77", 10 * 10**6, 19 * 10**6]]


def copy(correlation, ts, dur, name="Memcpy DtoH (Device -> Pinned)"):
    return event("gpu_memcpy", name, ts, dur, device=0, stream=7, correlation=correlation)


ITEM = [op("aten::item", 50, 160), op("aten::_local_scalar_dense", 51, 158)]


def test_an_op_that_brings_a_result_to_the_host_waits_for_its_copy_where_no_call_says_so(waits):
    launches = call("cudaLaunchKernel", 1, 5), call("cudaMemcpyAsync", 53, 6)
    assert waits(*ITEM, *launches, copy(6, 101, 100)) == [
        ["aten::_local_scalar_dense", 58, None, None, "gpu:0", "stream 7", 53]
    ]


@pytest.mark.parametrize(
    "events",
    [
        [copy(6, 101, 50)],  # the op ends 58 us later
        [copy(6, 101, 150)],  # the copy ends 41 us later
        [copy(6, 101, 100, "Memcpy DtoD (Device -> Device)")],
        [copy(6, 101, 100, "Memcpy HtoD (Pinned -> Device)")],
        [copy(5, 101, 100)],  # not the last that the thread launched
        [copy(6, 101, 100), call("cudaFree", 202, 9)],  # a call ended after the copy
        [copy(4, 101, 100), call("cudaMemcpyAsync", 40, 4, tid=8)],  # of another thread
    ],
)
def test_an_op_that_ends_near_no_copy_of_its_thread_is_work(waits, events):
    launches = call("cudaLaunchKernel", 1, 5), call("cudaMemcpyAsync", 53, 6)
    kernels = [event("kernel", "k", 90, 1, device=0, stream=7, correlation=6)]
    assert waits(*ITEM, *launches, *events, *(kernels if events[0]["args"]["correlation"] != 6 else [])) == []


def test_an_op_in_which_a_call_waited_waits_no_second_time(waits):
    calls = call("cudaMemcpyAsync", 53, 6), call("cudaStreamSynchronize", 60, 8, dur=145)
    assert [wait[0] for wait in waits(*ITEM, *calls, copy(6, 101, 100))] == ["cudaStreamSynchronize"]
    assert waits(op("aten::mm", 50, 160), calls[0], copy(6, 101, 100)) == []


def test_a_wait_tells_the_line_of_the_program_that_it_stands_under(tmp_path):
    frames = [
        python("/app/train.py(12): main", 0, 45),
        python("torch/cuda/__init__.py(40): synchronize", 10, 20),
        python("<built-in function _cuda_synchronize>", 11, 18),
        python("torch/x.py(7): f", 49, 200),  # no frame of the program is around it
    ]
    calls = call("cudaDeviceSynchronize", 12, 1, dur=10), call("cudaStreamSynchronize", 320, 2)
    trace = trace_of(tmp_path, *frames, *calls, *ITEM, call("cudaMemcpyAsync", 53, 6), copy(6, 101, 100))
    assert rows(trace.syncs, "name", "source") == [
        ["cudaDeviceSynchronize", "/app/train.py:12"],
        ["cudaStreamSynchronize", None],
        ["aten::_local_scalar_dense", "torch/x.py:7"],
    ]


def host_work(tmp_path, *events):
    """By thread: when the host was at work, in us since the first event, at 0, merged where pieces touch."""
    trace = trace_of(tmp_path, host("user_annotation", "start", 0, 1, tid=1), kernel("k"), *events)
    assert set(trace.spans["name"]) == {"start"}
    table = trace.host_work
    assert set(table["process"]) <= {"50"}
    threads = dict.fromkeys(table["thread"])
    times = {name: table.loc[table["thread"] == name, ["start_ps", "end_ps"]].to_numpy() for name in threads}
    for pieces in times.values():
        assert (np.diff(pieces.ravel()) >= 0).all()
    return {name: (iv.union(pieces) // 10**6).tolist() for name, pieces in times.items()}


def test_a_thread_is_at_work_in_operators_and_frames_of_python(tmp_path):
    events = [op("aten::add", 10, 10), op("aten::add_", 12, 3), python("model.py(3): forward", 18, 7)]
    events += [op("aten::mm", 40, 5), op("aten::mm", 12, 4, tid=4)]
    assert host_work(tmp_path, *events) == {"thread 9": [[10, 25], [40, 45]], "thread 4": [[12, 16]]}


def test_work_is_named_after_the_operator_that_the_program_called(tmp_path):
    def named(*events):
        table = trace_of(tmp_path, kernel("k"), host("user_annotation", "start", 0, 1, tid=1), *events).host_work
        times = (table[["start_ps", "end_ps"]] // 10**6).to_numpy().tolist()
        return [(name, *time) for name, time in zip(table["name"].astype(object).fillna(""), times, strict=True)]

    backward = op("autograd::engine::evaluate_function: NonzeroBackward0", 30, 30), op("NonzeroBackward0", 31, 28)
    inside = op("aten::item", 40, 10), op("aten::_local_scalar_dense", 42, 8)
    assert named(*backward, *inside) == [
        ("autograd::engine::evaluate_function: NonzeroBackward0", 30, 40),
        ("aten::item", 40, 50),
        ("autograd::engine::evaluate_function: NonzeroBackward0", 50, 60),
    ]
    assert named(python("train.py(3): f", 35, 20), *inside) == [("", 35, 40), ("aten::item", 40, 50), ("", 50, 55)]
    # Times are rounded: an operator that begins in another and ends after it has the rest.
    assert named(op("aten::add", 10, 5), op("aten::mul", 14, 3)) == [("aten::add", 10, 15), ("aten::mul", 15, 17)]


def test_a_frame_that_waits_is_no_work_nor_is_what_is_around_it(tmp_path):
    lock = python("<built-in method acquire of _thread.lock object at 0x7f>", 14, 4)
    events = [python("train.py(3): <module>", 0, 50), python("queue.py(154): get", 10, 10), lock]
    assert host_work(tmp_path, *events, op("aten::add", 30, 2)) == {"thread 9": [[0, 10], [20, 50]]}


def test_the_steps_of_older_files_are_no_work(tmp_path):
    trace = trace_of(tmp_path, op("ProfilerStep#1", 0, 50), op("aten::add", 10, 5), kernel("k"))
    assert rows(trace.host_work, "start_ps", "end_ps") == [[10**7, 15 * 10**6]]


@pytest.mark.parametrize("seed", range(5))
def test_work_of_the_host_is_that_of_every_moment(tmp_path, seed):
    rng = np.random.default_rng(seed)
    names = ["aten::add", "model.py(1): f", "threading.py(323): wait"]
    at_work, waiting = np.zeros((2, 3, 300), bool)
    events = []
    for _ in range(60):
        tid, what, begin, length = rng.integers(3), rng.integers(3), rng.integers(280), rng.integers(1, 20)
        events.append(host("cpu_op", names[what], int(begin), int(length), tid=int(tid) + 20))
        (waiting if what == 2 else at_work)[tid, begin : begin + length] = True
    expected = at_work & ~waiting
    actual = np.zeros_like(expected)
    for thread, times in host_work(tmp_path, *events).items():
        for begin, end in times:
            assert not actual[int(thread.split()[1]) - 20, begin:end].any()
            actual[int(thread.split()[1]) - 20, begin:end] = True
    np.testing.assert_array_equal(actual, expected)


def ranks_in_one_file(late_us):
    """The events of two ranks with the same ids, process 50 on GPU 0 and 51 on GPU 1, the second `late_us` later: in
    each of four rounds a copy that waits, asked for inside an operator, and a kernel, of which both are queued."""
    events = []
    for rank in (0, 1):
        for number in range(4):
            at, ids = 1000 * number + late_us * rank, (2 * number + 1, 2 * number + 2)
            events += [
                event("cpu_op", f"op of {rank}", at, 20, pid=50 + rank, tid=1),
                event("cuda_runtime", "cudaLaunchKernel", at + 5, 2, pid=50 + rank, tid=1, correlation=ids[0]),
                event("cuda_runtime", "cudaStreamSynchronize", at + 8, 490, pid=50 + rank, tid=1, correlation=ids[1]),
                event("kernel", "k", at + 400, 95, pid=rank, device=rank, stream=7, correlation=ids[0]),
            ]
    return events


@pytest.mark.parametrize("late_us", [500, 450, -450])
def test_ranks_in_one_file_with_the_same_ids_have_the_launches_and_waits_of_their_own_process(tmp_path, late_us):
    trace = trace_of(tmp_path, *ranks_in_one_file(late_us))
    timeline = timeline_of(trace)
    process = trace.launches["process"].astype(str).to_numpy()
    assert process[timeline.launch].tolist() == ["50"] * 4 + ["51"] * 4
    assert trace.ops["framework_op"].astype(str).iloc[trace.events["op"]].tolist() == ["op of 0"] * 4 + ["op of 1"] * 4
    # Each process waited for the last row of its own device.
    assert trace.syncs["process"].astype(str).value_counts().to_dict() == {"50": 4, "51": 4}
    waited_on = timeline.rows.device[timeline.syncs.awaited]
    assert [f"5{device}" for device in waited_on.tolist()] == trace.syncs["process"].astype(str).tolist()
    assert not any("launches" in note for note in trace.notes)


def test_ranks_in_one_file_that_nothing_tells_apart_are_linked_to_no_launch(tmp_path):
    trace = trace_of(tmp_path, *ranks_in_one_file(1))
    assert (timeline_of(trace).launch == -1).all()
    assert trace.events["op"].isna().all()
    assert trace.notes[0] == (
        "The launches of 8 device rows are unknown: several calls have their correlation ids, and neither processes "
        "nor times tell them apart."
    )


@pytest.mark.parametrize("numbers", [(0, 1), (0, 0)])
def test_ranks_that_a_tool_joined_are_told_apart_by_what_it_put_before_their_processes(tmp_path, numbers):
    events = ranks_in_one_file(1)
    for each in events:
        rank = each["args"].get("device", each["pid"] - 50)
        each["pid"] = f"[TP0{rank}] {each['pid']}"
        if "device" in each["args"]:
            each["args"]["device"] = numbers[rank]
    trace = trace_of(tmp_path, *events)
    timeline = timeline_of(trace)
    names = ("gpu:0", "gpu:1") if numbers == (0, 1) else ("TP00/gpu:0", "TP01/gpu:0")
    assert timeline.rows.devices == names
    assert trace.launches["process"].astype(str).to_numpy()[timeline.launch].tolist() == [
        *["[TP00] 50"] * 4,
        *["[TP01] 51"] * 4,
    ]
    assert trace.ops["framework_op"].astype(str).iloc[trace.events["op"]].tolist() == ["op of 0"] * 4 + ["op of 1"] * 4
    assert trace.notes[0] == (
        "The file joins 2 ranks (TP00, TP01): the correlation ids of every one but the first were offset by a multiple "
        "of 2^32."
    )


def test_an_id_that_comes_again_is_of_the_last_call_before_the_row(tmp_path):
    rounds = [
        [
            event("cuda_runtime", "cudaLaunchKernel", at, 2, pid=50, tid=1, correlation=7),
            event("kernel", "k", at + 30, 9, pid=0, device=0, stream=7, correlation=7),
        ]
        for at in (0, 1000, 2000)
    ]
    timeline = timeline_of(trace_of(tmp_path, *(each for pair in rounds for each in pair)))
    assert timeline.launch.tolist() == [0, 1, 2]
    # Also of rows that a window cuts.
    assert timeline.inside((35 * 10**6, 2035 * 10**6)).launch.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "odd",
    [
        {"args": {"device": 0, "stream": [1], "correlation": 1}},
        {"args": {"device": 0, "stream": 7, "correlation": int("9" * 4000)}},
        {"args": {"device": {"a": 1}, "stream": 7, "correlation": "9" * 5000}},
        {"name": "ProfilerStep#" + "9" * 30, "cat": "user_annotation"},
        {"pid": None, "cat": "cuda_runtime", "args": {"correlation": 5}},
        {"args": None},
    ],
)
def test_values_of_another_type_cost_only_themselves(tmp_path, odd):
    trace = trace_of(tmp_path, kernel("a", 5), kernel("b", 7) | odd, kernel("c", 9))
    assert {"a", "c"} <= {*trace.events["name"]}


@pytest.mark.parametrize(
    "lost", [{"dur": None}, {"dur": "long"}, {"dur": 1e300}, {"ph": None}, {"ph": "B"}, {"ph": "i"}, {"ph": "e"}]
)
def test_kernels_without_a_usable_duration_or_phase_are_counted(tmp_path, lost):
    trace = trace_of(tmp_path, kernel("a", 5), kernel("b", 7) | lost, kernel("c", 9))
    assert trace.events["name"].tolist() == ["a", "c"]
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["events", 1, 3]]


def test_annotations_and_calls_without_a_time_are_counted_too(tmp_path):
    note = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": "soon", "dur": 3}
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 4, "dur": -1}
    trace = trace_of(tmp_path, kernel("a", 5), note, call)
    assert "2 details of devices and events could not be read" in " ".join(trace.notes)
    assert trace.losses[["what", "lost", "evidence"]].to_numpy().tolist() == [
        ["details", 2, "events of the host without a valid time"]
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [("ph", "?"), ("ph", None), ("dur", None), ("dur", "long"), ("dur", 1e300), ("cat", None), ("name", None)],
)
@pytest.mark.parametrize("category", ["cuda_runtime", "user_annotation", "cpu_op", "python_function"])
def test_events_of_the_host_without_a_phase_or_duration_or_category_or_name_are_counted(
    tmp_path, category, field, value
):
    damaged = event(category, "a", 4) | {field: value, "pid": 9}
    trace = trace_of(tmp_path, kernel("a", 5), event(category, "b", 2, pid=9), damaged)
    assert trace.losses[["what", "lost"]].to_numpy().tolist() == [["details", 1]]


@pytest.mark.parametrize("field", ["pid", "tid"])
@pytest.mark.parametrize("damaged", [event("cpu_op", "aten::add", 4), kernel("b", 8)])
def test_events_without_a_process_or_thread_are_counted(tmp_path, field, damaged):
    trace = trace_of(tmp_path, kernel("a", 5), damaged | {field: None})
    assert trace.losses[["what", "lost", "evidence"]].to_numpy().tolist() == [
        ["details", 1, "events without a process or thread"]
    ]


@pytest.mark.parametrize("damaged", [{"correlation": None}, {"correlation": "x"}])
def test_ids_of_work_and_calls_that_others_have_are_counted(tmp_path, damaged):
    call = event("cuda_runtime", "cudaLaunchKernel", 4, pid=9, correlation=1)
    whole = [call, kernel("a", 5, correlation=1)]
    assert trace_of(tmp_path, *whole).losses.empty
    broken = [call | {"args": damaged}, kernel("b", 8, **damaged)]
    trace = trace_of(tmp_path, *whole, *broken)
    assert trace.losses[["what", "lost", "total", "evidence"]].to_numpy().tolist() == [
        ["details", 1, 2, "calls of the host without a correlation id"],
        ["details", 1, 2, "correlation ids of work"],
    ]


def test_a_size_that_other_copies_have_is_counted(tmp_path):
    calls = [event("cuda_runtime", "cudaMemcpyAsync", 10 * at, pid=9, correlation=at) for at in range(1, 4)]
    copies = [event("gpu_memcpy", "Memcpy HtoD", 10 * at, device=0, stream=7, correlation=at) for at in range(1, 4)]
    assert trace_of(tmp_path, *calls, *copies).losses.empty
    copies[1]["args"]["bytes"] = 10
    trace = trace_of(tmp_path, *calls, *copies)
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["details", 2, 3]]
    assert len(trace_of(tmp_path, calls[1], *copies).losses)
    # The size of one of HIP stands on its call, which may have been before the profile.
    assert trace_of(tmp_path, calls[1] | {"name": "hipMemcpyAsync"}, *copies).losses.empty


def test_what_profilers_leave_out_or_call_nothing_is_no_loss(tmp_path):
    work = event("mtia_ccp_events", "run", 5, device=17, stream=1, correlation=1)
    calls = [event("mtia_runtime", "run", at, pid=9, **args) for at, args in enumerate(({"correlation": 1}, {}))]
    overhead = {"ph": "M", "name": "process_name", "pid": -1, "tid": 0, "args": {"name": "CUPTI Overhead"}}
    gpus = [{"id": 0, "name": "", "totalGlobalMem": 1}]
    assert trace_of(tmp_path, work, *calls, overhead, kernel("a", 5), deviceProperties=gpus).losses.empty


def test_metadata_that_lost_its_phase_moves_no_time(tmp_path):
    label = {"name": "process_name", "pid": 0, "ts": -(10**6), "args": {"name": "python"}}
    assert trace_of(tmp_path, kernel("a", 5), label).events["start_ps"].tolist() == [0]


def test_values_among_the_events_that_are_none_are_counted(tmp_path):
    trace = trace_of(tmp_path, kernel("a", 5), [kernel("b", 7)], None, 3, kernel("c", 9))
    assert trace.events["name"].tolist() == ["a", "c"]
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["events", 3, 5]]
    assert "3 values among the events are no events: they were skipped." in trace.notes


def test_events_of_a_gpu_without_a_category_are_counted_beside_those_with_one(tmp_path):
    label = {"ph": "M", "name": "process_labels", "pid": 0, "args": {"labels": "GPU 0"}}
    nameless = {key: value for key, value in kernel("b", 7).items() if key != "cat"}
    trace = trace_of(tmp_path, label, kernel("a", 5), nameless)
    assert trace.events["name"].tolist() == ["a"]
    assert trace.losses[["what", "lost", "total", "evidence"]].to_numpy().tolist() == [
        ["events", 1, 2, "events of GPUs without a category"]
    ]


@pytest.mark.parametrize(
    ("odd", "device"),
    [(1.0, "gpu:1"), ("1", "gpu:1"), (1.5, "gpu:?"), (True, "gpu:?"), (-1, "gpu:?"), ("one", "gpu:?"), ([1], "gpu:1")],
)
@pytest.mark.parametrize("place", [0, 2])
def test_a_device_of_another_type_costs_no_other_event_its_own(tmp_path, odd, device, place):
    numbers = [1, 1, 1]
    numbers[place] = odd
    trace = trace_of(tmp_path, *(kernel("a", 10 * at, device=number) | {"pid": 1} for at, number in enumerate(numbers)))
    expected = ["gpu:1"] * 3
    expected[place] = device
    assert trace.events["device"].tolist() == expected
    lost = [loss for loss in rows(trace.losses, "lost", "total", "evidence") if loss[2].startswith("work of devices")]
    assert lost == ([[1, 3, "work of devices whose numbers are none"]] if device == "gpu:?" else [])


def test_a_whole_number_that_is_written_with_a_point_is_that_number(tmp_path):
    ids = {"device": 1, "stream": 7, "correlation": 9}
    files = [
        (
            event("cuda_runtime", "cudaLaunchKernel", correlation=write(9)),
            kernel("a", 5, **{key: write(ids[key]) for key in ids}),
        )
        for write in (int, float)
    ]
    (whole, of_floats) = (trace_of(tmp_path, *events) for events in files)
    pd.testing.assert_frame_equal(of_floats.events, whole.events)
    assert not len(of_floats.losses)


@pytest.mark.parametrize("number", [-5, 1e300, "x"])
def test_work_of_a_device_whose_number_is_none_is_counted(tmp_path, number):
    trace = trace_of(tmp_path, kernel("a", 5), kernel("b", 7, device=number))
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["events", 1, 2]]


@pytest.mark.parametrize("size", [1e300, "large", [3]])
def test_a_size_of_a_copy_that_is_none_is_counted(tmp_path, size):
    copy = event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 9, device=0, stream=7, bytes=size)
    trace = trace_of(tmp_path, kernel("a", 5), copy)
    assert trace.losses[["what", "lost"]].to_numpy().tolist() == [["details", 1]]


def told_twice(trace):
    evidence = " that stand in the file twice, of which one counts"
    losses = rows(trace.losses, "what", "lost", "total", "evidence")
    return [[*loss[:3], loss[3].removesuffix(evidence)] for loss in losses if loss[3].endswith(evidence)]


def test_what_stands_in_the_list_twice_counts_once_and_is_told(tmp_path):
    events = [
        event("user_annotation", "nccl:all_reduce", 0, 3, 9, 9, **{"External id": 1}),
        event("cuda_runtime", "cudaLaunchKernel", 1, 1, 9, 9, correlation=5),
        kernel("a", 5, 2, correlation=5),
        kernel("b", 5, 2, stream=8, correlation=6) | {"tid": 8},
    ]
    once, twice = trace_of(tmp_path, *events), trace_of(tmp_path, *events, *events)
    for name in ("events", "launches", "spans"):
        pd.testing.assert_frame_equal(getattr(twice, name), getattr(once, name))
    assert told_twice(once) == []
    assert told_twice(twice) == [
        ["details", 1, 2, "annotations"],
        ["details", 1, 2, "calls of the host"],
        ["details", 2, 4, "kernels, copies and memsets"],
    ]


@pytest.mark.parametrize(
    "other",
    [
        kernel("b", 5, 2, correlation=5),
        kernel("a", 5, 2, correlation=6),
        kernel("a", 5, 3, correlation=5),
        kernel("a", 5, 2, stream=8, correlation=5),
        kernel("a", 5, 2, correlation=5, **{"graph node id": 4}),
    ],
)
def test_work_that_differs_in_anything_is_no_repetition(tmp_path, other):
    trace = trace_of(tmp_path, kernel("a", 5, 2, correlation=5), other)
    assert (len(trace.events), told_twice(trace)) == (2, [])


@pytest.mark.parametrize("args", [{"device": 0, "stream": 7, "correlation": 5}, {"device": 0}])
def test_work_of_no_length_or_without_any_id_is_no_repetition(tmp_path, args):
    same = event("kernel", "a", 5, 0 if "stream" in args else 2) | {"args": args}
    trace = trace_of(tmp_path, same, same)
    assert (len(trace.events), told_twice(trace)) == (2, [])


UNTIMED = "kernels, copies or memsets without a valid time"
NO_JSON = "kernels, copies or memsets, or what may be: not valid JSON"


@pytest.mark.parametrize(
    ("field", "damage", "what"),
    [
        ('"ts": 50', '"ts": 0x41a', [1, 3, NO_JSON]),
        ('"ts": 50', '"ts": 1050.', [1, 3, NO_JSON]),
        ('"ts": 50', '"ts": +1050', [1, 3, NO_JSON]),
        ('"ts": 50', '"ts": 01050', [1, 3, NO_JSON]),
        ('"ts": 50', '"ts": 50,,', [1, 3, NO_JSON]),
        ('"cat": "kernel", "name": "lost"', '"cat": "kern"el", "name": "lost"', [1, 3, NO_JSON]),
        ('"cat": "kernel", "name": "lost", "pid": 0', '"name": "lost", "pid": 0, "x": 01', [1, 3, NO_JSON]),
        ('"cat": "kernel", "name": "lost", "pid": 0', '"name": "lost", "pid": 9, "x": 01', [1, 43, "not valid JSON"]),
        ('"cat": "kernel"', '"cat": "cpu_op", "x": 01', [1, 43, "not valid JSON"]),
        ('"ph": "X"', '"ph": "f", "x": 01', [1, 43, "not valid JSON"]),
        ('"ts": 50', '"ts": NaN', [1, 3, UNTIMED]),
        (
            '"ts": 50',
            '"ts": 9e15',
            [1, 3, "kernels, copies or memsets: their times are more than a day from the others"],
        ),
    ],
)
def test_work_that_cannot_be_read_counts_beside_that_of_devices_alone(tmp_path, field, damage, what):
    ops = [event("cpu_op", "aten::mm", at, 1, 9, 9) for at in range(40)]
    lost = kernel("lost", 50)
    text = json.dumps({"traceEvents": [*ops, kernel("a", 5), lost, kernel("b", 70)]})
    text = text.replace(json.dumps(lost), json.dumps(lost).replace(field, damage))
    (tmp_path / "t.json").write_text(text)
    trace = read(tmp_path / "t.json")
    assert rows(trace.losses, "lost", "total", "evidence") == [what]
    assert trace.events["name"].tolist() == ["a", "b"]


def test_an_event_far_from_all_others_is_counted_once(tmp_path):
    trace = trace_of(tmp_path, kernel("a", 5), kernel("b", 7), kernel("c", 10**12))
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["events", 1, 3]]


@pytest.mark.parametrize(("number", "device"), [(3, "gpu:3"), ("3", "gpu:3"), (-5, "gpu:?"), (1e300, "gpu:?")])
def test_a_number_of_a_device_is_one(tmp_path, number, device):
    event = kernel("a", 5)
    event["args"] |= {"device": number}
    assert trace_of(tmp_path, event).events["device"].tolist() == [device]


def test_a_kernel_without_a_process_makes_no_second_device(tmp_path):
    events = [kernel("a", 5), {**kernel("b", 7), "pid": None}]
    assert set(trace_of(tmp_path, *events).events["device"]) == {"gpu:0"}


@pytest.mark.parametrize(
    ("head", "key"),
    [
        ({"distributedInfo": 7}, "distributedInfo"),
        ({"distributedInfo": {"rank": "x", "world_size": 2}}, "rank"),
        ({"distributedInfo": {"rank": 0, "world_size": -5}}, "world_size"),
        ({"distributedInfo": {"rank": 2, "world_size": 2}}, "rank beside world_size"),
        ({"deviceProperties": 7}, "deviceProperties"),
        ({"deviceProperties": [{"id": 0, "name": 7}]}, "name of deviceProperties"),
        ({"baseTimeNanoseconds": "x"}, "baseTimeNanoseconds"),
        ({"baseTimeNanoseconds": -5}, "baseTimeNanoseconds"),
        ({"distributedInfo": {"rank": 1, "world_size": 2}, "baseTimeNanoseconds": 10**18}, None),
    ],
)
def test_a_head_that_is_damaged_is_told(tmp_path, head, key):
    trace = trace_of(tmp_path, kernel("k", 0, 5), **head)
    assert len(trace.events) == 1
    expected = [] if key is None else [["details", 1, f"{key} of the file's head"]]
    assert trace.losses[["what", "lost", "evidence"]].to_numpy().tolist() == expected


def test_work_of_a_process_whose_number_is_none_is_told(tmp_path):
    trace = trace_of(tmp_path, kernel("k", 0, 5), kernel("l", 6, 5) | {"pid": -5})
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["events", 1, 2]]


def test_of_a_cut_file_of_a_gpu_machine_nothing_is_the_work_of_a_cpu(tmp_path):
    document = {"deviceProperties": [{"id": 0}], "traceEvents": [event("cpu_op", "aten::mm", 0, 5)]}
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document)[:-2] + ', {"ph": "X", "ts": 5, ')
    trace = read(path)
    assert not len(trace.events)
    assert trace.losses["what"].tolist() == ["bytes"]
    assert any("holds no work of its GPUs" in note for note in trace.notes)
    path.write_text(json.dumps(document))
    assert read(path).events["device"].tolist() == ["cpu:0"]


@pytest.mark.parametrize("depth", [300, 1000, 5000])
def test_an_event_nested_without_end_is_cut_off_and_the_others_are_read(tmp_path, depth):
    path = tmp_path / "t.json"
    nested = json.dumps(kernel("b", 7)).replace('"stream": 7', '"stream": 7, "x": ' + "[" * depth + "]" * depth)
    events = ", ".join([json.dumps(kernel("a", 5)), nested, json.dumps(kernel("c", 9))])
    head = '{"schemaVersion": 1, "deviceProperties": [], "x": ' + '{"a":' * depth + "1" + "}" * depth
    path.write_text(f'{head}, "traceEvents": [{events}]}}')
    trace = read(path)
    assert trace.events["name"].tolist() == ["a", "b", "c"]
    assert len(trace.losses) == 0


@pytest.mark.parametrize("ts", [None, "soon", [], -(10**40)])
def test_kernels_without_a_usable_time_are_counted(tmp_path, ts):
    trace = trace_of(tmp_path, kernel("a", 5), kernel("b", 7) | {"ts": ts}, kernel("c", 9))
    assert trace.events["name"].tolist() == ["a", "c"]
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["events", 1, 3]]
    assert "1 kernels, copies or memsets without a valid time were skipped." in trace.notes


def test_what_another_tool_adds_in_a_process_of_its_own_is_no_work_of_a_device(tmp_path):
    own = [event("cpu_op", "aten::mm", 0, pid=9), kernel("a", 5, 20)]
    added = [event("FEE", "f (/a/b.py:0)", 30 + at, pid=2432, tid=2432) for at in range(3)]
    trace = trace_of(tmp_path, *own, *added)
    assert set(trace.events["device"]) == {"gpu:0"}
    assert trace.losses.empty
    assert any("of category FEE" in note for note in trace.notes)
    # Without work of GPUs, it is what the devices did.
    assert set(trace_of(tmp_path, own[0], *added).events["device"]) == {"fee:2432"}
