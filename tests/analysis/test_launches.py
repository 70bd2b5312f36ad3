"""How launches kept up: hand-made traces with known figures, and a brute-force oracle over every picosecond."""

from fractions import Fraction
from itertools import pairwise
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.launch_frames import calls, work
from tracekit import intervals as iv
from tracekit.analysis import launches as module
from tracekit.analysis.launches import (
    BOUND_COLUMNS,
    BY_CALL_COLUMNS,
    BY_DEVICE_COLUMNS,
    DEPTH_COLUMNS,
    QUEUE_COLUMNS,
    THREAD_COLUMNS,
    TINY_BY_DEVICE_COLUMNS,
    TINY_COLUMNS,
)
from tracekit.jit import compiled
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import Trace


def launches(events, call_frame, windows=None):
    return module.launches(timeline_of(Trace(events, launches=call_frame), windows))


def row(start, end, id=None, **more):
    return {"device": "gpu:0", "start": start, "end": end, "id": id, **more}


def table(columns, *rows):
    return pd.DataFrame(rows, columns=list(columns)).astype(columns)


def same(actual, expected):
    pd.testing.assert_frame_equal(actual, expected)


def test_delays_run_from_the_begin_of_the_call_to_the_first_row_that_it_started():
    events = work(row(10, 20, 1), row(20, 21, 1), row(40, 50, 2), row(60, 70, 3), row(80, 90), row(95, 99, 4))
    call_frame = calls(
        (1, 5, 7, "main", "graph"), (2, 10, 12, "main", "kernel"), (3, 10, 12, "main", "kernel"), (4, 96, 97), (5, 1, 2)
    )
    result = launches(events, call_frame)
    same(result.by_device, table(BY_DEVICE_COLUMNS, ("gpu:0", 4, 1, 30, 50, 50, 1)))
    same(
        result.by_call,
        table(
            BY_CALL_COLUMNS,
            ("kernel", 2, 0, 30, 50, 50),
            ("graph", 1, 0, 5, 5, 5),
            ("launch", 1, 1, None, None, None),
        ),
    )


def test_quantiles_are_values_that_occurred():
    delays = range(1, 101)
    events = work(*(row(1000 + at, 1001 + at, at) for at in delays))
    result = launches(events, calls(*((at, 1000, 1001) for at in delays)))
    assert result.by_device[["median_ps", "p90_ps", "p99_ps"]].to_numpy().tolist() == [[50, 90, 99]]


def test_one_call_counts_once_on_each_device_that_it_started_work_on():
    events = work(row(10, 20, 1), {**row(15, 20, 1), "device": "gpu:1"})
    result = launches(events, calls((1, 5, 6)))
    assert result.by_device[["device", "n", "median_ps"]].to_numpy().tolist() == [["gpu:0", 1, 5], ["gpu:1", 1, 10]]
    assert result.by_call["n"].tolist() == [2]


def test_a_launch_is_queued_from_its_call_until_its_work_starts():
    # Span 0 to 100: one queued over 0-10, 20-40, two over 30-40; idle over 10-30.
    events = work(row(0, 10), row(30, 40, 1), row(40, 100, 2), row(40, 50, 3))
    call_frame = calls((1, 20, 21), (2, 30, 31), (3, -5, 1))
    result = launches(events, call_frame)
    # Call 3 is queued from before the span to 40.
    mean = Fraction(40 + 10 + 10, 100)
    same(result.queue, table(QUEUE_COLUMNS, ("gpu:0", 100, float(mean), 2, 60, 0.6, 0, 0.0)))
    result = launches(events.iloc[:3], calls(*[(1, 20, 21), (2, 30, 31)]))
    same(result.queue, table(QUEUE_COLUMNS, ("gpu:0", 100, 0.2, 1, 80, 0.8, 10, 0.1)))


def test_the_queue_is_drawn_in_slots_whose_means_are_exact():
    with mock.patch.object(module, "SLOTS", 4):
        result = launches(work(row(0, 10), row(6, 10, 1), row(9, 10, 2)), calls((1, 2, 3), (2, 5, 6)))
    expected = [(0, 3, 1 / 3), (3, 6, 4 / 3), (6, 9, 1.0), (9, 10, 0.0)]
    same(result.depth, table(DEPTH_COLUMNS, *(("gpu:0", *slot) for slot in expected)))


def test_the_queues_of_many_devices_are_drawn_in_fewer_slots_whose_means_are_exact():
    rows = [{**row(at, at + 10), "device": f"gpu:{gpu}"} for gpu in (0, 1) for at in (0, 90)]
    events = work(*rows, row(60, 70, 0), {**row(50, 60, 1), "device": "gpu:1"})
    with mock.patch.object(module, "MOST_DEPTHS", 5):
        result = launches(events, calls((0, 40, 41), (1, 25, 26)))
    expected = [("gpu:0", 0, 50, 0.2), ("gpu:0", 50, 100, 0.2), ("gpu:1", 0, 50, 0.5), ("gpu:1", 50, 100, 0.0)]
    same(result.depth, table(DEPTH_COLUMNS, *expected))


def test_a_stretch_in_which_launches_come_too_late_again_and_again_is_bound_and_a_long_gap_is_not():
    # Every 10 ps a kernel of 2 ps that was launched 1 ps before; then a long gap, and work without gaps.
    starts = [*range(0, 200, 10), 600]
    events = work(*(row(at, at + 2, at) for at in starts), row(602, 1000, 602))
    call_frame = calls(*((at, at - 1, at) for at in starts), (602, 600, 601))
    with mock.patch.object(module, "SLOTS", 50):
        result = launches(events, call_frame)
    same(result.bound, table(BOUND_COLUMNS, ("gpu:0", 0, 200, 20, 19 * 7 + 8, (19 * 7 + 8) / 200)))
    with mock.patch.object(module, "SLOTS", 50), mock.patch.object(module, "BOUND_LAUNCHES", 21):
        assert len(launches(events, call_frame).bound) == 0


@pytest.mark.parametrize(("size", "count"), [(5, 0), (4, 20)])
def test_a_slot_is_bound_where_more_than_half_of_it_was_starved_also_by_launches_without_delay(size, count):
    starts = range(0, 200, 10)
    events = work(*(row(at, at + size, at) for at in starts), row(200, 202))
    with mock.patch.object(module, "SLOTS", 1):
        result = launches(events, calls(*((at, at, at + 1) for at in starts)))
    assert result.bound["launches"].tolist() == [count][: count // 20]


def test_a_slot_that_was_starved_for_half_of_it_is_not_bound():
    with mock.patch.object(module, "SLOTS", 1), mock.patch.object(module, "BOUND_LAUNCHES", 1):
        half = launches(work(row(0, 2), row(5, 6, 1)), calls((1, 5, 6)))
        more = launches(work(row(0, 2), row(6, 7, 1)), calls((1, 6, 7)))
    assert (len(half.bound), len(more.bound)) == (0, 1)


def test_kernels_shorter_than_the_host_needs_for_a_launch_cost_the_idle_time_before_them_at_most_that_long():
    with mock.patch.object(module, "LEAST_LAUNCHES", 3):
        result = launches(
            work(
                row(0, 30, 1, name="long"),
                row(32, 34, 2, name="tiny"),  # Late by 1 of 2.
                row(99, 101, 3, name="tiny"),  # Late by 64, of which one distance counts.
                row(120, 125, 4, name="small", kind="memcpy"),
                row(130, 139, 5, name="other"),  # On a thread of too few launches.
            ),
            calls((1, -1, 0), (2, 31, 32), (3, 98, 99), (4, 120, 120), (5, 129, 130, "second"), (9, 0, 0)),
        )
    # Distances of `main`: 32, 67, 22; the median is 32.
    same(result.threads, table(THREAD_COLUMNS, ("h", "main", 4, 32), ("h", "second", 1, None)))
    same(result.tiny, table(TINY_COLUMNS, ("tiny", 2, 4, 33), ("long", 1, 30, 0)))
    same(result.tiny_by_device, table(TINY_BY_DEVICE_COLUMNS, ("gpu:0", 3, 0.75, 34, 33, 33 / 139)))


def test_rows_of_one_call_are_not_tiny_kernels():
    events = work(*(row(at, at + 1, 1 if at > 30 else at) for at in range(10, 40, 2)))
    with mock.patch.object(module, "LEAST_LAUNCHES", 2):
        result = launches(events, calls((1, 5, 6), *((at, at - 3, at) for at in range(10, 32, 2))))
    assert result.tiny_by_device["kernels"].tolist() == [11]


@pytest.mark.parametrize(
    ("events", "call_frame", "why"),
    [
        (work(), calls(), "no host launches"),
        (work(row(0, 1)), calls(), "no host launches"),
        (work(row(0, 1)), calls((1, 0, 1)), "linked"),
    ],
)
def test_without_launches_it_says_what_is_missing(events, call_frame, why):
    result = launches(events, call_frame)
    assert why in result.lacking
    assert len(result.queue) == len(result.by_device) == len(result.depth) == len(result.tiny) == 0


def test_devices_that_the_trace_does_not_place_have_no_queue():
    result = launches(work(row(0, 9, 1), {**row(3, 4, 2), "device": "cpu:?"}), calls((1, -1, 0), (2, 0, 1)))
    assert result.by_device["device"].tolist() == ["gpu:0"]


@st.composite
def traces(draw):
    row_tuple = st.tuples(
        st.sampled_from(["gpu:0", "gpu:1"]),
        st.sampled_from(["compute", "memcpy"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 40),
        st.integers(0, 6),
        st.one_of(st.none(), st.integers(1, 9)),
    )
    call_tuples = [
        (id, start, start + 1, draw(st.sampled_from(["main", "pool"])), draw(st.sampled_from(["x", "y"])))
        for id, start in enumerate(draw(st.lists(st.integers(-5, 30), min_size=1, max_size=9)), 1)
    ]
    window = st.tuples(st.integers(-3, 40), st.integers(1, 20)).map(lambda pair: (pair[0], sum(pair)))
    windows = draw(st.one_of(st.none(), st.lists(window, max_size=3)))
    slots = draw(st.sampled_from([3, 7, 1000]))
    return draw(st.lists(row_tuple, min_size=1, max_size=12)), call_tuples, slots, windows


@settings(max_examples=80)
@given(traces())
def test_every_figure_counts_points(trace):
    row_tuples, call_tuples, slots, windows = trace
    inside = {p for start, end in windows or [(-100, 100)] for p in range(start, end)} if windows != [] else set()
    events = [
        {"device": device, "kind": kind, "name": name, "start": start, "end": start + size, "id": id, "place": place}
        for place, (device, kind, name, start, size, id) in enumerate(row_tuples)
    ]
    with (
        mock.patch.object(module, "SLOTS", slots),
        mock.patch.object(module, "LEAST_LAUNCHES", 2),
        mock.patch.object(module, "BOUND_LAUNCHES", 2),
    ):
        of_windows = None if windows is None else {"": np.array(windows, np.int64).reshape(-1, 2)}
        result = launches(work(*events), calls(*call_tuples), of_windows)
    by_id = {call[0]: call for call in call_tuples}
    linked = [event for event in events if event["id"] in by_id]
    order = sorted(linked, key=lambda event: (event["start"], event["end"], event["place"]))
    first = {(event["device"], event["id"]): event for event in reversed(order)}
    span_of = {
        device: range(
            min(event["start"] for event in events if event["device"] == device),
            max(event["end"] for event in events if event["device"] == device),
        )
        for device in {event["device"] for event in linked}
    }
    begun = [event for event in events if event["start"] in inside]
    devices = sorted(
        device
        for device, span in span_of.items()
        if inside & {*span} or any(event["device"] == device for event in begun)
    )
    # Where rows begin here, and none of these has a launch, nothing tells what was queued.
    untold = {event["device"] for event in begun} - {event["device"] for event in linked if event in begun}
    devices = [device for device in devices if device not in untold]
    assert result.by_device["device"].tolist() == devices

    intervals = {}
    used = {event["id"] for event in linked if event in begun}
    for thread in ("main", "pool"):
        begins = sorted(by_id[id][1] for id in used if by_id[id][3] == thread)
        gaps = sorted(b - a for a, b in pairwise(begins))
        intervals[thread] = quantile(gaps, 50) if len(begins) >= 2 else None
        if begins:
            line = result.threads[result.threads["thread"] == thread].iloc[0]
            assert line["launches"] == len(begins)
            assert none(line["interval_ps"]) == intervals[thread]

    tiny = {}
    for device in devices:
        mine = [event for event in events if event["device"] == device]
        points = sorted(inside & {*span_of[device]})
        low, high = (points[0], points[-1] + 1) if points else (0, 0)
        busy = {p for event in mine for p in range(event["start"], event["end"])}
        firsts = [event for (on, _), event in first.items() if on == device]
        here = [event for event in firsts if event in begun]
        delays = [event["start"] - by_id[event["id"]][1] for event in here]
        good = sorted(delay for delay in delays if delay >= 0)
        line = result.by_device.set_index("device").loc[device]
        assert (line["n"], line["negative"]) == (len(delays), len(delays) - len(good))
        assert [none(line[key]) for key in ("median_ps", "p90_ps", "p99_ps")] == [
            quantile(good, share) for share in (50, 90, 99)
        ]
        assert line["unlinked"] == sum(event["id"] not in by_id for event in mine if event in begun)

        depth = {p: sum(by_id[event["id"]][1] <= p < event["start"] for event in firsts) for p in range(low, high)}
        queue = result.queue.set_index("device").loc[device]
        starved = [p for p in points if busy and min(busy) < p < max(busy) and p not in busy and depth[p] == 0]
        assert queue["span_ps"] == len(points)
        if points:
            assert queue["mean"] == float(Fraction(sum(depth[p] for p in points), len(points)))
            assert queue["max"] == max(depth[p] for p in points)
            assert queue["empty_ps"] == sum(not depth[p] for p in points)
            assert queue["starved_ps"] == len(starved)
        depth_slots = result.depth[result.depth["device"] == device]
        for start, end, mean in depth_slots[["start_ps", "end_ps", "mean"]].itertuples(index=False):
            assert mean == sum(depth[p] for p in range(start, end)) / (end - start)
        assert len(depth_slots) <= slots
        assert sum(depth_slots["end_ps"] - depth_slots["start_ps"]) == high - low

        bound, slot = [], []
        for start, end in depth_slots[["start_ps", "end_ps"]].itertuples(index=False):
            starts = sum(start <= event["start"] < end and event["start"] >= by_id[event["id"]][1] for event in here)
            slot.append((2 * sum(start <= p < end for p in starved) > end - start and starts, start, end, starts))
        for good_slot, start, end, starts in slot:
            if good_slot and bound and bound[-1][1] == start:
                bound[-1] = (bound[-1][0], end, bound[-1][2] + starts)
            elif good_slot:
                bound.append((start, end, starts))
        bound = [interval for interval in bound if interval[2] >= 2]
        bound_of_device = result.bound[result.bound["device"] == device]
        assert [
            tuple(interval) for interval in bound_of_device[["start_ps", "end_ps", "launches"]].to_numpy().tolist()
        ] == bound
        assert bound_of_device["starved_ps"].tolist() == [sum(a <= p < b for p in starved) for a, b, _ in bound]

        kernels, costs, time = 0, 0, 0
        alone = [event for event in here if sum(other["id"] == event["id"] for other in linked) == 1]
        for event in alone:
            interval = intervals[by_id[event["id"]][3]] or 0
            if event["kind"] != "compute" or event["end"] - event["start"] >= interval:
                continue
            kernels, time = kernels + 1, time + event["end"] - event["start"]
            cost = 0
            ended = [other for other in mine if other["start"] == event["start"] and other["end"] > other["start"]]
            ends_gap = ended and min(ended, key=lambda x: (x["end"], x["place"])) is event
            earlier = [p for p in busy if p < event["start"]]
            if ends_gap and earlier and event["start"] - 1 not in busy:
                late = {p for p in range(max(earlier) + 1, event["start"]) if p < by_id[event["id"]][1]}
                cost = min(len(late & inside), interval)
            costs += cost
            name = tiny.setdefault(event["name"], [0, 0, 0])
            tiny[event["name"]] = [name[0] + 1, name[1] + event["end"] - event["start"], name[2] + cost]
        line = result.tiny_by_device.set_index("device").loc[device]
        assert (line["kernels"], line["time_ps"], line["cost_ps"]) == (kernels, time, costs)
    assert {record[0]: record[1:] for record in result.tiny.to_numpy().tolist()} == tiny


def test_between_windows_no_time_counts():
    events = work(row(0, 10, 1), row(12, 20, 2), row(60, 70, 3), row(75, 80, 4))
    call_frame = calls((1, 0, 1), (2, 11, 12), (3, 50, 51), (4, 73, 74))
    result = launches(events, call_frame, {"": np.array([[0, 20], [58, 90]], np.int64)})
    # Queued inside the windows: 11-12, 58-60 and 73-75. Idle and nothing queued: 10-11 and 70-73.
    same(result.queue, table(QUEUE_COLUMNS, ("gpu:0", 42, 5 / 42, 1, 37, 37 / 42, 4, 4 / 42)))
    assert (launches(events, call_frame).queue["span_ps"] == 80).all()


def test_of_a_part_what_starts_after_it_waits_in_its_queue_and_what_began_before_it_has_no_delay():
    # One row every 10 ps, each launched 30 before; of 12 to 35 the second row is cut, and the fourth.
    events = work(*(row(at, at + 10, at) for at in range(0, 80, 10)))
    call_frame = calls(*((at, at - 30, at - 29) for at in range(0, 80, 10)))
    for windows in ((12, 35), {"": np.array([[12, 20], [20, 35]], np.int64)}):
        result = launches(events, call_frame, windows)
        same(result.queue, table(QUEUE_COLUMNS, ("gpu:0", 23, 3.0, 3, 0, 0.0, 0, 0.0)))
        same(result.by_device, table(BY_DEVICE_COLUMNS, ("gpu:0", 2, 0, 30, 30, 30, 0)))
    whole = timeline_of(Trace(events, launches=call_frame))
    same(module.launches(whole.narrowed((12, 35))).queue, result.queue)


def test_a_device_that_did_nothing_in_a_part_has_a_queue_there_and_no_delays():
    events = work(row(0, 10, 1), {**row(0, 9, 2), "device": "gpu:1"}, {**row(40, 49, 3), "device": "gpu:1"})
    result = launches(events, calls((1, 0, 1), (2, 0, 1), (3, 25, 26)), (5, 30))
    assert result.by_device[["device", "n"]].to_numpy().tolist() == [["gpu:0", 0], ["gpu:1", 0]]
    # gpu:0 is done at 10, so its span in the part is 5 to 10.
    same(
        result.queue,
        table(QUEUE_COLUMNS, ("gpu:0", 5, 0.0, 0, 5, 1.0, 0, 0.0), ("gpu:1", 25, 0.2, 1, 20, 0.8, 16, 16 / 25)),
    )


@pytest.mark.parametrize("windows", [(3, 9), (0, 5), (0, 9)])
def test_a_kernel_that_a_part_cuts_is_as_long_as_it_is(windows):
    # Launched every 4 ps; "long" takes 5 or more, however little of it is in the part.
    events = work(row(0, 5, 1, name="long"), row(4, 5, 2, name="short"), row(8, 20, 3, name="long"))
    with mock.patch.object(module, "LEAST_LAUNCHES", 2):
        result = launches(events, calls((1, 0, 1), (2, 4, 4), (3, 8, 9)), windows)
    assert result.tiny["name"].tolist() == ["short"]


def quantile(values, share):
    """The smallest value that `share` % of them do not exceed."""
    return next(
        (value for value in values if 100 * sum(other <= value for other in values) >= share * len(values)), None
    )


def none(value):
    return None if pd.isna(value) else int(value)


def test_the_deepest_queue_is_that_of_a_count_of_points_compiled_and_plain():
    pairs = st.lists(st.tuples(st.integers(-5, 40), st.integers(0, 9)), max_size=12)

    @settings(max_examples=50)
    @given(pairs, pairs)
    def check(launch_delays, windows):
        window_set = iv.union(np.array([(at, at + size) for at, size in windows], np.int64).reshape(-1, 2))
        points = [point for start, end in window_set.tolist() for point in range(start, end)]
        begun = np.sort(np.array([at for at, _ in launch_delays], np.int64))
        started = np.sort(np.array([at + size for at, size in launch_delays], np.int64))
        deepest = max((int((begun <= point).sum() - (started <= point).sum()) for point in points), default=0)
        assert compiled(module.deepest)(begun, started, window_set) == deepest
        assert module.deepest(begun, started, window_set) == deepest

    check()
