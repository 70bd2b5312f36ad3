import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frames import events
from tracekit import intervals as iv
from tracekit.analysis.offenders import busiest_names, others_busy
from tracekit.columns import concat
from tracekit.timeline.rows import rows
from tracekit.timeline.unions import unions
from tracekit.trace import EVENT_COLUMNS

DEVICES = ["gpu:0", "gpu:1", "gpu:2"]
some_rows = st.lists(
    st.tuples(st.sampled_from(DEVICES), st.sampled_from(["a.1", "a.2", "b"]), st.integers(0, 20), st.integers(1, 9)),
    min_size=1,
    max_size=10,
)
some_parts = st.lists(st.tuples(st.integers(0, 25), st.integers(1, 6)), min_size=1, max_size=3)


@settings(max_examples=60)
@given(some_rows, some_parts, st.sampled_from(DEVICES))
def test_busy_times_and_names_of_the_others_count_points(row_tuples, spans, device):
    sorted_rows = rows(events(*[(name, "compute", start, start + size, op) for name, op, start, size in row_tuples]))
    device_unions = unions(sorted_rows)
    if device not in sorted_rows.devices:
        return
    parts = iv.union(iv.intervals([a for a, _ in spans], [a + size for a, size in spans]))
    points = {point for a, b in parts.tolist() for point in range(a, b)}
    numbers, owner = np.array([sorted_rows.devices.index(device)]), np.zeros(len(parts), np.int64)

    beside = [name for name in sorted_rows.devices if name != device]
    busy_points = {
        name: set().union(
            *(range(start, start + size) for row_device, _, start, size in row_tuples if row_device == name)
        )
        & points
        for name in beside
    }
    others, busy = others_busy(sorted_rows, device_unions, numbers, parts, owner)
    assert (others.tolist(), busy.tolist()) == ([len(beside)], [sum(map(len, busy_points.values()))])

    time = {"a": 0, "b": 0}
    for name, op, start, size in row_tuples:
        if name != device:
            time[op[0]] += len(points & set(range(start, start + size)))
    most = max(time.values())
    expected = None if not most else "a" if time["a"] == most else "b"
    assert busiest_names(sorted_rows, device_unions, numbers, parts, owner) == [expected]


def test_devices_of_another_clock_and_of_no_known_place_are_no_others():
    sorted_rows = rows(
        concat(
            EVENT_COLUMNS,
            [
                events(("a/gpu:0", "compute", 0, 9), ("a/cpu:?", "memcpy", 0, 9), host="a", clock="a"),
                events(("b/gpu:0", "compute", 0, 9), host="b", clock="b"),
            ],
        )
    )
    numbers = np.array([sorted_rows.devices.index("a/gpu:0")])
    parts, owner = iv.intervals([0], [9]), np.zeros(1, np.int64)
    columns = others_busy(sorted_rows, unions(sorted_rows), numbers, parts, owner)
    assert [column.tolist() for column in columns] == [[0], [0]]
    assert busiest_names(sorted_rows, unions(sorted_rows), numbers, parts, owner) == [None]
