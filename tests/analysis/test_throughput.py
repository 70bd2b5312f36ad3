"""How fast bytes moved at each moment, against a sum over the rows at every moment."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.export.frames_of import rows as frame_of
from tracekit.analysis.throughput import throughput
from tracekit.timeline.timeline import timeline_of

COPY = {"kind": "memcpy", "direction": "H2D"}


def steps(*row_dicts: dict) -> dict[tuple[str, str], list[tuple[int, int]]]:
    rates = throughput(timeline_of(frame_of(*row_dicts)))
    return {(rate.device, rate.what): list(zip(rate.edges.tolist(), rate.bytes_per_s, strict=True)) for rate in rates}


def test_the_rates_of_copies_that_run_at_once_add_up():
    assert steps(
        {"start_ps": 0, "end_ps": 4, "bytes": 8} | COPY,
        {"start_ps": 2, "end_ps": 6, "bytes": 4} | COPY,
        {"start_ps": 9, "end_ps": 10, "bytes": 1} | COPY,
    ) == {("gpu:0", "H2D"): [(0, 2 * 10**12), (2, 3 * 10**12), (4, 10**12), (6, 0), (9, 10**12), (10, 0)]}


def test_directions_devices_and_collectives_are_apart_and_what_has_no_bytes_is_left_out():
    assert steps(
        {"start_ps": 0, "end_ps": 2, "bytes": 2} | COPY,
        {"start_ps": 0, "end_ps": 2, "bytes": 4, "kind": "memcpy"},
        {"start_ps": 0, "end_ps": 2, "bytes": 6, "kind": "collective"},
        {"start_ps": 0, "end_ps": 2, "bytes": 8, "device": "cpu:?"} | COPY,
        {"start_ps": 0, "end_ps": 2, "bytes": 9, "kind": "memset"},
        {"start_ps": 0, "end_ps": 2, "bytes": 9},
        {"start_ps": 0, "end_ps": 2} | COPY,
    ) == {
        ("cpu:?", "H2D"): [(0, 4 * 10**12), (2, 0)],
        ("gpu:0", "H2D"): [(0, 10**12), (2, 0)],
        ("gpu:0", "unknown"): [(0, 2 * 10**12), (2, 0)],
        ("gpu:0", "collective"): [(0, 3 * 10**12), (2, 0)],
    }


def test_rows_that_take_no_time_have_no_rate_but_are_counted():
    (rate,) = throughput(
        timeline_of(frame_of(*({"start_ps": 5, "end_ps": end, "bytes": 3} | COPY for end in (5, 6, 5))))
    )
    assert (rate.instant, rate.edges.tolist(), rate.bytes_per_s) == (2, [5, 6], [3 * 10**12, 0])


def test_rates_beyond_int64_are_exact():
    assert steps(*({"start_ps": 0, "end_ps": 1, "bytes": 2**62} | COPY for _ in range(3))) == {
        ("gpu:0", "H2D"): [(0, 3 * 2**62 * 10**12), (1, 0)]
    }


@pytest.mark.parametrize("what", ["H2D", "collective"])
@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(0, 2**40)), min_size=1, max_size=8))
def test_at_every_moment_it_is_the_sum_of_the_rows_that_run(what, row_tuples):
    columns = COPY if what == "H2D" else {"kind": "collective"}
    rates = steps(*({"start_ps": at, "end_ps": at + lasts, "bytes": size} | columns for at, lasts, size in row_tuples))
    (edges,) = rates.values()
    for moment in range(-1, 20):
        rates_so_far = [rate for edge, rate in edges if edge <= moment]
        expected = sum(
            Fraction(size * 10**12, lasts).__floor__() for at, lasts, size in row_tuples if at <= moment < at + lasts
        )
        assert (rates_so_far[-1] if rates_so_far else 0) == expected
