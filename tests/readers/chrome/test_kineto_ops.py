"""Which operator and which line launched a device row of a Kineto document."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

from tests import traces
from tests.readers.chrome.kineto_files import event, kernel, made, rows


def host(cat, name, ts, dur, tid=9, **args):
    return event(cat, name, ts, dur, pid=50, tid=tid, **args)


def op(name, ts, dur, **more):
    return host("cpu_op", name, ts, dur, **more)


def call(ts, correlation, cat="cuda_runtime", **more):
    return host(cat, "cudaLaunchKernel", ts, 1, correlation=correlation, **more)


def python(name, ts, dur, **more):
    return host("python_function", name, ts, dur, **more)


@pytest.fixture
def operations(tmp_path):
    """(framework_op, source) of each device row of these events, None where the row has no operation."""

    def read(*events):
        trace = made(tmp_path, *events)
        told = rows(trace.ops, "framework_op", "source")
        assert trace.ops.drop(columns=["framework_op", "source"]).isna().all(axis=None)
        return [None if pd.isna(one) else told[one] for one in trace.events["op"]]

    return read


def test_a_row_is_of_the_innermost_operator_around_its_launch_on_the_launching_thread(operations):
    ops = op("aten::linear", 10, 50), op("aten::addmm", 20, 20), op("elsewhere", 0, 90, tid=8), op("later", 60, 5)
    calls = [call(at, at) for at in (5, 15, 25, 45)]
    work = [kernel("gemm", 100 + at, correlation=at) for at in (25, 45, 15, 5)]
    assert operations(*ops, *calls, *work) == [
        ["aten::addmm", None],
        ["aten::linear", None],
        ["aten::linear", None],
        None,
    ]


def test_rows_of_one_operator_and_line_share_one_operation(tmp_path):
    launched = [call(at, at) for at in (11, 12, 31)]
    work = [kernel(f"k{at}", 100 + at, correlation=at) for at in (11, 12, 31)]
    trace = made(tmp_path, op("aten::mm", 10, 5), op("aten::mm", 30, 5), *launched, *work)
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
    assert operations(*frames, op("aten::mm", 23, 9), call(25, 1), call(80, 2), *work(1, 2)) == [
        ["aten::mm", "models/my_torch.py:12"],
        [None, "train.py:3"],
    ]


def test_where_all_functions_are_of_pytorch_the_innermost_of_them_is_the_source(operations):
    frames = python("/venv/torch/optim/adam.py(9): step", 0, 90), python("torch/_utils.py(5): f", 10, 60)
    assert operations(*frames, call(25, 1), *work(1)) == [[None, "torch/_utils.py:5"]]


def test_steps_that_older_files_write_among_the_operators_are_none(operations):
    steps = host("Operator", "ProfilerStep#3", 0, 90), host("Operator", "aten::mm", 20, 10)
    assert operations(*steps, call(25, 1), call(50, 2), *work(1, 2)) == [["aten::mm", None], None]


def test_the_outer_of_two_calls_with_one_id_is_the_launch(operations):
    calls = call(25, 1, cat="cuda_driver"), call(15, 1)
    assert operations(op("outer", 10, 80), op("inner", 20, 10), *calls, *work(1)) == [["outer", None]]


def work(*correlations):
    return [kernel("k", 100 + one, correlation=one) for one in correlations]


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
    assert rows(made(tmp_path, kernel("k", **args)).events, "occupancy_ratio") == [[ratio]]


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
    written = json.loads(gzip.decompress(traces.path(case).read_bytes()), strict=False)["traceEvents"]
    names = {one["args"].get("External id"): one["name"] for one in written if one.get("cat") == "cpu_op"}
    work = [one for one in written if one.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    said = {one["args"]["correlation"]: names.get(one["args"].get("External id")) for one in work}
    trace = traces.trace(case)
    told = trace.ops["framework_op"].astype(object).to_numpy()
    found = dict(zip(trace.events["correlation_id"], told[trace.events["op"].to_numpy(np.int64)], strict=True))
    named = {correlation: name for correlation, name in said.items() if name}
    assert (len(named), {key: found[key] for key in named}) == (rows_of_operators, named)
