"""Equal rows and equal byte strings, against Python's own dict."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracekit.readers.distinct import distinct, distinct_bytes


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2**64 - 1) | st.integers(0, 2)), max_size=30))
def test_rows_are_equal_where_all_columns_are(rows):
    which, first = distinct(np.array([a for a, _ in rows], np.int64), np.array([b for _, b in rows], np.uint64))
    assert [rows[first[code]] for code in which] == rows
    assert len(first) == len(set(rows))


@given(
    st.lists(
        st.binary(max_size=20) | st.sampled_from([b"", b"\0", b"ab", b"ab\0", b"12345678", b"123456789"]), max_size=30
    )
)
def test_strings_are_equal_where_all_bytes_are_and_only_there(strings):
    sizes = np.array([len(one) for one in strings], np.int64)
    starts = np.cumsum(sizes) - sizes
    which, first = distinct_bytes(np.frombuffer(b"".join(strings), np.uint8), starts, sizes)
    assert [strings[first[code]] for code in which] == strings
    assert len(first) == len(set(strings))
