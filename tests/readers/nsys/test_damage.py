"""One value after the other of a whole export is damaged: it costs itself, and is told."""

import sqlite3
from contextlib import closing

import pytest

from tests.readers.nsys.damage import whole
from tests.readers.nsys.exports import as_parquet
from tracekit.errors import TraceError
from tracekit.readers import nsys

TABLES = sorted(whole().rows)
# What was not recorded, or is not known, has no table; that others prove to be lost is told.
NEEDED = {"StringIds", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"}
# Columns that some versions do not write, or that programs and options leave out.
MAY_LACK = {
    *("globalPid", "eventType", "text", "textId", "binaryData", "srcKind", "dstKind"),
    *("gpuId", "memoryBandwidth", "totalMemory", "name", "value"),
}
# Ranges may be open when the profile ends, and have no name or payload; GPUs may be unknown, and so may copies' memory.
MAY_BE_NULL = {
    *("end", "text", "textId", "binaryData", "srcKind", "dstKind"),
    *("name", "value", "memoryBandwidth", "totalMemory"),
}
# Any text is a name or a setting, as which SQLite takes numbers too, and any time may be the first; addresses and
# ids of graphs are any number.
MAY_BE = {
    "damaged": {"name", "value", "text"},
    -1: {"start", "name", "value", "address", "graphId"},
    2**62: {"name", "value", "address", "graphId"},
}
# NVTX has open ranges; the API has none.
NEVER_NULL = {("CUPTI_ACTIVITY_KIND_KERNEL", "end"), ("CUPTI_ACTIVITY_KIND_RUNTIME", "end"), ("StringIds", "value")}
ODD = {"text": (b"\xff", 7), "binaryData": ("text", 7)}
# Of device rows; what rests on these is withheld by other kinds of losses than details.
WORK = ["device", "kind", "direction"]


def frames(trace):
    whole_frames = ("events", "launches", "spans", "syncs", "devices", "ops", "memory")
    hosts = trace.hosts[["host", "origin_ns", "world_size"]]
    return [getattr(trace, name).to_csv() for name in whole_frames] + [hosts.to_csv()]


def changes(table, rows):
    """(column, value, SQL, row) of each change of a table; the value is `...` where the column goes."""
    yield "", ..., f'DROP TABLE "{table}"', ()
    yield "", ..., f'DELETE FROM "{table}"', ()
    for number, column in enumerate(rows[0]):
        yield column, ..., f'ALTER TABLE "{table}" DROP COLUMN "{column}"', ()
        row = 1 + number % len(rows)
        for value in (None, "damaged", -1, 2**62, *ODD.get(column, ())):
            where = f'rowid = (SELECT rowid FROM "{table}" LIMIT 1 OFFSET {row - 1})'
            yield column, value, f'UPDATE "{table}" SET "{column}" = ? WHERE {where}', (value,)


def is_legal(table, column, value):
    """Whether another profile may hold this, so that nothing tells that it is damage."""
    if not column:
        return table not in NEEDED
    if value is None:
        return column in MAY_BE_NULL and (table, column) not in NEVER_NULL
    return column in (MAY_LACK if value is ... else MAY_BE.get(value, ()))


def silent_changes(tmp_path, table):
    """The changes of a table that change figures without a loss, or device work with one of details alone; and how many
    were read and refused."""
    tables = whole()
    source = tables.write(tmp_path / "whole.sqlite")
    expected = nsys.read(source)
    assert not len(expected.losses)
    own, work = frames(expected), expected.events[WORK].to_csv()
    data, path = source.read_bytes(), source  # the same name, which the host has where its own is lost
    silent, count, refused = [], 0, 0
    for column, value, statement, values in changes(table, tables.rows[table]):
        path.write_bytes(data)
        with closing(sqlite3.connect(path)) as base:
            try:
                base.execute("PRAGMA synchronous = OFF")
                base.execute(statement, values)
                base.commit()
            except sqlite3.Error:  # SQLite itself takes no such value
                continue
        count += 1
        try:
            trace = nsys.read(path)
        except TraceError:
            refused += 1
            continue
        kinds = {*trace.losses["what"]}
        is_mild = kinds == {"details"} and trace.events[WORK].to_csv() != work
        if (is_mild or not kinds) and frames(trace) != own and not is_legal(table, column, value):
            silent.append((table, column, value, statement[:6], is_mild))
    return silent, count, refused


@pytest.mark.parametrize("table", TABLES)
def test_any_one_value_that_is_damaged_costs_itself_and_is_told(tmp_path, table):
    """Nothing that changes a figure is silent, but another legal value."""
    silent, count, refused = silent_changes(tmp_path, table)
    assert not silent
    assert count > 4
    assert refused == 0 or table == "StringIds"


@pytest.mark.parametrize("table", TABLES)
def test_of_a_directory_of_parquet_any_table_that_is_lost_or_cut_is_told(tmp_path, table):
    directory = as_parquet(whole().write(tmp_path / "whole.sqlite"), tmp_path / "whole_pqtdir")
    file = directory / f"{table}.parquet"
    file.write_bytes(file.read_bytes()[:-9])
    named = directory / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    if table == "StringIds":
        with pytest.raises(TraceError, match=r"StringIds\.parquet cannot be read"):
            nsys.read_parquet(named)
        return
    lost = nsys.read_parquet(directory / "StringIds.parquet").losses
    assert any(evidence.startswith(f"{table}.parquet: ") for evidence in lost["evidence"])
