import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

import tracekit
from tests.fleet_reports import multiplied, with_noise
from tests.fleet_traces import with_stragglers
from tracekit.analysis.completeness import LOSS_COLUMNS
from tracekit.analysis.fleet import IDLE_COLUMNS, longer_on_drawn
from tracekit.columns import frame, records
from tracekit.report.build import analyse
from tracekit.report.html.page import page
from tracekit.report.markdown import markdown
from tracekit.report.section import MOST_DATA, Column, Instant, Missing, Table, Unit, table
from tracekit.report.sections import completeness
from tracekit.report.sections.fleet import distribution, finding, levels, section
from tracekit.report.terminal.printout import show
from tracekit.timeline.timeline import timeline_of
from tracekit.units import time

_SCREEN = 50  # lines


@pytest.fixture(scope="module")
def fleet():
    """64 devices of which one holds up all others."""
    return timeline_of(with_stragglers(64, 12, {21: 1.3}).trace)


@pytest.fixture(scope="module")
def report(fleet):
    return analyse(fleet)


def printed(report, timeline, full=False):
    on = Console(file=io.StringIO(), width=120)
    show(report, on, full, timeline)
    return on.file.getvalue()


def of_devices(number, *columns):
    heads = [Column("device", Unit.DEVICE), *(Column(head, unit) for head, unit, _ in columns)]
    rows = [[f"gpu:{at}", *(value(at) for _, _, value in columns)] for at in range(number)]
    return table("k", "T", heads, rows, number)


def test_a_table_of_many_devices_becomes_the_distribution_of_its_figures():
    result = distribution(of_devices(100, ("busy", Unit.TIME, lambda at: (7 * at + 3) % 100)))
    values = np.arange(100)
    assert result.columns[0].head == "of 100 devices"
    assert dict(result.rows) == {
        "min": 0,
        "median": int(np.quantile(values, 0.5, method="inverted_cdf")),
        "p95": int(np.quantile(values, 0.95, method="inverted_cdf")),
        "max": 99,
    }
    assert result.extract == "Largest: busy on gpu:28."
    assert result.brief == (0, 1, 2, 3)


def test_each_kind_of_work_has_a_distribution_of_its_own_and_what_is_unknown_counts_nowhere():
    columns = [Column("device", Unit.DEVICE), Column("work", Unit.TEXT), Column("ratio", Unit.RATIO)]
    rows = [(f"gpu:{at}", work, None if at % 2 else at / 100) for at in range(20) for work in ("copies", "collectives")]
    result = distribution(table("k", "T", columns, rows, [at for at, row in enumerate(rows) if row[1] == "copies"]))
    assert [row[:2] for row in result.rows] == [
        (words, work) for work in ("copies", "collectives") for words in ("min", "median", "p95", "max")
    ]
    assert [row[2] for row in result.rows[:4]] == [0.0, 0.08, 0.18, 0.18]
    assert result.brief == (0, 1, 2, 3)


@pytest.mark.parametrize(
    "its",
    [
        of_devices(16, ("busy", Unit.TIME, int)),
        of_devices(40, ("at", Unit.INSTANT, lambda at: Instant(at, at + 1))),
        of_devices(40, ("name", Unit.NAME, str), ("time", Unit.TIME, int)),
        Table("k", "T", (Column("operation", Unit.NAME),), (("a",),) * 40, (0,)),
    ],
    ids=["few", "events", "each-of-another-name", "no-devices"],
)
def test_tables_of_few_devices_of_events_and_of_something_else_stay(its):
    assert distribution(its) is its


def test_a_figure_that_is_known_of_no_device_stays_unknown():
    result = distribution(of_devices(20, ("rate", Unit.RATIO, lambda _: None)))
    assert {row[1] for row in result.rows} == {Missing("it is known of no device")}


def test_the_text_of_64_devices_names_the_straggler_and_its_host_on_two_screens(report, fleet):
    text = printed(report, fleet)
    assert len(text.splitlines()) <= 2 * _SCREEN
    assert "Costliest straggler: host0002/gpu:5, last in 12 of 12 collectives" in text
    assert "1 outlier: host0002/gpu:5 (compute" in text
    (row,) = [line.split() for line in text.splitlines() if line.startswith("host0002/gpu:5  host0002")]
    cost = report.explanation.collectives.by_device.set_index("device").loc["host0002/gpu:5", "cost_ps"]
    assert row[2] == f"{cost / 1e9:.1f}"
    drawn = [line.split()[0] for line in text.splitlines() if line.startswith("host") and line.endswith("%")]
    assert drawn == list(report.fleet.drawn)


def test_outliers_on_hosts_of_stragglers_and_seconds_of_a_host_come_last(report):
    """A late host that all eight devices of are outliers hid the slow ones of others, which only the list names."""
    ranks, hosts = report.fleet.ranks.copy(), report.fleet.hosts.copy()
    named = {"host0003": 4, "host0005": 2, "host0007": 1}
    for host, many in named.items():
        its = np.flatnonzero((ranks["host"] == host).to_numpy())[:many]
        ranks.loc[its, "differs_in"], ranks.loc[its, "differs_by"] = "compute_ps", 0.5 / int(host[-1])
    hosts["straggler"] = hosts["host"] == "host0003"
    its = section(replace(report.fleet, ranks=ranks.assign(straggler=False), hosts=hosts))
    (sentence,) = [each for each in its.sentences if "outlier" in each]
    of_hosts = [ranks.loc[ranks["host"] == host, "device"].iloc[0] for host in ("host0005", "host0007")]
    devices = ["host0002/gpu:5", *of_hosts]
    assert sentence.startswith("8 outliers, 4 of them on hosts of stragglers: ")
    places = [sentence.find(f"{device} (compute") for device in devices]
    assert -1 not in places
    assert " and 5 more" in sentence


def test_files_that_cannot_be_read_and_ranks_without_one_are_named_in_the_first_line(report):
    losses = [
        ("", "files", 2, 7, "host0001.xplane.pb is cut short; copy it; host4, left out; and 3 more"),
        ("", "ranks", 1, 8, "host0006"),
    ]
    known = replace(report.explanation.completeness, losses=frame(LOSS_COLUMNS, losses), bounds="A few.")
    assert completeness.section(known).in_one_line == (
        "A few ranks are missing (2 of 7 files could not be read: host0001.xplane.pb, host4; no file of "
        "host0006): the waiting of collectives is a lower bound."
    )


def test_the_report_says_what_took_longer_on_a_device_that_stands_for_all(report):
    its = report.fleet
    (median,) = its.ranks.loc[its.ranks["role"] == "median", "device"]
    longer = longer_on_drawn(its, report.explanation.top_ops.by_device)
    (first, *_) = records(longer)
    assert (first["device"], first["kind"]) == ("host0002/gpu:5", "compute")
    there = f"{time(first['median_ps'])} on {median}, the median device."
    sentence = f"{first['name']} took {time(first['time_ps'])} on host0002/gpu:5, and {there}"
    assert sentence in report.overview[0].sentences
    assert "fleet.drawn_longer" in [table.key for table in report.overview[0].tables]
    assert [row["more_ps"] for row in report.summary()["fleet"]["drawn_longer"]] == longer["more_ps"].tolist()


@pytest.mark.parametrize(("ratio", "is_told"), [(0.31, True), (0.055, False)])
def test_why_the_idlest_device_stood_idle_is_told_where_it_did_so_for_longer_than_the_median(report, ratio, is_told):
    rows = [("a", "median", 5, 0.05, "unexplained", 0.5), ("b", "straggler", 31, ratio, "host-bound", 0.7)]
    idle = frame(IDLE_COLUMNS, rows)
    sentence = "b was idle for 31.0 % of its window, mainly host-bound (70.0 % of that)."
    assert (sentence in section(report.fleet, idle=idle).sentences) is is_told
    assert not any("b was idle" in each for each in section(report.fleet, idle=idle[1:]).sentences)
    assert [table.key for table in section(report.fleet, idle=idle).tables][-1] == "fleet.drawn_idle"


@pytest.mark.parametrize("devices", [80])
def test_the_text_does_not_grow_with_the_devices(report, fleet, devices):
    more = timeline_of(with_stragglers(devices, 12, {21: 1.3}).trace)
    larger = analyse(more)
    for words in (printed(larger, more, full=True), markdown(larger)):
        assert len(words.splitlines()) <= len(printed(report, fleet, full=True).splitlines()) + _SCREEN


def test_sixteen_devices_are_still_listed():
    report = analyse(with_stragglers(16, 6, {}).trace)
    assert report.fleet is None
    assert report.summary()["fleet"] is None
    assert len(next(its for its in report.overview if its.key == "time").tables[0].rows) == 16


def test_a_saved_report_has_the_same_fleet(report, tmp_path):
    again = tracekit.load(report.save(tmp_path))
    assert again.summary() == report.summary()
    for name in ("ranks", "hosts", "bins", "cells"):
        assert getattr(again.fleet, name).equals(getattr(report.fleet, name))


def test_the_summary_holds_the_first_entries_of_long_lists_and_says_how_long_they_were(report):
    summary = report.summary()
    assert len(summary["device_pairs"]) == MOST_DATA
    assert summary["shortened"]["device_pairs"] == 64 * 63 // 2
    data = summary["fleet"]
    assert (data["devices"], data["hosts"], data["steps"]) == (64, 8, 12)
    assert [its["device"] for its in data["stragglers"]] == ["host0002/gpu:5"]
    (busy,) = [its for its in data["distributions"] if its["what"] == "compute_ps"]
    assert busy["max"] == report.fleet.ranks["compute_ps"].max()
    assert busy["most"] == "host0002/gpu:5"


def test_eight_thousand_devices_make_a_page_a_text_and_a_summary_of_bounded_size():
    """No two cells are alike, so that nothing of them compresses well."""
    timeline = timeline_of(with_stragglers(64, 40, {21: 1.3}).trace)
    report = with_noise(multiplied(analyse(timeline), 128))
    assert (len(report.fleet.ranks), len(report.fleet.hosts)) == (8192, 1024)
    assert 1 << 18 < len(report.fleet.cells) <= 1 << 19
    assert len(page(report, timeline)) < 5_000_000
    assert len(printed(report, timeline).splitlines()) <= 2 * _SCREEN
    assert len(json.dumps(report.summary())) < 6_000_000


def test_the_time_with_so_many_devices_busy_is_told_of_levels_where_they_are_many():
    columns = [Column("devices busy", Unit.COUNT), Column("time", Unit.TIME), Column("share", Unit.RATIO)]
    exact = table("concurrency", "T", columns, [(at, 10 * at, at / 100) for at in range(1000)], 0)
    result = levels(exact)
    assert [row[0] for row in result.rows[:3]] == ["0", "1 to 32", "33 to 64"]
    assert result.rows[1][1] == 10 * sum(range(1, 33))
    assert sum(row[1] for row in result.rows) == sum(row[1] for row in exact.rows)
    few = table("concurrency", "T", columns, [(at, 1, 0.5) for at in range(20)], 0)
    assert levels(few) is few


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["rank0", "rank1"], "in 2 processes"),
        (["node3/rank0", "node3/rank1"], "in 2 processes"),
        (["worker-0", "worker-1"], "on 2 hosts"),
        (["a", "rank1"], "on 2 hosts"),
    ],
)
def test_ranks_whose_machines_nobody_names_are_processes(report, names, words):
    hosts = report.fleet.hosts.head(2).assign(host=names)
    its = section(replace(report.fleet, hosts=hosts))
    assert its.sentences[0].startswith(f"64 devices {words};")
    (its_table,) = (each for each in its.tables if each.key == "fleet.hosts")
    assert its_table.columns[0].head == ("process" if "in" in words.split() else "host")
    assert its_table.title == ("Processes, costliest first" if "in" in words.split() else "Hosts, costliest first")


def test_a_host_whose_devices_are_all_late_is_the_straggler_and_not_one_of_them():
    late = analyse(timeline_of(with_stragglers(24, 12, dict.fromkeys(range(8, 16), 1.3)).trace))
    assert late.fleet.hosts["straggler"].tolist() == [False, True, False]
    waited = time(int(late.fleet.hosts["waited_ps"].iloc[1]))
    assert section(late.fleet).sentences[1] == (
        "Costliest straggler: all 8 devices of host0001, one of which was last in 12 of 12 collectives; together, the "
        f"devices of other hosts waited {waited} for them."
    )
    assert finding(late.fleet) == section(late.fleet).sentences[1]
    assert "mostly waiting for the devices of host0001" in late.verdict
