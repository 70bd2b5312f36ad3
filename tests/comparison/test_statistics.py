"""What may be said of a difference: known distributions, programs with the noise of machines, and odd step times."""

import numpy as np
import pytest
import scipy.stats

from tests.comparison.noise import Noise, captures
from tracekit.comparison import statistics
from tracekit.comparison.statistics import (
    between_captures,
    chance_of_all_and_none,
    excess_of_long,
    modes,
    student_t,
    within_runs,
)
from tracekit.comparison.verdict import Change, Control, verdict

MS = 10**9


# https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm
@pytest.mark.parametrize(
    ("level", "degrees", "t"),
    [(0.95, 2, 4.303), (0.95, 4, 2.776), (0.95, 10, 2.228), (0.99, 3, 5.841), (0.9, 30, 1.697)],
)
def test_students_t_is_that_of_the_tables(level, degrees, t):
    assert student_t(level, degrees) == pytest.approx(t, abs=1e-3)


@pytest.mark.parametrize(
    "b", [[110.0, 113.0, 111.0], [110.0, 113.0, 111.0, 119.0]], ids=["as many: Student's", "more: Welch's"]
)
def test_the_interval_between_captures_is_that_of_scipy_on_logarithms(b):
    a = [100.0, 102.0, 104.0]
    test = scipy.stats.ttest_ind(np.log(b), np.log(a), equal_var=len(a) == len(b))
    bounds = test.confidence_interval(0.95)
    middle = np.log(b).mean() - np.log(a).mean()
    sides = ([np.array([median]) for median in side] for side in (a, b))
    assert between_captures(*sides, False) == pytest.approx(tuple(np.exp([middle, bounds.low, bounds.high])))


def test_as_many_captures_as_are_asked_for_narrow_the_interval_to_the_margin():
    rng = np.random.default_rng(8)
    a, b = ([np.array([its]) for its in np.exp(rng.normal(0, 0.08, 200))] for _ in range(2))
    ratio, low, _ = between_captures(a, b, False)
    number = statistics.captures_for(0.05, ratio / low, (200, 200), 0.95)
    scatter = np.sqrt(np.mean([np.var(np.log(side), ddof=1) for side in (a, b)]))
    # Where the scatter is known 1.96 * scatter * sqrt(2 / n) = ln 1.05; it is not, which takes two or three more.
    assert 0 < number - 2 * (1.96 * scatter / np.log(1.05)) ** 2 < 4
    reaches = [between_captures(a[at:][:number], b[at:][:number], False) for at in range(0, 200 - number, number)]
    assert np.mean([np.log(high / middle) for middle, _, high in reaches]) == pytest.approx(np.log(1.05), rel=0.15)


def test_a_control_takes_the_pace_of_each_capture_out_of_its_times():
    times, control = [np.array([10.0, 30.0]), np.array([10.0, 20.0])], [np.array([5.0, 15.0]), np.array([4.0] * 3)]
    paced = statistics.at_one_pace(times, control, 8.0)
    assert [its.tolist() for its in paced] == [[16.0, 16.0], [20.0, 40.0]]


def _paced(rng, slower):
    """Walls in ps of three captures on machines of any pace, and of a control beside them."""
    pace = np.exp(rng.normal(0, 0.3, (3, 1)) + rng.normal(0, 0.1, (3, 40)))
    noise = np.exp(rng.normal(0, 0.02, (2, 3, 40)))
    return [np.round(10 * MS * its).astype(np.int64) for its in (pace * noise[0] * slower, pace * noise[1])]


def test_at_the_pace_of_a_control_a_tenth_is_found_on_machines_that_differ_by_far_more():
    rng = np.random.default_rng(2)
    found, alone, alarms = [], [], []
    for _ in range(16):
        (a, control_a), (same, control_same), (slow, control_b) = _paced(rng, 1), _paced(rng, 1), _paced(rng, 1.1)
        for is_stated in (False, True):
            found.append(verdict(a, slow, control=Control("c", control_a, control_b, is_stated)).outcome)
            alarms.append(verdict(a, same, control=Control("c", control_a, control_same, is_stated)).outcome)
        alone.append(verdict(a, slow).outcome)
    assert alone.count(Change.SLOWER) <= 2
    assert found.count(Change.SLOWER) >= 30
    assert sum(its in (Change.FASTER, Change.SLOWER) for its in alarms) <= 3


def test_a_control_that_is_only_found_never_says_that_there_is_no_difference():
    a, control = _paced(np.random.default_rng(4), 1)
    other = [np.flip(its) for its in a], [np.flip(its) for its in control]
    b, control_b = [its * 2 for its in other[0]], [its * 2 for its in other[1]]
    stated = verdict(a, b, control=Control("c", control, control_b, True))
    assert (stated.outcome, stated.control) == (Change.NO_DIFFERENCE, "c")
    alone = verdict(a, b, control=Control("c", control, control_b, False))
    assert (alone.outcome, alone.control) == (verdict(a, b).outcome, None)
    assert alone.outcome != Change.NO_DIFFERENCE


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


def test_runs_of_thousands_of_steps_each_of_its_own_number_have_an_interval():
    rng = np.random.default_rng(6)
    a, b = rng.normal(100, 1, 2401), rng.normal(110, 1, 2361)
    assert within_runs(a, b, False) == pytest.approx((1.1, 1.1), abs=3e-3)
    assert statistics.difference_of_means(a, b) == pytest.approx((10, 10), abs=0.2)


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


@pytest.mark.parametrize(
    "noise",
    [Noise(between=0.005, outliers=0, stalls=stalls, stall=stall) for stalls, stall in ((0.3, 50), (1, 10), (3, 10))],
    ids=["rare", "one a capture", "some"],
)
def test_stalls_that_come_to_both_sides_by_chance_are_seldom_a_change(noise):
    rng = np.random.default_rng(12)
    pairs = [(captures(rng, 3, noise), captures(rng, 3, noise)) for _ in range(60)]
    assert sum(_outcome(*pair) in (Change.FASTER, Change.SLOWER) for pair in pairs) <= 6


def test_what_all_captures_of_one_side_have_and_none_of_the_other_is_chance_as_often_as_the_bound_says():
    shares = np.linspace(0, 1, 101)
    assert chance_of_all_and_none(3, 3) == pytest.approx(2 / 4**3)
    assert chance_of_all_and_none(1, 1) == pytest.approx(0.5)
    assert chance_of_all_and_none(3, 5) == pytest.approx(
        max(p**3 * (1 - p) ** 5 + p**5 * (1 - p) ** 3 for p in shares), rel=0.01
    )
    has = np.random.default_rng(0).random((100_000, 6)) < 0.5
    assert np.mean((has == [1, 1, 1, 0, 0, 0]).all(axis=1) | (has == [0, 0, 0, 1, 1, 1]).all(axis=1)) < 0.033


def test_units_far_longer_than_the_others_of_their_mode_are_long():
    times = np.array([100.0, 101, 99, 100, 121, 300, 100, 102])
    assert excess_of_long(times, False).tolist() == [200 - 0.5]
    assert excess_of_long(times, False, 3).tolist() == []
    two = np.tile([100.0, 500.0], 6)
    two[3] = 900
    assert excess_of_long(two, True).tolist() == [400]
    assert excess_of_long(two, False).tolist() == [400, 800, 400, 400, 400, 400]


QUIET = Noise(between=0.002, within=0.01, outliers=0)


def stalled(seed, *counts, stall=10.0):
    """Captures of 40 steps of about 100 ms, in each of which so many steps take `stall` times as long on top."""
    sides = captures(np.random.default_rng(seed), len(counts), QUIET, steps=40)
    for walls, count in zip(sides, counts, strict=True):
        walls[5 : 5 + 3 * count : 3] += round(stall * 10**11)
    return sides


NONE = (0, 0, 0)


@pytest.mark.parametrize(
    ("a", "b", "outcome"),
    [
        (NONE, (4, 4, 4), Change.SLOWER),
        (NONE, (1, 1, 1), Change.SLOWER),
        (NONE, (1, 2, 5), Change.SLOWER),
        (NONE, (2, 6, 4), Change.SLOWER),
        ((4, 4, 4), NONE, Change.FASTER),
        ((1, 1, 1), (4, 4, 4), Change.SLOWER),
        ((1, 0, 0), (4, 5, 4), Change.SLOWER),
    ],
    ids=str,
)
def test_stalls_in_every_capture_of_one_side_are_a_change_though_the_median_is_alike(a, b, outcome):
    its = verdict(stalled(1, *a), stalled(2, *b))
    assert its.outcome == outcome
    assert its.mean.is_proven
    assert its.mean.is_longer == (outcome is Change.SLOWER)


@pytest.mark.parametrize("b", [(1, 0, 0), (0, 4, 0), (0, 0, 8), (1, 1, 0)], ids=str)
@pytest.mark.parametrize("swapped", [False, True])
def test_stalls_in_some_captures_prove_nothing_and_are_told(b, swapped):
    sides = (stalled(2, *b), stalled(1, *NONE)) if swapped else (stalled(1, *NONE), stalled(2, *b))
    its = verdict(*sides)
    assert its.outcome == its.of_typical == Change.NO_DIFFERENCE
    assert not its.mean.is_proven
    assert its.mean.low < 1 < its.mean.high


def test_the_long_units_of_both_sides_are_counted():
    its = verdict(stalled(1, 0, 1, 0), stalled(2, 4, 5, 3)).mean
    a, b = its.long
    assert (a.number, a.units, a.captures_with, a.captures) == (1, 120, 1, 3)
    assert (b.number, b.units, b.captures_with, b.captures) == (12, 120, 3, 3)
    assert b.excess_ps == pytest.approx(10**12, rel=0.02)
    assert its.b_ps == pytest.approx(2.01e11, rel=0.01)


def test_steps_that_other_steps_resemble_hide_no_stalls():
    rng = np.random.default_rng(21)
    found = [
        _outcome(captures(rng, 3, Noise()), captures(rng, 3, Noise(stalls=4, stall=10))) == Change.SLOWER
        for _ in range(20)
    ]
    assert sum(found) >= 16


def test_a_mean_that_rises_while_the_median_falls_is_slower():
    b = [np.round(walls * 0.9).astype(np.int64) for walls in stalled(2, 4, 4, 4)]
    its = verdict(stalled(1, *NONE), b)
    assert (its.outcome, its.of_typical, its.mean.is_longer) == (Change.SLOWER, Change.FASTER, True)


def test_a_change_of_every_step_needs_no_word_on_the_mean():
    its = verdict(stalled(1, *NONE), [np.round(walls * 1.2).astype(np.int64) for walls in stalled(2, *NONE)])
    assert (its.outcome, its.mean) == (Change.SLOWER, None)
    assert verdict(stalled(1, *NONE), stalled(2, *NONE)).mean is None
    assert verdict(stalled(1, 4, 4, 4), stalled(2, 4, 4, 4)).mean is None


def test_of_one_capture_a_side_the_mean_is_told_and_not_judged():
    (a,), (b,) = stalled(1, 0), stalled(2, 4)
    its = verdict([a], [b])
    assert (its.outcome, its.mean.is_proven, its.mean.low) == (Change.NOT_TESTED, False, None)
    its = verdict([a], [b], floor=0.02)
    assert (its.outcome, its.of_typical) == (Change.INCONCLUSIVE, Change.NO_DIFFERENCE)


def test_between_several_verdicts_the_chance_of_stalls_is_shared():
    alone, among = (verdict(stalled(1, *NONE), stalled(2, 1, 2, 5), tests=tests) for tests in (1, 2))
    assert (alone.outcome, alone.mean.by_chance) == (Change.SLOWER, pytest.approx(1 / 32))
    assert (among.outcome, among.mean.is_proven) == (Change.NO_DIFFERENCE, False)


def _outcome(a, b):
    return verdict(a, b).outcome


def test_a_median_that_is_proven_slower_stays_slower_where_a_stall_of_the_other_side_hides_it_in_the_mean():
    """One capture a side: what the mean did cannot be judged, and takes back no slower median, but a faster one."""
    rng = np.random.default_rng(3)
    fast, slow = (np.round(level * rng.normal(1, 0.01, 40)).astype(np.int64) for level in (10**9, 1.1 * 10**9))
    stalled = fast.copy()
    stalled[20] *= 20
    slower = verdict([stalled], [slow], floor=0.02)
    assert (slower.of_typical, slower.outcome) == (Change.SLOWER, Change.SLOWER)
    faster = verdict([slow], [stalled], floor=0.02)
    assert (faster.of_typical, faster.outcome) == (Change.FASTER, Change.INCONCLUSIVE)
