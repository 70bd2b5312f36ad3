"""Figures as files: whole, the same each time, text as text, no pixels in vectors; and words and legends that fit."""

import itertools
import re
import zlib
from functools import cache
from xml.etree import ElementTree

import matplotlib
import matplotlib.pyplot
import numpy as np
import pytest

from tests.frames import events, spans, trace
from tests.report.figures.figure_parts import words
from tracekit.errors import TracekitError
from tracekit.report.figures import drawing
from tracekit.report.figures.figure import FIGURES, draw
from tracekit.report.figures.selection import select

NAMES = ["$\\frac{a$_{x}", "</svg><script>alert(1)</script>&amp;", "\U0001f680 \x1b[31m \u4e2d", "1.23456789 %"]
SELECTION = select(
    trace(
        events(
            *[(f"{name}/gpu:{i}", "compute", 0, 90 + i) for i, name in enumerate(NAMES)],
            ("gpu:9", "collective", 20, 60),
            ("gpu:9", "memcpy", 50, 100, "copy", "H2D"),
            ("gpu:9", "compute", 30, 40),
        ),
        spans(*[(name, 25 * i, 25 * i + 25) for i, name in enumerate(NAMES)]),
    )
)
SVG = "{http://www.w3.org/2000/svg}"


@cache
def drawing_of(name):
    """The figure of that name of the selection; the tests share it."""
    return draw(SELECTION, name, width=8)


def many_intervals():
    """The whole of a trace of 4 devices with 500 intervals each."""
    rng = np.random.default_rng(0)
    rows = []
    for device in range(4):
        starts = np.arange(500) * 1000
        ends = starts + rng.integers(1, 1000, 500)
        rows += [(f"gpu:{device}", "compute", int(a), int(b)) for a, b in zip(starts, ends, strict=True)]
    return select(trace(events(*rows)))


def test_pixels_are_what_the_inches_say_and_a_narrow_figure_is_as_fine():
    png = draw(SELECTION, "gantt").encoded("png")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(png[16:20]) == 1800
    assert int.from_bytes(draw(SELECTION, "gantt", width=6).encoded("png")[16:20]) == 1800


@pytest.mark.parametrize("what", FIGURES)
def test_an_svg_holds_every_word_as_text_and_no_pixels(what):
    svg = drawing_of(what).encoded("svg")
    root = ElementTree.fromstring(svg)
    texts = [" ".join("".join(node.itertext()).split()) for node in root.iter(f"{SVG}text")]
    expected = [word for word in words(drawing_of(what)) if word]
    assert [word for word in expected if " ".join(word.split()) not in texts] == []
    assert not {f"{SVG}image", f"{SVG}script"} & {node.tag for node in root.iter()}
    assert b"<script" not in svg
    assert b"Verdana, sans-serif" in svg


def test_hostile_names_are_words_in_an_svg():
    texts = "".join(ElementTree.fromstring(drawing_of("partition").encoded("svg")).itertext())
    assert all(name in texts for name in ("$\\frac{a$_{x}/gpu:0", "</svg><script>"))
    assert "□ □[31m □/gpu:2" in texts
    assert "1.23456789 %/gpu:3" in texts


def test_a_pdf_embeds_its_fonts_and_holds_no_pixels():
    pdf = drawing_of("gantt").encoded("pdf")
    assert pdf.startswith(b"%PDF-")
    assert b"/FontFile2" in pdf
    assert b"DejaVuSans" in pdf
    assert not re.search(rb"/Subtype\s*/Image", pdf)
    assert not re.search(rb"/(CreationDate|Producer|Creator)", pdf)


def test_the_ink_of_an_svg_is_the_busy_time():
    selection = many_intervals()
    root = ElementTree.fromstring(draw(selection, "gantt").encoded("svg"))
    # A page is drawn in points, and the legend stands apart from the axes.
    axes = root.find(f".//{SVG}g[@id='axes_1']")
    paths = [path for path in axes.iter(f"{SVG}path") if "fill: #005a94" in (path.get("style") or "")]
    boxes = [box for path in paths for box in re.findall(r"M(\S+) (\S+)H(\S+)V(\S+)H\S+z", path.get("d"))]
    ink = sum(abs((float(x1) - float(x0)) * (float(y1) - float(y0))) for x0, y0, x1, y1 in boxes)
    tracks = [
        patch.get_window_extent() for patch in draw(selection, "gantt").axes[0].patches if "gpu:" in patch.get_label()
    ]
    full = sum(track.width * track.height for track in tracks) * (72 / 150) ** 2
    busy = selection.breakdown.partition["busy_ps"].sum() / selection.breakdown.partition["window_ps"].sum()
    assert ink / full == pytest.approx(busy, abs=0.0002)


def test_vectors_of_many_intervals_are_small():
    selection = many_intervals()
    assert len(draw(selection, "gantt").encoded("svg")) < 300_000
    assert len(draw(selection, "concurrency").encoded("svg")) < 300_000


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_trace_gives_the_same_bytes_whatever_the_users_style_is(kind):
    first = drawing_of("concurrency").encoded(kind)
    style = {
        "savefig.bbox": "tight",
        "savefig.dpi": 30,
        "svg.fonttype": "path",
        "pdf.fonttype": 3,
        "font.family": "serif",
    }
    with matplotlib.rc_context(style):
        again = draw(SELECTION, "concurrency", width=8).encoded(kind)
        assert matplotlib.rcParams["svg.fonttype"] == "path"
    assert zlib.crc32(again) == zlib.crc32(first)
    assert not re.search(rb"20\d\d-\d\d-\d\d", first)


def test_a_figure_shows_itself_in_a_notebook_and_leaves_pyplot_alone():
    assert drawing_of("overlap")._repr_png_() == drawing_of("overlap").encoded("png")
    assert matplotlib.pyplot.get_fignums() == []


def test_save_writes_what_the_suffix_says_and_nothing_else(tmp_path):
    for kind in ("PNG", "svg"):
        drawing_of("overlap").save(tmp_path / f"a.{kind}")
        assert (tmp_path / f"a.{kind}").read_bytes() == drawing_of("overlap").encoded(kind.lower())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.PNG", "a.svg"]
    with pytest.raises(
        TracekitError, match=r"cannot be written as a\.gif: name a file that ends in \.png, \.svg or \.pdf"
    ):
        drawing_of("overlap").save(tmp_path / "a.gif")


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_text("old")

    def broken(file, **_):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(drawing_of("overlap"), "savefig", broken)
    with pytest.raises(OSError, match="disk full"):
        drawing_of("overlap").save(tmp_path / "a.png")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.png", "old")]


def test_a_plain_name_is_one_line_of_glyphs_that_the_font_has():
    assert drawing.plain("a\n b\t$x_1^2$ \u4e2d \x00 \ud800 \ufe0f é") == "a b $x_1^2$ □ □ □ □ é"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["Stream #13(Compute)", "Stream #14(MemcpyH2D)"], ["Stream #13(Compute)", "Stream #14(MemcpyH2D)"]),
        (["tf_XLAPjRtCpuClient/-321539782615735191"], ["XLAPjRtCpuClient"]),
        (["tf_XLAEigen/1234567", "tf_XLAEigen/-7654321"], ["XLAEigen …4567", "XLAEigen …4321"]),
        (["tf_XLAEigen/1114567", "tf_XLAEigen/2224567"], ["XLAEigen …4567 #1", "XLAEigen …4567 #2"]),
        (["abcdefghijklmnopqrstuvwxyz0123"], ["abcdefghijkl…tuvwxyz0123"]),
        (["x" * 40 + "/1234567", "x" * 40 + "/7654321"], ["xxxxxxxxx…xxxxxxxx …4567", "xxxxxxxxx…xxxxxxxx …4321"]),
    ],
)
def test_lane_names_are_short_and_unique(names, expected):
    assert drawing.short_names(names) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [""]),
        ("one two", ["one two"]),
        ("one two three four", ["one two", "three four"]),
        ("one two three four five six", ["one two", "three fou…"]),
        ("abcdefghijklmnop", ["abcdefghi…"]),
        ("one abcdefghijklmnop two", ["one", "abcdefghi…"]),
        ("of all 100 % x", ["of all", "100 % x"]),
    ],
)
def test_text_wraps_between_words_and_ends_in_an_ellipsis(text, expected):
    assert drawing.wrap(text, 10, lambda words: len(words), lines=2) == expected


ENTRIES = [(name, ["#000000"]) for name in ("compute", "collective", "memcpy", "memset")]
BUSY = [(name, ["#000000"]) for name in ("1 device busy", "all 8 devices busy")]


def room(width: int) -> int:
    return width - 2 * drawing.MARGIN


def test_a_legend_stands_in_one_row_with_its_second_part_at_the_right_edge():
    legend = drawing.legend(ENTRIES, BUSY, room(1800))
    assert legend.height == drawing.LEGEND_PX
    assert len({y for _, y, _ in legend.entries}) == 1
    assert [entry for *_, entry in legend.entries] == [*ENTRIES, *BUSY]
    last = legend.entries[-1]
    assert last[0] + drawing._entry_px(last[2]) == room(1800)


def test_a_legend_without_room_takes_more_rows_and_no_entries_meet():
    legend = drawing.legend(ENTRIES, BUSY, room(750))
    assert legend.height > drawing.LEGEND_PX
    for _, row in itertools.groupby(legend.entries, key=lambda entry: entry[1]):
        ends = [(x, x + drawing._entry_px(entry)) for x, _, entry in row]
        assert all(a[1] < b[0] for a, b in itertools.pairwise(ends))
        assert ends[-1][1] <= room(750)


def test_no_entries_take_no_room():
    assert drawing.legend([], [], room(900)) == drawing.Legend([], 0)


@pytest.mark.parametrize("inches", [3.2, 48.5, float("nan")])
def test_a_width_that_fits_no_page_is_told(inches):
    with pytest.raises(TracekitError, match=r"give a width from 3\.3 to 48"):
        drawing.paper(inches, None)


@pytest.mark.parametrize(
    ("inches", "size", "most"), [(12, 3, 16), (12, 17, 16), (3.3, 9, 8.7), (3.3, float("nan"), 8.7)]
)
def test_a_font_size_that_fits_no_page_is_told(inches, size, most):
    with pytest.raises(TracekitError, match=f"give a font size from 4 to {most}\\.$"):
        drawing.paper(inches, size)


@pytest.mark.parametrize("dpi", [49, 1201, float("nan")])
def test_dots_that_no_png_has_are_told(dpi):
    with pytest.raises(TracekitError, match="dots per inch: give 50 to 1200"):
        drawing.dots(dpi)


def test_an_unknown_theme_is_told():
    with pytest.raises(TracekitError, match="no theme 'blue'"):
        drawing.colours_of("blue")
