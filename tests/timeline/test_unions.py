"""Devices in natural order, what ran at once on each, and windows of any number of pieces."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frames import events
from tracekit import intervals as iv
from tracekit import jit
from tracekit.timeline.rows import rows
from tracekit.timeline.unions import (
    COLLECTIVE,
    COMPUTE,
    MEMORY,
    add_union_lengths,
    first_coverage,
    gaps,
    union_lengths,
    unions,
)

CODES = {"compute": COMPUTE, "collective": COLLECTIVE, "memcpy": MEMORY, "memset": MEMORY}
some_rows = st.lists(
    st.tuples(st.sampled_from(["gpu:0", "gpu:1"]), st.sampled_from(list(CODES)), st.integers(0, 20), st.integers(0, 5)),
    min_size=1,
    max_size=12,
)


def test_devices_stand_in_natural_order():
    names = ["gpu:10", "gpu:2", "host10/gpu:1", "host2/gpu:1", "3/gpu:0", "cpu:?", "gpu:0"]
    device_unions = unions(rows(events(*((name, "compute", 0, 1) for name in names))))
    assert list(device_unions.devices) == ["3/gpu:0", "gpu:0", "gpu:2", "gpu:10", "host2/gpu:1", "host10/gpu:1"]
    assert list(device_unions.unplaced) == ["cpu:?"]


def test_inside_several_windows_only_their_parts_remain():
    device_unions = unions(rows(events(("gpu:0", "compute", 0, 10), ("gpu:0", "memcpy", 8, 20, "c", "H2D"))))
    inside = device_unions.inside(np.array([[1, 2], [9, 12]]))
    assert inside.devices["gpu:0"].compute.tolist() == [[1, 2], [9, 10]]
    assert inside.devices["gpu:0"].directions["H2D"].tolist() == [[9, 12]]
    assert inside.devices["gpu:0"].busy.tolist() == [[1, 2], [9, 12]]


def test_the_rows_of_each_device_are_merged_and_the_window_is_from_first_start_to_last_end():
    frame = events(("gpu:1", "compute", 5, 9), ("gpu:0", "collective", 0, 6), ("gpu:1", "compute", 8, 12))
    device_unions = unions(rows(frame))
    assert {name: device.busy.tolist() for name, device in device_unions.devices.items()} == {
        "gpu:0": [[0, 6]],
        "gpu:1": [[5, 12]],
    }
    assert device_unions.windows[""].tolist() == [[0, 12]]
    assert device_unions.inside(np.array([[0, 3]])).devices["gpu:0"].busy.tolist() == [[0, 3]]


def test_the_cells_of_a_device_say_what_ran_at_once():
    device = unions(
        rows(events(("gpu:0", "compute", 0, 10), ("gpu:0", "collective", 4, 12), ("gpu:0", "memset", 15, 16)))
    ).devices["gpu:0"]
    edges, code = device.cells
    assert edges.tolist() == [0, 4, 10, 12, 15, 16]
    assert code.tolist() == [COMPUTE, COMPUTE + COLLECTIVE, COLLECTIVE, 0, MEMORY]
    assert device.busy.tolist() == [[0, 12], [15, 16]]


@given(some_rows)
def test_cells_and_busy_hold_the_points_at_which_the_kinds_run(some):
    full = [(device, kind, start, start + size) for device, kind, start, size in some]
    for name, device in unions(rows(events(*full))).devices.items():
        edges, code = device.cells
        expected = dict.fromkeys(range(26), 0)
        for _, kind, start, end in (row for row in full if row[0] == name):
            for p in range(start, end):
                expected[p] |= CODES[kind]
        actual = dict.fromkeys(range(26), 0)
        for start, end, what in zip(edges[:-1].tolist(), edges[1:].tolist(), code.tolist(), strict=True):
            actual |= dict.fromkeys(range(start, end), what)
        assert actual == expected
        for kinds in range(8):
            union = device.union_of(kinds)
            assert {p for start, end in union.tolist() for p in range(start, end)} == {
                p for p in expected if expected[p] & kinds
            }
            assert (union.ravel()[1:] > union.ravel()[:-1]).all()
        assert device.busy.tolist() == device.union_of(COMPUTE | COLLECTIVE | MEMORY).tolist()


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(-1, 3)), max_size=12))
def test_the_lengths_of_keys_are_those_of_their_unions_compiled_or_not(some):
    start, size, key = np.array(sorted(some), np.int64).reshape(-1, 3).T.copy()
    expected = [iv.total(iv.intervals(start[key == k], (start + size)[key == k])) for k in range(4)]
    assert union_lengths(key, 4, start, start + size).tolist() == expected
    length, reach = np.zeros(4, np.int64), np.full(4, -1)
    jit.compiled(add_union_lengths)(key, start, start + size, length, reach)
    assert length.tolist() == expected


@given(some_rows)
def test_a_gap_lies_between_the_row_that_ended_last_before_it_and_the_next_one(some):
    sorted_rows = rows(events(*((device, kind, start, start + size) for device, kind, start, size in some)))
    start, end = sorted_rows.start.tolist(), sorted_rows.end.tolist()
    for device in range(len(sorted_rows.devices)):
        places = range(sorted_rows.first[device], sorted_rows.first[device + 1])
        lasting = [place for place in places if end[place] > start[place]]
        expected = []
        for at, after in enumerate(lasting):
            last = max(((end[place], place) for place in lasting[:at]), default=(start[after], after))
            if last[0] < start[after]:
                expected.append((last[1], after))
        before, after = gaps(sorted_rows, device)
        assert list(zip(before.tolist(), after.tolist(), strict=True)) == expected


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(0, 2)), max_size=12))
def test_each_row_covers_what_none_of_its_key_before_it_did(some):
    some.sort()
    start, size, key = np.array(some, np.int64).reshape(-1, 3).T.copy()
    expected = []
    for at, (begin, long, own) in enumerate(some):
        reach = max((other + its for other, its, of in some[:at] if of == own), default=begin)
        expected.append(min(max(begin, reach), begin + long))
    assert first_coverage(key, 3, start, start + size).tolist() == expected
