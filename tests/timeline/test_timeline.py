"""A trace in order: each part made once, and inside windows what an oracle of points says."""

import gc
import io
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import tracekit
from tests.frames import events, spans, trace
from tests.launch_frames import calls, host_spans
from tests.stepped import annotations, join, work
from tracekit.columns import concat, frame
from tracekit.errors import TraceError
from tracekit.report.build import analyse
from tracekit.report.report import write
from tracekit.report.terminal import printout
from tracekit.timeline import rows as rows_module
from tracekit.timeline import timeline as module
from tracekit.timeline.timeline import Timeline, timeline_of
from tracekit.trace import EVENT_COLUMNS, HOST_COLUMNS, LAUNCH_COLUMNS, OP_COLUMNS, SPAN_COLUMNS, Trace

# The parts, and the function that makes each from others.
MADE_BY = {
    "rows": "rows",
    "unions": "unions",
    "launch": "launch_of",
    "collectives": "match",
    "steps": "boundaries",
    "clock_of_host": "clock_of_hosts",
}


def train() -> Trace:
    """Two GPUs that compute and meet, launched by the host in two steps."""
    device_work = work(
        ("gpu:0", "compute", 10, 20, 5),
        ("gpu:0", "collective", 20, 30, 6),
        ("gpu:1", "compute", 10, 26, 7),
        ("gpu:1", "collective", 26, 30, 8),
        ("gpu:0", "compute", 40, 50, 35),
    )
    return Trace(device_work[0], launches=device_work[1], spans=annotations(("train", 0, 4, 32), ("train", 1, 34, 50)))


def together(*functions):
    """What each of some functions gives, called on threads of their own at the same moment."""
    start = threading.Barrier(len(functions), timeout=30)
    with ThreadPoolExecutor(len(functions)) as pool:
        return [
            future.result() for future in [pool.submit(lambda ask=ask: (start.wait(), ask())[1]) for ask in functions]
        ]


@pytest.mark.parametrize("name", MADE_BY)
def test_a_part_is_made_once_also_for_threads_that_ask_at_the_same_moment(monkeypatch, name):
    threads = []
    make = getattr(module, MADE_BY[name])

    def make_slowly(*parts):
        threads.append(threading.current_thread())
        time.sleep(0.05)  # time for the other thread to come and make its own, unless it waits
        return make(*parts)

    monkeypatch.setattr(module, MADE_BY[name], make_slowly)
    timeline = timeline_of(train())
    first, second = together(lambda: getattr(timeline, name), lambda: getattr(timeline, name))
    assert first is second is getattr(timeline, name)
    assert len(threads) == 1


def test_parts_that_need_the_same_part_are_made_side_by_side_and_it_once(monkeypatch):
    sorts = []
    monkeypatch.setattr(module, "rows", lambda table, *counts: sorts.append(table) or rows_module.rows(table, *counts))
    timeline = timeline_of(train())
    together(*(lambda name=name: getattr(timeline, name) for name in MADE_BY))
    assert len(sorts) == 1
    assert sorts[0] is timeline.trace.events


def test_different_parts_do_not_wait_for_each_other():
    timeline = timeline_of(train())
    both = threading.Barrier(2, timeout=30)
    arrivals = together(lambda: timeline.once("one", both.wait), lambda: timeline.once("other", both.wait))
    assert sorted(arrivals) == [0, 1]


def test_what_fails_is_raised_to_each_that_asks_and_made_anew_for_the_next():
    timeline, tried = timeline_of(train()), []

    def fails():
        tried.append(1)
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            timeline.once("part", fails)
    assert (timeline.once("part", lambda: "made"), timeline.once("part", fails), len(tried)) == ("made", "made", 2)


def test_the_gaps_of_a_device_are_found_once():
    timeline = timeline_of(train())
    before, after = timeline.gaps(0)
    assert (timeline.rows.end[before].tolist(), timeline.rows.start[after].tolist()) == ([30], [40])
    assert timeline.gaps(0) is timeline.gaps(0)
    assert [len(part) for part in timeline.gaps(1)] == [0, 0]


def test_the_parts_say_of_each_row_its_place_launch_collective_and_step():
    timeline = timeline_of(train())
    assert timeline.rows.start.tolist() == [10, 20, 40, 10, 26]
    assert timeline.place.tolist() == [0, 1, 4, 2, 3]
    assert timeline.launch.tolist() == [0, 1, 4, 2, 3]
    assert timeline.collectives.instance.tolist() == [-1, 0, -1, -1, 0]
    assert timeline.steps.step_of.tolist() == [0, 0, 1, 0, 0]
    assert timeline.unions.devices["gpu:0"].busy.tolist() == [[10, 30], [40, 50]]
    assert timeline.clock_of_host == {"h": ""}
    assert timeline.clocks == [""]


def test_inside_windows_rows_are_cut_and_keep_their_place_launch_and_step():
    inside = timeline_of(train()).inside(np.array([[12, 22], [28, 45]]))
    assert list(zip(inside.rows.start.tolist(), inside.rows.end.tolist(), strict=True)) == [
        *[(12, 20), (20, 22), (28, 30), (40, 45)],
        *[(12, 22), (28, 30)],
    ]
    # The compute of gpu:1 and the collectives reach over windows; a row that two windows cut stands twice.
    assert inside.place.tolist() == [0, 1, 1, 4, 2, 3]
    assert inside.launch.tolist() == [0, 1, 1, 4, 2, 3]
    assert inside.unions.devices["gpu:1"].busy.tolist() == [[12, 22], [28, 30]]
    assert inside.unions.windows[""].tolist() == [[12, 22], [28, 45]]


def test_a_row_cut_by_two_windows_stands_twice_for_one_place():
    apart = events(("gpu:0", "compute", 0, 100), ("gpu:1", "compute", 100, 200), ("gpu:1", "compute", 210, 300))
    table = pd.DataFrame([("", "one", 90, 110), ("", "other", 80, 85)], columns=["clock", "name", "start_ps", "end_ps"])
    inside = timeline_of(apart, table)
    assert inside.rows.start.tolist() == [80, 90, 100]
    assert inside.place.tolist() == [0, 0, 1]


def trace_in_steps(*steps: tuple[int, int, int]) -> Trace:
    """A trace of three rows of 50 ps, from 0, 200 and 250, with two phases and annotated steps (number, start, end)."""
    marks = join([spans(("solo", 0, 100), ("both", 200, 300)), annotations(*(("train", *step) for step in steps))])
    return trace(events(*[("gpu:0", "compute", at, at + 50) for at in (0, 200, 250)]), marks)


def test_each_row_says_its_step_and_its_place_in_the_trace():
    whole = timeline_of(trace_in_steps((0, 0, 50), (1, 200, 250), (2, 250, 300)))
    assert (whole.place.tolist(), whole.steps.step_of.tolist(), whole.launch.tolist()) == (
        [0, 1, 2],
        [0, 1, 2],
        [-1] * 3,
    )
    inside = whole.inside((200, 300))
    assert (inside.place.tolist(), inside.steps.step_of.tolist(), inside.launch.tolist()) == ([1, 2], [0, 1], [-1] * 2)
    assert inside.steps.table["step"].tolist() == [1, 2]


def test_windows_hold_no_steps_but_those_annotated_in_them():
    elsewhere = timeline_of(trace_in_steps((0, 0, 50)), (200, 300)).steps
    assert (elsewhere.step_of.tolist(), len(elsewhere.table)) == ([-1, -1], 0)
    assert elsewhere.lacking == "Its phases name the parts of this trace, not steps."
    # Runs of a program are steps of a whole trace, and not of its windows.
    runs = events(*[("tpu:0", "compute", at, at + 9) for at in (0, 10, 20)])
    runs = runs.assign(run_id=pd.array([1, 2, 3], "Int64"), hlo_module=pd.Categorical(["jit_f"] * 3))
    assert timeline_of(runs).steps.step_of.tolist() == [0, 1, 2]
    assert timeline_of(runs, (0, 30)).steps.step_of.tolist() == [-1, -1, -1]


WINDOWS = {
    "a tuple": (12, 45),
    "an array": np.array([[12, 45]]),
    "a mapping": {"": np.array([[12, 45]])},
    "a table": pd.DataFrame({"name": ["both"], "start_ps": [12], "end_ps": [45], "clock": [""], "n": [1]}),
    "windows that overlap": np.array([[30, 45], [12, 33]]),
}


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_windows_of_every_sort_say_the_same(windows):
    inside = timeline_of(train()).inside(windows)
    assert inside.rows.start.tolist() == [12, 20, 40, 12, 26]
    assert inside.rows.end.tolist() == [20, 30, 45, 26, 30]
    assert inside.unions.devices["gpu:0"].busy.tolist() == [[12, 30], [40, 45]]
    assert inside.unions.windows[""].tolist() == [[12, 45]]
    assert list(inside.windows.columns) == ["clock", "name", "start_ps", "end_ps"]
    assert inside.trace is inside.whole.trace


def test_windows_keep_the_names_of_their_table():
    timeline = timeline_of(train())
    assert timeline.windows is None
    assert timeline.inside(WINDOWS["a table"]).windows.to_numpy().tolist() == [["", "both", 12, 45]]
    assert timeline.inside((12, 45)).windows.to_numpy().tolist() == [["", "window", 12, 45]]


@pytest.mark.parametrize("at", [4, 5])
def test_a_row_of_no_length_is_in_the_window_that_begins_with_it_or_holds_it_but_in_none_that_ends_there(at):
    windows = [(at, at + 5), (at - 1, at + 1), (at - 3, at), (at + 1, at + 9)]
    rows = [timeline_of(events(("gpu:0", "compute", at, at)), window).rows for window in windows]
    assert [each.start.tolist() for each in rows] == [[at], [at], [], []]


def test_windows_of_no_length_and_none_hold_nothing():
    for windows in ((20, 20), np.zeros((0, 2), np.int64), {}, WINDOWS["a table"][:0]):
        inside = timeline_of(train()).inside(windows)
        assert len(inside.rows) == len(inside.place) == len(inside.launch) == 0
        assert all(len(device.busy) == 0 for device in inside.unions.devices.values())


def two_clocks() -> pd.DataFrame:
    """A device on clock x, which computes from 0 to 10, and one on clock y, which does so from 5 to 25."""
    return concat(
        EVENT_COLUMNS,
        [
            events(("a/gpu:0", "compute", 0, 10), host="a", clock="x"),
            events(("b/gpu:0", "compute", 5, 25), host="b", clock="y"),
        ],
    )


def test_an_array_counts_on_every_clock_and_a_mapping_on_its_own():
    timeline = timeline_of(two_clocks())
    everywhere = timeline.inside((8, 20))
    assert everywhere.rows.end.tolist() == [10, 20]
    assert {clock: windows.tolist() for clock, windows in everywhere.unions.windows.items()} == {
        "x": [[8, 20]],
        "y": [[8, 20]],
    }
    on_y = timeline.inside({"y": np.array([[8, 20]])})
    assert (on_y.rows.devices, on_y.rows.start.tolist(), on_y.rows.end.tolist()) == (("b/gpu:0",), [8], [20])
    assert len(on_y.unions.windows["x"]) == 0


def test_of_the_same_windows_there_is_one_timeline_for_all():
    timeline = timeline_of(train())
    inside = timeline.inside((12, 45))
    for windows in (WINDOWS["a tuple"], WINDOWS["an array"], WINDOWS["a mapping"], {"": [(12, 45)]}):
        assert timeline.inside(windows) is timeline_of(timeline, windows) is inside
    assert timeline.inside(WINDOWS["a table"]) is timeline.inside(WINDOWS["a table"].copy())
    assert len({id(timeline.inside(windows)) for windows in WINDOWS.values()}) == 3
    assert timeline.inside((12, 44)) is not inside
    first, second = together(*[lambda: timeline.inside((1, 2))] * 2)
    assert first is second


def test_windows_inside_windows_are_those_of_the_whole_trace():
    timeline = timeline_of(train())
    assert timeline.inside((12, 20)).inside((18, 45)) is timeline.inside((18, 45))
    assert (timeline.whole, timeline.inside((12, 20)).whole) == (timeline, timeline)


def test_a_table_that_is_changed_afterwards_changes_no_timeline():
    timeline, table = timeline_of(train()), WINDOWS["a table"].copy()
    inside = timeline.inside(table)
    table.loc[0, "end_ps"] = 13
    assert inside.unions.windows[""].tolist() == [[12, 45]]
    assert timeline.inside(table).unions.windows[""].tolist() == [[12, 13]]


HOSTS = {"a": "x", "b": "y", "c": "x"}
LINES = st.lists(
    st.tuples(
        st.sampled_from([*HOSTS]),
        st.sampled_from(["compute", "collective", "memcpy", "memset"]),
        st.integers(0, 30),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=10,
)
PARTS = st.lists(
    st.tuples(st.sampled_from(["x", "y", "z"]), st.integers(-3, 35), st.integers(0, 12)), min_size=1, max_size=6
)


@settings(max_examples=50)
@given(LINES, PARTS)
def test_inside_any_windows_are_the_points_of_the_rows_and_unions_that_lie_in_them(lines, parts):
    table = concat(
        EVENT_COLUMNS,
        [events((f"{host}/gpu:0", *row), host=host, clock=HOSTS[host]) for host, *row in with_ends(lines)],
    )
    windows = pd.DataFrame(
        [(clock, f"part {at}", start, start + size) for at, (clock, start, size) in enumerate(parts)],
        columns=["clock", "name", "start_ps", "end_ps"],
    )
    whole = timeline_of(table)
    inside = whole.inside(windows)
    points = {clock: {p for on, a, size in parts if on == clock for p in range(a, a + size)} for clock in "xy"}

    expected = []
    for place, (host, kind, start, end) in enumerate(with_ends(lines)):
        mine = points[HOSTS[host]]
        if start == end:
            expected += [(f"{host}/gpu:0", start, end, kind, place)] * (start in mine)
        for first in sorted(mine & set(range(start, end))):
            if first == start or first - 1 not in mine:
                last = next(p for p in range(first, end + 1) if p == end or p not in mine)
                expected.append((f"{host}/gpu:0", first, last, kind, place))
    rows = inside.rows
    kinds = table["kind"].cat.categories
    actual = [
        (rows.devices[device], start, end, kinds[kind], place)
        for device, start, end, kind, place in zip(
            *(column.tolist() for column in (rows.device, rows.start, rows.end, rows.kind, inside.place)), strict=True
        )
    ]
    assert sorted(actual) == sorted(expected)
    assert [row[:3] for row in actual] == sorted(row[:3] for row in actual)

    assert {clock: points_in(intervals) for clock, intervals in inside.unions.windows.items()} == {
        clock: points[clock] for clock in whole.unions.windows
    }
    for name, device in inside.unions.devices.items():
        for kind, of in (("compute", "compute"), ("collective", "collective"), ("memory", "memcpy memset")):
            busy_points = {
                p
                for host, what, start, end in with_ends(lines)
                if name.startswith(host) and what in of.split()
                for p in range(start, end)
            }
            assert points_in(getattr(device, kind)) == busy_points & points[device.clock]


def with_ends(lines):
    """The rows with their end in place of their length."""
    return [(host, kind, start, start + size) for host, kind, start, size in lines]


def points_in(intervals) -> set[int]:
    return {p for start, end in intervals.tolist() for p in range(start, end)}


def test_a_host_without_rows_is_on_the_only_clock_there_is():
    trace_of_hosts = Trace(
        events(("a/gpu:0", "compute", 0, 1), host="a"),
        spans=host_spans(("x", 0, 1), host="b"),
        launches=calls((1, 0, 1), host="c"),
        hosts=frame(HOST_COLUMNS, {"host": ["a", "d"], "clock": [None, "elsewhere"]}),
    )
    assert timeline_of(trace_of_hosts).clock_of_host == {"a": "", "b": "", "c": "", "d": ""}
    assert timeline_of(trace_of_hosts).clocks == [""]


def test_among_several_clocks_a_host_without_rows_is_on_that_of_its_file_or_on_one_of_its_own():
    trace_of_hosts = Trace(
        two_clocks(),
        spans=host_spans(("x", 0, 1), host="c"),
        launches=calls((1, 0, 1), host="d"),
        hosts=frame(HOST_COLUMNS, {"host": ["a", "c", "e"], "clock": ["not its rows'", "x", None]}),
    )
    timeline = timeline_of(trace_of_hosts)
    assert timeline.clock_of_host == {"a": "x", "b": "y", "c": "x", "d": "d", "e": "e"}
    assert timeline.clocks == ["x", "y", "e", "d"]
    # Inside windows no host changes its clock, whether it has rows there or not.
    assert timeline.inside({"y": np.array([[6, 7]])}).clock_of_host == timeline.clock_of_host


def test_without_anything_there_is_one_clock():
    timeline = timeline_of(frame(EVENT_COLUMNS))
    assert (timeline.clock_of_host, timeline.clocks, len(timeline.rows)) == ({}, [""], 0)
    assert len(timeline.inside((0, 5)).rows) == 0


def test_a_timeline_is_that_of_whatever_a_user_has_in_hand(pytestconfig):
    path = pytestconfig.rootpath / "tests" / "data" / "two-cpu-devices-jax0.12.0.xplane.pb"
    of_path = timeline_of(path)
    assert timeline_of(of_path) is of_path
    assert of_path.trace.source == str(path)
    for source in (str(path), tracekit.read(path), of_path.trace):
        timeline = timeline_of(source)
        assert isinstance(timeline, Timeline)
        assert timeline.rows.start.tolist() == of_path.rows.start.tolist()
    training_trace = train()
    assert timeline_of(training_trace).trace is training_trace
    pd.testing.assert_frame_equal(timeline_of(training_trace.events).trace.events, training_trace.events)


def test_the_events_of_a_trace_whose_operations_are_known_need_no_operations():
    table = events(("gpu:0", "compute", 0, 10), ("gpu:1", "compute", 5, 10))
    table["op"] = pd.array([0, None], "Int64")
    trace_with_ops = Trace(table, ops=frame(OP_COLUMNS, {"hlo_op": ["dot"]}))
    assert tracekit.concurrency(trace_with_ops.events)["time_ps"].tolist() == [0, 5, 5]


def test_with_windows_a_source_is_seen_inside_them():
    for source in (train(), train().events, timeline_of(train())):
        assert timeline_of(source, (12, 45)).rows.start.tolist() == [12, 20, 40, 12, 26]
    timeline = timeline_of(train(), (12, 45))
    assert timeline_of(timeline) is timeline
    assert timeline_of(timeline, (0, 15)) is timeline.whole.inside((0, 15))


def test_what_is_no_trace_is_refused(tmp_path):
    with pytest.raises(TraceError):
        timeline_of(tmp_path / "nothing here")
    with pytest.raises(TraceError):
        timeline_of(str(tmp_path))
    with pytest.raises(TraceError, match="the contract wants"):
        timeline_of(pd.DataFrame({"device": ["gpu:0"]}))
    with pytest.raises(TraceError, match="start_ps has dtype"):
        timeline_of(train().events.astype({"start_ps": "float64"}))


def test_a_timeline_says_what_it_is_of():
    assert repr(timeline_of(trace(events(("gpu:0", "compute", 0, 1))))) == "<Timeline of traces/test: 1 events>"
    assert repr(timeline_of(train())) == "<Timeline of a trace: 5 events>"


def test_nothing_that_is_made_changes_the_trace():
    training_trace = train()
    before = [table.copy(deep=True) for table in (training_trace.events, training_trace.spans, training_trace.launches)]
    timeline = timeline_of(training_trace)
    for view in (timeline, timeline.inside((12, 45))):
        for name in (*MADE_BY, "place", "clocks"):
            getattr(view, name)
    for table, was in zip((training_trace.events, training_trace.spans, training_trace.launches), before, strict=True):
        pd.testing.assert_frame_equal(table, was)


PHASES = trace(
    train().events,
    concat(SPAN_COLUMNS, [spans(("alone", 10, 32), ("both", 34, 50, None, "alone")), train().spans]),
    launches=train().launches,
)


@pytest.mark.parametrize(("source", "windows"), [(train(), 0), (PHASES, 1)])
def test_a_report_sorts_the_rows_of_its_trace_once_for_all_that_it_shows(monkeypatch, tmp_path, source, windows):
    """And once more those inside the compared phases, which the explanation is about."""
    sort, sorts = rows_module.rows, []
    for name, loaded_module in list(sys.modules.items()):
        if name.startswith("tracekit.") and getattr(loaded_module, "rows", None) is sort:
            monkeypatch.setattr(
                loaded_module, "rows", lambda table, *counts: sorts.append(table) or sort(table, *counts)
            )
    timeline = timeline_of(source)
    report = analyse(timeline)
    write(report, timeline, tmp_path / "out")
    console = Console(file=io.StringIO(), width=80, force_terminal=False)
    printout.show(report, console, full=True, timeline=timeline)
    assert sum(table is source.events for table in sorts) == 1
    assert len(sorts) == 1 + windows
    assert bool(report.compared) == bool(windows)
    assert (tmp_path / "out" / "report.html").is_file()
    assert "gpu:1" in console.file.getvalue()


def test_a_timeline_that_nobody_holds_goes_at_once_with_all_its_parts():
    timeline = timeline_of(trace(events(("gpu:0", "compute", 0, 10))))
    unions_ref = weakref.ref(timeline.unions)
    gc.disable()
    try:
        del timeline
        assert unions_ref() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("hosts", "lossy", "is_left_out"), [(20, 1, False), (40, 1, True), (40, 2, False), (60, 2, True), (60, 3, False)]
)
def test_hosts_that_lost_what_they_launched_are_left_out_if_they_are_less_than_a_twentieth(hosts, lossy, is_left_out):
    names = [f"host{number:02}" for number in range(hosts)]
    launches = [calls(*((at, at, at + 1) for at in range(20)), host=name) for name in names[:lossy]]
    rows = [events((f"{name}/gpu:0", "compute", 0, 1), host=name) for name in names]
    recorded = Trace(
        concat(EVENT_COLUMNS, rows),
        launches=concat(LAUNCH_COLUMNS, launches),
        hosts=frame(HOST_COLUMNS, {"host": names}),
    )
    kept = timeline_of(recorded).trace
    left = names[lossy:] if is_left_out else names
    assert (kept.hosts["host"].tolist(), sorted(kept.events["host"].unique())) == (left, left)
    told = "host00, left out as 20 of 20 kernels and copies that it launched have no row on a device"
    assert kept.losses["evidence"].tolist() == ([told + "; and 1 more" * (lossy - 1)] if is_left_out else [])


@pytest.mark.parametrize(
    ("hosts", "stated", "size"),
    [
        (["rank0", "rank2", "rank1"], None, 3),
        (["rank3"], None, 4),
        (["rank0", "rank1"], 8, 8),
        (["rank6"], 2, 7),
        (["rank0", "mine"], None, None),
        (["process0", "process1"], None, None),
        ([], None, None),
    ],
)
def test_a_job_has_as_many_ranks_as_a_file_states_or_as_the_numbers_of_the_files_count(hosts, stated, size):
    table = frame(HOST_COLUMNS, {"host": hosts, "world_size": [stated] * len(hosts)})
    assert timeline_of(Trace(events=events(), hosts=table)).world_size == size
