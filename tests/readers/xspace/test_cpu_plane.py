"""CPU devices rebuilt from host threads: hand-made planes whose answer is known beforehand."""

import pytest

from tests.readers.hlo import hlo_modules
from tests.readers.hlo.hlo_modules import needs_xla_parser
from tests.readers.xspace.cpu_planes import LISTENER, Cpu
from tests.readers.xspaces import PlaneText, metadata_plane, write
from tracekit.readers import read


def rows(tmp_path, plane, *columns):
    trace = read(write(tmp_path / "host.xplane.pb", plane.text()))
    return trace.events[list(columns)].astype(object).where(trace.events[list(columns)].notna(), None).values.tolist()


def test_a_device_spans_threads_and_threads_serve_devices(tmp_path):
    plane = (
        Cpu()
        .thunk("t/1", "dot.1", 0, 10)
        .thunk("t/1", "dot.2", 20, 30, device=1)
        .thunk("t/2", "dot.1", 5, 15, device=1)
    )
    assert rows(tmp_path, plane, "device", "lane", "name", "start_ps", "end_ps") == [
        ["cpu:0", "t/1", "dot.1", 0, 10_000],
        ["cpu:1", "t/2", "dot.1", 5_000, 15_000],
        ["cpu:1", "t/1", "dot.2", 20_000, 30_000],
    ]


def test_a_thunk_ends_where_its_end_event_starts_on_whatever_thread(tmp_path):
    plane = Cpu().thunk("t/1", "add.1", 0, 4, done=9, done_line="t/2")
    assert rows(tmp_path, plane, "start_ps", "end_ps") == [[0, 9_000]]


def test_but_no_later_than_the_next_thunk_of_the_same_run_and_device(tmp_path):
    plane = Cpu().thunk("t/1", "add.1", 0, 4, done=20, done_line="t/3")
    plane.thunk("t/2", "add.2", 6, 8, device=1).thunk("t/1", "add.2", 7, 8, run=2).thunk("t/1", "add.2", 12, 14)
    assert rows(tmp_path, plane, "device", "start_ps", "end_ps")[0] == ["cpu:0", 0, 12_000]


def test_control_flow_is_never_a_row_and_its_children_are(tmp_path):
    plane = (
        Cpu().thunk("t/1", "while.5", 0, 100).thunk("t/1", "dot.1", 10, 20).thunk("t/1", "conditional.2.clone", 30, 50)
    )
    plane.thunk("t/1", "psum.3", 35, 45)
    assert rows(tmp_path, plane, "name", "start_ps") == [["dot.1", 10_000], ["psum.3", 35_000]]


def test_another_op_that_encloses_ops_is_cut_to_the_pieces_without_a_child(tmp_path):
    plane = Cpu().thunk("t/1", "fusion.1", 0, 100).thunk("t/1", "all-reduce.2", 10, 20).thunk("t/1", "dot.3", 50, 100)
    assert rows(tmp_path, plane, "name", "kind", "start_ps", "end_ps") == [
        ["fusion.1", "compute", 0, 10_000],
        ["all-reduce.2", "collective", 10_000, 20_000],
        ["fusion.1", "compute", 20_000, 50_000],
        ["dot.3", "compute", 50_000, 100_000],
    ]


def test_a_collective_waits_as_long_as_its_wait_events_on_its_own_thread(tmp_path):
    plane = Cpu().thunk("t/1", "all-reduce.1", 0, 50).thunk("t/2", "all-reduce.1", 30, 50, device=1)
    plane.event("t/1", "Rendezvous", 2, 45).event("t/1", "Wait: pending_threads=1/2", 3, 37)
    plane.event("t/2", "Rendezvous", 40, 2)
    plane.thunk("t/1", "all-gather.2", 60, 70)
    assert rows(tmp_path, plane, "name", "device", "wait_ps") == [
        ["all-reduce.1", "cpu:0", 37_000],
        ["all-reduce.1", "cpu:1", 0],
        ["all-gather.2", "cpu:0", None],
    ]


@needs_xla_parser
def test_the_hlo_proto_tells_the_size_type_and_members_of_a_collective_whatever_its_name(tmp_path):
    text = hlo_modules.TEXT.replace("%a2a =", "%psum.6 =")
    text = metadata_plane(jit_f_6=hlo_modules.module(text).as_serialized_hlo_module_proto())
    text += Cpu().thunk("t/1", "psum.6", 0, 10).thunk("t/1", "copy_fusion", 10, 15).text()
    trace = read(write(tmp_path / "host.xplane.pb", text))
    found = trace.events[["kind", "category", "bytes", "dtype", "ranks", "group"]].astype(object)
    assert found.where(found.notna(), None).values.tolist() == [
        ["collective", "all-to-all", 512, "f32", "{{0,1},{2,3},{4,5},{6,7}}", "channel 6"],
        ["compute", "fusion", None, None, None, None],
    ]


@pytest.mark.parametrize("call", ["CopyToMemorySpace", "CopyToMemorySpace_Direct"])
def test_a_copy_of_a_ready_array_is_a_region_queued_by_the_copy_call_on_an_unknown_device(tmp_path, call):
    plane = Cpu().thunk("t/1", "dot.1", 0, 5).event("python", call, 10, 10).record("python", 15, queue=3)
    plane.region("tf_XLAPjRtCpuClient/1", 16, 40, queue=3)
    trace = read(write(tmp_path / "host.xplane.pb", plane.text()))
    copy = trace.events.iloc[1]
    assert (copy["device"], copy["kind"], copy["direction"]) == ("cpu:?", "memcpy", "P2P")
    assert (copy["start_ps"], copy["end_ps"]) == (16_000, 40_000)
    assert "1 of 1 copies between CPU devices" in " ".join(trace.notes)


def test_a_copy_of_an_unready_array_belongs_to_the_device_that_computed_it(tmp_path):
    plane = Cpu().event("python", "CopyToMemorySpace", 2, 1).thunk("t/1", "dot.1", 0, 10, device=1)
    plane.event("t/1", "ThunkExecutor::Execute (wait for completion)", 12, 1, run_id=1, device_ordinal=1)
    plane.record("t/1", 14, queue=9).region("t/2", 15, 35, queue=9)
    assert rows(tmp_path, plane, "device", "kind", "start_ps", "end_ps")[1:] == [["cpu:1", "memcpy", 15_000, 35_000]]


def test_regions_that_run_thunks_or_that_no_copy_call_asked_for_are_no_copies(tmp_path):
    plane = Cpu().event("python", "CopyToMemorySpace", 1, 3).record("python", 2, queue=1)
    plane.region("t/1", 5, 30, queue=1).thunk("t/1", "dot.1", 6, 20)
    plane.event("t/1", "ThunkExecutor::Execute (wait for completion)", 21, 1, run_id=1, device_ordinal=0)
    plane.record("t/1", 23, queue=2).region("t/2", 24, 26, queue=2).region("t/2", 50, 60, queue=77)
    assert rows(tmp_path, plane, "name", "kind") == [["dot.1", "compute"]]


def test_a_region_still_open_at_the_end_of_the_profile_ends_there_and_is_noted(tmp_path):
    plane = Cpu().event("python", "CopyToMemorySpace", 0, 3).record("python", 2, queue=1)
    plane.event("t/1", LISTENER + "StartRegion", 5, 0, _ct=15, _c=1).event("python", "Await", 4, 26)
    trace = read(write(tmp_path / "host.xplane.pb", plane.text()))
    assert trace.events[["start_ps", "end_ps"]].values.tolist() == [[5_000, 30_000]]
    assert "still open" in trace.notes[0]


@pytest.mark.parametrize("call", ["H2D Dispatch", "CommonPjRtClient::LinearizeIntoImpl"])
def test_copies_from_the_host_are_h2d(tmp_path, call):
    plane = Cpu().event("python", call, 5, 7).event("python", "step", 0, 1)
    assert rows(tmp_path, plane, "device", "kind", "direction", "start_ps", "end_ps") == [
        ["cpu:?", "memcpy", "H2D", 5_000, 12_000]
    ]


def test_beside_an_accelerator_the_copy_calls_of_the_host_are_no_cpu_copies(tmp_path):
    text = Cpu().event("python", "H2D Dispatch", 5, 7).thunk("t/1", "dot.1", 0, 5).text()
    text += PlaneText("/device:TPU:0").event("XLA Ops", "fusion.1", 3, 4).text()
    events = read(write(tmp_path / "host.xplane.pb", text)).events
    assert sorted(events["device"]) == ["cpu:0", "tpu:0"]


def test_spans_keep_annotations_and_the_stats_of_phases_and_leave_out_pool_bookkeeping(tmp_path):
    plane = (
        Cpu().event("python", "both", 0, 50, tracekit="phase", alone="a;b").event("python", "train", 1, 9, step_num=4)
    )
    plane.thunk("t/1", "dot.1", 2, 8).region("t/1", 1, 9, queue=3)
    trace = read(write(tmp_path / "host.xplane.pb", plane.text()))
    spans = trace.spans[["thread", "name", "start_ps", "end_ps", "step", "tracekit", "alone", "baseline"]].astype(
        object
    )
    assert spans.where(spans.notna(), None).values.tolist() == [
        ["python", "both", 0, 50_000, None, "phase", "a;b", None],
        ["python", "train", 1_000, 10_000, 4, None, None, None],
    ]


def test_the_tiny_program_that_ends_a_capture_is_no_work_of_the_script(tmp_path):
    plane = Cpu().thunk("t/1", "dot.1", 0, 5)
    plane.event("t/1", "broadcast", 9, 1, hlo_op="broadcast", hlo_module="jit_tracekit_end", device_ordinal=0)
    assert rows(tmp_path, plane, "name") == [["dot.1"]]


def test_a_trace_without_device_work_has_no_rows_and_no_error(tmp_path):
    trace = read(write(tmp_path / "host.xplane.pb", Cpu().event("python", "idle", 3, 4).text()))
    assert len(trace.events) == 0
    assert trace.spans["start_ps"].tolist() == [0]
