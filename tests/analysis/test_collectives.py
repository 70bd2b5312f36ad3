import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import traces
from tests.collective_frames import row, table
from tests.traces import needs_real
from tracekit.analysis.collectives import (
    COLLECTIVE_COLUMNS,
    OP_COLUMNS,
    TOTAL_COLUMNS,
    Collectives,
    collectives,
)
from tracekit.analysis.stragglers import DEVICE_COLUMNS, HOST_COLUMNS
from tracekit.columns import records
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import Trace

MS = 10**9
ALL_COLUMNS = (COLLECTIVE_COLUMNS, DEVICE_COLUMNS, HOST_COLUMNS, OP_COLUMNS, TOTAL_COLUMNS)


def analyse(*row_dicts: dict, window: tuple[int, int] | None = None) -> Collectives:
    return collectives(timeline_of(table(*row_dicts), window))


def plain(frame: pd.DataFrame) -> list[dict]:
    return [{key: None if pd.isna(value) else value for key, value in record.items()} for record in records(frame)]


# Three devices; the last to start is gpu:2, then gpu:0. gpu:0 computes during the first 20 ms of its first wait.
HAND_MADE = (
    row("gpu:0", 0, 100 * MS, hlo_op="all-reduce.1", bytes=300_000, ranks="0,1,2", group="channel 1"),
    row("gpu:1", 40 * MS, 100 * MS, hlo_op="all-reduce.1", bytes=300_000, ranks="0,1,2", group="channel 1"),
    row("gpu:2", 70 * MS, 100 * MS, hlo_op="all-reduce.1", bytes=300_000, ranks="0,1,2", group="channel 1"),
    row("gpu:0", 0, 20 * MS, kind="compute", lane="stream 2"),
    row("gpu:0", 130 * MS, 142 * MS, "all-gather", hlo_op="all-gather.1", bytes=3000, ranks="0,1,2"),
    row("gpu:1", 120 * MS, 140 * MS, "all-gather", hlo_op="all-gather.1", bytes=3000, ranks="0,1,2"),
    row("gpu:2", 125 * MS, 141 * MS, "all-gather", hlo_op="all-gather.1", bytes=3000, ranks="0,1,2"),
    row("gpu:2", 190 * MS, 200 * MS, kind="compute"),
)


def test_each_instance_is_split_into_waiting_for_the_last_and_transfer():
    result = analyse(*HAND_MADE)
    first = {
        "instance": 0,
        "op": "all-reduce.1",
        "category": "all-reduce",
        "group": "channel 1",
        "clock": "",
        "matched_by": "order",
        "devices": 3,
        "ranks": 3,
        "start_ps": 0,
        "last_start_ps": 70 * MS,
        "end_ps": 100 * MS,
        "skew_ps": 70 * MS,
        "end_skew_ps": 0,
        "last": "gpu:2",
        "wait_ps": 100 * MS,  # 70 + 30
        "exposed_wait_ps": 100 * MS,  # without its 70, gpu:0 would have ended at 30, and exposed 10 instead of 80
        "recorded_wait_ps": None,
        "transfer_ps": 30 * MS,
        "device_time_ps": 190 * MS,
        "shortest_ps": 30 * MS,
        "longest_ps": 100 * MS,
        "hidden_ps": 20 * MS,
        "exposed_ps": 170 * MS,
        "bytes": 300_000,
        "algorithm_bytes_per_s": 1e7,  # 300 kB in 30 ms
        "bus_bytes_per_s": pytest.approx(1e7 * 4 / 3),
        "at_least": False,
        "reason": None,
    }
    second = first | {
        "instance": 1,
        "op": "all-gather.1",
        "category": "all-gather",
        "group": None,
        "start_ps": 120 * MS,
        "last_start_ps": 130 * MS,
        "end_ps": 142 * MS,
        "skew_ps": 10 * MS,
        "end_skew_ps": 2 * MS,
        "last": "gpu:0",
        "wait_ps": 15 * MS,
        "exposed_wait_ps": 15 * MS,
        "transfer_ps": 12 * MS,
        "device_time_ps": 48 * MS,
        "shortest_ps": 12 * MS,
        "longest_ps": 20 * MS,
        "hidden_ps": 0,
        "exposed_ps": 48 * MS,
        "bytes": 3000,
        "algorithm_bytes_per_s": 250_000.0,
        "bus_bytes_per_s": pytest.approx(250_000 * 2 / 3),
    }
    assert plain(result.table) == [first, second]
    assert (result.alone, result.notes, result.lacking) == ("", (), "")


def test_each_device_is_told_how_often_it_was_last_and_what_that_cost_the_others():
    common = {"collectives": 2, "n": 2, "expected_last": pytest.approx(2 / 3), "straggler": False}
    assert plain(analyse(*HAND_MADE).by_device) == [
        common
        | {
            "device": "gpu:0",
            "last": 1,
            "cost_ps": 15 * MS,
            "exposed_cost_ps": 15 * MS,
            "gain_ps": 5 * MS,
            "held_up_ratio": pytest.approx(7.5 / 200),
            "waiting_ps": 70 * MS,
            "transfer_ps": 42 * MS,
            "device_time_ps": 112 * MS,
            "hidden_ps": 20 * MS,
            "exposed_ps": 92 * MS,
        },
        common
        | {
            "device": "gpu:1",
            "last": 0,
            "cost_ps": 0,
            "exposed_cost_ps": 0,
            "gain_ps": 0,
            "held_up_ratio": 0.0,
            "waiting_ps": 40 * MS,
            "transfer_ps": 40 * MS,
            "device_time_ps": 80 * MS,
            "hidden_ps": 0,
            "exposed_ps": 80 * MS,
        },
        common
        | {
            "device": "gpu:2",
            "last": 1,
            "cost_ps": 100 * MS,
            "exposed_cost_ps": 100 * MS,
            "gain_ps": 30 * MS,
            "held_up_ratio": pytest.approx(50 / 200),
            "waiting_ps": 5 * MS,
            "transfer_ps": 41 * MS,
            "device_time_ps": 46 * MS,
            "hidden_ps": 0,
            "exposed_ps": 46 * MS,
        },
    ]


def test_the_totals_are_those_of_all_rows():
    assert plain(analyse(*HAND_MADE).total) == [
        {
            "collectives": 2,
            "shared": 2,
            "devices": 3,
            "device_time_ps": 238 * MS,
            "shared_time_ps": 238 * MS,
            "waiting_ps": 115 * MS,
            "exposed_wait_ps": 115 * MS,
            "wait_ratio": pytest.approx(115 / 238),
            "hidden_ps": 20 * MS,
            "exposed_ps": 218 * MS,
        }
    ]


def test_operations_are_summed_by_what_they_do_and_how_much_they_move():
    more = [row(device, 300 * MS, 304 * MS, bytes=300_001, ranks="0,1,2") for device in ("gpu:0", "gpu:1", "gpu:2")]
    by_op = plain(analyse(*HAND_MADE, *more).by_op)
    assert by_op == [
        {
            "category": "all-reduce",
            "ranks": 3,
            "size_bytes": 2**18,
            "n": 2,
            "bytes": 600_001,
            "duration_ps": 17 * MS,  # of 4, 4, 4, 30, 60 and 100 ms
            "wait_ratio": pytest.approx(100 / 202),
            "algorithm_bytes_per_s": pytest.approx((1e7 + 300_001 / 0.004) / 2),
            "bus_bytes_per_s": pytest.approx((1e7 + 300_001 / 0.004) / 2 * 4 / 3),
            "at_least": False,
            "device_time_ps": 202 * MS,
            "exposed_ps": 182 * MS,
        },
        {
            "category": "all-gather",
            "ranks": 3,
            "size_bytes": 2**11,
            "n": 1,
            "bytes": 3000,
            "duration_ps": 16 * MS,
            "wait_ratio": pytest.approx(15 / 48),
            "algorithm_bytes_per_s": 250_000.0,
            "bus_bytes_per_s": pytest.approx(250_000 * 2 / 3),
            "at_least": False,
            "device_time_ps": 48 * MS,
            "exposed_ps": 48 * MS,
        },
    ]


def test_a_power_of_two_begins_its_size():
    row_dicts = [row("gpu:0", 10 * k, 10 * k + 1, bytes=size) for k, size in enumerate((1023, 1024, 0))]
    row_dicts.append(row("gpu:0", 90, 91))
    assert [record["size_bytes"] for record in plain(analyse(*row_dicts).by_op)] == [512, 1024, 0, None]


def test_devices_that_start_last_together_share_the_cost_and_neither_is_called_last():
    result = analyse(row("gpu:0", 0, 20), row("gpu:1", 7, 20), row("gpu:2", 7, 20))
    assert plain(result.table)[0]["last"] is None
    by_device = result.by_device.set_index("device")
    assert by_device["cost_ps"].to_dict() == {"gpu:0": 0, "gpu:1": 4, "gpu:2": 3}
    assert by_device["last"].tolist() == [0, 0, 0]
    assert by_device["expected_last"].tolist() == [0.0, 0.0, 0.0]


def test_a_device_that_left_before_the_last_one_came_waited_until_it_left():
    # A broadcast's root may go early.
    result = analyse(
        *(row("gpu:0", 100 * k, 100 * k + 20, "collective-broadcast") for k in range(3)),
        *(row("gpu:1", 100 * k + (30 if k else 5), 100 * k + 40, "collective-broadcast") for k in range(3)),
        row("gpu:0", 400, 420, "collective-broadcast"),
        row("gpu:1", 405, 425, "collective-broadcast"),
    )
    assert result.table["wait_ps"].tolist() == [5, 20, 20, 5]
    assert result.by_device["waiting_ps"].tolist() == [50, 0]
    assert result.by_device["cost_ps"].tolist() == [0, 50]


def test_one_rank_alone_tells_no_waiting_but_a_lower_bound_of_its_bandwidth():
    result = analyse(row("gpu:0", 0, 10**12, bytes=1000, ranks="0,1"), row("gpu:0", 10**12, 2 * 10**12, kind="compute"))
    (only,) = plain(result.table)
    nothing = ("last_start_ps", "skew_ps", "end_skew_ps", "last", "wait_ps", "exposed_wait_ps", "transfer_ps")
    assert [only[name] for name in nothing] == [None] * len(nothing)
    assert (only["algorithm_bytes_per_s"], only["bus_bytes_per_s"], only["at_least"]) == (1000.0, 1000.0, True)
    assert only["reason"] == "seen on one device only, so its waiting is not known"
    assert result.alone == (
        "The trace shows the collectives of one device only: waiting, skew and stragglers cannot be computed "
        "from one rank alone."
    )
    (device,) = plain(result.by_device)
    assert [device[name] for name in ("cost_ps", "held_up_ratio", "expected_last", "waiting_ps", "transfer_ps")] == (
        [None] * 5
    )
    assert (device["device_time_ps"], device["straggler"]) == (10**12, False)
    assert plain(result.total)[0]["wait_ratio"] is None


def test_of_many_ranks_a_few_may_be_missing_from_all_collectives_but_not_from_some_alone():
    every = [row(f"gpu:{k}", 0, 100, group="g", sequence=0, group_size=64) for k in range(62)]
    fewer = [row(f"gpu:{k}", 200, 300, group="g", sequence=1, group_size=64) for k in range(61)]
    assert analyse(*every, *fewer).table["wait_ps"].isna().tolist() == [False, True]
    assert analyse(*fewer).table["wait_ps"].isna().tolist() == [False]
    assert analyse(*every[:60]).table["wait_ps"].isna().tolist() == [True]  # a sixteenth of them is too much


def test_nothing_is_said_of_the_waiting_for_what_a_window_cut_on_all_devices():
    row_dicts = [
        row(f"gpu:{k}", start + 10 * k, start + 100, sequence=start, group="g", ranks="0,1")
        for start in (0, 200)
        for k in range(2)
    ]
    inside = timeline_of(Trace(events=table(*row_dicts))).narrowed([[0, 250]])
    assert plain(collectives(inside).table[["devices", "wait_ps"]]) == [
        {"devices": 2, "wait_ps": 10},
        {"devices": 2, "wait_ps": None},
    ]


def test_devices_whose_collectives_were_not_matched_say_so():
    result = analyse(*(row(f"tpu:{k}", 0, 10, ranks="{{0,2},{1,3}}") for k in range(2)))
    assert result.alone == (
        "No collective could be matched over the devices of the trace: waiting, skew and stragglers cannot be computed."
    )
    assert len(result.notes) == 1


def test_the_profilers_own_wait_stands_beside_the_computed_one_where_every_row_has_it():
    result = analyse(
        row("cpu:0", 0, 30, wait_ps=9),
        row("cpu:1", 10, 30, wait_ps=0),
        row("cpu:0", 40, 50, wait_ps=3),
        row("cpu:1", 41, 50),
    )
    assert plain(result.table[["wait_ps", "recorded_wait_ps"]]) == [
        {"wait_ps": 10, "recorded_wait_ps": 9},
        {"wait_ps": 1, "recorded_wait_ps": None},
    ]


def test_the_rank_that_sends_most_tells_the_size():
    result = analyse(row("gpu:0", 0, 30, "all-to-all", bytes=9), row("gpu:1", 0, 30, "all-to-all", bytes=11))
    assert result.table["bytes"].tolist() == [11]


def test_without_collectives_it_says_so():
    result = analyse(row("gpu:0", 0, 10, kind="compute"))
    assert result.lacking == "The trace holds no collectives."
    frames = (result.table, result.by_device, result.by_host, result.by_op, result.total)
    for frame, columns in zip(frames, ALL_COLUMNS, strict=True):
        assert (len(frame), list(frame.columns)) == (0, list(columns))


def test_the_columns_have_the_dtypes_that_they_promise():
    result = analyse(*HAND_MADE)
    for frame, columns in (
        (result.table, COLLECTIVE_COLUMNS),
        (result.by_device, DEVICE_COLUMNS),
        (result.by_host, HOST_COLUMNS),
        (result.by_op, OP_COLUMNS),
        (result.total, TOTAL_COLUMNS),
    ):
        assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == columns


@pytest.mark.parametrize(
    ("device", "waits", "at_least"),
    [
        ("tpu", (4_000, 4_000), True),  # each done found it landed
        ("tpu", (4_000, 30_000_000), False),  # the last one waited until it had
        ("tpu", (30_000_000, 4_000), True),
        ("tpu", (None, None), False),
        ("tpu", (MS, MS), False),  # all of it is the wait: it is not asynchronous
        ("gpu", (4_000, 4_000), False),
    ],
)
def test_the_bandwidth_of_what_had_landed_before_its_done_is_a_lower_bound(device, waits, at_least):
    ends = (MS, MS + 1)
    starts = (0, 1 if waits[1] == MS else 0)
    rows = [
        row(f"{device}:{k}", start, end, bytes=10**6, ranks="0,1", wait_ps=wait)
        for k, (start, end, wait) in enumerate(zip(starts, ends, waits, strict=True))
    ]
    result = analyse(*rows)
    assert result.table["at_least"].tolist() == [at_least]
    assert result.by_op["at_least"].tolist() == [at_least]


def test_hidden_and_exposed_time_count_inside_the_window_only():
    result = analyse(row("gpu:0", 0, 100), row("gpu:1", 60, 100), row("gpu:0", 10, 50, kind="compute"), window=(40, 80))
    assert plain(result.table[["hidden_ps", "exposed_ps", "exposed_wait_ps"]]) == [
        {"hidden_ps": 10, "exposed_ps": 50, "exposed_wait_ps": 20}
    ]


@st.composite
def programs(draw):
    """Random collectives with compute between and beneath them, which share a sequence number; times are small."""
    devices = draw(st.integers(1, 4))
    row_dicts, at = [], 0
    for number in range(draw(st.integers(1, 6))):
        category = draw(st.sampled_from(["all-reduce", "all-gather", "collective-broadcast"]))
        members = sorted(draw(st.sets(st.integers(0, devices - 1), min_size=1)))
        starts = [at + draw(st.integers(0, 12)) for _ in members]
        met = max(starts) + draw(st.integers(0, 6))
        for device, start in zip(members, starts, strict=True):
            end = met + draw(st.integers(0, 4))
            row_dicts.append(
                row(f"gpu:{device}", start, end, category, sequence=number, group="g", hlo_op=f"op.{number}")
            )
            at = max(at, end)
    for _ in range(draw(st.integers(0, 8))):
        start = draw(st.integers(0, 80))
        row_dicts.append(
            row(f"gpu:{draw(st.integers(0, devices - 1))}", start, start + draw(st.integers(0, 20)), kind="compute")
        )
    return row_dicts


@settings(max_examples=60)
@given(programs())
def test_every_figure_is_what_counting_picoseconds_gives(row_dicts):
    result = analyse(*row_dicts)
    collective_rows = [event for event in row_dicts if event["kind"] == "collective"]
    computes: dict[str, set[int]] = {}
    for event in row_dicts:
        if event["kind"] == "compute":
            computes.setdefault(event["device"], set()).update(range(event["start_ps"], event["end_ps"]))
    waiting_ps: dict[str, int] = {event["device"]: 0 for event in collective_rows}
    for number in {event["sequence"] for event in collective_rows}:
        mine = [event for event in collective_rows if event["sequence"] == number]
        last = max(event["start_ps"] for event in mine)
        (figures,) = [record for record in plain(result.table) if record["op"] == f"op.{number}"]
        assert (figures["devices"], figures["category"]) == (len(mine), mine[0]["category"])
        assert (figures["start_ps"], figures["end_ps"]) == (
            min(event["start_ps"] for event in mine),
            max(event["end_ps"] for event in mine),
        )
        busy = [(event["device"], at) for event in mine for at in range(event["start_ps"], event["end_ps"])]
        behind = [1 for device, at in busy if at in computes.get(device, ())]
        assert (figures["hidden_ps"], figures["exposed_ps"]) == (len(behind), len(busy) - len(behind))
        if len(mine) > 1:
            waits = [(device, at) for device, at in busy if at < last]
            assert figures["wait_ps"] == len(waits)
            # By its wait each row would have ended sooner.
            saved = [
                (event["device"], event["end_ps"] - 1 - at)
                for event in mine
                for at in range(min(last, event["end_ps"]) - event["start_ps"])
            ]
            assert figures["exposed_wait_ps"] == len([1 for device, at in saved if at not in computes.get(device, ())])
            assert figures["transfer_ps"] == figures["end_ps"] - last
            for device, _ in waits:
                waiting_ps[device] += 1
            late = [event["device"] for event in mine if event["start_ps"] == last]
            assert figures["last"] == (late[0] if len(late) == 1 and figures["skew_ps"] else None)
        else:
            assert figures["wait_ps"] is None
    by_device = {record["device"]: record for record in plain(result.by_device)}
    assert {name: record["waiting_ps"] or 0 for name, record in by_device.items()} == waiting_ps
    for cost, wait in (("cost_ps", "wait_ps"), ("exposed_cost_ps", "exposed_wait_ps")):
        assert result.by_device[cost].sum() == result.table[wait].sum()
    assert result.by_device["last"].sum() == result.table["last"].notna().sum()
    assert result.by_device["expected_last"].sum() == pytest.approx(result.table["last"].notna().sum())
    for name in ("hidden_ps", "exposed_ps", "device_time_ps"):
        assert result.by_device[name].sum() == result.table[name].sum() == result.total[name].sum()


@pytest.mark.parametrize(
    "case", ["generated/gpu.xplane.pb", "generated/gpu.trace.json.gz", "generated/gpu.sqlite", "generated/kineto"]
)
def test_two_gpus_wait_for_each_other_as_long_as_their_schedule_has_it(case):
    result = collectives(traces.timeline(case))
    assert result.table["matched_by"].nunique() == 1
    # The second GPU is 20 us late to each all-reduce, the first 10 us to each all-gather.
    assert (result.table["skew_ps"] // 10**6).tolist() == [20, 10] * 3
    assert result.table["last"].str[-5:].tolist() == ["gpu:1", "gpu:0"] * 3
    assert result.table["end_skew_ps"].tolist() == [0] * 6
    assert result.total["waiting_ps"].tolist() == [3 * 30 * 10**6]
    # Each moved its bytes from the start of the last one on: all-reduces 4 MiB in 200 us, which ring algorithms send
    # 2 (n - 1) / n times, all-gathers 2 MiB in 70 us, (n - 1) / n times.
    has_rate = result.table["bus_bytes_per_s"].notna()
    expected = [4 * 2**20 / 200e-6, 2**20 / 70e-6] * 3
    assert result.table.loc[has_rate, "bus_bytes_per_s"].tolist() == pytest.approx(
        [rate for rate, there in zip(expected, has_rate, strict=True) if there]
    )
    # JSON has no HLO; what a rank gathers from how many others, Nsight's payloads do not tell.
    assert has_rate.tolist() == [not case.endswith(".json.gz"), not case.endswith((".json.gz", ".sqlite"))] * 3


@pytest.mark.parametrize("case", ["generated/tpu.xplane.pb", "generated/tpu.trace.json.gz"])
def test_two_chips_wait_for_each_other_as_long_as_their_schedule_has_it(case):
    result = collectives(traces.timeline(case))
    assert result.total[["collectives", "shared"]].to_numpy().tolist() == [[6, 6]]
    assert (result.table["skew_ps"] // 10**6).tolist() == [5, 0] * 3
    assert result.total["waiting_ps"].tolist() == [3 * 5 * 10**6]
    assert result.table["last"].fillna("").tolist() == ["tpu:1", ""] * 3
    assert not result.by_device["straggler"].any()


def test_of_one_rank_or_one_chip_durations_are_all_that_is_known():
    result = collectives(traces.timeline("generated/kineto/rank0.pt.trace.json.gz"))
    assert result.alone
    assert result.table["ranks"].tolist() == [2] * 6
    events = traces.trace("generated/tpu.xplane.pb").events
    result = collectives(timeline_of(events[events["device"] == "tpu:0"]))
    assert (len(result.table), result.table["at_least"].all()) == (6, True)


@needs_real
def test_the_ranks_of_a_training_step_start_up_to_7624_us_apart_and_end_within_7_us():
    trace = traces.trace("kineto/dlrm-8xV100")
    result, events = collectives(timeline_of(trace)), trace.events
    assert int(result.table["skew_ps"].max()) == 7_624_000_000
    assert int(result.table["end_skew_ps"].max()) == 7_000_000
    # Independently: the k-th collective of each rank, by pandas.
    collective_rows = events[events["kind"] == "collective"].sort_values(["device", "start_ps"])
    k = collective_rows.groupby("device", observed=True).cumcount()
    last = collective_rows.groupby(k)["start_ps"].transform("max")
    assert int(result.total["waiting_ps"].iloc[0]) == int((last - collective_rows["start_ps"]).sum())
    assert result.table["last"].tolist() == [
        collective_rows.loc[place, "device"] for place in collective_rows.groupby(k)["start_ps"].idxmax()
    ]
    assert result.by_device.loc[result.by_device["straggler"], "device"].tolist() == ["rank7/gpu:7"]


@needs_real
def test_the_collectives_of_two_tpu_chips_are_transfer_for_the_most_part():
    result = collectives(traces.timeline("chrome/jax-tpu-2chip-vllm"))
    assert result.total[["collectives", "shared"]].to_numpy().tolist() == [[131, 131]]
    assert 0.01 < result.total["wait_ratio"].iloc[0] < 0.03
    # Together the devices' collective time is that of independent sweeps, in expected.json: no two ran at once.
    assert [round(time / 10**6, 3) for time in result.by_device["device_time_ps"]] == [3438.251, 3458.383]
    assert not result.by_device["straggler"].any()


@needs_real
def test_one_rank_of_two_shows_durations_only():
    result = collectives(traces.timeline("kineto/hta-nccl_data-A100"))
    assert result.alone
    assert len(result.table) == 21
    assert result.table["at_least"].all()
    assert result.table["ranks"].tolist() == [2] * 21


@needs_real
def test_tpu_chips_whose_peers_are_elsewhere_say_that_they_stand_alone():
    result = collectives(traces.timeline("xplane/tpu-v6e-4chip"))
    assert result.alone
    assert (len(result.table), len(result.notes)) == (12, 1)
    # 5,368,709,120 bytes in 121.688 ms, of two ranks, of which one may have waited.
    assert result.table["bus_bytes_per_s"].iloc[0] == pytest.approx(5_368_709_120 / 0.12168764)


@needs_real
def test_sends_between_two_processes_wait_more_than_half_of_their_time():
    result = collectives(traces.timeline("nsys/mfu_2gpu_before-2xH100"))
    assert result.total["shared"].tolist() == [33]
    assert result.total["wait_ratio"].iloc[0] == pytest.approx(0.5266, abs=1e-4)
    assert result.table["reason"].unique().tolist() == ["the trace does not say how many bytes it moved"]


@pytest.mark.parametrize("jax", ["0.10.2", "0.12.0"])
def test_on_cpu_the_wait_is_what_the_profiler_shows_in_the_rendezvous(jax):
    result = collectives(traces.timeline(f"two-cpu-devices-jax{jax}.xplane.pb"))
    assert result.table["matched_by"].tolist() == ["run"] * 3
    assert result.table["last"].tolist() == ["cpu:1"] * 3
    assert result.table["wait_ps"].tolist() == pytest.approx(result.table["recorded_wait_ps"].tolist(), rel=0.12)
