"""The memory in use on the timeline: the steps that the page holds, and what a browser makes of them."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.analysis.test_memory import events as allocations
from tests.frames import trace
from tests.report.html.timeline_page import US, at, focus, frames, work, write_page
from tracekit import memory
from tracekit.report.build import analyse
from tracekit.report.html.lanes import lanes
from tracekit.report.html.memory_lanes import UNKNOWN, memory_lanes
from tracekit.report.model import time_zero
from tracekit.timeline.timeline import timeline_of
from tracekit.units import time

MIB = 1 << 20


def of(any_trace, most=1000, **part):
    """The memory lanes of a trace, or of a part of it."""
    timeline = timeline_of(any_trace)
    report = analyse(timeline, **part)
    if part:
        timeline = timeline.narrowed(report.windows)
    return memory_lanes(report, timeline, lanes(timeline, timeline, time_zero(report).start_ps).groups, most)


def table():
    """Memory that gpu:0 takes and gives back around its work, half of it at one moment; gpu:1 has none."""
    return allocations(
        ("gpu:0", "bfc", -30 * US, 64 * MIB, 164 * MIB, 1, "dot"),
        ("gpu:0", "bfc", 20 * US, 200 * MIB, 364 * MIB, 2, "add"),
        ("gpu:0", "bfc", 20 * US, 36 * MIB, 400 * MIB, 3, "<b>mul</b>"),
        ("gpu:0", "bfc", 20 * US, -36 * MIB, 364 * MIB, 3),
        ("gpu:0", "bfc", 150 * US, -200 * MIB, 164 * MIB, 2),
        ("gpu:0", "bfc", 400 * US, -64 * MIB, 100 * MIB, 1),
        limit_bytes=1000 * MIB,
    )


def test_a_lane_has_every_step_from_the_first_moment_to_the_last_and_the_peak_of_the_report():
    (lane,) = of(trace(work(), memory=table())).lanes
    assert (lane.time // US).tolist() == [-30, -30, 20, 20, 20, 150, 400, 400]
    assert (lane.in_use // MIB).tolist() == [100, 164, 364, 400, 364, 164, 100, UNKNOWN]
    (row,) = memory(trace(work(), memory=table())).by_device.to_dict("records")
    assert (lane.time[lane.peak], lane.in_use[lane.peak]) == (row["peak_ps"], row["peak_bytes"])
    assert dict(lane.facts) == {
        "allocated by": "add 200 MiB; dot 64 MiB; <b>mul</b> 36 MiB",
        "from before the trace": "100 MiB",
        "headroom": "600 MiB, 60.0 % of its allocator's limit of 1000 MiB",
    }


def test_of_a_part_of_the_trace_the_steps_inside_it_are_shown_and_its_own_peak():
    (lane,) = of(trace(work(), memory=table()), start=100 * US, end=160 * US).lanes
    assert (lane.time // US).tolist() == [100, 150, 160]
    assert (lane.in_use // MIB).tolist() == [364, 164, UNKNOWN]
    assert lane.peak == 0


def test_a_trace_without_allocation_events_has_no_lane_and_a_device_without_work_is_named():
    assert of(trace(work())) == of(trace(work(), memory=allocations()))
    assert (of(trace(work())).lanes, of(trace(work())).notes) == ((), ())
    idle = allocations(("gpu:7", "bfc", 1, 5, 5))
    assert of(trace(work(), memory=idle)).notes == (
        "Without work, and so without a lane for the memory in use: gpu:7.",
    )


@pytest.mark.parametrize("seed", range(4))
def test_of_too_many_steps_the_lowest_the_highest_and_the_last_of_each_stretch_of_time_stay(seed):
    rng = np.random.default_rng(seed)
    times, in_use = np.sort(rng.integers(0, 300 * US, 5000)), rng.integers(1, 10**12, 5000)
    rows = allocations(*[("gpu:0", "bfc", *row) for row in zip(times, np.diff(in_use, prepend=0), in_use, strict=True)])
    (everything, thinned) = (of(trace(work(), memory=rows), most) for most in (10_000, 300))
    (whole,), (lane,) = everything.lanes, thinned.lanes
    assert len(whole.time) == 5002
    assert len(lane.time) <= 300 + 3
    steps = pd.DataFrame({"time": whole.time, "in_use": whole.in_use})
    stretch = -(-(whole.time[-1] - whole.time[0] + 1) // 100)
    assert (whole.stretch, lane.stretch) == (0, stretch)
    assert [time(stretch) in note for note in thinned.notes] == [False, True]
    assert len(everything.notes) == 1
    groups = steps.groupby((steps["time"] - steps["time"][0]) // stretch)["in_use"]
    present, kept = (set(zip(its.time.tolist(), its.in_use.tolist(), strict=True)) for its in (whole, lane))
    assert kept <= present
    mine = pd.DataFrame({"time": lane.time, "in_use": lane.in_use})
    own = mine.groupby((mine["time"] - mine["time"][0]) // stretch)["in_use"]
    for how in ("min", "max", "last"):
        assert getattr(own, how)().to_dict() == getattr(groups, how)().to_dict()
    assert (lane.time[lane.peak], lane.in_use[lane.peak]) == (whole.time[whole.peak], whole.in_use[whole.peak])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_page(tmp_path_factory.mktemp("memory") / "page.html", trace(work(), memory=table()))


@pytest.fixture
def page(open_page, path):
    result = open_page(path)
    result.wait_for_selector("#timeline[data-ready]")
    return result


def tip(page):
    """The facts of the tooltip."""
    frames(page)
    names, texts = (page.locator(f".tl-tip {tag}").all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(names, texts, strict=True))


def selected(page):
    """The time and the value of what is selected of the memory, in µs and MiB."""
    return page.evaluate(
        "(() => { const { group: { memory }, place } = tracekit.app.memory;"
        f" return [memory.time[place] * tracekit.app.data.unitPs / {US}, memory.inUse[place] / {MIB}]; }})()"
    )


def test_at_the_peak_the_tooltip_says_what_the_report_does(page):
    report = analyse(trace(work(), memory=table()))
    data = next(section.data for section in report.sections if section.key == "memory")
    (row,) = json.loads(json.dumps(data["by_device"], default=str))
    page.mouse.move(*at(page, row["peak_ps"], "m0"))
    facts = tip(page)
    assert facts["in use"] == f"400 MiB ({row['peak_bytes']:,} B)"
    assert (facts["on"], facts["at"], facts["running then"]) == (
        "gpu:0",
        "20.00 µs",
        "</script><img src=x onerror=document.title='broken'>; copy",
    )
    assert facts["headroom"].startswith("600 MiB")
    assert "<b>mul</b> 36 MiB" in facts["allocated by"]
    page.mouse.move(*at(page, 270 * US, "m0"))
    facts = tip(page)
    assert (facts["in use"], facts["of its peak"]) == ("164 MiB (171,966,464 B)", "41.0 %")
    assert (facts["running then"], "headroom" in facts) == ("all-reduce", False)


def test_a_column_is_as_high_as_the_highest_value_in_it_and_as_dark_down_to_the_lowest(page):
    (lane,) = of(trace(work(), memory=table())).lanes
    for start, step, columns in [(-60, 7, 80), (-30, 10, 50), (19, 0.25, 10), (395, 1, 30)]:
        drawn = page.evaluate(
            "([from, step, columns]) => Object.values(tracekit.memory.extremes("
            "tracekit.app.index.groups[0].memory, from, step, columns)).map((all) => Array.from(all))",
            [start * 1000, step * 1000, columns],
        )
        expected = []
        for column in range(columns):
            low, high = ((start + step * (column + more)) * US for more in (0, 1))
            until = np.append(lane.time[1:], lane.time[-1] + 1)
            # What lasts no time in the column counts too, where it begins there.
            inside = (lane.time < high) & ((until > low) | (lane.time >= low)) & (lane.in_use != UNKNOWN)
            values = lane.in_use[inside]
            expected.append([values.min(), values.max()] if len(values) else [UNKNOWN, UNKNOWN])
        assert np.array(drawn).T.tolist() == np.array(expected).tolist()


def test_the_measured_range_says_how_much_was_in_use_at_the_most(page):
    for start, end, most in [(0, 30, "400 MiB"), (30, 200, "364 MiB"), (150, 200, "164 MiB")]:
        page.evaluate("(range) => tracekit.act.range(range)", {"from": start * 1000, "to": end * 1000})
        first, second = (row.split("\t") for row in page.locator(".tl-measured tbody").first.inner_text().split("\n"))
        assert (first[0], first[-1], second[0], second[-1]) == ("gpu:0", most, "gpu:1", "-")


def test_where_values_were_left_out_a_time_is_told_as_exact_as_it_is(page):
    page.evaluate("tracekit.app.index.groups[0].memory.stretch_ps = 9000")
    page.mouse.move(*at(page, 200 * US, "m0"))
    assert tip(page)["at"].endswith(" µs, to within 9.00 ns")
    page.mouse.move(*at(page, 20 * US, "m0"))
    assert tip(page)["at"] == "20.00 µs"


def test_its_row_stands_below_the_lanes_of_its_device_folds_with_them_and_is_pinned(page):
    keys = "[...document.querySelectorAll('.tl-row')].map((row) => row.dataset.key)"
    assert page.evaluate(keys) == ["g0", "l0", "l1", "l2", "m0", "g1", "l3", "l4"]
    row = page.locator(".tl-row[data-key=m0]")
    assert row.get_attribute("aria-label") == "gpu:0: memory in use, peak 400 MiB"
    assert row.inner_text().split()[:4] == ["memory", "peak", "400", "MiB"]
    assert "memory in use" in page.locator(".tl-legend").inner_text()
    page.locator(".tl-row[data-key=g0]").click()
    assert page.evaluate(keys) == ["g0", "g1", "l3", "l4"]
    page.evaluate("tracekit.act.pin('m0')")
    assert page.evaluate(keys)[0] == "^m0"
    assert page.locator(".tl-pinned .tl-row").inner_text().split()[:2] == ["gpu:0", "memory"]


def test_keys_select_the_peak_walk_along_the_values_and_from_lane_to_lane(page, open_page, path):
    page.evaluate("tracekit.act.show({ from: 200e3, to: 210e3 })")
    page.locator(".tl-row[data-key=m0]").focus()
    page.keyboard.press("Enter")
    assert selected(page) == [20, 400]
    assert "400 MiB" in page.locator(".tl-selected").inner_text()
    page.wait_for_function("() => document.querySelector('.tl-live').textContent.includes('400 MiB')")
    assert page.evaluate("tracekit.app.view.from < 20e3 && tracekit.app.view.to > 20e3")
    focus(page)
    for key, value in [(".", [20, 364]), (".", [150, 164]), (",", [20, 364])]:
        page.keyboard.press(key)
        assert selected(page) == value
    frames(page)
    page.wait_for_function("() => location.hash.includes('memory=0.4')")
    again = open_page(path, page.evaluate("location.hash").removeprefix("#"))
    again.wait_for_selector("#timeline[data-ready]")
    assert selected(again) == [20, 364]
    page.keyboard.press("k")
    assert page.evaluate(
        "[tracekit.app.memory, tracekit.app.data.names[tracekit.app.data.name[tracekit.app.selected]]]"
    ) == [None, "copy"]
    page.keyboard.press("j")
    assert selected(page) == [20, 364]
    page.keyboard.press("Escape")
    assert page.evaluate("[tracekit.app.memory, tracekit.app.selected]") == [None, -1]


def test_a_link_to_the_peak_selects_it(open_page, tmp_path):
    link = f'<a id="jump" href="#timeline" data-from="{20 * US}" data-to="{20 * US}" data-device="gpu:0">go</a>'
    page = open_page(write_page(tmp_path / "p.html", trace(work(), memory=table()), link))
    page.wait_for_selector("#timeline[data-ready]")
    page.locator("#jump").click()
    assert selected(page) == [20, 400]
    assert page.evaluate("[tracekit.app.range, tracekit.app.view.to - tracekit.app.view.from > 10e3]") == [None, True]


def test_a_click_selects_what_is_in_use_there(page):
    page.mouse.click(*at(page, 200 * US, "m0"))
    assert selected(page) == [150, 164]
    page.locator(".tl-selected button", has_text="Go to the peak").click()
    assert selected(page) == [20, 400]


def test_the_page_opens_on_the_work_and_its_whole_reaches_to_the_first_and_last_change(open_page, tmp_path):
    far = allocations(("gpu:0", "bfc", -9000 * US, 5, 5), ("gpu:0", "bfc", 9000 * US, 5, 10))
    page = open_page(write_page(tmp_path / "p.html", trace(work(), memory=far)))
    page.wait_for_selector("#timeline[data-ready]")
    assert page.locator(".tl-opening").inner_text().startswith("Opens on the work of the devices: 280.0 µs.")
    page.evaluate("tracekit.act.whole()")
    page.mouse.move(*at(page, 9000 * US, "m0"))
    assert tip(page)["in use"] == "10 B (10 B)"
