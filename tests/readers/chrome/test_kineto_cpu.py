"""PyTorch on a CPU alone: operators of threads and gloo's collectives as rows of cpu:0, from Kineto and without it."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.readers.chrome.kineto_files import event, kernel, read, rows, trace_of
from tracekit.readers import nested

WHERE = {"pid": 70, "tid": 70}


def op(name, ts, dur, tid=70):
    return event("cpu_op", name, ts, dur, pid=70, tid=tid)


def gloo(name, ts, dur, **args):
    return event("user_annotation", name, ts, dur, pid=70, tid=71, **args)


def test_an_operator_runs_where_none_of_its_own_does_and_small_ones_in_it_are_none(tmp_path):
    trace = trace_of(
        tmp_path,
        op("aten::linear", 0, 10),
        op("aten::t", 1, 3),
        op("aten::addmm", 5.5, 4),
        op("aten::resolve_conj", 6, 0.25),
        event("user_annotation", "forward", 0, 30, **WHERE),
        op("ProfilerStep#3", 0, 40),
        op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 31, 5),
    )
    assert rows(trace.events, "device", "lane", "kind", "name", "start_ps", "end_ps") == [
        ["cpu:0", "thread 70", "compute", "aten::linear", 0, 1_000_000],
        ["cpu:0", "thread 70", "compute", "aten::t", 1_000_000, 4_000_000],
        ["cpu:0", "thread 70", "compute", "aten::linear", 4_000_000, 5_500_000],
        ["cpu:0", "thread 70", "compute", "aten::addmm", 5_500_000, 9_500_000],
        ["cpu:0", "thread 70", "compute", "aten::linear", 9_500_000, 10_000_000],
    ]
    assert trace.ops["framework_op"].tolist() == ["aten::linear", "aten::t", "aten::addmm"]
    assert trace.events["op"].tolist() == [0, 1, 0, 2, 0]
    assert len(trace.spans) == 3
    assert not len(trace.host_work)
    assert trace.notes[0].startswith(
        "No GPU work was recorded: the operators of the host's threads are the work of cpu:0"
    )


def test_collectives_are_gloos_and_what_asks_for_them_is_no_work(tmp_path):
    trace = trace_of(
        tmp_path,
        op("c10d::allreduce_", 0, 3),
        op("record_param_comms", 0.5, 1),
        op("aten::add", 4, 1.5),
        gloo("gloo:all_reduce", 1, 8, **{"Input Dims": [[7, 2]], "Input type": ["float"]}),
    )
    assert rows(trace.events, "lane", "name", "kind", "category", "bytes", "dtype") == [
        ["thread 71", "gloo:all_reduce", "collective", "all-reduce", 56, "float"],
        ["thread 70", "aten::add", "compute", None, None, None],
    ]


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        ([("0", "default_pg", [0, 1, 2])], ["0 (default_pg)", "0,1,2", 3, 3 * 56]),
        ([("0", "default_pg", [0, 1, 2]), ("1", "undefined", [0, 1, 2])], [None, "0,1,2", 3, 3 * 56]),
        ([("0", "default_pg", [0, 1, 2]), ("1", "undefined", [0, 2])], [None, None, None, None]),
        ([], [None, None, None, None]),
    ],
    ids=["one group", "two of the same ranks", "two of other ranks", "none"],
)
def test_a_collective_is_of_the_ranks_that_all_groups_of_the_job_have(tmp_path, groups, told):
    job = {"rank": 0, "world_size": 3}
    if groups:
        job["pg_config"] = [dict(zip(("pg_name", "pg_desc", "ranks"), group, strict=True)) for group in groups]
    sent = {"Input Dims": [[7, 2]], "Input type": ["float"]}
    names = ("gloo:all_gather", "gloo:gather", "gloo:scatter", "gloo:all_reduce")
    records = [gloo(name, 10 * at, 8, **sent) for at, name in enumerate(names)]
    trace = trace_of(tmp_path, op("aten::add", 90, 1), *records, distributedInfo=job)
    *of_group, bytes_of_all = told
    assert rows(trace.events, "group", "ranks", "group_size", "bytes") == [
        [*of_group, bytes_of_all],
        [*of_group, bytes_of_all],
        [*of_group, None],
        [*of_group, 56],
        [None, None, None, None],
    ]


def test_with_calls_of_a_gpu_or_its_work_operators_are_no_rows(tmp_path):
    call = event("cuda_runtime", "cudaLaunchKernel", 2, 1, correlation=4, **WHERE)
    with_call = trace_of(tmp_path, op("aten::add", 0, 3), call)
    assert not len(with_call.events)
    assert with_call.notes[-1].startswith("No GPU work was recorded: no kernels")
    with_kernel = trace_of(tmp_path, op("aten::add", 0, 3), kernel("k", 2.5))
    assert with_kernel.events["device"].tolist() == ["gpu:0"]


def test_the_list_of_builds_without_kineto_has_no_categories(tmp_path):
    def item(name, ts, dur, tid=1, pid="CPU functions"):
        return {"name": name, "ph": "X", "ts": ts, "dur": dur, "tid": tid, "pid": pid, "args": {}}

    path = tmp_path / "rank1.json"
    cpu = [
        item("aten::mm", 0, 7),
        item("autograd::engine::evaluate_function: MmBackward0", 8, 4),
        item("MmBackward0", 9, 2),
        item("my own range", 0, 20),
        item("gloo:all_reduce", 3, 9, tid=2),
    ]
    path.write_text(json.dumps(cpu))
    trace = read(path)
    assert rows(trace.events, "device", "lane", "name", "kind", "start_ps", "end_ps") == [
        ["cpu:0", "thread 1", "aten::mm", "compute", 0, 7_000_000],
        ["cpu:0", "thread 2", "gloo:all_reduce", "collective", 3_000_000, 12_000_000],
        ["cpu:0", "thread 1", "autograd::engine::evaluate_function: MmBackward0", "compute", 8_000_000, 9_000_000],
        ["cpu:0", "thread 1", "MmBackward0", "compute", 9_000_000, 11_000_000],
        ["cpu:0", "thread 1", "autograd::engine::evaluate_function: MmBackward0", "compute", 11_000_000, 12_000_000],
    ]
    assert trace.spans["name"].tolist() == ["my own range", "gloo:all_reduce"]
    assert trace.hosts["host"].tolist() == ["rank1"]
    path.write_text(json.dumps([*cpu, item("gemm_kernel", 5, 1, tid=3, pid="CUDA functions")]))
    assert rows(read(path).events, "device", "name") == [["gpu:3", "gemm_kernel"]]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 8), st.integers(0, 5)).map(
            lambda at: (at[0], at[1], at[1] + at[2])
        ),
        max_size=9,
    )
)
def test_each_moment_of_a_thread_is_of_the_range_around_it_that_began_last(ranges):
    on, start, end = np.array(ranges, np.int64).reshape(-1, 3).T
    place, begin, until = nested.own_times(start, end, on)
    for thread in range(3):
        for moment in range(14):
            around = [at for at in range(len(on)) if on[at] == thread and start[at] <= moment < end[at]]
            best = max(around, key=lambda at: (start[at], -end[at]), default=None)
            pieces = (on[place] == thread) & (begin <= moment) & (moment < until)
            owners = [(start[at], end[at]) for at in place[pieces]]
            assert owners == ([] if best is None else [(start[best], end[best])])
    assert (until > begin).all()
