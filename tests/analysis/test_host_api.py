"""What the host's calls cost: a trace for each rule, a brute-force oracle, and that it agrees with the idle causes."""

import random

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.idle_frames import US, row
from tests.launch_frames import calls, host_spans, waits, work
from tests.stepped import annotations
from tracekit import intervals as iv
from tracekit.analysis.blocking_copies import blocking_copies
from tracekit.analysis.host_api import host_api
from tracekit.analysis.idle import Cause, idle
from tracekit.analysis.idle_gaps import PYTHON
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


def test_the_first_call_of_a_trace_may_have_come_late():
    events = work(row("gpu:0", 0, 100), row("gpu:0", 1000, 1100, 7))
    assert after_waits(result(events, calls((7, 990 * US, 995 * US)), [sync(20, 110)])) == {SYNC: (1, 900, 890)}


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


def test_idle_time_after_a_wait_that_no_launch_explains_is_counted():
    # Another wait, of which is not known what for, takes 180 of it.
    spans = host_spans(("block_until_ready", 120 * US, 300 * US))
    for more, unexplained in ((None, 0), (spans, 180)):
        told = of_calls(result(EVENTS, LAUNCHES, [sync(20, 110)], more), "idle_ps", "host_bound_ps", "unexplained_ps")
        assert told[SYNC] == (900 * US, (890 - unexplained) * US, unexplained * US)


def test_the_cause_of_the_idle_time_after_a_wait_is_that_of_half_of_it_or_more():
    for until, cause in ((300, "host-bound"), (560, "host-bound"), (570, "unexplained")):
        spans = host_spans(("block_until_ready", 120 * US, until * US))
        told = of_calls(result(EVENTS, LAUNCHES, [sync(20, 110)], spans), "host_bound_ps", "unexplained_ps", "cause")
        host_ps, unexplained_ps, of_most = told[SYNC]
        assert of_most == cause == ("host-bound" if 2 * host_ps >= 900 * US else "unexplained")
        assert host_ps + unexplained_ps <= 900 * US


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


ONE_WAIT = (sync(20, 110),)


def places(spans, syncs=ONE_WAIT, **parts):
    """Operation, span around it and source line of the waits in which gaps began, and how many calls and gaps."""
    table = result(EVENTS, LAUNCHES, syncs, spans, **parts).places.astype(object)
    columns = ["operation", "within", "source", "n", "gaps"]
    return [tuple(row) for row in table[columns].where(table[columns].notna(), None).to_numpy().tolist()]


def test_a_wait_stands_under_the_outermost_operator_and_the_innermost_span_around_it():
    around = (
        ("forward", 0, 200 * US),
        ("aten::item", 15 * US, 130 * US),
        ("aten::_local_scalar_dense", 16 * US, 129 * US),
    )
    assert places(host_spans(*around)) == [("aten::item", "forward", None, 1, 1)]
    assert places(host_spans(around[0], ("wait for it", 16 * US, 125 * US))) == [("forward", None, None, 1, 1)]
    step = annotations(("step", 1, 17 * US, 120 * US), thread="main")
    assert places(concat(SPAN_COLUMNS, [host_spans(), step])) == [(None, None, None, 1, 1)]


def test_waits_under_calls_of_one_operator_are_one_place():
    called = ("aten::to, op_id = 7", 15 * US, 130 * US), ("aten::to, op_id = 9, seq = 4", 1000 * US, 1200 * US)
    inside = ("aten::copy_, op_id = 8", 16 * US, 129 * US)
    waits_of_both = sync(20, 110), sync(1010, 1105)
    assert places(host_spans(*called, inside), waits_of_both) == [("aten::to", None, None, 2, 2)]


def test_operators_of_which_no_span_is_kept_are_around_waits_too():
    operator = {"host": ["h"], "thread": ["main"], "name": ["aten::nonzero"], "start_ps": [10], "end_ps": [200 * US]}
    work_times = frame(HOST_WORK_COLUMNS, operator)
    assert places(host_spans(("loss", 0, 300 * US)), host_work=work_times) == [("aten::nonzero", "loss", None, 1, 1)]


def test_a_wait_has_the_source_line_of_the_innermost_frame_outside_of_jax():
    frames = (
        ("$train.py:31 main", 0, 300 * US),
        ("$array.py:4 _value", 15 * US, 130 * US),
        ("$builtins f", 16 * US, 129 * US),
    )
    assert places(host_spans(*frames)) == [(None, None, "train.py:31", 1, 1)]
    assert places(host_spans(("$core.py:7 bind", 0, 300 * US))) == [(None, None, "core.py:7", 1, 1)]
    told = waits(sync(20, 110)).assign(source=pd.Categorical(["model.py:9"]))
    timeline = timeline_of(Trace(EVENTS, launches=LAUNCHES, syncs=told, spans=host_spans(*frames)))
    assert host_api(timeline, idle(timeline).gaps).places["source"].tolist() == ["model.py:9"]


def copied(name, memory, way, call, copy):
    """Whether a call of this name waited for its copy; `call` and `copy` are times in us."""
    events = work(row("gpu:0", *copy, 0, kind="memcpy", name=f"Memcpy ({memory})"))
    events["direction"] = pd.Categorical([way], categories=events["direction"].cat.categories)
    launches = calls((0, call[0] * US, call[1] * US, "main", name))
    return blocking_copies(timeline_of(Trace(events, launches=launches))).tolist() == [0]


@pytest.mark.parametrize(
    ("name", "memory", "way", "call", "copy", "waited"),
    [
        ("cudaMemcpyAsync", "Device -> Pageable", "D2H", (0, 500), (400, 490), True),
        ("cudaMemcpyAsync", "Device -> Pageable", "D2H", (0, 489), (400, 490), False),  # it returned before the end
        ("cudaMemcpyAsync", "Device -> Pinned", "D2H", (0, 500), (400, 490), False),
        ("cudaMemcpyAsync", "Pageable -> Device", "H2D", (0, 500), (400, 490), True),
        ("cudaMemcpyAsync", "Pageable -> Device", "H2D", (0, 9), (4, 5), False),  # no longer than a launch
        ("cudaMemcpyAsync", "Device -> Device", "D2D", (0, 500), (400, 490), False),
        ("hipMemcpyAsync", "CopyDeviceToHost", "D2H", (0, 500), (400, 490), True),
        ("hipMemcpyAsync", "CopyDeviceToHost", "D2H", (0, 500), (40, 55), False),  # it went on long after
        ("cudaMemcpy", "Device -> Pinned", "D2H", (0, 500), (400, 509), True),  # the clocks may be apart by 10 us
        ("cudaMemcpy", "Pageable -> Device", "H2D", (0, 500), (400, 531), False),  # it returns once all is staged
        ("cudaMemcpy", "Device -> Device", "D2D", (0, 500), (400, 490), False),
    ],
)
def test_a_copy_blocks_its_call_by_its_times_and_its_memory(name, memory, way, call, copy, waited):
    assert copied(name, memory, way, call, copy) is waited


def test_devices_fall_idle_after_an_asynchronous_copy_that_blocked():
    events = rows(0, 1000, 2000).assign(kind=["memcpy", "compute", "compute"])
    events["kind"] = events["kind"].astype(rows(0)["kind"].dtype)
    events["direction"] = pd.Categorical(["D2H", None, None], categories=events["direction"].cat.categories)
    events["host_memory"] = pd.Categorical(["pageable", None, None])
    launches = concat_calls(calls((0, -10 * US, 105 * US, "main", "cudaMemcpyAsync")), launched_later())
    told = result(events, launches)
    # Until the call returns, at 105, the device waits for a copy, and then for the host.
    assert after_waits(told) == {"cudaMemcpyAsync": (1, 900, 885)}
    assert told.launches == 2


def test_a_call_that_an_export_holds_twice_counts_once():
    launches = concat_calls(calls((0, 0, 60, "main", "cudaMemcpy")), calls((0, 1, 59, "main", "cudaMemcpy")))
    told = result(EVENTS, concat_calls(launches, calls((1, 1, 59, "main", "cudaMemcpy")))).by_call
    assert told[["n", "total_ps"]].to_numpy().tolist() == [[2, 118]]


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
    columns = ["call", "n", "threads", "total_ps", "median_ps", "p95_ps", "waits", "waits_ps"]
    assert told[columns].to_numpy().tolist() == [
        ["cudaMalloc", 2, 2, 8, 3, 5, 0, 0],  # of calls that begin together on one thread one counts
        ["PJRT_Event_Await", 1, 1, 7, 7, 7, 1, 7],
    ]


_TIMES = st.tuples(st.sampled_from(["cudaMalloc", "cudaFree"]), st.integers(0, 5), st.sampled_from(["a", "b"]))


@given(st.lists(_TIMES, max_size=9), st.lists(_TIMES, max_size=5), st.lists(_TIMES, max_size=3))
def test_what_stands_in_several_tables_counts_once_whatever_their_order(in_launches, in_spans, in_waits):
    launches = [(at, start, start + 1 + at, thread, name) for at, (name, start, thread) in enumerate(in_launches)]
    spans = [(name, start, start + 20 + at, thread) for at, (name, start, thread) in enumerate(in_spans)]
    syncs = [sync(start / US, (start + 40) / US, name, thread) for name, start, thread in in_waits]
    first = {}
    for *_, start, end, thread, name in launches:
        first.setdefault((name, start, thread), end - start)
    for name, start, end, thread in spans:
        first.setdefault((name, start, thread), end - start)
    for name, start, thread in in_waits:
        first.setdefault((name, start, thread), 40)
    told = result(EVENTS, calls(*launches), syncs, host_spans(*spans))
    counted = {}
    for (name, _, thread), length in first.items():
        n, threads, total = counted.get(name, (0, set(), 0))
        counted[name] = n + 1, threads | {thread}, total + length
    assert of_calls(told, "n", "threads", "total_ps") == {
        name: (n, len(threads), total) for name, (n, threads, total) in counted.items()
    }


def test_of_windows_the_calls_that_begin_inside_count():
    told = result(EVENTS, LAUNCHES, [sync(20, 110), sync(1000, 1105)], windows=(0, 1500 * US))
    assert of_calls(told, "n", "gaps", "idle_ps") == {SYNC: (2, 1, 900 * US), "cudaLaunchKernel": (1, 0, 0)}


def test_the_spread_tells_one_long_gap_from_many():
    events = rows(0, 110, 220, 330, 1000)
    told = result(events, launched(-10, 105, 215, 325, 990)).by_device
    assert told.to_numpy().tolist() == [["gpu:0", 4, 600 * US, 10 * US, 570 * US, 0.95, 1]]
    even = result(rows(0, 110, 220, 330, 440), launched(-10, 105, 215, 325, 435)).by_device
    assert even[["longest_ratio", "half"]].to_numpy().tolist() == [[0.25, 2]]


def did(*spans, launches=LAUNCHES, syncs=(), **parts):
    """Of the first gap, from 100 to 1000: thread, what it did, the line, for how long and how long nothing, in us."""
    table = result(EVENTS, launches, syncs, host_spans(*spans), **parts).longest
    thread, doing, source, for_ps, silent_ps = table.iloc[0][["thread", "doing", "source", "doing_ps", "unrecorded_ps"]]
    return thread, doing, None if pd.isna(source) else source, for_ps / US, silent_ps / US


def test_the_longest_gaps_say_what_their_thread_did_longest():
    spans = host_spans(("load", 200 * US, 700 * US), ("parse", 300 * US, 400 * US), ("other", 0, 1000 * US, "other"))
    work_times = {"host": ["h"], "process": [None], "thread": ["main"], "start_ps": [1300 * US], "end_ps": [1990 * US]}
    told = result(EVENTS, LAUNCHES, [], spans, host_work=frame(HOST_WORK_COLUMNS, work_times)).longest
    columns = ["start_ps", "idle_ps", "ratio", "launched_ps", "thread", "doing", "doing_ps", "unrecorded_ps"]
    assert told[columns].to_numpy().tolist() == [
        [100 * US, 900 * US, 0.5, 890 * US, "main", "load", 500 * US, 395 * US],
        [1100 * US, 900 * US, 0.5, 890 * US, "main", PYTHON, 690 * US, 205 * US],
    ]


def test_the_deepest_name_around_half_of_a_gap_tells_what_was_done():
    outer = ("main", 0, 2000 * US), ("train", 150 * US, 950 * US), ("load", 200 * US, 600 * US)
    assert did(*outer) == ("main", "train", None, 800, 0)
    assert did(*outer, ("cudaMalloc", 300 * US, 800 * US)) == ("main", "cudaMalloc", None, 500, 0)
    assert did(*outer, ("aten::mm, op_id = 3", 200 * US, 500 * US), ("aten::mm", 500 * US, 800 * US))[1:4:2] == (
        "aten::mm",
        600,
    )
    lines = ("$data.py:12 load", 150 * US, 940 * US), ("$core.py:630 bind", 150 * US, 930 * US)
    assert did(*outer, *lines) == ("main", "train", "data.py:12", 800, 0)
    assert did(*lines) == ("main", "$data.py:12 load", "data.py:12", 790, 105)


def test_of_work_launched_before_a_gap_the_thread_tells_of_which_most_is_recorded():
    ahead = launched(-10, 50, 1990)
    spans = ("save", 300 * US, 900 * US, "saver"), ("watch", 100 * US, 200 * US, "watcher")
    assert did(*spans, launches=ahead) == ("saver", "save", None, 600, 300)
    told = result(EVENTS, ahead, [], host_spans(*spans)).longest.iloc[0]
    assert (told["launched_ps"], told["host_bound_ps"]) == (-50 * US, 0)


def test_what_the_host_did_counts_inside_the_windows_only():
    windows = iv.intervals([50 * US, 800 * US], [400 * US, 1050 * US])
    told = result(EVENTS, LAUNCHES, spans=host_spans(("log", 300 * US, 900 * US)), windows=windows).longest.iloc[0]
    assert (told["idle_ps"], told["doing_ps"], told["unrecorded_ps"]) == (500 * US, 200 * US, 295 * US)


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


def test_calls_of_two_threads_at_one_moment_are_two():
    names = ("cudaLaunchKernel", "cudaMemcpyAsync")
    of_main = calls(*((10 + at, at * US, at * US + 1, "main", name) for at, name in enumerate(names)))
    of_other = calls(*((20 + at, at * US, at * US + 1, "other", name) for at, name in enumerate(reversed(names))))
    told = result(EVENTS, concat(LAUNCH_COLUMNS, [of_main, of_other]))
    assert of_calls(told, "n") == {"cudaLaunchKernel": (2,), "cudaMemcpyAsync": (2,)}
