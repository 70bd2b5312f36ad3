"""What is written can be read on its ground, in both themes (WCAG 2.2, AA: 4.5 to 1 for text, 3 to 1 for marks)."""

import re

import numpy as np
import pytest

from tests.report.html.pages import html


def _luminance(colour) -> float:
    parts = np.asarray(colour) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _rgb(colour: str):
    full = "".join(2 * digit for digit in colour[1:]) if len(colour) == 4 else colour[1:]
    return np.array([int(full[at : at + 2], 16) for at in (0, 2, 4)], float)


def _contrast(ink, ground) -> float:
    """https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio"""
    bright, dim = sorted((_luminance(ink), _luminance(ground)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.fixture(params=["light", "dark"])
def theme(request):
    """The custom properties of the page, as it declares them: dark first as chosen, then as the system's."""
    block = re.search(rf"color-scheme:{request.param};([^}}]*)\}}", html("one"))[1]
    return dict(pair.split(":") for pair in block.removeprefix("--").split(";--"))


@pytest.mark.parametrize("ink", ["ink", "grey", "accent"])
def test_text_stands_out_from_the_paper_and_from_what_is_set_apart(theme, ink):
    paper, soft = _rgb(theme["paper"]), 0.04 * _rgb(theme["ink"]) + 0.96 * _rgb(theme["paper"])
    assert "--soft: color-mix(in srgb, var(--ink) 4%, var(--paper))" in html("one")
    assert min(_contrast(_rgb(theme[ink]), ground) for ground in (paper, soft)) >= 4.5


@pytest.mark.parametrize("kind", ["compute", "collective", "memcpy", "idle"])
def test_the_share_written_on_a_piece_of_a_bar_can_be_read(theme, kind):
    assert _contrast(_rgb(theme[f"on-{kind}"]), _rgb(theme[kind])) >= 4.5


def test_a_ratio_can_be_read_on_its_cell_however_large_it_is(theme):
    assert ".heat { background: color-mix(in srgb, var(--accent) calc(55% * var(--dark)), var(--paper)); }" in html(
        "one"
    )
    paper, accent = _rgb(theme["paper"]), _rgb(theme["accent"])
    for ratio in np.linspace(0, 1, 11):
        ground = 0.55 * ratio * accent + (1 - 0.55 * ratio) * paper
        assert _contrast(_rgb(theme["ink"]), ground) >= 4.5, ratio


@pytest.mark.parametrize(("kind", "neighbour"), [("compute", "collective"), ("compute", "idle"), ("compute", "memcpy")])
def test_pieces_beside_each_other_differ_in_lightness_too(theme, kind, neighbour):
    assert _contrast(_rgb(theme[kind]), _rgb(theme[neighbour])) >= 1.9
