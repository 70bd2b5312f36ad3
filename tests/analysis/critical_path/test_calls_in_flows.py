"""Where the calls of a flow end, which rows were drained before each, and when its thread stood still, by looking at
each pair of them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.frames import events
from tracekit import intervals as iv
from tracekit.analysis.critical_path import host
from tracekit.timeline.rows import rows

TIMES = st.integers(0, 24)
SILENT, AWAKE, ROUNDING = 4, 2, 3


@pytest.fixture(scope="module", autouse=True)
def _few_picoseconds_are_long():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("SILENCE_PS", SILENT), ("AWAKE_PS", AWAKE), ("ROUNDING_PS", ROUNDING)):
            patch.setattr(host, name, value)
        yield


def column(values) -> np.ndarray:
    return np.array(list(values), np.int64)


@st.composite
def flows(draw):
    """Calls (flow, start, end), and their order: by flow and start."""
    calls = draw(st.lists(st.tuples(st.integers(0, 1), TIMES, st.integers(0, 9)), min_size=1, max_size=8))
    calls = [(flow, start, start + size) for flow, start, size in calls]
    return calls, sorted(range(len(calls)), key=lambda at: calls[at][:2])


@given(flows())
def test_a_call_is_cut_to_the_next_one_that_overlaps_it_by_no_more_than_rounding(drawn):
    calls, order = drawn
    expected = []
    for flow, start, end in calls:
        later = [calls[at] for at in order if calls[at][0] == flow and calls[at][1] >= max(end - ROUNDING, start + 1)]
        is_cut = bool(later) and later[0][1] < end <= later[0][2]
        expected.append(later[0][1] if is_cut else end)
    assert host._cut_to_next(*map(column, zip(*calls, strict=True))).tolist() == expected


@given(flows())
def test_a_call_is_around_others_if_another_of_its_flow_begins_in_it(drawn):
    calls, order = drawn
    inside = {}
    for place, at in enumerate(order):
        flow, start, end = calls[at]
        if any(calls[other][0] == flow and calls[other][1] < end for other in order[place + 1 :]):
            inside.setdefault(flow, set()).update(range(start, end))
    outer = host._calls_around_others(*map(column, zip(*calls, strict=True)), column(order))
    assert {
        flow: {at for low, high in times.tolist() for at in range(low, high)} for flow, times in outer.items()
    } == inside


@given(flows(), st.data())
def test_what_was_drained_before_a_call_is_the_last_of_its_flow_to_end_since_the_call_before(drawn, data):
    calls, order = drawn
    spans = [
        (start, start + size) for start, size in data.draw(st.lists(st.tuples(TIMES, st.integers(1, 9)), max_size=8))
    ]
    spans.sort()
    launch = [data.draw(st.integers(-1, len(calls) - 1)) for _ in spans]
    until = [start + data.draw(st.integers(0, 6)) for _, start, _ in calls]
    before = {at: earlier for earlier, at in pairwise(order) if calls[earlier][0] == calls[at][0]}
    expected = [-1] * len(calls)
    for place, at in enumerate(order):
        earlier = [other for other in order[:place] if calls[other][0] == calls[at][0]]
        # Of rows that end at once, that of the latest call, and of its the last.
        known = [
            (spans[row][1], earlier.index(launch[row]), row) for row in range(len(spans)) if launch[row] in earlier
        ]
        if known and calls[before[at]][2] < max(known)[0] <= until[at]:
            expected[at] = max(known)[2]
    flow, _, end = map(column, zip(*calls, strict=True))
    predecessor = column(before.get(at, -1) for at in range(len(calls)))
    of_rows = rows(events(*(("gpu:0", "compute", *span) for span in spans)))
    drained = host._drained_rows(of_rows, column(launch), column(order), flow, (column(until), end, predecessor))
    assert drained.tolist() == expected


@given(st.lists(TIMES), st.lists(TIMES), st.sets(TIMES))
def test_a_thread_stood_still_if_it_was_silent_until_work_was_done_and_went_on_soon(starts, ends, drained):
    expected = set()
    for done in drained:
        begun, ended = (max((at for at in edges if at <= done), default=-1) for edges in (starts, ends))
        begins, closes = (min((at for at in edges if at > done), default=99) for edges in (starts, ends))
        if begun < ended <= done - SILENT and begins < closes and begins <= done + AWAKE:
            expected.update(range(ended, done))
    times = host._standstills(*(column(sorted(edges)) for edges in (starts, ends, drained)))
    assert {at for low, high in times.tolist() for at in range(low, high)} == expected


@given(st.lists(st.tuples(TIMES, st.integers(1, 9))), st.lists(st.tuples(TIMES, st.integers(0, 9)), min_size=1))
def test_a_stretch_lies_in_one_of_some_times_if_one_holds_all_of_it(times, stretches):
    merged = iv.union(iv.intervals([start for start, _ in times], [start + size for start, size in times]))
    start, size = map(column, zip(*stretches, strict=True))
    expected = [any(low <= at and at + long <= high for low, high in merged.tolist()) for at, long in stretches]
    assert host._lies_in(merged, start, start + size).tolist() == expected
