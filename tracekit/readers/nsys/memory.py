"""The memory that CUDA handed out, as rows of `Trace.memory`: the table that `nsys profile --cuda-memory-usage` fills.

One row per allocation and release with its bytes and kind of memory (CUDA_GPU_MEMORY_USAGE_EVENTS and
ENUM_CUDA_MEM_KIND in the SQLite Schema Reference of the user guide); what was in use before the profile began is not
said. Memory of a pool (cudaMallocAsync) has sizes of the pool beside it in newer versions, which are not read.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import categorical, constant, frame
from tracekit.readers.losses import Lost
from tracekit.readers.nsys import machine
from tracekit.readers.nsys.sqlite_export import MISSING, Export, integers, tables_of
from tracekit.trace import MEMORY_COLUMNS
from tracekit.vocabulary.losses import Loss

_TABLE = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_PS_PER_NS = 1000
_COLUMNS = ("start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType")
# ENUM_CUDA_MEM_KIND. Managed memory migrates, so that its place is not known.
_KINDS = ("pageable", "pinned", "device", "array", "managed", "device static", "managed static", "unknown")
_ON_DEVICE = frozenset({"device", "array", "device static"})
_ALLOCATION, _RELEASE = 0, 1


@dataclass(frozen=True)
class Allocations:
    """The allocations and releases, by time; all (n,): `start_ns` and `end_ns` are the same moment, `size_bytes` is
    negative of a release, `kind` is a number of ENUM_CUDA_MEM_KIND."""

    process: NDArray[np.int64]
    device: NDArray[np.int64]
    kind: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    address: NDArray[np.int64]

    @property
    def on_device(self) -> NDArray[np.bool_]:
        """Which are of a device's own memory."""
        is_of_device = [kind in _ON_DEVICE for kind in _KINDS]
        return np.append(is_of_device, False)[np.where(np.isin(self.kind, range(len(_KINDS))), self.kind, -1)]


def allocations(export: Export) -> tuple[Allocations, list[str]]:
    """What the export says of memory, and a note on rows that lack something."""
    tables = tables_of(export, _TABLE)
    columns = (
        integers(export, tables[0], _COLUMNS, never_null=_COLUMNS)
        if tables
        else dict.fromkeys(_COLUMNS, np.zeros(0, np.int64))
    )
    start, size, operation = columns["start"], columns["bytes"], columns["memoryOperationType"]
    usable = (start != MISSING) & (size >= 0) & ((operation == _ALLOCATION) | (operation == _RELEASE))
    notes = []
    if skipped := int((~usable).sum()):
        notes.append(f"{skipped} of {len(usable)} allocation events do not state their bytes and were skipped.")
        export.lost.append(Lost(Loss.DETAILS, skipped, len(usable), "allocation events without time, bytes or kind"))
    rows = np.flatnonzero(usable)[np.argsort(start[usable], kind="stable")]
    size = np.where(operation == _RELEASE, -size, size)[rows]
    made = Allocations(
        process=machine.process_of(columns["globalPid"][rows]),
        device=columns["deviceId"][rows],
        kind=columns["memKind"][rows],
        start_ns=start[rows],
        end_ns=start[rows],
        size_bytes=size,
        address=columns["address"][rows],
    )
    return made, notes


def table(made: Allocations, host: str, zero_ns: int, device: pd.Categorical) -> pd.DataFrame:
    """The rows of `Trace.memory` (MEMORY_COLUMNS); `device` (n,) is the device of each, null for memory elsewhere."""
    which, ids = pd.factorize(made.process)
    known = np.isin(made.kind, range(len(_KINDS)))
    data = {
        "host": constant(host, len(which)),
        "process": categorical(machine.processes(ids.tolist()), which),
        "device": device,
        "allocator": categorical([*_KINDS], np.where(known, made.kind, len(_KINDS) - 1)),
        "time_ps": (made.start_ns - zero_ns) * _PS_PER_NS,
        "delta_bytes": made.size_bytes,
        "address": pd.arrays.IntegerArray(made.address, made.address == MISSING),
        "frees": made.size_bytes < 0,
    }
    return frame(MEMORY_COLUMNS, data)
