"""The replay against a simulator that counts ticks: it must give the program's length, and what it would be without."""

from dataclasses import replace
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.frames import with_instances
from tests.graph_traces import graph_of as trace_graph
from tests.graph_traces import runs_of, trace
from tests.simulated import Do, Program, run
from tracekit.analysis.critical_path.graph import CALL, WORK, graph
from tracekit.analysis.critical_path.longest_path import Part, find_paths
from tracekit.analysis.critical_path.replay import Without, plan, replay, slots_of_nodes, with_tails
from tracekit.timeline.timeline import timeline_of

LENGTHS = st.integers(1, 9)


def collective_of(recording, sorted_rows):
    """The collective of each row, by what the program says."""
    order = sorted(recording.rows, key=lambda row: (row.thread, row.at))
    numbers = sorted({row.do.event for row in order if row.do.kind == "collective"})
    collectives = [numbers.index(row.do.event) if row.do.kind == "collective" else -1 for row in order]
    return np.array(collectives, np.int64)[sorted_rows.at]


def graph_of(recording):
    timeline = timeline_of(recording.trace())
    return timeline.rows, graph(with_instances(timeline, collective_of(recording, timeline.rows)))


def replay_program(recording, *what):
    """The length of the whole program, and what it is without each of `what`."""
    sorted_rows, dag = graph_of(recording)
    whole = plan(dag, runs_of(dag, (0, recording.end)))
    names = sorted_rows.labels("name")
    op = np.full(len(dag.start), -1, np.int32)
    op[dag.first[3] : dag.first[4]] = sorted_rows.codes("name")
    what = [
        replace(omission, op=names.index(omission.op) if omission.op in names else -1)
        if omission.op != -1
        else omission
        for omission in what
    ]
    return replay(dag, whole, [Without(), *what], op)[0].tolist()


def without(program: Program, test, **change) -> Program:
    """The program with some instructions changed."""
    return [[replace(do, **change) if test(do) else do for do in thread] for thread in program]


@st.composite
def programs(draw) -> Program:
    """Each thread serves one device of two streams; all launch the same collectives in the same order."""
    devices, meetings = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    program = []
    for device in range(devices):
        # A host of which no row is known is on no clock, so each launches one.
        thread = [Do("launch", draw(LENGTHS), (device, 0), "compute", draw(LENGTHS), "b")]
        launched, recorded = {(device, 0)}, set()
        for part in range(meetings + 1):
            for _ in range(draw(st.integers(0, 4))):
                lane = device, draw(st.integers(0, 1))
                what = draw(st.sampled_from(["work", "launch", "launch", "memcpy", "copy", "sync", "record", "hold"]))
                name, call, ticks = draw(st.sampled_from("ab")), draw(LENGTHS), draw(LENGTHS)
                if what == "launch":
                    thread.append(Do("launch", call, lane, "compute", ticks, name))
                elif what == "memcpy":  # one that ends inside its call would pass for one that its call waits for
                    thread.append(Do("launch", call, lane, "memcpy", call + ticks))
                elif what == "sync" and lane not in launched:
                    continue
                elif what == "hold":
                    if recorded:
                        thread.append(Do("hold", call, lane, event=draw(st.sampled_from(sorted(recorded)))))
                else:
                    thread.append(
                        Do(what, call, lane, ticks=ticks, event=2 * device + lane[1], whole=draw(st.booleans()))
                    )
                if what in ("launch", "memcpy", "copy"):
                    launched.add(lane)
                if what == "record":
                    recorded.add(2 * device + lane[1])
            if part < meetings:
                lane = device, draw(st.integers(0, 1))
                thread.append(Do("launch", draw(LENGTHS), lane, "collective", draw(LENGTHS), event=part))
                launched.add(lane)
        program.append(thread)
    return program


CASES = {
    "collectives that take no time": (
        Without((Part.COLLECTIVE,)),
        lambda program: run(without(program, lambda do: do.kind == "collective", ticks=0)),
    ),
    "no collectives": (
        Without((Part.COLLECTIVE,), unsynchronised=True),
        lambda program: run(without(program, lambda do: do.kind == "collective", ticks=0), apart=True),
    ),
    "copies": (
        Without((Part.MEMCPY,)),
        lambda program: run(without(program, lambda do: do.kind == "memcpy" or do.what == "copy", ticks=0)),
    ),
    "the host": (Without((CALL, WORK), prompt=True), lambda program: run(without(program, lambda do: True, call=0))),
    "an op": (Without(op="a"), lambda program: run(without(program, lambda do: do.name == "a", ticks=0))),
}


A, B = (0, 0), (0, 1)
HELD = [  # a lane is held behind its last work, and its thread waits for all of it
    Do("launch", 1, A, "compute", 1, "b"),
    Do("launch", 1, B, "compute", 5, "a"),
    Do("record", 1, B, event=1),
    Do("hold", 1, A, event=1),
    Do("sync", 1, A),
]


@settings(max_examples=60)
@given(programs(), st.sampled_from([1, 60, 1_000_000]))
@example([HELD], 1)
def test_a_program_is_replayed_exactly_and_so_is_what_it_would_be_without(program, room):
    """Whether there is room for one column at once, for some, or for all."""
    recording = run(program)
    with mock.patch("tracekit.analysis.critical_path.replay._ROOM", room):
        lengths = replay_program(recording, *(what for what, _ in CASES.values()))
    assert lengths == [recording.end, *(simulate(program).end for _, simulate in CASES.values())]


@settings(max_examples=60)
@given(programs())
def test_the_path_is_a_longest_chain_of_what_the_program_does(program):
    recording = run(program)
    _, dag = graph_of(recording)
    path = find_paths(dag, plan(dag, runs_of(dag, (0, recording.end))), np.array([True]))
    assert path.parts.sum() == recording.end
    assert path.parts[0, Part.UNEXPLAINED] == 0
    assert path.parts[0].sum() == recording.end
    parts_ps = {Part(part).name: int(time) for part, time in enumerate(path.parts[0]) if time}
    assert tuple(sorted(parts_ps.items())) in longest_chains(recording, program)
    assert (path.end - path.start).sum() == recording.end
    assert path.end[1:].tolist() == path.start[:-1].tolist()


def longest_chains(recording, program):
    """What each chain that fills the whole time from 0 to the end is made of, found by trying all of them.

    A chain is a row of pieces, each of which begins when the one before it ends and could not have begun earlier.
    """
    pieces = []  # (begin, end, part, key)
    for row in recording.rows:
        same = [
            other.start for other in recording.rows if other.do.kind == "collective" and other.do.event == row.do.event
        ]
        met = max(same) if row.do.kind == "collective" else row.start
        part = row.do.kind.upper()
        if row.do.kind == "collective" and len(same) == 1:
            part = "ALONE_COLLECTIVE"
        pieces.append((met, row.end, part, ("row", row)))
    for thread, at, start, end, do in recording.calls:
        if do.what in ("copy", "sync"):
            start = end - do.call  # what it waited for was over then
        part = "HOST_LAUNCH" if do.what in ("launch", "copy") else "HOST_WORK"
        pieces.append((start, end, part, ("call", thread, at, do)))
    for thread, start, end in recording.works:
        pieces.append((start, end, "HOST_WORK", ("work", thread)))
    compositions = {}

    def chains(moment):
        """All compositions of chains that fill the time up to a moment, whatever they end with."""
        if moment not in compositions:
            ending = [(begin, part, moment - begin) for begin, end, part, _ in pieces if end == moment and begin < end]
            compositions[moment] = {
                tuple(sorted({**dict(composition), part: dict(composition).get(part, 0) + time}.items()))
                for begin, part, time in ending
                for composition in chains(begin)
            }
        return compositions[moment]

    compositions[0] = {()}
    return chains(recording.end)


def test_launch_latency_is_found_and_kept_where_a_row_waits_for_its_launch():
    # Every row is awaited before the next is launched, so that each finds its device idle.
    turn = [Do("work", 4), Do("launch", 2, ticks=5, name="a"), Do("sync", 1)]
    program = [[*turn * 10, Do("launch", 2, ticks=7, name="a")]]
    recording = run(program, latency=3)
    _, dag = graph_of(recording)
    assert dag.latency_ps.tolist() == [3, 0]
    lengths = replay_program(recording, *(CASES[case][0] for case in ("the host", "an op")))
    free = run(without(program, lambda do: True, call=0), latency=0).end
    assert lengths == [recording.end, free, run(without(program, lambda do: do.name == "a", ticks=0), latency=3).end]
    path = find_paths(dag, plan(dag, runs_of(dag, (0, recording.end))), np.array([True]))
    assert path.parts[0, [Part.LAUNCH_LATENCY, Part.HOST_WORK, Part.COMPUTE]].tolist() == [33, 50, 57]


def whole(dag, end):
    return plan(dag, runs_of(dag, (0, end)))


def test_a_collective_ends_on_each_device_with_its_own_transfer_behind_the_last_start():
    rows_of = [
        ("tpu:0", "o", "collective", 0, 20),
        ("tpu:1", "o", "compute", 0, 6),
        ("tpu:1", "o", "collective", 6, 11),
    ]
    dag = trace_graph(trace(rows_of), [0, -1, 0])
    op = np.array([0, 1, 0], np.int32)
    kinds = [Without((Part.COMPUTE,)), Without((Part.COLLECTIVE,))]
    lengths = replay(dag, whole(dag, 20), [Without(), *kinds, Without(op=1), Without(op=0)], op)
    assert lengths.tolist() == [[20, 14, 6, 14, 6]]


def test_each_step_ends_as_long_after_its_last_node_as_it_did_and_takes_no_time_below_0():
    """Of a run of three steps, the host ended the first 20 later than its last node; of another, each on time."""
    dag = trace_graph(trace([("tpu:0", "o", "compute", 0, 1)]))
    runs = plan(dag, runs_of(dag, (0, 30, 40, 60), (100, 120, 130)))
    lengths = np.array([[10, 4], [30, 3], [20, 20], [20, 10], [10, 5]])
    assert with_tails(runs, lengths).tolist() == [[30, 24], [10, 0], [20, 3], [20, 10], [10, 5]]


def test_a_member_that_ends_in_an_earlier_step_than_the_last_to_start_ends_behind_that_start():
    rows_of = [
        ("tpu:0", "o", "collective", 0, 12),
        ("tpu:1", "o", "compute", 0, 10),
        ("tpu:1", "o", "collective", 10, 20),
    ]
    dag = trace_graph(trace(rows_of), [0, -1, 0])
    op = np.full(len(dag.start), -1, np.int32)
    steps = plan(dag, runs_of(dag, (0, 12, 20)))
    assert replay(dag, steps, [Without(), Without((Part.COMPUTE,))], op).T.tolist() == [[12, 8], [2, 8]]


def test_of_a_row_and_a_call_that_end_at_once_the_path_takes_the_row():
    dag = trace_graph(trace([("gpu:0", "a", "compute", 0, 10, {"correlation_id": 1})], [("t", 0, 10, 1)]))
    assert find_paths(dag, whole(dag, 10), np.array([True])).parts[0, Part.COMPUTE] == 10


def test_of_a_queue_and_a_launch_that_hold_a_row_up_as_long_the_path_takes_the_queue():
    rows_of = [("gpu:0", "a", "compute", start, start + 5, {"correlation_id": start}) for start in (0, 5)]
    dag = trace_graph(trace(rows_of, [("t", 0, 5, 0), ("t", 5, 6, 5)]))
    assert find_paths(dag, whole(dag, 10), np.array([True])).parts[0, Part.COMPUTE] == 10


def test_a_row_without_length_at_the_edge_of_two_steps_is_in_the_later_one():
    dag = trace_graph(trace([("tpu:0", "o", "compute", 0, 15), ("tpu:1", "o", "compute", 10, 10)]))
    step_plan = plan(dag, runs_of(dag, (0, 10), (10, 20)))
    assert (step_plan.first.tolist(), step_plan.node.tolist()) == ([0, 1, 3], [0, 0, 1])


def test_what_nothing_explains_before_a_row_is_kept_whatever_the_host_did_not_do():
    dag = trace_graph(trace([("tpu:0", "o", "compute", 3, 10)]))
    scenarios = [Without(), Without((CALL, WORK), prompt=True), Without(slack=True)]
    assert replay(dag, whole(dag, 10), scenarios, np.full(len(dag.start), -1, np.int32)).tolist() == [[10, 10, 7]]


def test_what_ran_when_a_step_began_holds_up_what_follows_it():
    """Its rest in the step is 10 long, and nothing explains the 5 behind it."""
    dag = trace_graph(trace([("tpu:0", "o", "memcpy", 0, 20), ("tpu:0", "o", "compute", 25, 40)]))
    scenarios = [Without(), Without((Part.MEMCPY,)), Without((Part.COMPUTE,))]
    lengths = replay(dag, plan(dag, runs_of(dag, (10, 40))), scenarios, np.full(len(dag.start), -1, np.int32))
    assert lengths.tolist() == [[30, 20, 15]]


def test_a_step_in_which_nothing_ended_is_explained_by_nothing():
    dag = trace_graph(trace([(f"tpu:{k}", "o", "compute", 0, 20) for k in range(2)]))
    path = find_paths(dag, plan(dag, runs_of(dag, (0, 10, 20))), np.array([True, True]))
    assert path.parts[:, Part.UNEXPLAINED].tolist() == [10, 0]
    assert path.parts[:, Part.COMPUTE].tolist() == [0, 10]


@pytest.mark.parametrize("threads", ["t", "tu"])
def test_a_thread_is_in_the_call_around_the_one_that_the_path_leads_to(threads):
    rows_of, calls = [], []
    for at, thread in enumerate(threads):
        rows_of.append((f"gpu:{at}", "a", "compute", 70, 80 + at, {"correlation_id": at}))
        calls += [(thread, 0, 5, 90), (thread, 10, 100, 91), (thread, 60, 68, at)]
    dag = trace_graph(trace(rows_of, calls))
    parts = find_paths(dag, whole(dag, 80 + len(threads) - 1), np.array([True])).parts[0]
    parts_ps = {Part(part).name: int(time) for part, time in enumerate(parts) if time}
    # Backwards: the row, its launch since 60, the call around since 10, nothing that is recorded, a call of no row.
    assert parts_ps == {
        "COMPUTE": 10 + len(threads) - 1,
        "LAUNCH_LATENCY": 10,
        "HOST_LAUNCH": 50,
        "HOST_UNRECORDED": 5,
        "HOST_WORK": 5,
    }


def test_steps_of_several_runs_have_the_lengths_that_their_own_run_gives():
    dag = trace_graph(trace([("tpu:0", "o", "compute", 2, 10), ("tpu:0", "o", "compute", 20, 27)]))
    lengths = replay(dag, plan(dag, runs_of(dag, (0, 5, 10), (20, 30))), [Without()], np.full(2, -1, np.int32))
    assert lengths.tolist() == [[0], [10], [7]]


@st.composite
def readers(draw):
    """Runs of nodes, each of which may wait for two earlier ones of its run, and by further edges for others."""
    first, predecessor, launch, edge_to, edge_from = [0], [], [], [], []
    for nodes in draw(st.lists(st.integers(0, 9), min_size=1, max_size=3)):
        for node in range(nodes):
            earlier = st.integers(-1, node - 1)
            predecessor.append(draw(earlier))
            launch.append(draw(earlier))
            waited = [x for x in draw(st.lists(earlier, max_size=3)) if x >= 0]
            edge_to += [len(predecessor) - 1] * len(waited)
            edge_from += waited
        first.append(len(predecessor))
    return tuple(np.array(column, np.int32) for column in (first, predecessor, launch, edge_to, edge_from))


@settings(max_examples=100)
@given(readers())
def test_no_more_times_are_kept_than_are_still_to_be_read_and_none_is_overwritten_before(plan_columns):
    first, predecessor, launch, edge_to, edge_from = plan_columns
    slot, live = slots_of_nodes(*plan_columns)
    most = 0
    for base, end in pairwise(first.tolist()):
        read_until = {
            base + int(x): p
            for p in range(base, end)
            for x in (predecessor[p], launch[p], *edge_from[edge_to == p])
            if x >= 0
        }
        for p in range(base, end):
            kept = [x for x in range(base, p + 1) if read_until.get(x, p) > p]
            assert len({slot[x] for x in kept} - {0}) == len(kept)
            most = max(most, len(kept))
    assert live == most + 1
    assert (slot < live).all()
