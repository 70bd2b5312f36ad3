"""Ranges around moments: the innermost, whatever else is open, ended or on another thread; what the outermost cover."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.readers.nested import innermost, outermost


def places(moments, ranges):
    """What is around each of `moments`, rows of (at, thread): a place in `ranges`, rows of (start, end, thread)."""
    at, thread = np.array(moments, np.int64).reshape(-1, 2).T
    start, end, on = np.array(ranges, np.int64).reshape(-1, 3).T
    return innermost(at, thread, start, end, on).tolist()


@pytest.mark.parametrize(
    ("at", "place"), [(0, -1), (1, 0), (2, 1), (3, 2), (4, 1), (5, 0), (7, 3), (8, 0), (9, -1), (10, 4), (12, -1)]
)
def test_a_moment_lies_in_the_range_that_began_last_and_has_not_ended(at, place):
    ranges = [(1, 9, 5), (2, 5, 5), (3, 4, 5), (6, 8, 5), (10, 12, 5)]
    assert places([(at, 5)], ranges) == [place]


def test_ranges_of_other_threads_are_not_around_it():
    assert places([(2, 1), (2, 2), (2, 3)], [(0, 9, 1), (1, 9, 3), (1, 2, 2)]) == [0, -1, 1]


def test_of_ranges_that_begin_together_the_shorter_is_the_inner_one():
    assert places([(0, 1), (5, 1)], [(0, 3, 1), (0, 9, 1)]) == [0, 1]


def test_nothing_is_found_for_no_moments_and_in_no_ranges():
    assert (places([], [(0, 1, 1)]), places([(0, 1)], [])) == ([], [-1])


@given(
    st.lists(st.tuples(st.integers(-1, 12), st.integers(0, 2)), max_size=8),
    st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10), st.integers(0, 2)), max_size=12),
)
def test_it_is_the_enclosing_range_that_began_last_also_where_ranges_overlap(moments, ranges):
    ranges = [(min(a, b), max(a, b), on) for a, b, on in ranges]
    around = [
        [(start, -end) for start, end, on in ranges if on == thread and start <= at < end] for at, thread in moments
    ]
    expected = [max(around_moment, default=None) for around_moment in around]
    actual = places(moments, ranges)
    assert [None if place < 0 else (ranges[place][0], -ranges[place][1]) for place in actual] == expected
    assert all(place < 0 or ranges[place][2] == thread for place, (_, thread) in zip(actual, moments, strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_the_outermost_ranges_cover_every_moment_once_by_the_one_that_began_first(seed):
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 40, 25)
    end = start + rng.integers(0, 9, 25)
    expected = {}
    for at in range(50):
        around = [(start[each], -end[each], each) for each in range(25) if start[each] <= at < end[each]]
        # A range that ends goes on to the one that began first of those that are still open.
        if around:
            expected[at] = min(around)[2]
    actual = {}
    for place, begin, until in zip(*outermost(start, end), strict=True):
        for at in range(begin, until):
            assert at not in actual
            actual[at] = place
    assert actual == expected
