"""The rows of a GPU's plane: every event of every `Stream #…` line that is work.

A stream's line also holds what its profiler allocated and waited for, and is called `CUPTI overhead` once one event of
that kind stands in it (xla/backends/profiler/gpu/cupti_collector.cc, rocm_collector.cc).
"""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals
from tracekit.columns import categorical, frame
from tracekit.readers.distinct import distinct
from tracekit.readers.hlo.instruction import MOVES, Op
from tracekit.readers.xspace import memcpy, plane_ops
from tracekit.readers.xspace.host_events import Calls
from tracekit.readers.xspace.planes import Plane
from tracekit.trace import DIRECTION_DTYPE, EVENT_COLUMNS
from tracekit.vocabulary import kinds
from tracekit.vocabulary.kinds import Kind

# Records of memory that was held, allocated or given back: they last as long as that, and nothing runs.
_MEMORY_STATS = ("MemoryResidency_details", "memalloc_details", "MemFree_details")
STATS = (
    *("correlation_id", "hlo_op", "hlo_module", "program_id", "run_id", "group_id"),
    *("memcpy_details", "Memset_details", "cuda_graph_id", *_MEMORY_STATS),
    *("theoretical_occupancy_pct", "kernel_details"),
)

OVERHEAD = "CUPTI overhead"
STREAM = "Stream #"
# Lines that repeat the kernels of the streams, or count something.
DERIVED = frozenset(
    {
        *("XLA Ops", "XLA Modules", "Async XLA Ops", "Steps", "Framework Ops", "Framework Name Scope", "Source code"),
        *("TensorFlow Ops", "TensorFlow Name Scope", "Launch Stats", "Host Offload Ops", "_counters_"),
    }
)
_WAITS = re.compile(r"(cu|cuda|hip)(Stream|Event|Ctx|Context|Device)\w*(Synchronize|WaitEvent)\w*|unknown synchroni.*")
# Of `kernel_details`; older versions write no occupancy there.
_OCCUPANCY = re.compile(r"\bocc_pct:([\d.]+)")
_UNIFIED = "UM_"
_GRAPH_AS_A_WHOLE = "CudaGraphExec:"
_ROCM = ("kind:", "__amd_rocclr")
_WAYS: list[str | None] = [None, *DIRECTION_DTYPE.categories]


@dataclass(frozen=True)
class Gpu:
    """What is known of a GPU beside its plane: `alone` if the file has no other, so that no copy leads to one."""

    host: str
    device: str
    ordinal: int
    alone: bool
    calls: Calls


def read(
    gpu: Gpu,
    plane: Plane,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    rows: NDArray[np.int64],
    lookup: plane_ops.Lookup,
) -> tuple[pd.DataFrame, list[plane_ops.Operation], list[str]]:
    """The rows (EVENT_COLUMNS) of the events `rows`, the operations that `op` numbers, and notes; `start` and `end` are
    those of all events, in ps."""
    rows, notes = _work(plane, rows)
    data = plane_ops.base(gpu.host, gpu.device, plane, rows)
    op, found, operations = plane_ops.hlo_ops(plane, rows, lookup)
    details = plane.strings("memcpy_details")[rows]
    sets = plane.has("Memset_details")[rows]
    which, first = distinct(op, data["name"].codes, data["lane"].codes, details.codes, sets)
    told = [*(memcpy.details(str(text), gpu.ordinal) for text in details.categories), memcpy.Details()]
    names, lanes = list(data["name"].categories), list(data["lane"].categories)
    of_first = [found[at][1] for at in op[first]]
    judged = []
    for row, one in zip(first, of_first, strict=True):
        name, copy = names[data["name"].codes[row]], told[details.codes[row]]
        way = copy.direction or memcpy.unified(name)
        typed = Kind.MEMCPY if details.codes[row] >= 0 or way else Kind.MEMSET if sets[row] else None
        judged.append(plane_ops.judge(name, one, typed=typed, direction=way, lane=lanes[data["lane"].codes[row]]))
    data |= plane_ops.described([(one, told.kind) for one, told in zip(of_first, judged, strict=True)], which)
    data["kind"] = categorical([one.kind.value for one in judged], which)
    data["known_by"] = categorical([one.known_by.value for one in judged], which)
    leaves = np.array([one.leaves for one in told], bool)[details.codes]
    data["host_memory"] = categorical([one.host_memory for one in told], details.codes)
    way, unproven = _directions(gpu, plane, rows, judged, of_first, which, leaves)
    data["direction"] = categorical(_WAYS, way)
    sizes = np.array([-1 if one.bytes is None else one.bytes for one in told], np.int64)[details.codes]
    # The record's own size, else that of the HLO op.
    data["bytes"] = pd.arrays.IntegerArray(
        np.where(sizes >= 0, sizes, data["bytes"].to_numpy(np.int64, na_value=-1)), (sizes < 0) & data["bytes"].isna()
    )
    data["start_ps"], data["end_ps"] = start[rows], end[rows]
    data["op"] = pd.arrays.IntegerArray(op, np.array([name == "" for name, _ in found], bool)[op])
    data["occupancy_ratio"] = _occupancy(plane, rows)
    if unproven:
        notes.append(
            f"{unproven} copies go from device to device, within one or between two: ROCm does not say which, and "
            "they have no direction."
        )
    missing = sum(name != "" and one is None for name, one in found)
    if missing:
        notes.append(f"{missing} of {len(found)} distinct ops have no HLO proto; their kernels' names told their kind.")
    nameless = np.array([one is None or one.does in kinds.CONTROL_FLOW for _, one in found], bool)[op]
    notes += _graph_notes(gpu, plane, rows, nameless, start[rows], end[rows])
    return frame(EVENT_COLUMNS, data), operations, notes


def waits(plane: Plane) -> NDArray[np.int64]:
    """The events that record waiting: they are no work."""
    codes = np.flatnonzero([bool(_WAITS.fullmatch(name)) for name in plane.names.categories])
    return np.flatnonzero(np.isin(plane.names.codes, codes)) if len(codes) else codes


def _work(plane: Plane, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[str]]:
    """Those of the events `rows` that are work, and notes on what is left out."""
    notes = []
    named = [line.name for line in plane.lines]
    if not all(name.startswith(STREAM) for name in named):
        stream = np.array([name.startswith(STREAM) for name in named], bool)[plane.line[rows]]
        overhead = np.array([name == OVERHEAD for name in named], bool)[plane.line[rows]]
        unknown = sorted({named[at] for at in np.unique(plane.line[rows][~stream & ~overhead])})
        # On a stream that is called overhead, what was launched is work.
        rows = rows[stream | (overhead & plane.numbers("correlation_id")[1][rows])]
        if unknown:
            notes.append(f"lines of unknown meaning were left out: {', '.join(unknown)}.")
    waits = [
        bool(_WAITS.fullmatch(name)) or (name.startswith(_UNIFIED) and memcpy.unified(name) is None)
        for name in plane.names.categories
    ]
    idle = np.isin(plane.names.codes[rows], np.flatnonzero(waits)) if any(waits) else np.zeros(len(rows), bool)
    for stat in _MEMORY_STATS:
        idle |= plane.has(stat)[rows]
    if idle.any():
        notes.append(f"{idle.sum()} records of memory and of waiting, which are no work, were left out.")
        rows = rows[~idle]
    return rows, notes


def _occupancy(plane: Plane, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """The theoretical occupancy of each row, 0..1, nan where it was not computed (a copy, and all of ROCm)."""
    percent = plane.reals("theoretical_occupancy_pct")[rows]
    if np.isnan(percent).all():
        details = plane.strings("kernel_details")[rows]
        texts = [_OCCUPANCY.search(str(text)) for text in details.categories]
        percent = np.array([*(float(text[1]) if text else np.nan for text in texts), np.nan])[details.codes]
    return np.where((percent > 0) & (percent <= 100), percent / 100, np.nan)


def _directions(
    gpu: Gpu,
    plane: Plane,
    rows: NDArray[np.int64],
    judged: list[kinds.Judged],
    of: list[Op | None],
    which: NDArray[np.int64],
    leaves: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], int]:
    """The direction of each row as an index into `_WAYS`, and how many copies between devices have none for being of
    ROCm.

    A copy that does not tell has that of the call that launched it; one from device to device that `leaves` its own
    (n,) is P2P. `judged` and `of` are told apart by `which` (n,).
    """
    way = np.array([_WAYS.index(one.direction) for one in judged], np.int64)[which]
    copies = np.array([one.kind == Kind.MEMCPY for one in judged], bool)[which]
    within = np.array([one is not None and one.does in MOVES and not one.to_or_from_host for one in of], bool)[which]
    way[copies & within & (way == 0)] = _WAYS.index("D2D")
    open_rows = np.flatnonzero(copies & (way == 0))
    if len(open_rows):
        ids, has_id = plane.numbers("correlation_id")
        call = gpu.calls.of(ids[rows[open_rows]], has_id[rows[open_rows]])
        ways = np.array([_WAYS.index(memcpy.launched(name)) for name in call.categories] + [0], np.int64)
        way[open_rows] = ways[call.codes]
    way[copies & leaves & ((way == 0) | (way == _WAYS.index("D2D")))] = _WAYS.index("P2P")
    if gpu.alone or not _of_rocm(plane):
        return way, 0
    unproven = copies & ~within & (way == _WAYS.index("D2D"))
    way[unproven] = 0
    return way, int(unproven.sum())


def _of_rocm(plane: Plane) -> bool:
    """Whether ROCm's profiler wrote the plane: a copy from device to device may then be one between two."""
    texts = (*plane.strings("memcpy_details").categories, *plane.names.categories)
    return plane.stats.get("device_vendor") == "AMD" or any(text.startswith(_ROCM) for text in texts)


def _graph_notes(
    gpu: Gpu,
    plane: Plane,
    rows: NDArray[np.int64],
    nameless: NDArray[np.bool_],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
) -> list[str]:
    """What CUDA graphs hide: their kernels, which then are one row, or the HLO names of these (`nameless`, (n,))."""
    ids, _ = plane.numbers("correlation_id")
    whole = np.array([*(name.startswith(_GRAPH_AS_A_WHOLE) for name in plane.names.categories), False], bool)
    as_one = whole[plane.names.codes[rows]]
    within = as_one | (plane.numbers("cuda_graph_id")[0][rows] > 0)
    if len(gpu.calls.graphs):
        within |= np.isin(ids[rows], gpu.calls.graphs)
    hidden = within & nameless
    if not hidden.any():
        return []
    busy = intervals.total(intervals.intervals(start, end))
    share = intervals.total(intervals.intervals(start[hidden], end[hidden])) / busy if busy else 0
    what = "Each graph is one row, in which kernels and copies are not told apart." if as_one.any() else ""
    return [
        f"CUDA graphs ran {share:.0%} of the busy time without HLO names ({hidden.sum()} of {len(rows)} rows). {what} "
        "XLA_FLAGS=--xla_gpu_enable_command_buffer= brings the names back.".replace("  ", " ")
    ]
