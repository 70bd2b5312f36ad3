"""Figures as files: whole, the same each time, with text as text and no pixels in vectors."""

import re
import zlib
from xml.etree import ElementTree

import matplotlib
import matplotlib.pyplot
import numpy as np
import pytest

from tests.frames import events, spans, trace
from tests.report.figures.figure_parts import words
from tracekit.errors import TracekitError
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
DRAWINGS = {name: draw(SELECTION, name, width=8) for name in FIGURES}
SVG = "{http://www.w3.org/2000/svg}"


def many():
    """A timeline and concurrency of 4 devices of 100,000 intervals together."""
    rng = np.random.default_rng(0)
    rows = []
    for device in range(4):
        starts = np.arange(500) * 1000
        ends = starts + rng.integers(1, 1000, 500)
        rows += [(f"gpu:{device}", "compute", int(a), int(b)) for a, b in zip(starts, ends, strict=True)]
    return select(trace(events(*rows)))


def test_pixels_are_what_the_inches_say_and_a_narrow_figure_is_as_fine():
    found = draw(SELECTION, "gantt").encoded("png")
    assert found[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(found[16:20]) == 1800
    assert int.from_bytes(draw(SELECTION, "gantt", width=6).encoded("png")[16:20]) == 1800


@pytest.mark.parametrize("what", FIGURES)
def test_an_svg_holds_every_word_as_text_and_no_pixels(what):
    found = DRAWINGS[what].encoded("svg")
    root = ElementTree.fromstring(found)
    texts = [" ".join("".join(node.itertext()).split()) for node in root.iter(f"{SVG}text")]
    expected = [word for word in words(DRAWINGS[what]) if word]
    assert [word for word in expected if " ".join(word.split()) not in texts] == []
    assert not {f"{SVG}image", f"{SVG}script"} & {node.tag for node in root.iter()}
    assert b"<script" not in found
    assert b"Verdana, sans-serif" in found


def test_hostile_names_are_words_in_an_svg():
    texts = "".join(ElementTree.fromstring(DRAWINGS["partition"].encoded("svg")).itertext())
    assert all(name in texts for name in ("$\\frac{a$_{x}/gpu:0", "</svg><script>"))
    assert "□ □[31m □/gpu:2" in texts
    assert "1.23456789 %/gpu:3" in texts


def test_a_pdf_embeds_its_fonts_and_holds_no_pixels():
    found = DRAWINGS["gantt"].encoded("pdf")
    assert found.startswith(b"%PDF-")
    assert b"/FontFile2" in found
    assert b"DejaVuSans" in found
    assert not re.search(rb"/Subtype\s*/Image", found)
    assert not re.search(rb"/(CreationDate|Producer|Creator)", found)


def test_the_ink_of_an_svg_is_the_busy_time():
    selection = many()
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
    busy = selection.stretch.partition["busy_ps"].sum() / selection.stretch.partition["window_ps"].sum()
    assert ink / full == pytest.approx(busy, abs=0.0002)


def test_vectors_of_many_intervals_are_small():
    selection = many()
    assert len(draw(selection, "gantt").encoded("svg")) < 300_000
    assert len(draw(selection, "concurrency").encoded("svg")) < 300_000


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_trace_gives_the_same_bytes_whatever_the_users_style_is(kind):
    found = DRAWINGS["concurrency"].encoded(kind)
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
    assert zlib.crc32(again) == zlib.crc32(found)
    assert not re.search(rb"20\d\d-\d\d-\d\d", found)


def test_a_figure_shows_itself_in_a_notebook_and_leaves_pyplot_alone():
    assert DRAWINGS["overlap"]._repr_png_() == DRAWINGS["overlap"].encoded("png")
    assert matplotlib.pyplot.get_fignums() == []


def test_save_writes_what_the_suffix_says_and_nothing_else(tmp_path):
    for kind in ("PNG", "svg"):
        DRAWINGS["overlap"].save(tmp_path / f"a.{kind}")
        assert (tmp_path / f"a.{kind}").read_bytes() == DRAWINGS["overlap"].encoded(kind.lower())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.PNG", "a.svg"]
    with pytest.raises(
        TracekitError, match=r"cannot be written as a\.gif: name a file that ends in \.png, \.svg or \.pdf"
    ):
        DRAWINGS["overlap"].save(tmp_path / "a.gif")


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_text("old")

    def broken(file, **_):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(DRAWINGS["overlap"], "savefig", broken)
    with pytest.raises(OSError, match="disk full"):
        DRAWINGS["overlap"].save(tmp_path / "a.png")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.png", "old")]
