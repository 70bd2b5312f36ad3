"""The rows inside windows, against an oracle that looks at every picosecond."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frames import events
from tracekit.columns import concat, frame
from tracekit.timeline.rows import rows as device_rows
from tracekit.timeline.timeline import events_inside, spans_inside
from tracekit.trace import EVENT_COLUMNS, SPAN_COLUMNS

INTERVAL = st.tuples(st.integers(0, 40), st.integers(1, 12)).map(lambda pair: (pair[0], sum(pair)))


@settings(max_examples=60)
@given(st.lists(INTERVAL, min_size=1, max_size=8), st.lists(INTERVAL, max_size=4))
def test_each_point_of_each_row_stays_if_it_is_in_a_window(rows, windows):
    pieces, places = events_inside(
        device_rows(events(*[("gpu:0", "compute", *row, f"op{at}") for at, row in enumerate(rows)])),
        {"": np.array(windows, np.int64).reshape(-1, 2)},
    )
    points = {point for start, end in windows for point in range(start, end)}
    for at, (start, end) in enumerate(rows):
        mine = pieces[pieces["name"] == f"op{at}"]
        assert sorted(p for row in mine.itertuples() for p in range(row.start_ps, row.end_ps)) == sorted(
            points & set(range(start, end))
        )
    assert (pieces["end_ps"] > pieces["start_ps"]).all()
    assert pieces["name"].tolist() == [f"op{at}" for at in places]


def test_a_row_over_two_windows_is_cut_in_two_and_keeps_its_columns():
    table = events(("gpu:0", "memcpy", 0, 30, "copy", "H2D"), ("gpu:1", "compute", 12, 12, "empty"))
    pieces, places = events_inside(device_rows(table), {"": np.array([[5, 10], [12, 20]])})
    assert pieces[["device", "name", "direction", "start_ps", "end_ps"]].astype(object).to_numpy().tolist()[:2] == [
        ["gpu:0", "copy", "H2D", 5, 10],
        ["gpu:0", "copy", "H2D", 12, 20],
    ]
    assert pieces["name"].tolist()[2:] == ["empty"]
    assert places.tolist() == [0, 0, 1]
    assert pieces.dtypes.equals(table.dtypes)


def test_windows_count_on_their_own_clock_alone():
    both = concat(
        EVENT_COLUMNS,
        [events((f"{host}/gpu:0", "compute", 0, 10), host=host, clock=host) for host in ("a", "b")],
    )
    pieces, places = events_inside(device_rows(both), {"b": np.array([[2, 4]])})
    assert pieces[["device", "start_ps", "end_ps"]].to_numpy().tolist() == [["b/gpu:0", 2, 4]]
    assert places.tolist() == [1]
    assert len(events_inside(device_rows(both), {})[0]) == 0


def test_spans_that_begin_inside_are_kept_whole_on_their_own_clock():
    spans = frame(
        SPAN_COLUMNS,
        {
            "host": ["a", "a", "a", "b", "c"],
            "thread": ["main"] * 5,
            "name": list("vwxyz"),
            "start_ps": [0, 10, 20, 10, 10],
            "end_ps": [15, 30, 25, 12, 12],
        },
    )
    clocks = {"a": "one", "b": "two"}
    windows = {"one": np.array([[10, 20]]), "two": np.array([[50, 60]])}
    assert spans_inside(spans, windows, clocks)["name"].tolist() == ["w"]
    assert spans_inside(spans, {"one": np.array([[10, 20]])}, clocks)["name"].tolist() == ["w", "z"]
    assert len(spans_inside(spans, {}, clocks)) == 0
