"""rocprofv3's JSON: agents, kernels, copies, calls and markers, of one process or several."""

import gzip
import json
import re

import pytest

from tests.readers.chrome.kineto_files import rows
from tests.readers.damage import changed, figures, lost, places
from tests.readers.rocprof_files import CPU, GPU_0, GPU_1, agent, copy, kernel, process, record, whole
from tracekit.analysis.completeness import completeness
from tracekit.errors import TraceError
from tracekit.readers import read
from tracekit.timeline.timeline import timeline_of


def trace_of(tmp_path, *processes, name="10_results.json"):
    path = tmp_path / name
    path.write_text(json.dumps({"rocprofiler-sdk-tool": list(processes)}))
    return read(path)


@pytest.mark.parametrize("number", [2**63, 2**40, -1])
def test_an_id_that_no_profiler_counts_to_is_that_of_no_call(tmp_path, number):
    record = kernel(1000, 2000) | {"correlation_id": {"internal": number, "external": 0}}
    trace = trace_of(tmp_path, process(kernel_dispatch=[record, kernel(3000, 4000)]))
    assert len(trace.events) == 2
    assert trace.events["correlation_id"].isna().tolist()[0]


def test_the_order_of_keys_counts_nowhere(tmp_path):
    def backwards(value):
        if isinstance(value, dict):
            return {key: backwards(value[key]) for key in reversed(value)}
        return [backwards(each) for each in value] if isinstance(value, list) else value

    own = process(kernel_dispatch=[kernel(1000, 2000)], memory_copy=[copy(1500, 2500, "HOST_TO_DEVICE", CPU, GPU_0)])
    expected = trace_of(tmp_path, own).events
    path = tmp_path / "10_results.json"
    path.write_text(json.dumps({"about": {"version": 1}, "rocprofiler-sdk-tool": [backwards(own)]}))
    assert read(path).events.equals(expected)
    assert len(expected) == 2


def test_kernels_and_copies_are_rows_of_the_gpus_of_the_machine(tmp_path):
    trace = trace_of(
        tmp_path,
        process(
            kernel_dispatch=[kernel(1000, 1500), kernel(1600, 1700, gpu=GPU_1, queue=6), kernel(0, 0)],
            memory_copy=[
                copy(1100, 1300, "HOST_TO_DEVICE", CPU, GPU_0),
                copy(1300, 1400, "DEVICE_TO_DEVICE", GPU_1, GPU_0),
                copy(1400, 1450, "DEVICE_TO_DEVICE", GPU_1, GPU_1),
                copy(1400, 1450, "HOST_TO_HOST", CPU, CPU),
            ],
        ),
    )
    columns = ("device", "lane", "name", "kind", "direction", "bytes", "start_ps", "end_ps")
    assert rows(trace.events, *columns) == [
        ["gpu:0", "queue 5", "gemm_kernel(float*)", "compute", None, None, 0, 500_000],
        ["gpu:1", "queue 6", "gemm_kernel(float*)", "compute", None, None, 600_000, 700_000],
        ["gpu:0", "copies H2D", "MEMORY_COPY_HOST_TO_DEVICE", "memcpy", "H2D", 64, 100_000, 300_000],
        ["gpu:1", "copies P2P", "MEMORY_COPY_DEVICE_TO_DEVICE", "memcpy", "P2P", 64, 300_000, 400_000],
        ["gpu:1", "copies D2D", "MEMORY_COPY_DEVICE_TO_DEVICE", "memcpy", "D2D", 64, 400_000, 450_000],
    ]
    assert rows(trace.devices, "host", "device", "model", "memory_bytes") == [
        ["node1", "gpu:0", "AMD Instinct MI300X", 1000],
        ["node1", "gpu:1", "AMD Instinct MI300X", 1000],
    ]
    assert trace.format == "rocprofv3"
    assert trace.notes == (
        "1 of 3 events could not be read (records in kernel_dispatch without a valid time).",
        "1 copy within the host's memory was skipped.",
        "No calls of HIP were recorded, which start the work: --hip-trace records them.",
    )


def test_agents_that_ran_kernels_and_are_not_listed_are_gpus_after_those_that_are(tmp_path):
    own = process(kernel_dispatch=[kernel(1000, 1500), kernel(1600, 1700, gpu=GPU_1)])
    own["agents"] = [agent(CPU, 0, gpu=False, name="AMD EPYC"), agent(GPU_1, 2)]
    trace = trace_of(tmp_path, own)
    assert rows(trace.events, "device", "start_ps") == [["gpu:1", 0], ["gpu:0", 600_000]]
    assert trace.notes[1].startswith("1 agent that ran kernels and that the file does not list: ")
    assert lost(trace) == {"agents that ran kernels and are not listed": 1}
    assert len(trace_of(tmp_path, own | {"agents": []}).events) == 2


def test_a_row_is_of_the_hip_call_around_its_launch_also_where_hsa_has_its_id(tmp_path):
    trace = trace_of(
        tmp_path,
        process(
            markers=[(1, "step 3"), (2, "forward")],
            marker_api=[
                record("MARKER_CORE_API", 100, 900, 1, "roctxRangePushA"),
                record("MARKER_CORE_API", 110, 300, 2, "roctxRangePushA"),
                record("MARKER_CONTROL_API", 120, 121, 9),
            ],
            hip_api=[
                record("HIP_COMPILER_API", 190, 195, 2),
                record("HIP_RUNTIME_API", 200, 250, 3, "hipLaunchKernel"),
                record("HIP_RUNTIME_API", 400, 450, 5, "hipLaunchKernel"),
                record("HIP_RUNTIME_API", 500, 2000, 6, "hipDeviceSynchronize"),
            ],
            hsa_api=[record("HSA_CORE_API", 210, 220, 4), record("HSA_CORE_API", 410, 420, 4, thread=11)],
            rccl_api=[record("RCCL_API", 390, 460, 7, "ncclAllReduce")],
            kernel_dispatch=[kernel(1000, 1500, 4), kernel(1500, 1900, 5, what=2)],
        ),
    )
    assert rows(trace.events, "name", "correlation_id", "category", "op") == [
        ["gemm_kernel(float*)", 3, None, 0],
        ["ncclDevKernel_Generic_1(ncclDevKernelArgs)", 5, "all-reduce", 1],
    ]
    assert trace.ops["framework_op"].tolist() == ["forward", "step 3"]
    assert rows(trace.spans, "thread", "name") == [["thread 10", "step 3"], ["thread 10", "forward"]]
    assert rows(trace.launches, "name", "correlation_id", "start_ps") == [
        ["hipLaunchKernel", 3, 100_000],
        ["hipLaunchKernel", 5, 300_000],
        ["hipDeviceSynchronize", 6, 400_000],
    ]
    assert rows(trace.syncs, "name", "on_device", "recorded_ps") == [["hipDeviceSynchronize", "gpu:0", 400_000]]


def test_work_of_no_length_and_of_no_bytes_is_work_and_the_last_call_starts_what_has_its_id(tmp_path):
    trace = trace_of(
        tmp_path,
        process(
            hip_api=[
                record("HIP_RUNTIME_API", 5, 6, 3, "hipLaunchKernel"),
                record("HIP_RUNTIME_API", 7, 8, 4, "hipLaunchKernel"),
            ],
            kernel_dispatch=[kernel(10, 10, 3), kernel(11, 12, 4)],
            memory_copy=[copy(20, 21, "HOST_TO_DEVICE", CPU, GPU_0, size=0)],
        ),
    )
    assert trace.events["correlation_id"].tolist()[:2] == [3, 4]
    assert trace.events["end_ps"].tolist() == [5_000, 7_000, 16_000]
    assert trace.events["bytes"].tolist()[2] == 0
    assert not len(trace.losses)


def test_both_heaps_of_video_memory_count(tmp_path):
    own = process(kernel_dispatch=[kernel(10, 20)])
    own["agents"][2]["mem_banks"] = [{"heap_type": number, "size_in_bytes": 10**number} for number in range(5)]
    assert trace_of(tmp_path, own).devices["memory_bytes"].tolist() == [110]


def test_processes_of_one_file_have_lanes_and_ids_of_their_own(tmp_path):
    calls = {"hip_api": [record("HIP_RUNTIME_API", 5, 6, 3)], "kernel_dispatch": [kernel(10, 20, 3)]}
    trace = trace_of(tmp_path, process(pid=10, **calls), process(pid=20, **calls))
    assert trace.events["device"].tolist() == ["gpu:0", "gpu:0"]
    assert trace.events["lane"].tolist() == ["queue 5, process 10", "queue 5, process 20"]
    assert trace.events["correlation_id"].tolist() == trace.launches["correlation_id"].tolist() == [3, 3 + 2**40]
    assert trace.launches["process"].tolist() == ["10", "20"]


def test_kernels_of_which_only_counters_were_collected_are_rows_with_a_note(tmp_path):
    trace = trace_of(tmp_path, process(counted=[{"thread_id": 1, "dispatch_data": kernel(10, 20)}]))
    assert rows(trace.events, "name", "start_ps", "end_ps") == [["gemm_kernel(float*)", 0, 10_000]]
    assert any("counters were collected" in note for note in trace.notes)


def test_one_process_may_stand_without_a_list_and_names_may_hold_any_bytes(tmp_path):
    text = json.dumps({"rocprofiler-sdk-tool": process(kernel_dispatch=[kernel(10, 20)])})
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(text.encode().replace(b"gemm_kernel", b"gemm\xff")))
    assert read(path).events["name"].tolist() == ["gemm\ufffd(float*)"]


def test_a_file_without_work_says_how_to_record_it(tmp_path):
    trace = trace_of(tmp_path, process(), name="0_results.json")
    assert not len(trace.events)
    assert trace.notes == (
        "rocprofv3 recorded no kernels and no copies: --kernel-trace and --memory-copy-trace record them.",
    )


@pytest.mark.parametrize("packed", [False, True])
def test_of_a_truncated_file_what_is_whole_is_read(tmp_path, packed):
    records = {"kernel_dispatch": [kernel(10 * at, 10 * at + 5) for at in range(1, 200)], "memory_copy": []}
    data = json.dumps({"rocprofiler-sdk-tool": [process(**records)]}).encode()
    path = tmp_path / "t.json"
    path.write_bytes(gzip.compress(data)[:-400] if packed else data[: data.rindex(b"dispatch_info")])
    trace = read(path)
    assert 0 < len(trace.events) < 199
    assert trace.losses["what"].tolist()[0] == "bytes"
    path.write_bytes(data[:30])
    with pytest.raises(TraceError, match=r"t\.json is no whole JSON of rocprofv3: "):
        read(path)


@pytest.mark.parametrize("is_list", [False, True])
def test_each_end_of_a_truncated_file_leaves_the_records_before_it(tmp_path, is_list):
    kernels = [kernel(10 * at, 10 * at + 5) for at in range(1, 6)]
    one = process(
        kernel_dispatch=kernels, memory_copy=[copy(90, 95, "HOST_TO_DEVICE", CPU, GPU_0)], hip_api=[], rccl_api=[]
    )
    data = json.dumps({"rocprofiler-sdk-tool": [one] if is_list else one}).encode()
    path = tmp_path / "t.json"
    begin = data.index(b"kernel_dispatch") + 20
    ends = [found.end() for found in re.finditer(rb'"stream_id": \{"handle": 77\}\}', data)]
    path.write_bytes(data)
    whole = read(path).events[["start_ps", "end_ps"]].to_numpy().tolist()
    for size in range(begin, len(data)):
        path.write_bytes(data[:size])
        trace = read(path)
        times = trace.events[["start_ps", "end_ps"]].to_numpy().tolist()
        assert all(each in whole for each in times), size
        assert len(times) >= sum(end <= size for end in ends), size
        assert trace.losses["what"].tolist()[0] == "bytes", size
        assert trace.losses["lost"].isna().iat[0], size
        assert not any("recorded no" in note or "No kernels were" in note for note in trace.notes), size


def test_times_far_from_the_others_are_none(tmp_path):
    far = [kernel(10**17, 10**17 + 5), kernel(30, 2**62), kernel(31, 2**63), kernel(32, 10**30)]
    trace = trace_of(tmp_path, process(kernel_dispatch=[kernel(10, 20), kernel(20, 30), kernel(25, 28), *far]))
    assert trace.events["start_ps"].tolist() == [0, 10_000, 15_000]
    assert lost(trace)["records in kernel_dispatch without a valid time"] == 4


# What a file may lack, as what was not traced; and what may be any number or text.
MAY_LACK = {
    *("memory_copy", "hip_api", "hsa_api", "marker_api", "rccl_api", "buffer_records", "agents"),
    *("mem_banks", "heap_type", "size_in_bytes", "product_name", "metadata", "pid", "node", "hostname"),
}
MAY_BE_ANY = {"product_name", "hostname", "value", "demangled_kernel_name", "operations", "pid", "heap_type"}


def is_legal(path, value):
    """Whether another profile may hold this, so that nothing tells that it is damage."""
    key = next(part for part in reversed(path) if isinstance(part, str))
    is_lacking = value is ... and isinstance(path[-1], int)  # one more or less of something
    return is_lacking or key in (MAY_LACK if value is ... else MAY_BE_ANY)


@pytest.mark.parametrize(
    ("filling", "evidence"),
    [
        (b"\0", "zeros in place of what stood there"),
        (b" ", "blanks in place of what stood there"),
        (b'<body class="error">{503: [ Unavailable </body> ', "in stretches that hold no event"),
    ],
)
@pytest.mark.parametrize("shift", [0, 7, 100])
def test_a_stretch_that_is_gone_costs_what_fits_into_it(tmp_path, filling, evidence, shift):
    records = [kernel(1000 * at, 1000 * at + 900, at) for at in range(1, 201)]
    path = tmp_path / "10_results.json"
    text = json.dumps({"rocprofiler-sdk-tool": [process(kernel_dispatch=records)]}).encode()
    begin, end = (text.index(b'"start_timestamp": %d,' % time) + shift for time in (60_000, 100_000))
    path.write_bytes(text[:begin] + (filling * 20_000)[: end - begin] + text[end:])
    found = read(path)
    told = lost(found)
    assert end - begin <= told[evidence] <= end - begin + 800
    assert 35 <= told["about as many as fit into the bytes that are lost"] <= 45
    assert 158 <= len(found.events) <= 161
    assert completeness(timeline_of(found)).shares


def test_any_one_value_that_is_damaged_costs_itself_and_is_told(tmp_path):
    """Nothing that changes a figure is silent, but another list that was not traced, and another legal value."""
    own = whole()
    expected = trace_of(tmp_path, own)
    assert not len(expected.losses)
    silent, refused = [], []
    for path in filter(None, places(own)):
        for value in (..., "damaged", 2**70, -1):
            try:
                trace = trace_of(tmp_path, changed(own, path, value))
            except TraceError:
                refused.append(path)
                continue
            if len(trace.losses) or figures(trace) == figures(expected):
                continue
            if not is_legal(path, value):
                silent.append((path, value))
    assert not silent
    assert {path[0] for path in refused} <= {"buffer_records"}


def test_kinds_that_are_lost_weigh_by_the_time_of_their_work(tmp_path):
    short = [kernel(1000 + 10 * number, 1001 + 10 * number) for number in range(98)]
    own = process(kernel_dispatch=[*short, kernel(5000, 5006, what=2), kernel(6000, 6006, what=2)])
    own["kernel_symbols"] = own["kernel_symbols"][:2]
    trace = trace_of(tmp_path, own)
    assert lost(trace) == {"kernels whose names are lost": 12_000}
    assert trace.losses["total"].tolist() == [110_000]
    known = completeness(timeline_of(trace))
    assert known.shares == "The kind of 12.00 ns of 110.0 ns of work is not known (kernels whose names are lost)."


def without(name, value):
    """What holds something of everything, but for one list."""
    return changed(whole(), ("buffer_records", name), value)


@pytest.mark.parametrize("value", [..., []])
def test_kernels_that_were_launched_and_are_not_there_are_lost(tmp_path, value):
    trace = trace_of(tmp_path, without("kernel_dispatch", value))
    assert lost(trace) == {"kernels that HIP launched; only --kernel-trace records any": 2}
    assert trace.notes == (
        "2 of 2 events could not be read (kernels that HIP launched; only --kernel-trace records any).",
        "No kernels were recorded: --kernel-trace records them, if there were any.",
    )
    assert completeness(timeline_of(trace)).shares
    with pytest.raises(TraceError, match="2 of 2 events could not be read"):
        read(tmp_path / "10_results.json", strict=True)


@pytest.mark.parametrize("name", ["kernel_dispatch", "memory_copy", "hip_api", "hsa_api", "marker_api", "rccl_api"])
def test_null_in_the_place_of_a_list_of_records_is_a_lost_table(tmp_path, name):
    assert lost(trace_of(tmp_path, without(name, None)))[f"{name} is none"] == 1


@pytest.mark.parametrize(
    ("path", "evidence"),
    [(("metadata",), "processes"), (("metadata", "node"), "processes"), (("strings",), "processes")],
)
def test_null_in_the_place_of_what_a_process_always_has_is_told(tmp_path, path, evidence):
    assert lost(trace_of(tmp_path, changed(whole(), path, None)))[f"values of another type in {evidence}"] == 1


@pytest.mark.parametrize(
    ("old", "new", "several"),
    [
        ('"memory_copy": ', '"kernel_dispatch": [], "memory_copy": ', "kernel_dispatch"),
        ('"agents": ', '"agents": [], "agents": ', "agents"),
        ('"kernel_symbols": ', '"kernel_symbols": [], "kernel_symbols": ', "kernel_symbols"),
        ('{"rocprofiler-sdk-tool": ', '{"rocprofiler-sdk-tool": [], "rocprofiler-sdk-tool": ', "rocprofiler-sdk-tool"),
    ],
)
@pytest.mark.parametrize("ending", ["", " x"], ids=["valid", "repaired"])
def test_a_list_that_stands_in_a_file_twice_under_one_key_is_told(tmp_path, old, new, several, ending):
    """Of two lists of one name JSON's readers take the last, in silence."""
    text = json.dumps({"rocprofiler-sdk-tool": [whole()]})
    assert text.count(old) == 1
    path = tmp_path / "10_results.json"
    path.write_text(text.replace(old, new) + ending)
    assert lost(read(path))[f"{several} stands in it several times"] == 1


def test_a_kernel_of_two_names_is_told(tmp_path):
    own = whole()
    (first, *_) = own["kernel_symbols"]
    own["kernel_symbols"] = [first | {"demangled_kernel_name": "another"}, *own["kernel_symbols"]]
    assert lost(trace_of(tmp_path, own)) == {"names of kernels whose number has another": 1}
    own["kernel_symbols"][0] = first
    assert not len(trace_of(tmp_path, own).losses)


def test_a_key_in_a_name_or_in_another_object_is_no_second_list(tmp_path):
    own = whole()
    own["kernel_symbols"][0]["demangled_kernel_name"] = '"kernel_dispatch": "kernel_dispatch" {"agents": {'
    own["config"] = {"kernel_dispatch": True, "agents": {"agents": 1}}
    trace = trace_of(tmp_path, own)
    assert not len(trace.losses)
    assert len(trace.events) == len(trace_of(tmp_path, whole()).events)


@pytest.mark.parametrize("bounds", [(50, 5000), (0, 0), (5000, 50), (10**15, 2 * 10**15)])
def test_a_kernel_an_hour_from_when_its_process_was_recorded_is_lost(tmp_path, bounds):
    """Where the file says when that was, and its other records agree."""
    own = whole()
    own["metadata"]["init_time"], own["metadata"]["fini_time"] = bounds
    whole_rows = len(trace_of(tmp_path, own).events)
    for edge in ("start_timestamp", "end_timestamp"):
        own["buffer_records"]["kernel_dispatch"][1][edge] += 3600 * 10**9
    trace = trace_of(tmp_path, own)
    is_told = bounds == (50, 5000)
    assert len(trace.events) == whole_rows - is_told
    assert lost(trace) == ({"records in kernel_dispatch without a valid time": 1} if is_told else {})


@pytest.mark.parametrize("value", [..., []])
def test_nothing_is_lost_of_kernels_where_nothing_shows_that_any_ran(tmp_path, value):
    own = without("kernel_dispatch", value)
    names = ("hipMemcpyAsync", "hipMemsetAsync", "hipLaunchHostFunc", "hipStreamBeginCapture", "hipLaunchKernel")
    own["strings"]["buffer_records"][0]["operations"] = [*names, "hipStreamEndCapture", "hipGraphLaunch"]
    calls = [record("HIP_RUNTIME_API", 200 + 10 * at, 205 + 10 * at, 20 + at, at) for at in range(7)]
    own["buffer_records"]["hip_api"] = calls
    own["buffer_records"]["memory_copy"][0]["correlation_id"]["internal"] = 26  # the graph's, which only copied
    trace = trace_of(tmp_path, own)
    assert not len(trace.losses)
    assert trace.notes == ("No kernels were recorded: --kernel-trace records them, if there were any.",)


@pytest.mark.parametrize("value", [..., []])
@pytest.mark.parametrize("name", ["kernel_dispatch", "memory_copy", "hip_api", "hsa_api", "marker_api", "rccl_api"])
def test_records_that_the_summary_counts_and_no_list_holds_are_lost(tmp_path, name, value):
    own = without(name, value)
    count = len(whole()["buffer_records"][name])
    own["summary"] = [
        {"domain": each.upper(), "stats": {"count": len(records), "sum": 5, "operations": {}}}
        for each, records in whole()["buffer_records"].items()
    ]
    trace = trace_of(tmp_path, own)
    texts = {"texts of no marker": 1} if name == "marker_api" else {}
    assert lost(trace) == {f"records of {name} that the summary counts": count, **texts}
    assert trace.losses["total"].tolist()[0] == count


def test_entries_of_a_list_that_are_none_are_not_lost_twice(tmp_path):
    own = process(kernel_dispatch=[kernel(10, 20), 5, kernel(20, 30)])
    own["summary"] = [{"domain": "KERNEL_DISPATCH", "stats": {"count": 3}}]
    assert "records of kernel_dispatch that the summary counts" not in lost(trace_of(tmp_path, own))
    own["summary"][0]["stats"]["count"] = 7
    assert lost(trace_of(tmp_path, own))["records of kernel_dispatch that the summary counts"] == 4


def test_values_that_are_null_and_numbers_in_quotes_cost_no_file(tmp_path):
    own = process(kernel_dispatch=[kernel(100, 200)], memory_copy=[copy(300, 400, "HOST_TO_DEVICE", CPU, GPU_0)])
    expected = trace_of(tmp_path, own)
    own["agents"][2]["gpu_index"] = own["metadata"]["node"]["note"] = None
    own["agents"][2]["name"] = own["callback_records"]["counter_collection"] = own["strings"]["marker_api"] = None
    own["buffer_records"]["memory_copy"][0]["bytes"] = "64"
    own["buffer_records"]["hip_api"] = None
    own["strings"]["buffer_records"][0]["operations"][1] = None
    trace = trace_of(tmp_path, own)
    assert trace.events.equals(expected.events)
    assert trace.devices.equals(expected.devices)


def test_another_layout_is_one_sentence_that_names_the_place(tmp_path):
    with pytest.raises(TraceError, match=r"is laid out as no version of rocprofv3 .*agents.*Please report it"):
        trace_of(tmp_path, process() | {"agents": {"902": "a GPU"}})
    with pytest.raises(TraceError, match=r"is laid out as no version of rocprofv3 .*Please report it"):
        trace_of(tmp_path, "process")


TWICE = "{} that stand in the file twice, of which one counts"


def test_records_that_stand_in_a_list_twice_count_once_and_are_told(tmp_path):
    once = whole()
    twice = whole()
    records = {name: list(each) * (1 + (name != "memory_copy")) for name, each in once["buffer_records"].items()}
    twice["buffer_records"] = records
    expected, trace = trace_of(tmp_path, once), trace_of(tmp_path, twice)
    for name in ("events", "launches", "spans"):
        assert getattr(trace, name).equals(getattr(expected, name)), name
    assert not len(expected.losses)
    assert rows(trace.losses, "what", "lost", "total", "evidence") == [
        ["details", len(each), 2 * len(each), TWICE.format(f"records of {name}")]
        for name, each in sorted(once["buffer_records"].items(), key=lambda item: [*records].index(item[0]))
        if name != "memory_copy"
    ]


def test_records_that_differ_in_anything_or_have_no_number_are_none_again(tmp_path):
    first = kernel(1000, 1500, 3)
    others = [
        kernel(1000, 1500, 4),
        kernel(1000, 1500, 3, queue=6),
        kernel(1000, 1501, 3),
        kernel(1000, 1500, 3, what=2),
    ]
    others.append(kernel(1000, 1500, 3) | {"dispatch_info": first["dispatch_info"] | {"dispatch_id": 2}})
    unnumbered = [kernel(1600, 1700)] * 2
    trace = trace_of(tmp_path, process(kernel_dispatch=[first, *others, *unnumbered]))
    assert len(trace.events) == 8
    assert not trace.losses["evidence"].astype(str).str.contains("twice").any()


def test_a_process_that_stands_in_a_file_twice_counts_once_and_is_told(tmp_path):
    once, trace = trace_of(tmp_path, whole()), trace_of(tmp_path, whole(), whole())
    assert trace.events.equals(once.events)
    assert rows(trace.losses, "what", "lost", "total", "evidence") == [["details", 1, 2, TWICE.format("processes")]]
    other = whole() | {"metadata": {"pid": 11, "node": {"hostname": "node1"}}}
    assert len(trace_of(tmp_path, whole(), other).events) == 2 * len(once.events)
