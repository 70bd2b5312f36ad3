"""What else the machine did, inside the windows that count, from what a capture recorded."""

from dataclasses import replace

import pandas as pd
import pytest

from tests.frames import events
from tracekit.analysis import advice
from tracekit.analysis.machine import NOT_CAPTURED, machine
from tracekit.columns import frame, records
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import HOST_COLUMNS, Trace

S, ORIGIN_NS = 10**12, 1_795_386_218_000_000_000


def captured(others, own=None, *, stolen=None, cores=2, devices=("cpu:0", "cpu:1"), **more):
    """A capture of devices that work for four seconds, with one sample of cumulated CPU seconds a second."""
    times = range(len(others or own))
    samples = {
        "unix_ns": [ORIGIN_NS + at * 10**9 for at in times],
        "own_cpu_s": own or [0.0 for _ in times],
        "other_cpu_s": others,
        "stolen_cpu_s": stolen or [0.0 for _ in times],
        "frequency_mhz": [2000.0, *(3000.0 for _ in times[1:])],
    }
    load = {"cores": cores, "load_average": [0.5, 1.5], "throttled": None, "samples": samples, "lacking": {}}
    return Trace(
        events(*((device, "compute", 0, 4 * S) for device in devices)),
        hosts=frame(HOST_COLUMNS, {"host": ["h"], "origin_ns": [ORIGIN_NS], "source": ["h"]}),
        capture={"machine": load | more},
    )


def windows(*rows):
    return pd.DataFrame([("", name, start * S // 2, end * S // 2) for name, start, end in rows]).set_axis(
        ["clock", "name", "start_ps", "end_ps"], axis=1
    )


def test_the_load_is_that_of_the_capture_and_of_the_windows_of_each_phase():
    trace = captured([0.0, 0.0, 1.0, 2.0, 2.0], own=[0.0, 2.0, 3.0, 4.0, 6.0])
    timeline = timeline_of(trace).inside(windows(("quiet", 0, 2), ("busy", 2, 4), ("busy", 4, 6), ("half", 1, 3)))
    result = machine(timeline)

    assert [
        (row["phase"] if pd.notna(row["phase"]) else None, row["own_cores"], row["other_cores"], row["is_busy"])
        for row in records(result.load)
    ] == [
        (None, 1.5, 0.5, True),
        ("quiet", 2.0, 0.0, False),
        ("busy", 1.0, 1.0, True),
        ("half", 1.5, 0.5, True),
    ]
    assert (result.during("quiet"), result.during("none")) == (None, None)
    assert result.during("busy")["other_cores"] == 1.0
    assert set(result.load["frequency_mhz"]) == {3000.0}
    assert result.load_average == (0.5, 1.5)


def test_the_load_in_a_phase_of_nanoseconds_is_that_of_the_samples_around_it():
    """Of its 200 ns, nothing before the second sample and all after it."""
    around = windows(("short", 0, 0)).assign(start_ps=S - 100_000, end_ps=S + 100_000)
    load = machine(timeline_of(captured([0.0, 0.0, 1.0, 2.0, 2.0])).inside(around)).during("short")
    assert load["other_cores"] == pytest.approx(0.5)


def test_where_hosts_began_at_different_times_no_phase_has_its_load():
    trace = captured([0.0, 0.0, 1.0, 2.0, 2.0])
    for origins, phases in (([ORIGIN_NS, ORIGIN_NS], 1), ([ORIGIN_NS, ORIGIN_NS + 1], 0), ([ORIGIN_NS, None], 1)):
        hosts = frame(HOST_COLUMNS, {"host": ["h", "i"], "origin_ns": pd.array(origins, "Int64"), "source": ["h", "i"]})
        timeline = timeline_of(replace(trace, hosts=hosts)).inside(windows(("busy", 2, 4)))
        assert machine(timeline).load["phase"].notna().sum() == phases


@pytest.mark.parametrize(
    ("others", "stolen", "cores", "devices", "is_busy"),
    [
        (0.2, 0.0, 2, ("cpu:0", "cpu:1"), False),
        (0.21, 0.0, 2, ("cpu:0", "cpu:1"), True),
        (0.1, 0.11, 2, ("cpu:0", "cpu:1"), True),
        (6.0, 0.0, 8, ("cpu:0", "cpu:1"), False),
        (6.5, 0.0, 8, ("cpu:0", "cpu:1"), True),
        (1.0, 0.0, 2, ("gpu:0", "gpu:1"), False),
        (1.5, 0.0, 2, ("gpu:0", "gpu:1"), True),
    ],
)
def test_a_machine_is_busy_where_too_few_cores_are_left_for_the_devices_or_their_host(
    others, stolen, cores, devices, is_busy
):
    trace = captured([0.0, others], stolen=[0.0, stolen], cores=cores, devices=devices)
    assert (machine(timeline_of(trace)).during() is not None) is is_busy


def test_what_the_system_did_not_tell_is_null_with_its_reason():
    trace = captured(None, own=[0.0, 1.0], lacking={"cpu": "no /proc"})
    result = machine(timeline_of(trace))
    assert (result.load["other_cores"].isna().all(), result.load["is_busy"].any()) == (True, False)
    assert (result.reasons, result.throttled_s, result.lacking) == ({"cpu": "no /proc"}, None, "")


@pytest.mark.parametrize(("length_ms", "other_cores"), [(199, None), (200, 0.1)])
def test_of_a_capture_that_a_few_ticks_fill_nothing_is_told(length_ms, other_cores):
    trace = captured([0.0, 0.02])
    trace.capture["machine"]["samples"]["unix_ns"][1] = ORIGIN_NS + length_ms * 10**6
    (row,) = records(machine(timeline_of(trace)).load)
    assert (None if pd.isna(row["other_cores"]) else round(row["other_cores"], 6)) == other_cores


@pytest.mark.parametrize(
    "capture",
    [
        *(None, {"usable_cores": 2}, {"machine": None}, {"machine": {"cores": "many"}}),
        {"machine": {"cores": 2, "samples": {"unix_ns": []}}},
        {"machine": {"cores": 2, "samples": {"unix_ns": [2**63, 2**64]}}},
    ],
)
def test_a_trace_that_was_captured_without_it_lacks_it(capture):
    trace = replace(captured([0.0, 1.0]), capture=capture)
    assert machine(timeline_of(trace)).lacking == NOT_CAPTURED


def test_the_advice_names_the_phase_in_which_others_used_most():
    timeline = timeline_of(captured([0.0, 1.5, 2.0])).inside(windows(("a", 0, 2), ("b", 2, 4)))
    finding = advice.busy_machine(machine(timeline))
    assert finding.evidence == {"phase": "a", "cores": 2, "other_cores": 1.5, "stolen_cores": 0.0}
    assert advice.busy_machine(machine(timeline_of(captured([0.0, 0.0])))) is None
