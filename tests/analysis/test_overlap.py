"""Overlap where the answer is known beforehand, and what is said when there is none."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fleet_traces import fleet
from tests.frames import events
from tests.launch_frames import calls, work
from tracekit import intervals as iv
from tracekit import jit
from tracekit.analysis import overlap as overlap_module
from tracekit.analysis.launches import launches
from tracekit.analysis.overlap import (
    breakdown,
    concurrency,
    device_pairs,
    of_copies,
    overlap,
    partition,
    shared_busy,
    shared_times,
)
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import Trace


def test_a_collective_under_two_kernels_at_once_is_hidden_once():
    # Summing pairwise overlaps would say 20 ps hidden of 10.
    frame = events(("gpu:0", "collective", 0, 10), ("gpu:0", "compute", 0, 10), ("gpu:0", "compute", 0, 10))
    (row,) = overlap(frame).query("what == 'collective'").to_dict("records")
    assert (row["hidden_ps"], row["total_ps"], row["ratio"]) == (10, 10, 1.0)


@pytest.mark.parametrize(("most", "pairs"), [(3, 3), (2, 0)])
def test_of_more_devices_than_a_machine_has_no_pairs_are_told(most, pairs, monkeypatch):
    monkeypatch.setattr(overlap_module, "ALL_PAIRED", 2)
    monkeypatch.setattr(overlap_module, "MOST_OF_HOST", most)
    assert len(device_pairs(events(*((f"gpu:{at}", "compute", at, 10) for at in range(3))))) == pairs


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
    given_to_it = (np.cumsum([0, *map(len, sets)]), np.concatenate([iv.EMPTY, *sets]))
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


def test_the_span_of_a_device_is_from_its_first_work_to_the_end_of_its_last():
    frame = events(("gpu:0", "compute", 5, 9), ("gpu:0", "memcpy", 20, 33), ("gpu:1", "compute", 7, 7))
    assert partition(frame, (0, 99))[["device", "span_ps", "busy_ps", "window_ps"]].values.tolist() == [
        ["gpu:0", 28, 17, 99],
        ["gpu:1", 0, 0, 99],
    ]


def test_the_span_counts_work_that_lasts_no_time_as_the_windows_and_the_queue_do():
    frame = work({"device": "gpu:0", "start": 10, "end": 20, "id": 1}, {"device": "gpu:0", "start": 50, "end": 50})
    timeline = timeline_of(Trace(frame, launches=calls((1, 0, 1))))
    cells = partition(timeline)
    assert cells[["span_ps", "window_ps"]].to_numpy().tolist() == [[40, 40]]
    assert launches(timeline).queue["span_ps"].tolist() == [40]
    assert partition(timeline, (0, 51))["span_ps"].tolist() == [40]
    assert partition(timeline, (0, 50))["span_ps"].tolist() == [10]


WINDOWS = {("step", "whole"): np.array([[0, 20], [20, 40]], np.int64)}


def shared(frame) -> list[tuple]:
    table = shared_busy(timeline_of(frame), WINDOWS)
    return [tuple(None if pd.isna(value) else value for value in row) for row in table.to_numpy(object).tolist()]


def test_devices_are_busy_at_the_same_time_in_a_window_where_two_of_them_are_and_each_pair_where_both_are():
    busy = [("gpu:0", "compute", 0, 10), ("gpu:1", "compute", 5, 30), ("gpu:2", "memcpy", 8, 25)]
    assert shared(events(*busy)) == [
        ("step", "whole", 0, None, None, 15, 20),
        ("step", "whole", 1, None, None, 5, 20),
        ("step", "whole", 0, "gpu:0", "gpu:1", 5, 20),
        ("step", "whole", 1, "gpu:0", "gpu:1", 0, 20),
        ("step", "whole", 0, "gpu:0", "gpu:2", 2, 20),
        ("step", "whole", 1, "gpu:0", "gpu:2", 0, 20),
        ("step", "whole", 0, "gpu:1", "gpu:2", 12, 20),
        ("step", "whole", 1, "gpu:1", "gpu:2", 5, 20),
    ]
    many = [*busy, *((f"gpu:{number}", "compute", 0, 40) for number in (3, 4))]  # too many to tell each pair
    assert shared(events(*many)) == [("step", "whole", unit, None, None, 20, 20) for unit in (0, 1)]


def test_one_device_and_devices_of_several_clocks_are_not_known_to_be_busy_at_the_same_time():
    assert shared(events(("gpu:0", "compute", 0, 10))) == []
    apart = events(("gpu:0", "compute", 0, 10), ("gpu:1", "compute", 0, 10)).assign(clock=pd.Categorical(["a", "b"]))
    assert shared(apart) == []


def test_two_devices_share_so_much_of_the_time_of_the_less_busy_one_and_of_either():
    frame = events(("gpu:0", "compute", 0, 5), ("gpu:1", "compute", 2, 5), ("gpu:2", "compute", 7, 9))
    assert device_pairs(frame)[["a", "b", "overlap_ps", "ratio_min", "ratio_union"]].values.tolist() == [
        ["gpu:0", "gpu:1", 3, 1.0, 3 / 5],
        ["gpu:0", "gpu:2", 0, 0.0, 0.0],
        ["gpu:1", "gpu:2", 0, 0.0, 0.0],
    ]


def test_the_share_of_waiting_is_that_of_the_collectives_whose_waiting_the_trace_shows():
    frame = events(
        ("gpu:0", "collective", 5, 15), ("gpu:0", "collective", 20, 40), ("gpu:1", "collective", 31, 61),
        ("gpu:1", "compute", 70, 90),
    ).assign(wait_ps=pd.array([3, None, 12, 8], "Int64"))  # fmt: skip
    assert breakdown(timeline_of(frame)).waiting_ratio == 15 / 40
    assert breakdown(timeline_of(frame).inside((0, 30))).waiting_ratio == 3 / 10
    assert breakdown(timeline_of(frame.assign(wait_ps=pd.array([None] * 4, "Int64")))).waiting_ratio is None
