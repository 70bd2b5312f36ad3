"""Kineto's device rows: what a collective, a copy or a kernel is, by its args, its name and its launch."""

from pathlib import Path

import pytest

from tests.readers.chrome.kineto_files import event, kernel, read, rows, trace_of

SMALL = Path(__file__).parents[2] / "data" / "kineto-rank1.pt.trace.json"


def test_a_collective_says_what_it_is_from_its_arguments():
    trace = read(SMALL)
    columns = ["category", "dtype", "group", "ranks", "known_by", "run_id"]
    collectives = rows(trace.events[trace.events["kind"] == "collective"], *columns)
    assert collectives == [["all-reduce", "BFloat16", "0 (default_pg)", "0,1", "stat", None]]


def nccl(collective, n_in, n_out, dtype="Float", name="ncclDevKernel_Generic(x)", **more):
    counts = {"In msg nelems": n_in, "Out msg nelems": n_out, "Group size": 8, "dtype": dtype}
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
    trace = trace_of(tmp_path, nccl(*args))
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
    trace = trace_of(tmp_path, nccl("allreduce", 1, 1, **args), distributedInfo=job)
    assert rows(trace.events, "group", "ranks") == [[group, ranks]]


def test_the_collectives_of_a_group_are_numbered_where_pytorch_numbers_them(tmp_path):
    trace = trace_of(tmp_path, nccl("allreduce", 1, 1, Seq=7), nccl("allreduce", 1, 1), kernel("gemm", Seq=8))
    assert rows(trace.events, "name", "sequence") == [
        ["ncclDevKernel_Generic(x)", 7],
        ["ncclDevKernel_Generic(x)", None],
        ["gemm", None],
    ]


@pytest.mark.parametrize(
    ("args", "ranks", "sequence", "size"),
    [
        (("send", {"Dst Rank": 6}), "5,6", None, 2),
        (("recv", {"Src Rank": 4}), "4,5", None, 2),
        (("recv", {"Src Rank": 4, "Dst Rank": 5}), "4,5", None, 2),
        (("send", {"Dst Rank": 6, "Process Group Ranks": "[5, 6]", "Group size": 2}), "5,6", 9, 2),
        (("send", {"Dst Rank": 6, "Process Group Ranks": "[4, ...]"}), "5,6", None, 2),
        (("send", {}), "4,5,6", 9, 3),
        (("send", {"Src Rank": 4}), "4,5,6", 9, 3),  # only a recv has it
        (("send", {"Dst Rank": 5}), "4,5,6", 9, 3),  # to itself
        (("send", {"Dst Rank": 7}), "4,5,6", 9, 3),  # no member of the group
        (("send", {"Dst Rank": 6, "Src Rank": 4}), "4,5,6", 9, 3),  # of another rank
        (("send", {"Dst Rank": "damaged"}), "4,5,6", 9, 3),
        (("broadcast", {"Src Rank": 4}), "4,5,6", 9, 3),
    ],
)
def test_a_send_or_recv_is_between_its_rank_and_its_peer_whatever_the_group(tmp_path, args, ranks, sequence, size):
    collective, told = args
    group = {"Process Group Name": "1", "Process Group Ranks": "[4, 5, 6]", "Group size": 3, "Seq": 9}
    trace = trace_of(tmp_path, nccl(collective, 1, 1, **group | told), distributedInfo={"rank": 5, "world_size": 8})
    assert rows(trace.events, "ranks", "sequence", "group_size") == [[ranks, sequence, size]]


def test_of_a_file_that_joins_ranks_no_peer_of_a_send_is_known_by_one_end(tmp_path):
    more = {"Dst Rank": 1, "Process Group Ranks": "[0, 1, 2]"}
    sends = [nccl("send", 1, 1, **more) | {"pid": f"[TP{rank}] 0"} for rank in range(2)]
    trace = trace_of(tmp_path, *sends, distributedInfo={"rank": 0})
    assert rows(trace.events, "ranks") == [["0,1,2"], ["0,1,2"]]


def test_a_send_without_a_source_has_all_its_fields_and_a_damaged_peer_is_counted(tmp_path):
    group = {"Process Group Name": "1", "Process Group Ranks": "[0, 1]", "Seq": 1}
    pair = [nccl("send", 1, 1, **group, **{"Dst Rank": 1}), nccl("recv", 1, 1, **group, **{"Src Rank": 1})]
    assert not len(trace_of(tmp_path, *pair).losses)
    pair[0]["args"]["Dst Rank"] = "damaged"
    assert rows(trace_of(tmp_path, *pair).losses, "lost", "total", "evidence") == [
        [1, 2, "args of collectives: Dst Rank"]
    ]


def test_older_files_tell_of_a_collective_only_around_its_launch(tmp_path):
    misnomer = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"
    tensors = {"Input Dims": [[4, 3], [5]], "Input type": ["float", "float"]}
    trace = trace_of(
        tmp_path,
        event("user_annotation", "nccl:all_reduce", 10, 10, 1, 1, **tensors),
        event("user_annotation", "nccl:_all_gather_base", 30, 10, 1, 1, **tensors),
        event("user_annotation", "nccl:broadcast", 30, 10, 1, 2, **tensors),
        event("cuda_runtime", "cudaLaunchKernel", 12, 2, 1, 1, correlation=1),
        event("cuda_runtime", "cudaLaunchKernel", 35, 2, 1, 1, correlation=2),
        event("cuda_runtime", "cudaLaunchKernel", 50, 2, 1, 1, correlation=3),
        *(kernel(misnomer, 100 * at, correlation=at) for at in (1, 2, 3, 4)),
    )
    assert rows(trace.events, "kind", "category", "bytes", "dtype", "known_by") == [
        ["collective", "all-reduce", 68, "float", "name"],
        ["collective", "all-gather", None, "float", "name"],
        ["collective", "send-recv", None, None, "name"],
        ["collective", "send-recv", None, None, "name"],
    ]


def test_of_annotations_inside_one_another_the_innermost_around_the_launch_tells(tmp_path):
    trace = trace_of(
        tmp_path,
        event("user_annotation", "nccl:all_gather", 0, 100, 1, 1),
        event("user_annotation", "nccl:all_reduce", 10, 20, 1, 1),
        *(event("cuda_runtime", "cudaLaunchKernel", at, 2, 1, 1, correlation=at) for at in (20, 50)),
        *(kernel("ncclKernel_SendRecv(x)", 100 * at, correlation=at) for at in (20, 50)),
    )
    assert rows(trace.events, "category") == [["all-reduce"], ["all-gather"]]


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
    trace = trace_of(tmp_path, event("gpu_memcpy", name, device=0, stream=3, **args))
    assert rows(trace.events, "kind", "direction", "known_by") == [["memcpy", direction, "stat"]]


def test_a_copy_of_hip_has_the_size_that_its_call_asked_for(tmp_path):
    call = event("cuda_runtime", "hipMemcpyWithStream", 1, 1, 9, 9, correlation=7, size="2560", kind="1")
    copy = event("gpu_memcpy", "Memcpy HtoD (Host -> Device)", 3, 1, 2, 0, device=2, stream=0, correlation=7)
    trace = trace_of(tmp_path, call, copy, kernel("__amd_rocclr_copyBuffer", 5))
    assert rows(trace.events, "kind", "device", "bytes") == [["memcpy", "gpu:2", 2560], ["memcpy", "gpu:0", None]]


@pytest.mark.parametrize(
    ("args", "ratio"),
    [
        ({"est. achieved occupancy %": 75, "warps per SM": 75.8}, 0.75),
        ({"est. achieved occupancy %": 100}, 1.0),
        ({"est. achieved occupancy %": 0, "warps per SM": 0.037}, 0.0),  # one block of four warps on 108 SMs
        ({"est. achieved occupancy %": 0, "warps per SM": 18.8}, None),  # Kineto could not tell
        ({"est. achieved occupancy %": 0}, None),
        ({"est. achieved occupancy %": -100, "warps per SM": 3}, None),
        ({"est. achieved occupancy %": 250}, None),
        ({"est. achieved occupancy %": "high"}, None),
        ({}, None),
    ],
)
def test_the_occupancy_is_the_estimate_where_kineto_could_make_one(tmp_path, args, ratio):
    assert rows(trace_of(tmp_path, kernel("k", **args)).events, "occupancy_ratio") == [[ratio]]
