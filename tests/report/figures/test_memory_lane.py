"""The memory in use as a lane of the timeline: every step where it is, the peak marked, on the timeline's own axis."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import frames
from tests.analysis.test_memory import events, trace
from tests.report.figures.figure_parts import filled_boxes, words
from tracekit.report.figures import memory_lane
from tracekit.report.figures.figure import draw
from tracekit.report.figures.memory_lane import MemoryLane, memory_lanes
from tracekit.report.figures.selection import select
from tracekit.report.palette import LIGHT
from tracekit.timeline.timeline import timeline_of

KIB = 1024
ROWS = frames.events(("gpu:0", "compute", 0, 100), ("gpu:1", "compute", 0, 100))
# 2 KiB before the trace, 4 KiB from 20 ps on, 1 KiB from 60 ps on.
TABLE = events(("gpu:0", "bfc", 20, 2 * KIB, 4 * KIB, 1), ("gpu:0", "bfc", 60, -3 * KIB, KIB, 2))


def lanes(windows=None, table=TABLE, **part):
    return memory_lanes(select(timeline_of(trace(table, ROWS), windows), **part))


def steps(lane):
    return list(zip(lane.start.tolist(), lane.end.tolist(), (lane.in_use // KIB).tolist(), strict=True))


def test_only_devices_with_allocation_events_have_a_lane_of_all_steps_and_the_peak():
    (only,) = lanes().items()
    assert (only[0], only[1].label) == ("gpu:0", "memory, peak 4 KiB")
    assert steps(only[1]) == [(0, 20, 2), (20, 60, 4), (60, 100, 1)]


@pytest.mark.parametrize(
    ("start", "end", "expected", "label"),
    [
        (30, 80, [(0, 30, 4), (30, 50, 1)], "memory, peak 4 KiB"),
        (70, 90, [(0, 20, 1)], "memory, peak 1 KiB"),
    ],
)
def test_a_part_of_the_trace_begins_with_what_is_in_use_there(start, end, expected, label):
    lane = lanes(start_ps=start, end_ps=end)["gpu:0"]
    assert (steps(lane), lane.label) == (expected, label)


def test_what_counts_from_nothing_is_at_least_so_much():
    table = events(("gpu:0", "device", 20, KIB, None, 1), stated=False)
    assert lanes(table=table)["gpu:0"].label == "memory, peak ≥ 1 KiB"


def test_the_timeline_has_the_lane_below_the_others_of_its_device():
    figure = draw(select(timeline_of(trace(TABLE, ROWS))), "gantt", title="")
    assert words(figure).count("memory, peak 4 KiB") == 1
    grey = filled_boxes(figure.axes[0])[LIGHT["line"]]
    heights = grey[:, 3] - grey[:, 2]
    assert grey[:, :2].tolist() == [[0, 20], [20, 60], [60, 100]]
    assert (heights / heights.max()).tolist() == [0.5, 1, 0.25]
    assert any(word.startswith(memory_lane.NOTE) for word in words(figure))


def test_a_timeline_without_allocation_events_says_nothing_of_memory():
    figure = draw(select(timeline_of(trace(events(), ROWS))), "gantt", title="")
    assert not any("memory" in word.lower() for word in words(figure))


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 59), st.integers(0, 9)), min_size=1, max_size=40), st.integers(1, 8))
def test_where_steps_outnumber_pixels_a_column_shows_its_highest_value(changes, columns):
    start = np.array(sorted(at for at, _ in [(0, 0), *changes]), np.int64)
    in_use = np.array([0, *(value for _, value in changes)], np.int64)
    lane = MemoryLane(start, np.append(start[1:], 60), in_use)
    edges = np.linspace(0, 60, columns + 1).astype(np.int64)
    if lane.is_crowded(edges):
        at = np.arange(60)
        held = [
            {int(value) for a, b, value in zip(start, lane.end, in_use, strict=True) if a <= t < max(b, a + 1)}
            for t in at
        ]
        highest = [max(set().union(*held[a:b])) for a, b in pairwise(edges)]
        assert (lane.boxes(edges)[:, 3] * max(in_use.max(), 1)).round().astype(int).tolist() == highest
