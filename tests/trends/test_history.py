"""Histories: runs in order, their measures, and where one changed its level; chance is no change."""

import numpy as np
import pandas as pd
import pytest

from tests.frames import events
from tests.frames import trace as make_trace
from tracekit import TracekitError
from tracekit.report.build import analyse
from tracekit.trends.change_points import LEVEL, change_points
from tracekit.trends.history import history, lines


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


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Twelve runs, of which the last six are idle for longer."""
    directory = tmp_path_factory.mktemp("runs")
    for number in range(12):
        idle = 10 + number % 3 if number < 6 else 40 + number % 3
        rows = events(("gpu:0", "compute", 0, 50), ("gpu:0", "compute", 50 + idle, 100 + idle))
        analyse(make_trace(rows)).save(directory / f"run-{number}")
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
    assert result.sentences[0].startswith("wall changed with run-6: 141 ps instead of 111 ps, +27.0 % (p = 0.00")
    assert result.sentences[0].endswith(", 6 runs before and 6 after).")
    assert lines(result)[:2] == ["run       wall", "run-0   110 ps"]


def test_what_is_no_history_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(TracekitError, match="holds no saved report: tracekit report TRACE --out"):
        history(tmp_path)
    with pytest.raises(TracekitError, match="There is no measure 'wal'; did you mean 'wall'"):
        history(tmp_path, ["wal"])
    with pytest.raises(TracekitError, match="There is no measure 'overlap'"):
        history(tmp_path, ["overlap"])
