import json

import pandas as pd
import pytest

from tests.bandwidth_frames import ABLE, US, copies, devices, ops, rates, with_ops
from tests.frames import events
from tests.report.sections.brief import brief
from tracekit.report.sections.bandwidth import section


def test_copies_are_said_against_their_limit_and_small_ones_named():
    table = copies(("D2D", 0, 10 * US, 4 * 10**6), ("D2D", 10 * US, 12 * US, 100), ("H2D", 20 * US, 21 * US, 8))
    result = section(rates(table, devices(("gpu:0", "NVIDIA H200", 10**12, None))))
    assert result.sentences == (
        "2 D2D copies on gpu:0 took 12.00 µs at 333 GB/s, 66.7 % of the limit of 500 GB/s (trace); 1 of them under 1 "
        "MiB (latency-bound).",
    )
    assert list(brief(result).values()) == [
        (
            "Copies",
            ["device", "direction", "n", "time", "rate", "best", "of limit", "< 1 MiB"],
            [
                ["gpu:0", "D2D", "2", "12.00 µs", "333 GB/s", "400 GB/s", "66.7 %", "1"],
                ["gpu:0", "H2D", "1", "1.00 µs", "8.00 MB/s", "-", "<0.1 %", "1"],
            ],
        )
    ]
    assert set(result.data["reasons"]) == {"ops", "occupancy"}
    json.dumps(result.data, allow_nan=False)


def test_a_rate_that_is_not_known_says_why():
    (sentence,) = section(rates(copies(("D2H", 0, US, None)))).sentences
    assert sentence == (
        "1 D2H copy on gpu:0 took 1.00 µs. Note: 1 of 1 copies state no bytes; the trace does not state the "
        "host link, nor which model the device is."
    )


def test_ops_and_devices_are_shown_with_their_shares_of_peak_and_memory_bandwidth():
    table = with_ops(events(("gpu:0", "compute", 0, 10 * US, "k"), ("gpu:0", "compute", 10 * US, 20 * US, "k")), 0, 1)
    result = section(
        rates(table, ABLE, ops(("convolution_fusion_of_many_words", 5 * 10**8, 10**6), ("odd", 10**12, 1)))
    )
    assert result.sentences == (
        "gpu:0 reached 50.0 PFLOP/s in ops whose FLOPs are known (20.00 µs, 100 % of its compute time), 50025.0 % of "
        "its peak of 100 TFLOP/s (trace, 16-bit). Note: more than the peak: "
        "the cost of an op, how often it ran, or the peak is not right.",
        "odd on gpu:0 shows more FLOP/s than the peak: its cost, how often it ran, or the peak is not right.",
    )
    op = ["convolution_fusion_of_many_words", "gpu:0", "10.00 µs", "50.0 TFLOP/s", "50.0 %", "16-bit", "100 GB/s"]
    assert list(brief(result).values()) == [
        (
            "Longest ops, against the peaks of the device",
            ["op", "device", "time", "FLOP/s", "of peak", "peak", "memory", "of bandwidth"],
            [
                [*op, "10.0 %"],
                ["odd", "gpu:0", "10.00 µs", "100 PFLOP/s", "100000.0 %", "16-bit", "100 kB/s", "<0.1 %"],
            ],
        )
    ]
    json.dumps(result.data, allow_nan=False)


def test_low_occupancy_is_said_of_the_device_where_it_is_lowest():
    table = events(("gpu:0", "compute", 0, 9, "good"), ("gpu:1", "compute", 0, 9, "void poor(int)"))
    table["occupancy_ratio"] = pd.array([0.75, 0.25], "Float64")
    result = section(rates(table))
    assert result.sentences == (
        "Mean occupancy on gpu:1 is 25.0 %, weighted by kernel time; it is below 50.0 % for 100 % of that time, which "
        "costs time only where kernels wait for memory.",
    )
    assert list(brief(result).values()) == [
        (
            "Longest kernels of low occupancy",
            ["kernel", "device", "n", "time", "occupancy"],
            [["poor(int)", "gpu:1", "1", "9 ps", "25.0 %"]],
        )
    ]


def test_the_rate_of_few_ops_is_not_told_as_that_of_the_device():
    table = with_ops(
        events(("gpu:0", "compute", 0, 10 * US, "gemm_tf32f32"), ("gpu:0", "compute", 10 * US, 100 * US, "k")), 0, None
    )
    able = devices(("gpu:0", "NVIDIA H100 80GB HBM3", None, None))
    assert section(rates(table, able, ops(("dot", 4 * 10**9, 1)))).sentences == (
        "gpu:0 reached 400 TFLOP/s in ops whose FLOPs are known (10.00 µs, 10.0 % of its compute time), 80.9 % of its "
        "peak of 495 TFLOP/s (datasheet, TF32). Note: no cost is stated for 90.0 % of the compute time.",
    )


@pytest.mark.parametrize(
    ("ratios", "sentences"),
    [
        ([1.0, None], ()),
        (
            [None, 0.75],
            ("Mean occupancy on gpu:0 is 75.0 %, weighted by kernel time (known for 90.0 % of it).",),
        ),
        (
            [0.0, 0.0],
            (
                "Mean occupancy on gpu:0 is <0.5 %, weighted by kernel time; it is below 50.0 % for 100 % of that "
                "time, which costs time only where kernels wait for memory.",
            ),
        ),
    ],
)
def test_occupancy_is_told_where_most_of_the_time_has_one(ratios, sentences):
    table = events(("gpu:0", "memcpy", 0, 1), ("gpu:0", "compute", 0, 10, "a"), ("gpu:0", "compute", 10, 100, "b"))
    table["occupancy_ratio"] = pd.array([None, *ratios], "Float64")
    assert section(rates(table)).sentences[1:] == sentences


def test_an_occupancy_that_was_rounded_to_zero_is_no_zero_in_the_table():
    table = events(("gpu:0", "compute", 0, 10, "a"))
    table["occupancy_ratio"] = pd.array([0.0], "Float64")
    assert brief(section(rates(table)))["bandwidth.occupancy"][2] == [["a", "gpu:0", "1", "10 ps", "-"]]


def test_without_evidence_there_is_only_the_reason():
    result = section(rates(events(("gpu:0", "compute", 0, 9))))
    assert (result.sentences, result.tables, result.data) == ((), (), None)
    assert result.lacking.startswith("The trace holds no copies on a known device.")
