"""What one HLO instruction is, does, and which devices do it together, be it from a proto or from printed text.

Devices that take part in a collective are listed in several forms (xla/hlo/ir/replica_group.h). Their numbers are
places in the program's device assignment, which a trace does not tell, and not those of its devices.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from tracekit.vocabulary import collectives, copies, kinds

# Layout::kHostMemorySpace: the host's memory, in every backend.
HOST_SPACE = 5
# What only moves data; on a TPU these run beside the ops when their opcode is a `-start`.
MOVES = frozenset({"copy", "slice", "dynamic-slice", "dynamic-update-slice"})
ASYNC = "async"
# Opcodes, without `-start` and the like, of which more is worth knowing than the opcode.
DETAILED = collectives.OPCODES | MOVES | {"infeed", "outfeed", "custom-call", ASYNC}

# Custom calls that annotate a copy from or to the host, should one be left in a program.
_MOVING_CALLS = frozenset({"MoveToHost", "MoveToDevice"})

# A list of devices that is longer than any machine's stands for nothing.
_MOST = 1 << 20
# Nor has any array as many dimensions, which numpy holds.
MOST_DIMENSIONS = 64
_BITS = re.compile(r"bf(\d+)|[suf](\d+)|c(\d+)")


@dataclass(frozen=True)
class Array:
    """One array of a shape: its element type, its logical size (the padding of tiles is not counted) and its memory."""

    dtype: str
    bytes: int
    space: int = 0


Shape: TypeAlias = Array | tuple["Shape", ...]
Groups = list[list[int]]
# An axis of a mesh, by its place, or the part of it of `size` devices that has a product of `before` to its left.
Axis = tuple[int, int, int]


@dataclass(frozen=True)
class Instruction:
    """One instruction; `shape` is None and `operands` empty where the source does not tell.

    `ranks` is the text of the replica groups or of a permute's pairs. `target` is what a custom
    call calls. `inner` is what the instruction runs in its stead: the op in an async wrapper, the collective in a
    fusion.
    """

    name: str
    opcode: str
    shape: Shape | None = None
    operands: tuple[Shape, ...] = ()
    operand_names: tuple[str, ...] = ()
    ranks: str | None = None
    channel: int | None = None
    host_transfer: bool = False
    target: str = ""
    inner: "Instruction | None" = None


@dataclass(frozen=True)
class Op:
    """What an instruction does.

    `opcode` is as HLO writes it. `does` is the opcode of the work, without `-start` or `-done`, which in an async
    wrapper or a fusion that holds a collective is that of what is inside; `async` if a wrapper does not tell.
    `direction` is set for what moves data from or to the host (H2D, D2H) or within the device (D2D); `bytes` and
    `dtype` for that and for collectives; `ranks` and `group` (the channel) for collectives.
    """

    opcode: str
    does: str
    direction: str | None = None
    bytes: int | None = None
    dtype: str | None = None
    ranks: str | None = None
    group: str | None = None

    @property
    def category(self) -> str:
        """The opcode; of an async wrapper `reduce-scatter-start`, as HLO text writes it, and of a fusion that holds a
        collective the opcode of that."""
        if kinds.base_opcode(self.opcode) == self.does:
            return self.opcode
        return f"{self.does}-{self.half}" if self.half else self.does

    @property
    def to_or_from_host(self) -> bool:
        """Whether it copies between the host's memory and the device's."""
        return self.direction in ("H2D", "D2H")

    @property
    def half(self) -> str:
        """Which half of an asynchronous pair it is: `start`, `update`, `done`, or "" if it is whole."""
        if self.opcode.removeprefix("host ") in ("send", "recv"):
            return "start"
        return self.opcode.removeprefix(kinds.base_opcode(self.opcode)).removeprefix("-")


def array(dtype: str, dimensions: Iterable[int], space: int = 0, element_bits: int = 0) -> Array:
    """An array of `dtype` as HLO writes it; elements of less than a byte take one each, unless `element_bits` says how
    the layout packs them."""
    match = _BITS.match(dtype)
    width = int(match[match.lastindex or 0]) if match else 8 if dtype == "pred" else 0
    bits = element_bits or (max(width, 8) if width else 0)
    return Array(dtype, -(-math.prod(dimensions) * bits // 8), space)


def arrays(shape: Shape | None) -> Iterator[Array]:
    """The arrays of a shape that hold data, from left to right."""
    if isinstance(shape, tuple):
        for part in shape:
            yield from arrays(part)
    elif shape is not None and shape.dtype not in ("token", "opaque"):
        yield shape


def total(shape: Shape | None) -> int:
    """The bytes of all arrays of a shape."""
    return sum(part.bytes for part in arrays(shape))


def describe(instruction: Instruction) -> Op:
    """What the instruction does; an unknown size or direction is None."""
    base = kinds.base_opcode(instruction.opcode)
    if instruction.inner is not None and kinds.base_opcode(instruction.inner.opcode) != ASYNC:
        work = describe(instruction.inner)
        # A wrapper's own shapes tell in which memory it moves what; of a collective it may hold more than that.
        by_wrapper = instruction.inner.shape is None or work.does in MOVES
        return _sized(replace(work, opcode=instruction.opcode), instruction if by_wrapper else instruction.inner)
    if instruction.target in _MOVING_CALLS:
        return _sized(Op(instruction.opcode, base, copies.direction(instruction.target)), instruction)
    if base in collectives.OPCODES:
        group = None if instruction.channel is None else f"channel {instruction.channel}"
        return _sized(Op(instruction.opcode, base, ranks=instruction.ranks, group=group), instruction)
    return _sized(Op(instruction.opcode, base), instruction)


def _sized(op: Op, instruction: Instruction) -> Op:
    """`op` with the size, type and direction that the shapes of `instruction` tell."""
    instruction = _start(instruction)
    result, sources = _result(instruction), instruction.operands
    way, payload = None, None
    if op.does in ("send", "recv"):
        payload = result
        way = kinds.row("", f"host {op.does}").which if instruction.host_transfer else None
    elif op.does in MOVES:
        # An update copies its second operand into its first.
        source = sources[op.does == "dynamic-update-slice"] if len(sources) > 1 else sources[0] if sources else None
        payload = source if op.does == "dynamic-update-slice" else result
        way = _direction(source, result)
    elif op.does in ("infeed", "outfeed"):
        payload = result if op.does == "infeed" else sources[:1] or None
        way = kinds.row("", op.does).which
    elif op.does == "collective-permute":
        payload = result
    elif op.direction is not None:  # a custom call that moves its operand
        way, payload = op.direction, result
    elif op.does in collectives.OPCODES and op.does != "ragged-all-to-all":  # how much that sends, data decides
        payload = max(result, sources or None, key=total)
    if payload is None:
        return replace(op, direction=way)
    dtypes = dict.fromkeys(part.dtype for part in arrays(payload)) if op.does in collectives.OPCODES else {}
    size = total(payload)
    return replace(op, direction=way, bytes=size if size < 1 << 63 else None, dtype=",".join(dtypes) or None)


def _start(instruction: Instruction) -> Instruction:
    """The `-start` of which a `-done` or `-update` is a half, as far as its operand tells; others as they are."""
    base = kinds.base_opcode(instruction.opcode)
    operand = instruction.operands[0] if instruction.operands else None
    if not instruction.opcode.endswith(("-done", "-update")) or not isinstance(operand, tuple) or not operand:
        return instruction
    if base in ("send", "recv"):
        return replace(instruction, opcode=base, shape=operand, operands=())
    operands = operand[1:2] if base == "copy" else () if base == "all-reduce" else operand[:1]
    if len(operands) == 1 and isinstance(operands[0], tuple):
        operands = operands[0]
    return replace(instruction, opcode=f"{base}-start", shape=operand, operands=operands)


def _result(instruction: Instruction) -> Shape | None:
    """The shape of the data that comes out: a `-start` returns more than that."""
    shape = instruction.shape
    if not isinstance(shape, tuple) or not shape:
        return shape
    if instruction.opcode in ("copy-start", "send", "recv", "infeed"):  # (data, context, …)
        return shape[0]
    if instruction.opcode.endswith("-start") and instruction.opcode != "all-reduce-start" and len(shape) > 1:
        return shape[1]  # (operands, results, contexts…)
    return shape


def _direction(moved: Shape | None, result: Shape | None) -> str | None:
    """From which memory into which a copy goes; None if either is not told."""
    from_array, to_array = next(arrays(moved), None), next(arrays(result), None)
    if from_array is None or to_array is None:
        return None
    source, target = ("host" if array.space == HOST_SPACE else "device" for array in (from_array, to_array))
    return copies.direction(source=source, target=target)


def group_text(groups: Sequence[Sequence[int]]) -> str | None:
    """The groups as text: `0,1,2` if there is one, `{{0,1},{2,3}}` if there are several, None if none is listed, which
    means all."""
    texts = [",".join(map(str, group)) for group in groups]
    return "{" + ",".join(f"{{{text}}}" for text in texts) + "}" if len(texts) > 1 else texts[0] if texts else None


def pair_text(transfers: Sequence[Sequence[int]]) -> str | None:
    """The source and target of every transfer of a permute as text: `{{0,1},{1,0}}`; None if there is none."""
    return "{" + ",".join("{" + ",".join(map(str, pair)) + "}" for pair in transfers) + "}" if transfers else None


def iota_groups(groups: int, size: int, reshape: Sequence[int], permutation: Sequence[int]) -> Groups:
    """The groups that `[groups,size]<=[reshape]T(permutation)` stands for; no permutation leaves the order.

    Empty if the numbers do not fit together.
    """
    count = math.prod(reshape)
    if sorted(permutation or range(len(reshape))) != list(range(len(reshape))) or count != groups * size:
        return []
    if not 0 < count <= _MOST or min(groups, size, *reshape) < 1 or len(reshape) > MOST_DIMENSIONS:
        return []
    return np.arange(count).reshape(reshape).transpose(permutation or None).reshape(groups, size).tolist()


def mesh_groups(sizes: Sequence[int], ids: Sequence[int], axes: Sequence[Axis]) -> Groups:
    """The groups along `axes` of a mesh with axes of `sizes`; its devices are `ids`, or in order if there are none.

    Empty if the numbers do not fit together.
    """
    count = math.prod(sizes)
    if not 0 < count <= _MOST or min(sizes, default=0) < 1 or (ids and len(ids) != count):
        return []
    if len(sizes) + len(axes) > MOST_DIMENSIONS // 2 or len({*axes}) < len(axes):
        return []
    shape: list[int] = []
    place: dict[Axis, list[int]] = {}
    for at, size in enumerate(sizes):
        parts = [axis for axis in axes if axis[0] == at]
        cuts = sorted({1, size, *(before for _, before, _ in parts), *(before * wide for _, before, wide in parts)})
        if (cuts[0], cuts[-1]) != (1, size) or any(high % low for low, high in pairwise(cuts)):
            return []
        for low, high in pairwise(cuts):
            for axis in parts:
                if axis[1] <= low and high <= axis[1] * axis[2]:
                    place.setdefault(axis, []).append(len(shape))
            shape.append(high // low)
    together = [dimension for axis in axes for dimension in place.get(axis, [])]
    apart = [dimension for dimension in range(len(shape)) if dimension not in together]
    group_size = math.prod(shape[dimension] for dimension in together)
    devices = np.array(ids or range(count)).reshape(shape)
    return devices.transpose([*apart, *together]).reshape(-1, group_size).tolist()
