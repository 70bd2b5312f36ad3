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
        (["x" * 40 + "/1234567", "x" * 40 + "/7654321"], ["xxxxxxxxxxxx…xxxxx …4567", "xxxxxxxxxxxx…xxxxx …4321"]),
    ],
)
def test_lane_names_are_short_and_unique(names, expected):
    assert labels.short(names) == expected


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        (0, 7, "0 %"),
        (7, 7, "100 %"),
        (66, 1000, "6.6 %"),
        (1, 10**9, "<0.1 %"),
        (10**9 - 1, 10**9, ">99.9 %"),
        (1, 2, "50.0 %"),
    ],
)
def test_a_percentage_is_0_or_100_only_where_that_is_exact(part, whole, expected):
    assert labels.percent(part, whole) == expected


@pytest.mark.parametrize(
    ("length_ps", "symbol"), [(1, "ps"), (999, "ps"), (1000, "ns"), (10**6, "µs"), (10**9, "ms"), (10**14, "s")]
)
def test_the_unit_fits_the_length(length_ps, symbol):
    assert labels.unit(length_ps)[1] == symbol


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


@pytest.mark.parametrize(
    ("length_ps", "expected"),
    [
        (0, "0 ps"),
        (999, "999 ps"),
        (1234, "1.23 ns"),
        (12_345_678, "12.3 µs"),
        (123 * 10**9, "123 ms"),
        (10**15, "1000 s"),
    ],
)
def test_a_length_has_three_digits_in_the_unit_that_fits(length_ps, expected):
    assert labels.time(length_ps) == expected


@pytest.mark.parametrize(("ratio", "expected"), [(0.0, "0 %"), (1e-9, "<0.1 %"), (0.607, "60.7 %"), (1.0, "100 %")])
def test_a_ratio_is_told_as_a_percentage(ratio, expected):
    assert labels.share(ratio) == expected
