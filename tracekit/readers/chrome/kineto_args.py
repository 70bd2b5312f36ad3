"""What the `args` of Kineto's events say of copies and collectives.

Collective arguments are those of PyTorch's `record_param_comms` (torch/csrc/profiler/util.cpp), which Kineto repeats on
the kernel (libkineto/src/output_json.cpp). Copies are named by CUPTI and rocprofiler (`Memcpy HtoD (Pinned -> Device)`)
or by Intel's PTI (`Memcpy M2D(Memory -> Device)`).
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from tracekit.vocabulary.collectives import operation

# c10::ScalarType as PyTorch writes it, and the C++ names that `Input type` holds.
ELEMENT_BYTES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "QInt8", "QUInt8", "unsigned char", "signed char", "bool"), 1),
    **dict.fromkeys(("Float8_e5m2", "Float8_e4m3fn", "Float8_e5m2fnuz", "Float8_e4m3fnuz", "Float8_e8m0fnu"), 1),
    **dict.fromkeys(("Short", "Half", "BFloat16", "UInt16", "c10::Half", "c10::BFloat16", "short", "short int"), 2),
    **dict.fromkeys(("Int", "Float", "UInt32", "ComplexHalf", "QInt32", "float", "int"), 4),
    **dict.fromkeys(
        ("Long", "Double", "UInt64", "ComplexFloat", "double", "long", "long int", "c10::complex<float>"), 8
    ),
    **dict.fromkeys(("ComplexDouble", "c10::complex<double>"), 16),
}
ANNOTATION = re.compile(r"[a-z]*ccl:")  # `nccl:all_reduce`
# Of the 64 warps of 32 threads that a multiprocessor holds, or 32 in some models, which have their half percent sooner.
_HALF_A_PERCENT_WARPS = 0.32


class Work(msgspec.Struct):
    """The args of a piece of device work; a copy between devices names its own as `inDevice`."""

    device: Any = None
    in_device: Any = msgspec.field(name="inDevice", default=None)
    from_device: Any = msgspec.field(name="fromDevice", default=None)
    to_device: Any = msgspec.field(name="toDevice", default=None)
    stream: Any = None
    correlation: Any = None
    bytes: Any = None
    collective: Any = msgspec.field(name="Collective name", default=None)
    given: Any = msgspec.field(name="In msg nelems", default=None)
    got: Any = msgspec.field(name="Out msg nelems", default=None)
    dtype: Any = None
    group: Any = msgspec.field(name="Process Group Name", default=None)
    description: Any = msgspec.field(name="Process Group Description", default=None)
    ranks: Any = msgspec.field(name="Process Group Ranks", default=None)
    sequence: Any = msgspec.field(name="Seq", default=None)
    occupancy_percent: Any = msgspec.field(name="est. achieved occupancy %", default=None)
    warps_per_sm: Any = msgspec.field(name="warps per SM", default=None)


class Call(msgspec.Struct):
    """The args of a host call; only HIP's copies tell a size."""

    correlation: Any = None
    bytes: Any = None
    size: Any = None


class Sync(msgspec.Struct):
    """The args of a synchronisation: what waits, on which device, and the call that recorded the event waited for."""

    device: Any = None
    stream: Any = None
    correlation: Any = None
    wait_on_stream: Any = None
    recorded_by: Any = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=None)


class Annotation(msgspec.Struct):
    """The args of the annotation around a collective's launch (`nccl:all_reduce`)."""

    dims: Any = msgspec.field(name="Input Dims", default=None)
    types: Any = msgspec.field(name="Input type", default=None)


def apart(work: Work) -> bool | None:
    """Whether the args of a copy name two devices, or one for both ends; None if they do not name both."""
    if work.from_device is None or work.to_device is None:
        return None
    return bool(work.from_device != work.to_device)


def term(collective: object, kernel: str) -> str | None:
    """The operation by PyTorch's name for the collective, else by its kernel's; None where neither tells it.

    A barrier of PyTorch is what its kernel is: NCCL has none, and an all-reduce of one element does.
    """
    operation_of_name = operation(collective) if isinstance(collective, str) else None
    return operation(kernel) or operation_of_name if operation_of_name in (None, "barrier") else operation_of_name


def message_bytes(collective: str | None, work: Work) -> int | None:
    """The size of a collective's message, as NCCL's tests count it; None where element count or type are not known.

    One rank's buffer for all-reduce, broadcast, reduce, send and receive; what one rank sends in all for all-to-all;
    the whole (all ranks' parts together) for all-gather, reduce-scatter, gather and scatter, whose two sides differ.
    """
    sent, received, size = whole(work.given), whole(work.got), ELEMENT_BYTES.get(str(work.dtype))
    if sent is None or received is None or size is None:
        return None
    elements = sent if collective == "all-to-all" and sent else max(sent, received)
    return elements * size or None


def group(work: Work) -> str | None:
    """The process group, with its description where it has one: `0 (default_pg)`."""
    if work.group in (None, ""):
        return None
    has_description = work.description not in (None, "", "undefined")
    return f"{work.group} ({work.description})" if has_description else str(work.group)


def ranks(work: Work, groups: Mapping[str, object]) -> str | None:
    """The members of the process group, `0,1`; of long lists Kineto keeps only the beginning, then `groups` may tell.

    `groups` maps the names of process groups to their ranks, as `distributedInfo` lists them.
    """
    for members in (work.ranks, groups.get(str(work.group))):
        listed = ",".join(map(str, members)) if isinstance(members, list) else str(members or "")
        text = listed.strip("[] ").replace(" ", "")
        if re.fullmatch(r"\d+(,\d+)*", text):
            return text
    return None


def occupancies(records: Sequence[Work]) -> pd.arrays.FloatingArray:
    """The share of its device's warps that each kernel keeps busy, 0 to 1, as Kineto estimates it.

    Kineto rounds to whole percent and writes 0 also where it could not tell (libkineto/src/DeviceProperties.cpp): 0 is
    known only of kernels too small to reach half a percent.
    """
    percent = np.array([_float(work.occupancy_percent) for work in records], np.float64)
    zeros = np.flatnonzero(percent == 0)
    warps = np.array([_float(records[row].warps_per_sm) for row in zeros.tolist()], np.float64)
    percent[zeros[~(warps < _HALF_A_PERCENT_WARPS)]] = np.nan
    known = (percent >= 0) & (percent <= 100)
    return pd.arrays.FloatingArray(np.where(known, percent, 0) / 100, ~known)


def _float(value: object) -> float:
    """`value` as a float, NaN if it is no number."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def annotated(work: Work, name: str, args: Annotation) -> Work:
    """`work` with what the annotation `name` around its launch says, as newer files write it on the kernel itself.

    Only the tensors that go in are told, so all-gather, gather and scatter, whose other side counts, get no count.
    """
    work = msgspec.structs.replace(work, collective=ANNOTATION.sub("", name, count=1))
    dims, types = args.dims, args.types
    if not (isinstance(dims, list) and isinstance(types, list) and dims and len(dims) == len(types)):
        return work
    if any(kind != types[0] for kind in types) or not all(isinstance(shape, list) for shape in dims):
        return work
    work.dtype = types[0]
    sizes = [[whole(size) for size in shape] for shape in dims]
    counts = term(work.collective, "") not in ("all-gather", "gather", "scatter")
    if counts and all(size is not None for shape in sizes for size in shape):
        work.given = work.got = sum(math.prod(size or 0 for size in shape) for shape in sizes)
    return work


def whole(value: object) -> int | None:
    """`value` as an integer that an Int64 column holds, None if it is none."""
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def integers(values: list[int | None]) -> pd.arrays.IntegerArray:
    """The Int64 column of `values`; None is null."""
    missing = np.array([value is None for value in values], bool)
    return pd.arrays.IntegerArray(np.array([value or 0 for value in values], np.int64), missing)
