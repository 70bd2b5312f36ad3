"""CPU devices rebuilt from host threads, and the calls that started them: hand-made planes whose answer is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.readers.hlo import hlo_modules
from tests.readers.hlo.hlo_modules import needs_xla_parser
from tests.readers.xspace.cpu_planes import LISTENER, Cpu
from tests.readers.xspaces import PlaneText, metadata_plane, write
from tracekit.readers import read
from tracekit.readers.xspace import cpu_plane


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
    plane = Cpu().thunk("t/1", "add.1", 0, 4, completion=9, completion_line="t/2")
    assert rows(tmp_path, plane, "start_ps", "end_ps") == [[0, 9_000]]


def test_but_no_later_than_the_next_thunk_of_the_same_run_and_device(tmp_path):
    plane = Cpu().thunk("t/1", "add.1", 0, 4, completion=20, completion_line="t/3")
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
    cells = trace.events[["kind", "category", "bytes", "dtype", "ranks", "group"]].astype(object)
    assert cells.where(cells.notna(), None).values.tolist() == [
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


HELPER = "CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice"
EXECUTE = "CommonPjRtLoadedExecutable::Execute (jit_f)"


class Caller(Cpu):
    """A host that calls jitted functions. Times in ns."""

    def call(self, start, duration=4, function="f", line="python", name=HELPER):
        """A call inside of the `PjitFunction` that makes it."""
        return self.event(line, f"PjitFunction({function})", start - 1, duration + 2).event(line, name, start, duration)

    def op(self, start, run, device=0, module="jit_f", line="t/1", name="dot.1"):
        """One thunk of the execution `run`."""
        stats = {"hlo_op": name, "hlo_module": module, "run_id": run, "device_ordinal": device}
        return self.event(line, name, start, 2, **stats)


def starts(tmp_path, plane):
    """(start of the row, start of the call that started it) of every row, in ns."""
    plane.event("python", "start of the profile", 0, 0)
    trace = read(write(tmp_path / "host.xplane.pb", plane.text()))
    calls = trace.launches.set_index("correlation_id")["start_ps"]
    assert calls.index.is_unique
    by = trace.events["correlation_id"].map(calls).astype("Int64")
    return [
        (start // 1000, None if row is None else row // 1000)
        for start, row in zip(trace.events["start_ps"], by.astype(object).where(by.notna(), None), strict=True)
    ]


def test_a_call_starts_what_runs_inside_of_it(tmp_path):
    assert starts(tmp_path, Caller().call(10, 10).op(12, run=5, line="python")) == [(12, 10)]


def test_a_call_starts_what_runs_in_the_region_that_it_queued_and_all_of_that_execution(tmp_path):
    plane = Caller().call(10).record("python", 12, queue=3).region("t/1", 20, 30, queue=3).op(22, run=5)
    plane.op(40, run=5, line="t/2", name="dot.2").op(50, run=6, line="t/2")
    assert starts(tmp_path, plane) == [(22, 10), (40, 10), (50, None)]


def test_a_region_that_a_call_did_not_queue_is_not_started_by_it(tmp_path):
    plane = Caller().call(10).record("python", 18, queue=3).region("t/1", 20, 30, queue=3).op(22, run=5)
    # Two calls and one run: counting proves nothing either.
    assert starts(tmp_path, plane.call(40)) == [(22, None)]


def test_a_region_that_has_stopped_runs_nothing_more(tmp_path):
    plane = Caller().call(10).record("python", 12, queue=3).region("t/1", 20, 30, queue=3)
    assert starts(tmp_path, plane.op(32, run=5).call(40)) == [(32, None)]


def test_the_call_for_several_devices_tells_its_run_and_those_inside_their_device(tmp_path):
    plane = Caller().event("python", EXECUTE, 10, 30, run_id=5, name="jit_f", _p=5)
    plane.event("t/9", f"[0] {EXECUTE}", 12, 4, global_device_id=0, _c=5)
    plane.event("t/9", f"[1] {EXECUTE}", 20, 4, global_device_id=1, _c=5)
    plane.op(24, run=5).op(25, run=5, device=1, line="t/2").op(26, run=5, device=2, line="t/3").op(60, run=7)
    assert starts(tmp_path, plane) == [(24, 12), (25, 20), (26, 10), (60, None)]


def test_a_run_of_another_program_with_the_same_number_is_another(tmp_path):
    plane = Caller().event("python", EXECUTE, 10, 30, run_id=5, name="jit_f", _p=5)
    assert starts(tmp_path, plane.op(24, run=5).op(25, run=5, module="jit_g", line="t/2")) == [(24, 10), (25, None)]


def test_runs_that_waited_for_their_inputs_are_those_of_the_calls_in_order_on_all_devices(tmp_path):
    plane = Caller().call(5, 5).op(7, run=40, line="python").call(10).call(20).call(30).call(25, function="g")
    plane.op(60, run=41).op(70, run=42, device=1).op(65, run=43)
    assert starts(tmp_path, plane) == [(7, 5), (60, 10), (65, 30), (70, 20)]


@pytest.mark.parametrize("more", [{"start": 40}, {"start": 22, "line": "other"}, {"start": 9, "duration": 30}])
def test_one_call_too_many_leaves_all_of_them_open(tmp_path, more):
    plane = Caller().call(5, 2).op(6, run=40, line="python")
    plane.call(10).call(20).op(60, run=41).op(70, run=42).call(**more)
    assert starts(tmp_path, plane) == [(6, 5), (60, None), (70, None)]


def test_before_the_first_call_that_is_known_as_many_runs_may_stem_from_before_the_profile(tmp_path):
    plane = Caller().call(10).call(20).op(60, run=41).op(70, run=42)
    assert starts(tmp_path, plane) == [(60, None), (70, None)]
    plane = Caller().call(10).call(20, 5).op(22, run=42, line="python").op(60, run=41)
    assert starts(tmp_path, plane) == [(22, 20), (60, None)]


@settings(max_examples=300)
@given(st.data())
def test_what_counting_tells_of_any_part_of_any_order_of_calls_is_true(data):
    # Programs of one name are called in some order. The profile sees some of the calls, and of each program the runs
    # from a little before the first of them on, up to a little before the last.
    order = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=14))
    run_of = [1000 * program + order[:at].count(program) for at, program in enumerate(order)]
    begin = data.draw(st.integers(0, len(order)))
    truth = {run: at for at, run in enumerate(run_of[begin : data.draw(st.integers(begin, len(order)))])}
    profiled_runs: list[int] = []
    for program in set(order):
        earlier = [run for run in run_of[:begin] if run // 1000 == program]
        runs = earlier[len(earlier) - data.draw(st.integers(0, len(earlier))) :]
        runs += [run for run in truth if run // 1000 == program]
        profiled_runs += runs[: len(runs) - data.draw(st.integers(0, 3))]
    runs_with_call = sorted(set(profiled_runs) & set(truth))
    proven = data.draw(st.sets(st.sampled_from(runs_with_call)) if runs_with_call else st.just(set()))
    if not profiled_runs:
        return
    places = cpu_plane._places_by_count({run: truth[run] for run in proven}, np.unique(profiled_runs), len(truth))
    assert {run: truth.get(run) for run in places} == places
    if set(profiled_runs) == set(truth) and len(set(order)) == 1 and min(truth) in proven:
        assert places == truth


def test_between_known_calls_of_one_program_its_runs_are_counted(tmp_path):
    # The first and the last are held by their calls, the two between are not; nor are the runs of another program.
    plane = Caller().call(10, 5).op(12, run=41, line="python").call(20).call(30).call(40, 5)
    plane.op(42, run=44, line="python").op(60, run=42).op(70, run=43)
    plane.call(80).call(90).op(100, run=900)
    assert starts(tmp_path, plane) == [(12, 10), (42, 40), (60, 20), (70, 30), (100, None)]


def test_two_programs_of_one_name_in_turn_are_not_told_apart_but_what_is_left_of_one_is(tmp_path):
    plane = Caller().call(10, 5).op(12, run=41, line="python").call(20, 5).op(22, run=900, line="python")
    for start, run in ((60, 42), (70, 901)):
        plane.call(start - 30).op(start, run=run)
    assert starts(tmp_path, plane) == [(12, 10), (22, 20), (60, None), (70, None)]
    # A known call settles the other.
    plane.events, plane.lines = {}, {}
    plane.call(10, 5).op(12, run=41, line="python").call(20, 5).op(22, run=900, line="python")
    plane.call(30).call(40, 5).op(42, run=901, line="python").op(60, run=42)
    assert starts(tmp_path, plane) == [(12, 10), (22, 20), (42, 40), (60, 30)]


def test_a_count_that_lets_a_run_start_before_its_call_is_wrong_and_dropped(tmp_path):
    plane = Caller().call(5, 2).op(6, run=41, line="python").op(30, run=42).call(50)
    assert starts(tmp_path, plane) == [(6, 5), (30, None)]


def test_a_call_of_an_older_version_that_holds_another_counts_once(tmp_path):
    plane = Caller().call(2, 4).op(3, run=40, line="python")
    for start in (10, 30):
        plane.event("python", "PjitFunction(f)", start, 12)
        plane.event("python", "PjRtCpuExecutable::Execute", start + 1, 10)
        plane.event("python", "PjRtCpuExecutable::ExecuteHelper", start + 2, 8)
    assert starts(tmp_path, plane.op(60, run=41).op(70, run=42)) == [(3, 2), (60, 12), (70, 32)]


def test_a_function_called_inside_of_another_is_its_own(tmp_path):
    plane = Caller().event("python", "PjitFunction(outer)", 0, 50)
    for start, run, stats in ((5, 1, {}), (20, 2, {"line": "t/1"})):
        place = {"line": "python", **stats}
        plane.call(start, 4, function="_inner_").op(start + 1 if run == 1 else 70, run, module="jit__inner", **place)
        plane.event("python", HELPER, start + 6, 4)
        plane.op(start + 7 if run == 1 else 60, run, module="jit_outer", **place)
    assert starts(tmp_path, plane) == [(6, 5), (12, 11), (60, 26), (70, 20)]


def test_ids_do_not_collide_with_those_of_calls_that_have_one_or_of_another_window(tmp_path):
    plane = Caller().call(10, 5).op(12, run=41, line="python").event("python", "cuLaunchKernel", 1, 1, correlation_id=7)
    trace = read(write(tmp_path / "host.xplane.pb", plane.text()))
    assert trace.launches.sort_values("start_ps")["correlation_id"].tolist() == [7, 8]
    unix = 1_700_000_000 * 10**9
    trace = read(write(tmp_path / "host.xplane.pb", plane.text(line_stamp_ns=unix)))
    assert trace.launches.sort_values("start_ps")["correlation_id"].tolist() == [7, unix // 1000]


def test_a_copy_leads_back_to_the_call_that_asked_for_it(tmp_path):
    plane = Caller().event("python", "CopyToMemorySpace", 10, 8).record("python", 12, queue=1)
    plane.region("t/2", 20, 30, queue=1)
    assert starts(tmp_path, plane) == [(20, 10)]


def test_of_two_calls_that_wait_for_their_source_nothing_tells_which_a_copy_is(tmp_path):
    plane = Caller().event("python", "CopyToMemorySpace", 2, 1).event("python", "CopyToMemorySpace", 4, 1)
    for start, queue in ((10, 1), (30, 2)):
        plane.op(start, run=queue).event("t/1", "ThunkExecutor::Execute (wait for completion)", start + 5, 1)
        plane.record("t/1", start + 7, queue=queue).region("t/2", start + 8, start + 12, queue=queue)
    assert [row for row in starts(tmp_path, plane) if row[0] in (18, 38)] == [(18, None), (38, 4)]
