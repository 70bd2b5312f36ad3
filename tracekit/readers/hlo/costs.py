"""Where in the source an instruction comes from, and what it costs, as far as its proto tells that exactly.

Field numbers, beside those of hlo_proto.py:
HloModuleProto.is_dynamic = 11, stack_frame_index = 17;
StackFrameIndexProto.file_names = 1, file_locations = 3, stack_frames = 4 (ids count from 1);
FileLocation.file_name_id = 1, line = 3; StackFrame.file_location_id = 1;
HloInstructionProto.metadata = 7, window = 15, convolution_dimension_numbers = 16, dot_dimension_numbers = 30,
backend_config = 43, feature_group_count = 50, batch_group_count = 58, dot_sparsity = 86;
OpMetadata.op_name = 2, source_file = 3, source_line = 4, stack_frame_id = 15;
DotDimensionNumbers.lhs_contracting_dimensions = 1;
ConvolutionDimensionNumbers.kernel_output_feature_dimension = 4; Window.dimensions = 1;
WindowDimension.padding_low = 3, padding_high = 4, window_dilation = 5, base_dilation = 6.
"""

import json
import math
from dataclasses import dataclass, field
from functools import cached_property

from tracekit.readers.hlo.hlo_proto import Program, shape_of
from tracekit.readers.hlo.instruction import Array, arrays, total
from tracekit.readers.protobuf_decoder import Fields, Span
from tracekit.vocabulary import collectives, kinds

_PRODUCTS = frozenset({"dot", "convolution", "custom-call", "ragged-dot"})
# What may touch less of its operands or of its result than their size, or runs what is not told here.
_PARTIAL = frozenset(
    {
        *("slice", "dynamic-slice", "dynamic-update-slice", "gather", "scatter", "select-and-scatter", "sort"),
        *("custom-call", "call", "while", "conditional", "infeed", "outfeed", "ragged-dot", "async-start"),
    }
)
# They compute nothing where they stand in a fusion.
_NAMES = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})
_GEMMS = frozenset({"__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8"})
_COMPLEX = ("c64", "c128")


@dataclass(frozen=True)
class OpFacts:
    """What a program says of one instruction, each part None where it does not.

    `source` is `file.py:12`, the file as it was recorded, of the innermost frame; `framework_op` the name that the
    framework gave it. `flops`: 2·M·N·K of each of its products, in a fusion too, without what else it computes; None if
    it holds no product. `bytes_accessed`: the sizes of its operands and of its result, each once, if it reads and
    writes all of them.
    """

    source: str | None = None
    framework_op: str | None = None
    flops: int | None = None
    bytes_accessed: int | None = None


@dataclass(frozen=True)
class _Shape:
    """What a shape tells: the bytes of all of it and of its first array, and the type and dimensions of that."""

    bytes: int
    first_bytes: int
    dtype: str
    dimensions: list[int]


@dataclass(frozen=True)
class Costs:
    """What the instructions of one program cost; each is looked at when it is asked for."""

    program: Program
    _read: dict[Span, Fields] = field(default_factory=dict, repr=False)
    _shapes: dict[bytes, _Shape] = field(default_factory=dict, repr=False)
    # Of what computations hold, by their ids: many fusions may call the same.
    _flops_of: dict[int, int | None] = field(default_factory=dict, repr=False)
    _is_whole: dict[int, bool] = field(default_factory=dict, repr=False)

    def of(self, name: str) -> OpFacts:
        """What is said of the instruction `name`; of one that the program does not hold, nothing."""
        place = self.program.places.get(name)
        if place is None:
            return OpFacts()
        source, framework_op = self._origin(self._fields(place[0]))
        if self._dynamic:  # sizes are bounds
            return OpFacts(source, framework_op)
        return OpFacts(source, framework_op, _fits(self._flops(*place) or -1), _fits(self._bytes(*place)))

    def _origin(self, instruction: Fields) -> tuple[str | None, str | None]:
        for metadata in instruction.of(7):
            file, line = metadata.text(3), metadata.number(4)
            if not file:
                file, line = self._frames.get(metadata.number(15), ("", 0))
            return (f"{file}:{line}" if line else file) or None, metadata.text(2) or None
        return None, None

    @cached_property
    def _dynamic(self) -> bool:
        return any(any(Fields(self.program.proto, module).numbers(11)) for module in self.program.modules)

    @cached_property
    def _frames(self) -> dict[int, tuple[str, int]]:
        """File and line of each stack frame, by its id."""
        frames: dict[int, tuple[str, int]] = {}
        for module in self.program.modules:
            for index in Fields(self.program.proto, module).of(17):
                files = index.texts(1)
                places = [(location.number(1), location.number(3)) for location in index.of(3)]
                for number, frame in enumerate(index.of(4), 1):
                    place = frame.number(1)
                    if 0 < place <= len(places) and 0 < places[place - 1][0] <= len(files):
                        frames[number] = files[places[place - 1][0] - 1], places[place - 1][1]
        return frames

    def _fields(self, span: Span) -> Fields:
        if span not in self._read:
            self._read[span] = Fields(self.program.proto, span)
        return self._read[span]

    def _shape(self, span: Span) -> _Shape:
        """The shape of the result of an instruction; few shapes serve many."""
        for start, end in self._fields(span).messages(3):
            key = self.program.proto[start:end]
            if key not in self._shapes:
                fields = Fields(self.program.proto, (start, end))
                shape = shape_of(fields)
                first = next(arrays(shape), Array("", 0))
                array_fields = next(iter(fields.of(4)), fields)
                self._shapes[key] = _Shape(total(shape), first.bytes, first.dtype, array_fields.numbers(3))
            return self._shapes[key]
        return _Shape(0, 0, "", [])

    def _opcode(self, span: Span) -> str:
        return self._fields(span).text(2)

    def _called(self, span: Span) -> list[int]:
        """The ids of the computations of a fusion."""
        return [each for each in self._fields(span).numbers(38) if each in self.program.computations]

    def _operands(self, instruction: Fields, computation: int) -> list[Span]:
        spans = [self.program.span(computation, operand) for operand in instruction.numbers(36)]
        return [operand for operand in spans if operand is not None]

    def _flops(self, span: Span, computation: int) -> int | None:
        """The flops of a product, or of all that a fusion holds; 0 if there is none, None where it cannot be told."""
        opcode = self._opcode(span)
        if opcode == "fusion":
            return _sum([self._flops_in(called) for called in self._called(span)])
        if opcode not in _PRODUCTS:
            return 0
        instruction = self._fields(span)
        operands = self._operands(instruction, computation)
        if len(operands) < 2 or 86 in instruction:
            return None
        shape = self._shape(span)
        result, first, second = (self._shape(operand).dimensions for operand in (span, *operands[:2]))
        if shape.dtype in _COMPLEX:
            return None
        if opcode == "convolution":
            return _convolved(instruction, result, second)
        summed = _summed(opcode, instruction)
        if summed is None or not all(0 <= axis < len(first) for axis in summed):
            return None
        return 2 * math.prod(result) * math.prod(first[axis] for axis in summed)

    def _flops_in(self, computation: int) -> int | None:
        """The flops of all products that a computation holds, as `_flops` has them."""
        if computation not in self._flops_of:
            spans = self.program.computations[computation].spans
            parts = [span for span in spans if self._opcode(span) in _PRODUCTS | {"fusion"}]
            self._flops_of[computation] = _sum([self._flops(part, computation) for part in parts])
        return self._flops_of[computation]

    def _bytes(self, span: Span, computation: int) -> int | None:
        """The sizes of operands and result of an instruction that reads and writes all of them, else None."""
        instruction = self._fields(span)
        product = self._opcode(span) == "custom-call" and instruction.text(28) in _GEMMS
        if not product and not self._whole(span):
            return None
        # The second result of such a product is its workspace.
        result = self._shape(span).first_bytes if product else self._shape(span).bytes
        operands = dict.fromkeys(self._operands(instruction, computation))
        return result + sum(self._shape(operand).bytes for operand in operands)

    def _whole(self, span: Span) -> bool:
        """Whether an instruction, and all that a fusion holds, reads all of its operands and writes all its result."""
        opcode = self._opcode(span)
        if opcode == "fusion":
            called = self._called(span)
            holds = any(self.program.computations[each].spans for each in called)
            return holds and all(map(self._all_whole, called))
        whole = kinds.base_opcode(opcode) == opcode
        return whole and opcode not in _PARTIAL and opcode not in collectives.OPCODES

    def _all_whole(self, computation: int) -> bool:
        """Whether all that a computation holds reads and writes as `_whole` says."""
        if computation not in self._is_whole:
            self._is_whole[computation] = all(
                self._opcode(part) in _NAMES or self._whole(part)
                for part in self.program.computations[computation].spans
            )
        return self._is_whole[computation]


def _sum(flops: list[int | None]) -> int | None:
    """The sum of what is told, None where one is not."""
    return None if None in flops else sum(filter(None, flops))


def _summed(opcode: str, instruction: Fields) -> list[int] | None:
    """The axes of the first operand over which a product sums, None where they are not told."""
    if opcode == "dot":
        return [axis for dimensions in instruction.of(30) for axis in dimensions.numbers(1)]
    if instruction.text(28) not in _GEMMS:
        return None
    try:
        config = json.loads(instruction.text(43))
        axes = config.get("gemm_backend_config", config)["dot_dimension_numbers"]["lhs_contracting_dimensions"]
        return [int(axis) for axis in axes]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _convolved(instruction: Fields, result: list[int], kernel: list[int]) -> int | None:
    """The flops of a convolution without padding, dilation or groups, in which every product counts; else None."""
    windows = [dimension for window in instruction.of(15) for dimension in window.of(1)]
    plain = all(
        not window.number(3) and not window.number(4) and window.number(5, 1) == 1 and window.number(6, 1) == 1
        for window in windows
    )
    outputs = next((dimensions.number(4) for dimensions in instruction.of(16)), -1)
    if not plain or instruction.number(50, 1) > 1 or instruction.number(58, 1) > 1 or not 0 <= outputs < len(kernel):
        return None
    return 2 * math.prod(result) * math.prod(size for axis, size in enumerate(kernel) if axis != outputs)


def _fits(number: int | None) -> int | None:
    """`number`, None if it is negative or fits no int64."""
    return number if number is not None and 0 <= number < 1 << 63 else None
