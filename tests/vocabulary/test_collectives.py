"""What a collective does, by its category and by its name, and that all who ask are told the same."""

import pytest

from tests.frames import events
from tests.vocabulary.collective_names import CALLS, CATEGORIES, KERNELS
from tracekit.readers.merge.shared_ends import by_host
from tracekit.timeline.instances import match
from tracekit.timeline.rows import rows
from tracekit.vocabulary.collectives import OPCODES, OPERATIONS, operation
from tracekit.vocabulary.kinds import TABLE, Kind, KnownBy

NAMES = KERNELS | CALLS


@pytest.mark.parametrize(("name", "does"), NAMES.items())
def test_a_name_tells_what_a_collective_does(name, does):
    assert operation(name) == does
    assert does is None or does in OPERATIONS


@pytest.mark.parametrize(("category", "does"), CATEGORIES.items())
def test_a_category_tells_it_before_the_name(category, does):
    assert operation("my_ring_exchange", category) == does
    assert operation("ncclDevKernel_Broadcast_RING_LL(int)", category) == (does or "collective-broadcast")


def test_every_opcode_of_a_collective_is_an_operation():
    assert {operation("x", opcode) for opcode in OPCODES} == OPCODES


@pytest.mark.parametrize(
    "row", [row for row in TABLE if row.kind == Kind.COLLECTIVE and row.which], ids=lambda row: row.example
)
def test_the_table_of_kinds_says_the_same(row):
    operation_of_example = operation("x", row.example) if row.level == KnownBy.OPCODE else operation(row.example)
    assert operation_of_example == row.which


def test_timeline_and_clocks_ask_the_same():
    """A collective in which no rank ends early tells of the clocks of two hosts, and bounds its instance."""
    for name, does in NAMES.items():
        table = events(
            ("gpu:0", "collective", 0, 5, name or "(unnamed)"), ("gpu:1", "collective", 1, 5, name or "(unnamed)")
        )
        (operation_of_rows,) = match(rows(table)).operations
        shared = by_host(table, ["h"])["h"].rows
        meets = does is not None and (OPERATIONS[does].synchronises or does == "send-recv")
        assert len(shared) == (2 if meets else 0), name
        assert set(shared.is_sure.tolist()) == ({does != "send-recv"} if meets else set()), name
        assert does is None or operation_of_rows == does, name
