"""How figures and names read, in Python and in the page's scripts alike."""

import ast
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit import units

# The function's name, in Python and in JavaScript, its arguments, and what it says.
TABLE = [
    ("time", (0,), "0 ps"),
    ("time", (999,), "999 ps"),
    ("time", (1000,), "1.00 ns"),
    ("time", (1234,), "1.23 ns"),
    ("time", (1235,), "1.24 ns"),
    ("time", (25_400_000,), "25.40 µs"),
    ("time", (99_994_999,), "99.99 µs"),
    ("time", (99_995_000,), "100.0 µs"),
    ("time", (123_450_000,), "123.5 µs"),
    ("time", (999_949_999,), "999.9 µs"),
    ("time", (999_950_000,), "1.00 ms"),
    ("time", (999_999_999,), "1.00 ms"),
    ("time", (999_999_999_999,), "1.00 s"),
    ("time", (2 * 10**14,), "200.0 s"),
    ("time", (4 * 10**15,), "4000.0 s"),
    ("time", (-12_345_000_000,), "-12.35 ms"),
    ("time", (0.4,), "0 ps"),
    ("time", (999.5,), "1.00 ns"),
    ("percent", (0, 7), "0 %"),
    ("percent", (7, 7), "100 %"),
    ("percent", (1, 2), "50.0 %"),
    ("percent", (66, 1000), "6.6 %"),
    ("percent", (1, 1000), "0.1 %"),
    ("percent", (999, 1000), "99.9 %"),
    ("percent", (1, 10**9), "<0.1 %"),
    ("percent", (10**9 - 1, 10**9), ">99.9 %"),
    ("percent", (0.5,), "50.0 %"),
    ("percent", (0.0,), "0 %"),
    ("percent", (1.0,), "100 %"),
    ("percent", (1.034,), "103.4 %"),
    ("percent", (3, 0), "-"),
    ("size", (0,), "0 B"),
    ("size", (1023,), "1023 B"),
    ("size", (64 * 2**20,), "64 MiB"),
    ("size", (4_190_000,), "4.00 MiB"),
    ("size", (123_456_789,), "118 MiB"),
    ("size", (2**30 - 1,), "1.00 GiB"),
    ("size", (2**53 - 1,), "8192 TiB"),
    ("rate", (0, "B/s"), "0.00 B/s"),
    ("rate", (26_800_000_000, "B/s"), "26.8 GB/s"),
    ("rate", (999_600_000, "B/s"), "1.00 GB/s"),
    ("rate", (1.5e15, "FLOP/s"), "1.50 PFLOP/s"),
    ("count", (0,), "0"),
    ("count", (1234,), "1,234"),
    ("count", (1_234_567,), "1,234,567"),
    ("short", ("all-reduce.1", 12), "all-reduce.1"),
    ("short", ("all-reduce.12", 12), "all-re…ce.12"),
    ("short", ("all-reduce.12", 8), "all-red…"),
    ("short", ("void  f<int>\n(float)", 20), "f<int> (float)"),
    ("short", ("\N{ROCKET}" * 14, 12), "\N{ROCKET}" * 6 + "…" + "\N{ROCKET}" * 5),
]
# What a page may be asked to show: a number of JavaScript is exact up to 2**53.
LARGEST = 2**53 - 1
PS = st.one_of(
    st.integers(-LARGEST, LARGEST),
    st.integers(0, LARGEST // 10**6).map(lambda number: number * 10**5 // 2),
    st.builds(
        lambda digits, power, off: digits * 10**power // 2 + off,
        st.integers(1, 2000),
        st.integers(0, 12),
        st.integers(-1, 1),
    ),
)
# Axes: start and length in ps, and about how many ticks.
AXES = st.tuples(
    st.one_of(st.just(0), st.integers(0, LARGEST // 2)),
    st.one_of(
        st.integers(1, LARGEST // 2),
        st.builds(lambda digits, power: digits * 10**power, st.integers(1, 99), st.integers(0, 13)),
    ),
    st.integers(2, 20),
)
SOURCES = Path(units.__file__).parent
# The module itself, and what another Python runs, without tracekit.
OWN = ("units", "mxnet_runner")
MODULES = sorted(path for path in SOURCES.rglob("*") if path.suffix in (".py", ".js") and path.stem not in OWN)
DECIMALS = re.compile(r"(\.\d+[a-zA-Z]?|%)'$")
# A property of CSS may be of so many percents.
STYLE = re.compile(r"[\w-]+:$")
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.mark.parametrize(("name", "arguments", "words"), TABLE)
def test_a_figure_reads_like_this(name, arguments, words):
    assert getattr(units, name)(*arguments) == words


@pytest.mark.parametrize("name", ["time", "percent", "change", "factor", "size", "count", "mean", "number", "ppm"])
def test_what_is_missing_is_a_dash(name):
    assert [getattr(units, name)(null) for null in (None, pd.NA, float("nan"))] == ["-"] * 3
    assert units.rate(None, "B/s") == units.short(pd.NA, 9) == "-"


@pytest.mark.parametrize(
    ("ps", "words"),
    [(0, "0 s"), (1, "1 ps"), (1_250_000_001_000, "1.250000001 s"), (-1500, "-1.5 ns"), (10**15, "1000 s")],
)
def test_an_exact_time_has_every_digit(ps, words):
    assert units.exact(ps) == words


@pytest.mark.parametrize(
    ("length_ps", "symbol"), [(0, "ps"), (999, "ps"), (1000, "ns"), (10**6, "µs"), (10**9, "ms"), (10**14, "s")]
)
def test_the_unit_fits_the_length(length_ps, symbol):
    assert units.time_unit(length_ps)[1] == symbol


def test_shares_are_0_or_100_only_where_they_are_exactly_that_beyond_any_float():
    assert units.percent(10**20 - 1, 10**20) == ">99.9 %"
    assert units.percent(1, 10**20) == "<0.1 %"


@pytest.mark.parametrize(
    ("ratio", "words"), [(0, "0"), (0.004, "<1"), (0.015, "2"), (0.5, "50"), (0.992, ">99"), (1, "100")]
)
def test_whole_percents_are_0_or_100_only_where_they_are_exactly_that(ratio, words):
    assert units.whole_percent(ratio) == words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(1, "0 %"), (0.72, "-28.0 %"), (1.005, "+0.5 %"), (0.9999, "<0.1 % less"), (1.0001, "<0.1 % more")],
)
def test_a_change_that_is_not_nothing_is_never_told_as_nothing(ratio, words):
    assert units.change(ratio) == words


def test_numbers_have_three_digits():
    assert [units.number(value) for value in (6.04, 0.00123, 123.4, 7)] == ["6.04", "0.00123", "123", "7"]
    assert units.mean(1234.567) == "1,234.57"
    assert [units.ppm(value) for value in (20.0, -49.96, 0.5, 999.6)] == [
        "20 ppm",
        "-50 ppm",
        "0.5 ppm",
        "1,000 ppm",
    ]


def test_figures_need_no_pandas():
    code = "import sys, tracekit.units, tracekit.capture.phase; print('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_counts_have_their_noun():
    assert [units.quantity(1, "row"), units.quantity(1234, "row"), units.quantity(2, "copy", "copies")] == [
        "1 row",
        "1,234 rows",
        "2 copies",
    ]
    assert [units.compact_count(number) for number in (9999, 10_000, 999_499, 999_500, 1_240_000)] == [
        "9,999",
        "10k",
        "999k",
        "1.0M",
        "1.2M",
    ]


@pytest.fixture(scope="module", name="page")
def _page(chromium, tmp_path_factory):
    """A page of Chromium that holds nothing but units.js."""
    path = tmp_path_factory.mktemp("units") / "units.html"
    code = (resources.files("tracekit.report.html") / "units.js").read_text("utf-8")
    path.write_text(f"<!doctype html><meta charset=utf-8><title>units</title><script>{code}</script>", "utf-8")
    context = chromium.new_context()
    page = context.new_page()
    page.goto(path.as_uri())
    yield page
    context.close()


def evaluate(page, calls):
    """What the page's functions say: `calls` are pairs of a function's name and its arguments."""
    return page.evaluate("(calls) => calls.map(([name, values]) => tracekit.units[name](...values))", calls)


def test_the_page_reads_like_every_other_face(page):
    assert evaluate(page, [[name, list(arguments)] for name, arguments, _ in TABLE]) == [words for *_, words in TABLE]


@settings(max_examples=10)
@given(
    st.lists(PS, min_size=30, max_size=100),
    st.lists(st.tuples(st.integers(0, LARGEST), st.integers(1, LARGEST)), min_size=30),
    st.lists(st.tuples(NAMES, st.integers(2, 60)), min_size=30),
)
def test_the_page_reads_like_every_other_face_whatever_the_value(page, lengths, parts, names):
    calls = [["time", [ps]] for ps in lengths]
    calls += [["percent", [min(pair), max(pair)]] for pair in parts]
    calls += [["size", [abs(ps)]] for ps in lengths] + [["rate", [abs(ps), "B/s"]] for ps in lengths]
    calls += [["count", [abs(ps)]] for ps in lengths] + [["short", list(pair)] for pair in names]
    assert evaluate(page, calls) == [getattr(units, name)(*arguments) for name, arguments in calls]


def test_the_page_tells_exact_times_and_units_like_every_other_face(page):
    lengths = [0, 1, 999, 1000, 1500, 10**9, 1_250_000_001_000, 10**15, 123_456_789_012_345_678, 2**63 - 1]
    exact = page.evaluate("(all) => all.map((ps) => tracekit.units.exact(BigInt(ps)))", [str(ps) for ps in lengths])
    assert exact == [units.exact(ps) for ps in lengths]
    assert evaluate(page, [["timeUnit", [ps]] for ps in lengths[:8]]) == [[*units.time_unit(ps)] for ps in lengths[:8]]


@settings(max_examples=10)
@given(st.lists(AXES, min_size=50, max_size=100))
def test_the_axis_of_the_page_has_the_ticks_of_every_figure(page, axes):
    scales = [units.time_scale(length, start + length, most) for start, length, most in axes]
    assert evaluate(page, [["timeScale", [length, start + length, most]] for start, length, most in axes]) == [
        list(scale) for scale in scales
    ]
    times = [
        (multiple * step, size, decimals)
        for (start, _, _), (step, size, _, decimals, is_absolute) in zip(axes, scales, strict=True)
        for multiple in range(start // step if is_absolute else 0, (start // step if is_absolute else 0) + 9)
    ]
    texts = [units.decimal(*each) for each in times]
    assert evaluate(page, [["decimal", list(each)] for each in times]) == texts


def formatted(tree):
    """What a module's f-strings write as a percentage or with digits behind the point, but for properties of CSS."""
    figures = []
    for text in (node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)):
        for before, part, after in zip([None, *text.values], text.values, [*text.values[1:], None], strict=False):
            if isinstance(part, ast.FormattedValue):
                behind = after.value if isinstance(after, ast.Constant) else ""
                spec = ast.unparse(part.format_spec) if part.format_spec else ""
                is_style = isinstance(before, ast.Constant) and STYLE.search(before.value)
                if (DECIMALS.search(spec) or re.match(" ?%", behind)) and not is_style:
                    figures.append(ast.unparse(part.value))
    return figures


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_no_other_module_formats_figures(path):
    text = path.read_text("utf-8")
    assert (formatted(ast.parse(text)) if path.suffix == ".py" else re.findall(r"\S+\} ?%|toFixed", text)) == []


def test_formatted_figures_are_seen_in_any_text():
    tree = ast.parse(
        "[f'{a:.0%}', f'b {100 * b:.1f} % of it', f'{c}%', f'width:{d}%', f'{e} of it', f'{f:.2f} s', f'{g:6d}']"
    )
    assert formatted(tree) == ["a", "100 * b", "c", "f"]


FIGURES = [
    *(units.time(10**power) for power in range(15)),
    *(units.size(2**power) for power in range(0, 50, 5)),
    *(units.rate(10**power, unit) for power in range(1, 16, 3) for unit in ("B/s", "FLOP/s")),
    units.percent(0.172),
    units.ppm(20),
]


@pytest.mark.parametrize("figure", [figure for figure in FIGURES if " " in figure])
def test_no_line_ends_between_a_number_and_its_unit(figure):
    sentence = f"on gpu:0 10 of them ({figure}), {figure} each, 3 gaps of {figure}"
    assert units.unbroken(sentence) == sentence.replace(figure, figure.replace(" ", "\u00a0"))


@pytest.mark.parametrize(
    ("numbers", "first", "last", "expected"),
    [
        ({0, 1}, 0, 1, (0, "")),
        ({0, 2}, 0, 2, (1, "1")),
        ({1, 4}, 0, 7, (6, "0, 2-3, 5-7")),
        ({3, 900}, 1, 4, (3, "1-2, 4")),
        ((), 0, 2, (3, "0-2")),
        ({5}, 0, 2**40, (2**40, "0-4, 6-1099511627776")),
    ],
)
def test_numbers_that_are_not_there_are_ranges_however_many_they_are(numbers, first, last, expected):
    assert units.others(numbers, last, first) == expected


@pytest.mark.parametrize(
    ("numbers", "expected"), [((), ""), ({3}, "3"), ([5, 3, 4, 9], "3-5, 9"), ({0, 8, 16}, "0, 8, 16")]
)
def test_numbers_in_a_row_are_listed_as_one(numbers, expected):
    assert units.listed_numbers(numbers) == expected
