"""The NVTX ranges of an Nsight Systems export, and what they say of the work that was launched inside them.

XLA marks what it launches (domain TSL: `Thunk:#hlo_op=…#` inside `XlaModule:#hlo_module=…#`), NCCL its calls. The
payloads of those tell message size and communicator, in an export that was made with `nsys export
--include-blobs=true`: four words of 8 bytes (domain, schema, size of the fields, one more), then the fields,
little-endian, where NVTX_PAYLOAD_SCHEMA_ENTRIES says. Types are those of NVTX's nvToolsExtPayload.h; what NCCL writes
is in its nvtx_payload_schemas.h.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import categorical, distinct, frame
from tracekit.readers import repeats
from tracekit.readers.losses import Lost
from tracekit.readers.nested import innermost
from tracekit.readers.nsys.cuda import Calls, Work
from tracekit.readers.nsys.machine import process_of
from tracekit.readers.nsys.sqlite_export import (
    MISSING,
    Export,
    count_odd_types,
    decoded,
    integers,
    rows,
    select,
    strings,
    tables_of,
    texts,
)
from tracekit.trace import OP_COLUMNS
from tracekit.vocabulary.collectives import OPERATIONS
from tracekit.vocabulary.host_calls import of_any_call, step_number
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.losses import Loss
from tracekit.vocabulary.phase_names import is_phase
from tracekit.vocabulary.step_names import named_step

_TABLE = "NVTX_EVENTS"
# Ids of ENUM_NSYS_EVENT_TYPE, the same in every version: ranges of one thread, ranges from any to any thread, the same
# two from NVTXT files, and the row that names a domain.
_RANGES = (59, 60, 70, 71)
_PUSHED = (59, 70)
_DOMAIN = 75
# All of those ids that are NVTX's, for exports without that table.
_TYPES = (*range(32, 40), 59, 60, *range(64, 77), 97, 98, 99)
_TYPE_NAMES = "ENUM_NSYS_EVENT_TYPE"
_UNNAMED = "unnamed range"

_XLA = {
    "hlo_op": re.compile(r"Thunk:#.*\bhlo_op=([^,#]+)"),
    "hlo_module": re.compile(r"XlaModule:#.*\bhlo_module=([^,#]+)"),
}

_HEADER = 32
_WORDS = (18, 22)  # uint64, size_t
_SIZE = "Message size [bytes]"
_COMMUNICATOR = "NCCL communicator ID"
_LARGEST = 1 << 62
_PAST_TYPES = 1 << 32

# (domain, schema) -> size of the fields, offset of the message size, offset of the communicator.
_Fields = Mapping[tuple[int, int], tuple[int, int, int]]


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

    def steps(self) -> pd.Series:
        """The step number in each name (`ProfilerStep#3`, `train#step_num=3#`), null elsewhere, Int64."""
        numbers = [step_number(name) for name in self.names]
        steps = np.array([-1 if number is None else number for number in numbers], np.int64)[self.name]
        return pd.Series(steps, dtype="Int64").where(steps >= 0)


_NOTHING = np.zeros(0, np.int64)
_NO_RANGES = Ranges(_NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING.astype(bool), ())


def read(export: Export) -> tuple[Ranges, list[str]]:
    """Every range that was opened and closed, and a note on open ones; marks and names of threads, domains and
    categories are none. Rows that are damaged are counted.

    Names are `domain:text` where the domain has a name, as nsys itself prints them.
    """
    notes: list[str] = []
    tables = tables_of(export, _TABLE)
    if not tables:
        return _NO_RANGES, notes
    condition = _is_of_type(export, tables[0])
    names_of_columns = ("start", "end", "globalTid", "textId", "domainId", "eventType")
    columns = integers(export, tables[0], names_of_columns, condition, all_or_none=("domainId",))
    start, end = columns["start"], columns["end"]
    is_open = (start != MISSING) & (end == MISSING)
    if len(end) and "end" not in export.tables[tables[0]]:
        export.lost.append(Lost(Loss.TABLES, 1, None, f"{tables[0]}.end is missing"))
    elif unended := int(is_open.sum()):
        notes.append(f"{unended} NVTX ranges without an end were skipped: they were open when the profile ended.")
    good = (start != MISSING) & (end >= start)
    untyped = _untyped(export, tables[0])
    all_rows = len(good) + untyped
    for count, total, what, evidence in (
        (untyped, all_rows, Loss.EVENTS, "NVTX events that do not say what they are"),
        (int((~good & ~is_open).sum()), all_rows, Loss.EVENTS, "NVTX ranges without a valid time"),
        (int((columns["globalTid"] <= 0).sum()), len(good), Loss.DETAILS, "threads of NVTX ranges"),
    ):
        if count:
            export.lost.append(Lost(what, count, total, evidence))
    count_odd_types(export, tables[0], "text", ("text",))
    count_odd_types(export, tables[0], "binaryData", ("blob",))
    name, names = _names(export, tables[0], condition, columns)
    pushed = np.isin(columns["eventType"], (*_PUSHED, MISSING))
    ranges = select(Ranges(columns["start"], columns["end"], columns["globalTid"], name, pushed, names), good)
    again = repeats.repeated(
        ranges.start_ns, ranges.end_ns, (ranges.thread, ranges.name, ranges.pushed.astype(np.int8)), lambda _: []
    )
    export.lost.extend(repeats.lost(again, "NVTX ranges"))
    return (select(ranges, ~again) if again.any() else ranges), notes


def _is_of_type(export: Export, table: str, types: Sequence[int] = _RANGES) -> str:
    """The condition in SQL under which a row is of these types; old or cut-down tables hold only ranges."""
    return f"eventType IN ({', '.join(map(str, types))})" if "eventType" in export.tables[table] else ""


def _untyped(export: Export, table: str) -> int:
    """How many rows of a table with types are of none that there is, by the export's own table of types too."""
    if "eventType" not in export.tables[table]:
        return 0
    own = [key for (key,) in rows(export, _TYPE_NAMES, "id") if isinstance(key, int)]
    known = ", ".join(map(str, {*own, *_TYPES}))
    condition = f"typeof(eventType) != 'integer' OR eventType NOT IN ({known})"
    return len(integers(export, table, ("start",), condition)["start"])


def _names(
    export: Export, table: str, condition: str, columns: dict[str, NDArray[np.int64]]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The name of each range, as a place in the names: its own text, else the registered string `textId`."""
    # Where nsys 2021 had no text it wrote an empty one.
    texts_of_rows = [text or None for text in texts(export, table, "text", condition)] or [None] * len(columns["start"])
    codes, values = pd.factorize(np.array([*texts_of_rows, None], object)[:-1])
    ids, registered_ids = pd.factorize(np.where(codes < 0, columns["textId"], MISSING))
    registered = strings(export, registered_ids)
    labels = [decoded(text) or _UNNAMED for text in values]
    labels += [registered.get(text_id) or _UNNAMED for text_id in registered_ids.tolist()]
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
    condition = _is_of_type(export, table, (_DOMAIN,))
    columns = integers(export, table, ("globalTid", "domainId", "textId"), condition)
    texts_of_rows = texts(export, table, "text", condition) or [None] * len(columns["textId"])
    registered = strings(export, columns["textId"])
    names = [
        decoded(text) or registered.get(text_id)
        for text, text_id in zip(texts_of_rows, columns["textId"].tolist(), strict=True)
    ]
    keys = [*zip(process_of(columns["globalTid"]).tolist(), columns["domainId"].tolist(), strict=True)]
    if damaged := sum(not name or MISSING in key for key, name in zip(keys, names, strict=True)):
        export.lost.append(Lost(Loss.DETAILS, damaged, len(names), "names of NVTX's domains, or whose they are"))
    return {key: name for key, name in zip(keys, names, strict=True) if name}


def _enclosing(calls: Calls, ranges: Ranges) -> NDArray[np.int64]:
    """The innermost range around the beginning of each call on its thread, -1 if there is none."""
    return innermost(calls.start_ns, calls.thread, ranges.start_ns, ranges.end_ns, ranges.thread)


def operations(
    calls: Calls, ranges: Ranges, launch: NDArray[np.int64]
) -> tuple[dict[str, pd.Categorical], pd.DataFrame, pd.arrays.IntegerArray]:
    """Of each device row `hlo_op` and `hlo_module`; all operations (OP_COLUMNS), and that of each row.

    They are those of the call at the place `launch`, shape (rows,), -1 for none.
    """
    columns = {**_xla(calls, ranges), "framework_op": _framework(calls, ranges)}
    codes = [np.append(values.codes.astype(np.int64), -1)[launch] for values in columns.values()]
    which, first = distinct(*codes)
    op, _, framework = (code[first] for code in codes)
    # A module alone is no operation.
    is_operation = (op >= 0) | (framework >= 0)
    row = np.append(np.where(is_operation, np.cumsum(is_operation) - 1, -1), -1)[which]
    pairs = zip(columns.items(), codes, strict=True)
    of_row = {name: pd.Categorical.from_codes(code, dtype=column.dtype) for (name, column), code in pairs}
    sources = {"program": "hlo_module", "hlo_op": "hlo_op", "framework_op": "framework_op"}
    ops = frame(OP_COLUMNS, {name: of_row[column][first[is_operation]] for name, column in sources.items()})
    return {name: of_row[name] for name in _XLA}, ops, pd.arrays.IntegerArray(row, row < 0)


def _framework(calls: Calls, ranges: Ranges) -> pd.Categorical:
    """The name of the innermost range that was pushed around each call, null where there is none.

    Steps, phases, and what XLA marks for the profiler, are no operations. PyTorch's names lose the numbers that differ
    from call to call (`aten::mm, op_id = 12, seq = 4`).
    """
    is_mark = [
        _is_step(name) or is_phase(name) or any(pattern.search(name) for pattern in _XLA.values())
        for name in ranges.names
    ]
    label = [None if mark else of_any_call(name) for name, mark in zip(ranges.names, is_mark, strict=True)]
    pushed = select(ranges, ranges.pushed & np.array([text is not None for text in label], bool)[ranges.name])
    return categorical([*label, None], np.append(pushed.name, len(label))[_enclosing(calls, pushed)])


def _is_step(name: str) -> bool:
    return step_number(name) is not None or named_step(name) is not None


def _xla(calls: Calls, ranges: Ranges) -> dict[str, pd.Categorical]:
    """`hlo_op` and `hlo_module` of each call, null where XLA marked none around it."""
    columns = {}
    for column, pattern in _XLA.items():
        matches = [pattern.search(name) if column in name else None for name in ranges.names]
        label = [match[1] if match else None for match in matches]
        marks = select(ranges, np.array([text is not None for text in label], bool)[ranges.name])
        which = _enclosing(calls, marks)
        columns[column] = categorical([*label, None], np.append(marks.name, len(label))[which])
    return columns


def messages(
    export: Export, work: Work, calls: Calls, launch: NDArray[np.int64]
) -> tuple[NDArray[np.int64], pd.Categorical, list[str]]:
    """Message size in bytes (else MISSING) and communicator (else null) of each device row, and notes.

    A collective has those of the NCCL call in which it was launched, if it is the only one from there. Calls in a group
    are launched together at the group's end, outside of each call: theirs stay unknown. NCCL counts what one rank sends
    to an all-gather and gets from a reduce-scatter; the whole, of as many ranks as no export tells, stays unknown too.
    `launch` is the place in `calls` of the call that started each row, -1 where it is unknown.
    """
    fields = _fields(export)
    ranges, size, communicator, notes = _nccl_calls(export, fields)
    collective = np.array([what.classification.kind == Kind.COLLECTIVE for what in work.labels], bool)[work.label]
    if fields and not len(size) and not notes and collective.any():
        notes.append(
            "The message sizes of the collectives were recorded but not exported: `nsys export --include-blobs=true` "
            "exports them."
        )
    inside = np.append(_enclosing(calls, ranges), -1)[launch]
    inside = np.where(collective, inside, -1)
    single = np.bincount(inside[inside >= 0], minlength=len(size)) == 1
    inside = np.where(np.append(single, False)[inside], inside, -1)
    codes, values = pd.factorize(communicator)
    groups = categorical([*(f"{value:#x}" for value in values.tolist()), None], np.append(codes, len(values))[inside])
    parts = np.array([bool(what.category and OPERATIONS[what.category].in_parts) for what in work.labels], bool)
    parts = parts[work.label]
    return np.where(parts, MISSING, np.append(size, MISSING)[inside]), groups, notes


def _nccl_calls(export: Export, fields: _Fields) -> tuple[Ranges, NDArray[np.int64], NDArray[np.uint64], list[str]]:
    """The NCCL calls that tell their message: range, size in bytes and communicator of each; and notes."""
    tables = [table for table in tables_of(export, _TABLE) if "binaryData" in export.tables[table]]
    if fields and tables and "domainId" not in export.tables[tables[0]]:
        export.lost.append(Lost(Loss.DETAILS, None, None, f"{tables[0]}.domainId, which tells NCCL's calls"))
        tables = []
    if not tables or not fields:
        return _NO_RANGES, np.zeros(0, np.int64), np.zeros(0, np.uint64), []
    domains = ", ".join(map(str, sorted({domain for domain, _ in fields})))
    conditions = [f"length(binaryData) > 0 AND domainId IN ({domains})", _is_of_type(export, tables[0])]
    where = " AND ".join(filter(None, conditions))
    columns = integers(export, tables[0], ("start", "end", "globalTid", "domainId"), where)
    blobs = [blob or b"" for blob in texts(export, tables[0], "binaryData", where)]
    size, communicator, odd = _payloads(blobs, columns["domainId"], fields)
    good = (size != MISSING) & (columns["end"] >= columns["start"])
    unnamed = np.zeros(len(good), np.int64)
    ranges = select(Ranges(columns["start"], columns["end"], columns["globalTid"], unnamed, good, ("",)), good)
    notes = [f"{odd} payloads of NCCL calls do not match their schemas: their message sizes are unknown."]
    if odd:
        export.lost.append(Lost(Loss.DETAILS, odd, len(good), "payloads of NCCL calls"))
    return ranges, size[good], communicator[good], notes if odd else []


def _fields(export: Export) -> _Fields:
    """The schemas that hold a message size and a communicator, each as one word.

    Schemas that several processes registered under the same ids, but differently, are left out.
    """
    offsets: dict[tuple[object, object], dict[str, set[object]]] = {}
    sizes: dict[tuple[object, object], set[object]] = {}
    for domain, schema, size in rows(export, "NVTX_PAYLOAD_SCHEMAS", "domainId", "schemaId", "payloadSize"):
        sizes.setdefault((domain, schema), set()).add(size)
    entries = rows(export, "NVTX_PAYLOAD_SCHEMA_ENTRIES", "domainId", "schemaId", "name", "type", "offset")
    damaged = _damaged_entries(entries, sizes)
    for domain, schema, name, kind, offset in entries:
        if kind in _WORDS and name in (_SIZE, _COMMUNICATOR):
            offsets.setdefault((domain, schema), {}).setdefault(str(name), set()).add(offset or 0)
    if sizes and not entries:
        evidence = "no rows of NVTX_PAYLOAD_SCHEMA_ENTRIES, which NVTX_PAYLOAD_SCHEMAS has the sizes of"
        export.lost.append(Lost(Loss.ABSENT, 1, None, evidence))
    if damaged:
        export.lost.append(Lost(Loss.DETAILS, damaged, len(entries), "entries of the schemas of NVTX's payloads"))
    sizeless = sum(
        None in key or not any(isinstance(size, int) and size >= 8 for size in sizes.get(key, ())) for key in offsets
    )
    fields, outside = {}, 0
    for (domain, schema), each in offsets.items():
        candidates = [sizes.get((domain, schema), set()), each.get(_SIZE, set()), each.get(_COMMUNICATOR, set())]
        values = [next(iter(value_set)) for value_set in candidates if len(value_set) == 1]
        if len(values) == len(candidates) and isinstance(domain, int) and isinstance(schema, int):
            size, at, group_at = (value if isinstance(value, int) else 0 for value in values)
            if min(at, group_at) >= 0 and max(at, group_at) <= size - 8 and abs(at - group_at) >= 8:
                fields[domain, schema] = (size, at, group_at)
            else:
                outside += size >= 8
    if damaged_schemas := sizeless + outside:
        export.lost.append(Lost(Loss.DETAILS, damaged_schemas, len(offsets), "schemas of NCCL's payloads"))
    return fields


def _damaged_entries(entries: Sequence[tuple[object, ...]], sizes: Mapping[tuple[object, object], set[object]]) -> int:
    """How many entries of schemas are none that NVTX takes, or lie outside of their schemas, or at the beginning of one
    where another is; whether those of message sizes lie well, `_fields` tells."""
    of_messages = {(domain, schema) for domain, schema, name, *_ in entries if name == _SIZE}
    first: dict[tuple[object, object], object] = {}
    damaged = 0
    for domain, schema, name, kind, offset in entries:
        is_good = isinstance(kind, int) and 0 < kind < _PAST_TYPES and isinstance(name, str)
        place = 0 if offset is None else offset
        if not isinstance(place, int):
            is_good = False
        elif is_good and sizes and (domain, schema) not in of_messages:
            size = max((size for size in sizes.get((domain, schema), ()) if isinstance(size, int)), default=0)
            is_good = 0 <= place < size
            is_good &= place != 0 or first.setdefault((domain, schema), name) == name
        damaged += not is_good
    return damaged


def _payloads(
    blobs: Sequence[bytes], domain: NDArray[np.int64], fields: _Fields
) -> tuple[NDArray[np.int64], NDArray[np.uint64], int]:
    """Message size (MISSING without one) and communicator of each payload, and how many are not as their schema."""
    size = np.full(len(blobs), MISSING, np.int64)
    communicator = np.zeros(len(blobs), np.uint64)
    lengths = np.fromiter(map(len, blobs), np.int64, len(blobs))
    odd = int((lengths < _HEADER).sum())
    for length in np.unique(lengths[lengths >= _HEADER]).tolist():
        at = np.flatnonzero(lengths == length)
        packed = np.frombuffer(b"".join(blobs[place] for place in at.tolist()), np.uint8).reshape(len(at), length)
        schema, payload = _word(packed, 8), _word(packed, 16)
        which, first = distinct(domain[at], schema, payload)
        for kind, row in enumerate(first):
            key = (int(domain[at[row]]), int(schema[row]))
            if key not in fields:
                continue
            fields_size, size_at, communicator_at = fields[key]
            alike = np.flatnonzero(which == kind)
            if payload[row] != fields_size or length < _HEADER + fields_size:
                odd += len(alike)
                continue
            sizes = _word(packed[alike], _HEADER + size_at)
            size[at[alike]] = np.where(sizes < _LARGEST, sizes.view(np.int64), MISSING)
            communicator[at[alike]] = _word(packed[alike], _HEADER + communicator_at)
    return size, communicator, odd


def _word(packed: NDArray[np.uint8], at: int) -> NDArray[np.uint64]:
    """The word at offset `at` of each row."""
    return np.ascontiguousarray(packed[:, at : at + 8]).view("<u8")[:, 0]
