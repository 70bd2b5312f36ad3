"""Which framework wrote a program and what it does already, each with a trace that shows it and one that does not."""

from pathlib import Path

import pytest

from tests.frames import events
from tests.launch_frames import calls, host_spans, work
from tests.stepped import annotations
from tests.stepped import work as launched
from tracekit.analysis.overlap import partition
from tracekit.analysis.program import framework_by, graphs_turned_off, in_loops, program
from tracekit.columns import frame
from tracekit.readers import read
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import OP_COLUMNS, Trace
from tracekit.vocabulary.frameworks import Practice

DATA = Path(__file__).parents[1] / "data"
ROW = {"device": "gpu:0", "start": 0, "end": 9}


def framework(*rows, operations=(), **parts) -> tuple[str, str]:
    ops = frame(OP_COLUMNS, {"framework_op": list(operations)})
    return framework_by(timeline_of(Trace(work(*(ROW | row for row in rows)), ops=ops, **parts)))


def test_the_format_tells_the_framework_where_only_one_has_it():
    assert framework({}, format="kineto") == ("PyTorch", "the format kineto")
    assert framework({}, format="mxnet") == ("MXNet", "the format mxnet")
    assert framework({}, format="nsys") == framework({}, format="xplane") == framework({}) == ("", "")


def test_names_tell_the_framework_those_of_programs_before_all_others():
    spans = host_spans(("MXNDArrayWaitAll", 0, 1))
    assert framework({"module": "jit_f"}, operations=["aten::mul"], spans=spans) == ("JAX", "the program jit_f")
    assert framework({}, operations=["aten::mul"], spans=spans) == ("PyTorch", "the operation aten::mul")
    assert framework({"name": "void tensorflow::k()"}, spans=spans) == ("MXNet", "the host event MXNDArrayWaitAll")
    assert framework({"name": "void tensorflow::k()"}) == ("TensorFlow", "the kernel void tensorflow::k()")
    assert framework({"module": "reactant_fn"}) == ("", "")


def test_of_names_of_several_frameworks_most_decide():
    spans = host_spans(("aten::mul", 0, 1), ("PjitFunction(f)", 1, 2), ("PjitFunction(g)", 2, 3))
    assert framework({}, spans=spans)[0] == "JAX"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("two-cpu-devices-jax0.12.0.xplane.pb", "JAX"),
        ("jax_two_cpu_devices.trace.json.gz", "JAX"),
        ("kineto-rank1.pt.trace.json", "PyTorch"),
        ("mxnet_two_contexts_naive.json.gz", "MXNet"),
    ],
)
def test_the_traces_of_real_profilers_name_their_framework(file, expected):
    assert framework_by(timeline_of(read(DATA / file)))[0] == expected


def does(trace: Trace) -> dict[str, str]:
    return program(timeline_of(trace), partition(trace.events)).does


def steps_of(*runs: int) -> Trace:
    """Three steps of 100 on two devices, each with executions of one program of these numbers a step."""
    rows = [
        {"device": f"cpu:{device}", "start": 100 * step + 10 * at, "end": 100 * step + 10 * at + 9}
        | {"id": None, "run": 100 * step + run, "module": "jit_f"}
        for step in range(3)
        for device in range(2)
        for at, run in enumerate(runs)
    ]
    marks = annotations(*(("train", step, 100 * step, 100 * step + 99) for step in range(3)))
    return Trace(work(*rows), spans=marks)


def test_a_step_is_one_program_if_each_device_executes_one():
    assert does(steps_of(0)) == {Practice.ONE_PROGRAM: "one execution in each of 3 steps"}
    assert does(steps_of(0, 0)) == {Practice.ONE_PROGRAM: "one execution in each of 3 steps"}
    assert does(steps_of(0, 1)) == {}


@pytest.mark.parametrize(("calls_a_step", "expected"), [(1, True), (2, False), (0, False)])
def test_without_numbers_of_executions_the_calls_of_jitted_functions_tell_it(calls_a_step, expected):
    table, launches = launched(
        *(("gpu:0", "compute", 100 * step + 10, 100 * step + 90, 100 * step) for step in range(5))
    )
    marks = [("train", step, 100 * step, 100 * step + 99) for step in range(5)]
    called = [
        ("PjitFunction(f)", None, 100 * step + at, 100 * step + at + 1)
        for step in range(5)
        for at in range(calls_a_step)
    ]
    trace = Trace(table, launches=launches, spans=annotations(*marks, *called))
    assert (Practice.ONE_PROGRAM in does(trace)) is expected


def test_a_call_of_a_jitted_function_that_is_written_twice_is_one():
    """As jax 0.11 does: of two spans of one call, the second lies in the first."""
    table, launches = launched(*(("gpu:0", "compute", 100 * at + 10, 100 * at + 90, 100 * at) for at in range(3)))
    marks = [("train", step, 100 * step, 100 * step + 99) for step in range(3)]
    twice = [("PjitFunction(f)", None, 100 * at + more, 100 * at + 9 - more) for at in range(3) for more in (0, 1)]
    trace = Trace(table, launches=launches, spans=annotations(*marks, *twice))
    assert Practice.ONE_PROGRAM in does(trace)


def test_without_steps_it_is_not_known_whether_a_step_is_one_program():
    assert does(Trace(work(ROW | {"run": 1, "module": "jit_f"}))) == {}


def test_launches_in_turns_of_a_loop_are_known_on_their_thread():
    spans = host_spans(("while.5", 0, 100), ("[iter=0]", 10, 30), ("[iter=1]", 30, 50), ("[iter=2]", 10, 90, "other"))
    launches = calls((0, 5, 6), (1, 10, 40), (2, 49, 51), (3, 50, 51), (4, 60, 61), (5, 60, 61, "other"))
    told = in_loops(timeline_of(Trace(work(ROW), launches=launches, spans=spans)))
    assert told.tolist() == [False, True, True, False, False, True]


@pytest.mark.parametrize(
    ("capture", "flag"),
    [
        ({"xla_flags": "--xla_a=1 --xla_gpu_enable_command_buffer="}, "--xla_gpu_enable_command_buffer="),
        ({"xla_flags": "--xla_gpu_enable_command_buffer= --xla_a=1"}, "--xla_gpu_enable_command_buffer="),
        ({"xla_flags": "--xla_gpu_enable_command_buffer= --xla_gpu_enable_command_buffer=FUSION"}, ""),
        ({"xla_flags": "--xla_gpu_enable_command_buffer=+WHILE"}, ""),
        ({"xla_flags": 3}, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_the_flags_of_the_capture_tell_that_graphs_are_turned_off(capture, flag):
    assert graphs_turned_off(timeline_of(Trace(work(ROW), capture=capture))) == flag


@pytest.mark.parametrize(
    ("graphs", "expected"), [(1, {}), (2, {Practice.GRAPHS: "graphs launch 50.0 % of the devices' work"})]
)
def test_graphs_are_used_where_they_launch_half_of_the_work(graphs, expected):
    names = ["cudaGraphLaunch"] * graphs + ["cudaLaunchKernel"] * (4 - graphs)
    rows = [{"device": "gpu:0", "start": 10 * at, "end": 10 * at + 9, "id": at} for at in range(4)]
    launches = calls(*((at, 10 * at, 10 * at + 1, "main", name) for at, name in enumerate(names)))
    assert does(Trace(work(*rows), launches=launches)) == expected


@pytest.mark.parametrize(("hidden", "expected"), [(9, set()), (10, {Practice.OVERLAP})])
def test_collectives_are_overlapped_from_a_tenth_of_their_time_on(hidden, expected):
    table = events(("gpu:0", "compute", 0, hidden), ("gpu:0", "collective", 0, 100))
    assert set(does(Trace(table))) == expected


def test_names_of_host_events_and_kernels_tell_what_the_program_does():
    spans = host_spans(("DistributedDataParallel.forward", 0, 1))
    assert does(Trace(work(ROW | {"name": "triton_poi_fused_add_0"}), spans=spans)) == {
        Practice.DDP: "the host event DistributedDataParallel.forward",
        Practice.COMPILE: "the kernel triton_poi_fused_add_0",
    }
    assert does(Trace(work(ROW), spans=host_spans(("forward", 0, 1)))) == {}
