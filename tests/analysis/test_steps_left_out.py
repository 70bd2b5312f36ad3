"""Which steps count in no figure, and which stand out."""

import numpy as np
import pandas as pd
import pytest

from tests.stepped import work
from tracekit.analysis.steps import left_out, outliers
from tracekit.timeline.rows import rows
from tracekit.timeline.step_boundaries import StepBoundaries


def leave_out(walls, compiles=(), hosts=1, number=None, names=None, unanswered=None):
    """Why each of some steps is left out, on one device, and the notes."""
    size = len(walls)
    table = pd.DataFrame(
        {
            "clock": [""] * size,
            "name": names or ["train"] * size,
            "wall_ps": walls,
            "compile_ps": [int(place in compiles) for place in range(size)],
            "hosts": pd.array(hosts if isinstance(hosts, list) else [hosts] * size, "Int64"),
        }
    )
    counts = np.array([number or [4] * size])
    steps = StepBoundaries(table, np.zeros(1, np.int64))
    return left_out(rows(work(("gpu:0", "compute", 0, 1))[0]), steps, counts, unanswered)


def test_steps_alike_all_count():
    assert leave_out([10, 11, 10, 9, 10, 10]) == ([None] * 6, {})


def test_a_step_in_which_a_compiler_ran_does_not_count():
    assert leave_out([90, 10, 10, 50, 10, 10], compiles=(0, 3))[0] == ["compiles", None, None, "compiles", None, None]


def test_where_most_steps_compile_they_count_and_it_is_said():
    assert leave_out([50, 10, 50, 50], compiles=(0, 2, 3)) == (
        [None] * 4,
        {("", "train"): "a compiler ran in 3 of 4 steps, so that these count"},
    )


def test_where_only_the_first_steps_compile_the_others_count_however_few():
    assert leave_out([50, 40, 10], compiles=(0, 1)) == (["compiles", "compiles", None], {})
    assert leave_out([50, 40, 30, 10, 60], compiles=(0, 1, 2, 4))[0] == [None] * 5


def test_where_all_steps_compile_they_count():
    note = "a compiler ran in 3 of 3 steps, so that these count"
    assert leave_out([50, 40, 10], compiles=(0, 1, 2)) == ([None] * 3, {("", "train"): note})


def test_the_first_steps_are_warm_up_while_they_are_outliers():
    walls = [90, 40, 10, 11, 10, 60, 10, 9, 10, 10]
    assert leave_out(walls)[0] == ["warm-up", "warm-up", *[None] * 8]


def test_a_first_step_as_long_as_some_later_ones_is_no_warm_up():
    """As of a server that reads a prompt in every tenth step."""
    assert leave_out([60, 10, 10, 10, 60, 10, 10, 10, 60, 10, 10])[0] == [None] * 11
    assert leave_out([90, 60, 10, 10, 60, 10, 10, 10, 60, 10, 10])[0] == ["warm-up", *[None] * 10]


def test_a_slow_step_after_the_one_that_compiles_is_warm_up_too():
    assert leave_out([90, 40, 10, 11, 10, 10, 10], compiles=(0,))[0] == ["compiles", "warm-up", *[None] * 5]


def test_a_short_first_step_is_no_warm_up():
    assert leave_out([1, 10, 11, 10, 10, 10, 10])[0] == [None] * 7


def test_of_few_steps_none_is_warm_up():
    assert leave_out([90, 10, 10, 10])[0] == [None] * 4


def test_last_steps_that_lack_work_were_cut():
    assert leave_out([10] * 6, number=[20, 20, 20, 20, 17, 0])[0] == [*[None] * 4, "cut", "cut"]
    assert leave_out([10] * 6, number=[20, 20, 20, 20, 17, 18])[0] == [None] * 6


@pytest.mark.parametrize(
    ("number", "whole"),
    [
        ([34, 16, 2], 1),
        ([14, 14, 8, 1, 1], 2),
        ([18, 18, 18, 15], 3),
        ([18, 18, 18, 15, 0, 0, 0, 0], 3),
        ([18, 18, 0, 0, 0, 0, 0], 2),
        ([100, 104, 97, 92, 101, 95], 6),  # an eager loop, whose rows vary
        ([10, 40, 10, 40, 10, 40], 6),  # gradients are gathered in two steps
        ([10, 40, 10, 40, 10], 5),
        ([10, 10, 10, 40, 10, 10], 6),
        ([10, 40, 10, 40, 4], 4),
        ([50, 10, 10, 10, 10], 5),  # the first does more
        ([40, 0, 0, 0, 40, 0, 0], 7),  # most do nothing
        ([30, 16], 2),  # which of the two is usual is not known
        ([30, 0], 1),
    ],
)
def test_last_steps_are_compared_with_those_further_in(number, whole):
    assert leave_out([10] * len(number), number=number)[0] == [None] * whole + ["cut"] * (len(number) - whole)


def test_of_two_steps_the_launches_without_rows_tell_that_the_last_was_cut():
    assert leave_out([10] * 2, number=[30, 16], unanswered=np.array([False, True]))[0] == [None, "cut"]
    assert leave_out([10] * 2, number=[30, 29], unanswered=np.array([False, True]))[0] == [None] * 2


def test_last_steps_that_the_devices_did_not_come_to_were_cut():
    assert leave_out([10, 10, 0, 0, 0, 0], number=[20, 20, 1, 1, 1, 1])[0] == [*[None] * 2, *["cut"] * 4]
    names = ["train", "eval", "train", "eval", "train"]
    assert leave_out([10, 10, 10, 10, 0], number=[20] * 5, names=names)[0] == [*[None] * 4, "cut"]
    assert leave_out([10, 0, 10, 0, 0], number=[20, 1, 20, 1, 1], names=["train", "log"] * 2 + ["log"])[0] == [None] * 5


def test_a_first_annotated_step_with_less_work_was_not_cut():
    assert leave_out([10] * 4, number=[5, 20, 20, 20])[0] == [None] * 4


def test_a_first_group_or_execution_with_less_work_was_cut():
    assert leave_out([10] * 4, number=[5, 20, 20, 20], hosts=[None] * 4)[0] == ["cut", None, None, None]


def test_steps_at_the_edges_that_not_all_hosts_have_were_cut():
    assert leave_out([10] * 5, hosts=[1, 2, 1, 2, 1])[0] == ["cut", None, None, None, "cut"]


def test_where_no_step_would_be_left_all_count_and_it_is_said():
    assert leave_out([10], compiles=(0,)) == (
        [None],
        {("", "train"): "each would be left out (compiles), so that all count"},
    )


def test_each_name_is_judged_by_its_own_steps():
    walls = [10, 90, 10, 91, 10, 90, 10, 90, 10, 92]
    assert leave_out(walls, names=["train", "eval"] * 5)[0] == [None] * 10


@pytest.mark.parametrize(
    ("walls", "expected"),
    [
        ([100, 101, 99, 100, 150, 102], [False] * 4 + [True, False]),
        ([100, 101, 99, 100, 50, 102], [False] * 4 + [True, False]),
        # A modified z-score of 0.6745 * 9 / 1 = 6.1, but not a tenth longer.
        ([100, 101, 99, 100, 109, 101], [False] * 6),
        # A third longer, but the others scatter as much: z = 0.6745 * 35 / 17.5 = 1.3.
        ([100, 120, 85, 115, 140, 90, 105], [False] * 7),
        ([100, 100, 100, 100, 111], [False] * 4 + [True]),
        ([100, 100, 100, 300], [False] * 4),
        ([], []),
    ],
)
def test_an_outlier_is_one_by_the_modified_z_score_and_by_a_tenth(walls, expected):
    assert outliers(np.array(walls, np.int64)).tolist() == expected
