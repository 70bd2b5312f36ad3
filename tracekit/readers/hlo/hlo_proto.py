"""HLO protos, as `/host:metadata` carries them: each instruction is parsed when it is asked for.

Schema: xla/service/hlo.proto and xla/xla_data.proto. Field numbers used:
HloProto.hlo_module = 1;
HloModuleProto.computations = 3, entry_computation_id = 6, device_assignment = 15;
DeviceAssignmentProto.replica_count = 1, computation_count = 2;
HloComputationProto.instructions = 2, id = 5, root_id = 6;
HloInstructionProto.name = 1, opcode = 2, shape = 3, channel_id = 26, custom_call_target = 28, id = 35,
operand_ids = 36, called_computation_ids = 38, is_host_transfer = 47, replica_groups = 49, source_target_pairs = 52,
collective_device_list = 87, iota_collective_device_list = 92, mesh_axes_replica_group_list = 93;
ShapeProto.element_type = 2, dimensions = 3, tuple_shapes = 4, layout = 5;
LayoutProto.element_size_in_bits = 7, memory_space = 8.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

from tracekit.readers import protobuf_decoder as protobuf
from tracekit.readers.hlo.instruction import (
    ASYNC,
    DETAILED,
    MOST_DIMENSIONS,
    Array,
    Groups,
    Instruction,
    Op,
    Shape,
    array,
    describe,
    group_text,
    iota_groups,
    mesh_groups,
    pair_text,
)
from tracekit.readers.protobuf_decoder import Fields, Span
from tracekit.vocabulary import collectives, kinds

# xla.PrimitiveType, as HLO text writes it.
_TYPES = {
    **dict(enumerate(["pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "f32", "f64"], 1)),
    **dict(enumerate(["opaque", "c64", "bf16", "token", "c128", "f8e5m2", "f8e4m3fn", "s4", "u4"], 14)),
    **dict(enumerate(["f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "s2", "u2", "f8e4m3", "f8e3m4"], 23)),
    **dict(enumerate(["s1", "u1", "f4e2m1fn", "f8e8m0fnu"], 30)),
}
# What reading a damaged program raises: parts of one may be nested without end.
DAMAGED = (protobuf.Broken, RecursionError)
_TUPLE = 13
_HOLDERS = frozenset({"fusion", "call"})
_WRAPPERS = frozenset({ASYNC, "fusion"})


@dataclass(frozen=True)
class Computation:
    """Where the instructions of one computation stand, and the id of its root."""

    spans: list[Span]
    root: int


@dataclass(frozen=True)
class Program:
    """The instructions of one serialised HloProto; DAMAGED, also when asked, where its bytes are no message."""

    proto: bytes
    _ops: dict[str, Op] = field(default_factory=dict, repr=False)

    def op(self, name: str) -> Op | None:
        """What the instruction `name` does, None if the program has none of that name."""
        at = self.places.get(name)
        if at is not None and name not in self._ops:
            self._ops[name] = self._describe(*at)
        return self._ops.get(name)

    def instruction(self, name: str) -> Instruction | None:
        """The instruction `name` with all that is known of it, None if there is none."""
        at = self.places.get(name)
        return None if at is None else self._instruction(*at)

    def _describe(self, span: Span, computation: int) -> Op:
        opcode = head(self.proto, *span)[1]
        base = kinds.base_opcode(opcode)
        if base not in DETAILED and not (base == "fusion" and self._inside(span, base)):
            return Op(opcode, base)
        return describe(self._instruction(span, computation))

    @property
    def places(self) -> dict[str, tuple[Span, int]]:
        """Where each instruction stands, and the id of its computation, by name."""
        return self._index[0]

    @property
    def computations(self) -> dict[int, Computation]:
        """The computations by id."""
        return self._index[1]

    @cached_property
    def modules(self) -> list[Span]:
        """Where the module stands: one place, or none if the proto is empty."""
        return Fields(self.proto, (0, len(self.proto))).messages(1)

    @property
    def entries(self) -> list[int]:
        """The id of the computation that a run of the program begins with."""
        return [computation for module in self.modules for computation in Fields(self.proto, module).numbers(6)]

    @property
    def devices(self) -> int | None:
        """On how many devices the program runs: replicas times partitions, as it was compiled; None if it was for any
        (HloModule::ToProto in xla/hlo/ir/hlo_module.cc)."""
        for module in self.modules:
            for assignment in Fields(self.proto, module).of(15):
                return assignment.number(1) * assignment.number(2) or None
        return None

    @cached_property
    def _index(self) -> tuple[dict[str, tuple[Span, int]], dict[int, Computation]]:
        places: dict[str, tuple[Span, int]] = {}
        computations: dict[int, Computation] = {}
        for module in self.modules:
            for computation in Fields(self.proto, module).of(3):
                spans, computation_id = computation.messages(2), computation.number(5)
                computations[computation_id] = Computation(spans, computation.number(6))
                for span in spans:
                    places[head(self.proto, *span)[0]] = span, computation_id
        return places, computations

    @cached_property
    def _by_id(self) -> dict[int, dict[int, Span]]:
        """Where the instructions of a computation stand, by id; each computation is filled when it is asked for."""
        return {}

    def span(self, computation: int, instruction: int) -> Span | None:
        """Where the instruction with an id stands in a computation, None if it holds none of that id."""
        if computation not in self._by_id:
            self._by_id[computation] = {
                Fields(self.proto, span).number(35): span for span in self.computations[computation].spans
            }
        return self._by_id[computation].get(instruction)

    def _instruction(self, span: Span, computation: int) -> Instruction:
        proto = self.proto
        fields = Fields(proto, span)
        name, opcode = head(proto, *span)
        operands = [self.span(computation, operand) for operand in fields.numbers(36)]
        shapes = [None if at is None else _result(Fields(proto, at)) for at in operands]
        base = kinds.base_opcode(opcode)
        channel = fields.number(26)
        inner = self._inside(span, base) if base in _WRAPPERS else None
        if opcode in ("async-update", "async-done") and inner is None and operands and operands[0]:
            inner = self._instruction(operands[0], computation).inner  # only the start calls
        return Instruction(
            name,
            opcode,
            shape=_result(fields),
            operands=tuple(operand_shape for operand_shape in shapes if operand_shape is not None),
            operand_names=tuple(head(proto, *at)[0] for at in operands if at is not None),
            ranks=_ranks(fields),
            channel=channel if channel > 0 else None,
            host_transfer=any(fields.numbers(47)),
            target=fields.text(28),
            inner=inner,
        )

    @cached_property
    def _held(self) -> dict[int, tuple[Instruction | None, bool]]:
        """What `_collective` gave of each computation: many operations may call the same."""
        return {}

    def _inside(self, span: Span, base: str) -> Instruction | None:
        """What an async wrapper runs: its root, or the collective that this holds. Of a fusion or a call: the
        collective it holds, None if it holds none."""
        for computation_id in Fields(self.proto, span).numbers(38):
            computation = self.computations.get(computation_id)
            if computation is None:
                continue
            if base == ASYNC and (root := self.span(computation_id, computation.root)) is not None:
                return self._run_by_wrappers(computation_id, root)
            if (collective := self._collective(computation_id, set())[0]) is not None:
                return collective
        return None

    @cached_property
    def _runs(self) -> dict[int, Instruction | None]:
        """What the async wrappers that call a computation run; None where that is not known yet."""
        return {}

    def _run_by_wrappers(self, computation_id: int, root: Span) -> Instruction:
        """What the async wrappers that call a computation run, looked for once; Broken where they run themselves."""
        if computation_id in self._runs:
            run = self._runs[computation_id]
            if run is None:  # asked for by what it runs itself, now or before
                raise protobuf.Broken(root[0])
            return run
        self._runs[computation_id] = None
        opcode = head(self.proto, *root)[1]
        try:
            collective = self._first_held(root, {computation_id})[0] if opcode in _HOLDERS else None
            run = collective or self._instruction(root, computation_id)
        except RecursionError:  # from further inside it may be told
            del self._runs[computation_id]
            raise
        self._runs[computation_id] = run
        return run

    def _first_held(self, span: Span, looked_into: set[int]) -> tuple[Instruction | None, bool]:
        """The collective that the first computation holds that a fusion or a call calls and that holds one, as
        `_collective` has it."""
        is_sure = True
        for computation_id in Fields(self.proto, span).numbers(38):
            if computation_id in self.computations:
                collective, is_of_all = self._collective(computation_id, looked_into)
                is_sure = is_sure and is_of_all
                if collective is not None:
                    return collective, is_sure
        return None, is_sure

    def _collective(self, computation_id: int, looked_into: set[int]) -> tuple[Instruction | None, bool]:
        """The first collective that a computation holds, itself or in what it calls, None if it holds none; and whether
        that is so whatever was looked into before. No computation is looked into twice: a broken one calls itself.
        """
        is_first = not looked_into
        held = self._held.get(computation_id)
        if held is not None and (held[1] or is_first):
            return held
        if computation_id in looked_into:
            return None, False
        looked_into.add(computation_id)
        collective, is_sure = None, True
        for inner in self.computations[computation_id].spans:
            opcode = kinds.base_opcode(head(self.proto, *inner)[1])
            if opcode in collectives.OPCODES:
                collective = self._instruction(inner, computation_id)
            elif opcode in _HOLDERS:
                collective, is_of_all = self._first_held(inner, looked_into)
                is_sure = is_sure and is_of_all
            if collective is not None:
                break
        if is_first and collective is None:  # then all that it calls hold none
            self._held.update(dict.fromkeys(looked_into, (None, True)))
        elif is_first or is_sure:
            self._held[computation_id] = collective, is_sure
        return collective, is_sure


def _ranks(instruction: Fields) -> str | None:
    """The replica groups or the source and target pairs, in whichever form they were written."""
    groups, iotas = instruction.of(49), instruction.of(92)
    for device_list in instruction.of(87):
        groups += device_list.of(1)
        iotas += device_list.of(2)
    for iota in iotas:
        shape = iota.number(1), iota.number(2), iota.numbers(3), iota.numbers(4)
        return group_text(iota_groups(*shape))
    for mesh_axes in instruction.of(93):
        return group_text(_along_mesh(mesh_axes))
    if 52 in instruction:
        return pair_text([[pair.number(1), pair.number(2)] for pair in instruction.of(52)])
    return group_text([group.numbers(1) for group in groups])


def _along_mesh(fields: Fields) -> Groups:
    """The groups of a MeshAxesReplicaGroupListProto."""
    mesh = next(iter(fields.of(1)), None)
    if mesh is None:
        return []
    sizes = [axis.number(2) for axis in mesh.of(1)]
    ids = mesh.numbers(2)
    for tiles in mesh.of(3):
        ids = next(iter(iota_groups(1, math.prod(sizes), tiles.numbers(1), tiles.numbers(2))), ids)
    axes = []
    for axis in fields.of(2):
        at = axis.number(1)
        if not 0 <= at < len(sizes):
            return []
        part = next(iter(axis.of(2)), None)
        axes.append((at, part.number(1, 1), part.number(2)) if part else (at, 1, sizes[at]))
    return mesh_groups(sizes, ids, axes)


def _result(instruction: Fields) -> Shape | None:
    """The shape of what an instruction computes, None if there is none."""
    return next((shape_of(shape) for shape in instruction.of(3)), None)


def shape_of(fields: Fields) -> Shape:
    """The shape that the fields of a ShapeProto tell."""
    kind, dimensions = fields.number(2), fields.numbers(3)
    if kind == _TUPLE:
        return tuple(shape_of(part) for part in fields.of(4))
    if len(dimensions) > MOST_DIMENSIONS:
        raise protobuf.Broken(0)
    layout = next(iter(fields.of(5)), None)
    space, bits = (layout.number(number) if layout else 0 for number in (8, 7))
    return array(_TYPES.get(kind, ""), dimensions, space, bits) if kind in _TYPES else Array("opaque", 0)


def head(proto: bytes, start: int, end: int) -> tuple[str, str]:
    """Name and opcode of an instruction; they stand first, as every writer has it, or are looked for."""
    texts: list[str] = []
    at = start
    for number in (1, 2):
        if at == end or proto[at] != number << 3 | protobuf.LENGTH:
            fields = Fields(proto, (start, end))
            return fields.text(1), fields.text(2)
        size, at = protobuf.varint(proto, at + 1, end)
        if not 0 <= size <= end - at:
            raise protobuf.Broken(at)
        texts.append(protobuf.text(proto, at, at + size))
        at += size
    return texts[0], texts[1]
