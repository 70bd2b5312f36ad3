"""The timeline under a mouse, a finger and the page's links: it takes no more of a scroll than it is given."""

import pytest

from tests.frames import events, trace
from tests.report.html.timeline_page import US, at, box, focus, frames, view, write_page, x_of

SCROLLED = "scrollY"
HINT = ".tl-hint:visible"


def wheel(page, turn: float, key: str | None = None) -> None:
    """Turns the wheel where the pointer is, perhaps with a key held, and waits until that has had its effect."""
    if key:
        page.keyboard.down(key)
    page.mouse.wheel(0, turn)
    if key:
        page.keyboard.up(key)
    page.wait_for_timeout(60)


def middle(page) -> tuple[float, float]:
    place = box(page)
    return place["x"] + place["width"] * 0.3, place["y"] + 60


def test_the_wheel_scrolls_the_page_and_says_how_to_zoom(page):
    before, top = view(page), page.evaluate(SCROLLED)
    page.mouse.move(*middle(page))
    wheel(page, -200)
    assert view(page) == before
    page.wait_for_function(f"() => scrollY < {top}")
    assert page.locator(HINT).inner_text() == "Ctrl + wheel zooms, or click the timeline first"


def test_the_page_that_scrolls_past_the_timeline_gets_no_hint(page):
    page.evaluate("scrollTo(0, 0)")
    page.mouse.move(700, 750)
    far = box(page)["y"] - 690
    for _ in range(5):
        page.mouse.wheel(0, far / 5)
    page.wait_for_function("() => document.elementFromPoint(700, 750).closest('.tl-plot')")
    page.mouse.wheel(0, 20)
    assert page.locator(HINT).count() == 0


def test_with_ctrl_the_wheel_zooms_and_the_time_under_the_pointer_stays(page):
    before = view(page)
    x, y = map(round, middle(page))
    place = box(page)
    share = (x - place["x"]) / place["width"]
    time = before[0] + share * (before[1] - before[0])
    page.mouse.move(x, y)
    top = page.evaluate(SCROLLED)
    for turn in (-300, -500, -40, -40, -300, -300, 200):
        wheel(page, turn, "Control")
        start, end = view(page)
        assert start + share * (end - start) == pytest.approx(time, abs=(end - start) / 1000)
    assert (end - start) < 0.5 * (before[1] - before[0])
    assert page.evaluate(SCROLLED) == top


@pytest.mark.parametrize("release", ["Escape", "click outside"])
def test_after_a_click_the_wheel_zooms_until_escape_or_a_click_outside(page, release):
    before, top = view(page), page.evaluate(SCROLLED)
    page.mouse.click(*middle(page))
    assert page.locator(HINT).inner_text() == "The wheel now zooms, until Escape or a click outside"
    wheel(page, -300)
    nearer = view(page)
    assert (nearer[1] - nearer[0], page.evaluate(SCROLLED)) == (
        pytest.approx(0.619 * (before[1] - before[0]), rel=0.01),
        top,
    )
    if release == "Escape":
        page.keyboard.press("Escape")
    else:
        page.mouse.click(5, 5)
        page.mouse.move(*middle(page))
    wheel(page, -200)
    page.wait_for_function(f"() => scrollY < {top}")
    assert view(page) == nearer


def test_a_wheel_that_turns_sideways_moves_in_time(page):
    page.evaluate("tracekit.act.show({ from: 50e3, to: 150e3 })")
    page.mouse.move(*middle(page))
    page.mouse.wheel(100, 10)
    page.wait_for_function("() => tracekit.app.view.from > 55e3")
    assert view(page)[1] - view(page)[0] == pytest.approx(100 * US)


def test_the_arrows_scroll_the_page_where_no_lanes_are_left_to_scroll(page):
    focus(page)
    top = page.evaluate(SCROLLED)
    page.keyboard.press("ArrowUp")
    page.wait_for_function(f"() => scrollY < {top}")


def test_a_drag_moves_the_time_with_the_pointer(page):
    page.evaluate("tracekit.act.show({ from: 50e3, to: 150e3 })")
    before = view(page)
    x, y = map(round, at(page, 100 * US, "g0"))
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 120, y, steps=4)
    page.mouse.up()
    after = view(page)
    assert after[1] - after[0] == pytest.approx(before[1] - before[0])
    assert x_of(page, 100 * US) == pytest.approx(x + 120, abs=1)


def test_hovering_tells_the_row_and_what_ran_beside_it(page):
    page.mouse.move(*at(page, 30 * US, "l2"))
    page.wait_for_selector(".tl-tip:visible")
    facts = dict(
        zip(page.locator(".tl-tip dt").all_inner_texts(), page.locator(".tl-tip dd").all_inner_texts(), strict=True)
    )
    assert page.locator(".tl-tip .tl-name").inner_text().split() == ["copy", "memcpy", "H2D"]
    assert page.locator(".tl-tip .tl-square").get_attribute("class") == "tl-square tl-memcpy"
    assert facts == {
        "on": "gpu:0, memcpy",
        "start": "20.00 µs",
        "duration": "40.00 µs",
        "bytes": "3.81 MiB (4,000,000 B)",
        "rate": "100 GB/s",
        "launched by": "launch, 5.00 µs before the start, on main",
        "overlaps compute": "compute 20.00 µs (50.0 %)",
        "overlaps collective": "collective 20.00 µs (50.0 %)",
        "overlaps gpu:1": "compute 30.00 µs (75.0 %), collective 10.00 µs (25.0 %)",
    }


def test_the_tooltip_never_hides_the_lane_it_tells_of(page):
    page.evaluate("tracekit.act.find('')")
    heights = set()
    for key in ("g0", "l2", "l4", "g2"):
        # In the middle of the window, and at its foot and its head.
        for edge in ("center", "end", "start"):
            page.evaluate(
                "([key, block]) => document.querySelector(`[data-key=${key}]`).scrollIntoView({ block })", [key, edge]
            )
            page.mouse.move(5, 5)
            page.mouse.move(*at(page, 30 * US if key != "g2" else 15 * US + US // 2, key))
            frames(page)
            row = page.locator(f".tl-row[data-key={key}]").bounding_box()
            tip = page.locator(".tl-tip").bounding_box()
            heights.add(round(tip["height"]))
            assert tip["y"] >= row["y"] + row["height"] or tip["y"] + tip["height"] <= row["y"], (key, edge)
            assert tip["y"] >= 0
            assert tip["y"] + tip["height"] <= 900
    assert min(heights) > 20


def test_the_tooltip_leaves_what_ran_at_the_same_time_in_sight(page):
    for start, inside, end in ((20, 30, 60), (220, 250, 260)):
        page.mouse.move(*at(page, inside * US, "l2"))
        page.wait_for_selector(".tl-tip:visible")
        tip = page.locator(".tl-tip").bounding_box()
        assert tip["x"] > x_of(page, end * US) or tip["x"] + tip["width"] < x_of(page, start * US)


def test_what_scrolls_away_from_the_pointer_takes_its_tooltip_along(page):
    page.mouse.move(*at(page, 30 * US, "l2"))
    page.wait_for_selector(".tl-tip:visible")
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_selector(".tl-tip", state="hidden")


def test_shift_and_drag_measure_a_range_live_and_escape_lets_go(page):
    x, y = at(page, 20 * US, "l0")
    page.keyboard.down("Shift")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x_of(page, 60 * US), y, steps=3)
    frames(page)
    assert page.locator(".tl-measured").is_visible()
    page.mouse.up()
    page.keyboard.up("Shift")
    page.evaluate("tracekit.act.range({ from: 20e3, to: 60e3 })")
    cells = [
        row.all_inner_texts()
        for row in (page.locator(".tl-measured tbody tr").nth(k).locator("th, td") for k in range(3))
    ]
    assert cells == [
        ["gpu:0", "40.00 µs", "100 %", "20.00 µs", "20.00 µs", "40.00 µs", "0 %", "50.0 %", "50.0 %"],
        ["gpu:1", "40.00 µs", "100 %", "30.00 µs", "10.00 µs", "-", "0 %", "-", "-"],
        ["gpu:0 & gpu:1", "40.00 µs", "100 %", "100 %"],
    ]
    focus(page)
    page.keyboard.press("Escape")
    assert page.locator(".tl-measured").is_hidden()


def touches(phone):
    """A function that sends fingers at (x, y) to the page: touchStart, touchMove or touchEnd."""
    session = phone.context.new_cdp_session(phone)

    def send(what: str, *places: tuple[float, float]) -> None:
        points = [{"x": x, "y": y, "id": finger} for finger, (x, y) in enumerate(places)]
        session.send("Input.dispatchTouchEvent", {"type": what, "touchPoints": points})

    return send


def test_one_finger_moves_the_page_up_and_down_and_the_time_sideways(phone):
    fingers = touches(phone)
    phone.evaluate("tracekit.act.show({ from: 50e3, to: 150e3 })")
    before, top = view(phone), phone.evaluate(SCROLLED)
    x, y = middle(phone)
    fingers("touchStart", (x, y))
    for step in range(1, 9):
        fingers("touchMove", (x - 10 * step, y + step))
    fingers("touchEnd")
    after = view(phone)
    assert after[0] - before[0] == pytest.approx(80 / box(phone)["width"] * 100 * US, rel=0.3)
    assert (after[1] - after[0], phone.evaluate(SCROLLED)) == (pytest.approx(100 * US), top)
    fingers("touchStart", (x, y))
    for step in range(1, 9):
        fingers("touchMove", (x + step, y + 20 * step))
    fingers("touchEnd")
    phone.wait_for_function(f"() => scrollY < {top} - 80")
    assert view(phone) == after


def test_two_fingers_pinch_without_selecting_anything(phone):
    fingers = touches(phone)
    y = middle(phone)[1]
    left, right = x_of(phone, 100 * US), x_of(phone, 200 * US)
    fingers("touchStart", (left, y))
    fingers("touchStart", (left, y), (right, y))
    for step in range(1, 5):
        fingers("touchMove", (left - 10 * step, y), (right + 10 * step, y))
    assert x_of(phone, 100 * US) == pytest.approx(left - 40, abs=2)
    assert x_of(phone, 200 * US) == pytest.approx(right + 40, abs=2)
    fingers("touchEnd")
    assert phone.evaluate("[tracekit.app.selected, tracekit.app.range, visualViewport.scale]") == [-1, None, 1]


def test_a_tap_brings_the_details_into_sight(phone):
    phone.evaluate("document.querySelector('.tl-frame').scrollIntoView({ block: 'end' })")
    phone.touchscreen.tap(*at(phone, 160 * US, "l0"))
    phone.wait_for_function(
        "() => document.querySelector('.tl-selected').getBoundingClientRect().bottom <= innerHeight + 1"
    )
    assert phone.locator(".tl-selected b").inner_text() == "all-reduce"


def test_a_link_of_the_page_shows_its_stretch_its_device_and_what_it_seeks(page):
    page.evaluate("scrollTo(0, 0)")
    page.locator("#jump").click()
    start, end = view(page)
    assert start < 100 * US < 180 * US < end < 300 * US
    assert page.locator(".tl-search input").input_value() == "gemm"
    assert page.evaluate("document.activeElement.className") == "tl-plot"
    # No event is just that long: it is measured.
    assert page.evaluate("[tracekit.app.range.from, tracekit.app.range.to]") == [100e3, 180e3]


def test_a_link_to_an_event_selects_it_and_shows_its_details(open_page, tmp_path):
    rows = [
        (f"gpu:{d}", "collective", (10 * at + d) * US, (10 * at + 8) * US, "all") for d in range(2) for at in range(3)
    ]
    on = ' data-device="gpu:{}"'.format
    places = [(0, 8, on(0)), (11, 18, on(1)), (20, 28, ""), (0, 9, on(0))]
    links = "".join(
        f'<button data-from="{start * US}" data-to="{end * US}"{device}>go</button>' for start, end, device in places
    )
    space = '<div style="height:2000px"></div>'
    page = open_page(
        write_page(tmp_path / "p.html", trace(events(*rows)), links + space), viewport={"width": 390, "height": 500}
    )
    page.wait_for_selector("#timeline[data-ready]")
    shown = []
    for link in page.locator("[data-from]").all():
        page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
        link.click()
        selector = ".tl-selected, .tl-measured"
        page.wait_for_function(
            "selector => [...document.querySelectorAll(selector)].some((panel) => panel.checkVisibility()"
            " && panel.getBoundingClientRect().top < innerHeight - 60)",
            arg=selector,
        )
        shown.append(page.evaluate("[tracekit.app.selected, tracekit.app.peers.length, tracekit.app.range]"))
    # The third is a collective from its first start to its last end; the fourth is no event.
    assert shown == [[0, 2, None], [4, 2, None], [2, 2, None], [-1, 0, {"from": 0, "to": 9000}]]
