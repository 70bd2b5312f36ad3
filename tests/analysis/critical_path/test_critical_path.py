"""The critical path of a trace whose answer is known, what it says without evidence, and real traces."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from tests import stepped, traces
from tests.graph_traces import trace
from tests.idle_frames import call, row
from tests.known_path import US, known_trace, path, step_table
from tests.launch_frames import calls, host_spans, work
from tracekit.analysis.critical_path.critical_path import PARTS, PIECES, _kept_pieces, _steps_of, critical_path
from tracekit.analysis.critical_path.graph import graph
from tracekit.analysis.critical_path.longest_path import Part, Paths
from tracekit.analysis.critical_path.stretches import LONGEST, Between, stretches
from tracekit.analysis.critical_path.what_if import MOST_UNEXPLAINED, Removed, refusals
from tracekit.analysis.explain import explain
from tracekit.analysis.steps import steps
from tracekit.columns import concat
from tracekit.timeline.instances import CollectiveInstances, Unseen
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import LAUNCH_COLUMNS, Trace


def test_of_programs_beside_each_other_the_paths_are_those_of_the_one_whose_steps_take_longest():
    def program(process, device, count, length):
        begins = [length * k * US for k in range(count)]
        items = [(device, "compute", at + US, at + (length - 2) * US, at) for at in begins]
        marks = [("step", k, at, at + (length - 1) * US) for k, at in enumerate(begins)]
        first_id = 1000 * int(process)
        return stepped.work(*items, process=process, first_id=first_id), stepped.annotations(*marks, process=process)

    (long, marks), (short, others) = program("1", "gpu:1", 8, 30), program("2", "gpu:0", 20, 10)
    both = tuple(stepped.join(list(frames)) for frames in zip(short, long, strict=True))
    timeline = stepped.timeline(both, stepped.join([others, marks]))
    alone = stepped.timeline(long, marks)
    found, of_one = critical_path(timeline, steps(timeline).table), critical_path(alone, steps(alone).table)
    assert found.steps["name"].unique().tolist() == ["step (process 1)"]
    assert found.total.equals(of_one.total)
    assert found.what_if.equals(of_one.what_if)
    on_device = found.path[found.path["frame"] == "events"]
    assert (timeline.trace.events["device"].iloc[on_device["place"].tolist()] == "gpu:1").all()
    assert found.notes[0] == (
        "Its steps are those of step (process 1), which take longest of 2 programs beside each other."
    )


def test_the_path_of_a_step_goes_through_the_late_peer_and_the_host_that_waited():
    critical_path = path(known_trace(), step_table((0, 87 * US)))
    assert critical_path.lacking == ""
    assert [(row["part"], row["time_ps"] / US) for row in critical_path.total.to_dict("records")] == [
        ("compute", 40 + 4 + 5),
        ("host work", 3 + 9),
        ("collective transfer", 10.0),
        ("memcpy", 8.0),
        ("launch latency", 2 + 2),
        ("host launch", 2.0),
        ("host, nothing recorded", 2.0),
    ]
    pieces = critical_path.path[["part", "on", "name", "start_ps", "end_ps"]].to_numpy(object, na_value=None).tolist()
    assert [(*row[:3], row[3] / US, row[4] / US) for row in pieces] == [
        ("host launch", "t", "call", 0, 2),
        ("host, nothing recorded", "t", "between call and call", 2, 4),
        ("launch latency", "gpu:1", "gemm", 4, 6),
        ("compute", "gpu:1", "gemm", 6, 46),
        ("collective transfer", "gpu:1", "all-reduce", 46, 56),
        ("compute", "gpu:1", "update", 56, 60),
        ("memcpy", "gpu:1", "copy", 60, 68),
        ("host work", "t", "wait", 68, 71),
        ("host work", "t", "until call", 71, 80),
        ("launch latency", "gpu:1", "last", 80, 82),
        ("compute", "gpu:1", "last", 82, 87),
    ]
    (step,) = critical_path.steps.to_dict("records")
    assert (step["wall_ps"], step["unexplained_ps"]) == (87 * US, 0)
    assert step["example"] == "median"


def test_a_pool_has_nothing_to_launch_while_the_thread_that_dispatches_copies_or_waits_for_a_copy():
    """As in a trace of an H100: JAX prepared a copy to the host for 83 ms before a pool's thread launched it, and then
    waited while another thread copied the result on."""
    copies = [row("gpu:0", begin, begin + 10, at, kind="memcpy", name="MemcpyD2H") for at, begin in enumerate((5, 905))]
    launches = calls(*(call(at, begin, begin + 2, "pjrt_async_work_runner/7") for at, begin in enumerate((2, 902))))
    spans = (
        ("PjitFunction(f)", -30, -20),
        ("np.asarray(jax.Array)", 3, 210),
        ("D2H Copy From Staging Buffer", 20, 200, "helper"),
        ("ArrayImpl.copy_to_host_async", 220, 890),
    )
    spans = host_spans(*((name, start * US, end * US, *thread) for name, start, end, *thread in spans))
    own = calls(call(2, -25, -24), call(3, 950, 951))
    events = work(*copies, row("gpu:0", -22, -15, 2), row("gpu:0", 955, 960, 3))
    told = path(Trace(events, launches=concat(LAUNCH_COLUMNS, [launches, own]), spans=spans), step_table((0, 915 * US)))
    parts = {row["part"]: row["time_ps"] / US for row in told.total.to_dict("records")}
    assert parts["host work"] == 180 + 670
    assert parts.get("host, nothing recorded", 0) + parts.get("unexplained", 0) < 50


def test_what_if_takes_from_the_measured_length_what_the_replay_saves():
    critical_path = path(known_trace(), step_table((0, 87 * US)))
    predictions_us = {
        (row["what"] if pd.isna(row["name"]) else row["name"]): row["predicted_ps"] / US
        for row in critical_path.what_if.to_dict("records")
    }
    # What nothing explains stays: 2 us before two kernels, and before the second call, which without the host takes no
    # time either. So gpu:1's gemm begins at 2 without it, and the last kernel 2 us after the copy. Without the gemms
    # the all-reduce begins when it is launched on gpu:1, at 6. Without the last kernel its call ends last, at 82.
    assert predictions_us == {
        "collective_transfers": 77,
        "collectives": 77,
        "copies": 79,
        "host": 87 - (2 + 2 + 3 + 9),
        "gemm": 87 - (42 - 6),
        "all-reduce": 77,
        "copy": 79,
        "last": 82,
        "update": 83,
    }


def test_steps_that_are_left_out_are_not_looked_at_and_work_at_their_edges_is_cut():
    tpu_trace = trace([("tpu:0", "o", "compute", 0, 40), ("tpu:0", "o", "compute", 40, 95)])
    critical_path = path(tpu_trace, step_table((0, 30, "compiles"), (30, 60), (60, 100)))
    assert critical_path.steps[["step", "wall_ps", "unexplained_ps", "example"]].to_numpy(object).tolist() == [
        [1, 30, 0, "median"],
        [2, 40, 5, "longest"],
    ]
    assert critical_path.composition.to_numpy(object).tolist() == [
        [0, "compute", 30, 1.0],
        [1, "compute", 35, 0.875],
        [1, "unexplained", 5, 0.125],
    ]


def test_a_copy_that_was_launched_before_the_first_step_ends_none():
    """It ends last in the step, and nothing waits for it."""
    rows_of = [("gpu:0", "c", "memcpy", 2, 9, {"correlation_id": 9})]
    rows_of += [("gpu:0", "s", "compute", at + 1, at + 5, {"correlation_id": at}) for at in (0, 10, 20)]
    calls = [("t", -5, -4, 9), *(("t", at, at + 1, at) for at in (0, 10, 20))]
    timeline = timeline_of(trace(rows_of, calls, [("t", at, at + 10, "train", at) for at in (0, 10, 20)]))
    assert timeline.steps.step_of.tolist() == [0, -1, 1, 2]
    found = critical_path(timeline, steps(timeline).table).path
    assert "memcpy" not in set(found["part"])


def alike(last: int, wait_until: int | None = None, copies: bool = True) -> Trace:
    """Twelve steps of 100 us, each a kernel of 64, a wait for it and then 28 of the host, of which the last 2 are not
    recorded; the first also launches a copy that ends at `last`. The host waits for it until `wait_until`."""
    rows_of, calls, waits, work_of = [], [], [], []
    for step, at in enumerate(range(0, 1200, 100)):
        rows_of.append(("gpu:0", "s", "compute", at + 6, at + 70, {"correlation_id": step}))
        calls.append(("t", at, at + 2, step))
        waits.append(("t", at + 2 + 2 * (at == 0), at + 72, None, None, "gpu:0", "s", at + 2))
        work_of.append(("t", at + 72, at + 98))
    if copies:
        rows_of.append(("gpu:0", "c", "memcpy", 8, last, {"correlation_id": 9}))
        calls.append(("t", 2, 4, 9))
    if wait_until:
        waits.append(("t", wait_until - 20, wait_until, None, None, "gpu:0", "c", 4))
        work_of = [times for times in work_of if times[2] != wait_until + 8]
    rows_of = [(*row[:3], row[3] * US, row[4] * US, row[5]) for row in rows_of]
    calls = [(thread, start * US, end * US, number) for thread, start, end, number in calls]
    waits = [(*wait[:1], wait[1] * US, wait[2] * US, *wait[3:7], wait[7] * US) for wait in waits]
    work_of = [(thread, start * US, end * US) for thread, start, end in work_of]
    marks = [("t", at * US, (at + 100) * US, "train", at // 100) for at in range(0, 1200, 100)]
    return trace(rows_of, sorted(calls, key=lambda call: call[1]), marks, waits, host_work=work_of)


def parts_of(found, step: int) -> dict[str, int]:
    own = found.composition[found.composition["at"] == step]
    return {part: time // US for part, time in zip(own["part"], own["time_ps"], strict=True)}


@pytest.mark.parametrize("last", [345, 385, 399], ids=["in the wait", "in the work", "in what is not recorded"])
def test_a_copy_of_an_earlier_step_that_nothing_waits_for_changes_neither_path_nor_what_if(last):
    timeline, without = timeline_of(alike(last)), timeline_of(alike(last, copies=False))
    found, plain = (critical_path(each, steps(each).table) for each in (timeline, without))
    for step in range(1, 12):
        assert parts_of(found, step) == parts_of(plain, step)
    for what in ("host", "copies", "op"):
        ratios = found.step_what_if[found.step_what_if["what"] == what].set_index("at")["ratio"]
        assert ratios.loc[1:].nunique() == 1


def test_a_copy_of_an_earlier_step_that_the_host_waits_for_is_on_the_path_of_the_step_that_did():
    found = critical_path(timeline := timeline_of(alike(388, wait_until=390)), steps(timeline).table)
    assert parts_of(found, 3)["memcpy"] == 88
    of_copies = found.what_if.set_index("what").loc["copies"]
    assert of_copies["predicted_ps"] < of_copies["measured_ps"]


def two_ranks(save_us: int) -> Trace:
    """Two threads of twelve steps of 100 us, each a kernel of 64 on a device of its own, a wait for it and 28 of host
    work. In the fourth, the second one works on for `save_us`, while the first has launched the next kernel, which then
    waits for the other device as long."""
    rows_of, calls, waits, work_of, marks = [], [], [], [], []
    for rank, thread in enumerate("tu"):
        for step in range(12):
            at, end = 100 * step + save_us * (step > 3), 100 * step + 100 + save_us * (step >= 3)
            if rank == 0:
                at, end = (at - save_us if step == 4 else at), (end - save_us if step == 3 else end)
            row_end = end - 30 - save_us * (rank == 1 and step == 3)
            number = 100 * rank + step
            rows_of.append((f"gpu:{rank}", "s", "compute", at + 6, row_end, {"correlation_id": number}))
            calls.append((thread, at, at + 2, number))
            waits.append((thread, at + 2, row_end + 2, None, None, f"gpu:{rank}", "s", at + 2))
            work_of.append((thread, row_end + 2, end))
            marks.append((thread, at * US, end * US, "train", step))
    rows_of = [(*row[:3], row[3] * US, row[4] * US, row[5]) for row in rows_of]
    calls = sorted((thread, start * US, end * US, number) for thread, start, end, number in calls)
    waits = [(wait[0], wait[1] * US, wait[2] * US, *wait[3:7], wait[7] * US) for wait in waits]
    work_of = [(thread, start * US, end * US) for thread, start, end in work_of]
    return trace(rows_of, sorted(calls, key=lambda call: call[1]), marks, waits, host_work=work_of)


def test_a_step_that_the_host_of_one_rank_ends_is_on_that_thread_with_what_it_did():
    """Though the other one's last call was later, for the next step."""
    found = critical_path(timeline := timeline_of(two_ranks(50)), steps(timeline).table)
    assert found.steps["wall_ps"].tolist() == [(100 + 50 * (step == 3)) * US for step in range(12)]
    assert found.steps["example"].tolist()[3] == "longest"
    own = found.path[found.path["at"] == 3]
    assert own[["part", "on", "name", "start_ps", "end_ps"]].to_numpy(object, na_value=None).tolist() == [
        ["launch latency", "gpu:1", "compute", 300 * US, 306 * US],
        ["compute", "gpu:1", "compute", 306 * US, 370 * US],
        ["host work", "u", "wait", 370 * US, 372 * US],
        ["host work", "u", "after wait", 372 * US, 450 * US],
    ]
    assert parts_of(found, 11) == {"compute": 64, "host work": 30, "launch latency": 6}


def test_without_the_host_no_step_takes_less_than_its_devices():
    found = critical_path(timeline := timeline_of(two_ranks(50)), steps(timeline).table)
    table = found.step_what_if[found.step_what_if["what"] == "host"]
    # The fifth kernel of the first rank takes 114: no row is a collective that would wait for the other one.
    assert [predicted // US for predicted in table["predicted_ps"]] == [64, 64, 64, 64, 114, *[64] * 7]


@pytest.mark.parametrize(
    ("row_end", "marked_by", "wait", "last"),
    [
        (70, "t", None, ("host, nothing recorded", "t", "after call")),
        (70, "t", (30, 75), ("host, nothing recorded", "t", "after call")),
        (10, "t", (30, 90), ("unexplained", "gpu:0", "after compute")),
        (70, "another", None, ("unexplained", "gpu:0", "after compute")),
    ],
    ids=[
        "silent",
        "in a wait for the work",
        "in a wait for something unknown",
        "ended by a thread that launches nothing",
    ],
)
def test_a_step_that_ends_when_all_work_is_done_was_ended_by_its_thread_as_far_as_that_is_known(
    row_end, marked_by, wait, last
):
    """Steps of 100 us, each a kernel from 6 to `row_end`, and a wait of which only the name is known."""
    ats = (0, 100, 200)
    rows_of = [("gpu:0", "s", "compute", (at + 6) * US, (at + row_end) * US, {"correlation_id": at}) for at in ats]
    calls = [("t", at * US, (at + 2) * US, at) for at in ats]
    spans = [(marked_by, at * US, (at + 100) * US, "train", at // 100) for at in ats]
    spans += [("t", (at + wait[0]) * US, (at + wait[1]) * US, "Wait for it") for at in ats if wait]
    found = critical_path(timeline := timeline_of(trace(rows_of, calls, spans)), steps(timeline).table)
    pieces = (
        found.path.loc[found.path["at"] == 1, ["part", "on", "name", "start_ps", "end_ps"]].to_numpy(object).tolist()
    )
    assert pieces == [
        ["launch latency", "gpu:0", "compute", 100 * US, 106 * US],
        ["compute", "gpu:0", "compute", 106 * US, (100 + row_end) * US],
        [*last, (100 + row_end) * US, 200 * US],
    ]


def test_without_steps_all_rows_of_each_clock_are_one():
    two_clocks = trace(
        [
            ("a/gpu:0", "s", "compute", 5, 9, {"clock": "a"}),
            ("a/gpu:0", "s", "compute", 9, 12, {"clock": "a"}),
            ("b/gpu:0", "s", "compute", 100, 103, {"clock": "b"}),
        ]
    )
    events = two_clocks.events.assign(host=pd.Categorical(["a", "a", "b"]))
    critical_path = path(Trace(events=events))
    columns = ["clock", "start_ps", "end_ps", "unexplained_ps"]
    assert critical_path.steps[columns].to_numpy(object).tolist() == [["a", 5, 12, 0], ["b", 100, 103, 0]]


@pytest.mark.parametrize(
    ("begin_us", "saved_us"),
    [(100, 202), (310, 300), (2000, 0)],
    ids=["while it runs", "right after it", "long after it"],
)
def test_a_thread_begins_to_wait_when_it_did_whatever_becomes_of_what_it_waits_for(begin_us, saved_us):
    """Nothing is recorded of what the host did before; right after work ended, it may have been a wait for that too."""
    end_us = max(begin_us, 302) + 2
    events = [("gpu:0", "s", "compute", 2 * US, 302 * US, {"name": "gemm", "correlation_id": 0})]
    last = ("gpu:0", "s", "compute", (end_us + 3) * US, (end_us + 13) * US, {"name": "tail", "correlation_id": 1})
    launches = [("t", 0, 2 * US, 0), ("t", (end_us + 1) * US, (end_us + 3) * US, 1)]
    waits = [("t", begin_us * US, end_us * US, None, None, "gpu:0", "s", begin_us * US)]
    what_if = path(trace([*events, last], launches, (), waits)).what_if
    of_gemm = what_if[what_if["name"] == "gemm"]  # what is on no path is not tried
    assert (of_gemm["measured_ps"] - of_gemm["predicted_ps"]).sum() == saved_us * US


def test_where_too_little_is_explained_no_what_if_is_told():
    two_gpus = trace([("gpu:0", "s", "compute", 0, 10), ("gpu:1", "s", "compute", 30, 40)])
    critical_path = path(two_gpus)
    assert critical_path.steps["unexplained_ps"].tolist() == [30]
    assert MOST_UNEXPLAINED * 40 < 30
    assert critical_path.what_if["predicted_ps"].isna().all()
    assert set(critical_path.what_if["reason"]) == {"no dependency explains 75.0 % of the critical path"}
    assert critical_path.step_what_if["predicted_ps"].isna().all()


def test_where_delays_that_nothing_explains_decide_no_what_if_is_told():
    # gpu:1 begins at 5, nobody knows why: without the first kernel the step may take 95 as well as 90.
    rows_of = [("gpu:0", "s", "compute", 0, 100), ("gpu:1", "s", "compute", 5, 95)]
    for start, ratio in ((5, None), (2, 0.92)):
        rows_of[1] = ("gpu:1", "s", "compute", start, start + 90, {"name": "other"})
        what_if = path(trace(rows_of)).what_if.iloc[0]
        assert what_if["what"] == "op"
        if ratio is None:
            assert pd.isna(what_if["predicted_ps"])
            assert what_if["reason"] == "delays that nothing explains change it by 5.0 %"
        else:
            assert what_if["ratio"] == ratio


@pytest.mark.parametrize("known_launches", [False, True])
def test_without_any_launch_it_is_not_known_what_streams_waited_for(known_launches):
    # The second kernel may wait for the copy of the other stream: without launches nothing tells.
    rows_of = [
        ("gpu:0", "s", "compute", 1, 50),
        ("gpu:0", "t", "memcpy", 50, 55),
        ("gpu:0", "s", "compute", 55, 101),
    ]
    calls = [("t", 0, 1, 7)] if known_launches else []
    if known_launches:
        rows_of[0] = (*rows_of[0], {"correlation_id": 7})
    what_if = path(trace(rows_of, calls)).what_if.set_index("what")
    expected = "no launch of the devices' work is known, so neither is what 5.0 % of the time waited for"
    assert (what_if.loc["copies", "reason"] == expected) is not known_launches


def test_what_the_host_waited_for_unknown_to_anybody_may_be_what_is_removed():
    # The thread waits, nobody knows for what, in 60 of 100: that may be the copy.
    rows_of = [
        ("gpu:0", "c", "memcpy", 2, 20, {"correlation_id": 1}),
        ("gpu:0", "s", "compute", 92, 100, {"correlation_id": 2}),
    ]
    calls = [("t", 0, 1, 1), ("t", 90, 91, 2)]
    waits = [("t", 30 * US, 90 * US, None, None, None, None, None)]
    scaled = [(*row[:3], row[3] * US, row[4] * US, row[5]) for row in rows_of]
    launches = [(thread, start * US, end * US, number) for thread, start, end, number in calls]
    critical_path = path(trace(scaled, launches, syncs=waits))
    assert dict(zip(critical_path.total["part"], critical_path.total["ratio"], strict=True))["unexplained"] > 0.5
    copies = critical_path.what_if.set_index("what").loc["copies"]
    assert pd.isna(copies["ratio"])
    assert copies["reason"].startswith("no dependency explains")


@pytest.mark.parametrize(("lost", "is_refused"), [(0, False), (1, False), (2, True)])
def test_where_few_collectives_lack_a_rank_what_would_be_without_them_is_told(lost, is_refused):
    every = [("gpu:0", "s", "collective", at, at + 1) for at in range(30)]
    rows, paths = timeline_of(trace(every)).rows, Paths(np.eye(1, len(Part), dtype=np.int64) * 30, *[np.zeros(0)] * 6)
    numbers = np.arange(30)
    instances = CollectiveInstances(numbers, numbers, numbers, numbers, numbers >= lost, ("all-reduce",), ())
    tried = [(Removed.COLLECTIVES, None)]
    for needed, refused in ((numbers >= 0, is_refused), (numbers >= lost, False)):
        (reason,) = refusals(rows, instances, Unseen.RANKS, needed, paths, np.full((1, 4), 30), tried)
        expected = "the trace does not show all ranks of its collectives, so what these waited for is not known"
        assert reason == (expected if refused else "")


@pytest.mark.parametrize(
    ("saved_ps", "lost", "is_refused"), [(0, 9, False), (30, 9, False), (31, 9, True), (31, 0, False)]
)
def test_what_other_ranks_may_take_is_not_said_to_be_saved(saved_ps, lost, is_refused):
    every = [("gpu:0", "s", "collective", at, at + 1) for at in range(30)]
    rows, paths = timeline_of(trace(every)).rows, Paths(np.eye(1, len(Part), dtype=np.int64) * 1000, *[np.zeros(0)] * 6)
    numbers = np.arange(30)
    instances = CollectiveInstances(numbers, numbers, numbers, numbers, numbers >= lost, ("all-reduce",), ())
    lengths = np.array([[1000, 1000 - saved_ps] * 2])
    (reason,) = refusals(rows, instances, Unseen.RANKS, numbers >= 0, paths, lengths, [(Removed.OP, "gemm")])
    expected = "the trace does not show all ranks of its collectives, so when other ranks would have come is not known"
    assert reason == (expected if is_refused else "")


def test_work_on_an_unknown_device_takes_its_time_whatever_is_removed():
    what_if = path(trace([("cpu:1", "p", "memcpy", 0, 10), ("cpu:?", "p", "compute", 0, 10)])).what_if.set_index("what")
    assert what_if["predicted_ps"].to_dict() == {"copies": 10, "op": 10}


def test_of_copies_whose_device_is_unknown_no_what_if_is_told():
    # cpu:? copies: what waited for them may be anything.
    critical_path = path(trace([("cpu:1", "p", "compute", 0, 10), ("cpu:?", "p", "memcpy", 0, 9)]))
    what_if = critical_path.what_if.set_index("what")[["predicted_ps", "reason"]]
    assert what_if.loc["copies", "reason"] == "it is not known what waited for the 1 copies on cpu:?"
    assert what_if["predicted_ps"].isna().to_dict() == {"copies": True, "op": False}
    assert critical_path.step_what_if["predicted_ps"].isna().tolist() == [True, False]


def test_a_collective_whose_peers_the_trace_lacks_holds_its_waiting():
    lone_collective = trace([("gpu:0", "s", "collective", 0, 10, {"category": "all-reduce"})])
    assert path(lone_collective).total["part"].tolist() == ["collective, waiting included"]


def test_what_the_times_contradict_is_noted():
    contradictory = trace(
        [("gpu:0", "s", "compute", 3, 10, {"correlation_id": 1})],
        [("t", 5, 6, 1)],
        [],
        [("t", 7, 99 * 10**6, *[None] * 5)],
    )
    assert path(contradictory).notes == (
        "1 of 1 dependencies (launch) was dropped: the measured times contradict it.",
        "1 wait of the host could not be attributed: on a critical path that time is unexplained.",
    )


NO_DEVICE = "The trace holds no work of a known device, so it has no critical path."


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([], "The trace holds no work of a known device, so it has no critical path."),
        (
            [("cpu:?", "s", "memcpy", 0, 5)],
            "The trace holds no work of a known device, so it has no critical path.",
        ),
        ([("gpu:0", "s", "compute", 5, 5)], "All work of the trace takes no time, so there is no path through it."),
    ],
)
def test_without_work_the_reason_is_told(events, why):
    critical_path = path(trace(events))
    assert critical_path.lacking == why
    assert len(critical_path.steps) == len(critical_path.path) == len(critical_path.what_if) == 0


@pytest.mark.parametrize("window_us", [None, (40, 60), (190, 300)])
def test_launches_and_waits_of_a_time_without_rows_have_no_path(window_us):
    rows = [("gpu:0", "s", "compute", 100 * US, 110 * US, {"correlation_id": 0})]
    calls = [("t", 0, US, 0), ("t", 50 * US, 51 * US, 1), ("t", 200 * US, 201 * US, 2)]
    waits = [("t", 45 * US, 111 * US, None, None, "gpu:0", "s", None)]
    any_trace = trace(rows if window_us else [], calls, [("t", 0, 300 * US)], waits)
    windows = window_us and (window_us[0] * US, window_us[1] * US)
    assert explain(any_trace, windows=windows).critical_path.lacking == NO_DEVICE


def test_the_frames_are_left_as_they_were():
    source = known_trace()
    before = [frame.copy(deep=True) for frame in (source.events, source.launches, source.spans, source.syncs)]
    path(source)
    for frame_before, frame_after in zip(
        before, (source.events, source.launches, source.spans, source.syncs), strict=True
    ):
        pd.testing.assert_frame_equal(frame_before, frame_after)


@cache
def whole(case):
    """The path through the whole of a trace, as one step."""
    return path(traces.timeline(case))


@pytest.mark.parametrize(
    "case",
    traces.cases(
        "generated/gpu.xplane.pb",
        "generated/gpu.trace.json.gz",
        "generated/rocm.xplane.pb",
        "generated/tpu.xplane.pb",
        "generated/kineto",
        "generated/gpu.sqlite",
        "xplane/tpu-v6e-4chip",
        "xplane/jax-8xMI300X",
        "chrome/jax-tpu-2chip-vllm",
        "kineto/dlrm-8xV100",
        "kineto/hta-nccl_data-A100",
        "nsys/mfu_2gpu_before-2xH100",
    ),
)
def test_the_parts_sum_to_the_length_of_a_trace_and_no_what_if_is_longer(case):
    critical_path = whole(case)
    assert critical_path.composition["time_ps"].sum() == critical_path.steps["wall_ps"].sum()
    assert set(critical_path.total["part"]) <= set(PARTS.values())
    predicted = critical_path.what_if.dropna(subset=["predicted_ps"])
    assert (predicted["predicted_ps"] <= predicted["measured_ps"]).all()


# An execution on the TPUs is 400 us of additions, 340 us of the copy that starts after them, and a gather of 75 us. Its
# call comes 125 us or more after the work of the one before, and nothing tells why.
@pytest.mark.parametrize("case", ["generated/tpu.xplane.pb", "generated/tpu.trace.json.gz"])
def test_three_executions_with_idle_time_between_them_are_their_chain_and_the_host_of_which_nothing_is_recorded(case):
    parts = whole(case).total.set_index("part")["time_ps"] // 10**6
    assert (parts[["compute", "memcpy", "collective transfer"]] == [3 * 400, 3 * 340, 3 * 75]).all()
    assert 2 * 125 < parts["host, nothing recorded"] + parts.get("unexplained", 0) < 2 * 185


def test_a_host_that_runs_ahead_is_on_no_path_but_the_first():
    # Six steps of 100 us on the device, each launched within 5 us; the host needs 10 us a step.
    rows_of, calls, annotations = [], [], []
    for step in range(6):
        annotations.append(("t", 10 * step * US, (10 * step + 9) * US, "train", step))
        for part in range(2):
            begin = 10 * step + 3 * part
            calls.append(("t", begin * US, (begin + 2) * US, 2 * step + part))
            start = 10 + 100 * step + 50 * part
            row = {"correlation_id": 2 * step + part, "name": "ab"[part]}
            rows_of.append(("gpu:0", "s", "compute", start * US, (start + 49) * US, row))
    timeline = timeline_of(trace(rows_of, calls, annotations))
    result = critical_path(timeline, timeline.steps.table.assign(left_out=pd.Series([None] * 6, dtype="str")))
    parts = result.composition.pivot_table(index="at", columns="part", values="time_ps", fill_value=0) / US
    assert parts.loc[1:, "compute"].tolist() == [98] * 5
    assert parts.loc[1:, "queue gap"].tolist() == [2] * 5
    assert parts.loc[1:].drop(columns=["compute", "queue gap"]).to_numpy().sum() == 0
    assert result.busy_ratio == 6 * 98 / (10 + 6 * 100 - 1)
    # A device that did nothing in the steps is not told of.
    aside = ("gpu:1", "s", "compute", 5000 * US, 5001 * US)
    beside = timeline_of(trace([*rows_of, aside], calls, annotations))
    table = timeline.steps.table.assign(left_out=pd.Series([None] * 6, dtype="str"))
    assert critical_path(beside, table).busy_ratio == result.busy_ratio
    assert result.queued_ratio == 11 / 12
    assert result.is_device_bound
    # Without one of the two kernels each step takes half; the first row still comes at 10.
    predicted = result.what_if.set_index("name")["predicted_ps"] / US
    assert predicted[["a", "b"]].tolist() == [609 - 6 * 49] * 2


@pytest.mark.parametrize(("kind", "is_bound"), [("compute", True), ("memcpy", False)])
def test_copies_that_are_most_of_a_path_make_it_no_device_bound_one(kind, is_bound):
    rows_of = [("gpu:0", "s", "compute", 2 * US, 12 * US, {"correlation_id": 0})]
    rows_of += [("gpu:0", "s", kind, at * 12 * US, (at * 12 + 12) * US, {"correlation_id": at}) for at in range(1, 20)]
    result = path(trace(rows_of, [("t", at * US // 20, (at + 1) * US // 20, at) for at in range(20)]))
    assert result.queued_ratio >= 0.9
    assert result.is_device_bound is is_bound


@pytest.mark.parametrize(
    ("queued", "host_work", "compute", "is_bound"),
    [(0.9, 0.09, 0.7, True), (0.89, 0.09, 0.7, False), (0.9, 0.11, 0.7, False), (0.9, 0.09, 0.5, False)],
)
def test_a_run_is_device_bound_whose_work_was_launched_ahead_and_is_most_of_its_paths(
    queued, host_work, compute, is_bound
):
    total = pd.DataFrame({"part": ["host work", "compute"], "ratio": [host_work, compute]})
    assert replace(path(known_trace()), queued_ratio=queued, total=total).is_device_bound is is_bound


@pytest.mark.parametrize(("gap_us", "part"), [(10, "queue gap"), (11, "unexplained")])
def test_a_queued_row_that_starts_promptly_has_a_queue_gap(gap_us, part):
    rows_of = [
        ("gpu:0", "s", "compute", 5 * US, 50 * US, {"correlation_id": 0}),
        ("gpu:0", "s", "compute", (50 + gap_us) * US, 80 * US, {"correlation_id": 1}),
    ]
    parts = path(trace(rows_of, [("t", 0, 2 * US, 0), ("t", 2 * US, 4 * US, 1)])).total.set_index("part")["time_ps"]
    assert parts[part] == gap_us * US


@pytest.mark.parametrize(
    ("next_us", "host_work_us"),
    # A frame holds all calls. The thread is silent from 20 us on, its kernel ends at 200 us; it goes on 40 us after
    # that, as one that waited, or 60 us, as one that worked all the time.
    [(240, 40), (260, 240)],
)
def test_a_frame_around_a_silent_wait_is_no_proof_of_work(next_us, host_work_us):
    rows_of = [
        ("gpu:0", "s", "compute", 10 * US, 200 * US, {"correlation_id": 0}),
        ("gpu:0", "s", "compute", (next_us + 5) * US, 400 * US, {"correlation_id": 1}),
    ]
    calls = [("t", 5 * US, 20 * US, 0), ("t", next_us * US, (next_us + 5) * US, 1)]
    total = path(trace(rows_of, calls, [("t", 0, 400 * US, "frame")])).total.set_index("part")["time_ps"] / US
    # From 10 us on; the call of the second kernel takes 5 us.
    assert total["host work"] == host_work_us
    assert total["compute"] == 400 - next_us - 5 + (190 if host_work_us == 40 else 0)


def test_a_stretch_is_named_by_the_wait_of_its_own_thread_or_else_of_another_one_of_its_host():
    rows_of = [
        ("gpu:0", "s", "compute", 5 * US, 20 * US, {"correlation_id": 0}),
        ("gpu:0", "s", "compute", 105 * US, 110 * US, {"correlation_id": 1}),
    ]
    launches = [("t", 0, 2 * US, 0, "first"), ("t", 100 * US, 102 * US, 1, "second")]
    spans = [
        ("t", 30 * US, 70 * US, "Wait for it"),
        ("u", 10 * US, 99 * US, "Wait for more"),
        ("u", 25 * US, 95 * US, "work"),
        ("t", 10 * US, 99 * US, "Wait elsewhere"),
        ("t", 71 * US, 72 * US, "Wait a little"),
    ]
    whole = trace(rows_of, launches, spans)
    elsewhere = whole.spans.assign(host=pd.Categorical(["h", "h", "h", "elsewhere", "h"]))
    result = path(replace(whole, spans=elsewhere))
    assert [
        (row["part"], row["span_on"], row["span"], row["waits"], row["start_ps"] // US, row["end_ps"] // US)
        for row in result.unexplained.to_dict("records")
    ] == [
        ("unexplained", "t", "Wait for it", True, 30, 70),
        ("host, nothing recorded", "u", "Wait for more", True, 72, 100),
        ("host, nothing recorded", "u", "Wait for more", True, 20, 30),
        ("unexplained", "t", "Wait a little", True, 71, 72),
        ("host, nothing recorded", "u", "Wait for more", True, 70, 71),
    ]
    assert set(result.unexplained["on"] + result.unexplained["after"] + result.unexplained["until"]) == {"tfirstsecond"}


def test_what_the_host_does_ahead_is_of_the_step_for_which_it_does_it():
    """The host is through four steps before the device is through the first; its last call of each launches nothing."""
    annotations = [("t", 10 * step, 10 * step + 10, "train", step) for step in range(4)]
    calls = [("t", 10 * step + at, 10 * step + at + 2, step if at else None) for step in range(4) for at in (3, 0)]
    rows_of = [
        ("gpu:0", "s", "compute", 100 * step + 5, 100 * step + 90, {"correlation_id": step}) for step in range(4)
    ]
    timeline = timeline_of(trace(rows_of, sorted(calls), annotations))
    dag = graph(timeline)
    for counted, expected in (([0, 1, 2, 3], [0, 1, 2, 3]), ([1, 3], [0, 0, 1, 1])):
        table = timeline.steps.table.iloc[counted].reset_index(drop=True).assign(clock="")
        step_of = _steps_of(timeline, dag, table)
        of_rows = step_of[dag.first[3] : dag.first[4]]
        assert of_rows.tolist() == expected
        of_calls = {int(start): int(step) for start, step in zip(dag.start[: dag.first[1]], step_of, strict=False)}
        assert of_calls == {10 * step + at: expected[step] for step in range(4) for at in (0, 3)}


def test_of_each_step_the_longest_stretches_are_named():
    count = LONGEST + 2
    step = np.repeat(np.arange(3, dtype=np.int32), count)
    start = np.arange(len(step)) * 100
    length = np.tile(np.arange(1, count + 1), 3)
    nothing, part = np.zeros(0, np.int64), np.full(len(step), Part.UNEXPLAINED, np.int8)
    paths = Paths(nothing, nothing, step, step, part, start, start + length)
    lies = {place: Between("gpu:0", "h", "a", "b", None) for place in range(len(step))}
    table = stretches(paths, lies, host_spans())
    longest = list(range(count, count - LONGEST, -1))
    assert list(zip(table["at"], table["time_ps"], strict=True)) == [(at, long) for at in range(3) for long in longest]


def test_of_each_step_the_longest_pieces_are_kept_in_order_of_time():
    count = PIECES + 9
    length = 1 + np.random.default_rng(1).permutation(2 * count)
    end, step = np.cumsum(length), np.repeat(np.arange(2, dtype=np.int32), count)
    nothing, part = np.zeros(0, np.int64), np.full(len(step), Part.COMPUTE, np.int8)
    backwards = [each[::-1] for each in (step, step, part, end - length, end)]
    kept = _kept_pieces(Paths(nothing, nothing, *backwards))
    longest = [sorted(range(at, at + count), key=lambda piece: -length[piece])[:PIECES] for at in (0, count)]
    assert (len(step) - 1 - kept).tolist() == [piece for pieces in longest for piece in sorted(pieces)]


def test_a_result_is_shown_in_a_line():
    assert repr(path(known_trace(), step_table((0, 87 * US)))).startswith("<CriticalPath: steps 1, ")


def test_a_stretch_is_during_a_wait_that_is_most_of_it_or_until_one_that_begins_later():
    rows_of = [
        ("gpu:0", "s", "compute", 5 * US, 20 * US, {"correlation_id": 0}),
        ("gpu:0", "s", "compute", 105 * US, 110 * US, {"correlation_id": 1}),
    ]
    launches = [("t", 0, 2 * US, 0, "first"), ("t", 100 * US, 102 * US, 1, "second")]
    unknown = ("t", 30 * US, 90 * US, None, None, None, None, None)
    columns = ["after", "until", "during", "start_ps", "end_ps"]
    found = path(trace(rows_of, launches, syncs=[unknown])).unexplained[columns].to_numpy(object, na_value=None)
    assert sorted(found.tolist(), key=lambda row: row[3]) == [
        ["first", "wait", None, 5 * US, 30 * US],
        [None, None, "wait", 30 * US, 90 * US],
        ["wait", "second", None, 90 * US, 100 * US],
    ]


def test_a_stretch_may_lie_before_the_first_call_but_where_nothing_ends_it_lies_nowhere():
    rows_of = [("gpu:0", "s", "compute", 60 * US, 70 * US, {"correlation_id": 0})]
    result = path(trace(rows_of, [("t", 50 * US, 52 * US, 0, "first")]), step_table((0, 20 * US), (20 * US, 90 * US)))
    columns = ["at", "part", "on", "after", "until", "start_ps", "end_ps"]
    assert result.unexplained[columns].to_numpy(object, na_value=None).tolist() == [
        [1, "host, nothing recorded", "t", None, "first", 20 * US, 50 * US],
        [1, "unexplained", "gpu:0", "compute", None, 70 * US, 90 * US],
    ]


@pytest.mark.parametrize("known_waits", range(3))
def test_a_pool_waits_while_the_thread_does_that_dispatches_its_programs(known_waits):
    rows_of = [
        ("gpu:0", "s", "compute", 5 * US, 20 * US, {"correlation_id": 0}),
        ("gpu:0", "s", "compute", 205 * US, 210 * US, {"correlation_id": 1}),
    ]
    launches = [("pool", 0, 2 * US, 0, "first"), ("pool", 200 * US, 202 * US, 1, "second")]
    spans = [("python", -30 * US, -20 * US, "PjitFunction(f)"), ("python", 90 * US, 150 * US, "Wait for it")]
    syncs = [("pool", (3 + at) * US, (4 + at) * US, None, None, "gpu:0", "s", None) for at in range(known_waits)]
    total = path(trace(rows_of, launches, spans, syncs)).total.set_index("part")["time_ps"] / US
    assert (total["unexplained"], total["host, nothing recorded"]) == (60, 200 - 20 - 60)


@pytest.mark.parametrize("end_us", [92, 105])
def test_a_path_through_a_call_around_others_says_during_what(end_us):
    rows_of = [("gpu:0", "s", "compute", 70 * US, 80 * US, {"correlation_id": 1})]
    launches = [
        ("t", 0, 5 * US, 7, "first"),
        ("t", 10 * US, end_us * US, 8, "around"),
        ("t", 60 * US, 68 * US, 1, "own"),
    ]
    found = path(trace(rows_of, launches), step_table((0, 80 * US))).path
    assert found[["part", "on", "name", "time_ps"]].to_numpy(object).tolist() == [
        ["host work", "t", "first", 5 * US],
        ["host, nothing recorded", "t", "between first and own", 5 * US],
        ["host launch", "t", "during around", 50 * US],
        ["launch latency", "gpu:0", "compute", 10 * US],
        ["compute", "gpu:0", "compute", 10 * US],
    ]


@pytest.mark.parametrize(
    ("last_call", "spans", "parts"),
    [
        # Its work ended at 50, the thread went on at 58: 8 us nobody knows of, and 2 of the launch.
        (58, [], {"compute": 45 + 20, "host, nothing recorded": 8, "launch latency": 2}),
        # Since 53 it is known to have worked.
        (
            58,
            [("t", 53 * US, 58 * US)],
            {"compute": 45 + 20, "host work": 5, "host, nothing recorded": 3, "launch latency": 2},
        ),
        # It worked when its kernel ended, and stood still later.
        (
            58,
            [("t", 20 * US, 52 * US)],
            {"compute": 20, "host work": 32, "host, nothing recorded": 15 + 6, "launch latency": 2},
        ),
        # It stood still for 6 us only: that is no wait.
        (10, [], {"compute": 45 + 20, "queue gap": 10}),
    ],
)
def test_a_thread_that_stood_still_until_its_work_was_done_waited_for_it(last_call, spans, parts):
    rows_of = [
        ("gpu:0", "s", "compute", 5 * US, 50 * US, {"correlation_id": 0}),
        ("gpu:0", "s", "compute", 60 * US, 80 * US, {"correlation_id": 1}),
    ]
    calls = [("t", 2 * US, 4 * US, 0), ("t", last_call * US, (last_call + 1) * US, 1)]
    result = path(trace(rows_of, calls, spans))
    assert dict(zip(result.total["part"], result.total["time_ps"] / US, strict=True)) == parts


@pytest.mark.parametrize(("work_us", "waited"), [(45, 0), (145, 145)])
def test_a_thread_whose_waits_are_recorded_waits_for_nothing_while_it_rests_between_two_launches(work_us, waited):
    """It launches as soon as it can, and each kernel is done before the next launch: none of them holds it up."""
    rows_of, calls, launched_at = [], [], 0
    for number in range(3):
        done_at = (launched_at + 5 + work_us) * US
        rows_of.append(("gpu:0", "s", "compute", (launched_at + 5) * US, done_at, {"correlation_id": number}))
        calls.append(("t", launched_at * US, (launched_at + 2) * US, number))
        launched_at += work_us + 15
    syncs = [("t", done_at - US, done_at + US, None, None, "gpu:0", "s", None)]
    total = path(trace(rows_of, calls, syncs=syncs)).total.set_index("part")["time_ps"] / US
    assert total["compute"] == 2 * waited + work_us


@traces.needs_real
def test_tpus_that_never_stand_still_are_explained_and_without_collectives_only_their_own_work_is_left():
    case = "chrome/jax-tpu-2chip-vllm"
    source, critical_path = traces.trace(case), whole(case)
    (step,) = critical_path.steps.to_dict("records")
    assert step["unexplained_ps"] < step["wall_ps"] / 1000
    # Without collectives, waiting for nobody, the slower chip does its other work in one go, but for what nothing
    # explains. Of the pairs of copies
    # that ran beside it, four were waited for; the others cost what their done took.
    events = source.events[(source.events["kind"] == "compute")]
    work = (events["end_ps"] - events["start_ps"]).groupby(events["device"], observed=True).sum()
    (without,) = critical_path.what_if.loc[critical_path.what_if["what"] == "collectives", "predicted_ps"]
    assert 0 <= without - work.max() < step["wall_ps"] / 500


@traces.needs_real
def test_an_h100_is_never_busy_longer_than_the_path_explains():
    case = "nsys/mfu_2gpu_before-2xH100"
    events, critical_path = traces.trace(case).events, whole(case)
    # Each GPU has one stream, so its rows are one chain; all of it but the waiting in collectives must be explained.
    own = events[events["kind"] != "collective"]
    chain = (own["end_ps"] - own["start_ps"]).groupby(own["device"], observed=True).sum()
    assert critical_path.steps["wall_ps"].iloc[0] - critical_path.steps["unexplained_ps"].iloc[0] >= chain.max()
    assert np.isclose(critical_path.total.set_index("part")["ratio"].sum(), 1)


@pytest.mark.parametrize(
    ("case", "most_ratio"),
    [
        # ROCm's calls are joined to their thread, and PyTorch's operators are work of the host.
        traces.param("xplane/jax-MI300X-gemm", 0.01),
        traces.param("kineto/hta-df_index_resolver", 0.1),
        traces.param("kineto/hta-nccl_data-A100", 0.01),
    ],
)
def test_of_real_traces_little_of_the_path_has_no_evidence(case, most_ratio):
    parts = whole(case).total.set_index("part")["ratio"]
    assert parts.get("unexplained", 0) <= most_ratio
    assert parts["host work"] >= 0.5


@traces.needs_real
def test_what_has_no_evidence_in_a_real_trace_is_named_by_the_wait_of_its_program():
    case = whole("xplane/jax-8xMI300X")
    waits = case.unexplained[case.unexplained["waits"]]
    assert set(waits["span_on"] + " " + waits["span"].str.removeprefix("$api.py:3165 ")) == {"python try_to_block"}
    # All but a tenth of the path is explained, or named so.
    assert (case.steps["unexplained_ps"].sum() - waits["time_ps"].sum()) < 0.1 * case.steps["wall_ps"].sum()


def test_what_the_host_did_after_its_last_call_is_its_work_where_a_record_says_so():
    rows_of = [("gpu:0", "s", "compute", 5 * US, 20 * US, {"correlation_id": 1})]
    wait = ("t", 6 * US, 24 * US, None, None, "gpu:0", None, 6 * US)
    calls, work = [("t", US, 2 * US, 1)], [("t", 30 * US, 90 * US)]
    result = path(trace(rows_of, calls, work, [wait]), step_table((0, 100 * US)))
    parts_us = {part: time_ps / US for part, time_ps in zip(result.total["part"], result.total["time_ps"], strict=True)}
    assert parts_us == {
        "host work": 4 + 60, "host, nothing recorded": 1 + 6 + 10, "compute": 15, "launch latency": 4,
    }  # fmt: skip
    assert result.path["name"].tolist()[-3:] == ["after wait"] * 3


def test_a_launch_call_that_ran_long_before_its_row_started_held_it_up():
    rows_of = [
        ("gpu:0", "s", "compute", 5 * US, 10 * US, {"correlation_id": 1}),
        ("gpu:0", "s", "compute", 415 * US, 440 * US, {"correlation_id": 2}),
    ]
    calls = [("t", 0, 2 * US, 1, "first"), ("t", 3 * US, 410 * US, 2, "second")]
    result = path(trace(rows_of, calls))
    # From the second call's end to its row it takes 5 us more.
    assert result.path[["part", "name", "time_ps"]].to_numpy(object).tolist()[-3:-1] == [
        ["host launch", "second", 405 * US],
        ["launch latency", "compute", 5 * US],
    ]
    without_host = result.what_if.set_index("what").loc["host"]
    assert without_host["predicted_ps"] == (440 - 5 - 407 - 3) * US or without_host["reason"] is not None


@pytest.mark.parametrize(
    ("call", "memory", "returned_us", "is_bound"),
    [
        ("cudaMemcpy", None, 1000, True),
        ("cudaMemcpy", None, 970, True),
        ("cudaMemcpy", None, 890, False),
        # The driver's buffer holds what is left of a copy from pageable memory, whatever the call is named.
        ("cudaMemcpyAsync", "pageable", 970, True),
        ("cudaMemcpyAsync", "pageable", 910, True),
        ("cudaMemcpyAsync", "pageable", 890, False),
        ("cudaMemcpyAsync", None, 970, False),
        ("cudaMemcpyAsync", "pinned", 970, False),
    ],
)
def test_a_copy_bounds_its_call_where_that_returned_a_little_before_its_end(call, memory, returned_us, is_bound):
    rows_of = [
        ("gpu:0", "s", "memcpy", 5 * US, 1000 * US, {"correlation_id": 1, "host_memory": memory}),
        ("gpu:0", "s", "compute", 1110 * US, 1200 * US, {"correlation_id": 2}),
    ]
    calls = [("t", 0, returned_us * US, 1, call), ("t", 1100 * US, 1105 * US, 2, "launch")]
    work = [("t", returned_us * US, 1100 * US)]
    result = path(trace(rows_of, calls, work))
    (copies,) = result.what_if.loc[result.what_if["what"] == "copies", "ratio"]
    assert (copies < 0.5) == is_bound


@pytest.mark.parametrize(
    ("call", "until_us", "parts_us"),
    [
        ("cudaFree", 80, {"compute": 65, "host work": 10}),
        ("cuMemFree_v2", 80, {"compute": 65, "host work": 10}),
        ("cuModuleLoadData", 80, {"compute": 65, "host work": 10}),
        ("cudaProfilerStop", 80, {"compute": 65, "host work": 10}),
        # These do not wait.
        ("cudaFreeAsync", 80, {"host work": 70}),
        ("cudaMalloc", 80, {"host work": 70}),
    ],
)
def test_a_call_that_frees_memory_or_loads_code_waits_for_its_device(call, until_us, parts_us):
    rows_of = [
        ("gpu:0", "s", "compute", 5 * US, 70 * US, {"correlation_id": 1}),
        ("gpu:0", "s", "compute", 205 * US, 300 * US, {"correlation_id": 3}),
    ]
    calls = [("t", 0, 3 * US, 1, "launch"), ("t", 10 * US, until_us * US, None, call), ("t", 200 * US, 203 * US, 3)]
    found = path(trace(rows_of, calls)).path
    of_it = found[found["start_ps"] < until_us * US]
    of_it = of_it[of_it["part"].isin(["compute", "host work"])]
    assert {part: int(of["time_ps"].sum()) // US for part, of in of_it.groupby("part")} == parts_us


@pytest.mark.parametrize(
    ("threads", "waited"),
    [
        # The device that the thread launched on last, whatever another one of the process does.
        (("t", "other", "t"), "gpu:0"),
        (("t", "t", "t"), None),
    ],
)
def test_what_frees_memory_waits_for_the_device_of_its_thread(threads, waited):
    rows_of = [
        ("gpu:0", "s", "compute", 5 * US, 70 * US, {"correlation_id": 1}),
        ("gpu:1", "s", "compute", 6 * US, 500 * US, {"correlation_id": 2}),
        ("gpu:0", "s", "compute", 505 * US, 600 * US, {"correlation_id": 3}),
    ]
    of_first, of_second, of_free = threads
    calls = [(of_first, 0, 3 * US, 1), (of_second, 4 * US, 5 * US, 2), (of_free, 10 * US, 80 * US, None, "cudaFree")]
    found = path(trace(rows_of, [*calls, ("t", 501 * US, 503 * US, 3)])).edges
    returns = found.loc[found["edge"] == "call_return", "edges"].sum()
    assert returns == (waited is not None)


@pytest.mark.parametrize("place", range(3))
def test_a_collective_without_all_its_ranks_in_any_place_forbids_what_if(place):
    kinds = ["collective" if at == place else "compute" for at in range(3)]
    rows_of = [("gpu:0", "s", kind, 10 * at + 2, 10 * at + 12, {"ranks": "0,1"}) for at, kind in enumerate(kinds)]
    what_if = path(trace(rows_of, [("t", 0, 1, 7)])).what_if.set_index("what")
    assert "the trace does not show all ranks" in what_if.loc["collectives", "reason"]
