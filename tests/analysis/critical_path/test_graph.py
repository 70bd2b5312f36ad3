"""What is proven to wait for what, on traces small enough to see it."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.graph_traces import graph_of, trace
from tracekit.analysis.critical_path.critical_path import critical_path
from tracekit.analysis.critical_path.dependencies import (
    find_predecessors,
    migration_edges,
    queue_order,
    turn_edges,
)
from tracekit.analysis.critical_path.graph import Dependency, Graph, drop_contradicted, graph
from tracekit.analysis.steps import steps
from tracekit.columns import concat
from tracekit.timeline.rows import rows
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import EVENT_COLUMNS, LAUNCH_COLUMNS, Trace

US = 10**6


def edge_counts(dag) -> dict[str, tuple[int, int]]:
    """Edges by sort: how many hold, how many the times contradict."""
    return {edge: (edges, dropped) for edge, edges, dropped in dag.edges.itertuples(index=False)}


def waits_for(dag) -> list[tuple[int, ...]]:
    """What each node has to see ended, its queue's or thread's predecessor first; nodes by number."""
    prerequisites = []
    for node in range(len(dag.start)):
        extra = dag.extra_from[dag.extra_to == node].tolist()
        prerequisites.append(tuple([dag.predecessor[node], *extra] if dag.predecessor[node] >= 0 else extra))
    return prerequisites


def test_a_gpu_runs_a_stream_in_order_and_a_cpu_or_tpu_device_all_its_rows():
    three_devices = trace(
        [
            ("gpu:0", "a", "compute", 0, 4),
            ("gpu:0", "b", "compute", 1, 5),
            ("gpu:0", "a", "compute", 7, 9),
            ("tpu:0", "a", "compute", 0, 4),
            ("tpu:0", "b", "compute", 5, 6),
            ("cpu:?", "a", "memcpy", 0, 4),
            ("cpu:?", "a", "memcpy", 5, 6),
        ]
    )
    dag = graph_of(three_devices)
    by_device = dict(zip(rows(three_devices.events).at.tolist(), waits_for(dag), strict=True))
    place = {row: node for node, row in enumerate(rows(three_devices.events).at.tolist())}
    assert [by_device[row] for row in range(7)] == [(), (), (place[0],), (), (place[3],), (), ()]


def test_a_kernel_that_starts_a_little_before_its_predecessor_ended_keeps_its_lead():
    dag = graph_of(trace([("gpu:0", "a", "compute", 0, 100), ("gpu:0", "a", "compute", 90, 200)]))
    assert (dag.predecessor.tolist(), dag.lag_ps.tolist()) == ([-1, 0], [0, -10])


def test_a_kernel_inside_of_another_follows_what_ended_before_it():
    nested_rows = [("gpu:0", "a", "compute", 0, 5), ("gpu:0", "a", "compute", 6, 90), ("gpu:0", "a", "compute", 10, 80)]
    assert waits_for(graph_of(trace(nested_rows))) == [(), (0,), (0,)]


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 20), st.integers(0, 12), st.booleans()), min_size=2, max_size=9
    )
)
def test_what_ended_last_in_a_queue_comes_before_unless_a_little_of_what_began_last_is_left(works):
    queue, start, length, aside = np.array(works, np.int64).reshape(-1, 4).T
    end = start + length
    order = np.lexsort((end, start, queue))
    predecessor, lead = find_predecessors(order, queue, start, end, aside > 0)
    for place, own in enumerate(order):
        earlier = [x for x in order[:place] if queue[x] == queue[own] and not aside[x]]
        over = [x for x in earlier if end[x] <= start[own]]
        expected = max(over, key=lambda x: (end[x], order.tolist().index(x)), default=-1), 0
        if earlier and not aside[own]:
            last = earlier[-1]
            left = end[last] - start[own]
            if 0 < 2 * left < min(length[last], length[own]) and end[last] < end[own]:
                expected = last, left
        assert (predecessor[own], lead[own]) == expected


US = 1_000_000


def test_an_asynchronous_pair_is_in_flight_beside_the_queue_which_waits_at_its_done():
    pair_trace = trace(
        [
            ("tpu:0", "o", "compute", 0, 2 * US),
            ("tpu:0", "o", "memcpy", 2 * US, 9 * US, {"wait_ps": 3 * US}),
            ("tpu:0", "o", "compute", 2 * US, 6 * US),
            ("tpu:0", "o", "compute", 9 * US, 10 * US),
        ]
    )
    dag = graph_of(pair_trace)
    flight, beside, behind, done_node = 2, 1, 3, 4  # rows by start and end, then dones
    assert rows(pair_trace.events).end.tolist()[flight] == 9 * US
    assert waits_for(dag) == [(), (0,), (0,), (done_node,), (beside, flight)]
    assert (dag.start[done_node], dag.end[done_node]) == (9 * US, 9 * US)
    assert edge_counts(dag)[Dependency.ASYNC_DONE] == (1, 0)
    assert waits_for(dag)[behind] == (done_node,)


@pytest.mark.parametrize("begin", [5, 6])
def test_a_copy_with_a_wait_beside_which_its_queue_ran_nothing_is_in_the_queue(begin):
    rows_of = [
        (device, "o", kind, start, end, {"wait_ps": wait})
        for device in ("tpu:0", "tpu:1", "tpu:2")
        for kind, start, end, wait in (("compute", 3, 5, None), ("memcpy", begin, 9, 2), ("compute", 9, 12, None))
    ]
    dag = graph_of(trace(rows_of))
    assert waits_for(dag) == [(), (0,), (1,), (), (3,), (4,), (), (6,), (7,)]
    assert (dag.end - dag.start).tolist() == [2, 9 - begin, 3] * 3


def test_a_pair_that_nothing_waited_for_was_in_flight_for_nobody_knows_how_long():
    pair_trace = trace(
        [("tpu:0", "o", "memcpy", 0, 9 * US, {"wait_ps": 2000}), ("tpu:0", "o", "compute", 1 * US, 8 * US)]
    )
    dag = graph_of(pair_trace)
    assert waits_for(dag) == [(), (), (1,)]
    assert (dag.end - dag.start).tolist() == [0, 7 * US, 2000]


def test_a_row_that_starts_before_its_launch_is_not_taken_for_launched_and_is_counted():
    gpu_trace = trace(
        [
            ("gpu:0", "a", "compute", 5, 9, {"correlation_id": 1}),
            ("gpu:0", "a", "compute", 20, 30, {"correlation_id": 2}),
        ],
        [("t", 6, 8, 1), ("t", 10, 12, 2)],
    )
    dag = graph_of(gpu_trace)
    assert dag.launch.tolist() == [-1, -1, -1, 1]
    assert edge_counts(dag)[Dependency.LAUNCH] == (1, 1)


def test_the_latency_of_a_device_is_told_by_ten_rows_that_found_it_idle():
    def launch_trace(rows):
        return trace(
            [("gpu:0", "a", "compute", 100 * k + 10 + k, 100 * k + 50, {"correlation_id": k}) for k in range(rows)],
            [("t", 100 * k, 100 * k + 5, k) for k in range(rows)],
        )

    assert graph_of(launch_trace(9)).latency_ps.tolist() == [0, 0]
    assert graph_of(launch_trace(10)).latency_ps.tolist() == [10, 0]
    # A row that was queued when the one before it ended tells nothing.
    idle_launches = launch_trace(10)
    late = trace([("gpu:0", "a", "compute", 950, 960, {"correlation_id": 99})], [("t", 945, 946, 99)])
    both = Trace(
        events=concat(EVENT_COLUMNS, [idle_launches.events, late.events]),
        launches=concat(LAUNCH_COLUMNS, [idle_launches.launches, late.launches]),
    )
    assert graph_of(both).latency_ps.tolist() == [10, 0]


@pytest.mark.parametrize(("after_us", "latency_us"), [(30, 34), (100, 104), (101, 0)])
def test_a_latency_is_told_up_to_a_tenth_of_a_millisecond_after_the_call(after_us, latency_us):
    """An MI300X takes 30 us, CPU devices 40 to 80."""
    rows_of = [
        ("gpu:0", "a", "compute", (1000 * k + 4 + after_us) * US, (1000 * k + 500) * US, {"correlation_id": k})
        for k in range(12)
    ]
    calls = [("t", 1000 * k * US, (1000 * k + 4) * US, k) for k in range(12)]
    assert graph_of(trace(rows_of, calls)).latency_ps.tolist() == [latency_us * US, 0]


def test_what_starts_long_after_its_call_had_returned_tells_no_latency():
    """On gpu:1 each row waits for one of gpu:0, and nothing says so: its shortest delay is no launch latency."""
    events, calls = [], []
    for k in range(12):
        events += [
            ("gpu:0", "a", "compute", (4000 * k + 5) * US, (4000 * k + 2000) * US, {"correlation_id": 2 * k}),
            ("gpu:1", "a", "compute", (4000 * k + 2001) * US, (4000 * k + 3900) * US, {"correlation_id": 2 * k + 1}),
        ]
        calls += [("t", (4000 * k + 8 * n) * US, (4000 * k + 8 * n + 4) * US, 2 * k + n) for n in (0, 1)]
    assert graph_of(trace(events, calls)).latency_ps.tolist() == [5 * US, 0, 0]
    timeline = timeline_of(trace(events, calls))
    result = critical_path(timeline, steps(timeline).table)
    parts = dict(zip(result.total["part"], result.total["time_ps"], strict=True))
    assert parts.get("launch latency", 0) <= 12 * 20 * US
    assert result.latency["latency_ps"].isna().tolist() == [False, True]


def test_a_copy_that_was_done_when_its_call_returned_was_waited_for():
    copy_trace = trace(
        [
            ("gpu:0", "a", "memcpy", 3, 8, {"correlation_id": 1}),
            ("gpu:0", "a", "compute", 13, 14, {"correlation_id": 2}),
        ],
        [("t", 0, 10, 1), ("t", 11, 20, 2)],
    )
    dag = graph_of(copy_trace)
    first, second, back, copy = 0, 1, 2, 3
    assert waits_for(dag) == [(), (back,), (first, copy), (), (copy,)]
    assert (dag.end - dag.start)[[first, second, back]].tolist() == [0, 9, 2]
    assert dag.source(back) == ("launches", 0)


def test_a_call_that_started_what_ended_later_as_well_waited_for_neither():
    rows_of = [
        ("gpu:0", "a", "memcpy", 3, 8, {"correlation_id": 1}),
        ("gpu:0", "a", "compute", 9, 14, {"correlation_id": 1}),
    ]
    dag = graph_of(trace(rows_of, [("t", 0, 10, 1)]))
    assert (dag.first.tolist(), (dag.end - dag.start).tolist()) == ([0, 1, 1, 1, 3, 3], [10, 5, 5])


def test_what_is_launched_when_a_wait_is_recorded_is_not_awaited_and_of_the_rest_what_started_last_is():
    rows_of = [
        ("gpu:0", "a", "compute", 12, 15, {"correlation_id": 1}),
        ("gpu:0", "a", "compute", 6, 9, {"correlation_id": 2}),
        ("gpu:0", "a", "compute", 16, 18, {"correlation_id": 3}),
    ]
    calls = [("t", 0, 1, 1), ("u", 2, 3, 2), ("t", 5, 6, 3)]
    dag = graph_of(trace(rows_of, calls, syncs=[("v", 10, 20, None, None, "gpu:0", "a", 5)]))
    first_row = int(dag.first[3])
    assert waits_for(dag)[3] == (first_row + 1,)
    assert (dag.start[3], dag.end[3]) == (15, 20)


def test_what_a_thread_waits_for_is_the_last_of_the_lane_that_was_launched_before():
    waits_trace = trace(
        [
            ("gpu:0", "a", "compute", 2, 20, {"correlation_id": 1}),
            ("gpu:0", "b", "compute", 4, 30, {"correlation_id": 2}),
            ("gpu:0", "a", "compute", 41, 50, {"correlation_id": 3}),
        ],
        [("t", 0, 2, 1), ("t", 3, 4, 2), ("t", 40, 41, 3)],
        syncs=[("t", 5, 25, None, None, "gpu:0", "a", 5), ("t", 26, 39, None, None, "gpu:0", None, 26)],
    )
    dag = graph_of(waits_trace)
    assert waits_for(dag)[3:5] == [(1, 5), (3, 5, 6)]
    # What is left of a wait when all that it waited for is over is its own.
    assert list(zip(dag.start[3:5].tolist(), dag.end[3:5].tolist(), strict=True)) == [(20, 25), (30, 39)]
    assert dag.blank_waits == 0


def graph_of_wait(row_end: int, wait_end: int) -> Graph:
    """Of a row from 2 ps on, launched at 0, and a wait for it from 5 ps on."""
    row = ("gpu:0", "a", "compute", 2, row_end, {"correlation_id": 1})
    return graph_of(trace([row], [("t", 0, 2, 1)], syncs=[("t", 5, wait_end, None, None, "gpu:0", "a", 5)]))


@pytest.mark.parametrize("end_us", [60, 81])
def test_a_wait_for_work_that_ended_later_is_dropped_and_its_length_proves_nothing(end_us):
    dag = graph_of_wait(end_us * 10**6, 40 * 10**6)
    assert edge_counts(dag)[Dependency.THREAD_WAIT] == (0, 1)
    assert (dag.start[1], dag.end[1], dag.blank_waits) == (40 * 10**6, 40 * 10**6, 1)


def test_inside_windows_only_the_waits_count_that_begin_there():
    us = 10**6
    rounds = [0, 1000, 2000]
    events = [("gpu:0", "a", "compute", (at + 2) * US, (at + 90) * US, {"correlation_id": at}) for at in rounds]
    launches = [("t", at * us, (at + 1) * US, at) for at in rounds]
    # The second wait is for its row, the others end before.
    syncs = [
        ("t", (at + 5) * US, (at + (95 if at == 1000 else 60)) * US, None, None, "gpu:0", "a", (at + 5) * us)
        for at in rounds
    ]
    timeline = timeline_of(trace(events, launches, syncs=syncs))
    windows = [None, (0, 3000), (900, 3000), (900, 1500)]
    counts = [
        graph(timeline if window is None else timeline.inside((window[0] * us, window[1] * us))).blank_waits
        for window in windows
    ]
    assert counts == [2, 2, 1, 0]


def test_work_that_ended_by_its_own_clock_a_little_after_a_wait_for_it_ended_with_it():
    dag = graph_of_wait(46 * 10**6, 40 * 10**6)
    assert edge_counts(dag)[Dependency.THREAD_WAIT] == (1, 0)
    assert (dag.start[1], dag.end.tolist(), dag.blank_waits) == (40 * 10**6, [2, 40 * 10**6, 40 * 10**6], 0)


def test_a_call_so_short_that_it_waited_for_nothing_is_work():
    dag = graph_of_wait(60 * 10**6, 3 * 10**6)
    assert (dag.start[1], dag.end[1], dag.blank_waits) == (5, 3 * 10**6, 0)


def test_a_lane_that_waits_holds_up_what_is_launched_on_it_from_then_on():
    wait_trace = trace(
        [
            ("gpu:0", "a", "compute", 2, 20, {"correlation_id": 1}),
            ("gpu:0", "b", "compute", 5, 9, {"correlation_id": 2}),
            ("gpu:0", "b", "compute", 20, 30, {"correlation_id": 3}),
        ],
        [("t", 0, 2, 1), ("t", 3, 4, 2), ("t", 8, 9, 3)],
        syncs=[("t", 6, 7, "gpu:0", "b", "gpu:0", "a", 5)],
    )
    assert waits_for(graph_of(wait_trace))[3:] == [(), (), (4, 3)]


def test_ops_of_other_streams_wait_for_their_operands_through_ops_that_left_no_row():
    def row(lane, start, end, op, run=1):
        return ("gpu:0", lane, "compute", start, end, {"op": op, "run_id": run})

    rows_of = [row("a", 0, 5, 0), row("a", 6, 8, 0), row("b", 9, 12, 2), row("b", 20, 22, 2, run=2)]
    dag = graph_of(trace(rows_of, operands=[(2, 1), (1, 0)], ops=3))
    # Of two rows of the operand the latest counts; another execution's does not.
    assert waits_for(dag) == [(), (0,), (1,), (2,)]
    assert edge_counts(dag)[Dependency.OPERAND] == (1, 0)


def test_an_op_waits_for_all_operands_of_those_that_left_no_row():
    ends = [5, 3, 4, 8, 20, 20]
    rows_of = [
        ("gpu:0", str(op), "compute", 10 * (op >= 4), end, {"op": op, "run_id": 1}) for op, end in enumerate(ends)
    ]
    # Two ops read through one of no row each, which read two ops each, one of them both.
    operands = [(4, 6), (4, 7), (6, 0), (6, 1), (7, 1), (7, 2), (5, 7), (5, 3)]
    dag = graph_of(trace(rows_of, operands=operands, ops=8))
    ends_waited_for = [sorted(dag.end[list(nodes)].tolist()) for nodes in waits_for(dag)]
    assert sorted(map(tuple, ends_waited_for)) == [(), (), (), (), (3, 4, 5), (3, 4, 8)]


def test_a_cpu_device_begins_when_the_copy_has_arrived_that_its_thread_ran_before():
    def after_copy(launched, thread="p", start=52, *before):
        rows_of = [
            ("cpu:?", "p", "memcpy", 5, 50, {"correlation_id": 1}),
            ("cpu:1", thread, "compute", start, 60, {"correlation_id": 2}),
            *before,
        ]
        dag = graph_of(trace(rows_of, [("t", 0, 3, 1), ("t", launched, launched + 1, 2)]))
        return edge_counts(dag).get(Dependency.COPY_WAIT)

    assert after_copy(8) == (1, 0)
    assert after_copy(8, thread="q") is None
    # What was launched when the copy had arrived may have run there by chance.
    assert after_copy(51) is None
    # Nor did what began before that, or when its device had just done something else.
    assert after_copy(8, "p", 49) is None
    assert after_copy(8, "p", 52, ("cpu:1", "q", "compute", 20, 50)) == (1, 0)
    assert after_copy(8, "p", 52, ("cpu:1", "q", "compute", 20, 51)) is None


def test_a_collective_begins_when_its_last_member_has_started():
    dag = graph_of(trace([("gpu:0", "n", "collective", 0, 10), ("gpu:1", "n", "collective", 6, 11)]))
    assert (dag.gate.tolist(), dag.members.tolist()) == ([6], [2])
    assert dag.instance.tolist() == [0, 0]


def test_members_of_which_one_ended_before_another_started_are_none():
    two_gpus = trace([("gpu:0", "n", "collective", 0, 5), ("gpu:1", "n", "collective", 6, 11)])
    dag = graph_of(two_gpus, [0, 0])
    assert dag.instance.tolist() == [-1, -1]
    assert edge_counts(dag)[Dependency.COLLECTIVE] == (0, 2)


def host_work(spans, *calls, work=()):
    """The proven work of the host before each call; each call launches a row of its own."""
    calls_trace = trace(
        [
            ("gpu:0", f"s{k}", "compute", call[2] + 1, call[2] + 2, {"correlation_id": k})
            for k, call in enumerate(calls)
        ],
        [(*call, k) for k, call in enumerate(calls)],
        spans,
        host_work=work,
    )
    return graph_of(calls_trace).lag_ps.tolist()[: len(calls)]


def test_between_two_calls_the_host_works_where_a_span_says_so():
    assert host_work([("t", 12, 18)], ("t", 0, 10), ("t", 20, 30)) == [0, 6]


def test_before_its_first_call_the_host_works_where_a_span_says_so_also_before_time_0():
    assert host_work([("t", -10, 5), ("t", 7, 15)], ("t", 10, 20)) == [18]


def test_between_two_calls_the_host_works_where_its_operators_run():
    calls = ("t", 0, 10), ("t", 20, 30)
    assert host_work([("t", 12, 18)], *calls, work=[("t", 9, 13), ("t", 19, 25), ("u", 10, 20)]) == [0, 9]
    assert host_work([("t", 12, 18, "Wait for it")], *calls, work=[("t", 9, 14)]) == [0, 2]
    others = [("u", 11 + k, 12 + k) for k in range(0, 30, 10)]
    assert host_work([], ("t", 0, 10), ("t", 50, 60), *others, work=[("t", 0, 60)])[:2] == [0, 0]


def test_steps_waits_and_the_span_of_a_call_itself_prove_no_work():
    spans = [("t", 0, 40, "train", 3), ("t", 10, 20, "Wait for it"), ("t", 0, 10, "call"), ("u", 10, 20, "python")]
    assert host_work(spans, ("t", 0, 10), ("t", 20, 30)) == [0, 0]
    assert host_work([*spans, ("t", 5, 20, "python")], ("t", 0, 10), ("t", 20, 30)) == [0, 0]


def test_a_thread_does_not_work_in_a_wait_in_which_it_calls():
    rows_of = [("gpu:0", "s", "compute", at + 3, at + 4, {"correlation_id": at}) for at in (0, 20)]
    waits = [("t", start, end, None, None, "gpu:0", "s", None) for start, end in ((60, 70), (10, 50))]
    dag = graph_of(trace(rows_of, [("t", at, at + 2, at) for at in (0, 20)], [("t", -5, 80)], waits))
    assert dag.lag_ps[dag.start.tolist().index(20)] == 10 - 2


def test_a_thread_that_stands_still_while_another_launches_is_not_proven_at_work():
    others = [("u", 11 + k, 12 + k) for k in range(0, 30, 10)]
    assert host_work([("t", 0, 60)], ("t", 0, 10), ("t", 50, 60), *others)[:2] == [0, 0]
    # Memory is allocated without waiting for what others launch.
    for name, work in (("f", 5), ("Build buffer allocations", 40)):
        spans = [("t", 0, 60), ("t", 10, 45, name)]
        assert host_work(spans, ("t", 0, 10), ("t", 50, 60), *others)[:2] == [0, work]
    # With a span of its own in between it moves.
    assert host_work([("t", 0, 60), ("t", 25, 28)], ("t", 0, 10), ("t", 50, 60), *others)[:2] == [0, 40]


@pytest.mark.parametrize(
    ("name", "done_us", "work_us"),
    [("backward", 890, 0), ("decode", 200, 900), ("load_batch", 890, 900)],
)
def test_a_thread_waits_for_another_only_if_it_goes_on_when_that_one_is_done(name, done_us, work_us):
    calls, spans = [("t", 0, US)], []
    for begin in range(0, 5000 * US, 1000 * US):
        spans.append(("t", begin + US, begin + 901 * US, name))
        calls.append(("t", begin + 1000 * US, begin + 1001 * US))
        of_other = [begin + us * US for us in range(10, done_us, 20)]
        calls += [("u", start, start + 5 * US) for start in of_other]
    work = host_work(spans, *calls)
    work_us_of_t = [round(work[k] / US) for k, call in enumerate(calls) if call[0] == "t"]
    assert work_us_of_t == [0, *[work_us] * 5]


@pytest.mark.parametrize("gap_us", [2, 20])
def test_a_thread_that_launches_all_the_time_is_not_waited_for(gap_us):
    calls = [("t", begin, begin + US) for begin in range(0, 5001 * US, 1000 * US)]
    spans = [("t", begin + US, begin + 901 * US, "decode") for begin in range(0, 5000 * US, 1000 * US)]
    starts = range(3 * US, 5000 * US, (15 + gap_us) * US)
    calls += [("u", start, start + 15 * US) for start in starts]
    assert [round(ps / US) for ps in host_work(spans, *calls)[1:6]] == [900] * 5


def test_a_thread_whose_span_says_so_works_while_one_of_another_device_or_process_launches():
    calls = [("t", 0, 10), ("t", 50, 60), *(("u", 11 + k, 12 + k) for k in range(0, 30, 10))]
    one_device = [
        ("gpu:0", f"s{k}", "compute", end + 1, end + 2, {"correlation_id": k}) for k, (_, _, end) in enumerate(calls)
    ]
    two_devices = [(f"gpu:{int(call[0] == 'u')}", *row[1:]) for call, row in zip(calls, one_device, strict=True)]
    launches, spans = [(*call, k) for k, call in enumerate(calls)], [("t", 0, 60)]
    assert graph_of(trace(one_device, launches, spans)).lag_ps[1] == 0
    assert graph_of(trace(two_devices, launches, spans)).lag_ps[1] == 40
    one_trace = trace(one_device, launches, spans)
    owner = pd.Categorical(["1" if call[0] == "t" else "2" for call in calls])
    apart = replace(
        one_trace,
        launches=one_trace.launches.assign(process=owner),
        spans=one_trace.spans.assign(process=pd.Categorical(["1"])),
    )
    assert graph_of(apart).lag_ps[1] == 40


def test_threads_that_take_turns_are_one_flow_unless_they_launch_for_different_devices():
    turn = [("t" if k // 20 % 2 == 0 else "u", 10 * k, 10 * k + 5) for k in range(60)]
    ranks_trace = trace(
        [
            (f"gpu:{call[0]}", f"s{k}", "compute", call[2], call[2] + 1, {"correlation_id": k})
            for k, call in enumerate(turn)
        ],
        [(*call, k) for k, call in enumerate(turn)],
    )
    assert graph_of(ranks_trace).predecessor[[20, 40]].tolist() == [-1, 19]


def test_threads_that_take_turns_are_one_flow():
    turn = [("t" if k // 20 % 2 == 0 else "u", 10 * k, 10 * k + 5) for k in range(60)]
    threads_trace = trace(
        [("gpu:0", f"s{k}", "compute", call[2], call[2] + 1, {"correlation_id": k}) for k, call in enumerate(turn)],
        [(*call, k) for k, call in enumerate(turn)],
    )
    assert graph_of(threads_trace).predecessor[:60].tolist() == [-1, *range(59)]


def test_threads_that_call_at_the_same_time_are_not():
    beside = [("tu"[k % 2], 10 * k, 10 * k + 15) for k in range(60)]
    threads_trace = trace(
        [("gpu:0", f"s{k}", "compute", call[2], call[2] + 1, {"correlation_id": k}) for k, call in enumerate(beside)],
        [(*call, k) for k, call in enumerate(beside)],
    )
    assert graph_of(threads_trace).predecessor[:60].tolist() == [-1, -1, *range(58)]


@pytest.mark.parametrize(("first", "second"), ["tu", "ut"])
def test_threads_are_no_flow_if_one_calls_during_a_call_of_the_other(first, second):
    calls = [(first, 10 * k, 10 * k + 5) for k in range(19)] + [(first, 190, 215)]
    calls += [(second, 200 + 10 * k, 205 + 10 * k) for k in range(20)]
    threads_trace = trace(
        [("gpu:0", f"s{k}", "compute", call[2], call[2] + 1, {"correlation_id": k}) for k, call in enumerate(calls)],
        [(*call, k) for k, call in enumerate(calls)],
    )
    assert graph_of(threads_trace).predecessor[20] == -1


def test_a_host_that_ran_no_row_is_on_no_clock():
    gpu_trace = trace([("gpu:0", "a", "compute", 0, 4)], [("t", 0, 1, 7)])
    other = gpu_trace.launches.assign(host=pd.Categorical(["elsewhere"]))
    dag = graph_of(Trace(events=gpu_trace.events, launches=other))
    assert dag.clock.tolist() == [-1, 0]


@pytest.mark.parametrize("overlap_ps", [1, 1000, US])
def test_calls_of_a_thread_that_overlap_by_rounding_follow_each_other(overlap_ps):
    calls = [("t", 10 * k * US, 10 * (k + 1) * US + overlap_ps * (k % 2)) for k in range(6)]
    calls.insert(2, ("t", 12 * US, 14 * US))  # a call of the driver inside
    rows = [
        ("gpu:0", "s", "compute", (100 + k) * US, (101 + k) * US, {"correlation_id": k}) for k, _ in enumerate(calls)
    ]
    dag = graph_of(trace(rows, [(*call, k) for k, call in enumerate(calls)]))
    assert dag.predecessor[[0, 1, 3, 4, 5, 6]].tolist() == [-1, 0, 1, 3, 4, 5]
    assert edge_counts(dag)[Dependency.THREAD_ORDER][1] == 0


def test_a_short_call_is_cut_to_the_next_that_overlaps_it_by_rounding():
    half = US // 2
    calls = [("t", 0, US), ("t", 10 * US, 10 * US + half), ("t", 10 * US + half - 1000, 12 * US)]
    dag = graph_of(trace([("gpu:0", "s", "compute", 20 * US, 21 * US)], [(*call, k) for k, call in enumerate(calls)]))
    assert dag.end[:3].tolist() == [US, 10 * US + half - 1000, 12 * US]
    assert dag.predecessor[:3].tolist() == [-1, 0, 1]


def test_a_wait_for_a_row_and_the_next_call_stay_in_order_where_they_overlap_by_rounding():
    calls = [("t", 0, US, 0), ("t", 30 * US - 1000, 31 * US, 1)]
    rows = [
        ("gpu:0", "s", "compute", 2 * US, 30 * US, {"correlation_id": 0}),
        ("gpu:0", "s", "compute", 35 * US, 36 * US, {"correlation_id": 1}),
    ]
    dag = graph_of(trace(rows, calls, syncs=[("t", 5 * US, 30 * US, None, None, "gpu:0", "s", None)]))
    assert waits_for(dag)[:3] == [(), (2,), (0, 3)]
    assert dag.start[2] == dag.end[2] == dag.start[1]


def test_a_thread_that_stood_still_until_its_work_was_done_saw_the_last_of_it_end():
    calls = [("t", 0, US, 0), ("t", 2 * US, 3 * US, 1), ("t", 201 * US, 202 * US, 2)]
    for ends in ((200, 50), (50, 200)):
        rows_of = [
            ("gpu:0", lane, "compute", 5 * US, end * US, {"correlation_id": at})
            for at, (lane, end) in enumerate(zip("ab", ends, strict=True))
        ]
        dag = graph_of(trace([*rows_of, ("gpu:0", "a", "compute", 210 * US, 220 * US, {"correlation_id": 2})], calls))
        assert dag.end[waits_for(dag)[2][0]] == 200 * US


@pytest.mark.parametrize("begins", [(5, 10), (10, 5)])
def test_of_waits_that_return_at_once_the_one_that_began_first_stands_first(begins):
    rows_of = [("gpu:0", "s", "compute", US, 60 * US, {"correlation_id": 0})]
    syncs = [
        (thread, at * US, 60 * US, None, None, "gpu:0", "s", None) for thread, at in zip("tu", begins, strict=True)
    ]
    dag = graph_of(trace(rows_of, [("t", 0, US, 0)], syncs=syncs))
    assert dag.start[1:3].tolist() == [60 * US] * 2
    assert [node for node in dag.order.tolist() if node in (1, 2)] == ([1, 2] if begins == (5, 10) else [2, 1])


def test_a_call_long_after_one_that_launched_nothing_follows_that_one():
    calls = [("t", 0, US, 7), ("t", 100 * US, 101 * US, 1)]
    dag = graph_of(trace([("gpu:0", "a", "compute", 102 * US, 110 * US, {"correlation_id": 1})], calls))
    assert (dag.predecessor.tolist(), dag.lag_ps.tolist()) == ([-1, 0, -1], [0, 0, 0])


def test_at_one_moment_nodes_without_length_stand_first():
    dag = graph_of(trace([("gpu:0", "s", "compute", 5, 9), ("gpu:1", "s", "compute", 5, 5)]))
    assert (dag.start.tolist(), dag.end.tolist(), dag.order.tolist()) == ([5, 5], [9, 5], [1, 0])


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(-1, 7), st.integers(-2, 2)), min_size=8, max_size=8
    ),
    st.permutations(range(8)),
    st.lists(st.integers(0, 3), min_size=8, max_size=8),
    st.integers(0, 4),
    st.integers(4, 8),
)
def test_a_predecessor_is_dropped_that_ended_too_late_or_is_not_over_before(nodes, ranks, later, low, high):
    over = [at + more for at, more in zip(ranks, later, strict=True)]
    start, size, before, lags = (list(column) for column in zip(*nodes, strict=True))
    end = [at + long for at, long in zip(start, size, strict=True)]
    has = [at for at in range(low, high) if before[at] >= 0]
    keeps = [at for at in has if end[before[at]] + lags[at] <= start[at] and over[before[at]] < ranks[at]]
    dropped = set(has) - {*keeps}
    times, places = [np.array(column) for column in (start, end)], [np.array(at, np.int32) for at in (ranks, over)]
    predecessor, lag = np.array(before, np.int32), np.array(lags, np.int64)
    assert drop_contradicted(*times, *places, predecessor, lag, low, high) == (len(has), len(keeps))
    assert predecessor.tolist() == [-1 if at in dropped else value for at, value in enumerate(before)]
    assert lag.tolist() == [0 if at in dropped else value for at, value in enumerate(lags)]


@pytest.mark.parametrize("more", range(1, 5))
def test_rows_wait_for_the_same_rows_whatever_calls_of_another_thread_stand_before_them(more):
    """An asynchronous pair, a lane that waits for another, and an operand that another lane gives."""
    events = [
        ("tpu:0", "o", "compute", 0, 2 * US),
        ("tpu:0", "o", "memcpy", 2 * US, 9 * US, {"wait_ps": 3 * US}),
        ("tpu:0", "o", "compute", 2 * US, 6 * US),
        ("tpu:0", "o", "compute", 9 * US, 10 * US),
        ("gpu:0", "a", "compute", 2, 20, {"correlation_id": 1, "op": 0, "run_id": 1}),
        ("gpu:0", "b", "compute", 5, 9, {"correlation_id": 2}),
        ("gpu:0", "b", "compute", 20, 30, {"correlation_id": 3}),
        ("gpu:0", "c", "compute", 40, 50, {"op": 1, "run_id": 1}),
    ]
    calls, syncs = [("t", 0, 2, 1), ("t", 3, 4, 2), ("t", 8, 9, 3)], [("t", 6, 7, "gpu:0", "b", "gpu:0", "a", 5)]
    others = [("u", 100 + 10 * at, 105 + 10 * at, 90 + at) for at in range(more)]
    few, many = (
        graph_of(trace(events, of, syncs=syncs, operands=[(1, 0)], ops=2)) for of in (calls, [*calls, *others])
    )
    assert [edge_counts(few)[edge] for edge in (Dependency.ASYNC_DONE, Dependency.STREAM_WAIT, Dependency.OPERAND)] == [
        (1, 0)
    ] * 3
    moved = [tuple(node + more for node in nodes) for nodes in waits_for(few)[3:]]
    assert waits_for(many)[3 + more :] == moved
    assert edge_counts(many)[Dependency.ASYNC_DONE] == (1, 0)


def works(*rows_: tuple, device="gpu:0") -> Trace:
    """Works of a device (lane, kind, start, end, direction, called), in us, each with a call of its own."""
    events = [
        (device, lane, kind, start * US, end * US, {"direction": way, "correlation_id": number})
        for number, (lane, kind, start, end, way, _) in enumerate(rows_)
    ]
    calls = [(f"t{n}", called * US, called * US + 1, n) for n, (*_, called) in enumerate(rows_)]
    return trace(events, calls)


def turns(any_trace: Trace) -> set[tuple[int, int]]:
    """The rows that had to wait for their turn, each behind what it waited for."""
    timeline = timeline_of(any_trace)
    edges = turn_edges(timeline.rows, timeline.launch, any_trace.launches, queue_order(timeline.rows))
    return set(zip(*(timeline.rows.at[rows_].tolist() for rows_ in edges), strict=True))


def h2d(lane: str, start: int, end: int, called: int = 0) -> tuple:
    return lane, "memcpy", start, end, "H2D", called


def test_copies_of_one_direction_take_turns_on_the_engine_of_the_device():
    computes = ("d", "compute", 50, 350, None, 0)
    in_turns = h2d("a", 0, 100), h2d("b", 102, 200), h2d("c", 203, 300), h2d("a", 302, 400)
    dag = graph_of(works(*in_turns, computes))
    assert turns(works(*in_turns, computes)) == {(0, 1), (1, 2), (2, 3)}
    assert edge_counts(dag)["turn"] == (3, 0)
    assert turns(works(*in_turns, computes, device="tpu:0")) == set()


@pytest.mark.parametrize(
    "last",
    [
        h2d("a", 290, 400),  # two at once: there is more than one engine
        h2d("d", 311, 400),  # a third that was ready, and began later
        h2d("d", 302, 400, called=281),  # called so shortly before that its launch took as long
    ],
)
def test_copies_that_were_not_held_up_by_another_one_take_no_turns(last):
    # Of the first two only one was ready before, which may be chance.
    rows_ = h2d("a", 0, 100), h2d("b", 102, 300), last
    assert turns(works(*rows_, ("e", "compute", 50, 350, None, 0))) == set()


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from(["H2D", "H2D", "H2D", "D2H", "compute"]),
            st.sampled_from([0, 1, 2, 3, 5, 8, 10, 11, 30, -1, -2]),
            st.integers(3, 40),
            st.integers(0, 120),
        ),
        min_size=3,
        max_size=12,
    ),
    st.sampled_from(["gpu:0", "gpu:0", "gpu:0", "tpu:0"]),
)
@settings(max_examples=300, deadline=None)
def test_turns_are_those_of_the_rule_for_each_pair_of_rows(drawn, device):
    rows_, at = [], 0
    for lane, what, gap, length, ahead in drawn:
        start = max(at + gap, 0)
        way = None if what == "compute" else what
        rows_.append((lane, "memcpy" if way else "compute", start, start + length, way, start - ahead))
        at = start + length
    expected = set()
    numbers = sorted(range(len(rows_)), key=lambda n: (rows_[n][2], rows_[n][3]))
    assume(len({rows_[n][2:4] for n in numbers}) == len(numbers))
    for group in ((None, "H2D", "D2H"), ("H2D",), ("D2H",)):
        its = [n for n in numbers if rows_[n][4] in group]
        if any(min(rows_[a][3], rows_[b][3]) - rows_[b][2] > 1 for a, b in combinations(its, 2)):
            continue
        ready, prompt = 0, set()
        for a, b in pairwise(its):
            # What its stream ran before it, by the end: nothing of another that overlaps it.
            before = [
                rows_[n][3] for n in numbers if rows_[n][0] == rows_[b][0] and rows_[n][3] <= rows_[b][2] and n != b
            ]
            was_free = rows_[b][5] + 20 <= rows_[a][3] and max([-1, *before]) < rows_[a][3]
            if rows_[a][0] != rows_[b][0] and was_free:
                ready += 1
                prompt |= {(a, b)} if rows_[b][2] - rows_[a][3] <= 10 else set()
        if device == "gpu:0" and len(prompt) >= max(2, 0.8 * ready):
            expected |= prompt
    lanes = [sorted(rows_[n][2:4] for n in numbers if rows_[n][0] == lane) for lane in "abc"]
    assume(all(end <= start for its in lanes for (_, end), (start, _) in pairwise(its)))  # streams run in order
    assert (turns(works(*rows_, device=device)) if rows_ else set()) == expected


def test_unified_memory_is_moved_behind_the_work_that_ended_last_and_is_in_no_order_itself():
    name = {"name": "CUDA memcpy Unified Device-to-Host"}
    rows_ = [
        ("gpu:0", "stream 7", "compute", 0, 100),
        ("gpu:0", "unified memory", "memcpy", 10, 20, name),
        ("gpu:0", "stream 8", "compute", 30, 60),
        ("gpu:0", "unified memory", "memcpy", 70, 80, name),
        ("gpu:0", "unified memory", "memcpy", 110, 120, name),
        ("gpu:0", "stream 7", "compute", 130, 140),
    ]
    moved = trace(rows_)
    timeline = timeline_of(moved)
    edges = set(zip(*(timeline.rows.at[places].tolist() for places in migration_edges(timeline.rows)), strict=True))
    assert edges == {(2, 3), (0, 4)}
    assert edge_counts(graph_of(moved))["migration"] == (2, 0)
    path = critical_path(timeline, steps(timeline).table)
    parts = dict(zip(path.total["part"], path.total["time_ps"], strict=True))
    assert parts["compute"] == 100 + 10  # and not the copies that ran while the first kernel did
    more = trace([*rows_, *(("gpu:0", "unified memory", "memcpy", at, at + 1, name) for at in range(130, 137))])
    of_more = critical_path(timeline_of(more), steps(timeline_of(more)).table)
    reasons = [of.what_if.set_index("what")["reason"]["copies"] for of in (path, of_more)]
    assert "unified memory" not in reasons[0]
    assert reasons[1] == "it is not known how long kernels waited for the 10 moves of unified memory"
