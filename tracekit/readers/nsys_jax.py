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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tracekit.columns import constant, frame
from tracekit.errors import TraceError
from tracekit.readers import losses, unpacking
from tracekit.readers.content import Content
from tracekit.readers.hlo.costs import Costs
from tracekit.readers.hlo.hlo_proto import DAMAGED, Program
from tracekit.readers.hlo.instruction import Op
from tracekit.readers.losses import Lost
from tracekit.trace import (
    DEVICE_COLUMNS,
    EVENT_COLUMNS,
    HOST_COLUMNS,
    LAUNCH_COLUMNS,
    OP_COLUMNS,
    SPAN_COLUMNS,
    Trace,
)
from tracekit.vocabulary import kinds
from tracekit.vocabulary.collectives import operation
from tracekit.vocabulary.host_calls import Activity, activity_of, step_number
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.losses import Loss
from tracekit.vocabulary.ranks import xla_device

SUFFIXES = (".zip",)
FOLDER = "nvtx_gpu_proj_trace"
_TRACE, _THREADS, _DEVICES = f"{FOLDER}/trace.parquet", "thread-metadata.parquet", "device-metadata.parquet"
_PLACE = re.compile(rf"(?P<folder>(?:.*/)?){re.escape(_TRACE)}(?P<part>/.*)?")
_PS_PER_NS = 1000
_DEEPEST = 1000  # ranges of NVTX are not nested deeper than the calls of a program
_THUNK = re.compile(r"Thunk:#.*\bhlo_op=([^,#]+)")
_MODULE = re.compile(r"XlaModule:#.*\bhlo_module=([^,#]+)(?:,program_id=(\d+))?")
_PROTO = re.compile(r"(?:^|/)dump/module_(\d{1,19})\.[^/]*after_optimizations\.hlo\.pb(?:\.xz)?$")
# What the columns are called in versions of Nsight Systems since 2024.5.
_NEWER = {
    "Text": "Name",
    "Start": "Projected Start",
    "Range ID": "RangeId",
    "Parent ID": "ParentId",
}
_NEEDED = ("Name", "Projected Start", "Projected Duration", "PID", "TID", "RangeId", "ParentId")


@dataclass(frozen=True)
class _Files:
    """The names of an archive's files, what gives the bytes of one, how many bytes all take, packed, and its tables."""

    names: Sequence[str]
    data: Callable[[str], bytes]
    packed: int
    tables: unpacking.ParquetFiles


def is_archive(content: Content, sure: bool) -> bool:
    """Whether a file is a zip archive that holds the table of projected ranges, or that table of an unpacked one, which
    stands for all."""
    if content.head.startswith(b"PAR1"):
        return content.path.parts[-2:] == tuple(_TRACE.split("/"))
    if not content.head.startswith(b"PK\x03\x04"):
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
    return [file for file in (path, root / _THREADS, root / _DEVICES) if file.is_file()] + dumps


@contextmanager
def _opened(path: Path) -> Iterator[_Files]:
    if path.name == Path(_TRACE).name:
        root = path.absolute().parents[1]
        names = [file.relative_to(root).as_posix() for file in needed(path.absolute())]
        packed = sum((root / name).stat().st_size for name in names)
        yield _Files(names, lambda name: (root / name).read_bytes(), packed, unpacking.ParquetFiles(packed))
        return
    with unpacking.opened_zip(path) as archive:
        packed = unpacking.size_of(path)
        yield _Files(archive.namelist(), archive.read, packed, unpacking.ParquetFiles(packed))


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
            folder = min((place["folder"] or "" for place in places if place["part"] is None), key=len)
            return _Process(path, files, folder).trace()
    # RuntimeError: it is encrypted, or packed in a way that Python does not know.
    except (zipfile.BadZipFile, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split()).rstrip(" .") or type(error).__name__
        raise TraceError(
            f"{path} is no whole archive of nsys-jax: {reason}. Copy it again, in binary mode, or give its report, "
            "exported with `nsys export --type sqlite`."
        ) from None


class _Protos:
    """The programs of an archive, by the numbers of their modules, each read when it is first asked for."""

    def __init__(self, files: _Files) -> None:
        self.files = files
        self.names = {int(match[1]): name for name in files.names if (match := _PROTO.search(name))}
        self.damaged: list[str] = []
        self._left = unpacking.most_bytes(files.packed)
        self._read: dict[int, tuple[Program, Costs]] = {}

    def of(self, number: int) -> tuple[Program, Costs]:
        """The program with a number and what its ops cost; an empty one where it was not dumped, or is damaged."""
        if number not in self._read:
            try:
                data = self.files.data(self.names[number]) if number in self.names else b""
                if data.startswith(unpacking.XZ):
                    data = unpacking.unxz(data, self._left)
                    self._left -= len(data)
                program = Program(data)
                _ = program.places
            except (*DAMAGED, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError):
                program = Program(b"")
                self.damaged.append(self.names[number])
            self._read[number] = program, Costs(program)
        return self._read[number]

    def op(self, number: int, name: str) -> Op | None:
        """What the op `name` of a program does, None where that is not known."""
        try:
            return self.of(number)[0].op(name)
        except DAMAGED:
            return None


class _Process:
    """The process of an archive, all of which is in its `folder`, a path that ends in / or ""."""

    def __init__(self, path: Path, files: _Files, folder: str) -> None:
        self.path = path
        self.protos = _Protos(files)
        self.ranges = _ranges(_table(files, folder + _TRACE))
        threads, devices = folder + _THREADS, folder + _DEVICES
        has_threads = threads in files.names
        self.threads = _table(files, threads) if has_threads else pd.DataFrame({"Name": pd.Series([], dtype=str)})
        self.facts = _table(files, devices) if devices in files.names else pd.DataFrame()
        names = [*self.threads["Name"].dropna().astype(str), *self.cuda_devices.values()]
        own = [device for name in names if (device := xla_device(name))]
        self.first_device, process = min(own, default=(0, None))
        own_name = path.name if path.suffix in SUFFIXES else path.absolute().parents[1].name
        self.host = own_name.removesuffix(".zip") if process is None else f"process{process}"

    @cached_property
    def cuda_devices(self) -> dict[Any, str]:
        """What XLA calls each of CUDA's devices."""
        column = ("TARGET_INFO_NVTX_CUDA_DEVICE", "name")
        return {} if column not in self.facts else self.facts[column].dropna().astype(str).to_dict()

    def trace(self) -> Trace:
        ranges = self.ranges
        thunk = ranges["Name"].str.extract(_THUNK)[0]
        modules = ranges["Name"].str.extract(_MODULE)
        is_thunk = thunk.notna()
        leaf = is_thunk & ~ranges.index.isin(ranges.loc[is_thunk, "ParentId"])
        module_of = _nearest(ranges, modules[0].notna(), ranges.index[leaf])
        # What the autotuner runs inside a compilation, to choose a kernel, is no execution of a program.
        compiles = ranges["Name"].map(lambda name: activity_of(name) is Activity.COMPILING).astype(bool)
        is_tuning = ~_nearest(ranges, compiles, ranges.index[leaf]).isna()
        rows = ranges[leaf].assign(
            hlo_op=thunk[leaf],
            run_id=pd.Series(module_of, ranges.index[leaf]).mask(is_tuning),
            hlo_module=modules[0].reindex(module_of).to_numpy(),
            program=pd.to_numeric(modules[1]).reindex(module_of).fillna(-1).astype(np.int64).to_numpy(),
        )
        zero = int(min(ranges["Projected Start"].min(), ranges["Orig Start"].min()) if len(ranges) else 0)
        events, ops = self._events(rows, zero)
        notes = []
        if not len(rows):
            notes.append("The archive holds no thunks of XLA: nothing that XLA launched was recorded.")
        notes.append(
            "Rows are XLA's thunks, from the first start to the last end of what each launched: kernels are not in the "
            "archive."
        )
        launched = rows[rows["Orig Start"].notna()]
        host_ranges = ranges[ranges["Orig Start"].notna() & ~is_thunk]
        devices = list(dict.fromkeys(map(str, events["device"])))
        sizes = [size for number in rows["program"].unique() if (size := self._devices_of(int(number)))]
        damaged = self.protos.damaged
        lost = [Lost(Loss.PROGRAMS, len(damaged), len(self.protos.names), damaged[0])] if damaged else []
        return Trace(
            events=events,
            spans=frame(SPAN_COLUMNS, self._on_threads(host_ranges, zero)).assign(
                step=pd.array([step_number(name) for name in host_ranges["Name"]], "Int64")
            ),
            launches=frame(
                LAUNCH_COLUMNS, {**self._on_threads(launched, zero), "correlation_id": launched.index.to_numpy()}
            ),
            ops=ops,
            devices=self._device_facts(devices),
            hosts=frame(
                HOST_COLUMNS,
                {"host": [self.host], "source": [str(self.path)], "world_size": [max(sizes, default=None)]},
            ),
            losses=losses.table(self.host, lost),
            notes=(*notes, *losses.notes(lost)),
            source=str(self.path),
            format="nsys-jax",
        )

    def _devices_of(self, number: int) -> int | None:
        try:
            return self.protos.of(number)[0].devices
        except DAMAGED:
            return None

    def _on_threads(self, ranges: pd.DataFrame, zero: int) -> dict[str, Any]:
        """The host's side of some ranges."""
        start = (ranges["Orig Start"] - zero).to_numpy(np.int64) * _PS_PER_NS
        return {
            "host": constant(self.host, len(ranges)),
            "process": ranges["PID"].astype(str).tolist(),
            "thread": [f"thread {tid}" for tid in ranges["TID"]],
            "name": ranges["Name"].tolist(),
            "start_ps": start,
            "end_ps": start + ranges["Orig Duration"].to_numpy(np.int64) * _PS_PER_NS,
        }

    def _events(self, rows: pd.DataFrame, zero: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The rows (EVENT_COLUMNS) and their operations (OP_COLUMNS)."""
        keys = list(zip(rows["program"].tolist(), rows["hlo_module"], rows["hlo_op"], strict=True))
        distinct = list(dict.fromkeys(keys))
        which = {key: at for at, key in enumerate(distinct)}
        place = np.array([which[key] for key in keys], np.int64)
        known = [self.protos.op(number, name) for number, _, name in distinct]
        what = [
            kinds.classify(name, opcode=op.category if op else None, typed=Kind.COMPUTE)
            for (_, _, name), op in zip(distinct, known, strict=True)
        ]
        is_collective = [each.kind == Kind.COLLECTIVE for each in what]
        category = [
            operation(name, op.category if op else None) if shared else op.category if op else None
            for (_, _, name), op, shared in zip(distinct, known, is_collective, strict=True)
        ]
        costs = [self.protos.of(number)[1].of(name) for number, _, name in distinct]
        ops = frame(
            OP_COLUMNS,
            {
                "program": [f"{module}({number})" if number >= 0 else module for number, module, _ in distinct],
                "hlo_op": [name for _, _, name in distinct],
                "opcode": [op.opcode if op else None for op in known],
                **{column: [getattr(cost, column) for cost in costs] for column in _OF_COSTS},
            },
        )
        start = (rows["Projected Start"].to_numpy(np.int64) - zero) * _PS_PER_NS
        of_row = [distinct[at] for at in place.tolist()]
        events = frame(
            EVENT_COLUMNS,
            {
                "host": constant(self.host, len(rows)),
                "device": [f"gpu:{number}" for number in self._device_numbers(rows)],
                "lane": ["collective thunks" if is_collective[at] else "thunks" for at in place.tolist()],
                **kinds.columns(what, place),
                "name": rows["hlo_op"].tolist(),
                "start_ps": start,
                "end_ps": start + rows["Projected Duration"].to_numpy(np.int64) * _PS_PER_NS,
                "hlo_op": rows["hlo_op"].tolist(),
                "hlo_module": [None if pd.isna(module) else module for _, module, _ in of_row],
                "category": [category[at] for at in place.tolist()],
                "bytes": [known[at].bytes if is_collective[at] and known[at] else None for at in place.tolist()],
                "ranks": [known[at].ranks if is_collective[at] and known[at] else None for at in place.tolist()],
                "correlation_id": rows.index.to_numpy(),
                "run_id": rows["run_id"].tolist(),
                "op": place,
            },
        )
        return events, ops

    def _device_numbers(self, rows: pd.DataFrame) -> list[int]:
        """JAX's number of the device of each row, by the thread that launched it."""
        of_thread = {
            key: device[0]
            for key, name in self.threads["Name"].dropna().astype(str).items()
            if (device := xla_device(name))
        }
        threads = zip(rows["PID"].tolist(), rows["TID"].tolist(), strict=True)
        return [of_thread.get(thread, self.first_device) for thread in threads]

    def _device_facts(self, devices: Sequence[str]) -> pd.DataFrame:
        """What the archive tells of each device that worked (DEVICE_COLUMNS)."""
        gpu_of: Mapping[str, Any] = {
            f"gpu:{device[0]}": cuda for cuda, name in self.cuda_devices.items() if (device := xla_device(name))
        }

        def fact(device: str, column: str) -> Any:
            key = ("TARGET_INFO_GPU", column)
            value = self.facts[key].get(gpu_of.get(device)) if key in self.facts else None
            return None if value is None or pd.isna(value) else value

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


def _table(files: _Files, name: str) -> pd.DataFrame:
    with files.tables.opened(files.data(name)) as file:
        table: pd.DataFrame = file.read(use_threads=False).to_pandas(use_threads=False)
    return table


def _ranges(table: pd.DataFrame) -> pd.DataFrame:
    """The ranges by their ids, with the column names of 2024 and the domain before each name; ns."""
    table = table.rename(columns=_NEWER)
    if "End" in table:
        table["Projected Duration"] = table.pop("End") - table["Projected Start"]
    if missing := [column for column in _NEEDED if column not in table]:
        raise ValueError(f"its table of projected ranges has no column {missing[0]!r}")
    table = table.assign(**{column: table.get(column, np.nan) for column in ("Orig Start", "Orig Duration")})
    table = table[table["RangeId"].notna() & table["Name"].notna() & (table["Projected Duration"] >= 0)]
    return table.set_index(table["RangeId"].astype(np.int64)).loc[lambda ranges: ~ranges.index.duplicated()]


def _nearest(ranges: pd.DataFrame, wanted: pd.Series, ids: pd.Index) -> Any:
    """The innermost `wanted` range around each of the ranges `ids`, null where there is none."""
    parent = ranges["ParentId"]
    found = parent.reindex(ids)
    for _ in range(_DEEPEST):
        pending = found.notna() & ~wanted.reindex(found.to_numpy()).fillna(False).to_numpy(bool)
        if not pending.any():
            break
        found[pending] = parent.reindex(found[pending].to_numpy()).to_numpy()
    else:  # ranges that are around each other
        found[pending] = np.nan
    return pd.array(found.to_numpy(), "Int64")
