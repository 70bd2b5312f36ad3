"""The one type in the middle: a `Trace` holds what a profiler saw, in frames with a fixed contract."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import union_categoricals

from tracekit import glance, notebook
from tracekit.errors import TraceError


class Kind(StrEnum):
    """What a device was doing during an interval."""

    COMPUTE = "compute"
    COLLECTIVE = "collective"
    MEMCPY = "memcpy"
    MEMSET = "memset"


KIND_DTYPE = pd.CategoricalDtype([kind.value for kind in Kind])
DIRECTION_DTYPE = pd.CategoricalDtype(["H2D", "D2H", "D2D", "P2P"])

# Column -> dtype. "category" accepts any categorical of strings; the other names are exact.
EVENT_COLUMNS: Mapping[str, Any] = {
    "host": "category",
    "device": "category",
    "lane": "category",
    "kind": KIND_DTYPE,
    "name": "category",
    "start_ps": "int64",
    "end_ps": "int64",
    "hlo_op": "category",
    "hlo_module": "category",
    "category": "category",
    "direction": DIRECTION_DTYPE,
    "bytes": "Int64",
    "wait_ps": "Int64",
    "correlation_id": "Int64",
    "run_id": "Int64",
    "group_id": "Int64",
    "known_by": "category",
    "group": "category",
    "ranks": "category",
    "sequence": "Int64",
    "dtype": "category",
    "clock": "category",
    "op": "Int64",
    "occupancy_ratio": "Float64",
    "host_memory": "category",
}
SPAN_COLUMNS: Mapping[str, Any] = {
    "host": "category",
    "thread": "category",
    "name": "category",
    "start_ps": "int64",
    "end_ps": "int64",
    "step": "Int64",
    "tracekit": "category",
    "alone": "category",
    "baseline": "category",
}
LAUNCH_COLUMNS: Mapping[str, Any] = {
    "host": "category",
    "thread": "category",
    "name": "category",
    "start_ps": "int64",
    "end_ps": "int64",
    "correlation_id": "Int64",
}
# What waits for what, where the trace proves it: a lane (a stream told to wait for an event) or a host thread (a
# synchronising call), for the work that was launched before `recorded_ps` on a lane, or on all lanes, of a device.
SYNC_COLUMNS: Mapping[str, Any] = {
    "host": "category",
    "thread": "category",
    "name": "category",
    "start_ps": "int64",
    "end_ps": "int64",
    "device": "category",
    "lane": "category",
    "on_device": "category",
    "on_lane": "category",
    "recorded_ps": "Int64",
}
# The operations of the compiled programs; `events.op` is a row number of this frame.
OP_COLUMNS: Mapping[str, Any] = {
    "program": "category",
    "hlo_op": "category",
    "opcode": "category",
    "source": "category",
    "framework_op": "category",
    "flops": "Int64",
    "bytes_accessed": "Int64",
}
# Which operation needs the result of which: row numbers of the frame of operations.
OPERAND_COLUMNS: Mapping[str, Any] = {"op": "int64", "operand": "int64"}
DEVICE_COLUMNS: Mapping[str, Any] = {
    "host": "category",
    "device": "category",
    "model": "category",
    "memory_bandwidth_bytes_per_s": "Int64",
    "peak_flops_per_s": "Int64",
}
HOST_COLUMNS: Mapping[str, Any] = {
    "host": "category",
    "source": "category",
    "origin_ns": "Int64",
    "clock": "category",
    "shift_ps": "Int64",
    "residual_ps": "Int64",
}

# What no row may lack, in the frames whose rows stand on a time axis of their own.
_REQUIRED = {
    "events": ("host", "device", "lane", "kind", "name"),
    "spans": ("host", "thread", "name"),
    "launches": ("host", "thread", "name"),
    "syncs": ("host", "thread", "name"),
}


def frame(columns: Mapping[str, Any], data: Mapping[str, Any] | None = None, length: int = 0) -> pd.DataFrame:
    """A frame with exactly `columns`, in that order and of those dtypes; what `data` lacks is null.

    `data` maps column to array-like, all of one length; `length` counts only if `data` is empty.
    """
    data = data or {}
    if data:
        length = len(next(iter(data.values())))
    index = pd.RangeIndex(length)
    made = {}
    for name, dtype in columns.items():
        if name in data:
            values = data[name]
            made[name] = pd.Series(values, index=index)
            if isinstance(dtype, pd.CategoricalDtype):  # equal dtypes may still order their categories differently
                made[name] = made[name].astype("category").cat.set_categories(dtype.categories)
            elif not (_any_strings(dtype) and isinstance(made[name].dtype, pd.CategoricalDtype)):
                made[name] = made[name].astype(dtype)
        elif _any_strings(dtype):
            made[name] = pd.Series(
                pd.Categorical.from_codes([-1] * length, categories=pd.Index([], dtype="str")), index=index
            )
        else:
            made[name] = pd.Series(pd.NA, index=index, dtype="Int64" if dtype == "int64" else dtype).astype(dtype)
    return pd.DataFrame(made, index=index)


def constant(value: str, length: int) -> pd.Categorical:
    """A categorical column that holds `value` `length` times."""
    return labelled([value], np.zeros(length, np.int64))


def labelled(labels: Sequence[str | None], which: NDArray[np.int64]) -> pd.Categorical:
    """The categorical column `labels[which]`, without a string per row; None is null, and labels may repeat."""
    known = {label: code for code, label in enumerate(dict.fromkeys(label for label in labels if label is not None))}
    codes = np.array([-1 if label is None else known[label] for label in labels], np.int64)
    return pd.Categorical.from_codes(codes[which], categories=pd.Index(list(known), dtype="str"))


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a small table as dicts."""
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]


def concat(columns: Mapping[str, Any], frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all `frames`, each with `columns`, one after the other; categories are united in order."""
    frames = [one for one in frames if len(one)]
    if not frames:
        return frame(columns)
    data = {}
    for name, dtype in columns.items():
        parts = [one[name] for one in frames]
        data[name] = (
            union_categoricals([part.astype(_text_categories(part)) for part in parts])
            if _any_strings(dtype)
            else pd.concat(parts, ignore_index=True)
        )
    return frame(columns, data)


def _any_strings(dtype: Any) -> bool:
    """Whether a column may have any strings as categories; a CategoricalDtype is equal to "category" too."""
    return isinstance(dtype, str) and dtype == "category"


def _text_categories(part: pd.Series) -> pd.CategoricalDtype:
    return pd.CategoricalDtype(part.cat.categories.astype("str"))


def _check(what: str, found: pd.DataFrame, columns: Mapping[str, Any]) -> None:
    """Raise TraceError unless `found` keeps the contract `columns`; times must be ordered and present."""
    if list(found.columns) != list(columns):
        raise TraceError(f"Trace.{what} has columns {list(found.columns)}; the contract wants {list(columns)}.")
    for name, dtype in columns.items():
        have = found[name].dtype
        if isinstance(dtype, pd.CategoricalDtype):
            good = isinstance(have, pd.CategoricalDtype) and list(have.categories) == list(dtype.categories)
        else:
            good = isinstance(have, pd.CategoricalDtype) if _any_strings(dtype) else have == dtype
        if not good:
            raise TraceError(f"Trace.{what}.{name} has dtype {have}; the contract wants {dtype}.")
        if name in _REQUIRED.get(what, ()) and found[name].isna().any():
            raise TraceError(f"Trace.{what}.{name} holds nulls; every row needs one.")
    if "start_ps" in columns and (found["end_ps"] < found["start_ps"]).any():
        row = int((found["end_ps"] < found["start_ps"]).to_numpy().argmax())
        raise TraceError(f"Trace.{what} row {row} ends before it starts.")


@dataclass(frozen=True)
class Trace:
    """What a profiler saw, checked against the column contract when it is made.

    `events`: one row per interval on a device (EVENT_COLUMNS): leaves only, half-open [start_ps, end_ps), int64
    picoseconds since the earliest event of any kind. `spans`: named host spans (SPAN_COLUMNS). `launches`: host launch
    calls (LAUNCH_COLUMNS). `syncs`: what waited for what by order of the program (SYNC_COLUMNS). `ops`: one row per
    operation of a compiled program (OP_COLUMNS), `operands` which of them needs which (OPERAND_COLUMNS); in both, as in
    `events.op`, a row number of `ops` names an operation. `devices`: one row per device (DEVICE_COLUMNS). `hosts`: one
    row per file that was read (HOST_COLUMNS): Unix time of its time 0 in nanoseconds, null where the file does not say;
    which clock it is on, by how much its times were shifted to fit that clock, and what difference is left. `notes`:
    everything a reader dropped, repaired, guessed or could not align. `runs`: the profiler runs found at `source`, the
    one that was read first. `capture`: what `capture.json` beside the trace says, or None.
    """

    events: pd.DataFrame
    spans: pd.DataFrame = field(default_factory=lambda: frame(SPAN_COLUMNS))
    launches: pd.DataFrame = field(default_factory=lambda: frame(LAUNCH_COLUMNS))
    syncs: pd.DataFrame = field(default_factory=lambda: frame(SYNC_COLUMNS))
    ops: pd.DataFrame = field(default_factory=lambda: frame(OP_COLUMNS))
    operands: pd.DataFrame = field(default_factory=lambda: frame(OPERAND_COLUMNS))
    devices: pd.DataFrame = field(default_factory=lambda: frame(DEVICE_COLUMNS))
    hosts: pd.DataFrame = field(default_factory=lambda: frame(HOST_COLUMNS))
    notes: tuple[str, ...] = ()
    source: str = ""
    format: str = ""
    runs: tuple[str, ...] = ()
    capture: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _check("events", self.events, EVENT_COLUMNS)
        _check("spans", self.spans, SPAN_COLUMNS)
        _check("launches", self.launches, LAUNCH_COLUMNS)
        _check("syncs", self.syncs, SYNC_COLUMNS)
        _check("ops", self.ops, OP_COLUMNS)
        _check("operands", self.operands, OPERAND_COLUMNS)
        _check("devices", self.devices, DEVICE_COLUMNS)
        _check("hosts", self.hosts, HOST_COLUMNS)
        copies = self.events["kind"] == Kind.MEMCPY.value
        if (self.events["direction"].notna() & ~copies).any():
            raise TraceError("Trace.events.direction is set on a row that is no memcpy.")
        for what, numbers in (("events.op", self.events["op"].dropna()), *self.operands.items()):
            if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(self.ops):
                raise TraceError(
                    f"Trace.{what} names operations that the {len(self.ops)} rows of Trace.ops do not hold."
                )

    def __repr__(self) -> str:
        return glance.line(self.source, self.format, self.events)

    def _repr_html_(self) -> str:
        return glance.html(self.source, self.format, notebook.frames(self), self.notes)
