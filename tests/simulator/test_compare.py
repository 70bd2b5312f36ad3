"""tracekit's answers on jobs of the simulator: what is exact stays exact, and errors stay below what they are today."""

import pytest

from tests.simulator.clocks import WHOLE
from tests.simulator.compare import compare
from tests.simulator.random_jobs import random_job
from tests.simulator.truth import Truth
from tests.simulator.writers import FORMATS

# Format, seed, and what the errors of the path and of the what-ifs stay below today. All of these wait each step; of
# several processes in one export the steps are not told apart yet.
BOUNDS = [("kineto", 3, 0.02, 0.03), ("kineto", 7, 0.03, 0.03), ("nsys", 62, 0.02, 0.01), ("xspace", 62, 0.04, 0.03)]


@pytest.mark.parametrize(("trace_format", "seed", "composition", "what_if"), BOUNDS)
def test_errors_on_random_jobs_stay_as_small_as_they_are(tmp_path, trace_format, seed, composition, what_if):
    truth = Truth(random_job(seed))
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
