"""What operations compute, told by their kind, opcode, name and operator."""

import pytest

from tests.docs.blocks import ROOT
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.patterns import TABLE, Level, Pattern, pattern, row


@pytest.mark.parametrize("expected", TABLE, ids=lambda each: f"{each.level.value} {each.example}")
def test_the_example_of_every_row_is_decided_by_that_row(expected):
    opcode, _, operator = expected.example.partition(":")
    matches = {
        Level.OPCODE: lambda: row("x", opcode=expected.example),
        Level.NAME: lambda: row(expected.example),
        Level.SIGNATURE: lambda: row(expected.example),
        Level.OPERATOR: lambda: row("x", operator=expected.example),
        Level.SCOPE: lambda: row("x", opcode=opcode, operator=operator),
    }
    assert matches[expected.level]() == expected


@pytest.mark.parametrize(
    ("name", "opcode", "operator", "expected"),
    [
        ("convolution_bitcast_fusion.63", "convolution fusion", "jit(f)/mn,pn->mp/dot_general", "matmul"),
        ("fusion.7", "convolution fusion", "jit(f)/conv_general_dilated", "convolution"),
        ("fusion.8", "loop fusion", "jit(f)/dot_general", "elementwise"),
        ("multiply_reduce_fusion", "loop fusion", "jit(f)/reduce_sum", "reduction"),
        ("RPA-bq_32-bkvp_64-p_64-.1", "custom-call", "jit(f)/ragged_paged_attention/pallas_call", "attention"),
        ("input_transpose_fusion.kd", "fusion", "jit(f)/conv_general_dilated", "transpose"),
        ("ynn_fusion", "fusion", "jit(f)/while/body/dot_general", "matmul"),
        ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128>>(Params)", None, None, "attention"),
        ("void cutlass::Kernel<cutlass_80_s1688gemm_64x64>(P)", None, "aten::cudnn_convolution", "convolution"),
        ("void cutlass::Kernel<cutlass_80_s1688gemm_64x64>(P)", None, "aten::mm", "matmul"),
        ("void cudnn::ops::nchwToNhwcKernel<float>(P)", None, "aten::cudnn_convolution", "transpose"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>()", None, None,
         "elementwise"),
        ("void Eigen::internal::EigenMetaKernel<TensorConversionOp<half>>()", None, None, "elementwise"),
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16b", None, None, "normalisation"),
        ("my_kernel(double *, int)", None, "saxpy", "other"),
    ],
)  # fmt: skip
def test_names_of_real_traces_have_their_pattern(name, opcode, operator, expected):
    assert pattern(name, opcode=opcode, operator=operator) == expected


def test_the_kind_of_a_row_counts_more_than_its_name():
    assert pattern("gemm", Kind.COLLECTIVE) == Pattern.COLLECTIVE
    assert pattern("gemm", Kind.MEMCPY) == Pattern.COPY
    assert pattern("gemm", Kind.MEMSET) == Pattern.MEMSET


def test_every_pattern_is_documented():
    page = (ROOT / "docs" / "top-operations.md").read_text("utf-8")
    assert [each.value for each in Pattern if f"| `{each.value}` |" not in page] == []
