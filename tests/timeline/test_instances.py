import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import traces
from tests.collective_frames import row, table
from tests.traces import needs_real
from tracekit.timeline.instances import MATCHED_BY, CollectiveInstances, match, matched_inside
from tracekit.timeline.rows import rows
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import Trace


def match_rows(*row_dicts: dict) -> tuple[list[int], CollectiveInstances]:
    """The instance of each row, in the order in which the rows are given."""
    sorted_rows = rows(table(*row_dicts))
    instances = match(sorted_rows)
    in_given_order = np.empty(len(row_dicts), np.int64)
    in_given_order[sorted_rows.at] = instances.instance
    return in_given_order.tolist(), instances


def by(instances: CollectiveInstances) -> list[str]:
    return [MATCHED_BY[code].value for code in instances.matched_by.tolist()]


def test_the_same_number_in_a_group_is_one_collective_whatever_the_order_of_the_ops():
    instance_of, instances = match_rows(
        row("gpu:0", 0, 10, group="dp", sequence=7, ranks="0,1"),
        row("gpu:0", 20, 30, group="dp", sequence=8, ranks="0,1"),
        row("gpu:1", 5, 11, group="dp", sequence=7, ranks="0,1"),
        row("gpu:1", 21, 31, group="tp", sequence=8, ranks="0,1"),
        row("gpu:0", 40, 50, kind="compute"),
    )
    assert instance_of == [0, 1, 0, 2, -1]
    assert by(instances) == ["sequence", "nothing", "nothing"]
    assert instances.ranks.tolist() == [2, 2, 2]


def test_different_numbers_in_a_group_are_never_one_even_at_the_same_time():
    instance_of, instances = match_rows(
        row("gpu:0", 0, 10, group="dp", sequence=7, ranks="0,1"),
        row("gpu:1", 0, 10, group="dp", sequence=8, ranks="0,1"),
    )
    assert (instance_of, by(instances)) == ([0, 1], ["nothing", "nothing"])


@pytest.mark.parametrize(("start", "instance_of"), [(9, [0, 0]), (10, [0, 0]), (11, [0, 1])])
def test_the_same_number_in_a_group_is_one_collective_unless_a_rank_left_before_another_came(start, instance_of):
    rows_of = [row("gpu:0", 0, 10, group="dp", sequence=7), row("gpu:1", start, 20, group="dp", sequence=7)]
    assert match_rows(*rows_of)[0] == instance_of


@pytest.mark.parametrize(("world_size", "is_complete"), [(None, True), (1, True), (2, True), (3, False)])
def test_a_collective_whose_ranks_are_not_told_is_complete_where_all_of_the_jobs_are_there(world_size, is_complete):
    both = rows(table(row("gpu:0", 0, 10, group="dp", sequence=7), row("gpu:1", 0, 10, group="dp", sequence=7)))
    assert match(both, world_size).complete.tolist() == [is_complete]


def test_an_op_that_an_execution_runs_several_times_is_matched_by_how_often_it_ran():
    loop = {"hlo_op": "psum.1", "hlo_module": "jit_f"}
    row_dicts = [
        row(device, 100 * run + 10 * k + late, 100 * run + 10 * k + 6, run_id=run, **loop)
        for run in (0, 1)
        for k in range(3)
        for device, late in (("gpu:0", 0), ("gpu:1", 3))
    ]
    instance_of, instances = match_rows(*row_dicts)
    assert instance_of == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert by(instances) == ["run"] * 6


def test_a_matched_collective_tells_which_executions_of_hosts_that_number_them_apart_are_one():
    """A late device waits for its scatter late, so the ends of that are further apart than its rows are together."""

    def execution(k: int, device: str, run: int, late: int) -> list[dict]:
        start = 100 * k
        program = {"hlo_module": "jit_f", "run_id": run, "ranks": "0,1,2,3"}
        return [
            row(device, start, start + 10, "all-gather", hlo_op="all-gather.1", **program),
            row(device, start + 10 + late, start + 60 + late, "reduce-scatter", hlo_op="reduce-scatter.2", **program),
        ]

    devices = {"tpu:0": (0, 0), "tpu:1": (0, 0), "tpu:2": (40, 0), "tpu:3": (40, 40)}
    rows_of = [execution(k, device, k + first, late) for k in range(3) for device, (first, late) in devices.items()]
    instance_of, instances = match_rows(*[each for rows_of_one in rows_of for each in rows_of_one])
    assert instance_of == [number for k in range(3) for _ in devices for number in (2 * k, 2 * k + 1)]
    assert by(instances) == ["order", "run"] * 3
    assert instances.complete.all()
    assert not instances.notes


def test_devices_that_number_their_runs_each_for_itself_are_matched_by_order():
    op = {"hlo_op": "all-reduce", "hlo_module": "jit_f"}
    instance_of, instances = match_rows(
        row("tpu:0", 0, 10, run_id=3, **op),
        row("tpu:0", 100, 110, run_id=4, **op),
        row("tpu:0", 200, 210, run_id=5, **op),
        row("tpu:1", 1, 11, run_id=1, **op),
        row("tpu:1", 101, 111, run_id=2, **op),
        row("tpu:1", 201, 211, run_id=3, **op),
    )
    assert instance_of == [0, 1, 2, 0, 1, 2]
    assert by(instances) == ["order"] * 3
    assert instances.notes == ()


def test_runs_that_only_some_devices_share_do_not_part_what_ran_together():
    op = {"hlo_op": "all-reduce", "hlo_module": "jit_f"}
    instance_of, instances = match_rows(
        row("tpu:0", 0, 10, run_id=1, **op),
        row("tpu:1", 1, 10, run_id=1, **op),
        row("tpu:2", 2, 10, run_id=9, **op),
        row("tpu:3", 3, 10, run_id=9, **op),
    )
    assert (instance_of, by(instances)) == ([0, 0, 0, 0], ["order"])


def test_runs_that_all_devices_share_are_told_by_their_numbers_whatever_their_order():
    op = {"hlo_op": "all-reduce", "hlo_module": "jit_f"}
    instance_of, instances = match_rows(
        row("gpu:0", 0, 50, run_id=1, **op),
        row("gpu:0", 10, 60, run_id=2, **op),
        row("gpu:1", 5, 60, run_id=2, **op),
        row("gpu:1", 12, 50, run_id=1, **op),
    )
    assert (instance_of, by(instances)) == ([0, 1, 1, 0], ["run", "run"])


def test_a_run_that_one_device_did_not_record_stays_one_by_its_run():
    op = {"hlo_op": "all-reduce", "hlo_module": "jit_f"}
    instance_of, instances = match_rows(
        row("gpu:0", 0, 10, run_id=1, **op),
        row("gpu:1", 1, 10, run_id=1, **op),
        row("gpu:0", 20, 30, run_id=2, **op),
        row("gpu:1", 21, 30, run_id=2, **op),
        row("gpu:2", 22, 30, run_id=2, **op),
    )
    assert (instance_of, by(instances)) == ([0, 0, 1, 1, 1], ["run", "run"])


def test_without_runs_the_kth_is_the_kth():
    instance_of, instances = match_rows(
        row("rank0/gpu:0", 0, 30, host="rank0", bytes=8),
        row("rank1/gpu:1", 20, 31, host="rank1", bytes=8),
        row("rank0/gpu:0", 40, 50, "all-to-all", host="rank0", bytes=6),
        row("rank1/gpu:1", 41, 51, "all-to-all", host="rank1", bytes=9),
        row("rank0/gpu:0", 60, 70, host="rank0", bytes=4),
        row("rank1/gpu:1", 66, 71, host="rank1", bytes=4),
    )
    assert (instance_of, by(instances)) == ([0, 0, 1, 1, 2, 2], ["order"] * 3)


def test_a_device_that_began_to_record_later_is_matched_by_its_ends():
    first = [row("gpu:0", 100 * k, 100 * k + 50) for k in range(5)]
    second = [row("gpu:1", 100 * k + 20, 100 * k + 51) for k in range(2, 5)]
    instance_of, instances = match_rows(*first, *second)
    assert instance_of == [0, 1, 2, 3, 4, 2, 3, 4]
    assert by(instances) == ["nothing", "nothing", "order", "order", "order"]
    assert instances.notes == (
        "2 of the 8 rows of collectives could not be matched with those of other devices: they stand alone, and "
        "nothing is said of their waiting.",
    )


@pytest.mark.parametrize(
    ("lost", "note"),
    [
        ([], None),
        ([(1, 5)], "1 of 6 collectives lacks the row of a rank that the trace holds: it was cut at"),
        ([(0, 2), (2, 2), (1, 5)], "2 of 6 collectives lack the row of a rank that the trace holds: they were cut at"),
        ([(1, k) for k in range(6)], None),
        ([(k % 3, k) for k in range(6)], "6 of 6 collectives lack the row of a rank that the trace holds: they were"),
        ([(rank, k) for k in range(6) for rank in range(3) if rank != k % 3], "6 of the 6 rows of collectives could"),
    ],
)
def test_a_collective_without_the_row_of_a_rank_that_is_there_is_told_from_one_of_a_rank_that_is_not(lost, note):
    rows_of_ranks = [
        row(f"gpu:{rank}", 100 * k + rank, 100 * k + 50, group="dp", sequence=k, ranks="0,1,2")
        for k in range(6)
        for rank in range(3)
        if (rank, k) not in lost
    ]
    _, instances = match_rows(*rows_of_ranks)
    assert len(instances.notes) == (note is not None)
    assert not note or instances.notes[0].startswith(note)
    assert instances.complete.tolist() == [not any(k == at for _, at in lost) for k in range(6)]


def test_equal_counts_do_not_hide_a_shift_when_collectives_follow_each_other_at_once():
    # Device 1 leaves each collective a little earlier and enters the next before device 0 has left.
    first = [row("gpu:0", 100 * k, 100 * k + 99) for k in range(6)]
    second = [row("gpu:1", 100 * k - 3, 100 * k + 96) for k in range(1, 7)]
    instance_of, _ = match_rows(*first, *second)
    assert instance_of == [0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6]


def test_collectives_that_follow_each_other_at_once_are_not_one_for_touching():
    op = {"hlo_op": "psum.1", "hlo_module": "jit_f"}
    first = [row("tpu:0", 10 * k, 10 * k + 10, run_id=k, **op) for k in range(5)]
    second = [row("tpu:1", 10 * k, 10 * k + 10, run_id=k - 1, **op) for k in range(1, 5)]
    instance_of, instances = match_rows(*first, *second)
    assert instance_of == [0, 1, 2, 3, 4, 1, 2, 3, 4]
    assert by(instances) == ["nothing", *["order"] * 4]


def test_a_rank_that_leaves_before_another_enters_was_in_another_all_reduce():
    instance_of, instances = match_rows(row("gpu:0", 0, 10), row("gpu:1", 50, 60))
    assert (instance_of, by(instances)) == ([0, 1], ["nothing", "nothing"])
    assert len(instances.notes) == 1


def test_the_end_of_one_all_reduce_in_the_beginning_of_the_next_is_no_match():
    instance_of, instances = match_rows(row("gpu:0", 11, 23), row("gpu:1", 2, 14))
    assert (instance_of, by(instances)) == ([1, 0], ["nothing", "nothing"])


def test_a_record_that_is_missing_in_the_middle_parts_only_itself():
    first = [row("gpu:0", 100 * k, 100 * k + 50) for k in range(7)]
    second = [row("gpu:1", 100 * k + 20, 100 * k + 51) for k in (0, 1, 2, 4, 5, 6)]
    instance_of, _ = match_rows(*first, *second)
    assert instance_of == [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 4, 5, 6]


def test_records_that_are_missing_in_several_places_part_only_themselves():
    first = [row("gpu:0", 100 * k, 100 * k + 50) for k in range(12)]
    second = [row("gpu:1", 100 * k + 20, 100 * k + 51) for k in range(12) if k not in (3, 7)]
    instance_of, _ = match_rows(*first, *second)
    assert instance_of == [*range(12), 0, 1, 2, 4, 5, 6, 8, 9, 10, 11]


def test_of_collectives_of_which_half_would_be_matched_nothing_tells_by_how_much_a_device_is_shifted():
    first, second = [row("gpu:0", 51, 80)], [row("gpu:1", *times) for times in ((33, 60), (69, 82), (82, 110))]
    assert match_rows(*first, *second)[0] == [1, 0, 2, 3]
    # With two of three, most tell it.
    assert match_rows(*first, *second[:2])[0] == [1, 0, 1]


def test_a_loop_of_which_one_device_missed_the_first_round_is_not_counted_from_there():
    # Device 1 leaves each collective a little earlier and enters the next before device 0 has left.
    loop = {"hlo_op": "psum.1", "hlo_module": "jit_f", "run_id": 4}
    first = [row("gpu:0", 100 * k, 100 * k + 99, **loop) for k in range(6)]
    second = [row("gpu:1", 100 * k - 3, 100 * k + 96, **loop) for k in range(1, 6)]
    instance_of, _ = match_rows(*first, *second)
    assert instance_of == [0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5]


def test_a_run_tells_what_is_one_though_a_rank_left_a_broadcast_before_another_came():
    op = {"hlo_op": "broadcast.1", "hlo_module": "jit_f"}
    instance_of, instances = match_rows(
        row("gpu:0", 0, 5, "collective-broadcast", run_id=1, **op),
        row("gpu:1", 8, 12, "collective-broadcast", run_id=1, **op),
        row("gpu:2", 30, 40, "collective-broadcast", run_id=2, **op),
    )
    assert (instance_of, by(instances)) == ([0, 0, 1], ["run", "nothing"])


def test_clocks_that_differ_by_microseconds_do_not_part_a_short_collective():
    us = 1_000_000
    times = [(0, 20, 3, 23), (100, 110, 112, 117), (200, 220, 209, 223)]
    first = [row("gpu:0", start * us, end * us) for start, end, _, _ in times]
    second = [row("gpu:1", start * us, end * us) for _, _, start, end in times]
    # In the second, one ends 2 us before the other starts; their ends are 3 us apart elsewhere.
    assert match_rows(*first, *second)[0] == [0, 1, 2, 0, 1, 2]


def test_devices_on_different_clocks_are_never_one():
    instance_of, instances = match_rows(
        row("a/gpu:0", 0, 10, host="a", clock="a", group="dp", sequence=1),
        row("b/gpu:0", 0, 10, host="b", clock="b", group="dp", sequence=1),
    )
    assert (instance_of, by(instances), instances.notes) == ([0, 1], ["nothing", "nothing"], ())


def test_one_group_that_lists_all_devices_needs_no_numbers():
    instance_of, instances = match_rows(row("gpu:4", 0, 10, ranks="0,1"), row("gpu:7", 0, 10, ranks="0,1"))
    assert (instance_of, instances.ranks.tolist(), instances.notes) == ([0, 0], [2], ())


def test_several_groups_are_told_by_the_order_of_the_devices_of_one_process():
    row_dicts = [row(f"gpu:{k}", k, 20, ranks="{{0,2},{1,3}}") for k in range(4)]
    instance_of, instances = match_rows(*row_dicts)
    assert instance_of == [0, 1, 0, 1]
    assert instances.ranks.tolist() == [2, 2]
    assert instances.notes == (
        "The ranks {{0,2},{1,3}} were taken for the devices in order, as JAX numbers those of one process unless a "
        "mesh reorders them.",
    )


def test_groups_that_the_trace_does_not_show_whole_leave_each_device_alone():
    instance_of, instances = match_rows(*(row(f"tpu:{k}", 0, 10, ranks="{{0,4},{1,5},{2,6},{3,7}}") for k in range(4)))
    assert (instance_of, instances.ranks.tolist()) == ([0, 1, 2, 3], [2, 2, 2, 2])
    assert instances.notes == (
        "Which devices of this trace are the ranks {{0,4},{1,5},{2,6},{3,7}} is not known: those collectives are not "
        "matched, and their waiting is not known either.",
    )


@pytest.mark.parametrize(("lists", "more"), [(1, ""), (2, " and 1 other list"), (4, " and 3 other lists")])
def test_of_lists_of_ranks_that_tell_no_groups_the_first_is_named_and_the_others_are_counted(lists, more):
    ranks = [f"{{{{0,{4 + at}}},{{1,9}}}}" for at in range(lists)]
    (note,) = match_rows(*(row(f"gpu:{k}", 0, 10, ranks=text) for text in ranks for k in range(2)))[1].notes
    assert note.startswith(f"Which devices of this trace are the ranks {{{{0,4}},{{1,9}}}}{more} is not known: ")


def test_a_send_and_its_recv_are_one_and_each_direction_is_another():
    instance_of, _ = match_rows(
        row("gpu:0", 0, 10, "send", ranks="0,1"),
        row("gpu:0", 20, 30, "recv", ranks="0,1"),
        row("gpu:1", 2, 10, "recv", ranks="0,1"),
        row("gpu:1", 22, 30, "send", ranks="0,1"),
        row("gpu:1", 42, 50, "send", ranks="0,1"),
        row("gpu:0", 40, 50, "recv", ranks="0,1"),
    )
    assert instance_of == [0, 1, 0, 1, 2, 2]


def test_a_collective_is_complete_with_one_row_of_each_rank_or_where_none_are_told_with_several():
    _, instances = match_rows(
        *(row(f"gpu:{k}", 0, 10, group="all", sequence=1, ranks="0,1") for k in range(2)),
        row("gpu:0", 20, 30, group="all", sequence=2, ranks="0,1"),
        *(row(f"gpu:{k}", 40, 50, group="three", sequence=1, group_size=3) for k in range(2)),
        *(row(f"gpu:{k}", 60, 70, group="untold", sequence=1) for k in range(2)),
        row("gpu:0", 80, 90, group="untold", sequence=2),
        row("gpu:0", 100, 110, "send", group="p2p", sequence=1, group_size=4),
        row("gpu:1", 100, 110, "recv", group="p2p", sequence=1, group_size=4),
        row("gpu:0", 120, 130, "send", group="p2p", sequence=2, group_size=4),
    )
    assert instances.complete.tolist() == [True, False, False, True, False, True, False]


def test_sends_among_more_devices_do_not_tell_their_peers():
    instance_of, instances = match_rows(
        row("gpu:0", 0, 10, "send", ranks="0,1,2"),
        row("gpu:1", 0, 10, "recv", ranks="0,1,2"),
        row("gpu:2", 0, 10, "recv", ranks="0,1,2"),
    )
    assert instance_of == [0, 1, 2]
    assert instances.notes == (
        "3 sends and receives among more than two devices do not tell their peers: they stand alone.",
    )


def test_what_one_stream_of_each_device_runs_is_not_mixed_with_what_another_runs():
    # The second device runs the two at once in the other order.
    instance_of, _ = match_rows(
        row("gpu:0", 0, 50, lane="stream 1"),
        row("gpu:0", 10, 60, lane="stream 2"),
        row("gpu:1", 5, 60, lane="stream 2"),
        row("gpu:1", 12, 50, lane="stream 1"),
    )
    assert instance_of == [0, 1, 1, 0]


def test_streams_that_have_other_names_on_other_devices_tell_nothing():
    assert match_rows(row("gpu:0", 0, 50, lane="stream 7"), row("gpu:1", 10, 51, lane="stream 15"))[0] == [0, 0]
    row_dicts = [row(f"gpu:{k}", k, 50, lane="stream 7" if k < 2 else "stream 15") for k in range(4)]
    assert match_rows(*row_dicts)[0] == [0, 0, 0, 0]


def test_a_kernel_whose_category_is_not_told_is_named_by_itself():
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)"
    instance_of, instances = match_rows(
        row("gpu:0", 0, 10, None, name=name),
        row("gpu:1", 0, 10, "all-reduce-start", name=name),
        row("gpu:0", 20, 30, None, name="ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096>)"),
    )
    assert instance_of == [0, 0, 1]
    assert [instances.operations[code] for code in instances.operation] == ["all-reduce", "ncclDevKernel_Generic_1"]


def test_each_collective_has_the_operation_of_its_rows():
    what = ["all-reduce", "all-reduce", "all-to-all", "all-reduce", "all-gather"]
    _, instances = match_rows(
        *(row(f"gpu:{device}", 20 * at, 20 * at + 10, each) for device in range(2) for at, each in enumerate(what))
    )
    assert [instances.operations[code] for code in instances.operation] == what


def test_what_windows_cut_of_each_collective_is_one_in_each_window_and_is_not_complete():
    """One over all three windows, one over two of them, and one that the last holds whole."""
    times = [(0, 40), (20, 30), (32, 36)]
    row_dicts = [
        row(f"gpu:{k}", *time, sequence=at, group="g", ranks="0,1", lane=f"stream {at}")
        for k in range(2)
        for at, time in enumerate(times)
    ]
    whole = timeline_of(Trace(events=table(*row_dicts)))
    windows = np.array([[0, 5], [6, 25], [26, 40]])
    rows = whole.inside(windows).rows
    instance = np.array([int(lane.removeprefix("stream ")) for lane in rows.events["lane"].iloc[rows.at]])
    window = np.searchsorted(windows[:, 0], rows.start, side="right") - 1
    found = matched_inside(rows, whole.rows, whole.collectives, instance, window)
    assert len(found.complete) == 6
    pieces = {(number, *time) for number, *time in zip(found.instance, rows.start, rows.end, strict=True)}
    assert sorted((start, end, bool(found.complete[number])) for number, start, end in pieces) == [
        (0, 5, False),
        (6, 25, False),
        (20, 25, False),
        (26, 30, False),
        (26, 40, False),
        (32, 36, True),
    ]
    assert found.notes == ("Of 5 collectives only a part is in this report: nothing is said of their waiting.",)


def test_rows_without_a_device_and_other_kinds_have_no_instance():
    instance_of, _ = match_rows(row("cpu:?", 0, 10), row("cpu:0", 0, 10, kind="compute"))
    assert instance_of == [-1, -1]
    assert match(rows(table())).instance.tolist() == []


@st.composite
def programs(draw):
    """Rows of collectives of a random program, the true instance of each, and how they are named."""
    devices = draw(st.integers(2, 4))
    identified_by = draw(st.sampled_from(["sequence", "run", "own runs", "nothing"]))
    ops, runs, loops = draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    jitter = 3
    numbers = st.integers(0, 60)
    first_run = [draw(st.integers(0, 3)) for _ in range(devices)]
    cursor = [draw(numbers) for _ in range(devices)]
    row_dicts, truth = [], []
    number = 0
    for run in range(runs):
        for _ in range(loops):
            for op in range(ops):
                start = [at + draw(numbers) for at in cursor]
                met = max(start) + draw(st.integers(8, 30))
                for device in range(devices):
                    end = met + draw(st.integers(0, jitter))
                    identity = (
                        {"hlo_op": f"all-reduce.{op}", "hlo_module": "jit_f"} if identified_by != "sequence" else {}
                    )
                    identity |= {"run_id": run} if identified_by == "run" else {}
                    identity |= {"run_id": run + first_run[device]} if identified_by == "own runs" else {}
                    identity |= {"sequence": number, "group": "g"} if identified_by == "sequence" else {}
                    row_dicts.append(row(f"gpu:{device}", start[device], end, **identity))
                    truth.append(number)
                    cursor[device] = end
                number += 1
    # Each device may miss some at either end: fewer than a quarter, so that most votes are right.
    most = runs * loops // 5 * ops
    cut = [(draw(st.integers(0, most)), number - draw(st.integers(0, most))) for _ in range(devices)]
    places = [at for at, instance in enumerate(truth) if cut[at % devices][0] <= instance < cut[at % devices][1]]
    return (
        [row_dicts[at] for at in places],
        [truth[at] for at in places],
        identified_by,
        all(bounds == (0, number) for bounds in cut),
    )


@settings(max_examples=120)
@given(programs())
def test_what_random_programs_ran_together_is_found_and_nothing_else(program):
    row_dicts, truth, identified_by, complete = program
    instance_of, instances = match_rows(*row_dicts)
    whole: dict[int, set[int]] = {}
    for at, instance in enumerate(instance_of):
        whole.setdefault(instance, set()).add(truth[at])
    assert all(len(members) == 1 for members in whole.values())
    if complete or identified_by == "sequence":
        assert len(whole) == len(set(truth))
    # At most one row of a device, numbered by first start, and no rank leaves before all have entered.
    first = {}
    for instance in whole:
        mine = [row for row, at in zip(row_dicts, instance_of, strict=True) if at == instance]
        assert len({row["device"] for row in mine}) == len(mine)
        assert max(row["start_ps"] for row in mine) <= min(row["end_ps"] for row in mine)
        first[instance] = min(row["start_ps"] for row in mine)
    assert [first[instance] for instance in sorted(first)] == sorted(first.values())
    assert sorted(first) == list(range(len(instances.matched_by)))


def whole(name: str) -> tuple[np.ndarray, list[int], CollectiveInstances]:
    """The instance of each row, how many instances have 1, 2, … rows, and how they were matched."""
    sorted_rows = rows(traces.trace(name).events)
    instances = match(sorted_rows)
    sizes = np.bincount(instances.instance[instances.instance >= 0])
    return instances.instance, np.bincount(sizes).tolist() if len(sizes) else [], instances


@pytest.mark.parametrize(
    "case",
    [
        "generated/gpu.xplane.pb",
        "generated/gpu.trace.json.gz",
        "generated/gpu.sqlite",
        "generated/kineto",
        "generated/tpu.xplane.pb",
        "generated/tpu.trace.json.gz",
    ],
)
def test_the_collectives_of_two_generated_devices_pair_up(case):
    _, sizes, instances = whole(case)
    assert sizes == [0, 0, 6]
    assert [instances.operations[code] for code in instances.operation] == ["all-reduce", "all-gather"] * 3
    assert instances.notes == ()


@needs_real
def test_all_collectives_of_two_tpu_chips_pair_up():
    _, sizes, instances = whole("chrome/jax-tpu-2chip-vllm.trace.json.gz")
    assert sizes == [0, 0, 131]
    assert [instances.operations[code] for code in instances.operation].count("all-gather") == 2
    assert instances.notes == ()


@needs_real
def test_the_eight_ranks_of_a_training_step_share_all_their_collectives():
    _, sizes, instances = whole("kineto/dlrm-8xV100")
    assert sizes == [0] * 8 + [8]
    assert set(by(instances)) == {"order"}


@needs_real
def test_the_sends_of_two_processes_pair_up():
    assert whole("nsys/mfu_2gpu_before-2xH100.sqlite")[1] == [0, 0, 33]


@needs_real
def test_tpu_chips_whose_peers_are_on_another_host_stand_alone():
    _, sizes, instances = whole("xplane/tpu-v6e-4chip")
    assert sizes == [0, 12]
    assert instances.ranks.tolist() == [2] * 12
    assert len(instances.notes) == 1
