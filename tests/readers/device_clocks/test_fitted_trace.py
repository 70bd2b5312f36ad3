"""Rows of devices on the clock of their host: of simulated jobs whose clocks are known, and of small traces."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tracekit
from tests import traces
from tests.simulator.clocks import WHOLE, Clock, Recorder
from tests.simulator.compare import compare
from tests.simulator.random_jobs import job_with
from tests.simulator.test_compare import AHEAD, EVIDENT, TWO_RANKS
from tests.simulator.truth import Truth
from tests.simulator.writers import FORMATS
from tests.traces import needs_real
from tracekit.columns import frame
from tracekit.readers.device_clocks import fit
from tracekit.trace import EVENT_COLUMNS, HOST_COLUMNS, LAUNCH_COLUMNS, SYNC_COLUMNS, Trace

NS, US = 1000, 10**6


def small(rows, calls, syncs=(), form="kineto", **columns):
    """A trace of one GPU: rows (kind, name, start, end, id[, direction]), calls (name, start, end, id), syncs."""
    events = frame(
        EVENT_COLUMNS,
        {
            "host": ["h"] * len(rows),
            "device": ["gpu:0"] * len(rows),
            "lane": ["stream 7"] * len(rows),
            "kind": [row[0] for row in rows],
            "name": [row[1] for row in rows],
            "start_ps": [row[2] * US for row in rows],
            "end_ps": [row[3] * US for row in rows],
            "correlation_id": [row[4] for row in rows],
            "direction": [row[5] if len(row) > 5 else None for row in rows],
        },
    )
    launches = frame(
        LAUNCH_COLUMNS,
        {
            "host": ["h"] * len(calls),
            "thread": ["main"] * len(calls),
            "name": [call[0] for call in calls],
            "start_ps": [call[1] * US for call in calls],
            "end_ps": [call[2] * US for call in calls],
            "correlation_id": [call[3] for call in calls],
        },
    )
    waits = frame(
        SYNC_COLUMNS,
        {
            "host": ["h"] * len(syncs),
            "thread": ["main"] * len(syncs),
            "name": [sync[0] for sync in syncs],
            "start_ps": [sync[1] * US for sync in syncs],
            "end_ps": [sync[2] * US for sync in syncs],
            **{name: [value] * len(syncs) for name, value in columns.items()},
        },
    )
    hosts = frame(HOST_COLUMNS, {"host": ["h"], "source": ["f"], "origin_ns": [10**18]})
    return Trace(events, launches=launches, syncs=waits, hosts=hosts, format=form)


def shift(trace):
    """What was added to the first row, whatever was added to all times, in us."""
    fitted = fit(trace)
    late = [each.events["start_ps"][0] - each.launches["start_ps"][0] for each in (fitted, trace)]
    return (late[0] - late[1]) / US


KERNELS = [("compute", "f", 100 * at + 6, 100 * at + 50, at + 1) for at in range(5)]
CALLS = [("cudaLaunchKernel", 100 * at, 100 * at + 3, at + 1) for at in range(5)]


def late(rows, by):
    """The rows, later."""
    return [(kind, name, start + by, end + by, *more) for kind, name, start, end, *more in rows]


@pytest.mark.parametrize("trace_format", list(FORMATS))
@pytest.mark.parametrize("habits", [EVIDENT, TWO_RANKS])
@pytest.mark.parametrize("device_us", [-200, 300_000])
def test_clocks_of_simulated_devices_are_found_within_microseconds(tmp_path, habits, trace_format, device_us):
    truth = Truth(job_with(habits))
    recorder = Recorder({0: Clock(device_ns=device_us * 1000), 1: Clock(device_ns=-device_us * 1500)})
    path = FORMATS[trace_format](truth, tmp_path / "trace", recorder)
    errors = compare(truth, path)
    assert errors.clock_ns < 5000
    assert errors.steps
    assert errors.idle < 0.1
    devices = tracekit.read(path).devices
    assert devices["shift_ps"].to_numpy(float) / US == pytest.approx(
        [-device_us, 1.5 * device_us][: habits.ranks], abs=5
    )
    assert devices["clock_error"].isna().all()


@pytest.mark.parametrize("trace_format", list(FORMATS))
@pytest.mark.parametrize("habits", [EVIDENT, AHEAD])
def test_a_clock_that_fits_is_left_as_it_is(tmp_path, habits, trace_format):
    path = FORMATS[trace_format](Truth(job_with(habits)), tmp_path / "trace", WHOLE)
    trace = tracekit.read(path)
    assert (trace.devices["shift_ps"] == 0).all()
    assert not [note for note in trace.notes if "launch" in note]


@needs_real
@pytest.mark.parametrize("name", ["kineto/hta_rank0_queue", "nsys/mfu_2gpu_before-2xH100", "xplane/jax-8xMI300X"])
def test_clocks_of_real_devices_are_left_as_they_are(name):
    assert set(traces.trace(name).devices["shift_ps"].dropna()) == {0}


@needs_real
@pytest.mark.parametrize("late_us", [-324_000, -200, 324_000])
@pytest.mark.parametrize("name", ["nsys/mfu_2gpu_before-2xH100", "kineto/hta-nccl_data-A100"])
def test_clocks_of_real_devices_are_found_where_they_are_put_off(name, late_us):
    trace = traces.trace(name)
    off = {column: trace.events[column] + late_us * US for column in ("start_ps", "end_ps")}
    fitted = fit(replace(trace, events=trace.events.assign(**off)))
    delays = [each.events["start_ps"] - each.launches["start_ps"][0] for each in (fitted, trace)]
    assert (delays[0] - delays[1]).abs().max() < 8 * US


def test_rows_that_start_before_their_launch_are_shifted_behind_it():
    trace = small(late(KERNELS, -200), CALLS)
    # The usual latency behind the launch, since nothing limits it on the other side.
    assert shift(trace) == 199
    fitted = fit(trace)
    assert int(fitted.launches["start_ps"][0]) == 0
    assert fitted.hosts["origin_ns"].tolist() == [10**18]
    assert fitted.devices[["device", "shift_ps", "drift_ppm"]].to_numpy().tolist() == [["gpu:0", 199 * US, 0.0]]
    assert fitted.notes == (
        "gpu:0: its clock is 199 µs behind the host's, since 5 of 5 rows start before their launch: its times were "
        "shifted by +199 µs (5 launches allow at least +194 µs; the least latency of a launch is taken to be 5 µs).",
    )


def test_a_wait_that_returns_before_the_end_shifts_rows_forward():
    sync = ("cudaDeviceSynchronize", 410, 453)
    assert shift(small(KERNELS, CALLS, [sync], on_device="gpu:0")) == 0
    assert shift(small(late(KERNELS, 200), CALLS, [sync], on_device="gpu:0")) == -201.5
    # Without the device, that of the thread's last launch.
    assert shift(small(late(KERNELS, 200), CALLS, [sync])) == -201.5
    # A stream that is not known may have had nothing to do.
    assert shift(small(late(KERNELS, 200), CALLS, [("cudaStreamSynchronize", 410, 453)])) == 0


@pytest.mark.parametrize(
    ("call", "name", "direction", "counts"),
    [
        ("cudaMemcpy", "Memcpy DtoH (Device -> Pageable)", "D2H", True),
        ("cuMemcpyDtoH_v2", "Memcpy DtoH (Device -> Pinned)", "D2H", True),
        ("hipMemcpyWithStream", "CopyDeviceToHost", "D2H", True),
        ("cudaMemcpy", "Memcpy HtoD (Pinned -> Device)", "H2D", True),
        ("cudaMemcpy", "Memcpy HtoD (Pageable -> Device)", "H2D", False),
        ("cudaMemcpy", "Memcpy DtoD (Device -> Device)", "D2D", False),
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", "D2H", False),
    ],
)
def test_calls_that_wait_for_their_copy_limit_its_end(call, name, direction, counts):
    copy = ("memcpy", name, 516 + 200, 520 + 200, 9, direction)
    assert shift(small([*late(KERNELS, 200), copy], [*CALLS, (call, 510, 524, 9)])) == (-201 if counts else 0)


def test_a_stream_is_that_of_the_copy_to_the_host_right_before():
    copy = ("memcpy", "Memcpy DtoH (Device -> Pageable)", 516 + 200, 520 + 200, 9, "D2H")
    rows, calls = [*late(KERNELS, 200), copy], [*CALLS, ("cudaMemcpyAsync", 510, 512, 9)]
    assert shift(small(rows, calls, [("cudaStreamSynchronize", 514, 524)])) == -201
    assert shift(small(rows, calls, [("cudaStreamSynchronize", 540, 541)])) == 0
    # Another launch of the thread in between may be on another stream.
    later = [("compute", "f", 713 + 60, 713 + 90, 10)]
    assert (
        shift(
            small([*rows, *later], [*calls, ("cudaLaunchKernel", 512, 513, 10)], [("cudaStreamSynchronize", 514, 524)])
        )
        == 0
    )


def test_inferred_waits_that_contradict_the_launches_do_not_count():
    sync = [("cudaDeviceSynchronize", 410 + at, 411 + at) for at in range(5)]
    trace = small([*KERNELS, ("compute", "f", 600, 900, 6)], [*CALLS, ("cudaLaunchKernel", 405, 406, 6)], sync)
    fitted = fit(trace)
    pd.testing.assert_frame_equal(fitted.events, trace.events)
    assert fitted.devices["clock_error"].isna().all()


def test_rows_that_no_shift_explains_are_told():
    sync = [("cudaStreamSynchronize", 100 * at + 60, 100 * at + 70) for at in range(5)]
    rows = [
        (kind, name, start + (900 if number % 2 else -900), end + (900 if number % 2 else -900), number)
        for kind, name, start, end, number in KERNELS
    ]
    trace = small(rows, CALLS, sync, on_device="gpu:0", on_lane="stream 7")
    fitted = fit(trace)
    pd.testing.assert_frame_equal(fitted.events, trace.events)
    reason = (
        "2 of 5 rows start before their launch and 5 of 5 waits return before what they wait for has ended, and no "
        "offset or drift of its clock explains it"
    )
    assert fitted.devices["clock_error"].tolist() == [reason]
    assert fitted.notes == (f"gpu:0: {reason}: its times cannot be compared with the host's.",)


def test_a_drift_is_taken_out_of_starts_and_ends():
    rows = [("compute", "f", 10_000 * at + 6, 10_000 * at + 5006, at + 1) for at in range(1000)]
    calls = [("cudaLaunchKernel", 10_000 * at, 10_000 * at + 3, at + 1) for at in range(1000)]
    sync = [("cudaDeviceSynchronize", 10_000 * at + 4, 10_000 * at + 5009) for at in range(1000)]
    trace = small(rows, calls, sync, on_device="gpu:0")
    drifted = trace.events.assign(
        **{at: trace.events[at] + (trace.events[at] * 50e-6).round().astype("int64") for at in ("start_ps", "end_ps")}
    )
    fitted = fit(Trace(drifted, launches=trace.launches, syncs=trace.syncs, hosts=trace.hosts))
    assert fitted.devices["drift_ppm"][0] == pytest.approx(50, abs=0.5)  # as `drifted` runs
    for column in ("start_ps", "end_ps"):
        assert np.abs(fitted.events[column] - trace.events[column]).max() < 4 * US


def test_ids_of_two_threads_and_other_devices_say_nothing():
    early = small(late(KERNELS, -200), CALLS)
    twice = pd.concat([early.launches, early.launches.assign(thread=pd.Categorical(["other"] * 5))], ignore_index=True)
    twice = twice.assign(**{name: twice[name].astype("category") for name in ("host", "process", "thread", "name")})
    trace = Trace(early.events, launches=twice)
    assert fit(trace) is trace
    cpu = Trace(early.events.assign(device=pd.Categorical(["cpu:0"] * 5)), launches=early.launches)
    assert fit(cpu) is cpu


@pytest.mark.parametrize(("by", "error"), [(-200, "by up to 194 µs"), (-14, ""), (50, "")])
def test_a_tpu_whose_rows_start_before_their_launch_is_not_compared_with_its_host_and_stays_as_it_is(by, error):
    trace = small(late(KERNELS, by), CALLS)
    tpu = Trace(trace.events.assign(device=pd.Categorical(["tpu:0"] * 5)), launches=trace.launches)
    fitted = fit(tpu)
    assert fitted.events.equals(tpu.events)
    told = fitted.devices["clock_error"].dropna().tolist()
    assert bool(told) == bool(error)
    assert all(error in each for each in told)


@pytest.mark.parametrize(
    ("delay", "every", "waits", "is_wrong"),
    [
        (lambda at: 300 + at % 7, 200, False, True),
        (lambda at: 30 + at % 7, 200, False, False),  # a slow launch
        (lambda at: 300 + 40 * at, 200, False, False),  # a host that runs ahead
        (lambda at: 300 + at % 7, 50, False, False),  # a full queue
        (lambda at: 300 + at % 7, 200, True, False),  # which the wait proves
    ],
)
def test_rows_that_all_start_later_than_any_launch_takes_tell_of_the_clock(delay, every, waits, is_wrong):
    rows = [("compute", "f", every * at + delay(at), every * at + delay(at) + 40, at + 1) for at in range(30)]
    calls = [("cudaLaunchKernel", every * at, every * at + 3, at + 1) for at in range(30)]
    end = rows[-1][3] + 5
    trace = small(rows, calls, [("cudaDeviceSynchronize", every * 29 + 4, end)] * waits, on_device="gpu:0")
    (error,) = fit(trace).devices["clock_error"]
    assert isinstance(error, str) == is_wrong
    if is_wrong:
        assert error.startswith("rows that find the device idle all start 300 µs or more after their launch")
