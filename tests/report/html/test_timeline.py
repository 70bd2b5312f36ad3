"""The timeline in a real browser: what it shows, and what a keyboard and an address do to it."""

import json
from urllib.parse import quote

import pandas as pd
import pytest

from tests.frames import events, trace
from tests.report.html.timeline_page import HOSTILE, US, at, box, focus, frames, view, write_page, x_of


def test_the_page_shows_devices_lanes_phases_and_a_legend_in_words(page):
    rows = page.locator(".tl-row").all_inner_texts()
    # Busy shares are of the view from the first to the last device work, 280 µs: without its margins.
    assert [" ".join(row.removesuffix("⚲").split()) for row in rows] == [
        "▾ gpu:0 85.7 %",
        "collective 42.9 %",
        "compute 42.9 %",
        "memcpy 42.9 %",
        "▾ gpu:1 75.0 %",
        "collective 32.1 %",
        "compute 42.9 %",
        "host h 5.0 %",
    ]
    assert page.locator(".tl-band").all_inner_texts() == ["phases"]
    assert page.locator(".tl-legend li").all_inner_texts()[:4] == ["compute", "collective", "memcpy", "host call"]
    assert page.locator(".tl-plot").get_attribute("role") == "application"


def test_keys_zoom_move_fit_and_show_the_whole(page):
    focus(page)
    whole = view(page)
    page.keyboard.press("w")
    nearer = view(page)
    assert (nearer[1] - nearer[0]) == pytest.approx(0.7 * (whole[1] - whole[0]))
    page.keyboard.press("d")
    assert view(page)[0] > nearer[0]
    page.keyboard.press("a")
    assert view(page) == pytest.approx(nearer)
    page.keyboard.press("s")
    assert view(page) == pytest.approx(whole)
    page.evaluate("tracekit.act.select(1)")
    page.keyboard.press("f")
    start, end = view(page)
    assert 40 * US < end - start < 200 * US
    page.keyboard.press("0")
    assert view(page)[1] - view(page)[0] > 280 * US


def test_a_click_on_a_collective_selects_it_and_its_peers_on_the_other_devices(page):
    page.mouse.click(*at(page, 160 * US, "l0"))
    frames(page)
    peers = page.evaluate(
        """() => {
      const { app, details } = tracekit;
      return app.peers.map((row) => [details.whereOf(app, row).place, app.data.start[row] * app.data.unitPs]);
    }"""
    )
    assert peers == [["gpu:0, collective", 140 * US], ["gpu:1, collective", 150 * US]]
    words = page.locator(".tl-selected").inner_text()
    assert "on 2 devices; starts differ by 10.00 µs, last to arrive gpu:1" in words
    page.locator(".tl-selected button", has_text="Show all 2 devices").click()
    start, end = view(page)
    assert start < 140 * US < 180 * US < end


def test_l_follows_the_selected_row_to_its_launch_and_back(page):
    focus(page)
    page.evaluate("tracekit.act.select(3)")
    page.keyboard.press("l")
    assert page.evaluate("tracekit.app.selected >= tracekit.app.data.device_rows")
    assert "launched" in page.locator(".tl-selected").inner_text()
    page.locator(".tl-selected button", has_text="Go to what it launched").click()
    assert page.evaluate("tracekit.app.selected") == 3


def test_a_search_counts_walks_in_time_and_lets_go(page):
    focus(page)
    page.keyboard.press("/")
    page.keyboard.type("GEMM")
    assert page.locator(".tl-count").inner_text() == "4 found"
    stops = []
    for _ in range(5):
        page.keyboard.press("Enter")
        stops.append(
            (
                page.locator(".tl-count").inner_text(),
                page.evaluate("tracekit.app.data.start[tracekit.app.selected] * tracekit.app.data.unitPs"),
            )
        )
    assert stops == [
        (f"{k + 1} of 4 found", start * US) for k, start in [(0, 100), (1, 110), (2, 200), (3, 210), (0, 100)]
    ]
    page.keyboard.press("Shift+Enter")
    assert page.locator(".tl-count").inner_text() == "4 of 4 found"
    page.keyboard.press("Escape")
    assert page.evaluate("tracekit.app.matches") is None
    page.keyboard.press("/")
    page.keyboard.type("/^g.mm$/")
    assert page.locator(".tl-count").inner_text() == "4 of 4 found"
    page.keyboard.type("[")
    page.locator(".tl-search input").fill("/[/")
    assert page.locator(".tl-count").inner_text() == "invalid regular expression"


def test_m_measures_from_pointer_to_pointer_and_without_one_the_selection(page):
    page.mouse.move(*at(page, 20 * US, "l0"))
    focus(page)
    page.keyboard.press("m")
    page.mouse.move(*at(page, 60 * US, "l0"))
    page.keyboard.press("m")
    length = page.evaluate("(tracekit.app.range.to - tracekit.app.range.from) * tracekit.app.data.unitPs")
    assert length == pytest.approx(40 * US, rel=0.05)
    page.mouse.move(5, 5)
    page.evaluate("tracekit.act.select(3)")
    page.keyboard.press("m")
    start, end = page.evaluate("[tracekit.app.data.start[3], tracekit.app.data.end[3]]")
    assert page.evaluate("[tracekit.app.range.from, tracekit.app.range.to]") == [start, end]


def test_a_click_on_a_phase_shows_it(page):
    page.mouse.click(x_of(page, 200 * US), box(page)["y"] + 24 + 9)
    start, end = view(page)
    assert start == pytest.approx(100 * US, abs=6 * US)
    assert end == pytest.approx(280 * US, abs=6 * US)


def test_devices_fold_and_lanes_are_pinned_by_mouse_and_by_keyboard(page):
    keys = "[...document.querySelectorAll('.tl-row')].map((row) => row.dataset.key)"
    page.locator(".tl-row[data-key=g0]").click()
    assert page.evaluate(keys) == ["g0", "g1", "l3", "l4", "g2"]
    page.locator(".tl-row[data-key=l4]").hover()
    page.locator(".tl-row[data-key=l4] .tl-pin").click()
    assert page.evaluate(keys) == ["^l4", "g0", "g1", "l3", "g2"]
    assert page.locator(".tl-pinned .tl-row").inner_text().split()[:2] == ["gpu:1", "compute"]
    page.locator(".tl-row[data-key=g0]").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".tl-row[data-key=g0]").get_attribute("aria-expanded") == "true"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("p")
    assert page.evaluate(keys)[:2] == ["^l0", "^l4"]
    page.evaluate("tracekit.act.fold()")
    assert page.locator(".tl-row[aria-expanded=true]").count() == 0


def test_the_address_keeps_the_view_and_brings_it_back(page, open_page, path):
    page.evaluate("""() => {
      const { act } = tracekit;
      act.toggle(0); act.pin("l3"); act.find("gemm &=#"); act.select(5, { follow: false });
      act.range({ from: 3, to: 9e4 }); act.show({ from: 20e3, to: 120e3 });
    }""")
    page.wait_for_function("() => location.hash.includes('find')")
    state = """() => {
      const { app } = tracekit;
      return JSON.stringify([app.view, [...app.closed], [...app.pinned], app.selected, app.range, app.matches.text]);
    }"""
    address = page.evaluate("location.hash")
    again = open_page(path, address[1:])
    again.wait_for_selector("#timeline[data-ready]")
    assert json.loads(again.evaluate(state)) == json.loads(page.evaluate(state))
    assert quote("gemm &=#") in address
    again.evaluate("location.hash = '#timeline&from=0&to=1000000'")
    again.wait_for_function("() => tracekit.app.view.to - tracekit.app.view.from < 2e3")


@pytest.mark.parametrize(
    "fragment", ["timeline&from=x&to=9", "timeline&row=99999&closed=77&pinned=zz&a=5&b=1", "timeline&find=%E0%A4%A"]
)
def test_an_address_that_makes_no_sense_is_passed_over(open_page, path, fragment):
    page = open_page(path, fragment)
    page.wait_for_selector("#timeline[data-ready]")
    assert page.evaluate("[tracekit.app.selected, tracekit.app.range, tracekit.app.pinned.size]") == [-1, None, 0]


def test_threads_of_a_cpu_device_are_one_lane_until_they_are_unfolded(open_page, tmp_path):
    rows = events(*[(f"cpu:{at % 2}", "compute", at * US, (at + 1) * US) for at in range(8)])
    rows["lane"] = pd.Categorical([f"tf_XLAEigen/{1234567 + at // 2}" for at in range(8)])
    page = open_page(write_page(tmp_path / "p.html", trace(rows)))
    page.wait_for_selector("#timeline[data-ready]")
    words = [" ".join(row.removesuffix("⚲").split()) for row in page.locator(".tl-row").all_inner_texts()]
    assert words == ["▸ cpu:0 4 threads 50.0 %", "▸ cpu:1 4 threads 50.0 %"]
    page.locator(".tl-row").first.click()
    assert page.locator(".tl-row").count() == 6


# The names on the lanes, as they are written.
WRITTEN = """() => {
  const { app, canvas } = tracekit;
  const words = [];
  const own = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) { words.push(text); };
  canvas.frame(app);
  CanvasRenderingContext2D.prototype.fillText = own;
  return words;
}"""


def test_a_folded_device_shows_the_names_of_its_lanes(page):
    page.evaluate("tracekit.act.show({ from: 100e3, to: 180e3 })")
    page.evaluate("['g0', 'g1'].forEach((_, at) => tracekit.act.toggle(at))")
    words = page.locator(".tl-row[data-key=g0]").inner_text()
    assert " ".join(words.split()[1:6]) == "gpu:0 collective, compute, memcpy 100"
    assert page.evaluate(WRITTEN)[-5:] == ["gemm", "copy", "all-reduce", "gemm", "all-reduce"]


def test_names_in_little_room_keep_what_differs(page):
    names = [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, Array<char*, 3> >(int)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, Array<char*, 1> >(int)",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "fusion.1284",
        "fusion.1285",
    ]
    labels = page.evaluate(
        """([names, rooms]) => {
          const label = tracekit.labels.labels(names, tracekit.labels.bare);
          return rooms.map((room) => names.map((_, at) => label(at, room)));
        }""",
        [names, [8, 14, 24, 400]],
    )
    assert labels == [
        ["…CUDAFun", "…FillFun", "…AllRedu", "…AllGath", "…on.1284", "…on.1285"],
        ["vector…CUDAFu…", "vector…FillFu…", "ncclDe…AllRed…", "ncclDe…AllGat…", "fusion.1284", "fusion.1285"],
        [
            "vectorized_…CUDAFunctor…",
            "vectorized_…FillFunctor…",
            "ncclDevKern…AllReduce_S…",
            "ncclDevKern…AllGather_R…",
            "fusion.1284",
            "fusion.1285",
        ],
        [name.removeprefix("void ") for name in names],
    ]


@pytest.mark.parametrize("room", [3, 5, 11, 12, 13, 40])
def test_no_label_is_longer_than_its_room_or_half_a_letter(page, room):
    names = [
        "",
        "()",
        "(a)",
        "a(b",
        "💥" * 30,
        "x" * 60,
        "::" * 20,
        "a::b::(anonymous namespace)::f<g(h)>(i, j)",
        "1" * 50,
    ]
    labels = page.evaluate(
        "([names, room]) => names.map((_, at) => tracekit.labels.labels(names, tracekit.labels.bare)(at, room))",
        [names, room],
    )
    assert all(len(label) <= room for label in labels)
    assert all(label.isprintable() for label in labels)


def test_a_phone_tells_devices_and_lanes_apart_beside_the_plot(open_page, tmp_path):
    rows = events(*[(f"compute-node-{at}/gpu:0", kind, 0, US) for at in range(3) for kind in ("compute", "memset")])
    rows["lane"] = pd.Categorical([f"stream with a long name {at}" for at in range(6)])
    page = open_page(write_page(tmp_path / "p.html", trace(rows)), viewport={"width": 390, "height": 800})
    page.wait_for_selector("#timeline[data-ready]")
    for part in (".tl-device", ".tl-lane"):
        names = page.locator(part)
        assert len(set(names.all_inner_texts())) == names.count() > 0
        assert names.evaluate_all("all => all.every((one) => one.scrollWidth <= one.clientWidth + 1)")


def test_hostile_names_are_shown_as_text_everywhere(page):
    page.mouse.click(*at(page, 20 * US, "l1"))
    page.mouse.move(*at(page, 21 * US, "l1"))
    page.wait_for_selector(".tl-tip:visible")
    assert HOSTILE in page.locator(".tl-tip").inner_text()
    assert HOSTILE in page.locator(".tl-selected").inner_text()
    page.wait_for_function("() => document.querySelector('.tl-live').textContent.includes('onerror')")
    assert (page.title(), page.locator("img").count()) == ("timeline", 0)


def test_help_lists_the_keys_and_closes(page):
    focus(page)
    page.keyboard.press("?")
    assert page.locator("dialog.tl-help").is_visible()
    assert "measure a range" in page.locator("dialog.tl-help").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("dialog.tl-help").is_hidden()


def test_a_screen_reader_is_told_the_view_the_selection_and_the_measurement(page):
    page.evaluate(
        """() => {
      const { act } = tracekit;
      act.select(3);
      act.range({ from: 20e3, to: 60e3 });
      act.show({ from: 0, to: 100e3 });
    }"""
    )
    page.wait_for_function("() => document.querySelector('.tl-live').textContent.includes('Measured')")
    words = page.locator(".tl-live").inner_text()
    assert "From 0 ps to 100.0 µs, 100.0 µs in view." in words
    assert "Selected: " in words
    assert "gpu:0 100 % busy, memory 50.0 % hidden, collectives 0 % hidden" in words


def test_dark_and_light_are_drawn_in_the_colours_of_the_page(open_page, path):
    def middle(page):
        page.wait_for_selector("#timeline[data-ready]")
        x, y = at(page, 20 * US, "l1")
        place = box(page)
        return page.evaluate(
            "([x, y]) => Array.from(tracekit.app.dom.base.getContext('2d').getImageData(x, y, 1, 1).data)",
            [x - place["x"], y - place["y"] + 4],
        )

    assert middle(open_page(path)) == [0x00, 0x5A, 0x94, 255]
    dark = open_page(path, color_scheme="dark")
    assert middle(dark) == [0x1F, 0x6C, 0xB0, 255]
    dark.emulate_media(color_scheme="light")
    frames(dark)
    assert middle(dark) == [0x00, 0x5A, 0x94, 255]


def test_on_paper_stands_a_picture_of_the_whole_in_the_colours_of_paper(open_page, path):
    page = open_page(path, color_scheme="dark")
    page.wait_for_function("() => document.querySelector('.tl-paper image')?.getAttribute('href')")
    page.evaluate("tracekit.act.show({ from: 20e3, to: 60e3 })")
    page.emulate_media(media="print")
    assert page.locator(".tl-paper").is_visible()
    assert not page.locator(".tl-base").is_visible()
    rows = page.locator(".tl-row").last.bounding_box()
    picture = page.locator(".tl-paper").bounding_box()
    assert picture["y"] + picture["height"] == pytest.approx(rows["y"] + rows["height"], abs=2)
    # The row of compute on gpu:0 in the first quarter of its 290 µs, and the ground below it.
    pixels = page.evaluate("""async (y) => {
      const image = Object.assign(new Image(), { src: document.querySelector('.tl-paper image').getAttribute('href') });
      await image.decode();
      const context = Object.assign(document.createElement('canvas'), { width: 1120, height: 900 })
        .getContext('2d', { willReadFrequently: true });
      context.drawImage(image, 0, 0);
      return [10, 80].map((x) => Array.from(context.getImageData(x, 2 * y, 1, 1).data));
    }""", page.locator(".tl-row[data-key=l1]").bounding_box()["y"] - picture["y"] + 9)  # fmt: skip
    assert pixels == [[0xF2, 0xF2, 0xF2, 255], [0x00, 0x5A, 0x94, 255]]


def test_an_empty_trace_says_so(open_page, tmp_path):
    page = open_page(write_page(tmp_path / "p.html", trace(events())))
    page.wait_for_selector(".tl-note")
    assert page.locator("#timeline").inner_text().endswith("Nothing ran on a device here, so there is no timeline.")


def test_one_row_without_length_is_a_timeline_too(open_page, tmp_path):
    page = open_page(write_page(tmp_path / "p.html", trace(events(("gpu:0", "compute", 5, 5)))))
    page.wait_for_selector("#timeline[data-ready]")
    assert page.locator(".tl-row").count() == 1


def test_a_browser_that_cannot_unpack_is_told_in_a_sentence(open_page, path):
    page = open_page(path, java_script_enabled=True, user_agent="old")
    page.add_init_script("delete window.DecompressionStream")
    page.reload()
    page.wait_for_selector(".tl-note")
    assert "it lacks DecompressionStream" in page.locator(".tl-note").inner_text()


def test_rows_are_selected_without_a_pointer(page):
    focus(page)
    selected = """() => {
      const { app, details } = tracekit;
      return [details.whereOf(app, app.selected).place, app.data.start[app.selected]];
    }"""
    selections = []
    for key in ("Enter", ".", ",", "j", "j", "k"):
        page.keyboard.press(key)
        selections.append(page.evaluate(selected))
    assert selections == [
        ["gpu:0, collective", 40e3],
        ["gpu:0, collective", 140e3],
        ["gpu:0, collective", 40e3],
        ["gpu:0, compute", 100e3],
        ["gpu:0, memcpy", 120e3],
        ["gpu:0, compute", 100e3],
    ]


def test_opening_the_page_leaves_its_address_alone(page):
    page.wait_for_function("() => document.querySelector('.tl-live').textContent !== ''")
    page.wait_for_timeout(300)
    assert page.evaluate("location.hash") == ""


def test_a_trace_too_long_for_exact_times_says_that_they_are_rounded(open_page, tmp_path):
    rows = events(("gpu:0", "compute", 0, 3), ("gpu:0", "compute", 5, 2**60 + 1))
    page = open_page(write_page(tmp_path / "p.html", trace(rows)))
    page.wait_for_selector("#timeline[data-ready]")
    assert "Times are rounded down to whole 1 ns" in page.inner_text("#timeline")
    assert page.evaluate("tracekit.app.index.groups[0].busy.total") == (2**60 + 1) // 1000


def test_many_lanes_scroll_below_the_pinned_ones_and_devices_are_folded_at_first(open_page, tmp_path):
    rows = [(f"gpu:{d}", kind, d * US, (d + 1) * US) for d in range(40) for kind in ("compute", "memset")]
    link = '<button id="jump" data-from="0" data-to="1000000" data-device="gpu:39">go</button>'
    page = open_page(write_page(tmp_path / "p.html", trace(events(*rows)), link))
    page.wait_for_selector("#timeline[data-ready]")
    assert page.locator(".tl-row").count() == 40
    page.locator("#jump").click()
    page.wait_for_function("() => tracekit.canvas.inSight(tracekit.app).some((row) => row.key === 'g39')")
    page.evaluate("tracekit.app.dom.lanes.scrollTop = 0")
    page.wait_for_function("() => tracekit.app.scroll === 0")
    page.evaluate("tracekit.act.pin('g0')")
    page.evaluate("tracekit.act.select(79)")
    frames(page)
    assert page.evaluate("tracekit.app.scroll") > 0
    assert page.evaluate("tracekit.overlay.placeOf(tracekit.app, 79).key") == "g39"
    assert page.evaluate("tracekit.canvas.inSight(tracekit.app)[0].key") == "^g0"
    before = page.evaluate("tracekit.app.scroll")
    page.locator(".tl-plot").focus()
    page.keyboard.press("ArrowUp")
    page.wait_for_function(f"() => tracekit.app.scroll < {before}")


def test_all_times_of_a_row_follow_one_rule_and_the_panel_adds_every_digit(open_page, tmp_path):
    rows = events(("gpu:0", "compute", 0, 4_000_000), ("gpu:0", "compute", 4_000_000, 5_234_567))
    page = open_page(write_page(tmp_path / "p.html", trace(rows)))
    page.wait_for_selector("#timeline[data-ready]")
    briefly, exactly = (
        page.evaluate(f"""() => [0, 1].map((row) =>
          tracekit.details.describe(tracekit.app, row{tell}).facts.slice(1, 3).map(([, text]) => text))""")
        for tell in ("", ", tracekit.details.toldExactly")
    )
    assert briefly == [["0 ps", "4.00 µs"], ["4.00 µs", "1.23 µs"]]
    assert exactly == [["0 ps", "4.00 µs"], ["4.00 µs", "1.23 µs (1.234567 µs)"]]
    page.evaluate("tracekit.act.select(1)")
    assert "1.23 µs (1.234567 µs)" in page.locator(".tl-selected").inner_text()


def test_what_overlaps_a_row_in_its_own_lane_is_told_without_the_row_itself(open_page, tmp_path):
    rows = events(("gpu:0", "compute", 0, 100), ("gpu:0", "compute", 60, 110), ("gpu:0", "compute", 100, 120))
    page = open_page(write_page(tmp_path / "p.html", trace(rows)))
    page.wait_for_selector("#timeline[data-ready]")
    overlaps = page.evaluate("""() => [0, 1, 2].map((row) =>
      tracekit.details.describe(tracekit.app, row).beside.map((one) => [one.name, ...one.texts]))""")
    assert overlaps == [
        [["this lane", "compute 40 ps (40.0 %)"]],
        [["this lane", "compute 50 ps (100 %)"]],
        [["this lane", "compute 10 ps (50.0 %)"]],
    ]
