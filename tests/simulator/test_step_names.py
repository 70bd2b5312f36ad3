"""Steps are those of the simulator whatever a program calls them, in every format."""

from dataclasses import replace

import pytest

from tests.simulator.clocks import WHOLE
from tests.simulator.job import Job, Sort
from tests.simulator.random_jobs import random_job
from tests.simulator.truth import Truth
from tests.simulator.writers import FORMATS
from tracekit.analysis.steps import steps
from tracekit.readers import read
from tracekit.timeline.timeline import timeline_of

# Two ranks that wait for an event each step and whose backward pass has a thread; four whose hosts run ahead.
WAITING, AHEAD = 1, 11
COLUMNS = ["step", "start_ps", "end_ps", "rows"]


def called(job: Job, name: str) -> Job:
    """The job with spans of this name around its steps, which any program may write."""
    return replace(
        job,
        rows=[
            replace(row, sort=Sort.RANGE, name=name.format(row.step)) if row.sort == Sort.STEP else row
            for row in job.rows
        ],
    )


def in_parts(job: Job) -> Job:
    """The job with spans of the parts of its steps alone."""
    rows = [
        replace(row, name=f"step{row.step}/{row.name}") if row.name in ("forward", "backward") else row
        for row in job.rows
        if row.sort != Sort.STEP
    ]
    return replace(job, rows=rows)


def steps_of(job, path, trace_format):
    return steps(timeline_of(read(FORMATS[trace_format](Truth(job), path, WHOLE))))


@pytest.fixture(scope="module", params=FORMATS)
def own_steps(request, tmp_path_factory):
    """A format, the job whose hosts run ahead, and the steps that it has there by its own name."""
    job = random_job(AHEAD)
    return request.param, job, steps_of(job, tmp_path_factory.mktemp("own") / "own", request.param).table


@pytest.mark.parametrize(
    "name",
    [
        "Epoch 0 [{}/100]", "Training [{}/100]", "Iteration {} (rank 0)", "step {}: loss=0.5", "trainer.step({})",
        "request {}", "train_step", "[pl][profile]run_training_batch",
    ],
)  # fmt: skip
def test_steps_are_the_same_by_any_name(tmp_path, name, own_steps):
    trace_format, job, expected = own_steps
    assert expected["step"].tolist() == list(range(job.steps))
    table = steps_of(called(job, name), tmp_path / "other", trace_format).table
    assert table[COLUMNS].equals(expected[COLUMNS])


@pytest.mark.parametrize("trace_format", FORMATS)
@pytest.mark.parametrize("seed", [WAITING, AHEAD])
def test_the_parts_of_steps_tell_as_many(tmp_path, seed, trace_format):
    job = random_job(seed)
    result = steps_of(in_parts(job), tmp_path / "parts", trace_format)
    assert result.table["step"].tolist() == list(range(job.steps))
    assert result.summary["name"].tolist() == ["step"]


@pytest.mark.parametrize("trace_format", FORMATS)
@pytest.mark.parametrize("name", ["layer {}", "bucket {}", "microbatch {}", "encoder {}", "aten::step {}"])
def test_what_is_numbered_in_a_model_is_no_step(tmp_path, name, trace_format):
    assert steps_of(called(random_job(WAITING), name), tmp_path / "layers", trace_format).lacking
