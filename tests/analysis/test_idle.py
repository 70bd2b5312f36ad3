"""Why devices stood idle: one trace per cause, their order, and a brute-force oracle that looks at every picosecond."""

from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.idle_frames import CALLED, FIRST, US, call, idle, row
from tests.launch_frames import calls, host_spans, waits, work
from tracekit.analysis import idle as module
from tracekit.analysis.idle import (
    BY_CAUSE_COLUMNS,
    BY_DEVICE_COLUMNS,
    DEVICE_COLUMNS,
    GAP_COLUMNS,
    LARGEST_COLUMNS,
)
from tracekit.analysis.idle import idle as analyse
from tracekit.timeline import syncs as syncs_module
from tracekit.timeline.timeline import Timeline, timeline_of
from tracekit.trace import Trace


def pieces(result, device="gpu:0"):
    """(start, end, cause, next) of one device; times in us where all are whole ones."""
    mine = result.gaps[result.gaps["device"] == device]
    scale = US if (mine[["start_ps", "end_ps"]] % US == 0).all(axis=None) else 1
    return [
        (start // scale, end // scale, cause, None if pd.isna(row) else row)
        for start, end, cause, row in zip(
            mine["start_ps"], mine["end_ps"], mine["cause"].astype(str), mine["next"], strict=True
        )
    ]


def during(start, end, **more):
    return {"start": start * US, "end": end * US, **more}


def test_a_late_launch_is_host_bound_until_it_begins_and_latency_from_then_on():
    result = idle(work(FIRST, row("gpu:0", 1000, 1100, 2)), calls(CALLED, call(2, 990, 995)))
    assert pieces(result) == [(100, 990, "host-bound", 1), (990, 1000, "launch latency", 1)]
    assert result.gaps["interval"].tolist() == [0, 0]


@pytest.mark.parametrize(("returned_us", "cause"), [(100, "between queued work"), (101, "launch latency")])
def test_work_whose_launch_returned_before_the_device_went_idle_was_queued(returned_us, cause):
    result = idle(work(FIRST, row("gpu:0", 110, 120, 2)), calls(CALLED, call(2, 88, returned_us)))
    assert pieces(result) == [(100, 110, cause, 1)]


def test_work_that_was_queued_long_before_takes_a_short_time_to_start():
    result = idle(work(FIRST, row("gpu:0", 102, 120, 2)), calls(CALLED, call(2, 10, 15)))
    assert pieces(result) == [(100, 102, "between queued work", 1)]


def test_20_us_are_still_prompt():
    latency = idle(work(FIRST, row("gpu:0", 125, 130, 2)), calls(CALLED, call(2, 85, 105)))
    assert pieces(latency) == [(100, 125, "launch latency", 1)]
    slow = idle(work(FIRST, row("gpu:0", 125, 130, 2)), calls(CALLED, call(2, 84, 105)))
    assert pieces(slow) == [(100, 105, "slow launch call", 1), (105, 125, "launch latency", 1)]
    queued = idle(work(FIRST, row("gpu:0", 120, 130, 2)), calls(CALLED, call(2, 80, 90)))
    assert pieces(queued) == [(100, 120, "between queued work", 1)]


def test_queued_work_that_does_not_start_for_long_waited_for_something_that_the_trace_does_not_show():
    result = idle(work(FIRST, row("gpu:0", 121, 130, 2)), calls(CALLED, call(2, 10, 15)))
    assert pieces(result) == [(100, 121, "unexplained", 1)]


def test_work_launched_on_an_idle_device_that_starts_long_after_the_call_is_unexplained_from_the_call_on():
    result = idle(work(FIRST, row("gpu:0", 300, 330, 2)), calls(CALLED, call(2, 200, 205)))
    assert pieces(result) == [(100, 200, "host-bound", 1), (200, 300, "unexplained", 1)]


def test_a_slow_launch_call_is_told_as_that_for_as_long_as_it_runs():
    result = idle(work(FIRST, row("gpu:0", 5010, 5100, 2)), calls(CALLED, call(2, 200, 5000)))
    assert pieces(result) == [
        (100, 200, "host-bound", 1),
        (200, 5000, "slow launch call", 1),
        (5000, 5010, "launch latency", 1),
    ]
    # The row began within the call, which went on.
    result = idle(work(FIRST, row("gpu:0", 4000, 5100, 2)), calls(CALLED, call(2, 200, 5000)))
    assert pieces(result) == [(100, 200, "host-bound", 1), (200, 4000, "slow launch call", 1)]


def test_a_launch_that_seems_to_begin_after_its_work_came_late_all_the_same():
    result = idle(work(FIRST, row("gpu:0", 300, 330, 2)), calls(CALLED, call(2, 302, 305)))
    assert pieces(result) == [(100, 300, "host-bound", 1)]


def test_the_window_s_edges_are_before_the_first_and_after_the_last_work():
    result = idle(work(row("gpu:0", 50, 60), row("gpu:1", 0, 100)))
    assert pieces(result) == [(0, 50, "before first work", 0), (60, 100, "after last work", None)]
    assert pieces(result, "gpu:1") == []


def test_a_lane_that_was_told_to_wait_for_a_copy_of_another_device_waited_for_the_copy():
    events = work(FIRST, row("gpu:0", 205, 230, 2, lane="7"), row("gpu:1", 20, 200, 3, kind="memcpy"))
    lane_wait = during(12, 13, device="gpu:0", lane="7", on_device="gpu:1", on_lane="1", recorded=11 * US)
    launches = calls(CALLED, call(3, 5, 9), call(2, 15, 20))
    assert pieces(idle(events, launches, syncs=waits(lane_wait))) == [
        (100, 200, "waiting for a copy", 1),
        (200, 205, "between queued work", 1),
        # Until the last end of the other device there is nothing more.
    ]
    # A wait that is told as the launch begins comes before it.
    assert pieces(idle(events, launches, syncs=waits({**lane_wait, "start": 15 * US, "end": 16 * US})))[0][1] == 200
    # The wait was told to another lane, after the launch, for work launched later, or for work that ended too late.
    for other in (
        {**lane_wait, "lane": "8"},
        {**lane_wait, "start": 16 * US, "end": 17 * US},
        {**lane_wait, "recorded": 5 * US},
        {**lane_wait, "on_lane": "2"},
    ):
        assert pieces(idle(events, launches, syncs=waits(other))) == [(100, 205, "unexplained", 1)]


@pytest.mark.parametrize(("start", "cause"), [(200, "waiting for a copy"), (195, "unexplained")])
def test_a_row_that_starts_as_a_copy_ends_waited_for_it_and_one_that_starts_before_did_not(start, cause):
    events = work(FIRST, row("gpu:0", start, 230, 2), row("gpu:1", 20, 200, 3, kind="memcpy"))
    lane_wait = during(12, 13, device="gpu:0", on_device="gpu:1")
    actual = pieces(idle(events, calls(CALLED, call(3, 5, 9), call(2, 15, 20)), syncs=waits(lane_wait)))
    assert actual[0] == (100, start, cause, 1)


def test_a_lane_waits_for_a_copy_from_its_start_on_and_before_that_for_what_the_other_device_did():
    events = work(FIRST, row("gpu:0", 205, 230, 2), row("gpu:1", 20, 190, 3), row("gpu:1", 190, 200, 4, kind="memcpy"))
    lane_wait = during(12, 13, device="gpu:0", on_device="gpu:1")
    launches = calls(CALLED, call(3, 5, 6), call(4, 7, 9), call(2, 15, 20))
    assert pieces(idle(events, launches, syncs=waits(lane_wait)))[:2] == [
        (100, 190, "waiting for a collective or another device", 1),
        (190, 200, "waiting for a copy", 1),
    ]


def test_a_lane_that_was_told_to_wait_for_other_work_waited_for_another_device():
    events = work(FIRST, row("gpu:0", 205, 230, 2), row("gpu:1", 20, 200, 3))
    lane_wait = during(12, 13, device="gpu:0", on_device="gpu:1")
    actual = pieces(idle(events, calls(CALLED, call(3, 5, 9), call(2, 15, 20)), syncs=waits(lane_wait)))
    assert actual == [
        (100, 200, "waiting for a collective or another device", 1),
        (200, 205, "between queued work", 1),
    ]


def test_of_several_waits_of_a_lane_the_work_that_ends_last_counts():
    events = work(
        FIRST, row("gpu:0", 205, 230, 2), row("gpu:1", 20, 200, 3, kind="memcpy"), row("gpu:1", 20, 150, 4, lane="2")
    )
    lane_waits = [during(12, 13, device="gpu:0", on_device="gpu:1", on_lane=lane) for lane in ("1", "2")]
    launches = calls(CALLED, call(3, 5, 9), call(4, 6, 9), call(2, 15, 20))
    assert pieces(idle(events, launches, syncs=waits(*lane_waits)))[0] == (100, 200, "waiting for a copy", 1)


def test_the_collective_that_ends_later_elsewhere_is_waited_for_if_work_starts_right_after_it():
    rows = [
        row("gpu:0", 0, 100, 1, kind="collective"),
        row("gpu:0", 205, 230, 2),
        row("gpu:1", 50, 200, 3, kind="collective"),
    ]
    events, launches = work(*rows), calls(CALLED, call(3, 5, 9), call(2, 15, 20))
    expected = [
        (100, 200, "waiting for a collective or another device", 1),
        (200, 205, "between queued work", 1),
    ]
    assert pieces(idle(events, launches)) == expected
    # So is the second that the devices meet in.
    first = [row(device, -60, -50, kind="collective") for device in ("gpu:0", "gpu:1")]
    assert [piece[:3] for piece in pieces(idle(work(*rows, *first), launches))][-2:] == [each[:3] for each in expected]
    apart = events.assign(name=pd.Categorical(["all-reduce", "op", "all-gather"]))
    assert pieces(idle(apart, launches)) == [(100, 205, "unexplained", 1)]


def test_a_collective_that_ended_elsewhere_before_the_launch_or_after_the_start_was_not_waited_for():
    first = row("gpu:0", 0, 100, 1, kind="collective")
    late = work(first, row("gpu:0", 205, 230, 2), row("gpu:1", 50, 190, 3, kind="collective"))
    assert pieces(idle(late, calls(CALLED, call(2, 195, 197)))) == [
        (100, 195, "host-bound", 1),
        (195, 205, "launch latency", 1),
    ]
    brief = work(first, row("gpu:0", 120, 130, 2), row("gpu:1", 50, 110, 3, kind="collective"))
    result = idle(brief, calls(CALLED, call(2, 15, 20)))
    assert pieces(result) == [(100, 120, "between queued work", 1)]
    still = work(first, row("gpu:0", 205, 230, 2), row("gpu:1", 50, 206, 3, kind="collective"))
    assert pieces(idle(still, calls(CALLED, call(2, 15, 20)))) == [(100, 205, "unexplained", 1)]


def test_a_collective_ends_elsewhere_on_a_host_that_was_not_read_again_too():
    """Of two hosts on one clock, the first read again with all its rows."""
    own = [row("gpu:0", 0, 100, 1, kind="collective"), row("gpu:0", 205, 230, 2)]
    other = row("b/gpu:1", 50, 200, 3, kind="collective", host="b")
    launches = calls(CALLED, call(2, 15, 20))
    every, alone = (timeline_of(Trace(work(*rows), launches=launches)) for rows in ([*own, other], own))
    expected = (100, 200, "waiting for a collective or another device", 1)
    assert pieces(analyse(every))[0] == expected
    again = Timeline(alone.trace, reduced=every)
    of_first = every.rows.of(every.rows.number("gpu:0"))
    assert again.collectives.instance.tolist() == every.collectives.instance[of_first].tolist()
    assert pieces(analyse(again)) == pieces(analyse(every))
    assert pieces(analyse(alone)) != pieces(analyse(every))


def test_a_collective_on_another_clock_proves_nothing():
    events = work(
        row("gpu:0", 0, 100, 1, kind="collective", clock="a"),
        row("gpu:0", 205, 230, 2, clock="a"),
        row("b/gpu:1", 50, 200, 3, kind="collective", clock="b", host="b"),
    )
    launches = calls(CALLED, call(2, 15, 20))
    assert pieces(idle(events, launches, instance=[0, -1, 0])) == [(100, 205, "unexplained", 1)]


def test_a_host_that_waited_for_a_copy_back_before_it_launched_waited_for_the_copy():
    events = work(FIRST, row("gpu:0", 100, 150, 2, kind="memcpy"), row("gpu:0", 300, 330, 3))
    launches = calls(CALLED, call(2, -3, -2), call(3, 290, 295))
    blocked = during(0, 160, on_device="gpu:0")
    expected = [
        (150, 160, "waiting for a copy", 2),
        (160, 290, "host-bound", 2),
        (290, 300, "launch latency", 2),
    ]
    assert pieces(idle(events, launches, syncs=waits(blocked))) == expected
    # A call that began after the copy was done did not wait for it, and another thread's wait says nothing.
    # Nor did the call that tells a stream to wait.
    lane_wait = {**blocked, "device": "gpu:0", "lane": "1"}
    for other in ({**blocked, "start": 150 * US}, {**blocked, "thread": "other"}, lane_wait):
        assert pieces(idle(events, launches, syncs=waits(other))) == [
            (150, 290, "host-bound", 2),
            (290, 300, "launch latency", 2),
        ]


def test_a_copy_whose_call_returns_after_its_end_held_the_host():
    events = work(FIRST, row("gpu:0", 100, 150, 2, kind="memcpy"), row("gpu:0", 300, 330, 3))
    launches = calls(CALLED, call(2, -3, 180), call(3, 290, 295))
    assert pieces(idle(events, launches))[:2] == [
        (150, 180, "waiting for a copy", 2),
        (180, 290, "host-bound", 2),
    ]


def test_a_host_that_waited_for_a_collective_of_its_own_device_waited_for_the_collective():
    events = work(row("gpu:0", 0, 100, 1, kind="collective"), row("gpu:0", 300, 330, 2))
    result = idle(events, calls(CALLED, call(2, 290, 295)), syncs=waits(during(0, 160, on_device="gpu:0")))
    assert pieces(result)[0] == (100, 160, "waiting for a collective or another device", 1)


def test_waiting_for_work_on_another_clock_proves_nothing():
    other = row("b/gpu:1", 20, 200, 3, kind="memcpy", clock="b", host="b")
    events = work(FIRST | {"clock": "a"}, row("gpu:0", 205, 230, 2, clock="a"), other)
    theirs = calls(call(3, 5, 9), host="b")
    queued = pd.concat([calls(CALLED, call(2, 15, 20)), theirs], ignore_index=True)
    late = pd.concat([calls(CALLED, call(2, 195, 200)), theirs], ignore_index=True)
    for launches in (queued, late):
        launches[["host", "thread", "name"]] = launches[["host", "thread", "name"]].astype("category")
    lane_wait = during(12, 13, device="gpu:0", on_device="b/gpu:1")
    assert pieces(idle(events, queued, syncs=waits(lane_wait))) == [(100, 205, "unexplained", 1)]
    blocked = during(12, 190, on_device="b/gpu:1")
    # What the thread waited for until then is not known.
    blocked_pieces = pieces(idle(events, late, syncs=waits(blocked)))
    assert blocked_pieces[:2] == [(100, 190, "unexplained", 1), (190, 195, "host-bound", 1)]


def test_a_host_that_waited_for_computing_of_this_device_is_host_bound_and_of_another_device_is_not():
    events = work(FIRST, row("gpu:0", 300, 330, 2), row("gpu:1", 0, 250, 3))
    launches = calls(CALLED, call(3, -3, -2), call(2, 290, 295))
    rest = [(290, 300, "launch latency", 1)]
    own = idle(events, launches, syncs=waits(during(0, 260, on_device="gpu:0")))
    assert pieces(own) == [(100, 290, "host-bound", 1), *rest]
    other = idle(events, launches, syncs=waits(during(0, 260, on_device="gpu:1")))
    assert pieces(other) == [
        (100, 260, "waiting for a collective or another device", 1),
        (260, 290, "host-bound", 1),
        *rest,
    ]


@pytest.mark.parametrize(
    ("lowered", "more", "compiling"),
    [
        (400, (), 0),  # in JAX's memory: nothing is compiled after it
        (600, (), 600),  # in a cache on disk
        (400, [("backend_compile_and_load", 1510, 1600)], 490),
        (400, [("lower_sharding_computation", 1510, 1520), ("backend_compile_and_load", 1600, 1650)], 60),
        (400, [("backend_compile_and_load", 1510, 1600, "other")], 0),
    ],
)
def test_lowering_is_compiling_where_a_compiler_follows_or_where_it_took_long(lowered, more, compiling):
    named = [("lower_sharding_computation", 1000, 1000 + lowered), *more]
    spans = host_spans(*((name, start * US, end * US, *thread) for name, start, end, *thread in named))
    result = idle(work(FIRST, row("gpu:0", 2000, 2100, 2)), calls(CALLED, call(2, 1990, 1995)), spans)
    assert sum(end - start for start, end, cause, _ in pieces(result) if cause == "compiling") == compiling


def test_loading_data_and_compiling_on_the_launching_thread_refine_what_is_host_bound():
    spans = host_spans(
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 50 * US, 400 * US),
        ("backend_compile", 300 * US, 500 * US),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 600 * US, 900 * US, "other"),
        ("matmul", 550 * US, 900 * US),
    )
    result = idle(work(FIRST, row("gpu:0", 1000, 1100, 2)), calls(CALLED, call(2, 990, 995)), spans)
    assert pieces(result) == [
        (100, 300, "input pipeline", 1),
        (300, 500, "compiling", 1),
        (500, 990, "host-bound", 1),
        (990, 1000, "launch latency", 1),
    ]
    assert result.gaps["interval"].nunique() == 1


@pytest.mark.parametrize(("process", "cause"), [("7", "input pipeline"), ("8", "host-bound")])
def test_what_a_thread_of_the_same_name_in_another_process_does_is_not_the_launching_thread_s(process, cause):
    launches = calls(CALLED, call(2, 280, 285)).assign(process=pd.Categorical(["7", "7"]))
    spans = host_spans(("enumerate(DataLoader)#x", 100 * US, 270 * US)).assign(process=pd.Categorical([process]))
    answer = idle(work(FIRST, row("gpu:0", 290, 400, 2)), launches, spans)
    assert answer.gaps["cause"].astype(str).tolist()[0] == cause


def test_what_the_only_thread_that_calls_jitted_functions_does_counts_for_the_threads_that_launch_for_it():
    events, launches = work(FIRST, row("gpu:0", 1000, 1100, 2)), calls(CALLED, call(2, 990, 995, "pool"))
    loading = [("## data_load ##", 200 * US, 400 * US, "python")]
    dispatch = [("PjitFunction(step)", 0, 10 * US, "python")]
    assert [piece[2] for piece in pieces(idle(events, launches, host_spans(*loading, *dispatch)))] == [
        *("host-bound", "input pipeline", "host-bound", "launch latency"),
    ]
    by_cause = idle(events, launches, host_spans(*loading, *dispatch)).by_cause
    assert by_cause.loc[by_cause["cause"] == "host-bound", "gaps"].tolist() == [1]  # two pieces of one gap
    two = [*dispatch, ("PjitFunction(eval)", 0, 10 * US, "evaluation")]
    assert "input pipeline" not in idle(events, launches, host_spans(*loading, *two)).by_cause["cause"].tolist()


def test_meeting_the_threads_of_other_devices_is_waiting_for_them():
    spans = host_spans(("Rendezvous: all-reduce", 200 * US, 700 * US))
    result = idle(work(FIRST, row("gpu:0", 1000, 1100, 2)), calls(CALLED, call(2, 990, 995)), spans)
    assert pieces(result)[1] == (200, 700, "waiting for a collective or another device", 1)


def test_between_rows_that_one_call_started_no_launch_was_needed():
    result = idle(work(row("cpu:0", 0, 100, 1), row("cpu:0", 500, 600, 1)), calls(CALLED))
    assert pieces(result, "cpu:0") == [(100, 500, "inside a program", 1)]


def test_between_rows_of_one_run_of_a_program_without_launch_ids_no_launch_was_needed():
    program = {"run": 7, "module": "jit_step"}
    result = idle(
        work(row("tpu:0", 0, 100, **program), row("tpu:0", 500, 600, **program), row("tpu:0", 700, 800, run=8))
    )
    assert pieces(result, "tpu:0") == [(100, 500, "inside a program", 1), (600, 700, "unexplained", 2)]
    for other in ({"run": 8, "module": "jit_step"}, {"run": 7, "module": "jit_eval"}):
        result = idle(work(row("tpu:0", 0, 100, **program), row("tpu:0", 500, 600, **other)))
        assert pieces(result, "tpu:0") == [(100, 500, "unexplained", 1)]
    # On GPUs each kernel of a program is launched, even if the trace lost the calls.
    lost = idle(work(row("gpu:0", 0, 100, 1, **program), row("gpu:0", 500, 600, 2, **program)), calls(call(9, 0, 1)))
    assert pieces(lost) == [(100, 500, "unexplained", 1)]


def test_rows_that_last_no_time_end_no_gap():
    events = work(FIRST, row("gpu:0", 150, 150, 3), row("gpu:0", 1000, 1100, 2))
    result = idle(events, calls(CALLED, call(3, 140, 141), call(2, 990, 995)))
    assert pieces(result) == [(100, 990, "host-bound", 2), (990, 1000, "launch latency", 2)]


def test_the_row_that_reached_furthest_stands_before_a_gap():
    program = {"run": 7, "module": "m"}
    events = work(row("tpu:0", 0, 100, **program), row("tpu:0", 10, 20, run=8), row("tpu:0", 500, 600, **program))
    assert pieces(idle(events), "tpu:0") == [(100, 500, "inside a program", 2)]


def test_a_window_cuts_the_pieces():
    events, launches = work(FIRST, row("gpu:0", 1000, 1100, 2)), calls(CALLED, call(2, 990, 995))
    assert pieces(idle(events, launches, window=(500 * US, 995 * US))) == [
        (500, 990, "host-bound", 1),
        (990, 995, "launch latency", 1),
    ]
    assert pieces(idle(events, launches, window=(-20 * US, 50 * US))) == [(-20, 0, "before first work", 0)]
    assert pieces(idle(events, launches, window=(1050 * US, 1200 * US))) == [(1100, 1200, "after last work", None)]


def test_before_the_first_work_of_a_stretch_idle_time_has_the_causes_that_all_of_the_trace_gives():
    trace = Trace(work(FIRST, row("gpu:0", 1000, 1100, 2)), launches=calls(CALLED, call(2, 990, 995)))
    assert pieces(analyse(timeline_of(trace, (50 * US, 1050 * US)))) == [
        (100, 990, "host-bound", 1),
        (990, 1000, "launch latency", 1),
    ]
    assert pieces(analyse(timeline_of(trace, (500 * US, 1050 * US)))) == [
        (500, 990, "host-bound", 0),
        (990, 1000, "launch latency", 0),
    ]
    assert pieces(analyse(timeline_of(trace, (-20 * US, 150 * US)))) == [
        (-20, 0, "before first work", 0),
        (100, 150, "at the end of this part", None),
    ]


def test_the_tables_sum_the_pieces_by_device_and_by_cause():
    events = work(FIRST, row("gpu:0", 1000, 1100, 2, name="late"), row("gpu:1", 0, 1100))
    result = idle(events, calls(CALLED, call(2, 990, 995)))
    expected = pd.DataFrame(
        [("host-bound", 1, 890 * US, 890 / 900), ("launch latency", 1, 10 * US, 10 / 900)],
        columns=list(BY_CAUSE_COLUMNS),
    ).astype(BY_CAUSE_COLUMNS)
    pd.testing.assert_frame_equal(result.by_cause, expected)
    expected.insert(0, "device", pd.Series(["gpu:0", "gpu:0"], dtype="str"))
    pd.testing.assert_frame_equal(result.by_device, expected)
    devices = [("gpu:0", 1100 * US, 900 * US, 9 / 11, "host-bound", 890 / 900), ("gpu:1", 1100 * US, 0, 0, None, None)]
    pd.testing.assert_frame_equal(
        result.devices, pd.DataFrame(devices, columns=list(DEVICE_COLUMNS)).astype(DEVICE_COLUMNS)
    )
    largest = [("gpu:0", 100 * US, 1000 * US, 900 * US, "host-bound", 890 / 900, 1, "late")]
    pd.testing.assert_frame_equal(
        result.largest, pd.DataFrame(largest, columns=list(LARGEST_COLUMNS)).astype(LARGEST_COLUMNS)
    )
    assert {name: str(dtype) for name, dtype in result.gaps.dtypes.items()} == GAP_COLUMNS
    assert {name: str(dtype) for name, dtype in result.by_device.dtypes.items()} == BY_DEVICE_COLUMNS


def test_the_causes_of_a_device_are_told_by_their_time():
    result = idle(work(FIRST, row("gpu:0", 5010, 5100, 2)), calls(CALLED, call(2, 200, 5000)))
    assert result.by_device["cause"].tolist() == ["slow launch call", "host-bound", "launch latency"]
    assert result.by_cause["cause"].tolist() == ["slow launch call", "host-bound", "launch latency"]


def test_the_largest_are_the_longest_intervals_of_all_devices_in_order():
    lengths = [3, 30, 7, 25, 9, *range(100, 120)]
    ends = np.cumsum([length + 1 for length in lengths])
    events = work(row("gpu:0", -1, 0), *(row("gpu:0", int(end) - 1, int(end)) for end in ends))
    result = idle(events)
    assert (result.largest["idle_ps"] // US).tolist() == sorted(lengths, reverse=True)[:20]
    assert result.gaps["interval"].tolist() == list(range(25))


@pytest.mark.parametrize(
    ("events", "launches", "why"),
    [
        (work(), calls(), "no work of a device"),
        (work(row("gpu:0", 0, 1), row("gpu:0", 9, 10)), calls(), "no host launches"),
        (work(row("gpu:0", 0, 1), row("gpu:0", 9, 10)), calls(call(1, 0, 1)), "linked"),
        (work(row("gpu:0", 0, 1, 1), row("gpu:0", 9, 10)), calls(call(1, 0, 1)), "explains"),
        (work(row("cpu:?", 0, 1), row("cpu:?", 9, 10)), calls(), "no work of a device"),
    ],
)
def test_without_evidence_it_says_what_is_missing(events, launches, why):
    assert why in idle(events, launches).lacking


def test_devices_that_were_never_idle_lack_nothing():
    assert idle(work(row("gpu:0", 0, 5), row("gpu:0", 5, 9))).lacking == ""


# The oracle: every picosecond by itself, on small whole numbers, with a prompt time of 3 ps.
PROMPT = 3
THREADS = ("main", "pool")


@st.composite
def traces(draw):
    row = st.fixed_dictionaries(
        {
            "device": st.sampled_from(["gpu:0", "gpu:0", "gpu:1", "cpu:?"]),
            "lane": st.sampled_from(["1", "2"]),
            "kind": st.sampled_from(["compute", "collective", "memcpy"]),
            "start": st.integers(0, 40),
            "size": st.integers(0, 6),
            "run": st.one_of(st.none(), st.integers(1, 2)),
            "instance": st.sampled_from([-1, -1, 0, 1]),
            # Its own launch that long before it, or the id of another row's.
            "ahead": st.one_of(st.none(), st.integers(-1, 12)),
            "id": st.one_of(st.none(), st.integers(0, 10)),
        }
    )
    events, launches = draw(st.lists(row, min_size=1, max_size=9)), []
    for at, event in enumerate(events):
        ahead = event.pop("ahead")
        if ahead is not None:
            event["id"] = at
            start = event["start"] - ahead
            launches.append((at, start, start + draw(st.integers(0, 8)), draw(st.sampled_from(THREADS))))
    names = ["enumerate(DataLoader)#x", "backend_compile", "Rendezvous: y", "other", "PjitFunction(f)"]
    spans = [
        (draw(st.sampled_from(names)), start, start + draw(st.integers(0, 15)), draw(st.sampled_from(THREADS)))
        for start in draw(st.lists(st.integers(-3, 40), max_size=4))
    ]
    wait = st.fixed_dictionaries(
        {
            "thread": st.sampled_from(THREADS),
            "start": st.integers(-3, 40),
            "size": st.integers(0, 20),
            "device": st.sampled_from([None, "gpu:0", "gpu:1"]),
            "lane": st.sampled_from([None, "1", "2", "9"]),
            "on_device": st.sampled_from([None, "gpu:0", "gpu:1", "gpu:7"]),
            "on_lane": st.sampled_from([None, "1", "2", "9"]),
            "recorded": st.one_of(st.none(), st.integers(-3, 40)),
        }
    )
    return events, launches, spans, draw(st.lists(wait, max_size=4))


def cause_at(p, device, events, launches, spans, syncs):
    """The cause of the idle picosecond [p, p + 1) of a device, by the words of docs/concepts.md."""
    by_id = {id: (start, end, thread) for id, start, end, thread in launches}
    mine = [event for event in events if event["device"] == device and event["end"] > event["start"]]
    earlier = [event for event in mine if event["end"] <= p]
    later = [event for event in mine if event["start"] > p]
    if not earlier:
        return "before first work"
    if not later:
        return "after last work"
    # Ties as the frame's order has them: rows by start, then end, then place.
    before = max(earlier, key=lambda event: (event["end"], event["start"], event["place"]))
    after = min(later, key=lambda event: (event["start"], event["end"], event["place"]))
    s, e = before["end"], after["start"]
    launch = by_id.get(after["id"])
    if after["id"] in by_id and before["id"] == after["id"]:
        inside = True
    else:
        inside = (before["id"], after["id"]) == (None, None) and before["run"] == after["run"] != None  # noqa: E711
    led = launch is not None and not inside

    def launched_at(event):
        return by_id[event["id"]][0] if event["id"] in by_id else event["start"]

    def awaited_event(sync):
        moment = sync["start"] if sync["recorded"] is None else sync["recorded"]
        work = [
            event
            for event in events
            if event["device"] == sync["on_device"]
            and sync["on_lane"] in (None, event["lane"])
            and launched_at(event) < moment
        ]
        return max(work, key=lambda event: (event["end"], launched_at(event), event["order"]), default=None)

    launched = min(max(launch[0], s), e) if led else s
    if p < launched:
        dispatch = {thread for name, _, _, thread in spans if name.startswith("PjitFunction")}
        threads = {launch[2]} | (dispatch if len(dispatch) == 1 else set())
        doing = {name for name, start, end, thread in spans if thread in threads and start <= p < end}
        copy = others = False
        for sync in syncs:
            row = awaited_event(sync) if sync["device"] is None and sync["thread"] in threads else None
            if row is not None and sync["start"] <= p < sync["end"] and sync["start"] < row["end"]:
                of_copy = row["kind"] == "memcpy" and (row["device"] == device or p >= row["start"])
                copy |= of_copy
                others |= not of_copy and (row["kind"] == "collective" or row["device"] != device)
        for event in events:
            start, end, thread = by_id.get(event["id"], (0, -1, ""))
            if event["kind"] == "memcpy" and thread in threads and start <= p < end and end >= event["end"]:
                has_begun = event["device"] == device or p >= event["start"]
                copy, others = copy or has_begun, others or not has_begun
        if copy:
            return "waiting for a copy"
        if others or "Rendezvous: y" in doing:
            return "waiting for a collective or another device"
        if "backend_compile" in doing:
            return "compiling"
        return "input pipeline" if "enumerate(DataLoader)#x" in doing else "host-bound"
    until, why = launched, None
    if before["instance"] >= 0 and e - s > PROMPT:
        last_end = max(member["end"] for member in events if member["instance"] == before["instance"])
        if launched < last_end <= e and e - last_end <= PROMPT:
            until, why = last_end, "waiting for a collective or another device"
    for lane in (None, "1", "2"):  # lanes that are told together first, then each
        lane_syncs = [sync for sync in syncs if sync["device"] == device and sync["lane"] == lane]
        if launch is None or lane not in (None, after["lane"]):
            continue
        rows_told = [
            (row["end"], -told_at, row["kind"] if p >= row["start"] else "what is before the copy")
            for told_at, row in ((sync["start"], awaited_event(sync)) for sync in lane_syncs)
            if row is not None and told_at <= launch[0]
        ]
        if rows_told:
            last_end = max(end for end, _, _ in rows_told)
            if until < last_end <= e:
                kinds = {kind for end, _, kind in rows_told if end == last_end}
                until = last_end
                why = {"waiting for a copy" if "memcpy" in kinds else "waiting for a collective or another device"}
                if len(kinds) > 1:
                    why.add("waiting for a collective or another device")
    if p < until:
        return why
    if inside:
        return "inside a program"
    if launch is None:
        return "unexplained"
    if launch[1] > s and e - launch[1] <= PROMPT:
        return "launch latency"
    return "between queued work" if e - until <= PROMPT else "unexplained"


@settings(max_examples=70)
@given(traces())
def test_every_picosecond_has_the_cause_that_the_definitions_give_it(trace):
    events, launches, spans, syncs = trace
    events = [{**event, "end": event["start"] + event["size"], "place": at} for at, event in enumerate(events)]
    for order, event in enumerate(sorted(events, key=lambda event: (event["start"], event["end"], event["place"]))):
        event["order"] = order
    syncs = [{**sync, "end": sync["start"] + sync["size"]} for sync in syncs]
    modules = [{**event, "module": "m"} for event in events]
    # What a wait was for, and with which slack, is test_syncs' to ask: here it is only what the wait names.
    no_slack = mock.patch.multiple(syncs_module, WAKE_PS=-1, CLOCKS_PS=-1)
    with mock.patch.object(module, "PROMPT_PS", PROMPT), no_slack:
        result = idle(
            work(*modules),
            calls(*launches),
            host_spans(*spans),
            waits(*syncs),
            [event["instance"] for event in events],
        )
    columns = ("device", "start_ps", "end_ps", "interval")
    device, start, end, interval = (result.gaps[name].to_numpy() for name in columns)
    goes_on = np.append(False, (device[1:] == device[:-1]) & (start[1:] == end[:-1]))[: len(device)]
    assert (np.diff(interval, prepend=-1) == ~goes_on).all()  # pieces that touch are of one interval
    low, high = min(event["start"] for event in events), max(event["end"] for event in events)
    for device in {event["device"] for event in events} - {"cpu:?"}:
        busy = {p for event in events if event["device"] == device for p in range(event["start"], event["end"])}
        cause_of = {p: cause for start, end, cause, _ in pieces_ps(result, device) for p in range(start, end)}
        assert set(cause_of) == set(range(low, high)) - busy
        lasts = any(event["device"] == device and event["size"] for event in events)
        for p, cause in cause_of.items():
            expected = cause_at(p, device, events, launches, spans, syncs) if lasts else "before first work"
            assert cause in expected if isinstance(expected, set) else cause == expected, p


def pieces_ps(result, device):
    mine = result.gaps[result.gaps["device"] == device]
    return zip(mine["start_ps"], mine["end_ps"], mine["cause"].astype(str), mine["next"], strict=True)


def test_each_gap_counts_once_for_each_of_its_causes():
    rows = [row("gpu:0", 1000 * at, 1000 * at + 100, at) for at in range(10)]
    result = idle(work(*rows), calls(*(call(at, 1000 * at - 10, 1000 * at - 5) for at in range(10))))
    counts = result.by_cause.set_index("cause")["gaps"]
    assert {str(cause): n for cause, n in counts.items() if n} == {"host-bound": 9, "launch latency": 9}
    assert result.by_device.set_index("cause")["gaps"].to_dict() == counts.to_dict()
