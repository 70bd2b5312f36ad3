"""Tables of the page in a browser: heads sort, a search filters, of several on one question one is shown."""

import pandas as pd
import pytest

from tests.frames import events, trace
from tests.report.html.pages import html
from tracekit.columns import frame
from tracekit.report.build import analyse
from tracekit.report.html.page import page as page_of
from tracekit.trace import OP_COLUMNS

US = 10**6
# Twenty kernels of 100 to 2000 µs, one after the other, all but the first two of an operator; on a second device two.
LENGTHS = [(at * 7 % 20 + 1) * 100 for at in range(20)]
OPERATORS = ["aten::mm", "aten::add"]


def _report():
    rows, start = [], 0
    for at, length in enumerate(LENGTHS):
        rows.append(("gpu:0", "compute", start, start + length * US, f"kernel_{at}"))
        start += length * US
    rows += [("gpu:1", "compute", 0, 300 * US, "kernel_3"), ("gpu:1", "compute", 300 * US, 350 * US, "relu")]
    ops = pd.array([None, None, *(at % 2 for at in range(20))], "Int64")
    return analyse(trace(events(*rows).assign(op=ops), ops=frame(OP_COLUMNS, {"framework_op": OPERATORS})))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "page.html"
    path.write_text(page_of(_report()), "utf-8")
    return path


@pytest.fixture
def page(open_page, path):
    return open_page(path)


def shown(page, column):
    """The cells of a column of the rows that are shown in Top operations."""
    cells = page.locator("#top_ops .wide:not(.off) tbody tr:not([hidden])").locator(f":nth-child({column})")
    return cells.evaluate_all("all => all.filter((cell) => /^T[DH]$/.test(cell.tagName)).map((cell) => cell.innerText)")


def head(page, name):
    return page.locator("#top_ops .wide:not(.off) th").filter(has=page.get_by_role("button", name=name, exact=True))


def times(numbers):
    return [f"{number / 1000:.2f} ms" if number >= 1000 else f"{number:.1f} µs" for number in numbers]


def test_a_head_sorts_numbers_as_numbers_then_the_other_way_then_as_at_first(page):
    totals = sorted([*LENGTHS[:3], LENGTHS[3] + 300, *LENGTHS[4:], 50], reverse=True)
    page.get_by_role("button", name="Show all 21").click()
    assert shown(page, 4) == [*times(totals[:-1]), "50.00 µs"]
    assert head(page, "total").get_attribute("aria-sort") == "descending"
    button = head(page, "median").get_by_role("button")
    first = shown(page, 1)
    for sort, order in (("descending", -1), ("ascending", 1)):
        button.focus()
        page.keyboard.press("Enter")
        assert head(page, "median").get_attribute("aria-sort") == sort
        assert head(page, "total").get_attribute("aria-sort") is None
        medians = sorted([*LENGTHS[:3], (LENGTHS[3] + 300) // 2, *LENGTHS[4:], 50], key=lambda length: order * length)
        assert shown(page, 6) == [text if text != "50.0 µs" else "50.00 µs" for text in times(medians)]
    button.press(" ")
    assert shown(page, 1) == first
    assert head(page, "total").get_attribute("aria-sort") == "descending"


def test_names_sort_by_their_numbers_and_what_is_missing_stands_last(page):
    page.get_by_role("button", name="Show all 21").click()
    head(page, "operation").get_by_role("button").click()
    assert shown(page, 1) == [*(f"kernel_{at}" for at in range(20)), "relu"]
    operators = head(page, "operator").get_by_role("button")
    for _ in range(2):
        operators.click()
        assert [cell[0] for cell in shown(page, 9)[-2:]] == ["-", "-"]


def test_a_search_shows_what_matches_and_of_how_many(page):
    count, search = page.locator("#top_ops output"), page.get_by_role("searchbox", name="Search Top operations")
    assert (len(shown(page, 1)), count.inner_text()) == (12, "12 of 21 rows")
    for text, found, words in (
        ("KERNEL_1", 11, "11 of 21 rows"),
        ("aten::mm", 10, "10 of 21 rows"),
        ("/l_[34]$/m", 2, "2 of 21 rows"),
        ("nothing", 0, "None of 21 rows matches"),
    ):
        search.fill(text)
        assert (len(shown(page, 1)), count.inner_text()) == (found, words)
    search.fill("/(/")
    assert "regular expression" in count.inner_text()
    search.fill("")
    assert count.inner_text() == "12 of 21 rows"


def test_operations_are_chosen_by_what_they_are_grouped_by_and_by_device(page):
    page.get_by_label("Device", exact=True).select_option("gpu:1")
    assert shown(page, 1) == ["kernel_3", "relu"]
    assert set(shown(page, 2)) == {"gpu:1"}
    page.get_by_role("button", name="operator", exact=True).first.click()
    assert (set(shown(page, 2)), sorted(shown(page, 1))) == ({"gpu:1"}, ["aten::add", "aten::mm"])
    page.get_by_label("Device", exact=True).select_option("all devices")
    assert [cell.split("\n")[0] for cell in sorted(shown(page, 1))] == [
        "aten::add", "aten::mm", "no operator recorded",
    ]  # fmt: skip
    page.get_by_role("button", name="pattern", exact=True).first.click()
    assert not page.get_by_label("Device", exact=True).is_visible()
    page.get_by_role("button", name="operation", exact=True).first.click()
    page.get_by_label("Device", exact=True).select_option("gpu:1")
    assert shown(page, 1) == ["kernel_3", "relu"]
    assert page.get_by_role("button", name="operation", exact=True).first.get_attribute("aria-pressed") == "true"


def test_without_scripts_all_rows_of_all_tables_are_there(open_page, path):
    page = open_page(path, java_script_enabled=False)
    tables = page.locator("#top_ops table")
    assert [table.is_visible() for table in tables.all()] == [True] * 5
    assert tables.first.locator("tbody tr:visible").count() == 21
    assert page.locator("#top_ops button, #top_ops input").count() == 0


def test_paper_has_every_table_and_says_how_many_rows_it_leaves_out(page):
    page.emulate_media(media="print")
    assert [table.is_visible() for table in page.locator("#top_ops table").all()] == [True] * 5
    assert page.locator("#top_ops output").is_visible()
    controls = page.locator("#top_ops .tools").locator("input, select, button")
    assert not any(control.is_visible() for control in controls.all())


def test_no_table_runs_off_the_paper(open_page, tmp_path):
    path = tmp_path / "stepped.html"
    path.write_text(html("stepped"), "utf-8")
    page = open_page(path, viewport={"width": 720, "height": 900})
    page.emulate_media(media="print")
    right = "tables => Math.max(...tables.map(table => table.getBoundingClientRect().right))"
    assert page.locator("table:visible").evaluate_all(right) <= 720


def test_every_other_table_sorts_too_and_a_long_one_is_folded_and_searched(open_page, tmp_path):
    path = tmp_path / "many.html"
    path.write_text(html("many"), "utf-8")
    page = open_page(path, fragment="together")
    rows = page.locator("#together tbody tr:visible")
    first = rows.first.inner_text()
    assert rows.count() < page.locator("#together tbody tr").count()
    page.locator("#together .tools input").fill("gpu:3")
    assert rows.count() == sum("gpu:3" in row for row in page.locator("#together tbody tr").all_text_contents())
    page.locator("#together .sort").last.click()
    page.locator("#together .tools input").fill("")
    assert rows.first.inner_text() != first
