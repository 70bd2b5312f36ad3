"""nsys-jax: the archive that NVIDIA's JAX-Toolbox makes of a run under Nsight Systems, read as it is, or unpacked.

It holds no kernels but XLA's NVTX ranges projected onto the GPU: of each thunk (`TSL:Thunk:#hlo_op=…#` inside
`TSL:XlaModule:#hlo_module=…,program_id=…#`) from the first start to the last end of what it launched. A thunk around
others is none. What each is, the HLO of the program tells (`dump/module_0040.….hlo.pb.xz`), where it was dumped. Which
device a thread drives, its name tells (`XlaLauncher:#global=…#`); that of a process with one GPU has no such name.
Sources: nsys_jax/data_loaders.py and scripts/nsys_jax.py of JAX-Toolbox, 2024 to 2026; newer versions of Nsight Systems
write other column names.
"""

import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from tracekit import heap
from tracekit import intervals as iv
from tracekit.columns import by_label, categorical, constant, distinct, frame, labels, text_dtype
from tracekit.devices import unknown
from tracekit.errors import TraceError
from tracekit.readers import losses, unpacking
from tracekit.readers.content import Content
from tracekit.readers.hlo.costs import Costs, OpFacts
from tracekit.readers.hlo.hlo_proto import DAMAGED, Program
from tracekit.readers.hlo.instruction import Op
from tracekit.readers.losses import Lost
from tracekit.readers.parquet_table import ParquetTable
from tracekit.trace import (
    DEVICE_COLUMNS,
    EVENT_COLUMNS,
    HOST_COLUMNS,
    LAUNCH_COLUMNS,
    OP_COLUMNS,
    SPAN_COLUMNS,
    Trace,
)
from tracekit.units import quantity
from tracekit.vocabulary import kinds
from tracekit.vocabulary.collectives import operation
from tracekit.vocabulary.host_calls import Activity, activity_of, step_number
from tracekit.vocabulary.kinds import Classification, Kind, KnownBy
from tracekit.vocabulary.losses import Loss
from tracekit.vocabulary.ranks import xla_device

SUFFIXES = (".zip",)
FOLDER = "nvtx_gpu_proj_trace"
_TRACE, _THREADS, _DEVICES = f"{FOLDER}/trace.parquet", "thread-metadata.parquet", "device-metadata.parquet"
_PLACE = re.compile(rf"(?P<folder>(?:.*/)?){re.escape(_TRACE)}(?P<part>/.*)?")
_PS_PER_NS = 1000
_DEEPEST = 1000  # ranges of NVTX are not nested deeper than the calls of a program
# From the first place alone, or the time that a name takes grows with the square of its length.
_THUNK = re.compile(r"\A(?>.*?Thunk:#).*\bhlo_op=([^,#]+)")
_ANY_THUNK = re.compile("(Thunk:#)")
_MODULE = re.compile(r"\A(?>.*?XlaModule:#).*\bhlo_module=([^,#]+)(?:,program_id=(\d{1,18})(?!\d))?")
_PROTO = re.compile(r"(?:^|/)dump/module_(\d{1,19})\.[^/]*after_optimizations\.hlo\.pb(?:\.xz)?$")
# What the columns are called in versions of Nsight Systems since 2024.5.
_NEWER = {
    "Text": "Name",
    "Start": "Projected Start",
    "Range ID": "RangeId",
    "Parent ID": "ParentId",
}
_NEEDED = ("Name", "Projected Start", "Projected Duration", "PID", "TID", "RangeId", "ParentId")
_START, _LENGTH, _IDS = "Projected Start", "Projected Duration", ("PID", "TID")
_TIMES = (_START, _LENGTH, "Orig Start", "Orig Duration")
_LEVEL = "Lvl"  # in how many others a range lies
_READ = [*_NEEDED, *_NEWER.values(), *_NEWER, *_TIMES, "End", _LEVEL]
# Past all numbers of processes and threads, and of bytes of a machine's memory or moved in a second.
_PAST_IDS, _PAST_SIZES = 1 << 32, 1 << 53
_FURTHEST_NS = 2**61 // _PS_PER_NS
# What a damaged member raises. RuntimeError: it is encrypted, or packed in a way that Python does not know.
_OF_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError, KeyError),
    pa.ArrowException,
)
_NO_FACTS = OpFacts()
# Of 600,000 different names Arrow keeps 100 MB of what unpacking them took, and again of what made columns of them.
_MANY = 1 << 16
# Of a range what is known of the host's side.
_ON_HOST = ["Name", *_IDS, "Orig Start", "Orig Duration"]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class _Files:
    """The names of an archive's files, what gives the bytes of one, how many bytes all take, packed, and its tables;
    `several` are the names that stand for files which differ, of which the last is read."""

    names: Sequence[str]
    data: Callable[[str], bytes]
    packed: int
    tables: unpacking.ParquetFiles
    several: Sequence[str]


def is_archive(content: Content, sure: bool) -> bool:
    """Whether a file is a zip archive that holds the table of projected ranges, or that table of an unpacked one, which
    stands for all."""
    if content.head.startswith(b"PAR1"):
        return content.path.parts[-2:] == tuple(_TRACE.split("/"))
    if not content.is_zip:
        return False
    try:
        with zipfile.ZipFile(content.path) as archive:
            return any(map(_PLACE.fullmatch, archive.namelist()))
    except (zipfile.BadZipFile, OSError):
        return False


def needed(path: Path) -> list[Path]:
    """The files that are read of the unpacked archive of `path`, its table of ranges; of a packed one, itself."""
    if path.name != Path(_TRACE).name:
        return [path]
    root = path.parents[1]
    dumps = [file for file in sorted(root.glob("dump/*")) if _PROTO.search(file.relative_to(root).as_posix())]
    return [file for file in (path, root / _THREADS, root / _DEVICES, *dumps) if file.is_file()]


@contextmanager
def _opened(path: Path) -> Iterator[_Files]:
    if path.name == Path(_TRACE).name:
        root = path.absolute().parents[1]
        names = [file.relative_to(root).as_posix() for file in needed(path.absolute())]
        packed = sum((root / name).stat().st_size for name in names)
        yield _Files(names, lambda name: (root / name).read_bytes(), packed, unpacking.ParquetFiles(packed), [])
        return
    with unpacking.opened_zip(path) as archive:
        packed = unpacking.size_of(path)
        contents = {(member.filename, member.CRC, member.file_size) for member in archive.infolist()}
        counts = Counter(name for name, _, _ in contents)
        several = sorted(name for name, count in counts.items() if count > 1)
        yield _Files(archive.namelist(), archive.read, packed, unpacking.ParquetFiles(packed), several)


def read(path: Path) -> Trace:
    """The trace of the process in one archive, or in an unpacked one, of which `path` is the table of ranges.

    Devices are `gpu:N` by JAX's number of the device, the host is `processN`. Rows are thunks, and the host's ranges in
    which they were launched are their launches; ids are those of the ranges. Raises TraceError if the archive or its
    tables cannot be read, and of an archive of several processes.
    """
    try:
        with _opened(path) as files:
            places = [*filter(None, map(_PLACE.fullmatch, files.names))]
            if parts := [place for place in places if place["part"] not in (None, "/")]:
                raise TraceError(
                    f"{path} joins {len(parts)} processes (nsys-jax-combine), whose clocks are not compared. Give the "
                    "directory of the archives that it was made of."
                )
            # Who packed it again put a folder around all.
            folders = {place["folder"] or "" for place in places if place["part"] is None}
            if len(folders) > 1:
                raise TraceError(
                    f"{path} holds the archives of {len(folders)} processes, in folders of their own. Unpack it, and "
                    "give that directory."
                )
            return _Process(path, files, *folders).trace()
    except _OF_DAMAGE as error:
        raise TraceError(
            f"{path} is no whole archive of nsys-jax: {_reason(error)}. Copy it again, in binary mode, or give its "
            "report, exported with `nsys export --type sqlite`."
        ) from None


def _reason(error: Exception) -> str:
    return re.split(r"\s*\n|\. ", str(error).strip())[0].rstrip(".") or type(error).__name__


class _Protos:
    """The programs of an archive, by the numbers of their modules, each read when it is first asked for."""

    def __init__(self, files: _Files) -> None:
        self.files = files
        self.names = {int(match[1]): name for name in files.names if (match := _PROTO.search(name))}
        self.damaged: dict[int, str] = {}
        self._left = unpacking.most_bytes(files.packed)
        self._read: dict[int, tuple[Program, Costs]] = {}

    def of(self, number: int) -> tuple[Program, Costs]:
        """The program with a number and what its ops cost; an empty one where it was not dumped, or is damaged."""
        if number not in self._read:
            program = Program(b"")
            if number in self.names:
                try:
                    program = self._program(self.names[number])
                except (*DAMAGED, *_OF_DAMAGE):
                    self.damaged[number] = self.names[number]
            self._read[number] = program, Costs(program)
        return self._read[number]

    def _program(self, name: str) -> Program:
        data = self.files.data(name)
        if data.startswith(unpacking.XZ):
            data = unpacking.unxz(data, self._left)
            self._left -= len(data)
        program = Program(data)
        _ = program.devices
        if not program.places:  # as a full disk leaves it
            raise EOFError
        return program

    def op(self, number: int, name: str) -> tuple[Op | None, OpFacts]:
        """What the op `name` of a program does, None where that is not known, and what it costs."""
        program, costs = self.of(number)
        if not program.proto:
            return None, _NO_FACTS
        try:
            return program.op(name), costs.of(name)
        except DAMAGED:
            self.damaged[number] = self.names[number]
            return None, _NO_FACTS

    @property
    def lost(self) -> list[Lost]:
        """The programs that were found to be damaged."""
        if not self.damaged:
            return []
        return [Lost(Loss.PROGRAMS, len(self.damaged), len(self.names), next(iter(self.damaged.values())))]


class _Process:
    """The process of an archive, all of which is in its `folder`, a path that ends in / or ""."""

    def __init__(self, path: Path, files: _Files, folder: str) -> None:
        self.path = path
        self.protos = _Protos(files)
        of_several = [f"{name} stands in it several times" for name in files.several]
        self.lost = [Lost(Loss.TABLES, len(of_several), None, of_several[0])] if of_several else []
        self.ranges = _ranges(_table(files, folder + _TRACE, _READ), self.lost)
        if self.ranges.total > _MANY:
            heap.give_back()
        self.notes: list[str] = []
        if folder + _THREADS not in files.names:
            self.notes.append(f"The archive holds no {_THREADS}, which tells the devices that threads drive.")
        self.device_of_thread = self._devices_of_threads(self._optional(files, folder + _THREADS))
        self.facts = self._optional(files, folder + _DEVICES)
        # What XLA calls each of CUDA's devices.
        names = self._fact("TARGET_INFO_NVTX_CUDA_DEVICE", "name")
        self.cuda_devices = [None if pd.isna(name) else xla_device(name) for name in names]
        # Null where another of the tables that stand side by side is longer.
        odd = sum(device is None and not pd.isna(name) for device, name in zip(self.cuda_devices, names, strict=True))
        if any(self.cuda_devices) and odd:
            self.lost.append(Lost(Loss.DETAILS, odd, len(names), "XLA's names of CUDA's devices"))
        own = [device for device in (*self.device_of_thread.values(), *self.cuda_devices) if device]
        self.first_device, process = min(own, default=(0, None))
        self.may_drive_several = len({number for number, _ in own}) > 1
        own_name = path.name if path.suffix in SUFFIXES else path.absolute().parents[1].name
        self.host = own_name.removesuffix(".zip") if process is None else f"process{process}"

    def _optional(self, files: _Files, name: str) -> ParquetTable:
        """A table that holds no work; an empty one where it is not there, or is damaged, which is counted."""
        if name in files.names:
            try:
                return _table(files, name)
            except _OF_DAMAGE as error:
                self.lost.append(Lost(Loss.DETAILS, None, None, f"{name}: {_reason(error)}"))
        return ParquetTable(name, pa.table({}))

    def _devices_of_threads(self, threads: ParquetTable) -> dict[tuple[int, int], tuple[int, int] | None]:
        """(PID, TID) -> the device that XLA called the thread after, and its process; None of other threads."""
        for column in ("Name", *_IDS) if len(threads) else ():
            if column not in threads:
                self.lost.append(Lost(Loss.DETAILS, len(threads), len(threads), f"{threads.name} has no {column}"))
        names = threads.texts("Name", self.lost)
        pids, tids = (_within(threads, key, _PAST_IDS, self.lost) for key in _IDS)
        devices = map(xla_device, names.fillna(""))
        self.nameless = {(pid, tid) for name, pid, tid in zip(names.fillna(""), pids, tids, strict=True) if not name}
        return {(pid, tid): device for device, pid, tid in zip(devices, pids, tids, strict=True)}

    def _fact(self, table: str, column: str) -> list[Any]:
        """A column of the facts on the devices, which pandas calls by a pair."""
        name, is_text = str((table, column)), column == "name"
        if is_text:
            return [*self.facts.texts(name, self.lost)]
        return [*_within(self.facts, name, _PAST_SIZES, self.lost, least=0)]

    def trace(self) -> Trace:
        ranges, parent = self.ranges.table, self.ranges.parent
        names = ranges["Name"].array
        thunk = _texts_of(_THUNK, names)
        module = _texts_of(_MODULE, names)
        is_thunk = thunk.codes >= 0
        holds_thunks = self.ranges.holds_lost_thunks.copy()
        holds_thunks[parent[is_thunk & (parent >= 0)]] = True
        leaf = np.flatnonzero(is_thunk & ~holds_thunks)
        module_of = _nearest(parent, module.codes >= 0, leaf)
        # What the autotuner runs inside a compilation, to choose a kernel, is no execution of a program.
        is_tuning = _nearest(parent, by_label(names, lambda name: activity_of(name) is Activity.COMPILING), leaf) >= 0
        run_id = np.append(ranges.index.to_numpy(), 0)[module_of]
        rows = ranges.iloc[leaf].assign(
            hlo_op=thunk[leaf].remove_unused_categories(),
            run_id=pd.arrays.IntegerArray(run_id, (module_of < 0) | is_tuning),
            hlo_module=module.take(module_of, allow_fill=True).remove_unused_categories(),
            program=np.append(by_label(names, _number_of_program).astype(np.int64), -1)[module_of],
        )
        has_host = ranges["has host"].to_numpy(bool)
        starts = np.concatenate([ranges["Projected Start"], ranges["Orig Start"][has_host]])
        zero = int(starts.min()) if len(starts) else 0
        events, ops = self._events(rows, zero)
        notes = [*self.notes]
        if not len(rows) and len(ranges) == self.ranges.total:
            notes.append("The archive holds no thunks of XLA: nothing that XLA launched was recorded.")
        notes.append(
            "Rows are XLA's thunks, from the first start to the last end of what each launched: kernels are not in the "
            "archive."
        )
        launched = rows.loc[rows["has host"], _ON_HOST]
        host_ranges = ranges.loc[has_host & ~is_thunk, _ON_HOST]
        devices = [*map(str, events["device"].unique())]
        programs = [int(number) for number in rows["program"].unique()]
        sizes = [size for number in programs if (size := self.protos.of(number)[0].devices)]
        if undumped := {*programs} - {-1, *self.protos.names}:
            notes.append(
                f"The archive holds no HLO of {quantity(len(undumped), 'program')} that ran: what their thunks are is "
                "read from their names."
            )
        facts = self._device_facts(devices)
        lost = [*dict.fromkeys([*self.protos.lost, *self.lost])]
        return Trace(
            events=events,
            spans=frame(SPAN_COLUMNS, self._on_threads(host_ranges, zero)).assign(
                step=pd.array([step_number(name) for name in host_ranges["Name"]], "Int64")
            ),
            launches=frame(
                LAUNCH_COLUMNS, {**self._on_threads(launched, zero), "correlation_id": launched.index.to_numpy()}
            ),
            ops=ops,
            devices=facts,
            hosts=frame(
                HOST_COLUMNS,
                {"host": [self.host], "source": [str(self.path)], "world_size": [max(sizes, default=None)]},
            ),
            losses=losses.table(self.host, lost),
            notes=(*notes, *losses.notes(lost)),
            source=str(self.path),
            format="nsys-jax",
        )

    def _on_threads(self, ranges: pd.DataFrame, zero: int) -> dict[str, Any]:
        """The host's side of some ranges."""
        start = (ranges["Orig Start"].to_numpy(np.int64) - zero) * _PS_PER_NS
        return {
            "host": constant(self.host, len(ranges)),
            "process": _labels(ranges["PID"], "{}"),
            "thread": _labels(ranges["TID"], "thread {}", "thread ?"),
            "name": ranges["Name"].array.remove_unused_categories(),
            "start_ps": start,
            "end_ps": start + ranges["Orig Duration"].to_numpy(np.int64) * _PS_PER_NS,
        }

    def _events(self, rows: pd.DataFrame, zero: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The rows (EVENT_COLUMNS) and their operations (OP_COLUMNS)."""
        names, modules = rows["hlo_op"].array, rows["hlo_module"].array
        place, first = distinct(rows["program"].to_numpy(), modules.codes, names.codes)
        numbers, own_modules, own_names = rows["program"].to_numpy()[first], modules[first], names[first]
        known: list[Op | None] = []
        costs, what, category, is_unknown = [], [], [], []
        # Without an object for each: of an archive there may be as many ops as thunks.
        same: dict[Classification, Classification] = {}
        for number, module, name in zip(numbers.tolist(), own_modules, own_names, strict=True):
            op, cost = self.protos.op(number, name)
            opcode = op.category if op else None
            each = kinds.classify(name, opcode=opcode, typed=Kind.COMPUTE)
            known.append(op)
            costs.append(cost)
            what.append(same.setdefault(each, each))
            category.append(operation(name, opcode) if each.kind == Kind.COLLECTIVE else opcode)
            is_unknown.append(each.known_by is KnownBy.NOTHING and self._is_lost(number, module))
        if (of_unknown := np.array([*is_unknown, False])[place]).any():
            time_ps = rows[_LENGTH].to_numpy(np.int64) * _PS_PER_NS
            unknown_ps, all_ps = iv.sum_exactly(time_ps[of_unknown]), iv.sum_exactly(time_ps)
            self.lost.append(Lost(Loss.KINDS, unknown_ps, all_ps, "thunks whose HLO is lost"))
        is_collective = [each.kind == Kind.COLLECTIVE for each in what]
        messages = [op if shared else None for op, shared in zip(known, is_collective, strict=True)]
        program_of, of_own = distinct(numbers, own_modules.codes)
        programs = [
            f"{module}({number})" if number >= 0 else None if pd.isna(module) else module
            for number, module in zip(numbers[of_own].tolist(), own_modules[of_own], strict=True)
        ]
        ops = frame(
            OP_COLUMNS,
            {
                "program": categorical([*programs, None], program_of),
                "hlo_op": own_names,
                "opcode": [op.opcode if op else None for op in known],
                **{column: [getattr(cost, column) for cost in costs] for column in _OF_COSTS},
            },
        )
        start = (rows[_START].to_numpy(np.int64) - zero) * _PS_PER_NS
        is_shared = np.array([*is_collective, False])[place]
        events = frame(
            EVENT_COLUMNS,
            {
                "host": constant(self.host, len(rows)),
                "device": self._device_names(rows),
                "lane": categorical(["thunks", "collective thunks"], is_shared.astype(np.int64)),
                **kinds.columns(what, place),
                "name": names,
                "start_ps": start,
                "end_ps": start + rows[_LENGTH].to_numpy(np.int64) * _PS_PER_NS,
                "hlo_op": names,
                "hlo_module": modules,
                "category": categorical([*category, None], place),
                "bytes": pd.array([op.bytes if op else None for op in messages], "Int64").take(place),
                "ranks": categorical([*(op.ranks if op else None for op in messages), None], place),
                "correlation_id": rows.index.to_numpy(),
                "run_id": rows["run_id"].array,
                "op": place,
            },
        )
        return events, ops

    def _is_lost(self, number: int, module: Any) -> bool:
        """Whether the program of a thunk is damaged, or no range around it names one where there are programs."""
        return number in self.protos.damaged or (pd.isna(module) and bool(self.protos.names))

    def _device_names(self, rows: pd.DataFrame) -> "pd.Categorical[str]":
        """The device of each row, by the thread that launched it. Of threads that are not called after one, all is on
        the first; of those that nothing is known of, on an unknown one, if there may be several."""
        first, unlisted = f"gpu:{self.first_device}", unknown("gpu") if self.may_drive_several else ""
        name_of = {thread: f"gpu:{own[0]}" if own else first for thread, own in self.device_of_thread.items()}
        name_of |= dict.fromkeys(self.nameless, unlisted or first)
        thread_of, of_thread = distinct(*(rows[key].to_numpy(np.int64, na_value=0) for key in _IDS))
        counts = np.bincount(thread_of, minlength=len(of_thread))
        threads = [*rows.iloc[of_thread][[*_IDS]].itertuples(index=False, name=None)]
        names = [name_of.get(thread, unlisted or first) for thread in threads]
        if count := sum(int(count) for name, count in zip(names, counts, strict=True) if name == unlisted):
            evidence = f"devices of thunks, whose threads {_THREADS} does not tell"
            self.lost.append(Lost(Loss.EVENTS, count, len(rows), evidence))
        nameless = {thread for thread, own in self.device_of_thread.items() if own is None} - self.nameless
        count = sum(int(count) for thread, count in zip(threads, counts, strict=True) if thread in nameless)
        if self.may_drive_several and count:
            self.notes.append(
                f"{quantity(count, 'thunk')} launched by threads that are called after no device count as of {first}."
            )
        return pd.Series(names, dtype="str").astype("category").array[thread_of]

    def _device_facts(self, devices: Sequence[str]) -> pd.DataFrame:
        """What the archive tells of each device that worked (DEVICE_COLUMNS)."""
        place = {f"gpu:{device[0]}": at for at, device in enumerate(self.cuda_devices) if device}

        def fact(device: str, column: str) -> Any:
            value = facts[column][place[device]] if device in place else None
            return None if pd.isna(value) or not value else value  # 0 and "" are of what CUDA does not tell

        facts = {name: self._fact("TARGET_INFO_GPU", name) for name in ("name", "totalMemory", "memoryBandwidth")}
        return frame(
            DEVICE_COLUMNS,
            {
                "host": constant(self.host, len(devices)),
                "device": list(devices),
                "model": [fact(device, "name") for device in devices],
                "memory_bytes": [fact(device, "totalMemory") for device in devices],
                "memory_bandwidth_bytes_per_s": [fact(device, "memoryBandwidth") for device in devices],
            },
        )


_OF_COSTS = ("source", "framework_op", "flops", "bytes_accessed")


def _table(files: _Files, name: str, columns: list[str] | None = None) -> ParquetTable:
    """A table of an archive, or of it those of some columns that it has."""
    with files.tables.opened(files.data(name)) as file:
        table = ParquetTable(name, file.read(columns, use_threads=False))
    if len(table) > _MANY:
        heap.give_back()
    return table


@dataclass(frozen=True)
class _Ranges:
    """The ranges of a process that can be read, by their ids.

    `table`: with the column names of 2024 and the domain before each name, ns; those without a start and duration on
    the host have no "has host". `parent`: the place of the range around each, -1 where there is none.
    `holds_lost_thunks`: which are around thunks that were lost. `total`: how many ranges there were.
    """

    table: pd.DataFrame
    parent: Integers
    holds_lost_thunks: NDArray[np.bool_]
    total: int


def _ranges(table: ParquetTable, lost: list[Lost]) -> _Ranges:
    """The ranges of a table; those that cannot be told or placed are counted as lost, and so is what others lack.
    Raises ValueError if the table lacks a column, or if there are ranges, and none can be read."""
    rows = _columns(table, lost)
    has_name, has_id = (rows[name].notna().to_numpy(bool) for name in ("Name", "RangeId"))
    # What was launched outside of all ranges has a row without name and id.
    names = rows["Name"].array
    is_thunk = _texts_of(_ANY_THUNK, names).codes >= 0
    has_name = has_name & (~is_thunk | (_texts_of(_THUNK, names).codes >= 0))
    is_range = has_id | np.append(names.categories.str.len() > 0, False)[names.codes]
    has_both = is_range & has_name & has_id
    is_timed, is_near = _timed(rows, "Projected")
    good = has_both & is_timed & is_near
    ids = rows["RangeId"].to_numpy(np.int64, na_value=-1)
    is_again = np.zeros(len(rows), bool)
    is_again[good] = pd.Index(ids[good]).duplicated()
    total, good = int(is_range.sum()), good & ~is_again
    for is_lost, what, evidence in (
        (is_range & ~has_both, Loss.EVENTS, "ranges without a name or an id, or thunks without an op"),
        (has_both & ~is_timed, Loss.EVENTS, "ranges without a valid time"),
        (has_both & is_timed & ~is_near, Loss.EVENTS, "ranges more than 26 days from the others"),
        (is_again, Loss.EVENTS, "ranges whose id another has"),
    ):
        if count := int(is_lost.sum()):
            lost.append(Lost(what, count, total, evidence))
    if total and not good.any():
        raise ValueError(f"none of its {quantity(total, 'projected range')} has a name, an id and a valid time")
    has_host = np.logical_and(*_timed(rows, "Orig"))
    if {"Orig Start", "Orig Duration"} & {*table.columns.schema.names} and (count := int((good & ~has_host).sum())):
        lost.append(Lost(Loss.DETAILS, count, total, "times of ranges on the host"))
    if count := int((good & rows[[*_IDS]].isna().any(axis=1).to_numpy(bool)).sum()):
        lost.append(Lost(Loss.DETAILS, count, total, "threads of ranges"))
    parent = pd.Index(ids[good]).get_indexer(rows["ParentId"].to_numpy(np.int64, na_value=-1))
    has_parent = rows["ParentId"].notna().to_numpy(bool)
    is_inside = has_parent | (rows[_LEVEL].to_numpy(np.int64, na_value=0) > 0)
    # Where ranges are lost, these are what others lie in.
    if (good | ~is_range).all() and (count := int((good & is_inside & (parent < 0)).sum())):
        lost.append(Lost(Loss.EVENTS, count, total, "ranges in others that are not there"))
    parent[~has_parent] = -1
    kept = rows.assign(**{"has host": has_host})[good].set_index(ids[good])
    holds_lost = _around(kept["Name"].array, parent, is_thunk, names.codes < 0, is_range & ~good)
    return _Ranges(kept, parent[good], holds_lost, total)


def _columns(table: ParquetTable, lost: list[Lost]) -> pd.DataFrame:
    """The columns of a table of ranges as they were called in 2024, null where they are damaged."""
    called = {old: new for new, old in _NEWER.items() if old not in table}
    has_end = _LENGTH not in table and "End" in table
    needed = [name for name in _NEEDED if name != _LENGTH or not has_end]
    if missing := [name for name in needed if called.get(name, name) not in table]:
        raise ValueError(f"its table of projected ranges has no column {missing[0]!r}")
    names = _labels(table.texts(called.get("Name", "Name")))
    numbers = {name: table.integers(called.get(name, name)) for name in (*_TIMES, "RangeId", _LEVEL)}
    numbers["ParentId"] = table.integers(called.get("ParentId", "ParentId"), lost)
    numbers |= {name: _within(table, called.get(name, name), _PAST_IDS, lost) for name in _IDS}
    rows = pd.DataFrame({"Name": names, **numbers})
    return rows.assign(**{_LENGTH: table.integers("End") - rows[_START]}) if has_end else rows


def _within(table: ParquetTable, column: str, past: int, lost: list[Lost], least: int = 1) -> pd.arrays.IntegerArray:
    """A column of numbers from `least` to those `past` all that there are; others are null, and counted."""
    values = table.integers(column, lost)
    numbers = values.to_numpy(np.int64, na_value=least)
    odd = (numbers < least) | (numbers >= past)
    if count := int(odd.sum()):
        lost.append(Lost(Loss.DETAILS, count, len(table), f"{column} in {table.name} contains numbers of nothing"))
        values[odd] = pd.NA
    return values


def _timed(rows: pd.DataFrame, clock: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows have a valid time, projected onto the GPU or, as it was originally, on the host; and in which of these
    int64 picoseconds can hold it, together with the most of those on the GPU."""
    start, length = rows[f"{clock} Start"], rows[f"{clock} Duration"]
    middle = rows[_START].dropna().to_numpy(np.float64)
    is_timed = (start.notna() & (length >= 0).fillna(False)).to_numpy(bool)
    distance = np.abs(start.to_numpy(np.float64, na_value=0) - (np.median(middle) if len(middle) else 0))
    return is_timed, (distance < _FURTHEST_NS) & (length.to_numpy(np.int64, na_value=0) < _FURTHEST_NS)


def _around(
    kept: pd.Categorical,
    parent: Integers,
    is_thunk: NDArray[np.bool_],
    is_nameless: NDArray[np.bool_],
    is_lost: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Which of the ranges that are `kept`, by their names, hold thunks that were lost: one of all ranges that `is_lost`
    is a thunk; or has no name, and what is around it is control flow."""
    holds = np.zeros(len(kept), bool)
    if not is_lost.any():
        return holds
    is_control = by_label(_texts_of(_THUNK, kept), lambda op: kinds.is_control_flow(None, op))
    inside = parent >= 0
    holds[parent[is_lost & inside & is_thunk]] = True
    around_nameless = parent[is_lost & inside & is_nameless]
    holds[around_nameless] |= is_control[around_nameless]
    return holds


def _texts_of(pattern: re.Pattern[str], names: pd.Categorical) -> pd.Categorical:
    """What the first group of a pattern is in each of the names, null where it is not found."""
    found = (pattern.search(name) for name in labels(names))
    return categorical([*(match[1] if match else None for match in found), None], names.codes)


def _number_of_program(name: str) -> int:
    """The number of the program whose execution a range is, -1 of another one."""
    match = _MODULE.search(name)
    return int(match[2]) if match and match[2] else -1


def _nearest(parent: Integers, wanted: NDArray[np.bool_], places: Integers) -> Integers:
    """The place of the innermost `wanted` range around each of those at `places`, -1 where there is none."""
    found = parent[places]
    for _ in range(_DEEPEST):
        pending = found >= 0
        pending[pending] = ~wanted[found[pending]]
        if not pending.any():
            return found
        found[pending] = parent[found[pending]]
    return np.where(pending, -1, found)  # ranges that are around each other


def _labels(values: pd.Series, label: str = "", null: str | None = None) -> pd.Categorical:
    """A categorical column of texts, or of the values in a `label`."""
    which, texts = pd.factorize(values)
    if label:
        return categorical([*map(label.format, texts), null], which)
    return pd.Categorical.from_codes(which, dtype=text_dtype(pd.Index(texts, dtype="str")), validate=False)
