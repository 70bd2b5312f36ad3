"""GPU and TPU planes, hand-made, and the real traces of other people's machines with figures known beforehand."""

import json
from pathlib import Path

import pytest

from tests.readers.xspaces import PlaneText, write
from tracekit import intervals as iv
from tracekit.errors import TraceError
from tracekit.readers import read
from tracekit.unions import unions

REAL = Path(__file__).parents[3] / "shared" / "traces"


def rows(path, *columns):
    table = read(path).events[list(columns)].astype(object)
    return table.where(table.notna(), None).values.tolist()


def test_streams_are_the_truth_and_derived_lines_are_not_counted(tmp_path):
    plane = PlaneText("/device:GPU:1").event("Stream #13(Compute)", "kernel", 0, 10).event("Steps", "3", 0, 30)
    plane.event("XLA Ops", "fusion", 0, 10).event("XLA Modules", "jit_f", 0, 20).event("_counters_", "c", 0, 9)
    assert rows(write(tmp_path / "h.xplane.pb", plane.text()), "host", "device", "lane", "name") == [
        ["h", "gpu:1", "Stream #13(Compute)", "kernel"]
    ]


def test_copies_have_direction_and_bytes_and_memsets_neither(tmp_path):
    plane = PlaneText("/device:GPU:0")
    plane.event("Stream #1(MemcpyH2D)", "MemcpyH2D", 0, 1, memcpy_details="size:112 dest:4 async:0")
    plane.event("Stream #2(MemcpyD2H,Memset)", "MemcpyD2H", 2, 1, memcpy_details="kind_src:device kind_dst:host size:8")
    plane.event("Stream #2(MemcpyD2H,Memset)", "Memset", 4, 1)
    plane.event("Stream #3(Kernel)", "__amd_rocclr_copyBuffer.kd", 6, 1, correlation_id=8)
    found = rows(write(tmp_path / "h.xplane.pb", plane.text()), "kind", "direction", "bytes", "correlation_id")
    assert found == [
        ["memcpy", "H2D", 112, None],
        ["memcpy", "D2H", 8, None],
        ["memset", None, None, None],
        ["memcpy", None, None, 8],
    ]


@pytest.mark.parametrize(
    "name",
    [
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_AllGather",
        "ncclDevKernel_Generic",
        "nvshmemi_transfer",
        "multimem_all_reduce_kernel",
        "all-reduce.7",
    ],
)
def test_collective_kernels_are_known_by_name_where_nothing_better_is_there(tmp_path, name):
    plane = PlaneText("/device:GPU:0").event("Stream #1(Compute)", name, 0, 1)
    assert rows(write(tmp_path / "h.xplane.pb", plane.text()), "kind") == [["collective"]]


def test_a_broken_time_is_left_out_and_noted(tmp_path):
    plane = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "ok", 0, 1).event("Stream #1(Compute)", "bad", 5, -7)
    trace = read(write(tmp_path / "h.xplane.pb", plane.text()))
    assert trace.events["name"].tolist() == ["ok"]
    assert "gpu:0: 1 events without a valid time were left out." in trace.notes


def test_planes_that_are_empty_or_no_device_are_noted(tmp_path):
    text = PlaneText("/device:GPU:0").text() + PlaneText("/device:CUSTOM:Megascale").text()
    text += PlaneText("/device:GPU:1").event("Stream #1(Compute)", "k", 0, 1).text()
    assert read(write(tmp_path / "h.xplane.pb", text)).notes == (
        "No work was recorded on gpu:0: their planes are empty.",
        "Left out, being no GPU or TPU core: /device:CUSTOM:Megascale.",
    )


def test_launches_carry_the_correlation_id_of_their_kernel(tmp_path):
    text = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "k", 9, 1, correlation_id=5).text()
    text += PlaneText("/host:CPU").event("thread", "cuLaunchKernel", 0, 2, correlation_id=5).text()
    trace = read(write(tmp_path / "h.xplane.pb", text))
    assert trace.launches[["name", "correlation_id", "end_ps"]].values.tolist() == [["cuLaunchKernel", 5, 2000]]
    assert trace.events[["correlation_id", "start_ps"]].values.tolist() == [[5, 9000]]


class Tpu(PlaneText):
    def __init__(self) -> None:
        super().__init__("/device:TPU:0")

    def op(self, text, start, duration):
        return self.event("XLA Ops", text, start, duration)


def test_an_async_copy_is_one_row_from_start_to_done_with_its_wait(tmp_path):
    plane = Tpu().op("%copy-start.2 = (f32[8]{0:S(5)}, f32[8]{0}, u32[]) copy-start(f32[8]{0} %p)", 0, 1)
    plane.op("%fusion.1 = f32[8]{0} fusion(f32[8]{0} %p), kind=kLoop", 1, 9)
    plane.op("%copy-done.5 = f32[8]{0:S(5)} copy-done((f32[8]{0:S(5)}, f32[8]{0}, u32[]) %copy-start.2)", 10, 4)
    found = rows(
        write(tmp_path / "h.xplane.pb", plane.text()), "name", "kind", "direction", "start_ps", "end_ps", "wait_ps"
    )
    assert found == [
        ["copy-start.2", "memcpy", "D2H", 0, 14_000, 4_000],
        ["fusion.1", "compute", None, 1_000, 10_000, None],
    ]


def test_async_collectives_of_a_loop_are_paired_in_order_and_the_loop_is_no_row(tmp_path):
    plane = Tpu().op("%while.1 = (f32[]) while((f32[]) %t), condition=%c, body=%b", 0, 100)
    for start in (10, 50):
        plane.op("%ag = (f32[4], f32[8]) all-gather-start(f32[4] %x), dimensions={0}", start, 1)
        plane.op("%ag.done = f32[8] all-gather-done((f32[4], f32[8]) %ag)", start + 20, 5)
    found = rows(write(tmp_path / "h.xplane.pb", plane.text()), "kind", "start_ps", "end_ps", "wait_ps")
    assert found == [["collective", 10_000, 35_000, 5_000], ["collective", 50_000, 75_000, 5_000]]


def test_halves_without_their_other_half_are_kept_as_seen_and_noted(tmp_path):
    plane = Tpu().op("%copy-done.1 = f32[8] copy-done((f32[8]) %copy-start.1)", 0, 4)
    plane.op("%copy-start.2 = (f32[8]) copy-start(f32[8] %p)", 9, 1)
    path = write(tmp_path / "h.xplane.pb", plane.text())
    assert rows(path, "start_ps", "end_ps", "wait_ps") == [[0, 4_000, 4_000], [9_000, 10_000, None]]
    assert "1 `-done` ops without their `-start` and 1 without their `-done`" in read(path).notes[0]


needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="the folder of real traces, shared/traces, is not here")


def measured(events, device):
    """The figures of one device in microseconds, as expected.json names them."""
    held = unions(events).devices[device]
    rows = events[events["device"] == device]
    kinds = rows["kind"].astype(str)
    return {
        "n_compute": int((kinds == "compute").sum()),
        "n_collective": int((kinds == "collective").sum()),
        "n_mem": int(kinds.isin(["memcpy", "memset"]).sum()),
        "span": (rows["end_ps"].max() - rows["start_ps"].min()) / 1e6,
        "busy": iv.total(held.busy) / 1e6,
        "compute": iv.total(held.compute) / 1e6,
        "collective": iv.total(held.collective) / 1e6,
        "mem": iv.total(held.memory) / 1e6,
        "compute&mem": iv.total(iv.intersection(held.compute, held.memory)) / 1e6,
        **{
            f"compute&{way}": iv.total(iv.intersection(held.compute, copies)) / 1e6
            for way, copies in held.directions.items()
        },
    }


@needs_real
@pytest.mark.parametrize("name", ["tf-8xV100", "tpu-v6e-4chip", "jax-8xMI300X", "jax-MI300X-gemm", "xla-2xGTX1080Ti"])
def test_real_traces_give_the_figures_of_independent_sweeps(name):
    expected = json.loads((REAL / "expected.json").read_text("utf-8"))[f"xplane/{name}"]
    (path,) = (REAL / "xplane" / name).glob("*.xplane.pb")
    events = read(path).events
    checked = 0
    for what, figures in expected.items():
        if what.startswith("busy "):
            a, b = (unions(events).devices[device].busy for device in what.removeprefix("busy ").split(" & "))
            # The file of expected figures is rounded to its own resolution, 1 ns.
            assert round(iv.total(iv.intersection(a, b)) / 1e6, 3) == figures
            checked += 1
        elif what != "about":
            found = measured(events, what)
            assert {key: round(found[key], 3) for key in figures} == figures
            checked += 1
    assert checked


@needs_real
def test_a_file_mangled_by_a_text_encoding_fails_with_one_sentence():
    (path,) = (REAL / "xplane" / "corrupt").glob("*.xplane.pb")
    with pytest.raises(TraceError, match=r"is broken or no XSpace: the bytes at offset \d+"):
        read(path)
