"""Many files as one trace: hosts told apart, devices unique, one time axis, nothing counted twice."""

from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frames import events, spans
from tracekit.columns import frame
from tracekit.readers.merge import merge
from tracekit.readers.merge.merged_trace import operations
from tracekit.trace import (
    DEVICE_COLUMNS,
    EVENT_COLUMNS,
    FRAME_COLUMNS,
    HOST_COLUMNS,
    HOST_WORK_COLUMNS,
    LAUNCH_COLUMNS,
    OP_COLUMNS,
    OPERAND_COLUMNS,
    SYNC_COLUMNS,
    Trace,
)

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
NOON_NS = 1_700_000_000_000_000_000


def trace_of(host, *rows, origin_ns=NOON_NS, source=None, notes=(), devices=("gpu:0",), marks=None):
    """The trace of one file; its rows as `tests.frames.events` takes them."""
    source = source or f"{host}.json"
    table = events(*rows, host=host) if rows else frame(EVENT_COLUMNS)
    return Trace(
        events=table,
        spans=spans() if marks is None else marks.assign(host=pd.Categorical([host] * len(marks))),
        launches=frame(
            LAUNCH_COLUMNS,
            {"host": [host], "thread": ["t"], "name": ["l"], "start_ps": [0], "end_ps": [1], "correlation_id": [7]},
        ),
        devices=frame(DEVICE_COLUMNS, {"host": [host] * len(devices), "device": list(devices)}),
        hosts=frame(HOST_COLUMNS, {"host": [host], "source": [source], "origin_ns": [origin_ns]}),
        notes=tuple(notes),
        source=source,
        format="kineto",
    )


def rank(host, *ends, origin_ns=NOON_NS, device="gpu:0", **more):
    """A rank that computes for the first 5 ps and ends an all-reduce at each of `ends`."""
    reduces = [(device, "collective", end - 50, end, REDUCE) for end in ends]
    return trace_of(host, (device, "compute", 0, 5), *reduces, origin_ns=origin_ns, devices=(device,), **more)


def with_syncs(trace, *waits):
    """`trace` with waits of (start, end, device, lane, on_device, on_lane, recorded)."""
    names = ("start_ps", "end_ps", "device", "lane", "on_device", "on_lane", "recorded_ps")
    columns = dict(zip(names, map(list, zip(*waits, strict=True)), strict=True))
    constants = {"host": ["?"] * len(waits), "thread": ["t"] * len(waits), "name": ["Stream Wait Event"] * len(waits)}
    return replace(trace, syncs=frame(SYNC_COLUMNS, {**constants, **columns}))


def waits(trace):
    table = trace.syncs[["host", "start_ps", "device", "lane", "on_device", "on_lane", "recorded_ps"]].astype(object)
    return table.where(table.notna(), None).values.tolist()


def rows(trace, *columns):
    table = trace.events[list(columns or ("device", "name", "start_ps", "end_ps"))].astype(object)
    return table.where(table.notna(), None).values.tolist()


def hosts(trace):
    table = trace.hosts.drop(columns="world_size").astype(object)
    return table.where(table.notna(), None).values.tolist()


def test_one_trace_stays_as_it_is():
    trace = rank("rank0", 100)
    assert merge([trace]) is trace


def test_devices_are_named_after_their_hosts_and_times_stand_on_one_axis_that_begins_with_the_earliest():
    later_ns = NOON_NS + 2
    merged = merge([rank("rank1", 300, 500, 701, origin_ns=later_ns), rank("rank0", 2301, 2500, 2700)])
    assert rows(merged)[:2] == [["rank0/gpu:0", "op", 0, 5], ["rank0/gpu:0", REDUCE, 2251, 2301]]
    assert rows(merged)[4:6] == [["rank1/gpu:0", "op", 2000, 2005], ["rank1/gpu:0", REDUCE, 2250, 2300]]
    assert merged.devices[["host", "device"]].values.tolist() == [["rank0", "rank0/gpu:0"], ["rank1", "rank1/gpu:0"]]
    assert merged.launches[["host", "start_ps", "correlation_id"]].values.tolist() == [
        ["rank0", 0, 7],
        ["rank1", 2000, 7],
    ]
    assert hosts(merged) == [
        ["rank0", "rank0.json", NOON_NS, "rank0", 0, 0, None],
        ["rank1", "rank1.json", NOON_NS, "rank0", 0, 0, 1],
    ]
    assert merged.events["clock"].isna().all()
    assert (merged.format, merged.events["host"].tolist()[3:5]) == ("kineto", ["rank0", "rank1"])


def test_a_clock_that_is_off_is_shifted_in_every_table_and_its_origin_says_what_it_showed():
    marks = spans(("step", 10, 20))
    merged = merge([rank("rank0", 300, 500, 700), rank("rank1", 300, 500, 700, origin_ns=NOON_NS + 10**6, marks=marks)])
    assert rows(merged, "start_ps")[:4] == rows(merged, "start_ps")[4:]
    assert merged.spans[["host", "start_ps", "end_ps"]].values.tolist() == [["rank1", 10, 20]]
    assert hosts(merged)[1] == ["rank1", "rank1.json", NOON_NS + 10**6, "rank0", -(10**9), 0, 0]
    assert "rank1 was 1.00 ms ahead of rank0's" in merged.notes[0]


def test_the_work_of_hosts_moves_in_time_with_them():
    work = frame(HOST_WORK_COLUMNS, [("?", "7", "t", "f", 10, 12)])
    ranks = [rank("rank0", 300, 500, 700), rank("rank1", 298, 498, 698, origin_ns=NOON_NS + 1)]
    merged = merge([replace(part, host_work=work) for part in ranks])
    by = int(merged.launches["start_ps"].iat[1])
    assert by > 0
    assert merged.host_work.to_numpy().tolist() == [
        ["rank0", "7", "t", "f", 10, 12],
        ["rank1", "7", "t", "f", 10 + by, 12 + by],
    ]


def test_waits_move_in_time_with_their_hosts_and_name_the_merged_devices():
    lane = (10, 12, "gpu:0", "s1", "gpu:0", "s0", 8)
    thread = (20, 29, None, None, "gpu:0", None, None)
    merged = merge(
        [
            with_syncs(rank("rank0", 300, 500, 700), lane),
            with_syncs(rank("rank1", 298, 498, 698, origin_ns=NOON_NS + 1), lane, thread),
        ]
    )
    by = int(merged.launches["start_ps"].iat[1])
    assert waits(merged) == [
        ["rank0", 10, "rank0/gpu:0", "s1", "rank0/gpu:0", "s0", 8],
        ["rank1", 10 + by, "rank1/gpu:0", "s1", "rank1/gpu:0", "s0", 8 + by],
        ["rank1", 20 + by, None, None, "rank1/gpu:0", None, None],
    ]
    assert merged.syncs["end_ps"].tolist() == [12, 12 + by, 29 + by]


def test_a_wait_that_two_windows_of_a_rank_both_hold_counts_once():
    lane = (10, 12, "gpu:0", "s1", "gpu:0", "s0", 8)
    other = (10, 12, "gpu:0", "s2", "gpu:0", "s0", 8)
    work = [("gpu:0", "compute", at, at + 5) for at in (0, 10)]
    merged = merge(
        [with_syncs(trace_of("a", *work), lane), with_syncs(trace_of("a", *work, source="b.json"), lane, other)]
    )
    assert waits(merged) == [
        ["a", 10, "gpu:0", "s1", "gpu:0", "s0", 8],
        ["a", 10, "gpu:0", "s2", "gpu:0", "s0", 8],
    ]


def test_processes_of_one_machine_have_one_clock_whatever_their_collectives_say():
    # Ends 70, 3 and 400 us apart tell no offset; a third process, elsewhere, is compared with the two as one.
    ends = 10**9, 2 * 10**9, 3 * 10**9, 4 * 10**9
    noisy = [end + late for end, late in zip(ends, (7 * 10**7, 3 * 10**6, -4 * 10**8, 10**7), strict=True)]
    parts = [rank("a-0", *ends), rank("a-1", *noisy, device="gpu:1"), trace_of("b-2", ("gpu:0", "compute", 0, 5))]
    machines = {"a-0": "a", "a-1": "a", "b-2": "b"}
    apart = merge(parts)
    assert apart.hosts["clock"].nunique() == 3
    merged = merge(parts, None, machines)
    assert merged.hosts.set_index("host")["clock"].to_dict() == {"a-0": "a-0", "a-1": "a-0", "b-2": "b-2"}
    assert merged.hosts.set_index("host")["shift_ps"].fillna(0).to_dict() == {"a-0": 0, "a-1": 0, "b-2": 0}
    first = merged.events.query("kind == 'collective' and host == 'a-1'")["end_ps"].tolist()
    assert first == noisy
    assert "a-0 and a-1 ran on one machine: their clock is one." in merged.notes
    assert not any("machine" in note for note in apart.notes)


def test_hosts_that_share_no_collective_have_a_clock_each():
    merged = merge(
        [trace_of("a", ("gpu:0", "compute", 0, 9)), trace_of("b", ("gpu:0", "compute", 0, 9), origin_ns=NOON_NS + 1)]
    )
    assert rows(merged, "device", "start_ps", "clock") == [["a/gpu:0", 0, "a"], ["b/gpu:0", 1000, "b"]]
    assert hosts(merged) == [
        ["a", "a.json", NOON_NS, "a", None, None, None],
        ["b", "b.json", NOON_NS, "b", None, None, None],
    ]


def test_a_host_without_device_work_needs_no_clock():
    merged = merge([rank("rank0", 300), trace_of("rank1", devices=()), rank("rank2", 300)])
    assert merged.events["clock"].isna().all()
    assert not any("unaligned" in note for note in merged.notes)


def test_times_without_unix_time_stand_where_the_shared_collectives_put_them():
    merged = merge([rank("a", 300, 500, 707), rank("b", 1300, 1500, 1707, origin_ns=None)])
    assert rows(merged, "device", "start_ps")[1:2] == [["a/gpu:0", 1250]]
    assert rows(merged, "device", "start_ps")[5:6] == [["b/gpu:0", 1250]]
    assert hosts(merged)[1] == ["b", "b.json", None, "a", -1000, 0, 0]


def test_a_time_that_no_axis_holds_with_the_others_stands_apart():
    merged = merge([rank("a", 300), rank("b", 300), trace_of("c", ("gpu:0", "compute", 0, 9), origin_ns=NOON_NS // 2)])
    assert rows(merged, "device", "start_ps")[-1] == ["c/gpu:0", 0]
    assert "The times of c are more than 50 days from the others, too far for one time axis." in merged.notes


def test_the_same_file_twice_counts_once():
    trace = rank("rank0", 300, 500)
    merged = merge([trace, rank("rank0", 300, 500, source="copy of rank0.json"), rank("rank1", 300, 500)])
    assert rows(merged) == rows(merge([trace, rank("rank1", 300, 500)]))
    assert len(merged.launches) == 2
    assert "copy of rank0.json only repeats what rank0.json contains of rank0: it is not counted twice." in merged.notes


US = 10**6


@pytest.mark.parametrize("is_first", [True, False])
def test_a_file_whose_times_another_tool_has_rounded_only_repeats_the_other(is_first):
    times = [(at * 10 * US + 312_000, at * 10 * US + 4_700_000) for at in range(9)]
    rounded = [(round(start / US) * US, round(end / US) * US) for start, end in times]
    fine = trace_of("rank0", *[("gpu:0", "compute", *each) for each in times])
    coarse = trace_of("rank0", *[("gpu:0", "compute", *each) for each in rounded], source="copy of rank0.json")
    merged = merge([coarse, fine] if is_first else [fine, coarse])
    assert rows(merged) == rows(fine)
    assert merged.notes == (
        "copy of rank0.json only repeats what rank0.json contains of rank0: it is not counted twice.",
    )


def test_processes_in_step_whose_times_are_as_fine_are_told_apart():
    times = [(at * 10 * US + 312_000, at * 10 * US + 4_700_000) for at in range(9)]
    first = trace_of("localhost", *[("gpu:0", "compute", *each) for each in times])
    second = trace_of("localhost", *[("gpu:0", "compute", start + 7, end + 9) for start, end in times], source="b.json")
    assert merge([first, second]).devices["device"].tolist() == ["localhost/gpu:0", "localhost#2/gpu:0"]


def test_what_two_windows_of_a_rank_both_hold_counts_once():
    first = trace_of("rank0", *[("gpu:0", "compute", at, at + 5) for at in (0, 10, 20)])
    second = trace_of(
        "rank0",
        *[("gpu:0", "compute", at, at + 5) for at in (0, 9_990, 10_000)],
        origin_ns=NOON_NS,
        source="second.json",
    )
    later = trace_of(
        "rank0", *[("gpu:0", "compute", at, at + 5) for at in (0, 10)], origin_ns=NOON_NS + 1, source="later.json"
    )
    merged = merge([first, later])
    assert rows(merged, "device", "start_ps") == [["gpu:0", at] for at in (0, 10, 20, 1000, 1010)]
    assert merged.notes == (
        "rank0.json and later.json are read as windows of one process, rank0: nothing was recorded between them, and "
        "that time counts as idle.",
    )
    overlapping = merge([first, second])
    assert rows(overlapping, "device", "start_ps") == [["gpu:0", at] for at in (0, 10, 20, 9_990, 10_000)]
    assert overlapping.notes == ("1 of 3 device rows of second.json are in rank0.json too, of rank0: they count once.",)


def test_two_processes_that_call_their_host_the_same_are_told_apart():
    first = rank("localhost", 300, 500, source="a/localhost.xplane.pb")
    second = rank("localhost", 301, 503, source="b/localhost.xplane.pb")
    merged = merge([first, second])
    assert merged.devices["device"].tolist() == ["localhost/gpu:0", "localhost#2/gpu:0"]
    assert rows(merged, "host", "end_ps") == [
        *[["localhost", end] for end in (5, 300, 500)],
        *[["localhost#2", end] for end in (5, 301, 503)],
    ]
    assert merged.notes[1] == (
        "2 processes have the host name localhost, with different work: localhost is a/localhost.xplane.pb, "
        "localhost#2 is b/localhost.xplane.pb."
    )


def test_processes_of_one_host_are_called_after_their_directories_if_those_are_numbered_as_ranks():
    first = rank("vm", 300, 500, source="traces/rank0/plugins/profile/monday/vm.xplane.pb")
    second = rank("vm", 301, 503, source="traces/rank1/plugins/profile/tuesday/vm.xplane.pb")
    assert merge([first, second]).devices["device"].tolist() == ["rank0/gpu:0", "rank1/gpu:0"]


def test_sessions_of_one_host_that_are_hours_apart_are_processes_of_their_own():
    first = trace_of("node", ("gpu:0", "compute", 0, 5))
    second = trace_of("node", ("gpu:0", "compute", 0, 7), origin_ns=NOON_NS + 3600 * 10**9, source="later.json")
    merged = merge([second, first])
    assert [[device, end - start] for device, start, end in rows(merged, "device", "start_ps", "end_ps")] == [
        ["node/gpu:0", 5],
        ["node#2/gpu:0", 7],
    ]
    assert merged.hosts["clock"].nunique() == 2
    assert (
        "2 processes have the host name node, at times far apart: node is node.json, node#2 is later.json."
        in merged.notes
    )


def test_two_devices_of_one_host_in_two_files_are_two_processes():
    merged = merge([rank("node", 300, source="1.db"), rank("node", 300, source="2.db", device="gpu:1")])
    assert merged.devices["device"].tolist() == ["node/gpu:0", "node#2/gpu:1"]


@pytest.mark.parametrize(
    ("names", "world_size", "notes"),
    [
        (("rank0", "rank1", "rank3", "rank6"), None, ["The files are numbered up to 6: ranks 2, 4-5 are missing."]),
        (("rank1", "rank2"), 8, ["The job had 8 ranks: ranks 0, 3-7 are missing."]),
        (("rank0", "rank1"), 2, []),
        (("rank0", "rank1"), None, []),
        (("tpu-w-1", "tpu-w-3"), None, ["The files are numbered up to 3: worker 2 is missing."]),
        (("node17", "node19"), None, []),
    ],
)
def test_missing_ranks_of_a_numbered_set_are_noted(names, world_size, notes):
    assert [note for note in merge([rank(name, 300) for name in names], world_size).notes if "missing" in note] == notes


@pytest.mark.parametrize(
    ("names", "world_size", "lost"),
    [
        (("rank0", "rank1"), 2, []),
        (("rank0", "rank1"), 3, [(1, 3, "rank 2")]),
        (("rank0", "rank3"), None, [(2, None, "ranks 1-2")]),
        (("rank0", "rank0", "rank1"), 2, []),
        (("rank0", "rank0", "rank2"), 3, [(None, 3, "rank 0 is there more than once, and none is rank 1")]),
        (("rank0", "rank2", "rank7"), 3, [(None, 3, "rank 7 is none of these, and none is rank 1")]),
        (("rank0", "rank1", "rank7"), 2, [(None, 2, "rank 7 is none of these")]),
    ],
)
def test_ranks_of_which_there_is_no_file_are_lost_and_not_claimed_where_numbers_contradict(names, world_size, lost):
    works = [[("gpu:0", "compute", 20 * k + at, 20 * k + at + 9) for k in range(4)] for at in range(len(names))]
    merged = merge([trace_of(name, *work) for name, work in zip(names, works, strict=True)], world_size)
    found = merged.losses[["what", "lost", "total", "evidence"]].astype(object)
    assert [tuple(row) for row in found.where(found.notna(), None).to_numpy()] == [("ranks", *each) for each in lost]
    assert any("missing" in note for note in merged.notes) is any(each[0] is not None for each in lost)
    contradicts = len(set(names)) < len(names) or "rank7" in names
    assert any("a number of one is damaged" in note for note in merged.notes) is contradicts


def test_ranks_are_counted_by_file_names_where_hosts_have_no_number():
    merged = merge([rank("a", 300, source="x/rank_0.json"), rank("b", 300, source="x/rank_2.json")])
    assert "The files are numbered up to 2: rank 1 is missing." in merged.notes


def test_what_all_files_say_is_said_once_and_else_with_the_host():
    traces = [
        rank(f"rank{at}", 300, notes=("All alike.", f"{at} rows of rank{at}.json were cut.", *extra))
        for at, extra in enumerate(((), ("Only here.",), ()))
    ]
    assert merge(traces).notes[1:] == (
        "All 3 hosts: All alike.",
        "All 3 hosts, each with different figures; rank0: 0 rows of rank0.json were cut.",
        "rank1: Only here.",
    )


ENDS = st.lists(st.integers(101, 9000), min_size=3, max_size=10, unique=True)


@settings(max_examples=10)
@given(ENDS, st.lists(st.integers(-(10**4), 10**4).map(lambda ms: ms * 10**6), min_size=2, max_size=3), st.randoms())
def test_no_clock_and_no_order_of_files_changes_the_merged_trace(gaps, ahead_ns, random):
    ends = [sum(gaps[: at + 1]) for at in range(len(gaps))]
    straight = [rank(f"rank{at}", *ends) for at in range(len(ahead_ns))]
    off = [rank(f"rank{at}", *ends, origin_ns=NOON_NS + ns) for at, ns in enumerate(ahead_ns)]
    random.shuffle(off)
    assert rows(merge(off)) == rows(merge(straight))


def with_operations(ops, operands=(), of_events=(), host="h"):
    """A trace whose operations are rows of (program, hlo_op[, flops[, source]]), and whose device rows have these."""
    full = [(*row, *(None, None)[len(row) - 2 :]) for row in ops]
    rows = events(*[("gpu:0", "compute", at, at + 1) for at in range(len(of_events))], host=host)
    return Trace(
        events=rows.assign(op=pd.array(list(of_events), "Int64")),
        ops=frame(
            OP_COLUMNS,
            {
                "program": [row[0] for row in full],
                "hlo_op": [row[1] for row in full],
                "flops": [row[2] for row in full],
                "source": [row[3] for row in full],
            },
        ),
        operands=frame(OPERAND_COLUMNS, {"op": [a for a, _ in operands], "operand": [b for _, b in operands]}),
        hosts=frame(HOST_COLUMNS, {"host": [host], "origin_ns": [1_700_000_000_000_000_000]}),
        source=f"{host}.json",
    )


def table(table, *columns):
    chosen = table[list(columns)].astype(object)
    return chosen.where(chosen.notna(), None).values.tolist()


STEP = [("jit_step", "add", 8), ("jit_step", "all-reduce"), ("jit_step", "mul", 8)]
CHAIN = [(1, 0), (2, 1)]


def test_a_program_that_all_hosts_hold_alike_counts_once():
    merged = operations([with_operations(STEP, CHAIN), with_operations(STEP, CHAIN), with_operations(STEP, CHAIN)])
    assert table(merged.ops, "program", "hlo_op", "flops") == [
        ["jit_step", "add", 8],
        ["jit_step", "all-reduce", None],
        ["jit_step", "mul", 8],
    ]
    assert merged.operands.values.tolist() == [[1, 0], [2, 1]]
    assert [numbers.tolist() for numbers in merged.numbers] == [[0, 1, 2]] * 3


@pytest.mark.parametrize(
    ("ops", "operands"),
    [
        ([*STEP[:2], ("jit_step", "mul", 9)], CHAIN),  # other facts
        ([*STEP[:2], ("jit_step", "mul", 8, "step.py:3")], CHAIN),  # another source
        ([("jit_other", *op[1:]) for op in STEP], CHAIN),  # another name
        (STEP, [(1, 0), (2, 0)]),  # other operands
        (STEP, []),  # operands of which nothing is known
        (STEP[:2], CHAIN[:1]),  # a part of it
        ([STEP[1], STEP[0], STEP[2]], CHAIN),  # the same rows, otherwise joined
    ],
)
def test_a_program_that_differs_at_all_stays_a_program_of_its_own(ops, operands):
    merged = operations([with_operations(STEP, CHAIN), with_operations(ops, operands)])
    assert len(merged.ops) == 3 + len(ops)
    assert merged.operands.values.tolist() == [*map(list, CHAIN), *([a + 3, b + 3] for a, b in operands)]


def test_equal_operations_of_no_known_operands_count_once_in_whatever_order():
    merged = operations(
        [
            with_operations([(None, "aten::mm"), (None, "aten::add")]),
            with_operations([(None, "aten::add"), (None, "x")]),
        ]
    )
    assert table(merged.ops, "hlo_op") == [["aten::mm"], ["aten::add"], ["x"]]
    assert [numbers.tolist() for numbers in merged.numbers] == [[0, 1], [1, 2]]


def test_two_programs_of_one_file_stand_apart_and_their_order_does_not_matter():
    other = [("jit_init", "add", 8), ("jit_init", "mul", 8)]
    first = with_operations([*STEP, *other], [*CHAIN, (4, 3)])
    second = with_operations([*other, *STEP], [(1, 0), (3, 2), (4, 3)])
    merged = operations([first, second])
    assert len(merged.ops) == 5
    assert merged.operands.values.tolist() == [[1, 0], [2, 1], [4, 3]]
    assert [numbers.tolist() for numbers in merged.numbers] == [[0, 1, 2, 3, 4], [3, 4, 0, 1, 2]]


def test_rows_of_merged_hosts_lead_to_their_operations_and_rows_without_one_to_none():
    first = with_operations(STEP, CHAIN, [2, None, 0], host="a")
    second = with_operations([("jit_init", "copy"), *STEP], [(2, 1), (3, 2)], [0, 3], host="b")
    merged = merge([first, second])
    assert table(merged.events, "device", "op") == [
        ["a/gpu:0", 2],
        ["a/gpu:0", None],
        ["a/gpu:0", 0],
        ["b/gpu:0", 3],
        ["b/gpu:0", 2],
    ]
    assert table(merged.ops, "hlo_op") == [["add"], ["all-reduce"], ["mul"], ["copy"]]
    assert merged.operands.values.tolist() == [[1, 0], [2, 1]]


def test_traces_without_operations_give_none():
    merged = operations([with_operations([]), with_operations([])])
    assert (len(merged.ops), len(merged.operands), [len(numbers) for numbers in merged.numbers]) == (0, 0, [0, 0])


@st.composite
def traces(draw):
    count = draw(st.integers(0, 6))
    names = st.tuples(st.sampled_from(["p", "q", None]), st.sampled_from("ab"), st.sampled_from([None, 0, 7]))
    numbers = st.integers(0, max(count - 1, 0))
    return with_operations(
        draw(st.lists(names, min_size=count, max_size=count)),
        draw(st.lists(st.tuples(numbers, numbers), max_size=4)) if count else (),
        draw(st.lists(st.none() | numbers, max_size=4)) if count else (),
        host=draw(st.sampled_from(["a", "b", "c"])),
    )


def row_at(table, number):
    return tuple(None if pd.isna(value) else value for value in table.iloc[int(number)].astype(object))


@settings(max_examples=40)
@given(st.lists(traces(), min_size=2, max_size=4))
def test_joining_keeps_what_every_row_and_every_operand_is(inputs):
    merged = operations(inputs)
    expected, pairs = set(), set()
    for trace, number in zip(inputs, merged.numbers, strict=True):
        assert [row_at(merged.ops, number[at]) for at in range(len(trace.ops))] == [
            row_at(trace.ops, at) for at in range(len(trace.ops))
        ]
        expected |= {row_at(trace.ops, at) for at in range(len(trace.ops))}
        pairs |= {(int(number[a]), int(number[b])) for a, b in trace.operands.to_numpy()}
    assert {row_at(merged.ops, at) for at in range(len(merged.ops))} == expected
    # No operand is lost or there twice, and none is invented for the operations of any trace.
    assert sorted(map(tuple, merged.operands.to_numpy().tolist())) == sorted(pairs)
    for number, trace in zip(merged.numbers, inputs, strict=True):
        own = {(int(number[a]), int(number[b])) for a, b in trace.operands.to_numpy()}
        assert {(a, b) for a, b in pairs if {a, b} <= set(number.tolist())} == own


def of_rows(trace):
    """Each device row's host, start and operation."""
    table = zip(trace.events["host"], trace.events["start_ps"], trace.events["op"], strict=True)
    return [(str(host), start, None if pd.isna(op) else row_at(trace.ops, op)) for host, start, op in table]


@settings(max_examples=15)
@given(st.lists(traces(), min_size=2, max_size=3, unique_by=lambda trace: trace.source))
def test_merged_rows_are_of_the_operations_that_they_were_of_before(inputs):
    assert sorted(of_rows(merge(inputs)), key=str) == sorted(
        (row for trace in inputs for row in of_rows(trace)), key=str
    )


@settings(max_examples=15)
@given(st.lists(traces(), min_size=2, max_size=3, unique_by=lambda trace: trace.source))
def test_traces_that_are_joined_for_the_last_time_give_the_same_and_keep_no_column_of_it(inputs):
    merged = merge(inputs)
    consumed = merge(inputs, is_last_use=True)
    for name in FRAME_COLUMNS:
        pd.testing.assert_frame_equal(getattr(consumed, name), getattr(merged, name))
    assert not any(len(trace.events.columns) for trace in inputs if len(trace.events))
