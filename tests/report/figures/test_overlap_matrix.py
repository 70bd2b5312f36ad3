"""The overlap matrix: both ratios of every pair, and no number where nothing is known."""

import numpy as np
import pytest

from tests.frames import events, trace
from tests.report.figures.figure_parts import filled_boxes, words
from tracekit.columns import concat
from tracekit.report.figures.figure import draw
from tracekit.report.figures.selection import select
from tracekit.report.palette import LIGHT
from tracekit.trace import EVENT_COLUMNS

# Busy times 50, 40, 20 of 100 ps; 0 & 1 share 20, 1 & 2 share 10, 0 & 2 nothing.
ROWS = events(
    ("gpu:0", "compute", 0, 50),
    ("gpu:1", "compute", 30, 70),
    ("gpu:2", "memcpy", 60, 70, "c", "H2D"),
    ("gpu:2", "compute", 90, 100),
)


def overlap(selection, **options):
    return draw(selection, "overlap", **options)


def matrix(figure) -> dict[tuple[int, int], str]:
    """The words of the cells by (row, column)."""
    return {
        (int(text.get_position()[1]), int(text.get_position()[0])): text.get_text() for text in figure.axes[0].texts
    }


def test_the_cells_hold_both_ratios_and_the_diagonal_the_busy_share():
    figure = overlap(select(trace(ROWS)))
    assert matrix(figure) == {
        (0, 0): "50.0 %",
        (1, 1): "40.0 %",
        (2, 2): "20.0 %",
        (1, 0): "50.0 %",
        (2, 0): "0 %",
        (2, 1): "50.0 %",
        (0, 1): "28.6 %",
        (0, 2): "0 %",
        (1, 2): "20.0 %",
    }
    assert words(figure)[:3] == [
        "Devices overlap pairwise for 0 % (gpu:0 and gpu:2) to 50.0 %",
        "(gpu:1 and gpu:2) of the shorter busy time",
        "test · Devices busy at the same time",
    ]
    assert words(figure)[3:9] == ["gpu:0", "gpu:0", "gpu:1", "gpu:1", "gpu:2", "gpu:2"]


def test_the_shade_of_a_cell_grows_with_its_ratio():
    by_colour = filled_boxes(overlap(select(trace(ROWS))).axes[0])
    diagonal = by_colour.pop(LIGHT["idle"])
    assert np.floor(diagonal[:, [0, 2]]).tolist() == [[0, 0], [1, 1], [2, 2]]
    darkness = {
        (int(box[2]), int(box[0])): 765 - sum(int(colour[at : at + 2], 16) for at in (1, 3, 5))
        for colour, boxes in by_colour.items()
        for box in boxes
    }
    assert len(darkness) == 6
    assert darkness[1, 0] == darkness[2, 1] > darkness[0, 1] > darkness[1, 2] > darkness[2, 0] == darkness[0, 2]
    assert LIGHT["band"] in by_colour


def test_two_devices_are_told_in_a_sentence_and_a_small_figure():
    figure = overlap(select(trace(events(("gpu:0", "compute", 0, 8), ("gpu:1", "compute", 4, 9)))))
    assert words(figure)[0] == ("gpu:0 and gpu:1 overlap for 80.0 % of the shorter busy time")
    assert figure.get_size_inches()[0] < 8


def test_a_device_that_did_nothing_has_a_dash_and_the_note_says_so():
    figure = overlap(select(trace(ROWS), start_ps=0, end_ps=50))
    assert matrix(figure)[2, 0] == matrix(figure)[1, 2] == "-"
    assert matrix(figure)[2, 2] == "0 %"
    assert "A dash (-): a device was idle throughout the window." in words(figure)


def test_devices_on_other_clocks_have_a_question_mark_and_the_note_says_why():
    host_a = events(("a/gpu:0", "compute", 5, 25), ("a/gpu:1", "compute", 5, 15), host="a", clock="a")
    host_b = events(("b/gpu:0", "compute", 5, 25), host="b", clock="b")
    figure = overlap(select(trace(concat(EVENT_COLUMNS, [host_a, host_b]))))
    assert [matrix(figure)[at] for at in ((1, 0), (0, 1), (2, 0), (1, 2))] == ["100 %", "50.0 %", "?", "?"]
    assert "A question mark (?): host clocks are not aligned, so the overlap of these devices is unknown." in words(
        figure
    )


@pytest.mark.parametrize(("devices", "percent"), [(16, "33"), (128, None)])
def test_many_devices_have_whole_percent_or_only_colours(devices, percent):
    rows = [(f"gpu:{i}", "compute", 0, 300) for i in range(devices)]
    rows[1] = ("gpu:1", "compute", 200, 1000)
    figure = overlap(select(trace(events(*rows, ("gpu:0", "compute", 999, 1000)))))
    cells = matrix(figure)
    assert cells.get((2, 1)) == percent
    if percent:
        # One of 1000 shared, of 301: 33.55 %; the other pairs are exactly together but for that.
        assert cells[1, 0] == "34"
        assert cells[3, 2] == "100"
        assert cells[0, 2] == ">99"
    figure.canvas.draw()
    names = [text.get_window_extent() for text in figure.texts if text.get_text().startswith("gpu:")]
    assert not any(a.overlaps(b) for i, a in enumerate(names) for b in names[:i])
    assert figure.get_size_inches()[1] < 12


def test_one_device_has_no_other():
    texts = words(overlap(select(trace(events(("gpu:0", "compute", 0, 8))))))
    assert texts[-1] == "Only one device was busy, so there is nothing that overlaps."
