"""One table that decides what a device's operation computes: a matmul, attention, a transpose and so on.

Order of trust: the row's kind (`kinds.TABLE`) tells collectives, copies and memsets; of compute, the HLO opcode or
category where it decides by itself; then what a kernel's own name says; then the operator of the framework that asked
for it, since an operator runs kernels of several patterns (a convolution transposes its input first). A fusion that
none of them tells is elementwise. Attention that a compiler took apart into matmuls and a softmax shows as these.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from tracekit.vocabulary.kinds import Kind, base_opcode, stem, words


class Pattern(StrEnum):
    """What an operation does; `OTHER`: nothing tells."""

    ATTENTION = "attention"
    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    NORMALISATION = "normalisation"
    SOFTMAX = "softmax"
    EMBEDDING = "gather/scatter"
    OPTIMIZER = "optimizer"
    REDUCTION = "reduction"
    SORT = "sort"
    RANDOM = "random"
    TRANSPOSE = "transpose"
    ELEMENTWISE = "elementwise"
    COLLECTIVE = "collective"
    COPY = "copy"
    MEMSET = "memset"
    OTHER = "other"


class Level(StrEnum):
    """What a row of TABLE is sought in.

    OPCODE: the whole HLO opcode or category, of an async pair without its half. NAME: the words of a kernel's own name,
    as `kinds.words` gives them. SIGNATURE: all words of its name, template arguments and parameters too. OPERATOR: the
    last part of the framework's name for the operation (`dot_general` of `jit(f)/jit(main)/dot_general`). SCOPE: the
    opcode, a colon, and that whole name. Each in lower case.
    """

    OPCODE = "opcode"
    NAME = "name"
    SIGNATURE = "signature"
    OPERATOR = "operator"
    SCOPE = "scope"


@dataclass(frozen=True)
class Row:
    """One line of TABLE: where its regular expression is sought (an OPCODE must match as a whole), the pattern that
    follows, and an example that it matches."""

    level: Level
    pattern: Pattern
    regex: str
    example: str


OPCODE, NAME, SIGNATURE, OPERATOR, SCOPE = Level
ATTENTION, MATMUL, CONVOLUTION, NORMALISATION, SOFTMAX, EMBEDDING, OPTIMIZER, REDUCTION, SORT, RANDOM = [*Pattern][:10]
TRANSPOSE, ELEMENTWISE = Pattern.TRANSPOSE, Pattern.ELEMENTWISE

# The first row that matches decides: where it is sought, the pattern, what it matches, an example.
# Opcodes: xla/hlo/ir/hlo_opcode.h; HLO categories: tsl/profiler/convert/xla_op_utils.h. On TPU a dot is a convolution,
# so its framework operator tells which. Operators: jax.lax's primitives, ATen's native_functions.yaml.
# fmt: off
TABLE = tuple(Row(*row) for row in (
    (OPCODE,    MATMUL,        r"dot|ragged-dot|scaled-dot",                   "dot"),
    (SCOPE,     MATMUL,        r"^convolution( fusion)?:.*(dot_general|einsum|matmul|,\w+->)[^/]*$",
                               "convolution fusion:jit(f)/dot_general"),
    (OPCODE,    CONVOLUTION,   r"convolution( fusion)?",                       "convolution fusion"),
    (OPCODE,    REDUCTION,     r"reduce|reduce-window",                        "reduce"),
    (OPCODE,    EMBEDDING,     r"gather|scatter|select-and-scatter|dynamic-(update-)?slice", "dynamic-update-slice"),
    (OPCODE,    SORT,          r"sort|topk",                                   "sort"),
    (OPCODE,    RANDOM,        r"rng.*",                                       "rng-bit-generator"),
    (OPCODE,    NORMALISATION, r"batch-norm.*",                                "batch-norm-training"),
    (OPCODE,    TRANSPOSE,     r"transpose|copy|data formatting|reshape|bitcast|concatenate|pad|"
                               r"slice|reverse",                               "data formatting"),
    (OPCODE,    ELEMENTWISE,   r"broadcast|iota|convert|select|map|clamp|compare|"
                               r"non-fusion elementwise|add|subtract|multiply|divide|maximum|minimum|"
                               r"power|negate|exponential.*|log.*|tanh|sqrt|rsqrt|and|or|not|xor",
                               "non-fusion elementwise"),
    # Names of kernels. First what names itself after more than it is: a kernel of attention that reduces is attention.
    (NAME,      ATTENTION,     r"attention|attn|\bflash (fwd|bwd)|\bfmha|\bmha\b|\bmla\b|^rpa\b|"
                               r"paged kv|kv ?cache|\bsdpa|splash",            "flash_fwd_kernel"),
    (SIGNATURE, ATTENTION,     r"\bflash (fwd|bwd|attn)|\bfmha|attention",     "cutlass::device_kernel<FmhaKernel>"),
    (SCOPE,     ATTENTION,     r"^custom-call:.*(attention|attn|mha)",         "custom-call:jit(f)/flash_attention"),
    (NAME,      OPTIMIZER,     r"\b(fused )?(adam|adamw|sgd|lamb|adagrad|rmsprop|lion|"
                               r"momentum)( mom)? (update|step)|fused (adam|sgd|adagrad|lamb)|"
                               r"^multi sgd",                                  "multi_sgd_update"),
    (SIGNATURE, OPTIMIZER,     r"multi tensor apply.*(adam|sgd|lamb|adagrad|l2norm|lars)",
                               "multi_tensor_apply_kernel<AdamFunctor>"),
    (OPERATOR,  OPTIMIZER,     r"_fused_(adam|sgd|adagrad)",                   "aten::_fused_adamw_"),
    (NAME,      ELEMENTWISE,   r"rotary|\brope\b",                             "rotary_embedding_kernel"),
    (NAME,      EMBEDDING,     r"embedding|\bembs?\b|\bgather\b|\bscatter\b|index (put|select|add|"
                               r"copy|elementwise|func|kernel)|indexing|linearize index|\btake\b|"
                               r"\bpick\b|permute \d ?d|bounds check indices|dynamic (update )?slice",
                               "indexing_backward_kernel"),
    (NAME,      NORMALISATION, r"(layer|batch|group|instance|rms) ?norm|\bbn (fw|bw)|\bnorm(alize|"
                               r"alization)?\b|gamma beta",                    "vectorized_layer_norm_kernel"),
    (NAME,      SOFTMAX,       r"soft ?max|cross entropy|nll loss",            "cunn_SoftMaxForward"),
    (NAME,      SORT,          r"\bsort|radix|top ?k|bitonic|merge sort",      "DeviceRadixSortOnesweepKernel"),
    (NAME,      RANDOM,        r"random|philox|threefry|dropout|distribution|curand|bernoulli",
                               "FillPhiloxRandomKernelLaunch"),
    (NAME,      TRANSPOSE,     r"\btransposes?\b|n[cd]?hwc? ?to ?n|nhwc? ?2 ?n|\bpermute|cat array|"
                               r"\bconcat|im\d?d?2col|im ?3 ?d ?2 ?col|col2im|^(copy|"
                               r"reshape)( bitcast)? fusion|^stack$|image to tensor", "nchwToNhwcKernel"),
    (NAME,      CONVOLUTION,   r"\bconv\d?d?\b|convol|[dw]grad|fprop|winograd|implicit ?gemm|scudnn|"
                               r"miopen ?sp",                                  "sm80_xmma_fprop_implicit_gemm"),
    (SIGNATURE, CONVOLUTION,   r"\bconv(\d ?d|olution\w*)?\b|[dw]grad|fprop", "cutlass_cudnn::Kernel<s1688fprop_nhwc>"),
    (NAME,      ELEMENTWISE,   r"elementwise|multi tensor apply",              "vectorized_elementwise_kernel<4>"),
    (NAME,      REDUCTION,     r"\breduce|reduction|\bsum\b|\bmean\b|arg ?m(ax|in)|\bscan\b|cumsum|"
                               r"split ?k ?reduce|pool(ing)?\b",               "reduce_kernel<512>"),
    # A convolution may run as a gemm, so its operator counts more than that name.
    (OPERATOR,  CONVOLUTION,   r"conv(\d ?d|olution|_general_dilated|_depthwise|_transpose)",
                               "aten::cudnn_convolution"),
    (NAME,      MATMUL,        r"gemm|gemv|matmul|\bmm\b|\bdot\b|^(cijk|nvjet)\b|fully ?connected|"
                               r"linear kernel|cublas",                        "volta_sgemm_128x32_nt"),
    (SIGNATURE, MATMUL,        r"gemm|gemv|matmul", "cutlass::Kernel<cutlass_80_s1688gemm_nt>"),
    (SIGNATURE, NORMALISATION, r"(layer|batch|group|rms) ?norm|welford",       "Kernel<WelfordOps<float>>"),
    (SIGNATURE, SOFTMAX,       r"soft ?max",                                   "Kernel<SoftMaxForward>"),
    (SIGNATURE, RANDOM,        r"philox|random",                               "Kernel<PhiloxRandom>"),
    (SIGNATURE, EMBEDDING,     r"\b(gather|scatter)\b",                        "Kernel<GatherOp>"),
    (SIGNATURE, TRANSPOSE,     r"eigen meta kernel.*(shuffling|padding|slicing|striding|"
                               r"concatenation) op",                           "EigenMetaKernel<TensorShufflingOp<1>>"),
    (SIGNATURE, REDUCTION,     r"reduce|reduction|\bscan",                     "trampoline_kernel<scan_config>"),
    (SIGNATURE, ELEMENTWISE,   r"eigen meta kernel.*(cwise|conversion|assign|broadcasting)",
                               "EigenMetaKernel<TensorCwiseBinaryOp<1>>"),
    # What the framework asked for, where neither opcode nor name says; a loop fusion holds no matmul.
    (SCOPE,     MATMUL,        r"^(?!(loop|input|output) fusion:|data formatting:).*(dot_general|"
                               r"einsum|matmul|::(add|b|bad)*b?mm\b|::linear\b)[^/]*$", "fusion:jit(f)/dot_general"),
    (OPERATOR,  ATTENTION,     r"attention|attn|_sdpa", "aten::_scaled_dot_product_flash_attention"),
    (OPERATOR,  EMBEDDING,     r"embedding|gather|scatter|index_|dynamic_(update_)?slice|take", "scatter-add"),
    (OPERATOR,  NORMALISATION, r"(layer|batch|group|rms)_?norm",               "aten::native_layer_norm"),
    (OPERATOR,  SOFTMAX,       r"soft_?max|cross_entropy|nll_loss",            "aten::_softmax"),
    (OPERATOR,  SORT,          r"\bsort|top_?k",                               "top_k"),
    (OPERATOR,  RANDOM,        r"random|rng|threefry|bernoulli|dropout",       "random_bits"),
    (OPERATOR,  REDUCTION,     r"^reduce_|^arg(max|min)|^cum(sum|max|prod)|::(sum|mean|cumsum|argmax|"
                               r"max|min|norm)\b",                             "reduce_sum"),
    (OPERATOR,  TRANSPOSE,     r"^(transpose|reshape|concatenate|pad|squeeze|rev)$|::(cat|stack|"
                               r"permute)\b",                                  "transpose"),
    # An XLA kernel is called after the ops in it; and what is fused and none of these is a loop over elements.
    (NAME,      ELEMENTWISE,   r"fusion|^wrapped |^triton poi |\b(activation|relu|gelu|silu|sigmoid|"
                               r"tanh|add|mul|copy|fill|cast|convert|broadcast|rotary|quantize\w*|"
                               r"zeros|ones|arange|clamp|set value)\b",        "loop_add_fusion"),
    (OPCODE,    ELEMENTWISE,   r"(loop |input |output |custom )?fusion",       "loop fusion"),
    (OPERATOR,  ELEMENTWISE,   r"^(add|sub|mul|div|max|min|exp|log|tanh|neg|sqrt|rsqrt|pow|"
                               r"integer_pow|select_n|convert_element_type|broadcast_in_dim)|::(add|"
                               r"sub|mul|div|copy|fill|zero|pow|sqrt|neg|exp|gelu|silu|relu|"
                               r"sigmoid)_?\b",                                "aten::copy_"),
))
# fmt: on

_TABLE = tuple((row, re.compile(row.regex)) for row in TABLE)
_OF_KIND = {Kind.COLLECTIVE: Pattern.COLLECTIVE, Kind.MEMCPY: Pattern.COPY, Kind.MEMSET: Pattern.MEMSET}
_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])|[^A-Za-z0-9]+")
# Template arguments may be longer than any name needs to be told.
_LONGEST = 600


def pattern(name: str, kind: Kind = Kind.COMPUTE, opcode: str | None = None, operator: str | None = None) -> Pattern:
    """What an operation of a kind does, by TABLE.

    `name` is that of its row, `opcode` its HLO opcode or category, `operator` the framework's name for it, each where
    known.
    """
    if kind in _OF_KIND:
        return _OF_KIND[kind]
    match = row(stem(name)[:_LONGEST], base_opcode(opcode or ""), operator or "")
    return match.pattern if match else Pattern.OTHER


@lru_cache(2**14)
def row(name: str, opcode: str = "", operator: str = "") -> Row | None:
    """The first row of TABLE that matches an op that computes; None for none."""
    opcode, operator = opcode.lower(), operator.lower()
    is_signature = "<" in name or name.startswith("_Z")
    texts = {
        OPCODE: opcode,
        NAME: words(name),
        SIGNATURE: _BOUNDARY.sub(" ", name).lower() if is_signature else "",
        OPERATOR: operator.rpartition("/")[2],
        SCOPE: f"{opcode}:{operator}",
    }
    for candidate, regex in _TABLE:
        text = texts[candidate.level]
        if text and (regex.fullmatch(text) if candidate.level == OPCODE else regex.search(text)):
            return candidate
    return None
