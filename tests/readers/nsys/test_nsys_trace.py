"""Nsight Systems exports: kernels, copies, graphs and launches of every schema version, and a real export."""

import copy
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tracekit
from tests import traces
from tests.readers.nsys.exports import Tables, rows, tid
from tracekit.analysis.completeness import completeness
from tracekit.errors import TraceError
from tracekit.readers import nsys
from tracekit.readers.nsys import sqlite_export
from tracekit.report.sections.completeness import section
from tracekit.report.trace_contents import no_device_work
from tracekit.timeline.timeline import timeline_of


@pytest.fixture
def read(tmp_path):
    return lambda tables: nsys.read(tables.write(tmp_path / "report.sqlite"))


def test_kernels_copies_and_memsets_are_rows_in_picoseconds_from_the_earliest_event(read):
    tables = Tables().kernel("void gemm<float>(float*)", 1_000, 1_500, correlationId=4)
    tables.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 1_100, 1_400, streamId=20)
    tables.copy(1, 1_200, 1_300, bytes=4096, srcKind=0, dstKind=2, correlationId=5)
    tables.activity("MEMSET", 1_600, 1_601, value=0, bytes=9)
    tables.call("cudaLaunchKernel", 1_000, 1_001, 4).call("cudaMemcpyAsync", 1_001, 1_002, 5)
    columns = ("device", "lane", "kind", "name", "start_ps", "end_ps", "category", "direction", "bytes", "known_by")
    copy = "CUDA memcpy Host-to-Device (Pageable to Device)"
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"
    trace = read(tables)
    assert rows(trace.events, *columns[:-1]) == [
        ["gpu:0", "stream 13", "compute", "void gemm<float>(float*)", 0, 500_000, None, None, None],
        ["gpu:0", "stream 20", "collective", nccl, 100_000, 400_000, "all-reduce", None, None],
        ["gpu:0", "stream 13", "memcpy", copy, 200_000, 300_000, None, "H2D", 4096],
        ["gpu:0", "stream 13", "memset", "CUDA memset", 600_000, 601_000, None, None, None],
    ]
    assert trace.events["known_by"].tolist()[1:] == ["name", "stat", "stat"]
    assert trace.events["correlation_id"].tolist()[0::2] == [4, 5]
    assert (trace.format, trace.notes) == ("nsys", ())


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda tables: tables, "gemm"),
        (lambda tables: tables.without("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName"), "gemm"),
        (lambda tables: tables.without("CUPTI_ACTIVITY_KIND_KERNEL", "shortName", "contextId"), "gemm"),
        (lambda tables: tables.without("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid", "correlationId"), "gemm"),
        (lambda tables: tables.rename("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"), "gemm"),
        (lambda tables: tables.rename("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_KERNEL_V3"), "gemm"),
        (
            lambda tables: tables.without("CUPTI_ACTIVITY_KIND_KERNEL", "shortName", "demangledName"),
            "unnamed kernel",
        ),
    ],
)
def test_every_version_of_the_kernel_table_gives_the_same_row(read, change, name):
    events = read(change(Tables().kernel("gemm", 5, 9))).events
    assert rows(events, "device", "lane", "name", "start_ps", "end_ps") == [["gpu:0", "stream 13", name, 0, 4_000]]


def test_a_name_that_is_not_among_the_strings_falls_back_to_the_other_one(read):
    tables = Tables().kernel("gemm", 0, 1, demangledName=99).kernel("relu", 2, 3, shortName=99)
    tables.kernel("gone", 4, 5, demangledName=98, shortName=99)
    assert read(tables).events["name"].tolist() == ["gemm", "relu", "unnamed kernel"]


@pytest.mark.parametrize(
    ("kind", "source", "target", "direction"),
    [
        (0, None, None, None),
        (1, None, None, "H2D"),
        (2, None, None, "D2H"),
        (3, None, None, "H2D"),
        (4, None, None, "D2H"),
        (5, None, None, "D2D"),
        (6, None, None, "D2D"),
        (7, None, None, "D2D"),
        (8, None, None, "D2D"),
        (8, 1, 1, "D2D"),
        (8, 0, 1, "P2P"),
        (9, None, None, None),
        (10, None, None, "P2P"),
        (10, 0, 0, "P2P"),
        (11, None, None, "H2D"),
        (12, None, None, "D2H"),
        (13, None, None, "P2P"),
        (77, None, None, None),
    ],
)
def test_a_copys_direction_is_that_of_its_documented_kind_and_devices(read, kind, source, target, direction):
    tables = Tables().copy(kind, 0, 1, srcDeviceId=source, dstDeviceId=target)
    assert rows(read(tables).events, "kind", "direction") == [["memcpy", direction]]


def test_the_exports_own_table_of_copy_kinds_comes_before_the_documented_one(read):
    tables = Tables().copy(40, 0, 1)
    tables.add("ENUM_CUDA_MEMCPY_OPER", id=40, name="CUDA_MEMCPY_KIND_DTOH", label="Device-to-Host")
    assert rows(read(tables).events, "direction", "name") == [["D2H", "CUDA memcpy Device-to-Host"]]


def test_migrations_of_unified_memory_are_copies_on_a_lane_of_their_own(read):
    tables = Tables().copy(11, 0, 4, streamId=0, contextId=0, bytes=4096).copy(12, 6, 8, streamId=3, contextId=5)
    tables.kernel("k", 1, 2, streamId=0)
    assert rows(read(tables).events, "lane", "name", "direction", "correlation_id") == [
        ["stream 0", "k", None, None],
        ["unified memory", "CUDA memcpy Unified Host-to-Device", "H2D", None],
        ["unified memory", "CUDA memcpy Unified Device-to-Host", "D2H", None],
    ]


def test_waits_events_overhead_and_page_faults_are_never_rows(read):
    tables = Tables().kernel("k", 10, 20).activity("SYNCHRONIZATION", 0, 99, syncType=3, eventId=2**32 - 1)
    tables.activity("OVERHEAD", 0, 99).activity("CUDA_EVENT", 0, 99, eventId=1).add(
        "PROFILER_OVERHEAD", start=0, end=99, nameId=1
    )
    tables.add("CUDA_UM_GPU_PAGE_FAULT_EVENTS", start=0, end=99, deviceId=0)
    trace = read(tables)
    assert rows(trace.events, "name", "start_ps", "end_ps") == [["k", 0, 10_000]]
    assert trace.notes == ()


def test_tables_that_look_like_device_work_but_are_unknown_are_noted(read):
    trace = read(Tables().kernel("k", 0, 1).activity("TELEPORT", 0, 9))
    assert trace.notes == ("Skipped rows of unknown meaning: CUPTI_ACTIVITY_KIND_TELEPORT.",)


def test_whole_graphs_are_compute_known_by_nothing_with_a_note(read):
    tables = Tables().activity("GRAPH_TRACE", 0, 50, graphId=3).activity("GRAPH_TRACE", 60, 90, graphId=3)
    trace = read(tables)
    assert rows(trace.events, "name", "kind", "known_by", "end_ps") == [
        ["CUDA graph 3", "compute", "nothing", 50_000],
        ["CUDA graph 3", "compute", "nothing", 90_000],
    ]
    (note,) = trace.notes
    assert note.startswith("2 rows are whole CUDA graphs")
    assert "--cuda-graph-trace=node" in note


def test_a_graph_whose_kernels_are_rows_is_no_row_itself(read):
    tables = Tables().kernel("k", 5, 20, correlationId=8).kernel("k", 25, 30, process=9, correlationId=9)
    tables.activity("GRAPH_TRACE", 0, 40, graphId=1, correlationId=8)
    tables.activity("GRAPH_TRACE", 50, 60, graphId=2, correlationId=9)
    tables.kernel("unlaunched", 70, 71).activity("GRAPH_TRACE", 80, 90, graphId=3)
    assert read(tables).events["name"].tolist() == ["k", "k", "unlaunched", "CUDA graph 2", "CUDA graph 3"]


def test_launches_are_all_calls_and_have_the_ids_of_what_they_started(read):
    tables = Tables().kernel("k", 50, 60, correlationId=5).call("cudaLaunchKernel_v7000", 10, 20, 5)
    tables.call("cudaMalloc_v3020", 0, 5, 4).add("ThreadNames", nameId=tables.string("python3"), globalTid=tid(7, 1))
    trace = read(tables)
    assert rows(trace.launches, "thread", "name", "start_ps", "end_ps", "correlation_id") == [
        ["python3/1", "cudaLaunchKernel", 10_000, 20_000, 5],
        ["python3/1", "cudaMalloc", 0, 5_000, 4],
    ]
    assert rows(trace.events, "start_ps", "correlation_id") == [[50_000, 5]]


SECOND = 10**9


@pytest.mark.parametrize(
    ("session", "start", "is_lost"),
    [
        (10 * SECOND, 10 * SECOND + SECOND // 2, False),
        (10 * SECOND, 12 * SECOND, True),
        (10 * SECOND, -2 * SECOND, True),
        (None, 12 * SECOND, False),
        # Where more than a few are outside, the session is on another clock.
        (4 * SECOND, 12 * SECOND, False),
    ],
)
def test_what_is_outside_of_the_session_is_lost(read, session, start, is_lost):
    tables = Tables().kernel("k", 5 * SECOND, 5 * SECOND + 9).kernel("k", 6 * SECOND, 6 * SECOND + 9)
    tables.kernel("far", start, start + 9).add("ANALYSIS_DETAILS", globalVid=1, duration=session)
    trace = read(tables)
    assert ("far" not in trace.events["name"].tolist(), len(trace.losses)) == (is_lost, is_lost)
    if is_lost:
        assert rows(trace.losses, "what", "lost", "total") == [["events", 1, 3]]


@pytest.mark.parametrize(
    ("setting", "value", "is_lost"),
    [("SHIFT", "0", True), ("SHIFT", str(9 * SECOND), False), ("NORMALIZE", "true", False)],
)
def test_the_session_is_where_the_export_moved_the_times(read, setting, value, is_lost):
    tables = Tables().kernel("k", 12 * SECOND, 12 * SECOND + 9).kernel("k", 13 * SECOND, 13 * SECOND + 9)
    tables.kernel("far", 18 * SECOND, 18 * SECOND + 9).add("ANALYSIS_DETAILS", globalVid=1, duration=15 * SECOND)
    tables.add("META_DATA_EXPORT", name=f"EXPORT_PARAM_TIME_{setting}", value=value)
    assert len(read(tables).losses) == is_lost


def one_launch() -> Tables:
    """A kernel and the call that launched it, from 10 to 20, which did not fail."""
    return Tables().kernel("k", 50, 60, correlationId=1).call("cudaLaunchKernel_v7000", 10, 20, 1)


def captured(tables: Tables, process: int) -> Tables:
    """The same, with a stream of a process that captures from 30 to 40."""
    begin, end = ("cudaStreamBeginCapture_v10000", 30, 31, 8), ("cudaStreamEndCapture_v10000", 39, 40, 9)
    return tables.call(*begin, process=process).call(*end, process=process)


def graphs(tables: Tables) -> Tables:
    """The same, with the launch of a graph that has a row."""
    return tables.kernel("node", 70, 80, correlationId=7).call("cudaGraphLaunch", 60, 61, 7)


def copied(tables: Tables) -> Tables:
    """The same, with a copy that has a row."""
    return tables.copy(1, 70, 80, correlationId=2).call("cudaMemcpy", 21, 22, 2)


KERNEL = ("cudaLaunchKernel", 32, 33, 5)


@pytest.mark.parametrize(
    ("tables", "call", "is_kept"),
    [
        (one_launch(), KERNEL, True),
        (one_launch(), ("cuLaunchKernelEx", 32, 33, 5), True),
        (one_launch(), ("cudaLaunchHostFunc", 32, 33, 5), False),
        # Sorts of calls of which none has a row; of a table that is lost `count_lost_tables` tells.
        (one_launch(), ("cudaMemcpyAsync", 32, 33, 5), False),
        (one_launch(), ("cudaGraphLaunch", 32, 33, 5), False),
        (copied(one_launch()), ("cudaMemcpyAsync", 32, 33, 5), True),
        # The runtime's call around the driver's, and the driver's in the runtime's, where each has an id of its own.
        (one_launch(), ("cuLaunchKernel", 12, 15, 5), False),
        (one_launch(), ("cudaLaunchKernel", 9, 21, 5), False),
        (one_launch(), ("cuLaunchKernel", 12, 15, 5, 7, 2), True),
        (captured(one_launch(), 7), KERNEL, False),
        (captured(one_launch(), 7), ("cudaLaunchKernel", 42, 43, 5), True),
        (captured(one_launch(), 8), KERNEL, True),
        # What is launched into a graph may be seen to be so, or not.
        (graphs(one_launch()), KERNEL, False),
        (graphs(one_launch()), ("cudaGraphLaunch", 32, 33, 5), True),
        (graphs(one_launch()).call("cudaStreamIsCapturing", 5, 6, 6), KERNEL, True),
        # A row that does not tell its call may be that of this one; what the driver moved has none.
        (one_launch().kernel("k", 70, 80), KERNEL, False),
        (one_launch().copy(11, 70, 80), KERNEL, True),
    ],
)  # fmt: skip
def test_a_call_that_should_have_started_a_row_and_has_none_keeps_its_id(read, tables, call, is_kept):
    tables = copy.deepcopy(tables).call(*call)
    ids = read(tables).launches["correlation_id"].dropna().tolist()
    assert (5 in ids, 1 in ids) == (is_kept, True)


@pytest.mark.parametrize(("value", "is_kept"), [(0, True), (None, True), (700, False)])
def test_a_launch_that_failed_has_no_row_to_lose(read, value, is_kept):
    tables = one_launch().call(*KERNEL)
    for row, returned in zip(tables.rows["CUPTI_ACTIVITY_KIND_RUNTIME"], (0, value), strict=True):
        row["returnValue"] = returned
    assert (5 in read(tables).launches["correlation_id"].dropna().tolist()) == is_kept


@pytest.mark.parametrize(
    ("is_gone", "lost"),
    [
        (lambda process, number: number % 2 == 0, [(100, 200)]),
        (lambda process, number: process == 8, [(100, 200)]),
        (lambda process, number: 10 < number < 50 and process == 7, [(39, 200)]),
        # Whatever had not run yet when the profile ended, and less than a twentieth of all.
        (lambda process, number: number > 60, []),
        (lambda process, number: number < 4, []),
        (lambda process, number: False, []),
    ],
)
def test_kernels_whose_rows_are_gone_are_counted_as_lost(read, is_gone, lost):
    tables = Tables()
    for process in (7, 8):
        for number in range(100):
            at = 1000 * number
            tables.call("cudaLaunchKernel", at, at + 10, number + 1, process)
            if not is_gone(process, number):
                on = {"deviceId": process - 7, "correlationId": number + 1}
                tables.kernel("k", at + 100, at + 900, process, **on)
    losses = completeness(timeline_of(read(tables))).losses
    assert [(row.lost, row.total) for row in losses.itertuples() if row.what == "launched work"] == lost


def test_equal_correlation_ids_of_two_processes_do_not_join(read):
    tables = Tables().kernel("a", 50, 60, process=7, correlationId=5).call("launchA", 0, 1, 5, process=7)
    tables.kernel("b", 50, 60, process=8, deviceId=1, correlationId=5).call("launchB", 2, 3, 5, process=8)
    tables.call("other", 4, 5, 5, process=9)
    trace = read(tables)
    pairs = trace.events.merge(trace.launches, on="correlation_id")
    assert rows(pairs, "name_x", "name_y") == [["a", "launchA"], ["b", "launchB"]]
    assert trace.events["correlation_id"].tolist() == [5, 5 + 2**32]
    assert trace.notes[0].startswith(
        "Correlation ids repeat between the 2 processes (7, 8): those of every process but the first"
    )


def test_the_process_of_every_call_range_and_wait_is_that_of_its_thread(read):
    tables = Tables()
    for process in (8, 9):
        tables.kernel("gemm", 10, 20, process=process, correlationId=4)
        tables.call("cudaLaunchKernel", 1, 2, 4, process, thread=80)
        tables.call("cudaDeviceSynchronize", 3, 4, 5, process, thread=80)
        tables.range("step", 0, 5, process=process, thread=80)
    trace = read(tables)
    assert trace.launches["process"].tolist() == ["8", "8", "9", "9"]
    for table in (trace.spans, trace.syncs):
        assert table["process"].tolist() == ["8", "9"]


def test_rows_that_name_no_process_join_where_there_is_only_one(read):
    tables = Tables().kernel("k", 50, 60, correlationId=5).call("launch", 0, 1, 5)
    tables.without("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid")
    assert read(tables).launches["name"].tolist() == ["launch"]


def test_rows_that_name_no_process_among_several_have_no_launch(read):
    tables = Tables().kernel("k", 50, 60, correlationId=5).call("launch", 0, 1, 5).call("launch", 0, 1, 5, process=8)
    trace = read(tables.without("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid"))
    assert (timeline_of(trace).launch == -1).all()
    assert trace.notes == ("The process of 1 device rows is unknown, and with it their launches.",)
    assert not len(trace.losses)  # as of an export that tells none


@pytest.mark.parametrize("process", [7, 8])
@pytest.mark.parametrize("none", [None, 0, -5])
def test_rows_that_name_no_process_where_others_do_are_lost(read, process, none):
    tables = Tables().call("launch", 0, 1, 5).call("launch", 0, 1, 5, process=8)
    tables.kernel("k", 50, 60, correlationId=5).kernel("k", 70, 80).kernel("k", 90, 95, process=process)
    tables.rows["CUPTI_ACTIVITY_KIND_KERNEL"][0]["globalPid"] = none
    odd = [["details", 1, 3]] if none == -5 else []
    assert read(tables).losses[["what", "lost", "total"]].to_numpy().tolist() == [*odd, ["events", 1, 3]]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kernels=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=12),
    calls=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=12),
)
def test_launches_join_as_a_search_through_all_pairs_does(tmp_path_factory, kernels, calls):
    tables = Tables()
    for at, (process, correlation) in enumerate(kernels):
        tables.kernel(f"k{at}", 100 + at, 101 + at, process=process, correlationId=correlation)
    for at, (process, correlation) in enumerate(calls):
        tables.call(f"c{at}", at, at + 1, correlation, process=process)
    trace = nsys.read(tables.write(tmp_path_factory.mktemp("nsys") / "r.sqlite"))
    pairs = trace.events.dropna(subset="correlation_id").merge(trace.launches, on="correlation_id")
    assert sorted(map(tuple, rows(pairs, "name_x", "name_y"))) == sorted(
        (f"k{a}", f"c{b}")
        for a, kernel in enumerate(kernels)
        for b, call in enumerate(calls)
        if kernel == call and kernel[1] > 0
    )


def test_rows_without_a_valid_time_are_left_out_and_noted(read):
    tables = Tables().kernel("ok", 5, 5).kernel("backwards", 9, 7).kernel("not collected", 0, 0).kernel("open", 3, None)
    trace = read(tables)
    assert trace.events["name"].tolist() == ["ok"]
    assert trace.notes == ("3 of 4 events could not be read (device rows without a valid time).",)
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["events", 3, 4]]


def test_an_export_without_cuda_says_what_records_it(read):
    trace = read(Tables().range("step", 10, 20))
    assert (len(trace.events), len(trace.devices), len(trace.spans)) == (0, 0, 1)
    assert trace.notes == (
        "No CUDA work was recorded (there is no table of kernels, copies or memsets). "
        "`nsys profile --trace=cuda,nvtx` records it, if the program uses CUDA.",
    )


def test_an_export_with_copies_alone_says_that_kernels_are_missing(read):
    trace = read(Tables().copy(1, 0, 1))
    assert len(trace.events) == 1
    assert trace.notes[0].startswith("The export contains copies or memsets but no kernels")


def test_calls_without_a_valid_time_or_a_thread_are_counted(read):
    tables = Tables().kernel("k", 5, 6, correlationId=1).call("cudaLaunchKernel", 1, 2, 1)
    tables.call("cudaLaunchKernel", None, 4, 2).call("cudaLaunchKernel", 3, None, 3).call("cudaFree", 9, 8, 4)
    tables.rows["CUPTI_ACTIVITY_KIND_RUNTIME"][0]["globalTid"] = None
    trace = read(tables)
    assert len(trace.launches) == 1
    assert rows(trace.losses, "what", "lost", "total", "evidence") == [
        ["events", 3, 4, "calls of CUDA without a valid time"],
        ["details", 1, 4, "threads of the calls of CUDA"],
    ]
    assert len(trace.notes) == 2


def test_ids_that_nsys_always_writes_are_counted_where_they_are_null(read):
    tables = Tables().kernel("k", 5, 6, correlationId=1, streamId=None).kernel("l", 7, 8, correlationId=None)
    tables.kernel("m", 9, 10, shortName=None, correlationId=3)
    tables.call("cudaLaunchKernel", 1, 2, 1).call("cudaLaunchKernel", 3, 4, None).call("cudaLaunchKernel", 3, 4, 3)
    tables.rows["CUPTI_ACTIVITY_KIND_RUNTIME"][2]["nameId"] = None
    trace = read(tables)
    assert (len(trace.events), len(trace.launches)) == (3, 2)
    assert rows(trace.losses, "what", "lost", "total", "evidence") == [
        ["details", 1, 3, "CUPTI_ACTIVITY_KIND_KERNEL.streamId is null"],
        ["details", 1, 3, "CUPTI_ACTIVITY_KIND_KERNEL.correlationId is null"],
        ["details", 1, 3, "CUPTI_ACTIVITY_KIND_KERNEL.shortName is null"],
        ["details", 1, 3, "CUPTI_ACTIVITY_KIND_RUNTIME.correlationId is null"],
        ["details", 1, 3, "CUPTI_ACTIVITY_KIND_RUNTIME.nameId is null"],
    ]


def one_of_each() -> Tables:
    """Three kernels, copies and memsets, and the call that started each."""
    tables = Tables()
    for at in range(3):
        tables.kernel("k", at * 10, at * 10 + 5, correlationId=at + 1)
        tables.copy(1, at * 10 + 5, at * 10 + 6, correlationId=at + 4)
        tables.activity("MEMSET", at * 10 + 6, at * 10 + 7, value=0, bytes=9, correlationId=at + 7)
        for name, more in (("cudaLaunchKernel_v7000", 1), ("cuMemcpyHtoDAsync_v2", 4), ("cudaMemsetAsync", 7)):
            tables.call(name, at * 10 + more // 3, at * 10 + more // 3 + 1, at + more)
    return tables


@pytest.mark.parametrize("table", ["KERNEL", "MEMCPY", "MEMSET", "RUNTIME"])
@pytest.mark.parametrize("dropped", [False, True])
def test_a_table_without_rows_is_counted_where_others_prove_that_it_had_some(read, table, dropped):
    tables, name = one_of_each(), f"CUPTI_ACTIVITY_KIND_{table}"
    tables.rows[name] = []
    if dropped:
        del tables.rows[name]
    losses = read(tables).losses
    # Of work its calls tell how much it was; of lost calls, the rows.
    events = [] if table == "RUNTIME" else [["events", 3, None]]
    assert rows(losses, "what", "lost", "total") == [["absent tables", 1, None], *events]
    assert losses["evidence"][0].startswith(f"no rows of {name}, ")


def test_an_export_without_calls_is_told_what_it_lacks_and_not_to_copy_it_again(tmp_path):
    tables = one_of_each()
    del tables.rows["CUPTI_ACTIVITY_KIND_RUNTIME"]
    path = tables.write(tmp_path / "report.sqlite")
    lacks = (
        "1 table is missing from the export (no rows of CUPTI_ACTIVITY_KIND_RUNTIME, the calls of CUDA that launched "
        "9 device rows)."
    )
    assert lacks in tracekit.read(path).notes
    with pytest.raises(TraceError, match=r"is not whole: 1 table .* Export every table of the report, record again"):
        tracekit.read(path, strict=True)
    (sentence, *_) = section(completeness(timeline_of(path))).sentences
    remedy = "Export every table with `nsys export`, or record again with `nsys profile --trace=cuda,nvtx`."
    assert sentence.endswith(f"{lacks} {remedy}")


def test_no_shares_are_told_of_an_export_that_lost_all_its_kernels(read):
    """Of copies alone, a GPU that computed throughout would be idle."""
    tables = one_of_each()
    tables.rows["CUPTI_ACTIVITY_KIND_KERNEL"] = []
    known = completeness(timeline_of(read(tables)))
    assert known.shares == "3 events could not be read (of CUPTI_ACTIVITY_KIND_KERNEL, which calls of CUDA started)."


def without_work(tables: Tables) -> Tables:
    for table in ("KERNEL", "MEMCPY", "MEMSET"):
        del tables.rows[f"CUPTI_ACTIVITY_KIND_{table}"]
    return tables


@pytest.mark.parametrize("kernel", ["5.15.153.1-microsoft-standard-WSL2", "6.8.0-45-generic"])
def test_an_export_of_calls_alone_is_not_damaged_but_was_recorded_without_the_gpu(read, tmp_path, kernel):
    tables = without_work(one_of_each()).add("TARGET_INFO_SYSTEM_ENV", name="SoftwareReleaseVersion", value=kernel)
    trace = read(tables)
    known = completeness(timeline_of(trace))
    where = "under WSL 2 Nsight Systems mostly records none: profile on Linux itself, or on Windows"
    why = where if "WSL" in kernel else None
    assert rows(trace.losses, "what", "lost", "total", "evidence") == [["launched work", 9, 9, why]]
    assert not any("could not be read" in note or "No CUDA work" in note for note in trace.notes)
    none = "None of 9 kernels and copies that the host launched has a row on a device"
    assert known.shares == f"{none}."
    assert no_device_work(trace) == (f"{none}: {why}." if why else f"{none}.")
    with pytest.raises(TraceError, match=r"is not whole: None of 9 kernels.*Record it again"):
        tracekit.read(tables.write(tmp_path / "calls.sqlite"), strict=True)


def test_a_call_of_the_driver_inside_one_of_the_runtime_starts_nothing_else(read):
    tables = Tables()
    for at in range(4):
        tables.call("cudaLaunchKernel_v7000", 10 * at, 10 * at + 8, 2 * at + 1)
        tables.call("cuLaunchKernel", 10 * at + 2, 10 * at + 6, 2 * at + 2)
    tables.call("cuLaunchKernel", 50, 56, 99)
    assert rows(read(tables).losses, "what", "lost", "total") == [["launched work", 5, 5]]


@pytest.mark.parametrize("is_captured", [True, False])
def test_calls_that_failed_or_were_captured_put_nothing_on_a_gpu(read, is_captured):
    tables = without_work(one_of_each())
    for call in tables.rows["CUPTI_ACTIVITY_KIND_RUNTIME"]:
        call["returnValue"] = 0 if is_captured else 3
    if is_captured:
        tables.call("cudaStreamBeginCapture", 0, 1, 20).rows["CUPTI_ACTIVITY_KIND_RUNTIME"][-1]["returnValue"] = 0
    trace = read(tables)
    assert not len(trace.losses)
    why = " (there is no table of kernels" if is_captured else ": of 9 calls that start some 9 failed."
    assert any(note.startswith(f"No CUDA work was recorded{why}") for note in trace.notes)


def test_unified_memory_that_the_program_prefetched_is_no_migration_by_the_driver(read):
    tables = Tables().kernel("k", 8, 900)
    for at, cause in enumerate([1, 2, 3, None]):
        tables.copy(11, 10 * at, 10 * at + 5, migrationCause=cause)
    timeline = timeline_of(read(tables))
    names = timeline.rows.events["name"].astype(object).to_numpy()[timeline.rows.at].tolist()
    moved = "CUDA memcpy Unified Host-to-Device"
    assert [*zip(names, timeline.rows.is_migration.tolist(), strict=True)] == [
        (f"{moved}, prefetched", False),
        ("k", False),
        *[(moved, True)] * 3,
    ]


def test_a_table_without_rows_that_no_calls_prove_is_no_loss(read):
    tables = Tables().kernel("k", 5, 6, correlationId=1).call("cudaLaunchKernel", 1, 2, 1)
    tables.rows["CUPTI_ACTIVITY_KIND_MEMSET"] = []  # as `nsys export --lazy=false` writes it
    assert not len(read(tables).losses)


def test_calls_that_were_captured_into_graphs_prove_nothing(read):
    tables = one_of_each().call("cudaStreamBeginCapture_v10000", 0, 1, 20)
    del tables.rows["CUPTI_ACTIVITY_KIND_MEMSET"]
    assert not len(read(tables).losses)


@pytest.mark.parametrize(
    ("table", "column", "evidence"),
    [
        ("MEMCPY", "correlationId", "is null"),
        ("MEMCPY", "bytes", "is null"),
        ("MEMSET", "correlationId", "is null"),
        ("MEMCPY", "correlationId", "is missing"),
        ("MEMCPY", "copyKind", "is missing"),
        ("KERNEL", "correlationId", "is missing"),
        ("RUNTIME", "correlationId", "is missing"),
        ("RUNTIME", "nameId", "is missing"),
    ],
)
def test_columns_that_are_null_or_missing_are_counted(read, table, column, evidence):
    tables, name = one_of_each(), f"CUPTI_ACTIVITY_KIND_{table}"
    if evidence == "is missing":
        tables.without(name, column)
    else:
        tables.rows[name] = [row | {column: None} for row in tables.rows[name]]
    count = len(tables.rows[name])
    assert rows(read(tables).losses, "what", "lost", "total", "evidence") == [
        ["details", count, count, f"{name}.{column} {evidence}"],
        *([["kinds", 3_000, 21_000, "copies whose kind is lost"]] if column == "copyKind" else []),
    ]


@pytest.mark.parametrize("number", [-5, 2**40, 2**63 - 1])
@pytest.mark.parametrize(("table", "whose"), [("MEMCPY", "device rows"), ("RUNTIME", "the calls of CUDA")])
def test_ids_that_cupti_does_not_give_are_counted(read, table, whose, number):
    tables = one_of_each()
    tables.rows[f"CUPTI_ACTIVITY_KIND_{table}"][0]["correlationId"] = number
    losses = read(tables).losses
    assert rows(losses, "what", "lost", "total", "evidence") == [
        ["details", 1, 9, f"correlation ids of {whose} that are no numbers of 32 bits"]
    ]


def test_what_the_driver_moved_has_no_id_of_a_call_and_lost_none(read):
    assert not len(read(Tables().copy(11, 0, 1, correlationId=None)).losses)


def test_a_table_of_calls_without_threads_is_counted(read):
    tables = Tables().kernel("k", 5, 6, correlationId=1).call("cudaLaunchKernel", 1, 2, 1)
    trace = read(tables.without("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid"))
    assert rows(trace.launches, "thread") == [["thread ?"]]
    assert rows(trace.losses, "what", "lost", "total") == [["details", 1, 1]]


@pytest.mark.parametrize("at", [2**62, 2**63 - 2, -(2**62)])
def test_times_far_from_all_others_are_left_out_and_counted(read, at):
    tables = (
        Tables().kernel("a", 5, 6).kernel("b", 7, 8).kernel("c", at, at + 1).range("r", at, at + 1).range("s", 6, 7)
    )
    trace = read(tables)
    assert trace.events["name"].tolist() == ["a", "b"]
    assert trace.spans["name"].tolist() == ["s"]
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["events", 1, 3], ["events", 1, 2]]


def test_names_that_the_table_of_strings_lacks_are_told(read):
    tables = Tables().kernel("a", 5, 6).kernel("b", 7, 8)
    tables.rows["StringIds"] = tables.rows["StringIds"][:1]
    trace = read(tables)
    assert len(trace.events) == 2
    assert "StringIds lacks 1 of the 2 names that events have" in trace.notes[0]
    assert trace.losses["what"].tolist() == ["tables"]


def test_large_tables_are_read_piece_by_piece_with_the_same_result(read, monkeypatch):
    tables = Tables()
    for at in range(11):
        tables.kernel(f"k{at % 3}", at, at + 2, correlationId=at + 1).range(f"r{at}", at, at + 1)
    path = Path(read(tables).source)
    whole = nsys.read(path)
    monkeypatch.setattr(sqlite_export, "_ROWS_AT_ONCE", 4)
    monkeypatch.setattr(sqlite_export, "_IDS_AT_ONCE", 2)
    pieces = nsys.read(path)
    assert rows(pieces.events, *whole.events) == rows(whole.events, *whole.events)
    assert rows(pieces.spans, *whole.spans) == rows(whole.spans, *whole.spans)
    assert rows(whole.events, "name", "start_ps")[9] == ["k0", 9_000]


def test_rows_that_stand_in_a_table_twice_count_once_and_are_told(tmp_path):
    tables = Tables().kernel("a", 100, 200, correlationId=1).copy(1, 100, 200, correlationId=2, streamId=14)
    once = nsys.read(tables.write(tmp_path / "report.sqlite"))
    for table in ("KERNEL", "MEMCPY"):
        tables.rows[f"CUPTI_ACTIVITY_KIND_{table}"] *= 2
    (tmp_path / "report.sqlite").unlink()
    twice = nsys.read(tables.write(tmp_path / "report.sqlite"))
    assert twice.events.equals(once.events)
    evidence = "rows of CUPTI_ACTIVITY_KIND_{} that stand in the file twice, of which one counts"
    found = [loss for loss in rows(twice.losses, "what", "lost", "total", "evidence") if "twice" in loss[3]]
    assert found == [["details", 1, 2, evidence.format(table)] for table in ("KERNEL", "MEMCPY")]


def test_calls_and_ranges_that_stand_in_a_table_twice_count_once_and_are_told(tmp_path):
    path = tmp_path / "report.sqlite"
    shutil.copy(traces.DATA / "generated" / "gpu.sqlite", path)
    path.chmod(0o600)
    once = nsys.read(path)
    with closing(sqlite3.connect(path)) as database:
        for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
            database.execute(f"insert into {table} select * from {table}")
        database.commit()
    twice = nsys.read(path)
    for table in ("events", "launches", "spans", "syncs"):
        assert getattr(twice, table).equals(getattr(once, table)), table
    assert not len(once.losses)
    told = sorted(rows(twice.losses, "evidence", "what", "lost", "total"))
    assert [[loss[0].split(" that stand")[0], *loss[1:]] for loss in told] == [
        [what, "details", len(table), 2 * len(table)]
        for what, table in (("NVTX ranges", once.spans), ("calls of CUDA", once.launches))
    ]


@pytest.mark.parametrize(
    "other", [{"graphNodeId": 4}, {"correlationId": 2}, {"streamId": 9}, {"gridX": 2}, {"process": 8}]
)
def test_rows_that_differ_in_anything_are_none_again(tmp_path, other):
    usual = {"correlationId": 1, "graphNodeId": 3, "gridX": 1}
    tables = Tables().kernel("a", 100, 200, **usual).kernel("a", 100, 200, **usual | other)
    assert len(nsys.read(tables.write(tmp_path / "report.sqlite")).events) == 2
    unnumbered = Tables().kernel("b", 100, 200).kernel("b", 100, 200)
    assert len(nsys.read(unnumbered.write(tmp_path / "other.sqlite")).events) == 2
