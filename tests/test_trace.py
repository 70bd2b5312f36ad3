"""The frame contract is checked when a Trace is made."""

import pandas as pd
import pytest

from tests.frames import events, spans
from tracekit.errors import TraceError
from tracekit.trace import EVENT_COLUMNS, KIND_DTYPE, Trace

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
