"""tracekit's answers on jobs of the simulator: errors stay below what they are today."""

from dataclasses import replace

import pytest

from tests.simulator.clocks import WHOLE
from tests.simulator.compare import compare
from tests.simulator.random_jobs import Habits, job_with
from tests.simulator.truth import Truth
from tests.simulator.writers import FORMATS

# A loop that waits for its device each step, and whose host has rows for all that it does.
EVIDENT = Habits(
    ranks=1,
    steps=8,
    layers=5,
    kernel_ns=[40_000, 90_000, 60_000, 30_000, 50_000],
    spread=0.1,
    straggler=[1.0],
    bucket=2,
    transfer_ns=50_000,
    copy_ns=20_000,
    work_ns=3000,
    read_ns=50_000,
    waits="stream",
    each=1,
    depth=0,
    has_ops=True,
    reads_named=True,
    backward_thread=False,
    has_memset=True,
    has_sync_records=True,
    step_label="ProfilerStep#{}",
)
TWO_RANKS = replace(EVIDENT, ranks=2, straggler=[1.0, 1.2])
AHEAD = replace(TWO_RANKS, waits="")


@pytest.mark.parametrize(
    ("habits", "trace_format", "composition", "what_if"),
    [
        (EVIDENT, "kineto", 0.05, 0.03),
        (EVIDENT, "nsys", 0.04, 0.03),
        (EVIDENT, "xspace", 0.06, 0.02),
        (TWO_RANKS, "kineto", 0.03, 0.06),
        (TWO_RANKS, "nsys", 0.03, 0.06),
        (AHEAD, "kineto", 0.02, 0.12),
    ],
)
def test_errors_stay_as_small_as_they_are(tmp_path, habits, trace_format, composition, what_if):
    truth = Truth(job_with(habits))
    errors = compare(truth, FORMATS[trace_format](truth, tmp_path / "trace", WHOLE))
    assert errors.steps
    assert errors.wall is not None
    assert errors.wall < 0.001
    assert errors.composition is not None
    assert errors.composition < composition
    assert errors.refused == 0
    assert max(abs(error) for error in errors.what_if.values()) < what_if
    assert errors.idle is not None
    assert errors.idle < 0.1


@pytest.mark.parametrize("trace_format", [*FORMATS])
def test_ranks_that_run_ahead_have_the_same_steps_in_every_format(tmp_path, trace_format):
    habits = replace(AHEAD, ranks=4, straggler=[1.0, 1.3, 1.0, 1.1], backward_thread=True)
    truth = Truth(job_with(habits))
    errors = compare(truth, FORMATS[trace_format](truth, tmp_path / "trace", WHOLE))
    assert errors.steps
    assert errors.wall is not None
    assert errors.wall < 1e-6
