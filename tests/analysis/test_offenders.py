"""What costs a device the most: hand-made traces, a count over every picosecond, and real traces."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import traces
from tests.frames import events
from tests.offender_frames import COLLECTIVES, OPS, STEP, STEPS, exposed_costs, gaps, idle, offenders_of, step
from tracekit.analysis import offenders as module
from tracekit.analysis.offenders import KINDS
from tracekit.analysis.overlap import partition
from tracekit.columns import concat, frame
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import EVENT_COLUMNS


def test_a_step_whose_offenders_are_known():
    result = offenders_of(step(), gaps(("gpu:0", 230, 260, "host-bound", 3)), STEP, OPS, COLLECTIVES)
    columns = ["what", "kind", "direction", "device", "n", "cost_ps", "ratio", "devices", "step", "source", "next"]
    assert result.table[columns].fillna("-").values.tolist() == [
        ["all-reduce", "collective", "-", "gpu:0", 1, 100, 100 / 300, 2, "5", "m.py:2", "-"],
        ["MemcpyD2H", "memcpy", "D2H", "gpu:0", 1, 30, 0.1, 1, "5", "-", "-"],
        ["host-bound", "idle", "-", "gpu:0", 1, 30, 0.1, 1, "5", "m.py:3", "fusion.2"],
    ]
    columns = [
        "start_ps",
        "end_ps",
        "largest_ps",
        "bytes",
        "last",
        "wait_ps",
        "memory_ps",
        "others",
        "others_busy",
        "meanwhile",
    ]
    assert result.table[columns].astype(object).where(result.table[columns].notna(), None).values.tolist() == [
        # 60 of its exposed 100 ps the other device computed, in the last 40 both reduced; the copy ran in 50 of them.
        [90, 200, 100, 4096, "gpu:1", 70, 50, 1, 1.0, "slow"],
        [150, 230, 30, 512, None, None, None, 1, 1.0, "fusion"],
        [230, 260, 30, None, None, None, None, 1, 1.0, "fusion"],
    ]
    assert result.by_device[["what", "device", "n", "cost_ps", "ratio", "largest_ps"]].values.tolist() == [
        ["all-reduce", "gpu:0", 1, 100, 100 / 300, 100],
        ["all-reduce", "gpu:1", 1, 40, 40 / 300, 40],
        ["MemcpyD2H", "gpu:0", 1, 30, 0.1, 30],
        ["host-bound", "gpu:0", 1, 30, 0.1, 30],
    ]
    assert result.instances[["what", "device", "cost_ps"]].values.tolist() == [
        ["all-reduce", "gpu:0", 100],
        ["all-reduce", "gpu:1", 40],
        ["MemcpyD2H", "gpu:0", 30],
        ["host-bound", "gpu:0", 30],
    ]
    assert result.totals.values.tolist() == [["gpu:0", 300, 100, 30, 30], ["gpu:1", 300, 40, 0, 0]]
    assert (result.groups, result.found, result.lacking) == (3, 4, "")


def test_several_pieces_of_a_gap_with_one_cause_are_one_gap():
    causes = ("host-bound", "launch latency", "host-bound")
    pieces = [("gpu:0", at, at + 10, cause, 3) for at, cause in zip((230, 240, 250), causes, strict=True)]
    found = offenders_of(step(), gaps(*pieces, ("gpu:0", 270, 275, "host-bound", 3)), ops=OPS).by_device
    assert found.loc[found["kind"] == "idle", ["what", "n", "cost_ps"]].values.tolist() == [
        ["host-bound", 2, 25],
        ["launch latency", 1, 10],
    ]


def test_what_the_other_device_did_counts_only_while_it_cost_something():
    table = events(
        ("gpu:0", "collective", 0, 100),
        ("gpu:0", "compute", 20, 80),
        ("gpu:1", "compute", 20, 90, "op"),
        ("gpu:1", "compute", 0, 1),
    )
    (row,) = offenders_of(table, gaps()).table.to_dict("records")
    # Of its 40 exposed ps, [0, 20) and [80, 100), the other device worked in [0, 1) and [80, 90).
    assert (row["cost_ps"], row["others_busy"], row["meanwhile"]) == (40, 11 / 40, "op")


def test_ops_that_differ_in_the_number_of_xla_and_copies_in_one_direction_are_one_offender():
    table = events(
        ("gpu:0", "collective", 0, 5, "ar.1"),
        ("gpu:0", "collective", 5, 7, "ar.2"),
        ("gpu:0", "memcpy", 7, 9, "copy-start.1", "H2D"),
        ("gpu:0", "memcpy", 9, 10, "copy-start.1", "D2H"),
        ("gpu:0", "memcpy", 10, 13, "copy-start.2", "H2D"),
    )
    table["hlo_op"] = pd.Categorical([None, None, "copy-start.1", "copy-start.1", "copy-start.2"])
    assert offenders_of(table).table[["what", "direction", "n", "cost_ps", "largest_ps"]].fillna(
        "-"
    ).values.tolist() == [
        ["ar", "-", 2, 7, 5],
        ["copy-start", "H2D", 2, 5, 3],
        ["copy-start", "D2H", 1, 1, 1],
    ]


def test_the_largest_are_kept_and_of_equal_ones_the_first(monkeypatch):
    monkeypatch.setattr(module, "MOST_INSTANCES", 3)
    monkeypatch.setattr(module, "MOST_GROUPS", 2)
    sizes = [2, 5, 2, 2, 4, 2]
    table = events(*[("gpu:0", "memcpy", 10 * at, 10 * at + size, f"c{at}") for at, size in enumerate(sizes)])
    result = offenders_of(table, gaps())
    assert result.instances["what"].tolist() == ["c1", "c4", "c0"]
    assert result.table["what"].tolist() == ["c1", "c4"]
    assert (len(result.by_device), result.groups, result.found) == (6, 6, 6)


def test_of_equal_instances_the_first_stands_for_the_largest():
    table = events(*[("gpu:0", "memcpy", start, start + size, "copy") for start, size in ((0, 3), (10, 5), (20, 5))])
    (row,) = offenders_of(table, gaps()).table.to_dict("records")
    assert (row["largest_ps"], row["start_ps"], row["n"]) == (5, 10, 3)


def test_devices_of_other_clocks_are_not_compared_and_have_their_own_window_and_steps():
    table = concat(
        EVENT_COLUMNS,
        [
            events(("a/gpu:0", "collective", 0, 10), host="a", clock="a"),
            events(("b/gpu:0", "collective", 1000, 1004), ("b/gpu:0", "compute", 1004, 1040), host="b", clock="b"),
        ],
    )
    steps = pd.DataFrame([("b", 1, "s", 0, 2000)], columns=list(STEPS)).astype(STEPS)
    result = offenders_of(table, gaps(), steps).instances
    assert result["others"].tolist() == [0, 0]
    assert result["others_busy"].isna().all()
    assert result["step"].fillna("-").tolist() == ["-", "1"]
    assert offenders_of(table, gaps(), steps).by_device["ratio"].tolist() == [1.0, 0.1]


def test_work_on_an_unknown_device_is_no_offender():
    result = offenders_of(events(("cpu:?", "memcpy", 0, 9)), gaps(("cpu:?", 0, 9, "host-bound", None)))
    assert (len(result.table), len(result.instances), len(result.totals)) == (0, 0, 0)
    assert result.lacking == "The trace holds no work on a known device."


def test_a_device_that_only_computes_has_no_offender_but_nothing_is_lacking():
    result = offenders_of(events(("gpu:0", "compute", 0, 9)))
    assert (len(result.table), result.found, result.lacking) == (0, 0, "")
    assert result.totals.values.tolist() == [["gpu:0", 9, 0, 0, 0]]


def test_an_empty_trace_gives_empty_tables():
    result = offenders_of(frame(EVENT_COLUMNS), gaps())
    assert [len(table) for table in (result.table, result.by_device, result.instances, result.totals)] == [0, 0, 0, 0]


def test_times_beyond_2_to_53_stay_exact():
    far = 2**53 + 1
    table = events(("gpu:0", "memcpy", 0, far), ("gpu:0", "memcpy", far, far + 2), ("gpu:0", "compute", 5, 6))
    result = offenders_of(table)
    assert result.by_device["cost_ps"].tolist() == [far + 1]
    assert result.instances["cost_ps"].tolist() == [far - 1, 2]


some_rows = st.lists(
    st.tuples(
        st.sampled_from(["gpu:0", "gpu:1", "cpu:?"]),
        st.sampled_from(KINDS[:-1]),
        st.integers(0, 25),
        st.integers(0, 9),
        st.sampled_from(["op.1", "op.2", "two"]),
    ),
    min_size=1,
    max_size=10,
).map(lambda row_tuples: [(device, kind, start, start + size, name) for device, kind, start, size, name in row_tuples])


@settings(max_examples=25)
@given(some_rows)
def test_the_offenders_of_a_device_sum_to_its_exposed_and_idle_time(row_tuples):
    table = events(*row_tuples)
    result = offenders_of(table)
    expected_costs: dict[tuple[str, str, str], list[int]] = {}
    for (device, kind, _, _, name), cost in zip(row_tuples, exposed_costs(row_tuples), strict=True):
        if cost:
            expected_costs.setdefault((device, kind, name.split(".")[0]), []).append(cost)
    timeline = timeline_of(table)
    cells = partition(timeline).set_index("device")
    for device in timeline.unions.devices:
        if lengths := [
            end - start
            for start, end in idle(timeline).query("device == @device")[["start_ps", "end_ps"]].values.tolist()
        ]:
            expected_costs[device, "idle", "host-bound"] = lengths
    assert {
        (row["device"], row["kind"], row["what"]): (row["n"], row["cost_ps"], row["largest_ps"])
        for row in result.by_device.to_dict("records")
    } == {key: (len(costs), sum(costs), max(costs)) for key, costs in expected_costs.items()}
    for row in result.totals.to_dict("records"):
        cell = cells.loc[row["device"]]
        assert row["collective_ps"] == cell["collective"] + cell["collective+memory"]
        assert (row["memory_ps"], row["idle_ps"], row["window_ps"]) == (cell["memory"], cell["idle"], cell["window_ps"])
    costs = result.by_device["cost_ps"].tolist()
    assert costs == sorted(costs, reverse=True)
    assert sorted(result.instances["cost_ps"]) == sorted(cost for costs in expected_costs.values() for cost in costs)
    for row in result.table.to_dict("records"):
        alike = [
            sum(costs)
            for (_, kind, what), costs in expected_costs.items()
            if (kind, what) == (row["kind"], row["what"])
        ]
        assert (row["cost_ps"], row["devices"]) == (max(alike), len(alike))


def test_the_frames_are_left_as_they_were():
    table, ops, steps, idle_table = step(), OPS.copy(), STEP.copy(), gaps(("gpu:0", 230, 260, "host-bound", 3))
    before = [frame.copy(deep=True) for frame in (table, ops, steps, idle_table)]
    offenders_of(table, idle_table, steps, ops, COLLECTIVES)
    assert all(frame.equals(was) for frame, was in zip((table, ops, steps, idle_table), before, strict=True))


@pytest.mark.parametrize(
    "case",
    traces.cases(
        "generated/gpu.xplane.pb",
        "generated/gpu.sqlite",
        "generated/kineto",
        "generated/rocm.xplane.pb",
        "generated/tpu.trace.json.gz",
        "mxnet_two_contexts_threaded.json.gz",
        "chrome/jax-tpu-2chip-vllm",
        "kineto/dlrm-8xV100",
        "kineto/hta-nccl_data-A100",
        "mxnet/gpu_mnist_cnn_profile_output",
        "nsys/mfu_2gpu_before-2xH100",
        "xplane/jax-8xMI300X",
        "xplane/tf-8xV100",
        "xplane/tpu-v6e-4chip",
        "xplane/xla-2xGTX1080Ti",
    ),
)
def test_the_offenders_of_whole_traces_sum_to_the_cells_of_the_partition(case):
    trace = traces.trace(case)
    result = offenders_of(trace.events, ops=trace.ops)
    cells = partition(trace).set_index("device")
    assert result.totals["device"].tolist() == cells.index.tolist()
    for row in result.totals.to_dict("records"):
        cell = cells.loc[row["device"]]
        assert row["collective_ps"] == cell["collective"] + cell["collective+memory"]
        assert (row["memory_ps"], row["idle_ps"]) == (cell["memory"], cell["idle"])
    for device, offenders in result.by_device.groupby("device"):
        totals = result.totals.set_index("device").loc[device]
        assert offenders["cost_ps"].sum() == totals[["collective_ps", "memory_ps", "idle_ps"]].sum()
