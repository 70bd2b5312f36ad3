"""All analyses at once, of the whole trace and of the windows that are compared; and the threads they run on."""

import threading
import time

import pandas as pd
import pytest

import tracekit
from tests.frames import events, spans, trace
from tracekit.analysis.explain import ANALYSES, Task, explanation, run, tasks
from tracekit.columns import concat, frame
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import SPAN_COLUMNS


def windows(*rows: tuple) -> pd.DataFrame:
    return pd.DataFrame([("", *row) for row in rows], columns=["clock", "name", "start_ps", "end_ps"])


# Alone, each device leaves the other idle; together they are idle for 10 of 100 each.
APART = trace(
    events(
        ("gpu:0", "compute", 0, 100),
        ("gpu:1", "compute", 100, 200),
        ("gpu:0", "compute", 200, 290),
        ("gpu:1", "compute", 210, 300),
    )
)


def test_the_explanation_is_of_the_whole_trace_or_of_the_windows_that_count():
    whole = tracekit.explain(APART)
    assert whole.idle.devices.set_index("device")["idle_ps"].to_dict() == {"gpu:0": 110, "gpu:1": 110}
    inside = tracekit.explain(APART, windows=windows(("both", 200, 300)))
    assert inside.idle.devices.set_index("device")["idle_ps"].to_dict() == {"gpu:0": 10, "gpu:1": 10}
    assert inside.idle.devices["window_ps"].tolist() == [100, 100]
    assert (whole.devices, whole.rows) == (2, 4)
    assert (inside.devices, inside.rows) == (2, 2)
    assert tracekit.explain(APART, windows=(0, 90)).devices == 1


def test_windows_stand_for_steps_of_the_critical_path():
    result = tracekit.explain(APART, windows=windows(("both", 200, 300), ("both", 0, 100)))
    assert result.critical_path.steps[["name", "start_ps", "wall_ps"]].to_numpy().tolist() == [
        ["both", 0, 100],
        ["both", 200, 100],
    ]
    assert result.steps.lacking


def test_a_stretch_that_begins_inside_another_is_no_step_of_its_own():
    result = tracekit.explain(APART, windows=windows(("outer", 200, 300), ("inner", 250, 260)))
    assert result.critical_path.steps["name"].tolist() == ["outer"]


def trace_in_steps(*steps: tuple[int, int, int]):
    """A trace of three rows of 50 ps, from 0, 200 and 250, with two phases and annotated steps (number, start, end)."""
    number, start, end = zip(*steps, strict=True)
    marks = frame(
        SPAN_COLUMNS,
        {
            "host": ["h"] * len(steps),
            "thread": ["main"] * len(steps),
            "name": ["train"] * len(steps),
            "start_ps": list(start),
            "end_ps": list(end),
            "step": pd.array(number, "Int64"),
        },
    )
    return trace(
        events(*[("gpu:0", "compute", at, at + 50) for at in (0, 200, 250)]),
        concat(SPAN_COLUMNS, [spans(("solo", 0, 100), ("both", 200, 300)), marks]),
    )


def test_steps_that_are_annotated_inside_the_windows_are_kept():
    result = tracekit.explain(trace_in_steps((0, 200, 250), (1, 250, 300)), windows=windows(("both", 200, 300)))
    assert result.steps.lacking == ""
    assert result.steps.table["step"].tolist() == [0, 1]
    assert result.critical_path.steps["step"].tolist() == [0, 1]


def test_steps_that_are_annotated_elsewhere_do_not_count():
    result = tracekit.explain(
        trace_in_steps((0, 0, 50), (1, 200, 250), (2, 250, 300)), windows=windows(("both", 200, 300))
    )
    assert result.steps.table["step"].tolist() == [1, 2]
    assert result.critical_path.steps["step"].tolist() == [1, 2]


def test_where_all_steps_are_annotated_elsewhere_the_windows_stand_for_them():
    result = tracekit.explain(trace_in_steps((0, 0, 50), (1, 50, 100)), windows=windows(("both", 200, 300)))
    assert result.steps.lacking
    assert result.critical_path.steps["name"].tolist() == ["both"]


def test_a_trace_without_device_work_is_not_explained_and_it_is_said_why():
    result = tracekit.explain(trace(events()))
    lacking = [
        analysis.lacking
        for analysis in (
            result.steps,
            result.collectives,
            result.idle,
            result.launches,
            result.critical_path,
            result.offenders,
            result.bandwidth,
        )
    ]
    assert [reason for reason in lacking if not reason.endswith(".")] == []


def test_windows_in_which_nothing_ran_are_not_explained_and_it_is_said_why():
    result = tracekit.explain(APART, windows=(400, 500))
    assert (result.devices, result.rows) == (0, 0)
    assert [task.name for task in ANALYSES if not getattr(result, task.name).lacking] == ["completeness"]


def test_an_explanation_is_the_results_of_its_tasks():
    timeline = timeline_of(APART)
    results = run(tasks(timeline))
    fields = vars(explanation(timeline, results))
    assert fields.keys() == {"devices", "rows", *results}
    assert all(fields[name] is result for name, result in results.items())


def noting_task(order: list[str], name: str, *needs: str) -> Task:
    """A task that notes its name and gives it with the results that it was given."""
    return Task(name, lambda *results: order.append(name) or (name, *results), needs)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_task_follows_what_it_needs_and_is_given_it_in_the_order_it_names(threads):
    order: list[str] = []
    todo = [
        noting_task(order, "c", "b", "a"),
        noting_task(order, "b", "a"),
        noting_task(order, "d", "c"),
        noting_task(order, "a"),
    ]
    a, b = ("a",), ("b", ("a",))
    c = ("c", b, a)
    assert run(todo, threads) == {"a": a, "b": b, "c": c, "d": ("d", c)}
    assert order == ["a", "b", "c", "d"]


def test_a_task_stands_behind_what_it_is_after_and_is_not_given_it():
    order: list[str] = []
    late = noting_task(order, "late")._replace(after=("early",))
    assert run([late, noting_task(order, "early")], threads=2)["late"] == ("late",)
    assert order == ["early", "late"]
    with pytest.raises(ValueError, match="late needs early"):
        run([late])


def test_a_free_thread_takes_the_first_task_whose_needs_are_met():
    order: list[str] = []
    todo = [
        noting_task(order, "late", "b"),
        noting_task(order, "a"),
        noting_task(order, "b"),
        noting_task(order, "c"),
        noting_task(order, "d", "a"),
    ]
    run(todo, threads=1)
    assert order == ["a", "b", "late", "c", "d"]


def test_one_thread_does_all_on_the_thread_that_asks():
    results = run([Task(name, threading.current_thread) for name in "abc"], threads=1)
    assert set(results.values()) == {threading.current_thread()}


def test_two_threads_are_at_two_tasks_at_once():
    both = threading.Barrier(2, timeout=30)
    results = run([Task("a", both.wait), Task("b", both.wait), Task("c", threading.current_thread)], threads=2)
    assert sorted([results["a"], results["b"]]) == [0, 1]


def test_without_tasks_there_are_no_results():
    assert run([]) == run([], threads=1) == {}


@pytest.mark.parametrize("on_this_thread", [False, True])
def test_what_a_task_raises_is_raised_once_the_others_that_had_begun_are_done(on_this_thread):
    both, failed, order = threading.Barrier(2, timeout=30), threading.Event(), []
    me = threading.current_thread()

    def work() -> None:
        both.wait()
        if (threading.current_thread() is me) is on_this_thread:
            failed.set()
            raise ValueError("the window is empty")
        failed.wait(30)
        time.sleep(0.05)  # by now the other thread has given up, unless it waits
        order.append("slow")

    todo = [
        Task("one", work),
        Task("other", work),
        noting_task(order, "never begun"),
        noting_task(order, "nor this", "one", "other"),
    ]
    with pytest.raises(ValueError, match="the window is empty"):
        run(todo, threads=2)
    assert order == ["slow"]


def test_with_one_thread_what_a_task_raises_ends_it():
    order: list[str] = []
    todo = [
        noting_task(order, "a"),
        Task("b", lambda a: 1 // 0, ("a",)),
        noting_task(order, "c", "b"),
        noting_task(order, "d"),
    ]
    with pytest.raises(ZeroDivisionError):
        run(todo, threads=1)
    assert order == ["a"]


def test_every_analysis_needs_only_what_stands_before_it():
    before: set[str] = set()
    for task in ANALYSES:
        assert {*task.needs, *task.after} <= before
        before.add(task.name)
