import numpy as np
import pandas as pd

from tests.frames import events
from tracekit.analysis.offenders import Spots, last_arriver, locate
from tracekit.columns import frame
from tracekit.timeline.rows import rows
from tracekit.trace import OP_COLUMNS

STEPS = {"clock": "str", "step": "Int64", "name": "str", "start_ps": "int64", "end_ps": "int64"}


def steps(*step_tuples) -> pd.DataFrame:
    return pd.DataFrame(step_tuples, columns=list(STEPS)).astype(STEPS)


def spots(*spot_tuples) -> Spots:
    """From (device, start, end, row, after)."""
    return Spots(*(np.array(column, np.int64) for column in zip(*spot_tuples, strict=True)))


def some():
    table = events(("gpu:0", "collective", 5, 9, "kernel_1"), ("gpu:0", "compute", 12, 20, "kernel_2"))
    table["op"] = pd.array([1, None], "Int64")
    table["hlo_op"] = pd.Categorical(["all-reduce.3", None])
    table["bytes"] = pd.array([64, 7], "Int64")
    ops = frame(
        OP_COLUMNS, {"hlo_op": ["x", "all-reduce.3"], "source": [None, "model.py:42"], "framework_op": ["f", "g"]}
    )
    return rows(table), ops


def test_a_row_has_its_source_and_bytes_and_a_gap_the_source_of_what_came_next():
    sorted_rows, ops = some()
    columns = locate(
        spots((0, 5, 9, 0, -1), (0, 0, 5, -1, 0), (0, 9, 12, -1, 1), (0, 20, 30, -1, -1)), sorted_rows, steps(), ops
    )
    assert {name: list(column) for name, column in columns.items() if name != "bytes"} == {
        "step": [None] * 4,
        "source": ["model.py:42", "model.py:42", None, None],
        "framework_op": ["g", "g", None, None],
        "next": [None, "all-reduce.3", "kernel_2", None],
    }
    assert columns["bytes"].tolist() == [64, pd.NA, pd.NA, pd.NA]


def test_the_step_is_the_one_that_holds_the_start_on_the_clock_of_the_device():
    sorted_rows, ops = some()
    table = steps(
        ("", 8, "train", 6, 10), ("", 7, "train", 0, 5), ("", None, "module", 10, 12), ("other", 1, "x", 0, 99)
    )
    at = [(0, start, start + 1, -1, -1) for start in (0, 4, 5, 6, 9, 11, 12)]
    assert locate(spots(*at), sorted_rows, table, ops)["step"] == ["7", "7", None, "8", "8", "module", None]


def test_without_ops_and_steps_nothing_is_told():
    sorted_rows, _ = some()
    columns = locate(spots((0, 5, 9, 0, -1)), sorted_rows, steps(), frame(OP_COLUMNS))
    # The row names an operation, but no frame of operations is there to hold it.
    assert [list(columns[name]) for name in ("step", "source", "framework_op")] == [[None]] * 3


def test_a_collective_waits_from_its_start_to_the_last_start_or_to_its_end():
    table = pd.DataFrame({"instance": [4, 2], "last": ["gpu:9", "gpu:3"], "last_start_ps": pd.array([99, 7], "Int64")})
    at = spots((0, 5, 9, 0, -1), (0, 12, 20, 1, -1), (0, 0, 5, -1, 0))
    arrivals = last_arriver(at, table, np.array([2, 4]))
    assert (list(arrivals["last"]), arrivals["wait_ps"].tolist()) == (["gpu:3", "gpu:9", None], [2, 8, pd.NA])
    many = pd.DataFrame({"instance": range(9), "last": [*"abcdefghi"], "last_start_ps": pd.array([6] * 9, "Int64")})
    for order in (many, many[::-1].reset_index(drop=True)):
        found = [last_arriver(spots((0, 5, 9, 0, -1)), order, np.array([number]))["last"][0] for number in range(9)]
        assert found == [*"abcdefghi"]
    for unknown in (last_arriver(at, table, np.array([-1, 3])), last_arriver(at, table[:0], np.array([2, 4]))):
        assert (list(unknown["last"]), unknown["wait_ps"].tolist()) == ([None] * 3, [pd.NA] * 3)
