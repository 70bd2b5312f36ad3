"""Times as users read them, and the columns and windows of an axis, against sets of integer points."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.figures.figure_parts import interval_sets, points
from tracekit.report.figures import time_axis

MS, S = 10**9, 10**12


@pytest.mark.parametrize(
    ("start", "end", "labels", "symbol", "zero"),
    [
        (0, 6 * S + 7 * 10**11, ["0", "1", "2", "3", "4", "5", "6"], "s", 0),
        (32 * 10**11, 34 * 10**11, ["3.20", "3.25", "3.30", "3.35", "3.40"], "s", 0),
        (-S, S, ["-1.0", "-0.5", "0.0", "0.5", "1.0"], "s", 0),
        (6 * S, 6 * S + 2000, ["0.0", "0.5", "1.0", "1.5", "2.0"], "ns", 6 * S),
        (MS, MS + 3 * 10**6, ["1.000", "1.001", "1.002", "1.003"], "ms", 0),
        (0, 3, ["0", "1", "2", "3"], "ps", 0),
        (0, 1, ["0", "1"], "ps", 0),
    ],
)
def test_an_axis_has_round_times_or_counts_from_its_start_where_they_are_too_long(start, end, labels, symbol, zero):
    ticks, unit, counted_from = time_axis.ticks(start, end, 7 if end - start > 3 * 10**11 else 5)
    assert ([label for _, label in ticks], unit, counted_from) == (labels, symbol, zero)


@settings(max_examples=50)
@given(st.integers(-(10**15), 10**18), st.integers(1, 10**17), st.integers(2, 14))
def test_the_ticks_of_an_axis_are_where_their_labels_say(start, length, most):
    ticks, unit, zero = time_axis.ticks(start, start + length, most)
    size = {"ps": 1, "ns": 10**3, "µs": 10**6, "ms": 10**9, "s": 10**12}[unit]
    assert [Fraction(label) * size + zero - start for _, label in ticks] == [at for at, _ in ticks]
    assert all(0 <= at <= length for at, _ in ticks)
    assert 1 <= len(ticks) <= most + 1


@settings(max_examples=50)
@given(interval_sets, interval_sets)
def test_windows_laid_end_to_end_hold_the_points_inside_them_in_order(intervals, windows):
    inside = sorted(points(windows))
    expected = {place for place, point in enumerate(inside) if point in points(intervals)}
    assert points(time_axis.laid_out(intervals, windows)) == expected
