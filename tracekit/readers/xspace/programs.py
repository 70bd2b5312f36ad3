"""The compiled programs of a file: what their HLO protos say of the ops that ran, and which op needs which."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import categorical, distinct, frame, in_order, joined, labels, places_of, texts
from tracekit.readers.hlo import operands
from tracekit.readers.hlo.costs import Costs
from tracekit.readers.hlo.hlo_proto import DAMAGED, Program
from tracekit.readers.hlo.instruction import Op
from tracekit.readers.losses import Lost
from tracekit.readers.xspace.planes import XSpace
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
        for metadata in plane.all_metadata(plane.event_ids):
            proto = metadata.stats.get(_PROGRAM_STAT)
            if isinstance(proto, bytes):
                protos[metadata.name] = proto
                # A TPU names the program by its id alone.
                protos.setdefault(metadata.name[metadata.name.rfind("(") :], proto)
    return Programs(protos)


def with_operations(
    parts: Sequence[dict[str, Any]],
    operations: Sequence[dict[str, Any]],
    operands_of: Sequence[Mapping[int, str]],
    programs: Programs,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The rows of all `parts` (columns of EVENT_COLUMNS), whose `op` numbers their own `operations` (OP_COLUMNS), with
    the operations that have rows (OP_COLUMNS) and those of them that need others (OPERAND_COLUMNS); `operands_of` are
    the names of operands that the trace itself tells, with a blank between them, by the number of an operation. The
    parts lose their columns.
    """
    lengths = [len(each["hlo_op"]) if each else 0 for each in operations]
    table = joined(OP_COLUMNS, operations)
    columns = {name: table[name].array for name in OP_COLUMNS}
    which, first = distinct(columns["program"].codes, columns["hlo_op"].codes)
    has_rows = np.zeros(len(first), bool)
    edges = np.cumsum([0, *lengths]).tolist()
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
    names_of = {
        int(number[which[begin + at]]): names
        for begin, of_part in zip(edges, operands_of, strict=False)
        for at, names in of_part.items()
        if first[which[begin + at]] == begin + at and has_rows[which[begin + at]]
    }
    told, pairs = _told(_merged(columns, which, first, np.flatnonzero(has_rows)), names_of, programs)
    return (
        events,
        told,
        frame(OPERAND_COLUMNS, dict(zip(OPERAND_COLUMNS, np.array(pairs, np.int64).reshape(-1, 2).T, strict=True))),
    )


def _merged(
    columns: dict[str, Any], which: NDArray[np.int64], first: NDArray[np.int64], kept: NDArray[np.int64]
) -> dict[str, Any]:
    """Those `kept` of the distinct operations of the columns (n,), of which each is `which` (n,) and the `first` of
    each counts; what that leaves open, another may tell."""
    merged = {name: column[first[kept]] for name, column in columns.items()}
    if len(first) == len(which):
        return merged
    for name in ("opcode", *_OPEN):
        source = first.copy()
        rows = np.flatnonzero(~columns[name].isna())[::-1]  # of several the first counts
        source[which[rows]] = rows
        merged[name] = columns[name][source[kept]]
    return merged


def _told(
    columns: dict[str, Any], names_of: Mapping[int, str], programs: Programs
) -> tuple[pd.DataFrame, list[tuple[int, int]]]:
    """The operations with what their protos tell, and which of them needs which; `names_of` are operands, with a
    blank between them, by the number of an operation."""
    of_program, first = distinct(columns["program"].codes)
    keys = [key or "" for key in texts(columns["program"][first])]
    pairs: list[tuple[int, int]] = []
    completed: dict[str, dict[int, Any]] = {name: {} for name in _OPEN}
    for key, places in zip(keys, places_of(of_program, len(keys)), strict=True):
        if not programs.indexed(key).proto and names_of.keys().isdisjoint(places.tolist()):
            continue
        ops = [*texts(columns["hlo_op"][places])]
        missing = {name: columns[name][places].isna() for name in _OPEN}
        costs = Costs(programs.indexed(key))
        try:
            if costs.program.proto:
                for at in np.flatnonzero(np.logical_or.reduce([*missing.values()])).tolist():
                    cost = costs.of(ops[at])
                    for name in _OPEN:
                        if missing[name][at]:
                            completed[name][int(places[at])] = getattr(cost, name)
            names = {name: names_of.get(at, "") for name, at in zip(ops, places.tolist(), strict=True)}
            pairs += _operands(names, places.tolist(), programs.of(key))
        except DAMAGED:
            programs.damaged(key)
    filled = {name: _filled(column, completed.get(name, {})) for name, column in columns.items()}
    return frame(OP_COLUMNS, filled), pairs


def _filled(column: Any, values: Mapping[int, Any]) -> Any:
    """A column of OP_COLUMNS with these values in some of its places, its texts in order."""
    if not isinstance(column, pd.Categorical):
        column = column.copy()
        for at, value in values.items():
            column[at] = value
        return column
    told = [*dict.fromkeys(value for value in values.values() if value is not None)]
    if told:
        codes = column.codes.astype(np.int64)
        place = {value: at for at, value in enumerate(told, len(column.categories))} | {None: -1}
        codes[[*values]] = [place[value] for value in values.values()]
        column = categorical([*labels(column), *told, None], codes)
    return in_order(column)


def _operands(operands_of: Mapping[str, str], numbers: Sequence[int], program: Program) -> list[tuple[int, int]]:
    """Which of the operations of one program, called `numbers`, needs which: by its proto, else by their own texts, in
    which only operands that left rows themselves are told."""
    number = dict(zip(operands_of, numbers, strict=True))
    pairs: Iterable[tuple[str, str]]
    if program.proto:
        pairs = operands.operands(program, [*number])
    else:
        pairs = dict.fromkeys(
            (name, operand) for name, names in operands_of.items() for operand in names.split() if operand in number
        )
    return [(number[op], number[operand]) for op, operand in pairs]
