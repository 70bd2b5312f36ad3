"""Shares of both sides held against a timeline drawn cell by cell, and their intervals against known differences."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import tracekit
from tests import traces
from tests.frames import events, spans
from tests.frames import trace as make_trace
from tests.stepped import annotations
from tracekit.analysis.overlap import MOST_PAIRED, shared_busy
from tracekit.columns import records
from tracekit.comparison.ratios import BETWEEN, WITHIN, _interval, _Share
from tracekit.report.build import analyse
from tracekit.timeline.timeline import timeline_of

CELL = 10**9
LENGTH, STEP = 240, 40


def drawn(seed, devices, steps=True, kind="gpu"):
    """A trace of rows at random in LENGTH cells, and whether each device is busy in each cell."""
    rng = np.random.default_rng(seed)
    busy, rows = np.zeros((devices, LENGTH), bool), []
    for device in range(devices):
        for start in np.sort(rng.choice(LENGTH - 12, 30, replace=False)):
            end = int(start) + int(rng.integers(1, 12))
            if (steps and end % STEP < start % STEP + 1) or end % STEP > STEP - 3:
                continue  # steps wait for their work
            busy[device, start:end] = True
            rows.append((f"{kind}:{device}", "compute", int(start) * CELL, end * CELL))
    marks = spans(("early", 0, 90 * CELL), ("late", 95 * CELL, 200 * CELL))
    if steps:
        marks = annotations(*(("train", at, at * STEP * CELL, (at + 1) * STEP * CELL) for at in range(LENGTH // STEP)))
    return make_trace(events(*rows), marks), busy


def share(busy, windows, pair=None):
    inside = np.concatenate([np.arange(start, end) for start, end in windows])
    at_once = busy[list(pair)].all(axis=0) if pair else busy.sum(axis=0) > 1
    return at_once[inside].mean()


def ratios_of(scope):
    return {row["ratio"]: row for row in records(scope.ratios)}


@pytest.mark.parametrize("devices", [2, 3])
def test_the_time_devices_work_at_once_is_that_of_a_timeline_drawn_cell_by_cell(devices, tmp_path):
    sides = [drawn(seed, devices, steps=False) for seed in (1, 2)]
    saved = analyse(sides[1][0]).save(tmp_path)
    comparison = tracekit.compare(sides[0][0], saved)
    for kind, name in [("phase", "early"), ("phase", "late"), ("whole", "")]:
        found = ratios_of(comparison.scope(kind, name))
        for side, (trace, busy) in zip("ab", sides, strict=True):
            rounds = tracekit.phases(trace).windows[name][""] if name else analyse(trace).windows[""]
            at = rounds // CELL
            assert found["two or more devices at once"][side] == pytest.approx(share(busy, at))
            for one, other in combinations(range(devices), 2):
                pair = found[f"gpu:{one} and gpu:{other} at once"]
                assert pair[side] == pytest.approx(share(busy, at, (one, other)))


def test_steps_are_drawn_likewise_and_have_an_interval_within_these_runs():
    sides = [drawn(seed, 2) for seed in (3, 4)]
    comparison = tracekit.compare(sides[0][0], sides[1][0])
    (row,) = [each for name, each in ratios_of(comparison.scope("step")).items() if name.startswith("gpu:0")]
    counted = tracekit.explain(sides[0][0]).steps.table
    windows = [(row["start_ps"] // CELL, row["end_ps"] // CELL) for row in records(counted[counted["left_out"].isna()])]
    assert row["a"] == pytest.approx(share(sides[0][1], windows, (0, 1)))
    assert row["basis"] == WITHIN
    assert row["low"] < row["b"] - row["a"] < row["high"]


def test_of_many_devices_no_pairs_are_told_and_of_one_nothing():
    trace, busy = drawn(5, MOST_PAIRED + 1, steps=False)
    timeline = timeline_of(trace)
    windows = {("whole", ""): np.array([[0, 100 * CELL], [50 * CELL, LENGTH * CELL]])}
    table = shared_busy(timeline, windows)
    assert list(table["shared_ps"] / table["window_ps"]) == [
        share(busy, [window]) for window in ((0, 100), (50, LENGTH))
    ]
    assert table["a"].isna().all()
    assert shared_busy(timeline_of(drawn(5, 1)[0]), windows).empty


def test_a_side_that_does_not_tell_how_long_devices_worked_at_once_is_null_with_the_reason(tmp_path):
    two, one = drawn(6, 2)[0], drawn(7, 1)[0]
    row = ratios_of(tracekit.compare(two, one).scope("step"))["two or more devices at once"]
    assert (row["b"], row["low"], row["reason"]) == (None, None, "one device only in B")
    old = analyse(two)
    row = ratios_of(tracekit.compare(replace(old, shared_busy=old.shared_busy[:0]), drawn(8, 2)[0]).scopes[0])
    reason = "not held by this saved report (make it again from its trace) in A"
    assert row["two or more devices at once"]["reason"] == reason
    cores = replace(analyse(drawn(6, 2, kind="cpu")[0]), cores=1.0)
    row = ratios_of(tracekit.compare(cores, two).scopes[0])["two or more devices at once"]
    assert row["reason"] == "time-sharing only (2 CPU devices on 1 core) in A"


def test_a_saved_report_compares_as_its_trace_does(tmp_path):
    path = traces.path("stepped-cpu.xplane.pb.gz")
    saved = analyse(path).save(tmp_path)
    other = drawn(9, 2)[0]
    of_trace, of_saved = (tracekit.compare(source, other) for source in (path, saved))
    assert [scope.label for scope in of_trace.scopes] == [scope.label for scope in of_saved.scopes]
    for one, two in zip(of_trace.scopes, of_saved.scopes, strict=True):
        pd.testing.assert_frame_equal(one.ratios, two.ratios)


def units(rng, ratio, n, spread=0.1):
    whole = rng.uniform(50, 150, n)
    return whole * np.clip(rng.normal(ratio, spread, n), 0, 1), whole


def test_the_interval_within_runs_holds_the_true_difference_as_often_as_it_says():
    rng, held = np.random.default_rng(1), 0
    for _ in range(200):
        sides = [_Share(*((each,) for each in units(rng, ratio, 40))) for ratio in (0.4, 0.55)]
        low, high, basis = _interval(*sides)
        assert basis == WITHIN
        held += low <= 0.15 <= high
    assert 0.88 <= held / 200 <= 0.99


def test_the_interval_between_captures_takes_in_what_differs_between_runs():
    rng, held = np.random.default_rng(2), 0
    for _ in range(200):
        sides = []
        for ratio in (0.4, 0.55):
            runs = [units(rng, ratio + rng.normal(0, 0.05), 20) for _ in range(3)]
            sides.append(_Share(tuple(part for part, _ in runs), tuple(whole for _, whole in runs)))
        low, high, basis = _interval(*sides)
        assert basis == BETWEEN
        held += low <= 0.15 <= high
    assert 0.92 <= held / 200 <= 1


def test_too_few_units_have_no_interval():
    few = _Share((np.array([1.0, 2, 3]),), (np.array([4.0, 4, 4]),))
    assert _interval(few, few) is None
