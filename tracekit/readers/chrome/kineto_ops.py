"""Which operator and which line of Python launched the device rows of a Kineto document.

Both are told by time: the innermost operator (`cpu_op`) and Python frame (`python_function`, with `with_stack`) around
the launch, on the same thread. Newer files also join kernel and operator by an `External id`: in all that were compared
it names the same operator. Kineto writes no FLOPs, even with `with_flops`.
"""

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.readers.chrome import Document
from tracekit.readers.distinct import distinct
from tracekit.readers.nested import innermost
from tracekit.trace import OP_COLUMNS, frame, labelled

Rows = NDArray[np.int64]

# `torch/nn/modules/linear.py(124): forward`; what is built in has no file.
_FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): .")
_OF_TORCH = re.compile(r"(?:^|/)torch/")


def read(document: Document, launches: Rows, ops: Rows, frames: Rows) -> tuple[pd.DataFrame, pd.arrays.IntegerArray]:
    """The operations (OP_COLUMNS), one for each operator and line, and the row there of each of the n device rows.

    `launches`, shape (n,), are the events that launched the device rows, -1 where none is known; `ops` are the
    operators and `frames` the Python frames among the events. `source` is where the innermost function outside of
    PyTorch begins, else the innermost of all.
    """
    calls, call = np.unique(launches[launches >= 0], return_inverse=True)
    operator = np.append(document.name.codes, -1)[_around(document, calls, ops)].astype(np.int64)
    places = [_FRAME.match(name) if len(frames) else None for name in document.name.categories]
    files = np.array([bool(place) for place in places] + [False], bool)
    own = np.array([bool(place and not _OF_TORCH.search(place["file"])) for place in places] + [False], bool)
    called = document.name.codes[frames]
    inner = _around(document, calls, frames[own[called]])
    inner = np.where(inner < 0, _around(document, calls, frames[files[called]]), inner)
    line = np.append(document.name.codes, -1)[inner].astype(np.int64)
    which, first = distinct(operator, line)
    known = (operator >= 0) | (line >= 0)
    row = np.full(len(launches), -1)
    row[launches >= 0] = np.where(known, which, -1)[call]
    kept = known[first]
    row = np.append(np.cumsum(kept) - 1, -1)[row]
    first = first[kept]
    names: list[str | None] = [*document.name.categories, None]
    sources = [place and f"{place['file']}:{place['line']}" for place in [*places, None]]
    told = {"framework_op": labelled(names, operator[first]), "source": labelled(sources, line[first])}
    return frame(OP_COLUMNS, told), pd.arrays.IntegerArray(row, row < 0)


def _around(document: Document, calls: Rows, ranges: Rows) -> Rows:
    """The innermost of `ranges` around the beginning of each call on its thread, -1 where there is none."""
    thread = document.pid.codes.astype(np.int64) * (len(document.tid.categories) + 1) + document.tid.codes
    start = document.start_ps[ranges]
    found = innermost(
        document.start_ps[calls], thread[calls], start, start + document.duration_ps[ranges], thread[ranges]
    )
    return np.where(found >= 0, np.append(ranges, -1)[found], -1)
