"""The memory in use on each device: its steps, its peak, for whom, what ran then, and what was left."""

import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import frames
from tracekit import memory
from tracekit.analysis.memory import steps_of_devices
from tracekit.columns import frame
from tracekit.trace import DEVICE_COLUMNS, MEMORY_COLUMNS, SPAN_COLUMNS, Trace

GIB = 1 << 30


def events(*rows, stated=True, **columns):
    """Allocation events of (device, allocator, time, signed bytes, in use after it[, address[, label]])."""
    full = [(*row, *(None, None)[len(row) - 5 :]) for row in rows]
    data = {
        "host": ["h"] * len(full),
        "device": [row[0] for row in full],
        "allocator": [row[1] for row in full],
        "time_ps": [row[2] for row in full],
        "delta_bytes": [row[3] for row in full],
        "in_use_bytes": [row[4] if stated else None for row in full],
        "address": [row[5] for row in full],
        "label": [row[6] for row in full],
        "frees": [row[3] < 0 for row in full],
        **{name: [value] * len(full) for name, value in columns.items()},
    }
    return frame(MEMORY_COLUMNS, data)


def trace(table, rows=None, **more):
    rows = frames.events(("gpu:0", "compute", 0, 100, "fusion.1")) if rows is None else rows
    return Trace(events=rows, memory=table, **more)


def first(result):
    row = result.by_device.iloc[0]
    return {name: None if pd.isna(value) else value for name, value in row.items()}


def test_the_peak_says_how_much_for_whom_what_ran_then_and_what_was_left():
    table = events(
        ("gpu:0", "bfc", 10, 300, 1_300, 1, "dot"),
        ("gpu:0", "bfc", 20, 500, 1_800, 2, "add"),
        ("gpu:0", "bfc", 30, -300, 1_500, 1),
        ("gpu:0", "bfc", 40, 100, 1_600, 3, "dot"),
        limit_bytes=2_000,
        peak_bytes=1_900,
        stack_bytes=400,
    )
    phase = {"host": ["h"], "thread": ["t"], "name": ["both"], "start_ps": [15], "end_ps": [25], "tracekit": ["phase"]}
    result = memory(trace(table, spans=frame(SPAN_COLUMNS, phase)))
    assert first(result) == {
        "device": "gpu:0",
        "events": 4,
        "allocators": "bfc",
        "peak_bytes": 1_800,
        "peak_ps": 20,
        "at_least": False,
        "stack_bytes": 400,
        "before_bytes": 600,
        "reserved_bytes": None,
        "lifetime_peak_bytes": 1_900,
        "limit_bytes": 2_000,
        "limit_of": "allocator",
        "headroom_bytes": 200,
        "headroom_ratio": 0.1,
        "reason": None,
        "running": "fusion.1",
        "running_reason": None,
        "step": None,
        "phase": "both",
    }
    assert result.usage.values.tolist() == [
        *(["gpu:0", at, in_use] for at, in_use in [(0, 1_000), (10, 1_300), (20, 1_800), (30, 1_500), (40, 1_600)])
    ]
    assert result.at_peak.values.tolist() == [["gpu:0", "add", 1, 500], ["gpu:0", "dot", 1, 300]]


def test_the_memory_of_the_device_is_the_limit_where_its_allocators_state_none():
    devices = frame(DEVICE_COLUMNS, {"host": ["h"], "device": ["gpu:0"], "memory_bytes": [GIB]})
    row = first(memory(trace(events(("gpu:0", "a", 1, 5, 5), ("gpu:0", "b", 2, 7, 7)), devices=devices)))
    assert (row["peak_bytes"], row["limit_bytes"], row["limit_of"]) == (12, GIB, "device")
    assert (row["headroom_bytes"], row["reason"]) == (GIB - 12, None)


def test_of_several_allocators_none_states_the_limit_or_the_peak_of_the_device():
    one, two = ([("gpu:0", name, at, 5, 5) for at, name in enumerate(names, 1)] for names in ("a", "ab"))
    row = first(memory(trace(events(*one, limit_bytes=50, peak_bytes=9))))
    assert (row["limit_bytes"], row["limit_of"], row["lifetime_peak_bytes"]) == (50, "allocator", 9)
    row = first(memory(trace(events(*two, limit_bytes=50, peak_bytes=9))))
    assert (row["limit_bytes"], row["limit_of"], row["lifetime_peak_bytes"]) == (None, None, None)


def test_without_any_limit_there_is_no_headroom_but_a_reason():
    row = first(memory(trace(events(("gpu:0", "a", 1, 5, 5)))))
    assert (row["limit_bytes"], row["limit_of"], row["headroom_bytes"]) == (None, None, None)
    assert row["reason"] == "neither the allocator nor the trace states how much memory the device has"


def test_more_in_use_than_the_limit_gives_no_headroom():
    row = first(memory(trace(events(("gpu:0", "a", 1, 5, 5), limit_bytes=4))))
    assert (row["headroom_bytes"], row["reason"]) == (None, "more is in use than the stated limit")


def test_sizes_alone_add_up_without_releases_of_what_the_trace_does_not_allocate():
    table = events(
        ("gpu:0", "device", 10, -70, None, 9),
        ("gpu:0", "device", 20, 50, None, 1),
        ("gpu:0", "device", 30, 60, None, 2),
        ("gpu:0", "device", 40, -50, None, 1),
        stated=False,
    )
    result = memory(trace(table))
    row = first(result)
    assert (row["peak_bytes"], row["peak_ps"], row["at_least"], row["before_bytes"]) == (110, 30, True, None)
    assert result.usage["in_use_bytes"].tolist() == [0, 0, 50, 110, 60]


@pytest.mark.parametrize(
    ("rows", "running", "reason"),
    [
        (frames.events(("gpu:0", "compute", 40, 60, "dot")), None, "it was idle; dot began 30 ps later"),
        (frames.events(("gpu:0", "compute", 0, 5, "dot")), None, "it was idle, with no work to come"),
        (frames.events(("gpu:1", "compute", 0, 50, "dot")), None, "the trace holds no work of it"),
        (
            frames.events(*(("gpu:0", kind, 0, 50, kind) for kind in ("memcpy", "compute"))),
            "compute; memcpy",
            None,
        ),
    ],
)
def test_what_ran_at_the_peak_is_named_or_why_nothing_is(rows, running, reason):
    row = first(memory(trace(events(("gpu:0", "a", 10, 5, 5)), rows)))
    assert (row["running"], row["running_reason"]) == (running, reason)


def test_inside_windows_only_the_peak_there_counts():
    table = events(("gpu:0", "a", 10, 50, 50, 1), ("gpu:0", "a", 20, -40, 10, 1), ("gpu:0", "a", 50, 20, 30, 2))
    whole, inside, later = (memory(trace(table), window) for window in (None, (15, 18), (30, 60)))
    assert [(row["peak_ps"], row["peak_bytes"]) for row in map(first, (whole, inside, later))] == [
        (10, 50),
        (15, 50),
        (50, 30),
    ]


@pytest.mark.parametrize(
    ("table", "device", "lacking"),
    [
        (events(), "gpu:0", "The trace holds no allocation events, so the memory in use is not known."),
        (
            events(),
            "cpu:0",
            "The trace holds no allocation events, so the memory in use is not known: of CPU devices profilers record "
            "none.",
        ),
        (events((None, "host", 1, 5, 5)), "gpu:0", "All allocation events of the trace are of the host's memory."),
    ],
)
def test_a_trace_without_events_of_devices_says_why_there_is_nothing(table, device, lacking):
    result = memory(trace(table, frames.events((device, "compute", 0, 10))))
    assert (result.lacking, len(result.by_device), len(result.usage)) == (lacking, 0, 0)


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.sampled_from(["gpu:0", "gpu:1"]), st.sampled_from("ab"), st.integers(0, 5), st.integers(1, 9)),
        max_size=12,
    ),
    st.booleans(),
)
def test_steps_and_live_allocations_are_those_of_a_replay_event_by_event(made, stated):
    """Of two allocators a device, each address is allocated, then released, in turns; some start with a release."""
    live, in_use, peaks, table = {}, {"gpu:0": 0, "gpu:1": 0}, {}, []
    of_allocator = dict.fromkeys([(device, name) for device in in_use for name in "ab"], 0)
    for at, (device, name, address, size) in enumerate(made):
        key = (device, name, address)
        known = live.pop(key, None)
        change = -known if known else size
        if not known:
            live[key] = size
        in_use[device] += change
        of_allocator[device, name] += change
        table.append((device, name, at + 1, change, of_allocator[device, name], address))
        if in_use[device] > peaks.get(device, (0,))[0]:
            peaks[device] = (in_use[device], at + 1, sum(size for key, size in live.items() if key[0] == device))
    result = memory(trace(events(*table, stated=stated)))
    ours = {
        row.device: (
            row.peak_bytes,
            row.peak_ps,
            result.at_peak.query("device == @row.device")["allocated_bytes"].sum(),
        )
        for row in result.by_device.itertuples()
    }
    assert ours == peaks
    for device, usage in result.usage.groupby("device"):
        steps = [row for row in table if row[0] == device]
        assert usage["time_ps"].tolist() == [0, *(row[2] for row in steps)]
        assert usage["in_use_bytes"].tolist() == [0, *np.cumsum([row[3] for row in steps])]


def test_thousands_of_devices_take_a_moment_whether_they_worked_or_not():
    names = [f"gpu:{number}" for number in range(4000)]
    table = events(*((name, "bfc", number, 5, 5 + number, number, "dot") for number, name in enumerate(names)))
    rows = frames.events(*((name, "compute", 0, 4000, name) for name in names[::2]))
    start_s = time.process_time()
    result = memory(trace(table, rows))
    assert time.process_time() - start_s < 4
    assert result.by_device["device"].tolist() == names
    assert result.by_device["peak_bytes"].tolist() == [5 + number for number in range(4000)]
    assert result.by_device["running"].tolist()[::2] == names[::2]
    assert (result.by_device["running_reason"][1::2] == "the trace holds no work of it").all()
    steps = steps_of_devices(result)
    assert [*steps] == names
    assert [each.tolist() for each in steps["gpu:9"]] == [[0, 9], [9, 14]]
