"""A trace as Perfetto's format, read back with Perfetto's own protos: as many slices as rows, and the same ones."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import traces
from tests.collective_frames import row as collective
from tests.collective_frames import table
from tests.export.frames_of import launches, rows, spans
from tests.export.perfetto_reader import PerfettoFile, Slice, decode
from tracekit.columns import frame
from tracekit.export import perfetto
from tracekit.export.packets import AT_ONCE
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import DEVICE_COLUMNS, EVENT_COLUMNS, HOST_COLUMNS, MEMORY_COLUMNS, OP_COLUMNS, SYNC_COLUMNS, Trace

NAMES = ["", "=1+1", "\x00\x1b[31m", "a\ud800", "</script><img onerror=x>", "日本", "k" * 1_000_000]


def read_back(trace: Trace, clock: str = "") -> PerfettoFile:
    return decode(b"".join(perfetto.blocks(timeline_of(trace), clock)))


def same_rows(trace: Trace, file: PerfettoFile) -> None:
    """Every row is one slice, with its device, lane, name, kind and exact times; and there is no other."""
    events = trace.events
    model_of = dict(zip(trace.devices["device"].astype(object), trace.devices["model"].astype(object), strict=True))
    assert sorted(file.rows) == list(range(1, len(events) + 1))
    texts = events[["device", "lane", "name", "kind"]].astype(object).to_numpy()
    times = events[["start_ps", "end_ps"]].to_numpy().tolist()
    for place, ((device, lane, name, kind), (start, end)) in enumerate(zip(texts, times, strict=True), 1):
        row = file.rows[place]
        escaped = tuple(map(_escape, (device, lane, name)))
        assert (row.track, row.name, file.kinds[place]) == (*escaped[1:], kind)
        assert file.devices[place] in (escaped[0], f"{escaped[0]} {model_of.get(device)}")
        assert row.times_ps == (start, end)
        assert (row.args["row"], row.args["kind"]) == (place - 1, kind)


def same_calls(trace: Trace, file: PerfettoFile) -> None:
    """Every span is one slice; so is every launch and every wait of a thread, unless one of the others is the same."""
    expected: Counter = Counter()
    for each in (trace.spans, trace.launches, trace.syncs[trace.syncs["thread"].notna()]):
        counts: Counter = Counter()
        for call in each.astype({"host": object, "thread": object, "name": object}).itertuples():
            counts[(*map(_escape, (call.host, call.thread, call.name)), call.start_ps, call.end_ps)] += 1
        expected |= counts  # the larger count of each
    actual = Counter((*_thread(call.track), call.name, *call.times_ps) for call in file.calls)
    assert actual == expected


def _escape(text: str) -> str:
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def _thread(track: str) -> tuple[str, str]:
    host, _, thread = track.partition(": ")
    return host, thread.rpartition(" (")[0] if thread.endswith(")") and thread[-2].isdigit() else thread


def test_a_row_is_a_slice_with_all_that_is_known_of_it():
    events = rows(
        {"start_ps": 1_000, "end_ps": 3_000, "name": "fusion.1", "hlo_op": "fusion.1", "hlo_module": "jit_f"}
        | {"category": "fusion", "correlation_id": -5, "run_id": 2**63 - 1},
        {"start_ps": 2_000, "end_ps": 5_000, "kind": "memcpy", "direction": "H2D", "bytes": 2**40, "lane": "t"}
        | {"wait_ps": 7, "correlation_id": 2**31, "group": "0,1"},
    )
    file = read_back(Trace(events))
    assert file.rows == {
        1: Slice(
            "s",
            "fusion.1",
            1,
            3,
            {"kind": "compute", "category": "fusion", "hlo_op": "fusion.1", "hlo_module": "jit_f", "row": 0}
            | {"correlation_id": -5, "run_id": 2**63 - 1},
            ("compute",),
        ),
        2: Slice(
            "t",
            "k",
            2,
            5,
            {"kind": "memcpy", "direction": "H2D", "group": "0,1", "bytes": 2**40, "wait_ps": 7, "row": 1}
            | {"correlation_id": 2**31},
            ("memcpy",),
        ),
    }
    assert file.kinds == {1: "compute", 2: "memcpy"}


def test_rows_of_one_lane_that_overlap_or_are_empty_all_survive():
    times = [(0, 9_000), (1_000, 9_000), (1_000, 1_000), (1_000, 1_000), (8_000, 20_000), (9_000, 9_000)]
    trace = Trace(rows(*({"start_ps": start, "end_ps": end} for start, end in times)))
    file = read_back(trace)
    same_rows(trace, file)
    assert [file.rows[place].times_ps for place in range(1, 7)] == times


def test_names_that_do_harm_are_only_names():
    events = rows(*({"start_ps": 0, "end_ps": 1, "name": n, "lane": n, "device": f"gpu:{n}"} for n in NAMES))
    calls = spans(*({"start_ps": 0, "end_ps": 1000, "name": name} for name in NAMES))
    trace = Trace(events, calls)
    back = read_back(trace)
    same_rows(trace, back)
    same_calls(trace, back)


def test_nanoseconds_are_rounded_down_so_that_nothing_new_overlaps_and_picoseconds_stand_beside():
    trace = Trace(
        rows(*({"start_ps": a, "end_ps": b} for a, b in [(1, 1_999), (1_999, 2_001), (3_000, 4_000)])),
        spans({"start_ps": 10, "end_ps": 3_999}, {"start_ps": 3_999, "end_ps": 5_000}),
    )
    file = read_back(trace)
    assert [(row.start_ns, row.end_ns) for row in file.rows.values()] == [(0, 1), (1, 2), (3, 4)]
    assert [("start_ps" in row.args, "end_ps" in row.args) for row in file.rows.values()] == [
        (True, True),
        (True, True),
        (False, False),
    ]
    same_rows(trace, file)
    same_calls(trace, file)


def test_times_before_zero_move_the_axis_and_stay_exact():
    trace = Trace(
        rows({"start_ps": -1_500, "end_ps": 0}, {"start_ps": -2_000, "end_ps": 1_000}),
        spans({"start_ps": -3_001, "end_ps": 9_000}, {"start_ps": -2_000, "end_ps": 1_000}),
    )
    file = read_back(trace)
    assert [(file.rows[place].start_ns, file.rows[place].end_ns) for place in (1, 2)] == [(2, 4), (2, 5)]
    same_rows(trace, file)
    same_calls(trace, file)


def test_devices_stand_at_the_root_in_natural_order_by_their_own_names_and_models():
    events = rows(
        {"start_ps": 0, "end_ps": 1, "host": "b", "device": "b/tpu:10"},
        {"start_ps": 0, "end_ps": 1, "host": "b", "device": "b/tpu:2"},
        {"start_ps": 0, "end_ps": 1, "host": "a", "device": "a/cpu:0"},
    )
    devices = frame(DEVICE_COLUMNS, {"host": ["b"], "device": ["b/tpu:2"], "model": ["TPU7x"]})
    file = read_back(Trace(events, devices=devices))
    assert file.roots == ["devices busy", "a/cpu:0", "b/tpu:2 TPU7x", "b/tpu:10"]
    assert file.processes == {1: "a", 2: "b"}


def test_the_track_of_a_device_shows_what_kinds_ran_at_once():
    events = rows(
        {"start_ps": 0, "end_ps": 5_000},
        {"start_ps": 3_000, "end_ps": 9_000, "kind": "collective", "lane": "t"},
        {"start_ps": 12_000, "end_ps": 13_000, "kind": "memset"},
    )
    cells = [(cell.track, cell.name, cell.start_ns, cell.end_ns) for cell in read_back(Trace(events)).cells]
    assert cells == [
        ("gpu:0", "compute", 0, 3),
        ("gpu:0", "compute + collective", 3, 5),
        ("gpu:0", "collective", 5, 9),
        ("gpu:0", "memory", 12, 13),
    ]


def test_a_row_says_which_operation_of_the_framework_it_is():
    ops = frame(OP_COLUMNS, {"program": ["jit_f"], "hlo_op": ["dot.1"], "framework_op": ["aten::mm"], "flops": [8]})
    (row,) = read_back(Trace(rows({"start_ps": 0, "end_ps": 1, "op": 0}), ops=ops)).rows.values()
    assert [row.args[key] for key in ("framework_op", "program", "flops")] == ["aten::mm", "jit_f", 8]


def test_a_wait_of_a_thread_is_a_slice_that_says_what_it_waited_for():
    wait = {"host": "h", "thread": "t", "name": "cudaStreamSynchronize", "start_ps": 2_000, "end_ps": 9_000}
    sync = wait | {"on_device": "gpu:0", "on_lane": "s"}
    waits = frame(SYNC_COLUMNS, {key: [value] for key, value in sync.items()})
    events = rows({"start_ps": 3_000, "end_ps": 8_000, "correlation_id": 4})
    calls = launches({"name": "launch", "start_ps": 0, "end_ps": 1_000, "correlation_id": 4})
    for marks, categories in ((spans(), ("sync",)), (spans(wait), ("span", "sync"))):
        trace = Trace(events, marks, launches=calls, syncs=waits)
        file = read_back(trace)
        same_calls(trace, file)
        (sync,) = [call for call in file.calls if "sync" in call.categories]
        assert (sync.name, sync.categories, sync.args) == (wait["name"], categories, {"waits_for_row": 0})


def test_no_arrow_leads_back_in_time():
    events = rows({"start_ps": 3_000, "end_ps": 8_000, "correlation_id": 4})
    calls = launches({"name": "launch", "start_ps": 5_000, "end_ps": 6_000, "correlation_id": 4})
    assert [call.starts for call in read_back(Trace(events, launches=calls)).calls] == [()]


def test_slices_of_a_thread_that_do_not_nest_get_a_track_beside_it():
    trace = Trace(rows(), spans({"start_ps": 0, "end_ps": 5_000}, {"start_ps": 3_000, "end_ps": 8_000}))
    calls = read_back(trace).calls
    assert sorted((call.track, call.start_ns, call.end_ns) for call in calls) == [("h: t", 0, 5), ("h: t (2)", 3, 8)]


def test_threads_of_one_name_in_several_processes_are_several_threads():
    calls = [
        {"process": process, "start_ps": at, "end_ps": at + 5_000, "name": f"{process}"}
        for at, process in ((0, "1"), (3_000, "2"), (4_000, None))
    ]
    file = read_back(Trace(rows(), spans(*calls), launches=launches(*calls[:2])))
    assert sorted((call.track, call.name) for call in file.calls) == [("h: t", "1"), ("h: t", "2"), ("h: t", "None")]


def test_calls_that_begin_together_nest_the_longest_outside():
    file = read_back(
        Trace(
            rows(),
            spans(*({"start_ps": 0, "end_ps": end, "name": str(end)} for end in (1_000, 9_000, 4_000))),
            launches=launches({"start_ps": 0, "end_ps": 5_000, "name": "5000"}),
        )
    )
    assert {call.track for call in file.calls} == {"h: t"}
    assert [call.name for call in file.calls] == ["1000", "4000", "5000", "9000"]  # as they close


def test_phases_steps_and_launches_say_what_they_are():
    trace = Trace(
        rows(
            {"start_ps": 9_000, "end_ps": 10_000, "correlation_id": 4},
            {"start_ps": 6_000, "end_ps": 8_000, "correlation_id": 4, "device": "gpu:1"},
        ),
        spans(
            {"name": "train", "start_ps": 0, "end_ps": 9_000, "step": 7},
            {"name": "both", "start_ps": 0, "end_ps": 8_000, "tracekit": "phase", "alone": "a;b", "baseline": "c"},
            {"name": "launch", "start_ps": 1_000, "end_ps": 2_000},
        ),
        launches=launches(
            {"name": "launch", "start_ps": 1_000, "end_ps": 2_000, "correlation_id": 4},
            {"name": "launch", "start_ps": 1_000, "end_ps": 2_000, "correlation_id": -9},
        ),
    )
    file = read_back(trace)
    same_calls(trace, file)
    assert sorted((call.name, call.categories, sorted(call.args.items()), call.starts) for call in file.calls) == [
        ("both", ("span", "phase"), [("alone", "a;b"), ("baseline", "c")], ()),
        ("launch", ("launch",), [("correlation_id", -9)], ()),
        ("launch", ("span", "launch"), [("correlation_id", 4)], (1, 2)),
        ("train", ("span", "step"), [("step", 7)], ()),
    ]
    assert [(step.track, step.name, step.args["step"]) for step in file.added] == [("steps", "train 7", 7)]
    assert file.rows[1].args["step"] == 7


def test_a_collective_is_one_slice_of_its_own_track_and_its_rows_are_linked():
    events = table(
        collective("gpu:0", 3_000, 9_000, run_id=1, hlo_op="ar", hlo_module="m"),
        collective("gpu:1", 1_000, 9_000, run_id=1, hlo_op="ar", hlo_module="m"),
        collective("gpu:2", 2_000, 8_000, run_id=1, hlo_op="ar", hlo_module="m"),
    )
    file = read_back(Trace(events))
    assert [
        (instance.track, instance.name, instance.start_ns, instance.end_ns, instance.args) for instance in file.added
    ] == [("collectives", "all-reduce", 1, 9, {"instance": 0, "devices": 3})]
    assert file.after == {2: [], 3: [2], 1: [3]}
    assert {row.args["instance"] for row in file.rows.values()} == {0}


def test_collectives_that_nest_share_a_track_and_others_get_a_second_of_the_same_name():
    times = [(0, 2_000), (0, 9_000), (1_000, 12_000)]
    file = read_back(Trace(table(*(collective("gpu:0", start, end) for start, end in times))))
    assert sorted((instance.start_ns, instance.end_ns) for instance in file.added) == [(0, 2), (0, 9), (1, 12)]
    assert file.tracks.count("collectives") == 2


def test_counters_say_how_many_devices_are_busy_and_how_fast_bytes_move():
    copy = {"kind": "memcpy", "direction": "H2D"}
    events = rows(
        {"start_ps": 0, "end_ps": 4_000} | copy | {"bytes": 8},
        {"start_ps": 2_000, "end_ps": 6_000, "lane": "t"} | copy | {"bytes": 4},
        {"start_ps": 3_000, "end_ps": 5_000, "device": "gpu:1", "kind": "collective", "bytes": 3},
        {"start_ps": 5_000, "end_ps": 5_000} | copy | {"bytes": 4},
        {"start_ps": 0, "end_ps": 1_000, "kind": "memcpy"},
    )
    file = read_back(Trace(events))
    assert file.counters == {
        "devices busy": [(0, 1), (3, 2), (5, 1), (6, 0)],
        "gpu:0: H2D bandwidth": [(0, 2 * 10**9), (2, 3 * 10**9), (4, 10**9), (6, 0)],
        "gpu:1: collective bandwidth": [(3, 3 * 10**9 // 2), (5, 0)],
    }
    assert file.units == {
        "devices busy": "devices",
        "gpu:0: H2D bandwidth": "B/s",
        "gpu:1: collective bandwidth": "B/s",
    }


def test_a_counter_of_each_device_has_every_step_of_its_memory():
    allocations = [("gpu:0", 1_000, 5, 12), ("gpu:0", 3_000, -5, 7), ("gpu:1", 2_000, 4, 4), (None, 2_500, 9, 9)]
    columns = dict(
        zip(("device", "time_ps", "delta_bytes", "in_use_bytes"), zip(*allocations, strict=True), strict=True)
    )
    memory = frame(MEMORY_COLUMNS, {**columns, "host": ["h"] * 4, "frees": [False, True, False, False]})
    file = read_back(Trace(rows({"start_ps": 0, "end_ps": 9_000}), memory=memory))
    assert {name: steps for name, steps in file.counters.items() if "memory" in name} == {
        "gpu:0: memory in use": [(0, 7), (1, 12), (3, 7)],
        "devices busy: gpu:1 memory in use": [(0, 0), (2, 4)],
    }
    assert {unit for name, unit in file.units.items() if "memory" in name} == {"B"}
    assert file.descriptions["gpu:0: memory in use"] == (
        "Bytes that allocators had handed out, as they state it; peak 12 B (12 B), while k ran."
    )


def test_the_notes_and_the_source_are_in_the_file():
    trace = Trace(rows(), notes=("a note", "another"), source="x.pb", format="xplane")
    (title, args), *notes = read_back(trace).notes
    assert title.startswith("exported by tracekit ")
    assert args == {"source": "x.pb", "format": "xplane"}
    assert notes == [("a note", {}), ("another", {})]


def test_the_first_device_work_is_marked_as_time_0_of_the_report():
    trace = Trace(rows({"start_ps": 7_000, "end_ps": 9_000}), spans({"start_ps": -2_000, "end_ps": 9_000}))
    file = read_back(trace)
    (mark,) = [time for time, name in file.moments if name == "first device work: time 0 of tracekit's report"]
    assert mark == file.rows[1].start_ns == 9


def test_an_empty_trace_is_a_trace_without_slices():
    file = read_back(Trace(frame(EVENT_COLUMNS)))
    assert (file.rows, file.calls, file.added, file.counters, file.roots) == ({}, [], [], {}, ["devices busy"])


def test_clocks_that_cannot_be_compared_are_apart_and_places_stay_those_of_the_whole():
    copy = {"kind": "memcpy", "direction": "D2H", "bytes": 2}
    events = rows(
        {"start_ps": 0, "end_ps": 1_000, "host": "a", "device": "a/gpu:0", "clock": "a"} | copy,
        {"start_ps": 0, "end_ps": 2_000, "host": "b", "device": "b/gpu:0", "clock": "b"} | copy,
    )
    hosts = frame(HOST_COLUMNS, {"host": ["a", "b", "c"], "clock": ["a", "b", None]})
    calls = spans({"start_ps": 0, "end_ps": 1, "host": "b"}, {"start_ps": 0, "end_ps": 2, "host": "c"})
    trace = Trace(events, calls, hosts=hosts)
    assert timeline_of(trace).clocks == ["a", "b", "c"]
    a, b, c = (read_back(trace, clock) for clock in "abc")
    assert [(list(file.rows), [call.track for call in file.calls]) for file in (a, b, c)] == [
        ([1], []),
        ([2], ["b: t"]),
        ([], ["c: t"]),
    ]
    assert (b.roots, b.processes) == (["devices busy", "b/gpu:0"], {1: "b"})
    assert b.counters == {"devices busy": [(0, 1), (2, 0)], "b/gpu:0: D2H bandwidth": [(0, 10**9), (2, 0)]}
    assert (sorted(a.counters), c.counters) == (["a/gpu:0: D2H bandwidth", "devices busy"], {})


def test_the_same_trace_gives_the_same_bytes():
    trace = Trace(rows(*({"start_ps": n, "end_ps": 2 * n, "name": f"k{n % 7}"} for n in range(300))))
    assert b"".join(perfetto.blocks(timeline_of(trace))) == b"".join(perfetto.blocks(timeline_of(trace)))


TIME = st.integers(0, 8_000)
ROW = st.fixed_dictionaries(
    {
        "start_ps": TIME,
        "end_ps": st.integers(8_000, 12_000),
        "device": st.sampled_from(["gpu:0", "gpu:1", "cpu:?"]),
        "lane": st.sampled_from(["s", "t"]),
        "kind": st.sampled_from(["compute", "collective", "memcpy", "memset"]),
        "name": st.sampled_from(["k", "all-reduce", "日"]),
        "correlation_id": st.sampled_from([None, 1, -1]),
        "bytes": st.sampled_from([None, 0, 2**50]),
    }
)
CALL = st.fixed_dictionaries(
    {
        "start_ps": TIME,
        "end_ps": st.integers(8_000, 9_000),
        "name": st.sampled_from("fg"),
        "thread": st.sampled_from("tu"),
    }
)


@settings(max_examples=15)
@given(st.lists(ROW, max_size=12), st.lists(CALL, max_size=8), st.lists(CALL, max_size=4))
def test_any_trace_comes_back(device_rows, host_spans, calls):
    calls_with_id = [call | {"correlation_id": 1} for call in calls]
    trace = Trace(rows(*device_rows), spans(*host_spans), launches=launches(*calls_with_id))
    file = read_back(trace)
    same_rows(trace, file)
    same_calls(trace, file)


@pytest.mark.parametrize(
    "case",
    traces.cases(
        "generated/gpu.xplane.pb",
        "generated/tpu.xplane.pb",
        "xplane/xla-2xGTX1080Ti",
        "mxnet/cpu_gpu_data_copy_profiler_output.json.gz",
    ),
)
def test_a_whole_trace_comes_back(case):
    trace = traces.trace(case)
    file = read_back(trace)
    same_rows(trace, file)
    same_calls(trace, file)
    rows_launched = Counter(place for call in file.calls for place in call.starts)
    assert set(rows_launched.values()) <= {1}
    timeline = timeline_of(trace)
    began = np.append(trace.launches["start_ps"].to_numpy(), 0)[timeline.launch] // 1000
    shown = (timeline.launch >= 0) & (began <= timeline.rows.start // 1000)
    assert sorted(rows_launched) == sorted((timeline.rows.at[shown] + 1).tolist())
    assert len(file.added) == len(timeline.steps.table) + len(
        np.unique(timeline.collectives.instance[timeline.collectives.instance >= 0])
    )


def test_more_rows_than_are_written_at_once_come_back():
    n = 2 * AT_ONCE + 1
    start = np.arange(n) * 1_000
    events = rows({"start_ps": 0, "end_ps": 0}).iloc[np.zeros(n, int)].reset_index(drop=True)
    events = events.assign(start_ps=start, end_ps=start + 1_500, correlation_id=pd.array(np.arange(n), "Int64"))
    calls = launches({"start_ps": 0, "end_ps": 5, "correlation_id": n - 1})
    file = read_back(Trace(events, launches=calls))
    assert len(file.rows) == n
    assert all(file.rows[place].times_ps == (1_000 * (place - 1), 1_000 * (place - 1) + 1_500) for place in file.rows)
    assert [call.starts for call in file.calls] == [(n,)]
