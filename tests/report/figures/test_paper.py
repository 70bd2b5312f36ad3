"""Figures in a column of a paper and on a page: no text is cut or overlaps, and the plot keeps most of the width."""

import itertools
from functools import cache

import pytest
from matplotlib.text import Text

from tests.frames import events, spans, trace
from tests.report.figures.figure_parts import words
from tracekit.report.figures.figure import FIGURES, figure, write_figures
from tracekit.timeline.timeline import Timeline, timeline_of

MS = 10**9
PAGES = [(3.3, 1), (3.3, 8), (3.3, 128), (5, 8), (5, 128), (7, 1), (7, 8), (7, 128)]


@cache
def timeline(devices: int) -> Timeline:
    """Devices with a stream for each kind, in two phases of which one is short."""
    rows = [
        (f"rank{device}/gpu:{device}", kind, (100 * at + device % 7) * MS, (100 * at + 90) * MS)
        for device in range(devices)
        for at, kind in enumerate(("compute", "collective", "memcpy"))
    ]
    return timeline_of(trace(events(*rows), spans(("warm-up", 0, 20 * MS), ("train", 20 * MS, 300 * MS))))


@cache
def drawing_of(what: str, width: float, devices: int):
    """The figure of that name, which no test changes."""
    return figure(timeline(devices), what, width=width)


def boxes(drawing) -> list[tuple[str, object]]:
    """Each text that is seen, and the box that its letters fill in pixels."""
    renderer = drawing.canvas.get_renderer()
    drawing.draw(renderer)
    texts = [text for text in drawing.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in texts]


def axes_of(drawing) -> float:
    """How many inches of the width the widest plot has."""
    return max(axes.get_position().width for axes in drawing.axes) * drawing.get_size_inches()[0]


@pytest.mark.parametrize(("width", "devices"), PAGES)
@pytest.mark.parametrize("what", FIGURES)
def test_no_text_overlaps_another_or_leaves_the_page(what, width, devices):
    drawing = drawing_of(what, width, devices)
    page, placed = drawing.bbox, boxes(drawing)
    assert [text for text, box in placed if min(box.x0, box.y0) < 0 or box.x1 > page.x1 or box.y1 > page.y1] == []
    # Lines of one font size stand closer than their ascenders and descenders are high.
    meet = [
        (a, b)
        for (a, one), (b, other) in itertools.combinations(placed, 2)
        if min(one.x1, other.x1) - max(one.x0, other.x0) > 1 and min(one.y1, other.y1) - max(one.y0, other.y0) > 1.5
    ]
    assert meet == []


@pytest.mark.parametrize(("width", "devices"), PAGES)
@pytest.mark.parametrize("what", ["gantt", "partition"])
def test_labels_leave_the_plot_more_than_half_of_the_width(what, width, devices):
    assert axes_of(drawing_of(what, width, devices)) > width / 2


def test_every_axis_says_what_it_shows():
    names = "partition", "concurrency", "overlap"
    partition, concurrency, overlap = (figure(timeline(8), what, width=3.3) for what in names)
    gantt = figure(timeline(8), width=5)
    assert gantt.axes[0].get_xlabel() == "time since the first device work (ms)"
    assert partition.axes[0].get_xlabel() == "share of the window of 300.0 ms (%)"
    over_time, beside = concurrency.axes[1:]
    assert (over_time.get_xlabel(), over_time.get_ylabel()) == ("time (ms)", "devices busy")
    assert beside.get_xlabel() == "share of time"
    assert all("device" in words(each) for each in (gantt, partition, overlap))


def test_names_of_devices_stand_above_the_lanes_where_both_would_take_too_much():
    drawing = figure(timeline(1), "gantt", width=3.3)
    at = {text: box for text, box in boxes(drawing) if text in ("rank0/gpu:0", "compute", "collective", "memcpy")}
    assert at["rank0/gpu:0"].y0 > max(box.y1 for name, box in at.items() if name != "rank0/gpu:0")


@pytest.mark.parametrize("what", [name for name in FIGURES if name not in ("concurrency", "fleet")])
def test_names_of_many_devices_are_whole_in_a_column(what):
    # All are asked for: unasked, the timeline draws few of them.
    drawing = figure(timeline(128), what, width=3.3, devices=timeline(128).rows.devices)
    names = [word for word in words(drawing) if word.startswith("rank1")]
    assert len(names) > 10
    assert [name for name in names if not name.endswith(name.partition("/")[0].removeprefix("rank"))] == []


def test_without_a_title_the_figure_begins_with_its_legend():
    titled, bare = (figure(timeline(8), width=5, title=title) for title in ("mine", ""))
    assert words(titled)[:3] == ["mine", "test · Timeline: 300.0 ms, from the first phase to the last", "compute"]
    assert words(bare)[0] == "compute"
    assert bare.get_size_inches()[1] < titled.get_size_inches()[1]


def test_the_font_size_scales_all_that_is_written_and_no_width():
    small, large = (figure(timeline(8), "partition", width=7, font_size=size) for size in (6, 12))
    heads = [next(text for text in drawing.texts if text.get_text() == "device") for drawing in (small, large)]
    assert [head.get_fontsize() for head in heads] == [6, 12]
    assert [drawing.get_size_inches()[0] for drawing in (small, large)] == pytest.approx([7, 7], abs=0.02)


@pytest.mark.parametrize(("dpi", "pixels"), [(300, 990), (600, 1980)])
def test_a_png_has_the_dots_that_were_asked_for(dpi, pixels, tmp_path):
    figure(timeline(1), "partition", width=3.3, dpi=dpi).save(tmp_path / "a.png")
    assert int.from_bytes((tmp_path / "a.png").read_bytes()[16:20]) == pytest.approx(pixels, abs=2)


def test_the_command_hands_on_what_a_paper_asks_for(tmp_path, monkeypatch):
    monkeypatch.setattr("tracekit.timeline.timeline.read", lambda path, run, kinds, **_: timeline(1).trace)
    options = {"width": 3.3, "font_size": 6, "dpi": 100, "title": "", "formats": "png,pdf,svg"}
    png, pdf, svg = write_figures(tmp_path / "t", "partition", out=tmp_path / "o", **options)
    assert int.from_bytes(png.read_bytes()[16:20]) == pytest.approx(330, abs=1)
    assert b"/MediaBox [ 0 0 237" in pdf.read_bytes()
    assert b'width="237' in svg.read_bytes()
