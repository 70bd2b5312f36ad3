"""What an operation is, by order of trust: HLO opcode, the profiler's word on copies, the stream, the name."""

import pytest

from tracekit.kinds import classify, copy_direction, is_control_flow
from tracekit.trace import Kind


@pytest.mark.parametrize(
    ("opcode", "name", "kind", "way"),
    [
        ("all-reduce", "psum.6", "collective", None),
        ("all-gather-start", "ag", "collective", None),
        ("ragged-all-to-all", "r", "collective", None),
        ("send-done", "s", "collective", None),
        ("fusion", "all_reduce_scatter_fusion", "compute", None),
        ("copy", "copy.1", "compute", None),
        ("infeed", "infeed.3", "memcpy", "H2D"),
        ("outfeed", "outfeed.3", "memcpy", "D2H"),
        (None, "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "collective", None),
        (None, "rcclGenericKernel", "collective", None),
        (None, "recv-done.2", "collective", None),
        (None, "receive_buffer_kernel", "compute", None),
        (None, "MemcpyP2P", "memcpy", "P2P"),
        (None, "Memset", "memset", None),
        (None, "__amd_rocclr_fillBufferAligned.kd", "memset", None),
        (None, "void cutlass::Kernel2<...>", "compute", None),
    ],
)
def test_kind_and_direction(opcode, name, kind, way):
    found = classify(name, opcode=opcode)
    assert (found.kind, found.direction) == (kind, way)


def test_a_copy_without_a_telling_name_takes_its_direction_from_its_stream():
    assert classify("copy", typed=Kind.MEMCPY, lane="Stream #3(MemcpyD2H)").direction == "D2H"
    assert classify("copy", typed=Kind.MEMCPY, lane="Stream #3(MemcpyD2H,MemcpyH2D)").direction is None


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("Memcpy DtoH (Device -> Pinned)", "D2H"),
        ("cudaMemcpyHostToDevice", "H2D"),
        ("both H2D and D2H", None),
        ("", None),
    ],
)
def test_directions_are_read_from_labels_that_name_exactly_one(text, way):
    assert copy_direction(text) == way


@pytest.mark.parametrize(
    ("opcode", "name", "is_one"),
    [
        ("while", "anything", True),
        ("fusion", "while.5", False),
        (None, "while.5", True),
        (None, "cond", False),
        (None, "conditional.2.clone", True),
        (None, "call_kernel", False),
    ],
)
def test_control_flow_is_told_by_opcode_and_by_name_only_without_one(opcode, name, is_one):
    assert is_control_flow(opcode, name) is is_one
