"""Hosts whose clocks could not be compared: each keeps its own window, and nothing is said across them."""

import pandas as pd

from tests.frames import events, spans, trace
from tracekit.analysis.overlap import concurrency, device_pairs, overlap, partition
from tracekit.analysis.phases import phases
from tracekit.columns import concat
from tracekit.trace import EVENT_COLUMNS, SPAN_COLUMNS


def two_hosts(first, second, clocks=("a", "b")):
    return concat(
        EVENT_COLUMNS,
        [
            events(*[("a/gpu:0", "compute", *row) for row in first], host="a", clock=clocks[0]),
            events(*[("b/gpu:0", "compute", *row) for row in second], host="b", clock=clocks[1]),
        ],
    )


def test_each_clock_has_its_own_window():
    cells = partition(two_hosts([(0, 10), (20, 30)], [(1000, 1040)]))
    assert cells[["device", "window_start_ps", "window_ps", "compute", "idle"]].values.tolist() == [
        ["a/gpu:0", 0, 30, 20, 10],
        ["b/gpu:0", 1000, 40, 40, 0],
    ]


def test_overlap_across_clocks_is_refused_with_the_reason():
    (pair,) = device_pairs(two_hosts([(0, 10)], [(0, 10)])).to_dict("records")
    assert pd.isna(pair["overlap_ps"])
    assert pd.isna(pair["ratio_min"])
    assert pd.isna(pair["ratio_union"])
    assert pair["reason"] == "their hosts' clocks are not aligned"


def test_on_one_clock_the_devices_of_two_hosts_overlap():
    (pair,) = device_pairs(two_hosts([(0, 10)], [(5, 15)], (None, None))).to_dict("records")
    assert (pair["a"], pair["b"], pair["overlap_ps"], pair["ratio_min"]) == ("a/gpu:0", "b/gpu:0", 5, 0.5)


def test_how_many_devices_were_busy_at_once_is_not_known_over_several_clocks():
    assert len(concurrency(two_hosts([(0, 10)], [(0, 10)]))) == 0
    assert concurrency(two_hosts([(0, 10)], [(0, 10)], ("a", "a")))["time_ps"].tolist() == [0, 0, 10]


def test_what_is_hidden_on_one_device_is_still_known():
    rows = concat(
        EVENT_COLUMNS,
        [
            events(("a/gpu:0", "compute", 0, 10), ("a/gpu:0", "collective", 5, 15), host="a", clock="a"),
            events(("b/gpu:0", "compute", 0, 10), host="b", clock="b"),
        ],
    )
    overlaps = overlap(rows)
    assert overlaps.loc[overlaps["what"] == "collective", ["device", "hidden_ps", "total_ps"]].values.tolist() == [
        ["a/gpu:0", 5, 10],
        ["b/gpu:0", 0, 0],
    ]


def both_mark(first, second):
    return concat(SPAN_COLUMNS, [spans(*first, host="a"), spans(*second, host="b")])


def test_on_one_clock_the_kth_spans_of_all_hosts_are_one_round():
    marks = both_mark([("step", 0, 10), ("step", 20, 30)], [("step", 2, 12), ("step", 19, 29)])
    rounds = phases(trace(two_hosts([(0, 9), (20, 29)], [(3, 12), (20, 28)], (None, None)), marks)).rounds
    assert rounds[["clock", "name", "start_ps", "end_ps"]].values.tolist() == [
        ["", "step", 0, 12],
        ["", "step", 19, 30],
    ]


def test_where_hosts_marked_a_phase_differently_often_overlapping_spans_are_one_round():
    marks = both_mark([("step", 0, 10), ("step", 20, 30)], [("step", 22, 32)])
    rounds = phases(trace(two_hosts([(0, 9)], [(3, 12)], (None, None)), marks)).rounds
    assert rounds[["start_ps", "end_ps"]].values.tolist() == [[0, 10], [20, 32]]


def test_on_several_clocks_a_phase_is_measured_on_each_and_lasts_as_long_as_the_longest():
    marks = both_mark([("solo", 0, 10), ("step", 20, 30)], [("solo", 1000, 1008), ("step", 1020, 1036)])
    result = phases(trace(two_hosts([(0, 9), (20, 29)], [(1000, 1008), (1020, 1036)]), marks))
    assert result.table[["name", "n", "wall_ps", "devices"]].values.tolist() == [["solo", 1, 10, 2], ["step", 1, 16, 2]]
    busy = result.stretch.loc[result.stretch["name"] == "step", ["device", "busy_ps"]].values.tolist()
    assert busy == [["a/gpu:0", 9], ["b/gpu:0", 16]]


def test_a_phase_of_one_clock_counts_no_work_of_another_at_the_same_times():
    marks = spans(("solo", 0, 10), ("step", 20, 30, "solo"), host="a")
    rows = two_hosts([(0, 10), (20, 31)], [(1, 12), (3, 14), (22, 90)])
    result = phases(trace(rows, marks))
    assert result.table[["name", "wall_ps", "unfinished_ps", "devices"]].values.tolist() == [
        ["solo", 10, 0, 1],
        ["step", 11, 1, 1],
    ]
    assert result.stretch.loc[result.stretch["name"] == "step", ["device", "busy_ps", "stretch"]].values.tolist() == [
        ["a/gpu:0", 11, 1.1]
    ]
    assert set(result.windows["step"]) == {"a"}


def test_the_copies_of_any_device_are_those_on_the_clock_of_the_phase():
    marks = spans(("solo", 0, 10), ("step", 20, 30, "solo"), host="a")
    rows = concat(
        EVENT_COLUMNS,
        [
            events(("a/cpu:?", "memcpy", 0, 2), ("a/cpu:?", "memcpy", 20, 23), host="a", clock="a"),
            events(("b/cpu:?", "memcpy", 4, 9), ("b/gpu:0", "memcpy", 40, 46), host="b", clock="b"),
        ],
    )
    stretch = phases(trace(rows, marks)).stretch
    step = stretch[stretch["name"] == "step"].set_index("device")
    assert step.loc["any device", ["busy_ps", "alone_ps", "stretch"]].tolist() == [3, 2, 1.5]
