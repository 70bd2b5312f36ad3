"""What stands in a JSON file of rocprofv3, and what of a damaged one can be read.

The file holds one process, or a list of them: agents (CPUs and GPUs by a handle), kernel symbols, names by the numbers
of kind and operation, and the records of each kind of tracing. Source of the format: of rocprofiler-sdk, 2024 to 2025,
source/lib/output/generateJSON.cpp, source/lib/rocprofiler-sdk-tool before that, and
include/rocprofiler-sdk/cxx/serialization. An older name of a key stands beside the newer one.
"""

import re
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import msgspec

from tracekit.errors import TraceError
from tracekit.files import opened
from tracekit.readers import json_repair, unpacking
from tracekit.readers.content import Content
from tracekit.readers.losses import Lost
from tracekit.readers.stretches import Stretches, empty
from tracekit.vocabulary.losses import Loss

SUFFIXES = (".json", ".json.gz")
# Of so many processes of one machine none has a file together. Each has tables of its own.
_MOST_PROCESSES = 1000
_KEY = re.compile(rb'[{,]\s*"rocprofiler-sdk-tool"\s*:')
_OF_RECORDS = b'"start_timestamp"'
_PIECE_BYTES = 1 << 20
# What is left out of a file is more than the record that is damaged where it is so long, and as long as so many.
_LONG_BYTES, _OFTEN = 1024, 8
_CLONE = re.compile(r"( \[clone \.kd\]|\.kd)$")
PROCESS_BITS = 40  # ids of correlation count the calls of one process

Integer = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Handle(msgspec.Struct, frozen=True, gc=False):
    """The number of an agent or a queue, of 64 bits; -1 where there is none."""

    handle: int = -1

    def __post_init__(self) -> None:
        if self.handle < 0 or self.handle >> 64:
            msgspec.structs.force_setattr(self, "handle", -1)


class Correlation(msgspec.Struct, frozen=True, gc=False):
    """The number of a call, among those of its process; 0 where there is none."""

    internal: int = 0


class Record(msgspec.Struct, gc=False):
    """What all records have: what it is of, which call it belongs to, when it was, and on which thread."""

    kind: int = -1
    operation: int = -1
    correlation_id: Correlation = Correlation()
    start_timestamp: Integer = 0
    end_timestamp: Integer = 0
    thread_id: Integer = -1

    @property
    def call(self) -> int:
        """The number of its call; 0 for none, and for one to which no profiler counts."""
        number = self.correlation_id.internal
        return number if 0 < number < 1 << PROCESS_BITS else 0


class Dispatch(msgspec.Struct, frozen=True, gc=False):
    """Where a kernel ran, and which it was; `dispatch_id` is another for each, where the file has any."""

    agent_id: Handle = Handle()
    queue_id: Handle = Handle()
    kernel_id: int = -1
    dispatch_id: int = -1


class Kernel(Record, gc=False):
    """The dispatch of a kernel."""

    dispatch_info: Dispatch = Dispatch()


class Copy(Record, gc=False):
    """A copy, from one agent to another."""

    src_agent_id: Handle = Handle()
    dst_agent_id: Handle = Handle()
    bytes: Integer | None = None


class Counted(msgspec.Struct):
    """The dispatch of a kernel whose counters were collected."""

    thread_id: int = 0
    dispatch_data: Kernel = msgspec.field(default_factory=Kernel)


class BufferRecords(msgspec.Struct):
    """The records, by what traced them."""

    kernel_dispatch: list[Kernel] = []
    memory_copy: list[Copy] = []
    hip_api: list[Record] = []
    hsa_api: list[Record] = []
    marker_api: list[Record] = []
    rccl_api: list[Record] = []


class CallbackRecords(msgspec.Struct):
    """The records of counters."""

    counter_collection: list[Counted] = []


class Bank(msgspec.Struct):
    """A memory of an agent."""

    heap_type: int = 0
    size_in_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 50)] = 0


class Agent(msgspec.Struct):
    """A CPU or a GPU."""

    id: Handle
    type: int = 0
    node_id: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)] | None = None
    name: str = ""
    product_name: str = ""
    mem_banks: list[Bank] = []


class Symbol(msgspec.Struct):
    """A kernel, as its code object has it."""

    kernel_id: int = -1
    kernel_name: str = ""
    formatted_kernel_name: str = ""
    demangled_kernel_name: str = ""

    @property
    def name(self) -> str:
        """What people call the kernel, without the mark of its descriptor."""
        return _CLONE.sub("", self.demangled_kernel_name or self.formatted_kernel_name or self.kernel_name)


class Names(msgspec.Struct):
    """The name of a kind of records, and those of its operations."""

    kind: str = ""
    operations: list[str] = []


class Message(msgspec.Struct):
    """What the program called a marker, by the id of its record."""

    key: int
    value: str


class Strings(msgspec.Struct):
    """Names that records have by number."""

    buffer_records: list[Names] = []
    marker_api: list[Message] = []


class Node(msgspec.Struct):
    """The machine."""

    hostname: str = ""


class Metadata(msgspec.Struct):
    """Which process it was, on which machine, and from when to when it was recorded; 0 where that is not told."""

    pid: int = 0
    init_time: Integer = 0
    fini_time: Integer = 0
    node: Node = msgspec.field(default_factory=Node)


class Statistics(msgspec.Struct):
    """How many records there were of one kind of tracing."""

    count: Annotated[int, msgspec.Meta(ge=0, le=1 << 48)] = 0


class Domain(msgspec.Struct):
    """What `--stats` counted of one kind of tracing."""

    domain: str = ""
    stats: Statistics = msgspec.field(default_factory=Statistics)


class Process(msgspec.Struct):
    """What the file holds of one process."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    agents: list[Agent] = []
    strings: Strings = msgspec.field(default_factory=Strings)
    kernel_symbols: list[Symbol] = []
    summary: list[Domain] = []
    buffer_records: BufferRecords = msgspec.field(default_factory=BufferRecords)
    callback_records: CallbackRecords = msgspec.field(default_factory=CallbackRecords)

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels; where only counters were collected, those of which they were."""
        counted = self.callback_records.counter_collection
        return self.buffer_records.kernel_dispatch or [each.dispatch_data for each in counted]

    @property
    def lists(self) -> dict[str, Sequence[Record]]:
        """The records of what the process did, by the list in which they stand."""
        names = BufferRecords.__struct_fields__
        return {name: getattr(self.buffer_records, name) for name in names} | {"kernel_dispatch": self.kernels}

    def name_of(self, record: Record) -> tuple[str, str]:
        """What a record is of, as `HIP_RUNTIME_API` and `hipLaunchKernel`; "" for what the file does not name."""
        names = self.strings.buffer_records
        kind = names[record.kind] if 0 <= record.kind < len(names) else Names()
        known = 0 <= record.operation < len(kind.operations)
        return kind.kind, kind.operations[record.operation] if known else ""


class _Document(msgspec.Struct):
    processes: list[Process] | Process = msgspec.field(name="rocprofiler-sdk-tool")


# The keys of the lists of records, and of what these need, with how often each stands in one process at most: other
# lists of strings and of callbacks have some of these names too.
_KEYS = {name: 2 if name == "marker_api" else 1 for name in BufferRecords.__struct_fields__} | {
    "rocprofiler-sdk-tool": 1,
    "buffer_records": 2,
    "callback_records": 2,
    "kernel_symbols": 1,
    "agents": 1,
}
_TOKEN = re.compile(rb'[{}]|"((?:[^"\\]|\\.)*)"(\s*:)?')
# What the summary calls the records of a list (get_domain_column_name in domain_type.cpp).
UNHELD = "records of {} that the summary counts"
_DOMAINS = {name: name.upper() for name in BufferRecords.__struct_fields__}
# The lists whose entries are events; those of others are details of them.
_OF_EVENTS = frozenset((*BufferRecords.__struct_fields__, *CallbackRecords.__struct_fields__))


def is_trace(content: Content, sure: bool) -> bool:
    """Whether a file is JSON of rocprofv3."""
    return content.is_json and _KEY.search(content.text) is not None


def processes(path: Path) -> tuple[list[Process], list[Lost]]:
    """What the file at `path` holds, one for each process, and what of it is lost. Raises TraceError if it cannot be
    read, or nothing of it is laid out as rocprofv3 does."""
    found, lost = _all(path)
    worked = [process for process in found if any(process.lists.values())] or found[:1]
    once = _once(worked)
    if again := len(worked) - len(once):
        evidence = "processes that stand in the file twice, of which one counts"
        lost.append(Lost(Loss.DETAILS, again, len(worked), evidence))
    worked = once
    if (behind := len(worked) - _MOST_PROCESSES) > 0:
        lost.append(Lost(Loss.TABLES, behind, len(worked), f"processes behind the first {_MOST_PROCESSES:,}"))
    return worked[:_MOST_PROCESSES], lost


def _once(found: Sequence[Process]) -> list[Process]:
    """The processes without those that hold what the first of their number and machine, with as many records, does."""
    first: dict[tuple[object, ...], Process] = {}
    once = []
    for process in found:
        about, lists = process.metadata, process.lists.values()
        starts = [(len(records), records[0].start_timestamp) for records in lists if records]
        other = first.setdefault((about.pid, about.node.hostname, *starts), process)
        if other is process or other != process:
            once.append(process)
    return once


def _all(path: Path) -> tuple[list[Process], list[Lost]]:
    text, cut = _text(path)
    stretches = Stretches(_OF_RECORDS)
    for begin in range(0, len(text), _PIECE_BYTES):
        stretches.see(text[begin : begin + _PIECE_BYTES])
    for attempt in (text, text.decode("utf-8", "replace").encode()):  # names of kernels may hold any bytes
        try:
            document = msgspec.json.decode(attempt, type=_Document).processes
            each = document if isinstance(document, list) else [document]
            lost = [*_cut(cut), *_several(attempt, len(each)), *stretches.lost(_count(each))]
            return each, [*lost, *_fewer(each, Counter())]
        except json_repair.BROKEN:
            text = attempt
    repaired, why = json_repair.whole(text)
    lost = _cut(cut or (why if why == json_repair.ENDS_EARLY else ""))
    if why and not lost:  # of a text with an end it is known how much is not read
        lost.append(Lost(Loss.BYTES, max(len(text) - len(repaired), 1), len(text), why))
    left_out = 0 if lost else len(text) - len(repaired) - empty(text)
    if repaired != text and not (lost or stretches.runs or stretches.zeros):
        lost.append(Lost(Loss.DETAILS, None, None, "not valid JSON, which was repaired"))
    salvage = _Salvage()
    ends = f": {cut or why}" if cut or why else ""
    not_whole = TraceError(
        f"{path} is no whole JSON of rocprofv3{ends}. Copy it again, or record again and let the program end by itself."
    )
    try:
        tool = msgspec.json.decode(repaired, type=dict[str, msgspec.Raw])["rocprofiler-sdk-tool"]
    except (KeyError, *json_repair.BROKEN):
        raise not_whole from None
    is_list = bytes(tool).lstrip().startswith(b"[")
    found = salvage.value(tool, list[Process] if is_list else Process, "processes")
    each = [] if found is _NOTHING else found if is_list else [found]
    has_work = any(process.kernels or process.buffer_records.memory_copy for process in each)
    if not each and ends:
        raise not_whole
    if not each or (salvage.tables and not has_work):
        wrong = f" ({', '.join(sorted(salvage.tables))})" if salvage.tables else ""
        raise TraceError(
            f"{path} is laid out as no version of rocprofv3 that tracekit knows{wrong}. Please report it, with the "
            "file if it may be shared."
        )
    records = _count(each)
    is_long = left_out >= max(_LONG_BYTES, _OFTEN * stretches.mean(records))
    lost += [*_several(repaired, len(each)), *stretches.lost(records, left_out if is_long else 0)]
    return each, [*lost, *salvage.lost(), *_fewer(each, salvage.entries)]


def _count(found: Sequence[Process]) -> int:
    """How many records processes hold."""
    return sum(len(records) for process in found for records in process.lists.values())


def _fewer(found: Sequence[Process], told: Counter[str]) -> list[Lost]:
    """The records that the summaries of processes count and that their lists do not hold, but for those `told` lost."""
    lost = []
    for name, domain in _DOMAINS.items():
        counts = [sum(each.stats.count for each in process.summary if each.domain == domain) for process in found]
        fewer = [
            max(count - len(getattr(process.buffer_records, name)), 0)
            for count, process in zip(counts, found, strict=True)
        ]
        if (missing := sum(fewer) - told[name]) > 0:
            lost.append(Lost(Loss.EVENTS, missing, sum(counts), UNHELD.format(name)))
    return lost


def _several(text: bytes, processes: int) -> list[Lost]:
    """The lists of records that stand in one object several times under one key, of which the last was read."""
    if all(text.count(f'"{key}"'.encode()) <= most * max(processes, 1) for key, most in _KEYS.items()):
        return []
    several, around = Counter[str](), list[set[bytes]]()
    for token in _TOKEN.finditer(text):
        if token[0] == b"{":
            around.append(set())
        elif token[0] == b"}":
            del around[-1:]
        elif token[2] and around:
            key = token[1].decode("utf-8", "replace")
            if key in _KEYS and token[1] in around[-1]:
                several[key] += 1
            around[-1].add(token[1])
    return [Lost(Loss.TABLES, count, None, f"{key} stands in it several times") for key, count in several.items()]


def _cut(why: str) -> list[Lost]:
    return [Lost(Loss.BYTES, None, None, why)] if why else []


def _text(path: Path) -> tuple[bytes, str]:
    """The unpacked text of a file, and how it ends too early, "" if it does not."""
    cut, parts = "", list[bytes]()
    try:
        with opened(path) as file:
            packed = file.read(2) == unpacking.GZIP
            file.seek(0)
            try:
                parts += unpacking.gunzipped(file, path) if packed else [file.read()]
            except (EOFError, zlib.error):
                cut = "its compressed stream ends early"
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}.") from None
    return b"".join(parts).removeprefix(b"\xef\xbb\xbf"), cut


_NOTHING: Any = object()
# What a process always has, so that null stands in the place of it; its lists of records are empty where nothing was
# recorded.
_NEVER_NULL = (Metadata, Node, Strings, BufferRecords, list[Kernel], list[Copy], list[Record])


class _Salvage:
    """Values read from JSON one by one, as far as they are of the type that is wanted.

    `values`: how many single ones are not, by the list in which they stand; `entries`: of lists, how many are not;
    `tables`: which lists are none.
    """

    def __init__(self) -> None:
        self.values: Counter[str] = Counter()
        self.entries: Counter[str] = Counter()
        self.tables: set[str] = set()

    def value(self, raw: msgspec.Raw, kind: Any, where: str) -> Any:
        """What stands at `where`, _NOTHING if it is null or of another type. Numbers in quotes are numbers."""
        try:
            return msgspec.json.decode(raw, type=kind, strict=False)
        except json_repair.BROKEN:
            if bytes(raw).strip() == b"null" and kind not in _NEVER_NULL:
                return _NOTHING
        if get_origin(kind) is list:
            return self._list(raw, get_args(kind)[0], where)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self._struct(raw, kind, where)
        self.values[where] += 1
        return _NOTHING

    def _list(self, raw: msgspec.Raw, kind: Any, where: str) -> Any:
        try:
            entries = msgspec.json.decode(raw, type=list[msgspec.Raw])
        except json_repair.BROKEN:
            self.tables.add(where)
            return _NOTHING
        found = [self.value(entry, kind, where) for entry in entries]
        if kind is str:  # where places count
            return ["" if each is _NOTHING else each for each in found]
        self.entries[where] += found.count(_NOTHING)
        return [each for each in found if each is not _NOTHING]

    def _struct(self, raw: msgspec.Raw, kind: type[msgspec.Struct], where: str) -> Any:
        try:
            values = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        except json_repair.BROKEN:
            if kind is BufferRecords:
                self.tables.add("buffer_records")
            else:
                self.values[where] += 1
            return _NOTHING
        fields = {}
        for field in msgspec.structs.fields(kind):
            if field.encode_name in values:
                is_list = get_origin(field.type) is list
                found = self.value(values[field.encode_name], field.type, field.encode_name if is_list else where)
                if found is not _NOTHING:
                    fields[field.name] = found
        try:
            return kind(**fields)
        except TypeError:  # one that it cannot be without
            return _NOTHING

    def lost(self) -> list[Lost]:
        """What was of another type."""
        lost = [Lost(Loss.TABLES, 1, None, f"{where} is none") for where in sorted(self.tables)]
        for where, count in sorted(self.entries.items()):
            if count:
                what = Loss.EVENTS if where in _OF_EVENTS else Loss.DETAILS
                lost.append(Lost(what, count, None, f"entries of {where} that are none"))
        lost += [
            Lost(Loss.DETAILS, count, None, f"values of another type in {where}")
            for where, count in sorted(self.values.items())
        ]
        return lost
