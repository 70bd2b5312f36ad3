"""The SQLite database of an Nsight Systems export: opened without touching it, its tables found, its columns as arrays.

The schema differs from version to version: tables are made only when they have rows, and columns come and go. What is
known of it: https://docs.nvidia.com/nsight-systems/UserGuide/index.html (SQLite Schema Reference), and the exports of
nsys 2021 to 2026. Nothing is written, neither into the file nor beside it.
"""

import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import files, nsys_program
from tracekit.errors import TraceError
from tracekit.readers.content import Content
from tracekit.readers.losses import Lost
from tracekit.readers.nsys import parquet_export
from tracekit.readers.nsys.pages import Page
from tracekit.readers.nsys.readable import Readable, Table, first_line, readable, wrong_pages
from tracekit.readers.nsys.schema import COMPUTED, DAMAGED, SHADOWED, Schema, is_lost_column, schema
from tracekit.vocabulary.losses import Loss

T = TypeVar("T", bound=Any)

REPORT_SUFFIXES = (".nsys-rep", ".qdrep", ".qdstrm")
_OWN_TABLES = frozenset({"META_DATA_EXPORT", "TARGET_INFO_SESSION_START_TIME", "NVTX_EVENTS", "ANALYSIS_DETAILS"})

# What stands for NULL in an integer column.
MISSING = -(2**63)
# Serialized ids of processes and threads: hardware and VM in the upper bits, then 24 bits of pid, then 24 of tid.
TID_BITS = 24
ID_MASK = (1 << TID_BITS) - 1
_SERIALIZED = ("globalPid", "globalTid")
# Of columns of these names the first number past all that Nsight Systems writes: CUPTI's ids and enumerations are 32
# bits wide, and no machine moves so many bytes at once.
_IDS, _BYTES = 1 << 32, 1 << 53
_PAST = {
    **dict.fromkeys(("contextId", "streamId", "eventId", "eventSyncId", "domainId", "copyKind"), _IDS),
    **dict.fromkeys(("srcKind", "dstKind", "srcDeviceId", "dstDeviceId", "memKind", "memoryOperationType"), _IDS),
    "bytes": _BYTES,
}

_MAGIC = b"SQLite format 3\0"
# The versions of the format, in bytes 18 and 19, of a database with a write-ahead log: https://sqlite.org/fileformat2.html
_LOGGED, _LOG = b"\2\2", "-wal"
BESIDE = {"-journal": "an unfinished change", _LOG: "changes that are not in the file yet"}
"""What SQLite writes beside a database, under its name with such an end, and what that holds."""
_HEADER = 100
_IDS_AT_ONCE = 10_000
_ROWS_AT_ONCE = 1 << 18
_NOTHING = np.zeros(0, np.int64)
# Of a damaged file, pages may hold each other many times over: a file of 19 kB gave rows until there was no memory. No
# row takes less than a byte, and reading real exports takes at most one step of SQLite's machine a byte.
_STEPS, _STEPS_A_BYTE, _STEPS_AT_ONCE = 10**8, 50, 10**6
_REPEATED = "its pages hold the same rows over and over"
_PAGE_SIZE_AT, _MOST_PAGES = 16, 1 << 32
_MOST_NAMED = 8
_LACKING = f"{parquet_export.STRINGS} lacks"
_AGAIN = "Export the report again with `nsys export --type sqlite`."


@dataclass(frozen=True)
class Export:
    """An open export: its file, the connection, and the columns of each of its tables, with the `words` of their types.

    No table has more rows than `most_rows`. `refused`: tables that are not read, and why, and `damaged`: what can be
    read, and how much is lost, of those of which not all can be; both are a loss where one is asked for. `lost`: what
    was found to be damaged.
    """

    path: Path
    connection: sqlite3.Connection
    tables: Mapping[str, frozenset[str]]
    most_rows: int
    refused: Mapping[str, str] = field(default_factory=dict)
    damaged: Mapping[str, Readable] = field(default_factory=dict)
    lost: list[Lost] = field(default_factory=list)
    words: Mapping[str, frozenset[str]] = field(default_factory=dict)


def is_export(content: Content, sure: bool) -> bool:
    """Whether a file is a database with a table that Nsight Systems writes, and not gzipped, as none can be opened.

    Any database is if the user named the file (`sure`), and a broken one always: its reader says what is wrong.
    """
    if not content.is_sqlite or content.gzipped:
        return False
    if sure:
        return True
    try:
        with closing(_connected(content.path)) as file:
            tables = {str(name) for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except OSError:
        return False
    except (sqlite3.Error, UnicodeDecodeError):  # SQLite words some errors with the broken bytes themselves
        return True
    return any(name in _OWN_TABLES or name.startswith("CUPTI_ACTIVITY_KIND_") for name in tables)


def lacking_log(path: Path) -> list[str]:
    """A note on a database that was written to a write-ahead log, and lies where none is: a copy without the log lacks
    what was only there. One that was closed has all in its file, and looks alike; `nsys export` writes no such.
    """
    with files.opened(path) as file:
        head = file.read(_HEADER)
    if not head.startswith(_MAGIC) or head[18:20] != _LOGGED or path.with_name(path.name + _LOG).exists():
        return []
    return [
        f"The database was written to a write-ahead log ({path.name}{_LOG}), which is not beside it: if it was copied "
        "while a program had it open, what was only in the log is missing. `nsys export` writes one without a log."
    ]


def is_report(content: Content, sure: bool) -> bool:
    """Whether a file is a report in nsys's own format, which only nsys reads."""
    return content.path.name.endswith(REPORT_SUFFIXES)


def export_hint(path: Path) -> str:
    """The sentence for a report in nsys's own format (`.nsys-rep`, `.qdrep`, `.qdstrm`): how to export it, "" where
    nsys is on this machine to do so."""
    if nsys_program.is_exported(path):
        return ""
    if path.suffix == ".qdstrm":
        return (
            f"{path} is a raw stream of Nsight Systems: convert it to a .nsys-rep first (open it in Nsight Systems, "
            f'or run QdstrmImporter), then run `nsys export --type sqlite "{path.with_suffix(".nsys-rep")}"` and give '
            "the .sqlite file."
        )
    return (
        f'{path} is a report that only Nsight Systems can read: run `nsys export --type sqlite "{path}"` and give the '
        ".sqlite file that it writes."
    )


def _connected(path: Path) -> sqlite3.Connection:
    """A connection to the file at `path`: no lock is taken and no -wal or -shm file is made beside it.

    Raises OSError where it is no regular file. SQLite, which would wait for the writer of a pipe without end, is given
    the file that is open here, whatever takes its place by then; by its path where a system has no /dev/fd.
    """
    with files.opened(path) as file:
        open_here = Path(f"/dev/fd/{file.fileno()}")
        there = open_here if open_here.exists() else path.resolve()
        return sqlite3.connect(f"{there.as_uri()}?mode=ro&immutable=1", uri=True)


@contextmanager
def opened(path: Path, is_damaged: bool = False) -> Iterator[Export]:
    """The export at `path`, a database or a table of a directory of Parquet, closed at the end; of tables with damaged
    pages the rows in all others.

    Raises TraceError, also for what goes wrong inside the block, if the file is empty, no SQLite database, broken, not
    finished (a journal or a write-ahead log with changes lies beside it) or no export of Nsight Systems.
    """
    is_parquet = path.suffix in parquet_export.SUFFIXES
    size_there = "" if is_parquet else _size_there(path)
    connection, lost = parquet_export.database(path) if is_parquet else (_connection(path), [])
    what = f"{path.parent} is a damaged export" if is_parquet else f"{path} is a corrupt SQLite database"
    if size_there:
        what = f"{path} is truncated ({size_there})"
        lost.append(Lost(Loss.DETAILS, None, None, f"the file is truncated: {size_there}"))
    try:
        # Strings are decoded when their distinct values are known; one bad byte must not cost the file.
        connection.text_factory = bytes
        if is_damaged:
            connection.execute("PRAGMA writable_schema = ON")  # SQLite leaves out what it cannot read of the schema
        size = _bound(connection)
        with _pages(path) as page:
            found = _schema(path, connection, page, is_damaged)
            damaged = _damaged(connection, found, page) if is_damaged else {}
        tables, refused = found.tables, found.refused
        lost += found.lost
        if not found.lost and DAMAGED not in refused.values() and _is_without_table(found, damaged):
            lost.append(Lost(Loss.TABLES, 1, None, "whose pages the schema does not lead to"))
        if refused.get(parquet_export.STRINGS) in (COMPUTED, SHADOWED):
            reason = "computed columns" if refused[parquet_export.STRINGS] == COMPUTED else SHADOWED
            raise TraceError(f"{path} is no Nsight Systems export: {parquet_export.STRINGS} has {reason}. {_AGAIN}")
        gone = {*refused, *(name for name, each in damaged.items() if each.is_gone)}
        readable = {name: columns for name, columns in tables.items() if name not in gone}
        if parquet_export.STRINGS not in readable:
            raise TraceError(f"{what}: {parquet_export.STRINGS} cannot be read. {_AGAIN}")
        name = parquet_export.FOLDERS.sub("", path.parent.name)
        source = path.parent.with_name(name) if is_parquet and name else path
        yield Export(source, connection, readable, size, refused, damaged, lost, found.words)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise TraceError(f"{what}: {first_line(error)}. {_AGAIN}") from None
    finally:
        connection.close()


def _connection(path: Path) -> sqlite3.Connection:
    try:
        return _connected(path)
    except sqlite3.Error as error:
        raise TraceError(f"{path} cannot be opened: {error}.") from None
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}.") from None


def _bound(connection: sqlite3.Connection) -> int:
    """The size of a database in bytes, after setting a bound on the steps of all queries in proportion to it."""
    ((size,),) = connection.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
    steps_left = [(_STEPS + _STEPS_A_BYTE * int(size)) // _STEPS_AT_ONCE]

    def is_too_much() -> bool:
        steps_left[0] -= 1
        return steps_left[0] < 0

    connection.set_progress_handler(is_too_much, _STEPS_AT_ONCE)
    return int(size)


def damaged_pages(error: BaseException | None) -> bool:
    """Whether an error is that of a page that SQLite could not read, so that other pages may be read."""
    return isinstance(error, sqlite3.DatabaseError | UnicodeDecodeError)


def is_whole(path: Path) -> bool:
    """Whether the pages of a database hold together, as far as SQLite itself can tell: a page that lost some of its
    rows, or a table some of its pages, reads without an error."""
    if path.suffix in parquet_export.SUFFIXES:
        return True
    try:
        with closing(_connected(path)) as connection:
            _bound(connection)
            computed = connection.execute(
                "SELECT 1 FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c "
                "WHERE m.type = 'table' AND c.hidden IN (2, 3) LIMIT 1"
            ).fetchone()
            return bool(computed) or not wrong_pages(connection, "1")
    except (sqlite3.Error, UnicodeDecodeError, OSError):  # which the reader meets too, and tells
        return False


def _damaged(connection: sqlite3.Connection, found: Schema, page: Page | None) -> dict[str, Readable]:
    """What can be read of each table of which not all can, or is known to be there."""
    damaged = {}
    for name in sorted({*found.tables} - {*found.refused}):
        columns = sorted(found.tables[name])
        each = readable(connection, page, Table(name, columns, found.roots.get(name, 0), name not in found.with_keys))
        if each is not None:
            damaged[name] = each
    return damaged


def _is_without_table(found: Schema, damaged: Mapping[str, Readable]) -> bool:
    """Whether pages are of a table that is not in the schema, and not of damaged ones that no longer lead to them."""
    strayed = [each.strayed for each in damaged.values()]
    return None not in strayed and found.pages_without_table > sum(filter(None, strayed))


def _count_refused(export: Export, pattern: str, of_events: bool = False) -> None:
    """Count tables that are called as `pattern` says and are not read, or not whole, as lost; of those whose rows are
    events these, where it is known how many."""
    names = [name for name in (*sorted(export.refused), *export.damaged) if re.fullmatch(pattern, name)]
    export.lost.extend(lost for name in names if (lost := _lost_of(export, name, of_events)))


def _lost_of(export: Export, name: str, of_events: bool) -> Lost | None:
    """What is lost of a table that is not read, or not whole, None where nothing is."""
    if name in export.refused:
        return Lost(Loss.TABLES, 1, None, f"{export.refused[name]}: {name}")
    each = export.damaged[name]
    evidence = f"{name} has damaged pages"
    if each.lost == 0:
        return None
    if each.lost is None:
        evidence += "; how many rows these held is not known"
    elif not each.is_exact:
        evidence += ", which held no more than these"
    elif not of_events:
        evidence += f", which held {each.lost:,} of {each.total:,} rows"
    if of_events and each.lost is not None:
        return Lost(Loss.EVENTS, each.lost, each.total, evidence)
    return Lost(Loss.TABLES, 1, len({*export.tables, *export.damaged, *export.refused}), evidence)


def count_lost_columns(export: Export, table: str, names: Sequence[str]) -> None:
    """Count the columns that a table lacks because their names are damaged, which others show."""
    have = export.tables[table]
    for name in names:
        if name not in have and is_lost_column(name, have - {*names}, export.words.get(table, frozenset())):
            export.lost.append(Lost(Loss.TABLES, 1, None, f"the name of {table}.{name} is damaged"))


def unneeded(export: Export) -> list[str]:
    """The note on damaged tables that were not asked for, after all others were."""
    names = [name for name, why in export.refused.items() if why == DAMAGED]
    names += [name for name, each in export.damaged.items() if each.lost != 0]
    if any((lost.evidence or "").startswith(_LACKING) for lost in export.lost):
        names = [name for name in names if name != parquet_export.STRINGS]
    spared = [
        name
        for name in names
        if not any(_lost_of(export, name, of_events) in export.lost for of_events in (True, False))
    ]
    more = f" and {len(spared) - _MOST_NAMED} more" if len(spared) > _MOST_NAMED else ""
    named = ", ".join(spared[:_MOST_NAMED])
    return [f"Damaged in the export, but not needed: {named}{more}."] if spared else []


def _size_there(path: Path) -> str:
    """How many bytes of a truncated file are there, "" of others; TraceError for one of which SQLite would read
    nothing, or not all and not say clearly why."""
    try:
        with files.opened(path) as file:
            head = file.read(_HEADER)
        size = path.stat().st_size
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}.") from None
    if not head:
        raise TraceError(f"{path} is empty (0 bytes). {_AGAIN}")
    if not head.startswith(_MAGIC) and not _MAGIC.startswith(head):
        raise TraceError(f"{path} is not an SQLite database. {_AGAIN}")
    # Bytes 16, 24, 28 and 92: page size, change counter, pages, and the change for which the pages were counted.
    page = int.from_bytes(head[16:18], "big")
    expected = int.from_bytes(head[28:32], "big") * (65536 if page == 1 else page)
    is_truncated = size < _HEADER or (head[24:28] == head[92:96] and size < expected)
    size_there = f"it has {size:,} of {max(expected, _HEADER):,} bytes" if is_truncated else ""
    if size < _HEADER:
        raise TraceError(f"{path} is truncated ({size_there}). {_AGAIN}")
    for suffix, what in BESIDE.items():
        beside = path.with_name(path.name + suffix)
        if beside.is_file() and beside.stat().st_size:
            raise TraceError(
                f"{path} is incomplete: {beside.name} beside it contains {what}. Open it once with the sqlite3 "
                "program, which applies or undoes that, or export the report again."
            )
    return size_there


def _schema(path: Path, connection: sqlite3.Connection, page: Page | None, is_damaged: bool) -> Schema:
    """What the tables of a file, or of a directory of Parquet, are; TraceError if they are none of an Nsight Systems
    export."""
    found = schema(connection, page, is_damaged)
    if "StringTable" in found.tables and any(name.startswith("CUPTI_ACTIVITY_KIND_") for name in found.tables):
        raise TraceError(f"{path} is a profile of nvprof, not an Nsight Systems export. Profile with nsys instead.")
    if parquet_export.STRINGS not in {*found.tables, *found.refused} and not is_damaged:
        names = ", ".join(sorted(found.tables)[:4]) or "none"
        raise TraceError(
            f"{path} is an SQLite database, but not an Nsight Systems export (its tables: {names}). "
            "Give a file that `nsys export --type sqlite` wrote."
        )
    return found


@contextmanager
def _pages(path: Path) -> Iterator[Page | None]:
    """What gives the bytes of a page of a database, None for a directory of Parquet."""
    if path.suffix in parquet_export.SUFFIXES:
        yield None
        return
    with files.opened(path) as file:
        yield partial(_page, file)


def _page(file: BinaryIO, number: int) -> bytes:
    """The bytes of a page of a file; none of a page that is not there."""
    file.seek(_PAGE_SIZE_AT)
    size = int.from_bytes(file.read(2), "big")
    size = 65536 if size == 1 else size
    if not 0 < number < _MOST_PAGES:
        return b""
    file.seek((number - 1) * size)
    content = file.read(size)
    return content if len(content) == size else b""


def tables_of(export: Export, *names: str) -> list[str]:
    """The tables called so, that can hold timed rows; where only versions of one (`NAME_V2`) exist, the newest."""
    tables = []
    for name in names:
        pattern = rf"{name}(?:_V(\d{{1,9}}))?"
        _count_refused(export, pattern, of_events=True)
        versions = [match for table in export.tables if (match := re.fullmatch(pattern, table))]
        if versions:
            tables.append(max(versions, key=lambda match: (match[1] is None, int(match[1] or 0)))[0])
    return tables


def integers(
    export: Export,
    table: str,
    columns: Sequence[str],
    where: str = "",
    never_null: Collection[str] = (),
    all_or_none: Collection[str] = (),
) -> dict[str, NDArray[np.int64]]:
    """Each of `columns` of a table as int64, shape (rows,), in the table's order; NULL and absent ones are MISSING.

    So are values that are no integers, or numbers that a column of its name never has, which are counted in
    `Export.lost`; and so is NULL in the columns which are `never_null` in what nsys writes, such a column that is
    absent, and NULL in those of which some exports have `all_or_none`, where others are not. `where` is a condition in
    SQL.
    """
    count_lost_columns(export, table, columns)
    have = [name for name in columns if name in export.tables[table]]
    parts: list[list[NDArray[np.int64]]] = [[] for _ in have]
    bad = dict.fromkeys(have, 0)
    rows_read = 0
    for text_of_columns, length, of_rows, bounds in _chunks(export, table, have, where):
        rows_read += length
        for name, part, text in zip(have, parts, text_of_columns, strict=True):
            column = _parsed(text, length)
            if column is None:
                column, bad_here = _integers_of(export.connection.execute(of_rows, bounds), name)
                bad[name] += bad_here
            part.append(column)
    values = {name: np.concatenate([_NOTHING, *part]) for name, part in zip(have, parts, strict=True)}
    for name in have:
        nulls = int((values[name] == MISSING).sum()) - bad[name]
        is_lost = name in never_null or (name in all_or_none and nulls + bad[name] < rows_read)
        values[name], odd = _without_odd(name, values[name])
        for count, what in (
            (bad[name], "contains values that are not integers"),
            (odd, "contains numbers that Nsight Systems does not write"),
            (nulls if is_lost else 0, "is null"),
        ):
            if count > 0:
                export.lost.append(Lost(Loss.DETAILS, count, rows_read, f"{table}.{name} {what}"))
    for name in never_null:
        if rows_read and name not in have:
            export.lost.append(Lost(Loss.DETAILS, rows_read, rows_read, f"{table}.{name} is missing"))
    return {name: values.get(name, np.full(rows_read, MISSING, np.int64)) for name in columns}


def _chunks(
    export: Export, table: str, have: Sequence[str], where: str
) -> Iterator[tuple[list[bytes], int, str, Mapping[str, int]]]:
    """Some rows of a table at a time: the values of each of its columns `have` as a text, separated by commas, how many
    rows these are, and the query for them with its parameters."""
    # SQLite writes each column as one text and numpy reads it: no Python object a value (1 M rows of 9 columns take
    # 0.75 s, 1.3 s as tuples of int). Some rows at a time, for the memory and for SQLite's longest text.
    texts_of = "".join(f'group_concat(ifnull("{name}", :missing)), ' for name in have)
    own = ", ".join(["rowid AS at_row", *(f'"{name}"' for name in have)])
    whole = table not in export.damaged or export.damaged[table].stretches is None
    queries = [] if whole else _selects(export, own, table, where)
    after = f"{_select(own, table, where, after=':after')} LIMIT {_ROWS_AT_ONCE}"
    rows_read, before = 0, MISSING
    while whole or queries:
        of_rows = after if whole else queries.pop(0)
        query = f"SELECT {texts_of} count(*), min(at_row), max(at_row) FROM ({of_rows})"
        bounds = {"after": before} if whole else {}
        *text_of_columns, length, first, at = export.connection.execute(
            query, {**bounds, "missing": MISSING}
        ).fetchone()
        if not length and whole:
            return
        if not length:
            continue
        is_behind = rows_read > 0 and first <= before
        rows_read += length
        if is_behind or length > at - first + 1 or rows_read > export.most_rows:
            raise sqlite3.DatabaseError(_REPEATED)
        yield text_of_columns, length, of_rows, bounds
        before = at


def _without_odd(name: str, values: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """The values of a column without the numbers that none of its name has, and how many these are."""
    if name in _SERIALIZED:  # no process has the number 0, which stands alone for none
        odd = (values < 0) | ((values != 0) & (values >> TID_BITS & ID_MASK == 0))
    elif name in _PAST:
        odd = (values < 0) | (values >= _PAST[name])
    else:
        return values, 0
    odd &= values != MISSING
    count = int(odd.sum())
    return (np.where(odd, MISSING, values) if count else values), count


def _parsed(text: bytes, length: int) -> NDArray[np.int64] | None:
    """The `length` integers of a comma-separated text, None if it holds anything else."""
    try:
        values = np.fromstring(text, np.int64, sep=",")
    except (DeprecationWarning, ValueError):
        values = _NOTHING
    # What is no integer ends the reading early, with a warning that Python hides.
    return values if len(values) == length else None


def _integers_of(cursor: sqlite3.Cursor, name: str) -> tuple[NDArray[np.int64], int]:
    """A column of a table of which some values are no integers, and how many are not, nor NULL."""
    place = [column for column, *_ in cursor.description].index(name)
    cells = [row[place] for row in cursor]
    bad = sum(not isinstance(cell, int | None) for cell in cells)
    return np.array([cell if isinstance(cell, int) else MISSING for cell in cells], np.int64), bad


def select(table: T, rows: NDArray[np.bool_] | NDArray[np.int64]) -> T:
    """Those `rows`, a mask or places, of a dataclass whose arrays are columns."""
    columns = {name: values[rows] for name, values in vars(table).items() if isinstance(values, np.ndarray)}
    return replace(table, **columns)


def texts(export: Export, table: str, column: str, where: str = "") -> list[bytes | None]:
    """One text or binary column of a table, in the table's order; empty if the table has no such column."""
    if column not in export.tables.get(table, ()):
        if table in export.tables:
            count_lost_columns(export, table, [column])
        return []
    values = [value for (value,) in _fetched(export, _selects(export, f'"{column}"', table, where))]
    return [value if isinstance(value, bytes | None) else str(value).encode() for value in values]


def _fetched(export: Export, queries: Iterable[str]) -> list[tuple[Any, ...]]:
    """The rows that queries on one table give."""
    found: list[tuple[Any, ...]] = []
    for query in queries:
        found += export.connection.execute(query).fetchmany(export.most_rows + 1)
        if len(found) > export.most_rows:
            raise sqlite3.DatabaseError(_REPEATED)
    return found


def _selects(export: Export, what: str, table: str, where: str = "") -> list[str]:
    """The queries for `what` of the rows of a table, one after the other: of one with damaged pages one for each
    stretch that can be read, which asks for no row behind it."""
    stretches = export.damaged[table].stretches if table in export.damaged else None
    if stretches is None:
        return [_select(what, table, where)]
    only = f" WHERE {where}" if where else ""
    return [
        f'SELECT {what} FROM (SELECT rowid, * FROM "{table}" NOT INDEXED WHERE rowid >= {first} ORDER BY rowid '
        f"LIMIT {count}){only} ORDER BY rowid"
        for first, count in stretches
    ]


def _select(what: str, table: str, where: str, after: str = "") -> str:
    # In this order always, so that columns which were asked for one after the other fit together.
    conditions = [f"({condition})" for condition in (where, f"rowid > {after}" if after else "") if condition]
    only = " WHERE " + " AND ".join(conditions) if conditions else ""
    return f'SELECT {what} FROM "{table}" NOT INDEXED{only} ORDER BY rowid'  # an index that is damaged gives other rows


def strings(export: Export, ids: NDArray[np.int64], never_empty: bool = False) -> dict[int, str]:
    """The texts of the string ids that exist among `ids`; of millions of strings only those are read.

    Those that do not are counted, and so are texts without a letter where they are `never_empty`.
    """
    wanted_ids = np.sort(pd.unique(ids[ids != MISSING])).tolist()
    texts_by_id: dict[int, str] = {}
    nulls = 0
    for key, value in _strings(export, wanted_ids):
        texts_by_id[key] = decoded(value) or ""
        nulls += value is None or (never_empty and not texts_by_id[key])
    missing = len(wanted_ids) - len(texts_by_id) + nulls
    if missing > 0:
        evidence = f"{_LACKING} {missing:,} of the {len(wanted_ids):,} names that events have"
        export.lost.append(Lost(Loss.TABLES, 1, None, evidence))
    return texts_by_id


def _strings(export: Export, wanted_ids: list[int]) -> Iterator[tuple[int, object]]:
    """The ids and texts of the strings of these ids."""
    of_names = "id, CASE typeof(value) WHEN 'blob' THEN NULL ELSE value END"  # which no name is
    if parquet_export.STRINGS in export.damaged:  # to ask for an id in a damaged page is an error
        wanted = {*wanted_ids}
        for query in _selects(export, of_names, parquet_export.STRINGS):
            yield from (row for row in export.connection.execute(query) if row[0] in wanted)
        return
    for at in range(0, len(wanted_ids), _IDS_AT_ONCE):
        chunk = ",".join(map(str, wanted_ids[at : at + _IDS_AT_ONCE]))
        yield from export.connection.execute(
            f"SELECT {of_names} FROM {parquet_export.STRINGS} NOT INDEXED WHERE id IN ({chunk})"
        )


def decoded(value: object) -> str | None:
    """A text as SQLite gave it (bytes), or a number; None for NULL."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else None if value is None else str(value)


def rows(export: Export, table: str, *columns: str) -> list[tuple[object, ...]]:
    """The rows of a small table, texts decoded; absent columns are None; no rows if there is no such table."""
    _count_refused(export, table)
    have = export.tables.get(table)
    if have is None:
        return []
    count_lost_columns(export, table, columns)
    selected = ", ".join(f'"{name}"' if name in have else "NULL" for name in columns)
    of_bytes = " + ".join(f"(typeof(\"{name}\") = 'blob')" for name in columns if name in have) or "0"
    what = f"{of_bytes}, {selected}"
    is_whole = table not in export.damaged
    queries = [f'SELECT {what} FROM "{table}" NOT INDEXED'] if is_whole else _selects(export, what, table)
    found = _fetched(export, queries)
    if damaged := sum(row[0] for row in found):
        evidence = f"{table} contains bytes where texts or numbers belong"
        export.lost.append(Lost(Loss.DETAILS, damaged, len(found), evidence))
    return [tuple(decoded(value) if isinstance(value, bytes) else value for value in row[1:]) for row in found]


def count_odd_types(export: Export, table: str, column: str, kinds: Sequence[str]) -> None:
    """Count the values of a column that are of none of these kinds of SQLite, nor NULL, where others are."""
    if column not in export.tables[table]:
        count_lost_columns(export, table, [column])
        return
    right = ", ".join(f"'{kind}'" for kind in kinds)
    kind_of = f'typeof("{column}")'
    found = _fetched(export, _selects(export, "rowid", table, f"{kind_of} NOT IN ({right}, 'null')"))
    others = _selects(export, "1", table, f"{kind_of} IN ({right})")
    if found and any(export.connection.execute(f"{query} LIMIT 1").fetchone() for query in others):
        evidence = f"{table}.{column} contains values that are no {' or '.join(kinds)}"
        export.lost.append(Lost(Loss.DETAILS, len(found), None, evidence))


def has_rows(export: Export, table: str) -> bool:
    """Whether a table holds anything."""
    stretches = export.damaged[table].stretches if table in export.damaged else None
    if stretches is not None:
        return bool(stretches)
    return export.connection.execute(f'SELECT 1 FROM "{table}" NOT INDEXED LIMIT 1').fetchone() is not None
