"""The directory that `nsys export --type parquetdir` or `arrowdir` writes: each table of the SQLite export as a file of
Parquet or Arrow.

Tables and columns are called as in SQLite, of all versions that were compared; so they are put into a database in
memory, which is read as one from a file is. Tables of samples, system calls and counters, which no reader asks for and
which may be the largest, are left out.
"""

import math
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracekit.errors import TraceError
from tracekit.readers import unpacking
from tracekit.readers.content import Content

STRINGS = "StringIds"
SUFFIXES = (".parquet", ".arrow")
FOLDERS = re.compile(r"_(pqtdir|arwdir)$")
_MAGICS = (b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")  # the last is that of a stream of Arrow
_UNUSED = re.compile(r"(OSRT|SCHED|SAMPLING|COMPOSITE|GPU_METRICS|GENERIC|NET_|NIC_|PERF|ETW|FTRACE|SYSCALL)\w*")
_ROWS_AT_ONCE = 1 << 16


def is_export(content: Content, sure: bool) -> bool:
    """Whether a file is the table of strings of such a directory, which stands for all; any table beside it if the user
    named the file (`sure`)."""
    path = content.path
    is_table = content.head.startswith(_MAGICS) and path.suffix in SUFFIXES
    return is_table and (path.stem == STRINGS or (sure and path.with_name(STRINGS + path.suffix).is_file()))


def tables(path: Path) -> list[Path]:
    """The tables that are read of the directory of `path`, which is one of them."""
    files = sorted(path.parent.glob(f"*{path.suffix}"))
    return [file for file in files if re.fullmatch(r"\w+", file.stem) and not _UNUSED.fullmatch(file.stem)]


def database(path: Path) -> sqlite3.Connection:
    """The tables of the directory of `path`, which is one of them, in memory. Raises TraceError if one is broken."""
    connection = sqlite3.connect(":memory:")
    files = tables(path)
    parquet_files = unpacking.ParquetFiles(sum(file.stat().st_size for file in files))
    for file in files:
        try:
            _add(connection, file, parquet_files)
        except (pa.ArrowException, OSError) as error:
            connection.close()
            reason = str(error).partition("\n")[0].rstrip(".")
            raise TraceError(
                f"{file} cannot be read: {reason}. Export the report again with `nsys export --type sqlite`."
            ) from None
    return connection


def _add(connection: sqlite3.Connection, file: Path, parquet_files: unpacking.ParquetFiles) -> None:
    """Add the table in `file`; columns of lists, which SQLite's exports have none of, are left out."""
    with _opened(file, parquet_files) as (schema, batches):
        names = [field.name for field in schema if not pa.types.is_nested(field.type)]
        if not names:
            return
        columns = ", ".join(
            f'"{name}" INTEGER PRIMARY KEY' if name == "id" and file.stem == STRINGS else f'"{name}"' for name in names
        )
        connection.execute(f'CREATE TABLE "{file.stem}" ({columns})')
        statement = f'INSERT OR IGNORE INTO "{file.stem}" VALUES ({", ".join("?" * len(names))})'
        held, most = 0, unpacking.most_bytes(file.stat().st_size)
        for batch in batches(names):
            held += batch.nbytes
            if held > most:  # Arrow may be packed too
                raise pa.ArrowInvalid(unpacking.TOO_MUCH)
            connection.executemany(statement, _cells(batch))


@contextmanager
def _opened(
    file: Path, parquet_files: unpacking.ParquetFiles
) -> Iterator[tuple[pa.Schema, Callable[[list[str]], Iterable[pa.RecordBatch]]]]:
    """The schema of a table, and what gives some of its columns in parts."""
    if file.suffix == SUFFIXES[0]:
        with parquet_files.opened(file) as table:
            yield table.schema_arrow, lambda names: table.iter_batches(_ROWS_AT_ONCE, columns=names)
        return
    with pa.memory_map(str(file)) as source:
        if source.read(len(_MAGICS[1])) == _MAGICS[1]:
            whole = pa.ipc.open_file(source)
            parts: Iterable[pa.RecordBatch] = map(whole.get_batch, range(whole.num_record_batches))
        else:
            source.seek(0)
            parts = whole = pa.ipc.open_stream(source)
        yield whole.schema, lambda names: (part.select(names) for part in parts)


def _cells(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """The rows of a batch as SQLite takes them: times as integers, and of unsigned integers the same 64 bits."""
    columns = []
    for column in batch.columns:
        if pa.types.is_temporal(column.type):
            column = column.view(pa.int64()) if column.type.bit_width == 64 else column.cast(pa.int64())
        elif column.type == pa.uint64():
            column = column.view(pa.int64())
        try:
            columns.append(_numbers(column) if pa.types.is_floating(column.type) else column.to_pylist())
        except UnicodeDecodeError:  # one bad byte must not cost the file
            texts = column.cast(pa.large_binary()).to_pylist()
            columns.append([None if text is None else text.decode("utf-8", "replace") for text in texts])
    return zip(*columns, strict=True)


def _numbers(column: pa.Array) -> list[float | int | None]:
    """The numbers of a column, None for NaN; integers if all are whole, as those of a column with nulls become where
    pandas writes a table again."""
    values = [None if value is None or math.isnan(value) else value for value in column.to_pylist()]
    is_whole = all(value is None or value.is_integer() for value in values)
    return [None if value is None else int(value) for value in values] if is_whole else values
