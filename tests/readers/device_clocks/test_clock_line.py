"""The line that a device's clock is on, against limits whose truth is known and a search of all lines."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.readers.device_clocks.clock_line import TOLERANCE_PS, Limits, clock_line

US, S = 10**6, 10**12
PPM = 1e-6


def limits(launches, waits=(), length=100 * US):
    """Limits of launches and waits, each (time, limit): rows of 1 us, on an idle device if they are apart."""
    start, least = np.array(list(launches), np.int64).reshape(-1, 2).T
    end, most = np.array(list(waits), np.int64).reshape(-1, 2).T
    return Limits(0, start, start + US, least, end, most, np.full(len(end), length))


def run(offset, drift=0.0, span=10 * S, waits=True, queue=0, seed=0):
    """The limits of a clock that is off by -`offset` and drifts: every third row finds its device idle."""
    draw = np.random.default_rng(seed)
    time = np.sort(draw.integers(-span // 2, span // 2, 300))
    latency = draw.integers(4 * US, 8 * US, 300) + np.where(np.arange(300) % 3, draw.integers(0, 500 * US, 300), queue)
    added = offset + np.rint(drift * time).astype(np.int64)
    launches = np.column_stack([time, added - latency])
    wait_time = time[::10]
    wake = draw.integers(2 * US, 5 * US, len(wait_time))
    return limits(launches, np.column_stack([wait_time, added[::10] + wake]) if waits else ())


def test_what_is_violated_by_no_more_than_the_tolerance_is_not_shifted():
    line = clock_line(limits([(0, TOLERANCE_PS), (S, -5 * US)], [(S, -TOLERANCE_PS)]))
    assert line.shift_ps == 0
    assert line.is_identity
    assert (line.launches, line.waits) == ((2, 0), (1, 0))


def test_what_is_violated_further_is_shifted_to_the_middle_of_the_limits():
    line = clock_line(limits([(0, 95 * US), (S, 80 * US)], [(S, 105 * US)]))
    assert (line.shift_ps, line.drift) == (100 * US, 0.0)
    assert (line.least_ps, line.most_ps) == (95 * US, 105 * US)
    assert (line.launches, line.waits) == ((2, 2), (1, 0))


@pytest.mark.parametrize("offset", [-300_000 * US, -200 * US, 200 * US, 300_000 * US])
def test_an_offset_is_found_within_microseconds(offset):
    line = clock_line(run(offset))
    assert line.drift == 0
    assert abs(line.shift_ps - offset) < 5 * US


def test_what_is_added_stays_in_whole_nanoseconds():
    assert clock_line(run(123_456_789)).shift_ps % 1000 == 0


@pytest.mark.parametrize("drift", [50 * PPM, -50 * PPM, 300 * PPM])
@pytest.mark.parametrize("offset", [0, 400 * US])
def test_a_drift_is_found_with_its_offset(offset, drift):
    clock = run(offset, drift)
    line = clock_line(clock)
    assert line.drift == pytest.approx(drift, abs=1 * PPM)
    truth = offset + drift * clock.start
    assert abs(line.added(clock.start) - truth).max() < 8 * US


def test_a_drift_shows_without_any_wait_where_rows_start_promptly_all_along():
    clock = run(2000 * US, 50 * PPM, waits=False)
    line = clock_line(clock)
    assert abs(line.added(clock.start) - (2000 * US + 50 * PPM * clock.start)).max() < 10 * US


def test_queues_are_no_drift():
    time = np.arange(300) * (S // 100)
    queue = np.maximum(np.arange(300) - 150, 0) ** 2 * US // 10
    line = clock_line(limits(np.column_stack([time, 200 * US - queue])))
    assert (line.shift_ps, line.drift) == (205 * US, 0.0)


def test_an_offset_with_one_sided_limits_leaves_a_launch_its_latency():
    assert clock_line(run(200 * US, waits=False)).shift_ps == pytest.approx(201 * US, abs=2 * US)


def test_limits_far_apart_are_decided_by_what_lasted():
    # No row found its device idle: each starts where another ends.
    start = np.arange(100) * US
    queued = limits(np.column_stack([start, -3000 * US - 40 * start]), [(50 * US, -200 * US)] * 3)
    assert clock_line(queued).shift_ps == -205 * US
    # Waits that returned at once, for what had long been done.
    idle = limits([(at * S, 200 * US) for at in range(5)], [(S, 3000 * US)], length=US)
    assert clock_line(idle).shift_ps == 205 * US


def test_a_single_wait_counts_where_launches_say_how_far_the_line_may_be():
    prompt = [(at * S, -1000 * US - at * US // 10) for at in range(9)]
    assert clock_line(limits(prompt, [(8 * S, -200 * US)])).shift_ps == -995 * US
    # One of many is an accident, and so is a single launch.
    many = [(8 * S, -200 * US), *((at * S // 100, 5 * US) for at in range(200))]
    assert clock_line(limits(prompt, many)).is_identity
    late = [*((at * S // 100, -5 * US) for at in range(200)), (8 * S, 300 * US)]
    assert clock_line(limits(late, [(8 * S, 3000 * US)])).is_identity


def test_limits_that_no_line_lies_between_give_none():
    line = clock_line(limits([(at * S, at % 2 * 900 * US) for at in range(9)], [(at * S, 100 * US) for at in range(9)]))
    assert line.shift_ps is None
    assert line.launches == (9, 4)


def test_single_garbled_records_shift_nothing():
    launches = [(at * US, -6 * US) for at in range(500)]
    launches[7] = (7 * US, 50_000 * US)
    assert clock_line(limits(launches)).is_identity
    assert clock_line(limits(launches, [(400 * US, 3 * US)])).is_identity


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.integers(-2000, 2000)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(-50, 50), st.integers(-2000, 2000)), max_size=8),
)
def test_a_shift_lies_between_all_limits_wherever_a_search_finds_a_line(launches, waits):
    scale = S // 10, US
    clock = limits(
        [(at * scale[0], least * US) for at, least in launches], [(at * scale[0], most * US) for at, most in waits]
    )
    line = clock_line(clock)
    widths = [clock.width(drift * PPM) for drift in range(-499, 500)]
    if line.shift_ps is None and max(widths) >= 0:
        # A line is there, but too few or too different violations ask for it.
        assert max(widths) > 100 * US
    if line.shift_ps is not None and not line.is_identity:
        slack = TOLERANCE_PS + 1000
        assert (line.added(clock.start) >= clock.least - slack).all()
        assert (line.added(clock.end) <= clock.most + slack).all()
