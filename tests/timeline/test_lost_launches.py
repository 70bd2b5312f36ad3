"""Which launches without a row are proven to have run: a later one of their stream did, or a wait for it returned."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.collective_frames import row, table
from tracekit.analysis.completeness import completeness
from tracekit.columns import frame
from tracekit.timeline import lost_launches
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import LAUNCH_COLUMNS, SYNC_COLUMNS, Trace

US = 10**6
KERNEL, COPY = "cudaLaunchKernel", "cudaMemcpyAsync"


def lost(calls: list[tuple], waits: list[dict] = ()) -> tuple[int, int] | None:
    """How many of how many launches are missing.

    `calls`: the name of each, one every 10 us, its lane, and whether the device has a row of it.
    """
    rows = [
        row("gpu:0", at * 10 * US + 5 * US, at * 10 * US + 9 * US, lane=lane, kind="compute", correlation_id=at)
        for at, (_, lane, is_recorded, *_) in enumerate(calls)
        if is_recorded
    ]
    launches = frame(LAUNCH_COLUMNS, {
        "host": ["h"] * len(calls), "process": ["1"] * len(calls), "thread": ["t"] * len(calls),
        "name": [name for name, *_ in calls], "start_ps": np.arange(len(calls)) * 10 * US,
        "end_ps": np.arange(len(calls)) * 10 * US + US, "correlation_id": pd.array(range(len(calls)), "Int64"),
    })  # fmt: skip
    defaults = {"host": "h", "process": "1", "thread": "t", "name": "cudaDeviceSynchronize"}
    data = [defaults | {"end_ps": wait["start_ps"] + US} | wait for wait in waits]
    syncs = frame(SYNC_COLUMNS, {
        name: [each.get(name) for each in data] for name in SYNC_COLUMNS
    } if data else ())  # fmt: skip
    losses = completeness(timeline_of(Trace(events=table(*rows), launches=launches, syncs=syncs))).losses
    assert len(losses) < 2
    return (int(losses["lost"][0]), int(losses["total"][0])) if len(losses) else None


STOPPED = [*[(KERNEL, "s7", True)] * 60, *[(KERNEL, "s7", False)] * 40]
LATE = 2000 * US


@pytest.mark.parametrize(
    ("wait", "is_proof"),
    [
        ({"on_device": "gpu:0"}, True),
        ({}, True),
        ({"on_device": "gpu:0", "on_lane": "s7"}, True),
        ({"name": "cudaEventSynchronize", "on_device": "gpu:0", "on_lane": "s7", "recorded_ps": 1500 * US}, True),
        # Recorded when no more than four of them were launched; of a stream that ran something else, or not told.
        ({"name": "cudaEventSynchronize", "on_device": "gpu:0", "on_lane": "s7", "recorded_ps": 635 * US}, False),
        ({"name": "cudaEventSynchronize"}, False),
        ({"name": "cudaStreamSynchronize", "on_device": "gpu:0", "on_lane": "s9"}, False),
        ({"name": "cudaStreamSynchronize"}, False),
        # Of another process, and a stream's own wait, at which no thread stops.
        ({"process": "2", "on_device": "gpu:0"}, False),
        ({"name": "cudaStreamWaitEvent", "device": "gpu:0", "lane": "s7", "on_device": "gpu:0", "on_lane": "s7"},
         False),
    ],
)  # fmt: skip
def test_kernels_that_stop_are_lost_where_a_wait_for_them_returned(wait, is_proof):
    assert lost(STOPPED, [{"start_ps": LATE, **wait}]) == ((40, 100) if is_proof else None)


def test_a_host_of_which_few_launches_have_a_row_has_lost_the_others():
    assert lost([(KERNEL, "s7", True), *[(KERNEL, "s7", False)] * 40, (KERNEL, "s7", True)]) == (40, 42)


@pytest.mark.parametrize(("recorded", "told"), [(379, (20, 399)), (380, None), (400, None)])
def test_launches_without_rows_are_lost_if_they_are_more_than_a_twentieth(recorded, told):
    assert lost([*[(KERNEL, "s7", True)] * (recorded - 1), *[(KERNEL, "s7", False)] * 20, (KERNEL, "s7", True)]) == told


@pytest.mark.parametrize(("few", "told"), [(5, (5, 60)), (4, None)])
def test_of_few_launches_five_without_rows_are_lost(few, told):
    assert lost([*[(KERNEL, "s7", True)] * 54, *[(KERNEL, "s7", False)] * few, (KERNEL, "s7", True)]) == told


@pytest.mark.parametrize("call", ["cudaMemsetAsync", "hipMemsetAsync", "cuMemsetD8Async"])
def test_memsets_of_nothing_have_no_row_and_are_no_loss(call):
    gemms = [(KERNEL, "s7", True), (call, "s7", False)] * 40
    assert lost([*gemms, (KERNEL, "s7", True)]) is None
    # Nor do they make less of a loss.
    assert lost([*gemms, *[(KERNEL, "s7", False)] * 5, (KERNEL, "s7", True)]) == (5, 46)


def test_a_wait_before_the_last_launches_is_no_proof_of_these():
    assert lost([*STOPPED, *[(KERNEL, "s7", False)] * 50], [{"start_ps": 995 * US}]) == (40, 100)
    assert lost(STOPPED) is None


def test_a_copy_that_ran_on_another_stream_does_not_prove_that_kernels_did():
    ahead = [*[(KERNEL, "s7", True)] * 60, *([(KERNEL, "s7", False)] * 9 + [(COPY, "s9", True)]) * 5]
    assert lost(ahead) is None
    # On their own stream it does.
    assert lost([(name, "s7", is_recorded) for name, _, is_recorded in ahead]) == (45, 110)


def test_a_launch_of_one_of_several_streams_is_proven_by_all_of_them():
    both = [(KERNEL, "s7", True), (KERNEL, "s8", True)] * 30
    tail = [*[(KERNEL, "s7", False)] * 40, (KERNEL, "s8", True)]
    assert lost([*both, *tail]) is None
    assert lost([*both, *tail, (KERNEL, "s7", True)]) == (40, 102)
    waits = [{"start_ps": LATE, "on_device": "gpu:0", "on_lane": "s7"}]
    assert lost([*both, *tail], waits) == (40, 101)


def test_a_stream_that_is_used_no_more_or_hardly_does_not_hide_a_loss():
    assert lost([*[(KERNEL, "s8", True)] * 10, *[(KERNEL, "s7", True)] * 60, *STOPPED[60:], (KERNEL, "s7", True)])
    assert lost([*[(KERNEL, "s7", True)] * 59, (KERNEL, "s8", True), *STOPPED[60:], (KERNEL, "s7", True)])


def test_a_stream_wait_that_tells_nothing_is_for_the_stream_for_which_its_call_waited_before():
    call = {"name": "cudaStreamSynchronize"}
    # Each returns 1 us after the end of the row that it waits for.
    before = [call | {"start_ps": (at * 10 + 2) * US, "end_ps": (at * 10 + 10) * US} for at in range(10, 60, 10)]
    assert lost(STOPPED, [*before, call | {"start_ps": LATE}]) == (40, 100)


def test_a_function_of_the_host_has_no_row():
    calls = [*[(KERNEL, "s7", True)] * 60, *[("cudaLaunchHostFunc", "s7", False)] * 40, (KERNEL, "s7", True)]
    assert lost(calls) is None


@st.composite
def put_to_work(draw):
    """Calls (sort, start), the rows (call, lane) that they launched, and until when each lane is known to have run."""
    calls = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20)), min_size=1, max_size=6))
    on = st.tuples(st.integers(0, len(calls) - 1), st.integers(0, 2))
    return (
        calls,
        draw(st.lists(on, min_size=1, max_size=10)),
        draw(st.lists(st.integers(0, 40), min_size=3, max_size=3)),
    )


@given(put_to_work())
def test_calls_ran_until_all_lanes_did_on_which_calls_like_them_put_much_work_to_the_end(drawn):
    calls, work, until = drawn
    expected = []
    for sort, _ in calls:
        starts = sorted((calls[call][1], lane) for call, lane in work if calls[call][0] == sort)
        lanes = {
            lane: [start for start, other in starts if other == lane] for lane in dict.fromkeys(on for _, on in starts)
        }
        counts = [
            lane
            for lane, own in lanes.items()
            if 4 * len(own) >= len(starts) and own[-1] >= starts[len(starts) // 2][0]
        ]
        expected.append(min((until[lane] for lane in counts), default=np.iinfo(np.int64).max))
    sort, start = (np.array(column) for column in zip(*calls, strict=True))
    call, lane = (np.array(column) for column in zip(*work, strict=True))
    known = lost_launches._Work(call, call, lane, lane)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lost_launches, "_FEW", 0.25)
        assert lost_launches._first_until(sort, known, np.array(until), start).tolist() == expected
