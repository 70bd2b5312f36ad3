"""Nsight Systems exports: which GPU, host, clock and warnings they tell of."""

from pathlib import Path

import pytest

from tests.readers.nsys.exports import Tables, rows
from tracekit import intervals as iv
from tracekit.readers import nsys
from tracekit.timeline.timeline import timeline_of


@pytest.fixture
def read(tmp_path):
    return lambda tables: nsys.read(tables.write(tmp_path / "report.sqlite"))


def test_one_gpu_used_by_two_processes_is_one_device_and_their_streams_are_apart(read):
    tables = Tables().kernel("a", 0, 10, process=7).kernel("b", 5, 15, process=8)
    for process in (7, 8):
        tables.add("TARGET_INFO_CUDA_DEVICE", gpuId=4, cudaId=0, pid=process)
    trace = read(tables)
    assert rows(trace.events, "device", "lane") == [
        ["gpu:0", "stream 13, process 7"],
        ["gpu:0", "stream 13, process 8"],
    ]
    assert trace.devices["device"].tolist() == ["gpu:0"]
    assert iv.total(timeline_of(trace).unions.devices["gpu:0"].busy) == 15_000


def test_two_contexts_of_one_process_with_one_stream_number_are_apart(read):
    tables = Tables().kernel("a", 0, 10, contextId=1).kernel("b", 5, 15, contextId=2).kernel("c", 5, 15, streamId=9)
    assert read(tables).events["lane"].tolist() == ["stream 13, context 1", "stream 13, context 2", "stream 9"]


def test_two_gpus_that_each_process_calls_device_0_are_two_devices(read):
    tables = Tables().kernel("a", 0, 10, process=7).kernel("b", 5, 15, process=8)
    tables.add("TARGET_INFO_CUDA_DEVICE", gpuId=2, cudaId=0, pid=7)
    tables.add("TARGET_INFO_CUDA_DEVICE", gpuId=5, cudaId=0, pid=8)
    tables.add("TARGET_INFO_GPU", id=5, name="H100", memoryBandwidth=3352320000000)
    trace = read(tables)
    assert rows(trace.events, "device", "lane") == [["gpu:2", "stream 13"], ["gpu:5", "stream 13"]]
    assert rows(trace.devices, "device", "model", "memory_bandwidth_bytes_per_s") == [
        ["gpu:2", None, None],
        ["gpu:5", "H100", 3352320000000],
    ]
    assert (
        "The processes number their GPUs differently: device 0 of process 7 is gpu:2, device 0 of process 8 is gpu:5."
        in trace.notes
    )


def test_parts_of_one_gpu_with_ids_of_their_own_are_devices_of_their_own(read):
    tables = Tables().kernel("a", 0, 10, process=7).kernel("b", 5, 15, process=8)
    tables.add("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=7, uuid="MIG-1")
    tables.add("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=8, uuid="MIG-2")
    assert read(tables).events["device"].tolist() == ["gpu:0", "gpu:1"]


def test_where_nothing_tells_the_gpus_of_two_processes_apart_they_are_taken_for_one_and_that_is_said(read):
    trace = read(Tables().kernel("a", 0, 10, process=7).kernel("b", 5, 15, process=8))
    assert trace.devices["device"].tolist() == ["gpu:0"]
    assert trace.notes[-1].startswith("Several processes worked on device 0: the export does not say")


def test_models_and_bandwidths_of_old_and_new_tables_are_in_bytes_per_second(read):
    # One card as two versions of nsys wrote it: B/s in TARGET_INFO_GPU, kB/s in TARGET_INFO_CUDA_GPU.
    new = Tables().kernel("k", 0, 1, deviceId=3)
    new.add("TARGET_INFO_GPU", id=0, cuDevice=3, name="RTX 3080", memoryBandwidth=760080000000)
    old = Tables().kernel("k", 0, 1, deviceId=3)
    old.add("TARGET_INFO_CUDA_GPU", deviceId=3, pid=7, pciBusId="0:2", name="RTX 3080", globalMemoryBandwidth=760080000)
    for tables in (new, old):
        trace = read(tables)
        assert rows(trace.devices, "device", "model", "memory_bandwidth_bytes_per_s") == [
            ["gpu:3", "RTX 3080", 760080000000]
        ]
        Path(trace.source).unlink()


def test_rows_without_a_device_stand_on_no_device_that_is_counted(read):
    tables = Tables().kernel("k", 0, 1).without("CUPTI_ACTIVITY_KIND_KERNEL", "deviceId")
    trace = read(tables)
    assert trace.events["device"].tolist() == ["gpu:?"]
    assert timeline_of(trace).unions.devices == {}
    assert trace.notes[1:] == ("The GPU of 1 rows is unknown: they count in no device.",)
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["events", 1, 1]]


def test_negative_times_are_before_the_sessions_start(read):
    tables = Tables().kernel("early", -3_000, -1_000).kernel("late", 500, 700)
    tables.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_779_782_330_176_752_435)
    trace = read(tables)
    assert rows(trace.events, "start_ps", "end_ps") == [[0, 2_000_000], [3_500_000, 3_700_000]]
    assert trace.hosts["origin_ns"].tolist() == [1_779_782_330_176_749_435]


@pytest.mark.parametrize(
    ("settings_of_export", "sessions", "first", "origin"),
    [
        ({}, [1_700_000_000_000_000_000], 60, 1_700_000_000_000_000_060),
        ({"EXPORT_PARAM_TIME_SHIFT": "50"}, [1_700_000_000_000_000_000], 60, 1_700_000_000_000_000_010),
        ({"EXPORT_PARAM_TIME_NORMALIZE": "true"}, [5], 1_700_000_000_000_000_077, 1_700_000_000_000_000_077),
        ({}, [], 1_700_000_000_000_000_077, 1_700_000_000_000_000_077),
        ({}, [], 60, None),
        ({}, [1_700_000_000_000_000_000, 1_700_000_000_000_000_001], 60, None),
    ],
)
def test_the_unix_time_of_time_0_follows_the_session_and_how_it_was_exported(
    read, settings_of_export, sessions, first, origin
):
    tables = Tables().kernel("k", first, first + 1)
    for name, value in settings_of_export.items():
        tables.add("META_DATA_EXPORT", name=name, value=value)
    for session in sessions:
        tables.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=session)
    assert rows(read(tables).hosts, "origin_ns") == [[origin]]


@pytest.mark.parametrize(
    ("environment", "host"),
    [([("Hostname", "node7")], "node7"), ([("Hostname", "UNKNOWN")], "report"), ([], "report")],
)
def test_the_host_is_the_machine_that_was_profiled_else_the_files_stem(read, environment, host):
    tables = Tables().kernel("k", 0, 1)
    for name, value in environment:
        tables.add("TARGET_INFO_SYSTEM_ENV", name=name, value=value)
    trace = read(tables)
    assert (trace.events["host"].tolist(), trace.hosts["host"].tolist()) == ([host], [host])


def test_the_profilers_warnings_about_cuda_are_passed_on_with_how_often_each_stands(read):
    tables = Tables().kernel("k", 0, 1)
    for severity, text in (
        (2, "Not all CUDA events might have been collected."),
        (2, "Not all CUDA events might have been collected."),
        (3, "ActivityFlushAll returned 2:\nCUPTI_ERROR_INVALID_DEVICE"),
        (1, "Number of CUDA events collected: 10."),
        (2, "No NVTX events collected. Does the process use NVTX?"),
        (2, "perf event paranoid level is 2."),
    ):
        tables.add("DIAGNOSTIC_EVENT", severity=severity, text=text)
    assert read(tables).notes == (
        "Profiler warning, 2 times: Not all CUDA events might have been collected.",
        "Profiler error: ActivityFlushAll returned 2: CUPTI_ERROR_INVALID_DEVICE",
    )


@pytest.mark.parametrize(
    ("nsys_version", "cuda", "is_told"),
    [
        ("2023.4.4.54", "13000", True),
        ("2025.2.1.1", "13020", True),
        ("2025.3.2.474", "13000", False),
        ("2024.2.3.38", "12050", False),
        ("2022.3.1.1", "12000", False),
        ("2023.4.4.54", "no number", False),
        ("2023.4.4.54", None, False),
        (None, "13000", False),
    ],
)
def test_a_profiler_older_than_the_drivers_cuda_is_told(read, nsys_version, cuda, is_told):
    tables = Tables().kernel("k", 0, 1)
    if nsys_version:
        tables.add("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value=nsys_version)
    if cuda:
        tables.add("TARGET_INFO_SYSTEM_ENV", name="CudaDriverVersion", value=cuda)
    notes = read(tables).notes
    assert bool(notes) == is_told
    if nsys_version == "2023.4.4.54" and is_told:
        assert notes == (
            "Nsight Systems 2023.4 is older than the driver's CUDA 13.0: of a program built for that, work may be "
            "missing without a word. To be sure, record it with 2025.3 or newer.",
        )


def test_gpus_whose_numbers_are_no_numbers_are_not_one_gpu(read):
    tables = Tables().kernel("a", 0, 10, process=7).kernel("b", 5, 15, process=8, deviceId=1)
    for process in (7, 8):
        tables.add("TARGET_INFO_CUDA_DEVICE", pid=process, cudaId=process - 7, gpuId="x", uuid=None)
    trace = read(tables)
    assert rows(trace.events, "name", "device") == [["a", "gpu:0"], ["b", "gpu:1"]]
    assert rows(trace.losses, "what", "lost", "total") == [["details", 2, 2], ["events", 2, 2]]
