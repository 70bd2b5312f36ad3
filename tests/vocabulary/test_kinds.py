"""What an operation is, by order of trust: HLO opcode, the profiler's word on copies, the stream, the name.

`python tests/vocabulary/test_kinds.py` renews the table in docs/kinds.md.
"""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vocabulary.collective_names import KERNELS
from tracekit.vocabulary import kinds
from tracekit.vocabulary.collectives import OPCODES
from tracekit.vocabulary.kinds import (
    TABLE,
    Classification,
    Kind,
    KnownBy,
    classify,
    is_control_flow,
    stem,
)

PAGE = Path(__file__).parents[2] / "docs" / "kinds.md"

COPIES = {
    "MemcpyH2D": "H2D",
    "MemcpyP2P": "P2P",
    "MemcpyOther": None,
    "MEMCPYDtoH": "D2H",
    "Memcpy HtoD (Pinned -> Device)": "H2D",
    "Memcpy DtoH (Device -> Pageable)": "D2H",
    "Memcpy PtoP (Device -> Device)": "P2P",
    "[CUDA memcpy HtoD]": "H2D",
    "[CUDA memcpy Device-to-Host]": "D2H",
    "[CUDA memcpy Peer-to-Peer]": "P2P",
    "[CUDA Unified Memory memcpy HtoD]": "H2D",
    "CUDA_MEMCPY_KIND_DTOD": "D2D",
    "hipMemcpyAsync": None,
    "hipMemcpyDtoHAsync": "D2H",
    "MEMORY_COPY_HOST_TO_DEVICE": "H2D",
    "CopyDeviceToDevice": "D2D",
    "HostToDeviceCopy": "H2D",
    "__amd_rocclr_copyBuffer.kd": None,
    "__amd_rocclr_copyBufferRectAligned": None,
    "CopyCPU2GPU": "H2D",
    "CopyGPU2CPU": "D2H",
    "CopyCPU2CPU": None,
    "CopyGPU2GPU": None,
    "copy-start.3": None,
    "dynamic-update-slice-done.2": None,
    "infeed.3": "H2D",
    "outfeed": "D2H",
}
MEMSETS = [
    "Memset",
    "Memset (Device)",
    "[CUDA memset]",
    "MemsetD32",
    "hipMemsetAsync",
    "__amd_rocclr_fillBufferAligned2D",
]
# What looks like a collective or a copy, and is none; and what plainly computes.
COMPUTE = [
    "void splitKreduce_kernel<32, 16, int, float, float, float, float, true, false, false>(cublasSplitKParams<float>)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>(int)",
    "reduce_kernel",
    "void cub::DeviceReduceKernel<cub::DeviceReducePolicy<float>>(float*)",
    "void cub::DeviceReduceByKeyKernel<cub::DispatchReduceByKey<long*>>(long*)",
    "reduce_1Block_kernel",
    "void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>(int)",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 1, 128, 1>(float*)",
    "void at::native::_scatter_gather_elementwise_kernel<128, 4>(int)",
    "copy_fusion",
    "loop_copy_fusion",
    "copy.3",
    "memcpy_kernel",
    "void memset_kernel<float>(float*)",
    "memcpy32_post",
    "scatter_reduce",
    "index_reduce_cuda",
    "small_reduce_kernel",
    "smallReduceKernel",
    "void overall_gather<int>(int*)",
    "block_all_reduce_sum_f32_f32_kernel",
    "void warpAllReduce<float>(float*)",
    "triton_poi_fused_all_reduce_0",
    "triton_red_fused_add_all_gather_into_tensor_4",
    "my_sendrecv_buffer_pack",
    "pack_before_nccl",
    "receive_buffer_kernel",
    "send_kernel",
    "dispatch",
    "void combine<float>(float*)",
    "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)",
    "deep_ep::elastic::dispatch_copy_epilogue_impl",
    "void deep_ep::internode_ll::clean_low_latency_buffer<256>(int*)",
    "void tensorrt_llm::kernels::moe_alltoall::moeA2APrepareDispatchKernel(int)",
    "void flashinfer::trtllm_allreduce::reduce_fusion::rms_norm_kernel<float>(float*)",
    "void consume<ncclDevKernelArgsStorage<4096ul>>(ncclDevComm*)",
    "broadcast_add_fusion",
    "broadcast.2",
    "prefix_psum_kernel",
    "barrier_cores",
    "Cijk_Ailk_Bljk_BBS_BH_MT256x128x64_MI16x16x16x1_SN_1LDSB0.kd",
    "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(int)",
    "_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionEEEvv",
    "",
]


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_communication_libraries_and_collective_ops_are_collectives(name):
    assert classify(name) == classify(name, typed=Kind.COMPUTE) == Classification(Kind.COLLECTIVE, None, KnownBy.NAME)


@pytest.mark.parametrize(("name", "way"), COPIES.items())
def test_the_names_that_drivers_and_profilers_give_copies_are_copies(name, way):
    assert classify(name) == Classification(Kind.MEMCPY, way, KnownBy.NAME)


@pytest.mark.parametrize("name", ["_ZN" + "9" * 5000, "_ZN3" + "1" * 5000, "ncclKernel" + "<" * 10**6])
def test_names_of_any_length_are_judged(name):
    assert classify(name).kind == (Kind.COLLECTIVE if name.startswith("nccl") else Kind.COMPUTE)


@given(
    st.one_of(st.text(max_size=40), st.text("alreducgthsnm_:<>(). ", max_size=40)),
    st.none() | st.sampled_from(["all-reduce", "copy-start", "fusion", "custom-call", ""]),
    st.none() | st.sampled_from(list(Kind)),
    st.sampled_from(["", "Stream #1(MemcpyH2D)", "Stream #1(Compute)", "Stream #"]),
)
def test_any_text_is_judged_and_only_copies_have_a_direction(name, opcode, typed, lane):
    classification = classify(name, opcode=opcode, typed=typed, lane=lane)
    assert classification.direction is None or classification.kind == Kind.MEMCPY


@pytest.mark.parametrize("name", MEMSETS)
def test_memsets_are_memsets(name):
    assert classify(name) == Classification(Kind.MEMSET, None, KnownBy.NAME)


@pytest.mark.parametrize("name", COMPUTE)
def test_names_that_only_look_like_communication_or_copies_are_compute(name):
    assert classify(name).kind == classify(name, typed=Kind.COMPUTE).kind == Kind.COMPUTE


@pytest.mark.parametrize(
    ("opcode", "name", "kind", "way"),
    [
        ("all-reduce", "psum.6", "collective", None),
        ("all-reduce", "MemcpyP2P", "collective", None),
        ("all-gather-start", "ag", "collective", None),
        ("all-reduce-scatter fusion", "fusion.3", "collective", None),
        ("ragged-all-to-all", "r", "collective", None),
        ("send-done", "s", "collective", None),
        ("fusion", "all_reduce_scatter_fusion", "compute", None),
        ("loop fusion", "all-reduce.7", "compute", None),
        ("copy", "copy.1", "compute", None),
        ("copy-done", "x", "memcpy", None),
        ("infeed", "infeed.3", "memcpy", "H2D"),
        ("outfeed", "outfeed.3", "memcpy", "D2H"),
        ("host send-done", "send-done.1", "memcpy", "D2H"),
        ("host recv", "recv.1", "memcpy", "H2D"),
        ("slice", "slice.1", "compute", None),
        ("slice-start", "x", "memcpy", None),
        ("broadcast", "broadcast.2", "compute", None),
    ],
)
def test_the_opcode_counts_more_than_the_name(opcode, name, kind, way):
    assert classify(name, opcode=opcode) == Classification(kind, way, KnownBy.OPCODE)


@pytest.mark.parametrize(
    ("opcode", "name", "kind"),
    [
        ("copy", "__amd_rocclr_copyBuffer.kd", "memcpy"),
        ("fusion", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "collective"),
        ("custom-call", "void deep_ep::intranode::combine<__nv_bfloat16, 8>(int)", "collective"),
        ("custom-call", "my_all_reduce_kernel", "collective"),
        ("async-done", "all-gather-done.3", "collective"),
        ("async-start", "slice-start.1", "memcpy"),
    ],
)
def test_the_kernel_that_ran_counts_more_than_an_opcode_that_decides_nothing(opcode, name, kind):
    assert (classify(name, opcode=opcode).kind, classify(name, opcode=opcode).known_by) == (kind, "name")


def test_a_custom_call_of_an_unknown_name_is_only_taken_for_compute():
    assert classify("my_kernel", opcode="custom-call") == Classification(Kind.COMPUTE, None, KnownBy.NOTHING)


@pytest.mark.parametrize(
    ("lane", "expected"),
    [
        ("Stream #8(MemcpyH2D)", Classification(Kind.MEMCPY, "H2D", KnownBy.STREAM)),
        ("Stream #8(MemcpyOther)", Classification(Kind.MEMCPY, None, KnownBy.STREAM)),
        ("Stream #8(MemcpyH2D,MemcpyD2H)", Classification(Kind.MEMCPY, None, KnownBy.STREAM)),
        ("Stream #8(Memset)", Classification(Kind.MEMSET, None, KnownBy.STREAM)),
        ("Stream #8(MemcpyD2D,Memset)", Classification(Kind.MEMCPY, "D2D", KnownBy.STREAM)),
        ("Stream #8(Compute)", Classification(Kind.COMPUTE, None, KnownBy.NOTHING)),
        ("Stream #8(Compute,MemcpyH2D)", Classification(Kind.COMPUTE, None, KnownBy.NOTHING)),
        ("Stream #16(Kernel)", Classification(Kind.COMPUTE, None, KnownBy.NOTHING)),
        ("Stream #2", Classification(Kind.COMPUTE, None, KnownBy.NOTHING)),
    ],
)
def test_a_stream_of_copies_tells_what_its_events_are_and_a_stream_of_kernels_does_not(lane, expected):
    assert classify("event", lane=lane) == expected


def test_the_stream_counts_more_than_the_name_and_less_than_the_record():
    assert classify("Memset", lane="Stream #8(MemcpyH2D)") == Classification(Kind.MEMCPY, "H2D", KnownBy.STREAM)
    assert classify("Memset", lane="Stream #8(MemcpyH2D,Memset)") == Classification(Kind.MEMSET, None, KnownBy.NAME)
    copy = classify("copy", opcode="copy", lane="Stream #8(MemcpyD2D)")
    assert copy == Classification(Kind.MEMCPY, "D2D", KnownBy.STREAM)
    memset = classify("event", typed=Kind.MEMSET, lane="Stream #8(MemcpyH2D)")
    assert memset == Classification(Kind.MEMSET, None, KnownBy.STAT)


def test_a_copy_takes_its_direction_from_its_record_then_its_name_then_its_stream():
    stream = "Stream #3(MemcpyD2H)"
    assert classify("MemcpyH2D", typed=Kind.MEMCPY, direction="P2P", lane=stream).direction == "P2P"
    assert classify("MemcpyH2D", typed=Kind.MEMCPY, lane=stream).direction == "H2D"
    assert classify("copy", typed=Kind.MEMCPY, lane=stream).direction == "D2H"
    assert classify("copy", typed=Kind.MEMCPY, lane="Stream #3(MemcpyD2H,MemcpyH2D)").direction is None
    assert classify("k", typed=Kind.COMPUTE, direction="H2D").direction is None


@pytest.mark.parametrize(
    ("opcode", "name", "is_one"),
    [
        ("while", "anything", True),
        ("megacore fusion", "fusion.1", True),
        ("fusion", "while.5", False),
        (None, "while.5", True),
        (None, "cond", False),
        (None, "conditional.2.clone", True),
        (None, "call_kernel", False),
    ],
)
def test_control_flow_is_told_by_opcode_and_by_name_only_without_one(opcode, name, is_one):
    assert is_control_flow(opcode, name) is is_one


@pytest.mark.parametrize("opcode", sorted(OPCODES))
def test_every_collective_opcode_is_one_by_the_table_whole_or_half(opcode):
    for form in (opcode, f"{opcode}-start", f"{opcode}-done"):
        assert classify("x", opcode=form) == Classification(Kind.COLLECTIVE, None, KnownBy.OPCODE)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.example)
def test_the_example_of_every_row_is_decided_by_its_level_and_kind(row):
    classification = {
        KnownBy.OPCODE: lambda: classify("x", opcode=row.example),
        KnownBy.STAT: lambda: classify("x", typed=Kind(row.example)),
        KnownBy.STREAM: lambda: classify("x", lane=row.example),
        KnownBy.NAME: lambda: classify(row.example),
    }[row.level]()
    assert (classification.kind, classification.known_by) == (row.kind, row.level)


def table() -> str:
    """The rows of TABLE in Markdown."""
    lines = ["| source | pattern | kind | example |", "| --- | --- | --- | --- |"]
    for row in TABLE:
        kind = row.kind.value + (f" ({row.which})" if row.which else "")
        pattern = row.pattern.replace("|", "\\|")
        lines.append(f"| {row.level.value} | `{pattern}` | {kind} | `{row.example}` |")
    return "\n".join(lines)


def test_the_docs_hold_the_table():
    assert table() in PAGE.read_text("utf-8")


if __name__ == "__main__":
    text = PAGE.read_text("utf-8")
    PAGE.write_text(re.sub(r"(?<=\n)\| source.*?(?=\n\n)", lambda _: table(), text, count=1, flags=re.DOTALL), "utf-8")


def test_a_stem_has_no_number_of_xla():
    names = ("fusion.17", "copy-start.1.2", "fusion", "v1.2", ".5")
    assert [stem(name) for name in names] == ["fusion", "copy-start", "fusion", "v1", ".5"]


@pytest.mark.parametrize("example", sorted({row.example for row in TABLE} | COPIES.keys() | {"my_kernel", "fusion"}))
def test_no_row_tells_apart_the_numbers_at_the_ends_of_names(example):
    for end in (".1", ".22", "_2", "_2048", ".3.007", "_2d_8"):
        name = f"{example}{end}"
        assert kinds.row(name) is kinds._row(name, "", "", "")
