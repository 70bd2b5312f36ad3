"""Kernels and ops by time: against a count of points, against XProf, and how rows become groups."""

import json
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import traces
from tests.any_rows import some_rows
from tests.frames import events, trace
from tests.traces import needs_real
from tracekit.analysis.overlap import partition
from tracekit.analysis.steps import STEP_COLUMNS
from tracekit.analysis.top_ops import operations, top_ops
from tracekit.columns import frame
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import OP_COLUMNS

WHOLE_TIME = np.array([[-(2**62), 2**62]], np.int64)


def linked(rows, ops, of_rows, **columns):
    """A trace of rows, of the operations `ops` (OP_COLUMNS), and which of these each row is of, None for none."""
    whole = events(*rows).assign(op=pd.array(of_rows, "Int64"))
    for column, values in columns.items():
        whole[column] = pd.Categorical(values)
    return trace(whole, ops=frame(OP_COLUMNS, ops))


def values(table, *columns):
    """The rows of a frame, null as None."""
    return [tuple(None if pd.isna(value) else value for value in row) for row in table[[*columns]].to_numpy().tolist()]


def test_names_are_summed_over_all_devices_and_by_device_the_longest_first():
    result = top_ops(
        events(
            ("gpu:0", "compute", 0, 10, "gemm"),
            ("gpu:0", "compute", 20, 50, "gemm"),
            ("gpu:0", "compute", 60, 70, "relu"),
            ("gpu:1", "compute", 0, 30, "gemm"),
        )
    )
    columns = ("n", "time_ps", "ratio", "union_ps", "busy_ratio", "median_ps", "p95_ps")
    assert values(result.by_name, "name", *columns) == [
        ("gemm", 3, 70, 0.875, 70, 0.875, 30, 30),
        ("relu", 1, 10, 0.125, 10, 0.125, 10, 10),
    ]
    assert values(result.by_device, "device", "name", *columns) == [
        ("gpu:0", "gemm", 2, 40, 0.8, 40, 0.8, 20, 30),
        ("gpu:1", "gemm", 1, 30, 1.0, 30, 1.0, 30, 30),
        ("gpu:0", "relu", 1, 10, 0.2, 10, 0.2, 10, 10),
    ]
    assert values(result.totals, "device", "n", "time_ps", "busy_ps") == [("gpu:0", 3, 50, 50), ("gpu:1", 1, 30, 30)]


def test_rows_that_overlap_count_in_full_in_total_time_and_once_in_the_union():
    rows = [("gpu:0", "compute", 0, 10, "a"), ("gpu:0", "compute", 5, 15, "a"), ("gpu:0", "compute", 5, 15, "b")]
    result = top_ops(events(*rows))
    assert values(result.by_name, "name", "time_ps", "union_ps") == [("a", 20, 15), ("b", 10, 10)]
    assert result.by_name["ratio"].sum() == 1
    assert result.by_name["busy_ratio"].tolist() == [1, 10 / 15]  # more than 1 together


def test_what_compute_hides_of_a_collective_and_either_of_a_copy_is_not_exposed():
    result = top_ops(
        events(
            ("gpu:0", "compute", 0, 10, "gemm"),
            ("gpu:0", "collective", 5, 25, "all-reduce"),
            ("gpu:0", "memcpy", 20, 40, "copy"),
            ("gpu:0", "memset", 0, 5, "fill"),
        )
    )
    assert values(result.by_name, "name", "time_ps", "exposed_ps") == [
        ("all-reduce", 20, 15),
        ("copy", 20, 15),
        ("gemm", 10, 10),
        ("fill", 5, 0),
    ]


@settings(max_examples=40)
@given(st.data())
def test_every_figure_is_that_of_a_count_of_points(data):
    rows = data.draw(some_rows())
    rows = [(*row[:4], data.draw(st.sampled_from("abc")), row[5]) for row in rows]
    result = top_ops(events(*rows))
    on = {device: [row for row in rows if row[0] == device] for device, *_ in rows}
    total = {device: sum(end - start for _, _, start, end, *_ in its) for device, its in on.items()}

    def points(its):
        return {(row[0], point) for row in its for point in range(row[2], row[3])}

    def exposed(its):
        hides = {"compute": (), "collective": ("compute",)}
        return {
            point
            for row in its
            for point in points([row])
            - points(other for other in on[row[0]] if other[1] in hides.get(row[1], ("compute", "collective")))
        }

    for table in (result.by_name, result.by_device):
        keys = set()
        for row in table.to_dict("records"):
            devices = [row["device"]] if "device" in row else [*on]
            mine = [each for name in devices for each in on[name] if (each[4], each[1]) == (row["name"], row["kind"])]
            durations = sorted(end - start for _, _, start, end, *_ in mine)
            middle = durations[(len(mine) - 1) // 2] + durations[len(mine) // 2]
            whole, busy = sum(total[name] for name in devices), sum(len(points(on[name])) for name in devices)
            assert [row[key] for key in ("n", "time_ps", "median_ps", "p95_ps", "union_ps", "exposed_ps")] == [
                len(mine),
                sum(durations),
                middle // 2,
                durations[math.ceil(0.95 * len(mine)) - 1],
                len(points(mine)),
                len(exposed(mine)),
            ]
            assert (pd.isna(row["ratio"]), pd.isna(row["busy_ratio"])) == (not whole, not busy)
            assert not whole or row["ratio"] == sum(durations) / whole
            assert not busy or row["busy_ratio"] == len(points(mine)) / busy
            keys.add((row.get("device"), row["name"], row["kind"]))
        assert table["n"].sum() == len(rows)
        assert len(keys) == len(table)
        assert table["time_ps"].is_monotonic_decreasing
    assert result.by_pattern["n"].sum() == len(rows)
    assert result.by_pattern["time_ps"].sum() == sum(total.values())
    busy = sum(len(points(its)) for its in on.values())
    of_kind = {"compute": "other", "memcpy": "copy"}
    for row in result.by_pattern.to_dict("records"):
        exposed_ps = len(exposed(each for each in rows if of_kind.get(each[1], each[1]) == row["pattern"]))
        assert row["exposed_ps"] == exposed_ps
        assert pd.isna(row["exposed_ratio"]) if not busy else row["exposed_ratio"] == exposed_ps / busy


def test_rows_of_a_name_that_overlap_are_exposed_once():
    rows = [("tpu:0", "memcpy", start, start + 30, "copy-start") for start in (0, 10, 20)]
    result = top_ops(events(*rows, ("tpu:0", "compute", 40, 45, "fusion"), ("tpu:0", "memset", 0, 20, "fill")))
    assert values(result.by_name, "name", "time_ps", "union_ps", "exposed_ps") == [
        ("copy-start", 90, 50, 45),
        ("fill", 20, 20, 20),
        ("fusion", 5, 5, 5),
    ]
    assert values(result.by_pattern, "pattern", "exposed_ps", "exposed_ratio") == [
        ("copy", 45, 0.9),
        ("memset", 20, 0.4),
        ("elementwise", 5, 0.1),
    ]


@pytest.mark.parametrize("case", traces.cases("generated/gpu.xplane.pb", "xplane/tpu-v6e-4chip"))
def test_what_patterns_expose_is_what_the_partition_says(case):
    timeline = traces.timeline(case)
    cells = partition(timeline)[["collective", "collective+memory", "memory"]].sum()
    exposed_ps = top_ops(timeline).by_pattern.set_index("pattern")["exposed_ps"]
    assert exposed_ps["collective"] == cells["collective"] + cells["collective+memory"]
    copies_ps = exposed_ps.reindex(["copy", "memset"], fill_value=0)
    assert copies_ps.max() <= cells["memory"] <= copies_ps.sum()


def test_times_too_long_to_sort_as_one_number_with_their_group_have_the_same_quantiles():
    rows = [("gpu:0", "compute", 0, 2**61, "a"), ("gpu:0", "compute", 5, 6, "a"), ("gpu:0", "compute", 7, 8, "b")]
    result = top_ops(events(*rows))
    assert values(result.by_name, "name", "median_ps", "p95_ps") == [("a", 2**60, 2**61), ("b", 1, 1)]


def test_rows_are_grouped_by_operator_and_source_line_and_those_without_stand_together():
    rows = [
        ("gpu:0", "compute", 0, 10, "k1"),
        ("gpu:0", "compute", 10, 30, "k2"),
        ("gpu:0", "compute", 30, 60, "k1"),
        ("gpu:0", "memcpy", 60, 65, "copy"),
    ]
    ops = {"framework_op": ["aten::mm", "aten::add"], "source": ["a.py:1", None]}
    result = top_ops(linked(rows, ops, [0, 1, 0, None]))
    assert values(result.by_operator, "operator", "n", "time_ps") == [
        ("aten::mm", 2, 40),
        ("aten::add", 1, 20),
        (None, 1, 5),
    ]
    assert values(result.by_source, "source", "n", "time_ps") == [("a.py:1", 2, 40), (None, 2, 25)]
    assert values(result.by_name, "name", "operator", "source") == [
        ("k1", "aten::mm", "a.py:1"),
        ("k2", "aten::add", None),
        ("copy", None, None),
    ]
    assert result.reasons == {}


@settings(max_examples=30)
@given(st.data())
def test_operators_and_source_lines_of_each_device_are_those_of_its_rows_alone(data):
    rows = data.draw(some_rows())
    ops = {"framework_op": ["aten::mm", "aten::add", "aten::mm"], "source": ["a.py:1", None, "b.py:2"]}
    of_rows = [data.draw(st.sampled_from([0, 1, 2, None])) for _ in rows]
    result = top_ops(linked(rows, ops, of_rows))
    for device in {row[0] for row in rows}:
        its = [(row, op) for row, op in zip(rows, of_rows, strict=True) if row[0] == device]
        alone = top_ops(linked([row for row, _ in its], ops, [op for _, op in its]))
        for column, of_all, of_each in (
            ("operator", alone.by_operator, result.by_device_operator),
            ("source", alone.by_source, result.by_device_source),
        ):
            if not len(of_all):  # alone, the device tells of none
                assert of_each.loc[of_each["device"] == device, column].isna().all()
                continue
            columns = (column, "n", "time_ps", "ratio", "median_ps", "p95_ps")
            assert values(of_each[of_each["device"] == device], *columns) == values(of_all, *columns)


def test_a_kernel_of_several_operators_shows_the_one_with_most_of_its_time_and_counts_in_the_pattern_of_each():
    rows = [("gpu:0", "compute", 0, 10, "sgemm"), ("gpu:0", "compute", 10, 40, "sgemm")]
    result = top_ops(linked(rows, {"framework_op": ["aten::mm", "aten::conv2d"]}, [0, 1]))
    assert values(result.by_name, "operator", "pattern") == [("aten::conv2d", "convolution")]
    assert values(result.by_pattern, "pattern", "names", "time_ps") == [("convolution", 1, 30), ("matmul", 1, 10)]


def test_where_nothing_links_kernels_to_operators_or_lines_the_reason_is_given():
    result = top_ops(events(("gpu:0", "compute", 0, 10, "k")))
    assert (len(result.by_operator), len(result.by_source)) == (0, 0)
    assert (len(result.by_device_operator), len(result.by_device_source)) == (0, 0)
    assert sorted(result.reasons) == ["by_device_operator", "by_device_source", "by_operator", "by_source"]


def test_ops_of_one_name_in_two_programs_are_two():
    rows = [("gpu:0", "compute", 0, 10, "fusion.1"), ("gpu:0", "compute", 10, 15, "fusion.1")]
    result = top_ops(linked(rows, {}, [None, None], hlo_module=["jit_f", "jit_g"]))
    assert values(result.by_name, "name", "program", "time_ps") == [
        ("fusion.1", "jit_f", 10),
        ("fusion.1", "jit_g", 5),
    ]


def test_inside_windows_rows_are_cut():
    rows = events(("gpu:0", "compute", 0, 10, "a"), ("gpu:0", "compute", 20, 30, "b"))
    assert values(top_ops(rows, (5, 20)).by_name, "name", "n", "time_ps") == [("a", 1, 5)]


def test_work_on_an_unknown_device_counts_nowhere():
    rows = [("cpu:0", "compute", 0, 10, "dot"), ("cpu:?", "memcpy", 0, 90, "copy")]
    result = top_ops(events(*rows))
    assert values(result.by_name, "name", "ratio") == [("dot", 1)]
    assert result.totals["device"].tolist() == ["cpu:0"]
    assert top_ops(events(rows[1])).lacking == "The trace holds no work on a known device."


def test_rows_of_no_length_have_no_share():
    result = top_ops(events(("gpu:0", "compute", 3, 3, "a")))
    assert values(result.by_name, "n", "time_ps", "ratio", "busy_ratio") == [(1, 0, None, None)]


_XPROF = """
import sys
from xprof.convert import raw_to_tool_data
data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "kernel_stats", {})
print("kernel_stats", data if isinstance(data, str) else data.decode())
"""


def xprof_kernels(path):
    """By kernel: how often it ran, and its time in ps, as XProf sums them."""
    done = subprocess.run([sys.executable, "-c", _XPROF, str(path)], capture_output=True, text=True, check=True)
    table = json.loads(done.stdout.partition("kernel_stats")[2])
    at = [column["label"] for column in table["cols"]]
    cells = pd.DataFrame([[cell.get("v") for cell in row["c"]] for row in table["rows"]], columns=at)
    sums = cells.groupby("Kernel Name")[["Occurrences", "Total Duration (μs)"]].sum()
    return {name: (int(n), round(us * 1e6)) for name, n, us in sums.itertuples()}


@pytest.mark.slow
@pytest.mark.parametrize("case", ["generated/gpu.xplane.pb", pytest.param("xplane/jax-8xMI300X", marks=needs_real)])
def test_counts_and_times_of_kernels_are_those_of_xprof(case, tmp_path):
    pytest.importorskip("xprof")
    copy = tmp_path / "host.xplane.pb"  # XProf writes what it made beside the file
    copy.write_bytes(traces.xspace(case).read_bytes())
    mine = top_ops(traces.timeline(case)).by_name
    kernels = mine.groupby("name")[["n", "time_ps"]].sum()
    xprof = xprof_kernels(copy)
    assert xprof
    assert {name: tuple(kernels.loc[name]) for name in xprof} == xprof


def test_of_operators_of_as_much_time_the_first_is_shown_whichever_ran_first():
    rows = [("gpu:0", "compute", 0, 10, "k"), ("gpu:0", "compute", 10, 20, "k")]
    for of_rows in ([0, 1], [1, 0]):
        result = top_ops(linked(rows, {"framework_op": ["aten::add", "aten::mm"]}, of_rows))
        assert values(result.by_name, "operator", "pattern") == [("aten::add", "elementwise")]


def test_where_the_trace_tells_of_operators_but_of_those_of_no_kernel_the_reason_is_given():
    for names in (["aten::mm"], ["aten::mm", "aten::add"]):
        result = top_ops(linked([("gpu:0", "compute", 0, 10, "k")], {"framework_op": names}, [None]))
        assert len(result.by_operator) == 0
        assert "by_operator" in result.reasons


@settings(max_examples=30)
@given(some_rows(), st.data())
def test_operations_are_those_of_a_sum_over_the_rows_of_each(rows, data):
    rows = [(*row[:4], data.draw(st.sampled_from("ab")), row[5]) for row in rows]
    of_rows = [data.draw(st.sampled_from([0, 1, None])) for _ in rows]
    ops = {"framework_op": ["aten::mm", "aten::add"], "source": ["a.py:1", None]}
    sums = {}
    for (device, kind, start, end, name, *_), op in zip(rows, of_rows, strict=True):
        of_op = (None, None) if op is None else (ops["framework_op"][op], ops["source"][op])
        n, time_ps = sums.get((device, name, kind, *of_op), (0, 0))
        sums[device, name, kind, *of_op] = n + 1, time_ps + end - start
    table = operations(timeline_of(linked(rows, ops, of_rows)), frame(STEP_COLUMNS), {"phase": {"": WHOLE_TIME}})
    for scope in ("whole", "phase"):
        found = values(table[table["scope"] == scope], "device", "name", "kind", "operator", "source", "n", "time_ps")
        assert {row[:5]: row[5:] for row in found} == sums
        assert len(found) == len(sums)


def test_operations_of_a_fleet_are_summed_over_its_devices():
    draw = np.random.default_rng(3)
    rows = [
        (f"gpu:{device}", "compute", start, start + length, f"k{name}", 1)
        for device in range(17)
        for start, length, name in zip(range(0, 900, 100), draw.integers(1, 90, 9), draw.integers(0, 4, 9), strict=True)
    ]
    sums = {}
    for _, _, start, end, name, _ in rows:
        n, time_ps = sums.get(name, (0, 0))
        sums[name] = n + 1, time_ps + end - start
    events = linked(rows, {"framework_op": [None], "source": [None]}, [None] * len(rows))
    table = operations(timeline_of(events), frame(STEP_COLUMNS), {})
    assert table["device"].isna().all()
    assert {row[0]: row[1:] for row in values(table, "name", "n", "time_ps")} == sums
    few = linked(rows[: 16 * 9], {"framework_op": [None], "source": [None]}, [None] * 16 * 9)
    assert operations(timeline_of(few), frame(STEP_COLUMNS), {})["device"].nunique() == 16
