"""The records of rocprofv3 as a `Trace`.

Device rows are kernel dispatches and copies; scratch memory, page migration and samples of the program counter are
none. Times are nanoseconds since the machine was booted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import concat, constant, frame
from tracekit.devices import natural
from tracekit.readers import losses, nested, repeats
from tracekit.readers.losses import Lost
from tracekit.readers.rocprof.document import PROCESS_BITS, UNHELD, Kernel, Process, Record, processes
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
from tracekit.vocabulary.host_calls import SyncCall, hip_launches, recorded_into_graph, sync_call
from tracekit.vocabulary.kinds import Classification, Kind, classify
from tracekit.vocabulary.losses import Loss

Integers = NDArray[np.int64]

_PS_PER_NS = 1000
# No profile is longer than a day: times further than this from the others are none.
_FAR_NS = 86_400 * 10**9
# So long before a process began to be recorded, or after it ended, a record may be: a GPU's times are fitted.
_SLACK_NS = 10**9
_CPU, _GPU = 1, 2  # rocprofiler_agent_type_t
_VIDEO_MEMORY = (1, 2)  # HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC and _PRIVATE
# How the kinds of the records begin that stand in a list (rocprofiler_buffer_tracing_kind_t).
_KINDS = {
    "kernel_dispatch": "KERNEL_DISPATCH",
    "memory_copy": "MEMORY_COPY",
    "hip_api": "HIP_",
    "hsa_api": "HSA_",
    "marker_api": "MARKER_",
    "rccl_api": "RCCL_",
}


def read(path: Path) -> Trace:
    """The trace in one JSON file of rocprofv3, gzipped or not.

    Devices are `gpu:N`, the N-th GPU of the machine, whichever process used it. A lane is a queue of the hardware,
    on which kernels of many streams run in order; a copy names none, so that its lane is its direction. Launches are
    the calls of HIP (or of HSA, where only these were recorded); spans are roctx's ranges, and the innermost around a
    launch is the operation. What a collective does is told by the call of RCCL around its launch. What is damaged of
    the file is left out, and counted in the trace's losses. Raises TraceError if the file cannot be read.
    """
    found, lost = processes(path)
    times = _times(found)
    host = next((process.metadata.node.hostname for process in found if process.metadata.node.hostname), "")
    host = host or path.name.removesuffix(".gz").removesuffix(".json").removesuffix("_results")
    parts = [_Part(process, number, host, times) for number, process in enumerate(found)]
    lost += [*_lost(parts), *_unrecorded(parts, lost)]
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
        devices=_devices(parts, host, set(events["device"].cat.categories)),
        hosts=frame(HOST_COLUMNS, {"host": [host], "source": [str(path)]}),
        losses=losses.table(host, lost),
        notes=(*losses.notes(lost), *_notes(parts, events, ends_early=any(each.what is Loss.BYTES for each in lost))),
        source=str(path),
        format="rocprofv3",
    )


class _Times(NamedTuple):
    """Between which times the records of a file may be, in ns; they count from the first."""

    first: int
    last: int

    def hold(self, record: Record) -> bool:
        """Whether a record has a start and an end behind it, and neither is far from those of the others."""
        return self.first <= record.start_timestamp <= record.end_timestamp <= self.last


def _times(found: Sequence[Process]) -> _Times:
    """From the first time that is near to the one in the middle to the last, and, where that holds the one in the
    middle, in what the processes say of when they were recorded."""
    lists = [records for process in found for records in process.lists.values()]
    start = np.fromiter((record.start_timestamp for records in lists for record in records), np.int64)
    end = np.fromiter((record.end_timestamp for records in lists for record in records), np.int64)
    is_time = (start > 0) & (start <= end)
    start, end = start[is_time], end[is_time]
    if not len(start):
        return _Times(1, 0)
    middle = int(np.sort(start)[len(start) // 2])
    near = (start >= middle - _FAR_NS) & (end - middle <= _FAR_NS)
    about = [process.metadata for process in found]
    first, last = min(each.init_time for each in about), max(each.fini_time for each in about)
    if all(each.init_time > 0 for each in about) and first <= middle <= last:
        near &= (start >= first - _SLACK_NS) & (end - last <= _SLACK_NS)
    return _Times(int(start[near].min()), int(end[near].max())) if near.any() else _Times(1, 0)


class _Row(NamedTuple):
    """A piece of work: its record, the handle of its agent, its name, lane and size, and what it is."""

    record: Record
    agent: int
    name: str
    lane: str
    bytes: int | None
    classification: Classification


def _identities(records: Sequence[Record]) -> Integers:
    """A number for each record, the same for those that are alike and have the number of a call or a dispatch."""
    numbered = (
        record.call or (isinstance(record, Kernel) and record.dispatch_info.dispatch_id > 0) for record in records
    )
    return np.array(
        [
            hash(msgspec.structs.astuple(record)) if has_number else at
            for at, (record, has_number) in enumerate(zip(records, numbered, strict=True))
        ],
        np.int64,
    )


def _time_ps(records: Iterable[Record]) -> int:
    """How long records are together."""
    return sum(record.end_timestamp - record.start_timestamp for record in records) * _PS_PER_NS


class _Part:
    """The tables of one process, which is the `number`-th of its file.

    `lost`: how many of how many are lost, by what that is and what says so; `elsewhere`: how many copies are of no GPU.
    """

    def __init__(self, process: Process, number: int, host: str, times: _Times) -> None:
        self.process, self.host, self.times = process, host, times
        self.label = str(process.metadata.pid or number)
        self.offset = number << PROCESS_BITS
        self.gpus = gpus(process)
        self.lost: dict[tuple[Loss, str], tuple[int, int]] = {}
        self.elsewhere = 0
        self.has_calls = any(record.call for records in process.lists.values() for record in records)
        self.records = {name: self._whole(name, records) for name, records in process.lists.items()}
        self.rows = [*self._kernels(), *self._copies()]
        self.calls = self._calls()
        self._count_agents()
        names = process.strings.buffer_records
        self._lose(Loss.DETAILS, "kinds of records without a name", names, lambda each: not each.kind)
        markers = {record.call for record in process.buffer_records.marker_api}
        texts = process.strings.marker_api
        self._lose(Loss.DETAILS, "texts of no marker", texts, lambda message: message.key not in markers)

    def _lose(self, what: Loss, evidence: str, records: Iterable[Any], is_lost: Callable[[Any], bool]) -> list[Any]:
        """Those of `records` that are not lost; the others are counted."""
        records = list(records)
        kept = [record for record in records if not is_lost(record)]
        if len(kept) < len(records):
            self.lost[what, evidence] = len(records) - len(kept), len(records)
        return kept

    def _whole(self, name: str, records: Sequence[Any]) -> list[Any]:
        """Those of the records of a list that are of its kind, and have a time."""

        def is_other(record: Record) -> bool:
            return not (self.process.name_of(record)[0] or _KINDS[name]).startswith(_KINDS[name])

        own = self._lose(Loss.EVENTS, f"records in {name} of another kind", records, is_other)
        timed = self._lose(
            Loss.EVENTS, f"records in {name} without a valid time", own, lambda each: not self.times.hold(each)
        )
        timed = self._once(name, timed)
        if name != "kernel_dispatch":  # which have names of their own
            self._lose(Loss.DETAILS, f"names of {name}", timed, lambda record: not self.process.name_of(record)[1])
        if name not in ("memory_copy", "rccl_api") and self.has_calls:
            self._lose(Loss.DETAILS, f"correlation ids of {name}", timed, lambda record: not record.call)
        if name not in ("kernel_dispatch", "memory_copy"):
            self._lose(Loss.DETAILS, f"threads of {name}", timed, lambda record: record.thread_id < 0)
        return timed

    def _once(self, name: str, records: list[Any]) -> list[Any]:
        """The records of a list without those that are one before them again, with its number and all."""
        if len({each.start_timestamp for each in records}) == len(records):  # in a tenth of the time
            return records
        start = np.fromiter((each.start_timestamp for each in records), np.int64, len(records))
        end = np.fromiter((each.end_timestamp for each in records), np.int64, len(records))
        again = repeats.repeated(start, end, [], lambda rows: [_identities([records[row] for row in rows.tolist()])])
        for each in repeats.lost(again, f"records of {name}"):
            self.lost[each.what, str(each.evidence)] = int(again.sum()), len(again)
        return [record for record, is_again in zip(records, again.tolist(), strict=True) if not is_again]

    def _kernels(self) -> list[_Row]:
        symbols = [symbol for symbol in self.process.kernel_symbols if symbol.kernel_id >= 0]
        names = {symbol.kernel_id: symbol.name for symbol in symbols}
        self._lose(
            Loss.DETAILS,
            "names of kernels whose number has another",
            symbols,
            lambda symbol: symbol.name != names[symbol.kernel_id],
        )
        known: dict[int, Classification] = {}
        rows = []
        placed = self._lose(
            Loss.EVENTS,
            "kernels of no GPU",
            self.records["kernel_dispatch"],
            lambda record: record.dispatch_info.agent_id.handle not in self.gpus,
        )
        nameless = [record for record in placed if not names.get(record.dispatch_info.kernel_id)]
        if nameless:
            self.lost[Loss.KINDS, "kernels whose names are lost"] = _time_ps(nameless), _time_ps(placed)
        self._lose(Loss.DETAILS, "queues of kernels", placed, lambda each: each.dispatch_info.queue_id.handle < 0)
        for record in placed:
            info = record.dispatch_info
            number = info.kernel_id
            name = names.get(number) or f"kernel {number}"
            what = known.get(number) or known.setdefault(number, classify(name, typed=Kind.COMPUTE))
            rows.append(_Row(record, info.agent_id.handle, name, f"queue {info.queue_id.handle}", None, what))
        return rows

    def _copies(self) -> list[_Row]:
        rows = []
        cpus = {agent.id.handle for agent in self.process.agents if agent.type == _CPU} - self.gpus.keys()
        found = self.records["memory_copy"]
        within = [record for record in found if {record.src_agent_id.handle, record.dst_agent_id.handle} <= cpus]
        self.elsewhere = len(within)
        placed = self._lose(
            Loss.EVENTS,
            "copies of no GPU and of no CPU",
            [record for record in found if not {record.src_agent_id.handle, record.dst_agent_id.handle} <= cpus],
            lambda each: not {each.src_agent_id.handle, each.dst_agent_id.handle} & self.gpus.keys(),
        )
        known = {agent.id.handle for agent in self.process.agents} | self.gpus.keys()
        self._lose(
            Loss.DETAILS,
            "ends of copies",
            placed,
            lambda each: not {each.src_agent_id.handle, each.dst_agent_id.handle} <= known,
        )
        if any(record.bytes is not None for record in placed):
            self._lose(Loss.DETAILS, "sizes of copies", placed, lambda record: record.bytes is None)
        for record in placed:
            source, target = record.src_agent_id.handle, record.dst_agent_id.handle
            name = self.process.name_of(record)[1] or "memory copy"
            apart = source != target if source in self.gpus and target in self.gpus else None
            what = classify(name, typed=Kind.MEMCPY, direction=copies.direction(name, apart=apart))
            agent = source if source in self.gpus else target
            rows.append(_Row(record, agent, name, f"copies {what.direction or ''}".rstrip(), record.bytes, what))
        return rows

    def _calls(self) -> list[Record]:
        """The calls of HIP's runtime by start; where there are none, those of HSA that started something."""
        hip = [
            record
            for record in self.records["hip_api"]
            if not self.process.name_of(record)[0].startswith("HIP_COMPILER")
        ]
        started = {row.record.call for row in self.rows} - {0}
        calls = hip or [record for record in self.records["hsa_api"] if record.call in started]
        return sorted(calls, key=lambda record: record.start_timestamp)

    @property
    def launched(self) -> int:
        """How many calls of HIP launched kernels and graphs, but for those that only recorded them into a graph and
        those whose work are copies."""
        names = [self.process.name_of(record)[1] for record in self.calls]
        start = np.array([record.start_timestamp for record in self.calls], np.int64)
        thread = np.array([record.thread_id for record in self.calls], np.int64)
        into_graph = recorded_into_graph(pd.Categorical(np.array(names, object)), start, thread).tolist()
        copied = {row.record.call for row in self.rows if row.classification.kind == Kind.MEMCPY} - {0}
        return sum(
            hip_launches(name) and not recorded and record.call not in copied
            for name, recorded, record in zip(names, into_graph, self.calls, strict=True)
        )

    def _count_agents(self) -> None:
        """Count what is damaged of the agents: the numbers of devices rest on it."""
        agents = self.process.agents
        if unlisted := len(_unlisted(self.process)):
            self.lost[Loss.DETAILS, "agents that ran kernels and are not listed"] = unlisted, unlisted + len(agents)
        self._lose(Loss.DETAILS, "agents of no type", agents, lambda agent: agent.type not in (_CPU, _GPU))
        ran = _ran(self.process)
        self._lose(
            Loss.DETAILS,
            "agents that ran kernels and are no GPUs",
            agents,
            lambda agent: agent.type == _CPU and agent.id.handle in ran,
        )
        handles = Counter(agent.id.handle for agent in agents)
        self._lose(
            Loss.DETAILS,
            "agents without a handle of their own",
            agents,
            lambda agent: agent.id.handle < 0 or handles[agent.id.handle] > 1,
        )
        nodes = Counter(agent.node_id for agent in agents)
        self._lose(
            Loss.DETAILS,
            "agents without a node of their own",
            agents,
            lambda agent: agent.node_id is None or nodes[agent.node_id] > 1,
        )

    def events(self, ops: dict[str, int], several: bool) -> pd.DataFrame:
        """The rows (EVENT_COLUMNS). `ops` numbers the operations of all processes, and is added to; with `several`
        processes a lane, which counts in one of them, has its process."""
        call = self._call_of_rows()
        launching = [None if at < 0 else self.calls[at] for at in call.tolist()]
        ids = [(record or row.record).call for record, row in zip(launching, self.rows, strict=True)]
        around = self._around(self.records["marker_api"], launching)
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

    def _times(self, records: Sequence[Record]) -> dict[str, Integers]:
        start, end = (
            np.array([getattr(record, f"{side}_timestamp") - self.times.first for record in records], np.int64)
            * _PS_PER_NS
            for side in ("start", "end")
        )
        return {"start_ps": start, "end_ps": end}

    def _call_of_rows(self) -> Integers:
        """The place in `calls` of the call that started each row, -1 for none: that with its id; where a call of HSA
        has it, which HIP made, the call of HIP around that one."""
        place = {record.call: at for at, record in enumerate(self.calls) if record.call}
        inner = [record for record in self.records["hsa_api"] if record.call not in place]
        outer = self._places_around(self.calls, inner)
        of_inner = zip((record.call for record in inner), outer.tolist(), strict=True)
        place |= {number: at for number, at in of_inner if at >= 0}
        return np.array([place.get(row.record.call, -1) for row in self.rows], np.int64)

    def _places_around(self, ranges: Sequence[Record], moments: Sequence[Record]) -> Integers:
        """The place in `ranges` of the innermost around the start of each of `moments` on its thread, -1 for none."""
        inside, around = self._times(moments), self._times(ranges)
        threads = [np.array([record.thread_id for record in each], np.int64) for each in (moments, ranges)]
        return nested.innermost(inside["start_ps"], threads[0], around["start_ps"], around["end_ps"], threads[1])

    def _around(self, ranges: Sequence[Record], calls: Sequence[Record | None]) -> list[Record | None]:
        """The innermost of `ranges` around each of `calls`, None for none."""
        found = iter(self._places_around(ranges, [call for call in calls if call]).tolist())
        places = [next(found) if call else -1 for call in calls]
        return [ranges[place] if place >= 0 else None for place in places]

    def _collectives(self, launching: Sequence[Record | None]) -> list[str | None]:
        """What each row that is a collective does, by its own name, else by the call of RCCL around its launch."""
        around = self._around(self.records["rccl_api"], launching)
        return [
            operation(row.name) or (operation(self.process.name_of(call)[1]) if call else None)
            if row.classification.kind == Kind.COLLECTIVE
            else None
            for row, call in zip(self.rows, around, strict=True)
        ]

    def launches(self) -> pd.DataFrame:
        """The host's calls (LAUNCH_COLUMNS)."""
        numbers = [record.call + self.offset for record in self.calls]
        names = [self.process.name_of(record)[1] or "HIP call" for record in self.calls]
        return frame(LAUNCH_COLUMNS, {**self._on_threads(self.calls, names), "correlation_id": numbers})

    def _on_threads(self, records: Sequence[Record], names: list[str]) -> dict[str, Any]:
        return {
            "host": constant(self.host, len(records)),
            "process": constant(self.label, len(records)),
            "thread": [f"thread {record.thread_id}" for record in records],
            "name": names,
            **self._times(records),
        }

    def _span_name(self, record: Record) -> str:
        return self.messages.get(record.call) or self.process.name_of(record)[1] or "roctx"

    @cached_property
    def messages(self) -> dict[int, str]:
        """What the program called its markers, by the ids of their records."""
        return {message.key: message.value for message in self.process.strings.marker_api}

    def spans(self) -> pd.DataFrame:
        """The ranges of roctx (SPAN_COLUMNS); calls that pause the profiler or name a thread are none."""
        records = [
            record for record in self.records["marker_api"] if self.process.name_of(record)[0].startswith("MARKER_CORE")
        ]
        names = [self._span_name(record) for record in records]
        return frame(SPAN_COLUMNS, self._on_threads(records, names))


def gpus(process: Process) -> dict[int, str]:
    """The name of each GPU by the handle of its agent: they count by the number of their node, as HIP counts them, then
    those that ran kernels and are not listed, by their handles. What ran a kernel is a GPU, whatever its type."""
    ran = _ran(process)
    listed = [agent for agent in process.agents if agent.id.handle >= 0]
    agents = [agent for agent in listed if agent.type == _GPU or agent.id.handle in ran]
    if all(agent.node_id is not None for agent in agents):
        agents.sort(key=lambda agent: agent.node_id or 0)
    handles = dict.fromkeys([*(agent.id.handle for agent in agents), *_unlisted(process)])
    return {handle: f"gpu:{number}" for number, handle in enumerate(handles)}


def _ran(process: Process) -> set[int]:
    """The handles of the agents that ran kernels."""
    return {record.dispatch_info.agent_id.handle for record in process.kernels} - {-1}


def _unlisted(process: Process) -> list[int]:
    """The handles of the agents that ran kernels, and that the file does not list."""
    return sorted(_ran(process) - {agent.id.handle for agent in process.agents})


def _syncs(calls: pd.DataFrame, only: str | None) -> pd.DataFrame:
    """The calls that wait (SYNC_COLUMNS). The file does not say for what, so that is known only if no more than one
    device worked: then it is `only`."""
    waits = calls["name"].map(lambda name: sync_call(name) not in (None, SyncCall.STREAM_WAIT)).to_numpy(bool)
    rows = calls[waits]
    same = {str(name): rows[name].array for name in rows if name != "correlation_id"}
    known = {} if only is None else {"on_device": constant(only, len(rows)), "recorded_ps": rows["start_ps"].to_numpy()}
    return frame(SYNC_COLUMNS, {**same, **known})


def _devices(parts: Sequence["_Part"], host: str, worked: set[str]) -> pd.DataFrame:
    """One row of DEVICE_COLUMNS for each GPU that worked."""
    facts = {
        part.gpus[agent.id.handle]: agent
        for part in parts
        for agent in part.process.agents
        if part.gpus.get(agent.id.handle) in worked
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


def _lost(parts: Sequence[_Part]) -> list[Lost]:
    """What all processes lost."""
    total: dict[tuple[Loss, str], tuple[int, int]] = {}
    for part in parts:
        for what, (count, of) in part.lost.items():
            before, of_before = total.get(what, (0, 0))
            total[what] = before + count, of_before + of
    return [Lost(what, count, of, evidence) for (what, evidence), (count, of) in total.items()]


def _unrecorded(parts: Sequence[_Part], lost: Sequence[Lost]) -> list[Lost]:
    """The kernels of the processes of which the file holds none, though HIP launched some: what is told of their GPUs
    would be wrong without them. Without a launch nothing shows that any ran, and nothing is lost; nor is anything more
    where what is `lost` counts them."""
    launched = [0 if part.process.kernels else part.launched for part in parts]
    if not any(launched) or any(each.evidence == UNHELD.format("kernel_dispatch") for each in lost):
        return []
    total = sum(len(part.process.kernels) for part in parts) + sum(launched)
    return [Lost(Loss.EVENTS, sum(launched), total, "kernels that HIP launched; only --kernel-trace records any")]


def _notes(parts: Sequence[_Part], events: pd.DataFrame, ends_early: bool) -> list[str]:
    """Notes on what is no row, and on what was not recorded, which nobody knows of a file that ends early."""
    notes = []
    if elsewhere := sum(part.elsewhere for part in parts):
        were = "was" if elsewhere == 1 else "were"
        notes.append(f"{quantity(elsewhere, 'copy', 'copies')} within the host's memory {were} skipped.")
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
    if ends_early:
        return notes
    if not len(events):
        notes.append("rocprofv3 recorded no kernels and no copies: --kernel-trace and --memory-copy-trace record them.")
    elif not any(part.process.kernels for part in parts):
        notes.append("No kernels were recorded: --kernel-trace records them, if there were any.")
    elif not any(part.process.buffer_records.memory_copy for part in parts):
        notes.append(
            "No copies of the copy engines were recorded, only those that are kernels: --memory-copy-trace records "
            "them, if there were any."
        )
    if len(events) and not any(part.process.buffer_records.hip_api for part in parts):
        notes.append("No calls of HIP were recorded, which start the work: --hip-trace records them.")
    return notes
