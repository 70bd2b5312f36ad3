"""What a lane shows, against sets of integer points and by the area that is filled."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit import intervals as iv
from tracekit.report.figures import coverage

WINDOW = (0, 60)
pairs = st.tuples(st.integers(0, 55), st.integers(0, 5)).map(lambda p: (p[0], p[0] + p[1]))
merged = st.lists(pairs, max_size=12).map(lambda rows: iv.union(np.array(rows, np.int64).reshape(-1, 2)))


def points(a) -> set[int]:
    return {p for start, end in a.tolist() for p in range(start, end)}


@settings(max_examples=50, deadline=None)
@given(merged, st.integers(1, 80))
def test_covered_counts_the_points_of_each_column(held, columns):
    edges = coverage.pixel_edges(WINDOW, columns)
    expected = [len(points(held) & set(range(a, b))) for a, b in itertools.pairwise(edges)]
    assert coverage.covered(held, edges).tolist() == expected


@settings(max_examples=50, deadline=None)
@given(merged, merged)
def test_windows_laid_end_to_end_hold_the_points_inside_them_in_order(held, windows):
    inside = sorted(points(windows))
    expected = {place for place, point in enumerate(inside) if point in points(held)}
    assert points(coverage.laid_out(held, windows)) == expected


def test_columns_of_a_window_of_days_do_not_overflow():
    end = 9_000_000_000_000_000_000
    assert coverage.pixel_edges((7, end), 3).tolist() == [7, 3 * 10**18 + 4, 6 * 10**18 + 2, end]


@settings(max_examples=50, deadline=None)
@given(merged, merged, merged)
def test_layers_hold_each_point_under_exactly_its_keys(a, b, c):
    sets = {"a": a, "b": b, "c": c}
    found = {p: layer.keys for layer in coverage.layers(sets) for p in points(layer.intervals)}
    expected = {
        p: tuple(key for key in sets if p in points(sets[key])) for p in set().union(*map(points, sets.values()))
    }
    assert found == expected


@settings(max_examples=50, deadline=None)
@given(merged, merged, merged)
def test_levels_hold_the_points_with_that_many_sets(a, b, c):
    bins = [(1, 1), (2, 3)]
    found = [points(layer.intervals) for layer in coverage.levels([a, b, c], bins)]
    count = {p: sum(p in points(s) for s in (a, b, c)) for p in range(60)}
    assert found == [{p for p in count if low <= count[p] <= high} for low, high in bins]


@settings(max_examples=50, deadline=None)
@given(merged, merged, st.integers(1, 60))
def test_the_filled_area_is_the_busy_time_in_crowded_lanes_and_in_others(a, b, columns):
    lane = coverage.layers({"a": a, "b": b})
    edges = coverage.pixel_edges(WINDOW, columns)
    area = {
        key: float(((rows[:, 1] - rows[:, 0]) * (rows[:, 3] - rows[:, 2])).sum())
        for key, rows in coverage.boxes(lane, ("a", "b"), edges).items()
    }
    both = iv.total(iv.intersection(a, b))
    assert area == pytest.approx({"a": iv.total(a) - both / 2, "b": iv.total(b) - both / 2})


def test_a_lane_with_more_intervals_than_pixels_is_stacked_in_one_box_per_height():
    held = iv.intervals(np.arange(0, 600, 10), np.arange(3, 603, 10))
    made = coverage.boxes([coverage.Layer(held, ("a",))], ("a",), coverage.pixel_edges((0, 600), 6))
    assert made["a"].tolist() == [[0.0, 600.0, 0.0, 0.3]]


def test_a_lane_with_few_intervals_shows_each_at_full_height():
    held = iv.intervals([100, 300], [101, 450])
    made = coverage.boxes([coverage.Layer(held, ("a",))], ("a",), coverage.pixel_edges((50, 650), 6))
    assert made["a"].tolist() == [[50.0, 51.0, 0.0, 1.0], [250.0, 400.0, 0.0, 1.0]]
