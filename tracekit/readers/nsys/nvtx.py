"""The NVTX ranges of an Nsight Systems export, and what they say of the work that was launched inside them.

XLA marks what it launches (domain TSL: `Thunk:#hlo_op=…#` inside `XlaModule:#hlo_module=…#`), NCCL its calls.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import categorical, distinct, frame
from tracekit.readers.nested import innermost
from tracekit.readers.nsys.machine import process_of
from tracekit.readers.nsys.sqlite_export import MISSING, Export, decoded, integers, named, strings, texts
from tracekit.trace import OP_COLUMNS

TABLE = "NVTX_EVENTS"
# Ids of ENUM_NSYS_EVENT_TYPE, the same in every version: ranges of one thread, ranges from any to any thread, the same
# two from NVTXT files, and the row that names a domain.
_RANGES = (59, 60, 70, 71)
_PUSHED = (59, 70)
_DOMAIN = 75
_UNNAMED = "unnamed range"

_STEP = re.compile(r"ProfilerStep#(\d+)$|#(?:[^#]*,)?step_num=(\d+)(?:,[^#]*)?#$")
_CALL = re.compile(r", (?:op_id|seq|sizes|input_op_ids) = .*", re.DOTALL)
_XLA = {
    "hlo_op": re.compile(r"Thunk:#.*\bhlo_op=([^,#]+)"),
    "hlo_module": re.compile(r"XlaModule:#.*\bhlo_module=([^,#]+)"),
}


@dataclass(frozen=True)
class Ranges:
    """Ranges, one per row: times in ns, serialized thread id, and the place of the name in `names`.

    `pushed`: whether it was pushed onto its thread's stack; others may begin and end on any threads.
    """

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    thread: NDArray[np.int64]
    name: NDArray[np.int64]
    pushed: NDArray[np.bool_]
    names: tuple[str, ...]

    def where(self, keep: NDArray[np.bool_]) -> "Ranges":
        """The ranges of `keep`, a mask."""
        return replace(self, **{name: getattr(self, name)[keep] for name in _COLUMNS})

    def steps(self) -> pd.Series:
        """The step number in each name (`ProfilerStep#3`, `train#step_num=3#`), null elsewhere, Int64."""
        matches = [_STEP.search(name) for name in self.names]
        numbers = np.array([int(match[1] or match[2]) if match else -1 for match in matches], np.int64)[self.name]
        return pd.Series(numbers, dtype="Int64").where(numbers >= 0)


_NOTHING = np.zeros(0, np.int64)
NO_RANGES = Ranges(_NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING.astype(bool), ())
_COLUMNS = tuple(one.name for one in fields(Ranges) if one.name != "names")


def read(export: Export) -> tuple[Ranges, list[str]]:
    """Every range that was opened and closed, and notes; marks and names of threads, domains and categories are none.

    Names are `domain:text` where the domain has a name, as nsys itself prints them.
    """
    notes: list[str] = []
    tables = named(export, TABLE)
    if not tables:
        return NO_RANGES, notes
    condition = where(export, tables[0])
    columns = integers(export, tables[0], ("start", "end", "globalTid", "textId", "domainId", "eventType"), condition)
    good = (columns["start"] != MISSING) & (columns["end"] >= columns["start"])
    if unended := int((~good).sum()):
        notes.append(f"{unended} NVTX ranges without a valid end were skipped: they were open when the profile ended.")
    name, names = _names(export, tables[0], condition, columns)
    pushed = np.isin(columns["eventType"], (*_PUSHED, MISSING))
    return Ranges(columns["start"], columns["end"], columns["globalTid"], name, pushed, names).where(good), notes


def where(export: Export, table: str, types: Sequence[int] = _RANGES) -> str:
    """The condition in SQL under which a row is of these types; old or cut-down tables hold only ranges."""
    return f"eventType IN ({', '.join(map(str, types))})" if "eventType" in export.tables[table] else ""


def _names(
    export: Export, table: str, condition: str, columns: dict[str, NDArray[np.int64]]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The name of each range, as a place in the names: its own text, else the registered string `textId`."""
    # Where nsys 2021 had no text it wrote an empty one.
    texts_of_rows = [text or None for text in texts(export, table, "text", condition)] or [None] * len(columns["start"])
    codes, values = pd.factorize(np.array([*texts_of_rows, None], object)[:-1])
    ids, registered_ids = pd.factorize(np.where(codes < 0, columns["textId"], MISSING))
    registered = strings(export, registered_ids)
    labels = [decoded(one) or _UNNAMED for one in values]
    labels += [registered.get(one) or _UNNAMED for one in registered_ids.tolist()]
    label = np.where(codes >= 0, codes, ids + len(values))
    domains = _domains(export, table)
    if not domains:
        return label, tuple(labels)
    process = process_of(columns["globalTid"])
    which, first = distinct(label, process, columns["domainId"])
    named_in = [domains.get((int(process[row]), int(columns["domainId"][row]))) for row in first]
    full = [
        f"{domain}:{labels[label[row]]}" if domain else labels[label[row]]
        for row, domain in zip(first, named_in, strict=True)
    ]
    return which, tuple(full)


def _domains(export: Export, table: str) -> dict[tuple[int, int], str]:
    """(process, domain id) -> name, for the domains that have one."""
    if "eventType" not in export.tables[table]:
        return {}
    condition = where(export, table, (_DOMAIN,))
    columns = integers(export, table, ("globalTid", "domainId", "textId"), condition)
    texts_of_rows = texts(export, table, "text", condition) or [None] * len(columns["textId"])
    registered = strings(export, columns["textId"])
    names = [
        decoded(text) or registered.get(text_id)
        for text, text_id in zip(texts_of_rows, columns["textId"].tolist(), strict=True)
    ]
    keys = zip(process_of(columns["globalTid"]).tolist(), columns["domainId"].tolist(), strict=True)
    return {key: name for key, name in zip(keys, names, strict=True) if name}


def enclosing(at_ns: NDArray[np.int64], thread: NDArray[np.int64], ranges: Ranges) -> NDArray[np.int64]:
    """For each moment on a thread the innermost range around it there, -1 if there is none."""
    return innermost(at_ns, thread, ranges.start_ns, ranges.end_ns, ranges.thread)


def operations(
    at_ns: NDArray[np.int64], thread: NDArray[np.int64], ranges: Ranges, launch: NDArray[np.int64]
) -> tuple[dict[str, pd.Categorical], pd.DataFrame, pd.arrays.IntegerArray]:
    """Of each device row `hlo_op` and `hlo_module`; all operations (OP_COLUMNS), and that of each row.

    They are those of the launch, a moment and a thread, that stands at the place `launch`, shape (rows,), -1 for none.
    """
    columns = {**_xla(at_ns, thread, ranges), "framework_op": _framework(at_ns, thread, ranges)}
    codes = [np.append(values.codes.astype(np.int64), -1)[launch] for values in columns.values()]
    which, first = distinct(*codes)
    op, _, framework = (code[first] for code in codes)
    # A module alone is no operation.
    known = (op >= 0) | (framework >= 0)
    row = np.append(np.where(known, np.cumsum(known) - 1, -1), -1)[which]
    pairs = zip(columns.items(), codes, strict=True)
    of_row = {name: pd.Categorical.from_codes(code, dtype=column.dtype) for (name, column), code in pairs}
    sources = {"program": "hlo_module", "hlo_op": "hlo_op", "framework_op": "framework_op"}
    ops = frame(OP_COLUMNS, {name: of_row[column][first[known]] for name, column in sources.items()})
    return {name: of_row[name] for name in _XLA}, ops, pd.arrays.IntegerArray(row, row < 0)


def _framework(at_ns: NDArray[np.int64], thread: NDArray[np.int64], ranges: Ranges) -> pd.Categorical:
    """The name of the innermost range that was pushed around each launch, null where there is none.

    Steps, and what XLA marks for the profiler, are no operations. PyTorch's names lose the numbers that differ from
    call to call (`aten::mm, op_id = 12, seq = 4`).
    """
    marks = (_STEP, *_XLA.values())
    label = [None if any(mark.search(name) for mark in marks) else _CALL.sub("", name) for name in ranges.names]
    named = ranges.where(ranges.pushed & np.array([text is not None for text in label], bool)[ranges.name])
    return categorical([*label, None], np.append(named.name, len(label))[enclosing(at_ns, thread, named)])


def _xla(at_ns: NDArray[np.int64], thread: NDArray[np.int64], ranges: Ranges) -> dict[str, pd.Categorical]:
    """`hlo_op` and `hlo_module` of each launch (moment and thread), null where XLA marked none around it."""
    columns = {}
    for column, pattern in _XLA.items():
        matches = [pattern.search(name) if column in name else None for name in ranges.names]
        label = [match[1] if match else None for match in matches]
        marks = ranges.where(np.array([text is not None for text in label], bool)[ranges.name])
        which = enclosing(at_ns, thread, marks)
        columns[column] = categorical([*label, None], np.append(marks.name, len(label))[which])
    return columns
