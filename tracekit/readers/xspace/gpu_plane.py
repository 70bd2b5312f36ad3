"""The rows of a GPU's plane: every event of every `Stream #…` line that is work.

A stream's line also holds what its profiler allocated and waited for, and is called `CUPTI overhead` once one event of
that kind stands in it (xla/backends/profiler/gpu/cupti_collector.cc, rocm_collector.cc).

What a profiler writes of a copy is the stat `memcpy_details`: of NVIDIA `kind_src:pinned kind_dst:device size:112
dest:0 async:1`, in older versions `size:112 dest:4 async:0`; of ROCm `kind:Unknown size:655360 dest:2 async:1`, where
`dest` counts the processors too and a size of 0 stands for one that was not recorded.
"""

import re
from dataclasses import dataclass, replace
from itertools import starmap
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals
from tracekit.columns import by_label, categorical, constant, distinct, labels, texts
from tracekit.devices import number
from tracekit.readers.hlo.instruction import MOVES, Op
from tracekit.readers.losses import Lost
from tracekit.readers.xspace import planes
from tracekit.readers.xspace.host_events import Calls
from tracekit.readers.xspace.planes import DeviceRows, Once, Plane, PlaneEvents, Rows
from tracekit.units import percent
from tracekit.vocabulary import copies, kinds
from tracekit.vocabulary.host_calls import sync_call
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.losses import Loss

# Records of memory that was held, allocated or given back: they last as long as that, and nothing runs.
MEMORY_STATS = ("MemoryResidency_details", "memalloc_details", "MemFree_details")
STATS = (
    *("correlation_id", "hlo_op", "hlo_module", "program_id", "run_id", "group_id"),
    *("memcpy_details", "Memset_details", "cuda_graph_id", *MEMORY_STATS),
    *("theoretical_occupancy_pct", "kernel_details"),
)

_OVERHEAD = "CUPTI overhead"
_STREAM = "Stream #"
# Lines that repeat the kernels of the streams, or count something.
DERIVED = frozenset(
    {
        *("XLA Ops", "XLA Modules", "Async XLA Ops", "Steps", "Framework Ops", "Framework Name Scope", "Source code"),
        *("TensorFlow Ops", "TensorFlow Name Scope", "Launch Stats", "Host Offload Ops", "_counters_"),
    }
)
# What kernels, copies and memsets have, and what repeats them does not; and what is left of the name of their stream
# where one letter of it is another, or gone.
_OF_WORK = ("correlation_id", "kernel_details", "memcpy_details", "Memset_details")
_ALMOST_STREAM = re.compile(r"stream|#\d", re.IGNORECASE)
# Of `kernel_details`; older versions write no occupancy there.
_OCCUPANCY = re.compile(r"\bocc_pct:([\d.]+)")
# Copies of unified memory stand on streams of their own; its page faults and the like are no copies.
_UNIFIED, _UNIFIED_COPY = "UM_", "UM_BYTES_TRANSFER_"
_GRAPH_AS_A_WHOLE = "CudaGraphExec:"
_FIELD = re.compile(r"(\w+):(\S+)")
_MOST_BYTES = (1 << 63) - 1
_ROCM = ("kind:", "__amd_rocclr")


@dataclass(frozen=True)
class CopyRecord:
    """The memories at both ends of a copy as CUPTI names them (GetMemoryKindName), "" where the text does not; its
    size, None if that is not known; `leaves` if it goes to another GPU, should it go from device to device."""

    source: str = ""
    target: str = ""
    bytes: int | None = None
    leaves: bool = False

    @property
    def host_memory(self) -> str | None:
        """The kind of the host's memory at one end, as far as it is told."""
        return copies.host_memory(f"{self.source} {self.target}")


class _Evidence(NamedTuple):
    """What tells the direction of a copy: texts that do, whether it is known to stay within the device, and whether its
    record names another device, should it go from device to device."""

    texts: tuple[str, str]
    within: bool
    leaves: bool


def read(
    host: str, device: str, events: PlaneEvents, lookup: planes.Lookup, calls: Calls, is_alone: bool, once: Once
) -> DeviceRows:
    """The rows of a GPU, of those of the events that have a time; `is_alone` if no other GPU is there to copy to."""
    plane = events.plane
    skipped, unknown = _unknown_lines(device, events)
    events, notes = _work(events, once)
    notes = [*unknown, *notes]
    rows, count = events.chosen, len(events.rows)
    data = {**planes.event_columns(host, plane, rows), "name": plane.names[rows]}
    hlo = planes.hlo_ops(plane, rows, lookup, once)
    details = plane.strings("memcpy_details")[rows]
    is_memset = plane.has("Memset_details")[rows]
    ordinal = number(device) or 0
    copy_records = [*(copy_record(text, ordinal) for text in labels(details)), CopyRecord()]
    # Rows that are alike in all of this are classified once.
    which, first = distinct(hlo.which, data["name"].codes, data["lane"].codes, details.codes, is_memset)
    fact, record = hlo.fact[hlo.which[first]], np.where(details.codes >= 0, details.codes, -1)[first]
    memories = [*((each.source, each.target) for each in copy_records[:-1]), None]
    asked = zip(
        *(texts(data[column][first]) for column in ("name", "lane")),
        map(hlo.facts.__getitem__, fact),
        map(memories.__getitem__, record),
        is_memset[first].tolist(),
        strict=True,
    )
    class_of, classes = planes.numbered(starmap(once(_classify), asked))
    # Of what a name tells nothing further is asked.
    alike, first = distinct(class_of, fact, record)
    which = alike[which]
    ops = [hlo.facts[at] for at in fact[first].tolist()]
    records = [copy_records[at] if at >= 0 else None for at in record[first].tolist()]
    classes = [classes[at] for at in class_of[first].tolist()]
    data |= planes.hlo_columns(ops, classes, which)
    data["host_memory"] = categorical([copy.host_memory for copy in copy_records], details.codes)
    data["direction"], unproven = _directions(
        events, [once(_evidence)(*row) for row in zip(classes, ops, records, strict=True)], which, calls, is_alone
    )
    sizes = np.array([-1 if copy.bytes is None else copy.bytes for copy in copy_records], np.int64)[details.codes]
    # The record's own size, else that of the HLO op.
    data["bytes"] = pd.arrays.IntegerArray(
        np.where(sizes >= 0, sizes, data["bytes"].to_numpy(np.int64, na_value=-1)), (sizes < 0) & data["bytes"].isna()
    )
    data["device"] = constant(device, count)
    data["start_ps"], data["end_ps"] = events.start[rows], events.end[rows]
    data["op"] = pd.arrays.IntegerArray(hlo.which, hlo.nameless[hlo.which])
    data["occupancy_ratio"] = _occupancy(plane, rows)
    if unproven:
        notes.append(
            f"{unproven} device-to-device copies have no direction: ROCm does not record whether they stay within one "
            "device or go to another."
        )
    if missing := int((hlo.told(lambda op: op is None) & ~hlo.nameless).sum()):
        notes.append(f"{missing} of {len(hlo)} distinct ops have no HLO proto: their kernels are classified by name.")
    notes += _graph_notes(events, hlo, calls)
    lost = [*skipped, *_unlinked(plane, data["correlation_id"])]
    if unclear := int(by_label(details, lambda text: not _FIELD.search(text)).sum()):
        lost.append(Lost(Loss.DETAILS, unclear, count, f"records of copies of {device}"))
    return DeviceRows(data, hlo.operations, notes, lost=lost)


def _unlinked(plane: Plane, ids: pd.arrays.IntegerArray) -> list[Lost]:
    """The rows that have lost their correlation `ids`, without which nothing tells what they waited for, where stats
    of the plane are lost."""
    count = int(ids.isna().sum())
    if not count or not plane.lost_stats:  # who writes other work may give it none
        return []
    return [
        Lost(Loss.EVENTS, count, len(ids), f"the correlation ids of {plane.name}, which tell what launched its work")
    ]


def _classify(
    name: str, lane: str, op: Op | None, memories: tuple[str, str] | None, is_memset: bool
) -> kinds.Classification:
    """What a row does, by its name and lane, what HLO says of it, and its record of a copy, which names the memories at
    both ends, or of a memset."""
    typed = Kind.MEMCPY if memories or name.startswith(_UNIFIED_COPY) else Kind.MEMSET if is_memset else None
    way = copies.direction(source=memories[0], target=memories[1]) if memories else None
    return planes.classify(name, op, typed=typed, direction=way, lane=lane)


def _evidence(classification: kinds.Classification, op: Op | None, copy: CopyRecord | None) -> _Evidence | None:
    """What tells the direction of a copy but for the call that launched it; None of what is no copy."""
    if classification.kind != Kind.MEMCPY:
        return None
    within = op is not None and op.does in MOVES and not op.to_or_from_host
    if copy and copies.within_host(copy.source, copy.target):  # whatever the call for it is named
        return _Evidence(("H2H", ""), within, False)
    return _Evidence((classification.direction or "", "D2D" if within else ""), within, bool(copy and copy.leaves))


def waits(plane: Plane, once: Once) -> NDArray[np.int64]:
    """The events that record waiting: they are no work."""
    return np.flatnonzero(by_label(plane.names, once(_is_wait)))


def _is_wait(name: str) -> bool:
    return sync_call(name) is not None


def _work(events: PlaneEvents, once: Once) -> tuple[PlaneEvents, list[str]]:
    """The events with only those rows that are work, and notes on what is skipped."""
    plane, rows = events.plane, events.rows
    notes = []
    names = [line.name for line in plane.lines]
    if not all(name.startswith(_STREAM) for name in names):
        stream = np.array([name.startswith(_STREAM) for name in names], bool)[plane.line[rows]]
        overhead = np.array([name == _OVERHEAD for name in names], bool)[plane.line[rows]]
        # On a stream that is called overhead, what was launched is work.
        rows = rows[stream | (overhead & plane.numbers("correlation_id")[1][rows])]
    chosen = replace(events, rows=rows).chosen
    idle = by_label(plane.names[chosen], once(_is_no_work))
    for stat in MEMORY_STATS:
        idle |= plane.has(stat)[chosen]
    if idle.any():
        notes.append(f"{idle.sum()} records of memory use and of waiting were skipped: they are not work.")
        rows = rows[~idle]
    return replace(events, rows=rows), notes


def _unknown_lines(device: str, events: PlaneEvents) -> tuple[list[Lost], list[str]]:
    """The events on lines of unknown meaning that must be work of the device, as lost; and a note on other lines."""
    plane, rows = events.plane, events.rows
    names = [line.name for line in plane.lines]
    line = plane.line[rows]
    is_unknown = np.array([not name.startswith(_STREAM) and name != _OVERHEAD for name in names], bool)
    if not is_unknown[line].any():
        return [], []
    is_work = np.array([bool(_ALMOST_STREAM.search(name)) for name in names], bool)[line]
    for stat in _OF_WORK:
        is_work |= plane.has(stat)[rows]
    is_work &= is_unknown[line]
    damaged, other = (
        sorted({names[at] or "without a name" for at in np.unique(line[of])})
        for of in (is_work, is_unknown[line] & ~is_work)
    )
    lost = int(is_work.sum())
    evidence = f"on lines called as no profiler calls them, {', '.join(damaged[:3])} of {device}"
    return (
        [Lost(Loss.EVENTS, lost, int((~is_unknown[line]).sum()) + lost, evidence)] if lost else [],
        [f"lines of unknown meaning were skipped: {', '.join(other)}."] if other else [],
    )


def _is_no_work(name: str) -> bool:
    """Whether events of this name record waiting, or of unified memory what is no copy."""
    return _is_wait(name) or (name.startswith(_UNIFIED) and not name.startswith(_UNIFIED_COPY))


def _occupancy(plane: Plane, rows: Rows) -> NDArray[np.float64]:
    """The theoretical occupancy of each row, 0..1, nan where it was not computed (a copy, and all of ROCm)."""
    percent = plane.reals("theoretical_occupancy_pct")[rows]
    if np.isnan(percent).all():
        details = plane.strings("kernel_details")[rows]
        percent = by_label(
            details, lambda text: float(match[1]) if (match := _OCCUPANCY.search(text)) else np.nan, np.nan
        )
    return np.where((percent > 0) & (percent <= 100), percent / 100, np.nan)


def _directions(
    events: PlaneEvents, evidence: list[_Evidence | None], which: NDArray[np.int64], calls: Calls, is_alone: bool
) -> tuple[pd.Categorical, int]:
    """The direction of each row, and how many copies between devices have none for being of ROCm.

    `which` (n,) tells the evidence of each row. A copy of which that tells nothing has the direction of the one of the
    `calls` that launched it.
    """
    plane = events.plane
    moves = np.flatnonzero(np.array([each is not None for each in evidence], bool)[which])
    mute = np.array([each is not None and not any(each.texts) for each in evidence], bool)[which[moves]]
    code, call_names = np.full(len(moves), -1), [""]
    if mute.any():
        ids, has_id = plane.numbers("correlation_id")
        call = calls.of(ids[events.rows[moves[mute]]], has_id[events.rows[moves[mute]]])
        code[mute], call_names = call.codes, [*labels(call), ""]
    pair, first = distinct(which[moves], code)
    of_rocm = not is_alone and _of_rocm(plane)
    ways, unproven = [], []
    for at in first:
        if (of_copy := evidence[which[moves[at]]]) is not None:
            texts, apart = (*of_copy.texts, call_names[code[at]]), True if of_copy.leaves else None
            ways.append(copies.direction(*texts, apart=apart, either=of_rocm and not of_copy.within))
            unproven.append(ways[-1] is None and copies.direction(*texts, apart=apart) is not None)
    of_row = np.full(len(which), len(ways))
    of_row[moves] = pair
    return categorical([*ways, None], of_row), int(np.array(unproven, bool)[pair].sum())


def _of_rocm(plane: Plane) -> bool:
    """Whether ROCm's profiler wrote the plane: a copy from device to device may then be one between two."""
    texts = (*labels(plane.strings("memcpy_details")), *labels(plane.names))
    return plane.stats.get("device_vendor") == "AMD" or any(text.startswith(_ROCM) for text in texts)


def _graph_notes(events: PlaneEvents, hlo: planes.HloOps, calls: Calls) -> list[str]:
    """The note on what CUDA graphs hide: their kernels, which then are one row, or the HLO names of these."""
    plane, rows = events.plane, events.chosen
    ids, _ = plane.numbers("correlation_id")
    whole = by_label(plane.names[rows], lambda name: name.startswith(_GRAPH_AS_A_WHOLE))
    in_graph = whole | (plane.numbers("cuda_graph_id")[0][rows] > 0) | np.isin(ids[rows], calls.graphs)
    if not in_graph.any():
        return []
    hidden = in_graph & hlo.told(lambda op: op is None or op.does in kinds.CONTROL_FLOW)[hlo.which]
    if not hidden.any():
        return []
    spans = intervals.intervals(events.start[rows], events.end[rows])
    busy = intervals.total(spans)
    share = intervals.total(spans[hidden]) / busy if busy else 0
    merged = "Each graph is one row: its kernels and copies are not separated. " if whole.any() else ""
    return [
        f"CUDA graphs account for {percent(share)} of the busy time, without HLO names ({hidden.sum()} of "
        f"{len(hidden)} rows). {merged}XLA_FLAGS=--xla_gpu_enable_command_buffer= turns graphs off and restores the "
        "names."
    ]


def _bytes_of(digits: str) -> int | None:
    """The size that the digits tell, None where they tell none; of more than int64 holds, the most that it does, which
    readers.bounds takes for no size."""
    if not digits.isdecimal() or not (significant := digits.lstrip("0")):
        return None
    return min(int(significant), _MOST_BYTES) if len(significant) < 20 else _MOST_BYTES


def copy_record(text: str, ordinal: int) -> CopyRecord:
    """What `memcpy_details` says of a copy that stands on the GPU `ordinal`."""
    fields = dict(_FIELD.findall(text))
    size = fields.get("size") or fields.get("num_bytes") or ""
    leaves = "kind" not in fields and fields.get("dest", str(ordinal)) != fields.get("src", str(ordinal))
    return CopyRecord(
        fields.get("kind_src", ""),
        fields.get("kind_dst", ""),
        _bytes_of(size),
        leaves,
    )
