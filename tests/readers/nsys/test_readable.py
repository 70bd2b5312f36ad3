"""Exports of which pages are damaged: each row that SQLite can be brought to read is read, and the others are counted.

What can be read a brute-force oracle tells, which asks SQLite for each row of the whole export by its number.
"""

import random
import re
import sqlite3
from contextlib import closing

import pytest

from tests.readers.nsys.exports import Tables, rows
from tracekit.errors import TraceError
from tracekit.readers import nsys
from tracekit.readers.nsys import sqlite_export
from tracekit.report.trace_contents import no_device_work

PAGE = 512
KERNELS, CALLS, RANGES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
COUNT = 1500


def many() -> Tables:
    """Kernels, their launches, and ranges of which some have names that go on in other pages."""
    tables = Tables()
    for at in range(COUNT):
        tables.call("cudaLaunchKernel_v7000", 100 * at, 100 * at + 10, at + 1)
        tables.kernel(f"k{at % 7}", 100 * at + 20, 100 * at + 60, correlationId=at + 1)
        tables.range("r" + "x" * (1200 if at % 40 == 0 else 3), 100 * at + 5, 100 * at + 90)
    return tables


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    return many().write(tmp_path_factory.mktemp("whole") / "report.sqlite", page_size=PAGE)


def connected(path):
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    connection.text_factory = bytes
    connection.execute("PRAGMA writable_schema = ON")
    return connection


def table_rows(path, table):
    """The rows of a whole table by their numbers."""
    with closing(connected(path)) as base:
        return {number: row for number, *row in base.execute(f'SELECT rowid, * FROM "{table}"')}


def readable_rows(path, table, whole):
    """The numbers of the rows that SQLite can be brought to read, one after the other."""
    found = []
    with closing(connected(path)) as base:
        for number, row in whole.items():
            try:
                one = base.execute(f'SELECT * FROM "{table}" NOT INDEXED WHERE rowid = ?', (number,)).fetchone()
            except (sqlite3.DatabaseError, UnicodeDecodeError):
                continue
            if one is not None and one[0] == row[0]:
                found.append(number)
    return found


def root_of(path, table):
    with closing(connected(path)) as base:
        return base.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]


def page_of(data, number):
    return data[(number - 1) * PAGE : number * PAGE]


def pages_below(data, number):
    """The pages below one of a table, in the order of the rows."""
    page = page_of(data, number)
    return [*_below(page), int.from_bytes(page[8:12], "big")] if page[0] == 5 else []


def _below(page):
    """The pages below a page of a table or an index, but for the last."""
    places = [int.from_bytes(page[12 + 2 * at : 14 + 2 * at], "big") for at in range(int.from_bytes(page[3:5], "big"))]
    return [int.from_bytes(page[place : place + 4], "big") for place in places]


def leaves(path, table):
    """The pages of the rows of a table, in their order."""
    data = path.read_bytes()
    level = [root_of(path, table)]
    while data[(level[0] - 1) * PAGE] == 5:
        level = [below for number in level for below in pages_below(data, number)]
    return level


def damaged(path, directory, *numbers, by=bytes(PAGE)):
    """A copy of an export of which other bytes stand in some pages."""
    data = bytearray(path.read_bytes())
    for number in numbers:
        data[(number - 1) * PAGE : number * PAGE] = by
    copy = directory / "report.sqlite"
    copy.write_bytes(data)
    return copy


def changed(path, directory, *statements):
    """A copy of an export after some statements of SQL."""
    copy = directory / "changed.sqlite"
    copy.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(copy)) as base:
        for statement in statements:
            base.execute(statement)
        base.commit()
    return copy


def losses(trace):
    return rows(trace.losses, "what", "lost", "total")


@pytest.mark.parametrize("by", [bytes(PAGE), b"\xff" * PAGE, b"\x0d" + bytes(PAGE - 1)])
@pytest.mark.parametrize("table", [KERNELS, CALLS, RANGES])
def test_a_damaged_page_costs_its_own_rows_which_are_counted(export, tmp_path, table, by):
    of_table = leaves(export, table)
    whole = table_rows(export, table)
    for number in (of_table[0], of_table[3], of_table[-2]):
        path = damaged(export, tmp_path, number, by=by)
        left = len(readable_rows(path, table, whole))
        assert 0 < COUNT - left < 30
        trace = nsys.read(path)
        assert losses(trace) == [["events", COUNT - left, COUNT]]
        counts = {KERNELS: len(trace.events), CALLS: len(trace.launches), RANGES: len(trace.spans)}
        assert counts[table] == left


def test_of_rows_behind_all_that_can_be_read_no_more_are_counted_than_a_page_holds(export, tmp_path):
    path = damaged(export, tmp_path, leaves(export, KERNELS)[-1])
    left = len(readable_rows(path, KERNELS, table_rows(export, KERNELS)))
    trace = nsys.read(path)
    ((what, lost, total),) = losses(trace)
    assert (what, len(trace.events), total) == ("events", left, left + lost)
    assert COUNT - left <= lost < 30
    assert "which held no more than these" in trace.notes[0]


def test_a_damaged_page_above_others_costs_the_rows_below_it(export, tmp_path):
    inner = pages_below(export.read_bytes(), root_of(export, KERNELS))
    assert len(pages_below(export.read_bytes(), inner[0])) > 1
    whole = table_rows(export, KERNELS)
    path = damaged(export, tmp_path, inner[0])
    left = len(readable_rows(path, KERNELS, whole))
    trace = nsys.read(path)
    assert len(trace.events) == left < COUNT
    assert losses(trace)[0] == ["events", COUNT - left, COUNT]


def test_a_table_of_which_no_row_can_be_read_is_lost(export, tmp_path):
    trace = nsys.read(damaged(export, tmp_path, root_of(export, RANGES)))
    assert len(trace.events) == COUNT
    assert losses(trace) == [["tables", 1, 4]]
    assert "how many rows these held is not known" in trace.notes[0]


def _goes_on(data, number):
    page = page_of(data, int.from_bytes(number, "big"))
    return number[:2] == bytes(2) and page[2:4] != bytes(2) and page[4:8] == b"xxxx"


def test_a_page_that_one_long_row_goes_on_in_costs_that_row(export, tmp_path):
    data = export.read_bytes()
    below = {number.to_bytes(4, "big"): number for number in range(2, len(data) // PAGE + 1)}
    # A row that goes on ends with the number of that page, and that page begins with the number of the next.
    first = page_of(data, leaves(export, RANGES)[0])
    overflow = next(below[first[at : at + 4]] for at in range(PAGE - 4, 0, -1) if _goes_on(data, first[at : at + 4]))
    path = damaged(export, tmp_path, overflow)
    assert len(readable_rows(path, RANGES, table_rows(export, RANGES))) == COUNT - 1
    trace = nsys.read(path)
    assert len(trace.spans) == COUNT - 1
    assert losses(trace) == [["events", 1, COUNT]]


def test_a_page_of_another_table_in_the_place_of_one_is_not_read(export, tmp_path):
    first = leaves(export, CALLS)[0]
    path = damaged(export, tmp_path, leaves(export, KERNELS)[0], by=page_of(export.read_bytes(), first))
    left = len(readable_rows(path, KERNELS, table_rows(export, KERNELS)))
    trace = nsys.read(path)
    assert len(trace.events) == left < COUNT
    assert losses(trace)[0] == ["events", COUNT - left, COUNT]


def test_damaged_names_that_no_event_has_are_no_loss_and_others_are(tmp_path):
    tables = many()
    for number in range(200):
        tables.string(f"not the name of anything {number}")
    export = tables.write(tmp_path / "whole.sqlite", page_size=PAGE)
    *_, middle, _ = leaves(export, "StringIds")
    trace = nsys.read(damaged(export, tmp_path, middle))
    assert not len(trace.losses)
    assert "Damaged in the export, but not needed: StringIds." in trace.notes
    assert trace.events["name"].unique().tolist() == [f"k{at}" for at in range(7)]
    trace = nsys.read(damaged(export, tmp_path, leaves(export, "StringIds")[0]))
    assert "tables" in trace.losses["what"].tolist()
    assert not any("not needed" in note for note in trace.notes)


def test_a_damaged_index_costs_nothing(export, tmp_path):
    path = changed(export, tmp_path, f"CREATE INDEX by_start ON {KERNELS} (start)")
    whole = nsys.read(path).events.drop(columns="host")  # which is the file's name
    path = damaged(path, tmp_path, pages_below_index(path)[1])
    trace = nsys.read(path)
    assert not len(trace.losses)
    assert trace.events.drop(columns="host").equals(whole)
    path = damaged(path, tmp_path, leaves(path, KERNELS)[5])
    left = len(readable_rows(path, KERNELS, table_rows(export, KERNELS)))
    trace = nsys.read(path)
    assert losses(trace) == [["events", COUNT - left, COUNT]]
    assert "no more than these" not in trace.notes[0]


def test_a_table_that_got_a_column_later_is_whole(export, tmp_path):
    column, other = f"ALTER TABLE {KERNELS} ADD COLUMN mine", "CREATE TABLE other AS SELECT * FROM StringIds"
    path = changed(export, tmp_path, column, other)
    trace = nsys.read(damaged(path, tmp_path, root_of(path, "other")))
    assert len(trace.events) == COUNT
    assert not len(trace.losses)


def test_a_page_of_another_table_in_the_place_of_the_schema_is_told(tmp_path):
    tables = many()
    for number in range(40):
        tables.add(f"ENUM_{number}", id=1, label="x" * 20)
    export = tables.write(tmp_path / "whole.sqlite", page_size=PAGE)
    data = export.read_bytes()
    _, second, *_ = _schema_pages(data)
    path = damaged(export, tmp_path, second, by=page_of(data, leaves(export, CALLS)[4]))
    trace = nsys.read(path)
    assert "tables" in trace.losses["what"].tolist()


def _schema_pages(data):
    """The pages of the schema, in the order of its rows."""
    places = [
        int.from_bytes(data[112 + 2 * at : 114 + 2 * at], "big") for at in range(int.from_bytes(data[103:105], "big"))
    ]
    level = [int.from_bytes(data[place : place + 4], "big") for place in [*places, 108]]
    while page_of(data, level[0])[0] == 5:
        level = [below for number in level for below in pages_below(data, number)]
    return level


def pages_below_index(path):
    return _below(page_of(path.read_bytes(), root_of(path, "by_start")))


def test_rows_that_were_deleted_are_not_counted_as_lost(export, tmp_path):
    path = changed(export, tmp_path, f"DELETE FROM {RANGES} WHERE rowid % 3 = 0")
    whole = table_rows(path, RANGES)
    damaged_path = damaged(path, tmp_path, leaves(path, RANGES)[2])
    left = len(readable_rows(damaged_path, RANGES, whole))
    trace = nsys.read(damaged_path)
    ((what, lost, _),) = losses(trace)
    assert what == "events"
    assert len(whole) - left <= lost < COUNT // 4
    assert "no more than these" in trace.notes[0]


@pytest.mark.parametrize("shift", [-COUNT - 500, -700])
def test_of_rows_with_negative_numbers_no_fewer_than_none_are_lost(export, tmp_path, shift):
    with closing(connected(export)) as base:
        columns = ", ".join(name.decode() for _, name, *_ in base.execute(f"PRAGMA table_info({KERNELS})"))
    path = changed(
        export,
        tmp_path,
        f"CREATE TABLE other AS SELECT rowid + {shift} AS number, * FROM {KERNELS}",
        f"DELETE FROM {KERNELS}",
        f"INSERT INTO {KERNELS} (rowid, {columns}) SELECT number, {columns} FROM other",
        "DROP TABLE other",
    )
    whole = table_rows(path, KERNELS)
    assert (len(whole), min(whole)) == (COUNT, 1 + shift)
    damaged_path = damaged(path, tmp_path, leaves(path, KERNELS)[3])
    left = len(readable_rows(damaged_path, KERNELS, whole))
    trace = nsys.read(damaged_path)
    ((what, lost, total),) = losses(trace)
    assert (what, len(trace.events)) == ("events", left)
    assert lost is None or (COUNT - left <= lost < 30 and total == left + lost)


def _random_damage(data, random_numbers):
    data = bytearray(data)
    for _ in range(random_numbers.randint(1, 3)):
        at, other = (PAGE * random_numbers.randrange(1, len(data) // PAGE) for _ in range(2))
        here = bytes(data[at : at + PAGE])
        kind = random_numbers.choice(["zeros", "garbage", "swapped"])
        if kind == "swapped":
            data[at : at + PAGE], data[other : other + PAGE] = data[other : other + PAGE], here
        else:
            data[at : at + PAGE] = bytes(PAGE) if kind == "zeros" else random_numbers.randbytes(PAGE)
    return bytes(data)


@pytest.mark.parametrize("seed", range(60))
def test_all_rows_that_can_be_read_are_and_all_others_are_counted(export, tmp_path, seed):
    path = tmp_path / "report.sqlite"
    path.write_bytes(_random_damage(export.read_bytes(), random.Random(seed)))
    whole = {table: table_rows(export, table) for table in (KERNELS, CALLS, RANGES)}
    try:
        with sqlite_export.opened(path, is_damaged=True) as found:
            for table, expected in whole.items():
                left = readable_rows(path, table, expected)
                starts = sqlite_export.integers(found, table, ("start",))["start"] if table in found.tables else []
                assert [*starts] == [expected[number][0] for number in left], table
                if not (told := found.damaged.get(table)):
                    assert len(left) == COUNT or found.lost or table in found.refused
                elif told.lost is not None:
                    assert told.lost == COUNT - len(left) or (not told.is_exact and told.lost > COUNT - len(left))
    except TraceError:
        pass
    try:
        trace = nsys.read(path)
    except TraceError:  # of a page that all of the file rests on
        return
    is_whole = len(trace.events) == len(trace.spans) == COUNT and trace.events["name"].nunique() == 7
    assert is_whole or len(trace.losses)


@pytest.mark.parametrize("seed", range(40))
def test_of_a_truncated_file_all_that_is_there_is_read_and_the_rest_is_counted(export, tmp_path, seed):
    data, at = export.read_bytes(), random.Random(seed)
    size = at.choice([at.randrange(PAGE, len(data)), PAGE * at.randrange(1, len(data) // PAGE), len(data) - 1])
    path = tmp_path / "report.sqlite"
    path.write_bytes(data[:size])
    there = f"it has {size:,} of {len(data):,} bytes"
    whole = {table: table_rows(export, table) for table in (KERNELS, CALLS, RANGES)}
    if not readable_rows(path, "StringIds", table_rows(export, "StringIds")):
        with pytest.raises(TraceError, match=re.escape(f"{path} is truncated ({there}): ")):
            nsys.read(path)
        return
    trace = nsys.read(path)
    lost = {row["evidence"]: row for row in trace.losses.to_dict("records")}
    is_schema_whole = not any("schema" in evidence for evidence in lost)
    assert trace.notes[0] == f"Some details of devices and events could not be read (the file is truncated: {there})."
    for table, read in ((KERNELS, trace.events), (CALLS, trace.launches), (RANGES, trace.spans)):
        left = readable_rows(path, table, whole[table])
        if table != CALLS or len(trace.events):  # of calls those count whose work is there
            # Of the last page, of which a part is there, SQLite may find some rows.
            assert 0 <= len(left) - len(read) < (1 if size % PAGE == 0 else 20)
        if is_schema_whole and len(left) < COUNT:
            of_table = next(row for evidence, row in lost.items() if evidence.startswith(f"{table} "))
            assert of_table["what"] == "tables" or of_table["lost"] >= COUNT - len(left)


@pytest.mark.timeout(60)
def test_of_pages_that_are_not_there_none_is_looked_for(export, tmp_path):
    data = bytearray(export.read_bytes())
    data[28:32] = (1 << 26).to_bytes(4, "big")  # as many as the file says that it has
    (tmp_path / "report.sqlite").write_bytes(data)
    trace = nsys.read(tmp_path / "report.sqlite")
    assert len(trace.events) == len(trace.spans) == COUNT
    assert "the file is truncated" in trace.losses["evidence"].iat[0]


def test_of_a_trace_that_lost_all_work_nothing_says_that_no_device_worked(export, tmp_path):
    trace = nsys.read(damaged(export, tmp_path, root_of(export, KERNELS)))
    assert not len(trace.events)
    assert not any("no kernels" in note for note in trace.notes)
    assert no_device_work(trace).startswith(
        "No work of a device is known. 1 of 4 tables could not be read (CUPTI_ACTIVITY"
    )
