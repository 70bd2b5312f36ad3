"""The steps of real traces, against figures of other tools and of the traces' own makers."""

from functools import cache

import pytest

from tests.readers.test_expected import source
from tests.real_traces import REAL
from tracekit.analysis.steps.steps import steps
from tracekit.readers import read
from tracekit.timeline.launches import launch_of
from tracekit.timeline.rows import rows
from tracekit.timeline.steps.boundaries import boundaries
from tracekit.timeline.unions import unions

pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="the folder of real traces, shared/traces, is not here")


@cache
def measured(case):
    trace = read(source(case))
    held = rows(trace.events)
    made = boundaries(held, trace.spans, launch_of(held, trace.launches), trace.launches)
    return steps(held, made, unions(held))


def test_the_rows_and_busy_times_of_steps_are_those_of_holistic_trace_analysis():
    """HTA 0.5.0: `iteration` of each kernel, the union of their spans; it leaves the last iteration out."""
    by_device = measured("kineto/hta-df_index_resolver").by_device
    assert by_device["rows"].tolist() == [4458] * 5
    assert by_device["busy_ps"].tolist()[:4] == [188442 * 10**6, 188214 * 10**6, 188103 * 10**6, 188298 * 10**6]


def test_steps_of_a_trace_in_nanoseconds_hold_the_rows_that_holistic_trace_analysis_finds():
    result = measured("kineto/hta-nccl_data-A100")
    assert result.table["step"].tolist() == [4, 5, 6]
    assert result.by_device["rows"].tolist() == [1258, 1258, 1258]
    assert result.summary["median_ps"].tolist() == [222442191000]


def test_one_step_of_eight_ranks_is_one_step():
    result = measured("kineto/dlrm-8xV100")
    assert result.table[["step", "hosts", "did_nothing"]].to_numpy().tolist() == [[10, 8, 0]]
    assert len(result.by_device) == 8


def test_a_hundred_executions_on_four_chips_are_a_hundred_steps():
    result = measured("xplane/tpu-v6e-4chip")
    assert result.summary[["name", "told_by", "steps", "counted"]].to_numpy().tolist() == [
        ["jit_f", "run_id", 100, 100]
    ]
    assert result.by_device["rows"].tolist() == [9] * 400


def test_a_group_leaves_a_device_without_work_flagged():
    result = measured("xplane/tf-8xV100")
    assert result.table["told_by"].tolist() == ["group_id"]
    assert dict(zip(result.by_device["device"], result.by_device["did_nothing"], strict=True)) == {
        "gpu:1": True,
        "gpu:4": False,
        "gpu:6": False,
    }


@pytest.mark.parametrize(
    "case",
    [
        "chrome/jax-tpu-2chip-vllm",
        "nsys/mfu_2gpu_before-2xH100",
        "xplane/jax-8xMI300X",
        "xplane/jax-MI300X-gemm",
        "xplane/xla-2xGTX1080Ti",
    ],
)
def test_a_trace_without_evidence_of_steps_has_none(case):
    assert measured(case).lacking.startswith("No host span has a step number")


@pytest.mark.parametrize(
    "case", ["kineto/hta-df_index_resolver", "kineto/hta-sampled_rank-0", "kineto/dlrm-8xV100", "xplane/tpu-v6e-4chip"]
)
def test_the_windows_tile_the_time_from_the_first_to_the_last(case):
    table = measured(case).table
    assert (table["start_ps"].iloc[1:].to_numpy() == table["end_ps"].iloc[:-1].to_numpy()).all()
    assert table["wall_ps"].sum() == table["end_ps"].iloc[-1] - table["start_ps"].iloc[0]
