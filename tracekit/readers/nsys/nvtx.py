"""The NVTX ranges of an Nsight Systems export, and what they say of the work that was launched inside them.

XLA marks what it launches (domain TSL: `Thunk:#hlo_op=…#` inside `XlaModule:#hlo_module=…#`), NCCL its calls.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.readers.distinct import distinct
from tracekit.readers.nsys.schema import MISSING, Export, decoded, integers, named, strings, texts
from tracekit.readers.nsys.target import process_of
from tracekit.trace import labelled

TABLE = "NVTX_EVENTS"
# Ids of ENUM_NSYS_EVENT_TYPE, the same in every version: ranges of one thread, ranges from any to any thread, the same
# two from NVTXT files, and the row that names a domain.
_RANGES = (59, 60, 70, 71)
_DOMAIN = 75
_UNNAMED = "unnamed range"
_NOTHING = np.zeros(0, np.int64)

_STEP = re.compile(r"ProfilerStep#(\d+)$|#(?:[^#]*,)?step_num=(\d+)(?:,[^#]*)?#$")
_XLA = {
    "hlo_op": re.compile(r"Thunk:#.*\bhlo_op=([^,#]+)"),
    "hlo_module": re.compile(r"XlaModule:#.*\bhlo_module=([^,#]+)"),
}


@dataclass(frozen=True)
class Ranges:
    """Ranges, one per row: times in ns, serialized thread id, and the place of the name in `names`."""

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    thread: NDArray[np.int64]
    name: NDArray[np.int64]
    names: tuple[str, ...]

    def where(self, keep: NDArray[np.bool_]) -> "Ranges":
        """The ranges of `keep`, a mask."""
        return Ranges(self.start_ns[keep], self.end_ns[keep], self.thread[keep], self.name[keep], self.names)

    def steps(self) -> pd.Series:
        """The step number in each name (`ProfilerStep#3`, `train#step_num=3#`), null elsewhere, Int64."""
        found = [_STEP.search(name) for name in self.names]
        numbers = np.array([int(one[1] or one[2]) if one else -1 for one in found], np.int64)[self.name]
        return pd.Series(numbers, dtype="Int64").where(numbers >= 0)


def read(export: Export) -> tuple[Ranges, list[str]]:
    """Every range that was opened and closed, and notes; marks and names of threads, domains and categories are none.

    Names are `domain:text` where the domain has a name, as nsys itself prints them.
    """
    notes: list[str] = []
    tables = named(export, TABLE)
    if not tables:
        return Ranges(_NOTHING, _NOTHING, _NOTHING, _NOTHING, ()), notes
    condition = where(export, tables[0])
    found = integers(export, tables[0], ("start", "end", "globalTid", "textId", "domainId"), condition)
    good = (found["start"] != MISSING) & (found["end"] >= found["start"])
    if left := int((~good).sum()):
        notes.append(f"{left} NVTX ranges without a valid end were left out: they were open when the profile ended.")
    name, names = _names(export, tables[0], condition, found)
    return Ranges(found["start"], found["end"], found["globalTid"], name, names).where(good), notes


def where(export: Export, table: str, types: Sequence[int] = _RANGES) -> str:
    """The condition in SQL under which a row is of these types; old or cut-down tables hold only ranges."""
    return f"eventType IN ({', '.join(map(str, types))})" if "eventType" in export.tables[table] else ""


def _names(
    export: Export, table: str, condition: str, found: dict[str, NDArray[np.int64]]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The name of each range, as a place in the names: its own text, else the registered string `textId`."""
    # Where nsys 2021 had no text it wrote an empty one.
    own = [text or None for text in texts(export, table, "text", condition)] or [None] * len(found["start"])
    codes, values = pd.factorize(np.array([*own, None], object)[:-1])
    ids, registered_ids = pd.factorize(np.where(codes < 0, found["textId"], MISSING))
    registered = strings(export, registered_ids)
    labels = [decoded(one) or _UNNAMED for one in values]
    labels += [registered.get(one) or _UNNAMED for one in registered_ids.tolist()]
    label = np.where(codes >= 0, codes, ids + len(values))
    domains = _domains(export, table)
    if not domains:
        return label, tuple(labels)
    process = process_of(found["globalTid"])
    which, first = distinct(label, process, found["domainId"])
    named_in = [domains.get((int(process[row]), int(found["domainId"][row]))) for row in first]
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
    found = integers(export, table, ("globalTid", "domainId", "textId"), condition)
    own = texts(export, table, "text", condition) or [None] * len(found["textId"])
    registered = strings(export, found["textId"])
    names = [decoded(text) or registered.get(one) for text, one in zip(own, found["textId"].tolist(), strict=True)]
    keys = zip(process_of(found["globalTid"]).tolist(), found["domainId"].tolist(), strict=True)
    return {key: name for key, name in zip(keys, names, strict=True) if name}


def enclosing(at_ns: NDArray[np.int64], thread: NDArray[np.int64], ranges: Ranges) -> NDArray[np.int64]:
    """For each moment on a thread the range there that started last before it, -1 if that has ended or there is none.

    Exact where the ranges of a thread do not nest; where they do, a moment after an inner range finds nothing.
    """
    count = len(ranges.start_ns)
    is_moment = np.repeat([False, True], [count, len(at_ns)])
    times = np.concatenate([ranges.start_ns, at_ns])
    on = np.concatenate([ranges.thread, thread])
    # Stable: a range comes before a moment at its very start, as above.
    order = np.lexsort((times, on))
    # The place of the last range at or before each place.
    last = np.maximum.accumulate(np.where(is_moment[order], -1, np.arange(len(order))))
    at = np.flatnonzero(is_moment[order])
    moment = order[at] - count
    candidate = np.where(last[at] >= 0, order[last[at]], -1)
    inside = candidate >= 0
    inside[inside] &= ranges.thread[candidate[inside]] == thread[moment[inside]]
    inside[inside] &= ranges.end_ns[candidate[inside]] >= at_ns[moment[inside]]
    found = np.full(len(at_ns), -1, np.int64)
    found[moment] = np.where(inside, candidate, -1)
    return found


def xla(at_ns: NDArray[np.int64], thread: NDArray[np.int64], ranges: Ranges) -> dict[str, pd.Categorical]:
    """`hlo_op` and `hlo_module` of each launch (moment and thread), null where XLA marked none around it."""
    columns = {}
    for column, pattern in _XLA.items():
        found = [pattern.search(name) if column in name else None for name in ranges.names]
        label = [one[1] if one else None for one in found]
        some = ranges.where(np.array([one is not None for one in label], bool)[ranges.name])
        which = enclosing(at_ns, thread, some)
        columns[column] = labelled([*label, None], np.append(some.name, len(label))[which])
    return columns
