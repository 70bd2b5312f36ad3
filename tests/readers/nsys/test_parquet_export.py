"""Exports of Nsight Systems as directories of Parquet: they give the trace that the same tables in SQLite give."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pandas.testing import assert_frame_equal

from tests.readers.nsys.exports import Tables, as_parquet
from tracekit.errors import TraceError
from tracekit.readers import read, unpacking


def losses(trace):
    """What is lost of a trace, with the beginning of what says so."""
    return [[*row[:3], row[3].split(":")[0]] for row in trace.losses.iloc[:, 1:].astype(object).to_numpy().tolist()]


@pytest.fixture
def directory(tmp_path):
    tables = Tables()
    tables.kernel("gemm", 100, 150, correlationId=1).kernel("ncclDevKernel_AllReduce_Sum_f32", 160, 180)
    tables.copy(1, 90, 95).call("cudaLaunchKernel_v7000", 80, 84, 1).range("step 1", 70, 130)
    return as_parquet(tables.write(tmp_path / "run.sqlite"), tmp_path / "run_pqtdir")


def test_a_directory_of_parquet_gives_the_trace_of_the_same_tables_in_sqlite(directory):
    pq.write_table(pa.table({"start": [1]}), directory / "OSRT_API.parquet")  # not read
    trace, expected = read(directory), read(directory.with_name("run.sqlite"))
    for name in ("events", "spans", "launches", "syncs", "devices"):
        assert_frame_equal(getattr(trace, name), getattr(expected, name))
    assert len(trace.events) == 3
    assert (trace.format, trace.notes) == ("nsys-parquet", expected.notes)


def test_integers_that_pandas_has_made_floats_for_their_nulls_are_integers(directory):
    expected = read(directory)
    for file in directory.iterdir():
        rows = pq.read_table(file).replace_schema_metadata().to_pandas()
        whole = [name for name in rows.select_dtypes("integer") if not name.startswith("global")]
        rows.astype(dict.fromkeys(whole, "float64")).to_parquet(file)
    trace = read(directory)
    for name in ("events", "spans", "launches", "syncs", "devices"):
        assert_frame_equal(getattr(trace, name), getattr(expected, name))
    assert trace.notes == expected.notes


@pytest.mark.parametrize("writer", [pa.ipc.new_file, pa.ipc.new_stream])
def test_a_directory_of_arrow_is_read_likewise(directory, tmp_path, writer):
    other = tmp_path / "run_arwdir"
    other.mkdir()
    for file in directory.iterdir():
        table = pq.read_table(file)
        with writer(other / f"{file.stem}.arrow", table.schema) as out:
            out.write_table(table)
    trace, expected = read(other), read(directory)
    assert trace.hosts["host"].tolist() == ["run"]
    assert_frame_equal(trace.events, expected.events)
    assert_frame_equal(trace.spans, expected.spans)
    (other / "NVTX_EVENTS.arrow").write_bytes((other / "NVTX_EVENTS.arrow").read_bytes()[:100])
    assert losses(read(other)) == [["tables", 1, 5, "NVTX_EVENTS.arrow"]]


def test_a_table_of_more_rows_than_its_size_can_hold_is_refused(directory):
    file = directory / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    pq.write_table(pq.read_table(file).slice(0, 1).take([0] * (1 << 21)), file, compression="zstd")
    with pytest.raises(
        TraceError, match=r"KERNEL\.parquet cannot be read: it unpacks to more than 200 times its size\."
    ):
        read(directory)


def test_a_packed_table_of_arrow_is_bounded_too(directory, tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "FREE_BYTES", 1 << 20)
    monkeypatch.setattr(unpacking, "MOST_EXPANSION", 2)
    other = tmp_path / "run_arwdir"
    other.mkdir()
    for file in directory.iterdir():
        table = pq.read_table(file)
        if file.stem == "CUPTI_ACTIVITY_KIND_KERNEL":
            table = table.slice(0, 1).take([0] * (1 << 17))
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(other / f"{file.stem}.arrow", table.schema, options=options) as out:
            out.write_table(table, max_chunksize=1 << 14)
    with pytest.raises(TraceError, match=r"KERNEL\.arrow cannot be read: it unpacks to more than"):
        read(other)


def test_the_ranks_of_a_job_may_each_have_a_directory(tmp_path):
    for rank in range(2):
        (tmp_path / "job").mkdir(exist_ok=True)
        Tables().kernel(f"gemm{rank}", 100, 150).write(tmp_path / f"{rank}.sqlite")
        as_parquet(tmp_path / f"{rank}.sqlite", tmp_path / f"job/rank{rank}_pqtdir")
    assert sorted(read(tmp_path / "job").events["name"]) == ["gemm0", "gemm1"]


def test_any_of_its_tables_may_be_named(directory):
    assert len(read(directory / "CUPTI_ACTIVITY_KIND_KERNEL.parquet").events) == 3


@pytest.mark.parametrize("damage", [b"", b"PAR1 and no more", None])
@pytest.mark.parametrize("table", ["NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"])
def test_a_broken_table_costs_itself_and_is_counted(directory, table, damage):
    file = directory / f"{table}.parquet"
    file.write_bytes(file.read_bytes()[:-20] if damage is None else damage)
    trace = read(directory)
    assert losses(trace)[0] == ["tables", 1, 5, file.name]
    assert len(trace.events) == {"NVTX_EVENTS": 3, "CUPTI_ACTIVITY_KIND_KERNEL": 1}.get(table, 2)
    assert f"1 of 5 tables could not be read ({file.name}: " in " ".join(trace.notes)


@pytest.mark.parametrize(("kept", "named"), [({"StringIds"}, "CUPTI_ACTIVITY_KIND_KERNEL"), (None, "StringIds")])
def test_without_the_strings_or_all_other_tables_it_is_one_sentence_that_names_the_file(directory, kept, named):
    for file in directory.iterdir():
        if file.stem not in kept if kept else file.stem == named:
            file.write_bytes(b"PAR1 and no more")
    with pytest.raises(TraceError, match=rf"{named}\.parquet cannot be read: .*Export the report again"):
        read(directory)


@pytest.mark.parametrize(
    "name", ["", 'a" DEFAULT 1 CHECK (abs(-9223372036854775808)) CONSTRAINT "a', 'a"', "two words", "DEVICEID"]
)
def test_a_column_that_nsys_does_not_write_is_left_out_and_counted(directory, name):
    file = directory / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    table = pq.read_table(file)
    pq.write_table(table.append_column(name, table["start"]), file)
    trace = read(directory)
    assert trace.events.equals(read(directory.with_name("run.sqlite")).events)
    assert losses(trace) == [
        ["details", 1, table.num_columns + 1, f"columns of {file.name} that Nsight Systems does not write"]
    ]


def test_an_id_that_stands_for_two_texts_stands_for_none(directory):
    file = directory / "StringIds.parquet"
    strings = pq.read_table(file).to_pandas()
    gemm = strings[strings["value"] == "gemm"]
    pd.concat([gemm.assign(value="other"), strings, strings]).to_parquet(file)
    trace = read(directory)
    assert not {"gemm", "other"} & {*trace.events["name"]}
    assert [what for what, *_ in losses(trace)] == ["tables", "kinds"]


@pytest.mark.parametrize(
    ("column", "bad"), [("id", None), ("id", 0.5), ("id", b"x"), ("id", "x"), ("value", None), ("value", 0.5)]
)
def test_strings_of_another_type_are_no_names(directory, column, bad):
    put(directory / "StringIds.parquet", column, lambda strings: pa.array([bad] * len(strings)))
    assert [what for what, *_ in losses(read(directory))] == ["tables", "tables", "kinds"]


@pytest.mark.parametrize("column", ["id", "value"])
def test_strings_without_ids_or_texts_are_one_sentence(directory, column):
    put(directory / "StringIds.parquet", column, lambda strings: pa.array([[1]] * len(strings)))
    with pytest.raises(TraceError, match=r"StringIds\.parquet cannot be read: it has no columns id and value"):
        read(directory)


def put(file, column, values):
    """Put `values`, made of those that it has, into a column of the table in `file`."""
    table = pq.read_table(file)
    pq.write_table(table.set_column(table.column_names.index(column), column, values(table[column])), file)


@pytest.mark.parametrize(
    "kind",
    [pa.decimal128(30, 2), pa.float32(), pa.time32("ms"), pa.duration("ns"), pa.dictionary(pa.int8(), pa.int64())],
)
def test_numbers_of_another_type_are_numbers(directory, kind):
    expected = read(directory)
    for name in ("streamId", "correlationId"):
        file = directory / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
        put(file, name, lambda column: pa.array(column.to_pylist(), kind))
    trace = read(directory)
    assert trace.events.equals(expected.events)
    assert losses(trace) == []


@pytest.mark.parametrize("bad", [True, 0.5, 1e300, float("inf"), "x", b"\xff"])
def test_what_is_no_number_is_counted(directory, bad):
    file = directory / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    put(file, "streamId", lambda column: pa.array([bad] * len(column)))
    trace = read(directory)
    assert len(trace.events) == 3
    evidence = "CUPTI_ACTIVITY_KIND_KERNEL.streamId contains values that are not integers"
    assert losses(trace) == [["details", 2, 2, evidence]]


def test_a_name_with_bytes_that_are_no_text_does_not_cost_the_file(directory):
    strings = pq.read_table(directory / "StringIds.parquet")
    values = [f"{text}\udcff".encode("utf-8", "surrogateescape") for text in strings["value"].to_pylist()]
    bad = pa.Array.from_buffers(pa.large_string(), len(values), pa.array(values, pa.large_binary()).buffers())
    pq.write_table(
        strings.set_column(strings.column_names.index("value"), "value", bad), directory / "StringIds.parquet"
    )
    assert "gemm\ufffd" in read(directory).events["name"].tolist()
