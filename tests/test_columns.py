"""A frame of results: its columns, its dtypes, its nulls, and integers that stay what they are."""

import numpy as np
import pandas as pd
import pytest

from tracekit.columns import typed

COLUMNS = {"name": "str", "time_ps": "int64", "wait_ps": "Int64", "ratio": "Float64", "late": "bool"}
ROWS = [("a", 1, None, 0.5, True), (None, 2, 3, None, False)]


def test_rows_become_what_pandas_makes_of_them() -> None:
    """Against DataFrame.astype, which takes another way to the same frame."""
    wanted = pd.DataFrame(ROWS, columns=list(COLUMNS)).astype(COLUMNS)
    pd.testing.assert_frame_equal(typed(COLUMNS, ROWS), wanted)


def test_columns_may_be_anything_of_one_length_and_further_ones_are_left_out() -> None:
    data = {
        "other": ["x", "y"],
        "late": np.array([True, False]),
        "ratio": np.array([0.5, np.nan]),
        "wait_ps": pd.array([None, 3], "Int64"),
        "time_ps": range(1, 3),
        "name": np.array(["a", None], object),
    }
    wanted = pd.DataFrame(ROWS, columns=list(COLUMNS)).astype(COLUMNS)
    pd.testing.assert_frame_equal(typed(COLUMNS, data), wanted)
    frame = pd.DataFrame(data, index=[7, 9])
    pd.testing.assert_frame_equal(typed(COLUMNS, frame), wanted)


def test_without_rows_the_dtypes_are_those_promised() -> None:
    for empty in (typed(COLUMNS), typed(COLUMNS, []), typed(COLUMNS, {name: [] for name in COLUMNS})):
        assert len(empty) == 0
        assert {name: str(dtype) for name, dtype in empty.dtypes.items()} == COLUMNS


def test_integers_beyond_what_a_float_holds_stay_exact_beside_a_null() -> None:
    """Two and a half hours are 2**53 ps; a float holds no odd number above."""
    odd = 2**53 + 1
    found = typed({"wait_ps": "Int64"}, [(odd,), (None,)])["wait_ps"]
    assert found[0] == odd
    assert found.isna().tolist() == [False, True]


@pytest.mark.parametrize(
    "values",
    [[None], [2**63], np.array([np.nan]), pd.array([1, None], "Int64"), np.array([None, 1], object), ["x"]],
    ids=["None", "too large", "NaN", "NA", "None in objects", "text"],
)
def test_what_is_no_integer_is_no_int64(values: object) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        typed({"time_ps": "int64"}, {"time_ps": values})


def test_rows_of_different_lengths_and_missing_columns_are_mistakes() -> None:
    with pytest.raises(ValueError, match="zip"):
        typed({"time_ps": "int64", "late": "bool"}, [(1, True), (2,)])
    with pytest.raises(ValueError, match="zip"):
        typed({"time_ps": "int64"}, [(1, True)])
    with pytest.raises(KeyError):
        typed({"time_ps": "int64"}, {"late": [True]})
