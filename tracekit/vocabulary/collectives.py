"""Collectives: what they are called, what each does, and what follows from that for its ranks.

An operation is called as HLO calls it, and as NCCL does where HLO has none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tracekit.vocabulary import kinds
from tracekit.vocabulary.kinds import Kind


@dataclass(frozen=True)
class Operation:
    """What a collective does among its n ranks.

    `synchronises`: each rank needs something of all others, so that none ends before all have started. `equal`: every
    rank moves as many bytes, so that rows of different sizes are not one. `in_parts`: one side of a rank holds the
    whole message, the other only that rank's part. `bus`: what (n - 1) / n of the algorithm bandwidth is multiplied by
    for the bus bandwidth of NCCL's tests (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md); 0 where
    the two are equal for any n, None where that is not known.
    """

    synchronises: bool = False
    equal: bool = False
    in_parts: bool = False
    bus: int | None = 0


OPERATIONS: Mapping[str, Operation] = {
    "all-reduce": Operation(synchronises=True, equal=True, bus=2),
    "all-gather": Operation(synchronises=True, equal=True, in_parts=True, bus=1),
    "reduce-scatter": Operation(synchronises=True, equal=True, in_parts=True, bus=1),
    "all-to-all": Operation(synchronises=True, bus=1),
    # Data decides how much each rank sends: one that gets nothing waits for nobody.
    "ragged-all-to-all": Operation(bus=1),
    "collective-permute": Operation(),
    "collective-broadcast": Operation(),
    "send": Operation(),
    "recv": Operation(),
    # NCCL runs sends, permutes and all-to-alls in one kernel of this name, which does not say which.
    "send-recv": Operation(bus=None),
    # To and from one rank: the others go when they have given, or got, theirs.
    "reduce": Operation(),
    "gather": Operation(in_parts=True, bus=1),
    "scatter": Operation(in_parts=True, bus=1),
    # It moves nothing.
    "barrier": Operation(synchronises=True, bus=None),
}
OPCODES = frozenset(OPERATIONS) - {"send-recv", "reduce", "gather", "scatter", "barrier"}
"""The opcodes of HLO that are collectives; HLO's reduce, gather and scatter compute."""

FROM_ONE_TO_ONE = frozenset({"send", "recv", "send-recv", "collective-permute"})
"""What hands work from rank to rank, as the stages of a pipeline do."""

# HLO's category of an all-reduce of which each rank keeps a part, and what HLO computes under that name.
_CATEGORIES = {"all-reduce-scatter": "reduce-scatter", "broadcast": "collective-broadcast"}
# The words of a name that say what a collective does. The first in the name counts, of two at one place the longer.
_WORDS = {
    # OpenSHMEM's reductions leave the result on all ranks, so rdxn and reduce of its kin are all-reduces; Horovod and
    # PyTorch write allreduce, C++ AllReduce.
    "all-reduce": r"all ?reduce|^rdxn\b|^(nvshmem|rocshmem)\w* reduce\b",
    "all-gather": r"all ?gather|^fcollect\b",
    "reduce-scatter": r"(all ?)?reduce ?scatter",
    "all-to-all": r"all ?(to|2) ?all|\ba2a\b",
    "ragged-all-to-all": r"ragged ?all ?(to|2) ?all",
    "collective-permute": r"permute",
    "collective-broadcast": r"broadcast|\bb cast\b",  # MXNet's KVStoreBCast
    "send-recv": r"send ?recv",
}
# Words that count only where neither those above nor the table of kinds tells more.
_LESSER_WORDS = {
    "send": r"\bsend\b",
    "recv": r"\brecv\b",
    "reduce": r"\breduce\b",
    "gather": r"\bgather\b",
    "scatter": r"\bscatter\b",
    "barrier": r"\bbarrier\b|^sync\b",
}

MXNET_COLLECTIVE = re.compile(r"KVStore(Reduce|BCast|StreamSync|Dist\w*)|P3StoreDist\w*|BytePSPushPull|horovod_\w+")
"""The operators of MXNet's engine, and of what extends it, that exchange data between contexts or machines."""


def operation(name: str, category: str | None = None) -> str | None:
    """What a collective does, a key of OPERATIONS: by its HLO category where that tells it, else by its name.

    `name` is that of a kernel, of an op, or what a framework calls the call; None if nothing tells it, as of
    `ncclDevKernel_Generic`. It is asked of collectives: what is one, kinds.classify says.
    """
    return (_of_category(category) if category else None) or _of_name(name[: kinds.LONGEST])


def _of_category(category: str) -> str | None:
    """`all-reduce fusion` and `all-reduce-start` are an all-reduce."""
    base = kinds.base_opcode(category).removesuffix(" fusion")
    base = _CATEGORIES.get(base, base)
    return base if base in OPERATIONS else None


@lru_cache(4096)
def _of_name(name: str) -> str | None:
    words = kinds.words(name)
    row = kinds.row(name)
    return _first(_WORDS, words) or (row.which if row.kind == Kind.COLLECTIVE else None) or _first(_LESSER_WORDS, words)


def _first(patterns: Mapping[str, str], words: str) -> str | None:
    matches = [(what, re.search(pattern, words)) for what, pattern in patterns.items()]
    places = [(match.start(), -match.end(), what) for what, match in matches if match]
    return min(places)[2] if places else None
