"""Which runs get slower and slower: hand-made ones whose answer is known, and all pairs counted one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stepped import annotations, timeline, work
from tracekit.analysis.slower_steps import SLOWER_COLUMNS, _superiority, slower_steps
from tracekit.analysis.steps import steps


def run(lengths, *, devices=("gpu:0", "gpu:1"), wait=(), kernels=1):
    """Steps of two devices that compute for `lengths` of each, in so many `kernels`; those in `wait` as long as the
    first, and then wait in a collective for it."""
    marks, rows, start = [], [], 0
    for step, length in enumerate(lengths):
        end = start + length + 10
        marks.append(("train", step, start, end))
        for device in devices:
            computed = start + (lengths[0] if device in wait else length)
            edges = np.linspace(start, computed, (kernels if np.isscalar(kernels) else kernels[step]) + 1).astype(int)
            rows += [
                (device, "compute", a, b, start) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
            ]
            rows.append((device, "collective", computed, end, start))
        start = end
    return slower_steps(steps(timeline(work(*rows), annotations(*marks)))).to_dict("records")


GROWING = [100 + 2 * step for step in range(15)]


def test_steps_that_grow_are_told_by_the_medians_of_their_thirds():
    (row,) = run(GROWING)
    assert row == {
        "clock": "",
        "name": "train",
        "steps": 15,
        "first_ps": 114,
        "last_ps": 134,
        "excess_ps": 5 * 10 + 5 * 20,
        "devices": 2,
        "part": "compute",
        "device": "all devices",
        "grown_ps": 20,
        "same_events": True,
    }
    assert list(row) == list(SLOWER_COLUMNS)


def test_the_device_is_named_that_computes_longer_not_the_one_that_waits_for_it():
    (row,) = run(GROWING, wait=("gpu:1",))
    assert (row["part"], row["device"], row["grown_ps"]) == ("compute", "gpu:0", 20)


def test_steps_that_take_three_times_as_long_are_blamed_on_what_grew_by_half_of_that():
    """Each device computes 80 longer, less than half of 200, and idles for the rest."""
    lengths, computed = [100] * 5 + [200] * 5 + [300] * 5, [100] * 5 + [140] * 5 + [180] * 5
    marks, rows, start = [], [], 0
    for step, (length, busy) in enumerate(zip(lengths, computed, strict=True)):
        marks.append(("train", step, start, start + length))
        rows += [(device, "compute", start, start + busy, start) for device in ("gpu:0", "gpu:1")]
        start += length
    (row,) = slower_steps(steps(timeline(work(*rows), annotations(*marks)))).to_dict("records")
    assert (row["part"], row["device"], row["grown_ps"]) == ("idle", "all devices", 120)


def test_a_device_that_works_in_other_steps_alone_counts_as_none():
    rows, marks, start = [], [], 0
    for step, length in enumerate(GROWING):
        marks.append(("train", step, start, start + length))
        rows.append(("gpu:0", "compute", start, start + length, start))
        start += length
    marks.append(("validate", 0, start, start + 10))
    rows.append(("gpu:1", "compute", start + 1, start + 9, start + 1))
    (row,) = slower_steps(steps(timeline(work(*rows), annotations(*marks)))).to_dict("records")
    assert (row["devices"], row["device"], row["same_events"]) == (1, "gpu:0", True)


def test_more_kernels_in_each_step_are_not_the_same_events():
    assert [row["same_events"] for row in run(GROWING, kernels=[1 + step // 5 for step in range(15)])] == [False]


@pytest.mark.parametrize(
    "lengths",
    [
        [100] * 15,
        GROWING[:11],
        GROWING[::-1],
        [100 + (step > 13) * 500 for step in range(15)],  # one stall at the end
        [100 + (step % 2) * 40 for step in range(15)],
        [100, 100, 100, 100, 100, 140, 140, 140, 140, 140, 120, 120, 120, 120, 120],
        [100 + step // 5 for step in range(15)],  # by 2 %
        [100, 180, 100, 180, 100, 130, 130, 130, 130, 130, 150, 160, 150, 160, 100],  # no nine of ten pairs
    ],
)
def test_other_runs_are_not_said_to_get_slower(lengths):
    assert run(lengths) == []


def test_a_run_that_is_slow_from_some_step_on_is_told_though_all_steps_behind_are_outliers():
    (row,) = run([100] * 10 + [150] * 5)
    assert (row["first_ps"], row["last_ps"], row["excess_ps"]) == (110, 160, 250)


@given(*[st.lists(st.integers(0, 5), min_size=1, max_size=8)] * 2)
def test_the_superiority_is_that_of_all_pairs(first, last):
    pairs = [(b > a) + (b == a) / 2 for a in first for b in last]
    assert _superiority(np.array(first), np.array(last)) == pytest.approx(sum(pairs) / len(pairs))
