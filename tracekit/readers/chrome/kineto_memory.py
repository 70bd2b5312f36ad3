"""What PyTorch's allocators handed out, as rows of `Trace.memory`: Kineto's instants `[memory]`.

PyTorch writes one for each allocation and release while `profile_memory=True`: signed `Bytes`, and in `Total Allocated`
and `Total Reserved` what the allocator of that device then had in use, and held (reportMemoryUsageToProfiler in
c10/core/impl/alloc_cpu.cpp and c10/cuda/CUDACachingAllocator.cpp; torch/csrc/autograd/profiler_kineto.cpp names the
arguments). `Device Type` is a number of c10/core/DeviceType.h, of which 0 is the CPU.
"""

import re
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import by_label, categorical, constant, frame
from tracekit.devices import unknown
from tracekit.readers.chrome import kineto_fields
from tracekit.readers.chrome.document import Document
from tracekit.readers.chrome.kineto_fields import MOST, at_least, is_count, of_records, whole
from tracekit.readers.chrome.kineto_work import around, integers
from tracekit.readers.losses import Lost
from tracekit.trace import MEMORY_COLUMNS
from tracekit.vocabulary.losses import Loss

NAME = "[memory]"
_CPU = 0
# What only makes tensors says less than the operator around it.
_MAKES_TENSORS = re.compile(r"aten::(new_)?empty(_\w+)?$|aten::(resize_|zeros|ones|full)(_like)?$")
_OF_HOST = -(2**63)


class _Memory(msgspec.Struct):
    """The args of an instant."""

    device_type: Any = msgspec.field(name="Device Type", default=None)
    device: Any = msgspec.field(name="Device Id", default=None)
    address: Any = msgspec.field(name="Addr", default=None)
    size: Any = msgspec.field(name="Bytes", default=None)
    allocated: Any = msgspec.field(name="Total Allocated", default=None)
    reserved: Any = msgspec.field(name="Total Reserved", default=None)


# The number of the device is -1 for a CPU.
_FIELDS = {
    "device_type": ("Device Type", is_count),
    "device": ("Device Id", at_least(-1)),
    "address": ("Addr", is_count),
    "size": ("Bytes", at_least(-MOST)),
    "allocated": ("Total Allocated", is_count),
    "reserved": ("Total Reserved", is_count),
}


def read(
    document: Document, host: str, operators: NDArray[np.int64], devices: list[str]
) -> tuple[pd.DataFrame, list[str], list[Lost]]:
    """The allocations and releases of the file (MEMORY_COLUMNS), by time, notes, and what is damaged of them.

    The label of an allocation is the innermost of the events `operators` around it that does more than make a tensor,
    else the innermost. `devices` have rows: where they are
    but one and so are those of the allocators, these are the same, whatever the numbers (ROCm's rows count CPUs too).
    """
    is_memory = np.asarray(document.name == NAME)
    rows = np.flatnonzero(is_memory & document.timed)
    nowhen = int((is_memory & ~document.timed & ~document.far).sum())
    lost = [Lost(Loss.DETAILS, nowhen, None, "allocations and releases without a time")] if nowhen else []
    if not len(rows):  # what is around nothing need not be looked for among all operators
        return frame(MEMORY_COLUMNS), [], lost
    records = document.args(rows, _Memory)
    usable = np.array([whole(args.size) is not None and whole(args.allocated) is not None for args in records], bool)
    lost += of_records(records, _FIELDS, "args of allocations and releases")
    nowhere = [whole(args.device) == -1 and whole(args.device_type) != _CPU for args in records]
    lost += kineto_fields.lost({"Device Id": np.array(nowhere, bool)}, "args of allocations on GPUs")
    notes = []
    if skipped := int((~usable).sum()):
        notes.append(f"{skipped} of {len(rows)} allocation events do not state the bytes in use and were skipped.")
    order = np.flatnonzero(usable)[np.argsort(document.start_ps[rows[usable]], kind="stable")]
    rows, records = rows[order], [records[at] for at in order.tolist()]
    of_host = np.array([whole(args.device_type) == _CPU for args in records], bool)
    names, renamed = _devices(records, of_host, devices)
    size = np.array([whole(args.size) for args in records], np.int64)
    makes_tensors = by_label(document.name[operators], lambda name: bool(_MAKES_TENSORS.match(name))).astype(bool)
    inner = around(document, rows, operators[~makes_tensors])
    inner = np.where(inner < 0, around(document, rows, operators), inner)
    operator = np.append(document.name.codes, -1)[inner].astype(np.int64)
    labels = [*map(str, document.name.categories), None]
    data: dict[str, Any] = {
        "host": constant(host, len(rows)),
        "process": document.pid[rows].remove_unused_categories(),
        "device": names,
        "allocator": categorical(["cpu", "caching allocator"], (~of_host).astype(np.int64)),
        "label": categorical(labels, np.where(size < 0, -1, operator) % len(labels)).remove_unused_categories(),
        "time_ps": document.start_ps[rows],
        "delta_bytes": size,
        "in_use_bytes": np.array([whole(args.allocated) for args in records], np.int64),
        "reserved_bytes": integers(
            [None if is_cpu else whole(args.reserved) for args, is_cpu in zip(records, of_host, strict=True)]
        ),
        "address": integers([whole(args.address) for args in records]),
        "frees": size < 0,
    }
    return frame(MEMORY_COLUMNS, data), [*notes, *renamed], lost


def _devices(
    records: list[_Memory], of_host: NDArray[np.bool_], devices: list[str]
) -> tuple[pd.Categorical, list[str]]:
    """The device of each record, null for the CPU's, and a note where its number was another."""
    given = [whole(args.device) for args in records]
    numbers = np.array([-1 if number is None else number for number in given], np.int64)
    codes, values = pd.factorize(np.where(of_host, _OF_HOST, numbers))
    labels = [_device(value) for value in values.tolist()]
    own = [label for label in labels if label]
    if len(own) == len(devices) == 1 and own != devices:
        return categorical([label and devices[0] for label in labels], codes), [
            f"The allocator of {own[0]} is taken for that of {devices[0]}, the only device with work."
        ]
    return categorical(labels, codes), []


def _device(number: int) -> str | None:
    if number == _OF_HOST:
        return None
    return unknown("gpu") if number < 0 else f"gpu:{number}"
