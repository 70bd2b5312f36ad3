"""The operations of many files as one frame, in which a program that several files hold alike stands once.

All hosts of a job mostly run the same programs. A program counts as the same where its rows and their operands are: a
name or an id alone says little, since each process numbers its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import concat, distinct, frame
from tracekit.trace import OP_COLUMNS, OPERAND_COLUMNS, Trace

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Programs:
    """`ops` (OP_COLUMNS) and `operands` (OPERAND_COLUMNS) of all traces, and how each trace's operations are numbered.

    `numbers`: for each trace, in the order given, the row in `ops` of each of its own operations, shape (its ops,).
    """

    ops: pd.DataFrame
    operands: pd.DataFrame
    numbers: tuple[Numbers, ...]

    def renumbered(self, op: pd.Series, trace: int) -> pd.Series:
        """The column `events.op` of the trace that stands at place `trace`, by the numbers of `ops`; null stays."""
        known = op.notna().to_numpy(bool)
        values = np.append(self.numbers[trace], 0)[op.to_numpy(np.int64, na_value=-1)]
        return pd.Series(pd.arrays.IntegerArray(values, ~known), index=op.index)


def operations(traces: Sequence[Trace]) -> Programs:
    """The operations of all `traces`.

    Rows with operands, and all rows of their program, count once where another trace holds the same program row for
    row and operand for operand; other rows where another row is equal in every column.
    """
    counts = [len(trace.ops) for trace in traces]
    begins = np.cumsum([0, *counts])
    ops = concat(OP_COLUMNS, [trace.ops for trace in traces])
    pairs = np.concatenate(
        [trace.operands.to_numpy() + begin for trace, begin in zip(traces, begins[:-1], strict=True)]
        or [np.zeros((0, 2), np.int64)]
    )
    value, _ = distinct(*(_coded(ops[column]) for column in OP_COLUMNS))
    # A block is one program of one trace.
    block, _ = distinct(np.repeat(np.arange(len(traces)), counts), ops["program"].cat.codes.to_numpy())
    linked = np.zeros(block.max(initial=-1) + 1, bool)
    linked[block[pairs]] = True
    same = _first_alike(pairs, value, block, linked)
    stays = same == np.arange(len(ops))
    number = (np.cumsum(stays) - 1)[same]
    pairs = number[pairs]
    pairs = pairs[np.sort(distinct(*pairs.T)[1])]
    return Programs(
        ops=ops[stays].reset_index(drop=True),
        operands=frame(OPERAND_COLUMNS, {"op": pairs[:, 0], "operand": pairs[:, 1]}),
        numbers=tuple(np.split(number, begins[1:-1])) if counts else (),
    )


def _first_alike(pairs: Numbers, value: Numbers, block: Numbers, linked: NDArray[np.bool_]) -> Numbers:
    """For each row the first that stands for the same operation, maybe itself.

    `pairs` (p, 2) are the operands, `value` tells which rows are equal, `block` which are of one program, `linked`
    which blocks have operands.
    """
    same = np.arange(len(value))
    loose = np.flatnonzero(~linked[block])
    codes, first = distinct(value[loose])
    same[loose] = loose[first[codes]]
    of_block = _grouped(block, len(linked))
    pairs_of_block = _grouped(block[pairs[:, 0]], len(linked))
    place = np.zeros(len(block), np.int64)
    for rows in of_block:
        place[rows] = np.arange(len(rows))
    known: dict[tuple[bytes, bytes], Numbers] = {}
    for number in np.flatnonzero(linked).tolist():
        rows, (op, operand) = of_block[number], pairs[pairs_of_block[number]].T
        links = np.stack([place[op], place[operand], value[operand]], 1)
        links = links[np.lexsort(links.T[::-1])]
        same[rows] = known.setdefault((value[rows].tobytes(), links.tobytes()), rows)
    return same


def _grouped(group: Numbers, groups: int) -> list[Numbers]:
    """The places at which each of the numbers 0..groups stands in `group`, in order."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.searchsorted(group[order], np.arange(1, groups)))


def _coded(column: pd.Series) -> Numbers:
    """A number for each value of a column, of its own for null."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.int64)
    return np.asarray(pd.factorize(column)[0], np.int64)
