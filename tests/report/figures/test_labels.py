"""Words on a figure."""

import pytest

from tracekit.report.figures import labels


def test_a_plain_name_is_one_line_of_glyphs_that_the_font_has():
    assert labels.plain("a\n b\t$x_1^2$ \u4e2d \x00 \ud800 é") == "a b $x_1^2$ □ □ □ é"


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
    assert labels.short_names(names) == expected


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
    assert labels.wrap(text, 10, lambda words: len(words), lines=2) == expected
