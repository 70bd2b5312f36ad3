"""Which call of the host started which execution on a TPU: hand-made planes, and all of a real trace."""

import pandas as pd
import pytest
from jax.profiler import ProfileData

from tests import traces
from tests.readers.xspaces import PlaneText, write
from tracekit.readers import read

EXECUTE, ISSUE = "tpu::System::Execute", "tpu::System::Execute=>IssueSequencedEvent"


def started(tmp_path, *planes):
    """(device, start of the row, name and start of the call that started it), in ns."""
    host = PlaneText("/host:CPU").event("python", "start of the profile", 0, 0)
    trace = read(write(tmp_path / "host.xplane.pb", host.text() + "".join(plane.text() for plane in planes)))
    rows = trace.events.merge(trace.launches, how="left", on="correlation_id", suffixes=("", "_of_call"))
    rows = rows.sort_values("start_ps")
    return [
        (device, start // 1000, None if pd.isna(name) else name, None if pd.isna(call) else call // 1000)
        for device, start, name, call in zip(
            rows["device"], rows["start_ps"], rows["name_of_call"], rows["start_ps_of_call"].astype(object), strict=True
        )
    ]


def execution(plane, start, run, **flow):
    plane.event("XLA Modules", "jit_f(9)", start, 10, run_id=run, **flow)
    return plane.event("XLA Ops", "%fusion.1 = f32[8] fusion(f32[8] %p)", start, 8)


def test_an_execution_leads_back_through_the_queue_to_the_call_that_asked_for_it(tmp_path):
    host = PlaneText("/host:CPU").event("python", EXECUTE, 10, 4, _pt=7, _p=100)
    host.event("tasks", ISSUE, 50, 9, _ct=7, _c=100)
    host.event("tasks", "DoEnqueueProgram", 52, 3, run_id=4, device_ordinal=0, _pt=12, _p=55)
    # What the flow of an execution does not lead to did not start it, whatever run it names.
    host.event("tasks", "DoEnqueueProgram", 70, 3, run_id=5, device_ordinal=0, _pt=12, _p=57)
    tpu = execution(PlaneText("/device:TPU:0"), 60, 4, _ct=12, _c=55)
    assert started(tmp_path, host, execution(tpu, 80, 5, _ct=12, _c=56)) == [
        ("tpu:0", 60, EXECUTE, 10),
        ("tpu:0", 80, None, None),
    ]


def test_without_the_ids_of_flows_the_run_on_a_chip_tells_the_call_that_queued_it(tmp_path):
    host = PlaneText("/host:CPU").event("tasks", "DoEnqueueProgram", 10, 3, run_id=4, device_ordinal=0)
    host.event("tasks", "DoEnqueueProgram", 20, 3, run_id=4, device_ordinal=1)
    host.event("tasks", "DoEnqueueProgram", 22, 3, run_id=6, device_ordinal=1)
    host.event("tasks", "DoEnqueueProgram", 24, 3, run_id=6, device_ordinal=1)
    first, second = execution(PlaneText("/device:TPU:0"), 30, 4), execution(PlaneText("/device:TPU:1"), 40, 4)
    sparse = execution(PlaneText("/device:TPU:1 SparseCore 0"), 45, 4)
    # A run that two calls name is of neither.
    assert started(tmp_path, host, first, execution(second, 60, 6), sparse) == [
        ("tpu:0", 30, "DoEnqueueProgram", 10),
        ("tpu:1", 40, "DoEnqueueProgram", 20),
        ("tpu:1/sc:0", 45, None, None),
        ("tpu:1", 60, None, None),
    ]


@pytest.mark.parametrize(
    ("case", "count", "empty"),
    [
        traces.param("generated/tpu.xplane.pb", 42, 0),
        traces.param("xplane/tpu-v6e-4chip", 3613, 1),  # the first program held no op
    ],
)
def test_every_row_of_a_whole_tpu_trace_leads_back_to_a_call_before_it(case, count, empty):
    trace, path = traces.trace(case), traces.xspace(case)
    rows = trace.events.merge(trace.launches, on="correlation_id", suffixes=("", "_of_call"), validate="many_to_one")
    assert len(rows) == len(trace.events) == count
    assert set(rows["name_of_call"]) == {EXECUTE}
    assert (rows["start_ps_of_call"] < rows["start_ps"]).all()
    # A call starts one execution, on one chip, and they run in the order in which they were asked for.
    executions = rows.groupby(["device", "run_id"], observed=True)["start_ps_of_call"].agg(["nunique", "first"])
    assert (executions["nunique"] == 1).all()
    assert rows.groupby("correlation_id", observed=True)["device"].nunique().max() == 1
    for _, mine in executions.groupby(level="device", observed=True):
        assert mine["first"].is_monotonic_increasing
    # By jax's own reader: as many programs are queued as run.
    queued = [
        event.name
        for plane in ProfileData.from_file(str(path)).planes
        for line in plane.lines
        for event in line.events
        if event.name == "DoEnqueueProgram"
    ]
    assert len(queued) - len(trace.launches) == empty


def test_json_tells_launches_by_run_and_chip():
    trace = traces.trace("generated/tpu.trace.json.gz")
    rows = trace.events.merge(trace.launches, on="correlation_id", suffixes=("", "_of_call"), validate="many_to_one")
    assert len(rows) == len(trace.events)
    assert set(rows["name_of_call"]) == {"DoEnqueueProgram"}
    assert [note for note in trace.notes if "clocks" in note] == []
    # Both chips are asked 29 us and 21 us before they begin.
    begun = rows.groupby(["device", "run_id"], observed=True)[["start_ps", "start_ps_of_call"]].min()
    assert ((begun["start_ps"] - begun["start_ps_of_call"]) // 10**6).tolist() == [29] * 3 + [21] * 3


@traces.needs_real
def test_json_of_chips_whose_clocks_are_behind_the_hosts_says_so():
    trace = traces.trace("chrome/jax-tpu-2chip-vllm")
    rows = trace.events.merge(trace.launches, on="correlation_id", suffixes=("", "_of_call"), validate="many_to_one")
    assert len(rows) == len(trace.events)
    assert set(rows["name_of_call"]) == {"DoEnqueueProgram"}
    # The chips' clocks are behind the host's: what the profile shows first was asked for after it began.
    assert [note for note in trace.notes if "clocks" in note] == [
        f"{device}: executions start up to {ahead} µs before their launch on the host: the clocks of host and chip "
        "differ by at least that, and launch latencies are meaningless."
        for device, ahead in (("tpu:0", "536.5"), ("tpu:1", "681.0"))
    ]
    assert rows.groupby(["device", "run_id"], observed=True)["correlation_id"].nunique().tolist() == [1] * 8
