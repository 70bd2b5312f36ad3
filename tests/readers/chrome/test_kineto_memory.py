"""What PyTorch's allocators handed out, from Kineto's instants `[memory]`."""

from tests.readers.chrome.kineto_files import event, kernel, rows, trace_of
from tracekit import memory

COLUMNS = ("device", "allocator", "label", "time_ps", "delta_bytes", "in_use_bytes", "reserved_bytes", "frees")
GPU = {"id": 0, "name": "V100", "totalGlobalMem": 5_000}


def instant(ts, size, allocated, kind=1, device=0, **args):
    known = {"Device Type": kind, "Device Id": device, "Addr": 64, "Bytes": size, "Total Allocated": allocated}
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": 0,
        "tid": 7,
        "ts": ts,
        "args": {**known, "Total Reserved": 2_000, **args},
    }


def test_allocations_are_of_the_operator_around_them_that_does_more_than_make_a_tensor(tmp_path):
    trace = trace_of(
        tmp_path,
        event("cpu_op", "aten::mm", 0, 50),
        event("cpu_op", "aten::empty", 10, 5),
        event("cpu_op", "aten::empty", 60, 5),
        instant(12, 512, 1_512),
        instant(62, 256, 1_768, Addr=128),
        instant(70, -512, 1_256),
        instant(80, 8, 8, kind=0, device=-1),
        kernel("k", 65, 10),
        deviceProperties=[GPU],
    )
    assert rows(trace.memory, *COLUMNS) == [
        ["gpu:0", "caching allocator", "aten::mm", 12_000_000, 512, 1_512, 2_000, False],
        ["gpu:0", "caching allocator", "aten::empty", 62_000_000, 256, 1_768, 2_000, False],
        ["gpu:0", "caching allocator", None, 70_000_000, -512, 1_256, 2_000, True],
        [None, "cpu", None, 80_000_000, 8, 8, None, False],
    ]
    row = memory(trace).by_device.iloc[0]
    assert (row["peak_bytes"], row["before_bytes"], row["limit_bytes"], row["limit_of"]) == (
        1_768,
        1_000,
        5_000,
        "device",
    )


def test_the_only_device_that_worked_is_that_of_the_only_allocator_whatever_its_number(tmp_path):
    work = {**kernel("k", 5, 10), "args": {"device": 2, "stream": 7}}
    trace = trace_of(tmp_path, work, instant(12, 512, 512, kind=6), deviceProperties=[GPU])
    assert trace.memory["device"].tolist() == ["gpu:2"]
    assert trace.notes[-1] == "The allocator of gpu:0 is taken for that of gpu:2, the only device with work."


def test_an_instant_without_sizes_is_skipped_with_a_note(tmp_path):
    broken = {**instant(13, 0, 0), "args": {"Device Type": 1}}
    trace = trace_of(tmp_path, kernel("k", 5, 10), instant(12, 512, 512), broken)
    assert len(trace.memory) == 1
    assert trace.notes[-1] == "1 of 2 allocation events do not state the bytes in use and were skipped."
