"""Phases under each other on one scale: which round is drawn, on which devices, how long, and what stands beside it."""

import numpy as np
import pytest

from tests.frames import events, spans, trace
from tests.report.figures.figure_parts import area, filled_boxes, words
from tracekit.report.figures.figure import figure
from tracekit.report.figures.phase_lanes import median_rounds
from tracekit.report.figures.selection import select
from tracekit.report.palette import LIGHT

MS = 10**9
# "alone" thrice, of 10, 30 and 20 ms, on gpu:0; "both" once, of 10 ms, of which gpu:1 collects for 5.
ROWS = events(
    ("gpu:0", "compute", 0, 10 * MS),
    ("gpu:0", "compute", 10 * MS, 40 * MS),
    ("gpu:0", "compute", 45 * MS, 60 * MS),
    ("gpu:0", "compute", 60 * MS, 70 * MS),
    ("gpu:1", "collective", 60 * MS, 65 * MS),
)
ALONE = ("alone", 0, 10 * MS), ("alone", 10 * MS, 40 * MS), ("alone", 40 * MS, 60 * MS)
GIVEN = trace(ROWS, spans(*ALONE, ("both", 60 * MS, 70 * MS)))


def tracks(drawn) -> dict[str, float]:
    """How long the track of each lane is, in ms."""
    return {patch.get_label(): patch.get_width() / MS for patch in drawn.axes[0].patches if " | " in patch.get_label()}


def test_each_phase_has_its_median_round_on_the_devices_that_worked_in_it():
    drawn = figure(GIVEN, "phases", width=16)
    assert tracks(drawn) == {"alone | gpu:0": 20, "both | gpu:0": 10, "both | gpu:1": 10}
    assert drawn.axes[0].get_xlim() == (0, 20 * MS)
    assert drawn.axes[0].get_xlabel() == "time since the start of the phase (ms)"
    boxes = filled_boxes(drawn.axes[0])
    assert (boxes[LIGHT["compute"]][:, :2] / MS).tolist() == [[0, 10], [5, 20]]
    assert (boxes[LIGHT["collective"]][:, :2] / MS).tolist() == [[0, 5]]


def test_wall_time_and_idle_share_stand_beside_each_phase():
    texts = words(figure(GIVEN, "phases"))
    # 5 of 20 ms on one device; 5 of 2 x 10 ms on two.
    assert [text for text in texts if text.endswith(" idle")] == ["20.00 ms · 25.0 % idle", "10.00 ms · 25.0 % idle"]
    assert texts[-1] == "Of several rounds of a phase, the one of median length is drawn."
    assert "test · Phases on one scale of time, from the first phase to the last" in texts


def test_copies_of_an_unknown_device_have_a_lane_and_no_idle_time():
    rows = events(("cpu:0", "compute", 0, 8 * MS), ("cpu:?", "memcpy", 0, MS), ("cpu:?", "memcpy", 20 * MS, 30 * MS))
    drawn = figure(trace(rows, spans(("a", 0, 10 * MS), ("away", 20 * MS, 30 * MS))), "phases")
    assert tracks(drawn) == {"a | cpu:0": 10, "a | cpu:?": 10, "away | cpu:?": 10}
    assert [text for text in words(drawn) if text.startswith("10.00 ms")] == ["10.00 ms · 20.0 % idle", "10.00 ms"]


def test_a_device_that_began_with_the_next_phase_did_not_work_in_the_one_before():
    rows = events(("gpu:0", "compute", 0, 14 * MS), ("gpu:1", "compute", 10 * MS, 20 * MS))
    drawn = figure(trace(rows, spans(("a", 0, 10 * MS), ("b", 10 * MS, 20 * MS))), "phases")
    assert tracks(drawn) == {"a | gpu:0": 14, "b | gpu:0": 10, "b | gpu:1": 10}


def test_a_column_of_a_paper_has_the_names_and_the_walls_too():
    texts = words(figure(GIVEN, "phases", width=3.3))
    assert [text for text in texts if text in ("alone", "both")] == ["alone", "both"]
    assert [text for text in texts if text.startswith("20.00 ms")]


def test_of_two_rounds_the_shorter_is_drawn_and_work_that_ran_on_counts():
    rows = events(("gpu:0", "compute", 0, 30), ("gpu:0", "compute", 40, 60))
    given = trace(rows, spans(("a", 0, 10), ("a", 40, 60)))
    assert {name: (each.window.tolist(), each.n) for name, each in median_rounds(select(given)).items()} == {
        "a": ([[40, 60]], 2)
    }
    given = trace(rows[:1], spans(("a", 0, 10)))
    assert [each.length_ps for each in median_rounds(select(given)).values()] == [30]


@pytest.mark.parametrize(
    ("part", "lanes"),
    [
        ({"phase": "both"}, {"both | gpu:0": 10, "both | gpu:1": 10}),
        ({"start": 60 * MS}, {"both | gpu:0": 10, "both | gpu:1": 10}),
    ],
)
def test_a_part_of_the_trace_shows_the_phases_that_lie_in_it(part, lanes):
    assert tracks(figure(GIVEN, "phases", **part)) == lanes


def test_an_annotation_can_stand_for_a_phase():
    unmarked = spans(("mine", 0, 40 * MS))
    given = trace(ROWS, unmarked.assign(tracekit=unmarked["tracekit"].cat.set_categories(["step"])))
    assert tracks(figure(given, "phases", phase="mine")) == {"mine | gpu:0": 40}


@pytest.mark.parametrize(
    ("given", "part", "sentence"),
    [
        (trace(ROWS), {}, "The trace marks no phases."),
        (GIVEN, {"start": 1, "end": 2}, "No phase lies inside what is selected."),
        (trace(ROWS, spans(("late", 80 * MS, 90 * MS))), {}, "No device worked in any phase."),
    ],
)
def test_nothing_to_draw_is_said_in_a_sentence(given, part, sentence):
    assert sentence in words(figure(given, "phases", **part))


def test_a_lane_of_many_short_events_is_filled_to_its_busy_share():
    n = 100_000
    start = np.arange(n) * 100
    rows = events(*[("gpu:0", "compute", int(at), int(at) + 25) for at in start[:2]])
    rows = rows.loc[np.zeros(n, int)].reset_index(drop=True).assign(start_ps=start, end_ps=start + 25)
    drawn = figure(trace(rows, spans(("a", 0, n * 100))), "phases")
    boxes = filled_boxes(drawn.axes[0])[LIGHT["compute"]]
    (track,) = [patch for patch in drawn.axes[0].patches if patch.get_label() == "a | gpu:0"]
    assert area(boxes) == pytest.approx(0.25 * track.get_width() * track.get_height(), rel=1e-6)
