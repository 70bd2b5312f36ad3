"""The CUDA work in an Nsight Systems export: kernels, graphs, copies and memsets, and the API calls of the host."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import distinct
from tracekit.readers.nsys.machine import process_of
from tracekit.readers.nsys.sqlite_export import MISSING, Export, has_rows, integers, named, rows, strings
from tracekit.vocabulary import copies, kinds
from tracekit.vocabulary.collectives import operation
from tracekit.vocabulary.kinds import Kind

_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_KERNELS = (f"{_ACTIVITY}KERNEL", f"{_ACTIVITY}CONCURRENT_KERNEL")
_COPIES = (f"{_ACTIVITY}MEMCPY", f"{_ACTIVITY}MEMCPY2")
_SETS = (f"{_ACTIVITY}MEMSET",)
_GRAPHS = (f"{_ACTIVITY}GRAPH_TRACE",)
_CALLS = (f"{_ACTIVITY}RUNTIME", f"{_ACTIVITY}DRIVER")
# Tables with times that are no work of a device: waits, events, the profiler's own work.
_NO_WORK = ("SYNCHRONIZATION", "OVERHEAD", "CUDA_EVENT", "MEMORY", "MEMORY2", "MEMORY_POOL")

_COMMON = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
# A kernel's names, the one to take first; ids of StringIds.
_NAMES = ("demangledName", "shortName", "mangledName", "name")
_UNNAMED = "unnamed kernel"

# ENUM_CUDA_MEMCPY_OPER: id -> symbol without its prefix, and what each means. Array and device are one memory here.
_COPY_KINDS = (
    *("UNKNOWN", "HTOD", "DTOH", "HTOA", "ATOH", "ATOA", "ATOD", "DTOA", "DTOD", "HTOH", "PTOP"),
    *("UVM_HTOD", "UVM_DTOH", "UVM_DTOD"),
)
_COPY_SYMBOL = "CUDA_MEMCPY_KIND_"
_UNIFIED = "UVM_"
# ENUM_CUDA_MEM_KIND: id -> what a copy reads or writes.
_MEMORIES = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown")
_SIDES = {"H": "Host", "D": "Device", "A": "Array", "P": "Peer"}


@dataclass(frozen=True)
class What:
    """What a row is: its name, what it was judged to be, and whether the driver itself moved unified memory."""

    name: str
    kind: str
    direction: str | None
    known_by: str
    category: str | None = None
    unified: bool = False


@dataclass(frozen=True)
class Work:
    """Device rows; `label` is the place of each in `labels`. Unknown ids are MISSING, as are sizes but of copies."""

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    device: NDArray[np.int64]
    context: NDArray[np.int64]
    stream: NDArray[np.int64]
    correlation: NDArray[np.int64]
    process: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    label: NDArray[np.int64]
    labels: tuple[What, ...]

    def where(self, keep: NDArray[np.bool_]) -> "Work":
        """The rows of `keep`, a mask."""
        return replace(self, **{name: getattr(self, name)[keep] for name in _WORK})


_WORK = tuple(one.name for one in fields(Work) if one.name != "labels")


@dataclass(frozen=True)
class Calls:
    """Calls of the CUDA API: times, serialized thread id, process, correlation id and the id of the name."""

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    thread: NDArray[np.int64]
    process: NDArray[np.int64]
    correlation: NDArray[np.int64]
    name_id: NDArray[np.int64]

    def where(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> "Calls":
        """The calls of `keep`, a mask or places."""
        return replace(self, **{one.name: getattr(self, one.name)[keep] for one in fields(self)})


def work(export: Export) -> tuple[Work, list[str]]:
    """Every device row with a valid time, and notes on what is missing, skipped or only guessed."""
    kernels = [_kernels(export, table) for table in named(export, *_KERNELS)]
    copies = [_copies(export, table) for table in named(export, *_COPIES)]
    sets = [_sets(export, table) for table in named(export, *_SETS)]
    graphs = [_graphs(export, table) for table in named(export, *_GRAPHS)]
    if graphs and kernels:
        graphs = [_without_nodes(part, _joined([*kernels, *copies, *sets])) for part in graphs]
    notes = _missing(bool(kernels or graphs), bool(copies or sets)) + _other(export)
    whole = sum(len(part.start_ns) for part in graphs)
    if whole:
        notes.append(
            f"{whole} rows are whole CUDA graphs: what ran inside them was not recorded, and they count as compute. "
            "`nsys profile --cuda-graph-trace=node` records each kernel."
        )
    rows = _joined([*kernels, *copies, *sets, *graphs])
    valid = (rows.start_ns != MISSING) & (rows.end_ns >= rows.start_ns)
    # CUPTI writes 0 for both where it could not collect the times.
    valid &= (rows.start_ns != 0) | (rows.end_ns != 0)
    if not valid.all():
        notes.append(f"{int((~valid).sum())} device rows without a valid time were skipped.")
        rows = rows.where(valid)
    if unplaced := int((rows.device == MISSING).sum()):
        notes.append(f"The GPU of {unplaced} rows is unknown: they count in no device.")
    return rows, notes


def _missing(kernels: bool, copies: bool) -> list[str]:
    """What an export lacks, and how to record it."""
    how = "`nsys profile --trace=cuda,nvtx` records it, if the program uses CUDA."
    if not kernels and not copies:
        return [f"The export contains no CUDA work (no table of kernels, copies or memsets). {how}"]
    if not kernels:
        return [f"The export contains copies or memsets but no kernels (no table of kernels). {how}"]
    return []


def _other(export: Export) -> list[str]:
    """A note on tables that look like device work but are not known."""
    known = {*_KERNELS, *_COPIES, *_SETS, *_GRAPHS, *_CALLS, *(_ACTIVITY + kind for kind in _NO_WORK)}
    skipped = [
        table
        for table, columns in sorted(export.tables.items())
        if table.startswith(_ACTIVITY)
        and re.sub(r"_V\d+$", "", table) not in known
        and {"start", "end", "deviceId"} <= columns
        and has_rows(export, table)
    ]
    return [f"Skipped rows of unknown meaning: {', '.join(skipped)}."] if skipped else []


def _joined(parts: Sequence[Work]) -> Work:
    """The rows of all parts, one after the other."""
    nothing = np.zeros(0, np.int64)
    shifts = np.cumsum([0, *(len(part.labels) for part in parts)]).tolist()
    shifted = [replace(part, label=part.label + shift) for part, shift in zip(parts, shifts, strict=False)]
    columns = {name: np.concatenate([nothing, *(getattr(part, name) for part in shifted)]) for name in _WORK}
    return Work(**columns, labels=tuple(what for part in parts for what in part.labels))


def _part(
    columns: dict[str, NDArray[np.int64]],
    label: NDArray[np.int64],
    labels: Sequence[What],
    size_bytes: NDArray[np.int64] | None = None,
) -> Work:
    return Work(
        start_ns=columns["start"],
        end_ns=columns["end"],
        device=columns["deviceId"],
        context=columns["contextId"],
        stream=columns["streamId"],
        correlation=columns["correlationId"],
        process=process_of(columns["globalPid"]),
        size_bytes=np.full(len(label), MISSING, np.int64) if size_bytes is None else size_bytes,
        label=label,
        labels=tuple(labels),
    )


def _kernels(export: Export, table: str) -> Work:
    """Kernels by their first name that is known; NCCL's and others like it are collectives by that name."""
    name_columns = [name for name in _NAMES if name in export.tables[table]][:2]
    columns = integers(export, table, (*_COMMON, *name_columns))
    names = [columns[name] for name in name_columns] or [np.full(len(columns["start"]), MISSING, np.int64)]
    which, first = distinct(*names)
    texts = strings(export, np.concatenate([ids[first] for ids in names]))
    labels = []
    for row in first:
        name = next((texts[int(ids[row])] for ids in names if texts.get(int(ids[row]))), _UNNAMED)
        verdict = kinds.classify(name, typed=Kind.COMPUTE)
        category = operation(name) if verdict.kind == Kind.COLLECTIVE else None
        labels.append(What(name, verdict.kind.value, verdict.direction, verdict.known_by.value, category))
    return _part(columns, which, labels)


def _graphs(export: Export, table: str) -> Work:
    """Launches of whole CUDA graphs (`--cuda-graph-trace=graph`): what they hold is not known."""
    columns = integers(export, table, (*_COMMON, "graphId"))
    which, ids = pd.factorize(columns["graphId"])
    labels = []
    for graph in ids.tolist():
        name = "CUDA graph" if graph == MISSING else f"CUDA graph {graph}"
        verdict = kinds.classify(name, typed=Kind.COMPUTE)
        labels.append(What(name, verdict.kind.value, verdict.direction, verdict.known_by.value))
    return _part(columns, which, labels)


def _without_nodes(graphs: Work, nodes: Work) -> Work:
    """The graphs without those whose nodes are rows too: same process, same correlation id. Rows are leaves."""
    key = np.stack([graphs.process, graphs.correlation], 1)
    node_key = np.stack([nodes.process, nodes.correlation], 1)
    owner, _ = distinct(*np.concatenate([key, node_key]).T)
    traced = np.isin(owner[: len(key)], owner[len(key) :]) & (graphs.correlation > 0)
    return graphs.where(~traced)


def _copies(export: Export, table: str) -> Work:
    """Copies, and what the driver moved of unified memory; the direction is that of the record."""
    sides = ("srcKind", "dstKind", "srcDeviceId", "dstDeviceId")
    columns = integers(export, table, (*_COMMON, "bytes", "copyKind", *sides))
    known = (columns["srcDeviceId"] != MISSING) & (columns["dstDeviceId"] != MISSING)
    apart = known & (columns["srcDeviceId"] != columns["dstDeviceId"])
    which, first = distinct(columns["copyKind"], columns["srcKind"], columns["dstKind"], apart)
    symbols = _symbols(export)
    labels = []
    for row in first:
        symbol = symbols.get(int(columns["copyKind"][row]), _COPY_KINDS[0])
        # Old exports write 0 for a device that they do not know, which proves nothing.
        way = copies.direction(symbol, apart=True if apart[row] and symbol != _COPY_KINDS[0] else None)
        name = _copy_name(symbol, int(columns["srcKind"][row]), int(columns["dstKind"][row]))
        verdict = kinds.classify(name, typed=Kind.MEMCPY, direction=way)
        unified = symbol.startswith(_UNIFIED)
        labels.append(What(name, verdict.kind.value, way, verdict.known_by.value, unified=unified))
    return _part(columns, which, labels, columns["bytes"])


def _symbols(export: Export) -> dict[int, str]:
    """Copy kind -> its symbol (`HTOD`), from the export's own table if it has one, else as documented."""
    own_symbols = {
        key: str(name).removeprefix(_COPY_SYMBOL)
        for key, name in rows(export, "ENUM_CUDA_MEMCPY_OPER", "id", "name")
        if isinstance(key, int) and str(name).startswith(_COPY_SYMBOL)
    }
    return dict(enumerate(_COPY_KINDS)) | own_symbols


def _copy_name(symbol: str, source: int, target: int) -> str:
    """`CUDA memcpy Host-to-Device (Pageable to Device)`, in nsys's words; pageable memory explains missing overlap."""
    source_side, _, target_side = symbol.removeprefix(_UNIFIED).partition("TO")
    known = source_side in _SIDES and target_side in _SIDES
    way = f"{_SIDES[source_side]}-to-{_SIDES[target_side]}" if known else "Unknown"
    name = f"CUDA memcpy {'Unified ' if symbol.startswith(_UNIFIED) else ''}{way}"
    memories = [_MEMORIES[kind] for kind in (source, target) if 0 <= kind < len(_MEMORIES) - 1]
    return f"{name} ({memories[0]} to {memories[1]})" if len(memories) == 2 else name


def _sets(export: Export, table: str) -> Work:
    """Memsets."""
    columns = integers(export, table, _COMMON)
    verdict = kinds.classify("CUDA memset", typed=Kind.MEMSET)
    what = What("CUDA memset", verdict.kind.value, verdict.direction, verdict.known_by.value)
    return _part(columns, np.zeros(len(columns["start"]), np.int64), [what])


def calls(export: Export) -> Calls:
    """The calls of the CUDA runtime and driver that have a correlation id and a valid time."""
    parts = [
        integers(export, table, ("start", "end", "globalTid", "correlationId", "nameId"), "correlationId > 0")
        for table in named(export, *_CALLS)
        if "correlationId" in export.tables[table]
    ]
    nothing = np.zeros(0, np.int64)
    start, end, thread, correlation, name = (
        np.concatenate([nothing, *(part[column] for part in parts)])
        for column in ("start", "end", "globalTid", "correlationId", "nameId")
    )
    all_calls = Calls(start, end, thread, process_of(thread), correlation, name)
    return all_calls.where((start != MISSING) & (end >= start))
