"""Each rule speaks past its threshold, and is silent just below it."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.frames import events
from tests.graph_traces import trace
from tests.launch_frames import host_spans
from tests.stepped import timeline, work
from tracekit.analysis import advice
from tracekit.analysis.advice import Finding
from tracekit.analysis.collectives import Collectives
from tracekit.analysis.explain import explain
from tracekit.analysis.host_api import host_api
from tracekit.analysis.idle import GAP_COLUMNS, idle
from tracekit.analysis.machine import LOAD_COLUMNS, Machine
from tracekit.analysis.overlap import breakdown, partition
from tracekit.analysis.phases import phases
from tracekit.analysis.slow_groups import GROUP_COLUMNS
from tracekit.analysis.steps import DEVICE_COLUMNS, STEP_COLUMNS
from tracekit.columns import concat, frame
from tracekit.timeline.instances import Unseen, unseen
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import DIRECTION_DTYPE, EVENT_COLUMNS, Trace

US = 10**6
NOTHING = explain(events())
NO_TIMELINE = timeline_of(events())
ADVICE = Path(__file__).parents[2] / "docs" / "advice.md"


def exposed_waits(ps: int | None) -> Collectives:
    return replace(NOTHING.collectives, total=pd.DataFrame({"exposed_wait_ps": pd.array([ps], "Int64")}))


def two_gpus(exposed: int, kind: str = "collective", *more) -> pd.DataFrame:
    """Two GPUs in a window of 100: the second computes throughout, the first has `exposed` of `kind` alone."""
    return events(
        ("gpu:0", "compute", 0, 100 - exposed),
        ("gpu:0", kind, 100 - exposed, 100, "op", *more),
        ("gpu:1", "compute", 0, 100),
    )


def test_exposed_collectives_are_told_from_a_tenth_of_the_devices_time_on():
    assert advice.exposed_collectives(partition(two_gpus(20)), exposed_waits(None)) == Finding(
        "exposed_collectives", 20, 0.1, {"device": "gpu:0", "most": 0.2}
    )
    assert advice.exposed_collectives(partition(two_gpus(19)), exposed_waits(0)) is None


def test_the_device_with_the_largest_share_of_exposed_collectives_is_named():
    """Of a window of 100 on one clock and of 1,000 on the other."""
    tables = [
        events(("a/gpu:0", "collective", 0, 60), ("a/gpu:0", "compute", 60, 100), host="a", clock="a"),
        events(("b/gpu:0", "collective", 0, 90), ("b/gpu:0", "compute", 90, 1000), host="b", clock="b"),
    ]
    finding = advice.exposed_collectives(partition(concat(EVENT_COLUMNS, tables)), exposed_waits(0))
    assert finding.evidence == {"device": "a/gpu:0", "most": 0.6}
    tables[1] = events(("b/gpu:0", "collective", 0, 3), ("b/gpu:0", "compute", 3, 10), host="b", clock="b")
    finding = advice.exposed_collectives(partition(concat(EVENT_COLUMNS, tables)), exposed_waits(0))
    assert finding.evidence == {"device": "a/gpu:0", "most": 0.6}
    table = partition(
        events(("gpu:0", "collective", 0, 100), ("gpu:1", "collective", 0, 20), ("gpu:1", "compute", 20, 100))
    )
    assert advice.exposed_collectives(table, exposed_waits(0)).evidence == {"device": "gpu:0", "most": 1.0}


def test_exposed_collectives_that_mostly_wait_are_not_for_a_scheduler_to_hide():
    table = partition(two_gpus(50))
    assert advice.exposed_collectives(table, exposed_waits(25)) is not None
    assert advice.exposed_collectives(table, exposed_waits(26)) is None


def peers(straggler: bool, cost: int) -> Collectives:
    by_device = pd.DataFrame(
        {
            "device": ["gpu:0", "gpu:1"],
            "n": [10, 10],
            "last": [9, 1],
            "cost_ps": [cost, 3],
            "exposed_cost_ps": [cost, 3],
            "gain_ps": [cost, 3],
            "straggler": [straggler, False],
        }
    )
    return replace(NOTHING.collectives, by_device=by_device)


def test_a_straggler_is_told_by_what_it_cost_the_others():
    window = partition(two_gpus(0))
    assert advice.late_peer(window, peers(True, 10)) == Finding(
        "late_peer", 10, 0.05, {"device": "gpu:0", "last": 9, "n": 10}
    )
    assert advice.late_peer(window, peers(True, 9)) is None
    assert advice.late_peer(window, peers(False, 50)) is None
    assert advice.late_peer(window, NOTHING.collectives) is None


def groups(*excess_ps: int) -> Collectives:
    """Pairs of devices, the first of them slow, with what the transfers of each were exposed beyond the others'."""
    rows_ = [
        ("all-reduce", 2, 1 << 20, f"gpu:{2 * at}, gpu:{2 * at + 1}", 40, 4.0, 10.0, excess, at == 0)
        for at, excess in enumerate(excess_ps)
    ]
    return replace(NOTHING.collectives, by_group=frame(GROUP_COLUMNS, rows_))


def waits_of(*rows):
    """Collectives of (exposed wait, last device, category)."""
    columns = dict(zip(("exposed_wait_ps", "last", "category"), zip(*rows, strict=True), strict=True))
    return replace(NOTHING.collectives, table=pd.DataFrame(columns).astype({"exposed_wait_ps": "Int64"}))


# Two GPUs that compute for as long as each other, of 200, and for 20 of which one waits.
ALIKE = events(
    ("gpu:0", "compute", 0, 80),
    ("gpu:0", "collective", 80, 100, "op"),
    ("gpu:1", "compute", 0, 80),
    ("gpu:1", "memcpy", 80, 100),
)


def test_waiting_that_no_straggler_explains_is_told_with_the_longest_waits():
    window = partition(ALIKE)
    long = [(4, "gpu:1", "all-reduce"), (3, "gpu:1", "all-reduce")]
    short = [(1, "gpu:0", "all-gather"), (1, None, "all-gather"), (1, "gpu:0", None), (None, None, "all-reduce")]
    evidence = {"longest": 2, "n": 5, "category": "all-reduce", "device": "gpu:1"}
    assert advice.waiting(window, waits_of(*long, *short)) == Finding("waiting", 10, 0.05, evidence)
    assert advice.waiting(window, waits_of(*long, *short[1:])) is None
    # No device is most of it, nor is one category.
    mixed = [(3, "gpu:0", "all-reduce"), (3, "gpu:1", "all-gather"), (3, "gpu:2", "broadcast"), (3, "gpu:3", None)]
    assert advice.waiting(window, waits_of(*mixed, *mixed)).evidence == {"longest": 4, "n": 8}
    assert advice.waiting(window, NOTHING.collectives) is None
    # Of several at once, all of which wait.
    assert advice.waiting(window, waits_of((15, None, "send"), (15, None, "recv"))).cost_ps == 20


@pytest.mark.parametrize(
    ("compute", "busiest", "ratio"),
    [
        ((90, 56, 50, 60), ["gpu:0"], 90 / 56),  # a slow stage
        ((50, 70, 71, 48), ["gpu:2", "gpu:1"], 70.5 / 49),  # two ranks that are as slow
        ((50, 60), ["gpu:1"], 1.2),
        ((50, 59), None, None),
        ((50, 60, 70, 80), ["gpu:3", "gpu:2"], 75 / 55),
        ((50, 60, 60, 60), None, None),  # one that does less is no cause
        ((50, 50, 50, 0), None, None),
        ((0, 0, 0, 50), None, None),  # nothing to compare with
    ],
)
def test_who_computes_longer_than_the_others_is_named_where_they_wait(compute, busiest, ratio):
    window = partition(
        events(
            ("gpu:0", "collective", 100, 200, "op"),
            *((f"gpu:{at}", "compute", 0, length) for at, length in enumerate(compute) if length),
            *((f"gpu:{at}", "memcpy", 199, 200) for at in range(len(compute))),
        )
    )
    evidence = advice.waiting(window, waits_of((90, "gpu:1", "send"), (9, "gpu:0", "send"))).evidence
    assert evidence.get("busiest") == busiest
    if busiest:
        assert "device" not in evidence
        assert evidence["ratio"] == pytest.approx(ratio)
    else:
        assert evidence["device"] == "gpu:1"


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(0, 40)),
            st.sampled_from([None, "gpu:0", "gpu:1", "gpu:2"]),
            st.sampled_from([None, "all-gather", "all-reduce", "broadcast"]),
        ),
        min_size=1,
    )
)
def test_of_the_longest_waits_that_make_half_the_device_and_category_of_half_are_named(rows_):
    waits = sorted((row for row in rows_ if row[0] is not None), key=lambda row: -row[0])
    total = sum(wait for wait, *_ in waits)
    finding = advice.waiting(partition(ALIKE), waits_of(*rows_))
    if total < 10:  # of 200
        assert finding is None
        return
    longest = next(n for n in range(1, len(waits) + 1) if 2 * sum(wait for wait, *_ in waits[:n]) >= total)
    expected = {"longest": longest, "n": len(waits)}
    for at, name in ((2, "category"), (1, "device")):
        time_of = {row[at]: 0 for row in sorted(waits[:longest], key=lambda row: str(row[at])) if row[at]}
        for row in waits[:longest]:
            if row[at]:
                time_of[row[at]] += row[0]
        most = max(time_of, key=lambda label: time_of[label], default=None)
        if most and 2 * time_of[most] >= sum(wait for wait, *_ in waits[:longest]):
            expected[name] = most
    assert finding == Finding("waiting", min(total, 20), min(total, 20) / 200, expected)


def test_a_slow_link_is_told_by_what_it_cost_unless_the_late_peer_is_on_it():
    window = partition(two_gpus(0))
    finding = advice.slow_link(window, groups(10, 99))
    evidence = {"devices": "gpu:0, gpu:1", "category": "all-reduce", "n": 40, "ratio": 0.4}
    assert finding == Finding("slow_link", 10, 0.05, evidence)
    assert advice.slow_link(window, groups(9, 99)) is None
    assert advice.slow_link(window, NOTHING.collectives) is None
    for devices, other in (("gpu:0, gpu:1", None), ("gpu:2, gpu:3", finding)):
        late = Finding("late_peer", 10, 0.05, {"device": "gpu:1", "slow_link": {"devices": devices, "ratio": 0.4}})
        assert advice.slow_link(window, groups(10, 99), late) == other


def test_exposed_copies_name_the_direction_that_was_most_of_them():
    rows_ = events(
        ("gpu:0", "compute", 0, 80),
        ("gpu:0", "memcpy", 70, 90, "in", "H2D"),
        ("gpu:0", "memcpy", 90, 95, "out", "D2H"),
        ("gpu:0", "compute", 95, 100),
    )
    finding = advice.exposed_copies(timeline_of(rows_), partition(rows_))
    assert finding == Finding(
        "exposed_copies", 15, 0.15, {"direction": "H2D", "by_direction_ps": {"H2D": 10, "D2H": 5}}
    )
    rows_ = events(
        ("gpu:0", "compute", 0, 80), ("gpu:0", "memcpy", 80, 90, "in", "H2D"), ("gpu:0", "memcpy", 90, 96, "out", "D2H")
    )
    evidence = advice.exposed_copies(timeline_of(rows_), partition(rows_)).evidence
    assert evidence == {"direction": None, "by_direction_ps": {"H2D": 10, "D2H": 6}}
    below = two_gpus(9, "memcpy", "H2D")
    assert advice.exposed_copies(timeline_of(below), partition(below)) is None


@pytest.mark.parametrize(("begin", "hideable"), [(0, 0.0), (4, 4 / 60), (5, None), (31, None)])
def test_copies_that_outlast_the_compute_that_could_hide_them_are_told_so(begin, hideable):
    """Compute takes 40, and a copy from `begin` to 100; what runs before it could hide as much of the 60 exposed, of
    which 5 are a twentieth of the time."""
    rows_ = events(("gpu:0", "compute", 0, 40), ("gpu:0", "memcpy", begin, 100, "in", "H2D"))
    evidence = advice.exposed_copies(timeline_of(rows_), partition(rows_)).evidence
    assert evidence.get("hideable") == hideable


@pytest.mark.parametrize(("direction", "hideable"), [("H2D", 0.2), ("D2H", None)])
def test_copies_of_another_direction_beside_the_compute_leave_it_to_hide_those_that_are_exposed(direction, hideable):
    """Of 100, compute takes 80, beside 76 of which copies of a direction run; the 20 of H2D before it run alone."""
    table = events(
        ("gpu:0", "memcpy", 0, 20, "a", "H2D"),
        ("gpu:0", "compute", 20, 100),
        ("gpu:0", "memcpy", 24, 100, "b", direction),
    )
    evidence = advice.exposed_copies(timeline_of(table), partition(table)).evidence
    assert (evidence["direction"], evidence.get("hideable")) == ("H2D", hideable)


def test_memsets_are_no_exposed_copies():
    memsets = two_gpus(30, "memset")
    assert advice.exposed_copies(timeline_of(memsets), partition(memsets)) is None
    rows_ = concat(EVENT_COLUMNS, [memsets, events(("gpu:0", "memcpy", 200, 260, "in", "H2D"))])
    assert advice.exposed_copies(timeline_of(rows_), partition(rows_)).cost_ps == 60
    rows_ = events(
        ("gpu:0", "compute", 0, 80), ("gpu:0", "memcpy", 70, 110, "in", "H2D"), ("gpu:0", "memset", 120, 130)
    )
    assert advice.exposed_copies(timeline_of(rows_), partition(rows_)).cost_ps == 30


def test_of_some_windows_only_the_directions_that_occur_in_them_are_named():
    both = timeline_of(
        concat(EVENT_COLUMNS, [two_gpus(20, "memcpy", "H2D"), events(("gpu:0", "memcpy", 200, 210, "out", "D2H"))])
    )
    inside = both.inside((0, 100))
    finding = advice.exposed_copies(inside, partition(inside))
    assert finding.evidence == {"direction": "H2D", "by_direction_ps": {"H2D": 20}}


def test_copies_without_a_known_direction_have_none():
    table = two_gpus(30, "memcpy")
    assert advice.exposed_copies(timeline_of(table), partition(table)).evidence["direction"] is None


def on_lanes(device: str, *lanes: str) -> pd.DataFrame:
    """A kernel of 80 and two copies of 10, on three lanes."""
    table = events(
        (device, "compute", 0, 80), (device, "memcpy", 80, 90, "a", "H2D"), (device, "memcpy", 90, 100, "b", "H2D")
    )
    return table.assign(lane=pd.Categorical(lanes))


@pytest.mark.parametrize(
    ("device", "lanes", "expected"),
    [
        ("gpu:0", ("s1", "s1", "s1"), 1.0),
        ("gpu:0", ("s1", "s1", "s2"), 0.5),
        ("gpu:0", ("s1", "s2", "s2"), None),
        ("tpu:0", ("s1", "s1", "s1"), None),
    ],
)
def test_copies_on_streams_that_also_run_kernels_are_told_of_gpus_alone(device, lanes, expected):
    table = on_lanes(device, *lanes)
    finding = advice.copies_in_compute_lane(timeline_of(table), partition(table))
    assert (finding.evidence["ratio"] if finding else None) == expected


def test_copies_in_the_streams_of_kernels_are_told_from_a_twentieth_of_the_time_on():
    for copied, told in ((5, 1.0), (4, None)):
        table = events(("gpu:0", "compute", 0, 100 - copied), ("gpu:0", "memcpy", 100 - copied, 100, "a", "H2D"))
        table = table.assign(lane=pd.Categorical(["s1", "s1"]))
        finding = advice.copies_in_compute_lane(timeline_of(table), partition(table))
        assert (finding.evidence["ratio"] if finding else None) == told


def test_copies_on_the_last_stream_of_the_last_device_are_looked_at():
    table = events(
        ("gpu:0", "compute", 0, 80), ("gpu:1", "memcpy", 0, 30, "a", "H2D"), ("gpu:1", "memcpy", 30, 90, "a", "H2D")
    ).assign(lane=pd.Categorical(["s1", "s2", "s3"]))
    assert advice.copies_in_compute_lane(timeline_of(table), partition(table)) is None
    table = concat(EVENT_COLUMNS, [table, events(("gpu:1", "compute", 90, 130)).assign(lane=pd.Categorical(["s3"]))])
    finding = advice.copies_in_compute_lane(timeline_of(table), partition(table))
    # The compute of another device hides nothing here.
    assert (finding.evidence["ratio"], finding.cost_ps) == (60 / 90, 40)


def test_copies_beside_the_kernels_of_other_streams_have_compute_to_hide_behind():
    """Two streams copy, compute and copy in turns: those of one may hide behind the compute of the other."""
    rows_ = [
        ("gpu:0", kind, at + begin, at + end, kind, "H2D" if kind == "memcpy" else None)
        for at in (0, 50)
        for kind, begin, end in (("memcpy", 0, 10), ("compute", 10, 50))
    ]
    rows_ += [("gpu:0", "compute", 100, 110, "k", None)]  # in all 90, of which 40 and 50
    for lanes, told in ((["s1"] * 5, True), (["s1", "s1", "s2", "s2", "s2"], False), ([*["s1"] * 4, "s2"], True)):
        table = events(*rows_).assign(lane=pd.Categorical(lanes))
        assert bool(advice.copies_in_compute_lane(timeline_of(table), partition(table))) == told


def unified(*rows_: tuple) -> pd.DataFrame:
    """Kernels (name, start, end) and, of any other name, what the driver moved meanwhile."""
    kinds_ = [("compute" if name.startswith("k") else "memcpy", name, *times) for name, *times in rows_]
    return events(*(("gpu:0", kind, start, end, name, None) for kind, name, start, end in kinds_))


MOVED = "CUDA memcpy Unified Host-to-Device"


@pytest.mark.parametrize("often", [10, 9])
def test_kernels_during_which_unified_memory_was_moved_are_told(often):
    kernels = ("k", 0, 40), ("kk", 40, 60), ("kk", 60, 100)
    moves = *((at, at + 1) for at in range(often - 2)), (39, 41), (60, 61), (100, 105)
    table = unified(*kernels, *((MOVED, *times) for times in moves))
    finding = advice.unified_memory(timeline_of(table), partition(table))
    # The one of 39 began while the first kernel ran, the last behind all of them.
    assert finding == (Finding("unified_memory", 80, 80 / 105, {"moves": 10, "name": "k"}) if often == 10 else None)


@pytest.mark.parametrize(
    "rows_",
    [
        (("k", 0, 100), *(("CUDA memcpy Host-to-Device", at, at + 1) for at in range(20))),  # a call copied it
        (("k", 0, 100), *((f"{MOVED}, prefetched", at, at + 1) for at in range(20))),
        (("k", 0, 100), *((MOVED, at, at + 1) for at in range(100, 140))),  # the host touched it
        (("k", 0, 10), *((MOVED, at / 10, at / 10 + 0.1) for at in range(20)), ("kk", 10, 1000)),
    ],
)
def test_kernels_that_wait_for_no_unified_memory_are_not_told(rows_):
    table = unified(*((name, int(10 * start), int(10 * end)) for name, start, end in rows_))
    assert advice.unified_memory(timeline_of(table), partition(table)) is None


def test_copies_within_a_device_stand_on_the_streams_of_kernels_by_right():
    table = on_lanes("gpu:0", "s1", "s1", "s1").assign(
        direction=pd.Categorical([None, "D2D", "D2D"], dtype=DIRECTION_DTYPE)
    )
    assert advice.copies_in_compute_lane(timeline_of(table), partition(table)) is None


def test_copies_that_a_program_makes_are_told_from_those_that_the_host_asks_for():
    table = on_lanes("gpu:0", "s1", "s1", "s1").assign(hlo_op=pd.Categorical(["dot", "copy-start", None]))
    assert advice.exposed_copies(timeline_of(table), partition(table)).evidence["in_program"] == 0.5
    assert advice.copies_in_compute_lane(timeline_of(table), partition(table)).evidence["in_program"] == 0.5
    table = table.assign(hlo_op=pd.Categorical(["add", "copy-start", "copy-done"]))
    assert advice.copies_in_compute_lane(timeline_of(table), partition(table)).evidence["in_program"] == 1
    table = table.assign(hlo_op=pd.Categorical(["dot", None, None]))
    assert "in_program" not in advice.exposed_copies(timeline_of(table), partition(table)).evidence


@pytest.mark.parametrize(
    ("names", "memory"),
    [
        (("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pinned -> Device)"), "pinned"),
        (("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"), "pageable"),
        (("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pageable -> Device)"), None),
        (("MemcpyH2D", "MemcpyH2D"), None),
    ],
)
def test_exposed_copies_name_the_memory_of_the_host_that_most_of_them_go_through(names, memory):
    table = on_lanes("gpu:0", "s1", "s2", "s2").assign(name=pd.Categorical(["kernel", *names]))
    assert advice.exposed_copies(timeline_of(table), partition(table)).evidence.get("host_memory") == memory


def test_exposed_collectives_name_the_operation_that_is_exposed_most():
    by_op = pd.DataFrame({"category": ["all-reduce", "all-gather", "all-reduce"], "exposed_ps": [3, 5, 3]})
    waits = replace(exposed_waits(0), by_op=by_op)
    assert advice.exposed_collectives(partition(two_gpus(20)), waits).evidence["operation"] == "all-reduce"


def test_the_same_stream_name_on_another_device_is_another_stream():
    table = events(("gpu:0", "compute", 0, 100), ("gpu:1", "memcpy", 0, 100)).assign(lane=pd.Categorical(["s", "s"]))
    assert advice.copies_in_compute_lane(timeline_of(table), partition(table)) is None


@pytest.mark.parametrize(
    ("names", "ratio"),
    [
        (("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"), 0.5),
        (("Memcpy HtoD (Pinned -> Device)", "copy"), None),
    ],
)
def test_pageable_copies_are_told_by_their_names(names, ratio):
    table = events(
        ("gpu:0", "compute", 0, 80, "pageable"),
        ("gpu:0", "memcpy", 80, 90, names[0], "H2D"),
        ("gpu:0", "memcpy", 90, 100, names[1], "H2D"),
    )
    finding = advice.pageable_copies(timeline_of(table), partition(table))
    assert (finding.evidence["ratio"] if finding else None) == ratio


def test_pageable_copies_are_told_by_the_profilers_record_too():
    table = two_gpus(20, "memcpy", "H2D")
    table["host_memory"] = pd.Categorical([None, "pageable", None])
    assert advice.pageable_copies(timeline_of(table), partition(table)) == Finding(
        "pageable_copies", 20, 0.1, {"ratio": 1.0}
    )
    table["host_memory"] = pd.Categorical([None, "pinned", None])
    assert advice.pageable_copies(timeline_of(table), partition(table)) is None


def test_copies_that_compute_hides_say_nothing_of_those_that_are_exposed():
    """20 of pinned copies on the stream of the kernels alone, 60 of pageable ones on another, behind compute."""
    table = events(
        ("gpu:0", "memcpy", 0, 20, "Memcpy HtoD (Pinned -> Device)", "H2D"),
        ("gpu:0", "compute", 20, 100),
        ("gpu:0", "memcpy", 30, 90, "Memcpy HtoD (Pageable -> Device)", "H2D"),
    ).assign(lane=pd.Categorical(["s1", "s1", "s2"]))
    timeline, cells = timeline_of(table), partition(table)
    assert advice.pageable_copies(timeline, cells) is None
    assert advice.exposed_copies(timeline, cells).evidence["host_memory"] == "pinned"
    assert advice.copies_in_compute_lane(timeline, cells).evidence["ratio"] == 1


@pytest.mark.parametrize(("cause", "rule"), [(cause, rule) for cause, (rule, _) in advice.IDLE.items()])
def test_idle_time_is_told_from_the_share_of_its_cause_on(cause, rule):
    # The second of two GPUs computes twice as long, in a window of 100.
    window = partition(events(("gpu:0", "compute", 0, 50), ("gpu:1", "compute", 0, 100)))
    least = round(advice.IDLE[cause][1] * 200)
    by_device = pd.DataFrame({"device": ["gpu:0"], "cause": [cause], "gaps": [7], "idle_ps": [least]})
    idle = replace(NOTHING.idle, by_device=by_device)
    evidence = {"gaps": 7} | ({"busiest": ["gpu:1"], "ratio": 2.0} if rule == "uneven_work" else {})
    assert advice.idle_causes(NO_TIMELINE, window, idle) == [Finding(rule, least, least / 200, evidence)]
    assert len(advice.idle_causes(NO_TIMELINE, partition(two_gpus(0)), idle)) == (rule != "uneven_work")
    assert advice.idle_causes(NO_TIMELINE, window, replace(idle, by_device=by_device.assign(idle_ps=least - 1))) == []
    assert advice.idle_causes(NO_TIMELINE, window, replace(idle, by_device=by_device.assign(cause="unexplained"))) == []


def test_idle_time_is_told_from_the_shares_on_that_are_documented():
    (line,) = (line for line in ADVICE.read_text("utf-8").splitlines() if line.startswith("| `host_bound`, "))
    rules, text = re.findall(r"`(\w+)`", line.split("|")[1]), line.split("|")[2]
    shares = [int(share) / 100 for share in re.findall(r"(\d+) %", text.split(" or more")[0])]
    assert dict(advice.IDLE.values()) == dict(zip(rules, shares, strict=True))


def test_launches_and_copies_in_a_loop_of_a_program_are_told():
    table, launches = work(
        ("gpu:0", "compute", 0, 10, -5), ("gpu:0", "memcpy", 30, 40, 20), ("gpu:0", "memcpy", 45, 50, 42)
    )
    turn = host_spans(("[iter=0]", 15, 41, "python"))
    looped = timeline_of(Trace(table, launches=launches, spans=turn))
    by_device = pd.DataFrame({"device": ["gpu:0"], "cause": ["launch latency"], "gaps": [2], "idle_ps": [13]})
    late = {"cause": ["launch latency"] * 2, "start_ps": [20, 42], "end_ps": [30, 45], "next": [1, 2]}
    pieces = frame(GAP_COLUMNS, {"device": ["gpu:0"] * 2, "interval": [0, 1], **late})
    latency = replace(idle(looped), by_device=by_device, gaps=pieces)
    assert advice.exposed_copies(looped, partition(table)).evidence["in_loop"] == 10 / 15
    (finding,) = advice.idle_causes(looped, partition(table), latency)
    assert (finding.rule, finding.evidence) == ("launch_latency", {"gaps": 2, "in_loop": 10 / 13})


def test_late_launches_say_what_the_host_did_most_of_the_time():
    frames = work(("gpu:0", "compute", 0, 10, -5), ("gpu:0", "compute", 100, 110, 90))
    late = timeline(frames)
    finding = advice.idle_causes(late, partition(frames[0]), idle(late))[0]
    assert (finding.rule, finding.cost_ps) == ("host_bound", 80)
    assert finding.evidence == {"gaps": 1, "host": "launching", "ratio": 1.0}


def test_late_launches_after_a_wait_name_the_call_that_waited():
    table = work(("gpu:0", "compute", 0, 10, -5), ("gpu:0", "compute", 100, 110, 90))
    spans = host_spans(("forward", 1, 14, "python"), ("synchronize", 2, 12, "python"))
    waited = timeline_of(replace(timeline(table).trace, spans=spans))
    causes = idle(waited)
    evidence = {"gaps": 1, "host": "after_wait", "ratio": 1.0}
    finding = advice.idle_causes(waited, partition(table[0]), causes, host_api(waited, causes.gaps))[0]
    # The gap of 90 is recorded for 4 in the span and 1 in the launch; 10 of the rest may not be host-bound.
    where = {"call": "synchronize", "operation": "forward"}
    assert finding.evidence == evidence | where | {"unrecorded": 75 / 80}
    assert advice.idle_causes(waited, partition(table[0]), causes)[0].evidence == evidence


def test_late_launches_while_the_host_copied_name_the_call_that_did():
    table = work(("gpu:0", "compute", 0, 10, -5), ("gpu:0", "compute", 100, 110, 90))
    spans = host_spans(("synchronize", 2, 12, "python"), ("ArrayImpl.copy_to_host_async", 14, 85, "python"))
    copied = timeline_of(replace(timeline(table).trace, spans=spans))
    causes = idle(copied)
    finding = advice.idle_causes(copied, partition(table[0]), causes, host_api(copied, causes.gaps))[0]
    told = {"gaps": 1, "host": "copying", "ratio": 71 / 80, "call": "ArrayImpl.copy_to_host_async"}
    assert finding.evidence == told


@pytest.mark.parametrize(("until", "told"), [(48, {"unrecorded": 41 / 80}), (49, {})])
def test_it_is_told_where_most_of_the_host_bound_time_is_not_recorded(until, told):
    table = work(("gpu:0", "compute", 0, 10, -5), ("gpu:0", "compute", 100, 110, 90))
    late = timeline_of(replace(timeline(table).trace, spans=host_spans(("log", 1, until, "python"))))
    causes = idle(late)
    finding = advice.idle_causes(late, partition(table[0]), causes, host_api(late, causes.gaps))[0]
    assert finding.evidence == {"gaps": 1, "host": "launching", "ratio": 1.0} | told


@pytest.mark.parametrize(
    ("overlap", "stretch", "expected"), [(0.9, 1.25, True), (0.89, 2.0, False), (1.0, 1.24, False)]
)
def test_contention_needs_both_overlap_and_stretch(overlap, stretch, expected):
    inside = {"both": replace(breakdown(timeline_of(events())), pairs=pd.DataFrame({"ratio_min": [overlap]}))}
    table = pd.DataFrame(
        {
            "name": ["both", "both"],
            "device": ["cpu:0", "cpu:1"],
            "kind": ["compute", "memory"],
            "busy_ps": [int(100 * stretch), 10],
            "alone_ps": [100, 10],
            "stretch": [stretch, 1.0],
        }
    )
    marks = replace(phases(events()), table=pd.DataFrame({"name": ["both"]}), stretch=table)
    findings = advice.contention(marks, inside, Machine(frame(LOAD_COLUMNS)))
    assert bool(findings) is expected
    if expected:
        assert (findings[0].cost_ps, findings[0].evidence["device"]) == (25, "cpu:0")


def test_each_phase_is_asked_for_contention_whatever_is_unknown_of_those_before_it():
    """Other processes ran in the first; the second has no stretch, the third no overlap, and the fourth too little."""
    nothing = breakdown(timeline_of(events()))
    ratios = {"busy": 1.0, "unlike": 1.0, "alone": None, "apart": 0.1, "both": 1.0}
    inside = {
        name: replace(nothing, pairs=pd.DataFrame({"ratio_min": pd.array([ratio], "Float64")}))
        for name, ratio in ratios.items()
    }
    of_phase = {"device": "gpu:0", "kind": "compute", "busy_ps": 200, "alone_ps": 100, "stretch": 2.0}
    stretch = pd.DataFrame([{"name": name} | of_phase for name in ratios]).astype({"stretch": "Float64"})
    stretch.loc[stretch["name"] == "unlike", "stretch"] = pd.NA
    marks = replace(phases(events()), table=pd.DataFrame({"name": [*ratios]}), stretch=stretch)
    load = Machine(pd.DataFrame({"phase": ["busy"], "is_busy": [True]}))
    assert [finding.evidence["phase"] for finding in advice.contention(marks, inside, load)] == ["both"]


def test_time_has_no_share_of_windows_that_last_none():
    assert advice._cost([3, 4], partition(events())) == (7, 0.0)
    assert advice._cost([3, 4], partition(two_gpus(0))) == (7, 0.035)


def test_devices_that_took_turns_are_told():
    turns = events(("gpu:0", "compute", 0, 50), ("gpu:1", "compute", 46, 100))
    # At once both would be done after 54, and not after 100.
    assert turns_taken(turns) == Finding("took_turns", 2 * 46, 0.46, {"devices": 2, "ratio_min": 0.08})
    together = events(("gpu:0", "compute", 0, 55), ("gpu:1", "compute", 46, 100))
    assert turns_taken(together) is None


def test_groups_of_devices_that_work_together_take_turns_as_the_stages_of_a_pipeline_do():
    stages = events(
        *(
            (
                f"gpu:{number}",
                "compute",
                200 * turn + 100 * (number // 2),
                200 * turn + 100 * (number // 2) + 96 - number,
            )
            for number in range(4)
            for turn in range(3)
        )
    )
    finding = turns_taken(stages)
    assert finding.evidence == {"devices": 4, "ratio_min": 0.0, "groups": ["gpu:0, gpu:1", "gpu:2, gpu:3"]}
    assert finding.cost_ps == 4 * 3 * 94
    together = events(*((f"gpu:{number}", "compute", 0, 100 - number) for number in range(4)))
    assert turns_taken(together) is None
    # The second stage begins when half of the first is done.
    piped = events(*((f"gpu:{number}", "compute", 50 * (number // 2), 50 * (number // 2) + 100) for number in range(4)))
    assert turns_taken(piped) is None


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(1, 9)), min_size=1, max_size=25))
def test_what_turns_cost_is_what_counting_every_moment_gives(work_of_devices):
    rows = [(f"gpu:{number}", "compute", at, at + length) for number, at, length in work_of_devices]
    finding = turns_taken(events(*rows))
    if finding is None or "groups" in finding.evidence:
        return
    busy = {name: {moment for device, _, a, b in rows if device == name for moment in range(a, b)} for name, *_ in rows}
    most = max(map(len, busy.values()))
    mine = [moments for moments in busy.values() if len(moments) >= advice.TURNS_BUSY * most]
    assert finding.cost_ps == len(mine) * (len(set.union(*mine)) - max(map(len, mine)))


def turns_taken(trace):
    timeline = timeline_of(trace)
    return advice.took_turns(timeline, partition(timeline), breakdown(timeline))


@pytest.mark.parametrize("devices", [2, 3, 11, 16, 64])
def test_however_many_take_turns_each_loses_what_all_but_one_take(devices):
    turns = events(*((f"gpu:{number}", "compute", 100 * number, 100 * (number + 1)) for number in range(devices)))
    finding = turns_taken(turns)
    assert (finding.evidence["devices"], finding.cost_ps) == (devices, 100 * devices * (devices - 1))
    assert finding.share == pytest.approx((devices - 1) / devices)


def test_devices_that_are_seldom_busy_and_know_nothing_of_each_other_take_no_turns():
    rng = np.random.default_rng(0)
    found = 0
    for devices in (2, 4, 16):
        for _ in range(20):
            # Each is busy for a fifteenth of the time, whenever that is.
            rows = [
                (f"gpu:{number}", "compute", int(at), int(at) + 10)
                for number in range(devices)
                for at in np.sort(rng.choice(1000, 66, replace=False)) * 10
            ]
            found += turns_taken(events(*rows)) is not None
    assert found <= 3


def test_where_work_was_launched_while_others_were_busy_the_turns_were_ahead():
    rows = [
        (f"gpu:{number}", "a", "compute", 100 * number, 100 * (number + 1), {"correlation_id": number})
        for number in range(3)
    ]
    for called_at, ahead in (((0, 1, 2), 2 / 3), ((-9, 100, 200), 0.0)):
        calls = [("t", at, at + 1, number) for number, at in enumerate(called_at)]
        assert turns_taken(trace(rows, calls)).evidence["ahead"] == pytest.approx(ahead)


@pytest.mark.parametrize(("launches_a_gap", "is_told"), [(1, True), (3, False)])
def test_late_launches_of_which_gaps_follow_half_or_more_say_so(launches_a_gap, is_told):
    """Every millisecond so many kernels, launched together, and nothing is recorded of the host meanwhile."""
    rows, calls = [], []
    for number in range(12 * launches_a_gap):
        turn, place = divmod(number, launches_a_gap)
        at = (1000 * turn + 10 * place) * US
        calls.append(("t", at, at + US, number, "cudaLaunchKernel"))
        rows.append(("gpu:0", "a", "compute", at + 5 * US, at + 15 * US, {"correlation_id": number}))
    timeline = timeline_of(trace(rows, calls))
    why = idle(timeline)
    found = advice.idle_causes(timeline, partition(timeline), why, host_api(timeline, why.gaps))
    (late,) = (finding for finding in found if finding.rule == "host_bound")
    assert late.evidence["host"] == "working"
    assert late.evidence.get("each_launch", False) is is_told


def test_late_launches_of_one_host_count_no_launches_of_others():
    """A kernel every millisecond on one device, and ten of each turn on another, whose next turn is queued in time."""
    rows, calls = [], []
    for number in range(12):
        at = 1000 * number * US
        calls.append(("late", at, at + US, number, "cudaLaunchKernel"))
        rows.append(("gpu:0", "a", "compute", at + 5 * US, at + 15 * US, {"correlation_id": number}))
    for number in range(120):
        at = 100 * number * US
        calls.append(("ahead", at - 50 * US, at - 49 * US, 100 + number, "cudaLaunchKernel"))
        rows.append(("gpu:1", "b", "compute", at, at + 99 * US, {"correlation_id": 100 + number}))
    timeline = timeline_of(trace(rows, calls))
    why = idle(timeline)
    found = advice.idle_causes(timeline, partition(timeline), why, host_api(timeline, why.gaps))
    (late,) = (finding for finding in found if finding.rule == "host_bound")
    assert (late.evidence["host"], late.evidence["each_launch"]) == ("working", True)


def test_compiling_again_in_a_step_of_several_clocks_names_it_once():
    gaps = idle(timeline_of(two_gpus(0)))
    compiling = pd.DataFrame({"device": ["gpu:0"], "cause": ["compiling"], "gaps": [1], "idle_ps": [90]})
    found = advice.compiled(partition(two_gpus(0)), replace(gaps, by_device=compiling), [6, 6, 9])
    assert found.evidence["again"] == [6, 9]


def test_gaps_whose_time_may_all_be_recorded_add_nothing_to_what_is_not():
    longest = pd.DataFrame(
        {"unrecorded_ps": [60, 5, 10, None], "idle_ps": [70, 40, 10, 900], "host_bound_ps": [65, 10, 10, 900]}
    )
    calls = replace(NOTHING.host_api, longest=longest.astype("Int64"))
    assert advice._unrecorded(calls, 100) == {"unrecorded": 0.65}
    assert advice._unrecorded(calls, 130) == {}


def test_a_device_that_hardly_worked_takes_no_turns():
    rare = events(("gpu:0", "compute", 0, 90), ("gpu:1", "compute", 91, 100))
    assert turns_taken(rare) is None


def test_findings_stand_in_order_of_cost_and_none_asks_a_cpu_for_what_it_cannot_do():
    small, large = Finding("host_bound", 1, 0.1), Finding("exposed_collectives", 2, 0.2)
    on_gpu = advice.by_cost(timeline_of(two_gpus(0)), [small, large])
    assert (on_gpu.findings, on_gpu.backend, on_gpu.xla) == ((large, small), "gpu", False)
    table = events(("h/cpu:0", "compute", 0, 1))
    table["hlo_op"] = pd.Categorical(["dot"])
    on_cpu = advice.by_cost(timeline_of(table), [small, large])
    assert (on_cpu.findings, on_cpu.backend, on_cpu.xla) == ((small,), "cpu", True)
    mixture = timeline_of(events(("gpu:0", "compute", 0, 1), ("cpu:0", "compute", 0, 1)))
    assert advice.by_cost(mixture, []).backend == ""
    assert np.isclose(sum(finding.share for finding in on_gpu.findings), 0.3)


@pytest.mark.parametrize(("predicted", "gain"), [(95, 0.05), (94, None), (101, 0.0), (None, None)])
def test_copies_without_which_steps_would_hardly_be_shorter_stand_behind_all_that_would(predicted, gain):
    what = pd.DataFrame({"what": ["copies", "host"], "measured_ps": [100, 100]})
    what["predicted_ps"] = pd.array([predicted, 10], "Int64")
    path = replace(NOTHING.critical_path, what_if=what)
    copies, host = Finding("exposed_copies", 40, 0.21, {"direction": "D2H"}), Finding("host_bound", 30, 0.15)
    found = [advice._with_gain(finding, path) for finding in (copies, host)]
    assert found[1] == host
    assert found[0].evidence.get("gain_ratio") == (None if gain is None else pytest.approx(gain))
    order = advice.by_cost(timeline_of(two_gpus(0)), found).findings
    assert [finding.rule for finding in order] == ["exposed_copies", "host_bound"][:: 1 if gain is None else -1]


def test_that_the_machine_was_busy_stands_before_all_that_may_come_of_it():
    busy, large = Finding("busy_machine", None, None), Finding("host_bound", 30, 0.15)
    assert advice.by_cost(timeline_of(two_gpus(0)), [large, busy]).findings == (busy, large)


def test_a_finding_without_a_cost_stands_behind_one_of_any_cost():
    free, cheap, none = Finding("took_turns", None, None), Finding("host_bound", 1, 0.1), Finding("stragglers", 0, 0.0)
    timeline = timeline_of(two_gpus(0))
    assert advice.by_cost(timeline, [free, none, cheap]).findings == (cheap, free, none)


@pytest.mark.parametrize(
    ("clocks", "names", "group_size", "cause"),
    [
        ("ab", "xx", 2, Unseen.CLOCKS),
        ("ab", "xx", 3, Unseen.RANKS),
        ("aa", "xy", 2, Unseen.MATCHES),
        ("aa", "xx", 2, None),
    ],
)
def test_it_is_told_why_not_all_ranks_of_a_collective_are_shown_together(clocks, names, group_size, cause):
    timeline = timeline_of(
        trace(
            [
                (f"{rank}/gpu:0", "s", "collective", 0, 10, {"clock": clock, "name": name, "group_size": group_size})
                for rank, clock, name in zip("ab", clocks, names, strict=True)
            ]
        )
    )
    assert unseen(timeline.rows, timeline.collectives, timeline.world_size) == cause


@pytest.mark.parametrize(
    ("kind", "other", "told"),
    [("memory", "memset", {"memsets": True}), ("memory", "compute", {}), ("compute", "memset", {})],
)
def test_contention_of_memory_says_where_memsets_are_part_of_it(kind, other, told):
    rows = [("cpu:0", other, 0, 90), ("cpu:0", "memcpy", 100, 110)]
    whole = breakdown(timeline_of(events(*rows)))
    inside = {"both": replace(whole, pairs=pd.DataFrame({"ratio_min": [1.0]}))}
    slowed = {"name": "both", "device": "cpu:0", "kind": kind, "busy_ps": 200, "alone_ps": 100, "stretch": 2.0}
    marks = replace(phases(events()), table=pd.DataFrame({"name": ["both"]}), stretch=pd.DataFrame([slowed]))
    (finding,) = advice.contention(marks, inside, Machine(frame(LOAD_COLUMNS)))
    figures = {"phase": "both", "overlap_ratio": 1.0, "stretch": 2.0, "device": "cpu:0", "kind": kind}
    assert (finding.cost_ps, finding.evidence) == (100, figures | told)


def test_steps_that_get_slower_are_told_with_what_they_took_longer_than_the_first():
    steps = NOTHING.steps
    wall = [100, 100, 100, 100, 105, 105, 105, 105, 110, 110, 110, 110]
    ends = np.cumsum(wall)
    table = frame(
        STEP_COLUMNS,
        {"clock": [""] * 12, "name": ["train"] * 12, "start_ps": ends - wall, "end_ps": ends, "wall_ps": wall}
        | {"left_out": [None] * 12, "step": range(12), "marked_by": ["step"] * 12, "compile_ps": [0] * 12}
        | {"rows": [1] * 12, "rows_by_time": [0] * 12, "outlier": [False] * 12, "did_nothing": [0] * 12},
    )
    spent = {"place": range(12), "device": ["gpu:0"] * 12, "wall_ps": wall, "busy_ps": wall, "compute": wall}
    others = dict.fromkeys(set(DEVICE_COLUMNS) - set(spent) - {"last_end_ps"}, [0] * 12)
    by_device = frame(DEVICE_COLUMNS, spent | others | {"rows": [1] * 12, "did_nothing": [False] * 12})
    slower = replace(steps, table=table, by_device=by_device, lacking="")
    window = partition(events(("gpu:0", "compute", 0, 2990)))
    evidence = {"name": "train", "steps": 12, "first_ps": 100, "last_ps": 110, "part": "compute", "grown_ps": 10}
    evidence |= {"same_events": True, "device": "gpu:0"}
    assert advice.slowing_down(window, slower) == Finding("slower_steps", 60, 60 / 2990, evidence)
    assert advice.slowing_down(partition(events(("gpu:0", "compute", 0, 3010))), slower) is None
    assert advice.slowing_down(window, steps) is None


@given(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=9))
def test_devices_are_grouped_by_all_links_between_them(count, links):
    names = [f"gpu:{number}" for number in range(count)]
    links = [(a % count, b % count) for a, b in links]
    pairs = pd.DataFrame({"a": [names[a] for a, _ in links], "b": [names[b] for _, b in links], "ratio_min": 0.5})
    group = {number: {number} for number in range(count)}
    for a, b in links:
        joined = group[a] | group[b]
        group |= dict.fromkeys(joined, joined)
    found = advice._together(names, pairs)
    assert [[found[a] == found[b] for a in names] for b in names] == [
        [a in group[b] for a in range(count)] for b in range(count)
    ]
