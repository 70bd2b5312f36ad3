"""Reasons against the truth of a simulator that shares nothing with this code: the files of ../shared/cases.

Its ranks have a host thread, streams, launches with a latency, and collectives that start when the last rank comes;
what is expected here is what it logged, in microseconds (the README beside the files).
"""

from functools import cache

import pytest

from tests import traces
from tracekit.analysis.critical_path.critical_path import critical_path
from tracekit.analysis.explain import Explanation, explain
from tracekit.timeline.timeline import timeline_of

pytestmark = traces.needs_simulated

# One schedule in three formats, and once more with all rows of its devices 300 ms late.
THREE = ["steps_kineto_3", "steps_nsys_3.sqlite", "steps_xspace_3.xplane.pb", "device_clock_plus_300ms.sqlite"]
FIVE = ["steps_kineto_5", "steps_nsys_5.sqlite"]
COLLECTIVE = ("collective transfer", "collective waiting")
HOST = ("host work", "host launch", "host, nothing recorded", "launch latency", "unexplained")


@cache
def explanation(case: str) -> Explanation:
    return explain(traces.trace(case))


def path_us(reasons: Explanation, *parts: str) -> float:
    total = reasons.critical_path.total
    return sum(total.loc[total["part"].isin(parts), "time_ps"]) / 1e6


def ratio(reasons: Explanation, what: str, name: str | None = None) -> float:
    table = reasons.critical_path.what_if
    is_asked = table["name"].isna() if name is None else table["name"].str.contains(name).fillna(False)
    (answer,) = table.loc[(table["what"] == what) & is_asked, "ratio"]
    return float(answer)


def test_a_loop_whose_host_runs_ahead_is_bound_by_its_devices():
    reasons = explanation("runahead")
    assert path_us(reasons, "compute") == pytest.approx(2747, abs=1)
    assert path_us(reasons, "memcpy") == pytest.approx(79, abs=1)
    assert path_us(reasons, *HOST) == pytest.approx(15, abs=2)
    assert path_us(reasons, "queue gap") == pytest.approx(94, abs=2)
    assert reasons.critical_path.is_device_bound


def test_a_loop_whose_host_runs_ahead_would_take_this_without_it():
    """Over all steps, the first included: that is what the simulator ran again."""
    reasons, timeline = explanation("runahead"), timeline_of(traces.trace("runahead"))
    paths = critical_path(timeline, reasons.steps.table.assign(left_out=None))
    ratios = dict(zip(paths.what_if["what"], paths.what_if["ratio"], strict=True))
    assert ratios["host"] == pytest.approx(0.894, abs=0.002)
    assert ratios["copies"] == pytest.approx(0.983, abs=0.002)
    assert ratios["collectives"] == pytest.approx(0.998, abs=0.002)


@pytest.mark.parametrize("case", THREE)
def test_one_schedule_has_one_path_in_every_format(case):
    reasons = explanation(case)
    assert reasons.steps.summary["steps"].tolist() == [10]
    assert path_us(reasons, "compute") == pytest.approx(21_865, abs=1)
    assert path_us(reasons, *COLLECTIVE) == pytest.approx(437, abs=2)
    assert path_us(reasons, "memcpy") == pytest.approx(502, abs=1)
    assert path_us(reasons, *HOST) == pytest.approx(543, abs=2)


@pytest.mark.parametrize("case", THREE)
def test_one_schedule_would_take_this_in_every_format(case):
    reasons = explanation(case)
    assert ratio(reasons, "collectives") == pytest.approx(0.9814, abs=0.0005)
    assert ratio(reasons, "copies") == pytest.approx(0.9822, abs=0.0005)
    assert ratio(reasons, "host") == pytest.approx(0.9727, abs=0.0005)
    assert ratio(reasons, "op", "backward_layer_2") == pytest.approx(0.8556, abs=0.0005)


@pytest.mark.parametrize("case", FIVE)
def test_steps_are_those_of_the_processes(case):
    reasons = explanation(case)
    (steps,) = reasons.steps.summary.itertuples()
    assert (steps.steps, steps.outliers) == (8, 0)
    assert steps.median_ps / 1e9 == pytest.approx(8.19, abs=0.01)
    assert steps.spread == pytest.approx(0.004, abs=0.001)
    assert path_us(reasons, "compute") == pytest.approx(62_837, abs=1)
    assert path_us(reasons, *COLLECTIVE) == pytest.approx(2367, abs=2)
    by_device = reasons.collectives.by_device
    assert [device[-5:] for device in by_device.loc[by_device["straggler"], "device"]] == ["gpu:1"]


def test_without_the_straggler_nothing_is_said_of_waiting():
    reasons = explanation("straggler_rank_missing")
    (total,) = reasons.collectives.total.itertuples()
    assert (total.collectives, total.shared) == (18, 0)
    assert reasons.collectives.total[["waiting_ps", "wait_ratio"]].isna().all(axis=None)
    table = reasons.critical_path.what_if
    assert table.loc[table["what"].str.startswith("collective"), "ratio"].isna().tolist() == [True, True]
    assert set(COLLECTIVE).isdisjoint(reasons.critical_path.total["part"])
    assert not reasons.critical_path.is_device_bound


def test_a_drift_does_not_split_collectives():
    trace = traces.trace("drift50ppm_seq_split")
    assert trace.hosts["drift_ppm"].tolist() == pytest.approx([0, 50, -50, 25], abs=5)
    (total,) = explanation("drift50ppm_seq_split").collectives.total.itertuples()
    assert (total.collectives, total.devices) == (36, 4)


@pytest.mark.parametrize(
    ("case", "shift_us"),
    [("device_clock_plus_200us", -200), ("device_clock_minus_200us", 200), (THREE[3], -300_000)],
)
def test_the_clock_of_devices_is_put_right(case, shift_us):
    assert (traces.trace(case).devices["shift_ps"] / 1e6).tolist() == pytest.approx(
        [shift_us] * len(traces.trace(case).devices), abs=3
    )


@pytest.mark.parametrize("case", ["device_clock_plus_200us", "device_clock_minus_200us"])
def test_devices_on_a_wrong_clock_idle_for_the_true_reason(case):
    by_cause = explanation(case).idle.by_cause.set_index("cause")["ratio"]
    assert by_cause["input pipeline"] == pytest.approx(0.84, abs=0.01)
