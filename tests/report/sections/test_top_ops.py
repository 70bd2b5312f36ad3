"""The top operations as a report shows them."""

import pandas as pd
import pytest

from tests.frames import events, trace
from tracekit.analysis.top_ops import top_ops
from tracekit.columns import frame
from tracekit.report.sections.top_ops import section
from tracekit.trace import OP_COLUMNS

MS = 10**9
ROWS = (
    ("gpu:0", "compute", 0, 6 * MS, "sgemm"),
    ("gpu:0", "memcpy", 0, 4 * MS, "Memcpy HtoD"),
    ("gpu:1", "compute", 0, 2 * MS, "relu_kernel"),
)


def tables(of):
    return {table.key.removeprefix("top_ops."): table for table in of.tables}


def heads(table):
    return [column.head for column in table.columns]


def test_the_first_sentence_has_the_patterns_of_the_busy_time_without_what_is_hidden():
    shown = section(top_ops(events(*ROWS)))
    assert shown.sentences == (
        "Of 8.00 ms of busy time, summed over 2 devices (hidden collectives and copies count as what hides them): "
        "matmul 75.0 %, elementwise 25.0 %.",
        "Operations overlap: their times sum to 1.50x the busy time.",
    )


def test_names_stand_by_their_total_time_with_what_is_exposed_of_them():
    names = tables(section(top_ops(events(*ROWS))))["names"]
    assert heads(names) == [
        "operation", "pattern", "n", "total", "share", "median", "p95", "exposed", "of busy",
    ]  # fmt: skip
    assert [(row[0], row[1], row[3], row[7]) for row in names.rows] == [
        ("sgemm", "matmul", 6 * MS, 6 * MS),
        ("Memcpy HtoD", "copy", 4 * MS, 0),
        ("relu_kernel", "elementwise", 2 * MS, 2 * MS),
    ]


def test_where_nothing_is_hidden_there_is_no_column_of_it():
    assert "exposed" not in heads(tables(section(top_ops(events(ROWS[0]))))["names"])


def test_a_table_of_each_device_is_there_only_for_several():
    assert "devices" in tables(section(top_ops(events(*ROWS))))
    assert "devices" not in tables(section(top_ops(events(*ROWS[:2]))))


def test_operators_are_named_and_what_has_none_says_why():
    whole = events(*ROWS).assign(op=pd.array([0, None, None], "Int64"))
    shown = section(top_ops(trace(whole, ops=frame(OP_COLUMNS, {"framework_op": ["aten::mm"]}))))
    assert shown.sentences[1] == "The operator with most time is aten::mm: 6.00 ms (50.0 %) in 1 kernel or op."
    labels = [row[0] for row in tables(shown)["operators"].rows]
    assert labels == ["aten::mm", "no operator recorded"]
    assert tables(shown)["sources"].rows == ()


def test_an_operator_is_not_said_to_have_most_time_where_more_has_none():
    whole = events(*ROWS[1:]).assign(op=pd.array([None, 0], "Int64"))
    shown = section(top_ops(trace(whole, ops=frame(OP_COLUMNS, {"framework_op": ["aten::relu"]}))))
    assert shown.sentences[1] == (
        "The recorded operator with most time is aten::relu: 2.00 ms (33.3 %) in 1 kernel or op; 66.7 % of the time "
        "has no operator recorded."
    )


def test_what_has_no_operator_stands_last_however_long_it_took_and_is_never_left_out():
    rows = [("tpu:0", "compute", at * MS, (at + 1) * MS, f"fusion.{at}") for at in range(130)]
    table = events(*rows).assign(op=pd.array([*range(120), *[None] * 10], "Int64"))
    ops = frame(OP_COLUMNS, {"framework_op": [f"jit(f)/op_{at:03}" for at in range(120)]})
    shown = section(top_ops(trace(table, ops=ops)))
    operators = tables(shown)["operators"]
    assert [row[0] for row in operators.rows] == [
        *[f"jit(f)/op_{at:03}" for at in range(99)], "no operator recorded",
    ]  # fmt: skip
    assert operators.rows[-1][2] == 10 * MS
    assert operators.brief == (*range(9), 99)
    assert shown.data["by_operator"][0]["operator"] is None


def test_below_the_names_stands_what_their_exposed_times_sum_to_where_it_is_counted_again():
    copies = [("gpu:0", "memcpy", 2 * MS, 6 * MS, f"copy.{at}") for at in range(3)]
    names = tables(section(top_ops(events(("gpu:0", "compute", 0, 3 * MS, "sgemm"), *copies))))["names"]
    assert sum(row[heads(names).index("exposed")] for row in names.rows) == 12 * MS
    assert names.extract == (
        "Operations that are exposed at the same time each count it: the exposed times sum to 12.00 ms in 6.00 ms of "
        "busy time."
    )
    assert names.about.endswith(names.extract)
    assert tables(section(top_ops(events(*ROWS))))["names"].extract == ""


@pytest.mark.parametrize(("numbered", "first"), [(True, "operators"), (False, "names")])
def test_operators_stand_before_names_that_are_each_one_of_many_alike(numbered, first):
    rows = [("tpu:0", "compute", at * MS, (at + 1) * MS, f"fusion.{at}" if numbered else "dot") for at in range(40)]
    table = events(*rows).assign(op=pd.array([0] * 40, "Int64"))
    shown = section(top_ops(trace(table, ops=frame(OP_COLUMNS, {"framework_op": ["jit(f)/dot_general"]}))))
    assert next(iter(tables(shown))) == first


def test_of_several_devices_operators_stand_by_device_with_shares_of_its_own_time():
    whole = events(*ROWS).assign(op=pd.array([0, None, 0], "Int64"))
    shown = section(top_ops(trace(whole, ops=frame(OP_COLUMNS, {"framework_op": ["aten::mm"]}))))
    table = tables(shown)["device_operators"]
    assert heads(table)[:4] == ["operator", "device", "n", "total"]
    assert [(row[0], row[1], row[3], row[4]) for row in table.rows] == [
        ("aten::mm", "gpu:0", 6 * MS, 0.6),
        ("no operator recorded", "gpu:0", 4 * MS, 0.4),
        ("aten::mm", "gpu:1", 2 * MS, 1.0),
    ]
    assert [(row["device"], row["operator"]) for row in shown.data["by_device_operator"]] == [
        ("gpu:0", "aten::mm"),
        ("gpu:0", None),
        ("gpu:1", "aten::mm"),
    ]
    assert (tables(shown)["device_sources"].rows, shown.data["by_device_source"]) == ((), [])


def test_without_work_the_section_says_why():
    assert section(top_ops(events())).lacking == "The trace holds no work on a known device."
