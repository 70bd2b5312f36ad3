"""Histories: runs in order, their measures, and where one changed its level; chance is no change."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from tests.analysis.test_steady import THREE
from tests.docs.blocks import ROOT, page_blocks
from tests.frames import events, spans
from tests.frames import trace as make_trace
from tests.stepped import annotations
from tracekit import TracekitError
from tracekit.analysis.completeness import LOSS_COLUMNS
from tracekit.columns import frame, records
from tracekit.report.build import analyse
from tracekit.report.load import load
from tracekit.report.section import Unit
from tracekit.trends.change_points import LEVEL, change_points, shift_interval
from tracekit.trends.figure import _ticks, figure
from tracekit.trends.history import HISTORY_COLUMNS, History, history, lines, reasons, series_of
from tracekit.trends.history import _changes as changes_of
from tracekit.trends.page import page, write_history


def noise(seed, n=20):
    return np.random.default_rng(seed).normal(100, 2, n)


def test_a_change_of_level_is_found_where_it_is():
    at = [
        [point.at for point in change_points(noise(seed) * np.where(np.arange(20) < 12, 1, 1.1))] for seed in range(40)
    ]
    assert sum(found == [12] for found in at) >= 36
    assert sum(bool(found) for found in at) == 40


def test_chance_is_a_change_in_no_more_series_than_the_level_says():
    alarms = sum(bool(change_points(noise(seed))) for seed in range(300))
    assert alarms <= 300 * LEVEL + 3 * (300 * LEVEL) ** 0.5


def test_a_change_that_was_undone_is_two_changes_and_an_outlier_is_none():
    values = np.repeat([100.0, 130.0, 100.0], 12) + noise(1, 36) - 100
    values[3] = 500
    assert [point.at for point in change_points(values)] == [12, 24]
    assert change_points(np.full(30, 7.0)) == ()


def test_the_interval_of_a_shift_holds_the_true_one_as_often_as_it_says():
    for n, m in ((6, 6), (4, 20), (30, 50)):
        rng = np.random.default_rng(n)
        bounds = [shift_interval(rng.standard_t(3, n), rng.standard_t(3, m) + 1) for _ in range(400)]
        assert 0.92 <= np.mean([low <= 1 <= high for low, high in bounds]) <= 0.99


def test_the_interval_of_a_shift_is_between_differences_of_pairs_and_of_too_few_values_there_is_none():
    before, after = np.array([1.0, 2, 3, 4]), np.array([11.0, 12, 13, 14])
    differences = sorted(b - a for a, b in product(before, after))
    assert shift_interval(before, after) == (differences[0], differences[-1])
    assert shift_interval(before[:3], after) is None


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Twelve runs, of which the last six are idle for longer."""
    directory = tmp_path_factory.mktemp("runs")
    for number in range(12):
        idle = 10 + number % 3 if number < 6 else 40 + number % 3
        rows = events(("gpu:0", "compute", 0, 50), ("gpu:0", "compute", 50 + idle, 100 + idle))
        marks = [("early", 0, 55), ("late", 55, 100 + idle)][: 1 if number == 3 else 2]
        analyse(make_trace(rows, spans(*marks))).save(directory / f"run-{number}")
    return directory


def test_a_history_has_the_measures_of_all_runs_in_order(saved, tmp_path):
    result = history(saved, ["wall", "overlap devices"])
    walls = result.table[result.table["measure"] == "wall"]
    assert list(walls["run"]) == [f"run-{number}" for number in range(12)]
    assert list(walls["value"]) == [110, 111, 112] * 2 + [140, 141, 142] * 2
    overlaps = result.table[result.table["measure"] == "overlap devices"]
    assert overlaps["value"].isna().all()
    assert set(overlaps["reason"]) == {"The trace holds the work of one device only, gpu:0."}
    pd.testing.assert_frame_equal(pd.read_parquet(result.save(tmp_path / "h.parquet")), result.table, check_dtype=False)


def test_a_change_is_told_with_its_run_and_how_sure_it_is(saved):
    result = history(saved, ["wall"])
    assert result.sentences[0].startswith(
        "wall changed with run-6: 141 ps instead of 111 ps, +27.0 % [+26.1 %, +27.9 %] (p = 0.00"
    )
    assert result.sentences[0].endswith(", 6 runs before and 6 after).")
    assert lines(result)[:2] == ["run       wall", "run-0   110 ps"]


def test_runs_that_are_not_whole_among_others_are_left_out_and_told(tmp_path):
    """That ranks are missing from the last six is no change of the program; where all lack some, all are followed."""
    for number in range(12):
        rows = events(("gpu:0", "compute", 0, 100 if number < 6 else 140))
        report = analyse(make_trace(rows))
        losses = frame(LOSS_COLUMNS, [("", "ranks", 1, 2, "rank 1")])
        known = replace(report.explanation.completeness, losses=losses)
        lacking = replace(report, explanation=replace(report.explanation, completeness=known))
        (lacking if number >= 6 else report).save(tmp_path / "some" / f"run-{number:02}")
        lacking.save(tmp_path / "all" / f"run-{number:02}")
    why = "is not whole: 1 of 2 ranks or hosts have no file: rank 1."
    some = history(tmp_path / "some", ["wall"])
    assert list(some.table["value"].dropna()) == [100] * 6
    assert {*some.table["reason"].dropna()} == {f"The trace {why}"}
    assert not len(some.changes)
    note = f"6 runs, such as run-06, have no value here, as their trace {why}"
    assert note in some.notes
    assert note in " ".join(" ".join(lines(some)).split())
    assert why in page(some, "some")
    for place in (tmp_path / "all").glob("run-0[0-5]"):  # an event of so many changes no figure, and lacks no rank
        losses = frame(LOSS_COLUMNS, [("", "events", 1, 10**6, "without a time")])
        known = replace(report.explanation.completeness, losses=losses)
        damaged = replace(report, explanation=replace(report.explanation, completeness=known))
        damaged.save(tmp_path / "few" / place.name)
        report.save(tmp_path / "few" / f"whole-{place.name}")
    assert list(history(tmp_path / "few", ["wall"]).table["value"]) == [140] * 12
    every = history(tmp_path / "all", ["wall"])
    assert [(row["run"], row["before"], row["after"]) for row in records(every.changes)] == [("run-06", 100, 140)]
    assert every.notes == ()


def test_a_phase_is_followed_where_it_is_asked_for_or_where_every_report_has_it(saved):
    every = history(saved, ["step-time", "wall"], phases=None)
    assert [each.title for each in series_of(every)] == ["step-time", "wall", "wall of early"]
    assert {*series_of(every)[2].rows["value"]} == {55}
    late = history(saved, ["wall", "speedup"], phases=["late"])
    assert [each.title for each in series_of(late)] == ["wall", "wall of late", "speedup of late"]
    walls = series_of(late)[1].rows
    expected = [idle + 45 for idle in (10, 11, 12, None, 11, 12, 40, 41, 42, 40, 41, 42) if idle]
    assert list(walls["value"].dropna()) == expected
    assert list(walls["reason"].dropna()) == ["The trace has no phase 'late'. Its phases are early."]
    assert [(row["run"], row["phase"]) for row in records(series_of(late)[1].changes)] == [("run-6", "late")]
    assert "phase late" in lines(late)


def test_runs_measured_in_steady_steps_and_in_the_whole_trace_are_said_to_be(saved, tmp_path):
    assert history(saved, ["wall"]).notes == ()
    load(saved / "run-0").save(tmp_path / "whole")
    analyse(THREE).save(tmp_path / "steady")
    (note,) = history(tmp_path, ["wall"]).notes
    assert note.startswith("Measured in their steady steps: 1 run, such as steady; in the whole trace, ")


def test_runs_are_labelled_by_their_commits_where_these_are_known(saved, tmp_path):
    commits = {0: "aaa1111", 1: "aaa1111-dirty", 6: "bbb2222"}
    for number in range(12):
        report = load(saved / f"run-{number}")
        origin = replace(report.trace, commit=commits.get(number, ""))
        replace(report, trace=origin).save(tmp_path / "runs" / f"run-{number}")
    result = history(tmp_path / "runs", ["wall"])
    assert result.commits == [commits.get(number, "") for number in range(12)]
    assert lines(result)[:3] == [
        "run     commit           wall",
        "run-0   aaa1111        110 ps",
        "run-1   aaa1111-dirty  111 ps",
    ]
    assert result.sentences[0].startswith("wall changed with run-6 (commit bbb2222): 141 ps instead of 111 ps")
    words = [text.get_text() for text in figure(result).texts]
    assert any(word.startswith("bbb2222: 111 ps → 141 ps") for word in words)
    write_history(result, tmp_path / "runs", tmp_path / "out")
    assert "aaa1111-<wbr>dirty" in (tmp_path / "out" / "history.html").read_text("utf-8")
    assert list(pd.read_parquet(tmp_path / "out" / "history.parquet")["commit"].dropna()) == [*commits.values()]


def followed(values, unit=Unit.TIME, measure="exposed-copy"):
    """A history of one measure, of whose runs those of None have no value."""
    n = len(values)
    columns = {
        "place": range(n),
        "run": [f"r{at:02}" for at in range(n)],
        "commit": [None] * n,
        "started_ns": [None] * n,
        "measure": [measure] * n,
        "phase": [None] * n,
        "value": values,
        "unit": [str(unit)] * n,
        "where": [None] * n,
        "reason": [None if value is not None else "No copies ran." for value in values],
    }
    table = frame(HISTORY_COLUMNS, columns)
    return History(table, changes_of(table))


def test_a_measure_that_all_runs_have_from_one_on_and_none_before_came_with_it():
    came, went = followed([None] * 7 + [3 * 10**9] * 7), followed([3 * 10**9] * 7 + [None] * 7)
    assert came.headline == "14 runs: no change of level, 1 measure came or went"
    assert came.sentences == [
        "exposed-copy has values from r07 on, 3.00 ms in the median, and none before "
        "(p = 0.000583, 7 runs before and 7 after)."
    ]
    assert went.sentences[0].startswith("exposed-copy has no value from r07 on, 3.00 ms in the median before (p = ")
    assert lines(came)[-1] == "exposed-copy: in 7 of 14 runs (r00 to r06): No copies ran."
    assert "in 7 of 14 runs (r00 to r06): No copies ran." in page(came, "x")
    assert "has values from r07 on" in page(came, "x")


@pytest.mark.parametrize(
    "there", [[0] * 13 + [1], [0] * 12 + [1] * 2, [0, 1] * 7, [0] * 5 + [1] * 4, [1] * 14], ids=str
)
def test_values_that_chance_may_have_put_on_one_side_are_not_told_to_have_come(there):
    its = followed([3 * 10**9 if is_there else None for is_there in there])
    assert its.came_or_went == []


@pytest.mark.parametrize(
    ("absent", "words"),
    [
        ([*range(14)], "exposed-copy: No copies ran."),
        ([3], "exposed-copy: in 1 of 14 runs (r03): No copies ran."),
        ([3, 4], "exposed-copy: in 2 of 14 runs (r03, r04): No copies ran."),
        ([0, 2, 4, 6, 8, 10], "exposed-copy: in 6 of 14 runs (r00, r02, r04, r06 and 2 more): No copies ran."),
    ],
    ids=str,
)
def test_why_there_is_no_value_is_told_with_the_runs_that_have_none(absent, words):
    assert reasons(followed([None if at in absent else 10**9 for at in range(14)])) == [words]


@pytest.mark.parametrize(
    ("before", "after", "unit", "words"),
    [
        (0.00244, 0.00235, Unit.RATIO, "0.235 % instead of 0.244 %, -3.7 %"),
        (4_121_000_000, 4_123_000_000, Unit.TIME, "4.123 ms instead of 4.121 ms, <0.1 % more"),
        (0.1, 0.2, Unit.RATIO, "20.0 % instead of 10.0 %, +100.0 %"),
    ],
)
def test_levels_that_would_read_alike_have_the_digits_that_tell_them_apart(before, after, unit, words):
    its = followed([before] * 7 + [after] * 7, unit, "wall")
    assert f"wall changed with r07: {words}" in its.sentences[0]


def test_what_is_no_history_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(TracekitError, match="holds no saved report: tracekit report TRACE --out"):
        history(tmp_path)
    with pytest.raises(TracekitError, match="There is no measure 'wal'; did you mean 'wall'"):
        history(tmp_path, ["wal"])
    with pytest.raises(TracekitError, match="There is no measure 'overlap'"):
        history(tmp_path, ["overlap"])


def test_a_phase_that_no_report_has_is_refused(saved):
    with pytest.raises(TracekitError, match="No report has a phase 'earl'; did you mean 'early'"):
        history(saved, ["wall"], phases=["earl"])
    with pytest.raises(TracekitError, match="A speedup is that of a phase"):
        history(saved, ["speedup"])


def test_a_picture_has_a_panel_for_each_series_and_words_for_each_change(saved):
    drawing = figure(history(saved, ["wall", "idle", "overlap devices"]))
    words = [text.get_text() for text in drawing.texts]
    assert {"wall", "idle"} <= {*words}
    assert sum(word.startswith("run-6: 111 ps → 141 ps, +27.0 % [+26.1 %, +27.9 %], p = 0.00") for word in words) == 1
    assert "No run has a value of overlap devices." in words
    levels = [line.get_ydata()[0] for line in drawing.axes[0].lines if line.get_linewidth() == 1.6]
    assert levels[:2] == [111, 141]


def test_of_a_value_far_from_all_others_a_triangle_stands_at_the_edge(saved):
    result = history(saved, ["wall"])
    table = result.table.assign(value=[*result.table["value"][:-1], 5000.0])
    drawing = figure(type(result)(table, result.changes))
    assert drawing.axes[0].get_ylim()[1] < 200
    drawn = [len(marks.get_offsets()) for marks in drawing.axes[0].collections]
    assert drawn == [11, 1, 0]


def test_ticks_of_shares_that_differ_little_are_told_apart():
    ticks = _ticks(Unit.RATIO, 0.99682, 0.99764)
    assert [words for _, words in ticks] == ["99.700 %", "99.725 %", "99.750 %"]
    assert [words for _, words in _ticks(Unit.RATIO, 0.0, 1.0)] == ["0 %", "25 %", "50 %", "75 %", "100 %"]


def test_of_too_few_runs_no_face_says_that_nothing_changed(saved):
    few = history(saved, ["wall"])
    few = type(few)(few.table[few.table["run"].isin(few.runs[:9])], few.changes.iloc[:0])
    assert few.headline == "9 runs: too few to tell a change of level"
    for text in (page(few, "x"), *(each.get_text() for each in figure(few).texts)):
        assert "no change" not in text


def test_a_page_needs_nothing_else_and_holds_changes_runs_and_reasons(saved, tmp_path):
    result = history(saved, ["wall", "overlap devices"])
    assert write_history(result, saved, tmp_path) == (
        "history.html", "history.png", "history.parquet", "changes.parquet",
    )  # fmt: skip
    text = (tmp_path / "history.html").read_text("utf-8")
    assert "Content-Security-Policy" in text
    assert "<script" not in text
    assert text.count("data:image/svg+xml;base64,") == 2
    assert "http://" not in text.replace("http://www.w3.org", "")
    for words in ("12 runs: 1 change of level", "run-<wbr>6", "one device only"):
        assert words in text
    assert "<img" not in page(result, "x<y")
    assert "x&lt;y" in page(result, "x<y")
    kept = records(pd.read_parquet(tmp_path / "changes.parquet"))
    assert [(row["run"], row["before"], row["after"]) for row in kept] == [("run-6", 111, 141)]


def test_the_query_of_the_docs_gives_the_step_times_since_the_last_change(tmp_path, monkeypatch, capsys):
    pytest.importorskip("duckdb", reason="duckdb is not installed here")
    times = [10, 11, 12, 10, 11, 12, 20, 21, 22, 20, 21, 22]
    for number, length in enumerate(times):
        steps = range(0, 4 * length, length)
        rows = events(*(("gpu:0", "compute", start * 10**9, (start + 5) * 10**9) for start in steps))
        marks = annotations(*(("train", at, start * 10**9, (start + length) * 10**9) for at, start in enumerate(steps)))
        analyse(make_trace(rows, marks)).save(tmp_path / "runs" / f"run-{number:02}")
    write_history(history(tmp_path / "runs", phases=None), "runs", tmp_path / "trend")
    (query,) = [b for b in page_blocks(ROOT / "docs/howto/ci.md") if b.comment == "file: ask_history.py"]
    monkeypatch.chdir(tmp_path)
    exec(compile(query.text, query.where, "exec"), {})
    printed = capsys.readouterr().out
    said = [line.split("│")[1:3] for line in printed.splitlines() if "run-" in line]
    expected = [(f"run-{number:02}", float(times[number])) for number in range(6, 12)]
    assert [(run.strip(), float(value)) for run, value in said] == expected
