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


@settings(max_examples=60, deadline=None)
@given(some_rows, some_parts, st.sampled_from(DEVICES))
def test_busy_times_and_names_of_the_others_count_points(found, stretches, device):
    held = rows(events(*[(name, "compute", start, start + size, op) for name, op, start, size in found]))
    seen = unions(held)
    if device not in held.devices:
        return
    parts = iv.union(iv.intervals([a for a, _ in stretches], [a + size for a, size in stretches]))
    points = {point for a, b in parts.tolist() for point in range(a, b)}
    numbers, owner = np.array([held.devices.index(device)]), np.zeros(len(parts), np.int64)

    beside = [name for name in held.devices if name != device]
    ran = {
        name: set().union(*(range(start, start + size) for one, _, start, size in found if one == name)) & points
        for name in beside
    }
    others, busy = others_busy(held, seen, numbers, parts, owner)
    assert (others.tolist(), busy.tolist()) == ([len(beside)], [sum(map(len, ran.values()))])

    time = {"a": 0, "b": 0}
    for name, op, start, size in found:
        if name != device:
            time[op[0]] += len(points & set(range(start, start + size)))
    most = max(time.values())
    wanted = None if not most else "a" if time["a"] == most else "b"
    assert busiest_names(held, seen, numbers, parts, owner) == [wanted]


def test_devices_of_another_clock_and_of_no_known_place_are_no_others():
    held = rows(
        concat(
            EVENT_COLUMNS,
            [
                events(("a/gpu:0", "compute", 0, 9), ("a/cpu:?", "memcpy", 0, 9), host="a", clock="a"),
                events(("b/gpu:0", "compute", 0, 9), host="b", clock="b"),
            ],
        )
    )
    one = np.array([held.devices.index("a/gpu:0")])
    parts, owner = iv.intervals([0], [9]), np.zeros(1, np.int64)
    assert [column.tolist() for column in others_busy(held, unions(held), one, parts, owner)] == [[0], [0]]
    assert busiest_names(held, unions(held), one, parts, owner) == [None]
