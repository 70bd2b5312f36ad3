"""Where the calls of a flow end, which rows were drained before each, and when its thread stood still, by looking at
each pair of them."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.frames import events
from tests.graph_traces import trace
from tracekit import intervals as iv
from tracekit.analysis.critical_path import host
from tracekit.timeline.rows import rows
from tracekit.timeline.timeline import timeline_of

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


@given(flows())
def test_threads_change_places_where_a_call_of_the_other_comes_next_and_never_in_one(drawn):
    calls, _ = drawn
    a, b = ([call[1:] for call in sorted(calls) if call[0] == thread] for thread in (0, 1))
    # Of calls that begin at once, those of the first thread come first; a call holds what comes behind it.
    order = sorted(
        [(start, 0, end) for start, end in a] + [(start, 1, end) for start, end in b], key=lambda call: call[:2]
    )
    is_inside = any(
        before[1] != after[1] and before[2] > after[0] for at, after in enumerate(order) for before in order[:at]
    )
    changes = sum(before[1] != after[1] for before, after in pairwise(order))
    columns = []
    for own in (a, b):
        start, end = (column(edges) for edges in (zip(*own, strict=True) if own else ((), ())))
        columns += [start, np.maximum.accumulate(end)]
    assert host.count_turns(*columns) == (-1 if is_inside else changes)


@given(flows(), st.integers(0, 8))
def test_calls_that_stand_in_the_waits_again_are_those_of_the_same_thread_and_times(drawn, count):
    calls, _ = drawn
    calls = [(flow, start // 4, start // 4 + (end - start) // 4) for flow, start, end in calls]
    repeated = host._repeated_as_wait(*map(column, zip(*calls, strict=True)), min(count, len(calls)))
    assert repeated.tolist() == [call in calls[count:] for call in calls[:count]]


@given(flows())
def test_work_without_names_is_merged_where_it_touches(drawn):
    calls, order = drawn
    work = [calls[at] for at in order]
    expected = [work[:1]] if work else []
    for before, after in pairwise(work):
        if before[0] == after[0] and before[2] == after[1]:
            expected[-1].append(after)
        else:
            expected.append([after])
    thread, start, end = map(column, zip(*work, strict=True))
    table = pd.DataFrame({"start_ps": start, "end_ps": end})
    merged = zip(*(values.tolist() for values in host._without_names(thread, table)), strict=True)
    assert list(merged) == [(run[0][0], run[0][1], run[-1][2]) for run in expected]


@st.composite
def turns(draw):
    """The edges of a thread, the launches of another one between them, and its records, which mostly end there too."""
    edges, points, records = [0], [], []
    for _ in range(draw(st.integers(1, 6))):
        low, high = edges[-1], edges[-1] + draw(st.integers(3, 9))
        points += sorted(draw(st.lists(st.integers(low, high), max_size=4)))
        beyond = draw(st.sampled_from([0, 0, 0, 2]))
        records += [(start, draw(st.integers(start, high + beyond))) for start in points if low <= start < high]
        edges.append(high)
    return edges, sorted(points), records or [(0, 1)]


@given(turns())
def test_a_thread_waited_for_another_where_that_launched_and_was_done_before_it_went_on(drawn):
    edges, points, records = drawn
    busy = [(low, high) for low, high in pairwise(edges) if sum(low <= at < high for at in points) >= 2]
    agrees = []
    for low, high in busy:
        lasts_beyond = any(start < high and end > low and not low <= start <= end <= high for start, end in records)
        done = max((end for _, end in records if end <= high), default=high)
        if not lasts_beyond and high - done <= AWAKE:
            agrees.append((low, high))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "_LAUNCHES_MEANWHILE", 2)
        patch.setattr(host, "_DISAGREES_IN", 3)
        parts = [column(edges[::2]), column(edges[1::2])]
        times = host._times_for_another(parts, column(points), *map(column, zip(*records, strict=True)))
    # One in three may disagree.
    is_usual = 2 * len(busy) <= 3 * len(agrees)
    assert times.tolist() == [list(time) for time in agrees if is_usual]


def test_a_call_waited_for_a_copy_and_for_a_program_that_ran_on_its_own_thread():
    lanes = [("t", "compute"), ("u", "compute"), ("s", "compute"), ("s", "memcpy")]
    rows_of = [("cpu:0", lane, kind, at + 2, at + 8, {"correlation_id": at}) for at, (lane, kind) in enumerate(lanes)]
    whole = timeline_of(trace(rows_of, [("t", 0, 20, at) for at in range(4)] + [("u", 30, 40, 9)]))
    awaited = host._awaited_row(whole.rows, whole.launch, whole.trace.launches)
    assert whole.launch[awaited[awaited >= 0]].tolist() == np.flatnonzero(awaited >= 0).tolist() == [0, 3]
