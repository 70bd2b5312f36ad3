"""What allocators wrote into an XSpace, as rows of `Trace.memory`; held against XProf's memory profile."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.readers.xspaces import PlaneText, write
from tests.traces import REAL, xspace
from tracekit import memory
from tracekit.readers import read

COLUMNS = ["device", "allocator", "label", "time_ps", "delta_bytes", "in_use_bytes", "limit_bytes", "frees"]
ALLOCATION, RELEASE = "MemoryAllocation", "MemoryDeallocation"
REAL_CASES = ("jax-MI300X-gemm", "tf-8xV100", "tpu-v6e-4chip", "xla-2xGTX1080Ti")

# XProf may not share a process with pyarrow. What it says of each file, by allocator: peak, capacity and, in order of
# size, what was in use after each event: it compares times of lines by their offsets, as if all began together.
ASK_XPROF = """
import json, sys
from xprof.convert import raw_to_tool_data

def in_use(shot):
    stats = shot["aggregationStats"]
    return int(stats["heapAllocatedBytes"]) + int(stats["stackReservedBytes"])

of_file = {}
for path in sys.argv[1:]:
    profile = json.loads(raw_to_tool_data.xspace_to_tool_data([path], "memory_profile", {})[0])
    of_file[path] = {
        name: [
            int(each["profileSummary"]["peakStats"]["peakBytesInUse"]),
            int(each["profileSummary"]["memoryCapacity"]),
            sorted(map(in_use, each["sampledTimelineSnapshots"])),
        ]
        for name, each in profile["memoryProfilePerAllocator"].items()
    }
print(json.dumps(of_file))
"""


def rows(trace):
    return trace.memory[COLUMNS].astype(object).where(trace.memory[COLUMNS].notna(), None).values.tolist()


def event(plane, name, at_ns, in_use, size=256, line="python", **stats):
    usual = {"bytes_reserved": 0, "bytes_available": 10_000 - in_use, "allocation_bytes": size, "addr": 4096}
    return plane.event(line, name, at_ns, 0, bytes_allocated=in_use, **usual | stats)


def two_gpus():
    """Two GPUs' allocators and the host's: gpu:1 has 5,000 bytes before the trace, and one release is not seen."""
    plane = PlaneText("/host:CPU").event("python", "PjitFunction(step)", 0, 100).event("python", "Execute", 10, 50)
    event(plane, ALLOCATION, 20, 256, allocator_name="GPU_0_bfc")
    event(plane, ALLOCATION, 25, 5_256, allocator_name="GPU_1_bfc", tf_op="dense/MatMul")
    event(plane, ALLOCATION, 30, 64, allocator_name="xla_gpu_host_bfc", line="worker")
    event(plane, RELEASE, 40, 0, allocator_name="GPU_0_bfc")
    event(plane, ALLOCATION, 200, 5_512, allocator_name="GPU_1_bfc", tf_op="(null)", addr=8192)
    return plane


def test_allocations_say_their_device_what_is_in_use_and_who_asked(tmp_path):
    trace = read(write(tmp_path / "host.xplane.pb", two_gpus().text()))
    assert rows(trace) == [
        ["gpu:0", "GPU_0_bfc", "PjitFunction(step)", 20_000, 256, 256, 10_000, False],
        ["gpu:1", "GPU_1_bfc", "dense/MatMul", 25_000, 256, 5_256, 10_000, False],
        [None, "xla_gpu_host_bfc", None, 30_000, 256, 64, 10_000, False],
        ["gpu:0", "GPU_0_bfc", None, 40_000, -256, 0, 10_000, True],
        ["gpu:1", "GPU_1_bfc", None, 200_000, 256, 5_512, 10_000, False],
    ]


def test_an_allocation_on_a_thread_of_the_runtime_is_for_the_function_that_handed_it_the_work(tmp_path):
    plane = PlaneText("/host:CPU").event("python", "PjitFunction(step)", 0, 100)
    plane.event("python", "Execute", 10, 50, _pt=5, _p=23).event("python", "Other", 200, 210, _pt=6, _p=23)
    plane.event("python", "Execute", 300, 310, _pt=5, _p=24)
    plane.event("worker", "ExecuteHelper", 120, 90).event("worker", "EnqueueExecution", 130, 50, _ct=5, _c=23)
    plane.event("worker", "EnqueueExecution", 400, 50, _ct=5, _c=24)
    for at in (140, 420):
        event(plane, ALLOCATION, at, 256, allocator_name="GPU_0_bfc", line="worker")
    labels = [row[2] for row in rows(read(write(tmp_path / "host.xplane.pb", plane.text())))]
    assert labels == ["PjitFunction(step)", "EnqueueExecution"]


def test_a_tpus_allocator_has_no_name_and_counts_what_programs_reserve(tmp_path):
    plane = PlaneText("/host:CPU").event("main", "DeferredTpuAllocator::Allocate", 0, 50)
    plane.event("main", "AllocateDestinationBuffer", 0, 90)
    event(plane, ALLOCATION, 20, 1_000, line="main", bytes_reserved=4_000, bytes_available=5_000, index_on_host=3)
    trace = read(write(tmp_path / "host.xplane.pb", plane.text()))
    assert rows(trace) == [["tpu:3", None, "AllocateDestinationBuffer", 20_000, 256, 5_000, 10_000, False]]
    assert trace.memory["stack_bytes"].tolist() == [4_000]


def test_events_that_do_not_say_what_is_in_use_are_skipped_with_a_note(tmp_path):
    plane = event(PlaneText("/host:CPU"), ALLOCATION, 5, 256, allocator_name="GPU_0_bfc")
    plane.event("python", ALLOCATION, 7, 0, addr=1).event("python", RELEASE, 8, 0)
    trace = read(write(tmp_path / "host.xplane.pb", plane.text()))
    assert (len(trace.memory), trace.notes) == (
        1,
        (
            "2 of 3 allocation events do not state the bytes in use and were skipped.",
            "2 of 3 details of devices and events could not be read (numbers of allocations).",
        ),
    )


@pytest.mark.skipif(find_spec("xprof") is None, reason="xprof is not installed")
def test_peaks_limits_and_every_step_are_those_of_xprofs_memory_profile(tmp_path):
    files = [write(tmp_path / "own.xplane.pb", two_gpus().text())]
    for case in REAL_CASES if REAL.is_dir() else ():
        files.append(tmp_path / f"{case}.xplane.pb")
        shutil.copyfile(xspace(f"xplane/{case}"), files[-1])
    asked = subprocess.run(
        [sys.executable, "-c", ASK_XPROF, *map(str, files)], capture_output=True, text=True, check=True
    )
    for path, profile in json.loads(asked.stdout.splitlines()[-1]).items():
        trace = read(path)
        label = (
            trace.memory["allocator"]
            .astype(object)
            .where(trace.memory["allocator"].notna(), trace.memory["device"].astype(object).str.removeprefix("tpu:"))
        )
        ours = {
            str(name): [
                int(of["in_use_bytes"].max()),
                int(of["limit_bytes"].max()),
                sorted(of["in_use_bytes"].tolist()),
            ]
            for name, of in trace.memory.groupby(label)
        }
        assert ours == profile
        result = memory(trace).by_device
        by_device = trace.memory.groupby("device", observed=True)["in_use_bytes"].max()
        assert dict(zip(result["device"], result["peak_bytes"], strict=True)) == by_device.to_dict()
