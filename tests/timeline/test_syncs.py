"""What each wait waited for: hand-made cases, and a brute-force oracle over the rows of every lane."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.launch_frames import calls, waits, work
from tracekit.timeline.timeline import Timeline, timeline_of
from tracekit.trace import Trace


def timeline(rows, launches, syncs) -> Timeline:
    return timeline_of(Trace(work(*rows), launches=calls(*launches), syncs=waits(*syncs)))


def row(start, end, id=None, lane="1", device="gpu:0") -> dict:
    return {"device": device, "lane": lane, "start": start, "end": end, "id": id}


def wait(start, **more) -> dict:
    return {"start": start, "end": start + 1000, "on_device": "gpu:0", **more}


def test_a_wait_for_a_device_waits_for_the_last_row_of_each_of_its_lanes():
    rows = [row(0, 9, 1), row(20, 30, 2), row(5, 40, 3, lane="2"), row(0, 99, 4, device="gpu:1")]
    syncs = timeline(rows, [(1, 0, 1), (2, 1, 2), (3, 2, 3), (4, 3, 4)], [wait(10)]).syncs
    assert (syncs.row.tolist(), syncs.sync.tolist()) == ([2, 1], [0, 0])
    assert (syncs.awaited.tolist(), syncs.follower.tolist()) == ([1], [-1])


def test_work_launched_after_the_wait_was_recorded_is_not_awaited():
    rows, launches = [row(0, 9, 1), row(20, 30, 2)], [(1, 0, 1), (2, 5, 6)]
    assert timeline(rows, launches, [wait(10, recorded=5), wait(10, recorded=6)]).syncs.awaited.tolist() == [0, 1]


def test_a_row_whose_call_is_not_in_the_trace_is_awaited_if_it_had_started():
    assert timeline([row(3, 9)], [], [wait(3), wait(4)]).syncs.awaited.tolist() == [-1, 0]


def test_a_row_that_ends_after_its_followers_on_a_lane_is_the_last_of_them():
    rows = [row(0, 50, 1), row(10, 20, 2)]
    assert timeline(rows, [(1, 0, 1), (2, 1, 2)], [wait(5)]).syncs.row.tolist() == [0]


def test_a_lane_that_waits_holds_what_is_launched_on_it_from_then_on():
    rows = [row(0, 9, 1), row(9, 20, 2, lane="2"), row(30, 40, 3, lane="2")]
    lane_wait = wait(6, device="gpu:0", lane="2", on_lane="1")
    syncs = timeline(rows, [(1, 0, 1), (2, 5, 6), (3, 6, 7)], [lane_wait]).syncs
    assert (syncs.awaited.tolist(), syncs.follower.tolist()) == ([0], [2])


def test_a_lane_that_waits_holds_the_first_that_any_process_launches_on_it():
    rows = [row(0, 9, 1), row(20, 30, 2, lane="2"), row(40, 50, 3, lane="2"), row(2, 5, 4, lane="2")]
    for processes in (["7", "7", "8", "9"], ["7", "8", "7", "9"], ["7", "9", "8", "7"]):
        launches = calls((1, 0, 1), (2, 7, 8), (3, 8, 9), (4, 1, 2)).assign(process=pd.Categorical(processes))
        syncs = waits(wait(6, device="gpu:0", lane="2", on_lane="1"))
        whole = timeline_of(Trace(work(*rows), launches=launches, syncs=syncs))
        assert whole.rows.start[whole.syncs.follower].tolist() == [20]


@pytest.mark.parametrize(
    ("launched", "on_lane", "end"), [(None, "1", 40), (None, None, 40), (7, "1", 45), (11, "1", 40)]
)
def test_a_wait_for_a_lane_is_for_what_that_was_held_for_and_ran_nothing_since(launched, on_lane, end):
    """A barrier: the lane of the compute waits for a collective, and the thread for that lane."""
    rows, launches = [row(0, 9, 1), row(2, 40, 2, lane="2")], [(1, 0, 1), (2, 1, 2)]
    if launched:
        rows.append(row(41, 45, 3))
        launches.append((3, launched, launched + 1))
    held = wait(5, device="gpu:0", lane="1", on_lane="2")
    whole = timeline(rows, launches, [held, wait(10, on_lane=on_lane)])
    assert whole.rows.end[whole.syncs.awaited].tolist() == [40, end]


def test_waits_without_rows_and_rows_without_waits_give_nothing():
    assert timeline([], [], [wait(5)]).syncs.awaited.tolist() == [-1]
    assert timeline([row(0, 9)], [], []).syncs.awaited.tolist() == []


DEVICES, LANES = ["gpu:0", "gpu:1"], ["1", "2"]
some_rows = st.lists(
    st.builds(
        lambda device, lane, start, size, ahead: (device, lane, start, start + size, ahead),
        st.sampled_from(DEVICES),
        st.sampled_from(LANES),
        st.integers(0, 20),
        st.integers(0, 9),
        st.one_of(st.none(), st.integers(-2, 9)),
    ),
    max_size=9,
)
some_waits = st.lists(
    st.fixed_dictionaries(
        {
            "start": st.integers(-3, 25),
            "device": st.sampled_from([None, *DEVICES]),
            "lane": st.sampled_from([None, *LANES, "9"]),
            "on_device": st.sampled_from([*DEVICES, "gpu:7"]),
            "on_lane": st.sampled_from([None, *LANES, "9"]),
            "recorded": st.one_of(st.none(), st.integers(-3, 25)),
        }
    ),
    max_size=4,
)


@settings(max_examples=200)
@given(some_rows, some_waits)
def test_every_wait_is_for_what_was_launched_before_it(row_tuples, some):
    rows = [row(start, end, id, lane, device) for id, (device, lane, start, end, _) in enumerate(row_tuples)]
    launches = [
        (id, start - ahead, start - ahead + 1)
        for id, (*_, start, _, ahead) in enumerate(row_tuples)
        if ahead is not None
    ]
    whole = timeline(rows, launches, [{**sync, "end": sync["start"] + 1000} for sync in some])
    # In the order of Rows: device, lane, start, end, and when it was launched.
    placed = [(*row_tuples[at][:4], row_tuples[at][2] - (row_tuples[at][4] or 0)) for at in whole.rows.at.tolist()]
    syncs = whole.syncs
    edges = set(zip(syncs.sync.tolist(), syncs.row.tolist(), strict=True))
    expected, last_of_wait = set(), []
    for at, sync in enumerate(some):
        moment = sync["start"] if sync["recorded"] is None else sync["recorded"]
        last_of_lane = {}
        for place, (device, lane, _, end, launched) in enumerate(placed):
            if device == sync["on_device"] and sync["on_lane"] in (None, lane) and launched < moment:
                last_of_lane.setdefault(lane, []).append((end, launched, place))
        expected |= {(at, max(rows_of_lane)[2]) for rows_of_lane in last_of_lane.values()}
        last = max((max(rows_of_lane) for rows_of_lane in last_of_lane.values()), default=(0, 0, -1))
        last_of_wait.append(last)
        later = [
            place
            for place, (device, lane, _, _, launched) in enumerate(placed)
            if sync["lane"] is not None
            and (device, lane) == (sync["device"], sync["lane"])
            and launched >= sync["start"]
        ]
        assert syncs.follower[at] == min(later, default=-1)
    for at, sync in enumerate(some):
        moment = sync["start"] if sync["recorded"] is None else sync["recorded"]
        last = last_of_wait[at]
        for hold, of_hold in zip(some, last_of_wait, strict=True):
            launched_on = [launched for *place, _, _, launched in placed if place == [hold["device"], hold["lane"]]]
            is_of_lane = hold["device"] == sync["on_device"] and sync["on_lane"] in (None, hold["lane"])
            since = [launched for launched in launched_on if hold["start"] <= launched < moment]
            if launched_on and is_of_lane and hold["start"] < moment and not since and of_hold[2] >= 0:
                expected.add((at, of_hold[2]))
                last = max(last, of_hold)
        assert syncs.awaited[at] == last[2]
    assert edges == expected


US = 10**6


def named_wait(name, start, end, **more) -> dict:
    return {"start": start * US, "end": end * US, "on_device": None, "name": name, **more}


def row_us(start, end, id=None, lane="1", device="gpu:0") -> dict:
    return row(start * US, end * US, id, lane, device)


def calls_us(*rows) -> list[tuple]:
    return [(id, start * US, end * US, *more) for id, start, end, *more in rows]


@pytest.mark.parametrize(
    ("name", "end", "awaited"),
    [
        ("cudaDeviceSynchronize", 103, [1]),  # 3 us after the end of gpu:1's last row
        ("cudaDeviceSynchronize", 63, [0]),  # gpu:1 ran on, so it was gpu:0 that was waited for
        ("hipDeviceSynchronize", 500, [-1]),  # nothing ended right before
        ("cudaStreamSynchronize", 103, [1]),
        ("cudaStreamSynchronize", 95, [1]),  # within what two clocks may differ by
        ("cudaStreamSynchronize", 80, [0]),
        ("cudaStreamSynchronize", 15, [-1]),  # all ran on
        ("cudaEventSynchronize", 62, [0]),
        ("cudaEventSynchronize", 250, [-1]),
    ],
)
def test_a_wait_that_names_no_device_is_for_what_ended_right_before_it_returned(name, end, awaited):
    rows = [row_us(10, 60, 1), row_us(12, 100, 2, device="gpu:1")]
    launches = calls_us((1, 1, 2), (2, 3, 4))
    assert timeline(rows, launches, [named_wait(name, 6, end)]).syncs.awaited.tolist() == awaited


def test_a_wait_that_names_no_device_is_for_those_that_its_thread_launches_to():
    rows = [row_us(10, 60, 1), row_us(12, 61, 2, device="gpu:1")]
    launches = calls_us((1, 1, 2, "one"), (2, 3, 4, "other"))
    syncs = [named_wait("cudaDeviceSynchronize", 6, 63, thread=thread) for thread in ("one", "other", "third")]
    assert timeline(rows, launches, syncs).syncs.awaited.tolist() == [0, 1, 1]


def test_a_wait_with_nothing_left_to_wait_for_is_known_where_it_returns_at_once():
    rows, launches = [row_us(10, 60, 1), row_us(12, 61, 2, lane="2")], calls_us((1, 1, 2), (2, 3, 4))
    syncs = [named_wait("cudaStreamSynchronize", 900, end) for end in (905, 999)]
    assert timeline(rows, launches, syncs).syncs.awaited.tolist() == [1, -1]


def test_a_thread_waits_for_work_of_its_own_process_only():
    rows = [row_us(10, 60, 1), row_us(12, 90, 2)]
    launches = calls(*calls_us((1, 1, 2, "a"), (2, 3, 4, "b"))).assign(process=pd.Categorical(["7", "8"]))
    told = named_wait("cudaDeviceSynchronize", 6, 95, thread="a", on_device="gpu:0")
    syncs = waits(told, {**told, "thread": "b"}).assign(process=pd.Categorical(["7", "8"]))
    assert timeline_of(Trace(work(*rows), launches=launches, syncs=syncs)).syncs.awaited.tolist() == [0, 1]


def test_a_wait_that_returned_before_a_row_began_by_the_other_clock_is_for_the_row_before_it():
    rows, launches = [row_us(10, 60, 1), row_us(62, 65, 2)], calls_us((1, 1, 2), (2, 3, 4))
    syncs = [named_wait("cudaStreamSynchronize", 6, end, on_device="gpu:0", on_lane="1") for end in (61, 67)]
    assert timeline(rows, launches, syncs).syncs.awaited.tolist() == [0, 1]


HOLD = (90, 30, 31, "main", "cudaStreamWaitEvent")


@pytest.mark.parametrize(
    ("start", "launches", "syncs", "resumed"),
    [
        (103, [HOLD], [], [(2, 0)]),  # 3 us after the end of the row of lane 1 that was launched before the call
        (120, [HOLD], [], []),  # too late to tell
        (118, [(90, 30, 31, "main", "hipStreamWaitEvent")], [], [(2, 0)]),  # which takes longer
        (121, [(90, 30, 31, "main", "hipStreamWaitEvent")], [], []),
        (103, [(90, 30, 31, "other", "cudaStreamWaitEvent")], [], []),  # another thread's call holds other rows
        (103, [(90, 3, 4, "main", "cudaStreamWaitEvent")], [], []),  # which held the row before it on the lane
        (103, [(90, 45, 46, "main", "cudaStreamWaitEvent")], [], []),  # after its launch
        (103, [(90, 30, 31, "main", "cudaEventRecord")], [], []),
        (103, [HOLD], [{"start": 30 * US, "end": 31 * US, "device": "gpu:0", "on_device": None}], []),  # told
    ],
)
def test_a_row_that_began_as_another_lane_ended_was_held_by_the_call_before_its_launch(start, launches, syncs, resumed):
    rows = [row_us(10, 100, 1), row_us(12, 20, 2, lane="2"), row_us(start, 150, 3, lane="2")]
    launched = calls_us((1, 1, 2), (2, 5, 6), (3, 40, 41), *launches)
    syncs = timeline(rows, launched, syncs).syncs
    in_order = {row: place for place, row in enumerate(timeline(rows, launched, []).rows.at.tolist())}
    expected = [(in_order[row], in_order[before]) for row, before in resumed]
    assert [*zip(syncs.resumed.tolist(), syncs.resumed_after.tolist(), strict=True)] == expected


def test_a_row_that_its_own_lane_or_its_launch_held_up_until_then_resumed_after_no_other():
    busy = [row_us(10, 100, 1), row_us(12, 101, 2, lane="2"), row_us(103, 150, 3, lane="2")]
    late = [row_us(10, 100, 1), row_us(103, 150, 3, lane="2")]
    assert timeline(busy, calls_us((1, 1, 2), (2, 5, 6), (3, 40, 41), HOLD), []).syncs.resumed.tolist() == []
    assert timeline(late, calls_us((1, 1, 2), (3, 101, 102), HOLD), []).syncs.resumed.tolist() == []


def resumed_in_rounds(delays, *launches, syncs=(), late=()):
    """How many rows of lane 2 resumed, each so much later, in us, than a row of lane 1 ended; those `late` 300 more."""
    rows, launched = [], []
    for at, delay in enumerate(delays):
        start, k = 1000 * at, 2 * at
        begin = start + 500 + delay + 300 * (at in late)
        rows += [row_us(start + 10, start + 500, k + 1), row_us(begin, begin + 50, k + 2, lane="2")]
        launched += [(k + 1, start, start + 5), (k + 2, start + 6, start + 8)]
    syncs_of = timeline(rows, calls_us(*launched, *launches), list(syncs)).syncs
    at = timeline(rows, calls_us(*launched), []).rows.at
    assert (at[syncs_of.resumed] == at[syncs_of.resumed_after] + 1).all()
    return len(syncs_of.resumed)


def test_without_any_record_of_waits_of_lanes_many_equally_prompt_starts_tell_them():
    assert resumed_in_rounds([5] * 5) == resumed_in_rounds([8] * 5) == 5
    assert resumed_in_rounds([3, 4, 4, 5, 4, 3]) == 6
    assert resumed_in_rounds([3] * 8, late=(2,)) == 7


def test_prompt_starts_are_counted_on_each_lane_of_each_device():
    rows, launched = [], []
    for at in range(5):
        start = 1000 * at
        for device, begin in ((0, 505), (1, 405)):
            k = 4 * at + 2 * device
            rows.append(row_us(start + 10, start + begin - 5, k + 1, "12"[device], f"gpu:{device}"))
            rows.append(row_us(start + begin, start + begin + 50, k + 2, "21"[device], f"gpu:{device}"))
            launched += [(k + 1, start, start + 5), (k + 2, start + 6, start + 8)]
    syncs = timeline(rows, calls_us(*launched), []).syncs
    assert len(syncs.resumed) == 10


def test_prompt_starts_that_are_few_or_not_alike_tell_nothing():
    assert resumed_in_rounds([5] * 4) == 0
    assert resumed_in_rounds([1, 3, 5, 7, 2, 6]) == 0
    assert resumed_in_rounds([3] * 8, late=(1, 3, 5)) == 0
    assert resumed_in_rounds([12] * 8) == 0


def test_where_waits_of_lanes_are_recorded_prompt_starts_tell_nothing():
    assert resumed_in_rounds([5] * 5, (90, 9000, 9001, "main", "cudaStreamWaitEvent")) == 0
    told = {"start": 9000 * US, "end": 9001 * US, "device": "gpu:0", "on_device": None}
    assert resumed_in_rounds([5] * 5, syncs=[told]) == 0
