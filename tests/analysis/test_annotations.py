"""The phases, steps and annotations of a trace by name, and what a runtime writes beside them."""

import pandas as pd
import pytest

from tests.frames import events, trace
from tests.stepped import annotations as spans_of
from tests.stepped import join
from tests.traces import DATA
from tracekit.analysis.annotations import ANNOTATION_COLUMNS, annotations
from tracekit.columns import frame
from tracekit.readers import read
from tracekit.report.part import choose
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import Trace

ROWS = events(("gpu:0", "compute", 10, 40), ("gpu:0", "compute", 50, 90))
STEPS = spans_of(("train", 0, 0, 40), ("train", 1, 40, 100))


def rows_of(source) -> list[tuple]:
    """(kind, name, count, total, median) of each."""
    table = annotations(source)
    assert list(table.columns) == list(ANNOTATION_COLUMNS)
    return [tuple(row) for row in table[["kind", "name", "count", "total_ps", "median_ps"]].to_numpy().tolist()]


def with_phase(marks: pd.DataFrame, *names: str) -> pd.DataFrame:
    """The spans, those of `names` as phases."""
    stat = ["phase" if name in names else None for name in marks["name"]]
    return marks.assign(tracekit=pd.Categorical(stat, categories=["phase"]))


def test_phases_come_by_their_start_then_steps_then_annotations_by_their_time():
    marks = join(
        [
            with_phase(
                spans_of(("load", None, 1, 3), ("load", None, 41, 45), ("z", None, 60, 70), ("a", None, 80, 99)),
                "z",
                "a",
            ),
            spans_of(("forward", None, 4, 30)),
            STEPS,
        ]
    )
    assert rows_of(trace(ROWS, marks)) == [
        ("phase", "z", 1, 10, 10),
        ("phase", "a", 1, 19, 19),
        ("step", "train", 2, 100, 50),
        ("annotation", "forward", 1, 26, 26),
        ("annotation", "load", 2, 6, 3),
    ]


def test_the_calls_of_an_operator_that_emit_nvtx_numbered_are_one_annotation_and_one_phase():
    names = "aten::mm, op_id = 7", "aten::mm, seq = 3, op_id = 8", "load, batch"
    marks = spans_of(*((name, None, at * 20, at * 20 + 9) for at, name in enumerate(names)))
    made = Trace(ROWS, marks, source="job.sqlite", format="nsys")
    assert rows_of(made) == [("annotation", "aten::mm", 2, 18, 9), ("annotation", "load, batch", 1, 9, 9)]
    times = {name: choose(timeline_of(made), phase=name).windows[""].tolist() for name in ("aten::mm", *names)}
    assert [len(rounds) for rounds in times.values()] == [2, 1, 1, 1]


def test_host_and_thread_are_null_where_there_are_several():
    marks = join(
        [
            spans_of(("one", None, 0, 9), ("both", None, 10, 19)),
            spans_of(("both", None, 10, 19), thread="loader"),
            spans_of(("both", None, 10, 19), host="other"),
        ]
    )
    table = annotations(trace(ROWS, marks)).set_index("name")
    assert table.loc["one", ["host", "thread", "threads"]].tolist() == ["h", "python", 1]
    assert table.loc["both", ["host", "thread"]].isna().all()
    assert table.loc["both", ["threads", "count"]].tolist() == [3, 3]


def test_the_steps_are_those_that_a_part_of_the_trace_can_be_asked_for_by():
    made = trace(ROWS, STEPS)
    (row,) = annotations(made).to_dict("records")
    assert (row["first_step"], row["last_step"], row["thread"], row["threads"]) == (0, 1, "python", 1)
    timeline = timeline_of(made)
    assert [choose(timeline, step=number).name for number in (0, 1)] == ["step 0", "step 1"]


def test_steps_that_only_devices_show_have_no_thread():
    rows = events(*(("gpu:0", "compute", at * 10, at * 10 + 9) for at in range(4)))
    rows = rows.assign(hlo_module=pd.Categorical(["jit_f"] * 4), run_id=pd.array(range(4), "Int64"))
    (row,) = annotations(Trace(rows, source="traces/test", format="xplane")).to_dict("records")
    assert (row["kind"], row["name"], row["count"], row["threads"]) == ("step", "jit_f", 4, 0)


@pytest.mark.parametrize(
    ("name", "thread", "form", "kind"),
    [
        ("forward", "python", "xplane", "annotation"),
        ("data_load", "main/31", "xplane", "annotation"),
        ("PjitFunction(f)", "python", "xplane", "runtime"),
        ("$api.py:3154 block_until_ready", "python", "xplane", "runtime"),
        ("CommonPjRtClient::CreateOutputs", "python", "xplane", "runtime"),
        ("backend_compile_and_load", "python", "xplane", "runtime"),
        ("anything", "tf_XLAEigen/123", "xplane", "runtime"),
        ("D2H Copy From Staging Buffer", "python", "xplane", "runtime"),
        ("ThenExecuteCallback:RecordEvent", "python", "xplane", "runtime"),
        ("anything", "pjrt_async_work_runner/7", "xplane", "runtime"),
        ("my::range", "thread 1 (python3)", "kineto", "annotation"),
        ("## wait() ##", "thread 1 (python3)", "kineto", "annotation"),
    ],
)
def test_what_xla_writes_beside_annotations_is_told_apart(name, thread, form, kind):
    made = Trace(ROWS, spans_of((name, None, 0, 9), thread=thread), source="traces/test", format=form)
    assert annotations(made)["kind"].tolist() == [kind]


def test_what_lies_inside_a_compiler_is_one_of_its_passes():
    """Also of two compilations, and not what merely begins in one."""
    marks = spans_of(
        ("backend_compile", None, 0, 20),
        ("copy-insertion", None, 5, 10),
        ("backend_compile", None, 40, 60),
        ("copy-insertion", None, 41, 60),
        ("across", None, 15, 25),
        ("between", None, 25, 30),
    )
    elsewhere = spans_of(("beside", None, 5, 10), thread="other")
    table = annotations(trace(ROWS, join([marks, elsewhere]))).set_index("name")["kind"]
    assert table[table == "annotation"].index.tolist() == ["across", "beside", "between"]


def test_what_lies_inside_the_executor_of_a_program_is_the_runtimes():
    marks = spans_of(
        ("PjRtCpuExecutable::ExecuteHelper", None, 0, 20),
        ("command_buffer_5", None, 5, 10),
        ("after", None, 25, 30),
    )
    table = annotations(trace(ROWS, marks)).set_index("name")["kind"]
    assert table[table == "annotation"].index.tolist() == ["after"]


def test_a_trace_without_spans_or_work_has_none():
    assert annotations(Trace(events())).equals(frame(ANNOTATION_COLUMNS))


def test_a_captured_script_shows_the_names_that_it_gave_first():
    """tests/data/two_cpu_devices.py marks five phases, and steps in the last; of the runtime there are hundreds."""
    table = annotations(read(DATA / "two-cpu-devices-jax0.12.0.xplane.pb"))
    assert (table["kind"] == "runtime").sum() > 50
    first = table[table["kind"] != "runtime"]
    assert first[["kind", "name"]].to_numpy().tolist() == [
        *(["phase", name] for name in ("device 0", "device 1", "both", "copies", "sums")),
        ["step", "train"],
    ]
