"""Times as users type and read them, and the columns and windows of an axis, against sets of integer points."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.figures.figure_parts import interval_sets, points
from tracekit import units
from tracekit.errors import TracekitError
from tracekit.report.figures import time_axis

MS, S = 10**9, 10**12


@pytest.mark.parametrize(
    ("text", "ps"),
    [
        ("12ms", 12 * MS),
        ("1.5 s", 1_500_000_000_000),
        ("300us", 300_000_000),
        ("300 µs", 300_000_000),
        (" .5ns ", 500),
        ("7PS", 7),
        ("1_000us", MS),
        ("1e-3s", MS),
        ("-2s", -2 * S),
        ("2min", 120 * S),
        ("0", 0),
        ("0.000000000001s", 1),
        ("1.0000000000019s", S + 1),
    ],
)
def test_a_time_is_exact_to_the_picosecond(text, ps):
    assert time_axis.parse(text, "--from") == ps


@pytest.mark.parametrize("text", ["", "ms", "1,5s", "12 parsecs", "nan", "inf s", "1e999s", "0x10s", "1s2"])
def test_what_is_no_time_is_one_sentence_with_an_example(text):
    with pytest.raises(TracekitError) as caught:
        time_axis.parse(text, "--to")
    assert str(caught.value) == (
        f"--to {text!r} is not a time: give a number and ps, ns, us, ms, s or min, as in 12.5ms."
    )


def test_a_number_without_a_unit_is_ambiguous():
    with pytest.raises(TracekitError, match=r"--from '12' could be of any unit: say 12s, 12ms, 12us, 12ns or 12ps\."):
        time_axis.parse("12", "--from")


@settings(max_examples=50)
@given(st.integers(-(2**63), 2**63))
def test_a_time_told_exactly_is_read_back_exactly(ps):
    assert time_axis.parse(units.exact(ps), "--from") == ps


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
