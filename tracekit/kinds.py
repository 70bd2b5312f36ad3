"""One table that decides what an operation is: compute, collective, memcpy or memset, and in which direction it copies.

Order of trust: HLO category or opcode, what the profiler says of a copy, the stream's label, the name. Names are read
only where nothing better is there, because they lie: 128 of 129 all-reduces of a real TPU trace are called `psum.N`.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from tracekit.trace import Kind


class KnownBy(StrEnum):
    """What told the kind of an operation, the most trustworthy first; `NOTHING`: taken for compute by default."""

    RULE = "rule"
    OPCODE = "opcode"
    STAT = "stat"
    STREAM = "stream"
    NAME = "name"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Judged:
    """What an operation is, the direction it copies in (memcpy only), and what told its kind."""

    kind: Kind
    direction: str | None
    known_by: KnownBy


# HLO opcodes (xla/hlo/ir/hlo_opcode.h). An async pair is one row; `-start`, `-done` and `-update` are its halves.
COLLECTIVE_OPCODES = frozenset(
    {
        "all-reduce",
        "all-gather",
        "all-to-all",
        "ragged-all-to-all",
        "reduce-scatter",
        "collective-permute",
        "collective-broadcast",
        "send",
        "recv",
    }
)
COPY_OPCODES = {"infeed": "H2D", "outfeed": "D2H"}
CONTROL_FLOW = frozenset({"while", "conditional", "call"})

_HALF = re.compile(r"-(start|update|done)$")
_CONTROL_NAME = re.compile(r"(while|conditional|call)(\.\d+)*(\.clone)*(\.\d+)*")
_COLLECTIVE_NAME = re.compile(
    r"nccl|rccl|nvshmem|multimem_all_reduce|one_?shot_all_?reduce"
    r"|all[-_]?reduce|all[-_]?gather|all[-_]?to[-_]?all|reduce[-_]?scatter|collective[-_]?(permute|broadcast)"
    r"|^(send|recv)(-(start|done))?(\.\d+)*$",
    re.IGNORECASE,
)
# Copies that ROCm runs as kernels, and the driver's own names where they stand for the operation itself.
_COPY_NAME = re.compile(r"^(__amd_rocclr_copyBuffer|Memcpy|MEMCPY|CopyDeviceToDevice)", re.IGNORECASE)
_SET_NAME = re.compile(r"^(__amd_rocclr_fillBuffer|Memset)", re.IGNORECASE)
_DIRECTION = re.compile(
    r"(H2D|HtoD|HostToDevice)|(D2H|DtoH|DeviceToHost)|(D2D|DtoD|DeviceToDevice)|(P2P|PtoP)", re.IGNORECASE
)


def whole(opcode: str) -> str:
    """The operation of which `opcode` is a half: `all-reduce-start` is an all-reduce."""
    return _HALF.sub("", opcode)


def is_control_flow(opcode: str | None, name: str) -> bool:
    """Whether an op only encloses others; its name is asked only where its opcode is unknown."""
    return opcode in CONTROL_FLOW if opcode else bool(_CONTROL_NAME.fullmatch(name))


def copy_direction(text: str) -> str | None:
    """The copy direction a label such as `MemcpyH2D` or `Memcpy DtoH` names, if it names exactly one."""
    found = {
        ("H2D", "D2H", "D2D", "P2P")[match.lastindex - 1] for match in _DIRECTION.finditer(text) if match.lastindex
    }
    return found.pop() if len(found) == 1 else None


def classify(
    name: str, *, opcode: str | None = None, typed: Kind | None = None, direction: str | None = None, lane: str = ""
) -> Judged:
    """What an operation is.

    `opcode` is its HLO category or opcode where known. `typed` is the kind that the profiler's own record says (its
    copy details, its event category, its table); COMPUTE there means a kernel, which may still be a collective or a
    copy by its name. `direction` is the record's copy direction; else it is read from the name, then from `lane`, the
    label of the stream.
    """
    way = direction or copy_direction(name) or copy_direction(lane)
    if opcode:
        base = whole(opcode)
        if base in COLLECTIVE_OPCODES:
            return Judged(Kind.COLLECTIVE, None, KnownBy.OPCODE)
        if base in COPY_OPCODES:
            return Judged(Kind.MEMCPY, COPY_OPCODES[base], KnownBy.OPCODE)
    if typed is not None and typed != Kind.COMPUTE:
        return Judged(typed, way if typed == Kind.MEMCPY else None, KnownBy.STAT)
    if _COPY_NAME.match(name):
        return Judged(Kind.MEMCPY, way, KnownBy.NAME)
    if _SET_NAME.match(name):
        return Judged(Kind.MEMSET, None, KnownBy.NAME)
    if opcode:
        return Judged(Kind.COMPUTE, None, KnownBy.OPCODE)
    if _COLLECTIVE_NAME.search(name):
        return Judged(Kind.COLLECTIVE, None, KnownBy.NAME)
    return Judged(Kind.COMPUTE, None, KnownBy.NOTHING)
