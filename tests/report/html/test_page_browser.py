"""The page in a real Chromium: it shows itself without error, fits, follows the theme, prints, and needs no mouse."""

import re

import pandas as pd
import pytest

from tests.browser import Pages
from tests.frames import events, spans, trace
from tests.report.html.pages import HOSTILE, html, report
from tracekit.columns import frame
from tracekit.report.build import analyse
from tracekit.report.html.page import page as page_of
from tracekit.report.part import choose
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import LAUNCH_COLUMNS
from tracekit.units import percent

NAMES = ("captured", "hostile", "many", "empty")


@pytest.fixture
def open_report(open_page, tmp_path):
    """Open the page of that name; any error, request or dialog fails the test."""

    def open_by_name(name: str, **options):
        path = tmp_path / f"{name}.html"
        path.write_text(html(name), "utf-8")
        return open_page(path, **options)

    return open_by_name


@pytest.fixture(scope="module")
def open_shared(chromium, tmp_path_factory):
    """The page of that name on a screen, opened once for all tests that leave it as it was."""
    pages, open_pages = Pages(chromium), {}

    def open_by_name(name: str):
        if name not in open_pages:
            path = tmp_path_factory.mktemp("shared") / f"{name}.html"
            path.write_text(html(name), "utf-8")
            open_pages[name] = pages.open(path)
        return open_pages[name]

    yield open_by_name
    pages.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_fits_a_phone_and_a_screen_and_makes_no_error(open_report, name):
    page = open_report(name, viewport={"width": 360, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    widths = "[document.documentElement.scrollWidth, document.body.scrollWidth]"
    assert page.evaluate(widths) == [360, 360]
    # Names in tables go on in the next line: their ends may be all that differs.
    names = page.locator("td > bdi, th > bdi")
    assert names.evaluate_all("all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).length") == 0
    page.set_viewport_size({"width": 1280, "height": 800})
    assert page.evaluate(widths) == [1280, 1280]


@pytest.mark.parametrize("name", ["captured", "stepped", "several", "clocks"])
def test_with_the_whole_in_view_each_lane_says_the_share_of_the_tables(open_report, name):
    # The view has margins, and steps and phases may begin before the first work: none of that counts.
    page = open_report(name)
    page.locator(".tl-plot").scroll_into_view_if_needed()
    page.get_by_role("button", name="Whole", exact=True).click()
    cells = report(name).whole.partition.to_dict("records")
    shares = {row["device"]: percent(row["busy_ps"], row["window_ps"]) for row in cells}
    rows = """[...document.querySelectorAll(".tl-row")].map((row) =>
        [".tl-device", ".tl-busy"].map((part) => row.querySelector(part)?.textContent))"""
    known = f"{rows}.filter(([device]) => device in shares)"
    assert page.evaluate(f"(shares) => {known}.length", shares) >= min(2, len(shares))
    page.wait_for_function(f"(shares) => {known}.every(([device, share]) => shares[device] === share)", arg=shares)


def test_of_a_phase_of_several_rounds_each_lane_says_the_share_of_the_rounds_as_the_tables_do(open_page, tmp_path):
    rows = events(
        ("gpu:0", "compute", 10, 100),
        ("gpu:0", "compute", 150, 210),
        ("gpu:0", "memcpy", 410, 460, "c", "H2D"),
        ("gpu:1", "compute", 20, 90),
        ("gpu:1", "compute", 420, 490),
    )
    rows["correlation_id"] = pd.array([1, 2, 3, pd.NA, pd.NA], "Int64")
    calls = {"host": ["h"] * 3, "thread": ["t"] * 3, "name": ["launch"] * 3, "correlation_id": [1, 2, 3]}
    launches = frame(LAUNCH_COLUMNS, calls | {"start_ps": [0, 110, 405], "end_ps": [10, 150, 415]})
    timeline = timeline_of(trace(rows, spans(("p", 0, 100), ("p", 400, 500)), launches=launches))
    part = choose(timeline, phase="p")
    phase = analyse(timeline, phase="p")
    (tmp_path / "page.html").write_text(page_of(phase, part.of(timeline)), "utf-8")
    page = open_page(tmp_path / "page.html")
    page.get_by_role("button", name="Whole", exact=True).click()
    # Both devices were busy for 140 of 200 ps, which begin and end idle; calls took 20 of them, others lie between.
    cells = phase.whole.partition.set_index("device")
    assert cells[["busy_ps", "window_ps"]].to_numpy().tolist() == [[140, 200]] * 2
    shown = """Object.fromEntries([...document.querySelectorAll('.tl-row[aria-level="1"]')].map((row) =>
        [".tl-device", ".tl-busy"].map((at) => row.querySelector(at).textContent)))"""
    page.wait_for_function(f"{shown}['gpu:0'] !== ''")
    assert page.evaluate(shown) == {"gpu:0": "70.0 %", "gpu:1": "70.0 %", "host h": "10.0 %"}


def test_hostile_names_make_no_element_and_run_nothing(open_shared):
    page = open_shared("hostile")
    assert page.evaluate("document.images.length") == 0
    assert page.title().count(HOSTILE) == 1
    assert page.text_content("#notes li") == f"note{HOSTILE}"


def test_no_script_but_the_pages_own_can_run(tmp_path, chromium):
    path = tmp_path / "page.html"
    path.write_text(html("one").replace("</main>", "<script>document.title = 'taken'</script></main>"), "utf-8")
    pages = Pages(chromium)
    assert pages.open(path).title() != "taken"
    (problem,) = pages.problems
    assert problem.startswith("console: Executing inline script violates the following Content Security Policy")


def test_the_theme_follows_the_system_until_one_is_chosen(open_report):
    page = open_report("one", color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(20, 23, 27)"
    button = page.get_by_role("button", name="Light theme")
    button.click()
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    page.reload()
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="light")
    page.get_by_role("button", name="Dark theme").click()
    assert page.evaluate(ground) == "rgb(20, 23, 27)"


def test_without_scripts_every_figure_is_there(open_report):
    page = open_report("captured", java_script_enabled=False)
    assert page.locator("#timeline noscript").bounding_box()["height"] > 10
    assert page.locator("#phases table").first.is_visible()
    assert not page.locator("#theme").is_visible()


def test_folds_say_what_they_hold_and_open_by_link_by_address_and_all_at_once(open_report):
    page = open_report("stepped", fragment="idle")
    opened = "[...document.querySelectorAll('details.part[open]')].map((fold) => fold.parentElement.id)"
    assert page.evaluate(opened) == ["idle"]
    page.get_by_role("navigation").get_by_role("link", name="Launches").click()
    page.wait_for_selector("#launches .part[open]")
    page.get_by_role("button", name="Unfold all").click()
    page.wait_for_selector("text=Fold all")
    folds = page.locator("details.part").count()
    assert len(page.evaluate(opened)) == folds > 8
    page.get_by_role("button", name="Fold all").click()
    page.wait_for_selector("text=Unfold all")
    assert page.evaluate(opened) == []


def test_a_fold_opens_by_its_address_whatever_the_timeline_writes_over_it(open_report):
    page = open_report("stepped")
    page.wait_for_selector("#timeline[data-ready]")
    # As the timeline does when it comes to rest between a change of the address and the event that tells of it.
    go = "(go) => { go(); history.replaceState(null, '', '#t=0-1'); }"
    page.evaluate(f"({go})(() => document.querySelector('nav a[href=\"#launches\"]').click())")
    page.wait_for_selector("#launches .part[open]", timeout=5_000)
    page.evaluate(f"({go})(() => {{ location.hash = '#idle'; }})")
    page.wait_for_selector("#idle .part[open]", timeout=5_000)


def test_what_is_folded_is_printed(open_report):
    page = open_report("stepped")
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#idle table").first.is_visible()
    assert page.locator("#time details table").first.is_visible()
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.part[open], #time details[open]").count() == 0


def test_the_story_stands_above_the_fold(open_report):
    page = open_report("several", viewport={"width": 1440, "height": 900})
    page.wait_for_selector("#timeline[data-ready]")
    ends = "(at) => document.querySelector(at).getBoundingClientRect().bottom"
    bottoms = [page.evaluate(ends, at) for at in ("h1", ".figures", "#timeline .tl-frame")]
    assert bottoms == sorted(bottoms)
    assert bottoms[-1] <= 900


def test_on_a_phone_the_timeline_begins_in_the_upper_two_thirds(open_report):
    page = open_report("several", viewport={"width": 390, "height": 844})
    page.wait_for_selector("#timeline[data-ready]")
    box = "(at) => { const box = document.querySelector(at).getBoundingClientRect(); return [box.top, box.right]; }"
    (title, _), (picture, _) = (page.evaluate(box, at) for at in ("#timeline", "#timeline .tl-frame"))
    assert title <= 520
    assert picture <= 844 * 2 / 3 + 60
    # A long number does not reach over the words beside it.
    sides = page.evaluate(
        "[...document.querySelectorAll('.figures > div')].map((figure) => [figure.querySelector('b')"
        ".getBoundingClientRect().right, figure.querySelector('dt').getBoundingClientRect().left])"
    )
    assert len(sides) >= 2
    assert all(number < words for number, words in sides)


def test_a_bar_tells_its_exact_times_on_focus_and_on_hover(open_shared):
    page = open_shared("phases")
    bar = page.locator("#time .hold").first
    tip = bar.locator(".tip")
    assert not tip.is_visible()
    bar.focus()
    assert tip.is_visible()
    assert re.sub(r"\s+", " ", tip.inner_text()) == (
        "gpu:0 compute only 20.00 ms 58.8 % 20,000,000,000 ps "
        "collective behind compute 1.00 ms 2.9 % 1,000,000,000 ps "
        "collective alone 3.00 ms 8.8 % 3,000,000,000 ps "
        "idle 10.00 ms 29.4 % 10,000,000,000 ps"
    )
    page.locator("h1").click()
    assert not tip.is_visible()
    bar.hover()
    assert tip.is_visible()


def test_what_is_in_view_is_marked_in_the_navigation(open_shared):
    page = open_shared("captured")
    page.get_by_role("navigation").get_by_role("link", name="Phases").click()
    page.wait_for_selector("nav a[aria-current][href='#phases']")
    top = page.evaluate("document.getElementById('phases').getBoundingClientRect().top")
    assert 40 <= top <= 120


def test_the_navigation_follows_the_section_in_view_but_moves_under_no_pointer_and_no_keyboard(open_report):
    page = open_report("captured", viewport={"width": 700, "height": 800})
    scrolled = "document.querySelector('nav ul').scrollLeft"
    go_to_end = "document.querySelector('main > section:last-of-type').scrollIntoView()"
    last = page.locator("nav a").last
    page.locator("nav a").first.hover()
    page.evaluate(go_to_end)
    page.wait_for_selector("nav a[aria-current]:not([href='#timeline'], [href='#verdict'])")
    assert page.evaluate(scrolled) == 0
    page.mouse.move(350, 600)
    page.wait_for_function(f"() => {scrolled} > 0")
    before = page.evaluate(scrolled)
    last.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    at_link = page.evaluate(scrolled)
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_selector("nav a[aria-current][href='#timeline'], nav a[aria-current][href='#verdict']")
    assert page.evaluate(scrolled) == at_link >= before
    page.evaluate("document.activeElement.blur()")
    page.evaluate(go_to_end)
    page.wait_for_selector("nav a[aria-current]:not([href='#timeline'], [href='#verdict'])")
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_function(f"() => {scrolled} === 0")


def test_the_keyboard_reaches_everything_in_the_order_of_the_page(open_shared):
    page = open_shared("phases")
    expected = page.evaluate(
        """() => [...document.querySelectorAll('a, button, summary, input, select, .hold, .wide[tabindex]')]
        .filter((one) => !one.closest('#timeline') && one.checkVisibility())
        .map((one) => one.outerHTML.replace(' aria-current="true"', '').slice(0, 200))"""
    )
    page.reload()
    stops = []
    for _ in range(3 * len(expected)):
        page.keyboard.press("Tab")
        at = page.evaluate(
            """() => { const one = document.activeElement; return one === document.body ? null :
            one.closest('#timeline') ? '' :
            one.outerHTML.replace(' aria-current="true"', '').slice(0, 200); }"""
        )
        if at is None:
            break
        stops += [at] if at else []
    assert stops == expected
    assert "Skip to the content" in stops[0]


def test_only_a_table_that_scrolls_is_a_stop_of_the_keyboard(open_report):
    page = open_report("phases")
    page.wait_for_selector("#phases .wide:not([tabindex])")
    page.set_viewport_size({"width": 360, "height": 800})
    table = page.wait_for_selector("#phases .wide[tabindex]")
    table.evaluate("one => one.addEventListener('scroll', () => { one.id = 'scrolled'; })")
    table.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#scrolled")


def test_what_has_the_focus_is_outlined(open_shared):
    page = open_shared("phases")
    for selector in ("nav a", "#time .hold", "#time summary", ".jump"):
        page.locator(selector).first.focus()
        page.keyboard.press("Shift")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", selector


def test_landmarks_and_controls_have_names(open_shared):
    page = open_shared("captured")
    snapshot = page.locator("body").aria_snapshot()
    for landmark in ("- banner:", '- navigation "Sections"', "- main", "- contentinfo:"):
        assert landmark in snapshot
    for title in ("Verdict", "Where the time went", "Phases", "Timeline"):
        assert f'region "{title}' in snapshot
        assert re.search(rf'heading "{title}(: [^"]+)?" \[level=2\]', snapshot)
    assert not re.findall(r"^\s*- (button|link|img|region|table)(:|$)", snapshot, re.M)


def test_print_leaves_out_the_navigation_and_keeps_the_colours_of_the_bars(open_shared):
    page = open_shared("captured")
    page.emulate_media(media="print", color_scheme="dark")
    assert not page.locator(".top").is_visible()
    style = page.evaluate(
        """() => { const one = getComputedStyle(document.querySelector('#time .seg')); return
        [one.printColorAdjust, getComputedStyle(document.body).backgroundColor]; }""".replace(
            "return\n        ", "return "
        )
    )
    page.emulate_media(media="screen", color_scheme="light")
    assert style == ["exact", "rgb(255, 255, 255)"]


def test_the_printed_page_can_be_read(open_shared):
    page = open_shared("captured")
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 20
