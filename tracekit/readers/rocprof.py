"""rocprofv3, the profiler of ROCm: what `rocprofv3 --output-format json` wrote, as a `Trace`.

Device rows are kernel dispatches and copies; scratch memory, page migration and samples of the program counter are
none. The file holds one process, or a list of them: agents (CPUs and GPUs by a handle), kernel symbols, names by the
numbers of kind and operation, and the records of each kind of tracing. Times are nanoseconds since the machine was
booted. Source of the format: source/lib/output/generateJSON.cpp, source/lib/rocprofiler-sdk-tool before that, and
include/rocprofiler-sdk/cxx/serialization of rocprofiler-sdk, 2024 to 2025. An older name of a key stands beside the
newer one.
"""

import re
import zlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import concat, constant, frame
from tracekit.devices import natural
from tracekit.errors import TraceError
from tracekit.readers import nested, unpacking
from tracekit.readers.content import Content
from tracekit.trace import (
    DEVICE_COLUMNS,
    EVENT_COLUMNS,
    HOST_COLUMNS,
    LAUNCH_COLUMNS,
    OP_COLUMNS,
    SPAN_COLUMNS,
    SYNC_COLUMNS,
    Trace,
)
from tracekit.units import quantity
from tracekit.vocabulary import copies
from tracekit.vocabulary.collectives import operation
from tracekit.vocabulary.host_calls import SyncCall, sync_call
from tracekit.vocabulary.kinds import Classification, Kind, classify

Integers = NDArray[np.int64]

SUFFIXES = (".json", ".json.gz")
_KEY = re.compile(rb'[{,]\s*"rocprofiler-sdk-tool"\s*:')
_PS_PER_NS = 1000
_LONGEST_NS = 2**63 // _PS_PER_NS - 1
_GPU = 2  # rocprofiler_agent_type_t
_VIDEO_MEMORY = (1, 2)  # HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC and _PRIVATE
_CLONE = re.compile(r"( \[clone \.kd\]|\.kd)$")
_PROCESS_BITS = 40  # ids of correlation count the calls of one process


class _Handle(msgspec.Struct):
    handle: int = -1


class _Correlation(msgspec.Struct):
    internal: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.internal < 1 << _PROCESS_BITS:
            self.internal = 0  # no profiler counts so far: it is that of no call


class _Record(msgspec.Struct):
    """What all records have: what it is of, which call it belongs to, when it was, and on which thread."""

    kind: int = -1
    operation: int = -1
    correlation_id: _Correlation = msgspec.field(default_factory=_Correlation)
    start_timestamp: int = 0
    end_timestamp: int = 0
    thread_id: int = 0


class _Dispatch(msgspec.Struct):
    agent_id: _Handle = msgspec.field(default_factory=_Handle)
    queue_id: _Handle = msgspec.field(default_factory=_Handle)
    kernel_id: int = 0


class _Kernel(_Record):
    dispatch_info: _Dispatch = msgspec.field(default_factory=_Dispatch)


class _Copy(_Record):
    src_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    dst_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    bytes: int | None = None


class _Counted(msgspec.Struct):
    """The dispatch of a kernel whose counters were collected."""

    thread_id: int = 0
    dispatch_data: _Kernel = msgspec.field(default_factory=_Kernel)


class _BufferRecords(msgspec.Struct):
    kernel_dispatch: list[_Kernel] = []
    memory_copy: list[_Copy] = []
    hip_api: list[_Record] = []
    hsa_api: list[_Record] = []
    marker_api: list[_Record] = []
    rccl_api: list[_Record] = []


class _CallbackRecords(msgspec.Struct):
    counter_collection: list[_Counted] = []


class _Bank(msgspec.Struct):
    heap_type: int = 0
    size_in_bytes: int = 0


class _Agent(msgspec.Struct):
    id: _Handle
    type: int = 0
    node_id: int = 0
    name: str = ""
    product_name: str = ""
    mem_banks: list[_Bank] = []


class _Symbol(msgspec.Struct):
    kernel_id: int = 0
    kernel_name: str = ""
    formatted_kernel_name: str = ""
    demangled_kernel_name: str = ""

    @property
    def name(self) -> str:
        """What people call the kernel, without the mark of its descriptor."""
        return _CLONE.sub("", self.demangled_kernel_name or self.formatted_kernel_name or self.kernel_name)


class _Names(msgspec.Struct):
    kind: str = ""
    operations: list[str] = []


class _Message(msgspec.Struct):
    """What the program called a marker, by the id of its record."""

    key: int
    value: str


class _Strings(msgspec.Struct):
    buffer_records: list[_Names] = []
    marker_api: list[_Message] = []


class _Node(msgspec.Struct):
    hostname: str = ""


class _Metadata(msgspec.Struct):
    pid: int = 0
    node: _Node = msgspec.field(default_factory=_Node)


class _Process(msgspec.Struct):
    """What the file holds of one process."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    agents: list[_Agent] = []
    strings: _Strings = msgspec.field(default_factory=_Strings)
    kernel_symbols: list[_Symbol] = []
    buffer_records: _BufferRecords = msgspec.field(default_factory=_BufferRecords)
    callback_records: _CallbackRecords = msgspec.field(default_factory=_CallbackRecords)

    def name_of(self, record: _Record) -> tuple[str, str]:
        """What a record is of, as `HIP_RUNTIME_API` and `hipLaunchKernel`; "" for what the file does not name."""
        names = self.strings.buffer_records
        kind = names[record.kind] if 0 <= record.kind < len(names) else _Names()
        known = 0 <= record.operation < len(kind.operations)
        return kind.kind, kind.operations[record.operation] if known else ""


class _Document(msgspec.Struct):
    processes: list[_Process] | _Process = msgspec.field(name="rocprofiler-sdk-tool")


def is_trace(content: Content, sure: bool) -> bool:
    """Whether a file is JSON of rocprofv3."""
    return content.is_json and _KEY.search(content.text) is not None


def read(path: Path) -> Trace:
    """The trace in one JSON file of rocprofv3, gzipped or not.

    Devices are `gpu:N`, the N-th GPU of the machine, whichever process used it. A lane is a queue of the hardware,
    on which kernels of many streams run in order; a copy names none, so that its lane is its direction. Launches are
    the calls of HIP (or of HSA, where only these were recorded); spans are roctx's ranges, and the innermost around a
    launch is the operation. What a collective does is told by the call of RCCL around its launch. Raises TraceError if
    the file cannot be read or is broken.
    """
    processes = _processes(path)
    zero_ns = _zero_ns(path, processes)
    host = next((process.metadata.node.hostname for process in processes if process.metadata.node.hostname), "")
    host = host or path.name.removesuffix(".gz").removesuffix(".json").removesuffix("_results")
    parts = [_Part(process, number, host, zero_ns) for number, process in enumerate(processes)]
    ops: dict[str, int] = {}
    events = concat(EVENT_COLUMNS, [part.events(ops, len(parts) > 1) for part in parts])
    only = str(events["device"].iat[0]) if len(events) and events["device"].nunique() == 1 else None
    launches = concat(LAUNCH_COLUMNS, [part.launches() for part in parts])
    return Trace(
        events=events,
        spans=concat(SPAN_COLUMNS, [part.spans() for part in parts]),
        launches=launches,
        syncs=_syncs(launches, only),
        ops=frame(OP_COLUMNS, {"framework_op": list(ops)}),
        devices=_devices(processes, host, set(events["device"].cat.categories)),
        hosts=frame(HOST_COLUMNS, {"host": [host], "source": [str(path)]}),
        notes=tuple(_notes(parts, events)),
        source=str(path),
        format="rocprofv3",
    )


def _processes(path: Path) -> list[_Process]:
    """What the file at `path` holds, one for each process."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == unpacking.GZIP
            file.seek(0)
            text = b"".join(unpacking.gunzipped(file, path)) if packed else file.read()
        text = text.removeprefix(b"\xef\xbb\xbf")
    except (EOFError, zlib.error):
        raise TraceError(
            f"{path} is truncated: its compressed stream ends early. Copy it again, in binary mode."
        ) from None
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}.") from None
    for attempt in (text, text.decode("utf-8", "replace").encode()):  # names of kernels may hold any bytes
        try:
            document = _document(attempt)
            break
        except UnicodeDecodeError:
            continue
        except msgspec.ValidationError as error:
            raise TraceError(
                f"{path} is laid out as no version of rocprofv3 that tracekit knows: {str(error).rstrip('.')}. Please "
                "report it, with the file if it may be shared."
            ) from None
        except msgspec.DecodeError as error:
            raise TraceError(
                f"{path} is no whole JSON of rocprofv3: {str(error).rstrip('.')}. It may be truncated; copy it again, "
                "or record again and let the program end by itself."
            ) from None
    return document.processes if isinstance(document.processes, list) else [document.processes]


def _document(text: bytes) -> _Document:
    """What a text holds. Values that are null, and numbers in quotes, cost the more time that it takes to look for
    them. Raises msgspec's errors."""
    try:
        return msgspec.json.decode(text, type=_Document)
    except msgspec.ValidationError:
        return msgspec.convert(_without_nulls(msgspec.json.decode(text)), _Document, strict=False)


def _without_nulls(value: Any) -> Any:
    """A value of JSON without the keys whose value is null; in a list, where places count, "" stands for null."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return ["" if item is None else _without_nulls(item) for item in value]
    return value


def _zero_ns(path: Path, processes: Sequence[_Process]) -> int:
    """The time of the first record. Raises TraceError if int64 picoseconds cannot hold what follows it."""
    timed = [record for process in processes for record in _all_records(process) if _is_timed(record)]
    first = min((record.start_timestamp for record in timed), default=0)
    if max((record.end_timestamp for record in timed), default=0) - first > _LONGEST_NS:
        raise TraceError(f"{path} has events more than 106 days apart, too far for one time axis. Record again.")
    return first


def _is_timed(record: _Record) -> bool:
    return 0 < record.start_timestamp <= record.end_timestamp < 2**63


def _all_records(process: _Process) -> list[_Record]:
    records = process.buffer_records
    calls = (records.hip_api, records.hsa_api, records.marker_api, records.rccl_api)
    return [*_kernels(process), *records.memory_copy, *(record for each in calls for record in each)]


def _kernels(process: _Process) -> Sequence[_Kernel]:
    """The kernels; where only counters were collected, those of which they were."""
    return process.buffer_records.kernel_dispatch or [
        counted.dispatch_data for counted in process.callback_records.counter_collection
    ]


class _Row(NamedTuple):
    """A piece of work: its record, the handle of its agent, its name, lane and size, and what it is."""

    record: _Record
    agent: int
    name: str
    lane: str
    bytes: int | None
    classification: Classification


class _Part:
    """The tables of one process, which is the `number`-th of its file."""

    def __init__(self, process: _Process, number: int, host: str, zero_ns: int) -> None:
        self.process, self.host, self.zero_ns = process, host, zero_ns
        self.label = str(process.metadata.pid or number)
        self.offset = number << _PROCESS_BITS
        self.gpus = gpus(process)
        rows = [*self._kernels(), *self._copies()]
        self.rows = [row for row in rows if _is_timed(row.record) and row.agent in self.gpus]
        self.untimed = sum(not _is_timed(row.record) for row in rows)
        self.elsewhere = len(rows) - len(self.rows) - self.untimed
        self.calls = self._calls()

    def _kernels(self) -> list[_Row]:
        names = {symbol.kernel_id: symbol.name for symbol in self.process.kernel_symbols}
        known: dict[int, Classification] = {}
        rows = []
        for record in _kernels(self.process):
            info = record.dispatch_info
            number = info.kernel_id
            name = names.get(number) or f"kernel {number}"
            what = known.get(number) or known.setdefault(number, classify(name, typed=Kind.COMPUTE))
            rows.append(_Row(record, info.agent_id.handle, name, f"queue {info.queue_id.handle}", None, what))
        return rows

    def _copies(self) -> list[_Row]:
        rows = []
        for record in self.process.buffer_records.memory_copy:
            source, target = record.src_agent_id.handle, record.dst_agent_id.handle
            name = self.process.name_of(record)[1] or "memory copy"
            apart = source != target if source in self.gpus and target in self.gpus else None
            what = classify(name, typed=Kind.MEMCPY, direction=copies.direction(name, apart=apart))
            agent = source if source in self.gpus else target
            rows.append(_Row(record, agent, name, f"copies {what.direction or ''}".rstrip(), record.bytes, what))
        return rows

    def _calls(self) -> list[_Record]:
        """The calls of HIP's runtime by start; where there are none, those of HSA that started something."""
        records = self.process.buffer_records
        hip = [record for record in records.hip_api if not self.process.name_of(record)[0].startswith("HIP_COMPILER")]
        started = {row.record.correlation_id.internal for row in self.rows}
        calls = hip or [record for record in records.hsa_api if record.correlation_id.internal in started]
        return sorted(filter(_is_timed, calls), key=lambda record: record.start_timestamp)

    def events(self, ops: dict[str, int], several: bool) -> pd.DataFrame:
        """The rows (EVENT_COLUMNS). `ops` numbers the operations of all processes, and is added to; with `several`
        processes a lane, which counts in one of them, has its process."""
        call = self._call_of_rows()
        launching = [None if at < 0 else self.calls[at] for at in call.tolist()]
        ids = [(record or row.record).correlation_id.internal for record, row in zip(launching, self.rows, strict=True)]
        around = self._around(self.process.buffer_records.marker_api, launching)
        names = [None if marker is None else self._span_name(marker) for marker in around]
        what = [row.classification for row in self.rows]
        return frame(
            EVENT_COLUMNS,
            {
                "host": constant(self.host, len(self.rows)),
                "device": [self.gpus[row.agent] for row in self.rows],
                "lane": [f"{row.lane}, process {self.label}" if several else row.lane for row in self.rows],
                "kind": [each.kind.value for each in what],
                "direction": [each.direction for each in what],
                "known_by": [each.known_by.value for each in what],
                "name": [row.name for row in self.rows],
                **self._times([row.record for row in self.rows]),
                "category": self._collectives(launching),
                "bytes": [row.bytes for row in self.rows],
                "correlation_id": [number + self.offset if number > 0 else None for number in ids],
                "op": [None if name is None else ops.setdefault(name, len(ops)) for name in names],
            },
        )

    def _times(self, records: Sequence[_Record]) -> dict[str, Integers]:
        start, end = (
            np.array([getattr(record, f"{side}_timestamp") - self.zero_ns for record in records], np.int64) * _PS_PER_NS
            for side in ("start", "end")
        )
        return {"start_ps": start, "end_ps": end}

    def _call_of_rows(self) -> Integers:
        """The place in `calls` of the call that started each row, -1 for none: that with its id; where a call of HSA
        has it, which HIP made, the call of HIP around that one."""
        place = {record.correlation_id.internal: at for at, record in enumerate(self.calls)}
        inner = [
            record
            for record in self.process.buffer_records.hsa_api
            if _is_timed(record) and record.correlation_id.internal not in place
        ]
        outer = self._places_around(self.calls, inner)
        of_inner = zip((record.correlation_id.internal for record in inner), outer.tolist(), strict=True)
        place |= {number: at for number, at in of_inner if at >= 0}
        return np.array([place.get(row.record.correlation_id.internal, -1) for row in self.rows], np.int64)

    def _places_around(self, ranges: Sequence[_Record], moments: Sequence[_Record]) -> Integers:
        """The place in `ranges` of the innermost around the start of each of `moments` on its thread, -1 for none."""
        inside, around = self._times(moments), self._times(ranges)
        threads = [np.array([record.thread_id for record in each], np.int64) for each in (moments, ranges)]
        return nested.innermost(inside["start_ps"], threads[0], around["start_ps"], around["end_ps"], threads[1])

    def _around(self, ranges: Sequence[_Record], calls: Sequence[_Record | None]) -> list[_Record | None]:
        """The innermost of `ranges` around each of `calls`, None for none."""
        ranges = [record for record in ranges if _is_timed(record)]
        found = iter(self._places_around(ranges, [call for call in calls if call]).tolist())
        places = [next(found) if call else -1 for call in calls]
        return [ranges[place] if place >= 0 else None for place in places]

    def _collectives(self, launching: Sequence[_Record | None]) -> list[str | None]:
        """What each row that is a collective does, by its own name, else by the call of RCCL around its launch."""
        around = self._around(self.process.buffer_records.rccl_api, launching)
        return [
            operation(row.name) or (operation(self.process.name_of(call)[1]) if call else None)
            if row.classification.kind == Kind.COLLECTIVE
            else None
            for row, call in zip(self.rows, around, strict=True)
        ]

    def launches(self) -> pd.DataFrame:
        """The host's calls (LAUNCH_COLUMNS)."""
        numbers = [record.correlation_id.internal + self.offset for record in self.calls]
        names = [self.process.name_of(record)[1] or "HIP call" for record in self.calls]
        return frame(LAUNCH_COLUMNS, {**self._on_threads(self.calls, names), "correlation_id": numbers})

    def _on_threads(self, records: Sequence[_Record], names: list[str]) -> dict[str, Any]:
        return {
            "host": constant(self.host, len(records)),
            "process": constant(self.label, len(records)),
            "thread": [f"thread {record.thread_id}" for record in records],
            "name": names,
            **self._times(records),
        }

    def _span_name(self, record: _Record) -> str:
        return self.messages.get(record.correlation_id.internal) or self.process.name_of(record)[1] or "roctx"

    @cached_property
    def messages(self) -> dict[int, str]:
        """What the program called its markers, by the ids of their records."""
        return {message.key: message.value for message in self.process.strings.marker_api}

    def spans(self) -> pd.DataFrame:
        """The ranges of roctx (SPAN_COLUMNS); calls that pause the profiler or name a thread are none."""
        records = [
            record
            for record in self.process.buffer_records.marker_api
            if _is_timed(record) and self.process.name_of(record)[0].startswith("MARKER_CORE")
        ]
        names = [self._span_name(record) for record in records]
        return frame(SPAN_COLUMNS, self._on_threads(records, names))


def gpus(process: _Process) -> dict[int, str]:
    """The name of each GPU by the handle of its agent: they count by the number of their node, as HIP counts them, then
    those that ran kernels and are not listed, by their handles."""
    agents = sorted((agent for agent in process.agents if agent.type == _GPU), key=lambda agent: agent.node_id)
    handles = [*(agent.id.handle for agent in agents), *_unlisted(process)]
    return {handle: f"gpu:{number}" for number, handle in enumerate(handles)}


def _unlisted(process: _Process) -> list[int]:
    """The handles of the agents that ran kernels, and that the file does not list."""
    listed = {-1, *(agent.id.handle for agent in process.agents)}
    return sorted({record.dispatch_info.agent_id.handle for record in _kernels(process)} - listed)


def _syncs(calls: pd.DataFrame, only: str | None) -> pd.DataFrame:
    """The calls that wait (SYNC_COLUMNS). The file does not say for what, so that is known only if no more than one
    device worked: then it is `only`."""
    waits = calls["name"].map(lambda name: sync_call(name) not in (None, SyncCall.STREAM_WAIT)).to_numpy(bool)
    rows = calls[waits]
    same = {str(name): rows[name].array for name in rows if name != "correlation_id"}
    known = {} if only is None else {"on_device": constant(only, len(rows)), "recorded_ps": rows["start_ps"].to_numpy()}
    return frame(SYNC_COLUMNS, {**same, **known})


def _devices(processes: Sequence[_Process], host: str, worked: set[str]) -> pd.DataFrame:
    """One row of DEVICE_COLUMNS for each GPU that worked."""
    facts = {
        name: agent
        for process in processes
        for handle, name in gpus(process).items()
        for agent in process.agents
        if agent.id.handle == handle and name in worked
    }
    names = sorted(facts, key=natural)
    sizes = [
        sum(bank.size_in_bytes for bank in facts[name].mem_banks if bank.heap_type in _VIDEO_MEMORY) for name in names
    ]
    return frame(
        DEVICE_COLUMNS,
        {
            "host": constant(host, len(names)),
            "device": names,
            "model": [facts[name].product_name or facts[name].name or None for name in names],
            "memory_bytes": [size or None for size in sizes],
        },
    )


def _notes(parts: Sequence[_Part], events: pd.DataFrame) -> list[str]:
    """Notes on what was dropped, and on what was not recorded."""
    notes = []
    if untimed := sum(part.untimed for part in parts):
        notes.append(f"{untimed} kernels or copies without a valid time were skipped.")
    if elsewhere := sum(part.elsewhere for part in parts):
        notes.append(f"{elsewhere} kernels or copies on no GPU (within the host's memory) were skipped.")
    if unlisted := {handle for part in parts for handle in _unlisted(part.process)}:
        notes.append(
            f"{quantity(len(unlisted), 'agent')} that ran kernels and that the file does not list: taken for GPUs, "
            "numbered by their handles."
        )
    if any(not part.process.buffer_records.kernel_dispatch and part.rows for part in parts) and any(
        part.process.callback_records.counter_collection for part in parts
    ):
        notes.append(
            "Kernels are those whose counters were collected: rocprofv3 runs them one after the other then, so that "
            "nothing overlaps. Record with --kernel-trace and without --pmc to see what does."
        )
    if not len(events):
        notes.append("rocprofv3 recorded no kernels and no copies: --kernel-trace and --memory-copy-trace record them.")
    elif not any(part.process.buffer_records.memory_copy for part in parts):
        notes.append(
            "No copies of the copy engines were recorded, only those that are kernels: --memory-copy-trace records "
            "them, if there were any."
        )
    return notes
