import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.fleet_traces import with_stragglers
from tests.frames import events, trace
from tests.report.figures.figure_parts import words
from tracekit.analysis.fleet import MEASURES
from tracekit.report.build import analyse
from tracekit.report.figures.figure import figure
from tracekit.report.figures.fleet_map import furthest
from tracekit.report.figures.selection import select
from tracekit.timeline.timeline import timeline_of

SLOW = 21


@pytest.fixture(scope="module")
def fleet():
    return timeline_of(with_stragglers(40, 12, {SLOW: 1.3}).trace)


def pictures(drawing) -> list[np.ndarray]:
    """The cells of each panel as colours, shape (lines, columns, 3)."""
    return [axes.images[0].get_array() for axes in drawing.axes if axes.images][::2]


def test_each_measure_has_a_panel_with_a_line_for_each_rank_and_a_column_for_each_step(fleet):
    drawing = figure(fleet, "fleet")
    assert [cells.shape for cells in pictures(drawing)] == [(40, 12, 3)] * len(MEASURES)
    step, compute, exposed, _ = pictures(drawing)
    # The slow rank computes longest, waits least, and has the same step as all others.
    assert compute[SLOW, :, :2].min() > 0.6 > np.delete(compute, SLOW, axis=0).max()
    assert exposed[SLOW].max() < 0.4 < np.delete(exposed, SLOW, axis=0)[:, :, 1].min()
    assert (step == step[0]).all()


def test_the_title_is_what_is_to_be_said_first_and_the_hosts_stand_beside_each_panel(fleet):
    said = words(figure(fleet, "fleet"))
    assert said[0].startswith("Costliest straggler: host0002/gpu:5, last in 12 of 12 collectives")
    assert "40 ranks, 12 steps; each panel has colours of its own." in said
    assert [said.count(f"host000{host}") for host in range(5)] == [len(MEASURES)] * 5
    values = analyse(fleet).fleet.matrix("compute_ps")
    assert f"{values.max() / 1e9:.2f} ms" in said
    assert f"{values.min() / 1e6:.1f} µs" in said


@st.composite
def matrices(draw):
    ranks, steps = draw(st.integers(1, 12)), draw(st.integers(1, 8))
    elements = st.one_of(st.just(float("nan")), st.integers(0, 50).map(float))
    values = draw(arrays(np.float64, (ranks, steps), elements=elements))
    return values, draw(st.integers(1, ranks)), draw(st.integers(1, steps))


@given(matrices())
def test_a_cell_of_several_shows_one_that_is_furthest_from_the_median_of_its_step(case):
    values, lines, columns = case
    known = [column[~np.isnan(column)] for column in values.T]
    off = np.abs(values - [np.median(column) if len(column) else 0 for column in known])
    ranks, steps = values.shape
    for (line, column), value in np.ndenumerate(furthest(values, lines, columns)):
        shared = (
            slice(line * ranks // lines, (line + 1) * ranks // lines),
            slice(column * steps // columns, (column + 1) * steps // columns),
        )
        if np.isnan(value):
            assert np.isnan(values[shared]).all()
        else:
            assert np.nanmax(off[shared]) in off[shared][values[shared] == value]


def test_of_more_ranks_than_lines_a_note_says_how_many_share_one_and_the_slow_one_is_seen():
    drawing = figure(with_stragglers(600, 8, {SLOW: 1.3}).trace, "fleet")
    compute = pictures(drawing)[1]
    assert compute.shape == (256, 8, 3)
    line = next(at for at in range(256) if at * 600 // 256 <= SLOW < (at + 1) * 600 // 256)
    assert compute[line, :, :2].min() > 0.6 > np.delete(compute, line, axis=0).max()
    assert any(
        text.startswith("Up to 3 ranks share a line: the one furthest from the median of its step is shown.")
        for text in words(drawing)
    )


def test_without_steps_a_sentence_says_why():
    drawing = figure(trace(events(("gpu:0", "compute", 0, 10))), "fleet")
    assert pictures(drawing) == []
    assert any("step" in text for text in words(drawing)[1:])


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_fleet_gives_the_same_bytes(fleet, suffix):
    assert figure(fleet, "fleet").encoded(suffix) == figure(fleet, "fleet").encoded(suffix)


def test_the_timeline_of_a_fleet_draws_the_devices_that_stand_for_all_and_says_so(fleet):
    report = analyse(fleet)
    for selection in (select(fleet), select(fleet, report)):
        assert selection.drawn == report.fleet.drawn
    said = words(figure(fleet, "gantt"))
    assert [text for text in said if "/gpu:" in text and " " not in text] == list(report.fleet.drawn)
    assert f"{len(report.fleet.drawn)} of 40 devices are drawn, and stand for all." in said
    assert select(with_stragglers(16, 4, {}).trace).drawn is None


def test_who_asks_for_many_devices_sees_all_of_them(fleet):
    asked = [f"host000{host}/gpu:{gpu}" for host in range(3) for gpu in range(8)]
    said = words(figure(fleet, "gantt", devices=asked))
    assert [text for text in said if "/gpu:" in text and " " not in text] == asked


def test_of_more_devices_than_have_room_the_bars_stand_for_all_and_no_matrix_is_drawn():
    many = timeline_of(with_stragglers(304, 2, {SLOW: 1.3}).trace)
    bars = figure(many, "partition")
    drawn = select(many).drawn
    assert [text for text in words(bars) if "/gpu:" in text and " " not in text] == list(drawn)
    assert f"{len(drawn)} of 304 devices are drawn, and stand for all." in words(bars)
    assert "A matrix of 304 devices has no room" in " ".join(words(figure(many, "overlap", width=3.3)))
