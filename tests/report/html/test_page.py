"""The page against the report: what it shows, in which order, and that it keeps to itself."""

import base64
import hashlib
import re
from itertools import pairwise

import html5lib
import pytest

from tests.report.html.pages import HOSTILE, NAMES, report, table, tree, value, values, within, words
from tracekit.columns import records
from tracekit.report.html.lanes import origins
from tracekit.report.html.page import page
from tracekit.report.section import AtLeast, Instant, Missing, Unit
from tracekit.report.sections.overview import CELL_WORDS
from tracekit.report.sections.sections import highlights, in_one_line

FIGURES = ("captured", "stepped", "launched", "phases", "three", "clocks", "many", "several", "one")


@pytest.mark.parametrize("name", NAMES)
def test_every_page_is_well_formed_and_each_id_stands_once(name):
    ids = [one.get("id") for one in tree(name).iter() if one.get("id")]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", NAMES)
def test_headings_are_in_order_and_the_navigation_names_every_section(name):
    root = tree(name)
    levels = [int(one.tag[1]) for one in root.iter() if re.fullmatch("h[1-6]", str(one.tag))]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    sections = [one.get("id") for one in root.iter("section")]
    assert [one.get("href") for one in root.find(".//nav").iter("a")] == [f"#{key}" for key in sections]
    for section in root.iter("section"):
        assert section.get("aria-labelledby") == section.find("h2").get("id")


@pytest.mark.parametrize("name", NAMES)
def test_every_table_has_a_caption_and_names_its_columns_and_rows(name):
    for one in tree(name).find(".//main").iter("table"):
        if any(above.get("class") == "tip" for above in _above(tree(name), one)):
            continue
        assert words(one.find("caption"))
        assert {cell.get("scope") for cell in one.findall("thead/tr/th")} == {"col"}
        assert [row[0].get("scope") for row in one.findall("tbody/tr")] == ["row"] * len(one.findall("tbody/tr"))
        assert {len(row) for row in one.findall("tbody/tr")} <= {len(one.find("thead/tr"))}


def _above(root, wanted):
    parents = {child: parent for parent in root.iter() for child in parent}
    while wanted in parents:
        wanted = parents[wanted]
        yield wanted


def test_the_verdict_is_first_and_the_sections_follow_in_order():
    assert [one.get("id") for one in tree("captured").iter("section")] == [
        *("verdict", "important", "time", "hidden", "together", "concurrency", "phases", "offenders"),
        *("timeline", "critical_path", "idle", "launches", "bandwidth", "lacking", "known", "notes"),
    ]
    assert [one.get("id") for one in tree("stepped").iter("section")] == [
        *("verdict", "important", "time", "hidden", "together", "concurrency", "steps", "collectives", "offenders"),
        *("timeline", "findings", "critical_path", "idle", "launches", "bandwidth", "known", "notes"),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_and_what_matters_most_are_told_word_for_word(name):
    found, root = report(name), tree(name)
    told = words(within(root, "verdict"))
    assert all(" ".join(visible(said).split()) in told for said in found.verdicts.values())
    title = words(root.find(".//h1"))
    assert title == visible(found.headline) or visible(found.headline) in told
    lines = highlights(found.sections)
    if lines:
        items = within(root, "important").findall("ol/li")
        assert [words(one) for one in items] == [" ".join(visible(in_one_line(line)).split()) for line in lines]


def visible(said: str) -> str:
    return said.replace("\x1b", "\ufffd").replace("\u202e", "\ufffd")


@pytest.mark.parametrize("name", NAMES)
def test_each_section_is_shown_with_all_it_says_or_named_with_the_reason_why_not(name):
    root = tree(name)
    ids = {one.get("id") for one in root.iter("section")}
    for section in report(name).sections:
        assert (section.key in ids) is not bool(section.lacking)
        if section.lacking:
            assert f"{section.title}{section.lacking}" in words(within(root, "lacking")).replace(
                f"{section.title} ", section.title
            )
            continue
        told = words(within(root, section.key))
        findings = [f"{finding.sentence} Try: {finding.action}" for finding in section.findings]
        assert all(" ".join(visible(sentence).split()) in told for sentence in [*findings, *section.sentences])


@pytest.mark.parametrize("name", FIGURES)
def test_every_table_of_the_report_is_on_the_page_with_every_row_and_exact_value(name):
    found, root = report(name), tree(name)
    known = found.classification
    for section in [*found.overview, *found.sections, *([known] if known else [])]:
        for given in section.tables:
            if not given.rows or given.key in ("time", "steps.parts"):  # which are drawn
                continue
            head, rows = table(within(root, section.key), given.title)
            assert head == [column.head for column in given.columns]
            units = [column.unit for column in given.columns]
            assert [list(map(exact, row, units)) for row in rows] == [list(map(of, row, units)) for row in given.rows]


def exact(cell, unit: Unit):
    """What a cell of the page holds: its exact value, or where it leads for how long."""
    if cell.find(".//span[@class='none']") is not None:
        return cell.find(".//span[@class='none']").get("title", "")
    if unit == Unit.INSTANT:
        button = cell.find(".//button")
        return int(button.get("data-to")) - int(button.get("data-from"))
    full = cell.find(".//bdi[@title]")
    return full.get("title") if full is not None else words(cell) if unit in (Unit.NAME, Unit.TEXT) else value(cell)


def of(cell, unit: Unit):
    """The same of a cell of the report."""
    if isinstance(cell, Missing):
        return cell.reason
    if isinstance(cell, Instant):
        return cell.end_ps - cell.start_ps
    if isinstance(cell, AtLeast):
        return cell.value
    return " ".join(cell.split()) or "(no name)" * (unit == Unit.NAME) if isinstance(cell, str) else cell


@pytest.mark.parametrize("name", FIGURES)
def test_the_cells_of_every_device_are_those_of_the_summary_and_sum_to_the_window(name):
    found = report(name).summary()
    head, rows = table(within(tree(name), "time"), "Time of each device; its eight cells add up to the window")
    first = len(found["phases"]) > 0  # the column of the phases
    assert head[first:] == ["device", "window", "busy", *CELL_WORDS.values()]
    rows = [row[first:] for row in rows]
    assert [(words(row[0]), *map(value, row[1:])) for row in rows[: len(found["devices"])]] == [
        (one["device"], one["window_ps"], one["busy_ps"], *(one["partition"][cell] for cell in CELL_WORDS))
        for one in found["devices"]
    ]
    assert all(sum(map(value, row[3:])) == value(row[1]) for row in rows)


@pytest.mark.parametrize("name", FIGURES)
def test_each_bar_is_as_wide_as_its_cells_and_says_them_aloud(name):
    devices = report(name).summary()["devices"]
    lists = within(tree(name), "time").findall(".//ul[@class='bars']")
    drawn = {words(one.find("span")): one for one in lists[-1 if len(devices) > 32 else 0]}
    for device in devices:
        bar = drawn[device["device"]]
        there = [cell for cell in CELL_WORDS if device["partition"][cell]]
        widths = [
            float(re.search(r"width:([\d.e-]+)%", one.get("style"))[1])
            for one in bar.findall(".//i[@style]")
            if "width" in one.get("style")
        ]
        assert widths == [
            pytest.approx(100 * device["partition"][cell] / device["window_ps"], rel=1e-5) for cell in there
        ]
        aloud = bar.find("span[@role='img']").get("aria-label")
        assert re.findall(r"[a-z][a-z ,]*? (?=[<>\d])", aloud.partition(": ")[2]) or not there
        assert all(CELL_WORDS[cell] in aloud for cell in there)


@pytest.mark.parametrize("name", ["captured", "phases"])
def test_two_devices_have_one_table_of_their_overlap_in_every_stretch(name):
    found = report(name).summary()
    (pair,) = found["device_pairs"]
    _, rows = table(within(tree(name), "together"), "Pairs of devices busy at the same time")
    stretches = [*((one["name"], one["device_pairs"][0]) for one in found["phases"]), ("whole trace", pair)]
    assert [(*map(words, row[:3]), *map(value, row[3:])) for row in rows] == [
        (name, pair["a"], pair["b"], one["overlap_ps"], one["ratio_min"], one["ratio_union"]) for name, one in stretches
    ]


def test_the_matrix_holds_every_pair_twice_and_nothing_on_its_diagonal():
    devices = [one["device"] for one in report("several").summary()["devices"]]
    for caption, ratio in (
        ("Together, of the shorter busy time (%)", "ratio_min"),
        ("Together, of the time when either was busy (%)", "ratio_union"),
    ):
        head, rows = table(within(tree("several"), "together"), caption)
        assert head == ["", *devices]
        shown = {
            (words(row[0]), device): value(cell)
            for row in rows
            for device, cell in zip(devices, row[1:], strict=True)
            if cell.get("class") != "self"
        }
        expected = {(one["a"], one["b"]): one[ratio] for one in report("several").summary()["device_pairs"]}
        assert shown == expected | {(b, a): both for (a, b), both in expected.items()}


@pytest.mark.parametrize("name", ["captured", "phases", "three", "many", "several", "one"])
def test_the_time_with_so_many_devices_busy_is_that_of_the_summary(name):
    found = report(name).summary()
    _, rows = table(within(tree(name), "concurrency"), "Time with exactly N devices busy")
    stretches = [("whole trace", found), *((one["name"], one) for one in found["phases"])]
    named = len(stretches) > 1
    assert [(*map(words, row[:named]), *map(value, row[named : named + 2])) for row in rows] == [
        (*([name] * named), number, time)
        for name, one in stretches
        for number, time in enumerate(one["concurrency"])
        if time
    ]
    averages = [next(values(one)) for one in within(tree(name), "concurrency").findall(".//span[@class='told']")]
    assert averages == [repr(one["parallelism"]) for _, one in stretches if one["parallelism"] is not None]


def test_devices_on_several_clocks_are_not_compared_and_the_page_says_why():
    root = tree("clocks")
    assert "their hosts' clocks are not aligned" in words(within(root, "together"))
    assert words(within(root, "concurrency")).endswith("Not known: the clocks of the hosts are not aligned.")
    assert not list(within(root, "concurrency").iter("data"))


@pytest.mark.parametrize("name", ["captured", "phases", "three"])
def test_the_figures_of_the_phases_are_those_of_the_summary(name):
    found = report(name).summary()["phases"]
    head, rows = table(within(tree(name), "phases"), "Phases")
    at = {key: head.index(key) for key in ("n", "wall", "overlap", "speedup", "efficiency", "stretch", "unfinished")}
    for row, one in zip(rows, found, strict=True):
        assert words(row[0]) == one["name"]
        shown = {key: value(row[place]) for key, place in at.items()}
        ratios = [pair["ratio_min"] for pair in one["device_pairs"] if pair["ratio_min"] is not None]
        stretches = [part["stretch"] for part in one["stretch"] if part["stretch"] is not None]
        assert shown == {
            "n": one["n"],
            "wall": one["wall_ps"],
            "overlap": max(ratios, default=None),
            "speedup": one["speedup"],
            "efficiency": one["efficiency"],
            "stretch": max(stretches, default=None),
            "unfinished": one["unfinished_ps"],
        }


@pytest.mark.parametrize("name", ["captured", "phases", "stepped"])
def test_offenders_and_idle_intervals_are_those_of_the_summary_and_lead_to_their_place(name):
    found, root = report(name).summary(), tree(name)
    zero = origins(report(name))[""]
    head, rows = table(within(root, "offenders"), "Top offenders, each on the device that loses most to it")
    assert [(value(row[2]), value(row[3]), *led(row[head.index("at")], zero)) for row in rows] == [
        (one["cost_ps"], one["n"], one["start_ps"], one["end_ps"], one["device"]) for one in found["offenders"]["table"]
    ]
    if found["idle"]:
        head, rows = table(within(root, "idle"), "Longest idle gaps")
        assert [(value(row[2]), *led(row[1], zero)) for row in rows] == [
            (one["idle_ps"], one["start_ps"], one["end_ps"], one["device"]) for one in found["idle"]["largest"]
        ]


@pytest.mark.parametrize("name", ["stepped", "launched"])
def test_steps_lead_to_their_place(name):
    found = report(name).summary()["steps"]
    zero = origins(report(name))[""]
    _, rows = table(within(tree(name), "steps"), "Steps, outliers first")
    shown = sorted((value(row[2]), *led(row[1], zero)) for row in rows)
    assert shown == sorted((one["wall_ps"], one["start_ps"], one["end_ps"], None) for one in found["steps"])


@pytest.mark.parametrize("name", ["stepped", "launched"])
def test_each_step_has_a_column_as_high_as_its_wall_that_leads_to_it(name):
    found = report(name).summary()["steps"]["steps"]
    zero = origins(report(name))[""]
    columns = within(tree(name), "steps").find(".//div[@class='columns']")
    most = max(one["wall_ps"] for one in found if one["left_out"] is None)
    assert [
        (
            float(re.search(r"height:([\d.e+-]+)%", one.get("style"))[1]),
            int(one.get("data-from")),
            int(one.get("data-to")),
        )
        for one in columns
    ] == [
        (pytest.approx(min(100, 100 * one["wall_ps"] / most), rel=1e-3), one["start_ps"] - zero, one["end_ps"] - zero)
        for one in found
    ]
    looks = [one.get("class") for one in columns]
    assert "col outlier" in looks
    expected = {"warm-up": "col left-out", "compiles": "col left-out", "cut": "col left-out"}
    assert looks == [
        (expected[one["left_out"]] if one["left_out"] else "col outlier" if one["outlier"] else "col counts")
        + (" cut" if one["wall_ps"] > most else "")
        for one in found
    ]


def test_the_longest_pieces_of_a_path_lead_to_their_place():
    found = report("stepped").summary()["critical_path"]
    zero = origins(report("stepped"))[""]
    (median,) = [at for at, one in enumerate(found["steps"]) if one["shown"] == "median"]
    pieces = [one for one in found["path"] if one["at"] == median and one["name"] is not None]
    pieces.sort(key=lambda one: -one["time_ps"])
    _, rows = table(within(tree("stepped"), "critical_path"), "Longest pieces of the critical path of the median step")
    devices = {one["device"] for one in report("stepped").summary()["devices"]}
    assert [(words(row[0]), value(row[4]), *led(row[3], zero)) for row in rows] == [
        (one["part"], one["time_ps"], one["start_ps"], one["end_ps"], one["on"] if one["on"] in devices else None)
        for one in pieces[:40]
    ]


def test_stretches_bound_by_launches_lead_to_their_place():
    found = report("launched").summary()["launches"]["bound"]
    zero = origins(report("launched"))[""]
    assert found
    _, rows = table(within(tree("launched"), "launches"), "Launch-bound stretches")
    shown = sorted((value(row[3]), value(row[4]), *led(row[1], zero)) for row in rows)
    assert shown == sorted(
        (one["launches"], one["starved_ps"], one["start_ps"], one["end_ps"], one["device"]) for one in found
    )


def test_rounds_of_phases_and_collectives_lead_to_their_place():
    found, root = report("phases"), tree("phases")
    zero = found.shown[0]
    links = within(root, "phases").iter("button")
    assert [led(one, zero)[:2] for one in links] == [(one["start_ps"], one["end_ps"]) for one in records(found.marks)]
    _, ((_, at, *_),) = table(within(root, "collectives"), "Longest waits")
    (one,) = records(found.explanation.collectives.table)
    assert led(at, zero)[:2] == (one["start_ps"], one["end_ps"])


def led(cell, zero: int):
    """Where the button in a cell leads: start and end in ps of the trace, and device."""
    button = cell if cell.tag == "button" else cell.find(".//button")
    assert button.get("aria-label").endswith("in the timeline")
    return int(button.get("data-from")) + zero, int(button.get("data-to")) + zero, button.get("data-device")


def test_a_page_without_a_timeline_has_every_time_and_no_link_that_leads_nowhere():
    shown = page(report("stepped"))
    root = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(shown)
    assert "timeline" not in [one.get("id") for one in root.iter("section")]
    assert not list(within(root, "idle").iter("button"))
    _, rows = table(within(root, "idle"), "Longest idle gaps")
    zero = origins(report("stepped"))[""]
    found = report("stepped").summary()["idle"]["largest"]
    assert [value(row[1]) for row in rows] == [one["start_ps"] - zero for one in found]


def test_long_tables_are_folded_with_every_row_kept():
    section = within(tree("many"), "time")
    found = section.findall("details")
    assert [words(one.find("summary")) for one in found] == ["All 40", "Exact figures"]
    assert len(found[0].findall("ul/li")) == 40
    idlest = [words(one.find("span")) for one in section.find("ul[@class='bars']")]
    devices = report("many").summary()["devices"]
    ordered = sorted(devices, key=lambda one: -one["partition"]["idle"])
    assert idlest == [one["device"] for one in ordered[:12]]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_on_the_page_points_outside_it(name):
    for one in tree(name).iter():
        for key, told in one.attrib.items():
            assert key not in ("src", "srcset", "action", "data", "poster"), (one.tag, key)
            assert key != "href" or told.startswith("#")
            assert not key.startswith("on")
            assert all(url.startswith("data:") for url in re.findall(r"url\(\s*['\"]?([^)]*)", told))
    for style in tree(name).iter("style"):
        assert "@import" not in style.text
        assert all(url.startswith("data:") for url in re.findall(r"url\(\s*['\"]?([^)]*)", style.text))
    assert [
        one.tag for one in tree(name).iter() if one.tag in ("link", "img", "iframe", "object", "embed", "base")
    ] == []


def test_only_the_pages_own_scripts_may_run_and_nothing_may_be_loaded():
    root = tree("hostile")
    (policy,) = [one.get("content") for one in root.iter("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    scripts = [one.text for one in root.iter("script") if one.get("type") is None]
    assert rules.pop("script-src").split() == [
        f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts
    ]
    assert rules == {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    # It counts for what follows it.
    head = [one.get("http-equiv") or one.tag for one in root.find("head")]
    assert head[:2] == ["meta", "Content-Security-Policy"]


@pytest.mark.parametrize(
    ("section", "shown"),
    [
        ("verdict", f"b{HOSTILE}"),
        ("time", f"gpu:0{HOSTILE}"),
        ("hidden", f"gpu:0{HOSTILE}"),
        ("together", f"gpu:1{HOSTILE}"),
        ("concurrency", f"a{HOSTILE}"),
        ("phases", f"b{HOSTILE}"),
        ("offenders", f"gpu:1{HOSTILE}"),
        ("offenders", f"{HOSTILE}\ufffd"),
        ("notes", f"note{HOSTILE}"),
    ],
)
def test_hostile_names_show_as_text(section, shown):
    assert shown in words(within(tree("hostile"), section))


def test_hostile_names_of_the_source_the_host_and_the_run_show_as_text():
    head, foot = (words(tree("hostile").find(f".//{place}")) for place in ("header", "footer"))
    assert f"traces/{HOSTILE}" in head
    assert f"host{HOSTILE}" in head
    assert f"run{HOSTILE}" in foot


def test_a_page_without_device_work_says_what_is_missing_and_draws_nothing():
    keys = [one.get("id") for one in tree("empty").iter("section")]
    assert keys[0] == "verdict"
    assert not {"time", "hidden", "together", "concurrency", "phases", "offenders"} & set(keys)
    assert report("empty").headline in words(within(tree("empty"), "verdict"))
