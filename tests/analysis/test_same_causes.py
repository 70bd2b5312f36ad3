"""The critical path and the causes of idle time tell the same of the same moments."""

from collections import Counter

import pytest

import tracekit
from tests import traces
from tests.simulator.clocks import recorder
from tests.simulator.random_jobs import random_job
from tests.simulator.truth import Truth
from tests.simulator.writers import FORMATS
from tracekit.analysis.critical_path.critical_path import critical_path
from tracekit.analysis.idle import idle
from tracekit.analysis.steps import steps
from tracekit.timeline.timeline import Timeline, timeline_of

ON_DEVICE = {"compute", "memcpy", "memset", "collective transfer", "collective, waiting included"}
OF_HOST = {"host-bound", "input pipeline", "compiling"}
# What the idle time of a device is called while the path to the row that ends it is each part. While a thread waits for
# a copy, what it is in is a call, whose last part is its own. The one looks at the end of the row's call, the other at
# the shortest latency, so they may part latency and gap at different moments.
SAME = {
    "host work": OF_HOST | {"waiting for a copy", "waiting for a collective or another device"},
    "host, nothing recorded": OF_HOST,
    "host launch": {*OF_HOST, "slow launch call", "launch latency", "waiting for a copy"},
    # AMD GPUs of one trace took 30 us at least, and idle time is explained by a launch for 20 us after its call.
    "launch latency": {"launch latency", "slow launch call", "between queued work", "unexplained"},
    "queue gap": {"between queued work", "launch latency", "waiting for a collective or another device"},
    "unexplained": {"unexplained"},
}
# So much of the idle time on the paths may differ.
MOST_RATIO = 0.01


def time_by_both(timeline: Timeline) -> Counter[tuple[str, str]]:
    """How long, in ps, the path was each part while the device that it leads to was idle by each cause."""
    path, gaps = critical_path(timeline, steps(timeline).table).path, idle(timeline).gaps
    times: Counter[tuple[str, str]] = Counter()
    gaps_before = {
        key: list(zip(*(of_row[column].tolist() for column in ("start_ps", "end_ps", "cause")), strict=True))
        for key, of_row in gaps.dropna(subset=["next"]).groupby("next")
    }
    for _, own in path.groupby("at"):
        row = -1  # the row of a device that the path comes to next
        for piece in own[::-1].itertuples():
            row = int(piece.place) if piece.frame == "events" else row
            for start, end, cause in () if piece.part in ON_DEVICE else gaps_before.get(row, ()):
                times[piece.part, cause] += max(min(end, piece.end_ps) - max(start, piece.start_ps), 0)
    return times


def differences(timeline: Timeline) -> tuple[dict[tuple[str, str], int], int]:
    """The time of which the two tell different things, by what they tell, and the time of all."""
    times = time_by_both(timeline)
    return {both: ps for both, ps in times.items() if ps and both[1] not in SAME[both[0]]}, times.total()


@pytest.mark.parametrize("trace_format", sorted(FORMATS))
def test_of_random_jobs_both_tell_the_same(trace_format, tmp_path):
    compared_ps = different_ps = 0
    for seed in range(5):
        truth = Truth(random_job(seed))
        path = FORMATS[trace_format](truth, tmp_path / str(seed), recorder("exact", seed, truth.job.ranks))
        different, total_ps = differences(timeline_of(tracekit.read(path)))
        compared_ps, different_ps = compared_ps + total_ps, different_ps + sum(different.values())
    assert compared_ps > 0
    assert different_ps <= MOST_RATIO * compared_ps


@traces.needs_real
@pytest.mark.parametrize(
    "case",
    ["kineto/hta_mi250_minitoy", "kineto/dlrm-8xV100", "nsys/mfu_2gpu_before-2xH100", "xplane/jax-8xMI300X"],
)
def test_of_real_traces_both_tell_the_same(case):
    different, total_ps = differences(timeline_of(traces.trace(case)))
    assert total_ps > 0
    assert sum(different.values()) <= MOST_RATIO * total_ps, different
