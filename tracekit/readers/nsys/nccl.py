"""Message size and communicator of NCCL's collectives, from the payloads of its NVTX ranges.

They are in an export only if it was made with `nsys export --include-blobs=true`. A payload is four words of 8 bytes
(domain, schema, size of the fields, one more), then the fields, little-endian, where NVTX_PAYLOAD_SCHEMA_ENTRIES says.
Types are those of NVTX's nvToolsExtPayload.h; what NCCL writes is in its nvtx_payload_schemas.h.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import categorical, distinct
from tracekit.readers.nsys import nvtx
from tracekit.readers.nsys.cuda import Calls, Work
from tracekit.readers.nsys.nvtx import Ranges
from tracekit.readers.nsys.sqlite_export import MISSING, Export, integers, named, rows, texts
from tracekit.vocabulary.collectives import OPERATIONS
from tracekit.vocabulary.kinds import Kind

_HEADER = 32
_WORDS = (18, 22)  # uint64, size_t
_SIZE = "Message size [bytes]"
_COMMUNICATOR = "NCCL communicator ID"
_LARGEST = 1 << 62

# (domain, schema) -> size of the fields, offset of the message size, offset of the communicator.
_Fields = Mapping[tuple[int, int], tuple[int, int, int]]


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
    collective = np.array([what.kind == Kind.COLLECTIVE.value for what in work.labels], bool)[work.label]
    if fields and not len(size) and not notes and collective.any():
        notes.append(
            "The message sizes of the collectives were recorded but not exported: `nsys export --include-blobs=true` "
            "exports them."
        )
    inside = np.append(nvtx.enclosing(calls.start_ns, calls.thread, ranges), -1)[launch]
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
    tables = [table for table in named(export, nvtx.TABLE) if "binaryData" in export.tables[table]]
    if not tables or not fields:
        return nvtx.NO_RANGES, np.zeros(0, np.int64), np.zeros(0, np.uint64), []
    domains = ", ".join(map(str, sorted({domain for domain, _ in fields})))
    conditions = [f"length(binaryData) > 0 AND domainId IN ({domains})", nvtx.where(export, tables[0])]
    where = " AND ".join(filter(None, conditions))
    columns = integers(export, tables[0], ("start", "end", "globalTid", "domainId"), where)
    blobs = [blob or b"" for blob in texts(export, tables[0], "binaryData", where)]
    size, communicator, odd = _payloads(blobs, columns["domainId"], fields)
    good = (size != MISSING) & (columns["end"] >= columns["start"])
    unnamed = np.zeros(len(good), np.int64)
    ranges = Ranges(columns["start"], columns["end"], columns["globalTid"], unnamed, good, ("",)).where(good)
    notes = [f"{odd} payloads of NCCL calls do not match their schemas: their message sizes are unknown."]
    return ranges, size[good], communicator[good], notes if odd else []


def _fields(export: Export) -> _Fields:
    """The schemas that hold a message size and a communicator, each as one word.

    Schemas that several processes registered under the same ids, but differently, are left out.
    """
    offsets: dict[tuple[object, object], dict[str, set[object]]] = {}
    for domain, schema, name, kind, offset in rows(
        export, "NVTX_PAYLOAD_SCHEMA_ENTRIES", "domainId", "schemaId", "name", "type", "offset"
    ):
        if kind in _WORDS and name in (_SIZE, _COMMUNICATOR):
            offsets.setdefault((domain, schema), {}).setdefault(str(name), set()).add(offset or 0)
    sizes: dict[tuple[object, object], set[object]] = {}
    for domain, schema, size in rows(export, "NVTX_PAYLOAD_SCHEMAS", "domainId", "schemaId", "payloadSize"):
        sizes.setdefault((domain, schema), set()).add(size)
    fields = {}
    for (domain, schema), each in offsets.items():
        candidates = [sizes.get((domain, schema), set()), each.get(_SIZE, set()), each.get(_COMMUNICATOR, set())]
        values = [next(iter(value_set)) for value_set in candidates if len(value_set) == 1]
        if len(values) == len(candidates) and isinstance(domain, int) and isinstance(schema, int):
            size, at, group_at = (value if isinstance(value, int) else 0 for value in values)
            if 0 <= max(at, group_at) <= size - 8:
                fields[domain, schema] = (size, at, group_at)
    return fields


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
        joined = b"".join(blobs[place] for place in at.tolist())
        packed = np.frombuffer(joined, np.uint8).reshape(len(at), length)
        schema, payload = _word(packed, 8), _word(packed, 16)
        which, first = distinct(domain[at], schema, payload)
        for kind, row in enumerate(first):
            known = fields.get((int(domain[at[row]]), int(schema[row])))
            if known is None:
                continue
            alike = np.flatnonzero(which == kind)
            if payload[row] != known[0] or length < _HEADER + known[0]:
                odd += len(alike)
                continue
            sizes = _word(packed[alike], _HEADER + known[1])
            size[at[alike]] = np.where(sizes < _LARGEST, sizes.view(np.int64), MISSING)
            communicator[at[alike]] = _word(packed[alike], _HEADER + known[2])
    return size, communicator, odd


def _word(packed: NDArray[np.uint8], at: int) -> NDArray[np.uint64]:
    """The word at offset `at` of each row."""
    return np.ascontiguousarray(packed[:, at : at + 8]).view("<u8")[:, 0]
