"""One row of the schema of an export, or one byte of a page's head, is damaged: it costs itself, and is told."""

import sqlite3
from contextlib import closing

import pytest

from tests.readers.nsys.exports import Tables
from tracekit.errors import TraceError
from tracekit.readers import nsys
from tracekit.readers.nsys import sqlite_export

KERNELS, RANGES, CALLS = "CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME"
UNNEEDED = ("OSRT_API", "sorted", "kernels", "counted")  # a table, an index, a view and a trigger
PAGE = 1024


def definition(table, columns):
    """The text of a table as Nsight Systems writes it: a column a line, and a comment behind each."""
    types = {"id": "INTEGER   NOT NULL   PRIMARY KEY", "text": "TEXT", "value": "TEXT", "binaryData": "BLOB"}
    lines = [
        f"    {column:27} {types.get(column, 'INTEGER')}{',' if column != columns[-1] else ' '}  -- What it is."
        for column in columns
    ]
    return f"CREATE TABLE {table} (\n" + "\n".join(lines) + "\n)"


@pytest.fixture
def export(tmp_path):
    """An export whose schema takes several pages, with a table, an index, a view and a trigger that nothing needs."""
    tables = Tables().add("OSRT_API", start=1, end=2, nameId=1).copy(1, 460, 470, correlationId=1)
    tables.call("cudaMemcpyAsync_v3020", 450, 455, 1)
    for number in range(40):
        tables.kernel(f"kernel {number % 5}", 500 + 10 * number, 505 + 10 * number, correlationId=2 + number)
        tables.call("cudaLaunchKernel_v7000", 490 + number, 491 + number, 2 + number)
        tables.range(f"range {number}", 480 + number, 900)
    path = tmp_path / "report.sqlite"
    with closing(sqlite3.connect(path)) as base:
        base.execute(f"PRAGMA page_size = {PAGE}")
        for table, rows in tables.rows.items():
            base.execute(definition(table, [*rows[0]]))
            places = ", ".join("?" * len(rows[0]))
            base.executemany(f"INSERT INTO {table} VALUES ({places})", [(*row.values(),) for row in rows])
        base.execute(f"CREATE INDEX sorted ON {RANGES} (eventType, domainId, start)")
        base.execute(f"CREATE VIEW kernels AS SELECT * FROM {KERNELS}")
        base.execute("CREATE TRIGGER counted AFTER INSERT ON StringIds BEGIN SELECT 1; END")
        base.commit()
    return path


def frames(trace):
    return [getattr(trace, name).to_csv() for name in ("events", "launches", "spans", "syncs", "hosts", "devices")]


def root(path, table):
    with closing(sqlite3.connect(path)) as base:
        return base.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]


def change(path, entry, column, value):
    """Give a column of the entry of the schema another value, as no statement of SQL does."""
    with closing(sqlite3.connect(path)) as base:
        base.execute("PRAGMA writable_schema = ON")
        base.execute(f"UPDATE sqlite_master SET {column} = ? WHERE name = ?", (value, entry))
        base.commit()


def text_of(path, entry):
    with closing(sqlite3.connect(path)) as base:
        return base.execute("SELECT sql FROM sqlite_master WHERE name = ?", (entry,)).fetchone()[0]


def told(trace):
    return " ".join(trace.losses["evidence"])


DAMAGES = [
    *[("sql", text) for text in ("", None, b"\xff\xfe", "CREATE VIEW other AS SELECT 1", "half")],
    *[("type", value) for value in (None, "tabl\x01")],
    *[("name", value) for value in (None, "garb\x01ge")],
    *[("tbl_name", value) for value in ("", b"\xff")],
    *[("rootpage", value) for value in (None, 0, 1, 5000, CALLS)],
]


def damage(path, entry, column, value):
    """Give the export that damage."""
    if value == "half":
        value = text_of(path, entry)[:20]
    if column == "rootpage" and value == CALLS:
        value = root(path, CALLS)
    change(path, entry, column, value)


@pytest.mark.parametrize(("column", "value"), DAMAGES)
@pytest.mark.parametrize("entry", UNNEEDED)
def test_an_entry_of_the_schema_that_nothing_needs_costs_nothing(export, entry, column, value):
    whole = frames(nsys.read(export))
    damage(export, entry, column, value)
    trace = nsys.read(export)
    assert frames(trace) == whole
    # SQLite checks the pages of an index with those of its table.
    assert not len(trace.losses) or (entry, column) == ("sorted", "rootpage")


@pytest.mark.parametrize(("column", "value"), DAMAGES)
@pytest.mark.parametrize("entry", [KERNELS, RANGES])
def test_an_entry_of_the_schema_costs_its_own_table_and_is_told(export, entry, column, value):
    whole = nsys.read(export)
    damage(export, entry, column, value)
    trace = nsys.read(export)
    if column in ("rootpage", "sql"):
        assert entry in told(trace)
        assert {*trace.losses["what"]} == {"tables"} | ({"events"} if entry == KERNELS else set())
    else:  # the two other places that tell its name are left, or its text tells what it is
        assert frames(trace) == frames(whole)
        assert not len(trace.losses)
    others = "spans" if entry == KERNELS else "events"
    assert getattr(trace, others)["name"].tolist() == getattr(whole, others)["name"].tolist()


def test_strings_whose_entry_is_damaged_are_one_sentence(export):
    change(export, "StringIds", "sql", "garbage")
    with pytest.raises(TraceError, match=r"^\S+ is a corrupt SQLite database: StringIds cannot be read\. Export"):
        nsys.read(export)


@pytest.mark.parametrize("line", [1, 3, 8])
@pytest.mark.parametrize("table", [KERNELS, CALLS])
def test_a_comment_that_lost_its_end_moves_no_value_into_another_column(export, table, line):
    text = text_of(export, table)
    lines = text.split("\n")
    change(export, table, "sql", "\n".join(lines[:line]) + "\v" + "\n".join(lines[line:]))
    assert f"its definition is damaged: {table}" in told(nsys.read(export))


@pytest.mark.parametrize(
    ("table", "column", "other"),
    [
        (RANGES, "textId", "textIe"),
        (RANGES, "text ", "texT "),
        (KERNELS, "globalPid", "globqlPid"),
        (KERNELS, "demangledName", "demangledNamf"),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "dstKind ", "dstKind0"),
        (CALLS, "(\n    start", "(x   start"),
    ],
)
def test_a_column_whose_name_is_damaged_is_told(export, table, column, other):
    change(export, table, "sql", text_of(export, table).replace(column, other, 1))
    trace = nsys.read(export)
    assert "tables" in trace.losses["what"].tolist()
    assert f"the name of {table}.{column.split()[-1]} is damaged" in told(trace)


def test_a_page_of_which_one_byte_of_the_head_is_damaged_changes_no_figure_silently(export):
    data = export.read_bytes()
    whole = frames(nsys.read(export))
    outcomes = {"told": 0, "same": 0, "refused": 0}
    for page in range(1, len(data) // PAGE + 1):
        at = (page - 1) * PAGE + (100 if page == 1 else 0)
        for byte in range(8):
            broken = bytearray(data)
            broken[at + byte] ^= 1 + 7 * (page % 2)
            export.write_bytes(broken)
            try:
                trace = nsys.read(export)
            except TraceError:
                outcomes["refused"] += 1
                continue
            outcomes["told" if len(trace.losses) else "same"] += 1
            assert len(trace.losses) or frames(trace) == whole, (page, byte)
    assert outcomes["told"] > outcomes["refused"] > 0


def test_a_row_of_the_schema_that_is_gone_is_told(export):
    with closing(sqlite3.connect(export)) as base:
        base.execute("PRAGMA writable_schema = ON")
        base.execute("DELETE FROM sqlite_master WHERE name = ?", (RANGES,))
        base.commit()
    trace = nsys.read(export)
    assert not len(trace.spans)
    assert "whose pages the schema does not lead to" in told(trace)


def test_what_is_damaged_and_not_needed_is_a_note(export):
    change(export, "OSRT_API", "sql", "garbage")
    trace = nsys.read(export)
    assert not len(trace.losses)
    assert "Damaged in the export, but not needed: OSRT_API." in trace.notes


def test_an_export_that_tells_no_number_of_its_pages_is_read(export):
    """SQLite counts them itself then; its entries are looked through as those of a damaged file are."""
    whole = frames(nsys.read(export))
    data = bytearray(export.read_bytes())
    data[28:32] = bytes(4)
    export.write_bytes(data)
    with sqlite_export.opened(export, True) as opened:
        assert KERNELS in opened.tables
    assert frames(nsys.read(export)) == whole
