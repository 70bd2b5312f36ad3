"""The page against the report: what it shows, in which order, and that it keeps to itself."""

import base64
import hashlib
import re
from itertools import pairwise

import html5lib
import pandas as pd
import pytest

from tests.report.html.pages import HOSTILE, NAMES, report, table, tree, value, values, within, words
from tracekit.columns import records
from tracekit.report.html.page import page
from tracekit.report.model import time_zero
from tracekit.report.section import WORDS, AtLeast, Instant, Missing, Unit
from tracekit.report.sections.overview import CELL_WORDS
from tracekit.report.sections.sections import highlights, in_one_line

FIGURES = ("captured", "stepped", "launched", "phases", "three", "clocks", "many", "several", "one")


@pytest.mark.parametrize("name", NAMES)
def test_every_page_is_well_formed_and_each_id_stands_once(name):
    ids = [element.get("id") for element in tree(name).iter() if element.get("id")]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", NAMES)
def test_headings_are_in_order_and_the_navigation_names_every_section(name):
    root = tree(name)
    levels = [int(element.tag[1]) for element in root.iter() if re.fullmatch("h[1-6]", str(element.tag))]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    sections = [element.get("id") for element in root.iter("section")]
    assert [link.get("href") for link in root.find(".//nav").iter("a")] == [f"#{key}" for key in sections]
    for section in root.iter("section"):
        assert section.get("aria-labelledby") == section.find(".//h2").get("id")


@pytest.mark.parametrize("name", NAMES)
def test_every_table_has_a_caption_and_names_its_columns_and_rows(name):
    main = tree(name).find(".//main")
    in_tips = {table for element in main.iter() if element.get("class") == "tip" for table in element.iter("table")}
    for table_element in main.iter("table"):
        if table_element in in_tips:
            continue
        assert words(table_element.find("caption"))
        assert {cell.get("scope") for cell in table_element.findall("thead/tr/th")} == {"col"}
        assert [row[0].get("scope") for row in table_element.findall("tbody/tr")] == ["row"] * len(
            table_element.findall("tbody/tr")
        )
        assert {len(row) for row in table_element.findall("tbody/tr")} <= {len(table_element.find("thead/tr"))}


def test_the_verdict_is_first_and_the_sections_follow_in_order():
    assert [section.get("id") for section in tree("captured").iter("section")] == [
        *("verdict", "timeline", "important", "phases", "time", "top_ops", "hidden", "together", "concurrency"),
        *("critical_path", "offenders", "idle", "host_api", "launches", "bandwidth", "known", "lacking", "notes"),
    ]
    assert [section.get("id") for section in tree("stepped").iter("section")] == [
        *("verdict", "timeline", "important", "time", "top_ops", "hidden", "together", "concurrency", "findings"),
        *("critical_path", "steps", "offenders", "collectives", "idle", "host_api", "launches", "bandwidth"),
        *("known", "lacking", "notes"),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_what_repeats_is_folded_under_a_line_that_says_what_it_holds(name):
    folds = {section.get("id"): section.find("details") for section in tree(name).iter("section")}
    is_open = {"verdict", "fleet", "timeline", "important", "phases", "time", "top_ops"}
    assert {key for key, fold in folds.items() if fold is None or fold.get("class") != "part"} <= is_open
    report_sections = [*report(name).overview, *report(name).sections]
    for section in report_sections:
        fold = folds.get(section.key)
        if section.key not in is_open and fold is not None:
            assert fold.get("open") is None
            assert words(fold.find("summary")) == f"{section.title} {' '.join(visible(section.in_one_line).split())}"


@pytest.mark.parametrize("name", NAMES)
def test_the_key_figures_stand_large_with_their_exact_values_and_what_they_are_a_share_of(name):
    figures = within(tree(name), "verdict").findall("dl[@class='figures']/div")
    assert [(words(figure.find("dt")), value(figure), words(figure.find(".//span"))) for figure in figures] == [
        (figure.label, figure.value, visible(figure.of)) for figure in report(name).key_figures
    ]


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_and_what_matters_most_are_told_word_for_word(name):
    page_report, root = report(name), tree(name)
    title = words(root.find(".//h1"))
    assert title == " ".join(visible(page_report.headline).split())
    text = words(within(root, "verdict"))
    assert all(" ".join(visible(verdict).split()) in text for verdict in page_report.verdicts.values())
    rest = (page_report.verdict or "").removeprefix(page_report.headline)
    assert " ".join(visible(rest).split()) in text
    lines = highlights(page_report.sections)
    if lines:
        items = within(root, "important").findall("ol/li")
        assert [words(item) for item in items] == [" ".join(visible(in_one_line(line)).split()) for line in lines]


def visible(text: str) -> str:
    return text.replace("\x1b", "\ufffd").replace("\u202e", "\ufffd")


@pytest.mark.parametrize("name", NAMES)
def test_each_section_is_shown_with_all_it_says_or_named_with_the_reason_why_not(name):
    root = tree(name)
    ids = {element.get("id") for element in root.iter("section")}
    for section in report(name).sections:
        assert (section.key in ids) is not bool(section.lacking)
        if section.lacking:
            (titles,) = [titles for titles, reason in report(name).lacking if reason == section.lacking]
            assert section.title in titles.split(", ")
            assert f"{titles}{section.lacking}" in words(within(root, "lacking"))
            continue
        text = words(within(root, section.key))
        findings = [f"{finding.sentence} Try: {finding.action}" for finding in section.findings]
        assert all(" ".join(visible(sentence).split()) in text for sentence in [*findings, *section.sentences])


@pytest.mark.parametrize("name", FIGURES)
def test_every_table_of_the_report_is_on_the_page_with_every_row_and_exact_value(name):
    page_report, root = report(name), tree(name)
    classification = page_report.classification
    for section in [*page_report.overview, *page_report.sections, *([classification] if classification else [])]:
        for section_table in section.tables:
            if not section_table.rows or section_table.key in ("time", "steps.parts"):  # which are drawn
                continue
            head, rows = table(within(root, section.key), section_table.title)
            assert head == [column.head for column in section_table.columns]
            units = [column.unit for column in section_table.columns]
            assert [list(map(exact, row, units)) for row in rows] == [
                list(map(of, row, units)) for row in section_table.rows
            ]


def exact(cell, unit: Unit):
    """What a cell of the page holds: its exact value, or where it leads for how long."""
    if cell.find(".//span[@class='none']") is not None:
        return cell.find(".//span[@class='none']").get("title", "")
    if unit == Unit.INSTANT:
        button = cell.find(".//button")
        return int(button.get("data-to")) - int(button.get("data-from"))
    full = cell.find(".//bdi[@title]")
    return full.get("title") if full is not None else words(cell) if unit in WORDS else value(cell)


def of(cell, unit: Unit):
    """The same of a cell of the report."""
    if isinstance(cell, Missing):
        return cell.reason
    if isinstance(cell, Instant):
        return cell.end_ps - cell.start_ps
    if isinstance(cell, AtLeast):
        return cell.value
    return " ".join(cell.split()) or "(no name)" * (unit in (Unit.NAME, Unit.DEVICE)) if isinstance(cell, str) else cell


def test_of_many_devices_the_page_has_the_distribution_of_their_cells():
    head, rows = table(within(tree("many"), "time"), "Time of each device; its eight cells add up to the window")
    assert head == ["of 40 devices", "window", "busy", *CELL_WORDS.values()]
    devices = pd.DataFrame([device["partition"] | device for device in report("many").summary()["devices"]])
    of_each = devices[["window_ps", "busy_ps", *CELL_WORDS]].astype("int64")
    assert [[words(row[0]), *map(value, row[1:])] for row in rows] == [
        [name, *of_each.quantile(share, interpolation="lower").tolist()]
        for name, share in {"min": 0, "median": 0.5, "p95": 0.95, "max": 1}.items()
    ]


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "many"])
def test_the_cells_of_every_device_are_those_of_the_summary_and_sum_to_the_window(name):
    summary = report(name).summary()
    head, rows = table(within(tree(name), "time"), "Time of each device; its eight cells add up to the window")
    first = len(summary["phases"]) > 0 or summary["steady"] is not None  # the column of the parts of the trace
    assert head[first:] == ["device", "window", "busy", *CELL_WORDS.values()]
    rows = [row[first:] for row in rows]
    assert [(words(row[0]), *map(value, row[1:])) for row in rows[: len(summary["devices"])]] == [
        (device["device"], device["window_ps"], device["busy_ps"], *(device["partition"][cell] for cell in CELL_WORDS))
        for device in summary["devices"]
    ]
    assert all(sum(map(value, row[3:])) == value(row[1]) for row in rows)


@pytest.mark.parametrize("name", FIGURES)
def test_each_bar_is_as_wide_as_its_cells_and_says_them_aloud(name):
    fleet = report(name).fleet
    devices = [its for its in report(name).summary()["devices"] if not fleet or its["device"] in fleet.drawn]
    lists = within(tree(name), "time").findall(".//ul[@class='bars']")
    bars = {words(bar.find("span")): bar for bar in lists[0]}
    assert not fleet or len(bars) == len(fleet.drawn)
    for device in devices:
        bar = bars[device["device"]]
        nonzero_cells = [cell for cell in CELL_WORDS if device["partition"][cell]]
        widths = [
            float(re.search(r"width:([\d.e-]+)%", piece.get("style"))[1])
            for piece in bar.findall(".//i[@style]")
            if "width" in piece.get("style")
        ]
        assert widths == [
            pytest.approx(100 * device["partition"][cell] / device["window_ps"], rel=1e-5) for cell in nonzero_cells
        ]
        label = bar.find("span[@role='img']").get("aria-label")
        assert re.findall(r"[a-z][a-z ,]*? (?=[<>\d])", label.partition(": ")[2]) or not nonzero_cells
        assert all(CELL_WORDS[cell] in label for cell in nonzero_cells)


@pytest.mark.parametrize("name", ["captured", "phases"])
def test_two_devices_have_one_table_of_their_overlap_in_every_stretch(name):
    summary = report(name).summary()
    (pair,) = summary["device_pairs"]
    _, rows = table(within(tree(name), "together"), "Pairs of devices busy at the same time")
    stretches = [*((phase["name"], phase["device_pairs"][0]) for phase in summary["phases"]), ("whole trace", pair)]
    assert [(*map(words, row[:3]), *map(value, row[3:])) for row in rows] == [
        (name, pair["a"], pair["b"], overlap["overlap_ps"], overlap["ratio_min"], overlap["ratio_union"])
        for name, overlap in stretches
    ]


def test_the_matrix_holds_every_pair_twice_and_nothing_on_its_diagonal():
    devices = [device["device"] for device in report("several").summary()["devices"]]
    for caption, ratio in (
        ("Together, of the shorter busy time (%)", "ratio_min"),
        ("Together, of the time when either was busy (%)", "ratio_union"),
    ):
        head, rows = table(within(tree("several"), "together"), caption)
        assert head == ["", *devices]
        cells = {
            (words(row[0]), device): value(cell)
            for row in rows
            for device, cell in zip(devices, row[1:], strict=True)
            if cell.get("class") != "self"
        }
        expected = {(pair["a"], pair["b"]): pair[ratio] for pair in report("several").summary()["device_pairs"]}
        assert cells == expected | {(b, a): both for (a, b), both in expected.items()}


@pytest.mark.parametrize("name", ["captured", "phases", "three", "many", "several", "one"])
def test_the_time_with_so_many_devices_busy_is_that_of_the_summary(name):
    summary = report(name).summary()
    _, rows = table(within(tree(name), "concurrency"), "Time with exactly N devices busy")
    stretches = [("whole trace", summary), *((phase["name"], phase) for phase in summary["phases"])]
    name_columns = int(len(stretches) > 1)
    assert [(*map(words, row[:name_columns]), *map(value, row[name_columns : name_columns + 2])) for row in rows] == [
        (*([name] * name_columns), number, time)
        for name, stretch in stretches
        for number, time in enumerate(stretch["concurrency"])
        if time
    ]
    averages = [
        next(values(element)) for element in within(tree(name), "concurrency").findall(".//span[@class='told']")
    ]
    assert averages == [repr(stretch["parallelism"]) for _, stretch in stretches if stretch["parallelism"] is not None]


def test_devices_on_several_clocks_are_not_compared_and_the_page_says_why():
    root = tree("clocks")
    (pair,) = report("clocks").summary()["device_pairs"]
    assert pair["reason"]
    assert pair["reason"] in words(within(root, "together"))
    assert words(within(root, "concurrency")).endswith("Not known: the clocks of the hosts are not aligned.")
    assert not list(within(root, "concurrency").iter("data"))


@pytest.mark.parametrize("name", ["captured", "phases", "three"])
def test_the_figures_of_the_phases_are_those_of_the_summary(name):
    phases = report(name).summary()["phases"]
    head, rows = table(within(tree(name), "phases"), "Phases")
    at = {key: head.index(key) for key in ("n", "wall", "overlap", "speedup", "efficiency", "stretch", "unfinished")}
    for row, phase in zip(rows, phases, strict=True):
        assert words(row[0]) == phase["name"]
        cells = {key: value(row[place]) for key, place in at.items()}
        ratios = [pair["ratio_min"] for pair in phase["device_pairs"] if pair["ratio_min"] is not None]
        stretches = [part["stretch"] for part in phase["stretch"] if part["stretch"] is not None]
        assert cells == {
            "n": phase["n"],
            "wall": phase["wall_ps"],
            "overlap": max(ratios, default=None),
            "speedup": phase["speedup"],
            "efficiency": phase["efficiency"],
            "stretch": max(stretches, default=None),
            "unfinished": phase["unfinished_ps"],
        }


@pytest.mark.parametrize("name", ["captured", "phases", "stepped"])
def test_offenders_and_idle_intervals_are_those_of_the_summary_and_lead_to_their_place(name):
    summary, root = report(name).summary(), tree(name)
    zero = time_zero(report(name)).start_ps[""]
    head, rows = table(within(root, "offenders"), "Top offenders, each on the device that loses most to it")
    assert [(value(row[2]), value(row[3]), *target_of(row[head.index("at")], zero)) for row in rows] == [
        (offender["cost_ps"], offender["n"], offender["start_ps"], offender["end_ps"], offender["device"])
        for offender in summary["offenders"]["table"]
    ]
    if summary["idle"]:
        head, rows = table(within(root, "idle"), "Longest idle gaps")
        assert [(value(row[2]), *target_of(row[1], zero)) for row in rows] == [
            (gap["idle_ps"], gap["start_ps"], gap["end_ps"], gap["device"]) for gap in summary["idle"]["largest"]
        ]


@pytest.mark.parametrize("name", ["stepped", "launched"])
def test_steps_lead_to_their_place(name):
    summary = report(name).summary()["steps"]
    zero = time_zero(report(name)).start_ps[""]
    _, rows = table(within(tree(name), "steps"), "Steps, outliers first")
    result = sorted((value(row[2]), *target_of(row[1], zero)) for row in rows)
    assert result == sorted((step["wall_ps"], step["start_ps"], step["end_ps"], None) for step in summary["steps"])


@pytest.mark.parametrize("name", ["stepped", "launched"])
def test_each_step_has_a_column_as_high_as_its_wall_that_leads_to_it(name):
    steps = report(name).summary()["steps"]["steps"]
    zero = time_zero(report(name)).start_ps[""]
    columns = within(tree(name), "steps").find(".//div[@class='columns']")
    most = max(step["wall_ps"] for step in steps if step["left_out"] is None)
    assert [
        (
            float(re.search(r"height:([\d.e+-]+)%", column.get("style"))[1]),
            int(column.get("data-from")),
            int(column.get("data-to")),
        )
        for column in columns
    ] == [
        (
            pytest.approx(min(100, 100 * step["wall_ps"] / most), rel=1e-3),
            step["start_ps"] - zero,
            step["end_ps"] - zero,
        )
        for step in steps
    ]
    looks = [column.get("class") for column in columns]
    assert "col outlier" in looks
    expected = {"warm-up": "col left-out", "compiles": "col left-out", "cut": "col left-out"}
    assert looks == [
        (expected[step["left_out"]] if step["left_out"] else "col outlier" if step["outlier"] else "col counts")
        + (" cut" if step["wall_ps"] > most else "")
        for step in steps
    ]


def test_the_longest_pieces_of_a_path_lead_to_their_place():
    critical_path = report("stepped").summary()["critical_path"]
    zero = time_zero(report("stepped")).start_ps[""]
    (median,) = [at for at, step in enumerate(critical_path["steps"]) if step["example"] == "median"]
    pieces = [piece for piece in critical_path["path"] if piece["at"] == median and piece["name"] is not None]
    pieces.sort(key=lambda piece: -piece["time_ps"])
    _, rows = table(within(tree("stepped"), "critical_path"), "Longest pieces of the critical path of the median step")
    devices = {device["device"] for device in report("stepped").summary()["devices"]}
    assert [(words(row[0]), value(row[4]), *target_of(row[3], zero)) for row in rows] == [
        (
            piece["part"],
            piece["time_ps"],
            piece["start_ps"],
            piece["end_ps"],
            piece["on"] if piece["on"] in devices else None,
        )
        for piece in pieces[:40]
    ]


def test_launch_bound_intervals_lead_to_their_place():
    intervals = report("launched").summary()["launches"]["bound"]
    zero = time_zero(report("launched")).start_ps[""]
    assert intervals
    _, rows = table(within(tree("launched"), "launches"), "Launch-bound intervals")
    result = sorted((value(row[3]), value(row[4]), *target_of(row[1], zero)) for row in rows)
    assert result == sorted(
        (interval["launches"], interval["starved_ps"], interval["start_ps"], interval["end_ps"], interval["device"])
        for interval in intervals
    )


def test_rounds_of_phases_and_collectives_lead_to_their_place():
    page_report, root = report("phases"), tree("phases")
    zero = page_report.extent[0]
    links = within(root, "phases").iter("button")
    assert [target_of(link, zero)[:2] for link in links] == [
        (mark["start_ps"], mark["end_ps"]) for mark in records(page_report.phases.rounds)
    ]
    _, ((_, at, *_),) = table(within(root, "collectives"), "Longest waits")
    (collective,) = records(page_report.explanation.collectives.table)
    assert target_of(at, zero)[:2] == (collective["start_ps"], collective["end_ps"])


def target_of(cell, zero: int):
    """Where the button in a cell leads: start and end in ps of the trace, and device."""
    button = cell if cell.tag == "button" else cell.find(".//button")
    assert button.get("aria-label").endswith("in the timeline")
    return int(button.get("data-from")) + zero, int(button.get("data-to")) + zero, button.get("data-device")


def test_a_page_without_a_timeline_has_every_time_and_no_link_that_leads_nowhere():
    source = page(report("stepped"))
    root = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(source)
    assert "timeline" not in [section.get("id") for section in root.iter("section")]
    assert not list(within(root, "idle").iter("button"))
    _, rows = table(within(root, "idle"), "Longest idle gaps")
    zero = time_zero(report("stepped")).start_ps[""]
    gaps = report("stepped").summary()["idle"]["largest"]
    assert [value(row[1]) for row in rows] == [gap["start_ps"] - zero for gap in gaps]


def test_of_a_fleet_the_bars_are_those_of_the_devices_that_stand_for_all_beside_the_distribution():
    section, fleet = within(tree("many"), "time"), report("many").fleet
    assert [words(item.find("span")) for item in section.find("ul[@class='bars']")] == list(fleet.drawn)
    head, rows = table(section, "Where the window of 2.30 ms went")
    assert head[0] == "of 40 devices"
    assert [words(row[0]) for row in rows] == ["min", "median", "p95", "max"]
    assert [words(fold.find("summary")) for fold in section.findall("details")] == [
        "Exact figures: Time of each device; its eight cells add up to the window (4 rows)",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_on_the_page_points_outside_it(name):
    for element in tree(name).iter():
        for key, text in element.attrib.items():
            assert key not in ("src", "srcset", "action", "data", "poster"), (element.tag, key)
            assert key != "href" or text.startswith("#")
            assert not key.startswith("on")
            assert all(url.startswith("data:") for url in re.findall(r"url\(\s*['\"]?([^)]*)", text))
    for style in tree(name).iter("style"):
        assert "@import" not in style.text
        assert all(url.startswith("data:") for url in re.findall(r"url\(\s*['\"]?([^)]*)", style.text))
    assert [
        element.tag
        for element in tree(name).iter()
        if element.tag in ("link", "img", "iframe", "object", "embed", "base")
    ] == []


def test_only_the_pages_own_scripts_may_run_and_nothing_may_be_loaded():
    root = tree("hostile")
    (policy,) = [
        meta.get("content") for meta in root.iter("meta") if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    scripts = [script.text for script in root.iter("script") if script.get("type") is None]
    assert rules.pop("script-src").split() == [
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    ]
    assert rules == {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    # It counts for what follows it.
    head = [element.get("http-equiv") or element.tag for element in root.find("head")]
    assert head[:2] == ["meta", "Content-Security-Policy"]


@pytest.mark.parametrize(
    ("section", "name"),
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
def test_hostile_names_show_as_text(section, name):
    assert name in words(within(tree("hostile"), section))


def test_hostile_names_of_the_source_the_host_and_the_run_show_as_text():
    head, foot = (words(tree("hostile").find(f".//{place}")) for place in ("header", "footer"))
    assert f"traces/{HOSTILE}" in head
    assert f"host{HOSTILE}" in head
    assert f"run{HOSTILE}" in foot


def test_a_page_without_device_work_says_what_is_missing_and_draws_nothing():
    keys = [section.get("id") for section in tree("empty").iter("section")]
    assert keys[0] == "verdict"
    assert not {"time", "hidden", "together", "concurrency", "phases", "offenders"} & set(keys)
    assert report("empty").headline == words(tree("empty").find(".//h1"))
