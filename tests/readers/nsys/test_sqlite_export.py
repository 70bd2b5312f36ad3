"""Files given as Nsight Systems exports: each that cannot be read is one sentence, and none is touched."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest

from tests.readers.nsys.exports import Tables
from tracekit.errors import TraceError
from tracekit.readers import nsys
from tracekit.readers.content import content


@pytest.fixture
def export(tmp_path):
    return Tables().kernel("k", 0, 9).range("r", 1, 2).write(tmp_path / "report.sqlite")


def message_of(path) -> str:
    with pytest.raises(TraceError) as error:
        nsys.read(path)
    text = str(error.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    assert text.endswith(".")
    return text.removeprefix(str(path))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty (0 bytes)."),
        (b"hello, world" * 99, "is not an SQLite database."),
        (bytes(5000), "is not an SQLite database."),
        (b"SQLite format 3\0", "is truncated (it has 16 of 100 bytes)."),
        (b"SQLite", "is truncated (it has 6 of 100 bytes)."),
    ],
)
def test_what_is_no_database_is_told_from_one_that_is_cut_short(tmp_path, content, sentence):
    path = tmp_path / "report.sqlite"
    path.write_bytes(content)
    assert message_of(path).startswith(f" {sentence}")


@pytest.mark.parametrize("cut", [50, 100, 4096])
def test_a_database_that_is_cut_before_its_names_is_said_to_be_cut(export, cut):
    whole = export.read_bytes()
    export.write_bytes(whole[:cut])
    there = f"{cut:,} of {len(whole):,} bytes"
    assert message_of(export).startswith(f" is truncated (it has {there})")


@pytest.mark.parametrize("asked", [nsys.read, lambda path: nsys.is_export(content(path), sure=False)])
def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(export, monkeypatch, asked):
    connect = sqlite3.connect

    def connect_late(*address, **options):
        export.unlink()
        os.mkfifo(export)
        return connect(*address, **options)

    monkeypatch.setattr(sqlite3, "connect", connect_late)
    with suppress(TraceError):  # or what the file held, where the system gives it without its name
        asked(export)
    monkeypatch.undo()
    assert message_of(export) == " cannot be read: it is no regular file."


def test_a_page_of_rubbish_is_a_broken_database(export):
    whole = export.read_bytes()
    export.write_bytes(whole[:4096] + b"\xff" * 4096 + whole[8192:])
    assert message_of(export).startswith(" is a corrupt SQLite database: ")


def test_a_message_of_sqlite_that_quotes_rubbish_is_still_one_sentence(export):
    export.write_bytes(export.read_bytes().replace(b"CREATE TABLE", b"CREATE T\xffBLE"))
    assert message_of(export).startswith(" is a corrupt SQLite database: StringIds cannot be read.")


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ("CREATE TABLE notes (line)", " is an SQLite database, but not an Nsight Systems export (its tables: notes)."),
        ("", " is an SQLite database, but not an Nsight Systems export (its tables: none)."),
        (
            "CREATE TABLE StringTable (_id_, value); CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (start)",
            " is a profile of nvprof, not an Nsight Systems export.",
        ),
    ],
)
def test_a_database_of_something_else_is_named(tmp_path, tables, sentence):
    path = tmp_path / "report.sqlite"
    base = sqlite3.connect(path)
    base.executescript(f"PRAGMA user_version = 1; {tables}")
    base.close()
    assert message_of(path).startswith(sentence)


@pytest.mark.parametrize("odd", ["soon", 1.5, b"\xff", "", "1,2"])
def test_a_cell_that_is_no_integer_costs_only_its_row_and_is_told(tmp_path, odd):
    path = Tables().kernel("k", odd, 9).kernel("l", 10, 11).write(tmp_path / "report.sqlite")
    trace = nsys.read(path)
    assert trace.events["name"].tolist() == ["l"]
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["details", 1, 2], ["events", 1, 2]]
    assert "CUPTI_ACTIVITY_KIND_KERNEL.start contains values that are not integers" in trace.notes[0]


def _tree(page: bytes) -> tuple[bool, list[int]]:
    """Whether a page is an inner one of a table, and where in it the numbers of the pages below stand."""
    cells = int.from_bytes(page[3:5], "big")
    return page[0] == 5, [8, *(int.from_bytes(page[12 + 2 * at : 14 + 2 * at], "big") for at in range(cells))]


def test_pages_that_hold_each_other_over_and_over_cost_their_table_and_not_all_memory(tmp_path):
    # Each inner page of the table of kernels holds the same page below it everywhere: of four levels, some 10^8 rows.
    tables = Tables()
    for at in range(3000):
        tables.kernel("k", 10 * at, 10 * at + 5)
    path = tables.write(tmp_path / "report.sqlite", page_size=512)
    data = bytearray(path.read_bytes())
    inner = [at for at in range(512, len(data), 512) if _tree(bytes(data[at : at + 512]))[0]]
    chain = [*inner, next(at for at in range(512, len(data), 512) if data[at] == 13)]
    for page, below in zip(inner, chain[1:], strict=True):
        for place in _tree(bytes(data[page : page + 512]))[1]:
            data[page + place : page + place + 4] = (below // 512 + 1).to_bytes(4, "big")
    path.write_bytes(data)
    assert len(inner) == 4
    trace = nsys.read(path)
    assert not len(trace.events)
    assert "CUPTI_ACTIVITY_KIND_KERNEL has damaged pages" in trace.notes[0]


def test_a_gpu_that_no_machine_has_and_names_that_are_null_are_told(tmp_path):
    tables = Tables().kernel("k", 5, 9).kernel("l", 10, 12, deviceId=2**63 - 1)
    path = tables.write(tmp_path / "report.sqlite")
    trace = nsys.read(path)
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["events", 1, 2]]
    assert trace.events["device"].tolist() == ["gpu:0", "gpu:?"]
    base = sqlite3.connect(path)
    base.execute("UPDATE StringIds SET value = NULL")
    base.commit()
    base.close()
    assert "StringIds lacks 2 of the 2 names that events have" in " ".join(nsys.read(path).notes)


def test_a_session_that_began_at_no_time_has_no_unix_time_and_is_told(tmp_path):
    tables = Tables().kernel("k", 5, 9).add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=2**63 - 1)
    trace = nsys.read(tables.write(tmp_path / "report.sqlite"))
    assert trace.hosts["origin_ns"].isna().tolist() == [True]
    assert "TARGET_INFO_SESSION_START_TIME.utcEpochNs is no time" in trace.notes[0]


@pytest.mark.parametrize(
    "name", ["NVTX_EVENTS", "NVTX_PAYLOAD_SCHEMAS", "CUDA_GPU_MEMORY_USAGE_EVENTS", "DIAGNOSTIC_EVENT", "ThreadNames"]
)
def test_a_table_that_is_a_view_is_counted_once(export, name):
    base = sqlite3.connect(export)
    with suppress(sqlite3.Error):
        base.execute(f"ALTER TABLE {name} RENAME TO old")
    base.execute(f"CREATE VIEW {name} AS SELECT * FROM StringIds")
    base.commit()
    base.close()
    trace = nsys.read(export)
    assert len(trace.events) == 1
    assert trace.losses["evidence"].tolist() == [f"a view, not a table: {name}"]
    assert f"a view, not a table: {name}" in trace.notes[0]


def test_a_view_of_the_users_own_is_no_loss(export):
    base = sqlite3.connect(export)
    base.execute("CREATE VIEW mine AS SELECT * FROM StringIds")
    base.commit()
    base.close()
    assert not len(nsys.read(export).losses)


@pytest.mark.parametrize("kept", ["VIRTUAL", "STORED"])
def test_a_table_whose_columns_are_computed_is_told_and_not_computed(export, kept):
    base = sqlite3.connect(export)
    base.execute("DROP TABLE NVTX_EVENTS")
    base.execute(f"CREATE TABLE NVTX_EVENTS (id, text TEXT GENERATED ALWAYS AS (hex(zeroblob(id))) {kept})")
    base.commit()
    trace = nsys.read(export)
    assert len(trace.events) == 1
    assert "1 table could not be read (columns that are computed, not stored: NVTX_EVENTS)" in trace.notes[0]
    base.execute("DROP TABLE StringIds")
    base.execute(f"CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT AS (hex(zeroblob(id))) {kept})")
    base.commit()
    base.close()
    with pytest.raises(TraceError, match="StringIds has computed columns"):
        nsys.read(export)


@pytest.mark.parametrize(
    ("name", "kind", "is_read"),
    [("rowid", "TEXT DEFAULT 'x'", False), ("RowId", "INTEGER", False), ("rowid", "INTEGER PRIMARY KEY", True)],
)
def test_a_table_with_a_column_called_like_the_number_of_a_row_is_told(export, name, kind, is_read):
    base = sqlite3.connect(export)
    (table,) = (each for (each,) in base.execute("SELECT name FROM sqlite_master") if each.endswith("KIND_KERNEL"))
    columns = [f"{each[1]} {each[2]}" for each in base.execute(f"PRAGMA table_info({table})")]
    names = ", ".join(each.split()[0] for each in columns)
    base.execute(f"ALTER TABLE {table} RENAME TO old")
    base.execute(f"CREATE TABLE {table} ({', '.join(columns)}, {name} {kind})")
    base.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM old")
    base.execute("DROP TABLE old")
    base.commit()
    base.close()
    if is_read:
        assert len(nsys.read(export).events) == 1
    else:
        trace = nsys.read(export)
        assert f"1 table could not be read (a column of its own called rowid: {table})." in trace.notes
        assert trace.losses["what"].tolist() == ["tables"]


def test_changes_that_are_not_in_the_file_yet_are_said_and_not_lost(export):
    writer = sqlite3.connect(export)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("INSERT INTO StringIds VALUES (99, 'x')")
    writer.commit()
    text = message_of(export)
    writer.close()
    assert text.startswith(" is incomplete: report.sqlite-wal beside it contains changes that are not in the file yet.")
    assert len(nsys.read(export).events) == 1


@pytest.mark.parametrize(
    ("mode", "beside", "is_told"), [("WAL", False, True), ("WAL", True, False), ("DELETE", False, False)]
)
def test_a_database_without_its_write_ahead_log_may_lack_what_was_in_it(export, mode, beside, is_told):
    writer = sqlite3.connect(export)
    writer.execute(f"PRAGMA journal_mode={mode}")
    writer.close()
    if beside:
        export.with_name("report.sqlite-wal").touch()
    trace = nsys.read(export)
    assert (sum("write-ahead log" in note for note in trace.notes), len(trace.losses)) == (is_told, 0)


def test_a_journal_beside_the_file_is_an_unfinished_export(export):
    export.with_name("report.sqlite-journal").write_bytes(b"\xd9\xd5\x05\xf9")
    assert message_of(export).startswith(
        " is incomplete: report.sqlite-journal beside it contains an unfinished change."
    )


def test_reading_writes_nothing_into_the_file_or_beside_it(export):
    writer = sqlite3.connect(export)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.close()
    before = export.read_bytes(), export.stat().st_mtime_ns
    assert len(nsys.read(export).events) == 1
    assert (export.read_bytes(), export.stat().st_mtime_ns) == before
    assert [file.name for file in export.parent.iterdir()] == ["report.sqlite"]


def test_names_that_a_uri_would_misread_are_read(export):
    odd = export.rename(export.with_name("a?b#c%20 d.sqlite"))
    assert nsys.read(odd).hosts["host"].tolist() == ["a?b#c%20 d"]


@pytest.mark.parametrize("name", ["report.nsys-rep", "report.qdrep"])
def test_a_report_of_nsys_is_told_how_to_export_it(name):
    assert nsys.export_hint(Path("runs") / name) == (
        f'runs/{name} is a report that only Nsight Systems can read: run `nsys export --type sqlite "runs/{name}"` '
        "and give the .sqlite file that it writes."
    )


def test_a_raw_stream_is_told_to_be_finished_first():
    text = nsys.export_hint(Path("report.qdstrm"))
    assert "QdstrmImporter" in text
    assert 'nsys export --type sqlite "report.nsys-rep"' in text
