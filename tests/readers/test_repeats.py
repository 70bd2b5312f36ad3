"""Rows that equal one before them in everything, and those that differ in something."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.readers.repeats import repeated

ROW = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1), st.integers(0, 1))


@given(st.lists(ROW, max_size=12))
def test_a_row_of_some_length_is_repeated_where_one_before_it_equals_it(found):
    rows = np.array(found, np.int64).reshape(-1, 4)
    start, length, key, detail = rows.T
    expected = [row in found[:at] and row[1] > 0 for at, row in enumerate(found)]
    assert repeated(start, start + length, [key], lambda some: [detail[some]]).tolist() == expected


@pytest.mark.parametrize("keys", [[], [np.array([1, 2, 3])]])
def test_details_are_asked_for_of_no_rows_that_differ_without_them(keys):
    def details(rows):
        raise AssertionError("they cost time")

    start = np.array([5, 5, 5] if keys else [5, 6, 7])
    assert not repeated(start, start + 1, keys, details).any()
