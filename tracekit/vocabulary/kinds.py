"""One table that decides what an operation is: compute, collective, memcpy or memset, and in which direction it copies.

Order of trust: the user's rules, the HLO opcode or category, the profiler's own record, the stream's label, the name.
Names come last because they lie: 128 of 129 all-reduces of a real TPU trace are called `psum.N`. One exception: an
opcode such as `fusion` or `copy` says what was asked for, and the kernel of a communication library or of the driver
says what ran instead, so those names are read before an opcode that decides nothing by itself.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import categorical
from tracekit.vocabulary import copies


class Kind(StrEnum):
    """What a device was doing during an interval."""

    COMPUTE = "compute"
    COLLECTIVE = "collective"
    MEMCPY = "memcpy"
    MEMSET = "memset"


class KnownBy(StrEnum):
    """What told the kind of an operation, the most trustworthy first; `NOTHING`: taken for compute by default."""

    RULE = "rule"
    OPCODE = "opcode"
    STAT = "stat"
    STREAM = "stream"
    NAME = "name"
    NOTHING = "nothing"


UNNAMED, UNNAMED_KERNEL = "(unnamed)", "unnamed kernel"
NAMELESS = (UNNAMED, UNNAMED_KERNEL, "")
"""What work is called whose name is lost."""


@dataclass(frozen=True)
class Classification:
    """What an operation is, the direction it copies in (memcpy only), and what told its kind."""

    kind: Kind
    direction: str | None
    known_by: KnownBy


# One object for all that are alike: of 500,000 names these would take some 30 MB.
_shared = lru_cache(2**7)(Classification)


@dataclass(frozen=True)
class Row:
    """One line of TABLE.

    `pattern` is a regular expression. It must match the whole HLO opcode (of an async pair: without its `-start`,
    `-update` or `-done`), the whole kind in the profiler's record, or all of the types in a stream's label, each in
    lower case; or be found in the words of a kernel's own name (`ncclDevKernel_AllReduce<…>(…)` is "nccl dev kernel all
    reduce"), or, if it holds a `::`, in the name with its namespaces. `which` is the category of a collective in HLO
    terms or the direction of a copy, where that follows. `example` is one that it matches.
    """

    level: KnownBy
    kind: Kind
    which: str | None
    pattern: str
    example: str


def columns(classifications: Sequence[Classification], which: NDArray[np.int64]) -> dict[str, pd.Categorical]:
    """The columns kind, direction and known_by of rows that are `classifications[which]`, `which` (n,)."""
    return {
        "kind": categorical([each.kind.value for each in classifications], which),
        "direction": categorical([each.direction for each in classifications], which),
        "known_by": categorical([each.known_by.value for each in classifications], which),
    }


OPCODE, STAT, STREAM, NAME = KnownBy.OPCODE, KnownBy.STAT, KnownBy.STREAM, KnownBy.NAME
COMPUTE, COLLECTIVE, MEMCPY, MEMSET = Kind.COMPUTE, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET

# The first row that matches decides: level, kind, category or direction, what it matches, an example.
# Opcodes: xla/hlo/ir/hlo_opcode.h; HLO categories: tsl/profiler/convert/xla_op_utils.h.
# fmt: off
TABLE = tuple(Row(*row) for row in (
    (OPCODE, COLLECTIVE, "all-reduce",           r"all-reduce( fusion)?",             "all-reduce-start"),
    (OPCODE, COLLECTIVE, "all-gather",           r"all-gather( fusion)?",             "all-gather-done"),
    (OPCODE, COLLECTIVE, "reduce-scatter",       r"reduce-scatter|all-reduce-scatter fusion", "reduce-scatter"),
    (OPCODE, COLLECTIVE, "all-to-all",           r"all-to-all",                       "all-to-all"),
    (OPCODE, COLLECTIVE, "ragged-all-to-all",    r"ragged-all-to-all",                "ragged-all-to-all"),
    (OPCODE, COLLECTIVE, "collective-permute",   r"collective-permute",               "collective-permute"),
    (OPCODE, COLLECTIVE, "collective-broadcast", r"collective-broadcast",             "collective-broadcast"),
    (OPCODE, COLLECTIVE, "send",                 r"send",                             "send-done"),
    (OPCODE, COLLECTIVE, "recv",                 r"recv",                             "recv-done"),
    (OPCODE, MEMCPY,     "H2D",                  r"infeed|host recv",                 "infeed"),
    (OPCODE, MEMCPY,     "D2H",                  r"outfeed|host send",                "host send-done"),
    # Asynchronous, these move data between memories (host offload too); otherwise they are the core's own work.
    (OPCODE, MEMCPY,     None,                   r"(copy|(dynamic-)?slice|dynamic-update-slice)-(start|update|done)",
                                                 "copy-start"),
    (STAT,   MEMCPY,     None,                   r"memcpy",                           "memcpy"),
    (STAT,   MEMSET,     None,                   r"memset",                           "memset"),
    (STAT,   COLLECTIVE, None,                   r"collective",                       "collective"),
    (STREAM, MEMCPY,     None,                   r"memcpy\w*(,memcpy\w*)*",           "Stream #8(MemcpyH2D)"),
    (STREAM, MEMSET,     None,                   r"memset",                           "Stream #9(Memset)"),
    # The names of the driver and of profilers, of the kernels that ROCm copies with, of MXNet's operators.
    (NAME,   MEMCPY,     None,                   r"^(cuda |hip |unified memory )*memcpy(\dd)?\b(?!.*kernel)",
                                                 "Memcpy HtoD (Pinned -> Device)"),
    (NAME,   MEMCPY,     None,                   r"^memory copy ",                    "MEMORY_COPY_HOST_TO_DEVICE"),
    (NAME,   MEMCPY,     None,                   r"^dma( (request|copy|transfer|read|write))?$", "dma_request"),
    (NAME,   MEMCPY,     None,                   r"^amd rocclr copy",                 "__amd_rocclr_copyBuffer.kd"),
    (NAME,   MEMCPY,     None,                   r"^copy (host|device) to |^(host|device) to \w+ copy$",
                                                 "CopyDeviceToDevice"),
    (NAME,   MEMCPY,     None,                   r"^copy [cg]pu2[cg]pu$",             "CopyCPU2GPU"),
    (NAME,   MEMSET,     None,                   r"^(cuda |hip )*memset(d\d+)?\b(?!.*kernel)", "[CUDA memset]"),
    (NAME,   MEMSET,     None,                   r"^amd rocclr fill|^fill buffer$",   "__amd_rocclr_fillBufferAligned"),
    # Libraries: NCCL, RCCL, MSCCL and MSCCL++; NVSHMEM, rocSHMEM; the two-stage all-reduce of vLLM, SGLang and AITER;
    # PyTorch's symmetric memory; Transformer Engine; DeepEP and its kin, MORI, TensorRT-LLM.
    (NAME,   COLLECTIVE, None,                   r"^(nccl|rccl|msccl)",               "ncclDevKernel_Generic_1"),
    (NAME,   COLLECTIVE, None,                   r"mscclpp::", "mscclpp::collective::allreducePacket"),
    (NAME,   COLLECTIVE, None,                   r"^(nvshmem|rocshmem)",              "nvshmemi_reduce_kernel"),
    (NAME,   COLLECTIVE, None,                   r"^(barrier|sync|rdxn|fcollect|broadcast\d*)\b.* on stream kernel",
                                                 "barrier_on_stream_kernel"),
    (NAME,   COLLECTIVE, "all-reduce",           r"^cross device (reduce|all gather)", "cross_device_reduce_1stage<8>"),
    (NAME,   COLLECTIVE, "all-reduce",           r"^multimem ", "multimem_one_shot_reduce_kernel"),
    (NAME,   COLLECTIVE, None,                   r"^k?userbuffers ", "kuserbuffers_pushsend(int*, int)"),
    (NAME,   COLLECTIVE, "all-to-all",           r"(inter|intra)node(_ll)?::(cached_)?(notify|dispatch|combine)",
                                                 "deep_ep::intranode::dispatch<8>"),
    (NAME,   COLLECTIVE, "all-to-all",           r"deep_ep::elastic::(hybrid_)?(dispatch|combine)_impl",
                                                 "deep_ep::elastic::combine_impl<64>"),
    (NAME,   COLLECTIVE, None,                   r"deep_ep::(\w+::)*(barrier|pp_send|pp_recv|engram_fetch)",
                                                 "deep_ep::intranode::barrier<8>"),
    (NAME,   COLLECTIVE, "all-to-all",           r"^(ep|moe a2a) (dispatch|combine)\b",
                                                 "EpDispatchIntraNodeKernel_bf16"),
    # A stream of copies and memsets holds nothing else: memory in any case.
    (STREAM, MEMCPY,     None,                   r"mem(cpy\w*|set)(,mem(cpy\w*|set))*", "Stream #8(MemcpyH2D,Memset)"),
    # Any other opcode. What a custom call does, or an async op around another, only its name can tell.
    (OPCODE, COMPUTE,    None,                   r"(?!custom-call|async).+",          "fusion"),
    # Inductor names a kernel after the ops beside it; an all-reduce over the threads of a block stays on one device.
    (NAME,   COMPUTE,    None,                   r"^triton [a-z]+ fused ",            "triton_poi_fused_all_reduce_0"),
    (NAME,   COMPUTE,    None,                   r"\b(thread|warp|wave|block|cta|cluster|grid|row) ?all ?reduce",
                                                 "block_all_reduce_sum_f32_f32_kernel"),
    (NAME,   COLLECTIVE, "all-reduce",           r"\ball ?reduce",                    "twoShotAllReduceKernel"),
    (NAME,   COLLECTIVE, "all-gather",           r"\ball ?gather",                    "all-gather-done.1"),
    (NAME,   COLLECTIVE, "reduce-scatter",       r"\breduce ?scatter",                "reduce_scatter_split_first_dim"),
    (NAME,   COLLECTIVE, "ragged-all-to-all",    r"\bragged ?all ?(to|2) ?all",      "RaggedAllToAllKernelImpl<8l>"),
    (NAME,   COLLECTIVE, "all-to-all",           r"\ball ?(to|2) ?all|\ba2a kernel",  "helixAllToAllKernel<true>"),
    (NAME,   COLLECTIVE, "collective-permute",   r"\bcollective ?permute|^ppermute( \d+)*$", "ppermute.2"),
    (NAME,   COLLECTIVE, "collective-broadcast", r"\bcollective ?broadcast",          "collective-broadcast.3"),
    (NAME,   COLLECTIVE, "send",                 r"^send( start| done)?( \d+)*$",     "send"),
    (NAME,   COLLECTIVE, "recv",                 r"^recv( start| done)?( \d+)*$",     "recv-done.2"),
    (NAME,   COLLECTIVE, "all-reduce",           r"^p(sum2?|max|min)( invariant)?( \d+| clone)*$", "psum.6"),
    (NAME,   MEMCPY,     None,                   r"^(copy|(dynamic )?slice|dynamic update slice) (start|done)( \d+)*$",
                                                 "slice-done.3"),
    (NAME,   MEMCPY,     "H2D",                  r"^infeed( start| done)?( \d+)*$",   "infeed.3"),
    (NAME,   MEMCPY,     "D2H",                  r"^outfeed( start| done)?( \d+)*$",  "outfeed.3"),
    # Libraries that only compute. What no row knows is taken for compute as well, but then nothing told it.
    (NAME,   COMPUTE,    None,                   r"^(at::native|at_cuda_detail|cub|thrust|rocprim|Eigen|tensorflow)::",
                                                 "void at::native::reduce_kernel<512>(int)"),
    (NAME,   COMPUTE,    None,                   r"^(cutlass\w*|cask\w*|cudnn|cublas\w*|flash|fbgemm_gpu)::",
                                                 "void cutlass::Kernel<cutlass_80_simt_sgemm>(int)"),
    (NAME,   COMPUTE,    None,                   r"gemm|gemv|^(cijk|nvjet|miopen) |^split kreduce",
                                                 "Cijk_Ailk_Bljk_BBS_BH_MT256x128x64.kd"),
))
# fmt: on
_OTHERWISE = Row(KnownBy.NOTHING, COMPUTE, None, "", "my_kernel")

# Categories whose ops hold ops of their own: "megacore fusion" too (MayHaveInnerOps in xla_op_utils.h).
CONTROL_FLOW = frozenset({"while", "conditional", "call", "megacore fusion"})

# What is told by a name is told by so many of its letters; the questions asked before keep theirs.
LONGEST = 10_000
_DIGITS = "0123456789"
_HALF = re.compile(r"-(start|update|done)$")
_CONTROL_NAME = re.compile(r"(while|conditional|call)(\.\d+)*(\.clone)*(\.\d+)*")
_STREAM_TYPES = re.compile(r"Stream #\d+\(([\w,]+)\)")
_MANGLED = re.compile(r"_Z(?:N[KV]*|L)?(?=\d)")
_XLA_NUMBER = re.compile(r"(?<=[^.])(\.\d+)+$")
# Parts of a profiler's categories of events.
_TELLING = re.compile(
    r"(annotation|marker|range|counter)s?|sync|synchroni[sz](e|ation)|wait(s|ing)?|overhead|insight|profiler|power|idle"
    r"|correlation"
)
_OTHER_LINES = re.compile(
    r"Steps|Sparse Core|Framework|TensorFlow|Source|XLA TraceMe|Launch Stats|Host Offload|_counters_|.*(Overlay|Sync)"
)
_EVENT_OF_GPU = re.compile(r"(cuda|gpu|hip|rocm|xpu)_event")
_WORKING = re.compile(r"(kernel|op|task|collective)s?|memcpy|memset|copy|copies|dma|comm|graph")
_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])|[^A-Za-z0-9]+")


def _compiled(row: Row) -> re.Pattern[str]:
    return re.compile(f"({row.pattern})(-start|-update|-done)?" if row.level == OPCODE else row.pattern)


_TABLE = tuple((row, _compiled(row)) for row in TABLE)


def base_opcode(opcode: str) -> str:
    """The operation of which `opcode` is a half: `all-reduce-start` is an all-reduce."""
    return _HALF.sub("", opcode)


def is_control_flow(opcode: str | None, name: str) -> bool:
    """Whether an op only encloses others; its name is asked only where its opcode is unknown."""
    return opcode in CONTROL_FLOW if opcode else bool(_CONTROL_NAME.fullmatch(name))


def classify(
    name: str, *, opcode: str | None = None, typed: Kind | None = None, direction: str | None = None, lane: str = ""
) -> Classification:
    """What an operation is, by TABLE.

    `opcode` is its HLO category or opcode where known. `typed` is the kind that the profiler's own record says (its
    copy details, its event category, its table); COMPUTE there means a kernel, which may still be a collective or a
    copy by its name. `direction` is the record's copy direction; else it is read from the name, then from `lane`, the
    label of the stream.
    """
    match = row(name, opcode, typed, lane)
    if match.kind != Kind.MEMCPY:
        return _shared(match.kind, None, match.level)
    return _shared(Kind.MEMCPY, match.which or direction or copies.direction(name, lane), match.level)


def row(name: str, opcode: str | None = None, typed: Kind | None = None, lane: str = "") -> Row:
    """The first row of TABLE that matches; the arguments are those of `classify`."""
    types = _STREAM_TYPES.match(lane)
    name = name[:LONGEST]
    bare = name.rstrip(_DIGITS)
    if len(bare) < len(name) and bare.endswith((".", "_")) and not name.startswith("_Z"):
        name = f"{bare}0"  # no row tells such numbers apart, and with them each op has a name of its own
    return _row(name, opcode or "", typed.value if typed else "", types[1].lower() if types else "")


# The planes of a file, and the files of a run, name the same kernels: asked again, half of their rows' cost is gone.
@lru_cache(2**13)
def _row(name: str, opcode: str, typed: str, stream: str) -> Row:
    with_namespaces, as_words = function_name(name), words(name)
    texts = {OPCODE: opcode, STAT: typed, STREAM: stream}
    for candidate, pattern in _TABLE:
        if candidate.level == NAME:
            matches = pattern.search(with_namespaces if "::" in candidate.pattern else as_words)
        else:
            matches = pattern.fullmatch(texts[candidate.level])
        if matches:
            return candidate
    return _OTHERWISE


def function_name(name: str) -> str:
    """The function that a kernel's name tells, with its namespaces: no return type, template arguments or parameters.

    Of a name that C++ mangled (`_ZN5aiter26cross_device_reduce_2stageI…`), the identifiers. What is no C++ stays.
    """
    if mangled := _MANGLED.match(name):
        parts, at = [], mangled.end()
        while length := re.match(r"\d{1,6}", name[at : at + 6]):
            at += length.end() + int(length[0])
            parts.append(name[at - int(length[0]) : at])
        return "::".join(parts)
    bare = name.replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    return re.split(r"[<(]", bare, maxsplit=1)[0].removeprefix("void ")


def stem(name: str) -> str:
    """An op's name without the number that XLA gives it: `fusion` of `fusion.17`."""
    return _XLA_NUMBER.sub("", name)


def only_tells(category: str) -> bool:
    """Whether a profiler's category of events, in any writing, is of what only tells of work that stands elsewhere:
    annotations over it, waits for it, counters."""
    return _has_part(category, _TELLING) or _EVENT_OF_GPU.fullmatch(category.lower()) is not None


def says_work(category: str) -> bool:
    """Whether a category names work of a device: `mlu_kernel`, `async_dma`."""
    return _has_part(category, _WORKING)


def _has_part(category: str, words: re.Pattern[str]) -> bool:
    return any(words.fullmatch(part) for part in category.lower().split("_"))


def says_no_work(line: str) -> bool:
    """Whether a line of a TPU's plane repeats what its operations and programs are, or holds none
    (xla/tsl/profiler/utils/xplane_schema.cc, and real traces)."""
    return _OTHER_LINES.match(line) is not None


def is_memset(words: str) -> bool:
    """Whether the words of a name say that it sets memory, of an accelerator whose records nobody knows."""
    return Kind.MEMSET.value in words and "kernel" not in words


def words(name: str) -> str:
    """The last part of a function's name as words: `x::RaggedAllToAllKernel<8>` is "ragged all to all kernel"."""
    return _words(name[:LONGEST])


@lru_cache(4096)  # a name is asked for its kind, then for its collective
def _words(name: str) -> str:
    return _BOUNDARY.sub(" ", function_name(name).rpartition("::")[2]).lower().strip()
