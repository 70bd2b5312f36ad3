"""The one type in the middle: a `Trace` holds what a profiler saw, in frames with a fixed contract."""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import notebook, trace_summary
from tracekit.columns import by_label, check, frame
from tracekit.errors import TraceError
from tracekit.vocabulary.copies import DIRECTIONS
from tracekit.vocabulary.kinds import Kind

KIND_DTYPE = pd.CategoricalDtype([kind.value for kind in Kind])
DIRECTION_DTYPE = pd.CategoricalDtype([*DIRECTIONS])

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
    "group_size": "Int64",
    "dtype": "category",
    "clock": "category",
    "op": "Int64",
    "occupancy_ratio": "Float64",
    "host_memory": "category",
}
# The process of a thread is null where the format does not tell it: then all such threads of a host are of one.
_CALL_COLUMNS: Mapping[str, Any] = {
    "host": "category",
    "process": "category",
    "thread": "category",
    "name": "category",
    "start_ps": "int64",
    "end_ps": "int64",
}
SPAN_COLUMNS: Mapping[str, Any] = {
    **_CALL_COLUMNS,
    "step": "Int64",
    "tracekit": "category",
    "alone": "category",
    "baseline": "category",
}
# When threads were at work by events of which no span is kept (operators of a framework, frames of Python); those of a
# thread do not overlap. The name is that of the outermost operator, null where only frames prove the work.
HOST_WORK_COLUMNS: Mapping[str, Any] = _CALL_COLUMNS
LAUNCH_COLUMNS: Mapping[str, Any] = {**_CALL_COLUMNS, "correlation_id": "Int64"}
# What waits for what, where the trace proves it: a lane (a stream told to wait for an event) or a host thread (a
# synchronising call), for the work that was launched before `recorded_ps` on a lane, or on all lanes, of a device. The
# `source` is the line of the program, `train.py:12`, where the trace has it and the spans around the call do not.
SYNC_COLUMNS: Mapping[str, Any] = {
    **_CALL_COLUMNS,
    "device": "category",
    "lane": "category",
    "on_device": "category",
    "on_lane": "category",
    "recorded_ps": "Int64",
    "source": "category",
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
    "memory_bytes": "Int64",
    "memory_bandwidth_bytes_per_s": "Int64",
    "peak_flops_per_s": "Int64",
    "shift_ps": "Int64",
    "drift_ppm": "Float64",
    "clock_error": "category",
}
HOST_COLUMNS: Mapping[str, Any] = {
    "host": "category",
    "source": "category",
    "origin_ns": "Int64",
    "clock": "category",
    "shift_ps": "Int64",
    "drift_ppm": "Float64",
    "residual_ps": "Int64",
    "world_size": "Int64",
}
# What a file shows to be missing from it: `lost` of `total`, each null where the file does not count it, and what says
# so, mostly in the profiler's own words.
LOSS_COLUMNS: Mapping[str, Any] = {
    "host": "category",
    "what": "category",
    "lost": "Int64",
    "total": "Int64",
    "evidence": "category",
}
# What an allocator handed out or took back, and what it said of itself right after. The device is null for memory of
# the host; of `in_use_bytes`, `stack_bytes` are reserved for programs; `reserved_bytes` is what the allocator holds,
# in use or not; `limit_bytes` the most that it may hand out; `peak_bytes` its own peak, since it was made.
MEMORY_COLUMNS: Mapping[str, Any] = {
    "host": "category",
    "process": "category",
    "device": "category",
    "allocator": "category",
    "label": "category",
    "time_ps": "int64",
    "delta_bytes": "Int64",
    "in_use_bytes": "Int64",
    "stack_bytes": "Int64",
    "reserved_bytes": "Int64",
    "limit_bytes": "Int64",
    "peak_bytes": "Int64",
    "address": "Int64",
    "frees": "boolean",
}

# When devices computed of which rows were left out (timeline.reduction): one row per merged interval of a device.
MERGED_COLUMNS: Mapping[str, Any] = {"device": "category", "start_ps": "int64", "end_ps": "int64"}
# Which rows stand for some that were left out: row numbers of `events`, and for how many each, itself among them.
COUNT_COLUMNS: Mapping[str, Any] = {"event": "int64", "rows": "int64"}

FRAME_COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "events": EVENT_COLUMNS,
    "spans": SPAN_COLUMNS,
    "host_work": HOST_WORK_COLUMNS,
    "launches": LAUNCH_COLUMNS,
    "syncs": SYNC_COLUMNS,
    "ops": OP_COLUMNS,
    "operands": OPERAND_COLUMNS,
    "devices": DEVICE_COLUMNS,
    "hosts": HOST_COLUMNS,
    "losses": LOSS_COLUMNS,
    "memory": MEMORY_COLUMNS,
    "merged": MERGED_COLUMNS,
    "counts": COUNT_COLUMNS,
}


def _empty(name: str) -> pd.DataFrame:
    """A frame of a trace without rows; as long as it has none, its columns may be shared."""
    return _made_once(name).copy(deep=False)


@cache
def _made_once(name: str) -> pd.DataFrame:
    return frame(FRAME_COLUMNS[name])


# What no row may lack, in the frames whose rows stand on a time axis.
_REQUIRED = {
    "events": ("host", "device", "lane", "kind", "name"),
    "spans": ("host", "thread", "name"),
    "host_work": ("host", "thread"),
    "launches": ("host", "thread", "name"),
    "syncs": ("host", "thread", "name"),
    "memory": ("host", "frees"),
    "merged": ("device",),
}


@dataclass(frozen=True)
class Trace:
    """What a profiler saw, checked against the column contract when it is made.

    `events`: one row per interval on a device (EVENT_COLUMNS): leaves only, half-open [start_ps, end_ps), int64
    picoseconds since the earliest event of any kind. `spans`: named host spans (SPAN_COLUMNS). `host_work`: when the
    host's threads were at work by events that are no spans (HOST_WORK_COLUMNS). `launches`: host launch calls
    (LAUNCH_COLUMNS). `syncs`: what waited for what by order of the program (SYNC_COLUMNS). `ops`: one row per
    operation of a compiled program (OP_COLUMNS), `operands` which of them needs which (OPERAND_COLUMNS); in both, as
    in `events.op`, a row number of `ops` names an operation. `devices`: one row per device (DEVICE_COLUMNS), and where
    launches and waits compare its clock with its host's, by how much its times were shifted in their middle and by how
    many ppm it ran faster, which was taken out as well, or why they cannot be compared. `hosts`: one row per file that
    was read (HOST_COLUMNS): Unix time of its time 0 in nanoseconds, null where the file does not say; which clock it
    is on, what was added to its times at time 0 to fit that clock, by how many ppm it ran faster, which was taken out
    as well, and what difference is left; how many ranks its job had. `losses`: what a file shows to be missing from it
    (LOSS_COLUMNS). `memory`: one row per allocation and release (MEMORY_COLUMNS). `merged` and `counts`: of
    devices of which rows of compute were left out, as of a thousand hosts no memory holds them all, when they computed
    (MERGED_COLUMNS), and which rows stand for those (COUNT_COLUMNS); else without rows. `notes`: everything a reader
    dropped, repaired, guessed or could not align. `runs`: the profiler runs found at the path `source`, the one that
    was read first; `format` is that of its files. `capture`: what `capture.json` beside the trace says, or None.
    `axis`: of a trace of several files, by what readers.merge gave their times a place; else None.
    """

    events: pd.DataFrame
    spans: pd.DataFrame = field(default_factory=lambda: _empty("spans"))
    host_work: pd.DataFrame = field(default_factory=lambda: _empty("host_work"))
    launches: pd.DataFrame = field(default_factory=lambda: _empty("launches"))
    syncs: pd.DataFrame = field(default_factory=lambda: _empty("syncs"))
    ops: pd.DataFrame = field(default_factory=lambda: _empty("ops"))
    operands: pd.DataFrame = field(default_factory=lambda: _empty("operands"))
    devices: pd.DataFrame = field(default_factory=lambda: _empty("devices"))
    hosts: pd.DataFrame = field(default_factory=lambda: _empty("hosts"))
    losses: pd.DataFrame = field(default_factory=lambda: _empty("losses"))
    memory: pd.DataFrame = field(default_factory=lambda: _empty("memory"))
    merged: pd.DataFrame = field(default_factory=lambda: _empty("merged"))
    counts: pd.DataFrame = field(default_factory=lambda: _empty("counts"))
    notes: tuple[str, ...] = ()
    source: str = ""
    format: str = ""
    runs: tuple[str, ...] = ()
    capture: Mapping[str, Any] | None = None
    axis: Any = None

    def __post_init__(self) -> None:
        self._check(FRAME_COLUMNS)

    @property
    def row_count(self) -> int:
        """How many rows of devices the files hold, those too that were left out of `events`."""
        return len(self.events) + int((self.counts["rows"] - 1).sum())

    def of_events(self, kept: NDArray[np.int64]) -> Self:
        """The trace with these of its events, by their places, which rise; what they stand for stays told."""
        place = np.full(len(self.events), -1)
        place[kept] = np.arange(len(kept))
        counts = self.counts.assign(event=place[self.counts["event"].to_numpy()])
        counts = counts[counts["event"] >= 0].reset_index(drop=True)
        return self.changed(events=self.events.iloc[kept].reset_index(drop=True), counts=counts)

    @property
    def frame_bytes(self) -> int:
        """How much memory its frames take."""
        return sum(int(getattr(self, name).memory_usage(index=False).sum()) for name in FRAME_COLUMNS)

    def changed(self, **parts: Any) -> Self:
        """The trace with other `parts`, as `dataclasses.replace` gives it, but frames that stay are not checked again:
        of a million rows that takes 7 ms. Raises TraceError where a part is not as its columns say."""
        trace = copy(self)
        for name, part in parts.items():
            if name not in self.__dataclass_fields__:
                raise TypeError(f"A Trace has no part called {name}.")
            object.__setattr__(trace, name, part)
        trace._check(parts)
        return trace

    def _check(self, names: Iterable[str]) -> None:
        """Raise TraceError where the frames called `names` are not what the contract promises."""
        names = {*names} & {*FRAME_COLUMNS}
        for name in filter(names.__contains__, FRAME_COLUMNS):
            table, columns = getattr(self, name), FRAME_COLUMNS[name]
            check(f"Trace.{name}", table, columns, _REQUIRED.get(name, ()))
            if len(table) and "start_ps" in columns:
                is_backwards = table["end_ps"].to_numpy() < table["start_ps"].to_numpy()
                if not is_backwards.any():
                    continue
                row = int(is_backwards.argmax())
                raise TraceError(f"Trace.{name} row {row} ends before it starts.")
        if "events" in names:
            has_direction = self.events["direction"].array.codes >= 0
            if (has_direction & ~by_label(self.events["kind"].array, lambda kind: kind == Kind.MEMCPY)).any():
                raise TraceError("Trace.events.direction is set on a row that is no memcpy.")
        if names & {"events", "counts"} and not self.counts["event"].between(0, len(self.events) - 1).all():
            raise TraceError(f"Trace.counts names rows that the {len(self.events)} rows of Trace.events do not hold.")
        numbered = (("events.op", self.events["op"]), *self.operands.items())
        for what, numbers in numbered if names & {"events", "ops", "operands"} else ():
            if numbers.notna().any() and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(self.ops):
                raise TraceError(
                    f"Trace.{what} names operations that the {len(self.ops)} rows of Trace.ops do not hold."
                )

    def __repr__(self) -> str:
        return trace_summary.line(self.source, self.format, self.events)

    def _repr_html_(self) -> str:
        return trace_summary.html(self.source, self.format, notebook.frames(self), self.notes)
