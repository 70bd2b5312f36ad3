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


def summary_of(any_trace: Trace) -> list[tuple]:
    devices = trace_summary.devices(any_trace.events)
    columns = devices[["device", *KINDS, "busy_ps", "window_ps"]]
    return [tuple(row) for row in columns.itertuples(index=False)]


@settings(max_examples=25)
@given(st.lists(rows, max_size=20))
def test_a_device_is_busy_where_any_of_its_rows_is_inside_the_window_of_its_clock(device_rows):
    frame = events(*[(device, kind, start, start + length) for device, kind, start, length in device_rows])
    # The GPUs are on one, the CPU on another.
    frame["clock"] = pd.Categorical([device[:3] for device, *_ in device_rows])
    expected = []
    for device in [device for device in ("gpu:0", "gpu:2", "gpu:10", "cpu:?") if device in frame["device"].to_list()]:
        mine = [row for row in device_rows if row[0] == device]
        near = [row for row in device_rows if row[0][:3] == device[:3]]
        points = {at for _, _, start, length in mine for at in range(start, start + length)}
        window = max(row[2] + row[3] for row in near) - min(row[2] for row in near)
        expected.append((device, *(sum(row[1] == kind for row in mine) for kind in KINDS), len(points), window))
    assert summary_of(trace(frame)) == expected


@pytest.mark.parametrize(
    "case", traces.cases("generated/kineto", "generated/rocm.xplane.pb", "chrome/jax-tpu-2chip-vllm", "nsys")
)
def test_the_devices_of_a_trace_are_those_that_the_report_counts(case):
    case_trace = traces.trace(case)
    devices = [device for device in contents(case_trace).devices if any(device.rows.values())]
    expected = [(row.device, *(row.rows[kind] for kind in KINDS), row.busy_ps, row.window_ps) for row in devices]
    assert summary_of(case_trace) == expected != []


TWO = events(("gpu:0", "compute", 0, 500), ("gpu:1", "memcpy", 250, 1_000, "copy", "H2D"))


def test_a_trace_is_told_in_a_line_and_in_a_table():
    demo = replace(trace(TWO, notes=("A note.",)), source="traces/demo")
    assert repr(demo) == "<Trace demo: 2 devices, 2 events, 1.00 ns, xplane>"
    assert words(demo._repr_html_()) == [
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
    two_clocks = trace(concat(EVENT_COLUMNS, parts))
    assert repr(two_clocks) == "<Trace test: 2 devices, 2 events, several clocks, xplane>"
    output = words(two_clocks._repr_html_())
    assert "2 clocks that are not aligned, 500 ps to 500 ps on each" in output[1]
    assert [output[at] for at in (8, 13, 14, 19)] == ["a/gpu:0", "100 %", "b/gpu:0", "100 %"]


def test_of_many_devices_the_first_are_shown_in_natural_order_and_the_rest_counted():
    many_devices = trace(events(*[(f"gpu:{at}", "compute", 0, 5) for at in range(20)]))
    output = words(many_devices._repr_html_())
    assert [cell for cell in output if cell.startswith("gpu:")] == [f"gpu:{at}" for at in range(16)]
    assert "And 4 more devices." in output


def test_what_the_trace_does_not_place_is_no_device_and_a_window_without_length_has_no_share():
    unplaced = trace(events(("cpu:0", "compute", 5, 5), ("cpu:?", "memcpy", 5, 5, "copy", "P2P")))
    assert repr(unplaced) == "<Trace test: 1 device, 2 events, 0 ps, xplane>"
    output = words(unplaced._repr_html_())
    assert [output[8:14], output[14:20]] == [["cpu:0", "1", "0", "0", "0", "-"], ["cpu:?", "0", "0", "1", "0", "-"]]


def test_the_frame_is_left_as_it_was():
    before = TWO.copy()
    trace(TWO)._repr_html_()
    pd.testing.assert_frame_equal(TWO, before)
    assert np.array_equal(trace_summary.devices(TWO)["busy_ps"], [500, 750])
