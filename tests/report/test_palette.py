"""The colours: kinds that stay apart for all eyes, words that can be read, and one palette on every face."""

import itertools
import re
from importlib import resources

import numpy as np
import pytest

from tests.report.html.pages import html
from tracekit.report.palette import DARK, LIGHT, THEMES, properties, readable_on
from tracekit.vocabulary.kinds import Kind

KINDS = ("compute", "collective", "memcpy", "memset")
# What a colour-blind reader sees, as matrices on linear RGB: Machado, Oliveira and Fernandes 2009, severity 1,
# https://doi.org/10.1109/TVCG.2009.113
VISION = {
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


def contrast(ink: str, ground: str) -> float:
    dark, light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (ink, ground))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("eyes", VISION)
def test_kinds_stay_apart_for_all_eyes(theme, eyes):
    colours = [lab(np.array(VISION[eyes]) @ linear(THEMES[theme][kind])) for kind in (*KINDS, "idle")]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(colours, 2)) > 20


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
        assert contrast(readable_on(colours[ground], colours["ink"], colours["paper"]), colours[ground]) > 4.5


def test_both_themes_have_the_same_colours():
    assert LIGHT.keys() == DARK.keys()


def test_the_page_declares_the_palette_for_both_themes_and_for_the_one_of_the_system():
    blocks = re.findall(r"color-scheme:(light|dark);([^}]*)\}", html("one"))
    declarations = [(theme, dict(part.split(":") for part in block[2:].split(";--"))) for theme, block in blocks]
    assert declarations == [("light", properties(LIGHT)), ("dark", properties(DARK)), ("dark", properties(DARK))]


def test_the_pages_scripts_know_the_kinds_and_read_their_colours_by_name():
    script = (resources.files("tracekit.report.html") / "coverage.js").read_text("utf-8")
    (kinds,) = re.findall(r"const KINDS = \[(.*)\];", script)
    assert [kind.strip(' "') for kind in kinds.split(",")] == [*Kind, "host"]
    assert set(Kind) <= set(LIGHT)
