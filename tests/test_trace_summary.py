"""What a trace shows of itself agrees with what the analyses say, for all shapes of traces."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import traces
from tests.frames import events, trace
from tests.notebook_html import words
from tracekit import trace_summary
from tracekit.columns import concat
from tracekit.report.trace_contents import contents
from tracekit.trace import EVENT_COLUMNS, Trace

KINDS = ("compute", "collective", "memcpy", "memset")
rows = st.tuples(
    st.sampled_from(["gpu:0", "gpu:2", "gpu:10", "cpu:?"]),
    st.sampled_from(KINDS),
    st.integers(0, 40),
    st.integers(0, 20),
)


def told(one: Trace) -> list[tuple]:
    found = trace_summary.devices(one.events)
    columns = found[["device", *KINDS, "busy_ps", "window_ps"]]
    return [tuple(row) for row in columns.itertuples(index=False)]


@settings(max_examples=25, deadline=None)
@given(st.lists(rows, max_size=20))
def test_a_device_is_busy_where_any_of_its_rows_is_inside_the_window_of_its_clock(given):
    frame = events(*[(device, kind, start, start + length) for device, kind, start, length in given])
    frame["clock"] = pd.Categorical([device[:3] for device, *_ in given])  # the GPUs are on one, the CPU on another
    found = []
    for device in [one for one in ("gpu:0", "gpu:2", "gpu:10", "cpu:?") if one in frame["device"].to_list()]:
        mine = [row for row in given if row[0] == device]
        near = [row for row in given if row[0][:3] == device[:3]]
        held = {at for _, _, start, length in mine for at in range(start, start + length)}
        window = max(row[2] + row[3] for row in near) - min(row[2] for row in near)
        found.append((device, *(sum(row[1] == kind for row in mine) for kind in KINDS), len(held), window))
    assert told(trace(frame)) == found


@pytest.mark.parametrize(
    "case", traces.cases("generated/kineto", "generated/rocm.xplane.pb", "chrome/jax-tpu-2chip-vllm", "nsys")
)
def test_the_devices_of_a_trace_are_those_that_the_report_counts(case):
    one = traces.trace(case)
    found = [device for device in contents(one).devices if any(device.rows.values())]
    expected = [(one.device, *(one.rows[kind] for kind in KINDS), one.busy_ps, one.window_ps) for one in found]
    assert told(one) == expected != []


TWO = events(("gpu:0", "compute", 0, 500), ("gpu:1", "memcpy", 250, 1_000, "copy", "H2D"))


def test_a_trace_is_told_in_a_line_and_in_a_table():
    one = replace(trace(TWO, notes=("A note.",)), source="traces/demo")
    assert repr(one) == "<Trace demo: 2 devices, 2 events, 1.00 ns, xplane>"
    assert words(one._repr_html_()) == [
        "Trace", ": traces/demo, xplane, 1.00 ns from the first to the last device event",
        "device", *KINDS, "busy",
        "gpu:0", "1", "0", "0", "0", "50.0 %",
        "gpu:1", "0", "0", "1", "0", "75.0 %",
        "Rows of its frames: events 2.", "Note: A note.",
    ]  # fmt: skip


def test_clocks_that_are_not_aligned_are_told_and_never_put_on_one_axis():
    parts = [
        events((f"{host}/gpu:0", "compute", at, at + 500), host=host, clock=host)
        for host, at in (("a", 0), ("b", 10**15))
    ]
    one = trace(concat(EVENT_COLUMNS, parts))
    assert repr(one) == "<Trace test: 2 devices, 2 events, several clocks, xplane>"
    shown = words(one._repr_html_())
    assert "2 clocks that are not aligned, 500 ps to 500 ps on each" in shown[1]
    assert [shown[at] for at in (8, 13, 14, 19)] == ["a/gpu:0", "100 %", "b/gpu:0", "100 %"]


def test_of_many_devices_the_first_are_shown_in_natural_order_and_the_rest_places_by_count():
    one = trace(events(*[(f"gpu:{at}", "compute", 0, 5) for at in range(20)]))
    shown = words(one._repr_html_())
    assert [cell for cell in shown if cell.startswith("gpu:")] == [f"gpu:{at}" for at in range(16)]
    assert "And 4 more devices." in shown


def test_what_the_trace_does_not_place_is_no_device_and_a_window_without_length_has_no_share():
    one = trace(events(("cpu:0", "compute", 5, 5), ("cpu:?", "memcpy", 5, 5, "copy", "P2P")))
    assert repr(one) == "<Trace test: 1 device, 2 events, 0 ps, xplane>"
    shown = words(one._repr_html_())
    assert [shown[8:14], shown[14:20]] == [["cpu:0", "1", "0", "0", "0", "-"], ["cpu:?", "0", "0", "1", "0", "-"]]


def test_the_frame_is_left_as_it_was():
    before = TWO.copy()
    trace(TWO)._repr_html_()
    pd.testing.assert_frame_equal(TWO, before)
    assert np.array_equal(trace_summary.devices(TWO)["busy_ps"], [500, 750])
