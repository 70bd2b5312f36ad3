"""The figures for Python: a stretch of a trace or a report in a call, which shows and writes itself."""

import inspect

import pytest

from tests.frames import events, spans, trace
from tests.report.figures.drawn import words
from tracekit.errors import TracekitError
from tracekit.report.build import build
from tracekit.report.figures import show

GIVEN = trace(
    events(("gpu:0", "compute", 0, 60), ("gpu:1", "compute", 40, 80)), spans(("warm", 0, 30), ("both", 30, 80))
)
FIGURES = [show.gantt, show.partition_bars, show.concurrency_over_time, show.overlap_matrix]


@pytest.mark.parametrize("draw", FIGURES)
def test_a_stretch_is_said_in_words_or_numbers(draw):
    assert "traces/test, from 10 ps to 20 ps" in words(draw(GIVEN, start="10ps", end=20))
    assert "traces/test, the phase both, from 30 ps to 80 ps" in words(draw(GIVEN, phase="both"))
    assert "traces/test, from the first phase to the last" in words(draw(build(GIVEN)))


def test_all_have_the_same_options():
    options = [list(inspect.signature(draw).parameters.values()) for draw in FIGURES]
    assert all(one == options[0] for one in options)


def test_title_theme_and_width_are_the_users(tmp_path):
    figure = show.gantt(GIVEN, title="mine", theme="dark", width=6)
    assert words(figure)[0] == "mine"
    assert figure.get_size_inches()[0] == pytest.approx(6, abs=0.02)
    figure.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")


def test_a_mistake_is_told():
    with pytest.raises(TracekitError, match="start 'soon' is no time"):
        show.gantt(GIVEN, start="soon")
