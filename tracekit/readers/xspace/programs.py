"""The compiled programs of a file: what their HLO protos say of the ops that ran, and which op needs which."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import frame, joined
from tracekit.readers.hlo import operands
from tracekit.readers.hlo.costs import Costs
from tracekit.readers.hlo.hlo_proto import DAMAGED, Program
from tracekit.readers.hlo.instruction import Op
from tracekit.readers.losses import Lost
from tracekit.readers.xspace.planes import Operation, XSpace
from tracekit.trace import EVENT_COLUMNS, OP_COLUMNS, OPERAND_COLUMNS
from tracekit.vocabulary.losses import Loss

METADATA = "/host:metadata"
_PROGRAM_STAT = "Hlo Proto"
# What the trace may leave open of an operation, and its proto tell.
_OPEN = ("source", "framework_op", "flops", "bytes_accessed")


@dataclass(frozen=True)
class Programs:
    """The HLO protos of a file by `jit_f(12)`, also by `(12)`, each parsed when it is first asked for."""

    protos: dict[str, bytes]
    _read: dict[str, Program] = field(default_factory=dict, repr=False)
    _damaged: dict[bytes, str] = field(default_factory=dict, repr=False)

    def of(self, key: str) -> Program:
        """The program with a key, an empty one if the file holds no proto of it."""
        if key not in self._read:
            self._read[key] = Program(self.protos.get(key, b""))
        return self._read[key]

    def indexed(self, key: str) -> Program:
        """The program with a key, an empty one also where its instructions cannot be told apart."""
        program = self.of(key)
        try:
            _ = program.places
        except DAMAGED:
            self.damaged(key)
            program = self._read[key] = Program(b"")
        return program

    def op(self, module: str, program: str, name: str) -> Op | None:
        """What the op `name` of a module does, None if no proto tells, or if it is damaged there."""
        key = f"{module}({program})"
        try:
            return self.indexed(key).op(name)
        except DAMAGED:
            self.damaged(key)
            return None

    @property
    def devices(self) -> int | None:
        """On how many devices the program of most devices runs, None if none tells; a broken proto tells nothing."""
        sizes: list[int | None] = []
        for key in self.protos:
            try:
                sizes.append(self.of(key).devices)
            except DAMAGED:
                self.damaged(key)
        return max((size for size in sizes if size), default=None)

    def damaged(self, key: str) -> None:
        """Count the proto of a program as one that is damaged."""
        self._damaged.setdefault(self.protos[key], key)

    @property
    def lost(self) -> list[Lost]:
        """The protos that were found to be damaged."""
        if not self._damaged:
            return []
        evidence = f"{', '.join([*self._damaged.values()][:3])}: what they would tell of operations is not known"
        return [Lost(Loss.PROGRAMS, len(self._damaged), len(set(self.protos.values())), evidence)]


def programs(space: XSpace) -> Programs:
    """The programs in `/host:metadata` of a file."""
    protos: dict[str, bytes] = {}
    for plane in space.planes:
        if plane.name != METADATA:
            continue
        for metadata in map(plane.event_metadata, plane.event_ids):
            proto = metadata.stats.get(_PROGRAM_STAT)
            if isinstance(proto, bytes):
                protos[metadata.name] = proto
                # A TPU names the program by its id alone.
                protos.setdefault(metadata.name[metadata.name.rfind("(") :], proto)
    return Programs(protos)


def with_operations(
    parts: Sequence[dict[str, Any]], operations: Sequence[Sequence[Operation]], programs: Programs
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The rows of all `parts` (columns of EVENT_COLUMNS), whose `op` numbers their own `operations`, with the
    operations that have rows (OP_COLUMNS) and those of them that need others (OPERAND_COLUMNS). The parts lose their
    columns.
    """
    which, distinct = _distinct_operations([operation for of_plane in operations for operation in of_plane])
    has_rows = np.zeros(len(distinct), bool)
    edges = np.cumsum([0, *map(len, operations)]).tolist()
    of_plane = [which[begin:end] for begin, end in pairwise(edges)]
    nothing = np.zeros(0, np.int64)
    # -1 of a row that has no operation.
    of_rows = [
        pd.array(part["op"], "Int64", copy=False).to_numpy(np.int64, na_value=-1) if part else nothing for part in parts
    ]
    for own, numbers in zip(of_rows, of_plane, strict=True):
        has_rows[numbers[np.bincount(own + 1, minlength=len(numbers) + 1)[1:] > 0]] = True
    number = np.cumsum(has_rows) - 1
    for part, own, numbers in zip(parts, of_rows, of_plane, strict=True):
        if part:
            part["op"] = pd.arrays.IntegerArray(np.append(number[numbers], 0)[own], own < 0)
    events = joined(EVENT_COLUMNS, parts)
    with_rows = [distinct[at] for at in np.flatnonzero(has_rows)]
    of_program: dict[str, list[int]] = {}
    for at, operation in enumerate(with_rows):
        of_program.setdefault(operation.program, []).append(at)
    pairs: list[tuple[int, int]] = []
    for key, places in of_program.items():
        costs = Costs(programs.indexed(key))
        try:
            for at in places:
                with_rows[at] = _completed(with_rows[at], costs)
            pairs += _operands([with_rows[at] for at in places], places, programs.of(key))
        except DAMAGED:
            programs.damaged(key)
    return (
        events,
        _table(with_rows),
        frame(OPERAND_COLUMNS, dict(zip(OPERAND_COLUMNS, np.array(pairs, np.int64).reshape(-1, 2).T, strict=True))),
    )


def _distinct_operations(operations: Sequence[Operation]) -> tuple[NDArray[np.int64], list[Operation]]:
    """Which distinct operation each is, and these: what one of several leaves open, another may tell."""
    places: dict[tuple[str, str], int] = {}
    place_of: dict[int, int] = {}  # by object, as the planes of a file share them
    distinct: list[Operation] = []
    which = np.zeros(len(operations), np.int64)
    for at, operation in enumerate(operations):
        if id(operation) in place_of:
            which[at] = place_of[id(operation)]
            continue
        place = places.setdefault((operation.program, operation.name), len(distinct))
        if place == len(distinct):
            distinct.append(operation)
        which[at] = place_of[id(operation)] = place
        missing = {
            name: getattr(operation, name) for name in ("opcode", *_OPEN) if getattr(distinct[place], name) is None
        }
        if any(value is not None for value in missing.values()):
            distinct[place] = replace(distinct[place], **missing)
    return which, distinct


def _completed(operation: Operation, costs: Costs) -> Operation:
    """The operation with what its proto tells."""
    if all(getattr(operation, name) is not None for name in _OPEN):
        return operation
    cost = costs.of(operation.name)
    return replace(operation, **{name: getattr(cost, name) for name in _OPEN if getattr(operation, name) is None})


def _operands(operations: Sequence[Operation], numbers: Sequence[int], program: Program) -> list[tuple[int, int]]:
    """Which of the operations of one program, called `numbers`, needs which: by its proto, else by their own texts, in
    which only operands that left rows themselves are told."""
    number = {operation.name: at for operation, at in zip(operations, numbers, strict=True)}
    pairs: Iterable[tuple[str, str]]
    if program.proto:
        pairs = operands.operands(program, list(number))
    else:
        pairs = dict.fromkeys(
            (operation.name, name) for operation in operations for name in operation.operands if name in number
        )
    return [(number[op], number[operand]) for op, operand in pairs]


def _table(operations: Sequence[Operation]) -> pd.DataFrame:
    data = {
        "program": [operation.program or None for operation in operations],
        "hlo_op": [operation.name for operation in operations],
        **{name: [getattr(operation, name) for operation in operations] for name in ("opcode", *_OPEN)},
    }
    return frame(OP_COLUMNS, {name: pd.Series(data[name], dtype=_dtype(name)) for name in OP_COLUMNS})


def _dtype(column: str) -> str:
    return "str" if OP_COLUMNS[column] == "category" else str(OP_COLUMNS[column])
