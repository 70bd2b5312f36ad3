"""TPU planes, hand-made: asynchronous ops and their halves, categories, SparseCores, executions and their calls."""

from collections import defaultdict, deque

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.profiler import ProfileData

from tests import traces
from tests.readers.hlo import hlo_modules
from tests.readers.hlo.hlo_modules import needs_xla_parser
from tests.readers.xspaces import PlaneText, metadata_plane, write
from tracekit.readers import read
from tracekit.readers.xspace.tpu_plane import paired_halves


class Tpu(PlaneText):
    def __init__(self, name="/device:TPU:0") -> None:
        super().__init__(name)

    def op(self, text, start, duration, line="XLA Ops"):
        return self.event(line, text, start, duration)


def trace_of(tmp_path, *planes):
    text = "".join(plane if isinstance(plane, str) else plane.text() for plane in planes)
    return read(write(tmp_path / "h.xplane.pb", text))


def table(trace, *columns):
    events = trace.events[list(columns)].astype(object)
    return events.where(events.notna(), None).values.tolist()


def rows(tmp_path, plane, *columns):
    return table(trace_of(tmp_path, plane), *columns)


def test_an_async_copy_is_one_row_from_start_to_done_with_its_wait(tmp_path):
    plane = Tpu().op("%copy-start.2 = (f32[8]{0:S(5)}, f32[8]{0}, u32[]) copy-start(f32[8]{0} %p)", 0, 1)
    plane.op("%fusion.1 = f32[8]{0} fusion(f32[8]{0} %p), kind=kLoop", 1, 9)
    plane.op("%copy-done.5 = f32[8]{0:S(5)} copy-done((f32[8]{0:S(5)}, f32[8]{0}, u32[]) %copy-start.2)", 10, 4)
    columns = ("name", "kind", "direction", "bytes", "start_ps", "end_ps", "wait_ps")
    assert rows(tmp_path, plane, *columns) == [
        ["copy-start.2", "memcpy", "D2H", 32, 0, 14_000, 4_000],
        ["fusion.1", "compute", None, None, 1_000, 10_000, None],
    ]


def test_async_collectives_of_a_loop_are_paired_in_order_and_the_loop_is_no_row(tmp_path):
    plane = Tpu().op("%while.1 = (f32[]) while((f32[]) %t), condition=%c, body=%b", 0, 100)
    for start in (10, 50):
        plane.op(
            "%ag = (f32[4], f32[8]) all-gather-start(f32[4] %x), channel_id=2, replica_groups=[1,2]<=[2]", start, 1
        )
        plane.op("%ag.done = f32[8] all-gather-done((f32[4], f32[8]) %ag)", start + 20, 5)
    columns = ("kind", "start_ps", "end_ps", "wait_ps", "bytes", "dtype", "ranks", "group")
    assert rows(tmp_path, plane, *columns) == [
        ["collective", 10_000, 35_000, 5_000, 32, "f32", "0,1", "channel 2"],
        ["collective", 50_000, 75_000, 5_000, 32, "f32", "0,1", "channel 2"],
    ]


def test_halves_without_their_other_half_are_kept_as_seen_and_noted(tmp_path):
    plane = Tpu().op("%copy-done.1 = f32[8] copy-done((f32[8]) %copy-start.1)", 0, 4)
    plane.op("%copy-start.2 = (f32[8]) copy-start(f32[8] %p)", 9, 1)
    trace = trace_of(tmp_path, plane)
    assert table(trace, "start_ps", "end_ps", "wait_ps") == [[0, 4_000, 4_000], [9_000, 10_000, None]]
    assert "tpu:0: 1 `-done` ops without their `-start` and 1 `-start` ops without their `-done`" in trace.notes[0]


SLICE = "((s8[64]{0}), s8[16]{0:S(1)}, s32[]{:S(2)})"


def test_what_an_async_wrapper_runs_is_told_by_the_name_xla_gave_it(tmp_path):
    start = f"%slice-start.3 = {SLICE} async-start(s8[64]{{0}} %p), calls=%async_computation.1"
    plane = Tpu().op(start, 0, 1).describe(start, "slice-start.3", hlo_category="async-start")
    plane.op(f"%slice-done.9 = s8[16]{{0:S(1)}} async-done({SLICE} %slice-start.3)", 9, 2)
    columns = ("name", "kind", "known_by", "category", "direction", "bytes", "start_ps", "end_ps", "wait_ps")
    assert rows(tmp_path, plane, *columns) == [
        ["slice-start.3", "memcpy", "name", "slice-start", "D2D", 16, 0, 11_000, 2_000]
    ]


def test_an_update_is_a_part_of_its_pair(tmp_path):
    plane = Tpu().op(f"%slice-start = {SLICE} slice-start(s8[64]{{0}} %p)", 0, 1)
    plane.op(f"%slice-update = {SLICE} slice-update({SLICE} %slice-start)", 4, 1)
    plane.op(f"%x = s8[16]{{0:S(1)}} slice-done({SLICE} %slice-update)", 9, 2)
    assert rows(tmp_path, plane, "name", "known_by", "start_ps", "end_ps") == [["slice-start", "opcode", 0, 11_000]]


def test_what_a_sparse_core_runs_for_a_program_is_a_collective_if_it_is_called_one(tmp_path):
    shape = "((f32[8]{0}, token[]), f32[4]{0})"
    plane = Tpu().op(f"%reduce-scatter.5.call-start = {shape} call-start(f32[8]{{0}} %p), to_apply=%c", 0, 1)
    plane.op(f"%reduce-scatter.5.call-done = f32[4]{{0}} call-done({shape} %reduce-scatter.5.call-start)", 5, 3)
    plane.op("%call-start = ((), ()) call-start(), to_apply=%d", 20, 1)
    plane.op("%call-done = () call-done(((), ()) %call-start)", 25, 5)
    assert rows(tmp_path, plane, "kind", "known_by", "category", "bytes", "start_ps", "end_ps") == [
        ["collective", "name", "reduce-scatter-start", 32, 0, 8_000]
    ]


def test_a_wrapper_that_tells_nothing_computes_and_is_noted(tmp_path):
    plane = Tpu().op("%run.1 = ((f32[8]), f32[8]) async-start(f32[8] %p), calls=%c", 0, 1)
    trace = trace_of(tmp_path, plane.op("%done.1 = f32[8] async-done(((f32[8]), f32[8]) %run.1)", 5, 3))
    assert table(trace, "name", "kind") == [["run.1", "compute"], ["done.1", "compute"]]
    assert trace.notes == ("tpu:0: 2 halves of asynchronous ops do not say what they run: they count as compute.",)


@needs_xla_parser
def test_the_proto_of_the_program_tells_what_text_does_not(tmp_path):
    shape = "((f32[64,8]), f32[8,8], u32[])"
    texts = {
        "rs-start": f"%rs-start = {shape} async-start(f32[64,8] %x), calls=%wrapped_scatter",
        "rs-done": f"%rs-done = f32[8,8] async-done({shape} %rs-start)",
        "fusion.1": "%fusion.1 = f32[8,8] fusion(f32[8,8] %off-done), kind=kCustom, calls=%holds_sum",
        "copy_fusion": "%copy_fusion = f32[8,8] fusion(f32[8,8] %fusion.1), kind=kLoop, calls=%holds_none",
    }
    plane = Tpu()
    for at, (name, text) in enumerate(texts.items()):
        # Program ids are unsigned; beyond int63 a stat holds them as negative numbers.
        plane.op(text, 10 * at, 2).describe(text, name, program_id=12190760917235803885 - 2**64)
    module = hlo_modules.module().as_serialized_hlo_module_proto()
    trace = trace_of(tmp_path, plane, metadata_plane(jit_f_12190760917235803885=module))
    columns = ("name", "kind", "known_by", "category", "bytes", "ranks", "start_ps", "end_ps")
    assert table(trace, *columns) == [
        ["rs-start", "collective", "opcode", "reduce-scatter-start", 2048, "0,1,2,3,4,5,6,7", 0, 12_000],
        ["fusion.1", "collective", "opcode", "all-reduce", 256, "{{0,2,4,6},{1,3,5,7}}", 20_000, 22_000],
        ["copy_fusion", "compute", "opcode", "fusion", None, None, 30_000, 32_000],
    ]


def test_sends_and_receives_pair_without_a_start_and_with_the_host_they_are_copies(tmp_path):
    plane = Tpu().op("%send.1 = (f32[2], u32[], token[]) send(f32[2] %x, token[] %t), channel_id=4", 0, 1)
    plane.op("%send-done.1 = token[] send-done((f32[2], u32[], token[]) %send.1), channel_id=4", 5, 1)
    plane.op("%r = (f32[2], u32[], token[]) recv(token[] %t), channel_id=5, is_host_transfer=true", 10, 1)
    plane.op(
        "%d = (f32[2], token[]) recv-done((f32[2], u32[], token[]) %r), channel_id=5, is_host_transfer=true", 15, 1
    )
    assert rows(tmp_path, plane, "kind", "direction", "bytes", "start_ps", "end_ps") == [
        ["collective", None, 8, 0, 6_000],
        ["memcpy", "H2D", 8, 10_000, 16_000],
    ]


def test_a_done_whose_operand_came_through_a_loop_is_paired_by_its_channel(tmp_path):
    shape = "(f32[2], u32[], token[])"
    plane = Tpu()
    for at, channel in enumerate((4, 5)):
        plane.op(f"%recv.{at} = {shape} recv(token[] %t), channel_id={channel}", at, 0)
        plane.op(f"%recv-done.9{at} = (f32[2], token[]) recv-done({shape} %gte.{at}), channel_id={channel}", 10 + at, 1)
    assert rows(tmp_path, plane, "name", "start_ps", "end_ps") == [
        ["recv.0", 0, 11_000],
        ["recv.1", 1_000, 12_000],
    ]


def test_the_halves_of_one_execution_do_not_end_those_of_another(tmp_path):
    start_text = "%c = (f32[8], f32[8], u32[]) copy-start(f32[8] %p)"
    done_text = "%d = f32[8] copy-done((f32[8], f32[8], u32[]) %c)"
    plane = Tpu().op(start_text, 1, 1).op(start_text, 11, 1).op(done_text, 15, 2)
    plane.event("XLA Modules", "jit_f(7)", 0, 9, run_id=3).event("XLA Modules", "jit_f(7)", 10, 9, run_id=4)
    assert rows(tmp_path, plane, "start_ps", "end_ps", "hlo_module", "run_id") == [
        [1_000, 2_000, "jit_f", 3],
        [11_000, 17_000, "jit_f", 4],
    ]


def test_ops_in_flight_that_stand_as_halves_too_are_counted_once_and_others_are_used(tmp_path):
    start = "%c = (f32[8], f32[8], u32[]) copy-start(f32[8] %p)"
    plane = Tpu().op(start, 0, 1).op("%d = f32[8] copy-done((f32[8], f32[8], u32[]) %c)", 5, 2)
    plane.event("Async XLA Ops", start, 0, 7)
    other = "%c.2 = (f32[8]{0:S(5)}, f32[8], u32[]) copy-start(f32[8] %p)"
    plane.event("Async XLA Ops", other, 2, 9).describe(other, "async-copy", hlo_category="copy-start")
    assert rows(tmp_path, plane, "lane", "name", "direction", "start_ps", "end_ps") == [
        ["XLA Ops", "c", "D2D", 0, 7_000],
        ["Async XLA Ops", "c.2", "D2H", 2_000, 11_000],
    ]


@pytest.mark.parametrize(
    ("category", "text", "expected"),
    [
        ("all-reduce", "%psum.4 = f32[8] all-reduce(f32[8] %p), replica_groups={}", ["collective", None, "opcode"]),
        ("all-reduce", "psum.4", ["collective", None, "opcode"]),
        ("all-gather fusion", "%f = f32[8] fusion(f32[8] %p), kind=kCustom", ["collective", None, "opcode"]),
        ("all-reduce-scatter fusion", "fusion.7", ["collective", None, "opcode"]),
        ("host send", "send.3", ["memcpy", "D2H", "opcode"]),
        ("infeed", "%i = ((f32[8]), token[]) infeed(token[] %t)", ["memcpy", "H2D", "opcode"]),
        ("outfeed", "%o = token[] outfeed(f32[8] %x, token[] %t)", ["memcpy", "D2H", "opcode"]),
        ("data formatting", "%copy.1 = f32[8] copy(f32[8] %p)", ["compute", None, "opcode"]),
        ("data formatting", "%copy.1 = f32[8] copy(f32[8]{0:S(5)} %p)", ["memcpy", "H2D", "opcode"]),
        ("convolution fusion", "all_reduce_like_name", ["compute", None, "opcode"]),
        (None, "all-reduce-start.3", ["collective", None, "name"]),
        (None, "copy-start.3", ["memcpy", None, "name"]),
    ],
)
def test_the_category_and_the_text_stand_above_the_name(tmp_path, category, text, expected):
    plane = Tpu().op(text, 0, 4).describe(text, **({"hlo_category": category} if category else {}))
    assert rows(tmp_path, plane, "kind", "direction", "known_by") == [expected]


def test_a_megacore_fusion_only_encloses_what_its_cores_run(tmp_path):
    plane = Tpu().op("fusion.1", 0, 20).describe("fusion.1", hlo_category="megacore fusion")
    assert rows(tmp_path, plane.op("inner.2", 3, 5), "name", "start_ps", "end_ps") == [["inner.2", 3_000, 8_000]]


def test_sparse_cores_are_devices_of_their_own(tmp_path):
    reduce = "%ar = f32[8] all-reduce(f32[8] %p), replica_groups={{0,1}}"
    cores = [
        Tpu("/device:TPU:0 SparseCore 1").op(reduce, 5, 9, line="Sparse Core Ops").op("x", 0, 50, line="TEC 3"),
        Tpu("/device:TPU:0 SparseCore Test 1").op("gather.2", 6, 1, line="Sparse Core Ops"),
        Tpu("/device:TPU:0 SparseCore 2"),
    ]
    trace = trace_of(tmp_path, Tpu().op("fusion.1", 0, 20), *cores)
    assert table(trace, "device", "kind", "start_ps", "ranks") == [
        ["tpu:0", "compute", 0, None],
        ["tpu:0/sc:1", "collective", 5_000, "0,1"],
        ["tpu:0/sc-test:1", "compute", 6_000, None],
    ]
    assert trace.notes == (
        "No work was recorded on tpu:0/sc:2 (empty planes).",
        "SparseCores count as devices of their own, beside the TensorCore of their chip: tpu:0/sc:1, tpu:0/sc-test:1.",
    )


def test_programs_without_their_ops_are_noted(tmp_path):
    trace = trace_of(tmp_path, PlaneText("/device:TPU:0").event("XLA Modules", "jit_f(7)", 0, 9))
    assert len(trace.events) == 0
    assert trace.notes == ("tpu:0: 1 executions of programs were recorded, but none of their ops.",)


def test_ops_carry_what_their_metadata_tells_and_need_the_operands_of_their_text(tmp_path):
    texts = {
        "fusion.1": "%fusion.1 = f32[8]{0:T(8,128)} fusion(f32[8]{0:T(8,128)} %p), kind=kLoop, calls=%c",
        "copy-start.2": "%copy-start.2 = (f32[8]{0:S(5)}, f32[8]{0}, u32[]) copy-start(f32[8]{0} %fusion.1)",
        "copy-done.2": "%copy-done.2 = f32[8]{0:S(5)} copy-done((f32[8]{0:S(5)}, f32[8]{0}, u32[]) %copy-start.2)",
        "call.3": '%call.3 = f32[8] custom-call(f32[8] %copy-done.2, f32[8] %fusion.1), custom_call_target="k"',
    }
    facts = {
        "fusion.1": {"flops": 7, "model_flops": 9, "bytes_accessed": 64, "source": "/a.py:3", "tf_op": "jit(f)/add:"},
        "call.3": {"flops": 0, "model_flops": 5, "bytes_accessed": 0},
    }
    planes = []
    for chip, names in ((0, texts), (1, ("fusion.1",))):
        plane = Tpu(f"/device:TPU:{chip}").event("XLA Modules", "jit_f(77)", 0, 50)
        for at, name in enumerate(names):
            plane.op(texts[name], 5 * at, 2).describe(texts[name], name, program_id=77, **facts.get(name, {}))
        planes.append(plane)
    trace = trace_of(tmp_path, *planes)
    ops = trace.ops.astype(object).where(trace.ops.notna(), None)
    assert ops.values.tolist() == [
        ["jit_f(77)", "fusion.1", "fusion", "/a.py:3", "jit(f)/add", 7, 64],
        ["jit_f(77)", "copy-start.2", "copy-start", None, None, None, None],
        ["jit_f(77)", "call.3", "custom-call", None, None, 5, None],
    ]
    assert table(trace, "device", "op") == [["tpu:0", 0], ["tpu:0", 1], ["tpu:0", 2], ["tpu:1", 0]]
    assert trace.operands.values.tolist() == [[1, 0], [2, 1], [2, 0]]


def test_an_op_that_does_not_tell_its_program_is_of_the_one_that_ran_then(tmp_path):
    plane = Tpu().op("fusion.1", 0, 2).op("fusion.1", 20, 2).op("fusion.1", 40, 2)
    plane.event("XLA Modules", "jit_f(7)", 0, 9).event("XLA Modules", "jit_f(8)", 20, 9)
    trace = trace_of(tmp_path, plane)
    assert trace.ops["program"].astype(object).where(trace.ops["program"].notna(), None).tolist() == [
        "jit_f(7)",
        "jit_f(8)",
        None,
    ]
    assert table(trace, "op") == [[0], [1], [2]]


HALVES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.booleans()), max_size=14)


@given(HALVES)
def test_halves_are_paired_as_one_queue_for_each_op_would(rows):
    key, time, is_done = (
        np.array([row[at] for row in rows], kind) for at, kind in enumerate((np.int64, np.int64, bool))
    )
    open_starts, expected = defaultdict(deque), []
    for row in sorted(range(len(rows)), key=lambda at: (rows[at][1], rows[at][2], at)):
        if not is_done[row]:
            open_starts[key[row]].append(row)
        elif open_starts[key[row]]:
            expected.append((open_starts[key[row]].popleft(), row))
    starts, ends = paired_halves(key, time, is_done)
    assert sorted(zip(starts.tolist(), ends.tolist(), strict=True)) == sorted(expected)


EXECUTE, ISSUE = "tpu::System::Execute", "tpu::System::Execute=>IssueSequencedEvent"


def launches(tmp_path, *planes):
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
    assert launches(tmp_path, host, execution(tpu, 80, 5, _ct=12, _c=56)) == [
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
    assert launches(tmp_path, host, first, execution(second, 60, 6), sparse) == [
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
    for _, executions_of_chip in executions.groupby(level="device", observed=True):
        assert executions_of_chip["first"].is_monotonic_increasing
    # By jax's own reader: as many programs are queued as run.
    enqueues = [
        event.name
        for plane in ProfileData.from_file(str(path)).planes
        for line in plane.lines
        for event in line.events
        if event.name == "DoEnqueueProgram"
    ]
    assert len(enqueues) - len(trace.launches) == empty


def test_json_tells_launches_by_run_and_chip():
    trace = traces.trace("generated/tpu.trace.json.gz")
    rows = trace.events.merge(trace.launches, on="correlation_id", suffixes=("", "_of_call"), validate="many_to_one")
    assert len(rows) == len(trace.events)
    assert set(rows["name_of_call"]) == {"DoEnqueueProgram"}
    assert [note for note in trace.notes if "clocks" in note] == []
    # Both chips are asked 29 us and 21 us before they begin.
    starts = rows.groupby(["device", "run_id"], observed=True)[["start_ps", "start_ps_of_call"]].min()
    assert ((starts["start_ps"] - starts["start_ps_of_call"]) // 10**6).tolist() == [29] * 3 + [21] * 3


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
