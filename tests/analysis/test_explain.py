"""All reasons at once: of the whole trace, and of the stretches that are compared."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pandas as pd

import tracekit
from tests.frames import events, spans, trace
from tracekit.analysis.explain import _shared
from tracekit.columns import concat, frame
from tracekit.trace import SPAN_COLUMNS


def within(*rows: tuple) -> pd.DataFrame:
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


def test_reasons_are_of_the_whole_trace_or_of_the_stretches_that_count():
    whole = tracekit.explain(APART)
    assert whole.idle.devices.set_index("device")["idle_ps"].to_dict() == {"gpu:0": 110, "gpu:1": 110}
    inside = tracekit.explain(APART, within=within(("both", 200, 300)))
    assert inside.idle.devices.set_index("device")["idle_ps"].to_dict() == {"gpu:0": 10, "gpu:1": 10}
    assert inside.idle.devices["window_ps"].tolist() == [100, 100]
    assert inside.rows.start.tolist() == [200, 210]


def test_stretches_stand_for_steps_of_the_critical_path():
    found = tracekit.explain(APART, within=within(("both", 200, 300), ("both", 0, 100)))
    assert found.critical_path.steps[["name", "start_ps", "wall_ps"]].to_numpy().tolist() == [
        ["both", 0, 100],
        ["both", 200, 100],
    ]
    assert found.steps.lacking


def test_a_stretch_that_begins_inside_another_is_no_step_of_its_own():
    found = tracekit.explain(APART, within=within(("outer", 200, 300), ("inner", 250, 260)))
    assert found.critical_path.steps["name"].tolist() == ["outer"]


def stepped(*steps: tuple[int, int, int]):
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


def test_steps_that_are_annotated_inside_the_stretches_are_kept():
    found = tracekit.explain(stepped((0, 200, 250), (1, 250, 300)), within=within(("both", 200, 300)))
    assert found.steps.lacking == ""
    assert found.steps.table["step"].tolist() == [0, 1]
    assert found.critical_path.steps["step"].tolist() == [0, 1]


def test_steps_that_are_annotated_elsewhere_do_not_count():
    found = tracekit.explain(stepped((0, 0, 50), (1, 200, 250), (2, 250, 300)), within=within(("both", 200, 300)))
    assert found.steps.table["step"].tolist() == [1, 2]
    assert found.critical_path.steps["step"].tolist() == [1, 2]


def test_each_row_says_its_step_and_its_place_in_the_trace():
    ran = stepped((0, 0, 50), (1, 200, 250), (2, 250, 300))
    whole = tracekit.explain(ran)
    assert (whole.place.tolist(), whole.step.tolist(), whole.launch.tolist()) == ([0, 1, 2], [0, 1, 2], [-1] * 3)
    inside = tracekit.explain(ran, within=within(("both", 200, 300)))
    assert (inside.place.tolist(), inside.step.tolist(), inside.launch.tolist()) == ([1, 2], [0, 1], [-1] * 2)
    assert tracekit.explain(stepped((0, 0, 50)), within=within(("both", 200, 300))).step.tolist() == [-1, -1]


def test_a_row_cut_by_two_stretches_stands_twice_for_one_place():
    found = tracekit.explain(APART, within=within(("one", 90, 110), ("other", 80, 85)))
    assert found.rows.start.tolist() == [80, 90, 100]
    assert found.place.tolist() == [0, 0, 1]


def test_where_all_steps_are_annotated_elsewhere_the_stretches_stand_for_them():
    found = tracekit.explain(stepped((0, 0, 50), (1, 50, 100)), within=within(("both", 200, 300)))
    assert found.steps.lacking == "Its phases name the parts of this trace, not steps."
    assert found.critical_path.steps["name"].tolist() == ["both"]


def test_a_trace_without_device_work_has_no_reasons_and_says_why():
    found = tracekit.explain(trace(events()))
    lacking = [
        one.lacking
        for one in (
            found.steps,
            found.collectives,
            found.idle,
            found.launches,
            found.critical_path,
            found.offenders,
            found.bandwidth,
        )
    ]
    assert [one for one in lacking if not one.endswith(".")] == []


def test_what_is_shared_is_made_by_whoever_comes_first_and_once():
    made = []

    def make() -> str:
        made.append(threading.current_thread())
        return "made"

    with ThreadPoolExecutor(1) as beside:
        begun, go = threading.Event(), threading.Event()
        beside.submit(lambda: (begun.set(), go.wait()))
        begun.wait()
        waiting = _shared(beside, make)
        assert waiting() == "made"
        assert made == [threading.current_thread()]
        go.set()
    assert len(made) == 1
    with ThreadPoolExecutor(1) as beside:
        begun.clear()
        taken = _shared(beside, lambda: (begun.set(), make())[1])
        begun.wait()
        assert taken() == "made"
    assert len(made) == 2
    assert made[1] is not threading.current_thread()
