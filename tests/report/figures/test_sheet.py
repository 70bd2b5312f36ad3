"""The house style: legends that fit, colours that stay apart, words that can be read."""

import itertools

import numpy as np
import pytest

from tracekit.errors import TracekitError
from tracekit.report.figures import sheet
from tracekit.report.palette import DARK, LIGHT, THEMES

KINDS = ("compute", "collective", "memcpy", "memset")
# What a colour-blind reader sees, as matrices on linear RGB: Machado, Oliveira and Fernandes 2009, severity 1,
# https://doi.org/10.1109/TVCG.2009.113
SEEN = {
    "all": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = XYZ @ np.clip(rgb, 0, 1) / [0.95047, 1, 1.08883]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    dark, light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("eyes", SEEN)
def test_kinds_stay_apart_for_all_eyes(theme, eyes):
    seen = [lab(np.array(SEEN[eyes]) @ linear(THEMES[theme][kind])) for kind in (*KINDS, "idle")]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 20


@pytest.mark.parametrize("theme", THEMES)
def test_kinds_stay_apart_in_grey(theme):
    lightness = sorted(lab(linear(THEMES[theme][kind]))[0] for kind in KINDS)
    assert min(np.diff(lightness)) > 15


@pytest.mark.parametrize("theme", THEMES)
def test_words_stand_out_from_the_paper_and_from_what_they_stand_on(theme):
    colours = THEMES[theme]
    assert contrast(colours["ink"], colours["paper"]) > 12
    assert contrast(colours["grey"], colours["paper"]) > 4.5
    for ground in (*KINDS, "idle", "band"):
        assert contrast(sheet.readable_on(colours, colours[ground]), colours[ground]) > 4.5


def test_both_themes_have_the_same_colours():
    assert LIGHT.keys() == DARK.keys()


ENTRIES = [(name, ["#000000"]) for name in ("compute", "collective", "memcpy", "memset")]
BUSY = [(name, ["#000000"]) for name in ("1 device busy", "all 8 devices busy")]


def room(width: int) -> int:
    return width - 2 * sheet.MARGIN


def test_a_legend_stands_in_one_row_with_its_second_part_at_the_right_edge():
    legend = sheet.legend(ENTRIES, BUSY, room(1800))
    assert legend.height == sheet.LEGEND_PX
    assert len({y for _, y, _ in legend.entries}) == 1
    assert [entry for *_, entry in legend.entries] == [*ENTRIES, *BUSY]
    last = legend.entries[-1]
    assert last[0] + sheet._entry_px(last[2]) == 1800 - sheet.MARGIN


def test_a_legend_without_room_takes_more_rows_and_no_entries_meet():
    legend = sheet.legend(ENTRIES, BUSY, room(750))
    assert legend.height > sheet.LEGEND_PX
    for _, row in itertools.groupby(legend.entries, key=lambda entry: entry[1]):
        ends = [(x, x + sheet._entry_px(entry)) for x, _, entry in row]
        assert all(a[1] < b[0] for a, b in itertools.pairwise(ends))
        assert ends[-1][1] <= 750 - sheet.MARGIN


def test_no_entries_take_no_room():
    assert sheet.legend([], [], room(900)) == sheet.Legend([], 0)


@pytest.mark.parametrize("inches", [4.9, 48.5, float("nan")])
def test_a_width_that_fits_no_page_is_told(inches):
    with pytest.raises(TracekitError, match="give a width from 5 to 48"):
        sheet.pixels(inches)


def test_an_unknown_theme_is_told():
    with pytest.raises(TracekitError, match="There is no theme 'blue': say light or dark"):
        sheet.colours_of("blue")
