"""The frame contract is checked when a Trace is made."""

import dataclasses

import pandas as pd
import pytest

from tests.frames import events, spans
from tracekit.columns import frame
from tracekit.errors import TraceError
from tracekit.trace import EVENT_COLUMNS, KIND_DTYPE, OP_COLUMNS, Trace

GOOD = events(("gpu:0", "compute", 0, 5), ("gpu:0", "memcpy", 5, 9, "copy", "H2D"))


def test_a_frame_has_all_columns_in_order_and_nulls_where_nothing_is_given():
    assert list(GOOD.columns) == list(EVENT_COLUMNS)
    assert GOOD["bytes"].isna().all()
    assert Trace(events=GOOD, spans=spans()).notes == ()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (GOOD.drop(columns="lane"), "has columns"),
        (GOOD.astype({"start_ps": "float64"}), "start_ps has dtype float64"),
        (GOOD.astype({"kind": "str"}), "kind has dtype"),
        (GOOD.assign(end_ps=[5, 4]), "row 1 ends before it starts"),
        (GOOD.assign(device=pd.Categorical(["gpu:0", None])), "device holds nulls"),
        (GOOD.assign(direction=GOOD["direction"].iloc[::-1].array), "is no memcpy"),
        (GOOD.assign(kind=GOOD["kind"].cat.reorder_categories(list(KIND_DTYPE.categories[::-1]))), "kind has dtype"),
    ],
)
def test_a_frame_that_breaks_the_contract_is_refused(bad, message):
    with pytest.raises(TraceError, match=message):
        Trace(events=bad)
    with pytest.raises(TraceError, match=message):
        Trace(events=GOOD).changed(events=bad)


def test_a_changed_trace_is_what_replace_gives():
    trace = Trace(events=GOOD, spans=spans(), notes=("before",))
    changed = trace.changed(events=GOOD.iloc[:1], notes=("after",))
    assert trace.notes == ("before",)
    expected = dataclasses.replace(trace, events=GOOD.iloc[:1], notes=("after",))
    for name, part in vars(expected).items():
        assert part.equals(getattr(changed, name)) if isinstance(part, pd.DataFrame) else part == getattr(changed, name)


def test_a_change_that_leaves_rows_without_their_operation_is_refused():
    ops = frame(OP_COLUMNS, {"program": ["jit_f"], "hlo_op": ["dot"]})
    trace = Trace(events=GOOD.assign(op=pd.array([0, None], "Int64")), ops=ops)
    with pytest.raises(TraceError, match=r"events\.op names operations"):
        trace.changed(ops=ops.iloc[:0])
    with pytest.raises(TypeError, match="no part called"):
        trace.changed(ops=ops, event=GOOD)
