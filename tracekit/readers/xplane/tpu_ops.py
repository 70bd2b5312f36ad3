"""What one distinct op of a TPU core is: its metadata tell, whose name is often its whole HLO text, and its proto."""

import re
from dataclasses import dataclass, replace
from typing import Any

from tracekit.readers.xplane import hlo_text, instruction, ops
from tracekit.readers.xplane.instruction import ASYNC, MOVES, TOLD, Instruction, Op
from tracekit.readers.xplane.planes import Plane
from tracekit.trace import Kind
from tracekit.vocabulary import kinds

# `slice-start.3`, and `reduce-scatter.5.call-start` of what a SparseCore runs.
_HALF_NAME = re.compile(r"([a-z-]+?)(?:\.\d+|\.call|\.async|\.remat\w*|\.clone)*-(start|update|done)(?:\.\w+)*")
# A fusion of another category is known by that, whatever it holds: an asynchronous collective may run beside a product.
_PLAIN_FUSIONS = (None, "fusion", "custom fusion", "loop fusion")


@dataclass(frozen=True)
class Seen:
    """One distinct op: what it is, which half it is ("start", "update", "done" or ""), and the name of its partner."""

    name: str
    op: Op | None
    judged: kinds.Judged
    category: str | None
    program: int
    operation: ops.Operation
    half: str = ""
    partner: str = ""
    control: bool = False


def seen(plane: Plane, event_id: int, lookup: ops.Lookup) -> Seen:
    """What the metadata of an event tells: its name is often the op's whole HLO text, its `hlo_category` a stat."""
    metadata = plane.event_metadata(event_id)
    head = hlo_text.head(metadata.name)
    name = head[0] if head else metadata.display_name or metadata.name
    category = metadata.stats.get("hlo_category") or None
    program = metadata.stats.get("program_id", 0)
    program = program if isinstance(program, int) else 0
    printed = None
    if head is not None:
        told = kinds.whole(head[1]) in TOLD or kinds.whole(head[1]) != head[1]
        printed = hlo_text.parse(metadata.name) if told else Instruction(*head)
    proto = lookup("", str(program & 2**64 - 1), name)
    op, by_name = _op(name, printed, category, proto)
    judged = _judged(name, op, category, by_name)
    half = op.half if op is not None and judged.kind != Kind.COMPUTE else ""
    partner = ""
    if half in ("update", "done"):
        partner = printed.operand_names[0] if printed and printed.operand_names else name.replace(f"-{half}", "-start")
    return Seen(
        name,
        op,
        judged,
        category=_category(category, op),
        program=program,
        half=half,
        partner=partner,
        control=not half and (kinds.is_control_flow(category, "") or ops.is_control_flow(name, op)),
        operation=ops.Operation(
            "",
            name,
            head[1] if head else proto.opcode if proto else None,
            source=metadata.stats.get("source") or None,
            framework_op=str(metadata.stats.get("tf_op") or "").removesuffix(":") or None,
            flops=_count(metadata.stats.get("flops")) or _count(metadata.stats.get("model_flops")),
            bytes_accessed=_count(metadata.stats.get("bytes_accessed")),
            operands=hlo_text.operand_names(metadata.name) if proto is None else (),
        ),
    )


def _count(value: Any) -> int | None:
    """A cost that XLA counted; it writes 0 also of what it cannot count, as a custom call."""
    return value if isinstance(value, int) and 0 < value < 1 << 63 else None


def _op(name: str, printed: Instruction | None, category: str | None, proto: Op | None) -> tuple[Op | None, bool]:
    """What HLO says of an op, by its text, its proto and its category; and whether its name had to tell what it
    does."""
    if printed is None:
        if proto is not None or category is not None:
            return proto or Op(category or "", kinds.whole(category or "")), False
        found, does = _HALF_NAME.fullmatch(name), _named(name)
        return (Op(f"{does}-{found[2]}", does), True) if found and does else (None, False)
    base = kinds.whole(printed.opcode)
    joins = proto is not None and proto.does in kinds.COLLECTIVE_OPCODES
    by_name = False
    if base != printed.opcode and base not in MOVES | kinds.COLLECTIVE_OPCODES:
        # What a wrapper runs is not printed: the proto tells it, or the name that XLA made of it.
        if proto is not None and joins:
            return replace(proto, opcode=printed.opcode), False
        does = proto.does if proto is not None and proto.does not in (ASYNC, base) else _named(name)
        by_name = does is not None and (proto is None or proto.does != does)
        printed = replace(printed, inner=Instruction(name, does) if does else None)
    op = instruction.describe(printed)
    if proto is not None and joins and op.does == "fusion" and category in _PLAIN_FUSIONS:
        return proto, False
    if proto is not None and joins and op.does == proto.does:
        op = replace(op, ranks=op.ranks or proto.ranks, group=op.group or proto.group)
    return op, by_name


def _named(name: str) -> str | None:
    """What a half does by its name, `slice` of `slice-start.3`, if that is a copy or a collective."""
    found = _HALF_NAME.fullmatch(name)
    return found[1] if found and found[1] in MOVES | kinds.COLLECTIVE_OPCODES else None


def _category(category: str | None, op: Op | None) -> str | None:
    """The category to show: what an async wrapper or a plain fusion does says more than that it is one."""
    vague = category is None or kinds.whole(category) == ASYNC
    if op is None or not (vague or (category in _PLAIN_FUSIONS and op.does in kinds.COLLECTIVE_OPCODES)):
        return category
    return op.category


def _judged(name: str, op: Op | None, category: str | None, by_name: bool) -> kinds.Judged:
    """The kind of an op: by its category if that tells a copy or a collective, else by its opcode."""
    way = op.direction if op else None
    told = kinds.classify(name, opcode=category, direction=way) if category else None
    if told is None or told.kind == Kind.COMPUTE or told.known_by != kinds.KnownBy.OPCODE:
        told = ops.judge(name, op)
    if op is not None and op.does in MOVES and (op.half or op.to_or_from_host):
        # What moves data beside the ops copies; in their midst it computes, unless the host is at one end.
        told = kinds.Judged(Kind.MEMCPY, way, kinds.KnownBy.OPCODE)
    return replace(told, known_by=kinds.KnownBy.NAME) if by_name else told
