"""The words on the host's calls: what follows waits, how idle time is spread, and what the host did in a long gap."""

from dataclasses import replace

import pandas as pd
import pytest

from tests.frames import events
from tracekit.analysis.explain import explain
from tracekit.analysis.host_api import CALL_COLUMNS, DEVICE_COLUMNS, LONGEST_COLUMNS, PLACE_COLUMNS
from tracekit.columns import frame
from tracekit.report.sections.host_api import section

US = 1_000_000
EMPTY = replace(explain(events()).host_api, lacking="")


def calls(*rows):
    """Rows of (call, n, total, after_launch, gaps, idle, host_bound, ratio)."""
    full = [(call, n, 1, total, 2 * US, 3 * US, after, gaps, *idle) for call, n, total, after, gaps, *idle in rows]
    return frame(CALL_COLUMNS, full)


WAIT = calls(("cudaDeviceSynchronize", 1312, 90 * US, 1312, 1312, 110 * US, 99 * US, 0.11))


def places(*operations):
    rows = [("cudaDeviceSynchronize", name, None, 2, 1, 5, 5, 0.1, "gpu:0", 0, 5) for name in operations]
    return frame(PLACE_COLUMNS, rows)


def devices(*rows):
    return frame(DEVICE_COLUMNS, rows)


def first(**parts):
    return section(replace(EMPTY, **parts)).sentences[0]


ONE = devices(("gpu:0", 4, 600 * US, 10 * US, 570 * US, 0.95, 1))


@pytest.mark.parametrize(
    ("operations", "where"),
    [(("aten::item",), ", under aten::item"), (("aten::item", "f"), ", mostly under aten::item"), ((None,), "")],
)
def test_the_costliest_wait_says_how_long_devices_idled_after_it_and_how_many_launches_it_follows(operations, where):
    assert first(by_call=WAIT, places=places(*operations), launches=1312, by_device=ONE) == (
        "gpu:0 fell idle in cudaDeviceSynchronize and stayed so for 11.0 % of its time (110.0 µs), in 1,312 gaps, "
        f"90.0 % of it host-bound{where}; it follows 1,312 of 1,312 launches."
    )


def test_of_several_devices_the_time_is_summed():
    two = pd.concat([ONE, ONE.assign(device="gpu:1")])
    assert first(by_call=WAIT, places=places(None), launches=1312, by_device=two).startswith(
        "Devices fell idle in cudaDeviceSynchronize and stayed so for 11.0 % of their time (110.0 µs summed over 2 dev"
    )


def test_waits_that_cost_next_to_nothing_are_told_so():
    little = calls(("cudaDeviceSynchronize", 2, 9, 0, 1, 5, 5, 0.001))
    result = section(replace(EMPTY, by_call=little))
    assert result.sentences[0] == "Devices idled for less than 1.0 % of their time after any call that waits."
    assert result.share is None


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            ("gpu:0", 4, 600 * US, 10 * US, 570 * US, 0.95, 1),
            "One gap of 570.0 µs is 95.0 % of the idle time of gpu:0 between its work; the host spent 70.0 % of it in "
            "load.",
        ),
        (
            ("gpu:0", 4000, 600 * US, US, 6 * US, 0.01, 900),
            "The idle time of gpu:0 between its work is spread over 4,000 gaps of 1.00 µs (median); the longest, "
            "6.00 µs, is 1.0 % of it.",
        ),
        (
            ("gpu:0", 9, 600 * US, US, 200 * US, 0.33, 2),
            "Half of the idle time of gpu:0 between its work lies in 2 of its 9 gaps.",
        ),
    ],
)
def test_one_long_gap_is_told_from_many_small_ones(row, sentence):
    gap = frame(LONGEST_COLUMNS, [("gpu:0", 0, 570 * US, 570 * US, 0.95, "main", "load", 399 * US, 10)])
    assert first(by_device=devices(row), longest=gap) == sentence


def test_a_gap_in_which_nothing_of_the_host_is_recorded_says_so():
    gap = frame(LONGEST_COLUMNS, [("gpu:0", 0, 570 * US, 570 * US, 0.95, "main", "load", US, 500 * US)])
    assert first(by_device=ONE, longest=gap).endswith("; for 87.7 % of it nothing of the host is recorded.")
    unknown = frame(LONGEST_COLUMNS, [("gpu:0", 0, 570 * US, 570 * US, 0.95, None, None, None, None)])
    assert first(by_device=ONE, longest=unknown).endswith("of the idle time of gpu:0 between its work.")


def test_the_call_that_takes_most_is_told_with_its_median():
    assert section(
        replace(EMPTY, by_call=calls(("cudaLaunchKernel", 19370, 120_000 * US, 0, 0, 0, 0, 0.0)))
    ).sentences == ("The call that took longest in all is cudaLaunchKernel: 120.0 ms in 19,370 calls, median 2.00 µs.",)


def test_without_calls_and_gaps_the_section_says_why():
    assert "neither calls" in section(explain(events()).host_api).lacking
