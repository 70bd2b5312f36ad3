import math

import numpy as np
import pandas as pd
import pytest

from tracekit.analysis.roofline import PEAKS, UNKNOWN, Limit, limits, under_roof
from tracekit.columns import frame
from tracekit.trace import DEVICE_COLUMNS


def devices(*rows) -> pd.DataFrame:
    """From (device, model, memory bandwidth, peak FLOP/s)."""
    columns = ["device", "model", "memory_bandwidth_bytes_per_s", "peak_flops_per_s"]
    return frame(DEVICE_COLUMNS, dict(zip(columns, zip(*rows, strict=True), strict=True)))


def test_what_the_trace_states_wins_over_the_datasheet():
    by_device = limits(devices(("gpu:0", "NVIDIA H200", 10, None), ("gpu:1", "NVIDIA H200", None, 20)))
    assert [(device_limits.memory, device_limits.flops) for device_limits in by_device.values()] == [
        (Limit(10, "trace"), Limit(989.5e12, "datasheet")),
        (Limit(4.8e12, "datasheet"), Limit(20, "trace")),
    ]


def test_a_device_copy_reads_and_writes_so_its_limit_is_half_the_memory_bandwidth():
    (device_limits,) = limits(devices(("gpu:0", "Tesla V100-SXM2-32GB", 898048000000, None))).values()
    assert device_limits.of_copies("D2D") == Limit(449024000000, "trace")
    assert device_limits.of_copies("P2P") == Limit(150e9, "datasheet")


def test_a_copy_within_a_tpu_has_no_limit_since_it_may_stay_on_the_chip():
    (device_limits,) = limits(devices(("host/tpu:0", "TPU v6 Lite", 10**12, 1))).values()
    assert device_limits.of_copies("D2D") == Limit(
        None, None, "a copy within a TPU may begin or end in its on-chip memory"
    )


def test_the_host_link_is_one_direction_of_pcie():
    (device_limits,) = limits(devices(("gpu:0", "NVIDIA H100 80GB HBM3", None, None))).values()
    assert device_limits.of_copies("H2D") == device_limits.of_copies("D2H") == Limit(63015384615, "datasheet")


def test_a_limit_that_nobody_states_has_its_reason():
    of = limits(devices(("tpu:0", "TPU v6 Lite", 1, 1), ("gpu:0", "AMD", 1, 1)))
    assert of["tpu:0"].of_copies("H2D") == Limit(
        None, None, "the trace does not state the host link, nor does the datasheet of TPU v6 Lite"
    )
    assert of["gpu:0"].of_copies("H2D") == Limit(
        None, None, "the trace does not state the host link, and no datasheet is known for 'AMD'"
    )
    assert of["gpu:0"].of_copies(None) == Limit(None, None, "the trace does not say between which memories they copy")
    assert UNKNOWN.flops == Limit(None, None, "the trace does not state the peak FLOP/s, nor which model the device is")


def test_a_stated_limit_of_zero_is_none():
    (device_limits,) = limits(devices(("gpu:0", None, 0, 0))).values()
    assert (device_limits.memory.per_s, device_limits.flops.per_s) == (None, None)


@pytest.mark.parametrize("model", PEAKS)
def test_datasheets_are_in_units_of_one_per_second(model):
    """A slip of a factor of 1000 puts a device out of the range in which all of them lie."""
    peaks = PEAKS[model]
    assert 1e14 <= peaks.flops <= 3e15
    assert peaks.tf32_flops is None or peaks.flops / 2.01 <= peaks.tf32_flops <= peaks.flops / 2
    assert 5e11 <= peaks.memory_bytes <= 1e13
    assert peaks.host_link_bytes is None or 1e10 <= peaks.host_link_bytes <= 1e11
    assert peaks.device_link_bytes is None or 1e11 <= peaks.device_link_bytes < peaks.memory_bytes


@pytest.mark.parametrize(
    ("model", "tera_flops", "giga_bytes"),
    [
        ("NVIDIA A100-PG509-200", 312, 1555),
        ("NVIDIA H800", 989.5, 3350),
        ("NVIDIA H20", 148, 4000),
        ("NVIDIA B200", 2250, 8000),
        ("AMD Instinct MI355X", 2516.6, 8000),
        ("TPU v6 Lite", 918, 1638),
        ("TPU7x", 2307 / 2, 7380 / 2),
    ],
)
def test_a_device_is_known_by_the_name_that_profilers_give_it(model, tera_flops, giga_bytes):
    (device_limits,) = limits(devices(("gpu:0", model, None, None))).values()
    assert device_limits.flops == Limit(tera_flops * 1e12, "datasheet")
    assert device_limits.memory == Limit(giga_bytes * 1e9, "datasheet")


@pytest.mark.parametrize("model", ["NVIDIA H20-3e", "NVIDIA B200 MIG 1g.23gb", "AMD Instinct MI300A", "TPU v6"])
def test_a_name_that_only_begins_like_a_known_one_is_another_device(model):
    (device_limits,) = limits(devices(("gpu:0", model, None, None))).values()
    assert device_limits.flops.reason.endswith(f"no datasheet is known for {model!r}")


@pytest.mark.parametrize(
    ("n", "flops", "bytes_moved", "seconds", "rates", "bound", "reason"),
    [
        (2, 10, 1, 1, (20, 0.2, 2, 0.2, 10, 0.2), "compute", None),
        (1, 30, 2, 1, (30, 0.3, 2, 0.2, 15, 0.3), "compute", None),
        (1, 20, 8, 2, (10, 0.1, 4, 0.4, 2.5, 0.4), "memory", None),
        (1, 100, 10, 1, (100, 1, 10, 1, 10, 1), "compute", None),
        (3, 50, 1, 1, (150, 1.5, 3, 0.3, 50, None), None, "more FLOP/s than the peak"),
        (3, 1, 5, 1, (3, 0.03, 15, 1.5, 0.2, None), None, "more bytes/s than the memory bandwidth"),
        (1, 5, 0, 1, (5, 0.05, 0, 0, None, 0.05), "compute", None),
        (math.nan, 10, 1, 1, (None, None, None, None, 10, None), None, "its kernels ran unequally often"),
        (2, 10, 1, 0, (None, None, None, None, 10, None), None, "it takes no time"),
        (2, 10, math.nan, 1, (20, 0.2, None, None, None, None), None, "the trace states its FLOPs or its bytes alone"),
        (2, math.nan, 1, 1, (None, None, 2, 0.2, None, None), None, "the trace states its FLOPs or its bytes alone"),
    ],
)
def test_an_op_reaches_so_much_of_the_nearer_of_its_limits(n, flops, bytes_moved, seconds, rates, bound, reason):
    """Of a device with a peak of 100 FLOP/s and a memory of 10 bytes/s."""
    table = pd.DataFrame(
        under_roof(*(np.array([figure], float) for figure in (n, flops, bytes_moved, seconds, 100, 10)))
    )
    found = [None if pd.isna(value) else value for value in table.iloc[0]]
    assert found[:6] == [None if rate is None else pytest.approx(rate) for rate in rates]
    assert found[6] == bound
    assert found[7] is reason is None or found[7].startswith(reason)


def test_without_a_limit_of_the_device_nothing_stands_under_it():
    ones, unknown = np.ones(2), np.array([1, math.nan])
    table = pd.DataFrame(under_roof(ones, ones, ones, ones, unknown, unknown[::-1]))
    assert table["roof_ratio"].isna().all()
    assert table["reason"].unique().tolist() == ["the peak FLOP/s or the memory bandwidth of the device is not known"]
