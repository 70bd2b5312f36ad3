"""Programs of many files: what is the same counts once, and every row still leads to its own operation."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frames import events
from tracekit.columns import frame
from tracekit.readers.merge import merge
from tracekit.readers.merge.operations import operations
from tracekit.trace import HOST_COLUMNS, OP_COLUMNS, OPERAND_COLUMNS, Trace


def trace(ops, operands=(), of_events=(), host="h"):
    """A trace whose operations are rows of (program, hlo_op[, flops[, source]]), and whose device rows have these."""
    full = [(*row, *(None, None)[len(row) - 2 :]) for row in ops]
    rows = events(*[("gpu:0", "compute", at, at + 1) for at in range(len(of_events))], host=host)
    return Trace(
        events=rows.assign(op=pd.array(list(of_events), "Int64")),
        ops=frame(
            OP_COLUMNS,
            {
                "program": [row[0] for row in full],
                "hlo_op": [row[1] for row in full],
                "flops": [row[2] for row in full],
                "source": [row[3] for row in full],
            },
        ),
        operands=frame(OPERAND_COLUMNS, {"op": [a for a, _ in operands], "operand": [b for _, b in operands]}),
        hosts=frame(HOST_COLUMNS, {"host": [host], "origin_ns": [1_700_000_000_000_000_000]}),
        source=f"{host}.json",
    )


def listed(table, *columns):
    chosen = table[list(columns)].astype(object)
    return chosen.where(chosen.notna(), None).values.tolist()


STEP = [("jit_step", "add", 8), ("jit_step", "all-reduce"), ("jit_step", "mul", 8)]
CHAIN = [(1, 0), (2, 1)]


def test_a_program_that_all_hosts_hold_alike_counts_once():
    found = operations([trace(STEP, CHAIN), trace(STEP, CHAIN), trace(STEP, CHAIN)])
    assert listed(found.ops, "program", "hlo_op", "flops") == [
        ["jit_step", "add", 8],
        ["jit_step", "all-reduce", None],
        ["jit_step", "mul", 8],
    ]
    assert found.operands.values.tolist() == [[1, 0], [2, 1]]
    assert [one.tolist() for one in found.numbers] == [[0, 1, 2]] * 3


@pytest.mark.parametrize(
    ("ops", "operands"),
    [
        ([*STEP[:2], ("jit_step", "mul", 9)], CHAIN),  # other facts
        ([*STEP[:2], ("jit_step", "mul", 8, "step.py:3")], CHAIN),  # another source
        ([("jit_other", *one[1:]) for one in STEP], CHAIN),  # another name
        (STEP, [(1, 0), (2, 0)]),  # other operands
        (STEP, []),  # operands of which nothing is known
        (STEP[:2], CHAIN[:1]),  # a part of it
        ([STEP[1], STEP[0], STEP[2]], CHAIN),  # the same rows, otherwise joined
    ],
)
def test_a_program_that_differs_at_all_stays_a_program_of_its_own(ops, operands):
    found = operations([trace(STEP, CHAIN), trace(ops, operands)])
    assert len(found.ops) == 3 + len(ops)
    assert found.operands.values.tolist() == [*map(list, CHAIN), *([a + 3, b + 3] for a, b in operands)]


def test_equal_operations_of_no_known_operands_count_once_in_whatever_order():
    found = operations([trace([(None, "aten::mm"), (None, "aten::add")]), trace([(None, "aten::add"), (None, "x")])])
    assert listed(found.ops, "hlo_op") == [["aten::mm"], ["aten::add"], ["x"]]
    assert [one.tolist() for one in found.numbers] == [[0, 1], [1, 2]]


def test_two_programs_of_one_file_stand_apart_and_their_order_does_not_matter():
    other = [("jit_init", "add", 8), ("jit_init", "mul", 8)]
    first = trace([*STEP, *other], [*CHAIN, (4, 3)])
    second = trace([*other, *STEP], [(1, 0), (3, 2), (4, 3)])
    found = operations([first, second])
    assert len(found.ops) == 5
    assert found.operands.values.tolist() == [[1, 0], [2, 1], [4, 3]]
    assert [one.tolist() for one in found.numbers] == [[0, 1, 2, 3, 4], [3, 4, 0, 1, 2]]


def test_rows_of_merged_hosts_lead_to_their_operations_and_rows_without_one_to_none():
    one = trace(STEP, CHAIN, [2, None, 0], host="a")
    other = trace([("jit_init", "copy"), *STEP], [(2, 1), (3, 2)], [0, 3], host="b")
    merged = merge([one, other])
    assert listed(merged.events, "device", "op") == [
        ["a/gpu:0", 2],
        ["a/gpu:0", None],
        ["a/gpu:0", 0],
        ["b/gpu:0", 3],
        ["b/gpu:0", 2],
    ]
    assert listed(merged.ops, "hlo_op") == [["add"], ["all-reduce"], ["mul"], ["copy"]]
    assert merged.operands.values.tolist() == [[1, 0], [2, 1]]


def test_traces_without_operations_give_none():
    found = operations([trace([]), trace([])])
    assert (len(found.ops), len(found.operands), [len(one) for one in found.numbers]) == (0, 0, [0, 0])


@st.composite
def traces(draw):
    count = draw(st.integers(0, 6))
    names = st.tuples(st.sampled_from(["p", "q", None]), st.sampled_from("ab"), st.sampled_from([None, 0, 7]))
    numbers = st.integers(0, max(count - 1, 0))
    return trace(
        draw(st.lists(names, min_size=count, max_size=count)),
        draw(st.lists(st.tuples(numbers, numbers), max_size=4)) if count else (),
        draw(st.lists(st.none() | numbers, max_size=4)) if count else (),
        host=draw(st.sampled_from(["a", "b", "c"])),
    )


def told(table, number):
    return tuple(None if pd.isna(value) else value for value in table.iloc[int(number)].astype(object))


@settings(deadline=None, max_examples=40)
@given(st.lists(traces(), min_size=2, max_size=4))
def test_joining_keeps_what_every_row_and_every_operand_is(found):
    after = operations(found)
    wanted, pairs = set(), set()
    for one, number in zip(found, after.numbers, strict=True):
        assert [told(after.ops, number[at]) for at in range(len(one.ops))] == [
            told(one.ops, at) for at in range(len(one.ops))
        ]
        wanted |= {told(one.ops, at) for at in range(len(one.ops))}
        pairs |= {(int(number[a]), int(number[b])) for a, b in one.operands.to_numpy()}
    assert {told(after.ops, at) for at in range(len(after.ops))} == wanted
    # No operand is lost or there twice, and none is invented for the operations of any trace.
    assert sorted(map(tuple, after.operands.to_numpy().tolist())) == sorted(pairs)
    for number, one in zip(after.numbers, found, strict=True):
        own = {(int(number[a]), int(number[b])) for a, b in one.operands.to_numpy()}
        assert {(a, b) for a, b in pairs if {a, b} <= set(number.tolist())} == own


def of_rows(trace):
    """Each device row's host, start and operation."""
    table = zip(trace.events["host"], trace.events["start_ps"], trace.events["op"], strict=True)
    return [(str(host), start, None if pd.isna(op) else told(trace.ops, op)) for host, start, op in table]


@settings(deadline=None, max_examples=15)
@given(st.lists(traces(), min_size=2, max_size=3, unique_by=lambda one: one.source))
def test_merged_rows_are_of_the_operations_that_they_were_of_before(found):
    assert sorted(of_rows(merge(found)), key=str) == sorted((row for one in found for row in of_rows(one)), key=str)
