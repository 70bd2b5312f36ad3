"""Threads of the host that wait: both halves of an await, and calls that synchronise."""

from pathlib import Path

import pytest

from tests.readers.xspaces import PlaneText, write
from tracekit.readers import read

DATA = Path(__file__).parents[2] / "data"
AWAIT = "CommonPjRtBuffer::Await"


def waits(tmp_path, *planes):
    host = PlaneText("/host:CPU").event("python", "start of the profile", 0, 0)
    text = host.text() + "".join(plane.text() for plane in planes)
    syncs = read(write(tmp_path / "host.xplane.pb", text)).syncs
    assert syncs[["device", "lane", "recorded_ps"]].isna().all().all()
    columns = ["thread", "name", "start_ps", "end_ps", "on_device", "on_lane"]
    return syncs[columns].astype(object).where(syncs[columns].notna(), None).values.tolist()


def test_an_await_lasts_from_its_first_half_to_its_second(tmp_path):
    plane = PlaneText("/host:CPU").event("python", AWAIT, 10, 1, _pt=0, _p=7).event("python", AWAIT, 50, 2, _ct=0, _c=7)
    assert waits(tmp_path, plane) == [["python", AWAIT, 10_000, 52_000, None, None]]


@pytest.mark.parametrize(
    ("line", "name", "key"), [("other", AWAIT, 7), ("python", "Other::Await", 7), ("python", AWAIT, 8)]
)
def test_halves_of_another_thread_name_or_id_are_no_pair(tmp_path, line, name, key):
    plane = PlaneText("/host:CPU").event("python", AWAIT, 10, 1, _pt=0, _p=7).event(line, name, 50, 2, _ct=0, _c=key)
    assert waits(tmp_path, plane) == []


def test_a_call_that_synchronises_names_what_the_record_on_the_stream_tells(tmp_path):
    host = PlaneText("/host:CPU")
    host.event("t/1", "cuStreamSynchronize", 10, 20, correlation_id=1)
    host.event("t/1", "cuCtxSynchronize", 40, 20, correlation_id=2)
    host.event("t/2", "hipDeviceSynchronize", 70, 20, correlation_id=3)
    host.event("t/2", "cuStreamWaitEvent", 95, 1, correlation_id=4).event("t/2", "cuLaunchKernel", 97, 1)
    gpu = PlaneText("/device:GPU:1").event("Stream #13(Compute)", "kernel", 5, 22, correlation_id=9)
    gpu.event("Stream #13(Compute)", "cuStreamSynchronize", 12, 15, correlation_id=1)
    gpu.event("Stream #13(Compute)", "cuCtxSynchronize", 42, 15, correlation_id=2)
    assert waits(tmp_path, host, gpu) == [
        ["t/1", "cuStreamSynchronize", 10_000, 30_000, "gpu:1", "Stream #13(Compute)"],
        ["t/1", "cuCtxSynchronize", 40_000, 60_000, "gpu:1", None],
        ["t/2", "hipDeviceSynchronize", 70_000, 90_000, None, None],
    ]


@pytest.mark.parametrize(("version", "awaits"), [("0.10.2", 5), ("0.12.0", 3)])
def test_real_waits_of_a_program_end_when_the_devices_are_done(version, awaits):
    trace = read(DATA / f"two-cpu-devices-jax{version}.xplane.pb")
    assert trace.syncs["name"].tolist() == [AWAIT] * awaits
    assert set(trace.syncs["thread"]) == {"python"}
    phases = trace.spans[trace.spans["tracekit"].notna()]
    for wait in trace.syncs.itertuples():
        (phase,) = phases[(phases["start_ps"] <= wait.start_ps) & (wait.end_ps <= phases["end_ps"])].itertuples()
        # The program waits for all that it called: the ops of the phase so far end before the wait does.
        in_phase = trace.events["hlo_op"].notna() & trace.events["start_ps"].between(phase.start_ps, wait.end_ps)
        assert trace.events.loc[in_phase, "end_ps"].max() <= wait.end_ps
        busy = (trace.events["start_ps"] < wait.end_ps) & (trace.events["end_ps"] > wait.start_ps)
        assert busy.any()


@pytest.mark.parametrize("duration", [-1, -(2**63), 2**63 - 1])
def test_an_event_that_ends_before_it_starts_or_past_all_time_is_lost_and_told(tmp_path, duration):
    text = """planes { name: "/host:CPU" lines { name: "python"
        events { metadata_id: 1 offset_ps: 20 duration_ps: 5 } events { metadata_id: 1 offset_ps: 10 duration_ps: %d } }
        event_metadata { key: 1 value { id: 1 name: "tracekit:train" } } }"""
    trace = read(write(tmp_path / "host.xplane.pb", text % duration))
    assert (trace.spans["end_ps"] - trace.spans["start_ps"]).tolist() == [5]
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["events", 1, 2]]
    assert "1 of 2 events could not be read (events of the host, damaged or ending before they start)" in " ".join(
        trace.notes
    )
