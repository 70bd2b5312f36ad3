"""The heat map of a fleet in Chromium: what its cells, its groups and its colours show, by mouse and by keyboard."""

import json
import re
import zlib
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest

from tests.browser import Pages
from tests.fleet_traces import with_stragglers
from tests.report.html.test_page_axe import AXE, CHECK, TAGS
from tracekit.analysis.fleet import MEASURES
from tracekit.report.build import analyse
from tracekit.report.html import page as page_module
from tracekit.report.html.heat_map import heat_map
from tracekit.report.html.page import page as html_of
from tracekit.timeline.timeline import timeline_of
from tracekit.units import percent, time

DEVICES, STEPS, SLOW = 40, 12, 21
READY = "#heat-map[data-ready]"


@pytest.fixture(scope="module")
def fleet():
    """40 devices on five hosts, of which gpu:5 of host0002 holds up all others."""
    timeline = timeline_of(with_stragglers(DEVICES, STEPS, {SLOW: 1.3}).trace)
    return analyse(timeline), timeline


@pytest.fixture(scope="module")
def path(fleet, tmp_path_factory):
    file = tmp_path_factory.mktemp("fleet") / "page.html"
    file.write_text(html_of(*fleet), "utf-8")
    return file


@pytest.fixture(scope="module")
def opened(chromium, path):
    pages = Pages(chromium)
    page = pages.open(path)
    page.wait_for_selector(READY)
    yield page
    pages.close()


@pytest.fixture
def page(opened):
    """The page as it is at first, the heat map in sight."""
    opened.mouse.move(0, 0)
    opened.reload()
    opened.wait_for_selector(READY)
    opened.locator(".hm-frame").scroll_into_view_if_needed()
    return opened


def drawn(page) -> None:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def rows(page) -> list[str]:
    return page.evaluate("tracekit.heat.app.rows.map(({ name }) => name)")


def told(page) -> dict[str, str]:
    """What the tooltip says."""
    drawn(page)
    pairs = page.evaluate("[...document.querySelectorAll('.hm-tip dl > *')].map((node) => node.textContent)")
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def point(page, canvas: str, row: float, step: float, of: int) -> None:
    """Moves the mouse to a row of `of` rows (all) or of 20 px (list), in the middle of a step."""
    box = page.locator(canvas).bounding_box()
    size = page.evaluate("tracekit.heat.app.size")
    y = 20 + (row + 0.5) * size["all"] / of if canvas == ".hm-all" else (row + 0.5) * 20
    page.mouse.move(box["x"] + size["label"] + (step + 0.5) * size["plot"] / STEPS, box["y"] + y)


def pixel(page, canvas: str, row: float, step: int, of: int = DEVICES) -> list[int]:
    """The colour there."""
    drawn(page)
    return page.evaluate(
        """([canvas, row, step, of, steps]) => {
          const { size } = tracekit.heat.app;
          const y = canvas === ".hm-all" ? 20 + ((row + 0.5) * size.all) / of : (row + 0.5) * 20;
          const x = size.label + ((step + 0.5) * size.plot) / steps;
          const at = [x, y].map((part) => Math.floor(part * size.scale));
          const probe = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
          probe.drawImage(document.querySelector(canvas), -at[0], -at[1]);
          return [...probe.getImageData(0, 0, 1, 1).data.slice(0, 3)];
        }""",
        [canvas, row, step, of, STEPS],
    )


def test_every_cell_of_the_page_is_that_of_the_fleet_to_what_the_page_says_it_is_rounded(page, fleet):
    report, _ = fleet
    for number, measure in enumerate(MEASURES):
        values = page.evaluate("(at) => [...tracekit.heat.app.data.measures[at].values]", number)
        unit = page.evaluate("(at) => tracekit.heat.app.data.measures[at].unit_ps", number)
        expected = report.fleet.matrix(measure).ravel()
        np.testing.assert_allclose(values, expected, rtol=0, atol=unit / 2)
        assert unit <= max(expected.max() / 4000 + 1, 1)


def test_it_opens_on_the_measure_of_the_outlier_with_its_host_first_and_open(page):
    assert page.locator(".hm-measures [aria-pressed=true]").text_content() == "compute"
    assert rows(page)[:9] == ["host0002", *(f"host0002/gpu:{gpu}" for gpu in range(8))]
    assert sorted(rows(page)[9:]) == ["host0000", "host0001", "host0003", "host0004"]
    legend = page.locator(".hm-legend").inner_text().split("\n")[0]
    assert legend.startswith("Compute of each rank and step")


def test_the_slow_rank_has_another_colour_than_all_others_in_the_picture_and_in_the_list(page):
    in_all = [pixel(page, ".hm-all", rank, 3) for rank in range(DEVICES)]
    # The scale ends in yellow, and begins in dark violet.
    assert min(in_all[SLOW][:2]) > 150
    assert all(max(colour) < 130 for rank, colour in enumerate(in_all) if rank != SLOW)
    host, slow, other = (pixel(page, ".hm-rows", row, 3) for row in (0, 6, 5))
    assert host == slow == in_all[SLOW]
    assert other == in_all[SLOW - 1]


def test_the_smallest_of_several_hides_the_slow_rank_and_the_median_too(page):
    before = pixel(page, ".hm-rows", 0, 3)
    for way in ("smallest", "median"):
        page.locator("label", has_text="Of several").locator("select").select_option(way)
        assert max(pixel(page, ".hm-rows", 0, 3)) < 130 < max(before)
        assert pixel(page, ".hm-rows", 6, 3) == before
        assert f"several ranks shows the {way}." in page.locator("#heat-map .about").inner_text()


def test_the_tooltip_says_rank_host_step_and_every_measure(page, fleet):
    report, _ = fleet
    point(page, ".hm-all", SLOW, 4, DEVICES)
    said = told(page)
    assert (said["rank"], said["host"], said["step"]) == ("host0002/gpu:5", "host0002", "step 4")
    unit = page.evaluate("Math.max(...tracekit.heat.app.data.measures.map(({ unit_ps }) => unit_ps))")
    value = report.fleet.matrix("compute_ps")[SLOW, 4]
    assert said["compute"] in {time(int(value + by)) for by in np.linspace(-unit, unit, 2001)}
    assert {"step time", "exposed comm.", "idle"} < said.keys()


def test_a_group_says_which_of_its_ranks_it_shows(page):
    point(page, ".hm-rows", 0, 4, 0)
    said = told(page)
    assert said["group"] == "host0002"
    assert said["rank"] == "host0002/gpu:5"
    assert said["compute"].endswith(", of 8 ranks the furthest from the median")


def test_a_group_shows_the_rank_that_waited_least_too(page):
    page.locator(".hm-measures button", has_text="exposed comm.").click()
    point(page, ".hm-rows", 0, 4, 0)
    assert told(page)["rank"] == "host0002/gpu:5"
    page.locator("label", has_text="Of several").locator("select").select_option("largest")
    point(page, ".hm-rows", 0, 5, 0)
    assert told(page)["rank"] != "host0002/gpu:5"


def test_a_click_opens_a_group_and_one_on_the_picture_goes_to_the_rank(page):
    before = rows(page)
    point(page, ".hm-rows", 9, 0, 0)
    page.mouse.down()
    page.mouse.up()
    assert len(rows(page)) == len(before) + 8
    point(page, ".hm-all", 2, 5, DEVICES)
    page.mouse.down()
    page.mouse.up()
    assert "host0000/gpu:2" in rows(page)
    assert told(page)["rank"] == "host0000/gpu:2"
    assert told(page)["step"] == "step 5"


def test_the_keyboard_walks_the_cells_and_opens_and_closes_groups(page):
    page.locator(".hm-list").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    live = page.locator("#heat-map [role=status]").inner_text()
    assert live.startswith("rank host0002/gpu:0, host host0002, step step 2, compute ")
    page.keyboard.press("Enter")
    assert len(rows(page)) == 5
    assert page.locator("#heat-map [role=status]").inner_text().endswith("closed")
    page.keyboard.press("Enter")
    assert len(rows(page)) == 13
    page.keyboard.press("End")
    assert told(page)["step"] == f"step {STEPS - 1}"
    page.keyboard.press("Escape")
    assert page.locator(".hm-tip").is_hidden()


def test_the_colours_may_leave_the_extremes_out_and_then_say_so(page, fleet):
    page.locator("label", has_text="Colours").locator("select").select_option("middle")
    values = np.sort(page.evaluate("[...tracekit.heat.app.data.measures[1].values]"))
    low, high = page.locator(".hm-legend > span:not(.hm-ramp, .hm-none)").all_inner_texts()
    beyond = int(0.01 * DEVICES * STEPS)
    assert values[0] == values[beyond]
    assert low == time(int(values[beyond]))
    assert values[-1] > values[-1 - beyond]
    assert high == f"≥ {time(int(values[-1 - beyond]))}"


def test_light_and_dark_show_the_same_cells(page):
    light = pixel(page, ".hm-rows", 6, 3)
    page.locator("#theme").click()
    assert pixel(page, ".hm-rows", 6, 3) == light
    page.locator("#theme").click()


def test_paper_shows_the_picture_of_all_ranks(page):
    page.wait_for_selector(".hm-paper[src^='data:image/png']", state="attached")
    page.emulate_media(media="print")
    assert page.locator(".hm-paper").is_visible()
    assert page.locator(".hm-frame").is_hidden()
    page.emulate_media(media="screen")


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_axe_has_no_objection_to_a_fleet(page, width, theme):
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)
    page.locator(".hm-list").focus()
    page.keyboard.press("ArrowDown")
    page.evaluate(AXE)
    assert page.evaluate(CHECK, TAGS) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 900})


def test_the_timeline_of_a_fleet_has_the_devices_that_stand_for_all(page, fleet):
    report, _ = fleet
    page.wait_for_selector("#timeline[data-ready]")
    names = page.evaluate("tracekit.app.index.groups.map(({ name }) => name)")
    assert names == list(report.fleet.drawn)
    drawn = f"{len(names)} devices of {DEVICES} are drawn, and stand for all: {', '.join(names)}."
    assert page.locator("#timeline > .about").inner_text() == drawn


def test_lanes_of_a_fleet_say_the_shares_of_the_tables_though_others_worked_longer(open_page, tmp_path):
    whole = with_stragglers(DEVICES, STEPS, {SLOW: 1.3})
    drawn = analyse(timeline_of(whole.trace)).fleet.drawn
    early, late = [name for name in whole.names if name not in drawn][:2]
    rows = whole.trace.events.copy()
    of_early, of_late = (np.flatnonzero(rows["device"] == name) for name in (early, late))
    rows.loc[of_early[0], "start_ps"] -= 40_000_000
    rows.loc[of_late[-1], "end_ps"] += 40_000_000
    timeline = timeline_of(replace(whole.trace, events=rows))
    report = analyse(timeline)
    assert not {early, late} & set(report.fleet.drawn)
    (tmp_path / "page.html").write_text(html_of(report, timeline), "utf-8")
    page = open_page(tmp_path / "page.html")
    page.wait_for_selector("#timeline[data-ready]")
    page.get_by_role("button", name="Whole", exact=True).click()
    partition = report.whole.partition.set_index("device").loc[list(report.fleet.drawn)]
    shares = [percent(busy, window) for busy, window in zip(partition["busy_ps"], partition["window_ps"], strict=True)]
    shown = """[...document.querySelectorAll('.tl-row[aria-level="1"] .tl-busy')].map((at) => at.textContent)"""
    page.wait_for_function(f"(shares) => JSON.stringify({shown}) === JSON.stringify(shares)", arg=shares)


def test_a_timeline_of_a_fleet_that_would_be_too_large_has_fewer_devices_and_then_less_time(monkeypatch):
    slow = {2: 1.3, 5: 1.25, 17: 1.2, 30: 1.15}
    timeline = timeline_of(with_stragglers(32, 40, slow).trace)
    report = analyse(timeline)
    sizes, said = [], []
    for limit in (10**6, 8000, 5000, 3000):
        monkeypatch.setattr(page_module, "_FLEET_LIMIT", limit)
        source = html_of(report, timeline)
        said.append(
            re.search(r'<p class="about">([^<]*? drawn, and stand for all[^<]*)', source)[1].replace("\xa0", " ")
        )
        sizes.append(len(re.search(r'id="timeline-header".*?</section>', source, re.S)[0]))
    assert sizes == sorted(sizes, reverse=True)
    assert said[0].startswith(f"{len(report.fleet.drawn)} devices of 32 are drawn, and stand for all: ")
    assert said[-1].startswith("2 devices of 32 are drawn, and stand for all, ")
    assert "of the time, since the page would be too large: host0000/gpu:2, " in said[-1]


def test_a_report_without_its_trace_has_the_heat_map_too(open_page, fleet, tmp_path):
    report, _ = fleet
    (tmp_path / "page.html").write_text(html_of(report), "utf-8")
    page = open_page(tmp_path / "page.html")
    page.wait_for_selector(READY)
    assert page.locator("#timeline").count() == 0
    assert rows(page)[0] == "host0002"


def test_past_the_limit_cells_are_rounded_to_a_byte(fleet):
    report, timeline = fleet
    source = heat_map(report.fleet, timeline, limit=0)
    header = json.loads(re.search(r'id="fleet-header">(.*?)</script>', source)[1])
    assert {measure["planes"] for measure in header["measures"]} == {1}
    fine = heat_map(report.fleet, timeline)
    assert len(source) < len(fine)


def test_the_groups_are_those_that_the_trace_proves(fleet):
    report, timeline = fleet
    source = heat_map(report.fleet, timeline)
    packed = re.search(r'data-heat="facts">(.*?)</script>', source)[1]
    facts = json.loads(zlib.decompress(b64decode(packed)))
    assert [(way["by"], len(way["names"])) for way in facts["groupings"]] == [("host", 5)]
    assert facts["hosts"] == report.fleet.ranks["host"].tolist()
    assert facts["bins"] == [["train", step, step, 1] for step in range(STEPS)]


def test_the_same_report_makes_the_same_page(fleet, path):
    assert html_of(*fleet) == path.read_text("utf-8")
