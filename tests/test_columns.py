"""A frame of a contract: its columns, its dtypes, its nulls, and integers that stay what they are."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.api.types import union_categoricals

from tests.frames import events
from tracekit import columns
from tracekit.columns import (
    by_label,
    categorical,
    check,
    concat,
    constant,
    distinct,
    distinct_beside,
    frame,
    joined,
    largest,
    order_by,
    places_of,
    records,
    rising,
    texts_at,
)
from tracekit.errors import TraceError
from tracekit.trace import DEVICE_COLUMNS, EVENT_COLUMNS, KIND_DTYPE, Trace

COLUMNS = {"name": "str", "time_ps": "int64", "wait_ps": "Int64", "ratio": "Float64", "late": "bool"}
GOOD = events(("gpu:0", "compute", 0, 5), ("gpu:0", "memcpy", 5, 9, "copy", "H2D"))
ROWS = [("a", 1, None, 0.5, True), (None, 2, 3, None, False)]


def test_rows_become_what_pandas_makes_of_them() -> None:
    """Against DataFrame.astype, which takes another way to the same frame."""
    expected = pd.DataFrame(ROWS, columns=list(COLUMNS)).astype(COLUMNS)
    pd.testing.assert_frame_equal(frame(COLUMNS, ROWS), expected)


def test_columns_may_be_anything_of_one_length_and_further_ones_are_left_out() -> None:
    data = {
        "other": ["x", "y"],
        "late": np.array([True, False]),
        "ratio": np.array([0.5, np.nan]),
        "wait_ps": pd.array([None, 3], "Int64"),
        "time_ps": range(1, 3),
        "name": np.array(["a", None], object),
    }
    expected = pd.DataFrame(ROWS, columns=list(COLUMNS)).astype(COLUMNS)
    pd.testing.assert_frame_equal(frame(COLUMNS, data), expected)
    table = pd.DataFrame(data, index=[7, 9])
    pd.testing.assert_frame_equal(frame(COLUMNS, table), expected)


def test_without_rows_the_dtypes_are_those_promised() -> None:
    for empty in (frame(COLUMNS), frame(COLUMNS, []), frame(COLUMNS, {name: [] for name in COLUMNS})):
        assert len(empty) == 0
        assert {name: str(dtype) for name, dtype in empty.dtypes.items()} == COLUMNS


def test_integers_beyond_what_a_float_holds_stay_exact_beside_a_null() -> None:
    """Two and a half hours are 2**53 ps; a float holds no odd number above."""
    odd = 2**53 + 1
    column = frame({"wait_ps": "Int64"}, [(odd,), (None,)])["wait_ps"]
    assert column[0] == odd
    assert column.isna().tolist() == [False, True]


@pytest.mark.parametrize(
    "values",
    [[None], [2**63], np.array([np.nan]), pd.array([1, None], "Int64"), np.array([None, 1], object), ["x"]],
    ids=["None", "too large", "NaN", "NA", "None in objects", "text"],
)
def test_what_is_no_integer_is_no_int64(values: object) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        frame({"time_ps": "int64"}, {"time_ps": values})


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("length", [0, 5, 1 << 18])
def test_zeros_are_an_array_like_any_other(dtype, length):
    array = columns.zeros(length, dtype)
    assert (array.dtype, array.shape, np.count_nonzero(array)) == (dtype, (length,), 0)
    array[length // 2 :] = 7
    assert pickle.loads(pickle.dumps(array)).tolist() == [0] * (length // 2) + [7] * (length - length // 2)
    assert np.count_nonzero(columns.zeros(length, dtype)) == 0


def test_where_no_pages_are_to_be_had_zeros_are_those_of_numpy(monkeypatch):
    def refuse(*_: object, **options: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(columns.mmap, "mmap", refuse)
    assert np.count_nonzero(columns.zeros(1 << 18, np.int64)) == 0


def test_rows_of_different_lengths_and_missing_columns_are_mistakes() -> None:
    with pytest.raises(ValueError, match="zip"):
        frame({"time_ps": "int64", "late": "bool"}, [(1, True), (2,)])
    with pytest.raises(ValueError, match="zip"):
        frame({"time_ps": "int64"}, [(1, True)])
    with pytest.raises(KeyError):
        frame({"time_ps": "int64"}, {"late": [True]})


def test_what_is_not_given_is_null_and_a_length_alone_makes_rows_of_nulls():
    columns = {"name": "str", "device": "category", "kind": KIND_DTYPE, "bytes": "Int64", "ratio": "Float64"}
    for table in (frame(columns, {"name": [None, None]}), frame(columns, length=2)):
        assert len(table) == 2
        assert table.isna().all(axis=None)
        assert {name: table[name].dtype for name in columns if name != "device"} == {
            name: pd.api.types.pandas_dtype(dtype) for name, dtype in columns.items() if name != "device"
        }
        assert str(table["device"].cat.categories.dtype) == "str"


def test_a_label_that_the_contract_does_not_know_is_null():
    table = frame({"kind": KIND_DTYPE}, {"kind": ["memcpy", "juggling"]})
    assert table["kind"].cat.codes.tolist() == [2, -1]


def test_a_frame_may_not_change_with_the_one_it_was_made_of():
    column = pd.Series([1, 2], index=[7, 8])
    table = frame({"n": "int64"}, {"n": column})
    column[7] = 9
    assert table["n"].tolist() == [1, 2]
    assert table.index.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (pd.DataFrame({"n": [1]}), "Small has columns"),
        (pd.DataFrame({"n": [1.5], "device": pd.Categorical(["gpu:0"])}), "Small.n has dtype float64"),
        (pd.DataFrame({"n": [1], "device": ["gpu:0"]}), "Small.device has dtype"),
        (pd.DataFrame({"n": [1], "device": pd.Categorical([None])}), "Small.device holds nulls"),
    ],
    ids=["columns", "number", "no category", "null"],
)
def test_a_frame_that_breaks_its_contract_is_named(bad, message):
    with pytest.raises(TraceError, match=message):
        check("Small", bad, {"n": "int64", "device": "category"}, ["device"])


def test_kinds_have_one_order_however_they_come():
    backwards = categorical(["memcpy", "compute"], np.array([1, 0]))
    table = frame(EVENT_COLUMNS, {name: GOOD[name] for name in EVENT_COLUMNS} | {"kind": backwards})
    assert table["kind"].tolist() == ["compute", "memcpy"]
    assert table["kind"].cat.codes.tolist() == [0, 2]


def test_concat_unites_categories_and_keeps_the_order_of_rows():
    both = concat(EVENT_COLUMNS, [GOOD, events(("tpu:1", "collective", 1, 2)), frame(EVENT_COLUMNS)])
    assert both["device"].tolist() == ["gpu:0", "gpu:0", "tpu:1"]
    assert both["direction"].astype(object).where(both["direction"].notna(), None).tolist() == [None, "H2D", None]
    Trace(events=both)


WORDS = st.lists(st.none() | st.sampled_from("abc"), max_size=4)


@given(st.lists(st.tuples(WORDS, st.lists(st.sampled_from("abcde"), unique=True)), min_size=1, max_size=4))
def test_concat_gives_what_pandas_does(parts):
    """Against union_categoricals and pandas.concat, with categories in any order, some of them without a row."""
    columns = {"word": "category", "n": "Int64", "at": "int64", "text": "str", "ratio": "Float64", "late": "bool"}
    tables = []
    for words, further in parts:
        categories = pd.Index(list(dict.fromkeys([*further, *filter(None, words)])), dtype="str")
        at = np.arange(len(words))
        n = pd.array([None if word is None else ord(word) for word in words], "Int64")
        data = {"n": n, "at": at, "text": words, "ratio": n * 0.5, "late": at > 1}
        tables.append(frame(columns, data | {"word": pd.Categorical(words, categories=categories)}))
    kept = [table for table in tables if len(table)]
    if kept:
        expected = pd.concat(kept, ignore_index=True)
        expected["word"] = union_categoricals([table["word"] for table in kept])
        pd.testing.assert_frame_equal(concat(columns, tables), expected.astype(columns))
        pd.testing.assert_frame_equal(concat(columns, tables, is_last_use=True), expected.astype(columns))
        assert [list(table) for table in kept] == [[] for _ in kept]


def test_nullable_numbers_of_many_rows_join_to_what_pandas_makes_of_them() -> None:
    """So many rows that what is null is not written: none, few or all; with infinities and what is no number."""
    rng = np.random.default_rng(3)
    lengths = (columns._MAPPED_FROM, 5, 1, 70_000)
    for dtype, values in (("Int64", [-(1 << 63), (1 << 63) - 1, 0, 7]), ("Float64", [np.inf, np.nan, -0.0, 0.1])):
        for shares in ((0, 0.01, 1, 0.5), (1, 1, 1, 1), (0.99, 1, 0, 0)):
            parts = []
            for length, share in zip(lengths, shares, strict=True):
                of_part = np.array(values, dtype.lower())[rng.integers(0, 4, length)]
                array = pd.arrays.IntegerArray if dtype == "Int64" else pd.arrays.FloatingArray
                parts.append(frame({"n": dtype}, {"n": array(of_part, rng.random(length) < share)}))
            expected = pd.concat(parts, ignore_index=True)
            pd.testing.assert_frame_equal(concat({"n": dtype}, parts), expected, check_exact=True)


@given(st.lists(st.tuples(WORDS, st.booleans()), max_size=4))
def test_columns_of_parts_join_to_what_their_frames_do(parts):
    columns = {"word": "category", "n": "Int64", "at": "int64"}
    data = []
    for words, has_numbers in parts:
        n = {"n": pd.array([None if word is None else ord(word) for word in words], "Int64")} if has_numbers else {}
        data.append(
            {"at": np.arange(len(words)), "word": frame({"word": "category"}, {"word": words})["word"].array} | n
        )
    expected = concat(columns, [frame(columns, part) for part in data])
    pd.testing.assert_frame_equal(joined(columns, data), expected)


def test_small_frames_become_dicts():
    row = frame(DEVICE_COLUMNS, {"host": constant("h", 1), "device": ["gpu:0"]})
    assert records(row[["host", "device"]]) == [{"host": "h", "device": "gpu:0"}]


_WHOLE = st.integers(-3, 3) | st.sampled_from([-128, 127])
_LARGE = st.integers(0, 2**64 - 1) | st.integers(2**64 - 3, 2**64 - 1) | st.integers(0, 2)


@given(st.lists(st.tuples(_WHOLE, _LARGE, st.booleans(), st.floats()), max_size=30))
def test_rows_are_equal_where_all_columns_are_and_numbered_as_they_appear(rows):
    dtypes = (np.int8, np.uint64, bool, np.float64)
    which, first = distinct(*(np.array([row[at] for row in rows], dtype) for at, dtype in enumerate(dtypes)))
    # In Python no nan is equal to another.
    keys = [tuple("nan" if value != value else value for value in row) for row in rows]
    order = list(dict.fromkeys(keys))
    assert which.tolist() == [order.index(key) for key in keys]
    assert first.tolist() == [keys.index(key) for key in order]


@given(st.lists(st.integers(0, 9)))
def test_the_compiled_loop_numbers_as_numpy_does(values):
    key, other = np.array(values, np.int64), np.array(values, np.int64)
    count, first = columns._as_they_appear(key, 10, columns._number_as_they_appear)
    compiled_count, compiled_first = columns._as_they_appear(
        other, 10, lambda *arrays: columns._number_as_they_appear(*arrays)
    )
    assert (count, first.tolist(), key.tolist()) == (compiled_count, compiled_first.tolist(), other.tolist())


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2)))
def test_distinct_values_rise(values):
    assert rising(np.array(values, np.int64)).tolist() == sorted(set(values))


@given(
    st.lists(st.integers(-9, 9) | st.integers(-(2**62), 2**62)),
    st.lists(st.lists(st.integers(-12, 12) | st.integers(-(2**63), 2**63 - 1))),
)
def test_rising_leaves_out_those_without(values, without):
    arrays = [np.array(others, np.int64) for others in without]
    expected = sorted({*values} - {value for others in without for value in others})
    assert rising(np.array(values, np.int64), arrays).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5) | st.integers(0, 2**40))))
def test_distinct_values_beside_a_key_are_counted_once(rows):
    keys, values = np.array(rows, np.int64).reshape(-1, 2).T
    expected = [len({value for key, value in rows if key == number}) for number in range(4)]
    assert distinct_beside(keys, values, 4).tolist() == expected
    assert distinct_beside(keys[:0], values[:0], 0).tolist() == []


@given(
    st.lists(st.integers(-2, 6)) | st.lists(st.integers(-(2**62), 2**62)),
    st.sampled_from([np.int8, np.int64]),
    st.integers(0, 8),
)
def test_places_of_a_number_are_all_that_hold_it(keys, dtype, count):
    keys = [key for key in keys if np.iinfo(dtype).min <= key <= np.iinfo(dtype).max]
    places = [[at for at, key in enumerate(keys) if key == number] for number in range(count)]
    assert [at.tolist() for at in places_of(np.array(keys, dtype), count)] == places


@given(st.lists(st.integers(-3, 9), max_size=60), st.integers(1, 12))
def test_the_largest_are_the_first_of_all_in_order(values, count):
    order = sorted(range(len(values)), key=lambda at: -values[at])
    assert largest(np.array(values, np.int64), count).tolist() == order[:count]


@given(st.lists(st.tuples(st.integers(-2, 3) | st.integers(0, 70_000), st.integers(-3, 3) | st.integers(0, 2**62))))
def test_rows_are_ordered_by_key_then_by_value_then_as_they_stand(rows):
    keys, values = np.array(rows, np.int64).reshape(-1, 2).T
    assert order_by(keys, values).tolist() == sorted(range(len(rows)), key=rows.__getitem__)


def test_each_label_is_asked_once_and_null_has_an_answer_of_its_own():
    questions = []
    column = categorical(["a", "bb", None], np.array([1, 0, 2, 1]))
    lengths = by_label(column, lambda label: questions.append(label) or len(label), -1)
    assert (lengths.tolist(), questions) == ([2, 1, -1, 2], ["a", "bb"])


def test_a_change_of_a_frame_without_rows_is_of_that_one_alone():
    wanted = {"name": "category", "start_ps": "int64", "bytes": "Int64"}
    first = frame(wanted)
    first["name"] = first["name"].cat.add_categories(["a"])
    first.loc[0] = ["a", 1, 2]
    first["more"] = 0
    second = frame(wanted)
    assert (list(second), len(second), list(second["name"].cat.categories)) == ([*wanted], 0, [])


@pytest.mark.parametrize(
    ("texts", "places", "there"),
    [
        (["b", None, "a", "b"], [3, 1, 0], ["b", None, "b"]),
        (["b", "a"], [1, 1], ["a", "a"]),
        ([None, None], [0, 1], [None, None]),
        (["a", None], [], []),
    ],
)
def test_the_texts_in_some_places_are_those_that_stand_there(texts, places, there):
    column = frame({"name": "category"}, {"name": texts})["name"].array
    assert texts_at(column, np.array(places, np.int64)).tolist() == there


@pytest.mark.parametrize("count", [2047, 2048, 2049])
def test_about_as_many_labels_as_are_shared_and_null_are_a_column(count):
    """Of 2,048 labels, as 256 hosts of eight devices have, no column was made."""
    labels = [f"host{at // 8:04}/gpu:{at % 8}" for at in range(count)]
    places = np.arange(2 * count + 1)[::-1] % (2 * count + 1)
    column = categorical([*labels, *labels, None], places)
    assert column.tolist() == [([*labels, *labels, np.nan])[place] for place in places.tolist()]
    assert len(column.categories) == count
