"""The steps of whole traces, against their schedules, other tools and the traces' own makers."""

from functools import cache

import pytest

from tests import traces
from tests.data import schedule
from tests.traces import needs_real
from tracekit.analysis.steps import steps


@cache
def measure(case):
    return steps(traces.timeline(case))


@pytest.mark.parametrize(
    ("case", "name", "numbers"),
    [
        ("generated/gpu.xplane.pb", "train", [0, 1, 2]),
        ("generated/gpu.trace.json.gz", "train", [0, 1, 2]),
        ("generated/kineto", "ProfilerStep", [1, 2, 3]),
    ],
)
def test_annotated_steps_of_two_gpus_hold_what_their_host_launched_in_them(case, name, numbers):
    result = measure(case)
    assert result.summary[["name", "marked_by", "steps"]].to_numpy().tolist() == [[name, "annotation", 3]]
    assert result.table["step"].tolist() == numbers
    for device in (0, 1):
        work = schedule.gpu_step(device, 0)
        mine = result.by_device[result.by_device["device"].str.endswith(f"gpu:{device}")]
        assert mine["rows"].tolist() == [len(work)] * 3
        assert mine["busy_ps"].tolist() == [len(schedule.microseconds(work)) * 10**6] * 3


@needs_real
def test_the_rows_and_busy_times_of_steps_are_those_of_holistic_trace_analysis():
    """HTA 0.5.0: `iteration` of each kernel, the union of their spans; it leaves the last iteration out."""
    by_device = measure("kineto/hta-df_index_resolver").by_device
    assert by_device["rows"].tolist() == [4458] * 5
    assert by_device["busy_ps"].tolist()[:4] == [188442 * 10**6, 188214 * 10**6, 188103 * 10**6, 188298 * 10**6]


@needs_real
def test_steps_of_a_trace_in_nanoseconds_hold_the_rows_that_holistic_trace_analysis_finds():
    result = measure("kineto/hta-nccl_data-A100")
    assert result.table["step"].tolist() == [4, 5, 6]
    assert result.by_device["rows"].tolist() == [1258, 1258, 1258]
    assert result.summary["median_ps"].tolist() == [222442191000]


@needs_real
def test_one_step_of_eight_ranks_is_one_step():
    result = measure("kineto/dlrm-8xV100")
    assert result.table[["step", "hosts", "did_nothing"]].to_numpy().tolist() == [[10, 8, 0]]
    assert len(result.by_device) == 8


@pytest.mark.parametrize(
    ("case", "program", "steps", "rows", "chips"),
    [
        traces.param("generated/tpu.xplane.pb", "jit_train", 3, 7, 2),
        traces.param("generated/tpu.trace.json.gz", "jit_train", 3, 7, 2),
        traces.param("xplane/tpu-v6e-4chip", "jit_f", 100, 9, 4),
    ],
)
def test_the_executions_of_one_program_on_all_chips_are_steps(case, program, steps, rows, chips):
    """The call before the first of the real ones compiled, which the generated traces do not show."""
    result = measure(case)
    compiled = steps == 100
    assert result.summary[["name", "marked_by", "steps", "counted"]].to_numpy().tolist() == [
        [program, "run_id", steps, steps - compiled]
    ]
    assert result.table["left_out"].dropna().tolist() == ["compiles"] * compiled
    assert result.by_device["rows"].tolist() == [rows] * steps * chips


@pytest.mark.parametrize(
    ("case", "groups", "idle"),
    [
        traces.param("generated/rocm.xplane.pb", 3, {"gpu:0": False, "gpu:1": False, "gpu:2": True}),
        traces.param("xplane/tf-8xV100", 1, {"gpu:1": True, "gpu:4": False, "gpu:6": False}),
    ],
)
def test_a_group_leaves_a_device_without_work_flagged(case, groups, idle):
    result = measure(case)
    assert result.table["marked_by"].tolist() == ["group_id"] * groups
    flagged = zip(result.by_device["device"], result.by_device["did_nothing"], strict=True)
    assert sorted(flagged) == sorted([*idle.items()] * groups)


@pytest.mark.parametrize(
    "case",
    traces.cases(
        "generated/gpu.sqlite",
        "chrome/jax-tpu-2chip-vllm",
        "nsys/mfu_2gpu_before-2xH100",
        "xplane/jax-8xMI300X",
        "xplane/jax-MI300X-gemm",
        "xplane/xla-2xGTX1080Ti",
    ),
)
def test_a_trace_without_evidence_of_steps_has_none(case):
    assert measure(case).lacking


@pytest.mark.parametrize(
    "case",
    traces.cases(
        "generated/gpu.xplane.pb",
        "generated/kineto",
        "generated/tpu.xplane.pb",
        "kineto/hta-df_index_resolver",
        "kineto/hta-sampled_rank-0",
        "kineto/dlrm-8xV100",
        "xplane/tpu-v6e-4chip",
    ),
)
def test_the_windows_tile_the_time_from_the_first_to_the_last(case):
    table = measure(case).table
    assert (table["start_ps"].iloc[1:].to_numpy() == table["end_ps"].iloc[:-1].to_numpy()).all()
    assert table["wall_ps"].sum() == table["end_ps"].iloc[-1] - table["start_ps"].iloc[0]
