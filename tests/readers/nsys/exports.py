"""Nsight Systems exports for tests: tables given as rows, made with sqlite3 as `nsys export` lays them out."""

import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

# nsys packs the pid above 24 bits of thread id, and hardware and VM above both.
VM = 1 << 48


def pid(number: int) -> int:
    """A `globalPid`."""
    return VM + (number << 24)


def tid(process: int, thread: int) -> int:
    """A `globalTid`."""
    return pid(process) + thread


def rows(table, *columns):
    """Some columns of a frame as lists, None for null."""
    cells = table[list(columns)].astype(object)
    return cells.where(cells.notna(), None).values.tolist()


class Tables:
    """An export in the making: each method adds rows to the table nsys writes them to."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict]] = {"StringIds": []}
        self.ids: dict[str, int] = {}

    def add(self, table: str, **row) -> "Tables":
        self.rows.setdefault(table, []).append(row)
        return self

    def string(self, text: str) -> int:
        """The id of a text in StringIds."""
        if text not in self.ids:
            self.ids[text] = len(self.ids) + 1
            self.add("StringIds", id=self.ids[text], value=text)
        return self.ids[text]

    def activity(self, kind: str, start: int, end: int, process: int = 7, **row) -> "Tables":
        """A row of `CUPTI_ACTIVITY_KIND_<kind>` on device 0, context 1, stream 13, unless told otherwise."""
        usual = {"deviceId": 0, "contextId": 1, "streamId": 13, "correlationId": 0, "globalPid": pid(process)}
        return self.add(f"CUPTI_ACTIVITY_KIND_{kind}", start=start, end=end, **(usual | row))

    def kernel(self, name: str, start: int, end: int, process: int = 7, **row) -> "Tables":
        names = {"demangledName": self.string(name), "shortName": self.string(name)}
        return self.activity("KERNEL", start, end, process, **(names | row))

    def copy(self, kind: int, start: int, end: int, **row) -> "Tables":
        usual = {"bytes": 64, "srcKind": None, "dstKind": None, "srcDeviceId": None, "dstDeviceId": None}
        return self.activity("MEMCPY", start, end, copyKind=kind, **(usual | row))

    def call(self, name: str, start: int, end: int, correlation: int, process: int = 7, thread: int = 1) -> "Tables":
        return self.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=end,
            globalTid=tid(process, thread),
            correlationId=correlation,
            nameId=self.string(name),
        )

    def sync(self, correlation: int, stream: int = 13, process: int = 7, **row) -> "Tables":
        """CUPTI's record of a synchronisation; its `deviceId` is 0 whatever the device."""
        usual = {"start": 0, "end": 1, "deviceId": 0, "contextId": 1, "syncType": 1, "eventId": 2**32 - 1}
        ids = {"streamId": stream, "correlationId": correlation, "globalPid": pid(process)}
        return self.add("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", **(usual | ids | row))

    def event(self, event: int, correlation: int, stream: int = 13, process: int = 7, **row) -> "Tables":
        """CUPTI's record of an event that was recorded on a stream."""
        usual = {"deviceId": 0, "contextId": 1, "streamId": stream, "correlationId": correlation}
        ids = {"globalPid": pid(process), "eventId": event}
        return self.add("CUPTI_ACTIVITY_KIND_CUDA_EVENT", **(usual | ids | row))

    def range(
        self,
        text: str | None,
        start: int,
        end: int | None,
        kind: int = 59,
        process: int = 7,
        thread: int = 1,
        **row,
    ) -> "Tables":
        usual = {"textId": None, "domainId": 0, "binaryData": None}
        fields = {"start": start, "end": end, "eventType": kind, "text": text, "globalTid": tid(process, thread)}
        return self.add("NVTX_EVENTS", **fields, **(usual | row))

    def without(self, table: str, *columns: str) -> "Tables":
        """The same, as a version of nsys wrote it that did not know these columns."""
        for row in self.rows[table]:
            for column in columns:
                row.pop(column)
        return self

    def rename(self, table: str, name: str) -> "Tables":
        self.rows[name] = self.rows.pop(table)
        return self

    def write(self, path: Path, page_size: int = 4096) -> Path:
        base = sqlite3.connect(path)
        base.execute(f"PRAGMA page_size = {page_size}")
        for table, rows in self.rows.items():
            columns = list(rows[0]) if rows else ["id", "value"]
            types = [f'"{column}"' + (" INTEGER PRIMARY KEY" if column == "id" else "") for column in columns]
            base.execute(f'CREATE TABLE "{table}" ({", ".join(types)})')
            places = ", ".join("?" * len(columns))
            base.executemany(
                f'INSERT INTO "{table}" VALUES ({places})', [tuple(row[column] for column in columns) for row in rows]
            )
        base.commit()
        base.close()
        return path


def as_parquet(export, directory):
    """The tables of an SQLite export as files of Parquet in `directory`, with the types that nsys gives them."""
    directory.mkdir()
    with closing(sqlite3.connect(export)) as base:
        for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            cursor = base.execute(f'SELECT * FROM "{name}"')
            names, columns = [column for column, *_ in cursor.description], zip(*cursor, strict=True)
            cells = dict(zip(names, columns, strict=False))
            types = {column: pa.uint64() if column.startswith("global") else None for column in names}
            table = pa.table({column: pa.array(cells.get(column, ()), types[column]) for column in names})
            with (directory / f"{name}.parquet").open("wb") as file:  # Arrow opens names of UTF-8 alone
                parquet.write_table(table, file)
    return directory


# What NCCL registers for ncclAllReduce: communicator, message size, reduction operation.
SCHEMA = 16777223
FIELDS = (("NCCL communicator ID", 18, None), ("Message size [bytes]", 22, 8), ("Reduction operation", 16777232, 16))


def nccl_schema(tables: Tables, domain: int = 1) -> Tables:
    """The payload schema of NCCL's collectives."""
    tables.add("NVTX_PAYLOAD_SCHEMAS", domainId=domain, schemaId=SCHEMA, payloadSize=24)
    for name, kind, offset in FIELDS:
        tables.add("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=domain, schemaId=SCHEMA, name=name, type=kind, offset=offset)
    return tables


def nccl_payload(communicator: int, size: int, declared: int = 24) -> bytes:
    """A payload of that schema as nsys exports it with its header."""
    return struct.pack("<QQQQ", 1, SCHEMA, declared, 56) + struct.pack("<QQQ", communicator, size, 0)


# What NCCL registers for ncclCommInitRank: communicator, ranks in it, which of them this is, its CUDA device.
INIT = 16777218
INIT_FIELDS = (("NCCL communicator ID", 18, None), ("No. of ranks", 5, 8), ("Rank", 5, 12), ("CUDA device", 5, 16))


def communicator_schema(tables: Tables, domain: int = 1) -> Tables:
    """The payload schema of the calls that make NCCL's communicators."""
    tables.add("NVTX_PAYLOAD_SCHEMAS", domainId=domain, schemaId=INIT, payloadSize=24)
    for name, kind, offset in INIT_FIELDS:
        tables.add("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=domain, schemaId=INIT, name=name, type=kind, offset=offset)
    return tables


def communicator_payload(communicator: int, ranks: int, rank: int) -> bytes:
    """A payload of that schema as nsys exports it with its header."""
    return struct.pack("<QQQQ", 1, INIT, 24, 56) + struct.pack("<Qiiii", communicator, ranks, rank, rank, 0)
