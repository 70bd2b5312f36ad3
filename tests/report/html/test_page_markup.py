"""Text becomes HTML that shows just that text, figures keep their exact values, long tables are folded."""

import pandas as pd
import pytest

from tracekit.report.html import markup
from tracekit.report.html.markup import Markup, join, tag
from tracekit.report.html.tables import sentences, table


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("a < b & \"c\" 'd'", "a &lt; b &amp; &quot;c&quot; &#x27;d&#x27;"),
        ("</script><img onerror=x>", "&lt;/script&gt;&lt;img onerror=x&gt;"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("bell\x07 escape\x1b[31m null\x00", "bell\ufffd escape\ufffd[31m null\ufffd"),
        ("right\u202eto left\u2066", "right\ufffdto left\ufffd"),
        ("half \ud800 a pair", "half \ufffd a pair"),
        ("Größe 名前 😀", "Größe 名前 😀"),
        (7, "7"),
    ],
)
def test_text_is_escaped_and_what_cannot_be_seen_is_replaced(words, shown):
    assert markup.text(words) == shown


def test_only_what_is_markup_stays_markup():
    made = tag("b", "x < y")
    assert tag("p", made, " & ", None, 1) == "<p><b>x &lt; y</b> &amp; 1</p>"
    assert join([made, "<i>"]) == "<b>x &lt; y</b>&lt;i&gt;"
    # What Python's own strings make of markup is text again.
    assert markup.text(made + "") == "&lt;b&gt;x &amp;lt; y&lt;/b&gt;"
    assert isinstance(made, Markup)


def test_attributes_are_quoted_and_left_out_without_a_value():
    given = {"class_": 'a"><script>', "data_from": 0, "open": True, "hidden": False, "title": None}
    assert tag("td", **given) == '<td class="a&quot;&gt;&lt;script&gt;" data-from="0" open></td>'
    assert tag("meta", content="x") == '<meta content="x">'


@pytest.mark.parametrize(
    ("made", "html"),
    [
        (markup.picoseconds(1234567), '<data value="1234567" title="1,234,567 ps">1.23 µs</data>'),
        (markup.picoseconds(2**62), f'<data value="{2**62}" title="{2**62:,} ps">4611686.0 s</data>'),
        (markup.share(0.5), '<data value="0.5">50.0 %</data>'),
        (markup.factor(1.974), '<data value="1.974">1.97x</data>'),
        (markup.number(12345), '<data value="12345">12,345</data>'),
        (markup.share(None, "no work"), '<span class="none" title="no work">-<span class="sr"> no work</span></span>'),
        (markup.picoseconds(pd.NA), '<span class="none">-</span>'),
        (markup.factor(float("nan")), '<span class="none">-</span>'),
        (markup.number(pd.NA, None), '<span class="none">-</span>'),
        (markup.name(pd.NA), '<span class="none">-</span>'),
        (markup.name(" \n"), "<bdi>(no name)</bdi>"),
        (markup.name("a\n b"), "<bdi>a b</bdi>"),
    ],
)
def test_a_figure_keeps_its_exact_value_and_a_missing_one_its_reason(made, html):
    assert made == html


def test_of_a_long_name_both_ends_are_shown_and_all_of_it_is_in_its_title():
    long = "<" + "a" * 40 + "b" * 40
    assert markup.name(long) == f'<bdi title="&lt;{long[1:]}">&lt;{"a" * 23}…{"b" * 23}</bdi>'
    assert markup.name("x" * 48) == f"<bdi>{'x' * 48}</bdi>"


def test_a_table_names_its_columns_and_rows_and_puts_figures_to_the_right():
    made = table("T", ["name", "time", "what"], [["a", "1.2 ms", "x"], ["b", "-", "2"], ["c", "<0.1 %", "3 of 8"]])
    assert made == (
        '<div class="wide" tabindex="0" role="group" aria-label="T"><table><caption><span>T</span></caption>'
        '<thead><tr><th scope="col">name</th><th scope="col" class="n">time</th><th scope="col">what</th></tr></thead>'
        '<tbody><tr><th scope="row">a</th><td class="n">1.2 ms</td><td>x</td></tr>'
        '<tr><th scope="row">b</th><td class="n">-</td><td>2</td></tr>'
        '<tr><th scope="row">c</th><td class="n">&lt;0.1 %</td><td>3 of 8</td></tr></tbody></table></div>'
    )


def test_the_rest_of_a_long_table_is_folded_unless_it_is_short():
    rows = [[str(at)] for at in range(20)]
    assert "<details>" not in table("T", ["n"], rows, shown=17)
    folded = table("T", ["n"], rows, shown=16)
    first, _, rest = folded.partition("<details><summary>4 more</summary>")
    assert (first.count("<tr>") - 1, rest.count("<tr>") - 1) == (16, 4)
    assert 'aria-label="T: 4 more"' in rest


def test_one_sentence_is_a_paragraph_and_several_are_a_list():
    assert sentences(["a < b."]) == "<p>a &lt; b.</p>"
    assert sentences(["a.", "b."]) == "<ul><li>a.</li><li>b.</li></ul>"
    assert sentences([]) == ""
