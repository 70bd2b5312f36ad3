from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.fleet_traces import fleet, with_stragglers
from tests.stepped import annotations, timeline, work
from tracekit.analysis import fleet as module
from tracekit.analysis.collectives import collectives
from tracekit.analysis.fleet import DRAWN, MEASURES, Fleet, causes_of_drawn, groupings, longer_on_drawn
from tracekit.analysis.overlap import partition
from tracekit.analysis.steps import steps
from tracekit.analysis.top_ops import DEVICE_NAME_COLUMNS
from tracekit.columns import frame
from tracekit.timeline.timeline import Timeline, timeline_of
from tracekit.trace import EVENT_COLUMNS, Trace


def of(timeline: Timeline) -> Fleet:
    return module.fleet(partition(timeline), steps(timeline), collectives(timeline))


@st.composite
def compute_times(draw):
    shape = draw(st.integers(2, 20)), draw(st.integers(2, 6))
    return draw(arrays(np.int64, shape, elements=st.integers(1, 5_000)))


def cost_by_hand(ready, end):
    """The time that all waited for each device: in each step for the last to come, those that came last sharing it."""
    cost = np.zeros(len(ready), np.int64)
    for step in range(ready.shape[1]):
        last = ready[:, step].max()
        waited = sum(int(last - at) for at in ready[:, step])
        late = [device for device, at in enumerate(ready[:, step]) if at == last]
        for place, device in enumerate(late):
            cost[device] += waited // len(late) + (place < waited % len(late))
    return cost


@settings(max_examples=15, deadline=None)
@given(compute_times())
def test_each_cell_and_each_cost_is_that_of_the_simulated_fleet(compute_ps):
    made = fleet(len(compute_ps), compute_ps)
    result = of(timeline_of(made.trace))
    table = steps(timeline_of(made.trace)).table
    counted = [int(step) for step in table.loc[table["left_out"].isna(), "step"]]
    assert result.bins["first"].tolist() == counted
    begin = np.column_stack([np.full(len(compute_ps), made.begins[0, 0]), made.end[:, :-1]])
    expected = {
        "step_ps": made.end - begin,
        "compute_ps": made.ready - made.begins,
        "exposed_collective_ps": made.end - made.ready,
        "idle_ps": made.begins - begin,
    }
    for measure in MEASURES:
        assert result.matrix(measure).tolist() == expected[measure][:, counted].tolist(), measure
    assert result.ranks["device"].tolist() == made.names
    assert result.ranks["cost_ps"].tolist() == cost_by_hand(made.ready, made.end).tolist()
    late = sorted(
        ((-cost, device) for device, cost in enumerate(cost_by_hand(made.ready, made.end)) if cost), key=lambda its: its
    )
    assert result.stragglers["device"].tolist() == [made.names[device] for _, device in late]


def test_more_steps_than_fit_share_bins_whose_sums_are_those_of_the_steps(monkeypatch):
    made = with_stragglers(20, 10, {})
    alone = of(timeline_of(made.trace))
    monkeypatch.setattr(module, "MOST_CELLS", 20 * 4)
    result = of(timeline_of(made.trace))
    assert result.bins[["first", "last", "steps"]].to_numpy().tolist() == [[0, 2, 3], [3, 5, 3], [6, 8, 3], [9, 9, 1]]
    for measure in MEASURES:
        values = alone.matrix(measure)
        means = np.column_stack([values[:, first : first + 3].mean(axis=1) for first in (0, 3, 6, 9)])
        np.testing.assert_allclose(result.matrix(measure), means)
        assert result.cells[measure].sum() == alone.cells[measure].sum()


def test_the_stragglers_the_outliers_and_the_median_rank_are_drawn_with_their_hosts():
    made = with_stragglers(64, 20, {21: 1.3, 40: 0.5})
    ranks = of(timeline_of(made.trace)).ranks
    drawn = ranks[ranks["role"].notna()]
    roles = {role: (device, host) for device, host, role in drawn[["device", "host", "role"]].to_numpy()}
    assert roles.pop("median")[0] not in ("host0002/gpu:5", "host0005/gpu:0")
    assert roles == {"straggler": ("host0002/gpu:5", "host0002"), "outlier": ("host0005/gpu:0", "host0005")}
    compute = ranks["compute_ps"].to_numpy()
    median = int(drawn.loc[drawn["role"] == "median", "compute_ps"].iloc[0])
    assert abs(median - np.median(compute)) == abs(compute - np.median(compute)).min()
    unlike = ranks[ranks["differs_in"].notna()].set_index("device")
    assert unlike["differs_in"].to_dict() == {"host0002/gpu:5": "compute_ps", "host0005/gpu:0": "compute_ps"}
    share = ranks.set_index("device")["compute_ps"] / int(ranks["window_ps"].iloc[0])
    assert unlike["differs_by"].to_dict() == pytest.approx((share[unlike.index] - share.median()).to_dict())


def test_ranks_that_are_all_alike_are_drawn_by_the_median_and_the_extremes_of_compute():
    made = with_stragglers(40, 12, {})
    ranks = of(timeline_of(made.trace)).ranks
    assert ranks["differs_in"].isna().all()
    by_role = ranks.dropna(subset="role").set_index("role")
    assert by_role.loc["least", "compute_ps"] == ranks["compute_ps"].min()
    assert by_role.loc["most", "compute_ps"] == ranks["compute_ps"].max()
    assert sorted(by_role.index) == ["least", "median", "most"]


def test_of_each_host_one_late_rank_is_drawn_before_a_second_of_any():
    """The eight of one host are later than two of others, which have to be seen beside them."""
    slow = {**dict.fromkeys(range(16, 24), 1.5), 9: 1.2, 33: 1.1}
    ranks = of(timeline_of(with_stragglers(48, 6, slow).trace)).ranks
    drawn = ranks.loc[ranks["role"].notna() & (ranks["role"] != "median")]
    assert len(drawn) == DRAWN - 1
    assert {"host0001/gpu:1", "host0004/gpu:1"} < {*drawn["device"]}
    assert drawn["host"].tolist().count("host0002") == DRAWN - 3


def test_operations_are_held_against_those_of_the_median_device_whatever_their_program():
    its = of(timeline_of(with_stragglers(32, 6, {21: 1.3}).trace))
    drawn = its.ranks[its.ranks["role"].notna()]
    rng, kinds = np.random.default_rng(3), ("compute", "memcpy", "collective")
    window = int(drawn["window_ps"].iloc[0])
    columns = ["device", "name", "program", "kind", "pattern", "n", "time_ps"]
    rows = [
        (device, f"op{at}", program, kind, "gemm", int(rng.integers(1, 9)), int(rng.integers(0, window // 250)))
        for device in its.ranks["device"]
        for at in range(4)
        for program in "ab"
        for kind in kinds
        if rng.random() < 0.7
    ]

    def of_device(device):
        """By name and kind: how many rows, and their time."""
        sums = {}
        for at, name, _, kind, _, n, time in rows:
            if at == device and kind != "collective":
                before = sums.get((name, kind), (0, 0))
                sums[name, kind] = before[0] + n, before[1] + time
        return sums

    (median,) = drawn.loc[drawn["role"] == "median", "device"]
    there, expected = of_device(median), []
    for device, role in zip(drawn["device"], drawn["role"], strict=True):
        longer = []
        for (name, kind), (n, time) in of_device(device).items():
            median_n, median_ps = there.get((name, kind), (0, 0))
            if device != median and 1000 * (time - median_ps) >= window:
                longer.append((device, role, name, kind, "gemm", n, time, median_n, median_ps, time - median_ps))
        expected += sorted(longer, key=lambda row: -row[-1])[:3]
    found = longer_on_drawn(its, pd.DataFrame(rows, columns=columns).assign(median_ps=1, p95_ps=2))
    assert len(expected) > 4
    assert sorted(found.itertuples(index=False, name=None)) == sorted(expected)
    assert found["more_ps"].is_monotonic_decreasing


def test_the_median_device_is_none_that_is_unlike_the_others():
    """All eight of a host stand idle for longer, and one of them has the median compute of all."""
    ranks = of(timeline_of(with_stragglers(32, 6, {}).trace)).ranks
    is_late = ranks["host"] == "host0001"
    compute = np.linspace(0, 31, 32)
    compute[is_late.to_numpy().argmax()] = 15.6
    ranks = ranks.assign(
        compute_ps=(compute * 1e6).astype(np.int64),
        differs_in=np.where(is_late, "idle_ps", None),
        differs_by=np.where(is_late, 0.2, None),
        straggler=False,
    )
    roles = np.array(module._roles(ranks), object)
    assert (roles[is_late] == "outlier").sum() == DRAWN - 1
    assert ranks["host"][roles == "median"].tolist() != ["host0001"]


def test_without_known_causes_of_the_devices_that_stand_for_all_none_is_told():
    its = of(timeline_of(with_stragglers(32, 6, {}).trace))
    devices = pd.DataFrame({"device": its.ranks["device"], "window_ps": 9, "idle_ps": 3, "ratio": 0.3})
    is_drawn = devices["device"].isin(its.drawn)
    for cause, rows in (("unexplained", 0), ("before first work", 0), ("host-bound", len(its.drawn))):
        causes = devices.assign(cause=np.where(is_drawn, cause, "host-bound"), cause_ratio=1.0)
        assert len(causes_of_drawn(its, causes)) == rows


def test_without_a_median_device_nothing_is_longer_than_on_it():
    its = of(timeline_of(with_stragglers(32, 6, {}).trace))
    without = replace(its, ranks=its.ranks[its.ranks["role"] != "median"])
    assert not len(longer_on_drawn(without, frame(DEVICE_NAME_COLUMNS)))
    assert not len(longer_on_drawn(its, frame(DEVICE_NAME_COLUMNS)))


def test_no_more_ranks_are_drawn_than_fit():
    made = with_stragglers(64, 20, {device: 1 + device / 100 for device in range(1, 64, 3)})
    roles = of(timeline_of(made.trace)).ranks["role"].dropna()
    assert len(roles) <= DRAWN
    assert roles.tolist().count("median") == 1


def test_a_host_is_the_sum_of_its_devices():
    made = with_stragglers(24, 10, {3: 1.2})
    result = of(timeline_of(made.trace))
    assert result.hosts["host"].tolist() == ["host0000", "host0001", "host0002"]
    for row in result.hosts.to_dict("records"):
        its = result.ranks[result.ranks["host"] == row["host"]]
        assert row["devices"] == len(its) == 8
        for name in ("window_ps", "busy_ps", "exposed_collective_ps", "idle_ps", "cost_ps"):
            assert row[name] == its[name].sum()


def test_hosts_on_clocks_of_their_own_share_the_columns_of_the_steps_of_one_number():
    frames = [
        work(
            *((f"{host}/gpu:0", "compute", at, at + long) for at in (0, 10)),
            host=host,
            clock=host,
            group_id=[1, 2],
        )
        for host, long in (("a", 5), ("b", 7))
    ]
    events = pd.concat([its[0] for its in frames], ignore_index=True).astype(
        dict.fromkeys(("host", "device", "lane", "name", "clock"), "category")
    )
    marks = [annotations(("train", 1, 0, 9), ("train", 2, 9, 20), host=host) for host in ("a", "b")]
    spans = pd.concat(marks, ignore_index=True).astype(dict.fromkeys(("host", "thread", "name"), "category"))
    result = of(timeline((events, frames[0][1]), spans))
    assert result.bins[["first", "steps"]].to_numpy().tolist() == [[1, 1], [2, 1]]
    assert result.matrix("compute_ps").tolist() == [[5, 5], [7, 7]]


def test_a_trace_without_steps_still_tells_the_ranks_apart():
    made = fleet(20, np.full((20, 1), 100))
    whole = timeline_of(made.trace)
    nothing = steps(timeline_of(made.trace.__class__(made.trace.events[:0])))
    result = module.fleet(partition(whole), nothing, collectives(whole))
    assert result.lacking
    assert len(result.bins) == len(result.cells) == 0
    assert len(result.ranks) == 20
    assert result.ranks["step_ps"].isna().all()
    assert result.matrix("idle_ps").shape == (20, 0)


def in_groups(hosts: int, gpus: int, steps: int) -> Timeline:
    """Devices that meet in each step first with those of their host, then with those of their number on all hosts."""
    rows = [
        (f"h{host}", f"h{host}/gpu:{gpu}", group, size, step, 1000 * step + 400 * at, 1000 * step + 400 * at + 100)
        for host in range(hosts)
        for gpu in range(gpus)
        for step in range(steps)
        for at, (group, size) in enumerate(((f"tp{host}", gpus), (f"dp{gpu}", hosts)))
    ]
    names = ("host", "device", "group", "group_size", "sequence", "start_ps", "end_ps")
    same = {"lane": "nccl", "kind": "collective", "name": "all-reduce", "category": "all-reduce", "known_by": "name"}
    events = frame(EVENT_COLUMNS, pd.DataFrame(rows, columns=names).assign(**same))
    return timeline_of(Trace(events, source="traces/groups", format="kineto"))


def test_ranks_are_grouped_by_host_and_by_the_process_groups_that_the_trace_proves():
    timeline = in_groups(4, 8, 3)
    hosts, groups = groupings(of(timeline), timeline)
    assert (hosts.by, hosts.names) == ("host", ("h0", "h1", "h2", "h3"))
    assert hosts.group_of.tolist() == [host for host in range(4) for _ in range(8)]
    # Those of a host are its ranks, which need no second name.
    assert groups.by == "process group of 4 ranks"
    assert groups.names[1] == "group 1, from h0/gpu:1"
    assert groups.group_of.tolist() == [gpu for _ in range(4) for gpu in range(8)]
    assert [way.by for way in groupings(of(timeline))] == ["host"]


@pytest.mark.parametrize(
    ("hosts", "gpus", "ways"),
    [
        (["rack0-node0", "rack0-node1", "rack1-node0"], 2, [("host", 3), ("beginning of the host's name", 2)]),
        (["rack0-node0", "rack0-node1", "rack1-node0"], 1, [("beginning of the host's name", 2)]),
        (["rack0-node0", "rack0-node1"], 2, [("host", 2)]),
        (["node0", "node1"], 2, [("host", 2)]),
        ([""], 4, []),
    ],
    ids=["racks", "racks-of-single-ranks", "one-rack", "no-rack", "one-host"],
)
def test_hosts_whose_names_begin_alike_are_a_group_where_there_are_several(hosts, gpus, ways):
    of_ranks = [host for host in hosts for _ in range(gpus)]
    ranks = pd.DataFrame({"device": [f"{host}/gpu:0" for host in of_ranks], "host": of_ranks})
    result = groupings(Fleet(ranks, ranks, ranks, ranks))
    assert [(way.by, len(way.names)) for way in result] == ways


def test_the_measure_to_look_at_first_is_that_of_the_furthest_outlier():
    assert of(timeline_of(with_stragglers(20, 10, {3: 1.3}).trace)).first_measure == "compute_ps"
    assert of(timeline_of(with_stragglers(20, 10, {}).trace)).first_measure == "step_ps"
