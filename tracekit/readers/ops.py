"""What the columns of a plane say of its operations, whatever the device: opcodes, nesting, line labels."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals
from tracekit.readers.distinct import distinct
from tracekit.readers.planes import Plane

# Opcode of (module, program id as text, op), or None where no HLO proto tells.
Opcode = Callable[[str, str, str], str | None]


def opcodes(
    plane: Plane, rows: NDArray[np.int64], opcode: Opcode
) -> tuple[NDArray[np.int64], list[tuple[str, str | None]]]:
    """The distinct ops of the events `rows` as (hlo_op, opcode), and which of them each event is, shape (len(rows),).

    An event without hlo_op is the op "".
    """
    op, module = plane.strings("hlo_op")[rows], plane.strings("hlo_module")[rows]
    program = plane.numbers("program_id")[0][rows].astype(np.uint64)
    which, first = distinct(op.codes, module.codes, program)
    return which, [
        (_label(op, a), opcode(_label(module, b), str(number), _label(op, a)) if a >= 0 else None)
        for a, b, number in zip(op.codes[first], module.codes[first], program[first], strict=True)
    ]


def _label(strings: pd.Categorical, code: int) -> str:
    return str(strings.categories[code]) if code >= 0 else ""


def line_names(plane: Plane) -> list[str]:
    """The label of every line, unique within the plane."""
    names = [line.display_name or line.name or str(line.id) for line in plane.lines]
    times = Counter(names)
    return [name if times[name] == 1 else f"{name} [{line.id}]" for name, line in zip(names, plane.lines, strict=True)]


def leaves(
    start: NDArray[np.int64],
    closed: NDArray[np.int64],
    end: NDArray[np.int64],
    line: NDArray[np.int64],
    control: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """The rows (index, start, end), shape (m, 3), in which ops run that enclose no other op of their line.

    Control flow is dropped; another op that encloses ops is cut to the pieces in which no child runs. What encloses
    what is told by the events themselves, [start, closed): past that the thread may serve another device while `end` is
    open.
    """
    order = np.lexsort((-closed, start, line))
    s, c, e, on = start[order], closed[order], end[order], line[order]
    parent = np.zeros(len(order), bool)
    parent[:-1] = (on[1:] == on[:-1]) & (s[1:] < c[:-1]) & (c[1:] <= c[:-1])
    dropped = control[order]
    whole = ~parent & ~dropped
    pieces = [np.column_stack([order[whole], s[whole], e[whole]])]
    for at in np.flatnonzero(parent & ~dropped):
        stop = at + 1
        while stop < len(order) and on[stop] == on[at] and s[stop] < c[at]:
            stop += 1
        children = intervals.intervals(s[at + 1 : stop], e[at + 1 : stop])
        own = intervals.difference(intervals.intervals([s[at]], [e[at]]), children)
        pieces.append(np.column_stack([np.full(len(own), order[at]), own]))
    rows = np.concatenate(pieces).astype(np.int64)
    return rows[np.argsort(rows[:, 1], kind="stable")]
