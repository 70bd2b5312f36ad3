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
from tracekit.files import opened
from tracekit.readers import unpacking
from tracekit.readers.content import Content
from tracekit.readers.losses import Lost
from tracekit.vocabulary.losses import Loss

STRINGS = "StringIds"
SUFFIXES = (".parquet", ".arrow")
FOLDERS = re.compile(r"_(pqtdir|arwdir)$")
_MAGICS = (b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")  # the last is that of a stream of Arrow
_UNUSED = re.compile(r"(OSRT|SCHED|SAMPLING|COMPOSITE|GPU_METRICS|GENERIC|NET_|NIC_|PERF|ETW|FTRACE|SYSCALL)\w*")
_ROWS_AT_ONCE = 1 << 16
_MOST = 1 << 63
_NAME = re.compile(r"\w+", re.ASCII)
_OF_STRINGS = ("id", "value")
# An id that stands for two texts stands for none.
_UNLESS_TWICE = ' ON CONFLICT ("id") DO UPDATE SET "value" = NULL WHERE "value" IS NOT excluded."value"'
_OF_DAMAGE = (pa.ArrowException, OSError, ValueError, OverflowError, sqlite3.Error)
_PLAIN = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)


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


def database(path: Path) -> tuple[sqlite3.Connection, list[Lost]]:
    """The tables of the directory of `path`, which is one of them, in memory, and what of them is damaged: of a table
    that breaks off, what stands before is kept.

    Raises TraceError if the strings, without which no event has a name, or all other tables cannot be read, and of a
    table that holds far more than its size can.
    """
    connection = sqlite3.connect(":memory:")
    files, lost, broken = tables(path), [], {}
    packed = sum(file.stat().st_size for file in files)
    parquet_files, held = unpacking.ParquetFiles(packed), unpacking.Bound(packed)
    for file in files:
        try:
            lost += _add(connection, file, parquet_files, held)
        except _OF_DAMAGE as error:
            reason = _reason(error)
            broken[file] = f"{file} cannot be read: {reason}. Export the report again with `nsys export --type sqlite`."
            if file.stem == STRINGS or reason == unpacking.TOO_MUCH:
                connection.close()
                raise TraceError(broken[file]) from None
            lost.append(Lost(Loss.TABLES, 1, len(files), f"{file.name}: {reason}"))
    if broken and len(broken) >= len(files) - 1:
        connection.close()
        raise TraceError(next(iter(broken.values())))
    return connection, lost


def _reason(error: Exception) -> str:
    # Where Arrow quotes broken bytes of the file, they are no text.
    return (
        "its bytes are no text" if isinstance(error, UnicodeError) else re.split(r"\n|\. ", str(error))[0].rstrip(".")
    )


def _add(
    connection: sqlite3.Connection, file: Path, parquet_files: unpacking.ParquetFiles, held: unpacking.Bound
) -> list[Lost]:
    """Add the table in `file`, and tell what of it is lost; columns of lists, which SQLite's exports have none of, are
    left out."""
    with _opened(file, parquet_files) as (schema, batches):
        flat = [field.name for field in schema if not pa.types.is_nested(field.type)]
        # SQLite takes no two names that differ only in their case. No other name becomes part of what it is asked.
        first_of: dict[str, str] = {}
        for name in filter(_NAME.fullmatch, flat):
            first_of.setdefault(name.lower(), name)
        names = [*first_of.values()]
        evidence = f"columns of {file.name} that Nsight Systems does not write"
        lost = [Lost(Loss.DETAILS, len(flat) - len(names), len(flat), evidence)] if len(names) < len(flat) else []
        is_strings = file.stem == STRINGS
        if is_strings and not {*_OF_STRINGS} <= {*names}:
            raise pa.ArrowInvalid(f"it has no columns {' and '.join(_OF_STRINGS)}")
        names = [*_OF_STRINGS] if is_strings else names
        if not names:
            return lost
        columns = '"id" INTEGER PRIMARY KEY, "value"' if is_strings else ", ".join(f'"{name}"' for name in names)
        connection.execute(f'CREATE TABLE "{file.stem}" ({columns})')
        statement = f'INSERT INTO "{file.stem}" VALUES ({", ".join("?" * len(names))})'
        for batch in batches(names):
            held.take(batch.nbytes)  # Arrow may be packed too
            places = [batch.schema.get_all_field_indices(name)[0] for name in names]
            cells = zip(*(_cells(batch.column(place)) for place in places), strict=True)
            if is_strings:
                texts = ((key, text) for key, text in cells if type(key) is int and isinstance(text, str | bytes))
                connection.executemany(statement + _UNLESS_TWICE, texts)
            else:
                connection.executemany(statement, cells)
    return lost


@contextmanager
def _opened(
    file: Path, parquet_files: unpacking.ParquetFiles
) -> Iterator[tuple[pa.Schema, Callable[[list[str]], Iterable[pa.RecordBatch]]]]:
    """The schema of a table, and what gives some of its columns in parts."""
    if file.suffix == SUFFIXES[0]:
        with parquet_files.opened(file) as table:
            yield table.schema_arrow, lambda names: table.iter_batches(_ROWS_AT_ONCE, columns=names)
        return
    # A map of the file would end the process (SIGBUS) where another cuts it; Arrow opens names of UTF-8 alone.
    with opened(file) as raw, pa.PythonFile(raw, "r") as source:
        if source.read(len(_MAGICS[1])) == _MAGICS[1]:
            whole = pa.ipc.open_file(source)
            parts: Iterable[pa.RecordBatch] = map(whole.get_batch, range(whole.num_record_batches))
        else:
            source.seek(0)
            parts = whole = pa.ipc.open_stream(source)
        yield whole.schema, lambda names: parts


def _cells(column: pa.Array) -> list[Any]:
    """A column as SQLite takes it: times as integers, of unsigned integers the same 64 bits, and what it has no type
    for as text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
    elif kind == pa.uint64() or (pa.types.is_temporal(kind) and kind.bit_width == 64):
        column = column.view(pa.int64())
    elif pa.types.is_temporal(kind) and kind.bit_width == 32:
        column = column.view(pa.int32())
    kind = column.type
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:  # one bad byte must not cost the file
        texts = column.cast(pa.large_binary()).to_pylist()
        return [None if text is None else text.decode("utf-8", "replace") for text in texts]
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return [_number(value) for value in values]
    if any(is_kind(kind) for is_kind in _PLAIN):
        return values
    return [value if value is None or type(value) in (int, str, bytes) else str(value) for value in values]


def _number(value: Any) -> float | int | None:
    """A number of a column that is not of integers, None for NaN; an integer if it is whole, as those of a column with
    nulls become where pandas writes a table again."""
    if value is None or math.isnan(value):
        return None
    return int(value) if abs(value) < _MOST and value % 1 == 0 else float(value)
