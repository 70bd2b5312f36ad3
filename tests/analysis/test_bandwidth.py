"""How fast copies and ops went: hand-made traces whose rates are known, a count over points, and real traces."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import traces
from tests.bandwidth_frames import ABLE, US, copies, devices, ops, rates, with_ops
from tests.data import schedule
from tests.frames import events
from tracekit.analysis.bandwidth import SMALL_BYTES, bandwidth
from tracekit.columns import frame
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import EVENT_COLUMNS, Trace

MIB = 2**20


def only(table: pd.DataFrame) -> dict:
    (row,) = table.astype(object).where(table.notna(), None).to_dict("records")
    return row


def test_copies_that_run_at_once_share_their_time():
    # 3 MiB in the first 30 us together, 1 MiB in 10 us later, and a small one in 5 us: 4 MiB + 5 bytes in 45 us.
    table = copies(
        ("H2D", 0, 30 * US, 2 * MIB),
        ("H2D", 10 * US, 20 * US, MIB),
        ("H2D", 50 * US, 60 * US, MIB),
        ("H2D", 90 * US, 95 * US, 5),
    )
    assert only(rates(table, devices(("gpu:0", "Tesla V100-SXM2-16GB", None, None))).copies) == {
        "device": "gpu:0",
        "direction": "H2D",
        "n": 4,
        "bytes": 4 * MIB + 5,
        "busy_ps": 45 * US,
        "bytes_per_s": pytest.approx((4 * MIB + 5) / 45e-6),
        "median_bytes_per_s": pytest.approx(MIB / 10e-6),
        "best_bytes_per_s": pytest.approx(MIB / 10e-6),
        "small": 1,
        "small_busy_ps": 5 * US,
        "impossible": 0,
        "limit_bytes_per_s": 15753846153,
        "limit_from": "datasheet",
        "limit_ratio": pytest.approx((4 * MIB + 5) / 45e-6 / 15753846153),
        "reason": "more than the limit: out of a cache, or the limit is not that of this device",
    }


def test_a_device_copy_at_half_the_memory_bandwidth_is_at_its_limit():
    table = copies(("D2D", 0, 10 * US, 5 * 10**6))
    row = only(rates(table, devices(("gpu:0", None, 10**12, None))).copies)
    assert (row["bytes_per_s"], row["limit_bytes_per_s"], row["limit_ratio"]) == (5e11, 5e11, 1.0)
    assert (row["limit_from"], row["reason"]) == ("trace", None)


@pytest.mark.parametrize("narrows", [False, True])
def test_copies_that_a_part_cuts_count_in_no_rate_and_are_called_so(narrows):
    table = copies(("H2D", 0, 10 * US, 8 * MIB), ("H2D", 20 * US, 30 * US, 2 * MIB), ("H2D", 40 * US, 50 * US, 8 * MIB))

    def inside(start, end):
        whole, windows = timeline_of(Trace(table, devices=ABLE)), (start * US, end * US)
        row = only(bandwidth(whole.narrowed(windows) if narrows else whole.inside(windows)).copies)
        cut = (row["reason"] or "").split("; ")[0]
        return row["n"], row["bytes"], row["busy_ps"] // US, row["bytes_per_s"], cut if "cut" in cut else None

    rate = pytest.approx(2 * MIB / 10e-6)
    assert inside(5, 35) == (2, 2 * MIB, 15, rate, "1 of 2 copies is cut by this part: not in the rate")
    assert inside(5, 45) == (3, 2 * MIB, 20, rate, "2 of 3 copies are cut by this part: not in the rate")
    assert inside(20, 40) == (1, 2 * MIB, 10, rate, None)
    assert inside(22, 35) == (1, None, 8, None, "1 of 1 copies is cut by this part: not in the rate")


def test_a_rate_without_all_bytes_is_null_with_its_reason():
    row = only(rates(copies(("D2H", 0, 10 * US, 8 * MIB), ("D2H", 20 * US, 30 * US, None))).copies)
    assert (row["n"], row["bytes"], row["bytes_per_s"], row["limit_ratio"]) == (2, None, None, None)
    assert row["best_bytes_per_s"] == pytest.approx(8 * MIB / 10e-6)
    assert row["reason"] == (
        "1 of 2 copies state no bytes; the trace does not state the host link, nor which model the device is"
    )


def test_a_copy_faster_than_the_memory_it_ends_in_is_left_out_of_best_and_median():
    table = copies(
        ("H2D", 0, 100 * US, 4 * MIB), ("H2D", 200 * US, 201 * US, 4 * MIB), ("H2D", 300 * US, 300 * US, 4 * MIB)
    )
    row = only(rates(table, devices(("gpu:0", None, 10**12, None))).copies)
    assert (row["impossible"], row["best_bytes_per_s"]) == (2, pytest.approx(4 * MIB / 100e-6))
    assert row["reason"].startswith("2 of 3 take less time than the memory needs: best and median leave them out")
    # Without a known memory only the copy without time is impossible.
    row = only(rates(table).copies)
    assert (row["impossible"], row["best_bytes_per_s"]) == (1, pytest.approx(4 * MIB / 1e-6))


def test_a_copy_within_a_device_may_be_faster_than_its_memory_out_of_a_cache():
    row = only(rates(copies(("D2D", 0, US, 4 * MIB)), devices(("gpu:0", None, 10**12, None))).copies)
    assert (row["impossible"], row["best_bytes_per_s"]) == (0, pytest.approx(4 * MIB / 1e-6))
    assert row["reason"] == "more than the limit: out of a cache, or the limit is not that of this device"


def test_copies_without_time_have_no_rate():
    row = only(rates(copies(("D2D", 5, 5, 7))).copies)
    assert (row["bytes"], row["busy_ps"], row["bytes_per_s"], row["small"]) == (7, 0, None, 1)
    assert row["reason"].startswith("the copies take no time; ")


def test_directions_stand_apart_and_one_that_is_not_told_has_no_limit():
    copy_rates = rates(copies((None, 0, 1, 1), ("P2P", 0, 1, 1), ("H2D", 0, 1, 1))).copies
    assert copy_rates["direction"].tolist() == ["H2D", "P2P", "unknown"]
    assert copy_rates["reason"].tolist()[-1] == "the trace does not say between which memories they copy"


def test_copies_on_an_unknown_device_and_without_ops_and_occupancy_leave_nothing():
    result = rates(events(("cpu:?", "memcpy", 0, 9, "copy", "P2P")))
    frames = (result.copies, result.ops, result.by_device, result.occupancy, result.low)
    assert [len(frame) for frame in frames] == [0] * 5
    assert result.lacking == (
        "The trace holds no copies on a known device. The trace does not say how many FLOPs or bytes an op takes. "
        "The trace does not say how occupied the kernels kept their device."
    )
    assert rates(copies(("H2D", 0, 1, 1))).lacking == ""
    assert set(rates(copies(("H2D", 0, 1, 1))).reasons) == {"ops", "occupancy"}


def test_an_empty_trace_is_lacking():
    assert rates(frame(EVENT_COLUMNS)).lacking


def test_ops_on_both_sides_of_the_ridge():
    table = with_ops(
        events(
            ("gpu:0", "compute", 0, 10 * US, "gemm"),
            ("gpu:0", "compute", 10 * US, 20 * US, "gemm"),
            ("gpu:0", "compute", 20 * US, 30 * US, "add"),
            ("gpu:0", "compute", 30 * US, 35 * US, "other"),
            ("gpu:0", "collective", 35 * US, 40 * US, "sum"),
        ),
        *(0, 0, 1, None, 2),
    )
    result = rates(table, ABLE, ops(("gemm", 5 * 10**8, 10**6), ("add", 10**6, 8 * 10**6), ("sum", 1, 1)))
    columns = [
        "hlo_op",
        "n",
        "busy_ps",
        "flops_per_s",
        "flops_ratio",
        "bytes_ratio",
        "flops_per_byte",
        "bound",
        "roof_ratio",
    ]
    assert result.ops[columns].values.tolist() == [
        [
            "gemm",
            2,
            20 * US,
            pytest.approx(5e13),
            pytest.approx(0.5),
            pytest.approx(0.1),
            500,
            "compute",
            pytest.approx(0.5),
        ],
        [
            "add",
            1,
            10 * US,
            pytest.approx(1e11),
            pytest.approx(1e-3),
            pytest.approx(0.8),
            0.125,
            "memory",
            pytest.approx(0.8),
        ],
    ]
    assert result.ops["reason"].isna().all()
    row = only(result.by_device)
    assert (row["window_ps"], row["busy_ps"], row["costed_ps"], row["flops"]) == (40 * US, 40 * US, 30 * US, 1.001e9)
    assert row["busy_flops_per_s"] == row["window_flops_per_s"] == pytest.approx(1.001e9 / 40e-6)
    assert row["busy_flops_ratio"] == pytest.approx(1.001e9 / 40e-6 / 1e14)


def test_busy_time_and_window_differ_where_the_device_stood_idle():
    table = with_ops(events(("gpu:0", "compute", 0, 10 * US), ("gpu:0", "compute", 30 * US, 40 * US)), 0, 0)
    row = only(rates(table, ABLE, ops(("a", 10**6, None))).by_device)
    assert row["busy_flops_per_s"] == 2 * row["window_flops_per_s"] == pytest.approx(1e11)


PAST_MEMORY = "more bytes/s than the memory bandwidth: some stayed on the chip, or the limit is too low"


@pytest.mark.parametrize(
    ("cost", "able", "ratios", "reason"),
    [
        ((10**9, 2 * 10**7), ABLE, (1.0, 2.0), PAST_MEMORY),
        ((None, 2 * 10**7), ABLE, (None, 2.0), PAST_MEMORY),
        (
            (2 * 10**9, 1),
            ABLE,
            (2.0, 1e-7),
            "more FLOP/s than the peak: its cost, how often it ran, or the peak is not right",
        ),
        ((None, 10**6), ABLE, (None, 0.1), "the trace states its FLOPs or its bytes alone"),
        ((10**8, None), ABLE, (0.1, None), "the trace states its FLOPs or its bytes alone"),
        (
            (10**8, 10**6),
            devices(("gpu:0", None, 10**12, None)),
            (None, 0.1),
            "the peak FLOP/s or the memory bandwidth of the device is not known",
        ),
    ],
)
def test_an_op_that_cannot_be_placed_under_the_roof_says_why(cost, able, ratios, reason):
    table = with_ops(events(("gpu:0", "compute", 0, 10 * US)), 0)
    row = only(rates(table, able, ops(("a", *cost))).ops)
    assert (row["flops_ratio"], row["bytes_ratio"]) == tuple(ratio and pytest.approx(ratio) for ratio in ratios)
    assert (row["bound"], row["roof_ratio"], row["reason"]) == (None, None, reason)


def test_an_op_without_flops_is_bound_by_the_memory():
    row = only(rates(with_ops(events(("gpu:0", "compute", 0, 10 * US)), 0), ABLE, ops(("a", 0, 10**6))).ops)
    assert (row["flops_per_byte"], row["bound"], row["roof_ratio"]) == (0, "memory", pytest.approx(0.1))


def test_an_op_that_starts_several_kernels_ran_as_often_as_each_of_them():
    table = events(*[("gpu:0", "compute", at * US, (at + 1) * US, name) for at, name in enumerate(["gemm", "sum"] * 3)])
    assert only(rates(with_ops(table, *[0] * 6), ABLE, ops(("dot", 1, 1))).ops)["n"] == 3
    row = only(rates(with_ops(table.iloc[:5].reset_index(drop=True), *[0] * 5), ABLE, ops(("dot", 1, 1))).ops)
    assert (row["n"], row["flops_per_s"], row["busy_ps"]) == (None, None, 5 * US)
    assert row["reason"] == "its kernels ran unequally often, so how often it ran is not known"


def test_the_sums_of_a_device_say_which_ops_they_lack():
    table = with_ops(
        events(("gpu:0", "compute", 0, 10), ("gpu:0", "compute", 10, 20), ("gpu:0", "compute", 20, 40)), 0, 1, None
    )
    row = only(rates(table, ABLE, ops(("a", 7, 1), ("b", None, 1))).by_device)
    assert (row["flops"], row["costed_ps"]) == (7, 20)
    assert row["reason"] == (
        "1 of 2 ops are left out: their FLOPs or runs are not known; no cost is stated for 50.0 % of the compute time"
    )


def test_flops_beyond_2_to_63_are_summed():
    table = with_ops(events(*[("gpu:0", "compute", at, at + 1) for at in range(4)]), *[0] * 4)
    assert only(rates(table, ABLE, ops(("a", 2**62, 1))).by_device)["flops"] == 2.0**64


@pytest.mark.parametrize("is_null", [True, False])
def test_occupancy_of_compute_is_weighed_with_time_and_low_names_are_listed(is_null):
    table = events(
        ("gpu:0", "compute", 0, 30, "tiny"),
        ("gpu:0", "compute", 30, 40, "wide"),
        ("gpu:0", "compute", 40, 50, "tiny"),
        ("gpu:0", "compute", 50, 60, "untold"),
        ("gpu:0", "collective", 60, 99, "ncclKernel"),
        ("gpu:1", "compute", 0, 5, "half"),
    )
    ratios = np.array([0.1, 1.0, 0.5, np.nan, 0.01, 0.5])
    table["occupancy_ratio"] = pd.arrays.FloatingArray(ratios, np.isnan(ratios) & is_null)
    assert rates(table.assign(occupancy_ratio=table["occupancy_ratio"] / 4)).low[
        ["device", "name"]
    ].values.tolist() == [
        ["gpu:0", "tiny"],
        ["gpu:0", "wide"],
        ["gpu:1", "half"],
    ]
    result = rates(table)
    assert result.occupancy.values.tolist() == [
        ["gpu:0", 3, 50, pytest.approx((3 + 10 + 5) / 50), 0.6, 0.75, pytest.approx(50 / 60)],
        ["gpu:1", 1, 5, 0.5, 0.0, 1.0, 1.0],
    ]
    assert result.low.values.tolist() == [["gpu:0", "tiny", 2, 40, pytest.approx(8 / 40)]]


def test_flops_are_set_against_the_time_of_the_ops_whose_flops_are_known():
    table = with_ops(
        events(("gpu:0", "compute", 0, 10 * US, "gemm"), ("gpu:0", "compute", 10 * US, 100 * US, "other")), 0, None
    )
    row = only(rates(table, ABLE, ops(("a", 5 * 10**8, 1))).by_device)
    assert (row["known_ps"], row["known_ratio"]) == (10 * US, 0.1)
    assert (row["known_flops_per_s"], row["known_flops_ratio"]) == (pytest.approx(5e13), pytest.approx(0.5))
    # So little of the time says nothing of the device's.
    assert (row["busy_flops_per_s"], row["window_flops_per_s"], row["busy_flops_ratio"]) == (None, None, None)


def test_the_time_of_an_op_of_which_only_the_bytes_are_stated_is_none_of_known_flops():
    table = with_ops(events(*(("gpu:0", "compute", at * US, (at + 10) * US) for at in (0, 10))), 0, 1)
    row = only(rates(table, ABLE, ops(("a", 5 * 10**8, 1), ("b", None, 1))).by_device)
    assert (row["known_ps"], row["costed_ps"]) == (10 * US, 20 * US)


def test_products_that_round_to_tf32_are_held_against_the_peak_of_tf32():
    table = with_ops(
        events(
            ("gpu:0", "compute", 0, 10 * US, "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x256x32"),
            ("gpu:0", "compute", 10 * US, 20 * US, "sm90_xmma_gemm_bf16bf16_bf16f32"),
        ),
        0,
        1,
    )
    able = devices(("gpu:0", "NVIDIA H100 80GB HBM3", None, None))
    result = rates(table, able, ops(("a", 4945 * 10**6, 1), ("b", 4945 * 10**6, 1)))
    assert result.ops[["hlo_op", "flops_ratio", "peak_of"]].values.tolist() == [
        ["a", pytest.approx(1), "TF32"],
        ["b", pytest.approx(4945 / 9895), "16-bit"],
    ]
    # At their peaks the two would take 10 and 4.9975 us.
    row = only(result.by_device)
    assert (row["peak_of"], row["peak_from"]) == ("16-bit and TF32", "datasheet")
    assert row["known_flops_ratio"] == pytest.approx((10 + 10 * 4945 / 9895) / 20)
    # A device whose peak of TF32 nobody states is held against what it states.
    assert rates(table, ABLE, ops(("a", 1, 1), ("b", 1, 1))).ops["peak_of"].tolist() == ["16-bit", "16-bit"]


some_rows = st.lists(
    st.tuples(
        st.sampled_from(["gpu:0", "gpu:1", "cpu:?"]), st.sampled_from(["H2D", "D2D", None]),
        st.integers(0, 20), st.integers(0, 9),
        st.one_of(st.none(), st.integers(0, 3 * SMALL_BYTES)), st.sampled_from([None, 0, 1]), st.sampled_from("ab"),
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


@settings(max_examples=25)
@given(some_rows)
def test_rates_count_points(row_tuples):
    kinds = ["memcpy" if op is None else "compute" for *_, op, _ in row_tuples]
    table = events(
        *[
            (device, kind, start, start + size, name, way if kind == "memcpy" else None)
            for (device, way, start, size, _, _, name), kind in zip(row_tuples, kinds, strict=True)
        ]
    )
    table["bytes"] = pd.array([size for *_, size, _, _ in row_tuples], "Int64")
    table["op"] = pd.array([op for *_, op, _ in row_tuples], "Int64")
    result = rates(table, None, ops(("a", 3, 5), ("b", None, 7)))

    def points(chosen) -> int:
        return len(set().union(*(range(start, start + size) for _, _, start, size, *_ in chosen)))

    groups: dict = {}
    for row, kind in zip(row_tuples, kinds, strict=True):
        if row[0] != "cpu:?":
            groups.setdefault((kind, row[0], (row[1] or "unknown") if kind == "memcpy" else row[5]), []).append(row)
    assert len(result.copies) + len(result.ops) == len(groups)
    for row in result.copies.astype(object).where(result.copies.notna(), None).to_dict("records"):
        mine = groups["memcpy", row["device"], row["direction"]]
        sizes = [copy[4] for copy in mine]
        total = None if None in sizes else sum(sizes)
        small = [copy for copy in mine if copy[4] is not None and copy[4] < SMALL_BYTES]
        assert (row["n"], row["bytes"], row["busy_ps"]) == (len(mine), total, points(mine))
        assert (row["small"], row["small_busy_ps"]) == (len(small), points(small))
        assert row["bytes_per_s"] == (total * 1e12 / points(mine) if total is not None and points(mine) else None)
        single = [
            copy[4] * 1e12 / copy[3] for copy in mine if copy[4] is not None and copy[4] >= SMALL_BYTES and copy[3]
        ]
        assert row["best_bytes_per_s"] == (pytest.approx(max(single)) if single else None)
        assert row["median_bytes_per_s"] == (pytest.approx(np.median(single)) if single else None)
    for row in result.ops.astype(object).where(result.ops.notna(), None).to_dict("records"):
        mine = groups["compute", row["device"], row["op"]]
        counts = {sum(kernel[6] == name for kernel in mine) for name in "ab"} - {0}
        n = counts.pop() if len(counts) == 1 else None
        assert (row["n"], row["busy_ps"]) == (n, points(mine))
        assert row["bytes_per_s"] == (
            pytest.approx(n * (5, 7)[row["op"]] * 1e12 / points(mine)) if n and points(mine) else None
        )


def plainly(table: pd.DataFrame, device: str, way: str) -> tuple[int, int, int]:
    """Number, bytes and busy time of copies, swept row by row."""
    spans = sorted(
        (start, end, size)
        for name, direction, start, end, size in table[
            ["device", "direction", "start_ps", "end_ps", "bytes"]
        ].values.tolist()
        if name == device and direction == way
    )
    busy, reach = 0, -1
    for start, end, _ in spans:
        busy += max(0, end - max(start, reach))
        reach = max(reach, end)
    return len(spans), sum(size for *_, size in spans), busy


# Four profilers' forms of one job.
GPUS = ("generated/gpu.xplane.pb", "generated/gpu.trace.json.gz", "generated/gpu.sqlite", "generated/kineto")


@pytest.mark.parametrize(
    ("case", "job"),
    [
        *((case, schedule.gpu_job()) for case in GPUS),
        ("generated/tpu.xplane.pb", schedule.tpu_job()),
        ("generated/tpu.trace.json.gz", schedule.tpu_job()),
    ],
)
def test_copies_of_generated_traces_are_as_fast_as_their_schedule_has_it(case, job):
    trace = traces.trace(case)
    copy_rates = rates(trace.events, trace.devices, trace.ops).copies
    expected = {}
    for event in job:
        if event.kind == "memcpy":
            n, size, time = expected.get((event.device, event.direction), (0, 0, 0))
            expected[event.device, event.direction] = n + 1, size + event.bytes, time + event.end - event.start
    assert {
        (int(row["device"][-1]), row["direction"]): (row["n"], row["bytes"], row["busy_ps"] / 10**6)
        for row in copy_rates.to_dict("records")
    } == expected
    assert (copy_rates["bytes_per_s"] * copy_rates["busy_ps"] / 10**12).tolist() == pytest.approx(
        copy_rates["bytes"].tolist()
    )
    assert not copy_rates["impossible"].any()


@pytest.mark.parametrize("case", ["generated/tpu.xplane.pb", "generated/tpu.trace.json.gz"])
def test_additions_of_a_generated_tpu_trace_reach_the_share_of_its_memory_that_the_schedule_has(case):
    trace = traces.trace(case)
    op_rates = rates(trace.events, trace.devices, trace.ops).ops
    adds = op_rates[op_rates["hlo_op"] == "broadcast_add_fusion.1"]
    moved, seconds = 8 * schedule.ADDED, 400e-6
    assert adds[["n", "flops", "bytes"]].values.tolist() == [[3, schedule.ADDED, moved]] * 2
    assert adds["bytes_per_s"].tolist() == pytest.approx([moved / seconds] * 2)
    # The JSON form has none of what the chip can do.
    if case.endswith(".pb"):
        assert adds["bound"].tolist() == ["memory"] * 2
        assert adds["roof_ratio"].tolist() == pytest.approx([moved / seconds / 1637993152512] * 2)


def test_a_generated_op_of_an_mi300x_has_its_share_of_5_tb_per_s():
    trace = traces.trace("generated/rocm.xplane.pb")
    op_rates = rates(trace.events, trace.devices, trace.ops).ops
    adds = op_rates[op_rates["hlo_op"] == "fusion.4"]
    # One array of f32[4096,2048] is read and another written in 20 us.
    assert adds["bytes_ratio"].tolist() == pytest.approx([2 * 4 * 4096 * 2048 / 20e-6 / 5324.8e9] * 2)
    assert adds["bytes_ratio"].max() < 1


@traces.needs_real
def test_host_offload_on_a_tpu_runs_at_27_gb_a_second_each_way():
    trace = traces.trace("xplane/tpu-v6e-4chip")
    copy_rates = rates(trace.events, trace.devices, trace.ops).copies
    assert copy_rates[["device", "direction", "n"]].values.tolist() == [
        [f"tpu:{chip}", way, 300] for chip in range(4) for way in ("H2D", "D2H")
    ]
    for row in copy_rates.to_dict("records"):
        assert (row["n"], row["bytes"], row["busy_ps"]) == plainly(trace.events, row["device"], row["direction"])
        assert row["bytes"] == 300 * 5 * 1024 * 1024 * 256 * 4  # f32[5,1024,1024,256] each
        assert 26.7e9 < row["bytes_per_s"] < 27.5e9
    # One copy-start was recorded 181 ms late: 5.4 GB would have taken 0.1 ms.
    assert copy_rates["impossible"].sum() >= 1
    assert copy_rates["best_bytes_per_s"].max() < 1e11


@traces.needs_real
def test_additions_on_a_tpu_are_bound_by_its_memory():
    trace = traces.trace("xplane/tpu-v6e-4chip")
    result = rates(trace.events, trace.devices, trace.ops)
    adds = result.ops[result.ops["hlo_op"].str.startswith("broadcast_add_fusion")]
    assert len(adds) == 12
    elements = 5 * 1024 * 1024 * 256  # each is read and written as f32, and one number added to it
    assert adds[["n", "flops", "bytes", "bound"]].drop_duplicates().values.tolist() == [
        [100, elements, 8 * elements, "memory"]
    ]
    for row in adds.to_dict("records"):
        mine = trace.events[(trace.events["device"] == row["device"]) & (trace.events["hlo_op"] == row["hlo_op"])]
        seconds = (mine["end_ps"] - mine["start_ps"]).sum() / 1e12  # they never overlap
        assert row["bytes_per_s"] == pytest.approx(100 * 8 * elements / seconds)
        assert row["roof_ratio"] == pytest.approx(100 * 8 * elements / seconds / 1637993152512)
        assert 0.77 < row["roof_ratio"] < 0.9
    assert result.by_device["busy_flops_ratio"].max() < 1e-5


@traces.needs_real
def test_the_transposes_of_eight_mi300x_reach_sixty_percent_of_their_memory_bandwidth():
    trace = traces.trace("xplane/jax-8xMI300X")
    op_rates = rates(trace.events, trace.devices, trace.ops).ops
    longest = op_rates[op_rates["hlo_op"] == "input_transpose_fusion"]
    assert len(longest) == 8
    # Four times 1.3 GHz times 8192 bits: 5.3 TB/s, as AMD states it. Twice, as XLA has it, they would pass it.
    assert longest["bytes_ratio"].between(0.575, 0.63).all()
    assert set(longest["reason"]) == {"the trace states its FLOPs or its bytes alone"}


@traces.needs_real
def test_copies_within_h100s_reach_98_percent_of_half_their_memory_bandwidth():
    trace = traces.trace("nsys/mfu_2gpu_before-2xH100")
    able = devices(*[(name, "NVIDIA H100 80GB HBM3", None, None) for name in ("gpu:0", "gpu:1")])
    copy_rates = rates(trace.events, able, trace.ops).copies.query("direction == 'D2D'")
    for row in copy_rates.to_dict("records"):
        assert (row["n"], row["bytes"], row["busy_ps"]) == plainly(trace.events, row["device"], "D2D")
        assert 0.95 < row["median_bytes_per_s"] / row["limit_bytes_per_s"] < 1
        assert (row["n"], row["small"]) == (493, 289)


@pytest.mark.parametrize(
    ("case", "ways"),
    [
        *((case, {"H2D": 12, "D2H": 6, "D2D": 6, "P2P": 3}) for case in GPUS),
        ("generated/rocm.xplane.pb", {"H2D": 7, "D2D": 6, "unknown": 6}),
        traces.param("kineto/dlrm-8xV100", {"H2D": 104, "D2H": 16, "D2D": 8}),
        traces.param("kineto/hta-df_index_resolver", {"D2D": 2040}),
        traces.param("kineto/hta-nccl_data-A100", {"D2D": 960}),
        traces.param("xplane/jax-8xMI300X", {"unknown": 35}),
        traces.param("xplane/jax-MI300X-gemm", {"H2D": 12, "D2D": 12}),
        traces.param("xplane/tf-8xV100", {"H2D": 202, "D2H": 24}),
    ],
)
def test_every_copy_of_a_whole_trace_is_counted_and_none_is_faster_than_its_limit(case, ways):
    trace = traces.trace(case)
    result = rates(trace.events, trace.devices, trace.ops)
    assert result.copies.groupby("direction")["n"].sum().to_dict() == ways
    assert not (result.copies["limit_ratio"] > 1).any()
    assert not (result.ops["roof_ratio"] > 1).any()
    assert result.ops["reason"][(result.ops["flops_ratio"] > 1) | (result.ops["bytes_ratio"] > 1)].notna().all()
