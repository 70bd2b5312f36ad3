"""What CUDA handed out, where nsys was told to record it."""

import pytest

from tests.readers.nsys.exports import Tables, pid, rows
from tracekit import memory
from tracekit.readers import nsys

COLUMNS = ("process", "device", "allocator", "time_ps", "delta_bytes", "in_use_bytes", "address", "frees")


def used(tables, start, size, operation=0, kind=2, device=0, process=7, address=64):
    return tables.add(
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        start=start,
        globalPid=pid(process),
        deviceId=device,
        contextId=1,
        address=address,
        pc=0,
        bytes=size,
        memKind=kind,
        memoryOperationType=operation,
        name=None,
    )


def read(tables, tmp_path):
    tables.add("TARGET_INFO_GPU", id=0, cuDevice=0, name="A100", memoryBandwidth=10**12, totalMemory=10_000)
    return nsys.read(tables.write(tmp_path / "report.sqlite"))


def test_allocations_and_releases_are_on_the_gpu_of_their_process_and_before_its_work(tmp_path):
    tables = used(used(used(Tables(), 100, 300), 900, 300, operation=1), 150, 40, kind=1)
    trace = read(tables.kernel("k", 500, 600), tmp_path)
    assert rows(trace.memory, *COLUMNS) == [
        ["7", "gpu:0", "device", 0, 300, None, 64, False],
        ["7", None, "pinned", 50_000, 40, None, 64, False],
        ["7", "gpu:0", "device", 800_000, -300, None, 64, True],
    ]
    assert trace.events["start_ps"].tolist() == [400_000]
    row = memory(trace).by_device.iloc[0]
    assert (row["peak_bytes"], row["at_least"], row["limit_bytes"], row["limit_of"]) == (300, True, 10_000, "device")


@pytest.mark.parametrize("broken", [{"operation": 7}, {"size": None}])
def test_a_row_without_its_bytes_or_what_it_did_is_skipped_with_a_note(tmp_path, broken):
    tables = used(Tables(), 100, 300).kernel("k", 500, 600)
    trace = read(used(tables, 200, **{"size": 5, **broken}), tmp_path)
    assert len(trace.memory) == 1
    assert "1 of 2 allocation events do not state their bytes and were skipped." in trace.notes


def test_an_export_without_the_table_has_no_memory(tmp_path):
    trace = read(Tables().kernel("k", 500, 600), tmp_path)
    assert (len(trace.memory), trace.notes) == (0, ())
