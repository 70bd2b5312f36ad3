"""What may be said of a difference: known distributions, programs with the noise of machines, and odd step times."""

import numpy as np
import pytest

from tests.comparison.noise import Noise, captures
from tracekit.comparison import statistics
from tracekit.comparison.statistics import between_captures, modes, student_t, within_runs
from tracekit.comparison.verdict import Change, verdict

MS = 10**9


# https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm
@pytest.mark.parametrize(
    ("level", "degrees", "t"),
    [(0.95, 2, 4.303), (0.95, 4, 2.776), (0.95, 10, 2.228), (0.99, 3, 5.841), (0.9, 30, 1.697)],
)
def test_students_t_is_that_of_the_tables(level, degrees, t):
    assert student_t(level, degrees) == pytest.approx(t, abs=1e-3)


def test_the_interval_between_captures_is_welchs_on_logarithms():
    a, b = (
        [np.full(1, 100.0), np.full(1, 102.0), np.full(1, 104.0)],
        [np.full(1, 110.0), np.full(1, 113.0), np.full(1, 111.0)],
    )
    logs = [np.log([each[0] for each in side]) for side in (a, b)]
    variance = [np.var(its, ddof=1) / 3 for its in logs]
    degrees = sum(variance) ** 2 / sum(each**2 / 2 for each in variance)
    middle = logs[1].mean() - logs[0].mean()
    reach = student_t(0.95, degrees) * np.sqrt(sum(variance))
    assert between_captures(a, b, False) == pytest.approx(tuple(np.exp([middle, middle - reach, middle + reach])))


def test_captures_that_agree_by_chance_are_no_surer_than_their_steps():
    rng = np.random.default_rng(3)
    steps = [rng.normal(100, 10, 40) for _ in range(6)]
    same = [its / np.median(its) * 100 for its in steps]
    _, low, high = between_captures(same[:3], same[3:], False)
    assert low < 0.97
    assert high > 1.03


def test_the_interval_within_two_runs_holds_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(100):
        a, b = (rng.normal(100, 5, 30) for _ in range(2))
        low, high = within_runs(a, b, False)
        held += low <= 1 <= high
    assert 88 <= held <= 100


def test_blocks_are_longer_where_steps_follow_each_other():
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 1, 300)
    walk = np.cumsum(noise)
    assert statistics.block_length(noise) < 10 < statistics.block_length(walk)


def test_two_modes_that_alternate_are_found_and_their_mean_compared():
    walls = np.tile([138, 1421], 20) * MS + np.arange(40) * 10**6
    found = modes(walls.astype(float))
    assert (found.low_units, found.high_units, found.changes) == (20, 20, 39)
    its = verdict([walls], [walls], floor=0.02)
    assert its.statistic == "mean of two modes"
    assert its.a_ps == its.b_ps == pytest.approx(walls.mean(), rel=1e-3)


@pytest.mark.parametrize(
    "walls", [[100, 101, 102, 100, 99, 101, 500, 100], [1, 2, 3, 4, 5, 6, 7, 8], [100] * 8, [5, 9]], ids=str
)
def test_outliers_ramps_and_few_steps_are_no_modes(walls):
    assert modes(np.array(walls, float)) is None


def test_one_capture_a_side_gives_no_verdict_unless_noise_is_stated():
    a, b = np.arange(95, 105) * MS, np.arange(75, 85) * MS
    assert verdict([a], [b]).outcome == Change.NOT_TESTED
    assert verdict([a], [b], floor=0.05).outcome == Change.FASTER
    assert verdict([a], [b], floor=0.3).outcome == Change.INCONCLUSIVE
    steady = np.arange(1000, 1010) * MS
    assert verdict([steady], [steady + MS], floor=0.01).outcome == Change.NO_DIFFERENCE
    assert verdict([b], [a], floor=0.05).outcome == Change.SLOWER


def test_three_captures_a_side_give_each_verdict():
    def side(*medians):
        return [np.full(10, median * MS // 10) for median in medians]

    a = side(1000, 1004, 996)
    assert verdict(a, side(900, 903, 899)).outcome == Change.FASTER
    assert verdict(a, side(1100, 1103, 1099)).outcome == Change.SLOWER
    same = verdict(a, side(1001, 1003, 998))
    assert same.outcome == Change.NO_DIFFERENCE
    assert same.no_larger_than < 0.02
    assert verdict(a, side(900, 1100, 1010)).outcome == Change.INCONCLUSIVE


@pytest.mark.parametrize("noise", [Noise(), Noise(between=0.015, period=4)], ids=["one mode", "two modes"])
def test_alarms_are_seldom_false_and_a_tenth_is_seldom_missed(noise):
    """At full size, with more kinds of noise: benchmarks/verdicts.py."""
    rng = np.random.default_rng(11)
    alarms = misses = 0
    for _ in range(60):
        alarms += _outcome(captures(rng, 3, noise), captures(rng, 3, noise)) in (Change.FASTER, Change.SLOWER)
        misses += _outcome(captures(rng, 3, noise), captures(rng, 3, noise, slower=1.1)) != Change.SLOWER
    assert alarms <= 6
    assert misses <= 6


def _outcome(a, b):
    return verdict(a, b).outcome
