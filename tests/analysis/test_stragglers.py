from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.collective_frames import row, table
from tracekit.analysis.collectives import Collectives, collectives
from tracekit.analysis.stragglers import ONE_OF_THEM, at_least_so_often, straggles, worst
from tracekit.columns import frame, records
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import HOST_COLUMNS, Trace


def analyse(*row_dicts: dict, residuals: dict[str, int] | None = None) -> Collectives:
    hosts = frame(HOST_COLUMNS, {"host": [*(residuals or {})], "residual_ps": [*(residuals or {}).values()]})
    return collectives(timeline_of(Trace(table(*row_dicts), hosts=hosts)))


def test_a_device_that_is_last_nearly_always_and_costs_something_straggles():
    row_dicts = [
        row(f"gpu:{device}", 1000 * k + (100 if device == 3 else device), 1000 * k + 200)
        for k in range(10)
        for device in range(4)
    ]
    assert analyse(*row_dicts).by_device["straggler"].tolist() == [False, False, False, True]
    # The same lateness in ever longer steps.
    cheap = [
        row_dict | {"start_ps": row_dict["start_ps"] * 100, "end_ps": row_dict["start_ps"] * 100 + 200}
        for row_dict in row_dicts
    ]
    cheap = [row_dict | {"start_ps": row_dict["start_ps"] - row_dict["start_ps"] % 100_000} for row_dict in cheap]
    assert not analyse(*cheap).by_device["straggler"].any()


def test_waiting_behind_compute_makes_no_straggler():
    row_dicts = [
        row(f"gpu:{device}", 1000 * k + 300 * (device == 1), 1000 * k + 400, kind=kind, lane=kind)
        for k in range(12)
        for device in range(2)
        for kind in ("collective", "compute")
    ]
    by_device = analyse(*row_dicts).by_device
    assert by_device["cost_ps"].tolist() == [0, 12 * 300]
    assert by_device["exposed_cost_ps"].tolist() == [0, 0]
    assert not by_device["straggler"].any()


@pytest.mark.parametrize(
    ("last", "n", "devices", "held_up", "expected"),
    [
        (10, 10, 2, 0.05, True),
        (9, 10, 2, 0.05, False),  # of two that are alike, in 1.1 % of cases for each
        (8, 8, 2, 0.05, True),  # 0.4 %
        (11, 12, 2, 0.05, True),  # 0.3 %
        (5, 8, 8, 0.05, True),  # 0.12 %
        (4, 8, 8, 0.05, False),  # 1.1 %, and so of any of the eight in 8 %
        (2, 1000, 8192, 0.05, False),  # 0.7 %, though 5 standard deviations above the expected
        (4, 10, 24, 0.05, False),
        (5, 10, 24, 0.05, True),
        (7, 7, 8, 0.05, False),  # too few to be a habit
        (5, 8, 8, 0.009, False),  # costs nothing worth a word
        (0, 0, 8, 0.5, False),
    ],
)
def test_a_straggler_is_last_more_often_than_chance_lets_any_device_be(last, n, devices, held_up, expected):
    assert straggles(last, np.full(n, 1 / devices), held_up, devices) is expected


@given(st.lists(st.sampled_from([2, 3, 8, 64]), min_size=1, max_size=40), st.data())
def test_the_tail_is_that_of_the_binomial_distribution_and_no_less_where_chances_differ(sizes, data):
    times = data.draw(st.integers(0, len(sizes)))
    exact = [Fraction(1)]  # how likely so many are, of all ways
    for size in sizes:
        here = [Fraction(0), *(each / size for each in exact)]
        exact = [a + b for a, b in zip([*(each * (size - 1) / size for each in exact), Fraction(0)], here, strict=True)]
    mean = float(np.mean([1 / size for size in sizes]))
    tail = at_least_so_often(times, len(sizes), mean)
    if times > len(sizes) * mean + 1:
        assert tail >= float(sum(exact[times:])) * (1 - 1e-6)
    if len(set(sizes)) == 1 and times > len(sizes) * mean:
        assert tail == pytest.approx(float(sum(exact[times:])), rel=1e-6)
    if times <= len(sizes) * mean:
        assert tail == 1.0


def meeting(number: int, starts: dict[str, int], length: int = 2_000) -> list[dict]:
    """All-reduce `number` of the devices that start at these times of its own `length`, on the host in their name."""
    at = number * length
    last = max(starts.values())
    return [
        row(device, at + start, at + last + length // 10, host=device.split("/")[0], sequence=number, group="g")
        for device, start in starts.items()
    ]


def of_hosts(late: dict[str, int], steps: int = 24, hosts: int = 4, devices: int = 4, noise: int = 30) -> list[dict]:
    """Collectives of several hosts, whose devices come within `noise` of each other, those in `late` (a host or a
    device) that much later."""
    rng = np.random.default_rng(1)
    rows = []
    for step in range(steps):
        starts = {}
        for name in (f"h{host}/gpu:{device}" for host in range(hosts) for device in range(devices)):
            starts[name] = int(rng.integers(noise)) + late.get(name, 0) + late.get(name.split("/")[0], 0)
        rows += meeting(step, starts)
    return rows


def test_devices_of_a_host_that_are_all_late_are_one_straggler():
    result = analyse(*of_hosts({"h2": 500}))
    # Each of the four is last in about a quarter: too few for three of them, and none would gain much alone.
    assert result.by_host["straggler"].tolist() == [False, False, True, False]
    late = records(result.by_host)[2]
    assert (late["devices"], late["n"], late["last"]) == (4, 24, 24)
    assert late["expected_last"] == pytest.approx(24 / 4)
    mine = result.by_device[result.by_device["device"].str.startswith("h2/")]
    assert mine["gain_ps"].max() < ONE_OF_THEM * late["gain_ps"]
    (first,) = worst(result.by_device, result.by_host, "cost_ps")
    assert first["host"] == "h2"


def test_one_late_device_of_a_host_is_no_late_host():
    result = analyse(*of_hosts({"h2/gpu:1": 500}))
    assert not result.by_host["straggler"].any()
    late = records(result.by_host)[2]
    (first,) = worst(result.by_device, result.by_host, "cost_ps")
    assert (first["device"], first["is_alone"], first["last"], late["last"]) == ("h2/gpu:1", True, 24, 24)


def test_a_device_with_another_nearly_as_late_is_not_late_alone():
    result = analyse(*of_hosts({"h2/gpu:1": 500, "h0/gpu:3": 460}))
    (first,) = worst(result.by_device, result.by_host, "cost_ps")
    assert (first["device"], first["is_alone"]) == ("h2/gpu:1", False)
    assert first["gain_ps"] < 24 * (40 + 30)


def test_a_late_host_and_a_late_device_of_another_are_both_stragglers_the_costlier_first():
    rows = [
        *of_hosts({"h2": 500}),
        *(event for event in of_hosts({"h0/gpu:3": 900}, steps=48) if event["sequence"] > 23),
    ]
    result = analyse(*rows)
    late = worst(result.by_device, result.by_host, "cost_ps")
    assert [each.get("device", each.get("host")) for each in late] == ["h0/gpu:3", "h2"]
    assert late[0]["cost_ps"] > late[1]["cost_ps"]


@pytest.mark.parametrize(("residual", "told"), [(0, True), (215, True), (240, False)])
def test_a_host_is_not_late_by_less_than_the_clocks_may_be_off(residual, told):
    rows = of_hosts({"h2": 500}, noise=1)
    result = analyse(*rows, residuals={"h2": residual, "h0": 260, "h1": 260, "h3": 260, "unseen": 10**9})
    late = records(result.by_host)[2]
    assert (late["straggler"], late["last"], late["gain_ps"]) == ((True, 24, 24 * 500) if told else (False, 0, 0))


def test_where_each_host_has_one_device_only_devices_are_told():
    result = analyse(*of_hosts({"h2": 500}, devices=1))
    assert len(result.by_host) == 0
    assert result.by_device["straggler"].tolist() == [False, False, True, False]
    assert len(analyse(*of_hosts({"h0/gpu:1": 500}, hosts=1)).by_host) == 0


FIGURES = ("n", "last", "expected_last", "cost_ps", "exposed_cost_ps", "gain_ps")


@st.composite
def jobs(draw):
    """Collectives of devices of several hosts, of which not all meet in each, and compute beside."""
    names = [f"h{host}/gpu:{device}" for host in range(3) for device in range(draw(st.integers(1, 3)))]
    rows = []
    for number in range(draw(st.integers(1, 5))):
        members = draw(st.sets(st.sampled_from(names), min_size=1))
        rows += meeting(number, {name: draw(st.integers(0, 12)) for name in sorted(members)}, 100)
    for _ in range(draw(st.integers(0, 6))):
        name, start = draw(st.sampled_from(names)), draw(st.integers(0, 400))
        rows.append(row(name, start, start + draw(st.integers(0, 60)), kind="compute", host=name.split("/")[0]))
    return rows, draw(st.dictionaries(st.sampled_from(["h0", "h1", "h2"]), st.integers(-3, 3)))


@settings(max_examples=150)
@given(jobs())
def test_hosts_and_gains_are_what_looking_at_each_collective_gives(job):
    rows, residuals = job
    result = analyse(*rows, residuals=residuals)
    computes = {
        (event["device"], at)
        for event in rows
        if event["kind"] == "compute"
        for at in range(event["start_ps"], event["end_ps"])
    }
    gains: dict[str, int] = {}
    hosts: dict[str, dict] = {}
    met = [event for event in rows if event["kind"] == "collective"]
    for number in {event["sequence"] for event in met}:
        mine = {event["device"]: event for event in met if event["sequence"] == number}
        if len(mine) < 2:
            continue
        last = max(event["start_ps"] for event in mine.values())
        late = [name for name, event in mine.items() if event["start_ps"] == last]
        if len(late) == 1:
            before = max(event["start_ps"] for name, event in mine.items() if name != late[0])
            gains[late[0]] = gains.get(late[0], 0) + last - before
        of_host: dict[str, int] = {}
        for event in mine.values():
            of_host[event["host"]] = max(event["start_ps"], of_host.get(event["host"], 0))
        if len(of_host) < 2:
            continue
        for host in of_host:
            at = hosts.setdefault(
                host, {"n": 0, "last": 0, "expected_last": 0.0, "cost_ps": 0, "exposed_cost_ps": 0, "gain_ps": 0}
            )
            at["n"] += 1
        first, *others = sorted(of_host, key=lambda host: -of_host[host])
        second = [host for host in others if of_host[host] == of_host[others[0]]]
        off = abs(residuals.get(first, 0)) + max(abs(residuals.get(host, 0)) for host in second)
        lead = of_host[first] - of_host[others[0]]
        if lead <= off:
            continue
        for host in of_host:
            hosts[host]["expected_last"] += sum(event["host"] == host for event in mine.values()) / len(mine)
        waits = [
            (event["device"], event["end_ps"] - 1 - at)  # as much sooner each would have ended
            for event in mine.values()
            if event["host"] != first
            for at in range(min(last, event["end_ps"]) - event["start_ps"])
        ]
        hosts[first]["last"] += 1
        hosts[first]["gain_ps"] += lead
        hosts[first]["cost_ps"] += len(waits)
        hosts[first]["exposed_cost_ps"] += sum(wait not in computes for wait in waits)
    for device in records(result.by_device):
        if pd.notna(device["gain_ps"]):
            assert device["gain_ps"] == gains.pop(device["device"], 0)
    assert gains == {}
    shared = {event["device"] for event in met if sum(other["sequence"] == event["sequence"] for other in met) > 1}
    several = max((sum(name.startswith(host) for name in shared) for host in ("h0", "h1", "h2")), default=0) > 1
    if several:
        told = {each["host"]: each for each in records(result.by_host)}
        assert told.keys() == hosts.keys()
        for host, expected in hosts.items():
            assert {name: told[host][name] for name in expected} == pytest.approx(expected)
    else:
        assert len(result.by_host) == 0
