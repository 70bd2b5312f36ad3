"""The frame contract is checked when a Trace is made."""

import numpy as np
import pandas as pd
import pytest

from tests.frames import events, spans
from tracekit.errors import TraceError
from tracekit.trace import DEVICE_COLUMNS, EVENT_COLUMNS, KIND_DTYPE, Trace, concat, constant, frame, labelled, records

GOOD = events(("gpu:0", "compute", 0, 5), ("gpu:0", "memcpy", 5, 9, "copy", "H2D"))


def test_a_frame_has_all_columns_in_order_and_nulls_where_nothing_is_given():
    assert list(GOOD.columns) == list(EVENT_COLUMNS)
    assert GOOD["bytes"].isna().all()
    assert Trace(events=GOOD, spans=spans()).notes == ()


@pytest.mark.parametrize(
    ("bad", "said"),
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
def test_a_frame_that_breaks_the_contract_is_refused(bad, said):
    with pytest.raises(TraceError, match=said):
        Trace(events=bad)


def test_kinds_have_one_order_however_they_come():
    backwards = labelled(["memcpy", "compute"], np.array([1, 0]))
    made = frame(EVENT_COLUMNS, {name: GOOD[name] for name in EVENT_COLUMNS} | {"kind": backwards})
    assert made["kind"].tolist() == ["compute", "memcpy"]
    assert made["kind"].cat.codes.tolist() == [0, 2]


def test_concat_unites_categories_and_keeps_the_order_of_rows():
    both = concat(EVENT_COLUMNS, [GOOD, events(("tpu:1", "collective", 1, 2)), frame(EVENT_COLUMNS)])
    assert both["device"].tolist() == ["gpu:0", "gpu:0", "tpu:1"]
    assert both["direction"].astype(object).where(both["direction"].notna(), None).tolist() == [None, "H2D", None]
    Trace(events=both)


def test_small_frames_become_dicts():
    row = frame(DEVICE_COLUMNS, {"host": constant("h", 1), "device": ["gpu:0"]})
    assert records(row[["host", "device"]]) == [{"host": "h", "device": "gpu:0"}]
