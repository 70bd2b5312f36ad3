"""CUDA in an Nsight Systems export: kernels, graphs, copies and memsets, the API calls of the host, and what waits.

CUPTI's records of synchronisation name stream, context and event; those of recorded events (in newer exports) tell
which call recorded the event, and on which stream. What a call is, only its name tells: of cudaDeviceSynchronize
`syncType` is 4 in some versions and 1 in others. `deviceId` is 0 in the records of every device; contexts tell.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import categorical, distinct, places_of
from tracekit.devices import MOST_NUMBER
from tracekit.intervals import sum_exactly
from tracekit.readers import repeats
from tracekit.readers.losses import Lost
from tracekit.readers.nested import innermost, outermost
from tracekit.readers.nsys import machine
from tracekit.readers.nsys.machine import process_of
from tracekit.readers.nsys.sqlite_export import (
    MISSING,
    Export,
    count_lost_columns,
    has_rows,
    integers,
    rows,
    select,
    strings,
    tables_of,
)
from tracekit.vocabulary import copies, kinds
from tracekit.vocabulary.collectives import operation
from tracekit.vocabulary.host_calls import (
    SyncCall,
    asks_if_done,
    begins_capture,
    copies_memory,
    launches,
    launches_a_kernel,
    launches_graph,
    launches_host_function,
    recorded_into_graph,
    records_event,
    sets_memory,
    stands_aside,
    sync_call,
    tells_of_recording,
)
from tracekit.vocabulary.kinds import UNNAMED_KERNEL, Kind
from tracekit.vocabulary.losses import Loss

Integers = NDArray[np.int64]

_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_KERNELS = (f"{_ACTIVITY}KERNEL", f"{_ACTIVITY}CONCURRENT_KERNEL")
_COPIES = (f"{_ACTIVITY}MEMCPY", f"{_ACTIVITY}MEMCPY2")
_SETS = (f"{_ACTIVITY}MEMSET",)
_GRAPHS = (f"{_ACTIVITY}GRAPH_TRACE",)
_CALLS = (f"{_ACTIVITY}RUNTIME", f"{_ACTIVITY}DRIVER")
# Which calls start the work of these tables. While a graph is captured, calls start nothing.
_STARTING = (
    (launches_a_kernel, _KERNELS, {Kind.COMPUTE, Kind.COLLECTIVE}),
    (copies_memory, _COPIES, {Kind.MEMCPY}),
    (sets_memory, _SETS, {Kind.MEMSET}),
)
# What a call asks a device for; of old APIs (`cudaLaunch`) and new ones (`cuMemcpyBatchAsync`) something else.
_SORTS = (launches_graph, launches_a_kernel, copies_memory, sets_memory, launches)
# Calls that fail, or copy no bytes, start nothing either.
_FEWEST_CALLS = 3
_HOW = "`nsys profile --trace=cuda,nvtx` records it, if the program uses CUDA."
# Tables with times that are no work of a device: waits, events, the profiler's own work.
_NO_WORK = ("SYNCHRONIZATION", "OVERHEAD", "CUDA_EVENT", "MEMORY", "MEMORY2", "MEMORY_POOL")

_COMMON = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
# What else tells rows apart that ran at once: nodes of one graph have one id of correlation.
_TOLD_APART = ("graphNodeId", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "copyKind", "value")
_IDS = ("contextId", "streamId", "correlationId")
# A kernel's names, the one to take first; ids of StringIds.
_NAMES = ("demangledName", "shortName", "mangledName", "name")

# ENUM_CUDA_MEMCPY_OPER: id -> symbol without its prefix, and what each means. Array and device are one memory here.
_COPY_KINDS = (
    *("UNKNOWN", "HTOD", "DTOH", "HTOA", "ATOH", "ATOA", "ATOD", "DTOA", "DTOD", "HTOH", "PTOP"),
    *("UVM_HTOD", "UVM_DTOH", "UVM_DTOD"),
)
_COPY_SYMBOL = "CUDA_MEMCPY_KIND_"
_UNIFIED = "UVM_"
# ENUM_CUDA_UNIF_MEM_MIGRATION: the program asked for it (cudaMemPrefetchAsync).
_PREFETCH = 1
# ENUM_CUDA_MEM_KIND: id -> what a copy reads or writes.
_MEMORIES = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown")
_SIDES = {"H": "Host", "D": "Device", "A": "Array", "P": "Peer"}

# Records of synchronisation, and the calls they are compared with.
_SYNCS, _EVENTS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
_COLUMNS = ("globalPid", "contextId", "streamId", "correlationId", "eventId", "eventSyncId")
_OF_RECORDS = (*_IDS, "eventId")
_LANE, _STREAM, _EVENT, _DEVICE = range(4)
_KINDS = {SyncCall.STREAM_WAIT: _LANE, SyncCall.STREAM: _STREAM, SyncCall.EVENT: _EVENT, SyncCall.DEVICE: _DEVICE}
# CUPTI's correlation ids are 32 bits wide and count for each process; above them the ids of `Calls` hold the process.
CORRELATION_BITS = 32
_PS_PER_NS = 1000
_NO_RECORD = -2


@dataclass(frozen=True)
class What:
    """What a row is: its name, how it is classified, whether the driver itself moved unified memory, and whether
    what would tell which way it copies is lost."""

    name: str
    classification: kinds.Classification
    category: str | None = None
    unified: bool = False
    is_lost: bool = False


@dataclass(frozen=True)
class Work:
    """Device rows; `label` is the place of each in `labels`. Unknown ids are MISSING, as are sizes but of copies."""

    start_ns: Integers
    end_ns: Integers
    device: Integers
    context: Integers
    stream: Integers
    correlation: Integers
    process: Integers
    size_bytes: Integers
    label: Integers
    labels: tuple[What, ...]


@dataclass(frozen=True)
class Calls:
    """Calls of the CUDA API: times, serialized thread id, process, correlation id and the id of the name."""

    start_ns: Integers
    end_ns: Integers
    thread: Integers
    process: Integers
    correlation: Integers
    name_id: Integers


def work(export: Export) -> tuple[Work, list[str]]:
    """Every device row with a valid time, and notes on what is missing, skipped or only guessed."""
    kernels = [_once(export, table, _kernels(export, table)) for table in tables_of(export, *_KERNELS)]
    copies = [_once(export, table, _copies(export, table)) for table in tables_of(export, *_COPIES)]
    sets = [_once(export, table, _sets(export, table)) for table in tables_of(export, *_SETS)]
    graphs = [_once(export, table, _graphs(export, table)) for table in tables_of(export, *_GRAPHS)]
    if graphs and kernels:
        graphs = [_without_nodes(part, _concatenate([*kernels, *copies, *sets])) for part in graphs]
    notes = _other(export)
    if graph_rows := sum(len(part.start_ns) for part in graphs):
        notes.append(
            f"{graph_rows} rows are whole CUDA graphs: what ran inside them was not recorded, and they count as "
            "compute. `nsys profile --cuda-graph-trace=node` records each kernel."
        )
    rows = _concatenate([*kernels, *copies, *sets, *graphs])
    valid = (rows.start_ns != MISSING) & (rows.end_ns >= rows.start_ns)
    # CUPTI writes 0 for both where it could not collect the times.
    valid &= (rows.start_ns != 0) | (rows.end_ns != 0)
    if not valid.all():
        evidence = "device rows without a valid time"
        export.lost.append(Lost(Loss.EVENTS, int((~valid).sum()), len(valid), evidence))
        rows = select(rows, valid)
    _count_kindless(export, rows)
    no_number = (rows.device != MISSING) & ((rows.device < 0) | (rows.device >= MOST_NUMBER))
    if count := int(no_number.sum()):
        export.lost.append(Lost(Loss.EVENTS, count, len(no_number), "device rows of GPUs that no machine has"))
        rows = replace(rows, device=np.where(no_number, MISSING, rows.device))
    _count_wide(export, rows.correlation, "device rows")
    if unplaced := int((rows.device == MISSING).sum()):
        if others := unplaced - count:
            export.lost.append(Lost(Loss.EVENTS, others, len(rows.device), "device rows whose GPU is not known"))
        notes.append(f"The GPU of {unplaced} rows is unknown: they count in no device.")
    return rows, notes


def _once(export: Export, table: str, part: Work) -> Work:
    """The rows of a table without those that repeat one before them, ids and all, which are counted."""
    rows = np.flatnonzero((part.start_ns != MISSING) & (part.correlation > 0))
    keys = (part.process, part.context, part.stream, part.correlation, part.device, part.size_bytes, part.label)
    others = [name for name in _TOLD_APART if name in export.tables[table]]

    def details(some: Integers) -> list[Integers]:
        return [column[rows[some]] for column in integers(export, table, others).values()] if others else []

    start, end = part.start_ns[rows], part.end_ns[rows]
    again = repeats.repeated(start, end, [column[rows] for column in keys], details)
    if not again.any():
        return part
    export.lost.extend(repeats.lost(again, f"rows of {table}"))
    kept = np.ones(len(part.start_ns), bool)
    kept[rows[again]] = False
    return select(part, kept)


def _count_kindless(export: Export, rows: Work) -> None:
    """Count the copies whose kind is lost, by their time."""
    length = (rows.end_ns - rows.start_ns) * _PS_PER_NS
    is_lost = np.array([what.is_lost for what in rows.labels], bool)[rows.label]
    if is_lost.any():
        evidence = "copies whose kind is lost"
        export.lost.append(Lost(Loss.KINDS, sum_exactly(length[is_lost]), sum_exactly(length), evidence))


def count_unrecorded(export: Export, work: Work, calls: Calls) -> list[str]:
    """Count what calls of CUDA put on a GPU of which there are no rows, as lost, and give the notes on what else an
    export of little work lacks.

    `nsys export` makes no table without rows, or all tables (`--lazy=false`): an empty one alone proves nothing.
    Without any work of a GPU none was recorded; where some is there, the table was lost.
    """
    which, names = pd.factorize(calls.name_id)
    texts = strings(export, names, never_empty=True)
    names_of_calls = [texts.get(name_id, "") for name_id in names.tolist()]
    number = np.bincount(which, minlength=len(names_of_calls)).tolist()
    is_captured = any(map(begins_capture, names_of_calls))
    if not _has_rows(export, (*_KERNELS, *_COPIES, *_SETS, *_GRAPHS)):
        sorts = (launches_graph,) if is_captured else (launches_graph, *(starts for starts, _, _ in _STARTING))
        at = np.flatnonzero(np.array([any(sort(name) for sort in sorts) for name in names_of_calls], bool)[which])
        at = _outermost(calls, at)
        failed = _failed(export, calls, at)
        if (every := int((~failed).sum())) < _FEWEST_CALLS:
            if failed.any():
                return [f"No CUDA work was recorded: of {len(at)} calls that start some {int(failed.sum())} failed."]
            return [f"No CUDA work was recorded (there is no table of kernels, copies or memsets). {_HOW}"]
        export.lost.append(Lost(Loss.LAUNCHED, every, every, machine.why_unrecorded(export)))
        return []
    read = {work.labels[label].classification.kind for label in np.unique(work.label).tolist()}
    for starts, tables, its_kinds in () if is_captured else _STARTING:
        starting = sum(count for name, count in zip(names_of_calls, number, strict=True) if starts(name))
        if starting < _FEWEST_CALLS:
            continue
        if is_gone := not _has_rows(export, tables):
            evidence = f"no rows of {tables[0]}, which {starting:,} calls of CUDA started"
            export.lost.append(Lost(Loss.ABSENT, 1, None, evidence))
        if is_gone or not read & its_kinds:  # how much work that is, calls tell, be the table gone or all damaged
            export.lost.append(Lost(Loss.EVENTS, starting, None, f"of {tables[0]}, which calls of CUDA started"))
    if (with_call := int((work.correlation > 0).sum())) and not _has_rows(export, _CALLS):
        evidence = f"no rows of {_CALLS[0]}, the calls of CUDA that launched {with_call:,} device rows"
        export.lost.append(Lost(Loss.ABSENT, 1, None, evidence))
    if not _has_rows(export, (*_KERNELS, *_GRAPHS)):
        return [f"The export contains copies or memsets but no kernels (no table of kernels). {_HOW}"]
    return []


def unanswered(export: Export, work: Work, calls: Calls, has_row: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which calls should have put work on a device of which there is no row, so that it is lost or had not run yet;
    `has_row`: which calls have one.

    Not what failed, what was recorded into a graph, what lies in or around a call that has a row, and no sort of call
    of which none has one: `count_unrecorded` tells of these. None where as many rows do not tell their call, which may
    be theirs; and but for graphs, none where these are launched and nothing shows that their recording would be seen.
    """
    which, ids = pd.factorize(calls.name_id)
    texts = strings(export, ids)
    names = [texts.get(name_id, "") for name_id in ids.tolist()]
    sort_of = np.array([_sort(name) for name in names] + [-1])
    sort = sort_of[which]
    is_told = np.bincount(sort[has_row & (sort >= 0)], minlength=len(_SORTS)) > 0
    if any(map(launches_graph, names)) and not any(map(tells_of_recording, names)):
        is_told[1:] = False
    open_calls = (sort >= 0) & ~has_row
    open_calls[open_calls] = is_told[sort[open_calls]]
    unlinked = (work.correlation == MISSING) & ~np.array([what.unified for what in work.labels], bool)[work.label]
    if np.count_nonzero(open_calls) <= np.count_nonzero(unlinked):
        return np.zeros(len(sort), bool)
    open_calls &= ~_recorded_into_graphs(calls, categorical(names, which))
    places = np.flatnonzero(open_calls)
    others = np.flatnonzero(has_row & (sort >= 0))
    inside = _around(calls, places, others) >= 0
    outside = np.isin(np.arange(len(places)), _around(calls, others, places))
    open_calls[places[inside | outside | _failed(export, calls, places)]] = False
    return open_calls


def _sort(name: str) -> int:
    """The place in `_SORTS` of the first that a call of this name is; -1 where no row of a device is of it."""
    if launches_host_function(name):
        return -1
    return next((place for place, is_sort in enumerate(_SORTS) if is_sort(name)), -1)


def _recorded_into_graphs(calls: Calls, names: pd.Categorical) -> NDArray[np.bool_]:
    """Which calls of any process were recorded into a graph."""
    recorded = np.zeros(len(names), bool)
    process, processes = pd.factorize(calls.process)
    for at in places_of(process, len(processes)):
        recorded[at] = recorded_into_graph(names[at], calls.start_ns[at], calls.thread[at])
    return recorded


def _around(calls: Calls, at: Integers, others: Integers) -> Integers:
    """The place in `others` of the innermost call around the start of each of the calls `at`, -1 for none."""
    start, end, thread = calls.start_ns, calls.end_ns, calls.thread
    return innermost(start[at], thread[at], start[others], end[others], thread[others])


def _outermost(calls: Calls, at: Integers) -> Integers:
    """Those of the calls `at` that lie in no other one: a call of the runtime makes one of the driver for what it
    starts."""
    start, end = calls.start_ns[at], np.maximum(calls.end_ns[at], calls.start_ns[at] + 1)
    thread, threads = pd.factorize(calls.thread[at])
    outer = [its[np.unique(outermost(start[its], end[its])[0])] for its in places_of(thread, len(threads))]
    places: Integers = np.sort(np.concatenate([*outer, np.empty(0, np.int64)]))
    return at[places]


def _failed(export: Export, calls: Calls, at: Integers) -> NDArray[np.bool_]:
    """Which of the calls `at` returned an error, and so put nothing on a device."""
    columns = ("globalTid", "correlationId")
    failed = [
        integers(export, table, columns, "returnValue != 0")
        for table in tables_of(export, *_CALLS)
        if "returnValue" in export.tables[table] and len(at)
    ]
    thread, correlation = (np.concatenate([at[:0], *(part[column] for part in failed)]) for column in columns)
    return _first((calls.thread[at], _numbers(calls.correlation[at])), (thread, correlation)) >= 0


def _has_rows(export: Export, names: Sequence[str]) -> bool:
    """Whether any of these tables has rows, or is known to be damaged."""
    damaged = {*export.damaged, *export.refused}
    return any(name in damaged for name in names) or any(has_rows(export, table) for table in tables_of(export, *names))


def _other(export: Export) -> list[str]:
    """A note on tables that look like device work but are not known."""
    understood = {*_KERNELS, *_COPIES, *_SETS, *_GRAPHS, *_CALLS, *(_ACTIVITY + kind for kind in _NO_WORK)}
    skipped = [
        table
        for table, columns in sorted(export.tables.items())
        if table.startswith(_ACTIVITY)
        and re.sub(r"_V\d+$", "", table) not in understood
        and {"start", "end", "deviceId"} <= columns
        and has_rows(export, table)
    ]
    return [f"Skipped rows of unknown meaning: {', '.join(skipped)}."] if skipped else []


def _concatenate(parts: Sequence[Work]) -> Work:
    """The rows of all parts, one after the other."""
    nothing = np.zeros(0, np.int64)
    shifts = np.cumsum([0, *(len(part.labels) for part in parts)]).tolist()
    shifted = [replace(part, label=part.label + shift) for part, shift in zip(parts, shifts, strict=False)]
    names = [field.name for field in fields(Work) if field.name != "labels"]
    columns = {name: np.concatenate([nothing, *(getattr(part, name) for part in shifted)]) for name in names}
    return Work(**columns, labels=tuple(what for part in parts for what in part.labels))


def _part(
    columns: dict[str, Integers],
    label: Integers,
    labels: Sequence[What],
    size_bytes: Integers | None = None,
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


def _what(name: str, typed: Kind) -> What:
    """What a row of this name in a table of such work is."""
    classification = kinds.classify(name, typed=typed)
    return What(name, classification, operation(name) if classification.kind == Kind.COLLECTIVE else None)


def _kernels(export: Export, table: str) -> Work:
    """Kernels by their first name that is known; NCCL's and others like it are collectives by that name."""
    count_lost_columns(export, table, _NAMES)
    name_columns = [name for name in _NAMES if name in export.tables[table]][:2]
    columns = integers(export, table, (*_COMMON, *name_columns), never_null=(*_IDS, *name_columns))
    names = [columns[name] for name in name_columns] or [np.full(len(columns["start"]), MISSING, np.int64)]
    which, first = distinct(*names)
    texts = strings(export, np.concatenate([ids[first] for ids in names]), never_empty=True)
    labels = []
    for row in first:
        name = next((texts[int(ids[row])] for ids in names if texts.get(int(ids[row]))), UNNAMED_KERNEL)
        labels.append(_what(name, Kind.COMPUTE))
    return _part(columns, which, labels)


def _graphs(export: Export, table: str) -> Work:
    """Launches of whole CUDA graphs (`--cuda-graph-trace=graph`): what they hold is not known."""
    columns = integers(export, table, (*_COMMON, "graphId"), never_null=(*_IDS, "graphId"))
    which, ids = pd.factorize(columns["graphId"])
    names = ["CUDA graph" if graph == MISSING else f"CUDA graph {graph}" for graph in ids.tolist()]
    return _part(columns, which, [_what(name, Kind.COMPUTE) for name in names])


def _without_nodes(graphs: Work, nodes: Work) -> Work:
    """The graphs without those whose nodes are rows too: same process, same correlation id. Rows are leaves."""
    key = np.stack([graphs.process, graphs.correlation], 1)
    node_key = np.stack([nodes.process, nodes.correlation], 1)
    owner, _ = distinct(*np.concatenate([key, node_key]).T)
    traced = np.isin(owner[: len(key)], owner[len(key) :]) & (graphs.correlation > 0)
    return select(graphs, ~traced)


def _copies(export: Export, table: str) -> Work:
    """Copies, and what the driver moved of unified memory; the direction is that of the record."""
    sides = ("srcKind", "dstKind", "srcDeviceId", "dstDeviceId")
    # What the driver moved itself has no id of a call.
    never_null = ("contextId", "streamId", "bytes", "copyKind", *({"correlationId"} - export.tables[table]))
    columns = integers(export, table, (*_COMMON, "bytes", "copyKind", "migrationCause", *sides), never_null=never_null)
    is_prefetch = columns["migrationCause"] == _PREFETCH
    has_both = (columns["srcDeviceId"] != MISSING) & (columns["dstDeviceId"] != MISSING)
    apart = has_both & (columns["srcDeviceId"] != columns["dstDeviceId"])
    which, first = distinct(columns["copyKind"], columns["srcKind"], columns["dstKind"], apart, is_prefetch)
    symbols = _symbols(export)
    unified = [kind for kind, symbol in symbols.items() if symbol.startswith(_UNIFIED)]
    _count_unlinked(export, table, len(columns["start"]), unified)
    labels = []
    for row in first:
        symbol = symbols.get(int(columns["copyKind"][row]), _COPY_KINDS[0])
        # Old exports write 0 for a device that they do not know, which proves nothing.
        way = copies.direction(symbol, apart=True if apart[row] and symbol != _COPY_KINDS[0] else None)
        name = _copy_name(symbol, int(columns["srcKind"][row]), int(columns["dstKind"][row]))
        name += f", {copies.PREFETCHED}" if is_prefetch[row] else ""
        classification = replace(kinds.classify(name, typed=Kind.MEMCPY), direction=way)
        is_lost = int(columns["copyKind"][row]) not in symbols
        labels.append(What(name, classification, unified=symbol.startswith(_UNIFIED), is_lost=is_lost))
    return _part(columns, which, labels, columns["bytes"])


def _count_unlinked(export: Export, table: str, total: int, unified: Sequence[int]) -> None:
    """Count the copies without a correlation id; of the kinds `unified`, which no call started, none has one."""
    if not {"correlationId", "copyKind"} <= export.tables[table]:
        return
    condition = f"correlationId IS NULL AND copyKind NOT IN ({', '.join(map(str, unified))})"
    if count := len(integers(export, table, ("start",), condition)["start"]):
        export.lost.append(Lost(Loss.DETAILS, count, total, f"{table}.correlationId is null"))


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
    has_sides = source_side in _SIDES and target_side in _SIDES
    way = f"{_SIDES[source_side]}-to-{_SIDES[target_side]}" if has_sides else "Unknown"
    name = f"CUDA memcpy {'Unified ' if symbol.startswith(_UNIFIED) else ''}{way}"
    memories = [_MEMORIES[kind] for kind in (source, target) if 0 <= kind < len(_MEMORIES) - 1]
    return f"{name} ({memories[0]} to {memories[1]})" if len(memories) == 2 else name


def _sets(export: Export, table: str) -> Work:
    """Memsets."""
    columns = integers(export, table, _COMMON, never_null=_IDS)
    return _part(columns, np.zeros(len(columns["start"]), np.int64), [_what("CUDA memset", Kind.MEMSET)])


def calls(export: Export) -> Calls:
    """The calls of the CUDA runtime and driver that have a correlation id and a valid time; others are counted."""
    columns = ("start", "end", "globalTid", "correlationId", "nameId")
    with_id = "correlationId != 0 OR correlationId IS NULL"
    parts = [
        integers(
            export,
            table,
            columns,
            with_id if "correlationId" in export.tables[table] else "",
            never_null=("correlationId", "nameId"),
        )
        for table in tables_of(export, *_CALLS)
    ]
    nothing = np.zeros(0, np.int64)
    start, end, thread, correlation, name = (
        np.concatenate([nothing, *(part[column] for part in parts)]) for column in columns
    )
    valid = (start != MISSING) & (end >= start)
    if invalid := int((~valid).sum()):
        export.lost.append(Lost(Loss.EVENTS, invalid, len(valid), "calls of CUDA without a valid time"))
    thread = np.where(thread <= 0, MISSING, thread)
    if unthreaded := int((thread == MISSING).sum()):
        export.lost.append(Lost(Loss.DETAILS, unthreaded, len(thread), "threads of the calls of CUDA"))
    _count_wide(export, correlation, "the calls of CUDA")
    found = select(Calls(start, end, thread, process_of(thread), correlation, name), valid & (correlation > 0))
    keys = (found.thread, found.correlation, found.name_id)
    again = repeats.repeated(found.start_ns, found.end_ns, keys, lambda _: [])
    export.lost.extend(repeats.lost(again, "calls of CUDA"))
    return select(found, ~again) if again.any() else found


def _count_wide(export: Export, correlation: Integers, whose: str) -> None:
    """Count correlation ids that CUPTI does not give, which join nothing."""
    is_wide = (correlation != MISSING) & ((correlation < 0) | (correlation >= 1 << CORRELATION_BITS))
    if count := int(is_wide.sum()):
        evidence = f"correlation ids of {whose} that are no numbers of {CORRELATION_BITS} bits"
        export.lost.append(Lost(Loss.DETAILS, count, len(correlation), evidence))


@dataclass(frozen=True)
class Waits:
    """n waits; `call` is the place of each in the calls, other columns name a device or stream by a row that ran there.

    `lane`: the stream that waits, -1 if the host thread does. `on_device`: the device that is waited for, -1 if that is
    unknown; `on_lane`: its stream, -1 for all. `recorded_ns`: what was launched before is waited for; MISSING if that
    is unknown.
    """

    call: Integers
    lane: Integers
    on_device: Integers
    on_lane: Integers
    recorded_ns: Integers


def waits(export: Export, work: Work, calls: Calls, device: Integers) -> Waits:
    """Every call that waits, in their order, but those that make a stream wait only if the export proves for what.

    `device` tells which device each row of `work` ran on, shape (rows,). A wait for a whole device is one for a context
    of it, so it is known only where the device ran nothing of another.
    """
    kind = _kinds(export, calls)
    at = np.flatnonzero(kind >= 0)
    at = at[np.argsort(calls.start_ns[at], kind="stable")]
    # Of a call of the runtime and one of the driver with the same id the first, which is around the other.
    at = at[np.sort(distinct(calls.process[at], calls.correlation[at])[1])]
    kind, process = kind[at], calls.process[at]
    # What the driver moved of unified memory is on no stream.
    on_streams = np.flatnonzero(~np.array([what.unified for what in work.labels], bool)[work.label])
    keys = (column[on_streams] for column in (device, work.process, work.context, work.stream))
    streams = on_streams[distinct(*keys)[1]]
    sync = _records(export, _SYNCS, work, calls)
    record = _first((process, _numbers(calls.correlation[at])), (sync["globalPid"], sync["correlationId"]))
    record_of = {column: np.append(sync[column], _NO_RECORD)[record] for column in _COLUMNS}
    own_stream = _stream(work, streams, process, record_of)
    recorded_on, recorded_ns = _recorded(export, work, streams, calls, process, record_of)
    of_event = (kind == _LANE) | (kind == _EVENT)
    on_lane = np.where(of_event, recorded_on, np.where(kind == _STREAM, own_stream, -1))
    on_device = np.where(kind == _DEVICE, _whole(work, device, streams, process, record_of["contextId"]), on_lane)
    recorded_ns = np.where(on_device < 0, MISSING, np.where(of_event, recorded_ns, calls.start_ns[at]))
    lane = np.where(kind == _LANE, own_stream, -1)
    keep = (kind != _LANE) | ((lane >= 0) & (on_lane >= 0))
    return Waits(*(column[keep] for column in (at, lane, on_device, on_lane, recorded_ns)))


def queries(export: Export, calls: Calls) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which calls only ask whether work is done, and which stand beside such calls and do nothing."""
    which, names = pd.factorize(calls.name_id)
    texts = strings(export, names)
    is_query, is_aside = (
        np.array([test(texts.get(name_id, "")) for name_id in names.tolist()], bool)[which]
        for test in (asks_if_done, stands_aside)
    )
    return is_query, is_aside


def _kinds(export: Export, calls: Calls) -> Integers:
    """What each call waits for, -1 for one that does not."""
    which, names = pd.factorize(calls.name_id)
    texts = strings(export, names)
    calls_of = [sync_call(texts.get(name_id, "")) for name_id in names.tolist()]
    return np.array([-1 if call is None else _KINDS.get(call, -1) for call in calls_of], np.int64)[which]


def _numbers(correlation: Integers) -> Integers:
    """The ids as CUPTI wrote them."""
    return correlation & ((1 << CORRELATION_BITS) - 1)


def _stream(work: Work, streams: Integers, process: Integers, record: dict[str, Integers]) -> Integers:
    """That of the rows `streams` which is on the stream of each record, -1 where nothing ran there."""
    stream_ids = (work.process[streams], work.context[streams], work.stream[streams])
    return np.append(streams, -1)[_first((process, record["contextId"], record["streamId"]), stream_ids)]


def _records(export: Export, name: str, work: Work, calls: Calls) -> dict[str, Integers]:
    """The columns of a table of records, `globalPid` as `process_of` gives it; no rows where there is no table."""
    tables = tables_of(export, name)
    if not tables:
        return {column: np.zeros(0, np.int64) for column in _COLUMNS}
    columns = integers(export, tables[0], _COLUMNS, never_null=_OF_RECORDS, all_or_none=("globalPid",))
    process = process_of(columns["globalPid"])
    # Some exports do not say whose a record is; with one process there is no doubt.
    owners = np.unique(np.concatenate([work.process, calls.process]))
    owners = owners[owners != MISSING]
    _count_wide(export, columns["correlationId"], name)
    if len(owners) > 1 and (unowned := int((process == MISSING).sum())):
        export.lost.append(Lost(Loss.DETAILS, unowned, len(process), f"processes of the records of {name}"))
    return {**columns, "globalPid": np.where(process == MISSING, owners[0], process) if len(owners) == 1 else process}


def _recorded(
    export: Export, work: Work, streams: Integers, calls: Calls, process: Integers, record: dict[str, Integers]
) -> tuple[Integers, Integers]:
    """On which stream the event was recorded that each wait is for, as one of `streams`, and when that call began.

    -1 and MISSING where that is not known. `record` is the record of each wait.
    """
    event = _records(export, _EVENTS, work, calls)
    event_record = _first((process, record["eventSyncId"]), (event["globalPid"], event["eventSyncId"]))
    event_record = np.where(record["eventSyncId"] > 0, event_record, -1)
    event_record = np.where(event_record < 0, _latest(process, record, event), event_record)
    event_columns = {column: np.append(event[column], _NO_RECORD)[event_record] for column in _COLUMNS}
    on = _stream(work, streams, process, event_columns)
    which, names = pd.factorize(calls.name_id)
    texts = strings(export, names)
    recording = np.array([records_event(texts.get(name_id, "")) for name_id in names.tolist()], bool)[which]
    order = np.flatnonzero(recording)
    order = order[np.argsort(calls.start_ns[order], kind="stable")]
    recording_ids = (calls.process[order], _numbers(calls.correlation[order]))
    by = np.append(order, -1)[_first((process, event_columns["correlationId"]), recording_ids)]
    proven = (on >= 0) & (by >= 0)
    return np.where(proven, on, -1), np.where(proven, np.append(calls.start_ns, MISSING)[by], MISSING)


def _latest(process: Integers, record: dict[str, Integers], event: dict[str, Integers]) -> Integers:
    """The last record of the same event of the same context before each wait, -1 where there is none.

    Events are used again and again; exports without `eventSyncId` tell the use only by the order of correlation ids.
    """
    count = len(event["eventId"])
    which, _ = distinct(
        np.concatenate([event["globalPid"], process]),
        np.concatenate([event["contextId"], record["contextId"]]),
        np.concatenate([event["eventId"], record["eventId"]]),
    )
    number = np.concatenate([event["correlationId"], record["correlationId"]])
    key = (which << CORRELATION_BITS) + np.where(number > 0, number, 0)
    order = np.argsort(key[:count], kind="stable")
    before = np.searchsorted(key[order], key[count:]) - 1
    last_record = np.append(order, -1)[before]
    return np.where((before >= 0) & (np.append(which[:count], -1)[last_record] == which[count:]), last_record, -1)


def _whole(work: Work, device: Integers, streams: Integers, process: Integers, context: Integers) -> Integers:
    """That of the rows `streams` which is on the device of each context, if the device ran no other; else -1."""
    owner, _ = distinct(work.process[streams], work.context[streams])
    owners = np.bincount(device[streams[distinct(device[streams], owner)[1]]], minlength=device.max(initial=-1) + 1)
    row = _first((process, context), (work.process[streams], work.context[streams]))
    alone = np.append(owners[device[streams]] == 1, False)[row]
    return np.where(alone, np.append(streams, -1)[row], -1)


def _first(queries: Sequence[Integers], table: Sequence[Integers]) -> Integers:
    """For each row of the columns `queries` the first equal row of `table`, -1 where there is none."""
    count = len(table[0])
    which, _ = distinct(*(np.concatenate(columns) for columns in zip(table, queries, strict=True)))
    first = np.full(which.max(initial=-1) + 1, -1)
    first[which[:count][::-1]] = np.arange(count)[::-1]
    return first[which[count:]]
