import numpy as np
import pandas as pd

from tests.frames import events
from tracekit.links import launch_of
from tracekit.rows import rows
from tracekit.trace import EVENT_COLUMNS, LAUNCH_COLUMNS, concat, frame


def test_rows_stand_by_device_start_and_end_whatever_their_order():
    found = rows(
        events(
            ("gpu:10", "compute", 5, 9),
            ("gpu:2", "memcpy", 7, 8, "copy", "H2D"),
            ("gpu:2", "compute", 1, 4),
            ("gpu:2", "compute", 1, 3),
            ("cpu:?", "memcpy", 0, 2),
        )
    )
    assert found.devices == ("cpu:?", "gpu:2", "gpu:10")
    assert found.placed == (False, True, True)
    assert found.at.tolist() == [4, 3, 2, 1, 0]
    assert found.first.tolist() == [0, 1, 4, 5]
    assert found.start.tolist() == [0, 1, 1, 7, 5]
    assert found.end.tolist() == [2, 3, 4, 8, 9]
    assert found.start[found.of(1)].tolist() == [1, 1, 7]
    assert [found.labels("direction")[code] for code in found.codes("direction") if code >= 0] == ["H2D"]


def test_an_empty_frame_has_no_rows_and_no_devices():
    found = rows(frame(EVENT_COLUMNS))
    assert (len(found), found.devices, found.first.tolist()) == (0, (), [0])


def test_each_device_has_the_host_and_the_clock_of_its_rows():
    both = concat(
        EVENT_COLUMNS,
        [
            events(("b/gpu:0", "compute", 0, 1), host="b", clock="b"),
            events(("a/gpu:0", "compute", 0, 1), host="a", clock="a"),
        ],
    )
    found = rows(both)
    assert list(zip(found.devices, found.hosts, found.clocks, strict=True)) == [
        ("a/gpu:0", "a", "a"),
        ("b/gpu:0", "b", "b"),
    ]


def test_a_row_belongs_to_the_earliest_launch_of_its_host_with_its_id():
    three = [("a/gpu:0", "compute", at, at + 1) for at in range(3)]
    table = concat(EVENT_COLUMNS, [events(*three, host="a"), events(("b/gpu:0", "compute", 0, 1), host="b")])
    table["correlation_id"] = pd.array([7, None, 9, 7], "Int64")
    launches = frame(
        LAUNCH_COLUMNS,
        {
            "host": ["a", "a", "b", "a"],
            "thread": ["t"] * 4,
            "name": ["late", "first", "other", "none"],
            "start_ps": [5, 3, 4, 0],
            "end_ps": [6, 4, 5, 1],
            "correlation_id": [7, 7, 7, None],
        },
    )
    assert launch_of(rows(table), launches).tolist() == [1, -1, -1, 2]
    assert launch_of(rows(table), frame(LAUNCH_COLUMNS)).tolist() == [-1] * 4


def test_numbers_are_zero_where_they_are_missing():
    table = events(("gpu:0", "compute", 1, 2), ("gpu:0", "compute", 0, 1))
    table["bytes"] = pd.array([None, 5], "Int64")
    values, known = rows(table).numbers("bytes")
    assert (values.tolist(), known.tolist()) == ([5, 0], [True, False])
    assert values.dtype == np.int64
