import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from tests.frames import events
from tracekit.columns import concat, frame
from tracekit.timeline.rows import clock_of_hosts, launch_of, processes, rows
from tracekit.trace import EVENT_COLUMNS, LAUNCH_COLUMNS, SPAN_COLUMNS


def test_rows_stand_by_device_start_and_end_whatever_their_order():
    sorted_rows = rows(
        events(
            ("gpu:10", "compute", 5, 9),
            ("gpu:2", "memcpy", 7, 8, "copy", "H2D"),
            ("gpu:2", "compute", 1, 4),
            ("gpu:2", "compute", 1, 3),
            ("cpu:?", "memcpy", 0, 2),
        )
    )
    assert sorted_rows.devices == ("cpu:?", "gpu:2", "gpu:10")
    assert sorted_rows.placed == (False, True, True)
    assert sorted_rows.at.tolist() == [4, 3, 2, 1, 0]
    assert sorted_rows.first.tolist() == [0, 1, 4, 5]
    assert sorted_rows.start.tolist() == [0, 1, 1, 7, 5]
    assert sorted_rows.end.tolist() == [2, 3, 4, 8, 9]
    assert sorted_rows.start[sorted_rows.of(1)].tolist() == [1, 1, 7]
    assert [sorted_rows.labels("direction")[code] for code in sorted_rows.codes("direction") if code >= 0] == ["H2D"]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 3)), min_size=1))
def test_rows_stand_by_device_start_end_and_place(some):
    sorted_rows = rows(events(*((f"gpu:{device}", "compute", start, start + size) for device, start, size in some)))
    assert sorted_rows.at.tolist() == sorted(
        range(len(some)), key=lambda at: (some[at][0], some[at][1], some[at][2], at)
    )


def test_an_empty_frame_has_no_rows_and_no_devices():
    sorted_rows = rows(frame(EVENT_COLUMNS))
    assert (len(sorted_rows), sorted_rows.devices, sorted_rows.first.tolist()) == (0, (), [0])


def test_each_device_has_the_host_and_the_clock_of_its_rows():
    both = concat(
        EVENT_COLUMNS,
        [
            events(("b/gpu:0", "compute", 0, 1), host="b", clock="b"),
            events(("a/gpu:0", "compute", 0, 1), host="a", clock="a"),
        ],
    )
    sorted_rows = rows(both)
    assert list(zip(sorted_rows.devices, sorted_rows.hosts, sorted_rows.clocks, strict=True)) == [
        ("a/gpu:0", "a", "a"),
        ("b/gpu:0", "b", "b"),
    ]


def test_devices_are_found_by_their_names_and_by_their_clocks():
    tables = [events((f"{host}/gpu:0", "compute", 0, 1), host=host, clock=clock) for host, clock in ("ax", "by", "cx")]
    sorted_rows = rows(concat(EVENT_COLUMNS, tables))
    assert [sorted_rows.number(device) for device in ("a/gpu:0", "b/gpu:0", "c/gpu:0")] == [0, 1, 2]
    assert [sorted_rows.on_clock(clock) for clock in "xyz"] == [[0, 2], [1], []]
    assert [sorted_rows.same_clock(device).tolist() for device in range(3)] == [
        [True, False, True],
        [False, True, False],
        [True, False, True],
    ]


def test_a_row_belongs_to_the_launch_of_its_host_with_its_id():
    three = [("a/gpu:0", "compute", at, at + 1) for at in range(3)]
    table = concat(EVENT_COLUMNS, [events(*three, host="a"), events(("b/gpu:0", "compute", 0, 1), host="b")])
    table["correlation_id"] = pd.array([7, None, 9, 7], "Int64")
    launches = frame(
        LAUNCH_COLUMNS,
        {
            "host": ["a", "a", "b", "a"],
            "thread": ["t"] * 4,
            "name": ["inner", "outer", "other", "none"],
            "start_ps": [5, 3, 4, 0],
            "end_ps": [6, 8, 5, 1],
            "correlation_id": [7, 7, 7, None],
        },
    )
    assert launch_of(rows(table), launches).tolist() == [1, -1, -1, 2]
    assert launch_of(rows(table), frame(LAUNCH_COLUMNS)).tolist() == [-1] * 4


def test_processes_are_numbered_alike_in_all_frames_by_host_and_label():
    columns = {"thread": ["t"] * 4, "name": ["n"] * 4, "start_ps": [0] * 4, "end_ps": [1] * 4}
    launches = frame(LAUNCH_COLUMNS, {**columns, "host": ["a", "a", "b", "a"], "process": ["8", "9", "8", None]})
    marks = frame(SPAN_COLUMNS, {**columns, "host": ["b", "a", "a", "b"], "process": ["8", None, "9", None]})
    of_launch, of_mark = processes(launches, marks)
    assert len(set(of_launch.tolist())) == 4
    assert of_mark[:3].tolist() == of_launch[[2, 3, 1]].tolist()
    assert of_mark[3] not in of_launch


def test_numbers_are_zero_where_they_are_missing():
    table = events(("gpu:0", "compute", 1, 2), ("gpu:0", "compute", 0, 1))
    table["bytes"] = pd.array([None, 5], "Int64")
    values, has_value = rows(table).numbers("bytes")
    assert (values.tolist(), has_value.tolist()) == ([5, 0], [True, False])
    assert values.dtype == np.int64


def test_the_clock_of_each_host_with_rows_is_that_of_its_rows():
    row = ("gpu:0", "compute", 0, 1)
    several = concat(
        EVENT_COLUMNS, [events(("b/gpu:0", *row[1:]), host="b", clock="y"), events(row, host="a", clock="x")]
    )
    single = concat(EVENT_COLUMNS, [events(("b/gpu:0", *row[1:]), host="b"), events(row, host="a")])
    for table, clocks in ((several, {"a": "x", "b": "y"}), (single, {"a": "", "b": ""}), (several[:1], {"b": "y"})):
        assert clock_of_hosts(rows(table)) == clocks
    assert clock_of_hosts(rows(frame(EVENT_COLUMNS))) == {}


def test_what_is_taken_from_a_column_is_kept():
    sorted_rows = rows(events(("gpu:0", "compute", 0, 1)))
    assert sorted_rows.labels("name") is sorted_rows.labels("name")
    assert sorted_rows.has("direction") is sorted_rows.has("direction")


ids = st.one_of(st.none(), st.integers(0, 6), st.sampled_from([-(2**63), 2**63 - 1]))


@given(
    st.lists(st.tuples(st.sampled_from("ab"), ids)), st.lists(st.tuples(st.sampled_from("ab"), ids, st.integers(0, 9)))
)
def test_every_row_finds_the_last_call_before_it_of_its_host_with_its_id(some, calls):
    table = events(*((f"{host}/gpu:0", "compute", 0, 1) for host, _ in some))
    table["host"] = pd.Categorical([host for host, _ in some])
    table["correlation_id"] = pd.array([correlation_id for _, correlation_id in some], "Int64")
    launches = frame(
        LAUNCH_COLUMNS,
        {
            "host": [host for host, _, _ in calls],
            "thread": ["t"] * len(calls),
            "name": ["call"] * len(calls),
            "start_ps": [start for _, _, start in calls],
            "end_ps": [start for _, _, start in calls],
            "correlation_id": pd.array([correlation_id for _, correlation_id, _ in calls], "Int64"),
        },
    )
    sorted_rows = rows(table)
    for at, place in zip(sorted_rows.at.tolist(), launch_of(sorted_rows, launches).tolist(), strict=True):
        host, correlation_id = some[at]
        same = [
            number
            for number, call in enumerate(calls)
            if call[:2] == (host, correlation_id) and correlation_id is not None
        ]
        # Of calls that begin at once, as one in the other, the first.
        assert place == max(same, key=lambda number: (calls[number][2], -number), default=-1)


def test_a_column_that_two_threads_ask_for_is_made_once():
    of_rows = rows(events(*(("gpu:0", "compute", at, at + 1) for at in range(9))))
    makings = []

    def make():
        makings.append(threading.current_thread())
        time.sleep(0.05)  # long enough for the other to ask
        return object()

    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(lambda _: of_rows._once("part", make), range(2)))
    assert len(makings) == 1
    assert parts[0] is parts[1]
