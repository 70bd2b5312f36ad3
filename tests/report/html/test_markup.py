"""Text becomes HTML that shows just that text, figures keep their exact values, tables are whole."""

import pytest

from tracekit.report import section
from tracekit.report.html import markup
from tracekit.report.html.markup import Markup, TimelineLinks, join, table, tag
from tracekit.report.section import AtLeast, Column, Instant, Missing, Unit
from tracekit.report.time_zero import TimeZero


@pytest.mark.parametrize(
    ("words", "html"),
    [
        ("a < b & \"c\" 'd'", "a &lt; b &amp; &quot;c&quot; &#x27;d&#x27;"),
        ("</script><img onerror=x>", "&lt;/script&gt;&lt;img onerror=x&gt;"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("bell\x07 escape\x1b[31m null\x00", "bell\ufffd escape\ufffd[31m null\ufffd"),
        ("right\u202eto left\u2066", "right\ufffdto left\ufffd"),
        ("a\u200bb\U000e0041c\u200dd\ufe0f", "a\ufffdb\ufffdc\ufffdd\ufffd"),
        ("👩\u200d👧 ☁\ufe0f", "👩\u200d👧 ☁\ufe0f"),
        ("half \ud800 a pair", "half \ufffd a pair"),
        ("Größe 名前 😀", "Größe 名前 😀"),
        (7, "7"),
    ],
)
def test_text_is_escaped_and_what_cannot_be_seen_is_replaced(words, html):
    assert markup.text(words) == html


def test_only_what_is_markup_stays_markup():
    bold = tag("b", "x < y")
    assert tag("p", bold, " & ", None, 1) == "<p><b>x &lt; y</b> &amp; 1</p>"
    assert join([bold, "<i>"]) == "<b>x &lt; y</b>&lt;i&gt;"
    assert join([bold, None, bold], " & ") == "<b>x &lt; y</b> &amp; <b>x &lt; y</b>"
    # What Python's own strings make of markup is text again.
    assert markup.text(bold + "") == "&lt;b&gt;x &amp;lt; y&lt;/b&gt;"
    assert isinstance(bold, Markup)


def test_attributes_are_quoted_and_left_out_without_a_value():
    attributes = {"class_": 'a"><script>', "data_from": 0, "open": True, "hidden": False, "title": None}
    assert tag("td", **attributes) == '<td class="a&quot;&gt;&lt;script&gt;" data-from="0" open></td>'
    assert tag("meta", content="x") == '<meta content="x">'


@pytest.mark.parametrize(
    ("fragment", "html"),
    [
        (markup.picoseconds(1234567), '<data value="1234567" title="1,234,567 ps">1.23 µs</data>'),
        (markup.picoseconds(2**62), f'<data value="{2**62}" title="{2**62:,} ps">4611686.0 s</data>'),
        (markup.figure("50.0 %", 0.5), '<data value="0.5">50.0 %</data>'),
        (markup.figure("12,345", 12345), '<data value="12345">12,345</data>'),
        (markup.none("no work"), '<span class="none" title="no work">-<span class="sr"> no work</span></span>'),
        (markup.none(), '<span class="none">-</span>'),
        (markup.name(" \n"), "<bdi>(no name)</bdi>"),
        (markup.name("a\n b"), "<bdi>a b</bdi>"),
    ],
)
def test_a_figure_keeps_its_exact_value_and_a_missing_one_its_reason(fragment, html):
    assert fragment == html


def test_of_a_long_name_both_ends_are_shown_and_all_of_it_is_in_its_title():
    long = "<" + "a" * 40 + "b" * 40
    assert markup.name(long) == f'<bdi title="&lt;{long[1:]}">&lt;{"a" * 23}…{"b" * 23}</bdi>'
    assert markup.name("x" * 48) == f"<bdi>{'x' * 48}</bdi>"


LINKS = TimelineLinks(TimeZero({"": 100}, {"gpu:0": ""}))


def test_a_table_names_its_columns_and_rows_and_puts_figures_to_the_right():
    columns = [Column("name", Unit.NAME), Column("time", Unit.TIME), Column("what", Unit.TEXT)]
    rows = [("a", 1_200_000, "x"), ("b", Missing("not recorded"), "<2")]
    assert table(section.table("t", "T", columns, rows, about="How."), LINKS) == (
        '<div class="wide" tabindex="0" role="group" aria-label="T"><table><caption><span>T</span>'
        '<span class="about">How.</span></caption>'
        '<thead><tr><th scope="col">name</th><th scope="col" class="n">time</th><th scope="col">what</th></tr></thead>'
        '<tbody><tr><th scope="row"><bdi>a</bdi></th>'
        '<td class="n"><data value="1200000" title="1,200,000 ps">1.20 µs</data></td><td>x</td></tr>'
        '<tr><th scope="row"><bdi>b</bdi></th><td class="n"><span class="none" title="not recorded">-'
        '<span class="sr"> not recorded</span></span></td><td>&lt;2</td></tr></tbody></table></div>'
    )


@pytest.mark.parametrize(
    ("cell", "unit", "html"),
    [
        (1234, Unit.COUNT, '<data value="1234">1,234</data>'),
        (0.5, Unit.RATIO, '<data value="0.5">50.0 %</data>'),
        (0.72, Unit.CHANGE, '<data value="0.72">-28.0 %</data>'),
        (1.974, Unit.FACTOR, '<data value="1.974">1.97x</data>'),
        (3.718, Unit.MEAN, '<data value="3.718">3.72</data>'),
        (2**22, Unit.BYTES, '<data value="4194304">4 MiB</data>'),
        (26.8e9, Unit.BYTES_PER_S, '<data value="26800000000.0">26.8 GB/s</data>'),
        (AtLeast(26.8e9), Unit.BYTES_PER_S, '&gt;=<data value="26800000000.0">26.8 GB/s</data>'),
        (1.5e12, Unit.FLOPS_PER_S, '<data value="1500000000000.0">1.50 TFLOP/s</data>'),
        (
            Instant(1100, 3100, "gpu:0"),
            Unit.INSTANT,
            '<button type="button" class="jump" data-from="1000" data-to="3000" data-device="gpu:0" '
            'aria-label="1.00 ns: show a &amp; b in the timeline" title="1,000 ps">1.00 ns</button>',
        ),
    ],
)
def test_a_cell_reads_in_its_unit_and_keeps_its_exact_value(cell, unit, html):
    columns = [Column("name", Unit.NAME), Column("value", unit)]
    result = table(section.table("t", "T", columns, [("a & b", cell)]), LINKS)
    assert result.partition('<td class="n">')[2].partition("</td>")[0] == html


def test_ratios_are_shaded_where_they_are_to_be_compared():
    columns = [Column("name", Unit.NAME), Column("ratio", Unit.RATIO)]
    result = table(section.table("t", "T", columns, [("a", 0.25), ("b", None)]), LINKS, shaded=True)
    assert '<span class="heat" style="--dark:0.250"><data value="0.25">25.0 %</data></span>' in result
    assert '<span class="none">-</span>' in result


def test_a_long_table_is_whole_and_says_how_many_rows_to_show_at_first_unless_few_more_are_left():
    long = section.table("t", "T", [Column("n", Unit.COUNT)], [(at,) for at in range(20)])
    assert "data-rows" not in table(long, LINKS, most_rows=17)
    html = table(long, LINKS, most_rows=16)
    assert '<table data-rows="16">' in html
    assert html.count("<tr>") == 21


def test_the_column_in_whose_order_the_rows_stand_is_marked():
    result = table(
        section.table("t", "T", [Column("a", Unit.COUNT), Column("b", Unit.COUNT)], [(1, 2)]), LINKS, order="b"
    )
    assert '<th scope="col" class="n">a</th><th scope="col" class="n" aria-sort="descending">b</th>' in result


def test_a_name_in_a_table_breaks_between_its_words_and_only_long_ones_within():
    columns = [Column("operation", Unit.NAME)]
    rows = [("convolution_fusion.63",), ("aten::copy_",), ("CppNode<SplitLookupFunction>",)]
    shown = table(section.table("t", "T", columns, rows), TimelineLinks(TimeZero({}, {})))
    assert "<bdi>convolution_<wbr>fusion.<wbr>63</bdi>" in shown
    assert "<bdi>aten::<wbr>copy_</bdi>" in shown
    assert '<bdi class="long">CppNode&lt;<wbr>SplitLookupFunction&gt;</bdi>' in shown


def test_names_of_a_column_keep_what_differs():
    names = [
        f"vectorized_elementwise_kernel<4, {'x' * 20}, {word}Functor<{'y' * 20}, float>>" for word in ("Add", "Mul")
    ]
    result = table(section.table("t", "T", [Column("name", Unit.NAME)], [(name,) for name in names]), LINKS)
    assert "AddFunctor" in result.partition(">vector")[2].partition("</bdi>")[0]
    assert 'title="vectorized_elementwise_kernel&lt;4' in result
