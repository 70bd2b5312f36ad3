"""GPU planes, hand-made: streams, copies, what is no work, CUDA graphs, and what HLO protos add."""

import pytest

from tests.readers.hlo import hlo_modules
from tests.readers.hlo.hlo_modules import needs_xla_parser
from tests.readers.xspaces import PlaneText, metadata_plane, write
from tracekit.readers import read
from tracekit.readers.xspace.gpu_plane import CopyRecord, copy_record

STREAM = "Stream #1(Compute)"


def table(path, *columns):
    cells = read(path).events[list(columns)].astype(object)
    return cells.where(cells.notna(), None).values.tolist()


def rows(tmp_path, text, *columns):
    return table(write(tmp_path / "h.xplane.pb", text), *columns)


def notes(tmp_path, text):
    return read(write(tmp_path / "h.xplane.pb", text)).notes


def test_streams_are_the_truth_and_derived_lines_are_not_counted(tmp_path):
    plane = PlaneText("/device:GPU:1").event("Stream #13(Compute)", "kernel", 0, 10).event("Steps", "3", 0, 30)
    plane.event("XLA Ops", "fusion", 0, 10).event("XLA Modules", "jit_f", 0, 20).event("_counters_", "c", 0, 9)
    assert rows(tmp_path, plane.text(), "host", "device", "lane", "name") == [
        ["h", "gpu:1", "Stream #13(Compute)", "kernel"]
    ]


def test_a_line_of_unknown_meaning_is_left_out_and_noted(tmp_path):
    plane = PlaneText("/device:GPU:0").event(STREAM, "kernel", 0, 10).event("Copy Engine 2", "x", 0, 30)
    assert rows(tmp_path, plane.text(), "name") == [["kernel"]]
    assert notes(tmp_path, plane.text()) == ("gpu:0: lines of unknown meaning were skipped: Copy Engine 2.",)


@pytest.mark.parametrize(
    ("line", "stats"),
    [
        ("Stream  13(Compute)", {}),
        ("Strea #13(Compute)", {}),
        ("Rings", {"correlation_id": 7}),
        ("Rings", {"kernel_details": "regs:8"}),
        ("Rings", {"memcpy_details": "size:64 dest:0"}),
    ],
)
def test_work_on_a_line_that_has_lost_its_name_is_lost(tmp_path, line, stats):
    plane = PlaneText("/device:GPU:0").event(STREAM, "kernel", 0, 10, **stats)
    plane.event(line, "a", 20, 10, **stats).event(line, "b", 40, 10, **stats)
    trace = read(write(tmp_path / "h.xplane.pb", plane.text() + PlaneText("Task Environment").text()))
    assert trace.events["name"].tolist() == ["kernel"]
    evidence = f"on lines called as no profiler calls them, {line} of gpu:0"
    assert trace.losses[["what", "lost", "total", "evidence"]].to_numpy().tolist() == [["events", 2, 3, evidence]]


def test_zero_length_nested_and_slightly_overlapping_events_of_one_stream_all_stay(tmp_path):
    plane = PlaneText("/device:GPU:0").event(STREAM, "a", 0, 10).event(STREAM, "b", 9, 5).event(STREAM, "c", 10, 0)
    plane.event(STREAM, "d", 2, 3)
    assert rows(tmp_path, plane.text(), "name", "start_ps", "end_ps") == [
        ["a", 0, 10_000],
        ["b", 9_000, 14_000],
        ["c", 10_000, 10_000],
        ["d", 2_000, 5_000],
    ]


def test_copies_have_direction_and_bytes_and_memsets_neither(tmp_path):
    plane = PlaneText("/device:GPU:0")
    plane.event("Stream #1(MemcpyH2D)", "MemcpyH2D", 0, 1, memcpy_details="size:112 dest:4 async:0")
    plane.event("Stream #2(MemcpyD2H,Memset)", "MemcpyD2H", 2, 1, memcpy_details="kind_src:device kind_dst:host size:8")
    plane.event("Stream #2(MemcpyD2H,Memset)", "Memset", 4, 1)
    plane.event("Stream #2", "set", 5, 1, Memset_details="kind:device num_bytes:4 async:1")
    plane.event("Stream #3(Kernel)", "__amd_rocclr_copyBuffer.kd", 6, 1, correlation_id=8)
    plane.event(
        "Stream #4", "MemcpyOther", 8, 1, memcpy_details="kind_src:pageable kind_dst:device size:3 dest:0 async:1"
    )
    assert rows(tmp_path, plane.text(), "kind", "direction", "bytes", "correlation_id", "host_memory") == [
        ["memcpy", "H2D", 112, None, None],
        ["memcpy", "D2H", 8, None, None],
        ["memset", None, None, None, None],
        ["memset", None, None, None, None],
        ["memcpy", None, None, 8, None],
        ["memcpy", "H2D", 3, None, "pageable"],
    ]


def test_a_copy_within_the_host_has_no_direction_whatever_its_call_is_named(tmp_path):
    """XLA's autotuner reads 8 bytes of pinned memory by cuMemcpyDtoH."""
    details = "kind_src:{} kind_dst:pageable size:8 dest:0 async:1"
    plane = PlaneText("/device:GPU:0")
    for at, memory in enumerate(("pinned", "device")):
        plane.event("Stream #4", "MemcpyOther", at, 1, correlation_id=at, memcpy_details=details.format(memory))
    host = PlaneText("/host:CPU").event("t", "MemcpyD2H", 0, 1, correlation_id=0)
    assert rows(tmp_path, host.text() + plane.text(), "kind", "direction") == [["memcpy", None], ["memcpy", "D2H"]]


@pytest.mark.parametrize(
    ("stats", "ratio"),
    [
        ({"theoretical_occupancy_pct": 62.5}, 0.625),
        ({"theoretical_occupancy_pct": 100}, 1.0),
        ({"kernel_details": "regs:12 grid:3,1,1 block:128,1,1 occ_pct:37.5"}, 0.375),
        # ROCm writes 0, which no kernel has; older details hold none.
        ({"kernel_details": " grid:16,1,1 block:512,1,1 private_mem:0 group_mem:0 occ_pct:0"}, None),
        ({"kernel_details": "registers_per_thread:32 grid_x:4"}, None),
        ({}, None),
    ],
)
def test_occupancy_is_a_ratio_where_it_was_computed(tmp_path, stats, ratio):
    plane = PlaneText("/device:GPU:0").event(STREAM, "kernel", 0, 5, **stats).event(STREAM, "MemcpyD2D", 9, 1)
    assert rows(tmp_path, plane.text(), "name", "occupancy_ratio") == [["kernel", ratio], ["MemcpyD2D", None]]


def test_rows_of_one_op_of_one_program_share_it_and_kernels_without_an_op_have_none(tmp_path):
    text = ""
    ops = [("fusion.1", 6), ("dot.2", 6), ("fusion.1", 8)]
    for ordinal, ops_of_gpu in enumerate((ops, ops[:0:-1])):
        plane = PlaneText(f"/device:GPU:{ordinal}")
        for at, (op, number) in enumerate(ops_of_gpu):
            plane.event(STREAM, "kernel", at, 1, hlo_op=op, hlo_module="jit_f", program_id=number)
        text += plane.event(STREAM, "plain kernel", 9, 1).text()
    trace = read(write(tmp_path / "h.xplane.pb", text))
    assert trace.ops[["program", "hlo_op"]].values.tolist() == [
        ["jit_f(6)", "fusion.1"],
        ["jit_f(6)", "dot.2"],
        ["jit_f(8)", "fusion.1"],
    ]
    assert trace.events["op"].astype(object).where(trace.events["op"].notna(), None).tolist() == [
        0,
        1,
        2,
        None,
        2,
        1,
        None,
    ]
    assert trace.ops[["opcode", "source", "flops"]].isna().all().all()
    assert len(trace.operands) == 0


@needs_xla_parser
def test_the_proto_of_the_program_tells_which_op_needs_which(tmp_path):
    plane = PlaneText("/device:GPU:0")
    for at, op in enumerate(("ags", "fusion.1", "cps", "copy_fusion", "dot")):
        plane.event(STREAM, f"kernel of {op}", at, 1, hlo_op=op, hlo_module="jit_f", program_id=6)
    text = metadata_plane(jit_f_6=hlo_modules.module().as_serialized_hlo_module_proto()) + plane.text()
    trace = read(write(tmp_path / "h.xplane.pb", text))
    names = trace.ops["hlo_op"]
    assert [(names[op], names[operand]) for op, operand in trace.operands.itertuples(index=False)] == [
        ("cps", "copy_fusion"),
        ("copy_fusion", "fusion.1"),
        ("dot", "cps"),  # what it needs of a call is called from elsewhere too
    ]
    assert trace.ops["opcode"].tolist() == ["all-gather-start", "fusion", "collective-permute-start", "fusion", "dot"]
    assert trace.ops.set_index("hlo_op").loc["dot", "flops"] == 2 * 8 * 8 * 8


def message(number, *parts):
    """A length-delimited field of a protobuf, or with a number as its value a varint."""
    if isinstance(parts[0], int):
        return bytes([*varint(number << 3), *varint(parts[0])])
    body = b"".join(parts)
    return bytes([*varint(number << 3 | 2), *varint(len(body))]) + body


def varint(value):
    while value > 0x7F:
        yield value & 0x7F | 0x80
        value >>= 7
    yield value


def nested(depth):
    """A tuple in a tuple, `depth` of them."""
    shape = message(2, 11)
    for _ in range(depth):
        shape = message(2, 13) + message(4, shape)
    return shape


def program(*instructions):
    """An HLO module whose only computation, 1, holds the instructions."""
    return message(3, *(message(2, each) for each in instructions), message(5, 1), message(6, 1))


def instruction(name, opcode, *fields, number=1):
    return message(1, name) + message(2, opcode) + b"".join(fields) + message(35, number)


BROKEN_PROGRAMS = {
    "garbage": b"\x1a\x7f",
    "cut": program(instruction(b"dot", b"dot"))[:-3],
    "calls itself": program(instruction(b"dot", b"fusion", message(38, 1))),
    "waits for itself": program(instruction(b"dot", b"async-done", message(36, 1), message(38, 1))),
    "nested": program(instruction(b"dot", b"copy", message(3, nested(3000)))),
}


@pytest.mark.parametrize("broken", BROKEN_PROGRAMS)
def test_a_broken_program_tells_nothing_and_what_ran_is_read(tmp_path, broken):
    plane = PlaneText("/device:GPU:0").event(STREAM, "k", 0, 1, hlo_op="dot", hlo_module="jit_f", program_id=6)
    text = metadata_plane(jit_f_6=BROKEN_PROGRAMS[broken]) + plane.text()
    trace = read(write(tmp_path / "h.xplane.pb", text))
    assert list(trace.events["name"]) == ["k"]
    assert trace.ops["flops"].isna().all()
    if broken in ("garbage", "cut", "nested"):
        (note,) = [note for note in trace.notes if "could not be read" in note]
        assert note.startswith("1 of 1 HLO protos could not be read (jit_f(6)")
        assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["programs", 1, 1]]


def test_a_copy_that_leaves_its_gpu_is_p2p_and_one_that_stays_is_d2d(tmp_path):
    plane = PlaneText("/device:GPU:1")
    for at, dest in enumerate((1, 0)):
        plane.event("Stream #2(MemcpyD2D)", "MemcpyD2D", at, 1, memcpy_details=f"size:5 dest:{dest} async:1")
    assert rows(tmp_path, plane.text(), "direction") == [["D2D"], ["P2P"]]


def rocm(*calls):
    """A GPU plane of ROCm with one copy kernel for each call, and the host that made the calls."""
    plane = PlaneText("/device:GPU:0", device_vendor="AMD")
    host = PlaneText("/host:CPU")
    for at, call in enumerate(calls):
        host.event("thread", call, at, 1, correlation_id=at)
        plane.event("Stream #3(Kernel)", "__amd_rocclr_copyBuffer.kd", 10 + at, 1, correlation_id=at)
    return plane.text() + host.text()


def test_a_copy_kernel_of_rocm_has_the_direction_of_the_call_that_launched_it(tmp_path):
    text = rocm("hipMemcpyHtoDAsync", "hipMemcpyDtoHAsync", "hipLaunchHostFunc", "hipMemcpyDtoDAsync")
    assert rows(tmp_path, text, "kind", "direction") == [
        ["memcpy", "H2D"],
        ["memcpy", "D2H"],
        ["memcpy", None],
        ["memcpy", "D2D"],
    ]


def test_beside_other_gpus_rocm_does_not_tell_a_copy_within_from_one_between_devices(tmp_path):
    text = rocm("hipMemcpyDtoDAsync", "hipMemcpyHtoDAsync") + PlaneText("/device:GPU:1", device_vendor="AMD").text()
    assert rows(tmp_path, text, "direction") == [[None], ["H2D"]]
    assert "gpu:0: 1 device-to-device copies have no direction" in notes(tmp_path, text)[0]


def test_unified_memory_moves_are_copies_and_its_faults_no_rows(tmp_path):
    plane = PlaneText("/device:GPU:0").event("Stream #268435457(UnifiedMemory)", "UM_BYTES_TRANSFER_HTOD", 0, 4)
    plane.event("Stream #268435460(UnifiedMemory)", "UM_GPU_PAGE_FAULT", 1, 9)
    assert rows(tmp_path, plane.text(), "kind", "direction", "known_by") == [["memcpy", "H2D", "stat"]]


def test_held_memory_and_waits_are_no_work_even_on_a_stream(tmp_path):
    plane = PlaneText("/device:GPU:0").event("Stream #0(MemoryResidency)", "kernel", 5, 1)
    plane.event(
        "Stream #0(MemoryResidency)", "Memory device", 0, 900, MemoryResidency_details="kind:device num_bytes:8"
    )
    plane.event("Stream #0(MemoryResidency)", "hipMalloc", 0, 9, memalloc_details="kind:Unknown num_bytes:8")
    plane.event("Stream #0(MemoryResidency)", "cuStreamWaitEvent", 0, 50)
    assert rows(tmp_path, plane.text(), "name") == [["kernel"]]
    assert notes(tmp_path, plane.text()) == (
        "gpu:0: 3 records of memory use and of waiting were skipped: they are not work.",
    )


def test_a_stream_is_called_overhead_for_one_such_event_and_its_kernels_still_count(tmp_path):
    plane = PlaneText("/device:GPU:0").event("CUPTI overhead", "kernel", 0, 10, correlation_id=7)
    plane.event("CUPTI overhead", "BUFFER_FLUSH", 20, 10)
    assert rows(tmp_path, plane.text(), "name") == [["kernel"]]


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
    plane = PlaneText("/device:GPU:0").event(STREAM, name, 0, 1)
    assert rows(tmp_path, plane.text(), "kind", "known_by", "bytes", "ranks") == [["collective", "name", None, None]]


@needs_xla_parser
def test_the_hlo_proto_tells_collectives_with_their_size_and_members_and_that_a_copy_fusion_computes(tmp_path):
    plane = PlaneText("/device:GPU:0", device_vendor="Nvidia")
    for at, (op, kernel) in enumerate(
        [("ags", "ncclDevKernel_Generic"), ("rs-start", "k"), ("fusion.1", "k"), ("copy_fusion", "copy_kernel")]
    ):
        plane.event(STREAM, kernel, at, 1, hlo_op=op, hlo_module="jit_f", program_id=3)
    module = hlo_modules.module().as_serialized_hlo_module_proto()
    text = metadata_plane(jit_f_3=module) + plane.text()
    ring = "0,1,2,3,4,5,6,7"
    assert rows(tmp_path, text, "kind", "known_by", "category", "bytes", "dtype", "ranks", "group") == [
        ["collective", "opcode", "all-gather-start", 64, "bf16", ring, "channel 3"],
        ["collective", "opcode", "reduce-scatter-start", 2048, "f32", ring, "channel 7"],
        ["collective", "opcode", "all-reduce", 256, "f32", "{{0,2,4,6},{1,3,5,7}}", "channel 9"],
        ["compute", "opcode", "fusion", None, None, None, None],
    ]


@needs_xla_parser
def test_a_kernel_of_a_call_is_told_by_its_name_and_a_copy_that_hlo_asked_for_stays_on_the_device(tmp_path):
    plane = PlaneText("/device:GPU:0", device_vendor="AMD")
    plane.event(STREAM, "ncclDevKernel_AllGather", 0, 1, hlo_op="call.2", hlo_module="jit_f", program_id=3)
    plane.event(STREAM, "__amd_rocclr_copyBuffer.kd", 1, 1, hlo_op="copy.in", hlo_module="jit_f", program_id=3)
    text = metadata_plane(jit_f_3=hlo_modules.module().as_serialized_hlo_module_proto()) + plane.text()
    text += PlaneText("/device:GPU:1").event(STREAM, "k", 0, 1, hlo_op="gone", hlo_module="jit_g", program_id=4).text()
    assert rows(tmp_path, text, "kind", "direction", "bytes", "known_by")[:2] == [
        ["collective", None, None, "name"],
        ["memcpy", "D2D", 256, "name"],
    ]
    assert notes(tmp_path, text) == (
        "gpu:1: 1 of 1 distinct ops have no HLO proto: their kernels are classified by name.",
    )


def test_cuda_graphs_that_hide_hlo_names_are_noted_with_their_share_and_the_flag(tmp_path):
    plane = PlaneText("/device:GPU:0").event(STREAM, "a", 0, 30, cuda_graph_id=4)
    plane.event(STREAM, "b", 100, 10, correlation_id=9).event(STREAM, "c", 200, 60, correlation_id=3)
    host = PlaneText("/host:CPU").event("t", "cuGraphLaunch (CudaGraph:5)", 0, 1, correlation_id=9)
    host.event("t", "cuLaunchKernel", 2, 1, correlation_id=3)
    assert notes(tmp_path, plane.text() + host.text()) == (
        "gpu:0: CUDA graphs account for 40.0 % of the busy time, without HLO names (2 of 3 rows). "
        "XLA_FLAGS=--xla_gpu_enable_command_buffer= turns graphs off and restores the names.",
    )


def test_a_graph_recorded_as_a_whole_is_one_row_of_unknown_kind(tmp_path):
    plane = PlaneText("/device:GPU:0").event("Stream #1(CudaGraph)", "CudaGraphExec:5", 0, 30, cuda_graph_exec_id=5)
    assert rows(tmp_path, plane.text(), "name", "kind", "known_by") == [["CudaGraphExec:5", "compute", "nothing"]]
    assert "Each graph is one row: its kernels and copies are not separated." in notes(tmp_path, plane.text())[0]


@needs_xla_parser
def test_graphs_whose_kernels_carry_their_own_hlo_names_need_no_note(tmp_path):
    plane = PlaneText("/device:GPU:0")
    plane.event(STREAM, "a", 0, 30, cuda_graph_id=4, hlo_op="dot", hlo_module="jit_f", program_id=3)
    text = metadata_plane(jit_f_3=hlo_modules.module().as_serialized_hlo_module_proto()) + plane.text()
    assert notes(tmp_path, text) == ()


def test_launches_carry_the_correlation_id_of_their_kernel(tmp_path):
    text = PlaneText("/device:GPU:0").event(STREAM, "k", 9, 1, correlation_id=5).text()
    text += PlaneText("/host:CPU").event("thread", "cuLaunchKernel", 0, 2, correlation_id=5).text()
    trace = read(write(tmp_path / "h.xplane.pb", text))
    assert trace.launches[["name", "correlation_id", "end_ps"]].values.tolist() == [["cuLaunchKernel", 5, 2000]]
    assert trace.events[["correlation_id", "start_ps"]].values.tolist() == [[5, 9000]]
    assert trace.spans["name"].tolist() == ["cuLaunchKernel"]
    path = write(tmp_path / "h.xplane.pb", text.replace("/host:CPU", "/host:CUPTI"))
    assert read(path).launches["name"].tolist() == ["cuLaunchKernel"]
    assert read(path).spans.empty


@pytest.mark.parametrize(
    ("text", "expected", "memory"),
    [
        ("kind_src:pinned kind_dst:device size:112 dest:2 async:1", CopyRecord("pinned", "device", 112), "pinned"),
        ("kind_src:pageable kind_dst:array size:1 dest:2 async:0", CopyRecord("pageable", "array", 1), "pageable"),
        ("kind_src:device kind_dst:pageable size:9 dest:2 async:1", CopyRecord("device", "pageable", 9), "pageable"),
        (
            "kind_src:device kind_dst:device_static size:9 dest:2 async:1",
            CopyRecord("device", "device_static", 9),
            None,
        ),
        ("kind_src:device kind_dst:device size:9 dest:3 async:1", CopyRecord("device", "device", 9, True), None),
        ("kind_src:managed kind_dst:device size:9 dest:2 async:1", CopyRecord("managed", "device", 9), None),
        ("size:6144 dest:2 async:1", CopyRecord(bytes=6144), None),
        ("size:6144 dest:6 async:1", CopyRecord(bytes=6144, leaves=True), None),
        ("src:2 dest:1 size:7", CopyRecord(bytes=7, leaves=True), None),
        ("src:2 dest:2 size:7", CopyRecord(bytes=7), None),
        # ROCm: `dest` counts the processors of the host too, and no size is 0.
        ("kind:Unknown size:655360 dest:4 async:1", CopyRecord(bytes=655360), None),
        ("kind:Unknown size:0 dest:512 async:1", CopyRecord(), None),
        ("kind:Unknown num_bytes:64", CopyRecord(bytes=64), None),
        ("", CopyRecord(), None),
        # Of more than int64 holds, the most that it does, which is told to be no size.
        ("dest:2 size:000012", CopyRecord(bytes=12), None),
        (f"dest:2 size:{2**63}", CopyRecord(bytes=2**63 - 1), None),
        (f"dest:2 size:{10**22}", CopyRecord(bytes=2**63 - 1), None),
        (f"dest:2 size:{'9' * 5000}", CopyRecord(bytes=2**63 - 1), None),
    ],
)
def test_details_tell_ends_and_size_of_a_copy_on_gpu_2(text, expected, memory):
    assert (copy_record(text, ordinal=2), copy_record(text, ordinal=2).host_memory) == (expected, memory)


@pytest.mark.parametrize(
    ("vendor", "minor", "stated", "read_as"),
    [
        ("AMD", 4, 2_662_400_000_000, 5_324_800_000_000),  # MI300X: 5.3 TB/s
        ("AMD", 5, 4_096_000_000_000, 8_192_000_000_000),  # MI355X: 8 TB/s
        ("AMD", 4, 5_324_800_000_000, 5_324_800_000_000),  # should the profiler count four transfers one day
        ("AMD", 0, 1_638_400_000_000, 1_638_400_000_000),  # MI250, whose HBM2e makes two
        ("Nvidia", 0, 3_352_320_000_000, 3_352_320_000_000),
    ],
)
def test_the_memory_bandwidth_of_amds_hbm3_counts_four_transfers_per_clock(vendor, minor, stated, read_as, tmp_path):
    plane = PlaneText(
        "/device:GPU:0", device_vendor=vendor, memory_bandwidth=stated, compute_cap_major=9, compute_cap_minor=minor
    )
    trace = read(write(tmp_path / "h.xplane.pb", plane.event("Stream #1(Kernel)", "k", 0, 10).text()))
    assert trace.devices["memory_bandwidth_bytes_per_s"].tolist() == [read_as]
    assert [note for note in trace.notes if "memory bandwidth" in note] == (
        []
        if stated == read_as
        else [
            "The memory bandwidth of gpu:0 is twice what the profiler states, which counts two transfers per clock "
            "where HBM3 makes four."
        ]
    )
