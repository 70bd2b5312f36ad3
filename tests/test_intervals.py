"""The interval algebra against a brute-force oracle: the set of integer points that an interval set holds."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit import intervals as iv
from tracekit.jit import compiled

pairs = st.tuples(st.integers(-20, 20), st.integers(0, 8)).map(lambda p: (p[0], p[0] + p[1]))
sets = st.lists(pairs, max_size=12).map(lambda rows: np.array(rows, dtype=np.int64).reshape(-1, 2))


def points(a) -> set[int]:
    return {p for start, end in a.tolist() for p in range(start, end)}


def merged_form(numbers: set[int]) -> list[list[int]]:
    """The one merged form of a set of points."""
    rows: list[list[int]] = []
    for p in sorted(numbers):
        if rows and rows[-1][1] == p:
            rows[-1][1] = p + 1
        else:
            rows.append([p, p + 1])
    return rows


@given(sets)
def test_union_holds_each_point_once_in_merged_form(a):
    assert iv.union(a).tolist() == merged_form(points(a))


@given(st.lists(sets, max_size=4))
def test_union_of_many_sets_is_the_union_of_their_points(many):
    assert iv.union(*many).tolist() == merged_form(set().union(*map(points, many)))


@given(st.lists(sets.map(iv.union), max_size=5), st.integers(-20, 28), st.booleans())
def test_depth_of_edges_is_that_of_the_sets_one_part_of_the_time_after_the_other(many, cut, is_compiled):
    edges = np.sort(np.concatenate([iv.EMPTY, *many]), axis=0).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iv, "loop", lambda function, rows: compiled(function) if is_compiled else function)
        parts, before = [], 0
        for is_in in (edges < cut, edges >= cut):
            start, end = (each[its] for each, its in zip(edges, is_in, strict=True))
            parts.append(iv.depth_of_edges(start, end, before))
            before += len(start) - len(end)
    at, depth = (np.concatenate(column) for column in zip(*parts, strict=True))
    assert before == 0
    assert (at.tolist(), depth.tolist()) == tuple(each.tolist() for each in iv.depth(*many))


@given(sets, sets)
def test_intersection_and_difference_match_the_points(a, b):
    assert iv.intersection(a, b).tolist() == merged_form(points(a) & points(b))
    assert iv.difference(a, b).tolist() == merged_form(points(a) - points(b))
    assert iv.inside(iv.union(a), iv.union(b)).tolist() == iv.intersection(a, b).tolist()
    for window in iv.union(b)[:3]:
        assert iv.inside(iv.union(a), window[None]).tolist() == iv.intersection(a, window[None]).tolist()


@given(sets, pairs)
def test_complement_is_the_window_without_the_set(a, window):
    assert iv.complement(a, window).tolist() == merged_form(set(range(*window)) - points(a))


@given(sets, pairs)
def test_clip_keeps_the_points_inside_the_window(a, window):
    assert points(iv.clip(a, window)) == points(a) & set(range(*window))


@given(sets)
def test_total_counts_points(a):
    assert iv.total(a) == len(points(a))


@given(sets, sets)
def test_within_measures_each_window_apart(a, windows):
    assert iv.within(a, windows).tolist() == [len(points(a) & set(range(*row))) for row in windows.tolist()]


@given(sets, st.integers(1, 80))
def test_even_edges_cut_a_window_into_pieces_that_hold_each_point_once(a, pieces):
    edges = iv.even_edges((-22, 32), pieces)
    expected = [len(points(a) & set(range(*piece))) for piece in itertools.pairwise(edges.tolist())]
    assert iv.within(a, iv.intervals(edges[:-1], edges[1:])).tolist() == expected
    assert np.ptp(np.diff(edges)) <= 1
    assert (edges[0], edges[-1]) == (-22, 32)


def test_edges_of_a_window_of_days_do_not_overflow():
    end = 9_000_000_000_000_000_000
    assert iv.even_edges((7, end), 3).tolist() == [7, 3 * 10**18 + 4, 6 * 10**18 + 2, end]


@given(st.lists(sets, max_size=4))
def test_depth_counts_the_sets_that_hold_each_point(many):
    edges, count = iv.depth(*many)
    assert (np.diff(edges) > 0).all()
    for p in range(-22, 32):
        at = np.searchsorted(edges, p, side="right") - 1
        sets_here = int(count[at]) if at >= 0 else 0
        assert sets_here == sum(p in points(interval_set) for interval_set in many)


@given(st.lists(sets, max_size=4))
def test_cells_tell_which_of_the_sets_hold_each_point(many):
    edges, code = iv.cells(*many)
    assert (np.diff(edges) > 0).all()
    assert (edges.dtype, code.dtype, len(edges)) == (np.int64, np.int8, len(code) + 1 if len(code) else 0)
    assert (code[1:] != code[:-1]).all()
    assert code[:1].all()
    assert code[-1:].all()
    for p in range(-22, 32):
        at = np.searchsorted(edges, p, side="right") - 1
        bits = int(code[at]) if 0 <= at < len(code) else 0
        assert bits == sum(1 << k for k, interval_set in enumerate(many) if p in points(interval_set))


@given(st.lists(sets, max_size=4), st.integers(0, 15))
def test_cells_that_are_chosen_are_a_merged_set(many, chosen):
    edges, code = iv.cells(*many)
    merged = iv.of_cells(edges, code & chosen != 0)
    assert points(merged) == set().union(*(points(rows) for k, rows in enumerate(many) if chosen >> k & 1))
    assert merged.tolist() == iv.union(merged).tolist()


@given(st.lists(sets, max_size=5))
def test_edges_are_merged_where_the_loop_is_compiled_as_they_are_sorted_else(many):
    by_sorting = iv.depth(*many), iv.cells(*many)
    asked = []

    def compiled(loop, rows, is_worth_starting):
        asked.append((loop, rows, is_worth_starting))
        return lambda *arrays: loop(*arrays)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iv, "loop", compiled)
        patch.setattr(iv, "_MERGED_FROM", 0)
        by_merging = iv.depth(*many), iv.cells(*many)
    edges = 2 * sum(len(iv.union(rows)) for rows in many)
    assert [each for each in asked if each[0] is iv.merge_edges] == [(iv.merge_edges, edges, False)] * 2
    for one, other in zip((*by_sorting[0], *by_sorting[1]), (*by_merging[0], *by_merging[1]), strict=True):
        assert (one.dtype, one.tolist()) == (other.dtype, other.tolist())


@pytest.fixture
def ran(monkeypatch):
    """The loops that ran, once for each time, where sets of any length are long."""
    loops = []

    def loop(function, rows, is_worth_starting):
        assert not is_worth_starting
        return lambda *arrays: loops.append(function) or function(*arrays)

    monkeypatch.setattr(iv, "_LONG", 1)
    monkeypatch.setattr(iv, "loop", loop)
    return loops


@pytest.mark.parametrize("is_compiled", [False, True])
@given(a=sets, b=sets)
def test_long_sets_are_joined_and_met_by_a_loop_as_short_ones_are_by_columns(is_compiled, a, b):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iv, "loop", lambda function, *_, **__: compiled(function) if is_compiled else function)
        patch.setattr(iv, "_LONG", 1)
        joined, met, again = iv.union(a, b), iv.intersection(a, b), iv.union(iv.union(a))
    assert joined.tolist() == merged_form(points(a) | points(b))
    assert met.tolist() == merged_form(points(a) & points(b))
    assert again.tolist() == merged_form(points(a))
    assert (joined.dtype, met.dtype) == (np.int64, np.int64)


@given(a=sets, b=sets)
def test_a_loop_measures_sets_as_columns_do(a, b):
    windows = np.concatenate([b, b[:, ::-1]])
    for is_compiled in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(iv, "loop", lambda function, *_, **__: compiled(function) if is_compiled else function)  # noqa: B023
            for rows in (a, a + 40, iv.union(a), iv.union(a + 40)):
                held = [len(points(rows) & set(range(*window))) for window in windows.tolist()]
                assert iv.within(rows, windows).tolist() == held
                assert (iv.total(rows), type(iv.total(rows))) == (len(points(rows)), int)
                assert iv.union(rows).tolist() == merged_form(points(rows))


@given(sets)
def test_the_loops_tell_what_is_merged(a):
    for rows in (a, iv.union(a), a + 40, iv.union(a + 40)):
        is_merged = rows.tolist() == merged_form(points(rows))
        lengths = np.full(1, 99)
        assert iv.are_merged(rows) == is_merged
        assert iv.lengths_inside(rows, np.array([[-50, 90]]), lengths) == is_merged
        assert lengths.tolist() == [len(points(rows))] * is_merged + [99] * (not is_merged)
        exact = is_merged and (not len(rows) or rows[0, 0] >= 0)
        assert iv.length_of_merged(rows) == (len(points(rows)) if exact else -1)


def test_lengths_that_are_no_int64_are_summed_exactly(ran):
    ends = np.iinfo(np.int64)
    rows = np.array([[ends.min, -5], [5, ends.max]])
    assert iv.total(rows) == ends.max - ends.min - 10
    assert ran[0] is iv.length_of_merged


@pytest.mark.parametrize("how", ["in columns", "read-only"])
def test_columns_of_another_layout_take_no_loop_of_their_own(ran, how):
    rows = np.array([[0, 2], [3, 5]])
    other = np.asfortranarray(rows) if how == "in columns" else rows.copy()
    other.flags.writeable = how == "in columns"
    assert iv.within(other, rows).tolist() == [2, 2]
    assert iv.within(rows, other).tolist() == [2, 2]
    assert iv.total(other) == 4
    assert iv.intersection(other, rows + 1).tolist() == [[1, 2], [4, 5]]
    assert not {iv.lengths_inside, iv.length_of_merged, iv.intersect_rows} & {*ran}


@given(sets)
def test_the_loops_give_how_many_rows_they_would_write_and_write_those(a):
    in_order = a[np.argsort(a[:, 0], kind="stable")]
    merged = np.full((iv.merge_rows(in_order, iv.EMPTY), 2), 99)
    assert iv.merge_rows(in_order, merged) == len(merged)
    assert merged.tolist() == merged_form(points(a))
    starts = a[a[:, 1] > a[:, 0], 0]
    assert (iv.merge_rows(a, iv.EMPTY) == -1) == bool((starts[1:] < starts[:-1]).any())
    both = np.full((iv.intersect_rows(merged, iv.union(a + 1), iv.EMPTY), 2), 99)
    assert iv.intersect_rows(merged, iv.union(a + 1), both) == len(both)
    assert both.tolist() == merged_form(points(a) & points(a + 1))


def test_a_long_set_that_is_merged_already_is_given_back_as_it_is(ran):
    rows = np.array([[0, 2], [3, 5]])
    assert iv.union(rows) is rows
    assert ran == [iv.merge_rows]


def test_a_long_set_that_is_not_in_order_is_put_in_order(ran):
    assert iv.union(np.array([[3, 5], [0, 2], [4, 9]])).tolist() == [[0, 2], [3, 9]]
    assert ran == [iv.merge_rows] * 3


@pytest.mark.parametrize("short", [False, True])
def test_a_set_that_is_far_shorter_than_the_other_is_looked_up_in_it(ran, short):
    starts = np.arange(0, 20 * 40, 10)
    many, few = iv.intervals(starts, starts + 5), iv.intervals(starts[::40] + 1, starts[::40] + 12)
    met = iv.intersection(many, few if short else np.concatenate([few, few + 400]))
    assert met.tolist() == merged_form(points(many) & points(few if short else np.concatenate([few, few + 400])))
    assert (iv.intersect_rows in ran) == (not short)


def test_short_sets_are_joined_by_no_loop(ran, monkeypatch):
    monkeypatch.setattr(iv, "_LONG", 4)
    rows = np.array([[0, 2], [3, 5], [1, 4]])
    assert iv.union(rows).tolist() == [[0, 5]]
    assert iv.merge_rows not in ran


def test_what_memory_held_before_edges_are_merged_into_it_counts_for_nothing():
    edges = np.array([3, 9], np.int64)
    ordered, total = np.full(2, 3), np.full(2, 7, np.int32)
    assert iv.merge_edges(np.array([0, 2]), edges, np.ones(1, np.int32), ordered, total) == 2
    assert (ordered.tolist(), total.tolist()) == ([3, 9], [1, 0])


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2**62))))
def test_sums_are_exact_and_by_group(rows):
    lengths, group = (np.array([row[at] for row in rows], np.int64) for at in (1, 0))
    assert iv.sums(lengths, group, 5) == [sum(size for key, size in rows if key == k) for k in range(5)]


def test_a_set_that_is_merged_already_is_given_back_as_it_is():
    a = iv.intervals([0, 5], [3, 9])
    assert iv.union(a) is a
    assert iv.union(a[::-1]).tolist() == a.tolist()
    assert iv.union(iv.intervals([0, 3], [3, 9])).tolist() == [[0, 9]]


@given(sets, sets)
def test_arguments_are_left_as_they_were(a, b):
    before = a.copy(), b.copy()
    for of_two in (iv.union, iv.intersection, iv.difference):
        of_two(a, b)
    iv.complement(a, (0, 9)), iv.clip(a, (0, 9)), iv.total(a)
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])


def test_rows_that_end_before_they_start_are_empty_in_a_set_and_as_windows():
    backwards = np.array([[0, 4], [9, 2], [6, 8]])
    assert iv.union(backwards).tolist() == [[0, 4], [6, 8]]
    assert iv.within(np.array([[0, 10]]), np.array([[7, 3], [3, 7]])).tolist() == [0, 4]
    assert iv.clip(backwards, (1, 8)).tolist() == [[1, 4], [6, 8]]
    assert iv.union(np.array([[9, 2], [4, 3]])).tolist() == []


def test_clip_drops_what_it_leaves_empty():
    assert iv.clip(np.array([[4, 4], [0, 2], [0, 1], [9, 12]]), (1, 9)).tolist() == [[1, 2]]


def test_touching_intervals_are_one_and_empty_ones_vanish():
    assert iv.union(np.array([[3, 5], [1, 3], [9, 9]])).tolist() == [[1, 5]]


@pytest.mark.parametrize("window", [(4, 4), (6, 4)])
def test_an_empty_window_holds_nothing(window):
    a = np.array([[0, 10]])
    assert iv.clip(a, window).tolist() == []
    assert iv.complement(a, window).tolist() == []


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_a_sum_is_exact_whatever_its_size(lengths):
    assert iv.sum_exactly(np.array(lengths, np.int64)) == sum(lengths)


def test_sums_beyond_int64_are_exact():
    assert iv.sum_exactly(np.full(4, 2**63 - 1)) == 4 * (2**63 - 1)
    assert iv.sum_exactly(np.full(3, 2**33 - 1)) == 3 * (2**33 - 1)


@pytest.mark.parametrize("lengths", [[2**62, 2**62], [2**62, 2**62, 5], [2**63 - 1, 2**63 - 1]])
def test_sums_of_a_group_that_reach_2_to_the_63_are_exact(lengths):
    assert iv.sums(np.array(lengths), np.zeros(len(lengths), np.int64), 2) == [sum(lengths), 0]


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=12), st.lists(st.integers(1, 100), min_size=1, max_size=4))
def test_a_quantile_is_the_smallest_value_that_is_as_large_as_its_share(values, shares):
    enough = [
        min(value for value in values if 100 * sum(other <= value for other in values) >= share * len(values))
        for share in shares
    ]
    assert list(iv.quantiles(np.array(values), shares)) == enough


def test_quantiles_of_many_values_are_those_of_their_ranks():
    assert iv.quantiles(np.arange(1000), [1, 50, 99, 100]) == [9, 499, 989, 999]


def test_span_is_first_start_and_last_end():
    assert iv.span([iv.EMPTY, np.array([[3, 5]]), np.array([[1, 2], [4, 9]])]) == (1, 9)
    assert iv.span([iv.EMPTY]) is None
