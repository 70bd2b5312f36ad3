"""What the host's calls cost: a trace for each rule, a brute-force oracle, and that it agrees with the idle causes."""

import random

import pytest

from tests.idle_frames import US, row
from tests.launch_frames import calls, host_spans, waits, work
from tests.stepped import annotations
from tracekit.analysis.host_api import OPERATORS, host_api
from tracekit.analysis.idle import Cause, idle
from tracekit.analysis.late_launches import late_launches
from tracekit.columns import concat, frame
from tracekit.timeline.syncs import CLOCKS_PS
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import HOST_WORK_COLUMNS, LAUNCH_COLUMNS, SPAN_COLUMNS, Trace

SYNC = "cudaDeviceSynchronize"


def sync(start, end, name=SYNC, thread="main"):
    return {"start": start * US, "end": end * US, "name": name, "thread": thread, "on_device": None}


def launched(*times, name="cudaLaunchKernel", thread="main"):
    """Launch calls of 5 us, numbered."""
    return calls(*((number, at * US, (at + 5) * US, thread, name) for number, at in enumerate(times)))


def rows(*begins, device="gpu:0"):
    """Rows of 100 us, numbered."""
    return work(*(row(device, begin, begin + 100, number) for number, begin in enumerate(begins)))


def result(events, launches, syncs=(), spans=None, windows=None, **parts):
    parts |= {"spans": host_spans() if spans is None else spans, "syncs": waits(*syncs)}
    timeline = timeline_of(Trace(events, launches=launches, **parts), windows)
    return host_api(timeline, idle(timeline).gaps)


def of_calls(result, *columns):
    table = result.by_call.set_index("call")
    return {call: tuple(table.loc[call, list(columns)].tolist()) for call in table.index}


def after_waits(result):
    """The gaps that began in each call, with their time and that of the host in us."""
    table = of_calls(result, "gaps", "idle_ps", "host_bound_ps")
    return {call: (gaps, whole / US, host / US) for call, (gaps, whole, host) in table.items() if gaps}


# The device is idle from 100 to 1000 and from 1100 to 2000; each launch comes 10 us before its row.
EVENTS, LAUNCHES = rows(0, 1000, 2000), launched(-10, 990, 1990)


def test_a_gap_that_began_in_a_wait_is_that_of_the_call():
    told = result(EVENTS, LAUNCHES, [sync(20, 110)])
    assert after_waits(told) == {SYNC: (1, 900, 890)}
    assert told.by_call.set_index("call").loc[SYNC, "ratio"] == 900 / 2100
    assert after_waits(result(EVENTS, LAUNCHES, [sync(20, 110), sync(1000, 1105)])) == {SYNC: (2, 1800, 1780)}


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        (sync(20, 91), True),  # the clocks of host and device may be apart by 10 us
        (sync(20, 90), False),
        (sync(100, 101), True),
        (sync(101, 900), False),
        (sync(20, 110, thread="other"), False),
    ],
)
def test_a_wait_counts_that_the_launching_thread_was_in_when_the_device_fell_idle(wait, expected):
    assert bool(after_waits(result(EVENTS, LAUNCHES, [wait]))) is expected


def test_no_wait_holds_up_what_was_launched_before_the_gap():
    ahead = launched(-10, 50, 1990)
    assert after_waits(result(EVENTS, ahead, [sync(60, 110)])) == {}


def test_waits_in_each_other_count_once_for_the_innermost():
    spans = host_spans(("block_until_ready", 10 * US, 120 * US), ("train", 5 * US, 130 * US))
    told = result(EVENTS, LAUNCHES, [sync(20, 110)], spans)
    assert after_waits(told) == {SYNC: (1, 900, 890)}
    assert after_waits(result(EVENTS, LAUNCHES, [], spans)) == {"block_until_ready": (1, 900, 890)}


def test_synchronous_copies_wait_too():
    launches = concat_calls(calls((0, -10 * US, 105 * US, "main", "cudaMemcpy")), launched_later())
    assert after_waits(result(EVENTS, launches)) == {"cudaMemcpy": (1, 900, 890)}


def launched_later():
    return calls(
        *((number, at * US, (at + 5) * US, "main", "cudaLaunchKernel") for number, at in ((1, 990), (2, 1990)))
    )


def concat_calls(*tables):
    return concat(LAUNCH_COLUMNS, list(tables))


def test_where_pools_launch_the_wait_of_the_thread_that_calls_programs_counts():
    spans = host_spans(
        ("PjitFunction(f)", -20 * US, -15 * US), ("np.asarray(jax.Array)", 10 * US, 110 * US), ("x", 0, 1, "pool")
    )
    pool = launched(-10, 990, 1990, thread="pool")
    assert after_waits(result(EVENTS, pool, [], spans)) == {"np.asarray(jax.Array)": (1, 900, 890)}
    assert after_waits(result(EVENTS, pool, [sync(20, 110, thread="pool")], spans)) == {SYNC: (1, 900, 890)}
    assert after_waits(result(EVENTS, pool, [], spans[1:].reset_index(drop=True))) == {}


def test_places_are_the_innermost_operation_around_a_wait_that_is_none_itself():
    around = ("train", 0, 200 * US), ("aten::item", 15 * US, 130 * US), ("wait for it", 16 * US, 125 * US)
    spans = concat(SPAN_COLUMNS, [host_spans(*around), annotations(("step", 1, 17 * US, 120 * US), thread="main")])
    told = result(EVENTS, LAUNCHES, [sync(20, 110), sync(1000, 1105)], spans).places
    assert told[["call", "operation", "n", "gaps", "start_ps"]].fillna("").to_numpy().tolist() == [
        [SYNC, "aten::item", 1, 1, 100 * US],
        [SYNC, "", 1, 1, 1100 * US],
    ]


def test_launches_are_told_that_a_wait_follows_next_on_their_thread():
    told = result(EVENTS, LAUNCHES, [sync(0, 1), sync(2, 3), sync(1000, 1001), sync(1991, 1999, thread="other")])
    assert told.launches == 3
    assert of_calls(told, "after_launch", "n")[SYNC] == (2, 4)


def test_the_time_of_a_call_is_that_of_all_of_its_name():
    launches = calls(
        *((number, 0, length, f"t{number % 2}", "cudaMalloc") for number, length in enumerate((3, 5, 8, 60)))
    )
    spans = host_spans(("cudaMalloc", 0, 3, "t0"), ("PJRT_Event_Await", 0, 7), ("forward", 0, 99))
    told = result(EVENTS, concat_calls(launches), [], spans).by_call
    columns = ["call", "n", "threads", "total_ps", "median_ps", "p95_ps"]
    assert told[columns].to_numpy().tolist() == [
        ["cudaMalloc", 2, 2, 8, 3, 5],  # of calls that begin together on one thread one counts
        ["PJRT_Event_Await", 1, 1, 7, 7, 7],
    ]


def test_of_windows_the_calls_that_begin_inside_count():
    told = result(EVENTS, LAUNCHES, [sync(20, 110), sync(1000, 1105)], windows=(0, 1500 * US))
    assert of_calls(told, "n", "gaps", "idle_ps") == {SYNC: (2, 1, 900 * US), "cudaLaunchKernel": (1, 0, 0)}


def test_the_spread_tells_one_long_gap_from_many():
    events = rows(0, 110, 220, 330, 1000)
    told = result(events, launched(-10, 105, 215, 325, 990)).by_device
    assert told.to_numpy().tolist() == [["gpu:0", 4, 600 * US, 10 * US, 570 * US, 0.95, 1]]
    even = result(rows(0, 110, 220, 330, 440), launched(-10, 105, 215, 325, 435)).by_device
    assert even[["longest_ratio", "half"]].to_numpy().tolist() == [[0.25, 2]]


def test_the_longest_gaps_say_what_their_thread_did_longest():
    spans = host_spans(("load", 200 * US, 700 * US), ("parse", 300 * US, 400 * US), ("other", 0, 1000 * US, "other"))
    work_times = {"host": ["h"], "thread": ["main"], "start_ps": [1300 * US], "end_ps": [1990 * US]}
    told = result(EVENTS, LAUNCHES, [], spans, host_work=frame(HOST_WORK_COLUMNS, work_times)).longest
    columns = ["start_ps", "idle_ps", "ratio", "thread", "doing", "doing_ps", "unrecorded_ps"]
    assert told[columns].to_numpy().tolist() == [
        [100 * US, 900 * US, 0.5, "main", "load", 400 * US, 395 * US],
        [1100 * US, 900 * US, 0.5, "main", OPERATORS, 690 * US, 205 * US],
    ]


def test_what_the_host_did_is_unknown_where_no_call_launched_the_work():
    told = result(rows(0, 1000), calls()).longest
    assert told[["thread", "doing", "doing_ps", "unrecorded_ps"]].isna().all().all()


def test_a_trace_without_calls_and_gaps_says_so():
    assert "neither calls" in result(rows(0), calls()).lacking


@pytest.mark.parametrize("seed", range(12))
def test_random_traces_agree_with_a_slow_computation_and_with_the_idle_causes(seed):
    rng = random.Random(seed)
    threads = ["a", "b"]
    table, launches, at = [], [], 0
    for number in range(40):
        at += rng.choice([0, 3, 30, 200, 500])
        begin = at + rng.choice([1, 30])
        table.append(row(f"gpu:{rng.randrange(2)}", begin, begin + rng.choice([5, 80, 300]), number, lane=str(number)))
        launches.append(
            (number, at * US, (at + 2) * US, rng.choice(threads), rng.choice(["cudaLaunchKernel", "cudaMemcpy"]))
        )
    syncs = [
        sync(begin := rng.randrange(at), begin + rng.randrange(200), thread=rng.choice(threads)) for _ in range(30)
    ]
    spans = host_spans(
        *(
            (
                f"wait {number}",
                (begin := rng.randrange(at)) * US,
                (begin + rng.randrange(300)) * US,
                rng.choice(threads),
            )
            for number in range(9)
        )
    )
    trace = Trace(work(*table), launches=calls(*launches), syncs=waits(*syncs), spans=spans)
    timeline = timeline_of(trace)
    causes = idle(timeline)
    told = host_api(timeline, causes.gaps)
    assert after_waits(told) == slowly(timeline, causes)
    # What is told of late launches is the same time.
    assert int(told.by_call["host_bound_ps"].sum()) == late_launches(timeline, causes).after_wait_ps
    assert int(told.places["idle_ps"].sum()) == int(told.by_call["idle_ps"].sum())
    edges = causes.gaps["cause"].isin([str(Cause.BEFORE), str(Cause.AFTER)])
    between = (causes.gaps["end_ps"] - causes.gaps["start_ps"])[~edges]
    assert int(told.by_device["idle_ps"].sum()) == int(between.sum())


def slowly(timeline, causes):
    """`after_waits`, gap by gap and wait by wait."""
    trace, told = timeline.trace, {}
    launch_of = dict(zip(timeline.rows.at.tolist(), timeline.launch.tolist(), strict=True))
    records = [
        *trace.syncs.itertuples(),
        *(call for call in trace.launches.itertuples() if call.name == "cudaMemcpy"),
        *trace.spans.itertuples(),
    ]
    for _, pieces in causes.gaps.groupby("interval"):
        if pieces["cause"].iat[0] in (str(Cause.BEFORE), str(Cause.AFTER)):
            continue
        call = trace.launches.iloc[launch_of[int(pieces["next"].iat[0])]]
        begin = int(pieces["start_ps"].iat[0])
        around = [
            (each.start_ps, -each.end_ps, number, each.name)
            for number, each in enumerate(records)
            if each.thread == call["thread"] and each.start_ps <= begin < each.end_ps + CLOCKS_PS
        ]
        if around and call["start_ps"] > begin:
            name = max(around)[3]
            length = pieces["end_ps"] - pieces["start_ps"]
            gaps, whole, host = told.get(name, (0, 0, 0))
            by_host = length[pieces["cause"] == str(Cause.HOST)].sum()
            told[name] = (gaps + 1, whole + length.sum() / US, host + by_host / US)
    return told
