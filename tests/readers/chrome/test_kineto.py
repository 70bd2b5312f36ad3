"""Kineto: a small file of every category, made-up events for each rule, and real traces with known figures."""

from pathlib import Path

import pandas as pd
import pytest

from tests import traces
from tests.readers.chrome.kineto_files import event, kernel, made, read, rows
from tracekit.analysis.overlap import overlap, partition

SMALL = Path(__file__).parents[2] / "data" / "kineto-rank1.pt.trace.json"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_kernel"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def test_a_small_file_gives_its_kernels_copies_and_sets_to_the_nanosecond():
    found = rows(
        read(SMALL).events, "name", "kind", "direction", "bytes", "lane", "start_ps", "end_ps", "correlation_id"
    )
    assert found == [
        [GEMM, "compute", None, None, "stream 7", 50_000_000, 150_000_000, 101],
        ["Memcpy HtoD (Pinned -> Device)", "memcpy", "H2D", 4096, "stream 20", 60_000_000, 80_004_000, 102],
        [ALL_REDUCE, "collective", None, 2_097_152, "stream 24", 100_001_000, 200_000_000, 103],
        ["empty", "compute", None, None, "stream 7", 200_000_000, 200_000_000, 106],
        ["Memset (Device)", "memset", None, None, "stream 7", 202_000_000, 203_500_000, 107],
        ["Memcpy PtoP (Device -> Device)", "memcpy", "P2P", 1024, "stream 20", 210_000_000, 220_000_000, 108],
        ["Memcpy DtoH (Device -> Pageable)", "memcpy", "D2H", 64, "stream 20", 220_000_000, 225_000_000, 109],
    ]


def test_a_small_file_says_who_ran_where_and_when():
    trace = read(SMALL)
    assert rows(trace.events, "host", "device")[0] == ["rank1", "gpu:1"]
    assert trace.events[["host", "device"]].drop_duplicates().shape == (1, 2)
    assert rows(trace.hosts, "host", "source", "origin_ns") == [["rank1", str(SMALL), 1_759_276_800_001_000_000]]
    assert rows(trace.devices, *trace.devices.columns) == [["rank1", "gpu:1", "NVIDIA H100 80GB HBM3", None, None]]
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


def test_a_small_file_gives_the_overlap_that_it_was_made_with():
    found = overlap(read(SMALL).events)
    assert rows(found[found["what"] == "collective"], "hidden_ps", "total_ps") == [[49_999_000, 99_999_000]]


def test_a_collective_says_what_it_is_from_its_arguments():
    trace = read(SMALL)
    told = ["category", "dtype", "group", "ranks", "known_by", "run_id"]
    found = rows(trace.events[trace.events["kind"] == "collective"], *told)
    assert found == [["all-reduce", "BFloat16", "0 (default_pg)", "0,1", "stat", None]]


def nccl(collective, given, got, dtype="Float", name="ncclDevKernel_Generic(x)", **more):
    counts = {"In msg nelems": given, "Out msg nelems": got, "Group size": 8, "dtype": dtype}
    return kernel(name, **{"Collective name": collective, **counts, **more})


@pytest.mark.parametrize(
    ("args", "category", "size"),
    [
        (("allreduce", 10, 10), "all-reduce", 40),
        (("all_reduce", 10, 10, "Half"), "all-reduce", 20),
        (("allreduce_coalesced", 10, 10, "Float8_e4m3fn"), "all-reduce", 10),
        (("_allgather_base", 10, 80), "all-gather", 320),
        (("allgather_into_tensor_coalesced", 10, 80), "all-gather", 320),
        (("_reduce_scatter_base", 80, 10, "Double"), "reduce-scatter", 640),
        (("reduce_scatter_tensor_coalesced", 80, 10), "reduce-scatter", 320),
        (("all_to_all", 80, 72), "all-to-all", 320),
        (("all_to_allv", 80, 96), "all-to-all", 320),
        (("broadcast", 10, 10, "Long"), "collective-broadcast", 80),
        (("_reduce_oop", 10, 10), "reduce", 40),
        (("gather", 10, 80), "gather", 320),
        (("scatter", 80, 10), "scatter", 320),
        (("send", 10, 10), "send", 40),
        (("recv", 10, 10), "recv", 40),
        (("allreduce", 10, 10, "Posit16"), "all-reduce", None),
        (("barrier", 0, 0, "Float", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"), "all-reduce", None),
        (("coalesced", 10, 10), None, 40),
    ],
)
def test_a_message_is_as_large_as_nccl_tests_would_say(tmp_path, args, category, size):
    trace = made(tmp_path, nccl(*args))
    assert rows(trace.events, "kind", "category", "bytes", "known_by") == [["collective", category, size, "stat"]]


@pytest.mark.parametrize(
    ("args", "group", "ranks"),
    [
        ({"Process Group Name": "3", "Process Group Description": "undefined"}, "3", None),
        ({"Process Group Name": "3", "Process Group Ranks": "[4, 5]"}, "3", "4,5"),
        (
            {"Process Group Name": "1", "Process Group Description": "mesh_tp", "Process Group Ranks": "[0, ...]"},
            "1 (mesh_tp)",
            "0,1,2",
        ),
        ({"Process Group Name": "2", "Process Group Ranks": "[0, 1, ...]"}, "2", None),
        ({}, None, None),
    ],
)
def test_a_group_has_its_description_and_all_of_its_ranks_or_none(tmp_path, args, group, ranks):
    job = {"rank": 0, "pg_config": [{"pg_name": "1", "ranks": [0, 1, 2]}, {"pg_name": "2", "ranks": "[0, 1, ...]"}]}
    trace = made(tmp_path, nccl("allreduce", 1, 1, **args), distributedInfo=job)
    assert rows(trace.events, "group", "ranks") == [[group, ranks]]


def test_the_collectives_of_a_group_are_numbered_where_pytorch_numbers_them(tmp_path):
    trace = made(tmp_path, nccl("allreduce", 1, 1, Seq=7), nccl("allreduce", 1, 1), kernel("gemm", Seq=8))
    assert rows(trace.events, "name", "sequence") == [
        ["ncclDevKernel_Generic(x)", 7],
        ["ncclDevKernel_Generic(x)", None],
        ["gemm", None],
    ]


def test_older_files_tell_of_a_collective_only_around_its_launch(tmp_path):
    lying = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"
    tensors = {"Input Dims": [[4, 3], [5]], "Input type": ["float", "float"]}
    trace = made(
        tmp_path,
        event("user_annotation", "nccl:all_reduce", 10, 10, 1, 1, **tensors),
        event("user_annotation", "nccl:_all_gather_base", 30, 10, 1, 1, **tensors),
        event("user_annotation", "nccl:broadcast", 30, 10, 1, 2, **tensors),
        event("cuda_runtime", "cudaLaunchKernel", 12, 2, 1, 1, correlation=1),
        event("cuda_runtime", "cudaLaunchKernel", 35, 2, 1, 1, correlation=2),
        event("cuda_runtime", "cudaLaunchKernel", 50, 2, 1, 1, correlation=3),
        *(kernel(lying, 100 * at, correlation=at) for at in (1, 2, 3, 4)),
    )
    assert rows(trace.events, "kind", "category", "bytes", "dtype", "known_by") == [
        ["collective", "all-reduce", 68, "float", "name"],
        ["collective", "all-gather", None, "float", "name"],
        ["collective", "send-recv", None, None, "name"],
        ["collective", "send-recv", None, None, "name"],
    ]


@pytest.mark.parametrize(
    ("name", "args", "direction"),
    [
        ("Memcpy HtoD (Pageable -> Device)", {}, "H2D"),
        ("Memcpy HtoA (Pinned -> Array)", {}, "H2D"),
        ("Memcpy AtoH (Array -> Pinned)", {}, "D2H"),
        ("Memcpy DtoD (Device -> Device)", {}, "D2D"),
        ("Memcpy AtoD (Array -> Device)", {}, "D2D"),
        ("Memcpy DtoD (Device -> Device)", {"fromDevice": 0, "toDevice": 1}, "P2P"),
        ("Memcpy PtoP (Device -> Device)", {"fromDevice": 0, "toDevice": 0}, "D2D"),
        ("Memcpy PtoP (Device -> Device)", {}, "P2P"),
        ("Memcpy M2D(Memory -> Device)", {}, "H2D"),
        ("Memcpy HtoH (Pageable -> Pinned)", {}, None),
        ("Memcpy <unknown> (Unknown -> Unknown)", {}, None),
    ],
)
def test_the_direction_of_a_copy_is_between_what_its_name_or_its_devices_say(tmp_path, name, args, direction):
    trace = made(tmp_path, event("gpu_memcpy", name, device=0, stream=3, **args))
    assert rows(trace.events, "kind", "direction", "known_by") == [["memcpy", direction, "stat"]]


def test_a_copy_of_hip_has_the_size_that_its_call_asked_for(tmp_path):
    call = event("cuda_runtime", "hipMemcpyWithStream", 1, 1, 9, 9, correlation=7, size="2560", kind="1")
    copy = event("gpu_memcpy", "Memcpy HtoD (Host -> Device)", 3, 1, 2, 0, device=2, stream=0, correlation=7)
    trace = made(tmp_path, call, copy, kernel("__amd_rocclr_copyBuffer", 5))
    assert rows(trace.events, "kind", "device", "bytes") == [["memcpy", "gpu:2", 2560], ["memcpy", "gpu:0", None]]


def test_waits_calls_annotations_and_ops_are_no_rows_whatever_their_names(tmp_path):
    trace = made(
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
    trace = made(
        tmp_path,
        event("Kernel", "gemm", 1, 2, pid=1, tid="stream 7", device=1, stream=7, correlation=3),
        event("Memcpy", "Memcpy DtoH (Device -> Pinned)", 3, 2, pid=1, tid="stream 9", bytes=8),
        event("Memset", "Memset (Device)", 5, 2, pid=1, tid="stream 7", device=1, stream=7),
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
    trace = made(tmp_path, kernel("k"), name=name, **head)
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
    ],
)
def test_unix_time_is_the_files_base_or_its_own_times_or_unknown(tmp_path, head, ts, origin_ns):
    assert rows(made(tmp_path, kernel("k", ts), **head).hosts, "origin_ns") == [[origin_ns]]


def test_work_without_a_valid_time_is_left_out_and_noted(tmp_path):
    trace = made(tmp_path, kernel("good", 5.5), kernel("bad", 7, -3), kernel("absurd", 9, 2**64))
    assert trace.events["name"].tolist() == ["good"]
    assert trace.notes == ("2 kernels, copies or memsets without a valid time were skipped.",)


def test_work_of_devices_that_is_not_understood_is_noted(tmp_path):
    trace = made(tmp_path, event("mtia_ccp_events", "dma_request"), event("mtia_ccp_events", "event_wait"))
    note = "2 events of category mtia_ccp_events were skipped: their meaning is unknown."
    assert (len(trace.events), trace.notes) == (0, (note,))


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
    trace = made(tmp_path, event("kernel", "k", device=2, stream=1), deviceProperties=properties)
    assert rows(trace.devices, "device", "model") == [["gpu:2", model]]


def test_events_without_name_device_or_stream_are_kept(tmp_path):
    bare = {"ph": "X", "cat": "kernel", "ts": 1.5, "dur": 1}
    trace = made(tmp_path, bare, {**bare, "pid": 4, "tid": 13})
    assert rows(trace.events, "name", "device", "lane") == [
        ["(unnamed)", "gpu:?", "stream ?"],
        ["(unnamed)", "gpu:4", "stream 13"],
    ]


def test_the_power_set_of_pytorchs_own_example_comes_out(tmp_path):
    # worker0 of the NCCL case in torch_tb_profiler's tests; expected.json lists its parts.
    work = [("gemm", 130, 161)] + [
        ("ncclKernel", start, end - start) for start, end in ((0, 75), (16, 32), (160, 235), (162, 1718))
    ]
    trace = made(tmp_path, *(kernel(name, start, length) for name, start, length in work))
    (row,) = partition(trace.events, window=(0, 235 * 10**6)).to_dict("records")
    cells = [row[cell] // 10**6 for cell in ("compute", "compute+collective", "collective", "idle")]
    assert cells == [30, 75, 75, 55]


@pytest.mark.parametrize(
    ("case", "ranks", "spread_us"),
    [traces.param("generated/kineto", 2, 0), traces.param("kineto/dlrm-8xV100", 8, 7)],
)
def test_ranks_of_a_job_share_a_clock_and_their_collectives(case, ranks, spread_us):
    found = [read(path) for path in sorted(traces.path(case).glob("*.json.gz"))]
    kept = [trace.events[trace.events["kind"] == "collective"] for trace in found]
    assert [rows(events, "category", "bytes") for events in kept] == [rows(kept[0], "category", "bytes")] * ranks
    ends = pd.DataFrame(
        [
            events["end_ps"].to_numpy()
            + int(trace.hosts["origin_ns"].iloc[0] - found[0].hosts["origin_ns"].iloc[0]) * 1000
            for trace, events in zip(found, kept, strict=True)
        ]
    )
    # All collectives end on all ranks within a few microseconds: so the epoch times were read exactly.
    assert (ends.max() - ends.min()).max() <= spread_us * 10**6
