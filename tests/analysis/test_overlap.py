"""Overlap where the answer is known beforehand, and what is said when there is none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fleet_traces import fleet
from tests.frames import events
from tracekit import intervals as iv
from tracekit import jit
from tracekit.analysis.overlap import concurrency, device_pairs, of_copies, overlap, partition, shared_times


def test_a_collective_under_two_kernels_at_once_is_hidden_once():
    # Summing pairwise overlaps would say 20 ps hidden of 10.
    frame = events(("gpu:0", "collective", 0, 10), ("gpu:0", "compute", 0, 10), ("gpu:0", "compute", 0, 10))
    (row,) = overlap(frame).query("what == 'collective'").to_dict("records")
    assert (row["hidden_ps"], row["total_ps"], row["ratio"]) == (10, 10, 1.0)


def test_the_power_set_of_a_published_example():
    # tb_plugin's synthetic nccl case, worker0, window 0-235: comp only 30, overlap 75, comm only 75, other 55.
    frame = events(
        ("gpu:0", "compute", 130, 291),
        *[("gpu:0", "collective", *span) for span in ((0, 75), (16, 32), (160, 235), (162, 1718))],
    )
    row = partition(frame, (0, 235)).iloc[0]
    assert (row["compute"], row["compute+collective"], row["collective"], row["idle"]) == (30, 75, 75, 55)


def test_a_copy_on_an_unknown_device_is_set_against_all_compute_of_its_host_and_counts_in_no_pair():
    frame = events(("cpu:0", "compute", 0, 10), ("cpu:1", "compute", 20, 30), ("cpu:?", "memcpy", 5, 25, "copy", "P2P"))
    rows = overlap(frame).query("device == 'cpu:?'").to_dict("records")
    assert [(row["what"], row["behind"], row["hidden_ps"], row["total_ps"]) for row in rows] == [
        ("memory", "compute of any device", 10, 20),
        ("P2P", "compute of any device", 10, 20),
    ]
    assert device_pairs(frame)[["a", "b"]].values.tolist() == [["cpu:0", "cpu:1"]]
    assert concurrency(frame)["time_ps"].tolist() == [10, 20, 0]
    assert partition(frame)["device"].tolist() == ["cpu:0", "cpu:1"]


def test_a_collective_on_an_unknown_device_is_set_against_the_compute_of_any_device_of_its_host():
    frame = events(("cpu:0", "compute", 0, 10), ("cpu:?", "collective", 5, 25))
    rows = overlap(frame).query("device == 'cpu:?' and what == 'collective'").to_dict("records")
    assert [(row["behind"], row["hidden_ps"], row["total_ps"]) for row in rows] == [("compute of any device", 5, 20)]


def test_where_memsets_add_to_the_copies_of_a_device_these_have_a_row_of_their_own():
    frame = events(
        ("gpu:0", "compute", 0, 10),
        ("gpu:0", "memcpy", 5, 15, "copy", "H2D"),
        ("gpu:0", "memset", 20, 24),
        ("gpu:1", "memset", 0, 4),
        ("gpu:2", "memcpy", 0, 4, "copy"),
    )
    rows = overlap(frame).query("what != 'collective'")[["device", "what", "hidden_ps", "total_ps"]]
    assert rows.values.tolist() == [
        ["gpu:0", "memory", 5, 14],
        ["gpu:0", "memcpy", 5, 10],
        ["gpu:0", "H2D", 5, 10],
        ["gpu:1", "memory", 0, 4],
        ["gpu:1", "memcpy", 0, 0],
        ["gpu:2", "memory", 0, 4],
    ]
    assert of_copies(overlap(frame))["total_ps"].tolist() == [10, 0, 4]


def test_without_rows_there_is_nothing_to_say():
    frame = events()
    assert [len(table) for table in (overlap(frame), device_pairs(frame), partition(frame))] == [0, 0, 0]
    assert concurrency(frame)["time_ps"].tolist() == [0]


def test_times_beyond_2_to_53_stay_exact():
    far = 2**53 + 1
    frame = events(
        ("gpu:0", "compute", 0, 1), ("gpu:0", "memcpy", far, far + 3), ("gpu:1", "compute", far + 2, far + 4)
    )
    assert partition(frame)["idle"].tolist() == [far, far + 2]
    assert device_pairs(frame)["overlap_ps"].tolist() == [1]


@pytest.mark.parametrize("swap", [False, True])
def test_the_frame_is_left_as_it_was(swap):
    frame = events(("gpu:0", "compute", 5, 9), ("gpu:0", "collective", 0, 6))
    before = frame.copy(deep=True)
    overlap(frame), partition(frame, (1, 8)), device_pairs(frame), concurrency(frame)
    assert frame.equals(before)


@settings(max_examples=30)
@given(st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=6), min_size=1, max_size=5))
def test_the_shared_times_of_sets_count_points_compiled_or_not(many):
    sets = [iv.union(np.array([(at, at + size) for at, size in spans], np.int64).reshape(-1, 2)) for spans in many]
    points = [{p for start, end in intervals.tolist() for p in range(start, end)} for intervals in sets]
    k = len(sets)
    expected = [[len(points[a] & points[b]) if a < b else 0 for b in range(k)] for a in range(k)]
    start, end = np.concatenate([iv.EMPTY, *sets]).T.copy()
    given_to_it = (np.cumsum([0, *map(len, sets)]), start, end)
    assert shared_times(*given_to_it).tolist() == jit.compiled(shared_times)(*given_to_it).tolist() == expected


def test_of_64_devices_each_pair_and_every_count_is_told():
    # Device k is busy in [0, k + 1), so k devices are busy at once in [64 - k, 65 - k).
    frame = events(*((f"gpu:{k}", "compute", 0, k + 1) for k in range(64)))
    pairs = device_pairs(frame)
    assert len(pairs) == 2016
    assert [(row.a, row.b, row.overlap_ps) for row in pairs.iloc[[0, 62, 2015]].itertuples()] == [
        ("gpu:0", "gpu:1", 1),
        ("gpu:0", "gpu:63", 1),
        ("gpu:62", "gpu:63", 63),
    ]
    assert pairs["overlap_ps"].sum() == sum((k + 1) * (63 - k) for k in range(64))
    assert concurrency(frame)["time_ps"].tolist() == [0, *[1] * 64]
    assert partition(frame)["idle"].tolist() == [63 - k for k in range(64)]


def test_of_many_devices_only_those_of_one_host_are_paired():
    made = fleet(264, np.full((264, 1), 1000))
    pairs = device_pairs(made.trace)
    hosts = [{name.split("/")[0] for name in pair} for pair in zip(pairs["a"], pairs["b"], strict=True)]
    assert (len(pairs), {len(pair) for pair in hosts}) == (33 * 28, {1})
    assert (pairs["overlap_ps"] == 2000).all()
